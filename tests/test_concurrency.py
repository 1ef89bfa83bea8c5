"""One file, many threads and processes."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import FakeEmbedder

from memstore import BusyError, MemoryStore, StorageError
from memstore.database import faults

SPAWN = multiprocessing.get_context("spawn")


def add_notes(path: Path, name: str, number: int, barrier) -> None:
    barrier.wait()
    with MemoryStore(path, embedder="none") as store:
        for one in range(number):
            store.add(f"{name} wrote note {one}")


def in_processes(path: Path, processes: int, number: int) -> list[int | None]:
    barrier = SPAWN.Barrier(processes)
    started = [
        SPAWN.Process(target=add_notes, args=(path, f"process{one}", number, barrier)) for one in range(processes)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()
    return [process.exitcode for process in started]


def test_processes_that_race_to_make_a_file_make_it_once(path):
    """Ten processes that open a file which does not exist at the same moment all get their memory in."""
    assert in_processes(path, 10, 1) == [0] * 10
    with MemoryStore(path, embedder="none") as store:
        assert store.count() == 10


def test_processes_that_write_at_once_lose_nothing(path):
    """Four processes that write to one file all finish without an error."""
    assert in_processes(path, 4, 50) == [0] * 4
    with MemoryStore(path, embedder="none") as store:
        assert store.count() == 200


def test_threads_share_one_store(opened):
    """Eight threads write to and search one store object made in another thread."""
    store = opened(embedder=FakeEmbedder())

    def work(name: int) -> None:
        for one in range(25):
            added = store.add(f"thread{name} wrote note{one}x{name}")
            assert store.search(f"note{one}x{name}", k=1, signals=["keyword"])[0].memory.id == added.id

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, name) for name in range(8)]:
            done.result()
    assert store.count() == 200
    (space,) = store.spaces.list()
    assert (space.vectors, space.pending) == (200, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child_uses_the_store_without_harm_to_its_parent(words):
    """After a fork both sides write through the same store object, and nothing is lost."""
    words.add("before the fork")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            words.add("from the child")
            words.close()
            code = 0
        finally:
            os._exit(code)
    words.add("from the parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    words.add("after the child")
    assert words.count() == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child_embeds_like_its_parent(real):
    """The bundled model goes on working in a forked child, whose engine lost its threads."""
    real.add("before the fork")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            added = real.add("from the child")
            code = 0 if not added.pending and not real.search("child").skipped else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not real.add("after the child").pending


def test_a_store_is_closed_once_no_thread_is_in_a_transaction(path, monkeypatch):
    """Closing waits for the write of another thread, which is whole; too long a one is an error, and closed later."""
    store = MemoryStore(path, embedder="none")
    store.add("the first")
    began, go = threading.Event(), threading.Event()

    def write() -> None:
        with store._database.write() as conn:
            began.set()
            go.wait(30)
            conn.execute("UPDATE memories SET author = 'Ana'")

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        began.wait(30)
        with monkeypatch.context() as patched:
            patched.setattr(faults, "BUSY_SECONDS", 0.1)
            with pytest.raises(BusyError, match=r"memory\.db is still used by another thread; close it again when"):
                store.close()
        with pytest.raises(StorageError, match=r"memory\.db was closed; open the store again"):
            store.count()
        threading.Timer(0.2, go.set).start()
        store.close()
        assert not path.with_name("memory.db-wal").exists()
        writing.result()
    with MemoryStore(path, embedder="none") as again, again._database.read() as conn:
        assert conn.execute("SELECT author FROM memories").get == "Ana"


def test_an_answer_is_read_from_one_state(path):
    """A search sees a memory with all of its indexes or not at all, while another connection writes."""
    with MemoryStore(path, embedder="none") as writer, MemoryStore(path, embedder="none") as reader:
        with writer._database.write() as conn:
            conn.execute("UPDATE memories SET text = text")
            assert reader.count() == 0
        writer.add("Ana wrote this", author="Ana")
        hit = reader.search("Ana")[0]
        assert hit.signals["keyword"].rank == hit.signals["entity"].rank == 1


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this platform does not tell who holds which lock")
def test_a_second_store_in_one_process_keeps_the_locks_of_the_first(path):
    """Opening and closing a file again in one process gives up none of the locks that its connections hold."""

    def locks() -> list[str]:
        inode = str(path.stat().st_ino)
        held = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return sorted(" ".join(fields[3:]) for fields in held if fields[5].rpartition(":")[2] == inode)

    with MemoryStore(path, embedder="none") as first:
        first.add("a note")
        before = locks()
        assert before
        MemoryStore(path, embedder="none").close()
        assert locks() == before

"""Forks: a child uses its parent's store as its own, and never harms what the parent has open."""

import os
import subprocess
import sys
import threading

import apsw
import pytest
from conftest import FakeEmbedder

from memstore import MemoryStore

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


def child(work) -> int:
    """Run a function in a forked child and return the child's process id; its exit code is 1 where that fails."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return process


def ended(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def whole(path) -> bool:
    """Say whether SQLite finds nothing wrong with a file."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.pragma("integrity_check") == "ok"
    finally:
        connection.close()


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_what_a_child_writes_after_its_parent_has_closed_the_file_is_kept(path, journal):
    """A child's memory is there even when its parent closes the store first and the child is killed after."""
    parent_closed, told = os.pipe()
    store = MemoryStore(path, embedder="none", journal=journal)
    store.add("before the fork")

    def work():
        assert store.count() == 1
        os.read(parent_closed, 1)
        store.add("after the parent has closed")

    process = child(work)
    store.close()
    os.write(told, b"x")
    assert ended(process) == 0
    with MemoryStore(path, embedder="none") as again:
        assert sorted(memory.text for memory in again.list()) == ["after the parent has closed", "before the fork"]
        assert [hit.memory.text for hit in again.search("closed")] == ["after the parent has closed"]


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="this platform does not tell who holds which lock")
def test_a_child_holds_locks_of_its_own(words):
    """What a child reads in a transaction is locked by the child, not only by the parent it was forked from."""
    words.add("before the fork")
    path = words.stats().path

    def work():
        with words._database.read() as conn:
            assert conn.execute("SELECT count(*) FROM memories").get == 1
            # The file beside it is made anew after a fork.
            inodes = {str(os.stat(f"{path}{end}").st_ino) for end in ("", "-shm")}
            with open("/proc/locks", encoding="utf-8") as file:
                held = [line.split() for line in file]
            mine = {fields[5].rpartition(":")[2] for fields in held if fields[4] == str(os.getpid())}
            assert inodes <= mine

    assert ended(child(work)) == 0


def test_threads_write_while_their_process_forks(opened, path):
    """Children forked while threads write all write too, and nothing of either side is lost."""
    store = opened(embedder=FakeEmbedder())
    store.add("the first")
    stop = threading.Event()
    written: list[int] = []

    def write(name: int) -> None:
        number = 0
        while not stop.is_set():
            store.add(f"thread {name} note {number}")
            number += 1
        written.append(number)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    try:
        children = [child(lambda name=name: store.add(f"child {name}")) for name in range(8)]
        assert [ended(process) for process in children] == [0] * 8
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert sum(written) > 0
    assert store.count() == 1 + 8 + sum(written)
    (space,) = store.spaces.list()
    assert (space.vectors, space.pending) == (store.count(), 0)
    store.close()
    assert whole(path)


def test_a_fork_waits_for_the_transactions_of_other_threads(words):
    """A child forked while another thread is in a transaction can use the store; the fork waits for that thread."""
    began, forking = threading.Event(), threading.Event()

    def write():
        with words._database.write() as conn:
            began.set()
            forking.wait(30)
            conn.execute("UPDATE memories SET text = text")

    words.add("before the fork")
    thread = threading.Thread(target=write)
    thread.start()
    began.wait(30)
    threading.Timer(0.2, forking.set).start()
    process = child(lambda: words.add("from the child"))
    thread.join()
    assert ended(process) == 0
    assert words.count() == 2


IN_A_TRANSACTION = """
import os, sys
from memstore import MemoryStore
from memstore.errors import StorageError

path, journal, how = sys.argv[1:]
other = path + ".other"
store = MemoryStore(path, embedder="none", journal=journal)
store.add("before the fork")


def refused(ask):
    try:
        ask()
    except StorageError as error:
        assert "forked in the middle of a transaction" in str(error), error
    else:
        raise AssertionError("the child used the file")


with store._database.write() as conn:
    # More than SQLite keeps in memory: some of it is in the file or its log before the commit.
    conn.pragma("cache_size", 10)
    conn.executemany("INSERT INTO stems (word, stems) VALUES (?, ?)", [(f"word{n}", "x" * 900) for n in range(2000)])
    process = os.fork()
    if process == 0:
        refused(store.count)
        refused(lambda: store.add("from the child"))
        refused(lambda: MemoryStore(path, embedder="none"))
        refused(lambda: MemoryStore(path, embedder="none", read_only=True))
        # Another file is no matter.
        with MemoryStore(other, embedder="none") as mine:
            mine.add("a file of the child's")
        if how == "close":
            store.close()
            os._exit(0)
        elif how == "kill":
            os._exit(0)
        elif how == "exit":
            sys.exit(0)
    if process:
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        assert code == (1 if how == "end" else 0), code
        conn.executemany("INSERT INTO stems (word, stems) VALUES (?, ?)", [(f"late{n}", "y" * 900) for n in range(500)])
assert process, "the child went on after the transaction of its parent"
with store._database.read() as conn:
    print(conn.execute("SELECT count(*) FROM stems WHERE stems LIKE 'xxx%' OR stems LIKE 'yyy%'").get)
    print(conn.pragma("integrity_check"))
store.add("after the child")
print(store.count())
store.close()
with MemoryStore(path, embedder="none") as again:
    print(again.count())
"""


@pytest.mark.parametrize(
    ("journal", "how"),
    [("wal", "close"), ("wal", "kill"), ("wal", "exit"), ("wal", "end"), ("delete", "exit"), ("delete", "end")],
)
def test_a_child_forked_in_a_transaction_leaves_it_to_its_parent(path, journal, how):
    """A child forked in the middle of a transaction is refused the file, and however it ends the parent commits."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_TRANSACTION, str(path), journal, how],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2500", "ok", "2", "2"]
    if how == "end":
        assert "forked in the middle of a write, which its parent alone can finish" in done.stderr


UNTOUCHED = """
import os, sys
from memstore import MemoryStore

store = MemoryStore(sys.argv[1], embedder="none")
store.add("before the fork")
process = os.fork()
if process == 0:
    if sys.argv[2] == "close":
        store.close()
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
store.add("after the child")
print(store.count())
"""


@pytest.mark.parametrize("how", ["leave", "close"])
def test_a_child_that_does_not_use_the_store_ends_without_harm(path, how):
    """A child that ends as a program ends, with the store closed or left as it is, takes nothing from its parent."""
    command = [sys.executable, "-c", UNTOUCHED, str(path), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr
    with MemoryStore(path, embedder="none") as again:
        assert again.count() == 2

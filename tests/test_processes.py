"""Several processes on one file, each started anew: what one writes, the others neither lose nor see half of."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from conftest import FakeEmbedder

from memstore import BusyError, MemoryStore, NewMemory
from memstore.database import faults

SPAWN = multiprocessing.get_context("spawn")
# Long enough for a busy machine; what hangs fails.
PATIENCE = 120


class Run:
    """Functions of this module, each in a process of its own; the processes begin their work together."""

    def __init__(self, path: Path, *works: tuple[Any, ...], embedder: Any = "none") -> None:
        self._barrier = SPAWN.Barrier(len(works) + 1)
        self._processes = [SPAWN.Process(target=begin, args=(path, embedder, self._barrier, *work)) for work in works]
        for process in self._processes:
            process.start()

    def begin(self) -> None:
        self._barrier.wait(PATIENCE)

    @property
    def running(self) -> bool:
        return any(process.is_alive() for process in self._processes)

    def ended(self) -> list[int | None]:
        for process in self._processes:
            process.join(PATIENCE)
            if process.is_alive():
                process.kill()
        return [process.exitcode for process in self._processes]


def begin(path: Path, embedder: Any, barrier: Any, work: Any, *arguments: Any) -> None:
    barrier.wait(PATIENCE)
    with MemoryStore(path, embedder=embedder) as store:
        work(store, *arguments)


def together(path: Path, *works: tuple[Any, ...], embedder: Any = "none") -> list[int | None]:
    run = Run(path, *works, embedder=embedder)
    run.begin()
    return run.ended()


def merge(store: MemoryStore, name: str, rounds: int) -> None:
    for one in range(rounds):
        store.add("what all of them say", tags=[f"{name}-{one}"], metadata={f"{name}-{one}": one})
        store.add(f"{name} has come to {one}", key="progress", tags=[f"{name}-{one}"])
        store.add(f"turn {one} of {name}", thread="talk")


def test_what_two_processes_merge_into_one_memory_is_all_there(path):
    """Writes that read first and change then lose no other's change, and no two take the same place in a thread."""
    rounds = 30
    assert together(path, (merge, "one", rounds), (merge, "two", rounds)) == [0, 0]
    everything = {f"{name}-{one}" for name in ("one", "two") for one in range(rounds)}
    with MemoryStore(path, embedder="none") as store:
        assert store.count() == 2 + 2 * rounds
        (same,) = (one for one in store.list(limit=1000) if one.text == "what all of them say")
        assert set(same.tags) == set(same.metadata) == everything
        keyed = store.get(key="progress")
        assert keyed is not None
        assert set(keyed.tags) == everything
        assert keyed.text in {f"{name} has come to {rounds - 1}" for name in ("one", "two")}
        turns = store.list(thread="talk", order="thread", limit=1000)
        assert len({turn.position for turn in turns}) == 2 * rounds
        for name in ("one", "two"):
            own = [turn.text for turn in turns if turn.text.endswith(name)]
            assert own == [f"turn {one} of {name}" for one in range(rounds)]


def test_processes_that_add_the_same_at_once_make_one_memory(path):
    """The same text, and the same key, from three processes at once is one memory each, made once."""
    works = [(say_the_same, str(one)) for one in range(3)]
    assert together(path, *works) == [0] * 3
    with MemoryStore(path, embedder="none") as store:
        assert store.count() == 20 + 1
        assert {tag for memory in store.list(limit=1000) for tag in memory.tags} == {"0", "1", "2"}
        assert all(len(memory.tags) == 3 for memory in store.list(limit=1000))
        assert len(store.search("sentence", k=100)) == 20


def say_the_same(store: MemoryStore, name: str) -> None:
    for one in range(20):
        store.add(f"sentence {one}", tags=[name])
        store.add(f"the latest is {one} by {name}", key="latest", tags=[name])


def change(store: MemoryStore, rounds: int) -> None:
    for one in range(rounds):
        name = ("Ana", "Tom")[one % 2]
        added = store.add(f"{name} baked loaf {one}", author=name, tags=[name])
        kept = store.get(key="changing")
        assert kept is not None
        store.update(kept.id, text=f"{name} keeps the bread", author=name, tags=[name], metadata={"by": name})
        if one % 3 == 0:
            store.delete(added.id)


def test_a_search_sees_memories_whole_while_another_process_changes_them(path):
    """What is found while others add, change and delete is in one piece: text, author, tags and metadata agree."""
    with MemoryStore(path, embedder="none") as store:
        store.add("Ana keeps the bread", key="changing", author="Ana", tags=["Ana"], metadata={"by": "Ana"})
        run = Run(path, (change, 60))
        run.begin()
        searches, seen = 0, set[str]()
        while run.running or not searches:
            for hit in store.search("bread loaf", k=50):
                name = hit.memory.text.partition(" ")[0]
                assert (hit.memory.author, hit.memory.tags) == (name, (name,))
                assert hit.memory.metadata in ({}, {"by": name})
                assert hit.terms
                seen.add(hit.memory.text)
            for memory in store.list(tags=["Tom"], limit=1000):
                assert memory.author == "Tom"
            searches += 1
        assert run.ended() == [0]
        assert searches > 1
        assert len(seen) > 2
        assert store.count() == 1 + 60 - 20


def fill(store: MemoryStore) -> None:
    store.spaces.fill()
    (space,) = store.spaces.list()
    assert (space.pending, space.problem) == (0, None)


def test_two_processes_fill_one_space(path):
    """Two processes that fill one space at once leave one vector a passage."""
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        store.add("the first makes the space")
        store.add_many([NewMemory(text=f"note {one} that waits") for one in range(300)], embed="later")
        assert store.stats().pending == 300
        assert together(path, (fill,), (fill,), embedder=FakeEmbedder()) == [0, 0]
        (space,) = store.spaces.list()
        assert (space.vectors, space.pending, space.state) == (301, 0, "ready")
        with store._database.read() as conn:
            assert conn.execute("SELECT count(*), count(DISTINCT rowid) FROM vectors_1").get == (301, 301)
        assert store.search("note 7 that waits", k=1, signals=["semantic"])[0].memory.text == "note 7 that waits"


def bring_the_first(store: MemoryStore, name: str) -> None:
    added = [store.add(f"{name} begins with {one}") for one in range(5)]
    assert not any(memory.pending for memory in added)


def test_memories_that_race_to_make_the_first_space_all_get_vectors(path):
    """Where processes bring the first memories of a file at once its space is made once, and no vector is missing."""
    works = [(bring_the_first, str(one)) for one in range(3)]
    assert together(path, *works, embedder=FakeEmbedder()) == [0] * 3
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        (space,) = store.spaces.list()
        assert (space.vectors, space.pending, space.state) == (15, 0, "ready")


def write_notes(store: MemoryStore, number: int) -> None:
    for one in range(number):
        store.add(f"note {one}")


def test_a_long_read_sees_one_state_and_holds_up_no_writer(path):
    """While a reader is in the middle of a transaction others write, and it sees nothing of that until it ends."""
    with MemoryStore(path, embedder="none") as store:
        store.add("what was there")
        run = Run(path, (write_notes, 30))
        with store._database.read():
            assert store.count() == 1
            run.begin()
            assert run.ended() == [0]
            assert store.count() == 1
            assert not store.search("note")
        assert store.count() == 31


def wait_in_vain(store: MemoryStore) -> None:
    faults.BUSY_SECONDS = 1.0
    with pytest.raises(BusyError, match=r"memory.db was locked by another process for more than 1 seconds; try again"):
        store.add("never stored")
    assert store.search("what")[0].memory.text == "what was there"
    assert store.count() == 1
    with pytest.raises(BusyError):
        store.delete(1)


def test_a_writer_that_waits_too_long_says_so_and_readers_do_not_wait(path):
    """A lock held by another process for longer than the wait is a clear error; reading goes on meanwhile."""
    with MemoryStore(path, embedder="none") as store:
        store.add("what was there")
        run = Run(path, (wait_in_vain,))
        with store._database.write():
            run.begin()
            assert run.ended() == [0]
        assert store.count() == 1
        store.add("after the lock")
        assert store.count() == 2

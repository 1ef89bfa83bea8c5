"""The store for asyncio: the names of `memstore.MemoryStore`, each call awaited while it runs in a thread.

from memstore.aio import MemoryStore

async with MemoryStore("agent.db") as store:
    await store.add("ERR-4018 means the card has expired.")
    for hit in await store.search("ERR-4018"):
        print(hit.explain())
"""

import asyncio
import contextvars
import functools
import inspect
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from memstore import checks, maintenance, profiles, spaces, store, terms
from memstore.errors import InvalidInputError, StorageError
from memstore.loading import Guard

P = ParamSpec("P")
Of = TypeVar("Of")
Result = TypeVar("Result")


class _Calls:
    """The calls of one store, in threads of their own; the first of them opens it."""

    def __init__(self, name: str, open_store: Callable[[], store.MemoryStore], workers: Callable[[], int]) -> None:
        self._name = name
        self._open_store = open_store
        self._workers = workers
        self._store: store.MemoryStore | None = None
        self._opening, self._changing = Guard(), Guard()
        self._threads: ThreadPoolExecutor | None = None
        self._pid = os.getpid()
        self._closing: Future[None] | None = None

    async def run(self, call: Callable[[store.MemoryStore], Result]) -> Result:
        """Return what a call in a thread returns.

        Where the awaiting task is cancelled, a call that has begun goes on to its end; another is not begun.
        """
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        with self._changing.lock:
            if self._closing is not None:
                raise StorageError(f"{self._name} was closed; open the store again.")
            if self._threads is None or self._pid != os.getpid():
                # A forked child has none of its parent's threads.
                most = checks.whole("workers", self._workers(), least=1)
                self._threads, self._pid = ThreadPoolExecutor(most, thread_name_prefix="memstore"), os.getpid()
            running = loop.run_in_executor(self._threads, context.run, lambda: call(self._opened()))
        return await running

    def end(self) -> Future[None]:
        """Take no more calls, and close the store once those that were made have ended."""
        with self._changing.lock:
            if self._closing is None or (self._closing.done() and self._closing.exception() is not None):
                # Not in one of the threads that it waits for.
                apart = ThreadPoolExecutor(1, thread_name_prefix="memstore-end")
                self._closing = apart.submit(self._close)
                apart.shutdown(wait=False)
            return self._closing

    def _opened(self) -> store.MemoryStore:
        with self._opening.lock:
            if self._store is None:
                self._store = self._open_store()
            return self._store

    def _close(self) -> None:
        if self._threads is not None and self._pid == os.getpid():
            self._threads.shutdown()
        if self._store is not None:
            self._store.close()


class _Part(Generic[Of]):
    """What calls of a store, or of a part of it, are made through."""

    def __init__(self, calls: _Calls, of: Callable[[store.MemoryStore], Of]) -> None:
        self._calls = calls
        self._of = of


def _awaited(
    method: Callable[Concatenate[Of, P], Result],
) -> Callable[Concatenate[_Part[Of], P], Coroutine[Any, Any, Result]]:
    """Return a method as one with the same arguments that is awaited."""

    @functools.wraps(method)
    async def awaited(self: _Part[Of], /, *args: P.args, **kwargs: P.kwargs) -> Result:
        if kwargs.get("progress") is not None:
            kwargs["progress"] = _told_here(kwargs["progress"])
        return await self._calls.run(lambda opened: method(self._of(opened), *args, **kwargs))

    return awaited


def _told_here(progress: Any) -> Callable[..., None]:
    """Return what a worker calls so that `progress` is called in the running loop."""
    loop = asyncio.get_running_loop()
    if inspect.iscoroutinefunction(progress):
        raise InvalidInputError("progress is a coroutine function, which no one awaits; give a plain function.")

    def told(*done: Any) -> None:
        # A loop that is closed has no one to tell; what it began goes on.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(progress, *done)

    return told


def _like(
    init: Callable[Concatenate[store.MemoryStore, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate["MemoryStore", P], None]]:
    """Return a decorator that gives a constructor the arguments of another."""
    return lambda own: cast(Callable[Concatenate["MemoryStore", P], None], functools.wraps(init)(own))


class Spaces(_Part[spaces.Spaces]):
    """The embedding spaces of one store; see `memstore.spaces.Spaces`."""

    list = _awaited(spaces.Spaces.list)
    describe = _awaited(spaces.Spaces.describe)
    load = _awaited(spaces.Spaces.load)
    add = _awaited(spaces.Spaces.add)
    fill = _awaited(spaces.Spaces.fill)
    estimate = _awaited(spaces.Spaces.estimate)
    default = _awaited(spaces.Spaces.default)
    remove = _awaited(spaces.Spaces.remove)
    compare = _awaited(spaces.Spaces.compare)


class Terms(_Part[terms.Terms]):
    """The known terms of one store; see `memstore.terms.Terms`."""

    add = _awaited(terms.Terms.add)
    add_many = _awaited(terms.Terms.add_many)
    remove = _awaited(terms.Terms.remove)
    merge = _awaited(terms.Terms.merge)
    list = _awaited(terms.Terms.list)


class Profiles(_Part[profiles.Profiles]):
    """The profiles of one store; see `memstore.profiles.Profiles`."""

    list = _awaited(profiles.Profiles.list)
    save = _awaited(profiles.Profiles.save)
    remove = _awaited(profiles.Profiles.remove)


class Maintenance(_Part[maintenance.Maintenance]):
    """The care of the file; see `memstore.maintenance.Maintenance`."""

    doctor = _awaited(maintenance.Maintenance.doctor)
    repair = _awaited(maintenance.Maintenance.repair)
    reindex = _awaited(maintenance.Maintenance.reindex)
    purge = _awaited(maintenance.Maintenance.purge)
    backup = _awaited(maintenance.Maintenance.backup)


class MemoryStore(_Part[store.MemoryStore]):
    """A `memstore.MemoryStore` whose methods are awaited, with the same arguments and answers, and the same errors.

    Nothing of it runs in the event loop: each call runs in one of `workers` threads of the store's own, in the order
    made where more wait than can run. (The first to import a library, a model's or the stemmers', holds up all threads
    of a Python for moments, as imports do.) The file is opened by `async with`, else by the first call, which then
    raises what opening raises. Tasks of several event loops may share one store.

    A task that is cancelled while it awaits a call is cancelled at once; a call that has begun runs on to its end all
    the same, so that a write is stored whole, and one that still waits for a thread is not made. Leaving the
    `async with`, or `close`, waits for the calls that were made before; a call after that raises `StorageError`.

    An iterable that is given, a `prune`, a `recogniser`, a tokeniser and an embedder of the caller's own are called in
    threads, with the context variables of the caller but for the embedder; `progress` is called in the event loop, and
    what it raises goes to the loop's exception handler and stops nothing. `workers` can be set before the first call,
    or by a subclass.
    """

    workers = 4

    @_like(store.MemoryStore.__init__)
    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        calls = _Calls(Path(str(path)).name, lambda: store.MemoryStore(path, **options), lambda: self.workers)
        super().__init__(calls, lambda opened: opened)
        self.spaces = Spaces(calls, lambda opened: opened.spaces)
        self.terms = Terms(calls, lambda opened: opened.terms)
        self.profiles = Profiles(calls, lambda opened: opened.profiles)
        self.maintenance = Maintenance(calls, lambda opened: opened.maintenance)

    async def __aenter__(self) -> Self:
        try:
            await self._calls.run(self._of)
        except BaseException:
            # Whoever is cancelled meanwhile gets no store to close.
            self._calls.end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the file once the calls that were made have ended, also when the wait is cancelled.

        Can be awaited twice; where it failed the second tries again.
        """
        await asyncio.shield(asyncio.wrap_future(self._calls.end()))

    add = _awaited(store.MemoryStore.add)
    add_many = _awaited(store.MemoryStore.add_many)
    get = _awaited(store.MemoryStore.get)
    update = _awaited(store.MemoryStore.update)
    delete = _awaited(store.MemoryStore.delete)
    list = _awaited(store.MemoryStore.list)
    changes = _awaited(store.MemoryStore.changes)
    mark_used = _awaited(store.MemoryStore.mark_used)
    count = _awaited(store.MemoryStore.count)
    search = _awaited(store.MemoryStore.search)
    recall = _awaited(store.MemoryStore.recall)
    context = _awaited(store.MemoryStore.context)
    entities = _awaited(store.MemoryStore.entities)
    mentions = _awaited(store.MemoryStore.mentions)
    sparse_vector = _awaited(store.MemoryStore.sparse_vector)
    sparse_query = _awaited(store.MemoryStore.sparse_query)
    stats = _awaited(store.MemoryStore.stats)
    export = _awaited(store.MemoryStore.export)
    export_markdown = _awaited(store.MemoryStore.export_markdown)
    import_jsonl = _awaited(store.MemoryStore.import_jsonl)
    import_markdown = _awaited(store.MemoryStore.import_markdown)
    import_text = _awaited(store.MemoryStore.import_text)

"""The store of a server: opened and given its model beside the handshake, and closed when no call is left in it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memstore.errors import MemstoreError, NotFoundError, ReadOnlyError, StorageError

if TYPE_CHECKING:
    from memstore.records import Memory
    from memstore.store import MemoryStore

LOADING = (
    "The embedding model is still being loaded: this is by words and names; ask again in some seconds for meaning."
)
# A text of more characters is stored first and embedded after: nobody waits for that.
_MOST_EMBEDDED_AT_ONCE = 4_000
# What waits for vectors beyond this is left to `memstore embedders fill`: several servers may hold the file.
_MOST_FILLED = 500
# The bundled model is loaded in less; a call is not held up for one that takes its time.
_PATIENCE = 0.25
# What the store is opened with.
_HOW = ("embedder", "read_only", "durability", "journal", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a server is told: which file, of which namespace alone, whether it may write, and how the store is opened.

    `key` reads the key of an encrypted file from `key_file`, when the file is opened.
    """

    db: Path
    namespace: str | None = None
    read_only: bool = False
    embedder: str = "auto"
    durability: str = "normal"
    journal: str = "auto"
    key_file: Path | None = None
    key: Callable[[], bytes] | None = None


class _Closing(Exception):
    """The end of work that nobody waits for."""


class Holder:
    """Opens the store, loads its model and makes the vectors that wait, in a thread of its own.

    Nothing of the store is imported before `begin`: what is answered before does not wait for it. `log` is told of
    what goes wrong in the thread.
    """

    def __init__(self, options: Options, log: Callable[[str], None]) -> None:
        self.options = options
        self._log = log
        self._store: MemoryStore | None = None
        self._opening = threading.Lock()
        self._state = threading.Condition()
        self._calls = 0
        self._closing = False
        # What an earlier server left, or another program.
        self._waits = True
        self._thread: threading.Thread | None = None
        self._prepared = False

    def loading(self) -> bool:
        """Say whether the model is not there yet; one that comes in a moment is waited for."""
        with self._state:
            return not self._state.wait_for(lambda: self._prepared, _PATIENCE)

    def begin(self) -> None:
        """Begin to open the store and to load its model; can be called at every message."""
        with self._state:
            if self._closing or self._prepared or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._prepare, name="memstore model", daemon=True)
            self._thread.start()

    @contextmanager
    def call(self) -> "Iterator[MemoryStore]":
        """Hand out the store, opened, for one call; what it raises when it can't be opened is raised at every call."""
        with self._state:
            if self._closing:
                raise StorageError("the server is ending; start it again.")
            self._calls += 1
        try:
            yield self._opened()
        finally:
            with self._state:
                self._calls -= 1
                self._state.notify_all()

    def embed(self, text: str | None) -> Any:
        """Say when what is written is to get its vectors: now, or later, where a call would have to wait for them."""
        return "later" if len(text or "") > _MOST_EMBEDDED_AT_ONCE or self.loading() else "now"

    def wrote(self, memory: "Memory") -> None:
        """Have the vectors made that a memory just written waits for."""
        if memory.pending:
            with self._state:
                self._waits = True
                self._state.notify_all()

    def close(self, wait: float) -> None:
        """Close the store once the calls in it have ended; after `wait` seconds leave it as it is.

        A file that is left open loses nothing: its log is read when it is opened again.
        """
        with self._state:
            self._closing = True
            self._state.notify_all()
            ended = self._state.wait_for(lambda: not self._calls, wait)
        if ended and self._store is not None:
            try:
                self._store.close()
            except MemstoreError as error:
                self._log(str(error))

    def _opened(self) -> "MemoryStore":
        with self._opening:
            if self._store is None:
                from memstore.checks import namespace
                from memstore.store import MemoryStore

                if self.options.namespace is not None:
                    # As the store writes it: what is in it is compared by that.
                    self.options = replace(self.options, namespace=namespace(self.options.namespace))
                options = self.options
                if options.read_only and not options.db.exists():
                    raise NotFoundError(f"there is no memory file at {options.db}; memstore add makes it.")
                how: Any = {name: getattr(options, name) for name in _HOW}
                self._store = MemoryStore(options.db, **how)
            return self._store

    def _prepare(self) -> None:
        try:
            from memstore import analysis

            with self.call() as store:
                for problem in store.spaces.load().values():
                    self._log(problem)
        except MemstoreError as error:
            # The calls are told; the next one tries again.
            self._told(error)
            return
        with self._state:
            self._prepared = True
            self._state.notify_all()
        # The first word that the file does not know would wait for the stemmers.
        analysis.word_of("remembered", analysis.LANGUAGES)
        while self._something_waits():
            try:
                with self.call():
                    self._fill(store)
            except (_Closing, ReadOnlyError):
                return
            except MemstoreError as error:
                self._told(error)

    def _something_waits(self) -> bool:
        """Return when something waits for its vectors; false once the server ends."""
        with self._state:
            self._state.wait_for(lambda: self._waits or self._closing)
            self._waits = False
            return not self._closing

    def _fill(self, store: "MemoryStore") -> None:
        if 0 < store.stats().pending <= _MOST_FILLED:
            store.spaces.fill(progress=self._go_on)

    def _go_on(self, _done: int, _total: int) -> None:
        if self._closing:
            raise _Closing

    def _told(self, error: MemstoreError) -> None:
        if not self._closing:
            self._log(str(error))

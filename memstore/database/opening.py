"""How a connection to a file is opened: its key, its pragmas, its journal, and what is read where it can't be."""

import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

import apsw

from memstore.database import waiting
from memstore.database.aside import StandIn, log_waits, stand_in
from memstore.database.extension import find_extension
from memstore.database.faults import JOURNAL_REFUSED
from memstore.database.keys import unlock
from memstore.database.schema import APPLICATION_ID, identity
from memstore.errors import BusyError, MemstoreError, ReadOnlyError, StorageError

Durability: TypeAlias = Literal["normal", "full"]
Journal: TypeAlias = Literal["auto", "wal", "delete"]
DURABILITIES: tuple[Durability, ...] = ("normal", "full")
JOURNALS: tuple[Journal, ...] = ("auto", "wal", "delete")
_LOOKS = 3
# How many pages are copied before it is told.
_COPIED_PAGES = 1_000
_ENCRYPTED_CACHE_KIB = 64 * 1024


class Opener:
    """Opens the connections of one store, all in the same way."""

    def __init__(
        self, path: Path, *, read_only: bool, durability: Durability, may_leave_wal: bool, key: bytes | None
    ) -> None:
        self.path = path
        self.vectors_unavailable: str | None = None
        self._read_only = read_only
        self._durability = durability
        self._key = key
        self._extension = find_extension()
        if isinstance(self._extension, MemstoreError):
            self.vectors_unavailable = str(self._extension)
        self._lock = threading.Lock()
        self._stand_in: StandIn | None = None
        self._past: list[StandIn] = []
        self._told: set[str] = set()
        self._may_leave_wal = may_leave_wal

    def identity(self) -> tuple[int, int]:
        """Return what `schema.identity` says of the file, without any change to it or to what is beside it.

        SQLite itself reads the file: where the system's locks belong to the process, closing any other handle of a
        file gives up the locks of every connection to it (https://www.sqlite.org/howtocorrupt.html, 2.2).
        """
        found = self._identity_without_log()
        # The mark can still stand in the log alone.
        if found[0] == APPLICATION_ID or not log_waits(self.path):
            return found
        try:
            return self._identity(str(self.path), 0)
        except JOURNAL_REFUSED:
            # Of a file that is only read this is found out later, from a copy with its log.
            if found == (0, 0) and not self._read_only:
                raise
            return found

    def connect(self) -> apsw.Connection:
        """Return a new connection."""
        if self._read_only:
            return self._connect_to_read()
        try:
            return self._configured(str(self.path), apsw.SQLITE_OPEN_READWRITE)
        except JOURNAL_REFUSED:
            if not (self._may_leave_wal and self._left_wal()):
                raise
            return self._configured(str(self.path), apsw.SQLITE_OPEN_READWRITE)

    def use_journal(self, connection: apsw.Connection, wanted: Journal) -> None:
        """Bring the file into the journal mode that is wanted; raise `StorageError` where the disk refuses it."""
        mode = connection.pragma("journal_mode")
        if wanted == "delete":
            if mode == "wal":
                try:
                    self._switch(connection, "delete")
                except apsw.BusyError as error:
                    raise BusyError(
                        f"{self.path.name} is open elsewhere with a write-ahead log, which is not left meanwhile; close"
                        " it there first, or leave out journal='delete'."
                    ) from error
        elif mode != "wal":
            try:
                mode = self._switch(connection, "wal")
            except JOURNAL_REFUSED:
                mode = connection.pragma("journal_mode", "delete")
            if mode != "wal" and wanted == "wal":
                raise StorageError(
                    f"{self.path.name}: this disk can't hold a write-ahead log; leave out journal='wal', or move the"
                    " file to a local disk."
                )
            if mode != "wal":
                self._tell_rollback()
        self._settle(connection)

    def copy_to(
        self, target: Path, connection: apsw.Connection, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Copy what a connection reads to a file that is there and empty, page by page, under the same key."""
        copied = apsw.Connection(str(target))
        try:
            unlock(copied, self._key)
            with copied.backup("main", connection, "main") as backup:
                while not backup.done:
                    backup.step(_COPIED_PAGES)
                    if progress is not None:
                        progress(backup.page_count - backup.remaining, backup.page_count)
        except apsw.FullError as error:
            raise StorageError(
                f"{self.path.name} can't be copied: the disk is full; make room where the copy is to be."
            ) from error
        except apsw.IOError as error:
            raise StorageError(
                f"{self.path.name} can't be copied ({error}); make room where the copy is to be, and look after both"
                " disks."
            ) from error
        finally:
            copied.close()

    def plain(self, name: str, flags: int) -> apsw.Connection:
        """Return a connection to the file or a copy of it that has its key, and no more."""
        connection = apsw.Connection(name, flags=flags)
        try:
            unlock(connection, self._key)
        except BaseException:
            connection.close()
            raise
        return connection

    def out_of_date(self) -> bool:
        """Return whether the file has changed since something else was read in its place; once for each change."""
        with self._lock:
            if self._stand_in is None or not self._stand_in.out_of_date():
                return False
            self._past.append(self._stand_in)
            self._stand_in = None
            return True

    def forked(self) -> None:
        """Part with what belongs to the parent."""
        self._lock = threading.Lock()
        self._stand_in, self._past = None, []

    def close(self) -> None:
        """Forget the key, and remove copies that were made to be read."""
        self._key = None
        for one in (*self._past, self._stand_in):
            if one is not None:
                one.remove()
        self._past = []

    def _identity_without_log(self) -> tuple[int, int]:
        tries = 0
        while True:
            try:
                return self._identity(f"{self.path.as_uri()}?immutable=1", apsw.SQLITE_OPEN_URI)
            except (apsw.NotADBError, apsw.CorruptError):
                # An encrypted page that another process is just writing can't be told from one of another key.
                if self._key is None or tries == _LOOKS:
                    raise
                tries += 1
                waiting.pause()

    def _identity(self, name: str, flags: int) -> tuple[int, int]:
        connection = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | flags)
        try:
            connection.set_busy_handler(waiting.Patience())
            unlock(connection, self._key)
            return identity(connection)
        finally:
            connection.close()

    def _connect_to_read(self) -> apsw.Connection:
        with self._lock:
            if self._stand_in is None:
                try:
                    return self._configured(str(self.path), apsw.SQLITE_OPEN_READONLY)
                except (*JOURNAL_REFUSED, apsw.ReadOnlyError) as error:
                    # A file in WAL mode needs a folder that can be written even to be read.
                    try:
                        self._stand_in = stand_in(self.path, self._recovered)
                    except OSError as reason:
                        raise ReadOnlyError(
                            f"{self.path} can't be read where it is ({error}), nor copied with its log to a temporary"
                            f" folder ({reason}); copy all of them to a folder of your own and open the copy."
                        ) from error
                    if self._stand_in.told is not None:
                        self._tell(self._stand_in.told)
            name, flags = self._stand_in.name, self._stand_in.flags
        return self._configured(name, apsw.SQLITE_OPEN_READONLY | flags)

    def _recovered(self, path: Path) -> None:
        """Bring a copy to the state that its log or journal says it has."""
        self._configured(str(path), apsw.SQLITE_OPEN_READWRITE).close()

    def _configured(self, name: str, flags: int) -> apsw.Connection:
        connection = apsw.Connection(name, flags=flags)
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: apsw.Connection) -> None:
        connection.set_busy_handler(waiting.Patience())
        unlock(connection, self._key)
        # The first statement that reads the file: a file that is not SQLite, or can't be read, is found here.
        connection.pragma("schema_version")
        connection.pragma("foreign_keys", True)
        self._settle(connection)
        connection.pragma("temp_store", "MEMORY")
        # A crafted file must not run functions from its schema.
        connection.pragma("trusted_schema", False)
        if isinstance(self._extension, str):
            try:
                connection.enable_load_extension(True)
                try:
                    connection.load_extension(self._extension)
                finally:
                    connection.enable_load_extension(False)
            except (apsw.Error, AttributeError) as error:
                self.vectors_unavailable = (
                    f"the sqlite-vec library can't be loaded from {self._extension} ({error}); "
                    "reinstall sqlite-vec for this platform"
                )

    def _settle(self, connection: apsw.Connection) -> None:
        """Set what hangs on the journal: how often a commit waits for the disk, and whether the file is mapped."""
        in_wal = connection.pragma("journal_mode") == "wal"
        full = self._durability == "full"
        # In WAL mode a power cut can take back the last commits but never damages the file; without it, it could.
        # A journal that is deleted may come back with its folder, and takes back a commit; EXTRA syncs the folder.
        connection.pragma("synchronous", ("FULL" if full else "NORMAL") if in_wal else ("EXTRA" if full else "FULL"))
        # Where fsync leaves data in the drive's own memory (macOS), this does not; elsewhere it says nothing.
        connection.pragma("fullfsync", full)
        connection.pragma("checkpoint_fullfsync", True)
        # Vector scans read most of the file; mapped, they do so without copying each page. A disk that can't hold a
        # log may be a network's, where a page that can't be had would end the process.
        connection.pragma("mmap_size", 1 << 31 if in_wal else 0)
        if self._key is not None:
            # What is encrypted is never mapped; without room for them its pages are decrypted for each scan.
            connection.pragma("cache_size", -_ENCRYPTED_CACHE_KIB)

    def _switch(self, connection: apsw.Connection, mode: str) -> str:
        patience, tries = waiting.Patience(), 0
        while True:
            try:
                return str(connection.pragma("journal_mode", mode))
            except apsw.BusyError:
                # The switch does not wait for a lock by itself.
                if not patience(tries):
                    raise
                tries += 1

    def _left_wal(self) -> bool:
        """Take the file out of WAL mode alone, without the memory that processes share; return whether it was in it."""
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_handler(waiting.Patience())
            unlock(connection, self._key)
            connection.pragma("locking_mode", "exclusive")
            if connection.pragma("journal_mode") != "wal":
                return False
            self._switch(connection, "delete")
        finally:
            connection.close()
        self._tell_rollback()
        return True

    def _tell_rollback(self) -> None:
        self._tell("this disk can't hold a write-ahead log, so a rollback journal is used; readers wait for writers")

    def _tell(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            warnings.warn(f"{self.path.name}: {what}.", stacklevel=2)

"""One open file: a connection for each thread, its pragmas, and transactions on it."""

import os
import random
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from memstore.database.extension import find_extension
from memstore.database.faults import BUSY_SECONDS, UNREADABLE, damaged, translated
from memstore.database.paths import checked_path, create_private, require_file, why_read_only
from memstore.database.schema import APPLICATION_ID, SCHEMA_VERSION, identity, schema
from memstore.errors import (
    DamagedStoreError,
    MemstoreError,
    NewerSchemaError,
    NotAStoreError,
    ReadOnlyError,
    StorageError,
)


class Database:
    """One file: a connection for each thread that asks, and transactions on it.

    Raises `NotAStoreError`, `NewerSchemaError`, `DamagedStoreError`, `ReadOnlyError` or `BusyError` when the file
    can't be opened. A new file is created whole, readable by its owner alone.
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path = checked_path(path)
        self.vectors_unavailable: str | None = None
        self.read_only_reason = "it was opened with read_only=True" if read_only else why_read_only(self.path)
        self._immutable = False
        self._extension = find_extension()
        if isinstance(self._extension, MemstoreError):
            self.vectors_unavailable = str(self._extension)
        self._local = threading.local()
        # By thread, so that those of ended threads are closed; held here, so that a fork, which takes the other
        # threads away, does not close the parent's.
        self._connections: list[tuple[threading.Thread, apsw.Connection]] = []
        self._inherited: list[apsw.Connection] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._closed = False
        require_file(self.path, may_create=self.read_only_reason is None)
        try:
            with translated(self.path):
                self._open()
        except BaseException:
            self.close()
            raise

    @property
    def read_only(self) -> bool:
        return self.read_only_reason is not None

    def connection(self) -> apsw.Connection:
        """Return this thread's connection, opened when it is first asked for."""
        if self._closed:
            raise StorageError(f"{self.path.name} was closed; open the store again.")
        if os.getpid() != self._pid:
            self._forget_inherited()
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
        return connection

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """One read transaction: all that is read inside comes from one state of the file."""
        with translated(self.path):
            connection = self.connection()
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            except UNREADABLE as error:
                self._end(connection)
                self._judge(connection, error)
                raise
            finally:
                self._end(connection)

    def require_writable(self) -> None:
        """Raise `ReadOnlyError` where nothing can be changed, before any work is done for a change."""
        if self.read_only_reason is not None:
            raise ReadOnlyError(f"{self.path.name} can't be changed: {self.read_only_reason}.")

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """One write transaction: all of it or nothing, waiting for other writers up to `BUSY_SECONDS`."""
        self.require_writable()
        with translated(self.path):
            connection = self.connection()
            self._begin_immediate(connection)
            try:
                yield connection
                connection.execute("COMMIT")
            except UNREADABLE as error:
                self._end(connection)
                self._judge(connection, error)
                raise
            finally:
                self._end(connection)

    @staticmethod
    def _end(connection: apsw.Connection) -> None:
        # An error can have ended the transaction already (a full disk does).
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def _judge(self, connection: apsw.Connection, error: Exception) -> None:
        """Raise `DamagedStoreError` in place of an error that no sound file would have led to."""
        if isinstance(error, MemstoreError | UnicodeError):
            return
        found = connection.pragma("quick_check", 1)
        if found != "ok":
            raise damaged(self.path, RuntimeError(found)) from error

    def size(self) -> int:
        """Return the bytes of the file and of the log beside it."""
        parts = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(part.stat().st_size for part in parts if part.exists())

    def copy(self, path: str | os.PathLike[str]) -> Path:
        """Write the store as it is now to a new file, readable by its owner alone, and return its path.

        It is copied page by page, since VACUUM INTO need not keep the row numbers that vectors are found by. Raises
        `StorageError` when the path exists, `NotAStoreError` when no file can be made there.
        """
        target = checked_path(path)
        if os.path.lexists(target):
            raise StorageError(f"{target} exists already; name a new file.")
        create_private(target)
        with translated(self.path):
            copied = apsw.Connection(str(target))
            try:
                with copied.backup("main", self.connection(), "main") as backup:
                    while not backup.done:
                        backup.step()
            finally:
                copied.close()
        return target

    def close(self) -> None:
        """Close every connection; the last one brings the write-ahead log back into the file. Can be called twice."""
        if os.getpid() != self._pid:
            self._forget_inherited()
        with self._lock:
            self._closed = True
            connections, self._connections = self._connections, []
        with translated(self.path):
            for _, connection in connections:
                connection.close()

    def _forget_inherited(self) -> None:
        # After a fork the parent's handles must be neither used nor closed: closing one drops the parent's locks.
        # They are kept alive so that nothing collects them.
        self._inherited.extend(connection for _, connection in self._connections)
        self._connections = []
        self._local = threading.local()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def _open(self) -> None:
        if not self.read_only:
            create_private(self.path)
        self._refuse_foreign()
        connection = self.connection()
        if identity(connection) == (0, 0):
            if self.read_only:
                raise NotAStoreError(f"{self.path} is empty, and {self.read_only_reason}: there is nothing to read.")
            self._use_wal(connection)
            self._create(connection)
        else:
            self._check_schema(connection)
            if not self.read_only:
                self._use_wal(connection)

    def _refuse_foreign(self) -> None:
        """Refuse a file that is no store before a connection that could write touches it or its log.

        SQLite itself reads the file: where the system's locks belong to the process, closing any other handle of a
        file gives up the locks of every connection to it (https://www.sqlite.org/howtocorrupt.html, 2.2).
        """
        if self.path.stat().st_size == 0:
            return
        # The mark can still stand in the log alone. Without a log nothing but the file itself is to be read.
        log = self.path.with_name(self.path.name + "-wal")
        waiting = log.exists() and log.stat().st_size > 0
        connection = apsw.Connection(
            str(self.path) if waiting else f"{self.path.as_uri()}?immutable=1",
            flags=apsw.SQLITE_OPEN_READONLY | (0 if waiting else apsw.SQLITE_OPEN_URI),
        )
        try:
            connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
            application_id, tables = identity(connection)
        finally:
            connection.close()
        if application_id != APPLICATION_ID and (application_id, tables) != (0, 0):
            raise NotAStoreError(f"{self.path} is a SQLite file of another program; name another file.")

    def _check_schema(self, connection: apsw.Connection) -> None:
        try:
            version = int(connection.execute("SELECT value FROM meta WHERE key = 'schema'").get)
        except (apsw.SQLError, TypeError, ValueError) as error:
            raise DamagedStoreError(f"{self.path} does not say which schema it has; restore a backup of it.") from error
        if version < SCHEMA_VERSION:
            raise NotAStoreError(
                f"{self.path} has schema {version}, from before the first release; export it with the memstore that"
                " made it and import that here. The file was not changed."
            )
        if version > SCHEMA_VERSION:
            raise NewerSchemaError(
                f"{self.path} has schema {version} and this memstore knows schemas up to {SCHEMA_VERSION}; "
                "upgrade memstore. The file was not changed."
            )

    def _create(self, connection: apsw.Connection) -> None:
        self._begin_immediate(connection)
        try:
            # Another process may have been faster; then its schema is there and ours is not needed.
            if connection.execute("SELECT count(*) FROM sqlite_schema").get == 0:
                connection.execute(schema())
                connection.execute("INSERT INTO meta (key, value) VALUES ('schema', ?)", (str(SCHEMA_VERSION),))
                connection.pragma("application_id", APPLICATION_ID)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _connect(self) -> apsw.Connection:
        if self.read_only and not self._immutable:
            try:
                return self._configured(apsw.SQLITE_OPEN_READONLY)
            except (apsw.CantOpenError, apsw.ReadOnlyError):
                # A file in WAL mode needs a folder that can be written even to be read. Where that folder can't be
                # written no one else is changing the file either, unless committed pages still wait in its log.
                log = self.path.with_name(self.path.name + "-wal")
                if log.exists() and log.stat().st_size:
                    raise ReadOnlyError(
                        f"{self.path} can't be read where it is: {log.name} holds memories and its folder can't be "
                        "written; copy both files to a folder of your own and open the copy."
                    ) from None
                self._immutable = True
        if self._immutable:
            return self._configured(apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        return self._configured(apsw.SQLITE_OPEN_READWRITE)

    def _configured(self, flags: int) -> apsw.Connection:
        uri = flags & apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(self.path.as_uri() + "?immutable=1" if uri else str(self.path), flags=flags)
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            ended = [one for thread, one in self._connections if not thread.is_alive()]
            self._connections = [(thread, one) for thread, one in self._connections if thread.is_alive()]
            self._connections.append((threading.current_thread(), connection))
        for one in ended:
            one.close()
        return connection

    def _configure(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
        # The first statement that reads the file: a file that is not SQLite, or can't be read, is found here.
        connection.pragma("schema_version")
        connection.pragma("foreign_keys", True)
        self._set_durability(connection)
        # Vector scans read most of the file; mapped, they do so without copying each page.
        connection.pragma("mmap_size", 1 << 31)
        connection.pragma("temp_store", "MEMORY")
        # A crafted file must not run functions from its schema.
        connection.pragma("trusted_schema", False)
        if isinstance(self._extension, str):
            try:
                connection.enable_load_extension(True)
                connection.load_extension(self._extension)
            except (apsw.Error, AttributeError) as error:
                self.vectors_unavailable = (
                    f"the sqlite-vec library can't be loaded from {self._extension} ({error}); "
                    "reinstall sqlite-vec for this platform"
                )
            finally:
                connection.enable_load_extension(False)

    def _use_wal(self, connection: apsw.Connection) -> None:
        if connection.pragma("journal_mode") == "wal":
            return
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                mode = connection.pragma("journal_mode", "wal")
                break
            except apsw.BusyError:
                # The switch does not wait for the busy timeout by itself.
                if time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.001, 0.02))
            except apsw.Error:
                mode = connection.pragma("journal_mode", "delete")
                break
        self._set_durability(connection)
        if mode != "wal":
            warnings.warn(
                f"{self.path.name}: this disk can't hold a write-ahead log, so a rollback journal is used; "
                "readers wait for writers.",
                stacklevel=2,
            )

    @staticmethod
    def _set_durability(connection: apsw.Connection) -> None:
        # In WAL mode a power cut can take back the last commits but never damages the file; without it, it could.
        connection.pragma("synchronous", "NORMAL" if connection.pragma("journal_mode") == "wal" else "FULL")

    @staticmethod
    def _begin_immediate(connection: apsw.Connection) -> None:
        if connection.in_transaction:
            raise StorageError("a write was begun inside another transaction of the same thread.")
        connection.execute("BEGIN IMMEDIATE")

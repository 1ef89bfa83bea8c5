"""The one module that opens connections and sets pragmas: driver, extension, schema, transactions."""

import importlib.resources
import importlib.util
import os
import random
import stat
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from memstore.errors import (
    BusyError,
    DamagedStoreError,
    MemstoreError,
    NewerSchemaError,
    NotAStoreError,
    ReadOnlyError,
    StorageError,
)

SCHEMA_VERSION = 5
# "mems", so that `file` and other tools can tell a memstore file from any other SQLite file.
APPLICATION_ID = 0x6D656D73
BUSY_SECONDS = 15.0
_MINIMUM_SQLITE = (3, 43)


class Database:
    """One file: a connection for each thread that asks, and transactions on it.

    Raises `NotAStoreError`, `NewerSchemaError`, `DamagedStoreError`, `ReadOnlyError` or `BusyError` when the file
    can't be opened. A new file is created whole, readable by its owner alone.
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path = _path(path)
        self.vectors_unavailable: str | None = None
        self.read_only_reason = "it was opened with read_only=True" if read_only else _why_read_only(self.path)
        self._immutable = False
        self._extension = _find_extension()
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
        _check_path(self.path, may_create=self.read_only_reason is None)
        try:
            with self._translated():
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
        with self._translated():
            connection = self.connection()
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                # An error can have ended the transaction already (a full disk does).
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def require_writable(self) -> None:
        """Raise `ReadOnlyError` where nothing can be changed, before any work is done for a change."""
        if self.read_only_reason is not None:
            raise ReadOnlyError(f"{self.path.name} can't be changed: {self.read_only_reason}.")

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """One write transaction: all of it or nothing, waiting for other writers up to `BUSY_SECONDS`."""
        self.require_writable()
        with self._translated():
            connection = self.connection()
            self._begin_immediate(connection)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def size(self) -> int:
        """Return the bytes of the file and of the log beside it."""
        parts = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(part.stat().st_size for part in parts if part.exists())

    def copy(self, path: str | os.PathLike[str]) -> Path:
        """Write the store as it is now to a new file, readable by its owner alone, and return its path.

        It is copied page by page, since VACUUM INTO need not keep the row numbers that vectors are found by. Raises
        `StorageError` when the path exists, `NotAStoreError` when no file can be made there.
        """
        target = _path(path)
        if os.path.lexists(target):
            raise StorageError(f"{target} exists already; name a new file.")
        _create_private(target)
        with self._translated():
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
        with self._translated():
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
            _create_private(self.path)
        self._refuse_foreign()
        connection = self.connection()
        if _identity(connection) == (0, 0):
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
            application_id, tables = _identity(connection)
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

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the driver's errors into ours, each naming the file and a remedy."""
        name = self.path.name
        try:
            yield
        except apsw.BusyError as error:
            raise BusyError(
                f"{name} was locked by another process for more than {BUSY_SECONDS:.0f} seconds; try again."
            ) from error
        except apsw.NotADBError as error:
            raise NotAStoreError(
                f"{self.path} is not a memstore file (it does not begin like SQLite); it was left as it is."
            ) from error
        except apsw.CorruptError as error:
            raise DamagedStoreError(f"{self.path} is damaged ({error}); restore a backup of it.") from error
        except apsw.ReadOnlyError as error:
            raise ReadOnlyError(f"{name} can't be changed: the disk or its permissions forbid it.") from error
        except apsw.FullError as error:
            raise StorageError(f"{name}: the disk is full; nothing of this write was kept. Free some space.") from error
        except apsw.CantOpenError as error:
            raise NotAStoreError(f"{self.path} can't be opened ({error}); check the folder's permissions.") from error
        except UnicodeDecodeError as error:
            raise DamagedStoreError(f"{self.path} is damaged (a text in it is no text); restore a backup.") from error
        except apsw.Error as error:
            raise StorageError(f"{name}: SQLite refused ({error}).") from error


def all_rows(conn: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    return conn.execute(sql, values).fetchall()


def one_value(conn: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> Any:
    """Return the one value of a query, None when it has no row."""
    return conn.execute(sql, values).get


def fts5_string(term: str) -> str:
    """Return a term as FTS5 reads it, so that no text is ever its syntax (https://www.sqlite.org/fts5.html, 3.1)."""
    return '"' + term.replace('"', '""') + '"'


def schema() -> str:
    """Return schema.sql: inside the package when installed, at the top of the repository in an editable install."""
    inside = importlib.resources.files("memstore").joinpath("schema.sql")
    source = inside if inside.is_file() else Path(__file__).resolve().parent.parent / "schema.sql"
    return source.read_text(encoding="utf-8")


def sqlite_version() -> str:
    """Return the version of the SQLite library in use."""
    return str(apsw.sqlite_lib_version())


def _identity(connection: apsw.Connection) -> tuple[int, int]:
    """Return a file's application id, and how many tables one without it has; from one state, it may just be made."""
    with connection:
        application_id = int(connection.pragma("application_id"))
        ours = application_id == APPLICATION_ID
        tables = 0 if ours else int(connection.execute("SELECT count(*) FROM sqlite_schema").get)
    return application_id, tables


def _path(path: str | os.PathLike[str]) -> Path:
    try:
        found = Path(os.fsdecode(path)).absolute()
        str(found).encode()
        # What is too long, or holds a NUL, is refused by the system itself; what is missing is no matter yet.
        os.lstat(found)
    except (FileNotFoundError, NotADirectoryError):
        return found
    except (OSError, TypeError, ValueError) as error:
        raise NotAStoreError(f"{path!r} can't be the path of a file ({error}); name another.") from error
    return found


def _find_extension() -> str | MemstoreError:
    """Return the path of sqlite-vec's library, without importing its package."""
    found = importlib.util.find_spec("sqlite_vec")
    if found is None or not found.submodule_search_locations:
        return MemstoreError("sqlite-vec is not installed; pip install sqlite-vec")
    return os.path.join(found.submodule_search_locations[0], "vec0")


def _check_path(path: Path, *, may_create: bool) -> None:
    if tuple(int(part) for part in apsw.sqlite_lib_version().split(".")[:2]) < _MINIMUM_SQLITE:
        raise StorageError(
            f"SQLite {apsw.sqlite_lib_version()} is too old, memstore needs 3.43; pip install --upgrade apsw"
        )
    if path.name == ":memory:":
        raise NotAStoreError(
            "a store is a file, there is none in memory; name a path, in a temporary folder if need be."
        )
    if path.is_dir():
        raise NotAStoreError(f"{path} is a folder; name a file in it, such as {path / 'memory.db'}.")
    if not path.exists():
        if not may_create:
            raise NotAStoreError(f"{path} does not exist, and a store that is only read is not created.")
        if not path.parent.is_dir():
            raise NotAStoreError(f"{path} can't be created: the folder {path.parent} does not exist; make it first.")
        return
    if not stat.S_ISREG(path.stat().st_mode):
        raise NotAStoreError(f"{path} is not an ordinary file; name another.")
    if not os.access(path, os.R_OK):
        raise NotAStoreError(f"{path} can't be read: its permissions forbid it.")


def _why_read_only(path: Path) -> str | None:
    if path.exists() and not os.access(path, os.W_OK):
        return "the file's permissions only let it be read"
    if path.exists() and not os.access(path.parent, os.W_OK):
        return f"the folder {path.parent} can't be written"
    return None


def _create_private(path: Path) -> None:
    """Make the file before SQLite does, readable by its owner alone; the log beside it takes the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise NotAStoreError(f"{path} can't be created: {error.strerror}; choose another folder.") from error

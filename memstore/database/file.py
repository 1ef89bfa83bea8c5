"""One open file: transactions on it, and what is done with it as a whole."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from memstore.database.connections import Connections
from memstore.database.faults import UNREADABLE, damaged, translated
from memstore.database.keys import Key, secret, unreadable
from memstore.database.migrations import require_schema
from memstore.database.opening import Durability, Journal, Opener
from memstore.database.paths import checked_path, create_private, linked_to, regain_logs, require_file, why_read_only
from memstore.database.schema import APPLICATION_ID, SCHEMA_VERSION, identity, schema
from memstore.database.statements import one_value
from memstore.errors import MemstoreError, NotAStoreError, ReadOnlyError, StorageError


class Database:
    """One file: a connection for each thread that asks, and transactions on it.

    With `journal="auto"` a file has a write-ahead log, and a rollback journal where its disk can't hold one; `"delete"`
    is a rollback journal, and the file keeps that choice until `"wal"` is asked for. `durability` and `key` are those
    of `MemoryStore`.

    Raises `NotAStoreError`, `NewerSchemaError`, `DamagedStoreError`, `EncryptionError`, `ReadOnlyError` or `BusyError`
    when the file can't be opened. A new file is created whole, readable by its owner alone.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        durability: Durability = "normal",
        journal: Journal = "auto",
        key: Key | None = None,
    ) -> None:
        self.path = linked_to(checked_path(path))
        self.read_only_reason = "it was opened with read_only=True" if read_only else why_read_only(self.path)
        self._key = secret(key)
        self._opener = Opener(
            self.path,
            read_only=self.read_only,
            durability=durability,
            may_leave_wal=journal != "wal",
            key=self._key,
        )
        require_file(self.path, may_create=not self.read_only)
        self._connections = Connections(self.path, self._opener)
        try:
            with translated(self.path), self._connections.held():
                self._open(journal)
        except BaseException:
            self.close()
            raise

    @property
    def read_only(self) -> bool:
        return self.read_only_reason is not None

    @property
    def vectors_unavailable(self) -> str | None:
        """Why vectors can't be used, None where they can."""
        return self._opener.vectors_unavailable

    def connection(self) -> apsw.Connection:
        """Return this thread's connection, opened when it is first asked for."""
        return self._connections.own()

    @contextmanager
    def using(self) -> Iterator[apsw.Connection]:
        """Hold this thread's connection for what can't be in a transaction: no fork of the process closes it."""
        with translated(self.path), self._connections.using() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """One read transaction: all that is read inside comes from one state of the file."""
        with translated(self.path), self._connections.using() as connection:
            if connection.in_transaction:
                yield connection
                return
            process = os.getpid()
            try:
                connection.execute("BEGIN")
                yield connection
            except BaseException as error:
                _roll_back(connection, process)
                self._judge(connection, error)
                raise
            _roll_back(connection, process)

    def require_writable(self) -> None:
        """Raise `ReadOnlyError` where nothing can be changed, before any work is done for a change."""
        if self.read_only_reason is not None:
            raise ReadOnlyError(f"{self.path.name} is read-only and can't be changed: {self.read_only_reason}.")

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """One write transaction: all of it or nothing, waiting for other writers up to `BUSY_SECONDS`."""
        self.require_writable()
        with translated(self.path), self._connections.using() as connection:
            process = os.getpid()
            self._refuse_nested(connection)
            try:
                # An interruption that comes while it begins is raised once it has begun.
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                if os.getpid() != process:
                    raise StorageError(
                        f"{self.path.name}: this process was forked in the middle of a write, which its parent alone"
                        " can finish; nothing was written here."
                    )
                connection.execute("COMMIT")
            except BaseException as error:
                _roll_back(connection, process)
                self._judge(connection, error)
                raise

    def _judge(self, connection: apsw.Connection, error: BaseException) -> None:
        """Raise `DamagedStoreError` in place of an error that no sound file would have led to."""
        if not isinstance(error, UNREADABLE) or isinstance(error, MemstoreError | UnicodeError):
            return
        found = connection.pragma("quick_check", 1)
        if found != "ok":
            raise damaged(self.path, found) from error

    def size(self) -> int:
        """Return the bytes of the file and of the log beside it."""
        parts = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(part.stat().st_size for part in parts if part.exists())

    def copy(self, path: str | os.PathLike[str], *, progress: Callable[[int, int], None] | None = None) -> Path:
        """Write the store as it is now to a new file, readable by its owner alone, and return its path.

        It is copied page by page, since VACUUM INTO need not keep the row numbers that vectors are found by, under the
        same key and in one read transaction: what others write meanwhile does not make it begin again. `progress` is
        called with the pages done and those there are. Raises `StorageError` when the path exists or can't be written,
        `NotAStoreError` when no file can be made there.
        """
        target = checked_path(path)
        if os.path.lexists(target):
            raise StorageError(f"{target} exists already; name a new file.")
        create_private(target)
        try:
            with self.read() as connection:
                # A transaction has its state of the file only once it has read something.
                one_value(connection, "SELECT count(*) FROM sqlite_schema")
                self._opener.copy_to(target, connection, progress)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        return target

    @contextmanager
    def reading_copy(self, path: Path) -> Iterator[apsw.Connection]:
        """A connection that only reads a copy of this file, which has the same key, and leaves nothing beside it."""
        with translated(path):
            connection = self._opener.plain(
                f"{path.absolute().as_uri()}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            )
            try:
                yield connection
            finally:
                connection.close()

    def opened_beside(self, path: Path, *, read_only: bool = False) -> "Database":
        """Open a copy of this file, which has the same key."""
        return Database(path, read_only=read_only, key=self._key)

    def close(self) -> None:
        """Close every connection; the last one brings the write-ahead log back into the file. Can be called twice."""
        self._key = None
        with translated(self.path):
            self._connections.close()

    def _open(self, journal: Journal) -> None:
        if not self.read_only:
            create_private(self.path)
            regain_logs(self.path)
        try:
            if self.path.stat().st_size:
                self._refuse_foreign(self._opener.identity())
            connection = self.connection()
        except apsw.NotADBError as error:
            raise unreadable(self.path, self._key) from error
        found = identity(connection)
        self._refuse_foreign(found)
        if found == (0, 0):
            if self.read_only:
                raise NotAStoreError(f"{self.path} is empty, and {self.read_only_reason}: there is nothing to read.")
            self._opener.use_journal(connection, journal)
            self._create(connection)
        else:
            require_schema(connection, self.path, self.read_only_reason, self._opener.plain)
        if not self.read_only:
            self._use_journal(connection, journal)

    def _use_journal(self, connection: apsw.Connection, journal: Journal) -> None:
        """Use the journal that is asked for, else the one that the file was once told to keep."""
        kept = connection.execute("SELECT value FROM meta WHERE key = 'journal'").get
        if journal == "auto":
            self._opener.use_journal(connection, "delete" if kept == "delete" else "auto")
            return
        self._opener.use_journal(connection, journal)
        if journal == "delete" and kept is None:
            with self.write() as conn:
                conn.execute("INSERT OR IGNORE INTO meta (key, value) VALUES ('journal', 'delete')")
        elif journal == "wal" and kept is not None:
            with self.write() as conn:
                conn.execute("DELETE FROM meta WHERE key = 'journal'")

    def _refuse_foreign(self, found: tuple[int, int]) -> None:
        """Refuse a file that is no store before a connection that could write touches it or its log."""
        application_id, tables = found
        if application_id != APPLICATION_ID and (application_id, tables) != (0, 0):
            raise NotAStoreError(f"{self.path} is a SQLite file of another program; name another file.")

    def _create(self, connection: apsw.Connection) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
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

    @staticmethod
    def _refuse_nested(connection: apsw.Connection) -> None:
        if connection.in_transaction:
            raise StorageError("a write was begun inside another transaction of the same thread.")


def _roll_back(connection: apsw.Connection, process: int) -> None:
    # A child that was forked meanwhile must not end its parent's transaction; an error can have ended it already.
    if os.getpid() == process and connection.in_transaction:
        connection.execute("ROLLBACK")

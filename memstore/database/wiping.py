"""Leaving no trace of what was deleted in the pages of a file: free ones, the slack of used ones, and the log."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import apsw

from memstore.database.file import Database
from memstore.database.statements import one_value
from memstore.errors import BusyError

# In `meta` from the moment that something is to leave no trace until none is left.
_UNFINISHED = "wiping"
# SQLite makes the new file in memory up to this size, and beyond in a temporary file that its owner alone can read.
_LARGEST_IN_MEMORY = 512 * 2**20


@contextmanager
def overwriting(database: Database) -> Iterator[apsw.Connection]:
    """One write transaction that overwrites what it deletes, and notes in the file that traces may be left."""
    database.require_writable()
    with database.using() as connection:
        # https://www.sqlite.org/pragma.html#pragma_secure_delete
        before = connection.pragma("secure_delete")
        connection.pragma("secure_delete", True)
        try:
            with database.write() as conn:
                moment = datetime.now(UTC).isoformat(timespec="seconds")
                conn.execute("INSERT OR IGNORE INTO meta (key, value) VALUES (?, ?)", (_UNFINISHED, moment))
                yield conn
        finally:
            connection.pragma("secure_delete", before)


def unfinished(conn: apsw.Connection) -> str | None:
    """Return since when traces may be left of what was to leave none (UTC, ISO 8601); None where none are."""
    found: str | None = one_value(conn, "SELECT value FROM meta WHERE key = ?", (_UNFINISHED,))
    return found


def finished(database: Database) -> None:
    """Note in the file that no trace is left."""
    with database.write() as conn:
        conn.execute("DELETE FROM meta WHERE key = ?", (_UNFINISHED,))


def rewrite(database: Database) -> None:
    """Write the file anew from what is stored, so that neither free pages nor slack keep anything else.

    It needs free disk of twice the file's size, and keeps other writers waiting. Interrupted, it leaves the file as it
    was.
    """
    with database.using() as connection:
        if database.size() > _LARGEST_IN_MEMORY:
            connection.pragma("temp_store", "FILE")
        try:
            # What the planner of queries has gathered, where anyone had it gathered, holds samples of what is indexed.
            if one_value(connection, "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name GLOB 'sqlite_stat[0-9]')"):
                connection.execute("ANALYZE")
            # Row numbers of tables without a whole-number key may change, which vectors are found by: those tables have
            # an index, and SQLite keeps the numbers then.
            connection.execute("VACUUM")
        finally:
            connection.pragma("temp_store", "MEMORY")


def empty_log(database: Database) -> None:
    """Bring the write-ahead log into the file and leave it empty; without a log there is nothing to do.

    Raises `BusyError` when someone still reads an older state of the file after the usual wait.
    """
    try:
        with database.using() as connection:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except BusyError as error:
        raise BusyError(
            f"{database.path.name}-wal can't be emptied while another process, or another thread, reads the file"
        ) from error

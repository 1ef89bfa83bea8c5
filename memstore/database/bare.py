"""A damaged file as SQLite alone reads it: no extension, no functions of its schema, nothing written."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import apsw

from memstore.database.inspection import integrity
from memstore.database.keys import unlock
from memstore.database.schema import schema


@contextmanager
def bare(path: Path, key: bytes | None = None) -> Iterator[apsw.Connection]:
    """Open a private copy of a file to be read; what is wrong with it is raised as the driver's own errors."""
    if path.with_name(path.name + "-journal").exists():
        # A write that was cut short is undone first, which takes a connection that can write.
        with suppress(apsw.Error):
            undoing = apsw.Connection(str(path))
            try:
                unlock(undoing, key)
                undoing.pragma("schema_version")
            finally:
                undoing.close()
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        unlock(connection, key)
        with suppress(apsw.Error):
            connection.pragma("trusted_schema", False)
            connection.pragma("cell_size_check", True)
        yield connection
    finally:
        connection.close()


def is_sound(connection: apsw.Connection) -> bool:
    """Say whether SQLite itself finds nothing wrong with the pages, tables and indexes of a file."""
    try:
        return not integrity(connection, 1)
    except (apsw.Error, UnicodeDecodeError):
        return False


@cache
def usual_roots() -> Mapping[str, int]:
    """Return the first page of each table and index in a new file: what helps where a file has lost its schema."""
    connection = apsw.Connection(":memory:")
    try:
        connection.execute(schema())
        rows = connection.execute("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0").fetchall()
        return {str(name): int(root or 0) for name, root in rows}
    finally:
        connection.close()

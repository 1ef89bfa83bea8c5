"""A damaged file as SQLite alone reads it: no extension, no functions of its schema, nothing written."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw


@contextmanager
def bare(path: Path) -> Iterator[apsw.Connection]:
    """Open a private copy of a file to be read; what is wrong with it is raised as the driver's own errors."""
    if path.with_name(path.name + "-journal").exists():
        # A write that was cut short is undone first, which takes a connection that can write.
        with suppress(apsw.Error):
            undoing = apsw.Connection(str(path))
            try:
                undoing.pragma("schema_version")
            finally:
                undoing.close()
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        with suppress(apsw.Error):
            connection.pragma("trusted_schema", False)
            connection.pragma("cell_size_check", True)
        yield connection
    finally:
        connection.close()


def is_sound(connection: apsw.Connection) -> bool:
    """Say whether SQLite itself finds nothing wrong with the pages and tables of a file."""
    try:
        return bool(connection.pragma("integrity_check", 1) == "ok")
    except apsw.Error:
        return False

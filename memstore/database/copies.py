"""Copies of a file that memstore makes by itself, before it changes much: beside the file, named for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import apsw

from memstore.database.paths import create_private

_MARK = ".before-"
_SUFFIX = ".bak"
_AT_ONCE = 1 << 20


def automatic_name(path: Path, reason: str) -> Path:
    """Return the path of a new automatic backup: `memory.db.before-repair-20260131T120000.000000Z.bak`."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return path.with_name(f"{path.name}{_MARK}{reason}-{moment}{_SUFFIX}")


def automatic_backups(path: Path) -> list[Path]:
    """Return the automatic backups of a file that are there, the oldest first by their names."""
    return sorted(
        one
        for one in path.parent.iterdir()
        if one.name.startswith(f"{path.name}{_MARK}") and one.name.endswith(_SUFFIX) and one.is_file()
    )


def copy_bytes(path: Path, target: Path) -> None:
    """Copy a file that SQLite can't copy page by page, and the log beside it, byte for byte; nothing may write to it.

    SQLite's own file layer reads it: closing any other handle gives up the locks that this process has on the file
    (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """
    for end in ("", "-wal"):
        source = path.with_name(path.name + end)
        if source.exists():
            copied = target.with_name(target.name + end)
            create_private(copied)
            with copied.open("wb") as writing:
                _copy(source, writing)


def _copy(source: Path, writing: BinaryIO) -> None:
    reading = apsw.VFSFile("", str(source), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        size, at = reading.xFileSize(), 0
        while at < size:
            writing.write(reading.xRead(min(_AT_ONCE, size - at), at))
            at += _AT_ONCE
    finally:
        reading.xClose()


@contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """A connection to a copy that nothing changes: it leaves no file beside it."""
    conn = apsw.Connection(
        f"{path.absolute().as_uri()}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    try:
        yield conn
    finally:
        conn.close()

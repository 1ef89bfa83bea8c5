"""A file copied as bytes, where SQLite itself can't copy it page by page."""

from pathlib import Path
from typing import BinaryIO

import apsw

from memstore.database.paths import create_private

_AT_ONCE = 1 << 20


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

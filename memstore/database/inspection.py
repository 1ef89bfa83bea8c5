"""What SQLite itself says of a file: its own checks, its pages, the files beside it."""

from pathlib import Path

import apsw

from memstore.database.statements import all_rows


def integrity(conn: apsw.Connection, most: int) -> list[str]:
    """Return up to `most` faults that SQLite's own check finds in pages, tables and indexes; none in a sound file.

    It reads all of the file (https://www.sqlite.org/pragma.html#pragma_integrity_check).
    """
    rows = all_rows(conn, f"PRAGMA integrity_check({int(most)})")
    return [str(said) for (said,) in rows if said != "ok"]


def broken_references(conn: apsw.Connection) -> dict[tuple[str, str], int]:
    """Return how many rows of a table name a row of another that is not there, by the two tables."""
    found: dict[tuple[str, str], int] = {}
    for table, _, parent, _ in all_rows(conn, "PRAGMA foreign_key_check"):
        found[table, parent] = found.get((table, parent), 0) + 1
    return found


def pages(conn: apsw.Connection) -> tuple[int, int]:
    """Return the bytes of a file's pages, and those of its free ones."""
    size = int(conn.pragma("page_size"))
    return size * int(conn.pragma("page_count")), size * int(conn.pragma("freelist_count"))


def log_size(path: Path) -> int:
    """Return the bytes of the write-ahead log beside a file."""
    log = path.with_name(path.name + "-wal")
    return log.stat().st_size if log.exists() else 0

"""What SQLite itself says of a file: its own checks, its pages, the files beside it."""

from pathlib import Path

import apsw

from memstore.database.statements import all_rows


def integrity(conn: apsw.Connection, what: int | str) -> list[str]:
    """Return the faults that SQLite's own check finds in pages, tables and indexes, so many at most or of one table.

    It reads all of the file, or all of the table (https://www.sqlite.org/pragma.html#pragma_integrity_check).
    """
    said = conn.pragma("integrity_check", what)
    return [str(one) for one in ([said] if isinstance(said, str) else said or ()) if one != "ok"]


def broken_references(conn: apsw.Connection) -> dict[tuple[str, str], int]:
    """Return how many rows of a table name a row of another that is not there, by the two tables."""
    rows = all_rows(conn, 'SELECT "table", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2')
    return {(table, parent): count for table, parent, count in rows}


def pages(conn: apsw.Connection) -> tuple[int, int]:
    """Return the bytes of a file's pages, and those of its free ones."""
    size = int(conn.pragma("page_size"))
    return size * int(conn.pragma("page_count")), size * int(conn.pragma("freelist_count"))


def log_size(path: Path) -> int:
    """Return the bytes of the write-ahead log beside a file."""
    log = path.with_name(path.name + "-wal")
    return log.stat().st_size if log.exists() else 0

"""What every module asks the file with: rows, one value, a text as FTS5 reads it."""

from typing import Any

import apsw


def all_rows(conn: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    return conn.execute(sql, values).fetchall()


def one_value(conn: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> Any:
    """Return the one value of a query, None when it has no row."""
    return conn.execute(sql, values).get


def fts5_string(term: str) -> str:
    """Return a term as FTS5 reads it, so that no text is ever its syntax (https://www.sqlite.org/fts5.html, 3.1)."""
    return '"' + term.replace('"', '""') + '"'

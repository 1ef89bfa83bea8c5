"""The tables, indexes and triggers of a file beside those of schema.sql: compared, and made again."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import apsw

from memstore.database.schema import schema
from memstore.database.statements import all_rows

_TOKENS = re.compile(r"""--[^\n]*|'(?:[^']|'')*'|"(?:[^"]|"")*"|\w+|[^\w\s]""")
# A name that is quoted in another way is no name of ours.
_DECLARED = re.compile(r"""CREATE (?:UNIQUE |VIRTUAL )?(TABLE|INDEX|TRIGGER|VIEW) (?:(\w+)|"(\w+)"|'(\w+)')""")
_ENTRIES = "temp.memory_terms_entries"
# Kind (table, index, trigger, view) and name.
Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaObject:
    """A table, index, trigger or view; two of the same `shape` are alike, however they are written.

    The shape of a table is its columns, so that one which was altered is like one that was made at once.
    """

    kind: str
    name: str
    table: str
    sql: str
    shape: tuple[object, ...]


def objects(conn: apsw.Connection) -> dict[Key, SchemaObject]:
    """Return what a file is made of, without what SQLite keeps for itself."""
    found: dict[Key, SchemaObject] = {}
    for kind, name, table, sql in all_rows(
        conn, "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ):
        shape: tuple[object, ...] = tuple(_tokens(sql or ""))
        if shape[:2] == ("CREATE", "TABLE"):
            columns = all_rows(
                conn, 'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?) ORDER BY name', (name,)
            )
            shape = (*columns, *all_rows(conn, "SELECT wr, strict FROM pragma_table_list(?)", (name,)))
        found[kind, name] = SchemaObject(kind=kind, name=name, table=table, sql=sql, shape=shape)
    return found


def mislabelled(conn: apsw.Connection) -> list[str]:
    """Return what the schema lists under a name, kind or first page that is not its own, as no SQLite leaves it."""
    rows = all_rows(
        conn,
        "SELECT typeof(name) || typeof(tbl_name) || typeof(type), type, name, rootpage, sql,"
        " rootpage > 0 AND count(*) OVER (PARTITION BY rootpage) > 1 FROM sqlite_schema",
    )
    found: list[str] = []
    for types, kind, name, root, sql, shared in rows:
        declared = _DECLARED.match(sql or "")
        other = declared is not None and (declared[1].lower(), declared[declared.lastindex or 1]) != (kind, name)
        if types != "texttexttext" or other or shared or not isinstance(root, int):
            found.append(str(name))
    return found


@cache
def expected_objects() -> dict[Key, SchemaObject]:
    """Return what schema.sql makes, in its order."""
    conn = apsw.Connection(":memory:")
    try:
        conn.execute(schema())
        return objects(conn)
    finally:
        conn.close()


def roots(conn: apsw.Connection) -> dict[int, Key]:
    """Return the tables and indexes of a file by their root pages, which SQLite's integrity check names them by."""
    rows = all_rows(conn, "SELECT rootpage, type, name FROM sqlite_schema WHERE rootpage > 0")
    return {root: (kind, name) for root, kind, name in rows}


def shadows(table: str) -> set[str]:
    """Return the names of the tables that a full-text table of schema.sql keeps its index in."""
    return {name for kind, name in expected_objects() if kind == "table" and name.startswith(f"{table}_")} - {
        name for (kind, name), one in expected_objects().items() if one.shape[:2] == ("CREATE", "VIRTUAL")
    }


def make_again(conn: apsw.Connection, key: Key) -> None:
    """Make an object of schema.sql in place of what the file has under its name: a table empty, and all that is its."""
    expected = expected_objects()
    one = expected[key]
    if one.shape[:2] == ("CREATE", "VIRTUAL"):
        drop_virtual(conn, one.name, shadows(one.name))
    else:
        conn.execute(f'DROP {one.kind} IF EXISTS "{one.name}"')
    conn.execute(one.sql)
    if one.kind == "table":
        there = objects(conn)
        for own, other in expected.items():
            if other.table == one.name and own != key and own not in there:
                conn.execute(other.sql)


def drop_virtual(conn: apsw.Connection, name: str, its: Iterable[str]) -> None:
    """Drop a virtual table with the tables that it keeps its content in, whichever of all these are left."""
    there = {one for kind, one in objects(conn) if kind == "table"}
    if name in there:
        for missing in sorted(set(its) - there):
            # Its module does not let go of a table that has lost one of them.
            conn.execute(f'CREATE TABLE "{missing}" (lost)')
        conn.execute(f'DROP TABLE "{name}"')
    for left in sorted(set(its)):
        conn.execute(f'DROP TABLE IF EXISTS "{left}"')


def renew_indexes(conn: apsw.Connection) -> None:
    """Make every index again from its table."""
    conn.execute("REINDEX")


@contextmanager
def index_entries(conn: apsw.Connection) -> Iterator[str]:
    """The name of a table with every entry of the keyword index (term, doc, col, offset), there for the while.

    FTS5 has no other way to its entries, and the table holds nothing itself: it lives in the connection alone. It is
    made before anything else is read: once a statement has met a damaged page, SQLite makes none in that transaction.
    """
    conn.execute(f"CREATE VIRTUAL TABLE {_ENTRIES} USING fts5vocab (main, memory_terms, instance)")
    try:
        yield _ENTRIES
    finally:
        # The end of the transaction takes it away too.
        with suppress(apsw.Error):
            conn.execute(f"DROP TABLE {_ENTRIES}")


def _tokens(sql: str) -> list[str]:
    return [one for one in _TOKENS.findall(sql) if not one.startswith("--")]

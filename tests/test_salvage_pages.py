"""The reader of pages gives what SQLite gives, for any rows, and reads any bytes to an end."""

import random

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memstore.salvaging.cells import BrokenRecordError, record, signed, varint
from memstore.salvaging.log import Log, read_log
from memstore.salvaging.pages import Cell, Pages

SIZES = (512, 1024, 4096, 65536)
# What stands at the edges of SQLite's sizes of integers, and texts that run over to other pages.
VALUES = (
    st.none()
    | st.sampled_from([0, 1, -1, 127, 128, -129, 32767, 2**23, -(2**31), 2**47, -(2**47) - 1, 2**63 - 1, -(2**63)])
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
    | st.integers(0, 9000).map(lambda length: "ã" * length)
    | st.integers(0, 9000).map(lambda length: b"\xff\x00" * length)
)


def database(size: int) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.pragma("page_size", size)
    connection.execute(
        "CREATE TABLE t (a, b, c); CREATE INDEX i ON t (a, b); CREATE TABLE k (a PRIMARY KEY, b) WITHOUT ROWID"
    )
    return connection


def content(connection: apsw.Connection) -> bytes:
    return connection.serialize("main")


def cells(pages: Pages, root: int) -> list[Cell]:
    tree = pages.tree(root)
    assert tree.whole
    found = [pages.cells(number) for number in tree.pages]
    assert all(sound for _, sound in found)
    return [one for there, _ in found for one in there]


def same(one: object, other: object) -> bool:
    # A float without a fraction is kept as a whole number, and has no type of its own outside of a typed column.
    return one == other and (isinstance(one, float | int) or type(one) is type(other))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SIZES), st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=60), st.integers(-(2**62), 2**62))
def test_rows_of_tables_and_indexes(size, rows, first):
    """Every row of a table, of an index and of a table without rowids is read as it was written, with its rowid."""
    connection = database(size)
    connection.executemany(
        "INSERT INTO t (rowid, a, b, c) VALUES (?, ?, ?, ?)", [(first + n, *row) for n, row in enumerate(rows)]
    )
    connection.executemany("INSERT OR IGNORE INTO k VALUES (?, ?)", [row[:2] for row in rows if row[0] is not None])
    pages = Pages(content(connection), Log())
    roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_schema"))
    for name, sql in (
        ("t", "SELECT rowid, a, b, c FROM t ORDER BY rowid"),
        ("i", "SELECT NULL, a, b, rowid FROM t ORDER BY a, b, rowid"),
        ("k", "SELECT NULL, a, b FROM k ORDER BY a"),
    ):
        wanted = connection.execute(sql).fetchall()
        found = [(one.rowid, *one.values) for one in cells(pages, roots[name])]
        if name == "t":
            found.sort(key=lambda row: row[0])
        assert len(found) == len(wanted)
        left = list(wanted)
        for row in found:
            match = next(n for n, one in enumerate(left) if all(map(same, row, one)) and len(row) == len(one))
            del left[match]
    connection.close()


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SIZES), st.integers(0, 10**9), st.floats(0, 1))
def test_free_pages(size, seed, share):
    """The pages of the free list are SQLite's, and no deleted row is read from those that are in use."""
    drawn, connection = random.Random(seed), database(size)
    rows = [(n, "x" * drawn.randrange(3 * size if n % 9 == 0 else 80)) for n in range(400)]
    connection.executemany("INSERT INTO t (rowid, a, b) VALUES (?1, ?1, ?2)", rows)
    connection.executemany("DELETE FROM t WHERE rowid = ?", [(n,) for n, _ in rows if drawn.random() < share])
    pages = Pages(content(connection), Log())
    assert pages.free is not None
    assert len(pages.free) == connection.pragma("freelist_count")
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 't'").get
    wanted = {n for (n,) in connection.execute("SELECT rowid FROM t")}
    assert {one.rowid for one in cells(pages, root)} == wanted
    assert not pages.free & set(pages.tree(root).pages)
    connection.close()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_as_a_record(payload):
    """Bytes that are no record are refused by an error of the reader's own, or give values of SQLite's types."""
    try:
        values, _ = record(payload)
    except BrokenRecordError:
        return
    assert all(value is None or isinstance(value, int | float | str | bytes) for value in values)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SIZES), st.integers(0, 10**9), st.integers(1, 200))
def test_any_damage(size, seed, flips):
    """Whatever bytes are changed, every page is read to an end, without an error."""
    drawn, connection = random.Random(seed), database(size)
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(n, "y" * drawn.randrange(900), n) for n in range(200)])
    damaged = bytearray(content(connection))
    connection.close()
    for _ in range(flips):
        damaged[drawn.randrange(len(damaged))] = drawn.randrange(256)
    pages = Pages(bytes(damaged), Log())
    for number in range(min(pages.count, 2_000) + 2):
        pages.cells(number)
        tree = pages.tree(number)
        assert len(tree.pages) == len(set(tree.pages))
    assert pages.free is None or all(1 < number <= pages.count for number in pages.free)
    read_log(bytes(damaged))


@given(st.integers(0, 2**64 - 1))
def test_varints(value):
    """A varint is one to nine bytes, the last of nine with all of its bits."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE t (a)")
    connection.execute("INSERT INTO t (rowid, a) VALUES (?, 'mark')", (signed(value),))
    whole = content(connection)
    connection.close()
    # The record is its head's length, the one type, and the text; before it stand its length and the rowid.
    at = whole.rindex(b"\x02\x15mark")
    begin = next(n for n in range(at - 2, at - 11, -1) if whole[n] == 6 and varint(whole, n + 1)[1] == at)
    assert varint(whole, begin + 1)[0] == value


def test_no_page_at_all():
    """Bytes without a single page of SQLite have no size, no pages and no rows."""
    for noise in (b"", b"x" * 10_000, random.Random(1).randbytes(100_000)):
        pages = Pages(noise, Log())
        assert (pages.size, pages.count, pages.free, list(pages.leaves())) == (0, 0, None, [])
        assert not pages.tree(1).whole


@pytest.mark.parametrize("size", SIZES)
def test_a_log_of_any_page_size(tmp_path, size):
    """Of a log the pages of committed writes are taken, in either order of bytes, and none behind a broken sum."""
    path = tmp_path / "t.db"
    connection = apsw.Connection(str(path))
    connection.pragma("page_size", size)
    connection.pragma("journal_mode", "wal")
    connection.pragma("wal_autocheckpoint", 0)
    connection.execute("CREATE TABLE t (a)")
    for n in range(5):
        connection.execute("INSERT INTO t VALUES (?)", (f"row {n} " + "z" * 3 * size,))
    log = path.with_name("t.db-wal").read_bytes()
    number = connection.pragma("page_count")
    connection.close()
    found = read_log(log)
    assert (found.page_size, found.page_count, found.unfinished, found.lost) == (size, number, 0, 0)
    pages = Pages(b"", found)
    root = 2
    assert [len(one.values[0]) for one in cells(pages, root)] == [6 + 3 * size] * 5
    cut = read_log(log[: len(log) - size])
    assert (cut.lost, cut.unfinished > 0, cut.page_count < number) == (0, True, True)
    middle = len(log) // 2
    broken = read_log(log[:middle] + bytes([log[middle] ^ 255]) + log[middle + 1 :])
    assert broken.lost > 0
    assert 0 < broken.page_count < number

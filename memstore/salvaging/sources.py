"""What a damaged file is read by: SQLite itself, or its pages; each gives the rows of a table, as many as it can."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple, Protocol

import apsw

from memstore.database import all_rows, usual_roots
from memstore.salvaging import shapes
from memstore.salvaging.cells import Value
from memstore.salvaging.pages import Cell, Pages
from memstore.salvaging.shapes import Fields, Shape

# Without SQLite's order of a table, whose middle can't be read, so many of its rows are asked for one by one.
_MOST_ASKED = 1_000_000


class Found(NamedTuple):
    """A row by the names of its columns; not `certain`: it may have been deleted, or be an older state of one."""

    fields: Fields
    certain: bool = True
    whole: bool = True


class Source(Protocol):
    """What gives the rows of tables; `broken` has the names of those that it could not read whole."""

    broken: set[str]

    def rows(self, shape: Shape) -> Iterator[Found]:
        """Yield the rows of a table or index that can be read; those of a table that is not there are none."""


class SQLSource:
    """A file as SQLite reads it: what it can't is passed over."""

    def __init__(self, conn: apsw.Connection) -> None:
        self._conn = conn
        self.broken: set[str] = set()

    def rows(self, shape: Shape) -> Iterator[Found]:
        """Yield the rows of a table, from both ends where its middle can't be read; an index has none here."""
        if shape in (shapes.CONTENT, shapes.UPDATED, shapes.CREATED, shapes.TAGS_TAG):
            self.broken.add(shape.name)
            return
        try:
            names = [name for (name,) in all_rows(self._conn, "SELECT name FROM pragma_table_info(?)", (shape.name,))]
        except (apsw.Error, UnicodeDecodeError):
            # The name of a column that is no text is a damaged schema too.
            names = []
        if not names:
            self.broken.add(shape.name)
            return
        first = last = None
        for row in self._scanned(shape.name, ""):
            first = row[0]
            yield Found(dict(zip(names, row, strict=True)))
        if shape.name not in self.broken:
            return
        for row in self._scanned(shape.name, " ORDER BY 1 DESC"):
            if row[0] == first:
                break
            last = row[0]
            yield Found(dict(zip(names, row, strict=True)))
        if shape.rowid and isinstance(last, int):
            start = first + 1 if isinstance(first, int) else 1
            for one in range(start, min(last, start + _MOST_ASKED)):
                for row in self._scanned(shape.name, " WHERE rowid = ?", (one,)):
                    yield Found(dict(zip(names, row, strict=True)))

    def _scanned(self, table: str, tail: str, values: tuple[int, ...] = ()) -> Iterator[tuple[Value, ...]]:
        """Yield rows until SQLite refuses; one whose text is none is passed over."""
        try:
            found = self._conn.execute(f"SELECT * FROM {table}{tail}", values)
            while True:
                try:
                    yield next(found)
                except UnicodeDecodeError:
                    self.broken.add(table)
        except StopIteration:
            return
        except apsw.Error:
            self.broken.add(table)


class PageSource:
    """A file as its pages show it.

    The rows of a table are those of its tree. Where that has lost pages, rows that stand on pages of no tree are taken
    too. They belong to the file when its list of free pages can be read, and they are not on those; else they may have
    been deleted, and are not certain.
    """

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self.broken: set[str] = set()

    def rows(self, shape: Shape) -> Iterator[Found]:
        """Yield the rows of a table or index, and those that may be its rows."""
        root, known = self._root(shape), self._schema.get(shape.name)
        shape = shape if known is None else shape.declared(known.sql)
        if root is None:
            if self._is_missing(shape):
                return
            self.broken.add(shape.name)
        else:
            tree = self._pages.tree(root)
            if not tree.whole:
                self.broken.add(shape.name)
            for number in tree.pages:
                cells, sound = self._pages.cells(number)
                if not sound:
                    self.broken.add(shape.name)
                yield from (Found(shape.fields(one.values, one.rowid), whole=one.whole) for one in cells)
        if shape.name in self.broken and shape.stray:
            yield from self._strays(shape)

    def _strays(self, shape: Shape) -> Iterator[Found]:
        certain = self._pages.free is not None
        for number, widths in self._widths.items():
            if not widths.isdisjoint(shape.widths):
                for one in self._pages.cells(number)[0]:
                    if one.whole and shape.fits(one.values) and (one.rowid is not None or not shape.rowid):
                        yield Found(shape.fields(one.values, one.rowid), certain=certain)

    @cached_property
    def _widths(self) -> Mapping[int, frozenset[int]]:
        """How many columns the rows have on each page that is of no tree: few are worth a look for a table."""
        reached = {number for made in self._schema.values() for number in self._pages.tree(made.root).pages}
        return {
            number: frozenset(len(one.values) for one in self._pages.cells(number)[0])
            for number in self._pages.leaves()
            if number not in reached
        }

    def _is_missing(self, shape: Shape) -> bool:
        """Say whether the schema can be read whole and has no such table."""
        return self._schema_is_whole and shape.name not in self._schema

    def _root(self, shape: Shape) -> int | None:
        """Return the first page of a table: the one that the schema names, or where that is lost a new file's."""
        known = self._schema.get(shape.name)
        stated = None if known is None else known.root
        if self._schema_is_whole:
            return stated
        guessed = usual_roots().get(shape.name)
        taken = {made.root for name, made in self._schema.items() if name != shape.name}
        candidates = (stated, None if guessed in taken else guessed)
        return next((root for root in candidates if root is not None and self._looks_like(root, shape)), None)

    def _looks_like(self, root: int, shape: Shape) -> bool:
        """Say whether the rows below a page are those of a table, as far as the first page with rows tells."""
        for number in self._pages.tree(root).pages:
            cells = [one for one in self._pages.cells(number)[0] if one.whole]
            if cells:
                return all(shape.fits(one.values) for one in cells)
        return self._pages.tree(root).whole

    @property
    def _schema_is_whole(self) -> bool:
        return self._schema_found[1]

    @property
    def _schema(self) -> Mapping[str, "_Made"]:
        return self._schema_found[0]

    @cached_property
    def _schema_found(self) -> tuple[Mapping[str, "_Made"], bool]:
        """Return what the schema says of each table and index by name, and whether all of it can be read."""
        tree = self._pages.tree(1) if self._pages.has_header else None
        sound = tree is not None and tree.whole
        cells: list[Cell] = []
        for number in () if tree is None else tree.pages:
            there, readable = self._pages.cells(number)
            cells.extend(there)
            sound = sound and readable
        if not sound:
            cells = [one for number in self._pages.leaves() for one in self._pages.cells(number)[0]]
        found: dict[str, set[_Made]] = {}
        for one in cells:
            if one.whole and shapes.SCHEMA.fits(one.values):
                kind, name, _, root, sql = one.values
                if kind in ("table", "index") and isinstance(root, int) and root > 0:
                    found.setdefault(str(name), set()).add(_Made(root, str(sql or "")))
        # Of two that claim a name neither is believed. A page of another table in the place of one of the schema shows
        # by what is missing.
        named = {name: made.pop() for name, made in found.items() if len(made) == 1}
        return named, sound and named.keys() >= shapes.ALWAYS


class _Made(NamedTuple):
    """A table or index: the first page of its tree, and the statement that made it."""

    root: int
    sql: str

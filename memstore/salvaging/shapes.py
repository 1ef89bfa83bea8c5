"""The tables and indexes that are read: their names, and how a row that has lost its tree is known."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import UnionType
from typing import TypeAlias

from memstore import entities
from memstore.database import schema
from memstore.salvaging.cells import Value

Fields: TypeAlias = Mapping[str, Value]
_HASH_BYTES = 16
_COLUMN = re.compile(r"[(,]\s*(\w+)\s+(?:INTEGER|TEXT|REAL|BLOB)\b")
_NAMED = re.compile(r"CREATE\s+(?:TABLE|(?:UNIQUE\s+)?INDEX)\s+(\w+)")
_COMMENT = re.compile(r"--[^\n]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A table or index: its columns, the one that is the rowid, and what is true of each of its rows.

    `stray` says that a row can be told from those of all others, so that it is known without its tree.
    """

    name: str
    columns: tuple[str, ...]
    fits: Callable[[Sequence[Value]], bool]
    rowid: bool = False
    stray: bool = True

    @property
    def widths(self) -> range:
        """How many columns a row can have: those of later schemas may have more."""
        return range(len(self.columns), len(self.columns) + 10)

    def fields(self, values: Sequence[Value], rowid: int | None) -> Fields:
        """Return a row by the names of its columns; what it is too short for is left out."""
        found = dict(zip(self.columns, values, strict=False))
        if self.rowid:
            found[self.columns[0]] = rowid
        return found

    def fits_fields(self, fields: Fields) -> bool:
        """Say whether each of the columns has a value of its type."""
        values = [fields.get(name) for name in self.columns]
        return all(name in fields for name in self.columns) and self.fits([None, *values[1:]] if self.rowid else values)

    def declared(self, sql: str) -> "Shape":
        """Return the shape with the columns that a file itself says one of our tables has, in their order there.

        A statement that lacks one of them is damaged itself.
        """
        own = columns(sql) if self.name in _STATEMENTS else ()
        return replace(self, columns=own) if set(own) >= set(self.columns) else self


def _of(*kinds: type | UnionType | None) -> Callable[[Sequence[Value]], bool]:
    """Return whether a row has a value of each of these types, and no more; None is NULL."""
    wanted = [type(None) if kind is None else kind for kind in kinds]
    return lambda values: len(values) == len(wanted) and all(map(isinstance, values, wanted))


def _is_memory(values: Sequence[Value]) -> bool:
    # Those of later schemas may be longer.
    return (
        len(values) >= 17
        and values[0] is None
        and all(isinstance(values[at], str) for at in (2, 3, 8, 10, 12))
        and all(isinstance(one, bytes) and len(one) == _HASH_BYTES for one in values[15:17])
    )


def _is_term(values: Sequence[Value]) -> bool:
    return _FOUR_TEXTS(values) and values[0] == entities.reading(str(values[1]))


def columns(sql: str) -> tuple[str, ...]:
    """Return the columns of a table by the statement that made it, or was altered since, in our schemas."""
    return tuple(_COLUMN.findall(_COMMENT.sub("", sql)))


_FOUR_TEXTS = _of(str, str, str, str)
_STATEMENTS = {
    match.group(1): statement
    for statement in _COMMENT.sub("", schema()).split(";")
    if (match := _NAMED.search(statement)) is not None
}


def _table(name: str, fits: Callable[[Sequence[Value]], bool], *, rowid: bool = False, stray: bool = True) -> Shape:
    return Shape(name=name, columns=columns(_STATEMENTS[name]), fits=fits, rowid=rowid, stray=stray)


def _index(name: str, first: type) -> Shape:
    return Shape(name=name, columns=("value", "id"), fits=_of(first, int), stray=False)


MEMORIES = _table("memories", _is_memory, rowid=True)
TAGS = _table("tags", _of(int, str))
TAGS_TAG = Shape(name="tags_tag", columns=("tag", "memory_id"), fits=_of(str, int))
USES = _table("uses", _of(None, int, str), rowid=True)
PASSAGES = _table("passages", _of(None, int, int, int, int | None), rowid=True)
# Its first columns: those behind differ from schema to schema, and nothing is asked of them.
ANALYSED = Shape(
    name="analysed",
    columns=("memory_id", "languages", "length", "terms"),
    fits=lambda values: _of(None, str, int, str)(values[:4]),
    rowid=True,
    stray=False,
)
VOCABULARY = _table("vocabulary", _of(None, str), rowid=True)
ENTITIES = _table("entities", _of(None, str, str, str), rowid=True)
MEMORY_ENTITIES = _table("memory_entities", _of(int, int, int, int))
ENTITY_TERMS = _table("entity_terms", _is_term)
PASSAGE_VECTORS = _table("passage_vectors", _of(int, int, bytes, bytes | None, int))
META = _table("meta", _of(str, str), stray=False)
PROFILES = _table("profiles", _of(str, str), stray=False)
EMBEDDERS = _table(
    "embedders",
    _of(None, str, str | None, str, int, str, str, str, str, bytes, bytes, str, str, int),
    rowid=True,
)
SEQUENCES = Shape(name="sqlite_sequence", columns=("name", "seq"), fits=_of(str, int), stray=False)
# Each names every memory, with something that tells which state of it is the last.
CONTENT = _index("memories_content", bytes)
UPDATED = _index("memories_updated", str)
CREATED = _index("memories_created", str)

# Every file has these.
ALWAYS = frozenset(
    shape.name
    for shape in (
        *(MEMORIES, TAGS, TAGS_TAG, USES, PASSAGES, ANALYSED, VOCABULARY, ENTITIES, MEMORY_ENTITIES, ENTITY_TERMS),
        *(PASSAGE_VECTORS, META, PROFILES, EMBEDDERS, SEQUENCES, CONTENT, UPDATED, CREATED),
    )
)

SCHEMA = Shape(
    name="sqlite_schema",
    columns=("type", "name", "tbl_name", "rootpage", "sql"),
    fits=_of(str, str, str, int, str | None),
)


def chunks(space_id: int, dimensions: int) -> Shape:
    """Return the shape of the table that sqlite-vec keeps the vectors of a space in, many in one row."""

    def fits(values: Sequence[Value]) -> bool:
        return (
            len(values) == 2
            and isinstance(values[0], int)
            and isinstance(values[1], bytes)
            and len(values[1]) >= 4 * dimensions
        )

    return Shape(name=f"vectors_{space_id}_vector_chunks00", columns=("chunk", "vectors"), fits=fits)

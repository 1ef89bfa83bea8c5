"""What the indexes and caches of a file say of its memories: which belong to it, and in which state."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeGuard

from memstore.making import Span
from memstore.memories import Row
from memstore.salvaging import shapes
from memstore.salvaging.cells import Value
from memstore.salvaging.judging import Judged
from memstore.salvaging.shapes import Fields, Shape
from memstore.salvaging.sources import Source

# Ids count up from 1; what a damaged page says of them may be anything.
_LARGEST_ID = 2**48


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A row that was found, and whether it belongs to the file for certain."""

    judged: Judged
    certain: bool

    @property
    def rank(self) -> tuple[bool, bool, bool, str]:
        return self.certain, self.judged.verified, self.judged.same_text, str(self.judged.row.updated_at)


class Witnesses:
    """What is read beside `memories` of a damaged file. Deleting a memory, or changing it, changes all of this too."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._content = {(one.fields.get("value"), one.fields.get("id")) for one in source.rows(shapes.CONTENT)}
        self._updated = _by_id(source, shapes.UPDATED)
        self.created = _by_id(source, shapes.CREATED)
        analysed = {one["memory_id"] for one in certain(source, shapes.ANALYSED)}
        named = {*(one for _, one in self._content), *self._updated, *self.created, *analysed}
        self.ids = {one for one in named if is_id(one)}
        # An index that can be read whole leaves no doubt of the others: they had been deleted.
        indexes = (shapes.CONTENT, shapes.UPDATED, shapes.CREATED)
        self.name_all = any(shape.name not in source.broken for shape in indexes)

    def confirmed(self, found: Candidate) -> Candidate:
        """Return a row as certain as these make it.

        One that was changed later is not as it was stored last; one that none of them knows may be gone.
        """
        row, judged = found.judged.row, found.judged
        if self.name_all and row.id not in self.ids:
            return Candidate(judged=judged, certain=False)
        if row.id in self._updated:
            is_last = self._updated[row.id] == row.updated_at
            return Candidate(
                judged=judged if is_last else judged._replace(verified=False), certain=found.certain or is_last
            )
        known = judged.same_text and ((row.content_hash, row.id) in self._content or self._is_embedded(row))
        return Candidate(judged=judged, certain=found.certain or known)

    def _is_embedded(self, row: Row) -> bool:
        """Say whether vectors are noted for the passages of a memory, and all of them for this very text."""
        try:
            _ = row.day
        except (ArithmeticError, TypeError, ValueError):
            # Its date is no date, and was part of what was embedded.
            return False
        noted = [
            (start, stop, text_hash)
            for passage_id, start, stop in self._passages.get(row.id or 0, ())
            for text_hash in self._text_hashes.get(passage_id, ())
        ]
        return (
            bool(noted)
            and max(stop for _, stop, _ in noted) == len(row.text)
            and all(Span(row, start, stop).hash == text_hash for start, stop, text_hash in noted)
        )

    @cached_property
    def _passages(self) -> Mapping[Value, list[tuple[Value, int, int]]]:
        found: dict[Value, list[tuple[Value, int, int]]] = {}
        for one in certain(self._source, shapes.PASSAGES):
            start, stop = one["start"], one["stop"]
            if isinstance(start, int) and isinstance(stop, int):
                found.setdefault(one["memory_id"], []).append((one["id"], start, stop))
        return found

    @cached_property
    def _text_hashes(self) -> Mapping[Value, list[Value]]:
        found: dict[Value, list[Value]] = {}
        for one in certain(self._source, shapes.PASSAGE_VECTORS):
            found.setdefault(one["passage_id"], []).append(one["text_hash"])
        return found


def certain(source: Source, shape: Shape) -> Iterator[Fields]:
    """Yield the rows of a table that belong to it for certain, each with a value of its type in every column."""
    for one in source.rows(shape):
        if one.certain and one.whole:
            if shape.fits_fields(one.fields):
                yield one.fields
            else:
                source.broken.add(shape.name)


def is_id(value: Value) -> TypeGuard[int]:
    """Say whether a value can be the id of a row."""
    return isinstance(value, int) and 0 < value < _LARGEST_ID


def _by_id(source: Source, shape: Shape) -> dict[Value, str]:
    """Return what an index holds by the ids of the memories."""
    return {one["id"]: value for one in certain(source, shape) if isinstance(value := one["value"], str)}

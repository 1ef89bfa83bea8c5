"""Whether a row of `memories` is as it was stored, by the hashes that were kept with it; and what is left of others."""

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from memstore import checks, memories
from memstore.errors import InvalidInputError
from memstore.memories import Row
from memstore.salvaging.shapes import Fields

# The metadata field of a memory that is not as it was stored, and what it says.
SALVAGED = "salvaged"
UNVERIFIED = "unverified"
# Tags that are lost are found again by the hash where they are a few of those that most memories have.
_MOST_LOST_TAGS = 3
_TRIED_TAGS = 12
_LONGEST_DAY = 24 * 60
# No text has one: pages that were overwritten with zeros do.
_NULS = re.compile("\x00+")


class Judged(NamedTuple):
    """A row and whether it is as it was stored: all of it, or at least its text, author, thread and namespace."""

    row: Row
    verified: bool
    same_text: bool


def judged(fields: Fields, tags: Collection[str], others: Collection[str], usual: Sequence[str]) -> Judged | None:
    """Return a row with the tags that its hash fits with, None where it can't be one at all.

    `tags` are those that it has for certain, `others` those that it may have had besides, `usual` those that memories
    have, the most frequent first.
    """
    if not isinstance(fields.get("id"), int) or not isinstance(fields.get("text"), str):
        return None
    row = memories.row_of(fields, tags)
    try:
        same_text = fields.get("content_hash") == row.content_hash
        for guess in _guesses(set(tags), set(others), usual if same_text else ()):
            guessed = dataclasses.replace(row, tags=tuple(sorted(guess)))
            if guessed.row_hash == fields.get("row_hash"):
                return Judged(guessed, True, True)
    except (TypeError, ValueError):
        # What has no form as JSON, or half a character in it, was never stored.
        same_text = False
    return Judged(row, False, same_text)


def _guesses(tags: set[str], others: set[str], usual: Sequence[str]) -> Iterator[set[str]]:
    yield tags
    if others - tags:
        yield tags | others
    lacking = [tag for tag in usual[:_TRIED_TAGS] if tag not in tags]
    for number in range(1, _MOST_LOST_TAGS + 1):
        for more in itertools.combinations(lacking, number):
            yield tags | set(more)


def mended(row: Row, *, created_at: str | None, moment: str) -> Row | None:
    """Return what can be stored of a row that is not as it was, marked in its metadata; None without any text.

    What means nothing in its place is left out. A row without its date has `created_at`, else that of its last change,
    else `moment`.
    """
    text = _NULS.sub("\ufffd", row.text)
    if not text.strip("\ufffd").strip() or row.id is None or row.id < 1:
        return None
    thread = _name(row.thread)
    # Without its place in a thread it goes by its id, which tells the order of writing.
    position = row.position if isinstance(row.position, float) and math.isfinite(row.position) else float(row.id)
    created = time(row.created_at) or time(created_at) or time(row.updated_at) or moment
    offset = row.created_offset
    found = Row(
        id=row.id,
        key=_name(row.key, longest=checks.LONGEST_KEY),
        namespace=_name(row.namespace) or "default",
        text=text,
        author=_name(row.author),
        thread=thread,
        position=position if thread is not None else None,
        language=_name(row.language),
        created_at=created,
        created_offset=offset if isinstance(offset, int) and abs(offset) < _LONGEST_DAY else None,
        updated_at=time(row.updated_at) or created,
        expires_at=time(row.expires_at),
        metadata=checks.encoded({**_metadata(row.metadata), SALVAGED: UNVERIFIED}),
        pinned=row.pinned,
        replaces=row.replaces if isinstance(row.replaces, int) and row.replaces > 0 else None,
        tags=tuple(sorted({tag for tag in map(_name, row.tags) if tag is not None})),
    )
    try:
        _ = found.day
    except (ValueError, OverflowError):
        # At the ends of the calendar a clock may show no date.
        return dataclasses.replace(found, created_offset=None)
    return found


def _name(value: Any, *, longest: int = checks.LONGEST_NAME) -> str | None:
    try:
        return checks.name("name", value, longest=longest)
    except InvalidInputError:
        return None


def time(value: Any) -> str | None:
    """Return a time as stored, None where it is none."""
    try:
        return value if checks.stamp(checks.moment(value)) == value else None
    except (TypeError, ValueError, OverflowError):
        return None


def _metadata(value: Any) -> dict[str, Any]:
    try:
        return checks.metadata(json.loads(value))
    except (TypeError, ValueError, RecursionError, InvalidInputError):
        return {}

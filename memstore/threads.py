"""Threads: which memories stand beside which."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apsw

from memstore.database import all_rows, as_stored

# As far as the turns of a conversation speak of one thing; with three each way hit@10 on judged conversations fell.
REACH = 2
# A question mark before white space, what may close a sentence, or the end: one inside a link asks nothing.
_CLOSING = r"\s\"'”’»)\]!.…?"
_QUESTIONS = re.compile(rf"\?(?=[{_CLOSING}]|\Z)|[？؟]")
_ASKS = re.compile(rf"[?？؟][{_CLOSING}]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a memory stands; memories at one position stand in the order of their ids."""

    namespace: str
    thread: str
    position: float
    memory_id: int


def place(conn: apsw.Connection, memory_id: int) -> Place | None:
    """Return the place of a memory, None when it is in no thread."""
    rows = all_rows(
        conn,
        "SELECT namespace, thread, position, id FROM memories WHERE id = ? AND thread IS NOT NULL",
        (memory_id,),
    )
    return Place(namespace=rows[0][0], thread=rows[0][1], position=rows[0][2], memory_id=memory_id) if rows else None


def beside(conn: apsw.Connection, at: Place | None) -> tuple[int, ...]:
    """Return the memories up to `REACH` before and after a place in its thread, in their order."""
    if at is None:
        return ()
    before, after = sides(conn, at)
    return (*before, *after)


def sides(conn: apsw.Connection, at: Place) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the memories up to `REACH` before a place in its thread, and those after it, each in their order."""
    values = (at.namespace, at.thread, at.position, at.memory_id, REACH)
    columns = "SELECT id FROM memories WHERE namespace = ? AND thread = ?"
    before = all_rows(conn, f"{columns} AND (position, id) < (?, ?) ORDER BY position DESC, id DESC LIMIT ?", values)
    after = all_rows(conn, f"{columns} AND (position, id) > (?, ?) ORDER BY position, id LIMIT ?", values)
    return tuple(one for (one,) in before[::-1]), tuple(one for (one,) in after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A memory in a thread: who says it, how many terms it has, whether it asks, and the turns beside it.

    `asks` says that it ends in a question mark, `questions` that it has one anywhere.
    """

    memory_id: int
    thread: tuple[str, str]
    author: str | None
    length: int
    asks: bool
    questions: bool
    before: int | None = None
    after: int | None = None


def turns(conn: apsw.Connection, ids: Iterable[int], moment: str) -> dict[int, Turn]:
    """Return those of some memories that are in a thread, and the turns beside them; `moment` is the present as stored.

    What has expired is passed over.
    """
    rows = _turns(conn, ids, moment)
    with as_stored("the cache of analysed texts"):
        wanted = {row[0]: {int(other) for other in row[-1].split(" ") if other} for row in rows}
    others = set().union(*wanted.values()) - wanted.keys()
    rows += _turns(conn, others, moment)
    with as_stored("the order of a thread"):
        # In the order of their threads, so that the turns beside each are those next to it.
        rows.sort(key=lambda row: (row[1], row[2], row[3], row[0]))
    made: dict[int, Turn] = {}
    for index, (memory_id, namespace, thread, _, author, length, text, _) in enumerate(rows):
        # What is next here is so in the thread only where the memory knows it: between them may be others.
        known = wanted.get(memory_id, set())
        before, after = (
            rows[at][0] if 0 <= at < len(rows) and rows[at][0] in known else None for at in (index - 1, index + 1)
        )
        made[memory_id] = Turn(
            memory_id=memory_id,
            thread=(namespace, thread),
            author=author,
            length=length,
            asks=_ASKS.search(text) is not None,
            questions=_QUESTIONS.search(text) is not None,
            before=before,
            after=after,
        )
    return made


def _turns(conn: apsw.Connection, ids: Iterable[int], moment: str) -> list[Any]:
    ids = list(ids)
    if not ids:
        return []
    return all_rows(
        conn,
        "SELECT m.id, m.namespace, m.thread, m.position, m.author, a.length,"
        # Of a long text its beginning and end are enough.
        " CASE WHEN length(m.text) > 2000 THEN substr(m.text, 1, 1000) || ' ' || substr(m.text, -1000) ELSE m.text END,"
        " a.beside"
        " FROM json_each(?) j CROSS JOIN memories m ON m.id = j.value JOIN analysed a ON a.memory_id = m.id"
        " WHERE m.thread IS NOT NULL AND (m.expires_at IS NULL OR m.expires_at > ?)",
        (json.dumps(ids), moment),
    )

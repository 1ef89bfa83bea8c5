"""The keyword signal: FTS5's BM25 over analysed terms."""

import json
from collections.abc import Iterable, Sequence

import apsw

from memstore.analysis import QueryWord
from memstore.database import all_rows
from memstore.filters import Condition
from memstore.records import Candidates, Match

MATCHES: tuple[Match, ...] = ("any", "all", "all_then_any")


def index(conn: apsw.Connection, memory_id: int, terms: Sequence[str], languages: Sequence[str]) -> None:
    """Put a memory's terms into the index, in place of those it had."""
    joined = " ".join(terms)
    conn.execute(
        "INSERT INTO analysed (memory_id, languages, terms) VALUES (?1, ?2, ?3)"
        " ON CONFLICT (memory_id) DO UPDATE SET languages = ?2, terms = ?3",
        (memory_id, " ".join(languages), joined),
    )
    conn.execute(
        "INSERT OR REPLACE INTO memory_terms (rowid, terms, neighbours) VALUES (?, ?, '')", (memory_id, joined)
    )


def remove(conn: apsw.Connection, memory_id: int) -> None:
    """Take a memory's terms out of the index."""
    conn.execute("DELETE FROM memory_terms WHERE rowid = ?", (memory_id,))
    conn.execute("DELETE FROM analysed WHERE memory_id = ?", (memory_id,))


def search(
    conn: apsw.Connection, words: Sequence[QueryWord], condition: Condition | None, depth: int, match: Match = "any"
) -> tuple[Candidates, str]:
    """Return the best `depth` memories that hold a word of the query, and the expression that found them.

    Scores are FTS5's BM25 turned positive, higher is better, open above
    (https://www.sqlite.org/fts5.html#the_bm25_function: k1 = 1.2, b = 0.75). Only memories that match are candidates.
    """
    if not words:
        return Candidates(), ""
    for joint in [" OR "] if match == "any" else [" AND "] if match == "all" else [" AND ", " OR "]:
        expression = joint.join(_any_of(word.terms) for word in words)
        where, values = ("", ()) if condition is None else (f" AND +rowid IN {condition.ids}", condition.values)
        rows = all_rows(
            conn,
            f"SELECT rowid, -rank FROM memory_terms WHERE memory_terms MATCH ?{where} ORDER BY rank, rowid LIMIT ?",
            (expression, *values, depth),
        )
        if rows:
            break
    ids, scores = zip(*rows, strict=True) if rows else ((), ())
    return Candidates(ids=ids, scores=scores), expression


def complete(conn: apsw.Connection, expression: str, ids: Iterable[int]) -> dict[int, float]:
    """Return the score that `search` would give each of `ids` that matches; those that do not match are left out."""
    if not expression:
        return {}
    # The plus keeps SQLite from running the full-text query once for each id.
    rows = all_rows(
        conn,
        "SELECT rowid, -rank FROM memory_terms WHERE memory_terms MATCH ?"
        " AND +rowid IN (SELECT value FROM json_each(?))",
        (expression, json.dumps(list(ids))),
    )
    return {int(memory_id): float(score) for memory_id, score in rows}


def matched(conn: apsw.Connection, words: Sequence[QueryWord], ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return which words of the query each memory holds, in the query's order."""
    rows = all_rows(
        conn,
        "SELECT memory_id, terms FROM analysed WHERE memory_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)),),
    )
    found: dict[int, tuple[str, ...]] = {}
    for memory_id, terms in rows:
        held = set(terms.split(" "))
        found[memory_id] = tuple(word.word for word in words if not held.isdisjoint(word.terms))
    return found


def _any_of(terms: Sequence[str]) -> str:
    """Quote every term, so that no text of a query is ever FTS5 syntax."""
    quoted = [f'"{term.replace(chr(34), chr(34) * 2)}"' for term in terms]
    return quoted[0] if len(quoted) == 1 else f"({' OR '.join(quoted)})"

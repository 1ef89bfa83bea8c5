"""The keyword signal: FTS5 finds the memories that hold a word, BM25 over their terms ranks them."""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import apsw
import numpy as np
from numpy.typing import NDArray

from memstore.analysis import STEM_MARK, QueryWord, exact, fold, weight
from memstore.database import all_rows, as_stored, fts5_string, one_value
from memstore.filters import Condition
from memstore.ranking import Ranking, Values
from memstore.records import Candidates, Match

MATCHES: tuple[Match, ...] = ("any", "all", "all_then_any")
# FTS5 ranks with other parameters, so three times the memories wanted are taken from it and ranked again: on judged
# sets the first ten are then those of ranking every memory, but for one question in two hundred.
_POOL = 3
_SMALLEST_POOL = 150
# A ranking that is unlike FTS5's may find its best far down.
_POOL_OF_OTHERS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A query made ready for one state of the file: its words, its terms that are there, and the weight of each.

    `attainable` is what a memory of mean length would score that holds every word once, and `known` the share of it
    that falls to words which the store has; a word that no memory holds counts as one that a single memory does.
    `importance` is what each word is worth, by its spelling in lower case.
    """

    words: tuple[QueryWord, ...]
    terms: tuple[str, ...]
    weights: Values
    attainable: float
    known: float
    importance: Mapping[str, float]
    mean_length: float
    ranking: Ranking
    moment: str


# What gives any memories the scores of a search.
Completing: TypeAlias = Callable[[Sequence[int]], dict[int, float]]


def noted(terms: Sequence[str], languages: Sequence[str]) -> tuple[str, int, str, str]:
    """Return what `analysed` holds of a memory's terms: languages, length, distinct terms and counts."""
    counts = Counter(terms).most_common()
    return (
        " ".join(languages),
        len(terms),
        " ".join([one for one, _ in counts]),
        " ".join([str(count) for _, count in counts if count > 1]),
    )


def index(conn: apsw.Connection, memory_id: int, terms: Sequence[str], languages: Sequence[str], made: str) -> None:
    """Note a memory's terms, in place of those it had; `write_row` puts them into the index.

    `made` names the analysis that made them (`analysis.stamp`).
    """
    conn.execute(
        "INSERT INTO analysed (memory_id, languages, length, terms, counts, analyser) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        " ON CONFLICT (memory_id) DO UPDATE SET languages = ?2, length = ?3, terms = ?4, counts = ?5, analyser = ?6",
        (memory_id, *noted(terms, languages), made),
    )


def write_row(conn: apsw.Connection, memory_id: int, beside: Sequence[int]) -> None:
    """Write a memory's row of the index: its own terms, and those of the memories beside it in its thread."""
    conn.execute("UPDATE analysed SET beside = ? WHERE memory_id = ?", (" ".join(map(str, beside)), memory_id))
    own = all_rows(conn, "SELECT terms, counts FROM analysed WHERE memory_id = ?", (memory_id,))
    near = all_rows(
        conn,
        "SELECT terms FROM analysed WHERE memory_id IN (SELECT value FROM json_each(?)) ORDER BY memory_id",
        (json.dumps(list(beside)),),
    )
    conn.executemany(
        "INSERT OR REPLACE INTO memory_terms (rowid, terms, neighbours) VALUES (?, ?, ?)",
        [
            (memory_id, " ".join(Counter(counted(terms, counts)).elements()), " ".join([one for (one,) in near]))
            for terms, counts in own
        ],
    )


def indexed(conn: apsw.Connection, memory_id: int) -> bool:
    """Say whether a memory has terms."""
    return bool(one_value(conn, "SELECT EXISTS (SELECT 1 FROM analysed WHERE memory_id = ?)", (memory_id,)))


def counted(terms: str, counts: str) -> dict[str, int]:
    """Return how often each term stands in a memory, from what `analysed` holds."""
    with as_stored("the cache of analysed texts"):
        found = dict.fromkeys(terms.split(" ") if terms else (), 1)
        for one, count in zip(found, counts.split(" ") if counts else (), strict=False):
            found[one] = int(count)
    return found


def remove(conn: apsw.Connection, memory_id: int) -> None:
    """Take a memory's terms out of the index."""
    conn.execute("DELETE FROM memory_terms WHERE rowid = ?", (memory_id,))
    conn.execute("DELETE FROM analysed WHERE memory_id = ?", (memory_id,))


def ask(conn: apsw.Connection, words: Sequence[QueryWord], ranking: Ranking, moment: str) -> Asked:
    """Return a query with the weight of each of its terms: its idf times its weight in the analysis.

    `moment` is the present as stored: what has expired by then lends no words to its neighbours.
    """
    with as_stored("the count of memories and terms"):
        ((memories, length),) = all_rows(conn, "SELECT memories, terms FROM statistics")
        if min(memories, length) < 0:
            raise ValueError(f"{memories} memories with {length} terms")
    frequencies = _document_frequencies(conn, {term for word in words for term in word.terms})
    terms = tuple(sorted(frequencies))
    # No more than there are: an index that names more is damaged, which is said where its rows are read.
    weights = {term: ranking.idf(min(frequencies[term], memories), memories) * weight(term) for term in terms}
    rarest = ranking.idf(1, max(1, memories))
    held = [(word, _attainable(word, weights)) for word in words]
    absent = [
        (word, _attainable(word, {term: rarest * weight(term) for term in word.terms}))
        for word in words
        if weights.keys().isdisjoint(word.terms) and not _parted(word, words)
    ]
    there, missing = sum(worth for _, worth in held), sum(worth for _, worth in absent)
    return Asked(
        words=tuple(words),
        terms=terms,
        weights=np.array(list(weights.values()), dtype=np.float64),
        # Rounded as scores are, so that a memory that has all of it is 1 to the last bit.
        attainable=round(there + missing, 12),
        known=there / (there + missing) if there else 0.0,
        importance={exact(word.word): worth for word, worth in (*held, *absent)},
        mean_length=length / memories if length else 1.0,
        ranking=ranking,
        moment=moment,
    )


def _parted(word: QueryWord, words: Sequence[QueryWord]) -> bool:
    """Say whether a word is a compound whose parts are words of the query too: `err-4018`, and not `C++`."""
    return word.compound and any(term in word.terms[0] for one in words if not one.compound for term in one.terms)


def _attainable(word: QueryWord, weights: Mapping[str, float]) -> float:
    """Return the most that one memory could score with a word: as spelt, and by its stem in one language."""
    held = [term for term in word.terms if term in weights]
    spelt = max((weights[term] for term in held if not term.startswith(STEM_MARK)), default=0.0)
    return spelt + max((weights[term] for term in held if term.startswith(STEM_MARK)), default=0.0)


def search(
    conn: apsw.Connection, asked: Asked, condition: Condition | None, depth: int, match: Match = "any"
) -> tuple[Candidates, Completing]:
    """Return the best `depth` memories that hold a word of the query or stand beside one, and what scores any others.

    Scores are BM25 over the memory's terms and, more lightly, those beside it (see `ranking`): higher is better, open
    above. `match` all wants every word in the memory itself. A memory that does not match has a known 0, which is no
    evidence.
    """
    every = match != "any"
    scores = _found(conn, asked, condition, depth, every=every)
    if not scores and match == "all_then_any":
        every = False
        scores = _found(conn, asked, condition, depth, every=every)
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:depth]
    found = Candidates(ids=tuple(one for one, _ in best), scores=tuple(value for _, value in best))

    def complete(ids: Sequence[int]) -> dict[int, float]:
        others = [one for one in ids if one not in scores]
        if every and others:
            wanted = {word.word for word in _required(asked)}
            words = held(conn, asked, others)
            others = [one for one in others if wanted <= set(words.get(one, ()))]
        return dict.fromkeys(ids, 0.0) | scores | score(conn, asked, others)

    return found, complete


def _found(
    conn: apsw.Connection, asked: Asked, condition: Condition | None, depth: int, *, every: bool
) -> dict[int, float]:
    """Return the scores of what FTS5 puts first among the memories with any word, or with every one."""
    expression = _expression(asked, every=every)
    if not expression:
        return {}
    where, values = ("", ()) if condition is None else (f" AND +rowid IN {condition.ids}", condition.values)
    pool = max(_SMALLEST_POOL, (_POOL if asked.ranking.like_fts5 else _POOL_OF_OTHERS) * depth)
    rows = all_rows(
        conn,
        "SELECT rowid FROM memory_terms WHERE memory_terms MATCH ? AND rank MATCH ?"
        f"{where} ORDER BY rank, rowid LIMIT ?",
        # FTS5's own BM25 with the weights of the two columns (https://www.sqlite.org/fts5.html#the_bm25_function).
        (expression, f"bm25(1.0, {asked.ranking.neighbours:.6f})", *values, pool),
    )
    return score(conn, asked, [memory_id for (memory_id,) in rows])


def score(conn: apsw.Connection, asked: Asked, ids: Sequence[int]) -> dict[int, float]:
    """Return the score that `search` would give each of `ids` that has one above 0."""
    if not ids or not asked.terms:
        return {}
    rows = _analysed(conn, ids)
    if len(rows) < len(ids):
        lost = len(ids) - len(rows)
        warnings.warn(f"{lost} memories are not analysed as they should be: memstore doctor --repair.", stacklevel=2)
    near = {row.memory_id: row.beside if asked.ranking.neighbours else () for row in rows}
    rows += _analysed(conn, {other for beside in near.values() for other in beside} - near.keys())
    gone = _expired(conn, [row.memory_id for row in rows], asked.moment)
    frequency = asked.ranking.normalised_frequency(
        _counts(rows, asked.terms),
        np.array([row.length for row in rows], dtype=np.float64).reshape(-1, 1),
        asked.mean_length,
    )
    at = {row.memory_id: index for index, row in enumerate(rows)}
    total = frequency[: len(near)].copy()
    for index, beside in enumerate(near.values()):
        there = [at[other] for other in beside if other in at and other not in gone]
        if there:
            total[index] += asked.ranking.neighbours * frequency[there].sum(axis=0)
    # Summed row by row and rounded, so that memories of equal evidence have equal scores to the last bit.
    scores = (asked.ranking.saturated(total) * asked.weights).sum(axis=1).round(12)
    return {memory_id: value for memory_id, value in zip(near, scores.tolist(), strict=True) if value > 0}


def held(conn: apsw.Connection, asked: Asked, ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return which words of the query each memory holds itself, in the query's order."""
    rows = _analysed(conn, ids)
    return {
        row.memory_id: _words(asked, there) for row, there in zip(rows, _counts(rows, asked.terms) > 0, strict=True)
    }


def lent(conn: apsw.Connection, asked: Asked, own: Mapping[int, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
    """Return which words of the query each memory has from those beside it in its thread alone; `own` are its own."""
    if not asked.ranking.neighbours:
        return {}
    rows = _analysed(conn, own)
    beside = {other for row in rows for other in row.beside}
    others = held(conn, asked, beside - _expired(conn, beside, asked.moment))
    near = {row.memory_id: {word for other in row.beside for word in others.get(other, ())} for row in rows}
    return {
        one: tuple(word.word for word in asked.words if word.word in words and word.word not in own[one])
        for one, words in near.items()
    }


def _words(asked: Asked, there: NDArray[np.bool_]) -> tuple[str, ...]:
    terms = {asked.terms[column] for column in np.flatnonzero(there)}
    return tuple(word.word for word in asked.words if not terms.isdisjoint(word.terms))


def vector(conn: apsw.Connection, memory_id: int, ranking: Ranking) -> dict[str, float]:
    """Return what each term of a memory adds to the score of a query that has it; the memories beside it left out."""
    rows = _analysed(conn, [memory_id])
    if not rows:
        return {}
    held = counted(rows[0].terms, rows[0].counts)
    asked = ask(conn, [QueryWord(word=one, terms=(one,)) for one in held], ranking, "")
    count = np.array([held[term] for term in asked.terms], dtype=np.float64)
    frequency = ranking.normalised_frequency(count, np.array(float(rows[0].length)), asked.mean_length)
    return dict(zip(asked.terms, (ranking.saturated(frequency) * asked.weights).tolist(), strict=True))


def numbers(conn: apsw.Connection, terms: Iterable[str]) -> dict[str, int]:
    """Return the number of each term that has one."""
    rows = all_rows(
        conn,
        "SELECT term, id FROM vocabulary WHERE term IN (SELECT value FROM json_each(?))",
        (json.dumps(list(terms)),),
    )
    return dict(rows)


def number(conn: apsw.Connection, terms: Iterable[str]) -> None:
    """Give a number to each term that has none."""
    conn.executemany("INSERT OR IGNORE INTO vocabulary (term) VALUES (?)", [(term,) for term in terms])


def restore_numbers(conn: apsw.Connection, terms: Mapping[int, str]) -> None:
    """Give terms the numbers that they had in another file; one that has a number keeps it."""
    conn.executemany("INSERT OR IGNORE INTO vocabulary (id, term) VALUES (?, ?)", terms.items())


def all_of(wanted: Sequence[Sequence[str]]) -> str:
    """Return what FTS5 is asked for memories that hold one term of each group themselves; no group is empty."""
    return f"terms : ({' AND '.join(f'({_any_of(group)})' for group in wanted)})"


def _expression(asked: Asked, *, every: bool) -> str:
    """Return what FTS5 is asked for: memories with any of the words, or with every one; empty where none can have it.

    A stem with its accents never stands without the one that has none: asking for both finds no more.
    """
    known = {term for term in asked.terms if not term.startswith(STEM_MARK) or fold(term) == term}
    wanted = [[term for term in word.terms if term in known] for word in (_required(asked) if every else asked.words)]
    if every:
        return all_of(wanted) if all(wanted) else ""
    found = _any_of(dict.fromkeys(term for group in wanted for term in group))
    return f"terms : ({found})" if found and not asked.ranking.neighbours else found


def _required(asked: Asked) -> tuple[QueryWord, ...]:
    """Return the words that a memory with every word must have: not a compound, whose parts are asked for too."""
    return tuple(word for word in asked.words if not word.compound) or asked.words


def _expired(conn: apsw.Connection, ids: Iterable[int], moment: str) -> set[int]:
    rows = all_rows(
        conn,
        "SELECT j.value FROM json_each(?) j JOIN memories m ON m.id = j.value WHERE m.expires_at <= ?",
        (json.dumps(list(ids)), moment),
    )
    return {memory_id for (memory_id,) in rows}


def _any_of(terms: Iterable[str]) -> str:
    return " OR ".join(map(fts5_string, terms))


def _document_frequencies(conn: apsw.Connection, terms: Iterable[str]) -> dict[str, int]:
    """Return how many memories hold each term themselves; a term that none holds is left out."""
    rows = all_rows(
        conn,
        "SELECT j.value, v.doc FROM json_each(?) j CROSS JOIN memory_terms_count v"
        " ON v.term = j.value AND v.col = 'terms'",
        (json.dumps(list(terms)),),
    )
    return dict(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Analysed:
    """A row of `analysed`."""

    memory_id: int
    length: int
    terms: str
    counts: str
    beside: tuple[int, ...]


def _analysed(conn: apsw.Connection, ids: Iterable[int]) -> list[_Analysed]:
    rows = all_rows(
        conn,
        "SELECT memory_id, length, terms, counts, beside FROM analysed"
        " WHERE memory_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)),),
    )
    with as_stored("the cache of analysed texts"):
        return [
            _Analysed(memory_id=a, length=b, terms=c, counts=d, beside=tuple(map(int, e.split(" "))) if e else ())
            for a, b, c, d, e in rows
        ]


def _counts(rows: Sequence[_Analysed], terms: Sequence[str]) -> Values:
    """Return how often each term stands in each memory, float64 of shape (rows, terms).

    The distinct terms of a memory are searched as one text rather than parted: that is what keeps a memory of a hundred
    pages quick. They stand in the order of their counts, so that the place of one tells its count.
    """
    found = np.zeros((len(rows), len(terms)))
    padded = [f" {term} " for term in terms]
    with as_stored("the cache of analysed texts"):
        for index, row in enumerate(rows):
            text = f" {row.terms} "
            above_one = row.counts.split(" ") if row.counts else ()
            for column, term in enumerate(padded):
                at = text.find(term)
                if at >= 0:
                    before = text.count(" ", 0, at) if above_one else 0
                    found[index, column] = int(above_one[before]) if before < len(above_one) else 1
    return found

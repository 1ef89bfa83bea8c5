"""The search flow: each signal's candidates, one set of them, every score exact, one answer."""

import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import apsw
import numpy as np
import regex
from numpy.typing import NDArray

from memstore import checks, entities, fusion, keyword, memories, semantic
from memstore.analysis import Analyser, fold, whole_word
from memstore.asking import NO_WEIGHT, NOT_ASKED, Asker, refuse_unknown
from memstore.database import Database, all_rows
from memstore.embedding import Vector
from memstore.entities import QueryEntity, Recogniser
from memstore.errors import InvalidInputError, SignalUnavailableError
from memstore.filters import Condition, Filter
from memstore.ranking import Ranking
from memstore.records import Candidates, Hit, Match, Memory, Passage, SearchResult, SignalScore, Weights
from memstore.semantic import StoredSpace
from memstore.serving import Serving

SIGNALS = ("keyword", "semantic", "entity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A checked search: what is asked, of which memories, and how the signals are put together."""

    query: str
    k: int
    depth: int
    weights: Weights
    fusion: str | None
    filter: Filter
    signals: tuple[str, ...] | None
    match: Match
    ranking: Ranking


@dataclass(slots=True, kw_only=True)
class _Scored:
    """What a signal found, and what gives its raw score of any candidates by memory id."""

    found: Candidates
    complete: Callable[[Sequence[int]], Mapping[int, float]]


class Searcher:
    """Answers questions from one store."""

    def __init__(
        self, database: Database, analyser: Analyser, serving: Serving, recogniser: Recogniser | None = None
    ) -> None:
        self._database = database
        self._analyser = analyser
        self._serving = serving
        self._asker = Asker(serving)
        self._recogniser = recogniser

    def search(self, question: Question) -> SearchResult:
        """Return the best `k` memories. Raises `SignalUnavailableError` when a signal that was named can't help."""
        clock = _Clock()
        normalise = fusion.method(question.fusion)
        with self._database.read() as conn:
            stored = semantic.spaces(conn)
            refuse_unknown(question.signals, question.weights, SIGNALS, stored)
            with clock("analyse"):
                asked_words = self._analyser.query(question.query)
            if not asked_words:
                return _nothing(question, dict.fromkeys(SIGNALS, "the query has no words"))
            skipped = _not_wanted(question)
            moment = checks.now()
            condition = question.filter.condition(conn, moment)
            asked = self._asker.ask(
                question.query,
                stored,
                question.signals,
                question.weights,
                self._analyser.detect(question.query) if any(space.languages for space in stored) else (),
                semantic.had_any(conn),
            )
            with clock("keyword"):
                to_keyword = keyword.ask(conn, asked_words, question.ranking, moment)
            scored: dict[str, _Scored] = {}
            pending = 0
            # What completing finds out besides scores, by memory id: the nearest passage of a space, the entities.
            passages: dict[str, dict[int, int]] = {}
            held: dict[int, tuple[QueryEntity, ...]] = {}
            if "keyword" not in skipped:
                with clock("keyword"):
                    scored["keyword"] = _keyword(conn, question, to_keyword, condition)
            if "entity" not in skipped:
                with clock("entity"):
                    names = entities.of_query(conn, question.query, self._recogniser)
                    scored["entity"] = _entity(conn, question, names, condition, held)
            vectors: dict[str, Vector] = {}
            if asked.embeddings:
                with clock("embed"):
                    vectors = self._asker.answers(asked)
            for name, vector in vectors.items():
                space, nearest = asked.spaces[name], passages.setdefault(name, {})
                with clock("semantic"):
                    scored[name] = _semantic(conn, question, space, vector, condition, nearest)
                    pending += semantic.waits(conn, space)
            skipped |= asked.skipped
            for model in self._serving.homeless(stored) if vectors else []:
                skipped[model.name] = "it has no space in this file; memstore embedders add makes one"
            if question.signals is not None:
                _refuse_skipped(question.signals, skipped, bool(vectors))
            if not scored:
                return _nothing(question, skipped)
            used = tuple(name for name in ("keyword", *vectors, "entity") if name in scored)
            with clock("complete"):
                ids = _existing(conn, {one for name in used for one in scored[name].found.ids})
                raw = {name: _row(ids, scored[name].complete(ids)) for name in used}
            with clock("fuse"):
                boosts = np.array([_boost(question.weights, held.get(one, ())) for one in ids], dtype=np.float64)
                total, order, parts = fusion.fuse(
                    raw,
                    {name: np.isfinite(raw[name]) & ((raw[name] > 0) | (name in vectors)) for name in used},
                    fusion.shares(question.weights, used, {name: asked.spaces[name].name for name in vectors}),
                    boosts,
                    np.array(ids, dtype=np.int64),
                    normalise,
                )
            with clock("read"):
                best = [ids[index] for index in order[: question.k]]
                there = memories.read(conn, best)
                matched = keyword.held(conn, to_keyword, best)
                lent = keyword.lent(conn, to_keyword, matched) if "keyword" in used else {}
                nearest = _nearest([ids[index] for index in order[: question.k]], order, parts, passages)
                spans = _passages(conn, there, nearest, matched)
        hits = tuple(
            _hit(
                there[ids[index]],
                rank,
                index,
                float(total[index]),
                float(boosts[index]),
                raw,
                parts,
                held,
                spans,
                matched,
                lent,
            )
            for rank, index in enumerate(order[: question.k].tolist(), 1)
        )
        return SearchResult(
            query=question.query,
            hits=hits,
            used=used,
            skipped=skipped,
            spaces=tuple(asked.spaces[name].name for name in vectors),
            pending=pending,
            timings=clock.timings,
        )


def _keyword(conn: apsw.Connection, question: Question, asked: keyword.Asked, condition: Condition | None) -> _Scored:
    found, complete = keyword.search(conn, asked, condition, question.depth, question.match)
    return _Scored(found=found, complete=complete)


def _entity(
    conn: apsw.Connection,
    question: Question,
    names: tuple[QueryEntity, ...],
    condition: Condition | None,
    held: dict[int, tuple[QueryEntity, ...]],
) -> _Scored:
    def complete(ids: Sequence[int]) -> dict[int, float]:
        held.update(entities.mentioned(conn, names, ids))
        return {one: entities.share(names, held.get(one, ())) for one in ids}

    return _Scored(found=entities.search(conn, names, condition, question.depth), complete=complete)


def _semantic(
    conn: apsw.Connection,
    question: Question,
    space: StoredSpace,
    vector: Vector,
    condition: Condition | None,
    passages: dict[int, int],
) -> _Scored:
    def complete(ids: Sequence[int]) -> dict[int, float]:
        exact = semantic.complete(conn, space, vector, ids)
        passages.update(exact.passages)
        return dict(zip(exact.ids, exact.scores, strict=True))

    return _Scored(found=semantic.search(conn, space, vector, condition, question.depth), complete=complete)


class _Clock:
    """Milliseconds a stage."""

    def __init__(self) -> None:
        self.timings: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.timings[stage] = self.timings.get(stage, 0.0) + (time.perf_counter() - start) * 1000


def signal_names(signals: Any) -> tuple[str, ...] | None:
    """Return the signals and spaces that a caller names; raise `InvalidInputError` on what is no name."""
    if signals is None:
        return None
    given = (signals,) if isinstance(signals, str) else signals
    if not isinstance(given, Sequence | set | frozenset) or not given:
        raise InvalidInputError(
            f"signals is {checks.brief(signals)}; name some of {', '.join(SIGNALS)}, or leave it out for all."
        )
    return tuple(dict.fromkeys(checks.required_name("signal", one) for one in given))


def _nothing(question: Question, skipped: Mapping[str, str]) -> SearchResult:
    return SearchResult(query=question.query, hits=(), used=(), skipped=skipped, timings={})


def _existing(conn: apsw.Connection, ids: Iterable[int]) -> list[int]:
    """Return the ids that are memories, in order; others come from a damaged index: said, and passed over."""
    given = sorted(ids)
    rows = all_rows(
        conn, "SELECT id FROM memories WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id", (json.dumps(given),)
    )
    if len(rows) < len(given):
        lost = len(given) - len(rows)
        warnings.warn(f"an index names {lost} memories that are not there; export and import mend it.", stacklevel=2)
    return [memory_id for (memory_id,) in rows]


def _not_wanted(question: Question) -> dict[str, str]:
    """Return why the signals other than the spaces take no part: not named, or without weight."""
    weights, named = question.weights, question.signals
    skipped = {name: NOT_ASKED for name in ("keyword", "entity") if named and name not in named}
    if weights.keyword == 0:
        skipped.setdefault("keyword", NO_WEIGHT)
    if weights.entity == 0 and weights.boost == 0:
        skipped.setdefault("entity", NO_WEIGHT)
    return skipped


def _refuse_skipped(named: Sequence[str], skipped: Mapping[str, str], answered: bool) -> None:
    spaces = [reason for name, reason in skipped.items() if name not in SIGNALS and reason != NOT_ASKED]
    for name in named:
        if name == "semantic":
            reason = "" if answered else skipped.get(name, "; ".join(spaces))
        else:
            reason = skipped.get(name, "")
        if reason:
            raise SignalUnavailableError(f"the {name} signal can't take part: {reason}.")


def _row(ids: Sequence[int], scores: Mapping[int, float]) -> fusion.Scores:
    return np.array([scores.get(one, np.nan) for one in ids], dtype=np.float64)


def _boost(weights: Weights, held: Sequence[QueryEntity]) -> float:
    return weights.boost * max((one.rarity for one in held), default=0.0)


def _hit(
    memory: Memory,
    rank: int,
    index: int,
    score: float,
    boost: float,
    raw: Mapping[str, fusion.Scores],
    parts: Mapping[str, fusion.Fused],
    held: Mapping[int, tuple[QueryEntity, ...]],
    spans: Mapping[int, Passage],
    matched: Mapping[int, tuple[str, ...]],
    lent: Mapping[int, tuple[str, ...]],
) -> Hit:
    """Put together what is known of the candidate at `index` of the score arrays."""
    signals = {
        name: SignalScore(
            raw=float(raw[name][index]) if np.isfinite(raw[name][index]) else None,
            normalised=float(part.normalised[index]),
            rank=int(part.ranks[index]) or None,
            weight=float(part.weights[index]),
            contribution=float(part.contributions[index]),
        )
        for name, part in parts.items()
    }
    return Hit(
        memory=memory,
        score=score,
        rank=rank,
        relevance=None,
        signals=signals,
        boost=boost,
        passage=spans.get(memory.id),
        entities=tuple(one.name for one in held.get(memory.id, ())),
        terms=matched.get(memory.id, ()),
        neighbour_terms=lent.get(memory.id, ()),
    )


def _nearest(
    best: Sequence[int],
    order: NDArray[np.int64],
    parts: Mapping[str, fusion.Fused],
    passages: Mapping[str, Mapping[int, int]],
) -> dict[int, int]:
    """Return the passage that is nearest to the query for each memory, by the space that counts most for it."""
    found: dict[int, int] = {}
    for memory_id, index in zip(best, order.tolist(), strict=False):
        there = [name for name, nearest in passages.items() if memory_id in nearest]
        if there:
            chosen = max(there, key=lambda name: float(parts[name].contributions[index]))
            found[memory_id] = passages[chosen][memory_id]
    return found


def _passages(
    conn: apsw.Connection,
    there: Mapping[int, Memory],
    best: Mapping[int, int],
    matched: Mapping[int, tuple[str, ...]],
) -> dict[int, Passage]:
    """Return the passage that stands for each memory: the nearest one, unless only others hold words of the query."""
    rows = all_rows(
        conn,
        "SELECT memory_id, id, start, stop FROM passages WHERE memory_id IN (SELECT value FROM json_each(?1))"
        " AND (embedder_id IS NULL OR id IN (SELECT value FROM json_each(?2))) ORDER BY id",
        (json.dumps(list(there)), json.dumps(list(best.values()))),
    )
    spans: dict[int, list[tuple[int, int, int]]] = {}
    for memory_id, passage_id, start, stop in rows:
        spans.setdefault(memory_id, []).append((passage_id, start, stop))
    found: dict[int, Passage] = {}
    for memory_id, own in spans.items():
        text = there[memory_id].text
        chosen = next((span for span in own if span[0] == best.get(memory_id)), own[0])
        wanted = [whole_word(fold(word)) for word in matched.get(memory_id, ())] if len(own) > 1 else []
        most = _held(text, chosen, wanted) if len(own) > 1 else 1
        if not most and wanted:
            for span in own:
                held = _held(text, span, wanted)
                if held > most:
                    chosen, most = span, held
                if most == len(wanted):
                    break
        found[memory_id] = Passage(start=chosen[1], stop=chosen[2], text=text[chosen[1] : chosen[2]])
    return found


def _held(text: str, span: tuple[int, int, int], wanted: Sequence[regex.Pattern[str]]) -> int:
    """Count the words of the query that stand in a passage, whole and as spelt."""
    passage = fold(text[span[1] : span[2]])
    return sum(word.search(passage) is not None for word in wanted)

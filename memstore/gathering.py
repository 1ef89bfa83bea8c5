"""What the signals say of a query: each one's candidates, one set of them, every score exact."""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import apsw
import numpy as np

from memstore import checks, entities, keyword, semantic, staleness, threads
from memstore.analysis import Analyser
from memstore.asking import NO_WEIGHT, NOT_ASKED, Asker, refuse_unknown
from memstore.background import Backgrounds
from memstore.database import all_rows
from memstore.embedding import Vector
from memstore.entities import QueryEntity, Recogniser
from memstore.errors import SignalUnavailableError, first_line
from memstore.filters import Condition, Filter
from memstore.fusion import Ends, Gathered, Scored, Turns, floored
from memstore.ranking import Ranking
from memstore.records import SEARCH, Ageing, Candidates, Match, Sort, Weights
from memstore.semantic import StoredSpace
from memstore.serving import Serving

SIGNALS = ("keyword", "semantic", "entity")
# How fast words that the store does not know cost keywords their weight; examples/fusion.py measures it.
KNOWN_POWER = 0.5
# Times a stage by its name.
Clock: TypeAlias = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A checked search: what is asked, of which memories, and how the signals are put together.

    `rerank` is how many of the best are read again, `rerank_weight` what that counts for (None: what its model says).
    """

    query: str
    k: int
    depth: int
    weights: Weights
    fusion: str | None
    filter: Filter
    signals: tuple[str, ...] | None
    match: Match
    ranking: Ranking
    min_relevance: float | None = None
    ageing: Ageing | None = None
    sort: Sort = "relevance"
    floor: float | None = SEARCH.floor
    rerank: int = 0
    rerank_weight: float | None = None


@dataclass(slots=True, kw_only=True)
class Found:
    """What is known of a query's candidates: `gathered`, None where no signal took part, and how it came about.

    `floored` is how many candidates only a vector speaks for, below the floor. `passages` gives the nearest passage of
    each memory by signal, `held` the entities of the query that it mentions. `notices` are what is to be known of the
    file beside.
    """

    skipped: dict[str, str]
    gathered: Gathered | None = None
    asked: keyword.Asked | None = None
    pending: int = 0
    floored: int = 0
    passages: dict[str, dict[int, int]] = field(default_factory=dict)
    held: dict[int, tuple[QueryEntity, ...]] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signal:
    """What a signal found, what gives its raw score of any memories by id, and its scale for this query."""

    found: Candidates
    complete: Callable[[Sequence[int]], Mapping[int, float]]
    ends: Ends
    confidence: float = 1.0
    space: str | None = None


class Gatherer:
    """Asks the signals of one store."""

    def __init__(self, analyser: Analyser, serving: Serving, recogniser: Recogniser | None = None) -> None:
        self._analyser = analyser
        self._serving = serving
        self._asker = Asker(serving)
        self._backgrounds = Backgrounds()
        self._recogniser = recogniser

    def gather(self, conn: apsw.Connection, question: Question, moment: str, clock: Clock) -> Found:
        """Return all that the signals say at a time as stored.

        Raises `SignalUnavailableError` when a signal that was named can't help.
        """
        question = replace(question, query=question.query[: checks.LONGEST_QUERY])
        stored = semantic.spaces(conn)
        refuse_unknown(question.signals, question.weights, SIGNALS, stored)
        with clock("analyse"):
            staleness.agree(conn, self._analyser)
            words = self._analyser.query(question.query)
        if not words:
            return Found(skipped=dict.fromkeys(SIGNALS, "the query has no words"))
        condition = question.filter.condition(conn, moment)
        asked = self._asker.ask(
            question.query,
            stored,
            question.signals,
            question.weights,
            self._analyser.detect(question.query) if any(space.languages for space in stored) else (),
            semantic.had_any(conn),
        )
        found = Found(skipped=_not_wanted(question))
        if not {"keyword", "entity"} <= found.skipped.keys():
            found.notices = tuple(staleness.stale(conn, self._analyser).notices())
        with clock("keyword"):
            found.asked = keyword.ask(conn, words, question.ranking, moment)
        signals: dict[str, _Signal] = {}
        if "keyword" not in found.skipped:
            with clock("keyword"):
                signals["keyword"] = _keyword(conn, question, found.asked, condition)
        if "entity" not in found.skipped:
            with clock("entity"):
                names = entities.of_query(conn, question.query, self._recogniser)
                entity = _entity(conn, question, names, condition, found.held)
        vectors: dict[str, Vector] = {}
        if asked.embeddings:
            with clock("embed"):
                vectors = self._asker.answers(asked)
        for name, vector in vectors.items():
            space = asked.spaces[name]
            with clock("semantic"), suppress(_Unreadable), _readable(found, name, space):
                ends = self._backgrounds.ends(conn, space, vector)
                signals[name] = _semantic(conn, question, found, name, space, vector, condition, ends)
                found.pending += semantic.waits(conn, space)
        if "entity" not in found.skipped:
            signals["entity"] = entity
        found.skipped |= asked.skipped
        for model in self._serving.homeless(stored) if vectors else []:
            found.skipped[model.name] = "it has no space in this file; memstore embedders add makes one"
        while found.gathered is None and signals:
            with clock("complete"), suppress(_Unreadable):
                found.gathered = _completed(conn, question, found, signals, condition, moment)
            signals = {name: signal for name, signal in signals.items() if name not in found.skipped}
        if question.signals is not None:
            _refuse_skipped(question.signals, found.skipped, bool(vectors.keys() - found.skipped.keys()))
        if found.gathered is not None and question.floor is not None:
            kept = floored(found.gathered, question.floor)
            found.floored = int(found.gathered.eligible.sum() - kept.eligible.sum())
            found.gathered = kept
        return found


class _Unreadable(Exception):
    """The end of asking a space whose vectors can't be read."""


@contextmanager
def _readable(found: Found, name: str, space: StoredSpace) -> Iterator[None]:
    """Have damaged vectors cost their own space alone: what is raised then is `_Unreadable`, the reason is noted."""
    try:
        yield
    except (apsw.SQLError, apsw.CorruptError, ValueError) as error:
        found.skipped[name] = semantic.unreadable(space, first_line(error))
        found.passages.pop(name, None)
        raise _Unreadable from error


def _completed(
    conn: apsw.Connection,
    question: Question,
    found: Found,
    signals: Mapping[str, _Signal],
    condition: Condition | None,
    moment: str,
) -> Gathered:
    """Put the candidates of all signals together, each with its exact score from every signal."""
    candidates = _existing(conn, {one for signal in signals.values() for one in signal.found.ids})
    eligible = set(candidates)
    turns: dict[int, threads.Turn] = {}
    if question.signals is None and question.weights.thread:
        turns = threads.turns(conn, candidates, moment)
        answers = _answers_to(conn, candidates, turns, condition)
        beside = threads.turns(conn, answers, moment)
        turns |= {one: beside[one] for one in answers if one in beside}
        eligible |= answers
        candidates = sorted(eligible | _answered_by(eligible, turns))
    at = {one: index for index, one in enumerate(candidates)}
    named = "entity" in signals and entities.has_identifier(question.query)
    scored = {}
    for name, signal in signals.items():
        scores = signal.complete(candidates)
        raw = np.array([scores.get(one, np.nan) for one in candidates], dtype=np.float64)
        scored[name] = Scored(
            raw=raw,
            evidence=np.isfinite(raw) & ((raw > 0) | (name in found.passages)),
            ends=signal.ends,
            confidence=signal.confidence,
            space=signal.space,
        )
    return Gathered(
        ids=np.array(candidates, dtype=np.int64),
        eligible=np.array([one in eligible for one in candidates], dtype=bool),
        signals=scored,
        identified=np.array([entities.identified(found.held.get(one, ())) for one in candidates], dtype=np.float64),
        missing=np.array(
            [named and not any(entity.identifies for entity in found.held.get(one, ())) for one in candidates],
            dtype=bool,
        ),
        known=found.asked.known if found.asked is not None else 0.0,
        turns=_turns(candidates, turns, at) if turns else None,
    )


def _answers_to(
    conn: apsw.Connection, candidates: Sequence[int], turns: Mapping[int, threads.Turn], condition: Condition | None
) -> set[int]:
    """Return the turns that answer a candidate, pass the filter, and are no candidates yet."""
    own = [turns[one] for one in candidates if one in turns]
    answers = {turn.after for turn in own if turn.after is not None and _answers(turns.get(turn.after), turn)}
    more = answers - set(candidates)
    if not more or condition is None:
        return more
    rows = all_rows(
        conn,
        f"SELECT value FROM json_each(?) WHERE value IN {condition.ids}",
        (json.dumps(sorted(more)), *condition.values),
    )
    return {one for (one,) in rows}


def _answered_by(eligible: Iterable[int], turns: Mapping[int, threads.Turn]) -> set[int]:
    """Return the questions that turns answer; a filter may keep them from being an answer themselves."""
    own = [turns[one] for one in eligible if one in turns]
    return {turn.before for turn in own if turn.before is not None and _answers(turn, turns.get(turn.before))}


def _answers(turn: threads.Turn | None, before: threads.Turn | None) -> bool:
    return turn is not None and before is not None and before.questions and before.author != turn.author


def _turns(candidates: Sequence[int], turns: Mapping[int, threads.Turn], at: Mapping[int, int]) -> Turns:
    numbers: dict[tuple[str, str], int] = {}
    known = [turns.get(one) for one in candidates]
    return Turns(
        thread=np.array(
            [-1 if turn is None else numbers.setdefault(turn.thread, len(numbers)) for turn in known], dtype=np.int64
        ),
        answered=np.array(
            [
                at.get(turn.before, -1)
                if turn is not None and turn.before is not None and _answers(turn, turns.get(turn.before))
                else -1
                for turn in known
            ],
            dtype=np.int64,
        ),
        asks=np.array([turn is not None and turn.asks for turn in known], dtype=bool),
        length=np.array([0 if turn is None else turn.length for turn in known], dtype=np.float64),
    )


def _keyword(conn: apsw.Connection, question: Question, asked: keyword.Asked, condition: Condition | None) -> _Signal:
    found, complete = keyword.search(conn, asked, condition, question.depth, question.match)
    # Where most of the query's words are unknown (it is in another language), one that is known may be there by chance.
    confidence = asked.known**KNOWN_POWER
    return _Signal(found=found, complete=complete, ends=(0.0, asked.attainable or 1.0), confidence=confidence)


def _entity(
    conn: apsw.Connection,
    question: Question,
    names: tuple[QueryEntity, ...],
    condition: Condition | None,
    held: dict[int, tuple[QueryEntity, ...]],
) -> _Signal:
    def complete(ids: Sequence[int]) -> dict[int, float]:
        held.update(entities.mentioned(conn, names, ids))
        return {one: entities.share(names, held.get(one, ())) for one in ids}

    found = entities.search(conn, names, condition, question.depth)
    return _Signal(found=found, complete=complete, ends=(0.0, 1.0), confidence=entities.confidence(names))


def _semantic(
    conn: apsw.Connection,
    question: Question,
    found: Found,
    name: str,
    space: StoredSpace,
    vector: Vector,
    condition: Condition | None,
    ends: Ends,
) -> _Signal:
    passages = found.passages.setdefault(name, {})

    def complete(ids: Sequence[int]) -> dict[int, float]:
        with _readable(found, name, space):
            exact = semantic.complete(conn, space, vector, ids)
        passages.update(exact.passages)
        return dict(zip(exact.ids, exact.scores, strict=True))

    nearest = semantic.search(conn, space, vector, condition, question.depth)
    return _Signal(found=nearest, complete=complete, ends=ends, space=space.name)


def _existing(conn: apsw.Connection, ids: Iterable[int]) -> list[int]:
    """Return the ids that are memories, in order; others come from a damaged index: said, and passed over."""
    given = sorted(ids)
    rows = all_rows(
        conn, "SELECT id FROM memories WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id", (json.dumps(given),)
    )
    if len(rows) < len(given):
        lost = len(given) - len(rows)
        warnings.warn(f"an index names {lost} memories that are not there: memstore doctor --repair.", stacklevel=2)
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

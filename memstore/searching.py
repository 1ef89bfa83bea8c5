"""The search flow: what the signals say, put together, and the best read: one answer from one state of the file."""

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import apsw
import numpy as np

from memstore import checks, filters, fusion, keyword, memories, rereading, spans, surroundings
from memstore.analysis import Analyser
from memstore.database import Database
from memstore.entities import Recogniser
from memstore.errors import InvalidInputError, RerankerError
from memstore.fusion import DEFAULT_FUSION, PROFILES, Ages, Fused, Gathered, Numbers, Scores
from memstore.gathering import SIGNALS, Clock, Found, Gatherer, Question
from memstore.ranking import RANKINGS, Ranking
from memstore.records import LIKELY, THREAD_WORDS, Hit, Memory, Passage, SearchResult, SignalScore, Weights
from memstore.rerank import Second, named
from memstore.rereading import Rereader
from memstore.serving import Serving

_NOTHING_AGAIN = "there is nothing to read again"


class Searcher:
    """Answers questions from one store."""

    def __init__(
        self,
        database: Database,
        analyser: Analyser,
        serving: Serving,
        recogniser: Recogniser | None = None,
        ranking: Ranking = RANKINGS["bm25"],
        second: Second | None = None,
    ) -> None:
        self._database = database
        self._ranking = ranking
        self._serving = serving
        self._gatherer = Gatherer(analyser, serving, recogniser)
        self._rereader = Rereader(analyser, second or named(None), serving.wait)

    def search(self, question: Question) -> SearchResult:
        """Return the best `k` memories, or the newest `k` of the likely ones.

        Raises `SignalUnavailableError` when a signal that was named can't help.
        """
        clock, moment = _Clock(), checks.now()
        fusion.method(question.fusion)
        why_once = self._not_again(question, clock)
        with self._database.read() as conn:
            found = self._gatherer.gather(conn, question, moment, clock)
            gathered = found.gathered
            if why_once:
                found.skipped[fusion.RERANK] = why_once
            if gathered is None:
                return _nothing(question, found.skipped)
            with clock("fuse"):
                first = fusion.weighed(gathered, question.weights, question.fusion)
                plain = question.weights == PROFILES["default"] and question.fusion in (None, DEFAULT_FUSION)
                relevance = fusion.relevance(gathered, first if plain else None)
                likely, by_time = _likely(question, first.order, relevance)
                again = likely[: 0 if why_once else question.rerank]
                ages = None if question.ageing is None else _ages(conn, gathered, moment)
            with clock("read"):
                wanted = likely if ages is not None else np.union1d(again, likely[: question.k])
                if by_time:
                    # The ids of the candidates are ascending.
                    latest = memories.newest(conn, gathered.ids[likely].tolist(), question.k)
                    wanted = np.searchsorted(gathered.ids, latest)
                read = _read(conn, found, gathered, first, wanted)
                texts = rereading.texts(conn, gathered.ids[again].tolist(), read.passages, moment)
        fused = first
        if len(again):
            try:
                with clock(fusion.RERANK):
                    fused = fusion.reranked(first, gathered, self._rereader.read(question, found, again, texts))
            except RerankerError as error:
                found.skipped[fusion.RERANK] = str(error)
        elif question.rerank and not why_once:
            found.skipped[fusion.RERANK] = _NOTHING_AGAIN
        if ages is not None and question.ageing is not None:
            fused = fusion.aged(fused, ages, question.ageing)
        chosen = wanted if by_time else fused.order[np.isin(fused.order, likely)][: question.k]
        standing: dict[int, int] = {}
        if fusion.RERANK in fused.parts:
            standing = {int(index): place for place, index in enumerate(first.order, 1)}
        hits = tuple(
            Hit(
                memory=read.memories[memory_id],
                score=float(fused.scores[index]),
                rank=rank,
                relevance=float(relevance[index]),
                signals=_signals(fused, index),
                boost=float(fused.boosts[index]),
                passage=read.passages.get(memory_id),
                entities=tuple(one.name for one in found.held.get(memory_id, ())),
                terms=read.matched.get(memory_id, ()),
                neighbour_terms=read.lent.get(memory_id, ()),
                first_score=float(first.scores[index]) if standing else None,
                first_rank=standing.get(index),
            )
            for rank, (index, memory_id) in enumerate(
                zip(chosen.tolist(), gathered.ids[chosen].tolist(), strict=True), 1
            )
        )
        return SearchResult(
            query=question.query,
            hits=hits,
            used=(*gathered.signals, *([fusion.RERANK] if standing else [])),
            skipped=found.skipped,
            spaces=tuple(one.space for one in gathered.signals.values() if one.space is not None),
            pending=found.pending,
            timings=clock.timings,
            relevance=float(relevance[chosen if len(chosen) else first.order].max(initial=0.0)),
            withheld=found.floored + len(first.order) - len(likely),
            notices=found.notices,
        )

    def _not_again(self, question: Question, clock: Clock) -> str:
        """Say why there is no second stage although it was asked for; nothing when there is one, or was not."""
        if not question.rerank:
            return ""
        if question.sort == "newest":
            return "the newest are asked for, whatever it says of them"
        try:
            with clock(fusion.RERANK):
                self._rereader.ready(question.query)
        except RerankerError as error:
            return str(error)
        return ""

    def around(self, found: SearchResult, chosen: filters.Filter, *, neighbours: bool) -> surroundings.Surroundings:
        """Return what stands round the hits of a search with a filter, the memories beside them only when asked for."""
        return surroundings.read(self._database, self._serving, found, chosen, neighbours=neighbours)

    def gather(
        self,
        query: str,
        *,
        depth: int = 50,
        namespace: str | None = None,
        ranking: Ranking | None = None,
        weights: Weights = PROFILES["default"],
        rerank: int = 0,
    ) -> Gathered:
        """Return what each signal says of the candidates of a query: all that fusion needs, by any method and weights.

        A signal, or what threads lend, is left out where `weights` give it none. With `rerank` the second stage reads
        so many of the best by these weights; raises `RerankerError` where it can't.
        """
        question = Question(
            query=query,
            k=1,
            depth=depth,
            weights=weights,
            fusion=None,
            filter=filters.checked(namespace, (), None, None, None, None, None),
            signals=None,
            match="any",
            ranking=ranking or self._ranking,
            rerank=rerank,
        )
        clock, moment = _Clock(), checks.now()
        if rerank:
            self._rereader.ready(query)
        with self._database.read() as conn:
            found = self._gatherer.gather(conn, question, moment, clock)
            if rerank and found.gathered is not None:
                fused = fusion.weighed(found.gathered, weights)
                again = fused.order[:rerank]
                read = _read(conn, found, found.gathered, fused, again)
                texts = rereading.texts(conn, found.gathered.ids[again].tolist(), read.passages, moment)
        if rerank and found.gathered is not None:
            with clock(fusion.RERANK):
                reread = self._rereader.read(question, found, again, texts)
            found.gathered = dataclasses.replace(found.gathered, reread=reread)
        empty = Gathered(
            ids=np.zeros(0, dtype=np.int64),
            eligible=np.zeros(0, dtype=bool),
            signals={},
            identified=np.zeros(0),
            missing=np.zeros(0, dtype=bool),
            known=0.0,
        )
        return dataclasses.replace(found.gathered or empty, timings=clock.timings)

    def resolve(self, names: Sequence[str], namespace: str | None = None) -> dict[str, int]:
        """Return the ids of the memories that are meant by keys (in a namespace, or in all) or by ids as text.

        What names no memory is left out. Raises `InvalidInputError` when several namespaces have a key.
        """
        with self._database.read() as conn:
            return memories.resolved(conn, names, checks.now(), namespace)


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
    if question.rerank:
        skipped = {**skipped, fusion.RERANK: _NOTHING_AGAIN}
    return SearchResult(query=question.query, hits=(), used=(), skipped=skipped, timings={})


def _ages(conn: apsw.Connection, gathered: Gathered, moment: str) -> Ages:
    """Return how old the candidates are at a time as stored."""
    known = memories.ages(conn, gathered.ids.tolist(), moment)
    return Ages(
        created=np.array([created for created, _, _ in known], dtype=np.float64),
        used=np.array([np.nan if used is None else used for _, used, _ in known], dtype=np.float64),
        pinned=np.array([pinned for _, _, pinned in known], dtype=np.float64),
    )


def _likely(question: Question, order: Numbers, relevance: Scores) -> tuple[Numbers, bool]:
    """Return the indices of what is relevant enough, the best first, and whether the newest of them come first."""
    newest, floor = question.sort == "newest", question.min_relevance
    likely = order[relevance[order] >= ((LIKELY if newest else 0.0) if floor is None else floor)]
    if newest and floor is None and not len(likely):
        return order, False
    return likely, newest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Memories by id, the passage that stands for each, the words of the query in it, and those beside it alone."""

    memories: Mapping[int, Memory]
    passages: Mapping[int, Passage]
    matched: Mapping[int, tuple[str, ...]]
    lent: Mapping[int, tuple[str, ...]]


def _read(conn: apsw.Connection, found: Found, gathered: Gathered, fused: Fused, wanted: Numbers) -> _Read:
    """Read what is known of the candidates at some indices."""
    ids = gathered.ids[wanted].tolist()
    there = memories.read(conn, ids)
    memories.require_read(ids, there)
    matched: Mapping[int, tuple[str, ...]] = {}
    lent: Mapping[int, tuple[str, ...]] = {}
    if found.asked is not None:
        matched = keyword.held(conn, found.asked, ids)
        lent = keyword.lent(conn, found.asked, matched) if "keyword" in gathered.signals else {}
    passages = spans.passages(conn, there, spans.nearest(ids, wanted, fused, found.passages), matched)
    return _Read(memories=there, passages=passages, matched=matched, lent=lent)


def _signals(fused: Fused, index: int) -> dict[str, SignalScore]:
    """Return what each signal says of the candidate at an index, what its thread lends to it, and what its age adds."""
    return {
        name: SignalScore(
            raw=float(part.raw[index]) if np.isfinite(part.raw[index]) else None,
            normalised=float(part.normalised[index]),
            rank=int(part.ranks[index]) or None,
            weight=float(part.weights[index]),
            contribution=float(part.contributions[index]),
            zero=part.zero,
            one=part.one,
            confidence=part.confidence,
            half_life=part.half_life,
        )
        for name, part in fused.parts.items()
        if name not in THREAD_WORDS or part.contributions[index]
    }

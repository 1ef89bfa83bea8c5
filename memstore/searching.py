"""The search flow: what the signals say, put together, and the best read: one answer from one state of the file."""

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apsw
import numpy as np
import regex

from memstore import checks, filters, fusion, keyword, memories, surroundings
from memstore.analysis import Analyser, fold, whole_word
from memstore.database import Database, all_rows
from memstore.entities import Recogniser
from memstore.errors import InvalidInputError
from memstore.fusion import DEFAULT_FUSION, PROFILES, Fused, Gathered, Numbers
from memstore.gathering import SIGNALS, Gatherer, Question
from memstore.ranking import RANKINGS, Ranking
from memstore.records import THREAD_WORDS, Hit, Memory, Passage, SearchResult, SignalScore, Weights
from memstore.serving import Serving


class Searcher:
    """Answers questions from one store."""

    def __init__(
        self,
        database: Database,
        analyser: Analyser,
        serving: Serving,
        recogniser: Recogniser | None = None,
        ranking: Ranking = RANKINGS["bm25"],
    ) -> None:
        self._database = database
        self._ranking = ranking
        self._serving = serving
        self._gatherer = Gatherer(analyser, serving, recogniser)

    def search(self, question: Question) -> SearchResult:
        """Return the best `k` memories. Raises `SignalUnavailableError` when a signal that was named can't help."""
        clock = _Clock()
        fusion.method(question.fusion)
        with self._database.read() as conn:
            found = self._gatherer.gather(conn, question, checks.now(), clock)
            gathered = found.gathered
            if gathered is None:
                return _nothing(question, found.skipped)
            with clock("fuse"):
                fused = fusion.weighed(gathered, question.weights, question.fusion)
                plain = question.weights == PROFILES["default"] and question.fusion in (None, DEFAULT_FUSION)
                relevance = fusion.relevance(gathered, fused if plain else None)
                likely = fused.order[relevance[fused.order] >= (question.min_relevance or 0.0)]
                chosen = likely[: question.k]
            with clock("read"):
                best = gathered.ids[chosen].tolist()
                there = memories.read(conn, best)
                matched = lent = {}
                if found.asked is not None:
                    matched = keyword.held(conn, found.asked, best)
                    lent = keyword.lent(conn, found.asked, matched) if "keyword" in gathered.signals else {}
                spans = _passages(conn, there, _nearest(best, chosen, fused, found.passages), matched)
        hits = tuple(
            Hit(
                memory=there[memory_id],
                score=float(fused.scores[index]),
                rank=rank,
                relevance=float(relevance[index]),
                signals=_signals(fused, index),
                boost=float(fused.boosts[index]),
                passage=spans.get(memory_id),
                entities=tuple(one.name for one in found.held.get(memory_id, ())),
                terms=matched.get(memory_id, ()),
                neighbour_terms=lent.get(memory_id, ()),
            )
            for rank, (index, memory_id) in enumerate(zip(chosen.tolist(), best, strict=True), 1)
        )
        return SearchResult(
            query=question.query,
            hits=hits,
            used=tuple(gathered.signals),
            skipped=found.skipped,
            spaces=tuple(one.space for one in gathered.signals.values() if one.space is not None),
            pending=found.pending,
            timings=clock.timings,
            relevance=float(relevance[chosen if len(chosen) else fused.order].max(initial=0.0)),
            withheld=len(fused.order) - len(likely),
        )

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
    ) -> Gathered:
        """Return what each signal says of the candidates of a query: all that fusion needs, by any method and weights.

        A signal, or what threads lend, is left out where `weights` give it none.
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
        )
        clock = _Clock()
        with self._database.read() as conn:
            found = self._gatherer.gather(conn, question, checks.now(), clock)
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
    return SearchResult(query=question.query, hits=(), used=(), skipped=skipped, timings={})


def _signals(fused: Fused, index: int) -> dict[str, SignalScore]:
    """Return what each signal says of the candidate at an index, and what its thread lends to it."""
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
        )
        for name, part in fused.parts.items()
        if name not in THREAD_WORDS or part.contributions[index]
    }


def _nearest(
    best: Sequence[int], chosen: Numbers, fused: Fused, passages: Mapping[str, Mapping[int, int]]
) -> dict[int, int]:
    """Return the passage that is nearest to the query for each memory, by the space that counts most for it."""
    found: dict[int, int] = {}
    for memory_id, index in zip(best, chosen.tolist(), strict=True):
        there = [name for name, nearest in passages.items() if memory_id in nearest]
        if there:
            nearest = max(there, key=lambda name: float(fused.parts[name].contributions[index]))
            found[memory_id] = passages[nearest][memory_id]
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

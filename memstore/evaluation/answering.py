"""Judged questions asked of a store: each gathered once, and ranked in as many ways as one likes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np

from memstore import fusion
from memstore.errors import InvalidInputError, RerankerError
from memstore.evaluation.measures import MEASURES, Values, measured
from memstore.evaluation.questions import Judged
from memstore.fusion import PROFILES, Gathered, Scored, reranked, weighed
from memstore.ranking import Ranking
from memstore.records import SEARCH, Weights

DEPTH = 50
# No measure looks further down.
FIRST = 10
# Called with how many are done and how many there are.
Progress: TypeAlias = Callable[[int, int], None]
# Ids of memories, best first.
Ranked: TypeAlias = Sequence[int]


class Searcher(Protocol):
    """What answers questions: all that the signals say of each, and which memories names mean."""

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
        """Return what each signal says of the candidates of a query, and a second stage of so many of the best.

        Raises `RerankerError` where that second stage can't be had.
        """
        ...

    def resolve(self, names: Sequence[str], namespace: str | None = None) -> dict[str, int]:
        """Return the ids of the memories that are meant by keys, or by ids as text; leave out what means none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question whose right memories are in the store: their ids, and what finding each is worth."""

    question: Judged
    relevant: frozenset[int]
    grades: Mapping[int, float]


class Asker:
    """Gathers questions round after round, and tells of the progress over all of them.

    `refused` says why a second stage could not read, for each question that it was asked for in vain.
    """

    def __init__(self, searcher: Searcher, asked: Sequence[Asked], progress: Progress | None = None) -> None:
        self.asked = asked
        self._searcher = searcher
        self._progress = progress
        self._done = 0
        self._rounds = 1
        self.refused: list[str] = []

    def expect(self, rounds: int) -> None:
        """Note how many rounds there will be in all."""
        self._rounds = rounds

    def gather(self, *, depth: int = DEPTH, ranking: Ranking | None = None, rerank: int = 0) -> tuple[Gathered, ...]:
        """Return what the signals say of each question, and a second stage of its best `rerank` where it can."""
        return tuple(self._gathered(depth, ranking, rerank))

    def _gathered(self, depth: int, ranking: Ranking | None, rerank: int) -> Iterator[Gathered]:
        for one in self.asked:
            question = one.question
            ask = partial(
                self._searcher.gather, question.text, depth=depth, namespace=question.namespace, ranking=ranking
            )
            try:
                found = ask(rerank=rerank)
            except RerankerError as error:
                self.refused.append(str(error).rstrip("."))
                found = ask()
            yield found
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, max(self._done, self._rounds * len(self.asked)))


def resolved(searcher: Searcher, questions: Sequence[Judged]) -> tuple[tuple[Asked, ...], tuple[str, ...]]:
    """Return the questions whose right memories are in the store, and notes on what is not.

    A question without any is left out: no search could answer it. Of one with some, these alone are looked for. Raises
    `InvalidInputError` when no question is left, or when a key is that of several namespaces.
    """
    if not questions:
        raise InvalidInputError("there are no questions; give at least one.")
    ids: dict[str | None, dict[str, int]] = {}
    for namespace in dict.fromkeys(question.namespace for question in questions):
        names = {name for one in questions if one.namespace == namespace for name in one.relevant}
        ids[namespace] = searcher.resolve(sorted(names), namespace)
    asked, absent, partly = [], [], []
    for question in questions:
        known = ids[question.namespace]
        there = [name for name in question.relevant if name in known]
        grades: dict[int, float] = {}
        for name in there:
            grades[known[name]] = max(grades.get(known[name], 0.0), question.grades.get(name, 1.0))
        if not any(grades.values()):
            absent.append(question)
            continue
        if len(there) < len(question.relevant):
            partly.append(question)
        asked.append(Asked(question=question, relevant=frozenset(grades), grades=grades))
    if not asked:
        raise InvalidInputError(
            f"no right memory of any of the {len(questions):,} questions is in this store (the first:"
            f" {questions[0].relevant[0]!r}); name the file, and the namespace, that the questions are about."
        )
    notes = []
    if absent:
        notes.append(
            f"{len(absent):,} of {len(questions):,} questions were left out, since none of their right memories is in"
            f" this store; the first is {absent[0].id!r}, whose right memory is {absent[0].relevant[0]!r}."
        )
    if partly:
        notes.append(
            f"Of {len(partly):,} of the questions some right memories are not in this store, and are not looked for;"
            f" the first is {partly[0].id!r}."
        )
    return tuple(asked), tuple(notes)


def ranked(
    gathered: Gathered,
    weights: Weights,
    how: str | None = None,
    *,
    rrf_k: float = fusion.RRF_K,
    first: int | None = FIRST,
    again: bool = False,
) -> Ranked:
    """Return the ids of the first memories by some weights and fusion, of those that a search by them would offer.

    With `again` what the second stage says counts too, where it read the question's best.
    """
    offered = np.zeros(len(gathered.ids), dtype=bool)
    taking = {name: one for name, one in gathered.signals.items() if _takes_part(name, one, weights)}
    for one in taking.values():
        offered |= one.evidence
    turns = gathered.turns if weights.thread else None
    if turns is not None:
        offered |= (turns.answered >= 0) & offered[turns.answered]
    if SEARCH.floor is not None:
        offered &= fusion.floored(replace(gathered, signals=taking, turns=turns), SEARCH.floor).eligible
    if not offered.any():
        return []
    fused = weighed(gathered, weights, how, rrf_k=rrf_k)
    if again and gathered.reread is not None:
        fused = reranked(fused, gathered, gathered.reread)
    order = fused.order
    found: list[int] = gathered.ids[order[offered[order]][:first]].tolist()
    return found


def _takes_part(name: str, scored: Scored, weights: Weights) -> bool:
    if scored.space is not None:
        return weights.spaces.get(scored.space, weights.semantic) > 0
    return bool(getattr(weights, name) or (name == "entity" and weights.boost))


def spaces_of(gathers: Iterable[Gathered]) -> tuple[str, ...]:
    """Return the embedding spaces that answered any question."""
    return tuple(
        dict.fromkeys(one.space for found in gathers for one in found.signals.values() if one.space is not None)
    )


def alone(gathered: Gathered, name: str, *, first: int | None = FIRST) -> Ranked:
    """Return the ids of the first memories by what one signal or space says alone, best first; ties by id."""
    scored = next((one for signal, one in gathered.signals.items() if name in (signal, one.space)), None)
    if scored is None:
        return ()
    order = np.lexsort((gathered.ids, -np.where(scored.evidence, scored.raw, -np.inf)))
    found: list[int] = gathered.ids[order[(scored.evidence & gathered.eligible)[order]][:first]].tolist()
    return found


def one_space(gathered: Gathered, space: str) -> Gathered:
    """Return what was gathered without what other embedding spaces than one say.

    What they alone found stays a candidate, with its exact score in this space.
    """
    return replace(
        gathered, signals={name: one for name, one in gathered.signals.items() if one.space in (None, space)}
    )


def values(asked: Sequence[Asked], answers: Iterable[Ranked]) -> Values:
    """Return the measures of the answers to each question: float64 of shape (questions, measures), in [0, 1]."""
    rows = []
    for one, found in zip(asked, answers, strict=True):
        grades = {str(memory): gain for memory, gain in one.grades.items()}
        own = measured([str(memory) for memory in found], list(grades), grades)
        rows.append([own[name] for name in MEASURES])
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(MEASURES))

"""What a prompt costs by every way to fill it with memories, and how much of the evidence is in it."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count as counting
from typing import TypeAlias

import numpy as np

from memstore import checks
from memstore.errors import InvalidInputError
from memstore.evaluation import cost_verdict
from memstore.evaluation.answering import (
    DEPTH,
    Asked,
    Progress,
    Ranked,
    Searcher,
    alone,
    ranked,
    resolved,
    spaces_of,
)
from memstore.evaluation.cost_report import EVERYTHING, CostKind, CostRun, Costs, equal_recall, planned, projected
from memstore.evaluation.measures import Estimate, Values, differences, estimates
from memstore.evaluation.questions import Judged
from memstore.fusion import PROFILES, Gathered
from memstore.records import Context

KS = (1, 3, 5, 10, 20, 50)
BUDGETS = (500, 1000, 2000, 4000, 7000)
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
KEYWORDS, VECTORS, FUSED, CONTEXT = "keywords", "vectors", "fused", "context"
_CERTAIN = Estimate(value=1.0, low=1.0, high=1.0)


# Of a namespace, or of the whole store: the text of each memory as it stands in a prompt, by id, the oldest first.
Memories: TypeAlias = Callable[[str | None], Mapping[int, str]]
# How many tokens a text has.
Count: TypeAlias = Callable[[str], int]
# The prompt for a question, in at most so many tokens, from a namespace or the whole store.
ContextOf: TypeAlias = Callable[[str, int, str | None], Context]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tally:
    """What one run took and held, question by question."""

    way: str
    kind: CostKind
    setting: int | None
    tokens: list[int] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        if self.setting is None:
            return self.way
        return f"{self.way} {self.setting:,}" if self.kind == "context" else f"{self.way} k={self.setting:,}"

    def add(self, tokens: int, held: Collection[int], asked: Asked) -> None:
        self.tokens.append(tokens)
        self.recall.append(len(asked.relevant.intersection(held)) / len(asked.relevant))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """All memories of a namespace: their texts, those that a window leaves, and the tokens of these."""

    texts: Mapping[int, str]
    kept: frozenset[int]
    tokens: int


def costs(
    searcher: Searcher,
    questions: Sequence[Judged],
    *,
    memories: Memories,
    count: Count,
    tokeniser: str,
    context: ContextOf,
    store: str = "",
    ks: Sequence[int] = KS,
    budgets: Sequence[int] = BUDGETS,
    window: int | None = None,
    sessions_per_month: float | None = None,
    questions_per_session: float | None = None,
    price: float | None = None,
    currency: str = "$",
    progress: Progress | None = None,
) -> Costs:
    """Return what a prompt takes, and how much of a question's evidence is in it, by each way to fill it.

    The ways: everything (all that `memories` gives of the question's namespace, or of the store; with a `window` the
    newest that fit it; a right memory that it does not give, such as one that another replaces, is in no prompt), the
    first `ks` by keywords alone, by vectors alone (each embedding space) and by the default search, and what `context`
    makes at each of the `budgets`. A prompt is the texts of `memories`, a line end between two, and its tokens are
    `count` of the whole; `context` says itself how many its own has. A memory of which `context` takes a span counts as
    there. The question and what else stands in a prompt are not counted.

    `sessions_per_month`, with `questions_per_session` (1) and the `price` of a million input tokens in a `currency`,
    add what each way comes to in a month and a year. `progress` is told of steps: each question once for search, and
    once for each budget.

    Raises `InvalidInputError` when no question has a right memory in the store, on a number that is none or not above
    0, and when the window has no room for any memory.
    """
    ks = sorted({checks.whole("k", one, least=1) for one in ks})
    budgets = sorted({checks.whole("budget", one, least=1) for one in budgets})
    window = None if window is None else checks.whole("window", window, least=1)
    plan = planned(sessions_per_month, questions_per_session, price, currency)
    if not ks:
        raise InvalidInputError("there is no k; give at least one number of memories.")
    asked, notes = resolved(searcher, questions)
    wholes = {
        namespace: _whole(memories(namespace), count, window)
        for namespace in dict.fromkeys(one.question.namespace for one in asked)
    }
    everything = _everything(asked, wholes)
    if not any(everything.tokens):
        raise InvalidInputError(f"window is {window}, which has no room for any memory; give more tokens.")
    told = _told(progress, len(asked) * (1 + len(budgets)))
    gathers = []
    for one in asked:
        depth = max(DEPTH, ks[-1])
        gathers.append(searcher.gather(one.question.text, depth=depth, namespace=one.question.namespace))
        next(told)
    tallies = [everything]
    for way, kind, rank in _ways(gathers, ks[-1]):
        tallies += _cut(way, kind, ks, asked, map(rank, gathers), wholes, count)
    for budget in budgets:
        tally = _Tally(way=CONTEXT, kind="context", setting=budget)
        for one in asked:
            made = context(one.question.text, budget, one.question.namespace)
            tally.add(made.tokens, {item.memory.id for item in made.items}, one)
            next(told)
        tallies.append(tally)
    recalls = {tally.name: np.array(tally.recall, dtype=np.float64) for tally in tallies}
    runs = _runs(tallies, recalls, certain=window is None)
    reference = max((run for run in runs if run.kind == "fusion"), key=lambda run: (run.recall.value, -run.tokens))
    runs = _against(runs, recalls, reference.name)
    equal = equal_recall(runs, LEVELS)
    projection = None if plan is None else projected({run.name: run.tokens for run in runs}, plan)
    lacking = sum(not one.relevant <= wholes[one.question.namespace].texts.keys() for one in asked)
    silent = sum(not spaces_of([one]) for one in gathers)
    return Costs(
        store=store,
        questions=len(asked),
        tokeniser=tokeniser,
        window=window,
        reference=reference.name,
        runs=runs,
        equal=equal,
        projection=projection,
        verdict=cost_verdict.sentences(runs, recalls, reference, window, equal, projection),
        notes=(*notes, *cost_verdict.notes(tokeniser, silent, lacking, len(asked), projection)),
    )


def _told(progress: Progress | None, total: int) -> Iterator[None]:
    """Tell of one more step each time it is asked."""
    for done in counting(1):
        if progress is not None:
            progress(done, total)
        yield


def _prompt(texts: Sequence[str]) -> str:
    return "\n".join(texts)


def _whole(texts: Mapping[int, str], count: Count, window: int | None) -> _Whole:
    """Return all memories, or the newest of them that a window has room for."""
    ids, listed = list(texts), list(texts.values())
    tokens = count(_prompt(listed))
    if window is None or tokens <= window:
        return _Whole(texts=texts, kept=frozenset(ids), tokens=tokens)
    # As many from the end as fit: a prompt with one more memory is never shorter.
    fits, too_many = 0, len(ids)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if count(_prompt(listed[-middle:])) <= window:
            fits = middle
        else:
            too_many = middle
    if not fits:
        return _Whole(texts=texts, kept=frozenset(), tokens=0)
    return _Whole(texts=texts, kept=frozenset(ids[-fits:]), tokens=count(_prompt(listed[-fits:])))


def _everything(asked: Sequence[Asked], wholes: Mapping[str | None, _Whole]) -> _Tally:
    tally = _Tally(way=EVERYTHING, kind="everything", setting=None)
    for one in asked:
        whole = wholes[one.question.namespace]
        tally.add(whole.tokens, whole.kept, one)
    return tally


def _ways(gathers: Sequence[Gathered], first: int) -> Iterator[tuple[str, CostKind, Callable[[Gathered], Ranked]]]:
    """Yield the searches: each signal that took part alone, and all together as a search without options has them."""

    def by(signal: str) -> Callable[[Gathered], Ranked]:
        return lambda gathered: alone(gathered, signal, first=first)

    if any("keyword" in found.signals for found in gathers):
        yield KEYWORDS, "signal", by("keyword")
    spaces = spaces_of(gathers)
    for space in spaces:
        yield VECTORS if len(spaces) == 1 else f"{VECTORS} of {space}", "signal", by(space)
    yield FUSED, "fusion", lambda gathered: ranked(gathered, PROFILES["default"], first=first)


def _cut(
    way: str,
    kind: CostKind,
    ks: Sequence[int],
    asked: Sequence[Asked],
    answers: Iterator[Ranked],
    wholes: Mapping[str | None, _Whole],
    count: Count,
) -> list[_Tally]:
    """Return what the first k of each ranking take and hold, for each k."""
    tallies = [_Tally(way=way, kind=kind, setting=k) for k in ks]
    for one, found in zip(asked, answers, strict=True):
        texts = wholes[one.question.namespace].texts
        # What was added or has expired since all were read is in neither.
        there = [memory for memory in found if memory in texts]
        for tally, k in zip(tallies, ks, strict=True):
            tally.add(count(_prompt([texts[memory] for memory in there[:k]])), there[:k], one)
    return tallies


def _runs(tallies: Sequence[_Tally], recalls: Mapping[str, Values], *, certain: bool) -> tuple[CostRun, ...]:
    columns = [part for own in recalls.values() for part in (own, own == 1, own > 0)]
    found = estimates(np.stack(columns, axis=1).astype(np.float64))
    everything = float(np.mean(tallies[0].tokens)) or 1.0
    runs = []
    for tally, own in zip(tallies, zip(*[iter(found)] * 3, strict=True), strict=True):
        # That everything holds all is no estimate, where it does.
        holds_all = tally.kind == "everything" and certain and min(tally.recall) == 1
        recall, complete, answered = (_CERTAIN,) * 3 if holds_all else own
        tokens = float(np.mean(tally.tokens))
        runs.append(
            CostRun(
                name=tally.name,
                way=tally.way,
                kind=tally.kind,
                setting=tally.setting,
                tokens=tokens,
                most=max(tally.tokens),
                of_everything=tokens / everything,
                recall=recall,
                complete=complete,
                answered=answered,
            )
        )
    return tuple(runs)


def _against(runs: Sequence[CostRun], recalls: Mapping[str, Values], reference: str) -> tuple[CostRun, ...]:
    others = [run.name for run in runs if run.name != reference]
    ones = np.stack([recalls[name] for name in others], axis=1)
    found = differences(ones, np.repeat(recalls[reference][:, np.newaxis], len(others), axis=1))
    by_name = dict(zip(others, found, strict=True))
    return tuple(replace(run, against=by_name.get(run.name)) for run in runs)

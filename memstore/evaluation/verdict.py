"""What judged questions allow to say, in plain sentences: yes, no, or that these questions can't tell."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Literal, TypeAlias

from memstore.evaluation.measures import Estimate, Values, difference, estimate
from memstore.evaluation.report import Overlap, milliseconds

# better or worse: shown. same: shown to be closer than any difference that matters. open: not to be told.
Outcome: TypeAlias = Literal["better", "worse", "same", "open"]
# A difference of fewer questions in a hundred is not worth a change.
MATTERS = 0.05
# Fewer questions than these leave most differences open.
FEW = 30
_LEVEL = 0.05
_NORMAL = NormalDist()
# How far out 2.5 % of a normal distribution begin; with the second, a difference is found four times in five.
_Z, _POWER = _NORMAL.inv_cdf(1 - _LEVEL / 2), _NORMAL.inv_cdf(0.8)
# The least difference that a number of questions is named for.
_LEAST = 0.02
_NAMES = {"keyword": "keywords", "semantic": "vectors", "entity": "names and codes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a verdict is drawn from, of the same questions in the same order: arrays of 0 and 1, float64 (questions,).

    `default`, `signals`, `profiles` and `spaces` say where a right memory comes first: with the store's own search,
    each signal alone, each other profile, and the default with one embedding space alone (where there are several).
    `reread` says it of the default with its best `read` read again, None where no second stage took part. `first_ten`
    and `candidates` say where the default has one among its first 10 and its first `read`, `nowhere` where neither
    keywords nor vectors alone have one among their first ten. `milliseconds` are those of a question by run.
    """

    default: Values
    signals: Mapping[str, Values]
    first_ten: Values
    candidates: Values
    nowhere: Values
    profiles: Mapping[str, Values] = field(default_factory=dict)
    spaces: Mapping[str, Values] = field(default_factory=dict)
    reread: Values | None = None
    read: int = 50
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    vectors: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How two ways to search compare: the outcome, the paired difference, and the questions it would take to tell.

    `differ` counts the questions that one of the two answers first and the other does not. `needed` is None where the
    outcome is not open.
    """

    outcome: Outcome
    difference: Estimate
    differ: int
    needed: int | None = None


def compared(one: Values, other: Values, *, tries: int = 1) -> Compared:
    """Return how `one` compares with `other`, arrays of values in [0, 1], float64 of shape (questions,).

    A difference is told where its 95 % interval leaves out 0 and, since the interval of a few questions is too narrow,
    an exact sign test of the questions that differ says so too (McNemar, Note on the sampling error of the difference
    between correlated proportions, 1947): six must differ at the least. Where `one` is the best of several `tries`,
    both are held to 1 / tries of the 5 % (Bonferroni), and the interval is widened as a normal one would be.
    """
    found = difference(one, other)
    if tries > 1:
        wider = _NORMAL.inv_cdf(1 - _LEVEL / 2 / tries) / _Z
        found = Estimate(
            value=found.value,
            low=max(-1.0, found.value - (found.value - found.low) * wider),
            high=min(1.0, found.value + (found.high - found.value) * wider),
        )
    gains = one - other
    up, down = int((gains > 0).sum()), int((gains < 0).sum())
    told = _chance(up, down) * tries <= _LEVEL
    if told and found.low > 0:
        return Compared(outcome="better", difference=found, differ=up + down)
    if told and found.high < 0:
        return Compared(outcome="worse", difference=found, differ=up + down)
    if found.low > -MATTERS and found.high < MATTERS and len(gains) > 1:
        return Compared(outcome="same", difference=found, differ=up + down)
    return Compared(outcome="open", difference=found, differ=up + down, needed=_needed(gains))


def sentences(facts: Facts, overlap: Overlap | None = None) -> tuple[str, ...]:
    """Return the verdict: on the number of questions, on fusion, weights, a second embedder and a second stage."""
    said = [few(len(facts.default)), _hybrid(facts), _overlap(overlap), _weights(facts), _embedder(facts)]
    return tuple(one for one in [*said, _second_stage(facts), interval(len(facts.default))] if one)


def few(questions: int) -> str:
    """Return what to know of so few questions, nothing of enough."""
    if questions == 1:
        return "This is one question: it can show that something is broken, never which search is better."
    if questions < FEW:
        return (
            f"These are only {questions} questions: most differences between searches can't be told from chance with so"
            f" few; {FEW} are a beginning, 100 and more are good."
        )
    return ""


def interval(questions: int) -> str:
    """Return what an interval is, where there are any."""
    if questions == 1:
        return ""
    return (
        "(A 95 % interval holds what the difference may well be over other questions like these; where it reaches 0,"
        " there may be none.)"
    )


def _hybrid(facts: Facts) -> str:
    known = {name: own for name, own in facts.signals.items() if own.any()}
    if not known:
        return "No signal puts a right memory first for any question; look whether the questions fit this file."
    best = max(known, key=lambda name: float(known[name].sum()))
    if len(facts.signals) == 1:
        return f"Only {named(best)} took part, so that there is nothing to put together."
    found = compared(facts.default, known[best])
    counts = (
        f"a right memory comes first for {_number(facts.default)} of {_questions(len(facts.default))}, with"
        f" {named(best)} alone, the best single signal, for {_number(known[best])}"
    )
    cost = _cost(facts, "default", best, named(best))
    if found.outcome == "better":
        return f"Hybrid search is worth it here: {counts} ({_gain(found)}).{cost}"
    if found.outcome == "worse":
        return (
            f"Hybrid search is worse than its best signal here: {counts} ({_gain(found)}).{cost} Questions like these"
            f" are served better by more weight on {named(best)}."
        )
    if found.outcome == "same":
        return (
            f"Hybrid search is as good as its best signal here, neither better nor worse by a difference that matters:"
            f" {counts} ({_gain(found)}).{cost}"
        )
    return f"Can't tell whether hybrid search is worth it here: {counts} ({_gain(found)}).{_more(found)}{cost}"


def _overlap(found: Overlap | None) -> str:
    if found is None:
        return ""
    return (
        f"Keywords alone and vectors alone both put a right memory first for {found.both_right:,}, only keywords for"
        f" {found.only_semantic_wrong:,}, only vectors for {found.only_keyword_wrong:,}, neither for"
        f" {found.both_wrong:,}. Whoever always chose the right one of all signals would reach"
        f" {found.attainable:.1%}."
    )


def _weights(facts: Facts) -> str:
    if not facts.profiles or len(facts.signals) < 2:
        return ""
    best = max(facts.profiles, key=lambda name: float(facts.profiles[name].sum()))
    tries = len(facts.profiles)
    found = compared(facts.profiles[best], facts.default, tries=tries)
    widened = f", its interval widened since it is the best of {tries} that were tried" if tries > 1 else ""
    said = f"{best}, the best of the other profiles, puts a right memory first for {_number(facts.profiles[best])}"
    counts = f"{said}, the default for {_number(facts.default)} ({_gain(found)}{widened})"
    if found.outcome == "better":
        return f"Weights matter here: {counts}. memstore tune looks for better ones still, and tests them."
    if found.outcome == "worse":
        return f"Keep the default weights: {counts}."
    if found.outcome == "same":
        return f"Weights make no difference that matters here, so keep the default: {counts}."
    return f"Can't tell whether other weights are better, so keep the default: {counts}.{_more(found)}"


def _embedder(facts: Facts) -> str:
    if len(facts.spaces) > 1:
        best = max(facts.spaces, key=lambda name: float(facts.spaces[name].sum()))
        found = compared(facts.default, facts.spaces[best])
        counts = (
            f"with all {len(facts.spaces)} embedding spaces a right memory comes first for {_number(facts.default)},"
            f" with {best} alone for {_number(facts.spaces[best])} ({_gain(found)})"
        )
        return {
            "better": f"A second embedder is worth it here: {counts}.",
            "worse": f"A second embedder does harm here: {counts}.",
            "same": f"A second embedder makes no difference that matters here: {counts}.",
            "open": f"Can't tell whether a second embedder is worth it: {counts}.{_more(found)}",
        }[found.outcome]
    most = estimate(facts.nowhere)
    whom = "neither keywords nor vectors have" if facts.vectors else "keywords alone do not have"
    which = "A second embedder" if facts.vectors else "An embedder (no vectors took part)"
    return (
        f"{which} could bring at most {_share(most)} of the questions into the first ten that are not there now: those"
        f" for which {whom} a right memory among their first ten ({_number(facts.nowhere)} of {len(facts.nowhere):,})."
        f" {_worth(most)}"
    )


def _second_stage(facts: Facts) -> str:
    if facts.reread is None:
        most = estimate(facts.first_ten - facts.default)
        deeper = float((facts.candidates - facts.default).mean())
        return (
            f"A second stage could at most lift the share of questions with a right memory first from"
            f" {facts.default.mean():.1%} to {facts.first_ten.mean():.1%} if it read the first ten again (a gain for"
            f" {_share(most)} of the questions), and by {deeper:.1%} if it read the first {facts.read:,}."
            f" {_worth(most)}"
        )
    found = compared(facts.reread, facts.default)
    counts = (
        f"with the best {facts.read:,} read again a right memory comes first for {_number(facts.reread)} of"
        f" {_questions(len(facts.default))}, without for {_number(facts.default)} ({_gain(found)})"
    )
    said = {
        "better": f"The second stage is worth its cost here: {counts}.",
        "worse": f"The second stage does harm here: {counts}.",
        "same": f"The second stage is not worth its cost here, as it makes no difference that matters: {counts}.",
        "open": f"Can't tell whether the second stage is worth its cost here: {counts}.{_more(found)}",
    }[found.outcome]
    return (
        f"{said}{_cost(facts, 'rerank', 'default', 'the default')} Whoever always chose the right one of the best"
        f" {facts.read:,} would reach {facts.candidates.mean():.1%}."
    )


def _cost(facts: Facts, run: str, other: str, name: str) -> str:
    """Return what a question takes by a run, and by another one alone that prose calls by its name."""
    if not {run, other} <= facts.milliseconds.keys():
        return ""
    own, less = (milliseconds(facts.milliseconds[one]) for one in (run, other))
    return f" It takes {own} ms a question, {name} alone {less} ms."


def _questions(number: int) -> str:
    return f"{number:,} {'question' if number == 1 else 'questions'}"


def _worth(most: Estimate) -> str:
    if most.high <= MATTERS and most.low != most.high:
        return "There is little to win."
    if most.low > MATTERS:
        return "There is something to win; whether it would be won, only trying it shows."
    return "Can't tell from these questions whether that is much."


def named(signal: str) -> str:
    """Return a signal as prose has it."""
    return _NAMES.get(signal, f"the vectors of {signal}")


def _number(right: Values) -> str:
    return f"{int(right.sum()):,}"


def _gain(found: Compared) -> str:
    own = found.difference
    if own.low == own.high:
        return f"{own.value:+.1%} of the questions"
    return f"{own.value:+.1%} of the questions, 95 % interval {own.low:+.1%} to {own.high:+.1%}"


def _share(found: Estimate) -> str:
    if found.low == found.high:
        return f"{found.value:.1%}"
    return f"{found.value:.1%}, 95 % interval {found.low:.1%} to {found.high:.1%},"


def _more(found: Compared) -> str:
    own = found.difference
    why = ""
    if own.low > 0 or own.high < 0:
        why = f" The interval leaves out 0, but {found.differ} questions that differ may all do so by chance."
    if found.needed is None:
        return why
    return f"{why} About {found.needed:,} questions like these would be needed to tell."


def _chance(up: int, down: int) -> float:
    """Return how often chance alone parts so many questions as unevenly, two-sided (a sign test)."""
    total, less = up + down, min(up, down)
    tail = sum(math.comb(total, number) for number in range(less + 1))
    return float(min(1.0, 2 * tail / 2**total))


def _needed(gains: Values) -> int | None:
    """Return about how many questions like these it takes to tell a difference such as theirs, four times in five.

    Where none differs: how many without a difference show that it does not matter. None for one question.
    """
    if len(gains) < 2:
        return None
    spread = float(gains.std(ddof=1))
    if spread == 0:
        least = _Z**2 * (1 / MATTERS - 1) if not gains.any() else 6.0
        return _rounded(max(least, len(gains) + 1.0))
    apart = max(abs(float(gains.mean())), _LEAST)
    return _rounded(max(((_Z + _POWER) * spread / apart) ** 2, len(gains) + 1.0))


def _rounded(number: float) -> int:
    """Return a number up to two digits: more would claim to be exact."""
    step: int = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / step) * step

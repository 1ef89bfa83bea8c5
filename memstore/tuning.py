"""Weights for one store from judged questions, and whether they are better than the default on others."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memstore import checks
from memstore.evaluation.answering import Asked, Progress, Searcher, ranked, resolved
from memstore.evaluation.measures import Estimate, Values, differences, measured
from memstore.evaluation.questions import Judged
from memstore.evaluation.report import short
from memstore.fusion import PROFILES, Gathered
from memstore.records import Weights

DEFAULT = PROFILES["default"]
# With fewer, one lucky question moves the mean by more than the gains that tuning finds.
FEWEST = 30
_STEPS = 10
_BOOSTS = (DEFAULT.boost, 0.0)
_THREADS = (DEFAULT.thread, 0.0)
_MEASURE, _FIRST = "nDCG@10", "hit@1"
# Means of the same numbers, added up in another order, are the same.
_ROUNDING = 1e-12
_SHOWN = 5
_MOST_NAMED = 3
_NO_CATEGORY = "no category"
_Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Weights, and the share of the halves of questions that chose them."""

    weights: Weights
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What tuning found: `chosen` are the best weights on all questions, `real` says whether to use them.

    `gain` is the mean of nDCG@10 by weights chosen on other questions less that by the default, `gain_first` the same
    of hit@1; `in_sample` is that of `chosen` on the questions it was chosen on, which flatters it. `categories` counts
    the questions of each category, `category_gains` holds their part of `gain`. `often` are the weights that the
    halves chose most, `tried` counts all. `verdict` says in sentences what follows, `notes` what to know before
    believing it.
    """

    questions: int
    tried: int
    repeats: int
    default: Weights
    chosen: Weights
    gain: Estimate
    gain_first: Estimate
    in_sample: float
    real: bool
    categories: Mapping[str, int]
    category_gains: Mapping[str, Estimate]
    often: tuple[Choice, ...]
    verdict: tuple[str, ...]
    notes: tuple[str, ...]


def tune(
    searcher: Searcher,
    questions: Sequence[Judged],
    *,
    repeats: int = 20,
    seed: int = 0,
    progress: Progress | None = None,
) -> Tuning:
    """Return the weights that rank the right memories of some questions best, and what they gain on other questions.

    Each question is asked once. Weights in steps of 0.1 are tried on what the signals said, with and without the boost
    and what threads lend, several embedding spaces together and each alone. `repeats` times the questions are split in
    halves, stratified by category; the weights that are best on one half are scored on the other, both ways, so that
    each question is held out once. The gain and its interval over questions are the means of those of all repeats.

    `progress` is called with how much is done and how much there is. Nothing is saved: `store.profiles.save` does.
    Raises `InvalidInputError` when the memories of no question are in the store.
    """
    repeats, seed = checks.whole("repeats", repeats, least=1), checks.whole("seed", seed, least=0)
    asked, notes = resolved(searcher, questions)
    gathered = []
    for number, one in enumerate(asked, 1):
        gathered.append(searcher.gather(one.question.text, namespace=one.question.namespace))
        if progress is not None:
            progress(number, 2 * len(asked))
    tried = candidates(gathered)
    scores, firsts = (np.zeros((len(asked), len(tried))) for _ in range(2))
    for number, (one, said) in enumerate(zip(asked, gathered, strict=True)):
        scores[number], firsts[number] = _row(one, said, tried)
        if progress is not None:
            progress(len(asked) + number + 1, 2 * len(asked))
    kinds = [one.question.category for one in asked]
    return replace(weighed(scores, firsts, tried, kinds, repeats=repeats, seed=seed), notes=notes)


def candidates(gathered: Sequence[Gathered]) -> tuple[Weights, ...]:
    """Return the weights that are worth trying on what was gathered, the nearest to the default first.

    What can change nothing is left at its default: the semantic weight where no space answered, that of entities where
    no question names any, the boost where no memory mentions an identifier of its question, threads where there are
    none.
    """
    spaces = [{one.space for one in each.signals.values() if one.space is not None} for each in gathered]
    answered = [names for names in spaces if names]
    # A space that was not asked every question, being for other languages, can't answer alone.
    alone = sorted(set.intersection(*answered)) if any(len(names) > 1 for names in answered) else []
    named = any(one.evidence.any() for each in gathered for name, one in each.signals.items() if name == "entity")
    boosts = _BOOSTS if any(one.identified.any() for one in gathered) else _BOOSTS[:1]
    threads = _THREADS if any(one.turns is not None for one in gathered) else _THREADS[:1]
    found = [
        replace(one, boost=boost, thread=thread)
        for semantic in (range(_STEPS + 1) if answered else [round(DEFAULT.semantic * _STEPS)])
        for entity in (range(_STEPS + 1 - semantic) if named else [round(DEFAULT.entity * _STEPS)])
        if semantic + entity <= _STEPS
        for one in _spread((_STEPS - semantic - entity) / _STEPS, semantic / _STEPS, entity / _STEPS, alone)
        for boost in boosts
        for thread in threads
    ]
    # Names are in few questions: among equally near ones those come first that change least for them.
    return tuple(sorted(found, key=lambda one: (_distance(one, alone), round(abs(one.entity - DEFAULT.entity), 9))))


def weighed(
    scores: Values,
    firsts: Values,
    tried: Sequence[Weights],
    categories: Sequence[str | None],
    *,
    repeats: int,
    seed: int,
) -> Tuning:
    """Return what tuning finds in nDCG@10 and hit@1, each float64 of shape (questions, weights).

    The first of the weights `tried` is the default, and equally good ones are in order of preference.
    """
    draws = np.random.default_rng(seed)
    held, held_first = (np.zeros((len(scores), repeats)) for _ in range(2))
    often: Counter[int] = Counter()
    for turn in range(repeats):
        for half, other in halves(categories, draws):
            chosen = _best(scores[half])
            often[chosen] += 1
            held[other, turn], held_first[other, turn] = scores[other, chosen], firsts[other, chosen]
    best = _best(scores)
    gain = _gain(held, scores[:, 0])
    named = np.array(_named(categories))
    kinds = {} if all(one is None for one in categories) else dict(sorted(Counter(named.tolist()).items()))
    found = Tuning(
        questions=len(scores),
        tried=len(tried),
        repeats=repeats,
        default=tried[0],
        chosen=tried[best],
        gain=gain,
        gain_first=_gain(held_first, firsts[:, 0]),
        in_sample=float(scores[:, best].mean() - scores[:, 0].mean()),
        real=len(scores) >= FEWEST and gain.low > 0 and best != 0,
        categories=kinds,
        category_gains={one: _gain(held[named == one], scores[named == one, 0]) for one in kinds},
        often=tuple(
            Choice(weights=tried[one], share=number / (2 * repeats)) for one, number in often.most_common(_SHOWN)
        ),
        verdict=(),
        notes=(),
    )
    return replace(found, verdict=tuple(_verdict(found)))


def described(weights: Weights) -> str:
    """Return weights as a person reads them."""
    shares = {name: getattr(weights, name) for name in ("keyword", "semantic", "entity")}
    if weights.spaces and not weights.semantic:
        del shares["semantic"]
    shares |= {**weights.spaces, "boost": weights.boost, "thread": weights.thread}
    return ", ".join(f"{name} {value:g}" for name, value in shares.items())


def rows(tuning: Tuning) -> list[list[str]]:
    """Return the rows that show what tuning found, below them those of each category."""
    often = [[f"{one.share:.0%} chose", described(one.weights)] for one in tuning.often]
    kinds = [
        [f"  {name or _NO_CATEGORY}", f"{_shown(tuning.category_gains[name])}  ({_questions(number)})"]
        for name, number in tuning.categories.items()
    ]
    return [
        ["questions", f"{tuning.questions:,}"],
        ["tried", f"{tuning.tried:,} weights, {tuning.repeats:,} times on one half and then the other"],
        ["default", described(tuning.default)],
        ["chosen", described(tuning.chosen)],
        *often,
        [f"{_MEASURE} held out", _shown(tuning.gain)],
        *kinds,
        [f"{_FIRST} held out", _shown(tuning.gain_first)],
        [
            f"{_MEASURE} in sample",
            f"{short(tuning.in_sample, 3, '+')}  (on the questions they were chosen on, which flatters)",
        ],
    ]


def _spread(keyword: float, semantic: float, entity: float, alone: Sequence[str]) -> Iterator[Weights]:
    """Yield the ways to share the semantic weight: among all spaces, and each one alone."""
    yield Weights(keyword=keyword, semantic=semantic, entity=entity)
    if semantic:
        for space in alone:
            yield Weights(keyword=keyword, semantic=0.0, entity=entity, spaces={space: semantic})


def _distance(weights: Weights, alone: Sequence[str]) -> float:
    """Return how much counts otherwise than by default, added up."""
    return round(
        sum(abs(one - other) for one, other in zip(_parts(weights, alone), _parts(DEFAULT, alone), strict=True)), 9
    )


def _parts(weights: Weights, alone: Sequence[str]) -> list[float]:
    """Return all that counts, in a fixed order; each space by its own part of the semantic weight."""
    shared = weights.semantic / max(1, len(alone))
    spaces = [weights.spaces.get(name, shared) for name in alone] or [shared]
    return [weights.keyword, weights.entity, weights.boost, weights.thread, *spaces]


def _row(asked: Asked, gathered: Gathered, tried: Sequence[Weights]) -> tuple[list[float], list[float]]:
    """Return nDCG@10 and hit@1 of one question by each of the weights."""
    grades = {str(one): grade for one, grade in asked.grades.items()}
    identified = bool(gathered.identified.any())
    known: dict[object, tuple[float, float]] = {}
    found = []
    for weights in tried:
        # Weights that differ only in what this question has not give the same answer.
        key = (
            weights.keyword,
            weights.semantic,
            weights.entity,
            *weights.spaces.items(),
            weights.boost if identified or not weights.entity else None,
            weights.thread if gathered.turns is not None else None,
        )
        if key not in known:
            worth = measured([str(one) for one in ranked(gathered, weights)], list(grades), grades)
            known[key] = worth[_MEASURE], worth[_FIRST]
        found.append(known[key])
    return [score for score, _ in found], [first for _, first in found]


def halves(categories: Sequence[str | None], draws: np.random.Generator) -> Iterator[tuple[_Indices, _Indices]]:
    """Yield two random halves of the questions, either one first; each category is split evenly, to within one."""
    kinds = np.unique(_named(categories), return_inverse=True)[1]
    drawn = draws.permutation(len(kinds))
    drawn = drawn[np.argsort(kinds[drawn], kind="stable")]
    yield drawn[::2], drawn[1::2]
    yield drawn[1::2], drawn[::2]


def _named(categories: Sequence[str | None]) -> list[str]:
    return ["" if one is None else one for one in categories]


def _gain(held: Values, default: Values) -> Estimate:
    """Return the mean gain over the default, float64 (questions,), of held-out scores, (questions, repeats).

    In one repeat each question is held out once, so that its interval over questions is honest. The ends are the means
    of those of all repeats: the mean score of a question over repeats varies less than any one choice of weights does,
    and its interval would be too narrow.
    """
    each = differences(held, np.repeat(default[:, np.newaxis], held.shape[1], axis=1))
    value, low, high = np.mean([(one.value, one.low, one.high) for one in each], axis=0)
    return Estimate(value=float(value), low=float(low), high=float(high))


def _best(scores: Values) -> int:
    """Return which weights have the best mean, the first of equals; without a question the default."""
    if not len(scores):
        return 0
    means = scores.mean(axis=0)
    return int(np.argmax(means >= means.max() - _ROUNDING))


def _verdict(found: Tuning) -> Iterator[str]:
    gain = f"{_MEASURE} {_shown(found.gain)}"
    if found.real:
        yield f"These weights are better here than the default: {gain} on questions that they were not chosen on."
        lost = [name for name, one in found.category_gains.items() if one.high < 0]
        if lost:
            yield f"They are worse on {_listed(lost)}; where those matter most, keep the default."
    elif found.questions < FEWEST:
        yield (
            f"The default weights stay: {_questions(found.questions)} {'is' if found.questions == 1 else 'are'}"
            f" too few to tell a gain from luck, and at least {FEWEST} are needed; give {_more(found)}."
        )
    elif found.chosen == found.default:
        yield f"The default weights stay: of {found.tried:,} that were tried none is better on these questions."
    elif found.gain.value > 0:
        yield (
            f"The default weights stay: the gain on questions held out, {gain}, may be luck, since its interval holds"
            f" 0. To show a gain of this size takes about {_more(found)} questions like these."
        )
    else:
        yield (
            f"The default weights stay: there is no gain, {gain} on questions held out; what is better on some of these"
            " questions is not better on the others."
        )


def _more(found: Tuning) -> str:
    """Return how many more questions it takes, as text: the interval shrinks with the root of their number."""
    needed = FEWEST
    if found.gain.value > 0 and found.questions > 1:
        reach = found.gain.value - found.gain.low
        needed = max(FEWEST, int(np.ceil(found.questions * (reach / found.gain.value) ** 2)))
    more = max(1, needed - found.questions)
    # Two digits: more would claim to be exact.
    step = 10 ** max(0, len(str(more)) - 2)
    return f"{-(-more // step) * step:,} more"


def _shown(gain: Estimate) -> str:
    return f"{short(gain.value, 3, '+')} [{short(gain.low)}, {short(gain.high)}]"


def _questions(number: int) -> str:
    return f"{number:,} question{'' if number == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name or _NO_CATEGORY for name in names[:_MOST_NAMED])
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED:,} more"

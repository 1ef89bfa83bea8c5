"""What a ranking is worth to the one who asked, and how sure a mean over questions is; pure arithmetic."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memstore.errors import InvalidInputError

Values: TypeAlias = NDArray[np.float64]

MEASURES = ("hit@1", "hit@3", "hit@5", "hit@10", "R@1", "R@5", "R@10", "MRR@10", "nDCG@10")
RESAMPLES = 5_000
_HITS = (1, 3, 5, 10)
_RECALLS = (1, 5, 10)
_DEPTH = 10
_SEED = 0
# The tails that 95 % of a normal distribution leave out, and how far out they begin.
_TAILS = (2.5, 97.5)
_Z = 1.959963984540054
# Numbers in one block of draws: with their counts some 40 MB.
_BLOCK = 1_000_000
# Differences of the same two numbers, further apart only by rounding, are the same.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over questions, and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def measured(ranked: Sequence[str], relevant: Collection[str], grades: Mapping[str, float]) -> dict[str, float]:
    """Return each of `MEASURES` for the ranking that answers one question, all in [0, 1]; a repeated id counts once.

    hit@k is 1 when any relevant memory is among the first k, R@k the share of the relevant that are. MRR@10 is 1 / the
    rank of the first relevant one, 0 past rank 10 (Voorhees, The TREC-8 question answering track report, 1999).
    nDCG@10 adds up the gains, each divided by log2(1 + rank), as a share of what the best order would have (Järvelin
    and Kekäläinen, Cumulated gain-based evaluation of IR techniques, 2002; the discount is the one in use since, which
    spares rank 1 alone). A gain is that of `grades`, 0 for what they leave out, or 1 for each relevant memory when
    there are none.
    """
    wanted = frozenset(relevant)
    if not wanted:
        raise InvalidInputError("relevant is empty; a question needs at least one right answer to be measured.")
    order = list(dict.fromkeys(ranked))
    first = next((rank for rank, one in enumerate(order, 1) if one in wanted), math.inf)
    gains = grades or dict.fromkeys(wanted, 1.0)
    best = _discounted(sorted(gains.values(), reverse=True))
    found = {f"hit@{k}": float(first <= k) for k in _HITS}
    found |= {f"R@{k}": len(wanted.intersection(order[:k])) / len(wanted) for k in _RECALLS}
    found[f"MRR@{_DEPTH}"] = 1 / first if first <= _DEPTH else 0.0
    gained = _discounted([gains.get(one, 0.0) for one in order])
    # Two orders of nearly equal gains may differ from each other by rounding alone.
    found[f"nDCG@{_DEPTH}"] = min(1.0, gained / best) if best else 0.0
    return found


def estimate(values: Values) -> Estimate:
    """Return the mean of one measure over questions as `estimates` does; `values` is float64 of shape (questions,)."""
    return estimates(np.asarray(values, dtype=np.float64)[:, np.newaxis])[0]


def difference(one: Values, other: Values) -> Estimate:
    """Return the mean of `one` - `other`, paired by question, as `differences` does; both of shape (questions,)."""
    pair = (np.asarray(values, dtype=np.float64)[:, np.newaxis] for values in (one, other))
    return differences(*pair)[0]


def estimates(values: Values) -> tuple[Estimate, ...]:
    """Return the mean of each column with its 95 % interval; `values` is float64, (questions, columns), in [0, 1].

    The interval is the percentile bootstrap over questions with 5,000 resamples (Efron and Tibshirani, An introduction
    to the bootstrap, 1993, chapter 13; Sakai, Evaluating evaluation metrics based on the bootstrap, 2006, for its use
    on test collections). They are drawn from a fixed seed out of the values in order of size, each draw also read from
    the other end (Hall, Antithetic resampling for the bootstrap, 1989): so the order of the questions changes nothing.

    Where every value is the same, every resample is too, and ±0 would be false certainty. The interval is then what
    the mean could be if other questions, none of which was met in n, were as far off as can be: their share is at most
    the upper end of Wilson's score interval for 0 of n, z² / (n + z²) (Wilson, Probable inference, 1927). Of a share,
    n of n or 0 of n, this is Wilson's score interval itself. With one question nothing is known of others, and the
    interval is its value.
    """
    return _summarised(_checked(values), least=0.0, most=1.0)


def differences(ones: Values, others: Values) -> tuple[Estimate, ...]:
    """Return the mean of `ones` - `others` of each column, paired by question; both as `estimates` takes them.

    The interval is that of `estimates` for the differences; `differences(others, ones)` is the same with the signs
    turned. Where no question differs, the mean is at most as far from 0, both ways, as the share of questions that
    could: again Wilson's upper end for 0 of n.
    """
    first, second = _checked(ones), _checked(others)
    if first.shape != second.shape:
        raise InvalidInputError(f"the values to compare are {first.shape} and {second.shape}; ask both the same.")
    return _summarised(first - second, least=-1.0, most=1.0)


def _checked(values: Values) -> Values:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 2 or not len(found):
        raise InvalidInputError(f"values have the shape {found.shape}; give at least one question, a row each.")
    if not ((found >= 0) & (found <= 1)).all():
        raise InvalidInputError("values of a measure are outside 0 to 1, or not a number; give those of `measured`.")
    return found


def _summarised(values: Values, *, least: float, most: float) -> tuple[Estimate, ...]:
    ordered = np.sort(values, axis=0)
    questions = len(ordered)
    # Added up from both ends, the sum is the same whichever way the values are turned.
    means = ((ordered + ordered[::-1]) / 2).mean(axis=0)
    same = ordered[-1] - ordered[0] < _ROUNDING
    lows, highs = means.copy(), means.copy()
    if questions > 1:
        unseen = _Z**2 / (questions + _Z**2)
        lows[same] -= unseen * (means[same] - least)
        highs[same] += unseen * (most - means[same])
        if not same.all():
            resampled = np.concatenate(list(_resampled(ordered[:, ~same])))
            lows[~same], highs[~same] = np.percentile(resampled, _TAILS, axis=0)
    return tuple(
        Estimate(value=float(value), low=float(min(low, value)), high=float(max(high, value)))
        for value, low, high in zip(means, lows, highs, strict=True)
    )


def _resampled(ordered: Values) -> Iterator[Values]:
    """Yield the means of the columns in each resample, block by block: a block is (resamples, columns)."""
    questions = len(ordered)
    draws = np.random.default_rng(_SEED)
    left = RESAMPLES // 2
    while left:
        size = min(left, max(1, _BLOCK // questions))
        drawn = draws.integers(0, questions, size=(size, questions))
        drawn += np.arange(size)[:, np.newaxis] * questions
        counts = np.bincount(drawn.ravel(), minlength=size * questions).reshape(size, questions) / questions
        yield counts @ ordered
        yield counts @ ordered[::-1]
        left -= size


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:_DEPTH], 1))

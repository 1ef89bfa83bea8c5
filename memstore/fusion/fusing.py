"""One score for each candidate from what several signals say of it, with the part of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from memstore import checks
from memstore.fusion.methods import (
    RRF_K,
    dbsf_ends,
    geometric_weights,
    harmonic_weights,
    l2_ends,
    minmax_ends,
    reciprocal_ranks,
    scaled,
    zscore_ends,
)
from memstore.fusion.signals import Ends, Flags, Gathered, Numbers, Scored, Scores
from memstore.fusion.threads import lent

DEFAULT_FUSION = "calibrated"
# An entity score is a share already; stretched, a name that nearly all memories mention would count in full.
SHARES = ("entity",)
Scaling: TypeAlias = Callable[[Scores, Flags], Ends]
Combining: TypeAlias = Callable[[Scores, Scores], Scores]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How scores are put together.

    `scaling` gives the raw scores of a signal that 0 and 1 stand for, from those of the candidates; without it they
    are the signal's own. `combining` gives what each share is multiplied by, from shares and weights (float64 of shape
    (signals, candidates)); without it that is the weight. With `certain` a signal's confidence multiplies its weight
    and threads count.
    """

    scaling: Scaling | None = None
    combining: Combining | None = None
    by_rank: bool = False
    certain: bool = False


METHODS: Mapping[str, Method] = {
    "calibrated": Method(certain=True),
    "minmax": Method(scaling=minmax_ends),
    "dbsf": Method(scaling=dbsf_ends),
    "zscore": Method(scaling=zscore_ends),
    "l2": Method(scaling=l2_ends),
    "geometric": Method(scaling=minmax_ends, combining=geometric_weights),
    "harmonic": Method(scaling=minmax_ends, combining=harmonic_weights),
    "rrf": Method(by_rank=True),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """What fusion made of one signal, or of what a thread says: arrays of shape (candidates,), float64, `ranks` int64.

    A contribution is the share (`normalised`) times the weight. `zero` and `one` are the raw scores that the shares 0
    and 1 stand for, None where the share is another function of the raw score; by `half_life`, in days, the share of an
    age decays.
    """

    raw: Scores
    normalised: Scores
    ranks: Numbers
    weights: Scores
    contributions: Scores
    zero: float | None = None
    one: float | None = None
    confidence: float = 1.0
    half_life: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fused:
    """The scores of candidates, float64 of shape (candidates,), and the indices of the eligible, best first.

    Ties stand in the order of ids. A score is the sum of its contributions and its boost.
    """

    scores: Scores
    order: Numbers
    boosts: Scores
    parts: Mapping[str, Part]


def method(name: str | None) -> Method:
    """Return a fusion method by its name, None being the store's default; raise `InvalidInputError` on others."""
    return METHODS[checks.one_of("fusion", DEFAULT_FUSION if name is None else name, METHODS)]


def fuse(
    gathered: Gathered,
    share: Mapping[str, float],
    *,
    boost: float = 0.0,
    thread: float = 0.0,
    how: str | None = None,
    rrf_k: float = RRF_K,
) -> Fused:
    """Return the score of each candidate, the order best first, and the part of each signal.

    `share` is the weight of each signal, `boost` what an identifier of the query adds to a memory that mentions it (a
    share of the best score there is, scaled by its rarity), `thread` what multiplies the contributions of threads.
    Where a signal knows nothing of a candidate (NaN: it has no vector yet), the others share its weight for that
    candidate, so that the unknown is neither held against it nor for it.
    """
    chosen = method(how)
    scored = list(gathered.signals.values())
    own = np.array([share[name] for name in gathered.signals])[:, None]
    known = np.array([np.isfinite(one.raw) for one in scored]).reshape(len(scored), len(gathered.ids))
    ranks = [_ranks(one, gathered) for one in scored]
    ends = [None if chosen.by_rank else _ends(chosen, name, gathered) for name in gathered.signals]
    shares = np.array(
        [
            reciprocal_ranks(rank, rrf_k) if between is None else scaled(one.raw, one.evidence, between)
            for one, rank, between in zip(scored, ranks, ends, strict=True)
        ]
    ).reshape(known.shape)
    whole = (known * own).sum(axis=0)
    weights = known * own * np.divide(own.sum(), whole, out=np.zeros(known.shape[1]), where=whole > 0)
    confidence = [one.confidence if chosen.certain else 1.0 for one in scored]
    weights *= np.array(confidence)[:, None]
    if chosen.combining is not None:
        weights = chosen.combining(shares, weights)
    parts = {
        name: Part(
            raw=one.raw,
            normalised=shares[row],
            ranks=ranks[row],
            weights=weights[row],
            contributions=shares[row] * weights[row],
            zero=None if between is None else between[0],
            one=None if between is None else between[1],
            confidence=confidence[row],
        )
        for row, ((name, one), between) in enumerate(zip(gathered.signals.items(), ends, strict=True))
    }
    boosts = gathered.identified * boost * (1 / (rrf_k + 1) if chosen.by_rank else 1.0)
    scores = (shares * weights).sum(axis=0) + boosts
    if chosen.certain and thread and gathered.turns is not None:
        nowhere = np.zeros(len(scores), dtype=np.int64)
        added = np.zeros(len(scores))
        for name, one in lent(gathered.turns, scores, gathered.eligible).items():
            parts[name] = Part(
                raw=one.raw,
                normalised=one.share,
                ranks=nowhere,
                weights=np.full(len(scores), one.weight * thread),
                contributions=one.share * one.weight * thread,
                zero=one.zero,
            )
            added += parts[name].contributions
        scores = scores + added
    order = np.lexsort((gathered.ids, -scores))
    return Fused(scores=scores, order=order[gathered.eligible[order]], boosts=boosts, parts=parts)


def _ends(chosen: Method, name: str, gathered: Gathered) -> Ends:
    scored, among = gathered.signals[name], gathered.eligible
    if chosen.scaling is None or (name in SHARES and chosen.scaling is minmax_ends):
        return scored.ends
    return chosen.scaling(scored.raw[among], scored.evidence[among])


def _ranks(scored: Scored, gathered: Gathered) -> Numbers:
    """Return ranks from 1 among the eligible candidates with evidence, 0 for the others; ties by id."""
    said = scored.evidence & gathered.eligible
    ranks = np.zeros(len(said), dtype=np.int64)
    order = np.lexsort((gathered.ids, -np.where(said, scored.raw, -np.inf)))
    ranks[order[: int(said.sum())]] = np.arange(1, int(said.sum()) + 1)
    return ranks

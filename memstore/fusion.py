"""Pure arithmetic on score arrays: raw scores of several signals to one score for each candidate."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memstore import checks
from memstore.errors import InvalidInputError
from memstore.records import Weights

Scores: TypeAlias = NDArray[np.float64]

PROFILES: Mapping[str, Weights] = {
    "default": Weights(keyword=0.4, semantic=0.4, entity=0.2),
    "technical": Weights(keyword=0.6, semantic=0.2, entity=0.2),
    "conceptual": Weights(keyword=0.3, semantic=0.5, entity=0.2),
    "people": Weights(keyword=0.3, semantic=0.3, entity=0.4),
}
# Shares of a whole; beyond this their sum would lose the smaller ones.
_LARGEST_WEIGHT = 1e6
_WEIGHTS = ("keyword", "semantic", "entity", "boost")
DEFAULT_FUSION = "minmax"
# An entity score is a share already; stretched, a name that nearly all memories mention would count in full.
BOUNDS: Mapping[str, tuple[float, float]] = {"entity": (0.0, 1.0)}
Normalise: TypeAlias = Callable[[Scores, NDArray[np.bool_], tuple[float, float] | None], Scores]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """What fusion made of one signal: all arrays float64 of shape (candidates,)."""

    normalised: Scores
    ranks: NDArray[np.int64]
    weights: Scores
    contributions: Scores


def weights(profile: str, own: Weights | Mapping[str, float] | None) -> Weights:
    """Return the caller's own weights, or those of a profile; raise `InvalidInputError` on what is neither."""
    profile = checks.one_of("profile", profile, PROFILES)
    if own is None:
        return PROFILES[profile]
    if isinstance(own, Mapping):
        # What is no signal is the name of a space, which the file must have.
        known = {name: value for name, value in own.items() if name in _WEIGHTS}
        own = Weights(
            **known,
            spaces={checks.required_name("weight", name): value for name, value in own.items() if name not in _WEIGHTS},
        )
    if not isinstance(own, Weights):
        raise InvalidInputError(f"weights is {type(own).__name__}; give Weights, or a mapping of signal to number.")
    if not isinstance(own.spaces, Mapping):
        raise InvalidInputError(f"weights: spaces is {type(own.spaces).__name__}; give a mapping of space to number.")
    for name, given in (*((name, getattr(own, name)) for name in _WEIGHTS), *own.spaces.items()):
        value = checks.native(given)
        if not isinstance(value, int | float) or not 0 <= value <= _LARGEST_WEIGHT:
            raise InvalidInputError(
                f"weights: {name if name in _WEIGHTS else checks.brief(name)} is {checks.brief(value)};"
                f" give a number from 0 to {_LARGEST_WEIGHT:,.0f}."
            )
    if own.keyword + own.semantic + own.entity + sum(own.spaces.values()) == 0:
        raise InvalidInputError("weights: keyword, semantic and entity are all 0; at least one must count.")
    return own


def shares(own: Weights, signals: tuple[str, ...], spaces: Mapping[str, str] | None = None) -> dict[str, float]:
    """Return the weight of each signal that takes part, as shares that add up to 1 (all 0 if none counts).

    `spaces` gives the embedding space behind a signal, by the signal's name; those that the weights do not name share
    the semantic weight.
    """
    spaces = spaces or {}
    sharing = [signal for signal in spaces if spaces[signal] not in own.spaces]
    given = {
        signal: own.semantic / len(sharing)
        if signal in sharing
        else float(own.spaces[spaces[signal]] if signal in spaces else getattr(own, signal))
        for signal in signals
    }
    total = sum(given.values())
    return {signal: value / total if total else 0.0 for signal, value in given.items()}


def minmax(raw: Scores, evidence: NDArray[np.bool_], bounds: tuple[float, float] | None = None) -> Scores:
    """Return scores scaled to [0, 1]: the best of the candidates 1, the worst 0; equal evidence is 1, never 0.

    `raw` is float64 of shape (candidates,), higher is better, NaN where the signal knows nothing; `evidence` says for
    which candidates the score is evidence at all. What is no evidence gives 0. A raw 0 that is known takes part as
    the worst, so that a weak match among memories that do not match at all is not nothing. `bounds` are those of a
    signal whose scores mean the same in every list: they are used instead of the list's own.
    """
    known = np.isfinite(raw)
    out = np.zeros(len(raw))
    if not evidence.any():
        return out
    low, high = bounds or (float(raw[known].min()), float(raw[known].max()))
    out[evidence] = 1.0 if high == low else (raw[evidence] - low) / (high - low)
    return out


METHODS: Mapping[str, Normalise] = {"minmax": minmax}


def method(name: str | None) -> Normalise:
    """Return a fusion method by its name, None being the store's default; raise `InvalidInputError` on others."""
    return METHODS[checks.one_of("fusion", DEFAULT_FUSION if name is None else name, METHODS)]


def fuse(
    raw: Mapping[str, Scores],
    evidence: Mapping[str, NDArray[np.bool_]],
    share: Mapping[str, float],
    boosts: Scores,
    ids: NDArray[np.int64],
    normalise: Normalise = minmax,
) -> tuple[Scores, NDArray[np.int64], dict[str, Fused]]:
    """Return the score of each candidate, the order best first (ties by id), and the part of each signal.

    The score is the sum of all contributions and the boost: it can be added up again from the parts. Where a signal
    knows nothing of a candidate (NaN: it has no vector yet), the others share its weight for that candidate, so that
    the unknown is neither held against it nor for it.
    """
    parts: dict[str, Fused] = {}
    known = {signal: np.isfinite(scores) * share[signal] for signal, scores in raw.items()}
    whole = np.sum(list(known.values()), axis=0) if known else np.zeros(len(ids))
    scale = np.divide(sum(share.values()), whole, out=np.zeros(len(ids)), where=whole > 0)
    total = np.array(boosts, dtype=np.float64)
    for signal, scores in raw.items():
        normalised = normalise(scores, evidence[signal], BOUNDS.get(signal))
        shares_here = known[signal] * scale
        contributions = normalised * shares_here
        parts[signal] = Fused(
            normalised=normalised,
            ranks=_ranks(scores, evidence[signal], ids),
            weights=shares_here,
            contributions=contributions,
        )
        total = total + contributions
    return total, np.lexsort((ids, -total)), parts


def _ranks(raw: Scores, evidence: NDArray[np.bool_], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ranks from 1 among the candidates with evidence, 0 for the others; ties by id."""
    ranks = np.zeros(len(raw), dtype=np.int64)
    order = np.lexsort((ids, -np.where(evidence, raw, -np.inf)))
    found = order[: int(evidence.sum())]
    ranks[found] = np.arange(1, len(found) + 1)
    return ranks

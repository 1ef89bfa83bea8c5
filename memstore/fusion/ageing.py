"""What age adds to a score: three contributions in units of the score, none unless it is asked for."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from memstore.fusion.fusing import Fused, Part
from memstore.fusion.signals import Scores
from memstore.records import Ageing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ages:
    """How old candidates are: float64 of shape (candidates,), in days, at least 0; lower is better.

    `created` are the days since a memory was made, `used` those since its last use, NaN where there was none; `pinned`
    is 1 for a pinned memory, else 0.
    """

    created: Scores
    used: Scores
    pinned: Scores


def aged(fused: Fused, ages: Ages, ageing: Ageing) -> Fused:
    """Return scores with what age adds to them: a part for each weight that is not 0, and the order by the new scores.

    The share of `recency` and `use` is `decay`, that of `pinned` 1 or 0; each is multiplied by its weight and added, as
    the recency of Park et al., Generative Agents (2023), section 4.1, is.
    """
    shares = {
        "recency": (ages.created, ageing.recency, decay(ages.created, ageing.half_life), ageing.half_life),
        "use": (ages.used, ageing.use, np.nan_to_num(decay(ages.used, ageing.half_life)), ageing.half_life),
        "pinned": (ages.pinned, ageing.pinned, ages.pinned, None),
    }
    parts = {
        name: Part(
            raw=raw,
            normalised=share,
            ranks=np.zeros(len(raw), dtype=np.int64),
            weights=np.full(len(raw), float(weight)),
            contributions=share * weight,
            half_life=half_life,
        )
        for name, (raw, weight, share, half_life) in shares.items()
        if weight
    }
    if not parts:
        return fused
    scores = fused.scores + sum(part.contributions for part in parts.values())
    # Of equal scores the order is as it was.
    order = fused.order[np.argsort(-scores[fused.order], kind="stable")]
    return dataclasses.replace(fused, scores=scores, order=order, parts={**fused.parts, **parts})


def decay(days: Scores, half_life: float) -> Scores:
    """Return 2^(-days / half_life), float64 in [0, 1]; higher is better, NaN stays NaN."""
    # A half-life of nearly nothing leaves nothing of any age.
    with np.errstate(over="ignore"):
        left: Scores = np.exp2(-days / half_life)
    return left

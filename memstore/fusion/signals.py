"""What the signals say of one query's candidates: all that fusion needs, and nothing of the file."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Scores: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.int64]
# The raw scores of a signal that 0 and 1 stand for.
Ends: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scored:
    """What one signal says of all candidates: arrays of shape (candidates,).

    `raw` is float64 in the signal's own unit, higher is better, NaN where it knows nothing; `evidence` says where that
    is evidence at all. `ends` are the raw scores of a memory that has nothing to do with the query, and of one that is
    all it could be.
    `confidence` in [0, 1] is what the signal's word is worth for this query. `space` is the embedding space behind it.
    """

    raw: Scores
    evidence: Flags
    ends: Ends
    confidence: float = 1.0
    space: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turns:
    """The candidates as turns of threads: arrays of shape (candidates,).

    `thread` is the number of a candidate's thread, -1 for none; `answered` the index of the turn before it, where
    that is a question of another author, -1 for none; `asks` says whether it ends in a question mark; `length` counts
    its terms.
    """

    thread: Numbers
    answered: Numbers
    asks: Flags
    length: Scores


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reread:
    """What a reranker says of the candidates that it read.

    `read` holds their indices, int64 of shape (n,), the best of the first stage first; `logits` what it gives each,
    float64 of shape (n,), higher is better, without bounds; `weight` in [0, 1] what its share counts for, and
    `confidence` in [0, 1] what its word is worth for this query.
    """

    read: Numbers
    logits: Scores
    weight: float
    confidence: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gathered:
    """The candidates of one query by their memories' ids (int64, ascending), and what each signal says of them.

    `eligible` are those that may be an answer: others only lend to the turns beside them. `identified` in [0, 1] is
    the rarity of the rarest identifier of the query (a code, path, address, known term, …) that a memory mentions, 0
    for none; `missing` says that the query names a code, path or address and a memory mentions nothing so certain.
    `known` in [0, 1] is the share of the query's words, by what they could score, that the store has at all.
    `reread` is what the second stage says, where there was one; `timings` are the milliseconds of each stage.
    """

    ids: Numbers
    eligible: Flags
    signals: Mapping[str, Scored]
    identified: Scores
    missing: Flags
    known: float
    turns: Turns | None = None
    reread: Reread | None = None
    timings: Mapping[str, float] = field(default_factory=dict)


def floored(gathered: Gathered, floor: float) -> Gathered:
    """Return what was gathered without the candidates that only vectors speak for, and those below a floor.

    `floor` is a share of each space's scale, as `ends` give it. A turn that answers a question which stays does too.
    """
    spoken = np.zeros(len(gathered.ids), dtype=bool)
    for one in gathered.signals.values():
        zero, full = one.ends
        raw = np.nan_to_num(one.raw, nan=-np.inf)
        spoken |= one.evidence if one.space is None else one.evidence & (raw >= zero + floor * (full - zero))
    if gathered.turns is not None:
        answered = gathered.turns.answered
        spoken |= (answered >= 0) & spoken[answered]
    return replace(gathered, eligible=gathered.eligible & spoken)

"""Scores by weights as callers give them."""

from memstore.fusion.fusing import Fused, fuse
from memstore.fusion.methods import RRF_K
from memstore.fusion.signals import Gathered
from memstore.fusion.weights import shares
from memstore.records import Weights


def weighed(gathered: Gathered, weights: Weights, how: str | None = None, *, rrf_k: float = RRF_K) -> Fused:
    """Return the scores of what was gathered by some weights and fusion method, as a search has them.

    Raises `InvalidInputError` on a method that does not exist.
    """
    spaces = {name: one.space for name, one in gathered.signals.items() if one.space is not None}
    share = shares(weights, tuple(gathered.signals), spaces)
    return fuse(gathered, share, boost=weights.boost, thread=weights.thread, how=how, rrf_k=rrf_k)

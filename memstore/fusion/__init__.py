"""Pure arithmetic on score arrays: what several signals say of candidates to one score for each."""

from memstore.fusion.ageing import Ages, aged, decay
from memstore.fusion.fusing import DEFAULT_FUSION, METHODS, Fused, Part, fuse, method
from memstore.fusion.methods import RRF_K, dbsf_ends, l2_ends, minmax_ends, rrf, scaled, zscore_ends
from memstore.fusion.relevance import relevance
from memstore.fusion.reranking import RERANK, reranked
from memstore.fusion.signals import Ends, Flags, Gathered, Numbers, Reread, Scored, Scores, Turns, floored
from memstore.fusion.weighing import weighed
from memstore.fusion.weights import PROFILES, shares, weights

__all__ = [
    "DEFAULT_FUSION",
    "METHODS",
    "PROFILES",
    "RERANK",
    "RRF_K",
    "Ages",
    "Ends",
    "Flags",
    "Fused",
    "Gathered",
    "Numbers",
    "Part",
    "Reread",
    "Scored",
    "Scores",
    "Turns",
    "aged",
    "dbsf_ends",
    "decay",
    "floored",
    "fuse",
    "l2_ends",
    "method",
    "minmax_ends",
    "relevance",
    "reranked",
    "rrf",
    "scaled",
    "shares",
    "weighed",
    "weights",
    "zscore_ends",
]

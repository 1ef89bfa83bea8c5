"""How likely a memory answers the query at all: the same under every fusion method, in stores of any size."""

import numpy as np

from memstore.fusion.fusing import Fused
from memstore.fusion.signals import Gathered, Scores
from memstore.fusion.weighing import weighed
from memstore.fusion.weights import PROFILES

# A logistic regression of "the best memory is the right one" on judged questions, half of them with their answers
# taken out of the store; examples/relevance.py makes it again. A query whose words the store knows is expected to
# score more.
_CONSTANT, _SCORE, _KNOWN, _MISSING = -2.9, 10.0, -3.5, -2.0


def relevance(gathered: Gathered, by_default: Fused | None = None) -> Scores:
    """Return how likely each candidate answers the query, float64 of shape (candidates,), in [0, 1].

    It is 1 / (1 + e^-(10 s - 3.5 w - 2 m - 2.9)), where s is the score by the default fusion and weights, whatever
    those of the search are, w the share of the query's words that the store has, and m is 1 where the query names a
    code, path or address and the memory mentions none. Where keywords take no part s has none of their weight.
    `by_default` is what was gathered by the default fusion and weights, where that is known already.
    """
    default = PROFILES["default"]
    score = (by_default or weighed(gathered, default)).scores
    if "keyword" not in gathered.signals:
        # Vectors find something near to any query: without the words beside them their share is not to be trusted.
        score = score * (1.0 - default.keyword)
    logit = _CONSTANT + _SCORE * score + _KNOWN * gathered.known + _MISSING * gathered.missing
    likely: Scores = 1 / (1 + np.exp(-logit))
    return likely

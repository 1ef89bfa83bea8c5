"""How likely a memory answers the query at all: the same under every fusion method, in stores of any size."""

import numpy as np

from memstore.fusion.fusing import fuse
from memstore.fusion.signals import Gathered, Scores
from memstore.fusion.weights import PROFILES, shares

# A logistic regression of "the best memory is the right one" on judged questions, half of them with their answers
# taken out of the store; examples/relevance.py makes it again. A query whose words the store knows is expected to
# score more.
_CONSTANT, _SCORE, _KNOWN = -2.9, 10.0, -3.5


def relevance(gathered: Gathered) -> Scores:
    """Return how likely each candidate answers the query, float64 of shape (candidates,), in [0, 1].

    It is 1 / (1 + e^-(10 s - 3.5 w - 2.9)), where s is the calibrated score by the default weights without what
    threads lend, and w the share of the query's words that the store has.
    """
    default = PROFILES["default"]
    spaces = {name: one.space for name, one in gathered.signals.items() if one.space is not None}
    score = fuse(
        gathered, shares(default, tuple(gathered.signals), spaces), boost=default.boost, how="calibrated"
    ).scores
    return 1 / (1 + np.exp(-(_CONSTANT + _SCORE * score + _KNOWN * gathered.known)))

"""The second stage: what a reranker says of the best candidates, put beside what the first stage says."""

import dataclasses

import numpy as np

from memstore.fusion.fusing import Fused, Part
from memstore.fusion.signals import Gathered, Reread

RERANK = "rerank"


def reranked(fused: Fused, gathered: Gathered, reread: Reread) -> Fused:
    """Return scores that are (1 - weight) of the first stage and weight of the second, and the order by them.

    The weight is that of the second stage times its confidence. A candidate's share of the second stage is the logistic
    function of its logit, 1 / (1 + e^-x), whatever the others have, and 0 where it was not read: those stay behind in
    the order that they had. Of equal scores the better one of the first stage comes first. All parts of the first
    stage, and its boosts, are multiplied by 1 - weight.
    """
    raw = np.full(len(gathered.ids), np.nan)
    raw[reread.read] = reread.logits
    share = np.zeros(len(raw))
    # As e^-log(1 + e^-x), which no logit overflows.
    share[reread.read] = np.exp(-np.logaddexp(0.0, -reread.logits))
    ranks = np.zeros(len(raw), dtype=np.int64)
    ranks[reread.read[np.lexsort((gathered.ids[reread.read], -reread.logits))]] = np.arange(1, len(reread.read) + 1)
    weight = reread.weight * reread.confidence
    kept = 1.0 - weight
    parts = {
        name: dataclasses.replace(part, weights=part.weights * kept, contributions=part.contributions * kept)
        for name, part in fused.parts.items()
    }
    parts[RERANK] = Part(
        raw=raw,
        normalised=share,
        ranks=ranks,
        weights=np.full(len(raw), weight),
        contributions=share * weight,
        confidence=reread.confidence,
    )
    scores = fused.scores * kept + parts[RERANK].contributions
    order = np.lexsort((gathered.ids, -fused.scores, -scores))
    return Fused(scores=scores, order=order[gathered.eligible[order]], boosts=fused.boosts * kept, parts=parts)

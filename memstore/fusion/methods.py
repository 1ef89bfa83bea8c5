"""The classic fusion methods: pure functions from raw scores to shares, and from shares to one score.

Scores are float64, higher is better, NaN where a signal knows nothing of a candidate. A *scaling* gives the two raw
scores of one signal that 0 and 1 stand for; what lies between and beyond is linear.
"""

from collections.abc import Sequence

import numpy as np

from memstore.fusion.signals import Ends, Flags, Numbers, Scores

RRF_K = 60.0
_ROUNDING = 1e-12


def minmax_ends(raw: Scores, evidence: Flags) -> Ends:
    """Return the worst and the best of the known scores, so that the best is 1; equal ones are 1, never 0.

    A raw 0 that is known takes part as the worst, so that a weak match among memories that do not match at all is not
    nothing. Source: Lee, Analyses of multiple evidence combination (1997).
    """
    known = raw[np.isfinite(raw)]
    if not evidence.any():
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    # Equal scores that are evidence are the best there is.
    return (low, high) if high > low else (high - 1.0, high)


def dbsf_ends(raw: Scores, evidence: Flags) -> Ends:
    """Return mean - 3 and mean + 3 sample standard deviations (ddof 1) of the scores that are evidence.

    Nothing is clipped; one score alone, and equal ones, are 0.5. Source: Mazzeschi, Distribution-based score fusion
    (2023), as Qdrant has it (https://qdrant.tech/documentation/concepts/hybrid-queries/).
    """
    found = raw[evidence]
    if not found.size:
        return 0.0, 1.0
    mean = float(found.mean())
    if _equal(found):
        return mean - 1.0, mean + 1.0
    reach = 3.0 * float(found.std(ddof=1))
    return mean - reach, mean + reach


def zscore_ends(raw: Scores, evidence: Flags) -> Ends:
    """Return the mean, and one standard deviation (ddof 0) above it, of the scores that are evidence.

    What is worse than the mean is below 0. Equal scores are 0. Source: Montague and Aslam, Relevance score
    normalization for metasearch (2001); as in OpenSearch, what a signal did not find adds nothing.
    """
    found = raw[evidence]
    if not found.size:
        return 0.0, 1.0
    mean = float(found.mean())
    return mean, mean + (1.0 if _equal(found) else float(found.std()))


def l2_ends(raw: Scores, evidence: Flags) -> Ends:
    """Return 0 and the Euclidean norm of the scores that are evidence.

    Source: OpenSearch's l2 technique (https://docs.opensearch.org, normalization processor).
    """
    norm = float(np.sqrt((raw[evidence] ** 2).sum()))
    return 0.0, norm if norm > 0 else 1.0


def _equal(found: Scores) -> bool:
    """Say whether all scores are one and the same; the deviation of equal ones is not quite 0 in floating point."""
    return float(np.ptp(found)) <= _ROUNDING * max(1.0, float(np.abs(found).max()))


def scaled(raw: Scores, evidence: Flags, ends: Ends) -> Scores:
    """Return scores on the scale whose 0 and 1 are `ends`; what is no evidence gives 0."""
    zero, one = ends
    out = np.zeros(len(raw))
    out[evidence] = (raw[evidence] - zero) / (one - zero)
    return out


def reciprocal_ranks(ranks: Numbers, k: float = RRF_K) -> Scores:
    """Return 1 / (k + rank), 0 for rank 0: not found.

    Ranks count from 1, as in the paper; Qdrant and Milvus count from 0, so that their k is one more for the same
    scores. Source: Cormack, Clarke and Buettcher, Reciprocal rank fusion (2009), whose k is 60.
    """
    shares: Scores = np.divide(1.0, k + ranks, out=np.zeros(len(ranks)), where=ranks > 0)
    return shares


def rrf(
    rankings: Sequence[Sequence[int]], weights: Sequence[float] | None = None, k: float = RRF_K
) -> dict[int, float]:
    """Return the weighted sum of 1 / (k + rank) over rankings of ids, best first; ranks count from 1."""
    total: dict[int, float] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, one in enumerate(ranking, 1):
            total[one] = total.get(one, 0.0) + weight / (k + rank)
    return total


def geometric_weights(shares: Scores, weights: Scores) -> Scores:
    """Return what each share is multiplied by so that their sum is the weighted geometric mean; shape as `shares`.

    `shares` and `weights` are float64 of shape (signals, candidates). Shares of 0 or less take no part and their
    weight neither, as in OpenSearch. A mean m is the sum of share · ∂m/∂share, since it grows in proportion (Euler):
    here each signal's part is its weight's share of m.
    """
    counted = np.where(shares > 0, weights, 0.0)
    whole = counted.sum(axis=0)
    part = np.divide(counted, whole, out=np.zeros_like(counted), where=whole > 0)
    mean = np.exp((part * np.log(np.where(counted > 0, shares, 1.0))).sum(axis=0))
    found: Scores = np.divide(part * mean, shares, out=np.zeros_like(counted), where=counted > 0)
    return found


def harmonic_weights(shares: Scores, weights: Scores) -> Scores:
    """Return what each share is multiplied by so that their sum is the weighted harmonic mean; as `geometric_weights`.

    The part of share s with weight w is w · m² / s².
    """
    counted = np.where(shares > 0, weights, 0.0)
    whole = counted.sum(axis=0)
    inverse = np.divide(counted, shares, out=np.zeros_like(counted), where=counted > 0).sum(axis=0)
    mean = np.divide(whole, inverse, out=np.zeros(shares.shape[1]), where=inverse > 0)
    part = np.divide(counted, whole, out=np.zeros_like(counted), where=whole > 0)
    found: Scores = np.divide(part * mean**2, shares**2, out=np.zeros_like(counted), where=counted > 0)
    return found

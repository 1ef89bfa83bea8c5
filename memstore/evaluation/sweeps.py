"""What one parameter does, over its whole range: each point is all questions ranked with another value of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from memstore import checks
from memstore.errors import InvalidInputError
from memstore.evaluation.answering import DEPTH, Asked, Asker, Ranked, ranked, values
from memstore.evaluation.measures import MEASURES, Values, difference
from memstore.evaluation.report import Curve, points
from memstore.fusion import RRF_K, Gathered
from memstore.ranking import BM25
from memstore.records import Weights

SWEEPS = ("alpha", "k1", "b", "rrf-k", "depth")
DEPTHS = (10, 20, 50, 100, 200)
_TENTHS = tuple(round(step / 10, 1) for step in range(11))
_K1S = (0.0, 0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 3.0)
_RRF_KS = (1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 100.0, 200.0)
_MAIN = MEASURES.index("hit@1")
_WARNING = (
    "The best point was chosen on the very questions that it is shown for, so that it looks better than it is;"
    " memstore tune measures on questions that it did not see."
)
# The measures of every question at one value of the parameter, float64 of shape (questions, measures).
Points: TypeAlias = Mapping[float, Values]


def rounds(sweep: str | None, depths: Sequence[int]) -> int:
    """Return how often all questions are gathered for a sweep and the depths, beside the first time."""
    again = {"k1": len(_K1S), "b": len(_TENTHS)}.get(sweep or "", 0)
    return again + sum(depth != DEPTH for depth in depths)


def checked(sweep: str | None) -> str | None:
    """Return the name of a sweep, or None for none; raise `InvalidInputError` on another."""
    return None if sweep is None else checks.one_of("sweep", sweep, SWEEPS)


def swept(sweep: str, asker: Asker, gathers: Sequence[Gathered], weights: Weights) -> Curve:
    """Return the curve of a parameter other than depth.

    `alpha` is what keywords have of the weight of keywords and vectors, the rest as it is; `k1` and `b` are those of
    BM25, and each value is gathered again; `rrf-k` is that of reciprocal rank fusion. Raises `InvalidInputError` for
    `alpha` where keywords and vectors never take part together.
    """
    if sweep == "alpha":
        return _alpha(asker.asked, gathers, weights)
    if sweep == "rrf-k":
        found = {
            k: _measured(asker.asked, gathers, partial(ranked, weights=weights, how="rrf", rrf_k=k)) for k in _RRF_KS
        }
        return _curve("The k of reciprocal rank fusion (rrf)", "k", found, RRF_K)
    default = BM25()
    if sweep == "k1":
        found = {k1: _bm25(asker, replace(default, k1=k1), weights) for k1 in _K1S}
        return _curve("How soon a repeated word stops to count (BM25 k1)", "k1", found, default.k1)
    found = {b: _bm25(asker, replace(default, b=b), weights) for b in _TENTHS}
    return _curve("How much a long text is held to its length (BM25 b)", "b", found, default.b)


def depth_curve(
    asker: Asker, gathers: Sequence[Gathered], weights: Weights, depths: Sequence[int], *, warn: bool
) -> Curve:
    """Return the measures by how many candidates each signal offers; `gathers` are those of the depth in use.

    Past a depth at which no question has as many candidates, nothing can change, and the curve ends.
    """
    found: dict[float, Values] = {}
    for depth in sorted(depths):
        own = gathers if depth == DEPTH else asker.gather(depth=depth)
        found[depth] = _measured(asker.asked, own, partial(ranked, weights=weights))
        if all(len(one.ids) < depth for one in own):
            break
    chosen = DEPTH if DEPTH in found else None
    return _curve("How many candidates each signal offers (depth)", "depth", found, chosen, warn=warn)


def _alpha(asked: Sequence[Asked], gathers: Sequence[Gathered], weights: Weights) -> Curve:
    if not any("keyword" in one.signals and any(own.space for own in one.signals.values()) for one in gathers):
        raise InvalidInputError(
            "alpha weighs keywords against vectors, and no question was answered by both; open the store with its"
            " embedder, or sweep another parameter."
        )
    whole = weights.keyword + weights.semantic
    found = {}
    for share in _TENTHS:
        own = replace(weights, keyword=whole * share, semantic=whole * (1 - share))
        found[share] = _measured(asked, gathers, partial(ranked, weights=own))
    chosen = weights.keyword / whole if whole else None
    return _curve("What keywords have of the weight of keywords and vectors (alpha)", "alpha", found, chosen)


def _bm25(asker: Asker, ranking: BM25, weights: Weights) -> Values:
    return _measured(asker.asked, asker.gather(ranking=ranking), partial(ranked, weights=weights))


def _measured(asked: Sequence[Asked], gathers: Sequence[Gathered], rank: Callable[[Gathered], Ranked]) -> Values:
    return values(asked, map(rank, gathers))


def _curve(name: str, parameter: str, found: Points, chosen: float | None, *, warn: bool = True) -> Curve:
    note = f"{_best(parameter, found, chosen)} {_WARNING}" if warn else _best(parameter, found, chosen)
    return Curve(name=name, parameter=parameter, points=points(found), chosen=chosen, note=note)


def _best(parameter: str, found: Points, chosen: float | None) -> str:
    """Return a sentence on the best point, the one in use if it is as good as any."""
    hits = {at: float(own[:, _MAIN].mean()) for at, own in found.items()}
    most = max(hits.values())
    if chosen is not None and hits.get(chosen, -1.0) >= most:
        return f"Nothing is better than {parameter} {chosen:g}, the value in use (hit@1 {most:.3f})."
    best = next(at for at, hit in hits.items() if hit >= most)
    said = f"Best at {parameter} {best:g} (hit@1 {most:.3f})"
    if chosen is None or chosen not in found:
        return f"{said}."
    gain = difference(found[best][:, _MAIN], found[chosen][:, _MAIN])
    return (
        f"{said}, {gain.value:+.3f} against {chosen:g}, the value in use (95 % interval {gain.low:+.3f} to"
        f" {gain.high:+.3f})."
    )

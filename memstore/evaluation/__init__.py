"""Judged questions: how often the right memory comes first, how sure that is, and what each part of search adds."""

from memstore.evaluation.measures import MEASURES, Estimate, difference, differences, estimate, estimates, measured
from memstore.evaluation.questions import Judged, read
from memstore.evaluation.report import Curve, Evaluation, Kind, Margins, Overlap, Run, rows

__all__ = [
    "MEASURES",
    "Curve",
    "Estimate",
    "Evaluation",
    "Judged",
    "Kind",
    "Margins",
    "Overlap",
    "Run",
    "difference",
    "differences",
    "estimate",
    "estimates",
    "measured",
    "read",
    "rows",
]

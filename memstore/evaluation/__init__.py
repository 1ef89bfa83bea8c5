"""Judged questions: how often the right memory comes first, how sure that is, and what each part of search adds."""

from memstore.evaluation.answering import Searcher
from memstore.evaluation.distractors import chosen, distracted, invented
from memstore.evaluation.experiment import evaluate
from memstore.evaluation.measures import MEASURES, Estimate, difference, differences, estimate, estimates, measured
from memstore.evaluation.probes import probes, smoke
from memstore.evaluation.questions import Judged, read
from memstore.evaluation.report import (
    Curve,
    Evaluation,
    Kind,
    Margins,
    Overlap,
    Run,
    category_rows,
    curve_rows,
    rows,
)
from memstore.evaluation.sweeps import DEPTHS, SWEEPS

__all__ = [
    "DEPTHS",
    "MEASURES",
    "SWEEPS",
    "Curve",
    "Estimate",
    "Evaluation",
    "Judged",
    "Kind",
    "Margins",
    "Overlap",
    "Run",
    "Searcher",
    "category_rows",
    "chosen",
    "curve_rows",
    "difference",
    "differences",
    "distracted",
    "estimate",
    "estimates",
    "evaluate",
    "invented",
    "measured",
    "probes",
    "read",
    "rows",
    "smoke",
]

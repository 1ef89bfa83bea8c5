"""Judged questions: how often the right memory comes first, how sure that is, and what each part of search adds."""

from memstore.evaluation.answering import Searcher
from memstore.evaluation.cost_report import (
    LEAST_TOLD,
    CostKind,
    CostRun,
    Costs,
    EqualRecall,
    Plan,
    Projected,
    Projection,
    cost_rows,
    equal_rows,
    planned,
    projected,
    projection_rows,
)
from memstore.evaluation.costs import BUDGETS, costs
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
    "BUDGETS",
    "DEPTHS",
    "LEAST_TOLD",
    "MEASURES",
    "SWEEPS",
    "CostKind",
    "CostRun",
    "Costs",
    "Curve",
    "EqualRecall",
    "Estimate",
    "Evaluation",
    "Judged",
    "Kind",
    "Margins",
    "Overlap",
    "Plan",
    "Projected",
    "Projection",
    "Run",
    "Searcher",
    "category_rows",
    "chosen",
    "cost_rows",
    "costs",
    "curve_rows",
    "difference",
    "differences",
    "distracted",
    "equal_rows",
    "estimate",
    "estimates",
    "evaluate",
    "invented",
    "measured",
    "planned",
    "probes",
    "projected",
    "projection_rows",
    "read",
    "rows",
    "smoke",
]

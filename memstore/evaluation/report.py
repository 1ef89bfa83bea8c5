"""The records of a finished evaluation, and its table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, TypeAlias

from memstore.evaluation.measures import MEASURES, Estimate, Values, estimates

Kind: TypeAlias = Literal["signal", "fusion", "rerank", "variant"]
# Of a column, so that the table fits a terminal.
_LONGEST_NAME = 12
_HEADER = ["hit@1", "hit@10", "MRR@10", "nDCG@10", "vs best signal", "ms", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One way to search, asked every question.

    `categories` holds the measures over the questions of each category, `against` the paired differences to the best
    signal alone (None for the signals), `milliseconds` the median of a search.
    """

    name: str
    kind: Kind
    measures: Mapping[str, Estimate]
    categories: Mapping[str, Mapping[str, Estimate]]
    against: Mapping[str, Estimate] | None = None
    milliseconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The measures at several values of one parameter, `chosen` being the one in use; `note` says what to see."""

    name: str
    parameter: str
    points: tuple[tuple[float, Mapping[str, Estimate]], ...]
    chosen: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How many questions keywords and vectors, each alone, answer first.

    `attainable` is the share of questions that at least one of all signals answers first: no choice among them can
    gain more.
    """

    both_right: int
    only_keyword_wrong: int
    only_semantic_wrong: int
    both_wrong: int
    attainable: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Margins:
    """The score of the best relevant hit less that of the best wrong one, for each question that has both.

    They are those of the default search, over its candidates; above 0 the relevant one is first.
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float | None:
        """The median margin, None without any."""
        return median(self.values) if self.values else None

    @property
    def above_zero(self) -> float | None:
        """The share of margins above 0, None without any."""
        return sum(value > 0 for value in self.values) / len(self.values) if self.values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a store's answers to judged questions are worth.

    `questions` counts them, `categories` those of each category; `default` names the run that is the store's own
    search. `overlap` is None where keywords or vectors took no part. `verdict` says in sentences what follows,
    `notes` what to know before believing it. `missed` holds the ids of the questions without a right memory among the
    first ten, by run: the default, keywords and vectors.
    """

    store: str
    questions: int
    categories: Mapping[str, int]
    default: str
    runs: tuple[Run, ...]
    overlap: Overlap | None
    margins: Margins
    curves: tuple[Curve, ...]
    verdict: tuple[str, ...]
    notes: tuple[str, ...]
    missed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def rows(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows that show the runs, fit for 80 columns; the name is last, where a table gives way."""
    return list(_HEADER), [
        [
            _with_interval(run.measures.get("hit@1")),
            *(_value(run.measures.get(name)) for name in _HEADER[1:4]),
            _difference((run.against or {}).get("hit@1")),
            "" if run.milliseconds is None else milliseconds(run.milliseconds),
            run.name,
        ]
        for run in evaluation.runs
    ]


def short(value: float, digits: int = 3, sign: str = "") -> str:
    """Return a share in few characters, without the 0 before the point; `sign` is `+` where gains are shown as such."""
    return f"{value:{sign}z.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:{sign}.{digits}f}"


def milliseconds(value: float) -> str:
    """Return a time as people compare times: a tenth more says nothing of a long one."""
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _value(estimate: Estimate | None) -> str:
    return "" if estimate is None else short(estimate.value)


def _with_interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    # One question has no interval.
    between = "" if estimate.low == estimate.high else f" [{short(estimate.low, 2)},{short(estimate.high, 2)}]"
    return short(estimate.value) + between


def _difference(estimate: Estimate | None) -> str:
    # With a third digit, so that it is seen on which side of 0 an end is.
    return "" if estimate is None else f"{short(estimate.value, 3, '+')} [{short(estimate.low)},{short(estimate.high)}]"


def points(found: Mapping[float, Values]) -> tuple[tuple[float, Mapping[str, Estimate]], ...]:
    """Return the points of a curve from the measures of each question, float64 of shape (questions, measures)."""
    return tuple((at, dict(zip(MEASURES, estimates(own), strict=True))) for at, own in found.items())


def category_rows(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows that show hit@1 by category, of each signal alone and of the store's own search."""
    signals = [run for run in evaluation.runs if run.kind == "signal"]
    own = [run for run in evaluation.runs if run.name == evaluation.default]
    return ["questions", *(_cut(run.name) for run in (*signals, *own)), "category"], [
        [
            f"{count:,}",
            *(_value(run.categories.get(category, {}).get("hit@1")) for run in signals),
            *(_with_interval(run.categories.get(category, {}).get("hit@1")) for run in own),
            category,
        ]
        for category, count in evaluation.categories.items()
    ]


def curve_rows(curve: Curve) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows that show a curve; the value in use is marked."""
    return [*_HEADER[:4], curve.parameter], [
        [
            _with_interval(found.get("hit@1")),
            *(_value(found.get(name)) for name in _HEADER[1:4]),
            f"{at:g}{' (in use)' if at == curve.chosen else ''}",
        ]
        for at, found in curve.points
    ]

"""The records of what prompts cost, their rows, and what they come to in a month; pure arithmetic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from memstore import checks
from memstore.errors import InvalidInputError
from memstore.evaluation.measures import Estimate
from memstore.evaluation.report import short

CostKind: TypeAlias = Literal["everything", "signal", "fusion", "context"]
EVERYTHING = "everything"
# What a column of a terminal table can be dropped for, in this order; the name of the way is last, where one gives way.
LEAST_TOLD = ("most", "M/year", "all of it", "cost/year", "of all", "M/month")
_HEADER = ["tokens", "most", "of all", "recall", "all of it", "prompt"]
_MONTHS = 12
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRun:
    """One way to fill a prompt, for every question.

    `way` is what runs with another `setting` (a number of memories k, or a budget of tokens; None for everything) have
    in common. `tokens` is the mean of a question, `most` the most that one took, `of_everything` the mean as a share of
    what everything takes. `recall` is the mean share of a question's evidence (its right memories) that is in the
    prompt, `complete` the share of questions with all of it there, `answered` of those with any, each in [0, 1], higher
    is better. `against` is the paired difference in recall to the run `reference` of `Costs`.
    """

    name: str
    way: str
    kind: CostKind
    setting: int | None
    tokens: float
    most: int
    of_everything: float
    recall: Estimate
    complete: Estimate
    answered: Estimate
    against: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualRecall:
    """What each way takes to reach one recall, in tokens a question; ways that do not reach it are left out.

    Between two settings it is what asking some questions with one and the rest with the other takes: recall and tokens
    are then both on the line between them.
    """

    recall: float
    tokens: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """What one way comes to: tokens and, with a price, money of a month and a year; `saved` of what everything takes.

    `saved` is in (-inf, 1], and below 0 where the way takes more.
    """

    name: str
    month_tokens: float
    year_tokens: float
    saved: float
    month_money: float | None = None
    year_money: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is asked, and what it costs: sessions a month, questions a session, the price of a million tokens."""

    sessions_per_month: float
    questions_per_session: float = 1.0
    price: float | None = None
    currency: str = "$"

    def money(self, amount: float) -> str:
        """Return an amount in the plan's currency; what is less than a hundredth keeps two digits."""
        gap = " " if self.currency[-1:].isalpha() else ""
        digits = f"{amount:,.2f}" if amount >= 0.01 or amount == 0 else f"{amount:.2g}"
        return f"{self.currency}{gap}{digits}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """A plan, and what each way comes to under it."""

    plan: Plan
    ways: tuple[Projected, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What putting memories into a prompt takes, and how much of the evidence is there, by every way to fill it.

    `tokeniser` names what counted, `window` is the limit that everything is cut at, None without one. `reference` names
    the run of fused search with the best recall. `verdict` says in sentences what follows, `notes` what to know before
    believing it.
    """

    store: str
    questions: int
    tokeniser: str
    window: int | None
    reference: str
    runs: tuple[CostRun, ...]
    equal: tuple[EqualRecall, ...]
    projection: Projection | None
    verdict: tuple[str, ...]
    notes: tuple[str, ...]


def planned(sessions_per_month: Any, questions_per_session: Any, price: Any, currency: Any) -> Plan | None:
    """Return the plan that a caller gives, None without sessions.

    Raises `InvalidInputError` on what is no number above 0, and on a price, or questions a session, without sessions.
    """
    if sessions_per_month is None:
        for field, value in (("price", price), ("questions_per_session", questions_per_session)):
            if value is not None:
                raise InvalidInputError(f"{field} is given without sessions_per_month; say how many there are.")
        return None
    return Plan(
        sessions_per_month=checks.amount("sessions_per_month", sessions_per_month),
        questions_per_session=1.0
        if questions_per_session is None
        else checks.amount("questions_per_session", questions_per_session),
        price=None if price is None else checks.amount("price", price),
        currency=checks.required_name("currency", currency),
    )


def projected(tokens: Mapping[str, float], plan: Plan) -> Projection:
    """Return what each way comes to, from the tokens that it takes a question, by name; `everything` is among them.

    A month is tokens x questions a session x sessions a month, a year twelve of them, money tokens / 1,000,000 x price.
    """
    base = tokens[EVERYTHING]
    ways = []
    for name, own in tokens.items():
        month = own * plan.questions_per_session * plan.sessions_per_month
        money = None if plan.price is None else month / _MILLION * plan.price
        ways.append(
            Projected(
                name=name,
                month_tokens=month,
                year_tokens=month * _MONTHS,
                saved=1 - own / base,
                month_money=money,
                year_money=None if money is None else money * _MONTHS,
            )
        )
    return Projection(plan=plan, ways=tuple(ways))


def equal_recall(runs: Sequence[CostRun], levels: Sequence[float]) -> tuple[EqualRecall, ...]:
    """Return what the ways take at each level of recall that two or more of them reach."""
    found = []
    for level in levels:
        there = {way: taken for way in ways(runs) if (taken := _taken(curve(runs, way), level)) is not None}
        if len(there) > 1:
            found.append(EqualRecall(recall=level, tokens=there))
    return tuple(found)


def ways(runs: Sequence[CostRun]) -> tuple[str, ...]:
    """Return the names of the ways, in order."""
    return tuple(dict.fromkeys(run.way for run in runs))


def curve(runs: Sequence[CostRun], way: str) -> list[CostRun]:
    """Return the runs of one way, the cheapest first."""
    return sorted((run for run in runs if run.way == way), key=lambda run: (run.tokens, run.recall.value))


def _taken(points: Sequence[CostRun], level: float) -> float | None:
    """Return the tokens at which a curve reaches a recall, None where it does not."""
    before: CostRun | None = None
    for point in points:
        if point.recall.value >= level:
            if before is None:
                return point.tokens
            part = (level - before.recall.value) / (point.recall.value - before.recall.value)
            return before.tokens + part * (point.tokens - before.tokens)
        before = point
    return None


def cost_rows(costs: Costs) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows that show the runs; the name is last, where a table gives way."""
    return list(_HEADER), [
        [
            f"{run.tokens:,.0f}",
            f"{run.most:,}",
            f"{run.of_everything:.1%}",
            _with_interval(run.recall),
            _with_interval(run.complete),
            run.name,
        ]
        for run in costs.runs
    ]


def equal_rows(costs: Costs) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows that show the tokens of each way at equal recall; empty where one is not reached."""
    levels = costs.equal
    return [*(short(one.recall, 2) for one in levels), "prompt"], [
        [*(f"{one.tokens[way]:,.0f}" if way in one.tokens else "" for one in levels), way]
        for way in ways(costs.runs)
        if any(way in one.tokens for one in levels)
    ]


def projection_rows(projection: Projection) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows that show a projection: tokens in millions, money where there is a price."""
    plan = projection.plan
    money = [] if plan.price is None else ["cost/month", "cost/year"]
    return ["M/month", "M/year", *money, "saved", "prompt"], [
        [
            f"{one.month_tokens / _MILLION:,.2f}",
            f"{one.year_tokens / _MILLION:,.2f}",
            *(plan.money(money) for money in (one.month_money, one.year_money) if money is not None),
            f"{one.saved:.1%}",
            one.name,
        ]
        for one in projection.ways
    ]


def _with_interval(found: Estimate) -> str:
    between = "" if found.low == found.high else f" [{short(found.low, 2)},{short(found.high, 2)}]"
    return short(found.value) + between

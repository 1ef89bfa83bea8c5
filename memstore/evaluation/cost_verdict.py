"""What the costs of prompts allow to say, in plain sentences."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist

from memstore.evaluation.cost_report import CostRun, EqualRecall, Projection, ways
from memstore.evaluation.measures import Estimate, Values
from memstore.evaluation.verdict import MATTERS, Compared, compared, few, interval

_Z = NormalDist().inv_cdf(0.975)
# With so many questions a loss that none of them shows is less than one that matters: Wilson's upper end for 0 of n,
# z² / (n + z²), is below it.
ENOUGH = int(_Z**2 * (1 / MATTERS - 1)) + 1


def sentences(
    runs: Sequence[CostRun],
    recalls: Mapping[str, Values],
    reference: CostRun,
    window: int | None,
    equal: Sequence[EqualRecall],
    projection: Projection | None,
) -> tuple[str, ...]:
    """Return the verdict: on everything, on context, on the cheapest way that is no worse, on equal recall, on a month.

    `recalls` has the recall of each question by run, float64 of shape (questions,), in [0, 1].
    """
    questions = len(recalls[reference.name])
    found = cheapest(runs, recalls, reference)
    said = [
        few(questions),
        _everything(runs[0], window),
        _context(runs, recalls),
        _cheapest(found, reference, questions),
        _equal(equal, runs, reference),
        _projected(projection, reference, found),
        interval(questions),
    ]
    return tuple(one for one in said if one)


def cheapest(
    runs: Sequence[CostRun], recalls: Mapping[str, Values], reference: CostRun
) -> tuple[CostRun, Compared | None] | None:
    """Return the cheapest run that takes fewer tokens than the reference and is shown to have no less recall.

    That is shown where there are 73 questions or more, and the paired 95 % interval, widened since several are tried
    (Bonferroni), leaves out a loss of 5 in 100 (a test of non-inferiority). Everything, uncut, can't have less.
    """
    cheaper = sorted((run for run in runs if run.tokens < reference.tokens), key=lambda run: (run.tokens, run.name))
    for run in cheaper:
        if run.recall.low == 1:
            return run, None
        found = compared(recalls[run.name], recalls[reference.name], tries=len(cheaper))
        if len(recalls[run.name]) >= ENOUGH and found.difference.low > -MATTERS:
            return run, found
    return None


def notes(tokeniser: str, silent: int, lacking: int, questions: int, projection: Projection | None) -> Iterator[str]:
    """Yield what to know of the numbers."""
    yield (
        f"Tokens are those of {tokeniser}, in the mean of a question: of the memories in the prompt, not of the"
        " question, the instructions or the answer. Recall is the mean share of a question's right memories that are in"
        " the prompt; whether a model then answers right was not asked."
    )
    yield (
        "In keywords, vectors and fused search the prompt has the first k memories, whole; a memory of which context"
        " takes a span counts as there."
    )
    if lacking:
        yield (
            f"Of {lacking:,} of {questions:,} questions a right memory is not among all that a prompt may hold, such as"
            " one that another replaces or that has expired: no way to fill it reaches their whole evidence."
        )
    if silent:
        yield f"Vectors took no part in {silent:,} of {questions:,} questions; memstore search says why."
    if projection is not None:
        yield (
            "The projection takes each question as a call of its own, which pays for its whole prompt; a provider that"
            " keeps a prompt and charges less for what repeats narrows the gap, most of all to everything."
        )


def _everything(run: CostRun, window: int | None) -> str:
    takes = f"takes {run.tokens:,.0f} tokens a question"
    if window is None and run.recall.low == 1:
        return f"Putting everything into the prompt {takes}, and holds all the evidence."
    cut = "" if window is None else f", the newest that a window of {window:,} tokens has room for,"
    return f"Putting everything into the prompt{cut} {takes}, and holds all the evidence of {_questions(run.complete)}."


def _context(runs: Sequence[CostRun], recalls: Mapping[str, Values]) -> str:
    own = [run for run in runs if run.kind == "context"]
    if not own:
        return ""
    most = max(own, key=lambda run: (run.recall.value, -run.tokens))
    found = cheapest(own, recalls, most)
    run = most if found is None else found[0]
    enough = (
        ""
        if found is None
        else f" More tokens are shown to add less than {MATTERS:.0%} of the evidence, up to {most.setting:,}."
    )
    return (
        f"A context of {run.setting:,} tokens holds all the evidence of {_questions(run.complete)} at"
        f" {run.of_everything:.1%} of the tokens that putting everything into the prompt takes.{enough}"
    )


def _cheapest(found: tuple[CostRun, Compared | None] | None, reference: CostRun, questions: int) -> str:
    best = (
        f"fused search at its best ({reference.name}: {reference.recall.value:.1%} of the evidence at"
        f" {reference.tokens:,.0f} tokens)"
    )
    if found is not None:
        run, difference = found
        gap = "" if difference is None else f" ({_gap(difference.difference)})"
        return (
            f"The cheapest way that is no worse than {best} is {run.name}: {run.recall.value:.1%} of the evidence{gap}"
            f" at {run.tokens:,.0f} tokens."
        )
    if questions < ENOUGH:
        return (
            f"Can't tell whether a cheaper way is as good as {best}: that takes about {ENOUGH} questions or more, and"
            f" these are {questions:,}."
        )
    return f"No cheaper way is shown to be as good as {best}."


def _equal(equal: Sequence[EqualRecall], runs: Sequence[CostRun], reference: CostRun) -> str:
    reached = [one for one in equal if reference.way in one.tokens]
    if not reached:
        return ""
    level = reached[-1]
    told = ", ".join(
        f"{way} {tokens:,.0f}" for way, tokens in sorted(level.tokens.items(), key=lambda pair: (pair[1], pair[0]))
    )
    short = ", ".join(way for way in ways(runs) if way not in level.tokens)
    return (
        f"For {level.recall:.0%} of the evidence the ways take, in tokens a question: {told}"
        f"{f'; not reached by {short}' if short else ''}."
    )


def _projected(projection: Projection | None, reference: CostRun, found: tuple[CostRun, Compared | None] | None) -> str:
    if projection is None:
        return ""
    plan = projection.plan
    name = reference.name if found is None else found[0].name
    everything, own = projection.ways[0], next(one for one in projection.ways if one.name == name)
    money = ["" if one.month_money is None else f" ({plan.money(one.month_money)})" for one in (everything, own)]
    saved = f"{own.saved:.1%} saved" if own.saved >= 0 else f"{-own.saved:.1%} more"
    return (
        f"At {plan.sessions_per_month:,.10g} sessions a month everything takes {_tokens(everything.month_tokens)}"
        f" tokens a month{money[0]}, {own.name} {_tokens(own.month_tokens)}{money[1]}: {saved}."
    )


def _tokens(number: float) -> str:
    return f"{number / 1_000_000:,.2f} million" if number >= 1_000_000 else f"{number:,.0f}"


def _questions(found: Estimate) -> str:
    between = "" if found.low == found.high else f" (95 % interval {found.low:.1%} to {found.high:.1%})"
    return f"{found.value:.1%} of the questions{between}"


def _gap(found: Estimate) -> str:
    if found.low == found.high:
        return f"{found.value:+.1%}"
    return f"{found.value:+.1%}, 95 % interval {found.low:+.1%} to {found.high:+.1%}"

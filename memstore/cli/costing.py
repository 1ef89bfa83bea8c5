"""`memstore eval --tokens`: what a prompt costs by each way to fill it, and what the saving comes to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memstore import render
from memstore.cli.reporting import check_page, fitting, say
from memstore.cli.support import Place, notice, opened, print_json, progress_bar, with_options
from memstore.records import Context
from memstore.store import MemoryStore

if TYPE_CHECKING:
    from memstore.evaluation import Costs, Judged

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOptions:
    """The options of `--tokens`, as given; None and empty are what was left out."""

    budgets: tuple[int, ...]
    tokeniser: str | None
    window: int | None
    sessions_per_month: float | None
    questions_per_session: float | None
    price: float | None
    currency: str | None

    @property
    def given(self) -> list[str]:
        """The names of those that were given, as typed."""
        names = {one.name: f"--{one.name.replace('_', '-')}" for one in fields(self)} | {"budgets": "--budget"}
        return [names[one.name] for one in fields(self) if getattr(self, one.name) not in (None, ())]


def cost_options(command: Command) -> Command:
    """Add the options that go with `--tokens`."""
    return with_options(
        click.option("--budget", "budgets", type=int, multiple=True, help="A budget of context; may be repeated."),
        click.option("--tokeniser", help="What counts the tokens (default: as for memstore context)."),
        click.option("--window", type=int, help="The most tokens that everything may take: the oldest is cut."),
        click.option("--sessions-per-month", type=float, help="Say what each way comes to in a month and a year."),
        click.option("--questions-per-session", type=float, help="With it (default: 1)."),
        click.option("--price", type=float, help="With it, the price of a million input tokens."),
        click.option("--currency", help="Of the price (default: $)."),
    )(command)


def measure(place: Place, asked: "Sequence[Judged]", options: CostOptions, html: Path | None) -> None:
    """Ask the questions by every way to fill a prompt, and print what each takes and holds."""
    from memstore.context import tokeniser
    from memstore.evaluation import BUDGETS, costs

    if options.sessions_per_month is None and (options.price or options.questions_per_session or options.currency):
        named = next(one for one in options.given if one in ("--questions-per-session", "--price", "--currency"))
        raise click.UsageError(f"{named} goes with --sessions-per-month.")
    with opened(place, must_exist=True) as store, progress_bar(place.quiet, "asking") as progress:
        if html is not None:
            check_page(html)
        counting = tokeniser(options.tokeniser, store.spaces.counting)

        def context(query: str, max_tokens: int, namespace: str | None) -> Context:
            # By its count, since a tokeniser by name would be read again for each question.
            return store.context(query, max_tokens=max_tokens, tokeniser=counting.count, namespace=namespace)

        found = costs(
            store.searcher,
            asked,
            memories=lambda namespace: _memories(store, namespace),
            count=counting.count,
            tokeniser=counting.name,
            context=context,
            store=Path(store.stats().path).name,
            budgets=options.budgets or BUDGETS,
            window=options.window,
            sessions_per_month=options.sessions_per_month,
            questions_per_session=options.questions_per_session,
            price=options.price,
            currency=options.currency or "$",
            progress=progress,
        )
    _show(found, place, html)


def _memories(store: MemoryStore, namespace: str | None) -> Mapping[int, str]:
    """Return all memories as they stand in a prompt: where each is from, on a line with its text; the oldest first."""
    number = max(1, store.count(namespace=namespace))
    from memstore.context import entry

    return {
        one.id: entry(one.id, render.day(one), one.author, one.text).line
        for one in store.list(limit=number, order="oldest", namespace=namespace)
    }


def _show(found: "Costs", place: Place, html: Path | None) -> None:
    from memstore.evaluation import LEAST_TOLD, cost_rows, equal_rows, projection_rows

    if html is not None:
        from memstore.evaluation.page import cost_page

        html.write_text(cost_page(found), encoding="utf-8", newline="\n")
    if place.as_json:
        print_json(render.record(found))
    else:
        render.table(*fitting(*cost_rows(found), LEAST_TOLD))
        if found.equal:
            header, rows = equal_rows(found)
            click.echo("")
            say(f"tokens a question for a recall of {', '.join(header[:-1])}")
            render.table(*fitting(header, rows, header[:-1]))
        if found.projection is not None:
            click.echo("\nmillions of tokens" + ("" if found.projection.plan.price is None else ", and their price"))
            header, rows = projection_rows(found.projection)
            render.table(*fitting(header, rows, LEAST_TOLD))
        click.echo("")
        for sentence in found.verdict:
            say(sentence)
    for note in found.notes:
        notice(note, place.quiet)
    if html is not None:
        notice(f"the page is {html}", place.quiet)

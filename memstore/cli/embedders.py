"""`memstore embedders`: the embedding spaces of a file, added, filled, chosen, compared and removed."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from memstore import render
from memstore.cli.support import Place, file_options, notice, opened, print_json, progress_bar, read_questions
from memstore.errors import InvalidInputError
from memstore.records import Comparison, Filled
from memstore.store import MemoryStore

_DRY_RUN = "Only say what would be done, and about how long it would take."


@click.group()
def embedders() -> None:
    """The embedding models of a file: each has a space of its own, and a search asks all that are filled."""


@embedders.command("list")
@file_options
def list_(place: Place) -> None:
    """List the embedding spaces, with the vectors of each and the passages that wait for one or were refused one."""
    with opened(place, must_exist=True) as store:
        found = store.spaces.list()
        model = store.spaces.describe()
    if place.as_json:
        print_json([render.record(one) for one in found])
        return
    told = [
        [
            *(f"{one.dimensions} dimensions", one.state, "by default" if one.default else "by name alone"),
            *(f"languages: {' '.join(one.languages) or 'all'}", f"{one.vectors:,} vectors"),
            *(f"{one.pending:,} pending", f"{one.refused:,} refused"),
        ]
        for one in found
    ]
    if sys.stdout.isatty():
        # No name is cut, since the other commands ask for it.
        for one, about in zip(found, told, strict=True):
            click.echo(f"{render.one_line(one.name)}\n    {'  '.join(about)}")
    else:
        render.table(None, [[one.name, *about] for one, about in zip(found, told, strict=True)])
    for one in found:
        if one.problem is not None:
            notice(f"{one.name}: {one.problem}.", place.quiet)
    if not found:
        notice(f"there is none yet; new memories: {model}.", place.quiet)


@embedders.command("add")
@click.argument("model", metavar="EMBEDDER")
@click.option("--name", help="How searches and weights name it (default: the model's own name).")
@click.option(
    "--language", "languages", multiple=True, help="Ask it queries in this language alone (pt, en, es); again for more."
)
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@click.option("--no-fill", is_flag=True, help="Leave the memories that are there to memstore embedders fill.")
@file_options
def add(place: Place, model: str, name: str | None, languages: tuple[str, ...], dry_run: bool, no_fill: bool) -> None:
    """Add a space for EMBEDDER beside those that are there, and fill it; searches go on meanwhile.

    EMBEDDER is what --embedder takes: memstore models list shows what is here.
    """
    with opened(place, must_exist=True) as store:
        if dry_run:
            _print_filled(store.spaces.estimate(embedder=model), place, dry_run=True)
            return
        made = store.spaces.add(model, name=name, languages=languages or None)
        if no_fill:
            filled: tuple[Filled, ...] = ()
        else:
            with progress_bar(place.quiet) as progress:
                filled = store.spaces.fill(made.name, progress=progress)
        found = next(one for one in store.spaces.list() if one.name == made.name)
    if place.as_json:
        print_json(render.record(found))
        return
    click.echo(f"added {found.name}: {found.dimensions} dimensions, {found.state}")
    _say_filled(filled, place)
    if no_fill and found.pending:
        notice(f"{found.pending:,} passages wait; memstore embedders fill makes their vectors.", place.quiet)


@embedders.command("fill")
@click.argument("names", nargs=-1)
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@click.option("--seconds", type=float, help="Stop after about this long; the next run goes on from there.")
@click.option("--refused", is_flag=True, help="Try those again that the model gave no usable vector for.")
@file_options
def fill(place: Place, names: tuple[str, ...], dry_run: bool, seconds: float | None, refused: bool) -> None:
    """Embed the passages that wait for a vector, in every space or in those of NAMES.

    An interrupted run goes on where it stopped; a second one does nothing. The exit code is 1 where a model's failure
    has left some waiting.
    """
    with opened(place, must_exist=True) as store, progress_bar(place.quiet) as progress:
        if dry_run:
            filled = store.spaces.estimate(names or None)
        else:
            filled = store.spaces.fill(names or None, seconds=seconds, refused=refused, progress=progress)
    _print_filled(filled, place, dry_run=dry_run)
    if any(one.problem is not None and one.pending for one in filled) and seconds is None:
        click.get_current_context().exit(1)


@embedders.command("default")
@click.argument("names", nargs=-1)
@file_options
def default(place: Place, names: tuple[str, ...]) -> None:
    """Have searches that name no space ask only those of NAMES; without NAMES, all of them."""
    with opened(place, must_exist=True) as store:
        chosen = store.spaces.default(*names)
    if place.as_json:
        print_json({"default": list(chosen)})
    else:
        click.echo("searches ask " + ", ".join(render.one_line(one) for one in chosen))


@embedders.command("remove")
@click.argument("name")
@click.option("--last", is_flag=True, help="Also when no other space could be searched afterwards.")
@click.option("-y", "--yes", is_flag=True, help="Remove without asking.")
@file_options
def remove(place: Place, name: str, last: bool, yes: bool) -> None:
    """Take the space NAME and its vectors out of the file; the memories stay."""
    with opened(place, must_exist=True) as store:
        there = next((one for one in store.spaces.list() if one.name == name), None)
        if there is not None and not yes:
            click.echo(
                f"{render.one_line(name)} has {there.vectors:,} vectors of {there.dimensions} dimensions", err=True
            )
            if not sys.stdin.isatty():
                raise InvalidInputError("nothing was removed: add --yes to remove it.")
            if not click.confirm("Remove it with all of them?", err=True):
                click.echo("nothing was removed", err=True)
                return
        vectors = store.spaces.remove(name, last=last)
    if place.as_json:
        print_json({"removed": name, "vectors": vectors})
    else:
        click.echo(f"removed {render.one_line(name)} and its {vectors:,} vectors")


@embedders.command("compare")
@click.argument("queries", nargs=-1)
@click.option(
    "--questions",
    type=click.Path(path_type=Path),
    help="A file of questions: one a line, or JSON Lines with text and relevant (ids or keys of the right memories).",
)
@click.option("--space", "names", multiple=True, help="Only this space; again for more.")
@click.option("-k", "--limit", "k", type=int, default=10, show_default=True, help="How many nearest memories of each.")
@file_options
def compare(place: Place, queries: tuple[str, ...], questions: Path | None, names: tuple[str, ...], k: int) -> None:
    """Ask each space alone the QUERIES, or those of a file: what each finds, at what cost, how far they agree."""
    if bool(queries) == (questions is not None):
        raise click.UsageError("give QUERIES or a file of --questions.")
    with opened(place, must_exist=True) as store:
        texts, relevant = (list(queries), None) if questions is None else _questions(store, questions, place.quiet)
        found = store.spaces.compare(texts, k=k, relevant=relevant, names=names or None)
        if place.as_json:
            print_json(render.record(found))
            return
        _print_comparison(found)
        for number, query in enumerate(queries):
            for answers in found.spaces:
                click.echo(f"\n? {render.one_line(query)}   ({render.one_line(answers.space)})")
                for rank, one in enumerate(answers.found[number], 1):
                    memory = store.get(one)
                    if memory is not None:
                        click.echo(f"{rank}. [{one}] {render.snippet(memory.text)}")


def _questions(store: MemoryStore, path: Path, quiet: bool) -> tuple[list[str], list[set[int]] | None]:
    """Return the texts of a file of questions, and the right memories of each where the file names any."""
    asked = read_questions(str(path), judged=False)
    ids: dict[str | None, dict[str, int]] = {}
    for namespace in dict.fromkeys(one.namespace for one in asked):
        names = {name for one in asked if one.namespace == namespace for name in one.relevant}
        ids[namespace] = store.searcher.resolve(sorted(names), namespace)
    absent = [name for one in asked for name in one.relevant if name not in ids[one.namespace]]
    if absent:
        notice(
            f"{path} names right memories that are not in this file, {len(absent):,} in all;"
            f" the first is {absent[0]!r}.",
            quiet,
        )
    relevant = [{ids[one.namespace][name] for name in one.relevant if name in ids[one.namespace]} for one in asked]
    return [one.text for one in asked], relevant if any(relevant) else None


def _print_comparison(found: Comparison) -> None:
    judged = any(one.hit_at_1 is not None for one in found.spaces)
    rows = []
    for one in found.spaces:
        rates = [f"{one.hit_at_1 or 0:.3f}", f"{one.hit_at_k or 0:.3f}"] if judged else []
        rows.append([*rates, f"{one.milliseconds:.1f}", f"{one.megabytes:.1f}", str(one.dimensions), one.space])
    header = [*(["hit@1", f"hit@{found.k}"] if judged else []), "ms a query", "MB", "dimensions", "space"]
    render.table(header, rows)
    for one_name, other, share in found.agreement:
        click.echo(
            f"{share:.0%} of the {found.k} nearest are the same in {render.one_line(one_name)} and"
            f" {render.one_line(other)}"
        )


def _print_filled(filled: Sequence[Filled], place: Place, *, dry_run: bool) -> None:
    if place.as_json:
        print_json([render.record(one) for one in filled])
    elif dry_run:
        for one in filled:
            click.echo(
                f"{render.one_line(one.space)}: {_passages(one.pending)} to embed,"
                f" about {render.duration(one.seconds)}; nothing was written"
            )
            if one.problem is not None:
                notice(f"{one.space}: {one.problem}.", place.quiet)
    else:
        _say_filled(filled, place)


def _say_filled(filled: Sequence[Filled], place: Place) -> None:
    for one in filled:
        copied = f", {one.copied:,} copied" if one.copied else ""
        refused = f", {one.refused:,} without a usable vector" if one.refused else ""
        waiting = f", {one.pending:,} still wait" if one.pending else ""
        click.echo(
            f"{render.one_line(one.space)}: {_passages(one.embedded)} embedded{copied}{refused}{waiting}"
            f" ({render.duration(one.seconds)})"
        )
        if one.problem is not None:
            notice(f"{one.space}: {one.problem}.", place.quiet)


def _passages(number: int) -> str:
    return f"{number:,} {'passage' if number == 1 else 'passages'}"

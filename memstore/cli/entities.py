"""`memstore entities`: who and what is mentioned, and the names that the user knows."""

from pathlib import Path

import click
from click.core import ParameterSource

from memstore import render
from memstore.cli.support import Place, file_options, opened, print_json, read_stdin, superseded_option
from memstore.entities import key
from memstore.exchange import read_terms, read_text
from memstore.records import Term


@click.group(invoke_without_command=True)
@click.option("-k", "--limit", type=int, default=20, show_default=True, help="How many at most.")
@file_options
@click.pass_context
def entities(context: click.Context, place: Place, limit: int) -> None:
    """Show who and what is mentioned most, with in how many memories; or see the commands below."""
    if context.invoked_subcommand is not None:
        given = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if given:
            raise click.UsageError(f"give options after the command: memstore entities {context.invoked_subcommand} …")
        return
    with opened(place, must_exist=True) as store:
        found = store.entities(limit=limit)
    if place.as_json:
        print_json([render.record(one) for one in found])
    else:
        render.table(["mentions", "kind", "name"], [[str(one.mentions), one.kind, one.name] for one in found])


@entities.command("show")
@click.argument("name")
@click.option("-k", "--limit", type=int, default=20, show_default=True, help="How many at most.")
@superseded_option
@file_options
def show(place: Place, name: str, limit: int, superseded: bool) -> None:
    """List the memories that mention NAME, by any spelling of it, the newest first."""
    with opened(place, must_exist=True) as store:
        found = store.mentions(name, limit=limit, superseded=superseded)
    if place.as_json:
        print_json([render.record(one) for one in found])
    else:
        render.table(*render.listing(found))


@entities.command("list")
@file_options
def list_(place: Place) -> None:
    """List the names that you have taught the store, with their other spellings."""
    with opened(place, must_exist=True) as store:
        found = store.terms.list()
    _print(found, place)


@entities.command("add")
@click.argument("name", required=False)
@click.option("--kind", help="What it is: company, person, place, … (default: as it is, term when it is new)")
@click.option("-a", "--alias", "aliases", multiple=True, help="Another spelling of it; again for more.")
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="A text file with one name a line (- is standard input).",
)
@file_options
def add(place: Place, name: str | None, kind: str | None, aliases: tuple[str, ...], path: Path | None) -> None:
    """Teach the store NAME, in the memories that it has too.

    Each line of a --file is `Name`, `Name (kind)` or `Name (kind): alias, alias`; empty lines and those that begin with
    # are passed over. All of the file is taken, or none of it.
    """
    if (name is None) == (path is None):
        raise click.UsageError("give a NAME or a --file.")
    if path is not None:
        terms = read_terms(read_stdin() if str(path) == "-" else read_text(path), kind=kind or "term")
    with opened(place) as store:
        if name is not None:
            there = {key(term.name): term.kind for term in store.terms.list()}
            terms = [Term(name=name, kind=kind or there.get(key(name), "term"), aliases=aliases)]
        found = store.terms.add_many(terms)
    _print(found, place)


@entities.command("remove")
@click.argument("name")
@file_options
def remove(place: Place, name: str) -> None:
    """Know NAME and its other spellings no more; the memories stay as they are."""
    with opened(place, must_exist=True) as store:
        store.terms.remove(name)
    if place.as_json:
        print_json({"removed": name})
    else:
        click.echo(f"{render.one_line(name)} is known no more")


@entities.command("merge")
@click.argument("name")
@click.argument("into")
@file_options
def merge(place: Place, name: str, into: str) -> None:
    """Take NAME, and every other spelling of it, for spellings of INTO."""
    with opened(place, must_exist=True) as store:
        found = store.terms.merge(name, into)
    _print([found], place)


def _print(found: list[Term], place: Place) -> None:
    if place.as_json:
        print_json([render.record(one) for one in found])
    else:
        render.table(
            ["kind", "name", "other spellings"], [[one.kind, one.name, ", ".join(one.aliases)] for one in found]
        )

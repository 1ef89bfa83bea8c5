"""`memstore tune` and `memstore profiles`: weights from judged questions, and those that a search may name."""

import dataclasses
import shlex

import click
from click.core import ParameterSource

from memstore import render
from memstore.cli.support import Place, file_options, notice, opened, print_json, progress_bar, read_questions
from memstore.fusion import PROFILES
from memstore.profiles import own_name
from memstore.tuning import described, rows
from memstore.tuning import tune as tuned


@click.command()
@click.argument("path", metavar="QUESTIONS")
@click.option("--profile", default="tuned", show_default=True, help="The name that the weights get in the file.")
@click.option("--dry-run", is_flag=True, help="Save nothing, only say what would be saved.")
@click.option("-n", "--namespace", help="Where to ask questions that name no namespace (default: everywhere).")
@file_options
def tune(place: Place, path: str, profile: str, dry_run: bool, namespace: str | None) -> None:
    """Look for better weights by the judged QUESTIONS of a JSON Lines file (- is standard input), and save them.

    A question is {"text": …, "relevant": [keys or ids of the right memories]}, and may have a category and a
    namespace. Weights are chosen on one half of the questions and scored on the other, over and over; they are saved as
    a profile only when the gain is real, else the default stays.
    """
    name = own_name(profile)
    questions = read_questions(path)
    if namespace is not None:
        questions = tuple(dataclasses.replace(one, namespace=one.namespace or namespace) for one in questions)
    with opened(place, must_exist=True) as store:
        if not dry_run:
            store.profiles.savable(name)
        with progress_bar(place.quiet, "asking and weighing") as progress:
            found = tuned(store.searcher, questions, progress=progress)
        saved = found.real and not dry_run
        if saved:
            store.profiles.save(name, found.chosen)
    if place.as_json:
        print_json({**render.record(found), "saved": name if saved else None})
        return
    render.table(None, rows(found))
    click.echo("")
    for sentence in found.verdict:
        click.echo(render.one_line(sentence))
    if saved:
        click.echo(
            f"They are saved as the profile {render.one_line(name)}: memstore search … --profile {shlex.quote(name)}"
        )
    elif found.real:
        click.echo(f"Nothing was saved; without --dry-run they become the profile {render.one_line(name)}.")
    for note in found.notes:
        notice(note, place.quiet)


@click.group(invoke_without_command=True)
@file_options
@click.pass_context
def profiles(context: click.Context, place: Place) -> None:
    """List the weights that `search --profile` may name: the built-in ones, then those of the file."""
    if context.invoked_subcommand is not None:
        given = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if given:
            raise click.UsageError(f"give options after the command: memstore profiles {context.invoked_subcommand} …")
        return
    with opened(place, must_exist=True) as store:
        found = store.profiles.list()
    if place.as_json:
        print_json([{"name": name, "built_in": name in PROFILES, **render.record(one)} for name, one in found.items()])
    else:
        render.table(
            ["where", "name", "weights"],
            [
                ["built in" if name in PROFILES else "file", render.one_line(name), described(one)]
                for name, one in found.items()
            ],
        )


@profiles.command("remove")
@click.argument("name")
@file_options
def remove(place: Place, name: str) -> None:
    """Take the profile NAME out of the file; the built-in ones stay."""
    with opened(place, must_exist=True) as store:
        store.profiles.remove(name)
    if place.as_json:
        print_json({"removed": name})
    else:
        click.echo(f"the profile {render.one_line(name)} is gone")

"""The command line: parse, call one public method, print."""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from memstore import __version__, render
from memstore.cli.context import context
from memstore.cli.copies import backup, salvage
from memstore.cli.doctor import doctor
from memstore.cli.embedders import embedders
from memstore.cli.entities import entities
from memstore.cli.evaluating import evaluate
from memstore.cli.exporting import export
from memstore.cli.forgetting import delete, purge
from memstore.cli.mcp import mcp
from memstore.cli.models import models
from memstore.cli.reindexing import reindex
from memstore.cli.searching import recall, search
from memstore.cli.support import (
    Place,
    argument,
    asking,
    embed_option,
    field_options,
    file_options,
    filter_options,
    filtered,
    form_of,
    given,
    mask_option,
    notice,
    opened,
    print_change,
    print_json,
    progress_bar,
    read_stdin,
    superseded_option,
)
from memstore.cli.tuning import profiles, tune
from memstore.errors import MemstoreError, NotFoundError
from memstore.exchange import lines_of, read_text
from memstore.store import Embed


def main() -> NoReturn:
    """Run the command line; errors are one sentence on standard error and exit code 1, wrong usage is 2."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        # A console that can't show a character shows a substitute instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = cli.main(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("memstore: interrupted; what was stored before is kept.", err=True)
        code = 130
    except MemstoreError as error:
        click.echo(f"memstore: {render.plain(str(error))}", err=True)
        code = 1
    except BrokenPipeError:
        # The reader (head, less) has gone; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        click.echo(f"memstore: {error.strerror or error}; check the disk and the path.", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="memstore")
def cli() -> None:
    """Memories in one SQLite file, found by words, meaning and names.

    The file is --db, else MEMSTORE_DB, else memory.db in your user data folder.
    """


@cli.command()
@click.argument("text")
@field_options
@embed_option
@mask_option
@file_options
def add(place: Place, text: str, embed: Embed, mask_secrets: bool, **fields: Any) -> None:
    """Store TEXT (- reads it from standard input). The same text again is the same memory."""
    with opened(place) as store:
        memory = store.add(argument(text), embed=embed, mask_secrets=mask_secrets, **given(fields, place.quiet))
    print_change(memory, place)


@cli.command()
@click.argument("id", type=int, required=False)
@click.option("--key", help="The key of the memory, instead of its id.")
@click.option("-n", "--namespace", default="default", show_default=True, help="The namespace of the key.")
@file_options
def get(place: Place, id: int | None, key: str | None, namespace: str) -> None:
    """Show one memory whole, by its ID or --key."""
    with opened(place, must_exist=True) as store:
        memory = store.get(id, key=key, namespace=namespace)
    if memory is None:
        raise NotFoundError(f"there is no memory {id if id is not None else f'with the key {key!r} in {namespace!r}'}.")
    if place.as_json:
        print_json(render.record(memory))
    else:
        click.echo("\n".join(render.card(memory)))


@cli.command("list")
@click.option("-k", "--limit", type=int, default=20, show_default=True, help="How many at most.")
@click.option("--offset", type=int, default=0, help="How many to pass over.")
@click.option("--order", default="newest", show_default=True, help="newest, oldest, changed or thread.")
@superseded_option
@filter_options
@file_options
def list_(place: Place, **options: Any) -> None:
    """List memories, the newest first."""
    with opened(place, must_exist=True) as store:
        found = store.list(**filtered(options, place.quiet))
    if place.as_json:
        print_json([render.record(one) for one in found])
    else:
        render.table(*render.listing(found))


@cli.command()
@click.option("--since", required=True, help="From this date or time on (ISO 8601; local without a zone).")
@click.option("-k", "--limit", type=int, default=50, show_default=True, help="How many at most.")
@filter_options
@file_options
def changes(place: Place, **options: Any) -> None:
    """List what was added or changed since a time, the latest change first. What was deleted leaves no trace."""
    with opened(place, must_exist=True) as store:
        found = store.changes(**filtered(options, place.quiet))
    if place.as_json:
        print_json([render.record(one) for one in found])
    else:
        render.table(*render.listing(found, changed=True))


@cli.command()
@click.argument("ids", type=int, nargs=-1, required=True)
@click.option("--at", help="When (ISO 8601; local without a zone; now when left out).")
@file_options
def used(place: Place, ids: tuple[int, ...], at: str | None) -> None:
    """Note that the memories of IDS reached their reader; a search notes nothing by itself."""
    with opened(place, must_exist=True) as store:
        store.mark_used(ids, **given({"at": at}, place.quiet))
    number = len(set(ids))
    if place.as_json:
        print_json({"used": number})
    else:
        click.echo(f"noted a use of {number} {'memory' if number == 1 else 'memories'}")


@cli.command()
@click.argument("id", type=int)
@click.argument("text", required=False)
@field_options
@embed_option
@mask_option
@file_options
def update(place: Place, id: int, text: str | None, embed: Embed, mask_secrets: bool, **fields: Any) -> None:
    """Change memory ID: its TEXT (- reads it), and each field that is given; an empty value takes a field away."""
    changes = given(fields, place.quiet)
    changes |= {name: None for name, value in changes.items() if value == "" and name != "namespace"}
    changes |= {name: [] for name in ("tags", "entities") if changes.get(name) == [""]}
    if text is not None:
        changes["text"] = argument(text)
    if not changes:
        raise click.UsageError("nothing to change: give a text or a field.")
    with opened(place, must_exist=True) as store:
        memory = store.update(id, embed=embed, mask_secrets=mask_secrets, **changes)
    print_change(memory, place)


@cli.command("import")
@click.argument("path")
@click.option("--format", "form", type=click.Choice(["auto", "jsonl", "markdown", "text"]), default="auto")
@click.option("-n", "--namespace", help="Where Markdown and text go (default: default).")
@click.option("--prune", is_flag=True, help="Delete what an earlier import of this path brought and is gone from it.")
@click.option("-y", "--yes", is_flag=True, help="Prune without asking.")
@embed_option
@mask_option
@file_options
def import_(
    place: Place,
    path: str,
    form: str,
    namespace: str | None,
    prune: bool,
    yes: bool,
    embed: Embed,
    mask_secrets: bool,
) -> None:
    """Store what PATH holds: an export (.jsonl), a Markdown file or folder, or plain text (- is standard input).

    Markdown gives one memory a section, under the key path#heading; importing an edited folder again changes what
    changed and adds what is new. JSON Lines are exports, or objects with the fields of a memory. Plain text gives
    one memory.
    """
    if not path:
        raise click.UsageError("the path is empty.")
    text = read_stdin() if path == "-" else ""
    form = form_of(path, form, text)
    if prune and form != "markdown":
        raise click.UsageError("--prune goes with Markdown: nothing else says what is gone.")
    if namespace is not None and form == "jsonl":
        raise click.UsageError("--namespace goes with Markdown and text: each line of JSON names its own.")
    if path != "-" and not Path(path).exists():
        raise NotFoundError(f"{path} does not exist; nothing was imported.")
    where = namespace or "default"
    with opened(place) as store, progress_bar(place.quiet) as progress:
        if form == "markdown":
            if path == "-":
                raise click.UsageError("Markdown is imported from a file or folder, which names its sections.")
            report = store.import_markdown(
                path,
                namespace=where,
                prune=asking(yes, progress) if prune else None,
                embed=embed,
                progress=progress,
                mask_secrets=mask_secrets,
            )
        elif form == "jsonl":
            lines = text.split("\n") if path == "-" else lines_of(Path(path))
            report = store.import_jsonl(lines, embed=embed, progress=progress, mask_secrets=mask_secrets)
        else:
            name = None if path == "-" else Path(path).name
            text = text if path == "-" else read_text(Path(path))
            report = store.import_text(text, name=name, namespace=where, embed=embed, mask_secrets=mask_secrets)
    if place.as_json:
        print_json(render.record(report))
    else:
        removed = f", {report.removed} deleted" if prune else ""
        click.echo(f"{report.added} added, {report.updated} changed, {report.unchanged} as they were{removed}")
        if report.unlinked:
            notice(
                f"{report.unlinked} of them replaced a memory that is not there; that link was left out.", place.quiet
            )
        if report.pending:
            notice(f"{report.pending} of them wait for vectors; memstore embedders fill makes them.", place.quiet)


@cli.command()
@file_options
def stats(place: Place) -> None:
    """Show what the file holds, and which model it uses."""
    with opened(place, must_exist=True) as store:
        found = store.stats()
    if place.as_json:
        print_json(render.record(found))
    else:
        render.table(None, render.stats(found))


@cli.command()
@click.option("--all", "all_topics", is_flag=True, help="All of the language reference, not its shorter half.")
@file_options
def demo(place: Place, all_topics: bool) -> None:
    """Store Python's language reference and some notes in three languages, and ask questions of each kind.

    The file is a temporary one unless --db names one to keep.
    """
    from memstore.demo import run

    if place.as_json:
        raise click.UsageError("demo has no JSON; search --json on a file of your own does.")
    with progress_bar(place.quiet) as progress:
        run(
            place.db,
            embedder=place.embedder,
            key=place.key,
            all_topics=all_topics,
            progress=progress,
            say=click.echo,
        )


@cli.command()
@click.argument("text")
@click.option("--language", help="Read it as a memory in this language (pt, en, es); detected when left out.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on standard output.")
def analyze(text: str, language: str | None, as_json: bool) -> None:
    """Show how TEXT (- reads it from standard input) becomes terms, step by step, as a memory and as a query."""
    from memstore.analysis import LANGUAGES, analyze
    from memstore.checks import one_of

    found = analyze(argument(text), language=language and one_of("language", language, LANGUAGES))
    if as_json:
        print_json(render.record(found))
    else:
        render.table(None, render.analysis(found))


cli.add_command(backup)
cli.add_command(context)
cli.add_command(delete)
cli.add_command(doctor)
cli.add_command(embedders)
cli.add_command(entities)
cli.add_command(evaluate)
cli.add_command(export)
cli.add_command(mcp)
cli.add_command(models)
cli.add_command(profiles)
cli.add_command(purge)
cli.add_command(recall)
cli.add_command(reindex)
cli.add_command(salvage)
cli.add_command(search)
cli.add_command(tune)
cli.add_command(add, "remember")
cli.add_command(delete, "forget")

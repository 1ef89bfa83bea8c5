"""`memstore export`."""

import sys
from collections.abc import Mapping

import click

from memstore.cli.support import Place, file_options, notice, opened, print_json


@click.command()
@click.argument("path", default="-")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "markdown"]),
    default="jsonl",
    show_default=True,
    help="jsonl: import brings all of it back; markdown: a file for each memory, to be read.",
)
@click.option("-n", "--namespace", help="Only this namespace.")
@click.option("--redact", is_flag=True, help="Put a mask in the place of what has the shape of a key or token.")
@file_options
def export(place: Place, path: str, form: str, namespace: str | None, redact: bool) -> None:
    """Write all memories to PATH as JSON Lines, a new file (- is standard output); import brings them back.

    With --format markdown PATH is a folder, new or empty, and each memory is a file in it.
    """
    if form == "markdown" and path == "-":
        raise click.UsageError("--format markdown writes into a folder; name one.")
    counts: dict[str, int] = {}

    def masked(found: Mapping[str, int]) -> None:
        counts.update(found)

    with opened(place, must_exist=True) as store:
        if form == "markdown":
            number = store.export_markdown(path, namespace=namespace, redact=redact, masked=masked)
        elif path == "-":
            # The format is UTF-8 whatever the console is.
            if hasattr(sys.stdout, "reconfigure"):
                sys.stdout.reconfigure(encoding="utf-8", newline="\n")
            number = store.export(sys.stdout, namespace=namespace, redact=redact, masked=masked)
        else:
            number = store.export(path, namespace=namespace, redact=redact, masked=masked)
    if redact:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        total = sum(counts.values())
        said = f"{total} {'secret was' if total == 1 else 'secrets were'} masked"
        notice(f"{said} ({kinds})." if kinds else "no secret was found to be masked.", place.quiet)
    if path == "-":
        return
    if place.as_json:
        print_json({"exported": number, "masked": sum(counts.values())} if redact else {"exported": number})
    else:
        click.echo(f"{number} {'memory' if number == 1 else 'memories'} written to {path}")

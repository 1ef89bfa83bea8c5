"""`memstore mcp`: the server that an agent starts; it imports nothing of the other commands, for the agent waits."""

import sys
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from memstore.cleaning import plain
from memstore.cli.place import key_of, usual_file
from memstore.errors import MemstoreError
from memstore.mcp import CLIENTS, Options, configuration, leave, serve

# Those of the store, which is not imported to read them.
DURABILITIES, JOURNALS = ("normal", "full"), ("auto", "wal", "delete")


def main() -> NoReturn:
    """Run the command alone, as the command line runs it."""
    try:
        mcp.main(sys.argv[2:], prog_name="memstore mcp")
    except MemstoreError as error:
        click.echo(f"memstore: {plain(str(error))}", err=True)
    except OSError as error:
        click.echo(f"memstore: {error.strerror or error}; check the disk and the path.", err=True)
    sys.exit(1)


def _named(_context: click.Context, option: click.Parameter, value: Any) -> Any:
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty; leave it out or name something.", param=option)
    return value


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--db", envvar="MEMSTORE_DB", type=click.Path(path_type=Path, readable=False), help="The memory file.")
@click.option("-n", "--namespace", callback=_named, help="The only namespace that is read and written.")
@click.option("--read-only", is_flag=True, help="Offer no tool that changes anything.")
@click.option("--embedder", default="auto", show_default=True, callback=_named, help="As memstore search takes it.")
@click.option("--key-file", envvar="MEMSTORE_KEY_FILE", type=click.Path(path_type=Path), help="The key's file.")
@click.option("--durability", envvar="MEMSTORE_DURABILITY", type=click.Choice(DURABILITIES), default="normal")
@click.option("--journal", envvar="MEMSTORE_JOURNAL", type=click.Choice(JOURNALS), default="auto")
@click.option(
    "--print-config", "client", type=click.Choice(list(CLIENTS)), help="Print what to paste into a client, and end."
)
def mcp(db: Path | None, client: str | None, key_file: Path | None, **options: Any) -> None:
    """Serve the file to an agent that speaks the Model Context Protocol (extra 'mcp').

    The agent starts it and talks to it over standard input and output; it ends when that input does. Without
    --namespace the agent may name one at each call.
    """
    key = None if key_file is None else partial(key_of, key_file, partial(click.echo, err=True))
    told = Options(db=db or usual_file(), key_file=key_file, key=key, **options)
    if client is not None:
        found = configuration(client, told)
        click.echo(found.where, err=True)
        click.echo(found.lines)
        return
    if sys.stdin is not None and sys.stdin.isatty():
        click.echo("An agent is to start this and talk to it; --print-config shows how. Ctrl-C ends it.", err=True)
    serve(told)
    leave()

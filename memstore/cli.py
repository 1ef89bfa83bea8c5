"""The command line: parse, call one public method, print."""

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import click

from memstore import __version__, render
from memstore.errors import InvalidInputError, MemstoreError, NotFoundError
from memstore.exchange import read_text
from memstore.records import Memory
from memstore.store import MemoryStore

Command = TypeVar("Command", bound=Callable[..., Any])
_LONG_WORK = 50
_EMBEDDER = "auto, bundled, none, fastembed:FOLDER or fastembed:NAME."
_SIGNAL = "Only this signal (keyword, semantic, entity); again for more."
_EXAMPLE = "give an object such as '{\"paid\": true}'"


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


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What every command is told: which file, with which model, and how to answer."""

    db: Path | None
    embedder: str
    as_json: bool
    quiet: bool


def _file(command: Command) -> Command:
    @functools.wraps(command)
    def placed(db: Path | None, embedder: str, as_json: bool, quiet: bool, **rest: Any) -> Any:
        return command(_Place(db=db, embedder=embedder, as_json=as_json, quiet=quiet), **rest)

    options = _options(
        click.option(
            "--db", envvar="MEMSTORE_DB", type=click.Path(path_type=Path, readable=False), help="The memory file."
        ),
        click.option("--embedder", default="auto", show_default=True, help=_EMBEDDER),
        click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on standard output."),
        click.option("-q", "--quiet", is_flag=True, help="No notices and no progress on standard error."),
    )
    return cast(Command, options(placed))


_filters = _options(
    click.option("-n", "--namespace", help="Only this namespace."),
    click.option("-t", "--tag", "tags", multiple=True, help="Only with this tag; again for more tags."),
    click.option("--where", help="JSON of metadata path to value, such as '{\"paid\": true}'."),
    click.option("--after", help="Only from this date or time on (ISO 8601; local without a zone)."),
    click.option("--before", help="Only before this date or time."),
    click.option("--thread", help="Only this thread."),
    click.option("--author", help="Only by this author."),
)
_fields = _options(
    click.option("--key", help="Your own name for it, unique in its namespace."),
    click.option("-n", "--namespace", help="The namespace (default when it is new: default)."),
    click.option("--author", help="Who said or wrote it."),
    click.option("--thread", help="The conversation, journal or document that it belongs to."),
    click.option("--position", type=float, help="Its place in the thread (default: at the end)."),
    click.option("--created-at", help="When it happened (ISO 8601; local without a zone)."),
    click.option("--expires-at", help="When it is to be forgotten."),
    click.option("-t", "--tag", "tags", multiple=True, help="A tag; again for more."),
    click.option("--metadata", help="JSON of further fields, such as '{\"paid\": true}'."),
    click.option("--entity", "entities", multiple=True, help="A name that it mentions; again for more."),
    click.option("--language", help="Its language (pt, en, es); detected when left out."),
)


@cli.command()
@click.argument("text")
@_fields
@_file
def add(place: _Place, text: str, **fields: Any) -> None:
    """Store TEXT (- reads it from standard input). The same text again is the same memory."""
    with _opened(place) as store:
        memory = store.add(_argument(text), **_given(fields, place.quiet))
    _print_change(memory, place)


@cli.command()
@click.argument("query")
@click.option("-k", "--limit", "k", type=int, default=3, show_default=True, help="How many hits at most.")
@click.option("--explain", is_flag=True, help="Show how each score came about.")
@click.option("--profile", default="default", show_default=True, help="default, technical, conceptual or people.")
@click.option("--weights", help="JSON of own weights: keyword, semantic, entity, boost.")
@click.option("--fusion", help="How scores are put together: minmax.")
@click.option("--depth", type=int, default=50, show_default=True, help="Candidates of each signal.")
@click.option("--signal", "signals", multiple=True, help=_SIGNAL)
@click.option("--match", default="any", show_default=True, help="Which words must be there: any, all, all_then_any.")
@_filters
@_file
def search(place: _Place, query: str, explain: bool, **options: Any) -> None:
    """Find the memories that answer QUERY best (- reads it from standard input)."""
    options["weights"] = _json("--weights", options["weights"])
    options["signals"] = options["signals"] or None
    with _opened(place, must_exist=True) as store:
        found = store.search(_argument(query), **_filtered(options, place.quiet))
    if place.as_json:
        _print_json(render.result(found))
        return
    for line in render.hits(found, explain=explain):
        click.echo(line)
    for signal, reason in found.skipped.items():
        if reason != "not asked for":
            _notice(f"{signal} took no part: {reason}.", place.quiet)
    if found.pending:
        _notice(f"{found.pending} passages wait for their vectors; memstore embedders fill makes them.", place.quiet)


@cli.command()
@click.argument("id", type=int, required=False)
@click.option("--key", help="The key of the memory, instead of its id.")
@click.option("-n", "--namespace", default="default", show_default=True, help="The namespace of the key.")
@_file
def get(place: _Place, id: int | None, key: str | None, namespace: str) -> None:
    """Show one memory whole, by its ID or --key."""
    with _opened(place, must_exist=True) as store:
        memory = store.get(id, key=key, namespace=namespace)
    if memory is None:
        raise NotFoundError(f"there is no memory {id if id is not None else f'with the key {key!r} in {namespace!r}'}.")
    if place.as_json:
        _print_json(render.record(memory))
    else:
        click.echo("\n".join(render.card(memory)))


@cli.command("list")
@click.option("-k", "--limit", type=int, default=20, show_default=True, help="How many at most.")
@click.option("--offset", type=int, default=0, help="How many to pass over.")
@click.option("--order", default="newest", show_default=True, help="newest, oldest or thread.")
@_filters
@_file
def list_(place: _Place, **options: Any) -> None:
    """List memories, the newest first."""
    with _opened(place, must_exist=True) as store:
        found = store.list(**_filtered(options, place.quiet))
    if place.as_json:
        _print_json([render.record(one) for one in found])
    else:
        render.table(*render.listing(found))


@cli.command()
@click.argument("id", type=int)
@click.argument("text", required=False)
@_fields
@_file
def update(place: _Place, id: int, text: str | None, **fields: Any) -> None:
    """Change memory ID: its TEXT (- reads it), and each field that is given; an empty value takes a field away."""
    changes = _given(fields, place.quiet)
    changes |= {name: None for name, value in changes.items() if value == "" and name != "namespace"}
    changes |= {name: [] for name in ("tags", "entities") if changes.get(name) == [""]}
    if text is not None:
        changes["text"] = _argument(text)
    if not changes:
        raise click.UsageError("nothing to change: give a text or a field.")
    with _opened(place, must_exist=True) as store:
        memory = store.update(id, **changes)
    _print_change(memory, place)


@cli.command()
@click.argument("ids", type=int, nargs=-1, required=True)
@_file
def delete(place: _Place, ids: tuple[int, ...]) -> None:
    """Delete memories by their IDS, from every index."""
    with _opened(place, must_exist=True) as store:
        missing = [one for one in ids if store.get(one) is None]
        if missing:
            raise NotFoundError(f"there is no memory {missing[0]}; nothing was deleted.")
        deleted = store.delete(ids)
    if place.as_json:
        _print_json({"deleted": deleted})
    else:
        click.echo(f"deleted {deleted} {'memory' if deleted == 1 else 'memories'}")


@cli.command("import")
@click.argument("path")
@click.option("--format", "form", type=click.Choice(["auto", "jsonl", "markdown", "text"]), default="auto")
@click.option("-n", "--namespace", help="Where Markdown and text go (default: default).")
@click.option("--prune", is_flag=True, help="Delete what an earlier import of this path brought and is gone from it.")
@click.option("-y", "--yes", is_flag=True, help="Prune without asking.")
@_file
def import_(place: _Place, path: str, form: str, namespace: str | None, prune: bool, yes: bool) -> None:
    """Store what PATH holds: an export (.jsonl), a Markdown file or folder, or plain text (- is standard input).

    Markdown gives one memory a section, under the key path#heading; importing an edited folder again changes what
    changed and adds what is new. JSON Lines are exports, or objects with the fields of a memory. Plain text gives
    one memory.
    """
    if not path:
        raise click.UsageError("the path is empty.")
    text = _stdin() if path == "-" else ""
    form = _form(path, form, text)
    if prune and form != "markdown":
        raise click.UsageError("--prune goes with Markdown: nothing else says what is gone.")
    if namespace is not None and form == "jsonl":
        raise click.UsageError("--namespace goes with Markdown and text: each line of JSON names its own.")
    if path != "-" and not Path(path).exists():
        raise NotFoundError(f"{path} does not exist; nothing was imported.")
    where = namespace or "default"
    with _opened(place) as store, _progress(place.quiet) as progress:
        if form == "markdown":
            if path == "-":
                raise click.UsageError("Markdown is imported from a file or folder, which names its sections.")
            report = store.import_markdown(
                path, namespace=where, prune=_asked(yes, progress) if prune else None, progress=progress
            )
        else:
            text = text if path == "-" else read_text(Path(path))
            if form == "jsonl":
                report = store.import_jsonl(text.split("\n"), progress=progress)
            else:
                report = store.import_text(text, name=None if path == "-" else Path(path).name, namespace=where)
    if place.as_json:
        _print_json(render.record(report))
    else:
        removed = f", {report.removed} deleted" if prune else ""
        click.echo(f"{report.added} added, {report.updated} changed, {report.unchanged} as they were{removed}")
        if report.pending:
            _notice(f"{report.pending} of them wait for vectors; memstore embedders fill makes them.", place.quiet)


@cli.command()
@click.argument("path", default="-")
@click.option("-n", "--namespace", help="Only this namespace.")
@_file
def export(place: _Place, path: str, namespace: str | None) -> None:
    """Write all memories as JSON Lines to PATH, a new file (- is standard output); import brings them back."""
    with _opened(place, must_exist=True) as store:
        if path == "-":
            # The format is UTF-8 whatever the console is.
            if hasattr(sys.stdout, "reconfigure"):
                sys.stdout.reconfigure(encoding="utf-8", newline="\n")
            store.export(sys.stdout, namespace=namespace)
            return
        number = store.export(path, namespace=namespace)
    if place.as_json:
        _print_json({"exported": number})
    else:
        click.echo(f"{number} {'memory' if number == 1 else 'memories'} written to {path}")


@cli.command()
@_file
def stats(place: _Place) -> None:
    """Show what the file holds, and which model it uses."""
    with _opened(place, must_exist=True) as store:
        found = store.stats()
    if place.as_json:
        _print_json(render.record(found))
    else:
        render.table(None, render.stats(found))


@cli.group()
def embedders() -> None:
    """The embedding models of the file."""


@embedders.command("list")
@_file
def embedders_list(place: _Place) -> None:
    """List the embedding spaces: how many passages have a vector, wait for one, or were refused one."""
    with _opened(place, must_exist=True) as store:
        found = store.spaces.list()
        model = store.spaces.describe()
    if place.as_json:
        _print_json([render.record(one) for one in found])
        return
    render.table(
        ["name", "dimensions", "state", "vectors", "pending", "refused"],
        [[s.name, *map(str, (s.dimensions, s.state, s.vectors, s.pending, s.refused))] for s in found],
    )
    _notice(f"new memories: {model}", place.quiet)


@embedders.command("fill")
@_file
def embedders_fill(place: _Place) -> None:
    """Embed the passages that wait for a vector; an interrupted run goes on where it stopped."""
    with _opened(place, must_exist=True) as store, _progress(place.quiet) as progress:
        number = store.spaces.fill(progress=progress)
    if place.as_json:
        _print_json({"embedded": number})
    else:
        click.echo(f"{number} {'passage' if number == 1 else 'passages'} embedded")


@cli.command()
@click.option("--all", "all_topics", is_flag=True, help="All of the language reference, not its shorter half.")
@_file
def demo(place: _Place, all_topics: bool) -> None:
    """Store Python's language reference and some notes in three languages, and ask questions of each kind.

    The file is a temporary one unless --db names one to keep.
    """
    from memstore.demo import run

    if place.as_json:
        raise click.UsageError("demo has no JSON; search --json on a file of your own does.")
    with _progress(place.quiet) as progress:
        run(place.db, embedder=place.embedder, all_topics=all_topics, progress=progress, say=click.echo)


cli.add_command(add, "remember")
cli.add_command(delete, "forget")


def _opened(place: _Place, *, must_exist: bool = False) -> MemoryStore:
    db = place.db
    if db is None:
        import platformdirs

        folder = Path(platformdirs.user_data_dir("memstore", appauthor=False))
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        db = folder / "memory.db"
    if must_exist and not db.exists():
        raise NotFoundError(f"there is no memory file at {db}; memstore add makes it.")
    return MemoryStore(db, embedder=place.embedder)


def _given(fields: dict[str, Any], quiet: bool) -> dict[str, Any]:
    """Keep the fields that were given, metadata as what its JSON says, and say how dates without a zone are read."""
    given = {name: value for name, value in fields.items() if value is not None and value != ()}
    if "metadata" in given:
        given["metadata"] = _json("--metadata", given["metadata"] or "{}")
    for name in ("tags", "entities"):
        if name in given:
            given[name] = list(given[name])
    _explain_times(given, ("created_at", "expires_at"), quiet)
    return given


def _filtered(options: dict[str, Any], quiet: bool) -> dict[str, Any]:
    options["where"] = _json("--where", options["where"])
    _explain_times(options, ("after", "before"), quiet)
    return options


def _explain_times(options: dict[str, Any], names: Sequence[str], quiet: bool) -> None:
    from memstore.checks import instant, local

    for name in names:
        value = options.get(name)
        if value and not render.has_zone(value):
            read = instant(f"--{name.replace('_', '-')}", value)
            _notice(f"{value} has no time zone and is read as local time: {local(read.utc, read.offset)}.", quiet)


def _json(option: str, value: str | None) -> Any:
    if value is None:
        return None
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{option} is not JSON ({error}); {_EXAMPLE}.") from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"{option} is a JSON {type(found).__name__}; {_EXAMPLE}.")
    return found


def _argument(text: str) -> str:
    return _stdin().rstrip("\r\n") if text == "-" else text


def _stdin() -> str:
    if sys.stdin is None:
        raise InvalidInputError("standard input is closed; give the text as an argument.")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"standard input is not UTF-8 text (byte {error.start}); convert it first.") from error


def _form(path: str, form: str, text: str) -> str:
    if form != "auto":
        return form
    if path == "-":
        # What `memstore export` writes is known by its first line; any other text is a text.
        first = text.lstrip().partition("\n")[0]
        return "jsonl" if first.startswith("{") and ('"text": ' in first or '"term": ' in first) else "text"
    suffix = Path(path).suffix.lower()
    if suffix in (".jsonl", ".ndjson", ".json"):
        return "jsonl"
    return "markdown" if suffix in (".md", ".markdown") or Path(path).is_dir() else "text"


def _asked(yes: bool, progress: "_Bar") -> Callable[[Sequence[Memory]], bool]:
    def ask(gone: Sequence[Memory]) -> bool:
        progress.stop()
        for memory in gone:
            click.echo(f"gone: [{memory.id}] {memory.key}", err=True)
        if yes:
            return True
        if not sys.stdin.isatty():
            click.echo("nothing was deleted: add --yes to delete these.", err=True)
            return False
        return click.confirm(f"Delete these {len(gone)}?", err=True)

    return ask


class _Bar:
    """A progress bar on standard error, shown when a terminal is there and the work is long."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet or not sys.stderr.isatty()
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self._quiet or total < _LONG_WORK:
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress as RichProgress

            self._bar = RichProgress(console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("embedding and storing", total=total)
        self._bar.update(self._task, completed=done, total=total)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def _progress(quiet: bool) -> Iterator[_Bar]:
    bar = _Bar(quiet)
    try:
        yield bar
    finally:
        bar.stop()


def _print_change(memory: Memory, place: _Place) -> None:
    if place.as_json:
        _print_json(render.record(memory))
        return
    said = {
        "added": f"added memory {memory.id}",
        "merged": f"memory {memory.id} already holds this text; what is new was merged into it",
        "updated": f"changed memory {memory.id}",
        "unchanged": f"memory {memory.id} is like that already; nothing was changed",
    }
    click.echo(said[memory.outcome or "unchanged"])
    if memory.pending:
        _notice("it is found by words and names; memstore embedders fill makes the vectors that wait.", place.quiet)


def _print_json(value: Any) -> None:
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    click.echo(json.dumps(value, ensure_ascii=not utf8, indent=2))


def _notice(sentence: str, quiet: bool) -> None:
    if not quiet:
        click.echo(render.plain(sentence), err=True)

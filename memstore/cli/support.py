"""What the commands share: their options, what they are told, and how they answer."""

import functools
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from memstore import render
from memstore.cli.place import key_of, usual_file
from memstore.database import DURABILITIES, JOURNALS, Durability, Journal
from memstore.embedding import NAMES
from memstore.errors import InvalidInputError, NotFoundError
from memstore.exchange import read_text
from memstore.ranking import Ranking
from memstore.records import Memory
from memstore.rerank import NAMES as RERANKERS
from memstore.store import EMBED, MemoryStore

if TYPE_CHECKING:
    from memstore.evaluation import Judged

Command = TypeVar("Command", bound=Callable[..., Any])
_LONG_WORK = 50
# A line of an export has one of these fields.
_MARKS = ("text", "term", "profile")
_EMBEDDER = f"{NAMES}."
_EXAMPLES = {"--weights": '{"keyword": 0.6}'}


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return several options as one decorator, shown in help in the order given."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What every command is told: which file, with which model, and how to answer."""

    db: Path | None
    embedder: str
    durability: Durability
    journal: Journal
    key: bytes | None = field(repr=False)
    as_json: bool
    quiet: bool


key_file_option = click.option(
    "--key-file",
    envvar="MEMSTORE_KEY_FILE",
    type=click.Path(path_type=Path),
    help="A file with the key of an encrypted memory file.",
)


def file_options(command: Command) -> Command:
    """Give a command the options that say where and how, as one `Place`."""

    @functools.wraps(command)
    def placed(key_file: Path | None, quiet: bool, **options: Any) -> Any:
        given = {name: options.pop(name) for name in ("db", "embedder", "durability", "journal", "as_json")}
        key = None if key_file is None else key_of(key_file, lambda sentence: notice(sentence, quiet))
        with warnings.catch_warnings():
            warnings.showwarning = lambda said, *_: notice(str(said), quiet)
            return command(Place(key=key, quiet=quiet, **given), **options)

    decorate = with_options(
        click.option(
            "--db", envvar="MEMSTORE_DB", type=click.Path(path_type=Path, readable=False), help="The memory file."
        ),
        click.option("--embedder", default="auto", show_default=True, help=_EMBEDDER),
        key_file_option,
        click.option(
            "--durability",
            envvar="MEMSTORE_DURABILITY",
            type=click.Choice(DURABILITIES),
            default="normal",
            show_default=True,
            help="full: a power failure takes no commit back.",
        ),
        click.option(
            "--journal",
            envvar="MEMSTORE_JOURNAL",
            type=click.Choice(JOURNALS),
            default="auto",
            show_default=True,
            help="delete: for a network drive.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on standard output."),
        click.option("-q", "--quiet", is_flag=True, help="No notices and no progress on standard error."),
    )
    return cast(Command, decorate(placed))


filter_options = with_options(
    click.option("-n", "--namespace", help="Only this namespace."),
    click.option("-t", "--tag", "tags", multiple=True, help="Only with this tag; again for more tags."),
    click.option("--where", help="JSON of metadata path to value, such as '{\"paid\": true}'."),
    click.option("--after", help="Only from this date or time on (ISO 8601; local without a zone)."),
    click.option("--before", help="Only before this date or time."),
    click.option("--thread", help="Only this thread."),
    click.option("--author", help="Only by this author."),
)
rerank_options = with_options(
    click.option("--rerank", is_flag=True, help="Have a second model read the best again, beside the query."),
    click.option("--reranker", help=f"That model: {RERANKERS} (default: one that is on disk)."),
)
rerank_amounts = with_options(
    click.option("--rerank-depth", type=int, default=50, show_default=True, help="How many of the best it reads."),
    click.option("--rerank-weight", type=float, help="What it counts for, 0 to 1 (default: what the model says)."),
)
superseded_option = click.option("--superseded", is_flag=True, help="Include memories that another one replaces.")


def _identifier(context: click.Context, option: click.Parameter, value: Any) -> Any:
    # Empty stays: it takes the field away.
    return click.INT.convert(value, option, context) if value else value


field_options = with_options(
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
    click.option("--pinned/--not-pinned", default=None, help="Whether it is to stay at hand, whatever its age."),
    click.option("--replaces", metavar="ID", callback=_identifier, help="The memory that this one supersedes."),
)


mask_option = click.option(
    "--mask-secrets", is_flag=True, help="Replace what has the shape of a key or token before it is stored."
)
embed_option = click.option(
    "--embed",
    type=click.Choice(EMBED),
    default="now",
    show_default=True,
    help="later: ask no model; later writes make a few of the vectors, memstore embedders fill all.",
)


def opened(
    place: Place, *, must_exist: bool = False, ranking: Ranking | str = "bm25", reranker: str | None = None
) -> MemoryStore:
    """Open the file that `place` names, else the one in the user data folder; refuse to make one that must be there."""
    return MemoryStore(
        located(place, must_exist=must_exist),
        embedder=place.embedder,
        durability=place.durability,
        journal=place.journal,
        key=place.key,
        ranking=ranking,
        reranker=reranker,
    )


def located(place: Place, *, must_exist: bool = False) -> Path:
    """Return the file that `place` names, else the one in the user data folder; refuse one that must be there."""
    db = place.db or usual_file()
    if must_exist and not db.exists():
        raise NotFoundError(f"there is no memory file at {db}; memstore add makes it.")
    return db


def given(fields: dict[str, Any], quiet: bool) -> dict[str, Any]:
    """Keep the fields that were given, metadata as what its JSON says, and say how dates without a zone are read."""
    given = {name: value for name, value in fields.items() if value is not None and value != ()}
    if "metadata" in given:
        given["metadata"] = read_json("--metadata", given["metadata"] or "{}")
    for name in ("tags", "entities"):
        if name in given:
            given[name] = list(given[name])
    _explain_times(given, ("created_at", "expires_at", "at"), quiet)
    return given


def filtered(options: dict[str, Any], quiet: bool) -> dict[str, Any]:
    """Return filter options as the store takes them, and say how dates without a zone are read."""
    options["where"] = read_json("--where", options["where"])
    _explain_times(options, ("since", "after", "before"), quiet)
    return options


def _explain_times(options: dict[str, Any], names: Sequence[str], quiet: bool) -> None:
    from memstore.checks import instant, local

    for name in names:
        value = options.get(name)
        if value and not render.has_zone(value):
            read = instant(f"--{name.replace('_', '-')}", value)
            notice(f"{value} has no time zone and is read as local time: {local(read.utc, read.offset)}.", quiet)


def read_json(option: str, value: str | None) -> Any:
    """Return the object that the JSON of an option holds, None for an option that was left out."""
    if value is None:
        return None
    example = "give an object such as " + repr(_EXAMPLES.get(option, '{"paid": true}'))
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{option} is not JSON ({error}); {example}.") from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"{option} is a JSON {type(found).__name__}; {example}.")
    return found


def checked_reranker(rerank: bool, reranker: str | None) -> str | None:
    """Return the reranker that is named; refuse one that would not be used."""
    if reranker is not None and not rerank:
        raise click.UsageError("--reranker goes with --rerank.")
    return reranker


def argument(text: str) -> str:
    """Return a text given as an argument, `-` being standard input."""
    return read_stdin().rstrip("\r\n") if text == "-" else text


def read_stdin() -> str:
    """Return standard input as text: UTF-8, with or without a byte order mark."""
    if sys.stdin is None:
        raise InvalidInputError("standard input is closed; give the text as an argument.")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"standard input is not UTF-8 text (byte {error.start}); convert it first.") from error


def read_questions(path: str, *, judged: bool = True) -> "tuple[Judged, ...]":
    """Return the questions of a file, `-` being standard input; an error names the file."""
    from memstore.evaluation import read

    # At "\n" alone: other line ends of Unicode may stand inside the text of a question.
    lines = (read_stdin() if path == "-" else read_text(Path(path))).split("\n")
    try:
        return read(lines, judged=judged)
    except InvalidInputError as error:
        raise InvalidInputError(f"{'standard input' if path == '-' else path}, {error}") from error


def form_of(path: str, form: str, text: str) -> str:
    """Return the format of what is imported, from its name or, of standard input, its first line."""
    if form != "auto":
        return form
    if path == "-":
        # What `memstore export` writes is known by its first line; any other text is a text.
        first = text.lstrip().partition("\n")[0]
        return "jsonl" if first.startswith("{") and any(f'"{name}": ' in first for name in _MARKS) else "text"
    suffix = Path(path).suffix.lower()
    if suffix in (".jsonl", ".ndjson", ".json"):
        return "jsonl"
    return "markdown" if suffix in (".md", ".markdown") or Path(path).is_dir() else "text"


def asking(yes: bool, progress: "Bar") -> Callable[[Sequence[Memory]], bool]:
    """Return a question to the user whether the memories that are gone from an import go from the store."""

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


class Bar:
    """A progress bar on standard error, shown when a terminal is there and the work is long."""

    def __init__(self, quiet: bool, doing: str = "embedding and storing") -> None:
        self._quiet = quiet or not sys.stderr.isatty()
        self._doing = doing
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self._quiet or total < _LONG_WORK:
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress as RichProgress

            self._bar = RichProgress(console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self._doing, total=total)
        self._bar.update(self._task, completed=done, total=total)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def progress_bar(quiet: bool, doing: str = "embedding and storing") -> Iterator[Bar]:
    """Show a bar while the work lasts; hand out what is to be told of the progress."""
    bar = Bar(quiet, doing)
    try:
        yield bar
    finally:
        bar.stop()


def print_change(memory: Memory, place: Place) -> None:
    """Say what a write did to a memory."""
    if place.as_json:
        print_json(render.record(memory))
        return
    said = {
        "added": f"added memory {memory.id}",
        "merged": f"memory {memory.id} already holds this text; what is new was merged into it",
        "updated": f"changed memory {memory.id}",
        "unchanged": f"memory {memory.id} is like that already; nothing was changed",
    }
    click.echo(said[memory.outcome or "unchanged"])
    if memory.replaced_by:
        notice(f"memory {memory.replaced_by[0]} replaces it: searches pass over it without --superseded.", place.quiet)
    if memory.pending:
        notice("it is found by words and names; memstore embedders fill makes the vectors that wait.", place.quiet)


def print_json(value: Any) -> None:
    """Print a value as JSON, in ASCII where the console has no UTF-8."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    click.echo(json.dumps(value, ensure_ascii=not utf8, indent=2))


def notice(sentence: str, quiet: bool) -> None:
    """Say something beside the answer, on standard error."""
    if not quiet:
        click.echo(render.plain(sentence), err=True)

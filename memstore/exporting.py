"""Memories out of a store: JSON Lines that bring all of it back, and Markdown, one file a memory."""

import os
import stat
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO, TypeAlias

import apsw

from memstore import checks, entities, exchange, memories
from memstore.analysis import fold
from memstore.database import Database
from memstore.errors import StorageError
from memstore.filters import Filter
from memstore.fusion import PROFILES
from memstore.masking import Redaction
from memstore.profiles import Profiles
from memstore.terms import Terms

# Called with how many secrets of each kind were masked.
Masked: TypeAlias = Callable[[Mapping[str, int]], None]
_LONGEST_NAME = 80
_MOST_WORDS = 8
_EXTENSION = ".md"
# A link in the place of a file is never followed, where the system can be told so; a name that is there is refused.
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)


def jsonl(
    database: Database,
    terms: Terms,
    profiles: Profiles,
    destination: TextIO | str | os.PathLike[str],
    namespace: str | None,
    redaction: Redaction | None,
) -> int:
    """Write known terms, the file's profiles and memories as JSON Lines to a stream, or to a file not there yet."""
    if not isinstance(destination, str | os.PathLike):
        return _write_lines(database, terms, profiles, destination, namespace, redaction)
    try:
        handle = os.open(destination, _NEW_FILE, 0o600)
    except FileExistsError:
        raise StorageError(f"{os.fspath(destination)} exists already; name a new file.") from None
    except (OSError, ValueError) as error:
        raise StorageError(f"{os.fspath(destination)!r} can't be written: {error}.") from error
    try:
        with open(handle, "w", encoding="utf-8") as file:
            return _write_lines(database, terms, profiles, file, namespace, redaction)
    except BaseException as error:
        # Half an export is none: it would stand in the way of the next.
        os.unlink(destination)
        if isinstance(error, OSError):
            raise StorageError(f"{os.fspath(destination)} can't be written: {error.strerror}.") from error
        raise


def markdown(
    database: Database, folder: str | os.PathLike[str], namespace: str | None, redaction: Redaction | None
) -> int:
    """Write each memory as a file of its own into a folder that is empty or not there yet; return how many.

    A name is the memory's id and what its key, or its text, says in plain letters: nothing that a user wrote is ever
    part of a path.
    """
    namespace = checks.name("namespace", namespace)
    target, made = _folder(folder)
    try:
        with _Inside(target) as inside, database.read() as conn:
            for fields in _memories(conn, namespace, redaction):
                name = file_name(fields["id"], fields.get("key") or fields["text"])
                inside.write(name, exchange.markdown_page(fields))
        return len(inside.written)
    except BaseException as error:
        if made:
            # Should anyone else have put something into it, it stays.
            with suppress(OSError):
                target.rmdir()
        if isinstance(error, OSError):
            raise StorageError(f"{target} can't be written: {error.strerror}; nothing was exported.") from error
        raise


def file_name(memory_id: int, said: str) -> str:
    """Return the name of a memory's file: `0012-decisao-stripe.md`, of a-z, 0-9 and hyphens, at most 80 characters.

    It begins with a digit, so that it is no device's name on any system either.
    """
    plain = unicodedata.normalize("NFKD", fold(said[:1000]))
    words = "".join(one if one.isascii() and one.isalnum() else " " for one in plain).split()
    name = "-".join([f"{memory_id:04d}", *words[:_MOST_WORDS]])
    return name[: _LONGEST_NAME - len(_EXTENSION)].rstrip("-") + _EXTENSION


def _folder(folder: str | os.PathLike[str]) -> tuple[Path, bool]:
    """Return the path of a folder to write into, one that is empty or was made now, and whether it was made."""
    try:
        target = Path(os.fsdecode(folder))
        if not os.path.lexists(target):
            target.mkdir(mode=0o700)
            return target, True
        mode = os.lstat(target).st_mode
        if stat.S_ISLNK(mode):
            raise StorageError(f"{target} is a link; name the folder itself, or a new one.")
        if not stat.S_ISDIR(mode):
            raise StorageError(f"{target} is a file; name a folder, empty or new.")
        if any(target.iterdir()):
            raise StorageError(f"{target} is not empty; name a new folder.")
        return target, False
    except (OSError, TypeError, ValueError) as error:
        raise StorageError(f"{folder!r} can't be written: {error}.") from error


class _Inside:
    """New files in one folder; where it ends with an error, what was written is removed again.

    Where the system has handles of folders, one that is exchanged for a link meanwhile leads nowhere else.
    """

    def __init__(self, folder: Path) -> None:
        self.written: list[str] = []
        self._handle: int | None = None
        self._folder = folder
        if {os.open, os.unlink} <= os.supports_dir_fd:
            self._handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            self._folder = Path()

    def __enter__(self) -> Self:
        return self

    def write(self, name: str, text: str) -> None:
        handle = os.open(self._folder / name, _NEW_FILE, 0o600, dir_fd=self._handle)
        self.written.append(name)
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for name in self.written if kind is not None else ():
                os.unlink(self._folder / name, dir_fd=self._handle)
        finally:
            if self._handle is not None:
                os.close(self._handle)


def _write_lines(
    database: Database,
    terms: Terms,
    profiles: Profiles,
    file: TextIO,
    namespace: str | None,
    redaction: Redaction | None,
) -> int:
    number = 0
    with database.read() as conn:
        for term in terms.list():
            file.write(exchange.line(_redacted(exchange.term_fields(term), redaction)))
        for name, weights in profiles.list().items():
            if name not in PROFILES:
                file.write(exchange.line(_redacted(exchange.profile_fields(name, weights), redaction)))
        for fields in _memories(conn, namespace, redaction):
            file.write(exchange.line(fields))
            number += 1
    return number


def _memories(conn: apsw.Connection, namespace: str | None, redaction: Redaction | None) -> Iterator[dict[str, Any]]:
    """Yield the fields of each memory (of a namespace) that has not expired, in the order of their ids."""
    chosen = Filter(namespace=checks.name("namespace", namespace), superseded=True)
    for memory_id in sorted(memories.ids(conn, chosen.condition(conn, checks.now()), "oldest", -1, 0)):
        row = memories.get(conn, memory_id)
        if row is not None:
            fields = exchange.memory_fields(row, entities.given(conn, memory_id), memories.used(conn, memory_id))
            yield _redacted(fields, redaction)


def _redacted(fields: dict[str, Any], redaction: Redaction | None) -> dict[str, Any]:
    found: dict[str, Any] = fields if redaction is None else redaction.value(fields)
    return found

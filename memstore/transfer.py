"""Memories out of a store and into it: JSON Lines both ways, Markdown in."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TextIO

from memstore import checks, entities, exchange, memories, planning
from memstore.database import Database
from memstore.errors import InvalidInputError, NotFoundError, StorageError
from memstore.filters import Filter
from memstore.fusion import PROFILES
from memstore.planning import Write
from memstore.profiles import Profile, Profiles
from memstore.records import ImportReport, Memory, NewMemory, Term
from memstore.terms import Terms
from memstore.writing import Writer


def export(
    database: Database,
    terms: Terms,
    profiles: Profiles,
    destination: TextIO | str | os.PathLike[str],
    namespace: str | None,
) -> int:
    """Write known terms, the file's profiles and memories as JSON Lines to a stream, or to a file not there yet."""
    if not isinstance(destination, str | os.PathLike):
        return _export(database, terms, profiles, destination, namespace)
    try:
        handle = os.open(destination, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise StorageError(f"{os.fspath(destination)} exists already; name a new file.") from None
    except (OSError, ValueError) as error:
        raise StorageError(f"{os.fspath(destination)!r} can't be written: {error}.") from error
    try:
        with open(handle, "w", encoding="utf-8") as file:
            return _export(database, terms, profiles, file, namespace)
    except BaseException as error:
        # Half an export is none: it would stand in the way of the next.
        os.unlink(destination)
        if isinstance(error, OSError):
            raise StorageError(f"{os.fspath(destination)} can't be written: {error.strerror}.") from error
        raise


def import_jsonl(
    writer: Writer,
    terms: Terms,
    profiles: Profiles,
    lines: Iterable[str],
    progress: Callable[[int, int], None] | None,
    *,
    embed: bool,
) -> ImportReport:
    """Store what lines of JSON hold, known terms and profiles first; all are checked before the first is written."""
    if isinstance(lines, str):
        raise InvalidInputError("lines is one text; give its lines, such as an open file or text.splitlines().")
    writes: list[Write] = []
    known: list[Term] = []
    saved: list[Profile] = []
    read = list(exchange.read_lines(lines))
    above = max((found.row.id or 0 for found in read if isinstance(found, exchange.Restored)), default=0)
    for found in read:
        if isinstance(found, Term):
            known.append(found)
        elif isinstance(found, Profile):
            saved.append(found)
        elif isinstance(found, exchange.Restored):
            writes.append(planning.restoring(found.row, found.given, above))
        else:
            writes.append(planning.adding(found))
    terms.add_many(known)
    profiles.save_many(saved)
    return counted(writer.store(writes, progress, embed=embed))


def markdown(database: Database, path: str | os.PathLike[str], *, namespace: str) -> tuple[list[NewMemory], str]:
    """Return the sections of a Markdown file or folder as memories, and the name that their import goes by."""
    root = Path(path)
    if not root.exists():
        raise NotFoundError(f"{root} does not exist; nothing was imported.")
    namespace, imported_from = checks.namespace(namespace), str(root.resolve())
    new: list[NewMemory] = []
    with database.read() as conn:
        for file, name in exchange.markdown_files(root):
            text = exchange.read_text(file)
            for section in exchange.sections(text, name, namespace=namespace, imported_from=imported_from):
                try:
                    checks.checked(section)
                except InvalidInputError as error:
                    raise InvalidInputError(f"{file}, section {section.key!r}: {error}") from error
                there = memories.by_key(conn, namespace, str(section.key))
                origin = checks.decoded(there.metadata).get(exchange.IMPORTED_FROM) if there else None
                if origin is not None and not _same_import(origin, imported_from):
                    if _source(origin, name) != file.resolve():
                        raise InvalidInputError(
                            f"{section.key!r} in the namespace {namespace!r} was imported from {origin}; import"
                            f" {imported_from} into a namespace of its own. Nothing was imported."
                        )
                    if Path(origin).is_dir():
                        # One file of a folder that was imported before still belongs to that folder.
                        section = dataclasses.replace(section, metadata={exchange.IMPORTED_FROM: origin})
                new.append(section)
    return new, imported_from


def _source(origin: str, name: str) -> Path:
    """Return the file that an import read: the one named, or the one of that name in the folder."""
    return Path(origin, name) if Path(origin).is_dir() else Path(origin)


def _same_import(origin: str, imported_from: str) -> bool:
    """Say whether two imports are of one path: the same, or one that has been moved since."""
    return origin == imported_from or (not Path(origin).exists() and Path(origin).name == Path(imported_from).name)


def gone(database: Database, new: Sequence[NewMemory], *, namespace: str, imported_from: str) -> list[Memory]:
    """Return the memories of an earlier import of the same path whose section is not among `new`."""
    chosen = Filter(namespace=checks.namespace(namespace), where={exchange.IMPORTED_FROM: {"$exists": True}})
    with database.read() as conn:
        before = memories.ids(conn, chosen.condition(conn, checks.now()), "oldest", -1, 0)
        there = memories.read(conn, before)
    kept = {checks.name("key", one.key, longest=checks.LONGEST_KEY) for one in new}
    return [
        there[one]
        for one in before
        if there[one].key not in kept and _same_import(str(there[one].metadata[exchange.IMPORTED_FROM]), imported_from)
    ]


def counted(written: Sequence[Memory]) -> ImportReport:
    """Return how many memories were added, changed and left as they were, and how many wait for vectors."""
    outcomes = [memory.outcome for memory in written]
    return ImportReport(
        added=outcomes.count("added"),
        updated=outcomes.count("updated") + outcomes.count("merged"),
        unchanged=outcomes.count("unchanged"),
        pending=sum(bool(memory.pending) for memory in written),
    )


def _export(database: Database, terms: Terms, profiles: Profiles, file: TextIO, namespace: str | None) -> int:
    number = 0
    chosen = Filter(namespace=checks.name("namespace", namespace))
    with database.read() as conn:
        file.writelines(exchange.term_line(term) + "\n" for term in terms.list())
        file.writelines(
            exchange.profile_line(name, weights) + "\n"
            for name, weights in profiles.list().items()
            if name not in PROFILES
        )
        for memory_id in sorted(memories.ids(conn, chosen.condition(conn, checks.now()), "oldest", -1, 0)):
            row = memories.get(conn, memory_id)
            if row is not None:
                file.write(exchange.memory_line(row, entities.given(conn, memory_id)) + "\n")
                number += 1
    return number

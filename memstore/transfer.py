"""Memories into a store: JSON Lines and Markdown."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from memstore import checks, exchange, memories, planning
from memstore.database import Database
from memstore.errors import InvalidInputError, NotFoundError
from memstore.exchange import Restored
from memstore.filters import Filter
from memstore.masking import masked, masked_values
from memstore.planning import Origin, Write
from memstore.profiles import Profile, Profiles
from memstore.records import ImportReport, Memory, NewMemory, Term
from memstore.terms import Terms
from memstore.writing import Writer


def import_jsonl(
    writer: Writer,
    terms: Terms,
    profiles: Profiles,
    lines: Iterable[str],
    progress: Callable[[int, int], None] | None,
    *,
    embed: bool,
    mask_secrets: bool,
) -> ImportReport:
    """Store what lines of JSON hold, known terms and profiles first; all are checked before any of it is written."""
    if isinstance(lines, str):
        raise InvalidInputError("lines is one text; give its lines, such as an open file or text.splitlines().")
    try:
        lines = iter(lines)
    except TypeError:
        raise InvalidInputError(f"lines is {type(lines).__name__}; give the lines of a text.") from None
    writes: list[Write] = []
    known: list[Term] = []
    saved: list[Profile] = []
    read = [_masked(found) if mask_secrets else found for found in exchange.read_lines(lines)]
    restored = _targets_first([found for found in read if isinstance(found, Restored)])
    origin = Origin(found.row for found in restored)
    for found in read:
        if isinstance(found, Term):
            known.append(found)
        elif isinstance(found, Profile):
            saved.append(found)
        elif not isinstance(found, Restored):
            writes.append(planning.adding(found, origin))
    writes = [*(planning.restoring(found.row, found.given, origin, found.used) for found in restored), *writes]
    writer.check(writes)
    terms.add_many(known)
    profiles.save_many(saved)
    written = writer.store(writes, progress, embed=embed)
    unlinked = sum(
        found.row.replaces is not None and memory.replaces is None
        for found, memory in zip(restored, written, strict=False)
    )
    return dataclasses.replace(counted(written), unlinked=unlinked)


def _targets_first(restored: Sequence[Restored]) -> list[Restored]:
    """Return exported memories in their order, but each behind the one that it replaces; refuse a ring of them."""
    at = {found.row.id: number for number, found in enumerate(restored)}
    order: dict[int, Restored] = {}
    for number in range(len(restored)):
        # What it replaces, what that replaces, … as far as it is not in its place yet.
        chain: dict[int, Restored] = {}
        step: int | None = number
        while step is not None and step not in order:
            if step in chain:
                one = restored[step].row
                raise InvalidInputError(
                    f"memories replace each other in a ring: {one.id} replaces {one.replaces}, which leads back to"
                    f" {one.id}; take replaces out of one of their lines. Nothing was imported."
                )
            chain[step] = restored[step]
            step = at.get(restored[step].row.replaces) if restored[step].row.replaces is not None else None
        order.update(reversed(chain.items()))
    return list(order.values())


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
    chosen = Filter(
        namespace=checks.namespace(namespace), where={exchange.IMPORTED_FROM: {"$exists": True}}, superseded=True
    )
    with database.read() as conn:
        before = memories.ids(conn, chosen.condition(conn, checks.now()), "oldest", -1, 0)
        there = memories.listed(conn, before)
    kept = {checks.name("key", one.key, longest=checks.LONGEST_KEY) for one in new}
    return [
        one
        for one in there
        if one.key not in kept and _same_import(str(one.metadata[exchange.IMPORTED_FROM]), imported_from)
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


def _masked(found: checks.Checked | Restored | Term | Profile) -> checks.Checked | Restored | Term | Profile:
    if isinstance(found, checks.Checked):
        return checks.without_secrets(found)
    if isinstance(found, Restored):
        metadata = checks.encoded(masked_values(checks.decoded(found.row.metadata)))
        row = dataclasses.replace(found.row, text=masked(found.row.text), metadata=metadata)
        return dataclasses.replace(found, row=row)
    return found

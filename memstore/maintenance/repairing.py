"""Repair: a copy first, then all that can be made again from the memories, then an examination of the outcome."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

from memstore import checks, memories, semantic
from memstore.database import Database, automatic_name, copy_bytes, drop_virtual
from memstore.entities import Recogniser
from memstore.errors import DamagedStoreError, InvalidInputError, NotFoundError, StorageError
from memstore.health import Repair
from memstore.maintenance.examining import Progress, examine
from memstore.maintenance.memory_checks import insane
from memstore.maintenance.rebuilding import Rebuilder
from memstore.maintenance.reporting import SALVAGE, Faults
from memstore.maintenance.vector_checks import shadows
from memstore.maintenance.vector_repairs import mend_space

# A table that was made again is filled in the round after, and its vectors follow in the last.
_MOST_ROUNDS = 3
# Makes the vectors that wait; returns how many, and why not all.
Embed: TypeAlias = Callable[[], tuple[int, str]]


def repair(
    data: Database,
    recogniser: Recogniser | None = None,
    *,
    accept: Iterable[int] = (),
    embed: Embed | None = None,
    progress: Progress | None = None,
) -> Repair:
    """Make again what can be made from the memories and from vectors that are as they were stored.

    A file without anything to repair is left as it is, and no copy is made. Each transaction leaves a file that can be
    used; one that was interrupted is repaired by another run. Memories that are not as memstore wrote them stay as they
    are, unless their ids are in `accept`. Raises `StorageError` where no copy can be made, with nothing changed.
    """
    began = time.monotonic()
    data.require_writable()
    accepted = _acceptable(data, accept)
    before = examination = examine(data, recogniser, progress)
    backup: Path | None = None
    made: dict[str, int] = {}
    notes: dict[str, None] = {}
    for _ in range(_MOST_ROUNDS):
        changed = False
        faults = examination.faults
        if faults.sealed:
            notes["nothing was written, since a write could harm what is still sound"] = None
            break
        if faults.objects if faults.unreadable else faults or accepted:
            if backup is None:
                backup = _back_up(data, notes)
            _rebuild(data, recogniser, faults, accepted, made, notes, progress)
            accepted, changed = [], True
        if embed is not None:
            embedded, problem = embed()
            changed |= embedded > 0
            _add(made, {"vectors made": embedded})
            if problem:
                notes[f"not all vectors could be made again: {problem}"] = None
        if not changed:
            break
        examination = examine(data, recogniser, progress)
        if not examination.faults:
            break
    left = [one.sentence for one in examination.diagnosis.findings if one.severity == "damage"]
    return Repair(
        backup=backup,
        rebuilt=made,
        lost=(*notes, *left),
        before=before.diagnosis,
        diagnosis=examination.diagnosis,
        seconds=time.monotonic() - began,
    )


def _rebuild(
    data: Database,
    recogniser: Recogniser | None,
    faults: Faults,
    accepted: list[int],
    made: dict[str, int],
    notes: dict[str, None],
    progress: Progress | None,
) -> None:
    rebuilder = Rebuilder(data, recogniser, faults)
    # Tables first: with them come their indexes and triggers.
    objects = sorted(dict.fromkeys(faults.objects), key=lambda key: key[0] != "table")
    steps: dict[str, Callable[[], None]] = {
        "the indexes": rebuilder.indexes,
        **{f"the {kind} {name}": partial(rebuilder.object, (kind, name)) for kind, name in objects},
    }
    # Nothing is made again from half of the memories; a table that they are read with may just have come back.
    if not faults.unreadable:
        steps |= {
            "what belongs to nothing": rebuilder.strays,
            "the ids that are given": rebuilder.sequences,
            "the marks of memories": lambda: rebuilder.rows(accepted),
            "the keyword index": rebuilder.entries,
            "the list of stems": rebuilder.stems,
            "the known terms": rebuilder.terms,
            "the entities": rebuilder.names,
            "what is made of the memories": lambda: rebuilder.memories(progress),
            "the entities of no memory": rebuilder.idle,
            "the vectors": lambda: _vectors(data, faults, made, notes),
            "the counts": rebuilder.counts,
        }
    for what, step in steps.items():
        # What one step is refused does not keep the others from being done.
        try:
            step()
        except (DamagedStoreError, StorageError) as error:
            notes[f"{what} could not be mended ({error.__cause__ or error}); {SALVAGE}"] = None
    _add(made, rebuilder.made)


def _vectors(data: Database, faults: Faults, made: dict[str, int], notes: dict[str, None]) -> None:
    """Mend each space in a transaction of its own, and drop the tables that belong to none."""
    with data.read() as conn:
        spaces = semantic.spaces(conn)
    broken = [space for space in spaces if faults.spaces.get(space.id) or faults.strays]
    if not broken and not faults.leftovers:
        return
    if data.vectors_unavailable is not None:
        notes[f"the vectors could not be mended: {data.vectors_unavailable}"] = None
        return
    for space in broken:
        try:
            with data.write() as conn:
                kept, dropped = mend_space(conn, space, faults.space(space.id), data.path.parent)
        except (DamagedStoreError, StorageError) as error:
            notes[f"the vectors of {space.name} could not be mended ({error.__cause__ or error}); {SALVAGE}"] = None
            continue
        _add(made, {"vectors kept" if faults.space(space.id).table else "": kept, "vectors dropped": dropped})
    for table in faults.leftovers:
        with data.write() as conn:
            drop_virtual(conn, table, shadows(table))
        _add(made, {"tables of vectors removed": 1})


def _acceptable(data: Database, accept: Iterable[int]) -> list[int]:
    """Return the ids of memories to be taken as they are, or refuse one that is not there or is no memory."""
    ids = checks.identifiers(accept)
    if ids:
        with data.read() as conn:
            for one in ids:
                # As it stands: what no write could have left is told of here, and not refused to be read.
                row = memories.rows(conn, [one]).get(one)
                if row is None:
                    raise NotFoundError(f"there is no memory {one}; nothing was repaired.")
                if reason := insane(row):
                    raise InvalidInputError(
                        f"memory {one} can't be taken as it is: it has {reason}; delete it, or put back a backup."
                        " Nothing was repaired."
                    )
    return ids


def _back_up(data: Database, notes: dict[str, None]) -> Path:
    """Copy the file beside itself before it is changed."""
    target = automatic_name(data.path, "repair")
    try:
        return data.copy(target)
    except (DamagedStoreError, StorageError) as error:
        target.unlink(missing_ok=True)
        failure = error
    try:
        # Nothing may write to the file while its bytes are read.
        with data.write():
            copy_bytes(data.path, target)
    except OSError as error:
        with suppress(OSError):
            target.unlink(missing_ok=True)
        raise StorageError(
            f"{data.path.name} can't be copied before its repair ({error.strerror or error}); nothing was changed. Free"
            " some space."
        ) from failure
    notes[f"{target.name} was copied byte for byte, since SQLite can't copy the file ({failure})"] = None
    return target


def _add(made: dict[str, int], more: dict[str, int]) -> None:
    for what, number in more.items():
        if what and number:
            made[what] = made.get(what, 0) + number

"""A backup: a copy of a file that others may be writing, verified before it gets its name."""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from memstore.database import Database, checked_path, is_sound, new_file
from memstore.errors import DamagedStoreError, StorageError
from memstore.health import Backup
from memstore.maintenance.verifying import Summary, summary

Progress: TypeAlias = Callable[[int, int], None]


def back_up(database: Database, destination: str | os.PathLike[str], progress: Progress | None) -> Backup:
    """Copy a store to a new file, and read that back before it has its name; see `Maintenance.backup`."""
    began = time.monotonic()
    target = checked_path(destination)
    if target.is_dir():
        target = target / _dated(database.path)
    with new_file(target) as made:
        # One read transaction, so that the copy and what it is compared with are of one state of the file.
        with database.read() as conn:
            wanted = summary(conn)
            database.copy(made, progress=progress)
        found = _read_back(database, made)
        if found != wanted:
            raise _refused(database, target)
        size = made.stat().st_size
    return Backup(
        path=target,
        size_bytes=size,
        memories=wanted.memories,
        damaged=wanted.damaged,
        vectors=wanted.vectors,
        seconds=time.monotonic() - began,
    )


def _dated(path: Path) -> str:
    """Return the name of a backup in a folder: `memory-20260131T120000Z.db`."""
    return f"{path.stem}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}{path.suffix}"


def _read_back(database: Database, made: Path) -> Summary | None:
    """Return what a copy holds, None where SQLite finds something wrong with it."""
    with database.reading_copy(made) as conn:
        return summary(conn) if is_sound(conn) else None


def _refused(database: Database, target: Path) -> DamagedStoreError | StorageError:
    """Return why a copy is not kept: the file is damaged itself, or the copy is not the same."""
    with database.read() as conn:
        if is_sound(conn):
            return StorageError(f"the copy at {target} is not what was copied; check that disk and try again.")
    return DamagedStoreError(
        f"{database.path.name} is damaged, and a backup would be too; memstore doctor says what is wrong. No backup was"
        " made, and those that are there are as they were."
    )

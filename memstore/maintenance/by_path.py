"""The care of a file that can't be opened as a store, or need not be: by its path, with no model."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

from memstore.database import Database, Key
from memstore.errors import DamagedStoreError, NotAStoreError, StorageError
from memstore.health import Diagnosis, Finding, Repair
from memstore.maintenance.examining import Progress, examine
from memstore.maintenance.repairing import repair
from memstore.maintenance.reporting import SALVAGE


def diagnose(path: str | os.PathLike[str], *, key: Key | None = None, progress: Progress | None = None) -> Diagnosis:
    """Check a file as `store.maintenance.doctor` does, one that can't be opened as a store too; nothing is changed.

    Such a file has one finding, which says why. `key` is that of an encrypted file. Raises `NotAStoreError` where
    there is no file, `NewerSchemaError`, `EncryptionError`, `BusyError`, and `ReadOnlyError` on a file of an earlier
    schema, which is to be opened once for writing.
    """
    began = time.monotonic()
    try:
        data = Database(path, read_only=True, key=key)
    except (DamagedStoreError, NotAStoreError, StorageError) as error:
        if not _is_file(path):
            raise
        return _unopened(Path(path), error, began)
    try:
        return examine(data, progress=progress).diagnosis
    finally:
        data.close()


def mend(
    path: str | os.PathLike[str],
    *,
    accept: Iterable[int] = (),
    key: Key | None = None,
    progress: Progress | None = None,
) -> Repair:
    """Repair a file as `store.maintenance.repair` does, without a model: vectors that are made anew go on waiting.

    A file that can't be opened at all is left as it is, and the diagnosis says so.
    """
    began = time.monotonic()
    try:
        data = Database(path, key=key)
    except (DamagedStoreError, NotAStoreError, StorageError) as error:
        if not _is_file(path):
            raise
        found = _unopened(Path(path), error, began)
        return Repair(
            backup=None,
            rebuilt={},
            lost=tuple(one.sentence for one in found.findings),
            before=found,
            diagnosis=found,
            seconds=time.monotonic() - began,
        )
    try:
        return repair(data, accept=accept, progress=progress)
    finally:
        data.close()


def _is_file(path: str | os.PathLike[str]) -> bool:
    """Say whether there is something that could have been a store: an ordinary file that can be read, not empty."""
    return os.path.isfile(path) and os.access(path, os.R_OK) and os.path.getsize(path) > 0


def _unopened(path: Path, error: Exception, began: float) -> Diagnosis:
    return Diagnosis(
        path=path.absolute(),
        findings=(
            Finding(
                part="file",
                severity="damage",
                sentence=str(error).rstrip("."),
                count=1,
                remedy=SALVAGE,
            ),
        ),
        checked={},
        seconds=time.monotonic() - began,
    )

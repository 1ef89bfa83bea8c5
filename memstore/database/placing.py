"""New files that have their name only once they are whole, and copies of old ones that change nothing of those."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memstore.database.aside import state
from memstore.database.byte_copies import copy_bytes
from memstore.database.copies import partial_name
from memstore.database.faults import translated
from memstore.database.paths import checked_path
from memstore.errors import BusyError, StorageError

_JOURNALS = ("-wal", "-journal")
# A file that is being written changes while it is copied; it is copied again so many times.
_TRIES = 5
_LONGEST_PREFIX = 60


@contextmanager
def new_file(destination: str | os.PathLike[str]) -> Iterator[Path]:
    """Hand out the path of a file to make, which gets the name `destination` when it is made.

    Until then it stands in a folder of its own beside that name, which only its owner can read and which goes in any
    case, but for a kill: `<name>.partial-…`. Raises `StorageError` when the name is taken, before or meanwhile, and
    when nothing can be made there.
    """
    target = checked_path(destination)
    _refuse_taken(target)
    try:
        folder = Path(tempfile.mkdtemp(prefix=partial_name(target.name[:_LONGEST_PREFIX]), dir=target.parent))
    except OSError as error:
        raise StorageError(
            f"{target} can't be made ({error.strerror}); make room if the disk is full, or choose another folder."
        ) from error
    try:
        made = folder / target.name
        yield made
        _sync(made, os.O_RDWR)
        _name(made, target)
    except OSError as error:
        raise StorageError(
            f"{target} can't be written ({error.strerror or error}); make room if the disk is full. Nothing was kept."
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        _sync(target.parent, os.O_RDONLY)


def copy_aside(path: Path, folder: Path) -> Path:
    """Copy a file and the logs beside it as bytes, so that nothing of them is changed; return the copy's path.

    Raises `BusyError` where it is being written all the while, `StorageError` where it can't be read.
    """
    copy = folder / "original.db"
    for _ in range(_TRIES):
        before = state(path)
        for end in ("", *_JOURNALS):
            copy.with_name(copy.name + end).unlink(missing_ok=True)
        with translated(path):
            copy_bytes(path, copy)
        journal = path.with_name(path.name + "-journal")
        if journal.exists():
            shutil.copyfile(journal, copy.with_name(copy.name + "-journal"))
        if state(path) == before:
            return copy
    raise BusyError(f"{path.name} is being written; close it everywhere and try again.")


def _refuse_taken(target: Path) -> None:
    if os.path.lexists(target):
        raise StorageError(f"{target} exists already; name a new file.")


def _name(made: Path, target: Path) -> None:
    """Give a file its name, without taking it from another that has it meanwhile."""
    try:
        os.link(made, target)
    except FileExistsError:
        _refuse_taken(target)
        raise
    except OSError:
        # Not every disk lets a file have two names.
        _refuse_taken(target)
        os.rename(made, target)


def _sync(path: Path, flags: int) -> None:
    """Wait until what a file or folder holds is on the disk."""
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""What is read in place of a file that can't be read where it is: the file without its locks, or a copy of it."""

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import apsw

# Size and time of change of a file and of what is beside it.
State: TypeAlias = tuple[tuple[int, int] | None, ...]
_BESIDE = ("", "-wal", "-journal")
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class StandIn:
    """What is opened, with which flags, in place of a file; `told` is what its reader is to know."""

    path: Path
    name: str
    flags: int
    state: State
    folder: Path | None = None
    told: str | None = None

    def out_of_date(self) -> bool:
        """Return whether the file has changed since."""
        return state(self.path) != self.state

    def remove(self) -> None:
        """Remove the copy, if it is one."""
        if self.folder is not None:
            _remove(self.folder, os.getpid())


def state(path: Path) -> State:
    """Return what tells one state of a file, and of the journals beside it, from another."""
    found: list[tuple[int, int] | None] = []
    for end in _BESIDE:
        try:
            one = os.stat(f"{path}{end}")
            found.append((one.st_size, one.st_mtime_ns))
        except FileNotFoundError:
            found.append(None)
    return tuple(found)


def log_waits(path: Path) -> bool:
    """Return whether there is a log beside a file that is not empty."""
    log = state(path)[_BESIDE.index("-wal")]
    return log is not None and log[0] > 0


def stand_in(path: Path, recover: Callable[[Path], None]) -> StandIn:
    """Return what can be read in place of a file whose folder can't be written.

    Without a journal beside it the file itself is read without locks: where its folder can't be written hardly anyone
    else changes it, and `StandIn.out_of_date` tells when someone has. A journal holds committed memories, or takes
    back what was not committed: then it is copied with the file, and `recover` opens the copy once to carry it out.
    Raises `OSError` where it can't be copied.
    """
    before = state(path)
    if not any(one is not None and one[0] for one in before[1:]):
        name, flags = f"{path.as_uri()}?immutable=1", apsw.SQLITE_OPEN_URI
        return StandIn(path=path, name=name, flags=flags, state=before)
    folder = Path(tempfile.mkdtemp(prefix="memstore-"))
    try:
        for _ in range(_TRIES):
            before = state(path)
            for end, one in zip(_BESIDE, before, strict=True):
                if one is not None:
                    shutil.copyfile(f"{path}{end}", folder / f"{path.name}{end}")
                else:
                    (folder / f"{path.name}{end}").unlink(missing_ok=True)
            if state(path) == before:
                break
        else:
            raise OSError("it changes all the time")
        copy = folder / path.name
        recover(copy)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    found = StandIn(
        path=path,
        name=str(copy),
        flags=0,
        state=before,
        folder=folder,
        told="its folder can't be written and a journal beside it holds memories, so a copy of both is read,"
        f" in {folder} until the store is closed",
    )
    # A store that is never closed leaves no copy of its memories behind.
    weakref.finalize(found, _remove, folder, os.getpid())
    return found


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)

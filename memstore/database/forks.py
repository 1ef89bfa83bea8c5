"""Forks: a child must not inherit a handle of a file.

SQLite notes for a process which locks it holds, and the system gives a child none of its parent's. A child that has
inherited a handle believes that it holds what the parent held: it asks for no lock of its own, and what it commits can
be lost when the parent closes the file (https://www.sqlite.org/howtocorrupt.html, 2.6). So what can be closed is closed
before a fork, by the process whose it is.
"""

import contextlib
import ctypes
import threading
import time
import weakref
from pathlib import Path
from typing import Any, Protocol

import apsw

from memstore.database import faults
from memstore.errors import StorageError
from memstore.forking import at_fork


class Held(Protocol):
    """What holds handles of files."""

    def before_fork(self, deadline: float) -> None:
        """Close every handle once no transaction uses one, or leave them at the deadline; let nobody open others."""

    def after_fork(self, *, child: bool) -> None:
        """Let handles be opened again; in a child those that are left are the parent's."""


_held: "weakref.WeakSet[Held]" = weakref.WeakSet()
_forking: list[Held] = []
_lock = threading.RLock()
# Files of which this process has inherited a handle that could not be closed, by device and inode.
_inherited: set[tuple[int, int]] = set()


def watch(one: Held) -> None:
    """Have handles closed before each fork of this process."""
    with _lock:
        _held.add(one)


def inherit(path: Path, handles: list[Any]) -> None:
    """Note that handles of a file are a parent's: they are never closed, and the file is not opened in this process."""
    with contextlib.suppress(OSError):
        found = path.stat()
        _inherited.add((found.st_dev, found.st_ino))
    # What is referred to once more than anything knows is not closed when the interpreter ends; the driver's module
    # would close what it knows to be open.
    for one in (apsw, *handles):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def refuse_inherited(path: Path) -> None:
    """Raise `StorageError` for a file of which this process has inherited a handle."""
    if not _inherited:
        return
    with contextlib.suppress(OSError):
        found = path.stat()
        if (found.st_dev, found.st_ino) in _inherited:
            raise StorageError(
                f"{path.name} can't be used in this process: it was forked in the middle of a transaction on that"
                " file; fork before or after it, or start a new process."
            )


def _before() -> None:
    _lock.acquire()
    _forking[:] = list(_held)
    deadline = time.monotonic() + faults.BUSY_SECONDS
    for one in _forking:
        one.before_fork(deadline)


def _after(*, child: bool) -> None:
    global _lock
    for one in _forking:
        one.after_fork(child=child)
    _forking.clear()
    if child:
        _lock = threading.RLock()
    else:
        _lock.release()


# Who uses a file may wait for a model: files first, then what `forking` waits for.
at_fork(_before, lambda: _after(child=False), lambda: _after(child=True))

"""The connections of one file: one for each thread that asks, none of them carried through a fork."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from memstore.database import faults, forks
from memstore.database.opening import Opener
from memstore.errors import BusyError, StorageError


class Connections:
    """A connection for each thread; a fork waits until none is in use, and closes them."""

    def __init__(self, path: Path, opener: Opener) -> None:
        self._path = path
        self._opener = opener
        self._local = threading.local()
        # By thread, so that those of ended threads are closed.
        self._opened: list[tuple[threading.Thread, apsw.Connection]] = []
        # What a thread was given before this number last changed is not used again.
        self._generation = 0
        self._used = 0
        self._forking: threading.Thread | None = None
        self._changed = threading.Condition()
        self._pid = os.getpid()
        self._closed = False
        forks.refuse_inherited(path)
        forks.watch(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """No fork of this process happens meanwhile, unless this thread forks or the wait is too long."""
        depth: int = getattr(self._local, "depth", 0)
        if depth == 0:
            with self._changed:
                self._changed.wait_for(lambda: self._forking in (None, threading.current_thread()))
                self._used += 1
        local, pid = self._local, os.getpid()
        local.depth = depth + 1
        try:
            yield
        finally:
            # In a child that was forked meanwhile nothing is held any more.
            if os.getpid() == pid:
                local.depth = depth
                if depth == 0:
                    with self._changed:
                        self._used -= 1
                        self._changed.notify_all()

    @contextmanager
    def using(self) -> Iterator[apsw.Connection]:
        """Hold this thread's connection."""
        with self.held():
            yield self.own()

    def own(self) -> apsw.Connection:
        """Return this thread's connection, opened when it is first asked for."""
        if self._closed:
            raise StorageError(f"{self._path.name} was closed; open the store again.")
        self._notice_fork()
        forks.refuse_inherited(self._path)
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is not None and self._local.generation == self._generation:
            if connection.in_transaction or not self._opener.out_of_date():
                return connection
            # The connections of other threads may be in use; each thread parts with its own.
            self._generation += 1
        if connection is not None:
            connection.close()
        connection = self._opener.connect()
        self._local.connection, self._local.generation = connection, self._generation
        self._keep(connection)
        return connection

    def close(self) -> None:
        """Close every connection once no other thread uses one; the last brings the write-ahead log into the file.

        No transaction is begun any more. Raises `BusyError` when one goes on too long: it can be closed again then.
        """
        self._notice_fork()
        self._closed = True
        own = 1 if getattr(self._local, "depth", 0) else 0
        try:
            with self._changed:
                idle = self._changed.wait_for(lambda: self._used <= own, faults.BUSY_SECONDS)
            if not idle:
                raise BusyError(f"{self._path.name} is still used by another thread; close it again when that is done.")
            self._close_all()
        finally:
            self._opener.close()

    def before_fork(self, deadline: float) -> None:
        """Close every connection once none is in use; leave them at the deadline, or where this thread uses one."""
        if getattr(self._local, "depth", 0):
            return
        with self._changed:
            self._forking = threading.current_thread()
            idle = self._changed.wait_for(lambda: not self._used, max(0.0, deadline - time.monotonic()))
        if idle:
            with contextlib.suppress(apsw.Error):
                self._close_all()

    def after_fork(self, *, child: bool) -> None:
        """Let connections be opened again; in a child those that are left are its parent's."""
        if not child:
            with self._changed:
                self._forking = None
                self._changed.notify_all()
            return
        self._opener.forked()
        if self._opened:
            forks.inherit(self._path, [connection for _, connection in self._opened])
        self._opened = []
        self._local, self._changed = threading.local(), threading.Condition()
        self._used, self._forking, self._pid = 0, None, os.getpid()

    def _notice_fork(self) -> None:
        # A fork made by a C library runs no hooks of Python.
        if os.getpid() != self._pid:
            self.after_fork(child=True)

    def _keep(self, connection: apsw.Connection) -> None:
        with self._changed:
            own = threading.current_thread()
            ended = [one for thread, one in self._opened if not thread.is_alive()]
            # What this thread had is closed.
            self._opened = [(thread, one) for thread, one in self._opened if thread.is_alive() and thread is not own]
            self._opened.append((own, connection))
        for one in ended:
            one.close()

    def _close_all(self) -> None:
        self._generation += 1
        while self._opened:
            # One that can't be closed stays.
            self._opened[-1][1].close()
            self._opened.pop()

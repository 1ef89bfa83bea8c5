"""Forks of a process whose threads are at work: a fork waits for what it must not fall into."""

# These take locks before a fork that threads at work may want: they must have registered first, to do so last.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# How long a fork waits for the threads that use a model.
_PATIENCE_SECONDS = 15.0


class _Using:
    """The threads in the middle of something."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        self._changed = threading.Condition()
        self._threads: Counter[int] = Counter()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        own, threads = threading.get_ident(), self._threads
        with self._changed:
            threads[own] += 1
        try:
            yield
        finally:
            with self._changed:
                threads[own] -= 1
                if not threads[own]:
                    del threads[own]
                self._changed.notify_all()

    def wait_for_others(self) -> None:
        own = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: not self._threads.keys() - {own}, _PATIENCE_SECONDS)


_models = _Using()


@contextmanager
def using_a_model() -> Iterator[None]:
    """Have no fork fall into what loads or asks a model, or imports a library: it waits for that, for some seconds.

    A child would wait for ever for an import that another thread had begun, and so would a thread of the parent for
    what it had asked of OpenBLAS, which ends its own threads at a fork. It begins even when a fork is waiting: who uses
    a file, which a fork waits for too, may wait for this.
    """
    with _models():
        yield


def at_fork(before: Callable[[], None], in_parent: Callable[[], None], in_child: Callable[[], None]) -> None:
    """Have functions called at each fork; of all that are called before it, the last that were given come first."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)


at_fork(_models.wait_for_others, lambda: None, _models.begin_anew)

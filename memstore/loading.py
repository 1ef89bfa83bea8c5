"""What takes its time to open, opened when first used: in a thread, not again at every call, and well after a fork."""

import os
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from memstore import forking
from memstore.errors import ModelError, first_line

Opened = TypeVar("Opened")
# What could not be loaded is not tried again at every call.
_RETRY_SECONDS = 30.0


class Guard:
    """A lock that a forked child has anew: the thread that held it then is not there to give it back."""

    def __init__(self) -> None:
        self._locks: dict[int, threading.Lock] = {}

    @property
    def lock(self) -> threading.Lock:
        # At once for all threads, so that no two have different locks.
        return self._locks.setdefault(os.getpid(), threading.Lock())


class Loading(Generic[Opened]):
    """A model that is loaded when first asked for, and where that fails not again within half a minute.

    `kind` is what is raised, and names what the model is; `label` names it.
    """

    def __init__(self, kind: type[ModelError], label: str, load: Callable[[], Opened]) -> None:
        self._kind = kind
        self._subject = f"the {kind.subject} {label}"
        self._load = load
        self._opened: Opened | None = None
        self._failure = ""
        self._failed_at = 0.0
        self._guard = Guard()
        self._loader: threading.Thread | None = None
        self._waited = False

    @property
    def loaded(self) -> bool:
        return self._opened is not None

    def opened(self, wait: float | None = None) -> Opened:
        """Return the model, loaded; wait for that up to `wait` seconds, without bound when None.

        Loading goes on beside the caller when the wait is over, and is not waited for a second time. Raises an error
        of its kind when the model can't be loaded, or not in time.
        """
        if self._opened is not None:
            return self._opened
        with self._guard.lock:
            # The loader may have ended since.
            if self._opened is not None:
                return self._opened
            # One that is dead and did not say that it ended was lost in a fork.
            if self._loader is None or not self._loader.is_alive():
                if self._failure and time.monotonic() - self._failed_at < _RETRY_SECONDS:
                    raise self._kind(self._failure)
                self._loader, self._waited = threading.Thread(target=self._run, daemon=True), False
                self._loader.start()
            loader = self._loader
        loader.join(0.0 if wait is not None and self._waited else wait)
        if self._opened is not None:
            return self._opened
        if loader.is_alive():
            self._waited = True
            raise self._kind(f"{self._subject} was not loaded within {wait:g} seconds and loads on")
        raise self._kind(self._failure)

    def _run(self) -> None:
        failure = f"{self._subject} can't be loaded"
        try:
            with forking.using_a_model():
                self._opened = self._load()
            failure = ""
        except self._kind as error:
            failure = str(error)
        except Exception as error:
            failure = f"{failure} ({first_line(error)})"
        finally:
            self._failure, self._failed_at = failure, time.monotonic()
            with self._guard.lock:
                self._loader = None

"""How a connection waits for locks: at random intervals, so that none is passed over, and not for ever."""

import random
import time

from memstore.database import faults

_SHORTEST, _LONGEST = 0.0005, 0.01


def pause() -> None:
    """Sleep for a few milliseconds, at random."""
    time.sleep(random.uniform(_SHORTEST, _LONGEST))


class Patience:
    """A busy handler of one connection: it waits up to `BUSY_SECONDS` for a lock.

    SQLite's own sleeps longer the longer it has waited, so that a newcomer, who asks every few milliseconds, gets the
    lock before one who came long ago (https://www.sqlite.org/c3ref/busy_timeout.html). Here all have the same chance.
    """

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self, tries: int) -> bool:
        """Return whether SQLite is to try again, after `tries` earlier calls for the same lock."""
        now = time.monotonic()
        if tries == 0:
            self._since = now
        if now - self._since > faults.BUSY_SECONDS:
            return False
        pause()
        return True

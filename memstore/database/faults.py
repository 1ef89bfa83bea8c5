"""The driver's errors as ours, each naming the file and a remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from memstore.errors import (
    BusyError,
    DamagedStoreError,
    MemstoreError,
    NotAStoreError,
    ReadOnlyError,
    StorageError,
    first_line,
)

# How long a write waits for other writers, and anything for a lock.
BUSY_SECONDS = 15.0
REMEDY = "memstore doctor says what is wrong, memstore salvage brings what can be read into a new file"
# What Python raises when a value is not of the kind or form that was stored.
UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError, RecursionError)
# The statements are ours and what they ask for is checked before: where SQLite finds no such table or column, text that
# is no JSON, or two rows where one may be, the file is not as it was written.
_DAMAGE = (apsw.CorruptError, apsw.FormatError, apsw.SQLError, apsw.ConstraintError, apsw.MismatchError)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    name = path.name
    try:
        yield
    except apsw.BusyError as error:
        raise BusyError(
            f"{name} was locked by another process for more than {BUSY_SECONDS:.0f} seconds; try again."
        ) from error
    except apsw.NotADBError as error:
        raise NotAStoreError(
            f"{path} is not a memstore file (it does not begin like SQLite); it was left as it is."
        ) from error
    except _DAMAGE as error:
        raise damaged(path, error) from error
    except apsw.ReadOnlyError as error:
        raise ReadOnlyError(f"{name} can't be changed: the disk or its permissions forbid it.") from error
    except apsw.FullError as error:
        raise StorageError(f"{name}: the disk is full; nothing of this write was kept. Free some space.") from error
    except apsw.CantOpenError as error:
        raise NotAStoreError(f"{path} can't be opened ({error}); check the folder's permissions.") from error
    except UnicodeDecodeError as error:
        raise DamagedStoreError(f"{path} is damaged (a text in it is no text); {REMEDY}.") from error
    except apsw.Error as error:
        raise StorageError(f"{name}: SQLite refused ({error}).") from error


def damaged(path: Path, error: BaseException) -> DamagedStoreError:
    """Return what is said of a file that holds what was never written."""
    return DamagedStoreError(f"{path} is damaged ({first_line(error)}); {REMEDY}.")


@contextmanager
def as_stored(what: str) -> Iterator[None]:
    """Take what is read inside for what was written: where it can't be, raise `DamagedStoreError` naming `what`."""
    try:
        yield
    except MemstoreError:
        raise
    except UNREADABLE as error:
        raise DamagedStoreError(f"{what} is damaged ({first_line(error)}); {REMEDY}.") from error

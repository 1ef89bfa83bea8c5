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

# How long a transaction waits for a lock that others hold.
BUSY_SECONDS = 15.0
# What Python raises when a value is not of the kind or form that was stored.
UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError, RecursionError)
# What a disk answers that can't hold a write-ahead log: no memory that processes share, or no locks in it.
JOURNAL_REFUSED = (apsw.IOError, apsw.ProtocolError, apsw.CantOpenError)
_LOCKS = {
    apsw.SQLITE_IOERR_SHMOPEN,
    apsw.SQLITE_IOERR_SHMSIZE,
    apsw.SQLITE_IOERR_SHMLOCK,
    apsw.SQLITE_IOERR_SHMMAP,
    apsw.SQLITE_IOERR_LOCK,
    apsw.SQLITE_IOERR_UNLOCK,
    apsw.SQLITE_IOERR_RDLOCK,
    apsw.SQLITE_IOERR_CHECKRESERVEDLOCK,
}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except apsw.Error as error:
        raise _said(path, error) from error
    except UnicodeDecodeError as error:
        raise damaged(path, "a text in it is no text") from error


def _said(path: Path, error: apsw.Error) -> MemstoreError:
    name = path.name
    match error:
        case apsw.BusyError():
            return BusyError(
                f"{name} was locked by another process for more than {BUSY_SECONDS:.0f} seconds; try again."
            )
        case apsw.LockedError():
            return StorageError(f"{name}: a table is in use by another statement ({error}); try again.")
        case apsw.NotADBError():
            return NotAStoreError(
                f"{path} is not a memstore file (it does not begin like SQLite), or it is encrypted and needs its key;"
                " it was left as it is."
            )
        case apsw.CorruptError() | apsw.FormatError() | apsw.SQLError() | apsw.MismatchError():
            # The statements are ours, and what they are given is checked before: where SQLite finds no such table or
            # column, or a text that is no JSON, the file is not as it was written.
            return damaged(path, str(error))
        case apsw.ReadOnlyError():
            return ReadOnlyError(f"{name} can't be changed: it is read-only; check the disk and the permissions.")
        case apsw.FullError():
            return StorageError(f"{name}: the disk is full; nothing of this write was kept. Free some space.")
        case apsw.CantOpenError():
            return NotAStoreError(f"{path} can't be opened ({error}); check the folder's permissions.")
        case apsw.PermissionsError() | apsw.AuthError():
            return StorageError(f"{name}: access was denied ({error}); check the permissions of file and folder.")
        case apsw.IOError() | apsw.ProtocolError():
            return _disk(name, error)
        case apsw.NoLFSError():
            return StorageError(f"{name} is too large for this disk ({error}); move it to another.")
        case apsw.NoMemError():
            return StorageError(f"{name}: there is not enough memory; nothing of this write was kept. Free some.")
        case apsw.TooBigError():
            return StorageError(f"{name}: a text or value is longer than SQLite takes ({error}); shorten it.")
        case apsw.ConstraintError():
            return StorageError(
                f"{name}: what was to be written breaks a rule of the file ({error}); nothing of it was kept."
                f" Run memstore doctor --db {name}."
            )
        case apsw.ConnectionClosedError() | apsw.CursorClosedError() | apsw.VFSFileClosedError():
            return StorageError(f"{name} was closed meanwhile; open the store again.")
        case apsw.InterruptError() | apsw.AbortError():
            return StorageError(f"{name}: the work was interrupted, and nothing of it was kept; try again.")
        case _:
            return StorageError(f"{name}: SQLite refused ({error}); run memstore doctor --db {name}.")


def damaged(path: Path, how: str) -> DamagedStoreError:
    """Return what is said of a file that holds what was never written."""
    return DamagedStoreError(
        f"{path} is damaged ({how}); memstore doctor --db {path.name} says where, memstore salvage {path.name} DEST"
        " saves what can be read, or restore a backup of it."
    )


@contextmanager
def as_stored(what: str) -> Iterator[None]:
    """Take what is read inside for what was written: where it can't be, raise `DamagedStoreError` naming `what`."""
    try:
        yield
    except MemstoreError:
        raise
    except UNREADABLE as error:
        raise DamagedStoreError(
            f"{what} is damaged ({first_line(error)}); memstore doctor says what else is, memstore salvage saves what"
            " can be read, or restore a backup of the file."
        ) from error


def _disk(name: str, error: apsw.Error) -> StorageError:
    code = getattr(error, "extendedresult", 0)
    if isinstance(error, apsw.ProtocolError) or code in _LOCKS:
        return StorageError(
            f"{name}: the locks of this disk do not work ({_code(error)}), as on some network drives; move the file to"
            " a local disk, or open it with journal='delete'."
        )
    return StorageError(
        f"{name}: the disk failed ({_code(error)}); nothing of this write was kept. Look after the disk, then run"
        f" memstore doctor --db {name}."
    )


def _code(error: apsw.Error) -> str:
    """Return what SQLite says, and its name of what exactly failed."""
    code = getattr(error, "extendedresult", 0)
    exact = apsw.mapping_extended_result_codes.get(code)
    return f"{error}, {exact}" if isinstance(exact, str) else str(error)

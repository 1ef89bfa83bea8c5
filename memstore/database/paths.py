"""Where a file may be: paths that can hold a store, and files that their owner alone can read."""

import os
import stat
from pathlib import Path

import apsw

from memstore.errors import NotAStoreError, StorageError

_MINIMUM_SQLITE = (3, 43)


def sqlite_version() -> str:
    """Return the version of the SQLite library in use."""
    return str(apsw.sqlite_lib_version())


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return a path, absolute, that a file can have; raise `NotAStoreError` otherwise."""
    try:
        found = Path(os.fsdecode(path)).absolute()
        str(found).encode()
        # What is too long, or holds a NUL, is refused by the system itself; what is missing is no matter yet.
        os.lstat(found)
    except (FileNotFoundError, NotADirectoryError):
        return found
    except (OSError, TypeError, ValueError) as error:
        raise NotAStoreError(f"{path!r} can't be the path of a file ({error}); name another.") from error
    return found


def require_file(path: Path, *, may_create: bool) -> None:
    """Raise `NotAStoreError` where no store can be opened at a path, `StorageError` where SQLite is too old."""
    if tuple(int(part) for part in apsw.sqlite_lib_version().split(".")[:2]) < _MINIMUM_SQLITE:
        raise StorageError(
            f"SQLite {apsw.sqlite_lib_version()} is too old, memstore needs 3.43; pip install --upgrade apsw"
        )
    if path.name == ":memory:":
        raise NotAStoreError(
            "a store is a file, there is none in memory; name a path, in a temporary folder if need be."
        )
    if path.is_dir():
        raise NotAStoreError(f"{path} is a folder; name a file in it, such as {path / 'memory.db'}.")
    if not path.exists():
        if not may_create:
            raise NotAStoreError(f"{path} does not exist, and a store that is only read is not created.")
        if not path.parent.is_dir():
            raise NotAStoreError(f"{path} can't be created: the folder {path.parent} does not exist; make it first.")
        return
    if not stat.S_ISREG(path.stat().st_mode):
        raise NotAStoreError(f"{path} is not an ordinary file; name another.")
    if not os.access(path, os.R_OK):
        raise NotAStoreError(f"{path} can't be read: its permissions forbid it.")


def why_read_only(path: Path) -> str | None:
    """Return why a file that is there can only be read, None where it can be written."""
    if path.exists() and not os.access(path, os.W_OK):
        return "the file's permissions only let it be read"
    if path.exists() and not os.access(path.parent, os.W_OK):
        return f"the folder {path.parent} can't be written"
    return None


def create_private(path: Path) -> None:
    """Make the file before SQLite does, readable by its owner alone; the log beside it takes the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise NotAStoreError(f"{path} can't be created: {error.strerror}; choose another folder.") from error


def loose_modes(path: Path) -> list[tuple[Path, int]]:
    """Return a file, and the files beside it that hold its memories, that others than their owner can read or write.

    Each comes with its mode. Where the system has no such modes there is none.
    """
    if os.name != "posix":
        return []
    beside = [path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-journal")]
    modes = [(one, stat.S_IMODE(one.stat().st_mode)) for one in beside if one.exists()]
    return [(one, mode) for one, mode in modes if mode & 0o077]

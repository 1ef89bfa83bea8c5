"""Where a file may be: paths that can hold a store, and files that their owner alone can read."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import apsw

from memstore.database.copies import automatic_backups
from memstore.errors import NotAStoreError, StorageError

_MINIMUM_SQLITE = (3, 43)


def sqlite_version() -> str:
    """Return the version of the SQLite library in use."""
    return str(apsw.sqlite_lib_version())


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return a path, absolute, that a file can have; raise `NotAStoreError` otherwise."""
    try:
        named = os.fsdecode(path)
        if not named:
            raise ValueError("it is empty")
        found = Path(named).absolute()
        str(found).encode()
        # What is too long, or holds a NUL, is refused by the system itself; what is missing is no matter yet.
        os.lstat(found)
    except (FileNotFoundError, NotADirectoryError):
        return found
    except (OSError, TypeError, ValueError) as error:
        raise NotAStoreError(f"{path!r} can't be the path of a file ({error}); name another.") from error
    return found


def linked_to(path: Path) -> Path:
    """Return the path of the file that a link leads to, else the path itself.

    SQLite keeps a log beside the file and not beside the link: whoever looks there would miss what is in it alone.
    """
    if not path.is_symlink():
        return path
    found = Path(os.path.realpath(path))
    if found.is_symlink():
        raise NotAStoreError(f"{path} is a link that leads back to itself; name the file.")
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
        if hasattr(os, "statvfs") and os.statvfs(path).f_flag & os.ST_RDONLY:
            return "its disk is mounted to be read only"
        return "the file's permissions only let it be read"
    if path.exists() and not os.access(path.parent, os.W_OK):
        return f"the folder {path.parent} can't be written"
    return None


def regain_logs(path: Path) -> None:
    """Let the owner of a file write the log beside it, which was made while the file could only be read."""
    for end in ("-wal", "-shm"):
        beside = path.with_name(path.name + end)
        with suppress(OSError):
            if beside.is_file() and not os.access(beside, os.W_OK):
                beside.chmod(0o600)


def create_private(path: Path) -> None:
    """Make the file before SQLite does, readable by its owner alone; the log beside it takes the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise NotAStoreError(f"{path} can't be created: {error.strerror}; choose another folder.") from error


def make_private_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for its owner alone."""
    for one in reversed([one for one in (path, *path.parents) if not one.exists()]):
        one.mkdir(mode=0o700, exist_ok=True)


def loose_modes(path: Path) -> list[tuple[Path, int]]:
    """Return what lets others than its owner at the memories of a file: paths, each with its permissions.

    Those are the file, what is beside it (log, journal, automatic backups) where anyone else may read or write it, and
    its folder where everyone may replace files in it. Where permissions are not those of POSIX there are none.
    """
    if os.name != "posix":
        return []
    beside = [path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-journal")]
    found = []
    for one in (*beside, *automatic_backups(path), path.parent):
        try:
            mode = stat.S_IMODE(one.stat().st_mode)
        except FileNotFoundError:
            continue
        replaced_by_all = mode & stat.S_IWOTH and not mode & stat.S_ISVTX
        if replaced_by_all if one == path.parent else mode & 0o077:
            found.append((one, mode))
    return found

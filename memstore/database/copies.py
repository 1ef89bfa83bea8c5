"""Copies of a file that memstore makes by itself, before it changes much, and what kills have left of copies."""

import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

_MARK = ".before-"
_SUFFIX = ".bak"
_UNFINISHED = ".part"
# What comes behind the name of the file; a copy that its owner made may have a name that is like it.
_AUTOMATIC = re.compile(r"\.before-(?P<reason>[a-z0-9-]+)-\d{8}T\d{6}\.\d{6}Z\.bak(?P<end>.*)")
_JOURNALS = ("-wal", "-shm", "-journal")
_PARTIAL = ".partial-"
# As `tempfile` ends the name of a folder.
_FOLDER = re.compile(rf".+{re.escape(_PARTIAL)}[a-z0-9_]{{8}}")


def automatic_name(path: Path, reason: str) -> Path:
    """Return the path of a new automatic backup: `memory.db.before-repair-20260131T120000.000000Z.bak`."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return path.with_name(f"{path.name}{_MARK}{reason}-{moment}{_SUFFIX}")


def automatic_backups(path: Path) -> list[Path]:
    """Return the automatic backups of a file that are there, the oldest first by their names."""
    return [one for one, _, end in _automatic(path) if not end and one.is_file()]


def unfinished(backup: Path) -> Path:
    """Return the path under which an automatic backup is made, until it is known to be good."""
    return backup.with_name(backup.name + _UNFINISHED)


def unfinished_backups(path: Path, reason: str | None = None) -> list[Path]:
    """Return what a kill has left of automatic backups of a file (made for a reason), and the journals beside them."""
    return [
        one
        for one, made_for, end in _automatic(path)
        if end.startswith(_UNFINISHED) and (reason is None or made_for.startswith(reason))
    ]


def journals_of_backups(path: Path) -> list[Path]:
    """Return what SQLite has left beside automatic backups of a file, whether those are still there or not."""
    return [one for one, _, end in _automatic(path) if end in _JOURNALS]


def partial_name(name: str) -> str:
    """Return how the name of the folder begins in which a file of that name is made."""
    return f"{name}{_PARTIAL}"


def partial_copies(path: Path) -> list[Path]:
    """Return the folders beside a file in which another is being made, or was when that was killed.

    Whose memories they hold can't be told: what was killed is no file that could be read.
    """
    return sorted(one for one in path.parent.iterdir() if _FOLDER.fullmatch(one.name) and _holds_something(one))


def _holds_something(folder: Path) -> bool:
    # Another's can't be looked into, and one that is being made may be gone meanwhile.
    with suppress(OSError):
        return not folder.is_symlink() and any(made.stat().st_size for made in folder.iterdir() if made.is_file())
    return False


def _automatic(path: Path) -> list[tuple[Path, str, str]]:
    """Return what is named as an automatic backup of a file: paths, what each was made for, how its name ends."""
    found: list[tuple[Path, str, str]] = []
    for one in sorted(path.parent.iterdir()):
        own = _AUTOMATIC.fullmatch(one.name, len(path.name)) if one.name.startswith(path.name) else None
        if own is not None:
            found.append((one, own["reason"], own["end"]))
    return found

"""Copies of a file that memstore makes by itself, before it changes much: beside the file, named for it."""

from datetime import UTC, datetime
from pathlib import Path

_MARK = ".before-"
_SUFFIX = ".bak"
_UNFINISHED = ".part"


def automatic_name(path: Path, reason: str) -> Path:
    """Return the path of a new automatic backup: `memory.db.before-repair-20260131T120000.000000Z.bak`."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return path.with_name(f"{path.name}{_MARK}{reason}-{moment}{_SUFFIX}")


def automatic_backups(path: Path) -> list[Path]:
    """Return the automatic backups of a file that are there, the oldest first by their names."""
    return sorted(
        one
        for one in path.parent.iterdir()
        if one.name.startswith(f"{path.name}{_MARK}") and one.name.endswith(_SUFFIX) and one.is_file()
    )


def unfinished(backup: Path) -> Path:
    """Return the path under which an automatic backup is made, until it is known to be good."""
    return backup.with_name(backup.name + _UNFINISHED)


def unfinished_backups(path: Path, reason: str) -> list[Path]:
    """Return what a kill has left of automatic backups of a file, made for a reason, and the journals beside them."""
    return [
        one
        for one in path.parent.iterdir()
        if one.name.startswith(f"{path.name}{_MARK}{reason}-") and f"{_SUFFIX}{_UNFINISHED}" in one.name
    ]

"""Records of a file's health: what doctor, repair, backup, salvage and forgetting say."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

# `damage`: something is not as it was stored, or an index disagrees with the memories; doctor's exit code is then 1.
# `notice`: worth knowing, and nothing is wrong.
Severity: TypeAlias = Literal["damage", "notice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a check found.

    `part` is what it is about: `file`, `schema`, `memories`, `keyword`, `entity`, `passages`, `vectors`,
    `permissions`, `space`. `memories` are the ids concerned, the first hundred of `count`. `remedy` is what
    mends it, in words; `repairable` says that `repair` does.
    """

    part: str
    severity: Severity
    sentence: str
    count: int = 0
    memories: tuple[int, ...] = ()
    remedy: str = ""
    repairable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a check of a file found, and how much it looked at (`checked`: part → how many)."""

    path: Path
    findings: tuple[Finding, ...]
    checked: Mapping[str, int]
    seconds: float

    @property
    def healthy(self) -> bool:
        return not any(finding.severity == "damage" for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A copy of a file that was verified after it was made."""

    path: Path
    size_bytes: int
    memories: int
    vectors: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What a repair did.

    `backup` is the copy that was made before anything was changed, None where nothing had to be. `rebuilt` says how
    many of what were made again, `lost` are sentences on what could not be saved, or could not be made again yet.
    `before` is the diagnosis that it went by and `diagnosis` the one after it.
    """

    backup: Path | None
    rebuilt: Mapping[str, int]
    lost: tuple[str, ...]
    before: Diagnosis
    diagnosis: Diagnosis
    seconds: float

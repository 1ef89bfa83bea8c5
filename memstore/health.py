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
    """A copy of a file that was verified after it was made: it is sound, and holds what the file did.

    `damaged` memories do not fit the hash that was kept of them, in the file as in the copy; `doctor` names them.
    """

    path: Path
    size_bytes: int
    memories: int
    damaged: int
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """What was recovered of a damaged file into a new one.

    `memories` are how many the new file has. Of those `unverified` do not fit the hash that was kept of them: something
    of each is not as it was stored, or its tags are lost; their metadata says so under `salvaged`. `lost` were there
    and can't be read; `perhaps_lost` is how many more ids are lost, or had been deleted before. `uncertain` stand on
    pages that may have been given up, so that they may have been deleted; they are left out unless they were asked for.
    `expired` were left out, as the next write to the file would have done. `vectors` were kept, and `pending`
    passages wait for one. `findings` say all of it in sentences: what is lost is `damage`, what can be made again a
    `notice`.
    """

    path: Path
    memories: int
    unverified: tuple[int, ...]
    lost: tuple[int, ...]
    perhaps_lost: int
    uncertain: tuple[int, ...]
    expired: int
    vectors: int
    pending: int
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def complete(self) -> bool:
        """Say whether all that the file held is in the new one, but for what can be made again."""
        return not any(finding.severity == "damage" for finding in self.findings)

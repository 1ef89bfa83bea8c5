"""What an examination of a file finds: sentences for people, and the whole of it for a repair."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from memstore.health import Finding, Severity

_MOST_IDS = 100
_MOST_SHOWN = 10
REBUILDS = "memstore doctor --repair makes it again"
SALVAGE = "memstore salvage brings what can be read into a new file"


@dataclass(slots=True, kw_only=True)
class SpaceFaults:
    """What is wrong in an embedding space: its table, single vectors by passage, and pieces by memory."""

    table: bool = False
    vectors: set[int] = field(default_factory=set)
    pieces: set[int] = field(default_factory=set)
    notes: bool = False

    def __bool__(self) -> bool:
        return self.table or self.notes or bool(self.vectors or self.pieces)


@dataclass(slots=True, kw_only=True)
class Faults:
    """What can be made again, whole where a finding names the first hundred; ids are of memories unless it is said.

    `unreadable` says that memories themselves can't all be read: nothing is rebuilt from half of them. `sealed` says
    that the pages or the schema are such that a write could do more harm: nothing is written at all.
    """

    sealed: bool = False
    unreadable: bool = False
    indexes: bool = False
    objects: list[tuple[str, str]] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    strays: bool = False
    content: set[int] = field(default_factory=set)
    changed: set[int] = field(default_factory=set)
    entries: bool = False
    stale: set[int] = field(default_factory=set)
    analysed: set[int] = field(default_factory=set)
    beside: set[int] = field(default_factory=set)
    words: set[int] = field(default_factory=set)
    stems: set[str] = field(default_factory=set)
    links: set[int] = field(default_factory=set)
    names: set[int] = field(default_factory=set)
    terms: bool = False
    passages: set[int] = field(default_factory=set)
    spaces: dict[int, SpaceFaults] = field(default_factory=dict)
    counts: bool = False
    sequences: bool = False

    def space(self, space_id: int) -> SpaceFaults:
        """Return what is wrong in a space, to be added to."""
        return self.spaces.setdefault(space_id, SpaceFaults())

    @property
    def memories(self) -> set[int]:
        """The memories of which something is made again from their text."""
        return self.analysed | self.beside | self.words | self.links | self.passages

    def __bool__(self) -> bool:
        single = (self.indexes, self.objects, self.leftovers, self.strays, self.content, self.entries, self.stems)
        return any(
            (
                *single,
                self.names,
                self.terms,
                self.counts,
                self.sequences,
                self.memories,
                any(map(bool, self.spaces.values())),
            )
        )


class Report:
    """The findings of an examination, and how much was looked at."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.checked: dict[str, int] = {}

    def damage(
        self,
        part: str,
        sentence: str,
        ids: Collection[int] = (),
        *,
        count: int | None = None,
        remedy: str = REBUILDS,
        repairable: bool = True,
    ) -> None:
        """Note that something is not as it was stored, or that an index disagrees with the memories."""
        self._note("damage", part, sentence, ids, count, remedy, repairable)

    def notice(
        self,
        part: str,
        sentence: str,
        ids: Collection[int] = (),
        *,
        count: int | None = None,
        remedy: str = "",
        repairable: bool = False,
    ) -> None:
        """Note what is worth knowing, and nothing wrong."""
        self._note("notice", part, sentence, ids, count, remedy, repairable)

    def _note(
        self,
        severity: Severity,
        part: str,
        sentence: str,
        ids: Collection[int],
        count: int | None,
        remedy: str,
        repairable: bool,
    ) -> None:
        self.findings.append(
            Finding(
                part=part,
                severity=severity,
                sentence=sentence,
                count=len(ids) if count is None else count,
                memories=tuple(sorted(ids)[:_MOST_IDS]),
                remedy=remedy,
                repairable=repairable,
            )
        )


def some(ids: Collection[int], one: str = "memory", many: str = "memories") -> str:
    """Return a number of things and the first of their ids: `3 memories (12, 40, 77)`."""
    return f"{number(len(ids), one, many)} ({listed(ids)})"


def listed(ids: Iterable[int]) -> str:
    """Return the first ids of some."""
    found = sorted(ids)
    return ", ".join(map(str, found[:_MOST_SHOWN])) + (", …" if len(found) > _MOST_SHOWN else "")


def number(count: int, one: str, many: str) -> str:
    """Return a number with what it is of: `1 memory`, `3 memories`."""
    return f"{count:,} {one if count == 1 else many}"


def are(count: int) -> str:
    """Return the verb for a number of things."""
    return "is" if count == 1 else "are"


def it(count: int) -> str:
    """Return the pronoun for a number of things."""
    return "it" if count == 1 else "they"


def have(count: int) -> str:
    """Return the verb for a number of things that have something."""
    return "has" if count == 1 else "have"

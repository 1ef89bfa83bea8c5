"""The examination of a file: every check, from one state of it, each on its own."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

import apsw

from memstore import database, semantic
from memstore.database import Database, one_value
from memstore.entities import Recogniser
from memstore.errors import DamagedStoreError
from memstore.health import Diagnosis
from memstore.maintenance import file_checks, keyword_checks, passage_checks, vector_checks
from memstore.maintenance.entity_checks import Entities
from memstore.maintenance.keyword_checks import Keywords
from memstore.maintenance.memory_checks import Memories
from memstore.maintenance.passage_checks import Passages
from memstore.maintenance.reporting import SALVAGE, Faults, Report
from memstore.memories import Row
from memstore.semantic import StoredSpace

# Called with how many memories are checked and how many there are.
Progress: TypeAlias = Callable[[int, int], None]
Made = TypeVar("Made")
# A flipped bit can also put a value where none of its kind can be.
_READ_ERRORS = (apsw.Error, DamagedStoreError, ValueError, TypeError, LookupError, ArithmeticError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What an examination found: for people, and for a repair."""

    diagnosis: Diagnosis
    faults: Faults


class _Check(Protocol):
    """A check that reads the memories as they go by."""

    def batch(self, rows: Sequence[Row]) -> None: ...


def examine(data: Database, recogniser: Recogniser | None = None, progress: Progress | None = None) -> Examination:
    """Check a whole file against its memories, from one read transaction.

    While it lasts other processes read and write on, and their log grows. A part that can't be read is a finding and
    does not end the examination of the others.
    """
    began = time.monotonic()
    report, faults = Report(), Faults()
    with data.read() as conn, _entries(conn) as entries:
        _Examiner(data, conn, entries, report, faults).run(recogniser, progress)
    return Examination(diagnosis=_diagnosis(data.path, report, began), faults=faults)


@contextmanager
def _entries(conn: apsw.Connection) -> Iterator[str]:
    """The table of the index's entries; nothing where the index is such that it can't be had."""
    with ExitStack() as stack:
        name = ""
        with suppress(apsw.Error):
            name = stack.enter_context(database.index_entries(conn))
        yield name


def _diagnosis(path: Path, report: Report, began: float) -> Diagnosis:
    return Diagnosis(
        path=path,
        findings=tuple(sorted(report.findings, key=lambda one: one.severity)),
        checked=report.checked,
        seconds=time.monotonic() - began,
    )


class _Examiner:
    """One examination, on one connection."""

    def __init__(self, data: Database, conn: apsw.Connection, entries: str, report: Report, faults: Faults) -> None:
        self._data = data
        self._conn = conn
        self._entries = entries
        self._report = report
        self._faults = faults

    def run(self, recogniser: Recogniser | None, progress: Progress | None) -> None:
        conn, report, faults = self._conn, self._report, self._faults
        with self._part("schema", "the schema"):
            file_checks.check_schema(conn, report, faults)
        with self._part("schema", "what the file says of itself"):
            file_checks.check_meta(conn, report)
        with self._part("memories", "what belongs to the memories"):
            file_checks.check_references(conn, report, faults)
        with self._part("schema", "the ids that were given"):
            file_checks.check_sequences(conn, report, faults)
        spaces: list[StoredSpace] = []
        with self._part("vectors", "the embedding spaces"):
            spaces = semantic.spaces(conn)
        keywords = self._made("keyword", lambda: Keywords(conn, report, faults))
        names = self._made("entity", lambda: Entities(conn, recogniser, report, faults))
        cut = self._made("passages", lambda: Passages(conn, spaces, report, faults))
        if keywords is not None:
            with self._part("keyword", "the list of stems"):
                keywords.stems()
        rows = Memories(self._data, conn, report, faults)
        self._memories(rows, {"keyword": keywords, "entity": names, "passages": cut}, progress)
        if keywords is not None and not faults.unreadable:
            with self._part("keyword", "the keyword index"):
                keywords.finish(rows.ids, self._entries)
        if names is not None:
            with self._part("entity", "the entities"):
                names.finish()
        if cut is not None:
            with self._part("passages", "the passages"):
                cut.finish()
        for space in spaces:
            with self._part("vectors", f"the vectors of {space.name}"):
                vector_checks.check_space(conn, space, report, faults)
        with self._part("keyword", "the counts"):
            keyword_checks.check_counts(conn, report, faults)
        with self._part("vectors", "what waits for vectors"):
            passage_checks.check_waiting(self._data, conn, spaces, report)
        with self._part("memories", "what has expired"):
            file_checks.check_expired(conn, report)
        with self._part("file", "what is round the file"):
            file_checks.check_surroundings(self._data, conn, report)
        with self._part("file", "the pages of the file"):
            file_checks.check_pages(conn, report, faults)

    def _memories(self, rows: Memories, checks: dict[str, _Check | None], progress: Progress | None) -> None:
        total, batches = 0, rows.batches()
        with self._part("memories", "the memories", vital=True):
            total = int(one_value(self._conn, "SELECT count(*) FROM memories"))
        while True:
            step: tuple[int, list[Row]] | None = None
            with self._part("memories", "the memories", vital=True):
                step = next(batches, None)
            if step is None:
                break
            for part, check in checks.items():
                if check is not None:
                    checks[part] = None
                    with self._part(part, f"what is made of the memories ({part})"):
                        check.batch(step[1])
                        checks[part] = check
            if progress is not None:
                progress(step[0], max(total, step[0]))
        with self._part("memories", "what belongs to the memories"):
            rows.finish()

    def _made(self, part: str, make: Callable[[], Made]) -> Made | None:
        with self._part(part, f"what is made of the memories ({part})"):
            return make()
        return None

    @contextmanager
    def _part(self, part: str, what: str, *, vital: bool = False) -> Iterator[None]:
        """Make a finding of what keeps a part from being read; `vital` says that no index can be judged without it."""
        try:
            yield
        except (apsw.BusyError, apsw.InterruptError):
            raise
        except _READ_ERRORS as error:
            self._faults.unreadable |= vital
            self._report.damage(part, f"{what} can't be read ({error})", count=1, remedy=SALVAGE, repairable=False)

"""Checks of the memories themselves: each row by its hash and its fields, tags and uses."""

import json
import re
from array import array
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw

from memstore import checks, memories
from memstore.database import Database, all_rows, automatic_backups
from memstore.errors import MemstoreError
from memstore.maintenance.file_checks import twice_keyed
from memstore.maintenance.reporting import SALVAGE, Faults, Report, are, have, listed, some
from memstore.memories import Row

# What is read at once: a batch is held in memory, and progress is told after each.
_BATCH_MEMORIES = 256
_BATCH_BYTES = 1_000_000
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_LONGEST_OFFSET = timedelta(days=1) // timedelta(minutes=1)
_READ_ERRORS = (apsw.Error, UnicodeDecodeError, ValueError, TypeError, KeyError)


class Memories:
    """Reads all memories once, in batches, and judges each row by itself.

    A row that can't be read, or whose fields are no fields, is named and no index of it is judged.
    """

    def __init__(self, data: Database, conn: apsw.Connection, report: Report, faults: Faults) -> None:
        self._data = data
        self._conn = conn
        self._report = report
        self._faults = faults
        # In ascending order, those that can't be read too.
        self.ids = array("q")
        self._unreadable: set[int] = set()
        self._insane: dict[int, str] = {}

    def batches(self) -> Iterator[tuple[int, list[Row]]]:
        """Yield the rows that can be judged further, each time with how many memories have been read."""
        last = -(2**63)
        while batch := self._next(last):
            if min(batch) <= last:
                raise ValueError("they are not in the order of their ids")
            last = batch[-1]
            self.ids.extend(batch)
            stored = self._read(batch)
            yield len(self.ids), [row for one in batch if (row := self._judged(one, *stored)) is not None]

    def finish(self) -> None:
        """Report what was found of the rows, and judge tags, keys and uses."""
        report, faults = self._report, self._faults
        report.checked["memories"] = len(self.ids)
        if self._unreadable:
            faults.unreadable = True
            report.damage(
                "memories",
                f"{some(self._unreadable)} can't be read",
                self._unreadable,
                remedy=SALVAGE,
                repairable=False,
            )
        for reason in sorted(set(self._insane.values())):
            ids = {one for one, why in self._insane.items() if why == reason}
            report.damage(
                "memories",
                f"{some(ids)} {have(len(ids))} {reason}",
                ids,
                remedy="put back a backup, or delete them" if len(ids) > 1 else "put back a backup, or delete it",
                repairable=False,
            )
        if faults.changed:
            ids = faults.changed
            kept = "".join(
                f" ({copy.name} still has {listed(own)} as {'it was' if len(own) == 1 else 'they were'})"
                for copy, own in _in_copies(self._data, self._conn, ids).items()
            )
            report.damage(
                "memories",
                f"{some(ids)} {are(len(ids))} not as memstore wrote {'it' if len(ids) == 1 else 'them'}: damaged, or"
                " changed by another program",
                ids,
                remedy=f"what was there can't be made again: put back a backup{kept}, change or delete each, or take"
                " each as it is now with memstore doctor --repair --accept ID",
                repairable=False,
            )
        if faults.content:
            report.damage(
                "memories",
                f"{some(faults.content)} {have(len(faults.content))} the wrong mark to know the same text by",
                faults.content,
            )
        twice = list(twice_keyed(self._conn))
        for namespace, key, count in twice:
            report.damage(
                "memories",
                f"{count} memories have the key {checks.brief(key)} in {checks.brief(namespace)}",
                count=count,
                remedy="delete all but one of them",
                repairable=False,
            )
        self._uses()

    def _uses(self) -> None:
        wrong = senseless_uses(self._conn)
        if wrong:
            self._faults.strays = True
            self._report.damage(
                "memories",
                f"what is noted of the uses of {some(wrong)} makes no sense",
                wrong,
                remedy="memstore doctor --repair removes it",
            )

    def _next(self, last: int) -> list[int]:
        rows = all_rows(
            self._conn,
            "SELECT id, octet_length(text) FROM memories WHERE id > ? ORDER BY id LIMIT ?",
            (last, _BATCH_MEMORIES),
        )
        filled, batch = 0, list[int]()
        for memory_id, size in rows:
            filled += size or 0
            if batch and filled > _BATCH_BYTES:
                break
            batch.append(memory_id)
        return batch

    def _read(self, batch: list[int]) -> tuple[dict[int, Row], dict[int, tuple[bytes, bytes]]]:
        try:
            return memories.rows(self._conn, batch), memories.hashes(self._conn, batch)
        except _READ_ERRORS:
            if len(batch) == 1:
                return {}, {}
        rows, hashes = dict[int, Row](), dict[int, tuple[bytes, bytes]]()
        for one in batch:
            own = self._read([one])
            rows |= own[0]
            hashes |= own[1]
        return rows, hashes

    def _judged(self, one: int, rows: dict[int, Row], hashes: dict[int, tuple[bytes, bytes]]) -> Row | None:
        if one not in rows or one not in hashes:
            self._unreadable.add(one)
            return None
        row, (content, whole) = rows[one], hashes[one]
        reason = insane(row)
        if reason:
            self._insane[one] = reason
            return None
        try:
            identity, own = row.content_hash, row.row_hash
        except (TypeError, ValueError):
            self._insane[one] = "fields of a kind that memstore never stores"
            return None
        if own != whole:
            self._faults.changed.add(one)
        elif identity != content:
            self._faults.content.add(one)
        return row


def _in_copies(data: Database, conn: apsw.Connection, ids: Collection[int]) -> dict[Path, list[int]]:
    """Return the automatic copies that still have some memories as memstore wrote them last, the newest first."""
    wanted = {one: whole for one, (_, whole) in memories.hashes(conn, ids).items()}
    found: dict[Path, list[int]] = {}
    copies: list[Path] = []
    with suppress(OSError):
        copies = automatic_backups(data.path)
    for path in reversed(copies):
        # A copy of another schema, or one that is damaged itself, has none to offer.
        with suppress(MemstoreError, *_READ_ERRORS), data.reading_copy(path) as old:
            rows = memories.rows(old, wanted)
            if intact := [one for one, row in rows.items() if row.row_hash == wanted[one]]:
                found[path] = intact
                wanted = {one: whole for one, whole in wanted.items() if one not in intact}
    return found


def senseless_uses(conn: apsw.Connection) -> list[int]:
    """Return the memories of whose uses something impossible is noted."""
    rows = all_rows(conn, "SELECT memory_id, times, last_used_at FROM uses")
    return [memory_id for memory_id, times, last in rows if times < 1 or not _is_time(last)]


def insane(row: Row) -> str:
    """Return what is wrong with the fields of a row whatever its hash says; nothing where they are fields."""
    names = (row.key, row.author, row.thread, row.language)
    if not isinstance(row.text, str) or not row.text.strip():
        return "no text"
    if not isinstance(row.namespace, str) or not all(one is None or isinstance(one, str) for one in names):
        return "names that are no text"
    if not _is_time(row.created_at) or not _is_time(row.updated_at):
        return "times that are none"
    if row.expires_at is not None and not _is_time(row.expires_at):
        return "an expiry that is no time"
    offset = row.created_offset
    if offset is not None and (not isinstance(offset, int) or abs(offset) >= _LONGEST_OFFSET):
        return "a date with an offset that no clock has"
    if not _is_object(row.metadata):
        return "metadata that are no JSON object"
    if (row.position is None) != (row.thread is None) or not isinstance(row.position, float | None):
        return "a thread without a place in it, or a place without a thread"
    return ""


def _is_time(stored: Any) -> bool:
    if not isinstance(stored, str) or not _TIME.fullmatch(stored):
        return False
    try:
        checks.moment(stored)
    except ValueError:
        return False
    return True


def _is_object(stored: Any) -> bool:
    try:
        return isinstance(json.loads(stored), dict)
    except (TypeError, ValueError, RecursionError):
        return False

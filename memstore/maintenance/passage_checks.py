"""Checks of the passages and of the notes of their vectors, against the texts that they are of."""

import json
from collections.abc import Sequence

import apsw

from memstore import passages, semantic
from memstore.checks import digest
from memstore.database import Database, all_rows, one_value
from memstore.maintenance.reporting import Faults, Report, are, have, it, number, some
from memstore.memories import Row
from memstore.semantic import StoredSpace

_REEMBEDS = "memstore doctor --repair drops them, and makes them anew where the model is there"


class Passages:
    """Judges the spans of each memory's text, and whether each vector is of the text that it stands for."""

    def __init__(self, conn: apsw.Connection, spaces: Sequence[StoredSpace], report: Report, faults: Faults) -> None:
        self._conn = conn
        self._spaces = spaces
        self._report = report
        self._faults = faults
        self._stale: dict[int, set[int]] = {}
        self._parted: dict[int, set[int]] = {}
        self._count = 0

    def batch(self, rows: Sequence[Row]) -> None:
        """Judge the passages of some memories."""
        by_id = {row.id: row for row in rows}
        spans: dict[int, list[tuple[int, int]]] = {row.id: [] for row in rows if row.id is not None}
        there: dict[int, tuple[int, int, int, int | None]] = {}
        for passage_id, *rest in all_rows(
            self._conn,
            "SELECT p.id, p.memory_id, p.start, p.stop, p.embedder_id FROM json_each(?) j"
            " CROSS JOIN passages p ON p.memory_id = j.value ORDER BY p.id",
            (json.dumps(list(spans)),),
        ):
            memory_id, start, stop, embedder_id = there[passage_id] = (rest[0], rest[1], rest[2], rest[3])
            if embedder_id is None:
                spans[memory_id].append((start, stop))
        self._count += len(there)
        for memory_id, held in spans.items():
            if sorted(held) != passages.cut(by_id[memory_id].text):
                self._faults.passages.add(memory_id)
        for space in self._spaces:
            self._notes(space, by_id, there)

    def _notes(
        self, space: StoredSpace, rows: dict[int | None, Row], there: dict[int, tuple[int, int, int, int | None]]
    ) -> None:
        own = {one: span for one, span in there.items() if span[3] in (None, space.id)}
        notes = all_rows(
            self._conn,
            "SELECT v.passage_id, v.text_hash, v.pieces FROM json_each(?2) j CROSS JOIN passage_vectors v"
            " ON v.embedder_id = ?1 AND v.passage_id = j.value",
            (space.id, json.dumps(list(own))),
        )
        pieces: dict[int, int] = {}
        for memory_id, start, stop, embedder_id in own.values():
            if embedder_id is not None:
                pieces[memory_id] = pieces.get(memory_id, 0) - 1
                if not 0 <= start < stop <= len(rows[memory_id].text):
                    self._parted.setdefault(space.id, set()).add(memory_id)
        for passage_id, text_hash, parts in notes:
            memory_id, start, stop, embedder_id = own[passage_id]
            if digest(rows[memory_id].embedded_text(start, stop).encode()) != text_hash:
                self._stale.setdefault(space.id, set()).add(passage_id)
            if embedder_id is None and parts:
                pieces[memory_id] = pieces.get(memory_id, 0) + parts
        self._parted.setdefault(space.id, set()).update(one for one, balance in pieces.items() if balance)

    def finish(self) -> None:
        """Report what was found."""
        report, faults = self._report, self._faults
        report.checked["passages"] = self._count
        if faults.passages:
            report.damage(
                "passages",
                f"{some(faults.passages)} {are(len(faults.passages))} not cut into passages as"
                f" {it(len(faults.passages))} should be",
                faults.passages,
            )
        for space in self._spaces:
            stale, parted = self._stale.get(space.id, set()), self._parted.get(space.id, set())
            if stale:
                faults.space(space.id).vectors |= stale
                report.damage(
                    "vectors",
                    f"{some(self._memories(stale))} {have(len(self._memories(stale)))} vectors in {space.name} that"
                    " were made of another text",
                    self._memories(stale),
                    remedy=_REEMBEDS,
                )
            if parted:
                faults.space(space.id).pieces |= parted
                report.damage(
                    "vectors",
                    f"{some(parted)} {have(len(parted))} pieces in {space.name} that do not make up"
                    f" {'its' if len(parted) == 1 else 'their'} passages",
                    parted,
                    remedy=_REEMBEDS,
                )

    def _memories(self, passage_ids: set[int]) -> set[int]:
        return memories_of(self._conn, passage_ids)


def memories_of(conn: apsw.Connection, passage_ids: set[int]) -> set[int]:
    """Return the memories that passages are of."""
    rows = all_rows(
        conn,
        "SELECT DISTINCT memory_id FROM passages WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(passage_ids)),),
    )
    return {memory_id for (memory_id,) in rows}


def check_waiting(data: Database, conn: apsw.Connection, spaces: Sequence[StoredSpace], report: Report) -> None:
    """What waits for a vector, or was refused one, is known of: no damage."""
    for space in spaces:
        vectors, refused = all_rows(
            conn,
            "SELECT count(v.vector_hash), coalesce(sum(v.vector_hash IS NULL AND v.pieces = 0), 0)"
            " FROM passage_vectors v JOIN passages p ON p.id = v.passage_id WHERE v.embedder_id = ?",
            (space.id,),
        )[0]
        pending, _ = semantic.size_of_pending(conn, space)
        report.checked[f"vectors of {space.name}"] = vectors
        if pending > 0:
            report.notice(
                "vectors",
                f"{number(pending, 'passage', 'passages')} {'waits' if pending == 1 else 'wait'} for vectors in"
                f" {space.name}, and {are(pending)} found by words and names",
                count=pending,
                remedy="memstore embedders fill makes them",
            )
        if refused:
            report.notice(
                "vectors",
                f"the model of {space.name} gives {number(refused, 'passage', 'passages')} no usable vector",
                count=refused,
                remedy="memstore embedders fill --refused tries again",
            )
    deleted = int(
        one_value(
            conn,
            "SELECT count(*) FROM passage_vectors v WHERE NOT EXISTS"
            " (SELECT 1 FROM passages p WHERE p.id = v.passage_id)",
        )
    )
    if deleted:
        report.notice(
            "vectors",
            f"{number(deleted, 'vector', 'vectors')} of memories that are gone {are(deleted)} still to be removed",
            count=deleted,
            remedy="memstore doctor --repair removes them, where sqlite-vec is installed",
            repairable=True,
        )
    if spaces and data.vectors_unavailable is not None:
        report.notice(
            "vectors",
            f"vectors were checked, and can't be searched or repaired here: {data.vectors_unavailable}",
            count=1,
        )

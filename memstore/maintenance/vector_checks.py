"""Checks of the vectors of an embedding space: its row, the tables that sqlite-vec keeps them in, and each by its hash.

The tables are read as ordinary ones, so that the check needs no extension, and no broken one reaches its code.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import apsw
import numpy as np

from memstore import semantic
from memstore.checks import digest
from memstore.database import all_rows, one_value
from memstore.maintenance.passage_checks import memories_of
from memstore.maintenance.reporting import Faults, Report, are, have, it, number, some
from memstore.semantic import StoredSpace

_BYTES = 4
_ROWID = 8
_WAITS = "memstore doctor --repair drops what is wrong; what is dropped is made anew where the model is there"


@dataclass(frozen=True, slots=True)
class Slot:
    """A vector as sqlite-vec keeps it: whose it is, where it stands, its bytes."""

    passage_id: int
    chunk_id: int
    offset: int
    content: bytes


def shadows(table: str) -> tuple[str, ...]:
    """Return the names of the tables that sqlite-vec keeps the vectors of a table in."""
    return tuple(f"{table}_{one}" for one in ("chunks", "info", "rowids", "vector_chunks00"))


def check_space(conn: apsw.Connection, space: StoredSpace, report: Report, faults: Faults) -> None:
    """Judge one space."""
    _check_row(conn, space, report)
    own = faults.space(space.id)
    try:
        broken = _why_broken(conn, space)
        if not broken:
            _check_vectors(conn, space, report, faults)
            return
    except (apsw.Error, TypeError, ValueError) as error:
        broken = f"it can't be read ({error})"
    own.table = True
    report.damage(
        "vectors",
        f"the table of vectors of {space.name} is broken: {broken}",
        count=1,
        remedy="memstore doctor --repair makes it again with every vector that is sound; the others are made anew where"
        " the model is there",
    )


def _check_row(conn: apsw.Connection, space: StoredSpace, report: Report) -> None:
    metric, background = all_rows(conn, "SELECT metric, background FROM embedders WHERE id = ?", (space.id,))[0]
    whole = _BYTES * space.dimensions
    fingerprint = space.fingerprint
    if space.dimensions < 1 or len(fingerprint) != whole or not _usable(fingerprint):
        wrong = "its fingerprint is not that of a model"
    elif metric != "cosine" or space.state not in ("ready", "filling") or len(background) % whole:
        wrong = "its metric, state or background makes no sense"
    else:
        return
    report.damage(
        "vectors",
        f"the row of the embedding space {space.name} is damaged: {wrong}",
        count=1,
        remedy=f"memstore embedders remove {space.name}, and add it again",
        repairable=False,
    )


def _why_broken(conn: apsw.Connection, space: StoredSpace) -> str:
    """Return why the tables of a space hold no vectors that sqlite-vec could read; nothing where they do."""
    there = dict(all_rows(conn, "SELECT name, sql FROM sqlite_schema WHERE type = 'table'"))
    for name in (space.table, *shadows(space.table)):
        if name not in there:
            return f"{name} is missing"
    if there[space.table] != semantic.declaration(space):
        return f"it is not made for {space.dimensions} dimensions"
    mapped = int(one_value(conn, f"SELECT count(*) FROM {space.table}_rowids"))
    taken = 0
    for chunk_id, size, validity, rowids in all_rows(
        conn, f"SELECT chunk_id, size, length(validity), length(rowids) FROM {space.table}_chunks"
    ):
        content = one_value(
            conn, f"SELECT length(vectors) FROM {space.table}_vector_chunks00 WHERE _rowid_ = ?", (chunk_id,)
        )
        if (validity * 8, rowids, content) != (size, size * _ROWID, size * space.dimensions * _BYTES):
            return f"chunk {chunk_id} is not as long as it should be"
        places = _places(conn, space, chunk_id)
        taken += len(places)
        noted = dict(
            all_rows(conn, f"SELECT rowid, chunk_offset FROM {space.table}_rowids WHERE chunk_id = ?", (chunk_id,))
        )
        if noted != {passage_id: offset for offset, passage_id in places.items()}:
            return f"chunk {chunk_id} and the list of its vectors disagree"
    return "" if taken == mapped else "the list of its vectors names some that are in no chunk"


def _places(conn: apsw.Connection, space: StoredSpace, chunk_id: int) -> dict[int, int]:
    """Return the passages of a chunk's vectors by their places in it."""
    validity, rowids = all_rows(
        conn, f"SELECT validity, rowids FROM {space.table}_chunks WHERE chunk_id = ?", (chunk_id,)
    )[0]
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
    owners = np.frombuffer(rowids, np.int64, count=len(rowids) // _ROWID)
    return {offset: int(owners[offset]) for offset in np.flatnonzero(bits[: len(owners)]).tolist()}


def slots(conn: apsw.Connection, space: StoredSpace) -> Iterator[Slot]:
    """Yield every vector of a space, chunk by chunk."""
    width = space.dimensions * _BYTES
    for (chunk_id,) in all_rows(conn, f"SELECT chunk_id FROM {space.table}_chunks ORDER BY chunk_id"):
        content = one_value(conn, f"SELECT vectors FROM {space.table}_vector_chunks00 WHERE _rowid_ = ?", (chunk_id,))
        for offset, passage_id in _places(conn, space, chunk_id).items():
            yield Slot(passage_id, chunk_id, offset, content[offset * width : (offset + 1) * width])


def noted(conn: apsw.Connection, space: StoredSpace, passage_ids: list[int]) -> Mapping[int, bytes]:
    """Return the hash of each vector that is noted of some passages."""
    return dict(
        all_rows(
            conn,
            "SELECT v.passage_id, v.vector_hash FROM json_each(?2) j CROSS JOIN passage_vectors v"
            " ON v.embedder_id = ?1 AND v.passage_id = j.value WHERE v.vector_hash IS NOT NULL",
            (space.id, json.dumps(passage_ids)),
        )
    )


def _check_vectors(conn: apsw.Connection, space: StoredSpace, report: Report, faults: Faults) -> None:
    changed, unusable, unnoted = set[int](), set[int](), set[int]()
    for batch in _batches(conn, space):
        hashes = noted(conn, space, list(batch))
        for passage_id, content in batch.items():
            if passage_id not in hashes:
                unnoted.add(passage_id)
            elif digest(content) != hashes[passage_id]:
                changed.add(passage_id)
            elif not _usable(content):
                unusable.add(passage_id)
    own = faults.space(space.id)
    own.vectors |= changed | unusable
    for found, what in (
        (changed, f"not as {it(len(changed))} {'was' if len(changed) == 1 else 'were'} stored"),
        (unusable, "of no use: zero, or not finite"),
    ):
        if found:
            owners = memories_of(conn, found)
            report.damage(
                "vectors",
                f"{number(len(found), 'vector', 'vectors')} in {space.name} {are(len(found))} {what}"
                + (f" ({some(owners)})" if owners else ""),
                owners,
                count=len(found),
                remedy=_WAITS,
            )
    lost = {
        one
        for (one,) in all_rows(
            conn,
            "SELECT v.passage_id FROM passage_vectors v WHERE v.embedder_id = ? AND v.vector_hash IS NOT NULL"
            f" AND v.passage_id NOT IN (SELECT rowid FROM {space.table}_rowids)"
            " AND EXISTS (SELECT 1 FROM passages p WHERE p.id = v.passage_id)",
            (space.id,),
        )
    }
    # A piece that is not noted is not waited for either: only its passage can be.
    lost |= {
        one
        for (one,) in all_rows(
            conn,
            "SELECT p.id FROM passages p WHERE p.embedder_id = ?1 AND NOT EXISTS"
            " (SELECT 1 FROM passage_vectors v WHERE v.embedder_id = ?1 AND v.passage_id = p.id)",
            (space.id,),
        )
    }
    if lost:
        owners = memories_of(conn, lost)
        report.damage(
            "vectors",
            f"{some(owners)} {have(len(owners))} lost vectors that {space.name} should hold",
            owners,
            count=len(lost),
            remedy="memstore doctor --repair has them made anew where the model is there",
        )
    if unnoted:
        report.damage(
            "vectors",
            f"{number(len(unnoted), 'vector', 'vectors')} in {space.name} {are(len(unnoted))} noted for no passage",
            count=len(unnoted),
            remedy="memstore doctor --repair removes what belongs to nothing",
        )
    own.notes = bool(lost or unnoted) or not semantic.is_sound(conn, space)


def _batches(conn: apsw.Connection, space: StoredSpace) -> Iterator[dict[int, bytes]]:
    """Yield the vectors of a space by their passages, a chunk at a time."""
    at: int | None = None
    batch: dict[int, bytes] = {}
    for slot in slots(conn, space):
        if at is not None and slot.chunk_id != at:
            yield batch
            batch = {}
        at = slot.chunk_id
        batch[slot.passage_id] = slot.content
    if batch:
        yield batch


def _usable(content: bytes) -> bool:
    values = np.frombuffer(content, np.float32)
    return bool(np.isfinite(values).all() and values.any())

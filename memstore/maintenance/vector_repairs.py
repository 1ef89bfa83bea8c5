"""An embedding space made whole again: what is sound is kept, what is not is dropped and waits."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import apsw

from memstore import database, semantic
from memstore.checks import digest
from memstore.database import all_rows, one_value
from memstore.maintenance.reporting import SpaceFaults
from memstore.maintenance.vector_checks import noted, shadows, slots
from memstore.semantic import StoredSpace

_AT_ONCE = 1_000
_ROWID = 8


def mend_space(conn: apsw.Connection, space: StoredSpace, faults: SpaceFaults, folder: Path) -> tuple[int, int]:
    """Mend a space inside a transaction; return how many vectors it kept, and how many passages it dropped."""
    before = _vectors(conn, space)
    if faults.table:
        _remake(conn, space, folder)
    semantic.drop_vectors(conn, space, sorted(faults.vectors))
    for memory_id in sorted(faults.pieces):
        _unpart(conn, space, memory_id)
    # What a drop has left without its other half goes as well.
    semantic.reconcile(conn, space)
    kept = _vectors(conn, space)
    return kept, max(0, before - kept)


def _vectors(conn: apsw.Connection, space: StoredSpace) -> int:
    return int(
        one_value(
            conn,
            "SELECT count(*) FROM passage_vectors WHERE embedder_id = ? AND vector_hash IS NOT NULL",
            (space.id,),
        )
    )


def _remake(conn: apsw.Connection, space: StoredSpace, folder: Path) -> None:
    """Make the table of a space again with each vector that is, by its hash, the one that was stored.

    They wait in a file without a name, in the folder of the store: they can be more than memory holds.
    """
    with tempfile.TemporaryFile(dir=folder) as spool:
        for passage_id, content in _sound(conn, space):
            spool.write(passage_id.to_bytes(_ROWID, "little", signed=True) + content)
        database.drop_virtual(conn, space.table, shadows(space.table))
        semantic.make_table(conn, space)
        spool.seek(0)
        conn.executemany(
            f"INSERT INTO {space.table} (rowid, embedding) VALUES (?, ?)", _spooled(spool, 4 * space.dimensions)
        )


def _spooled(spool: BinaryIO, width: int) -> Iterator[tuple[int, bytes]]:
    while record := spool.read(_ROWID + width):
        yield int.from_bytes(record[:_ROWID], "little", signed=True), record[_ROWID:]


def _sound(conn: apsw.Connection, space: StoredSpace) -> Iterator[tuple[int, bytes]]:
    """Yield every vector once that is as it was stored, wherever the broken tables still have it."""
    seen: set[int] = set()
    for find in (_by_chunk, _by_list):
        batch: dict[int, bytes] = {}
        # What is left to read when a table is missing or a page is bad is lost to this way.
        with suppress(apsw.Error, TypeError, ValueError):
            for passage_id, content in find(conn, space):
                batch[passage_id] = content
                if len(batch) >= _AT_ONCE:
                    yield from _verified(conn, space, batch, seen)
                    batch = {}
        yield from _verified(conn, space, batch, seen)


def _verified(
    conn: apsw.Connection, space: StoredSpace, batch: dict[int, bytes], seen: set[int]
) -> Iterator[tuple[int, bytes]]:
    hashes = noted(conn, space, [one for one in batch if one not in seen])
    for passage_id, stored in hashes.items():
        content = batch[passage_id]
        if len(content) == 4 * space.dimensions and digest(content) == stored:
            seen.add(passage_id)
            yield passage_id, content


def _by_chunk(conn: apsw.Connection, space: StoredSpace) -> Iterator[tuple[int, bytes]]:
    for slot in slots(conn, space):
        yield slot.passage_id, slot.content


def _by_list(conn: apsw.Connection, space: StoredSpace) -> Iterator[tuple[int, bytes]]:
    width = 4 * space.dimensions
    at, vectors = None, b""
    for passage_id, chunk_id, offset in all_rows(
        conn, f"SELECT rowid, chunk_id, chunk_offset FROM {space.table}_rowids ORDER BY chunk_id"
    ):
        if chunk_id != at:
            at = chunk_id
            vectors = (
                one_value(conn, f"SELECT vectors FROM {space.table}_vector_chunks00 WHERE _rowid_ = ?", (chunk_id,))
                or b""
            )
        yield passage_id, vectors[offset * width : (offset + 1) * width]


def _unpart(conn: apsw.Connection, space: StoredSpace, memory_id: int) -> None:
    """Have the passages of a memory wait again that a space has in pieces."""
    parted = [
        one
        for (one,) in all_rows(
            conn,
            "SELECT p.id FROM passages p LEFT JOIN passage_vectors v ON v.passage_id = p.id AND v.embedder_id = ?1"
            " WHERE p.memory_id = ?2 AND (p.embedder_id = ?1 OR v.pieces > 0)",
            (space.id, memory_id),
        )
    ]
    semantic.drop_vectors(conn, space, parted)
    conn.execute(
        "DELETE FROM passages WHERE embedder_id = ? AND id IN (SELECT value FROM json_each(?))",
        (space.id, json.dumps(parted)),
    )

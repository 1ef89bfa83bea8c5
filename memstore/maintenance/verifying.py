"""Whether a copy holds what its original did: the memories, the vectors, every table and index."""

import hashlib
from dataclasses import dataclass

import apsw

from memstore import memories
from memstore.database import all_rows, one_value

_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What two files that hold the same agree in; `damaged` memories do not fit their own hash."""

    memories: int
    damaged: int
    digest: bytes
    vectors: int
    tables: frozenset[tuple[str, str]]


def summary(conn: apsw.Connection) -> Summary:
    """Read every memory, and what the file says of its vectors and of its own tables."""
    digest = hashlib.blake2b()
    number = damaged = last = 0
    while True:
        stored = all_rows(conn, "SELECT id, row_hash FROM memories WHERE id > ? ORDER BY id LIMIT ?", (last, _BATCH))
        if not stored:
            break
        rows = memories.rows(conn, [memory_id for memory_id, _ in stored])
        for memory_id, row_hash in stored:
            found = rows[memory_id].row_hash
            damaged += found != row_hash
            digest.update(b"%d:%s%s" % (memory_id, row_hash, found))
        number, last = number + len(stored), stored[-1][0]
    tables = all_rows(conn, "SELECT type, name FROM sqlite_schema")
    return Summary(
        memories=number,
        damaged=damaged,
        digest=digest.digest(),
        vectors=int(one_value(conn, "SELECT count(vector_hash) FROM passage_vectors")),
        tables=frozenset((kind, name) for kind, name in tables),
    )

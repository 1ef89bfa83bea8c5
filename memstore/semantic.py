"""The semantic signal: cosine over one embedding space in sqlite-vec."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import apsw
import numpy as np
from numpy.typing import NDArray

from memstore.checks import digest
from memstore.database import all_rows, one_value
from memstore.filters import Condition
from memstore.records import Candidates

Vector: TypeAlias = NDArray[np.float32]
# sqlite-vec 0.1 answers no nearest-neighbour query for more (https://alexgarcia.xyz/sqlite-vec/features/knn.html).
_MOST_NEIGHBOURS = 4096
_WAITS = "NOT EXISTS (SELECT 1 FROM passage_vectors v WHERE v.embedder_id = ? AND v.passage_id = p.id)"
_AMONG = " AND {} IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSpace:
    """A row of `embedders`."""

    id: int
    name: str
    spec: str | None
    model_id: str
    dimensions: int
    fingerprint: bytes
    state: str

    @property
    def table(self) -> str:
        return f"vectors_{self.id}"


def spaces(conn: apsw.Connection) -> list[StoredSpace]:
    """Return the embedding spaces of the file, oldest first."""
    rows = all_rows(conn, "SELECT id, name, spec, model_id, dimensions, fingerprint, state FROM embedders ORDER BY id")
    return [
        StoredSpace(id=a, name=b, spec=c, model_id=d, dimensions=e, fingerprint=f, state=g)
        for a, b, c, d, e, f, g in rows
    ]


def add_space(
    conn: apsw.Connection,
    *,
    name: str,
    spec: str | None,
    model_id: str,
    fingerprint: Vector,
    query_prefix: str,
    passage_prefix: str,
    state: str,
) -> StoredSpace:
    """Make an embedding space and its table of vectors; the metric is cosine."""
    dimensions = len(fingerprint)
    conn.execute(
        "INSERT INTO embedders (name, spec, model_id, dimensions, query_prefix, passage_prefix, fingerprint, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (name, spec, model_id, dimensions, query_prefix, passage_prefix, fingerprint.tobytes(), state),
    )
    made = spaces(conn)[-1]
    conn.execute(f"CREATE VIRTUAL TABLE {made.table} USING vec0 (embedding FLOAT[{dimensions}] DISTANCE_METRIC=cosine)")
    return made


def set_state(conn: apsw.Connection, space: StoredSpace, state: str) -> None:
    """Say whether a space is searched (`ready`) or not yet (`filling`)."""
    conn.execute("UPDATE embedders SET state = ? WHERE id = ?", (state, space.id))


def add_passage(conn: apsw.Connection, memory_id: int | None, start: int, stop: int) -> int:
    """Note a span of a memory's text that waits for vectors; return the passage's id."""
    conn.execute("INSERT INTO passages (memory_id, start, stop) VALUES (?, ?, ?)", (memory_id, start, stop))
    return conn.last_insert_rowid()


def index(conn: apsw.Connection, space: StoredSpace, rows: Iterable[tuple[int, bytes, Vector | None]]) -> None:
    """Store vectors by passage id, each with the hash of the text it was made from, in place of those that were there.

    None is a passage that the model gives no usable vector for: it is noted, and not tried again.
    """
    for passage_id, text_hash, vector in rows:
        conn.execute(f"DELETE FROM {space.table} WHERE rowid = ?", (passage_id,))
        vector_hash = None
        if vector is not None:
            conn.execute(f"INSERT INTO {space.table} (rowid, embedding) VALUES (?, ?)", (passage_id, vector.tobytes()))
            vector_hash = digest(vector.tobytes())
        conn.execute(
            "INSERT OR REPLACE INTO passage_vectors (embedder_id, passage_id, text_hash, vector_hash)"
            " VALUES (?, ?, ?, ?)",
            (space.id, passage_id, text_hash, vector_hash),
        )


def remove(conn: apsw.Connection, memory_id: int, *, vectors: bool) -> None:
    """Take a memory's passages and their vectors out.

    Without the extension (`vectors` false) the vectors can't be reached: their rows in `passage_vectors` stay, are
    found by no search since their passage is gone, and `sweep` removes them once the extension is there.
    """
    gone = [passage_id for (passage_id,) in all_rows(conn, "SELECT id FROM passages WHERE memory_id = ?", (memory_id,))]
    conn.execute("DELETE FROM passages WHERE memory_id = ?", (memory_id,))
    if vectors:
        for space in spaces(conn):
            for passage_id in gone:
                _drop(conn, space.id, passage_id)


def sweep(conn: apsw.Connection) -> None:
    """Remove the vectors whose passage is gone (those that `remove` could not reach)."""
    orphans = all_rows(
        conn,
        "SELECT embedder_id, passage_id FROM passage_vectors v"
        " WHERE NOT EXISTS (SELECT 1 FROM passages p WHERE p.id = v.passage_id)",
    )
    for embedder_id, passage_id in orphans:
        _drop(conn, embedder_id, passage_id)


def _drop(conn: apsw.Connection, embedder_id: int, passage_id: int) -> None:
    conn.execute(f"DELETE FROM vectors_{int(embedder_id)} WHERE rowid = ?", (passage_id,))
    conn.execute("DELETE FROM passage_vectors WHERE embedder_id = ? AND passage_id = ?", (embedder_id, passage_id))


def search(
    conn: apsw.Connection, space: StoredSpace, query: Vector, condition: Condition | None, depth: int
) -> Candidates:
    """Return the `depth` memories whose best passage is nearest to `query` (float32, shape (dimensions,)).

    Scores are cosines in [-1, 1], higher is nearer. Only memories that pass `condition` are looked at, so the answer
    is that of a scan over those.
    """
    where, values = ("", ()) if condition is None else (f" AND rowid IN {condition.passages}", condition.values)
    wanted = depth
    while wanted <= _MOST_NEIGHBOURS:
        rows = all_rows(
            conn,
            "SELECT p.memory_id, p.id, 1.0 - n.distance FROM"
            f" (SELECT rowid, distance FROM {space.table} WHERE embedding MATCH ? AND k = ?{where}) n"
            " LEFT JOIN passages p ON p.id = n.rowid ORDER BY n.distance, p.memory_id, p.id",
            (query.tobytes(), wanted, *values),
        )
        found = _best(rows)
        # Several passages of one memory take several places: ask for more until there are enough memories.
        if len(found.ids) >= depth or len(rows) < wanted:
            return _first(found, depth)
        wanted *= 2
    where = "" if condition is None else f" WHERE p.id IN {condition.passages}"
    rows = all_rows(
        conn,
        f"SELECT p.memory_id, p.id, 1.0 - vec_distance_cosine(v.embedding, ?) AS score FROM {space.table} v"
        f" JOIN passages p ON p.id = v.rowid{where} ORDER BY score DESC, p.memory_id, p.id",
        (query.tobytes(), *values),
    )
    return _first(_best(rows), depth)


def complete(conn: apsw.Connection, space: StoredSpace, query: Vector, ids: Iterable[int]) -> Candidates:
    """Return the exact score of each of `ids` that has a vector, as `search` would give it."""
    # The order of the join makes each vector a look-up by its rowid; the other order scans the table.
    rows = all_rows(
        conn,
        "SELECT p.memory_id, p.id, 1.0 - vec_distance_cosine(v.embedding, ?) AS score"
        " FROM json_each(?) j CROSS JOIN passages p ON p.memory_id = j.value"
        f" CROSS JOIN {space.table} v ON v.rowid = p.id ORDER BY score DESC, p.memory_id, p.id",
        (query.tobytes(), json.dumps(list(ids))),
    )
    return _best(rows)


def counts(conn: apsw.Connection, space: StoredSpace) -> tuple[int, int, int]:
    """Return how many passages of the file have a vector in the space, wait for one, and were refused one."""
    vectors, refused = all_rows(
        conn,
        "SELECT count(v.vector_hash), count(*) - count(v.vector_hash) FROM passage_vectors v"
        " JOIN passages p ON p.id = v.passage_id WHERE v.embedder_id = ?",
        (space.id,),
    )[0]
    passages = one_value(conn, "SELECT count(*) FROM passages")
    return vectors, passages - vectors - refused, refused


def waits(conn: apsw.Connection, space: StoredSpace) -> int:
    """Return how many passages have no row in the space: a count of two indexes, cheap enough for every search."""
    passages = one_value(conn, "SELECT count(*) FROM passages")
    noted = one_value(conn, "SELECT count(*) FROM passage_vectors WHERE embedder_id = ?", (space.id,))
    return max(0, int(passages) - int(noted))


def pending(
    conn: apsw.Connection,
    space: StoredSpace,
    limit: int,
    *,
    after: int = 0,
    memory_ids: Sequence[int] | None = None,
) -> list[tuple[int, int, int, int]]:
    """Return up to `limit` passages (of some memories) that wait for a vector: id, memory id, start and stop.

    They come in the order of their ids, those up to `after` left out.
    """
    some, values = ("", ()) if memory_ids is None else (_AMONG.format("p.memory_id"), (json.dumps(list(memory_ids)),))
    rows = all_rows(
        conn,
        "SELECT p.id, p.memory_id, p.start, p.stop FROM passages p"
        f" WHERE p.id > ? AND {_WAITS}{some} ORDER BY p.id LIMIT ?",
        (after, space.id, *values, limit),
    )
    return [(passage_id, memory_id, start, stop) for passage_id, memory_id, start, stop in rows]


def still_pending(conn: apsw.Connection, space: StoredSpace, passage_ids: Sequence[int]) -> list[int]:
    """Return which of some passages are there and wait for a vector."""
    rows = all_rows(
        conn,
        f"SELECT p.id FROM passages p WHERE {_WAITS}{_AMONG.format('p.id')}",
        (space.id, json.dumps(list(passage_ids))),
    )
    return [passage_id for (passage_id,) in rows]


def _best(rows: Sequence[tuple[int | None, int, float | None]]) -> Candidates:
    """Keep the best passage of each memory; `rows` come best first, without a memory where it is gone."""
    scores: dict[int, float] = {}
    passages: dict[int, int] = {}
    for memory_id, passage_id, score in rows:
        if memory_id is not None and score is not None and memory_id not in scores:
            scores[memory_id] = score
            passages[memory_id] = passage_id
    return Candidates(ids=tuple(scores), scores=tuple(scores.values()), passages=passages)


def _first(found: Candidates, depth: int) -> Candidates:
    ids = found.ids[:depth]
    return Candidates(ids=ids, scores=found.scores[:depth], passages={one: found.passages[one] for one in ids})

"""The semantic signal: cosine over one embedding space in sqlite-vec."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import apsw
import numpy as np

from memstore.checks import digest
from memstore.database import all_rows, one_value
from memstore.embedding import Vector
from memstore.filters import Condition
from memstore.records import Candidates

# sqlite-vec 0.1 answers no nearest-neighbour query for more (https://alexgarcia.xyz/sqlite-vec/features/knn.html).
_MOST_NEIGHBOURS = 4096
_WAITS = (
    "p.embedder_id IS NULL"
    " AND NOT EXISTS (SELECT 1 FROM passage_vectors v WHERE v.embedder_id = ? AND v.passage_id = p.id)"
)
_AMONG = " AND {} IN (SELECT value FROM json_each(?))"
_COLUMNS = "id, name, spec, model_id, dimensions, query_prefix, passage_prefix, fingerprint, languages, state, searched"
# How many passages stand for all of a space: the spread of their cosines is then known to a twentieth.
_SAMPLE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSpace:
    """A row of `embedders`."""

    id: int
    name: str
    spec: str | None
    model_id: str
    dimensions: int
    query_prefix: str
    passage_prefix: str
    fingerprint: bytes
    languages: str
    state: str
    searched: int
    # Why it can't be used; nothing where it can.
    damage: str = ""

    @property
    def table(self) -> str:
        return f"vectors_{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a passage that a model can't read whole: its span, counted from the passage's start, and its vector."""

    start: int
    stop: int
    text_hash: bytes
    vector: Vector | None


# What a model made of a passage: its vector, None where it gives no usable one, or those of its pieces.
Made: TypeAlias = Vector | tuple[Piece, ...] | None


def spaces(conn: apsw.Connection) -> list[StoredSpace]:
    """Return the embedding spaces of the file, oldest first."""
    rows = all_rows(conn, f"SELECT {_COLUMNS} FROM embedders ORDER BY id")
    names = _COLUMNS.split(", ")
    found = [StoredSpace(**dict(zip(names, row, strict=True))) for row in rows]
    return [replace(space, damage=_damage(conn, space)) for space in found]


def _damage(conn: apsw.Connection, space: StoredSpace) -> str:
    """Say why a space can't be used, nothing where it can: its row or its tables are not as they were made."""
    texts = (space.name, space.model_id, space.query_prefix, space.passage_prefix, space.languages)
    whole = isinstance(space.dimensions, int) and isinstance(space.fingerprint, bytes)
    if not whole or not all(isinstance(one, str) for one in texts) or not isinstance(space.spec, str | None):
        return unreadable(space, "what is noted of it is of another kind")
    if len(space.fingerprint) != 4 * space.dimensions or space.state not in ("ready", "filling"):
        return unreadable(space, "what is noted of it is not what was")
    if one_value(conn, "SELECT sql FROM sqlite_schema WHERE name = ?", (space.table,)) != declaration(space):
        return unreadable(space, f"{space.table} is not the table that was made")
    try:
        # sqlite-vec 0.1.9 follows a null pointer where it can't ask its table of rowids for these columns.
        conn.execute(
            f"SELECT r.id, r.chunk_id, r.chunk_offset FROM {space.table}_rowids r, {space.table}_chunks,"
            f" {space.table}_vector_chunks00 LIMIT 0"
        )
    except apsw.SQLError as error:
        return unreadable(space, error)
    return ""


def unreadable(space: StoredSpace, why: object) -> str:
    """Say that the vectors of a space are there no more, or not as they were stored."""
    return f"the vectors of {space.name} are damaged ({why}); memstore doctor says what is wrong"


def add_space(
    conn: apsw.Connection,
    *,
    name: str,
    spec: str | None,
    model_id: str,
    fingerprint: Vector,
    background: Vector,
    query_prefix: str,
    passage_prefix: str,
    pooling: str,
    languages: Sequence[str],
    state: str,
) -> StoredSpace:
    """Make an embedding space and its table of vectors; the metric is cosine.

    It is one of those that searches ask, unless the user has chosen among the others.
    """
    dimensions = len(fingerprint)
    conn.execute(
        "INSERT INTO embedders (name, spec, model_id, dimensions, query_prefix, passage_prefix, pooling, fingerprint,"
        " background, languages, state, searched)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(min(searched), 1) FROM embedders))",
        (
            *(name, spec, model_id, dimensions, query_prefix, passage_prefix, pooling, fingerprint.tobytes()),
            *(background.tobytes(), " ".join(languages), state),
        ),
    )
    make_table(conn, spaces(conn)[-1])
    # Read again: before there was a table it was one without.
    return spaces(conn)[-1]


def declaration(space: StoredSpace) -> str:
    """Return the statement that makes a space's table of vectors, as the file keeps it."""
    return f"CREATE VIRTUAL TABLE {space.table} USING vec0 (embedding FLOAT[{space.dimensions}] DISTANCE_METRIC=cosine)"


def make_table(conn: apsw.Connection, space: StoredSpace) -> None:
    """Make the table of a space's vectors, empty."""
    conn.execute(declaration(space))


def drop_space(conn: apsw.Connection, space: StoredSpace) -> None:
    """Take a space and all of its vectors out of the file."""
    conn.execute("DELETE FROM passage_vectors WHERE embedder_id = ?", (space.id,))
    conn.execute("DELETE FROM passages WHERE embedder_id = ?", (space.id,))
    conn.execute(f"DROP TABLE {space.table}")
    conn.execute("DELETE FROM embedders WHERE id = ?", (space.id,))


def set_state(conn: apsw.Connection, space: StoredSpace, state: str) -> None:
    """Say whether a space can be searched (`ready`) or not yet (`filling`)."""
    conn.execute("UPDATE embedders SET state = ? WHERE id = ?", (state, space.id))


def set_searched(conn: apsw.Connection, names: Sequence[str]) -> None:
    """Say which spaces a search asks that names none."""
    conn.execute("UPDATE embedders SET searched = name IN (SELECT value FROM json_each(?))", (json.dumps(list(names)),))


def add_passage(
    conn: apsw.Connection, memory_id: int | None, start: int, stop: int, space: StoredSpace | None = None
) -> int:
    """Note a span of a memory's text that waits for vectors, or a piece of a space; return the passage's id."""
    conn.execute(
        "INSERT INTO passages (memory_id, start, stop, embedder_id) VALUES (?, ?, ?, ?)",
        (memory_id, start, stop, None if space is None else space.id),
    )
    return conn.last_insert_rowid()


def index(conn: apsw.Connection, space: StoredSpace, rows: Iterable[tuple[int, bytes, Made]]) -> None:
    """Store what a model made of passages, by passage id, each with the hash of the text it was made from.

    None is a passage that the model gives no usable vector for: it is noted, and not tried again.
    """
    for passage_id, text_hash, made in rows:
        if not isinstance(made, tuple):
            _store(conn, space, passage_id, text_hash, made)
            continue
        memory_id, start, stop = all_rows(
            conn, "SELECT memory_id, start, stop FROM passages WHERE id = ?", (passage_id,)
        )[0]
        for piece in made:
            span = start + piece.start, min(start + piece.stop, stop)
            _store(conn, space, add_passage(conn, memory_id, *span, space), piece.text_hash, piece.vector)
        _store(conn, space, passage_id, text_hash, None, pieces=len(made))


def _store(
    conn: apsw.Connection,
    space: StoredSpace,
    passage_id: int,
    text_hash: bytes,
    vector: Vector | None,
    *,
    pieces: int = 0,
) -> None:
    # vec0 knows no OR REPLACE, and one of a note would pass by the triggers that count.
    _drop(conn, space, passage_id)
    vector_hash = None
    if vector is not None:
        conn.execute(f"INSERT INTO {space.table} (rowid, embedding) VALUES (?, ?)", (passage_id, vector.tobytes()))
        vector_hash = digest(vector.tobytes())
    conn.execute(
        "INSERT INTO passage_vectors (embedder_id, passage_id, text_hash, vector_hash, pieces) VALUES (?, ?, ?, ?, ?)",
        (space.id, passage_id, text_hash, vector_hash, pieces),
    )


def is_there(conn: apsw.Connection, space: StoredSpace) -> bool:
    """Say whether a space is still in the file; another process may have removed it."""
    return bool(one_value(conn, "SELECT EXISTS (SELECT 1 FROM embedders WHERE id = ?)", (space.id,)))


def had_any(conn: apsw.Connection) -> bool:
    """Say whether the file has or had a space."""
    return bool(one_value(conn, "SELECT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'embedders')"))


def stored(conn: apsw.Connection, space: StoredSpace, text_hashes: Iterable[bytes]) -> dict[bytes, Vector]:
    """Return the vectors that a space has of some texts, by the hash of each: what need not be made again.

    A vector whose bytes are not those that were stored is none.
    """
    rows = all_rows(
        conn,
        "SELECT v.text_hash, v.vector_hash, n.embedding FROM json_each(?1) j CROSS JOIN passage_vectors v"
        # Left to itself SQLite looks through all notes of the space for each hash.
        " ON v.embedder_id = ?2 AND v.passage_id = (SELECT o.passage_id FROM passage_vectors o"
        "  INDEXED BY passage_vectors_text WHERE o.embedder_id = ?2 AND o.text_hash = unhex(j.value)"
        "  AND o.vector_hash IS NOT NULL LIMIT 1)"
        f" CROSS JOIN {space.table} n ON n.rowid = v.passage_id",
        (json.dumps([one.hex() for one in text_hashes]), space.id),
    )
    return {
        text_hash: np.frombuffer(vector, dtype=np.float32)
        for text_hash, vector_hash, vector in rows
        if digest(vector) == vector_hash
    }


def sample(conn: apsw.Connection, space: StoredSpace) -> tuple[int, ...]:
    """Return up to 256 passages of different texts that stand for all of a space: those with the lowest hashes.

    Hashes are as good as random (a bottom-k sketch: Cohen and Kaplan, 2007), and an index has them in their order.
    """
    rows = all_rows(
        conn,
        "SELECT min(passage_id) FROM passage_vectors INDEXED BY passage_vectors_text"
        " WHERE embedder_id = ? AND vector_hash IS NOT NULL GROUP BY text_hash ORDER BY text_hash LIMIT ?",
        (space.id, _SAMPLE),
    )
    return tuple(passage_id for (passage_id,) in rows)


def vectors(conn: apsw.Connection, space: StoredSpace, passage_ids: Sequence[int]) -> Vector:
    """Return the vectors of passages, float32 of shape (n, dimensions); those that are not there are left out."""
    rows = all_rows(
        conn,
        f"SELECT v.embedding FROM json_each(?) j CROSS JOIN {space.table} v ON v.rowid = j.value",
        (json.dumps(list(passage_ids)),),
    )
    return np.frombuffer(b"".join(vector for (vector,) in rows), dtype=np.float32).reshape(-1, space.dimensions)


def by_passage(conn: apsw.Connection, space: StoredSpace, memory_ids: Iterable[int]) -> dict[int, Vector]:
    """Return the vectors, float32 of shape (dimensions,), of all passages of some memories, by the passage's id."""
    rows = all_rows(
        conn,
        "SELECT p.id, v.embedding FROM json_each(?) j CROSS JOIN passages p ON p.memory_id = j.value"
        f" CROSS JOIN {space.table} v ON v.rowid = p.id",
        (json.dumps(list(memory_ids)),),
    )
    return {passage_id: np.frombuffer(vector, dtype=np.float32) for passage_id, vector in rows}


def left_behind(conn: apsw.Connection, text: str) -> int | None:
    """Return a passage that is gone, and whose vectors of the same text are still noted; None where there is none."""
    for space in spaces(conn):
        found = one_value(
            conn,
            "SELECT passage_id FROM passage_vectors v WHERE embedder_id = ? AND text_hash = ? AND pieces = 0"
            " AND NOT EXISTS (SELECT 1 FROM passages p WHERE p.id = v.passage_id) LIMIT 1",
            (space.id, digest(text.encode())),
        )
        if found is not None:
            return int(found)
    return None


def references(conn: apsw.Connection, space: StoredSpace) -> Vector:
    """Return the vectors of the reference sentences as the space's model gave them, float32 (n, dimensions)."""
    stored = one_value(conn, "SELECT background FROM embedders WHERE id = ?", (space.id,)) or b""
    whole = len(stored) // (4 * space.dimensions) * space.dimensions
    return np.frombuffer(stored, dtype=np.float32, count=whole).reshape(-1, space.dimensions)


def remove(conn: apsw.Connection, memory_id: int, *, vectors: bool) -> None:
    """Take a memory's passages and their vectors out.

    Without the extension (`vectors` false) and in a damaged space the vectors can't be reached: their rows in
    `passage_vectors` stay, are found by no search since their passage is gone, and `reconcile` removes them later.
    """
    gone = [passage_id for (passage_id,) in all_rows(conn, "SELECT id FROM passages WHERE memory_id = ?", (memory_id,))]
    conn.execute("DELETE FROM passages WHERE memory_id = ?", (memory_id,))
    for space in spaces(conn) if vectors else []:
        for passage_id in gone if not space.damage else []:
            _drop(conn, space, passage_id)


def is_sound(conn: apsw.Connection, space: StoredSpace) -> bool:
    """Say whether the vectors and the notes of them agree."""
    return not (_orphans(conn, space) or _lost(conn, space))


def reconcile(conn: apsw.Connection, space: StoredSpace) -> None:
    """Make the vectors and the notes of them agree: what belongs to nothing goes, what is lost waits again."""
    for passage_id in _orphans(conn, space):
        _drop(conn, space, passage_id)
    lost = _lost(conn, space)
    # A piece is not made again by itself: the passage that it is of is, with all of the memory's pieces.
    broken = all_rows(
        conn,
        "SELECT DISTINCT memory_id FROM passages WHERE embedder_id = ? AND id IN (SELECT value FROM json_each(?))",
        (space.id, json.dumps(lost)),
    )
    for (memory_id,) in broken:
        lost += [
            passage_id
            for (passage_id,) in all_rows(
                conn,
                "SELECT p.id FROM passages p JOIN passage_vectors v ON v.passage_id = p.id AND v.embedder_id = ?1"
                " WHERE p.memory_id = ?2 AND (v.pieces > 0 OR p.embedder_id = ?1)",
                (space.id, memory_id),
            )
        ]
    for passage_id in lost:
        _drop(conn, space, passage_id)
    for (memory_id,) in broken:
        conn.execute("DELETE FROM passages WHERE memory_id = ? AND embedder_id = ?", (memory_id, space.id))


def _orphans(conn: apsw.Connection, space: StoredSpace) -> list[int]:
    """Return the passages that are noted or have a vector, and are gone, or not noted with it."""
    rows = all_rows(
        conn,
        "SELECT passage_id FROM passage_vectors v WHERE v.embedder_id = ?1"
        " AND NOT EXISTS (SELECT 1 FROM passages p WHERE p.id = v.passage_id)"
        f" UNION SELECT n.rowid FROM {space.table}_rowids n WHERE NOT EXISTS (SELECT 1 FROM passage_vectors v"
        "  WHERE v.embedder_id = ?1 AND v.passage_id = n.rowid AND v.vector_hash IS NOT NULL)",
        (space.id,),
    )
    return [passage_id for (passage_id,) in rows]


def _lost(conn: apsw.Connection, space: StoredSpace) -> list[int]:
    """Return the passages that are noted with a vector that is not there, and the pieces that are not noted."""
    rows = all_rows(
        conn,
        "SELECT v.passage_id FROM passage_vectors v WHERE v.embedder_id = ?1 AND v.vector_hash IS NOT NULL"
        f" AND v.passage_id NOT IN (SELECT rowid FROM {space.table}_rowids)"
        " UNION SELECT p.id FROM passages p WHERE p.embedder_id = ?1 AND NOT EXISTS"
        "  (SELECT 1 FROM passage_vectors v WHERE v.embedder_id = ?1 AND v.passage_id = p.id)",
        (space.id,),
    )
    return [passage_id for (passage_id,) in rows]


def forget_refused(conn: apsw.Connection, space: StoredSpace) -> None:
    """Have the passages wait again that the model gave no usable vector for."""
    conn.execute(
        "DELETE FROM passage_vectors WHERE embedder_id = ? AND vector_hash IS NULL AND pieces = 0"
        " AND EXISTS (SELECT 1 FROM passages p WHERE p.id = passage_id AND p.embedder_id IS NULL)",
        (space.id,),
    )


def disagreement(conn: apsw.Connection, space: StoredSpace, may_wait: int = 0) -> str:
    """Return in what the counts of a space disagree, nothing where each passage has what it should.

    As many as `may_wait` may be without: those that the model fails for, and not for others.
    """
    vectors, pending, _ = counts(conn, space)
    held = one_value(conn, f"SELECT count(*) FROM {space.table}_rowids")
    if pending > may_wait:
        return f"{pending} of its passages wait for a vector"
    return "" if held == vectors else f"it holds {held} vectors where {vectors} are noted"


def drop_vectors(conn: apsw.Connection, space: StoredSpace, passage_ids: Iterable[int]) -> None:
    """Take the vectors of passages, and the notes of them, out of a space: the passages wait again."""
    for passage_id in passage_ids:
        _drop(conn, space, passage_id)


def _drop(conn: apsw.Connection, space: StoredSpace, passage_id: int) -> None:
    conn.execute(f"DELETE FROM {space.table} WHERE rowid = ?", (passage_id,))
    conn.execute("DELETE FROM passage_vectors WHERE embedder_id = ? AND passage_id = ?", (space.id, passage_id))


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
    """Return how many vectors a space has, and how many passages wait for one, and were refused one."""
    vectors, refused, noted = all_rows(
        conn,
        "SELECT count(v.vector_hash),"
        " coalesce(sum(v.vector_hash IS NULL AND v.pieces = 0 AND p.embedder_id IS NULL), 0),"
        " coalesce(sum(p.embedder_id IS NULL), 0)"
        " FROM passage_vectors v JOIN passages p ON p.id = v.passage_id WHERE v.embedder_id = ?",
        (space.id,),
    )[0]
    return vectors, passages(conn) - noted, refused


def passages(conn: apsw.Connection) -> int:
    """Return how many passages the file has, without the pieces of those that some model can't read whole."""
    return int(one_value(conn, "SELECT passages FROM statistics"))


def waits(conn: apsw.Connection, space: StoredSpace) -> int:
    """Return how many passages wait for a vector in the space; two rows are read for it, so any search can ask."""
    dealt_with = one_value(conn, "SELECT passages FROM space_statistics WHERE embedder_id = ?", (space.id,)) or 0
    return max(0, passages(conn) - int(dealt_with))


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
    return all_rows(
        conn,
        "SELECT p.id, p.memory_id, p.start, p.stop FROM passages p"
        f" WHERE p.id > ? AND {_WAITS}{some} ORDER BY p.id LIMIT ?",
        (after, space.id, *values, limit),
    )


def size_of_pending(conn: apsw.Connection, space: StoredSpace) -> tuple[int, int]:
    """Return how many passages wait for a vector, and how many characters of text they have together."""
    number, characters = all_rows(
        conn,
        f"SELECT count(*), coalesce(sum(p.stop - p.start), 0) FROM passages p WHERE {_WAITS}",
        (space.id,),
    )[0]
    return number, characters


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

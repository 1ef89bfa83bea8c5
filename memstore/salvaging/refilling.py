"""The vectors of a damaged file, for the texts of the new one that they were made from: nothing is embedded again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from memstore import memories, semantic
from memstore.checks import digest
from memstore.database import Database
from memstore.embedding import Vector
from memstore.making import Span
from memstore.salvaging import shapes
from memstore.salvaging.believing import KeptSpace
from memstore.salvaging.sources import Source
from memstore.semantic import Made, Piece, StoredSpace

_BATCH = 500
# Passages of the new file that wait, by the hash of the text; and those that came in pieces, with their pieces.
_Waiting: TypeAlias = dict[bytes, list[int]]
_Pieced: TypeAlias = dict[int, tuple[Span, list[Span]]]


@dataclass(slots=True, kw_only=True)
class _Notes:
    """What a damaged file says of the vectors of a space: of which texts each is, by the hashes of both.

    `refused` are texts that the model gives no usable vector for, `pieces` how many pieces stand for a text, and
    `spans` where those are in each memory.
    """

    texts: dict[bytes, set[bytes]] = field(default_factory=dict)
    refused: set[bytes] = field(default_factory=set)
    pieces: dict[bytes, int] = field(default_factory=dict)
    spans: dict[int, set[tuple[int, int]]] = field(default_factory=dict)


def refill(database: Database, kept: KeptSpace, source: Source) -> None:
    """Make a space anew, with every vector whose bytes fit the hash that was noted of it.

    Where in the damaged file a vector stands is of no matter then; one whose note is lost waits to be made again.
    """
    space = _made(database, kept)
    notes = _noted(source, kept.space)
    waiting, pieced = _waiting(database, space, notes)
    wanted = {piece.hash for _, pieces in pieced.values() for piece in pieces}
    of_pieces: dict[bytes, Vector | None] = dict.fromkeys(notes.refused & wanted)
    batch: list[tuple[int, bytes, Made]] = []
    for content in _vectors(source, kept.space):
        vector = np.frombuffer(content, dtype=np.float32)
        for text_hash in notes.texts.get(digest(content), ()):
            batch.extend((passage_id, text_hash, vector) for passage_id in waiting.pop(text_hash, ()))
            if text_hash in wanted:
                of_pieces[text_hash] = vector
        if len(batch) >= _BATCH:
            _index(database, space, batch)
            batch = []
    for text_hash in notes.refused & waiting.keys():
        batch.extend((passage_id, text_hash, None) for passage_id in waiting.pop(text_hash))
    for passage_id, (whole, pieces) in pieced.items():
        if all(piece.hash in of_pieces for piece in pieces):
            batch.append((passage_id, whole.hash, _in_pieces(whole, pieces, of_pieces)))
    _index(database, space, batch)


def _made(database: Database, kept: KeptSpace) -> StoredSpace:
    old = kept.space
    with database.write() as conn:
        return semantic.add_space(
            conn,
            name=old.name,
            spec=old.spec,
            model_id=old.model_id,
            fingerprint=np.frombuffer(old.fingerprint, dtype=np.float32),
            background=np.frombuffer(kept.background, dtype=np.float32),
            query_prefix=old.query_prefix,
            passage_prefix=old.passage_prefix,
            pooling=kept.pooling,
            languages=old.languages.split(),
            state=old.state,
        )


def _noted(source: Source, space: StoredSpace) -> _Notes:
    notes = _Notes()
    for one in source.rows(shapes.PASSAGE_VECTORS):
        if one.fields.get("embedder_id") != space.id or not shapes.PASSAGE_VECTORS.fits_fields(one.fields):
            continue
        text_hash, vector_hash, pieces = (one.fields[name] for name in ("text_hash", "vector_hash", "pieces"))
        if not isinstance(text_hash, bytes) or not isinstance(pieces, int):
            continue
        if isinstance(vector_hash, bytes):
            notes.texts.setdefault(vector_hash, set()).add(text_hash)
        elif pieces > 0:
            notes.pieces[text_hash] = pieces
        else:
            notes.refused.add(text_hash)
    if notes.pieces:
        for one in source.rows(shapes.PASSAGES):
            memory_id, start, stop = (one.fields.get(name) for name in ("memory_id", "start", "stop"))
            own = one.fields.get("embedder_id") == space.id
            if own and isinstance(memory_id, int) and isinstance(start, int) and isinstance(stop, int):
                notes.spans.setdefault(memory_id, set()).add((start, stop))
    return notes


def _waiting(database: Database, space: StoredSpace, notes: _Notes) -> tuple[_Waiting, _Pieced]:
    waiting: _Waiting = {}
    pieced: _Pieced = {}
    last = 0
    while True:
        with database.read() as conn:
            pending = semantic.pending(conn, space, _BATCH, after=last)
            rows = memories.rows(conn, {memory_id for _, memory_id, _, _ in pending})
        if not pending:
            return waiting, pieced
        last = pending[-1][0]
        for passage_id, memory_id, start, stop in pending:
            whole = Span(rows[memory_id], start, stop)
            if whole.hash in notes.pieces:
                there = sorted(one for one in notes.spans.get(memory_id, ()) if start <= one[0] and one[1] <= stop)
                # Where some are lost, or are of the passage beside it too, the model cuts it again.
                if len(there) == notes.pieces[whole.hash]:
                    pieced[passage_id] = whole, [Span(rows[memory_id], *one) for one in there]
            else:
                waiting.setdefault(whole.hash, []).append(passage_id)


def _vectors(source: Source, space: StoredSpace) -> Iterator[bytes]:
    """Yield what may be a vector of a space, in the pieces that sqlite-vec keeps them in."""
    width = 4 * space.dimensions
    for one in source.rows(shapes.chunks(space.id, space.dimensions)):
        content = one.fields.get("vectors")
        if isinstance(content, bytes):
            yield from (content[at : at + width] for at in range(0, len(content) - width + 1, width))


def _in_pieces(whole: Span, pieces: Sequence[Span], vectors: dict[bytes, Vector | None]) -> Made:
    return tuple(
        Piece(
            start=one.start - whole.start,
            stop=one.stop - whole.start,
            text_hash=one.hash,
            vector=vectors[one.hash],
        )
        for one in pieces
    )


def _index(database: Database, space: StoredSpace, batch: Sequence[tuple[int, bytes, Made]]) -> None:
    with database.write() as conn:
        semantic.index(conn, space, batch)

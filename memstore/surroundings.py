"""What stands round the hits of a search: all passages of their memories, and the memories beside them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import apsw
import numpy as np

from memstore import checks, memories, semantic, threads
from memstore.database import Database, all_rows
from memstore.embedding import Vector
from memstore.errors import EmbedderError
from memstore.filters import Filter
from memstore.records import Memory, Passage, SearchResult
from memstore.semantic import StoredSpace
from memstore.serving import Serving


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A passage of a memory, its vector as a unit vector, and its cosine with the query; None where not known."""

    passage: Passage
    vector: Vector | None = None
    similarity: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What stands round some hits, all by the id of a memory.

    `stretches` holds the passages of each hit and neighbour in their order, `beside` those that stand beside a hit in
    its thread, the nearest first, the one after before the one before, `memories` each of these. `chance` is the mean
    cosine of unrelated sentences in the space that the vectors are of.
    """

    stretches: Mapping[int, tuple[Stretch, ...]]
    beside: Mapping[int, tuple[int, ...]]
    memories: Mapping[int, Memory]
    chance: float = 0.0


def read(
    database: Database, serving: Serving, found: SearchResult, chosen: Filter, *, neighbours: bool
) -> Surroundings:
    """Return what stands round the hits; only what passes the filter of the search and has not expired.

    Vectors are those of the first space that took part.
    """
    with database.read() as conn:
        space = next((one for one in semantic.spaces(conn) if one.name in found.spaces[:1]), None)
        beside: dict[int, tuple[int, ...]] = {}
        there: dict[int, Memory] = {}
        if neighbours:
            nearest = {hit.memory.id: _nearest(conn, hit.memory) for hit in found}
            there = memories.read(conn, _passing(conn, {one for ids in nearest.values() for one in ids}, chosen))
            beside = {one: tuple(other for other in ids if other in there) for one, ids in nearest.items()}
        # What was changed since the search has other passages by now: of that only what was found is told.
        changed = memories.changed(conn, {hit.memory.id: hit.memory.updated_at for hit in found})
        whole = {hit.memory.id: hit.memory for hit in found if hit.memory.id not in changed} | there
        vectors = {} if space is None else semantic.by_passage(conn, space, whole)
        chance = 0.0 if space is None else _chance(semantic.references(conn, space))
        spans = _spans(conn, whole, space)
    query = None if space is None else _query(serving, space, found.query)
    stretches = {
        memory_id: tuple(_stretch(whole[memory_id], start, stop, vectors.get(one), query) for one, start, stop in own)
        for memory_id, own in spans.items()
        # A passage that a damaged index hands out is of another memory.
        if memory_id in whole
    }
    return Surroundings(stretches=stretches, beside=beside, memories=there, chance=chance)


def _nearest(conn: apsw.Connection, memory: Memory) -> tuple[int, ...]:
    """Return the memories beside one, the nearest first."""
    if memory.thread is None or memory.position is None:
        return ()
    at = threads.Place(namespace=memory.namespace, thread=memory.thread, position=memory.position, memory_id=memory.id)
    before, after = threads.sides(conn, at)
    return tuple(
        one for near in range(threads.REACH) for side in (after, before[::-1]) for one in side[near : near + 1]
    )


def _passing(conn: apsw.Connection, ids: set[int], chosen: Filter) -> list[int]:
    condition = chosen.condition(conn, checks.now())
    if condition is None:
        return sorted(ids)
    rows = all_rows(
        conn,
        f"SELECT value FROM json_each(?) WHERE value IN {condition.ids}",
        (json.dumps(sorted(ids)), *condition.values),
    )
    return [one for (one,) in rows]


def _spans(
    conn: apsw.Connection, whole: Mapping[int, Memory], space: StoredSpace | None
) -> dict[int, list[tuple[int, int, int]]]:
    """Return the passages of memories as (id, start, stop), in the order of the text; pieces that a space made too."""
    rows = all_rows(
        conn,
        "SELECT memory_id, id, start, stop FROM passages WHERE memory_id IN (SELECT value FROM json_each(?))"
        " AND (embedder_id IS NULL OR embedder_id = ?) ORDER BY memory_id, start, id",
        (json.dumps(list(whole)), None if space is None else space.id),
    )
    found: dict[int, list[tuple[int, int, int]]] = {}
    for memory_id, *span in rows:
        found.setdefault(memory_id, []).append((span[0], span[1], span[2]))
    return found


def _query(serving: Serving, space: StoredSpace, query: str) -> Vector | None:
    """Return the vector of a query that was just asked, which the model still knows."""
    try:
        return _unit(serving.model(space, 0.0).query(query))
    except EmbedderError:
        return None


def _stretch(memory: Memory, start: int, stop: int, vector: Vector | None, query: Vector | None) -> Stretch:
    own = _unit(vector)
    return Stretch(
        passage=Passage(start=start, stop=stop, text=memory.text[start:stop]),
        vector=own,
        similarity=None if own is None or query is None else float(own @ query),
    )


def _chance(references: Vector) -> float:
    """Return the mean cosine of different plain sentences, 0 where the space has too few."""
    known = references[np.isfinite(references).all(axis=1)]
    if len(known) < 2:
        return 0.0
    units = known / np.linalg.norm(known, axis=1, keepdims=True)
    cosines = units @ units.T
    return float((cosines.sum() - np.trace(cosines)) / (len(known) * (len(known) - 1)))


def _unit(vector: Vector | None) -> Vector | None:
    if vector is None:
        return None
    found: Vector = vector / np.linalg.norm(vector)
    return found

"""Is a file sound? Every table compared with what its memories say that it must hold: checks of the tests' own.

`sound` asks the store's doctor too, so that the two are judged by each other.
"""

import functools
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from memstore import MemoryStore, memories
from memstore.analysis import LANGUAGES, Analyser
from memstore.checks import digest
from memstore.entities import key, known_terms
from memstore.memories import Row
from memstore.passages import cut
from memstore.records import Entity
from memstore.writing import found_in

# What a vector must be, from the text that its model read.
Vectors = Callable[[str], np.ndarray]
_ANALYSERS = functools.cache(Analyser)
# What was read of memories: a file is looked at again and again, and most of it stays.
_READ: dict[tuple[Any, ...], tuple[str, Counter[str]]] = {}
_FOUND: dict[tuple[Any, ...], tuple[frozenset[str], frozenset[str]]] = {}


def sound(path: str | Path, vectors: Mapping[str, Vectors] | None = None) -> list[str]:
    """Return what is wrong with a file, one sentence each; nothing where it is whole.

    `vectors` makes the vectors of a text again, by the name of the space.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with MemoryStore(path, embedder="none") as store:
            with store._database.read() as conn:
                found = list(_all_checks(conn, vectors or {}))
            return found + doctored(store)


def doctored(store: MemoryStore) -> list[str]:
    """Return the damage that the store's own doctor finds."""
    if not hasattr(store.maintenance, "doctor"):
        return []
    findings = store.maintenance.doctor().findings
    return [f"doctor: {one.part}: {one.sentence}" for one in findings if one.severity == "damage"]


def _all_checks(conn: apsw.Connection, vectors: Mapping[str, Vectors]) -> Iterator[str]:
    yield from _same("integrity", "ok", *[text for (text,) in conn.execute("PRAGMA integrity_check")])
    for table, *_ in conn.execute("PRAGMA foreign_key_check"):
        yield f"a row of {table} names one that is not there"
    ids = [one for (one,) in conn.execute("SELECT id FROM memories ORDER BY id")]
    rows = {one: row for one in ids if (row := memories.get(conn, one)) is not None}
    for one, content_hash, row_hash in conn.execute("SELECT id, content_hash, row_hash FROM memories"):
        yield from _same(
            f"memory {one}: hashes", (rows[one].content_hash, rows[one].row_hash), (content_hash, row_hash)
        )
    yield from _missing("tags", rows, (one for (one,) in conn.execute("SELECT memory_id FROM tags")))
    yield from _missing("uses", rows, (one for (one,) in conn.execute("SELECT memory_id FROM uses")))
    yield from _keywords(conn, rows)
    yield from _entities(conn, rows)
    yield from _passages(conn, rows)
    for space, name, dimensions in conn.execute("SELECT id, name, dimensions FROM embedders").fetchall():
        yield from _vectors(conn, rows, space, name, dimensions, vectors.get(name))


def _same(what: str, expected: Any, *found: Any) -> Iterator[str]:
    for one in found:
        if one != expected:
            yield f"{what}: {str(one)[:200]} where {str(expected)[:200]} should be"


def _missing(what: str, rows: dict[int, Row], found: Iterable[int]) -> Iterator[str]:
    for one in sorted(set(found) - rows.keys()):
        yield f"{what}: memory {one} is not there"


def _analysed(row: Row, languages: tuple[str, ...]) -> tuple[str, Counter[str]]:
    """Return the languages of a memory and how often it holds each term."""
    known = _READ.get((row.body, languages))
    if known is None:
        analyser = _ANALYSERS(languages)
        own = analyser.languages_of(row.text, row.language)
        known = _READ[row.body, languages] = " ".join(own), Counter(analyser.terms(row.indexed_text(languages), own))
    return known


def _beside(rows: dict[int, Row]) -> dict[int, list[int]]:
    """Return the two memories before and the two after each one in its thread."""
    threads: defaultdict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for one, row in rows.items():
        if row.thread is not None:
            threads[row.namespace, row.thread].append((row.position or 0.0, one))
    near: dict[int, list[int]] = {one: [] for one in rows}
    for places in threads.values():
        order = [one for _, one in sorted(places)]
        for at, one in enumerate(order):
            near[one] = order[max(0, at - 2) : at] + order[at + 1 : at + 3]
    return near


def _keywords(conn: apsw.Connection, rows: dict[int, Row]) -> Iterator[str]:
    """Compare the keyword index and its cache with an analysis of the memories."""
    # Each as it was analysed: in the languages that the file had then.
    made = dict(conn.execute("SELECT memory_id, analyser FROM analysed"))
    read = {one: _analysed(row, tuple(made.get(one, "").split()[1:]) or LANGUAGES) for one, row in rows.items()}
    near = _beside(rows)
    cached = {one: rest for one, *rest in conn.execute("SELECT memory_id, languages, length, beside FROM analysed")}
    expected = {one: [said, counts.total(), " ".join(map(str, near[one]))] for one, (said, counts) in read.items()}
    for one in sorted(cached.keys() | expected.keys()):
        yield from _same(f"memory {one}: analysed", expected.get(one), cached.get(one))
    yield from _same(
        "statistics",
        (len(rows), sum(counts.total() for _, counts in read.values())),
        conn.execute("SELECT memories, terms FROM statistics").fetchone(),
    )
    indexed = [one for (one,) in conn.execute("SELECT rowid FROM memory_terms ORDER BY rowid")]
    yield from _same("rows of the index", sorted(rows), indexed)
    conn.execute("CREATE VIRTUAL TABLE temp.held USING fts5vocab('main', 'memory_terms', 'instance')")
    own: defaultdict[int, Counter[str]] = defaultdict(Counter)
    lent: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for one, term, column in conn.execute("SELECT doc, term, col FROM temp.held"):
        (own if column == "terms" else lent)[one][term] += 1
    conn.execute("DROP TABLE temp.held")
    for one in sorted(own.keys() | lent.keys() | rows.keys()):
        counts = read[one][1] if one in read else Counter()
        yield from _same(f"memory {one}: terms of the index", counts, own[one])
        borrowed = Counter(term for other in near.get(one, ()) for term in read[other][1])
        yield from _same(f"memory {one}: terms of its neighbours", borrowed, lent[one])


def _mentions(row: Row, known: tuple[tuple[str, str, str], ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the keys of the entities in a memory, and of those in doubt."""
    there = _FOUND.get((row.body, known))
    if there is None:
        found = found_in(row, {spelling: Entity(name=name, kind=kind) for spelling, name, kind in known}, None)
        there = _FOUND[row.body, known] = frozenset(found.sure), frozenset(found.doubtful)
    return there


def _entities(conn: apsw.Connection, rows: dict[int, Row]) -> Iterator[str]:
    """Compare what memories are linked to with what stands in them."""
    known = tuple(sorted((spelling, one.name, one.kind) for spelling, one in known_terms(conn).items()))
    links: defaultdict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    for one, name, given, doubtful in conn.execute(
        "SELECT memory_id, e.key, given, doubtful FROM memory_entities LEFT JOIN entities e ON e.id = entity_id"
    ):
        links[one][name] = given, doubtful
    yield from _missing("entities", rows, links)
    for one, row in rows.items():
        sure, doubtful = _mentions(row, known)
        given = {name for name, (is_given, _) in links[one].items() if is_given}
        expected = dict.fromkeys(sure | given, 0) | dict.fromkeys(doubtful - given - sure, 1)
        yield from _same(f"memory {one}: entities", expected, {name: said for name, (_, said) in links[one].items()})
    idle = "SELECT key, name FROM entities WHERE id NOT IN (SELECT entity_id FROM memory_entities)"
    for spelling, name in conn.execute(idle):
        yield f"the entity {name!r} is mentioned nowhere"
        yield from _same("the key of an entity", key(name), spelling)


def _passages(conn: apsw.Connection, rows: dict[int, Row]) -> Iterator[str]:
    spans: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for one, start, stop in conn.execute(
        "SELECT memory_id, start, stop FROM passages WHERE embedder_id IS NULL ORDER BY id"
    ):
        spans[one].append((start, stop))
    for one in sorted(spans.keys() | rows.keys()):
        yield from _same(f"memory {one}: passages", cut(rows[one].text) if one in rows else [], spans[one])
    number = sum(map(len, spans.values()))
    yield from _same("statistics: passages", number, conn.execute("SELECT passages FROM statistics").get)


def _vectors(
    conn: apsw.Connection, rows: dict[int, Row], space: int, name: str, dimensions: int, made: Vectors | None
) -> Iterator[str]:
    """Compare the vectors of a space with the notes of them, and with the texts that they are of."""
    passages = {
        one: (memory_id, start, stop, owner)
        for one, memory_id, start, stop, owner in conn.execute(
            "SELECT id, memory_id, start, stop, embedder_id FROM passages"
        )
    }
    noted = {
        one: rest
        for one, *rest in conn.execute(
            "SELECT passage_id, text_hash, vector_hash, pieces FROM passage_vectors WHERE embedder_id = ?", (space,)
        )
    }
    held = dict(conn.execute(f"SELECT rowid, embedding FROM vectors_{space}"))
    with_vector = {one for one, (_, vector_hash, _) in noted.items() if vector_hash is not None}
    yield from _same(f"{name}: which passages have vectors", with_vector, held.keys())
    for one in sorted(noted.keys() - passages.keys()):
        yield f"{name}: a vector is noted of passage {one}, which is not there"
    for one, (memory_id, start, stop, owner) in passages.items():
        if one not in noted:
            if owner == space:
                yield f"{name}: piece {one} of memory {memory_id} is not noted"
            continue
        text_hash, vector_hash, _ = noted[one]
        text = rows[memory_id].embedded_text(start, stop) if memory_id in rows else ""
        yield from _same(f"{name}: memory {memory_id}: the text of passage {one}", digest(text.encode()), text_hash)
        if one in held:
            yield from _same(f"{name}: memory {memory_id}: vector {one}", vector_hash, digest(held[one]))
            if made is not None:
                yield from _same(f"{name}: memory {memory_id}: numbers of {one}", made(text).tobytes(), held[one])
            elif len(held[one]) != 4 * dimensions:
                yield f"{name}: vector {one} has {len(held[one])} bytes"
    dealt_with = sum(one in noted for one, (*_, owner) in passages.items() if owner is None)
    counted = conn.execute("SELECT passages FROM space_statistics WHERE embedder_id = ?", (space,)).get
    yield from _same(f"{name}: statistics", dealt_with, counted)

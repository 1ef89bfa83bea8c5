"""The entity signal: who and what a memory mentions, and how much of the query's entities that covers."""

import json
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from memstore.analysis import exact, pieces, term
from memstore.database import all_rows, as_stored, fts5_string, one_value
from memstore.entities.finding import Mentions, Recogniser, find, grams, is_function_word, key, reading
from memstore.filters import Condition, Filter
from memstore.records import Candidates, Entity

_LONGEST_GRAM = 8
# Found by their capitals, or as an author: their words are in the keyword index, and say there what they are worth.
_NAMES = frozenset({"name", "person"})
# So much of the weight of entities is a name worth; examples/fusion.py measures it.
NAME_CONFIDENCE = 0.4
_AMONG = " WHERE key IN (SELECT value FROM json_each(?))"
# A query is a question or a pasted page; entities past its first two thousand words are not looked up, nor what comes
# so late in a script that is written without spaces.
_MOST_QUERY_PIECES = 2_000
_LONGEST_HEAD = 12_000
# A mention counts unless it is in doubt and nothing else says that there is such an entity.
COUNTS = (
    "(l.doubtful = 0 OR EXISTS"
    " (SELECT 1 FROM memory_entities sure WHERE sure.entity_id = l.entity_id AND sure.doubtful = 0))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEntity:
    """An entity of the query that the store knows; `rarity` in [0, 1], 1 for one memory, 0 for all of them."""

    id: int
    name: str
    kind: str
    rarity: float

    @property
    def identifies(self) -> bool:
        """Say whether it is more than a name that is known by its capitals: a code, a path, what the user taught, …"""
        return self.kind not in _NAMES


def known_terms(conn: apsw.Connection, readings: Iterable[str] | None = None) -> dict[str, Entity]:
    """Return the user's own terms, all or those of some readings, by the reading of each spelling."""
    some, values = ("", ()) if readings is None else (_AMONG, (json.dumps(sorted(readings)),))
    rows = all_rows(conn, f"SELECT key, name, kind FROM entity_terms{some}", values)
    with as_stored("the list of known terms"):
        if not all(isinstance(field, str) for row in rows for field in row):
            raise TypeError("a field is no text")
    return {spelling: Entity(name=name, kind=kind) for spelling, name, kind in rows}


def index(conn: apsw.Connection, memory_id: int, found: Mentions, given: Sequence[str]) -> None:
    """Link a memory to the entities found in it and to those the caller gave, in place of its links before."""
    before = _unlink(conn, memory_id)
    # What the user has merged into another entity is that one, whoever names it.
    named = {key(one.name): one for one in _given(conn, given)}
    wanted = {**found.doubtful, **named, **found.sure}
    for spelling, entity in wanted.items():
        conn.execute(
            # A kind that says more takes the place of one that says less, whichever memory came first.
            "INSERT INTO entities (key, name, kind) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE"
            " SET kind = excluded.kind WHERE kind = 'given' OR (kind = 'name' AND excluded.kind <> 'given')",
            (spelling, named.get(spelling, entity).name, entity.kind),
        )
        doubtful = spelling in found.doubtful and spelling not in named
        conn.execute(
            "INSERT INTO memory_entities (memory_id, entity_id, given, doubtful)"
            " SELECT ?, id, ?, ? FROM entities WHERE key = ?",
            (memory_id, int(spelling in named), int(doubtful), spelling),
        )
    _forget_unmentioned(conn, before)


def remove(conn: apsw.Connection, memory_id: int) -> None:
    """Unlink a memory from its entities, and forget the entities that nothing mentions any more."""
    _forget_unmentioned(conn, _unlink(conn, memory_id))


def rename(conn: apsw.Connection, names: Mapping[str, tuple[str, str]]) -> None:
    """Give entities that are there, by their keys, the name and kind that they had in another file."""
    conn.executemany(
        "UPDATE entities SET name = ?, kind = ? WHERE key = ?",
        [(*named, spelling) for spelling, named in names.items()],
    )


def given(conn: apsw.Connection, memory_id: int) -> tuple[str, ...]:
    """Return the entities of a memory that came from the caller."""
    rows = all_rows(
        conn,
        "SELECT e.name FROM memory_entities l JOIN entities e ON e.id = l.entity_id"
        " WHERE l.memory_id = ? AND l.given ORDER BY e.key",
        (memory_id,),
    )
    return tuple(name for (name,) in rows)


def joined(conn: apsw.Connection, memory_id: int, found: Mentions) -> Mentions:
    """Return what was found in a memory now, and what is linked to it since it was found before."""
    rows = all_rows(
        conn,
        "SELECT e.name, e.kind, l.doubtful FROM memory_entities l JOIN entities e ON e.id = l.entity_id"
        " WHERE l.memory_id = ? AND l.given = 0",
        (memory_id,),
    )
    known = known_terms(conn, [reading(name) for name, _, _ in rows])
    sure, doubtful = dict[str, Entity](), dict[str, Entity]()
    for name, kind, in_doubt in rows:
        # What the user has merged into another entity since is that one.
        one = known.get(reading(name), Entity(name=name, kind=kind))
        (doubtful if in_doubt else sure)[key(one.name)] = one
    sure.update(found.sure)
    doubtful.update(found.doubtful)
    return Mentions(sure=sure, doubtful={one: entity for one, entity in doubtful.items() if one not in sure})


def of_query(conn: apsw.Connection, text: str, recogniser: Recogniser | None = None) -> tuple[QueryEntity, ...]:
    """Return the entities of a query that the store knows: found in it, or named in it however they are spelt."""
    text = unicodedata.normalize("NFC", text)
    text = text[:_LONGEST_HEAD]
    head = text[: max((start + len(piece) for piece, start in _first(pieces(text), _MOST_QUERY_PIECES)), default=0)]
    spelt = set(grams(head, _LONGEST_GRAM))
    written = find(head, known_terms(conn, spelt), recogniser).sure
    named = {gram for gram in spelt if not is_function_word(gram)}
    rows = all_rows(
        conn,
        "SELECT e.id, e.key, e.name, e.kind, count(*) FROM json_each(?) j JOIN entities e ON e.key = j.value"
        " JOIN memory_entities l ON l.entity_id = e.id GROUP BY e.id HAVING NOT min(l.doubtful) ORDER BY e.id",
        (json.dumps(sorted(named.union(written))),),
    )
    memories = one_value(conn, "SELECT count(*) FROM memories")
    return tuple(
        QueryEntity(id=entity_id, name=name, kind=kind, rarity=rarity(mentions, memories))
        for entity_id, spelling, name, kind, mentions in rows
        if spelling in written or kind != "name" or " " in spelling or _mostly_a_name(conn, name, mentions)
    )


def _mostly_a_name(conn: apsw.Connection, name: str, mentions: int) -> bool:
    """Say whether most memories that hold a word use it as a name: `mar` is no name for the sake of one `Mar`."""
    spellings = " OR ".join(map(fts5_string, {exact(name), term(name)}))
    holding = one_value(
        conn, "SELECT count(*) FROM memory_terms WHERE memory_terms MATCH ?", (f"terms : ({spellings})",)
    )
    return bool(2 * mentions > holding)


def rarity(mentions: int, memories: int) -> float:
    """Return how much a mention says, in [0, 1]: 1 when one memory has it, 0 when all do, (ln(N/n) / ln N)² between.

    The inverse document frequency ln(N/n) (Sparck Jones, 1972) as a share of its largest value; squared, since as in
    the vector space model it weighs the query's side and the memory's. Unsquared, the two names of a conversation
    still drowned the words (hit@10 on judged conversations .69 instead of .71).
    """
    if mentions <= 1 or memories <= 1:
        return 1.0
    return (max(0.0, math.log(memories / mentions)) / math.log(memories)) ** 2


def search(conn: apsw.Connection, asked: Sequence[QueryEntity], condition: Condition | None, depth: int) -> Candidates:
    """Return the `depth` memories that mention most of the query's entities, the newest first among equals.

    Scores are the share of the query's entities that a memory mentions, each counting as much as it is rare: in
    [0, 1], higher is better, 1 for a memory that mentions them all and is the only one to.
    """
    if not asked:
        return Candidates()
    where, values = ("", ()) if condition is None else (f" WHERE l.memory_id IN {condition.ids}", condition.values)
    rows = all_rows(
        conn,
        "SELECT l.memory_id, sum(j.value) / ? AS score FROM json_each(?) j"
        f" JOIN memory_entities l ON l.entity_id = CAST(j.key AS INTEGER){where}"
        " GROUP BY l.memory_id HAVING score > 0 ORDER BY score DESC, l.memory_id DESC LIMIT ?",
        (float(len(asked)), json.dumps({str(one.id): one.rarity for one in asked}), *values, depth),
    )
    ids, scores = zip(*rows, strict=True) if rows else ((), ())
    return Candidates(ids=ids, scores=scores)


def mentioned(
    conn: apsw.Connection, asked: Sequence[QueryEntity], ids: Iterable[int]
) -> dict[int, tuple[QueryEntity, ...]]:
    """Return which of the query's entities each of `ids` mentions, in the order asked."""
    if not asked:
        return {}
    # Candidates are few and mentions of a common name many: the order of the join and the plus keep to the few.
    rows = all_rows(
        conn,
        "SELECT l.memory_id, l.entity_id FROM json_each(?) j CROSS JOIN memory_entities l ON l.memory_id = j.value"
        " WHERE +l.entity_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)), json.dumps([one.id for one in asked])),
    )
    held: dict[int, set[int]] = {}
    for memory_id, entity_id in rows:
        held.setdefault(memory_id, set()).add(entity_id)
    return {memory_id: tuple(one for one in asked if one.id in entity_ids) for memory_id, entity_ids in held.items()}


def share(asked: Sequence[QueryEntity], held: Sequence[QueryEntity]) -> float:
    """Return the score that `search` gives a memory that mentions `held` of the entities `asked`."""
    return sum(one.rarity for one in held) / len(asked) if asked else 0.0


def confidence(asked: Sequence[QueryEntity]) -> float:
    """Return what the entities of a query are worth beside its words, in [0, 1]: 1 for codes and the like."""
    whole = sum(one.rarity for one in asked)
    worth = sum(one.rarity * (1.0 if one.identifies else NAME_CONFIDENCE) for one in asked)
    return worth / whole if whole else 1.0


def identified(held: Sequence[QueryEntity]) -> float:
    """Return the rarity of the rarest entity that is more than a name, in [0, 1]; 0 without any."""
    return max((one.rarity for one in held if one.identifies), default=0.0)


def most_mentioned(conn: apsw.Connection, moment: str, limit: int, *, superseded: bool = False) -> list[Entity]:
    """Return the entities that most memories mention at a time as stored, with how many do."""
    there, values = _there(conn, moment, superseded=superseded)
    rows = all_rows(
        conn,
        "SELECT e.name, e.kind, count(*) AS mentions FROM entities e JOIN memory_entities l ON l.entity_id = e.id"
        f"{there} GROUP BY e.id HAVING NOT min(l.doubtful) ORDER BY mentions DESC, e.name LIMIT ?",
        (*values, limit),
    )
    return [Entity(name=name, kind=kind, mentions=mentions) for name, kind, mentions in rows]


def mentioning(
    conn: apsw.Connection, name: str, moment: str, limit: int, *, superseded: bool = False
) -> list[int] | None:
    """Return the memories that mention an entity at a time as stored, the newest first; None when there is no such."""
    chosen = Filter(superseded=superseded).condition(conn, moment)
    where, values = ("", ()) if chosen is None else (f" AND {chosen.sql}", chosen.values)
    own = known_terms(conn, [reading(name)]).get(reading(name))
    rows = all_rows(
        conn,
        "SELECT m.id FROM entities e JOIN memory_entities l ON l.entity_id = e.id JOIN memories m ON m.id = l.memory_id"
        f" WHERE e.key = ? AND {COUNTS}{where}"
        " ORDER BY m.created_at DESC, m.id DESC LIMIT ?",
        (key(name if own is None else own.name), *values, limit),
    )
    if rows or own is not None:
        return [memory_id for (memory_id,) in rows]
    # What only superseded memories mention is known all the same.
    return None if superseded or mentioning(conn, name, moment, 1, superseded=True) is None else []


def linked(conn: apsw.Connection, name: str) -> list[int]:
    """Return the memories that are linked to an entity, in doubt or not."""
    rows = all_rows(
        conn,
        "SELECT l.memory_id FROM entities e JOIN memory_entities l ON l.entity_id = e.id WHERE e.key = ?",
        (key(name),),
    )
    return [memory_id for (memory_id,) in rows]


def named(conn: apsw.Connection, name: str) -> Entity | None:
    """Return the entity that memories mention under a name; None when there is none."""
    rows = all_rows(conn, "SELECT name, kind FROM entities WHERE key = ?", (key(name),))
    return Entity(name=rows[0][0], kind=rows[0][1]) if rows else None


def resolved(conn: apsw.Connection, names: Sequence[str]) -> tuple[str, ...]:
    """Return names as the user knows them: a spelling of a known term gives the term's name."""
    return tuple(dict.fromkeys(one.name for one in _given(conn, names)))


def note_recogniser(conn: apsw.Connection) -> None:
    """Note that a recogniser of the caller's own finds names in this file: without it they are not found again."""
    conn.execute("INSERT OR IGNORE INTO meta (key, value) VALUES ('recogniser', 'used')")


def was_recognised(conn: apsw.Connection) -> bool:
    """Say whether a recogniser of the caller's own has found names in this file."""
    return bool(one_value(conn, "SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'recogniser')"))


def _given(conn: apsw.Connection, names: Sequence[str]) -> list[Entity]:
    readings = {name: reading(name) for name in names}
    known = known_terms(conn, readings.values()) if names else {}
    return [known.get(as_read, Entity(name=name, kind="given")) for name, as_read in readings.items()]


def count(conn: apsw.Connection, moment: str) -> int:
    """Return how many entities memories mention without doubt at a time as stored."""
    there, values = _there(conn, moment, superseded=True)
    return int(
        one_value(
            conn,
            f"SELECT count(DISTINCT l.entity_id) FROM memory_entities l{there or ' WHERE TRUE'} AND l.doubtful = 0",
            values,
        )
    )


def _there(conn: apsw.Connection, moment: str, *, superseded: bool) -> tuple[str, tuple[Any, ...]]:
    """Return what keeps mentions `l` to those by memories that are there, and what is bound to it."""
    chosen = Filter(superseded=superseded).condition(conn, moment)
    return ("", ()) if chosen is None else (f" JOIN memories m ON m.id = l.memory_id WHERE {chosen.sql}", chosen.values)


def _unlink(conn: apsw.Connection, memory_id: int) -> list[int]:
    rows = all_rows(conn, "DELETE FROM memory_entities WHERE memory_id = ? RETURNING entity_id", (memory_id,))
    return [entity_id for (entity_id,) in rows]


def _forget_unmentioned(conn: apsw.Connection, ids: Sequence[int]) -> None:
    conn.execute(
        "DELETE FROM entities WHERE id IN (SELECT value FROM json_each(?))"
        " AND NOT EXISTS (SELECT 1 FROM memory_entities l WHERE l.entity_id = entities.id)",
        (json.dumps(ids),),
    )


def _first(found: Iterator[tuple[str, int]], most: int) -> Iterator[tuple[str, int]]:
    for count, one in enumerate(found):
        if count == most:
            return
        yield one

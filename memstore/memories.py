"""The source of truth: rows of `memories` and `tags`, written, read and counted."""

import dataclasses
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal, TypeAlias

import apsw

from memstore import checks, threads
from memstore.analysis import spoken
from memstore.database import all_rows, as_stored, one_value
from memstore.entities import COUNTS
from memstore.errors import InvalidInputError, StorageError
from memstore.filters import Condition, superseding
from memstore.records import Entity, Memory

Order: TypeAlias = Literal["newest", "oldest", "changed", "thread"]
ORDERS: dict[str, str] = {
    "newest": "m.created_at DESC, m.id DESC",
    "oldest": "m.created_at, m.id",
    "changed": "m.updated_at DESC, m.id DESC",
    "thread": "m.namespace, m.thread, m.position, m.id",
}
_NAMES = (
    "id",
    "key",
    "namespace",
    "text",
    "author",
    "thread",
    "position",
    "language",
    "created_at",
    "created_offset",
    "updated_at",
    "expires_at",
    "metadata",
    "pinned",
    "replaces",
)
_COLUMNS = ", ".join(_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A memory as stored; `id` is None until it is written. `language` is the caller's, `created_offset` too."""

    id: int | None
    key: str | None
    namespace: str
    text: str
    author: str | None
    thread: str | None
    position: float | None
    language: str | None
    created_at: str
    created_offset: int | None
    updated_at: str
    expires_at: str | None
    metadata: str
    pinned: bool
    replaces: int | None
    tags: tuple[str, ...]

    def expired(self, moment: str) -> bool:
        """Say whether the memory has expired at a time as stored."""
        return self.expires_at is not None and self.expires_at <= moment

    @property
    def body(self) -> tuple[Any, ...]:
        """What the indexes are made of: while it stays, they stay."""
        dated = (self.created_at, self.created_offset) if self.created_offset is not None else None
        return self.text, self.author, dated, self.language

    @property
    def place(self) -> threads.Place | None:
        """Where the memory stands in its thread; None when it is in none, or was not written yet."""
        if self.thread is None or self.position is None or self.id is None:
            return None
        return threads.Place(namespace=self.namespace, thread=self.thread, position=self.position, memory_id=self.id)

    @property
    def day(self) -> date | None:
        """The date that the caller gave, on the caller's clock."""
        if self.created_offset is None:
            return None
        return checks.local(self.created_at, self.created_offset).date()

    def indexed_text(self, languages: Sequence[str]) -> str:
        """What the keyword index reads: author, text, and the date when the caller gave one."""
        said = self.text if self.author is None else f"{self.author}: {self.text}"
        return said if self.day is None else f"{said} {spoken(self.day, languages)}"

    def embedded_text(self, start: int, stop: int) -> str:
        """What a model reads of a passage: its text, between the author and the date when the caller gave one."""
        span = self.text[start:stop]
        said = span if self.author is None else f"{self.author}: {span}"
        return said if self.day is None else f"{said} [{self.day.isoformat()}]"

    @property
    def content_hash(self) -> bytes:
        """The identity of a memory without a key: the same text by the same author in the same thread and namespace."""
        return content_hash(self.namespace, self.author, self.thread, self.text)

    @property
    def row_hash(self) -> bytes:
        """A hash of every field, to find damage by."""
        return checks.digest(json.dumps(dataclasses.astuple(self), ensure_ascii=False).encode())


def content_hash(namespace: str, author: str | None, thread: str | None, text: str) -> bytes:
    """Return the identity of a text; equal after Unicode and white space normalisation is equal, case counts."""
    return checks.digest(json.dumps([namespace, author, thread, checks.normalised(text)], ensure_ascii=False).encode())


def row_of(fields: Mapping[str, Any], tags: Iterable[str]) -> Row:
    """Return the row that holds some values by their columns, whatever they are; what is left out is None."""
    values = {name: fields.get(name) for name in _NAMES}
    # SQLite keeps a whole number in the place of an equal float, and has no type for yes and no.
    if isinstance(values["position"], int):
        values["position"] = float(values["position"])
    values["pinned"] = bool(values["pinned"])
    return Row(**values, tags=tuple(sorted(tags)))  # type: ignore[arg-type]


def get(conn: apsw.Connection, memory_id: int) -> Row | None:
    """Return the row of an id, expired or not; raise `DamagedStoreError` where it can't have been written."""
    # SQLite's ids end at 64 bits: one beyond is no memory's.
    return _row(conn, "id = ?", memory_id) if abs(memory_id) <= checks.LARGEST_INTEGER else None


def is_there(conn: apsw.Connection, memory_id: int) -> bool:
    """Say whether there is a row of an id, expired or not, damaged or not."""
    there = "SELECT EXISTS (SELECT 1 FROM memories WHERE id = ?)"
    return abs(memory_id) <= checks.LARGEST_INTEGER and bool(one_value(conn, there, (memory_id,)))


def rows(conn: apsw.Connection, ids: Iterable[int]) -> dict[int, Row]:
    """Return rows by id as they stand in the file, from one statement: damaged ones too, which a check looks for."""
    found = all_rows(
        conn,
        f"SELECT {', '.join('m.' + name for name in _NAMES)},"
        " (SELECT json_group_array(tag) FROM tags t WHERE t.memory_id = m.id)"
        " FROM json_each(?) j JOIN memories m ON m.id = j.value",
        (json.dumps(sorted(ids)),),
    )
    return {fields[0]: _as_row(fields, tags) for *fields, tags in found}


def hashes(conn: apsw.Connection, ids: Iterable[int]) -> dict[int, tuple[bytes, bytes]]:
    """Return the content hash and the row hash of memories as they are stored."""
    found = all_rows(
        conn,
        "SELECT m.id, m.content_hash, m.row_hash FROM json_each(?) j JOIN memories m ON m.id = j.value",
        (json.dumps(sorted(ids)),),
    )
    return {memory_id: (content, row) for memory_id, content, row in found}


def changed(conn: apsw.Connection, known: Mapping[int, datetime]) -> set[int]:
    """Return which memories are gone or were changed since they were read, by when they had been changed then."""
    rows = all_rows(
        conn,
        "SELECT id, updated_at FROM memories WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(known)),),
    )
    return known.keys() - {one for one, updated_at in rows if updated_at == checks.stamp(known[one])}


def by_key(conn: apsw.Connection, namespace: str, key: str) -> Row | None:
    """Return the row of a key in its namespace, expired or not."""
    return _row(conn, "namespace = ? AND key = ?", namespace, key)


def resolved(conn: apsw.Connection, names: Iterable[str], moment: str, namespace: str | None = None) -> dict[str, int]:
    """Return the ids of the memories that are meant by keys, in a namespace or in all, or else by ids as text.

    What names no memory, or at a time as stored only an expired one, is left out. Raises `InvalidInputError` when
    several namespaces have a key.
    """
    asked = json.dumps(sorted(set(names)))
    own, values = ("", ()) if namespace is None else (" AND namespace = ?", (namespace,))
    there = f"{own} AND (expires_at IS NULL OR expires_at > ?)"
    by_keys = all_rows(
        conn,
        "SELECT key, min(id), count(*) FROM memories"
        f" WHERE key IN (SELECT value FROM json_each(?)){there} GROUP BY key",
        (asked, *values, moment),
    )
    for key, _, number in by_keys:
        if number > 1:
            raise InvalidInputError(f"the key {key!r} is in {number} namespaces; name the memory by its id.")
    by_ids = all_rows(
        conn,
        "SELECT CAST(id AS TEXT), id FROM memories"
        f" WHERE id IN (SELECT CAST(value AS INTEGER) FROM json_each(?)){there}",
        (asked, *values, moment),
    )
    found = {name: memory_id for name, memory_id in by_ids if name in set(names)}
    return found | {key: memory_id for key, memory_id, _ in by_keys}


def by_content(
    conn: apsw.Connection,
    identity: bytes,
    moment: str,
    *,
    keyed: bool = True,
    created_at: str | None = None,
    without: Iterable[int] = (),
) -> Row | None:
    """Return the first row with this identity that nothing supersedes; an expired one only if there is no other.

    `keyed` allows for a key. One of the date `created_at` goes before the others, and may be superseded.
    """
    return _row(
        conn,
        "content_hash = ?2 AND (?3 OR key IS NULL) AND id NOT IN (SELECT value FROM json_each(?4))"
        f" AND (created_at = ?5 OR NOT EXISTS {superseding('m.id')})",
        moment,
        identity,
        keyed,
        json.dumps(list(without)),
        created_at,
        order="created_at IS NOT ?5, expires_at IS NOT NULL AND expires_at <= ?1, id",
    )


def write(conn: apsw.Connection, row: Row) -> Row:
    """Insert a row, or overwrite the one of its id; return it with its id."""
    if row.id is None:
        # The id is part of the row's hash, so it is taken before the row is written.
        row = dataclasses.replace(row, id=next_id(conn))
    tags = tuple(sorted(row.tags))
    row = dataclasses.replace(row, tags=tags)
    values = [getattr(row, name) for name in _NAMES]
    names = (*_NAMES, "content_hash", "row_hash")
    marks = ", ".join("?" * len(names))
    changes = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    conn.execute(
        f"INSERT INTO memories ({', '.join(names)}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {changes}",
        (*values, row.content_hash, row.row_hash),
    )
    conn.execute("DELETE FROM tags WHERE memory_id = ?", (row.id,))
    conn.executemany("INSERT INTO tags (memory_id, tag) VALUES (?, ?)", [(row.id, tag) for tag in tags])
    return row


def next_id(conn: apsw.Connection, above: int = 0) -> int:
    """Return an id that no memory has had, above a given one."""
    # Were the sequence damaged, an id that a memory has would have that one overwritten.
    last = one_value(conn, "SELECT max(id) FROM memories") or 0
    found = int(max(one_value(conn, "SELECT seq FROM sqlite_sequence WHERE name = 'memories'") or 0, last, above)) + 1
    if found > checks.LARGEST_INTEGER:
        raise StorageError(
            f"every id up to {checks.LARGEST_INTEGER:,} was given; export the memories and import them into a new file."
        )
    return found


def remove(conn: apsw.Connection, memory_id: int) -> None:
    """Delete a row, its tags and uses; what replaced it replaces what it did. What is derived must be gone before."""
    older = one_value(conn, "SELECT replaces FROM memories WHERE id = ?", (memory_id,))
    if older is not None:
        newer = [
            get(conn, one) for (one,) in all_rows(conn, "SELECT id FROM memories WHERE replaces = ?", (memory_id,))
        ]
        for one in filter(None, newer):
            write(conn, dataclasses.replace(one, replaces=older))
    conn.execute("DELETE FROM tags WHERE memory_id = ?", (memory_id,))
    conn.execute("DELETE FROM uses WHERE memory_id = ?", (memory_id,))
    conn.execute("DELETE FROM memories WHERE id = ?", (memory_id,))


def expired_ids(conn: apsw.Connection, moment: str, limit: int) -> list[int]:
    """Return some of the memories that have expired at a time as stored."""
    rows = all_rows(conn, "SELECT id FROM memories WHERE expires_at <= ? LIMIT ?", (moment, limit))
    return [memory_id for (memory_id,) in rows]


def leads_to(conn: apsw.Connection, start: int, wanted: int) -> bool:
    """Say whether a memory, or one that it replaces in turn, is the wanted one; what has expired passes a link on."""
    return bool(
        one_value(
            conn,
            "WITH RECURSIVE chain (id) AS (SELECT ?1 UNION"
            " SELECT m.replaces FROM chain c JOIN memories m ON m.id = c.id"
            " WHERE m.replaces IS NOT NULL) SELECT EXISTS (SELECT 1 FROM chain WHERE id = ?2)",
            (start, wanted),
        )
    )


def replaced_by(conn: apsw.Connection, memory_id: int, moment: str) -> list[int]:
    """Return the memories that supersede one at a time as stored, itself or through expired ones."""
    rows = all_rows(conn, f"SELECT id FROM {superseding('?2')} ORDER BY id", (moment, memory_id))
    return [other for (other,) in rows]


def note_use(conn: apsw.Connection, ids: Iterable[int], at: str) -> None:
    """Count one more use of each memory; the last use is the latest that was told of."""
    conn.executemany(
        "INSERT INTO uses (memory_id, times, last_used_at) VALUES (?, 1, ?) ON CONFLICT (memory_id)"
        " DO UPDATE SET times = times + 1, last_used_at = max(last_used_at, excluded.last_used_at)",
        [(memory_id, at) for memory_id in ids],
    )


def used(conn: apsw.Connection, memory_id: int) -> tuple[int, str] | None:
    """Return how often a memory was used and when last, as stored; None when it never was."""
    rows = all_rows(conn, "SELECT times, last_used_at FROM uses WHERE memory_id = ?", (memory_id,))
    return (rows[0][0], rows[0][1]) if rows else None


def restore_uses(conn: apsw.Connection, memory_id: int, times: int, last: str) -> None:
    """Bring back what is known of the uses of a memory (how often, when last); what is here already may be more."""
    conn.execute(
        "INSERT INTO uses (memory_id, times, last_used_at) VALUES (?, ?, ?) ON CONFLICT (memory_id) DO UPDATE SET"
        " times = max(times, excluded.times), last_used_at = max(last_used_at, excluded.last_used_at)",
        (memory_id, times, last),
    )


def ages(conn: apsw.Connection, ids: Sequence[int], moment: str) -> list[tuple[float, float | None, bool]]:
    """Return for each memory its days since it was made and since its last use, and whether it is pinned.

    The ids are ascending and of memories that are there. Days to come are 0.
    """

    def days(stored: str) -> float:
        return max(0.0, (now - checks.moment(stored)) / timedelta(days=1))

    now = checks.moment(moment)
    rows = all_rows(
        conn,
        "SELECT m.id, m.created_at, u.last_used_at, m.pinned FROM memories m LEFT JOIN uses u ON u.memory_id = m.id"
        " WHERE m.id IN (SELECT value FROM json_each(?)) ORDER BY m.id",
        (json.dumps(list(ids)),),
    )
    require_read(ids, {row[0] for row in rows})
    found: list[tuple[float, float | None, bool]] = []
    for memory_id, created, used, pinned in rows:
        with as_stored(f"memory {memory_id}"):
            found.append((days(created), None if used is None else days(used), bool(pinned)))
    return found


def end_of_thread(conn: apsw.Connection, namespace: str, thread: str) -> float:
    """Return the position behind the last memory of a thread, 0 for a new one."""
    last = one_value(conn, "SELECT max(position) FROM memories WHERE namespace = ? AND thread = ?", (namespace, thread))
    return 0.0 if last is None else float(last) + 1.0


def read(conn: apsw.Connection, ids: Iterable[int]) -> dict[int, Memory]:
    """Return memories by id, whole, from one statement."""
    rows = all_rows(
        conn,
        f"SELECT {', '.join('m.' + name for name in _NAMES)},"
        " (SELECT json_group_array(tag) FROM tags t WHERE t.memory_id = m.id),"
        " (SELECT json_group_array(json_array(e.name, e.kind)) FROM memory_entities l"
        f"  JOIN entities e ON e.id = l.entity_id WHERE l.memory_id = m.id AND {COUNTS}),"
        " (SELECT languages FROM analysed a WHERE a.memory_id = m.id),"
        " (SELECT json_group_array(e.name) FROM embedders e WHERE EXISTS"
        "  (SELECT 1 FROM passages p WHERE p.memory_id = m.id AND p.embedder_id IS NULL AND NOT EXISTS"
        "   (SELECT 1 FROM passage_vectors v WHERE v.embedder_id = e.id AND v.passage_id = p.id))),"
        f" (SELECT json_group_array(id) FROM {superseding('m.id')}),"
        " u.times, u.last_used_at"
        " FROM json_each(?2) j JOIN memories m ON m.id = j.value LEFT JOIN uses u ON u.memory_id = m.id",
        (checks.now(), json.dumps(list(ids))),
    )
    found: dict[int, Memory] = {}
    for *fields, tags, entities, languages, pending, by, uses, used_at in rows:
        row = _read_row(fields, tags)
        with as_stored(f"memory {row.id}"):
            found[fields[0]] = _memory(row, entities, languages, pending, by, uses, used_at)
    return found


def require_read(wanted: Iterable[int], found: Container[int]) -> None:
    """Raise `DamagedStoreError` where a memory that the file names, in the same transaction, could not be read."""
    for memory_id in wanted:
        if memory_id not in found:
            with as_stored(f"memory {memory_id}"):
                raise LookupError("an index names it, and it is not in its table")


def listed(conn: apsw.Connection, ids: Sequence[int]) -> list[Memory]:
    """Return the memories of ids in their order; `DamagedStoreError` where an index names one that is not there."""
    there = read(conn, ids)
    with as_stored("an index of the memories"):
        return [there[one] for one in ids]


def _memory(
    row: Row,
    entities: str,
    languages: str | None,
    pending: str,
    by: str,
    uses: int | None,
    used_at: str | None,
) -> Memory:
    assert row.id is not None
    detected = languages if languages and " " not in languages else None
    return Memory(
        id=row.id,
        key=row.key,
        namespace=row.namespace,
        text=row.text,
        author=row.author,
        thread=row.thread,
        position=row.position,
        language=row.language or detected,
        created_at=checks.moment(row.created_at),
        updated_at=checks.moment(row.updated_at),
        expires_at=checks.moment(row.expires_at) if row.expires_at else None,
        metadata=checks.decoded(row.metadata),
        tags=row.tags,
        entities=tuple(Entity(name=name, kind=kind) for name, kind in sorted(json.loads(entities))),
        pinned=row.pinned,
        replaces=row.replaces,
        replaced_by=tuple(sorted(json.loads(by))),
        uses=uses or 0,
        used_at=checks.moment(used_at) if used_at else None,
        pending=tuple(json.loads(pending)),
    )


def ids(conn: apsw.Connection, condition: Condition | None, order: str, limit: int, offset: int) -> list[int]:
    """Return the ids that pass, in one of `ORDERS`."""
    where, values = ("", ()) if condition is None else (f" WHERE {condition.sql}", condition.values)
    rows = all_rows(
        conn, f"SELECT m.id FROM memories m{where} ORDER BY {ORDERS[order]} LIMIT ? OFFSET ?", (*values, limit, offset)
    )
    return [memory_id for (memory_id,) in rows]


def newest(conn: apsw.Connection, some: Sequence[int], limit: int) -> list[int]:
    """Return the newest of some memories, the newest first."""
    among = Condition(sql="m.id IN (SELECT value FROM json_each(?))", values=(json.dumps(list(some)),))
    return ids(conn, among, "newest", limit, 0)


def count(conn: apsw.Connection, condition: Condition | None) -> int:
    """Return how many memories pass."""
    where, values = ("", ()) if condition is None else (f" WHERE {condition.sql}", condition.values)
    return int(one_value(conn, f"SELECT count(*) FROM memories m{where}", values))


def _row(conn: apsw.Connection, where: str, *values: Any, order: str = "id") -> Row | None:
    found = all_rows(conn, f"SELECT {_COLUMNS} FROM memories m WHERE {where} ORDER BY {order} LIMIT 1", values)
    if not found:
        return None
    tags = all_rows(conn, "SELECT json_group_array(tag) FROM tags WHERE memory_id = ?", (found[0][0],))[0][0]
    return _read_row(found[0], tags)


def _as_row(fields: Sequence[Any], tags: str) -> Row:
    named: dict[str, Any] = dict(zip(_NAMES, fields, strict=True))
    return Row(**named | {"pinned": bool(named["pinned"])}, tags=tuple(sorted(json.loads(tags))))


def _read_row(fields: Sequence[Any], tags: str) -> Row:
    """Return a row as it was read; raise `DamagedStoreError` on what no write could have left."""
    with as_stored(f"memory {fields[0]}"):
        row = _as_row(fields, tags)
        texts = [row.namespace, row.text, row.created_at, row.updated_at, row.metadata]
        texts += [one for one in (row.key, row.author, row.thread, row.language, row.expires_at) if one is not None]
        numbers = [one for one in (row.position, row.created_offset, row.replaces) if one is not None]
        if not all(isinstance(one, str) for one in texts) or not all(isinstance(one, int | float) for one in numbers):
            raise TypeError("a field is not of its type")
        for stored in (row.created_at, row.updated_at, row.expires_at):
            if stored is not None and checks.stamp(checks.moment(stored)) != stored:
                raise ValueError(f"{stored!r} is no time as it is stored")
        # The date on the caller's clock must be one too.
        _ = row.day
        if not isinstance(checks.decoded(row.metadata), dict):
            raise ValueError("its metadata are no mapping")
    return row

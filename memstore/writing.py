"""The add flow: check, analyse, embed, then one transaction for all of a memory's tables."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import apsw

from memstore import checks, entities, keyword, memories, passages, semantic, threads
from memstore.analysis import Analyser
from memstore.checks import Checked, digest, now
from memstore.database import Database
from memstore.entities import Mentions, Recogniser
from memstore.errors import InvalidInputError, NotFoundError
from memstore.lexicon import Lexicon
from memstore.memories import Row
from memstore.records import Entity, Memory, Outcome
from memstore.semantic import StoredSpace
from memstore.spaces import Spaces, Vectors

# Embedding a whole book would hold up the write that brings it; what is beyond is pending until it is filled.
MOST_EMBEDDED_AT_ONCE = 128
# A batch is what an interruption can cost, and how far apart two steps of a progress bar are: some seconds.
_BATCH_MEMORIES = 64
_BATCH_CHARACTERS = 40_000
_MOST_PURGED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a write means for the file as it is: the row before and after, and an expired one to be cleared away."""

    before: Row | None
    after: Row
    given: tuple[str, ...]
    outcome: Outcome
    expired: int | None = None

    @property
    def changes_body(self) -> bool:
        return self.before is None or self.before.body != self.after.body

    @property
    def changes_place(self) -> bool:
        return self.before is None or self.before.place != self.after.place


# A write, as a question to the file: the same question gives a plan before embedding and again inside the transaction.
# It is told the present as stored.
Planner: TypeAlias = Callable[[apsw.Connection, str], Plan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write to be planned; `identity` names the memory it is about, `size` is that of its text in characters."""

    planner: Planner
    identity: Hashable
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What a body gives before the transaction: terms, entities and the spans of its passages."""

    languages: tuple[str, ...]
    terms: list[str]
    words: set[str]
    found: Mentions
    spans: list[tuple[int, int]]


class Writer:
    """Stores memories and keeps every index in step with them."""

    def __init__(
        self,
        database: Database,
        analyser: Analyser,
        lexicon: Lexicon,
        spaces: Spaces,
        recogniser: Recogniser | None = None,
    ) -> None:
        self._database = database
        self._analyser = analyser
        self._lexicon = lexicon
        self._spaces = spaces
        self._recogniser = recogniser

    def store(self, writes: Sequence[Write], progress: Callable[[int, int], None] | None = None) -> list[Memory]:
        """Carry out writes in order, in batches of one transaction each; return a memory for each, as the last left it.

        A batch that fails leaves the file as it was before that batch.
        """
        done: list[Memory] = []
        for batch in _batches(writes):
            done.extend(self._store_batch([write.planner for write in batch]))
            if progress is not None:
                progress(len(done), len(writes))
        latest = {memory.id: memory for memory in done}
        return [dataclasses.replace(latest[memory.id], outcome=memory.outcome) for memory in done]

    def delete(self, ids: Sequence[int]) -> int:
        """Take memories out of every table; return how many there were."""
        with self._database.write() as conn:
            there = [memory_id for memory_id in dict.fromkeys(ids) if memories.get(conn, memory_id) is not None]
            stale = _Stale()
            for memory_id in there:
                self._remove(conn, memory_id, stale)
            stale.renew(conn)
        return len(there)

    def _store_batch(self, planners: Sequence[Planner]) -> list[Memory]:
        with self._database.read() as conn:
            rows = [plan.after for plan in (planner(conn, now()) for planner in planners) if plan.changes_body]
            known = entities.known_terms(conn)
        prepared = {row.body: self._prepare(row, known) for row in rows}
        texts = [text for row in rows for text in _texts(row, prepared[row.body])[:MOST_EMBEDDED_AT_ONCE]]
        vectors = self._spaces.embed(texts) or {}
        done: list[tuple[int, Outcome]] = []
        unprepared: list[int] = []
        new_words: set[str] = set()
        with self._database.write() as conn:
            stale = _Stale()
            self._purge(conn, stale)
            if (learnt := entities.known_terms(conn)) != known:
                # The user's terms changed meanwhile: what they name is to be found in these memories too.
                known = learnt
                prepared = {
                    row.body: dataclasses.replace(prepared[row.body], found=found_in(row, known, self._recogniser))
                    for row in rows
                }
            space = self._spaces.for_writing(conn) if vectors else None
            for planner in planners:
                plan = planner(conn, now())
                if plan.expired is not None:
                    self._remove(conn, plan.expired, stale)
                if plan.outcome == "unchanged":
                    assert plan.after.id is not None
                    done.append((plan.after.id, plan.outcome))
                    continue
                if plan.changes_place and plan.before is not None:
                    stale.beside(conn, plan.before.place)
                row = memories.write(conn, plan.after)
                assert row.id is not None
                done.append((row.id, plan.outcome))
                if plan.changes_place or plan.changes_body:
                    stale.changed(conn, row)
                if not plan.changes_body:
                    if not _same_names(plan.given, entities.given(conn, row.id)):
                        entities.index(conn, row.id, found_in(row, known, self._recogniser), plan.given)
                    continue
                ready = prepared.get(row.body)
                if ready is None:
                    # The memory was changed while this one was embedding, or earlier in this batch.
                    ready = self._prepare(row, known)
                    unprepared.append(row.id)
                new_words |= self._lexicon.keep(conn, ready.words)
                self._index(conn, row, ready, plan.given, space, vectors)
            stale.renew(conn)
            written = memories.read(conn, {memory_id for memory_id, _ in done})
        self._lexicon.kept(new_words)
        if unprepared:
            self._spaces.catch_up(unprepared)
            with self._database.read() as conn:
                written |= memories.read(conn, unprepared)
        return [dataclasses.replace(written[memory_id], outcome=outcome) for memory_id, outcome in done]

    def _purge(self, conn: apsw.Connection, stale: "_Stale") -> None:
        """Take some of the memories that have expired out: a write is the occasion, a search must not pay for them."""
        for memory_id in memories.expired_ids(conn, now(), _MOST_PURGED):
            self._remove(conn, memory_id, stale)

    def _index(
        self,
        conn: apsw.Connection,
        row: Row,
        ready: _Prepared,
        given: Sequence[str],
        space: StoredSpace | None,
        vectors: Vectors,
    ) -> None:
        assert row.id is not None
        keyword.index(conn, row.id, ready.terms, ready.languages)
        entities.index(conn, row.id, ready.found, given)
        semantic.remove(conn, row.id, vectors=self._database.vectors_unavailable is None)
        _index_passages(conn, row, ready, space, vectors)

    def _remove(self, conn: apsw.Connection, memory_id: int, stale: "_Stale") -> None:
        stale.beside(conn, threads.place(conn, memory_id))
        keyword.remove(conn, memory_id)
        entities.remove(conn, memory_id)
        semantic.remove(conn, memory_id, vectors=self._database.vectors_unavailable is None)
        memories.remove(conn, memory_id)

    def _prepare(self, row: Row, known: Mapping[str, Entity]) -> _Prepared:
        languages = self._analyser.languages_of(row.text, row.language)
        terms, words = self._analyser.analysed(row.indexed_text(self._analyser.languages), languages)
        return _Prepared(
            languages=languages,
            terms=terms,
            words=words,
            found=found_in(row, known, self._recogniser),
            spans=passages.cut(row.text),
        )


class _Stale:
    """The rows of the keyword index that a transaction has made stale: they hold the terms of their neighbours too."""

    def __init__(self) -> None:
        self._rows: set[int] = set()

    def beside(self, conn: apsw.Connection, place: threads.Place | None) -> None:
        """Note the memories beside a place, which a memory leaves or takes."""
        self._rows.update(threads.beside(conn, place))

    def changed(self, conn: apsw.Connection, row: Row) -> None:
        """Note a memory that was written, and those beside it."""
        assert row.id is not None
        self._rows.add(row.id)
        self.beside(conn, row.place)

    def renew(self, conn: apsw.Connection) -> None:
        """Write the rows that are stale, once each, for the memories that are still there."""
        for memory_id in sorted(self._rows):
            if keyword.indexed(conn, memory_id):
                keyword.place(conn, memory_id, threads.beside(conn, threads.place(conn, memory_id)))


def adding(new: Checked) -> Write:
    """Return the write that adds `new`: an upsert by its key, else merged into the memory with the same text."""

    identity = memories.content_hash(new.namespace, new.author, new.thread, new.text)

    def plan(conn: apsw.Connection, moment: str) -> Plan:
        there = (
            memories.by_key(conn, new.namespace, new.key)
            if new.key is not None
            else memories.by_content(conn, identity, moment)
        )
        expired = there is not None and there.expired(moment)
        if there is None or expired:
            return Plan(
                before=None,
                after=_fresh(conn, new, moment),
                given=entities.resolved(conn, new.entities),
                outcome="added",
                expired=there.id if there else None,
            )
        return _merged(conn, there, new, moment)

    return Write(planner=plan, identity=(new.namespace, new.key) if new.key else identity, size=len(new.text))


def changing(memory_id: int, changes: dict[str, Any]) -> Write:
    """Return the write that sets some fields of a memory; the values are checked ones."""

    def plan(conn: apsw.Connection, moment: str) -> Plan:
        before = memories.get(conn, memory_id)
        if before is None or before.expired(moment):
            raise NotFoundError(f"there is no memory {memory_id}; nothing was changed.")
        given_before = entities.given(conn, memory_id)
        given = entities.resolved(conn, changes["entities"]) if "entities" in changes else given_before
        fields = {name: value for name, value in changes.items() if name != "entities"}
        after = dataclasses.replace(before, **fields)
        if after.thread is None:
            if fields.get("position") is not None:
                raise InvalidInputError(f"memory {memory_id} is in no thread, so it has no position; give both.")
            after = dataclasses.replace(after, position=None)
        elif (after.namespace, after.thread) != (before.namespace, before.thread) and "position" not in fields:
            end = memories.end_of_thread(conn, after.namespace, after.thread)
            after = dataclasses.replace(after, position=end)
        made = _plan(before, after, given_before, given, "updated", moment)
        return dataclasses.replace(made, expired=_refuse_clash(conn, before, after, moment))

    return Write(planner=plan, identity=memory_id, size=len(changes.get("text", "")))


def restoring(row: Row, exported: tuple[str, ...], above: int) -> Write:
    """Return the write that brings a row back as it was exported: same times, same id where that is free.

    Where it is not, the row gets an id `above` all those of the export, so that it takes none of theirs.

    A memory that is there already (by id and content, key, or content) is brought to the row's state.
    """

    def plan(conn: apsw.Connection, moment: str) -> Plan:
        given = entities.resolved(conn, exported)
        by_id = memories.get(conn, row.id) if row.id is not None else None
        before = by_id if by_id is not None and _same_memory(by_id, row) else None
        if before is None:
            before = (
                memories.by_key(conn, row.namespace, row.key)
                if row.key is not None
                else memories.by_content(conn, row.content_hash, moment, keyed=False)
            )
        if before is None:
            after = row if by_id is None else dataclasses.replace(row, id=memories.next_id(conn, above))
            return Plan(before=None, after=after, given=given, outcome="added")
        assert before.id is not None
        after = dataclasses.replace(row, id=before.id)
        given_before = entities.given(conn, before.id)
        if dataclasses.replace(after, updated_at=before.updated_at) == before and _same_names(given, given_before):
            return Plan(before=before, after=before, given=given_before, outcome="unchanged")
        return Plan(before=before, after=after, given=given, outcome="updated")

    return Write(planner=plan, identity=(row.namespace, row.key) if row.key else row.content_hash, size=len(row.text))


def _same_memory(one: Row, other: Row) -> bool:
    if one.key is not None or other.key is not None:
        return (one.namespace, one.key) == (other.namespace, other.key)
    return one.content_hash == other.content_hash


def _fresh(conn: apsw.Connection, new: Checked, moment: str) -> Row:
    position = new.position
    if new.thread is None:
        position = None
    elif position is None:
        position = memories.end_of_thread(conn, new.namespace, new.thread)
    return Row(
        id=None,
        key=new.key,
        namespace=new.namespace,
        text=new.text,
        author=new.author,
        thread=new.thread,
        position=position,
        language=new.language,
        created_at=new.created.utc if new.created else moment,
        created_offset=new.created.offset if new.created else None,
        updated_at=moment,
        expires_at=new.expires.utc if new.expires else None,
        metadata=checks.encoded(new.metadata or {}),
        tags=tuple(sorted(new.tags)),
    )


def _merged(conn: apsw.Connection, before: Row, new: Checked, moment: str) -> Plan:
    """Bring what the caller gave into a memory that is there; what the caller left out stays as it is."""
    assert before.id is not None
    held = checks.decoded(before.metadata)
    given_before = entities.given(conn, before.id)
    keyed = new.key is not None
    fields: dict[str, Any] = {
        "metadata": checks.encoded(held | (new.metadata or {})),
        "tags": tuple(sorted(set(before.tags) | set(new.tags))),
    }
    if keyed:
        fields["text"] = new.text
        fields |= {
            name: value for name in ("author", "thread", "position") if (value := getattr(new, name)) is not None
        }
        if new.created is not None:
            fields |= {"created_at": new.created.utc, "created_offset": new.created.offset}
    if new.language is not None:
        fields["language"] = new.language
    if new.expires is not None:
        fields["expires_at"] = new.expires.utc
    after = dataclasses.replace(before, **fields)
    if after.thread is not None and (after.thread != before.thread or after.position is None) and new.position is None:
        after = dataclasses.replace(after, position=memories.end_of_thread(conn, after.namespace, after.thread))
    given = tuple(dict.fromkeys((*given_before, *entities.resolved(conn, new.entities))))
    return _plan(before, after, given_before, given, "updated" if keyed else "merged", moment)


def _plan(
    before: Row, after: Row, given_before: tuple[str, ...], given: tuple[str, ...], outcome: Outcome, moment: str
) -> Plan:
    if after == before and _same_names(given, given_before):
        return Plan(before=before, after=before, given=given_before, outcome="unchanged")
    return Plan(before=before, after=dataclasses.replace(after, updated_at=moment), given=given, outcome=outcome)


def _same_names(some: Iterable[str], others: Iterable[str]) -> bool:
    return {entities.key(name) for name in some} == {entities.key(name) for name in others}


def _refuse_clash(conn: apsw.Connection, before: Row, after: Row, moment: str) -> int | None:
    """Refuse a change to what another memory is; return the expired memory that has to make room, if any."""
    other = None
    if after.key is not None:
        other = memories.by_key(conn, after.namespace, after.key)
        what = f"the key {after.key!r} in {after.namespace!r}"
    elif after.content_hash != before.content_hash or before.key is not None:
        other = memories.by_content(conn, after.content_hash, moment, keyed=False)
        what = "this text"
    if other is None or other.id == before.id:
        return None
    if other.expired(moment):
        return other.id
    raise InvalidInputError(
        f"memory {other.id} already has {what}; delete one of the two or give another key. Nothing was changed."
    )


def found_in(row: Row, known: Mapping[str, Entity], recogniser: Recogniser | None) -> Mentions:
    """Return the entities of a memory: those in its text, and its author."""
    found = entities.find(row.text, known, recogniser)
    if row.author is None:
        return found
    author = entities.key(row.author)
    person = known.get(author, Entity(name=row.author, kind="person"))
    own = {entities.key(person.name): person}
    doubtful = {spelling: one for spelling, one in found.doubtful.items() if spelling not in own}
    return Mentions(sure={**found.sure, **own}, doubtful=doubtful)


def _index_passages(
    conn: apsw.Connection, row: Row, ready: _Prepared, space: StoredSpace | None, vectors: Vectors
) -> None:
    made: list[tuple[int, bytes, Any]] = []
    for (start, stop), text in zip(ready.spans, _texts(row, ready), strict=True):
        passage_id = semantic.add_passage(conn, row.id, start, stop)
        text_hash = digest(text.encode())
        if text_hash in vectors:
            made.append((passage_id, text_hash, vectors[text_hash]))
    if space is not None:
        semantic.index(conn, space, made)


def _texts(row: Row, ready: _Prepared) -> list[str]:
    return [row.embedded_text(start, stop) for start, stop in ready.spans]


def _batches(writes: Sequence[Write]) -> list[list[Write]]:
    """Part writes into batches; two about one memory go apart, since the second starts from what the first left."""
    batches: list[list[Write]] = []
    filled, seen = 0, set[Hashable]()
    for write in writes:
        full = filled + write.size > _BATCH_CHARACTERS or len(seen) == _BATCH_MEMORIES
        if not batches or full or write.identity in seen:
            batches.append([])
            filled, seen = 0, set()
        batches[-1].append(write)
        filled += write.size
        seen.add(write.identity)
    return batches

"""The add flow: check, analyse, embed, then one transaction for all of a memory's tables."""

import dataclasses
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import apsw

from memstore import entities, keyword, memories, passages, semantic, threads
from memstore.analysis import Analyser
from memstore.checks import decoded, now
from memstore.database import Database, overwriting
from memstore.entities import Mentions, Recogniser
from memstore.errors import SecretWarning
from memstore.filling import Filler
from memstore.lexicon import Lexicon
from memstore.making import MadeOf, Span
from memstore.masking import secret_in
from memstore.memories import Row
from memstore.planning import Plan, Planner, Write, same_names
from memstore.records import Entity, Memory, Outcome
from memstore.semantic import Made, StoredSpace

# Embedding a whole book would hold up the write that brings it; what is beyond is pending until it is filled.
MOST_EMBEDDED_AT_ONCE = 128
# A batch is what an interruption can cost, and how far apart two steps of a progress bar are: some seconds.
_BATCH_MEMORIES = 64
_BATCH_CHARACTERS = 40_000
_MOST_PURGED = 100


class _TakenBack(Exception):
    """The end of writes that were only tried."""


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
        filler: Filler,
        recogniser: Recogniser | None = None,
    ) -> None:
        self._database = database
        self._analyser = analyser
        self._lexicon = lexicon
        self._filler = filler
        self._recogniser = recogniser
        self._told_of_secret = False

    def check(self, writes: Sequence[Write]) -> None:
        """Raise what the file itself has against one of the writes, each after those before it; nothing is changed."""
        if not any(write.refusable for write in writes):
            return
        try:
            with self._database.write() as conn:
                for write in writes:
                    plan = write.planner(conn, now())
                    if plan.expired is not None:
                        self._remove(conn, plan.expired, _Stale())
                    if plan.outcome != "unchanged":
                        memories.write(conn, plan.after)
                raise _TakenBack
        except _TakenBack:
            pass

    def store(
        self, writes: Sequence[Write], progress: Callable[[int, int], None] | None = None, *, embed: bool = True
    ) -> list[Memory]:
        """Carry out writes in order, in batches of one transaction each; return a memory for each, as the last left it.

        A batch that fails leaves the file as it was before that batch; `check` tells before. Without `embed` no model
        is asked, and what is written waits for its vectors; with it, a little of what waited before is embedded too.
        """
        self._database.require_writable()
        done: list[Memory] = []
        for batch in _batches(writes):
            done.extend(self._store_batch([write.planner for write in batch], embed))
            if progress is not None:
                progress(len(done), len(writes))
        if embed:
            self._filler.step()
        latest = {memory.id: memory for memory in done}
        return [dataclasses.replace(latest[memory.id], outcome=memory.outcome) for memory in done]

    def delete(self, ids: Sequence[int], *, secure: bool = False) -> int:
        """Take memories out of every table; return how many there were. `secure` overwrites them there."""
        with self._deleting(secure) as conn:
            there = [memory_id for memory_id in dict.fromkeys(ids) if memories.get(conn, memory_id) is not None]
            stale = _Stale()
            for memory_id in there:
                self._remove(conn, memory_id, stale)
            stale.renew(conn)
        return len(there)

    def purge(self, *, secure: bool = False) -> int:
        """Take the memories that have expired out of every table, some at a time; return how many there were."""
        purged = 0
        while True:
            with self._deleting(secure) as conn:
                stale = _Stale()
                gone = self._purge(conn, stale)
                stale.renew(conn)
            purged += gone
            if gone < _MOST_PURGED:
                return purged

    def _deleting(self, secure: bool) -> AbstractContextManager[apsw.Connection]:
        return overwriting(self._database) if secure else self._database.write()

    def _store_batch(self, planners: Sequence[Planner], embed: bool) -> list[Memory]:
        with self._database.read() as conn:
            plans = [plan for plan in (planner(conn, now()) for planner in planners) if plan.outcome != "unchanged"]
            known = entities.known_terms(conn)
        rows = [plan.after for plan in plans if plan.changes_body]
        prepared = {row.body: self._prepare(row, known) for row in rows}
        # A recogniser of the caller's may be slow: what only gets other entities is read before the transaction too.
        found = {
            plan.after.body: found_in(plan.after, known, self._recogniser) for plan in plans if not plan.changes_body
        }
        secret = self._secret(plans)
        spans = [span for row in rows for span in _spans(row, prepared[row.body])[:MOST_EMBEDDED_AT_ONCE]]
        vectors = self._filler.prepare(spans, embed=embed)
        done: list[tuple[int, Outcome]] = []
        unprepared: list[int] = []
        new_words: set[str] = set()
        cleared: dict[int, Memory] = {}
        with self._database.write() as conn:
            stale = _Stale()
            self._purge(conn, stale)
            if (learnt := entities.known_terms(conn)) != known:
                # The user's terms changed meanwhile: what they name is to be found in these memories too.
                known, found = learnt, {}
                prepared = {
                    row.body: dataclasses.replace(prepared[row.body], found=found_in(row, known, self._recogniser))
                    for row in rows
                }
            places = self._filler.place(conn, vectors)
            for planner in planners:
                plan = planner(conn, now())
                if plan.expired is not None:
                    if plan.expired in {memory_id for memory_id, _ in done}:
                        # It came expired and with this batch: it is told of all the same.
                        cleared |= memories.read(conn, [plan.expired])
                    self._remove(conn, plan.expired, stale)
                    # What replaced it has another link now.
                    plan = planner(conn, now())
                if plan.outcome == "unchanged":
                    assert plan.after.id is not None
                    done.append((plan.after.id, plan.outcome))
                    if plan.used is not None:
                        memories.restore_uses(conn, plan.after.id, *plan.used)
                    continue
                if plan.changes_place and plan.before is not None:
                    stale.beside(conn, plan.before.place)
                row = memories.write(conn, plan.after)
                assert row.id is not None
                done.append((row.id, plan.outcome))
                if plan.used is not None:
                    memories.restore_uses(conn, row.id, *plan.used)
                if plan.changes_place or plan.changes_body:
                    stale.changed(conn, row)
                if not plan.changes_body:
                    if not same_names(plan.given, entities.given(conn, row.id)):
                        names = found.get(row.body) or found_in(row, known, self._recogniser)
                        entities.index(conn, row.id, names, plan.given)
                    continue
                ready = prepared.get(row.body)
                if ready is None:
                    # The memory was changed while this one was embedding, or earlier in this batch.
                    ready = self._prepare(row, known)
                    unprepared.append(row.id)
                new_words |= self._lexicon.keep(conn, ready.words)
                self._index(conn, row, ready, plan.given, places)
            stale.renew(conn)
            written = cleared | memories.read(conn, {memory_id for memory_id, _ in done})
        self._lexicon.kept(new_words)
        if secret is not None:
            self._tell(secret, written)
        if unprepared and embed:
            self._filler.catch_up(unprepared)
            with self._database.read() as conn:
                written |= memories.read(conn, unprepared)
        return [dataclasses.replace(written[memory_id], outcome=outcome) for memory_id, outcome in done]

    def _secret(self, plans: Sequence[Plan]) -> tuple[Row, str] | None:
        """Return the first row that would newly hold what has the shape of a secret, and its kind; once told, none."""
        for plan in plans if not self._told_of_secret else ():
            before, row = plan.before, plan.after
            if before is None or (before.text, before.metadata) != (row.text, row.metadata):
                kind = secret_in((row.text, decoded(row.metadata)))
                if kind is not None:
                    return row, kind
        return None

    def _tell(self, secret: tuple[Row, str], written: Mapping[int, Memory]) -> None:
        self._told_of_secret = True
        row, kind = secret
        where = next((f"memory {one.id}" for one in written.values() if one.text == row.text), "a memory")
        warnings.warn(
            f"{where} holds what has the shape of a {kind}, stored as it was given. mask_secrets=True (--mask-secrets)"
            " masks such texts before they are stored; delete(…, secure=True) (memstore forget --secure) takes a memory"
            " out without a trace. This is said once.",
            SecretWarning,
            stacklevel=2,
        )

    def _purge(self, conn: apsw.Connection, stale: "_Stale") -> int:
        """Take some of the memories that have expired out: a write is the occasion, a search must not pay for them."""
        gone = memories.expired_ids(conn, now(), _MOST_PURGED)
        for memory_id in gone:
            self._remove(conn, memory_id, stale)
        return len(gone)

    def _index(
        self,
        conn: apsw.Connection,
        row: Row,
        ready: _Prepared,
        given: Sequence[str],
        places: Sequence[tuple[StoredSpace, MadeOf]],
    ) -> None:
        assert row.id is not None
        keyword.index(conn, row.id, ready.terms, ready.languages)
        entities.index(conn, row.id, ready.found, given)
        semantic.remove(conn, row.id, vectors=self._database.vectors_unavailable is None)
        _index_passages(conn, row, ready, places)

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
                keyword.write_row(conn, memory_id, threads.beside(conn, threads.place(conn, memory_id)))


def found_in(row: Row, known: Mapping[str, Entity], recogniser: Recogniser | None) -> Mentions:
    """Return the entities of a memory: those in its text, and its author."""
    found = entities.find(row.text, known, recogniser)
    if row.author is None:
        return found
    person = known.get(entities.reading(row.author), Entity(name=row.author, kind="person"))
    own = {entities.key(person.name): person}
    doubtful = {spelling: one for spelling, one in found.doubtful.items() if spelling not in own}
    return Mentions(sure={**found.sure, **own}, doubtful=doubtful)


def _index_passages(
    conn: apsw.Connection, row: Row, ready: _Prepared, places: Sequence[tuple[StoredSpace, MadeOf]]
) -> None:
    passage_ids = [(semantic.add_passage(conn, row.id, start, stop)) for start, stop in ready.spans]
    hashes = [span.hash for span in _spans(row, ready)] if places else []
    for space, made_of in places:
        made: list[tuple[int, bytes, Made]] = [
            (passage_id, text_hash, made_of[text_hash])
            for passage_id, text_hash in zip(passage_ids, hashes, strict=True)
            if text_hash in made_of
        ]
        semantic.index(conn, space, made)


def _spans(row: Row, ready: _Prepared) -> list[Span]:
    return [Span(row, start, stop) for start, stop in ready.spans]


def _batches(writes: Sequence[Write]) -> list[list[Write]]:
    """Part writes into batches; two about one memory go apart, since the second starts from what the first left.

    One that says something of another memory opens a batch: that one may be written just before.
    """
    batches: list[list[Write]] = []
    filled, seen = 0, set[Hashable]()
    for write in writes:
        full = filled + write.size > _BATCH_CHARACTERS or len(seen) == _BATCH_MEMORIES
        if not batches or full or write.refusable or write.identity in seen:
            batches.append([])
            filled, seen = 0, set()
        batches[-1].append(write)
        filled += write.size
        seen.add(write.identity)
    return batches

"""The add flow: check, analyse, embed, then one transaction for all of a memory's tables."""

import dataclasses
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import apsw

from memstore import entities, keyword, memories, passages, semantic, staleness, threads
from memstore.analysis import Analyser, stamp
from memstore.checks import decoded, now
from memstore.database import Database, overwriting
from memstore.entities import Mentions, Recogniser
from memstore.errors import DamagedStoreError, MemstoreError, SecretWarning
from memstore.filling import Filler
from memstore.lexicon import Kept, Lexicon
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
# What each write takes along of what is stale, in memories and in bytes of text: about a hundredth of a second.
_STEP = 8
_STEP_BYTES = 8_000


class _TakenBack(Exception):
    """The end of writes that were only tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What a body gives before the transaction: terms, entities and the spans of its passages.

    `spoken` are the languages of the store that it was analysed for, `languages` those of the text.
    """

    spoken: tuple[str, ...]
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
        # Up to which stale memory the steps have come: one that can't be analysed does not hold up the rest.
        self._stepped = 0
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
        A little of what is stale is analysed anew in any case.
        """
        self._database.require_writable()
        done: list[Memory] = []
        for batch in _batches(writes):
            done.extend(self._store_batch([write.planner for write in batch], embed))
            if progress is not None:
                progress(len(done), len(writes))
        self._step()
        if embed:
            self._filler.step()
        latest = {memory.id: memory for memory in done}
        return [dataclasses.replace(latest[memory.id], outcome=memory.outcome) for memory in done]

    def delete(self, ids: Sequence[int], *, secure: bool = False) -> int:
        """Take memories out of every table; return how many there were. `secure` overwrites them there."""
        with self._deleting(secure) as conn:
            there = [memory_id for memory_id in dict.fromkeys(ids) if memories.is_there(conn, memory_id)]
            stale = _Stale()
            for memory_id in there:
                self._remove(conn, memory_id, stale)
            stale.renew(conn)
        return len(there)

    def reanalyse(self, memory_ids: Iterable[int]) -> tuple[int, tuple[int, ...]]:
        """Make the terms and entities of those of some memories anew that are stale, in one transaction.

        Return how many these were, and those that can't be read. Their passages and vectors stay: they hang on the
        text alone. Without a recogniser no entity is taken away, since another store's may have found it.
        """
        read: dict[int, tuple[Row, _Prepared]] = {}
        damaged: list[int] = []
        with self._database.read() as conn:
            staleness.agree(conn, self._analyser)
            known = entities.known_terms(conn)
            for memory_id in memory_ids:
                try:
                    row = memories.get(conn, memory_id)
                    if row is not None:
                        read[memory_id] = row, self._prepare(row, known)
                except (DamagedStoreError, TypeError, ValueError):
                    damaged.append(memory_id)
        done = 0
        words: list[Kept] = []
        with self._database.write() as conn:
            stale = _Stale()
            staleness.agree(conn, self._analyser)
            learnt = entities.known_terms(conn)
            for memory_id in staleness.among(conn, staleness.stale(conn, self._analyser).ours, read):
                before, ready = read[memory_id]
                row = memories.get(conn, memory_id)
                if row is None:
                    continue
                if row.body != before.body or learnt != known or ready.spoken != self._analyser.languages:
                    ready = self._prepare(row, learnt)
                words.append(self._lexicon.keep(conn, ready.words, ready.spoken))
                keyword.index(conn, memory_id, ready.terms, ready.languages, stamp(ready.spoken))
                names = ready.found
                if self._recogniser is None and entities.was_recognised(conn):
                    names = entities.joined(conn, memory_id, names)
                entities.index(conn, memory_id, names, entities.given(conn, memory_id))
                stale.changed(conn, row)
                done += 1
            stale.renew(conn)
            if not staleness.stale(conn, self._analyser).ours:
                self._lexicon.forget_earlier(conn, self._analyser.stamp)
        self._lexicon.kept(words)
        return done, tuple(damaged)

    def _step(self) -> None:
        """Analyse a few of the stale memories anew, none of them long: the rest is for later writes or `reindex`."""
        try:
            with self._database.read() as conn:
                ours = staleness.stale(conn, self._analyser).ours
                sizes = staleness.sizes(conn, ours, _STEP, self._stepped) if ours else {}
            # From the start again when the end was reached.
            self._stepped = max(sizes, default=0)
            wanted, filled = list[int](), 0
            for memory_id, size in sizes.items():
                if filled + size <= _STEP_BYTES:
                    wanted.append(memory_id)
                    filled += size
            if wanted:
                self.reanalyse(wanted)
        except MemstoreError:
            # What is stored is stored, whatever becomes of this: it is told in `stats`.
            return

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
        words: list[Kept] = []
        cleared: dict[int, Memory] = {}
        with self._database.write() as conn:
            stale = _Stale()
            self._purge(conn, stale)
            staleness.agree(conn, self._analyser)
            if any(one.spoken != self._analyser.languages for one in prepared.values()):
                # Another process has given the file other languages meanwhile.
                prepared = {row.body: self._prepare(row, known) for row in rows}
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
                words.append(self._lexicon.keep(conn, ready.words, ready.spoken))
                self._index(conn, row, ready, plan.given, places)
            stale.renew(conn)
            written = cleared | memories.read(conn, {memory_id for memory_id, _ in done})
        self._lexicon.kept(words)
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
        keyword.index(conn, row.id, ready.terms, ready.languages, stamp(ready.spoken))
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
        analyser = self._analyser.copy()
        languages = analyser.languages_of(row.text, row.language)
        terms, words = analyser.analysed(row.indexed_text(analyser.languages), languages)
        return _Prepared(
            spoken=analyser.languages,
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

"""Passages to vectors in the spaces of a file: those of a write, and those that wait."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

import apsw

from memstore import semantic
from memstore.database import Database
from memstore.embedding import Model, Vector
from memstore.errors import DamagedStoreError, EmbedderError, MemstoreError
from memstore.making import MadeOf, Making, Span, knows_nothing, made_by
from memstore.memories import Row, get
from memstore.records import AGE_WORDS, THREAD_WORDS, Filled
from memstore.semantic import StoredSpace
from memstore.serving import Serving

# A batch is a transaction, and what a kill can cost; texts of like length go to the model together, so that more of
# them waste less.
_FILL_BATCH = 128
_FIRST_BATCH = 8
# What each write takes along of what waits, in passages and in characters: some tenths of a second with the bundled
# model.
_STEP = 8
_STEP_CHARACTERS = 1_000
_SAMPLE = 16
_FEW = 3
# Names of signals and of what else stands in an explanation: a space with one of them could not be told from it.
RESERVED = ("keyword", "semantic", "entity", "boost", "rerank", "all", *THREAD_WORDS, *AGE_WORDS)
_LONGEST_NAME = 200

# No space has this number: every passage waits for it.
_NO_SPACE = StoredSpace(
    id=0,
    name="",
    spec=None,
    model_id="",
    dimensions=0,
    query_prefix="",
    passage_prefix="",
    fingerprint=b"",
    languages="",
    state="",
    searched=0,
)
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The vectors of a write, made before its transaction: by space, or of the model that gets the file's first."""

    by_space: Mapping[int, MadeOf]
    first: tuple[Model, MadeOf] | None = None


class Filler:
    """Makes the vectors of a file's spaces; what a model fails to embed goes on waiting."""

    def __init__(self, database: Database, serving: Serving) -> None:
        self._database = database
        self._serving = serving
        # Up to which passage the steps have come in each space: one that can't be embedded does not hold up the rest.
        self._stepped: dict[int, int] = {}
        # Models that did not answer a write in time, and are still busy.
        self._overdue: dict[int, Making] = {}

    def prepare(self, spans: Sequence[Span], *, embed: bool) -> Prepared:
        """Make the vectors of passages to be stored, for every space whose model is there and answers in time.

        Without `embed` no model is asked: what a space has of the same text already is copied.
        """
        nothing = Prepared(by_space={})
        if self._serving.unavailable() or not spans:
            return nothing
        with self._database.read() as conn:
            spaces = semantic.spaces(conn)
            had_any = semantic.had_any(conn)
        if spaces:
            made = self._made if embed else self._copied
            return Prepared(by_space={space.id: made(space, spans) for space in spaces})
        if had_any or not embed:
            # With spaces once and none now the user has removed the last one.
            return nothing
        try:
            model = self._serving.first()
            making = self._in_time(_NO_SPACE, len(spans), lambda making: self._first(model, spans, making))
            found, failure = making if isinstance(making, tuple) else ({}, making)
        except EmbedderError as error:
            found, failure = {}, str(error)
        self._serving.first_failure = failure
        return Prepared(by_space={}, first=(model, found)) if found else nothing

    def place(self, conn: apsw.Connection, prepared: Prepared) -> list[tuple[StoredSpace, MadeOf]]:
        """Return the spaces that vectors go to, in the transaction that stores them; the first space is made here."""
        spaces = semantic.spaces(conn)
        if prepared.first is not None:
            model, made = prepared.first
            # Another thread or process may have made the first space meanwhile.
            own = [space for space in spaces if self._serving.made(space, model)]
            return [(space, made) for space in own] if spaces else [(new_space(conn, model), made)]
        return [(space, prepared.by_space[space.id]) for space in spaces if prepared.by_space.get(space.id)]

    def step(self) -> None:
        """Embed a little of what waits, where a model is loaded that works: the rest is for another time."""
        if self._serving.unavailable() or self._database.read_only:
            return
        with self._database.read() as conn:
            spaces = [
                one
                for one in semantic.spaces(conn)
                if not one.damage and (one.state != "ready" or semantic.waits(conn, one))
            ]
        for space in spaces:
            model = self._serving.working(space)
            if model is not None:
                try:
                    self._step(space, model)
                except MemstoreError as error:
                    # What is stored is stored, whatever becomes of this: it is told in `stats`.
                    self._serving.failed(space, str(error))

    def catch_up(self, memory_ids: Sequence[int]) -> None:
        """Embed what waits of a few memories just written; what fails goes on waiting."""
        if self._serving.unavailable():
            return
        with self._database.read() as conn:
            spaces = semantic.spaces(conn)
        for space in spaces:
            model = self._serving.working(space)
            if model is not None:
                try:
                    self._batch(space, model, self._waiting(space, limit=_FILL_BATCH, memory_ids=memory_ids))
                except MemstoreError as error:
                    self._serving.failed(space, str(error))

    def fill(self, space: StoredSpace, *, seconds: float | None, refused: bool, progress: Progress | None) -> Filled:
        """Embed every passage that waits in a space, or as many as `seconds` allow; then let it be searched.

        Each batch is a transaction, so that an interrupted run goes on where it stopped. A space is searched once
        each passage has what it should, and the counts of its vectors and of the notes of them agree. Raises
        `EmbedderError` when there is no model, or it fails for every text.
        """
        began = time.monotonic()
        if self._serving.unavailable():
            raise EmbedderError(self._serving.unavailable())
        if refused:
            with self._database.write() as conn:
                self._require(conn, space)
                semantic.forget_refused(conn, space)
        total = self._sound(space)
        embedded = copied = last = 0
        failure = ""
        model = self._verified(space) if total else None
        limit = _FILL_BATCH if seconds is None else _FIRST_BATCH
        tried_all = True
        while model is not None and (batch := self._waiting(space, limit=limit, after=last)):
            if max(batch) <= last:
                raise DamagedStoreError(
                    f"the passages that wait in {space.name} come again and again: their index is damaged;"
                    " memstore doctor --repair makes it anew."
                )
            done = self._batch(space, model, batch)
            embedded, copied = embedded + done.stored - done.copied, copied + done.copied
            failure, last = done.failure or failure, max(batch)
            if progress is not None:
                progress(embedded + copied, max(total, embedded + copied))
            if done.dead:
                if not embedded and not copied:
                    raise EmbedderError(done.failure)
                tried_all = False
                break
            spent = time.monotonic() - began
            if seconds is not None:
                if spent >= seconds:
                    tried_all = False
                    break
                rate = max(1, embedded + copied) / max(spent, 1e-3)
                limit = int(min(_FILL_BATCH, max(_FIRST_BATCH, rate * (seconds - spent))))
        # A few that the model fails for do not keep the others from being searched.
        disagreement = self._finish(space, max(_FEW, total // 100) if tried_all else 0)
        with self._database.read() as conn:
            _, pending, without = semantic.counts(conn, space)
        return Filled(
            space=space.name,
            embedded=embedded,
            copied=copied,
            pending=pending,
            refused=without,
            seconds=time.monotonic() - began,
            problem=failure or disagreement or None,
        )

    def estimate(self, space: StoredSpace | None, model: Model | None) -> Filled:
        """Return what filling a space (None: one that is not made yet) would do, with a time measured on a sample."""
        with self._database.read() as conn:
            there = space or replace(_NO_SPACE, name=model.name if model is not None else "")
            number, characters = semantic.size_of_pending(conn, there)
        sample = list(self._waiting(there, limit=_SAMPLE).values())
        problem, spent = "", 0.0
        try:
            model = self._serving.model(there, None, patient=True) if model is None else model
            model.fingerprint()
            began = time.monotonic()
            problem = made_by(model, sample, knows_nothing)[2].failure
            spent = time.monotonic() - began
        except EmbedderError as error:
            problem = str(error)
        read = sum(span.stop - span.start for span in sample)
        return Filled(
            space=there.name,
            embedded=0,
            copied=0,
            pending=number,
            refused=0,
            seconds=spent * characters / read if read else 0.0,
            problem=problem or None,
        )

    def _made(self, space: StoredSpace, spans: Sequence[Span]) -> MadeOf:
        hashes = {span.hash for span in spans}

        def known(wanted: Iterable[bytes]) -> Mapping[bytes, Vector]:
            # Passages are looked up here, so that only one that comes in pieces opens a connection in the thread.
            return whole if hashes.issuperset(wanted) else self._stored(space, wanted)

        def make(making: Making) -> tuple[MadeOf, str]:
            model = self._serving.model(space, self._serving.wait)
            made, _, answer = made_by(model, spans, known, making.answered)
            return made, answer.failure

        try:
            whole = self._stored(space, hashes)
            making = self._in_time(space, len(spans), make)
            found, failure, late = (*making, False) if isinstance(making, tuple) else ({}, making, True)
        except EmbedderError as error:
            found, failure, late = {}, str(error), False
        self._serving.failed(space, failure, late=late)
        return found

    def _copied(self, space: StoredSpace, spans: Sequence[Span]) -> MadeOf:
        with suppress(EmbedderError):
            return self._stored(space, {span.hash for span in spans})
        return {}

    def _first(self, model: Model, spans: Sequence[Span], making: Making) -> tuple[MadeOf, str]:
        model.opened(self._serving.wait)
        # Asked for now, so that the transaction that makes the space never waits for the model.
        model.references()
        making.answered()
        made, _, answer = made_by(model, spans, knows_nothing, making.answered)
        return made, answer.failure

    def _in_time(
        self, space: StoredSpace, texts: int, make: Callable[[Making], tuple[MadeOf, str]]
    ) -> tuple[MadeOf, str] | str:
        """Return what `make` returns in a thread of its own, or why it did not: the model took too long."""
        overdue = self._overdue.get(space.id)
        if overdue is not None and overdue.running:
            raise EmbedderError(f"the embedder of {space.name or 'this file'} is still busy with earlier texts")
        making = Making(make)
        if making.done_within(self._serving.wait, texts):
            return making.result()
        self._overdue[space.id] = making
        return f"the embedder of {space.name or 'this file'} gave no answer in time"

    def _stored(self, space: StoredSpace, hashes: Iterable[bytes]) -> Mapping[bytes, Vector]:
        with self._database.read() as conn:
            self._require(conn, space)
            return semantic.stored(conn, space, hashes)

    def _sound(self, space: StoredSpace) -> int:
        """Put right what a kill has left behind in a space, and return how many passages wait in it."""
        with self._database.read() as conn:
            self._require(conn, space)
            sound = semantic.is_sound(conn, space)
        if not sound:
            with self._database.write() as conn:
                self._require(conn, space)
                semantic.reconcile(conn, space)
        with self._database.read() as conn:
            return semantic.size_of_pending(conn, space)[0]

    @staticmethod
    def _require(conn: apsw.Connection, space: StoredSpace) -> None:
        if not semantic.is_there(conn, space):
            raise EmbedderError(f"the space {space.name} has been removed from the file")
        if space.damage:
            raise EmbedderError(space.damage)

    def _verified(self, space: StoredSpace) -> Model:
        """Return the model of a space once it has said again who it is: filling is long, and must not mix."""
        model = self._serving.model(space, None, patient=True)
        model.forget()
        return self._serving.model(space, None, patient=True)

    def _step(self, space: StoredSpace, model: Model) -> None:
        waiting = self._waiting(space, limit=_STEP, after=self._stepped.get(space.id, 0))
        batch: dict[int, Span] = {}
        characters = 0
        for passage_id, span in waiting.items():
            characters += span.stop - span.start
            if batch and characters > _STEP_CHARACTERS:
                break
            batch[passage_id] = span
        # From the start again when the end was reached: what could not be embedded may be now.
        self._stepped[space.id] = max(batch, default=0)
        if batch:
            self._batch(space, model, batch)
        self._finish(space)

    def _waiting(
        self, space: StoredSpace, *, limit: int, after: int = 0, memory_ids: Sequence[int] | None = None
    ) -> dict[int, Span]:
        found: dict[int, Span] = {}
        rows: dict[int, Row | None] = {}
        with self._database.read() as conn:
            for passage_id, memory_id, start, stop in semantic.pending(
                conn, space, limit, after=after, memory_ids=memory_ids
            ):
                if memory_id not in rows:
                    rows[memory_id] = get(conn, memory_id)
                row = rows[memory_id]
                if row is not None:
                    found[passage_id] = Span(row, start, stop)
        return found

    def _batch(self, space: StoredSpace, model: Model, batch: Mapping[int, Span]) -> "_Done":
        """Embed and store passages."""
        hashes = {passage_id: span.hash for passage_id, span in batch.items()}
        found, known, answer = made_by(model, list(batch.values()), lambda wanted: self._stored(space, wanted))
        with self._database.write() as conn:
            # A memory that was changed meanwhile has new passages, and another process may have been faster; the
            # space itself may have gone.
            still = semantic.still_pending(conn, space, list(batch)) if semantic.is_there(conn, space) else []
            ready = [(one, hashes[one], found[hashes[one]]) for one in still if hashes[one] in found]
            semantic.index(conn, space, ready)
        self._serving.failed(space, answer.failure)
        return _Done(
            stored=len(ready),
            copied=sum(text_hash in known for _, text_hash, _ in ready),
            failure=answer.failure,
            dead=answer.dead,
        )

    def _finish(self, space: StoredSpace, may_wait: int = 0) -> str:
        """Let a space that is whole, but for a few passages, be searched; return what it still lacks."""
        with self._database.read() as conn:
            if space.state == "ready" or not semantic.is_there(conn, space):
                return ""
            disagreement = semantic.disagreement(conn, space, may_wait)
        if not disagreement:
            with self._database.write() as conn:
                disagreement = semantic.disagreement(conn, space, may_wait)
                if not disagreement:
                    semantic.set_state(conn, space, "ready")
        return disagreement


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """What became of a batch: passages stored, those of them that were copied, and what failed."""

    stored: int
    copied: int
    failure: str
    dead: bool


def new_space(
    conn: apsw.Connection, model: Model, name: str | None = None, languages: Sequence[str] | None = None
) -> StoredSpace:
    """Make the space of a model that has told its fingerprint; it can be searched at once where no passage waits.

    Without `languages` it is asked in those that the model is for, if it says so.
    """
    told = model.traits
    taken = {*RESERVED, *(space.name for space in semantic.spaces(conn))}
    usual = " ".join(told.model_id[:_LONGEST_NAME].split())
    names = (usual if n == 1 else f"{usual}-{n}" for n in range(1, len(taken) + 2))
    return semantic.add_space(
        conn,
        name=name or next(one for one in names if one not in taken),
        spec=model.spec,
        model_id=told.model_id,
        fingerprint=model.fingerprint(),
        background=model.references(),
        query_prefix=told.query_prefix,
        passage_prefix=told.passage_prefix,
        pooling=told.pooling,
        languages=told.languages if languages is None else languages,
        state="filling" if semantic.passages(conn) else "ready",
    )

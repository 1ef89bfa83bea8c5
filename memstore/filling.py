"""Passages to vectors in the spaces of a file: those of a write, and those that wait."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import apsw

from memstore import passages, semantic
from memstore.checks import digest
from memstore.database import Database
from memstore.embedding import Model, Vector
from memstore.errors import EmbedderError
from memstore.memories import Row, get
from memstore.records import Filled
from memstore.semantic import Made, Piece, StoredSpace
from memstore.serving import Serving

# A batch is a transaction, and what a kill can cost; texts of like length go to the model together, so that more of
# them waste less.
_FILL_BATCH = 128
# What each write takes along of what waits: about a tenth of a second with the bundled model.
_STEP = 8
_SAMPLE = 16
# Cutting for a model with a small window aims below it: tokens are not spread evenly over a text.
_SPARE = 0.85
_FEWEST_UNITS = 16

# No space has this number: every passage waits for it.
_NO_SPACE = StoredSpace(
    id=0, name="", spec=None, model_id="", dimensions=0, fingerprint=b"", languages="", state="", searched=0
)
# What a model made of texts, by the hash of each.
MadeOf: TypeAlias = Mapping[bytes, Made]
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Span:
    """A span of a memory, as a model reads it: between its author and its date."""

    row: Row
    start: int
    stop: int

    @property
    def text(self) -> str:
        return self.row.embedded_text(self.start, self.stop)

    @property
    def hash(self) -> bytes:
        return digest(self.text.encode())


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

    def prepare(self, spans: Sequence[Span]) -> Prepared:
        """Make the vectors of passages to be stored, for every space whose model is there in time."""
        nothing = Prepared(by_space={})
        if self._serving.unavailable() or not spans:
            return nothing
        with self._database.read() as conn:
            spaces = semantic.spaces(conn)
        made = {space.id: self._made(space, spans) for space in spaces}
        if spaces:
            return Prepared(by_space=made)
        try:
            model = self._serving.first()
            model.opened(self._serving.wait)
            # Asked for now, so that the transaction that makes the space never waits for the model.
            model.fingerprint()
            found, failure = _made_by(model, spans, {})
        except EmbedderError as error:
            found, failure = {}, str(error)
        self._serving.first_failure = failure
        return Prepared(by_space={}, first=(model, found)) if found else nothing

    def place(self, conn: apsw.Connection, prepared: Prepared) -> list[tuple[StoredSpace, MadeOf]]:
        """Return the spaces that vectors go to, in the transaction that stores them; the first space is made here."""
        spaces = semantic.spaces(conn)
        if prepared.first is not None and not spaces:
            model, made = prepared.first
            return [(new_space(conn, model), made)]
        return [(space, prepared.by_space[space.id]) for space in spaces if prepared.by_space.get(space.id)]

    def step(self) -> None:
        """Embed a few of the passages that wait, where a model is loaded that works: the rest is for another time."""
        if self._serving.unavailable() or self._database.read_only:
            return
        with self._database.read() as conn:
            waiting = [space for space in semantic.spaces(conn) if semantic.waits(conn, space)]
        for space in waiting:
            model = self._serving.working(space)
            if model is not None:
                self._batch(space, model, self._waiting(space, limit=_STEP))
                self._finish(space)

    def catch_up(self, memory_ids: Sequence[int]) -> None:
        """Embed what waits of a few memories just written; what fails goes on waiting."""
        if self._serving.unavailable():
            return
        with self._database.read() as conn:
            spaces = semantic.spaces(conn)
        for space in spaces:
            try:
                batch = self._waiting(space, limit=_FILL_BATCH, memory_ids=memory_ids)
                self._batch(space, self._serving.model(space, self._serving.wait), batch)
            except EmbedderError as error:
                self._serving.failed(space, str(error))

    def fill(self, space: StoredSpace, *, seconds: float | None, progress: Progress | None) -> Filled:
        """Embed every passage that waits in a space, or as many as `seconds` allow; then let it be searched.

        Each batch is a transaction, so that an interrupted run goes on where it stopped. A space is searched once
        each passage has what it should, and the counts of its vectors and of the notes of them agree. Raises
        `EmbedderError` when there is no model, or it fails for a whole batch.
        """
        began = time.monotonic()
        with self._database.write() as conn:
            # Without the model too: what a kill has left behind is put right.
            semantic.reconcile(conn, space)
            total, _ = semantic.size_of_pending(conn, space)
        embedded = copied = last = 0
        failure = ""
        model = self._serving.model(space, None) if total else None
        while model is not None and (batch := self._waiting(space, limit=_FILL_BATCH, after=last)):
            stored, copies, failed = self._batch(space, model, batch)
            embedded, copied, failure, last = embedded + stored - copies, copied + copies, failed or failure, max(batch)
            if progress is not None:
                progress(embedded + copied, max(total, embedded + copied))
            if failed and not stored:
                raise EmbedderError(failed)
            if seconds is not None and time.monotonic() - began >= seconds:
                break
        disagreement = self._finish(space)
        with self._database.read() as conn:
            _, pending, refused = semantic.counts(conn, space)
        return Filled(
            space=space.name,
            embedded=embedded,
            copied=copied,
            pending=pending,
            refused=refused,
            seconds=time.monotonic() - began,
            problem=failure or disagreement or None,
        )

    def estimate(self, space: StoredSpace | None, model: Model) -> Filled:
        """Return what filling a space (None: one that is not made yet) would do, with a time measured on a sample."""
        with self._database.read() as conn:
            there = space or replace(_NO_SPACE, name=model.name)
            number, characters = semantic.size_of_pending(conn, there)
        sample = list(self._waiting(there, limit=_SAMPLE).values())
        model.fingerprint()
        began = time.monotonic()
        _made_by(model, sample, {})
        spent = time.monotonic() - began
        read = sum(span.stop - span.start for span in sample)
        return Filled(
            space=there.name,
            embedded=0,
            copied=0,
            pending=number,
            refused=0,
            seconds=spent * characters / read if read else 0.0,
            problem=None,
        )

    def _made(self, space: StoredSpace, spans: Sequence[Span]) -> MadeOf:
        try:
            model = self._serving.model(space, self._serving.wait)
            found, _, failure = self._of_space(space, model, spans)
        except EmbedderError as error:
            found, failure = {}, str(error)
        self._serving.failed(space, failure)
        return found

    def _of_space(
        self, space: StoredSpace, model: Model, spans: Sequence[Span]
    ) -> tuple[dict[bytes, Made], set[bytes], str]:
        """Return the vectors of passages, those that the space had already of the same text, and what failed."""
        with self._database.read() as conn:
            known = semantic.stored(conn, space, {span.hash for span in spans})
        made, failure = _made_by(model, spans, known)
        return {**known, **made}, set(known), failure

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

    def _batch(self, space: StoredSpace, model: Model, batch: Mapping[int, Span]) -> tuple[int, int, str]:
        """Embed and store passages; return how many were stored, how many of them copied, and what failed."""
        hashes = {passage_id: span.hash for passage_id, span in batch.items()}
        found, known, failure = self._of_space(space, model, list(batch.values()))
        with self._database.write() as conn:
            # A memory that was changed meanwhile has new passages, and another process may have been faster; the
            # space itself may have gone.
            there = {one.id for one in semantic.spaces(conn)}
            still = semantic.still_pending(conn, space, list(batch)) if space.id in there else []
            ready = [(one, hashes[one], found[hashes[one]]) for one in still if hashes[one] in found]
            semantic.index(conn, space, ready)
        self._serving.failed(space, failure)
        return len(ready), sum(text_hash in known for _, text_hash, _ in ready), failure

    def _finish(self, space: StoredSpace) -> str:
        """Let a space that is whole be searched; return what it still lacks."""
        with self._database.read() as conn:
            if space.state == "ready" or space.id not in {one.id for one in semantic.spaces(conn)}:
                return ""
            disagreement = semantic.disagreement(conn, space)
        if not disagreement:
            with self._database.write() as conn:
                disagreement = semantic.disagreement(conn, space)
                if not disagreement:
                    semantic.set_state(conn, space, "ready")
        return disagreement


def new_space(
    conn: apsw.Connection, model: Model, name: str | None = None, languages: Sequence[str] | None = None
) -> StoredSpace:
    """Make the space of a model that has told its fingerprint; it can be searched at once where no passage waits.

    Without `languages` it is asked in those that the model is for, if it says so.
    """
    taken = {space.name for space in semantic.spaces(conn)}
    names = (model.model_id if n == 1 else f"{model.model_id}-{n}" for n in range(1, len(taken) + 2))
    return semantic.add_space(
        conn,
        name=name or next(one for one in names if one not in taken),
        spec=model.spec,
        model_id=model.model_id,
        fingerprint=model.fingerprint(),
        query_prefix=model.trait("query_prefix"),
        passage_prefix=model.trait("passage_prefix"),
        pooling=model.trait("pooling"),
        languages=model.languages if languages is None else languages,
        state="filling" if semantic.passages(conn) else "ready",
    )


def _made_by(model: Model, spans: Sequence[Span], known: Mapping[bytes, Vector]) -> tuple[dict[bytes, Made], str]:
    """Return what a model makes of passages that are not known, by the hash of each, and what failed."""
    wanted = {span.hash: span for span in spans if span.hash not in known}
    hashes = list(wanted)
    texts = [wanted[one].text for one in hashes]
    try:
        pieces = {hashes[one]: _pieces(model, wanted[hashes[one]]) for one in model.too_long(texts)}
    except EmbedderError as error:
        return {}, str(error)
    whole = {one: text for one, text in zip(hashes, texts, strict=True) if one not in pieces}
    parts = {piece.hash: piece.text for spans_of in pieces.values() for piece in spans_of}
    asked = {**parts, **whole}
    answer = model.passages(list(asked.values()))
    vectors = {one: answer.vectors[number] for number, one in enumerate(asked) if number in answer.vectors}
    made: dict[bytes, Made] = {one: vectors[one] for one in whole if one in vectors}
    for one, spans_of in pieces.items():
        if all(piece.hash in vectors for piece in spans_of):
            first = wanted[one].start
            made[one] = (
                tuple(
                    Piece(
                        start=piece.start - first,
                        stop=piece.stop - first,
                        text_hash=piece.hash,
                        vector=vectors[piece.hash],
                    )
                    for piece in spans_of
                )
                or None
            )
    return made, answer.failure


def _pieces(model: Model, span: Span) -> list[Span]:
    """Cut a passage that a model can't read whole into pieces that it can; none where not even a few words fit."""
    units = float(passages.PASSAGE_UNITS)
    while units >= _FEWEST_UNITS:
        units *= _SPARE
        pieces = [
            Span(span.row, span.start + start, span.start + stop)
            for start, stop in passages.cut(span.row.text[span.start : span.stop], int(units))
        ]
        if len(pieces) > 1 and not model.too_long([piece.text for piece in pieces]):
            return pieces
    return []

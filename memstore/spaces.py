"""`store.spaces`: the embedding spaces of a file, and the model that fills and asks them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import apsw

from memstore import semantic
from memstore.checks import digest
from memstore.database import Database, one_value
from memstore.embedding import Embedder, Model, resolve
from memstore.errors import EmbedderError
from memstore.memories import Row, get
from memstore.records import Space
from memstore.semantic import StoredSpace, Vector

_FILL_BATCH = 64
# About the window of a model: a pasted document would be read for minutes.
_LONGEST_QUERY = 2_000


# The vectors of some texts by the hash of each; None is a text that the model gives no usable vector for.
Vectors: TypeAlias = dict[bytes, Vector | None]


class Spaces:
    """The embedding spaces of one store.

    What goes wrong with a model is kept as a sentence and costs the semantic signal alone.
    """

    def __init__(self, database: Database, embedder: str | Embedder | None) -> None:
        self._database = database
        self._model: Model | None = None
        self._why_not = ""
        self._failure = ""
        with database.read() as conn:
            made_with = [space.spec for space in semantic.spaces(conn)]
        # A model named by the caller that can't be had is waited for; with "auto" none is.
        self._asked_for = embedder if isinstance(embedder, str) and embedder not in ("auto", "none") else ""
        try:
            self._model, self._why_not = resolve(embedder, made_with)
        except EmbedderError as error:
            self._why_not = str(error)

    def list(self) -> tuple[Space, ...]:
        """Return every space with how many passages have a vector in it, wait for one, or were refused one."""
        with self._database.read() as conn:
            return tuple(_counted(conn, space) for space in semantic.spaces(conn))

    def describe(self) -> str:
        """Say in one line which model new memories go to, or why there is none."""
        if self._database.vectors_unavailable is not None:
            return self._database.vectors_unavailable
        if self._model is None:
            return self._why_not
        name = self._model.name
        return f"{name}, which failed when it was last used: {self._failure}" if self._failure else name

    def fill(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Embed every passage that waits for a vector of the store's model; return how many were embedded.

        A model that has no space in this file yet gets one beside the others; it is searched once every passage has
        its vector. Each batch is a transaction, so an interrupted run goes on where it stopped. `progress` is called
        with the passages done and the passages to do. Raises `EmbedderError` when there is no model or it fails.
        """
        model = self._required()
        # Before the transaction, which never waits for a model.
        model.fingerprint()
        with self._database.write() as conn:
            semantic.sweep(conn)
            space = self._matching(semantic.spaces(conn), model) or self._added(conn, model, state="filling")
            total = semantic.counts(conn, space)[1]
        done = last = 0
        while batch := self._waiting(space, after=last):
            done += self._fill(model, space, batch)
            last = max(batch)
            if progress is not None:
                progress(done, max(total, done))
        with self._database.write() as conn:
            if semantic.counts(conn, space)[1] == 0:
                semantic.set_state(conn, space, "ready")
        return done

    def catch_up(self, memory_ids: Sequence[int]) -> None:
        """Embed what waits of a few memories just written; what fails goes on waiting."""
        if self._model is None or self._database.vectors_unavailable is not None:
            return
        try:
            with self._database.read() as conn:
                stored = semantic.spaces(conn)
            space = self._matching(stored, self._model)
            if space is not None and (batch := self._waiting(space, memory_ids=memory_ids)):
                self._fill(self._model, space, batch)
        except EmbedderError as error:
            self._failure = str(error)

    def embed(self, texts: Sequence[str]) -> Vectors | None:
        """Return the vectors of passages to be stored, or None when there is no model, no place, or it failed."""
        if self._model is None or self._database.vectors_unavailable is not None or not texts:
            return None
        try:
            with self._database.read() as conn:
                stored = semantic.spaces(conn)
            if stored and self._matching(stored, self._model) is None:
                return None
            found = self._embedded(self._model, texts)
        except EmbedderError as error:
            self._failure = str(error)
            return None
        self._failure = ""
        return found

    def for_writing(self, conn: apsw.Connection) -> StoredSpace | None:
        """Return the space that new vectors go to; the first model of a file gets its space here."""
        if self._model is None or self._database.vectors_unavailable is not None:
            return None
        stored = semantic.spaces(conn)
        if not stored:
            waiting = one_value(conn, "SELECT EXISTS (SELECT 1 FROM passages)")
            return self._added(conn, self._model, state="filling" if waiting else "ready")
        return self._matching(stored, self._model)

    def waiting(self, conn: apsw.Connection) -> tuple[str, ...]:
        """Return the model that every passage waits for, in a file where it could not make its first vector yet."""
        if self._database.vectors_unavailable is not None or semantic.spaces(conn):
            return ()
        if self._model is None:
            return (self._asked_for,) if self._asked_for else ()
        return (self._model.name,)

    def for_search(self, stored: Sequence[StoredSpace]) -> StoredSpace | str:
        """Return which of the file's spaces a query is asked in, or why none can be. Loads the model; no SQL."""
        if self._model is None:
            return self._why_not
        if not stored:
            return "no memory has a vector yet; memstore embedders fill makes those that wait"
        try:
            space = self._matching(stored, self._model)
            if space is not None:
                return (
                    space
                    if space.state == "ready"
                    else f"the vectors of {space.name} are not all made; memstore embedders fill makes them"
                )
            other, own = stored[-1], self._model.opened()
        except EmbedderError as error:
            return str(error)
        return (
            f"the vectors of this file come from {other.model_id} ({other.dimensions} dimensions), not from"
            f" {own.model_id} ({own.dimensions}) as it answers now; memstore embedders fill adds a space for it"
        )

    def query(self, text: str) -> Vector:
        """Return the vector of a query, of its beginning when it is a document. Raises `EmbedderError` without one."""
        vector = self._required().query(text[:_LONGEST_QUERY])
        if vector is None:
            raise EmbedderError("the embedder gave no usable vector for this query")
        return vector

    def _required(self) -> Model:
        if self._database.vectors_unavailable is not None:
            raise EmbedderError(self._database.vectors_unavailable)
        if self._model is None:
            raise EmbedderError(self._why_not)
        return self._model

    def _waiting(
        self, space: StoredSpace, *, after: int = 0, memory_ids: Sequence[int] | None = None
    ) -> dict[int, str]:
        texts: dict[int, str] = {}
        read: dict[int, Row | None] = {}
        with self._database.read() as conn:
            for passage_id, memory_id, start, stop in semantic.pending(
                conn, space, _FILL_BATCH, after=after, memory_ids=memory_ids
            ):
                if memory_id not in read:
                    read[memory_id] = get(conn, memory_id)
                row = read[memory_id]
                texts[passage_id] = "" if row is None else row.embedded_text(start, stop)
        return texts

    def _fill(self, model: Model, space: StoredSpace, batch: Mapping[int, str]) -> int:
        found = self._embedded(model, list(batch.values()))
        hashes = {passage_id: digest(text.encode()) for passage_id, text in batch.items()}
        with self._database.write() as conn:
            # A memory that was changed meanwhile has new passages, and another process may have been faster.
            still = semantic.still_pending(conn, space, list(batch))
            semantic.index(conn, space, [(one, hashes[one], found[hashes[one]]) for one in still])
        return len(still)

    @staticmethod
    def _embedded(model: Model, texts: Sequence[str]) -> Vectors:
        distinct = list(dict.fromkeys(texts))
        vectors = model.passages(distinct)
        # Asked for now, so that the transaction that stores the vectors never waits for the model.
        model.fingerprint()
        return {digest(text.encode()): one for text, one in zip(distinct, vectors, strict=True)}

    @staticmethod
    def _matching(stored: Sequence[StoredSpace], model: Model) -> StoredSpace | None:
        for space in stored:
            if space.model_id == model.model_id and model.made(space.fingerprint):
                return space
        return None

    @staticmethod
    def _added(conn: apsw.Connection, model: Model, *, state: str) -> StoredSpace:
        query_prefix, passage_prefix = model.prefixes
        taken = {space.name for space in semantic.spaces(conn)}
        names = (model.model_id if n == 1 else f"{model.model_id}-{n}" for n in range(1, len(taken) + 2))
        return semantic.add_space(
            conn,
            name=next(name for name in names if name not in taken),
            spec=model.spec,
            model_id=model.model_id,
            fingerprint=model.fingerprint(),
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
            state=state,
        )


def _counted(conn: apsw.Connection, space: StoredSpace) -> Space:
    vectors, pending, refused = semantic.counts(conn, space)
    return Space(
        name=space.name,
        model_id=space.model_id,
        dimensions=space.dimensions,
        state=space.state,
        vectors=vectors,
        pending=pending,
        refused=refused,
    )

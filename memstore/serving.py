"""Which model serves which embedding space of a file, and why one has none."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from memstore.database import Database
from memstore.embedding import Embedder, Given, Model, asks_elsewhere, first_on_disk, named, resolve, usual
from memstore.errors import EmbedderError, InvalidInputError
from memstore.semantic import StoredSpace

# A model that did not answer in time is not waited for again at each call.
_REST_SECONDS = 30.0
NO_SPACE = "this file has no embedding space; memstore embedders add makes one"
_CALLERS_OWN = "its vectors come from an embedder of the caller's own; open it with embedder=…"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """What went wrong, and until when (by the monotonic clock) the model is left alone."""

    sentence: str
    rests_until: float


class Serving:
    """The models of one store: those that the caller gave, and those that the spaces of the file name themselves.

    `wait` is how many seconds a call waits for a model that is still being loaded. Nothing is loaded before it is
    needed, and what goes wrong with a model is a sentence that costs its own space alone.
    """

    def __init__(self, database: Database, embedder: Given | Sequence[Given], wait: float) -> None:
        self._database = database
        self.wait = wait
        self._auto = isinstance(embedder, str) and embedder == "auto"
        # With no embedder at all the spaces of the file are not asked either.
        self._closed = embedder is None or (isinstance(embedder, str) and embedder == "none")
        self._asked_for = embedder if isinstance(embedder, str) and not self._auto and not self._closed else ""
        self._why_none = ""
        self.own: tuple[Model, ...] = ()
        if not self._auto:
            try:
                self.own, self._why_none = resolve(embedder)
            except EmbedderError as error:
                self._why_none = str(error)
        # What went wrong when the model of a file without a space was last used.
        self.first_failure = ""
        self._usual: Model | None = None
        self._by_spec: dict[str, Model] = {}
        self._served: dict[int, Model] = {}
        self._failures: dict[int, _Failure] = {}

    def unavailable(self) -> str:
        """Say why no space at all can be served, nothing when some may be."""
        return self._database.vectors_unavailable or (self._why_none if self._closed else "")

    def first(self) -> Model:
        """Return the model that a file without a space gets one for; raise `EmbedderError` when there is none."""
        if self._database.vectors_unavailable is not None:
            raise EmbedderError(self._database.vectors_unavailable)
        if self._auto:
            self._usual = self._usual or usual()
            return self._usual
        if not self.own:
            raise EmbedderError(self._why_none)
        return self.own[0]

    def model(self, space: StoredSpace, wait: float | None, *, patient: bool = False) -> Model:
        """Return the model that made a space, loaded; raise `EmbedderError` when there is none, or not in time.

        A model that failed is asked anew who it is, and so is one that has not said so for a minute. One that did not
        answer in time rests for a while, unless the caller is `patient`.
        """
        if self.unavailable() or space.damage:
            raise EmbedderError(self.unavailable() or space.damage)
        failure = self._failures.get(space.id)
        if failure is not None and not patient and time.monotonic() < failure.rests_until:
            raise EmbedderError(failure.sentence)
        served = self._served.get(space.id)
        if served is not None and served.known_lately:
            return served
        self._served.pop(space.id, None)
        own, others = "", ""
        for model in self._candidates(space):
            if isinstance(model, str):
                others = others or model
                continue
            try:
                model.opened(wait)
                if not model.known_lately:
                    model.forget()
                if self.made(space, model):
                    self._served[space.id] = model
                    return model
                reason = self._mismatch(space, model)
            except EmbedderError as error:
                reason = str(error)
            # What is wrong with the model of that name says more than that others are not it.
            if model.loaded and model.model_id == space.model_id:
                own = own or reason
            else:
                others = others or reason
        raise EmbedderError(own or others or _CALLERS_OWN)

    def token_reader(self, spaces: Sequence[StoredSpace]) -> Embedder:
        """Return a loaded sentence model that tells the vectors of tokens: the caller's, a space's, or one on disk.

        Raises `EmbedderError` when there is none, and names those that tell none.
        """
        silent: list[str] = []
        faults: list[str] = []
        candidates: list[Model | StoredSpace] = [*self.own, *spaces]
        for one in candidates:
            try:
                found = (one if isinstance(one, Model) else self.model(one, None, patient=True)).opened()
            except EmbedderError as error:
                faults.append(str(error))
                continue
            if hasattr(found, "token_vectors"):
                return found
            silent.append(found.model_id)
        there = first_on_disk()
        if there is not None:
            return named(f"fastembed:{there}").opened(self.wait)
        why = f"; {'; '.join(dict.fromkeys(faults))}" if faults else ""
        if silent:
            told = ", ".join(dict.fromkeys(silent))
            raise EmbedderError(f"{told} tells no vectors of tokens, and no other model that does is on disk{why}")
        raise EmbedderError(f"no sentence model that tells the vectors of tokens is on disk{why}")

    def known_as(self, model: Model) -> Model:
        """Return the model that the store has already of the same spec, or for the same object, else this one."""
        there = (one for one in (*self.own, self._usual, *self._by_spec.values()) if one is not None)
        same = (one for one in there if one.spec == model.spec and one.given is model.given)
        return next(same, model)

    def serve(self, space: StoredSpace, model: Model) -> None:
        """Keep a model that has just made a space."""
        if model.spec is not None:
            self._by_spec.setdefault(model.spec, model)
        elif model not in self.own:
            self.own = (*self.own, model)
        self._served[space.id] = model

    def working(self, space: StoredSpace) -> Model | None:
        """Return the model of a space if it is loaded and did not fail when it was last used."""
        if space.id in self._failures:
            return None
        with suppress(EmbedderError):
            return self.model(space, 0.0)
        return None

    def homeless(self, spaces: Sequence[StoredSpace]) -> list[Model]:
        """Return the caller's models that are loaded and have no space in the file; nothing is asked of them."""
        kinds = {(space.model_id, space.dimensions) for space in spaces}
        served = set(map(id, self._served.values()))
        return [one for one in self.own if one.loaded and id(one) not in served and _kind(one) not in kinds]

    def strangers(self, spaces: Sequence[StoredSpace]) -> list[str]:
        """Say of each model that the caller gave as an object that no space is of its kind; nothing is asked of it."""
        return [self._mismatch(spaces[-1], model) for model in self.homeless(spaces)] if spaces else []

    def waited_for(self) -> str:
        """Name the model that a file without a space waits for, nothing when it waits for none."""
        try:
            return self.first().name
        except EmbedderError:
            return self._asked_for

    def failed(self, space: StoredSpace, failure: str, *, late: bool = False) -> None:
        """Note what went wrong when a space's model was last used (nothing: all went well), and whether it was late."""
        if not failure:
            self._failures.pop(space.id, None)
            return
        rests_until = time.monotonic() + _REST_SECONDS if late else 0.0
        self._failures[space.id] = _Failure(sentence=failure, rests_until=rests_until)
        served = self._served.pop(space.id, None)
        if served is not None:
            # A server that failed may have been started again with another model.
            served.forget()

    def problem(self, space: StoredSpace) -> str | None:
        """Say what is known to be wrong with the model of a space, without loading it or asking it anything."""
        if self.unavailable() or space.damage:
            return self.unavailable() or space.damage
        if space.id in self._failures:
            return self._failures[space.id].sentence
        if space.id in self._served:
            return None
        reason: str | None = _CALLERS_OWN
        for model in self._candidates(space):
            if isinstance(model, str):
                reason = model
            elif not model.loaded or _kind(model) == (space.model_id, space.dimensions):
                return None
            else:
                reason = self._mismatch(space, model)
        return reason

    def describe(self, spaces: Sequence[StoredSpace]) -> str:
        """Say in one line which models new memories go to, or why there is none."""
        if self.unavailable():
            return self.unavailable()
        if not spaces:
            try:
                name = self.first().name
            except EmbedderError as error:
                return str(error)
            return f"{name}, which failed when it was last used: {self.first_failure}" if self.first_failure else name
        problems = [self.problem(space) for space in spaces]
        if len(spaces) == 1 and problems[0] is not None and spaces[0].id not in self._failures:
            return problems[0]
        return ", ".join(
            space.name if problem is None else f"{space.name}, which failed when it was last used: {problem}"
            for space, problem in zip(spaces, problems, strict=True)
        )

    def _candidates(self, space: StoredSpace) -> Iterator[Model | str]:
        """Yield the models that may have made a space, the likeliest first, or why the one that it names can't be."""
        yield from (model for model in self.own if model.spec is not None and model.spec == space.spec)
        # An object says who it is at once; a model that has to be loaded for that comes last.
        yield from (model for model in self.own if model.spec is None)
        if space.spec is not None and all(model.spec != space.spec for model in self.own):
            yield self._named(space.spec)
        yield from (model for model in self.own if model.spec not in (None, space.spec))

    def _named(self, spec: str) -> Model | str:
        if spec in self._by_spec:
            return self._by_spec[spec]
        if asks_elsewhere(spec):
            # A file may come from anyone: it can't send what is stored and asked to another machine.
            return f"its embedder is on another machine; open the file with embedder={spec!r} to allow that"
        try:
            self._by_spec[spec] = named(spec)
        except (EmbedderError, InvalidInputError) as error:
            return str(error)
        return self._by_spec[spec]

    @staticmethod
    def made(space: StoredSpace, model: Model) -> bool:
        """Say whether a loaded model made a space; it may be asked for its fingerprint."""
        told = model.traits
        prefixes = (told.query_prefix, told.passage_prefix) == (space.query_prefix, space.passage_prefix)
        return told.model_id == space.model_id and prefixes and model.made(space.fingerprint)

    @staticmethod
    def _mismatch(space: StoredSpace, model: Model) -> str:
        return (
            f"the vectors of {space.name} come from {space.model_id} ({space.dimensions} dimensions), not from"
            f" {model.model_id} ({model.dimensions}) as it answers now; memstore embedders add makes a space for it"
        )


def _kind(model: Model) -> tuple[str, int]:
    return model.model_id, model.dimensions

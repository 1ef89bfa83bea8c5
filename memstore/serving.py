"""Which model serves which embedding space of a file, and why one has none."""

from collections.abc import Iterator, Sequence

from memstore.database import Database
from memstore.embedding import Given, Model, asks_elsewhere, named, resolve, usual
from memstore.errors import EmbedderError, InvalidInputError
from memstore.semantic import StoredSpace


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
        self._by_spec: dict[str, Model | str] = {}
        self._served: dict[int, Model] = {}
        self._failures: dict[int, str] = {}

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

    def model(self, space: StoredSpace, wait: float | None) -> Model:
        """Return the model that made a space, loaded; raise `EmbedderError` when there is none, or not in time."""
        served = self._served.get(space.id)
        if served is not None:
            return served
        if self.unavailable():
            raise EmbedderError(self.unavailable())
        reason = ""
        for model in self._candidates(space):
            if isinstance(model, str):
                reason = reason or model
                continue
            try:
                found = model.opened(wait)
                if str(found.model_id) == space.model_id and model.made(space.fingerprint):
                    self._served[space.id] = model
                    return model
                same = str(found.model_id) == space.model_id
                reason = self._mismatch(space, model) if same else reason or self._mismatch(space, model)
            except EmbedderError as error:
                reason = reason or str(error)
        raise EmbedderError(reason or "its vectors come from an embedder of the caller's own; open it with embedder=…")

    def known_as(self, model: Model) -> Model:
        """Return the model of the same spec that the store has already, else this one, which it keeps from now on."""
        if model.spec is None:
            same = [one for one in self.own if one.spec is None and one.opened() is model.opened()]
            self.own = self.own if same else (*self.own, model)
            return same[0] if same else model
        for one in (*self.own, self._usual, self._by_spec.get(model.spec)):
            if isinstance(one, Model) and one.spec == model.spec:
                return one
        self._by_spec[model.spec] = model
        return model

    def serve(self, space: StoredSpace, model: Model) -> None:
        """Note that a model has just made a space."""
        self._served[space.id] = model

    def working(self, space: StoredSpace) -> Model | None:
        """Return the model of a space if it is loaded and did not fail when it was last used."""
        return None if space.id in self._failures else self._served.get(space.id)

    def homeless(self, spaces: Sequence[StoredSpace]) -> list[Model]:
        """Return the caller's models that are loaded and have no space in the file."""
        return [model for model in self.own if model.loaded and not any(self._same(model, one) for one in spaces)]

    def strangers(self, spaces: Sequence[StoredSpace]) -> list[str]:
        """Say of each model that the caller gave as an object that no space is of its kind; nothing is asked of it."""
        return [
            self._mismatch(spaces[-1], model)
            for model in self.own
            if spaces and model.loaded and all((one.model_id, one.dimensions) != _kind(model) for one in spaces)
        ]

    def waited_for(self) -> str:
        """Name the model that a file without a space waits for, nothing when it waits for none."""
        try:
            return self.first().name
        except EmbedderError:
            return self._asked_for

    def failed(self, space: StoredSpace, failure: str) -> None:
        """Note what went wrong when a space's model was last used; nothing is that all went well."""
        if failure:
            self._failures[space.id] = failure
        else:
            self._failures.pop(space.id, None)

    def problem(self, space: StoredSpace) -> str | None:
        """Say what is known to be wrong with the model of a space, without loading it."""
        if self.unavailable():
            return self.unavailable()
        if space.id in self._failures:
            return self._failures[space.id]
        if space.id in self._served:
            return None
        reason: str | None = "its vectors come from an embedder of the caller's own; open it with embedder=…"
        for model in self._candidates(space):
            if isinstance(model, str):
                reason = model
            elif not model.fingerprinted or self._same(model, space):
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
            failure = self.first_failure
            return f"{name}, which failed when it was last used: {failure}" if failure else name
        problems = {space.name: self.problem(space) for space in spaces}
        working = [space.name for space in spaces if problems[space.name] is None]
        broken = [f"{name}, which takes no part: {problem}" for name, problem in problems.items() if problem]
        return "; ".join([", ".join(working), *broken] if working else broken)

    def _candidates(self, space: StoredSpace) -> Iterator[Model | str]:
        """Yield the models that may have made a space, the likeliest first, or why the one that it names can't be."""
        yield from (model for model in self.own if model.spec is not None and model.spec == space.spec)
        # An object says who it is at once; a model that has to be loaded for that comes last.
        yield from (model for model in self.own if model.spec is None)
        if space.spec is not None and all(model.spec != space.spec for model in self.own):
            yield self._named(space.spec)
        yield from (model for model in self.own if model.spec not in (None, space.spec))

    def _named(self, spec: str) -> Model | str:
        if spec not in self._by_spec:
            try:
                # A file may come from anyone: it can't send what is stored and asked to another machine.
                self._by_spec[spec] = (
                    f"its embedder is on another machine; open the file with embedder={spec!r} to allow that"
                    if asks_elsewhere(spec)
                    else named(spec)
                )
            except (EmbedderError, InvalidInputError) as error:
                self._by_spec[spec] = str(error)
        return self._by_spec[spec]

    def _same(self, model: Model, space: StoredSpace) -> bool:
        try:
            return model.model_id == space.model_id and model.made(space.fingerprint)
        except EmbedderError:
            return False

    @staticmethod
    def _mismatch(space: StoredSpace, model: Model) -> str:
        return (
            f"the vectors of {space.name} come from {space.model_id} ({space.dimensions} dimensions), not from"
            f" {model.model_id} ({model.dimensions}) as it answers now; memstore embedders add makes a space for"
            " it"
        )


def _kind(model: Model) -> tuple[str, int]:
    return model.model_id, model.dimensions

"""A query in the embedding spaces of a file: which are asked, and the vectors that their models give in time."""

import threading
import time
from collections.abc import Mapping, Sequence

from memstore import checks
from memstore.embedding import Vector
from memstore.errors import EmbedderError
from memstore.records import Weights
from memstore.semantic import StoredSpace
from memstore.serving import NO_SPACE, Serving

NOT_ASKED = "not asked for"
NO_WEIGHT = "its weight is 0"


class Asker:
    """Has queries embedded, all spaces at once; a model that hangs is waited for once."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._overdue: dict[int, _Embedding] = {}

    def ask(
        self,
        query: str,
        stored: Sequence[StoredSpace],
        named: Sequence[str] | None,
        weights: Weights,
        languages: Sequence[str],
        had_any: bool,
    ) -> "Asked":
        """Begin to embed a query for the spaces that are wanted: those named, or the default ones that are ready.

        A space for other languages than the query's is left out, unless it is named or there is no other. `had_any`
        says whether the file ever had a space.
        """
        whole = named is None or "semantic" in named
        called_for = {*(named or ()), *weights.spaces}
        spaces: dict[str, StoredSpace] = {}
        skipped: dict[str, str] = {}
        for space in stored:
            if space.name not in (named or ()) and not (whole and space.searched):
                skipped[space.name] = NOT_ASKED
            elif weights.spaces.get(space.name, weights.semantic) == 0:
                skipped[space.name] = NO_WEIGHT
            elif space.damage:
                skipped[space.name] = space.damage
            elif space.state != "ready":
                skipped[space.name] = (
                    f"the vectors of {space.name} are not all made; memstore embedders fill makes them"
                )
            else:
                spaces[space.name] = space
        foreign = [name for name, space in spaces.items() if _foreign(space, languages) and name not in called_for]
        if len(foreign) < len(spaces):
            for name in foreign:
                skipped[name] = f"it is for {spaces.pop(name).languages}, and the query is in {' or '.join(languages)}"
        if not whole and not spaces and not set(named or ()) & {space.name for space in stored}:
            return Asked({}, {}, {"semantic": NOT_ASKED})
        if not spaces and whole:
            why = "; ".join(dict.fromkeys(reason for reason in skipped.values() if reason != NOT_ASKED))
            return Asked({}, {}, {"semantic": self._serving.unavailable() or why or self._why_none(weights, had_any)})
        if len(spaces) == 1 and not set(spaces) & set(named or ()):
            spaces = {"semantic": next(iter(spaces.values()))}
        return Asked(spaces, {name: self._begun(space, query) for name, space in spaces.items()}, skipped)

    def answers(self, asked: "Asked") -> dict[str, Vector]:
        """Return the query's vectors by signal; note in `asked.skipped` why others are missing.

        All models together are waited for as long as one may take.
        """
        deadline = time.monotonic() + self._serving.wait
        vectors: dict[str, Vector] = {}
        for name, embedding in asked.embeddings.items():
            answer = embedding if isinstance(embedding, str) else embedding.result(deadline)
            if answer is None and isinstance(embedding, _Embedding):
                space = asked.spaces[name]
                answer = f"the embedder of {space.name} gave no answer within {self._serving.wait:g} seconds"
                self._serving.failed(space, answer, late=True)
                self._overdue[space.id] = embedding
            if isinstance(answer, str):
                asked.skipped[name] = answer
            elif answer is not None:
                vectors[name] = answer
        return vectors

    def _begun(self, space: StoredSpace, query: str) -> "_Embedding | str":
        if self._serving.unavailable():
            return self._serving.unavailable()
        overdue = self._overdue.get(space.id)
        if overdue is not None and overdue.running:
            return f"the embedder of {space.name} is still busy with an earlier query"
        self._overdue.pop(space.id, None)
        return _Embedding(self._serving, space, query)

    def _why_none(self, weights: Weights, had_any: bool) -> str:
        if weights.semantic == 0:
            return NO_WEIGHT
        if had_any:
            return NO_SPACE
        try:
            self._serving.first()
        except EmbedderError as error:
            return str(error)
        failure = self._serving.first_failure
        return failure or "no memory has a vector yet; memstore embedders fill makes those that wait"


class Asked:
    """The spaces that a query is asked in, by the name of their signal, and why others are not.

    A space that is asked alone is the signal `semantic`; each of several, and one that is named, goes by its own name.
    """

    def __init__(
        self, spaces: Mapping[str, StoredSpace], embeddings: "Mapping[str, _Embedding | str]", skipped: dict[str, str]
    ) -> None:
        self.spaces = spaces
        self.embeddings = embeddings
        self.skipped = skipped


class _Embedding:
    """The query's vector in one space, found beside the other signals; what goes wrong is kept as a sentence."""

    def __init__(self, serving: Serving, space: StoredSpace, query: str) -> None:
        self._result: Vector | str = "the embedder ended without an answer"
        # A thread of its own for each search, since a pool does not outlive a fork.
        self._thread = threading.Thread(target=self._embed, args=(serving, space, query), daemon=True)
        self._thread.start()

    def _embed(self, serving: Serving, space: StoredSpace, query: str) -> None:
        try:
            vector = serving.model(space, serving.wait).query(query)
        except EmbedderError as error:
            self._result = str(error)
        except Exception as error:
            # Whatever a model of the caller's own does, it costs this signal and not the answer.
            self._result = f"the embedder failed ({type(error).__name__}: {error})"
        else:
            self._result = "the embedder gave no usable vector for this query" if vector is None else vector
            serving.failed(space, "")
            return
        serving.failed(space, self._result)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def result(self, deadline: float) -> Vector | str | None:
        """Return the vector, or why there is none; None when there is no answer yet at the deadline."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return None if self.running else self._result


def _foreign(space: StoredSpace, languages: Sequence[str]) -> bool:
    return bool(space.languages and languages) and not set(space.languages.split()) & set(languages)


def refuse_unknown(
    named: Sequence[str] | None, weights: Weights, signals: Sequence[str], stored: Sequence[StoredSpace]
) -> None:
    """Refuse names that are neither a signal nor a space of the file."""
    spaces = [space.name for space in stored]
    for name in named or ():
        checks.one_of("signal", name, (*signals, *spaces))
    for name in weights.spaces:
        checks.one_of("weight", name, (*signals, "boost", "thread", *spaces))

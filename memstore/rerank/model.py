"""A reranker that is opened when first used, and whose every answer is checked before it is believed."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memstore import checks, forking
from memstore.errors import InvalidInputError, RerankerError, first_line
from memstore.loading import Guard, Loading


class Reranker(Protocol):
    """What any second stage must offer.

    `score` returns one raw score a text, a logit of how well the text answers the query: higher is better, without
    bounds. It is called from several threads, but from one at a time, unless the model has `thread_safe` and that is
    true.

    It may also have `weight` (what its share counts for beside the score of the first stage, in [0, 1], where the
    caller says nothing; 1 when it has none), `languages` (two-letter codes, when it is for these alone: it is not asked
    what is in another), `needs_known_words` (true when it can say little of a query whose words the store does not
    know, as of one in another language: its weight falls with them), and, instead of `score`,
    `score_in_context(query, texts, before, importance)`: `before` is what stands before each text in its thread,
    `importance` the rarity of the query's words by their spelling in lower case.
    """

    @property
    def model_id(self) -> str: ...
    def score(self, query: str, texts: Sequence[str]) -> Sequence[float] | NDArray[Any]: ...


class Second:
    """A second stage: a reranker that is loaded at its first use.

    `spec` opens it again (None: it is the caller's own), `label` names it before it is open. Once it is loaded,
    `weight` is what its share counts for, in [0, 1], and `languages` are those that it is for alone, none when for all.
    """

    def __init__(self, spec: str | None, open_model: Callable[[], Reranker], *, label: str | None = None) -> None:
        self.spec = spec
        self.label = spec or label or "of the caller's"
        self._open_model = open_model
        self._loading = Loading(RerankerError, self.label, self._load)
        self._model_id = ""
        self.needs_known_words = False
        self._thread_safe = False
        self.weight = 1.0
        self.languages: tuple[str, ...] = ()
        self._turn = Guard()

    @property
    def loaded(self) -> bool:
        return self._loading.loaded

    @property
    def name(self) -> str:
        """The model's own name once it is loaded, what it was asked for by before."""
        return self._model_id or self.label

    def opened(self, wait: float | None = None) -> Reranker:
        """Return the model, loaded; wait for that up to `wait` seconds, without bound when None.

        Loading goes on beside the caller when the wait is over, and is not waited for a second time. Raises
        `RerankerError` when the model can't be loaded, or not in time; what failed is tried again after 30 seconds.
        """
        return self._loading.opened(wait)

    def scores(
        self,
        query: str,
        texts: Sequence[str],
        wait: float | None = None,
        *,
        before: Sequence[str] | None = None,
        importance: Mapping[str, float] | None = None,
    ) -> NDArray[np.float64]:
        """Return the raw score of each text for the query, float64 of shape (len(texts),), higher is better.

        `before` and `importance` are for a model that asks for them (see `Reranker`).
        They are the model's own, finite, and bounded by nothing. `wait` bounds, in seconds, how long the model is
        waited for, until it is loaded and free; its answer itself is not bounded in time. Raises `RerankerError` when
        it is not to be had, fails, or does not answer with one finite number a text.
        """
        begun = time.monotonic()
        model = self.opened(wait)
        if not texts:
            return np.empty(0)
        left = None if wait is None else max(0.0, wait - (time.monotonic() - begun))
        with nullcontext() if self._thread_safe else self._held(left), forking.using_a_model():
            try:
                # A copy: a model may fill one array of its own again and again.
                answer = np.array(_asked(model, query, texts, before, importance), dtype=np.float64)
            except RerankerError:
                raise
            except Exception as error:
                raise RerankerError(f"the reranker {self.name} failed ({first_line(error)})") from error
        if answer.shape != (len(texts),):
            raise RerankerError(
                f"the reranker {self.name} answered in the shape {answer.shape}, expected was one number for each of"
                f" {len(texts)} texts"
            )
        odd = np.flatnonzero(~np.isfinite(answer))
        if odd.size:
            raise RerankerError(
                f"the reranker {self.name} gave {answer[odd[0]]} for text {odd[0] + 1} of {len(texts)}, expected were"
                " finite numbers"
            )
        return answer

    @contextmanager
    def _held(self, wait: float | None) -> Iterator[None]:
        lock = self._turn.lock
        if not lock.acquire(timeout=-1 if wait is None else wait):
            raise RerankerError(f"the reranker {self.name} is busy with other searches; ask again, or wait for longer")
        try:
            yield
        finally:
            lock.release()

    def _load(self) -> Reranker:
        found = self._open_model()
        try:
            self._model_id = checks.required_name("model_id", found.model_id)
            self.needs_known_words = getattr(found, "needs_known_words", False) is True
            self._thread_safe = getattr(found, "thread_safe", False) is True
            self.weight = checks.share("weight", getattr(found, "weight", 1.0))
            self.languages = checks.codes(getattr(found, "languages", ()))
        except InvalidInputError as error:
            raise RerankerError(f"the reranker {self.label} can't be used: {str(error).rstrip('.')}") from error
        return found


def _asked(
    model: Any, query: str, texts: Sequence[str], before: Sequence[str] | None, importance: Mapping[str, float] | None
) -> Any:
    if not hasattr(model, "score_in_context"):
        return model.score(query, texts)
    return model.score_in_context(query, texts, before or [""] * len(texts), importance or {})

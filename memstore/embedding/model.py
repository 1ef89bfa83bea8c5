"""A model that is opened when first used, and whose every answer is checked before it is believed."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memstore.errors import EmbedderError

Vector: TypeAlias = NDArray[np.float32]
# Every space keeps this sentence's vector; a model that answers it differently is another model.
FINGERPRINT_TEXT = "A memória guarda o erro ERR-4018; la memoria guarda el error; the memory keeps the error."
# Vectors of one model on two machines differ in the last digits; another pooling or model falls far below.
_SAME_MODEL_COSINE = 0.99
# A vector whose length can't be squared in 32 bits has no cosine there.
_SHORTEST = 1e-15
_BATCH_TEXTS = 32
# With the padding. 40,000 characters are about 10,000 tokens, whose activations take some 300 MB in a model of the
# size of E5-large, and a tenth of that in a small one (examples/embedder_cost.py measures peaks).
_BATCH_CHARACTERS = 40_000
# A model that fails for this many texts in a row is not asked for the rest of them.
_MOST_FAILURES = 2
# A model that could not be loaded is not tried again at every call.
_RETRY_SECONDS = 30.0
_QUERIES_KEPT = 512


class Embedder(Protocol):
    """What any embedding model must offer.

    `embed_passages` returns float32 of shape (n, dimensions), `embed_query` float32 of shape (dimensions,). Both are
    called from several threads, at the same time when several search: a model that can't bear that takes a lock of
    its own.

    It may also have `query_prefix`, `passage_prefix` and `pooling` (texts, kept in the file for the record: the model
    puts its own prefixes before what it is given), `languages` (two-letter codes, when it is for these alone: it is
    not asked what is in another), `window` (the most tokens that it reads of one text, prefixes
    included) and `count_tokens(texts)` (the tokens of each passage, as many as it would read of it without that
    bound). With these two a passage that the model would cut is given to it in pieces.
    """

    @property
    def model_id(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]: ...
    def embed_query(self, text: str) -> NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """What a model made of some texts.

    `vectors` is by the text's number; None is a text that the model gives no usable vector for (zeros, or what is not
    finite). A text that is missing could not be embedded, and `failure` says why.
    """

    vectors: Mapping[int, Vector | None]
    failure: str = ""


class Model:
    """An embedding model.

    `spec` opens it again (None: an object of the caller's), `label` names it before it is open.
    """

    def __init__(self, spec: str | None, open_model: Callable[[], Embedder], *, label: str | None = None) -> None:
        self.spec = spec
        self._label = spec or label or "of the caller's"
        self._open_model = open_model
        self._opened: Embedder | None = None
        self._fingerprint: Vector | None = None
        self._queries: OrderedDict[str, Vector | None] = OrderedDict()
        self._failure = ""
        self._failed_at = 0.0
        self._forget_threads()

    def _forget_threads(self) -> None:
        # Threads do not outlive a fork, and one that held the lock then is not here to give it back.
        self._lock = threading.Lock()
        self._loader: threading.Thread | None = None
        self._waited = False
        self._pid = os.getpid()

    def _guard(self) -> threading.Lock:
        if os.getpid() != self._pid:
            self._forget_threads()
        return self._lock

    def opened(self, wait: float | None = None) -> Embedder:
        """Return the model, loaded; wait for that up to `wait` seconds, without bound when None.

        Loading goes on beside the caller when the wait is over, and is not waited for a second time. Raises
        `EmbedderError` when the model can't be loaded, or not in time.
        """
        if self._opened is not None:
            return self._opened
        with self._guard():
            if self._loader is None:
                if self._failure and time.monotonic() - self._failed_at < _RETRY_SECONDS:
                    raise EmbedderError(self._failure)
                self._loader, self._waited = threading.Thread(target=self._load, daemon=True), False
                self._loader.start()
            loader = self._loader
        loader.join(0.0 if wait is not None and self._waited else wait)
        if self._opened is not None:
            return self._opened
        if loader.is_alive():
            self._waited = True
            raise EmbedderError(f"the embedder {self._label} was not loaded within {wait:g} seconds and loads on")
        raise EmbedderError(self._failure)

    def _load(self) -> None:
        try:
            self._opened = self._open_model()
        except EmbedderError as error:
            self._failure = str(error)
        except Exception as error:
            self._failure = f"the embedder {self._label} can't be loaded ({first_line(error)})"
        finally:
            self._failed_at = time.monotonic()
            with self._lock:
                self._loader = None

    @property
    def loaded(self) -> bool:
        return self._opened is not None

    @property
    def fingerprinted(self) -> bool:
        """Say whether the model has told its fingerprint, so that asking for it costs nothing."""
        return self._fingerprint is not None

    @property
    def name(self) -> str:
        """The model's own name once it is loaded, what it was asked for by before."""
        return self._label if self._opened is None else self.model_id

    @property
    def model_id(self) -> str:
        return str(self.opened().model_id)

    @property
    def dimensions(self) -> int:
        return int(self.opened().dimensions)

    def trait(self, name: str) -> str:
        """Return what the model says of itself for the record: `query_prefix`, `passage_prefix` or `pooling`."""
        return str(getattr(self.opened(), name, "") or "")

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that the model is for, as two-letter codes; none when it does not say, or is for many."""
        return tuple(getattr(self.opened(), "languages", None) or ())

    def fingerprint(self) -> Vector:
        """Return the vector of the fixed sentence, float32 of shape (dimensions,)."""
        if self._fingerprint is None:
            found = self.passages([FINGERPRINT_TEXT])
            if 0 not in found.vectors:
                raise EmbedderError(found.failure)
            vector = found.vectors[0]
            if vector is None:
                raise EmbedderError(f"the embedder {self.model_id} gave no usable vector for a plain sentence")
            self._fingerprint = vector
        return self._fingerprint

    def made(self, stored: bytes) -> bool:
        """Say whether this model gave the stored fingerprint (same width, cosine of at least 0.99)."""
        own, other = self.fingerprint(), np.frombuffer(stored, dtype=np.float32)
        if own.shape != other.shape:
            return False
        return float(own @ other) >= _SAME_MODEL_COSINE * float(np.linalg.norm(own) * np.linalg.norm(other))

    def passages(self, texts: Sequence[str]) -> Embedded:
        """Embed passages, in batches bounded in number and in characters, texts of like length together.

        A batch that fails is asked for one text at a time, so that one bad text costs itself alone; a model that
        fails for all of them is not asked on.
        """
        vectors: dict[int, Vector | None] = {}
        failure, failed = "", 0
        waiting = _batches(texts)
        while waiting and failed < _MOST_FAILURES:
            batch = waiting.pop(0)
            try:
                vectors.update(zip(batch, self._asked(batch, texts), strict=True))
                failed = 0
            except EmbedderError as error:
                failure = str(error)
                failed += len(batch) == 1
                waiting[:0] = [[one] for one in batch] if len(batch) > 1 else []
        return Embedded(vectors=vectors, failure=failure)

    def query(self, text: str) -> Vector | None:
        """Return the vector of a query, float32 of shape (dimensions,), None without a usable one.

        Those of late are remembered. Raises `EmbedderError` where the model fails.
        """
        with self._guard():
            known = text in self._queries
            vector = self._queries.get(text)
            if known:
                self._queries.move_to_end(text)
        if not known:
            model = self.opened()
            vector = _usable(self._answered(model, lambda: model.embed_query(text), (int(model.dimensions),)))
            with self._guard():
                self._queries[text] = vector
                if len(self._queries) > _QUERIES_KEPT:
                    self._queries.popitem(last=False)
        return vector

    def too_long(self, texts: Sequence[str]) -> list[int]:
        """Return the numbers of the texts that the model would cut, by its own count of their tokens."""
        model = self.opened()
        window, count = getattr(model, "window", None), getattr(model, "count_tokens", None)
        if window is None or count is None:
            return []
        # No tokenizer makes more tokens of a text than it has bytes, but for the few that mark its ends.
        spare = window - len(self.trait("passage_prefix")) - 4
        doubtful = [number for number, text in enumerate(texts) if len(text.encode(errors="replace")) > spare]
        counted = self._answered(model, lambda: count([texts[one] for one in doubtful]), (len(doubtful),))
        return [one for one, tokens in zip(doubtful, counted.tolist(), strict=True) if tokens > window]

    def _asked(self, batch: Sequence[int], texts: Sequence[str]) -> list[Vector | None]:
        model = self.opened()
        shape = (len(batch), int(model.dimensions))
        rows = self._answered(model, lambda: model.embed_passages([texts[one] for one in batch]), shape)
        return [_usable(row) for row in rows]

    def _answered(self, model: Embedder, ask: Callable[[], Any], shape: tuple[int, ...]) -> Vector:
        try:
            answer = np.asarray(ask(), dtype=np.float32)
        except EmbedderError:
            raise
        except Exception as error:
            raise EmbedderError(f"the embedder {model.model_id} failed ({first_line(error)})") from error
        if answer.shape != shape:
            raise EmbedderError(
                f"the embedder {model.model_id} answered in the shape {answer.shape}, expected was {shape}"
            )
        return answer


def first_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of what it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _batches(texts: Sequence[str]) -> list[list[int]]:
    batches: list[list[int]] = []
    for number in sorted(range(len(texts)), key=lambda one: len(texts[one])):
        last = batches[-1] if batches else None
        if last is None or len(last) == _BATCH_TEXTS or (len(last) + 1) * len(texts[number]) > _BATCH_CHARACTERS:
            batches.append([])
        batches[-1].append(number)
    return batches


def _usable(vector: Vector) -> Vector | None:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector if _SHORTEST < length < 1 / _SHORTEST else None

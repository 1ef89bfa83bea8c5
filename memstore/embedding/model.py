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

from memstore import checks, forking
from memstore.embedding.references import REFERENCES
from memstore.errors import EmbedderError, InvalidInputError, first_line
from memstore.loading import Guard, Loading

Vector: TypeAlias = NDArray[np.float32]
# Every space keeps this sentence's vector; a model that answers it differently is another model.
FINGERPRINT_TEXT = "A memória guarda o erro ERR-4018; la memoria guarda el error; the memory keeps the error."
# Vectors of one model on two machines differ in the last digits; another pooling or model falls far below.
_SAME_MODEL_COSINE = 0.99
# A server can be given another model while it is asked: who it is holds for this long.
_FINGERPRINT_SECONDS = 60.0
# A vector whose length can't be squared in 32 bits has no cosine there.
_SHORTEST = 1e-15
# sqlite-vec 0.1 makes no wider column (https://github.com/asg017/sqlite-vec).
WIDEST = 8192
BATCH_TEXTS = 32
# With the padding. 40,000 characters are about 10,000 tokens, whose activations take some 300 MB in a model of the
# size of E5-large, and a tenth of that in a small one (examples/embedder_cost.py measures peaks).
_BATCH_CHARACTERS = 40_000
# After this many texts in a row that can't be embedded the model is tried with one that it has embedded before.
_MOST_FAILURES = 2
_REFERENCES: dict[tuple[str, bytes], Vector] = {}
_QUERIES_KEPT = 512
# About the window of a model: a pasted document would be read for minutes.
_LONGEST_QUERY = 2_000
# Each model of this process takes all cores for a query: two at once are slower than one after the other. One that
# hangs holds up the next query for this long, once.
_TURN_SECONDS = 1.0


class Embedder(Protocol):
    """What any embedding model must offer.

    `embed_passages` returns float32 of shape (n, dimensions), `embed_query` float32 of shape (dimensions,). Both are
    called from several threads, at the same time when several search: a model that can't bear that takes a lock of
    its own.

    It may also have `query_prefix`, `passage_prefix` and `pooling` (texts, kept in the file: the model puts its own
    prefixes before what it is given, and with others it is another model), `languages` (two-letter codes, when it is
    for these alone: it is not asked what is in another), `window` (the most tokens that it reads of one text, prefixes
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
class Traits:
    """What a model says of itself, read once and checked."""

    model_id: str
    dimensions: int
    query_prefix: str
    passage_prefix: str
    pooling: str
    languages: tuple[str, ...]
    window: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """What a model made of some texts.

    `vectors` is by the text's number; None is a text that the model gives no usable vector for (zeros, or what is not
    finite). A text that is missing could not be embedded, and `failure` says why; `dead` says that it is the model
    that fails, and not a text.
    """

    vectors: Mapping[int, Vector | None]
    failure: str = ""
    dead: bool = False


class Model:
    """An embedding model.

    `spec` opens it again (None: it is the caller's own, made of what was `given`), `label` names it before it is open.
    `shared` says that it runs on the cores of this process, so that queries to several take turns.
    """

    def __init__(
        self,
        spec: str | None,
        open_model: Callable[[], Embedder],
        *,
        label: str | None = None,
        given: object = None,
        shared: bool = False,
    ) -> None:
        self.spec = spec
        self.given = given
        self._label = spec or label or "of the caller's"
        self._shared = shared
        self._open_model = open_model
        self._loading = Loading(EmbedderError, self._label, self._load)
        self._guard = Guard()
        self._traits: Traits | None = None
        self._fingerprint: Vector | None = None
        self._references: Vector | None = None
        self._fingerprinted_at = 0.0
        self._queries: OrderedDict[str, Vector] = OrderedDict()

    def opened(self, wait: float | None = None) -> Embedder:
        """Return the model, loaded; wait for that up to `wait` seconds, without bound when None.

        Loading goes on beside the caller when the wait is over, and is not waited for a second time. Raises
        `EmbedderError` when the model can't be loaded, or not in time.
        """
        return self._loading.opened(wait)

    def _load(self) -> Embedder:
        found = self._open_model()
        self._traits = _traits(found, self._label)
        return found

    @property
    def traits(self) -> Traits:
        """What the model says of itself; loads it."""
        self.opened()
        assert self._traits is not None
        return self._traits

    @property
    def loaded(self) -> bool:
        return self._loading.loaded

    @property
    def name(self) -> str:
        """The model's own name once it is loaded, what it was asked for by before."""
        return self._label if self._traits is None else self._traits.model_id

    @property
    def model_id(self) -> str:
        return self.traits.model_id

    @property
    def dimensions(self) -> int:
        return self.traits.dimensions

    def forget(self) -> None:
        """Forget all that the model has answered: the next question of who it is goes to the model again."""
        self._fingerprint = None
        self._references = None
        with self._guard.lock:
            self._queries.clear()

    @property
    def known_lately(self) -> bool:
        """Say whether the model has told its fingerprint, and not long ago."""
        return self._fingerprint is not None and time.monotonic() - self._fingerprinted_at < _FINGERPRINT_SECONDS

    def fingerprint(self) -> Vector:
        """Return the vector of the fixed sentence, float32 of shape (dimensions,)."""
        # Another thread may forget it meanwhile.
        known = self._fingerprint
        if known is None:
            known = self._asked([FINGERPRINT_TEXT])[0]
            if known is None:
                raise EmbedderError(f"the embedder {self.model_id} gave no usable vector for a plain sentence")
            self._fingerprint, self._fingerprinted_at = known, time.monotonic()
        return known

    def references(self) -> Vector:
        """Return the vectors of plain sentences, float32 of shape (n, dimensions): what a query is near by chance.

        One that the model gives no usable vector for, or fails for alone, is NaN. Raises `EmbedderError` where it
        fails for all.
        """
        known = self._references
        if known is None:
            # The same model may have been asked by another store of this process.
            name = (self.model_id, self.fingerprint().tobytes())
            known = _REFERENCES.get(name)
            if known is None:
                answer = self.passages(REFERENCES)
                if not answer.vectors:
                    raise EmbedderError(answer.failure)
                known = np.full((len(REFERENCES), self.dimensions), np.nan, dtype=np.float32)
                for number, vector in answer.vectors.items():
                    if vector is not None:
                        known[number] = vector
                _REFERENCES[name] = known
            self._references = known
        return known

    def made(self, stored: bytes) -> bool:
        """Say whether this model gave the stored fingerprint (same width, cosine of at least 0.99)."""
        own = self.fingerprint()
        if len(stored) != own.nbytes:
            return False
        other = np.frombuffer(stored, dtype=np.float32)
        return float(own @ other) >= _SAME_MODEL_COSINE * float(np.linalg.norm(own) * np.linalg.norm(other)) > 0

    def passages(self, texts: Sequence[str], answered: Callable[[], None] | None = None) -> Embedded:
        """Embed passages, in batches bounded in number and in characters, texts of like length together.

        A batch that fails is asked for one text at a time, so that one bad text costs itself alone; a model that also
        fails for a plain sentence is not asked on, nor one that has failed for as many texts in a row as a batch has.
        `answered` is called after each batch.
        """
        vectors: dict[int, Vector | None] = {}
        failure, failed = "", 0
        waiting = _batches(texts)
        while waiting:
            batch = waiting.pop(0)
            try:
                vectors.update(zip(batch, self._asked([texts[one] for one in batch]), strict=True))
                failed = 0
            except EmbedderError as error:
                failure = str(error)
                failed += len(batch) == 1
                waiting[:0] = [[one] for one in batch] if len(batch) > 1 else []
            if answered is not None:
                answered()
            if failed == BATCH_TEXTS:
                break
            if failed == _MOST_FAILURES:
                try:
                    self._asked([FINGERPRINT_TEXT])
                except EmbedderError as error:
                    return Embedded(vectors=vectors, failure=str(error), dead=True)
        return Embedded(vectors=vectors, failure=failure)

    def query(self, text: str) -> Vector | None:
        """Return the vector of a query (of its beginning when it is a document), None without a usable one.

        It is float32 of shape (dimensions,). Those of late are remembered. Raises `EmbedderError` where the model
        fails.
        """
        text = text[:_LONGEST_QUERY]
        with self._guard.lock:
            vector = self._queries.get(text)
            if vector is not None:
                self._queries.move_to_end(text)
                return vector
        with _Turn(self._shared):
            vector = self.ask_query(text)
        if vector is not None:
            with self._guard.lock:
                self._queries[text] = vector
                if len(self._queries) > _QUERIES_KEPT:
                    self._queries.popitem(last=False)
        return vector

    def ask_query(self, text: str) -> Vector | None:
        """Return what the model itself answers to a query now."""
        model = self.opened()
        shape = (self.dimensions,)
        return _usable(self._answered(lambda: model.embed_query(text[:_LONGEST_QUERY]), shape))

    def too_long(self, texts: Sequence[str]) -> list[int]:
        """Return the numbers of the texts that the model would cut, by its own count of their tokens."""
        window, count = self.traits.window, getattr(self.opened(), "count_tokens", None)
        if window is None or count is None:
            return []
        # No tokenizer makes more tokens of a text than it has bytes, but for the few that mark its ends.
        spare = window - len(self.traits.passage_prefix) - 4
        doubtful = [number for number, text in enumerate(texts) if len(text.encode(errors="replace")) > spare]
        if not doubtful:
            return []
        try:
            counted = self._answered(lambda: count([texts[one] for one in doubtful]), (len(doubtful),)).tolist()
        except EmbedderError:
            # A text that can't be counted is given to the model as it is, which is the one to refuse it.
            counted = [self._counted(count, texts[one]) for one in doubtful]
        return [one for one, tokens in zip(doubtful, counted, strict=True) if tokens > window]

    def _counted(self, count: Callable[[Sequence[str]], Any], text: str) -> float:
        try:
            return float(self._answered(lambda: count([text]), (1,))[0])
        except EmbedderError:
            return 0.0

    def _asked(self, texts: Sequence[str]) -> list[Vector | None]:
        model = self.opened()
        rows = self._answered(lambda: model.embed_passages(texts), (len(texts), self.dimensions))
        return [_usable(row) for row in rows]

    def _answered(self, ask: Callable[[], Any], shape: tuple[int, ...]) -> Vector:
        try:
            with np.errstate(over="ignore"), forking.using_a_model():
                # A copy: a model may fill one array of its own again and again.
                answer = np.array(ask(), dtype=np.float32)
        except EmbedderError:
            raise
        except Exception as error:
            raise EmbedderError(f"the embedder {self.model_id} failed ({first_line(error)})") from error
        if answer.shape != shape:
            raise EmbedderError(
                f"the embedder {self.model_id} answered in the shape {answer.shape}, expected was {shape}"
            )
        return answer


class _Turn:
    """The turn of a model that takes all cores; one that does not give it back is passed over."""

    _lock = threading.Lock()

    def __init__(self, wanted: bool) -> None:
        self._held = _Turn._lock if wanted else None

    def __enter__(self) -> None:
        if self._held is not None and not self._held.acquire(timeout=_TURN_SECONDS):
            _Turn._lock, self._held = threading.Lock(), None

    def __exit__(self, *_: object) -> None:
        if self._held is not None:
            self._held.release()


def _renew_turn() -> None:
    _Turn._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_turn)


def _traits(model: Embedder, label: str) -> Traits:
    """Return what a model says of itself; raise `EmbedderError` on what can't be."""
    dimensions = checks.native(model.dimensions)
    if isinstance(dimensions, bool) or not isinstance(dimensions, int) or not 0 < dimensions <= WIDEST:
        raise EmbedderError(
            f"the embedder {label} has {dimensions!r} dimensions; a whole number from 1 to {WIDEST} can be stored"
        )
    window = checks.native(getattr(model, "window", None))
    if window is not None and (isinstance(window, bool) or not isinstance(window, int) or window < 1):
        raise EmbedderError(f"the window of the embedder {label} is {window!r}; give a whole number of tokens")
    try:
        model_id = checks.required_name("model_id", model.model_id)
        languages = checks.codes(getattr(model, "languages", None) or ())
    except InvalidInputError as error:
        raise EmbedderError(f"the embedder {label} can't be used: {str(error).rstrip('.')}") from error
    texts = {name: str(getattr(model, name, "") or "") for name in ("query_prefix", "passage_prefix", "pooling")}
    return Traits(model_id=model_id, dimensions=dimensions, languages=languages, window=window, **texts)


def _batches(texts: Sequence[str]) -> list[list[int]]:
    batches: list[list[int]] = []
    for number in sorted(range(len(texts)), key=lambda one: len(texts[one])):
        last = batches[-1] if batches else None
        if last is None or len(last) == BATCH_TEXTS or (len(last) + 1) * len(texts[number]) > _BATCH_CHARACTERS:
            batches.append([])
        batches[-1].append(number)
    return batches


def _usable(vector: Vector) -> Vector | None:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector if _SHORTEST < length < 1 / _SHORTEST else None

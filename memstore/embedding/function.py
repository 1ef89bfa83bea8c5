"""A plain function as an embedder."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from memstore.embedding.model import FINGERPRINT_TEXT, Embedder, Vector
from memstore.errors import InvalidInputError

# From texts to their vectors, one row each: an array or nested lists, of shape (n, dimensions).
Embed: TypeAlias = Callable[[Sequence[str]], Any]


def from_function(
    embed: Embed,
    *,
    model_id: str | None = None,
    query_prefix: str = "",
    passage_prefix: str = "",
    pooling: str = "",
    window: int | None = None,
    count_tokens: Callable[[Sequence[str]], Sequence[int]] | None = None,
) -> Embedder:
    """Return an embedder that asks `embed` for the vectors of texts, float32 of shape (n, dimensions).

    The prefixes are put before what is given to it. `model_id` is the function's own name when left out, and has to
    be given for one without a name of its own. `window` and `count_tokens` are those of `Embedder`. The dimensions
    are those of the first answer. Raises `InvalidInputError` on what is no function or has no name.
    """
    if not callable(embed):
        raise InvalidInputError(f"embedder is {type(embed).__name__}, not a function of a list of texts.")
    name = getattr(embed, "__qualname__", None)
    if model_id is None and (name is None or "<" in name):
        raise InvalidInputError(
            "the function of the embedder has no name of its own; give it one:"
            " from_function(function, model_id='my-model')."
        )
    return FunctionEmbedder(
        embed,
        model_id or f"function/{getattr(embed, '__module__', '')}.{name}",
        (query_prefix, passage_prefix),
        pooling,
        window,
        count_tokens,
    )


class FunctionEmbedder:
    """What `from_function` returns; its dimensions are known once it has answered."""

    def __init__(
        self,
        embed: Embed,
        model_id: str,
        prefixes: tuple[str, str],
        pooling: str,
        window: int | None,
        count_tokens: Callable[[Sequence[str]], Sequence[int]] | None,
    ) -> None:
        self._embed = embed
        self.model_id = model_id
        self.query_prefix, self.passage_prefix = prefixes
        self.pooling = pooling
        self.window = window
        self.count_tokens = None if count_tokens is None else self._counting(count_tokens)
        self._dimensions: int | None = None

    def _counting(self, count: Callable[[Sequence[str]], Sequence[int]]) -> Callable[[Sequence[str]], Sequence[int]]:
        return lambda texts: count([self.passage_prefix + text for text in texts])

    @property
    def dimensions(self) -> int:
        if self._dimensions is None:
            self._dimensions = int(self.embed_passages([FINGERPRINT_TEXT]).shape[-1])
        return self._dimensions

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        return np.asarray(self._embed([self.passage_prefix + text for text in texts]), dtype=np.float32)

    def embed_query(self, text: str) -> Vector:
        found: Vector = np.asarray(self._embed([self.query_prefix + text]), dtype=np.float32)
        return found.reshape(-1) if len(found) == 1 else found

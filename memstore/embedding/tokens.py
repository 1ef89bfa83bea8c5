"""The vectors of a text's tokens, before a sentence model pools them into one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memstore.embedding import engine
from memstore.embedding.model import Vector
from memstore.errors import EmbedderError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokens:
    """The tokens of a text, without the marks at its ends: the vector of each, and the word that it is of as spelt.

    `vectors` is float32 of shape (tokens, dimensions).
    """

    vectors: Vector
    words: tuple[str, ...]


def read(model: Any, texts: Sequence[str], before: Sequence[str], *, prefix: str, at_once: int) -> list[Tokens]:
    """Return the tokens of each text, read by a model of fastembed with what stands `before` it.

    What stands before changes the vectors, and has none in the answer; nor has the model's own `prefix`. Where all are
    more than the model reads, the text is read without what stands before. Raises `EmbedderError` where the model gives
    no vector for each token.
    """
    if not hasattr(model, "onnx_embed"):
        raise EmbedderError("the model is a table of vectors, which no text around a token changes")
    given = [engine.clean(text) for text in texts]
    ahead = [prefix + engine.clean(text) for text in before]
    whole = model.tokenize([first + text for first, text in zip(ahead, given, strict=True)])
    ahead = [prefix if read.overflowing else first for first, read in zip(ahead, whole, strict=True)]
    order = sorted(range(len(given)), key=lambda one: len(ahead[one]) + len(given[one]))
    found: dict[int, Tokens] = {}
    for start in range(0, len(order), at_once):
        batch = order[start : start + at_once]
        joined = [ahead[one] + given[one] for one in batch]
        output = model.onnx_embed(joined).model_output
        if output.ndim != 3:
            raise EmbedderError("the model gives one vector a text, and none for its tokens")
        for one, text, encoded, vectors in zip(batch, joined, model.tokenize(joined), output, strict=True):
            found[one] = _tokens(text, len(ahead[one]), encoded, vectors)
    return [found[one] for one in range(len(given))]


def _tokens(text: str, start: int, encoded: Any, vectors: Any) -> Tokens:
    spans: dict[int, tuple[int, int]] = {}
    own = []
    for at, (begin, end) in enumerate(encoded.offsets):
        word = encoded.word_ids[at]
        mark = word is None or encoded.special_tokens_mask[at] or not encoded.attention_mask[at]
        if mark or end <= max(start, begin):
            continue
        own.append(at)
        first = spans.get(word, (max(start, begin), end))
        spans[word] = first[0], end
    words = tuple(text[slice(*spans[encoded.word_ids[at]])] for at in own)
    return Tokens(vectors=np.asarray(vectors[own], dtype=np.float32), words=words)

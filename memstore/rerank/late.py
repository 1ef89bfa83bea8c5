"""Late interaction: each content word of a query is compared with every token of a text.

A sentence model that is there for its vectors has one for each token before it pools them. MaxSim (Khattab and Zaharia,
ColBERT, 2020, https://arxiv.org/abs/2004.12832) takes for each token of the query the best cosine in the text. Here the
mean of those is weighted by the rarity of the query's words, and each counts within bounds alone: below the lower one
a token is near by chance; above the upper one the same word stands there, which keywords have counted already, and
should be no better than one that says it otherwise.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memstore.analysis import exact
from memstore.embedding import REFERENCES, Tokens, Vector
from memstore.errors import RerankerError

# The cosines between which a token says something; examples/rerank.py measures them, and the weight.
LEAST, MOST = 0.2, 0.65
WEIGHT = 0.3
# A share of exactly 0 or 1 has no logit.
_EDGE = 1e-6
# What a tokenizer that parts at white space alone leaves at the ends of a word.
_MARKS = ".,;:!?¿¡()[]{}\"'«»“”‘’…"
# Bytes of token vectors that are kept: about 80,000 tokens of 384 dimensions.
KEPT = 64_000_000


class TokenReader(Protocol):
    """A sentence model that tells the vectors of tokens."""

    @property
    def model_id(self) -> str: ...
    def token_vectors(self, texts: Sequence[str], before: Sequence[str]) -> list[Tokens]: ...
    def query_token_vectors(self, text: str) -> Tokens: ...


class LateInteraction:
    """A second stage over the token vectors of a sentence model; those of late are remembered."""

    weight = WEIGHT
    # Most sentence models read one language: an English one harms Spanish questions about English texts.
    needs_known_words = True

    def __init__(self, reader: TokenReader) -> None:
        self.model_id = f"late-interaction/{reader.model_id}"
        self.languages: tuple[str, ...] = tuple(getattr(reader, "languages", ()))
        self._reader = reader
        self._read: OrderedDict[tuple[str, str], NDArray[np.float16]] = OrderedDict()
        self._bytes = 0
        known = np.concatenate([one.vectors for one in reader.token_vectors(REFERENCES, [""] * len(REFERENCES))])
        # All tokens of a model point the same way to a part, whatever they mean.
        self._mean: Vector = np.asarray(_units(known).mean(axis=0), dtype=np.float32)

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the score of each text, as `score_in_context` does where nothing is known of the words."""
        return self.score_in_context(query, texts, [""] * len(texts), {})

    def score_in_context(
        self, query: str, texts: Sequence[str], before: Sequence[str], importance: Mapping[str, float]
    ) -> NDArray[np.float64]:
        """Return the logit of each text's share in [0, 1], float64 of shape (len(texts),), higher is better.

        `before` is what stands before a text and is read with it; `importance` is what each content word of the query
        counts for, by its spelling in lower case: the others count for nothing, but where none is known all alike.
        """
        return logits(share(*self.compared(query, texts, before, importance)))

    def compared(
        self, query: str, texts: Sequence[str], before: Sequence[str], importance: Mapping[str, float]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the best cosine in each text of each token of the query, and what each token counts for.

        They are float64 of shape (texts, tokens), -1 for a text without tokens, and of shape (tokens,).
        """
        asked = self._reader.query_token_vectors(query)
        if not len(asked.words):
            raise RerankerError(f"the reranker {self.model_id} has no token of the query {query[:40]!r}")
        weights = np.array([importance.get(exact(word.strip(_MARKS)), 0.0) for word in asked.words])
        wanted = self._centred(asked.vectors)
        best = np.full((len(texts), len(weights)), -1.0)
        read = self._tokens(texts, before)
        there = [row for row, tokens in enumerate(read) if len(tokens)]
        if there:
            # All texts at once: of fifty short ones each product by itself would cost more than its numbers.
            whole = np.concatenate([read[row] for row in there]).astype(np.float32)
            starts = np.cumsum([0, *(len(read[row]) for row in there[:-1])])
            best[there] = np.maximum.reduceat(wanted @ whole.T, starts, axis=1).T
        return best, weights if weights.any() else np.ones(len(weights))

    def _tokens(self, texts: Sequence[str], before: Sequence[str]) -> list[NDArray[np.float16]]:
        asked = list(zip(before, texts, strict=True))
        found = {one: self._read[one] for one in asked if one in self._read}
        new = [one for one in dict.fromkeys(asked) if one not in found]
        if new:
            for one, tokens in zip(
                new, self._reader.token_vectors([text for _, text in new], [ahead for ahead, _ in new]), strict=True
            ):
                found[one] = self._read[one] = self._centred(tokens.vectors).astype(np.float16)
                self._bytes += found[one].nbytes
        for one in asked:
            self._read.move_to_end(one)
        while self._bytes > KEPT and self._read:
            self._bytes -= self._read.popitem(last=False)[1].nbytes
        return [found[one] for one in asked]

    def _centred(self, vectors: Vector) -> Vector:
        return _units(_units(vectors) - self._mean)


def _units(vectors: Vector) -> Vector:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)


def share(
    best: NDArray[np.float64], weights: NDArray[np.float64], least: float = LEAST, most: float = MOST
) -> NDArray[np.float64]:
    """Return how much of a query each text says, float64 of shape (texts,), in [0, 1].

    It is the weighted mean over the query's tokens of their best cosine as a share of the way from `least` to `most`.
    """
    shares: NDArray[np.float64] = (np.clip(best, least, most) - least) / (most - least) @ (weights / weights.sum())
    return shares


def logits(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what the logistic function turns into these shares, but for the very ends."""
    inside = np.clip(shares, _EDGE, 1 - _EDGE)
    found: NDArray[np.float64] = np.log(inside / (1 - inside))
    return found

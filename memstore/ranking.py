"""What a term in a memory is worth: BM25, and TF-IDF to compare it with; pure arithmetic."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memstore import checks
from memstore.errors import InvalidInputError

Values: TypeAlias = NDArray[np.float64]
_LARGEST_K1 = 1_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BM25:
    """Okapi BM25 with Lucene's idf, which is above 0 for every term.

    `k1` says how soon a repeated term stops to count for more, `b` in [0, 1] how much a long text is held to its
    length. `neighbours` is what a term in a memory beside this one in its thread counts for, as a share of one in the
    memory itself; it is added before saturation, as the fields of BM25F are. Sources: Robertson and Zaragoza, The
    Probabilistic Relevance Framework (2009), 3.4 and 3.6; Lucene's BM25Similarity for the idf. The defaults were
    chosen by examples/keyword_steps.py.
    """

    k1: float = 0.9
    b: float = 0.4
    neighbours: float = 0.3

    def __post_init__(self) -> None:
        for name, most in (("k1", _LARGEST_K1), ("b", 1.0), ("neighbours", 1.0)):
            value = checks.native(getattr(self, name))
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
                raise InvalidInputError(f"{name} is {checks.brief(value)}; give a number from 0 to {most:g}.")

    @property
    def like_fts5(self) -> bool:
        """Whether FTS5, whose k1 is 1.2 and b 0.75, finds the best memories of this ranking near the top of its own."""
        return 0.4 <= self.k1 <= 3 and self.b >= 0.2

    def idf(self, document_frequency: int, memories: int) -> float:
        """Return ln(1 + (N - n + 0.5) / (n + 0.5)) for a term that n of N memories hold; above 0."""
        return math.log(1 + (memories - document_frequency + 0.5) / (document_frequency + 0.5))

    def normalised_frequency(self, count: Values, length: Values, mean: float) -> Values:
        """Return how often a term stands in a text of mean length that is as rich in it; the shapes broadcast."""
        return count / (1 - self.b + self.b * length / mean)

    def saturated(self, frequency: Values) -> Values:
        """Return what a frequency multiplies the idf by: 0 for 0, 1 for 1, k1 + 1 at most."""
        return np.divide(
            frequency * (self.k1 + 1), frequency + self.k1, out=np.zeros_like(frequency), where=frequency > 0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TFIDF:
    """The classic TF-IDF, (1 + ln tf) · (ln(N / (1 + n)) + 1): no saturation, no length, no neighbours.

    Sources: Salton and Buckley, Term-weighting approaches in automatic text retrieval (1988); the idf is that of
    Lucene's ClassicSimilarity before version 6.
    """

    neighbours: ClassVar[float] = 0.0
    like_fts5: ClassVar[bool] = False

    def idf(self, document_frequency: int, memories: int) -> float:
        """Return ln(N / (1 + n)) + 1 for a term that n of N memories hold; below 1 where all hold it."""
        return math.log(memories / (1 + document_frequency)) + 1

    def normalised_frequency(self, count: Values, length: Values, mean: float) -> Values:  # noqa: ARG002
        """Return the count as it is."""
        return count

    def saturated(self, frequency: Values) -> Values:
        """Return 1 + ln tf, 0 for 0."""
        return np.where(frequency > 0, 1 + np.log(np.maximum(frequency, 1)), 0.0)


Ranking: TypeAlias = BM25 | TFIDF
RANKINGS: Mapping[str, Ranking] = {"bm25": BM25(), "tf-idf": TFIDF()}


def checked(value: object) -> Ranking:
    """Return a ranking, or the one of a name; raise `InvalidInputError` on what is neither."""
    if isinstance(value, BM25 | TFIDF):
        return value
    return RANKINGS[checks.one_of("ranking", value, RANKINGS)]

"""What texts score that have nothing to do with a query: the scale on which a cosine is high or low."""

import math

import apsw
import numpy as np

from memstore import semantic
from memstore.embedding import REFERENCES_EACH, Vector
from memstore.fusion import Ends
from memstore.semantic import StoredSpace

# 1 stands for this many times as far above the mean as the best of the store's unrelated passages is expected to be.
# examples/fusion.py measures it.
REACH = 1.9
# In a smaller store what is best by chance would seem good.
_FEWEST = 100
_SPACES_KEPT = 8


class Backgrounds:
    """Samples of what spaces hold, read once and kept while the file still has them.

    Threads may read one twice; a lock would have to outlive a fork.
    """

    def __init__(self) -> None:
        self._samples: dict[int, tuple[tuple[int, ...], Vector, Vector]] = {}

    def ends(self, conn: apsw.Connection, space: StoredSpace, query: Vector) -> Ends:
        """Return the mean cosine of a query to texts at random, and the cosine that is as far above it as 1 stands for.

        The texts are passages of the space and the reference sentences that its model was asked for. n cosines at
        random, normally distributed, have a maximum of about mean + spread · √(2 ln n) (Leadbetter, Lindgren and
        Rootzén, Extremes, 1983): a passage that is no nearer than that says little.
        """
        direction = query / (float(np.linalg.norm(query)) or 1.0)
        references, sample = self._sample(conn, space)
        # Texts of other languages than the query's are further away for their language alone: the mean is that of the
        # nearest language, the spread that around the mean of each.
        spoken = [own[np.isfinite(own)] for own in _by_language(references @ direction)]
        spoken = [own for own in spoken if len(own)]
        # The nearest may be what is asked for: among a few texts it alone would make the spread seem wide.
        others = np.sort(sample @ direction)[:-1]
        cosines = np.concatenate([max(spoken, key=lambda own: float(own.mean())), others] if spoken else [others])
        if not len(cosines):
            return 0.0, 1.0
        mean = float(cosines.mean())
        around = np.concatenate([others - mean, *(own - own.mean() for own in spoken)])
        number = max(_FEWEST, semantic.passages(conn))
        reach = REACH * float(np.sqrt((around**2).mean())) * math.sqrt(2 * math.log(number))
        return (mean, mean + reach) if reach > 1e-6 else (mean, 1.0 + max(0.0, mean))

    def _sample(self, conn: apsw.Connection, space: StoredSpace) -> tuple[Vector, Vector]:
        """Return the reference sentences and a sample of the space: unit vectors, float32 of shape (n, dimensions)."""
        wanted = semantic.sample(conn, space)
        kept = self._samples.get(space.id)
        if kept is None or kept[0] != wanted:
            if len(self._samples) >= _SPACES_KEPT:
                self._samples = {}
            kept = wanted, _units(semantic.references(conn, space)), _units(semantic.vectors(conn, space, wanted))
            self._samples[space.id] = kept
        return kept[1], kept[2]


def _units(vectors: Vector) -> Vector:
    """Return vectors at length 1; a zero one, which only damage makes, stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), dtype=np.float32)


def _by_language(cosines: Vector) -> list[Vector]:
    """Return the cosines of the reference sentences, those of each language together."""
    return [cosines[start : start + REFERENCES_EACH] for start in range(0, len(cosines), REFERENCES_EACH)]

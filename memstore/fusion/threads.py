"""What its thread says of a turn: four contributions to its score, each measured by examples/fusion.py.

They are in units of the score, and 0 for a memory in no thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from memstore.fusion.signals import Flags, Scores, Turns

# A turn that follows a question by another author answers it: it gets this share of the question's score.
ANSWER = 0.25
# A turn that ends in a question is rarely the answer to one.
QUESTION = 0.03
# What ten words say is less than what fifty do: this much for each time that a turn is e times shorter than others.
LENGTH = 0.04
# More terms than these (two for most words) say no more.
_FULL_LENGTH = 100.0
# Where one turn matches, the others speak of the same: each is lifted by this share of the way to the best of them.
THREAD = 0.4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lent:
    """What a thread lends: what is known (`raw`), that as a share, float64 of shape (candidates,), and its weight.

    `zero` is the raw number that the share 0 stands for, None where that is 0.
    """

    raw: Scores
    share: Scores
    weight: float
    zero: float | None = None


def lent(turns: Turns, scores: Scores, eligible: Flags) -> Mapping[str, Lent]:
    """Return what threads lend to each turn, by name; `scores`, float64 of shape (candidates,), are the signals'.

    A turn that is not eligible lends to its answer alone. Lengths are compared with the geometric mean of those of the
    turns at hand, so that turns are neither favoured over memories in no thread nor held back.
    """
    inside = turns.thread >= 0
    question = np.where(turns.answered >= 0, scores[turns.answered], 0.0)
    asks = (turns.asks & inside).astype(np.float64)
    length = np.log(np.clip(turns.length, 1.0, _FULL_LENGTH))
    usual = float(length[inside & eligible].mean()) if (inside & eligible).any() else 0.0
    best = scores.copy()
    among = inside & eligible
    if among.any():
        most = np.full(int(turns.thread.max()) + 1, -np.inf)
        np.maximum.at(most, turns.thread[among], scores[among])
        best[among] = most[turns.thread[among]]
    return {
        "answer": Lent(raw=question, share=question, weight=ANSWER),
        "question": Lent(raw=asks, share=-asks, weight=QUESTION),
        "length": Lent(
            raw=turns.length, share=np.where(inside, length - usual, 0.0), weight=LENGTH, zero=float(np.exp(usual))
        ),
        "thread": Lent(raw=best, share=best - scores, weight=THREAD),
    }

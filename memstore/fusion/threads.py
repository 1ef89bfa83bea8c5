"""What its thread says of a turn: four contributions to its score, each measured by examples/fusion.py.

They are in units of the score, and 0 for a memory in no thread.
"""

from collections.abc import Mapping

import numpy as np

from memstore.fusion.signals import Scores, Turns

# A turn that follows a question by another author answers it: it gets this share of the question's score.
ANSWER = 0.25
# A turn that ends in a question is rarely the answer to one.
QUESTION = 0.03
# What ten words say is less than what fifty do: this much for each time that a turn is e times shorter.
LENGTH = 0.04
_FULL_LENGTH = 100.0  # terms, two for most words
# Where one turn matches, the others speak of the same: each is lifted by this share of the way to the best of them.
THREAD = 0.4


def contributions(turns: Turns, scores: Scores) -> Mapping[str, tuple[Scores, Scores, float]]:
    """Return what is known of each turn, that as a share, and the weight of it, by the name of the contribution.

    `scores`, float64 of shape (candidates,), are those of the signals; the contribution is the share times the weight.
    """
    inside = turns.thread >= 0
    follows = turns.answered >= 0
    question = np.where(follows, scores[turns.answered], 0.0)
    short = np.where(inside, np.minimum(0.0, np.log(np.maximum(turns.length, 1.0) / _FULL_LENGTH)), 0.0)
    best = scores.copy()
    if inside.any():
        most = np.full(int(turns.thread.max()) + 1, -np.inf)
        np.maximum.at(most, turns.thread[inside], scores[inside])
        best[inside] = most[turns.thread[inside]]
    return {
        "answer": (question, question, ANSWER),
        "question": (asks := (turns.asks & inside).astype(np.float64), -asks, QUESTION),
        "length": (turns.length, short, LENGTH),
        "thread": (best, best - scores, THREAD),
    }

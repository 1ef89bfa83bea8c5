"""Which passages go into a block: the best that are not said twice, as many as its tokens allow."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import regex

from memstore import checks
from memstore.context.formats import Entry
from memstore.embedding import Vector
from memstore.records import Memory, Passage

# Enough that of two passages of one score the one that adds more comes first; more costs evidence where what is
# stored repeats little, such as the turns of a conversation (examples/context.py --diversity measures it).
DIVERSITY = 0.05
# A passage this near to a better one says the same; counted from 0, unrelated sentences, to 1, the same
# (examples/context.py --same measures it).
SAME = 0.9
_ROUNDS = 8
_NUMBERS = regex.compile(r"\w*\d\w*")
_EMPTY = Entry(id=1, date="2000-01-01", author=None, text="")
Order: TypeAlias = Literal["relevance", "time"]
ORDERS = ("relevance", "time")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """A passage that may go into the block.

    `score` is that of the search's fusion, as if this passage were all of its memory; `vector` is its unit vector.
    `rank` and `relevance` are those of its hit; of a neighbour, `near` counts how near it stands to it, from 1.
    """

    memory: Memory
    passage: Passage
    entry: Entry
    rank: int
    relevance: float
    score: float = 0.0
    near: int = 0
    vector: Vector | None = None

    @property
    def reason(self) -> Literal["hit", "neighbour"]:
        return "neighbour" if self.near else "hit"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """What two passages are compared by beside their vectors."""

    text: str
    author: str | None
    numbers: frozenset[str]

    def may_be(self, other: "_Key") -> bool:
        return self.numbers == other.numbers and (self.author == other.author or None in (self.author, other.author))


class Distinct:
    """Tells what was said already: the same text, or a vector as near as that of the same text in other words.

    `chance` is the cosine of unrelated sentences, from which likeness is counted. Passages by two authors, or with
    other numbers or codes, are never the same.
    """

    def __init__(self, chance: float) -> None:
        self._chance = min(chance, 0.99)
        self.dropped = 0

    def likeness(self, vectors: Vector, vector: Vector) -> Vector:
        """Return how like one vector some are, float32 (n,): 0 unrelated or unknown, 1 the same."""
        found: Vector = np.clip(np.nan_to_num((vectors @ vector - self._chance) / (1 - self._chance)), 0.0, 1.0)
        return found

    def ordered(
        self, candidates: Sequence[Candidate], diversity: float, said: Sequence[Candidate] = ()
    ) -> list[Candidate]:
        """Return candidates without those that were said, each the one with the most to add to those before it.

        Maximal marginal relevance (Carbonell and Goldstein, 1998): (1 - diversity) times the score, scaled so that
        the best has 1 and the worst 0, minus diversity times the likeness to the nearest that is chosen already.
        Equal ones keep their order. What repeats a better one is counted in `dropped`.
        """
        scores = _scaled(candidates)
        vectors = _stacked([*candidates, *said])
        nearest = np.zeros(len(candidates), dtype=np.float32)
        waiting = np.ones(len(candidates), dtype=bool)
        texts = [_key(one) for one in candidates]
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for index, text in enumerate(texts):
            rows[text.text].append(index)

        def note(text: _Key, row: int) -> None:
            like = self.likeness(vectors[: len(candidates)], vectors[row])
            for index in {*np.flatnonzero(like >= SAME).tolist(), *rows[text.text]}:
                if waiting[index] and text.may_be(texts[index]):
                    waiting[index] = False
                    self.dropped += 1
            np.maximum(nearest, like, out=nearest)

        for row, one in enumerate(said, len(candidates)):
            note(_key(one), row)
        chosen: list[Candidate] = []
        while waiting.any():
            worth = np.where(waiting, (1 - diversity) * scores - diversity * nearest, -np.inf)
            best = int(worth.argmax())
            chosen.append(candidates[best])
            waiting[best] = False
            note(texts[best], best)
        return chosen


def _key(one: Candidate) -> _Key:
    text = checks.normalised(one.entry.text).casefold()
    return _Key(text=text, author=one.memory.author, numbers=frozenset(_NUMBERS.findall(text)))


def _scaled(candidates: Sequence[Candidate]) -> Vector:
    scores = np.array([one.score for one in candidates], dtype=np.float32)
    if not len(scores) or scores.max() == scores.min():
        return np.ones(len(scores), dtype=np.float32)
    found: Vector = (scores - scores.min()) / (scores.max() - scores.min())
    return found


def _stacked(candidates: Sequence[Candidate]) -> Vector:
    """Return unit vectors, float32 (n, dimensions); one that is unknown is zeros, like nothing."""
    known = [one.vector for one in candidates if one.vector is not None]
    width = len(known[0]) if known else 1
    rows = [np.zeros(width, dtype=np.float32) if one.vector is None else one.vector for one in candidates]
    return np.stack(rows) if rows else np.zeros((0, width), dtype=np.float32)


class Block:
    """A block that is filled: never more than `most` tokens by the tokeniser's count of the whole text."""

    def __init__(
        self, write: Callable[[Sequence[Entry]], str], count: Callable[[str], int], most: int, order: Order
    ) -> None:
        self._write = write
        self._count = count
        self._most = most
        self._order = order
        self._frame = count(write(()))
        self._least = count(write((_EMPTY,))) - self._frame
        self._costs: dict[Candidate, int] = {}
        self._taken: list[Candidate] = []
        self.text = ""
        self.tokens = 0

    @property
    def items(self) -> list[Candidate]:
        """What is in the block, in its order."""
        return _in_order(self._taken, self._order)

    def cost(self, one: Candidate) -> int:
        """Return how many tokens one item alone adds to an empty block."""
        if one not in self._costs:
            self._costs[one] = max(0, self._count(self._write((one.entry,))) - self._frame)
        return self._costs[one]

    def fits(self, one: Candidate) -> bool:
        """Say whether one item alone fits into an empty block."""
        return max(self._least, self.cost(one)) <= self._most - self._frame

    def alone(self, one: Candidate) -> int:
        """Return how many tokens a block of one item has."""
        return self._frame + self.cost(one)

    def fill(self, candidates: Iterable[Candidate]) -> None:
        """Take in what fits, in the order given: one that is too long is passed over for those behind it.

        Tokens do not add up across joins, so items are first chosen by what they cost alone, and the whole is then
        counted: what is too much goes from the end, what room is left is offered again.
        """
        waiting = list(candidates)
        for _ in range(_ROUNDS):
            room = self._most - (self.tokens if self._taken else self._frame)
            trial: list[Candidate] = []
            for one in waiting:
                if room < self._least:
                    break
                if (cost := self.cost(one)) <= room:
                    trial.append(one)
                    room -= cost
            if not trial:
                return
            fitting = self._longest(trial)
            # The first that did not fit is not tried again, so that every round comes nearer to the end.
            tried = set(trial[: fitting + 1])
            waiting = [one for one in waiting if one not in tried]

    def _longest(self, trial: Sequence[Candidate]) -> int:
        """Take in as many of the first as fit, found by bisection; return how many."""
        before = list(self._taken)
        fits, beyond, wanted = 0, len(trial) + 1, len(trial)
        while fits < wanted < beyond:
            together = [*before, *trial[:wanted]]
            text = self._write([one.entry for one in _in_order(together, self._order)])
            tokens = self._count(text)
            if tokens <= self._most:
                fits, self._taken, self.text, self.tokens = wanted, together, text, tokens
            else:
                beyond = wanted
            wanted = (fits + beyond) // 2
        return fits


def _in_order(taken: Sequence[Candidate], order: Order) -> list[Candidate]:
    """Return items by the hit that they belong to, or by time: those of one thread by their places in it."""
    if order == "relevance":
        at = {one.rank: index for index, one in reversed([*enumerate(taken)]) if not one.near}
        return sorted(taken, key=lambda one: (at.get(one.rank, len(taken)), one.near))
    by_time = sorted(taken, key=lambda one: (one.memory.created_at, one.memory.id, one.passage.start))
    threads: dict[tuple[str, str], list[Candidate]] = {}
    for one in by_time:
        if one.memory.thread is not None:
            threads.setdefault((one.memory.namespace, one.memory.thread), []).append(one)
    for own in threads.values():
        own.sort(key=lambda one: (one.memory.position or 0.0, one.memory.id, one.passage.start), reverse=True)
    # Each thread keeps its turns' places among all others, and orders what stands there.
    return [
        one if one.memory.thread is None else threads[one.memory.namespace, one.memory.thread].pop() for one in by_time
    ]

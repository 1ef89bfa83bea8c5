"""The part of a passage that is shown where the whole is too long."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import regex

from memstore import passages
from memstore.analysis import fold, whole_word
from memstore.records import Passage


def shortened(passage: Passage, terms: Sequence[str], fits: Callable[[Passage], bool]) -> Passage | None:
    """Return the part of a passage that fits, round what holds most of some terms; None where nothing fits.

    It is a run of whole sentences; where not even the sentence with the most terms fits, a run of its whole words.
    """
    patterns = [whole_word(fold(term)) for term in terms]
    for cut in (passages.sentences, passages.words):
        spans = cut(passage.text)
        if not spans:
            return None
        held = _held(passage.text, spans, patterns)
        seed = _seed(held, len(patterns))
        parts = [_part(passage, spans[first][0], spans[last][1]) for first, last in _growing(held, seed)]
        # Each part holds the one before it, so that the longest is found in few counts.
        fitting, beyond = -1, len(parts)
        while beyond - fitting > 1:
            middle = (fitting + beyond) // 2
            fitting, beyond = (middle, beyond) if fits(parts[middle]) else (fitting, middle)
        if fitting >= 0:
            return parts[fitting]
        passage = parts[0]
    return None


def _held(text: str, spans: Sequence[tuple[int, int]], patterns: Sequence[regex.Pattern[str]]) -> list[set[int]]:
    """Return which terms begin in each of the adjoining spans of a text."""
    folded = [fold(text[start:stop]) for start, stop in spans]
    starts = list(accumulate(map(len, folded[:-1]), initial=0))
    together = "".join(folded)
    held: list[set[int]] = [set() for _ in spans]
    for term, pattern in enumerate(patterns):
        for match in pattern.finditer(together):
            held[bisect_right(starts, match.start()) - 1].add(term)
    return held


def _seed(held: Sequence[set[int]], terms: int) -> int:
    """Return the index of the span with the most terms; of equal ones that to which the others are nearest."""
    places = [[index for index, here in enumerate(held) if term in here] for term in range(terms)]

    def far(index: int) -> int:
        return sum(min(abs(index - place) for place in there) for there in places if there)

    return min(range(len(held)), key=lambda index: (-len(held[index]), far(index), index))


def _growing(held: Sequence[set[int]], seed: int) -> Iterator[tuple[int, int]]:
    """Yield ever longer runs by their first and last index: towards the nearest other term, else to both sides."""
    first = last = seed
    terms = set(held[seed])
    yield first, last
    while last - first + 1 < len(held):
        before = next((first - at for at in range(first - 1, -1, -1) if held[at] - terms), math.inf)
        behind = next((at - last for at in range(last + 1, len(held)) if held[at] - terms), math.inf)
        if first == 0 or (last + 1 < len(held) and (behind, last - seed) <= (before, seed - first)):
            last += 1
            terms |= held[last]
        else:
            first -= 1
            terms |= held[first]
        yield first, last


def _part(passage: Passage, start: int, stop: int) -> Passage:
    """Return a part of a passage, without the white space round it."""
    text = passage.text[start:stop]
    start += len(text) - len(text.lstrip())
    text = text.strip()
    at = passage.start + start
    return Passage(start=at, stop=at + len(text), text=text)

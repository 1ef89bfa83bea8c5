"""What a growing store does to the answers: unrelated texts are added step by step, and all is asked again."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from memstore import checks
from memstore.analysis import compounds, fold, pieces
from memstore.errors import InvalidInputError
from memstore.evaluation.answering import Asked, Asker, Progress, Ranked, Searcher, alone, ranked, resolved, values
from memstore.evaluation.measures import MEASURES, Estimate, Values, difference
from memstore.evaluation.questions import Judged
from memstore.evaluation.report import Curve, points
from memstore.fusion import PROFILES, Gathered
from memstore.records import Weights

# Stores texts beside the memories that are there.
Add: TypeAlias = Callable[[Sequence[str]], object]
# As parts of all texts.
STEPS = (0.0, 0.25, 0.5, 1.0)
_MOST_TRIES = 100
_MAIN = MEASURES.index("hit@1")


def invented(texts: Iterable[str], number: int, *, seed: int = 0) -> tuple[str, ...]:
    """Return texts put together from the words of others at random, as long as these, none equal to one of them.

    Codes, paths and amounts are left out where there are plain words: a text that holds the code that is asked for
    would be no unrelated one. Raises `InvalidInputError` where so many different texts can't be made, or on a number
    below 1.
    """
    checks.whole("distractors", number, least=1)
    split = [[piece for piece, _ in pieces(text)] for text in texts]
    lengths = [len(parts) for parts in split if parts]
    every = [part for parts in split for part in parts]
    plain = [part for part in every if next(compounds(part), None) is None and not any(map(str.isdigit, part))]
    drawn, known = random.Random(seed), {_same(" ".join(parts)) for parts in split}
    found: list[str] = []
    tries = 0
    while lengths and len(found) < number and tries < _MOST_TRIES + number * 2:
        tries += 1
        made = " ".join(drawn.choices(plain or every, k=drawn.choice(lengths)))
        if _same(made) not in known:
            known.add(_same(made))
            found.append(made)
    if len(found) < number:
        raise InvalidInputError(
            f"the memories have too few different words for {number:,} texts ({len(found):,} were made); ask for fewer,"
            " or give texts of your own."
        )
    return tuple(found)


def chosen(lines: Iterable[str], texts: Iterable[str], number: int | None) -> tuple[str, ...]:
    """Return the first distinct lines that are no memory's text and not blank; all of them where no number is given.

    Raises `InvalidInputError` when there are fewer.
    """
    known = {_same(text) for text in texts}
    found: list[str] = []
    for line in lines:
        if line.strip() and _same(line) not in known and (number is None or len(found) < number):
            known.add(_same(line))
            found.append(line.strip())
    if not found or (number is not None and len(found) < number):
        raise InvalidInputError(
            f"there are {len(found):,} lines that are new to the store, and {number or 1:,} are asked for; ask for"
            " fewer distractors, or give more lines."
        )
    return tuple(found)


def distracted(
    searcher: Searcher,
    questions: Sequence[Judged],
    add: Add,
    texts: Sequence[str],
    *,
    weights: Weights = PROFILES["default"],
    progress: Progress | None = None,
) -> tuple[Curve, ...]:
    """Return a curve of the default search, of keywords and of vectors alone, by how many texts were added.

    All questions are asked before any text is there, and again after a quarter, half and all of them were given to
    `add`, which stores them: give it a copy of the store, never the store. The measures at 0 are those of the store as
    it is. Raises `InvalidInputError` when no question has a right memory in the store.
    """
    asked, _ = resolved(searcher, questions)
    asker = Asker(searcher, asked, progress)
    counts = sorted({round(len(texts) * step) for step in STEPS})
    asker.expect(len(counts))
    found: dict[str, dict[float, Values]] = {}
    ranks: Mapping[str, Callable[[Gathered], Ranked]] = {}
    there = 0
    for count in counts:
        if count > there:
            add(texts[there:count])
            there = count
        gathers = asker.gather()
        ranks = ranks or _ranks(asked, gathers, weights)
        for name, rank in ranks.items():
            found.setdefault(name, {})[count] = values(asked, map(rank, gathers))
    return tuple(
        Curve(
            name=f"Unrelated texts beside the memories: {name}",
            parameter="distractors",
            points=points(own),
            note=_note(name, own),
        )
        for name, own in found.items()
    )


def _ranks(
    asked: Sequence[Asked], gathers: Sequence[Gathered], weights: Weights
) -> Mapping[str, Callable[[Gathered], Ranked]]:
    """Return the default search, keywords and vectors alone, and names where they alone are the best of these."""
    spaces = dict.fromkeys(one.space for found in gathers for one in found.signals.values() if one.space is not None)
    ranks: dict[str, Callable[[Gathered], Ranked]] = {"default": partial(ranked, weights=weights)}
    if any("keyword" in found.signals for found in gathers):
        ranks["keyword"] = partial(alone, name="keyword")
    for space in spaces:
        ranks["semantic" if len(spaces) == 1 else space] = partial(alone, name=space)
    names = partial(alone, name="entity")
    if _right(asked, gathers, names) > max((_right(asked, gathers, rank) for rank in ranks.values()), default=0.0):
        ranks["entity"] = names
    return ranks


def _right(asked: Sequence[Asked], gathers: Sequence[Gathered], rank: Callable[[Gathered], Ranked]) -> float:
    return float(values(asked, map(rank, gathers))[:, _MAIN].mean())


def _note(name: str, found: Mapping[float, Values]) -> str:
    most = max(found)
    lost: Estimate = difference(found[most][:, _MAIN], found[min(found)][:, _MAIN])
    return (
        f"With {most:,.0f} unrelated texts hit@1 of {name} changes by {lost.value:+.3f} (95 % interval"
        f" {lost.low:+.3f} to {lost.high:+.3f})."
    )


def _same(text: str) -> str:
    return " ".join(fold(text).split())

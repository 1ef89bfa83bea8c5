"""From the hits of a search to a block for a prompt."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import regex

from memstore import checks
from memstore.analysis import fold, whole_word
from memstore.context.formats import DOUBT, FORMATS, NOTE, entry
from memstore.context.packing import ORDERS, Block, Candidate, Distinct, Order
from memstore.context.shortening import shortened
from memstore.context.tokenisers import Tokeniser
from memstore.fusion import RERANK
from memstore.records import Context, ContextItem, Hit, Memory, Passage, SearchResult
from memstore.surroundings import Stretch, Surroundings

# An item with its source is hardly shorter: as many are looked for as may fit, but not more than a search gives well.
_SHORTEST = 20
_FEWEST, _MOST = 50, 500
# Each passage is compared with all others: of very long memories the best of all are enough.
_MOST_PASSAGES = 4 * _MOST
# A further passage of a memory answers too when it is at least half as good as the best one.
_WORTH = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What kind of block is wanted, checked; `k` is how many memories are searched for, at most 500."""

    max_tokens: int
    tokeniser: Tokeniser
    format: str
    order: Order
    k: int
    neighbours: bool
    diversity: float


def plan(
    *, max_tokens: Any, tokeniser: Tokeniser, format: Any, order: Any, k: Any, neighbours: Any, diversity: Any
) -> Plan:
    """Return a plan of what a caller gave, or raise `InvalidInputError`."""
    most = checks.whole("max_tokens", max_tokens, least=1)
    wanted = max(_FEWEST, math.ceil(most / _SHORTEST)) if k is None else checks.whole("k", k, least=1)
    return Plan(
        max_tokens=most,
        tokeniser=tokeniser,
        format=checks.one_of("format", format, FORMATS),
        order=cast(Order, checks.one_of("order", order, ORDERS)),
        k=min(_MOST, wanted),
        neighbours=checks.flag("neighbours", neighbours),
        diversity=checks.share("diversity", diversity),
    )


def build(found: SearchResult, around: Surroundings, plan: Plan) -> Context:
    """Return the best of what was found as a block within its tokens.

    First the passages that answer, then, where there is room, the memories beside those in their threads. Of the best
    passage a part is shown where the whole is too long.
    """
    distinct = Distinct(around.chance)
    write = partial(FORMATS[plan.format], note=DOUBT if found.uncertain else NOTE)
    block = Block(write, plan.tokeniser.count, plan.max_tokens, plan.order)
    # What has nothing to be seen in it tells nothing.
    seen = (one for one in _passages(found, around) if one.entry.text)
    passages = sorted(seen, key=lambda one: (-one.score, one.rank, one.passage.start))
    answers = distinct.ordered(passages[:_MOST_PASSAGES], plan.diversity)
    beyond = len(passages[_MOST_PASSAGES:])
    needed = block.alone(answers[0]) if answers else None
    if answers and not block.fits(answers[0]):
        answers[0] = _fitting(answers[0], found, block)
    block.fill(answers)
    if plan.neighbours:
        others = _neighbours(block.items, {hit.memory.id for hit in found}, around)
        beside = [one for one in others if one.entry.text]
        # Of equal scores they keep their order, the nearest to the best first.
        block.fill(distinct.ordered(beside, 0.0, block.items))
    items = tuple(
        ContextItem(
            memory=one.memory,
            passage=one.passage,
            reason=one.reason,
            rank=None if one.near else one.rank,
            relevance=one.relevance,
            tokens=block.cost(one),
        )
        for one in block.items
    )
    return Context(
        query=found.query,
        text=block.text,
        format=plan.format,
        tokens=block.tokens,
        max_tokens=plan.max_tokens,
        tokeniser=plan.tokeniser.name,
        items=items,
        found=found,
        duplicates=distinct.dropped,
        left_out=beyond + len(answers) - sum(one.reason == "hit" for one in items),
        needed=None if items else needed,
    )


def _fitting(best: Candidate, found: SearchResult, block: Block) -> Candidate:
    """Return the best candidate with the part of its passage that fits; whole where no part does."""

    def with_part(part: Passage) -> Candidate:
        stretch = Stretch(passage=part, vector=best.vector)
        return _candidate(best.memory, stretch, best.rank, best.relevance, score=best.score)

    def fits(part: Passage) -> bool:
        one = with_part(part)
        return bool(one.entry.text) and block.fits(one)

    terms = next(hit.terms for hit in found if hit.memory.id == best.memory.id)
    part = shortened(best.passage, terms, fits)
    return best if part is None else with_part(part)


def _passages(found: SearchResult, around: Surroundings) -> Iterator[Candidate]:
    """Yield what may answer: the best passage of each hit, and those others of it that answer by themselves."""
    for hit in found:
        whole = Passage(start=0, stop=len(hit.memory.text), text=hit.memory.text)
        best = hit.passage or whole
        own = around.stretches.get(hit.memory.id, ())
        vector = next((one.vector for one in own if _span(one.passage) == _span(best)), None)
        yield _candidate(hit.memory, Stretch(passage=best, vector=vector), hit.rank, hit.relevance, score=hit.score)
        if len(own) < 2:
            continue
        signal = next((name for name in found.spaces[:1] if name in hit.signals), "semantic")
        words = [whole_word(fold(word)) for word in hit.terms]
        taken = [best]
        shares = [(_alone(hit, one, signal, words), one) for one in own]
        for share, one in sorted(shares, key=lambda each: (-each[0], each[1].passage.start)):
            if share < _WORTH:
                break
            rest = _without(one.passage, taken)
            if rest is None:
                continue
            stretch = Stretch(passage=rest, vector=one.vector, similarity=one.similarity)
            # What answers in it may have been what another says already.
            share = _alone(hit, stretch, signal, words)
            if share >= _WORTH:
                taken.append(rest)
                yield _candidate(hit.memory, stretch, hit.rank, hit.relevance, score=share * hit.score)


def _alone(hit: Hit, stretch: Stretch, signal: str, words: Sequence[regex.Pattern[str]]) -> float:
    """Return the share of a hit's score that it would have if a passage were all of it, by the first stage alone.

    Of the keyword signal it keeps the share of the hit's words that the passage holds; of the space that the passages
    are compared in it has what its own cosine gives on the scale of the hit's. The second stage has read the best
    passage only, and speaks for no other; where nothing else has a weight, these two signals count alike.
    """
    second = hit.signals.get(RERANK)
    even = second is not None and second.weight == 1
    keyword, near = hit.signals.get("keyword"), hit.signals.get(signal)
    if even:
        whole = sum(one.normalised for one in (keyword, near) if one is not None)
    else:
        whole = hit.score - (0.0 if second is None else second.contribution)
    lost = 0.0
    if keyword is not None:
        text = fold(stretch.passage.text)
        held = sum(word.search(text) is not None for word in words)
        lost += (keyword.normalised if even else keyword.contribution) * (1 - held / max(1, len(words)))
    if near is not None:
        own, weight = 0.0, 1.0 if even else near.weight
        if stretch.similarity is not None and near.zero is not None and near.one is not None and near.zero < near.one:
            own = (stretch.similarity - near.zero) / (near.one - near.zero) * weight
        lost += max(0.0, near.normalised * weight - own)
    return 1 - lost / whole if whole > 0 else 0.0


def _neighbours(items: Sequence[Candidate], found: set[int], around: Surroundings) -> Iterator[Candidate]:
    """Yield the memories beside those in the block that were not found themselves, the nearest of all first."""
    best = list({one.memory.id: one for one in reversed(items)}.values())[::-1]
    seen = set(found)
    for near in range(max(map(len, around.beside.values()), default=0)):
        for one in best:
            beside = around.beside.get(one.memory.id, ())
            if near < len(beside) and beside[near] not in seen:
                seen.add(beside[near])
                memory = around.memories[beside[near]]
                own = around.stretches.get(memory.id, ())
                whole = Stretch(passage=Passage(start=0, stop=len(memory.text), text=memory.text))
                stretch = max(own, key=lambda each: each.similarity or 0.0, default=whole)
                yield _candidate(memory, stretch, one.rank, one.relevance, near=near + 1)


def _candidate(
    memory: Memory, stretch: Stretch, rank: int, relevance: float, *, score: float = 0.0, near: int = 0
) -> Candidate:
    day = checks.here(memory.created_at).date().isoformat()
    return Candidate(
        memory=memory,
        passage=stretch.passage,
        entry=entry(memory.id, day, memory.author, stretch.passage.text),
        rank=rank,
        relevance=relevance,
        score=score,
        near=near,
        vector=stretch.vector,
    )


def _span(passage: Passage) -> tuple[int, int]:
    return passage.start, passage.stop


def _without(passage: Passage, taken: Sequence[Passage]) -> Passage | None:
    """Return a passage without the sentence that joins it to another; None where others hold most of it, or it them."""
    start, stop = passage.start, passage.stop
    for other in taken:
        shared = min(passage.stop, other.stop) - max(passage.start, other.start)
        if 2 * shared > min(passage.stop - passage.start, other.stop - other.start):
            return None
        if shared > 0 and other.start <= passage.start:
            start = max(start, other.stop)
        elif shared > 0:
            stop = min(stop, other.start)
    if 2 * (stop - start) < passage.stop - passage.start:
        return None
    text = passage.text[start - passage.start : stop - passage.start]
    return Passage(start=start, stop=stop, text=text)

"""Questions made from a store's own memories: a smoke test, since whoever knows the answer asks easily."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memstore import checks
from memstore.analysis import STOP_WORDS, compounds, exact, fold, is_unspaced, pieces, term, weight, words
from memstore.evaluation.questions import Judged
from memstore.evaluation.report import Evaluation
from memstore.records import Memory

KINDS = ("word", "code", "sentence")
# A word that more memories hold is not distinctive: it may be missed among the first ten in a healthy store.
_MOST_HOLDERS = 5
# A sentence of fewer words says too little with a third of them left out.
_FEWEST_WORDS = 6
_MOST_WORDS = 24
_LEFT_OUT = 3
_FEWEST_CHARACTERS = 9
_MOST_NAMED = 5
_LONGEST_SHOWN = 60
_STOPPED = frozenset(term(word) for listed in STOP_WORDS.values() for word in listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """The terms of a memory by what they are: distinct, folded, in the order of the text."""

    memory: Memory
    words: tuple[str, ...]
    codes: tuple[str, ...]


def probes(memories: Sequence[Memory], *, seed: int = 0, limit: int = 100) -> tuple[Judged, ...]:
    """Return at most `limit` questions made from memories, each with its memory as the one right answer.

    Of each memory that has them: a distinctive word (the rarest among the given texts, in lower case), a code, number,
    path or address, and a sentence with a third of its words left out; the category says which. What more than five of
    the memories hold is no probe, nor is anything of a text that two of them have. The same memories and seed give the
    same questions, spread over the memories before any is asked twice. Raises `InvalidInputError` on a limit below 1.
    """
    checks.whole("limit", limit, least=1)
    texts = Counter(_same(memory.text) for memory in memories)
    keys = {memory.key for memory in memories}
    # A key that reads like an id would mean another memory.
    alone = [one for one in memories if texts[_same(one.text)] == 1 and str(one.id) not in keys]
    told = [_told(memory) for memory in memories]
    holders = Counter(found for one in told for found in {*one.words, *one.codes})
    chosen = {one.id for one in alone}
    own = [one for one in told if one.memory.id in chosen]
    random.Random(seed).shuffle(own)
    made = [_made(one, holders, seed) for one in own]
    found: list[Judged] = []
    for turn in range(len(KINDS)):
        for number, (one, there) in enumerate(zip(own, made, strict=True)):
            kinds = [kind for kind in KINDS if kind in there]
            if turn < len(kinds):
                # Each memory begins with another kind, so that a low limit has all of them.
                kind = kinds[(number + turn) % len(kinds)]
                found.append(_judged(one.memory, kind, there[kind]))
    return tuple(found[:limit])


def smoke(evaluation: Evaluation, asked: Sequence[Judged]) -> tuple[str, ...]:
    """Return what the answers to probes allow to say, and name the memories that were not found in the first ten."""
    said = [
        "This is a smoke test, not a measure of quality: its questions are made from the answers, and real questions"
        " are harder."
    ]
    texts = {one.id: one for one in asked}
    missed = evaluation.missed.get(evaluation.default, ())
    total = evaluation.questions
    if not missed:
        said.append(f"Each of the {total:,} probes finds its memory among the first ten.")
    else:
        said.append(
            f"{len(missed):,} of {total:,} probes do not find their memory among the first ten:"
            f" {_named([texts[one] for one in missed])}."
        )
    # Vectors may find what the keyword index has lost.
    unfound = [one for one in evaluation.missed.get("keyword", ()) if one not in set(missed)]
    if unfound:
        said.append(
            f"{len(unfound):,} are found, but not by keywords alone, though their words are the memory's own:"
            f" {_named([texts[one] for one in unfound])}."
        )
    if missed or unfound:
        said.append(
            "A few may be near-duplicates of other memories. Many mean that an index lacks what the file holds:"
            " memstore export, and import into a new file, make all indexes again."
        )
    return tuple(said)


def _named(missed: Sequence[Judged]) -> str:
    told = "; ".join(f"memory {one.relevant[0]} by {_shown(one.text)!r}" for one in missed[:_MOST_NAMED])
    more = len(missed) - _MOST_NAMED
    return f"{told}; and {more:,} more" if more > 0 else told


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _judged(memory: Memory, kind: str, text: str) -> Judged:
    return Judged(
        id=f"{memory.id} {kind}", text=text, relevant=(str(memory.id),), category=kind, namespace=memory.namespace
    )


def _same(text: str) -> str:
    return " ".join(fold(text).split())


def _told(memory: Memory) -> _Told:
    plain: dict[str, None] = {}
    codes: dict[str, None] = {}
    for piece, _ in pieces(memory.text):
        whole = next(compounds(piece), None)
        if whole is not None and weight(whole) > 1:
            codes[whole] = None
            continue
        for word in words(piece):
            found = exact(word)
            if not term(word) or not any(letter.isalnum() for letter in found):
                continue
            if weight(found) > 1:
                codes[found] = None
            elif term(word) not in _STOPPED:
                plain[found] = None
    return _Told(memory=memory, words=tuple(plain), codes=tuple(codes))


def _made(one: _Told, holders: Mapping[str, int], seed: int) -> dict[str, str]:
    """Return the probes that a memory has, by kind."""
    found: dict[str, str] = {}
    for kind, terms in (("word", one.words), ("code", one.codes)):
        # The longest of the rarest: a short one may be there by chance.
        best = min(terms, key=lambda term: (holders[term], -len(term), term), default=None)
        if best is not None and holders[best] <= _MOST_HOLDERS:
            found[kind] = best
    sentence = _sentence(one.memory, seed)
    if sentence is not None:
        found["sentence"] = sentence
    return found


def _sentence(memory: Memory, seed: int) -> str | None:
    """Return the beginning of a text with a third of its words left out; None where it is short."""
    parts = [piece for piece, _ in pieces(memory.text)][:_MOST_WORDS]
    joint, least = " ", _FEWEST_WORDS
    if is_unspaced(" ".join(parts)):
        # Without spaces a piece is a whole clause: characters are left out.
        parts, joint, least = list("".join(parts))[: 2 * _MOST_WORDS], "", _FEWEST_CHARACTERS
    if len(parts) < least:
        return None
    drawn = random.Random(f"{seed} {memory.id}")
    kept = sorted(drawn.sample(range(len(parts)), len(parts) - len(parts) // _LEFT_OUT))
    return joint.join(parts[index] for index in kept)

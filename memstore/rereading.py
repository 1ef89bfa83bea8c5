"""The second stage of a search: the best of the first are read again, with the question at hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import apsw

from memstore import memories, threads
from memstore.analysis import Analyser
from memstore.errors import RerankerError
from memstore.fusion import Numbers, Reread
from memstore.gathering import KNOWN_POWER, Found, Question
from memstore.memories import Row
from memstore.records import Passage
from memstore.rerank import Second

# Of the turn before, its end is what the next one answers.
_BEFORE = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What is to be read again: of each memory the passage that stands for it, and what stands before that."""

    own: Sequence[str]
    before: Sequence[str]


class Rereader:
    """Has the best candidates of one store read again."""

    def __init__(self, analyser: Analyser, second: Second, wait: float) -> None:
        self._analyser = analyser
        self._second = second
        self._wait = wait

    def ready(self, query: str) -> None:
        """Load the reranker; raise `RerankerError` where it can't be had, or reads none of the query's languages."""
        self._second.opened(self._wait)
        spoken, own = self._analyser.detect(query), self._second.languages
        if own and spoken and not set(own) & set(spoken):
            raise RerankerError(
                f"the reranker {self._second.name} is for {', '.join(own)}, and the query is in {', '.join(spoken)}"
            )

    def read(self, question: Question, found: Found, best: Numbers, texts: Texts) -> Reread:
        """Return what the reranker says of the candidates at some indices, the best first, from their texts.

        Raises `RerankerError` where it fails. No transaction need be open: it may take its time.
        """
        importance = {} if found.asked is None else found.asked.importance
        logits = self._second.scores(question.query, texts.own, self._wait, before=texts.before, importance=importance)
        weight = self._second.weight if question.rerank_weight is None else question.rerank_weight
        sure = found.asked.known**KNOWN_POWER if self._second.needs_known_words and found.asked is not None else 1.0
        return Reread(read=best, logits=logits, weight=weight, confidence=sure)


def texts(conn: apsw.Connection, ids: Sequence[int], passages: Mapping[int, Passage], moment: str) -> Texts:
    """Return what is read of each memory: its passage as models see it, and the end of the turn before it."""
    turns = threads.turns(conn, ids, moment)
    ahead = {one: turns[one].before if one in turns else None for one in ids}
    rows = memories.rows(conn, {*ids, *(one for one in ahead.values() if one is not None)})
    own, before = [], []
    for one in ids:
        start, stop = (passages[one].start, passages[one].stop) if one in passages else (0, len(rows[one].text))
        own.append(rows[one].embedded_text(start, stop))
        last = rows.get(ahead[one] or 0) if start == 0 else None
        before.append("" if last is None else f"{_said(last)[-_BEFORE:]}\n")
    return Texts(own=own, before=before)


def _said(row: Row) -> str:
    return row.text if row.author is None else f"{row.author}: {row.text}"

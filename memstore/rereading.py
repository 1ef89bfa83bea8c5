"""The second stage of a search: the best of the first are read again, with the question at hand."""

import apsw

from memstore import keyword, memories, spans, threads
from memstore.analysis import Analyser
from memstore.errors import RerankerError
from memstore.fusion import Fused, Numbers, Reread
from memstore.gathering import Found, Question
from memstore.memories import Row
from memstore.rerank import Second

# Of the turn before, its end is what the next one answers.
_BEFORE = 600


class Rereader:
    """Reads the best candidates of one store again."""

    def __init__(self, analyser: Analyser, second: Second, wait: float) -> None:
        self._analyser = analyser
        self._second = second
        self._wait = wait

    def read(
        self, conn: apsw.Connection, question: Question, found: Found, fused: Fused, best: Numbers, moment: str
    ) -> Reread:
        """Return what the reranker says of the candidates at some indices, the best first.

        Of each it reads the passage that stands for it, as models see it, and where it asks for that the turn before
        it in its thread. Raises `RerankerError` where it can't be had, fails, or reads none of the query's languages.
        """
        self._second.opened(self._wait)
        spoken = self._analyser.detect(question.query)
        own = self._second.languages
        if own and spoken and not set(own) & set(spoken):
            raise RerankerError(
                f"the reranker {self._second.name} is for {', '.join(own)}, and the query is in {', '.join(spoken)}"
            )
        assert found.gathered is not None
        ids = found.gathered.ids[best].tolist()
        texts, before = _texts(conn, ids, best, found, fused, moment)
        importance = {} if found.asked is None else found.asked.importance
        logits = self._second.scores(question.query, texts, self._wait, before=before, importance=importance)
        weight = self._second.weight if question.rerank_weight is None else question.rerank_weight
        return Reread(read=best, logits=logits, weight=weight)


def _texts(
    conn: apsw.Connection, ids: list[int], best: Numbers, found: Found, fused: Fused, moment: str
) -> tuple[list[str], list[str]]:
    """Return what is read of each memory, and what stands before it in its thread."""
    there = memories.read(conn, ids)
    matched = {} if found.asked is None else keyword.held(conn, found.asked, ids)
    passages = spans.passages(conn, there, spans.nearest(ids, best, fused, found.passages), matched)
    rows = {one: memories.get(conn, one) for one in ids}
    turns = threads.turns(conn, ids, moment)
    texts, before = [], []
    for one in ids:
        row, passage, turn = rows[one], passages.get(one), turns.get(one)
        assert row is not None
        texts.append(row.embedded_text(*((0, len(row.text)) if passage is None else (passage.start, passage.stop))))
        last = None if turn is None or turn.before is None else memories.get(conn, turn.before)
        before.append("" if last is None or (passage is not None and passage.start) else f"{_said(last)[-_BEFORE:]}\n")
    return texts, before


def _said(row: Row) -> str:
    return row.text if row.author is None else f"{row.author}: {row.text}"

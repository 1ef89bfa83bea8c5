"""Which passage of a memory stands for it in an answer."""

import json
from collections.abc import Mapping, Sequence

import apsw
import regex

from memstore.analysis import fold, whole_word
from memstore.database import all_rows, as_stored
from memstore.fusion import Fused, Numbers
from memstore.records import Memory, Passage


def nearest(
    best: Sequence[int], chosen: Numbers, fused: Fused, passages: Mapping[str, Mapping[int, int]]
) -> dict[int, int]:
    """Return the passage that is nearest to the query for each memory, by the space that counts most for it."""
    found: dict[int, int] = {}
    for memory_id, index in zip(best, chosen.tolist(), strict=True):
        there = [name for name, nearest in passages.items() if memory_id in nearest]
        if there:
            nearest = max(there, key=lambda name: float(fused.parts[name].contributions[index]))
            found[memory_id] = passages[nearest][memory_id]
    return found


def passages(
    conn: apsw.Connection,
    there: Mapping[int, Memory],
    best: Mapping[int, int],
    matched: Mapping[int, tuple[str, ...]],
) -> dict[int, Passage]:
    """Return the passage that stands for each memory: the nearest one, unless only others hold words of the query."""
    rows = all_rows(
        conn,
        "SELECT memory_id, id, start, stop FROM passages WHERE memory_id IN (SELECT value FROM json_each(?1))"
        " AND (embedder_id IS NULL OR id IN (SELECT value FROM json_each(?2))) ORDER BY id",
        (json.dumps(list(there)), json.dumps(list(best.values()))),
    )
    spans: dict[int, list[tuple[int, int, int]]] = {}
    for memory_id, passage_id, start, stop in rows:
        spans.setdefault(memory_id, []).append((passage_id, start, stop))
    found: dict[int, Passage] = {}
    for memory_id, own in spans.items():
        with as_stored("the list of passages"):
            text = there[memory_id].text
        chosen = next((span for span in own if span[0] == best.get(memory_id)), own[0])
        wanted = [whole_word(fold(word)) for word in matched.get(memory_id, ())] if len(own) > 1 else []
        most = _held(text, chosen, wanted) if len(own) > 1 else 1
        if not most and wanted:
            for span in own:
                held = _held(text, span, wanted)
                if held > most:
                    chosen, most = span, held
                if most == len(wanted):
                    break
        found[memory_id] = Passage(start=chosen[1], stop=chosen[2], text=text[chosen[1] : chosen[2]])
    return found


def _held(text: str, span: tuple[int, int, int], wanted: Sequence[regex.Pattern[str]]) -> int:
    """Count the words of the query that stand in a passage, whole and as spelt."""
    passage = fold(text[span[1] : span[2]])
    return sum(word.search(passage) is not None for word in wanted)

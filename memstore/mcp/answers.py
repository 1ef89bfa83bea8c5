"""Memories as a model is given them: as data, cleaned, fenced, and never more than a bounded number of characters."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memstore import checks
from memstore.cleaning import plain
from memstore.context import DOUBT, NOTE, fenced
from memstore.records import Hit, Memory, SearchResult

# About 6,000 tokens for the texts of one answer; clients warn or cut from 10,000 to 25,000 on.
_MOST_CHARACTERS = 24_000
# With what is known of each memory beside its text, tags above all; what comes after is left for the next answer.
_MOST_WITH_NAMES = 48_000
_LONGEST_SHARE = 2_000
_SHORTEST_SHARE = 240
_LONGEST_NAME = 200
_MOST_TAGS = 20
_LARGEST_METADATA = 4_000
_LONGEST_NOTICE = 400
# What the metadata of a memory names the program that stored it by; a caller's own fields are seldom called that.
STORED_BY = "stored_by"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a tool answers: a text for a reader, and the same as data."""

    text: str
    data: Mapping[str, Any]


def found(result: SearchResult, notices: Sequence[str]) -> Answer:
    """Return the hits of a search; of a long memory the part that answers."""
    share = share_of(len(result))
    memories = _fitting(_hit(hit, share) for hit in result)
    said = [*notices, *_partly(memories)]
    if left := len(result) - len(memories):
        said.append(f"{left:,} more {'was' if left == 1 else 'were'} found; their names and tags had no room.")
    note = DOUBT if result.uncertain else NOTE
    data = {"note": note, "memories": memories, "uncertain": bool(memories) and result.uncertain, "notices": said}
    nothing = "Nothing was found."
    if result.withheld and not memories:
        nothing = "Nothing that is stored is likely to matter here."
    return Answer(text=_text(memories, said, note) if memories else "\n".join([nothing, *said]), data=data)


def listed(memories: Sequence[Memory], total: int, offset: int) -> Answer:
    """Return a page of memories, each as much of its beginning as there is room for."""
    share = share_of(len(memories))
    shown = _fitting(part(one, 0, share) for one in memories)
    data: dict[str, Any] = {"note": NOTE, "memories": shown, "total": total}
    said = [f"{offset + 1:,} to {offset + len(shown):,} of {total:,}." if shown else f"None of {total:,} is left."]
    if offset + len(shown) < total and shown:
        data["next_offset"] = offset + len(shown)
        said = [f"{said[0]} The next page begins at offset {data['next_offset']}."]
    said += _partly(shown)
    return Answer(text=_text(shown, said, NOTE) if shown else said[0], data=data)


def read(memory: Memory, offset: int, limit: int) -> Answer:
    """Return one memory with all that is known of it, from a character of its text on."""
    shown = part(memory, offset, limit)
    shown["updated_at"] = moment(memory.updated_at)
    if memory.expires_at is not None:
        shown["expires_at"] = moment(memory.expires_at)
    if memory.replaces is not None:
        shown["replaces"] = memory.replaces
    program = stored_by(memory.metadata)
    if program is not None and program.get("version"):
        shown["client_version"] = name(str(program["version"]))
    others = {field: value for field, value in memory.metadata.items() if field != STORED_BY or program is None}
    if others:
        shown["metadata"] = _bounded(others)
    data: dict[str, Any] = {"note": NOTE, "memory": shown}
    said = []
    if offset + limit < len(memory.text):
        data["next_offset"] = offset + limit
        said = [
            f"Characters {offset:,} to {offset + limit:,} of {len(memory.text):,}; get reads on from {offset + limit}."
        ]
    return Answer(text=_text([shown], said, NOTE), data=data)


def part(memory: Memory, start: int, length: int) -> dict[str, Any]:
    """Return a memory with at most so many characters of its text, and where they stand in it if that is not all."""
    text = memory.text[start : start + length]
    shown: dict[str, Any] = {"id": memory.id, "date": moment(memory.created_at)}
    for field, value in (("author", memory.author), ("thread", memory.thread), ("key", memory.key)):
        if value is not None:
            shown[field] = name(value)
    if memory.tags:
        shown["tags"] = [name(tag) for tag in memory.tags[:_MOST_TAGS]]
    if memory.namespace != "default":
        shown["namespace"] = name(memory.namespace)
    if program := stored_by(memory.metadata):
        # Alone, as the filter takes it.
        shown["client"] = name(str(program["name"]))
    if memory.replaced_by:
        shown["replaced_by"] = list(memory.replaced_by[:_MOST_TAGS])
    if len(text) < len(memory.text):
        shown |= {"characters": len(memory.text), "offset": start}
    # Last, where the text that stands below begins.
    return shown | {"text": plain(text).strip()}


def stored_by(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the program that stored a memory, by name and version; None where that is not known."""
    program = metadata.get(STORED_BY)
    return program if isinstance(program, Mapping) and program.get("name") else None


def name(value: str) -> str:
    """Return a name as it is shown: on one line, without controls, cut where it is long."""
    line = " ".join(plain(value).split())
    return line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"


def notice(sentence: str) -> str:
    """Return a sentence about an answer on one line; it may name what the file holds."""
    line = " ".join(plain(sentence).split())
    return line if len(line) <= _LONGEST_NOTICE else f"{line[: _LONGEST_NOTICE - 1]}…"


def moment(value: datetime) -> str:
    """Return a time as the clock of this machine shows it, to the second."""
    return checks.here(value).isoformat(timespec="seconds")


def share_of(number: int) -> int:
    """Return how many characters each of so many texts may have."""
    return max(_SHORTEST_SHARE, min(_LONGEST_SHARE, _MOST_CHARACTERS // max(1, number)))


def _hit(hit: Hit, share: int) -> dict[str, Any]:
    start, length = 0, share
    if hit.passage is not None and len(hit.memory.text) > share:
        start, length = hit.passage.start, min(share, hit.passage.stop - hit.passage.start)
    shown = part(hit.memory, start, length)
    text = shown.pop("text")
    return shown | {"relevance": round(hit.relevance, 2), "text": text}


def _text(memories: Sequence[Mapping[str, Any]], said: Sequence[str], note: str) -> str:
    """Return memories as lines: of each what is known of it as JSON, which no name can imitate, then its text."""
    body = []
    for one in memories:
        known = {field: value for field, value in one.items() if field != "text"}
        text = one["text"].replace("\n", "\n  ")
        body.append(f"{json.dumps(known, ensure_ascii=False)}\n  {text}")
    return "\n".join([fenced(body, note), *said])


def _fitting(memories: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first memories that one answer has room for, always one."""
    there: list[dict[str, Any]] = []
    room = _MOST_WITH_NAMES
    for one in memories:
        room -= len(json.dumps(one, ensure_ascii=False))
        if there and room < 0:
            break
        there.append(one)
    return there


def _partly(memories: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    cut = [str(one["id"]) for one in memories if "characters" in one]
    if cut:
        yield f"Of {', '.join(cut)} this is a part; get reads the whole."


def _bounded(metadata: Mapping[str, Any]) -> Any:
    """Return metadata as data without controls; what is too long is left out, and said."""
    encoded = json.dumps(metadata, ensure_ascii=False)
    if len(encoded) > _LARGEST_METADATA:
        return {"left out": f"{len(encoded):,} characters of JSON"}
    return _cleaned(metadata)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(field): _cleaned(one) for field, one in value.items()}
    return [_cleaned(one) for one in value] if isinstance(value, list | tuple) else value

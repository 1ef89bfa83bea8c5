"""The write-ahead log beside a file, as far as it can be believed (https://www.sqlite.org/fileformat2.html, 4)."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

_HEAD = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
# The lowest bit says in which order of bytes the sums were made.
_MAGIC = 0x377F0682
_Sums: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The pages that committed writes have left in a log, the latest of each, and how many pages the file then has.

    `unfinished` counts frames of a write that was never committed; `lost` those that can't be believed while writes
    were committed in or behind them. A log whose head can't be read is `unreadable`.
    """

    page_size: int = 0
    pages: Mapping[int, bytes] = field(default_factory=dict)
    page_count: int = 0
    unfinished: int = 0
    lost: int = 0
    unreadable: bool = False


def read_log(content: bytes) -> Log:
    """Return what a log holds: all frames whose sums and salts fit, up to the last that committed a write."""
    if not content.strip(b"\x00"):
        return Log()
    if len(content) < _HEAD.size:
        return Log(unreadable=True)
    magic, _, page_size, _, salt, other_salt, *stored = _HEAD.unpack_from(content)
    order: Literal["<", ">"] = ">" if magic & 1 else "<"
    sums = _summed(content[: _HEAD.size - 8], (0, 0), order)
    if magic & ~1 != _MAGIC or sums != tuple(stored) or page_size < 512 or page_size & (page_size - 1):
        return Log(unreadable=True)
    pages: dict[int, bytes] = {}
    waiting: dict[int, bytes] = {}
    page_count = unfinished = lost = 0
    believed = True
    for at in range(_HEAD.size, len(content) - _FRAME.size - page_size + 1, _FRAME.size + page_size):
        number, count, *salts = _FRAME.unpack_from(content, at)
        if salts[:2] != [salt, other_salt]:
            # It is of before the log was begun anew, or damaged: in the second case frames that fit come behind it.
            believed = False
            continue
        body = content[at + _FRAME.size : at + _FRAME.size + page_size]
        if believed:
            sums = _summed(body, _summed(content[at : at + 8], sums, order), order)
            believed = sums == tuple(salts[2:]) and number > 0
        if not believed:
            unfinished += 1
            lost = unfinished if count else lost
            continue
        waiting[number] = body
        unfinished += 1
        if count:
            pages |= waiting
            page_count, unfinished, waiting = count, 0, {}
    return Log(page_size=page_size, pages=pages, page_count=page_count, unfinished=unfinished - lost, lost=lost)


def _summed(content: bytes, sums: _Sums, order: Literal["<", ">"]) -> _Sums:
    one, other = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + other) & 0xFFFFFFFF
        other = (other + second + one) & 0xFFFFFFFF
    return one, other

"""Varints and records as SQLite writes them (https://www.sqlite.org/fileformat2.html, 1.6 and 2.1)."""

import struct
from typing import TypeAlias

Value: TypeAlias = int | float | str | bytes | None

_LONGEST_VARINT = 9
_INTEGER_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_FLOAT, _ZERO, _ONE, _FIRST_BLOB = 7, 8, 9, 12


class BrokenRecordError(ValueError):
    """Bytes that can't be what they should be."""


def varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, as 64 bits without a sign, and the place behind it."""
    value = 0
    for step in range(_LONGEST_VARINT):
        if at + step >= len(content):
            raise BrokenRecordError("a number runs over the end")
        byte = content[at + step]
        if step == _LONGEST_VARINT - 1:
            return value << 8 | byte, at + _LONGEST_VARINT
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return value, at + step + 1


def signed(value: int) -> int:
    """Return 64 bits as a number with a sign."""
    return value - (1 << 64) if value >> 63 else value


def record(payload: bytes) -> tuple[tuple[Value, ...], bool]:
    """Return the values of a record, and whether its bytes sufficed for all of them.

    Where they did not, the value that they end in is what there is of it, if it is text or bytes, and those behind it
    are left out. Text that is not UTF-8 has U+FFFD where it is not. Raises `BrokenRecordError` where the head of the
    record means nothing.
    """
    size, at = varint(payload, 0)
    if not at <= size <= len(payload):
        raise BrokenRecordError("the head of a record is longer than the record")
    kinds: list[int] = []
    while at < size:
        kind, at = varint(payload, at)
        kinds.append(kind)
    if at != size:
        raise BrokenRecordError("the head of a record does not end where it says")
    values: list[Value] = []
    for kind in kinds:
        width = _width(kind)
        part = payload[at : at + width]
        if len(part) < width:
            if kind >= _FIRST_BLOB:
                values.append(_value(kind, part))
            return tuple(values), False
        values.append(_value(kind, part))
        at += width
    return tuple(values), at == len(payload)


def _width(kind: int) -> int:
    if kind >= _FIRST_BLOB:
        return (kind - _FIRST_BLOB) // 2
    if kind in (0, _ZERO, _ONE):
        return 0
    if kind == _FLOAT:
        return 8
    if kind not in _INTEGER_SIZES:
        raise BrokenRecordError(f"there is no serial type {kind}")
    return _INTEGER_SIZES[kind]


def _value(kind: int, part: bytes) -> Value:
    if kind >= _FIRST_BLOB:
        return part.decode("utf-8", errors="replace") if kind % 2 else part
    if kind == 0:
        return None
    if kind == _FLOAT:
        return float(struct.unpack(">d", part)[0])
    return kind - _ZERO if kind in (_ZERO, _ONE) else int.from_bytes(part, "big", signed=True)

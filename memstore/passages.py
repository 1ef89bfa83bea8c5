"""A memory's text cut into the spans that embedders see."""

from itertools import pairwise

import regex

# The size of a passage, in units of roughly a quarter of a token: a character counts one, an unspaced script's four.
# On judged Portuguese abstracts the bundled model alone gave hit@1/hit@10 of .729/.923 with 400 units, .720/.940 with
# 600, .697/.932 with 800, .671/.927 with 1200 (examples/passage_size.py measures it again); 600 units stay below 256
# tokens, so no model in use cuts a passage.
PASSAGE_UNITS = 600
_OVERLAP_UNITS = 100
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_WIDE = regex.compile(rf"{_UNSPACED}|\p{{Hangul}}")
# A sentence ends at its mark and the white space behind it, at a mark of an unspaced script, or at an empty line.
_SENTENCE_END = regex.compile(r"(?:(?<![.!?…])[.!?…]++(?=\s)|[。！？]+|\n\s*\n)\s*")
_WORD = regex.compile(r"\S*\s*")
_WHOLE_WORD = regex.compile(rf"\s*(?:{_UNSPACED}\p{{M}}*+|(?:(?!{_UNSPACED})\S)++)\s*")


def cut(text: str, units: int = PASSAGE_UNITS) -> list[tuple[int, int]]:
    """Return the passages of `text` as (start, stop) in characters, at least one, covering all of it.

    Each holds at most `units`, whole sentences where they fit, else whole words; the next one repeats the last
    sentence when that is short, so that what spans the bound is seen together.
    """
    if _units(text) <= units:
        return [(0, len(text))]
    spans: list[tuple[int, int]] = []
    start = stop = filled = 0
    overlap = (0, 0)
    for first, last in _pieces_of(text, units):
        size = _units(text[first:last])
        if filled and filled + size > units:
            spans.append((start, stop))
            start, filled = (overlap[0], overlap[1]) if overlap[1] + size <= units else (first, 0)
        filled += size
        stop = last
        overlap = (first, size) if size <= _OVERLAP_UNITS else (last, 0)
    spans.append((start, stop))
    return spans


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the sentences of `text` as (start, stop) in characters, each with the white space behind it."""
    stops = [match.end() for match in _SENTENCE_END.finditer(text)]
    return [(start, stop) for start, stop in pairwise([0, *stops, len(text)]) if start < stop]


def words(text: str) -> list[tuple[int, int]]:
    """Return the words of `text` as (start, stop), with the white space round them; characters in unspaced scripts."""
    return [match.span() for match in _WHOLE_WORD.finditer(text)]


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text) + 3 * len(_WIDE.findall(text))


def _pieces_of(text: str, units: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, stop in sentences(text):
        whole = _units(text[start:stop]) <= units
        found.extend([(start, stop)] if whole else _pieces(text, start, stop, units))
    return found


def _pieces(text: str, start: int, stop: int, units: int) -> list[tuple[int, int]]:
    """Cut a sentence that is too long into runs of words, and a word that is too long into runs of characters."""
    found: list[tuple[int, int]] = []
    first, filled = start, 0
    for match in _WORD.finditer(text, start, stop):
        size = _units(match.group())
        if filled and filled + size > units:
            found.append((first, match.start()))
            first, filled = match.start(), 0
        filled += size
        if filled > units:
            step = max(1, units // 4)
            found.extend((at, min(at + step, match.end())) for at in range(first, match.end(), step))
            first, filled = match.end(), 0
    if first < stop:
        found.append((first, stop))
    return found

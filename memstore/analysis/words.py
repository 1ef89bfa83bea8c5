"""Text to words: what is one term, what is also its parts.

A *word* is a run of letters, marks and digits by Unicode rules. A *compound* (`err-4018`, `src/db.py`, `18,90`,
`C++`, `read_csv_safe`) is one whole term next to the words that it is made of. Scripts written without spaces
give overlapping pairs of characters.
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import regex

# What never stands inside a code, path, address or price: it parts one piece of text from the next.
_SEPARATORS = r"\s\p{C}()\[\]{}<>\"`|;!*^…—–―•·«»“”„‟¿¡‹›、。「」『』（），！？；：《》【】"
# \p{C} takes the joiners with it, and Persian words and family emoji need them.
_PIECE = regex.compile(rf"(?:[^{_SEPARATORS}]|[\u200c\u200d])+")
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_UNSPACED_RUN = regex.compile(rf"[{_UNSPACED}ー々]+")
_SPACED = rf"[\p{{L}}\p{{M}}\p{{N}}--{_UNSPACED}]"
# Runs of one set: a choice at each character would fill the memory on a run of millions of letters.
_WORD = regex.compile(
    rf"(?V1)(?P<unspaced>[{_UNSPACED}ー々][{_UNSPACED}ー々\p{{M}}]*+)"
    rf"|(?P<word>{_SPACED}++(?:[\u200c\u200d](?=\p{{L}}){_SPACED}*+)*+)"
    r"|(?P<emoji>\p{Extended_Pictographic}[\p{M}\p{EMod}]*(?:\u200d\p{Extended_Pictographic}[\p{M}\p{EMod}]*)*|\p{RI}\p{RI})"
)
_HUMP = regex.compile(r"(?<=\p{Ll})(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})")
# A comma belongs to a number and parts words: `18,90` but `x` `,` `y`.
_WORD_COMMA = regex.compile(r",(?!\d)|(?<!\d),")
_LEADING = regex.compile(r"^(?:\.+(?![\p{L}\d/])|\.{2,}(?=[\p{L}\d])|-+(?!\p{L})|[^\p{L}\p{M}\p{N}\p{So}.#@~/$€£\\-])+")
_ENDING = regex.compile(r"[\p{L}\p{M}\p{N}\p{So}\p{EMod}€£]")
_JOINTS = regex.compile(r"[/\\@?=&:#~]+")
_VERSION = regex.compile(r"^v(?=\d)")

_UNDECOMPOSED = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h", "ŋ": "n", "’": "'"}
)
# FTS5 cuts a term at 32,768 bytes: cut before, it is the same term for the index and for whoever asks.
_LONGEST_TERM = 8_000
_ACCENTS = regex.compile(r"[\u0300-\u036f]+")


def fold(text: str) -> str:
    """Return `text` without case, accents and compatibility forms: `Łódź` gives `lodz`, `Straße` `strasse`.

    Marks that make another letter rather than an accent (Hindi vowel signs, Arabic, Thai) stay.
    """
    if text.isascii():
        return text.lower()
    # Twice, since a compatibility form can hold a capital: ™ is TM.
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", decomposed)).translate(_UNDECOMPOSED)


def term(word: str) -> str:
    """Return a word folded, as one term: no white space, which a lone accent can fold to."""
    return "".join(fold(word).split())[:_LONGEST_TERM]


def exact(word: str) -> str:
    """Return a word as spelt, as one term: without case and compatibility forms, its accents kept."""
    if word.isascii():
        return word.lower()[:_LONGEST_TERM]
    # Twice, as in `fold`: a compatibility form can hold a capital.
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    return "".join(plain.split())[:_LONGEST_TERM]


def pieces(text: str) -> Iterator[tuple[str, int]]:
    """Yield each piece between separators, trimmed of the punctuation around it, and where it starts.

    Pieces are what a code, a path or an address can be: `(see src/db.py)` gives `see` and `src/db.py`.
    """
    for match in _PIECE.finditer(text):
        start = match.start()
        for part in _split_commas(match.group()):
            core = _without_trailing(part)
            trimmed = _LEADING.sub("", core)
            if trimmed:
                yield trimmed, start + len(core) - len(trimmed)
            start += len(part) + 1


def _without_trailing(piece: str) -> str:
    """Cut the punctuation behind a piece, but for `C++`, `C#`, `R$` and `12%`.

    It walks back from the end: a pattern would try every place of a long run of marks, in quadratic time.
    """
    end = len(piece)
    while end and not _ENDING.match(piece, end - 1):
        mark, start = piece[end - 1], end - 1
        while start and piece[start - 1] == mark == "+":
            start -= 1
        before = piece[start - 1] if start else ""
        if (
            (mark == "+" and before.isalnum())
            or (mark in "#$" and before.isalpha())
            or (mark == "%" and before.isdigit())
        ):
            break
        end = start
    return piece[:end]


def _split_commas(piece: str) -> list[str]:
    return _WORD_COMMA.split(piece) if "," in piece else [piece]


def words(piece: str) -> Iterator[str]:
    """Yield the words of a piece as written: letters and digits, camelCase apart, pairs of unspaced characters."""
    for match in _WORD.finditer(piece):
        found = match.group()
        if match.lastgroup == "unspaced":
            yield from ([found] if len(found) == 1 else [found[i : i + 2] for i in range(len(found) - 1)])
            continue
        if len(found) == 1 and len(piece) > 1 and found.isalpha():
            # The C of C++ and the d of d'água are no words of their own.
            continue
        yield found
        if _VERSION.match(found.lower()):
            yield found[1:]
        elif match.lastgroup == "word" and not found.islower():
            humps = _HUMP.split(found)
            if len(humps) > 1:
                yield from humps


def is_unspaced(text: str) -> bool:
    """Say whether a text has a script that is written without spaces."""
    return _UNSPACED_RUN.search(text) is not None


@lru_cache(maxsize=1_000)
def whole_word(folded: str) -> regex.Pattern[str]:
    """Return a pattern that finds a folded word in folded text where it is no part of a longer one."""
    if is_unspaced(folded):
        return regex.compile(regex.escape(folded))
    return regex.compile(rf"(?<![\p{{L}}\p{{M}}\p{{N}}]){regex.escape(folded)}(?![\p{{L}}\p{{M}}\p{{N}}])")


def compounds(piece: str) -> Iterator[str]:
    """Yield the folded whole terms of a piece that is more than one plain word: itself, then its larger parts."""
    whole = term(piece)
    if not whole or _WORD.fullmatch(whole) or _UNSPACED_RUN.search(whole):
        return
    yield whole
    seen = {whole}
    for part in _JOINTS.split(whole):
        for smaller in (part, *part.split("-"), _VERSION.sub("", part), *_VERSION.sub("", part).split("-")):
            core = _LEADING.sub("", _without_trailing(smaller))
            if core and core not in seen and not _WORD.fullmatch(core) and _WORD.search(core):
                seen.add(core)
                yield core

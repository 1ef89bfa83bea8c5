"""Text to terms, the same way for a memory and for a query."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import regex

from memstore.analysis.stems import stems
from memstore.analysis.stopwords import STOP_WORDS
from memstore.analysis.words import compounds, exact, fold, pieces, term, words

# A change of what any text gives as terms needs a higher number: each memory's terms keep the one they were made with.
ANALYSER_VERSION = 2
LANGUAGES = ("pt", "en", "es")
# A stem is another term than the word that is spelt like it, so that the exact spelling counts on its own.
STEM_MARK = "≈"
MOST_QUERY_WORDS = 1_000
_HAS_LETTER = regex.compile(r"\p{L}")
_CODE = regex.compile(r"(?=.*\p{L}).*\p{N}")
# Letters that one of the languages writes and the others do not count as much as a function word.
_LETTERS = {"pt": regex.compile(r"[ãõçâêô]"), "es": regex.compile(r"[ñ¿¡]"), "en": regex.compile(r"(?!)")}
_FOLDED_STOP_WORDS = {language: frozenset(map(fold, listed)) for language, listed in STOP_WORDS.items()}
_EVERY_STOP_WORD = frozenset[str]().union(*_FOLDED_STOP_WORDS.values())
# What a term counts for beside a word, whose spelling and stem count 1 each: a number has no stem; a code neither, and
# is rarely there by chance; words joined by a hyphen say little that each does not say; an accent only decides between
# spellings that are both there. examples/keyword_steps.py measures them.
_NUMBER_WEIGHT, _COMPOUND_WEIGHT, _JOINED_WEIGHT, _CODE_WEIGHT, _ACCENT_WEIGHT = 2.0, 2.0, 0.5, 3.0, 0.2
_JOINED = regex.compile(r"[\p{L}\p{M}]+(?:[-'][\p{L}\p{M}]+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What is known of a spelling (lower case, composed): its stem in each of a store's languages.

    `folded_stems` are those of the spelling without accents, None where that is the same.
    """

    spelling: str
    stems: tuple[str, ...]
    folded_stems: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWord:
    """One word of a query and the terms that it may stand under in the index; a compound's parts are words too."""

    word: str
    terms: tuple[str, ...]
    compound: bool = False


# Where words are looked up, for some languages: what a file has learnt, or the stemmers themselves.
Lookup: TypeAlias = Callable[[Iterable[str], tuple[str, ...]], Mapping[str, Word]]
# How a file spells a word that was typed without accents: the spellings with them, none if the plain one is there.
Respell: TypeAlias = Callable[[Iterable[str]], Mapping[str, tuple[str, ...]]]


def word_of(spelling: str, languages: tuple[str, ...]) -> Word:
    """Return what the stemmers say of a spelling."""
    folded = term(spelling)
    return Word(
        spelling=spelling,
        stems=stems(spelling, languages),
        folded_stems=None if folded == spelling else stems(folded, languages),
    )


def stamp(languages: Sequence[str]) -> str:
    """Return the name of what this program makes of texts in a store of some languages: `2 pt en es`.

    Terms that were made under another name are not those that it would make.
    """
    return " ".join((str(ANALYSER_VERSION), *languages))


def beyond(made: str) -> bool:
    """Say whether a name is that of an analysis which only a later program can do."""
    version, *languages = made.split(" ")
    number = int(version) if version.isdecimal() else 0
    return number > ANALYSER_VERSION or (number == ANALYSER_VERSION and not set(languages) <= set(LANGUAGES))


_learnt = lru_cache(maxsize=200_000)(word_of)


class Analyser:
    """Analyses memories and queries for a store of the given languages (codes from `LANGUAGES`).

    `lookup` and `respell` are what the store's file knows of words; without them the stemmers are asked each time.
    The languages of a file can change while it is open: `languages` is set anew then, and what is asked in several
    steps is asked of a `copy`.
    """

    def __init__(
        self, languages: Sequence[str] = LANGUAGES, lookup: Lookup | None = None, respell: Respell | None = None
    ) -> None:
        self.languages = tuple(languages)
        self._lookup = lookup or (lambda spellings, spoken: {one: _learnt(one, spoken) for one in spellings})
        self._respell = respell or (lambda spellings: dict.fromkeys(spellings, ()))

    @property
    def stamp(self) -> str:
        """The name of what it makes of texts."""
        return stamp(self.languages)

    def copy(self) -> "Analyser":
        """Return one that keeps its languages."""
        return Analyser(self.languages, self._lookup, self._respell)

    def detect(self, text: str) -> tuple[str, ...]:
        """Return the languages that `text` is most likely in: one, several that tie, or none when nothing tells."""
        spoken = self.languages
        sample = unicodedata.normalize("NFC", text[:20_000]).lower()
        found = [fold(word) for piece, _ in pieces(sample) for word in words(piece)]
        scores = {
            language: sum(word in _FOLDED_STOP_WORDS[language] for word in found)
            + len(_LETTERS[language].findall(sample))
            for language in spoken
        }
        best = max(scores.values(), default=0)
        return tuple(language for language in spoken if best and scores[language] == best)

    def languages_of(self, text: str, given: str | None = None) -> tuple[str, ...]:
        """Return the languages a memory is stemmed in: the given one if the store knows it, else the likely ones."""
        return (given,) if given in self.languages else self.detect(text) or self.languages

    def terms(self, text: str, languages: Sequence[str]) -> list[str]:
        """Return the terms of a memory's text, in order and repeated as often as they stand there.

        Each word stands there as spelt and as stemmed, in one of `languages`. Function words are kept, as spelt: a
        text of nothing else can be found by them.
        """
        return self.analysed(text, languages)[0]

    def analysed(self, text: str, languages: Sequence[str]) -> tuple[list[str], set[str]]:
        """Return the terms of a memory's text, and the spellings in it that were looked up."""
        spoken = self.languages
        stopped = stop_words(languages)
        read = [(list(compounds(piece)), list(words(piece))) for piece in composed(text)]
        distinct = {word for _, parts in read for word in parts}
        spellings = stemmable(word for word in distinct if term(word) not in stopped)
        known = self._lookup(spellings, spoken)
        which = tuple(spoken.index(language) for language in languages if language in spoken)
        variants: dict[str, list[str]] = {}
        found: list[str] = []
        for wholes, parts in read:
            found.extend(wholes)
            for word in parts:
                if word not in variants:
                    variants[word] = _variants(word, known.get(exact(word)), which)
                found.extend(variants[word])
        return found, spellings

    def query(self, text: str) -> tuple[QueryWord, ...]:
        """Return the distinct words of a query that carry a subject, each with its variants in every language.

        Function words of the query's likely language are left out unless nothing else is there. A question has a
        dozen words; a pasted document is asked by about its first thousand different ones.
        """
        return self._asked(text, stop_words(self.detect(text))) or self._asked(text, frozenset())

    def all_words(self, text: str) -> tuple[QueryWord, ...]:
        """Return the distinct words of a text, function words too, and the terms of each in a memory that holds it.

        Compounds are left out but where there is nothing else, as in `R$`.
        """
        found = self._asked(text, frozenset())
        return tuple(word for word in found if not word.compound) or found

    def _asked(self, text: str, stopped: frozenset[str]) -> tuple[QueryWord, ...]:
        found: dict[str, QueryWord] = {}
        spelt: dict[str, str] = {}
        order: dict[str, None] = {}
        for piece in composed(text):
            if len(order) >= MOST_QUERY_WORDS:
                break
            for whole in compounds(piece):
                if len(order) >= MOST_QUERY_WORDS:
                    break
                if whole not in stopped:
                    as_written = piece if whole == term(piece) else whole
                    found.setdefault(whole, QueryWord(word=as_written, terms=(whole,), compound=True))
                    order[whole] = None
            for word in words(piece):
                if len(order) >= MOST_QUERY_WORDS:
                    break
                # A mark that stands alone folds to nothing.
                if (spelling := exact(word)) and term(word) not in stopped:
                    spelt.setdefault(spelling, word)
                    order[spelling] = None
        spoken = self.languages
        known = self._lookup(stemmable(spelt), spoken)
        respelt = self._respell(one for one in known if known[one].folded_stems is None)
        everywhere = tuple(range(len(spoken)))
        for spelling, word in spelt.items():
            if spelling not in found:
                terms = _variants(spelling, known.get(spelling), everywhere, each=True)
                if term(spelling) in _EVERY_STOP_WORD:
                    # Memories hold function words without stems.
                    terms.append(term(spelling))
                terms.extend(respelt.get(spelling, ()))
                found[spelling] = QueryWord(word=word, terms=tuple(dict.fromkeys(terms)))
        return tuple(found[one] for one in order)


def weight(one: str) -> float:
    """Return what a term of the index counts for, a plain word counting 2: 1 as spelt and 1 as stemmed."""
    if one.startswith(STEM_MARK):
        return 1.0 if fold(one) == one else _ACCENT_WEIGHT
    if _CODE.match(one) and one.isalnum():
        return _CODE_WEIGHT
    if not one.isalnum() and len(one) > 1 and _HAS_LETTER.search(one):
        return _JOINED_WEIGHT if _JOINED.fullmatch(one) else _COMPOUND_WEIGHT
    return 1.0 if _HAS_LETTER.search(one) else _NUMBER_WEIGHT


def stop_words(languages: Sequence[str]) -> frozenset[str]:
    """Return the function words of some languages, folded."""
    return frozenset[str]().union(*(_FOLDED_STOP_WORDS[language] for language in languages))


def stemmable(found: Iterable[str]) -> set[str]:
    """Return the spellings of words that have a stem: not those of numbers, codes, marks and emoji."""
    spellings = {exact(word) for word in found}
    return {one for one in spellings if not code_like(one)}


def code_like(spelling: str) -> bool:
    """Say whether a word is a number, a code, a mark or an emoji: what has no stem."""
    return not _HAS_LETTER.search(spelling) or _CODE.match(spelling) is not None


def composed(text: str) -> Iterator[str]:
    """Yield the pieces of a text in its composed spelling."""
    return (piece for piece, _ in pieces(unicodedata.normalize("NFC", text)))


def _variants(word: str, known: Word | None, which: tuple[int, ...], *, each: bool = False) -> list[str]:
    """Return the terms of one word: as spelt, and stemmed, with and without accents.

    A query takes the stem of `each` language. A memory takes one alone, where its language is in doubt the shortest,
    which is mostly that of the word's own language: with all of them it would count for more than a memory whose
    language is known.
    """
    spelling = exact(word)
    if known is None:
        # A function word, or what has no stem, is met without its accents too.
        return [one for one in dict.fromkeys([spelling, term(spelling)]) if one]
    chosen = which if each else [min(which, key=lambda index: len(known.stems[index]))]
    terms = [spelling]
    for index in chosen:
        terms.append(STEM_MARK + term(known.stems[index]))
        if known.folded_stems is not None:
            terms += [STEM_MARK + exact(known.stems[index]), STEM_MARK + term(known.folded_stems[index])]
    return list(dict.fromkeys(terms))

"""Text to terms, the same way for a memory and for a query."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import regex

from memstore.analysis.stopwords import STOP_WORDS
from memstore.analysis.words import compounds, fold, pieces, term, words

# A change of what any text gives as terms needs a higher number: each file keeps the one that it was made with.
ANALYSER_VERSION = 1
LANGUAGES = ("pt", "en", "es")
_SNOWBALL = {"pt": "portuguese", "en": "english", "es": "spanish"}
# A stem is another term than the word that is spelt like it, so that the exact spelling counts on its own.
STEM_MARK = "≈"
MOST_QUERY_WORDS = 1_000
_HAS_LETTER = regex.compile(r"\p{L}")
# Letters that one of the languages writes and the others do not count as much as a function word.
_LETTERS = {"pt": regex.compile(r"[ãõçâêô]"), "es": regex.compile(r"[ñ¿¡]"), "en": regex.compile(r"(?!)")}
_FOLDED_STOP_WORDS = {language: frozenset(map(fold, listed)) for language, listed in STOP_WORDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWord:
    """One word of a query and the terms that it may stand under in the index."""

    word: str
    terms: tuple[str, ...]


@lru_cache(maxsize=200_000)
def stem(language: str, word: str) -> str:
    """Return the folded Snowball stem of a lower-case word in its composed spelling, accents still on it.

    The accents are folded after stemming, since the stemmer reads them: `informação` gives `inform`.
    Source: the Snowball stemmers of NLTK (https://www.nltk.org/api/nltk.stem.snowball.html).
    """
    return term(_stemmer(language)(word))


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    from nltk.stem.snowball import SnowballStemmer

    stemmed: Callable[[str], str] = SnowballStemmer(_SNOWBALL[language]).stem
    return stemmed


class Analyser:
    """Analyses memories and queries for a store of the given languages (codes from `LANGUAGES`)."""

    def __init__(self, languages: Sequence[str] = LANGUAGES) -> None:
        self.languages = tuple(languages)

    def detect(self, text: str) -> tuple[str, ...]:
        """Return the languages that `text` is most likely in: one, several that tie, or none when nothing tells."""
        sample = unicodedata.normalize("NFC", text[:20_000]).lower()
        found = [fold(word) for piece, _ in pieces(sample) for word in words(piece)]
        scores = {
            language: sum(word in _FOLDED_STOP_WORDS[language] for word in found)
            + len(_LETTERS[language].findall(sample))
            for language in self.languages
        }
        best = max(scores.values(), default=0)
        return tuple(language for language in self.languages if best and scores[language] == best)

    def languages_of(self, text: str, given: str | None = None) -> tuple[str, ...]:
        """Return the languages a memory is stemmed in: the given one if the store knows it, else the likely ones."""
        return (given,) if given in self.languages else self.detect(text) or self.languages

    def terms(self, text: str, languages: Sequence[str]) -> list[str]:
        """Return the terms of a memory's text, in order and repeated as often as they stand there.

        Each word stands there as spelt and as stemmed in each of `languages`. Function words are kept, as spelt: a
        text of nothing else can be found by them.
        """
        stopped = _stop_words(languages)
        found: list[str] = []
        for piece, _ in pieces(unicodedata.normalize("NFC", text)):
            found.extend(compounds(piece))
            for word in words(piece):
                folded = term(word)
                found.extend([folded] if folded in stopped else _variants(word, languages))
        return found

    def query(self, text: str) -> tuple[QueryWord, ...]:
        """Return the distinct words of a query that carry a subject, each with its variants in every language.

        Function words of the query's likely language are left out unless nothing else is there. A question has a
        dozen words; a pasted document is asked by about its first thousand different ones.
        """
        stopped = _stop_words(self.detect(text))
        kept: dict[str, QueryWord] = {}
        dropped: dict[str, QueryWord] = {}
        for piece, _ in pieces(unicodedata.normalize("NFC", text)):
            for whole in compounds(piece):
                word = piece if whole == term(piece) else whole
                (dropped if whole in stopped else kept).setdefault(whole, QueryWord(word=word, terms=(whole,)))
            if len(kept) >= MOST_QUERY_WORDS:
                break
            for word in words(piece):
                folded = term(word)
                found = QueryWord(word=word, terms=tuple(_variants(word, self.languages)))
                if not found.terms:
                    # A mark that stands alone folds to nothing.
                    continue
                (dropped if folded in stopped else kept).setdefault(folded, found)
        return tuple((kept or dropped).values())


def _stop_words(languages: Sequence[str]) -> frozenset[str]:
    return frozenset[str]().union(*(_FOLDED_STOP_WORDS[language] for language in languages))


def _variants(word: str, languages: Sequence[str]) -> list[str]:
    surface = term(word)
    if not surface:
        return []
    if not _HAS_LETTER.search(surface):
        return [surface]
    lower = word.lower()
    return list(dict.fromkeys([surface, *(STEM_MARK + stem(language, lower) for language in languages)]))

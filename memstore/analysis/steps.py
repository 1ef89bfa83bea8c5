"""The steps from a text to its terms, one by one, for whoever wants to see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memstore.analysis.analyser import LANGUAGES, Analyser, QueryWord, code_like, composed, stop_words
from memstore.analysis.stems import snowball, stem
from memstore.analysis.words import compounds, exact, term, words
from memstore.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What each step makes of a text, in order.

    `words` are folded, without case and accents; `stop_words` those of them that are grammar, `kept` the others.
    `snowball` gives the stem of each kept word as the stemmer has it and `stems` with what it leaves apart mended, both
    folded, by language; where the language is in doubt a memory is indexed under the shortest. `codes` are the
    compounds that are one term next to their parts. `terms` is what a memory of this text is indexed under (`≈` marks a
    stem), `query` what a query of it asks for: one of the terms of each word.
    """

    text: str
    languages: tuple[str, ...]
    words: tuple[str, ...]
    stop_words: tuple[str, ...]
    kept: tuple[str, ...]
    snowball: Mapping[str, tuple[str, ...]]
    stems: Mapping[str, tuple[str, ...]]
    codes: tuple[str, ...]
    terms: tuple[str, ...]
    query: tuple[QueryWord, ...]


def analyze(text: str, *, languages: Sequence[str] = LANGUAGES, language: str | None = None) -> Analysis:
    """Return what each step of the analysis makes of a text, in a store of some languages.

    `language` is that of the memory, detected when not given. Raises `InvalidInputError` on what is no text, and on a
    language that is not known.
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"text is {type(text).__name__}, not str.")
    for one in (*languages, *([] if language is None else [language])):
        if one not in LANGUAGES:
            raise InvalidInputError(f"the language {one!r} is unknown; give some of {', '.join(LANGUAGES)}.")
    analyser = Analyser(languages or LANGUAGES)
    own = analyser.languages_of(text, language)
    stopped = stop_words(own)
    parts = [part for piece in composed(text) for part in words(piece) if term(part)]
    kept = [part for part in parts if term(part) not in stopped]
    spelt = [exact(part) for part in kept]
    return Analysis(
        text=text,
        languages=own,
        words=tuple(map(term, parts)),
        stop_words=tuple(term(part) for part in parts if term(part) in stopped),
        kept=tuple(map(term, kept)),
        snowball={one: tuple(term(snowball(one, word)) for word in spelt) for one in own},
        stems={one: tuple(term(word if code_like(word) else stem(one, word)) for word in spelt) for one in own},
        codes=tuple(dict.fromkeys(code for piece in composed(text) for code in compounds(piece))),
        terms=tuple(analyser.terms(text, own)),
        query=analyser.query(text),
    )

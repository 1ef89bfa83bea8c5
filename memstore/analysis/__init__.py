"""Text to terms: words, codes, stems, spellings with and without accents."""

from memstore.analysis.analyser import (
    ANALYSER_VERSION,
    LANGUAGES,
    STEM_MARK,
    Analyser,
    Lookup,
    QueryWord,
    Respell,
    Word,
    beyond,
    stamp,
    weight,
    word_of,
)
from memstore.analysis.dates import CALENDAR, spoken, written
from memstore.analysis.steps import Analysis, analyze
from memstore.analysis.stopwords import STOP_WORDS
from memstore.analysis.words import compounds, exact, fold, is_unspaced, pieces, term, whole_word, words

__all__ = [
    "ANALYSER_VERSION",
    "CALENDAR",
    "LANGUAGES",
    "STEM_MARK",
    "STOP_WORDS",
    "Analyser",
    "Analysis",
    "Lookup",
    "QueryWord",
    "Respell",
    "Word",
    "analyze",
    "beyond",
    "compounds",
    "exact",
    "fold",
    "is_unspaced",
    "pieces",
    "spoken",
    "stamp",
    "term",
    "weight",
    "whole_word",
    "word_of",
    "words",
    "written",
]

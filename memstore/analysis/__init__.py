"""Text to terms: words, codes, stems, folded spellings."""

from memstore.analysis.analyser import ANALYSER_VERSION, LANGUAGES, Analyser, QueryWord, stem
from memstore.analysis.dates import spoken
from memstore.analysis.words import compounds, fold, pieces, words

__all__ = [
    "ANALYSER_VERSION",
    "LANGUAGES",
    "Analyser",
    "QueryWord",
    "compounds",
    "fold",
    "pieces",
    "spoken",
    "stem",
    "words",
]

"""Words to stems: NLTK's Snowball, and what it leaves apart that belongs together."""

from collections.abc import Callable
from functools import cache

import regex

from memstore import forking

_SNOWBALL = {"pt": "portuguese", "en": "english", "es": "spanish"}
_PORTUGUESE = (
    # Plurals that are not the singular and an s, and the spellings of both without their accents.
    (regex.compile(r"(?<=\p{L}{2})(?:ç|c)(?:ão|ao|ões|oes)$"), "ção"),
    (regex.compile(r"(?<=\p{L})(?:ão|ao|ões|oes|ãos|aos)$"), "ão"),
    (regex.compile(r"(?<=^p|^c|\p{L}{2}[lnrt])(?:ã|a)es$"), "ão"),
    (regex.compile(r"(?<=\p{L}[aeiou])ns$"), "m"),
    (regex.compile(r"(?<=\p{L}{2})ais$"), "al"),
    (regex.compile(r"(?<=\p{L}[aeiouáéíóúâêô])veis$"), "vel"),
    (regex.compile(r"(?<=\p{L}{2}c)eis$"), "il"),
    (regex.compile(r"(?<=[áéíóúâêô]\p{L}{1,3})eis$"), "il"),
    (regex.compile(r"(?<=\p{L}{2})(?:éis|eis)$"), "el"),
    (regex.compile(r"(?<=\p{L}(?<!^her))óis$|(?<=\p{L}{3}(?<!^her))ois$"), "ol"),
    (regex.compile(r"(?<=\p{L}{2})uis$"), "ul"),
    # No verb in -imos has an accent before.
    (regex.compile(r"(?<=[áéíóúâêô]\p{L}+)imos$"), "imo"),
    (regex.compile(r"(?<=\p{L}{3})eses$"), "ês"),
    (regex.compile(r"(?<=^[^áéíóúâêô]+[bcdfglmnprtvz])is$"), "il"),
)
_SPANISH = (
    # The singular in -en loses more than its plural does: joven gives jov, jóvenes joven.
    (regex.compile(r"(?<=\p{L}{3})enes$"), "en"),
    # Plurals that lose more than their singular does, or are taken for a verb with a pronoun.
    (regex.compile(r"(?<=\p{L}{2}d)es$"), ""),
    (regex.compile(r"(?<=\p{L}{3})eses$"), "és"),
    (regex.compile(r"(?<=\p{L})eas$"), "ea"),
    (regex.compile(r"(?<=\p{L}ier)nos$"), "no"),
    (regex.compile(r"(?<=[áéíóú]\p{L}+)imos$"), "imo"),
)
_REPAIRS = {"pt": _PORTUGUESE, "es": _SPANISH, "en": ()}
# Where Snowball leaves an s behind one of these it is a plural: of a short word (erros, pés, años) or of a borrowed one
# (bugs, links). Words in -us are mostly singular (vírus, ônibus), but for diphthongs (museus, graus).
_PLURAL = regex.compile(
    r"(?<=\p{L}{2}[aeo]|\p{L}[bcdfgklmprtvwáéóúãô]|\p{L}{2}[ae]u|\p{L}éu|^\p{L}ei|^heró?i|^hero?i)s$"
)
# What only looks like a plural.
_NO_PLURALS = "aliás após apos atlas atrás caos deus detrás dios gás interés interes jamás seis zeus"
_SINGULAR = frozenset(_NO_PLURALS.split())
_SPANISH_Z = regex.compile(r"(?<=[aeiou])z$")
# What has no Latin letter has no ending that is known here: asking would only take time, most of it in Chinese.
_LATIN = regex.compile(r"\p{Latin}")


def snowball(language: str, word: str) -> str:
    """Return the Snowball stem of a lower-case word in its composed spelling, its accents still on it.

    The stemmer reads the accents: `informação` gives `inform`, `informacao` would give `informaca`. Source: NLTK
    (https://www.nltk.org/api/nltk.stem.snowball.html); the import waits until a word is stemmed.
    """
    return _stemmer(language)(word)


def stem(language: str, word: str) -> str:
    """Return the stem under which the forms of a word meet, its accents still on it.

    What Snowball leaves apart is brought together first: Portuguese `-ção/-ções`, `-ão/-ões`, `-m/-ns`, `-l/-is`,
    Spanish `-en/-enes` and `-z/-ces`, the plural of short words (`erro/erros`, `año/años`), and the spelling of each
    without accents.
    """
    if word not in _SINGULAR:
        for ending, singular in _REPAIRS[language]:
            repaired, changed = ending.subn(singular, word)
            if changed:
                word = repaired
                break
    found = snowball(language, word)
    if language == "en" or word in _SINGULAR:
        return found
    if _PLURAL.search(found):
        found = snowball(language, _PLURAL.sub("", word))
    return _SPANISH_Z.sub("c", found) if language == "es" and word.endswith("z") else found


def stems(word: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the stem of a word in each of some languages."""
    if not _LATIN.search(word):
        return (word.lower(),) * len(languages)
    return tuple(stem(language, word) for language in languages)


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    with forking.using_a_model():
        from nltk.stem.snowball import SnowballStemmer

    stemmed: Callable[[str], str] = SnowballStemmer(_SNOWBALL[language]).stem
    return stemmed

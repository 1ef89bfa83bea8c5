"""Dates as people write them and ask for them."""

from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache

import regex

from memstore.analysis.words import fold

_PORTUGUESE = "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro"
_SPANISH = "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
_ENGLISH = "January February March April May June July August September October November December"
_SHORT = "jan feb mar apr may jun jul aug sep oct nov dec"
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
_MONTHS = {"pt": _PORTUGUESE.split(), "es": _SPANISH.split(), "en": _ENGLISH.split()}
_NUMBERS = {
    fold(name): number for names in (*_MONTHS.values(), _SHORT.split()) for number, name in enumerate(names, start=1)
}
_NUMBERS |= {"sept": 9, "setiembre": 9}
# Words with a capital for the calendar's sake, that are no names by themselves, but for those that people have.
CALENDAR = frozenset([*_DAYS.split(), *_ENGLISH.split(), *_PORTUGUESE.title().split(), *_SPANISH.title().split()]) - {
    *["April", "June", "Julio", "Mayo"]
}
_MONTH = rf"(?P<month>{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_CAPITAL_MONTH = rf"(?P<month>{'|'.join((*_ENGLISH.split(), *_SHORT.title().split(), 'Sept'))})"
_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th|\.?o|°)?"
_YEAR = r"(?P<year>[12][0-9]{3})"
_OF = r"(?:\s(?:de|del|of))?"
_WRITTEN = (
    regex.compile(rf"(?<![\w.-]){_YEAR}-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}})(?!(?!t[0-9])[\w-]|\.\w)"),
    regex.compile(rf"(?<![\w./-]){_YEAR}/(?P<month>[0-9]{{2}})/(?P<day>[0-9]{{2}})(?![\w/-]|\.\w)"),
    regex.compile(
        rf"(?<![\w./-])(?P<day>[0-9]{{1,2}})(?P<mark>[/.])(?P<month>[0-9]{{1,2}})(?P=mark){_YEAR}(?![\w/]|\.\w)"
    ),
    regex.compile(rf"(?<![\w.,:/-]){_DAY}{_OF}\s{_MONTH}\b(?:\.?,?{_OF}\s{_YEAR})?(?!\w)"),
    regex.compile(rf"\b{_MONTH}\b\.?\s{_DAY},?\s{_YEAR}(?!\w)"),
    regex.compile(rf"\b{_MONTH}\b\.?,?{_OF}\s{_YEAR}\b"),
)
# Without a year an English month before its day has a capital: not "I may 5", "we march 14 miles".
_CAPITAL = regex.compile(rf"\b{_CAPITAL_MONTH}\b\.?\s{_DAY}(?!\w)")
_DIGIT = regex.compile(r"[0-9]")


def spoken(day: date, languages: Sequence[str]) -> str:
    """Return a date as ISO 8601 and with the name of its month in each language: `2023-05-08 maio May mayo`."""
    names = dict.fromkeys(_MONTHS[language][day.month - 1] for language in languages if language in _MONTHS)
    return " ".join([day.isoformat(), *names])


def written(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield each date of a text: where it starts and ends, and the date as ISO 8601 as far as it goes.

    `8 de maio de 2023` and `May 8, 2023` give `2023-05-08`, `maio de 2023` gives `2023-05`, `14 March` `--03-14`. Of
    `3/4/2025` the day comes first, as in Portuguese and Spanish, unless that is no date; no year alone is a date.
    """
    if not _DIGIT.search(text):
        return
    # Folding must keep each character's place, or the places that are found are those of another text.
    folded = fold(text) if text.isascii() else "".join(_folded(one) for one in text)
    matches = (*(match for form in _WRITTEN for match in form.finditer(folded)), *_CAPITAL.finditer(text))
    found = [(*match.span(), day) for match in matches if (day := _iso(match.groupdict())) is not None]
    end = 0
    for start, stop, day in sorted(found, key=lambda one: (one[0], -one[1])):
        if start >= end:
            yield start, stop, day
            end = stop


@lru_cache(maxsize=4_000)
def _folded(character: str) -> str:
    plain = fold(character)
    return plain if len(plain) == 1 else character


def _iso(parts: dict[str, str | None]) -> str | None:
    named, numbered = str(parts["month"]), parts.get("day")
    month = int(named) if named.isdigit() else _NUMBERS[fold(named)]
    day = int(numbered) if numbered else None
    if parts.get("mark") and day is not None and month > 12:
        day, month = month, day
    year = parts.get("year")
    try:
        # A leap year stands for a year that is not said.
        date(int(year or 2000), month, 1 if day is None else day)
    except ValueError:
        return None
    if year is None:
        return f"--{month:02}-{day:02}"
    return f"{year}-{month:02}" if day is None else f"{year}-{month:02}-{day:02}"

"""A date as the words that people ask for it with."""

from collections.abc import Sequence
from datetime import date

_MONTHS = {
    "pt": [
        "janeiro",
        "fevereiro",
        "março",
        "abril",
        "maio",
        "junho",
        "julho",
        "agosto",
        "setembro",
        "outubro",
        "novembro",
        "dezembro",
    ],
    "es": [
        "enero",
        "febrero",
        "marzo",
        "abril",
        "mayo",
        "junio",
        "julio",
        "agosto",
        "septiembre",
        "octubre",
        "noviembre",
        "diciembre",
    ],
    "en": [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ],
}


def spoken(day: date, languages: Sequence[str]) -> str:
    """Return a date as ISO 8601 and with the name of its month in each language: `2023-05-08 maio May mayo`."""
    names = dict.fromkeys(_MONTHS[language][day.month - 1] for language in languages if language in _MONTHS)
    return " ".join([day.isoformat(), *names])

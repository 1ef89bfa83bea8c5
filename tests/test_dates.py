"""Dates in texts: the forms in which three languages write them, where they stand, and what is no date."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstore.analysis import LANGUAGES, spoken, written

MONTHS = {
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "en": "January February March April May June July August September October November December",
}


def name(language: str, month: int) -> str:
    return MONTHS[language].split()[month - 1]


def dates(text: str) -> list[tuple[str, str]]:
    """Return what is taken for a date, as it stands in the text and as ISO 8601, in the order of the text."""
    return [(text[start:stop], day) for start, stop, day in sorted(written(text))]


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        # Portuguese
        ("8 de maio de 2023", "2023-05-08"),
        ("08 de maio de 2023", "2023-05-08"),
        ("8 de Maio de 2023", "2023-05-08"),
        ("8 DE MAIO DE 2023", "2023-05-08"),
        ("8 maio 2023", "2023-05-08"),
        ("8 de maio, 2023", "2023-05-08"),
        ("1º de maio de 2023", "2023-05-01"),
        ("1o de maio de 2023", "2023-05-01"),
        ("3 de março de 2024", "2024-03-03"),
        ("3 de marco de 2024", "2024-03-03"),
        ("31 de dezembro de 1999", "1999-12-31"),
        ("29 de fevereiro de 2024", "2024-02-29"),
        ("1º de maio", "--05-01"),
        ("25 de dezembro", "--12-25"),
        ("29 de fevereiro", "--02-29"),
        ("maio de 2023", "2023-05"),
        ("março 2024", "2024-03"),
        ("Maio, 2023", "2023-05"),
        # Spanish
        ("8 de mayo de 2023", "2023-05-08"),
        ("8 de mayo del 2023", "2023-05-08"),
        ("8 mayo 2023", "2023-05-08"),
        ("1º de enero de 2020", "2020-01-01"),
        ("12 de octubre", "--10-12"),
        ("septiembre de 2021", "2021-09"),
        ("septiembre del 2021", "2021-09"),
        # English
        ("May 8, 2023", "2023-05-08"),
        ("May 8 2023", "2023-05-08"),
        ("may 8, 2023", "2023-05-08"),
        ("MAY 8, 2023", "2023-05-08"),
        ("May 8th, 2023", "2023-05-08"),
        ("May 1st", "--05-01"),
        ("May 2nd", "--05-02"),
        ("May 3rd", "--05-03"),
        ("8 May 2023", "2023-05-08"),
        ("8 May, 2023", "2023-05-08"),
        ("8th of May 2023", "2023-05-08"),
        ("8th of May, 2023", "2023-05-08"),
        ("22nd of January", "--01-22"),
        ("2nd January", "--01-02"),
        ("14 March", "--03-14"),
        ("May 2023", "2023-05"),
        ("May, 2023", "2023-05"),
        ("May of 2023", "2023-05"),
        ("Jan 5, 2021", "2021-01-05"),
        ("Jan. 5, 2021", "2021-01-05"),
        ("5 Jan. 2021", "2021-01-05"),
        ("5 Dec", "--12-05"),
        ("Dec 2020", "2020-12"),
        # Numbers
        ("2023-05-08", "2023-05-08"),
        ("1999-12-31", "1999-12-31"),
        ("3/4/2025", "2025-04-03"),
        ("03/04/2025", "2025-04-03"),
        ("13/4/2025", "2025-04-13"),
        ("4/13/2025", "2025-04-13"),
        ("3.4.2025", "2025-04-03"),
        ("31.12.2024", "2024-12-31"),
        ("29/02/2024", "2024-02-29"),
        # Blanks that do not break a line
        ("8\u00a0de\u00a0maio\u00a0de\u00a02023", "2023-05-08"),
        ("May\u00a08, 2023", "2023-05-08"),
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "ficou para {}.", "(em {})", "→ {}, às 10h", "“{}”", "{}: reunião", "on {}; ok"]
)
def test_written(text, iso, around):
    """A date is found in the forms of Portuguese, Spanish and English, whole, whatever stands around it."""
    assert dates(around.format(text)) == [(text, iso)]


@pytest.mark.parametrize("month", range(1, 13))
def test_every_month(month):
    """The twelve months are known in three languages, and by their first three letters in English."""
    for said in (name(language, month) for language in MONTHS):
        assert dates(f"em 7 de {said} de 2021") == [(f"7 de {said} de 2021", f"2021-{month:02}-07")]
        assert dates(f"{said.upper()} 2021") == [(f"{said.upper()} 2021", f"2021-{month:02}")]
    short = name("en", month)[:3]
    assert dates(f"{short} 7, 2021") == [(f"{short} 7, 2021", f"2021-{month:02}-07")]


@pytest.mark.parametrize(
    "text",
    [
        "31/04/2025",
        "13/13/2025",
        "29/02/2023",
        "2023-13-08",
        "2023-02-30",
        "2023-5-8",
        "30 de fevereiro",
        "February 30, 2023",
        "May 32",
        "45 May",
        "3/4.2025",
        # A year, a month, a day of the week or a number alone.
        "em 2023",
        "May",
        "in May",
        "maio",
        "sexta-feira",
        "on Monday",
        "8 de",
        "8",
        "",
        # The name of a month inside another word.
        "8 de maiores",
        "8 marchas",
        "Mayday 8",
        "8 decimals",
        # Versions, addresses, times, codes, files, fractions.
        "10.0.0.1",
        "192.168.10.2024",
        "1.12.2024.5",
        "v1.2.2023",
        "v10.1.2024",
        "1.2.2023.4",
        "2023-05-08-rc1",
        "release-2023-05-08",
        "a2023-05-08",
        "12023-05-08",
        "1.2023-05-08",
        "2025-01-02.txt",
        "log_2025-01-02",
        "12/3/2025/7",
        "10:30",
        "R$ 3.400",
        "3/4",
        "555-1234",
    ],
)
def test_no_dates(text):
    """What can be no day, and what only looks like one, is not taken for a date."""
    assert dates(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from May 8 to May 12, 2023", [("May 8", "--05-08"), ("May 12, 2023", "2023-05-12")]),
        ("2023-05-08/2023-05-10", [("2023-05-08", "2023-05-08"), ("2023-05-10", "2023-05-10")]),
        ("de 3/4/2025 a 5/4/2025", [("3/4/2025", "2025-04-03"), ("5/4/2025", "2025-04-05")]),
        ("3/4/2025–5/4/2025", [("3/4/2025", "2025-04-03"), ("5/4/2025", "2025-04-05")]),
        (
            "em 1º de maio de 2023, maio de 2024 e 2024-05-03",
            [("1º de maio de 2023", "2023-05-01"), ("maio de 2024", "2024-05"), ("2024-05-03", "2024-05-03")],
        ),
        ("2023-05-08 10:00", [("2023-05-08", "2023-05-08")]),
        ("Monday, May 8, 2023", [("May 8, 2023", "2023-05-08")]),
        ("segunda-feira, 8 de maio de 2023", [("8 de maio de 2023", "2023-05-08")]),
        ("8 de maio de 10000", [("8 de maio", "--05-08")]),
    ],
)
def test_several_dates(text, expected):
    """Each date of a text is found once, in its longest form."""
    assert dates(text) == expected


@pytest.mark.parametrize(
    "before",
    [
        "São João, às três: ",
        "👨‍👩‍👧 🎉 ",
        "Straße, ﬁm, İstanbul, Ǆ, ŉ ",
        "e\u0301 a\u0303 ",
        "½ ² № ™ ",
        "银行 अनुवाद ",
        "ẞ ß ",
        "\u200d\u200b\ufeff ",
        "Ω≈ç√∫ ",
    ],
)
def test_places_are_those_of_the_text(before):
    """Accents, ligatures, emoji and signs before a date do not move the place where it is found."""
    for text, iso in (("8 de março de 2023", "2023-03-08"), ("2023-05-08", "2023-05-08")):
        assert list(written(f"{before}{text} fim")) == [(len(before), len(before) + len(text), iso)]


@given(
    st.lists(
        st.text(st.characters(codec="utf-8"))
        | st.sampled_from(["8", "08", " ", " de ", ", ", "maio", "May", "março", "2023", "/", "-", "."])
    )
)
def test_any_text(parts):
    """Any text at all is read without an error, and what is found lies in it, apart from each other."""
    text = "".join(parts)
    end = 0
    for start, stop, day in sorted(written(text)):
        assert end <= start < stop <= len(text)
        assert day
        end = stop


@given(st.dates(min_value=date(1000, 1, 1), max_value=date(2999, 12, 31)))
def test_any_day(day):
    """Every day is found in each of its forms as the same date."""
    pt, es, en = (name(language, day.month) for language in ("pt", "es", "en"))
    iso, number, year = day.isoformat(), day.day, day.year
    for text in (
        iso,
        f"{number} de {pt} de {year}",
        f"{number} de {es} del {year}",
        f"{number} {en} {year}",
        f"{en} {number}, {year}",
        f"{number}/{day.month}/{year}",
        f"{number:02}.{day.month:02}.{year}",
    ):
        assert dates(f"foi em {text}, sim") == [(text, iso)]


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        (LANGUAGES, "2023-05-08 maio May mayo"),
        (("en",), "2023-05-08 May"),
        (("es", "pt"), "2023-05-08 mayo maio"),
        ((), "2023-05-08"),
    ],
)
def test_spoken(languages, expected):
    """A date is said as ISO 8601 and with the name of its month in each language, none of them twice."""
    assert spoken(date(2023, 5, 8), languages) == expected


def test_spoken_once_where_languages_share_a_name():
    """A name that two languages share is said once."""
    assert spoken(date(2023, 4, 8), ("pt", "es")) == "2023-04-08 abril"

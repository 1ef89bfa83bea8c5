"""A finished evaluation: as rows, as JSON, and as one page that needs nothing else."""

import dataclasses
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memstore import render
from memstore.errors import InvalidInputError, MemstoreError
from memstore.evaluation import MEASURES, Curve, Estimate, Evaluation, Margins, Overlap, Run, page, plots, rows
from memstore.evaluation.plots import plain
from memstore.evaluation.report import short

VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = "</title><script>alert(1)</script> $x_$ \\frac{ & \"'<b> -- ]]> \x00\x1b[31m\u202e\ud83e\uffff %s {0}"


@pytest.fixture
def drawn():
    """Skip what draws where matplotlib is not installed."""
    pytest.importorskip("matplotlib", reason="matplotlib (extra 'report') is not installed")


def measures(value: float, width: float = 0.05) -> dict[str, Estimate]:
    found = Estimate(value=value, low=max(0.0, value - width), high=min(1.0, value + width))
    return dict.fromkeys(MEASURES, found)


def evaluation(**changes) -> Evaluation:
    against = {"hit@1": Estimate(value=0.117, low=0.003, high=0.171)}
    runs = (
        Run(name="keyword", kind="signal", measures=measures(0.71), categories={"bare": measures(0.7)}),
        Run(name="semantic", kind="signal", measures=measures(0.12), categories={"bare": measures(0.1)}),
        Run(
            name="default",
            kind="fusion",
            measures=measures(0.827),
            categories={"bare": measures(0.9), "one": measures(1.0)},
            against=against,
            milliseconds=12.345,
        ),
    )
    whole = Evaluation(
        store="agent.db",
        questions=316,
        categories={"bare": 315, "one": 1},
        default="default",
        runs=runs,
        overlap=Overlap(both_right=30, only_keyword_wrong=12, only_semantic_wrong=200, both_wrong=74, attainable=0.823),
        margins=Margins(values=(-0.2, 0.1, 0.3, 0.4)),
        curves=(
            Curve(
                name="Keyword weight",
                parameter="weights.keyword",
                points=((0.0, measures(0.5)), (0.4, measures(0.8)), (1.0, measures(0.7))),
                chosen=0.4,
                note="Flat around .4.",
            ),
        ),
        verdict=("Fusion helps here.", "Keep the default."),
        notes=("Medians of one machine.",),
    )
    return dataclasses.replace(whole, **changes)


def hostile() -> Evaluation:
    """An evaluation whose every text would break a page that trusts it."""
    run = Run(name=HOSTILE, kind="variant", measures=measures(0.5), categories={HOSTILE: measures(0.5)})
    curve = Curve(name=HOSTILE, parameter=HOSTILE, points=((1, measures(0.5)),), chosen=1, note=HOSTILE)
    return evaluation(
        store=HOSTILE,
        categories={HOSTILE: 9},
        default=HOSTILE,
        runs=(run, run),
        curves=(curve, curve),
        verdict=(HOSTILE,),
        notes=(HOSTILE,),
    )


class Read(HTMLParser):
    """A page as its reader's browser takes it: its elements and texts, refused when a tag is left open."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def said(self, *tags: str) -> str:
        return " ".join(data for tag, data in self.texts if tag in tags or not tags)


def test_rows():
    """A run is a row: hit@1 with its interval, three more measures, the difference with its interval, time, name."""
    header, found = rows(evaluation())
    assert header == ["hit@1", "hit@10", "MRR@10", "nDCG@10", "vs best signal", "ms", "run"]
    assert found[0] == [".710 [.66,.76]", ".710", ".710", ".710", "", "", "keyword"]
    assert found[2] == [".827 [.78,.88]", ".827", ".827", ".827", "+.117 [.003,.171]", "12.3", "default"]


def test_rows_fit_a_terminal():
    """The columns before the name leave it ten places of eighty, also with the widest numbers."""
    low = {"hit@1": Estimate(value=-0.5, low=-0.25, high=-0.125)}
    run = Run(name="b", kind="fusion", measures=measures(1.0), categories={}, against=low, milliseconds=1234.5)
    header, (row,) = rows(evaluation(runs=(run,)))
    assert row[4] == "-.500 [-.250,-.125]"
    assert sum(max(len(title), len(cell)) + 2 for title, cell in zip(header[:-1], row[:-1], strict=True)) <= 70


def test_rows_of_a_run_that_measured_less():
    """A measure that a run lacks is an empty cell."""
    run = Run(name="b", kind="variant", measures={"hit@10": Estimate(value=0.5, low=0.4, high=0.6)}, categories={})
    assert rows(evaluation(runs=(run,)))[1] == [["", ".500", "", "", "", "", "b"]]


@pytest.mark.parametrize(
    ("value", "sign", "expected"),
    [
        (0.7871, "", ".787"),
        (1.0, "", "1.000"),
        (0.9999, "", "1.000"),
        (0.0, "", ".000"),
        (-0.00001, "+", "+.000"),
        (-0.0117, "+", "-.012"),
        (0.0117, "+", "+.012"),
        (-1.0, "+", "-1.000"),
    ],
)
def test_short_numbers(value, sign, expected):
    """A share is shown without the 0 before its point, and what rounds to nothing has no minus."""
    assert short(value, 3, sign) == expected


def test_margins():
    """Margins say their median and how many are above 0, which a tie is not; without any they say neither."""
    found = Margins(values=(-0.1, 0.0, 0.2, 0.4))
    assert found.median == pytest.approx(0.1)
    assert found.above_zero == 0.5
    assert (Margins(values=()).median, Margins(values=()).above_zero) == (None, None)


def test_json():
    """An evaluation is JSON that any reader takes, and holds every number."""
    found = json.loads(json.dumps(render.record(evaluation()), allow_nan=False))
    assert found["runs"][2]["measures"]["nDCG@10"] == {"value": 0.827, "low": 0.827 - 0.05, "high": 0.827 + 0.05}
    assert found["runs"][0]["against"] is None
    assert found["runs"][2]["categories"]["one"]["hit@1"]["value"] == 1.0
    assert found["curves"][0]["points"][1][0] == 0.4
    assert found["overlap"]["only_semantic_wrong"] == 200
    assert found["margins"] == {"values": [-0.2, 0.1, 0.3, 0.4]}
    assert found["verdict"] == ["Fusion helps here.", "Keep the default."]


@pytest.mark.usefixtures("drawn")
def test_the_page_says_it_first():
    """The verdict stands before the numbers, and every run, category, plot and note is there."""
    text = page.page(evaluation())
    read = Read(text)
    assert text.index("Fusion helps here.") < text.index("<table") < text.index("<svg")
    said = read.said()
    for one in ("keyword", "+.117", "+.003 to +.171", ".777–.877", "12.3", "bare", "315 questions", "Flat around .4."):
        assert one in said
    assert "82.3% of the questions" in said
    assert "Medians of one machine." in read.said("li")
    assert len(read.all("figure")) == len(read.all("figcaption")) == len(read.all("svg")) == 4


@pytest.mark.usefixtures("drawn")
def test_the_page_shows_a_second_stage_as_such():
    """The run of a second stage is a row and a bar of its own kind, beside those of the first."""
    second = Run(name="rerank", kind="rerank", measures=measures(0.873), categories={}, milliseconds=812.4)
    read = Read(page.page(evaluation(runs=(*evaluation().runs, second))))
    assert [data for tag, data in read.texts if tag == "small"].count("rerank") == 1
    assert "812" in read.said("td")
    assert "rerank .873 (.823 to .923)" in read.all("svg")[0]["aria-label"]
    assert [data for tag, data in read.texts if tag == "text"].count("rerank") == 2


@pytest.mark.usefixtures("drawn")
def test_the_page_stands_alone():
    """The page has no script and refers to nothing outside itself."""
    text = page.page(evaluation())
    read = Read(text)
    assert not {tag for tag, _ in read.elements} & {"script", "link", "img", "iframe", "object", "image"}
    assert re.findall(r"\w+://|@import|(?<!-)url\((?!#)", text) == []
    assert all(not name.startswith("on") for _, attributes in read.elements for name in attributes)
    assert all(attributes["href"].startswith("#") for _, attributes in read.elements if "href" in attributes)
    policy = next(one for one in read.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"].startswith("default-src 'none'")


@pytest.mark.usefixtures("drawn")
def test_the_page_is_for_everyone():
    """The page names its language and title, fits a narrow screen, has a dark form, and tells what each plot shows."""
    text = page.page(evaluation())
    read = Read(text)
    assert read.all("html") == [{"lang": "en"}]
    assert read.said("title") == "memstore evaluation: agent.db"
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in read.all("meta")
    assert "prefers-color-scheme: dark" in text
    assert all(one["role"] == "img" and len(one["aria-label"]) > 20 for one in read.all("svg"))
    assert "default .827 (.777 to .877)" in read.all("svg")[0]["aria-label"]
    assert {one["scope"] for one in read.all("th")} == {"row", "col"}
    assert not re.search(r"(fill|stroke): #(?!fff)", text)


@pytest.mark.usefixtures("drawn")
def test_ids_do_not_clash():
    """No two elements have one id, though two plots are alike, and what an element refers to is there."""
    curve = evaluation().curves[0]
    text = page.page(evaluation(curves=(curve, curve)))
    ids = [attributes["id"] for _, attributes in Read(text).elements if "id" in attributes]
    assert len(set(ids)) == len(ids) > 5
    referred = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)
    assert {one or other for one, other in referred} == set(ids)


@pytest.mark.usefixtures("drawn")
def test_the_same_page_again():
    """The same evaluation gives the same page, in another process and whatever the user's settings of plots are."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import matplotlib; matplotlib.rcParams['font.size'] = 40\n"
        "from test_report import evaluation, page; sys.stdout.buffer.write(page.page(evaluation()).encode())"
    )
    folder = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, timeout=120, check=True)
    assert done.stdout.decode() == page.page(evaluation())


@pytest.mark.usefixtures("drawn")
def test_drawing_leaves_no_trace(monkeypatch):
    """Drawing changes no setting of the program that asked for the page, and needs no pyplot, which opens windows."""
    import matplotlib

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    # To read which backend is set chooses one, by way of pyplot.
    names = set(matplotlib.rcParams) - {"backend"}
    before = {name: matplotlib.rcParams[name] for name in names}
    page.page(evaluation())
    assert {name: matplotlib.rcParams[name] for name in names} == before


@pytest.mark.usefixtures("drawn")
def test_what_the_user_wrote_is_text():
    """Names, notes and paths are text in the page and in its plots: no markup, no formula, no control character."""
    text = page.page(hostile())
    read = Read(text)
    assert not read.all("script")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\ud800-\udfff\uffff]", text)
    assert "<script>alert(1)</script> $x_$" in read.said("p")
    assert any("</title><script>" in data for tag, data in read.texts if tag == "text")
    assert text.encode("utf-8")


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("name", ["$x_1$", "$\\frac{", "R$ 5 & R$ 9", "<b>&amp;", "a--b", "银行", "a\nb"])
def test_a_name_in_a_plot_is_what_it_is(name):
    """A name stands in the plots as it was written, on one line: no formula, no markup."""
    run = Run(name=name, kind="fusion", measures=measures(0.5), categories={})
    curve = Curve(name="c", parameter=name, points=((1, measures(0.5)),))
    read = Read(page.page(evaluation(runs=(run,), curves=(curve,))))
    assert [data for tag, data in read.texts if tag == "text"].count(name.replace("\n", " ")) == 2


@pytest.mark.usefixtures("drawn")
@settings(deadline=None, max_examples=8)
@given(st.text(st.characters(), max_size=30))
def test_any_name_can_be_drawn(name):
    """A run, a category and a curve may have any name."""
    run = Run(name=name, kind="fusion", measures=measures(0.5), categories={name: measures(0.5)})
    curve = Curve(name=name, parameter=name, points=((1, measures(0.5)), (2, measures(0.6))), chosen=None, note=name)
    read = Read(page.page(evaluation(categories={name: 3}, runs=(run,), curves=(curve,), overlap=None)))
    assert plain(name) in " ".join(data for _, data in read.texts)


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(
    "changes",
    [
        {"runs": (), "overlap": None, "margins": Margins(values=()), "curves": (), "categories": {}, "notes": ()},
        {"margins": Margins(values=(0.0,))},
        {"margins": Margins(values=(0.25,) * 9)},
        {"margins": Margins(values=(-3.0,))},
        {"margins": Margins(values=(-1e-9, 1e6))},
        {"overlap": Overlap(both_right=0, only_keyword_wrong=0, only_semantic_wrong=0, both_wrong=0, attainable=0)},
        {"curves": (Curve(name="c", parameter="p", points=()),)},
        {"curves": (Curve(name="c", parameter="p", points=((5, {"MRR@10": Estimate(value=1, low=1, high=1)}),)),)},
        {"runs": (Run(name="r", kind="signal", measures={}, categories={}),)},
        {"runs": tuple(Run(name=f"r{n}", kind="variant", measures=measures(0), categories={}) for n in range(60))},
    ],
)
def test_a_page_of_little(changes):
    """What was not measured is left out, and what is all the same can be drawn."""
    read = Read(page.page(evaluation(**changes)))
    assert "Fusion helps here." in read.said("p")
    assert "nan" not in " ".join(f"{one}" for one in read.elements).lower()


@pytest.mark.usefixtures("drawn")
def test_one_question_has_no_interval():
    """Of a single question the page shows no interval, which would say that it is certain."""
    text = page.page(evaluation())
    row = text[text.index(">one<small>1 question</small>") :].partition("</tr>")[0]
    assert "<td>1.000</td>" in row
    assert "–" in text[text.index(">bare<small>") :].partition("</tr>")[0]


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("values", [(-0.01, 0.01, 0.77), (-0.77, -0.01, 0.01), (-1.0, 3.0), (0.0,), (-1e-9, 1e6)])
def test_no_bar_holds_both_sides_of_zero(values):
    """Every margin is in a bar of its own side of 0, and every bar is drawn."""
    from matplotlib.axes import Axes

    heights: dict[str, float] = {}
    draw = Axes.bar

    def counted(axes, left, height, *rest, **options):
        heights[options["label"]] = sum(height)
        return draw(axes, left, height, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Axes, "bar", counted)
        plots.histogram(Margins(values=values))
    won = sum(value >= 0 for value in values)
    assert heights == {"a wrong one first": len(values) - won, "a right one first": won}


def test_without_matplotlib(monkeypatch):
    """Without matplotlib the page is refused in one sentence that says what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MemstoreError, match=r"^the report needs .*matplotlib.*; pip install 'memstore\[report\]'\.$"
    ) as error:
        page.page(evaluation())
    assert isinstance(error.value, InvalidInputError)


def test_nothing_is_drawn_on_import():
    """Importing the evaluation loads no library that draws."""
    code = "import sys, memstore.evaluation.page; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"

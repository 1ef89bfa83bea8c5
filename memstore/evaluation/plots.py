"""The plots of an evaluation as SVG that stands inside a page: no file, no network, colours left to the page."""

import io
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from memstore.errors import InvalidInputError
from memstore.evaluation.cost_report import CostKind, CostRun, ways
from memstore.evaluation.cost_report import curve as points_of
from memstore.evaluation.measures import Estimate
from memstore.evaluation.report import Curve, Margins, Overlap, Run, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which the colour-blind tell apart, in the light page; the dark one has lighter ones.
COLOURS: Mapping[str, tuple[str, str]] = {
    "ink": ("#1b1d21", "#e8e6e1"),
    "grid": ("#d4d5d8", "#44484f"),
    "signal": ("#0072b2", "#56b4e9"),
    "fusion": ("#d55e00", "#f0803c"),
    "rerank": ("#009e73", "#2fc79b"),
    "variant": ("#7a7d84", "#a9adb5"),
}
# What breaks XML or hides: controls, half characters, what is no character, and marks that turn the direction of text.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]")
_FAMILY = re.compile(r"font-family: [^;]*;?\s*|(?<=px) '[^;]*(?=;|$)")
_COLOUR = re.compile("#[0-9a-f]{6}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_NO_MATPLOTLIB = "the report needs the package matplotlib, not installed here; pip install 'memstore[report]'."
_LONGEST_LABEL = 26
_WIDTH = 4.6
_SETTINGS: dict[Any, Any] = {
    "axes.edgecolor": COLOURS["ink"][0],
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": COLOURS["ink"][0],
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "grid.color": COLOURS["grid"][0],
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "memstore",
    "text.color": COLOURS["ink"][0],
    # A `$` in a name is a `$`.
    "text.parse_math": False,
    "xtick.color": COLOURS["ink"][0],
    "ytick.color": COLOURS["ink"][0],
    "ytick.left": False,
}
_WHISKER: dict[str, Any] = {"fmt": "none", "color": COLOURS["ink"][0], "elinewidth": 1, "capsize": 2.5}
# Of the ways to fill a prompt; those of one kind are told apart by their lines and marks.
_KINDS: Mapping[CostKind, str] = {"everything": "ink", "signal": "signal", "fusion": "fusion", "context": "rerank"}
_MARKS = "Dos^vP<>"
_DASHES = ("-", "--", "-.", ":")
_VARIABLES = {light: f"var(--{name})" for name, (light, _) in COLOURS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot: its title, what it shows in one sentence for those who can't see it, and its SVG."""

    title: str
    alt: str
    svg: str


def plain(text: str) -> str:
    """Return a text on one line, with a mark in the place of each character that no page shows."""
    return " ".join(_UNSHOWN.sub(lambda found: " " if found[0] in "\t\n\r\u2028\u2029" else "\ufffd", text).split())


def bars(runs: Sequence[Run], measure: str) -> Plot:
    """Draw one measure of each run as a bar, with its interval as a whisker."""
    shown = [(run, run.measures[measure]) for run in runs if measure in run.measures]
    signals = [found.value for run, found in shown if run.kind == "signal"]
    kinds = list(dict.fromkeys(run.kind for run, _ in shown))
    with _figure(0.8 + 0.27 * len(shown)) as figure:
        axes = figure.subplots()
        values = [found.value for _, found in shown]
        axes.barh(range(len(shown)), values, height=0.7, color=[COLOURS[run.kind][0] for run, _ in shown])
        axes.errorbar(values, range(len(shown)), xerr=_whiskers(found for _, found in shown), **_WHISKER)
        axes.set_yticks(range(len(shown)), [_label(run.name) for run, _ in shown])
        if signals and len(shown) > len(signals):
            axes.axvline(max(signals), color=COLOURS["ink"][0], linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlim(0, 1)
        axes.set_xlabel(f"{measure}, with its 95 % interval")
        axes.grid(visible=False, axis="y")
        if len(kinds) > 1:
            for kind in kinds:
                axes.barh([0], [0], color=COLOURS[kind][0], label=kind)
            figure.legend(loc="outside upper left", ncols=len(kinds), handlelength=1, columnspacing=1.2)
        svg = _drawn(figure, "runs")
    told = ", ".join(f"{plain(run.name)} {_told(found)}" for run, found in shown)
    dashed = "; the dashed line is the best signal alone" if signals and len(shown) > len(signals) else ""
    return Plot(title=f"{measure} of each run{dashed}", alt=f"Bars of {measure}: {told}.", svg=svg)


def overlap(found: Overlap) -> Plot:
    """Draw how many questions keywords and vectors answer first, both, one of them, or neither."""
    parts = {
        "both": (found.both_right, "fusion"),
        "only keywords": (found.only_semantic_wrong, "signal"),
        "only vectors": (found.only_keyword_wrong, "rerank"),
        "neither": (found.both_wrong, "variant"),
    }
    counts = [count for count, _ in parts.values()]
    total = sum(counts) or 1
    with _figure(1.8) as figure:
        axes = figure.subplots()
        drawn = axes.barh(range(4), counts, height=0.7, color=[COLOURS[colour][0] for _, colour in parts.values()])
        axes.bar_label(drawn, [f"{count} ({count / total:.0%})" for count in counts], padding=3)
        axes.set_yticks(range(4), list(parts))
        axes.invert_yaxis()
        axes.set_xlim(0, max(*counts, 1) * 1.25)
        axes.set_xlabel("questions whose first answer is right")
        axes.grid(visible=False, axis="y")
        svg = _drawn(figure, "overlap")
    told = ", ".join(f"{name} {count}" for name, (count, _) in parts.items())
    return Plot(
        title="Who answers first: keywords alone, vectors alone", alt=f"Questions answered first: {told}.", svg=svg
    )


def histogram(found: Margins) -> Plot:
    """Draw how many questions have which margin, those below 0, which a wrong memory won, apart; there must be one."""
    import numpy as np

    values = np.array(found.values)
    # Zero is an edge, so that no bar holds both sides of it.
    width = max(float(values.max() - min(values.min(), 0)), float(-values.min()), 1e-9) / 20
    edges = np.arange(np.floor(values.min() / width) - 1, np.ceil(values.max() / width) + 2) * width
    counts, _ = np.histogram(values, edges)
    won = edges[:-1] >= -width / 2
    with _figure(2.2) as figure:
        axes = figure.subplots()
        for side, colour, name in ((~won, "fusion", "a wrong one first"), (won, "signal", "a right one first")):
            axes.bar(
                edges[:-1][side], counts[side], width, align="edge", color=COLOURS[colour][0], label=name, linewidth=0
            )
        axes.axvline(0, color=COLOURS["ink"][0], linewidth=0.8)
        axes.set_xlabel("score of the best right memory less that of the best wrong one")
        axes.set_ylabel("questions")
        axes.locator_params(axis="y", integer=True)
        axes.grid(visible=False, axis="x")
        figure.legend(loc="outside upper left", ncols=2, handlelength=1, columnspacing=1.2)
        svg = _drawn(figure, "margins")
    told = f"median {found.median or 0:.3f}, {found.above_zero or 0:.0%} above 0"
    return Plot(
        title=f"Margins of the default search: {told}",
        alt=f"Histogram of {len(values)} margins from {values.min():.3f} to {values.max():.3f}: {told}.",
        svg=svg,
    )


def curve(found: Curve, measure: str, number: int) -> Plot:
    """Draw one measure along a parameter with the band of its interval; `number` tells this curve from the others."""
    points = sorted((at, measures[measure]) for at, measures in found.points if measure in measures)
    at = [place for place, _ in points]
    with _figure(2.4) as figure:
        axes = figure.subplots()
        colour = COLOURS["signal"][0]
        axes.fill_between(at, [one.low for _, one in points], [one.high for _, one in points], color=colour, alpha=0.25)
        axes.plot(at, [one.value for _, one in points], color=colour, marker="o", markersize=3.5, linewidth=1.5)
        if len(points) == 1:
            axes.errorbar(at, [points[0][1].value], yerr=_whiskers(one for _, one in points), **_WHISKER)
            axes.set_xticks(at)
        if found.chosen is not None:
            axes.axvline(found.chosen, color=COLOURS["ink"][0], linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_xlabel(_label(found.parameter))
        axes.set_ylabel(measure)
        _leave_room(axes, [one for _, one in points])
        svg = _drawn(figure, f"curve{number}")
    told = ", ".join(f"{place:g}: {_told(one)}" for place, one in points)
    dashed = "" if found.chosen is None else f"; the dashed line is {found.chosen:g}, the value in use"
    return Plot(
        title=f"{plain(found.name)}{dashed}", alt=f"{measure} by {plain(found.parameter)}: {told}{dashed}.", svg=svg
    )


def costs(runs: Sequence[CostRun]) -> Plot:
    """Draw the recall of each way to fill a prompt along the tokens it takes, on a scale of powers of ten."""
    names = ways(runs)
    lines = {way: [run for run in points_of(runs, way) if run.tokens > 0] for way in names}
    drawn: list[CostKind] = []
    with _figure(3.4) as figure:
        axes = figure.subplots()
        for number, (way, points) in enumerate(lines.items()):
            if not points:
                continue
            at, found, kind = [run.tokens for run in points], [run.recall for run in points], points[0].kind
            colour = COLOURS[_KINDS[kind]][0]
            axes.fill_between(at, [one.low for one in found], [one.high for one in found], color=colour, alpha=0.18)
            axes.plot(
                at,
                [one.value for one in found],
                color=colour,
                marker=_MARKS[number % len(_MARKS)],
                markersize=4,
                linewidth=1.5,
                linestyle=_DASHES[drawn.count(kind) % len(_DASHES)],
                label=_label(way),
            )
            if len(points) == 1:
                axes.errorbar(at, [found[0].value], yerr=_whiskers(found), **_WHISKER)
            drawn.append(kind)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
        axes.set_ylim(0, 1.03)
        axes.set_xlabel("tokens a question")
        axes.set_ylabel("recall, with its 95 % interval")
        figure.legend(loc="outside upper left", ncols=3, handlelength=1.8, columnspacing=1.2)
        svg = _drawn(figure, "costs")
    told = "; ".join(
        f"{plain(way)} " + ", ".join(f"{_told(run.recall)} at {run.tokens:,.0f} tokens" for run in points)
        for way, points in lines.items()
        if points
    )
    return Plot(title="Cost–recall curve", alt=f"Recall by tokens a question: {told}.", svg=svg)


def require() -> None:
    """Raise `InvalidInputError` when matplotlib is not installed, before any work is done for a plot."""
    if find_spec("matplotlib") is None:
        raise InvalidInputError(_NO_MATPLOTLIB)


@contextmanager
def _figure(height: float) -> Iterator["Figure"]:
    """Hand out a figure under settings of ours alone; raise `InvalidInputError` when matplotlib is not installed."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInputError(_NO_MATPLOTLIB) from error
    # Its fonts lack letters that the reader's browser may have; the text is drawn there.
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield Figure(figsize=(_WIDTH, height), layout="constrained")


def _drawn(figure: "Figure", name: str) -> str:
    """Return a figure as an SVG element for a page: as wide as it has room, with ids and colours of this page."""
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(written.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            # Neither who drew it nor a style that would reach the whole page.
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    referred = {
        reference
        for element in root.iter()
        for key, value in element.attrib.items()
        for reference in ([value[1:]] if _local(key) == "href" else _REFERENCE.findall(value))
    }
    for element in root.iter():
        element.tag = _local(element.tag)
        given = {_local(key): value for key, value in element.attrib.items()}
        element.attrib.clear()
        for key, value in given.items():
            if key == "id" and value not in referred:
                continue
            element.set(key, _own(key, value, name))
    root.attrib = {"viewBox": root.attrib["viewBox"]}
    return ElementTree.tostring(root, encoding="unicode")


def _own(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return f"#{name}-{value[1:]}"
    if key == "style":
        value = _COLOUR.sub(lambda found: _VARIABLES.get(found[0], found[0]), _FAMILY.sub("", value))
        return value.replace("font:", "font-size:")
    return _REFERENCE.sub(rf"url(#{name}-\1)", value)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _label(text: str) -> str:
    found = plain(text)
    # Wide letters take two places.
    widths = [2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in found]
    if sum(widths) <= _LONGEST_LABEL:
        return found
    kept = next(count for count in range(len(found), 0, -1) if sum(widths[:count]) < _LONGEST_LABEL)
    return found[:kept].rstrip() + "…"


def _told(found: Estimate) -> str:
    return f"{short(found.value)} ({short(found.low)} to {short(found.high)})"


def _whiskers(found: Iterable[Estimate]) -> list[list[float]]:
    listed = list(found)
    return [[one.value - one.low for one in listed], [one.high - one.value for one in listed]]


def _leave_room(axes: "Axes", found: Sequence[Estimate]) -> None:
    """Show at least a tenth of the scale, so that a flat curve looks flat."""
    low, high = min(one.low for one in found), max(one.high for one in found)
    middle, half = (low + high) / 2, max((high - low) / 2 * 1.1, 0.05)
    axes.set_ylim(middle - half, middle + half)

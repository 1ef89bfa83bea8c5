"""A finished evaluation, or what prompts cost, as one HTML page that needs nothing else: no script, no network."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from memstore.evaluation import plots
from memstore.evaluation.cost_report import Costs, Projection, equal_rows, projection_rows
from memstore.evaluation.measures import MEASURES, Estimate
from memstore.evaluation.plots import COLOURS, Plot, plain
from memstore.evaluation.report import Curve, Evaluation, Run, milliseconds, short

_MAIN = "hit@1"
_STYLE = """
:root { color-scheme: light dark; --page: #fdfdfb; --soft: #f1f1ee; %(light)s }
@media (prefers-color-scheme: dark) { :root { --page: #17191d; --soft: #22252b; %(dark)s } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 74rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.5rem; line-height: 1.2; margin: 0 0 .25rem; overflow-wrap: anywhere }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem }
p, li { max-width: 44rem }
.verdict { border-left: .25rem solid var(--signal); padding: .1rem 0 .1rem 1rem; margin: 1.5rem 0; font-size: 1.1rem }
.verdict p { margin: .4rem 0 }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem }
th, td { padding: .35rem .5rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--grid);
  white-space: nowrap }
thead th { vertical-align: bottom }
thead th, tr.default { background: var(--soft) }
thead th { white-space: normal }
.names thead th { overflow-wrap: anywhere; min-width: 6rem; max-width: 10rem }
tr > th:first-child { text-align: left; white-space: normal; min-width: clamp(7.5rem, 20vw, 12rem);
  overflow-wrap: anywhere; font-weight: 600 }
td small, th small { display: block; font-weight: 400; opacity: .8 }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%%, 28rem), 1fr)); gap: 1.5rem 2.5rem;
  align-items: start }
figure { margin: 1rem 0; max-width: 36rem; min-width: 0 }
figcaption { font-weight: 600; margin-bottom: .4rem }
figure svg { display: block; width: 100%%; height: auto }
figure svg * { stroke-linejoin: round; stroke-linecap: butt }
figure p { margin: .4rem 0; font-size: .9rem }
summary { cursor: pointer; font-size: .9rem }
footer { margin-top: 2.5rem; font-size: .9rem }
"""


def page(evaluation: Evaluation) -> str:
    """Return the page of an evaluation; raise `InvalidInputError` when matplotlib, which draws it, is not installed.

    The same evaluation gives the same page. What the caller wrote is text in it, never markup.
    """
    lead = f"{_questions(evaluation.questions)}; the store’s own search is the run <b>{_text(evaluation.default)}</b>."
    body = [*_runs(evaluation), *_categories(evaluation), *_plots(evaluation), *_curves(evaluation.curves)]
    measures = (
        "hit@k is the share of questions with a right memory among the first k, R@k the mean share of a question’s"
        " right memories among the first k, MRR@10 the mean of 1 / the rank of the first right one, nDCG@10 that of all"
        " right ones, the earlier the better. Small numbers are 95 % intervals over the questions: another run whose"
        " difference has 0 inside its interval is not shown to be better or worse."
    )
    title = f"memstore evaluation: {plain(evaluation.store)}"
    return _document(title, lead, evaluation.verdict, body, [*evaluation.notes, measures])


def cost_page(costs: Costs) -> str:
    """Return the page of what prompts cost, with the cost–recall curve, as `page` does."""
    title = f"memstore, what it saves: {plain(costs.store)}"
    lead = f"{_questions(costs.questions)}; tokens are those of <b>{_text(costs.tokeniser)}</b>."
    measures = (
        "Recall is the mean share of a question’s right memories that are in the prompt, complete the share of"
        " questions with all of them there, any that with at least one; against is the paired difference in recall to"
        f" {costs.reference}. Small numbers are 95 % intervals over the questions."
    )
    body = [*_cost_plot(costs), *_cost_runs(costs), *_equal(costs)]
    if costs.projection is not None:
        body += _projection(costs.projection)
    return _document(title, lead, costs.verdict, body, [*costs.notes, measures])


def _document(title: str, lead: str, verdict: Iterable[str], body: Iterable[str], notes: Iterable[str]) -> str:
    """Return a whole page; `lead` and `body` are HTML already."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">""",
            f"<title>{escape(title)}</title>",
            f"<style>{_style()}</style>",
            "</head>",
            "<body>",
            f"<header><h1>{escape(title)}</h1>",
            f"<p>{lead}</p></header>",
            "<main>",
            '<section class="verdict" aria-label="Verdict">',
            *(f"<p>{_text(sentence)}</p>" for sentence in verdict),
            "</section>",
            *body,
            "</main>",
            "<footer><h2>Notes</h2><ul>",
            *(f"<li>{_text(note)}</li>" for note in notes),
            "</ul></footer>",
            "</body>",
            "</html>\n",
        ]
    )


def _style() -> str:
    light, dark = (" ".join(f"--{name}: {pair[side]};" for name, pair in COLOURS.items()) for side in (0, 1))
    return _STYLE % {"light": light, "dark": dark}


def _runs(evaluation: Evaluation) -> Iterable[str]:
    measures = [name for name in MEASURES if any(name in run.measures for run in evaluation.runs)]
    main = measures[0] if measures else _MAIN
    certain = evaluation.questions > 1
    yield "<h2>Runs</h2>"
    yield from _table(
        "Runs",
        ["run", *measures[:1], "less the best signal’s", *measures[1:], "ms"],
        [
            [
                f"{_text(run.name)}<small>{run.kind}</small>",
                *(_estimate(run.measures.get(name), certain) for name in measures[:1]),
                _estimate((run.against or {}).get(main), certain, sign="+"),
                *(_estimate(run.measures.get(name), certain) for name in measures[1:]),
                "" if run.milliseconds is None else milliseconds(run.milliseconds),
            ]
            for run in evaluation.runs
        ],
        marked=[run.name == evaluation.default for run in evaluation.runs],
    )


def _categories(evaluation: Evaluation) -> Iterable[str]:
    if not evaluation.categories:
        return
    yield f"<h2>{_MAIN} by category</h2>"
    yield from _table(
        f"{_MAIN} by category",
        ["category", *(_text(run.name) for run in evaluation.runs)],
        [
            [
                f"{_text(category)}<small>{_questions(count)}</small>",
                *(_estimate(_of(run, category).get(_MAIN), count > 1) for run in evaluation.runs),
            ]
            for category, count in evaluation.categories.items()
        ],
        kind="names",
    )


def _plots(evaluation: Evaluation) -> Iterable[str]:
    yield '<h2>What each part gives</h2>\n<div class="plots">'
    if any(_MAIN in run.measures for run in evaluation.runs):
        yield from _figure(plots.bars(evaluation.runs, _MAIN))
    if evaluation.overlap is not None:
        said = (
            f"At least one of all signals answers {evaluation.overlap.attainable:.1%} of the questions first:"
            " no choice among them can gain more."
        )
        yield from _figure(plots.overlap(evaluation.overlap), said)
    if evaluation.margins.values:
        said = (
            f"Of {_questions(len(evaluation.margins.values))} for which both a right and a wrong memory were found."
            " Near 0 the order hangs on little."
        )
        yield from _figure(plots.histogram(evaluation.margins), said)
    yield "</div>"


def _curves(curves: Sequence[Curve]) -> Iterable[str]:
    if not curves:
        return
    yield '<h2>What each parameter does</h2>\n<div class="plots">'
    for number, one in enumerate(curves, 1):
        names = [name for name in MEASURES if any(name in measures for _, measures in one.points)]
        if not names:
            continue
        rows = [[f"{at:g}", *(_estimate(found.get(name), True) for name in names)] for at, found in one.points]
        numbers = "".join(_table(f"Numbers of {plain(one.name)}", [_text(one.parameter), *names], rows))
        yield from _figure(
            plots.curve(one, names[0], number),
            plain(one.note),
            f"<details><summary>Numbers</summary>{numbers}</details>",
        )
    yield "</div>"


def _cost_plot(costs: Costs) -> Iterable[str]:
    said = "The higher and the further left, the more of the evidence for less."
    yield from _figure(plots.costs(costs.runs), said)


def _cost_runs(costs: Costs) -> Iterable[str]:
    certain = costs.questions > 1
    yield "<h2>Prompts</h2>"
    yield from _table(
        "Prompts",
        ["prompt", "tokens a question", "most", "of everything", "recall", "against", "complete", "any"],
        [
            [
                _text(run.name),
                f"{run.tokens:,.0f}",
                f"{run.most:,}",
                f"{run.of_everything:.1%}",
                _estimate(run.recall, certain),
                _estimate(run.against, certain, sign="+"),
                _estimate(run.complete, certain),
                _estimate(run.answered, certain),
            ]
            for run in costs.runs
        ],
        marked=[run.name == costs.reference for run in costs.runs],
    )


def _equal(costs: Costs) -> Iterable[str]:
    if costs.equal:
        yield "<h2>Tokens a question at equal recall</h2>"
        yield from _name_first("Tokens a question at equal recall", *equal_rows(costs))


def _projection(projection: Projection) -> Iterable[str]:
    plan = projection.plan
    price = "" if plan.price is None else f", {plan.money(plan.price)} a million tokens"
    often = f"{plan.sessions_per_month:,.10g} sessions a month, questions in each: {plan.questions_per_session:,.10g}"
    title = f"{often}{price}"
    yield f"<h2>{_text(title)}</h2>"
    yield from _name_first(title, *projection_rows(projection))


def _name_first(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Yield a table of texts whose names stand last, as on a terminal."""
    first, *others = ([_text(row[-1]), *map(_text, row[:-1])] for row in [header, *rows])
    yield from _table(title, first, others)


def _table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    kind: str = "values",
    marked: Sequence[bool] = (),
) -> Iterable[str]:
    """Yield a table of cells that are HTML already, in a box that scrolls where the screen is narrow."""
    yield f'<div class="scroll" role="region" aria-label="{escape(title)}" tabindex="0"><table class="{kind}">'
    yield "<thead><tr>" + "".join(f'<th scope="col">{name}</th>' for name in header) + "</tr></thead><tbody>"
    for number, (name, *cells) in enumerate(rows):
        start = '<tr class="default">' if number < len(marked) and marked[number] else "<tr>"
        yield f'{start}<th scope="row">{name}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></div>"


def _figure(plot: Plot, said: str = "", more: str = "") -> Iterable[str]:
    yield f"<figure><figcaption>{escape(plot.title)}</figcaption>"
    yield plot.svg.replace("<svg ", f'<svg role="img" aria-label="{escape(plot.alt)}" ', 1)
    if said:
        yield f"<p>{escape(said)}</p>"
    yield f"{more}</figure>"


def _estimate(found: Estimate | None, certain: bool, sign: str = "") -> str:
    """Return the cell of an estimate; of a single question the interval says nothing and is left out."""
    if found is None:
        return ""
    value, low, high = (short(one, 3, sign).replace("-", "−") for one in (found.value, found.low, found.high))
    return f"{value}<small>{low}{' to ' if sign else '–'}{high}</small>" if certain else value


def _of(run: Run, category: str) -> Mapping[str, Estimate]:
    return run.categories.get(category, {})


def _questions(number: int) -> str:
    return f"{number:,} {'question' if number == 1 else 'questions'}"


def _text(text: str) -> str:
    return escape(plain(text))

"""`memstore eval`: what a file's answers to judged questions are worth, and what is worth its cost here."""

import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memstore import checks, render
from memstore.cli.costing import CostOptions, cost_options, measure
from memstore.cli.reporting import check_page, fitting, say
from memstore.cli.support import (
    Bar,
    Place,
    checked_reranker,
    file_options,
    notice,
    opened,
    print_json,
    progress_bar,
    read_questions,
    rerank_options,
)
from memstore.database import Database
from memstore.errors import InvalidInputError
from memstore.exchange import read_text
from memstore.records import Memory, NewMemory
from memstore.store import MemoryStore

if TYPE_CHECKING:
    from memstore.evaluation import Curve, Evaluation, Judged

_PROBES = 100
# Of a larger store some memories, spread over it, are enough to make probes and texts from.
_MOST_READ, _BLOCKS = 10_000, 10
# As many as a search with --rerank reads again.
_READ_AGAIN = 50
_SAY_LEAST = ("MRR@10", "ms", "nDCG@10", "vs best signal", "hit@10")


@click.command("eval")
@click.argument("questions", required=False)
@click.option("--self", "own", is_flag=True, help="No QUESTIONS: make some from the file's own memories, a smoke test.")
@click.option("--sweep", metavar="[alpha|k1|b|rrf-k|depth]", help="Show the whole curve of one parameter.")
@click.option("--distractors", type=int, help="Ask again beside so many unrelated texts, in a copy of the file.")
@click.option(
    "--distractors-from",
    type=click.Path(path_type=Path),
    help="Take these from a file, one a line, instead of mixing words.",
)
@click.option("--by-category", is_flag=True, help="Show hit@1 for each category of questions too.")
@click.option("--html", type=click.Path(path_type=Path), help="Write all of it, with plots, as one page to this file.")
@rerank_options
@click.option("-n", "--namespace", help="Where questions are asked that name no namespace (default: everywhere).")
@click.option("--limit", type=int, help="The first so many questions alone; of --self, how many (default: 100).")
@click.option("--tokens", is_flag=True, help="Say instead what prompts cost: everything, searches, and context.")
@cost_options
@file_options
def evaluate(
    place: Place,
    questions: str | None,
    own: bool,
    sweep: str | None,
    distractors: int | None,
    distractors_from: Path | None,
    by_category: bool,
    html: Path | None,
    rerank: bool,
    reranker: str | None,
    namespace: str | None,
    limit: int | None,
    tokens: bool,
    **costing: Any,
) -> None:
    """Ask judged QUESTIONS (- is standard input) of each signal alone and of all together, and say what follows.

    QUESTIONS is JSON Lines: objects with text and relevant, the ids or keys of the memories that answer it, and if you
    like id, category, grades and namespace. The file of memories is not changed.
    """
    from memstore.evaluation import SWEEPS
    from memstore.evaluation import evaluate as evaluated

    if own == (questions is not None):
        raise click.UsageError("give a file of QUESTIONS, or --self to have some made from the memories.")
    if sweep is not None and sweep not in SWEEPS:
        raise click.UsageError(f"there is no sweep {sweep!r}; name one of {', '.join(SWEEPS)}.")
    if limit is not None and limit < 1:
        raise click.UsageError(f"--limit is {limit}; give 1 or more.")
    reranker = checked_reranker(rerank, reranker)
    options = CostOptions(**costing)
    if tokens and (own or sweep or distractors is not None or distractors_from or by_category or rerank):
        raise click.UsageError(
            "--tokens goes with QUESTIONS of your own, and without --self, --sweep, --distractors, --by-category and"
            " --rerank."
        )
    if options.given and not tokens:
        raise click.UsageError(f"{options.given[0]} goes with --tokens.")
    asked = () if questions is None else _placed(read_questions(questions)[:limit], namespace)
    if tokens:
        measure(place, asked, options, html)
        return
    lines = None if distractors_from is None else read_text(distractors_from).split("\n")
    with (
        opened(place, must_exist=True, reranker=reranker) as store,
        progress_bar(place.quiet, "asking") as progress,
    ):
        if html is not None:
            check_page(html)
        if own:
            asked = _probes(store, namespace, limit)
        texts = _texts(store, distractors, lines)
        found = evaluated(
            store.searcher,
            asked,
            store=Path(store.stats().path).name,
            profiles=store.profiles.list(),
            sweep=sweep,
            rerank=_READ_AGAIN if rerank else 0,
            progress=progress,
            **({"depths": ()} if own else {}),
        )
        if own:
            from memstore.evaluation import smoke

            found = dataclasses.replace(found, verdict=smoke(found, asked))
        if texts:
            curves = _distracted(store, place, asked, texts, progress)
            found = dataclasses.replace(found, curves=(*found.curves, *curves))
    _show(found, place, by_category=by_category, html=html)


def _show(found: "Evaluation", place: Place, *, by_category: bool, html: Path | None) -> None:
    from memstore.evaluation import category_rows, curve_rows, rows

    if html is not None:
        from memstore.evaluation.page import page

        html.write_text(page(found), encoding="utf-8", newline="\n")
    if place.as_json:
        print_json(render.record(found))
    else:
        render.table(*fitting(*rows(found), _SAY_LEAST))
        if by_category and found.categories:
            click.echo("\nhit@1 by category")
            render.table(*category_rows(found))
        for curve in found.curves:
            click.echo(f"\n{render.one_line(curve.name)}")
            render.table(*curve_rows(curve))
            say(curve.note)
        click.echo("")
        for sentence in found.verdict:
            say(sentence)
    if by_category and not found.categories:
        notice("no question names a category.", place.quiet)
    for note in found.notes:
        notice(note, place.quiet)
    if html is not None:
        notice(f"the page is {html}", place.quiet)


def _placed(asked: "Sequence[Judged]", namespace: str | None) -> "tuple[Judged, ...]":
    """Return questions that are asked in a namespace, unless they name their own."""
    return tuple(dataclasses.replace(one, namespace=one.namespace or namespace) for one in asked)


def _probes(store: MemoryStore, namespace: str | None, limit: int | None) -> "tuple[Judged, ...]":
    from memstore.evaluation import probes

    memories = _memories(store, namespace)
    found = probes(memories, limit=limit or _PROBES)
    if not found:
        where = "" if namespace is None else f" in the namespace {namespace!r}"
        raise InvalidInputError(
            f"no probe can be made from the {len(memories):,} memories{where}; add some that differ in their words."
        )
    return found


def _memories(store: MemoryStore, namespace: str | None) -> list[Memory]:
    """Return the memories of a store, of a large one some thousands from all over it."""
    total = store.count(namespace=namespace)
    if total <= _MOST_READ:
        return store.list(limit=_MOST_READ, order="oldest", namespace=namespace)
    return [
        one
        for block in range(_BLOCKS)
        for one in store.list(
            limit=_MOST_READ // _BLOCKS, offset=total * block // _BLOCKS, order="oldest", namespace=namespace
        )
    ]


def _texts(store: MemoryStore, number: int | None, lines: Sequence[str] | None) -> tuple[str, ...]:
    """Return the unrelated texts that are asked for: of a file's lines, or made of the memories' words."""
    from memstore.evaluation import chosen, invented

    if number is None and lines is None:
        return ()
    if number is not None:
        number = checks.whole("distractors", number, least=1)
    own = [memory.text for memory in _memories(store, None)]
    return chosen(lines, own, number) if lines is not None else invented(own, number or 1)


def _distracted(
    store: MemoryStore, place: Place, asked: "Sequence[Judged]", texts: Sequence[str], progress: Bar
) -> "tuple[Curve, ...]":
    """Return what unrelated texts do to the answers, spread over the namespaces that are asked; all in a copy."""
    from memstore.evaluation import distracted

    namespaces = list(dict.fromkeys(one.namespace or "default" for one in asked))
    with _copied(store, place) as copy:

        def add(some: Sequence[str]) -> None:
            new = [
                NewMemory(text=text, namespace=namespaces[index % len(namespaces)]) for index, text in enumerate(some)
            ]
            copy.add_many(new, progress=progress)

        return distracted(copy.searcher, asked, add, texts, progress=progress)


@contextmanager
def _copied(store: MemoryStore, place: Place) -> Iterator[MemoryStore]:
    """Open a copy of the file, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="memstore-") as folder:
        source = Database(store.stats().path, read_only=True, key=place.key)
        try:
            copy = source.copy(Path(folder) / "copy.db")
        finally:
            source.close()
        with opened(dataclasses.replace(place, db=copy)) as grown:
            yield grown

"""`memstore search` and `memstore recall`: hits on standard output, what is to be said of them beside it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from memstore import render
from memstore.cli.support import (
    Place,
    argument,
    checked_reranker,
    file_options,
    filter_options,
    filtered,
    notice,
    opened,
    print_json,
    read_json,
    rerank_amounts,
    rerank_options,
    superseded_option,
)
from memstore.ranking import BM25
from memstore.records import RECALL, SEARCH, Ageing, SearchResult

_SIGNAL = "Only this signal (keyword, semantic, entity, or an embedding space by its name); again for more."
_PROFILE = "default, technical, conceptual, people, or one of the file (memstore profiles lists them)."
_RELEVANCE = "Leave out what is less likely an answer than this, 0 to 1."
_FLOOR = "What only a vector speaks for counts from this share of its scale on; -1 is no bound."


@click.command()
@click.argument("query")
@click.option("-k", "--limit", "k", type=int, default=SEARCH.k, show_default=True, help="How many hits at most.")
@click.option("--explain", is_flag=True, help="Show how each score came about.")
@click.option("--profile", default="default", show_default=True, help=_PROFILE)
@click.option("--weights", help="JSON of own weights: keyword, semantic, entity, boost, thread, or a space's name.")
@click.option("--fusion", help="calibrated (the default), minmax, dbsf, zscore, l2, geometric, harmonic or rrf.")
@click.option("--min-relevance", type=float, help=_RELEVANCE)
@click.option("--depth", type=int, default=SEARCH.depth, show_default=True, help="Candidates of each signal.")
@click.option("--floor", type=float, default=SEARCH.floor, show_default=True, help=_FLOOR)
@rerank_options
@rerank_amounts
@click.option("--signal", "signals", multiple=True, help=_SIGNAL)
@click.option("--ranking", default="bm25", show_default=True, help="How keywords are ranked: bm25 or tf-idf.")
@click.option("--k1", type=float, help="BM25: how soon a repeated word stops to count for more.")
@click.option("--b", type=float, help="BM25: how much a long text is held to its length, 0 to 1.")
@click.option("--match", default="any", show_default=True, help="Which words must be there: any, all, all_then_any.")
@click.option("--sort", default="relevance", show_default=True, help="relevance, or newest: the latest likely answers.")
@click.option("--recency", type=float, metavar="WEIGHT", help="What a memory made today adds to its score.")
@click.option("--use-weight", "use", type=float, metavar="WEIGHT", help="What one used today adds to its score.")
@click.option("--pinned-weight", "pinned", type=float, metavar="WEIGHT", help="What a pinned one adds to its score.")
@click.option("--half-life", type=float, metavar="DAYS", help="After how long recency and use are half (default: 30).")
@superseded_option
@filter_options
@file_options
def search(
    place: Place,
    query: str,
    explain: bool,
    ranking: str,
    k1: float | None,
    b: float | None,
    reranker: str | None,
    **options: Any,
) -> None:
    """Find the memories that answer QUERY best (- reads it from standard input)."""
    ages = {name: options.pop(name) for name in ("recency", "use", "pinned", "half_life")}
    ages = {name: value for name, value in ages.items() if value is not None}
    if "half_life" in ages and not {"recency", "use"} & ages.keys():
        raise click.UsageError("--half-life goes with --recency or --use-weight.")
    options["ageing"] = Ageing(**ages) if ages else None
    tuned = {name: value for name, value in (("k1", k1), ("b", b)) if value is not None}
    if tuned and ranking != "bm25":
        raise click.UsageError("--k1 and --b are parameters of bm25.")
    options["weights"] = read_json("--weights", options["weights"])
    options["signals"] = options["signals"] or None
    how: Any = BM25(**tuned) if tuned else ranking
    with opened(place, must_exist=True, ranking=how, reranker=checked_reranker(options["rerank"], reranker)) as store:
        found = store.search(argument(query), **filtered(options, place.quiet))
    _show(found, place, explain=explain)


@click.command()
@click.argument("query")
@click.option("-k", "--limit", "k", type=int, default=RECALL.k, show_default=True, help="How many hits at most.")
@click.option("--explain", is_flag=True, help="Show how each score came about.")
@click.option("--profile", default="default", show_default=True, help=_PROFILE)
@click.option("--min-relevance", type=float, default=RECALL.min_relevance, show_default=True, help=_RELEVANCE)
@click.option("--depth", type=int, default=RECALL.depth, show_default=True, help="Candidates of each signal.")
@click.option("--floor", type=float, default=RECALL.floor, show_default=True, help=_FLOOR)
@superseded_option
@filter_options
@file_options
def recall(
    place: Place, query: str, explain: bool, min_relevance: float, depth: int, floor: float, **options: Any
) -> None:
    """Find what is surely worth having beside QUERY, before every prompt; often that is nothing.

    It is a search of a small cost with a tight floor; search itself is for a question that is asked.
    """
    with opened(place, must_exist=True) as store:
        preset = replace(RECALL, min_relevance=min_relevance, depth=depth, floor=floor)
        found = store.recall(argument(query), preset=preset, **filtered(options, place.quiet))
    _show(found, place, explain=explain)


def notices(found: SearchResult) -> Iterator[str]:
    """Yield what is to be known of an answer beside its hits."""
    if found and found.uncertain:
        yield (
            "uncertain: by its scores even the best hit is more likely not an answer"
            f" (relevance {found.relevance:.2f})."
        )
    yield from (f"{name} took no part: {why}." for name, why in found.skipped.items() if why != "not asked for")
    if found.pending:
        yield f"{found.pending} vectors wait to be made; memstore embedders fill makes them."
    yield from found.notices


def _show(found: SearchResult, place: Place, *, explain: bool) -> None:
    if place.as_json:
        print_json(render.result(found))
        return
    for line in render.hits(found, explain=explain):
        click.echo(line)
    for sentence in notices(found):
        notice(sentence, place.quiet)

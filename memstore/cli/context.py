"""`memstore context`: a block for a prompt on standard output."""

from typing import Any

import click

from memstore import render
from memstore.cli.searching import notices
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
from memstore.context import DEFAULT_FORMAT, DIVERSITY, FORMATS, NAMES, ORDERS
from memstore.records import Context


@click.command()
@click.argument("query")
@click.option("--max-tokens", type=int, default=2000, show_default=True, help="The block never has more.")
@click.option("--tokeniser", default="estimate", show_default=True, help=f"What counts: {NAMES}.")
@click.option("--format", "format", default=DEFAULT_FORMAT, show_default=True, help=f"{', '.join(FORMATS)}.")
@click.option("--order", default="relevance", show_default=True, help=f"{' or '.join(ORDERS)}.")
@click.option("-k", "--limit", "k", type=int, help="How many memories, at most 500 (default: as many as may fit).")
@click.option("--neighbours/--no-neighbours", default=True, help="Fill room with what stands beside in the threads.")
@click.option("--diversity", type=float, default=DIVERSITY, show_default=True, help="0: the best; 1: the most unlike.")
@click.option("--profile", default="default", show_default=True, help="The weights of the search, by their name.")
@click.option("--weights", help="JSON of own weights, as in search.")
@click.option("--fusion", help="How scores are put together, as in search.")
@click.option("--min-relevance", type=float, help="Leave out what is less likely an answer than this, 0 to 1.")
@rerank_options
@rerank_amounts
@superseded_option
@filter_options
@file_options
def context(place: Place, query: str, reranker: str | None, **options: Any) -> None:
    """Print the memories that answer QUERY (- reads it from standard input) as one block for a prompt.

    The block says that it is data, names the id, date and author of each passage, and can't be ended by a memory.
    """
    options["weights"] = read_json("--weights", options["weights"])
    with opened(place, must_exist=True, reranker=checked_reranker(options["rerank"], reranker)) as store:
        found = store.context(argument(query), **filtered(options, place.quiet))
    if place.as_json:
        print_json(render.context(found))
    elif found.text:
        click.echo(found.text)
    for sentence in _notices(found):
        notice(sentence, place.quiet)


def _notices(found: Context) -> list[str]:
    search = found.found
    passages = "1 passage" if len(found.items) == 1 else f"{len(found.items):,} passages"
    said = [
        f"{passages}, {found.tokens:,} of {found.max_tokens:,} tokens ({found.tokeniser});"
        f" {found.left_out} did not fit, {found.duplicates} said nothing new."
    ]
    if not found.text:
        why = "nothing found."
        if found.needed is not None:
            why = f"the best passage needs {found.needed:,} tokens, more than {found.max_tokens:,}; raise --max-tokens."
        said = [f"the block is empty: {why}"]
    said += notices(search)
    return said

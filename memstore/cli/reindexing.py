"""`memstore reindex`: what was analysed otherwise than it would be now, analysed anew."""

import click

from memstore.cli.support import Place, file_options, notice, opened, print_json, progress_bar


@click.command()
@click.option(
    "--languages", metavar="LIST", help="Give the file other languages (of pt, en, es, parted by commas), from then on."
)
@file_options
def reindex(place: Place, languages: str | None) -> None:
    """Analyse the memories anew that another version analysed, or that were analysed in other languages.

    An interrupted run goes on where it stopped; a second one does nothing. Vectors stay as they are.
    """
    wanted = None if languages is None else [one.strip() for one in languages.split(",")]
    with opened(place, must_exist=True) as store:
        with progress_bar(place.quiet, "analysing") as progress:
            done = store.maintenance.reindex(languages=wanted, progress=progress)
        left = store.stats()
    if place.as_json:
        print_json({"reindexed": done, "stale": left.stale, "languages": list(left.languages)})
    else:
        click.echo(f"{done:,} {'memory' if done == 1 else 'memories'} analysed anew, in {', '.join(left.languages)}")
        if left.stale:
            notice(f"{left.stale:,} stay as they are: a later memstore analysed them; upgrade memstore.", place.quiet)

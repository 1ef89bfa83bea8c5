"""`memstore models`: which embedders and rerankers there are, and the download of one."""

import sys
from pathlib import Path
from typing import Any

import click

from memstore import render
from memstore.cli.support import notice, print_json
from memstore.embedding import files, on_disk
from memstore.embedding import pulling as embedders
from memstore.embedding.downloading import Listing
from memstore.rerank import pulling as rerankers
from memstore.rerank.catalogue import described


@click.group()
def models() -> None:
    """See the embedders and rerankers that can be named, and download one of them.

    Give the name that is listed for an embedder as --embedder, or to `memstore embedders add`. Nothing else in memstore
    downloads anything.
    """


@models.command("list")
@click.option("--all", "everything", is_flag=True, help="All models of fastembed, not only those worth naming.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on standard output.")
def list_(everything: bool, as_json: bool) -> None:
    """List the embedders that can be named, then the rerankers; of each those that are here first."""
    here = ("installed", "on disk", "broken")
    groups = (embedders.listed(everything), rerankers.listed())
    found = [one for group in groups for one in sorted(group, key=lambda one: one.state not in here)]
    if as_json:
        print_json([_shown(one) for one in found])
    elif sys.stdout.isatty():
        # No name is cut, so that each can be copied.
        for one in found:
            click.echo(f"{one.name}\n    {'  '.join(_about(one))}")
    else:
        render.table(None, [[one.name, *_about(one)] for one in found])


@models.command("pull")
@click.argument("name")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder for its files alone (default: fastembed's cache, where every program finds them by name).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="No notices and no progress on standard error.")
def pull(name: str, folder: Path | None, as_json: bool, quiet: bool) -> None:
    """Download the model NAME from the Hugging Face hub; a download that was broken off goes on where it stopped.

    FASTEMBED_CACHE_PATH is the folder of fastembed's cache.
    """
    model = described(name.removeprefix("fastembed:"))
    download = embedders.pull if model is None else rerankers.pull
    there = download(name, folder=folder, progress=not quiet and sys.stderr.isatty())
    if folder is None:
        spec = f"fastembed:{(model or on_disk.find(name.removeprefix('fastembed:'))).name}"
    else:
        spec = f"fastembed:{there.absolute()}"
    if as_json:
        print_json({"name": spec, "folder": str(there)})
    else:
        click.echo(f"{spec} is in {there}")
    if folder is None and files.cache_is_temporary():
        notice(f"{files.cache()} may be emptied by the system; set FASTEMBED_CACHE_PATH to keep the model.", quiet)


def _about(one: Listing) -> list[str]:
    licence = one.licence if one.commercial else f"{one.licence} (no commercial use)"
    kind = one.kind if one.dimensions is None else f"{one.kind}, {one.dimensions} dimensions"
    return [one.state, kind, f"{one.megabytes:,} MB", one.languages or "?", licence]


def _shown(one: Listing) -> Any:
    return {**render.record(one), "folder": None if one.folder is None else str(one.folder)}

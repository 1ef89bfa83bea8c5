"""The rerankers that can be named, and the download of one."""

from pathlib import Path

from memstore.embedding.downloading import Download, Listing, state
from memstore.errors import RerankerError
from memstore.rerank import cross_encoder
from memstore.rerank.catalogue import KNOWN, Description
from memstore.rerank.model import Reranker


def listed() -> list[Listing]:
    """Return the rerankers that can be named; nothing heavy is imported."""
    return [_listing(one) for one in KNOWN]


def _listing(model: Description) -> Listing:
    there, folder = state(model)
    return Listing(
        name=f"fastembed:{model.name}",
        kind="reranker",
        state=there,
        dimensions=None,
        megabytes=model.megabytes,
        languages=model.languages,
        licence=model.licence,
        commercial=model.commercial,
        folder=folder,
    )


def pull(name: str, *, folder: Path | None = None, progress: bool = True) -> Path:
    """Download a reranker into fastembed's cache, or into a folder of its own, and return where it is.

    A download that was broken off goes on where it stopped; what is there and whole is not downloaded again, what is
    there and spoilt is. Progress is shown on standard error. Raises `RerankerError` when it can't be had or opened.
    """
    model = cross_encoder.find(name.removeprefix("fastembed:"))

    def opened(place: Path | None) -> Reranker:
        return cross_encoder.open_named(model.name) if place is None else cross_encoder.open_folder(place)

    download = Download(model, RerankerError, opened, progress)
    return download.into_cache() if folder is None else download.into(folder)

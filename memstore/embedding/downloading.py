"""The one thing here that goes to a network: a model's files, downloaded when the user asks for them by name."""

import errno
import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from memstore.embedding import files
from memstore.errors import ModelError, first_line

# What is read of a model when it is there; not every model has it.
_OPTIONAL = (
    "config.json",
    "special_tokens_map.json",
    "config_sentence_transformers.json",
    "modules.json",
    "1_Pooling/config.json",
)
_MEGABYTE = 1_000_000


class Downloadable(Protocol):
    """What must be known of a model to download it."""

    @property
    def name(self) -> str: ...
    @property
    def megabytes(self) -> int: ...
    @property
    def repository(self) -> str: ...
    @property
    def model_file(self) -> str: ...
    @property
    def data_files(self) -> tuple[str, ...]: ...
    @property
    def files(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A model that can be named.

    `kind` is "embedder" or "reranker", `name` as that argument takes it; `state` is "installed", "not installed" (a
    package), "on disk", "broken" or "can be pulled". A reranker has no dimensions.
    """

    name: str
    kind: str = "embedder"
    state: str
    dimensions: int | None
    megabytes: int
    languages: str
    licence: str
    commercial: bool = True
    folder: Path | None = None


def state(model: Downloadable) -> tuple[str, Path | None]:
    """Return the state of a model in the cache, and its folder there."""
    kept = files.snapshot(model.repository, model.files)
    if kept is None:
        return "can be pulled", None
    return "broken" if kept.fault else "on disk", kept.folder


class Download:
    """The download of one model, after which it is opened: `kind` is what is raised when that can't be."""

    def __init__(
        self, model: Downloadable, kind: type[ModelError], open_it: Callable[[Path | None], object], progress: bool
    ) -> None:
        self._model = model
        self._kind = kind
        self._open = open_it
        self._progress = progress

    def into_cache(self) -> Path:
        """Download what is not there and whole into fastembed's cache, and return the folder."""
        kept = files.snapshot(self._model.repository, self._model.files)
        if kept is None:
            self._refuse_without_room(files.cache())
        elif not kept.fault and self._opens():
            return kept.folder
        # What is whole by its size and does not open is spoilt as well.
        folder = self._downloaded(None, anew=kept is not None and (kept.spoilt or not kept.fault))
        self._open(None)
        return folder

    def into(self, folder: Path) -> Path:
        """Download what is not there into a folder of its own, and return that."""
        if not folder.exists():
            self._refuse_without_room(folder)
        self._downloaded(folder, anew=files.looked_at(folder, self._model.files, {}).spoilt)
        self._open(folder)
        return folder

    def _opens(self) -> bool:
        try:
            self._open(None)
        except self._kind:
            return False
        return True

    def _downloaded(self, folder: Path | None, *, anew: bool) -> Path:
        from huggingface_hub import HfApi, constants, snapshot_download
        from huggingface_hub.errors import RepositoryNotFoundError

        model = self._model
        if constants.HF_HUB_OFFLINE:
            raise self._kind(f"the model {model.name} is not downloaded while HF_HUB_OFFLINE is set; unset it for this")
        try:
            with _quiet_hub(self._progress):
                # snapshot_download waits for a silent hub without an end, and takes what it has when there is none.
                info = HfApi().model_info(model.repository, files_metadata=True, timeout=constants.HF_HUB_ETAG_TIMEOUT)
                if not anew:
                    self._fetch_weights(info, folder)
                return Path(
                    snapshot_download(
                        model.repository,
                        # By its hash nothing is noted in the cache; there fastembed looks for the name.
                        revision=None if folder is None else info.sha,
                        allow_patterns=[*model.files, *_OPTIONAL],
                        cache_dir=files.cache(),
                        local_dir=folder,
                        force_download=anew,
                    )
                )
        except RepositoryNotFoundError as error:
            raise self._kind(
                f"{constants.ENDPOINT} shows no {model.repository}, where the model {model.name} is kept; it may ask"
                " for a login (hf auth login)"
            ) from error
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise self._no_room(folder or files.cache()) from error
            raise self._kind(
                f"the model {model.name} can't be downloaded from {constants.ENDPOINT} ({first_line(error)}); see to"
                f" the network, and memstore models pull {model.name} goes on where it stopped"
            ) from error

    def _fetch_weights(self, info: Any, folder: Path | None) -> None:
        """Download the large files of a model, or what is missing of one whose download was broken off.

        snapshot_download takes them for downloaded then. Left to itself it throws away what it has of a file that does
        not end (huggingface_hub 1.33; until 1.0 it went on).
        """
        from huggingface_hub import hf_hub_url
        from huggingface_hub.file_download import http_get
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        model = self._model
        for one in info.siblings or ():
            if one.lfs is None or one.rfilename not in (model.model_file, *model.data_files):
                continue
            done = (
                files.kept_in(model.repository) / "blobs" / one.lfs.sha256 if folder is None else folder / one.rfilename
            )
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

    def _refuse_without_room(self, place: Path) -> None:
        there = next(one for one in (place.absolute(), *place.absolute().parents) if one.exists())
        if shutil.disk_usage(there).free < self._model.megabytes * _MEGABYTE:
            raise self._no_room(place)

    def _no_room(self, place: Path) -> ModelError:
        model = self._model
        return self._kind(
            f"there is no room for the model {model.name} in {place}: it takes {model.megabytes:,} MB; make room, or"
            " have it elsewhere with --to or FASTEMBED_CACHE_PATH"
        )


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

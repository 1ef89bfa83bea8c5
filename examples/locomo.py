"""Ask judged questions of a store and write the rankings down, for a scorer to read.

DIR holds docs.jsonl (id, text; where known scope, session, speaker, time) and queries.jsonl (id, text; where known
scope): any collection in that form, conversations or not. A document's id becomes the key, its scope the namespace,
scope and session the thread, speaker the author, time the date.
"""

import argparse
import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from memstore import MemoryStore, NewMemory


def read(path: Path) -> list[dict]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def when(text: str) -> datetime:
    """Read a time such as `1:56 pm on 8 May, 2023`, or ISO 8601; without a zone it is UTC here, on any machine."""
    try:
        return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    except ValueError:
        found = datetime.fromisoformat(text)
        return found if found.tzinfo else found.replace(tzinfo=UTC)


def memory(doc: dict) -> NewMemory:
    scope = doc.get("scope", "default")
    session = doc.get("session")
    return NewMemory(
        text=doc["text"],
        key=doc["id"],
        namespace=scope,
        author=doc.get("speaker"),
        thread=None if session is None else f"{scope}/{session}",
        created_at=when(doc["time"]) if doc.get("time") else None,
        language=doc.get("lang"),
    )


def peak_memory() -> str:
    try:
        import resource
    except ImportError:  # Windows has no such measure
        return "unknown"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return f"{peak / (1 << 20 if sys.platform == 'darwin' else 1 << 10):.0f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, metavar="DIR")
    parser.add_argument("--run", type=Path, help="where the rankings go (default: NAME-SIGNALS.run.jsonl here)")
    parser.add_argument("--store", type=Path, help="keep the built store there; the next run only searches")
    parser.add_argument("--scoped", action="store_true", help="search only the namespace of the question's scope")
    parser.add_argument("--signals", help="only these, parted by commas: keyword, semantic, entity, a space's name")
    parser.add_argument("--profile", default="default")
    parser.add_argument("--embedder", default="auto")
    parser.add_argument("--second", help="add a space for this embedder too, under the name second")
    parser.add_argument("--language", action="append", help="ask the second space queries in this language alone")
    parser.add_argument("--depth", type=int, default=50)
    parser.add_argument("-k", type=int, default=10)
    args = parser.parse_args()
    if not (args.dir / "docs.jsonl").is_file():
        print(f"skipped: {args.dir} has no docs.jsonl", file=sys.stderr)
        return
    docs, queries = read(args.dir / "docs.jsonl"), read(args.dir / "queries.jsonl")
    signals = args.signals.split(",") if args.signals else None

    def progress(done: int, total: int) -> None:
        print(f"\r{done} of {total} memories", end="" if done < total else "\n", file=sys.stderr)

    with MemoryStore(args.store or Path(tempfile.mkdtemp()) / "judged.db", embedder=args.embedder) as store:
        start = time.perf_counter()
        if store.count() < len(docs):
            store.add_many([memory(doc) for doc in docs], progress=progress)
        if args.second and all(space.name != "second" for space in store.spaces.list()):
            store.spaces.add(args.second, name="second", languages=args.language)
            store.spaces.fill("second", progress=progress)
        built = time.perf_counter() - start
        print(f"{store.count()} memories in {built:.1f} s; peak memory {peak_memory()}", file=sys.stderr)

        start = time.perf_counter()
        answers, skipped = [], {}
        for query in queries:
            scope = query.get("scope") if args.scoped else None
            found = store.search(
                query["text"], args.k, depth=args.depth, namespace=scope, signals=signals, profile=args.profile
            )
            skipped |= found.skipped
            answers.append({"query": query["id"], "ranked": [hit.memory.key for hit in found]})
        asked = time.perf_counter() - start
    for signal, reason in skipped.items():
        print(f"{signal} took no part in some searches: {reason}", file=sys.stderr)
    name = f"{args.dir.name}-{args.signals or 'all'}{'-scoped' if args.scoped else ''}.run.jsonl"
    run = args.run or Path(name.replace(",", "+").replace("/", "-"))
    with open(run, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers)
    print(
        f"{len(queries)} questions in {asked:.1f} s ({1000 * asked / max(1, len(queries)):.1f} ms each); "
        f"peak memory {peak_memory()}; rankings in {run}",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()

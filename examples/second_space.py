"""Add a second embedding space to a file that is in use, kill the filling, resume it, and count everything.

DIR holds the judged collections locomo-dev, squad-es and faquad-dev: 4,969 memories in ten namespaces. Searches go on
in another process all along. Three runs of rankings are written for a scorer: before, during and after.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from locomo import memory, read

from memstore import MemoryStore, NewMemory

SPANISH = 1960


def collections(folder: Path) -> tuple[list[NewMemory], list[dict]]:
    """Return the memories, and the questions that have an answer among them."""
    new = [memory(doc) for doc in read(folder / "locomo-dev" / "docs.jsonl")]
    for name, limit, parts in (("squad-es", SPANISH, 4), ("faquad-dev", None, 1)):
        docs = read(folder / name / "docs.jsonl")[:limit]
        for number, doc in enumerate(docs):
            part = number * parts // len(docs)
            new.append(memory({**doc, "id": f"{name}/{doc['id']}", "scope": f"{name}-{part}"}))
    there = {one.key for one in new}
    questions = []
    for name in ("locomo-dev", "squad-es", "faquad-dev"):
        for query in read(folder / name / "queries.jsonl"):
            own = "" if name == "locomo-dev" else f"{name}/"
            relevant = [own + one for one in query["relevant"] if own + one in there]
            if relevant:
                questions.append({"id": f"{name}/{query['id']}", "text": query["text"], "relevant": relevant})
    return new, questions


def ask(store: MemoryStore, question: dict) -> dict:
    found = store.search(question["text"], 10)
    ranked = [hit.memory.key for hit in found]
    return {"query": question["id"], "ranked": ranked, "spaces": list(found.spaces), "skipped": dict(found.skipped)}


def write(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def hits(rows: list[dict], questions: dict[str, dict]) -> float:
    right = [not set(row["ranked"]).isdisjoint(questions[row["query"]]["relevant"]) for row in rows]
    return sum(right) / max(1, len(right))


def fingerprint(store: MemoryStore, number: int) -> tuple[int, str]:
    """Return how many vectors a space has, and a hash of all their bytes."""
    digest, held = hashlib.sha256(), by_passage(store, number)
    for passage, vector in sorted(held.items()):
        digest.update(f"{passage}:".encode() + vector)
    return len(held), digest.hexdigest()[:16]


def by_passage(store: MemoryStore, number: int) -> dict[int, bytes]:
    """Return the bytes of a space's vectors by passage: a look under the hood, for this count alone."""
    with store._database.read() as conn:
        return dict(conn.execute(f"SELECT rowid, embedding FROM vectors_{number}").fetchall())


def vectors(db: Path, name: str) -> tuple[int, int, str]:
    with MemoryStore(db, read_only=True) as store:
        return next(
            ((one.vectors, one.pending, one.state) for one in store.spaces.list() if one.name == name), (0, 0, "")
        )


def search_on(folder: Path, db: Path, stop: Path, answers: Path) -> None:
    """Ask until `stop` is there: what the other process does."""
    _, questions = collections(folder)
    random.Random(7).shuffle(questions)
    done = []
    with MemoryStore(db) as store:
        while not stop.exists():
            done.append(ask(store, questions[len(done) % len(questions)]))
    write(answers, done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, metavar="DIR")
    parser.add_argument("--embedder", default="bundled:use", help="the model of the second space")
    parser.add_argument("--language", action="append", help="ask the second space queries in this language alone")
    parser.add_argument("--store", type=Path, help="keep the store of one space there; the next run starts from it")
    parser.add_argument("--kill-at", type=float, default=0.4, help="the share of the passages at which it is killed")
    parser.add_argument("--search", nargs=3, type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not (args.dir / "squad-es" / "docs.jsonl").is_file():
        print(f"skipped: {args.dir} has no squad-es/docs.jsonl", file=sys.stderr)
        return
    if args.search:
        search_on(args.dir, *args.search)
        return
    with tempfile.TemporaryDirectory() as work:
        measure(args, Path(work))


def measure(args: argparse.Namespace, work: Path) -> None:
    base, db, stop, during = args.store or work / "base.db", work / "two.db", work / "stop", work / "during.jsonl"
    new, questions = collections(args.dir)
    asked = {question["id"]: question for question in questions}

    began = time.perf_counter()
    with MemoryStore(base, embedder="bundled") as store:
        store.add_many(new)
        spaces = {one.namespace for one in store.list(limit=len(new))}
        print(f"{store.count():,} memories in {len(spaces)} namespaces, one space: {time.perf_counter() - began:.0f} s")
    db.write_bytes(base.read_bytes())
    with MemoryStore(db) as store:
        before = [ask(store, question) for question in questions]
        first = fingerprint(store, 1)
    print(
        f"before: {first[0]:,} vectors, hash {first[1]}; hit@10 {hits(before, asked):.4f} on {len(before):,} questions"
    )

    memstore = [sys.executable, "-m", "memstore", "embedders"]
    options = ["--db", str(db), *(part for language in args.language or [] for part in ("--language", language))]
    dry = subprocess.run(
        [*memstore, "add", args.embedder, "--dry-run", "--db", str(db)], capture_output=True, text=True
    )
    print("dry run:", dry.stdout.strip() or dry.stderr.strip())
    searcher = subprocess.Popen([sys.executable, __file__, str(args.dir), "--search", str(db), str(stop), str(during)])
    try:
        filler = subprocess.Popen([*memstore, "add", args.embedder, "--name", "second", *options, "--quiet"])
        while filler.poll() is None and vectors(db, "second")[0] < args.kill_at * first[0]:
            time.sleep(0.05)
        filler.kill()
        filler.wait()
        held, pending, state = vectors(db, "second")
        print(f"killed: {held:,} vectors, {pending:,} wait, state {state}")
        with MemoryStore(db, read_only=True) as store:
            cut, kept = fingerprint(store, 2), by_passage(store, 2)
        resumed = subprocess.run([*memstore, "fill", "--db", str(db)], capture_output=True, text=True)
        print("resumed:", " | ".join(resumed.stdout.strip().splitlines()) or resumed.stderr.strip())
        again = subprocess.run([*memstore, "fill", "--db", str(db)], capture_output=True, text=True)
        print("again:  ", " | ".join(again.stdout.strip().splitlines()))
    finally:
        stop.touch()
        searcher.wait()

    with MemoryStore(db) as store:
        last, second, now = fingerprint(store, 1), fingerprint(store, 2), by_passage(store, 2)
        after = [ask(store, question) for question in questions]
        for one in store.spaces.list():
            print(f"{one.name}: {one.state}, {one.vectors:,} vectors, {one.pending} wait, {one.refused} refused")
    answers = read(during)
    same = [before_ for before_ in before if before_["query"] in {row["query"] for row in answers}]
    print(f"first space: {last[0]:,} vectors, hash {last[1]}: {'unchanged' if last == first else 'CHANGED'}")
    unchanged = all(now[rowid] == vector for rowid, vector in kept.items())
    print(
        f"second space: of {cut[0]:,} vectors before the kill {'none' if unchanged else 'SOME'} changed;"
        f" {second[0]:,} now"
    )
    print(
        f"during: hit@10 {hits(answers, asked):.4f} on {len(answers):,} questions asked; before, on the same: "
        f"{hits(same, asked):.4f}"
    )
    print(f"after: hit@10 {hits(after, asked):.4f}; before {hits(before, asked):.4f}")
    write(Path("second-queries.jsonl"), questions)
    for name, rows in (("before", before), ("during", answers), ("after", after)):
        write(Path(f"second-{name}.run.jsonl"), rows)
    print(f"rankings in second-*.run.jsonl, {os.getcwd()}")


if __name__ == "__main__":
    main()

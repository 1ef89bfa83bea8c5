"""Measure the passage size: rank judged documents by their best passage alone, cut at several sizes.

DIR is a collection as for locomo.py. For each size a run file is written, for a scorer to read. It embeds the whole
collection once a size.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from memstore.embedding import resolve
from memstore.passages import PASSAGE_UNITS, cut


def read(path: Path) -> list[dict]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, metavar="DIR")
    parser.add_argument("--units", type=int, nargs="+", default=[400, PASSAGE_UNITS, 800, 1200])
    parser.add_argument("--embedder", default="bundled")
    args = parser.parse_args()
    if not (args.dir / "docs.jsonl").is_file():
        print(f"skipped: {args.dir} has no docs.jsonl", file=sys.stderr)
        return
    docs, queries = read(args.dir / "docs.jsonl"), read(args.dir / "queries.jsonl")
    (model,), _ = resolve(args.embedder)
    asked = [model.query(query["text"]) for query in queries]
    for units in args.units:
        spans = [(index, *span) for index, doc in enumerate(docs) for span in cut(doc["text"], units)]
        vectors = model.passages([docs[index]["text"][start:stop] for index, start, stop in spans]).vectors
        run = Path(f"{args.dir.name}-{units}.run.jsonl")
        with open(run, "w", encoding="utf-8") as file:
            for query, vector in zip(queries, asked, strict=True):
                best = np.full(len(docs), -1.0)
                for number, passage in vectors.items():
                    if vector is not None and passage is not None:
                        index = spans[number][0]
                        best[index] = max(best[index], float(vector @ passage))
                ranked = [docs[index]["id"] for index in np.argsort(-best, kind="stable")[:10]]
                file.write(json.dumps({"query": query["id"], "ranked": ranked}, ensure_ascii=False) + "\n")
        print(f"{units} units: {len(spans)} passages of {len(docs)} documents; rankings in {run}", file=sys.stderr)


if __name__ == "__main__":
    main()

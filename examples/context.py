"""Put judged questions to a store and see how much of their evidence a block of so many tokens holds.

DIR holds docs.jsonl and queries.jsonl as examples/locomo.py reads them. For each number of tokens it prints the share
of the questions with all of their evidence inside, and the mean share of the evidence, beside the whole conversation
put into the prompt and cut at the same number: its end, and its beginning. With --tokens it measures instead how often
the estimate counts fewer tokens than a real tokeniser.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from locomo import memory, read

from memstore import MemoryStore
from memstore.context import DEFAULT_FORMAT, DIVERSITY, FORMATS, entry, packing, tokeniser

BUDGETS = (500, 1000, 2000, 7000)


def counter(store: MemoryStore, name: str):
    """Return the count of a tokeniser by its name, each text counted once."""
    count, known = tokeniser(name, store.spaces.counting).count, {}

    def counted(text: str) -> int:
        if text not in known:
            known[text] = count(text)
        return known[text]

    return counted


def brute_force(docs: list[dict], queries: list[dict], scoped: bool, count, write) -> list[str]:
    """Return lines that say what the whole conversation costs, and what is inside of it when it is cut."""

    def cost(doc: dict, number: int) -> int:
        date = (doc.get("time") or "2023-01-01")[:10]
        return max(0, count(write([entry(number, date, doc.get("speaker"), doc["text"])])) - frame)

    frame = count(write([]))
    costs = {doc["id"]: cost(doc, number) for number, doc in enumerate(docs, 1)}
    scopes: dict[str | None, list[str]] = {}
    for doc in docs:
        scopes.setdefault(doc.get("scope") if scoped else None, []).append(doc["id"])
    asked = [scopes.get(query.get("scope") if scoped else None, []) for query in queries]
    wholes = [frame + sum(costs[one] for one in ids) for ids in asked]
    lines = [f"  everything: {sum(wholes) / len(wholes):,.0f} tokens a question"]
    for budget in BUDGETS:
        shares = []
        for end in (True, False):
            inside = []
            for query, ids in zip(queries, asked, strict=True):
                room, held = budget - frame, set()
                for one in reversed(ids) if end else ids:
                    room -= costs[one]
                    if room < 0:
                        break
                    held.add(one)
                inside.append(set(query["relevant"]) <= held)
            shares.append(sum(inside) / len(inside))
        lines.append(f"  {budget:>6} tokens of it: all evidence {shares[0]:.3f} (its end), {shares[1]:.3f} (its start)")
    return lines


def undercounts(store: MemoryStore, queries: list[dict], names: list[str]) -> None:
    """Print how the estimate stands to real tokenisers, on blocks of each format and on single memories."""
    texts = [one.text for one in store.list(limit=1000)]
    blocks = [store.context(query["text"], format=form).text for query in queries[:50] for form in FORMATS]
    guess = counter(store, "estimate")
    for name in names:
        count = counter(store, name)
        for what, some in (("memories", texts), ("blocks", [one for one in blocks if one])):
            ratios = sorted(guess(one) / max(1, count(one)) for one in some)
            below = sum(ratio < 1 for ratio in ratios) / len(ratios)
            print(
                f"{Path(name).name}: {len(some)} {what}: fewer in {100 * below:.1f}%, estimate / count"
                f" {ratios[0]:.2f} to {ratios[-1]:.2f}, median {ratios[len(ratios) // 2]:.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, metavar="DIR")
    parser.add_argument("--store", type=Path, help="keep the built store there; the next run only asks")
    parser.add_argument("--runs", type=Path, default=Path(), help="where the rankings go (default: here)")
    parser.add_argument("--embedder", default="auto")
    parser.add_argument("--tokeniser", action="append", help="what counts (default: estimate); again for more")
    parser.add_argument("--tokens", action="store_true", help="compare the estimate with the other tokenisers")
    parser.add_argument("--budget", type=int, action="append", help="tokens (default: 500, 1000, 2000, 7000)")
    parser.add_argument("--format", default=DEFAULT_FORMAT, choices=sorted(FORMATS))
    parser.add_argument("--diversity", type=float, default=DIVERSITY)
    parser.add_argument("--same", type=float, default=packing.SAME, help="how like a better passage one is left out")
    parser.add_argument("--no-neighbours", action="store_true")
    parser.add_argument("-k", type=int, help="the most memories (default: as many as may fit)")
    parser.add_argument("--mode", choices=("scoped", "all"), action="append", help="in its scope, in one store of all")
    parser.add_argument("--limit", type=int, help="ask only so many questions, spread over all")
    args = parser.parse_args()
    packing.SAME = args.same
    if not (args.dir / "docs.jsonl").is_file():
        print(f"skipped: {args.dir} has no docs.jsonl", file=sys.stderr)
        return
    docs, queries = read(args.dir / "docs.jsonl"), read(args.dir / "queries.jsonl")
    queries = queries[:: max(1, len(queries) // args.limit)] if args.limit else queries
    with MemoryStore(args.store or Path(tempfile.mkdtemp()) / "judged.db", embedder=args.embedder) as store:
        if store.count() < len(docs):
            store.add_many([memory(doc) for doc in docs])
        if args.tokens:
            undercounts(store, queries, args.tokeniser or ["model"])
            return
        for name in args.tokeniser or ["estimate"]:
            count = counter(store, name)
            for mode in args.mode or ("scoped", "all"):
                print(f"{args.dir.name}, {mode}, {args.format}, tokens by {Path(name).name}")
                for budget in args.budget or BUDGETS:
                    answers, whole, part, tokens, items = [], 0, 0.0, [], []
                    start = time.perf_counter()
                    for query in queries:
                        found = store.context(
                            query["text"],
                            max_tokens=budget,
                            tokeniser=name if name in ("estimate", "model") else count,
                            format=args.format,
                            namespace=query.get("scope") if mode == "scoped" else None,
                            neighbours=not args.no_neighbours,
                            diversity=args.diversity,
                            k=args.k,
                        )
                        held = [item.memory.key for item in found.items]
                        inside = len(set(query["relevant"]) & set(held)) / len(set(query["relevant"]))
                        whole, part = whole + (inside == 1), part + inside
                        tokens.append(found.tokens)
                        items.append(len(held))
                        answers.append({"query": query["id"], "ranked": held})
                    spent = 1000 * (time.perf_counter() - start) / len(queries)
                    print(
                        f"  {budget:>6} tokens: all evidence {whole / len(queries):.3f},"
                        f" evidence {part / len(queries):.3f};"
                        f" tokens {sum(tokens) / len(tokens):.0f} on average, {max(tokens)} at most;"
                        f" {sum(items) / len(items):.0f} passages; {spent:.0f} ms",
                        flush=True,
                    )
                    args.runs.mkdir(parents=True, exist_ok=True)
                    run = args.runs / f"{args.dir.name}-context-{mode}-{budget}.run.jsonl"
                    run.write_text("".join(json.dumps(one) + "\n" for one in answers), encoding="utf-8")
                print(*brute_force(docs, queries, mode == "scoped", count, FORMATS[args.format]), sep="\n")


if __name__ == "__main__":
    main()

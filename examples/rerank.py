"""The second stage on judged sets: what reading the best 50 again by late interaction gains, and what it costs.

DATA holds a folder a set, as examples/fusion.py reads them. MODEL is a sentence model of fastembed, a folder or the
name of one on disk. The stores are kept in --store. `--scoped` asks each question within its own scope, `--cold`
remembers no token vectors, so that each query pays for all of its 50 texts. `--choose` tries other constants of late
interaction and other weights, and shows what the best of every set would give the others.
"""

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
from fusion import scored, shown
from locomo import memory, read

from memstore import MemoryStore
from memstore.embedding import named
from memstore.evaluation import MEASURES, Estimate, differences, estimates
from memstore.fusion import PROFILES, Gathered, Reread, reranked, weighed
from memstore.rerank import late

SETS = ("locomo-dev", "faquad-dev", "scifact-train", "xquad-es-en")
SHOWN = ("hit@1", "hit@10", "nDCG@10")
GRID = {"LEAST": (0.0, 0.1, 0.2, 0.3), "MOST": (0.55, 0.65, 0.75, 1.0), "WEIGHT": (0.2, 0.275, 0.35, 0.425, 0.5, 0.7)}
# The best cosine in each text of each token of the query, and what each token counts for.
Compared = tuple[np.ndarray, np.ndarray]


class Noted(late.LateInteraction):
    """Late interaction that notes what it compared last."""

    last: Compared | None = None

    def compared(
        self, query: str, texts: Sequence[str], before: Sequence[str], importance: Mapping[str, float]
    ) -> Compared:
        self.last = super().compared(query, texts, before, importance)
        return self.last


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A set's questions, what the signals and the second stage said of each, and what that compared."""

    name: str
    queries: list[dict]
    gathered: list[Gathered]
    names: dict[int, str]
    compared: list[Compared | None]


def asked(folder: Path, stores: Path, second: Noted, *, scoped: bool, limit: int | None) -> Asked:
    docs, queries = read(folder / "docs.jsonl"), read(folder / "queries.jsonl")[:limit]
    with MemoryStore(stores / f"{folder.name}.db", reranker=second) as store:
        if store.count() < len(docs):
            store.add_many([memory(doc) for doc in docs])
        names = {number: key for key, number in store.searcher.resolve([doc["id"] for doc in docs]).items()}
        gathered, given = [], []
        for number, query in enumerate(queries):
            if number % 100 == 0:
                print(f"{folder.name}: {number} of {len(queries)} questions", file=sys.stderr)
            second.last = None
            scope = query.get("scope") if scoped else None
            gathered.append(store.searcher.gather(query["text"], namespace=scope, rerank=50))
            given.append(second.last)
    return Asked(name=folder.name, queries=queries, gathered=gathered, names=names, compared=given)


def first(one: Gathered) -> list[int]:
    return one.ids[weighed(one, PROFILES["default"]).order[:10]].tolist()


def again(one: Gathered, reread: Reread | None) -> list[int]:
    fused = weighed(one, PROFILES["default"])
    return one.ids[(fused if reread is None else reranked(fused, one, reread)).order[:10]].tolist()


def keys(of: Asked, rankings: list[list[int]]) -> list[list[str]]:
    return [[of.names[one] for one in ranking] for ranking in rankings]


def cells(found: Sequence[Estimate], sign: str = "") -> str:
    return "".join(f"  {name} {shown(found[MEASURES.index(name)], sign)}" for name in SHOWN)


def table(of: Asked, runs: Path | None) -> None:
    rankings = {
        "first stage": keys(of, [first(one) for one in of.gathered]),
        "reranked": keys(of, [again(one, one.reread) for one in of.gathered]),
    }
    values = {name: scored(of, ranking) for name, ranking in rankings.items()}
    spent = median(one.timings.get("rerank", 0.0) for one in of.gathered)
    before = median(sum(one.timings.values()) - one.timings.get("rerank", 0.0) for one in of.gathered)
    print(f"\n{of.name}: {len(of.queries)} questions; first stage {before:.0f} ms, second {spent:.0f} ms more")
    for name, value in values.items():
        print(f"  {name:12s}{cells(estimates(value))}")
    print(f"  {'gain':12s}{cells(differences(values['reranked'], values['first stage']), '+')}")
    if runs is not None:
        runs.mkdir(parents=True, exist_ok=True)
        for name, ranking in rankings.items():
            with open(runs / f"{of.name}-{name.replace(' ', '-')}.run.jsonl", "w", encoding="utf-8") as file:
                for query, found in zip(of.queries, ranking, strict=True):
                    file.write(json.dumps({"query": query["id"], "ranked": found}, ensure_ascii=False) + "\n")


def choose(sets: list[Asked]) -> None:
    """Print for each point of the grid what it gains, and what the best of all other sets gives each."""
    points = list(itertools.product(*GRID.values()))
    gained = {of.name: [gain(of, *point) for point in points] for of in sets}
    for index, point in enumerate(points):
        print(dict(zip(GRID, point, strict=True)), *(f"{name} {own[index]:+.4f}" for name, own in gained.items()))
    for name in gained if len(gained) > 1 else ():
        others = np.array([own for other, own in gained.items() if other != name])
        best = int(np.argmax(others.mean(axis=0) + others.min(axis=0)))
        print(f"chosen on the others: {dict(zip(GRID, points[best], strict=True))}: {name} {gained[name][best]:+.4f}")


def gain(of: Asked, least: float, most: float, weight: float) -> float:
    """Return what the second stage gains in hit@1 with other constants."""
    found = 0
    for query, one, compared in zip(of.queries, of.gathered, of.compared, strict=True):
        if one.reread is None or compared is None:
            continue
        logits = late.logits(late.share(*compared, least, most))
        reread = replace(one.reread, logits=logits, weight=weight)
        before, after = (of.names[ranking[0]] in query["relevant"] for ranking in (first(one), again(one, reread)))
        found += int(after) - int(before)
    return found / len(of.queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("sets", nargs="*", default=SETS, metavar="SET")
    parser.add_argument("--store", type=Path, help="a folder for the stores, which are used again")
    parser.add_argument("--runs", type=Path, help="a folder for the rankings, for a scorer to read")
    parser.add_argument("--scoped", action="store_true")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--limit", type=int, help="the first so many questions of each set alone")
    options = parser.parse_args()
    there = [options.data / name for name in options.sets if (options.data / name / "queries.jsonl").is_file()]
    if not there:
        print(f"skipped: {options.data} has none of {', '.join(options.sets)}", file=sys.stderr)
        return
    model = Noted(named(f"fastembed:{options.model}").opened())
    # All that is read is remembered, so that a set takes minutes; the cost of a query is that of a cold run.
    late.KEPT = 0 if options.cold else 8_000_000_000
    with tempfile.TemporaryDirectory() as temporary:
        stores = options.store or Path(temporary)
        stores.mkdir(parents=True, exist_ok=True)
        sets = []
        for folder in there:
            sets.append(asked(folder, stores, model, scoped=options.scoped, limit=options.limit))
            table(sets[-1], options.runs)
        if options.choose:
            choose(sets)


if __name__ == "__main__":
    main()

"""Fusion on judged sets: each signal alone, the classic methods and the default, and where its constants come from.

DATA holds a folder a set, each with docs.jsonl and queries.jsonl as examples/locomo.py reads them. The stores are kept
in --store, so that the next run only searches. `--choose` picks the constants of the default on one half of the sets
(split by family: sets that share questions or paragraphs stay together) and shows the other half, then the reverse.
`--threads` does so for what threads lend, on halves of the conversations of sets that have them.
"""

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from locomo import memory, read

from memstore import MemoryStore, Weights
from memstore.background import REACH
from memstore.entities import NAME_CONFIDENCE
from memstore.evaluation import MEASURES, Estimate, differences, estimates, measured
from memstore.evaluation.answering import alone
from memstore.fusion import METHODS, PROFILES, Gathered, threads, weighed
from memstore.gathering import KNOWN_POWER

SIGNALS = ("keyword", "semantic", "entity")
CLASSIC = ("minmax", "dbsf", "zscore", "rrf")
SHOWN = ("hit@1", "hit@10", "nDCG@10")
# Sets of one family share paragraphs or questions.
FAMILIES = ("xquad", "pira")
# What is tried: how far above the mean 1 is (in expected maxima), what a name is worth, and how fast unknown words cost
# keywords their weight.
GRID = {"reach": (1.5, 1.7, 1.9, 2.2, 2.6), "names": (0.0, 0.2, 0.4, 0.7, 1.0), "known": (0.0, 0.25, 0.5, 1.0)}
THREADS = {
    "ANSWER": (0.0, 0.15, 0.25, 0.35),
    "QUESTION": (0.0, 0.03, 0.06),
    "LENGTH": (0.0, 0.02, 0.04, 0.06),
    "THREAD": (0.0, 0.2, 0.4, 0.6),
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A set's questions with what the signals said of each; `names` gives a memory's key by its id."""

    name: str
    queries: list[dict]
    gathered: list[Gathered]
    names: dict[int, str]

    @property
    def family(self) -> str:
        return next((one for one in FAMILIES if self.name.startswith(one)), self.name)


def asked(folder: Path, stores: Path) -> Asked:
    """Build the store of a set, or open the one that is there, and ask all of its questions."""
    docs, queries = read(folder / "docs.jsonl"), read(folder / "queries.jsonl")
    with MemoryStore(stores / f"{folder.name}.db") as store:
        if store.count() < len(docs):
            store.add_many([memory(doc) for doc in docs])
        names = {number: key for key, number in store.searcher.resolve([doc["id"] for doc in docs]).items()}
        gathered = []
        for number, query in enumerate(queries):
            if number % 100 == 0:
                print(f"{folder.name}: {number} of {len(queries)} questions", file=sys.stderr)
            gathered.append(store.searcher.gather(query["text"]))
    return Asked(name=folder.name, queries=queries, gathered=gathered, names=names)


def fused(gathered: Gathered, weights: Weights, how: str | None = None) -> list[int]:
    """Return the ids of the first candidates by a fusion method, best first."""
    return gathered.ids[weighed(gathered, weights, how).order[:10]].tolist()


def with_constants(gathered: Gathered, reach: float, names: float, known: float) -> Gathered:
    """Return what was gathered as other constants would have it."""
    signals = dict(gathered.signals)
    if "semantic" in signals:
        zero, one = signals["semantic"].ends
        signals["semantic"] = replace(signals["semantic"], ends=(zero, zero + (one - zero) * reach / REACH))
    if "entity" in signals:
        # The confidence is the mean of 1 for identifiers and NAME_CONFIDENCE for names.
        share = (1 - signals["entity"].confidence) / (1 - NAME_CONFIDENCE)
        signals["entity"] = replace(signals["entity"], confidence=1 - share * (1 - names))
    if "keyword" in signals:
        signals["keyword"] = replace(signals["keyword"], confidence=gathered.known**known)
    return replace(gathered, signals=signals)


def keys(of: Asked, ids: Sequence[int]) -> list[str]:
    return [of.names[one] for one in ids]


def scored(of: Asked, rankings: list[list[str]]) -> np.ndarray:
    """Return the measures of rankings, a row a question."""
    found = [
        measured(ranking, query["relevant"], query.get("grades") or dict.fromkeys(query["relevant"], 1.0))
        for query, ranking in zip(of.queries, rankings, strict=True)
    ]
    return np.array([[one[name] for name in MEASURES] for one in found])


def shown(estimate: Estimate, sign: str = "") -> str:
    return f"{estimate.value:{sign}.3f} [{estimate.low:{sign}.3f}, {estimate.high:{sign}.3f}]"


def table(of: Asked, runs: Path | None, methods: tuple[str, ...]) -> None:
    """Print every way to search, with its difference to the best signal alone in each measure."""
    ways = {name: lambda one, name=name: alone(one, name) for name in SIGNALS}
    ways |= {name: lambda one, name=name: fused(one, PROFILES["default"], name) for name in methods}
    if any(one.turns is not None for one in of.gathered):
        ways["no threads"] = lambda one: fused(one, replace(PROFILES["default"], thread=0.0))
    ways["default"] = lambda one: fused(one, PROFILES["default"])
    rankings = {name: [keys(of, way(one)) for one in of.gathered] for name, way in ways.items()}
    values = {name: scored(of, ranking) for name, ranking in rankings.items()}
    print(f"\n{of.name}: {len(of.queries)} questions")
    print(
        f"  {'':11s}" + "".join(f"{name:>23s}" for name in SHOWN) + "   difference to the best signal: hit@1, nDCG@10"
    )
    columns = [MEASURES.index(name) for name in SHOWN]
    best = {column: max(SIGNALS, key=lambda name: values[name][:, column].mean()) for column in columns}
    for name, value in values.items():
        found = estimates(value)
        gain = [differences(value, values[best[column]])[column] for column in (columns[0], columns[-1])]
        cells = "".join(f"{shown(found[column]):>23s}" for column in columns)
        print(f"  {name:11s}{cells}   {shown(gain[0], '+')} {shown(gain[1], '+')}")
    if runs is not None:
        runs.mkdir(parents=True, exist_ok=True)
        for name, ranking in rankings.items():
            with open(runs / f"{of.name}-{name.replace(' ', '-')}.run.jsonl", "w", encoding="utf-8") as file:
                for query, found in zip(of.queries, ranking, strict=True):
                    file.write(json.dumps({"query": query["id"], "ranked": found}, ensure_ascii=False) + "\n")


def means(of: Asked, rankings: list[list[str]]) -> np.ndarray:
    """Return the mean hit@1 and nDCG@10 of rankings."""
    return scored(of, rankings)[:, [MEASURES.index("hit@1"), MEASURES.index("nDCG@10")]].mean(axis=0)


def gains(of: Asked, points: list[tuple[float, ...]]) -> list[float]:
    """Return, for constants, how much better the default is than the best signal alone: the mean of both measures."""
    best = np.max([means(of, [keys(of, alone(one, name)) for one in of.gathered]) for name in SIGNALS], axis=0)
    unthreaded = replace(PROFILES["default"], thread=0.0)
    found = []
    for point in points:
        ranking = [keys(of, fused(with_constants(one, *point), unthreaded)) for one in of.gathered]
        found.append(float((means(of, ranking) - best).mean()))
    return found


def choose(sets: list[Asked]) -> None:
    """Choose the constants on half of the families and show the other half, then the reverse."""
    families = sorted({of.family for of in sets})
    halves = set(families[::2]), set(families[1::2])
    points = list(itertools.product(*GRID.values()))
    gained = {of.name: gains(of, points) for of in sets}
    current = points.index((REACH, NAME_CONFIDENCE, KNOWN_POWER))
    print(f"\ngain over the best signal alone (mean of hit@1 and nDCG@10, threads off), {len(points)} points of {GRID}")
    for chosen_on in (*halves, set(families)):
        own = [of.name for of in sets if of.family in chosen_on]
        # The worst set counts as much as the mean: the default must lose nowhere.
        table = np.array([gained[name] for name in own])
        best = int(np.argmax(table.mean(axis=0) + table.min(axis=0)))
        print(f"chosen on {', '.join(own)}: {dict(zip(GRID, points[best], strict=True))}")
        for of in sets:
            mark = "chosen on" if of.name in own else "held out"
            print(
                f"  {of.name:14s} {gained[of.name][best]:+.3f} {mark:9s}  as it is now {gained[of.name][current]:+.3f}"
            )


def choose_threads(of: Asked) -> None:
    """Choose what threads lend on half of the conversations and show the other half, then the reverse."""
    scopes = sorted({str(query.get("scope")) for query in of.queries})
    inside = np.array([scopes.index(str(query.get("scope"))) % 2 for query in of.queries])
    now = {name: getattr(threads, name) for name in THREADS}
    columns = [MEASURES.index("hit@1"), MEASURES.index("hit@10")]

    def values(constants: dict[str, float]) -> np.ndarray:
        for name, value in constants.items():
            setattr(threads, name, value)
        found = scored(of, [keys(of, fused(one, PROFILES["default"])) for one in of.gathered])
        return found[:, columns]

    points = [dict(zip(THREADS, point, strict=True)) for point in itertools.product(*THREADS.values())]
    tried = [values(point) for point in points]
    print(f"\n{of.name}: what threads lend, hit@1 and hit@10; {len(points)} points of {THREADS}")
    for half in (0, 1):
        best = int(np.argmax([value[inside == half].mean() for value in tried]))
        own, other = tried[best][inside == half].mean(axis=0), tried[best][inside != half].mean(axis=0)
        print(f"chosen on half {half + 1}: {points[best]}: there {own.round(3)}, on the other half {other.round(3)}")
    whole = values(now)
    halves = [whole[inside == half].mean(axis=0).round(3) for half in (0, 1)]
    print(f"as they are now {now}: half 1 {halves[0]}, half 2 {halves[1]}")
    for name in THREADS:
        without = values(now | {name: 0.0})
        lost = differences(whole, without)
        print(f"  {name.lower():9s} adds {shown(lost[0], '+')} in hit@1, {shown(lost[1], '+')} in hit@10")
    values(now)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--sets", nargs="+", help="only these folders of DATA")
    parser.add_argument("--store", type=Path, help="keep the built stores there")
    parser.add_argument("--runs", type=Path, help="write the rankings there, for a scorer")
    parser.add_argument("--all", action="store_true", help="every fusion method, not the four best known")
    parser.add_argument("--choose", action="store_true", help="choose the constants on one half, show the other")
    parser.add_argument("--threads", action="store_true", help="so for what threads lend")
    args = parser.parse_args()
    folders = [one.parent for one in sorted(args.data.glob("*/docs.jsonl"))]
    folders = [one for one in folders if not args.sets or one.name in args.sets]
    if not folders:
        print(f"skipped: {args.data} has no set", file=sys.stderr)
        return
    stores = args.store or Path(tempfile.mkdtemp())
    stores.mkdir(parents=True, exist_ok=True)
    sets = []
    for folder in folders:
        sets.append(asked(folder, stores))
        table(sets[-1], args.runs, tuple(one for one in METHODS if one != "calibrated") if args.all else CLASSIC)
    if args.choose and len(sets) > 1:
        choose(sets)
    if args.threads:
        for of in sets:
            if any(one.turns is not None for one in of.gathered):
                choose_threads(of)


if __name__ == "__main__":
    main()

"""How well relevance tells whether a store has the answer, and where its constants come from.

DATA holds judged sets as examples/fusion.py reads them. Of each set a second store is made from which the memories that
answer every other question are deleted. All questions are asked of it: those that still have an answer should be found
relevant, the others not. For each set it prints how many of the answerable questions a floor loses and how many of the
unanswerable ones pass it, and that at the floor which loses a tenth of the answerable. `--fit` makes the constants of
memstore.fusion.relevance again by logistic regression, and with each family of sets left out.
"""

import argparse
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fusion import FAMILIES
from locomo import memory, read

from memstore import MemoryStore
from memstore.fusion import PROFILES, Gathered, relevance, weighed

FLOORS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
ALLOWED = 0.1


@dataclass(frozen=True, kw_only=True)
class Best:
    """The most relevant candidate of each question: arrays of shape (questions,)."""

    name: str
    answerable: np.ndarray
    right: np.ndarray
    score: np.ndarray
    known: np.ndarray
    missing: np.ndarray
    relevance: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """What relevance is made of: a constant, the score, the known share and a missing identifier."""
        return np.stack([np.ones(len(self.score)), self.score, self.known, self.missing], axis=1)


def best(name: str, queries: list[dict], gathered: list[Gathered], names: dict[int, str], gone: set[str]) -> Best:
    rows = []
    for query, one in zip(queries, gathered, strict=True):
        answerable = not gone.issuperset(query["relevant"])
        if not one.eligible.any():
            rows.append((answerable, False, 0.0, one.known, False, 0.0))
            continue
        fused = weighed(one, PROFILES["default"])
        likely = np.where(one.eligible, relevance(one), -np.inf)
        at = int(likely.argmax())
        right = names[int(one.ids[fused.order[0]])] in query["relevant"]
        rows.append((answerable, right, fused.scores[at], one.known, one.missing[at], likely[at]))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    fields = ("answerable", "right", "score", "known", "missing", "relevance")
    return Best(name=name, **dict(zip(fields, columns, strict=True)))


def halved(folder: Path, stores: Path) -> Best:
    """Ask all questions of a store from which the answers to every other one are gone."""
    docs, queries = read(folder / "docs.jsonl"), read(folder / "queries.jsonl")
    whole, half = stores / f"{folder.name}.db", stores / f"{folder.name}-half.db"
    with MemoryStore(whole) as store:
        if store.count() < len(docs):
            store.add_many([memory(doc) for doc in docs])
    # By what answers it, so that questions about one memory are all answerable or all not.
    answers = sorted({tuple(query["relevant"]) for query in queries})
    gone = {one for relevant in answers[::2] for one in relevant}
    shutil.copy(whole, half)
    with MemoryStore(half) as store:
        store.delete(store.searcher.resolve(sorted(gone)).values())
        names = {number: key for key, number in store.searcher.resolve([doc["id"] for doc in docs]).items()}
        gathered = []
        for number, query in enumerate(queries):
            if number % 100 == 0:
                print(f"{folder.name}: {number} of {len(queries)} questions", file=sys.stderr)
            gathered.append(store.searcher.gather(query["text"]))
    half.unlink()
    return best(folder.name, queries, gathered, names, gone)


def curve(of: Best) -> None:
    there, absent = of.relevance[of.answerable], of.relevance[~of.answerable]
    print(f"\n{of.name}: {len(there)} questions with an answer, {len(absent)} without")
    print("  floor         " + "".join(f"{floor:7.1f}" for floor in FLOORS))
    print("  answers lost  " + "".join(f"{(there < floor).mean():7.3f}" for floor in FLOORS))
    print("  false answers " + "".join(f"{(absent >= floor).mean():7.3f}" for floor in FLOORS))
    floor = float(np.quantile(there, ALLOWED))
    print(f"  at {ALLOWED:.0%} of the answers lost (floor {floor:.2f}): false answers {(absent >= floor).mean():.3f}")
    certain = of.relevance >= 0.5
    right = of.right[certain].mean() if certain.any() else float("nan")
    print(
        f"  not uncertain (0.5 or more): {certain.mean():.2f} of all questions, {right:.2f} of those answered rightly;"
        f" uncertain: {of.right[~certain].mean():.2f}"
    )


def fitted(sets: list[Best]) -> np.ndarray:
    """Return the weights of what relevance is made of, by Newton's method; each set counts alike."""
    rows = np.concatenate([of.rows for of in sets])
    right = np.concatenate([of.right for of in sets]).astype(float)
    weight = np.concatenate([np.full(len(of.score), 1 / len(of.score)) for of in sets])
    found = np.zeros(rows.shape[1])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-(rows @ found)))
        slope = rows.T @ (weight * (right - likely)) - 1e-4 * found
        bend = (rows * (weight * likely * (1 - likely))[:, None]).T @ rows + 1e-4 * np.eye(rows.shape[1])
        found = found + np.linalg.solve(bend, slope)
    return found


def at_allowed(of: Best, constants: np.ndarray) -> float:
    likely = of.rows @ constants
    return float((likely[~of.answerable] >= np.quantile(likely[of.answerable], ALLOWED)).mean())


def loss(of: Best, constants: np.ndarray) -> float:
    """Return the mean logarithmic loss; 0.693 is that of a coin."""
    logit = of.rows @ constants
    return float((np.logaddexp(0, logit) - of.right * logit).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--sets", nargs="+", help="only these folders of DATA")
    parser.add_argument("--store", type=Path, help="where the built stores are, or are to be kept")
    parser.add_argument("--fit", action="store_true", help="make the constants again")
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
        sets.append(halved(folder, stores))
        curve(sets[-1])
    if args.fit:
        constants = fitted(sets)
        print("\nfitted to all: constant {:.2f}, score {:.2f}, known {:.2f}, missing {:.2f}".format(*constants))
        for of in sets:
            family = next((one for one in FAMILIES if of.name.startswith(one)), of.name)
            others = [one for one in sets if not one.name.startswith(family)]
            if others:
                without = fitted(others)
                print(
                    f"  {of.name:14s} false answers at {ALLOWED:.0%} lost {at_allowed(of, constants):.3f}, loss"
                    f" {loss(of, constants):.3f}; fitted without its family {at_allowed(of, without):.3f},"
                    f" {loss(of, without):.3f}"
                )


if __name__ == "__main__":
    main()

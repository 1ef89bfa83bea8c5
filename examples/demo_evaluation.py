"""Evaluate search on the demo's store: 72 questions of this project's own making, 36 codes, 20 paraphrases, 16 mixed.

The questions were written before any of them was asked. For each claim one line says whether the intervals allow it.
"""

import argparse
import tempfile
from pathlib import Path

from memstore import MemoryStore
from memstore.demo import NOTES, topics
from memstore.evaluation import Estimate, Evaluation, category_rows, evaluate, read, rows
from memstore.render import table

QUESTIONS = Path(__file__).resolve().parent / "demo_questions.jsonl"


def allowed(found: Estimate) -> str:
    """Say what an interval allows of a claim that a difference is above 0."""
    answer = "yes" if found.low > 0 else "no, the opposite" if found.high < 0 else "not shown"
    return f"{answer} ({found.value:+.3f}, 95 % interval {found.low:+.3f} to {found.high:+.3f})"


def claims(found: Evaluation) -> list[tuple[str, str]]:
    runs = {run.name: run for run in found.runs}
    signals = [run for run in found.runs if run.kind == "signal"]
    best = max(signals, key=lambda run: run.measures["hit@1"].value)
    against = runs[found.default].against or {}
    told = [
        (f"hit@1 of the default is above that of {best.name}, the best signal alone", allowed(against["hit@1"])),
        (f"nDCG@10 of the default is above that of {best.name}", allowed(against["nDCG@10"])),
    ]
    told += [
        (f"hit@1 of {run.name} is above that of {best.name}", allowed((run.against or {})["hit@1"]))
        for run in found.runs
        if run.kind == "fusion" and run.name != found.default
    ]
    for category in found.categories:
        mine = runs[found.default].categories[category]["hit@1"]
        for run in signals:
            theirs = run.categories[category]["hit@1"]
            apart = "yes" if mine.low > theirs.high else "no, the opposite" if mine.high < theirs.low else "not shown"
            told.append(
                (
                    f"{category}: hit@1 of the default is above that of {run.name}",
                    f"{apart} ({mine.value:.3f} [{mine.low:.3f}, {mine.high:.3f}] and {theirs.value:.3f}"
                    f" [{theirs.low:.3f}, {theirs.high:.3f}])",
                )
            )
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedder", default="auto")
    parser.add_argument("--questions", type=Path, default=QUESTIONS)
    parser.add_argument("--notes-only", action="store_true", help="leave out Python's language reference")
    parser.add_argument("--store", type=Path, help="keep the store there, for memstore eval and tune")
    args = parser.parse_args()
    asked = read(args.questions.read_text(encoding="utf-8").split("\n"))
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryStore(args.store or Path(folder) / "demo.db", embedder=args.embedder) as store,
    ):
        store.add_many([*NOTES, *([] if args.notes_only else topics(all_topics=False))])
        found = evaluate(store.searcher, asked, store="the demo")
    table(*rows(found))
    print("\nhit@1 by category")
    table(*category_rows(found))
    print()
    for sentence in found.verdict:
        print(sentence)
    print("\nclaim: do the intervals allow it? (Seven other fusions are tried: one may be above by chance.)")
    for claim, answer in claims(found):
        print(f"{claim}: {answer}")


if __name__ == "__main__":
    main()

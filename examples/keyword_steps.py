"""Rank judged questions by keywords alone, with one step of the analysis after another, beside plain FTS5.

Each DIR holds docs.jsonl and queries.jsonl, as for locomo.py. For each step the rankings go to NAME-STEP.run.jsonl;
with --scorer, a program that is called as `PROGRAM QUERIES RUN PLAIN_FTS5_RUN`, its figures are shown as one table.
With --grid the last step but one is ranked under several k1 and b instead, and the store with several weights of the
neighbours.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import apsw
import numpy as np
from locomo import memory, read

from memstore import BM25, MemoryStore, NewMemory
from memstore.analysis import STEM_MARK, Analyser, exact, pieces, term, weight, words
from memstore.analysis.analyser import stop_words
from memstore.analysis.stems import snowball

ANALYSER = Analyser()
Terms = Callable[[NewMemory], Iterable[str]]
Query = Callable[[str], Iterable[str]]
_OFFERED = 10
_FIGURES = ("hit@1", "hit@10", "nDCG@10")


def languages(doc: NewMemory) -> tuple[str, ...]:
    return ANALYSER.languages_of(doc.text, doc.language)


def split(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def spelt(text: str) -> Iterator[str]:
    return (exact(word) for piece, _ in pieces(text) for word in words(piece) if term(word))


def kept(text: str) -> list[str]:
    found = list(spelt(text))
    stopped = stop_words(ANALYSER.detect(text))
    return [word for word in found if term(word) not in stopped] or found


def stemmed(found: Iterable[str], own: Iterable[str]) -> Iterator[str]:
    for word in found:
        yield word
        yield from {STEM_MARK + term(snowball(language, word)) for language in own}


def asked(text: str) -> set[str]:
    return {one for word in ANALYSER.query(text) for one in word.terms}


PLAIN = BM25(k1=1.2, b=0.75)
# What a memory and a query give at each step, whether terms have their weights, and the ranking.
STEPS: dict[str, tuple[Terms, Query, bool, BM25]] = {
    "split": (lambda doc: split(doc.text), split, False, PLAIN),
    "words": (lambda doc: spelt(doc.text), spelt, False, PLAIN),
    "stop words": (lambda doc: spelt(doc.text), kept, False, PLAIN),
    "Snowball": (
        lambda doc: stemmed(spelt(doc.text), languages(doc)),
        lambda text: stemmed(kept(text), ANALYSER.languages),
        False,
        PLAIN,
    ),
    "codes, siblings": (lambda doc: ANALYSER.terms(doc.text, languages(doc)), asked, False, PLAIN),
    "weights": (lambda doc: ANALYSER.terms(doc.text, languages(doc)), asked, True, PLAIN),
    "k1, b": (lambda doc: ANALYSER.terms(doc.text, languages(doc)), asked, True, BM25()),
}


class Index:
    """An inverted file in memory: for each term, which documents hold it and how often."""

    def __init__(self, texts: list[list[str]]) -> None:
        self.lengths = np.array([len(found) for found in texts], dtype=np.float64)
        gathered: dict[str, list[tuple[int, int]]] = {}
        for number, found in enumerate(texts):
            for one, count in Counter(found).items():
                gathered.setdefault(one, []).append((number, count))
        self.postings = {one: np.array(rows).T for one, rows in gathered.items()}

    def rank(self, wanted: Iterable[str], ranking: BM25, *, weighed: bool) -> list[int]:
        scores = np.zeros(len(self.lengths))
        mean = float(self.lengths.mean())
        for one in set(wanted) & self.postings.keys():
            numbers, counts = self.postings[one]
            worth = ranking.idf(len(numbers), len(scores)) * (weight(one) if weighed else 1.0)
            frequency = ranking.normalised_frequency(counts.astype(np.float64), self.lengths[numbers], mean)
            scores[numbers] += worth * ranking.saturated(frequency)
        best = np.lexsort((np.arange(len(scores)), -scores))[:_OFFERED]
        return [int(number) for number in best if scores[number] > 0]


def plain_fts5(docs: list[NewMemory], queries: list[dict]) -> list[list[int]]:
    """Rank by FTS5 as its documentation has it: unicode61 without diacritics, any word of the question."""
    conn = apsw.Connection(":memory:")
    conn.execute("CREATE VIRTUAL TABLE plain USING fts5 (text, tokenize = 'unicode61 remove_diacritics 2')")
    conn.executemany("INSERT INTO plain (rowid, text) VALUES (?, ?)", [(n, doc.text) for n, doc in enumerate(docs)])
    found = []
    for query in queries:
        wanted = " OR ".join(f'"{word}"' for word in re.findall(r"[^\W_]+", query["text"]))
        rows = conn.execute("SELECT rowid FROM plain WHERE plain MATCH ? ORDER BY rank, rowid LIMIT 10", (wanted,))
        found.append([number for (number,) in rows] if wanted else [])
    return found


def store(docs: list[NewMemory], queries: list[dict], ranking: BM25) -> list[list[int]]:
    """Rank by the store's own keyword signal: authors, dates and threads too."""
    numbers = {doc.key: number for number, doc in enumerate(docs)}
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryStore(Path(folder) / "s.db", embedder="none", ranking=ranking) as made,
    ):
        made.add_many(docs)
        hits = [made.search(query["text"], _OFFERED, signals=["keyword"]) for query in queries]
    return [[numbers[hit.memory.key] for hit in found] for found in hits]


def runs(docs: list[NewMemory], queries: list[dict], *, grid: bool) -> Iterator[tuple[str, list[list[int]]]]:
    """Yield the name of each run and its ranking of each question."""
    yield "plain FTS5", plain_fts5(docs, queries)
    if grid:
        terms, query_terms, weighed, _ = STEPS["k1, b"]
        index, wanted = Index([list(terms(doc)) for doc in docs]), [list(query_terms(one["text"])) for one in queries]
        for k1 in (0.6, 0.9, 1.2):
            for b in (0.3, 0.4, 0.5, 0.75):
                ranking = BM25(k1=k1, b=b)
                yield f"k1 {k1}, b {b}", [index.rank(one, ranking, weighed=weighed) for one in wanted]
        for share in (0.0, 0.2, 0.3, 0.4) if any(doc.thread for doc in docs) else ():
            yield f"neighbours {share}", store(docs, queries, BM25(neighbours=share))
        return
    for name, (terms, query_terms, weighed, ranking) in STEPS.items():
        index = Index([list(terms(doc)) for doc in docs])
        yield name, [index.rank(query_terms(query["text"]), ranking, weighed=weighed) for query in queries]
    yield "the store", store(docs, queries, BM25())


def scored(scorer: Path, *files: Path) -> str:
    """Return the figures that the scorer gives a run, and the paired difference of its nDCG from the first run's."""
    said = subprocess.run([sys.executable, scorer, *files], capture_output=True, text=True, check=True).stdout
    figures = [re.search(rf"^ *{name} +([\d.]+)", said, re.MULTILINE) for name in _FIGURES]
    difference = re.search(r"^ *nDCG@10.*difference (\S+ \[.*\])", said, re.MULTILINE)
    return " / ".join(found[1] for found in figures if found) + (f"   nDCG {difference[1]}" if difference else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dirs", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--scorer", type=Path, help="the program that scores a run")
    parser.add_argument("--grid", action="store_true", help="rank under several k1 and b")
    args = parser.parse_args()
    for folder in args.dirs:
        if not (folder / "docs.jsonl").is_file():
            print(f"skipped: {folder} has no docs.jsonl", file=sys.stderr)
            continue
        docs = [memory(doc) for doc in read(folder / "docs.jsonl")]
        queries = read(folder / "queries.jsonl")
        print(f"{folder.name}: {len(docs)} documents, {len(queries)} questions; {' / '.join(_FIGURES)}", flush=True)
        files: list[Path] = []
        for name, rankings in runs(docs, queries, grid=args.grid):
            run = Path(f"{folder.name}-{re.sub(r'[^a-z0-9.]+', '-', name.lower())}.run.jsonl")
            answers = (
                {"query": query["id"], "ranked": [docs[number].key for number in ranked]}
                for query, ranked in zip(queries, rankings, strict=True)
            )
            run.write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8")
            files.append(run)
            if args.scorer:
                pair = (run, files[0]) if len(files) > 1 else (run,)
                print(f"  {name:<16} {scored(args.scorer, folder / 'queries.jsonl', *pair)}", flush=True)


if __name__ == "__main__":
    main()

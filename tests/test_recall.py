"""Presets: what a search lets through for a question that is asked, and what recall does for every prompt."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from memstore import InvalidInputError, MemoryStore, NewMemory
from memstore.fusion import Gathered, Scored, Turns, floored
from memstore.records import RECALL, SEARCH, Preset

LAW = settings(deadline=None)
NOTES = [
    "O pagamento com cartão foi recusado pelo banco.",
    "ERR-4018 means the card has expired.",
    "Maria da Silva pediu o estorno do pagamento.",
    "La impresora del segundo piso está apagada.",
    "The puppy is asleep on the couch.",
    "The car is in the garage.",
]
CAR = NOTES[-1]


@pytest.fixture
def notes(real) -> MemoryStore:
    """A few notes in a store with the bundled model."""
    real.add_many([NewMemory(text=text) for text in NOTES])
    return real


def texts(found) -> list[str]:
    return [hit.memory.text for hit in found]


# --- The floor -------------------------------------------------------------------------------------------------------


def gathered(raw: list[float], *, words: list[bool] | None = None, answered: list[int] | None = None) -> Gathered:
    """Return candidates with cosines on a scale from 0.2 to 0.7, some of them with words, some as answers to others."""
    number = len(raw)
    nothing = np.zeros(number)
    said = np.array(words or [False] * number)
    known = np.isfinite(raw)
    turns = Turns(
        thread=np.zeros(number, dtype=np.int64),
        answered=np.array(answered or [-1] * number, dtype=np.int64),
        asks=nothing > 0,
        length=nothing,
    )
    return Gathered(
        ids=np.arange(1, number + 1),
        eligible=np.ones(number, dtype=bool),
        signals={
            "keyword": Scored(raw=said.astype(float), evidence=said, ends=(0.0, 1.0)),
            "semantic": Scored(raw=np.array(raw), evidence=known, ends=(0.2, 0.7), space="fake"),
        },
        identified=nothing,
        missing=nothing > 0,
        known=1.0,
        turns=None if answered is None else turns,
    )


@pytest.mark.parametrize(
    ("floor", "stay"),
    [
        (-0.1, [True, True, True, True, True]),
        (0.0, [False, True, True, True, True]),
        (0.5, [False, False, True, True, True]),
        (0.9, [False, False, False, True, True]),
        (1.0, [False, False, False, False, True]),
    ],
)
def test_a_floor_is_a_share_of_the_scale(floor, stay):
    """0 is where the mean of unrelated texts lies and 1 the top of the scale, whatever the model's cosines are."""
    cosines = [0.19, 0.2001, 0.4501, 0.6501, 0.7001]
    assert floored(gathered(cosines), floor).eligible.tolist() == stay


def test_words_and_answers_need_no_vector():
    """What holds a word of the query stays though its vector is far, and so does a turn that answers a question."""
    cosines = [-1.0, -1.0, float("nan"), float("nan"), -1.0]
    words = [True, False, True, False, False]
    assert floored(gathered(cosines, words=words), 1.0).eligible.tolist() == words
    answers = floored(gathered(cosines, words=words, answered=[-1, -1, -1, -1, 0]), 1.0)
    assert answers.eligible.tolist() == [True, False, True, False, True]


@LAW
@given(
    st.lists(st.tuples(st.floats(-1, 1), st.booleans(), st.booleans()), min_size=1, max_size=20),
    st.floats(-1, 1),
    st.floats(-1, 1),
)
def test_a_higher_floor_lets_no_more_through(candidates, one, other):
    """A floor only takes candidates away, the higher the more, and never makes one eligible."""
    raw, words, eligible = (list(column) for column in zip(*candidates, strict=True))
    given = dataclasses.replace(gathered(raw, words=words), eligible=np.array(eligible))
    low, high = sorted((one, other))
    tight, loose = floored(given, high).eligible, floored(given, low).eligible
    assert not np.any(tight & ~loose)
    assert not np.any(loose & ~given.eligible)
    assert np.array_equal(tight[words], given.eligible[words])


COSINES = (0.9, 0.5, 0.3, 0.1, -0.1)


@pytest.fixture
def apart(opened) -> MemoryStore:
    """A store whose vectors lie at known cosines of the query's; none but the last shares a word with it."""
    known = {f"thing {number}": [one, (1 - one**2) ** 0.5, 0, 0] for number, one in enumerate(COSINES)}
    known |= {"a word of it": [-0.9, 0.19**0.5, 0, 0], "word": [1, 0, 0, 0]}
    store = opened(embedder=FakeEmbedder(4, known=known))
    store.add_many([NewMemory(text=text) for text in known if text != "word"])
    return store


@pytest.mark.parametrize("floor", [None, -1.0, -0.2, 0.0, 0.2, 0.5, 1.0])
def test_hits_without_a_word_reach_the_floor(apart, floor):
    """Every hit has a word of the query, or a vector that reaches the floor on the scale that the answer shows."""
    every = apart.search("word", k=9, floor=None)
    assert len(every) == len(COSINES) + 1
    expected = {
        hit.memory.id
        for hit in every
        if floor is None
        or hit.terms
        or hit.signals["semantic"].raw
        >= hit.signals["semantic"].zero + floor * (hit.signals["semantic"].one - hit.signals["semantic"].zero)
    }
    found = apart.search("word", k=9, floor=floor)
    assert {hit.memory.id for hit in found} == expected
    assert "a word of it" in texts(found)
    if floor == 1.0:
        assert len(found) < len(every)


def test_a_floor_changes_no_score(apart):
    """Those that stay have the scores, and the relevance, that they have without a floor."""
    every = {hit.memory.id: (hit.score, hit.relevance) for hit in apart.search("word", k=9, floor=None)}
    some = {hit.memory.id: (hit.score, hit.relevance) for hit in apart.search("word", k=9, floor=0.3)}
    assert 0 < len(some) < len(every)
    assert some.items() <= every.items()


def test_a_turn_that_answers_is_there_without_a_word(opened):
    """The answer to a question that was found is a hit, though its own vector is below any floor."""
    known = {
        "Ana: When is the appointment?": [0.6, 0.8, 0],
        "Rui: Thursday.": [-1, 0, 0],
        "Rui: Bread.": [-1, 0, 0],
        "the appointment": [1, 0, 0],
    }
    store = opened(embedder=FakeEmbedder(3, known=known))
    store.add("When is the appointment?", author="Ana", thread="a")
    store.add("Thursday.", author="Rui", thread="a")
    store.add("Bread.", author="Rui", thread="b")
    assert sorted(texts(store.search("the appointment", k=9, floor=1.0))) == ["Thursday.", "When is the appointment?"]


@pytest.mark.parametrize("floor", [-1.1, 1.5, float("nan"), "tight", True, [0.1]])
def test_a_floor_that_means_nothing_is_refused(words, floor):
    """A floor is a number from -1 to 1, or None."""
    with pytest.raises(InvalidInputError, match=r"floor is .*; give a number from -1 to 1, or None for no bound"):
        words.search("anything", floor=floor)


# --- Presets ---------------------------------------------------------------------------------------------------------


def test_a_search_is_loose_and_recall_is_tight(notes):
    """A synonym is a hit of a search, and not of recall: its floor is what keeps it out, and its relevance would."""
    assert CAR in texts(notes.search("vehicle"))
    assert len(notes.recall("vehicle")) == 0
    only_floor = dataclasses.replace(RECALL, min_relevance=None)
    assert CAR not in texts(notes.recall("vehicle", preset=only_floor))
    assert CAR in texts(notes.recall("vehicle", preset=dataclasses.replace(only_floor, floor=SEARCH.floor)))
    assert CAR not in texts(notes.search("vehicle", floor=RECALL.floor))


@pytest.mark.parametrize(
    "query", ["the capital of Mongolia", "receita de bolo de cenoura", "how tall is that mountain?", "obrigado!", "ok"]
)
def test_recall_has_nothing_where_no_answer_is(notes, query):
    """A prompt that nothing here answers recalls nothing, where a search may show what comes nearest."""
    found = notes.recall(query)
    assert (len(found), found.uncertain) == (0, True)


@pytest.mark.parametrize(
    ("query", "answer"),
    [("what does ERR-4018 mean?", 1), ("o banco recusou o cartão", 0), ("is the puppy asleep?", 4)],
)
def test_recall_has_what_answers(notes, query, answer):
    """What answers a prompt is recalled, first, and everything recalled is at least as relevant as the preset says."""
    found = notes.recall(query)
    assert found[0].memory.text == NOTES[answer]
    assert all(hit.relevance >= RECALL.min_relevance for hit in found)


def test_recall_is_a_search_by_its_preset(notes):
    """Recall is `search` with the k, depth, floor and least relevance of its preset; what differs is said there."""
    query = "o banco recusou o cartão de Maria"
    for preset in (RECALL, Preset(k=2, depth=3, floor=None), Preset(k=9, depth=9, floor=0.0, min_relevance=0.01)):
        found = notes.recall(query, preset=preset)
        same = notes.search(query, preset.k, depth=preset.depth, floor=preset.floor, min_relevance=preset.min_relevance)
        assert [(hit.memory.id, hit.score) for hit in found] == [(hit.memory.id, hit.score) for hit in same]
        assert (found.withheld, found.relevance, found.used) == (same.withheld, same.relevance, same.used)


def test_the_presets_are_the_defaults(notes):
    """`SEARCH` is what a search does when nothing is said, and `RECALL` asks for less, tighter, of fewer candidates."""
    query = "o banco recusou o cartão"
    plain, same = notes.search(query), notes.search(query, SEARCH.k, depth=SEARCH.depth, floor=SEARCH.floor)
    assert [(hit.memory.id, hit.score) for hit in plain] == [(hit.memory.id, hit.score) for hit in same]
    assert (SEARCH.min_relevance, SEARCH.rerank, RECALL.rerank) == (None, False, False)
    assert RECALL.floor > SEARCH.floor
    assert RECALL.depth < SEARCH.depth


def test_k_is_that_of_the_preset_unless_given(words):
    """A recall has at most the hits of its preset, or as many as the caller says."""
    words.add_many([NewMemory(text=f"spare key {number}") for number in range(30)])
    assert len(words.recall("spare key")) == RECALL.k
    assert len(words.recall("spare key", 2)) == 2
    assert len(words.recall("spare key", preset=dataclasses.replace(RECALL, k=7))) == 7
    assert len(words.recall("spare key", 12, preset=dataclasses.replace(RECALL, k=7))) == 12


def test_the_depth_is_that_of_the_preset(opened):
    """Each signal offers as many candidates as the preset says, at least `k`."""
    store = opened(embedder=FakeEmbedder())
    store.add_many([NewMemory(text=f"note {number}") for number in range(30)])
    wide = Preset(k=3, depth=30, floor=None, min_relevance=1.0)
    narrow = dataclasses.replace(wide, depth=4)
    # With nothing relevant enough, all candidates are withheld.
    assert store.recall("unheard of", preset=wide).withheld == 30
    assert store.recall("unheard of", preset=narrow).withheld == 4


def test_a_preset_may_have_a_second_stage(opened):
    """A preset with `rerank` has the store's reranker read again; the usual ones never ask it."""

    class Scorer:
        model_id = "scorer"
        asked = 0

        def score(self, _query, texts):
            self.asked += 1
            return [float(len(text)) for text in texts]

    scorer = Scorer()
    store = opened(embedder="none", reranker=scorer)
    store.add_many([NewMemory(text="spare key"), NewMemory(text="spare key of the door")])
    assert (store.recall("spare key").used, scorer.asked) == (("keyword", "entity"), 0)
    found = store.recall("spare key", preset=dataclasses.replace(RECALL, rerank=True, min_relevance=None))
    assert (found.used, scorer.asked) == (("keyword", "entity", "rerank"), 1)
    assert [hit.memory.id for hit in found] == [2, 1]


def test_recall_keeps_to_filters(words):
    """A recall passes over what its filters shut out, as a search does."""
    words.add("spare key in the pot", tags=["home"], namespace="one", author="Ana", thread="t", metadata={"n": 1})
    words.add("spare key in the drawer", tags=["work"], namespace="two", created_at="2020-01-01")
    for options, number in (
        ({"namespace": "one"}, 1),
        ({"tags": ["work"]}, 2),
        ({"where": {"n": 1}}, 1),
        ({"after": "2021-01-01"}, 1),
        ({"before": "2021-01-01"}, 2),
        ({"thread": "t"}, 1),
        ({"author": "Ana"}, 1),
    ):
        found = words.recall("spare key", **options)
        assert [hit.memory.id for hit in found] == [number]
    assert len(words.recall("spare key")) == 2


@pytest.mark.parametrize(
    ("preset", "told"),
    [
        (None, "preset is NoneType; give a Preset, or leave it out"),
        ("recall", "preset is str; give a Preset"),
        ({"k": 3}, "preset is dict; give a Preset"),
        (dataclasses.replace(RECALL, k=0), "k is 0"),
        (dataclasses.replace(RECALL, k="many"), "k is"),
        (dataclasses.replace(RECALL, depth=0), "depth is 0"),
        (dataclasses.replace(RECALL, floor=1.5), "preset: floor is 1.5; give a number from -1 to 1"),
        (dataclasses.replace(RECALL, min_relevance=-1), "min_relevance is -1; give a number from 0 to 1"),
    ],
)
def test_a_preset_that_means_nothing_is_refused(words, preset, told):
    """What is no preset, or has a part that means nothing, is one sentence."""
    with pytest.raises(InvalidInputError, match=told):
        words.recall("anything", preset=preset)


@pytest.mark.parametrize(("query", "told"), [(3, "query is int, not str"), (None, "query is NoneType, not str")])
def test_a_query_that_is_no_text_is_refused(words, query, told):
    """A recall refuses what a search refuses."""
    with pytest.raises(InvalidInputError, match=told):
        words.recall(query)


@pytest.mark.parametrize("query", ["", "?!", "🙂", "\x00\ud800"])
def test_a_prompt_without_words_recalls_nothing(words, query):
    """A prompt without any word has no hits, and no error."""
    words.add("spare key")
    assert len(words.recall(query)) == 0


# --- The command line ------------------------------------------------------------------------------------------------


def test_recall_on_the_command_line(tmp_path):
    """`memstore recall` shows the hits of a recall, in text and JSON, and nothing where nothing answers."""
    place = tmp_path / "cli.db"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "memstore", "recall", *arguments, "--db", str(place), "--embedder", "none"]
        return subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )

    missing = run("spare key")
    assert (missing.returncode, missing.stdout, place.exists()) == (1, "", False)
    with MemoryStore(place, embedder="none") as store:
        store.add("The spare key is under the blue pot.", tags=["home"])
        store.add("The spare wheel of the car is flat.", tags=["car"])
        expected = [hit.memory.id for hit in store.recall("the spare key")]
    shown = run("the spare key", "--explain", "--quiet")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "The spare key is under the blue pot." in shown.stdout
    assert "keyword" in shown.stdout
    answer = json.loads(run("the spare key", "--json").stdout)
    assert [hit["memory"]["id"] for hit in answer["hits"]] == expected == [1]
    assert answer["used"] == ["keyword", "entity"]
    assert json.loads(run("the spare key", "--json", "--tag", "car").stdout)["hits"] == []
    assert json.loads(run("the capital of Mongolia", "--json").stdout)["hits"] == []
    refused = run("the spare key", "-k", "0")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "k is 0" in refused.stderr

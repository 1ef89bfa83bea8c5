"""How likely a memory is the answer: the same under every method and size of store, a floor, and saying so."""

import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import FakeEmbedder, failing

from memstore import InvalidInputError, MemoryStore, NewMemory, Weights
from memstore import semantic as semantic_module
from memstore.background import Backgrounds
from memstore.fusion import METHODS

NOTES = [
    "O pagamento com cartão foi recusado pelo banco.",
    "ERR-4018 means the card has expired.",
    "Maria da Silva pediu o estorno do pagamento.",
    "La impresora del segundo piso está apagada.",
    "A reunião sobre contratos ficou para sexta às dez.",
]
FILLER = [f"Nota {n}: {word} chegou ao depósito {n % 7} com {n * 3} caixas." for n, word in enumerate(["arroz"] * 120)]


@pytest.fixture
def notes(real) -> MemoryStore:
    real.add_many([NewMemory(text=text) for text in NOTES])
    return real


@pytest.mark.parametrize("how", [None, *sorted(METHODS)])
def test_the_same_under_every_method(notes, how):
    """A memory's relevance does not depend on how scores are put together, nor on the weights."""
    query = "o banco recusou o cartão"
    plain = {hit.memory.id: hit.relevance for hit in notes.search(query, k=9)}
    for options in ({"fusion": how}, {"fusion": how, "weights": Weights(keyword=1, semantic=0.1, entity=0.1, boost=0)}):
        found = notes.search(query, k=9, **options)
        assert {hit.memory.id: hit.relevance for hit in found} == pytest.approx(plain)
        assert found.relevance == pytest.approx(max(plain.values()))


@pytest.mark.parametrize(
    ("query", "there"),
    [
        ("o banco recusou o pagamento com cartão", True),
        ("what does ERR-4018 mean?", True),
        ("quem pediu o estorno do pagamento?", True),
        ("the capital of Mongolia", False),
        ("what does ERR-9999 mean?", False),
        ("receita de bolo de cenoura", False),
    ],
)
def test_the_same_in_a_store_of_any_size(notes, query, there):
    """What is there is likely and what is not is unlikely, among five memories as among a hundred and twenty-five."""
    small = notes.search(query)
    notes.add_many([NewMemory(text=text) for text in FILLER])
    large = notes.search(query)
    for found in (small, large):
        assert (found.relevance >= 0.5) is there
        assert found.uncertain is not there
    if there:
        assert small[0].memory.id == large[0].memory.id


def test_a_floor_comes_before_the_cut(notes):
    """What passes the floor is found though less relevant memories score more by the weights of the search."""
    query = "quem pediu o estorno do pagamento? ERR-4018"
    plain = notes.search(query, k=9)
    floor = plain.relevance
    weights = {"keyword": 0.01, "semantic": 0.01, "entity": 1, "boost": 1}
    (hit,) = notes.search(query, k=1, weights=weights, min_relevance=floor)
    assert hit.relevance == floor


def test_a_text_that_is_repeated_is_no_background(opened):
    """Many copies of one text count once among the texts that stand for a space."""
    store = opened(embedder=FakeEmbedder())
    store.add_many([NewMemory(text=f"note {n}") for n in range(20)])
    before = store.search("note", k=1)[0].signals["semantic"]
    for text in [f"note {n}" for n in range(20)]:
        store.add_many([NewMemory(text=text, thread=f"copy/{n}") for n in range(20)])
    after = store.search("note", k=1)[0].signals["semantic"]
    assert after.zero == pytest.approx(before.zero, abs=0.02)


def test_words_alone_tell_too(words):
    """Without any model a match of all words is likely, and one of a word among many is not."""
    words.add_many([NewMemory(text=text) for text in NOTES])
    assert not words.search("pagamento cartão recusado pelo banco").uncertain
    assert words.search("o banco central da Mongólia subiu os juros").uncertain


def test_vectors_alone_are_rarely_sure(notes):
    """Without the keyword signal what is not there is not taken for an answer: vectors find something near to all."""
    for query in ("the capital of Mongolia", "receita de bolo de cenoura"):
        assert notes.search(query, signals=["semantic"]).uncertain


def test_a_floor(notes):
    """Hits below the floor are left out and counted; an answer with none left is empty and says how near it came."""
    query = "o banco recusou o cartão"
    every = notes.search(query, k=5, floor=None)
    floor = sorted(hit.relevance for hit in every)[-2]
    some = notes.search(query, k=5, min_relevance=floor, floor=None)
    assert [hit.memory.id for hit in some] == [hit.memory.id for hit in every if hit.relevance >= floor]
    assert [hit.rank for hit in some] == [1, 2]
    assert some.withheld == 3
    none = notes.search("the capital of Mongolia", k=3, min_relevance=0.5, floor=None)
    assert (len(none), none.withheld) == (0, len(NOTES))
    assert 0 < none.relevance < 0.5
    assert none.uncertain
    assert none.used == ("keyword", "semantic", "entity")
    assert len(notes.search(query, k=5, min_relevance=0, floor=None)) == 5


@pytest.mark.parametrize("floor", [-0.1, 1.5, "much", True, float("nan"), float("inf"), [0.5]])
def test_a_floor_that_means_nothing(words, floor):
    """A floor that is no number from 0 to 1 is refused."""
    with pytest.raises(InvalidInputError, match=r"min_relevance is .*; give a number from 0 to 1\."):
        words.search("anything", min_relevance=floor)


@pytest.mark.parametrize(("floor", "hits"), [(np.float32(0.5), 1), (0, 1), (1, 0)])
def test_a_floor_of_other_numbers(words, floor, hits):
    """A floor may be any number, numpy's too."""
    words.add("the printer is offline")
    assert len(words.search("the printer is offline", min_relevance=floor)) == hits


def test_no_answer_has_no_relevance(words):
    """An empty store and a query without words give relevance 0 and are uncertain."""
    for query in ("anything", "?!"):
        found = words.search(query)
        assert (found.relevance, found.withheld, found.uncertain) == (0.0, 0, True)


def run(path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "memstore", *arguments, "--db", str(path)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)


@pytest.mark.usefixtures("notes")
def test_on_the_command_line(path):
    """The command line takes a floor, says that a doubtful answer is one, and how near an empty one came."""
    sure = run(path, "search", "ERR-4018")
    assert (sure.returncode, sure.stderr) == (0, "")
    doubtful = run(path, "search", "the capital of Mongolia")
    assert "uncertain" in doubtful.stderr
    assert doubtful.stdout
    empty = run(path, "search", "the capital of Mongolia", "--min-relevance", "0.5")
    assert (empty.returncode, empty.stderr) == (0, "")
    assert empty.stdout.startswith("nothing found: the best of what there is has relevance 0.")
    as_json = json.loads(run(path, "search", "the capital of Mongolia", "--min-relevance", "0.5", "--json").stdout)
    assert (as_json["hits"], as_json["uncertain"], as_json["withheld"]) == ([], True, len(NOTES))
    assert 0 < as_json["relevance"] < 0.5
    refused = run(path, "search", "x", "--min-relevance", "2")
    assert refused.returncode == 1
    assert "give a number from 0 to 1" in refused.stderr


def test_the_scale_is_that_of_unrelated_texts(notes):
    """0 is the mean cosine to texts at random, so that what has nothing to do with the query is near it."""
    found = notes.search("o banco recusou o cartão", k=9, floor=None)
    shares = {hit.memory.text: hit.signals["semantic"].normalised for hit in found}
    assert shares[NOTES[0]] > 2 * shares[NOTES[3]]
    ends = [(hit.signals["semantic"].zero, hit.signals["semantic"].one) for hit in found]
    assert len(set(ends)) == 1
    assert -1 <= ends[0][0] < ends[0][1]


def test_the_sample_follows_the_file(opened):
    """A store that is open sees what another adds and removes: its background is never that of before."""
    store = opened(embedder=FakeEmbedder())
    added = store.add_many([NewMemory(text=f"note {n}") for n in range(5)])
    before = store.search("note", k=9)[0].signals["semantic"].zero
    opened(embedder=FakeEmbedder()).add_many([NewMemory(text=f"other {n}") for n in range(30)])
    between = store.search("note", k=9)[0].signals["semantic"].zero
    assert between != before
    opened(embedder=FakeEmbedder()).delete(range(added[-1].id + 1, added[-1].id + 31))
    assert store.search("note", k=9)[0].signals["semantic"].zero == pytest.approx(before)


def test_a_large_space_is_sampled(opened):
    """No more than 256 passages stand for a space, the same ones in each search, and they are like all of them."""
    store = opened(embedder=FakeEmbedder(32))
    store.add_many([NewMemory(text=f"note {n}") for n in range(700)])
    embedder = FakeEmbedder(32)
    query = embedder.embed_query("anything")
    with store._database.read() as conn:
        (space,) = semantic_module.spaces(conn)
        sample = semantic_module.sample(conn, space)
        assert len(set(sample)) == 256
        assert semantic_module.sample(conn, space) == sample
        zero, one = Backgrounds().ends(conn, space, query)
    cosines = np.array([embedder.vector(f"note {n}") @ query for n in range(700)])
    assert zero == pytest.approx(cosines.mean(), abs=3 * cosines.std() / np.sqrt(256))
    reach = 1.9 * cosines.std() * np.sqrt(2 * np.log(700))
    assert one - zero == pytest.approx(reach, rel=0.15)


def test_references_are_asked_for_once(opened):
    """The plain sentences are embedded when a space is made, kept in the file, and not again by the next store."""
    first, second = FakeEmbedder(model_id="once"), FakeEmbedder(model_id="once")
    opened(embedder=first).add("a note")
    asked = [text for text in first.embedded if text not in ("a note",)]
    assert len(asked) > 20
    store = opened(embedder=second)
    store.add("another note")
    assert not set(second.embedded) & set(asked[1:])
    with store._database.read() as conn:
        (space,) = semantic_module.spaces(conn)
        assert semantic_module.references(conn, space).shape == (24, 8)


def test_a_model_that_has_no_vector_for_them(opened):
    """A model that gives nothing usable for plain sentences still searches, on the store's own texts."""
    embedder = FakeEmbedder(model_id="mute")
    vector = embedder.vector
    embedder.vector = lambda text: (
        vector(text) if "note" in text or "memória" in text else np.zeros(8, dtype=np.float32)
    )
    store = opened(embedder=embedder)
    store.add_many([NewMemory(text=f"note {n}") for n in range(9)])
    found = store.search("note 3", k=9)
    assert found.used == ("keyword", "semantic", "entity")
    assert all(np.isfinite(hit.score) for hit in found)


def test_a_model_that_takes_few_texts_at_once(opened):
    """A model that refuses a batch is asked for one sentence at a time, and has its space all the same."""
    store = opened(embedder=failing(FakeEmbedder(model_id="narrow"), lambda wanted: len(wanted) > 8))
    assert not store.add("a note about printers").pending
    assert store.search("printers").used == ("keyword", "semantic", "entity")


def test_a_model_that_fails_for_all_of_them(opened):
    """A model that fails for every plain sentence has no space yet; the memory waits and is found by its words."""
    broken = failing(FakeEmbedder(model_id="broken"), lambda wanted: any("." in one for one in wanted))
    store = opened(embedder=broken)
    assert store.add("a note about printers").pending
    assert [hit.memory.text for hit in store.search("printers")] == ["a note about printers"]


def test_a_background_of_the_wrong_size(opened):
    """What is left of a damaged background is used, and a search goes on."""
    store = opened(embedder=FakeEmbedder())
    store.add_many([NewMemory(text=f"note {n}") for n in range(9)])
    with store._database.write() as conn:
        conn.execute("UPDATE embedders SET background = substr(background, 1, 45)")
    assert all(np.isfinite(hit.score) for hit in opened(embedder=FakeEmbedder()).search("note 3", k=9))


@pytest.mark.parametrize("vector", [[1, 0], [0, 1], [-1, 0]])
def test_texts_that_are_all_alike(opened, vector):
    """Where a model gives all texts the same vector nothing can be told from it, and nothing breaks."""
    embedder = FakeEmbedder(2, model_id="same")
    embedder.vector = lambda _: np.array(vector, dtype=np.float32)
    store = opened(embedder=embedder)
    store.add_many([NewMemory(text=f"note {n}") for n in range(9)])
    for hit in store.search("note 3", k=9):
        assert np.isfinite(hit.score)
        assert hit.signals["semantic"].normalised == pytest.approx(0.0, abs=1e-6)

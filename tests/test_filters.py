"""Filters: what passes is exactly what was asked for, in every signal and every reading method."""

import operator
import time
import unicodedata
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from conftest import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from memstore import MemoryStore, NewMemory
from memstore.errors import InvalidInputError, MemstoreError

NFC = unicodedata.normalize("NFC", "reunião")
NFD = unicodedata.normalize("NFD", "reunião")
YESTERDAY = datetime.now(UTC) - timedelta(days=1)
CRAFTED = [
    *["a') OR 1=1 --", 'a"b', "a'b", "$.x", "a.b", "a[0]", "", "🎉", "a\\b", "a\\", "a\nb", "a\x01b", "%", "a?", ":a"],
    *[
        "$",
        "$.user",
        "$[0]",
        "user') OR ('1'='1",
        '$."user"',
        "a;DROP TABLE memories",
        "..",
        "a.",
        ".a",
        "ação",
        "@.type",
    ],
]


def texts(found) -> set[str]:
    return {getattr(one, "memory", one).text for one in found}


@pytest.fixture
def zone(monkeypatch):
    """Set the clock of this process to a time zone; it is what it was after the test."""

    def zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield zone
    monkeypatch.undo()
    time.tzset()


def test_a_filter_is_applied_before_the_nearest_are_chosen(opened):
    """With 1,000 old memories nearer to the query than 5 recent ones, a search after yesterday gives 3 recent ones."""
    near, far = [1.0, 0.05, 0.0], [0.5, 0.0, 0.8]
    old = [NewMemory(text=f"old note {n} trip", created_at="2020-01-01T00:00Z", tags=["old"]) for n in range(1000)]
    new = [NewMemory(text=f"recent note {n} trip", tags=["recent"]) for n in range(5)]
    known = {one.text: near for one in old} | {one.text: far for one in new} | {"trip": [1.0, 0.0, 0.0]}
    store = opened(embedder=FakeEmbedder(dimensions=3, known=known))
    store.add_many([*old, *new])
    recent = {one.text for one in new}
    for signals in (None, ["semantic"], ["keyword"]):
        for only in ({"after": YESTERDAY}, {"tags": ["recent"]}, {"before": "2999-01-01", "tags": ["recent"]}):
            found = store.search("trip", k=3, signals=signals, **only)
            assert len(found) == 3
            assert texts(found) <= recent
    assert texts(store.search("trip", k=100, signals=["semantic"], after=YESTERDAY)) == recent
    assert texts(store.search("trip", k=3, before=YESTERDAY)) <= {one.text for one in old}
    assert len(store.search("trip", k=3, after=datetime.now(UTC) + timedelta(days=1))) == 0


VALUES = [7, 7.0, "7", True, False, 1, 1.0, 0, None, 2.5, -3, "", "a", "ab", "b", "true", "null", ["a"], {"b": 1}]
PLAIN = [value for value in VALUES if not isinstance(value, list | dict)]
PEOPLE = ["Ana", "Bruno", "Carla"]
PLACES = ["Lisboa", "Porto", "Recife"]


@pytest.fixture(scope="module")
def varied(tmp_path_factory):
    """A store of 120 memories that differ in every field, with what was given for each."""
    drawn = np.random.default_rng(7)

    def one_of(options):
        return options[int(drawn.integers(len(options)))]

    given = [
        NewMemory(
            text=f"{one_of(PEOPLE)} and {one_of(PEOPLE)} met in {one_of(PLACES)}, note {number} of the trip",
            namespace=one_of(["default", "work"]),
            author=one_of([None, *PEOPLE]),
            thread=one_of([None, "t1", "t2"]),
            created_at=datetime(2025, 1, 1, tzinfo=UTC) + timedelta(hours=int(drawn.integers(100))),
            tags=[tag for tag in ("x", "y", "z") if drawn.random() < 0.5],
            metadata={name: one_of(VALUES) for name in ("p", "q", "a.b") if drawn.random() < 0.7}
            | ({"a": {"b": one_of(VALUES)}} if drawn.random() < 0.5 else {}),
        )
        for number in range(120)
    ]
    with MemoryStore(tmp_path_factory.mktemp("varied") / "memory.db", embedder=FakeEmbedder()) as store:
        yield store, dict(zip([memory.id for memory in store.add_many(given)], given, strict=True))


def same(held, wanted) -> bool:
    if held is None or wanted is None or isinstance(held, bool) or isinstance(wanted, bool):
        return held is wanted
    number = int | float
    return held == wanted and isinstance(held, number) == isinstance(wanted, number)


COMPARED = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


def holds(fields: list, op: str, wanted) -> bool:
    """Say whether any of the values at a path passes, as `Filter` documents it."""
    if op == "$exists":
        return bool(fields) is wanted
    if op == "$ne":
        return not any(same(held, wanted) for held in fields)
    if op == "$eq":
        return any(same(held, wanted) for held in fields)
    if op == "$in":
        return any(same(held, one) for held in fields for one in wanted)
    kinds = (str,) if isinstance(wanted, str) else (int, float)
    return any(isinstance(held, kinds) and not isinstance(held, bool) and COMPARED[op](held, wanted) for held in fields)


def passes(memory: NewMemory, only: dict) -> bool:
    fields = dict(memory.metadata)
    for path, condition in (only.get("where") or {}).items():
        at = [fields[path]] if path in fields else []
        if path == "a.b" and "b" in fields.get("a", {}):
            at.append(fields["a"]["b"])
        tests = condition if isinstance(condition, dict) else {"$eq": condition}
        if not all(holds(at, op, wanted) for op, wanted in tests.items()):
            return False
    return (
        all(only.get(name) in (None, getattr(memory, name)) for name in ("namespace", "author", "thread"))
        and set(only.get("tags", ())) <= set(memory.tags)
        and ("after" not in only or memory.created_at >= only["after"])
        and ("before" not in only or memory.created_at < only["before"])
    )


number_or_text = st.sampled_from([value for value in PLAIN if value is not None and not isinstance(value, bool)])
tests = st.one_of(
    st.sampled_from(PLAIN),
    st.fixed_dictionaries({"$eq": st.sampled_from(PLAIN)}),
    st.fixed_dictionaries({"$ne": st.sampled_from(PLAIN)}),
    st.fixed_dictionaries({"$exists": st.booleans()}),
    st.fixed_dictionaries({"$in": st.lists(st.sampled_from(PLAIN), max_size=4)}),
    st.dictionaries(st.sampled_from(sorted(COMPARED)), number_or_text, min_size=1, max_size=3),
)
instants = st.integers(-1, 101).map(lambda hours: datetime(2025, 1, 1, tzinfo=UTC) + timedelta(hours=hours))
filters = st.fixed_dictionaries(
    {},
    optional={
        "namespace": st.sampled_from(["default", "work", "none"]),
        "author": st.sampled_from([*PEOPLE, "Nobody"]),
        "thread": st.sampled_from(["t1", "t2"]),
        "tags": st.lists(st.sampled_from("xyzw"), max_size=2),
        "after": instants,
        "before": instants,
        "where": st.dictionaries(st.sampled_from(["p", "q", "a.b", "missing"]), tests, max_size=2),
    },
)


@settings(max_examples=150, deadline=None)
@given(only=filters, signal=st.sampled_from(["keyword", "semantic", "entity"]), k=st.integers(1, 20))
def test_each_signal_under_a_filter_is_brute_force_over_what_passes(varied, only, signal, k):
    """The filtered answer of a signal is its best `k` among the memories that pass, however many do not."""
    store, given_by_id = varied
    query = "Ana went to Porto on a trip"
    everyone = store.search(query, k=1000, signals=[signal], weights={"boost": 0.0})
    best = [hit.signals[signal].raw for hit in everyone if passes(given_by_id[hit.memory.id], only)][:k]
    found = store.search(query, k=k, depth=k, signals=[signal], weights={"boost": 0.0}, **only)
    assert [hit.signals[signal].raw for hit in found] == pytest.approx(best, abs=1e-6)
    assert all(passes(given_by_id[hit.memory.id], only) for hit in found)


@settings(max_examples=200, deadline=None)
@given(only=filters)
def test_list_and_count_give_exactly_what_passes(varied, only):
    """`list` gives all memories that pass and no other, newest first, and `count` says how many they are."""
    store, given_by_id = varied
    wanted = {memory_id for memory_id, memory in given_by_id.items() if passes(memory, only)}
    found = store.list(limit=1000, **only)
    assert {memory.id for memory in found} == wanted
    assert [memory.created_at for memory in found] == sorted((one.created_at for one in found), reverse=True)
    assert store.count(**only) == len(wanted)


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ({"rank": 7}, {"typed", "float"}),
        ({"rank": 7.0}, {"typed", "float"}),
        ({"rank": "7"}, {"text"}),
        ({"rank": "7.0"}, set()),
        ({"rank": True}, set()),
        ({"paid": True}, {"typed"}),
        ({"paid": 1}, {"float"}),
        ({"paid": "true"}, {"text"}),
        ({"paid": False}, set()),
        ({"ratio": 2.5}, {"typed"}),
        ({"ratio": "2.5"}, {"text"}),
        ({"boss": None}, {"typed"}),
        ({"boss": "null"}, {"text"}),
        ({"boss": 0}, set()),
        ({"boss": False}, set()),
        ({"rank": np.int64(7)}, {"typed", "float"}),
        ({"paid": np.bool_(True)}, {"typed"}),
        ({"ratio": np.float32(2.5)}, {"typed"}),
        ({"rank": {"$in": [7, "x"]}}, {"typed", "float"}),
        ({"rank": {"$in": ("7",)}}, {"text"}),
        ({"rank": {"$in": []}}, set()),
        ({"rank": {"$ne": 7}}, {"text", "bare"}),
        ({"boss": {"$ne": None}}, {"text", "float", "bare"}),
        ({"rank": {"$gt": 6, "$lt": 8}}, {"typed", "float"}),
        ({"rank": {"$gte": 7}}, {"typed", "float"}),
        ({"rank": {"$gt": 7}}, set()),
        ({"rank": {"$lte": "7"}}, {"text"}),
        ({"rank": {"$lt": 10}}, {"typed", "float"}),
        ({"boss": {"$exists": True}}, {"typed", "text"}),
        ({"boss": {"$exists": False}}, {"float", "bare"}),
        ({"deep.er.est": 1}, {"typed"}),
        ({"deep.er": {"$exists": True}}, {"typed"}),
        ({"deep.er.none": {"$exists": False}}, {"typed", "text", "float", "bare"}),
        ({"deep": 1}, {"float"}),
        ({"rank": 7, "paid": True}, {"typed"}),
        ({}, {"typed", "text", "float", "bare"}),
    ],
    ids=repr,
)
def test_metadata_is_compared_with_its_type(words, where, names):
    """A number equals the same number, never text or a truth value; null is a null that is there."""
    words.add("typed", metadata={"rank": 7, "paid": True, "ratio": 2.5, "boss": None, "deep": {"er": {"est": 1}}})
    words.add("text", metadata={"rank": "7", "paid": "true", "ratio": "2.5", "boss": "null"})
    words.add("float", metadata={"rank": 7.0, "paid": 1, "deep": 1})
    words.add("bare")
    assert texts(words.list(where=where)) == names
    assert words.count(where=where) == len(names)
    assert texts(words.search("typed text float bare", k=9, where=where)) == names


@settings(max_examples=150, deadline=None)
@given(
    value=st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.integers(-(2**63) + 1, 2**63 - 1),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
        st.booleans(),
        st.none(),
    ),
    name=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12).filter(
        lambda name: name.count(".") < 20
    ),
)
def test_what_is_stored_is_what_a_filter_finds(scratch, value, name):
    """Any value under any name in metadata is read back as it was and found by that name and value."""
    scratch.delete([memory.id for memory in scratch.list(limit=100)])
    stored = scratch.add("one", metadata={name: value})
    scratch.add("other", metadata={"\ue000": "x"})
    assert texts(scratch.list(where={name: value})) >= {"one"}
    assert texts(scratch.list(where={name: {"$ne": value}})) == {"other"}
    held = next(iter(scratch.get(stored.id).metadata.values()))
    assert held == (unicodedata.normalize("NFC", value) if isinstance(value, str) else value)
    assert type(held) is type(value)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """A store of words that a law's examples share."""
    with MemoryStore(tmp_path_factory.mktemp("scratch") / "memory.db", embedder="none") as store:
        yield store


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_name_in_a_filter_is_data(words, name):
    """A filter's name is bound as data: it finds the memory that has that very name, and never another user's."""
    mine = words.add("my secret", metadata={"user": "me", name: "x"})
    words.add("your secret", metadata={"user": "you"})
    everything = words.count()
    assert texts(words.list(where={name: "x"})) == {"my secret"}
    assert texts(words.search("secret", k=9, where={name: "x"})) == {"my secret"}
    assert words.count(where={name: {"$exists": True}}) == 1
    assert words.count(where={name: "x", "user": "you"}) == 0
    words.delete(mine.id)
    assert words.count(where={name: "x"}) == 0
    assert len(words.search("secret", k=9, where={name: "x"})) == 0
    assert words.count() == everything - 1


@pytest.mark.parametrize("value", ["x' OR '1'='1", '"', "x\\", "%", "*", "'; DROP TABLE memories; --", "🎉", "?"])
@pytest.mark.parametrize("field", ["namespace", "author", "thread", "tags", "where"])
def test_a_crafted_value_in_a_filter_is_data(words, field, value):
    """A filter's value is bound as data: it finds the memory that has that very value, and no other."""
    wanted = {"tags": [value]} if field == "tags" else {"where": {"v": value}} if field == "where" else {field: value}
    words.add("mine", **({"metadata": {"v": value}} if field == "where" else wanted))
    words.add("yours", namespace="n", author="a", thread="t", tags=["t"], metadata={"v": "y"})
    assert texts(words.list(**wanted)) == {"mine"}
    assert texts(words.search("mine yours", **wanted)) == {"mine"}
    assert words.count() == 2


def test_an_unknown_name_finds_only_what_has_it(words):
    """A filter on a name that half of the memories have gives that half, and on one that none has, nothing."""
    words.add_many(
        [NewMemory(text=f"note {n}", metadata={"tenant_id": "acme"} if n % 2 else {"other": 1}) for n in range(10)]
    )
    odd = {f"note {n}" for n in range(1, 10, 2)}
    assert texts(words.list(where={"tenant_id": "acme"})) == odd
    assert texts(words.search("note", k=10, where={"tenant_id": "acme"})) == odd
    assert words.count(where={"tenantid": "acme"}) == 0
    assert words.count(where={"tenant_id": "ACME"}) == 0
    assert len(words.search("note", k=10, where={"tenantid": "acme"})) == 0


@pytest.mark.parametrize(
    ("where", "telling"),
    [
        ({"a": {"$gtt": 3}}, r"where\['a'\]: unknown operator '\$gtt'.*\$gt"),
        ({"a": {"gt": 3}}, "unknown operator 'gt'"),
        ({"a": {"$or": []}}, r"unknown operator '\$or'"),
        ({"a": {"$eq": 1, "$near": 2}}, r"unknown operator '\$near'"),
        ({"a": {"b": 1}}, "unknown operator 'b'"),
        ({"a": {1: 2}}, "unknown operator 1"),
        ({"a": {}}, "empty"),
        ({"a": {"$in": "abc"}}, r"\$in takes a list"),
        ({"a": {"$in": 5}}, r"\$in takes a list"),
        ({"a": {"$in": list(range(101))}}, "101 values, at most 100"),
        ({"a": {"$exists": 1}}, r"\$exists takes true or false"),
        ({"a": {"$exists": "yes"}}, r"\$exists takes true or false"),
        ({"a": {"$gt": None}}, r"\$gt compares numbers or text"),
        ({"a": {"$lt": True}}, r"\$lt compares numbers or text"),
        ({"a": {"$gte": [1]}}, "can not be compared"),
        ({"a": [1, 2]}, "can not be compared"),
        ({"a": float("nan")}, "can not be compared"),
        ({"a": float("inf")}, "can not be compared"),
        ({"a": 2**63}, "can not be compared"),
        ({"a": b"x"}, "can not be compared"),
        ({"a": YESTERDAY}, "can not be compared"),
        ({"a": np.array([1, 2])}, "can not be compared"),
        ({"a": "\ud800"}, "where"),
        ({"\ud800": 1}, "where"),
        ({"a.\ud800": 1}, "where"),
        ({1: 1}, "path 1 is not text"),
        ({None: 1}, "path None is not text"),
        ({".".join("a" * 21): 1}, "21 levels, at most 20"),
        ({f"n{n}": 1 for n in range(101)}, "101 conditions, at most 100"),
        ("a", "where is str"),
        ([("a", 1)], "where is list"),
        (5, "where is int"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_filter_that_means_nothing_is_an_error(words, where, telling):
    """A filter that can't be understood is refused by name in every method, never left out."""
    words.add("note", metadata={"a": 5})
    for ask in (words.list, words.count, lambda **given: words.search("note", **given)):
        with pytest.raises(InvalidInputError, match=telling):
            ask(where=where)


@pytest.mark.parametrize("where", [{"a": {"$gtt": 3}}, {"a": {}}, {1: 1}, {"a": [1]}], ids=repr)
def test_a_filter_that_means_nothing_is_an_error_whatever_the_query(words, where):
    """A filter that can't be understood is refused beside a query without words too."""
    with pytest.raises(InvalidInputError, match="where"):
        words.search("?!", where=where)


@pytest.mark.parametrize(
    ("only", "telling"),
    [
        ({"namespace": ""}, "namespace is empty"),
        ({"namespace": 5}, "namespace is int"),
        ({"author": " "}, "author is empty"),
        ({"author": ["Ana"]}, "author is list"),
        ({"author": "\ud800"}, "author has half a character"),
        ({"thread": 5}, "thread is int"),
        ({"thread": "a\x00"}, "thread has a NUL"),
        ({"tags": "x"}, "tags is str"),
        ({"tags": 5}, "tags is int"),
        ({"tags": [5]}, "tags is int"),
        ({"tags": [""]}, "tags is empty"),
        ({"tags": [None]}, "tags"),
        ({"tags": [f"t{n}" for n in range(101)]}, "101 conditions, at most 100"),
        ({"after": "yesterday"}, "after is 'yesterday'.*ISO 8601"),
        ({"before": ""}, "before is ''.*ISO 8601"),
        ({"after": 1_700_000_000}, "after is int"),
        ({"before": "2025-02-30"}, "before is '2025-02-30'"),
        ({"after": "9999-12-31T23:59-05:00"}, "after.*years 1 to 9999"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_plain_filter_that_means_nothing_is_an_error(words, only, telling):
    """A namespace, author, thread, tag or time that can't be understood is refused by name, never left out."""
    words.add("note")
    for ask in (words.list, words.count, lambda **given: words.search("note", **given)):
        with pytest.raises(MemstoreError, match=telling):
            ask(**only)


def test_all_tags_must_be_there(words):
    """Of several tags every one must be on a memory; a tag is equal by its whole name and case."""
    words.add("red", tags=["a", "b"])
    words.add("green", tags=["a"])
    words.add("blue", tags=["ab"])
    assert texts(words.list(tags=["a"])) == {"red", "green"}
    assert texts(words.list(tags=("a", "b"))) == {"red"}
    assert texts(words.search("red green blue", k=9, tags={"a", "b"})) == {"red"}
    assert words.count(tags=["A"]) == 0


def test_author_thread_and_namespace_are_whole_names(words):
    """Author, thread and namespace pass by their whole name; without a namespace all are searched."""
    words.add("one", author="Ana", thread="t", namespace="n")
    words.add("two", author="Ana Maria", thread="t2", namespace="n2")
    words.add("three")
    assert texts(words.list(author="Ana")) == {"one"}
    assert texts(words.list(thread="t")) == {"one"}
    assert texts(words.list(namespace="n")) == {"one"}
    assert texts(words.list(namespace="default")) == {"three"}
    assert texts(words.search("one two three", k=9)) == {"one", "two", "three"}
    assert texts(words.search("one two three", k=9, author="Ana", thread="t2")) == set()


@pytest.mark.parametrize(("stored", "asked"), [(NFC, NFD), (NFD, NFC), (f" {NFC} ", NFD)])
def test_composed_and_decomposed_spellings_are_one(words, stored, asked):
    """What is stored in one Unicode form is met in the other: tags, names, metadata, keys and text."""
    memory = words.add(
        f"a {stored.strip()} de hoje",
        tags=[stored],
        author=stored,
        thread=stored,
        namespace=stored,
        key=stored,
        metadata={stored.strip(): stored.strip(), "in": {stored.strip(): 1}},
    )
    for only in (
        {"tags": [asked]},
        {"author": asked},
        {"thread": asked},
        {"namespace": asked},
        {"where": {asked: asked}},
        {"where": {asked: {"$in": ["x", asked]}}},
        {"where": {f"in.{asked}": 1}},
    ):
        assert words.count(**only) == 1, only
        assert [hit.memory.id for hit in words.search(asked, **only)] == [memory.id], only
    assert words.get(key=asked, namespace=asked).id == memory.id


@pytest.mark.parametrize(("one", "other"), [(NFC, NFD), (NFD, NFC)])
def test_composed_and_decomposed_text_is_one_memory(words, one, other):
    """The same text, tags, entities and key in another Unicode form add nothing."""
    first = words.add(f"{one} às dez", author=one, thread=one, tags=[one], entities=[one], metadata={one: 1})
    again = words.add(
        f"{other} às dez", author=other, thread=other, tags=[other], entities=[other], metadata={other: 1}
    )
    assert (again.id, again.outcome, again.tags) == (first.id, "unchanged", (NFC,))
    keyed = words.add("um", key=one)
    assert words.add("dois", key=other).id == keyed.id


@pytest.mark.parametrize("name", ["America/Sao_Paulo", "Asia/Tokyo", "UTC", "Asia/Kathmandu"])
def test_a_day_is_the_local_day(words, zone, name):
    """A time without a zone is local: what happened at 23:30 is inside that date's bounds, not the next one's."""
    zone(name)
    words.add("naive", created_at=datetime(2025, 3, 30, 23, 30))
    words.add("text", created_at="2025-03-30T23:30:00")
    words.add("aware", created_at=datetime(2025, 3, 30, 23, 30).astimezone())
    words.add("zulu", created_at=datetime(2025, 3, 30, 23, 30).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    words.add("first moment", created_at=date(2025, 3, 30))
    words.add("day after", created_at="2025-03-31")
    today, tomorrow = date(2025, 3, 30), date(2025, 3, 31)
    wanted = {"naive", "text", "aware", "zulu", "first moment"}
    for after, before in (
        (today, tomorrow),
        ("2025-03-30", "2025-03-31"),
        (datetime(2025, 3, 30), datetime(2025, 3, 31).astimezone()),
        (datetime(2025, 3, 30).astimezone(UTC), "2025-03-31T00:00"),
    ):
        assert texts(words.list(after=after, before=before)) == wanted
        assert words.count(after=before) == 1
        assert words.count(before=after) == 0
        found = words.search("naive text aware zulu first moment day after", k=9, after=after, before=before)
        assert texts(found) == wanted
    late = datetime(2025, 3, 30, 23, 30).astimezone(UTC)
    assert {memory.created_at for memory in words.list(after="2025-03-30T23:00", before=tomorrow)} == {late}
    assert late.utcoffset() == timedelta(0)


@pytest.mark.parametrize("name", ["America/Sao_Paulo", "Asia/Tokyo"])
def test_a_memory_without_a_date_is_of_today(words, zone, name):
    """What is added now passes the bounds of the local day, whatever the zone."""
    zone(name)
    before = date.today()
    words.add("now")
    after = date.today() + timedelta(days=1)
    assert texts(words.list(after=before, before=after)) == {"now"}


def test_after_includes_its_instant_and_before_does_not(words):
    """`after` takes what happened at its very instant, `before` leaves it out, to the microsecond."""
    instant = datetime(2025, 3, 30, 12, 0, 0, 1, tzinfo=UTC)
    tick = timedelta(microseconds=1)
    words.add("exact", created_at=instant)
    assert words.count(after=instant) == 1
    assert words.count(after=instant + tick) == 0
    assert words.count(before=instant) == 0
    assert words.count(before=instant + tick) == 1
    assert words.count(after="2025-03-30T09:00:00.000001-03:00", before="2025-03-30T12:00:00.000002Z") == 1
    assert words.count(after="2025-03-30T12:00:00.000002Z") == 0
    assert words.count(after=instant, before=instant) == 0


@pytest.mark.parametrize("kind", ["words", "fake"])
def test_an_expired_memory_is_never_returned(request, kind):
    """A memory past its time is in no search, list, count or get; one that expires later is in all of them."""
    store = request.getfixturevalue(kind)
    past, later = datetime.now(UTC) - timedelta(seconds=1), datetime.now(UTC) + timedelta(hours=1)
    gone = store.add("Ana said the code is 17", key="gone", expires_at=past, tags=["t"], metadata={"a": 1})
    kept = store.add("Ana said the code is 18", key="kept", expires_at=later, tags=["t"], metadata={"a": 1})
    for only in ({}, {"tags": ["t"]}, {"where": {"a": 1}}, {"after": "2000-01-01"}):
        assert [memory.id for memory in store.list(**only)] == [kept.id]
        assert store.count(**only) == 1
        assert [hit.memory.id for hit in store.search("Ana said the code is 17", k=9, **only)] == [kept.id]
    assert store.get(gone.id) is None
    assert store.get(key="gone") is None
    assert store.get(kept.id).id == store.get(key="kept").id == kept.id
    assert store.stats().memories == 1
    assert store.stats().memories == 1


def test_the_reading_methods_take_limits_and_orders(words):
    """`list` gives the newest first unless told, pages by limit and offset, and orders a thread by position."""
    words.add("b", created_at="2025-01-02", thread="t", position=2)
    words.add("a", created_at="2025-01-01", thread="t", position=3)
    words.add("c", created_at="2025-01-03", thread="t", position=1)
    assert [memory.text for memory in words.list()] == ["c", "b", "a"]
    assert [memory.text for memory in words.list(order="oldest")] == ["a", "b", "c"]
    assert [memory.text for memory in words.list(order="thread")] == ["c", "b", "a"]
    assert [memory.text for memory in words.list(limit=1, offset=1)] == ["b"]
    assert [memory.text for memory in words.list(limit=100_000, offset=3)] == []

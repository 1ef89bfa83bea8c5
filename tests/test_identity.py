"""Identity: which texts are one memory, what a key means, and that export and import bring back the same memories."""

import io
import json
import multiprocessing
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from conftest import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from memstore import MemoryStore, NewMemory, Term
from memstore.errors import InvalidInputError, StorageError

PAST = "2020-01-01T00:00Z"


def exported(store: MemoryStore, **options) -> str:
    stream = io.StringIO()
    store.export(stream, **options)
    return stream.getvalue()


def state(store: MemoryStore) -> list[dict]:
    """All that an export promises to bring back, of every memory and every known term; entities have no order."""
    lines = [json.loads(line) for line in exported(store).splitlines()]
    return [line | {"entities": sorted(line.get("entities", []))} for line in lines]


def read(store: MemoryStore, **options) -> list:
    return store.list(limit=1000, order="oldest", **options)


@pytest.mark.parametrize("kind", ["words", "fake"])
@pytest.mark.parametrize(
    "again",
    [
        "the build took 31 s",
        "  the build   took\t31 s\n",
        "the\nbuild\u00a0took 31\u2003s",
        "the build took 31 s\r\n",
    ],
)
def test_the_same_text_is_the_same_memory(request, kind, again):
    """The same text, however its white space is written, is stored once; its id and its first spelling come back."""
    store = request.getfixturevalue(kind)
    first = store.add("the build took 31 s")
    others = [store.add(again) for _ in range(3)]
    assert first.outcome == "added"
    assert [(one.id, one.text, one.outcome) for one in others] == [(first.id, "the build took 31 s", "unchanged")] * 3
    assert store.count() == 1
    assert len(store.search("build", k=9)) == 1
    assert store.stats().passages == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("build 1412 took 31 s", "build 1413 took 13 s"),
        ("meter 0017", "meter 0071"),
        ("I do", "I do not"),
        ("Remember the Milk", "remember the milk"),
        ("call Ana", "call Ana!"),
        ("call Ana", "call Aná"),
        ("18,90", "18.90"),
        ("C", "C++"),
        ("a b", "ab"),
        ("x²", "x2"),
        ("ﬁne", "fine"),
        ("-5", "5"),
        ("paid", "paid\u200b"),
    ],
)
@pytest.mark.parametrize("kind", ["words", "fake"])
def test_texts_that_differ_at_all_are_two_memories(request, kind, one, other):
    """Two texts that differ in a digit, a mark, a word or the case are both kept, however alike they are."""
    store = request.getfixturevalue(kind)
    stored = store.add_many([NewMemory(text=one), NewMemory(text=other)])
    assert [memory.outcome for memory in stored] == ["added", "added"]
    assert [memory.text for memory in read(store)] == [one, other]


def test_near_duplicates_by_meaning_are_both_kept(opened):
    """Two texts with the very same vector are two memories."""
    store = opened(embedder=FakeEmbedder(dimensions=2, known={"I do": [1.0, 0.0], "I do not": [1.0, 0.0]}))
    assert store.add("I do").id != store.add("I do not").id
    assert len(store.search("I do", k=9, signals=["semantic"])) == 2


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("author", [None, "Ana", "Bia", "ana"]),
        ("thread", [None, "t1", "t2"]),
        ("namespace", ["default", "work", "Work"]),
    ],
)
def test_the_same_text_of_another_author_thread_or_namespace_is_another_memory(words, field, values):
    """Who said it, where, and in which namespace are part of what a memory is."""
    stored = words.add_many([NewMemory(text="good morning", **{field: value}) for value in values])
    again = words.add_many([NewMemory(text="good morning", **{field: value}) for value in values])
    assert len({memory.id for memory in stored}) == len(values)
    assert [memory.id for memory in again] == [memory.id for memory in stored]
    assert [memory.outcome for memory in again] == ["unchanged"] * len(values)
    assert words.count() == len(values)


def test_the_fields_of_an_identity_are_not_run_together(words):
    """A piece of text that moves from one field to another makes another memory."""
    words.add_many(
        [
            NewMemory(text="b c", author="a"),
            NewMemory(text="c", author="a b"),
            NewMemory(text="c", author="a", thread="b"),
            NewMemory(text="c", thread="a", author="b"),
            NewMemory(text="c", namespace="a", author="b"),
        ]
    )
    assert words.count() == 5


def test_the_same_text_again_brings_in_what_is_new(words):
    """Tags, metadata and entities of the second add are merged into the memory, and it says so."""
    first = words.add("met the supplier", tags=["b"], metadata={"x": 1, "y": 1}, entities=["Acme"])
    again = words.add("met  the supplier", tags=["a", "b"], metadata={"y": 2, "z": None}, entities=["Bolt", "acme"])
    assert (again.id, again.outcome) == (first.id, "merged")
    assert again.tags == ("a", "b")
    assert again.metadata == {"x": 1, "y": 2, "z": None}
    assert [entity.name for entity in again.entities] == ["Acme", "Bolt"]
    assert again.created_at == first.created_at
    assert again.updated_at > first.updated_at
    third = words.add("met the supplier", tags=["a"], metadata={"x": 1}, entities=["bolt"])
    assert (third.outcome, third.updated_at) == ("unchanged", again.updated_at)


def test_the_same_text_twice_in_one_call_is_one_memory(fake):
    """`add_many` finds a text again that came earlier in the same call, in the order given."""
    stored = fake.add_many(
        [NewMemory(text="a"), NewMemory(text="b"), NewMemory(text=" a "), NewMemory(text="b", tags=["t"])]
    )
    assert [memory.outcome for memory in stored] == ["added", "added", "unchanged", "merged"]
    assert [memory.id for memory in stored] == [1, 2, 1, 2]
    assert stored[1].tags == ("t",)
    assert fake.count() == 2


def add_in_another_process(path: str, start, done) -> None:
    with MemoryStore(path, embedder="none") as store:
        start.wait(60)
        for number in range(20):
            done.put((number, store.add(f"the  retry   loop wrote {number}").id))


def test_two_processes_that_add_the_same_text_at_once_store_it_once(path):
    """Two processes that store the same texts at the same moment end up with one memory each and the same ids."""
    spawn = multiprocessing.get_context("spawn")
    start, done = spawn.Barrier(2), spawn.Queue()
    processes = [spawn.Process(target=add_in_another_process, args=(str(path), start, done)) for _ in range(2)]
    for process in processes:
        process.start()
    answers = [done.get(timeout=60) for _ in range(40)]
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(set(answers)) == 20
    with MemoryStore(path, embedder="none") as store:
        assert store.count() == 20


def test_an_add_under_a_key_takes_the_place_of_what_was_there(fake):
    """A key is the identity: an add under it changes that memory, in every index, and keeps its id."""
    first = fake.add("the printer is offline", key="status", author="Ana")
    second = fake.add("the printer is ready", key="status")
    assert (first.outcome, second.outcome) == ("added", "updated")
    assert (second.id, second.text, second.author) == (first.id, "the printer is ready", "Ana")
    assert second.created_at == first.created_at
    assert [hit.memory.text for hit in fake.search("ready", signals=["keyword"])] == ["the printer is ready"]
    assert len(fake.search("offline", signals=["keyword"])) == 0
    assert fake.add("the printer is ready", key="status").outcome == "unchanged"
    assert fake.count() == fake.stats().passages == 1
    assert fake.get(key="status").id == first.id


@pytest.mark.parametrize(
    ("field", "before", "after"),
    [
        ("author", "Ana", "Bia"),
        ("thread", "t", "u"),
        ("language", "pt", "es"),
        ("created_at", datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 2, 1, tzinfo=UTC)),
        ("expires_at", datetime(2999, 1, 1, tzinfo=UTC), datetime(2999, 2, 1, tzinfo=UTC)),
    ],
)
def test_an_add_under_a_key_takes_every_field_that_is_given(words, field, before, after):
    """What the caller gives under a key replaces the field; what is left out stays."""
    first = words.add("text", key="k", **{field: before})
    assert getattr(words.add("text", key="k"), field) == before
    changed = words.add("text", key="k", **{field: after})
    assert (changed.id, getattr(changed, field), changed.outcome) == (first.id, after, "updated")


def test_two_keys_are_two_memories_whatever_their_text(words):
    """The same text under two keys, without a key, and under the same key of another namespace is each its own."""
    plain = words.add("good morning")
    one = words.add("good morning", key="one")
    two = words.add("good morning", key="two")
    other = words.add("good morning", key="one", namespace="work")
    assert len({plain.id, one.id, two.id, other.id}) == 4
    assert words.get(key="one").id == one.id
    assert words.get(key="one", namespace="work").id == other.id
    assert words.get(key="One") is None
    assert words.add("good morning").id == plain.id


def test_an_update_keeps_the_id_and_refuses_another_ones_identity(words):
    """`update` keeps the id; a text or a key that another memory has is refused and nothing is changed."""
    one, two = words.add("one"), words.add("two", tags=["t"])
    keyed = words.add("three", key="k")
    changed = words.update(one.id, text="uno")
    assert (changed.id, changed.text, changed.outcome) == (one.id, "uno", "updated")
    with pytest.raises(InvalidInputError, match=f"memory {two.id} already has this text"):
        words.update(one.id, text=" two ")
    with pytest.raises(InvalidInputError, match=f"memory {keyed.id} already has the key 'k'"):
        words.update(one.id, key="k")
    assert words.get(one.id).text == "uno"
    assert words.update(one.id, text="two", namespace="work").id == one.id
    assert words.update(two.id, text="two").outcome == "unchanged"
    assert words.count() == 3


@pytest.mark.parametrize("kind", ["words", "fake"])
def test_an_id_is_never_used_again(request, kind, path):
    """The id of a deleted memory, the last one too, belongs to no later memory, after reopening neither."""
    store = request.getfixturevalue(kind)
    stored = store.add_many([NewMemory(text="quokka diary"), NewMemory(text="last")])
    assert store.delete([memory.id for memory in stored]) == 2
    assert store.add("plain spanner").id == 3
    store.delete(3)
    store.close()
    with MemoryStore(path, embedder="none") as reopened:
        assert reopened.add("quokka diary").id == 4
        assert reopened.delete([4, 4, 99]) == 1
        assert len(reopened.search("quokka spanner last")) == 0


@pytest.mark.parametrize("key", [None, "k"])
def test_a_text_whose_memory_expired_is_a_new_memory(fake, key):
    """An expired memory is not found again by its text or key: a new one with nothing of the old is stored."""
    gone = fake.add("the code is 17", key=key, expires_at=PAST, tags=["old"], metadata={"old": 1}, entities=["Old"])
    fresh = fake.add("the code is 17", key=key, tags=["new"])
    assert fresh.outcome == "added"
    assert fresh.id > gone.id
    assert (fresh.tags, fresh.metadata, fresh.entities, fresh.expires_at) == (("new",), {}, (), None)
    assert fake.get(gone.id) is None
    assert [hit.memory.id for hit in fake.search("code", k=9)] == [fresh.id]
    assert fake.stats().expired == 0
    assert fake.add("the code is 17", key=key).id == fresh.id


def test_an_expired_memory_stands_in_the_way_of_no_update(words):
    """A text or a key that only an expired memory has can be given to another memory."""
    words.add("old text", expires_at=PAST)
    words.add("old keyed", key="k", expires_at=PAST)
    one = words.add("new text")
    assert words.update(one.id, text="old text").text == "old text"
    assert words.update(one.id, key="k").key == "k"


def test_an_expired_twin_hides_no_living_memory(words):
    """The same text is found again in the memory that lives, also when one with that text expired before it."""
    words.add("the code is 17", key="first", expires_at=PAST)
    living = words.add("the code is 17", key="second")
    assert words.add("the code is 17").id == living.id


def full(store: MemoryStore) -> None:
    """Fill a store with memories that use every field."""
    store.terms.add("Stripe", kind="supplier", aliases=["stripe.com", "Striipe"])
    east = timezone(timedelta(hours=5, minutes=45))
    store.add_many(
        [
            NewMemory(text="plain"),
            NewMemory(
                text='Paid Stripe\nin  two\tparts, \u202eodd\u202c "quotes" \\ 🎉 e\u0301',
                key="deal #1/á",
                namespace="work",
                author="Ana",
                thread="talks",
                position=1.5,
                created_at=datetime(2025, 3, 30, 23, 30, 0, 123456, tzinfo=east),
                expires_at="2999-01-01T00:00-03:00",
                tags=["b", "a", "ção"],
                metadata={
                    "n": 7,
                    "f": 0.1,
                    "t": True,
                    "none": None,
                    "deep": {"a.b": [1, "x", {}]},
                    "": "",
                    "big": 2**62,
                },
                entities=["Bolt Ltda", "acme"],
                language="es",
            ),
            NewMemory(text="same words", author="Ana", thread="talks", namespace="work"),
            NewMemory(text="same words", key="one"),
            NewMemory(text="same words", key="two"),
            NewMemory(text="leap day", created_at="2024-02-29"),
            NewMemory(text="to be deleted"),
            NewMemory(text="last", created_at="1999-12-31T23:59:59.999999Z"),
        ]
    )
    store.delete(7)


@pytest.mark.parametrize("embedder", ["none", FakeEmbedder()], ids=["words", "fake"])
def test_an_import_into_an_empty_file_brings_everything_back(fake, tmp_path, embedder):
    """An export read into a new file gives the same ids, keys, texts, times, tags, metadata, entities and terms."""
    full(fake)
    lines = exported(fake).splitlines()
    with MemoryStore(tmp_path / "copy.db", embedder=embedder) as copy:
        report = copy.import_jsonl(lines)
        assert (report.added, report.updated, report.unchanged) == (7, 0, 0)
        assert state(copy) == state(fake)
        for before, after in zip(read(fake), read(copy), strict=True):
            for field in (
                "id",
                "key",
                "text",
                "created_at",
                "updated_at",
                "expires_at",
                "metadata",
                "tags",
                "entities",
            ):
                assert getattr(after, field) == getattr(before, field), (field, before.text)
        assert [hit.memory.id for hit in copy.search("Stripe Bolt 2025-03-30", signals=["keyword", "entity"])] == [
            hit.memory.id for hit in fake.search("Stripe Bolt 2025-03-30", signals=["keyword", "entity"])
        ]
        again = copy.import_jsonl(lines)
        assert (again.added, again.updated, again.unchanged) == (0, 0, 7)
        assert state(copy) == state(fake)


def test_an_import_into_its_own_file_adds_nothing(fake):
    """An export read back into the file it came from changes nothing, however often."""
    full(fake)
    before = state(fake)
    for _ in range(2):
        report = fake.import_jsonl(exported(fake).splitlines())
        assert (report.added, report.updated, report.unchanged) == (0, 0, 7)
    assert state(fake) == before
    assert fake.count() == 7


def test_an_import_brings_back_what_was_changed_or_deleted(words):
    """An import restores the exported state of a memory that was changed or deleted since."""
    full(words)
    lines, before = exported(words).splitlines(), state(words)
    words.update(1, metadata={"x": 1}, tags=["y"])
    words.update(2, text="other")
    words.delete([3, 4])
    report = words.import_jsonl(lines)
    assert (report.added, report.updated, report.unchanged) == (2, 2, 3)
    kept = [{name: value for name, value in line.items() if name != "updated_at"} for line in before]
    assert [{name: value for name, value in line.items() if name != "updated_at"} for line in state(words)] == kept


def test_an_import_into_a_file_whose_ids_clash_loses_nothing(fake, tmp_path):
    """Where an id is taken by another memory the imported one gets a new id; both are kept, and a repeat adds none."""
    full(fake)
    lines = exported(fake).splitlines()
    with MemoryStore(tmp_path / "other.db", embedder="none") as other:
        own = other.add_many([NewMemory(text=f"own {n}", key=f"own {n}", tags=[f"own {n}"]) for n in range(4)])
        mine = other.add("same words", tags=["mine"])
        report = other.import_jsonl(lines)
        assert report.added + report.updated + report.unchanged == 7
        assert report.unchanged == 0
        assert [other.get(memory.id).text for memory in own] == ["own 0", "own 1", "own 2", "own 3"]
        assert other.get(mine.id).text == "same words"
        wanted = {(memory.key, memory.namespace, memory.text, memory.created_at) for memory in read(fake)}
        there = {(memory.key, memory.namespace, memory.text, memory.created_at) for memory in read(other)}
        assert wanted <= there
        count = other.count()
        again = other.import_jsonl(lines)
        assert (again.added, again.updated, again.unchanged) == (0, 0, 7)
        assert other.count() == count
        for memory in read(fake):
            found = other.search(memory.text, k=20, namespace=memory.namespace)
            assert memory.text in [hit.memory.text for hit in found]


def test_an_entity_that_the_file_spells_otherwise_is_the_same_entity(words, tmp_path):
    """A given entity that the other file already has in another case makes no repeated import a change."""
    words.add("lunch", entities=["Bolt Ltda"])
    lines = exported(words).splitlines()
    with MemoryStore(tmp_path / "other.db", embedder="none") as other:
        other.add("dinner", entities=["BOLT LTDA"])
        assert other.import_jsonl(lines).added == 1
        again = other.import_jsonl(lines)
        assert (again.added, again.updated, again.unchanged) == (0, 0, 1)


words_of_text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(str.strip)


@settings(max_examples=60, deadline=None)
@given(
    items=st.lists(
        st.builds(
            NewMemory,
            text=words_of_text,
            key=st.none() | st.sampled_from(["k1", "k2"]),
            namespace=st.sampled_from(["default", "n"]),
            author=st.none() | words_of_text,
            thread=st.none() | st.sampled_from(["t"]),
            created_at=st.none()
            | st.datetimes(
                min_value=datetime(1, 1, 3),
                max_value=datetime(9999, 12, 29),
                timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
            ),
            tags=st.lists(words_of_text, max_size=2),
            metadata=st.none()
            | st.dictionaries(words_of_text, st.floats(allow_nan=False, allow_infinity=False) | st.none()),
            entities=st.lists(st.sampled_from(["Ana", "ana", "Bolt"]), max_size=2),
        ),
        max_size=5,
    )
)
def test_any_memories_survive_an_export_and_an_import(two_files, items):
    """Whatever was stored, an import of its export gives the same state again, and a second import adds nothing."""
    one, other = two_files
    for store in two_files:
        store.delete([memory.id for memory in store.list(limit=1000)])
    one.add_many(items)
    lines = exported(one).splitlines()
    assert other.import_jsonl(lines).added == one.count()
    assert state(other) == state(one)
    assert other.import_jsonl(lines).unchanged == one.count()


@pytest.fixture(scope="module")
def two_files(tmp_path_factory):
    """Two stores of words that a law's examples share."""
    folder = tmp_path_factory.mktemp("two")
    with (
        MemoryStore(folder / "one.db", embedder="none") as one,
        MemoryStore(folder / "other.db", embedder="none") as other,
    ):
        yield one, other


def test_an_export_of_a_namespace_has_that_namespace_only(words):
    """`export` of a namespace leaves the others out, expired memories too, and says how many memories it wrote."""
    full(words)
    words.add("gone", expires_at=PAST, namespace="work")
    stream = io.StringIO()
    assert words.export(stream, namespace="work") == 2
    held = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert {line["namespace"] for line in held if "text" in line} == {"work"}
    assert "gone" not in stream.getvalue()


def test_an_export_never_overwrites_a_file(words, tmp_path: Path):
    """`export` makes a new file that its owner alone can read, and refuses one that is there."""
    words.add("one")
    target = tmp_path / "out.jsonl"
    assert words.export(target) == 1
    assert target.stat().st_mode & 0o777 == 0o600
    before = target.read_bytes()
    with pytest.raises(StorageError, match="exists already; name a new file"):
        words.export(target)
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "telling"),
    [
        ("{", "line 2: this is not JSON"),
        ("[1]", "line 2: this is a JSON list"),
        ("5", "line 2: this is a JSON int"),
        ('{"txt": "a"}', "line 2: the field 'txt' is unknown; the fields are text"),
        ('{"key": "a"}', "line 2: there is no field 'text'"),
        ('{"text": ""}', "line 2: text is empty"),
        ('{"text": 5}', "line 2: text is int"),
        ('{"text": "a", "metadata": {"n": NaN}}', r"line 2: metadata\['n'\] is nan"),
        ('{"text": "a", "metadata": {"n": 1e999}}', r"line 2: metadata\['n'\] is inf"),
        ('{"text": "a\\ud800"}', "line 2: text has half a character"),
        ('{"text": "a", "tags": "b"}', "line 2: tags is str"),
        ('{"text": "a", "created_at": "soon"}', "line 2: created_at is 'soon'"),
        ('{"text": "a", "id": -1, "updated_at": "2025-01-01", "created_at": "2025-01-01"}', "line 2: id is -1"),
        ('{"text": "a", "id": true, "updated_at": "2025-01-01", "created_at": "2025-01-01"}', "line 2: id is True"),
        ('{"text": "a", "id": 1, "updated_at": "2025-01-01"}', "line 2: an exported memory has a created_at"),
        ('{"term": ""}', "line 2: term is empty"),
        ('{"term": null}', "line 2: term"),
        ('{"term": "a", "aliases": "b"}', "line 2: aliases is str"),
    ],
)
def test_a_bad_line_imports_nothing(words, line, telling):
    """A line that is no memory is named by its number, and no other line is stored either."""
    with pytest.raises(InvalidInputError, match=telling):
        words.import_jsonl(['{"text": "good"}', line, '{"text": "also good"}'])
    assert words.count() == 0
    assert words.terms.list() == []


def test_lines_of_new_memories_are_imported_like_adds(words):
    """Objects with the fields of `NewMemory` are added; empty lines and a byte order mark are passed over."""
    composed = unicodedata.normalize("NFD", "ção")
    lines = ["\ufeff" + json.dumps({"text": "one", "tags": [composed]}), "", "  \n", '{"text": "two", "key": "k"}']
    report = words.import_jsonl(lines)
    assert (report.added, report.updated, report.unchanged) == (2, 0, 0)
    assert read(words)[0].tags == ("ção",)
    assert words.import_jsonl(lines).unchanged == 2


def test_add_many_answers_for_every_item_in_order(words):
    """Each item has its memory in the answer, also one that had expired before the next took its place."""
    items = [NewMemory(text="olá", expires_at="2000-01-01"), NewMemory(text="olá"), NewMemory(text="x y")]
    stored = words.add_many(items)
    assert [memory.text for memory in stored] == ["olá", "olá", "x y"]
    assert [memory.outcome for memory in stored] == ["added"] * 3
    assert words.count() == 2


def test_many_terms_are_known_together_or_not_at_all(words):
    """One term that clashes keeps all of its company out."""
    words.terms.add("Stripe", aliases=["stp"])
    with pytest.raises(InvalidInputError, match="'stp' is a spelling of the term 'Stripe' already"):
        words.terms.add_many([Term(name="PagBank"), Term(name="Other", aliases=("stp",))])
    assert [term.name for term in words.terms.list()] == ["Stripe"]


def test_lost_sequence_overwrites_no_memory(words):
    """Where the file has lost count of its ids a new memory still gets one of its own."""
    words.add("first")
    words.add("second")
    with words._database.write() as conn:
        conn.execute("DELETE FROM sqlite_sequence")
    assert words.add("third").id == 3
    assert [memory.text for memory in words.list(order="oldest")] == ["first", "second", "third"]

"""Names that a caller chooses are bound as data everywhere: never SQL, FTS5 syntax, a JSON path or a URI (case B75)."""

import pytest
from conftest import FakeEmbedder
from test_filters import CRAFTED

from memstore import InvalidInputError, MemoryStore, NewMemory, Weights

NAMES = [
    *(name for name in CRAFTED if name.strip()),
    *[
        'terms : ("x")',
        "NEAR(a b)",
        "a* OR b",
        'a" OR "b',
        "^a",
        "rank:1",
        "-a",
        "vectors_1",
        "sqlite_schema",
        "a AND",
        "(",
    ],
]
FILES = [
    *["a?mode=memory.db", "?immutable=1", "a#b.db", "a%20b.db", "%61.db", "file:a.db", "file:a?mode=ro", "a'b.db"],
    *['a"b.db', "a;b.db", "a b.db", "ação 🎉.db", "a\\b.db", ":memory:.db", "a&vfs=none.db", "a?key=x.db", "-.db"],
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A store of words with one memory of another user, which the tests share."""
    with MemoryStore(tmp_path_factory.mktemp("names") / "memory.db", embedder="none") as store:
        store.add("yours and secret", key="yours", namespace="theirs", author="Else", thread="t", tags=["t"])
        yield store


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_a_memory_is_data(shared, name):
    """A key, namespace, thread, author, tag or entity is found by that very name, and shows nobody else's memory."""
    mine = shared.add(f"bread {NAMES.index(name)}", key=name, namespace=name, thread=name, author=name, tags=[name])
    assert shared.get(key=name, namespace=name).id == mine.id
    assert shared.get(key=name) is None
    for only in ({"namespace": name}, {"thread": name}, {"author": name}, {"tags": [name]}):
        assert [memory.id for memory in shared.list(**only)] == [mine.id]
    assert [hit.memory.id for hit in shared.search("bread secret", k=9, namespace=name)] == [mine.id]
    assert shared.stats().namespaces[name] == 1
    assert shared.get(key="yours", namespace="theirs") is not None


@pytest.mark.parametrize("name", NAMES)
def test_a_known_term_is_data(words, name):
    """A known term, its kind and aliases are kept as written, found by their own words alone, merged and removed."""
    words.add_many([NewMemory(text="nothing of it", entities=["Else"]), NewMemory(text=f"it says {name} there")])
    if not any(character.isalnum() or character == "🎉" for character in name):
        with pytest.raises(InvalidInputError, match="has no word to know it by"):
            words.terms.add(name)
        return
    words.terms.add(name, kind=name, aliases=[f"alias {name}"])
    assert [(term.name, term.kind, term.aliases) for term in words.terms.list()] == [(name, name, (f"alias {name}",))]
    assert 1 not in {memory.id for memory in words.mentions(name)}
    assert words.terms.merge(name, "Else").name == "Else"
    words.terms.remove("Else")
    assert words.terms.list() == []
    assert words.count() == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_and_a_space_are_named_as_data(path, name):
    """A saved profile and an embedding space of any name are used by that very name, and removed alone."""
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        store.add("one")
        store.profiles.save(name, Weights(keyword=1.0, semantic=0.0))
        assert store.search("one", profile=name).used == ("keyword", "entity")
        second = store.spaces.add(FakeEmbedder(model_id="second"), name=name)
        store.spaces.fill()
        assert second.name == name
        assert name in store.search("one", signals=[name]).used
        assert store.search("one", weights=Weights(spaces={name: 0.5}))[0].memory.text == "one"
        store.spaces.remove(name)
        store.profiles.remove(name)
        assert [space.name for space in store.spaces.list()] == ["fake"]
        assert name not in store.profiles.list()


@pytest.mark.parametrize("name", FILES)
def test_a_file_name_is_a_file_name(tmp_path, name):
    """A store is the file of that very name: no part of it is an option, an escape or another place."""
    for _ in range(2):
        with MemoryStore(tmp_path / name, embedder="none") as store:
            store.add("one")
            assert store.delete(store.add("two").id, secure=True) == 1
            assert store._database.copy(tmp_path / f"copy {name}").read_bytes()[:6] == b"SQLite"
        (tmp_path / f"copy {name}").unlink()
    with MemoryStore(tmp_path / name, embedder="none", read_only=True) as store:
        assert [memory.text for memory in store.list()] == ["one"]
    # A store that is only read leaves an empty log behind.
    assert {one.name for one in tmp_path.iterdir()} <= {name, f"{name}-wal", f"{name}-shm"}

"""Weights that are kept in the file by the name of their profile."""

import io
import json

import apsw
import pytest
from conftest import FakeEmbedder

from memstore import MemoryStore, Weights
from memstore.errors import DamagedStoreError, InvalidInputError, NotFoundError, ReadOnlyError
from memstore.fusion import PROFILES

OWN = Weights(keyword=0.7, semantic=0.1, entity=0.2, boost=0.0, thread=0.0)


def put(path, name: str, stored: str) -> None:
    """Write a row that the store itself would refuse."""
    conn = apsw.Connection(str(path))
    conn.pragma("ignore_check_constraints", True)
    conn.execute("INSERT OR REPLACE INTO profiles (name, weights) VALUES (?, ?)", (name, stored))
    conn.close()


def exported(store: MemoryStore, **options) -> list[str]:
    lines = io.StringIO()
    store.export(lines, **options)
    return lines.getvalue().splitlines()


def test_a_profile_stays_in_the_file(opened):
    """Saved weights are listed after the built-in ones, are the same when the file is opened again, and can go."""
    store = opened(embedder="none")
    assert dict(store.profiles.list()) == dict(PROFILES)
    assert store.profiles.save("  tuned ", OWN) == OWN
    assert store.profiles.save("mine", {"keyword": 1, "boost": 2}) == Weights(keyword=1.0, boost=2.0)
    store.close()
    store = opened(embedder="none")
    assert list(store.profiles.list()) == ["default", "technical", "conceptual", "people", "mine", "tuned"]
    assert store.profiles.list()["tuned"] == OWN
    store.profiles.save("tuned", Weights())
    assert store.profiles.list()["tuned"] == Weights()
    store.profiles.remove("tuned")
    assert "tuned" not in store.profiles.list()


def test_search_uses_a_saved_profile(fake):
    """A search by a saved profile is the search by its weights, and own weights come before it."""
    for text in ("the red boat sank", "a boat of paper", "red paint, ERR-4018"):
        fake.add(text)
    fake.profiles.save("tuned", OWN)

    def scores(**options) -> list[tuple[int, float]]:
        return [(hit.memory.id, hit.score) for hit in fake.search("red boat ERR-4018", **options)]

    assert scores(profile="tuned") == scores(weights=OWN) != scores()
    assert scores(profile="tuned", weights=PROFILES["people"]) == scores(profile="people")


def test_an_unknown_profile_is_refused_with_those_that_exist(words):
    """A name that is no profile is refused with the built-in names and the file's."""
    words.profiles.save("tuned", OWN)
    for options in ({}, {"weights": OWN}):
        with pytest.raises(
            InvalidInputError,
            match="profile 'nope' is unknown; give one of default, technical, conceptual, people, tuned",
        ):
            words.search("anything", profile="nope", **options)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_built_in_profiles_stay_as_they_are(words, name):
    """A built-in profile is neither overwritten, nor removed, nor brought by an import."""
    for change in (
        lambda: words.profiles.save(name, OWN),
        lambda: words.profiles.remove(name),
        lambda: words.import_jsonl([json.dumps({"profile": name, "weights": {}})]),
    ):
        with pytest.raises(InvalidInputError, match=f"the profile '{name}' is built in and stays as it is"):
            change()
    assert dict(words.profiles.list()) == dict(PROFILES)


@pytest.mark.parametrize("name", ["", "  ", "x" * 1001, "a\x00b", "half \ud800", None, 7])
def test_names_are_checked(words, name):
    """A profile has a name like other names."""
    with pytest.raises(InvalidInputError, match="profile"):
        words.profiles.save(name, OWN)
    assert dict(words.profiles.list()) == dict(PROFILES)


@pytest.mark.parametrize(
    "weights",
    [Weights(keyword=-1), {"keyword": "much"}, {"keyword": True}, Weights(keyword=0, semantic=0, entity=0), 0.5, None],
)
def test_numbers_are_checked(words, weights):
    """Weights that mean nothing are not saved."""
    with pytest.raises(InvalidInputError, match="weights"):
        words.profiles.save("tuned", weights)
    assert "tuned" not in words.profiles.list()


def test_a_profile_that_is_not_there_cannot_be_removed(words):
    """Removing what the file does not have is an error that names it."""
    with pytest.raises(NotFoundError, match="there is no profile 'tuned' in the file; nothing was removed"):
        words.profiles.remove("tuned")


def test_a_store_that_is_only_read_keeps_its_profiles(opened):
    """A store that can't be changed uses its profiles and refuses to save or remove any."""
    store = opened(embedder="none")
    store.add("a boat")
    store.profiles.save("tuned", OWN)
    store.close()
    store = opened(embedder="none", read_only=True)
    assert store.profiles.list()["tuned"] == OWN
    assert store.search("boat", profile="tuned")
    for change in (lambda: store.profiles.save("mine", OWN), lambda: store.profiles.remove("tuned")):
        with pytest.raises(ReadOnlyError, match="can't be changed"):
            change()


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ("{keyword: 0.4}", "can't be read"),
        ('{"keyword": 0.4', "can't be read"),
        ("[0.4]", "JSON list"),
        ('{"keyword": -0.4}', "keyword is -0.4; give a number from 0"),
        ('{"keyword": 1e999}', "keyword is inf"),
        ('{"keyword": NaN}', "keyword is nan"),
        ('{"keyword": true}', "keyword is True"),
        ('{"keyword": null}', "keyword is None"),
        ('{"keyword": "0.4"}', "keyword is '0.4'"),
        ('{"bm25": 0.4}', "'bm25'"),
        ('{"spaces": [1]}', "spaces is list"),
        ('{"spaces": {"small": "x"}}', "'small' is 'x'"),
        ('{"spaces": {" ": 1}}', "space is empty"),
        ('{"keyword": 0, "semantic": 0, "entity": 0}', "all 0"),
        ("[" * 100_000, "can't be read"),
    ],
)
def test_a_damaged_profile_is_said_and_never_used(words, path, stored, why):
    """What can't be read as weights is an error where it is asked for, and left out with a warning elsewhere."""
    words.add("a boat")
    put(path, "tuned", stored)
    said = r"the profile 'tuned' can't be read .*save it again, or remove it"
    with pytest.raises(DamagedStoreError, match=said) as e:
        words.search("boat", profile="tuned")
    assert why in str(e.value)
    with pytest.warns(UserWarning, match=said):
        assert dict(words.profiles.list()) == dict(PROFILES)
    # The memories can be brought away all the same.
    with pytest.warns(UserWarning, match=said):
        assert any('"a boat"' in line for line in exported(words))
    assert words.search("boat")
    words.profiles.remove("tuned")
    assert dict(words.profiles.list()) == dict(PROFILES)


def test_a_row_with_a_built_in_name_changes_nothing(words, path):
    """What another program wrote under a built-in name is not taken for that profile."""
    put(path, "default", '{"keyword": 1}')
    assert words.profiles.list()["default"] == Weights()


def test_a_profile_names_spaces_that_are_there(opened):
    """A profile may weigh one space alone; when the file has it no longer, a search by it says so."""
    store = opened(embedder=FakeEmbedder(model_id="one"))
    store.add("a boat")
    store.spaces.add(FakeEmbedder(model_id="two"))
    store.spaces.fill()
    one, two = (space.name for space in store.spaces.list())
    store.spaces.default(one, two)
    weights = Weights(semantic=0.0, spaces={two: 0.4})
    with pytest.raises(InvalidInputError, match=f"embedding space 'gone', and the file has {one}, {two}; name one"):
        store.profiles.save("tuned", Weights(spaces={"gone": 1}))
    store.profiles.save("tuned", weights)
    assert store.search("boat", profile="tuned").spaces == (two,)
    lines = exported(store)
    store.spaces.remove(two)
    with pytest.raises(
        InvalidInputError,
        match=f"profile 'tuned' has a weight for the embedding space '{two}', and the file has {one};",
    ):
        store.search("boat", profile="tuned")
    assert store.profiles.list()["tuned"] == weights
    store.import_jsonl(lines)
    assert store.profiles.list()["tuned"] == weights


def test_export_and_import_carry_profiles(words, tmp_path):
    """The file's profiles are lines of their own, of every namespace, and the line's state wins where both have one."""
    words.add("a boat", namespace="sea")
    words.profiles.save("müde", OWN)
    words.profiles.save("tuned", Weights(keyword=0.1, spaces={}))
    lines = exported(words, namespace="land")
    assert [json.loads(line).get("profile") for line in lines] == ["müde", "tuned"]
    with MemoryStore(tmp_path / "other.db", embedder="none") as other:
        other.profiles.save("tuned", Weights(keyword=0.9))
        other.profiles.save("mine", OWN)
        for _ in range(2):
            report = other.import_jsonl(exported(words))
        assert report.unchanged == 1
        assert other.profiles.list() == {**words.profiles.list(), "mine": OWN}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ({"profile": "tuned"}, "weights is a JSON NoneType; give an object"),
        ({"profile": "tuned", "weights": {"keyword": -1}}, "weights: keyword is -1; give a number"),
        ({"profile": "tuned", "weights": {"bm25": 1}}, "weights has no field 'bm25'"),
        ({"profile": "tuned", "weights": {}, "text": "x"}, "a profile has no field 'text'"),
        ({"profile": "", "weights": {}}, "profile is empty"),
    ],
)
def test_a_bad_line_imports_nothing(words, line, sentence):
    """A line that is no profile is refused by its number before anything is written."""
    with pytest.raises(InvalidInputError, match=f"line 2: {sentence}"):
        words.import_jsonl([json.dumps({"text": "a boat"}), json.dumps(line)])
    assert words.count() == 0
    assert dict(words.profiles.list()) == dict(PROFILES)

"""Doctor: a sound file has no finding, and each fault planted past memstore is named."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import FakeEmbedder, failing
from hypothesis import given, settings
from hypothesis import strategies as st
from planting import FAULTS, LONG, Fault, flip_vector, made, plant, schema_row
from test_consistency import CHANGES, MOVES, NEW, SPELLINGS

from memstore import InvalidInputError, MemoryStore, NewMemory, NotAStoreError, NotFoundError, diagnose
from memstore import database as databases
from memstore.database import Database
from memstore.errors import MemstoreError
from memstore.health import Diagnosis, Finding


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """A store that is closed and sound."""
    path = tmp_path_factory.mktemp("sound") / "memory.db"
    made(path)
    return path


@pytest.fixture
def copied(sound, path) -> Path:
    """A copy of it, for a fault to be planted in."""
    shutil.copyfile(sound, path)
    path.chmod(0o600)
    return path


FIXTURES = Path(__file__).parent / "fixtures"


def named(found: Diagnosis, part: str, says: str) -> Finding:
    """Return the damage that a sentence names; fail with all findings where there is none."""
    damage = [one for one in found.findings if one.severity == "damage"]
    matching = [one for one in damage if one.part == part and re.search(says, one.sentence)]
    assert matching, [(one.part, one.sentence) for one in found.findings]
    return matching[0]


def notices(found: Diagnosis) -> list[str]:
    return [one.sentence for one in found.findings if one.severity == "notice"]


def doctor(path: Path, *options: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "memstore", "doctor", "--db", str(path), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_sound_file(sound):
    """A file as memstore wrote it has no finding, and doctor says how much it looked at; the file stays as it was."""
    before = sound.read_bytes()
    found = diagnose(sound)
    assert found.findings == ()
    assert found.healthy
    assert found.checked["memories"] == 6
    assert found.checked["analysed"] == 6
    assert found.checked["passages"] == found.checked["vectors of fake"] == 9
    assert sound.read_bytes() == before


def test_new_file(opened):
    """A store without a memory is healthy."""
    assert opened(embedder="none").maintenance.doctor().findings == ()


def test_what_sqlite_keeps_otherwise(opened):
    """Values that SQLite stores in a form of its own are still what memstore wrote."""
    store = opened(embedder="none")
    store.add("at minus nothing", thread="talk", position=-0.0)
    store.add("at a great number", thread="talk", position=1e300, pinned=True)
    store.add("at the whole number 3", thread="talk", position=3, metadata={"n": 1.0, "e": "é\U0001f600"})
    assert store.maintenance.doctor().findings == ()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_planted_fault(copied, fault: Fault):
    """Each fault is named in a sentence, with the memories it is about, and as one that a repair mends."""
    plant(copied, *fault.planted)
    found = diagnose(copied)
    finding = named(found, fault.part, fault.says)
    assert not found.healthy
    assert finding.memories == fault.memories
    assert finding.repairable
    assert finding.remedy


@pytest.mark.parametrize(
    ("change", "memory"),
    [
        ("UPDATE memories SET text = 'ERR-4018 means that the card is stolen' WHERE id = 4", 4),
        ("UPDATE memories SET author = 'Bia' WHERE id = 1", 1),
        ("UPDATE memories SET created_at = '2023-05-08T10:00:00.000001Z' WHERE id = 6", 6),
        ("UPDATE memories SET metadata = '{\"n\":2}' WHERE id = 2", 2),
        ("UPDATE memories SET pinned = 1 WHERE id = 2", 2),
        ("UPDATE memories SET row_hash = zeroblob(16) WHERE id = 3", 3),
        ("DELETE FROM tags WHERE memory_id = 1 AND tag = 'b'", 1),
        ("INSERT INTO tags VALUES (5, 'c')", 5),
        ("UPDATE memories SET replaces = 1 WHERE id = 6", 6),
    ],
)
def test_memory_changed_from_outside(copied, change, memory):
    """Whichever field or tag of a memory another program changes, its hash tells, and no repair is promised."""
    plant(copied, change)
    finding = named(diagnose(copied), "memories", rf"1 memory \({memory}\) is not as memstore wrote it")
    assert finding.memories == (memory,)
    assert not finding.repairable
    assert "--accept" in finding.remedy


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE memories SET created_at = 'yesterday' WHERE id = 3", r"1 memory \(3\) has times that are none"),
        ("UPDATE memories SET position = NULL WHERE id = 3", r"1 memory \(3\) has a thread without a place"),
        ("UPDATE memories SET text = ' ' WHERE id = 3", r"1 memory \(3\) has no text"),
        ("UPDATE memories SET text = CAST(x'61ff62' AS TEXT) WHERE id = 3", r"1 memory \(3\) can't be read"),
        ("UPDATE memories SET created_offset = 5000 WHERE id = 3", r"1 memory \(3\) has a date with an offset"),
    ],
)
def test_memory_that_is_none(copied, change, says):
    """Fields that memstore never stores are named, and do not keep the other memories from being checked."""
    plant(copied, change, "DELETE FROM memory_entities WHERE memory_id = 6")
    found = diagnose(copied)
    assert named(found, "memories", says).memories == (3,)
    assert named(found, "entity", "not linked").memories == (6,)
    assert not any("holds words of" in one.sentence for one in found.findings)


def test_key_of_two_memories(copied):
    """Two memories under one key, which only a lost index allows, are named."""
    plant(copied, "DROP INDEX memories_key", "UPDATE memories SET key = 'card' WHERE id = 5")
    assert not named(diagnose(copied), "memories", "2 memories have the key 'card' in 'default'").repairable


def test_intact_in_an_automatic_copy(copied):
    """Where an automatic copy still has a changed memory as it was, the finding names that copy."""
    data = Database(copied)
    kept = data.copy(databases.automatic_name(copied, "test"))
    data.close()
    plant(copied, "UPDATE memories SET text = 'something else' WHERE id = 4")
    finding = named(diagnose(copied), "memories", "not as memstore wrote")
    assert f"{kept.name} still has 4 as it was" in finding.remedy
    assert not [one for one in copied.parent.iterdir() if one.name.startswith(kept.name) and one != kept]


def test_known_term_of_two_kinds(copied):
    """A known term whose spellings have different kinds is named."""
    plant(copied, "UPDATE entity_terms SET kind = 'place' WHERE spelling = 'Rita'")
    assert named(diagnose(copied), "entity", "the known term Rita Lima has more than one kind")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE embedders SET fingerprint = x'00'", "its fingerprint"),
        ("UPDATE embedders SET dimensions = 16", "its fingerprint"),
        ("UPDATE embedders SET state = 'lost'", "its metric, state or background"),
        ("UPDATE embedders SET metric = 'l2'", "its metric, state or background"),
    ],
)
def test_row_of_a_space(copied, change, says):
    """A space whose row can't be what memstore wrote is named, with the way out."""
    plant(copied, change)
    finding = named(diagnose(copied), "vectors", f"the row of the embedding space fake is damaged: {says}")
    assert "embedders remove" in finding.remedy


@pytest.mark.parametrize(
    ("change", "part", "says"),
    [
        ("DROP TABLE tags", "schema", "the table tags is missing, and what it held is lost"),
        ("DROP TABLE embedders", "schema", "the table embedders is missing"),
        ("ALTER TABLE memories ADD COLUMN more TEXT", "schema", "the table memories is not as it was made"),
        (
            "UPDATE meta SET value = 'klingon' WHERE key = 'languages'",
            "schema",
            "names the languages of its memories as 'klingon'",
        ),
        (
            "CREATE TRIGGER shout AFTER INSERT ON memories BEGIN DELETE FROM tags; END",
            "schema",
            "the trigger shout on memories is not memstore's",
        ),
        ("DELETE FROM memories WHERE id = 4", "memories", "belongs? to nothing in memories"),
    ],
)
def test_damage_to_the_source(copied, change, part, says):
    """What the indexes are made from is checked too."""
    plant(copied, "PRAGMA foreign_keys = 0", change)
    assert named(diagnose(copied), part, says)


def test_foreign_table_is_left_alone(copied):
    """A table of the user's own is worth a notice, and no damage."""
    plant(copied, "CREATE TABLE shopping (what TEXT)")
    found = diagnose(copied)
    assert found.healthy
    assert notices(found) == ["the table shopping is not memstore's; it is left alone"]


def test_altered_table_is_as_good_as_a_new_one(copied):
    """A column that was added later does not stand where schema.sql has it, and the table is the same."""
    plant(
        copied,
        "CREATE TABLE other (memory_id INTEGER PRIMARY KEY REFERENCES memories (id), last_used_at TEXT NOT NULL,"
        " times INTEGER NOT NULL) STRICT",
        "INSERT INTO other SELECT memory_id, last_used_at, times FROM uses",
        "DROP TABLE uses",
        "ALTER TABLE other RENAME TO uses",
    )
    assert diagnose(copied).findings == ()


WRITES = st.one_of(
    st.tuples(st.just("add"), st.lists(NEW, min_size=1, max_size=4)),
    st.tuples(st.just("later"), NEW),
    st.tuples(st.just("update"), st.integers(1, 9), CHANGES | MOVES),
    st.tuples(st.just("delete"), st.integers(1, 9)),
    st.tuples(st.just("know"), st.sampled_from(SPELLINGS), st.sampled_from(["Ana Lima", "o projeto"])),
    st.tuples(st.just("merge"), st.sampled_from(SPELLINGS), st.sampled_from(SPELLINGS)),
    st.tuples(st.just("fill")),
)


@settings(max_examples=60, deadline=None)
@given(writes=st.lists(WRITES, max_size=12))
def test_any_sequence_of_writes_leaves_a_sound_file(writes):
    """After any writes at all, refused ones among them, doctor has nothing to say but what still waits."""
    with tempfile.TemporaryDirectory() as folder, MemoryStore(f"{folder}/memory.db", embedder=FakeEmbedder()) as store:
        carried_out = {
            "add": store.add_many,
            "later": lambda new: store.add_many([new], embed="later"),
            "update": lambda one, changes: store.update(one, **changes),
            "delete": store.delete,
            "know": lambda alias, name: store.terms.add(name, aliases=[alias]),
            "merge": store.terms.merge,
            "fill": lambda: store.spaces.fill() if store.spaces.list() else (),
        }
        for what, *values in writes:
            with suppress(InvalidInputError, NotFoundError):
                carried_out[what](*values)
        found = store.maintenance.doctor()
        assert [one.sentence for one in found.findings if not re.search("waits? for vectors", one.sentence)] == []


def test_stale_terms_are_no_damage(copied):
    """What another version of the analyser made is worth a notice; the index must hold the same all the same."""
    plant(
        copied,
        "UPDATE analysed SET analyser = '1 pt en es', terms = 'anything', counts = '', length = 1 WHERE memory_id = 4",
        "INSERT OR REPLACE INTO memory_terms (rowid, terms, neighbours) VALUES (4, 'anything', '')",
        "DELETE FROM memory_entities WHERE memory_id = 1 AND entity_id = 1",
        "UPDATE analysed SET analyser = '' WHERE memory_id = 1",
        "UPDATE stems SET analyser = '1 pt en es', stems = 'x' WHERE word = 'means'",
    )
    found = diagnose(copied)
    assert found.healthy, found.findings
    assert "2 memories were analysed by an earlier memstore" in "\n".join(notices(found))
    plant(copied, "UPDATE analysed SET analyser = '99 pt en es' WHERE memory_id = 4")
    assert "1 memory was analysed by a later memstore" in "\n".join(notices(diagnose(copied)))
    plant(copied, "INSERT OR REPLACE INTO memory_terms (rowid, terms, neighbours) VALUES (4, 'other', '')")
    assert named(diagnose(copied), "keyword", "otherwise in the keyword index").memories == (4,)


def test_waiting_and_refused_and_expired(opened):
    """What waits for a vector, what was refused one and what has expired are notices."""
    embedder = failing(FakeEmbedder(), lambda texts: any("third" in text for text in texts))
    store = opened(embedder=embedder)
    store.add("a first")
    embedder.known["an empty one"] = [0.0] * 8
    store.add("an empty one")
    store.add("the third")
    store.add("gone soon", expires_at="2020-01-01")
    found = store.maintenance.doctor()
    assert found.healthy
    said = "\n".join(notices(found))
    assert "1 passage waits for vectors in fake" in said
    assert "the model of fake gives 1 passage no usable vector" in said
    assert "1 memory has expired" in said


def test_without_the_extension(copied, monkeypatch):
    """Vectors are checked where the extension is not, and doctor says that they can't be mended there."""
    plant(copied, flip_vector)
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    found = diagnose(copied)
    assert named(found, "vectors", "1 vector in fake is not as it was stored").memories == (2,)
    assert any("sqlite-vec is not installed" in one for one in notices(found))


def test_vectors_left_behind(opened, monkeypatch, path):
    """Vectors of memories that were deleted without the extension are known of, and no damage."""
    opened(embedder=FakeEmbedder()).add("falei com Maria")
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda *_: None)
        opened(embedder=FakeEmbedder()).delete(1)
    found = diagnose(path)
    assert found.healthy
    assert notices(found) == ["1 vector of memories that are gone is still to be removed"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_loose_mode(copied):
    """A file that others may read is worth a notice."""
    copied.chmod(0o644)
    found = diagnose(copied)
    assert found.healthy
    (said,) = notices(found)
    assert said.startswith("others than you can read or write memory.db (mode 0644)")
    assert found.findings[0].remedy.startswith("chmod 600 memory.db")


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_loose_mode_of_the_folder(copied):
    """What mends a folder where everyone can replace the file leaves the folder one that can be entered."""
    copied.parent.chmod(0o777)
    copied.chmod(0o640)
    (found,) = diagnose(copied).findings
    assert re.fullmatch(rf"chmod 600 memory\.db[\w. -]*, and chmod o-w {copied.parent}", found.remedy)


def test_free_pages(opened):
    """A file of which much is free is worth a notice."""
    store = opened(embedder="none")
    store.add_many([NewMemory(text=f"memory {n}", metadata={"more": "x" * 900_000}) for n in range(12)])
    store.delete(range(1, 13))
    assert re.search("MB of the .* MB of the file are free", "\n".join(notices(store.maintenance.doctor())))


def test_recogniser_is_not_at_hand(opened, path):
    """Names that a recogniser of the caller's found are no damage where it is not there to find them again."""

    def recogniser(text):
        return [("o gato", "animal")] if "gato" in text else []

    store = opened(embedder="none", recogniser=recogniser)
    store.add("vi o gato da Maria Silva")
    assert store.maintenance.doctor().findings == ()
    store.close()
    found = diagnose(path)
    assert found.healthy
    assert re.search("1 name came from a recogniser", "\n".join(notices(found)))
    plant(path, "DELETE FROM memory_entities WHERE entity_id = (SELECT id FROM entities WHERE name = 'Maria Silva')")
    assert not diagnose(path).healthy


def test_pieces_that_do_not_make_up_a_passage(opened, path):
    """A passage that a model was given in pieces needs all of them."""

    class Narrow(FakeEmbedder):
        window = 40

        def count_tokens(self, texts):
            return [len(text.split()) for text in texts]

    store = opened(embedder=Narrow())
    store.add(LONG)
    store.close()
    assert diagnose(path).findings == ()
    plant(path, "DELETE FROM passages WHERE id = (SELECT max(id) FROM passages WHERE embedder_id IS NOT NULL)")
    assert named(diagnose(path), "vectors", r"1 memory \(1\) has pieces in fake").memories == (1,)


def test_one_state_of_the_file(copied):
    """What is written while doctor reads is no part of what it reads."""
    with MemoryStore(copied, embedder=FakeEmbedder()) as store:
        told = []

        def write(done, total):
            told.append((done, total))
            with MemoryStore(copied, embedder=FakeEmbedder()) as other:
                other.add(f"written meanwhile {len(told)}")

        assert store.maintenance.doctor(progress=write).healthy
        assert told == [(6, 6)]
        assert store.maintenance.doctor().checked["memories"] == 7


def test_error_of_the_caller_is_the_callers(copied):
    """What a progress function raises is no damage of the file."""

    def give_up(*_):
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        diagnose(copied, progress=give_up)


def test_file_without_its_beginning(copied):
    """A file that SQLite does not know is diagnosed in a sentence that names salvage."""
    content = copied.read_bytes()
    copied.write_bytes(b"\0" * 100 + content[100:])
    found = diagnose(copied)
    (finding,) = found.findings
    assert not found.healthy
    assert "memstore salvage" in finding.remedy
    done = doctor(copied)
    assert done.returncode == 1
    assert "memstore salvage" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE meta",
        "UPDATE meta SET value = 'six' WHERE key = 'schema'",
        schema_row("UPDATE sqlite_schema SET sql = 'CREATE TABLE tags (' WHERE name = 'tags'"),
        "DROP TABLE memories",
    ],
)
def test_file_that_is_no_store_any_more(copied, change):
    """A file that can't be opened as a store, or has no memories, is diagnosed all the same."""
    plant(copied, "PRAGMA foreign_keys = 0", change)
    found = diagnose(copied)
    assert not found.healthy
    assert any("memstore salvage" in one.remedy for one in found.findings)


@pytest.mark.parametrize("page", range(2, 12))
def test_overwritten_page(copied, page):
    """Whichever page is overwritten, doctor names damage and raises nothing."""
    content = bytearray(copied.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    content[(page - 1) * size : page * size] = b"\xa5" * size
    copied.write_bytes(content)
    assert not diagnose(copied).healthy


def test_nothing_to_diagnose(tmp_path):
    """Where there is no file there is nothing to diagnose."""
    with pytest.raises(NotAStoreError, match="does not exist"):
        diagnose(tmp_path / "none.db")
    with pytest.raises(NotAStoreError, match="is a folder"):
        diagnose(tmp_path)


def test_command(copied):
    """The command prints plain sentences, its exit code is 0 for a healthy file and 1 for a damaged one."""
    done = doctor(copied)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"memory\.db is healthy: 6 memories were checked in \d+\.\d seconds\.\n", done.stdout)
    plant(copied, "DELETE FROM memory_terms WHERE rowid = 2")
    done = doctor(copied)
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == (
        "1 memory (2) is not in the keyword index; memstore doctor --repair makes it again."
    )


def test_command_in_json(copied):
    """With --json the diagnosis is all that stands on standard output."""
    plant(copied, "DELETE FROM memory_terms WHERE rowid = 2")
    done = doctor(copied, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["healthy"] is False
    assert found["findings"][0]["memories"] == [2]


def test_bundled_model(real):
    """Vectors of the bundled model are checked as any others."""
    real.add_many([NewMemory(text=text) for text in ("a reunião ficou para sexta", LONG)])
    assert real.maintenance.doctor().findings == ()


def test_errors_are_ours(copied, monkeypatch):
    """A file that can't be read at all raises an error of memstore's, and is not called damaged."""
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(MemstoreError):
        diagnose(copied)


@pytest.mark.parametrize("fixture", sorted(FIXTURES.glob("schema-*.db")), ids=lambda fixture: fixture.stem)
def test_file_of_an_earlier_schema(fixture, path):
    """A file that was brought to this schema is as sound as one that was made in it."""
    shutil.copyfile(fixture, path)
    path.chmod(0o600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        MemoryStore(path, embedder="none").close()
    found = diagnose(path)
    assert found.healthy, found.findings
    assert found.checked["memories"] > 1
    assert not any("not memstore's" in one for one in notices(found))

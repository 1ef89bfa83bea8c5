"""Repair: what can be made again is made again, after a copy; what can't is named and left as it is."""

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import apsw
import pytest
from conftest import FakeEmbedder, failing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planting import FAULTS, LONG, Fault, made, plant, schema_row
from test_consistency import assert_consistent

from memstore import (
    DamagedStoreError,
    InvalidInputError,
    MemoryStore,
    NewMemory,
    NotFoundError,
    ReadOnlyError,
    StorageError,
    diagnose,
)
from memstore.database import Database, automatic_backups
from memstore.maintenance import mend
from memstore.maintenance.repairing import repair

# The passages whose vectors a fault takes away for good: they are embedded again, and no others.
EMBEDDED_AGAIN = {
    "passage changed": 1,
    "vector of another text": 1,
    "bit of a vector flipped": 1,
    "vector of zeros": 1,
    "vector lost": 1,
    "vector noted for no passage": 1,
    "vectors wiped": 9,
    "vector table dropped": 9,
    "chunk too short": 4,
}


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


def everything(store: MemoryStore) -> list:
    """Return what the caller said, and what is made of it, of every memory."""
    return store.list(limit=1_000, order="oldest", superseded=True)


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_mended(copied, sound, name):
    """Each fault is mended after a copy of the file: memories are as they were, searches find, doctor finds nothing."""
    fault: Fault = FAULTS[name]
    with MemoryStore(sound, embedder=FakeEmbedder(), read_only=True) as store:
        before = everything(store)
    plant(copied, *fault.planted)
    embedder = FakeEmbedder()
    with MemoryStore(copied, embedder=embedder) as store:
        done = store.maintenance.repair()
        assert done.lost == ()
        assert done.diagnosis.healthy
        assert done.rebuilt
        assert not done.before.healthy
        assert automatic_backups(copied) == [done.backup]
        assert done.backup.stat().st_mode & 0o777 == 0o600
        assert done.rebuilt.get("vectors made", 0) == EMBEDDED_AGAIN.get(name, 0)
        if "use" not in name:
            assert everything(store) == before
        assert_consistent(store, embedder)
        assert store.search("ERR-4018")[0].memory.id == 4
        assert store.search("reuniao")[0].memory.id == 2
        assert [m.id for m in store.mentions("Rita")] == [6]
        assert store.maintenance.repair().backup is None
    assert [one.severity for one in diagnose(copied).findings] == ["notice"]


def test_the_copy_is_of_the_file_before(copied):
    """The copy is the file as it was, damage and all."""
    plant(copied, "DELETE FROM memory_terms_data")
    with MemoryStore(copied, embedder=FakeEmbedder()) as store:
        done = store.maintenance.repair()
    found = diagnose(done.backup)
    assert not found.healthy
    assert found.checked["memories"] == 6


def test_healthy_file_is_left_alone(copied):
    """Where there is nothing to repair nothing is copied and nothing is changed."""
    before = copied.read_bytes()
    with MemoryStore(copied, embedder=FakeEmbedder()) as store:
        done = store.maintenance.repair()
    assert (done.backup, done.rebuilt, done.lost) == (None, {}, ())
    assert done.diagnosis.healthy
    assert automatic_backups(copied) == []
    assert copied.read_bytes() == before


def test_search_fails_before_and_finds_after(copied):
    """A wiped full-text index, which nothing else mends, is searched again after a repair (B55)."""
    plant(copied, "DELETE FROM memory_terms_data")
    with MemoryStore(copied, embedder="none") as store:
        with pytest.raises(DamagedStoreError):
            store.search("reunião")
        assert store.maintenance.repair().diagnosis.healthy
        assert store.search("reunião")[0].memory.id == 2
        assert store.add("a new one about the garden").id == 7
        assert store.search("garden")[0].memory.id == 7
        assert store.maintenance.doctor().healthy


@pytest.mark.parametrize(
    ("change", "memory"),
    [
        ("UPDATE memories SET text = 'ERR-4018 means that the card is stolen' WHERE id = 4", 4),
        ("DELETE FROM tags WHERE memory_id = 1 AND tag = 'b'", 1),
    ],
)
def test_changed_memory_is_not_blessed(copied, change, memory):
    """A memory that was changed from outside stays named, while its indexes follow what it says now."""
    plant(copied, change)
    with MemoryStore(copied, embedder=FakeEmbedder()) as store:
        done = store.maintenance.repair()
        assert not done.diagnosis.healthy
        assert [one.memories for one in done.diagnosis.findings if one.severity == "damage"] == [(memory,)]
        assert any("not as memstore wrote it" in sentence for sentence in done.lost)
        if memory == 4:
            assert store.search("stolen")[0].memory.id == 4
        assert store.maintenance.repair().backup is None


def test_changed_memory_can_be_accepted(copied):
    """The user may take a changed memory as it is; all others stay as they were."""
    plant(copied, "UPDATE memories SET text = 'ERR-4018 means that the card is stolen' WHERE id IN (3, 4)")
    embedder = FakeEmbedder()
    with MemoryStore(copied, embedder=embedder) as store:
        done = store.maintenance.repair(accept=[4])
        assert done.backup is not None
        assert done.rebuilt["memories accepted as they are"] == 1
        assert [one.memories for one in done.diagnosis.findings if one.severity == "damage"] == [(3,)]
        assert store.get(4).text == "ERR-4018 means that the card is stolen"
        assert store.maintenance.repair(accept=[3]).diagnosis.healthy
        assert_consistent(store, embedder)


def test_what_is_no_memory_is_not_accepted(copied):
    """An id of no memory, and a row that is none, are refused before anything is changed."""
    plant(
        copied, "UPDATE memories SET created_at = 'yesterday' WHERE id = 3", "DELETE FROM memory_terms WHERE rowid = 2"
    )
    with MemoryStore(copied, embedder=FakeEmbedder()) as store:
        with pytest.raises(NotFoundError, match="there is no memory 99; nothing was repaired"):
            store.maintenance.repair(accept=[99])
        with pytest.raises(InvalidInputError, match="memory 3 can't be taken as it is: it has times that are none"):
            store.maintenance.repair(accept=[3])
    assert automatic_backups(copied) == []
    assert any("not in the keyword index" in one.sentence for one in diagnose(copied).findings)


def test_lost_memory_leaves_nothing_behind(copied):
    """Of a memory whose row is gone everything else goes too: no search finds a ghost."""
    plant(copied, "PRAGMA foreign_keys = 0", "DELETE FROM memories WHERE id = 5")
    embedder = FakeEmbedder()
    with MemoryStore(copied, embedder=embedder) as store:
        done = store.maintenance.repair()
        assert done.diagnosis.healthy
        assert_consistent(store, embedder)
        assert all(hit.memory.id != 5 for hit in store.search("long text about Maria", k=10))


@pytest.mark.parametrize("table", ["tags", "uses", "embedders", "entities", "memory_entities", "passage_vectors"])
def test_lost_table_is_made_again_empty(copied, table):
    """A table of what the caller said is made again, empty, so that the file can be used; what it held is named."""
    plant(copied, "PRAGMA foreign_keys = 0", f"DROP TABLE {table}")
    done = mend(copied)
    assert any(table in one.sentence and "lost" in one.sentence for one in done.before.findings)
    with MemoryStore(copied, embedder=FakeEmbedder()) as store:
        assert store.search("ERR-4018")[0].memory.id == 4
        after = store.maintenance.repair()
        # Memories without the tags that they had are not as they were written.
        assert after.diagnosis.healthy is (table != "tags")


def test_unreadable_memories_stop_a_repair(copied):
    """Nothing is rebuilt from half of the memories: the file stays as it is, and salvage is named."""
    plant(
        copied,
        "UPDATE memories SET text = CAST(x'61ff62' AS TEXT) WHERE id = 3",
        "DELETE FROM memory_terms WHERE rowid = 2",
    )
    before = copied.read_bytes()
    done = mend(copied)
    assert done.backup is None
    assert any("memory (3) can't be read" in sentence for sentence in done.lost)
    assert copied.read_bytes() == before


def test_waiting_passages_are_embedded(opened):
    """What an embedder failed for is found by words, and a repair embeds it once the model works (B56)."""
    embedder = FakeEmbedder()
    works = embedder.embed_passages
    failing(embedder, lambda texts: any("third" in text for text in texts))
    store = opened(embedder=embedder)
    added = [store.add(f"the {one} note") for one in ("first", "second", "third", "fourth", "fifth")]
    assert [len(memory.pending) for memory in added] == [0, 0, 1, 0, 0]
    assert store.stats().pending == 1
    assert store.search("third")[0].memory.id == 3
    done = store.maintenance.repair()
    assert any("not all vectors could be made again" in sentence for sentence in done.lost)
    embedder.embed_passages = works
    done = store.maintenance.repair()
    assert (done.backup, done.rebuilt, done.lost) == (None, {"vectors made": 1}, ())
    assert store.stats().pending == 0
    assert store.maintenance.doctor().findings == ()


def test_no_model_at_hand(copied):
    """Without the model what was dropped waits, and the repair says so."""
    plant(copied, "DELETE FROM vectors_1 WHERE rowid = 3")
    done = mend(copied)
    assert done.diagnosis.healthy
    assert any("1 passage waits for vectors in fake" in one.sentence for one in done.diagnosis.findings)


def test_without_the_extension(copied, monkeypatch):
    """Without sqlite-vec everything but the vectors is mended, and the repair says what was not."""
    plant(copied, "DELETE FROM memory_terms_data", "DELETE FROM vectors_1 WHERE rowid = 3")
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda *_: None)
        done = mend(copied)
    assert any("the vectors could not be mended" in sentence for sentence in done.lost)
    assert [one.part for one in done.diagnosis.findings if one.severity == "damage"] == ["vectors"]
    assert mend(copied).diagnosis.healthy


def test_pieces_are_made_again(opened, path):
    """A passage that has lost a piece gets all of its pieces anew."""

    class Narrow(FakeEmbedder):
        window = 40

        def count_tokens(self, texts):
            return [len(text.split()) for text in texts]

    with MemoryStore(path, embedder=Narrow()) as store:
        store.add(LONG)
    plant(path, "DELETE FROM passages WHERE id = (SELECT max(id) FROM passages WHERE embedder_id IS NOT NULL)")
    store = opened(embedder=Narrow())
    done = store.maintenance.repair()
    assert done.diagnosis.healthy
    assert store.stats().pending == 0
    assert done.rebuilt["vectors made"] > 0


def test_entity_that_was_given_keeps_its_name(copied):
    """An entity that the caller gave is linked again under its name when its key was damaged."""
    plant(copied, "UPDATE entities SET key = 'nonsense' WHERE name = 'Projeto X'")
    with MemoryStore(copied, embedder=FakeEmbedder()) as store:
        assert store.maintenance.repair().diagnosis.healthy
        assert [memory.id for memory in store.mentions("projeto x")] == [5]


def test_names_of_a_recogniser_stay(opened, path):
    """A repair without the recogniser that found a name leaves it; with it, the name is found again."""

    def recogniser(text):
        return [("o gato", "animal")] if "gato" in text else []

    with MemoryStore(path, embedder="none", recogniser=recogniser) as store:
        store.add("vi o gato da Maria Silva")
    plant(path, "DELETE FROM memory_entities WHERE entity_id = (SELECT id FROM entities WHERE name = 'Maria Silva')")
    with MemoryStore(path, embedder="none") as store:
        assert store.maintenance.repair().diagnosis.healthy
        assert {entity.name for entity in store.get(1).entities} == {"o gato", "Maria Silva"}
    plant(path, "PRAGMA foreign_keys = 1", "DELETE FROM memory_entities")
    store = opened(embedder="none", recogniser=recogniser)
    assert store.maintenance.repair().diagnosis.healthy
    assert {entity.name for entity in store.get(1).entities} == {"o gato", "Maria Silva"}


def test_copy_byte_for_byte(copied, monkeypatch):
    """Where SQLite can't copy the file its bytes are copied, with those of its log, and the repair says so."""

    def refuse(*_):
        raise DamagedStoreError("no page can be read")

    keeper = MemoryStore(copied, embedder="none")
    keeper.add("still in the log")
    plant(copied, "DELETE FROM memory_terms WHERE rowid = 2")
    monkeypatch.setattr(Database, "copy", refuse)
    done = keeper.maintenance.repair()
    assert done.diagnosis.healthy
    assert any(
        "was copied byte for byte, since SQLite can't copy the file (no page can be read)" in one for one in done.lost
    )
    log = done.backup.with_name(done.backup.name + "-wal")
    assert log.stat().st_mode & 0o777 == 0o600
    # The locks of the store are still there: another connection sees what it holds.
    keeper.add("and one more")
    keeper.close()
    with MemoryStore(done.backup, embedder="none") as kept:
        assert kept.count() == 7


def test_no_repair_without_a_copy(copied, monkeypatch):
    """Where no copy can be made nothing is changed."""

    def refuse(*_):
        raise StorageError("the disk is full")

    def full(_, target):
        target.touch()
        raise OSError(28, "No space left on device")

    plant(copied, "DELETE FROM memory_terms WHERE rowid = 2")
    monkeypatch.setattr(Database, "copy", refuse)
    monkeypatch.setattr("memstore.maintenance.repairing.copy_bytes", full)
    with MemoryStore(copied, embedder="none") as store:
        with pytest.raises(
            StorageError, match=r"can't be copied before its repair .*No space left.*; nothing was changed"
        ):
            store.maintenance.repair()
        assert not store.maintenance.doctor().healthy
    assert automatic_backups(copied) == []


def test_read_only_store(copied):
    """A store that can't be changed is not repaired."""
    with MemoryStore(copied, embedder="none", read_only=True) as store, pytest.raises(ReadOnlyError):
        store.maintenance.repair()


def test_stemmers_are_asked_again_after_a_repair(copied):
    """An open store forgets the wrong stems that it has read of the file."""
    with MemoryStore(copied, embedder="none") as store:
        store.add("falamos de dois orçamentos ontem")
    plant(copied, "UPDATE stems SET stems = 'x x x', folded_stems = 'x x x' WHERE word = 'orçamento'")
    with MemoryStore(copied, embedder="none") as store:
        assert 7 not in {hit.memory.id for hit in store.search("orçamento", k=10)}
        store.maintenance.repair()
        assert 7 in {hit.memory.id for hit in store.search("orçamento", k=10)}


def test_others_write_during_a_repair(copied):
    """What another store writes while a repair goes on is in every index after it."""
    plant(copied, "DELETE FROM analysed", "DELETE FROM passages", "DELETE FROM memory_entities WHERE given = 0")
    embedder = FakeEmbedder()
    with MemoryStore(copied, embedder=embedder) as store, MemoryStore(copied, embedder=FakeEmbedder()) as other:
        calls = []

        def write(done, _):
            calls.append(done)
            other.add(f"written during call {len(calls)} by Otto Maier")
            other.update(4, text=f"ERR-4018 in call {len(calls)}")

        assert store.maintenance.repair(progress=write).diagnosis.healthy
        assert len(calls) > 2
        assert store.count() == 6 + len(calls)
        assert store.maintenance.doctor().healthy


class _Killed(BaseException):
    """The end of a process at any statement."""


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 400))
def test_interrupted_repair_is_ended_by_another(sound, tmp_path_factory, at):
    """A repair that ends at any statement leaves a file that opens, holds every memory, and is mended by another."""
    path = tmp_path_factory.mktemp("killed") / "memory.db"
    shutil.copyfile(sound, path)
    plant(
        path,
        "DROP TRIGGER passages_added",
        "DELETE FROM memory_terms_data",
        "DELETE FROM analysed WHERE memory_id > 3",
        "DELETE FROM passages WHERE memory_id = 5",
        "UPDATE stems SET stems = 'x y z' WHERE word = 'reunião'",
        "DELETE FROM memory_entities WHERE memory_id = 6",
        "DELETE FROM vectors_1_rowids",
    )
    data = Database(path)
    count = 0

    def kill(_, sql, __):
        nonlocal count
        if sql.startswith(("INSERT", "DELETE", "UPDATE", "CREATE", "DROP", "COMMIT", "REINDEX")):
            count += 1
            if count > at:
                raise _Killed
        return True

    data.connection().exec_trace = kill
    try:
        with suppress(_Killed):
            repair(data)
    finally:
        data.connection().exec_trace = None
        data.close()
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        assert store.count() == 6
        assert store.maintenance.repair().diagnosis.healthy
        assert_consistent(store, FakeEmbedder())
    shutil.rmtree(path.parent)


def test_command(copied):
    """The command says what was copied and made again; its exit code tells how the file is then."""
    plant(copied, "DELETE FROM memory_terms_data", "UPDATE memories SET author = 'Bia' WHERE id = 1")
    command = [sys.executable, "-m", "memstore", "doctor", "--repair", "--embedder", "none", "--db", str(copied)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == f"copied the file to {automatic_backups(copied)[0].name} before anything was changed"
    assert "memories in the keyword index: 6" in lines
    assert any(line.startswith("1 memory (1) is not as memstore wrote it") for line in lines)
    done = subprocess.run([*command, "--accept", "1"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, "memories accepted as they are: 1")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "there was nothing to repair")


def test_command_on_a_file_that_does_not_open(copied):
    """A file that can't be opened as a store is repaired where that is possible, else salvage is named."""
    plant(copied, "PRAGMA foreign_keys = 0", "DROP TABLE embedders")
    command = [sys.executable, "-m", "memstore", "doctor", "--repair", "--embedder", "none", "--db", str(copied)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    copied.write_bytes(b"\0" * 100 + copied.read_bytes()[100:])
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "memstore salvage" in done.stdout


def test_bundled_model(real, path):
    """Vectors of the bundled model that are sound are kept, and a damaged one is made anew."""
    real.add_many([NewMemory(text=text) for text in ("a reunião ficou para sexta", LONG)])
    with real._database.read() as conn:
        before = dict(conn.execute("SELECT rowid, embedding FROM vectors_1"))

    def flip(conn: apsw.Connection) -> None:
        (content,) = conn.execute("SELECT vectors FROM vectors_1_vector_chunks00").fetchone()
        conn.execute("UPDATE vectors_1_vector_chunks00 SET vectors = ?", (bytes([content[0] ^ 1]) + content[1:],))

    plant(path, flip)
    done = real.maintenance.repair()
    assert done.diagnosis.healthy
    assert done.rebuilt["vectors made"] == 1
    with real._database.read() as conn:
        assert dict(conn.execute("SELECT rowid, embedding FROM vectors_1")).keys() == before.keys()
    assert real.search("quando é o encontro?", signals=["semantic"])[0].memory.id == 1


@pytest.mark.parametrize(
    "change",
    [
        schema_row("UPDATE sqlite_schema SET name = CAST(name AS BLOB) WHERE name = 'passages_pieces'"),
        schema_row(
            "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'memories')"
            " WHERE name = 'tags_tag'"
        ),
    ],
)
def test_nothing_is_written_where_a_write_could_harm(copied, change):
    """Where the schema names things that are not so, a drop would take what is sound: the file stays as it is."""
    plant(copied, change, "DELETE FROM memory_terms WHERE rowid = 2")
    before = copied.read_bytes()
    done = mend(copied)
    assert done.backup is None
    assert not done.diagnosis.healthy
    assert any("nothing was written" in sentence for sentence in done.lost)
    assert any("memstore salvage" in one.remedy for one in done.diagnosis.findings)
    assert copied.read_bytes() == before


def test_overwritten_page_of_memories(copied):
    """A file whose pages of memories are overwritten is not written to either."""
    conn = apsw.Connection(str(copied))
    (root,) = conn.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'memories'").fetchone()
    size = conn.pragma("page_size")
    conn.close()
    content = bytearray(copied.read_bytes())
    content[(root - 1) * size : root * size] = b"\xa5" * size
    copied.write_bytes(content)
    done = mend(copied)
    assert (done.backup, done.rebuilt) == (None, {})
    assert any("memstore salvage" in one.remedy for one in done.diagnosis.findings)
    assert copied.read_bytes() == content


def test_overwritten_page_of_a_cache(copied):
    """A cache that SQLite can't even drop is named with salvage, and the rest is mended; no memory is lost."""
    conn = apsw.Connection(str(copied))
    (root,) = conn.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'memory_terms_docsize'").fetchone()
    size = conn.pragma("page_size")
    conn.close()
    plant(copied, "DELETE FROM memory_entities WHERE memory_id = 6")
    content = bytearray(copied.read_bytes())
    content[(root - 1) * size : root * size] = b"\xa5" * size
    copied.write_bytes(content)
    done = mend(copied)
    assert done.backup is not None
    assert done.rebuilt["memories linked to names"] == 1
    assert any("the keyword index could not be mended" in one and "memstore salvage" in one for one in done.lost)
    with MemoryStore(copied, embedder="none") as store:
        assert len(everything(store)) == 6

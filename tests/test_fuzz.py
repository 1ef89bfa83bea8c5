"""Inputs that nobody should give and files that no one wrote; `python -m tests.fuzz` is the long form."""

import io
import shutil
import sys
from pathlib import Path

import apsw
import numpy as np
import pytest
from conftest import FakeEmbedder
from fuzz import fuzz_files, fuzz_inputs

from memstore import DamagedStoreError, InvalidInputError, MemoryStore, SignalUnavailableError, memories
from memstore.errors import MemstoreError

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def written(path) -> Path:
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        for number in range(20):
            store.add(f"Maria da Silva wrote note {number} about the garden", thread="talk", tags=["a"])
    return path


@pytest.fixture
def damaged(written):
    """Change a file by SQL behind the store's back, and open it again."""

    def damaged(sql: str, **options) -> MemoryStore:
        connection = apsw.Connection(str(written))
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        connection.execute(sql)
        connection.close()
        return MemoryStore(written, **options)

    return damaged


def test_whatever_is_given_is_stored_answered_or_refused(tmp_path):
    """Any input is stored and reads back, is answered, or is refused in one sentence; the file stays sound."""
    assert fuzz_inputs(tmp_path, seed=7, number=1_000) == []


@pytest.mark.skipif(sys.platform == "win32", reason="the files are read in forked processes")
def test_a_damaged_file_ends_no_process_and_hides_no_change(tmp_path):
    """Flipped bytes never end the process nor raise what is not ours; what reads back otherwise is named by doctor."""
    assert fuzz_files(tmp_path, seed=7, number=40) == []


@pytest.mark.parametrize("size", [0.05, 0.5, 0.95])
def test_a_file_that_was_cut_is_refused(written, size):
    """A file that holds fewer pages than it says is refused as damaged when it is opened."""
    with written.open("r+b") as file:
        file.truncate(int(written.stat().st_size * size))
    with pytest.raises(DamagedStoreError, match="memstore salvage"):
        MemoryStore(written, embedder=FakeEmbedder())


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE vectors_1_rowids",
        "ALTER TABLE vectors_1_rowids RENAME COLUMN chunk_id TO other",
        "DROP TABLE vectors_1_chunks",
        "DROP TABLE vectors_1_vector_chunks00",
        "PRAGMA writable_schema = on; UPDATE sqlite_schema SET sql = replace(sql, 'cosine', 'l2')",
        "UPDATE vectors_1_vector_chunks00 SET vectors = x'00'",
        "UPDATE vectors_1_chunks SET validity = x'ff'",
        "UPDATE embedders SET fingerprint = x'00'",
        "UPDATE embedders SET state = 'lost'",
        "UPDATE embedders SET dimensions = 9",
    ],
)
def test_damaged_vectors_cost_their_own_signal_alone(damaged, sql):
    """Where the vectors of a space can't be read, a search answers by words and names, and says why by what."""
    with damaged(sql, embedder=FakeEmbedder()) as store:
        found = store.search("what did Maria da Silva write about the garden?")
        assert len(found) == 3
        assert "semantic" not in found.used
        assert "memstore doctor" in found.skipped["semantic"]
        with pytest.raises(SignalUnavailableError, match="damaged"):
            store.search("garden", signals=["semantic"])
        assert store.context("garden").text


def test_memories_are_written_and_deleted_beside_a_lost_vector_table(damaged):
    """Without its table of vectors a space takes part in nothing: memories are added, and wait; others are deleted."""
    with damaged("DROP TABLE vectors_1_rowids", embedder=FakeEmbedder()) as store:
        added = store.add("a note of now", thread="talk")
        assert added.pending == ("fake",)
        assert store.delete(1) == 1
        (space,) = store.spaces.list()
        assert "damaged" in space.problem
        with pytest.raises(MemstoreError, match="damaged"):
            store.spaces.fill()
        with pytest.raises(DamagedStoreError, match="Nothing was changed"):
            store.spaces.remove("fake", last=True)


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        ("UPDATE analysed SET counts = '1x8' WHERE memory_id = 3", "search"),
        ("UPDATE analysed SET beside = '_3' WHERE memory_id = 3", "search"),
        ("UPDATE stems SET stems = 'one two three four'", "search"),
        ("UPDATE memories SET created_at = '2024-13-01T00:00:00.000000Z' WHERE id = 3", "get"),
        ("UPDATE memories SET created_offset = 999999 WHERE id = 3", "get"),
        ("PRAGMA ignore_check_constraints = on; UPDATE memories SET metadata = '{' WHERE id = 3", "get"),
        ("PRAGMA ignore_check_constraints = on; UPDATE memories SET metadata = '[]' WHERE id = 3", "get"),
        ("UPDATE uses SET last_used_at = 'yesterday'", "get"),
        ("UPDATE memories SET created_at = '' WHERE id = 3", "export"),
        ("UPDATE memories SET position = NULL WHERE id = 3", "search"),
        ("UPDATE statistics SET memories = -1", "search"),
        ("DELETE FROM statistics", "search"),
    ],
)
def test_a_row_that_no_write_could_leave_is_said_to_be_damaged(written, damaged, sql, asked):
    """What is read and can't have been written is told as damage, with what to do; not as a fault of Python's."""
    with MemoryStore(written, embedder=FakeEmbedder()) as store:
        store.mark_used(3)
    with pytest.raises(DamagedStoreError, match="memstore salvage"), damaged(sql, embedder=FakeEmbedder()) as store:
        {
            "search": lambda: store.search("Maria da Silva note garden", k=20),
            "get": lambda: store.get(3),
            "export": lambda: store.export(io.StringIO()),
        }[asked]()


def test_a_memory_that_only_an_index_has_is_said_to_be_damaged(written, monkeypatch):
    """What a search finds and then can't read, in one state of the file, is told as damage.

    A damaged page of the table gives a row to who reads along it, and not to who looks it up.
    """
    whole = memories.read
    with MemoryStore(written, embedder="none") as store:
        monkeypatch.setattr(memories, "read", lambda conn, ids: whole(conn, [one for one in ids if one != 3]))
        with pytest.raises(DamagedStoreError, match=r"memory 3 is damaged .*an index names it.* memstore salvage"):
            store.search("note 2 garden", k=20)
        with store._database.read() as conn, pytest.raises(DamagedStoreError, match="memory 99 is damaged"):
            memories.ages(conn, [3, 99], "2026-01-01T00:00:00.000000Z")


def test_a_damaged_memory_can_be_deleted(damaged):
    """What can't be read as a memory can be taken out of the file."""
    sql = "UPDATE memories SET created_at = 'yesterday', replaces = 2 WHERE id = 3"
    with damaged(sql, embedder=FakeEmbedder()) as store:
        assert store.delete(3) == 1
        assert store.get(3) is None
        assert store.count() == 19


def test_a_table_that_is_gone_is_said_to_be_damage(damaged):
    """A table that the schema has and the file has not is told as damage, with what to do."""
    with (
        damaged("DROP TABLE tags", embedder="none") as store,
        pytest.raises(DamagedStoreError, match="memstore doctor"),
    ):
        store.get(1)


def test_an_error_of_a_callers_own_is_not_taken_for_damage(words):
    """What a caller's function raises in the middle of a write comes out as it is."""
    words.add("a note")
    with pytest.raises(ValueError, match="my own"), words._database.write():
        raise ValueError("my own")


def test_a_value_of_the_wrong_type_is_told_as_damage(written):
    """A field whose bytes are of another type than its column is told as damage wherever Python stumbles over it."""
    content = written.read_bytes()
    # The header of a row of tags: the memory's id, and a text of one character, turned into one of bytes.
    at = content.rindex(b"\x03\x01\x0f\x05a")
    written.write_bytes(content[: at + 2] + b"\x0e" + content[at + 3 :])
    with MemoryStore(written, embedder="none") as store, pytest.raises(DamagedStoreError):
        store.list(limit=100)


@pytest.mark.parametrize("value", [7, None, np.array(3), 2.5])
def test_what_can_not_be_read_through_is_no_list_of_memories_or_lines(words, value):
    """What is no list is refused where many memories or lines are expected."""
    with pytest.raises(InvalidInputError):
        words.add_many(value)
    with pytest.raises(InvalidInputError):
        words.import_jsonl(value)
    with pytest.raises(InvalidInputError, match="line 1: it is bytes"):
        words.import_jsonl([b"{}"])


def test_a_place_below_zero_by_nothing_is_zero(words):
    """A negative zero is stored as zero, which is what the file gives back: the row's hash holds."""
    memory = words.add("a note", thread="talk", position=-0.0)
    assert str(memory.position) == "0.0"
    with words._database.read() as conn:
        stored = conn.execute("SELECT row_hash FROM memories").get
    with words._database.read() as conn:
        assert memories.get(conn, memory.id).row_hash == stored


def test_copies_of_a_pristine_file_are_sound(written, tmp_path):
    """The files that are damaged are sound before: what is found is the damage."""
    from soundness import sound

    copy = tmp_path / "copy.db"
    shutil.copy(written, copy)
    assert sound(copy, {"fake": FakeEmbedder().vector}) == []

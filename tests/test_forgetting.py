"""What is deleted securely leaves no byte, and what has expired is shown nowhere and purged."""

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from conftest import FakeEmbedder

from memstore import MemoryStore, NewMemory
from memstore.database import automatic_name, faults
from memstore.errors import BusyError, DamagedStoreError, EmbedderError, InvalidInputError, ReadOnlyError, StorageError
from memstore.lexicon import Lexicon
from memstore.maintenance import scrubbing

PAST = datetime.now(UTC) - timedelta(hours=1)
# Each begins like nothing else: of a term the keyword index writes only what the one before it does not begin with.
WORDS = ("zqxjvk", "qzwkxv", "xqjzwv", "jxqzkw", "wqzxjk", "kzqxwj", "vzqwjx", "qjzxvw", "zjqvwx", "qxvzjw")
TEXT, KEY, AUTHOR, THREAD, TAG, FIELD, VALUE, GIVEN, CODE, NAME = WORDS
GONE = NewMemory(
    text=f"the {TEXT}ção of {CODE}-4018 is known to Maria {NAME.title()}",
    key=f"{KEY}/1",
    author=AUTHOR.title(),
    thread=THREAD,
    tags=[TAG, "kept"],
    metadata={FIELD: {"deep": [VALUE]}},
    entities=[GIVEN],
)
KEPT = [NewMemory(text=f"turn {n} about bread and the reunião", thread="talk", tags=["kept"]) for n in range(9)]


def traces(folder: Path, *vectors: np.ndarray) -> set[str]:
    """Return what of the memory that was to be forgotten stands in the bytes of the files of a folder."""
    content = b"\n".join(one.read_bytes() for one in sorted(folder.iterdir()))
    lower = content.lower()
    found = {word for word in WORDS if word.encode() in lower}
    # A vector may be parted over two pages, so parts of it are looked for.
    parts = [vector.tobytes()[at : at + 16] for vector in vectors for at in range(0, 4 * len(vector), 16)]
    return found | ({"vector"} if any(part in content for part in parts) else set())


def fill(store: MemoryStore) -> int:
    """Store a memory that leaves all the traces that one can, among others; return its id."""
    store.add_many(KEPT)
    # Its neighbours hold its terms, and it is one of a chain.
    older = store.add("what was before", thread=THREAD[::-1])
    gone = store.add_many([GONE])[0].id
    newer = store.add("what came after", thread=THREAD, replaces=gone)
    store.update(newer.id, thread="talk")
    store.add("beside it", thread=THREAD[::-1])
    store.update(gone, thread=THREAD[::-1], replaces=older.id)
    store.update(gone, thread="talk", position=4.5)
    store.mark_used(gone)
    store.sparse_vector(gone)
    store.search(f"{TEXT}cao {CODE}-4018 {NAME}")
    return gone


def vector_of(store: MemoryStore, memory_id: int, table: str = "vectors_1") -> np.ndarray:
    with store._database.read() as conn:
        sql = f"SELECT embedding FROM {table} WHERE rowid = (SELECT min(id) FROM passages WHERE memory_id = ?)"
        return np.frombuffer(conn.execute(sql, (memory_id,)).get, dtype=np.float32)


def test_words_that_are_forgotten_while_another_thread_writes_are_written_again(words, monkeypatch):
    """A thread that has just written a word does not take it for stored once another has forgotten it without trace."""
    noting, forgotten = threading.Event(), threading.Event()
    real = Lexicon.kept

    def late(written):
        if threading.current_thread() is writer:
            noting.set()
            forgotten.wait(30)
        real(written)

    words.add("what was there")
    monkeypatch.setattr(Lexicon, "kept", staticmethod(late))
    writer = threading.Thread(target=words.add, args=("informação secreta",))
    writer.start()
    noting.wait(30)
    (secret,) = (memory for memory in words.list() if "secreta" in memory.text)
    words.delete(secret.id, secure=True)
    words.add("something else")
    forgotten.set()
    writer.join()
    words.add("informação pública")
    assert words.maintenance.doctor().healthy


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_of_what_is_deleted_securely_no_byte_is_left(path, journal):
    """A plain deletion leaves bytes of a memory in the file; a secure one none: of text, names, index and vectors."""
    models = [FakeEmbedder(dimensions=64), FakeEmbedder(dimensions=48, model_id="second")]
    store = MemoryStore(path, embedder=models, journal=journal)
    for model in models:
        store.spaces.add(model)
    gone = fill(store)
    vectors = vector_of(store, gone), vector_of(store, gone, "vectors_2")
    # Statistics of the planner hold samples of what is indexed.
    with store._database.write() as conn:
        conn.execute("ANALYZE")
    assert traces(path.parent, *vectors) == {*WORDS, "vector"}
    before = [memory for memory in store.list(limit=100, superseded=True) if memory.id != gone]
    assert store.delete(gone) == 1
    assert len(traces(path.parent, *vectors)) > len(WORDS) // 2
    assert store.delete(gone, secure=True) == 0
    assert traces(path.parent, *vectors) == set()
    assert not (path.with_name(f"{path.name}-wal").exists() and path.with_name(f"{path.name}-wal").stat().st_size)
    after = store.list(limit=100, superseded=True)
    assert {memory.text for memory in after} == {memory.text for memory in before}
    # An id is given once, and the words of the others are known as before.
    assert store.get(before[-1].id) is not None
    assert store.add("one more").id > gone
    assert store.search("turn 5 reuniao")[0].memory.text == KEPT[5].text
    store.close()
    assert traces(path.parent, *vectors) == set()


def test_one_call_deletes_and_leaves_no_trace(path, fake):
    """`delete(…, secure=True)` alone leaves no byte, and says how many there were; the rest is as it was."""
    gone = fill(fake)
    vector = vector_of(fake, gone)
    assert fake.delete([gone, gone, 999], secure=True) == 1
    assert traces(path.parent, vector) == set()
    assert fake.get(gone) is None
    assert fake.count(superseded=True) == len(KEPT) + 3
    with pytest.raises(InvalidInputError, match="secure is 'yes'"):
        fake.delete(1, secure="yes")


def test_the_real_model_finds_the_rest_as_before(path, real):
    """With the bundled model the scores of all other memories are, to the last bit, those of a plain deletion."""
    gone = fill(real)
    vector = vector_of(real, gone)
    real.delete(gone)
    before = real.search("what came after the meeting about bread?", k=20)
    real.maintenance.purge(secure=True)
    assert traces(path.parent, vector) == set()
    after = real.search("what came after the meeting about bread?", k=20)
    assert [(hit.memory.id, hit.score) for hit in after] == [(hit.memory.id, hit.score) for hit in before]
    assert before[0].signals["semantic"].raw is not None


def test_an_update_leaves_traces_until_the_next_purge(path, words):
    """The text that a memory had before stays in the file's bytes until a secure purge; the memory stays."""
    gone = fill(words)
    plain = {"key": None, "author": None, "tags": [], "metadata": {}, "entities": []}
    words.update(gone, text="something else entirely", **plain)
    assert TEXT in traces(path.parent)
    assert words.maintenance.purge(secure=True) == 0
    assert traces(path.parent) == set()
    assert words.get(gone).text == "something else entirely"


def test_vectors_fit_their_passages_after_the_file_is_written_anew(path):
    """With chunks of vectors gone and gaps in others each vector is still that of its passage, and found by search."""
    embedder = FakeEmbedder(dimensions=4)
    with MemoryStore(path, embedder=embedder) as store:
        made = store.add_many([NewMemory(text=f"w{n}") for n in range(2_500)])
        store.delete([one.id for one in made[:1_024]] + [one.id for one in made[1_024::7]])
        store.maintenance.purge(secure=True)
        kept = [one for n, one in enumerate(made) if n >= 1_024 and (n - 1_024) % 7]
        with store._database.read() as conn:
            stored = dict(
                conn.execute("SELECT p.memory_id, v.embedding FROM vectors_1 v JOIN passages p ON p.id = v.rowid")
            )
        assert stored == {one.id: embedder.vector(one.text).tobytes() for one in kept}
        for one in kept[::100]:
            assert store.search(one.text, k=1, signals=["semantic"])[0].memory.id == one.id
        # New vectors go into the places that were left.
        store.add_many([NewMemory(text=f"x{n}") for n in range(20)])
        assert store.search("x7", k=1, signals=["semantic"])[0].memory.text == "x7"


def test_what_an_older_library_left_of_vectors_is_overwritten(path, fake):
    """The numbers that stand in the free places of a table of vectors are gone, those of the other vectors stay."""
    kept, gone = fake.add("kept"), fake.add("gone")
    vector, other = vector_of(fake, gone.id), vector_of(fake, kept.id)
    fake.delete(gone.id)
    with fake._database.write() as conn:
        stored = bytearray(conn.execute("SELECT vectors FROM vectors_1_vector_chunks00").get)
        stored[2 * vector.nbytes : 3 * vector.nbytes] = vector.tobytes()
        conn.execute("UPDATE vectors_1_vector_chunks00 SET vectors = ?", (bytes(stored),))
    assert "vector" in traces(path.parent, vector)
    fake.maintenance.purge(secure=True)
    assert traces(path.parent, vector) == set()
    assert np.array_equal(vector_of(fake, kept.id), other)


@pytest.mark.parametrize("column", ["validity", "vectors"])
def test_damaged_vectors_are_told_of(fake, column):
    """Where a table of vectors is not as the library makes it, that is an error, and the file keeps its note."""
    kept = fake.add("kept").id
    table = "vectors_1_chunks" if column == "validity" else "vectors_1_vector_chunks00"
    with fake._database.write() as conn:
        conn.execute(f"UPDATE {table} SET {column} = CAST(substr({column}, 1, 8) AS BLOB)")
    with pytest.raises(DamagedStoreError, match="traces of it may be left: the vectors of fake are damaged"):
        fake.maintenance.purge(secure=True)
    with fake._database.read() as conn:
        assert scrubbing.warning(conn) is not None
    assert fake.get(kept).text == "kept"


def test_words_that_come_again_are_learnt_again(words, opened):
    """A word that left the file is found by its plain spelling once it comes again, whoever stores it."""
    other = opened(embedder="none")
    for store, by in ((words, other), (other, other), (words, words)):
        store.add("a conceição chegou")
        assert store.search("conceicao")[0].memory.text == "a conceição chegou"
        by.delete([memory.id for memory in by.list()], secure=True)
        with by._database.read() as conn:
            assert conn.execute("SELECT count(*) FROM stems").get == 0
            assert conn.execute("SELECT count(*) FROM vocabulary").get == 0
            assert conn.execute("SELECT count(*) FROM entities").get == 0


def test_the_number_of_a_term_is_given_once(words):
    """A term whose number was dropped gets another one, and the terms that memories hold keep theirs."""
    kept, gone = words.add("bread"), words.add("butter")
    before, dropped = words.sparse_vector(kept.id), words.sparse_vector(gone.id)
    words.delete(gone.id, secure=True)
    again = words.sparse_vector(words.add("butter").id)
    assert words.sparse_vector(kept.id).indices == before.indices
    assert not set(again.indices) & {*dropped.indices, *before.indices}


def test_the_users_own_terms_stay(path, words):
    """What the user has taught the store is no memory: it stays, and is all that is left of a name."""
    words.terms.add(NAME, aliases=[CODE])
    gone = fill(words)
    words.delete(gone, secure=True)
    assert traces(path.parent) == {NAME, CODE}
    assert [term.name for term in words.terms.list()] == [NAME]


def test_automatic_backups_go_and_are_named(path, words):
    """Automatic backups, which hold what is forgotten, are removed and named; a copy of the user's own stays."""
    gone = fill(words)
    backup = words._database.copy(automatic_name(path, "repair"))
    own = words._database.copy(path.with_name("own.db"))
    with pytest.warns(UserWarning, match=f"{backup.name}: removed, since automatic backups held"):
        words.delete(gone, secure=True)
    assert not backup.exists()
    own.rename(path.parent.parent / "own.db")
    assert traces(path.parent) == set()


def test_a_backup_that_cannot_be_removed_is_told(path, words, monkeypatch):
    """Where an automatic backup can't be removed that is an error that names it, and the file says so from then on."""
    gone = fill(words)
    backup = words._database.copy(automatic_name(path, "repair"))

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StorageError, match=f"is gone, but traces of it may be left: .*{backup.name} holds it"):
        words.delete(gone, secure=True)
    monkeypatch.undo()
    assert words.get(gone) is None
    with pytest.warns(UserWarning, match="traces may be left .*memstore purge --secure"):
        MemoryStore(path, embedder="none").close()
    with pytest.warns(UserWarning, match="removed"):
        words.maintenance.purge(secure=True)
    assert traces(path.parent) == set()
    MemoryStore(path, embedder="none").close()


def test_a_reader_that_holds_the_log_is_told_of(path, words, monkeypatch, opened):
    """While someone reads an older state the log can't be emptied: an error says what is left and what ends it."""
    gone = fill(words)
    monkeypatch.setattr(faults, "BUSY_SECONDS", 0.2)
    impatient = opened(embedder="none")
    reading, done = threading.Event(), threading.Event()

    def read():
        with words._database.read() as conn:
            conn.execute("SELECT count(*) FROM memories").fetchall()
            reading.set()
            done.wait(60)

    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(60)
    try:
        with pytest.raises(
            BusyError, match=r"is gone, but traces .*memory.db-wal can't be emptied while another.*purge"
        ):
            impatient.delete(gone, secure=True)
    finally:
        done.set()
        reader.join()
    assert impatient.get(gone) is None
    assert TEXT in traces(path.parent)
    with pytest.warns(UserWarning, match="traces may be left"):
        MemoryStore(path, embedder="none").close()
    assert impatient.maintenance.purge(secure=True) == 0
    assert traces(path.parent) == set()


@pytest.mark.parametrize("step", ["_wipe_words", "rewrite", "_remove_backups", "empty_log", "finished"])
def test_killed_at_any_step_it_can_be_ended(path, words, step):
    """A process that dies in the middle leaves all other memories, says so at the next open, and a purge ends it."""
    gone = fill(words)
    others = {memory.id: memory.text for memory in words.list(limit=100, superseded=True) if memory.id != gone}
    words.close()
    code = (
        "import os, sys\nfrom memstore import MemoryStore\nfrom memstore.maintenance import scrubbing\n"
        "setattr(scrubbing, sys.argv[2], lambda *_: os._exit(9))\n"
        "MemoryStore(sys.argv[1], embedder='none').delete(int(sys.argv[3]), secure=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path), step, str(gone)], capture_output=True, check=False)
    assert done.returncode == 9, done.stderr
    with pytest.warns(UserWarning, match="memory.db: traces may be left of what was deleted securely"):
        store = MemoryStore(path, embedder="none")
    assert {memory.id: memory.text for memory in store.list(limit=100, superseded=True)} == others
    store.maintenance.purge(secure=True)
    assert traces(path.parent) == set()
    store.close()
    MemoryStore(path, embedder="none").close()


def test_without_the_library_nothing_is_deleted_securely(fake, monkeypatch):
    """Where vectors can't be reached a secure deletion is refused whole: a trace of the memory would stay in them."""
    gone = fill(fake)
    monkeypatch.setattr(fake._database._opener, "vectors_unavailable", "sqlite-vec is not installed")
    for refused in (lambda: fake.delete(gone, secure=True), lambda: fake.maintenance.purge(secure=True)):
        with pytest.raises(EmbedderError, match=r"vectors of fake can't be taken out .*Nothing was deleted"):
            refused()
    assert fake.get(gone) is not None


def test_a_store_that_is_only_read_forgets_nothing(words, opened):
    """On a store that can't be changed a secure deletion is an error before anything is done."""
    gone = fill(words)
    reader = opened(embedder="none", read_only=True)
    for refused in (lambda: reader.delete(gone, secure=True), lambda: reader.maintenance.purge()):
        with pytest.raises(ReadOnlyError, match="read_only=True"):
            refused()
    assert words.get(gone) is not None


def test_a_secure_deletion_waits_for_other_writers(words, opened):
    """Secure deletions and writes of other threads go on side by side, none is lost and none fails."""
    gone = [one.id for one in words.add_many([NewMemory(text=f"gone {n}") for n in range(6)])]
    other = opened(embedder="none")
    errors: list[BaseException] = []

    def write():
        try:
            for n in range(30):
                other.add(f"kept {n}")
        except BaseException as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    for one in gone:
        words.delete(one, secure=True)
    writer.join()
    assert errors == []
    assert {memory.text for memory in words.list(limit=100)} == {f"kept {n}" for n in range(30)}


def everything(store: MemoryStore, folder: Path) -> dict[str, str]:
    """Return what every public way of reading a store says, by the way."""
    store.export(folder / "all.jsonl")
    store.export_markdown(folder / "all")
    query = f"{TEXT}ção {CODE}-4018 Maria {NAME} {AUTHOR} turn bread"
    return {
        "list": repr(store.list(limit=100, superseded=True)),
        "changes": repr(store.changes("2000-01-01", limit=100)),
        "search": repr(store.search(query, k=100, superseded=True).hits),
        "recall": repr(store.recall(query, k=100).hits),
        "context": store.context(query, max_tokens=10_000, superseded=True).text,
        "entities": repr(store.entities(limit=100, superseded=True)),
        "mentions": repr([store.mentions(name, superseded=True) for name in ("kept",)]),
        "get": repr([store.get(memory.id) for memory in store.list(limit=100)]),
        "stats": repr(store.stats().entities),
        "export": (folder / "all.jsonl").read_text(encoding="utf-8"),
        "markdown": "".join(one.name + one.read_text(encoding="utf-8") for one in sorted((folder / "all").iterdir())),
    }


def test_what_has_expired_is_shown_nowhere(tmp_path, fake):
    """Of a memory that has expired no public way of reading shows a word, a name, a count or its place."""
    fake.terms.add("kept")
    fake.add_many(KEPT)
    for folder in ("before", "after"):
        (tmp_path / folder).mkdir()
    names = fake.stats().entities
    gone = fake.add_many([GONE])[0].id
    fake.update(gone, thread="talk", position=4.5, expires_at=PAST)
    said = everything(fake, tmp_path / "after")
    query = f"{TEXT}ção"
    assert {way: word for way, text in said.items() for word in WORDS if word in text.lower()} == {}
    assert said["stats"] == repr(names)
    assert not any(hit.neighbour_terms for hit in fake.search(query, k=100))
    assert fake.get(gone) is None
    for name in (GIVEN, f"Maria {NAME}", AUTHOR):
        with pytest.raises(LookupError):
            fake.mentions(name)
    with pytest.raises(LookupError):
        fake.sparse_vector(gone)
    assert fake.count(superseded=True) == len(KEPT)
    assert fake.stats().expired == 1


def test_entities_are_counted_over_the_memories_that_are_there(words):
    """`entities` counts the mentions by memories that neither expired nor are superseded, those too when asked."""
    words.add("vi a Rita em Campinas", expires_at=PAST + timedelta(hours=2))
    old = words.add("falei com Rita Souza em Recife")
    words.add("falei com Rita Souza em Olinda", replaces=old.id)
    found = {entity.name: entity.mentions for entity in words.entities()}
    assert found == {"Rita": 1, "Campinas": 1, "Rita Souza": 1, "Olinda": 1}
    assert {entity.name: entity.mentions for entity in words.entities(superseded=True)} == {
        **found,
        "Rita Souza": 2,
        "Recife": 1,
    }
    words.update(1, expires_at=PAST)
    assert {entity.name for entity in words.entities()} == {"Rita Souza", "Olinda"}
    assert words.stats().entities == 3


@pytest.mark.parametrize("secure", [False, True])
def test_purging_takes_out_all_that_has_expired(path, words, secure):
    """`purge` deletes every expired memory, however many, and no other; securely, it leaves no trace of them."""
    kept = [words.add("kept, and expires later", expires_at="2999-01-01"), words.add("kept")]
    words.add_many([NewMemory(text=f"{TEXT} {n}") for n in range(230)])
    with words._database.write() as conn:
        conn.execute("UPDATE memories SET expires_at = '2000-01-01T00:00:00.000000Z' WHERE id > 2")
    assert words.stats().expired == 230
    assert words.maintenance.purge(secure=secure) == 230
    assert words.maintenance.purge() == 0
    assert words.stats().expired == 0
    assert [memory.id for memory in words.list(order="oldest")] == [one.id for one in kept]
    assert (TEXT in traces(path.parent)) is not secure


def test_on_the_command_line(tmp_path):
    """forget --secure and purge --secure leave no trace and say what was done; the help says what each reaches."""

    def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "memstore", *arguments],
            env={**os.environ, "MEMSTORE_DB": str(tmp_path / "cli" / "m.db")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done

    (tmp_path / "cli").mkdir()
    for text in (f"{TEXT} one", f"{KEY} two", f"{TAG} three"):
        run("add", text, "--embedder", "none")
    run("update", "3", "--expires-at", "2000-01-01T00:00Z", "--embedder", "none")
    assert run("forget", "1", "--secure", "--embedder", "none").stdout == "deleted 1 memory, without a trace\n"
    assert traces(tmp_path / "cli") == {KEY, TAG}
    assert "memstore purge --secure" in run("forget", "1", "--secure", "--embedder", "none", code=1).stderr
    assert run("delete", "2", "--json", "--embedder", "none").stdout == '{\n  "deleted": 1\n}\n'
    assert run("purge", "--embedder", "none").stdout == "deleted 1 memory that had expired\n"
    assert KEY in traces(tmp_path / "cli")
    assert run("purge", "--secure", "--json", "--embedder", "none").stdout == '{\n  "purged": 0\n}\n'
    assert traces(tmp_path / "cli") == set()
    said = " ".join(run("forget", "--help").stdout.split())
    for word in ("--secure", "automatic backups", "snapshots", "SSDs", "exports", "memory of programs", "purge"):
        assert word in said


def test_a_store_without_memories_is_purged_like_any_other(words):
    """A secure purge of a store without memories, words or spaces is no error, and the store goes on."""
    assert words.maintenance.purge(secure=True) == 0
    assert words.add("first").id == 1


def test_unfinished_automatic_backups_go_too(path, words):
    """What a kill left of an automatic backup, or beside one that is gone, holds memories as well and is removed."""
    gone = fill(words)
    content = path.read_bytes() + path.with_name(f"{path.name}-wal").read_bytes()
    backup = automatic_name(path, "schema-5")
    left = [backup.with_name(backup.name + end) for end in (".part", ".part-journal", "-wal", "-journal")]
    for one in left:
        one.write_bytes(content)
    with pytest.warns(UserWarning, match=f"{backup.name}.part, .*: removed, since automatic backups held"):
        words.delete(gone, secure=True)
    assert not any(one.exists() for one in left)
    assert traces(path.parent) == set()


def test_a_backup_that_is_named_like_an_automatic_one_stays(path, words):
    """Only what is named as memstore names its own copies is removed: others are their owner's."""
    gone = fill(words)
    own = [path.with_name(path.name + end) for end in (".before-the-trip.bak", ".before-repair-2026.bak", ".bak")]
    own += [path.with_name("other-" + automatic_name(path, "repair").name)]
    for one in own:
        one.write_bytes(b"mine")
    words.delete(gone, secure=True)
    assert [one.read_bytes() for one in own] == [b"mine"] * len(own)


def test_what_a_killed_backup_left_is_named(path, words):
    """A folder beside the file that a backup or salvage left when it was killed is named, by doctor too; it stays."""
    gone = fill(words)
    left, empty = (path.with_name(f"copy.db.partial-{end}") for end in ("abc_1234", "xyz_1234"))
    left.mkdir()
    empty.mkdir()
    (left / "copy.db").write_bytes(b"something")
    with pytest.warns(UserWarning, match=f"^{left.name}: left by a backup or salvage that was stopped"):
        words.delete(gone, secure=True)
    assert (left / "copy.db").exists()
    (found,) = [one for one in words.maintenance.doctor().findings if "a backup or salvage" in one.sentence]
    assert (found.severity, found.count) == ("notice", 1)
    assert left.name in found.sentence
    assert empty.name not in found.sentence


def test_a_folder_that_cannot_be_listed_is_told_of(path, words, monkeypatch):
    """Where it can't be seen what lies beside the file that is said, and the file keeps its note."""
    gone = fill(words)

    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(StorageError, match=r"is gone, but .* can't be listed .*Permission denied.*purge --secure"):
        words.delete(gone, secure=True)
    found = words.maintenance.doctor()
    assert found.healthy
    assert any("can't be listed" in one.sentence for one in found.findings)
    monkeypatch.undo()
    words.maintenance.purge(secure=True)
    assert traces(path.parent) == set()


def test_by_a_link_all_is_found_that_lies_beside_the_file(tmp_path):
    """A file that is opened by a link to it has its log and its copies beside itself, and they go with the rest."""
    for name in ("real", "links"):
        (tmp_path / name).mkdir()
    path, link = tmp_path / "real" / "memory.db", tmp_path / "links" / "link.db"
    link.symlink_to(path)
    with MemoryStore(link, embedder="none") as store:
        gone = fill(store)
        backup = store._database.copy(automatic_name(store._database.path, "repair"))
        assert backup.parent == path.parent
    with MemoryStore(path, embedder="none") as store, pytest.warns(UserWarning, match="removed"):
        store.delete(gone, secure=True)
    assert traces(path.parent) == set()
    assert list(link.parent.iterdir()) == [link]

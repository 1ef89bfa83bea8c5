"""Who may read and write: the modes of files, what is read where nothing may be written, and what writes then say."""

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner

from memstore import MemoryStore
from memstore.cli.commands import cli
from memstore.database import Database, automatic_name, loose_modes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")


def mode(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@contextlib.contextmanager
def umask(wanted: int):
    before = os.umask(wanted)
    try:
        yield
    finally:
        os.umask(before)


def much_writing(conn: apsw.Connection) -> None:
    """Write more than SQLite keeps in memory, so that a part of it is on the disk before the commit."""
    conn.pragma("cache_size", 10)
    conn.executemany("INSERT INTO stems (word, stems) VALUES (?, ?)", [(f"w{n}", "x" * 900) for n in range(900)])


@pytest.mark.parametrize("mask", [0o022, 0o000])
def test_what_is_made_is_for_its_owner_alone(tmp_path, monkeypatch, mask):
    """File, log, journal, backup, export and the folders that are made for them can't be read by others (B89)."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home" / "share"))
    monkeypatch.delenv("MEMSTORE_DB", raising=False)
    with umask(mask):
        done = CliRunner().invoke(cli, ["add", "a note", "--embedder", "none"])
        assert done.exit_code == 0, done.output
        (db,) = (tmp_path / "home").rglob("*.db")
        with MemoryStore(db, embedder="none") as store:
            store.add("another")
            made = [Path(f"{db}{end}") for end in ("", "-wal", "-shm")]
            store.export(db.with_name("out.jsonl"))
            made += [db.with_name("out.jsonl"), store._database.copy(automatic_name(db, "test"))]
            assert [oct(mode(one)) for one in made] == [oct(0o600)] * len(made)
        with MemoryStore(db, embedder="none", journal="delete") as store, store._database.write() as conn:
            much_writing(conn)
            assert mode(f"{db}-journal") == 0o600
    folders = [one for one in (tmp_path / "home", *(tmp_path / "home").rglob("*")) if one.is_dir()]
    assert len(folders) >= 2
    assert {oct(mode(one)) for one in folders} == {oct(0o700)}
    assert loose_modes(db) == []


def test_looser_modes_are_told(path):
    """A file, log, journal or automatic backup that others can read is told with its mode, and nothing else is."""
    with MemoryStore(path, embedder="none") as store:
        store.add("a note")
        backup = store._database.copy(automatic_name(path, "repair"))
        path.with_name("memory.db.bak").write_text("a file of someone else's")
        path.with_name("memory.db.bak").chmod(0o644)
        assert loose_modes(path) == []
        for one, loose in ((path, 0o640), (Path(f"{path}-wal"), 0o604), (backup, 0o666)):
            one.chmod(loose)
        assert loose_modes(path) == [(path, 0o640), (Path(f"{path}-wal"), 0o604), (backup, 0o666)]


@pytest.mark.parametrize(
    ("folder_mode", "told"), [(0o700, False), (0o755, False), (0o775, False), (0o777, True), (0o1777, False)]
)
def test_a_folder_in_which_everyone_can_replace_the_file_is_told(tmp_path, folder_mode, told):
    """A folder is told only where everyone may write into it and its sticky bit does not keep the file from them."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with MemoryStore(folder / "memory.db", embedder="none") as store:
        store.add("a note")
    folder.chmod(folder_mode)
    assert loose_modes(folder / "memory.db") == ([(folder, folder_mode)] if told else [])


# What follows needs a user whom permissions stop: where the tests run as root, the child process gives that up.
AS_A_USER = """
import os, sys, tempfile, warnings
from memstore import MemoryStore
from memstore.errors import MemstoreError

path, warm, temporary, *rest = sys.argv[1:]
# What is loaded late is loaded now: this user may not reach the interpreter's files.
with MemoryStore(warm, embedder="none") as store:
    store.add("warm", metadata={"a": 1})
    store.search("warm")
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
tempfile.tempdir = temporary
told = []
warnings.showwarning = lambda message, *_: told.append(str(message))


def ask(store):
    texts = sorted(memory.text for memory in store.list())
    assert sorted(hit.memory.text for hit in store.search("key", k=9)) == texts
    print(texts)
    try:
        store.add("another")
    except MemstoreError as error:
        print(type(error).__name__, error)

"""


@pytest.fixture
def folder():
    """A folder that another user can reach: pytest's own are closed to all but their owner."""
    made = Path(tempfile.mkdtemp(prefix="memstore-test-"))
    made.chmod(0o755)
    (made / "temporary").mkdir()
    (made / "temporary").chmod(0o777)
    (made / "kept").mkdir()
    yield made / "kept"
    for one in (made, *made.rglob("*")):
        if one.is_dir():
            one.chmod(0o700)
    shutil.rmtree(made)


def as_a_user(path: Path, warm: Path, code: str) -> list[str]:
    """Run code as a user whom permissions stop; return the lines that it prints."""
    temporary = path.parent.parent / "temporary"
    done = subprocess.run(
        [sys.executable, "-c", AS_A_USER + code, str(path), str(warm), str(temporary)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    # Nothing of a copy that was made to be read is left.
    assert list(temporary.iterdir()) == []
    return done.stdout.splitlines()


def left_by_a_kill(path: Path, *, shared: bool = False) -> None:
    """Make a file as a killed process leaves it: one memory in it, another committed in its log alone."""
    live = path.with_name("live")
    with MemoryStore(live, embedder="none") as store:
        store.add("the key in the file")
        store._database.connection().pragma("wal_checkpoint", "TRUNCATE")
        store.add("the key in the log")
        for end in ("", "-wal", "-shm") if shared else ("", "-wal"):
            shutil.copyfile(f"{live}{end}", f"{path}{end}")
            os.chmod(f"{path}{end}", 0o444)
    live.unlink()


READ = """
with MemoryStore(path, embedder="none") as store:
    ask(store)
print(len(told), *told)
"""
BOTH = "['the key in the file', 'the key in the log']"


@pytest.mark.parametrize("shared", [False, True])
def test_a_log_in_a_folder_that_cannot_be_written_is_read(folder, tmp_path, shared):
    """What was committed to the log of a file is found where its folder can't be written, and nothing is changed."""
    path = folder / "memory.db"
    left_by_a_kill(path, shared=shared)
    before = {one: one.read_bytes() for one in folder.iterdir()}
    folder.chmod(0o555)
    found, refused, told = as_a_user(path, tmp_path / "warm.db", READ)
    assert found == BOTH
    assert refused.startswith("ReadOnlyError memory.db is read-only and can't be changed: the file's permissions")
    if shared:
        assert told == "0"
    else:
        assert told.startswith("1 memory.db: its folder can't be written and a journal beside it holds memories")
    assert {one: one.read_bytes() for one in folder.iterdir()} == before


def test_a_log_is_read_through_a_link(folder, tmp_path):
    """A link to a file in a folder that can't be written hides nothing of what is in the log beside that file."""
    path, link = folder / "memory.db", folder.parent / "links" / "link.db"
    left_by_a_kill(path)
    folder.chmod(0o555)
    link.parent.mkdir()
    link.parent.chmod(0o777)
    link.symlink_to(path)
    found, refused, told = as_a_user(link, tmp_path / "warm.db", READ)
    assert found == BOTH
    assert refused.startswith("ReadOnlyError memory.db is read-only and can't be changed: the file's permissions")
    assert told.startswith("1 memory.db: its folder can't be written and a journal beside it holds memories")


def test_a_write_that_was_cut_off_is_taken_back_where_nothing_can_be_written(folder, tmp_path):
    """A rollback journal that a killed process left is carried out in a copy: no half of a write is read."""
    path, live = folder / "memory.db", folder / "live"
    with MemoryStore(live, embedder="none", journal="delete") as store:
        store.add("the key in the file")
        with store._database.write() as conn:
            conn.execute("UPDATE memories SET text = 'half of a write'")
            much_writing(conn)
            for end in ("", "-journal"):
                shutil.copyfile(f"{live}{end}", f"{path}{end}")
                os.chmod(f"{path}{end}", 0o444)
    live.unlink()
    assert b"half of a write" in path.read_bytes()
    before = {one: one.read_bytes() for one in folder.iterdir()}
    folder.chmod(0o555)
    found, _, told = as_a_user(path, tmp_path / "warm.db", READ)
    assert found == "['the key in the file']"
    assert told.startswith("1 ")
    assert {one: one.read_bytes() for one in folder.iterdir()} == before


def test_a_log_that_may_not_be_read_is_not_passed_over(folder, tmp_path):
    """Where the log of a file may not be read the file is refused: what is in the log would be missing unseen."""
    path = folder / "memory.db"
    left_by_a_kill(path)
    os.chmod(f"{path}-wal", 0o600 if os.geteuid() == 0 else 0o000)
    folder.chmod(0o555)
    code = """
try:
    MemoryStore(path, embedder="none")
except MemstoreError as error:
    print(type(error).__name__, error)
"""
    (said,) = as_a_user(path, tmp_path / "warm.db", code)
    assert said.startswith(f"ReadOnlyError {path} can't be read where it is")
    assert "Permission denied" in said
    assert "copy all of them to a folder of your own" in said


def test_a_store_that_is_read_in_place_sees_what_its_owner_writes(folder, tmp_path):
    """A file read without locks, or from a copy, is read again when its owner has changed it."""
    path = folder / "memory.db"
    with MemoryStore(path, embedder="none") as owner:
        owner.add("the key in the file")
    path.chmod(0o444)
    newer = folder.parent / "newer"
    newer.mkdir(mode=0o755)
    shutil.copyfile(path, newer / "memory.db")
    with MemoryStore(newer / "memory.db", embedder="none") as owner:
        owner.add("the key that came later")
    folder.chmod(0o555)
    code = """
import threading
with MemoryStore(path, embedder="none") as store:
    ask(store)
    print("ready", flush=True)
    sys.stdin.readline()
    ask(store)
    thread = threading.Thread(target=lambda: print(store.count()))
    thread.start()
    thread.join()
    print(len(told))
"""
    command = [sys.executable, "-c", AS_A_USER + code, str(path), str(tmp_path / "warm.db"), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        lines = [reader.stdout.readline().strip() for _ in range(3)]
        assert lines[0] == "['the key in the file']"
        assert lines[2] == "ready"
        folder.chmod(0o755)
        os.replace(newer / "memory.db", path)
        path.chmod(0o444)
        folder.chmod(0o555)
        after = reader.communicate("go on\n", timeout=60)[0].splitlines()
    assert after[0] == "['the key in the file', 'the key that came later']"
    assert after[2:] == ["2", "0"]


MOUNTED = """
set -e
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
exec "${@:2}"
"""


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="only root can mount a disk to be read only",
)
@pytest.mark.parametrize("log", [False, True])
def test_a_file_on_a_disk_that_is_read_only_can_be_searched(folder, tmp_path, log):
    """On a disk mounted to be read only search works, with what is in the log, and a write says what stops it."""
    path = folder / "memory.db"
    if log:
        left_by_a_kill(path)
    else:
        with MemoryStore(path, embedder="none") as store:
            store.add("the key in the file")
    path.chmod(0o644)
    program = AS_A_USER.replace("if os.geteuid() == 0:", "if False:") + READ
    command = [sys.executable, "-c", program, str(path), str(tmp_path / "warm.db"), str(folder.parent / "temporary")]
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", MOUNTED, "bash", str(folder), *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found, refused, *told = done.stdout.splitlines()
    assert found == (BOTH if log else "['the key in the file']")
    assert refused == "ReadOnlyError memory.db is read-only and can't be changed: its disk is mounted to be read only."
    assert told[-1].startswith("1 " if log else "0")
    assert list((folder.parent / "temporary").iterdir()) == []


def test_an_empty_log_hides_nothing(folder, tmp_path):
    """A log of no bytes beside a file is no reason to copy anything."""
    path = folder / "memory.db"
    with MemoryStore(path, embedder="none") as store:
        store.add("the key in the file")
    Path(f"{path}-wal").touch()
    for end in ("", "-wal"):
        os.chmod(f"{path}{end}", 0o444)
    folder.chmod(0o555)
    assert as_a_user(path, tmp_path / "warm.db", READ)[0::2] == ["['the key in the file']", "0"]


def test_a_copy_that_was_read_goes_with_its_process(folder, tmp_path):
    """A store that is never closed leaves no copy of its memories in the temporary folder."""
    path = folder / "memory.db"
    left_by_a_kill(path)
    folder.chmod(0o555)
    code = """
store = MemoryStore(path, embedder="none")
(copied,) = os.listdir(temporary)
print(store.count(), oct(os.stat(os.path.join(temporary, copied)).st_mode))
process = os.fork()
if process == 0:
    print(store.count(), flush=True)
    sys.exit(0)
os.waitpid(process, 0)
print(store.count(), flush=True)
"""
    assert as_a_user(path, tmp_path / "warm.db", code) == ["2 0o40700", "2", "2"]


def test_a_copy_fails_without_remains(path, tmp_path, monkeypatch):
    """A copy that can't be finished leaves no file behind."""
    with MemoryStore(path, embedder="none") as store:
        store.add("a note")
    source = Database(path, read_only=True)
    monkeypatch.setattr(source._opener, "copy_to", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        source.copy(tmp_path / "copy.db")
    source.close()
    assert not (tmp_path / "copy.db").exists()


def test_a_file_that_is_no_longer_read_only_is_written(folder, tmp_path):
    """What reading left beside a file that could only be read does not keep its owner from writing it later."""
    folder.chmod(0o777)
    code = """
with MemoryStore(path, embedder="none") as store:
    store.add("before")
os.chmod(path, 0o444)
reader = MemoryStore(path, embedder="none")
print(len(reader.list()))
# A reader that is killed leaves the log and its index, with the modes of the file.
assert os.path.exists(path + "-shm")
os.chmod(path, 0o600)
with MemoryStore(path, embedder="none") as store:
    store.add("after")
    print(store.count())
reader.close()
"""
    assert as_a_user(folder / "memory.db", tmp_path / "warm.db", code) == ["1", "2"]

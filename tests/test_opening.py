"""How a file is opened and kept: what a commit waits for, which journal it has, how long a lock is waited for."""

import _thread
import contextlib
import functools
import json
import operator
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings

import apsw
import pytest
from click.testing import CliRunner

from memstore import MemoryStore
from memstore.cli.commands import cli
from memstore.database import BUSY_SECONDS, faults
from memstore.errors import BusyError, InvalidInputError, MemstoreError, NotAStoreError, StorageError
from memstore.store import MemoryStore as Store

NORMAL, FULL, EXTRA = 1, 2, 3


def setting(store: Store, name: str):
    return store._database.connection().pragma(name)


def mode_of(path) -> str:
    """Return the journal mode of a file as another program sees it."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return connection.pragma("journal_mode")
    finally:
        connection.close()


@pytest.fixture
def no_shared_memory():
    """A disk on which processes can't share memory, so that no file can be used with a write-ahead log."""
    before = apsw.vfs_names()[0]
    if "unix-dotfile" not in apsw.vfs_names():
        pytest.skip("SQLite has no file system without shared memory on this platform")
    apsw.set_default_vfs("unix-dotfile")
    yield
    apsw.set_default_vfs(before)


@pytest.mark.parametrize(
    ("durability", "journal", "waits"),
    [
        ("normal", "auto", NORMAL),
        ("full", "auto", FULL),
        ("normal", "wal", NORMAL),
        ("normal", "delete", FULL),
        ("full", "delete", EXTRA),
    ],
)
def test_a_commit_waits_for_the_disk_as_asked(opened, durability, journal, waits):
    """Every connection of a store waits for the disk as its durability and journal say, also one of another thread."""
    store = opened(embedder="none", durability=durability, journal=journal)
    found: list[tuple[str, int]] = []
    thread = threading.Thread(
        target=lambda: found.append((setting(store, "journal_mode"), setting(store, "synchronous")))
    )
    thread.start()
    thread.join()
    found.append((setting(store, "journal_mode"), setting(store, "synchronous")))
    assert found == [("delete" if journal == "delete" else "wal", waits)] * 2


@pytest.mark.parametrize("option", [{"durability": "half"}, {"durability": None}, {"journal": "off"}])
def test_an_unknown_durability_or_journal_is_refused(path, option):
    """A durability or journal that does not exist is refused with those that do, and no file is made."""
    with pytest.raises(InvalidInputError, match=r"is unknown; give one of (normal, full|auto, wal, delete)"):
        MemoryStore(path, embedder="none", **option)
    assert not path.exists()


def test_a_file_keeps_a_rollback_journal_that_was_chosen(path):
    """A file that was once opened with a rollback journal has one for everybody, until a log is asked for."""
    with MemoryStore(path, embedder="none", journal="delete") as store:
        store.add("on a network drive")
    with MemoryStore(path, embedder="none") as store:
        store.add("by someone who does not know of the drive")
        assert setting(store, "journal_mode") == "delete"
        assert not path.with_name(path.name + "-wal").exists()
    with MemoryStore(path, embedder="none", journal="wal") as store:
        assert setting(store, "journal_mode") == "wal"
    with MemoryStore(path, embedder="none") as store:
        assert setting(store, "journal_mode") == "wal"
        assert store.count() == 2


def test_a_rollback_journal_can_be_chosen_for_a_file_that_has_a_log(path):
    """A file with a log gets a rollback journal when it is opened with one, with all that was in the log."""
    with MemoryStore(path, embedder="none") as store:
        store.add("made with a log")
    with MemoryStore(path, embedder="none", journal="delete") as store:
        assert [memory.text for memory in store.list()] == ["made with a log"]
        assert setting(store, "journal_mode") == "delete"
    assert mode_of(path) == "delete"


def test_a_log_that_others_use_is_not_left(path, monkeypatch):
    """While another store has the file open with a log, a rollback journal is refused; the sentence says why."""
    monkeypatch.setattr(faults, "BUSY_SECONDS", 0.1)
    with MemoryStore(path, embedder="none") as store:
        with pytest.raises(BusyError, match=r"is open elsewhere with a write-ahead log, .*; close it there first"):
            MemoryStore(path, embedder="none", journal="delete")
        store.add("goes on")
        assert store.count() == 1


@pytest.mark.parametrize("refusal", ["answer", "locking protocol", "shared memory"])
def test_a_disk_that_refuses_a_log_gets_a_rollback_journal(path, monkeypatch, refusal):
    """Where the disk refuses a write-ahead log the store works without one, every commit waits, and it warns once."""
    asked: list[str] = []

    class Refusing(apsw.Connection):
        def pragma(self, name, value=None, **rest):
            if name == "journal_mode" and value == "wal":
                asked.append(refusal)
                if refusal == "locking protocol":
                    raise apsw.ProtocolError("locking protocol")
                if refusal == "shared memory":
                    raise apsw.IOError("disk I/O error")
                return "delete"
            return super().pragma(name, value, **rest) if value is not None else super().pragma(name, **rest)

    monkeypatch.setattr("memstore.database.opening.apsw.Connection", Refusing)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with MemoryStore(path, embedder="none") as store:
            threads = [threading.Thread(target=store.add, args=(f"note {number}",)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert store.count() == 4
            assert (setting(store, "journal_mode"), setting(store, "synchronous")) == ("delete", FULL)
    assert asked
    assert [str(one.message) for one in told] == [
        "memory.db: this disk can't hold a write-ahead log, so a rollback journal is used; readers wait for writers."
    ]


@pytest.mark.usefixtures("no_shared_memory")
def test_a_log_that_was_asked_for_and_is_refused_is_an_error(path):
    """With journal="wal" a disk that refuses it is an error, which names the remedy; with "auto" it is none."""
    with pytest.raises(StorageError, match=r"can't hold a write-ahead log; leave out journal='wal', or move the file"):
        MemoryStore(path, embedder="none", journal="wal")
    with pytest.warns(UserWarning, match="can't hold a write-ahead log"):
        MemoryStore(path, embedder="none").close()
    assert mode_of(path) == "delete"


def test_a_file_with_a_log_opens_on_a_disk_that_refuses_one(path, request):
    """A file made with a log, and what a killed process left in it, is there on a disk that can't hold a log."""
    with MemoryStore(path, embedder="none") as store:
        store.add("in the file")
        store._database.connection().pragma("wal_checkpoint", "TRUNCATE")
        store.add("in the log alone")
        left = path.with_name("left.db")
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", f"{left}{end}")
    request.getfixturevalue("no_shared_memory")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with MemoryStore(left, embedder="none") as store:
            store.add("a third")
            assert sorted(memory.text for memory in store.list()) == ["a third", "in the file", "in the log alone"]
            assert (setting(store, "journal_mode"), setting(store, "synchronous")) == ("delete", FULL)
    assert [re.sub(":.*log,", "", str(one.message)) for one in told] == [
        "left.db so a rollback journal is used; readers wait for writers."
    ]


def test_a_writer_that_waits_too_long_says_how_long(path, monkeypatch):
    """A write that can't get the lock gives up after the wait with an error that names it; nothing was written."""
    with MemoryStore(path, embedder="none") as holder, MemoryStore(path, embedder="none") as waiter:
        waiter.add("what the words are analysed with is loaded")
        monkeypatch.setattr(faults, "BUSY_SECONDS", 1.0)
        with holder._database.write():
            with pytest.raises(BusyError, match=r"memory\.db was locked by another process for more than 1 second"):
                waiter.add("too late")
            # Readers do not wait for a writer.
            assert waiter.count() == 1
        waiter.add("in time")
        assert holder.count() == 2
    assert BUSY_SECONDS == 15


def test_a_writer_gets_a_lock_that_is_freed_in_time(path):
    """A write that has to wait for another goes on as soon as that one is done."""
    with MemoryStore(path, embedder="none") as holder, MemoryStore(path, embedder="none") as waiter:
        held, free = threading.Event(), threading.Event()

        def hold():
            with holder._database.write() as conn:
                held.set()
                free.wait(30)
                conn.execute("UPDATE memories SET text = text")

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(30)
        threading.Timer(0.3, free.set).start()
        waiter.add("after the other")
        thread.join()
        assert holder.count() == 1


def test_no_read_writes(opened):
    """What is done in a read transaction changes nothing: every write is in a transaction that began as one."""
    store = opened(embedder="none")
    first = store.add("Ana pagou a fatura ERR-4018", author="Ana", thread="t", tags=["a"], metadata={"paid": True})
    connection = store._database.connection()
    statements: list[tuple[str, bool]] = []

    def seen(cursor, sql, _):
        statements.append((sql, cursor.is_readonly))
        return True

    connection.exec_trace = seen
    store.search("fatura ERR-4018", k=3)
    store.context("fatura")
    store.list()
    store.get(first.id)
    store.stats()
    store.entities()
    store.spaces.list()
    store.terms.list()
    store.profiles.list()
    store.sparse_vector(first.id)
    store.sparse_query("fatura")
    store.add("a second", tags=["b"], replaces=first.id)
    store.update(first.id, text="a third", expires_at="2099-01-01")
    store.terms.add("Transportadora Rapidão", aliases=["TR"])
    store.profiles.save("mine", {"keyword": 1.0})
    store.mark_used(first.id)
    store.delete(first.id)
    writing = False
    changes = []
    for sql, readonly in statements:
        writing = sql == "BEGIN IMMEDIATE" or (writing and sql not in ("COMMIT", "ROLLBACK"))
        if not readonly and sql not in ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"):
            changes.append(sql)
            assert writing, sql
    assert len(changes) > 10


@pytest.mark.parametrize("begun", ["write", "read"])
@pytest.mark.parametrize("after", range(1, 9))
def test_an_interruption_while_a_transaction_begins_leaves_none_open(words, begun, after):
    """Control-C at any step of the statement that begins a transaction leaves the store as it was: it goes on."""
    words.add("the first")
    connection = words._database.connection()

    # Once, and by no code of Python's, which would be interrupted itself.
    interrupt = functools.partial(next, map(operator.is_, map(_thread.interrupt_main, [signal.SIGINT]), [True]), False)

    def traced(_cursor, sql, _values):
        if sql.startswith("BEGIN"):
            connection.set_progress_handler(interrupt, after)
        return True

    connection.exec_trace = traced
    # It may come later, or not at all, where the statement has fewer steps.
    with contextlib.suppress(KeyboardInterrupt), getattr(words._database, begun)():
        pass
    connection.exec_trace = None
    connection.set_progress_handler(None)
    assert not connection.in_transaction
    words.add("the second")
    assert words.count() == 2


def test_a_connection_that_is_parted_with_is_not_kept(words, monkeypatch):
    """A thread that opens its connection anew, since a file read in place has changed, leaves nothing of the last."""
    monkeypatch.setattr(words._database._opener, "out_of_date", lambda: True)
    for _ in range(5):
        words.count()
    assert len(words._database._connections._opened) == 1


def test_a_link_is_the_file_that_it_leads_to(tmp_path):
    """A link stands for its file, also while that is not made yet; one that leads nowhere at all is our error."""
    (tmp_path / "far").mkdir()
    file, link, circle = tmp_path / "far" / "memory.db", tmp_path / "link.db", tmp_path / "circle.db"
    link.symlink_to(file)
    circle.symlink_to(circle)
    with MemoryStore(link, embedder="none") as store:
        store.add("in the file")
        assert store._database.size() == sum(file.with_name(f"memory.db{end}").stat().st_size for end in ("", "-wal"))
    with MemoryStore(file, embedder="none") as store:
        assert store.count() == 1
    with pytest.raises(NotAStoreError, match=r"circle\.db is a link that leads back to itself; name the file"):
        MemoryStore(circle, embedder="none")


ERRORS = sorted(
    (one for one in vars(apsw).values() if isinstance(one, type) and issubclass(one, apsw.Error)),
    key=lambda one: one.__name__,
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda one: one.__name__)
def test_each_error_of_the_driver_is_one_sentence(path, error):
    """Whatever SQLite refuses is an error of memstore's that names the file and what to do, and keeps its cause."""
    with pytest.raises(MemstoreError) as caught, faults.translated(path):
        raise error("what SQLite says")
    said = str(caught.value)
    assert path.name in said
    assert said.endswith(".")
    assert re.search(r"; |\. [A-Z]", said)
    assert isinstance(caught.value.__cause__, error)


@pytest.mark.parametrize(
    ("code", "telling"),
    [
        (apsw.SQLITE_IOERR_SHMMAP, r"locks of this disk do not work .*SQLITE_IOERR_SHMMAP.*journal='delete'"),
        (apsw.SQLITE_IOERR_LOCK, r"locks of this disk do not work .*SQLITE_IOERR_LOCK"),
        (apsw.SQLITE_IOERR_WRITE, r"the disk failed \(.*SQLITE_IOERR_WRITE\); nothing of this write was kept"),
        (apsw.SQLITE_IOERR_FSYNC, r"the disk failed .*memstore doctor --db memory\.db"),
    ],
)
def test_a_failure_of_the_disk_says_which(path, code, telling):
    """An input or output error names what exactly failed, and tells locks that do not work from a disk that fails."""
    with pytest.raises(StorageError, match=telling), faults.translated(path):
        raise apsw.exception_for(code)


def test_a_damaged_file_names_its_remedies(path):
    """A file whose pages were overwritten is an error that names doctor, salvage and backups."""
    with MemoryStore(path, embedder="none") as store:
        for number in range(50):
            store.add(f"note {number} " + "words " * 50)
    data = bytearray(path.read_bytes())
    data[4096 * 2 :] = b"\x5a" * (len(data) - 4096 * 2)
    path.write_bytes(data)
    with pytest.raises(MemstoreError, match=r"is damaged .*memstore doctor --db .*memstore salvage .*backup"):
        MemoryStore(path, embedder="none").list()


def test_a_full_disk_leaves_what_was_there(words):
    """A write for which there is no room is one clear error; what was there stays, and with room it goes on."""
    words.add("the first note")
    connection = words._database.connection()
    pages = connection.pragma("page_count")
    connection.pragma("max_page_count", pages)
    with pytest.raises(StorageError, match=r"the disk is full; nothing of this write was kept\. Free some space"):
        words.add("the second note " + "with very many words " * 20_000)
    assert [memory.text for memory in words.list()] == ["the first note"]
    connection.pragma("max_page_count", 1 << 30)
    words.add("the third note")
    assert words.count() == 2


@pytest.mark.usefixtures("no_shared_memory")
def test_the_command_line_chooses_durability_and_journal(path):
    """--durability and --journal reach the file; what is told of the disk goes to standard error, or nowhere."""
    run = CliRunner()
    wanted = ["--db", str(path), "--embedder", "none", "--json"]
    done = run.invoke(cli, ["add", "a note", *wanted, "--durability", "full"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["outcome"] == "added"
    assert done.stderr.splitlines() == [
        "memory.db: this disk can't hold a write-ahead log, so a rollback journal is used; readers wait for writers."
    ]
    quiet = run.invoke(cli, ["stats", *wanted, "--quiet"])
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    chosen = run.invoke(cli, ["stats", *wanted, "--journal", "delete"])
    assert (chosen.exit_code, chosen.stderr) == (0, "")
    refused = run.invoke(cli, ["stats", *wanted, "--journal", "off"])
    assert refused.exit_code == 2


RACING = """
import sys, time, warnings
from memstore import MemoryStore
from memstore.errors import NotAStoreError

warnings.simplefilter("error")
path, read_only, start = sys.argv[1], sys.argv[2] == "reads", float(sys.argv[3])
time.sleep(max(0, start - time.time()))
for _ in range(30 if read_only else 1):
    try:
        with MemoryStore(path, embedder="none", read_only=read_only) as store:
            if read_only:
                store.count()
            else:
                store.add("a note of " + sys.argv[4])
    except NotAStoreError as error:
        assert read_only and ("does not exist" in str(error) or "is empty" in str(error)), error
"""


def test_readers_that_race_with_the_making_of_a_file_do_no_harm(path):
    """A file that is made by four processes while two others open it to read it is made once, whole."""
    start = time.time() + 3
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RACING, str(path), "reads" if number > 3 else "writes", str(start), str(number)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(6)
    ]
    assert [(one.communicate(timeout=120)[1], one.returncode) for one in started] == [("", 0)] * 6
    with MemoryStore(path, embedder="none") as store:
        assert store.count() == 4

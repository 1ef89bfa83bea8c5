"""Upgrades: a file of every released schema opens whole, a copy is kept, and what fails or is killed does no harm."""

import io
import json
import multiprocessing
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import warnings
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from fixtures.make import MEMORIES, embedders
from test_consistency import assert_entities_consistent, assert_keywords_consistent

from memstore import (
    DamagedStoreError,
    MemoryStore,
    NewerSchemaError,
    NotAStoreError,
    ReadOnlyError,
    StorageError,
    memories,
)
from memstore.cli import cli
from memstore.database import SCHEMA_VERSION, automatic_backups, migrations
from memstore.database.migrations import MIGRATIONS, Migration

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("schema-*.db"))
OLD = [path for path in FIXTURES if path.stem != f"schema-{SCHEMA_VERSION}"]
OLDEST = min(int(path.stem.partition("-")[2]) for path in FIXTURES)
SPAWN = multiprocessing.get_context("spawn")
every_fixture = pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
every_old_fixture = pytest.mark.parametrize("fixture", OLD, ids=lambda path: path.stem)
# A Python that does something to the migration before it opens a file.
KILLED = """
import os, signal, sys, warnings
from memstore import MemoryStore
from memstore.database import SCHEMA_VERSION, migrations
def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
{}
MemoryStore(sys.argv[1], embedder="none")
"""


def taken(fixture: Path, path: Path) -> Path:
    """Copy a fixture, which no test opens itself."""
    shutil.copyfile(fixture, path)
    return path


def upgraded(path: Path, **options) -> MemoryStore:
    """Open a file of any schema; that it was brought to another is told elsewhere."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* was brought from schema")
        return MemoryStore(path, **options)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def asked(path: Path, sql: str) -> list[tuple]:
    """Return what SQLite itself reads from a file; from a copy, since reading leaves a log beside what it reads."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        for end in ("", "-wal"):
            if Path(f"{path}{end}").exists():
                shutil.copyfile(f"{path}{end}", f"{copy}{end}")
        with closing(apsw.Connection(str(copy))) as conn:
            return conn.execute(sql).fetchall()


def changed(path: Path, sql: str, *values) -> Path:
    """Change a file behind the program's back, and leave nothing in its log."""
    with closing(apsw.Connection(str(path))) as conn:
        conn.execute(sql, values)
        conn.pragma("wal_checkpoint", "TRUNCATE")
    return path


def schema_of(path: Path) -> dict[str, str]:
    """Return the DDL of a file by the names in it, without white space and comments."""
    rows = asked(
        path, "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'vectors\\_%' ESCAPE '\\'"
    )
    return {name: re.sub(r"--[^\n]*|\s+", "", sql) for name, sql in rows}


def exported(store: MemoryStore) -> list[dict]:
    lines = io.StringIO()
    store.export(lines)
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def assert_whole(store: MemoryStore, fixture: Path) -> None:
    """Compare a store with what the code that made the fixture read from it; later code may know more fields."""
    before = [json.loads(line) for line in fixture.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()]
    found = exported(store)
    assert [{name: one.get(name) for name in old} for old, one in zip(before, found, strict=True)] == before


def test_there_is_a_fixture_of_every_schema():
    """A file of each schema from the first released one to the current is kept, with what is to be read from it."""
    assert [path.stem for path in FIXTURES] == [f"schema-{one}" for one in range(OLDEST, SCHEMA_VERSION + 1)]
    assert sorted(MIGRATIONS) == list(range(OLDEST + 1, SCHEMA_VERSION + 1))
    for path in FIXTURES:
        assert asked(path, "SELECT value FROM meta WHERE key = 'schema'") == [(path.stem[7:],)]
        assert path.stat().st_size < 300_000
        assert path.with_suffix(".jsonl").stat().st_size > 1_000


@every_fixture
def test_every_field_is_read(fixture, path):
    """Every memory, known term and profile of an old file is read, field by field, as its own code read it."""
    with upgraded(taken(fixture, path), embedder=embedders()) as store:
        assert_whole(store, fixture)
        by_text = {new.text: new for new in MEMORIES}
        found = [one for one in store.list(limit=100, order="oldest", superseded=True) if one.text in by_text]
        assert len(found) == len(MEMORIES)
        for one in found:
            new = by_text[one.text]
            assert (one.key, one.namespace, one.author, one.thread) == (new.key, new.namespace, new.author, new.thread)
            assert one.tags == tuple(sorted(new.tags))
            assert one.metadata == (new.metadata or {})
            assert (one.pinned, one.replaces) == (new.pinned, new.replaces)
            assert set(new.entities) <= {entity.name for entity in one.entities}
        assert store.get(3).replaced_by == (4,)
        assert [store.get(6).uses, store.get(1).uses, store.get(2).uses] == [1, 2, 0]
        assert [(one.name, one.aliases) for one in store.terms.list()] == [("PagBank", ("Pag Bank", "PagSeguro"))]
        stats = store.stats()
        assert (stats.schema, stats.memories, stats.expired, stats.stale) == (SCHEMA_VERSION, 11, 1, 0)
        assert [(one.name, one.vectors, one.pending, one.languages) for one in stats.spaces] == [
            ("letters", 14, 2, ()),
            ("fewer", 14, 2, ("en",)),
        ]


@every_fixture
def test_every_signal_finds(fixture, path):
    """Words, neighbours, names, known terms and the vectors of each space of an old file are searched."""
    with upgraded(taken(fixture, path), embedder=embedders()) as store:
        found = store.search("does ERR-4018 mean the card has expired?")
        assert (found[0].memory.key, set(found.used)) == ("err-4018", {"keyword", "letters", "fewer", "entity"})
        assert not found.skipped
        assert not found.notices
        assert store.search("blue pot", signals=["keyword"])[0].memory.id == 6
        assert any(hit.neighbour_terms for hit in store.search("spare key", k=10))
        assert store.search("informacao que falta", k=1, signals=["keyword"])[0].memory.id == 8
        assert [one.id for one in store.mentions("Projeto X")] == [8]
        assert [one.id for one in store.mentions("Pag Bank")] == [2]
        for space in ("letters", "fewer"):
            found = store.search("A reunião passou para segunda-feira.", k=1, signals=[space])
            assert found[0].memory.id == 4
            assert found[0].signals[space].raw == pytest.approx(1.0, abs=1e-6)
        assert store.search("card", profile="mine")[0].signals["keyword"].weight > 0.5
        assert store.sparse_query("card expired").dot(store.sparse_vector(1)) > 0


@every_fixture
def test_an_old_file_is_written_to(fixture, path):
    """An old file takes memories, changes and deletions, keeps its ids, and all of its indexes agree after them."""
    numbers = dict(asked(fixture, "SELECT term, id FROM vocabulary"))
    last = asked(fixture, "SELECT seq FROM sqlite_sequence WHERE name = 'memories'")[0][0]
    with upgraded(taken(fixture, path), embedder=embedders()) as store:
        added = store.add("Beto moved the spare key", thread="talk", author="Beto")
        assert added.id == last + 1
        store.update(1, text="ERR-4018 means that the card is blocked", tags=["payments"])
        store.delete(9)
        store.spaces.fill()
        stats = store.stats()
        assert (stats.expired, stats.pending, stats.stale) == (0, 0, 0)
        assert store.search("blocked card", k=1)[0].memory.id == 1
        with store._database.read() as conn:
            ids = [one for (one,) in conn.execute("SELECT id FROM memories ORDER BY id")]
            rows = {one: memories.get(conn, one) for one in ids}
            assert_keywords_consistent(conn, rows)
            assert_entities_consistent(conn, rows, store)
            assert conn.execute("SELECT id, row_hash FROM memories ORDER BY id").fetchall() == [
                (one, row.row_hash) for one, row in rows.items()
            ]
        vector = store.sparse_vector(3)
        assert not set(vector.indices) - set(dict(asked(path, "SELECT id, term FROM vocabulary")))
    assert numbers.items() <= dict(asked(path, "SELECT term, id FROM vocabulary")).items()
    assert asked(path, "PRAGMA integrity_check") == [("ok",)]


@every_fixture
def test_an_old_file_gets_the_schema_of_a_new_one(fixture, path, tmp_path):
    """A migrated file has the very tables, columns, indexes and triggers of a file that is made now."""
    upgraded(taken(fixture, path), embedder="none").close()
    with MemoryStore(tmp_path / "new.db", embedder="none"):
        pass
    assert schema_of(path) == schema_of(tmp_path / "new.db")


def test_every_migration_says_what_it_is_for():
    """Each step has a name of its own and a reason, in one line each."""
    steps = [one for number in sorted(MIGRATIONS) for one in MIGRATIONS[number]]
    assert len({one.name for one in steps}) == len(steps)
    assert all("\n" not in f"{one.name}{one.why}" and one.why for one in steps)


@every_old_fixture
def test_the_file_as_it_was_is_kept(fixture, path, tmp_path):
    """A copy is made before anything is changed, readable by its owner alone, sound, and told of once."""
    taken(fixture, path).chmod(0o644)
    with pytest.warns(UserWarning, match="was brought from schema") as told:
        MemoryStore(path, embedder="none").close()
    (backup,) = automatic_backups(path)
    assert [str(one.message) for one in told if str(backup) in str(one.message)]
    assert len(told) == 1
    assert ".before-schema-" in backup.name
    if os.name == "posix":
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert asked(backup, "SELECT value FROM meta WHERE key = 'schema'") == [(fixture.stem[7:],)]
    assert asked(backup, "PRAGMA integrity_check") == [("ok",)]
    with upgraded(taken(backup, tmp_path / "copy.db"), embedder="none") as store:
        assert_whole(store, fixture)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MemoryStore(path, embedder="none").close()
    assert automatic_backups(path) == [backup]


@every_old_fixture
def test_what_waits_in_the_log_is_brought_along(fixture, path, tmp_path):
    """Commits of an old file that are in its log alone are in the migrated file, and in the copy of the old one."""
    source = taken(fixture, tmp_path / "source.db")
    with closing(apsw.Connection(str(source))) as conn:
        conn.wal_autocheckpoint(0)
        conn.execute("INSERT INTO profiles VALUES ('late', '{\"keyword\": 1.0}')")
        for end in ("", "-wal"):
            shutil.copyfile(f"{source}{end}", f"{path}{end}")
    upgraded(path, embedder="none").close()
    for one in (path, *automatic_backups(path)):
        assert ("late",) in asked(one, "SELECT name FROM profiles")


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 999])
def test_a_newer_file_is_refused_untouched(path, version):
    """A file of a later schema is refused with what to do, and neither it nor its folder changes."""
    changed(taken(FIXTURES[-1], path), "UPDATE meta SET value = ? WHERE key = 'schema'", str(version))
    before = contents(path.parent)
    with pytest.raises(NewerSchemaError, match=rf"has schema {version} .* up to {SCHEMA_VERSION}; upgrade memstore"):
        MemoryStore(path, embedder="none")
    assert contents(path.parent) == before


@pytest.mark.parametrize("version", range(1, OLDEST))
def test_a_file_from_before_the_first_release_is_refused_untouched(path, version):
    """There is no way from schemas that were never released: such a file is refused, and no copy is made."""
    changed(taken(FIXTURES[0], path), "UPDATE meta SET value = ? WHERE key = 'schema'", str(version))
    before = contents(path.parent)
    with pytest.raises(NotAStoreError, match=f"has schema {version}, from before the first release"):
        MemoryStore(path, embedder="none")
    assert contents(path.parent) == before


@pytest.mark.parametrize("said", ["garbage", "", "0", "-5", " 6", "6.0", "٦", "1_0", "9" * 5_000, None])
def test_a_file_that_does_not_say_its_schema_is_refused_untouched(path, said):
    """Where the schema is no number, or is not said, the file is damaged, and nothing is tried on it."""
    if said is None:
        changed(taken(FIXTURES[0], path), "DELETE FROM meta WHERE key = 'schema'")
    else:
        changed(taken(FIXTURES[0], path), "UPDATE meta SET value = ? WHERE key = 'schema'", said)
    before = contents(path.parent)
    with pytest.raises(DamagedStoreError, match="does not say which schema it has"):
        MemoryStore(path, embedder="none")
    assert contents(path.parent) == before


@every_old_fixture
def test_an_old_file_that_is_only_read_asks_to_be_opened_once_for_writing(fixture, path):
    """Reading alone changes nothing: an old file says that it must be written once, and can be read after that."""
    taken(fixture, path)
    before = path.read_bytes()
    with pytest.raises(ReadOnlyError, match=r"has schema .* read_only=True; open it, .* once for writing"):
        MemoryStore(path, embedder="none", read_only=True)
    assert path.read_bytes() == before
    assert not automatic_backups(path)
    upgraded(path, embedder="none").close()
    with MemoryStore(path, embedder="none", read_only=True) as store:
        assert_whole(store, fixture)


def run_killed(path: Path, preparation: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(preparation), str(path)], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.skipif(os.name != "posix", reason="this platform has no SIGKILL")
@pytest.mark.parametrize(
    "preparation",
    [
        "last = migrations.Migration(name='', why='', step=kill)\n"
        "steps = migrations.MIGRATIONS\n"
        "migrations.MIGRATIONS = {**steps, SCHEMA_VERSION: (*steps[SCHEMA_VERSION], last)}",
        "copy = migrations._copy\nmigrations._copy = lambda *given: (copy(*given), kill())",
        "migrations._keep_name = kill",
        "warnings.warn = kill",
    ],
    ids=["in the last step", "in the copy", "before the steps", "after the steps"],
)
@every_old_fixture
def test_a_killed_migration_leaves_a_whole_file(fixture, path, preparation):
    """Killed at any moment the file is of the old schema or of the new one, whole, and the next opening finishes."""
    taken(fixture, path)
    run_killed(path, preparation)
    (version,) = asked(path, "SELECT value FROM meta WHERE key = 'schema'")
    assert version == ((str(SCHEMA_VERSION) if "warn" in preparation else fixture.stem[7:]),)
    assert asked(path, "PRAGMA integrity_check") == [("ok",)]
    with upgraded(path, embedder=embedders()) as store:
        assert_whole(store, fixture)
        store.add("it is written to again")
    for backup in automatic_backups(path):
        assert asked(backup, "SELECT value FROM meta WHERE key = 'schema'") == [(fixture.stem[7:],)]
    assert automatic_backups(path)
    assert set(path.parent.iterdir()) == {path, *automatic_backups(path)}


def failing_last(monkeypatch, step) -> None:
    steps = (*MIGRATIONS[SCHEMA_VERSION], Migration(name="fails", why="a test", step=step))
    monkeypatch.setattr(migrations, "MIGRATIONS", {**MIGRATIONS, SCHEMA_VERSION: steps})


@every_old_fixture
def test_a_disk_that_fills_in_a_migration_leaves_the_old_file(fixture, path, monkeypatch):
    """Without room for the new tables the file stays as it was, says so, leaves no copy behind, and works with room."""
    taken(fixture, path)
    before = contents(path.parent)

    def fill(conn: apsw.Connection) -> None:
        conn.pragma("max_page_count", conn.pragma("page_count"))
        conn.execute("CREATE TABLE big AS SELECT randomblob(1000000) AS bytes")

    with monkeypatch.context() as patched:
        failing_last(patched, fill)
        with pytest.raises(StorageError, match="the disk is full"):
            MemoryStore(path, embedder="none")
    assert contents(path.parent) == before
    with upgraded(path, embedder="none") as store:
        assert_whole(store, fixture)


@every_old_fixture
def test_a_step_that_is_interrupted_takes_all_steps_back(fixture, path, monkeypatch):
    """An interruption between two steps takes the whole migration back."""
    taken(fixture, path)

    def interrupted(_: apsw.Connection) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        failing_last(patched, interrupted)
        with pytest.raises(KeyboardInterrupt):
            MemoryStore(path, embedder="none")
    assert asked(path, "SELECT value FROM meta WHERE key = 'schema'") == [(fixture.stem[7:],)]
    assert not automatic_backups(path)


@every_old_fixture
def test_without_a_copy_nothing_is_migrated(fixture, tmp_path):
    """Where no copy can be made beside the file (here its name would be too long) the file is left as it is."""
    path = taken(fixture, tmp_path / f"{'m' * 220}.db")
    before = contents(tmp_path)
    with pytest.raises(StorageError, match=r"no copy of it could be made first \(.*\); make room .* was not changed"):
        MemoryStore(path, embedder="none")
    assert contents(tmp_path) == before


@pytest.mark.skipif(os.name != "posix", reason="this platform has no limit of a file's size")
@every_old_fixture
def test_a_copy_that_does_not_fit_is_no_copy(fixture, path):
    """Where the disk ends in the middle of the copy the file is left as it is, and no half copy beside it."""
    taken(fixture, path)
    before = contents(path.parent)
    code = (
        "import resource, signal, sys\n"
        "from memstore import MemoryStore, StorageError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    MemoryStore(sys.argv[1], embedder='none')\n"
        "except StorageError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert "no copy of it could be made first" in done.stdout
    assert contents(path.parent) == before


@every_old_fixture
def test_a_damaged_old_file_is_not_migrated(fixture, path):
    """A file whose pages SQLite finds damaged is left as it is: a copy of damage is no backup."""
    taken(fixture, path)
    page = asked(path, "SELECT rootpage FROM sqlite_schema WHERE name = 'memories'")[0][0]
    size = asked(path, "PRAGMA page_size")[0][0]
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 64)
    before = contents(path.parent)
    with pytest.raises(DamagedStoreError, match=r"since it is damaged \(.*memstore salvage"):
        MemoryStore(path, embedder="none")
    assert contents(path.parent) == before


def open_at_once(path: Path, barrier) -> None:
    barrier.wait()
    with upgraded(path, embedder="none") as store:
        store.add(f"process {os.getpid()} was here")


@every_old_fixture
def test_processes_that_open_an_old_file_at_once_migrate_it_once(fixture, path):
    """Of several processes that open an old file one migrates it and makes the one copy; the others see the new one."""
    taken(fixture, path)
    barrier = SPAWN.Barrier(4)
    started = [SPAWN.Process(target=open_at_once, args=(path, barrier)) for _ in range(4)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * 4
    assert len(automatic_backups(path)) == 1
    with MemoryStore(path, embedder="none") as store:
        assert store.count() == 10 + 4


def test_a_newer_process_that_was_faster_is_not_written_over(path, monkeypatch):
    """When a later memstore migrates the file while this one waits for it, the file is refused as a newer one."""
    taken(FIXTURES[0], path)
    first = migrations._known_version

    def overtaken(connection: apsw.Connection, file: Path) -> int:
        monkeypatch.setattr(migrations, "_known_version", first)
        version = first(connection, file)
        changed(path, "UPDATE meta SET value = '99' WHERE key = 'schema'")
        return version

    monkeypatch.setattr(migrations, "_known_version", overtaken)
    with pytest.raises(NewerSchemaError, match="has schema 99"):
        MemoryStore(path, embedder="none")
    assert not automatic_backups(path)


@every_old_fixture
def test_the_command_line_tells_of_the_copy_in_a_notice(fixture, path, capsys):
    """A command on an old file says on standard error where the copy is, and nothing with --quiet."""
    taken(fixture, path)
    cli.main(["stats", "--db", str(path), "--embedder", "none", "--json"], standalone_mode=False)
    told = capsys.readouterr()
    (backup,) = automatic_backups(path)
    assert json.loads(told.out)["schema"] == SCHEMA_VERSION
    assert told.err.startswith(f"{path.name} was brought from schema")
    assert str(backup) in told.err
    taken(fixture, path)
    cli.main(["stats", "--db", str(path), "--embedder", "none", "--quiet"], standalone_mode=False)
    assert capsys.readouterr().err == ""

"""A disk that is full in the middle of a write: a clear error, everything before it intact, and on with space."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import FakeEmbedder
from soundness import sound

from memstore import MemoryStore, NewMemory, StorageError

FIXTURES = Path(__file__).parent / "fixtures"
FULL = "the disk is full"


def note(number: int) -> NewMemory:
    """Return a memory whose words no other has, so that each makes the file grow."""
    words = " ".join(f"word{number}x{n}" for n in range(20))
    return NewMemory(text=f"Maria da Silva wrote note {number}: {words}", thread="talk", author="Ana", tags=["a"])


def fields(store: MemoryStore) -> list[tuple]:
    there = store.list(limit=10_000, order="oldest")
    return [(one.id, one.text, one.tags, one.author, one.position, one.updated_at) for one in there]


@contextmanager
def limited(store: MemoryStore, pages: int) -> Iterator[None]:
    """Let the file grow by so many pages and no more, as on a disk that is almost full."""
    connection = store._database.connection()
    connection.pragma("max_page_count", connection.pragma("page_count") + pages)
    try:
        yield
    finally:
        connection.pragma("max_page_count", 1 << 30)


def refused(write: Callable[[], object]) -> bool:
    """Say whether a write finds the disk full."""
    try:
        write()
    except StorageError as error:
        if FULL not in str(error):
            raise
        return True
    return False


def assert_sound(path: Path, dimensions: int = 8) -> None:
    assert sound(path, {"fake": FakeEmbedder(dimensions).vector}) == []


@pytest.mark.parametrize("pages", [0, 3, 20, 60, 150])
def test_many_that_do_not_fit_are_there_in_whole_batches(fake, path, pages):
    """Where there is no room for all of many, whole batches of them are there and the rest can be added later."""
    fake.add_many([note(number) for number in range(10)])
    before = fields(fake)
    news = [note(number) for number in range(10, 310)]
    with limited(fake, pages), pytest.raises(StorageError, match=FULL):
        fake.add_many(news)
    after = fields(fake)
    assert after[:10] == before
    assert len(after[10:]) % 64 == 0
    assert [text for _, text, *_ in after[10:]] == [new.text for new in news[: len(after) - 10]]
    assert_sound(path)
    assert len(fake.search("word3x7", k=1, signals=["keyword"])) == 1
    fake.add_many(news)
    assert fake.count() == 310
    assert_sound(path)


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.add(" ".join(f"new{n}" for n in range(5_000))),
        lambda store: store.update(3, text=" ".join(f"new{n}" for n in range(5_000))),
        lambda store: store.import_jsonl(['{"text": "' + " ".join(f"new{n}" for n in range(5_000)) + '"}']),
        lambda store: store.terms.add_many([]) or store.add(" ".join(f"Maria{n} Silva{n}" for n in range(2_000))),
        lambda store: store.spaces.add(FakeEmbedder(1_024, model_id="wide"), name="wide") and store.spaces.fill("wide"),
        lambda store: store.maintenance.reindex(languages=["en"]),
    ],
    ids=["add", "update", "import", "entities", "fill", "reindex"],
)
def test_a_write_that_does_not_fit_leaves_all_as_it_was(fake, path, write):
    """What there is no room for is refused in one sentence, nothing else is changed, and with room it goes through."""
    fake.add_many([note(number) for number in range(70)])
    before = fields(fake)
    with limited(fake, 0), pytest.raises(StorageError, match=FULL):
        write(fake)
    assert fields(fake) == before
    assert_sound(path)
    write(fake)
    assert_sound(path)


def test_vectors_that_do_not_fit_wait_for_room(opened, path):
    """Filling that ends on a full disk keeps the batches before, and goes on where it stopped once there is room."""
    store = opened(embedder=FakeEmbedder(1_024))
    store.add(note(0).text)
    store.add_many([note(number) for number in range(1, 400)], embed="later")
    before = fields(store)
    done: list[int] = []
    # A thousand vectors share a block that is there with the first: what grows are the notes of them.
    with limited(store, 5), pytest.raises(StorageError, match=FULL):
        store.spaces.fill(progress=lambda number, _: done.append(number))
    (space,) = store.spaces.list()
    assert done
    assert space.vectors >= done[-1]
    assert space.pending > 0
    assert fields(store) == before
    assert_sound(path, 1_024)
    store.spaces.fill()
    (space,) = store.spaces.list()
    assert (space.vectors, space.pending) == (400, 0)
    assert_sound(path, 1_024)


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A disk of sixteen megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("a small disk is mounted by root on Linux alone")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk can't be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def filled(small_disk) -> Callable[[int], Path]:
    """Fill the small disk but for some bytes; return what fills it."""

    def filled(left: int = 0) -> Path:
        ballast = small_disk / "ballast"
        ballast.unlink(missing_ok=True)
        disk = os.statvfs(small_disk)
        ballast.write_bytes(bytes(max(0, disk.f_bavail * disk.f_frsize - left)))
        return ballast

    return filled


@pytest.mark.parametrize("left", [0, 60_000, 200_000])
def test_a_log_that_can_not_grow_takes_no_write_and_loses_none(small_disk, filled, left):
    """On a disk that is full writes are refused, all is read and searched, and it goes on once there is space."""
    path = small_disk / "memory.db"
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        store.add_many([note(number) for number in range(40)])
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        store.add("one more")
        ballast = filled(left)
        known = fields(store)
        for write in (
            lambda: store.add_many([note(number) for number in range(100, 400)]),
            lambda: store.update(3, text=note(1_000).text * 50),
            lambda: store.delete(list(range(1, 30))),
            lambda: store.terms.add("Maria da Silva", aliases=["Ana"]),
            lambda: store.delete([40], secure=True),
        ):
            if refused(write):
                # Many are written in batches, of which some may have had room.
                known = known if left == 0 else fields(store)
            else:
                assert left
                known = fields(store)
            assert fields(store) == known
        assert store.search("Maria da Silva", k=1)
    with MemoryStore(path, embedder=FakeEmbedder(), read_only=True) as store:
        assert fields(store) == known
    ballast.unlink()
    assert_sound(path)
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        assert fields(store) == known
        store.delete(list(range(1, 30)))
        assert store.count() == len([one for one, *_ in known if one >= 30])
    assert_sound(path)


def test_a_log_that_can_not_be_brought_back_is_kept(small_disk, filled):
    """Where the file can't take up what its log holds, when that is due and when it is closed, the log stays."""
    path = small_disk / "memory.db"
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        # So much that the log is as long as it gets, and the next writes use it again.
        for number in range(120):
            store.add_many([note(number)])
        store._database.connection().wal_checkpoint(mode=2)
        ballast = filled()
        number = 120
        while number < 1_000 and not refused(lambda number=number: store.add_many([note(number)])):
            number += 1
        known = fields(store)
        assert len(known) == number
        assert 120 < number < 1_000
    assert Path(f"{path}-wal").stat().st_size
    ballast.unlink()
    with MemoryStore(path, embedder=FakeEmbedder()) as store:
        assert fields(store) == known
    assert_sound(path)


def test_a_new_file_that_does_not_fit_can_be_made_later(small_disk, filled):
    """A file that there is no room for is refused in one sentence, and is made once there is."""
    ballast = filled()
    with pytest.raises(StorageError, match=FULL):
        MemoryStore(small_disk / "new.db", embedder="none")
    ballast.unlink()
    with MemoryStore(small_disk / "new.db", embedder="none") as store:
        assert store.add("a note").id == 1


@pytest.mark.parametrize("copy", ["copy", "backup"])
def test_a_copy_that_does_not_fit_is_not_there(fake, small_disk, filled, copy):
    """A backup onto a full disk leaves nothing under its name, and the store goes on."""
    fake.add_many([note(number) for number in range(100)])
    copied = fake._database.copy if copy == "copy" else getattr(fake.maintenance, "backup", None)
    if copied is None:
        pytest.skip("there are no backups yet")
    for left in (0, 200_000):
        ballast = filled(left)
        with pytest.raises(StorageError, match="full"):
            copied(small_disk / "copy.db")
        assert not (small_disk / "copy.db").exists()
        ballast.unlink()
        assert [one.name for one in small_disk.iterdir()] == []
    copied(small_disk / "copy.db")
    assert_sound(small_disk / "copy.db")
    assert fake.count() == 100


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("left", [0, 100_000, 400_000, 700_000])
def test_a_file_that_can_not_be_migrated_stays_as_it_was(small_disk, filled, left):
    """Where there is no room for a migration and the copy before it, the file stays as it was; with room it is done."""
    path = small_disk / "memory.db"
    shutil.copy(FIXTURES / "schema-5.db", path)
    content = path.read_bytes()
    ballast = filled(left)
    if refused(lambda: MemoryStore(path, embedder="none").close()):
        assert path.read_bytes() == content
    else:
        assert left
    ballast.unlink()
    with MemoryStore(path, embedder="none") as store:
        there = store.count()
    with MemoryStore(shutil.copy(FIXTURES / "schema-5.db", small_disk / "other.db"), embedder="none") as store:
        assert there == store.count() > 0
    assert sound(path) == []

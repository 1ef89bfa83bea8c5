"""Every index agrees with the memories after any sequence of writes, and the memories with a plain dictionary."""

import dataclasses
import shutil
import tempfile
import unicodedata
from pathlib import Path

import apsw
import pytest
from conftest import FakeEmbedder
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memstore import InvalidInputError, Memory, MemoryStore, NewMemory, NotFoundError, memories
from memstore.analysis import Analyser
from memstore.entities import find, key
from memstore.passages import cut
from memstore.semantic import digest

ANALYSER = Analyser()
LONG = " ".join(f"This is sentence {n} of a long text about Maria da Silva." for n in range(35))
TEXTS = [
    "falei com Maria da Silva e Beto",
    "a reunião ficou para sexta",
    unicodedata.normalize("NFD", "a  reunião ficou para sexta\n"),
    "we use C++ and read_csv_safe() in src/db.py",
    "ERR-4018 means the card has expired, says Ana",
    "银行卡",
    LONG,
]
GIVEN = {
    "author": st.sampled_from([None, "Ana", "Beto Souza"]),
    "thread": st.sampled_from([None, "talk", "journal"]),
    "tags": st.lists(st.sampled_from(["a", "b", "ção"]), max_size=2).map(tuple),
    "entities": st.lists(st.sampled_from(["Projeto X", "MARIA DA SILVA", "zé"]), max_size=2).map(tuple),
}
FIELDS = {
    "text": st.sampled_from(TEXTS),
    "namespace": st.sampled_from(["default", "other"]),
    "key": st.sampled_from([None, None, "first", "second"]),
    "metadata": st.dictionaries(st.sampled_from(["n", "m"]), st.integers(0, 2), max_size=2),
    **GIVEN,
}
NEW = st.builds(NewMemory, **FIELDS)
CHANGES = st.fixed_dictionaries({}, optional=FIELDS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expected:
    """A memory as the model knows it; `given` are the keys of the entities that came from the caller."""

    id: int
    key: str | None
    namespace: str
    text: str
    author: str | None
    thread: str | None
    position: float | None
    tags: frozenset[str]
    metadata: dict[str, int]
    given: frozenset[str]

    @property
    def identity(self) -> tuple:
        return same(self.namespace, self.author, self.thread, self.text)

    @property
    def entities(self) -> set[str]:
        author = set() if self.author is None else {key(self.author)}
        return set(find(self.text)) | author | self.given


def same(namespace: str, author: str | None, thread: str | None, text: str) -> tuple:
    return namespace, author, thread, " ".join(unicodedata.normalize("NFC", text).split())


def as_expected(memory: Memory, given: frozenset[str]) -> Expected:
    """Return what the store says of a memory in the form of the model."""
    names = {field.name for field in dataclasses.fields(Expected)} - {"tags", "given"}
    return Expected(**{name: getattr(memory, name) for name in names}, tags=frozenset(memory.tags), given=given)


def grouped(conn: apsw.Connection, sql: str) -> dict[int, list[tuple]]:
    """Return rows by their first column, in order."""
    found: dict[int, list[tuple]] = {}
    for first, *rest in conn.execute(sql):
        found.setdefault(first, []).append(tuple(rest))
    return found


def assert_consistent(store: MemoryStore, embedder: FakeEmbedder) -> None:
    """Compare every table of a store with what its memories and its embedder say that it must hold."""
    with store._database.write() as conn:
        conn.execute("INSERT INTO memory_terms(memory_terms) VALUES('integrity-check')")
    with store._database.read() as conn:
        ids = [one for (one,) in conn.execute("SELECT id FROM memories ORDER BY id")]
        rows = {one: memories.get(conn, one) for one in ids}
        hashes = grouped(conn, "SELECT id, content_hash, row_hash FROM memories")
        assert hashes == {one: [(row.content_hash, row.row_hash)] for one, row in rows.items()}

        assert [one for (one,) in conn.execute("SELECT rowid FROM memory_terms ORDER BY rowid")] == ids
        terms = {}
        for one, row in rows.items():
            languages = ANALYSER.languages_of(row.text, row.language)
            found = ANALYSER.terms(row.indexed_text(ANALYSER.languages), languages)
            terms[one] = [(" ".join(languages), " ".join(found))]
        assert grouped(conn, "SELECT memory_id, languages, terms FROM analysed") == terms
        conn.execute("CREATE VIRTUAL TABLE temp.held USING fts5vocab('main', 'memory_terms', 'instance')")
        held = grouped(conn, "SELECT doc, term FROM temp.held WHERE col = 'terms' ORDER BY doc, offset")
        assert held == {one: [(term,) for term in joined.split(" ")] for one, [(_, joined)] in terms.items()}

        spans = grouped(conn, "SELECT memory_id, start, stop FROM passages ORDER BY id")
        assert spans == {one: cut(row.text) for one, row in rows.items()}
        passages = conn.execute("SELECT id, memory_id, start, stop FROM passages").fetchall()
        texts = {one: rows[memory_id].embedded_text(start, stop) for one, memory_id, start, stop in passages}
        vectors = {one: embedder.vector(text).tobytes() for one, text in texts.items()}
        noted = conn.execute("SELECT passage_id, text_hash, vector_hash FROM passage_vectors").fetchall()
        assert sorted(noted) == sorted((one, digest(texts[one].encode()), digest(vectors[one])) for one in texts)
        if conn.execute("SELECT count(*) FROM embedders").get:
            assert dict(conn.execute("SELECT rowid, embedding FROM vectors_1")) == vectors

        links = grouped(
            conn,
            "SELECT memory_id, e.key, given FROM memory_entities JOIN entities e ON e.id = entity_id ORDER BY e.key",
        )
        for one, row in rows.items():
            author = set() if row.author is None else {key(row.author)}
            given = {name for name, is_given in links.get(one, []) if is_given}
            assert {name for name, _ in links.get(one, [])} == set(find(row.text)) | author | given
        assert set(links) <= set(ids)
        idle = "SELECT count(*) FROM entities WHERE id NOT IN (SELECT entity_id FROM memory_entities)"
        assert conn.execute(idle).get == 0
        assert conn.execute("SELECT count(*) FROM tags WHERE memory_id NOT IN (SELECT id FROM memories)").get == 0
        assert conn.execute("PRAGMA foreign_key_check").fetchall() == []


class Store(RuleBasedStateMachine):
    """Any sequence of writes on a store and on a dictionary; after each, both say the same and the indexes agree."""

    @initialize()
    def open(self):
        self.folder = Path(tempfile.mkdtemp())
        self.embedder = FakeEmbedder()
        self.store = MemoryStore(self.folder / "memory.db", embedder=self.embedder)
        self.expected: dict[int, Expected] = {}
        self.last = 0

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    def end(self, namespace: str, thread: str | None) -> float | None:
        if thread is None:
            return None
        there = [m.position for m in self.expected.values() if (m.namespace, m.thread) == (namespace, thread)]
        return max(there) + 1 if there else 0.0

    def expect_added(self, new: NewMemory) -> tuple[int, str]:
        """Add to the model; return the id and the outcome that the store must give."""
        identity = same(new.namespace, new.author, new.thread, new.text)
        there = [
            memory
            for _, memory in sorted(self.expected.items())
            if (
                memory.identity == identity
                if new.key is None
                else (memory.namespace, memory.key) == (new.namespace, new.key)
            )
        ]
        given = frozenset(map(key, new.entities))
        if not there:
            self.last += 1
            self.expected[self.last] = Expected(
                id=self.last,
                key=new.key,
                namespace=new.namespace,
                text=new.text,
                author=new.author,
                thread=new.thread,
                position=self.end(new.namespace, new.thread),
                tags=frozenset(new.tags),
                metadata=dict(new.metadata),
                given=given,
            )
            return self.last, "added"
        before = there[0]
        changes = {
            "tags": before.tags | set(new.tags),
            "metadata": before.metadata | new.metadata,
            "given": before.given | given,
        }
        if new.key is not None:
            changes["text"] = new.text
            changes["author"] = new.author if new.author is not None else before.author
            if new.thread is not None and new.thread != before.thread:
                changes |= {"thread": new.thread, "position": self.end(new.namespace, new.thread)}
        after = dataclasses.replace(before, **changes)
        self.expected[before.id] = after
        return before.id, "unchanged" if after == before else "merged" if new.key is None else "updated"

    @rule(new=NEW)
    def add(self, new):
        memory = self.store.add(**{name: getattr(new, name) for name in FIELDS})
        assert (memory.id, memory.outcome) == self.expect_added(new)

    # One key twice in a batch is a test of its own, below.
    @rule(batch=st.lists(NEW, max_size=4, unique_by=lambda new: (new.namespace, new.key) if new.key else id(new)))
    def add_many(self, batch):
        added = [(memory.id, memory.outcome) for memory in self.store.add_many(batch)]
        assert added == [self.expect_added(new) for new in batch]

    @rule(data=st.data(), changes=CHANGES)
    def update(self, data, changes):
        if not self.expected:
            with pytest.raises(NotFoundError):
                self.store.update(self.last + 1, **changes)
            return
        before = self.expected[data.draw(st.sampled_from(sorted(self.expected)))]
        fields = {name: value for name, value in changes.items() if name not in ("entities", "tags")}
        if "tags" in changes:
            fields["tags"] = frozenset(changes["tags"])
        if "entities" in changes:
            fields["given"] = frozenset(map(key, changes["entities"]))
        after = dataclasses.replace(before, **fields)
        if (after.namespace, after.thread) != (before.namespace, before.thread):
            after = dataclasses.replace(after, position=self.end(after.namespace, after.thread))
        others = [memory for memory in self.expected.values() if memory.id != before.id]
        if after.key is not None:
            clash = (after.namespace, after.key) in {(memory.namespace, memory.key) for memory in others}
        else:
            changed = after.identity != before.identity or before.key is not None
            clash = changed and after.identity in {memory.identity for memory in others if memory.key is None}
        if clash:
            with pytest.raises(InvalidInputError, match="already"):
                self.store.update(before.id, **changes)
            return
        memory = self.store.update(before.id, **changes)
        self.expected[before.id] = after
        assert (memory.id, memory.outcome) == (before.id, "unchanged" if after == before else "updated")

    @rule(data=st.data())
    def delete(self, data):
        wanted = data.draw(st.lists(st.sampled_from([*sorted(self.expected), self.last + 1]), max_size=3))
        assert self.store.delete(wanted) == len(self.expected.keys() & wanted)
        for one in wanted:
            self.expected.pop(one, None)

    @rule()
    def reopen(self):
        self.store.close()
        self.store = MemoryStore(self.folder / "memory.db", embedder=self.embedder)

    @invariant()
    def memories_are_as_expected(self):
        listed = {memory.id: memory for memory in self.store.list(limit=1_000)}
        with self.store._database.read() as conn:
            given = grouped(
                conn,
                "SELECT memory_id, e.key FROM memory_entities JOIN entities e ON e.id = entity_id WHERE given",
            )
        assert self.store.count() == len(self.expected)
        keys = {one: frozenset(name for (name,) in given.get(one, [])) for one in listed}
        assert {one: as_expected(memory, keys[one]) for one, memory in listed.items()} == self.expected
        for one, expected in self.expected.items():
            assert self.store.get(one) == listed[one]
            assert {key(entity.name) for entity in listed[one].entities} == expected.entities
            if expected.key is not None:
                assert self.store.get(key=expected.key, namespace=expected.namespace) == listed[one]
        assert self.store.get(self.last + 1) is None

    @invariant()
    def indexes_agree(self):
        assert_consistent(self.store, self.embedder)


TestStore = Store.TestCase
TestStore.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


def test_one_key_twice_in_a_batch(fake):
    """A batch that writes one key twice leaves the later text under it, every index in step and nothing pending."""
    batch = [
        NewMemory(text="the first text", key="one", author="Ana", thread="talk"),
        NewMemory(text="the second text", key="one"),
    ]
    first, second = fake.add_many(batch)
    assert first.id == second.id
    assert fake.get(first.id).text == "the second text"
    assert fake.get(first.id).author == "Ana"
    assert fake.get(first.id).pending == ()
    assert_consistent(fake, FakeEmbedder())


def test_refused_batch_changes_nothing(fake):
    """A batch with a memory that can't be stored is refused before anything of it is written."""
    fake.add("there before", tags=["a"])
    with pytest.raises(InvalidInputError, match="item 1: text is empty"):
        fake.add_many([NewMemory(text="there before", tags=["b"]), NewMemory(text=" ")])
    assert fake.count() == 1
    assert fake.get(1).tags == ("a",)
    assert_consistent(fake, FakeEmbedder())


@pytest.mark.parametrize(
    "table", ["memory_terms", "memory_entities", "passages", "passage_vectors", "vectors_1", "tags"]
)
@pytest.mark.parametrize("write", ["add", "update", "delete"])
def test_write_that_fails_half_way_changes_nothing(fake, table, write):
    """A write that fails at any of its tables leaves the file as it was."""
    fake.add("falei com Maria da Silva", tags=["a"], author="Ana")
    writes = {
        "add": lambda: fake.add("vi Beto em São Paulo", tags=["b"]),
        "update": lambda: fake.update(1, text="vi Beto em São Paulo", tags=["b"]),
        "delete": lambda: fake.delete(1),
    }
    before = fake.get(1)

    def refuse(_, sql, __):
        if f" {table} " in sql and sql.startswith(("INSERT", "DELETE", "UPDATE")):
            raise RuntimeError("no more")
        return True

    connection = fake._database.connection()
    connection.exec_trace = refuse
    with pytest.raises(RuntimeError, match="no more"):
        writes[write]()
    connection.exec_trace = None
    assert fake.count() == 1
    assert fake.get(1) == before
    assert_consistent(fake, FakeEmbedder())
    writes[write]()
    assert_consistent(fake, FakeEmbedder())

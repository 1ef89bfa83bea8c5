"""Every index agrees with the memories after any sequence of writes, and the memories with a plain dictionary."""

import dataclasses
import functools
import shutil
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest
from conftest import FakeEmbedder
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memstore import InvalidInputError, Memory, MemoryStore, NewMemory, NotFoundError, checks, memories
from memstore.analysis import LANGUAGES, Analyser, term, word_of
from memstore.entities import Mentions, find, key
from memstore.memories import Row
from memstore.passages import cut
from memstore.records import Entity
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
    "…",
    # In these "Ana" and "Rita" may only have the sentence's capital.
    "Ana paid R$ 18,90 on 8 May",
    "Rita! Rita! Rita?",
    "vi a Rita em 8 de maio",
    LONG,
]
SPELLINGS = ["Ana", "Rita", "Maria da Silva", "Projeto X", "card", "zé"]
DAYS = [datetime(2023, 5, 8, 10, tzinfo=UTC), datetime(2024, 1, 31, tzinfo=UTC)]
THREADS = st.sampled_from(["talk", "talk", "talk", "journal", None])
POSITIONS = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1.0, 2.0])
FIELDS = {
    "text": st.sampled_from(TEXTS),
    "namespace": st.sampled_from(["default", "default", "other"]),
    "key": st.sampled_from([None, None, "first", "second"]),
    "metadata": st.dictionaries(st.sampled_from(["n", "m"]), st.integers(0, 2), max_size=2),
    "author": st.sampled_from([None, "Ana", "Beto Souza"]),
    "thread": THREADS,
    "tags": st.lists(st.sampled_from(["a", "b", "ção"]), max_size=2).map(tuple),
    "entities": st.lists(st.sampled_from(["Projeto X", "MARIA DA SILVA", "zé", "Rita"]), max_size=2).map(tuple),
    "language": st.sampled_from([None, None, "pt"]),
    "pinned": st.booleans(),
}
OPTIONAL = {"position": st.none() | POSITIONS, "created_at": st.sampled_from([None, None, *DAYS])}
# Without a thread there is no position; test_bad_input has what is refused.
NEW = st.builds(NewMemory, **FIELDS, **OPTIONAL).map(
    lambda new: dataclasses.replace(new, position=None) if new.thread is None else new
)
CHANGES = st.fixed_dictionaries({}, optional={**FIELDS, "position": POSITIONS, "created_at": st.sampled_from(DAYS)})
MOVES = st.fixed_dictionaries(
    {}, optional={"thread": THREADS, "position": POSITIONS, "namespace": FIELDS["namespace"]}
).filter(bool)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expected:
    """A memory as the model knows it; `language` and `created` as the caller gave them.

    `given` are the keys of the entities that came from the caller.
    """

    id: int
    key: str | None
    namespace: str
    text: str
    author: str | None
    thread: str | None
    position: float | None
    language: str | None
    created: datetime | None
    tags: frozenset[str]
    metadata: dict[str, int]
    given: frozenset[str]
    pinned: bool
    replaces: int | None = None

    @property
    def identity(self) -> tuple:
        return same(self.namespace, self.author, self.thread, self.text)


def same(namespace: str, author: str | None, thread: str | None, text: str) -> tuple:
    return namespace, author, thread, " ".join(unicodedata.normalize("NFC", text).split())


def as_expected(memory: Memory, row: Row, given: frozenset[str]) -> Expected:
    """Return what the store says of a memory in the form of the model."""
    names = ("id", "key", "namespace", "text", "author", "thread", "position", "metadata", "pinned", "replaces")
    return Expected(
        **{name: getattr(memory, name) for name in names},
        language=row.language,
        created=None if row.created_offset is None else memory.created_at,
        tags=frozenset(memory.tags),
        given=given,
    )


def grouped(conn: apsw.Connection, sql: str) -> dict[int, list[tuple]]:
    """Return rows by their first column, in order."""
    found: dict[int, list[tuple]] = {}
    for first, *rest in conn.execute(sql):
        found.setdefault(first, []).append(tuple(rest))
    return found


@functools.cache
def analysed(text: str, languages: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[str]]:
    terms, words = ANALYSER.analysed(text, languages)
    return tuple(terms), frozenset(words)


learnt = functools.cache(lambda word: word_of(word, LANGUAGES))


@functools.cache
def _found(text: str, author: str | None, known: tuple[tuple[str, Entity], ...]) -> Mentions:
    terms = dict(known)
    found = find(text, terms)
    named = {} if author is None else {key(terms[key(author)].name if key(author) in terms else author): None}
    sure = {**found.sure, **named}
    return Mentions(sure=sure, doubtful={one: None for one in found.doubtful if one not in sure})


def found(text: str, author: str | None, known: Mapping[str, Entity]) -> Mentions:
    """Return the entities of a text and its author: only the keys count."""
    return _found(text, author, tuple(sorted(known.items())))


def beside(rows: Mapping[int, Row]) -> dict[int, list[int]]:
    """Return the two memories before and the two after each one, in their order, from nothing but the rows."""
    threads: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for one, row in rows.items():
        if row.thread is not None:
            threads.setdefault((row.namespace, row.thread), []).append((row.position, one))
    near: dict[int, list[int]] = {one: [] for one in rows}
    for places in threads.values():
        order = [one for _, one in sorted(places)]
        for at, one in enumerate(order):
            near[one] = order[max(0, at - 2) : at] + order[at + 1 : at + 3]
    return near


def assert_keywords_consistent(conn: apsw.Connection, rows: Mapping[int, Row]) -> None:
    """Compare the keyword index and what is cached for it with an analysis of the memories."""
    assert [one for (one,) in conn.execute("SELECT rowid FROM memory_terms ORDER BY rowid")] == list(rows)
    languages = {one: ANALYSER.languages_of(row.text, row.language) for one, row in rows.items()}
    read = {one: analysed(row.indexed_text(ANALYSER.languages), languages[one]) for one, row in rows.items()}
    counts = {one: Counter(terms) for one, (terms, _) in read.items()}
    # The most frequent first, and those as frequent in the order in which they stand in the text.
    distinct = {
        one: sorted(counted, key=lambda term, counted=counted: -counted[term]) for one, counted in counts.items()
    }
    near = beside(rows)
    assert grouped(conn, "SELECT memory_id, languages, length, terms, counts, beside, analyser FROM analysed") == {
        one: [
            (
                " ".join(languages[one]),
                counts[one].total(),
                " ".join(distinct[one]),
                " ".join(str(counts[one][term]) for term in distinct[one] if counts[one][term] > 1),
                " ".join(map(str, near[one])),
                ANALYSER.stamp,
            )
        ]
        for one in rows
    }
    statistics = conn.execute("SELECT memories, terms FROM statistics").fetchall()
    assert statistics == [(len(rows), sum(counted.total() for counted in counts.values()))]

    conn.execute("CREATE VIRTUAL TABLE temp.held USING fts5vocab('main', 'memory_terms', 'instance')")
    held = grouped(conn, "SELECT doc, term FROM temp.held WHERE col = 'terms'")
    assert {one: Counter(term for (term,) in terms) for one, terms in held.items()} == {
        one: counted for one, counted in counts.items() if counted
    }
    held = grouped(conn, "SELECT doc, term FROM temp.held WHERE col = 'neighbours' ORDER BY doc, offset")
    expected = {one: [term for other in sorted(near[one]) for term in distinct[other]] for one in rows}
    assert {one: [term for (term,) in terms] for one, terms in held.items()} == {
        one: terms for one, terms in expected.items() if terms
    }

    stems = {word: tuple(rest) for word, *rest in conn.execute("SELECT * FROM stems")}
    assert stems.keys() >= frozenset().union(*(words for _, words in read.values()))
    for word, said in stems.items():
        known = learnt(word)
        plain = (None, None) if known.folded_stems is None else (term(word), " ".join(known.folded_stems))
        assert said == (" ".join(known.stems), *plain, ANALYSER.stamp)


def assert_entities_consistent(conn: apsw.Connection, rows: Mapping[int, Row], store: MemoryStore) -> None:
    """Compare what memories are linked to, and what of it counts, with what stands in them."""
    known = {
        spelling: Entity(name=name, kind=kind)
        for spelling, name, kind in conn.execute("SELECT key, name, kind FROM entity_terms")
    }
    links = grouped(
        conn,
        "SELECT memory_id, e.key, given, doubtful FROM memory_entities JOIN entities e ON e.id = entity_id",
    )
    assert links.keys() <= rows.keys()
    sure: dict[int, set[str]] = {}
    doubtful: dict[int, set[str]] = {}
    for one, row in rows.items():
        mentions = found(row.text, row.author, known)
        given = {name for name, is_given, _ in links.get(one, []) if is_given}
        sure[one] = mentions.sure.keys() | given
        doubtful[one] = mentions.doubtful.keys() - given
        assert {name: in_doubt for name, _, in_doubt in links.get(one, [])} == {
            **dict.fromkeys(sure[one], 0),
            **dict.fromkeys(doubtful[one], 1),
        }
    somewhere = set().union(*sure.values())
    listed = memories.read(conn, rows)
    assert {one: {key(entity.name) for entity in memory.entities} for one, memory in listed.items()} == {
        one: sure[one] | (doubtful[one] & somewhere) for one in rows
    }
    # What has expired counts for nothing, though its rows are there still.
    live = [one for one, row in rows.items() if not row.expired(checks.now())]
    somewhere = set().union(*(sure[one] for one in live))
    mentioned = Counter(name for one in live for name in sure[one] | (doubtful[one] & somewhere))
    listing = store.entities(limit=1_000, superseded=True)
    assert {key(entity.name): entity.mentions for entity in listing} == mentioned
    assert store.stats().entities == len(mentioned)
    idle = "SELECT count(*) FROM entities WHERE id NOT IN (SELECT entity_id FROM memory_entities)"
    assert conn.execute(idle).get == 0


def assert_consistent(store: MemoryStore, embedder: FakeEmbedder) -> None:
    """Compare every table of a store with what its memories and its embedder say that it must hold."""
    with store._database.write() as conn:
        conn.execute("INSERT INTO memory_terms(memory_terms) VALUES('integrity-check')")
    with store._database.read() as conn:
        ids = [one for (one,) in conn.execute("SELECT id FROM memories ORDER BY id")]
        rows = {one: memories.get(conn, one) for one in ids}
        hashes = grouped(conn, "SELECT id, content_hash, row_hash FROM memories")
        assert hashes == {one: [(row.content_hash, row.row_hash)] for one, row in rows.items()}
        assert_keywords_consistent(conn, rows)
        assert_entities_consistent(conn, rows, store)

        spans = grouped(conn, "SELECT memory_id, start, stop FROM passages ORDER BY id")
        assert spans == {one: cut(row.text) for one, row in rows.items()}
        passages = conn.execute("SELECT id, memory_id, start, stop FROM passages").fetchall()
        texts = {one: rows[memory_id].embedded_text(start, stop) for one, memory_id, start, stop in passages}
        vectors = {one: embedder.vector(text).tobytes() for one, text in texts.items()}
        noted = conn.execute("SELECT passage_id, text_hash, vector_hash FROM passage_vectors").fetchall()
        assert sorted(noted) == sorted((one, digest(texts[one].encode()), digest(vectors[one])) for one in texts)
        assert conn.execute("SELECT passages FROM statistics").get == len(texts)
        if conn.execute("SELECT count(*) FROM embedders").get:
            assert dict(conn.execute("SELECT rowid, embedding FROM vectors_1")) == vectors
            assert conn.execute("SELECT * FROM space_statistics").fetchall() == [(1, len(texts))]
        assert conn.execute("SELECT count(*) FROM tags WHERE memory_id NOT IN (SELECT id FROM memories)").get == 0
        assert conn.execute("PRAGMA foreign_key_check").fetchall() == []


class Store(RuleBasedStateMachine):
    """Any sequence of writes on a store and on a dictionary; after each, both say the same and the indexes agree."""

    @initialize(turns=st.integers(0, 7))
    def open(self, turns):
        self.folder = Path(tempfile.mkdtemp())
        self.embedder = FakeEmbedder()
        self.store = MemoryStore(self.folder / "memory.db", embedder=self.embedder)
        self.expected: dict[int, Expected] = {}
        self.last = 0
        # The keys of the spellings of each known term, by the key of its name.
        self.terms: dict[str, set[str]] = {}
        # Most runs begin with a conversation, so that there is something to come between.
        self.add_many([NewMemory(text=f"turn {n}", thread="talk", metadata={}) for n in range(turns)])

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    def end(self, namespace: str, thread: str | None) -> float | None:
        if thread is None:
            return None
        there = [m.position for m in self.expected.values() if (m.namespace, m.thread) == (namespace, thread)]
        return max(there) + 1 if there else 0.0

    def owner(self, spelling: str) -> str | None:
        """Return the key of the known term that has a spelling."""
        return next((name for name, spellings in self.terms.items() if spelling in spellings), None)

    def resolved(self, names) -> frozenset[str]:
        return frozenset(self.owner(name) or name for name in map(key, names))

    def expect_added(self, new: NewMemory) -> tuple[int, str]:
        """Add to the model; return the id and the outcome that the store must give."""
        identity = same(new.namespace, new.author, new.thread, new.text)
        hidden = {memory.replaces for memory in self.expected.values()}
        there = [
            memory
            for _, memory in sorted(self.expected.items())
            if (
                (memory.identity == identity and memory.id not in hidden)
                if new.key is None
                else (memory.namespace, memory.key) == (new.namespace, new.key)
            )
        ]
        given = self.resolved(new.entities)
        if not there:
            self.last += 1
            self.expected[self.last] = Expected(
                id=self.last,
                key=new.key,
                namespace=new.namespace,
                text=new.text,
                author=new.author,
                thread=new.thread,
                position=self.end(new.namespace, new.thread) if new.position is None else new.position,
                language=new.language,
                created=new.created_at,
                tags=frozenset(new.tags),
                metadata=dict(new.metadata),
                given=given,
                pinned=new.pinned,
            )
            return self.last, "added"
        before = there[0]
        changes = {
            "tags": before.tags | set(new.tags),
            "metadata": before.metadata | new.metadata,
            "given": before.given | given,
            "language": new.language or before.language,
            "pinned": before.pinned or new.pinned,
        }
        if new.key is not None:
            changes["text"] = new.text
            changes["author"] = new.author or before.author
            changes["created"] = new.created_at or before.created
            changes["thread"] = new.thread or before.thread
            if new.position is not None:
                changes["position"] = new.position
            elif changes["thread"] != before.thread:
                changes["position"] = self.end(new.namespace, new.thread)
        after = dataclasses.replace(before, **changes)
        self.expected[before.id] = after
        return before.id, "unchanged" if after == before else "merged" if new.key is None else "updated"

    @rule(new=NEW)
    def add(self, new):
        memory = self.store.add(**{field.name: getattr(new, field.name) for field in dataclasses.fields(new)})
        assert (memory.id, memory.outcome) == self.expect_added(new)

    # One key twice in a batch is a test of its own, below.
    @rule(batch=st.lists(NEW, max_size=5, unique_by=lambda new: (new.namespace, new.key) if new.key else id(new)))
    def add_many(self, batch):
        added = [(memory.id, memory.outcome) for memory in self.store.add_many(batch)]
        assert added == [self.expect_added(new) for new in batch]

    @rule(data=st.data(), changes=MOVES)
    def move(self, data, changes):
        self.update(data, changes)

    @rule(data=st.data(), changes=CHANGES)
    def update(self, data, changes):
        if not self.expected:
            with pytest.raises(NotFoundError):
                self.store.update(self.last + 1, **changes)
            return
        before = self.expected[data.draw(st.sampled_from(sorted(self.expected)))]
        fields = {name: value for name, value in changes.items() if name not in ("entities", "tags", "created_at")}
        if "tags" in changes:
            fields["tags"] = frozenset(changes["tags"])
        if "entities" in changes:
            fields["given"] = self.resolved(changes["entities"])
        if "created_at" in changes:
            fields["created"] = changes["created_at"]
        after = dataclasses.replace(before, **fields)
        if after.thread is None and "position" in changes:
            with pytest.raises(InvalidInputError, match="is in no thread"):
                self.store.update(before.id, **changes)
            return
        if after.thread is None:
            after = dataclasses.replace(after, position=None)
        elif (after.namespace, after.thread) != (before.namespace, before.thread) and "position" not in changes:
            after = dataclasses.replace(after, position=self.end(after.namespace, after.thread))
        others = [memory for memory in self.expected.values() if memory.id != before.id]
        linked = before.replaces in self.expected or before.id in {memory.replaces for memory in others}
        if after.namespace != before.namespace and linked:
            with pytest.raises(InvalidInputError, match="namespace"):
                self.store.update(before.id, **changes)
            return
        if after.key is not None:
            clash = (after.namespace, after.key) in {(memory.namespace, memory.key) for memory in others}
        else:
            changed = after.identity != before.identity or before.key is not None
            hidden = {memory.replaces for memory in self.expected.values()}
            free = [memory for memory in others if memory.key is None and memory.id not in hidden]
            clash = changed and after.identity in {memory.identity for memory in free}
        if clash:
            with pytest.raises(InvalidInputError, match="already"):
                self.store.update(before.id, **changes)
            return
        memory = self.store.update(before.id, **changes)
        self.expected[before.id] = after
        assert (memory.id, memory.outcome) == (before.id, "unchanged" if after == before else "updated")

    def leads_to(self, start: int | None, wanted: int) -> bool:
        while start in self.expected and start != wanted:
            start = self.expected[start].replaces
        return start == wanted

    @rule(data=st.data())
    def replace(self, data):
        if not self.expected:
            return
        newer = self.expected[data.draw(st.sampled_from(sorted(self.expected)))]
        older = data.draw(st.sampled_from([None, *sorted(self.expected), self.last + 1]))
        after = dataclasses.replace(newer, replaces=older)
        there = self.expected.get(older)
        refused = there is None or there.namespace != newer.namespace or self.leads_to(older, newer.id)
        if older is not None and after != newer and refused:
            with pytest.raises(InvalidInputError, match=f"replaces is {older}: "):
                self.store.update(newer.id, replaces=older)
            return
        memory = self.store.update(newer.id, replaces=older)
        self.expected[newer.id] = after
        assert memory.outcome == ("unchanged" if after == newer else "updated")

    @rule(data=st.data(), secure=st.sampled_from([False, False, True]))
    def delete(self, data, secure):
        wanted = data.draw(st.lists(st.sampled_from([*sorted(self.expected), self.last + 1]), max_size=3))
        assert self.store.delete(wanted, secure=secure) == len(self.expected.keys() & wanted)
        for one in wanted:
            gone = self.expected.pop(one, None)
            if gone is not None and gone.replaces is not None:
                # What replaced it replaces what it did.
                self.expected |= {
                    newer.id: dataclasses.replace(newer, replaces=gone.replaces)
                    for newer in self.expected.values()
                    if newer.replaces == one
                }

    @rule(name=st.sampled_from(SPELLINGS), into=st.sampled_from(SPELLINGS))
    def merge_names(self, name, into):
        one, other = self.owner(key(name)), self.owner(key(into))
        target = other or key(into)
        if (one or key(name)) == target:
            with pytest.raises(InvalidInputError, match="are one entity already"):
                self.store.terms.merge(name, into)
            return
        self.store.terms.merge(name, into)
        spellings = self.terms.pop(one, {key(name)})
        self.terms[target] = self.terms.get(target, {target}) | spellings
        self.expected = {
            one: dataclasses.replace(memory, given=self.resolved(memory.given)) for one, memory in self.expected.items()
        }

    @rule(name=st.sampled_from(SPELLINGS))
    def forget_name(self, name):
        if key(name) not in self.terms:
            with pytest.raises(NotFoundError):
                self.store.terms.remove(name)
            return
        self.store.terms.remove(name)
        del self.terms[key(name)]

    @rule()
    def reopen(self):
        self.store.close()
        self.store = MemoryStore(self.folder / "memory.db", embedder=self.embedder)

    @invariant()
    def memories_are_as_expected(self):
        listed = {memory.id: memory for memory in self.store.list(limit=1_000, superseded=True)}
        with self.store._database.read() as conn:
            given = grouped(
                conn,
                "SELECT memory_id, e.key FROM memory_entities JOIN entities e ON e.id = entity_id WHERE given",
            )
            rows = {one: memories.get(conn, one) for one in listed}
        assert self.store.count(superseded=True) == len(self.expected)
        hidden = {memory.replaces for memory in self.expected.values()}
        assert {memory.id for memory in self.store.list(limit=1_000)} == self.expected.keys() - hidden
        assert self.store.count() == len(self.expected.keys() - hidden)
        keys = {one: frozenset(name for (name,) in given.get(one, [])) for one in listed}
        assert {one: as_expected(memory, rows[one], keys[one]) for one, memory in listed.items()} == self.expected
        for one, expected in self.expected.items():
            assert self.store.get(one) == listed[one]
            if expected.key is not None:
                assert self.store.get(key=expected.key, namespace=expected.namespace) == listed[one]
        assert self.store.get(self.last + 1) is None
        known = {
            key(term.name): {key(spelling) for spelling in (term.name, *term.aliases)}
            for term in self.store.terms.list()
        }
        assert known == self.terms

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
    ("table", "writes"),
    [
        ("memories", ["add", "update", "move", "delete"]),
        ("tags", ["add", "update", "move", "delete"]),
        ("uses", ["delete"]),
        ("analysed", ["add", "update", "move", "delete"]),
        ("memory_terms", ["add", "update", "move", "delete"]),
        ("stems", ["add", "update"]),
        ("entities", ["add", "update", "delete"]),
        ("memory_entities", ["add", "update", "delete"]),
        ("passages", ["add", "update", "delete"]),
        ("passage_vectors", ["add", "update", "delete"]),
        ("vectors_1", ["add", "update", "delete"]),
    ],
)
def test_write_that_fails_half_way_changes_nothing(fake, table, writes):
    """A write that fails at any of its tables leaves the file as it was, and can be repeated."""
    fake.add("falei com Maria da Silva", tags=["a"], author="Ana", thread="talk")
    fake.add("e o que ela disse?", author="Beto", thread="talk")
    carried_out = {
        "add": lambda: fake.add("vi Beto em São Paulo", tags=["b"], thread="talk", position=0.5),
        "update": lambda: fake.update(1, text="soube de Rita em Campinas", tags=["b"]),
        "move": lambda: fake.update(1, position=7),
        "delete": lambda: fake.delete(1),
    }

    def refuse(_, sql, __):
        if f" {table} " in sql and sql.startswith(("INSERT", "DELETE", "UPDATE")):
            raise RuntimeError("no more")
        return True

    connection = fake._database.connection()
    for write in writes:
        before = fake.list(order="thread")
        connection.exec_trace = refuse
        with pytest.raises(RuntimeError, match="no more"):
            carried_out[write]()
        connection.exec_trace = None
        assert fake.list(order="thread") == before
        assert_consistent(fake, FakeEmbedder())
        carried_out[write]()
        assert fake.list(order="thread") != before
        assert_consistent(fake, FakeEmbedder())

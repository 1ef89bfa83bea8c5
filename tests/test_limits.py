"""How much there can be of what: at each limit it works, one past it is refused in one sentence and nothing stored."""

import json

import numpy as np
import pytest
from conftest import FakeEmbedder

from memstore import InvalidInputError, MemoryStore, MemstoreError, NewMemory, StorageError, Term, checks
from memstore.analysis import Analyser
from memstore.analysis.analyser import MOST_QUERY_WORDS
from memstore.embedding.model import WIDEST
from memstore.entities import finding
from memstore.exchange import LONGEST_LINE


def nested(levels: int, kind: type = dict) -> dict:
    """Return metadata of so many levels below the first."""
    found: object = 1
    for _ in range(levels - 1):
        found = {"a": found} if kind is dict else [found]
    return {"a": found}


def refused(store: MemoryStore, match: str, **fields) -> None:
    """See that a memory is refused in one sentence by add, add_many, update and import, with nothing changed."""
    store.add("there before", key="before")
    there = store.list(limit=10)
    new = {"text": "a note", **fields}
    for write in (
        lambda: store.add(**new),
        lambda: store.add_many([NewMemory(text="another note"), NewMemory(**new)]),
        lambda: store.update(1, **fields),
        lambda: store.import_jsonl(['{"text": "another note"}', json.dumps(new)]),
    ):
        with pytest.raises(InvalidInputError, match=match) as error:
            write()
        assert "\n" not in str(error.value)
    assert store.list(limit=10) == there


@pytest.mark.parametrize(
    "fields",
    [
        {
            "author": "a" * checks.LONGEST_NAME,
            "thread": "é" * checks.LONGEST_NAME,
            "namespace": "n" * checks.LONGEST_NAME,
        },
        {"key": "k" * checks.LONGEST_KEY},
        {"tags": [f"{number:0>{checks.LONGEST_NAME}}" for number in range(checks.MOST_TAGS)]},
        {"entities": [f"entity {number}" for number in range(checks.MOST_TAGS)]},
        {"metadata": nested(checks.DEEPEST_METADATA)},
        {"metadata": nested(checks.DEEPEST_METADATA, list)},
        {"metadata": {"a": "x" * (checks.LARGEST_METADATA - len('{"a":""}'))}},
        {"metadata": {"a": checks.LARGEST_INTEGER, "b": -checks.LARGEST_INTEGER, "c": 1.7976931348623157e308}},
        {"position": 1.7976931348623157e308, "thread": "talk"},
        {"created_at": "0001-01-01T00:00:00+00:00", "expires_at": "9999-12-31T23:59:59.999999+00:00"},
    ],
    ids=["names", "key", "tags", "entities", "depth", "lists", "metadata", "numbers", "position", "times"],
)
def test_what_is_as_large_as_may_be_reads_back_as_it_was(words, fields):
    """A memory whose fields are all at their limit is stored, reads back the same and is exported and imported."""
    memory = words.add("a note", **fields)
    there = words.get(memory.id)
    for name, value in fields.items():
        expected = tuple(value) if name == "tags" else value
        if name not in ("entities", "created_at", "expires_at"):
            assert getattr(there, name) == expected
    lines: list[str] = []
    with open(words._database.path.with_name("export.jsonl"), "w+", encoding="utf-8") as file:
        words.export(file)
        file.seek(0)
        lines = file.readlines()
    assert words.delete(memory.id) == 1
    assert words.import_jsonl(lines).added == 1
    assert words.get(memory.id) == there


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"author": "a" * (checks.LONGEST_NAME + 1)}, "author has 1,001 characters, at most 1,000"),
        ({"thread": "a" * (checks.LONGEST_NAME + 1)}, "thread has 1,001 characters"),
        ({"namespace": "a" * (checks.LONGEST_NAME + 1)}, "namespace has 1,001 characters"),
        ({"language": "a" * (checks.LONGEST_NAME + 1)}, "language has 1,001 characters"),
        ({"key": "a" * (checks.LONGEST_KEY + 1)}, "key has 4,001 characters, at most 4,000"),
        ({"tags": ["a" * (checks.LONGEST_NAME + 1)]}, "tags has 1,001 characters"),
        ({"tags": [str(number) for number in range(checks.MOST_TAGS + 1)]}, "tags has 1,001 names, at most 1,000"),
        ({"entities": [str(number) for number in range(checks.MOST_TAGS + 1)]}, "entities has 1,001 names"),
        ({"metadata": nested(checks.DEEPEST_METADATA + 1)}, "nested deeper than 100 levels"),
        ({"metadata": nested(checks.DEEPEST_METADATA + 1, list)}, "nested deeper than 100 levels"),
        ({"metadata": {"a": "x" * checks.LARGEST_METADATA}}, "larger than 1,000,000 characters"),
        ({"metadata": {"a": checks.LARGEST_INTEGER + 1}}, "beyond 64 bits"),
        ({"metadata": {"a": -checks.LARGEST_INTEGER - 1}}, "beyond 64 bits"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else next(iter(value)),
)
def test_what_is_larger_than_may_be_is_refused_by_its_name(words, fields, match):
    """One past a limit is refused with the field, what it has and what it may have; nothing is stored."""
    refused(words, match, **fields)


def test_the_longest_text_is_stored_and_found(words):
    """A text at its limit is stored, reads back the same, and other memories are found beside it as before."""
    text = "a" * (checks.LONGEST_TEXT - 9) + " the end."
    memory = words.add(text)
    words.add("the key is under the blue pot")
    assert words.get(memory.id).text == text
    assert words.search("where is the key?", k=1)[0].memory.text == "the key is under the blue pot"
    assert words.delete(memory.id) == 1


def test_a_longer_text_is_refused(words, tmp_path):
    """A text one character past its limit is refused by every way in, with its length and what to do."""
    text = "a" * (checks.LONGEST_TEXT + 1)
    refused(words, "text has 10,485,761 characters, at most 10,485,760 are stored; split it", text=text)
    (tmp_path / "long.md").write_text(text)
    with pytest.raises(InvalidInputError, match="10,485,760 characters"):
        words.import_markdown(tmp_path / "long.md")
    with pytest.raises(InvalidInputError, match="10,485,760"):
        words.import_text(text)


def test_a_run_of_millions_of_letters_is_read():
    """A text without a blank is analysed whatever its length: no place in it is kept to come back to."""
    terms = Analyser().terms("a" * 6_000_000, ("en",))
    assert len(terms) == 2


def test_what_is_too_long_for_a_name_is_not_looked_at_as_one(monkeypatch):
    """A megabyte without a blank is no code and no path, and is not read again from each of its marks to find out."""
    looked_at: list[int] = []
    kind = finding._kind
    monkeypatch.setattr(finding, "_kind", lambda piece: looked_at.append(len(piece)) or kind(piece))
    assert "err-4018" in finding.find("a." * 500_000 + " means ERR-4018").sure
    assert looked_at
    assert max(looked_at) <= finding.LONGEST_NAME


@pytest.mark.parametrize(
    ("ask", "most"),
    [
        (lambda store, number: store.search("note", k=number), checks.LARGEST_NUMBER),
        (lambda store, number: store.search("note", depth=number), checks.LARGEST_NUMBER),
        (lambda store, number: store.search("note", rerank_depth=number), checks.LARGEST_NUMBER),
        (lambda store, number: store.recall("note", k=number), checks.LARGEST_NUMBER),
        (lambda store, number: store.list(limit=number), checks.LARGEST_NUMBER),
        (lambda store, number: store.list(offset=number), checks.LARGEST_NUMBER),
        (lambda store, number: store.changes("2024-01-01", limit=number), checks.LARGEST_NUMBER),
        (lambda store, number: store.entities(limit=number), checks.LARGEST_NUMBER),
        (lambda store, number: store.mentions("Ana", limit=number), checks.LARGEST_NUMBER),
        (lambda store, number: store.context("note", max_tokens=number), checks.LARGEST_NUMBER),
        (lambda store, number: store.context("note", k=number), checks.LARGEST_NUMBER),
    ],
    ids=["k", "depth", "rerank", "recall", "limit", "offset", "changes", "entities", "mentions", "tokens", "context k"],
)
def test_numbers_that_are_asked_for_have_an_end(fake, ask, most):
    """The largest k, depth, limit or number of tokens returns what there is; one more is refused with the limit."""
    for number in range(20):
        fake.add(f"then Ana wrote note {number}")
    ask(fake, most)
    with pytest.raises(InvalidInputError, match=f"{most:,}"):
        ask(fake, most + 1)
    assert len(fake.search("note", k=most, floor=None)) == 20


def test_more_neighbours_than_sqlite_vec_gives_are_all_there(opened):
    """A k beyond the 4,096 neighbours that sqlite-vec gives returns all that there are."""
    store = opened(embedder=FakeEmbedder())
    store.add_many([NewMemory(text=f"n{number}") for number in range(4_200)], embed="later")
    store.add("one to make the space")
    store.spaces.fill()
    found = store.search("anything", k=5_000, signals=["semantic"], floor=None)
    assert len(found) == 4_201


def test_ids_have_64_bits(words):
    """The largest id that can be imported is, the next memory comes after it, and past 64 bits there is none."""
    line = {"text": "a note", "id": 2**62 - 1, "created_at": "2024-01-01", "updated_at": "2024-01-01T00:00:00+00:00"}
    words.import_jsonl([json.dumps(line)])
    assert words.get(2**62 - 1).text == "a note"
    assert words.add("another note").id == 2**62
    with pytest.raises(InvalidInputError, match="id is"):
        words.import_jsonl([json.dumps({**line, "text": "a third", "id": 2**62})])
    assert words.get(checks.LARGEST_INTEGER) is None
    assert words.get(checks.LARGEST_INTEGER + 1) is None
    with words._database.write() as conn:
        conn.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'memories'", (checks.LARGEST_INTEGER,))
    with pytest.raises(StorageError, match="every id up to 9,223,372,036,854,775,807 was given"):
        words.add("one too many")
    assert words.count() == 2


def test_the_file_may_grow_to_what_sqlite_holds(words):
    """Pages are of 4 KiB and as many as SQLite counts: 17.5 TB."""
    connection = words._database.connection()
    assert connection.pragma("page_size") == 4096
    assert connection.pragma("max_page_count") == 4_294_967_294


def test_vectors_have_an_end(opened):
    """Vectors of the most dimensions are stored and searched; a wider model is refused before anything is made."""
    store = opened(embedder=FakeEmbedder(WIDEST))
    store.add("a wide note")
    assert store.search("a wide note", k=1, signals=["semantic"], floor=None)[0].memory.id == 1
    with pytest.raises(MemstoreError, match="8192"):
        store.spaces.add(FakeEmbedder(WIDEST + 1, model_id="wider"))
    assert [space.dimensions for space in store.spaces.list()] == [WIDEST]


def test_a_filter_has_an_end(words):
    """As many conditions, values and levels as may be are answered; one more is refused, and so are other depths."""
    words.add("a note", metadata={"a": 7})
    most = checks.MOST_CONDITIONS
    assert words.count(where={"a": {"$in": list(range(most))}}) == 1
    assert words.count(where={f"b{number}": {"$exists": False} for number in range(most)}) == 1
    assert words.count(where={".".join("a" * checks.MOST_LEVELS): 1}) == 0
    for where in (
        {"a": {"$in": list(range(most + 1))}},
        {f"b{number}": number for number in range(most + 1)},
        {".".join("a" * (checks.MOST_LEVELS + 1)): 1},
        {"a": nested(50)},
        {"a": {"$eq": nested(5_000)}},
        {"a": {"$in": [["x"]]}},
    ):
        with pytest.raises(InvalidInputError):
            words.count(where=where)
    assert words.count(where={"a" * 100_000: "x" * 1_000_000}) == 0


@pytest.mark.parametrize("run", ["note ", "a", "銀行", "a.", "Maria ", "the of "])
def test_a_query_is_read_up_to_its_limit(words, run):
    """A query of any length is answered by what stands in its beginning, and takes no longer for what follows."""
    words.add("a note about the key")
    words.add("the end of it all")
    begun = "key " + run * (checks.LONGEST_QUERY // len(run))
    found = words.search(begun + " end " + run * 100_000, k=2)
    assert found[0].memory.text == "a note about the key"
    late = words.search(" " * checks.LONGEST_QUERY + "key")
    assert not late.hits
    assert "no words" in late.skipped["keyword"]


def test_a_query_of_many_words_asks_by_the_first_thousand(words):
    """Of a pasted document the first thousand different words are asked."""
    words.add(f"w{MOST_QUERY_WORDS - 1}")
    words.add(f"w{MOST_QUERY_WORDS + 1}")
    found = words.search(" ".join(f"w{number}" for number in range(2 * MOST_QUERY_WORDS)), signals=["keyword"])
    assert [hit.memory.text for hit in found] == [f"w{MOST_QUERY_WORDS - 1}"]


def test_a_line_of_an_import_has_an_end(words):
    """A line that is longer than any memory as JSON is refused before it is read as JSON."""
    with pytest.raises(InvalidInputError, match=f"line 1: it has more than {LONGEST_LINE:,} characters"):
        words.import_jsonl(["[" * (LONGEST_LINE + 1)])
    assert words.count() == 0


def test_a_known_term_has_an_end(words):
    """The name and aliases of a known term are bounded as those of memories are."""
    words.terms.add("n" * checks.LONGEST_NAME, aliases=[f"alias {number}" for number in range(checks.MOST_TAGS)])
    with pytest.raises(InvalidInputError, match="1,001 characters"):
        words.terms.add("m" * (checks.LONGEST_NAME + 1))
    with pytest.raises(InvalidInputError, match="1,001 names"):
        words.terms.add_many([Term(name="other", aliases=tuple(map(str, range(checks.MOST_TAGS + 1))))])
    assert len(words.terms.list()) == 1


def test_numbers_of_numpy_have_the_same_limits(words):
    """A number of numpy's is bounded as Python's own is."""
    assert len(words.search("note", k=np.int64(checks.LARGEST_NUMBER))) == 0
    with pytest.raises(InvalidInputError, match="2,147,483,648"):
        words.search("note", k=np.int64(checks.LARGEST_NUMBER + 1))

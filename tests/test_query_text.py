"""Query text is plain text: no mark, word or byte of it is ever syntax, and a failure is never an empty answer."""

import pytest
from conftest import FakeEmbedder
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memstore import MemoryStore, NewMemory, SearchResult, memories
from memstore.errors import DamagedStoreError, MemstoreError

SIGNALS = ("keyword", "semantic", "entity")
MARKED = (
    "order #88 shipped, 12% off, ask bia@example.org, see lib/util.py, it's x,y, sure about R$ 18,90 at 14:30 "
    "[draft] {v2} <b> a|b c&d e~f g`h i\\j k^l m=n o;p q!r",
    "the cat sleeps on the warm sofa all day long",
    "nothing here is about commerce of any kind",
)
ID = "cff90d7c-a2ec-4437-aebf-5ba515430241"
EMPTY = ["", " ", "   ", '"', '""', '"""', "\t\n", "?!", "*", "()", "^", "-", "--", ":", "...", "'", "\x00", "\ud83e"]


@pytest.fixture(params=["words", "fake"])
def store(request) -> MemoryStore:
    """The same store twice: without an embedder and with the fake one."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """One store for tests that only read."""
    with MemoryStore(tmp_path_factory.mktemp("query") / "memory.db", embedder=FakeEmbedder()) as store:
        store.add_many([NewMemory(text=text, author="Ana", tags=["t"]) for text in MARKED])
        yield store


@pytest.mark.parametrize(
    "query",
    [
        *["#88", "12%", "bia@example.org", "lib/util.py", "it's", "sure?", "x,y", "18,90", "R$ 18,90", "14:30"],
        *["order?", "order!", "(order)", "order)", "(order", "[draft]", "{v2}", "<b>", '"order', 'order"', "'order'"],
        *["order*", "^order", "order:", "order;", "order.", "order,", "-order", "+order", "order+", "order/"],
        *["a|b", "c&d", "e~f", "g`h", "i\\j", "k^l", "m=n", "o;p", "q!r", "@bia", "#order", "\\order"],
        *["“order”", "«order»", "¿order?", "order…", "order—shipped", "ORDER\u00a0#88", "order\tshipped\n"],
        "\x00order\x00",
    ],
)
def test_a_query_with_punctuation_finds_the_text_that_has_its_words(words, query):
    """A query that holds punctuation finds the memory with its words, by words, first and alone."""
    stored = words.add_many([NewMemory(text=text) for text in MARKED])
    assert [hit.memory.id for hit in words.search(query)] == [stored[0].id]


@pytest.mark.parametrize("query", ["#88", "12%", "bia@example.org", "lib/util.py", "it's", "sure?", "x,y"])
def test_punctuation_costs_neither_words_nor_meaning_their_part(filled, query):
    """With an embedder too, a query with punctuation is answered by every signal and the words are found."""
    found = filled.search(query, weights={"semantic": 0.001})
    assert found.used == SIGNALS
    assert found[0].memory.text == MARKED[0]
    assert found[0].signals["keyword"].rank == 1


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("ERR-4018 means the printer is offline", "ERR-4018"),
        ("ERR-4018 means the printer is offline", "err-4018"),
        ("ERR-4018 means the printer is offline", "what does ERR-4018 mean?"),
        ("start it with docker-compose up", "docker-compose"),
        ("send me an e-mail tomorrow", "e-mail"),
        ("o guarda-chuva ficou no escritório", "guarda-chuva"),
        ("use x-ray-42 for the scan", "x-ray-42"),
        ("JIRA-7 is closed", "JIRA-7"),
    ],
)
def test_a_code_with_a_hyphen_is_one_word(store, text, query):
    """A code with a hyphen is looked up as written, ranks its memory first, and is never `column : term`."""
    others = ["ERR-4019 means the paper is out", "docker compose mail chuva 4018 42 7", "ERR guarda e x"]
    stored = store.add_many([NewMemory(text=one) for one in (*others, text)])
    found = store.search(query, signals=["keyword", "entity"])
    assert found[0].memory.id == stored[-1].id


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("owner: Ana", {"the owner is Ana"}),
        ('say "hello', {"they say hello"}),
        ("backup OR", {"a backup of the disk"}),
        ("menu (lunch", {"the lunch menu"}),
        ("^menu", {"the lunch menu"}),
        ("title:x", {"the title of x"}),
        ("terms:lunch", {"the lunch menu"}),
        ("terms : lunch", {"the lunch menu"}),
        ("neighbours: menu", {"the lunch menu"}),
        ("{terms neighbours}: menu", {"the lunch menu"}),
        ("- terms : menu", {"the lunch menu"}),
        ("menu AND", {"the lunch menu"}),
        ("menu NOT lunch", {"the lunch menu"}),
        ("NOT menu", {"the lunch menu"}),
        ("NEAR(lunch menu, 2)", {"the lunch menu"}),
        ("lunch + menu", {"the lunch menu"}),
        ("lun*", set()),
        ("'; DROP TABLE memories; --", set()),
        ("rank", set()),
        ("memory_terms MATCH rank:1", set()),
        ("%s %d {0} ? ?1 :name @p $v", set()),
    ],
)
def test_operators_of_the_engine_are_words(words, query, texts):
    """What FTS5 or SQL would read as an operator, a column or a parameter is a literal word of the query."""
    kept = ["the owner is Ana", "they say hello", "a backup of the disk", "the lunch menu", "the title of x"]
    words.add_many([NewMemory(text=text) for text in (*kept, "either or neither")])
    found = words.search(query, k=10)
    assert {hit.memory.text for hit in found} == texts
    assert words.count() == 6


@pytest.mark.parametrize("query", ["AND", "OR", "NOT", "NEAR", "NEAR(", "and or not", "AND NOT OR"])
@pytest.mark.parametrize("match", ["any", "all", "all_then_any"])
def test_a_boolean_word_alone_is_searched_as_a_word(words, query, match):
    """A query of nothing but an operator's name finds the memory that holds that word, however words are joined."""
    held = words.add(f"the word {query.strip('(')} stands here")
    words.add("another text without any of it")
    assert [hit.memory.id for hit in words.search(query, match=match)] == [held.id]


@pytest.mark.parametrize("query", EMPTY)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"match": "all"},
        {"match": "all_then_any"},
        {"profile": "technical"},
        {"signals": ["keyword"]},
        {"signals": ["semantic"]},
        {"tags": ["t"], "author": "Ana"},
        {"k": 100},
    ],
)
def test_a_query_without_words_gives_an_empty_answer_that_says_so(filled, query, options):
    """A query without any word is answered by nothing, and every signal's reason says that it has no words."""
    found = filled.search(query, **options)
    assert isinstance(found, SearchResult)
    assert len(found) == 0
    assert found.used == ()
    assert dict(found.skipped) == dict.fromkeys(SIGNALS, "the query has no words")


@pytest.mark.parametrize("query", ["", "?!", '"'])
def test_a_query_without_words_is_the_same_on_a_store_of_words_only(words, query):
    """Without an embedder the answer to a query without words is the same, on an empty store and on a filled one."""
    before = words.search(query)
    words.add(MARKED[0])
    after = words.search(query)
    assert dict(before.skipped) == dict(after.skipped) == dict.fromkeys(SIGNALS, "the query has no words")
    assert len(before) == len(after) == 0


def test_an_emoji_is_a_word(words):
    """A query of one emoji finds the memory that holds it, and nothing when none does."""
    words.add("a plain note")
    assert len(words.search("🎉")) == 0
    party = words.add("launch day 🎉 at last")
    assert [hit.memory.id for hit in words.search("🎉")] == [party.id]
    assert words.search("🎉").used == ("keyword", "entity")


@pytest.mark.parametrize("query", [ID, ID.upper(), f"{{{ID}}}", f"where is {ID.upper()}?", f"id={ID}", ID[:8]])
def test_an_identifier_is_found_in_either_case(store, query):
    """A memory is found first by the exact identifier that it holds, in upper and in lower case."""
    store.add("ticket cff90d7d-a2ec-4437-aebf-5ba515430242 is another one")
    held = store.add(f"the run {ID} failed")
    store.add("where is the id of the run that failed?")
    assert store.search(query, signals=["keyword", "entity"])[0].memory.id == held.id


SPANISH = (
    "Reservé un hotel en Córdoba para el viaje de octubre",
    "La impresora de la oficina no tiene papel",
    "Mamá cumple años el nueve de mayo",
    "El gimnasio cierra los domingos",
    "Compramos pan y leche en el mercado",
)


@pytest.mark.parametrize(
    "query",
    [
        "¿qué fue lo que te conté la otra semana sobre mi viaje?",
        "que fue lo que te conte sobre mis viajes",
        "oye, ¿te acuerdas de lo que dije de Córdoba?",
        "CORDOBA",
    ],
)
def test_a_natural_question_needs_one_matching_word_only(store, query):
    """A whole sentence finds the memory that shares one word of subject with it."""
    stored = store.add_many([NewMemory(text=text) for text in SPANISH])
    assert store.search(query, signals=["keyword", "entity"])[0].memory.id == stored[0].id


@pytest.mark.parametrize("query", ["¿de lo que y la?", "o que é que não", "what is the of", "de", "the"])
def test_a_query_of_function_words_is_searched_by_those_words(filled, words, query):
    """A query of function words alone is a query like any other: it is answered by the words it has, never an error."""
    found = filled.search(query)
    assert found.used == SIGNALS
    held = words.add(f"esto es «{query}» tal cual")
    words.add("xyzzy")
    assert [hit.memory.id for hit in words.search(query)] == [held.id]


@pytest.mark.parametrize(
    "query",
    [
        "z" * 40_000,
        " ".join(f"w{number}" for number in range(2_000)),
        " ".join(f"src/w{number}.py" for number in range(1_000)),
        "(" * 5_000 + "zebra",
        '"zebra" ' * 2_000,
        "a" + "\u0301" * 2_000,
        "-".join(["zebra"] * 2_000),
    ],
    ids=["a long word", "many words", "many paths", "parentheses", "repeated", "accents", "hyphens"],
)
@pytest.mark.parametrize("match", ["any", "all"])
def test_a_pasted_page_is_a_query(words, query, match):
    """A query of any length, of one word or of thousands, is answered."""
    held = words.add(query[:100_000])
    assert held.id in [hit.memory.id for hit in words.search(query, match=match)]


@settings(max_examples=300, deadline=None)
@example(query="\u0300", match="any")
@example(query="a \u0300 b", match="all")
@given(query=st.text(), match=st.sampled_from(["any", "all", "all_then_any"]))
def test_any_text_is_a_query(filled, query, match):
    """Any text at all, lone surrogates and control characters too, gives a search result and never an error."""
    found = filled.search(query, match=match)
    assert isinstance(found, SearchResult)
    assert set(found.used) | set(found.skipped) == set(SIGNALS)
    assert len(found) <= 3


@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(
        st.one_of(
            st.sampled_from([*"()\"*^:+-{},'", "AND", "OR", "NOT", "NEAR", "terms", "\x00"]),
            st.text(max_size=5),
        ),
        max_size=12,
    ),
    joint=st.sampled_from(["", " "]),
)
def test_any_mixture_of_operators_is_a_query(filled, pieces, joint):
    """Any run of FTS5 operators, marks and words gives a search result and never an error."""
    assert isinstance(filled.search(joint.join(pieces)), SearchResult)


@pytest.mark.parametrize(
    ("table", "signal"),
    [
        ("memory_terms", "keyword"),
        ("memory_terms", None),
        ("memory_entities", "entity"),
        ("memory_entities", None),
        ("analysed", "keyword"),
        ("tags", None),
        ("memories", None),
    ],
)
def test_a_failure_of_the_engine_is_an_error(fake, table, signal):
    """A search that the engine can't carry out raises an error of memstore's, never an answer of nothing.

    Vectors that are gone cost their own signal alone, which says so.
    """
    fake.add("Ana ordered the lunch menu for Berlin")
    assert len(fake.search("what did Ana order in Berlin?")) == 1
    conn = fake._database.connection()
    conn.pragma("foreign_keys", False)
    conn.execute(f"DROP TABLE {table}")
    with pytest.raises(MemstoreError, match=r"memory\.db"):
        fake.search("what did Ana order in Berlin?", signals=None if signal is None else [signal])


def test_a_failure_of_one_space_is_a_reason(fake):
    """Without its vectors a search answers by the other signals and says why; asked for them alone it is an error."""
    fake.add("Ana ordered the lunch menu for Berlin")
    fake._database.connection().execute("DROP TABLE vectors_1")
    found = fake.search("what did Ana order in Berlin?")
    assert len(found) == 1
    assert "the vectors of fake are damaged" in found.skipped["semantic"]
    with pytest.raises(MemstoreError, match="the vectors of fake are damaged"):
        fake.search("what did Ana order in Berlin?", signals=["semantic"])


@pytest.mark.parametrize("query", [None, 5, b"order", ["order"], object()])
def test_a_query_that_is_not_text_is_refused(words, query):
    """A query of another type than text is refused by name."""
    with pytest.raises(MemstoreError, match=f"query is {type(query).__name__}, not str"):
        words.search(query)


def test_a_memory_that_only_an_index_has_is_damage(fake, monkeypatch):
    """Where an index of a damaged file names a memory that its table does not give, a list says so."""
    fake.add("here")
    monkeypatch.setattr(memories, "ids", lambda *_: [1, 15_545])
    for ask in (fake.list, lambda: fake.changes("2020-01-01")):
        with pytest.raises(DamagedStoreError, match=r"an index of the memories is damaged .*15545"):
            ask()

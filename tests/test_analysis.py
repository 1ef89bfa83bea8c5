"""Text to terms and to passages: what a word is, which spellings meet, and where a long text is cut."""

import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memstore import InvalidInputError, MemoryStore, NewMemory, analyze
from memstore.analysis import Analyser, compounds, fold, pieces, words
from memstore.passages import cut

ANALYSER = Analyser()
# A machine that is busy with something else breaks no law.
LAW = settings(deadline=None)
STORABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
SAMPLES = "a o é É São e it's don´t d'água ção C++ .NET x,y 18,90 a/b İ ǅ -rf R$ 银行 ß ﷺ v1.2 👨\u200d👩\u200d👧"
AWKWARD = st.lists(st.sampled_from(SAMPLES.split())).map(" ".join)


def found(store: MemoryStore, notes: Sequence[str], query: str) -> list[str]:
    """Return the notes that a query finds, best first."""
    store.add_many([NewMemory(text=note) for note in notes])
    return [hit.memory.text for hit in store.search(query, k=20)]


def terms(text: str, *languages: str) -> list[str]:
    return ANALYSER.terms(text, languages)


def plain(word: str) -> str:
    """Return a word without its accents, as someone types it who has no keys for them."""
    decomposed = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", regex.sub(r"[\u0300-\u036f]", "", decomposed))


def asked(query: str) -> list[str]:
    return [word.word for word in ANALYSER.query(query)]


@LAW
@given(st.text() | AWKWARD)
def test_any_text_is_analysed(text):
    """Any Unicode text, half characters too, is analysed as a memory, as a query, for its language and step by step."""
    steps = analyze(text)
    assert list(steps.terms) == ANALYSER.terms(text, steps.languages)
    assert steps.query == ANALYSER.query(text)
    assert all(isinstance(term, str) for term in ANALYSER.terms(text, ANALYSER.languages_of(text)))
    assert all(word.terms for word in ANALYSER.query(text))
    assert set(ANALYSER.detect(text)) <= {"pt", "en", "es"}
    assert all(text[at : at + len(piece)] == piece for piece, at in pieces(text))


@LAW
@given(STORABLE | AWKWARD)
def test_composed_and_decomposed_texts_give_the_same_terms(text):
    """The composed and the decomposed form of a text give the same terms and the same query."""
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert ANALYSER.languages_of(composed) == ANALYSER.languages_of(decomposed)
    assert terms(composed, "pt", "en", "es") == terms(decomposed, "pt", "en", "es")
    assert ANALYSER.query(composed) == ANALYSER.query(decomposed)
    assert replace(analyze(composed), text="") == replace(analyze(decomposed), text="")


@LAW
@given(STORABLE | AWKWARD)
@example("copo d´água")
@example("\u0301")
def test_terms_are_whole(text):
    """A term is never empty and never holds white space, which would make it two terms in the index."""
    assert [term for term in terms(text, "pt", "en", "es") if term.split() != [term]] == []


@LAW
@given(STORABLE)
@example("™")
def test_folding_ends(text):
    """Folding a folded text changes nothing."""
    assert fold(fold(text)) == fold(text)


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[MemoryStore]:
    with MemoryStore(tmp_path_factory.mktemp("shared") / "memory.db", embedder="none") as store:
        yield store


@LAW
@given(text=(STORABLE | AWKWARD).filter(lambda text: text.strip() and ANALYSER.query(text)))
def test_own_text_finds_the_memory(shared, text):
    """A memory that has any word is found by its own text."""
    memory = shared.add(text)
    hits = shared.search(text, signals=["keyword"])
    shared.delete(memory.id)
    assert [hit.memory.id for hit in hits] == [memory.id]


@settings(deadline=None, max_examples=50)
@given(text=(STORABLE | AWKWARD).filter(lambda text: text.strip() and ANALYSER.query(text)))
@example(text="Informações da reunião: ERR-4018, C++, 18,90 €, İstanbul, 银行卡 👍🏽")
@example(text="los años del pingüino, d'água, Ørsted, ﬁnal, ﷺ, ǅ, ™, µ")
def test_each_word_finds_the_memory(shared, text):
    """A memory is found by any one of the words that its text asks for, as spelt, in capitals and without accents."""
    memory = shared.add(text)
    lost = []
    for one in ANALYSER.query(text):
        for spelling in (one.word, one.word.upper(), plain(one.word), unicodedata.normalize("NFD", one.word)):
            hits = shared.search(spelling, signals=["keyword"])
            if spelling and [hit.memory.id for hit in hits] != [memory.id]:
                lost.append((one.word, spelling))
    shared.delete(memory.id)
    assert lost == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("C++", ["c++"]),
        (".NET", [".net", "net", "≈net"]),
        ("18,90", ["18,90", "18", "90"]),
        ("R$ 18,90", ["r$", "18,90", "18", "90"]),
        ("ERR-4018", ["err-4018", "err", "≈err", "4018"]),
        ("(src/db.py)", ["src/db.py", "db.py", "src", "≈src", "db", "≈db", "py", "≈py"]),
        ("read_csv_safe()", ["read_csv_safe", "read", "≈read", "csv", "≈csv", "safe", "≈safe"]),
        ("HTTPServer", ["httpserver", "≈httpserver", "http", "≈http", "server", "≈server"]),
        ("x,y", ["x", "≈x", "y", "≈y"]),
        ("银行卡", ["银行", "≈银行", "行卡", "≈行卡"]),
        ("银", ["银", "≈银"]),
        ("👨‍👩‍👧", ["👨‍👩‍👧"]),
        ("می‌خواهم", ["می‌خواهم", "≈می‌خواهم"]),
        ("हिन्दी", ["हिन्दी", "≈हिन्दी"]),
        ("?! … —", []),
    ],
)
def test_terms_of_a_text(text, expected):
    """A code, path, price or symbol is one whole term next to its parts, and words keep their marks and joiners."""
    assert terms(text, "en") == expected


@pytest.mark.parametrize(
    ("piece", "whole"),
    [
        ("ana@example.org", ["ana@example.org", "example.org"]),
        ("v4.0.2-rc1", ["v4.0.2-rc1", "v4.0.2", "4.0.2-rc1", "4.0.2"]),
        ("https://ex.org/a?b=1", ["https://ex.org/a?b=1", "ex.org"]),
        ("docker-compose", ["docker-compose"]),
        ("printer", []),
        ("Straße", []),
    ],
)
def test_compounds(piece, whole):
    """A compound gives itself and its larger parts; a plain word is no compound."""
    assert list(compounds(piece)) == whole


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        ("camelCaseName", ["camelCaseName", "camel", "Case", "Name"]),
        ("HTTPServer", ["HTTPServer", "HTTP", "Server"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("ข้าว", ["ข้", "้า", "าว"]),
        ("東京tower", ["東京", "tower"]),
        ("👍🏽🎉", ["👍🏽", "🎉"]),
        ("🇧🇷", ["🇧🇷"]),
    ],
)
def test_words_of_a_piece(piece, expected):
    """Words are the humps of camelCase, the parts of snake_case, and pairs where a script has no spaces."""
    assert list(words(piece)) == expected


SYMBOLS = [
    "vitamin C in oranges",
    "the net result of it",
    "an e-mail from RM about the RF report",
    "never run rm -rf on prod",
    "C++ build flags",
    ".NET 8 upgrade",
    "Go 1.22",
    "o pastel custa R$ 18,90",
    "the 18 of May at 90 km/h",
]


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("rm -rf", "never run rm -rf on prod"),
        ("C++", "C++ build flags"),
        ("c++", "C++ build flags"),
        (".NET", ".NET 8 upgrade"),
        ("Go", "Go 1.22"),
        ("R$ 18,90", "o pastel custa R$ 18,90"),
        ("18,90", "o pastel custa R$ 18,90"),
        ("-rf", "never run rm -rf on prod"),
        (".net", ".NET 8 upgrade"),
        ("go", "Go 1.22"),
        ("1.22", "Go 1.22"),
        ("vitamin C", "vitamin C in oranges"),
        ("90 km", "the 18 of May at 90 km/h"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_short_and_symbolic_words(words, query, note, turned):
    """A short or symbolic word finds its own note first, whichever is older: C++ is not vitamin C."""
    assert found(words, SYMBOLS[::-1] if turned else SYMBOLS, query)[0] == note


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("AB-12", "12-AB"),
        ("ERR-4018", "4018-ERR"),
        ("ERR-4018", "ERR-4019"),
        ("TS1002", "TS1003"),
        ("k8s", "s8k"),
        ("JIRA-7", "JIRA-70"),
        ("GPT-4", "GPT-5"),
        ("x86_64", "x64_86"),
        ("10.0.0.7", "10.0.7.0"),
        ("v1.2", "v2.1"),
        ("3.10", "3.1"),
        ("2024-05-08", "2024-08-05"),
        ("14:30", "30:14"),
        ("18,90", "90,18"),
        ("src/db.py", "db/src.py"),
        ("read_csv_safe", "safe_csv_read"),
        ("docker-compose", "compose-docker"),
        ("e-mail", "mail-e"),
        ("C++", "C#"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_code_is_not_another_of_the_same_parts(words, one, other, turned):
    """Each of two codes that share their parts ranks its own note first, a longer one too, whichever is older."""
    notes = {one: f"we asked about {one} in May, and nobody had an answer", other: f"{other} is here"}
    order = [notes[other], notes[one]] if turned else [notes[one], notes[other]]
    assert found(words, order, one)[0] == notes[one]
    assert found(words, order, other)[0] == notes[other]


@pytest.mark.parametrize("query", ["read_csv_safe", "READ_CSV_SAFE", "read csv safe", "csv_safe"])
def test_identifier_and_its_parts(words, query):
    """An identifier is found whole and by its parts, and stands before a note that only has the words."""
    notes = ["read the csv file in a safe place", "use read_csv_safe() here"]
    assert found(words, notes, query)[0] == notes[1]


@pytest.mark.parametrize(
    "query",
    ["ana@example.org", "ANA@EXAMPLE.ORG", "v4.0.2-rc1", "4.0.2-rc1", "https://ex.org/a?b=1", "example.org"],
)
def test_address_link_and_version(words, query):
    """An address, a link and a version are found as they are written."""
    note = "write to ana@example.org about v4.0.2-rc1, see https://ex.org/a?b=1"
    assert found(words, ["version 4.0.3 is out", "bia wrote to ana in org", note], query)[0] == note


@pytest.mark.parametrize("query", ["银行卡", "银行", "我们决定", "昨天我们决定换银行卡", "换银行卡吗？"])
def test_text_without_spaces(words, query):
    """A phrase inside a text that is written without spaces is found, down to two characters."""
    assert found(words, ["今天下雨了", "昨天我们决定换银行卡", "行人很多"], query)[0] == "昨天我们决定换银行卡"


@pytest.mark.parametrize(
    ("note", "query"),
    [
        ("family 👨‍👩‍👧 photo", "👨‍👩‍👧"),
        ("🎉", "🎉"),
        ("thumbs up 👍🏽 from Bia", "👍🏽"),
        ("من می‌خواهم چای", "می‌خواهم"),
        ("मुझे हिन्दी पसंद है", "हिन्दी"),
        ("ฉันชอบกินข้าวผัด", "ข้าวผัด"),
        ("コーヒーを飲みます", "コーヒー"),
        ("오늘은 서울에 있다", "서울에"),
        ("Привет из Москвы", "москвы"),
        ("Καλημέρα κόσμε", "καλημερα"),
    ],
)
def test_any_script(words, note, query):
    """Words of any script, and emoji, are found and stand in the hit as what matched."""
    words.add("something else entirely")
    words.add(note)
    (hit,) = words.search(query)
    assert hit.memory.text == note
    assert hit.terms == tuple(asked(query))


@pytest.mark.parametrize(("first", "second"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_composed_meets_decomposed(words, first, second):
    """Composed and decomposed spellings are equal as text, entity, tag, metadata, author and duplicate."""
    stored, other = (unicodedata.normalize(form, "reunião com Verônica") for form in (first, second))
    memory = words.add(stored, tags=[stored], metadata={stored: stored}, entities=[stored], author=stored)
    assert words.add(other, author=other).id == memory.id
    assert words.count() == 1
    hit = words.search(other)[0]
    assert hit.signals["keyword"].rank == 1
    assert hit.signals["entity"].rank == 1
    for chosen in ({"tags": [other]}, {"where": {other: other}}, {"author": other}):
        assert words.count(**chosen) == 1
    assert len(words.entities()) == len(words.get(memory.id).entities) == 2


@pytest.mark.parametrize(
    ("note", "query"),
    [
        ("Ørsted", "orsted"),
        ("Łódź", "lodz"),
        ("Straße", "strasse"),
        ("STRASSE", "straße"),
        ("Æsir", "aesir"),
        ("Þingvellir", "thingvellir"),
        ("cœur", "coeur"),
        ("Đà Nẵng", "da nang"),
        ("İstanbul", "istanbul"),
        ("ﬁnal", "final"),
        ("informação", "informacao"),
        ("la respiración", "respiracion"),
        ("informações da reunião", "informacao reuniao"),
        ("avó", "avo"),
        ("ＦＵＬＬ", "full"),
        ("™", "tm"),
    ],
)
def test_spelling_without_accents(words, note, query):
    """A query without accents, ligatures or special letters finds the note that is spelt with them, and back."""
    words.add(note)
    assert len(words.search(query, signals=["keyword"])) == 1
    assert len(words.search(note, signals=["keyword"])) == 1
    other = words.add(query, namespace="other")
    assert [hit.memory.id for hit in words.search(note, namespace="other", signals=["keyword"])] == [other.id]


@pytest.mark.parametrize(
    ("note", "query"),
    [
        ("as informações da reunião", "reuniões e informação"),
        ("las decisiones del equipo", "decisión"),
        ("they were running late", "run"),
        ("pagamentos atrasados", "pagamento"),
    ],
)
def test_other_form_of_a_word(words, note, query):
    """Another form of the same word finds the note."""
    assert found(words, ["something else", note], query) == [note]


@pytest.mark.parametrize(
    ("exact", "other"),
    [
        ("casa", "casas"),
        ("casas", "casa"),
        ("running", "runs"),
        ("decisión", "decisiones"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_exact_spelling_comes_first(words, exact, other, turned):
    """The spelling of the query ranks above another form of the same word, whichever is older."""
    notes = [f"{exact} guardada", f"{other} guardada"]
    assert found(words, notes[::-1] if turned else notes, exact)[0] == notes[0]


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("what does the printer do?", ["printer"]),
        ("o que significa o erro da impressora?", ["significa", "erro", "impressora"]),
        ("¿qué fue lo que te conté sobre mi viaje?", ["conté", "viaje"]),
        ("decisão sobre pagamento", ["decisão", "pagamento"]),
        ("it's the printer", ["printer"]),
        ("printer printer PRINTER", ["printer"]),
        ("what is it?", ["what", "is", "it"]),
        ("¿de lo que y la?", ["de", "lo", "que", "y", "la"]),
        ("?!", []),
        ("", []),
    ],
)
def test_words_of_a_query(query, kept):
    """A query is asked without its function words, each word once, unless nothing else is left."""
    assert asked(query) == kept


def test_function_words_are_found_when_they_are_all_there_is(words):
    """A memory of nothing but function words is found by them."""
    assert found(words, ["to be or not to be", "printer"], "to be or not to be") == ["to be or not to be"]


def test_function_words_find_nothing_beside_a_subject(words):
    """The function words of a question are no reason to find a note that lacks its subject."""
    notes = ["the printer is on the second floor", "it is what it is and the rest is the rest"]
    assert found(words, notes, "what is the floor of the printer?") == notes[:1]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("o que é isso que não está aqui", "pt"),
        ("la casa de los niños está cerrada", "es"),
        ("the house of the children is closed", "en"),
        ("ação", "pt"),
        ("niño", "es"),
        ("ERR-4018", None),
        ("银行卡", None),
    ],
)
def test_language_is_detected(words, text, language):
    """The language of a memory is the one that its function words and letters tell, else None."""
    assert words.add(text).language == language


@pytest.mark.parametrize(
    ("text", "given", "languages"),
    [
        ("the house of the children", "pt", ("pt",)),
        ("the house of the children", "fr", ("en",)),
        ("the house of the children", None, ("en",)),
        ("ERR-4018", None, ("pt", "en", "es")),
        ("ERR-4018", "es", ("es",)),
    ],
)
def test_languages_of_a_memory(text, given, languages):
    """A memory is stemmed in the given language, else in the detected one, else in all of the store's."""
    assert ANALYSER.languages_of(text, given) == languages


def test_given_language_is_kept(words):
    """A language that the caller gives is kept, known to the stemmers or not, and can be changed."""
    memory = words.add("the house of the children", language="fr")
    assert memory.language == "fr"
    assert words.update(memory.id, language=None).language == "en"


def test_store_of_one_language(opened):
    """A store made for one language stems in that one alone, and says so when it is opened again."""
    store = opened(embedder="none", languages=("en",))
    store.add("o que é isso que não está aqui")
    assert store.stats().languages == ("en",)
    assert found(store, ["running late"], "runs")[0] == "running late"
    assert opened(embedder="none").stats().languages == ("en",)


@pytest.mark.parametrize("nuls", [1, 10_000])
def test_a_refused_text_leaves_the_index_whole(words, nuls):
    """A text with one NUL or a long run of them is refused before anything is written; the others stay findable."""
    held = words.add("the printer is offline")
    with pytest.raises(InvalidInputError, match="text has a NUL character at 5"):
        words.add("alpha" + "\x00" * nuls + "omega")
    with words._database.write() as conn:
        conn.execute("INSERT INTO memory_terms (memory_terms) VALUES ('integrity-check')")
    assert words.count() == 1
    assert [hit.memory.id for hit in words.search("printer")] == [held.id]
    assert len(words.search("alpha omega", signals=["keyword"])) == 0
    words.add("alpha and omega")
    assert len(words.search("alpha\x00omega", signals=["keyword"])) == 1


@pytest.mark.parametrize("query", ["ok \ud83e", "\ud83eok", "ok\udce9", "caf\udce9 ok"])
def test_half_a_character_in_a_query_is_passed_over(words, query):
    """A query with half of an emoji, or a byte that is no character, is answered by the words beside it."""
    held = words.add("that is ok")
    words.add("something else")
    assert [hit.memory.id for hit in words.search(query)] == [held.id]


OFFLINE = """
import pathlib, socket, sys, tempfile
def refused(*_, **__):
    raise AssertionError("the network was asked")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refused
from memstore import MemoryStore
assert "nltk" not in sys.modules
with MemoryStore(pathlib.Path(tempfile.mkdtemp()) / "m.db", embedder="none") as store:
    for text in ("as informações da reunião", "las decisiones del equipo", "they were running late"):
        store.add(text)
    print([len(store.search(query)) for query in ("informação", "decisión", "runs")])
"""


def test_nothing_asks_for_nltk_data(tmp_path):
    """Three languages are added and searched without nltk_data and network, and nltk is loaded only to stem."""
    environment = os.environ | {"NLTK_DATA": str(tmp_path), "HOME": str(tmp_path), "APPDATA": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout.strip() == "[1, 1, 1]"


ASKING = """
import sys
from memstore import MemoryStore
with MemoryStore(sys.argv[1], embedder="none", read_only=True) as store:
    for query in sys.argv[2:]:
        print(len(store.search(query)), "nltk" in sys.modules)
"""


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        (
            [
                "reuniões",
                "REUNIOES",
                "informacao",
                "anos",
                "a run costs 18,90",
                "银行卡",
                "C++ ERR-4018",
                "reuniões 4711",
            ],
            "1 False",
        ),
        (["reunião"], "1 True"),
        (["xyzzy"], "0 True"),
    ],
)
def test_a_search_of_known_words_needs_no_stemmer(words, path, queries, expected):
    """A new process answers without nltk where memories have the words, accents left out too, and with it otherwise."""
    words.add("as informações das reuniões: uma informação")
    words.add("ERR-4018 in C++ costs 18,90 and a run")
    words.add("los años, 我的银行卡")
    done = subprocess.run(
        [sys.executable, "-c", ASKING, str(path), *queries], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout.split("\n")[:-1] == [expected] * len(queries)


WIDE = "銀あ한ก"
CUTTABLE = st.text(st.sampled_from("ab c.!?\n 。é" + WIDE), max_size=400) | st.lists(
    st.sampled_from(["word", "another", "end. ", "ende!\n\n", "銀行。", "x" * 70, " ", "\n"]), max_size=80
).map(" ".join)


def units(text: str) -> int:
    return sum(4 if character in WIDE + "行" else 1 for character in text)


@LAW
@given(text=CUTTABLE.filter(bool), limit=st.integers(40, 120))
def test_passages_cover_the_text(text, limit):
    """Passages come in order, begin and end with the text, leave no gap, and none is empty or beyond the limit."""
    spans = cut(text, limit)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    for start, stop in spans:
        assert start < stop
        assert units(text[start:stop]) <= limit
    for (start, stop), (following, end) in pairwise(spans):
        assert start < following <= stop < end


@LAW
@given(text=CUTTABLE.filter(bool), limit=st.integers(40, 120))
def test_passages_keep_words_whole(text, limit):
    """A passage begins and ends between words, unless a word alone is beyond the limit or a mark ends a sentence."""
    bounds = {one for span in cut(text, limit) for one in span}
    for word in regex.finditer(r"(\S+)\s*", text):
        inside = bounds.intersection(range(word.start() + 1, word.end(1)))
        assert units(word.group()) > limit or all(text[bound - 1] == "。" for bound in inside)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 1),
        ("short", 1),
        ("a" * 800, 1),
        ("a" * 801, 2),
        ("a" * 100_000, 125),
        ("銀" * 200, 1),
        ("銀" * 201, 2),
        ("한" * 1_000, 5),
    ],
)
def test_number_of_passages(text, count):
    """A character counts one unit and one of a dense script four; a word without spaces is cut where it must be."""
    spans = cut(text, 800)
    assert len(spans) == count
    assert "".join(text[start:stop] for start, stop in spans) == text


def test_short_last_sentence_is_repeated():
    """A passage begins with the last sentence of the one before it when that is short."""
    text = "".join(f"This is sentence number {n:03}. " for n in range(60))
    assert cut(text, 800) == [(0, 27 * 29), (26 * 29, 53 * 29), (52 * 29, 60 * 29)]


@pytest.mark.parametrize(
    ("query", "other"),
    [("4.0.2", "4.0.3"), ("4.0.2", "4.1.2"), ("4.0.2", "2.0.4"), ("4.0.2", "4.0"), ("10.0.0.7", "10.0.0.8")],
)
def test_version_is_not_its_neighbour(words, query, other):
    """A version ranks the note that holds it above a shorter note on another version."""
    note = f"write to Ana about v{query}-rc1, see the page on releases"
    assert found(words, [f"version {other} is out", note], query)[0] == note


@pytest.mark.parametrize("mark", list("._-+#$%/!?…*,;:'@~&=|"))
def test_long_runs_of_a_mark_stay_linear(mark):
    """A hundred thousand marks before a letter are analysed and cut at once, not in quadratic time."""
    text = mark * 100_000 + "a"
    analyser = Analyser()
    assert analyser.terms(text, ("en",))
    analyser.query(text)
    assert cut(text)[-1][1] == len(text)

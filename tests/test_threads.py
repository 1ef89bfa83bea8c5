"""Threads: what stands beside a memory helps to find it, after any change of the thread; author and date do too."""

import itertools
import math
import re
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from conftest import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from memstore import MemoryStore, NewMemory
from memstore.analysis import Analyser, weight
from memstore.ranking import BM25

PAST = "2000-01-01T00:00:00Z"
ANALYSER = Analyser()


def found(store: MemoryStore, query: str, **options) -> dict[str, float | None]:
    """Return the keyword score of each memory that is found, by its text."""
    hits = store.search(query, k=50, signals=["keyword"], **options)
    return {hit.memory.text: hit.signals["keyword"].raw for hit in hits}


def talk(store: MemoryStore, *texts: str, thread: str = "talk", **fields) -> dict[str, int]:
    """Store a conversation; return the id of each turn by its text."""
    memories = store.add_many([NewMemory(text=text, thread=thread, **fields) for text in texts])
    return {memory.text: memory.id for memory in memories}


def index(store: MemoryStore) -> list[tuple]:
    """Return every row of the keyword index, term by term."""
    with store._database.read() as conn:
        conn.execute("CREATE VIRTUAL TABLE temp.shown USING fts5vocab('main', 'memory_terms', 'instance')")
        rows = conn.execute("SELECT doc, col, offset, term FROM temp.shown ORDER BY doc, col, offset").fetchall()
        return [*rows, *conn.execute("SELECT * FROM analysed"), *conn.execute("SELECT * FROM statistics")]


def neighbours(store: MemoryStore) -> dict[str, list[str]]:
    """Return the texts beside each text, as its row of the index was made."""
    with store._database.read() as conn:
        beside = dict(conn.execute("SELECT memory_id, beside FROM analysed"))
    texts = {memory.id: memory.text for memory in store.list(limit=1_000)}
    return {texts[one]: [texts[int(other)] for other in beside[one].split()] for one in texts}


@pytest.mark.parametrize("at", range(7))
def test_two_turns_each_way(words, at):
    """A word finds the memory that says it first, then the turns up to two before and two after it, and no others."""
    texts = [f"turn {name}" for name in "abcdefg"]
    texts[at] += " zebra"
    talk(words, *texts)
    scores = found(words, "zebra")
    assert set(scores) == set(texts[max(0, at - 2) : at + 3])
    first, *others = scores
    assert first == texts[at]
    assert all(0 < scores[other] < scores[first] for other in others)


def test_all_beside_that_say_it_add_up(words):
    """A turn between two that say a word is above a turn beside one of them, and below those that say it."""
    talk(words, "aaa", "bbb zebra", "ccc", "ddd zebra", "eee", "fff", "ggg")
    scores = found(words, "zebra")
    assert scores.keys() == {"aaa", "bbb zebra", "ccc", "ddd zebra", "eee", "fff"}
    # Each of the two that say it has the other beside it too.
    assert scores["bbb zebra"] == scores["ddd zebra"] > scores["ccc"] > scores["aaa"] == scores["eee"] == scores["fff"]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"thread": "talk"}, {"one", "zebra two"}),
        ({"thread": "Talk"}, {"zebra two"}),
        ({"thread": "talk", "namespace": "work"}, {"zebra two"}),
        ({"thread": None}, {"zebra two"}),
    ],
)
def test_only_in_the_same_thread(words, other, expected):
    """Memories stand beside each other only in one thread of one namespace."""
    words.add("one", thread="talk")
    words.add("zebra two", **other)
    assert set(found(words, "zebra")) == expected


def test_memories_without_a_thread_stand_alone(words):
    """Memories that are in no thread have no neighbours, whatever their order."""
    words.add_many([NewMemory(text=text) for text in ("one", "zebra two", "three")])
    assert set(found(words, "zebra")) == {"zebra two"}
    assert set(map(tuple, neighbours(words).values())) == {()}


@pytest.mark.parametrize(
    ("verb", "turns", "fields", "expected"),
    [
        ("add", "new", {"position": 1.5}, "new bbb zebra ddd eee"),
        ("add", "new", {"position": 2}, "bbb zebra new ddd aaa"),
        ("add", "new", {}, "aaa bbb zebra ddd eee"),
        ("add", "new", {"position": -7}, "aaa bbb zebra ddd eee"),
        # The same text is the same memory, and keeps its place.
        ("add", "zebra", {"position": -7}, "aaa bbb zebra ddd eee"),
        ("update", "zebra", {"position": 9}, "zebra fff ggg"),
        ("update", "zebra", {"position": -9}, "zebra aaa bbb"),
        ("update", "zebra", {"position": 4.5}, "ddd eee zebra fff ggg"),
        ("update", "ddd", {"position": -9}, "aaa bbb zebra eee fff"),
        ("update", "ggg", {"position": 1.5}, "bbb ggg zebra ddd eee"),
        ("update", "zebra", {"thread": "other"}, "zebra"),
        ("update", "zebra", {"thread": None}, "zebra"),
        ("update", "zebra", {"namespace": "work"}, "zebra"),
        ("update", "bbb", {"thread": "other"}, "aaa zebra ddd eee"),
        ("update", "bbb", {"namespace": "work"}, "aaa zebra ddd eee"),
        ("delete", "bbb", {}, "aaa zebra ddd eee"),
        ("delete", "ddd eee", {}, "aaa bbb zebra fff ggg"),
        ("delete", "zebra", {}, ""),
        ("update", "zebra", {"text": "horse"}, ""),
        ("update", "ggg", {"text": "giraffe, zebra"}, "aaa bbb zebra ddd eee fff giraffe,"),
        ("update", "ggg", {"author": "Zebra"}, "aaa bbb zebra ddd eee fff ggg"),
        ("update", "bbb", {"text": "bbb!"}, "aaa bbb! zebra ddd eee"),
        ("update", "zebra", {"tags": ["x"], "metadata": {"a": 1}}, "aaa bbb zebra ddd eee"),
    ],
)
def test_a_change_of_the_thread_takes_effect(words, verb, turns, fields, expected):
    """What comes between, moves, leaves, goes or says something else changes what is beside what."""
    ids = talk(words, "aaa", "bbb", "zebra", "ddd", "eee", "fff", "ggg")
    if verb == "add":
        words.add(turns, thread="talk", **fields)
    elif verb == "update":
        words.update(ids[turns], **fields)
    else:
        words.delete([ids[turn] for turn in turns.split()])
    assert {text.split()[0] for text in found(words, "zebra")} == set(expected.split())


def test_a_memory_that_expired_is_beside_none_once_it_is_purged(words):
    """The next write after a memory has expired takes it out of what is found beside it too."""
    ids = talk(words, "aaa", "bbb", "zebra", "ddd", "eee")
    words.update(ids["zebra"], expires_at=PAST)
    assert "zebra" not in found(words, "zebra")
    words.add("another note")
    assert found(words, "zebra") == {}
    assert neighbours(words)["bbb"] == ["aaa", "ddd", "eee"]


def test_a_keyed_memory_moves_to_the_thread_that_it_is_added_to(words):
    """Adding under a key into another thread takes the memory out of the one and puts it at the end of the other."""
    talk(words, "aaa", "bbb", thread="one")
    talk(words, "ccc", "ddd", "eee", thread="two")
    words.add("zebra", key="k", thread="one")
    assert set(found(words, "zebra")) == {"aaa", "bbb", "zebra"}
    moved = words.add("zebra", key="k", thread="two")
    assert (moved.outcome, moved.position) == ("updated", 3.0)
    assert set(found(words, "zebra")) == {"ddd", "eee", "zebra"}
    words.add("zebra", key="k", thread="two", position=-1)
    assert set(found(words, "zebra")) == {"ccc", "ddd", "zebra"}


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ([0, 1, 2, 3], "aaa bbb ccc ddd"),
        ([3, 2, 1, 0], "ddd ccc bbb aaa"),
        ([-1, -2, -2.5, 0], "ccc bbb aaa ddd"),
        ([0.5, 0.25, 0.75, 1e-9], "ddd bbb aaa ccc"),
        ([1, 1, 1, 1], "aaa bbb ccc ddd"),
        ([1, 0, 1, 0], "bbb ddd aaa ccc"),
        ([0.0, -0.0, 0, 0.0], "aaa bbb ccc ddd"),
        ([1e300, -1e300, 5e-324, 0], "bbb ddd ccc aaa"),
    ],
)
def test_order_in_a_thread(words, positions, expected):
    """The order is that of any positions, negative and fractional; memories at one position stand by their ids."""
    texts = ["aaa", "bbb", "ccc", "ddd"]
    for text, position in zip(texts, positions, strict=True):
        words.add(text, thread="talk", position=position)
    order = expected.split()
    assert [memory.text for memory in words.list(order="thread")] == order
    assert neighbours(words) == {
        text: [*order[max(0, at - 2) : at], *order[at + 1 : at + 3]] for at, text in enumerate(order)
    }


CONVERSATION = [
    NewMemory(text=text, author=author, thread=thread, created_at=created_at)
    for text, author, thread, created_at in [
        ("did you see the zebra at the zoo?", "Ana", "talk", "2023-05-08T10:00Z"),
        ("yes, and the lion slept", "Beto", "talk", "2023-05-08T10:01Z"),
        ("o leão dormia o dia todo", "Ana", "talk", "2023-05-08T10:02Z"),
        ("a note in between", None, None, None),
        ("the zebra, the zebra!", "Beto", "talk", "2023-05-08T10:03Z"),
        ("another talk of a zebra", "Ana", "other", None),
        ("vamos de novo em maio", "Ana", "talk", "2023-05-09T08:00Z"),
        ("and of a lion", "Beto", "other", None),
        ("combinado", "Beto", "talk", "2023-05-09T08:01Z"),
    ]
]


def test_a_whole_conversation_at_once_is_as_turn_by_turn(tmp_path):
    """A conversation that is added at once gives the same index and scores as one that is added turn by turn."""
    with (
        MemoryStore(tmp_path / "one.db", embedder="none") as one,
        MemoryStore(tmp_path / "many.db", embedder="none") as many,
    ):
        for turn in CONVERSATION:
            one.add_many([turn])
        many.add_many(CONVERSATION)
        assert index(one) == index(many)
        for query in ("zebra", "the lion of Ana", "dormir", "2023-05-09"):
            assert found(one, query) == found(many, query) != {}


@given(order=st.permutations(range(len(CONVERSATION))), cuts=st.sets(st.integers(1, len(CONVERSATION) - 1)))
@settings(max_examples=20, deadline=None)
def test_any_order_of_adding_gives_the_same_scores(tmp_path_factory, order, cuts):
    """Turns that come in any order, in any batches, with their positions are scored as those that came in order."""
    placed = [
        NewMemory(**{**_fields(turn), "position": float(at) if turn.thread else None})
        for at, turn in enumerate(CONVERSATION)
    ]
    folder: Path = tmp_path_factory.mktemp("order")
    with (
        MemoryStore(folder / "a.db", embedder="none") as straight,
        MemoryStore(folder / "b.db", embedder="none") as shuffled,
    ):
        straight.add_many(placed)
        for start, stop in itertools.pairwise([0, *sorted(cuts), len(order)]):
            shuffled.add_many([placed[at] for at in order[start:stop]])
        assert neighbours(straight) == neighbours(shuffled)
        for query in ("zebra", "the lion of Ana", "dormir", "2023-05-09"):
            assert found(shuffled, query) == pytest.approx(found(straight, query))


def test_an_import_brings_the_neighbours_back(words, tmp_path):
    """An export that is read into another file gives the same index, in whatever order its lines are."""
    words.add_many(CONVERSATION)
    words.add("in between", thread="talk", position=0.5)
    words.export(tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    for number, order in enumerate((lines, lines[::-1])):
        with MemoryStore(tmp_path / f"{number}.db", embedder="none") as other:
            other.import_jsonl(order)
            assert index(other) == index(words)
            assert found(other, "zebra") == found(words, "zebra")


def _fields(memory: NewMemory) -> dict:
    return {name: getattr(memory, name) for name in NewMemory.__dataclass_fields__}


def by_hand(thread: list[str], others: list[str], query: str, ranking: BM25) -> dict[str, float]:
    """Return the keyword scores of a thread and of memories in none, by the formula alone."""
    texts = [*thread, *others]
    counts = {text: Counter(ANALYSER.terms(text, ANALYSER.languages_of(text))) for text in texts}
    mean = sum(counted.total() for counted in counts.values()) / len(texts)

    def richness(text: str, term: str) -> float:
        return counts[text][term] / (1 - ranking.b + ranking.b * counts[text].total() / mean)

    scores = dict.fromkeys(texts, 0.0)
    for term in {term for word in ANALYSER.query(query) for term in word.terms}:
        holding = sum(counts[text][term] > 0 for text in texts)
        if not holding:
            continue
        idf = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
        for text in texts:
            at = thread.index(text) if text in thread else None
            beside = [] if at is None else [*thread[max(0, at - 2) : at], *thread[at + 1 : at + 3]]
            total = richness(text, term) + ranking.neighbours * sum(richness(other, term) for other in beside)
            if total > 0:
                scores[text] += idf * weight(term) * (ranking.k1 + 1) * total / (total + ranking.k1)
    return {text: score for text, score in scores.items() if score > 0}


THREAD = ["11 22 33 33", "we saw the zebra", "44", "zebra, zebra and a lion 11", "55 66 77 88 99", "the end"]


@pytest.mark.parametrize("query", ["11", "zebra", "zebra 11", "lions at the end", "33 of 99", "44 zebras"])
@pytest.mark.parametrize(
    "ranking", [BM25(), BM25(k1=1.2, b=0.75), BM25(neighbours=0), BM25(neighbours=1, b=0), BM25(k1=0.1, b=1)]
)
def test_score_by_hand(opened, ranking, query):
    """The raw score is idf and weight times the saturated frequency, own and, for their share, of those beside it."""
    store = opened(embedder="none", ranking=ranking)
    talk(store, *THREAD)
    others = ["a lion alone", "22 zebras"]
    store.add_many([NewMemory(text=text) for text in others])
    assert found(store, query) == pytest.approx(by_hand(THREAD, others, query, ranking))


def test_score_of_numbers_by_hand(words):
    """The score of a number in three turns is what a pocket calculator gives."""
    talk(words, "11 11 22", "33", "44 55 66 77")
    ranking = BM25()
    mean = 8 / 3
    own = 2 / (1 - ranking.b + ranking.b * 3 / mean)
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))

    def score(frequency: float) -> float:
        return weight("11") * idf * (ranking.k1 + 1) * frequency / (frequency + ranking.k1)

    beside = score(ranking.neighbours * own)
    assert found(words, "11") == pytest.approx({"11 11 22": score(own), "33": beside, "44 55 66 77": beside})


def test_idf_is_that_of_the_memories_that_say_it(words):
    """Neighbours make no term more frequent: a word that one turn says is as rare in a thread as outside of one."""
    talk(words, "zebra", "bbb", "ccc")
    inside = found(words, "zebra")["zebra"]
    for memory in words.list():
        words.update(memory.id, thread=None)
    assert found(words, "zebra") == {"zebra": pytest.approx(inside)}


def test_neighbours_can_be_left_out(opened):
    """A ranking without neighbours finds only the memories that say a word themselves."""
    store = opened(embedder="none", ranking=BM25(neighbours=0))
    talk(store, "aaa", "zebra", "ccc")
    assert set(found(store, "zebra")) == {"zebra"}
    with_neighbours = opened(embedder="none")
    assert set(found(with_neighbours, "zebra")) == {"aaa", "zebra", "ccc"}


def test_a_filter_keeps_out_the_memory_and_not_what_it_lends(words):
    """A turn that passes a filter is found by what stands beside it, though that does not pass."""
    talk(words, "did you see the zebra?", author="Ana")
    talk(words, "yes", author="Beto")
    assert set(found(words, "zebra", author="Beto")) == {"yes"}


def test_a_hit_that_only_its_neighbours_found_holds_no_words(words):
    """A hit says which words of the query it holds itself: none when only those beside it have them."""
    talk(words, "zebra", "bbb")
    assert {hit.memory.text: hit.terms for hit in words.search("zebra")} == {"zebra": ("zebra",), "bbb": ()}


@pytest.mark.parametrize("query", ["Ana", "souza", "2023-05-08", "maio", "May", "mayo"])
def test_author_and_date_are_found_by_keywords(words, query):
    """A memory is found by its author, and by the date that the caller gave as ISO 8601 or by its month's name."""
    words.add("o pagamento atrasou", author="Ana Souza", created_at="2023-05-08T10:00Z")
    words.add("o pagamento chegou", author="Beto", created_at="2021-11-30T10:00Z")
    words.add("o pagamento voltou")
    assert set(found(words, query)) == {"o pagamento atrasou"}


def test_only_a_given_date_is_text(words):
    """The time at which a memory was stored is no text of it."""
    words.add("o pagamento atrasou")
    assert found(words, datetime.now(UTC).date().isoformat()) == {}


def test_the_month_is_named_in_the_languages_of_the_store(opened):
    """The month of a date is found under its names in the store's languages alone."""
    store = opened(embedder="none", languages=("pt",))
    store.add("o pagamento atrasou", created_at=date(2023, 5, 8))
    assert set(found(store, "maio")) == {"o pagamento atrasou"}
    assert found(store, "mayo") == {}


def test_author_and_date_follow_a_change(words):
    """Another author or date takes the place of the one before in what is found."""
    memory = words.add("o pagamento atrasou", author="Ana", created_at="2023-05-08T10:00Z")
    words.update(memory.id, author="Beto", created_at="2021-11-30T10:00Z")
    for query, text in {"Ana": [], "maio": [], "Beto": [memory.text], "2021-11-30": [memory.text]}.items():
        assert list(found(words, query)) == text
    words.update(memory.id, author=None)
    assert found(words, "Beto") == {}


def test_the_author_of_a_turn_is_beside_its_neighbours(words):
    """What is lent to a neighbour is all that is indexed of a turn: its author and date too."""
    talk(words, "did you go?", author="Ana", created_at="2023-05-08T10:00Z")
    talk(words, "yes", author="Beto")
    assert set(found(words, "Ana")) == set(found(words, "maio")) == {"did you go?", "yes"}


@pytest.mark.parametrize(
    ("fields", "embedded"),
    [
        ({}, "the key is here"),
        ({"author": "Ana"}, "Ana: the key is here"),
        ({"created_at": "2023-05-08T10:00Z"}, "the key is here [2023-05-08]"),
        ({"author": "Ana", "created_at": date(2023, 5, 8)}, "Ana: the key is here [2023-05-08]"),
        # The day is the one on the caller's clock, not in UTC.
        ({"created_at": "2023-05-08T23:30-03:00"}, "the key is here [2023-05-08]"),
        ({"created_at": "2023-05-08T00:30+09:00"}, "the key is here [2023-05-08]"),
        ({"author": "Ana", "thread": "talk", "tags": ["x"]}, "Ana: the key is here"),
    ],
)
def test_author_and_date_are_embedded(opened, fields, embedded):
    """A model reads the author before the text and the date that the caller gave behind it."""
    embedder = FakeEmbedder()
    opened(embedder=embedder).add("the key is here", **fields)
    assert embedder.embedded[-1] == embedded


def test_every_passage_is_embedded_with_author_and_date(opened):
    """Each passage of a long text has the author and the date around it."""
    embedder = FakeEmbedder()
    text = " ".join(f"This is sentence {n} of a long text." for n in range(60))
    store = opened(embedder=embedder)
    store.add(text, author="Ana", created_at="2023-05-08T10:00Z")
    passages = [one for one in embedder.embedded if "sentence" in one]
    assert len(passages) == store.stats().passages > 2
    assert all(re.fullmatch(r"Ana: This is .* text\. +\[2023-05-08\]", one) for one in passages)


@pytest.mark.parametrize(
    ("change", "embedded"),
    [
        ({"author": "Beto"}, ["Beto: the key is here [2023-05-08]"]),
        ({"author": None}, ["the key is here [2023-05-08]"]),
        ({"created_at": "2024-01-31T10:00Z"}, ["Ana: the key is here [2024-01-31]"]),
        ({"position": 7}, []),
        ({"thread": "other"}, []),
        ({"tags": ["x"]}, []),
    ],
)
def test_a_change_of_author_or_date_is_embedded_again(opened, change, embedded):
    """A changed author or date is embedded; a memory that only moves is not embedded again, nor are its neighbours."""
    embedder = FakeEmbedder()
    store = opened(embedder=embedder)
    store.add("the key is here", author="Ana", created_at="2023-05-08T10:00Z", thread="talk")
    store.add("thank you", thread="talk")
    embedder.embedded.clear()
    store.update(1, **change)
    assert embedder.embedded == embedded


def test_a_hit_says_which_words_its_neighbours_lent(words):
    """A hit tells the words of the query that only the memories beside it hold, and an own word is not told twice."""
    words.add("the zebra and the lion", thread="talk")
    words.add("noted, a lion", thread="talk")
    found = {hit.memory.text: hit for hit in words.search("zebra lion", signals=["keyword"])}
    lent = found["noted, a lion"]
    assert (lent.terms, lent.neighbour_terms) == (("lion",), ("zebra",))
    assert "beside    zebra" in lent.explain()
    assert found["the zebra and the lion"].neighbour_terms == ()

"""What a term in a memory is worth: BM25 and TF-IDF by hand and by their laws, sparse vectors, and a second BM25."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memstore import (
    BM25,
    TFIDF,
    InvalidInputError,
    MemoryStore,
    NewMemory,
    NotFoundError,
    ReadOnlyError,
    SparseVector,
)
from memstore.analysis import LANGUAGES, weight
from memstore.keyword import counted
from memstore.ranking import RANKINGS

LAW = settings(deadline=None)
OKAPI = BM25(k1=1.2, b=0.75, neighbours=0.0)
PARAMETERS = st.builds(BM25, k1=st.floats(0, 1_000), b=st.floats(0, 1), neighbours=st.floats(0, 1))
COUNT = st.integers(1, 10_000)
LENGTH = st.integers(1, 100_000)
MEAN = st.floats(0.5, 10_000)
# How many memories hold a term, and how many there are.
HOLDING = st.integers(1, 1_000_000).flatmap(lambda all_: st.tuples(st.integers(0, all_), st.just(all_)))

NOTES = [
    "The printer on the second floor is offline.",
    "ERR-4018 means the printer is offline; restart the printer.",
    "Restart the coffee machine twice.",
    "O cartão foi recusado: ERR-4018.",
    "As informações da reunião de ontem, e da reunião de hoje",
    "la respiración del paciente mejoró, la respiración es normal",
    "los años de la abuela y el año nuevo",
    "use read_csv_safe() here, see src/db.py",
    "write to ana@example.org about v4.0.2-rc1",
    "o pastel custa R$ 18,90",
    "昨天我们决定换银行卡",
    "launch day 🎉 at last",
    "C++ build flags",
]
QUERIES = [
    "printer",
    "PRINTER offline",
    "what does ERR-4018 mean?",
    "err-4018 recusado",
    "informacao",
    "reuniões e informação",
    "respiracion",
    "año",
    "anos",
    "csv_safe",
    "ana@example.org 4.0.2",
    "R$ 18,90",
    "银行卡",
    "🎉",
    "C++",
    "xyzzy",
    "de lo que",
]


def value(ranking: BM25 | TFIDF, count: float, length: float, mean: float) -> float:
    """Return what a term in a memory multiplies its idf by."""
    counts, lengths = np.array([float(count)]), np.array([float(length)])
    return float(ranking.saturated(ranking.normalised_frequency(counts, lengths, mean))[0])


def filled(store: MemoryStore, notes: Iterable[str] = NOTES, **fields) -> MemoryStore:
    store.add_many([NewMemory(text=text, **fields) for text in notes])
    return store


def scores(store: MemoryStore, query: str, **options) -> dict[int, float]:
    """Return the raw keyword score of each memory that a query finds."""
    hits = store.search(query, k=1_000, signals=["keyword"], **options)
    return {hit.memory.id: hit.signals["keyword"].raw for hit in hits}


def analysed(store: MemoryStore) -> dict[int, dict[str, int]]:
    """Return how often each term stands in each memory."""
    with store._database.read() as conn:
        rows = list(conn.execute("SELECT memory_id, terms, counts FROM analysed ORDER BY memory_id"))
    return {memory_id: counted(terms, counts) for memory_id, terms, counts in rows}


def asked(store: MemoryStore, query: str) -> list[str]:
    """Return the distinct terms that a query asks for."""
    return sorted({term for word in store._analyser.query(query) for term in word.terms})


# By hand.


@pytest.mark.parametrize(("holding", "memories", "expected"), [(6, 89, 2.628), (2, 89, 3.584), (4, 100, 3.111)])
def test_idf_of_bm25_by_hand(holding, memories, expected):
    """The idf is ln(1 + (N - n + 0.5) / (n + 0.5))."""
    assert BM25().idf(holding, memories) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("holding", "memories", "count", "length", "mean", "expected"),
    [
        (6, 89, 1, 12, 24.7, 3.328),
        (2, 89, 1, 12, 24.7, 4.537),
        (4, 100, 2, 50, 50, 4.278),
    ],
)
def test_bm25_by_hand(holding, memories, count, length, mean, expected):
    """A term contributes its idf times tf (k1 + 1) / (tf + k1 (1 - b + b length / mean))."""
    assert OKAPI.idf(holding, memories) * value(OKAPI, count, length, mean) == pytest.approx(expected, abs=2e-3)
    length_share = 1 - 0.75 + 0.75 * length / mean
    by_formula = math.log(1 + (memories - holding + 0.5) / (holding + 0.5)) * count * 2.2 / (count + 1.2 * length_share)
    assert OKAPI.idf(holding, memories) * value(OKAPI, count, length, mean) == pytest.approx(by_formula)


@pytest.mark.parametrize(
    ("holding", "memories", "count"), [(6, 89, 1), (6, 89, 3), (1, 1, 1), (100, 100, 7), (1, 1_000_000, 2)]
)
def test_tf_idf_by_hand(holding, memories, count):
    """TF-IDF is (1 + ln tf) times ln(N / (1 + n)) + 1, whatever the length of the memory."""
    expected = (1 + math.log(count)) * (math.log(memories / (1 + holding)) + 1)
    for length in (1, 1_000):
        found = TFIDF().idf(holding, memories) * value(TFIDF(), count, length, 24.7)
        assert found == pytest.approx(expected)
        assert found > 0


@pytest.mark.parametrize("ranking", [BM25(), OKAPI, BM25(k1=0, b=0), BM25(k1=1_000, b=1), TFIDF()])
def test_what_is_not_there_is_worth_nothing(ranking):
    """A term that a memory does not hold is worth 0 there, and one that stands once in a mean text multiplies by 1."""
    assert value(ranking, 0, 12, 24.7) == 0
    assert value(ranking, 1, 24.7, 24.7) == pytest.approx(1)


# Laws.


@LAW
@given(PARAMETERS, COUNT, COUNT, LENGTH, MEAN)
def test_bm25_grows_with_the_count(ranking, one, other, length, mean):
    """The more often a term stands in a memory, the more it is worth, up to k1 + 1 times its idf."""
    less, more = sorted((one, other))
    assert value(ranking, less, length, mean) <= value(ranking, more, length, mean) * (1 + 1e-12)
    assert 0 < value(ranking, more, length, mean) <= (ranking.k1 + 1) * (1 + 1e-12)
    if ranking.k1 >= 0.1 and less < more <= 100 and length <= 100 * mean:
        assert value(ranking, less, length, mean) < value(ranking, more, length, mean)


@LAW
@given(st.floats(0.1, 10), st.floats(0.05, 1), st.integers(1, 100), LENGTH, LENGTH, MEAN)
def test_bm25_falls_with_the_length(k1, b, count, one, other, mean):
    """Of two memories that hold a term as often, it is worth more in the shorter one, where b is above 0."""
    ranking = BM25(k1=k1, b=b)
    short, long = sorted((one, other))
    assert value(ranking, count, short, mean) >= value(ranking, count, long, mean)
    if short < long and long - short > 1e-6 * mean:
        assert value(ranking, count, short, mean) > value(ranking, count, long, mean)


@LAW
@given(st.floats(0, 1_000), COUNT, LENGTH, LENGTH, MEAN)
def test_without_b_the_length_says_nothing(k1, count, one, other, mean):
    """With b at 0 a term is worth the same in a memory of any length."""
    ranking = BM25(k1=k1, b=0)
    assert value(ranking, count, one, mean) == value(ranking, count, other, mean)


@LAW
@given(HOLDING)
@example((1, 1))
@example((1_000_000, 1_000_000))
def test_idf_is_above_zero(holding):
    """No term takes anything away: the idf is above 0 for one that all memories hold, in both rankings."""
    assert BM25().idf(*holding) > 0
    assert TFIDF().idf(*holding) > 0


@LAW
@given(HOLDING, st.integers(0, 1_000_000))
def test_a_rare_term_is_worth_more(holding, other):
    """Of two terms the one that fewer memories hold has the higher idf."""
    one, memories = holding
    other %= memories + 1
    for ranking in (BM25(), TFIDF()):
        if one < other:
            assert ranking.idf(one, memories) > ranking.idf(other, memories)
        elif one == other:
            assert ranking.idf(one, memories) == ranking.idf(other, memories)


# The parameters, and the ranking of a store.


@pytest.mark.parametrize("name", ["k1", "b", "neighbours"])
@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf, True, "0.9", None, [1], 1_001, 10**400, np.float64("nan")])
def test_a_bad_parameter_is_refused(name, bad):
    """A parameter of BM25 that is no number, not finite or out of its range is refused by name with the range."""
    most = 1_000 if name == "k1" else 1
    with pytest.raises(InvalidInputError, match=f"{name} is .*; give a number from 0 to {most}"):
        BM25(**{name: bad})


@pytest.mark.parametrize(
    "good", [{}, {"k1": 0, "b": 0, "neighbours": 0}, {"k1": 1_000, "b": 1, "neighbours": 1}, {"b": np.float32(0.5)}]
)
def test_a_good_parameter_is_kept(good):
    """The ends of a range, whole numbers and numbers of numpy are good parameters."""
    assert {name: getattr(BM25(**good), name) for name in good} == good


def test_rankings_of_a_name():
    """The rankings have a name each, and the default is BM25 with its default parameters."""
    assert dict(RANKINGS) == {"bm25": BM25(), "tf-idf": TFIDF()}


@pytest.mark.parametrize("bad", ["lucene", "", "BM25", None, 1.2, BM25, {"k1": 1.2}, ["bm25"]])
def test_an_unknown_ranking_is_refused(path, bad):
    """A ranking that does not exist is refused with the names of those that do, before a file is made."""
    with pytest.raises(InvalidInputError, match=r"ranking .* is unknown; give one of bm25, tf-idf"):
        MemoryStore(path, embedder="none", ranking=bad)
    assert not path.exists()


def test_the_ranking_is_no_part_of_the_file(opened):
    """The same file can be opened with any ranking, and the default is the one named bm25."""
    filled(opened(embedder="none")).close()
    found = [scores(opened(embedder="none", **one), "printer offline") for one in ({}, {"ranking": "bm25"})]
    assert found[0] == found[1]
    others = [scores(opened(embedder="none", ranking=one), "printer offline") for one in ("tf-idf", OKAPI)]
    assert [set(one) for one in others] == [set(found[0])] * 2
    assert len({one[2] for one in (*found, *others)}) == 3


# Scores of a real store from its counts.


def by_hand(store: MemoryStore, ranking: BM25 | TFIDF, query: str) -> dict[int, float]:
    """Compute the score of every memory without a thread from counts alone."""
    held = analysed(store)
    lengths = {memory_id: sum(counts.values()) for memory_id, counts in held.items()}
    mean = sum(lengths.values()) / len(held)
    found = dict.fromkeys(held, 0.0)
    for term in asked(store, query):
        holding = sum(term in counts for counts in held.values())
        for memory_id, counts in held.items():
            tf = counts.get(term, 0)
            if not tf:
                continue
            if isinstance(ranking, TFIDF):
                part = (1 + math.log(tf)) * (math.log(len(held) / (1 + holding)) + 1)
            else:
                share = 1 - ranking.b + ranking.b * lengths[memory_id] / mean
                idf = math.log(1 + (len(held) - holding + 0.5) / (holding + 0.5))
                part = idf * tf * (ranking.k1 + 1) / (tf + ranking.k1 * share)
            found[memory_id] += part * weight(term)
    return {memory_id: score for memory_id, score in found.items() if score}


@pytest.mark.parametrize("ranking", [BM25(), OKAPI, BM25(k1=0), BM25(b=1), TFIDF()], ids=str)
def test_raw_score_by_hand(opened, ranking):
    """The raw keyword score is, summed over the query's terms, weight times idf times factor, and nothing else."""
    store = filled(opened(embedder="none", ranking=ranking))
    for query in QUERIES:
        assert scores(store, query) == pytest.approx(by_hand(store, ranking, query))


def test_raw_score_of_one_word_in_numbers(opened):
    """In four English notes of known counts the score of a word is the one computed with pencil and paper."""
    store = opened(embedder="none", languages=("en",), ranking=OKAPI)
    # printer, ≈printer; 2 of 4 memories hold them, twice and once; 4, 2, 2 and 2 terms, 2.5 on average.
    filled(store, ["printer printer", "printer", "sofa", "moon"])
    idf = math.log(1 + 2.5 / 2.5)
    once = 2 * idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 2.5))
    twice = 2 * idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 2.5))
    assert scores(store, "printer") == pytest.approx({1: twice, 2: once})


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_raw_score_with_neighbours_by_hand(opened, share):
    """What stands in the neighbours of a thread is added, for its share, to the frequency and not to the score."""
    ranking = BM25(k1=1.2, b=0.75, neighbours=share)
    store = opened(embedder="none", languages=("en",), ranking=ranking)
    filled(store, ["the printer is offline", "restart it", "it works"], thread="talk")
    filled(store, ["sofa", "moon"])
    held = analysed(store)
    lengths = {memory_id: sum(counts.values()) for memory_id, counts in held.items()}
    mean = sum(lengths.values()) / len(held)
    idf = math.log(1 + 4.5 / 1.5)
    frequency = 1 / (0.25 + 0.75 * lengths[1] / mean)
    expected = {1: frequency, 2: share * frequency, 3: share * frequency}
    assert scores(store, "printer") == pytest.approx(
        {one: 2 * idf * tf * 2.2 / (tf + 1.2) for one, tf in expected.items() if tf}
    )


def test_classic_ranking_looks_at_no_neighbour(opened):
    """TF-IDF finds only memories that hold a word themselves."""
    store = filled(opened(embedder="none", ranking="tf-idf"), ["the printer is offline", "restart it"], thread="talk")
    assert set(scores(store, "printer")) == {1}


def test_a_longer_memory_ranks_lower(words):
    """Of two memories that hold the word once, the one with less beside it ranks first, whichever is older."""
    filled(words, ["the printer and much else that stands on the second floor", "printer", "sofa"])
    assert list(scores(words, "printer")) == [2, 1]


# Sparse vectors.


@pytest.mark.parametrize("ranking", [BM25(), OKAPI, "tf-idf"], ids=str)
def test_dot_product_is_the_raw_score(opened, ranking):
    """A memory's sparse vector times the query's is its raw keyword score, and 0 where the query does not find it."""
    store = filled(opened(embedder="none", ranking=ranking))
    every = [memory.id for memory in store.list(limit=100)]
    vectors = {one: store.sparse_vector(one) for one in every}
    for query in QUERIES:
        asking = store.sparse_query(query)
        found = scores(store, query)
        assert {one: vectors[one].dot(asking) for one in every} == pytest.approx(
            dict.fromkeys(every, 0.0) | found, abs=1e-9
        )


WORDS = st.sampled_from(
    [
        *["the", "o", "printer", "printers", "offline", "cartão", "cartoes", "año", "años"],
        *["ERR-4018", "err4018", "18,90", "C++", "银行卡", "🎉"],
    ]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)


@settings(deadline=None, max_examples=25)
@given(st.lists(TEXTS, min_size=1, max_size=6, unique=True), TEXTS, PARAMETERS)
def test_dot_product_is_the_raw_score_of_any_store(tmp_path_factory, texts, query, ranking):
    """Whatever memories there are and whatever is asked, the dot product is the raw score."""
    folder = tmp_path_factory.mktemp("sparse")
    with MemoryStore(folder / "memory.db", embedder="none", ranking=ranking) as store:
        every = [memory.id for memory in store.add_many([NewMemory(text=text) for text in texts])]
        vectors = {one: store.sparse_vector(one) for one in every}
        asking = store.sparse_query(query)
        expected = dict.fromkeys(every, 0.0) | scores(store, query)
        assert {one: vectors[one].dot(asking) for one in every} == pytest.approx(expected, abs=1e-9)


def test_vector_has_the_form_of_vector_databases(words):
    """Indices ascend and are positive, each has a value above 0, and a query has ones."""
    filled(words)
    for memory in words.list(limit=100):
        vector = words.sparse_vector(memory.id)
        assert list(vector.indices) == sorted(set(vector.indices))
        assert len(vector.indices) == len(vector.values) == len(analysed(words)[memory.id])
        assert vector.indices[0] > 0
        assert min(vector.values) > 0
    query = words.sparse_query("the printer of ERR-4018")
    assert list(query.indices) == sorted(set(query.indices))
    assert set(query.values) == {1.0}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (((1, 3), (2.0, 0.5)), ((1, 2, 3), (1.0, 1.0, 4.0)), 4.0),
        (((1, 3), (2.0, 0.5)), ((2, 4), (1.0, 1.0)), 0.0),
        (((), ()), ((2,), (1.0,)), 0.0),
    ],
)
def test_dot_product_by_hand(one, other, expected):
    """A dot product sums over the indices that both have, in either order."""
    first, second = (SparseVector(indices=indices, values=values) for indices, values in (one, other))
    assert first.dot(second) == second.dot(first) == expected


def numbered(store: MemoryStore) -> dict[str, int]:
    with store._database.read() as conn:
        return dict(list(conn.execute("SELECT term, id FROM vocabulary")))


def test_an_index_belongs_to_its_term(opened):
    """An index stays that of its term when memories come and go and when the file is reopened, and is never shared."""
    store = filled(opened(embedder="none"), NOTES[:4])
    first = store.sparse_vector(1)
    asking = store.sparse_query("offline printer")
    before = numbered(store)
    filled(store, NOTES[4:])
    store.delete(2)
    for memory in store.list(limit=100):
        store.sparse_vector(memory.id)
    store.close()
    again = opened(embedder="none")
    assert again.sparse_vector(1).indices == first.indices
    assert again.sparse_query("offline printer").indices == asking.indices
    after = numbered(again)
    assert before.items() <= after.items()
    assert len(set(after.values())) == len(after)
    assert {term for counts in analysed(again).values() for term in counts} <= after.keys()


def test_values_follow_the_file(opened):
    """A vector is that of the file as it is: a word that more memories hold is worth less in the next vector."""
    store = filled(opened(embedder="none", languages=("en",)), ["printer", "sofa"])
    before = store.sparse_vector(1)
    store.add("printer shop")
    after = store.sparse_vector(1)
    assert after.indices == before.indices
    assert after.dot(store.sparse_query("printer")) == pytest.approx(scores(store, "printer")[1])
    assert max(after.values) < min(before.values)


def test_a_query_of_unknown_words_is_empty(words):
    """A query has an index for each of its terms that memories hold, whichever vector is asked for first."""
    filled(words, NOTES[:2])
    asked_first = words.sparse_query("printer")
    assert len(asked_first.indices) == 2
    assert words.sparse_vector(1).dot(asked_first) == pytest.approx(scores(words, "printer")[1])
    assert words.sparse_query("printer") == asked_first
    assert words.sparse_query("xyzzy") == words.sparse_query("?!") == SparseVector(indices=(), values=())
    assert len(numbered(words)) == len(words.sparse_vector(1).indices)


def test_a_store_opened_to_be_read_gives_the_vectors_it_can(opened):
    """A read-only store gives a vector whose terms all have an index, and refuses one that needs a new one."""
    store = filled(opened(embedder="none"), NOTES[:3])
    vector = store.sparse_vector(1)
    store.close()
    reader = opened(embedder="none", read_only=True)
    assert reader.sparse_vector(1) == vector
    assert len(reader.sparse_query("printer").indices) == 2
    with pytest.raises(ReadOnlyError):
        reader.sparse_vector(3)


@pytest.mark.parametrize("missing", ["never there", "deleted", "expired"])
def test_a_vector_of_no_memory_is_refused(words, missing):
    """An id that no memory has, or has no more, is refused."""
    if missing == "expired":
        words.add("printer", expires_at="2020-01-01T00:00:00Z")
    elif missing == "deleted":
        words.delete(words.add("printer").id)
    with pytest.raises(NotFoundError, match="there is no memory 1"):
        words.sparse_vector(1)


@pytest.mark.parametrize("query", [None, 5, b"printer", ["printer"]])
def test_a_sparse_query_that_is_not_text_is_refused(words, query):
    """A query of another type than text is refused by name."""
    with pytest.raises(InvalidInputError, match=f"query is {type(query).__name__}, not str"):
        words.sparse_query(query)


# Against another BM25.


def second_bm25(store: MemoryStore) -> tuple[list[int], object]:
    """Return the package's BM25 over the store's own terms."""
    rank_bm25 = pytest.importorskip("rank_bm25")
    held = analysed(store)
    corpus = [list(Counter(counts).elements()) for counts in held.values()]
    return list(held), rank_bm25.BM25Okapi(corpus, k1=OKAPI.k1, b=OKAPI.b)


def compare(store: MemoryStore, queries: Sequence[str]) -> int:
    """Assert that both put the same memory first; return how many queries could be compared.

    The package's idf is ln((N - n + 0.5) / (n + 0.5)), which falls below 0 for what half of the memories hold. The two
    forms agree where the terms of a query are much rarer than that, and its best two are not within a two-hundredth;
    only those are compared.
    """
    ids, other = second_bm25(store)
    held = analysed(store)
    holding = Counter(term for counts in held.values() for term in counts)
    compared = 0
    for query in queries:
        terms = [term for term in asked(store, query) if holding[term]]
        if not terms or max(holding[term] for term in terms) > len(held) / 10:
            continue
        # Ten times its weight, so that the half and the fifth of a token are whole ones.
        tokens = [term for term in terms for _ in range(round(10 * weight(term)))]
        theirs = dict(zip(ids, other.get_scores(tokens), strict=True))
        first, second = sorted(theirs.values())[:-3:-1]
        if first - second < first / 200:
            continue
        (best,) = store.search(query, k=1, signals=["keyword"])
        assert theirs[best.memory.id] == pytest.approx(max(theirs.values())), query
        compared += 1
    return compared


ENGLISH = [
    "the printer on the second floor is offline",
    "ERR-4018 means that the printer has no paper",
    "ERR-4019 means that the door of the printer is open",
    "restart the coffee machine twice before you call",
    "coffee is in the kitchen on the first floor",
    "the kitchen is cleaned on Mondays",
    "the backup of the database runs at night",
    "restore the database from last night's backup",
    "backups older than a year are deleted",
    "the invoice 2024-118 was paid in May",
    "invoices are sent on the first day of the month",
    "ana@example.org asks for her invoice again",
    "use read_csv_safe() for files of customers",
    "read the customers' file with src/load.py",
    "src/db.py opens the database and keeps it open",
    "version 4.0.2 of the driver fails on startup",
    "version 4.0.3 of the driver is out",
    "roll back the driver to v4.0.1",
    "C++ build flags for the release",
    "the release of June was late",
    "release notes are written by Bia",
    "Bia writes the notes, Ana reviews them",
    "the review takes two days",
    "two keys of the office are lost",
    "the office closes at six, the gate at seven",
    "the gate opens with the code 7741",
    "never run rm -rf on the server",
    "the server of tests is at 10.0.0.7",
    "the server of production is at 10.0.0.8",
    "port 5432 is closed from outside",
    "the certificate expires on 2025-03-01",
    "renew the certificate with certbot renew",
    "passwords are kept in the safe",
    "the safe is in the office of the owner",
    "the owner travels in August",
    "trains to the coast leave every hour",
    "the coast was rainy in July",
    "rain stops the tests of the antenna",
    "the antenna sends at 14:30 each day",
    "each customer has one account and one key",
]
ASKED = [
    *["printer", "printers offline", "what does ERR-4018 mean?", "err-4019", "coffee", "kitchen floor", "backup"],
    *["how do I restore the database?", "invoice", "2024-118", "invoices of May", "ana@example.org", "read_csv_safe"],
    *["csv_safe", "src/db.py", "4.0.2", "4.0.3", "driver versions", "C++", "release notes", "reviews", "lost keys"],
    *["7741", "rm -rf", "10.0.0.7", "10.0.0.8", "5432", "certificates", "renewing", "the owner's safe", "trains"],
    *["rain", "antenna 14:30", "customer account", "2025-03-01", "when does the gate open?"],
]


def test_the_best_is_that_of_another_bm25(opened):
    """The package rank-bm25, fed with the same terms, puts the same note first on every question."""
    store = filled(opened(embedder="none", languages=("en",), ranking=OKAPI), ENGLISH)
    assert compare(store, ASKED) >= 30


def test_scores_are_those_of_another_bm25_but_for_the_idf(opened):
    """For one term of one weight the scores of both are the same but for the idf, which is the same for all notes."""
    store = filled(opened(embedder="none", languages=("en",), ranking=OKAPI), ENGLISH)
    ids, other = second_bm25(store)
    for number in ("10", "7", "4"):
        ours = scores(store, number)
        theirs = dict(zip(ids, other.get_scores([number]), strict=True))
        ratios = {theirs[one] / raw for one, raw in ours.items()}
        assert max(ratios) == pytest.approx(min(ratios))
        assert {one for one, raw in theirs.items() if raw} == set(ours)


def judged_texts(folder: Path, name: str, file: str) -> list[str]:
    lines = (folder / name / f"{file}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


@pytest.mark.parametrize(
    ("name", "languages", "step"), [("tsdiag-code", ("en",), 2), ("xquad-es", LANGUAGES, 4)], ids=["codes", "Spanish"]
)
def test_the_best_is_that_of_another_bm25_on_judged_data(opened, judged, name, languages, step):
    """On a judged collection, of error codes or of Spanish questions, both put the same document first each time."""
    store = opened(embedder="none", languages=languages, ranking=OKAPI)
    filled(store, judged_texts(judged, name, "docs"))
    assert compare(store, judged_texts(judged, name, "queries")[::step]) > 150


# How words are joined.


@pytest.fixture
def threaded(words) -> MemoryStore:
    words.add("the printer is offline", thread="talk")
    words.add("restart it twice", thread="talk")
    words.add("the printer needs a restart")
    words.add("the moon is full")
    return words


@pytest.mark.parametrize(
    ("query", "match", "expected"),
    [
        ("printer restart", "any", {1, 2, 3}),
        ("printer restart", "all", {3}),
        ("printer restart", "all_then_any", {3}),
        ("printers restarted", "all", {3}),
        ("offline twice", "any", {1, 2}),
        ("offline twice", "all", set()),
        ("offline twice", "all_then_any", {1, 2}),
        ("printer", "any", {1, 2, 3}),
        ("printer", "all", {1, 3}),
        ("the printer of the moon", "all", set()),
        ("is the moon full", "all", {4}),
        ("printer xyzzy", "any", {1, 2, 3}),
        ("printer xyzzy", "all", set()),
        ("printer xyzzy", "all_then_any", {1, 2, 3}),
        ("xyzzy", "all_then_any", set()),
    ],
)
def test_match(threaded, query, match, expected):
    """`all` wants every word in the memory itself and not in a neighbour; `any` takes one of them, there or beside."""
    assert set(scores(threaded, query, match=match)) == expected


@pytest.mark.parametrize("match", ["any", "all", "all_then_any"])
def test_match_does_not_change_the_score(threaded, match):
    """A memory that is found has the same raw score however the words are joined."""
    assert scores(threaded, "printer restart", match=match)[3] == scores(threaded, "printer restart")[3]


def test_match_of_all_counts_for_every_candidate(threaded):
    """A memory that another signal offers gets no keyword score under `all` unless it holds every word."""
    threaded.add("Bia has a printer", entities=["Bia"])
    hits = threaded.search("printer restart Bia", match="all", k=9)
    assert {hit.memory.id: hit.signals["keyword"].raw for hit in hits} == {5: 0.0}


def test_match_of_all_in_one_word_of_many_spellings(words):
    """Under `all` a word is held in any of its spellings and forms."""
    filled(words, ["as informações da reunião", "a informação do cliente", "la reunión"])
    assert set(scores(words, "informacao reuniao", match="all")) == {1}


def test_hit_names_the_words_it_holds_itself(threaded):
    """The words of a hit are those of the memory itself, in the order of the query, not its neighbours'."""
    hits = {hit.memory.id: hit.terms for hit in threaded.search("restart the printer", k=9, signals=["keyword"])}
    assert hits == {3: ("restart", "printer"), 1: ("printer",), 2: ("restart",)}

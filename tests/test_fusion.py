"""Raw scores to one score: the arithmetic by its laws, and real searches recomputed by hand."""

import math

import pytest
from conftest import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from memstore import Hit, InvalidInputError, MemoryStore, NewMemory, Passage, SignalScore, Weights
from memstore.fusion import PROFILES, shares, weights

LAW = settings(deadline=None)
SIGNALS = ("keyword", "semantic", "entity")
WEIGHT = st.floats(0, 1e6) | st.integers(0, 100)


@pytest.mark.parametrize(
    ("profile", "keyword", "semantic", "entity"),
    [
        ("default", 0.4, 0.4, 0.2),
        ("technical", 0.6, 0.2, 0.2),
        ("conceptual", 0.3, 0.5, 0.2),
        ("people", 0.3, 0.3, 0.4),
    ],
)
def test_profiles(profile, keyword, semantic, entity):
    """Each profile has its exact weights, and a boost of 0.3."""
    assert weights(profile, None) == Weights(keyword=keyword, semantic=semantic, entity=entity, boost=0.3)
    assert len(PROFILES) == 4


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"keyword": 1}, Weights(keyword=1.0, semantic=0.4, entity=0.2, boost=0.3)),
        ({"semantic": 0, "boost": 2}, Weights(keyword=0.4, semantic=0.0, entity=0.2, boost=2.0)),
        (Weights(keyword=3), Weights(keyword=3, semantic=0.4, entity=0.2, boost=0.3)),
    ],
)
def test_own_weights(own, expected):
    """Own weights take the place of the profile's; those that are not named stay as they are by default."""
    assert weights("default", own) == expected


def test_own_weights_beside_a_profile():
    """What own weights leave out is as in the profile that is named beside them."""
    assert weights("technical", {"boost": 0}) == Weights(keyword=0.6, semantic=0.2, entity=0.2, boost=0)
    assert weights("people", Weights(keyword=1)) == Weights(keyword=1)


@pytest.mark.parametrize(
    "own",
    [
        {"thread": 1.5},
        {"keyword": -1},
        {"keyword": math.nan},
        {"boost": math.inf},
        {"keyword": 0, "semantic": 0, "entity": 0},
        {"bm25": 1},
        {"keyword": "much"},
        {"keyword": None},
        Weights(entity=-0.1),
        0.5,
    ],
)
def test_bad_weights(words, own):
    """Weights that are negative, not finite, all zero, unknown or no numbers are refused."""
    with pytest.raises(InvalidInputError, match="weight"):
        words.search("anything", weights=own)


@pytest.mark.parametrize(
    ("option", "value", "known"),
    [
        ("profile", "nice", "default, technical, conceptual, people"),
        ("profile", "", "people"),
        ("fusion", "magic", "minmax"),
    ],
)
def test_unknown_profile_or_fusion(words, option, value, known):
    """An unknown profile or fusion method is refused with the names of those that exist."""
    with pytest.raises(InvalidInputError, match=f"{option} {value!r} is unknown; give one of .*{known}"):
        words.search("anything", **{option: value})


@LAW
@given(WEIGHT, WEIGHT, WEIGHT, st.sets(st.sampled_from(SIGNALS), min_size=1))
def test_shares_add_up(keyword, semantic, entity, taking_part):
    """The shares of the signals that take part add up to 1 and keep their proportions, or are all 0."""
    used = tuple(name for name in SIGNALS if name in taking_part)
    given_weights = {"keyword": keyword, "semantic": semantic, "entity": entity}
    found = shares(Weights(**given_weights), used)
    total = sum(given_weights[name] for name in used)
    assert tuple(found) == used
    assert sum(found.values()) == pytest.approx(1.0 if total else 0.0, abs=1e-12)
    for name in used:
        assert found[name] * total == pytest.approx(given_weights[name], rel=1e-12)


NOTES = [
    ("O pagamento com cartão foi recusado pelo banco.", "Ana"),
    ("Decidimos usar Stripe; o PagBank fica de reserva.", "Ana"),
    ("ERR-4018 means the card has expired.", "Beto"),
    ("Maria da Silva pediu o estorno do pagamento.", "Carla"),
    ("La tarjeta de Maria da Silva no funciona.", None),
    ("The printer on the second floor is offline.", "Beto"),
    ("A reunião sobre pagamentos ficou para sexta.", None),
    ("O gato dorme no sofá a tarde toda.", None),
]
QUERIES = ["o pagamento de Maria da Silva", "ERR-4018", "my card was declined", "Ana e Beto", "reunião"]


@pytest.mark.parametrize("how", [None, "minmax", "dbsf", "zscore", "l2"])
@pytest.mark.parametrize("profile", list(PROFILES))
def test_score_can_be_recomputed(real, profile, how):
    """A score follows by hand from what its explanation says: raw scores, what 0 and 1 stand for, and weights."""
    real.add_many([NewMemory(text=text, author=author) for text, author in NOTES])
    for query in QUERIES:
        result = real.search(query, k=50, profile=profile, fusion=how, floor=None)
        assert result.used == SIGNALS
        assert len(result) == len(NOTES)
        for hit in result:
            score = hit.boost
            for name, part in hit.signals.items():
                share = (part.raw - part.zero) / (part.one - part.zero) if part.rank is not None else 0.0
                assert part.normalised == pytest.approx(share, abs=1e-9)
                assert part.weight == pytest.approx(getattr(PROFILES[profile], name) * part.confidence)
                assert part.contribution == pytest.approx(part.normalised * part.weight, abs=1e-12)
                score += share * part.weight
            assert hit.score == pytest.approx(score, abs=1e-9)
        order = [(-hit.score, hit.memory.id) for hit in result]
        assert order == sorted(order)
        assert [hit.rank for hit in result] == list(range(1, len(NOTES) + 1))


def test_score_by_ranks_can_be_recomputed(real):
    """By reciprocal ranks a score follows from the ranks that the explanation gives."""
    real.add_many([NewMemory(text=text, author=author) for text, author in NOTES])
    for query in QUERIES:
        for hit in real.search(query, k=50, fusion="rrf"):
            parts = hit.signals.items()
            by_hand = sum(getattr(PROFILES["default"], name) / (60 + part.rank) for name, part in parts if part.rank)
            assert hit.score == pytest.approx(by_hand + hit.boost, abs=1e-9)
            assert all(part.zero is part.one is None for _, part in parts)


def test_scales_of_a_search(real):
    """Keywords are measured by what the query could score, vectors by what unrelated text scores, names by 0 and 1."""
    real.add_many([NewMemory(text=text, author=author) for text, author in NOTES])
    found = real.search("o estorno do pagamento", k=9)
    best = found[0].signals
    assert best["keyword"].zero == 0
    whole = real.search("estorno pagamento Zanzibar", k=9)[0].signals["keyword"]
    # A word that no memory holds is one that this query could have had.
    assert whole.one > best["keyword"].one
    assert whole.confidence < best["keyword"].confidence == 1.0
    unrelated = real.search("the price of tea in China", k=9)
    assert max(hit.signals["semantic"].normalised for hit in unrelated) < best["semantic"].normalised
    assert (best["entity"].zero, best["entity"].one) == (0.0, 1.0)


def test_names_count_for_less_than_codes(real):
    """A name's words are keywords already: it gets a part of the entity weight and no boost; a code gets all."""
    real.add_many([NewMemory(text=text, author=author) for text, author in NOTES])
    code, name = real.search("ERR-4018", k=1)[0], real.search("Maria da Silva", k=1)[0]
    assert (code.signals["entity"].confidence, code.boost) == (1.0, 0.3)
    assert (name.signals["entity"].confidence, name.boost) == (0.4, 0.0)
    real.terms.add("Maria da Silva", kind="customer")
    taught = real.search("Maria da Silva", k=1)[0]
    assert taught.signals["entity"].confidence == 1.0
    assert taught.boost > 0


def test_ranks_of_a_signal(real):
    """The rank in a signal is the place by its raw score, None without evidence."""
    real.add_many([NewMemory(text=text, author=author) for text, author in NOTES])
    result = real.search(QUERIES[0], k=50, floor=None)
    for name in SIGNALS:
        parts = [(hit.signals[name], hit.memory.id) for hit in result]
        said = sorted((-part.raw, one, part.rank) for part, one in parts if part.rank is not None)
        assert [rank for *_, rank in said] == list(range(1, len(said) + 1))
        assert all(part.raw == 0 and part.normalised == 0 for part, _ in parts if part.rank is None)
    assert {hit.signals["semantic"].rank for hit in result} == set(range(1, len(NOTES) + 1))


@pytest.mark.parametrize("signals", [None, ["keyword"]])
def test_keyword_score_grows_with_the_match(words, signals):
    """More matching words give a strictly higher keyword score, raw and scaled; all words once are about 1."""
    notes = ["alpha delta epsilon", "alpha beta epsilon", "alpha beta gamma"]
    words.add_many([NewMemory(text=text) for text in [*notes, *(f"filler text {n}" for n in range(20))]])
    hits = {hit.memory.text: hit.signals["keyword"] for hit in words.search("alpha beta gamma", k=9, signals=signals)}
    assert set(hits) == set(notes)
    one, two, three = (hits[note] for note in notes)
    assert 0 < one.raw < two.raw < three.raw
    assert 0 < one.normalised < two.normalised < three.normalised
    assert three.normalised == pytest.approx(1.0, abs=0.2)
    assert [one.rank, two.rank, three.rank] == [3, 2, 1]


def test_equal_hits_are_equal_and_ordered_by_id(words):
    """Memories that match alike have equal scores, by min-max the full share, and stand in the order of their ids."""
    added = words.add_many([NewMemory(text="the printer is offline", thread=f"thread {n}") for n in range(4)])
    result = words.search("printer", k=9)
    assert [hit.memory.id for hit in result] == [memory.id for memory in added]
    assert len({hit.signals["keyword"].normalised for hit in result}) == 1
    by_minmax = words.search("printer", k=9, fusion="minmax")
    assert {hit.signals["keyword"].normalised for hit in by_minmax} == {1.0}
    assert [hit.signals["keyword"].rank for hit in result] == [1, 2, 3, 4]


@pytest.fixture
def apart(opened) -> MemoryStore:
    """Memories each of which is the best of one signal alone."""
    known = {
        "printer printer printer": [0, 1],
        "far but it mentions a printer once": [-1, 0.1],
        "the nearest of all": [1, 0],
        "near enough": [1, 0.2],
        "falei com Zeca Pagodinho": [-0.5, 1],
        "printer de Zeca Pagodinho": [1, 0],
    }
    store = opened(embedder=FakeEmbedder(2, known=known))
    store.add_many([NewMemory(text=text) for text in known if text != "printer de Zeca Pagodinho"])
    return store


def test_absent_from_a_list_is_not_zero(apart):
    """A memory that one signal alone offers has its exact scores from the other signals, as in a search of them all."""
    query = "printer de Zeca Pagodinho"
    narrow, wide = apart.search(query, k=1, depth=1), apart.search(query, k=9)
    best = {name: apart.search(query, k=1, signals=[name])[0].memory.text for name in SIGNALS}
    assert best == {
        "keyword": "falei com Zeca Pagodinho",
        "semantic": "the nearest of all",
        "entity": "falei com Zeca Pagodinho",
    }
    exact = {hit.memory.text: {name: part.raw for name, part in hit.signals.items()} for hit in wide}
    assert exact[narrow[0].memory.text] == {name: part.raw for name, part in narrow[0].signals.items()}
    assert exact["the nearest of all"] == {"keyword": 0.0, "semantic": pytest.approx(1.0), "entity": 0.0}
    assert exact["falei com Zeca Pagodinho"]["semantic"] == pytest.approx(-0.5 / math.hypot(0.5, 1), abs=1e-6)
    assert exact["falei com Zeca Pagodinho"]["entity"] == 1.0


@pytest.mark.parametrize("signal", SIGNALS)
def test_second_best_of_the_other_signals(opened, signal):
    """The best of one signal has its exact scores from the others, where it is neither their best nor a stranger."""
    known = {
        "printer, printer, Ana": [0.5, 0.5],
        "the printer of Zeca stands by the window of the office": [1, 0],
        "falei com Zeca e com Ana hoje cedo, antes de ir para casa": [0, 1],
        "printer for Ana and Zeca": [1, 0],
    }
    *notes, query = known
    store = opened(embedder=FakeEmbedder(2, known=known))
    store.add_many([NewMemory(text=note) for note in [*notes, *(f"filler text {n}" for n in range(20))]])
    exact = {
        hit.memory.text: {name: part.raw for name, part in hit.signals.items()} for hit in store.search(query, k=50)
    }
    alone = dict.fromkeys(SIGNALS, 1e-9) | {signal: 1.0, "boost": 0.0}
    (hit,) = store.search(query, k=1, depth=1, weights=alone)
    assert hit.memory.text == dict(zip(SIGNALS, (notes[0], notes[1], notes[2]), strict=True))[signal]
    assert {name: part.raw for name, part in hit.signals.items()} == pytest.approx(exact[hit.memory.text], abs=1e-6)
    assert hit.signals["keyword"].raw > 0
    assert hit.signals["entity"].raw > 0


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_raw_scores_do_not_depend_on_depth(apart, depth):
    """A raw score is the same whatever the depth, since every candidate is scored by every signal."""
    query = "printer de Zeca Pagodinho"
    exact = {hit.memory.id: hit for hit in apart.search(query, k=9)}
    shallow = apart.search(query, k=depth, depth=depth)
    assert len(shallow) == depth
    for hit in shallow:
        for name, part in hit.signals.items():
            assert part.raw == pytest.approx(exact[hit.memory.id].signals[name].raw, abs=1e-6)


def test_memory_without_a_vector_is_unknown_not_bad(opened):
    """A memory without a vector has no semantic score, rank or weight; the other signals share that weight for it."""
    filled = opened(embedder=FakeEmbedder())
    filled.add("the printer is offline")
    filled.close()
    opened(embedder="none").add("the printer is on fire")
    found = opened(embedder=FakeEmbedder()).search("fire printer", k=9, fusion="minmax")
    hits = {hit.memory.id: hit for hit in found}
    unknown = hits[2].signals["semantic"]
    assert (unknown.raw, unknown.rank, unknown.weight, unknown.contribution) == (None, None, 0.0, 0.0)
    assert hits[2].signals["keyword"].normalised == 1.0
    assert hits[2].signals["keyword"].weight == pytest.approx(2 / 3)
    assert hits[1].signals["keyword"].weight == pytest.approx(0.4)
    assert hits[1].signals["semantic"].normalised == 1.0


def test_weights_of_what_takes_part(words):
    """Where a signal can't take part, the weights of the others are shares of what is left."""
    words.add("the printer is offline")
    (hit,) = words.search("printer")
    assert {name: part.weight for name, part in hit.signals.items()} == pytest.approx(
        {"keyword": 2 / 3, "entity": 1 / 3}
    )
    (hit,) = words.search("printer", signals=["keyword"], profile="people")
    assert {name: part.weight for name, part in hit.signals.items()} == {"keyword": 1.0}
    assert hit.score == 1.0


def test_explanation_names_everything():
    """The explanation has a line for the score, each signal, the boost, the words and the entities, with numbers."""
    hit = Hit(
        memory=None,
        score=0.9,
        rank=1,
        relevance=0.875,
        signals={
            "keyword": SignalScore(
                raw=7.25, normalised=1.0, rank=1, weight=0.4, contribution=0.4, zero=0.0, one=7.25, confidence=0.5
            ),
            "semantic": SignalScore(raw=None, normalised=0.0, rank=None, weight=0.0, contribution=0.0),
            "entity": SignalScore(raw=1.0, normalised=1.0, rank=2, weight=0.2, contribution=0.2),
            "answer": SignalScore(raw=0.4, normalised=0.4, rank=None, weight=0.25, contribution=0.1),
        },
        boost=0.3,
        passage=Passage(start=0, stop=1, text="a"),
        entities=("Zeca Pagodinho",),
        terms=("printer", "zeca"),
    )
    assert hit.explain().splitlines() == [
        "score 0.9000  relevance 0.88",
        "  keyword  0.4000 = 1.0000 x weight 0.40  (raw 7.25 from 0 to 7.25, rank 1, confidence 0.50)",
        "  semantic 0.0000 = 0.0000 x weight 0.00  (raw unknown, no evidence)",
        "  entity   0.2000 = 1.0000 x weight 0.20  (raw 1, rank 2)",
        "  answer   0.1000 = 0.4000 x weight 0.25  (of the 0.4 of the question before it)",
        "  boost    0.3000",
        "  words     printer, zeca",
        "  entities  Zeca Pagodinho",
    ]


def test_explanation_of_a_real_hit(apart):
    """The explanation of a hit names each signal that took part, the words and the entities that matched."""
    hit = apart.search("printer de Zeca Pagodinho", k=1)[0]
    lines = hit.explain().splitlines()
    assert lines[0] == f"score {hit.score:.4f}  relevance {hit.relevance:.2f}"
    assert [line.split()[0] for line in lines[1:]] == [*SIGNALS, "words", "entities"]
    assert lines[-1].endswith("Zeca Pagodinho")


@pytest.mark.parametrize(
    ("signals", "used"),
    [
        (None, SIGNALS),
        (["entity", "keyword"], ("keyword", "entity")),
        ("semantic", ("semantic",)),
        (["keyword", "keyword"], ("keyword",)),
    ],
)
def test_used_and_skipped(apart, signals, used):
    """A result names the signals that took part, and for each of the others that it was not asked for."""
    result = apart.search("printer", signals=signals)
    assert result.query == "printer"
    assert result.used == used
    assert result.skipped == {name: "not asked for" for name in SIGNALS if name not in used}
    assert all(tuple(hit.signals) == used for hit in result)


@pytest.mark.parametrize("signals", [["vector"], [], "bm25", ["keyword", "fts"]])
def test_unknown_signals(apart, signals):
    """A signal that does not exist, and no signal at all, are refused with the names of those that do."""
    with pytest.raises(InvalidInputError, match="keyword, semantic, entity"):
        apart.search("printer", signals=signals)


@pytest.mark.parametrize("query", ["", "   ", "?!", '"', '""', "\t\n", "…"])
@pytest.mark.parametrize("signals", [None, ["semantic"], ["keyword"]])
def test_query_without_words(apart, query, signals):
    """A query without any word gives an empty answer that says so for every signal."""
    result = apart.search(query, signals=signals)
    assert len(result) == 0
    assert result.used == ()
    assert result.skipped == dict.fromkeys(SIGNALS, "the query has no words")


def test_timings(apart):
    """A result has the milliseconds of every stage that it went through."""
    stages = {"analyse", "keyword", "entity", "embed", "semantic", "complete", "fuse", "read"}
    assert set(apart.search("printer").timings) == stages
    assert set(apart.search("printer", signals=["keyword"]).timings) == stages - {"entity", "embed", "semantic"}
    assert all(0 <= spent < 60_000 for spent in apart.search("printer").timings.values())


def test_result_is_a_sequence(apart):
    """A result can be counted, indexed, sliced, iterated over and told from an empty one."""
    result = apart.search("printer", k=3)
    assert len(result) == 3
    assert result[0] is result.hits[0]
    assert result[-1].rank == 3
    assert result[1:] == result.hits[1:]
    assert [hit.rank for hit in result] == [1, 2, 3]
    assert result
    assert not apart.search("?")


def test_a_signal_without_weight_takes_no_part(words):
    """A weight of 0 keeps a signal and its candidates out; when no weighted signal is there the answer is empty."""
    words.add("fish swim")
    words.add("cats purr", author="Ana")
    (hit,) = words.search("fish", weights={"semantic": 0, "entity": 0, "boost": 0})
    assert tuple(hit.signals) == ("keyword",)
    found = words.search("fish", weights={"keyword": 0, "entity": 0, "boost": 0})
    assert (len(found), found.used) == (0, ())
    assert found.skipped["keyword"] == found.skipped["entity"] == "its weight is 0"
    assert "semantic" in found.skipped


@pytest.mark.filterwarnings("error")
def test_a_row_of_the_index_without_its_memory_is_said_and_passed_over(words):
    """An index that names a memory that is not there costs a warning, not the answer."""
    words.add("fish swim")
    words._database.connection().pragma("foreign_keys", False)
    with words._database.write() as conn:
        conn.execute("INSERT INTO memory_terms (rowid, terms, neighbours) VALUES (99, 'fish', '')")
        conn.execute("INSERT INTO analysed SELECT 99, languages, length, terms, counts, '', analyser FROM analysed")
    with pytest.warns(UserWarning, match="1 memories that are not there"):
        assert [hit.memory.id for hit in words.search("fish")] == [1]

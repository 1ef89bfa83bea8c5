"""Raw scores to one score: the arithmetic by its laws, and real searches recomputed by hand."""

import math

import numpy as np
import pytest
from conftest import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from memstore import Hit, InvalidInputError, MemoryStore, NewMemory, Passage, SearchResult, SignalScore, Weights
from memstore.fusion import BOUNDS, PROFILES, fuse, method, minmax, shares, weights

LAW = settings(deadline=None)
SIGNALS = ("keyword", "semantic", "entity")
# A score, and whether it is evidence; NaN is a score that is not known and never evidence.
SCORES = st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans()) | st.just((math.nan, False)), max_size=12)
WEIGHT = st.floats(0, 1e6) | st.integers(0, 100)


def arrays(scores) -> tuple[np.ndarray, np.ndarray]:
    return np.array([raw for raw, _ in scores], dtype=np.float64), np.array([said for _, said in scores], dtype=bool)


@LAW
@given(SCORES)
def test_minmax_is_a_share(scores):
    """What is evidence gets a share in [0, 1], and what is none gets 0."""
    raw, evidence = arrays(scores)
    out = minmax(raw, evidence)
    assert out.shape == raw.shape
    assert ((out >= 0) & (out <= 1)).all()
    assert (out[~evidence] == 0).all()


@LAW
@given(SCORES)
def test_minmax_keeps_the_order(scores):
    """Of two that are evidence the one with the higher score never gets less, and equal scores get the same."""
    raw, evidence = arrays(scores)
    out = minmax(raw, evidence)[evidence]
    order = np.argsort(raw[evidence])
    assert (np.diff(out[order]) >= 0).all()
    assert len(set(out)) <= len(set(raw[evidence]))


@LAW
@given(SCORES)
def test_minmax_ends(scores):
    """The best of what is known gets 1 and the worst 0, where they are evidence and differ."""
    raw, evidence = arrays(scores)
    known = raw[np.isfinite(raw)]
    out = minmax(raw, evidence)
    if known.size and known.min() < known.max():
        assert (out[evidence & (raw == known.max())] == 1).all()
        assert (out[evidence & (raw == known.min())] == 0).all()


@LAW
@given(st.floats(-1e6, 1e6), st.integers(1, 9), st.integers(0, 3))
def test_equal_evidence_is_one(raw, count, unknown):
    """Equal evidence is 1 and never 0, one candidate alone too, and beside candidates that are not known."""
    scores = np.array([raw] * count + [math.nan] * unknown)
    out = minmax(scores, np.isfinite(scores))
    assert out.tolist() == [1.0] * count + [0.0] * unknown


@pytest.mark.parametrize(
    ("raw", "evidence", "bounds", "expected"),
    [
        ([], [], None, []),
        ([2.0, 4.0, 3.0], [1, 1, 1], None, [0.0, 1.0, 0.5]),
        ([0.0, 4.0, 1.0], [0, 1, 1], None, [0.0, 1.0, 0.25]),
        ([0.0, 4.0, 4.0], [0, 1, 1], None, [0.0, 1.0, 1.0]),
        ([0.0, 0.0], [0, 0], None, [0.0, 0.0]),
        ([math.nan, 0.5, 0.3], [0, 1, 1], None, [0.0, 1.0, 0.0]),
        ([-0.5, 0.5, 0.0], [1, 1, 1], None, [0.0, 1.0, 0.5]),
        ([0.1, 0.1], [1, 1], (0.0, 1.0), [0.1, 0.1]),
        ([0.0, 0.25, 1.0], [0, 1, 1], (0.0, 1.0), [0.0, 0.25, 1.0]),
        ([6.0, 9.0], [1, 1], (5.0, 10.0), [0.2, 0.8]),
    ],
)
def test_minmax_by_hand(raw, evidence, bounds, expected):
    """Scores are scaled by the list's own ends, or by the signal's bounds where it has some."""
    assert minmax(np.array(raw), np.array(evidence, dtype=bool), bounds).tolist() == pytest.approx(expected)


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


@pytest.mark.parametrize(
    "own",
    [
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


def test_default_fusion():
    """The store's default is min-max."""
    assert method(None) is method("minmax") is minmax


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


CANDIDATES = st.integers(1, 8).flatmap(
    lambda size: st.tuples(
        *(st.lists(st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 1.0])), min_size=size, max_size=size),) * 3,
        st.lists(st.sampled_from([0.0, 0.1, 0.3]), min_size=size, max_size=size),
        st.permutations(range(size)),
    )
)


@LAW
@given(CANDIDATES)
def test_fuse(candidates):
    """The score is the boost and all contributions; the order is by score, then id; ranks count evidence from 1."""
    *scores, boosts, ids = candidates
    raw = {
        name: np.array([math.nan if one is None else one for one in row])
        for name, row in zip(SIGNALS, scores, strict=True)
    }
    evidence = {name: np.nan_to_num(row) > 0 for name, row in raw.items()}
    share = {"keyword": 0.5, "semantic": 0.3, "entity": 0.2}
    total, order, parts = fuse(raw, evidence, share, np.array(boosts), np.array(ids))
    assert tuple(parts) == SIGNALS
    for index, boost in enumerate(boosts):
        added = boost + sum(part.contributions[index] for part in parts.values())
        assert total[index] == pytest.approx(added, abs=1e-12)
    assert order.tolist() == sorted(range(len(ids)), key=lambda index: (-total[index], ids[index]))
    rows = [{name: raw[name][index] for name in raw} for index in range(len(ids))]
    wholes = [sum(share[name] for name in row if not math.isnan(row[name])) for row in rows]
    for name, part in parts.items():
        known = [not math.isnan(row[name]) for row in rows]
        here = [share[name] * there / whole if whole else 0 for there, whole in zip(known, wholes, strict=True)]
        assert part.weights.tolist() == pytest.approx(here, abs=1e-12)
        assert part.normalised.tolist() == minmax(raw[name], evidence[name], BOUNDS.get(name)).tolist()
        assert part.contributions.tolist() == pytest.approx((part.normalised * here).tolist(), abs=1e-12)
        said = sorted(np.flatnonzero(evidence[name]), key=lambda index: (-raw[name][index], ids[index]))
        assert [part.ranks[index] for index in said] == list(range(1, len(said) + 1))
        assert part.ranks[~evidence[name]].tolist() == [0] * (len(ids) - len(said))


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


def recomputed(result: SearchResult, chosen: Weights) -> list[float]:
    """Compute the scores of a result from raw scores alone, where every candidate is among the hits."""
    total = sum(getattr(chosen, name) for name in result.used)
    scores = [hit.boost for hit in result]
    for name in result.used:
        raw = [hit.signals[name].raw for hit in result]
        known = [one for one in raw if one is not None]
        low, high = (0.0, 1.0) if name == "entity" else (min(known), max(known))
        for index, one in enumerate(raw):
            if one is not None and (one > 0 or name == "semantic"):
                share = 1.0 if high == low else (one - low) / (high - low)
                scores[index] += share * getattr(chosen, name) / total
    return scores


@pytest.mark.parametrize("profile", list(PROFILES))
def test_score_can_be_recomputed(real, profile):
    """A score is the sum of its contributions and its boost, and follows by hand from the raw scores of all hits."""
    real.add_many([NewMemory(text=text, author=author) for text, author in NOTES])
    for query in QUERIES:
        result = real.search(query, k=50, profile=profile)
        assert result.used == SIGNALS
        assert len(result) == len(NOTES)
        for hit in result:
            parts = hit.signals.values()
            assert hit.score == pytest.approx(sum(part.contribution for part in parts) + hit.boost, abs=1e-9)
            for part in parts:
                assert part.contribution == pytest.approx(part.normalised * part.weight, abs=1e-12)
                assert 0 <= part.normalised <= 1
            assert {name: part.weight for name, part in hit.signals.items()} == pytest.approx(
                {name: getattr(PROFILES[profile], name) for name in SIGNALS}
            )
        assert [hit.score for hit in result] == pytest.approx(recomputed(result, PROFILES[profile]), abs=1e-9)
        order = [(-hit.score, hit.memory.id) for hit in result]
        assert order == sorted(order)
        assert [hit.rank for hit in result] == list(range(1, len(NOTES) + 1))


def test_ranks_of_a_signal(real):
    """The rank in a signal is the place by its raw score, None without evidence."""
    real.add_many([NewMemory(text=text, author=author) for text, author in NOTES])
    result = real.search(QUERIES[0], k=50)
    for name in SIGNALS:
        parts = [(hit.signals[name], hit.memory.id) for hit in result]
        said = sorted((-part.raw, one, part.rank) for part, one in parts if part.rank is not None)
        assert [rank for *_, rank in said] == list(range(1, len(said) + 1))
        assert all(part.raw == 0 and part.normalised == 0 for part, _ in parts if part.rank is None)
    assert {hit.signals["semantic"].rank for hit in result} == set(range(1, len(NOTES) + 1))


@pytest.mark.parametrize("signals", [None, ["keyword"]])
def test_keyword_score_grows_with_the_match(words, signals):
    """More matching words give a strictly higher keyword score, raw above 0 and scaled in [0, 1], not 1 for all."""
    notes = ["alpha delta epsilon", "alpha beta epsilon", "alpha beta gamma"]
    words.add_many([NewMemory(text=text) for text in [*notes, *(f"filler text {n}" for n in range(20))]])
    hits = {hit.memory.text: hit.signals["keyword"] for hit in words.search("alpha beta gamma", k=9, signals=signals)}
    assert set(hits) == set(notes)
    one, two, three = (hits[note] for note in notes)
    assert 0 < one.raw < two.raw < three.raw
    assert (one.normalised, three.normalised) == (0.0, 1.0)
    assert 0 < two.normalised < 1
    assert [one.rank, two.rank, three.rank] == [3, 2, 1]


def test_equal_hits_are_equal_and_ordered_by_id(words):
    """Memories that match alike all get the full share of the signal, and stand in the order of their ids."""
    added = words.add_many([NewMemory(text="the printer is offline", thread=f"thread {n}") for n in range(4)])
    result = words.search("printer", k=9)
    assert [hit.memory.id for hit in result] == [memory.id for memory in added]
    assert {hit.signals["keyword"].normalised for hit in result} == {1.0}
    assert len({hit.score for hit in result}) == 1
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
    hits = {hit.memory.id: hit for hit in opened(embedder=FakeEmbedder()).search("fire printer", k=9)}
    unknown = SignalScore(raw=None, normalised=0.0, rank=None, weight=0.0, contribution=0.0)
    assert hits[2].signals["semantic"] == unknown
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
        relevance=None,
        signals={
            "keyword": SignalScore(raw=7.25, normalised=1.0, rank=1, weight=0.4, contribution=0.4),
            "semantic": SignalScore(raw=None, normalised=0.0, rank=None, weight=0.0, contribution=0.0),
            "entity": SignalScore(raw=1.0, normalised=1.0, rank=2, weight=0.2, contribution=0.2),
        },
        boost=0.3,
        passage=Passage(start=0, stop=1, text="a"),
        entities=("Zeca Pagodinho",),
        terms=("printer", "zeca"),
    )
    assert hit.explain().splitlines() == [
        "score 0.9000",
        "  keyword  0.4000 = 1.0000 x weight 0.40  (raw 7.25, rank 1)",
        "  semantic 0.0000 = 0.0000 x weight 0.00  (raw unknown, no evidence)",
        "  entity   0.2000 = 1.0000 x weight 0.20  (raw 1, rank 2)",
        "  boost    0.3000",
        "  words     printer, zeca",
        "  entities  Zeca Pagodinho",
    ]


def test_explanation_of_a_real_hit(apart):
    """The explanation of a hit names each signal that took part, the words and the entities that matched."""
    hit = apart.search("printer de Zeca Pagodinho", k=1)[0]
    lines = hit.explain().splitlines()
    assert lines[0] == f"score {hit.score:.4f}"
    assert [line.split()[0] for line in lines[1:]] == [*SIGNALS, "boost", "words", "entities"]
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
        conn.execute("INSERT INTO analysed SELECT 99, languages, length, terms, counts, '' FROM analysed")
    with pytest.warns(UserWarning, match="1 memories that are not there"):
        assert [hit.memory.id for hit in words.search("fish")] == [1]

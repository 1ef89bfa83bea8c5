"""The fusion methods as arithmetic: known values from papers and products, and laws that hold for any scores."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memstore import InvalidInputError
from memstore.fusion import (
    METHODS,
    Gathered,
    Scored,
    Turns,
    dbsf_ends,
    fuse,
    l2_ends,
    method,
    minmax_ends,
    relevance,
    rrf,
    scaled,
    zscore_ends,
)

LAW = settings(deadline=None)
# A score, and whether it is evidence; NaN is a score that is not known and never evidence.
SCORES = st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans()) | st.just((math.nan, False)), max_size=12)


def arrays(scores) -> tuple[np.ndarray, np.ndarray]:
    return np.array([raw for raw, _ in scores], dtype=np.float64), np.array([said for _, said in scores], dtype=bool)


def by(ends, raw, evidence=None) -> list[float]:
    """Return shares by a scaling, all scores being evidence unless said."""
    raw = np.array(raw, dtype=np.float64)
    evidence = np.isfinite(raw) if evidence is None else np.array(evidence, dtype=bool)
    return scaled(raw, evidence, ends(raw, evidence)).tolist()


def gathered(
    known=1.0, identified=None, missing=None, turns=None, eligible=None, ids=None, confidence=None, **signals
) -> Gathered:
    """Return candidates with the raw scores of some signals, NaN and 0 being no evidence; each scale is 0 to 1."""
    count = len(next(iter(signals.values())))
    arrays = {name: np.array(raw, dtype=np.float64) for name, raw in signals.items()}
    return Gathered(
        ids=np.arange(count) if ids is None else np.array(ids),
        eligible=np.ones(count, dtype=bool) if eligible is None else np.array(eligible),
        signals={
            name: Scored(
                raw=raw,
                evidence=np.isfinite(raw) & (raw != 0),
                ends=(0.0, 1.0),
                confidence=(confidence or {}).get(name, 1.0),
            )
            for name, raw in arrays.items()
        },
        identified=np.zeros(count) if identified is None else np.array(identified, dtype=np.float64),
        missing=np.zeros(count, dtype=bool) if missing is None else np.array(missing),
        known=known,
        turns=turns,
    )


@LAW
@given(SCORES)
def test_minmax_is_a_share(scores):
    """What is evidence gets a share in [0, 1], and what is none gets 0."""
    raw, evidence = arrays(scores)
    out = np.array(by(minmax_ends, raw, evidence))
    assert out.shape == raw.shape
    assert ((out >= 0) & (out <= 1)).all()
    assert (out[~evidence] == 0).all()


@LAW
@given(SCORES, st.sampled_from([minmax_ends, dbsf_ends, zscore_ends, l2_ends]))
def test_order_is_kept(scores, ends):
    """Of two that are evidence the one with the higher score never gets less, by any scaling; all are finite."""
    raw, evidence = arrays(scores)
    out = np.array(by(ends, raw, evidence))
    assert np.isfinite(out).all()
    order = np.argsort(raw[evidence], kind="stable")
    assert (np.diff(out[evidence][order]) >= 0).all()


@LAW
@given(SCORES)
def test_minmax_ends(scores):
    """The best of what is known gets 1 and the worst 0, where they are evidence and differ."""
    raw, evidence = arrays(scores)
    known = raw[np.isfinite(raw)]
    out = np.array(by(minmax_ends, raw, evidence))
    if known.size and known.min() < known.max():
        assert (out[evidence & (raw == known.max())] == 1).all()
        assert (out[evidence & (raw == known.min())] == 0).all()


@LAW
@given(st.floats(-1e6, 1e6), st.integers(1, 9), st.integers(0, 3))
def test_equal_evidence_is_one(raw, count, unknown):
    """By min-max equal evidence is 1 and never 0, one candidate alone too, and beside candidates that are not known."""
    assert by(minmax_ends, [raw] * count + [math.nan] * unknown) == [1.0] * count + [0.0] * unknown


@pytest.mark.parametrize(
    ("raw", "evidence", "expected"),
    [
        ([], [], []),
        ([2.0, 4.0, 3.0], [1, 1, 1], [0.0, 1.0, 0.5]),
        ([0.0, 4.0, 1.0], [0, 1, 1], [0.0, 1.0, 0.25]),
        ([0.0, 4.0, 4.0], [0, 1, 1], [0.0, 1.0, 1.0]),
        ([0.0, 0.0], [0, 0], [0.0, 0.0]),
        ([math.nan, 0.5, 0.3], [0, 1, 1], [0.0, 1.0, 0.0]),
        ([-0.5, 0.5, 0.0], [1, 1, 1], [0.0, 1.0, 0.5]),
    ],
)
def test_minmax_by_hand(raw, evidence, expected):
    """Scores are scaled by the list's own ends; a known 0 that is no evidence is the worst."""
    assert by(minmax_ends, raw, evidence) == pytest.approx(expected)


def test_dbsf_by_hand():
    """Mean - 3 and mean + 3 sample deviations (ddof 1) are 0 and 1; one score is 0.5, and nothing is clipped."""
    # Mean 4, sample deviation 2: from -2 to 10.
    assert by(dbsf_ends, [2.0, 4.0, 6.0]) == pytest.approx([4 / 12, 6 / 12, 8 / 12])
    assert by(dbsf_ends, [7.5]) == [0.5]
    assert by(dbsf_ends, [3.0, 3.0, 3.0]) == [0.5, 0.5, 0.5]
    # One far above many equal ones lies beyond mean + 3 deviations only when there are enough of them.
    assert max(by(dbsf_ends, [0.01] * 30 + [1.0])) > 1
    assert by(dbsf_ends, [9.0, 0.0, 1.0], [1, 0, 1])[1] == 0


def test_zscore_by_hand():
    """The mean is 0 and a standard deviation 1; equal scores are 0."""
    assert by(zscore_ends, [1.0, 3.0]) == pytest.approx([-1.0, 1.0])
    assert by(zscore_ends, [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]) == pytest.approx(
        [-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2]
    )
    assert by(zscore_ends, [4.0, 4.0]) == [0.0, 0.0]
    # In floating point the deviation of equal scores is not quite 0.
    for raw in (0.1, 0.7, 1e-9, 1e9):
        assert by(zscore_ends, [raw] * 6) == pytest.approx([0.0] * 6, abs=1e-6)
        assert by(dbsf_ends, [raw] * 3) == pytest.approx([0.5] * 3, abs=1e-6)


def test_l2_by_hand():
    """A score is divided by the Euclidean norm of all."""
    assert by(l2_ends, [3.0, 4.0]) == pytest.approx([0.6, 0.8])
    assert by(l2_ends, [5.0]) == [1.0]


def test_rrf_known_values():
    """Ranks count from 1 and k is 60 by default; weights multiply a list's part."""
    assert rrf([[9, 9, 9, 9, 9, 1][-1:], [0, 1]], k=60)[1] == pytest.approx(1 / 61 + 1 / 62)
    sixth_and_second = rrf([[10, 11, 12, 13, 14, 1], [10, 1]])[1]
    assert sixth_and_second == pytest.approx(1 / 66 + 1 / 62)
    assert round(sixth_and_second, 5) == 0.03128
    one = [[1, 2, 10, 11, 12], [10, 2, 11, 12, 1]]
    assert {key: round(rrf(one)[key], 5) for key in (1, 2)} == {1: 0.03178, 2: 0.03226}
    assert {key: round(rrf(one, weights=[2, 1])[key], 5) for key in (1, 2)} == {1: 0.04817, 2: 0.04839}


def test_rrf_of_a_search_is_that_of_the_lists():
    """The method by ranks gives what the lists give by hand; what a signal did not find adds nothing."""
    found = gathered(keyword=[0.9, 0.8, 0.0, 0.1], semantic=[0.2, 0.5, 0.9, 0.0])
    share = {"keyword": 2.0, "semantic": 1.0}
    by_hand = rrf([[0, 1, 3], [2, 1, 0]], weights=[2.0, 1.0])
    assert fuse(found, share, how="rrf").scores.tolist() == pytest.approx([by_hand[n] for n in range(4)])
    by_hand = rrf([[0, 1, 3], [2, 1, 0]], weights=[2.0, 1.0], k=3)
    assert fuse(found, share, how="rrf", rrf_k=3).scores.tolist() == pytest.approx([by_hand[n] for n in range(4)])


def test_means_by_hand():
    """The geometric and harmonic means leave out shares of 0 with their weights, as OpenSearch does."""
    found = gathered(keyword=[4.0, 2.0, 1.0], semantic=[1.0, 3.0, 5.0])
    share = {"keyword": 0.6, "semantic": 0.4}
    # Shares by min-max: keywords 1, 1/3, 0; vectors 0, 1/2, 1.
    geometric = fuse(found, share, how="geometric").scores
    assert geometric.tolist() == pytest.approx([1.0, math.exp(0.6 * math.log(1 / 3) + 0.4 * math.log(1 / 2)), 1.0])
    harmonic = fuse(found, share, how="harmonic").scores
    assert harmonic.tolist() == pytest.approx([1.0, 1 / (0.6 / (1 / 3) + 0.4 / (1 / 2)), 1.0])


CANDIDATES = st.integers(1, 8).flatmap(
    lambda size: st.tuples(
        *(
            st.lists(st.sampled_from([math.nan, 0.0, 0.25, 0.5, 0.75, 1.0, 2.0]), min_size=size, max_size=size)
            for _ in range(3)
        ),
        st.lists(st.sampled_from([0.0, 0.1, 1.0]), min_size=size, max_size=size),
        st.permutations(range(size)),
        st.lists(st.booleans(), min_size=size, max_size=size),
    )
)


@LAW
@given(CANDIDATES, st.sampled_from(sorted(METHODS)))
def test_a_score_is_its_parts(candidates, how):
    """By any method a score is the boost and all contributions, each a share times a weight; ties go by id."""
    keyword, semantic, entity, identified, ids, eligible = candidates
    found = gathered(
        keyword=keyword, semantic=semantic, entity=entity, identified=identified, ids=ids, eligible=eligible
    )
    share = {"keyword": 0.5, "semantic": 0.3, "entity": 0.2}
    result = fuse(found, share, boost=0.3, how=how)
    assert tuple(result.parts) == ("keyword", "semantic", "entity")
    assert np.isfinite(result.scores).all()
    total = result.boosts + sum(part.contributions for part in result.parts.values())
    assert result.scores == pytest.approx(total, abs=1e-12)
    for part in result.parts.values():
        assert part.contributions == pytest.approx(part.normalised * part.weights, abs=1e-12)
    able = [index for index in range(len(ids)) if eligible[index]]
    assert result.order.tolist() == sorted(able, key=lambda index: (-result.scores[index], ids[index]))


@LAW
@given(CANDIDATES)
def test_the_default_by_hand(candidates):
    """By default a share is the raw score on the signal's scale, and the unknown leaves its weight to the others."""
    keyword, semantic, entity, identified, ids, eligible = candidates
    confidence = {"keyword": 0.5, "entity": 0.4}
    found = gathered(
        keyword=keyword,
        semantic=semantic,
        entity=entity,
        identified=identified,
        ids=ids,
        eligible=eligible,
        confidence=confidence,
    )
    share = {"keyword": 0.5, "semantic": 0.3, "entity": 0.2}
    result = fuse(found, share, boost=0.3)
    for index in range(len(ids)):
        raw = {name: float(found.signals[name].raw[index]) for name in share}
        known = {name: share[name] for name in share if not math.isnan(raw[name])}
        expected = 0.3 * identified[index]
        for name, weight in known.items():
            expected += raw[name] * weight / sum(known.values()) * confidence.get(name, 1.0)
        assert result.scores[index] == pytest.approx(expected, abs=1e-12)


def test_a_score_beyond_the_scale():
    """By default what scores less than what has nothing to do with the query counts less than 0."""
    raw = np.array([0.7, 0.8, 0.9])
    signal = Scored(raw=raw, evidence=np.ones(3, dtype=bool), ends=(0.8, 1.2))
    found = Gathered(
        ids=np.arange(3),
        eligible=np.ones(3, dtype=bool),
        signals={"semantic": signal},
        identified=np.zeros(3),
        missing=np.zeros(3, dtype=bool),
        known=1.0,
    )
    assert fuse(found, {"semantic": 1.0}).scores.tolist() == pytest.approx([-0.25, 0.0, 0.25])


def test_boost_is_a_share_of_the_best_score():
    """A boost adds to scores of up to 1, and by ranks to scores of up to 1/61."""
    found = gathered(keyword=[1.0, 0.5], identified=[0.0, 0.5])
    assert fuse(found, {"keyword": 1.0}, boost=0.4).scores.tolist() == pytest.approx([1.0, 0.7])
    assert fuse(found, {"keyword": 1.0}, boost=0.4, how="rrf").scores.tolist() == pytest.approx(
        [1 / 61, 1 / 62 + 0.2 / 61]
    )


@pytest.mark.parametrize("how", sorted(METHODS))
def test_no_candidates(how):
    """Nothing gathered gives no scores, by every method."""
    assert fuse(gathered(keyword=[], semantic=[]), {"keyword": 1.0, "semantic": 1.0}, how=how).order.tolist() == []


@pytest.mark.parametrize("how", sorted(METHODS))
@pytest.mark.parametrize("raw", [[0.5], [0.5, 0.5, 0.5], [0.0, 0.0], [math.nan, 0.5], [math.nan, math.nan]])
def test_degenerate_lists(how, raw):
    """One score, equal scores, no evidence and unknown scores give finite scores by every method."""
    result = fuse(gathered(keyword=raw, semantic=raw), {"keyword": 0.5, "semantic": 0.5}, how=how)
    assert np.isfinite(result.scores).all()
    assert sorted(result.order.tolist()) == list(range(len(raw)))


def test_unknown_method():
    """A method that does not exist is refused with the names of those that do."""
    assert method(None) is METHODS["calibrated"]
    with pytest.raises(InvalidInputError, match=r"fusion 'magic' is unknown; give one of .*minmax.*rrf"):
        method("magic")


THREE = Turns(
    thread=np.array([0, 0, 0, 1, -1]),
    answered=np.array([-1, 0, -1, -1, -1]),
    asks=np.array([True, False, False, False, True]),
    length=np.array([100.0, 100.0, 10.0, 200.0, 3.0]),
)


def test_threads_by_hand():
    """A turn gets a quarter of the question it answers, four tenths of the way to its thread's best, pays for asking,
    and for being shorter than the others; what is in no thread gets and pays nothing."""
    found = gathered(keyword=[0.8, 0.2, 0.4, 0.3, 0.5], turns=THREE)
    result = fuse(found, {"keyword": 1.0}, thread=1.0)
    # The lengths 100, 100, 10 and 200, of which 100 count, have the geometric mean 56.2.
    usual = (100 * 100 * 10 * 100) ** (1 / 4)
    expected = [
        0.8 - 0.03 + 0.04 * math.log(100 / usual),
        0.2 + 0.25 * 0.8 + 0.4 * 0.6 + 0.04 * math.log(100 / usual),
        0.4 + 0.4 * 0.4 + 0.04 * math.log(10 / usual),
        0.3 + 0.04 * math.log(100 / usual),
        0.5,
    ]
    assert result.scores.tolist() == pytest.approx(expected)
    assert set(result.parts) == {"keyword", "answer", "question", "length", "thread"}
    total = sum(part.contributions for part in result.parts.values())
    assert result.scores == pytest.approx(total)
    assert result.parts["length"].zero == pytest.approx(usual)
    half = fuse(found, {"keyword": 1.0}, thread=0.5).scores
    base = np.array([0.8, 0.2, 0.4, 0.3, 0.5])
    assert half == pytest.approx(base + (result.scores - base) / 2)


@pytest.mark.parametrize("how", sorted(set(METHODS) - {"calibrated"}))
def test_classic_methods_know_no_threads(how):
    """The classic methods give what their papers say: nothing of threads, and no confidence."""
    raw = {"keyword": [0.8, 0.2, 0.4, 0.3, 0.5], "semantic": [0.1, 0.5, 0.2, 0.9, 0.3]}
    share = {"keyword": 0.5, "semantic": 0.5}
    plain = fuse(gathered(**raw), share, how=how)
    with_turns = fuse(gathered(**raw, turns=THREE, confidence={"keyword": 0.1}), share, thread=1.0, how=how)
    assert with_turns.scores.tolist() == plain.scores.tolist()
    assert set(with_turns.parts) == {"keyword", "semantic"}


@LAW
@given(
    st.lists(st.tuples(st.integers(-1, 3), st.booleans(), st.integers(0, 300), st.floats(0, 1)), min_size=1, max_size=8)
)
def test_the_best_of_a_thread_is_lent_nothing_by_it(turns):
    """Threads lift turns towards the best of their thread, never past it, and leave the best where it is."""
    scores = [one[3] for one in turns]
    of = Turns(
        thread=np.array([one[0] for one in turns]),
        answered=np.full(len(turns), -1),
        asks=np.array([one[1] for one in turns]),
        length=np.array([float(one[2]) for one in turns]),
    )
    lent = fuse(gathered(keyword=scores, turns=of), {"keyword": 1.0}, thread=1.0).parts["thread"].contributions
    for index, (thread, *_) in enumerate(turns):
        best = max((scores[n] for n, one in enumerate(turns) if one[0] == thread), default=0) if thread >= 0 else 0
        assert lent[index] == pytest.approx(0.4 * (best - scores[index]) if thread >= 0 else 0.0, abs=1e-12)


def test_relevance_by_hand():
    """Relevance is the logistic of the calibrated score by the default weights and the share of known words."""
    found = gathered(keyword=[1.0, 0.2], semantic=[0.8, 0.1], entity=[1.0, 0.0], identified=[1.0, 0.0], known=0.9)
    score = 0.4 * 1.0 + 0.4 * 0.8 + 0.2 * 1.0 + 0.3
    assert relevance(found)[0] == pytest.approx(1 / (1 + math.exp(-(10.0 * score - 3.5 * 0.9 - 2.9))))
    assert relevance(found)[1] < 0.1
    lacking = gathered(keyword=[1.0], semantic=[0.8], entity=[0.0], missing=[True], known=0.9)
    assert relevance(lacking)[0] == pytest.approx(1 / (1 + math.exp(-(10.0 * 0.72 - 3.5 * 0.9 - 2.0 - 2.9))))


@LAW
@given(CANDIDATES, st.floats(0, 1))
def test_relevance_is_a_probability(candidates, known):
    """Relevance is in [0, 1], and of more evidence never less."""
    keyword, semantic, entity, identified, ids, eligible = candidates
    found = gathered(
        keyword=keyword,
        semantic=semantic,
        entity=entity,
        identified=identified,
        ids=ids,
        eligible=eligible,
        known=known,
    )
    likely = relevance(found)
    assert ((likely >= 0) & (likely <= 1)).all()
    order = np.argsort(fuse(found, {"keyword": 0.4, "semantic": 0.4, "entity": 0.2}, boost=0.3).scores, kind="stable")
    assert (np.diff(likely[order]) >= -1e-12).all()

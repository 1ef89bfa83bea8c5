"""What a ranking is worth, and how sure a mean over questions is: by laws, by hand, by another program's numbers."""

import importlib.util
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from conftest import JUDGED
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memstore.errors import InvalidInputError
from memstore.evaluation import MEASURES, Estimate, difference, differences, estimate, estimates, measured

LAW = settings(deadline=None, max_examples=50)
IDS = st.sampled_from([f"m{n}" for n in range(20)])
RANKED = st.lists(IDS, max_size=30)
RELEVANT = st.sets(IDS, min_size=1, max_size=12)
SHARE = st.floats(0, 1)
SHARES = st.lists(SHARE, min_size=1, max_size=25)
HITS = st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=40)
PAIRS = st.lists(st.tuples(SHARE, SHARE), min_size=1, max_size=25)


@pytest.fixture(scope="module")
def score():
    """The project's own scorer of published collections, which shares no line with the package."""
    path = Path(JUDGED).parent / "bench" / "score.py"
    if not path.is_file():
        pytest.skip(f"the scorer to compare with is not here ({path}); MEMSTORE_JUDGED names the folder beside its own")
    spec = importlib.util.spec_from_file_location("score", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ends(found: Estimate) -> tuple[float, float, float]:
    return found.value, found.low, found.high


def unseen(questions: int) -> float:
    """The upper end of Wilson's score interval for 0 of `questions`."""
    z = 1.959964
    return z * z / (questions + z * z)


@pytest.mark.parametrize(
    ("ranked", "relevant", "grades", "expected"),
    [
        ([], {"a"}, {}, dict.fromkeys(MEASURES, 0.0)),
        (["a"], {"a"}, {}, dict.fromkeys(MEASURES, 1.0)),
        (["x", "a"], {"a"}, {}, {"hit@1": 0, "hit@3": 1, "R@1": 0, "MRR@10": 0.5, "nDCG@10": 1 / math.log2(3)}),
        (["x", "x", "x", "a"], {"a"}, {}, {"hit@1": 0, "hit@3": 1, "MRR@10": 0.5}),
        (["a", "a", "b"], {"a", "b"}, {}, {"R@1": 0.5, "R@5": 1, "nDCG@10": 1}),
        (["b", "a"], {"a", "b"}, {"a": 3, "b": 1}, {"nDCG@10": (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))}),
        (["b", "a"], {"a", "b"}, {"a": 3, "b": 3}, {"nDCG@10": 1}),
        (["b"], {"a", "b"}, {"a": 2}, {"hit@1": 1, "nDCG@10": 0}),
        (["a"], {"a"}, {"a": 0}, {"hit@1": 1, "nDCG@10": 0}),
        ([*"0123456789", "a"], {"a"}, {}, dict.fromkeys(MEASURES, 0.0)),
        ([*"012345678", "a"], {"a"}, {}, {"hit@5": 0, "hit@10": 1, "R@5": 0, "R@10": 1, "MRR@10": 0.1}),
        ([str(n) for n in range(12)], {str(n) for n in range(12)}, {}, {"R@10": 10 / 12, "nDCG@10": 1}),
    ],
)
def test_measures_by_hand(ranked, relevant, grades, expected):
    """Each measure is what its definition gives: repeats count once, past rank 10 nothing counts."""
    found = measured(ranked, relevant, grades)
    assert tuple(found) == MEASURES
    assert {name: found[name] for name in expected} == pytest.approx(expected)


@LAW
@given(RANKED, RELEVANT, st.dictionaries(IDS, st.floats(0, 1e6)))
def test_measures_are_shares(ranked, relevant, gains):
    """Every measure is in [0, 1], and hits grow with depth."""
    found = measured(ranked, relevant, {one: gain for one, gain in gains.items() if one in relevant})
    assert all(0 <= value <= 1 for value in found.values())
    assert found["hit@1"] <= found["hit@3"] <= found["hit@5"] <= found["hit@10"]
    assert found["R@1"] <= found["R@5"] <= found["R@10"]
    assert found["hit@1"] <= found["MRR@10"] <= found["hit@10"]


@LAW
@given(RELEVANT, st.dictionaries(IDS, st.floats(0.1, 1e6)))
def test_the_best_order_is_worth_one(relevant, gains):
    """A ranking of the relevant memories by their gain is worth 1 in nDCG and MRR."""
    grades = {one: gains.get(one, 1.0) for one in relevant}
    found = measured(sorted(relevant, key=lambda one: -grades[one]), relevant, grades)
    assert found["nDCG@10"] == pytest.approx(1)
    assert found["MRR@10"] == 1


def test_nothing_relevant_is_refused():
    """A question without a right answer can't be measured."""
    with pytest.raises(InvalidInputError, match="relevant is empty; a question needs at least one"):
        measured(["a"], (), {})


@LAW
@given(SHARES, st.randoms())
def test_the_order_of_questions_is_nothing(values, random):
    """The same questions in another order have the same estimate."""
    shuffled = list(values)
    random.shuffle(shuffled)
    assert estimate(np.array(shuffled)) == estimate(np.array(values))


@LAW
@given(PAIRS, st.randoms())
def test_the_order_of_pairs_is_nothing(pairs, random):
    """The same pairs in another order have the same difference."""
    shuffled = list(pairs)
    random.shuffle(shuffled)
    assert difference(*np.array(shuffled).T) == difference(*np.array(pairs).T)


@LAW
@given(PAIRS)
def test_a_difference_turns_with_its_runs(pairs):
    """Which of two runs is named first changes the sign of their difference and nothing else."""
    one, other = np.array(pairs).T
    there, back = difference(one, other), difference(other, one)
    assert ends(back) == pytest.approx((-there.value, -there.high, -there.low), abs=1e-12)


@LAW
@given(SHARES)
def test_an_interval_holds_its_value(values):
    """An estimate is inside its interval, which is inside the measure's scale."""
    found = estimate(np.array(values))
    assert found.value == pytest.approx(np.mean(values), abs=1e-12)
    assert -1e-9 <= found.low <= found.value <= found.high <= 1 + 1e-9


@LAW
@given(PAIRS)
def test_a_difference_holds_its_value(pairs):
    """A difference is the difference of the means, inside its interval."""
    one, other = np.array(pairs).T
    found = difference(one, other)
    assert found.value == pytest.approx(estimate(one).value - estimate(other).value, abs=1e-12)
    assert -1 - 1e-9 <= found.low <= found.value <= found.high <= 1 + 1e-9


@LAW
@given(HITS)
def test_a_share_is_never_certain(values):
    """No share of several questions has an interval of no width, not even one of none or of all."""
    found = estimate(np.array(values))
    assert found.low < found.high


@pytest.mark.parametrize("questions", [2, 10, 400])
def test_all_equal_is_wilson(questions):
    """Where all questions or none are right, the interval is Wilson's score interval."""
    u = unseen(questions)
    assert ends(estimate(np.ones(questions))) == pytest.approx((1, 1 - u, 1), abs=1e-6)
    assert ends(estimate(np.zeros(questions))) == pytest.approx((0, 0, u), abs=1e-6)


def test_wilson_is_that_of_scipy():
    """The interval of ten right of ten is the one that another library gives."""
    stats = pytest.importorskip("scipy.stats", reason="scipy, to compare with, is not installed")
    known = stats.binomtest(10, 10).proportion_ci(method="wilson")
    assert ends(estimate(np.ones(10))) == pytest.approx((1, known.low, known.high))


def test_all_equal_between_the_ends():
    """A mean of equal values in between could lie lower or higher by what the unseen share of questions could do."""
    u = unseen(10)
    assert ends(estimate(np.full(10, 0.25))) == pytest.approx((0.25, 0.25 - u * 0.25, 0.25 + u * 0.75), abs=1e-6)


def test_no_question_differs():
    """Two runs that agree on each of n questions may differ, either way, by the share of those not met."""
    one = np.array([1.0, 0.0, 1.0, 0.5] * 10)
    assert ends(difference(one, one)) == pytest.approx((0, -unseen(40), unseen(40)), abs=1e-6)


def test_rounding_is_no_difference():
    """Differences that only rounding keeps apart count as equal."""
    one, other = np.array([0.3, 0.2, 0.9]), np.array([0.2, 0.1, 0.8])
    assert len(set(one - other)) > 1
    found = difference(one, other)
    assert found.high - found.low == pytest.approx(2 * unseen(3), abs=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.4, 1.0])
def test_one_question_is_its_value(value):
    """Of one question the interval is its value."""
    assert ends(estimate(np.array([value]))) == (value, value, value)
    assert ends(difference(np.array([value]), np.array([0.0]))) == (value, value, value)


def test_more_questions_more_certainty():
    """Four times as many questions of the same kind halve the interval."""
    few, many = (estimate(np.array([0.0, 1.0, 1.0] * times)) for times in (40, 160))
    assert (few.high - few.low) / (many.high - many.low) == pytest.approx(2, rel=0.1)


def test_an_interval_is_that_of_a_normal_mean():
    """With many questions the interval is 1.96 standard errors each way."""
    values = np.random.default_rng(5).random(800)
    found, error = estimate(values), values.std() / math.sqrt(800)
    assert ends(found) == pytest.approx(
        (values.mean(), values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=2e-3
    )


def test_intervals_hold_the_truth():
    """Of many samples of 60 questions from a known share, about 95 in 100 intervals hold it."""
    drawn = (np.random.default_rng(3).random((60, 400)) < 0.7).astype(float)
    held = sum(found.low <= 0.7 <= found.high for found in estimates(drawn))
    assert 0.91 <= held / 400 <= 0.98


def test_pairs_are_surer_than_runs():
    """A run that is a little better on each question is surely better, though the intervals of both overlap."""
    other = np.random.default_rng(2).random(50) * 0.9
    one = other + 0.05 + np.random.default_rng(4).random(50) * 0.02
    assert estimate(one).low < estimate(other).high
    assert difference(one, other).low > 0.05


def test_columns_are_estimated_alone():
    """Many measures at once give what each alone gives, and the same again."""
    drawn = np.random.default_rng(1).random((30, 4)).round(1)
    drawn[:, 2] = 1.0
    other = drawn[:, ::-1]
    together = estimates(drawn)
    assert estimates(drawn) == together
    for column in range(4):
        assert ends(together[column]) == pytest.approx(ends(estimate(drawn[:, column])), abs=1e-12)
        alone = difference(drawn[:, column], other[:, column])
        assert ends(differences(drawn, other)[column]) == pytest.approx(ends(alone), abs=1e-12)


def test_ten_thousand_questions_fit():
    """Ten thousand questions with ten measures are estimated in well below the memory of all draws at once."""
    drawn = np.random.default_rng(1).random((10_000, 10))
    tracemalloc.start()
    found = estimates(drawn)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 80_000_000
    assert found[0].high - found[0].low == pytest.approx(2 * 1.96 * drawn[:, 0].std() / 100, rel=0.05)


@pytest.mark.parametrize("values", [[0.5, math.nan], [-0.1], [1.1], [math.inf]])
def test_what_is_no_measure_is_refused(values):
    """Values outside the scale of a measure are refused."""
    with pytest.raises(InvalidInputError, match="outside 0 to 1, or not a number; give those of `measured`"):
        estimate(np.array(values))


def test_no_question_is_refused():
    """There is no estimate of nothing, and no difference of runs that were asked different questions."""
    with pytest.raises(InvalidInputError, match=r"shape \(0, 1\); give at least one question"):
        estimate(np.array([]))
    with pytest.raises(InvalidInputError, match="ask both the same"):
        difference(np.array([1.0, 0.0]), np.array([1.0]))


@LAW
@given(RANKED, RELEVANT, st.dictionaries(IDS, st.floats(0, 1e6)))
def test_each_question_as_the_scorer_has_it(score, ranked, relevant, gains):
    """The measures of a question are those of the project's scorer."""
    grades = {one: gain for one, gain in gains.items() if one in relevant}
    assume(not grades or any(gain > 1e-300 for gain in grades.values()))
    known = score.measures({"relevant": sorted(relevant), "grades": grades}, ranked)
    assert measured(ranked, relevant, grades) == pytest.approx(known, abs=1e-12)


def test_a_run_as_the_scorer_has_it(score, capsys):
    """The means, intervals and paired differences of two runs are those that the project's scorer prints."""
    rng = np.random.default_rng(11)
    names = [f"d{n}" for n in range(40)]
    queries, runs = [], ({}, {})
    for number in range(300):
        relevant = rng.choice(names, size=rng.integers(1, 4), replace=False).tolist()
        query = {"id": f"q{number}", "text": "?", "relevant": relevant}
        if number % 3 == 0:
            query["grades"] = {one: float(rng.integers(1, 4)) for one in relevant}
        queries.append(query)
        for run in runs:
            run[query["id"]] = rng.choice(names, size=15).tolist()
    values = [
        np.array([list(measured(run[q["id"]], q["relevant"], q.get("grades", {})).values()) for q in queries])
        for run in runs
    ]
    score.table(queries, *runs, np.random.default_rng(0), "all")
    printed = [
        line.replace("[", " ").replace("]", " ").replace(",", " ").split()
        for line in capsys.readouterr().out.splitlines()[1:]
    ]
    found = zip(MEASURES, estimates(values[0]), differences(*values), strict=True)
    for line, (name, own, paired) in zip(printed, found, strict=True):
        assert line[0] == name
        assert own.value == pytest.approx(float(line[1]), abs=6e-5)
        assert (own.low, own.high) == pytest.approx((float(line[2]), float(line[3])), abs=0.01)
        assert ends(paired) == pytest.approx([float(one) for one in line[-3:]], abs=0.01)
    known = np.array([list(score.measures(q, runs[0][q["id"]]).values()) for q in queries]).mean(axis=0)
    assert [one.value for one in estimates(values[0])] == pytest.approx(known, abs=1e-12)

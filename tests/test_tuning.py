"""Weights from judged questions: found where they are better, refused where they only seem so."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from conftest import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st

from memstore import MemoryStore, NewMemory, Weights
from memstore.errors import InvalidInputError
from memstore.evaluation import Judged
from memstore.evaluation.answering import ranked
from memstore.fusion import PROFILES
from memstore.tuning import FEWEST, Tuning, candidates, halves, rows, tune, weighed

SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "tu", "va", "xe")
WORDS = ["".join(parts) + "k" for parts in product(SYLLABLES, repeat=3)]
Run = Callable[..., subprocess.CompletedProcess[str]]


def planted(number: int) -> tuple[list[NewMemory], list[Judged], FakeEmbedder]:
    """Questions with one word of their right memory, and the vector of a wrong one."""
    memories = [NewMemory(text=f"{WORDS[2 * n]} {WORDS[2 * n + 1]}", key=f"m{n}") for n in range(number)]
    questions = [
        Judged(
            id=str(n),
            text=f"{WORDS[2 * n]} {WORDS[-1 - n]}",
            relevant=(f"m{n}",),
            grades={f"m{n}": 1.0},
            category=("even", "odd")[n % 2],
        )
        for n in range(number)
    ]
    plain = FakeEmbedder(dimensions=32)
    known = {one.text: plain.vector(memories[(n + 7) % number].text) for n, one in enumerate(questions)}
    return memories, questions, FakeEmbedder(dimensions=32, known=known)


@pytest.fixture(scope="module")
def misled(tmp_path_factory) -> Iterator[tuple[MemoryStore, list[Judged], Tuning]]:
    """A store whose vectors mislead, 120 questions, and what tuning finds in them."""
    memories, questions, embedder = planted(120)
    with MemoryStore(tmp_path_factory.mktemp("misled") / "memory.db", embedder=embedder) as store:
        store.add_many(memories)
        yield store, questions, tune(store.searcher, questions)


def noise(questions: int, seed: int) -> tuple[np.ndarray, np.ndarray, tuple[Weights, ...]]:
    """nDCG@10 and hit@1 by 66 weights of three signals where any of 40 candidates may be the right one."""
    draws = np.random.default_rng(seed)
    tried = candidates_of_a_plain_store()
    shares = np.array([[one.keyword, one.semantic, one.entity] for one in tried])
    scores = draws.beta(0.8, 2, (questions, 40, 3)) @ shares.T
    right = draws.integers(0, 40, questions)
    ranks = 1 + (scores > scores[np.arange(questions), right][:, np.newaxis]).sum(axis=1)
    return np.where(ranks <= 10, 1 / np.log2(1 + ranks), 0.0), (ranks == 1).astype(float), tried


def candidates_of_a_plain_store() -> tuple[Weights, ...]:
    grid = [
        Weights(keyword=k / 10, semantic=s / 10, entity=(10 - k - s) / 10) for k in range(11) for s in range(11 - k)
    ]
    return tuple(sorted(grid, key=lambda one: abs(one.keyword - 0.4) + abs(one.semantic - 0.4) + abs(one.entity - 0.2)))


def test_a_real_gain_is_found_held_out_and_saved(misled):
    """Where only keywords are right, they win on questions held out, and a search by the saved profile is better."""
    store, questions, found = misled
    assert found.real
    assert found.questions == 120
    assert found.chosen.keyword >= 0.6
    assert found.chosen.entity == 0.2
    assert 0.2 < found.gain.low < found.gain.value <= found.in_sample + 1e-9
    assert found.gain_first.low > 0.2
    assert len(found.verdict) == 1
    assert "better here than the default" in found.verdict[0]
    store.profiles.save("tuned", found.chosen)

    def right(profile: str) -> int:
        return sum(store.search(one.text, k=1, profile=profile)[0].memory.key == one.relevant[0] for one in questions)

    assert right("tuned") > right("default") + 30


def test_what_tuning_tells(misled):
    """Gains are told by category too, with the weights that the halves chose most, as rows and in the record."""
    _, _, found = misled
    assert found.default == PROFILES["default"]
    assert found.categories == {"even": 60, "odd": 60}
    assert all(one.low > 0 for one in found.category_gains.values())
    shares = [one.share for one in found.often]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1 + 1e-9
    assert len(shares) <= 5
    told = dict(rows(found))
    assert told["questions"] == "120"
    assert told["tried"].startswith("9 weights")
    assert told["  odd"].endswith("(60 questions)")


def test_the_same_questions_give_the_same_weights(misled):
    """Tuning hangs on nothing but the store, the questions and the seed."""
    store, questions, _ = misled
    assert tune(store.searcher, questions[:40], repeats=3) == tune(store.searcher, questions[:40], repeats=3)
    scores, firsts, tried = noise(60, 0)
    one, same, other = (weighed(scores, firsts, tried, [None] * 60, repeats=5, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.gain != other.gain


def test_progress_is_told(misled):
    """Progress rises by one to the whole, which stays the same."""
    store, questions, _ = misled
    told: list[tuple[int, int]] = []
    tune(store.searcher, questions[:5], repeats=1, progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 10) for done in range(1, 11)]


@pytest.mark.parametrize("number", [1, 2, 10, FEWEST - 1])
def test_few_questions_are_never_enough(misled, number):
    """However clear the gain, fewer than 30 questions leave the default and say how many more are needed."""
    store, questions, _ = misled
    found = tune(store.searcher, questions[:number])
    assert not found.real
    assert found.in_sample > 0
    assert found.verdict == (
        f"The default weights stay: {number} question{' is' if number == 1 else 's are'} too few to tell a gain from"
        f" luck, and at least 30 are needed; give {found.verdict[0].split('give ')[1]}",
    )
    assert int(found.verdict[0].split("give ")[1].split(" more")[0]) >= FEWEST - number


def test_the_default_stays_where_it_is_best(tmp_path):
    """Where words and vectors agree on the right memory, nothing is better than the default."""
    memories, questions, _ = planted(40)
    plain = FakeEmbedder(dimensions=32)
    known = {one.text: plain.vector(memories[n].text) for n, one in enumerate(questions)}
    with MemoryStore(tmp_path / "memory.db", embedder=FakeEmbedder(dimensions=32, known=known)) as store:
        store.add_many(memories)
        found = tune(store.searcher, questions)
    assert (found.real, found.chosen, found.gain.value) == (False, PROFILES["default"], 0.0)
    assert found.verdict == ("The default weights stay: of 9 that were tried none is better on these questions.",)


def test_luck_is_no_gain():
    """Of 30 sets of questions whose right answers were drawn by lot, at most two seem to gain (95 % intervals)."""
    found = []
    for seed in range(30):
        scores, firsts, tried = noise((30, 60, 120)[seed % 3], seed)
        found.append(weighed(scores, firsts, tried, [None] * len(scores), repeats=20, seed=seed))
    assert sum(one.real for one in found) <= 2
    # What was chosen always seems to gain on the questions it was chosen on; held out it does not.
    assert np.mean([one.in_sample for one in found]) > 0.02
    assert abs(np.mean([one.gain.value for one in found])) < 0.01
    assert all("default weights stay" in one.verdict[0] for one in found if not one.real)


def test_a_gain_that_may_be_luck_says_how_many_questions_it_takes():
    """A gain whose interval holds 0 leaves the default, and says roughly how many more questions would show it."""
    draws = np.random.default_rng(0)
    default = draws.random(60) / 2
    scores = np.stack([default, np.clip(default + draws.normal(0, 0.2, 60), 0, 1)], axis=1)
    found = weighed(scores, scores, [Weights(), Weights(keyword=1)], [None] * 60, repeats=20, seed=0)
    assert not found.real
    assert found.gain.low <= 0 < found.gain.value
    assert "may be luck, since its interval holds 0. To show a gain of this size takes about" in found.verdict[0]


def test_a_category_that_loses_is_named():
    """A real gain on the whole that is a loss in one category says so."""
    scores = np.array([[0.2, 0.9]] * 60 + [[0.9, 0.3], [0.8, 0.1]] * 5)
    kinds = ["codes"] * 60 + ["people"] * 10
    found = weighed(scores, scores, [Weights(), Weights(keyword=1)], kinds, repeats=5, seed=0)
    assert found.real
    assert found.verdict[1] == "They are worse on people; where those matter most, keep the default."


def test_equally_good_weights_are_the_nearest_to_the_default():
    """Among equals the first, which is the nearest to the default, is chosen."""
    scores = np.array([[0.1, 0.5, 0.5]] * 40)
    tried = [Weights(), Weights(keyword=0.5), Weights(keyword=1)]
    found = weighed(scores, scores, tried, [None] * 40, repeats=2, seed=0)
    assert found.chosen is tried[1]
    assert found.real


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=40), st.integers(0, 2**32))
def test_halves_are_stratified(kinds, seed):
    """Two halves hold each question once, and each category evenly, to within one; then they change places."""
    (one, other), swapped = halves(kinds, np.random.default_rng(seed))
    assert sorted([*one, *other]) == list(range(len(kinds)))
    assert [half.tolist() for half in swapped] == [other.tolist(), one.tolist()]
    counts = [Counter(kinds[at] for at in half) for half in (one, other)]
    assert all(abs(counts[0][kind] - counts[1][kind]) <= 1 for kind in set(kinds))
    assert 0 <= len(one) - len(other) <= 1


@pytest.fixture
def mixed(opened) -> MemoryStore:
    """A store with two spaces, a thread, a code and names."""
    store = opened(embedder=FakeEmbedder(model_id="one"))
    talk = [
        ("Ana", "when does the red boat leave?"),
        ("Bo", "at noon"),
        ("Ana", "and ERR-4018?"),
        ("Bo", "card expired"),
    ]
    store.add_many(
        [NewMemory(text=text, author=author, thread="talk", created_at="2025-01-01") for author, text in talk]
        + [NewMemory(text=f"{word} boat of Ana Souza") for word in WORDS[:8]]
        + [NewMemory(text=f"red {word}") for word in WORDS[8:16]]
        + [NewMemory(text="ERR-4018 is a red card")]
    )
    store.spaces.add(FakeEmbedder(model_id="two"))
    store.spaces.fill()
    store.spaces.default("one", "two")
    return store


def test_weights_are_tried_on_what_a_search_would_rank(mixed):
    """For any weights, what was gathered once is ranked as a search by these weights ranks."""
    for query in ("red boat", "ERR-4018 boat?", "Ana Souza", "noon", "nothing of this"):
        gathered = mixed.searcher.gather(query)
        for weights in candidates([gathered])[::13]:
            hits = mixed.search(query, k=10, weights=weights)
            assert ranked(gathered, weights) == [hit.memory.id for hit in hits], (query, weights)


def test_only_what_makes_a_difference_is_tried(mixed, tmp_path):
    """Boost, threads and single spaces are tried where there are any; the default comes first, others by nearness."""
    gather = mixed.searcher.gather
    whole = candidates([gather("red boat"), gather("ERR-4018")])
    assert len(whole) == (66 + 2 * 55) * 2 * 2
    assert whole[0] == PROFILES["default"]
    assert len(set(map(repr, whole))) == len(whole)
    assert {tuple(one.spaces) for one in whole} == {(), ("one",), ("two",)}
    assert all(one.semantic == 0 for one in whole if one.spaces)
    assert len(candidates([gather("red boat"), gather("Ana Souza"), gather("???")])) == (66 + 2 * 55) * 2
    assert len(candidates([gather("red boat")])) == (9 + 2 * 8) * 2
    with MemoryStore(tmp_path / "words.db", embedder="none") as words:
        words.add("a red boat of Ana Souza")
        assert candidates([words.searcher.gather("boat")]) == (PROFILES["default"],)
        found = candidates([words.searcher.gather("Ana Souza")])
    assert [one.keyword for one in found] == [0.4, 0.5, 0.3, 0.6, 0.2, 0.1, 0.0]
    assert {one.semantic for one in found} == {0.4}


def test_a_space_alone_can_be_chosen(opened):
    """Where one of two spaces misleads and the other is right, the right one alone becomes the profile."""
    memories, questions, wrong = planted(40)
    plain = FakeEmbedder(dimensions=32, model_id="right")
    questions = [
        Judged(id=one.id, text=f"{WORDS[-1 - n]} {WORDS[-100 - n]}", relevant=one.relevant, grades=one.grades)
        for n, one in enumerate(questions)
    ]
    wrong.known = {one.text: wrong.vector(memories[(n + 7) % 40].text) for n, one in enumerate(questions)}
    plain.known = {
        one.text: plain.vector(memories[n].text) + 0.1 * plain.vector(one.text) for n, one in enumerate(questions)
    }
    store = opened(embedder=wrong)
    store.add_many(memories)
    store.spaces.add(plain)
    store.spaces.fill()
    store.spaces.default("fake", "right")
    found = tune(store.searcher, questions)
    assert found.real
    assert list(found.chosen.spaces) == ["right"]
    store.profiles.save("tuned", found.chosen)
    answer = store.search(questions[3].text, k=1, profile="tuned")
    assert answer.spaces == ("right",)
    assert answer[0].memory.key == questions[3].relevant[0]


def test_questions_about_other_memories_are_left_out(misled):
    """A question none of whose memories is in the store is left out and noted; when that is all of them, refused."""
    store, questions, _ = misled
    stranger = Judged(id="far", text="x", relevant=("nowhere",))
    found = tune(store.searcher, [*questions[:6], stranger], repeats=1)
    assert found.questions == 6
    assert "'far'" in found.notes[0]
    with pytest.raises(InvalidInputError, match="nowhere"):
        tune(store.searcher, [stranger])


@pytest.mark.parametrize("option", [{"repeats": 0}, {"repeats": 1.5}, {"seed": -1}, {"seed": "x"}])
def test_numbers_are_checked(misled, option):
    """Repeats and seed are whole numbers."""
    store, questions, _ = misled
    with pytest.raises(InvalidInputError, match=f"{next(iter(option))} is .*; give a whole number"):
        tune(store.searcher, questions, **option)


def four(number: int) -> str:
    return " ".join(WORDS[4 * number : 4 * number + 4])


@pytest.fixture(scope="module")
def coded(tmp_path_factory) -> Path:
    """A folder with a file where an error code misleads, and 40 and 10 questions to it."""
    folder = tmp_path_factory.mktemp("coded")
    with MemoryStore(folder / "cli.db", embedder="none") as store:
        store.add_many(NewMemory(text=four(n), key=f"m{n}") for n in range(40))
        store.add_many(NewMemory(text=f"ERR-{4000 + n}") for n in range(40))
    lines = [json.dumps({"text": f"ERR-{4000 + n} {four(n)}", "relevant": f"m{n}"}) for n in range(40)]
    (folder / "questions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "few.jsonl").write_text("\n".join(lines[:10]), encoding="utf-8")
    return folder


@pytest.fixture
def run(coded: Path, tmp_path: Path) -> Run:
    """Run `memstore ARGUMENTS` in a process of its own, in a copy of that folder."""
    shutil.copytree(coded, tmp_path, dirs_exist_ok=True)

    def run(*arguments: str, stdin: str = "", db: str = "cli.db") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "memstore", *arguments],
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, "MEMSTORE_DB": str(tmp_path / db), "PYTHONIOENCODING": "utf-8"},
            encoding="utf-8",
            check=False,
        )

    return run


def test_tune_saves_a_profile_that_search_takes(run):
    """A real gain becomes a profile, which is said, listed, used and removed."""
    query = f"ERR-4000 {four(0)}"
    assert "ERR-4000" in run("search", query).stdout.splitlines()[0]
    done = run("tune", "questions.jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.endswith("They are saved as the profile tuned: memstore search … --profile tuned\n")
    assert WORDS[0] in run("search", query, "--profile", "tuned").stdout.splitlines()[0]
    listed = run("profiles").stdout.splitlines()
    assert listed[0] == "built in\tdefault\tkeyword 0.4, semantic 0.4, entity 0.2, boost 0.3, thread 1"
    assert listed[4].startswith("file\ttuned\tkeyword ")
    found = json.loads(run("profiles", "--json").stdout)
    assert [(one["name"], one["built_in"]) for one in found][-2:] == [("people", True), ("tuned", False)]
    assert found[-1]["boost"] == 0
    assert run("profiles", "remove", "tuned").stdout == "the profile tuned is gone\n"
    done = run("profiles", "remove", "tuned")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no profile 'tuned' in the file" in done.stderr


def test_a_dry_run_saves_nothing(run):
    """A dry run says what it would save; as JSON it is all of standard output."""
    done = run("tune", "questions.jsonl", "--dry-run", "--json", "--profile", "mine")
    found = json.loads(done.stdout)
    assert (done.returncode, found["real"], found["saved"], found["questions"]) == (0, True, None, 40)
    assert found["chosen"]["boost"] == 0
    assert found["gain"]["low"] > 0
    assert len(json.loads(run("profiles", "--json").stdout)) == len(PROFILES)
    assert (
        "without --dry-run they become the profile mine"
        in run("tune", "questions.jsonl", "--dry-run", "--profile", "mine").stdout
    )
    assert json.loads(run("tune", "questions.jsonl", "--json", "--profile", "mine").stdout)["saved"] == "mine"


def test_few_questions_leave_the_default_and_are_no_error(run, tmp_path):
    """Ten questions save nothing, from standard input with a byte order mark too, and the exit code is 0."""
    lines = (tmp_path / "few.jsonl").read_text(encoding="utf-8")
    # Only "\n" ends a line: U+2028 is part of a question.
    extra = json.dumps({"text": f"{WORDS[60]}\u2028?", "relevant": ["gone"]}, ensure_ascii=False)
    done = run("tune", "-", stdin=f"\ufeff{lines}\n{extra}\n")
    assert done.returncode == 0, done.stderr
    assert "The default weights stay: 10 questions are too few" in done.stdout
    assert "1 of 11 questions were left out" in done.stderr
    assert run("tune", "-", "-q", stdin=f"{lines}\n{extra}").stderr == ""
    assert len(json.loads(run("profiles", "--json").stdout)) == len(PROFILES)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["tune", "questions.jsonl", "--profile", "people"], 1, "the profile 'people' is built in"),
        (["tune", "questions.jsonl", "--profile", ""], 1, "profile is empty"),
        (["tune", "nowhere.jsonl"], 1, "nowhere.jsonl can't be read"),
        (["tune", "bad.jsonl"], 1, "bad.jsonl, line 1: this is not JSON"),
        (["tune", "questions.jsonl", "-n", "elsewhere"], 1, "is in this store"),
        (["tune"], 2, "Missing argument"),
        (["profiles", "remove", "default"], 1, "the profile 'default' is built in"),
        (["profiles", "--json", "remove", "tuned"], 2, "give options after the command"),
    ],
)
def test_what_goes_wrong_is_one_sentence(run, tmp_path, arguments, code, sentence):
    """An error is one sentence on standard error."""
    (tmp_path / "bad.jsonl").write_text("{", encoding="utf-8")
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert code == 2 or done.stderr.count("\n") == 1


def test_tuning_makes_no_file(run, tmp_path):
    """Where there is no memory file, tune and profiles say so and make none."""
    for arguments in (["tune", "questions.jsonl"], ["profiles"], ["profiles", "remove", "tuned"]):
        done = run(*arguments, db="none.db")
        assert done.returncode == 1
        assert "there is no memory file" in done.stderr
    assert not (tmp_path / "none.db").exists()


def test_an_export_that_begins_with_a_profile_comes_through_a_pipe(run, tmp_path):
    """Standard input is known as an export by a profile in its first line too."""
    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        store.profiles.save("tuned", Weights(keyword=1))
    exported = run("export").stdout
    assert exported.startswith('{"profile": "tuned"')
    assert run("import", "-", "--embedder", "none", stdin=exported, db="new.db").stdout.startswith("80 added")
    assert "file\ttuned\tkeyword 1" in run("profiles", db="new.db").stdout

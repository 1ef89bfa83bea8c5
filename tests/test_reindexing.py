"""Another analyser or other languages: what was analysed before is told of, is analysed anew, and loses nothing."""

import json
import shutil
import warnings
from contextlib import closing
from itertools import pairwise

import apsw
import pytest
from conftest import FakeEmbedder
from test_consistency import assert_entities_consistent, assert_keywords_consistent

from memstore import DamagedStoreError, InvalidInputError, MemoryStore, NewMemory, ReadOnlyError, memories
from memstore.analysis import ANALYSER_VERSION, LANGUAGES, analyser, stamp
from memstore.cli import cli

EARLIER = f"{ANALYSER_VERSION - 1} {' '.join(LANGUAGES)}"
LATER = f"{ANALYSER_VERSION + 1} {' '.join(LANGUAGES)}"
LONG = "uma frase longa sobre pagamentos. " * 400
TEXTS = [
    NewMemory(text="os pagamentos falharam ontem", author="Ana", thread="talk"),
    NewMemory(text="we were running late because of the payments", thread="talk", created_at="2023-05-08T10:00:00Z"),
    NewMemory(text="a informação chegou em São Paulo, disse a Maria da Silva", thread="talk", entities=["Projeto X"]),
    NewMemory(text="ERR-4018 means that cards are expiring", author="Beto"),
    NewMemory(text="las canciones que cantamos ayer", tags=["música"]),
]


def earlier_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the analyser be the one before: its stems are the first four letters of words."""
    monkeypatch.setattr(analyser, "ANALYSER_VERSION", ANALYSER_VERSION - 1)
    monkeypatch.setattr(analyser, "stems", lambda word, languages: tuple(word[:4] for _ in languages))


@pytest.fixture
def made_earlier(path, monkeypatch):
    """A file that the analyser before this one has made."""
    with monkeypatch.context() as patched:
        earlier_analysis(patched)
        with MemoryStore(path, embedder=FakeEmbedder()) as store:
            store.terms.add("Projeto X", kind="project", aliases=["PX"])
            store.add_many(TEXTS)
    return path


def rows(store: MemoryStore, sql: str) -> list[tuple]:
    with store._database.read() as conn:
        return conn.execute(sql).fetchall()


def analysed_by(store: MemoryStore) -> dict[int, str]:
    return dict(rows(store, "SELECT memory_id, analyser FROM analysed"))


def set_analyser(store: MemoryStore, name: str, where: str = "true") -> None:
    with store._database.write() as conn:
        conn.execute(f"UPDATE analysed SET analyser = ? WHERE {where}", (name,))


def assert_consistent(store: MemoryStore) -> None:
    with store._database.read() as conn:
        ids = [one for (one,) in conn.execute("SELECT id FROM memories ORDER BY id")]
        there = {one: memories.get(conn, one) for one in ids}
        assert_keywords_consistent(conn, there)
        assert_entities_consistent(conn, there, store)


def test_a_new_file_has_nothing_stale(words):
    """What this program analyses is not stale: nothing is counted, said or done."""
    words.add_many(TEXTS)
    assert words.stats().stale == 0
    assert words.search("payments").notices == ()
    assert words.maintenance.reindex() == 0


@pytest.mark.usefixtures("made_earlier")
def test_what_another_analyser_made_is_told_of_and_analysed_anew(opened):
    """Words of memories that an earlier analyser read may be missed; stats and searches say so until it is mended."""
    store = opened(embedder=FakeEmbedder())
    assert store.stats().stale == len(TEXTS)
    missed = store.search("it expires", signals=["keyword"])
    assert not missed
    assert [notice for notice in missed.notices if "memstore reindex" in notice] == list(missed.notices)
    assert len(missed.notices) == 1
    assert store.maintenance.reindex() == len(TEXTS)
    found = store.search("it expires", signals=["keyword"])
    assert found[0].memory.id == 4
    assert found.notices == ()
    assert store.stats().stale == 0
    assert_consistent(store)
    assert store.maintenance.reindex() == 0


@pytest.mark.usefixtures("made_earlier")
def test_what_does_not_hang_on_the_analyser_stays(opened):
    """Analysing anew leaves memories, given entities, known terms, passages and vectors as they are."""
    store = opened(embedder=FakeEmbedder())
    kept = (
        "SELECT * FROM memories",
        "SELECT * FROM tags",
        "SELECT * FROM passages",
        "SELECT * FROM passage_vectors",
        "SELECT rowid, embedding FROM vectors_1",
        "SELECT * FROM entity_terms",
        "SELECT memory_id, name FROM memory_entities JOIN entities ON id = entity_id WHERE given",
        "SELECT * FROM embedders",
        "SELECT * FROM space_statistics",
    )
    before = [rows(store, sql) for sql in kept]
    assert all(before)
    store.maintenance.reindex()
    assert [rows(store, sql) for sql in kept] == before
    assert [one.id for one in store.mentions("PX")] == [3]


def test_each_write_analyses_a_few_anew(opened):
    """Writes take some of what is stale along, a bounded number each, until nothing is stale."""
    store = opened(embedder="none")
    store.add_many([NewMemory(text=f"note {number} about payments") for number in range(30)])
    set_analyser(store, EARLIER)
    left = [store.stats().stale]
    while left[-1]:
        store.add(f"another note, the {len(left)}th", embed="later")
        left.append(store.stats().stale)
    steps = [one - other for one, other in pairwise(left)]
    assert all(0 < step <= 8 for step in steps)
    assert len(steps) > 2
    assert_consistent(store)


def test_a_write_is_not_held_up_by_a_long_memory(opened):
    """A long memory that is stale is left to `reindex`, and does not keep writes from mending the others."""
    store = opened(embedder="none")
    store.add(LONG)
    store.add_many([NewMemory(text=f"note {number}") for number in range(20)])
    set_analyser(store, EARLIER)
    for number in range(8):
        store.add(f"another {number}")
    assert [one for one, made in analysed_by(store).items() if made == EARLIER] == [1]
    assert store.stats().stale == 1
    assert store.maintenance.reindex() == 1
    assert_consistent(store)


def test_a_memory_that_is_written_is_stale_no_more(opened):
    """Changing a memory's text analyses it as it is analysed now; what only gets a tag stays as it was."""
    store = opened(embedder="none")
    store.add_many([NewMemory(text=LONG, key="long"), NewMemory(text=LONG + "again", key="other")])
    set_analyser(store, EARLIER)
    store.update(1, tags=["one"])
    assert store.stats().stale == 2
    store.update(1, text="short now")
    assert analysed_by(store) == {1: stamp(LANGUAGES), 2: EARLIER}


def test_an_interrupted_run_goes_on_where_it_stopped(opened):
    """Each batch of a reindex is kept, so that a second run does the rest and no more."""
    store = opened(embedder="none")
    store.add_many([NewMemory(text=f"note {number} about payments") for number in range(200)])
    set_analyser(store, EARLIER)
    told = []

    def interrupt(done: int, total: int) -> None:
        told.append((done, total))
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.maintenance.reindex(progress=interrupt)
    (done, total) = told[-1]
    assert 0 < done < total == 200
    store.close()
    again = opened(embedder="none")
    assert again.stats().stale == 200 - done
    assert again.maintenance.reindex() == 200 - done
    assert_consistent(again)


def test_other_languages_are_asked_for_by_reindex_alone(opened):
    """Opening a file for other languages than its own is refused, and the error names the command that changes them."""
    opened(embedder="none").add_many(TEXTS)
    with pytest.raises(InvalidInputError, match=r"in pt, en, es, not in en; .* memstore reindex --languages en\.$"):
        opened(embedder="none", languages=("en",))
    store = opened(embedder="none")
    with pytest.raises(InvalidInputError, match="language 'klingon' is unknown"):
        store.maintenance.reindex(languages=("klingon",))
    with pytest.raises(InvalidInputError, match="languages"):
        store.maintenance.reindex(languages=())
    assert store.stats().languages == LANGUAGES
    assert store.maintenance.reindex(languages=("en",)) == len(TEXTS)
    assert store.stats().languages == ("en",)
    assert store.maintenance.reindex(languages=("en",)) == 0
    assert opened(embedder="none", languages=("en",)).stats().stale == 0
    with pytest.raises(InvalidInputError, match="in en, not in pt"):
        opened(embedder="none", languages=("pt",))


def test_terms_and_stems_follow_the_languages(opened, tmp_path):
    """A file that was given other languages holds the terms, stems and dates that a new file for them would."""
    store = opened(embedder="none")
    store.add_many(TEXTS)
    store.maintenance.reindex(languages=("en", "es"))
    store.add("one more, walking")
    with MemoryStore(tmp_path / "new.db", embedder="none", languages=("en", "es")) as new:
        new.add_many(TEXTS)
        new.add("one more, walking")
        for sql in (
            "SELECT * FROM analysed",
            "SELECT * FROM stems ORDER BY word",
            "SELECT * FROM statistics",
            "SELECT memory_id, key, given, doubtful FROM memory_entities JOIN entities ON id = entity_id ORDER BY 1, 2",
            "SELECT term, doc, cnt FROM memory_terms_count WHERE doc > 0 ORDER BY term, col",
        ):
            assert rows(store, sql) == rows(new, sql)
        for query in ("payment", "canción", "8 May"):
            assert [hit.score for hit in store.search(query)] == [hit.score for hit in new.search(query)]


def test_a_store_that_is_open_follows_other_languages(opened):
    """A store that another process has open goes by the new languages at its next search or write."""
    one, other = opened(embedder="none"), opened(embedder="none")
    one.add_many(TEXTS)
    assert other.search("payments")
    one.maintenance.reindex(languages=("en",))
    other.add("the lamps were glowing")
    assert set(analysed_by(other).values()) == {stamp(("en",))}
    assert other.stats().languages == ("en",)
    assert other.search("lamp glows", k=1)[0].memory.text == "the lamps were glowing"
    one.maintenance.reindex(languages=("es",))
    assert other.search("canción", k=1)[0].memory.id == 5
    one.maintenance.reindex(languages=("pt", "en"))
    other.terms.add("cartão azul", aliases=["cards"])
    assert [memory.id for memory in other.mentions("cartão azul")] == [4]
    one.maintenance.reindex(languages=("pt",))
    assert other.maintenance.reindex() == 0
    assert other.stats().languages == ("pt",)


def test_a_language_that_is_not_known_here_breaks_nothing(opened, path):
    """A file that is also for a language which this program lacks opens, is read and written, and says so once."""
    opened(embedder="none").add_many(TEXTS)
    later = f"{ANALYSER_VERSION} pt en xx"
    with closing(apsw.Connection(str(path))) as conn:
        conn.execute("UPDATE meta SET value = 'pt en xx' WHERE key = 'languages'")
        conn.execute("UPDATE analysed SET analyser = ? WHERE memory_id = 1", (later,))
    with pytest.warns(UserWarning, match="'xx' too, which this memstore does not know; it reads texts as pt, en"):
        store = opened(embedder="none")
    assert store.stats().languages == ("pt", "en")
    found = store.search("payments", k=5)
    assert len(found.notices) == 2
    assert any("upgrade memstore" in notice for notice in found.notices)
    store.add("another note")
    assert store.maintenance.reindex() == 0
    assert store.stats().stale == 1
    assert analysed_by(store)[1] == later
    with pytest.warns(UserWarning, match="'xx'"):
        opened(embedder="none", languages=("pt", "en"))
    assert store.maintenance.reindex(languages=LANGUAGES) == len(TEXTS)


def test_a_file_of_unknown_languages_alone_is_read_as_all_that_are_known(opened, path):
    """Where none of a file's languages is known, its texts are read in all that are."""
    opened(embedder="none").add_many(TEXTS)
    with closing(apsw.Connection(str(path))) as conn:
        conn.execute("UPDATE meta SET value = 'xx' WHERE key = 'languages'")
    with pytest.warns(UserWarning, match="'xx'"):
        store = opened(embedder="none")
    assert store.stats().languages == LANGUAGES
    assert store.search("payments")


def test_what_a_later_analyser_made_is_left_as_it_is(opened):
    """A program does not undo what a later one has made: it says so, and searches what it can."""
    store = opened(embedder="none")
    store.add_many(TEXTS)
    set_analyser(store, LATER, "memory_id < 3")
    set_analyser(store, EARLIER, "memory_id = 4")
    with store._database.write() as conn:
        conn.execute("UPDATE stems SET stems = 'later later later', analyser = ? WHERE word = 'payments'", (LATER,))
    found = store.search("payments failing")
    assert len(found.notices) == 2
    assert found[0].memory.id in (1, 2)
    assert store.stats().stale == 3
    for number in range(3):
        store.add(f"payments, the {number}th note")
    assert store.maintenance.reindex() == 0
    assert store.stats().stale == 2
    assert analysed_by(store)[1] == analysed_by(store)[2] == LATER
    assert ("later later later", LATER) in rows(store, "SELECT stems, analyser FROM stems")
    (notice,) = store.search("payments").notices
    assert notice == "some memories were analysed by a later memstore, and words may miss them here; upgrade memstore."
    store.update(2, text="payments in another text")
    assert analysed_by(store)[2] == stamp(LANGUAGES)


def test_what_an_earlier_program_writes_meanwhile_is_stale(opened):
    """A program of the schema before that still has the file open names no analyser: its memories are stale."""
    store = opened(embedder="none")
    store.add_many(TEXTS)
    with store._database.write() as conn:
        conn.execute("UPDATE analysed SET analyser = '' WHERE memory_id = 2")
        conn.execute("INSERT INTO stems (word, stems) VALUES ('tractors', 'trac trac trac')")
    assert store.stats().stale == 1
    assert store.maintenance.reindex() == 1
    assert rows(store, "SELECT count(*) FROM stems WHERE word = 'tractors'") == [(0,)]
    assert_consistent(store)


def test_a_search_without_words_says_nothing_of_them(fake):
    """The notice stands in the answers that words or names take part in, and in no other."""
    fake.add_many(TEXTS)
    set_analyser(fake, EARLIER)
    assert fake.search("payments").notices
    assert fake.recall("payments").notices
    assert fake.search("payments", signals=["entity"]).notices
    assert not fake.search("payments", signals=["semantic"]).notices
    assert fake.context("payments").found.notices


def test_a_store_that_is_only_read_says_what_is_stale(made_earlier):
    """Reading alone mends nothing, and tells all the same."""
    with MemoryStore(made_earlier, embedder="none", read_only=True) as store:
        assert store.stats().stale == len(TEXTS)
        assert store.search("payments").notices
        with pytest.raises(ReadOnlyError):
            store.maintenance.reindex()
        with pytest.raises(ReadOnlyError):
            store.maintenance.reindex(languages=("en",))


def test_entities_of_a_recogniser_are_not_lost_without_it(opened):
    """A store without the recogniser that found an entity keeps it; with the recogniser they are found anew."""
    store = opened(embedder="none", recogniser=lambda text: [("vinyl", "material")] if "vinyl" in text else [])
    store.add("the floor is of vinyl, says Ana")
    set_analyser(store, EARLIER)
    store.close()
    plain = opened(embedder="none")
    plain.maintenance.reindex()
    assert {one.name for one in plain.get(1).entities} == {"vinyl", "Ana"}
    with plain._database.write() as conn:
        conn.execute("INSERT INTO entity_terms VALUES ('vinyl', 'vinyl', 'PVC', 'material')")
    set_analyser(plain, EARLIER)
    plain.maintenance.reindex()
    assert {one.name for one in plain.get(1).entities} == {"PVC", "Ana"}
    set_analyser(plain, EARLIER)
    plain.close()
    other = opened(embedder="none", recogniser=lambda _: [("floor", "part")])
    other.terms.remove("PVC")
    other.maintenance.reindex()
    assert {one.name for one in other.get(1).entities} == {"Ana", "floor"}


def test_a_damaged_memory_does_not_keep_the_others(opened):
    """What can be read is analysed anew; then the error names what can't, and writes go on."""
    store = opened(embedder="none")
    store.add_many([*TEXTS, NewMemory(text="the last one is walking")])
    set_analyser(store, EARLIER)
    with store._database.write() as conn:
        conn.execute("UPDATE memories SET created_at = 'no time' WHERE id = 2")
    for number in range(4):
        store.add(f"a note, the {number}th")
    assert store.stats().stale == 1
    set_analyser(store, EARLIER)
    with pytest.raises(DamagedStoreError, match=r"1 memories can't be analysed .* the first is 2; 9 others were"):
        store.maintenance.reindex()
    assert [one for one, made in analysed_by(store).items() if made == EARLIER] == [2]


def test_terms_taught_meanwhile_are_found(opened, monkeypatch):
    """A term that another process teaches between reading and writing is found in what is analysed anew."""
    store, other = opened(embedder="none"), opened(embedder="none")
    store.add_many(TEXTS)
    set_analyser(store, EARLIER)
    prepare = store._writer._prepare
    taught = []

    def slowly(row, known):
        if not taught:
            taught.append(other.terms.add("cards are expiring", kind="fault"))
            other.update(1, text="os pagamentos funcionam")
        return prepare(row, known)

    monkeypatch.setattr(store._writer, "_prepare", slowly)
    store.maintenance.reindex()
    assert [one.id for one in store.mentions("cards are expiring")] == [4]
    assert store.search("funciona", k=1, signals=["keyword"])[0].memory.id == 1
    assert_consistent(store)


def test_vectors_of_a_real_model_stay(real):
    """With the bundled model nothing is embedded again, and meaning is found as before."""
    real.add_many(TEXTS)
    before = rows(real, "SELECT rowid, embedding FROM vectors_1")
    found = real.search("credit card no longer valid", signals=["semantic"])
    assert real.maintenance.reindex(languages=("en",)) == len(TEXTS)
    assert rows(real, "SELECT rowid, embedding FROM vectors_1") == before
    again = real.search("credit card no longer valid", signals=["semantic"])
    assert [(hit.memory.id, hit.signals["semantic"].raw) for hit in again] == [
        (hit.memory.id, hit.signals["semantic"].raw) for hit in found
    ]
    assert real.stats().pending == 0


def run(path, *arguments: str) -> None:
    cli.main([*arguments, "--db", str(path), "--embedder", "none"], standalone_mode=False)


def test_the_command(made_earlier, capsys):
    """`memstore reindex` does it, search and stats tell of it, and --languages changes them."""
    run(made_earlier, "stats", "--json")
    assert json.loads(capsys.readouterr().out)["stale"] == len(TEXTS)
    run(made_earlier, "search", "payments", "--json")
    assert len(json.loads(capsys.readouterr().out)["notices"]) == 1
    run(made_earlier, "search", "payments")
    assert "memstore reindex analyses them anew." in capsys.readouterr().err
    run(made_earlier, "reindex")
    assert capsys.readouterr().out == "5 memories analysed anew, in pt, en, es\n"
    run(made_earlier, "reindex", "--languages", "en, pt", "--json")
    assert json.loads(capsys.readouterr().out) == {"reindexed": 5, "stale": 0, "languages": ["en", "pt"]}
    run(made_earlier, "search", "payments", "--quiet")
    assert capsys.readouterr().err == ""
    with pytest.raises(InvalidInputError, match="language 'xx' is unknown"):
        run(made_earlier, "reindex", "--languages", "xx")


def test_a_copy_of_a_stale_file_is_as_stale(made_earlier, tmp_path):
    """A copied file tells the same of itself."""
    copy = tmp_path / "copy.db"
    shutil.copyfile(made_earlier, copy)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with MemoryStore(copy, embedder="none") as store:
            assert store.stats().stale == len(TEXTS)

"""What time does to memories: one supersedes another, age in the score, uses, what changed, the latest answer."""

import dataclasses
import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstore import Ageing, InvalidInputError, MemoryStore, NewMemory, NotFoundError, ReadOnlyError, memories
from memstore.fusion import Ages, Gathered, Scored, aged, decay, weighed
from memstore.records import Weights

OLD, NEW = "the printer password is alpha", "the printer password is bravo"
QUERY = "printer password"


def found(store: MemoryStore, query: str = QUERY, **options) -> list[int]:
    return [hit.memory.id for hit in store.search(query, k=10, **options)]


def exported(store: MemoryStore) -> list[str]:
    lines = io.StringIO()
    store.export(lines)
    return lines.getvalue().splitlines()


def days_ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def expire(store: MemoryStore, memory_id: int) -> None:
    """Let a memory expire without waiting for it, as the file alone would show it."""
    store.update(memory_id, expires_at=days_ago(1))


# What supersedes what


def test_replaced_memory_is_hidden_unless_asked_for(fake):
    """A memory that another replaces is in no search, list or count, unless superseded ones are asked for."""
    old = fake.add(OLD)
    new = fake.add(NEW, replaces=old.id)
    assert new.replaces == old.id
    assert found(fake) == [new.id]
    assert sorted(found(fake, superseded=True)) == [old.id, new.id]
    for signal in ("keyword", "semantic"):
        assert found(fake, signals=[signal], floor=None) == [new.id]
    assert [one.id for one in fake.list()] == [new.id]
    assert sorted(one.id for one in fake.list(superseded=True)) == [old.id, new.id]
    assert (fake.count(), fake.count(superseded=True)) == (1, 2)
    assert fake.get(old.id).replaced_by == (new.id,)
    assert fake.searcher.gather(QUERY).ids.tolist() == [new.id]


def test_chain_hides_all_but_its_end(words):
    """Of memories that replace each other in turn only the last is found; once it expires, the one before it."""
    first = words.add("printer password one")
    second = words.add("printer password two", replaces=first.id)
    third = words.add("printer password three", replaces=second.id)
    assert found(words) == [third.id]
    expire(words, third.id)
    assert found(words) == [second.id]
    assert words.get(second.id).replaced_by == ()


def test_deleting_the_newer_shows_the_older(words):
    """When what replaced a memory is deleted, the memory is found again."""
    old = words.add(OLD)
    new = words.add(NEW, replaces=old.id)
    words.delete(new.id)
    assert found(words) == [old.id]


def test_middle_of_a_chain_that_goes_brings_nothing_back(words):
    """What replaced a memory of a chain that is deleted, or has expired, goes on hiding what that one replaced."""
    first = words.add("printer password one")
    second = words.add("printer password two", replaces=first.id)
    third = words.add("printer password three", replaces=second.id)
    fourth = words.add("printer password four", replaces=third.id)
    words.delete(second.id)
    assert words.get(third.id).replaces == first.id
    with words._database.read() as conn:
        stored = conn.execute("SELECT row_hash FROM memories WHERE id = ?", (third.id,)).get
        assert stored == memories.get(conn, third.id).row_hash
    expire(words, third.id)
    for _ in range(2):
        assert found(words) == [fourth.id] == [one.id for one in words.list(namespace="default")]
        assert words.count(namespace="default") == 1
        assert words.get(first.id).replaced_by == (fourth.id,)
        with pytest.raises(InvalidInputError, match=f"is replaced by memory {fourth.id}"):
            words.update(first.id, namespace="other")
        with pytest.raises(InvalidInputError, match="itself or in turn"):
            words.update(first.id, replaces=fourth.id)
        with pytest.raises(InvalidInputError, match="replaces is"):
            words.update(fourth.id, namespace="other")
        # The expired one is taken out by this write; the link is then a direct one.
        words.add("another thing", namespace="other")
        assert words.get(fourth.id).replaces == first.id
    words.delete(fourth.id)
    assert found(words) == [first.id]


def test_expired_memory_that_makes_room_keeps_the_chain(words):
    """A memory that takes the key of the expired one that it replaces goes on hiding what that one replaced."""
    first = words.add("printer password one")
    second = words.add("printer password two", key="printer", replaces=first.id)
    third = words.add("printer password three", replaces=second.id)
    with words._database.write() as conn:
        row = memories.get(conn, second.id)
        memories.write(conn, dataclasses.replace(row, expires_at="2020-01-01T00:00:00.000000Z"))
        # More that has expired than one write takes out: this one is still there when its key is taken.
        for n in range(200):
            gone = {"id": 100 + n, "key": None, "replaces": None, "expires_at": "2019-01-01T00:00:00.000000Z"}
            memories.write(conn, dataclasses.replace(row, **gone))
    words.update(third.id, key="printer")
    assert found(words) == [third.id]
    assert words.get(third.id).replaces == first.id


def test_a_decision_can_be_reversed(words):
    """The text of a superseded memory is said anew as another memory, which may replace what superseded it."""
    stripe = words.add("we pay with Stripe")
    pagbank = words.add("we pay with PagBank", replaces=stripe.id)
    again = words.add("we pay with Stripe", replaces=pagbank.id)
    assert (again.outcome, again.replaces) == ("added", pagbank.id)
    assert found(words, "pay with") == [again.id]
    assert words.add("we pay with Stripe", replaces=pagbank.id).outcome == "unchanged"
    plain = words.add("we pay with PagBank")
    assert plain.outcome == "added"
    assert sorted(found(words, "pay with")) == [again.id, plain.id]
    assert words.count(superseded=True) == 4


def test_superseded_text_is_free_for_an_update(words):
    """A memory may take the text of a superseded one, and of no other."""
    old = words.add(OLD)
    new, other = words.add(NEW, replaces=old.id), words.add("something else")
    with pytest.raises(InvalidInputError, match=f"memory {new.id} already has this text"):
        words.update(other.id, text=NEW)
    assert words.update(other.id, text=OLD).id == other.id
    assert words.add(OLD).id == other.id


def test_superseded_key_stays_the_identity(words):
    """Under a key the memory stays the same one when it is superseded: it is changed and stays hidden."""
    old = words.add(OLD, key="printer")
    new = words.add(NEW, replaces=old.id)
    again = words.add("the printer password is delta", key="printer")
    assert (again.id, again.outcome, again.replaced_by) == (old.id, "updated", (new.id,))
    assert found(words) == [new.id]


@pytest.mark.parametrize("date", [None, "2025-01-01T00:00:00Z"])
@pytest.mark.parametrize("renumbered", [False, True])
def test_a_reversed_decision_is_imported_once(words, tmp_path, date, renumbered):
    """Memories of one text that supersede each other in turn come whole, and again as the same, whatever their ids."""
    first = words.add("Stripe", created_at=date)
    second = words.add("PagBank", replaces=first.id)
    third = words.add("Stripe", created_at=date)
    words.update(second.id, replaces=None)
    words.update(third.id, replaces=second.id)
    # The third line comes before it is known that the first is superseded: by the fourth.
    words.add("Adyen", replaces=first.id)
    lines = exported(words)
    with MemoryStore(tmp_path / "new.db", embedder="none") as other:
        if renumbered:
            for n in range(5):
                other.add(f"another {n}")
        assert (other.import_jsonl(lines).added, other.import_jsonl(lines).unchanged) == (4, 4)
        there = {one.id: one for one in other.list(limit=100, superseded=True)}
        links = [
            (one.text, there[one.replaces].text, there[one.replaces].replaces is None)
            for one in there.values()
            if one.replaces is not None
        ]
        assert sorted(links) == [("Adyen", "Stripe", True), ("Stripe", "PagBank", True)]
    words.delete(first.id)
    report = words.import_jsonl(lines)
    assert (report.added, report.unlinked, words.get(third.id).replaces) == (1, 0, second.id)
    assert sorted(one.text for one in words.list()) == ["Adyen", "Stripe"]


def test_deleting_the_older_leaves_the_newer_working(words):
    """When what it replaced is deleted, a memory is found, changed, moved, exported and imported like any other."""
    old = words.add(OLD)
    new = words.add(NEW, replaces=old.id)
    words.delete(old.id)
    assert found(words) == [new.id]
    words.update(new.id, tags=["a"])
    words.update(new.id, namespace="other")
    assert words.get(new.id).replaces == old.id
    report = words.import_jsonl(exported(words))
    assert (report.unchanged, report.unlinked) == (1, 0)


def test_what_can_not_be_replaced_is_refused(words):
    """A missing or expired memory, one of another namespace, the memory itself and a ring of any length are refused."""
    first, other = words.add("one"), words.add("elsewhere", namespace="other")
    second = words.add("two", replaces=first.id)
    third = words.add("three", replaces=second.id)
    gone = words.add("gone", expires_at=days_ago(1))
    for wanted, reason in [(99, "no such"), (gone.id, "no such"), (2**70, "no such"), (other.id, "namespace 'other'")]:
        with pytest.raises(InvalidInputError, match=f"replaces is {wanted}: .*{reason}"):
            words.add("four", replaces=wanted)
    with pytest.raises(InvalidInputError, match="itself"):
        words.update(first.id, replaces=first.id)
    with pytest.raises(InvalidInputError, match="itself"):
        words.add("three", replaces=third.id)
    for newer in (second, third):
        with pytest.raises(InvalidInputError, match="take that link away first"):
            words.update(first.id, replaces=newer.id)
    with pytest.raises(InvalidInputError, match="not a whole number"):
        words.add("four", replaces="one")
    assert words.count(superseded=True) == 4
    assert words.get(first.id).replaces is None


def test_links_stay_in_one_namespace(words):
    """Neither end of a link can be moved to another namespace while both are there; without the link it can."""
    old = words.add(OLD)
    new = words.add(NEW, replaces=old.id)
    for one in (old, new):
        with pytest.raises(InvalidInputError, match="namespace"):
            words.update(one.id, namespace="other")
    words.update(new.id, namespace="other", replaces=None)
    assert sorted(found(words)) == [old.id, new.id]


def test_bad_link_in_a_late_batch_writes_nothing(words):
    """Of many memories none is written when one of them replaces what is not there, however far behind it stands."""
    batch = [NewMemory(text=f"note {n}") for n in range(100)]
    with pytest.raises(InvalidInputError, match="no such memory"):
        words.add_many([*batch, NewMemory(text="last", replaces=999)])
    assert words.count() == 0


def test_ring_across_batches_writes_nothing(words):
    """Links that only together make a ring are refused before the first of many memories is written."""
    x, y = words.add("x", key="x"), words.add("y", key="y")
    fillers = [NewMemory(text=f"note {n}") for n in range(70)]
    with pytest.raises(InvalidInputError, match="itself or in turn"):
        words.add_many(
            [NewMemory(text="x", key="x", replaces=y.id), *fillers, NewMemory(text="y", key="y", replaces=x.id)]
        )
    assert words.count() == 2
    assert words.get(x.id).replaces is None


def test_same_text_again_takes_link_and_pin(words):
    """Adding the same text again takes the link that is given, keeps the one there is, and never unpins."""
    old, new = words.add(OLD), words.add(NEW, pinned=True)
    merged = words.add(NEW, replaces=old.id)
    assert (merged.id, merged.outcome, merged.replaces, merged.pinned) == (new.id, "merged", old.id, True)
    assert words.add(NEW).outcome == "unchanged"
    assert words.add(OLD, pinned=True).pinned
    unpinned = words.update(new.id, pinned=False, replaces=None)
    assert (unpinned.pinned, unpinned.replaces) == (False, None)
    with pytest.raises(InvalidInputError, match="pinned is 'yes'"):
        words.add("other", pinned="yes")


def test_threads_offer_no_hidden_answer(words):
    """The answer to a question that matches is offered from its thread, but not when another memory replaces it."""
    words.add("Where do we keep the spare toner?", author="Ana", thread="talk")
    answer = words.add("In the blue cupboard.", author="Beto", thread="talk")
    assert answer.id in found(words, "spare toner")
    words.add("Upstairs now.", author="Beto", thread="other", replaces=answer.id)
    assert answer.id not in found(words, "spare toner")
    assert answer.id in found(words, "spare toner", superseded=True)


def test_links_survive_export_and_import(words, tmp_path):
    """An export brings links, pins and uses to a new file; imported again it changes nothing."""
    new = words.add(NEW, pinned=True)
    old = words.add(OLD)
    words.update(new.id, replaces=old.id)
    words.mark_used([new.id, new.id], days_ago(3))
    words.mark_used(new.id, days_ago(5))
    lines = exported(words)
    with MemoryStore(tmp_path / "new.db", embedder="none") as other:
        report = other.import_jsonl(lines)
        assert (report.added, report.unlinked) == (2, 0)
        assert other.get(new.id) == words.get(new.id)
        assert (other.get(new.id).uses, other.get(new.id).pinned) == (2, True)
        assert found(other) == [new.id]
        assert other.import_jsonl(lines).unchanged == 2
        assert exported(other) == lines


def test_import_that_renumbers_keeps_links(words, tmp_path):
    """Where other memories have the ids of an export, its links follow to the ids that its memories get."""
    new = words.add(NEW)
    old = words.add(OLD)
    words.update(new.id, replaces=old.id)
    with MemoryStore(tmp_path / "new.db", embedder="none") as other:
        own = [other.add(f"another {n}").id for n in range(3)]
        assert other.import_jsonl(exported(words)).unlinked == 0
        here = {one.text: one for one in other.list(superseded=True)}
        assert here[NEW].replaces == here[OLD].id
        assert here[OLD].id not in own
        assert other.count() == 4


def test_link_to_what_an_import_lacks_is_left_out_and_counted(words, tmp_path):
    """A link whose target is not among the lines hides no stranger of that id; the report counts it."""
    old = words.add(OLD)
    words.add(NEW, replaces=old.id)
    alone = [line for line in exported(words) if json.loads(line)["text"] == NEW]
    with MemoryStore(tmp_path / "new.db", embedder="none") as other:
        other.add("a stranger")
        report = other.import_jsonl(alone)
        assert (report.added, report.unlinked) == (1, 1)
        assert other.count() == 2
    # Here the file itself knows what the link means.
    assert words.import_jsonl(alone).unlinked == 0
    assert found(words) == [2]


def test_import_takes_no_id_that_a_link_still_names(words, tmp_path):
    """A memory that comes under the id of one that was replaced and deleted here gets another, and is not hidden."""
    old = words.add(OLD)
    new = words.add(NEW, replaces=old.id)
    words.delete(old.id)
    with MemoryStore(tmp_path / "new.db", embedder="none") as other:
        stranger = other.add("a stranger")
        assert stranger.id == old.id
        lines = exported(other)
    assert words.import_jsonl(lines).added == 1
    assert {one.text for one in words.list()} == {NEW, "a stranger"}
    assert words.get(new.id).replaces == old.id
    assert words.import_jsonl(lines).unchanged == 1


def line(memory_id: int, text: str, replaces: int | None = None) -> str:
    """Return a line as an export has it."""
    at = "2025-01-01T00:00:00Z"
    return json.dumps({"id": memory_id, "text": text, "created_at": at, "updated_at": at, "replaces": replaces})


@pytest.mark.parametrize(("ids", "said"), [((1, 2, 3), "1 replaces 2"), ((50, 51), "50 replaces 51"), ((7,), "7 .* 7")])
def test_ring_in_an_import_is_refused(words, ids, said):
    """Lines whose memories replace each other in a ring are refused by their ids before any is written."""
    lines = [line(one, f"note {one}", then) for one, then in zip(ids, (*ids[1:], ids[0]), strict=True)]
    with pytest.raises(InvalidInputError, match=f"ring: {said}, .* back to {ids[0]};"):
        words.import_jsonl(lines)
    assert words.count(superseded=True) == 0


def test_new_line_replaces_what_its_file_means(words):
    """What a new line of an import replaces is the line of that id, wherever that comes to stand, else one here."""
    for n in range(2):
        words.add(f"of this file {n}")
    lines = [json.dumps({"text": "newer", "replaces": 1}), line(1, "older"), json.dumps({"text": "new", "replaces": 2})]
    assert words.import_jsonl(lines).added == 3
    assert sorted(one.text for one in words.list()) == ["new", "newer", "of this file 0"]
    assert words.import_jsonl(lines).unchanged == 3
    assert sorted(one.text for one in words.list()) == ["new", "newer", "of this file 0"]


def test_lines_that_share_an_id_are_all_imported(words):
    """Two exports in one file may give the same id to different memories: all come, and again as the same ones."""
    lines = [line(1, "of one"), line(2, "newer of one", 1), line(1, "of another")]
    assert words.import_jsonl(lines).added == 3
    assert words.import_jsonl(lines).unchanged >= 2
    assert words.count(superseded=True) == 3


def test_refused_import_leaves_nothing_behind(words):
    """Of an import with one link that can't stand nothing is kept: no term, profile or memory."""
    lines = [
        json.dumps({"term": "Foo"}),
        json.dumps({"profile": "mine", "weights": {"keyword": 1.0}}),
        json.dumps({"text": "good"}),
        json.dumps({"text": "n1", "replaces": 999}),
    ]
    with pytest.raises(InvalidInputError, match="replaces is 999"):
        words.import_jsonl(lines)
    assert (words.terms.list(), "mine" in words.profiles.list(), words.count()) == ([], False, 0)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"uses": 3}, "'uses' is one of an exported memory"),
        ({"id": 1, "uses": 3}, "'id' is one"),
        ({"updated_at": "2025-01-01T00:00Z"}, "'updated_at' is one"),
        (json.loads(line(1, "a")) | {"used_at": "2025-01-01T00:00Z"}, "used_at is given without uses"),
    ],
)
def test_import_drops_no_field_in_silence(words, fields, said):
    """What only an exported line can bring is refused in a line that is none, and a last use without a number."""
    with pytest.raises(InvalidInputError, match=f"line 1: .*{said}"):
        words.import_jsonl([json.dumps({"text": "a"} | fields)])
    assert words.count() == 0


@pytest.mark.parametrize("replaces", [True, "", "one", 1.5])
def test_what_is_no_id_is_refused_by_the_name_of_the_field(words, replaces):
    """What `replaces` holds that is no id is refused by that name, in a new memory and in an update."""
    words.add("one")
    for write in (lambda: words.add("two", replaces=replaces), lambda: words.update(1, replaces=replaces)):
        with pytest.raises(InvalidInputError, match=f"replaces: the id {replaces!r} is not a whole number"):
            write()


def test_mentions_pass_over_the_superseded(words):
    """What mentions an entity is listed without superseded memories, unless they are asked for."""
    old = words.add("we saw Beto and Rita in the office")
    new = words.add("we saw Beto in the office", replaces=old.id)
    assert [one.id for one in words.mentions("Beto")] == [new.id]
    assert {one.id for one in words.mentions("Beto", superseded=True)} == {old.id, new.id}
    assert words.mentions("Rita") == []
    with pytest.raises(NotFoundError):
        words.mentions("Zeca")


def test_nothing_replaced_costs_no_condition(words):
    """Where nothing is replaced, a search has no condition; else the one it has reads an index."""
    from memstore.filters import Filter

    old = words.add(OLD)
    with words._database.read() as conn:
        assert Filter().condition(conn, "2026-01-01") is None
    words.add(NEW, replaces=old.id)
    with words._database.read() as conn:
        condition = Filter().condition(conn, "2026-01-01")
        plan = conn.execute(f"EXPLAIN QUERY PLAN SELECT m.id FROM memories m WHERE {condition.sql}", condition.values)
        assert any("memories_replaces" in str(row[-1]) for row in plan)


# Age in the score


def test_age_is_off_until_asked_for(words):
    """Without ageing, or with weights of 0, no score has a part of age."""
    words.add(NEW, pinned=True, created_at=days_ago(400))
    plain, weightless = words.search(QUERY)[0], words.search(QUERY, ageing=Ageing())[0]
    assert plain == weightless
    assert not plain.signals.keys() & {"recency", "use", "pinned"}


def test_ageing_is_explained(words):
    """Recency, use and being pinned are parts of a score with age, share and weight, told in words; relevance stays."""
    memory = words.add(NEW, pinned=True, created_at=days_ago(10))
    words.add(OLD, created_at=days_ago(10))
    words.mark_used(memory.id, days_ago(20))
    plain = {hit.memory.id: hit for hit in words.search(QUERY)}
    hits = words.search(QUERY, ageing=Ageing(half_life=10, recency=0.2, use=0.4, pinned=0.1))
    hit = hits[0]
    assert hit.memory.id == memory.id
    assert hit.signals["recency"].raw == pytest.approx(10, abs=0.01)
    assert hit.signals["recency"].contribution == pytest.approx(0.1, abs=1e-3)
    assert hit.signals["use"].raw == pytest.approx(20, abs=0.01)
    assert hit.signals["use"].normalised == pytest.approx(0.25, abs=1e-3)
    assert (hit.signals["pinned"].raw, hit.signals["pinned"].contribution) == (1.0, 0.1)
    other = hits[1].signals
    assert (other["use"].raw, other["use"].normalised, other["pinned"].raw) == (None, 0.0, 0.0)
    for one in hits:
        assert one.score == pytest.approx(sum(part.contribution for part in one.signals.values()) + one.boost)
        assert one.relevance == plain[one.memory.id].relevance
    assert "10 days old, half-life 10" in hit.explain()
    assert "used 20 days ago" in hit.explain()
    assert "never used" in hits[1].explain()
    assert "(not pinned)" in hits[1].explain()


def test_ageing_counts_before_the_cut(words):
    """A recent memory that is less like the query comes first when recency counts, even at k=1; to come is as today."""
    words.add("printer password", created_at=days_ago(1000))
    recent = words.add("the printer has a password, and many other things", created_at=days_ago(-30))
    assert words.search(QUERY, k=1)[0].memory.id != recent.id
    hit = words.search(QUERY, k=1, ageing=Ageing(recency=5.0))[0]
    assert hit.memory.id == recent.id
    assert (hit.signals["recency"].raw, hit.signals["recency"].normalised) == (0.0, 1.0)


@pytest.mark.parametrize(
    "ageing",
    [
        Ageing(recency=-0.1),
        Ageing(use=float("nan")),
        Ageing(pinned=float("inf")),
        Ageing(half_life=0),
        Ageing(half_life=float("inf")),
        Ageing(recency="much"),
        Ageing(pinned=True),
        {"recency": 1},
    ],
)
def test_bad_ageing_is_refused(words, ageing):
    """Weights below 0 or not finite, a half-life that is not above 0, and what is no Ageing are refused."""
    with pytest.raises(InvalidInputError, match="ageing"):
        words.search(QUERY, ageing=ageing)


WEIGHTS = st.floats(0, 1e6)
AGES = st.floats(0, 1e6)


@given(
    rows=st.lists(
        st.tuples(st.floats(0, 1), AGES, AGES | st.just(float("nan")), st.booleans()), min_size=1, max_size=8
    ),
    half_life=st.floats(1e-300, 1e6),
    recency=WEIGHTS,
    use=WEIGHTS,
    pinned=WEIGHTS,
)
def test_score_is_the_sum_of_its_parts(rows, half_life, recency, use, pinned):
    """With any ages and weights a score is the sum of its contributions, each a share in [0, 1] times its weight."""
    raw, created, used, pins = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    gathered = Gathered(
        ids=np.arange(len(rows)),
        eligible=np.ones(len(rows), dtype=bool),
        signals={"keyword": Scored(raw=raw, evidence=raw > 0, ends=(0.0, 1.0))},
        identified=np.zeros(len(rows)),
        missing=np.zeros(len(rows), dtype=bool),
        known=1.0,
    )
    ages = Ages(created=created, used=used, pinned=pins)
    result = aged(
        weighed(gathered, Weights()),
        ages,
        Ageing(half_life=half_life, recency=recency, use=use, pinned=pinned),
    )
    total = result.boosts + sum(part.contributions for part in result.parts.values())
    assert result.scores == pytest.approx(total, rel=1e-12)
    # Of equal scores the order is that before the ages.
    before = weighed(gathered, Weights()).order.tolist()
    assert sorted(before, key=lambda at: -result.scores[at]) == result.order.tolist()
    for name in result.parts.keys() & {"recency", "use", "pinned"}:
        part = result.parts[name]
        assert ((part.normalised >= 0) & (part.normalised <= 1)).all()
        assert (part.contributions == part.normalised * part.weights).all()


def test_half_life_halves():
    """What is left after one half-life is a half, after two a quarter."""
    assert decay(np.array([0.0, 7.0, 14.0]), 7.0).tolist() == [1.0, 0.5, 0.25]


# Uses


def test_uses_are_counted_and_change_nothing(words):
    """A use is counted once a call, the last one is the latest told of, and neither dates nor a search are touched."""
    memory, other = words.add(NEW), words.add(OLD)
    words.search(QUERY)
    assert (words.get(memory.id).uses, words.get(memory.id).used_at) == (0, None)
    latest = datetime(2026, 3, 1, tzinfo=UTC)
    words.mark_used([memory.id, memory.id], latest)
    words.mark_used(memory.id, latest - timedelta(days=9))
    after = words.get(memory.id)
    assert (after.uses, after.used_at, after.updated_at) == (2, latest, memory.updated_at)
    assert words.get(other.id).uses == 0
    words.delete(memory.id)
    with words._database.read() as conn:
        assert conn.execute("SELECT count(*) FROM uses").get == 0


def test_unknown_uses_are_refused_whole(words, opened):
    """One id that is not there, or has expired, refuses all before anything is written; so does a read-only store."""
    memory, gone = words.add(NEW), words.add("gone", expires_at=days_ago(1))
    for missing in (99, gone.id):
        with pytest.raises(NotFoundError, match=f"no memory {missing}"):
            words.mark_used([memory.id, missing])
    with pytest.raises(ReadOnlyError):
        opened(embedder="none", read_only=True).mark_used(memory.id)
    assert words.get(memory.id).uses == 0


# What changed, and the latest


def test_changes_since_an_instant(words):
    """What was added or changed from an instant on comes latest change first, replaced memories too, by an index."""
    first, second = words.add(OLD), words.add("another thing", tags=["a"])
    third = words.add(NEW, replaces=first.id)
    changed = words.update(second.id, tags=["b"])
    assert [one.id for one in words.changes(first.updated_at)] == [second.id, third.id, first.id]
    assert words.changes(first.updated_at)[2].replaced_by == (third.id,)
    assert [one.id for one in words.changes(changed.updated_at)] == [second.id]
    assert [one.id for one in words.changes(first.updated_at, limit=1)] == [second.id]
    assert [one.id for one in words.changes(first.updated_at, tags=["b"])] == [second.id]
    assert words.changes(changed.updated_at + timedelta(microseconds=1)) == []
    words.mark_used(first.id)
    assert words.changes(changed.updated_at + timedelta(microseconds=1)) == []
    for nothing in ("yesterday", None):
        with pytest.raises(InvalidInputError, match="since is"):
            words.changes(nothing)
    with words._database.read() as conn:
        plan = conn.execute(
            "EXPLAIN QUERY PLAN SELECT m.id FROM memories m WHERE m.updated_at >= ?"
            " ORDER BY m.updated_at DESC, m.id DESC LIMIT 50",
            ("2026",),
        ).fetchall()
    assert [row[-1] for row in plan] == ["SEARCH m USING COVERING INDEX memories_updated (updated_at>?)"]


def test_newest_of_the_likely_first(words):
    """Sorted by newest, the likely answers come latest first with their scores, and what is unlikely does not come."""
    words.add("the printer password is alpha", created_at=days_ago(30))
    words.add("the printer password is bravo", created_at=days_ago(10))
    words.add("the printer password is delta", created_at=days_ago(20))
    words.add("a password for something else entirely, long after", created_at=days_ago(1))
    by_score = {hit.memory.id: hit for hit in words.search(QUERY, k=10)}
    assert by_score[1].relevance >= 0.5 > by_score[4].relevance
    newest = words.search(QUERY, k=10, sort="newest")
    assert [hit.memory.id for hit in newest] == [2, 3, 1]
    assert [hit.rank for hit in newest] == [1, 2, 3]
    assert [hit.score for hit in newest] == [by_score[hit.memory.id].score for hit in newest]
    assert newest.withheld == 1
    assert found(words, sort="newest", min_relevance=0.0) == [4, 2, 3, 1]
    assert [hit.memory.id for hit in words.search(QUERY, k=1, sort="newest")] == [2]
    with pytest.raises(InvalidInputError, match="sort"):
        words.search(QUERY, sort="oldest")


def test_newest_without_a_likely_one_is_uncertain(words):
    """Where no candidate is likely, sorting by newest gives the best by score and says that it is uncertain."""
    words.add("a password for something else", created_at=days_ago(5))
    words.add("many words, and among all of these many words one is a password too", created_at=days_ago(1))
    query = "printer password upstairs cupboard"
    by_score = words.search(query, k=2)
    newest = words.search(query, k=2, sort="newest")
    assert by_score.uncertain
    assert newest.uncertain
    assert [hit.memory.id for hit in newest] == [hit.memory.id for hit in by_score]
    kept = words.search(query, k=2, sort="newest", min_relevance=0.9)
    assert (len(kept), kept.withheld) == (0, 2)


# The command line


def test_time_on_the_command_line(tmp_path):
    """Pins, links, uses, changes, ageing and the newest are options and verbs of the command line."""

    def run(*arguments: str, fails: bool = False) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "memstore", *arguments, "--db", str(tmp_path / "cli.db"), "--embedder", "none"],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=Path(__file__).resolve().parent.parent,
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    run("add", OLD)
    run("add", NEW, "--replaces", "1", "--pinned")
    assert "no such memory" in run("add", "third", "--replaces", "9", fails=True)
    assert "noted a use of 1 memory" in run("used", "2")
    assert "no memory 9" in run("used", "9", fails=True)
    assert "replaced by 2" in run("get", "1")
    card = run("get", "2")
    assert [said for said in ("pinned", "replaces 1", "used once") if said not in card] == []
    told = json.loads(run("get", "2", "--json"))
    assert (told["pinned"], told["replaces"], told["uses"], told["replaced_by"]) == (True, 1, 1, [])
    assert [line.split("\t")[0] for line in run("changes", "--since", "2020-01-01T00:00Z").splitlines()] == ["2", "1"]
    assert "[replaced by 2]" in run("changes", "--since", "2020-01-01T00:00Z")
    assert [line.split("\t")[0] for line in run("list").splitlines()] == ["2"]
    assert len(run("list", "--superseded").splitlines()) == 2
    assert "replaces: the id '' is not" in run("add", "third", "--replaces", "", fails=True)
    weights = ("--recency", "0.2", "--half-life", "7", "--use-weight", "0.1", "--pinned-weight", "0.3")
    hit = json.loads(run("search", QUERY, "--json", "--sort", "newest", *weights))["hits"][0]
    assert hit["score"] == pytest.approx(sum(s["contribution"] for s in hit["signals"].values()) + hit["boost"])
    assert hit["signals"]["recency"]["half_life"] == 7
    assert "--half-life goes with" in run("search", QUERY, "--half-life", "7", fails=True)
    run("update", "2", "--replaces", "", "--not-pinned")
    assert len(run("list").splitlines()) == 2

"""Threads in ranking: the turn that answers, the turn that asks, short turns, and the session around a match."""

import pytest
from conftest import FakeEmbedder

from memstore import InvalidInputError, MemoryStore, NewMemory

ASKED, ANSWERED = "Qual é o prazo do estorno do cartão?", "Sete dias úteis, e cai na fatura seguinte."


def say(store: MemoryStore, *turns: tuple[str, str], thread: str = "support/1", **fields) -> list[int]:
    return [store.add(text, author=author, thread=thread, **fields).id for author, text in turns]


def lent(hit) -> dict[str, float]:
    names = ("answer", "question", "length", "thread")
    return {name: hit.signals[name].contribution for name in names if name in hit.signals}


def by_id(found) -> dict:
    return {hit.memory.id: hit for hit in found}


def test_the_turn_that_answers(words):
    """A turn after a matching question of another author is found by it, before turns that stand elsewhere."""
    fill = [("Ana", "Bom dia a todos."), ("Tom", "Bom dia, Ana.")]
    *_, question, answer, after = say(words, *fill, ("Ana", ASKED), ("Tom", ANSWERED), ("Ana", "Obrigada, Tom."))
    found = by_id(words.search("prazo do estorno", k=9))
    assert found[answer].signals["answer"].raw > 0
    assert found[answer].signals["answer"].contribution == pytest.approx(0.25 * found[answer].signals["answer"].raw)
    assert "answer" not in found[question].signals
    assert "answer" not in found[after].signals
    assert found[answer].score > found[after].score


def test_an_answer_far_from_the_words_is_offered(opened):
    """A turn that shares nothing with the query becomes a candidate by the question before it."""
    store = opened(embedder="none")
    say(store, *[("Ana", f"assunto {n} sem relação") for n in range(3)])
    question, answer, *_ = say(store, ("Ana", ASKED), ("Tom", "Sete."), thread="support/2")
    others = store.add_many([NewMemory(text=f"prazo do estorno do cartão, caso {n}") for n in range(6)])
    found = store.search("prazo do estorno do cartão", k=20, depth=8, weights={"semantic": 0, "entity": 0})
    assert {question, answer, *(one.id for one in others)} <= set(by_id(found))


def test_one_author_does_not_answer_himself(words):
    """What the same author goes on to say is no answer, and neither is what follows no question."""
    _, more = say(words, ("Ana", ASKED), ("Ana", ANSWERED))
    _, other = say(words, ("Ana", "Falamos do prazo do estorno."), ("Tom", ANSWERED), thread="support/2")
    found = by_id(words.search("prazo do estorno", k=9))
    assert "answer" not in found[more].signals
    assert "answer" not in found[other].signals


def test_another_thread_does_not_answer(words):
    """The turn that was stored next but stands in another thread or namespace answers nothing."""
    words.add(ASKED, author="Ana", thread="support/1")
    elsewhere = words.add(ANSWERED + " prazo", author="Tom", thread="support/2").id
    abroad = words.add(ANSWERED + " prazo", author="Tom", thread="support/1", namespace="other").id
    found = by_id(words.search("prazo do estorno", k=9))
    assert "answer" not in found[elsewhere].signals
    assert "answer" not in found[abroad].signals


def test_positions_decide_who_answers(words):
    """A turn that is put between a question and what followed takes its place as the answer."""
    question, first = say(words, ("Ana", ASKED), ("Tom", ANSWERED))
    position = words.get(question).position
    between = words.add("São dez dias.", author="Tom", thread="support/1", position=position + 0.5).id
    found = by_id(words.search("prazo do estorno", k=9))
    assert "answer" in found[between].signals
    assert "answer" not in found[first].signals


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Qual é o prazo do estorno?", True),
        ("Ana perguntou: “qual é o prazo do estorno?”", True),
        ("prazo do estorno？", True),
        ("ما هو prazo do estorno؟", True),
        ("O prazo do estorno? Sete dias.", False),
        ("O prazo do estorno é de sete dias.", False),
        ("prazo do estorno ?!  ", True),
    ],
)
def test_a_turn_that_asks(words, text, asks):
    """A turn that ends in a question mark, of any script and inside quotes, pays for asking; another does not."""
    (asked,) = say(words, ("Ana", text))
    hit = by_id(words.search("prazo do estorno", k=9))[asked]
    assert lent(hit).get("question", 0.0) == pytest.approx(-0.03 if asks else 0.0)


def test_short_turns_pay(words):
    """A turn that is shorter than the others at hand pays, a longer one gets as much; past a length nothing more."""
    short, longer = say(words, ("Ana", "Estorno feito."), ("Tom", "Estorno " + "feito hoje " * 60))
    found = by_id(words.search("estorno", k=9))
    assert lent(found[short])["length"] < -0.05
    assert lent(found[longer])["length"] == pytest.approx(-lent(found[short])["length"])
    (longest,) = say(words, ("Tom", "Estorno " + "feito hoje " * 200), thread="support/2")
    found = by_id(words.search("estorno", k=9))
    assert lent(found[longest])["length"] == pytest.approx(lent(found[longer])["length"])


def test_turns_are_not_held_back_beside_notes(words):
    """The same text counts the same in a thread and in none, where the thread has nothing to lend."""
    words.add("the card has expired")
    words.add("the card has expired", thread="support/1", author="Ana")
    one, other = words.search("card expired", k=9, weights={"entity": 0, "boost": 0})
    assert one.signals["keyword"].contribution == pytest.approx(other.signals["keyword"].contribution, rel=0.2)
    assert abs(one.score - other.score) < 0.1 * one.score


def test_expired_turns_between_make_no_neighbours(words):
    """Where all turns beside one have expired it has none: what stands further off answers nothing."""
    asked, *between = say(words, ("Ana", "Where did the zeppelin land?"), ("Bea", "one"), ("Bea", "two"))
    say(words, *[("Bea", f"filler {n}") for n in range(8)])
    (last,) = say(words, ("Bea", "The zeppelin landed in Lisbon."))
    for one in between:
        words.update(one, expires_at="2020-01-01")
    found = by_id(words.search("zeppelin", k=9))
    assert {asked, last} <= set(found)
    assert "answer" not in found[last].signals


def test_a_link_asks_nothing(words):
    """A question mark inside a link makes no question, and one before white space, a closing mark or the end does."""
    texts = {
        "see https://example.org/?q=refund term": False,
        "the refund term? I forgot.": True,
        "“refund term?” she said": True,
    }
    for number, (text, asks) in enumerate(texts.items()):
        _, after = say(words, ("Ana", text), ("Tom", "Seven days refund."), thread=f"links/{number}")
        assert ("answer" in by_id(words.search("refund term", k=20))[after].signals) is asks


def test_only_what_passes_the_filter_lifts_its_thread(words):
    """A turn that the filter leaves out lends to its answer alone, not to all of its thread."""
    say(words, ("Ana", "The refund term of the card is new."), ("Tom", "Hello."), ("Tom", "The card."))
    found = by_id(words.search("refund term card", k=9, author="Tom"))
    assert found
    assert all(lent(hit).get("thread", 0) <= 0.4 * max(one.score for one in found.values()) for hit in found.values())
    assert "thread" not in max(found.values(), key=lambda hit: hit.signals["keyword"].contribution).signals


def test_a_thread_lifts_its_turns(words):
    """Turns of a thread with a good match are lifted towards it; the best of a thread is not."""
    best, weak = say(words, ("Ana", "O prazo do estorno do cartão mudou."), ("Tom", "O cartão é novo."))
    (alone,) = say(words, ("Tom", "O cartão é novo."), thread="other/1")
    found = by_id(words.search("prazo do estorno do cartão", k=9))
    assert "thread" not in found[best].signals
    assert lent(found[weak])["thread"] > 0
    assert found[weak].score > found[alone].score


def test_without_threads_nothing_is_lent(words):
    """Memories in no thread have the scores of their signals alone, a question mark or few words in them or not."""
    words.add_many([NewMemory(text=text, author="Ana") for text in (ASKED, ANSWERED, "Estorno?")])
    for hit in words.search("prazo do estorno", k=9):
        assert lent(hit) == {}


def test_thread_weight(words):
    """The weight of threads multiplies what they lend, and 0 takes it away; signals that are named lend nothing."""
    say(words, ("Ana", ASKED), ("Tom", ANSWERED))
    whole = by_id(words.search("prazo do estorno", k=9))
    half = by_id(words.search("prazo do estorno", k=9, weights={"thread": 0.5}))
    for one, hit in half.items():
        for name, value in lent(hit).items():
            assert value == pytest.approx(lent(whole[one])[name] / 2)
    for options in ({"weights": {"thread": 0}}, {"signals": ["keyword"]}, {"fusion": "minmax"}):
        assert all(lent(hit) == {} for hit in words.search("prazo do estorno", k=9, **options))


def test_filters_hold_for_answers(words):
    """A question that a filter leaves out still lends to its answer; an answer that it leaves out stays out."""
    question, answer = say(words, ("Ana", ASKED), ("Tom", ANSWERED))
    by_tom = by_id(words.search("prazo do estorno", k=9, author="Tom"))
    assert set(by_tom) == {answer}
    assert by_tom[answer].signals["answer"].contribution > 0
    assert set(by_id(words.search("prazo do estorno", k=9, author="Ana"))) == {question}


def test_what_has_expired_lends_nothing(words):
    """An expired question lends nothing to its answer, and an expired answer is not offered."""
    _, answer = say(words, ("Ana", ASKED), ("Tom", "Sete dias de prazo."))
    words.update(1, expires_at="2020-01-01")
    assert "answer" not in by_id(words.search("prazo do estorno", k=9))[answer].signals
    words.update(answer, expires_at="2020-01-01")
    assert len(words.search("prazo do estorno", k=9)) == 0


@pytest.mark.parametrize("name", ["answer", "question", "length", "thread"])
def test_no_space_is_named_like_what_a_thread_lends(opened, name):
    """An embedding space can't have the name of a contribution: the two could not be told apart."""
    store = opened(embedder=FakeEmbedder())
    store.add("a note")
    with pytest.raises(InvalidInputError, match=name):
        store.spaces.add(FakeEmbedder(model_id="second"), name=name)


def test_an_explained_turn(words):
    """The explanation has a line for each thing that the thread lends, in words."""
    say(words, ("Ana", ASKED), ("Tom", ANSWERED))
    found = by_id(words.search("prazo do estorno", k=9))
    asked, answered = (found[one].explain().splitlines() for one in (1, 2))
    assert any("question" in line and "it ends in a question" in line for line in asked)
    assert any(line.startswith("  answer") and "of the question before it" in line for line in answered)
    assert any(line.startswith("  thread") and "the best of its thread has" in line for line in answered)
    for hit in found.values():
        assert hit.score == pytest.approx(sum(one.contribution for one in hit.signals.values()) + hit.boost)

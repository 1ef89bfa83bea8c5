"""Judged questions as JSON Lines: what is read, and that all else is refused by its line."""

import json

import pytest

from memstore.errors import InvalidInputError
from memstore.evaluation import Judged, read


def line(**fields) -> str:
    return json.dumps({"text": "who pays?", "relevant": ["a"], **fields})


def test_a_whole_question():
    """Every field of a question is read, and fields of published collections are passed over."""
    given = line(
        id="q1", relevant=["a", 7], grades={"a": 2, "7": 0.5}, category="code", namespace="work", lang="pt", src=3
    )
    assert read([given]) == (
        Judged(
            id="q1",
            text="who pays?",
            relevant=("a", "7"),
            grades={"a": 2.0, "7": 0.5},
            category="code",
            namespace="work",
        ),
    )


def test_what_is_left_out():
    """A question has the number of its line for an id, a gain of 1 for each answer, no category and no namespace."""
    found = read(["", line(), "  \n", line(grades=None, id=None, category=None)])
    assert [one.id for one in found] == ["2", "4"]
    assert found[0] == Judged(id="2", text="who pays?", relevant=("a",), grades={"a": 1.0})


def test_other_names():
    """`query` or `question`, `kind` and `scope` are read as `text`, `category` and `namespace`."""
    found = read(
        [
            '{"query": "a?", "relevant": 5, "kind": "temporal", "scope": "conv-26"}',
            '{"question": "b?", "relevant": "k"}',
            '{"text": "c?", "query": "d?", "relevant": "k", "category": 3}',
        ]
    )
    assert [(one.text, one.relevant, one.category, one.namespace) for one in found] == [
        ("a?", ("5",), "temporal", "conv-26"),
        ("b?", ("k",), None, None),
        ("c?", ("k",), "3", None),
    ]


def test_one_answer_stands_alone():
    """A single id needs no list, and an id said twice, as number and text, is one."""
    assert read([line(relevant=12)])[0].relevant == ("12",)
    assert read([line(relevant=[12, "12", "a"])])[0].relevant == ("12", "a")


def test_some_grades():
    """An answer that has no grade among others that have one is worth 1."""
    assert read([line(relevant=["a", "b"], grades={"a": 3})])[0].grades == {"a": 3.0, "b": 1.0}


def test_keys_are_those_of_the_store():
    """Keys are composed and trimmed, as the store keeps them; the question stays as it is."""
    found = read(['\ufeff{"text": " café? ", "relevant": [" cafe\u0301 "], "grades": {"cafe\u0301": 2}}'])[0]
    assert found.relevant == ("café",)
    assert found.grades == {"café": 2.0}
    assert found.text == " café? "


def test_published_collections(judged):
    """Every judged collection is read whole."""
    for path in sorted(judged.glob("*/queries.jsonl")):
        lines = path.read_text(encoding="utf-8").split("\n")
        found = read(lines)
        assert len(found) == sum(bool(one.strip()) for one in lines)
        assert [one.id for one in found] == [json.loads(one)["id"] for one in lines if one.strip()]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("{", "this is not JSON .*; give an object such as"),
        ("[" * 100_000, "this is not JSON"),
        ("who pays?", "this is not JSON"),
        ("[1]", "this is a JSON list; give an object such as"),
        ("3", "this is a JSON int; give an object"),
        ("null", "this is a JSON NoneType"),
        ('{"relevant": ["a"]}', r"there is no field 'text' \(nor 'query', nor 'question'\); give"),
        ('{"text": null, "relevant": ["a"]}', "there is no field 'text'"),
        ('{"text": 5, "relevant": ["a"]}', "text is 5, not text; write the question"),
        ('{"query": ["x"], "relevant": ["a"]}', r"query is \['x'\], not text"),
        ('{"text": " \\t", "relevant": ["a"]}', "text is blank; write the question"),
        ('{"question": "", "relevant": ["a"]}', "question is blank"),
        ('{"text": "a\\ud83e", "relevant": ["a"]}', r"text has half a character .*U\+D83E at 1"),
        ('{"text": "a\\u0000", "relevant": ["a"]}', "text has a NUL character at 1; remove it"),
        ('{"text": "x"}', "there is no field 'relevant'; give ids as whole numbers or keys as text, at least one"),
        ('{"text": "x", "relevant": null}', "there is no field 'relevant'"),
        (line(relevant=[]), "relevant is empty; give ids .*, or leave the question out"),
        (line(relevant=True), "relevant holds True; give ids"),
        (line(relevant=[1.0]), r"relevant holds 1\.0; give ids"),
        (line(relevant=[None]), "relevant holds None; give ids"),
        (line(relevant={"a": 1}), r"relevant holds \{'a': 1\}; give ids"),
        (line(relevant=[["a"]]), r"relevant holds \['a'\]; give ids"),
        (line(relevant=[""]), "relevant is empty; leave it out"),
        (line(relevant=["k" * 4_001]), "relevant has 4,001 characters, at most 4,000"),
        (line(id=True), "id holds True"),
        (line(id=1.5), r"id holds 1\.5"),
        (line(id=" "), "id is empty"),
        (line(category=[]), r"category holds \[\]"),
        (line(kind=False), "kind holds False"),
        (line(namespace=5), "namespace is int, not str"),
        (line(scope=""), "scope is empty"),
        (line(grades=[1]), r"grades is \[1\]; give an object of relevant id to number"),
        (line(grades=0), "grades is 0; give an object"),
        (line(grades={"b": 1}), "grades has 'b', which is not relevant; add it there or remove it"),
        (line(grades={"a": float("nan")}), "the grade of 'a' is nan; give a number from 0 to 1,000,000"),
        (line(grades={"a": float("inf")}), "the grade of 'a' is inf; give a number from 0"),
        (line(grades={"a": -1}), "the grade of 'a' is -1; give"),
        (line(grades={"a": 10**400}), "the grade of 'a' is 10+…; give"),
        (line(grades={"a": True}), "the grade of 'a' is True; give"),
        (line(grades={"a": "2"}), "the grade of 'a' is '2'; give"),
        (line(grades={"a": None}), "the grade of 'a' is None; give"),
        (line(grades={"a": 1, " a": 2}), "grades has 'a' twice; leave one"),
        (line(grades={"a": 0}), "grades are all 0, which leaves nothing to find; give one above 0"),
    ],
)
def test_what_is_no_question(bad, said):
    """What can't be judged is one sentence with the number of its line and the remedy."""
    with pytest.raises(InvalidInputError, match=f"^line 3: {said}") as error:
        read([line(), "\n", bad])
    assert "\n" not in str(error.value)
    assert str(error.value).endswith((".", "stored."))


def test_an_id_said_twice():
    """Two questions with one id are refused, also where one of them is the number of a line."""
    with pytest.raises(InvalidInputError, match="line 2: the id 'x' is that of line 1 too; give each question its own"):
        read([line(id="x"), line(id="x")])
    with pytest.raises(InvalidInputError, match="line 2: the id '2' is that of line 1 too"):
        read([line(id=2), line()])


@pytest.mark.parametrize("lines", [[], ["", " \n", "\ufeff"]])
def test_no_question_at_all(lines):
    """A file without a question is refused."""
    with pytest.raises(InvalidInputError, match="there is no question, at least one is needed; give an object such as"):
        read(lines)

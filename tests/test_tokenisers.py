"""What counts tokens: a function, a tokeniser that is here, or an estimate; nothing is fetched."""

import hashlib
import math
import sys
from collections import UserDict
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstore import InvalidInputError, NewMemory
from memstore.context import estimate, tokeniser


def no_model(_):
    return None


def counts(given, text, model=no_model):
    return tokeniser(given, model).count(text)


def test_a_function_counts_or_gives_the_tokens():
    """A function may return a number, of Python's or numpy's, or a sequence of tokens."""
    assert counts(len, "four") == 4
    assert counts(str.split, "one two three") == 3
    assert counts(lambda text: np.int64(len(text)), "four") == 4
    assert counts(lambda _: np.zeros(5), "four") == 5
    assert counts(lambda text: float(len(text)), "four") == 4
    assert tokeniser(len, no_model).name == "len"


class Encoding:
    """What a tokenizer gives for one text: tokens of which another length is given."""

    ids = (5, 6, 7)

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    "answer",
    [
        *([7, 8, 9], (7, 8, 9), ["a", "b", "c"], np.zeros(3), Encoding(), {"input_ids": [7, 8, 9], "mask": [1, 1, 1]}),
        *(UserDict(input_ids=np.zeros(3)), {"input_ids": Encoding()}, np.array(3)),
    ],
    ids=lambda one: repr(one)[:24],
)
def test_the_tokens_of_one_text_are_counted(answer):
    """Tokens may be a list, an array of one dimension, or in a mapping or an encoding beside other things."""
    assert counts(lambda _: answer, "text") == 3


@pytest.mark.parametrize(
    "answer",
    [
        *(np.zeros((1, 5)), np.zeros((5, 1)), [[1, 2, 3]], [(1, 2, 3)], ([1, 2],), [np.zeros(5)], [Encoding()], [{}]),
        *({"a": 1, "b": 2}, {"input_ids": [[1, 2, 3]]}, {"input_ids": np.zeros((1, 3))}, UserDict(ids=1), {1, 2, 3}),
        *({"input_ids": "abc"}, {}.keys()),
    ],
    ids=lambda one: repr(one)[:24],
)
def test_what_is_not_one_texts_tokens_is_refused(answer):
    """A batch, a mapping without tokens, or distinct tokens have a length that is not the number of tokens."""
    with pytest.raises(
        InvalidInputError, match=r"(?s)tokeniser <lambda> returned .* as a list or a one-dimensional array"
    ):
        counts(lambda _: answer, "text")


def test_a_mapping_holds_to_the_budget(words):
    """A context whose tokeniser gives a mapping, as transformers do, has no more tokens than allowed."""
    words.add_many([NewMemory(text=f"tea number {number}") for number in range(30)])
    found = words.context("tea", max_tokens=60, tokeniser=lambda text: {"input_ids": text.split(), "mask": []})
    assert 40 < found.tokens == len(found.text.split()) <= 60
    assert found.left_out > 0


@pytest.mark.parametrize(
    "answer", [-1, 1.5, math.nan, math.inf, None, True, "12", b"12", {}.get], ids=lambda one: repr(one)[:12]
)
def test_no_count_is_refused(answer):
    """What is no whole number from 0 on, and no tokens, is refused with the name and the value."""
    with pytest.raises(InvalidInputError, match=r"tokeniser <lambda> returned .* whole number"):
        counts(lambda _: answer, "text")


def test_a_tokeniser_that_fails_is_told():
    """What a tokeniser raises becomes one sentence with its reason."""

    def broken(_):
        raise RuntimeError("no vocabulary")

    with pytest.raises(InvalidInputError, match=r"the tokeniser broken failed .*no vocabulary"):
        counts(broken, "text")


def test_an_error_that_can_not_be_shown_is_told():
    """What a tokeniser raises, or returns, may have no text itself: its type is told."""

    class Unspeakable(Exception):
        def __repr__(self) -> str:
            raise RuntimeError("no words")

    def broken(_):
        raise Unspeakable

    with pytest.raises(InvalidInputError, match=r"the tokeniser broken failed .something of the type Unspeakable"):
        counts(broken, "text")
    with pytest.raises(InvalidInputError, match="returned something of the type Unspeakable"):
        counts(lambda _: Unspeakable(), "text")


@pytest.mark.parametrize("given", [7, "", "gpt", "tokenizers:", "tiktoken:", ["len"]])
def test_what_is_no_tokeniser_is_refused(given):
    """A name that means nothing, or another value, is refused with the names that there are."""
    with pytest.raises(InvalidInputError, match="estimate, model, tokenizers:PATH"):
        tokeniser(given, no_model)


def test_a_tokenizer_file_counts_exactly(minilm):
    """tokenizers:PATH counts what that tokenizer makes of the whole text, without marks, cuts or filling."""
    from tokenizers import Tokenizer

    plain = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    plain.no_truncation()
    plain.no_padding()
    for text in ("", "a", "The invoice is overdue. " * 300):
        expected = len(plain.encode(text, add_special_tokens=False).ids)
        assert counts(f"tokenizers:{minilm / 'tokenizer.json'}", text) == expected
        assert counts(f"tokenizers:{minilm}", text) == expected
    assert counts(f"tokenizers:{minilm}", "The invoice is overdue. " * 300) > 512


def test_a_tokenizer_file_that_is_none_is_refused(tmp_path):
    """A path without a file, and a file that is no tokenizer, are told apart."""
    if find_spec("tokenizers") is None:
        pytest.skip("the library tokenizers is not installed")
    with pytest.raises(InvalidInputError, match="does not exist"):
        tokeniser(f"tokenizers:{tmp_path / 'none.json'}", no_model)
    for name in ("~nosuch/x", "x" * 5000, "x\0y"):
        with pytest.raises(InvalidInputError, match=r"(is no path|does not exist).* name the tokenizer\.json") as error:
            tokeniser(f"tokenizers:{name}", no_model)
        assert len(str(error.value)) < 400
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"is no tokenizer\.json"):
        tokeniser(f"tokenizers:{tmp_path}", no_model)


def test_tiktoken_is_not_let_download(monkeypatch, tmp_path):
    """An encoding that is not in the cache is refused before anything is fetched, and its loader left as it was."""
    load = pytest.importorskip("tiktoken.load")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    before = load.read_file
    with pytest.raises(InvalidInputError, match=r"cl100k_base is not in .* downloads nothing"):
        tokeniser("tiktoken:cl100k_base", no_model)
    assert load.read_file is before
    with pytest.raises(InvalidInputError, match="tiktoken has no encoding 'klingon'"):
        tokeniser("tiktoken:klingon", no_model)


def test_a_cache_of_tiktoken_that_can_not_be_read_is_told(monkeypatch, tmp_path):
    """What is wrong with tiktoken's cache is one sentence, whatever it is."""
    load = pytest.importorskip("tiktoken.load")
    url = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
    (tmp_path / hashlib.sha1(url.encode()).hexdigest()).mkdir()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    before = load.read_file
    with pytest.raises(InvalidInputError, match=r"cl100k_base can't be read from tiktoken's cache .* run tiktoken"):
        tokeniser("tiktoken:cl100k_base", no_model)
    assert load.read_file is before


def test_other_threads_fetch_by_tiktoken_meanwhile(monkeypatch):
    """While one thread is kept from fetching an encoding, what another one fetches by tiktoken reaches it."""
    tiktoken = pytest.importorskip("tiktoken")
    from tiktoken import load

    fetched = []
    monkeypatch.setattr(load, "read_file", lambda path: fetched.append(path) or b"vocabulary")

    def get_encoding(_):
        with ThreadPoolExecutor(1) as other:
            assert other.submit(load.read_file, "https://example.org/theirs").result() == b"vocabulary"
        return load.read_file("https://example.org/ours")

    monkeypatch.setattr(tiktoken, "get_encoding", get_encoding)
    with pytest.raises(InvalidInputError, match="downloads nothing"):
        tokeniser("tiktoken:cl100k_base", no_model)
    assert fetched == ["https://example.org/theirs"]


def test_tiktoken_counts_with_an_encoding_that_is_here(monkeypatch):
    """An encoding that tiktoken has loaded counts, and a special token's name in a memory is text like any other."""
    tiktoken = pytest.importorskip("tiktoken")
    from tiktoken import registry

    tiny = tiktoken.Encoding(
        name="tiny",
        pat_str=r"\w+|\W",
        mergeable_ranks={bytes([one]): one for one in range(256)},
        special_tokens={"<|endoftext|>": 256},
    )
    monkeypatch.setitem(registry.ENCODINGS, "cl100k_base", tiny)
    assert counts("tiktoken:cl100k_base", "abc") == 3
    assert counts("tiktoken:cl100k_base", "<|endoftext|>") == 13


def test_a_missing_library_is_named(monkeypatch):
    """Without the library the name is refused with what to install."""
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(InvalidInputError, match="pip install tiktoken"):
        tokeniser("tiktoken:cl100k_base", no_model)
    with pytest.raises(InvalidInputError, match="pip install tokenizers"):
        tokeniser("tokenizers:x", no_model)


def test_the_stores_own_model_counts(real):
    """`model` and the model's own name count as the embedder of the store does."""
    real.add("Tea is ready.")
    name = real.spaces.list()[0].model_id
    found = [real.context("tea", tokeniser=given) for given in ("model", name)]
    assert {one.tokeniser for one in found} == {name}
    assert found[0].tokens == found[1].tokens > 20


def test_a_model_that_counts_nothing_is_told(fake):
    """A store whose embedder offers no count says so by the embedder's name; one without a space knows none."""
    with pytest.raises(
        InvalidInputError, match="the tokeniser model can't be had: the file has no embedding space yet"
    ):
        fake.context("tea", tokeniser="model")
    fake.add("Tea is ready.")
    with pytest.raises(InvalidInputError, match="the tokeniser model can't be had: the embedder fake does not count"):
        fake.context("tea", tokeniser="model")


def test_the_estimate_is_what_is_documented():
    """Four letters, two with accents, two digits, any other character, half an emoji: one token each."""
    texts = {
        "": 0,
        "tea": 1,
        "teapot": 2,
        "é": 1,
        "água": 2,
        "2026": 2,
        "a b": 2,
        "\n": 1,
        "银行": 2,
        "🙂": 2,
        "a-b": 3,
    }
    assert {text: estimate(text) for text in texts} == texts


@given(st.text(), st.text())
def test_the_estimate_never_falls_when_lines_are_added(first, second):
    """A text with another line behind it has no fewer tokens than each of the two."""
    assert estimate(f"{first}\n{second}") >= max(estimate(first), estimate(second))


def test_the_estimate_rarely_undercounts(minilm, judged):
    """Of real memories in English a real tokenizer has more tokens than the estimate in at most one of a hundred."""
    import json

    count = tokeniser(f"tokenizers:{minilm}", no_model).count
    lines = Path(judged / "locomo-dev" / "docs.jsonl").read_text(encoding="utf-8").splitlines()[:1000]
    texts = [json.loads(line)["text"] for line in lines]
    assert len(texts) > 500
    assert sum(count(text) > estimate(text) for text in texts) <= len(texts) / 100

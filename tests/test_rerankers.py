"""Rerankers: what names one, when it is loaded, what is believed of its answers, and cross-encoders from disk."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import cross_encoded

from memstore import InvalidInputError, MemstoreError, RerankerError
from memstore.embedding import named as embedder
from memstore.rerank import Second, catalogue, cross_encoder, late, named
from memstore.rerank.catalogue import KNOWN, SUGGESTED, described

TEXTS = (
    "The spare key is under the blue pot, by the door.",
    "Rain all day.",
    "",
    "A chave do cartão: o código do pagamento é outro.",
    "The PAYMENT server had an error; the card error code is 4018.",
    "the " * 300,
)
QUERIES = (
    "where is the spare key?",
    "código do pagamento",
    "what error code did the payment card give",
    "unheard of",
    "",
)
GTE = "Alibaba-NLP/gte-multilingual-reranker-base"


class Scorer:
    """For plumbing only: answers what it was made with, and counts how many ask at once."""

    def __init__(self, answer: Any = None, model_id: Any = "scorer", **more: Any) -> None:
        self.answer = answer
        self.model_id = model_id
        self.at_once = self.most_at_once = 0
        self.entered, self.free = threading.Event(), threading.Event()
        self.free.set()
        self._count = threading.Lock()
        vars(self).update(more)

    def score(self, _query, texts):
        with self._count:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self.entered.set()
        self.free.wait(30)
        with self._count:
            self.at_once -= 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return [float(len(text)) for text in texts] if self.answer is None else self.answer


def copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to)
    return to


def expected(query: str, texts: Any = TEXTS) -> list[float]:
    return [cross_encoded(query, text) for text in texts]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ)
    )


# --- Cross-encoders from disk, through the real fastembed ------------------------------------------------------------


@pytest.mark.parametrize("query", QUERIES)
def test_scores_are_the_logits_of_the_model(tiny_cross_encoder, query):
    """The scores are what the model's own arithmetic gives for each pair, in the order of the texts, whatever batch."""
    second = named(f"fastembed:{tiny_cross_encoder}")
    np.testing.assert_allclose(second.scores(query, TEXTS * 5), expected(query) * 5, atol=1e-5)
    assert second.scores(query, TEXTS).dtype == np.float64
    assert second.scores(query, []).shape == (0,)


def test_the_arithmetic_tells_texts_apart():
    """The tiny model's arithmetic ranks the text that answers above the others."""
    assert expected("where is the spare key?") == [5, -3, -3, -3, 1, -1]
    assert max(TEXTS, key=lambda text: cross_encoded("código do pagamento", text)) == TEXTS[3]


def test_nothing_is_loaded_before_the_first_scores(tiny_cross_encoder):
    """Naming a cross-encoder imports no model library and opens nothing; the first scores do."""
    ended = run(f"""
import json, sys, time
from memstore.rerank import named
heavy = ("fastembed", "onnxruntime", "tokenizers", "huggingface_hub")
def loaded():
    return [name for name in heavy if name in sys.modules]
told, begun = [], time.perf_counter()
def tell(what):
    global begun
    told.append([what, loaded(), round(1000 * (time.perf_counter() - begun)), second.loaded])
    begun = time.perf_counter()
second = named("fastembed:" + {str(tiny_cross_encoder)!r})
tell("named")
assert list(second.scores("spare key", ["the spare key", "rain"])) == [1.0, -3.0]
tell("first scores")
second.scores("spare key", ["the spare key", "rain"])
tell("next scores")
print(json.dumps(told))
""")
    assert ended.stderr == ""
    told = json.loads(ended.stdout)
    for what, modules, milliseconds, loaded in told:
        print(f"{what}: {milliseconds} ms, loaded: {loaded}, modules: {', '.join(modules) or 'none'}")
    assert [(modules != [], loaded) for _, modules, _, loaded in told] == [(False, False), (True, True), (True, True)]
    assert {"fastembed", "onnxruntime"} < set(told[1][1])


def test_opening_and_scoring_leave_nothing_behind(tiny_cross_encoder, tmp_path, monkeypatch):
    """A cross-encoder opens and scores without a line on standard error or a file in the user's folder."""
    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    before = sorted(tiny_cross_encoder.rglob("*"))
    code = f"from memstore.rerank import named; print(named('fastembed:{tiny_cross_encoder}').scores('key', ['key']))"
    ended = run(code)
    assert (ended.stdout, ended.stderr) == ("[-1.]\n", "")
    assert (list(tmp_path.rglob("*")), sorted(tiny_cross_encoder.rglob("*"))) == ([], before)


def test_a_query_stays_whole_and_long_texts_are_cut(tiny_cross_encoder, tmp_path):
    """Of a pair longer than the window the longer part is cut: a query of up to half of it keeps every word."""
    folder = copied(tiny_cross_encoder, tmp_path / "short")
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 19, "pad_token": "[PAD]"}))
    query = "where spare key blue pot door rain"
    # 19 tokens are three marks, the seven words of the query, and nine of the text.
    texts = [f"{'bread ' * 8}{query}", f"{query} {'bread ' * 5_000}", f"{'bread ' * 9}{query}"]
    scores = named(f"fastembed:{folder}").scores(query, texts)
    assert list(scores) == [cross_encoded(query, "where"), cross_encoded(query, query), -3]


def test_no_pair_is_longer_than_512_tokens(tiny_cross_encoder, tmp_path):
    """A model that reads thousands of tokens is given 512, whose attention fits in memory."""
    folder = copied(tiny_cross_encoder, tmp_path / "long")
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 8192, "pad_token": "[PAD]"}))
    scores = named(f"fastembed:{folder}").scores("key", [f"{'rain ' * 507}key", f"{'rain ' * 508}key"])
    assert list(scores) == [-1, -3]


@pytest.mark.parametrize("odd", ["\ud800", "\x00", "key\x00key", "\udfff key", "👨‍👩‍👧", "\u202e"])
def test_odd_characters_are_scored(tiny_cross_encoder, odd):
    """Lone surrogates, NUL and the like in a query or a text are scored, and change no other text's score."""
    second = named(f"fastembed:{tiny_cross_encoder}")
    assert second.scores("spare key", [odd, "the spare key"])[1] == 1
    assert second.scores(f"spare key {odd}", ["the spare key"])[0] >= 1


@pytest.mark.parametrize("place", ["onnx/model.onnx", "onnx/model_quantized.onnx", "model_optimized.onnx"])
def test_the_model_file_may_be_where_exporters_put_it(tiny_cross_encoder, tmp_path, place):
    """A folder opens with its ONNX file in any of the usual places, under the folder's name."""
    folder = copied(tiny_cross_encoder, tmp_path / "mine")
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / place)
    second = named(f"fastembed:{folder}")
    assert second.scores("key", ["key"])[0] == -1
    assert (second.name, second.spec) == ("fastembed/mine", f"fastembed:{folder}")


def test_threads_get_what_one_gets(tiny_cross_encoder):
    """Eight threads that load and ask a cross-encoder at once get the same scores as one."""
    second = named(f"fastembed:{tiny_cross_encoder}")
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda query: second.scores(query, TEXTS).tolist(), QUERIES * 8))
    assert together == [expected(query) for query in QUERIES * 8]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_child_scores_and_ends(tiny_cross_encoder):
    """A child forked after its parent has scored gets the same scores and ends, used or not; so does its parent."""
    ended = run(f"""
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from memstore.rerank import named
second = named("fastembed:" + {str(tiny_cross_encoder)!r})
texts = ["the spare key", "rain"] * 20
before = list(second.scores("spare key", texts))
for used in (True, False):
    child = os.fork()
    if not child:
        if used:
            print(list(second.scores("spare key", texts)) == before, flush=True)
        sys.exit(0)
    print(os.waitpid(child, 0)[1], list(second.scores("spare key", texts)) == before, flush=True)
""")
    assert (ended.stdout, ended.stderr) == ("True\n0 True\n0 True\n", "")


def cut_short(folder: Path) -> None:
    (folder / "model.onnx").write_bytes((folder / "model.onnx").read_bytes()[:300])


def unknown_operator(folder: Path) -> None:
    import onnx

    model = onnx.load(folder / "model.onnx")
    model.graph.node[0].op_type = "NoSuchOperator"
    onnx.save(model, folder / "model.onnx")


def widened(folder: Path, columns: list[str], sides: list[Any] | None, labels: int = 1) -> None:
    """Have the model answer with some columns joined, declared with these sides."""
    import onnx
    from onnx import TensorProto, helper

    model = onnx.load(folder / "model.onnx")
    model.graph.node.append(helper.make_node("Concat", columns, ["wide"], axis=1))
    model.graph.output.pop()
    model.graph.output.append(helper.make_tensor_value_info("wide", TensorProto.FLOAT, sides))
    onnx.save(model, folder / "model.onnx")
    (folder / "config.json").write_text(json.dumps({"id2label": {str(one): "LABEL" for one in range(labels)}}))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda folder: (folder / "model.onnx").unlink(), r"has no model: none of model\.onnx, onnx/model\.onnx"),
        (lambda folder: (folder / "tokenizer.json").unlink(), r"has no tokenizer\.json; put all of the model's files"),
        (lambda folder: (folder / "tokenizer_config.json").unlink(), r"has no tokenizer_config\.json; put all"),
        (
            lambda folder: (folder / "tokenizer.json").write_text("{"),
            r"can't be opened \(Exception: .*; copy the model",
        ),
        (lambda folder: (folder / "model.onnx").write_bytes(b"<html>"), r"model\.onnx is no ONNX file; copy the model"),
        (lambda folder: (folder / "model.onnx").write_bytes(b""), r"model\.onnx is empty; copy the model's files"),
        (cut_short, r"model\.onnx is cut short; copy the model's files there again"),
        (unknown_operator, r"can't be opened \(\w+: .*; copy the model's files there again"),
        (lambda folder: widened(folder, ["doubled", "logits"], ["batch", 2]), r"first output is wide of 2 numbers"),
        (
            lambda folder: widened(folder, ["doubled", "logits"], ["b", "n"], 2),
            r"first output is wide of 2 numbers",
        ),
        (
            lambda folder: widened(folder, ["meeting"], ["b", "s", "t"]),
            r"first output is wide \(\? x \? x \?\); name",
        ),
        (shutil.rmtree, r"does not exist; name one with model\.onnx in it"),
    ],
    ids=[
        "no model",
        "no tokenizer",
        "no tokenizer config",
        "cut tokenizer",
        "a page",
        "empty",
        "cut short",
        "unknown operator",
        "two columns",
        "two labels",
        "vectors",
        "no folder",
    ],
)
def test_a_folder_that_does_not_open_is_one_sentence(tiny_cross_encoder, tmp_path, spoil, told, capfd):
    """A part that is missing or spoilt, or a model of another kind, is one sentence with the folder and the remedy."""
    folder = copied(tiny_cross_encoder, tmp_path / "spoilt")
    spoil(folder)
    second = named(f"fastembed:{folder}/")
    with pytest.raises(RerankerError, match=told) as error:
        second.scores("key", ["key"])
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)
    assert capfd.readouterr() == ("", "")
    assert not second.loaded


def test_an_output_without_a_fixed_length_is_taken_by_its_labels(tiny_cross_encoder, tmp_path):
    """A model whose output declares no width opens when its config.json has one label, or none at all."""
    folder = copied(tiny_cross_encoder, tmp_path / "open")
    widened(folder, ["logits"], ["batch", "labels"])
    assert named(f"fastembed:{folder}").scores("key", ["key"])[0] == -1
    (folder / "config.json").unlink()
    assert named(f"fastembed:{folder}").scores("key", ["key"])[0] == -1


def test_an_output_that_declares_no_shape_is_taken_at_its_word(tiny_cross_encoder, tmp_path):
    """A model whose output says nothing of its shape opens and scores; one that gives vectors then fails as told."""
    widened(copied(tiny_cross_encoder, tmp_path / "plain"), ["logits"], None)
    assert named(f"fastembed:{tmp_path / 'plain'}").scores("key", ["key"])[0] == -1
    widened(copied(tiny_cross_encoder, tmp_path / "vectors"), ["meeting"], None)
    with pytest.raises(RerankerError, match=r"the reranker fastembed/vectors failed \(TypeError: "):
        named(f"fastembed:{tmp_path / 'vectors'}").scores("key", ["key"])


# --- By name, from fastembed's cache ---------------------------------------------------------------------------------


def kept(cache: Path, name: str, tiny: Path) -> Path:
    """Put the tiny model where the one of that name would be kept."""
    model = described(name)
    folder = cache / f"models--{model.repository.replace('/', '--')}" / "snapshots" / "0123"
    for one in model.files:
        (folder / one).parent.mkdir(parents=True, exist_ok=True)
        (folder / one).write_bytes((tiny / ("model.onnx" if one.endswith(".onnx") else one)).read_bytes())
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", [SUGGESTED.name, GTE, "ms-marco-minilm-l-6-v2"])
def test_a_cached_model_opens_by_its_name(cache, tiny_cross_encoder, name):
    """A cross-encoder of the cache opens by its name or the last part of it, also one that fastembed does not know."""
    kept(cache, name, tiny_cross_encoder)
    second = named(f"fastembed:{name}")
    assert list(second.scores("spare key", ["the spare key", "rain"])) == [1, -3]
    assert second.name == f"fastembed/{described(name).name}"


def test_a_model_that_is_not_there_is_told_with_the_way_to_get_it(cache):
    """A model that is not in the cache, or not known at all, is one sentence with the remedy; nothing is made."""
    with pytest.raises(RerankerError) as told:
        named(f"fastembed:{SUGGESTED.name}").scores("key", ["key"])
    assert str(told.value) == (
        f"the reranker {SUGGESTED.name} is not in {cache}; memstore models pull {SUGGESTED.name} downloads it"
    )
    with pytest.raises(RerankerError) as told:
        named(None).scores("key", ["key"])
    assert str(told.value) == (
        "no second model is here (no model that tells the vectors of tokens is on disk); memstore models pull"
        f" {SUGGESTED.name} downloads one ({SUGGESTED.megabytes} MB), or name a folder with a sentence model of"
        " fastembed as late-interaction:FOLDER"
    )
    with pytest.raises(RerankerError, match="no reranker 'someone/anything' is known; memstore models list shows"):
        named("fastembed:someone/anything").scores("key", ["key"])
    assert not cache.exists()


def test_a_cached_model_that_is_not_whole_is_told(cache, tiny_cross_encoder):
    """A cached model with a part missing is told with its folder, the part and the command that mends it."""
    folder = kept(cache, GTE, tiny_cross_encoder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(RerankerError, match=r"is not whole \(tokenizer\.json is missing\); memstore models pull"):
        named(f"fastembed:{GTE}").scores("key", ["key"])


def test_the_usual_model_is_one_on_disk_that_may_be_used_for_everything(cache, tiny_cross_encoder):
    """Without a name the first of the catalogue on disk is taken, never one that forbids commercial use."""
    kept(cache, "jinaai/jina-reranker-v2-base-multilingual", tiny_cross_encoder)
    assert cross_encoder.first_on_disk() is None
    kept(cache, "jinaai/jina-reranker-v1-tiny-en", tiny_cross_encoder)
    assert cross_encoder.first_on_disk() == "jinaai/jina-reranker-v1-tiny-en"
    kept(cache, GTE, tiny_cross_encoder)
    assert cross_encoder.first_on_disk() == GTE
    usual = named(None)
    assert (usual.spec, usual.loaded, usual.name) == (None, False, "that is used when none is named")
    assert usual.scores("key", ["key"])[0] == -1
    assert usual.name == f"fastembed/{GTE}"


def test_without_a_cross_encoder_the_usual_model_is_late_interaction(cache, minilm):
    """Where no cross-encoder is on disk the usual one reads by the token vectors of the sentence model at hand."""
    usual = named(None, lambda: embedder(f"fastembed:{minilm}").opened())
    near, far = usual.scores("where is the spare key?", ["The spare key is under the blue pot.", "Rain all day."])
    assert near > far
    assert (usual.name, usual.weight) == (f"late-interaction/fastembed/{minilm.name}", late.WEIGHT)
    assert not cache.exists()


def test_the_catalogue_says_what_fastembed_says():
    """Every cross-encoder of the catalogue is fastembed's in its files and licence, but the one memstore registers."""
    listed = {one["model"]: one for one in cross_encoder.text_cross_encoder().list_supported_models()}
    for one in KNOWN:
        if one.name == GTE:
            continue
        theirs = listed[one.name]
        assert (one.repository, one.model_file, list(one.data_files)) == (
            theirs["sources"]["hf"],
            theirs["model_file"],
            theirs["additional_files"],
        )
        assert one.licence.lower().replace(" ", "-") == theirs["license"]
        assert one.commercial == ("-nc" not in theirs["license"])


def test_the_suggested_model_is_multilingual_and_free_to_use():
    """The model that is suggested speaks many languages, and its licence allows commercial use."""
    assert catalogue.SUGGESTED.commercial
    assert re.match(r"\d\d+ languages", catalogue.SUGGESTED.languages)


# --- Names and objects -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "the reranker '' is unknown; give fastembed:NAME, fastembed:FOLDER, late-interaction or"),
        ("fastembed:", "the reranker 'fastembed:' is unknown"),
        ("late-interaction: ", "the reranker 'late-interaction: ' is unknown"),
        ("late-interaction:a\x00b", "has a NUL character"),
        ("fastembed", "the reranker 'fastembed' is unknown"),
        ("cohere:rerank-3", "the reranker 'cohere:rerank-3' is unknown"),
        ("fastembed:a\x00b", "has a NUL character"),
        (3, "reranker is int, which has no model_id; give"),
        (object(), "reranker is object, which has no model_id; give"),
        (type("Named", (), {"model_id": "mine"})(), "reranker is Named, which has no score; give"),
        (type("Odd", (), {"model_id": "mine", "score": 3})(), "reranker is Odd, which has no method score; give"),
        (Scorer(model_id=""), "the reranker's model_id is empty"),
        (Scorer(model_id=7), "the reranker's model_id is int, not str"),
        (type("Bad", (), {"model_id": property(lambda _: 1 / 0)})(), "reranker is Bad, which fails"),
    ],
)
def test_what_means_nothing_is_refused(given, told):
    """A name of no kind, or an object that can't score, is refused in one sentence before anything is opened."""
    with pytest.raises(InvalidInputError) as error:
        named(given)
    assert told in str(error.value)


def test_an_object_is_taken_as_it_is():
    """An object with model_id and score is a second stage under its own name, with no spec to open it again by."""
    second = named(Scorer())
    assert (second.spec, second.name, second.label) == (None, "scorer", "scorer")
    assert second.scores("key", ["a", "abc"]).tolist() == [1, 3]
    assert named(Scorer(np.array([0.5, -2], dtype=np.float32))).scores("key", ["a", "b"]).tolist() == [0.5, -2]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ([1.0], r"answered in the shape \(1,\), expected was one number for each of 3 texts"),
        ([1.0, 2.0, 3.0, 4.0], r"answered in the shape \(4,\)"),
        ([[1.0], [2.0], [3.0]], r"answered in the shape \(3, 1\)"),
        (7.0, r"answered in the shape \(\)"),
        ([1.0, float("nan"), 2.0], r"gave nan for text 2 of 3, expected were finite numbers"),
        ([1.0, 2.0, float("-inf")], r"gave -inf for text 3 of 3"),
        (["high", "low", "low"], r"failed \(ValueError: could not convert"),
        ([1.0, None, 2.0], r"gave nan for text 2 of 3"),
        (RuntimeError("out of memory\nand a long trace"), r"failed \(RuntimeError: out of memory\)$"),
        (RerankerError("the server of the reranker is away"), r"^the server of the reranker is away$"),
    ],
    ids=["few", "many", "columns", "one", "nan", "infinite", "words", "none", "raises", "its own error"],
)
def test_an_answer_that_can_not_be_believed_is_an_error(answer, told):
    """Scores of another number, shape or kind, or not finite, and a failing model are one sentence each."""
    second = named(Scorer(answer))
    with pytest.raises(RerankerError, match=told) as error:
        second.scores("key", ["a", "b", "c"])
    assert "\n" not in str(error.value)
    assert isinstance(error.value, MemstoreError)


def test_a_copy_of_the_answer_is_kept():
    """Scores do not change when the model fills its own array again."""
    answer = np.array([1.0, 2.0])
    scores = named(Scorer(answer)).scores("key", ["a", "b"])
    answer[:] = 0
    assert scores.tolist() == [1, 2]


# --- Loading, waiting, threads ---------------------------------------------------------------------------------------


def test_a_model_is_opened_once_and_at_the_first_use():
    """Naming opens nothing; eight threads that score at once open the model once."""
    opened: list[int] = []
    begun = threading.Event()

    def load() -> Scorer:
        opened.append(1)
        begun.wait(30)
        return Scorer()

    second = Second("mine:1", load)
    assert (second.loaded, second.name, opened) == (False, "mine:1", [])
    with ThreadPoolExecutor(8) as threads:
        scores = [threads.submit(second.scores, "key", ["ab"]) for _ in range(8)]
        begun.set()
        assert [one.result(30).tolist() for one in scores] == [[2.0]] * 8
    assert (second.loaded, second.name, opened) == (True, "scorer", [1])


def test_a_model_that_fails_to_load_is_tried_again_later(monkeypatch):
    """A failed load is told at every use and not tried again at once; later it is, and the model then works."""
    tried: list[int] = []

    def load() -> Scorer:
        tried.append(1)
        if len(tried) == 1:
            raise OSError("no such file\nand a long trace")
        return Scorer()

    second = Second("mine:1", load)
    for _ in range(2):
        with pytest.raises(RerankerError, match=r"^the reranker mine:1 can't be loaded \(OSError: no such file\)$"):
            second.scores("key", ["ab"])
    assert (len(tried), second.loaded) == (1, False)
    monkeypatch.setattr("memstore.loading._RETRY_SECONDS", 0.0)
    assert second.scores("key", ["ab"]).tolist() == [2]
    assert len(tried) == 2


def test_a_model_that_loads_for_long_is_not_waited_for():
    """Past the wait the use fails with one sentence while the model loads on; the next use after that has it."""
    free = threading.Event()

    def load() -> Scorer:
        free.wait(30)
        return Scorer()

    second = Second("mine:1", load)
    for _ in range(2):
        with pytest.raises(RerankerError, match=r"mine:1 was not loaded within 0\.05 seconds and loads on"):
            second.scores("key", ["ab"], wait=0.05)
    free.set()
    assert second.scores("key", ["ab"]).tolist() == [2]


def test_an_object_without_a_name_of_its_own_can_not_be_used():
    """What opens into a model whose model_id is no name is an error of its loading."""
    with pytest.raises(RerankerError, match="the reranker mine:1 can't be used: model_id is None; name something"):
        Second("mine:1", lambda: Scorer(model_id=None)).scores("key", ["ab"])


@pytest.mark.parametrize(("more", "most"), [({}, 1), ({"thread_safe": False}, 1), ({"thread_safe": True}, 2)])
def test_a_model_is_asked_by_one_at_a_time_unless_it_says_otherwise(more, most):
    """Two threads take turns at a model, unless it says that it is thread-safe; a bounded wait for a turn ends."""
    scorer = Scorer(**more)
    second = named(scorer)
    scorer.free.clear()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(second.scores, "key", ["ab"])
        assert scorer.entered.wait(30)
        scorer.entered.clear()
        if most == 1:
            with pytest.raises(RerankerError, match="the reranker scorer is busy with other searches"):
                second.scores("key", ["ab"], wait=0.05)
        other = threads.submit(second.scores, "key", ["abc"])
        if most == 2:
            assert scorer.entered.wait(30)
        scorer.free.set()
        assert (first.result(30).tolist(), other.result(30).tolist()) == ([2], [3])
    assert scorer.most_at_once == most


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_child_forked_while_the_model_loads_or_answers_is_not_held_up():
    """A child forked while a thread of its parent loads the model, or has its turn, loads it and has a turn itself."""
    ended = run("""
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from memstore.errors import RerankerError
from memstore.rerank import Second
free, parent = threading.Event(), os.getpid()
class Slow:
    model_id = "slow"
    def score(self, _query, texts):
        busy.set()
        if os.getpid() == parent:
            free.wait(30)
        return [1.0] * len(texts)
def load():
    if os.getpid() == parent and not loaded_once.wait(30):
        raise SystemExit
    return Slow()
def child(used):
    pid = os.fork()
    if not pid:
        print(used.scores("key", ["a"], wait=20).tolist(), flush=True)
        os._exit(0)
    print(os.waitpid(pid, 0)[1], flush=True)
busy, loaded_once = threading.Event(), threading.Event()
second = Second("slow:1", load)
try:
    second.opened(0)
except RerankerError as error:
    print(error)
child(second)
loaded_once.set()
asking = threading.Thread(target=second.scores, args=("key", ["a"]))
asking.start()
busy.wait(30)
child(second)
free.set()
asking.join()
""")
    told = "the reranker slow:1 was not loaded within 0 seconds and loads on\n"
    assert (ended.stdout, ended.stderr) == (f"{told}[1.0]\n0\n[1.0]\n0\n", "")

"""Secrets in what leaves a store are masked when that is asked for, and one that is stored is told of once."""

import io
import json
import os
import subprocess
import sys
import warnings

import pytest
from test_masking import HARMLESS, SECRETS

from memstore import InvalidInputError, MemoryStore, NewMemory, SecretWarning, Weights
from memstore.masking import secret_in

AWS, OTHER_AWS, STRIPE = SECRETS["AWS key"], "AKIA" + "Z3EGRIX7WVKT2BNU", SECRETS["Stripe key"]
EVERYWHERE = NewMemory(
    text=f"deploy with {AWS} and {STRIPE}, not with {OTHER_AWS}",
    key=f"aws/{AWS}",
    namespace=f"of {STRIPE}",
    author=f"Ana {AWS}",
    thread=f"thread {AWS}",
    tags=[f"tag {AWS}", "plain"],
    metadata={"plain": [{"deep": f"at {AWS}"}, 7, True, None], f"name {AWS}": 1, f"name {OTHER_AWS}": 2},
    entities=[f"Service {STRIPE}"],
)
pytestmark = pytest.mark.filterwarnings("ignore::memstore.SecretWarning")


def exported(store: MemoryStore, **options) -> tuple[str, dict[str, int]]:
    stream, counts = io.StringIO(), {}
    store.export(stream, masked=counts.update, **options)
    return stream.getvalue(), counts


def test_every_text_that_leaves_is_masked(words):
    """Text, key, namespace, author, thread, tags, metadata and its names, entities, terms and profiles are masked."""
    words.add_many([EVERYWHERE])
    words.terms.add(f"Cofre {AWS}", kind="vault", aliases=[f"cofre {OTHER_AWS}"])
    words.profiles.save(f"of {STRIPE}", Weights(keyword=0.5))
    lines, counts = exported(words, redact=True)
    for secret in (AWS, OTHER_AWS, STRIPE):
        assert secret not in lines
        assert secret.lower() not in lines.lower()
    fields = json.loads(lines.splitlines()[-1])
    one, two, stripe = "[masked: AWS key]", "[masked: AWS key 2]", "[masked: Stripe key]"
    assert fields["text"] == f"deploy with {one} and {stripe}, not with {two}"
    assert (fields["key"], fields["namespace"], fields["author"]) == (f"aws/{one}", f"of {stripe}", f"Ana {one}")
    assert (fields["thread"], fields["tags"]) == (f"thread {one}", ["plain", f"tag {one}"])
    assert fields["metadata"] == {"plain": [{"deep": f"at {one}"}, 7, True, None], f"name {one}": 1, f"name {two}": 2}
    assert fields["entities"] == [f"Service {stripe}"]
    assert counts == {"AWS key": 11, "Stripe key": 4}


@pytest.mark.parametrize("kind", SECRETS)
def test_each_kind_of_secret_is_masked_and_counted(words, kind):
    """A secret of each kind leaves as its mask and is counted by its kind; without redact it leaves as it is."""
    words.add(f"use {SECRETS[kind]} today")
    lines, counts = exported(words, redact=True)
    assert json.loads(lines)["text"] == f"use [masked: {kind}] today"
    assert counts == {kind: 1}
    plain, counts = exported(words)
    assert json.loads(plain)["text"] == f"use {SECRETS[kind]} today"
    assert counts == {}


def test_what_only_speaks_of_secrets_leaves_as_it_is(words):
    """Notes without a secret leave unchanged, to the byte, and none is counted."""
    words.add_many([NewMemory(text=text, tags=["password"], metadata={"secret": "hunter2"}) for text in HARMLESS])
    assert exported(words, redact=True) == exported(words)
    with pytest.raises(InvalidInputError, match="redact is 1; give true or false"):
        exported(words, redact=1)


def test_a_redacted_export_is_imported_whole(words, tmp_path):
    """Memories whose keys or names differ by a secret alone stay apart in a redacted export, and all come back."""
    words.add("one", key=AWS)
    words.add("two", key=OTHER_AWS)
    words.add(f"as {AWS}")
    words.add(f"as {OTHER_AWS}")
    words.terms.add(AWS)
    words.terms.add(OTHER_AWS)
    lines, _ = exported(words, redact=True)
    with MemoryStore(tmp_path / "other.db", embedder="none") as other:
        assert other.import_jsonl(lines.splitlines()).added == 4
        assert {memory.key for memory in other.list()} == {None, "[masked: AWS key]", "[masked: AWS key 2]"}
        assert len(other.terms.list()) == 2
        again, _ = exported(other)
        assert sorted(again.splitlines()) == sorted(lines.splitlines())


STORED = {
    "add": lambda store, text: store.add(text),
    "add_many": lambda store, text: store.add_many([NewMemory(text="none"), NewMemory(text=text)]),
    "update": lambda store, text: store.update(1, text=text),
    "metadata": lambda store, text: store.update(1, metadata={"a": [{"b": f"\n{text}"}]}),
    "import_jsonl": lambda store, text: store.import_jsonl([json.dumps({"text": text})]),
    "import_text": lambda store, text: store.import_text(text),
}


@pytest.mark.parametrize("way", STORED)
def test_storing_a_secret_is_told_once_and_changes_nothing(words, way):
    """The first secret that is stored gives one warning, with what to do and without the secret, and stays as it is."""
    words.add("there before")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        STORED[way](words, f"use {STRIPE}")
        STORED[way](words, f"then {STRIPE}")
        words.add(f"again {AWS}")
    assert [one.category for one in told] == [SecretWarning]
    said = str(told[0].message)
    assert "holds what has the shape of a Stripe key, stored as it was given" in said
    assert "mask_secrets=True (--mask-secrets)" in said
    assert STRIPE not in said
    holder = next(int(word) for word in said.split() if word.isdigit())
    assert f"use {STRIPE}" in repr(words.get(holder)) or f"then {STRIPE}" in repr(words.get(holder))
    with words._database.read() as conn:
        assert STRIPE in str(conn.execute("SELECT text, metadata FROM memories").fetchall())


@pytest.mark.parametrize("way", STORED)
def test_what_is_masked_before_is_not_told_of(words, way):
    """With mask_secrets nothing of the secret is stored by any way of storing, and there is nothing to tell."""
    masking = {
        "add": lambda text: words.add(text, mask_secrets=True),
        "add_many": lambda text: words.add_many([NewMemory(text=text, metadata={"a": [text]})], mask_secrets=True),
        "update": lambda text: words.update(1, text=text, mask_secrets=True),
        "metadata": lambda text: words.update(1, metadata={"a": {"b": text}}, mask_secrets=True),
        "import_jsonl": lambda text: words.import_jsonl([json.dumps({"text": text})], mask_secrets=True),
        "import_text": lambda text: words.import_text(text, mask_secrets=True),
    }
    words.add("there before")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        masking[way](f"use {STRIPE}")
    lines, _ = exported(words)
    assert STRIPE not in lines
    assert "use [masked: Stripe key]" in lines


def test_an_import_masks_exported_memories_and_markdown_too(words, tmp_path):
    """Masking at an import is of an export's own memories and of Markdown as well, and importing again adds nothing."""
    words.add(f"use {STRIPE}", metadata={"at": AWS})
    lines, _ = exported(words)
    (tmp_path / "n.md").write_text(f"# Keys\n{AWS}\n", encoding="utf-8")
    with MemoryStore(tmp_path / "other.db", embedder="none") as other:
        for outcome in ("added", "unchanged"):
            assert getattr(other.import_jsonl(lines.splitlines(), mask_secrets=True), outcome) == 1
            assert getattr(other.import_markdown(tmp_path / "n.md", mask_secrets=True), outcome) == 1
        assert {memory.text for memory in other.list()} == {"use [masked: Stripe key]", "# Keys\n[masked: AWS key]"}
        assert other.get(1).metadata == {"at": "[masked: AWS key]"}


def test_words_give_no_alarm(words):
    """Fifteen notes with the word password, a key of documentation and what only looks like a key give no warning."""
    notes = [f"the password of door {n} is changed in May, ask Ana for the new password" for n in range(15)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        words.add_many([NewMemory(text=text) for text in (*notes, *HARMLESS)])
        words.add("see sk-learn-classification-benchmark and the task-force-report-of-the-year-2024-and-more")
    assert words.count() == len(notes) + len(HARMLESS) + 1


def test_a_long_text_of_beginnings_is_read_in_one_go():
    """A text that begins a secret again and again and never ends one is no secret, and is looked through at once."""
    for start in ("-eyJaaaaaaaa", "sk-a ", "-----BEGIN A ", "ghp_ ", "AIza", "xox ", "eyJ.", "sk_live_a "):
        assert secret_in(start * 50_000) is None


def test_the_command_line_tells_what_was_masked(tmp_path):
    """export --redact says on standard error how many secrets of which kinds were masked, and --quiet says nothing."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "memstore", *arguments],
            env={**os.environ, "MEMSTORE_DB": str(tmp_path / "m.db")},
            capture_output=True,
            text=True,
            check=True,
        )

    told = run("add", f"use {STRIPE} and {AWS}", "--embedder", "none", "--json")
    assert json.loads(told.stdout)["text"] == f"use {STRIPE} and {AWS}"
    assert told.stderr.startswith("memory 1 holds what has the shape of a Stripe key, stored as it was given.")
    assert "Warning" not in told.stderr
    done = run("export", "--redact")
    assert json.loads(done.stdout)["text"] == "use [masked: Stripe key] and [masked: AWS key]"
    assert done.stderr == "2 secrets were masked (1 AWS key, 1 Stripe key).\n"
    quiet = run("export", str(tmp_path / "out.jsonl"), "--redact", "--quiet", "--json")
    assert (json.loads(quiet.stdout), quiet.stderr) == ({"exported": 1, "masked": 2}, "")

"""Markdown exports: a file a memory, in one folder and nowhere else; and what imports read from where (case B91)."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from memstore import InvalidInputError, MemoryStore, NewMemory, SecretWarning, StorageError, checks, exchange, exporting
from memstore.errors import MemstoreError
from memstore.exporting import file_name

EVIL = [
    *["../../evil", "/tmp/evil", "..\\evil", "CON", "con.md", "NUL", "com1", "a" * 300, "🎉", "🎉 party", "."],
    *["..", "~/.ssh/authorized_keys", "C:\\Windows\\evil", "\\\\server\\share", "a/b", "a\x1b[31mb", "-rf", "--help"],
    *["$(rm -rf .)", "%2e%2e%2f", "naïve façade", "．．／evil", "a\u202egnp.md", "file:///etc/passwd", "a\u2028b", "|"],
]
NAME = re.compile(r"[0-9]{4,}(?:-[a-z0-9]+)*\.md")


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A folder in which exports are made, beside what nothing may touch."""
    made = tmp_path / "around" / "box"
    made.mkdir(parents=True)
    (tmp_path / "around" / "evil").write_text("as it was")
    return made


def everything(folder: Path) -> set[str]:
    return {one.relative_to(folder).as_posix() for one in folder.rglob("*")}


def parts(page: str) -> tuple[dict, str]:
    """Return the front matter of a page, each line of it read as JSON, and the text below."""
    opening, front, text = page.split("---\n", 2)
    assert (opening, text[0], text[-1]) == ("", "\n", "\n")
    fields = dict(line.split(": ", 1) for line in front.splitlines())
    return {name: json.loads(value) for name, value in fields.items()}, text[1:-1]


@pytest.mark.parametrize("wanted", EVIL)
def test_a_name_leads_nowhere_else(words, box, wanted):
    """Whatever a key or a text says, the file's name is plain letters behind the id, and stands in the folder."""
    before = everything(box.parent.parent)
    made = [words.add("keyed", key=wanted), words.add(f"{wanted} and more")]
    assert words.export_markdown(box / "out") == 2
    found = {one.name for one in (box / "out").iterdir()}
    assert len(found) == 2
    for name in found:
        assert NAME.fullmatch(name)
        assert len(name) <= 80
    assert everything(box.parent.parent) - before == {"around/box/out", *(f"around/box/out/{name}" for name in found)}
    assert (box.parent / "evil").read_text() == "as it was"
    pages = [parts((box / "out" / name).read_text(encoding="utf-8")) for name in sorted(found)]
    assert [(fields["id"], text) for fields, text in pages] == [(one.id, one.text) for one in made]
    assert pages[0][0]["key"] == made[0].key


@pytest.mark.parametrize(
    ("memory_id", "said", "name"),
    [
        (12, "Decisão: Stripe", "0012-decisao-stripe.md"),
        (3, "../../evil", "0003-evil.md"),
        (3, "CON", "0003-con.md"),
        (3, "🎉", "0003.md"),
        (3, "Größe ÆØ ﬁn", "0003-grosse-aeo-fin.md"),
        (3, "银行卡 card", "0003-card.md"),
        (7, "one two three four five six seven eight nine ten", "0007-one-two-three-four-five-six-seven-eight.md"),
        (2**62, "x" * 300, f"{2**62}-{'x' * 57}.md"),
    ],
)
def test_a_file_is_named_for_its_memory(memory_id, said, name):
    """A name is the id in four digits or more, and the first words in plain letters, within 80 characters."""
    assert file_name(memory_id, said) == name


def test_a_page_holds_the_fields_and_the_text(words, box):
    """A page is the memory's fields as YAML that is JSON, line by line, and its text as it was given."""
    text = "# A heading\r\n\n---\nfront: no\n---\nlast line\u2028\x85 🎉"
    words.add(
        text,
        key="a: b\n---\nc\x85\u2028",
        author="Ana: Zoë",
        thread="talk #1",
        tags=["x", "ção"],
        metadata={"deep": {"list": [1, 2.5, None, True]}, "n\nm": "é\x7f"},
        created_at="2025-03-31T14:00-03:00",
        entities=["Acme"],
    )
    words.export_markdown(box)
    page = (box / "0001-a-b-c.md").read_bytes().decode("utf-8")
    front = page.split("\n---\n", 1)[0]
    assert front.isprintable() is False
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]", front)
    _, fields, body = page.split("---\n", 2)
    assert body == f"\n{text}\n"
    read = {line.split(": ", 1)[0]: json.loads(line.split(": ", 1)[1]) for line in fields.split("\n") if line}
    assert read == {
        "id": 1,
        "key": "a: b\n---\nc",
        "namespace": "default",
        "author": "Ana: Zoë",
        "thread": "talk #1",
        "position": 0.0,
        "created_at": "2025-03-31T14:00:00-03:00",
        "updated_at": read["updated_at"],
        "tags": ["x", "ção"],
        "metadata": {"deep": {"list": [1, 2.5, None, True]}, "n\nm": "é\x7f"},
        "entities": ["Acme"],
    }


def test_folder_and_files_are_their_owners_alone(words, box):
    """The folder that is made and every file in it can be read by their owner alone, whatever the umask."""
    words.add("private")
    umask = os.umask(0)
    try:
        words.export_markdown(box / "out")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((box / "out").stat().st_mode) == 0o700
    assert [stat.S_IMODE(one.stat().st_mode) for one in (box / "out").iterdir()] == [0o600]


def test_a_folder_that_is_taken_is_refused(words, box, tmp_path):
    """A folder with anything in it, a link, a file, or one whose parent is missing is refused; nothing is written."""
    words.add("text")
    (box / "full").mkdir()
    (box / "full" / "0001-text.md").write_text("mine")
    (box / "file").write_text("mine")
    (box / "target").mkdir()
    (box / "link").symlink_to(box / "target", target_is_directory=True)
    (box / "dangling").symlink_to(tmp_path / "nowhere")
    before = everything(tmp_path)
    for name, why in (
        ("full", "is not empty; name a new folder"),
        ("file", "is a file; name a folder"),
        ("link", "is a link; name the folder itself"),
        ("link/", "is a link"),
        ("dangling", "is a link"),
        ("missing/out", "can't be written: .*No such file"),
        ("a\x00b", "can't be written: "),
    ):
        with pytest.raises(StorageError, match=why):
            words.export_markdown(f"{box}/{name}")
    with pytest.raises(MemstoreError):
        words.export_markdown(b"\xff" if sys.platform == "win32" else 5)
    assert everything(tmp_path) == before
    assert (box / "full" / "0001-text.md").read_text() == "mine"
    assert words.export_markdown(box / "target") == 1


def test_a_file_that_appears_meanwhile_is_not_followed(words, box, tmp_path, monkeypatch):
    """A link that someone puts where a page is to be written is neither followed nor replaced; the export fails."""
    words.add_many([NewMemory(text="first"), NewMemory(text="second")])
    wanted = exchange.markdown_page

    def page(fields):
        if fields["id"] == 2:
            (box / "out" / "0002-second.md").symlink_to(tmp_path / "stolen")
        return wanted(fields)

    monkeypatch.setattr(exchange, "markdown_page", page)
    with pytest.raises(StorageError, match=r"out can't be written: File exists; nothing was exported"):
        words.export_markdown(box / "out")
    assert not (tmp_path / "stolen").exists()
    assert [one.name for one in (box / "out").iterdir()] == ["0002-second.md"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no handles of folders")
def test_a_folder_that_is_exchanged_meanwhile_leads_nowhere_else(words, box, tmp_path, monkeypatch):
    """A folder that is exchanged for a link while an export runs gets no file into the link's target."""
    words.add_many([NewMemory(text="first"), NewMemory(text="second")])
    (tmp_path / "elsewhere").mkdir()
    wanted = exchange.markdown_page

    def page(fields):
        if fields["id"] == 2:
            (box / "out").rename(box / "moved")
            (box / "out").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
        return wanted(fields)

    monkeypatch.setattr(exchange, "markdown_page", page)
    words.export_markdown(box / "out")
    assert everything(tmp_path / "elsewhere") == set()
    assert len(everything(box / "moved")) == 2


def test_an_export_that_fails_leaves_nothing(words, box, monkeypatch):
    """An export that fails half way takes away what it had written and the folder that it had made, and no other."""
    words.add_many([NewMemory(text="first"), NewMemory(text="second")])
    wanted = exchange.markdown_page

    def page(fields):
        if fields["id"] == 2:
            raise OSError(28, "No space left on device")
        return wanted(fields)

    monkeypatch.setattr(exchange, "markdown_page", page)
    for folder in (box / "out", box):
        with pytest.raises(StorageError, match="No space left on device; nothing was exported"):
            words.export_markdown(folder)
    assert everything(box) == set()


def test_what_is_exported(words, box):
    """All memories of a namespace leave, superseded ones too, expired ones not; redacted, names are masked as well."""
    secret = "AKIA" + "Q3EGRIX7WVKT2BNU"
    old = words.add("old")
    words.add("new", replaces=old.id)
    words.add("expired", expires_at="2000-01-01")
    with pytest.warns(SecretWarning):
        words.add(f"{secret} is the key", namespace="work")
    assert words.export_markdown(box / "all") == 3
    assert {one.name for one in (box / "all").iterdir()} == {
        "0001-old.md",
        "0002-new.md",
        f"0004-{secret.lower()}-is-the-key.md",
    }
    counts: dict[str, int] = {}
    assert words.export_markdown(box / "work", namespace="work", redact=True, masked=counts.update) == 1
    (page,) = (box / "work").iterdir()
    assert page.name == "0004-masked-aws-key-is-the-key.md"
    assert secret not in page.read_text(encoding="utf-8")
    assert counts == {"AWS key": 1}
    with pytest.raises(InvalidInputError, match="namespace is empty"):
        words.export_markdown(box / "none", namespace="")
    assert not (box / "none").exists()


def test_json_lines_follow_no_link(words, box, tmp_path):
    """An export to a link is refused, whether its target is there or not, and the target stays as it is."""
    words.add("text")
    (tmp_path / "target").write_text("mine")
    (box / "link").symlink_to(tmp_path / "target")
    (box / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(StorageError, match="exists already; name a new file"):
            words.export(box / name)
    assert (tmp_path / "target").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_links_in_a_folder_are_not_imported(words, box, tmp_path):
    """An import of a folder reads what is in it: neither a link to a file nor one to a folder outside is followed."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "s.md").write_text("# Secret\nno", encoding="utf-8")
    (box / "in.md").write_text("# In\nyes", encoding="utf-8")
    (box / "file.md").symlink_to(tmp_path / "secret" / "s.md")
    (box / "folder").symlink_to(tmp_path / "secret", target_is_directory=True)
    words.import_markdown(box)
    assert [memory.text for memory in words.list()] == ["# In\nyes"]
    # What the user names is meant, be it a link.
    words.import_markdown(box / "file.md")
    assert words.count() == 2


def test_a_file_that_is_too_long_is_refused_unread(words, box, monkeypatch):
    """A file longer than a text may be is refused before it is read, and one without a size as soon as it is seen."""
    monkeypatch.setattr(checks, "LONGEST_TEXT", 1_000)
    (box / "long.md").write_text("# A\n" + "x" * 1_000, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"long\.md has more than 1,000 characters"):
        words.import_markdown(box)
    with open(box / "huge.md", "wb") as sparse:
        sparse.truncate(1 << 40)
    (box / "long.md").unlink()
    with pytest.raises(InvalidInputError, match=r"huge\.md has more than 1,000 characters"):
        words.import_markdown(box)
    if Path("/dev/zero").exists():
        with pytest.raises(InvalidInputError, match="more than 1,000 characters"):
            exchange.read_text(Path("/dev/zero"))
    assert words.count() == 0


def test_a_line_that_is_too_long_is_refused(words, box, monkeypatch):
    """A line of JSON longer than any memory's is refused before it is parsed or read whole; nothing is stored."""
    monkeypatch.setattr(exchange, "LONGEST_LINE", 1_000)
    lines = [json.dumps({"text": "short"}), json.dumps({"text": "x" * 1_000})]
    with pytest.raises(InvalidInputError, match="line 2: it has more than 1,000 characters"):
        words.import_jsonl(lines)
    (box / "long.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert [len(line) for line in exchange.lines_of(box / "long.jsonl")] == [18, 1_001, 11]
    with pytest.raises(InvalidInputError, match="line 2: it has more than 1,000 characters"):
        words.import_jsonl(exchange.lines_of(box / "long.jsonl"))
    assert words.count() == 0


def test_the_longest_memory_fits_into_a_line():
    """A memory with every field at its longest, of characters that JSON writes as six, is a line that is read."""
    fields = checks.LONGEST_TEXT + checks.LARGEST_METADATA + checks.LONGEST_KEY + 10 * checks.LONGEST_NAME
    assert 6 * (fields + 2 * checks.MOST_TAGS * (checks.LONGEST_NAME + 4)) < exchange.LONGEST_LINE


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"text": "a", "metadata": ' + '{"a": ' * 100_000 + "1" + "}" * 100_001, "nested too deep to be read"),
        ("[" * 1_000_000, "nested too deep to be read"),
        ('{"text": "a", "metadata": ' + '{"a": ' * 102 + "1" + "}" * 103, "nested deeper than 100 levels"),
        ('{"text": "a", "__class__": "os.system"}', "the field '__class__' is unknown"),
        ('{"text": {"$ref": "x"}}', "text is dict, not str"),
        ('{"text": "a", "metadata": {"n": ' + "9" * 10_000 + "}}", "this is not JSON"),
        ('{"text": "a", "metadata": {"n": NaN}}', "which JSON can't hold"),
    ],
    ids=["object", "list", "metadata", "class", "reference", "digits", "nan"],
)
def test_an_imported_line_is_data(words, line, why):
    """A line that is nested without end, names a class, or holds what JSON can't, is one clear error."""
    with pytest.raises(InvalidInputError, match=f"line 2: .*{why}"):
        words.import_jsonl(['{"text": "good"}', line])
    assert words.count() == 0


def test_on_the_command_line(tmp_path):
    """export FOLDER --format markdown writes a file a memory; without a folder it is wrong usage."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "memstore", *arguments, "--db", str(tmp_path / "m.db")],
            capture_output=True,
            text=True,
            check=False,
        )

    with MemoryStore(tmp_path / "m.db", embedder="none") as store:
        store.add_many([NewMemory(text="Decisão: Stripe"), NewMemory(text="other", namespace="work")])
    folder = tmp_path / "out"
    assert (
        run("export", str(folder), "--format", "markdown", "-n", "default").stdout == f"1 memory written to {folder}\n"
    )
    assert [one.name for one in folder.iterdir()] == ["0001-decisao-stripe.md"]
    again = run("export", str(folder), "--format", "markdown")
    assert (again.returncode, again.stdout) == (1, "")
    assert "is not empty; name a new folder" in again.stderr
    assert run("export", "--format", "markdown").returncode == 2


def test_without_handles_of_folders_the_same_is_written(words, box, monkeypatch):
    """Where the system has no handles of folders (Windows), the same files are written by their paths."""
    words.add_many([NewMemory(text="first"), NewMemory(text="second")])
    monkeypatch.setattr(exporting.os, "supports_dir_fd", frozenset())
    assert words.export_markdown(box / "out") == 2
    assert {one.name for one in (box / "out").iterdir()} == {"0001-first.md", "0002-second.md"}

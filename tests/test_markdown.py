"""Markdown files and folders as memories, one a section."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memstore import InvalidInputError, MemoryStore, NotFoundError
from memstore.exchange import sections

NOTES = """---
title: notes
---
Before any heading.

# Payments
Stripe is the main one.

## Errors
ERR-4018: the card has expired.

```
# not a heading
```

Other
-----
Set in the old way.

## Errors
The same heading again.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "vault"
    (made / "sub").mkdir(parents=True)
    (made / ".hidden").mkdir()
    (made / "notes.md").write_text(NOTES, encoding="utf-8")
    (made / "sub" / "café.md").write_text("\ufeff# Café\nabre às oito\n", encoding="utf-8")
    (made / ".hidden" / "secret.md").write_text("# Secret\nno\n", encoding="utf-8")
    (made / "picture.png").write_bytes(b"\x89PNG")
    return made


def keys(store: MemoryStore) -> list[str | None]:
    return [memory.key for memory in store.list(order="thread", limit=100)]


def test_each_section_is_a_memory_under_path_and_heading(words, folder):
    """A section is one memory, the file its thread, path#heading its key, in the order of the file."""
    report = words.import_markdown(folder)
    assert report.added == 6
    assert keys(words) == [
        "notes.md",
        "notes.md#Payments",
        "notes.md#Errors",
        "notes.md#Other",
        "notes.md#Errors-2",
        "sub/café.md#Café",
    ]
    errors = words.get(key="notes.md#Errors")
    assert errors.thread == "notes.md"
    assert errors.text == "## Errors\nERR-4018: the card has expired.\n\n```\n# not a heading\n```"


def test_importing_an_edited_folder_changes_what_changed(words, folder):
    """A second import touches only what was edited, and adds what is new."""
    words.import_markdown(folder)
    before = words.get(key="notes.md#Payments")
    edited = NOTES.replace("Stripe is the main one.", "PagBank is the main one.") + "\n# New\nhere\n"
    (folder / "notes.md").write_text(edited, encoding="utf-8")
    report = words.import_markdown(folder)
    assert (report.added, report.updated, report.unchanged) == (1, 1, 5)
    assert words.get(key="notes.md#Payments").id == before.id
    assert words.search("PagBank")[0].memory.id == before.id
    assert not words.search("Stripe")


def test_tags_given_to_a_section_survive_the_next_import(words, folder):
    """What the user added to an imported memory stays when it is imported again."""
    words.import_markdown(folder)
    words.update(words.get(key="notes.md#Payments").id, tags=["mine"])
    words.import_markdown(folder)
    assert words.get(key="notes.md#Payments").tags == ("mine",)


def test_pruning_says_what_is_gone_and_deletes_it_when_told(words, folder):
    """Pruning names what an earlier import brought and is gone; nothing else is touched."""
    words.add("mine", key="notes.md#Mine", thread="notes.md")
    words.import_markdown(folder)
    (folder / "sub" / "café.md").unlink()
    asked = []
    report = words.import_markdown(folder, prune=lambda gone: bool(asked.extend(gone)))
    assert ([memory.key for memory in asked], report.removed) == (["sub/café.md#Café"], 0)
    assert words.import_markdown(folder, prune=lambda _: True).removed == 1
    assert "sub/café.md#Café" not in keys(words)
    assert "notes.md#Mine" in keys(words)


def test_a_file_that_is_not_text_stores_nothing(words, folder):
    """One file that is not UTF-8 is named, and nothing of the folder is stored."""
    (folder / "z.md").write_bytes(b"\xff\xfe# broken")
    with pytest.raises(InvalidInputError, match=r"z\.md is not UTF-8"):
        words.import_markdown(folder)
    assert words.count() == 0
    with pytest.raises(NotFoundError, match="does not exist"):
        words.import_markdown(folder / "nowhere")


def test_a_heading_inside_a_quote_or_list_is_no_section():
    """Only headings of the file itself part it."""
    text = "# A\n> # quoted\n\n- # listed\n"
    assert [section.key for section in sections(text, "f.md", namespace="n", imported_from="f.md")] == ["f.md#A"]


def test_the_command_asks_before_it_prunes(folder, tmp_path):
    """Without --yes and without a terminal, --prune only says what is gone."""

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "memstore", "import", str(folder), "--db", str(tmp_path / "m.db"), *options]
        return subprocess.run(
            [*command, "--embedder", "none"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
        )

    assert run().stdout == "6 added, 0 changed, 0 as they were\n"
    (folder / "notes.md").unlink()
    told = run("--prune")
    assert told.stdout == "0 added, 0 changed, 1 as they were, 0 deleted\n"
    assert "gone: [1] notes.md\n" in told.stderr
    assert run("--prune", "--yes").stdout == "0 added, 0 changed, 1 as they were, 5 deleted\n"


def test_two_folders_never_touch_each_other(words, tmp_path):
    """A folder of the same name elsewhere is refused where it would overwrite, and prunes nothing of the other."""
    for place, text in (("work", "# A\nwork\n# W\nonly at work\n"), ("home", "# A\nhome\n")):
        (tmp_path / place / "notes").mkdir(parents=True)
        (tmp_path / place / "notes" / "i.md").write_text(text, encoding="utf-8")
    words.import_markdown(tmp_path / "work" / "notes")
    with pytest.raises(InvalidInputError, match="was imported from"):
        words.import_markdown(tmp_path / "home" / "notes", prune=lambda _: True)
    assert words.get(key="i.md#A").text == "# A\nwork"
    words.import_markdown(tmp_path / "home" / "notes", namespace="home", prune=lambda _: True)
    assert words.count() == 3


def test_a_folder_that_was_moved_goes_on(words, folder, tmp_path):
    """A folder that was moved is the same import: it changes and prunes what the old place brought."""
    words.import_markdown(folder)
    moved = tmp_path / "elsewhere" / "vault"
    moved.parent.mkdir()
    folder.rename(moved)
    (moved / "sub" / "café.md").unlink()
    assert words.import_markdown(moved, prune=lambda _: True).removed == 1


def test_one_file_of_an_imported_folder_still_belongs_to_it(words, folder):
    """Importing one file of a folder again changes its sections and leaves them to the folder's next pruning."""
    words.import_markdown(folder)
    (folder / "notes.md").write_text("# Payments\nPagBank now.\n", encoding="utf-8")
    assert words.import_markdown(folder / "notes.md").updated == 1
    (folder / "notes.md").unlink()
    assert words.import_markdown(folder, prune=lambda _: True).removed == 5


def test_a_file_imported_before_its_folder_belongs_to_the_folder_then(words, folder):
    """A folder takes over the sections of a file of its that was imported alone, and prunes them when they are gone."""
    words.import_markdown(folder / "notes.md")
    words.import_markdown(folder)
    (folder / "notes.md").unlink()
    assert words.import_markdown(folder, prune=lambda _: True).removed == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A\none\n# A\ntwo\n# A-2\nthree\n", {"f#A": "one", "f#A-2": "two", "f#A-2-2": "three"}),
        ("# caf\u00e9\none\n# cafe\u0301\ntwo\n", {"f#café": "one", "f#café-2": "two"}),
        ("# A\nfoo\x0cbar\nlast\n# B\nbaz\n", {"f#A": "foo\x0cbar\nlast", "f#B": "baz"}),
        ("# A\r\none\r\n\r\n# B\r\ntwo\r\n", {"f#A": "one", "f#B": "two"}),
        ("# A\nx\u2028y\n# B\nz\n", {"f#A": "x\u2028y", "f#B": "z"}),
    ],
)
def test_no_section_is_lost_or_cut_elsewhere(text, expected):
    """Every section has a key of its own and the lines that stand below its heading."""
    found = sections(text, "f", namespace="n", imported_from="f")
    assert {section.key: section.text.partition("\n")[2] for section in found} == expected


def test_a_folder_that_cannot_be_read_is_no_empty_one(words, folder, monkeypatch):
    """A folder that can't be read stops the import, so that nothing in it is taken for gone."""
    words.import_markdown(folder)
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InvalidInputError, match="sub can't be read"):
        words.import_markdown(folder, prune=lambda _: True)
    assert words.get(key="sub/café.md#Café") is not None

"""What the commands that measure share: tables that fit, sentences, and the page that they write."""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from memstore import render
from memstore.errors import InvalidInputError

_PAGE_BEGINS = b"<!doctype html"


def fitting(
    header: Sequence[str], rows: Sequence[Sequence[str]], least: Iterable[str]
) -> tuple[list[str], list[list[str]]]:
    """Return a table without the columns that say least, where a terminal has no room for them beside the names."""
    kept = list(range(len(header)))
    if sys.stdout is not None and sys.stdout.isatty():
        widths = [max(map(len, column)) + 1 for column in zip(header, *rows, strict=True)]
        for name in least:
            if sum(widths[index] for index in kept) <= shutil.get_terminal_size().columns:
                break
            kept = [index for index in kept if header[index] != name]
    return [header[index] for index in kept], [[row[index] for index in kept] for row in rows]


def say(text: str) -> None:
    """Print a sentence or several, fitted to the terminal there."""
    for line in render.paragraph(text):
        click.echo(line)


def check_page(page: Path) -> None:
    """Refuse before all questions are asked a page that can't be drawn or written, or would replace another file."""
    from memstore.evaluation import plots

    plots.require()
    if page.is_dir():
        raise InvalidInputError(f"--html is the folder {page}; name a file in it.")
    if not page.absolute().parent.is_dir():
        raise InvalidInputError(f"--html: the folder {page.absolute().parent} does not exist; make it first.")
    if not os.access(page if page.exists() else page.absolute().parent, os.W_OK):
        raise InvalidInputError(f"--html: {page} can't be written; name a file in a folder that can.")
    if page.exists():
        with open(page, "rb") as file:
            start = file.read(len(_PAGE_BEGINS))
        if start and start.lower() != _PAGE_BEGINS:
            raise InvalidInputError(f"--html is {page}, which is there and no HTML page; name another file.")

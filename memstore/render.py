"""Records as what a person or a program reads: lines, tables, JSON."""

import dataclasses
import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import PurePath
from typing import Any

from memstore import checks
from memstore.analysis import Analysis
from memstore.cleaning import plain as plain
from memstore.records import Context, Memory, SearchResult, Stats

_LONGEST_SNIPPET = 280
_ONLY_WHEN_KNOWN = ("outcome", "mentions", "half_life")


def one_line(text: str) -> str:
    """Return a text on one line, without control characters."""
    return " ".join(plain(text).split())


def snippet(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = one_line(text)
    if len(line) <= _LONGEST_SNIPPET:
        return line
    cut = line[:_LONGEST_SNIPPET]
    # At a word's end, where there is one near; text without spaces is cut where it is.
    return (cut[: cut.rfind(" ")] if cut.rfind(" ") > _LONGEST_SNIPPET // 2 else cut) + " …"


def duration(seconds: float) -> str:
    """Return a time as a person says it."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def day(memory: Memory) -> str:
    """Return the date of a memory where this machine is."""
    return checks.here(memory.created_at).date().isoformat()


def has_zone(value: str) -> bool:
    """Say whether an ISO 8601 time names its zone; what is no time is left to the check that follows."""
    try:
        return datetime.fromisoformat(value.strip()).tzinfo is not None
    except ValueError:
        return True


def listing(found: Sequence[Memory], *, changed: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows that list memories, by the date of each or of its last change.

    A column that says nothing is left out on a terminal.
    """
    header = ["id", "changed" if changed else "date", "namespace", "author", "text"]
    rows = [
        [
            str(one.id),
            f"{checks.here(one.updated_at):%Y-%m-%d %H:%M}" if changed else day(one),
            one.namespace,
            one.author or "",
            " ".join([*(f"[{said}]" for said in _replaced(one)), one_line(one.text)]),
        ]
        for one in found
    ]
    if not _on_terminal():
        return header, rows
    told = [
        index for index, name in enumerate(header) if name == "text" or {row[index] for row in rows} - {"default", ""}
    ]
    return [header[index] for index in told], [[row[index] for index in told] for row in rows]


def hits(found: SearchResult, *, explain: bool) -> Iterator[str]:
    """Yield the lines that show an answer to a person."""
    if not found:
        best = f": the best of what there is has relevance {found.relevance:.2f}" if found.withheld else ""
        yield f"nothing found{best}"
    for hit in found:
        text = hit.passage.text if hit.passage is not None else hit.memory.text
        yield from _wrapped(f"{hit.rank}. {hit.score:.2f}  {snippet(text)}", "   ")
        yield "   " + "  ".join(_about(hit.memory))
        if explain:
            yield from (f"   {plain(line)}" for line in hit.explain().splitlines())


def paragraph(text: str) -> Iterator[str]:
    """Yield the lines of a sentence or several, fitted to the terminal there, one line through a pipe."""
    yield from _wrapped(one_line(text), "")


def card(memory: Memory) -> Iterator[str]:
    """Yield the lines that show one memory whole."""
    yield plain(memory.text)
    yield ""
    yield "  ".join(_about(memory))
    if memory.thread is not None:
        yield _cell(f"thread {memory.thread}, position {memory.position:g}")
    for name, moment in (("created", memory.created_at), ("changed", memory.updated_at)):
        yield f"{name} {checks.here(moment):%Y-%m-%d %H:%M %z}"
    if memory.expires_at is not None:
        yield f"expires {checks.here(memory.expires_at):%Y-%m-%d %H:%M %z}"
    if memory.replaces is not None:
        yield f"replaces {memory.replaces}"
    if memory.used_at is not None:
        times = "once" if memory.uses == 1 else f"{memory.uses:,} times, last"
        yield f"used {times} {checks.here(memory.used_at):%Y-%m-%d %H:%M %z}"
    if memory.language is not None:
        yield f"language {memory.language}"
    if memory.entities:
        yield _cell("mentions " + ", ".join(one.name for one in memory.entities))
    for name, value in memory.metadata.items():
        yield _cell(f"{name}: {json.dumps(value, ensure_ascii=False)}")


def table(header: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> None:
    """Print a table: fitted to the terminal there, one whole line a row through a pipe."""
    if not _on_terminal():
        for row in rows:
            print("\t".join(map(_cell, row)))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    shown = Table(*(header or [""] * len(rows[0])), box=None, show_header=header is not None, pad_edge=False)
    # What is short stays whole on a narrow terminal: only the last column gives way.
    for column in shown.columns[:-1]:
        column.no_wrap = True
    for row in rows:
        cells = [Text(_cell(cell)) for cell in row]
        if header is not None:
            cells[-1].no_wrap, cells[-1].overflow = True, "ellipsis"
        shown.add_row(*cells)
    Console().print(shown)


def stats(found: Stats) -> list[list[str]]:
    """Return the rows that show what a store holds."""
    rows = [
        ["file", found.path],
        ["size", f"{found.size_bytes:,} bytes"],
        ["memories", f"{found.memories:,}"],
        *[[f"  in {name}", f"{number:,}"] for name, number in found.namespaces.items()],
        ["expired", f"{found.expired:,}"],
        ["passages", f"{found.passages:,}"],
        ["pending", f"{found.pending:,} vectors"],
        ["stale", f"{found.stale:,} memories"],
        ["entities", f"{found.entities:,}"],
        ["languages", ", ".join(found.languages)],
        ["embedder", found.embedder],
    ]
    for space in found.spaces:
        counts = f"{space.vectors:,} vectors, {space.pending:,} pending, {space.refused:,} refused"
        searched = "" if space.default else ", asked only by name"
        rows.append(["space", f"{space.name}: {space.dimensions} dimensions, {space.state}{searched}, {counts}"])
    return [*rows, ["schema", f"{found.schema} (SQLite {found.sqlite})"]]


def analysis(found: Analysis) -> list[list[str]]:
    """Return the rows that show how a text becomes terms."""
    rows = [["languages", " ".join(found.languages)], ["words", " ".join(found.words)]]
    rows += [["stop words", " ".join(found.stop_words)], ["kept", " ".join(found.kept)]]
    for title, stems in (("Snowball", found.snowball), ("stems", found.stems)):
        rows += [[f"{title} ({language})", " ".join(listed)] for language, listed in stems.items()]
    rows += [["codes", " ".join(found.codes)], ["as a memory", " ".join(found.terms)]]
    return [
        *rows,
        *(["as a query" if not n else "", f"{one.word}: {' '.join(one.terms)}"] for n, one in enumerate(found.query)),
    ]


def result(found: SearchResult) -> dict[str, Any]:
    """Return an answer as JSON holds it."""
    return {
        "query": found.query,
        "used": list(found.used),
        "skipped": dict(found.skipped),
        "spaces": list(found.spaces),
        "pending": found.pending,
        "relevance": found.relevance,
        "uncertain": found.uncertain,
        "withheld": found.withheld,
        "notices": list(found.notices),
        "timings": {stage: round(spent, 3) for stage, spent in found.timings.items()},
        "hits": [record(hit) for hit in found],
    }


def context(found: Context) -> dict[str, Any]:
    """Return a block for a prompt as JSON holds it, with the search behind it, whose hits are among the items."""
    search = {name: value for name, value in result(found.found).items() if name not in ("query", "hits")}
    fields = (
        "query",
        "text",
        "format",
        "tokens",
        "max_tokens",
        "needed",
        "tokeniser",
        "items",
        "duplicates",
        "left_out",
    )
    block = {name: record(getattr(found, name)) for name in fields}
    return block | {"relevance": found.found.relevance, "uncertain": found.found.uncertain, "search": search}


def record(value: Any) -> Any:
    """Return a record as JSON holds it: times as ISO 8601, tuples as lists, paths as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = {field.name: record(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {name: one for name, one in shown.items() if one is not None or name not in _ONLY_WHEN_KNOWN}
    if isinstance(value, Mapping):
        return {str(name): record(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [record(one) for one in value]
    if isinstance(value, PurePath):
        return str(value)
    return value.isoformat() if isinstance(value, date | datetime) else value


def _cell(text: str) -> str:
    """Return a text as it stands in one line of several parts: without controls, a blank for each line end and tab."""
    return plain(text).replace("\n", " ").replace("\t", " ")


def _about(memory: Memory) -> Iterator[str]:
    yield f"[{memory.id}]"
    yield day(memory)
    if memory.namespace != "default":
        yield _cell(memory.namespace)
    for name in (memory.key, memory.author):
        if name is not None:
            yield _cell(name)
    yield from (f"#{_cell(tag)}" for tag in memory.tags)
    if memory.pinned:
        yield "pinned"
    yield from _replaced(memory)


def _replaced(memory: Memory) -> list[str]:
    by = ", ".join(str(one) for one in memory.replaced_by)
    return [f"replaced by {by}"] if by else []


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _wrapped(line: str, indent: str) -> list[str]:
    if not _on_terminal():
        return [line]
    width = max(20, shutil.get_terminal_size().columns)
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)

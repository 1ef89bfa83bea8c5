"""Memories and threads as resources: `memory://ID` and `thread://NAME`, the name percent-encoded."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from memstore.errors import NotFoundError
from memstore.mcp import answers
from memstore.mcp.calls import Desk
from memstore.records import Memory

TEXT = "text/plain"
_MEMORY, _THREAD = "memory://", "thread://"
TEMPLATES: tuple[Mapping[str, str], ...] = (
    {
        "uriTemplate": f"{_MEMORY}{{id}}",
        "name": "memory",
        "title": "One memory",
        "description": "A memory by its id, whole up to 50,000 characters.",
        "mimeType": TEXT,
    },
    {
        "uriTemplate": f"{_THREAD}{{thread}}",
        "name": "thread",
        "title": "One thread",
        "description": "The first 100 memories of a conversation or document, in its order; the name percent-encoded.",
        "mimeType": TEXT,
    },
)
# The newest of each are listed; all others are had by their template.
_LISTED_MEMORIES, _LISTED_THREADS, _LOOKED_THROUGH = 20, 10, 100
_LONGEST_TITLE = 80
_LONGEST_READ, _LONGEST_THREAD = 50_000, 100


def listed(desk: Desk) -> list[dict[str, Any]]:
    """Return the newest memories and threads as the protocol lists resources."""
    newest = desk.store.list(limit=_LOOKED_THROUGH, namespace=desk.options.namespace)
    threads = list(dict.fromkeys(one.thread for one in newest if one.thread is not None))[:_LISTED_THREADS]
    return [
        *(_thread(name) for name in threads),
        *(_resource(one) for one in newest[:_LISTED_MEMORIES]),
    ]


def read(desk: Desk, uri: str) -> str:
    """Return what a resource holds, as fenced text; raise `NotFoundError` where there is none."""
    if uri.startswith(_MEMORY):
        number = uri.removeprefix(_MEMORY).strip("/")
        # Longer numbers than any id are none, whatever a database makes of them.
        if number.isascii() and number.isdecimal() and len(number) < 16:
            return answers.read(desk.own(int(number)), 0, _LONGEST_READ).text
        raise NotFoundError(f"there is no memory {answers.name(number)!r}; the id is a whole number.")
    if uri.startswith(_THREAD):
        name = unquote(uri.removeprefix(_THREAD).rstrip("/"))
        filters: dict[str, Any] = {"namespace": desk.options.namespace, "thread": name}
        there = desk.store.list(limit=_LONGEST_THREAD, order="thread", **filters) if name.strip() else []
        if there:
            return answers.listed(there, desk.store.count(**filters), 0).text
        raise NotFoundError(f"there is no thread {answers.name(name)!r}.")
    raise NotFoundError(f"{answers.name(uri)!r} is no resource; they are {_MEMORY}ID and {_THREAD}NAME.")


def _resource(memory: Memory) -> dict[str, Any]:
    line = answers.name(memory.text[: 4 * _LONGEST_TITLE])
    title = line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 1]}…"
    uri = f"{_MEMORY}{memory.id}"
    return {"uri": uri, "name": f"memory {memory.id}", "title": title or f"memory {memory.id}", "mimeType": TEXT}


def _thread(name: str) -> dict[str, Any]:
    shown = answers.name(name)
    return {"uri": f"{_THREAD}{quote(name, safe='')}", "name": f"thread {shown}", "title": shown, "mimeType": TEXT}

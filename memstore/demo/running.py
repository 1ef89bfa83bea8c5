"""`memstore demo`: the main job on real text, offline."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from memstore.database import Key
from memstore.demo.notes import NOTES, QUESTIONS
from memstore.records import NewMemory
from memstore.render import hits
from memstore.store import MemoryStore, Progress


def run(
    path: Path | None,
    *,
    embedder: str = "auto",
    key: Key | None = None,
    all_topics: bool = False,
    progress: Progress | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Store the notes and Python's own language reference, ask each question, and say what was found and why."""
    if path is not None:
        _run(path, embedder, key, all_topics, progress, say)
        return
    with tempfile.TemporaryDirectory(prefix="memstore-") as folder:
        _run(Path(folder) / "demo.db", embedder, key, all_topics, progress, say)


def topics(*, all_topics: bool) -> list[NewMemory]:
    """Return the topics of the language reference that every CPython carries: the shorter half, or all."""
    from pydoc_data.topics import topics as texts

    chosen = sorted(texts.items(), key=lambda item: (len(item[1]), item[0]))
    if not all_topics:
        chosen = chosen[: len(chosen) // 2]
    return [NewMemory(text=text, key=name, namespace="python", language="en") for name, text in chosen if text.strip()]


def _run(
    path: Path,
    embedder: str,
    key: Key | None,
    all_topics: bool,
    progress: Progress | None,
    say: Callable[[str], None],
) -> None:
    start = time.perf_counter()
    with MemoryStore(path, embedder=embedder, key=key) as store:
        store.add_many([*NOTES, *topics(all_topics=all_topics)], progress=progress)
        held = store.stats()
        say(
            f"{held.memories} memories in {held.passages} passages, {held.entities} names,"
            f" {held.size_bytes / 1e6:.1f} MB in one file, {time.perf_counter() - start:.1f} s"
        )
        say(f"embedder: {held.embedder}")
        start = time.perf_counter()
        for kind, question in QUESTIONS:
            found = store.search(question, k=2)
            say("")
            say(f"? {question}   ({kind})")
            for line in hits(found, explain=True):
                say(line)
            for signal, reason in found.skipped.items():
                say(f"   {signal} took no part: {reason}")
        say("")
        say(f"{len(QUESTIONS)} questions in {1000 * (time.perf_counter() - start):.0f} ms")

"""The salvage of a file: read aside, judged, written anew, verified, named."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path

from memstore.checks import flag, now
from memstore.database import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    Key,
    bare,
    checked_path,
    copy_aside,
    is_sound,
    linked_to,
    new_file,
    require_file,
    secret,
)
from memstore.entities import Recogniser
from memstore.errors import DamagedStoreError, EncryptionError, NewerSchemaError, NotAStoreError
from memstore.health import Finding, Salvaged
from memstore.salvaging import shapes
from memstore.salvaging.believing import Believed, believe
from memstore.salvaging.judging import SALVAGED, UNVERIFIED
from memstore.salvaging.log import Log, read_log
from memstore.salvaging.pages import MAGIC, Pages
from memstore.salvaging.rebuilding import rebuild, verify
from memstore.salvaging.sources import PageSource, Source, SQLSource

_SHOWN = 10
_NAMED = 100


def salvage(
    path: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    include_uncertain: bool = False,
    key: Key | None = None,
    recogniser: Recogniser | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Salvaged:
    """Recover into the new file `destination` what can be read of a damaged one, which is not changed.

    A file is read by SQLite where that finds nothing wrong with its pages, else page by page: its header, its schema
    and the upper pages of its tables may be gone. Each memory is checked against the hash that was kept of it. One
    that does not fit is kept as far as it can be, and named in `unverified`; its metadata then has `salvaged`:
    `unverified`. What was deleted is not brought back: where it can't be told whether a memory was, it is named in
    `uncertain` and left out, unless `include_uncertain` is said. Indexes are made anew, and vectors that fit the hash
    kept of them are taken over; passages without one wait for `spaces.fill`. A `recogniser` finds entities as that of
    `MemoryStore` does. An encrypted file needs its `key`, which the new file gets too; it is read by SQLite alone.

    The new file has its name only when it is whole and has been read back. Raises `StorageError` when the name is
    taken, `NotAStoreError` on a file of another kind, `NewerSchemaError` on one of a later memstore, `EncryptionError`
    for a key that this driver or the file has no use for, `BusyError` while the file is being written,
    `DamagedStoreError` when nothing can be read.
    """
    began = time.monotonic()
    wanted, own_key = flag("include_uncertain", include_uncertain), secret(key)
    original = linked_to(checked_path(path))
    require_file(original, may_create=False)
    with new_file(destination) as made:
        copy = copy_aside(original, made.parent)
        if not copy.stat().st_size:
            raise NotAStoreError(f"{original} is empty: there is nothing to read.")
        if own_key is not None and _begins(copy, MAGIC):
            raise EncryptionError(f"{original} is not encrypted, and a key was given; leave the key out.")
        with _read(original, copy, own_key, include_uncertain=wanted) as (source, believed, log):
            vectors, pending, refused = rebuild(made, believed, source, own_key, recogniser, progress)
        verify(made, believed, own_key)
    return Salvaged(
        path=checked_path(destination),
        memories=len(believed.memories),
        unverified=tuple(kept.row.id or 0 for kept in believed.memories if not kept.verified),
        lost=believed.lost,
        perhaps_lost=believed.perhaps_lost,
        uncertain=believed.uncertain,
        expired=believed.expired,
        vectors=vectors,
        pending=pending,
        findings=tuple(_findings(believed, log, pending, refused, included=wanted)),
        seconds=time.monotonic() - began,
    )


def _begins(path: Path, mark: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read(len(mark)) == mark


@contextmanager
def _read(
    original: Path, copy: Path, key: bytes | None, *, include_uncertain: bool
) -> Iterator[tuple[Source, Believed, Log]]:
    """Hand out what a copy is read by, what it holds, and what its log does."""
    beside = copy.with_name(f"{copy.name}-wal")
    log = read_log(beside.read_bytes()) if beside.exists() else Log()
    with bare(copy, key) as conn, open(copy, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        pages = Pages(content, log) if key is None else Pages(b"", Log())
        source: Source = SQLSource(conn)
        if pages.size and not is_sound(conn):
            source = PageSource(pages)
        believed = believe(source, now(), include_uncertain=include_uncertain)
        partly = bool(believed.broken or believed.lost) or shapes.MEMORIES.name in source.broken
        if isinstance(source, SQLSource) and pages.size and partly:
            source = PageSource(pages)
            believed = believe(source, now(), include_uncertain=include_uncertain)
        # The mark itself may be damaged; a memory that fits its hash is one of ours.
        foreign = pages.application_id not in (None, APPLICATION_ID)
        if foreign and not any(kept.verified for kept in believed.memories):
            raise NotAStoreError(f"{original} is a SQLite file of another program; name another file.")
        if believed.schema is not None and believed.schema > SCHEMA_VERSION:
            raise NewerSchemaError(
                f"{original} has schema {believed.schema} and this memstore knows schemas up to {SCHEMA_VERSION};"
                " upgrade memstore. The file was not changed."
            )
        if not believed.memories and shapes.MEMORIES.name in source.broken:
            raise DamagedStoreError(
                f"no memory can be read of {original}, and no file was made; it is no memstore file, is encrypted, or"
                " has lost them all: restore a backup."
                if not believed.uncertain
                else f"of {original} only memories can be read that may have been deleted, {len(believed.uncertain)} of"
                " them, and no file was made; say include_uncertain=True (--include-uncertain) to take them."
            )
        yield source, believed, log


def _findings(
    believed: Believed, log: Log, pending: int, refused: Sequence[str], *, included: bool
) -> Iterator[Finding]:
    unverified = tuple(kept.row.id or 0 for kept in believed.memories if not kept.verified)
    if unverified:
        yield _damage(
            f"{_memories(unverified)} not as stored, or without some of the tags; kept, with the metadata"
            f' {{"{SALVAGED}": "{UNVERIFIED}"}}',
            unverified,
            "read them, or restore them from a backup",
        )
    if believed.lost:
        yield _damage(f"{_memories(believed.lost)} lost", believed.lost, "restore them from a backup")
    if believed.perhaps_lost:
        yield _damage(
            f"{believed.perhaps_lost} more ids are of memories that are lost or had been deleted, and it can't be told"
            " which",
            count=believed.perhaps_lost,
        )
    if believed.uncertain:
        yield _damage(
            f"{_memories(believed.uncertain)} perhaps of before, deleted or expired since, and"
            f" {'taken all the same' if included else 'left out'}",
            believed.uncertain,
            "" if included else "include_uncertain=True (--include-uncertain) takes them",
        )
    for what in (*believed.broken, *refused):
        yield _damage(f"{what} could not all be read", part="file")
    if log.unreadable:
        yield _damage("the write-ahead log can't be read; the last writes are lost, if it held any", part="file")
    if log.lost:
        yield _damage(f"{log.lost} pages of the write-ahead log are damaged; its last writes are lost", part="file")
    if log.unfinished:
        yield _notice(f"{log.unfinished} pages of a write that was not finished were left out", part="file")
    if believed.expired:
        yield _notice(f"{believed.expired} memories have expired and were left out", part="memories")
    if pending:
        yield _notice(
            f"{pending} passages wait for a vector", part="vectors", remedy="memstore embedders fill makes them"
        )


def _memories(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:_SHOWN])) + (", …" if len(ids) > _SHOWN else "")
    return f"memory {shown} is" if len(ids) == 1 else f"{len(ids)} memories ({shown}) are"


def _damage(
    sentence: str, ids: Sequence[int] = (), remedy: str = "", *, part: str = "memories", count: int = 0
) -> Finding:
    return Finding(
        part=part,
        severity="damage",
        sentence=sentence,
        count=count or len(ids),
        memories=tuple(ids[:_NAMED]),
        remedy=remedy,
    )


def _notice(sentence: str, *, part: str, remedy: str = "") -> Finding:
    return Finding(part=part, severity="notice", sentence=sentence, remedy=remedy)

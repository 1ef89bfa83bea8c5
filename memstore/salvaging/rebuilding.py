"""The new file: what is believed of a damaged one, written by the code that writes any memory."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import apsw

from memstore import entities, keyword, memories, semantic
from memstore.analysis import Analyser
from memstore.database import Database, is_sound
from memstore.entities import Recogniser
from memstore.errors import DamagedStoreError, InvalidInputError
from memstore.filling import Filler
from memstore.lexicon import Lexicon
from memstore.maintenance import summary
from memstore.planning import Plan, Write
from memstore.salvaging.believing import Believed, Kept
from memstore.salvaging.refilling import refill
from memstore.salvaging.sources import Source
from memstore.serving import Serving
from memstore.store import MemoryStore
from memstore.writing import Writer

_BATCH = 500


def rebuild(
    path: Path,
    believed: Believed,
    source: Source,
    key: bytes | None,
    recogniser: Recogniser | None,
    progress: Callable[[int, int], None] | None,
) -> tuple[int, int, list[str]]:
    """Make the file; return how many vectors it has, how many passages wait for one, and what was refused, in words."""
    with MemoryStore(path, embedder="none", languages=believed.languages, key=key, recogniser=recogniser) as store:
        refused = _teach(store, believed)
    database = Database(path, key=key)
    try:
        _write(database, believed, recogniser, progress)
        if database.vectors_unavailable is not None:
            return 0, 0, [*refused, *(["the embedding spaces"] if believed.spaces else [])]
        for kept in believed.spaces:
            refill(database, kept, source)
        with database.write() as conn:
            semantic.set_searched(conn, [kept.space.name for kept in believed.spaces if kept.space.searched])
        with database.read() as conn:
            counts = [semantic.counts(conn, space) for space in semantic.spaces(conn)]
        return sum(vectors for vectors, _, _ in counts), sum(pending for _, pending, _ in counts), refused
    finally:
        database.close()


def verify(path: Path, believed: Believed, key: bytes | None) -> None:
    """Raise `DamagedStoreError` unless a new file holds what was to be written to it, and nothing else."""
    database = Database(path, read_only=True, key=key)
    try:
        with database.read() as conn:
            sound = is_sound(conn) and summary(conn).memories == len(believed.memories)
            for kept in _batches(believed.memories):
                wanted = {one.row.id: one.row for one in kept}
                sound = sound and memories.rows(conn, [one for one in wanted if one is not None]) == wanted
    finally:
        database.close()
    if not sound:
        raise DamagedStoreError(
            f"{path.name} is not what was written to it; check the disk and try again. Nothing was kept."
        )


def _teach(store: MemoryStore, believed: Believed) -> list[str]:
    """Bring back what the file knew beside its memories; return in words what of it can't be."""
    refused: list[str] = []
    for term in believed.terms:
        try:
            store.terms.add_many([term])
        except InvalidInputError:
            refused.append("a known term")
    for profile in believed.profiles:
        try:
            store.profiles.save_many([profile])
        except InvalidInputError:
            refused.append("a saved profile")
    return refused


def _write(
    database: Database,
    believed: Believed,
    recogniser: Recogniser | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    lexicon = Lexicon(database)
    analyser = Analyser(believed.languages, lexicon.lookup, lexicon.respell)
    writer = Writer(database, analyser, lexicon, Filler(database, Serving(database, "none", 0.0)), recogniser)
    writer.store([_placing(kept) for kept in believed.memories], progress, embed=False)
    with database.write() as conn:
        entities.rename(conn, believed.entities)
        keyword.restore_numbers(conn, believed.vocabulary)
        for table in ("memories", "vocabulary"):
            _keep_ids(conn, table, believed.last_ids.get(table, 0))


def _placing(kept: Kept) -> Write:
    """Return the write that puts a memory into a new file as it was in another."""
    plan = Plan(before=None, after=kept.row, given=kept.given, outcome="added", used=kept.used)
    return Write(planner=lambda _conn, _moment: plan, identity=kept.row.id, size=len(kept.row.text))


def _keep_ids(conn: apsw.Connection, table: str, last: int) -> None:
    """See to it that no id is given again that the damaged file had given."""
    conn.execute(
        "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0"
        " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)",
        (table,),
    )
    conn.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, table))


def _batches(kept: Sequence[Kept]) -> Iterator[Sequence[Kept]]:
    return (kept[first : first + _BATCH] for first in range(0, len(kept), _BATCH))

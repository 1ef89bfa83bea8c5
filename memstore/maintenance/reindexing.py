"""All of a file analysed anew, where it was analysed by another version of the analyser or in other languages."""

from collections.abc import Callable, Sequence

from memstore import checks, staleness
from memstore.analysis import Analyser
from memstore.database import Database
from memstore.errors import DamagedStoreError
from memstore.writing import Writer

# A batch is a transaction, and what a kill can cost.
_BATCH = 64
_BATCH_BYTES = 200_000


def reindex(
    database: Database,
    analyser: Analyser,
    writer: Writer,
    languages: Sequence[str] | None,
    progress: Callable[[int, int], None] | None,
) -> int:
    """Analyse what is stale anew, in batches of one transaction each; return how many memories that was."""
    database.require_writable()
    if languages is not None:
        wanted = checks.languages(languages)
        with database.write() as conn:
            staleness.change(conn, wanted)
            staleness.agree(conn, analyser)
    with database.read() as conn:
        staleness.agree(conn, analyser)
        total = staleness.count(conn, staleness.stale(conn, analyser).ours)
    done = last = 0
    damaged: list[int] = []
    while batch := _batch(database, analyser, last):
        number, unread = writer.reanalyse(batch)
        done, last = done + number, max(batch)
        damaged.extend(unread)
        if progress is not None:
            progress(done, max(total, done))
    if damaged:
        raise DamagedStoreError(
            f"{database.path.name}: {len(damaged):,} memories can't be analysed since they are damaged, the first is"
            f" {damaged[0]}; {done:,} others were. memstore doctor says more."
        )
    return done


def _batch(database: Database, analyser: Analyser, after: int) -> list[int]:
    with database.read() as conn:
        sizes = staleness.sizes(conn, staleness.stale(conn, analyser).ours, _BATCH, after)
    batch: list[int] = []
    filled = 0
    for memory_id, size in sizes.items():
        filled += size
        if batch and filled > _BATCH_BYTES:
            break
        batch.append(memory_id)
    return batch

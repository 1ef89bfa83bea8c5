"""Leaving no trace of what was deleted: in the tables, in the pages of the file, in its log, in automatic backups."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np

from memstore import lexicon, semantic
from memstore.database import (
    Database,
    all_rows,
    automatic_backups,
    empty_log,
    finished,
    journals_of_backups,
    overwriting,
    partial_copies,
    rewrite,
    unfinished,
    unfinished_backups,
)
from memstore.errors import DamagedStoreError, EmbedderError, MemstoreError, StorageError
from memstore.semantic import StoredSpace
from memstore.writing import Writer

_REMEDY = "memstore purge --secure, or store.maintenance.purge(secure=True), ends it"


def forget(database: Database, writer: Writer, ids: Sequence[int]) -> int:
    """Delete memories and leave no trace of these and of all that was deleted before; return how many there were."""
    _require_vectors(database)
    deleted = writer.delete(ids, secure=True)
    scrub(database)
    return deleted


def purge(database: Database, writer: Writer, *, secure: bool) -> int:
    """Delete the memories that have expired and return how many; `secure` is as in `forget`."""
    if secure:
        _require_vectors(database)
    purged = writer.purge(secure=secure)
    if secure:
        scrub(database)
    return purged


def scrub(database: Database) -> None:
    """Leave in the file, and in what stands beside it, only what is stored now; it can be run at any time.

    Killed, or stopped by an error, it has changed no memory, and the file keeps the note that traces may be left. Warns
    of the automatic backups that it removed, and of what a kill has left beside the file of other copies.
    """
    try:
        with overwriting(database) as conn:
            _wipe_words(conn)
            for space in semantic.spaces(conn):
                _wipe_vectors(conn, space)
        rewrite(database)
        removed = _remove_backups(database.path)
        partial = partial_copies(database.path)
        empty_log(database)
        finished(database)
        empty_log(database)
    except MemstoreError as error:
        raise type(error)(
            f"what was deleted is gone, but traces of it may be left: {str(error).rstrip('.')}; {_REMEDY}."
        ) from error
    except OSError as error:
        raise StorageError(
            f"what was deleted is gone, but {database.path.parent} can't be listed ({error.strerror}), and automatic"
            f" backups there may hold it; {_REMEDY}."
        ) from error
    if removed:
        warnings.warn(
            f"{', '.join(removed)}: removed, since automatic backups held what was to leave no trace.", stacklevel=2
        )
    if partial:
        warnings.warn(
            f"{', '.join(one.name for one in partial)}: left by a backup or salvage that was stopped, or still being"
            " made; it may hold what was to leave no trace. Delete it if nothing is making it.",
            stacklevel=2,
        )


def warning(conn: apsw.Connection) -> str | None:
    """Return what is to be said of a file where traces may be left of what was to leave none; None where none are."""
    since = unfinished(conn)
    if since is None:
        return None
    return f"traces may be left of what was deleted securely: begun on {since[:10]}, it was not ended; {_REMEDY}"


def _require_vectors(database: Database) -> None:
    with database.read() as conn:
        there = semantic.spaces(conn)
    if there and database.vectors_unavailable is not None:
        raise EmbedderError(
            f"the vectors of {there[0].name} can't be taken out without a trace: {database.vectors_unavailable}."
            " Nothing was deleted."
        )


def _wipe_words(conn: apsw.Connection) -> None:
    """Take out of the keyword index, and of what is kept of words, all that no memory holds any more."""
    conn.execute(
        "DELETE FROM memory_terms WHERE rowid IN"
        " (SELECT id FROM memory_terms_docsize WHERE id NOT IN (SELECT id FROM memories))"
    )
    conn.execute("DELETE FROM analysed WHERE memory_id NOT IN (SELECT id FROM memories)")
    # A deleted row's terms stay in the index until what holds them is merged with the rest
    # (https://www.sqlite.org/fts5.html#the_optimize_command).
    conn.execute("INSERT INTO memory_terms (memory_terms) VALUES ('optimize')")
    lexicon.drop_unheld(conn)
    conn.execute("DELETE FROM vocabulary WHERE term NOT IN (SELECT term FROM memory_terms_count WHERE col = 'terms')")


def _wipe_vectors(conn: apsw.Connection, space: StoredSpace) -> None:
    """Take out what belongs to no passage, and overwrite what the free places of a space's table still hold.

    sqlite-vec before 0.1.7 left the numbers of a deleted vector where they were.
    """
    semantic.reconcile(conn, space)
    for chunk, size in all_rows(conn, f"SELECT chunk_id, size FROM {space.table}_chunks"):
        taken, stored = all_rows(
            conn,
            f"SELECT (SELECT validity FROM {space.table}_chunks WHERE chunk_id = ?1),"
            f" (SELECT vectors FROM {space.table}_vector_chunks00 WHERE rowid = ?1)",
            (chunk,),
        )[0]
        if len(taken or b"") * 8 != size or len(stored or b"") != 4 * size * space.dimensions:
            raise DamagedStoreError(
                f"the vectors of {space.name} are damaged; memstore doctor --repair makes them anew"
            )
        places = np.frombuffer(stored, dtype=np.uint8).reshape(size, -1)
        free = np.unpackbits(np.frombuffer(taken, dtype=np.uint8), bitorder="little") == 0
        if places[free].any():
            kept = np.where(free[:, np.newaxis], np.uint8(0), places).tobytes()
            conn.execute(f"UPDATE {space.table}_vector_chunks00 SET vectors = ? WHERE rowid = ?", (kept, chunk))


def _remove_backups(path: Path) -> list[str]:
    """Remove the automatic backups of a file, unfinished ones too, and what SQLite left beside; return their names."""
    backups = [*automatic_backups(path), *unfinished_backups(path)]
    for one in (*backups, *journals_of_backups(path)):
        try:
            one.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"{one} holds it and can't be removed: {error.strerror}") from error
    return [backup.name for backup in backups]

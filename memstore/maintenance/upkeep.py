"""`store.maintenance`: what is done for a file as a whole."""

import os
from collections.abc import Callable, Iterable, Sequence

from memstore import checks, semantic
from memstore.analysis import Analyser
from memstore.database import Database
from memstore.entities import Recogniser
from memstore.errors import ModelError, NotFoundError
from memstore.health import Backup, Diagnosis, Repair
from memstore.lexicon import Lexicon
from memstore.maintenance import scrubbing
from memstore.maintenance.backing_up import back_up
from memstore.maintenance.examining import Progress, examine
from memstore.maintenance.reindexing import reindex
from memstore.maintenance.repairing import repair
from memstore.spaces import Spaces
from memstore.writing import Writer


class Maintenance:
    """The care of a file: one method for each thing that is done for all of it."""

    def __init__(
        self,
        database: Database,
        analyser: Analyser,
        lexicon: Lexicon,
        writer: Writer,
        spaces: Spaces,
        recogniser: Recogniser | None,
    ) -> None:
        self._database = database
        self._analyser = analyser
        self._lexicon = lexicon
        self._writer = writer
        self._spaces = spaces
        self._recogniser = recogniser

    def doctor(self, *, progress: Progress | None = None) -> Diagnosis:
        """Check the whole file against its memories, and return what was found; nothing is changed.

        Each memory's fields and tags are compared with their hash, every index with an analysis of the memories, each
        vector with the hash of its bytes and of its text; schema, spaces and counts are checked, and SQLite's own check
        of all pages comes last. All of it is of one state of the file: a read transaction, during which others read and
        write on, and the log grows. The analysis of every memory is what takes time, some milliseconds each; `progress`
        is called with the memories checked and those there are. Modes, copies, what waits and what has expired are
        notices and no damage.
        """
        return examine(self._database, self._recogniser, progress).diagnosis

    def repair(self, *, accept: Iterable[int] = (), progress: Progress | None = None) -> Repair:
        """Make again all that can be made from the memories, after a copy of the file; return what was done.

        Indexes, caches and counts are made again; a vector that is not as it was stored is dropped, and made anew where
        the model is at hand, as is every other that waits. The copy lies beside the file and is named for it; a file
        with nothing to repair is not copied. A repair that was interrupted is ended by another. A memory that is not as
        memstore wrote it can't be made again: it stays, and is named, unless its id is in `accept`, which takes it as
        it is now. Raises `ReadOnlyError`, and `StorageError` when no copy can be made; nothing is changed then.
        """
        try:
            return repair(
                self._database,
                self._recogniser,
                accept=accept,
                embed=lambda: self._embed(progress),
                progress=progress,
            )
        finally:
            self._lexicon.forget()

    def _embed(self, progress: Progress | None) -> tuple[int, str]:
        """Make the vectors that wait, as far as there are models for them; return how many, and why not all."""
        with self._database.read() as conn:
            spaces = semantic.spaces(conn)
            waits = any(semantic.size_of_pending(conn, space)[0] for space in spaces)
            if not waits and not (self._spaces.waiting(conn) and semantic.passages(conn)):
                return 0, ""
        try:
            filled = self._spaces.fill(progress=progress)
        except (ModelError, NotFoundError) as error:
            return 0, str(error)
        problems = [one.problem for one in filled if one.problem is not None and one.pending]
        return sum(one.embedded + one.copied for one in filled), "; ".join(problems)

    def reindex(
        self, *, languages: Sequence[str] | None = None, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Analyse the memories anew that another version analysed, or that were analysed in other languages.

        With `languages` the file is analysed in these from then on. Return how many memories it was; `stats().stale`
        counts those that wait, of which each write takes a few along. It goes in batches of one transaction each: an
        interrupted run goes on where it stopped, a second one does nothing. Terms, entities and stems follow; passages
        and vectors stay. What a later memstore analysed stays as it is. Where the store has no `recogniser`, entities
        that are no longer found stay, since one may have found them. Raises `InvalidInputError` on languages that are
        not known, `ReadOnlyError` on a store that can't be changed, `DamagedStoreError` when a memory can't be read,
        after all others.
        """
        return reindex(self._database, self._analyser, self._writer, languages, progress)

    def purge(self, *, secure: bool = False) -> int:
        """Delete all memories that have expired, and return how many; each write takes out only some of them.

        `secure` leaves in the file, and beside it, no trace of these nor of whatever was deleted or changed before, and
        ends a secure deletion that did not come to its end (see `delete` of the store, which says what that takes).
        """
        return scrubbing.purge(self._database, self._writer, secure=checks.flag("secure", secure))

    def backup(self, destination: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        """Copy the whole file to a new one, readable by its owner alone, while others read and write.

        The copy is of one state of the file, with all that its log holds. It is read back, checked by SQLite and
        compared with the file, and only then has its name; one that fails or is killed leaves nothing there. In a
        folder it is named for the file and the time. `progress` is called with the pages copied and those there are.
        A store that is only read can be backed up. On a disk without a write-ahead log writers wait meanwhile. Raises
        `StorageError` when the name is taken, or the copy can't be written or is not the same; `DamagedStoreError`
        when the file itself is damaged so that SQLite says so.
        """
        return back_up(self._database, destination, progress)

"""`store.maintenance`: what is done for a file as a whole."""

from collections.abc import Callable, Sequence

from memstore import checks
from memstore.analysis import Analyser
from memstore.database import Database
from memstore.entities import Recogniser
from memstore.lexicon import Lexicon
from memstore.maintenance import scrubbing
from memstore.maintenance.reindexing import reindex
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

"""`store.maintenance`: what is done for a file as a whole."""

from memstore import checks
from memstore.analysis import Analyser
from memstore.database import Database
from memstore.entities import Recogniser
from memstore.lexicon import Lexicon
from memstore.maintenance import scrubbing
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

    def purge(self, *, secure: bool = False) -> int:
        """Delete all memories that have expired, and return how many; each write takes out only some of them.

        `secure` leaves in the file, and beside it, no trace of these nor of whatever was deleted or changed before, and
        ends a secure deletion that did not come to its end (see `delete` of the store, which says what that takes).
        """
        return scrubbing.purge(self._database, self._writer, secure=checks.flag("secure", secure))

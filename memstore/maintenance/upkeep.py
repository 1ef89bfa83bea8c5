"""`store.maintenance`: what is done for a file as a whole."""

from memstore.analysis import Analyser
from memstore.database import Database
from memstore.entities import Recogniser
from memstore.lexicon import Lexicon
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

"""`store.maintenance`: what is done for a file as a whole."""

import os

from memstore.analysis import Analyser
from memstore.database import Database
from memstore.entities import Recogniser
from memstore.health import Backup
from memstore.lexicon import Lexicon
from memstore.maintenance.backing_up import Progress, back_up
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

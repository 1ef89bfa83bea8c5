"""The one module that opens connections and sets pragmas: driver, extension, schema, transactions."""

from memstore.database.copies import automatic_backups, automatic_name
from memstore.database.faults import BUSY_SECONDS
from memstore.database.file import Database
from memstore.database.keys import Key
from memstore.database.opening import DURABILITIES, JOURNALS, Durability, Journal
from memstore.database.paths import loose_modes, make_private_folder, sqlite_version
from memstore.database.schema import APPLICATION_ID, SCHEMA_VERSION, schema
from memstore.database.statements import all_rows, fts5_string, one_value
from memstore.database.wiping import empty_log, finished, overwriting, rewrite, unfinished

__all__ = [
    "APPLICATION_ID",
    "BUSY_SECONDS",
    "DURABILITIES",
    "JOURNALS",
    "SCHEMA_VERSION",
    "Database",
    "Durability",
    "Journal",
    "Key",
    "all_rows",
    "automatic_backups",
    "automatic_name",
    "empty_log",
    "finished",
    "fts5_string",
    "loose_modes",
    "make_private_folder",
    "one_value",
    "overwriting",
    "rewrite",
    "schema",
    "sqlite_version",
    "unfinished",
]

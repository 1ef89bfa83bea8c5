"""The one module that opens connections and sets pragmas: driver, extension, schema, transactions."""

from memstore.database.copies import automatic_backups, automatic_name
from memstore.database.faults import BUSY_SECONDS, as_stored
from memstore.database.file import Database
from memstore.database.paths import sqlite_version
from memstore.database.schema import APPLICATION_ID, SCHEMA_VERSION, schema
from memstore.database.statements import all_rows, fts5_string, one_value

__all__ = [
    "APPLICATION_ID",
    "BUSY_SECONDS",
    "SCHEMA_VERSION",
    "Database",
    "all_rows",
    "as_stored",
    "automatic_backups",
    "automatic_name",
    "fts5_string",
    "one_value",
    "schema",
    "sqlite_version",
]

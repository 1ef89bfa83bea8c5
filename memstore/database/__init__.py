"""The one module that opens connections and sets pragmas: driver, extension, schema, transactions."""

from memstore.database.bare import bare, is_sound
from memstore.database.copies import automatic_backups, automatic_name
from memstore.database.faults import BUSY_SECONDS
from memstore.database.file import Database
from memstore.database.paths import checked_path, require_file, sqlite_version
from memstore.database.placing import copy_aside, new_file
from memstore.database.schema import APPLICATION_ID, SCHEMA_VERSION, roots, schema
from memstore.database.statements import all_rows, fts5_string, one_value

__all__ = [
    "APPLICATION_ID",
    "BUSY_SECONDS",
    "SCHEMA_VERSION",
    "Database",
    "all_rows",
    "automatic_backups",
    "automatic_name",
    "bare",
    "checked_path",
    "copy_aside",
    "fts5_string",
    "is_sound",
    "new_file",
    "one_value",
    "require_file",
    "roots",
    "schema",
    "sqlite_version",
]

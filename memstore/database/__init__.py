"""The one module that opens connections and sets pragmas: driver, extension, schema, transactions."""

from memstore.database.byte_copies import copy_bytes
from memstore.database.copies import automatic_backups, automatic_name
from memstore.database.faults import BUSY_SECONDS, as_stored
from memstore.database.file import Database
from memstore.database.inspection import broken_references, integrity, log_size, pages
from memstore.database.keys import Key
from memstore.database.objects import (
    SchemaObject,
    drop_virtual,
    expected_objects,
    index_entries,
    make_again,
    mislabelled,
    objects,
    renew_indexes,
    roots,
    shadows,
)
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
    "SchemaObject",
    "all_rows",
    "as_stored",
    "automatic_backups",
    "automatic_name",
    "broken_references",
    "copy_bytes",
    "drop_virtual",
    "empty_log",
    "expected_objects",
    "finished",
    "fts5_string",
    "index_entries",
    "integrity",
    "log_size",
    "loose_modes",
    "make_again",
    "make_private_folder",
    "mislabelled",
    "objects",
    "one_value",
    "overwriting",
    "pages",
    "renew_indexes",
    "rewrite",
    "roots",
    "schema",
    "shadows",
    "sqlite_version",
    "unfinished",
]

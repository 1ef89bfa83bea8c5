"""The one module that opens connections and sets pragmas: driver, extension, schema, transactions."""

from memstore.database.copies import automatic_backups, automatic_name, copy_bytes, reading
from memstore.database.faults import BUSY_SECONDS
from memstore.database.file import Database
from memstore.database.inspection import broken_references, integrity, log_size, pages
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
from memstore.database.paths import loose_modes, sqlite_version
from memstore.database.schema import APPLICATION_ID, SCHEMA_VERSION, schema
from memstore.database.statements import all_rows, fts5_string, one_value

__all__ = [
    "APPLICATION_ID",
    "BUSY_SECONDS",
    "SCHEMA_VERSION",
    "Database",
    "SchemaObject",
    "all_rows",
    "automatic_backups",
    "automatic_name",
    "broken_references",
    "copy_bytes",
    "drop_virtual",
    "expected_objects",
    "fts5_string",
    "index_entries",
    "integrity",
    "log_size",
    "loose_modes",
    "make_again",
    "mislabelled",
    "objects",
    "one_value",
    "pages",
    "reading",
    "renew_indexes",
    "roots",
    "schema",
    "shadows",
    "sqlite_version",
]

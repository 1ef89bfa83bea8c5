"""The one module that opens connections and sets pragmas: driver, extension, schema, transactions."""

from memstore.database.bare import bare, is_sound, usual_roots
from memstore.database.byte_copies import copy_bytes
from memstore.database.copies import (
    automatic_backups,
    automatic_name,
    journals_of_backups,
    partial_copies,
    unfinished_backups,
)
from memstore.database.faults import BUSY_SECONDS, as_stored
from memstore.database.file import Database
from memstore.database.inspection import broken_references, integrity, log_size, pages
from memstore.database.keys import Key, secret
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
from memstore.database.paths import (
    checked_path,
    linked_to,
    loose_modes,
    make_private_folder,
    require_file,
    sqlite_version,
)
from memstore.database.placing import copy_aside, new_file
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
    "bare",
    "broken_references",
    "checked_path",
    "copy_aside",
    "copy_bytes",
    "drop_virtual",
    "empty_log",
    "expected_objects",
    "finished",
    "followed",
    "fts5_string",
    "index_entries",
    "integrity",
    "is_sound",
    "journals_of_backups",
    "linked_to",
    "log_size",
    "loose_modes",
    "make_again",
    "make_private_folder",
    "mislabelled",
    "new_file",
    "objects",
    "one_value",
    "overwriting",
    "pages",
    "partial_copies",
    "renew_indexes",
    "require_file",
    "rewrite",
    "roots",
    "schema",
    "secret",
    "shadows",
    "sqlite_version",
    "unfinished",
    "unfinished_backups",
    "usual_roots",
]

"""The schema of a file: its DDL, its version, and whose file it is."""

import importlib.resources
from pathlib import Path

import apsw

SCHEMA_VERSION = 6
# "mems", so that `file` and other tools can tell a memstore file from any other SQLite file.
APPLICATION_ID = 0x6D656D73


def schema() -> str:
    """Return schema.sql: inside the package when installed, at the top of the repository in an editable install."""
    inside = importlib.resources.files("memstore").joinpath("schema.sql")
    source = inside if inside.is_file() else Path(__file__).resolve().parents[2] / "schema.sql"
    return source.read_text(encoding="utf-8")


def identity(connection: apsw.Connection) -> tuple[int, int]:
    """Return a file's application id, and how many tables one without it has; from one state, it may just be made."""
    with connection:
        application_id = int(connection.pragma("application_id"))
        ours = application_id == APPLICATION_ID
        tables = 0 if ours else int(connection.execute("SELECT count(*) FROM sqlite_schema").get)
    return application_id, tables

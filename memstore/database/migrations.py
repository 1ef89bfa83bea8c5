"""What brings a file of an earlier schema to this one: small named steps, forward only, in one transaction."""

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import apsw

from memstore.database.copies import automatic_name, unfinished, unfinished_backups
from memstore.database.faults import BUSY_SECONDS, translated
from memstore.database.paths import create_private
from memstore.database.schema import SCHEMA_VERSION
from memstore.errors import (
    DamagedStoreError,
    MemstoreError,
    NewerSchemaError,
    NotAStoreError,
    ReadOnlyError,
    StorageError,
)

# Files of earlier schemas were never released, and there is no path from them.
_FIRST_RELEASED = 5
# What copies made before a migration are named for.
_REASON = "schema"
# Schema 5 knew one analyser for all of a file.
_FILE_ANALYSER = (
    "coalesce((SELECT a.value || ' ' || l.value FROM meta a, meta l"
    " WHERE a.key = 'analyser' AND l.key = 'languages'), '')"
)


# What opens a connection to a file, or to a copy of it, by the name and the flags that SQLite is given.
Connect: TypeAlias = Callable[[str, int], apsw.Connection]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step towards a schema: SQL, or a function of a connection, in a transaction; and what it is for."""

    name: str
    why: str
    step: str | Callable[[apsw.Connection], None]


# By the schema that they lead to, in their order. A migrated file has the tables of a new one, so that each new column
# is the last of its table in schema.sql too.
MIGRATIONS: Mapping[int, tuple[Migration, ...]] = {
    6: (
        Migration(
            name="terms name their analyser",
            why="memories whose terms another analyser made, or in other languages, are found without reading them",
            step=f"""
                ALTER TABLE analysed ADD COLUMN analyser TEXT NOT NULL DEFAULT '';
                UPDATE analysed SET analyser = {_FILE_ANALYSER};
                CREATE INDEX analysed_analyser ON analysed (analyser);
            """,
        ),
        Migration(
            name="stems name their analyser",
            why="a word is stemmed as its file's languages and this program do it, and not as once",
            step=f"""
                ALTER TABLE stems ADD COLUMN analyser TEXT NOT NULL DEFAULT '';
                UPDATE stems SET analyser = {_FILE_ANALYSER};
            """,
        ),
        Migration(
            name="no analyser of the whole file",
            why="each memory says now which analyser made its terms",
            step="DELETE FROM meta WHERE key = 'analyser'",
        ),
    ),
}


def require_schema(connection: apsw.Connection, path: Path, read_only_reason: str | None, connect: Connect) -> None:
    """Bring a file to this schema if it has an earlier one; a copy of it as it was is made first, and told of.

    Raises `NewerSchemaError` on a later schema, `NotAStoreError` on one from before the first release,
    `DamagedStoreError` when the file does not say, or its copy is damaged, `ReadOnlyError` when it can't be written,
    `StorageError` when it can't be copied. The file is as it was then.
    """
    version = _known_version(connection, path)
    if version == SCHEMA_VERSION:
        return
    if read_only_reason is not None:
        raise ReadOnlyError(
            f"{path} has schema {version}, which this memstore brings to {SCHEMA_VERSION} before it reads it, and"
            f" {read_only_reason}; open it, or a copy of it, once for writing."
        )
    _migrate(connection, path, connect)


def _known_version(connection: apsw.Connection, path: Path) -> int:
    """Return the schema of a file; refuse one that there is no path from."""
    version = _version(connection, path)
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"{path} has schema {version} and this memstore knows schemas up to {SCHEMA_VERSION}; "
            "upgrade memstore. The file was not changed."
        )
    if version < _FIRST_RELEASED:
        raise NotAStoreError(
            f"{path} has schema {version}, from before the first release; export it with the memstore that"
            " made it and import that here. The file was not changed."
        )
    return version


def _migrate(connection: apsw.Connection, path: Path, connect: Connect) -> None:
    backup: Path | None = None
    # No one writes from here on, so that the copy is what the steps begin with.
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been faster.
        version = _known_version(connection, path)
        if version < SCHEMA_VERSION:
            backup = _backed_up(path, version, connect)
        for number in range(version, SCHEMA_VERSION):
            for migration in MIGRATIONS[number + 1]:
                if isinstance(migration.step, str):
                    connection.execute(migration.step)
                else:
                    migration.step(connection)
            connection.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(number + 1),))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        with suppress(MemstoreError, OSError, apsw.Error):
            # The file is as it was, and the next opening makes another copy: it must not fill the disk with them.
            if backup is not None and _version(connection, path) == version:
                backup.unlink()
        raise
    if backup is not None:
        warnings.warn(
            f"{path.name} was brought from schema {version} to {SCHEMA_VERSION}; as it was before it is in {backup}.",
            stacklevel=2,
        )


def _backed_up(path: Path, version: int, connect: Connect) -> Path:
    """Return a verified copy of a file that is locked for writing, readable by its owner alone."""
    target = automatic_name(path, f"{_REASON}-{version}")
    made = unfinished(target)
    try:
        # While the file is locked no other such copy is being made: what is there was left by a kill.
        for left in unfinished_backups(path, _REASON):
            left.unlink(missing_ok=True)
        try:
            create_private(made)
            with translated(made):
                _copy(path, made, connect)
                faults = _faults(made, connect)
            if not faults:
                os.replace(made, target)
                _keep_name(target)
        finally:
            made.unlink(missing_ok=True)
    except (MemstoreError, OSError) as error:
        raise StorageError(
            f"{path} has schema {version}, and it was not brought to {SCHEMA_VERSION} since no copy of it could be made"
            f" first ({str(error).rstrip('.')}); make room beside it and open it again. The file was not changed."
        ) from error
    if faults:
        raise DamagedStoreError(
            f"{path} has schema {version}, and it was not brought to {SCHEMA_VERSION} since it is damaged ({faults});"
            " restore a backup of it, or save with memstore salvage what can be read. The file was not changed."
        )
    return target


def _copy(path: Path, target: Path, connect: Connect) -> None:
    with (
        closing(connect(str(path), apsw.SQLITE_OPEN_READONLY)) as source,
        closing(connect(str(target), apsw.SQLITE_OPEN_READWRITE)) as copied,
    ):
        source.set_busy_timeout(int(BUSY_SECONDS * 1000))
        with copied.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step()


def _faults(path: Path, connect: Connect) -> str:
    """Return what SQLite has against a copy; nothing when it is sound."""
    # It is asked without a log beside it, which a plain connection would make.
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        with closing(connect(f"{path.as_uri()}?immutable=1", flags)) as conn:
            found = str(conn.pragma("quick_check", 1))
    except apsw.CorruptError as error:
        found = str(error)
    return "" if found == "ok" else " ".join(found.split())


def _keep_name(path: Path) -> None:
    """Have the disk hold the name of a file; where a folder can't be opened the system does so by itself."""
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _version(connection: apsw.Connection, path: Path) -> int:
    """Return the schema that a file says it has."""
    try:
        said = connection.execute("SELECT value FROM meta WHERE key = 'schema'").get
        version = int(said)
        if version < 1 or str(version) != said:
            raise ValueError(f"schema is {said!r}")
    except (apsw.SQLError, TypeError, ValueError) as error:
        raise DamagedStoreError(f"{path} does not say which schema it has; restore a backup of it.") from error
    return version

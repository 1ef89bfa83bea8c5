"""Checks of a file as SQLite knows it: pages, schema, references; and of what is round it: modes, size, old copies."""

import re
from collections.abc import Iterator

import apsw

from memstore import checks, database
from memstore.database import Database, all_rows, one_value
from memstore.maintenance.reporting import REBUILDS, SALVAGE, Faults, Report, are, number

# SQLite stops after so many: a file with more is not mended one by one.
_MOST_MESSAGES = 100
_TREE = re.compile(r"Tree (\d+) ")
_CROSSED = re.compile(r"2nd reference|[Ff]reelist")
_INDEX = re.compile(r"(?:missing from|entries in) index (\w+)")
_INVERTED = re.compile(r"FTS5 table (?:main\.)?memory_terms\b|fts5: .*\"memory_terms\"")
_VALUES = re.compile(r" in (\w+)(?:\.\w+)?$")
_LANGUAGE = re.compile(r"[a-z]{2}")
_VECTORS = re.compile(r"vectors_(\d+)(?:_\w+)?")
# What can be emptied and filled again from the memories.
_CACHES = frozenset({"analysed", "memory_terms_count", "passages", "space_statistics", "statistics", "stems"})
# Without these there is nothing to mend.
_VITAL = frozenset({"memories", "meta"})
# From here on free pages are worth giving back to the disk.
_MUCH_FREE = 0.25
_MUCH = 10_000_000
_LONG_LOG = 100_000_000


def check_pages(conn: apsw.Connection, report: Report, faults: Faults) -> None:
    """SQLite's own check: pages, the order of the trees, indexes against their tables, types and NOT NULL."""
    said: dict[str, list[str]] = {}
    roots = database.roots(conn)
    try:
        messages = database.integrity(conn, _MOST_MESSAGES)
    except apsw.CorruptError:
        messages = _table_by_table(conn, report)
    for message in messages:
        for line in message.splitlines():
            if not line.startswith("***"):
                said.setdefault(_about(line, roots), []).append(line)
    for name, lines in sorted(said.items()):
        mended = _mended(name, faults)
        # Writing to such a file, or freeing its pages, could overwrite what is still sound.
        if any(_CROSSED.search(line) or (not mended and _TREE.search(line)) for line in lines):
            faults.sealed, mended = True, False
        where = f"in {name}" if name else "in the file"
        report.damage(
            "file",
            f"SQLite finds {number(len(lines), 'fault', 'faults')} {where} ({lines[0]})",
            count=len(lines),
            remedy=REBUILDS if mended else SALVAGE,
            repairable=mended,
        )


def _table_by_table(conn: apsw.Connection, report: Report) -> list[str]:
    """Return what SQLite says of each table alone, where a page is such that it can't go through the whole file."""
    found: list[str] = []
    tables = sorted(name for kind, name in database.objects(conn) if kind == "table")
    for name in (*tables, "sqlite_sequence"):
        try:
            found += database.integrity(conn, name)
        except apsw.Error as error:
            report.damage(
                "file",
                f"SQLite can't read all of {name} or of its indexes ({error})",
                count=1,
                remedy=SALVAGE,
                repairable=False,
            )
    return found


def _about(line: str, roots: dict[int, tuple[str, str]]) -> str:
    """Return the table or index that a line of SQLite's check is about, nothing where it is none of them."""
    if (tree := _TREE.search(line)) is not None:
        return roots.get(int(tree[1]), ("", ""))[1]
    if _INVERTED.search(line):
        return "memory_terms"
    found = _INDEX.search(line) or _VALUES.search(line)
    return found[1] if found else ""


def _mended(name: str, faults: Faults) -> bool:
    """Note what is to be made again for the sake of a faulty table or index; say whether it can be."""
    space = _VECTORS.match(name)
    if name == "memory_terms" or name in database.shadows("memory_terms"):
        faults.entries = True
    elif space is not None:
        faults.space(int(space[1])).table = True
    elif name in _CACHES:
        faults.objects.append(("table", name))
    elif ("index", name) in database.expected_objects() or name.startswith("sqlite_autoindex_"):
        faults.indexes = True
    else:
        return False
    return True


def check_schema(conn: apsw.Connection, report: Report, faults: Faults) -> None:
    """Tables, indexes and triggers are there, are those of schema.sql, and no others change what is stored."""
    mislabelled = database.mislabelled(conn)
    for name in mislabelled:
        # Nothing may be dropped or made then: SQLite would change the row of another.
        faults.sealed = True
        report.damage(
            "schema", f"the file lists {name} as something else than it is", count=1, remedy=SALVAGE, repairable=False
        )
    if mislabelled:
        return
    there, expected = database.objects(conn), database.expected_objects()
    spaces = _space_ids(conn) if ("table", "embedders") in there else set[int]()
    missing = [key for key in expected if key not in there]
    changed = [key for key, one in expected.items() if key in there and there[key].shape != one.shape]
    for key in (*missing, *changed):
        what = f"the {key[0]} {key[1]} {'is missing' if key in missing else 'is not as it was made'}"
        if _remade(key, faults):
            report.damage("schema", what, count=1)
        elif key in missing and key[1] not in _VITAL:
            faults.objects.append(key)
            report.damage(
                "schema",
                f"{what}, and what it held is lost",
                count=1,
                remedy="put back a backup, or have memstore doctor --repair make it again, empty",
            )
        else:
            report.damage("schema", what, count=1, remedy=SALVAGE, repairable=False)
    for kind, name in sorted(there.keys() - expected.keys()):
        own = _VECTORS.fullmatch(there[kind, name].table)
        if own is None:
            _foreign(report, kind, name, there[kind, name].table)
        elif int(own[1]) not in spaces and kind == "table" and name == f"vectors_{own[1]}":
            faults.leftovers.append(name)
            report.damage(
                "schema",
                f"the table {name} belongs to no embedding space",
                count=1,
                remedy="memstore doctor --repair removes it",
            )


def _remade(key: tuple[str, str], faults: Faults) -> bool:
    """Note an object of schema.sql that is to be made again; say whether that loses nothing."""
    kind, name = key
    if kind == "table" and (name == "memory_terms" or name in database.shadows("memory_terms")):
        faults.entries = True
    elif kind in ("index", "trigger") or name in _CACHES:
        faults.objects.append(key)
    else:
        return False
    return True


def _foreign(report: Report, kind: str, name: str, table: str) -> None:
    if kind == "trigger":
        report.damage(
            "schema",
            f"the trigger {name} on {table} is not memstore's, and changes what is stored",
            count=1,
            remedy="if it is not yours either, take it away with an SQLite tool",
            repairable=False,
        )
    else:
        report.notice("schema", f"the {kind} {name} is not memstore's; it is left alone", count=1)


def _space_ids(conn: apsw.Connection) -> set[int]:
    return {one for (one,) in all_rows(conn, "SELECT id FROM embedders")}


def check_meta(conn: apsw.Connection, report: Report) -> None:
    """The file says in which languages its memories are analysed."""
    named = (one_value(conn, "SELECT value FROM meta WHERE key = 'languages'") or "").split()
    # A file that was made and never opened as a store names none yet.
    unnamed = not named and bool(one_value(conn, "SELECT EXISTS (SELECT 1 FROM memories)"))
    if unnamed or not all(_LANGUAGE.fullmatch(one) for one in named) or len(set(named)) < len(named):
        report.damage(
            "schema",
            f"the file names the languages of its memories as {checks.brief(' '.join(named))}",
            count=1,
            remedy="memstore reindex --languages sets them",
            repairable=False,
        )
    since = database.unfinished(conn)
    if since is not None:
        report.notice(
            "space",
            f"a deletion that is to leave no trace was begun at {since} and is not at its end",
            count=1,
            remedy="memstore purge --secure ends it",
        )


def check_references(conn: apsw.Connection, report: Report, faults: Faults) -> None:
    """No row names another that is not there."""
    for (table, parent), count in sorted(database.broken_references(conn).items()):
        faults.strays = True
        report.damage(
            "memories",
            f"{number(count, 'row', 'rows')} of {table} {'belongs' if count == 1 else 'belong'} to nothing in {parent}",
            count=count,
            remedy="memstore doctor --repair removes what belongs to nothing",
        )


def check_sequences(conn: apsw.Connection, report: Report, faults: Faults) -> None:
    """No id is given twice: what gives them is above all that there are."""
    last = dict(all_rows(conn, "SELECT name, seq FROM sqlite_sequence"))
    for table, highest in highest_ids(conn).items():
        if not isinstance(last.get(table, 0), int) or last.get(table, 0) < highest:
            faults.sequences = True
            report.damage(
                "schema", f"ids of {table} would be given again: the file counts to {last.get(table, 0)}", count=1
            )


def highest_ids(conn: apsw.Connection) -> dict[str, int]:
    """Return the highest id in use by each table whose ids are never given again."""
    return {
        table: int(one_value(conn, f"SELECT max(id) FROM ({ids})") or 0)
        for table, ids in (
            ("memories", "SELECT id FROM memories"),
            ("passages", "SELECT id FROM passages UNION ALL SELECT passage_id FROM passage_vectors"),
            ("entities", "SELECT id FROM entities"),
            ("vocabulary", "SELECT id FROM vocabulary"),
            ("embedders", "SELECT id FROM embedders"),
        )
    }


def check_surroundings(data: Database, conn: apsw.Connection, report: Report) -> None:
    """Who may read the file, how much of it is free, how long its log is, what copies lie beside it: no damage."""
    _check_space(data, conn, report)
    try:
        _check_beside(data, report)
    except OSError as error:
        report.notice(
            "permissions",
            f"the folder {data.path.parent} can't be listed ({error.strerror}): whether copies of memories lie beside"
            " the file can't be told",
            count=1,
        )


def _check_beside(data: Database, report: Report) -> None:
    loose = database.loose_modes(data.path)
    if loose:
        files = " ".join(path.name for path, _ in loose if path != data.path.parent)
        folders = " ".join(str(path) for path, _ in loose if path == data.path.parent)
        report.notice(
            "permissions",
            f"others than you can read or write {', '.join(f'{path.name} (mode {mode:04o})' for path, mode in loose)}",
            count=len(loose),
            remedy=", and ".join(filter(None, (files and f"chmod 600 {files}", folders and f"chmod o-w {folders}"))),
        )
    kept = database.automatic_backups(data.path)
    if kept:
        size = sum(one.stat().st_size for one in kept)
        report.notice(
            "space",
            f"{number(len(kept), 'copy', 'copies')} made before a change {are(len(kept))} still there"
            f" ({_megabytes(size)}, {', '.join(one.name for one in kept[:3])}{', …' if len(kept) > 3 else ''}), with"
            " all that the file held then",
            count=len(kept),
            remedy="delete what you no longer need",
        )
    for left, what in (
        (database.unfinished_backups(data.path), "a copy that memstore was making"),
        (database.partial_copies(data.path), "a backup or salvage"),
    ):
        if left:
            report.notice(
                "space",
                f"{', '.join(one.name for one in left[:3])}{', …' if len(left) > 3 else ''} beside the file"
                f" {are(len(left))} left of {what} that was stopped, or is still being made, and may hold memories",
                count=len(left),
                remedy="delete it if nothing is making it",
            )


def _check_space(data: Database, conn: apsw.Connection, report: Report) -> None:
    size, free = database.pages(conn)
    log = database.log_size(data.path)
    report.checked |= {"bytes": size, "free bytes": free, "log bytes": log}
    if free > _MUCH and free > _MUCH_FREE * size:
        report.notice("space", f"{_megabytes(free)} of the {_megabytes(size)} of the file are free", count=1)
    if log > _LONG_LOG:
        report.notice("space", f"the log beside the file holds {_megabytes(log)}; closing the last store shortens it")


def check_expired(conn: apsw.Connection, report: Report) -> None:
    """What has expired is purged by later writes: no damage."""
    expired = int(one_value(conn, "SELECT count(*) FROM memories WHERE expires_at <= ?", (checks.now(),)) or 0)
    if expired:
        report.notice(
            "memories",
            f"{number(expired, 'memory', 'memories')} {'has' if expired == 1 else 'have'} expired, no search finds"
            f" {'it' if expired == 1 else 'them'}, and later writes take {'it' if expired == 1 else 'them'} out",
            count=expired,
        )


def twice_keyed(conn: apsw.Connection) -> Iterator[tuple[str, str, int]]:
    """Yield each key that several memories of a namespace have, with how many."""
    yield from all_rows(
        conn,
        "SELECT namespace, key, count(*) FROM memories NOT INDEXED WHERE key IS NOT NULL GROUP BY 1, 2"
        " HAVING count(*) > 1",
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"

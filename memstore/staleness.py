"""In which languages a file is analysed, and which of its memories were analysed otherwise than they would be now."""

import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apsw

from memstore import checks
from memstore.analysis import LANGUAGES, Analyser, beyond
from memstore.database import Database, all_rows, one_value
from memstore.errors import InvalidInputError

# The first of each group of equal rows is sought in the index, so that a million of one analyser are not read.
_MADE = (
    "WITH RECURSIVE made (analyser) AS (SELECT min(analyser) FROM analysed UNION ALL"
    " SELECT (SELECT min(a.analyser) FROM analysed a WHERE a.analyser > made.analyser) FROM made"
    " WHERE made.analyser IS NOT NULL) SELECT analyser FROM made WHERE analyser IS NOT NULL"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """The names of analyses that a file has memories of and that are not what an analyser would do now.

    `ours` can be done anew by this program; `beyond` are those of a later one, and stay as they are.
    """

    ours: tuple[str, ...]
    beyond: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.ours, *self.beyond)

    def notices(self) -> Iterator[str]:
        """Yield what is to be known of an answer from such a file."""
        if self.ours:
            yield (
                "some memories were analysed by an earlier memstore or in other languages, and words may miss them;"
                " memstore reindex analyses them anew."
            )
        if self.beyond:
            yield "some memories were analysed by a later memstore, and words may miss them here; upgrade memstore."


def stale(conn: apsw.Connection, analyser: Analyser) -> Stale:
    """Return which analyses of a file's memories are not what an analyser would do now."""
    own = analyser.stamp
    found = [made for (made,) in all_rows(conn, _MADE) if made != own]
    return Stale(
        ours=tuple(made for made in found if not beyond(made)), beyond=tuple(made for made in found if beyond(made))
    )


def count(conn: apsw.Connection, made: Iterable[str]) -> int:
    """Return how many memories some analyses have made the terms of."""
    return sum(one_value(conn, "SELECT count(*) FROM analysed WHERE analyser = ?", (one,)) for one in made)


def sizes(conn: apsw.Connection, made: Iterable[str], limit: int, after: int) -> dict[int, int]:
    """Return the first memories above an id that some analyses have made the terms of, in order: the bytes of each."""
    rows = [
        row
        for one in made
        for row in all_rows(
            conn,
            "SELECT a.memory_id, coalesce(octet_length(m.text), 0) FROM analysed a"
            " LEFT JOIN memories m ON m.id = a.memory_id"
            " WHERE a.analyser = ? AND a.memory_id > ? ORDER BY a.memory_id LIMIT ?",
            (one, after, limit),
        )
    ]
    return dict(sorted(rows)[:limit])


def among(conn: apsw.Connection, made: Iterable[str], ids: Iterable[int]) -> list[int]:
    """Return those of some memories that some analyses have made the terms of, in order."""
    rows = all_rows(
        conn,
        "SELECT memory_id FROM analysed WHERE memory_id IN (SELECT value FROM json_each(?))"
        " AND analyser IN (SELECT value FROM json_each(?)) ORDER BY memory_id",
        (json.dumps(list(ids)), json.dumps(list(made))),
    )
    return [memory_id for (memory_id,) in rows]


def languages(conn: apsw.Connection) -> tuple[str, ...]:
    """Return the languages that a file is analysed in: of those it names the ones that are known here, or all.

    None while it names none, being made.
    """
    named = _named(conn)
    return tuple(one for one in named if one in LANGUAGES) or (LANGUAGES if named else ())


def agreed(database: Database, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the languages of a file; a new file takes those wanted.

    Raises `InvalidInputError` when others are wanted than the file has; the default is never in the way.
    """
    with database.read() as conn:
        named, found = _named(conn), languages(conn)
    if not named and not database.read_only:
        with database.write() as conn:
            named, found = _named(conn), languages(conn)
            if not named:
                change(conn, wanted)
                named = found = wanted
    if wanted not in (named, found, LANGUAGES):
        raise InvalidInputError(
            f"{database.path.name} is analysed in {', '.join(named)}, not in {', '.join(wanted)}; leave languages out,"
            f" or analyse its memories anew: memstore reindex --languages {','.join(wanted)}."
        )
    unknown = [one for one in named if one not in LANGUAGES]
    if unknown:
        warnings.warn(
            f"{database.path.name} is analysed in {', '.join(map(checks.brief, unknown))} too, which this memstore does"
            f" not know; it reads texts as {', '.join(found)}.",
            stacklevel=3,
        )
    return found or wanted


def agree(conn: apsw.Connection, analyser: Analyser) -> bool:
    """Have an analyser go by the languages of the file, which another process may have changed; say whether it did."""
    found = languages(conn)
    if not found or found == analyser.languages:
        return True
    analyser.languages = found
    return False


def change(conn: apsw.Connection, wanted: tuple[str, ...]) -> None:
    """Set the languages of a file: what was analysed in others is stale from then on."""
    conn.execute(
        "INSERT INTO meta (key, value) VALUES ('languages', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (" ".join(wanted),),
    )


def _named(conn: apsw.Connection) -> tuple[str, ...]:
    return tuple((one_value(conn, "SELECT value FROM meta WHERE key = 'languages'") or "").split())

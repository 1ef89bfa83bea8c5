"""`store.terms`: the names that the user knows, with their aliases and kinds."""

import builtins
from collections.abc import Iterable, Sequence

import apsw

from memstore import checks, entities, memories
from memstore.analysis import compounds, fold, pieces, words
from memstore.database import Database, all_rows
from memstore.errors import InvalidInputError, NotFoundError
from memstore.exchange import Term
from memstore.writing import found_in


class Terms:
    """The known terms of one store; a change takes effect on the memories that are already there."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, *, kind: str = "term", aliases: Sequence[str] = ()) -> Term:
        """Know `name`, and each alias as another spelling of it; return the whole term.

        Adding to a known name adds aliases and sets the kind. Raises `InvalidInputError` on an empty name, or a
        spelling that another term has.
        """
        name = checks.required_name("name", name)
        kind = checks.required_name("kind", kind)
        spellings = dict.fromkeys((name, *checks.names("aliases", aliases)))
        with self._database.write() as conn:
            for term in _all(conn):
                if entities.key(term.name) == entities.key(name):
                    conn.execute("UPDATE entity_terms SET name = ?, kind = ? WHERE name = ?", (name, kind, term.name))
                else:
                    _refuse_shared(term, spellings)
            conn.executemany(
                "INSERT OR REPLACE INTO entity_terms (key, spelling, name, kind) VALUES (?, ?, ?, ?)",
                [(entities.key(spelling), spelling, name, kind) for spelling in spellings],
            )
            conn.execute("UPDATE entities SET name = ?, kind = ? WHERE key = ?", (name, kind, entities.key(name)))
            term = next(term for term in _all(conn) if term.name == name)
            _relink(conn, {one for spelling in (name, *term.aliases) for one in _holding(conn, spelling)})
        return term

    def remove(self, name: str) -> None:
        """Know a name no more. Raises `NotFoundError` when it is not known."""
        name = checks.required_name("name", name)
        with self._database.write() as conn:
            term = next((term for term in _all(conn) if entities.key(term.name) == entities.key(name)), None)
            if term is None:
                raise NotFoundError(f"the term {name!r} is not known; nothing was removed.")
            conn.execute("DELETE FROM entity_terms WHERE name = ?", (term.name,))
            _relink(conn, {one for spelling in (term.name, *term.aliases) for one in _holding(conn, spelling)})

    def list(self) -> builtins.list[Term]:
        """Return all known terms by name."""
        with self._database.read() as conn:
            return _all(conn)


def _refuse_shared(term: Term, spellings: Iterable[str]) -> None:
    own = {entities.key(spelling) for spelling in (term.name, *term.aliases)}
    for spelling in spellings:
        if entities.key(spelling) in own:
            raise InvalidInputError(f"{spelling!r} is a spelling of the term {term.name!r} already; remove that first.")


def _all(conn: apsw.Connection) -> list[Term]:
    found: dict[str, tuple[str, list[str]]] = {}
    for spelling, name, kind in all_rows(conn, "SELECT spelling, name, kind FROM entity_terms ORDER BY name, spelling"):
        aliases = found.setdefault(name, (kind, []))[1]
        if spelling != name:
            aliases.append(spelling)
    return [Term(name=name, kind=kind, aliases=tuple(aliases)) for name, (kind, aliases) in found.items()]


def _holding(conn: apsw.Connection, spelling: str) -> list[int]:
    """Return the memories whose terms include every word of a spelling: those that can mention it."""
    wanted = {fold(word) for piece, _ in pieces(spelling) for word in words(piece)}
    wanted.update(whole for piece, _ in pieces(spelling) for whole in compounds(piece))
    if not wanted:
        return []
    expression = " AND ".join('"' + term.replace('"', '""') + '"' for term in sorted(wanted))
    rows = all_rows(conn, "SELECT rowid FROM memory_terms WHERE memory_terms MATCH ?", (f"terms: ({expression})",))
    return [memory_id for (memory_id,) in rows]


def _relink(conn: apsw.Connection, ids: set[int]) -> None:
    known = entities.known_terms(conn)
    for memory_id in sorted(ids):
        row = memories.get(conn, memory_id)
        if row is not None:
            entities.index(conn, memory_id, found_in(row, known), entities.given(conn, memory_id))

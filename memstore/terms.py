"""`store.terms`: the names that the user knows, with their aliases and kinds."""

import builtins
import json
from collections.abc import Iterable, Sequence

import apsw

from memstore import checks, entities, keyword, memories
from memstore.analysis import Analyser, fold
from memstore.database import Database, all_rows
from memstore.entities import Recogniser
from memstore.errors import InvalidInputError, NotFoundError
from memstore.records import Term
from memstore.writing import found_in

_RELINKED_AT_ONCE = 200


class Terms:
    """The known terms of one store; a change takes effect on the memories that are already there."""

    def __init__(self, database: Database, analyser: Analyser, recogniser: Recogniser | None = None) -> None:
        self._database = database
        self._analyser = analyser
        self._recogniser = recogniser

    def add(self, name: str, *, kind: str = "term", aliases: Sequence[str] = ()) -> Term:
        """Know `name`, and each alias as another spelling of it; return the whole term.

        Adding to a known name adds aliases and sets the kind. Raises `InvalidInputError` on an empty name, or a
        spelling that another term has.
        """
        return self.add_many([Term(name=name, kind=kind, aliases=tuple(checks.names("aliases", aliases)))])[0]

    def add_many(self, terms: Iterable[Term]) -> builtins.list[Term]:
        """Know many terms, all or none of them; return each as it is known then."""
        checked = [
            Term(
                name=checks.required_name("name", term.name),
                kind=checks.required_name("kind", term.kind),
                aliases=checks.names("aliases", term.aliases),
            )
            for term in terms
        ]
        with self._database.write() as conn:
            for term in checked:
                _put(conn, term)
            known = {term.name: term for term in _all(conn)}
        found = [known[term.name] for term in checked if term.name in known]
        self._relink(spelling for term in found for spelling in (term.name, *term.aliases))
        return found

    def remove(self, name: str) -> None:
        """Know a name no more. Raises `NotFoundError` when it is not known."""
        own = entities.key(checks.required_name("name", name))
        with self._database.write() as conn:
            term = next((term for term in _all(conn) if entities.key(term.name) == own), None)
            if term is None:
                raise NotFoundError(f"the term {name!r} is not known; nothing was removed.")
            conn.execute("DELETE FROM entity_terms WHERE name = ?", (term.name,))
            # What the term had said of the entity goes with it; what the memories say is found again.
            conn.execute("UPDATE entities SET kind = 'name' WHERE key = ?", (own,))
        self._relink((term.name, *term.aliases))

    def merge(self, name: str, into: str) -> Term:
        """Take `name`, and every other spelling of it, for spellings of `into`; return the whole term.

        Memories that mention the one then mention the other, those to which the caller gave it too. Either may be a
        known term, an entity that memories mention, or neither yet. Raises `InvalidInputError` when both are one.
        """
        name, into = checks.required_name("name", name), checks.required_name("into", into)
        with self._database.write() as conn:
            terms = {entities.key(spelling): term for term in _all(conn) for spelling in (term.name, *term.aliases)}
            one, other = terms.get(entities.key(name)), terms.get(entities.key(into))
            there = entities.named(conn, into)
            target = other.name if other is not None else into if there is None else there.name
            if entities.key(name if one is None else one.name) == entities.key(target):
                raise InvalidInputError(f"{name!r} and {into!r} are one entity already; nothing was merged.")
            spellings = (name,) if one is None else (one.name, *one.aliases)
            if one is not None:
                conn.execute("DELETE FROM entity_terms WHERE name = ?", (one.name,))
            kinds = [term.kind for term in (other, one) if term is not None]
            if there is not None and there.kind not in ("name", "given"):
                kinds.append(there.kind)
            _put(conn, Term(name=target, kind=[*kinds, "term"][0], aliases=spellings))
            term = next(term for term in _all(conn) if entities.key(term.name) == entities.key(target))
        self._relink((term.name, *term.aliases))
        return term

    def list(self) -> builtins.list[Term]:
        """Return all known terms by name."""
        with self._database.read() as conn:
            return _all(conn)

    def _relink(self, spellings: Iterable[str]) -> None:
        """Find the entities again of every memory that can mention a spelling, without holding up other writers."""
        with self._database.read() as conn:
            ids = sorted(
                {
                    memory_id
                    for spelling in spellings
                    for memory_id in (*self._holding(conn, spelling), *entities.linked(conn, spelling))
                }
            )
        for start in range(0, len(ids), _RELINKED_AT_ONCE):
            with self._database.read() as conn:
                known = entities.known_terms(conn)
                rows = {one: memories.get(conn, one) for one in ids[start : start + _RELINKED_AT_ONCE]}
            found = {one: found_in(row, known, self._recogniser) for one, row in rows.items() if row is not None}
            with self._database.write() as conn:
                if (learnt := entities.known_terms(conn)) != known:
                    # Someone else has taught or merged terms meanwhile.
                    found = {
                        one: found_in(row, learnt, self._recogniser) for one, row in rows.items() if row is not None
                    }
                for one, names in found.items():
                    # A memory that was changed meanwhile was linked by whoever changed it.
                    if memories.get(conn, one) == rows[one]:
                        entities.index(conn, one, names, entities.given(conn, one))

    def _holding(self, conn: apsw.Connection, spelling: str) -> builtins.list[int]:
        """Return the memories that hold every word of a spelling in some form: those that can mention it.

        Folded, as names are compared: `PagBank` is also one word, and `pagbank` has no parts.
        """
        wanted = [word.terms for word in self._analyser.all_words(fold(spelling))]
        if not wanted:
            return []
        rows = all_rows(
            conn,
            "SELECT rowid FROM memory_terms WHERE memory_terms MATCH ?",
            (keyword.all_of(wanted),),
        )
        return [memory_id for (memory_id,) in rows]


def _put(conn: apsw.Connection, term: Term) -> None:
    own = entities.key(term.name)
    spellings = {entities.key(spelling): spelling for spelling in (*term.aliases, term.name)}
    owners = all_rows(
        conn,
        "SELECT DISTINCT spelling, name FROM entity_terms WHERE key IN (SELECT value FROM json_each(?))",
        (json.dumps(list(spellings)),),
    )
    for spelling, owner in owners:
        if entities.key(owner) != own:
            raise InvalidInputError(f"{spelling!r} is a spelling of the term {owner!r} already; remove that first.")
        conn.execute("UPDATE entity_terms SET name = ? WHERE name = ?", (term.name, owner))
    conn.executemany(
        "INSERT OR REPLACE INTO entity_terms (key, spelling, name, kind) VALUES (?, ?, ?, ?)",
        [(key, spelling, term.name, term.kind) for key, spelling in spellings.items()],
    )
    conn.execute("UPDATE entity_terms SET kind = ? WHERE name = ?", (term.kind, term.name))
    conn.execute("UPDATE entities SET name = ?, kind = ? WHERE key = ?", (term.name, term.kind, own))


def _all(conn: apsw.Connection) -> list[Term]:
    found: dict[str, tuple[str, list[str]]] = {}
    rows = all_rows(conn, "SELECT spelling, name, kind FROM entity_terms ORDER BY name, spelling")
    for spelling, name, kind in rows:
        aliases = found.setdefault(name, (kind, []))[1]
        if spelling != name:
            aliases.append(spelling)
    return [Term(name=name, kind=kind, aliases=tuple(aliases)) for name, (kind, aliases) in found.items()]

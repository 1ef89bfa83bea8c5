"""`store.terms`: the names that the user knows, with their aliases and kinds."""

import builtins
import json
from collections.abc import Callable, Iterable, Sequence

import apsw

from memstore import checks, entities, keyword, memories, staleness
from memstore.analysis import Analyser, fold
from memstore.database import Database, all_rows
from memstore.entities import Recogniser
from memstore.errors import InvalidInputError, NotFoundError
from memstore.memories import Row
from memstore.records import Term
from memstore.writing import found_in


class _TakenBack(Exception):
    """The end of a change that was only tried."""


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
        checked = [_checked(term) for term in terms]

        def change(conn: apsw.Connection) -> builtins.list[Term]:
            for term in checked:
                _put(conn, term)
            known = {term.name: term for term in _all(conn)}
            return [known[term.name] for term in checked if term.name in known]

        return self._change(change)

    def remove(self, name: str) -> None:
        """Know a name no more. Raises `NotFoundError` when it is not known."""
        own = entities.key(checks.required_name("name", name))

        def change(conn: apsw.Connection) -> builtins.list[Term]:
            term = next((term for term in _all(conn) if entities.key(term.name) == own), None)
            if term is None:
                raise NotFoundError(f"the term {checks.brief(name)} is not known; nothing was removed.")
            conn.execute("DELETE FROM entity_terms WHERE name = ?", (term.name,))
            # What the term had said of the entity goes with it; what the memories say is found again.
            conn.execute("UPDATE entities SET kind = 'name' WHERE key = ?", (own,))
            return [term]

        self._change(change)

    def merge(self, name: str, into: str) -> Term:
        """Take `name`, and every other spelling of it, for spellings of `into`; return the whole term.

        Memories that mention the one then mention the other, those to which the caller gave it too. Either may be a
        known term, an entity that memories mention, or neither yet. Raises `InvalidInputError` when both are one.
        """
        name, into = checks.required_name("name", name), checks.required_name("into", into)

        def change(conn: apsw.Connection) -> builtins.list[Term]:
            terms = {entities.reading(spelling): term for term in _all(conn) for spelling in (term.name, *term.aliases)}
            one, other = terms.get(entities.reading(name)), terms.get(entities.reading(into))
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
            return [term for term in _all(conn) if entities.key(term.name) == entities.key(target)]

        return self._change(change)[0]

    def list(self) -> builtins.list[Term]:
        """Return all known terms by name."""
        with self._database.read() as conn:
            return _all(conn)

    def _change(self, change: Callable[[apsw.Connection], builtins.list[Term]]) -> builtins.list[Term]:
        """Carry out a change of the terms and find the entities again of every memory that it can concern, as one.

        The change is tried first and taken back: finding is the slow part, and no other writer waits for that.
        """
        try:
            with self._database.write() as conn:
                rows = self._concerned(conn, change(conn))
                known = entities.known_terms(conn)
                raise _TakenBack
        except _TakenBack:
            pass
        found = {one: found_in(row, known, self._recogniser) for one, row in rows.items()}
        with self._database.write() as conn:
            terms = change(conn)
            learnt = entities.known_terms(conn)
            for one, row in self._concerned(conn, terms).items():
                if learnt != known or rows.get(one) != row:
                    # Someone else has changed the memory, or the terms, meanwhile.
                    found[one] = found_in(row, learnt, self._recogniser)
                entities.index(conn, one, found[one], entities.given(conn, one))
        return terms

    def _concerned(self, conn: apsw.Connection, terms: Iterable[Term]) -> dict[int, Row]:
        """Return the memories that can mention a spelling of some terms, or are linked to one."""
        staleness.agree(conn, self._analyser)
        ids = {
            memory_id
            for term in terms
            for spelling in (term.name, *term.aliases)
            for memory_id in (*self._holding(conn, spelling), *entities.linked(conn, spelling))
        }
        rows = {one: memories.get(conn, one) for one in sorted(ids)}
        return {one: row for one, row in rows.items() if row is not None}

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


def _checked(term: Term) -> Term:
    if not isinstance(term, Term):
        raise InvalidInputError(f"a term is {type(term).__name__}, not Term; nothing was taken.")
    return Term(
        name=checks.required_name("name", term.name),
        kind=checks.required_name("kind", term.kind),
        aliases=checks.names("aliases", term.aliases),
    )


def _put(conn: apsw.Connection, term: Term) -> None:
    own = entities.key(term.name)
    spellings = {entities.reading(spelling): spelling for spelling in (*term.aliases, term.name)}
    if "" in spellings:
        raise InvalidInputError(f"{spellings['']!r} has no word to know it by; nothing was taken.")
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

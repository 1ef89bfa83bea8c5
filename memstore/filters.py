"""Namespace, tags, metadata, time, thread, author and what is superseded as one SQL condition with bound values."""

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from memstore import checks
from memstore.database import one_value
from memstore.errors import InvalidInputError
from memstore.records import Moment

_COMPARISONS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_OPERATORS = ("$eq", "$ne", "$in", *_COMPARISONS, "$exists")
# What the memories that are there at a time as stored replace, itself or in turn: what has expired passes a link on.
_SUPERSEDED = (
    "(WITH RECURSIVE older (id) AS (SELECT replaces FROM memories WHERE replaces IS NOT NULL"
    " AND (expires_at IS NULL OR expires_at > ?) UNION SELECT r.replaces FROM older o JOIN memories r ON r.id = o.id"
    " WHERE r.replaces IS NOT NULL) SELECT id FROM older)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which memories may answer; times are UTC text as stored, `after` included and `before` not.

    `where` maps a metadata path to a value or to operators. A path is the name of a field, or names joined by dots for
    a field inside a field. Values are compared with their type: 7 equals 7.0 and never "7", true is not 1, null is a
    null that is there. `$ne` is all that `$eq` is not, absent fields too; the four inequalities compare numbers with
    numbers and text with text. `since` is of the last change, its instant included. Unless `superseded` says so, what
    another unexpired memory replaces, itself or through expired ones, does not pass.
    """

    namespace: str | None = None
    tags: tuple[str, ...] = ()
    where: Mapping[str, Any] | None = None
    after: str | None = None
    before: str | None = None
    thread: str | None = None
    author: str | None = None
    since: str | None = None
    superseded: bool = False

    def condition(self, conn: apsw.Connection, now: str) -> "Condition | None":
        """Return the condition on `memories m`, or None when every memory passes; expired ones never do."""
        parts, values = self.parts()
        if one_value(conn, "SELECT EXISTS (SELECT 1 FROM memories WHERE expires_at <= ?)", (now,)):
            parts.append("(m.expires_at IS NULL OR m.expires_at > ?)")
            values.append(now)
        if not self.superseded and one_value(conn, "SELECT EXISTS (SELECT 1 FROM memories WHERE replaces IS NOT NULL)"):
            lapsed = "SELECT EXISTS (SELECT 1 FROM memories WHERE replaces IS NOT NULL AND expires_at <= ?)"
            if one_value(conn, lapsed, (now,)):
                parts.append(f"m.id NOT IN {_SUPERSEDED}")
                values.append(now)
            else:
                parts.append("NOT EXISTS (SELECT 1 FROM memories r WHERE r.replaces = m.id)")
        return Condition(sql=" AND ".join(parts), values=tuple(values)) if parts else None

    def parts(self) -> tuple[list[str], list[Any]]:
        """Return the conditions that the filter names, to be joined by AND, and the values bound to them.

        Raises `InvalidInputError` on an unknown operator or a value that metadata can't hold.
        """
        parts: list[str] = []
        values: list[Any] = []
        for column, value in (("namespace", self.namespace), ("thread", self.thread), ("author", self.author)):
            if value is not None:
                parts.append(f"m.{column} = ?")
                values.append(value)
        for tag in self.tags:
            parts.append("EXISTS (SELECT 1 FROM tags t WHERE t.memory_id = m.id AND t.tag = ?)")
            values.append(tag)
        if self.after is not None:
            parts.append("m.created_at >= ?")
            values.append(self.after)
        if self.before is not None:
            parts.append("m.created_at < ?")
            values.append(self.before)
        if self.since is not None:
            parts.append("m.updated_at >= ?")
            values.append(self.since)
        for path, wanted in (self.where or {}).items():
            sql, bound = _metadata_condition(path, wanted)
            parts.append(sql)
            values.extend(bound)
        if len(parts) > checks.MOST_CONDITIONS:
            raise InvalidInputError(
                f"the filter has {len(parts)} conditions, at most {checks.MOST_CONDITIONS} are allowed."
            )
        return parts, values


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """SQL over `memories m` and the values bound to it."""

    sql: str
    values: tuple[Any, ...]

    @property
    def ids(self) -> str:
        """The ids that pass, as a subquery; bind `values` to it."""
        return f"(SELECT m.id FROM memories m WHERE {self.sql})"

    @property
    def passages(self) -> str:
        """The passage ids of the memories that pass, as a subquery; bind `values` to it."""
        return f"(SELECT p.id FROM passages p JOIN memories m ON m.id = p.memory_id WHERE {self.sql})"


def checked(
    namespace: str | None,
    tags: Sequence[str],
    where: Mapping[str, Any] | None,
    after: Moment | None,
    before: Moment | None,
    thread: str | None,
    author: str | None,
    *,
    superseded: bool = False,
) -> Filter:
    """Return a filter of what a caller gave, or raise `InvalidInputError`; times without a zone are local time."""
    if where is not None and not isinstance(where, Mapping):
        raise InvalidInputError(f"where is {type(where).__name__}; give a mapping of metadata path to value.")
    chosen = Filter(
        namespace=checks.name("namespace", namespace),
        tags=checks.names("tags", tags),
        where=where,
        after=None if after is None else checks.instant("after", after).utc,
        before=None if before is None else checks.instant("before", before).utc,
        thread=checks.name("thread", thread),
        author=checks.name("author", author),
        superseded=checks.flag("superseded", superseded),
    )
    chosen.parts()
    return chosen


def superseding(memory: str) -> str:
    """Return the SQL of the ids of what supersedes a memory (an SQL value) at a time as stored, bound as ?1.

    Those are the unexpired memories that replace it, itself or through expired ones.
    """
    live = "expires_at IS NULL OR expires_at > ?1"
    return (
        f"(WITH RECURSIVE newer (id, live) AS (SELECT id, {live} FROM memories WHERE replaces = {memory}"
        f" UNION SELECT r.id, {live} FROM newer n JOIN memories r ON r.replaces = n.id WHERE NOT n.live)"
        " SELECT id FROM newer WHERE live)"
    )


def _metadata_condition(path: str, wanted: Any) -> tuple[str, list[Any]]:
    if not isinstance(path, str):
        raise InvalidInputError(f"where: the path {checks.brief(path)} is not text; name a metadata field.")
    checks.refuse_unstorable("a path of where", path)
    if not isinstance(wanted, Mapping):
        wanted = {"$eq": wanted}
    if not wanted:
        raise InvalidInputError(
            f"where[{checks.brief(path)}] is empty; give a value or one of {', '.join(_OPERATORS)}."
        )
    parts: list[str] = []
    values: list[Any] = []
    for operator, value in wanted.items():
        test, bound = _test(path, operator, value)
        exists, path_values = _exists(path, test, bound)
        negated = operator == "$ne" or (operator == "$exists" and not value)
        parts.append(f"NOT {exists}" if negated else exists)
        values.extend(path_values)
    return " AND ".join(parts), values


def _exists(path: str, test: str, bound: list[Any]) -> tuple[str, list[Any]]:
    """Say that the field at `path` passes `test` (on columns type and value): the literal name, or name by name."""
    path = unicodedata.normalize("NFC", path)
    literal = f"EXISTS (SELECT 1 FROM json_each(m.metadata) f WHERE f.key = ? AND {test.replace('@', 'f')})"
    names = path.split(".")
    if len(names) == 1:
        return literal, [path, *bound]
    if len(names) > checks.MOST_LEVELS:
        raise InvalidInputError(f"where: the path has {len(names)} levels, at most {checks.MOST_LEVELS} are allowed.")
    tables = ["json_each(m.metadata) f0"]
    for level in range(1, len(names)):
        above = f"f{level - 1}"
        tables.append(f"json_each(CASE {above}.type WHEN 'object' THEN {above}.value ELSE '{{}}' END) f{level}")
    last = f"f{len(names) - 1}"
    keys = " AND ".join(f"f{level}.key = ?" for level in range(len(names)))
    nested = f"EXISTS (SELECT 1 FROM {', '.join(tables)} WHERE {keys} AND {test.replace('@', last)})"
    return f"({literal} OR {nested})", [path, *bound, *names, *bound]


def _test(path: str, operator: str, value: Any) -> tuple[str, list[Any]]:
    if operator in ("$eq", "$ne"):
        return _equals(path, value)
    if operator == "$in":
        if isinstance(value, str) or not isinstance(value, Sequence | set | frozenset):
            raise InvalidInputError(
                f"where[{checks.brief(path)}]: $in takes a list of values, not {checks.brief(value)}."
            )
        tests = [_equals(path, one) for one in value]
        if len(tests) > checks.MOST_CONDITIONS:
            raise InvalidInputError(
                f"where[{checks.brief(path)}]: $in has {len(tests)} values, at most {checks.MOST_CONDITIONS}."
            )
        return "(" + (" OR ".join(sql for sql, _ in tests) or "0") + ")", [one for _, bound in tests for one in bound]
    if operator == "$exists":
        if not isinstance(value, bool):
            raise InvalidInputError(
                f"where[{checks.brief(path)}]: $exists takes true or false, not {checks.brief(value)}."
            )
        return "1", []
    if operator in _COMPARISONS:
        plain = _plain(path, value)
        if isinstance(plain, bool) or plain is None:
            raise InvalidInputError(
                f"where[{checks.brief(path)}]: {operator} compares numbers or text, not {checks.brief(value)}."
            )
        types = "@.type = 'text'" if isinstance(plain, str) else "@.type IN ('integer', 'real')"
        return f"({types} AND @.value {_COMPARISONS[operator]} ?)", [plain]
    raise InvalidInputError(
        f"where[{checks.brief(path)}]: unknown operator {operator!r}; the operators are {', '.join(_OPERATORS)}."
    )


def _equals(path: str, value: Any) -> tuple[str, list[Any]]:
    plain = _plain(path, value)
    if plain is None:
        return "@.type = 'null'", []
    if isinstance(plain, bool):
        return f"@.type = '{json.dumps(plain)}'", []
    types = "@.type = 'text'" if isinstance(plain, str) else "@.type IN ('integer', 'real')"
    return f"({types} AND @.value = ?)", [plain]


def _plain(path: str, value: Any) -> str | int | float | bool | None:
    """Return a filter value as Python's own type: numpy scalars give theirs, text its composed form."""
    value = checks.native(value)
    if isinstance(value, str):
        checks.refuse_unstorable(f"where[{checks.brief(path)}]", value)
        return unicodedata.normalize("NFC", value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= checks.LARGEST_INTEGER:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise InvalidInputError(
        f"where[{checks.brief(path)}]: {checks.brief(value)} can not be compared; give text, a number, true or null."
    )

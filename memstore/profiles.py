"""`store.profiles`: weights by name, the built-in ones and those that were saved in the file."""

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import apsw

from memstore import checks, semantic
from memstore import fusion as fusing
from memstore.database import Database, all_rows, one_value
from memstore.errors import DamagedStoreError, InvalidInputError, NotFoundError
from memstore.fusion import PROFILES
from memstore.fusion.weights import checked
from memstore.records import Weights

_NUMBERS = ("keyword", "semantic", "entity", "boost", "thread")
_FIELDS = (*_NUMBERS, "spaces")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Weights and the name that a search knows them by."""

    name: str
    weights: Weights


class Profiles:
    """The profiles that searches of one store may name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> Mapping[str, Weights]:
        """Return all profiles by name: the built-in ones, then those of the file; warn of one that can't be read."""
        with self._database.read() as conn:
            rows = all_rows(conn, "SELECT name, weights FROM profiles ORDER BY name")
        found = dict(PROFILES)
        for name, stored in rows:
            if name not in PROFILES:
                try:
                    found[name] = _read(name, stored)
                except DamagedStoreError as error:
                    warnings.warn(f"{str(error).rstrip('.')}; it is left out.", stacklevel=2)
        return found

    def save(self, name: str, weights: Weights | Mapping[str, float]) -> Weights:
        """Keep weights in the file under a name, in place of what it had, and return them as they are kept.

        Raises `InvalidInputError` on the name of a built-in profile, on numbers that mean nothing and on a space that
        the file does not have, `ReadOnlyError` on a store that can't be changed.
        """
        profile = Profile(name=self.savable(name), weights=floats(checked(weights)))
        with self._database.write() as conn:
            _refuse_unknown(conn, profile, "name one that is there, or leave it out")
            _put(conn, profile)
        return profile.weights

    def save_many(self, profiles: Iterable[Profile]) -> None:
        """Keep many profiles, all or none of them.

        A space that the file does not have is no error here: an import brings none, and the same name may be added.
        """
        found = [Profile(name=own_name(one.name), weights=floats(checked(one.weights))) for one in profiles]
        if found:
            with self._database.write() as conn:
                for one in found:
                    _put(conn, one)

    def savable(self, name: str) -> str:
        """Return a name as it is kept, before any work is done for its weights; raises what `save` does."""
        found = own_name(name)
        self._database.require_writable()
        return found

    def remove(self, name: str) -> None:
        """Take a profile out of the file, one that can't be read too.

        Raises `NotFoundError` when the file has none of that name, `InvalidInputError` when it is built in.
        """
        name = own_name(name)
        with self._database.write() as conn:
            conn.execute("DELETE FROM profiles WHERE name = ?", (name,))
            if not conn.changes():
                raise NotFoundError(f"there is no profile {checks.brief(name)} in the file; nothing was removed.")

    def weights(self, profile: str, own: Weights | Mapping[str, float] | None) -> Weights:
        """Return what a search is to use: the caller's own weights, else those of a profile.

        Raises `InvalidInputError` on what is neither, and on a profile with a space that the file has no longer;
        `DamagedStoreError` when the profile can't be read.
        """
        if not isinstance(profile, str) or profile in PROFILES:
            return fusing.weights(profile, own)
        with self._database.read() as conn:
            names = [name for (name,) in all_rows(conn, "SELECT name FROM profiles ORDER BY name")]
            checks.one_of("profile", profile, (*PROFILES, *names))
            stored = one_value(conn, "SELECT weights FROM profiles WHERE name = ?", (profile,))
            found = Profile(name=profile, weights=_read(profile, stored))
            _refuse_unknown(conn, found, "tune or save it again, or name another profile")
        return found.weights if own is None else checked(own, found.weights)


def own_name(value: Any) -> str:
    """Return the name of a profile as the file keeps it; raise `InvalidInputError` when it is built in or no name."""
    found = checks.required_name("profile", value)
    if found in PROFILES:
        raise InvalidInputError(f"the profile {found!r} is built in and stays as it is; give another name.")
    return found


def from_fields(fields: Any) -> Weights:
    """Return weights of what JSON held; raise `InvalidInputError` on an unknown field or a number that means nothing.

    What is left out has its default.
    """
    if not isinstance(fields, dict):
        raise InvalidInputError(f"weights is a JSON {type(fields).__name__}; give an object of {', '.join(_FIELDS)}.")
    unknown = sorted(set(fields) - set(_FIELDS))
    if unknown:
        raise InvalidInputError(
            f"weights has no field {checks.brief(unknown[0])}; its fields are {', '.join(_FIELDS)}."
        )
    found = checked(Weights(**fields))
    for space in found.spaces:
        checks.required_name("space", space)
    return floats(found)


def to_fields(weights: Weights) -> dict[str, Any]:
    """Return weights as JSON holds them: `from_fields` gives the same again."""
    return {name: getattr(weights, name) for name in _NUMBERS} | {"spaces": dict(weights.spaces)}


def floats(weights: Weights) -> Weights:
    """Return weights whose numbers, of whatever type they were, are Python's floats."""
    return Weights(
        **{name: float(getattr(weights, name)) for name in _NUMBERS},
        spaces={name: float(value) for name, value in weights.spaces.items()},
    )


def _put(conn: apsw.Connection, profile: Profile) -> None:
    conn.execute(
        "INSERT INTO profiles (name, weights) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET weights = excluded.weights",
        (profile.name, json.dumps(to_fields(profile.weights), ensure_ascii=False)),
    )


def _read(name: str, stored: Any) -> Weights:
    try:
        return from_fields(json.loads(stored))
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedStoreError(
            f"the profile {checks.brief(name)} can't be read ({str(error).rstrip('.')}); save it again, or remove it."
        ) from error


def _refuse_unknown(conn: apsw.Connection, profile: Profile, remedy: str) -> None:
    there = [space.name for space in semantic.spaces(conn)]
    for name in profile.weights.spaces:
        if name not in there:
            raise InvalidInputError(
                f"the profile {profile.name!r} has a weight for the embedding space {checks.brief(name)}, and the file"
                f" has {', '.join(there) or 'no space'}; {remedy}."
            )

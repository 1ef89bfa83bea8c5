"""What a caller gives, checked and put in one form, before anything is analysed or written."""

import hashlib
import json
import math
import operator
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from memstore.analysis import LANGUAGES
from memstore.errors import InvalidInputError
from memstore.masking import masked, masked_values
from memstore.records import Ageing, Moment, NewMemory, Preset

# How much there can be of what: README has it as a table, tests/test_limits.py tries each and one more.
# Characters of a memory's text: to analyse so many takes half a minute, of nothing but different words a minute and a
# half and 1.5 GB.
LONGEST_TEXT = 10 * 2**20
# Characters of a namespace, author, thread, tag, entity, known term, space or profile, and of a key.
LONGEST_NAME = 1_000
LONGEST_KEY = 4_000
# Tags of a memory, its given entities, and the aliases of a term.
MOST_TAGS = 1_000
# Characters of metadata as JSON, and levels of lists and mappings in it.
LARGEST_METADATA = 1_000_000
DEEPEST_METADATA = 100
# Conditions of a filter and values of one `$in`; names in the path of a condition.
MOST_CONDITIONS = 100
MOST_LEVELS = 20
# Characters of a query that are read: past a pasted page there is nothing more to ask.
LONGEST_QUERY = 100_000
# k, depth, limit, offset, max_tokens, seconds.
LARGEST_NUMBER = 2**31
# Ids, and whole numbers in metadata: what 64 bits hold.
LARGEST_INTEGER = 2**63 - 1
_LARGEST_AGEING = 1e6
_LONGEST_SHOWN = 100
_SURROGATE = re.compile("[\ud800-\udfff]")
_WHITE_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """A time: UTC text as stored, and the minutes east of UTC that the caller's clock showed."""

    utc: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A memory whose every field can be stored; None is what the caller did not give."""

    text: str
    key: str | None
    namespace: str
    author: str | None
    thread: str | None
    position: float | None
    created: Instant | None
    expires: Instant | None
    tags: tuple[str, ...]
    metadata: dict[str, Any] | None
    entities: tuple[str, ...]
    language: str | None
    pinned: bool
    replaces: int | None


def checked(new: NewMemory) -> Checked:
    """Return `new` in the form that is stored, or raise `InvalidInputError` that names the field and the remedy."""
    if new.position is not None and new.thread is None:
        raise InvalidInputError("position is given without a thread; name the thread that it is a place in.")
    return Checked(
        text=text(new.text),
        key=name("key", new.key, longest=LONGEST_KEY),
        namespace=namespace(new.namespace),
        author=name("author", new.author),
        thread=name("thread", new.thread),
        position=position(new.position),
        created=None if new.created_at is None else instant("created_at", new.created_at),
        expires=None if new.expires_at is None else instant("expires_at", new.expires_at),
        tags=names("tags", new.tags),
        metadata=None if new.metadata is None else metadata(new.metadata),
        entities=names("entities", new.entities),
        language=name("language", new.language),
        pinned=flag("pinned", new.pinned),
        replaces=None if new.replaces is None else identifier(new.replaces, "replaces"),
    )


def without_secrets(new: Checked) -> Checked:
    """Return a memory without what has the shape of a key or token in its text and metadata."""
    return replace(new, text=masked(new.text), metadata=None if new.metadata is None else masked_values(new.metadata))


def text(value: Any) -> str:
    """Return the text of a memory unchanged, or refuse it."""
    if not isinstance(value, str):
        raise InvalidInputError(f"text is {type(value).__name__}, not str; nothing was stored.")
    if not value.strip():
        raise InvalidInputError("text is empty; nothing was stored.")
    if len(value) > LONGEST_TEXT:
        raise InvalidInputError(f"text has {len(value):,} characters, at most {LONGEST_TEXT:,} are stored; split it.")
    refuse_unstorable("text", value)
    return value


def namespace(value: Any) -> str:
    """Return a namespace, or refuse it."""
    return required_name("namespace", value)


def required_name(field: str, value: Any) -> str:
    """Return a name that must be there, or refuse it."""
    found = name(field, value)
    if found is None:
        raise InvalidInputError(f"{field} is None; name something.")
    return found


def brief(value: Any) -> str:
    """Return a value as an error shows it: whole when it is short."""
    try:
        shown = repr(value)
    except Exception:
        # A number of thousands of digits has none, nor what a caller's own class can't show.
        digits = isinstance(value, int)
        return "a number of thousands of digits" if digits else f"something of the type {type(value).__name__}"
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"


def one_of(field: str, value: Any, allowed: Collection[str]) -> str:
    """Return a value from a fixed list, or refuse it."""
    if not isinstance(value, str) or value not in allowed:
        there = ", ".join(one if one.isprintable() else brief(one) for one in allowed)
        raise InvalidInputError(f"the {field} {brief(value)} is unknown; give one of {there}.")
    return value


def name(field: str, value: Any, *, longest: int = LONGEST_NAME) -> str | None:
    """Return a name (author, thread, key, tag, …) composed and trimmed, or refuse it; None stays None."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInputError(f"{field} is {type(value).__name__}, not str.")
    found = unicodedata.normalize("NFC", value).strip()
    if not found:
        raise InvalidInputError(f"{field} is empty; leave it out or name something.")
    if len(found) > longest:
        raise InvalidInputError(f"{field} has {len(found):,} characters, at most {longest:,} are allowed.")
    refuse_unstorable(field, found)
    return found


def names(field: str, values: Any) -> tuple[str, ...]:
    """Return distinct names in the order given, or refuse them."""
    if isinstance(values, str) or not isinstance(values, Sequence | set | frozenset):
        raise InvalidInputError(f"{field} is {type(values).__name__}; give a list of names.")
    found = tuple(dict.fromkeys(required_name(field, value) for value in values))
    if len(found) > MOST_TAGS:
        raise InvalidInputError(f"{field} has {len(found):,} names, at most {MOST_TAGS:,} are allowed.")
    return found


def position(value: Any) -> float | None:
    """Return a place in a thread, or refuse it."""
    if value is None:
        return None
    value = native(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInputError(f"position is {brief(value)}; give a finite number.")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise InvalidInputError("position is not finite; give a number that a float can hold.")
    # SQLite has no -0.0, and the hash of the row is made before it is stored.
    return found + 0.0


def codes(value: Any) -> tuple[str, ...]:
    """Return the two-letter codes of languages, or refuse what is none."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidInputError(f"languages is {brief(value)}; give a list of two-letter codes such as ['en'].")
    found = tuple(dict.fromkeys(value))
    for one in found:
        if not isinstance(one, str) or not re.fullmatch("[a-z]{2}", one):
            raise InvalidInputError(f"languages: {brief(one)} is no two-letter code; give one such as 'en'.")
    return found


def languages(value: Any) -> tuple[str, ...]:
    """Return the languages of a store, or refuse one that is not known."""
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, Sequence) or not given:
        raise InvalidInputError(f"languages is {brief(value)}; give some of {', '.join(LANGUAGES)}.")
    return tuple(dict.fromkeys(one_of("language", one, LANGUAGES) for one in given))


def whole(field: str, value: Any, *, least: int) -> int:
    """Return a whole number of at least `least`, or refuse it."""
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = None
    if found is None or not least <= found <= LARGEST_NUMBER:
        raise InvalidInputError(f"{field} is {brief(value)}; give a whole number from {least} to {LARGEST_NUMBER:,}.")
    return found


def flag(field: str, value: Any) -> bool:
    """Return true or false, or refuse what is neither."""
    value = native(value)
    if not isinstance(value, bool):
        raise InvalidInputError(f"{field} is {brief(value)}; give true or false.")
    return value


def ageing(value: Any) -> Ageing:
    """Return what age counts for, or refuse numbers that mean nothing."""
    if not isinstance(value, Ageing):
        raise InvalidInputError(f"ageing is {type(value).__name__}; give Ageing, or leave it out.")
    for field in ("recency", "use", "pinned"):
        weight = native(getattr(value, field))
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= _LARGEST_AGEING:
            raise InvalidInputError(
                f"ageing: {field} is {brief(weight)}; give a number from 0 to {_LARGEST_AGEING:,.0f}."
            )
    days = native(value.half_life)
    if isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days <= LARGEST_NUMBER:
        raise InvalidInputError(
            f"ageing: half_life is {brief(days)}; give days, more than 0 and at most {LARGEST_NUMBER:,}."
        )
    return value


def floor(value: Any) -> float | None:
    """Return a share of a space's scale, or None for no bound, or refuse it."""
    if value is None:
        return None
    found = native(value)
    if isinstance(found, bool) or not isinstance(found, int | float) or not -1 <= found <= 1:
        raise InvalidInputError(f"floor is {brief(value)}; give a number from -1 to 1, or None for no bound.")
    return float(found)


def preset(value: Any) -> Preset:
    """Return how a kind of search looks, or refuse what means nothing."""
    if not isinstance(value, Preset):
        raise InvalidInputError(f"preset is {type(value).__name__}; give a Preset, or leave it out.")
    try:
        return Preset(
            k=whole("k", value.k, least=1),
            depth=whole("depth", value.depth, least=1),
            floor=floor(value.floor),
            min_relevance=None if value.min_relevance is None else share("min_relevance", value.min_relevance),
            rerank=flag("rerank", value.rerank),
        )
    except InvalidInputError as error:
        raise InvalidInputError(f"preset: {error}") from error


def seconds(field: str, value: Any) -> float:
    """Return a number of seconds, or refuse it."""
    value = native(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_NUMBER:
        raise InvalidInputError(f"{field} is {brief(value)}; give a number of seconds from 0 to {LARGEST_NUMBER:,}.")
    return float(value)


def share(field: str, value: Any) -> float:
    """Return a number from 0 to 1, or refuse it."""
    value = native(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInputError(f"{field} is {brief(value)}; give a number from 0 to 1.")
    return float(value)


def amount(field: str, value: Any) -> float:
    """Return a number above 0 of what is counted or paid, or refuse it."""
    value = native(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST_NUMBER:
        raise InvalidInputError(f"{field} is {brief(value)}; give a number above 0, at most {LARGEST_NUMBER:,}.")
    return float(value)


def identifier(value: Any, field: str = "") -> int:
    """Return a memory's id as Python's own number, or refuse it by the name of its field."""
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = None
    if found is None:
        raise InvalidInputError(f"{field and field + ': '}the id {brief(value)} is not a whole number.")
    return found


def identifiers(values: Any) -> list[int]:
    """Return one id, or each of several, as `identifier` does."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        return [identifier(values)]
    return [identifier(one) for one in values]


def instant(field: str, value: Moment) -> Instant:
    """Return a time; one without a zone is local time, a date its first moment."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InvalidInputError(
                f"{field} is {brief(value)}; give an ISO 8601 date or time, such as 2025-03-31T14:00-03:00."
            ) from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise InvalidInputError(f"{field} is {type(value).__name__}; give a datetime, a date or ISO 8601 text.")
    try:
        aware = value.astimezone() if value.utcoffset() is None else value
        moved = aware.astimezone(UTC)
    except (OverflowError, ValueError, OSError):
        raise InvalidInputError(f"{field} is {value}; years 1 to 9999 in UTC can be stored.") from None
    offset = aware.utcoffset() or timedelta(0)
    return Instant(utc=stamp(moved), offset=round(offset.total_seconds() / 60))


def stamp(moment: datetime) -> str:
    """Return a UTC time as stored, 27 characters that sort as they read."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def now() -> str:
    """Return the present as stored."""
    return stamp(datetime.now(UTC))


def moment(stored: str) -> datetime:
    """Return a stored time as an aware datetime in UTC."""
    return datetime.fromisoformat(stored)


def here(moment: datetime) -> datetime:
    """Return a time as this machine's clock shows it, or in UTC where no clock could, at the ends of the calendar."""
    try:
        return moment.astimezone()
    except (OverflowError, ValueError, OSError):
        return moment.astimezone(UTC)


def local(stored: str, offset: int) -> datetime:
    """Return a stored time as the clock that it was given by showed it."""
    return moment(stored).astimezone(timezone(timedelta(minutes=offset)))


def metadata(value: Any) -> dict[str, Any]:
    """Return metadata as JSON holds it (names and text composed, numpy scalars native), or refuse it by field."""
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"metadata is {type(value).__name__}; give a mapping of names to JSON values.")
    found: dict[str, Any] = _json("metadata", value, 0)
    if len(encoded(found)) > LARGEST_METADATA:
        raise InvalidInputError(f"metadata is larger than {LARGEST_METADATA:,} characters of JSON; store it as text.")
    return found


def encoded(value: Mapping[str, Any]) -> str:
    """Return metadata as the JSON text that is stored."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def same_metadata(one: str, other: str) -> bool:
    """Say whether two stored metadata are equal, in whatever order their names stand; 1 and true differ."""
    return json.dumps(decoded(one), sort_keys=True) == json.dumps(decoded(other), sort_keys=True)


def digest(content: bytes) -> bytes:
    """Return the 16-byte hash that is kept beside texts, rows and vectors."""
    return hashlib.blake2b(content, digest_size=16).digest()


def decoded(stored: str) -> dict[str, Any]:
    """Return stored metadata."""
    found: dict[str, Any] = json.loads(stored)
    return found


def normalised(value: str) -> str:
    """Return text in the form in which two texts are the same memory: composed, white space as single blanks."""
    return _WHITE_SPACE.sub(" ", unicodedata.normalize("NFC", value)).strip()


def _json(field: str, value: Any, depth: int) -> Any:
    if depth > DEEPEST_METADATA:
        raise InvalidInputError(f"metadata is nested deeper than {DEEPEST_METADATA} levels.")
    value = native(value)
    if isinstance(value, str):
        refuse_unstorable(field, value)
        return unicodedata.normalize("NFC", value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) > LARGEST_INTEGER:
            raise InvalidInputError(f"{field} is a whole number beyond 64 bits; give it as text.")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInputError(f"{field} is {value}, which JSON can't hold; give a finite number or null.")
        return value
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for key, one in value.items():
            if not isinstance(key, str):
                raise InvalidInputError(f"{field} has the name {key!r}; names in metadata are text.")
            refuse_unstorable(field, key)
            composed = unicodedata.normalize("NFC", key)
            if composed in found:
                raise InvalidInputError(f"{field} has the name {composed!r} twice, composed and decomposed.")
            found[composed] = _json(f"{field}[{key!r}]", one, depth + 1)
        return found
    if isinstance(value, list | tuple):
        return [_json(f"{field}[{index}]", one, depth + 1) for index, one in enumerate(value)]
    raise InvalidInputError(
        f"{field} is {type(value).__name__}, which JSON can't hold; give text, a number, true, null, a list or mapping."
    )


def native(value: Any) -> Any:
    """Return a numpy scalar as Python's own type, anything else as it is."""
    # A numpy scalar is not a JSON type, but holds one; known by its method so that numpy need not be imported.
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    return value


def refuse_unstorable(field: str, value: str) -> None:
    """Refuse half characters and NUL, which neither UTF-8 nor every C library can carry."""
    found = _SURROGATE.search(value)
    if found:
        raise InvalidInputError(
            f"{field} has half a character (the lone surrogate U+{ord(found.group()):04X} at {found.start()}); "
            "decode the source again, or replace it. Nothing was stored."
        )
    if "\x00" in value:
        raise InvalidInputError(f"{field} has a NUL character at {value.index(chr(0))}; remove it. Nothing was stored.")

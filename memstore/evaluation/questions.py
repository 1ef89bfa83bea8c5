"""Questions whose right memories are known, as JSON Lines: text in, no store."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from memstore import checks
from memstore.errors import InvalidInputError

LARGEST_GRADE = 1_000_000.0
_EXAMPLE = 'give an object such as {"text": "who pays?", "relevant": ["billing/owner"]}'
_IDS = "give ids as whole numbers or keys as text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A question and the memories that answer it.

    `relevant` holds ids or keys of memories as text, `grades` what finding each of them is worth (1 where the file
    says nothing), `category` a kind of question to be told apart, `namespace` where it is asked, None everywhere.
    """

    id: str
    text: str
    relevant: tuple[str, ...]
    grades: Mapping[str, float] = field(default_factory=dict)
    category: str | None = None
    namespace: str | None = None


def read(lines: Iterable[str], *, judged: bool = True) -> tuple[Judged, ...]:
    """Return the judged questions of JSON Lines, one object a line.

    An object has `text` (or `query`, `question`) and `relevant`, and may have `id` (else it is the number of the
    line), `grades`, `category` (or `kind`) and `namespace` (or `scope`); other fields, which published collections
    have, are passed over, and so are blank lines. Raises `InvalidInputError` with the number of the first line that is
    none, that says an id again, or that names no relevant memory: a question without an answer is not judged here.

    Without `judged` a question may name no relevant memory, and a line that begins no object is the text of one.
    """
    found: dict[str, Judged] = {}
    places: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        line = line.lstrip("\ufeff")
        if not line.strip():
            continue
        try:
            one = _question(line, number, judged)
            if one.id in found:
                raise InvalidInputError(
                    f"the id {checks.brief(one.id)} is that of line {places[one.id]} too; give each question its own."
                )
        except InvalidInputError as error:
            raise InvalidInputError(f"line {number}: {error}") from error
        found[one.id], places[one.id] = one, number
    if not found:
        raise InvalidInputError(f"there is no question, at least one is needed; {_EXAMPLE}, one a line.")
    return tuple(found.values())


def _question(line: str, number: int, judged: bool) -> Judged:
    if not judged and not line.lstrip().startswith("{"):
        return Judged(id=str(number), text=_text("text", line.strip()), relevant=())
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"this is not JSON ({error}); {_EXAMPLE}.") from error
    if not isinstance(fields, dict):
        raise InvalidInputError(f"this is a JSON {type(fields).__name__}; {_EXAMPLE}.")
    relevant = _relevant(fields.get("relevant")) if judged or fields.get("relevant") not in (None, []) else ()
    given_id, category = fields.get("id"), _first(fields, "category", "kind")
    return Judged(
        id=str(number) if given_id is None else _identity("id", given_id),
        text=_text(*_first(fields, "text", "query", "question")),
        relevant=relevant,
        grades=_grades(fields.get("grades"), relevant),
        category=None if category[1] is None else _identity(*category),
        namespace=checks.name(*_first(fields, "namespace", "scope")),
    )


def _first(fields: Mapping[str, Any], *names: str) -> tuple[str, Any]:
    """Return the first of some fields that is given, by its name; the first name and None when none is."""
    return next(((name, fields[name]) for name in names if fields.get(name) is not None), (names[0], None))


def _text(name: str, value: Any) -> str:
    if value is None:
        raise InvalidInputError(f"there is no field 'text' (nor 'query', nor 'question'); {_EXAMPLE}.")
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} is {checks.brief(value)}, not text; write the question as a string.")
    if not value.strip():
        raise InvalidInputError(f"{name} is blank; write the question.")
    checks.refuse_unstorable(name, value)
    return value


def _relevant(value: Any) -> tuple[str, ...]:
    if value is None:
        raise InvalidInputError(f"there is no field 'relevant'; {_IDS}, at least one.")
    given = value if isinstance(value, list) else [value]
    if not given:
        raise InvalidInputError(f"relevant is empty; {_IDS}, at least one, or leave the question out.")
    return tuple(dict.fromkeys(_identity("relevant", one) for one in given))


def _grades(value: Any, relevant: tuple[str, ...]) -> dict[str, float]:
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise InvalidInputError(f"grades is {checks.brief(value)}; give an object of relevant id to number.")
    given: dict[str, float] = {}
    for one, gain in value.items():
        key = _identity("grades", one)
        if key not in relevant:
            raise InvalidInputError(
                f"grades has {checks.brief(key)}, which is not relevant; add it there or remove it."
            )
        if key in given:
            raise InvalidInputError(f"grades has {checks.brief(key)} twice; leave one.")
        # NaN compares false with every limit.
        if isinstance(gain, bool) or not isinstance(gain, int | float) or not 0 <= gain <= LARGEST_GRADE:
            raise InvalidInputError(
                f"the grade of {checks.brief(key)} is {checks.brief(gain)};"
                f" give a number from 0 to {LARGEST_GRADE:,.0f}."
            )
        given[key] = float(gain)
    found = {one: given.get(one, 1.0) for one in relevant}
    if found and not any(found.values()):
        raise InvalidInputError("grades are all 0, which leaves nothing to find; give one above 0.")
    return found


def _identity(name: str, value: Any) -> str:
    """Return an id or key as text, composed and trimmed as the store keeps keys, or refuse it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} holds {checks.brief(value)}; {_IDS}.")
    found = checks.name(name, value, longest=checks.LONGEST_KEY)
    assert found is not None
    return found

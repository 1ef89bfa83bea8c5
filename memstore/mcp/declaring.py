"""What a tool and its parameters are: shown to a model as JSON Schema, and what it gives checked against the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from memstore.errors import InvalidInputError

Kind: TypeAlias = Literal["text", "number", "flag", "texts", "numbers"]
Schema: TypeAlias = Mapping[str, Any]
_TYPES: Mapping[Kind, str] = {"text": "string", "number": "integer", "flag": "boolean"}
_LISTS: Mapping[Kind, Kind] = {"texts": "text", "numbers": "number"}
_SAID: Mapping[Kind, str] = {
    "text": "a text",
    "number": "a whole number",
    "flag": "true or false",
    "texts": "a list of texts",
    "numbers": "a list of whole numbers",
}
_LONGEST_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a tool; `least` and `most` bound a number, or how many a list has.

    A text may be empty only where `blank` says so: it then takes a field away.
    """

    name: str
    kind: Kind
    description: str
    required: bool = False
    default: Any = None
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    blank: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The parameter as JSON Schema."""
        listed = _LISTS.get(self.kind)
        shape: dict[str, Any] = {"type": "array", "items": {"type": _TYPES[listed]}} if listed else {}
        bounds = ("minItems", "maxItems") if listed else ("minimum", "maximum")
        shape = shape or {"type": _TYPES[self.kind]}
        shape |= {name: value for name, value in zip(bounds, (self.least, self.most), strict=True) if value is not None}
        if self.kind == "text" and self.required:
            shape["minLength"] = 1
        if self.choices:
            shape["enum"] = list(self.choices)
        if self.default is not None:
            shape["default"] = self.default
        return shape | {"description": self.description}

    def checked(self, value: Any) -> Any:
        """Return a value in the type of the parameter, or raise `InvalidInputError`."""
        if (listed := _LISTS.get(self.kind)) is None:
            found = _as(self.kind, value)
        elif isinstance(value, list):
            each = [_as(listed, one) for one in value]
            found = None if any(one is None for one in each) else each
        else:
            found = None
        if found is None or (self.kind == "text" and not self.blank and not found.strip()):
            raise InvalidInputError(f"{self.name} is {shown(value)}; give {_SAID[self.kind]}{self._within}.")
        if self.choices and found not in self.choices:
            raise InvalidInputError(f"{self.name} is {shown(value)}; give one of {', '.join(self.choices)}.")
        size = found if self.kind == "number" else len(found) if listed else None
        if size is not None and not (self._least <= size <= self._most):
            said = shown(value) if self.kind == "number" else f"a list of {size:,}"
            raise InvalidInputError(f"{self.name} is {said}; give {_SAID[self.kind]}{self._within}.")
        return found

    @property
    def _least(self) -> float:
        return float("-inf") if self.least is None else self.least

    @property
    def _most(self) -> float:
        return float("inf") if self.most is None else self.most

    @property
    def _within(self) -> str:
        if self.kind == "text":
            return "" if self.blank else " that is not empty"
        of = "" if self.kind == "number" else " of them"
        match self.least, self.most:
            case None, None:
                return ""
            case least, None:
                return f", at least {least:,}{of}"
            case None, most:
                return f", at most {most:,}{of}"
            case least, most:
                return f", {least:,} to {most:,}{of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool: what a model is told of it, and what its answer holds.

    `reads` says that it changes nothing, `destroys` that it may take away what was there; a repeated call with the same
    arguments changes nothing more, of any of them.
    """

    name: str
    title: str
    description: str
    parameters: tuple[Parameter, ...]
    output: Schema
    reads: bool = True
    destroys: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The parameters as JSON Schema."""
        return {
            "type": "object",
            "properties": {one.name: one.schema for one in self.parameters},
            "required": [one.name for one in self.parameters if one.required],
            "additionalProperties": False,
        }

    @property
    def listed(self) -> dict[str, Any]:
        """The tool as the protocol lists it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.schema,
            "outputSchema": dict(self.output),
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.reads,
                "destructiveHint": self.destroys,
                "idempotentHint": True,
                "openWorldHint": False,
            },
        }

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call with the defaults of those left out; null is left out too.

        Raises `InvalidInputError` on one that is missing, unknown or of another type.
        """
        known = {one.name: one for one in self.parameters}
        there = {name: value for name, value in given.items() if value is not None}
        unknown = [name for name in given if name not in known]
        if unknown:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise InvalidInputError(f"{self.name} has no parameter {shown(unknown[0])}; {takes}.")
        missing = [one for one in self.parameters if one.required and one.name not in there]
        if missing:
            raise InvalidInputError(f"{self.name} needs {missing[0].name}: give {_SAID[missing[0].kind]}.")
        defaults = {one.name: one.default for one in self.parameters if one.default is not None}
        return defaults | {name: known[name].checked(value) for name, value in there.items()}


def described(properties: Mapping[str, Schema], required: Sequence[str]) -> dict[str, Any]:
    """Return an object of these properties as JSON Schema; the others may be left out."""
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _as(kind: Kind, value: Any) -> Any:
    """Return a value in a type of one value, None where it is of another."""
    if kind == "text":
        return value if isinstance(value, str) else None
    if kind == "flag":
        return value if isinstance(value, bool) else None
    if isinstance(value, float) and value.is_integer():
        # JSON has one kind of number: 5.0 is 5.
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def shown(value: Any) -> str:
    """Return a value as an error shows it: what it is, whole when that is short."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    written = repr(value)
    return written if len(written) <= _LONGEST_SHOWN else f"{written[:_LONGEST_SHOWN]}…"

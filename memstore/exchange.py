"""Memories as JSON Lines and as Markdown: text in and out, no store."""

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any, TextIO

from memstore import checks
from memstore.errors import InvalidInputError
from memstore.memories import Row
from memstore.profiles import Profile, from_fields, own_name, to_fields
from memstore.records import NewMemory, Term, Weights

# The metadata field that says which import a memory belongs to, so that pruning touches nothing else.
IMPORTED_FROM = "imported_from"
_NEW_FIELDS = tuple(NewMemory.__dataclass_fields__)
_EXPORTED_FIELDS = (*_NEW_FIELDS, "id", "dated", "updated_at", "uses", "used_at")
_LONGEST_HEADING = 200
# JSON may write a character as six; a text and all other fields of a memory together have no more characters.
LONGEST_LINE = 6 * (checks.LONGEST_TEXT + 10_000_000)
# What JSON may hold as it is and YAML may not, or would take for the end of a line.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_TERM_LINE = re.compile(r"(?P<name>[^(:]+?)\s*(?:\((?P<kind>[^()]+)\))?\s*(?::\s(?P<aliases>.*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """An exported memory as read again: its row, the entities that its caller had given, and its uses and the last."""

    row: Row
    given: tuple[str, ...]
    used: tuple[int, str] | None = None


def memory_fields(row: Row, given: Iterable[str], used: tuple[int, str] | None = None) -> dict[str, Any]:
    """Return the fields of a memory as an export has them, which `read_lines` turns into the same memory."""
    created = checks.local(row.created_at, row.created_offset or 0)
    fields = {
        "id": row.id,
        "key": row.key,
        "namespace": row.namespace,
        "text": row.text,
        "author": row.author,
        "thread": row.thread,
        "position": row.position,
        "language": row.language,
        "created_at": created.isoformat(),
        # Whether the caller gave that date; only then is it searched as text.
        "dated": row.created_offset is not None,
        "updated_at": row.updated_at,
        "expires_at": row.expires_at,
        "tags": list(row.tags),
        "metadata": json.loads(row.metadata),
        "entities": list(given),
        "pinned": row.pinned or None,
        "replaces": row.replaces,
        "uses": used[0] if used else None,
        "used_at": used[1] if used else None,
    }
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def line(fields: dict[str, Any]) -> str:
    """Return fields as one line of JSON, its end included."""
    return json.dumps(fields, ensure_ascii=False) + "\n"


def markdown_page(fields: dict[str, Any]) -> str:
    """Return the fields of a memory as a Markdown file: all but its text in front, each a line of JSON, which is YAML.

    The text itself is not changed.
    """
    front = [
        f"{name}: {_UNPRINTABLE.sub(_escaped, json.dumps(value, ensure_ascii=False))}"
        for name, value in fields.items()
        if name not in ("text", "dated")
    ]
    return "\n".join(["---", *front, "---", "", fields["text"], ""])


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def read_terms(text: str, *, kind: str = "term") -> list[Term]:
    """Return the known terms of a text, one a line: `Name`, `Name (kind)`, `Name (kind): alias, alias`.

    Raises `InvalidInputError` on a line without a name, by its number.
    """
    found: list[Term] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _TERM_LINE.fullmatch(line.strip())
        if match is None:
            raise InvalidInputError(
                f"line {number} is {checks.brief(line.strip())}; write it as Name (kind): alias, alias."
            )
        aliases = tuple(alias.strip() for alias in (match["aliases"] or "").split(",") if alias.strip())
        found.append(Term(name=match["name"].strip(), kind=(match["kind"] or kind).strip(), aliases=aliases))
    return found


def term_fields(term: Term) -> dict[str, Any]:
    """Return the fields of a known term as an export has them."""
    return {"term": term.name, "kind": term.kind, "aliases": list(term.aliases)}


def profile_fields(name: str, weights: Weights) -> dict[str, Any]:
    """Return the fields of a profile as an export has them."""
    return {"profile": name, "weights": to_fields(weights)}


def read_lines(lines: Iterable[str]) -> Iterator[checks.Checked | Restored | Term | Profile]:
    """Yield what each line of JSON holds: a memory, exported or new (the fields of `NewMemory`), a term, a profile.

    Raises `InvalidInputError` with the number of the first line that is none of these.
    """
    for number, line in enumerate(lines, 1):
        try:
            if not isinstance(line, str):
                raise InvalidInputError(f"it is {type(line).__name__}, not text; open the file as text.")
            if len(line) > LONGEST_LINE:
                raise InvalidInputError(f"it has more than {LONGEST_LINE:,} characters, which no memory needs.")
            if line.strip():
                yield _read_line(line.lstrip("\ufeff"))
        except InvalidInputError as error:
            raise InvalidInputError(f"line {number}: {error}") from error


def _read_line(line: str) -> checks.Checked | Restored | Term | Profile:
    try:
        fields = json.loads(line)
    except RecursionError as error:
        raise InvalidInputError(
            f"its JSON is nested too deep to be read; metadata has at most {checks.DEEPEST_METADATA} levels."
        ) from error
    except ValueError as error:
        raise InvalidInputError(f"this is not JSON ({error}); each line holds one JSON object.") from error
    if not isinstance(fields, dict):
        raise InvalidInputError(f"this is a JSON {type(fields).__name__}; each line holds one JSON object.")
    if "term" in fields:
        unknown = sorted(set(fields) - {"term", "kind", "aliases"})
        if unknown:
            raise InvalidInputError(f"a known term has no field {unknown[0]!r}; its fields are term, kind, aliases.")
        return Term(
            name=checks.required_name("term", fields["term"]),
            kind=checks.name("kind", fields.get("kind")) or "term",
            aliases=checks.names("aliases", fields.get("aliases", ())),
        )
    if "profile" in fields:
        unknown = sorted(set(fields) - {"profile", "weights"})
        if unknown:
            raise InvalidInputError(f"a profile has no field {unknown[0]!r}; its fields are profile, weights.")
        return Profile(name=own_name(fields["profile"]), weights=from_fields(fields.get("weights")))
    unknown = sorted(set(fields) - set(_EXPORTED_FIELDS))
    if unknown:
        raise InvalidInputError(f"the field {unknown[0]!r} is unknown; the fields are {', '.join(_NEW_FIELDS)}.")
    if fields.get("text") is None:
        raise InvalidInputError("there is no field 'text'.")
    given = {name: value for name, value in fields.items() if name in _NEW_FIELDS and value is not None}
    found = checks.checked(NewMemory(**given))
    if "id" not in fields or "updated_at" not in fields:
        lost = sorted(name for name, value in fields.items() if name not in _NEW_FIELDS and value is not None)
        if lost:
            raise InvalidInputError(
                f"the field {lost[0]!r} is one of an exported memory, which has an id and updated_at; leave it out."
            )
        return found
    return _restored(found, fields)


def _restored(found: checks.Checked, fields: dict[str, Any]) -> Restored:
    memory_id = fields["id"]
    if isinstance(memory_id, bool) or not isinstance(memory_id, int) or not 0 < memory_id < 2**62:
        raise InvalidInputError(f"id is {memory_id!r}; give a positive whole number.")
    if found.created is None:
        raise InvalidInputError("an exported memory has a created_at; there is none.")
    used = None
    if fields.get("used_at") is not None and fields.get("uses") is None:
        raise InvalidInputError("used_at is given without uses; give both.")
    if fields.get("uses") is not None:
        last = checks.instant("used_at", fields.get("used_at") or fields["updated_at"])
        used = (checks.whole("uses", fields["uses"], least=1), last.utc)
    return Restored(
        row=Row(
            id=memory_id,
            key=found.key,
            namespace=found.namespace,
            text=found.text,
            author=found.author,
            thread=found.thread,
            position=found.position,
            language=found.language,
            created_at=found.created.utc,
            created_offset=found.created.offset if fields.get("dated", True) else None,
            updated_at=checks.instant("updated_at", fields["updated_at"]).utc,
            expires_at=found.expires.utc if found.expires else None,
            metadata=checks.encoded(found.metadata or {}),
            pinned=found.pinned,
            replaces=found.replaces,
            tags=tuple(sorted(found.tags)),
        ),
        given=found.entities,
        used=used,
    )


def read_text(path: Path) -> str:
    """Return a file's text, UTF-8 with or without a byte order mark.

    Raises `InvalidInputError` when it is not UTF-8, or longer than a text may be, which is found before it is read
    whole.
    """
    with _reading(path) as file:
        # A character has four bytes at most. A pipe has no size: what it gives is counted as it comes.
        if os.fstat(file.fileno()).st_size <= 4 * checks.LONGEST_TEXT:
            found = file.read(checks.LONGEST_TEXT + 1)
            if len(found) <= checks.LONGEST_TEXT:
                return found
    raise InvalidInputError(f"{path} has more than {checks.LONGEST_TEXT:,} characters, the most of a text; split it.")


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file as they are read, none much longer than `LONGEST_LINE`; raise as `read_text` does."""
    # At "\n" alone: other line ends of Unicode may stand inside a text.
    with _reading(path, newline="\n") as file:
        while line := file.readline(LONGEST_LINE + 1):
            yield line


@contextmanager
def _reading(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    try:
        with open(path, encoding="utf-8-sig", newline=newline) as file:
            yield file
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not UTF-8 text (byte {error.start}); convert it first.") from error
    except OSError as error:
        raise InvalidInputError(f"{path} can't be read: {error.strerror}.") from error


def markdown_files(root: Path) -> list[tuple[Path, str]]:
    """Return the Markdown files of a folder (or the one file) with their names in it; hidden ones are left out.

    Raises `InvalidInputError` when a folder in it can't be read: what is not seen must not look as if it were gone.
    """
    if not root.is_dir():
        return [(root, root.name)]

    def refuse(error: OSError) -> None:
        raise InvalidInputError(f"{error.filename} can't be read: {error.strerror}; nothing was imported.") from error

    found = []
    for folder, folders, files in os.walk(root, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(folder, name)
            is_markdown = path.suffix.lower() in (".md", ".markdown") and not name.startswith(".")
            if is_markdown and path.is_file() and not path.is_symlink():
                found.append((path, path.relative_to(root).as_posix()))
    return found


def sections(text: str, name: str, *, namespace: str, imported_from: str) -> list[NewMemory]:
    """Return a Markdown text as one memory a section, in order, each under the key `name#heading`.

    A section is a heading (of any level) and what stands below it up to the next one; what stands before the first
    heading has the key `name`. A heading that comes again gets `-2`, `-3`, … behind it.
    """
    from markdown_it import MarkdownIt

    # Lines as Markdown counts them: `splitlines` would also part at form feeds and other marks.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    front = _front_matter(lines)
    tokens = MarkdownIt("commonmark").parse("\n".join([""] * front + lines[front:]))
    starts: list[tuple[int, str]] = [(0, "")]
    for token, inline in pairwise(tokens):
        # Headings inside quotes and lists belong to the section around them.
        if token.type == "heading_open" and token.level == 0 and token.map is not None:
            starts.append((token.map[0], inline.content.strip()))
    found: list[NewMemory] = []
    seen: set[str] = set()
    for (start, heading), (stop, _) in zip(starts, [*starts[1:], (len(lines), "")], strict=True):
        body = "\n".join(lines[start:stop]).strip()
        if not body:
            continue
        title = " ".join(unicodedata.normalize("NFC", heading).split())[:_LONGEST_HEADING]
        key = name if start == 0 and not heading else f"{name}#{title}"
        if key in seen:
            key = next(other for other in (f"{key}-{n}" for n in count(2)) if other not in seen)
        seen.add(key)
        found.append(
            NewMemory(
                text=body,
                key=key,
                namespace=namespace,
                thread=name,
                position=len(found),
                metadata={IMPORTED_FROM: imported_from},
            )
        )
    return found


def _front_matter(lines: list[str]) -> int:
    """Return how many lines of YAML a file begins with; Markdown would read them as a rule and a heading."""
    if not lines or lines[0].strip() != "---":
        return 0
    for number, line in enumerate(lines[1:], 1):
        if line.strip() in ("---", "..."):
            return number + 1
    return 0

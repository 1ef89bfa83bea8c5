"""What a write means for the file as it is: the row before and after, and what must make room for it."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import apsw

from memstore import checks, entities, memories
from memstore.checks import Checked
from memstore.errors import InvalidInputError, NotFoundError
from memstore.memories import Row
from memstore.records import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a write means for the file as it is: the row before and after, and an expired one to be cleared away.

    `used` is what an export knows of the uses of the memory: how often, and when last.
    """

    before: Row | None
    after: Row
    given: tuple[str, ...]
    outcome: Outcome
    expired: int | None = None
    used: tuple[int, str] | None = None

    @property
    def changes_body(self) -> bool:
        return self.before is None or self.before.body != self.after.body

    @property
    def changes_place(self) -> bool:
        return self.before is None or self.before.place != self.after.place


# A write, as a question to the file: the same question gives a plan before embedding and again inside the transaction.
# It is told the present as stored.
Planner: TypeAlias = Callable[[apsw.Connection, str], Plan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write to be planned; `identity` names the memory it is about, `size` is that of its text in characters.

    `refusable` says that the file itself may refuse it, for what it says of another memory.
    """

    planner: Planner
    identity: Hashable
    size: int
    refusable: bool = False


class Origin:
    """The memories of an export by their ids there, and the ids that they have here, as far as they are planned."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.last = 0
        self.here: dict[int, int] = {}
        self._twins: dict[bytes, set[int]] = {}
        for row in rows:
            assert row.id is not None
            self.last = max(self.last, row.id)
            self._twins.setdefault(row.content_hash, set()).add(row.id)

    def taken(self, row: Row) -> set[int]:
        """Return the ids here of the memories that have the same content as a row and are another of the export."""
        others = self._twins[row.content_hash] - {row.id}
        return others | {self.here[one] for one in others if one in self.here}

    def linked(self, new: Checked) -> Checked:
        """Return a memory that comes beside the export with the id here of what it replaces there."""
        return dataclasses.replace(new, replaces=self.here[new.replaces]) if new.replaces in self.here else new


def adding(new: Checked, origin: Origin | None = None) -> Write:
    """Return the write that adds `new`: an upsert by its key, else merged into the memory with the same text.

    A text that is superseded now is said anew, and is another memory. `origin` is the export that `new` comes beside:
    an id that `new` replaces is one of that, where it holds it.
    """

    identity = memories.content_hash(new.namespace, new.author, new.thread, new.text)

    def plan(conn: apsw.Connection, moment: str) -> Plan:
        asked = new if origin is None else origin.linked(new)
        there = (
            memories.by_key(conn, new.namespace, new.key)
            if new.key is not None
            else memories.by_content(conn, identity, moment)
        )
        expired = there is not None and there.expired(moment)
        if there is None or expired:
            fresh = _fresh(conn, asked, moment)
            _refuse_link(conn, None, fresh, moment)
            return Plan(
                before=None,
                after=fresh,
                given=entities.resolved(conn, new.entities),
                outcome="added",
                expired=there.id if there else None,
            )
        return _merged(conn, there, asked, moment)

    return Write(
        planner=plan,
        identity=(new.namespace, new.key) if new.key else identity,
        size=len(new.text),
        refusable=new.replaces is not None,
    )


def changing(memory_id: int, changes: dict[str, Any]) -> Write:
    """Return the write that sets some fields of a memory; the values are checked ones."""

    def plan(conn: apsw.Connection, moment: str) -> Plan:
        before = memories.get(conn, memory_id)
        if before is None or before.expired(moment):
            raise NotFoundError(f"there is no memory {memory_id}; nothing was changed.")
        given_before = entities.given(conn, memory_id)
        given = entities.resolved(conn, changes["entities"]) if "entities" in changes else given_before
        fields = {name: value for name, value in changes.items() if name != "entities"}
        if "metadata" in fields and checks.same_metadata(fields["metadata"], before.metadata):
            fields["metadata"] = before.metadata
        after = dataclasses.replace(before, **fields)
        if after.thread is None:
            if fields.get("position") is not None:
                raise InvalidInputError(f"memory {memory_id} is in no thread, so it has no position; give both.")
            after = dataclasses.replace(after, position=None)
        elif after.position is None or (
            (after.namespace, after.thread) != (before.namespace, before.thread) and "position" not in fields
        ):
            end = memories.end_of_thread(conn, after.namespace, after.thread)
            after = dataclasses.replace(after, position=end)
        _refuse_link(conn, before, after, moment)
        made = _plan(before, after, given_before, given, "updated", moment)
        return dataclasses.replace(made, expired=_refuse_clash(conn, before, after, moment))

    return Write(planner=plan, identity=memory_id, size=len(changes.get("text", "")))


def restoring(
    exported_row: Row, exported: tuple[str, ...], origin: Origin, used: tuple[int, str] | None = None
) -> Write:
    """Return the write that brings a row back as it was exported: same times, same id where that is free.

    Where it is not, or a link here still names it, the row gets an id above all those of the export `origin`, so that
    it takes none of theirs.

    A memory that is there already (by id and content, key, or content) is brought to the row's state. What the row
    replaces is restored before it: the link follows it to the id that it has here. A link that can't stand here is left
    out, for the id of another file says nothing.
    """

    def plan(conn: apsw.Connection, moment: str) -> Plan:
        row, given = _placed(conn, exported_row), entities.resolved(conn, exported)
        before = _there(conn, row, origin, moment)
        if before is None:
            # An id that a link still names was that of another memory, which this one must not be hidden for.
            taken = row.id is not None and (
                memories.get(conn, row.id) is not None or memories.replaced_by(conn, row.id, moment)
            )
            after = dataclasses.replace(row, id=memories.next_id(conn, origin.last)) if taken else row
            after = _linked(conn, None, after, origin, moment)
            return Plan(before=None, after=after, given=given, outcome="added", used=used)
        assert before.id is not None
        after = _linked(conn, before, dataclasses.replace(row, id=before.id), origin, moment)
        given_before = entities.given(conn, before.id)
        if dataclasses.replace(after, updated_at=before.updated_at) == before and same_names(given, given_before):
            return Plan(before=before, after=before, given=given_before, outcome="unchanged", used=used)
        return Plan(before=before, after=after, given=given, outcome="updated", used=used)

    def noted(conn: apsw.Connection, moment: str) -> Plan:
        made = plan(conn, moment)
        if exported_row.id is not None and made.after.id is not None:
            origin.here[exported_row.id] = made.after.id
        return made

    one = exported_row
    return Write(planner=noted, identity=(one.namespace, one.key) if one.key else one.content_hash, size=len(one.text))


def _there(conn: apsw.Connection, row: Row, origin: Origin, moment: str) -> Row | None:
    """Return the memory that an exported row is of: by its id and content, its key, or its content.

    Several may have its content when some of them are superseded; the date then tells which it is.
    """
    by_id = memories.get(conn, row.id) if row.id is not None else None
    if by_id is not None and _same_memory(by_id, row):
        return by_id
    if row.key is not None:
        return memories.by_key(conn, row.namespace, row.key)
    return memories.by_content(
        conn, row.content_hash, moment, keyed=False, created_at=row.created_at, without=origin.taken(row)
    )


def _linked(conn: apsw.Connection, before: Row | None, row: Row, origin: Origin, moment: str) -> Row:
    """Return a restored row that replaces what its target is here, or nothing where that can't be."""
    if row.replaces not in origin.here:
        # Of a memory that the import does not bring only this file itself knows the id.
        kept = before is not None and before.replaces == row.replaces
        return row if kept else dataclasses.replace(row, replaces=None)
    linked = dataclasses.replace(row, replaces=origin.here[row.replaces])
    return dataclasses.replace(linked, replaces=None) if _why_unlinkable(conn, linked, moment) else linked


def _placed(conn: apsw.Connection, row: Row) -> Row:
    """Return a row of a thread with its place in it, at the end where it has none."""
    if row.thread is None or row.position is not None:
        return row
    return dataclasses.replace(row, position=memories.end_of_thread(conn, row.namespace, row.thread))


def _same_memory(one: Row, other: Row) -> bool:
    if one.key is not None or other.key is not None:
        return (one.namespace, one.key) == (other.namespace, other.key)
    return one.content_hash == other.content_hash


def _fresh(conn: apsw.Connection, new: Checked, moment: str) -> Row:
    position = new.position
    if new.thread is None:
        position = None
    elif position is None:
        position = memories.end_of_thread(conn, new.namespace, new.thread)
    return Row(
        id=None,
        key=new.key,
        namespace=new.namespace,
        text=new.text,
        author=new.author,
        thread=new.thread,
        position=position,
        language=new.language,
        created_at=new.created.utc if new.created else moment,
        created_offset=new.created.offset if new.created else None,
        updated_at=moment,
        expires_at=new.expires.utc if new.expires else None,
        metadata=checks.encoded(new.metadata or {}),
        pinned=new.pinned,
        replaces=new.replaces,
        tags=tuple(sorted(new.tags)),
    )


def _merged(conn: apsw.Connection, before: Row, new: Checked, moment: str) -> Plan:
    """Bring what the caller gave into a memory that is there; what the caller left out stays as it is."""
    assert before.id is not None
    held = checks.decoded(before.metadata)
    given_before = entities.given(conn, before.id)
    keyed = new.key is not None
    fields: dict[str, Any] = {
        "metadata": checks.encoded(held | (new.metadata or {})),
        "tags": tuple(sorted(set(before.tags) | set(new.tags))),
        "pinned": before.pinned or new.pinned,
    }
    if keyed:
        fields["text"] = new.text
        fields |= {
            name: value for name in ("author", "thread", "position") if (value := getattr(new, name)) is not None
        }
        if new.created is not None:
            fields |= {"created_at": new.created.utc, "created_offset": new.created.offset}
    if new.language is not None:
        fields["language"] = new.language
    if new.expires is not None:
        fields["expires_at"] = new.expires.utc
    if new.replaces is not None:
        fields["replaces"] = new.replaces
    after = dataclasses.replace(before, **fields)
    if after.thread is not None and (after.thread != before.thread or after.position is None) and new.position is None:
        after = dataclasses.replace(after, position=memories.end_of_thread(conn, after.namespace, after.thread))
    given = tuple(dict.fromkeys((*given_before, *entities.resolved(conn, new.entities))))
    _refuse_link(conn, before, after, moment)
    return _plan(before, after, given_before, given, "updated" if keyed else "merged", moment)


def _plan(
    before: Row, after: Row, given_before: tuple[str, ...], given: tuple[str, ...], outcome: Outcome, moment: str
) -> Plan:
    if after == before and same_names(given, given_before):
        return Plan(before=before, after=before, given=given_before, outcome="unchanged")
    return Plan(before=before, after=dataclasses.replace(after, updated_at=moment), given=given, outcome=outcome)


def same_names(some: Iterable[str], others: Iterable[str]) -> bool:
    """Say whether two lists of names are of the same entities."""
    return {entities.key(name) for name in some} == {entities.key(name) for name in others}


def _refuse_clash(conn: apsw.Connection, before: Row, after: Row, moment: str) -> int | None:
    """Refuse a change to what another memory is; return the expired memory that has to make room, if any."""
    other = None
    if after.key is not None:
        other = memories.by_key(conn, after.namespace, after.key)
        what = f"the key {after.key!r} in {after.namespace!r}"
    elif after.content_hash != before.content_hash or before.key is not None:
        other = memories.by_content(conn, after.content_hash, moment, keyed=False)
        what = "this text"
    if other is None or other.id == before.id:
        return None
    if other.expired(moment):
        return other.id
    raise InvalidInputError(
        f"memory {other.id} already has {what}; delete one of the two or give another key. Nothing was changed."
    )


def _refuse_link(conn: apsw.Connection, before: Row | None, after: Row, moment: str) -> None:
    """Refuse a memory that would replace what it can't, or leave the namespace of what it is linked to."""
    moved = before is not None and before.namespace != after.namespace
    anew = before is None or before.replaces != after.replaces
    # A link to what is gone since does no harm, and moves along.
    if anew or (moved and _hides(conn, after, moment)):
        why = _why_unlinkable(conn, after, moment)
        if why:
            raise InvalidInputError(f"replaces is {after.replaces}: {why}. Nothing was changed.")
    newer = memories.replaced_by(conn, after.id, moment) if moved and after.id is not None else []
    if newer:
        raise InvalidInputError(
            f"memory {after.id} is replaced by memory {newer[0]} of its namespace; take that link away first."
            " Nothing was changed."
        )


def _why_unlinkable(conn: apsw.Connection, row: Row, moment: str) -> str:
    """Return why a memory can't replace the one that it names, nothing when it can."""
    if row.replaces is None:
        return ""
    target = _live(conn, row.replaces, moment)
    if target is None:
        return "there is no such memory; name one that is there"
    if row.id == row.replaces:
        return "that is the memory itself; name another"
    if target.namespace != row.namespace:
        return f"that memory is in the namespace {target.namespace!r}, not {row.namespace!r}; name one of the same"
    if row.id is not None and memories.leads_to(conn, row.replaces, row.id):
        return f"that memory replaces memory {row.id}, itself or in turn; take that link away first"
    return ""


def _hides(conn: apsw.Connection, row: Row, moment: str) -> bool:
    """Say whether a memory supersedes one that is there, itself or through expired ones."""
    older = None if row.replaces is None else memories.get(conn, row.replaces)
    seen = set[int | None]()
    # Only damage makes a ring.
    while older is not None and older.expired(moment) and older.id not in seen:
        seen.add(older.id)
        older = None if older.replaces is None else memories.get(conn, older.replaces)
    return older is not None


def _live(conn: apsw.Connection, memory_id: int | None, moment: str) -> Row | None:
    """Return the row of a memory that is there and has not expired."""
    row = None if memory_id is None else memories.get(conn, memory_id)
    return None if row is None or row.expired(moment) else row

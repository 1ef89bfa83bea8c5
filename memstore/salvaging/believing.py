"""What is believed of a damaged file: which memories are as they were stored, which are not, which are lost."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from memstore.analysis import LANGUAGES
from memstore.memories import Row
from memstore.profiles import Profile, from_fields, own_name
from memstore.records import Term
from memstore.salvaging import shapes
from memstore.salvaging.cells import Value
from memstore.salvaging.judging import Judged, judged, mended, time
from memstore.salvaging.sources import Source
from memstore.salvaging.witnesses import Candidate, Witnesses, certain, is_id
from memstore.semantic import StoredSpace

Tags: TypeAlias = Mapping[int, set[str]]
# What can't be made again of the memories; to lose some of it is to lose something.
_KEPT = {
    shapes.USES.name: "how often memories were used",
    shapes.MEMORY_ENTITIES.name: "the entities that were given with memories",
    shapes.ENTITIES.name: "the names of entities",
    shapes.ENTITY_TERMS.name: "the known terms",
    shapes.PROFILES.name: "the saved profiles",
    shapes.VOCABULARY.name: "the numbers of terms in sparse vectors",
    shapes.EMBEDDERS.name: "the embedding spaces",
    shapes.META.name: "the languages of the file",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A memory for the new file, with the entities that came from its caller and its uses."""

    row: Row
    given: tuple[str, ...]
    used: tuple[int, str] | None
    verified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSpace:
    """An embedding space, and what its row holds beside what a search needs."""

    space: StoredSpace
    pooling: str
    background: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """What goes into the new file, and what does not; `broken` says in words what was not read whole."""

    schema: int | None
    languages: tuple[str, ...]
    memories: tuple[Kept, ...]
    terms: tuple[Term, ...]
    profiles: tuple[Profile, ...]
    vocabulary: Mapping[int, str]
    entities: Mapping[str, tuple[str, str]]
    spaces: tuple[KeptSpace, ...]
    last_ids: Mapping[str, int]
    lost: tuple[int, ...]
    perhaps_lost: int
    uncertain: tuple[int, ...]
    expired: int
    broken: tuple[str, ...]


def believe(source: Source, moment: str, *, include_uncertain: bool) -> Believed:
    """Return what a source holds, each memory checked against its hash; `moment` is the present as stored."""
    chosen, unreadable = _found(source)
    witnesses = None
    clear = all(len(some) == 1 and some[0].judged.verified for some in chosen.values())
    if shapes.MEMORIES.name in source.broken or unreadable or not clear:
        witnesses = Witnesses(source)
        chosen = {one: [witnesses.confirmed(found) for found in some] for one, some in chosen.items()}
    best = {one: max(some, key=lambda found: found.rank) for one, some in chosen.items()}
    rows: dict[int, tuple[Row, bool]] = {}
    uncertain: set[int] = set()
    keys: set[tuple[str, str]] = set()
    for memory_id, found in sorted(best.items(), key=lambda one: (not one[1].certain, not one[1].judged.verified)):
        created_at = None if witnesses is None else witnesses.created.get(memory_id)
        row = _storable(found.judged, keys, created_at, moment)
        # What does not fit its hash may have another date of expiry than it seems.
        doubtful = not found.certain or (row is not None and not found.judged.verified and row.expired(moment))
        if doubtful and found.judged.same_text:
            uncertain.add(memory_id)
        if row is not None and (not doubtful or (found.judged.same_text and include_uncertain)):
            row = replace(row, expires_at=None) if doubtful and row.expired(moment) else row
            rows[memory_id] = row, found.judged.verified and row == found.judged.row
            if row.key is not None:
                keys.add((row.namespace, row.key))
    expired = {memory_id for memory_id, (row, verified) in rows.items() if verified and row.expired(moment)}
    lost = unreadable | {one for one, found in best.items() if found.certain}
    if witnesses is not None:
        lost = witnesses.ids if witnesses.name_all else lost | witnesses.ids
    last_ids = _last_ids(source)
    last = last_ids.get(shapes.MEMORIES.name) or max((0, *rows, *uncertain, *lost))
    lost = {one for one in lost.difference(rows, uncertain) if one <= last}
    perhaps_lost = 0
    if shapes.MEMORIES.name in source.broken and not (witnesses is not None and witnesses.name_all):
        perhaps_lost = max(0, last - len(lost.union(rows, uncertain)))
    given, uses = _given(source), _uses(source)
    meta = {one["key"]: str(one["value"]) for one in certain(source, shapes.META)}
    languages, profiles = _languages(source, meta), _profiles(source)
    return Believed(
        schema=int(meta["schema"]) if meta.get("schema", "").isdecimal() else None,
        languages=languages or LANGUAGES,
        memories=tuple(
            Kept(row=row, given=given.get(one, ()), used=uses.get(one), verified=verified)
            for one, (row, verified) in sorted(rows.items())
            if one not in expired
        ),
        terms=_terms(source),
        profiles=profiles,
        vocabulary=_vocabulary(source),
        entities=_entities(source),
        spaces=_spaces(source),
        last_ids=last_ids,
        lost=tuple(sorted(lost)),
        perhaps_lost=perhaps_lost,
        uncertain=tuple(sorted(uncertain)),
        expired=len(expired),
        broken=tuple(words for name, words in _KEPT.items() if name in source.broken),
    )


def _storable(found: Judged, keys: set[tuple[str, str]], created_at: str | None, moment: str) -> Row | None:
    """Return the row that goes into the new file, whose keys so far are `keys`; None where nothing is left of it."""
    row = found.row if found.verified else mended(found.row, created_at=created_at, moment=moment)
    if row is not None and row.key is not None and (row.namespace, row.key) in keys:
        # No two have one key; the second is not as it was stored.
        return mended(replace(row, key=None), created_at=created_at, moment=moment)
    return row


def _found(source: Source) -> tuple[dict[int, list[Candidate]], set[int]]:
    """Return the rows that were found of each memory, and the ids of rows that can't be read."""
    tags, others, usual = _tags(source)
    found: dict[int, list[Candidate]] = {}
    unreadable: set[int] = set()
    for one in source.rows(shapes.MEMORIES):
        memory_id = one.fields.get("id")
        if not is_id(memory_id):
            source.broken.add(shapes.MEMORIES.name)
            continue
        made = judged(one.fields, tags.get(memory_id, ()), others.get(memory_id, ()), usual)
        if made is not None:
            found.setdefault(memory_id, []).append(Candidate(judged=made, certain=one.certain))
        elif one.certain:
            unreadable.add(memory_id)
    return found, unreadable


def _tags(source: Source) -> tuple[Tags, Tags, list[str]]:
    """Return the tags that memories have for certain, those that they may have besides, and all, the usual first."""
    sure: dict[int, set[str]] = {}
    others: dict[int, set[str]] = {}
    number: Counter[str] = Counter()
    for shape in (shapes.TAGS, shapes.TAGS_TAG):
        for one in source.rows(shape):
            memory_id, tag = one.fields.get("memory_id"), one.fields.get("tag")
            if isinstance(memory_id, int) and isinstance(tag, str):
                into = sure if one.certain and shape is shapes.TAGS else others
                into.setdefault(memory_id, set()).add(tag)
                number[tag] += 1
    return sure, others, [tag for tag, _ in number.most_common()]


def _given(source: Source) -> dict[int, tuple[str, ...]]:
    """Return the names of the entities that came from the callers, by memory, in the order of their keys."""
    # What a link names for certain need not be certain itself.
    names = {
        one.fields.get("id"): (str(one.fields.get("key")), str(one.fields.get("name")))
        for one in source.rows(shapes.ENTITIES)
        if shapes.ENTITIES.fits_fields(one.fields)
    }
    found: dict[int, list[tuple[str, str]]] = {}
    for link in certain(source, shapes.MEMORY_ENTITIES):
        memory_id, entity_id = link["memory_id"], link["entity_id"]
        if link["given"] and isinstance(memory_id, int):
            if entity_id in names:
                found.setdefault(memory_id, []).append(names[entity_id])
            else:
                source.broken.add(shapes.ENTITIES.name)
    return {memory_id: tuple(name for _, name in sorted(some)) for memory_id, some in found.items()}


def _uses(source: Source) -> dict[int, tuple[int, str]]:
    found: dict[int, tuple[int, str]] = {}
    for one in certain(source, shapes.USES):
        memory_id, times, last = one["memory_id"], one["times"], time(one["last_used_at"])
        if isinstance(memory_id, int) and isinstance(times, int) and times > 0 and last is not None:
            found[memory_id] = times, last
        else:
            source.broken.add(shapes.USES.name)
    return found


def _terms(source: Source) -> tuple[Term, ...]:
    found: dict[tuple[str, str], list[str]] = {}
    for one in certain(source, shapes.ENTITY_TERMS):
        found.setdefault((str(one["name"]), str(one["kind"])), []).append(str(one["spelling"]))
    return tuple(
        Term(name=name, kind=kind, aliases=tuple(spelling for spelling in some if spelling != name))
        for (name, kind), some in sorted(found.items())
    )


def _profiles(source: Source) -> tuple[Profile, ...]:
    found: list[Profile] = []
    for one in certain(source, shapes.PROFILES):
        try:
            weights = from_fields(json.loads(str(one["weights"])))
            found.append(Profile(name=own_name(one["name"]), weights=weights))
        except (ValueError, RecursionError):
            source.broken.add(shapes.PROFILES.name)
    return tuple(found)


def _vocabulary(source: Source) -> dict[int, str]:
    found: dict[str, int] = {}
    for one in certain(source, shapes.VOCABULARY):
        if is_id(number := one["id"]):
            found.setdefault(str(one["term"]), number)
    return {number: term for term, number in found.items()}


def _entities(source: Source) -> dict[str, tuple[str, str]]:
    return {str(one["key"]): (str(one["name"]), str(one["kind"])) for one in certain(source, shapes.ENTITIES)}


def _languages(source: Source, meta: Mapping[Value, str]) -> tuple[str, ...]:
    found = tuple(meta.get("languages", "").split())
    if not found or not set(found) <= set(LANGUAGES):
        source.broken.add(shapes.META.name)
        return ()
    return found


def _last_ids(source: Source) -> dict[str, int]:
    """Return the last id that each table has given."""
    return {str(one["name"]): last for one in certain(source, shapes.SEQUENCES) if is_id(last := one["seq"])}


def _spaces(source: Source) -> tuple[KeptSpace, ...]:
    found: list[KeptSpace] = []
    for one in certain(source, shapes.EMBEDDERS):
        fields: dict[str, Any] = dict(one)
        dimensions, fingerprint, background = fields["dimensions"], fields["fingerprint"], fields["background"]
        whole = 0 < len(fingerprint) == 4 * dimensions and not len(background) % len(fingerprint)
        if not whole or fields["state"] not in ("ready", "filling"):
            source.broken.add(shapes.EMBEDDERS.name)
            continue
        space = StoredSpace(**{name: fields[name] for name in StoredSpace.__dataclass_fields__ if name in fields})
        found.append(KeptSpace(space=space, pooling=fields["pooling"], background=background))
    return tuple(sorted(found, key=lambda kept: kept.space.id))

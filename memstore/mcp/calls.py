"""What each tool does: one public method of the store, within the namespace that the server is bound to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memstore.asking import NO_WEIGHT, NOT_ASKED
from memstore.errors import InvalidInputError, NotFoundError
from memstore.masking import secret_in
from memstore.mcp import answers
from memstore.mcp.answers import STORED_BY, Answer
from memstore.mcp.holding import LOADING, Holder, Options
from memstore.records import Memory, SearchResult
from memstore.store import MemoryStore

# Searches that come before the model leave meaning out, so that they need not wait for it.
_WITHOUT_MEANING = {"semantic": 0.0}
_LONGEST_CLIENT = 100
_MOST_NAMESPACES = 50
# What an empty text takes away.
_EMPTIED = ("author", "thread", "expires_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What a call works with: the store, what the server was told, and which program asks (its name and version)."""

    store: MemoryStore
    holder: Holder
    options: Options
    client: tuple[str, str] | None

    def namespace(self, given: Mapping[str, Any]) -> str | None:
        """Return the namespace that the server is bound to, else that of the arguments."""
        return given.get("namespace") if self.options.namespace is None else self.options.namespace

    def own(self, number: int, refused: str = "") -> Memory:
        """Return a memory by its id; one of another namespace than the server's is not there."""
        memory = self.store.get(number)
        if memory is None or self.options.namespace not in (None, memory.namespace):
            raise NotFoundError(f"there is no memory {number}{refused}.")
        return memory

    def filters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the filters of the arguments as the store takes them."""
        client = given.get("client")
        return {
            "namespace": self.namespace(given),
            "tags": given.get("tags", ()),
            "where": None if client is None else {f"{STORED_BY}.name": client},
            **{name: given.get(name) for name in ("after", "before", "thread", "author")},
            "superseded": given.get("include_superseded", False),
        }

    def weights(self) -> Mapping[str, float] | None:
        """Return the weights of a search: none of its own, or none for meaning while the model is loading."""
        return _WITHOUT_MEANING if self.holder.loading() else None

    def provenance(self) -> dict[str, Any]:
        """Return the metadata that says which program stores a memory."""
        if self.client is None:
            return {}
        name, version = (answers.name(one)[:_LONGEST_CLIENT] for one in self.client)
        return {STORED_BY: {"name": name, "version": version}}


def remember(desk: Desk, given: Mapping[str, Any]) -> Answer:
    """Store one memory."""
    if "replaces" in given:
        desk.own(given["replaces"], "; nothing was stored")
    fields = {name: value for name, value in given.items() if name not in ("text", "namespace")}
    memory = desk.store.add(
        given["text"],
        namespace=desk.namespace(given) or "default",
        metadata=desk.provenance(),
        embed=desk.holder.embed(given["text"]),
        **fields,
    )
    return _written(desk, memory)


def search(desk: Desk, given: Mapping[str, Any]) -> Answer:
    """Find what answers a question."""
    weights = desk.weights()
    found = desk.store.search(
        given["query"], given["limit"], sort=given["sort"], weights=weights, **desk.filters(given)
    )
    return answers.found(found, _notices(found, loading=weights is not None))


def recall(desk: Desk, given: Mapping[str, Any]) -> Answer:
    """Find what matters for a message, often nothing."""
    weights = desk.weights()
    found = desk.store.recall(given["query"], given["limit"], weights=weights, namespace=desk.namespace(given))
    return answers.found(found, _notices(found, loading=weights is not None))


def context(desk: Desk, given: Mapping[str, Any]) -> Answer:
    """Gather what answers a question in one block."""
    weights = desk.weights()
    found = desk.store.context(
        given["query"], max_tokens=given["max_tokens"], order=given["order"], weights=weights, **desk.filters(given)
    )
    said = _notices(found.found, loading=weights is not None)
    if found.needed is not None:
        said.insert(0, f"The best passage needs {found.needed:,} tokens; raise max_tokens.")
    nothing = "Nothing was found." if found.needed is None else "The block is empty."
    return Answer(
        text="\n".join([found.text or nothing, *said]),
        data={
            "text": found.text,
            "tokens": found.tokens,
            "ids": list(dict.fromkeys(one.memory.id for one in found.items)),
            "left_out": found.left_out,
            "uncertain": bool(found.items) and found.found.uncertain,
            "notices": said,
        },
    )


def get(desk: Desk, given: Mapping[str, Any]) -> Answer:
    """Read one memory, or a part of it."""
    memory = desk.own(given["id"])
    if given["offset"] >= len(memory.text):
        raise InvalidInputError(
            f"offset is {given['offset']:,}, and memory {memory.id} has {len(memory.text):,} characters; give less."
        )
    return answers.read(memory, given["offset"], given["limit"])


def update(desk: Desk, given: Mapping[str, Any]) -> Answer:
    """Change the fields of a memory that are given."""
    changes = {name: value for name, value in given.items() if name != "id"}
    if not changes:
        raise InvalidInputError("nothing to change: give a text, tags or another field; nothing was changed.")
    memory = desk.own(given["id"], "; nothing was changed")
    changes |= {name: None for name in _EMPTIED if name in changes and not changes[name].strip()}
    # What a caller keeps under the same name stays.
    own = STORED_BY not in memory.metadata or answers.stored_by(memory.metadata) is not None
    if "text" in changes and own and (program := desk.provenance()):
        # The words are those of the program that gives them now.
        changes["metadata"] = {**memory.metadata, **program}
    return _written(desk, desk.store.update(memory.id, embed=desk.holder.embed(given.get("text")), **changes))


def forget(desk: Desk, given: Mapping[str, Any]) -> Answer:
    """Delete memories, all or none of them."""
    ids = list(dict.fromkeys(given["ids"]))
    for one in ids:
        desk.own(one, "; nothing was deleted")
    desk.store.delete(ids)
    return Answer(text=f"Forgotten: {', '.join(map(str, ids))}.", data={"forgotten": ids})


def list_memories(desk: Desk, given: Mapping[str, Any]) -> Answer:
    """List memories without a query."""
    filters = desk.filters(given)
    found = desk.store.list(limit=given["limit"], offset=given["offset"], order=given["order"], **filters)
    return answers.listed(found, desk.store.count(**filters), given["offset"])


def memory_stats(desk: Desk, _given: Mapping[str, Any]) -> Answer:
    """Say what there is, in the server's own namespace where it is bound to one."""
    stats = desk.store.stats()
    own = desk.options.namespace
    there = dict(stats.namespaces) if own is None else {own: stats.namespaces.get(own, 0)}
    largest = sorted(there.items(), key=lambda one: -one[1])[:_MOST_NAMESPACES]
    meaning = "ready" if any(one.problem is None and one.state == "ready" for one in stats.spaces) else "unavailable"
    meaning = meaning if stats.spaces else "no vectors yet"
    meaning = "loading" if desk.holder.loading() else meaning
    data: dict[str, Any] = {
        "file": stats.path,
        "memories": sum(there.values()),
        "namespaces": {answers.name(name): number for name, number in largest},
        "read_only": desk.options.read_only,
        "pending": stats.pending,
        "meaning": meaning,
        "embedder": answers.notice(stats.embedder),
    }
    if own is not None:
        data["namespace"] = own
    lines = [f"{data['memories']:,} {'memory' if data['memories'] == 1 else 'memories'} in {stats.path}"]
    lines += [f"  in {name}: {number:,}" for name, number in data["namespaces"].items()]
    lines += [f"search by meaning: {meaning} ({data['embedder']})", f"vectors that wait: {stats.pending:,}"]
    return Answer(text="\n".join(lines), data=data)


def _written(desk: Desk, memory: Memory) -> Answer:
    desk.holder.wrote(memory)
    said = {
        "added": f"Remembered as memory {memory.id}.",
        "merged": f"Memory {memory.id} already holds this text; what is new was merged into it.",
        "updated": f"Memory {memory.id} was changed.",
        "unchanged": f"Memory {memory.id} is like that already.",
    }
    outcome = memory.outcome or "unchanged"
    notices = []
    if memory.pending:
        notices.append("It is found by words and names now, and by meaning once its vectors are made.")
    if (secret := secret_in(memory.text)) is not None:
        notices.append(f"It holds what looks like a secret ({secret}): unless the user wants that kept, take it out.")
    if memory.replaced_by:
        notices.append(f"Memory {memory.replaced_by[0]} replaces it: searches pass over it.")
    data = {
        "id": memory.id,
        "outcome": outcome,
        "namespace": answers.name(memory.namespace),
        "pending": bool(memory.pending),
        "notices": notices,
    }
    return Answer(text=" ".join([said[outcome], *notices]), data=data)


def _notices(found: SearchResult, *, loading: bool) -> list[str]:
    """Return what is to be known of an answer beside its hits."""
    said = []
    if found and found.uncertain:
        said.append(f"Uncertain: even the best is more likely no answer than one (relevance {found.relevance:.2f}).")
    for signal, why in found.skipped.items():
        if why == NO_WEIGHT and loading:
            said.append(LOADING)
        elif why != NOT_ASKED:
            said.append(answers.notice(f"{signal} took no part: {why}."))
    if found.pending:
        said.append(f"{found.pending:,} vectors wait to be made.")
    return said

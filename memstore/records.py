"""The small frozen records that data flows down in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal, TypeAlias, overload

# A time as callers may give it: a time or date of Python's, or ISO 8601 text. Without a zone it is local time.
Moment: TypeAlias = datetime | date | str
Outcome: TypeAlias = Literal["added", "merged", "updated", "unchanged"]
Match: TypeAlias = Literal["any", "all", "all_then_any"]
Sort: TypeAlias = Literal["relevance", "newest"]
# What the raw number of each contribution of a thread is.
THREAD_WORDS: Mapping[str, str] = {
    "answer": "of the {:.4g} of the question before it",
    "question": "it ends in a question",
    "length": "{:.0f} terms, the turns at hand have {:.0f}",
    "thread": "the best of its thread has {:.4g}",
}
# What the raw number of each contribution of age is, and what is said where there is none.
AGE_WORDS: Mapping[str, tuple[str, str]] = {
    "recency": ("{:.4g} days old, half-life {:g}", ""),
    "use": ("used {:.4g} days ago, half-life {:g}", "never used"),
    "pinned": ("pinned", "not pinned"),
}
# Below this relevance the best hit is more likely wrong than right.
LIKELY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """A memory to be stored.

    `key` is the caller's own name for it, unique in its namespace; `thread` and `position` its place in a
    conversation, journal or document; `created_at` when it happened (now, when not given; only a date that is given
    is searched as text); `entities` names that it mentions besides those found in it; `language` a code such as
    `pt`, detected when not given; `pinned` marks what is to stay at hand, whatever its age; `replaces` is the id of the
    memory that this one supersedes, which searches then pass over. Times without a zone are local time.
    """

    text: str
    key: str | None = None
    namespace: str = "default"
    author: str | None = None
    thread: str | None = None
    position: float | None = None
    created_at: Moment | None = None
    expires_at: Moment | None = None
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] | None = None
    entities: Sequence[str] = ()
    language: str | None = None
    pinned: bool = False
    replaces: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A person, place, thing, code, path, address, … and in how many memories it is mentioned."""

    name: str
    kind: str
    mentions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory; times are in UTC.

    `pending` names the embedding spaces that have no vector of it yet. `outcome` says what a write did (`added`;
    `merged` into the memory that already held this text; `updated`; `unchanged`) and is None on a memory that was only
    read. `replaces` is the memory that this one supersedes, which may be gone since; `replaced_by` are the unexpired
    memories that supersede this one, itself or through expired ones. `uses` counts how often it reached a reader,
    `used_at` is the last time, as `mark_used` was told.
    """

    id: int
    key: str | None
    namespace: str
    text: str
    author: str | None
    thread: str | None
    position: float | None
    language: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    metadata: Mapping[str, Any]
    tags: tuple[str, ...]
    entities: tuple[Entity, ...]
    pinned: bool = False
    replaces: int | None = None
    replaced_by: tuple[int, ...] = ()
    uses: int = 0
    used_at: datetime | None = None
    pending: tuple[str, ...] = ()
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A span of a memory's text: `text == memory.text[start:stop]`."""

    start: int
    stop: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Memory ids and raw scores of one signal, best first; higher is better, in the unit of the signal.

    `passages` gives the id of the passage that stands for a memory, where the signal looks at passages.
    """

    ids: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    passages: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What each signal counts for, as shares: they are divided by their sum over the signals that take part.

    Several embedding spaces share `semantic`; one that `spaces` names has a weight of its own instead. `boost` is
    added, scaled by rarity in [0, 1], to a memory that mentions an identifier of the query: a code, path, address,
    date, amount, known term; not a name that is found by its capitals. `thread` multiplies what a thread lends to its
    turns.
    """

    keyword: float = 0.4
    semantic: float = 0.4
    entity: float = 0.2
    boost: float = 0.3
    thread: float = 1.0
    spaces: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ageing:
    """What age adds to a score, each part a weight (in units of the score, at least 0) times a share in [0, 1].

    The share of `recency` is 2^(-d / half_life), d being the days since `created_at`; that of `use` the same of the
    days since the last use, 0 for a memory that was never used; that of `pinned` is 1 for a pinned memory, else 0. A
    date to come counts as today. `half_life` is in days, above 0. Adding a recency that decays exponentially to the
    relevance is from Park et al., Generative Agents (2023), section 4.1, where it decays from the last use.
    """

    half_life: float = 30.0
    recency: float = 0.0
    use: float = 0.0
    pinned: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalScore:
    """What one signal says of one hit; `contribution == normalised * weight`.

    `raw` is None where the signal knows nothing of the memory (it has no vector yet); `rank` counts from 1 among the
    candidates that the signal found evidence for, None without evidence. With evidence `normalised` is
    `(raw - zero) / (one - zero)`, which may be below 0 or above 1; `one` is None where it is another function of `raw`:
    by ranks, of what a thread lends, and of age. By the default fusion the weight is the signal's share, times its
    `confidence` for this query; what is unknown leaves its share to the other signals. Of `recency` and `use` `raw` is
    an age in days, where lower is better, and `normalised` is 2^(-raw / half_life).
    """

    raw: float | None
    normalised: float
    rank: int | None
    weight: float
    contribution: float
    zero: float | None = None
    one: float | None = None
    confidence: float = 1.0
    half_life: float | None = None

    def describe(self, name: str) -> str:
        """Return where the numbers of the signal `name` come from, as text."""
        if name in THREAD_WORDS:
            return THREAD_WORDS[name].format(self.raw, self.zero)
        if name in AGE_WORDS:
            there, none = AGE_WORDS[name]
            known = self.raw if name == "pinned" else self.raw is not None
            return there.format(self.raw, self.half_life) if known else none
        raw = "unknown" if self.raw is None else f"{self.raw:.4g}"
        between = "" if self.zero is None or self.one is None else f" from {self.zero:.4g} to {self.one:.4g}"
        rank = "no evidence" if self.rank is None else f"rank {self.rank}"
        sure = "" if self.confidence == 1 else f", confidence {self.confidence:.2f}"
        return f"raw {raw}{between}, {rank}{sure}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """How a kind of search looks: for a question that is asked (`SEARCH`), or for every prompt (`RECALL`).

    `k` is how many hits there are at most, `depth` how many candidates each signal offers. What has no evidence but a
    vector is a candidate only from `floor` on: the share of its space's scale, 0 being the mean of unrelated texts;
    None is no bound. Hits of less than `min_relevance` are left out.
    """

    k: int
    depth: int
    floor: float | None
    min_relevance: float | None = None
    rerank: bool = False


# Shares, since the cosines of one model live around 0 and those of another between .75 and .93. Unrelated texts lie
# around 0. A right memory in another language can lie there too, above all among a few: for a question that is asked
# only what is clearly further away is left out. .19 is where a cosine of .30 of all-MiniLM-L6-v2 lies.
SEARCH = Preset(k=3, depth=50, floor=-0.2)
RECALL = Preset(k=5, depth=20, floor=0.19, min_relevance=0.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory that answers the query; `score` is the sum of all contributions and the boost.

    `terms` are the words of the query that the memory holds, `neighbour_terms` those that only the memories beside it
    in its thread hold, `entities` the names of the query that it mentions, `passage` the span that answers best.
    `relevance` in [0, 1] is how likely it answers the query at all, by the signals that took part; it means the same
    for every query, store, fusion method and weights, where `score` only ranks the answers to one. `first_score` and
    `first_rank` are those of the first stage, where a second one read the best again; else None.
    """

    memory: Memory
    score: float
    rank: int
    relevance: float
    signals: Mapping[str, SignalScore]
    boost: float
    passage: Passage | None
    entities: tuple[str, ...]
    terms: tuple[str, ...]
    neighbour_terms: tuple[str, ...] = ()
    first_score: float | None = None
    first_rank: int | None = None

    def explain(self) -> str:
        """Return the score as text: a line for each signal, the boost, and what matched."""
        lines = [f"score {self.score:.4f}  relevance {self.relevance:.2f}"]
        if self.first_rank is not None:
            lines.append(f"  first stage: score {self.first_score:.4f}, rank {self.first_rank}")
        width = 1 + max(len(name) for name in (*self.signals, "semantic"))
        for name, signal in self.signals.items():
            lines.append(
                f"  {name:<{width}}{signal.contribution:.4f} = {signal.normalised:.4f} x weight {signal.weight:.2f}"
                f"  ({signal.describe(name)})"
            )
        if self.boost:
            lines.append(f"  {'boost':<{width}}{self.boost:.4f}")
        if self.terms:
            lines.append(f"  {'words':<{width}} {', '.join(self.terms)}")
        if self.neighbour_terms:
            lines.append(f"  {'beside':<{width}} {', '.join(self.neighbour_terms)}")
        if self.entities:
            lines.append(f"  {'entities':<{width}} {', '.join(self.entities)}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(Sequence[Hit]):
    """The hits of a search, best first (or the newest first, when asked for), and how they came about.

    `used` names the signals that took part, `skipped` those that did not and why, `spaces` the embedding spaces that
    answered, `pending` how many vectors passages of the file still wait for in these, `timings` the milliseconds of
    each stage. `relevance` is that of the most relevant hit, or without any that of the best candidate; `withheld` is
    how many candidates were less relevant than the floor. `notices` are sentences on what the answer may lack, such as
    memories that were analysed otherwise than the query. A space that is asked alone is the signal `semantic`; several
    are signals by their own names, and so is one that the caller names.
    """

    query: str
    hits: tuple[Hit, ...]
    used: tuple[str, ...]
    skipped: Mapping[str, str]
    timings: Mapping[str, float]
    spaces: tuple[str, ...] = ()
    pending: int = 0
    relevance: float = 0.0
    withheld: int = 0
    notices: tuple[str, ...] = ()

    @property
    def uncertain(self) -> bool:
        """Whether even the most relevant hit is more likely no answer than one, by its scores (below 0.5)."""
        return self.relevance < LIKELY

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem:
    """A passage in a block for a prompt: what a memory says, or as much of it as answers.

    A `hit` answers the query itself, at `rank` among the hits and with the `relevance` of its memory, in [0, 1]; a
    `neighbour` stands beside one in its thread, and has the relevance of that one and no rank. `tokens` is the count
    of its own part of the block; the whole may have a few more or fewer than its parts, since tokens reach across.
    """

    memory: Memory
    passage: Passage
    reason: Literal["hit", "neighbour"]
    rank: int | None
    relevance: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is remembered of a query, as one block of text for a prompt, within a number of tokens.

    `text` is the whole block, empty when nothing was found or nothing fits; `tokens` is what `tokeniser` counts of it
    as a whole, never above `max_tokens`. `items` are its parts in their order there, `found` the search behind it.
    `duplicates` counts passages left out since they say what a better one says, `left_out` those found that did not
    fit. Where nothing fits, `needed` is how many tokens a block of the best passage alone has; else None.
    """

    query: str
    text: str
    format: str
    tokens: int
    max_tokens: int
    tokeniser: str
    items: tuple[ContextItem, ...]
    found: SearchResult
    duplicates: int
    left_out: int
    needed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """An embedding space of the file: one model's vectors.

    `vectors` counts them, `pending` the passages that wait for one, `refused` those of which the model gave no usable
    vector (they are found by words and entities). `state` is `ready` or `filling` (not searched yet); `default` says
    whether a search asks it that names no space; one with `languages` is asked queries in these alone. `problem` is
    what is known to be wrong with its model here.
    """

    name: str
    model_id: str
    dimensions: int
    languages: tuple[str, ...]
    state: str
    default: bool
    vectors: int
    pending: int
    refused: int
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What filling an embedding space did, in passages, or what it would do.

    `embedded` got their vector from the model, `copied` had a vector of the same text in the space, `pending` still
    wait, `refused` have no usable vector. `seconds` is the time that was spent, in an estimate the time that `pending`
    would take. `problem` says why some wait.
    """

    space: str
    embedded: int
    copied: int
    pending: int
    refused: int
    seconds: float
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What one embedding space alone answered to some queries.

    `found` holds the ids of each query's nearest memories, best first; `milliseconds` are those of a query, embedding
    and scan; `megabytes` those of the vectors. `hit_at_1` and `hit_at_k` are the shares of the judged queries with a
    relevant memory first, and among the `k` first; None where none is judged.
    """

    space: str
    dimensions: int
    megabytes: float
    milliseconds: float
    found: tuple[tuple[int, ...], ...]
    hit_at_1: float | None = None
    hit_at_k: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Embedding spaces side by side; `agreement` is the mean share of their `k` nearest that two have in common."""

    k: int
    spaces: tuple[Answers, ...]
    agreement: tuple[tuple[str, str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What a store holds.

    `pending` counts the vectors that passages wait for, `stale` the memories that another version of the analyser has
    analysed, or in other languages: words may miss them. `embedder` says which model new memories go to, or why there
    is none.
    """

    path: str
    size_bytes: int
    schema: int
    sqlite: str
    languages: tuple[str, ...]
    memories: int
    passages: int
    entities: int
    expired: int
    pending: int
    stale: int
    namespaces: Mapping[str, int]
    spaces: tuple[Space, ...]
    embedder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did, in memories: `removed` by pruning, `pending` those that wait for vectors.

    `unlinked` counts those whose `replaces` was left out, since the memory that it names is not there.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    pending: int = 0
    unlinked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """A sparse vector: ascending indices and the value at each, as vector databases take it; all else is 0."""

    indices: tuple[int, ...]
    values: tuple[float, ...]

    def dot(self, other: "SparseVector") -> float:
        """Return the dot product of two sparse vectors."""
        held = dict(zip(self.indices, self.values, strict=True))
        return sum(value * held.get(index, 0.0) for index, value in zip(other.indices, other.values, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A known term of the user's: its name, kind and other spellings."""

    name: str
    kind: str = "term"
    aliases: tuple[str, ...] = ()

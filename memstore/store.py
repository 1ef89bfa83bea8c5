"""`MemoryStore`: one file, opened; what a person does with it."""

import builtins
import dataclasses
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TextIO, TypeAlias, cast

from memstore import checks, entities, exporting, filters, keyword, memories, planning, semantic, staleness, transfer
from memstore import context as contexts
from memstore.analysis import LANGUAGES, Analyser
from memstore.context import DEFAULT_FORMAT, DIVERSITY, GivenTokeniser, Order
from memstore.database import (
    DURABILITIES,
    JOURNALS,
    SCHEMA_VERSION,
    Database,
    Durability,
    Journal,
    Key,
    all_rows,
    one_value,
    sqlite_version,
)
from memstore.embedding import Given
from memstore.entities import Recogniser
from memstore.errors import InvalidInputError, NotFoundError
from memstore.exporting import Masked
from memstore.filling import Filler
from memstore.filters import Filter
from memstore.gathering import Question
from memstore.keyword import MATCHES
from memstore.lexicon import Lexicon
from memstore.maintenance import Maintenance, scrubbing
from memstore.masking import Redaction, masked, masked_values
from memstore.planning import Write
from memstore.profiles import Profiles
from memstore.ranking import Ranking
from memstore.ranking import checked as ranking_of
from memstore.records import (
    RECALL,
    SEARCH,
    Ageing,
    Context,
    Entity,
    ImportReport,
    Match,
    Memory,
    Moment,
    NewMemory,
    Preset,
    SearchResult,
    Sort,
    SparseVector,
    Stats,
    Weights,
)
from memstore.rerank import Reranker
from memstore.rerank import named as second_stage
from memstore.searching import Searcher, signal_names
from memstore.semantic import StoredSpace
from memstore.serving import Serving
from memstore.spaces import Spaces
from memstore.terms import Terms
from memstore.writing import Writer

# Whether a write asks the embedding models, or leaves its vectors to a later call.
Embed: TypeAlias = Literal["now", "later"]
EMBED = ("now", "later")
SORTS = ("relevance", "newest")
# Called with how many are done and how many there are.
Progress: TypeAlias = Callable[[int, int], None]
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class _Unset:
    """The absence of a change, since None is a value."""


_UNSET: Any = _Unset()


class MemoryStore:
    """A memory store in one SQLite file, made on first use.

    `embedder` is `"auto"` (what the file was made with; for a new file the bundled model if it is installed, else a
    known fastembed model that is on disk, else none), `"bundled"`, `"fastembed:FOLDER"`, `"fastembed:NAME"`,
    `"http://127.0.0.1:PORT/v1#MODEL"`, `"none"`, a function from texts to vectors, an object with the methods of
    `Embedder`, or a list of these. It makes the first space of a new file, and serves the spaces of a file that it
    has made; other spaces open their own models. A model that can't be had costs its space alone, and each answer
    says so. `model_wait` is how many seconds a write waits for a model that is still being loaded, and a search for
    its answer. `languages` are the languages that words are stemmed in; a file keeps those that it was made with, until
    `maintenance.reindex` gives it others.
    `reranker` is the second stage of a search that asks for one: `"fastembed:NAME"` or `"fastembed:FOLDER"`, a
    cross-encoder on disk, `"late-interaction"`, by the token vectors of a fastembed model that the file has a space of
    or that is on disk, `"late-interaction:FOLDER"`, or an object with the methods of `Reranker`. None is the first
    cross-encoder that is on disk, else late interaction. It is loaded at the first search that asks for it.
    `ranking` is how keywords are ranked while the store is open: `BM25(k1=…, b=…)`, `"bm25"` or `"tf-idf"`. A
    `recogniser` gives the name and kind of each entity in a text, beside those found without it. One store object
    serves many threads; close it, or use it in a `with`. A forked child can use it too, unless the fork happened in the
    middle of a transaction.

    `durability` is what a power failure may take. `"normal"`: the last commits, whole and the latest first; the file is
    never damaged. `"full"`: nothing that a call has acknowledged; each commit waits for the disk. A process that is
    killed loses nothing that was acknowledged either way. `journal` is how a commit is kept: `"auto"`, a write-ahead
    log, or a rollback journal with one warning where the disk refuses that; `"wal"`, or an error; `"delete"`, a
    rollback journal, for a network drive that only seems to have the locks that a log needs: the file keeps that
    choice, until `"wal"` is asked for. Without a log readers wait for writers. What several machines open at once over
    a network is only as safe as the locks of that drive.

    `key` encrypts the whole file: a str, bytes, or a function that returns one and is asked once. It needs the
    encrypting build of the driver (`pip uninstall -y apsw && pip install --force-reinstall apsw-sqlite3mc`). A file has
    its key from the start; who loses it has lost the file.

    A file of an earlier schema is brought to this one when it is opened, in one transaction; a copy of it as it was is
    made beside it first, and a warning says where. Raises `NotAStoreError` (a folder, another kind of file, a folder
    that does not exist), `DamagedStoreError`, `NewerSchemaError`, `EncryptionError` (a key that does not fit, a driver
    that can't encrypt), `BusyError`, `StorageError` (no copy could be made), `ReadOnlyError` (of an earlier schema, and
    can't be written), `InvalidInputError` (languages, embedder, ranking or recogniser that mean nothing, an empty key).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        embedder: Given | Sequence[Given] = "auto",
        reranker: str | Reranker | None = None,
        languages: Sequence[str] = LANGUAGES,
        read_only: bool = False,
        durability: Durability = "normal",
        journal: Journal = "auto",
        key: Key | None = None,
        ranking: Ranking | str = "bm25",
        recogniser: Recogniser | None = None,
        model_wait: float = 10.0,
    ) -> None:
        wanted = checks.languages(languages)
        self._ranking = ranking_of(ranking)
        if recogniser is not None and not callable(recogniser):
            raise InvalidInputError(f"recogniser is {type(recogniser).__name__}; give a function of a text.")
        self._database = Database(
            path,
            read_only=read_only,
            durability=cast(Durability, checks.one_of("durability", durability, DURABILITIES)),
            journal=cast(Journal, checks.one_of("journal", journal, JOURNALS)),
            key=key,
        )
        try:
            lexicon = Lexicon(self._database)
            agreed = staleness.agreed(self._database, wanted)
            if recogniser is not None:
                self._note_recogniser()
            self._analyser = Analyser(agreed, lexicon.lookup, lexicon.respell)
            serving = Serving(self._database, embedder, checks.seconds("model_wait", model_wait))
            second = second_stage(reranker, lambda: serving.token_reader(self._spaces()))
            with self._database.read() as conn:
                strangers = serving.strangers(semantic.spaces(conn))
                traces = scrubbing.warning(conn)
            for told in [*strangers, *([traces] if traces else [])]:
                warnings.warn(f"{self._database.path.name}: {told}.", stacklevel=2)
        except BaseException:
            self._database.close()
            raise
        self.terms = Terms(self._database, self._analyser, recogniser)
        self.profiles = Profiles(self._database)
        filler = Filler(self._database, serving)
        self.spaces = Spaces(self._database, serving, filler)
        self._writer = Writer(self._database, self._analyser, lexicon, filler, recogniser)
        self.maintenance = Maintenance(self._database, self._analyser, lexicon, self._writer, self.spaces, recogniser)
        self.searcher = Searcher(self._database, self._analyser, serving, recogniser, self._ranking, second)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the store can't be used after. Can be called twice.

        Transactions of other threads are waited for, up to 15 seconds, then it raises `BusyError`; what these threads
        ask after raises `StorageError`.
        """
        self._database.close()

    def add(
        self,
        text: str,
        *,
        key: str | None = None,
        namespace: str = "default",
        author: str | None = None,
        thread: str | None = None,
        position: float | None = None,
        created_at: Moment | None = None,
        expires_at: Moment | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        entities: Sequence[str] = (),
        language: str | None = None,
        pinned: bool = False,
        replaces: int | None = None,
        embed: Embed = "now",
        mask_secrets: bool = False,
    ) -> Memory:
        """Store one memory and return it; its `outcome` says whether it is new, and `pending` what waits for a vector.

        The same text (after Unicode and white space normalisation) by the same author in the same thread and
        namespace is the same memory, and keeps its date and place; tags, metadata and entities are merged into it,
        and an expiry, language or `replaces` that is given is taken; it stays pinned if it is. The text of a memory
        that is superseded is said anew, and makes a new one. A `key` is the identity instead: the memory under that key
        takes the text and every other field that is given, tags, metadata and entities beside those it has.

        `replaces` is the id of a memory of the same namespace that this one supersedes: `search`, `list`, `count` and
        `mentions` pass over that one as long as this one is there. A memory that is replaced may replace others; a ring
        is refused. Once one is deleted or has expired, what replaced it replaces what it did.

        With `embed="later"` no model is asked: the memory is found by words and names, and waits for its vectors until
        later writes, which make a few each, or `spaces.fill`. With `"now"` a model that is still loading is waited for
        as long as the store's `model_wait` allows, and the memory waits for its vectors after that too. `mask_secrets`
        replaces what has the shape of a key or token in the text and metadata before it is stored; unasked nothing is
        changed, and the first such text that is stored is told of by one `SecretWarning`.
        Raises `InvalidInputError` before anything is written, `ReadOnlyError` on a store that can't be changed.
        """
        new = NewMemory(
            text=text,
            key=key,
            namespace=namespace,
            author=author,
            thread=thread,
            position=position,
            created_at=created_at,
            expires_at=expires_at,
            tags=tags,
            metadata=metadata,
            entities=entities,
            language=language,
            pinned=pinned,
            replaces=replaces,
        )
        return self.add_many([new], embed=embed, mask_secrets=mask_secrets)[0]

    def add_many(
        self,
        items: Iterable[NewMemory],
        *,
        embed: Embed = "now",
        progress: Progress | None = None,
        mask_secrets: bool = False,
    ) -> builtins.list[Memory]:
        """Store many memories and return them in the order given.

        All are checked before the first is written. They are written in batches, each whole or not at all; a run
        that was interrupted can be repeated, since what is there already is found again, unless it was superseded. One
        may replace what an earlier one of the list adds or changes. `embed` and `mask_secrets` are as in `add`.
        """
        _at_once(embed)
        masking = checks.flag("mask_secrets", mask_secrets)
        writes: builtins.list[Write] = []
        try:
            items = iter(items)
        except TypeError:
            raise InvalidInputError(
                f"items is {type(items).__name__}, no list of NewMemory; nothing was stored."
            ) from None
        for number, item in enumerate(items):
            if not isinstance(item, NewMemory):
                raise InvalidInputError(f"item {number} is {type(item).__name__}, not NewMemory; nothing was stored.")
            try:
                new = checks.checked(item)
                writes.append(planning.adding(checks.without_secrets(new) if masking else new))
            except InvalidInputError as error:
                if number == 0:
                    raise
                raise InvalidInputError(f"item {number}: {error}") from error
        return self._stored(writes, progress, embed)

    def get(self, id: int | None = None, *, key: str | None = None, namespace: str = "default") -> Memory | None:
        """Return the memory of an id, or of a key in a namespace; None when there is none, or it has expired.

        One that another replaces is returned too: `replaced_by` says so.
        """
        if (id is None) == (key is None):
            raise InvalidInputError("get takes an id or a key: give one of the two.")
        number = None if id is None else checks.identifier(id)
        namespace, name = checks.namespace(namespace), checks.name("key", key, longest=checks.LONGEST_KEY)
        with self._database.read() as conn:
            row = memories.get(conn, number) if number is not None else memories.by_key(conn, namespace, str(name))
            if row is None or row.id is None or row.expired(checks.now()):
                return None
            return memories.read(conn, [row.id])[row.id]

    def update(
        self,
        id: int,
        *,
        text: str = _UNSET,
        key: str | None = _UNSET,
        namespace: str = _UNSET,
        author: str | None = _UNSET,
        thread: str | None = _UNSET,
        position: float = _UNSET,
        created_at: Moment = _UNSET,
        expires_at: Moment | None = _UNSET,
        tags: Sequence[str] = _UNSET,
        metadata: Mapping[str, Any] = _UNSET,
        entities: Sequence[str] = _UNSET,
        language: str | None = _UNSET,
        pinned: bool = _UNSET,
        replaces: int | None = _UNSET,
        embed: Embed = "now",
        mask_secrets: bool = False,
    ) -> Memory:
        """Set the fields given, each in place of what it was. Return the memory.

        None takes away the key, author, thread (and the place in it), expiry, language or what it replaces; an empty
        list or mapping the tags, entities or metadata. Every index follows, vectors too (`embed` and `mask_secrets` are
        as in `add`). What a field held before leaves its traces in the file until `maintenance.purge(secure=True)`.
        Raises `NotFoundError` when there is no such memory, `InvalidInputError` when another memory has that key or
        holds that text, or when it can't replace what `replaces` names (see `add`).
        """
        changes: dict[str, Any] = {}
        masking = checks.flag("mask_secrets", mask_secrets)
        if text is not _UNSET:
            changes["text"] = masked(checks.text(text)) if masking else checks.text(text)
        if namespace is not _UNSET:
            changes["namespace"] = checks.namespace(namespace)
        for field, value in (("author", author), ("thread", thread), ("language", language)):
            if value is not _UNSET:
                changes[field] = checks.name(field, value)
        if key is not _UNSET:
            changes["key"] = checks.name("key", key, longest=checks.LONGEST_KEY)
        if position is not _UNSET:
            changes["position"] = checks.position(position)
        if created_at is not _UNSET:
            created = checks.instant("created_at", created_at)
            changes |= {"created_at": created.utc, "created_offset": created.offset}
        if expires_at is not _UNSET:
            changes["expires_at"] = None if expires_at is None else checks.instant("expires_at", expires_at).utc
        if tags is not _UNSET:
            changes["tags"] = tuple(sorted(checks.names("tags", tags)))
        if metadata is not _UNSET:
            given = checks.metadata(metadata)
            changes["metadata"] = checks.encoded(masked_values(given) if masking else given)
        if entities is not _UNSET:
            changes["entities"] = checks.names("entities", entities)
        if pinned is not _UNSET:
            changes["pinned"] = checks.flag("pinned", pinned)
        if replaces is not _UNSET:
            changes["replaces"] = None if replaces is None else checks.identifier(replaces, "replaces")
        return self._stored([planning.changing(checks.identifier(id), changes)], None, embed)[0]

    def delete(self, ids: int | Iterable[int], *, secure: bool = False) -> int:
        """Take memories out of every index and table; return how many there were.

        What replaced one of them replaces from then on what that one did. What is deleted is found no more, but its
        bytes may stay in the file and its log until they are used again.

        `secure` leaves no trace in the file nor beside it of these memories and of all that was deleted or changed
        before: it overwrites them, merges the keyword index, drops the words, names and numbers of terms that no memory
        has any more, writes the file anew, empties its log, and removes the automatic backups, of which it warns. The
        known terms (`terms`) stay. It takes seconds for ten thousand memories, keeps other writers waiting, and needs
        free disk of twice the file's size. It does not reach copies, exports and backups of your own, folders that a
        killed backup or salvage left (it warns of those beside the file), snapshots of the file system, what a disk
        keeps of blocks that were given back or moved, nor the memory of a process that runs.

        Raises `BusyError` when someone still reads an older state of the file: the memories are gone then, the log may
        hold them, and the file says so when it is opened until `maintenance.purge(secure=True)` has ended it. Raises
        `EmbedderError`, with nothing deleted, where vectors can't be reached.
        """
        wanted = checks.identifiers(ids)
        if checks.flag("secure", secure):
            return scrubbing.forget(self._database, self._writer, wanted)
        return self._writer.delete(wanted)

    def list(
        self,
        *,
        limit: int = 20,
        offset: int = 0,
        order: memories.Order = "newest",
        namespace: str | None = None,
        tags: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        after: Moment | None = None,
        before: Moment | None = None,
        thread: str | None = None,
        author: str | None = None,
        superseded: bool = False,
    ) -> builtins.list[Memory]:
        """Return memories that pass the filters: `newest`, `oldest` or last `changed` first, or in `thread` order.

        `superseded` includes memories that another one replaces.
        """
        chosen = filters.checked(namespace, tags, where, after, before, thread, author, superseded=superseded)
        order = cast(memories.Order, checks.one_of("order", order, memories.ORDERS))
        limit, offset = checks.whole("limit", limit, least=1), checks.whole("offset", offset, least=0)
        return self._listed(chosen, order, limit, offset)

    def changes(
        self,
        since: Moment,
        *,
        limit: int = 50,
        namespace: str | None = None,
        tags: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        after: Moment | None = None,
        before: Moment | None = None,
        thread: str | None = None,
        author: str | None = None,
    ) -> builtins.list[Memory]:
        """Return what was added or changed since an instant (`updated_at` at or after it), the latest change first.

        Memories that another one replaces are among them. It tells of what is there: a memory that was deleted leaves
        no trace, by design. Being used is no change.
        """
        chosen = dataclasses.replace(
            filters.checked(namespace, tags, where, after, before, thread, author, superseded=True),
            since=checks.instant("since", since).utc,
        )
        return self._listed(chosen, "changed", checks.whole("limit", limit, least=1), 0)

    def _listed(self, chosen: Filter, order: memories.Order, limit: int, offset: int) -> builtins.list[Memory]:
        with self._database.read() as conn:
            found = memories.ids(conn, chosen.condition(conn, checks.now()), order, limit, offset)
            return memories.listed(conn, found)

    def mark_used(self, ids: int | Iterable[int], at: Moment | None = None) -> None:
        """Record that memories reached their reader, at an instant (now, when not given).

        Each memory counts one more use; `Ageing.use` and `Memory.uses` read them. A search records nothing by itself,
        and a use is no change of the memory. Raises `NotFoundError` when one is not there, before anything is written,
        and `ReadOnlyError` on a store that can't be changed.
        """
        wanted = dict.fromkeys(checks.identifiers(ids))
        moment = checks.now() if at is None else checks.instant("at", at).utc
        with self._database.write() as conn:
            for one in wanted:
                row = memories.get(conn, one)
                if row is None or row.expired(checks.now()):
                    raise NotFoundError(f"there is no memory {one}; no use was noted.")
            memories.note_use(conn, wanted, moment)

    def count(
        self,
        *,
        namespace: str | None = None,
        tags: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        after: Moment | None = None,
        before: Moment | None = None,
        thread: str | None = None,
        author: str | None = None,
        superseded: bool = False,
    ) -> int:
        """Return how many memories pass the filters; `superseded` includes those that another one replaces."""
        chosen = filters.checked(namespace, tags, where, after, before, thread, author, superseded=superseded)
        with self._database.read() as conn:
            return memories.count(conn, chosen.condition(conn, checks.now()))

    def search(
        self,
        query: str,
        k: int = SEARCH.k,
        *,
        profile: str = "default",
        weights: Weights | Mapping[str, float] | None = None,
        fusion: str | None = None,
        depth: int = SEARCH.depth,
        floor: float | None = SEARCH.floor,
        namespace: str | None = None,
        tags: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        after: Moment | None = None,
        before: Moment | None = None,
        thread: str | None = None,
        author: str | None = None,
        signals: Sequence[str] | None = None,
        match: Match = "any",
        rerank: bool = False,
        rerank_depth: int = 50,
        rerank_weight: float | None = None,
        min_relevance: float | None = None,
        superseded: bool = False,
        ageing: Ageing | None = None,
        sort: Sort = "relevance",
    ) -> SearchResult:
        """Return the `k` memories that answer `query` best, each with its explanation.

        The query is plain text, never syntax, and read up to its first 100,000 characters; one without any word gives
        an empty answer that says so. Each signal offers its best `depth` (at least `k`) of the memories that pass the
        filters; all of them get their exact score from every signal. What only a vector speaks for is a candidate from
        `floor` on, a share of its space's scale (see `Preset`), None for no bound; the default is low, since a synonym
        scores low. `namespace=None` searches all; `after` includes its instant, `before` does not; `tags` must all be
        there. `where` maps a metadata path (names joined by dots) to a value, or to `$eq`, `$ne`, `$in`, `$gt`, `$gte`,
        `$lt`, `$lte` or `$exists`; values are compared with their type.

        `weights` (or a `profile`: default, technical, conceptual, people, or one of `profiles`) are shares of the
        signals that take part; a mapping keeps the profile of what it leaves out, and a signal of weight 0 takes no
        part. A signal that can't is in `skipped` with the reason; `signals` names the only ones wanted, and then one
        that can't raises `SignalUnavailableError`, and threads lend nothing. `match` is of the keyword signal alone:
        any word of the query, all of them, or any where no memory has all. `fusion` says how the scores are put
        together: `calibrated` (the default: each on the scale of what this query could score, see `memstore.fusion`),
        `minmax`, `dbsf`, `zscore`, `l2`, `geometric`, `harmonic` or `rrf`. Hits less relevant than `min_relevance`,
        in [0, 1], are left out, and `withheld` counts them. `superseded` includes memories that another one replaces.

        With `rerank` the store's reranker reads the best `rerank_depth` again, beside the query: their score is then
        1 - `rerank_weight` of the first stage and `rerank_weight` of the logistic function of what the reranker says;
        without a weight its own is taken (1 for a cross-encoder). Those that were not read stay behind them. Where the
        reranker can't be had or fails, the answer is that of the first stage, and `skipped` says why.

        `ageing` adds what recency, use and being pinned count for to the score of each candidate, before the best `k`
        are taken (see `Ageing`); it changes no relevance. With `sort="newest"` the hits are the newest `k` of the
        candidates that are likely answers, the newest `created_at` first: those of at least `min_relevance`, 0.5 when
        it is not given. Where none is that likely the best `k` by score come in their order, and the answer is
        `uncertain`; a `min_relevance` that is given is kept to. Scores are the same in both orders, `rank` counts in
        the one returned. Raises `InvalidInputError` on any argument that means nothing.
        """
        if not isinstance(query, str):
            raise InvalidInputError(f"query is {type(query).__name__}, not str.")
        k, read = checks.whole("k", k, least=1), checks.whole("rerank_depth", rerank_depth, least=1)
        question = Question(
            query=_UNSTORABLE.sub(" ", query),
            k=k,
            depth=max(k, checks.whole("depth", depth, least=1)),
            weights=self.profiles.weights(profile, weights),
            fusion=fusion,
            filter=filters.checked(namespace, tags, where, after, before, thread, author, superseded=superseded),
            signals=signal_names(signals),
            match=cast(Match, checks.one_of("match", match, MATCHES)),
            ranking=self._ranking,
            min_relevance=None if min_relevance is None else checks.share("min_relevance", min_relevance),
            ageing=None if ageing is None else checks.ageing(ageing),
            sort=cast(Sort, checks.one_of("sort", sort, SORTS)),
            floor=checks.floor(floor),
            rerank=read if checks.flag("rerank", rerank) else 0,
            rerank_weight=None if rerank_weight is None else checks.share("rerank_weight", rerank_weight),
        )
        return self.searcher.search(question)

    def recall(
        self,
        query: str,
        k: int | None = None,
        *,
        preset: Preset = RECALL,
        profile: str = "default",
        weights: Weights | Mapping[str, float] | None = None,
        namespace: str | None = None,
        tags: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        after: Moment | None = None,
        before: Moment | None = None,
        thread: str | None = None,
        author: str | None = None,
        superseded: bool = False,
    ) -> SearchResult:
        """Return what is surely worth having beside `query`, for a search that nobody asked for: before every prompt.

        It is `search` by another preset: fewer candidates, a tight floor, only what is likely an answer, no second
        stage; often that is nothing. `preset` changes any of it (`dataclasses.replace(RECALL, min_relevance=0.5)`);
        `k`, weights and filters are those of `search`, and so is what is raised.
        """
        preset = checks.preset(preset)
        return self.search(
            query,
            preset.k if k is None else k,
            depth=preset.depth,
            floor=preset.floor,
            min_relevance=preset.min_relevance,
            rerank=preset.rerank,
            profile=profile,
            weights=weights,
            namespace=namespace,
            tags=tags,
            where=where,
            after=after,
            before=before,
            thread=thread,
            author=author,
            superseded=superseded,
        )

    def context(
        self,
        query: str,
        *,
        max_tokens: int = 2000,
        tokeniser: GivenTokeniser = None,
        format: str = DEFAULT_FORMAT,
        order: Order = "relevance",
        k: int | None = None,
        neighbours: bool = True,
        diversity: float = DIVERSITY,
        min_relevance: float | None = None,
        rerank: bool = False,
        rerank_depth: int = 50,
        rerank_weight: float | None = None,
        superseded: bool = False,
        profile: str = "default",
        weights: Weights | Mapping[str, float] | None = None,
        fusion: str | None = None,
        namespace: str | None = None,
        tags: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        after: Moment | None = None,
        before: Moment | None = None,
        thread: str | None = None,
        author: str | None = None,
    ) -> Context:
        """Return the memories that answer `query` best as one block of text for a prompt, within `max_tokens`.

        `tokeniser` counts: a function of a text that returns how many tokens it has, or the tokens (a list, a
        one-dimensional array, or a mapping or an encoding with its `input_ids` or `ids`); or a name:
        `tokenizers:PATH/tokenizer.json`, `tiktoken:cl100k_base` (only when its file is here already: nothing is
        downloaded), `model` (the store's own embedder, with what it puts round a passage), or, when left out,
        `estimate`, which knows no vocabulary and counts rather too many than too few. The block as a whole is counted
        and never has more. Without room for one passage, or when nothing is found, its text is empty.

        Of a long memory the passages that answer are taken; what a better passage says already, word for word or by
        its vector, is left out. `diversity` in [0, 1] prefers passages unlike those chosen before to better ones
        (maximal marginal relevance). With `neighbours` what room is left goes to the memories beside those chosen in
        their threads, where they pass the filters. `k` is the most memories that are searched for, as many as may fit
        when left out, and never more than 500.

        `format` is `markdown` (which needs fewest tokens round an item), `xml`, `plain` or `json`. Each begins by
        saying that these are data and no instructions, gives the id, local date and author of each passage, and is
        fenced and escaped so that no memory can end it or pass for another; controls and what is invisible are taken
        out of it. `order` is of the block alone: by `relevance`, or by `time`. With `rerank` the search has its second
        stage. The other arguments are those of `search`. The same store and arguments
        give the same block. Raises `InvalidInputError` on any argument that means nothing, and when the tokeniser
        fails or gives no count.
        """
        plan = contexts.plan(
            max_tokens=max_tokens,
            tokeniser=contexts.tokeniser(tokeniser, self.spaces.counting),
            format=format,
            order=order,
            k=k,
            neighbours=neighbours,
            diversity=diversity,
        )
        found = self.search(
            query,
            plan.k,
            profile=profile,
            weights=weights,
            fusion=fusion,
            min_relevance=min_relevance,
            rerank=rerank,
            rerank_depth=rerank_depth,
            rerank_weight=rerank_weight,
            superseded=superseded,
            namespace=namespace,
            tags=tags,
            where=where,
            after=after,
            before=before,
            thread=thread,
            author=author,
        )
        chosen = filters.checked(namespace, tags, where, after, before, thread, author, superseded=superseded)
        return contexts.build(found, self.searcher.around(found, chosen, neighbours=plan.neighbours), plan)

    def entities(self, *, limit: int = 50, superseded: bool = False) -> builtins.list[Entity]:
        """Return the entities that most memories mention, with how many do.

        `superseded` counts memories that another one replaces too.
        """
        limit, hidden = checks.whole("limit", limit, least=1), checks.flag("superseded", superseded)
        with self._database.read() as conn:
            return entities.most_mentioned(conn, checks.now(), limit, superseded=hidden)

    def mentions(self, name: str, *, limit: int = 20, superseded: bool = False) -> builtins.list[Memory]:
        """Return the memories that mention an entity, by any spelling of it, the newest first.

        `superseded` includes memories that another one replaces. Raises `NotFoundError` when no memory mentions it and
        it is no known term.
        """
        name, limit = checks.required_name("name", name), checks.whole("limit", limit, least=1)
        hidden = checks.flag("superseded", superseded)
        with self._database.read() as conn:
            found = entities.mentioning(conn, name, checks.now(), limit, superseded=hidden)
            if found is None:
                raise NotFoundError(f"no memory mentions {checks.brief(name)}, and it is no known term.")
            return memories.listed(conn, found)

    def sparse_vector(self, id: int) -> SparseVector:
        """Return a memory as a sparse vector: its dot product with that of a query is its score by its own words.

        It is what the ranking gives over the memory's own terms, as the file is now: idf and mean length change with
        what is added. The index of each term is kept in the file and belongs to it alone. Asking for it is a write.
        Raises `NotFoundError` when there is no such memory, `ReadOnlyError` where a term would need a new index.
        """
        number = checks.identifier(id)
        with self._database.read() as conn:
            row = memories.get(conn, number)
            if row is None or row.expired(checks.now()):
                raise NotFoundError(f"there is no memory {number}.")
            found = keyword.vector(conn, number, self._ranking)
            numbers = keyword.numbers(conn, found)
        if len(numbers) < len(found):
            with self._database.write() as conn:
                keyword.number(conn, found)
                numbers = keyword.numbers(conn, found)
        return _sparse({numbers[term]: value for term, value in found.items()})

    def sparse_query(self, query: str) -> SparseVector:
        """Return a query as a sparse vector of ones, at the terms of it that memories hold.

        On a store that is only read, terms whose memories were never asked for a vector are left out.
        """
        if not isinstance(query, str):
            raise InvalidInputError(f"query is {type(query).__name__}, not str.")
        with self._database.read() as conn:
            staleness.agree(conn, self._analyser)
            words = self._analyser.query(_UNSTORABLE.sub(" ", query[: checks.LONGEST_QUERY]))
            wanted = keyword.ask(conn, words, self._ranking, "").terms
            numbers = keyword.numbers(conn, wanted)
        if len(numbers) < len(wanted) and not self._database.read_only:
            with self._database.write() as conn:
                keyword.number(conn, wanted)
                numbers = keyword.numbers(conn, wanted)
        return _sparse(dict.fromkeys(numbers.values(), 1.0))

    def stats(self) -> Stats:
        """Return what the file holds, how much of it has vectors, and which model new memories go to."""
        with self._database.read() as conn:
            moment = checks.now()
            staleness.agree(conn, self._analyser)
            stale = staleness.count(conn, staleness.stale(conn, self._analyser).all)
            expired = one_value(conn, "SELECT count(*) FROM memories WHERE expires_at <= ?", (moment,))
            by_namespace = all_rows(
                conn,
                "SELECT namespace, count(*) FROM memories WHERE expires_at IS NULL OR expires_at > ?"
                " GROUP BY namespace ORDER BY namespace",
                (moment,),
            )
            passages = semantic.passages(conn)
            names = entities.count(conn, moment)
            unplaced = passages if self.spaces.waiting(conn) else 0
            spaces = self.spaces.list()
        return Stats(
            path=str(self._database.path),
            size_bytes=self._database.size(),
            schema=SCHEMA_VERSION,
            sqlite=sqlite_version(),
            languages=self._analyser.languages,
            memories=sum(number for _, number in by_namespace),
            passages=passages,
            entities=names,
            expired=expired,
            namespaces=dict(by_namespace),
            pending=unplaced + sum(space.pending for space in spaces),
            stale=stale,
            spaces=spaces,
            embedder=self.spaces.describe(),
        )

    def export(
        self,
        destination: TextIO | str | os.PathLike[str],
        *,
        namespace: str | None = None,
        redact: bool = False,
        masked: Masked | None = None,
    ) -> int:
        """Write every memory (of a namespace), known term and saved profile as JSON Lines; return how many memories.

        A path is made anew, readable by its owner alone; one that exists, a link too, is refused. Memories that have
        expired are left out, those that another replaces are not. `import_jsonl` brings all of it back: ids, keys,
        times, tags, metadata, entities, what replaces what, uses. With `redact` a mask stands for each secret that is
        known by its shape (keys and tokens of services, private keys), in every text and name that leaves; `masked` is
        called with how many there were of each kind.
        """
        redaction = _redaction(redact)
        number = exporting.jsonl(self._database, self.terms, self.profiles, destination, namespace, redaction)
        if masked is not None and redaction is not None:
            masked(redaction.counts)
        return number

    def export_markdown(
        self,
        folder: str | os.PathLike[str],
        *,
        namespace: str | None = None,
        redact: bool = False,
        masked: Masked | None = None,
    ) -> int:
        """Write every memory (of a namespace) as a Markdown file of its own into a folder; return how many.

        The folder is a new one, or an empty one; a link to one is refused. A file is named `0012-some-words.md` for the
        memory's id and for what its key or else its text says, in a-z, 0-9 and hyphens, and holds the text below the
        other fields as YAML. Folder and files are their owner's alone. It is for reading: known terms and profiles are
        left out, and only `export` can be imported as it was. What has expired is left out; `redact` and `masked` are
        as in `export`. Raises `StorageError`, with nothing written, where the folder can't be had.
        """
        redaction = _redaction(redact)
        number = exporting.markdown(self._database, folder, namespace, redaction)
        if masked is not None and redaction is not None:
            masked(redaction.counts)
        return number

    def import_jsonl(
        self,
        lines: Iterable[str],
        *,
        embed: Embed = "now",
        progress: Progress | None = None,
        mask_secrets: bool = False,
    ) -> ImportReport:
        """Store what lines of JSON hold: an export of `export`, or objects with the fields of `NewMemory`.

        All lines are checked before the first of anything is written. Importing the same lines again adds nothing, but
        for a new text that has been superseded since and has no key: it is said anew. An exported memory that is here
        already (by id and content, by key, or by content) is brought to the state that its line has; one whose id
        another memory has taken gets a new one, and what replaces it follows. Where the lines do not hold what an
        exported memory replaces, that link is left out and counted in `unlinked`, unless this file has the same link.
        What a new memory `replaces` is the exported one of that id where the lines hold it, else the one of this file.
        A profile takes the weights of its line. `embed` and `mask_secrets` are as in `add`.
        """
        return transfer.import_jsonl(
            self._writer,
            self.terms,
            self.profiles,
            lines,
            progress,
            embed=_at_once(embed),
            mask_secrets=checks.flag("mask_secrets", mask_secrets),
        )

    def import_markdown(
        self,
        path: str | os.PathLike[str],
        *,
        namespace: str = "default",
        prune: Callable[[Sequence[Memory]], bool] | None = None,
        embed: Embed = "now",
        progress: Progress | None = None,
        mask_secrets: bool = False,
    ) -> ImportReport:
        """Store a Markdown file, or those of a folder, as one memory a section under the key `path#heading`.

        Importing again changes what changed and adds what is new. `prune` is called with the memories of an earlier
        import whose section is gone; if it returns true they are deleted. Links inside a folder are not followed.
        `embed` and `mask_secrets` are as in `add`. Raises `NotFoundError` when there is no such file,
        `InvalidInputError` when one is not UTF-8 or longer than a text may be, or when another folder's import holds
        one of the keys.
        """
        new, imported_from = transfer.markdown(self._database, path, namespace=namespace)
        report = transfer.counted(self.add_many(new, embed=embed, progress=progress, mask_secrets=mask_secrets))
        if prune is None:
            return report
        gone = transfer.gone(self._database, new, namespace=namespace, imported_from=imported_from)
        return dataclasses.replace(report, removed=self.delete([one.id for one in gone]) if gone and prune(gone) else 0)

    def import_text(
        self,
        text: str,
        *,
        name: str | None = None,
        namespace: str = "default",
        embed: Embed = "now",
        mask_secrets: bool = False,
    ) -> ImportReport:
        """Store a plain text as one memory; `name` (of its file) is its key, so that importing it again changes it."""
        return transfer.counted([self.add(text, key=name, namespace=namespace, embed=embed, mask_secrets=mask_secrets)])

    def _stored(self, writes: Sequence[Write], progress: Progress | None, embed: Embed) -> builtins.list[Memory]:
        self._writer.check(writes)
        done = self._writer.store(writes, progress, embed=_at_once(embed))
        with self._database.read() as conn:
            waiting = self.spaces.waiting(conn)
        return [dataclasses.replace(one, pending=waiting) for one in done] if waiting else done

    def _spaces(self) -> builtins.list[StoredSpace]:
        with self._database.read() as conn:
            return semantic.spaces(conn)

    def _note_recogniser(self) -> None:
        """Note in the file that a recogniser names entities in it, so that no check takes its names for damage."""
        with self._database.read() as conn:
            noted = entities.was_recognised(conn)
        if not noted and not self._database.read_only:
            with self._database.write() as conn:
                entities.note_recogniser(conn)


def _redaction(redact: Any) -> Redaction | None:
    return Redaction() if checks.flag("redact", redact) else None


def _at_once(embed: Any) -> bool:
    return checks.one_of("embed", embed, EMBED) == "now"


def _sparse(values: Mapping[int, float]) -> SparseVector:
    order = sorted(values)
    return SparseVector(indices=tuple(order), values=tuple(values[one] for one in order))

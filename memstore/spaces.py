"""`store.spaces`: the embedding spaces of a file, added, filled, chosen, compared and removed."""

import itertools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import apsw

from memstore import checks, semantic
from memstore.database import Database
from memstore.embedding import FINGERPRINT_TEXT, Given, Model
from memstore.embedding import resolve as models_of
from memstore.errors import DamagedStoreError, EmbedderError, InvalidInputError, NotFoundError
from memstore.filling import RESERVED, Filler, new_space
from memstore.filters import Filter
from memstore.records import Answers, Comparison, Filled, Space
from memstore.semantic import StoredSpace
from memstore.serving import NO_SPACE, Serving


class Spaces:
    """The embedding spaces of one store: each holds the vectors of one model, and no two are ever compared.

    What goes wrong with a model is kept as a sentence and costs its own space alone.
    """

    def __init__(self, database: Database, serving: Serving, filler: Filler) -> None:
        self._database = database
        self._serving = serving
        self._filler = filler

    def list(self) -> tuple[Space, ...]:
        """Return every space, oldest first, with its vectors and the passages that wait for one."""
        with self._database.read() as conn:
            return tuple(self._counted(conn, space) for space in semantic.spaces(conn))

    def describe(self) -> str:
        """Say in one line which models new memories go to, or why there is none."""
        with self._database.read() as conn:
            spaces = semantic.spaces(conn)
            emptied = not spaces and semantic.had_any(conn)
        return self._serving.unavailable() or NO_SPACE if emptied else self._serving.describe(spaces)

    def load(self) -> Mapping[str, str]:
        """Load the models that searches ask, however long that takes; say of each that can't be had what is wrong.

        It is by the name of its space; in a file that never had one it is the store's own model, by its own name. No
        call need wait for it: a search that comes before takes the words and names.
        """
        with self._database.read() as conn:
            spaces, had_any = semantic.spaces(conn), semantic.had_any(conn)
        problems: dict[str, str] = {}
        for space in spaces:
            try:
                self._serving.model(space, None, patient=True)
            except EmbedderError as error:
                problems[space.name] = str(error)
        if not spaces and not had_any and (name := self._serving.waited_for()):
            try:
                self._serving.first().opened()
            except EmbedderError as error:
                problems[name] = str(error)
        return problems

    def counting(self, name: str) -> tuple[str, Callable[[str], int]] | None:
        """Return a model's own name and its count of a passage's tokens, with what it puts round it.

        `name` is that of a space, of its model, or `model` for the first space; None where there is none. Raises
        `EmbedderError` when the model can't be had or counts nothing.
        """
        with self._database.read() as conn:
            there = semantic.spaces(conn)
        space = next((one for one in there if name in ("model", one.name, one.model_id)), None)
        if space is None:
            return None
        count = getattr(self._serving.model(space, self._serving.wait).opened(), "count_tokens", None)
        if count is None:
            raise EmbedderError(f"the embedder {space.model_id} does not count tokens")
        return space.model_id, lambda text: count([text])[0]

    def waiting(self, conn: apsw.Connection) -> tuple[str, ...]:
        """Return the model that every passage waits for, in a file where it could not make its first vector yet."""
        if self._database.vectors_unavailable is not None or semantic.had_any(conn):
            return ()
        model = self._serving.waited_for()
        return (model,) if model else ()

    def add(self, embedder: Given = None, *, name: str | None = None, languages: Sequence[str] | None = None) -> Space:
        """Make a space for a model beside those that are there, and return it; `fill` then makes its vectors.

        `embedder` is a name, a function or an object as `MemoryStore` takes it; left out, it is the model that the
        store was opened with. `name` is how searches and weights name the space (the model's own name by default).
        `languages` (two-letter codes) are those of the queries that it is asked, unless it is named or the only one;
        left out, those that the model is for, and of a model for many all of them.
        New memories go to it at once; it is searched when all that was there before has its vectors too. Raises
        `InvalidInputError` when the name is taken or the file has a space of the same model, which answers as it did;
        `EmbedderError` when the model can't be had.
        """
        self._database.require_writable()
        name = self._new_name(name)
        spoken = None if languages is None else checks.codes(languages)
        model = self._own(embedder)
        # Before the transaction, which never waits for a model.
        model.references()
        with self._database.write() as conn:
            there = semantic.spaces(conn)
            if (same := self._same(there, model)) is not None:
                raise InvalidInputError(
                    f"{model.model_id} has the space {same.name!r} in this file; memstore embedders fill makes what"
                    " it lacks. Nothing was changed."
                )
            if name is not None and any(one.name == name for one in there):
                raise InvalidInputError(f"a space of this file is named {name!r}; choose another name.")
            made = new_space(conn, model, name, spoken)
        self._serving.serve(made, model)
        with self._database.read() as conn:
            return self._counted(conn, made)

    def fill(
        self,
        names: str | Sequence[str] | None = None,
        *,
        seconds: float | None = None,
        refused: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[Filled, ...]:
        """Embed every passage that waits, in all spaces or those named; return what was done in each.

        A passage whose text has a vector in the space already gets a copy of it. Each batch is a transaction: an
        interrupted run, however it ended, goes on where it stopped, and a second one does nothing. `seconds` bounds
        each space's share of the work to about that, for use between other calls; `refused` tries those again that the
        model gave no usable vector for. `progress` is called with the passages done and those to do, of one space at a
        time. In a file that never had a space the store's own model gets its own. Where several spaces are filled,
        what is wrong with the model of one stands in its `problem` and the others are filled all the same; raises
        `EmbedderError` where that is so of all.
        """
        self._database.require_writable()
        limit = None if seconds is None else checks.seconds("seconds", seconds)
        spaces = self._named(names) if names is not None else self._all()
        done: list[Filled] = []
        for space in spaces:
            try:
                done.append(self._filler.fill(space, seconds=limit, refused=refused, progress=progress))
            except EmbedderError as error:
                self._serving.failed(space, str(error))
                done.append(self._failed(space, str(error)))
        broken = [one.problem for one in done if one.problem is not None and one.pending]
        if broken and len(broken) == len(done) and not any(one.embedded or one.copied for one in done):
            raise EmbedderError("; ".join(dict.fromkeys(broken)))
        return tuple(done)

    def estimate(self, names: str | Sequence[str] | None = None, *, embedder: Given = None) -> tuple[Filled, ...]:
        """Return what `fill` would do, without doing it: `pending` passages in about `seconds`, measured on a few.

        With `embedder` it is what filling a space made for that model would do.
        """
        if embedder is None:
            with self._database.read() as conn:
                spaces = semantic.spaces(conn)
            if spaces:
                chosen = self._named(names) if names is not None else spaces
                return tuple(self._filler.estimate(space, None) for space in chosen)
        model = self._own(embedder)
        with self._database.read() as conn:
            spaces = semantic.spaces(conn)
        return (self._filler.estimate(self._same(spaces, model), model),)

    def default(self, *names: str) -> tuple[str, ...]:
        """Choose the spaces that a search asks when it names none, all of them without a name; return the choice.

        Raises `InvalidInputError` for one that is not filled yet: searches would go without it.
        """
        chosen = self._named(names) if names else self._existing()
        unfilled = [space.name for space in chosen if space.state != "ready"] if names else []
        if unfilled:
            raise InvalidInputError(f"{unfilled[0]} is not filled yet; memstore embedders fill does that first.")
        with self._database.write() as conn:
            semantic.set_searched(conn, [space.name for space in chosen])
        return tuple(space.name for space in chosen)

    def remove(self, name: str, *, last: bool = False) -> int:
        """Take a space out of the file with all of its vectors, and return how many those were.

        Raises `InvalidInputError`, with nothing changed, when no other space could be searched afterwards and `last`
        is not said; `NotFoundError` when there is no such space; `EmbedderError` without the sqlite-vec extension;
        `DamagedStoreError` where its tables are not as they were made.
        """
        name = checks.required_name("name", name)
        if self._database.vectors_unavailable is not None:
            raise EmbedderError(f"{name} can't be removed: {self._database.vectors_unavailable}")
        with self._database.write() as conn:
            spaces = semantic.spaces(conn)
            space = next((one for one in spaces if one.name == name), None)
            if space is None:
                raise self._unknown(name, spaces)
            if space.damage:
                raise DamagedStoreError(f"{name} can't be removed: {space.damage}. Nothing was changed.")
            others = [one for one in spaces if one.id != space.id and one.state == "ready"]
            if not others and not last:
                raise InvalidInputError(
                    f"no space but {name} is ready, and the file would be searched by words and names alone; say"
                    " last=True (--last) to remove it all the same. Nothing was changed."
                )
            vectors, _, _ = semantic.counts(conn, space)
            semantic.drop_space(conn, space)
            if not any(one.searched for one in others):
                semantic.set_searched(conn, [one.name for one in semantic.spaces(conn)])
        return vectors

    def compare(
        self,
        queries: Sequence[str],
        *,
        k: int = 10,
        relevant: Sequence[Collection[int]] | None = None,
        names: str | Sequence[str] | None = None,
    ) -> Comparison:
        """Ask each space alone, and return what each finds, at what cost, and how far they agree.

        Every ready space is asked, or those named. `relevant` holds the ids of the right memories for each query; a
        query without any is left out of the hit rates. Raises `EmbedderError` when a space's model can't be had.
        """
        k = checks.whole("k", k, least=1)
        if isinstance(queries, str) or not queries or not all(isinstance(one, str) for one in queries):
            raise InvalidInputError("queries: give a list of at least one text.")
        if relevant is not None and len(relevant) != len(queries):
            raise InvalidInputError(f"relevant has {len(relevant)} entries for {len(queries)} queries; give one each.")
        spaces = self._named(names) if names else self._existing()
        unfilled = [space.name for space in spaces if space.state != "ready"]
        if unfilled and (names or len(unfilled) == len(spaces)):
            raise InvalidInputError(f"{unfilled[0]} is not filled yet; memstore embedders fill does that first.")
        spaces = [space for space in spaces if space.state == "ready"]
        answers = [self._asked(space, queries, k, relevant) for space in spaces]
        return Comparison(
            k=k,
            spaces=tuple(answers),
            agreement=tuple(
                (one.space, other.space, _agreement(one, other)) for one, other in itertools.combinations(answers, 2)
            ),
        )

    def _asked(
        self,
        space: StoredSpace,
        queries: Sequence[str],
        k: int,
        relevant: Sequence[Collection[int]] | None,
    ) -> Answers:
        model = self._serving.model(space, None, patient=True)
        # The first answer of a model costs what no other does.
        model.ask_query(FINGERPRINT_TEXT)
        found: list[tuple[int, ...]] = []
        began = time.perf_counter()
        for query in queries:
            vector = model.ask_query(query)
            with self._database.read() as conn:
                if not semantic.is_there(conn, space):
                    raise NotFoundError(f"the space {space.name} has been removed from the file meanwhile.")
                condition = Filter().condition(conn, checks.now())
                near = () if vector is None else semantic.search(conn, space, vector, condition, k).ids
            found.append(near)
        spent = time.perf_counter() - began
        with self._database.read() as conn:
            vectors, _, _ = semantic.counts(conn, space)
        judged = [(near, right) for near, right in zip(found, relevant or (), strict=False) if right]
        return Answers(
            space=space.name,
            dimensions=space.dimensions,
            megabytes=vectors * space.dimensions * 4 / 1e6,
            milliseconds=1000 * spent / len(queries),
            found=tuple(found),
            hit_at_1=_hit_rate(judged, 1),
            hit_at_k=_hit_rate(judged, k),
        )

    def _own(self, embedder: Given) -> Model:
        """Return the model that a caller names, loaded; that of the store when none is named."""
        if isinstance(embedder, list | tuple):
            raise InvalidInputError("embedder is a list; a space is of one model: add one after the other.")
        if embedder is None or (isinstance(embedder, str) and embedder == "auto"):
            model = self._serving.first()
        else:
            models, _ = models_of(embedder)
            if not models:
                raise InvalidInputError(f"the embedder {embedder!r} is no model; name the model of the space.")
            model = self._serving.known_as(models[0])
        model.opened()
        if self._database.vectors_unavailable is not None:
            raise EmbedderError(self._database.vectors_unavailable)
        return model

    def _same(self, spaces: Sequence[StoredSpace], model: Model) -> StoredSpace | None:
        """Return the space of a model that answers as it did when that was made."""
        return next((one for one in spaces if self._serving.made(one, model)), None)

    def _all(self) -> Sequence[StoredSpace]:
        """Return every space; a file that never had one gets that of the store's own model."""
        with self._database.read() as conn:
            spaces, had_any = semantic.spaces(conn), semantic.had_any(conn)
        if spaces or had_any:
            return spaces or self._existing()
        model = self._own(None)
        model.references()
        self._serving.first_failure = ""
        with self._database.write() as conn:
            there = semantic.spaces(conn)
            return there or [new_space(conn, model)]

    def _existing(self) -> Sequence[StoredSpace]:
        with self._database.read() as conn:
            spaces = semantic.spaces(conn)
        if not spaces:
            raise NotFoundError(f"{NO_SPACE}.")
        return spaces

    def _named(self, names: str | Sequence[str]) -> Sequence[StoredSpace]:
        wanted = checks.names("names", [names] if isinstance(names, str) else names)
        spaces = {space.name: space for space in self._existing()}
        for name in wanted:
            if name not in spaces:
                raise self._unknown(name, list(spaces.values()))
        return [spaces[name] for name in dict.fromkeys(wanted)]

    @staticmethod
    def _unknown(name: str, spaces: Sequence[StoredSpace]) -> NotFoundError:
        there = ", ".join(space.name for space in spaces) or "none"
        return NotFoundError(f"there is no embedding space {checks.brief(name)} in this file; it has {there}.")

    def _failed(self, space: StoredSpace, problem: str) -> Filled:
        with self._database.read() as conn:
            _, pending, refused = semantic.counts(conn, space)
        return Filled(
            space=space.name, embedded=0, copied=0, pending=pending, refused=refused, seconds=0.0, problem=problem
        )

    def _counted(self, conn: apsw.Connection, space: StoredSpace) -> Space:
        vectors, pending, refused = semantic.counts(conn, space)
        return Space(
            name=space.name,
            model_id=space.model_id,
            dimensions=space.dimensions,
            languages=tuple(space.languages.split()),
            state=space.state,
            default=bool(space.searched),
            vectors=vectors,
            pending=pending,
            refused=refused,
            problem=self._serving.problem(space),
        )

    @staticmethod
    def _new_name(name: Any) -> str | None:
        checked = checks.name("name", name)
        if checked in RESERVED:
            raise InvalidInputError(f"the name {checked!r} is that of a signal; give the space another.")
        return checked


def _hit_rate(judged: Sequence[tuple[Sequence[int], Collection[int]]], k: int) -> float | None:
    """Return the share of judged queries with a relevant memory among the first `k`, None without any."""
    if not judged:
        return None
    return sum(not set(near[:k]).isdisjoint(right) for near, right in judged) / len(judged)


def _agreement(one: Answers, other: Answers) -> float:
    """Return the mean share, over queries, of the memories that two spaces both found."""
    shares = [
        len(set(some) & set(others)) / max(len(some), len(others), 1)
        for some, others in zip(one.found, other.found, strict=True)
    ]
    return sum(shares) / len(shares)

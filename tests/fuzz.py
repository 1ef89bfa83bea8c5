"""Inputs that nobody should give and files that no one wrote.

    python -m tests.fuzz --inputs 20000 --files 1000

Inputs: whatever is given to add, search, import, filters and the rest of the library, the only exceptions are those of
`memstore.errors`; what was stored reads back as it was given, and the file is sound after it.

Files: bytes of a file, or of the log beside it, are flipped, and all of it is read. Never does the process end or hang,
never is anything raised but our errors, and never does a memory or a vector read back otherwise than it was stored
without doctor naming it, or saying that the table cannot be trusted. Exits with 1 when any of this fails.
"""

import argparse
import io
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from conftest import FakeEmbedder
from nasty import Nasty
from soundness import sound

from memstore import (
    RECALL,
    Ageing,
    Memory,
    MemoryStore,
    MemstoreError,
    NewMemory,
    NotFoundError,
    Preset,
    Term,
    Weights,
    salvage,
    semantic,
)

INPUTS_A_FILE = 1_000
FILES_A_CHILD = 25
SECONDS_A_FILE = 60
MEMORIES = 200
DIMENSIONS = 32


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=2_000)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    seed = random.SystemRandom().getrandbits(31) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="memstore-fuzz-") as folder:
        faults = fuzz_inputs(Path(folder), seed, given.inputs) if given.inputs else []
        faults += fuzz_files(Path(folder), seed, given.files) if given.files else []
    for one in faults:
        print(one)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


def fuzz_inputs(folder: Path, seed: int, number: int) -> list[str]:
    """Give a store whatever there is; return what went wrong."""
    faults: list[str] = []
    outcomes: Counter[str] = Counter()
    began = time.monotonic()
    for first in range(0, number, INPUTS_A_FILE):
        path = folder / f"inputs-{first}.db"
        with MemoryStore(path, embedder=FakeEmbedder(8)) as store:
            inputs = Inputs(store, folder)
            for one in range(first, min(first + INPUTS_A_FILE, number)):
                outcome = inputs.give(seed, one)
                outcomes[outcome.partition(":")[0]] += 1
                if outcome.startswith("fault"):
                    faults.append(f"input {one} of seed {seed}: {outcome}")
        faults += [
            f"inputs {first} and on of seed {seed}: {said}" for said in sound(path, {"fake": FakeEmbedder(8).vector})
        ]
        path.unlink()
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(f"inputs: {number:,} in {time.monotonic() - began:.0f} s: {told}", flush=True)
    return faults


class Inputs:
    """The calls of the library, with arguments drawn for each."""

    def __init__(self, store: MemoryStore, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.calls: list[Callable[[Nasty], Any]] = [
            *[self.add] * 4,
            *[self.search] * 4,
            *[self.imports] * 2,
            *(self.add_many, self.update, self.delete, self.get, self.list, self.count, self.changes, self.recall),
            *(self.context, self.terms, self.profiles, self.others, self.markdown),
        ]

    def give(self, seed: int, number: int) -> str:
        """Make one call; return `stored`, `answered`, `refused`, or `fault` and what it was."""
        nasty = Nasty(seed * 1_000_003 + number)
        call = nasty.rng.choice(self.calls)
        try:
            said = call(nasty)
        except MemstoreError as error:
            text = str(error)
            return "refused" if text and "\n" not in text.strip() else f"fault: {call.__name__}: no sentence: {text!r}"
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            return f"fault: {call.__name__}: {type(error).__name__}: {str(error)[:200]!a} at {where}"
        return said if isinstance(said, str) else "answered"

    def _stored(self, memory: Memory, text: Any) -> str:
        """Compare what came back with what was given and with what is read."""
        there = self.store.get(memory.id)
        if there is None:
            return "stored" if memory.expires_at is not None else f"fault: memory {memory.id} is not there"
        if memory.text != text:
            return f"fault: memory {memory.id} has another text than was given"
        names = ("text", "key", "author", "tags", "metadata", "created_at", "position", "pinned")
        changed = [name for name in names if getattr(there, name) != getattr(memory, name)]
        return f"fault: memory {memory.id} reads back otherwise: {', '.join(changed)}" if changed else "stored"

    def add(self, nasty: Nasty) -> str:
        text, fields = nasty.usual(nasty.text, 0.95), nasty.fields()
        embed = nasty.some(embed=lambda: nasty.rng.choice(["now", "later", "never"]))
        memory = self.store.add(text, **fields, **embed)
        return self._stored(memory, text) if fields.get("key") is not None else "stored"

    def add_many(self, nasty: Nasty) -> str:
        items = [
            NewMemory(text=nasty.usual(nasty.text, 0.98), **nasty.fields())
            if nasty.rng.random() < 0.98
            else nasty.value()
            for _ in range(nasty.rng.randint(0, 4))
        ]
        self.store.add_many(nasty.usual(lambda: items, 0.97))
        return "stored"

    def update(self, nasty: Nasty) -> str:
        changes = {**nasty.fields(), **nasty.some(text=nasty.text)}
        self.store.update(self._id(nasty), **changes)
        return "stored"

    def delete(self, nasty: Nasty) -> None:
        self.store.delete(nasty.usual(lambda: [self._id(nasty) for _ in range(nasty.rng.randint(0, 3))]))

    def get(self, nasty: Nasty) -> None:
        rng = nasty.rng
        if rng.random() < 0.5:
            self.store.get(self._id(nasty))
        else:
            self.store.get(key=nasty.usual(nasty.name), **nasty.some(namespace=nasty.name))

    def _id(self, nasty: Nasty) -> Any:
        return nasty.usual(lambda: nasty.rng.randint(1, 400), 0.85)

    def list(self, nasty: Nasty) -> None:
        order = nasty.some(order=lambda: nasty.rng.choice(["newest", "oldest", "changed", "thread", "x"]))
        self.store.list(**nasty.some(limit=nasty.number, offset=nasty.number), **order, **nasty.filters())

    def count(self, nasty: Nasty) -> None:
        self.store.count(**nasty.filters())

    def changes(self, nasty: Nasty) -> None:
        filters = nasty.filters()
        filters.pop("superseded", None)
        self.store.changes(nasty.usual(nasty.moment), **nasty.some(limit=nasty.number), **filters)

    def _looks(self, nasty: Nasty) -> dict[str, Any]:
        rng = nasty.rng
        return nasty.some(
            profile=lambda: rng.choice(["default", "technical", "own", "nobody"]),
            weights=lambda: rng.choice([Weights(keyword=nasty.number()), {"keyword": nasty.number()}, {"x": 1}, {}]),
        )

    def search(self, nasty: Nasty) -> None:
        rng = nasty.rng
        options = nasty.some(
            k=lambda: rng.choice([1, 3, 1_000, nasty.number()]),
            fusion=lambda: rng.choice(
                ["calibrated", "minmax", "dbsf", "zscore", "l2", "geometric", "harmonic", "rrf", "x"]
            ),
            depth=lambda: rng.choice([1, 50, 5_000, nasty.number()]),
            floor=nasty.number,
            signals=lambda: rng.choice([["keyword"], ["semantic"], ["entity"], ["x"], [], "fake", None]),
            match=lambda: rng.choice(["any", "all", "all_then_any", "none"]),
            rerank=lambda: rng.choice([True, False]),
            rerank_depth=nasty.number,
            rerank_weight=nasty.number,
            min_relevance=nasty.number,
            ageing=lambda: Ageing(half_life=nasty.number(), recency=nasty.number(), use=0.1, pinned=nasty.number()),
            sort=lambda: rng.choice(["relevance", "newest", "x"]),
        )
        found = self.store.search(nasty.usual(nasty.text, 0.97), **options, **self._looks(nasty), **nasty.filters())
        for hit in found:
            hit.explain()

    def recall(self, nasty: Nasty) -> None:
        preset = nasty.some(
            preset=lambda: nasty.rng.choice(
                [RECALL, Preset(k=nasty.number(), depth=nasty.number(), floor=nasty.number())]
            ),
            k=nasty.number,
        )
        self.store.recall(nasty.usual(nasty.text, 0.97), **preset, **self._looks(nasty), **nasty.filters())

    def context(self, nasty: Nasty) -> None:
        rng = nasty.rng
        options = nasty.some(
            max_tokens=lambda: rng.choice([1, 50, 500, 2_000, nasty.number()]),
            tokeniser=lambda: rng.choice(["estimate", "model", "x:y", len, str.split, lambda _: nasty.value()]),
            format=lambda: rng.choice(["markdown", "xml", "plain", "json", "x"]),
            order=lambda: rng.choice(["relevance", "time", "x"]),
            k=nasty.number,
            neighbours=lambda: rng.choice([True, False]),
            diversity=nasty.number,
            min_relevance=nasty.number,
        )
        self.store.context(nasty.usual(nasty.text, 0.97), **options, **self._looks(nasty), **nasty.filters())

    def imports(self, nasty: Nasty) -> str:
        lines = [
            nasty.line({"text": nasty.text(), **nasty.fields()} if nasty.rng.random() < 0.9 else nasty.metadata() or {})
            for _ in range(nasty.rng.randint(0, 3))
        ]
        self.store.import_jsonl(nasty.usual(lambda: lines, 0.97))
        return "stored"

    def markdown(self, nasty: Nasty) -> str:
        path = self.folder / "notes.md"
        text = nasty.text().encode("utf-8", "surrogatepass" if nasty.rng.random() < 0.5 else "replace")
        marks = [
            b"# A\n",
            b"\n\n## B\n",
            b"---\na: b\n---\n",
            b"\xff\xfe",
            b"\xef\xbb\xbf",
            b"",
            b"> # q\n",
            b"\n===\n",
        ]
        path.write_bytes(b"".join(text + nasty.rng.choice(marks) for _ in range(nasty.rng.randint(0, 4))))
        if nasty.rng.random() < 0.3:
            self.store.import_text(nasty.usual(nasty.text), **nasty.some(name=nasty.name, namespace=nasty.name))
        else:
            self.store.import_markdown(path, **nasty.some(namespace=nasty.name))
        return "stored"

    def terms(self, nasty: Nasty) -> None:
        rng, terms = nasty.rng, self.store.terms
        name = nasty.usual(nasty.name)
        nasty.one_of(
            lambda: terms.add(name, **nasty.some(kind=nasty.name, aliases=lambda: [nasty.name() for _ in range(2)])),
            lambda: terms.add_many(
                [Term(name=name, kind=nasty.usual(nasty.name)), *([nasty.value()] * rng.randint(0, 1))]
            ),
            lambda: terms.remove(name),
            lambda: terms.merge(name, nasty.usual(nasty.name)),
            terms.list,
        )

    def profiles(self, nasty: Nasty) -> None:
        profiles = self.store.profiles
        nasty.one_of(
            lambda: profiles.save(nasty.usual(nasty.name), nasty.usual(lambda: {"keyword": nasty.number()})),
            lambda: profiles.save("own", {"keyword": 0.5, "spaces": {}}),
            lambda: profiles.remove(nasty.usual(nasty.name)),
            profiles.list,
        )

    def others(self, nasty: Nasty) -> None:
        store = self.store
        nasty.one_of(
            store.stats,
            lambda: store.entities(**nasty.some(limit=nasty.number)),
            lambda: store.mentions(nasty.usual(nasty.name), **nasty.some(limit=nasty.number)),
            lambda: store.mark_used(self._id(nasty), **nasty.some(at=nasty.moment)),
            lambda: store.sparse_vector(self._id(nasty)),
            lambda: store.sparse_query(nasty.usual(nasty.text)),
            lambda: store.export(io.StringIO(), **nasty.some(namespace=nasty.name)),
            lambda: store.spaces.fill(**nasty.some(names=nasty.name, seconds=nasty.number)),
            lambda: store.spaces.compare([nasty.text()], **nasty.some(k=nasty.number)),
            lambda: store.spaces.default(*([nasty.name()] if nasty.rng.random() < 0.3 else [])),
        )


def fuzz_files(folder: Path, seed: int, number: int) -> list[str]:
    """Damage copies of a file and read them, in processes of their own; return what went wrong."""
    if not hasattr(os, "fork"):
        print("files: this system has no fork")
        return []
    pristine = Pristine(folder)
    faults: list[str] = []
    outcomes: Counter[str] = Counter()
    began = time.monotonic()
    for first in range(0, number, FILES_A_CHILD):
        last = min(first + FILES_A_CHILD, number)
        while first < last:
            done, said = _in_child(pristine, folder, seed, first, last)
            for kind, what in said:
                outcomes[kind] += 1
                if kind.startswith("fault"):
                    faults.append(f"file {what}")
            first = done + 1
    told = ", ".join(f"{outcomes[kind]:,} {kind}" for kind in sorted(outcomes))
    print(f"files: {number:,} in {time.monotonic() - began:.0f} s: {told}", flush=True)
    return faults


def _in_child(
    pristine: "Pristine", folder: Path, seed: int, first: int, last: int
) -> tuple[int, list[tuple[str, str]]]:
    """Read damaged files in a child; return the last one that it came to, and what was said."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(out)
        try:
            for number in range(first, last):
                os.write(into, f"{number}\n".encode())
                for line in pristine.damage(folder, seed, number):
                    os.write(into, json.dumps(line).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(into)
    said: list[tuple[str, str]] = []
    reached, rest, lines = first - 1, b"", []
    hangs = False
    while True:
        if not select.select([out], [], [], SECONDS_A_FILE)[0]:
            os.kill(pid, signal.SIGKILL)
            hangs = True
        read = os.read(out, 1 << 16)
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            found = json.loads(line)
            if isinstance(found, int):
                reached = found
            else:
                said.append((found[0], found[1]))
        if not read:
            break
    os.close(out)
    _, status = os.waitpid(pid, 0)
    if hangs:
        said.append(("fault: hangs", f"{reached} of seed {seed}: no answer in {SECONDS_A_FILE} s"))
    elif os.WIFSIGNALED(status):
        said.append(("fault: crash", f"{reached} of seed {seed}: signal {os.WTERMSIG(status)}"))
    else:
        reached = last - 1
    return reached, said


class Pristine:
    """A file as it was written: what it holds, and copies of it with damage."""

    def __init__(self, folder: Path) -> None:
        self.plain = folder / "pristine.db"
        self.logged = folder / "logged.db"
        rng = random.Random(1)
        words = [
            "payment",
            "card",
            "expired",
            "error",
            "server",
            "printer",
            "invoice",
            "meeting",
            "reunião",
            "decisão",
            "cartão",
            "fatura",
            "ERR-4018",
        ]
        with MemoryStore(self.plain, embedder=FakeEmbedder(DIMENSIONS)) as store:
            store.terms.add("PagBank", aliases=["Pag Bank"])
            store.profiles.save("own", {"keyword": 0.7})
            store.add_many(
                [
                    NewMemory(
                        text=f"{' '.join(rng.choices(words, k=rng.randint(4, 24)))}. Maria da Silva, note {number}",
                        key=f"key-{number}" if number % 3 == 0 else None,
                        author=rng.choice([None, "Ana", "Beto Souza"]),
                        thread=rng.choice([None, "talk", "journal"]),
                        tags=rng.sample(["a", "b", "ção"], rng.randint(0, 2)),
                        metadata={"n": number, "deep": {"list": [1, 2]}},
                        created_at="2024-05-08T10:00-03:00" if number % 4 == 0 else None,
                        replaces=number if number % 50 == 7 else None,
                    )
                    for number in range(MEMORIES)
                ]
            )
            store.mark_used([1, 2, 3])
            self.versions: dict[int, list[dict[str, Any]]] = {
                memory.id: [_fields(memory)] for memory in store.list(limit=1_000, superseded=True)
            }
            self.vectors = {one: _vectors(store, one) for one in self.versions}
        self._write_log(folder)
        self.plain_bytes = self.plain.read_bytes()
        self.logged_bytes = self.logged.read_bytes(), Path(f"{self.logged}-wal").read_bytes()

    def _write_log(self, folder: Path) -> None:
        """Keep a copy of the file with changes that are in its log alone."""
        live = folder / "live.db"
        shutil.copy(self.plain, live)
        self.logged_versions = {one: list(versions) for one, versions in self.versions.items()}
        with MemoryStore(live, embedder=FakeEmbedder(DIMENSIONS)) as store:
            for one in range(1, 40, 3):
                changed = store.update(one, text=f"a changed text of memory {one}")
                self.logged_versions[one].append(_fields(changed))
            shutil.copy(live, self.logged)
            shutil.copy(f"{live}-wal", f"{self.logged}-wal")

    def damage(self, folder: Path, seed: int, number: int) -> list[tuple[str, str]]:
        """Damage a copy and read all of it; return what there is to say, the first word its kind."""
        rng = random.Random(seed * 1_000_003 + number)
        path = folder / f"damaged-{os.getpid()}.db"
        for end in ("", "-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        if rng.random() < 0.2:
            main, log = map(bytearray, self.logged_bytes)
            how = _damaged(rng, log if rng.random() < 0.7 else main)
            Path(f"{path}-wal").write_bytes(log)
            reading = Reading(self.logged_versions, None, path)
        else:
            main = bytearray(self.plain_bytes)
            how = _damaged(rng, main)
            reading = Reading(self.versions, self.vectors, path)
        path.write_bytes(main)
        where = f"{number} of seed {seed} ({how})"
        read = reading.salvaged() if number % 4 == 0 else []
        said = [(kind, f"{where}: {what}") for kind, what in [*read, *reading.read()]]
        return said or [("sound", where)]


def _fields(memory: Memory) -> dict[str, Any]:
    names = ("id", "key", "namespace", "text", "author", "thread", "position", "created_at", "expires_at", "metadata")
    return {name: getattr(memory, name) for name in (*names, "tags", "pinned", "replaces")}


def _vectors(store: MemoryStore, memory_id: int) -> dict[int, bytes]:
    with store._database.read() as conn:
        return {
            passage: vector.tobytes()
            for space in semantic.spaces(conn)
            if not space.damage
            for passage, vector in semantic.by_passage(conn, space, [memory_id]).items()
        }


def _damaged(rng: random.Random, content: bytearray) -> str:
    """Damage bytes in place, and say how."""
    what = rng.random()
    if what < 0.65:
        number = rng.randint(1, 8)
        for _ in range(number):
            content[rng.randrange(len(content))] ^= rng.randint(1, 255)
        return f"{number} bytes"
    if what < 0.85:
        at = rng.randrange(max(1, len(content) - 16))
        content[at : at + 16] = rng.randbytes(16)
        return f"16 bytes at {at}"
    page = 4096
    at = rng.randrange(len(content) // page) * page
    if what < 0.95:
        other = rng.randrange(len(content) // page) * page
        content[at : at + page] = rng.choice([bytes(page), rng.randbytes(page), bytes(content[other : other + page])])
        return f"the page at {at}"
    size = rng.randrange(len(content))
    del content[size:]
    return f"cut to {size} bytes"


class Reading:
    """All of a damaged file read by every door, and compared with what was stored."""

    def __init__(
        self, versions: dict[int, list[dict[str, Any]]], vectors: dict[int, dict[int, bytes]] | None, path: Path
    ) -> None:
        self.versions = versions
        self.vectors = vectors
        self.path = path
        self.said: list[tuple[str, str]] = []

    def read(self) -> list[tuple[str, str]]:
        store = self._try("open", lambda: MemoryStore(self.path, embedder=FakeEmbedder(DIMENSIONS)))
        if store is None:
            return self.said
        changed = self._compared(store)
        for name, call in self._calls(store).items():
            self._try(name, call)
        named = self._diagnosed(store)
        for one, what in changed.items():
            if named is not None and one not in named:
                self.said.append(("fault: unnamed", f"memory {one}: {what}, and no finding names it"))
        if changed:
            self.said.append(("changed and named", f"{len(changed)} memories"))
        for name, call in self._writes(store).items():
            self._try(name, call)
        self._try("close", store.close)
        return self.said

    def salvaged(self) -> list[tuple[str, str]]:
        """Bring what can be read into a new file: what it says is as it was stored must be."""
        path = self.path.with_name(f"salvaged-{os.getpid()}.db")
        path.unlink(missing_ok=True)
        done = self._try("salvage", lambda: salvage(self.path, path))
        if done is not None:
            with MemoryStore(path, embedder="none") as store:
                there = {memory.id: _fields(memory) for memory in store.list(limit=1_000, superseded=True)}
            for one, fields in there.items():
                if one not in done.unverified and fields not in self.versions.get(one, []):
                    self.said.append(("fault: salvaged", f"memory {one} is not as it was, and is not said to be"))
        said, self.said = self.said, []
        return said

    def _try(self, name: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except MemstoreError as error:
            self.said.append((f"refused: {type(error).__name__}", name))
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            self.said.append(("fault: raw", f"{name}: {type(error).__name__}: {str(error)[:100]} at {where}"))
        return None

    def _compared(self, store: MemoryStore) -> dict[int, str]:
        """Return which memories read back otherwise, and how; what is refused is not read back."""
        changed: dict[int, str] = {}
        for one, versions in self.versions.items():
            before = len(self.said)
            there = self._try("get", lambda one=one: store.get(one))
            if len(self.said) > before:
                continue
            if there is None:
                changed[one] = "it is not there"
            elif (fields := _fields(there)) not in versions:
                changed[one] = ", ".join(name for name, value in fields.items() if value != versions[-1][name])
            elif self.vectors is not None:
                vectors = self._try("vectors", lambda one=one: _vectors(store, one))
                if vectors is not None and vectors != self.vectors[one] and not self._skipped(store):
                    changed[one] = "its vectors"
        # Many refusals of one kind are one.
        self.said = list(dict.fromkeys(self.said))
        return changed

    def _skipped(self, store: MemoryStore) -> bool:
        """Say whether the vectors of the file are told to be damaged altogether."""
        return any("damaged" in (space.problem or "") for space in store.spaces.list())

    def _calls(self, store: MemoryStore) -> dict[str, Callable[[], Any]]:
        query = "Maria da Silva paid the card, ERR-4018, reunião"
        searches = {
            f"search {signal}": lambda signal=signal: store.search(query, k=20, signals=[signal])
            for signal in ("keyword", "semantic", "entity")
        }
        return searches | {
            "search": lambda: store.search(query, k=10, where={"deep.list": {"$exists": True}}, tags=["a"]),
            "aged": lambda: store.search(query, ageing=Ageing(use=0.1, recency=0.1), profile="own"),
            "context": lambda: store.context(query),
            "list": lambda: store.list(limit=1_000, order="thread"),
            "changes": lambda: store.changes("2024-01-01"),
            "stats": store.stats,
            "entities": store.entities,
            "mentions": lambda: store.mentions("Maria da Silva"),
            "terms": store.terms.list,
            "profiles": store.profiles.list,
            "sparse": lambda: store.sparse_vector(5),
            "by key": lambda: store.get(key="key-30"),
            "export": lambda: store.export(io.StringIO()),
            "compare": lambda: store.spaces.compare([query]),
        }

    def _writes(self, store: MemoryStore) -> dict[str, Callable[[], Any]]:
        return {
            "add": lambda: store.add("a new memory about Maria da Silva", thread="talk", author="Ana"),
            "add known": lambda: store.add("a changed text of memory 1", key="key-30"),
            "update": lambda: _expected(lambda: store.update(5, text="another text")),
            "delete": lambda: store.delete([7, 8, 9]),
            "mark": lambda: _expected(lambda: store.mark_used([11])),
            "term": lambda: store.terms.add("note 77", aliases=["N77"]),
            "fill": store.spaces.fill,
            "import": lambda: store.import_jsonl(['{"text": "an imported memory", "thread": "journal"}']),
        }

    def _diagnosed(self, store: MemoryStore) -> set[int] | None:
        """Return the memories that doctor finds damaged; None where it says that all of the file is."""
        if not hasattr(store.maintenance, "doctor"):
            return None
        before = len(self.said)
        found = self._try("doctor", store.maintenance.doctor)
        if len(self.said) > before:
            return None
        damage = [one for one in found.findings if one.severity == "damage"]
        if any(one.part in ("file", "schema") or one.count > len(one.memories) for one in damage):
            return None
        return {memory for one in damage for memory in one.memories}


def _expected(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except NotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())

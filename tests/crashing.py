"""The side of the kill test that is killed: what a worker does to a file, told to the parent before and after.

A server process imports everything once and forks a worker for each round, so that a round costs no start-up. Each
line of its output is JSON: `begin` what is about to be done, `done` what the call returned.
"""

import dataclasses
import inspect
import json
import os
import random
import select
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conftest import FakeEmbedder

from memstore import Memory, MemoryStore, NewMemory, Term
from memstore.analysis import LANGUAGES, Analyser
from memstore.database import SCHEMA_VERSION

FIXTURES = Path(__file__).parent / "fixtures"
# What a write of many is carried out in: each batch whole or not at all.
BATCH = 64
SECOND_SPACE = "other"
_NAMES = ("Ana", "Beto Souza", "Maria da Silva", "Łukasz", "王芳")
_SAID = """
payment card expired error server printer invoice contract meeting train planet garden tomato bread coffee reunião
decisão pagamento cartão fatura contrato servidor erro jardim pão café factura servidor ERR-4018 src/db.py C++ 银行卡
"""
_WORDS = tuple(_SAID.split())
# But for the language, which is detected and hangs on those of the file.
_FIELDS = (
    *("id", "key", "namespace", "text", "author", "thread", "position", "created_at", "updated_at", "expires_at"),
    *("metadata", "tags", "pinned", "replaces"),
)
# A call that the parent can check: what it is told before, and the call, whose result it is told after.
Call = tuple[dict[str, Any], Callable[[], Any]]


def embedder_of(name: str) -> Any:
    """Return the embedder of the first space: a fixed vector for each text, or a real model by its name."""
    return FakeEmbedder(32) if name == "fake" else name


def second_embedder() -> FakeEmbedder:
    return FakeEmbedder(16, model_id=SECOND_SPACE)


def as_fields(memory: Memory) -> dict[str, Any]:
    """Return what a memory is, as JSON gives it back."""
    fields = {name: getattr(memory, name) for name in _FIELDS}
    return json.loads(json.dumps(fields, default=lambda moment: moment.isoformat()))


def new_fields(rng: random.Random, *, key: str | None = None) -> dict[str, Any]:
    """Return the fields of a memory that is not there yet."""
    words = " ".join(rng.choices(_WORDS, k=rng.randint(3, 30)))
    text = f"{rng.choice(_NAMES)} {words} note {rng.getrandbits(48):x}."
    if rng.random() < 0.05:
        # Long enough for several passages.
        text = " ".join([text, *(f"Sentence {n} about {rng.choice(_WORDS)}." for n in range(40))])
    thread = rng.choice([None, None, "talk", "journal"])
    fields: dict[str, Any] = {
        "text": text,
        "namespace": rng.choice(["default", "default", "other"]),
        "author": rng.choice([None, *_NAMES]),
        "thread": thread,
        "tags": sorted(rng.sample(["a", "b", "ção", "d e"], rng.randint(0, 3))),
        "metadata": {"n": rng.randint(0, 9), "deep": {"list": [1, None, "ç"]}} if rng.random() < 0.5 else {},
        "pinned": rng.random() < 0.2,
        "key": key if key is not None else rng.choice([None, f"key-{rng.getrandbits(48):x}"]),
    }
    if rng.random() < 0.3:
        fields["created_at"] = f"2024-0{rng.randint(1, 9)}-17T12:30:00.250000+00:00"
    return fields


class Worker:
    """What each operation does, again and again until the process is killed."""

    def __init__(self, path: Path, seed: int, embedder: str) -> None:
        self.path = path
        self.rng = random.Random(seed)
        self.embedder = embedder_of(embedder)
        self.folder = path.parent

    def opened(self, path: Path | None = None) -> MemoryStore:
        return MemoryStore(path or self.path, embedder=self.embedder)

    def ids(self, store: MemoryStore) -> list[int]:
        return [memory.id for memory in store.list(limit=100_000, superseded=True)]

    def add(self) -> Iterator[Call]:
        with self.opened() as store:
            while True:
                fields = new_fields(self.rng)
                yield _put([fields]), lambda fields=fields: [store.add(**fields)]

    def add_many(self) -> Iterator[Call]:
        with self.opened() as store:
            while True:
                items = [new_fields(self.rng) for _ in range(self.rng.randint(2, 150))]
                news = [NewMemory(**fields) for fields in items]
                yield _put(items), lambda news=news: store.add_many(news)

    def update(self) -> Iterator[Call]:
        with self.opened() as store:
            ids = self.ids(store)
            while True:
                fresh = new_fields(self.rng)
                names = self.rng.sample(["text", "tags", "metadata", "pinned", "author"], self.rng.randint(1, 4))
                changes = {name: fresh[name] for name in names}
                one = self.rng.choice(ids)
                yield (
                    {"kind": "change", "id": one, "changes": changes},
                    lambda one=one, changes=changes: [store.update(one, **changes)],
                )

    def delete(self, *, secure: bool = False) -> Iterator[Call]:
        options = {"secure": True} if secure else {}
        with self.opened() as store:
            ids = self.ids(store)
            while len(ids) > 5:
                gone = [ids.pop(self.rng.randrange(len(ids))) for _ in range(self.rng.randint(1, 4))]
                yield {"kind": "delete", "ids": gone, "secure": secure}, lambda gone=gone: store.delete(gone, **options)

    def secure_delete(self) -> Iterator[Call]:
        return self.delete(secure=True)

    def import_jsonl(self) -> Iterator[Call]:
        with self.opened() as store:
            while True:
                items = [new_fields(self.rng) for _ in range(self.rng.randint(2, 150))]
                lines = [json.dumps(fields) for fields in items]
                yield _put(items), lambda lines=lines: store.import_jsonl(lines)

    def import_markdown(self) -> Iterator[Call]:
        """Import a folder of notes, then import it again with every section changed."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        with self.opened() as store:
            while True:
                names = [f"{self.rng.getrandbits(40):x}.md" for _ in range(3)]
                for _ in range(2):
                    items: list[dict[str, Any]] = []
                    for name in names:
                        bodies = {f"H{n}": new_fields(self.rng)["text"] for n in range(30)}
                        sections = {heading: f"# {heading}\n\n{body}" for heading, body in bodies.items()}
                        (folder / name).write_text("\n\n".join(sections.values()), encoding="utf-8")
                        items += [
                            {"text": text, "key": f"{name}#{heading}", "namespace": "default", "thread": name}
                            for heading, text in sections.items()
                        ]
                    items.sort(key=lambda fields: fields["thread"])
                    yield _put(items), lambda: store.import_markdown(folder)
                for name in names:
                    (folder / name).unlink()

    def terms(self) -> Iterator[Call]:
        with self.opened() as store:
            while True:
                name = f"Projeto {self.rng.choice(_WORDS)} {self.rng.getrandbits(32):x}"
                aliases = [f"{self.rng.choice(_WORDS)} {self.rng.choice(_WORDS)}{self.rng.getrandbits(16)}", "Ana"]
                term = Term(name=name, aliases=tuple(aliases[:1]))
                yield {"kind": "keep"}, lambda term=term: store.terms.add_many([term])

    def fill(self) -> Iterator[Call]:
        """Make the vectors of a second space from the start, and take it out again."""
        with self.opened() as store:
            while True:
                there = [space.name for space in store.spaces.list()]
                if SECOND_SPACE not in there:
                    yield (
                        {"kind": "keep", "filled": None},
                        lambda store=store: store.spaces.add(second_embedder(), name=SECOND_SPACE) and None,
                    )
                store.close()
                store = MemoryStore(self.path, embedder=[self.embedder, second_embedder()])
                yield (
                    {"kind": "keep"},
                    lambda store=store: {"filled": store.spaces.fill([SECOND_SPACE])[0].pending == 0},
                )
                yield (
                    {"kind": "keep", "filled": None},
                    lambda store=store: store.spaces.remove(SECOND_SPACE) and None,
                )

    def create(self) -> Iterator[Call]:
        """Make a new file and put one memory into it."""
        for number in range(1_000_000):
            path = self.folder / f"new-{number}.db"
            fields = new_fields(self.rng)

            def made(path: Path = path, fields: dict[str, Any] = fields) -> list[Memory]:
                with self.opened(path) as store:
                    return [store.add(**fields)]

            yield {"kind": "create", "path": str(path), "items": [fields]}, made

    def close(self) -> Iterator[Call]:
        """Open, write and close: closing brings the log back into the file."""
        while True:
            items = [new_fields(self.rng) for _ in range(self.rng.randint(1, 20))]

            def done(items: list[dict[str, Any]] = items) -> list[Memory]:
                with self.opened() as store:
                    return store.add_many([NewMemory(**fields) for fields in items])

            yield _put(items), done

    def backup(self) -> Iterator[Call]:
        with self.opened() as store:
            for number in range(1_000_000):
                path = self.folder / f"backup-{number}.db"
                yield (
                    {"kind": "backup", "path": str(path)},
                    lambda path=path: store.maintenance.backup(path) and None,
                )

    def optimize(self) -> Iterator[Call]:
        with self.opened() as store:
            while True:
                yield {"kind": "keep"}, lambda: store.maintenance.optimize() and None

    def reindex(self) -> Iterator[Call]:
        with self.opened() as store:
            while True:
                languages = self.rng.sample(LANGUAGES, self.rng.randint(1, 3))
                yield {"kind": "keep"}, lambda languages=languages: store.maintenance.reindex(languages=languages)

    def repair(self) -> Iterator[Call]:
        """Damage what can be rebuilt, and have it rebuilt."""
        damages = (
            "DELETE FROM memory_terms_data",
            "DELETE FROM analysed",
            "DELETE FROM memory_entities WHERE NOT given",
            "DELETE FROM passages",
            "DELETE FROM vectors_1_vector_chunks00",
            "UPDATE statistics SET memories = 7",
        )
        while True:
            with self.opened() as store:
                conn = store._database.connection()
                damage = self.rng.choice(damages)
                yield {"kind": "damage", "filled": None}, lambda conn=conn, damage=damage: conn.execute(damage) and None
            with self.opened() as store:
                yield {"kind": "repair", "filled": None}, lambda store=store: store.maintenance.repair() and None

    def migrate(self) -> Iterator[Call]:
        """Open copies of files of earlier schemas."""
        old = fixtures()
        for number in range(1_000_000):
            source = old[number % len(old)]
            path = self.folder / f"old-{number}.db"
            shutil.copy(source, path)

            def migrated(path: Path = path) -> None:
                MemoryStore(path, embedder="none").close()

            yield {"kind": "migrate", "path": str(path), "source": str(source)}, migrated


def _put(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "put", "items": items}


def fixtures() -> list[Path]:
    """Return the files of earlier schemas that the repository keeps."""
    found = {int(path.stem.removeprefix("schema-")): path for path in FIXTURES.glob("schema-*.db")}
    return [found[version] for version in sorted(found) if version < SCHEMA_VERSION]


def operations() -> list[str]:
    """Return the operations that the package has."""
    names = [
        "add",
        "add_many",
        "update",
        "delete",
        "import_jsonl",
        "import_markdown",
        "terms",
        "fill",
        "create",
        "close",
    ]
    with tempfile.TemporaryDirectory() as folder, MemoryStore(Path(folder, "memory.db"), embedder="none") as store:
        there = [name for name in ("backup", "optimize", "reindex", "repair") if hasattr(store.maintenance, name)]
        if "secure" in inspect.signature(store.delete).parameters:
            there.append("secure_delete")
    return [*names, *there, *(["migrate"] if fixtures() else [])]


def work(order: dict[str, Any]) -> None:
    """Carry out an order until the end of the process."""
    worker = Worker(Path(order["path"]), order["seed"], order["embedder"])
    for told, call in getattr(worker, order["operation"])():
        _say("begin", told)
        returned = call()
        if isinstance(returned, list) and returned and isinstance(returned[0], Memory):
            returned = [as_fields(memory) for memory in returned]
        elif dataclasses.is_dataclass(returned) or isinstance(returned, list):
            returned = None
        _say("done", returned)
    _say("ended", None)


def _say(event: str, told: Any) -> None:
    line = json.dumps([event, told], default=str).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


def serve() -> None:
    """Fork a worker for each order that comes in, and tell when it has ended; no thread and no file is open here."""
    warnings.simplefilter("ignore")
    Analyser().analysed("o erro foi corrigido, the cards expired, las facturas", LANGUAGES)
    _say("ready", None)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _say("started", os.getpid())
            try:
                work(json.loads(line))
            except Exception as error:
                _say("failed", f"{type(error).__name__}: {error}")
            # It waits to be killed, or for the end of the one who would.
            waiting = select.poll()
            waiting.register(1, select.POLLERR)
            waiting.poll()
            os._exit(1)
        os.waitpid(pid, 0)
        # A line that the worker was killed in ends here.
        os.write(1, b"\n")
        _say("gone", pid)


if __name__ == "__main__":
    serve()

"""What one file bears: many processes, processes that race to make it, many threads, and an event loop.

1. Writer processes add while reader processes search the same file: memories, errors, adds a second, and how long a
   read takes; beside it what it takes while as many writers write to files of their own, which costs the same of the
   machine's cores and disk and shares no lock, and what it takes without writers.
2. Processes released at once onto a path that does not exist each add a note, over and over.
3. Threads add to and search one store object.
4. An event loop beats every 10 ms while searches with a slow embedder run, in the loop by the plain store and beside it
   by memstore.aio: the longest gap between two beats.
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
import zlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memstore import MemoryStore, NewMemory, aio

SPAWN = multiprocessing.get_context("spawn")
WORDS = ("bread", "garden", "invoice", "server", "payment", "train", "planet", "contract", "tomato", "coffee", "budget")
BEAT = 0.01
# Between two reads of one reader, or the readers alone would take all cores.
PAUSE = 0.01
# What readers ask for does not become more while writers add, so that a read costs the same at the end.
KESTRELS = 20


@dataclass(frozen=True, kw_only=True)
class Done:
    """What one worker did: adds, the seconds of each read, and what went wrong."""

    role: str
    adds: int
    reads: list[float]
    errors: list[str]


def text(name: str, number: int) -> str:
    one, other = WORDS[number % len(WORDS)], WORDS[(number * 7 + len(name)) % len(WORDS)]
    return f"{name} noted {one} and {other} as number {number}"


def guarded(work: Callable[[], None], errors: list[str]) -> None:
    try:
        work()
    except Exception as error:
        errors.append(f"{type(error).__name__}: {error}")


def write(path: Path, args: argparse.Namespace, durability: str, name: str, start: Any, out: Any) -> None:
    errors: list[str] = []
    with MemoryStore(path, embedder=args.embedder, durability=durability) as store:
        store.search("warm")
        start.wait()
        added = 0
        for number in range(args.adds):
            before = len(errors)
            guarded(lambda number=number: store.add(text(name, number)), errors)
            added += len(errors) == before
    out.put(Done(role="writer", adds=added, reads=[], errors=errors))


def read(path: Path, args: argparse.Namespace, number: int, least: int, start: Any, stop: Any, out: Any) -> None:
    errors: list[str] = []
    reads: list[float] = []
    with MemoryStore(path, embedder=args.embedder) as store:
        store.search("warm")
        start.wait()
        while not stop.is_set() or len(reads) < least:
            query = f"which kestrel nests at quarry{(len(reads) + number) % KESTRELS}?"
            began = time.perf_counter()
            guarded(lambda query=query: store.search(query), errors)
            reads.append(time.perf_counter() - began)
            time.sleep(PAUSE)
    out.put(Done(role="reader", adds=0, reads=reads, errors=errors))


def readers_and_writers(
    path: Path, args: argparse.Namespace, durability: str, files: list[Path]
) -> tuple[list[Done], float]:
    """Run the readers of a file, and a writer to each of some files; return what each did and what the writers took."""
    out, stop = SPAWN.Queue(), SPAWN.Event()
    writers = len(files)
    start = SPAWN.Barrier(writers + args.readers + 1)
    least = 1 if writers else args.reads
    processes = [
        SPAWN.Process(target=write, args=(file, args, durability, f"writer{one}", start, out))
        for one, file in enumerate(files)
    ] + [SPAWN.Process(target=read, args=(path, args, one, least, start, stop, out)) for one in range(args.readers)]
    for process in processes:
        process.start()
    start.wait()
    began = time.perf_counter()
    done = [out.get() for _ in range(writers)]
    spent = time.perf_counter() - began
    stop.set()
    done += [out.get() for _ in range(args.readers)]
    for process in processes:
        process.join()
    return done, spent


def show_errors(errors: list[str]) -> None:
    for error in sorted(set(errors))[:5]:
        print(f"    {errors.count(error)} x {error}")


def processes_share(folder: Path, args: argparse.Namespace, durability: str) -> None:
    path = folder / f"shared-{durability}.db"
    with MemoryStore(path, embedder=args.embedder) as store:
        kestrels = [NewMemory(text=f"kestrel{one} nests at quarry{one}") for one in range(KESTRELS)]
        store.add_many(kestrels)
    during, spent = readers_and_writers(path, args, durability, [path] * args.writers)
    own = [folder / f"own-{durability}-{one}.db" for one in range(args.writers)]
    apart, _ = readers_and_writers(path, args, durability, own)
    alone, _ = readers_and_writers(path, args, durability, [])
    errors = [error for one in (*during, *apart, *alone) for error in one.errors]
    with MemoryStore(path, embedder=args.embedder) as store:
        stats = store.stats()
    added = sum(one.adds for one in during)
    print(
        f"{args.writers} writers x {args.adds} adds and {args.readers} readers on one file, embedder {args.embedder},"
        f" durability {durability}:\n"
        f"  {added:,} adds acknowledged, {stats.memories - KESTRELS:,} memories kept,"
        f" {stats.pending:,} without a vector, {len(errors)} errors\n"
        f"  {added / spent:,.0f} adds a second"
    )
    for what, done in (
        ("beside the writers", during),
        ("beside as many writers to files of their own", apart),
        ("without writers", alone),
    ):
        reads = np.array([one for worker in done for one in worker.reads]) * 1000
        p50, p95 = np.percentile(reads, [50, 95])
        print(f"  a read {what:46} p50 {p50:6.1f} ms, p95 {p95:6.1f} ms ({len(reads):,} reads)", flush=True)
    show_errors(errors)


def race(folder: Path, rounds: int, name: int, barrier: Any, out: Any) -> None:
    errors: list[str] = []
    slowest: list[float] = []
    for number in range(rounds):
        barrier.wait()
        began = time.perf_counter()

        def work(number: int = number) -> None:
            with MemoryStore(folder / f"race-{number}.db", embedder="none") as store:
                store.add(f"racer {name} was here")

        guarded(work, errors)
        slowest.append(time.perf_counter() - began)
    out.put(Done(role="racer", adds=rounds - len(errors), reads=slowest, errors=errors))


def processes_race(folder: Path, args: argparse.Namespace) -> None:
    barrier, out = SPAWN.Barrier(args.racers), SPAWN.Queue()
    processes = [
        SPAWN.Process(target=race, args=(folder, args.rounds, one, barrier, out)) for one in range(args.racers)
    ]
    for process in processes:
        process.start()
    done = [out.get() for _ in processes]
    for process in processes:
        process.join()
    rows = []
    for number in range(args.rounds):
        with MemoryStore(folder / f"race-{number}.db", embedder="none") as store:
            rows.append(store.count())
    errors = [error for one in done for error in one.errors]
    whole = sum(number == args.racers for number in rows)
    print(
        f"{args.racers} processes at once onto a path that does not exist, {args.rounds} times:\n"
        f"  {sum(rows):,} of {args.racers * args.rounds:,} notes, all of them in {whole} of {args.rounds} files,"
        f" {len(errors)} errors; the slowest took {max(max(one.reads) for one in done):.2f} s",
        flush=True,
    )
    show_errors(errors)


def threads_share(folder: Path, args: argparse.Namespace) -> None:
    errors: list[str] = []
    found = [0] * args.threads
    with MemoryStore(folder / "threads.db", embedder=args.embedder) as store:
        store.add("made in the main thread")

        def work(name: int) -> None:
            for number in range(args.thread_adds):
                added = store.add(f"thread {name} noted code{name}x{number} beside {WORDS[number % len(WORDS)]}")
                hits = store.search(f"code{name}x{number}", k=1)
                found[name] += bool(hits) and hits[0].memory.id == added.id

        began = time.perf_counter()
        with ThreadPoolExecutor(args.threads) as pool:
            list(pool.map(lambda name: guarded(lambda: work(name), errors), range(args.threads)))
        spent = time.perf_counter() - began
        kept = store.count() - 1
    wanted = args.threads * args.thread_adds
    print(
        f"{args.threads} threads x {args.thread_adds} adds, each followed by a search for it, on one store object,"
        f" embedder {args.embedder}:\n"
        f"  {kept:,} of {wanted:,} memories, {sum(found):,} found first at once, {len(errors)} errors,"
        f" {wanted / spent:,.0f} of both a second",
        flush=True,
    )
    show_errors(errors)


class Slow:
    """An embedder that takes its time for a query, as a distant or large model does."""

    model_id = "slow"
    dimensions = 8

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def embed_passages(self, texts: list[str]) -> np.ndarray:
        return np.stack([self._vector(one) for one in texts])

    def embed_query(self, query: str) -> np.ndarray:
        time.sleep(self.seconds)
        return self._vector(query)

    def _vector(self, said: str) -> np.ndarray:
        drawn = np.random.default_rng(zlib.crc32(said.encode())).standard_normal(self.dimensions)
        return (drawn / np.linalg.norm(drawn)).astype(np.float32)


async def longest_gap(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Return the longest time between two beats of the loop while something is done, and how long that took."""
    beats = [time.perf_counter()]

    async def beat() -> None:
        while True:
            await asyncio.sleep(BEAT)
            beats.append(time.perf_counter())

    heart = asyncio.create_task(beat())
    await asyncio.sleep(5 * BEAT)
    beats[:], began = [time.perf_counter()], time.perf_counter()
    await work()
    spent = time.perf_counter() - began
    await asyncio.sleep(2 * BEAT)
    heart.cancel()
    return float(np.diff(beats).max()), spent


def given(kind: str, args: argparse.Namespace) -> Any:
    return Slow(args.delay / 1000) if kind == "slow" else args.embedder


def prepare(path: Path, kind: str, args: argparse.Namespace) -> None:
    with MemoryStore(path, embedder=given(kind, args), model_wait=60) as store:
        store.add_many([NewMemory(text=text("loop", number)) for number in range(200)])


async def beats(path: Path, kind: str, args: argparse.Namespace) -> None:
    queries = [f"{WORDS[one % len(WORDS)]} as number {one}" for one in range(args.searches)]
    options: dict[str, Any] = {"embedder": given(kind, args), "model_wait": 60}
    store = aio.MemoryStore(path, **options)

    async def first() -> None:
        await store.search("the first one imports and loads what is not there yet")

    async def beside() -> None:
        await asyncio.gather(*(store.search(query) for query in queries))

    rows = [("memstore.aio, opening and first search", *await longest_gap(first))]
    rows.append((f"memstore.aio, {args.searches} searches at once", *await longest_gap(beside)))
    await store.close()
    with MemoryStore(path, **options) as plain:

        async def ask(query: str) -> None:
            plain.search(f"again {query}")

        async def inside() -> None:
            await asyncio.gather(*(ask(query) for query in queries))

        rows.append((f"the plain store in the loop, {args.searches} searches", *await longest_gap(inside)))
    named = f"an embedder of {args.delay} ms" if kind == "slow" else f"embedder {kind}"
    print(f"longest gap between beats of an event loop, {named}:")
    for what, gap, spent in rows:
        print(f"  {what:46} {gap * 1000:8.0f} ms in {spent:6.2f} s", flush=True)


def in_a_loop(path: Path, kind: str, args: argparse.Namespace) -> None:
    asyncio.run(beats(path, kind, args))


def loop_beats(folder: Path, args: argparse.Namespace) -> None:
    for number, kind in enumerate(("slow", args.embedder)):
        for work in (prepare, in_a_loop):
            # Each in a process of its own: what the first search has to load is not loaded yet.
            process = SPAWN.Process(target=work, args=(folder / f"loop-{number}.db", kind, args))
            process.start()
            process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--adds", type=int, default=500, help="of each writer")
    parser.add_argument("--reads", type=int, default=500, help="of each reader, without writers")
    parser.add_argument("--embedder", default="none")
    parser.add_argument("--durability", nargs="+", choices=("normal", "full"), default=("normal", "full"))
    parser.add_argument("--racers", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20, help="of the race")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--thread-adds", type=int, default=100, help="of each thread")
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--delay", type=int, default=200, help="milliseconds that the slow embedder takes")
    parser.add_argument("--only", nargs="+", choices=("processes", "race", "threads", "loop"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if args.only is None or "processes" in args.only:
            for durability in args.durability:
                processes_share(folder, args, durability)
        if args.only is None or "race" in args.only:
            processes_race(folder, args)
        if args.only is None or "threads" in args.only:
            threads_share(folder, args)
        if args.only is None or "loop" in args.only:
            loop_beats(folder, args)


if __name__ == "__main__":
    main()

"""The kill test: a process that writes to a file is killed with SIGKILL at a random instant, again and again.

    python -m tests.crash --rounds 500

After each kill the file is opened again and looked at: every write that was acknowledged is there with its exact
fields, one that was not is there whole or not at all, what was deleted stays deleted, every index agrees, and doctor
finds nothing. The same file goes on being used. Exits with 1 when anything was lost.
"""

import argparse
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import apsw
import crashing
from crashing import BATCH, SECOND_SPACE, as_fields, embedder_of, new_fields, second_embedder
from soundness import sound

import memstore
from memstore import MemoryStore, MemstoreError, NewMemory
from memstore.database import automatic_backups

ROUNDS_A_FILE = 50
MOST_MEMORIES = 400
FEWEST_MEMORIES = 40
# How long a worker may take to do anything at all.
PATIENCE = 120.0


@dataclass(slots=True)
class Tally:
    """What happened to one operation."""

    rounds: int = 0
    during: int = 0
    acknowledged: int = 0
    lost: int = 0
    halves: int = 0
    doctor: int = 0


@dataclass(slots=True)
class Expected:
    """What a file must hold: memories by id, and those that were acknowledged without telling their ids."""

    known: dict[int, dict[str, Any]] = field(default_factory=dict)
    owed: list[dict[str, Any]] = field(default_factory=list)
    filled: bool | None = None

    def acknowledge(self, told: dict[str, Any], returned: Any) -> None:
        """Take over what a call has done."""
        if told["kind"] == "put" and returned is None:
            self.owe(told["items"])
        elif told["kind"] in ("put", "change"):
            self.known |= {fields["id"]: fields for fields in returned}
        elif told["kind"] == "delete":
            for one in told["ids"]:
                self.known.pop(one)
        if "filled" in told or isinstance(returned, dict):
            self.filled = told.get("filled") if returned is None else returned["filled"]

    def owe(self, items: list[dict[str, Any]]) -> None:
        """Expect items, each in place of what its key names."""
        for item in items:
            named = (item["namespace"], item["key"])
            if item["key"] is not None:
                self.owed = [one for one in self.owed if (one["namespace"], one["key"]) != named]
                same = [one for one, fields in self.known.items() if (fields["namespace"], fields["key"]) == named]
                for one in same:
                    item = {**item, "id": self.known.pop(one)["id"]}
            self.owed.append(item)

    def faults(self, actual: dict[int, dict[str, Any]]) -> list[str]:
        """Return what is lost or should not be there."""
        found = [
            f"memory {one} is lost: {fields['text'][:60]!r}" for one, fields in self.known.items() if one not in actual
        ]
        for one, fields in self.known.items():
            if one in actual and actual[one] != fields:
                names = [name for name in fields if fields[name] != actual[one][name]]
                found.append(f"memory {one} is changed: {', '.join(names)}")
        others = {fields["text"]: fields for one, fields in actual.items() if one not in self.known}
        for item in self.owed:
            there = others.pop(item["text"], None)
            if there is None:
                found.append(f"what was acknowledged is lost: {item['text'][:60]!r}")
            elif names := [name for name, value in item.items() if not _same(there[name], value)]:
                found.append(f"memory {there['id']} is half there: {', '.join(names)}")
        found += [f"memory {fields['id']} comes from nowhere: {text[:60]!r}" for text, fields in others.items()]
        return found

    def possible(self, unfinished: dict[str, Any] | None) -> "list[Expected]":
        """Return the states that a file may be in when a call did not end."""
        states = [self]
        kind = unfinished["kind"] if unfinished else None
        if kind == "put":
            items = unfinished["items"]
            for number in sorted({*range(BATCH, len(items), BATCH), len(items)}):
                state = Expected(known=dict(self.known), owed=list(self.owed))
                state.owe(items[:number])
                states.append(state)
        elif kind == "change":
            one = unfinished["id"]
            changed = {name: value for name, value in self.known[one].items() if name != "updated_at"}
            rest = {other: fields for other, fields in self.known.items() if other != one}
            states.append(Expected(known=rest, owed=[*self.owed, {**changed, **unfinished["changes"]}]))
        elif kind == "delete":
            rest = {one: fields for one, fields in self.known.items() if one not in unfinished["ids"]}
            states.append(Expected(known=rest, owed=list(self.owed)))
        return states


def _same_tables(copy: Path, source: Path) -> bool:
    """Say whether a copy that was made before a migration is sound and has the memories of the file as it was."""
    held = []
    for path in (copy, source):
        connection = apsw.Connection(f"file:{path}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        held.append(connection.execute("SELECT * FROM memories ORDER BY id").fetchall())
        sound = [text for (text,) in connection.execute("PRAGMA integrity_check")] == ["ok"]
        connection.close()
    return sound and held[0] == held[1]


def _same(stored: Any, given: Any) -> bool:
    return stored == given or (isinstance(given, str) and stored == given.replace("Z", "+00:00"))


class Server:
    """The process that forks a worker for each round."""

    def __init__(self) -> None:
        # The server's memstore is the one that is imported here.
        own = str(Path(memstore.__file__).parent.parent)
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": own}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(crashing.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=Path(__file__).parent.parent,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._rest = b""
        self._lines: list[bytes] = []
        self.next()

    def order(self, **order: Any) -> None:
        self._in.write(json.dumps(order).encode() + b"\n")
        self._in.flush()

    def next(self, seconds: float = PATIENCE) -> tuple[str, Any] | None:
        """Return the next whole line of a worker, None when none comes in time."""
        deadline = time.monotonic() + seconds
        while True:
            while self._lines:
                line = self._lines.pop(0)
                try:
                    event, told = json.loads(line)
                except ValueError:
                    # The line that a worker was killed in.
                    continue
                return event, told
            left = deadline - time.monotonic()
            if left < 0 or not select.select([self._out], [], [], max(0.0, left))[0]:
                return None
            read = os.read(self._out.fileno(), 1 << 16)
            if not read:
                raise RuntimeError("the server of workers has ended")
            *lines, self._rest = (self._rest + read).split(b"\n")
            self._lines += [line for line in lines if line]

    def close(self) -> None:
        self._in.close()
        self._out.close()
        self._process.wait()


class Test:
    """Files, kills and what became of them."""

    def __init__(self, seed: int, embedder: str, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.embedder = embedder
        self.folder = folder
        self.server = Server()
        self.tallies: dict[str, Tally] = {}
        self.faults: list[str] = []
        # How long a call of each operation takes, in seconds.
        self._spans: dict[str, float] = {}
        self._renew(0)

    def _renew(self, number: int) -> None:
        self.path = self.folder / f"memory-{number}" / "memory.db"
        self.path.parent.mkdir()
        self.expected = Expected()
        self.rounds = 0
        self._settle()

    def _vectors(self) -> dict[str, Any] | None:
        if self.embedder != "fake":
            return None
        return {"fake": embedder_of("fake").vector, SECOND_SPACE: second_embedder().vector}

    def round(self, number: int, operation: str) -> None:
        """Have an operation carried out, kill it, and look at what is left."""
        if self.rounds >= ROUNDS_A_FILE or len(self.expected.known) > MOST_MEMORIES:
            shutil.rmtree(self.path.parent)
            self._renew(number)
        self.rounds += 1
        tally = self.tallies.setdefault(operation, Tally())
        tally.rounds += 1
        unfinished, done = self._killed(operation)
        tally.during += unfinished is not None and unfinished["kind"] != "damage"
        tally.acknowledged += len(done)
        created: list[dict[str, Any]] = []
        traces: list[str] = []
        for told, returned in done:
            if told.get("secure"):
                traces += self._traces(told["ids"])
            if told["kind"] in ("create", "backup", "migrate"):
                created.append({**told, "returned": returned})
            else:
                self.expected.acknowledge(told, returned)
        if unfinished is not None and unfinished["kind"] in ("create", "backup", "migrate"):
            created.append(unfinished)
        last = unfinished or (done[-1][0] if done else {"kind": "keep"})
        if last["kind"] == "damage" or (unfinished is not None and last["kind"] == "repair"):
            self._repair()
        if operation == "repair":
            self._reindex()
        before = dict(self.expected.known)
        faults, halves = self._check(unfinished)
        faults += traces
        for told in created:
            lost, broken = self._check_other(told, before, acknowledged="returned" in told)
            faults += lost
            halves += broken
        for left in self.path.parent.iterdir():
            if not left.name.startswith(self.path.name):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        self._note(tally, f"round {number}, {operation}", faults, halves)

    def _traces(self, ids: list[int]) -> list[str]:
        """Return which memories left a trace in the file or beside it: the number that no other text has."""
        held = b"".join(one.read_bytes() for one in self.path.parent.iterdir() if one.is_file())
        numbers = {one: self.expected.known[one]["text"].split(" note ")[1].partition(".")[0] for one in ids}
        return [f"memory {one} left a trace" for one, number in numbers.items() if number.encode() in held]

    def _note(self, tally: Tally, where: str, lost: list[str], halves: list[str]) -> None:
        doctor = [one for one in halves if one.startswith("doctor")]
        tally.lost += len(lost)
        tally.doctor += len(doctor)
        tally.halves += len(halves) - len(doctor)
        for one in [*lost, *halves]:
            self.faults.append(f"{where}: {one}")
            print(self.faults[-1], flush=True)
        if lost or halves:
            kept = self.folder.with_name(f"{self.folder.name}-{len(self.faults)}")
            shutil.copytree(self.path.parent, kept, dirs_exist_ok=True)
            print(f"{where}: the file is kept in {kept}", flush=True)
            shutil.rmtree(self.path.parent)
            self._renew(1_000_000 + len(self.faults))

    def _killed(self, operation: str) -> tuple[dict[str, Any] | None, list[tuple[dict[str, Any], Any]]]:
        """Kill a worker in the middle of an operation; return the call that did not end, and those that did."""
        self.server.order(
            path=str(self.path), operation=operation, seed=self.rng.getrandbits(32), embedder=self.embedder
        )
        pid = self._expect("started")
        # Some are killed while they open the file, most after a number of calls that went well.
        opening = self.rng.random() < 0.05
        calls = self.rng.choice([0, 0, 1, 1, 2, 3, 5, 8])
        span = 0.01
        begun: dict[str, Any] | None = None
        began = 0.0
        done: list[tuple[dict[str, Any], Any]] = []
        kill_at = time.monotonic() + self.rng.uniform(0, 0.05) if opening else None
        while kill_at is None:
            event = self.server.next()
            if event is None or event[0] == "failed":
                os.kill(pid, signal.SIGKILL)
                raise RuntimeError(f"the worker of {operation} did not go on: {event}")
            if event[0] == "begin":
                begun, began = event[1], time.monotonic()
            elif event[0] == "done" and begun is not None:
                done.append((begun, event[1]))
                kind = f"{operation}, {begun['kind']}"
                took = time.monotonic() - began
                self._spans[kind] = 0.7 * self._spans.get(kind, took) + 0.3 * took
                begun = None
            if event[0] == "ended" or (len(done) >= calls and begun is not None and begun["kind"] != "damage"):
                if begun is not None:
                    span = self._spans.get(f"{operation}, {begun['kind']}", 0.01)
                kill_at = time.monotonic() + self.rng.uniform(0, 1.2 * span)
        if kill_at - time.monotonic() > 0.005:
            time.sleep(kill_at - time.monotonic() - 0.003)
        while time.monotonic() < kill_at:
            pass
        os.kill(pid, signal.SIGKILL)
        while (event := self.server.next()) is not None and event[0] != "gone":
            if event[0] == "begin":
                begun = event[1]
            elif event[0] == "done" and begun is not None:
                done.append((begun, event[1]))
                begun = None
        return begun, done

    def _expect(self, wanted: str) -> Any:
        event = self.server.next()
        if event is None or event[0] != wanted:
            raise RuntimeError(f"the server of workers said {event} where {wanted!r} was expected")
        return event[1]

    def _check(self, unfinished: dict[str, Any] | None) -> tuple[list[str], list[str]]:
        """Return what is lost of the file, and what of it disagrees; take over what is there."""
        try:
            actual, filled = self._read()
            halves = sound(self.path, self._vectors())
            lost = min((state.faults(actual) for state in self.expected.possible(unfinished)), key=len)
            if self.expected.filled and not filled and "filled" not in (unfinished or {}):
                lost.append("vectors that were acknowledged are not there")
            if not lost and not halves:
                self.expected = Expected(known=actual)
                self._settle()
            return lost, halves
        except MemstoreError as error:
            return [f"the file can't be used: {error}"], []

    def _repair(self) -> None:
        """Mend what was damaged, with a repair of it that may have been killed."""
        with MemoryStore(self.path, embedder=self._given()) as store:
            store.maintenance.repair()
            store.spaces.fill()

    def _reindex(self) -> None:
        """End a reindex that was killed: what waits for it is not judged by doctor, nor mended by a repair."""
        with MemoryStore(self.path, embedder=self._given()) as store:
            store.maintenance.reindex()

    def _given(self) -> Any:
        return embedder_of(self.embedder)

    def _read(self) -> tuple[dict[int, dict[str, Any]], bool]:
        with MemoryStore(self.path, embedder="none") as store:
            there = store.list(limit=1_000_000, superseded=True)
            spaces = {space.name: space for space in store.spaces.list()}
        filled = SECOND_SPACE in spaces and spaces[SECOND_SPACE].pending == 0
        return {memory.id: as_fields(memory) for memory in there}, filled

    def _settle(self) -> None:
        """Go on using the file, so that the next round finds one that works and holds enough."""
        missing = max(1, FEWEST_MEMORIES - len(self.expected.known))
        with MemoryStore(self.path, embedder=self._given()) as store:
            for memory in store.add_many([NewMemory(**new_fields(self.rng)) for _ in range(missing)]):
                self.expected.known[memory.id] = as_fields(memory)
            if not store.search(f"{memory.text[:200]}", k=1, signals=["keyword"]):
                self.faults.append("a search after the kill finds nothing")

    def _check_other(
        self, told: dict[str, Any], before: dict[int, dict[str, Any]], *, acknowledged: bool
    ) -> tuple[list[str], list[str]]:
        """Return what is wrong with a file that an operation made beside the one in use."""
        path = Path(told["path"])
        if not path.exists():
            return ([f"{path.name} was acknowledged and is not there"] if acknowledged else []), []
        try:
            with MemoryStore(path, embedder="none") as store:
                there = {one.id: as_fields(one) for one in store.list(limit=1_000_000, superseded=True)}
            if told["kind"] == "create":
                state = Expected()
                if acknowledged:
                    state.acknowledge({"kind": "put"}, told["returned"])
                possible = [state] if acknowledged else state.possible({**told, "kind": "put"})
                lost = min((one.faults(there) for one in possible), key=len)
                return lost, sound(path, self._vectors())
            if told["kind"] == "backup":
                return Expected(known=before).faults(there), sound(path, self._vectors())
            reference = self.folder / f"reference-{Path(told['source']).name}"
            if not reference.exists():
                shutil.copy(told["source"], reference)
            with MemoryStore(reference, embedder="none") as store:
                known = {one.id: as_fields(one) for one in store.list(limit=1_000_000, superseded=True)}
            copies = [
                f"{copy.name} is no whole copy"
                for copy in automatic_backups(path)
                if not _same_tables(copy, Path(told["source"]))
            ]
            if acknowledged and not automatic_backups(path):
                copies.append(f"{path.name} was migrated without a copy")
            return Expected(known=known).faults(there) + copies, sound(path)
        except MemstoreError as error:
            return [f"{path.name} can't be used: {error}"], []


def table(tallies: dict[str, Tally]) -> str:
    """Return what happened as a table."""
    names = ("operation", "rounds", "killed during it", "acknowledged", "lost", "half there", "doctor's findings")
    rows = [(name, *(str(getattr(one, column)) for column in Tally.__slots__)) for name, one in sorted(tallies.items())]
    totals: Counter[str] = Counter()
    for one in tallies.values():
        totals.update({column: getattr(one, column) for column in Tally.__slots__})
    rows.append(("all", *(str(totals[column]) for column in Tally.__slots__)))
    widths = [max(len(row[at]) for row in (names, *rows)) for at in range(len(names))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (names, *rows)]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None, help="the instants of the kills are not repeated by it")
    parser.add_argument("--operation", action="append", help="only this one; can be given several times")
    parser.add_argument("--embedder", default="fake", help="fake (the default), or a model such as bundled")
    given = parser.parse_args()
    if not hasattr(signal, "SIGKILL") or not hasattr(os, "fork"):
        print("the kill test needs SIGKILL and fork, which this system does not have")
        return 2
    there = crashing.operations()
    unknown = sorted(set(given.operation or ()) - set(there))
    if unknown:
        parser.error(f"there is no operation {unknown[0]}; there are {', '.join(there)}")
    warnings.simplefilter("ignore")
    seed = random.SystemRandom().getrandbits(32) if given.seed is None else given.seed
    print(f"seed {seed}, operations: {', '.join(given.operation or there)}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="memstore-crash-") as folder:
        test = Test(seed, given.embedder, Path(folder))
        chosen = given.operation or there
        try:
            for number in range(given.rounds):
                test.round(number, chosen[number % len(chosen)])
        finally:
            test.server.close()
    print(table(test.tallies))
    print(f"{given.rounds} rounds in {time.monotonic() - began:.0f} s")
    return 1 if test.faults else 0


if __name__ == "__main__":
    sys.exit(main())

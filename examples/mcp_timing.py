"""Time from the start of `memstore mcp` to its handshake and to its first answered search, beside other servers.

Each server first stores --memories notes of the same texts through its own tool, and is then started --runs times, in
turn with the others: after its files were put out of the page cache (cold, where the platform can do that), and again
at once (warm). The first search is sent as soon as the handshake is answered. For memstore the time until a search is
answered by meaning too is measured as well.

A peer is named with its command, the tool that stores a note, and the tool that searches, as JSON of its arguments with
{text} and {number} filled in:

    mcp_timing.py --peer basic-memory "bm/bin/basic-memory mcp" \\
        'write_note={"title": "note {number}", "content": "{text}", "directory": "notes"}' \\
        'search_notes={"query": "{text}"}'

Nothing of a peer is needed by memstore. Each has a home folder of its own. Needs the extra memstore[mcp].
"""

import argparse
import asyncio
import json
import os
import shlex
import shutil
import statistics
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

_QUESTION = "who paid for the tickets to the harbour?"
_ONLY_WORDS = "still being loaded"
_SAID = {"handshake": "handshake", "search": "first search", "meaning": "by meaning"}


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A server: how it is started, how a note is stored, and how one searches."""

    name: str
    command: list[str]
    write: tuple[str, str]
    search: tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Lap:
    """Seconds from the start of the process; `meaning` is None where a server does not say."""

    handshake: float
    search: float
    meaning: float | None


def filled(template: tuple[str, str], text: str, number: int = 0) -> tuple[str, dict[str, Any]]:
    """Return a tool and its arguments, with a text and a number in their places."""
    tool, arguments = template
    whole = arguments.replace("{text}", json.dumps(text)[1:-1]).replace("{number}", str(number))
    return tool, json.loads(whole)


def client(peer: Peer, home: Path, log: Path) -> Client:
    """Return a client that starts the server in its own home folder, and speaks the protocol that all know."""
    # Models that are on disk under the real home stay where they are.
    cache = os.environ.get("HF_HOME", str(Path.home() / ".cache" / "huggingface"))
    own = {"HOME": str(home), "USERPROFILE": str(home), "HF_HOME": cache, "HF_HUB_OFFLINE": "1"}
    server = StdioServerParameters(command=peer.command[0], args=peer.command[1:], env={**os.environ, **own}, cwd=home)
    return Client(stdio_client(server, errlog=log.open("a")), mode="legacy", read_timeout_seconds=300)


async def fill(peer: Peer, home: Path, log: Path, memories: int) -> None:
    async with client(peer, home, log) as agent:
        for number in range(memories):
            text = (
                f"Note {number}: invoice {1000 + number} was paid in week {number % 52} by the office in the harbour."
            )
            answer = await agent.call_tool(*filled(peer.write, text, number))
            if answer.is_error:
                raise SystemExit(f"{peer.name} stored nothing: {answer.content[0].text}")
        # The first start of the runs is not to do what is left over of this one.
        await asyncio.sleep(min(2, memories / 25))


async def lap(peer: Peer, home: Path, log: Path) -> Lap:
    began = time.perf_counter()
    async with client(peer, home, log) as agent:
        handshake = time.perf_counter() - began
        answer = await agent.call_tool(*filled(peer.search, _QUESTION))
        search = time.perf_counter() - began
        if answer.is_error:
            raise SystemExit(f"{peer.name} answered no search: {answer.content[0].text}")
        meaning = None
        if peer.name == "memstore":
            while _ONLY_WORDS in answer.content[-1].text:
                await asyncio.sleep(0.05)
                answer = await agent.call_tool(*filled(peer.search, _QUESTION))
            meaning = time.perf_counter() - began
        return Lap(handshake=handshake, search=search, meaning=meaning)


def evict(folders: set[Path]) -> bool:
    """Put the files of folders out of the page cache; say whether the platform can."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for folder in folders:
        for file in folder.rglob("*"):
            if file.is_file():
                descriptor = os.open(file, os.O_RDONLY)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(descriptor)
    return True


def files_of(peer: Peer, home: Path) -> set[Path]:
    """Return the folders that a server is read from: its environment, its Python's library, and its home."""
    found = shutil.which(peer.command[0])
    if found is None:
        raise SystemExit(f"{peer.command[0]} is not there.")
    environment = Path(found).absolute().parent.parent
    python = environment / "bin" / "python"
    library = {python.resolve().parent.parent / "lib"} if python.exists() else set()
    return {environment, home, *library}


def table(peers: list[Peer], laps: dict[tuple[str, str], list[Lap]], kinds: list[str]) -> list[str]:
    """Return the lines of the table: the median of the runs, and how many times memstore's that is."""
    lines = [f"{'':24}" + "".join(f"{peer.name:>28}" for peer in peers)]
    for kind in kinds:
        for field, said in _SAID.items():
            row = f"{f'{kind}, {said}':24}"
            first = 0.0
            for peer in peers:
                times = [value for one in laps[peer.name, kind] if (value := getattr(one, field)) is not None]
                if not times:
                    row += f"{'-':>28}"
                    continue
                middle = statistics.median(times)
                first = first or middle
                row += f"{f'{middle:.2f} s [{min(times):.2f}-{max(times):.2f}] {middle / first:4.1f} x':>28}"
            lines.append(row)
    return lines


async def measured(peers: list[Peer], memories: int, runs: int, folder: Path, *, cold: bool) -> list[str]:
    laps: dict[tuple[str, str], list[Lap]] = {(peer.name, kind): [] for peer in peers for kind in ("cold", "warm")}
    homes = {peer.name: folder / peer.name for peer in peers}
    for peer in peers:
        homes[peer.name].mkdir()
        await fill(peer, homes[peer.name], folder / f"{peer.name}.log", memories)
    for _ in range(runs):
        for peer in peers:
            home, log = homes[peer.name], folder / f"{peer.name}.log"
            cold = cold and evict(files_of(peer, home))
            if cold:
                laps[peer.name, "cold"].append(await lap(peer, home, log))
            laps[peer.name, "warm"].append(await lap(peer, home, log))
    return table(peers, laps, ["cold", "warm"] if cold else ["warm"])


def template(value: str) -> tuple[str, str]:
    tool, sign, arguments = value.partition("=")
    if not sign:
        raise SystemExit(f"{value!r} is no TOOL=JSON.")
    return tool, arguments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", nargs=4, action="append", default=[], metavar=("NAME", "COMMAND", "WRITE", "SEARCH"))
    parser.add_argument("--embedder", default="auto", help="of memstore (default: auto)")
    parser.add_argument("--memories", type=int, default=50, help="how many each has (default: 50)")
    parser.add_argument("--runs", type=int, default=5, help="how often each is started, cold and warm (default: 5)")
    parser.add_argument("--warm", action="store_true", help="leave the page cache alone: warm starts only")
    asked = parser.parse_args()
    script = Path(sysconfig.get_path("scripts")) / "memstore"
    own = [str(script)] if script.is_file() else [sys.executable, "-m", "memstore"]
    peers = [
        Peer(
            name="memstore",
            command=[*own, "mcp", "--db", "agent.db", "--embedder", asked.embedder],
            write=("remember", '{"text": "{text}"}'),
            search=("search", '{"query": "{text}"}'),
        )
    ]
    for name, command, write, search in asked.peer:
        first, *rest = shlex.split(command)
        path = str(Path(first).absolute()) if os.sep in first else first
        peers.append(Peer(name=name, command=[path, *rest], write=template(write), search=template(search)))
    with tempfile.TemporaryDirectory() as folder:
        print(f"{asked.memories} notes, median of {asked.runs} starts [fastest-slowest], times memstore's")
        measuring = measured(peers, asked.memories, asked.runs, Path(folder), cold=not asked.warm)
        print("\n".join(asyncio.run(measuring)))


if __name__ == "__main__":
    main()

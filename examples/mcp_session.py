"""Start `memstore mcp` as an agent does, talk to it through the SDK's own client, and print the conversation.

With --clients N, N servers share one file for --seconds S: each writes and searches all the while, and at the end every
memory must be there, once. The file is a temporary one unless --db names it. Needs the extra memstore[mcp].
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp import Client, MCPError, StdioServerParameters
from mcp.types import Implementation

from memstore import MemoryStore

NAMES = ["Ana", "Bruno", "Carla", "Davi", "Elena", "Félix", "Gina", "Hugo"]


def client(db: Path, name: str, *options: str) -> Client:
    """Return a client that starts a server of its own on the file when it is entered."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "memstore", "mcp", "--db", str(db), *options], env=dict(os.environ)
    )
    return Client(server, client_info=Implementation(name=name, version="1.0"), read_timeout_seconds=60)


async def call(agent: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool and print what was asked and answered."""
    print(f"\n> {tool} {arguments}")
    answer = await agent.call_tool(tool, arguments)
    print("! " if answer.is_error else "", answer.content[0].text, sep="")
    return answer.structured_content


async def conversation(db: Path, *options: str) -> None:
    async with client(db, "example-agent", *options) as agent:
        print(f"memstore {agent.server_info.version}, protocol {agent.protocol_version}")
        print(f"tools: {', '.join(tool.name for tool in (await agent.list_tools()).tools)}")
        await call(agent, "remember", text="Decidimos usar Stripe; o PagBank fica de reserva.", author="Ana")
        old = await call(agent, "remember", text="ERR-4018 means the card has expired.", tags=["payments"])
        await call(agent, "search", query="o que significa o erro ERR-4018?")
        await call(agent, "recall", query="thanks, see you tomorrow")
        text = "Since May 2025 ERR-4018 means that the bank refused the card."
        await call(agent, "remember", text=text, tags=["payments"], replaces=old["id"])
        await call(agent, "context", query="cards and payments", max_tokens=200)
        await call(agent, "search", query="ERR-4018", limit="many")
        await call(agent, "forget", ids=[99])
        await call(agent, "memory_stats")
        print(f"\n> resource memory://{old['id']}")
        print((await agent.read_resource(f"memory://{old['id']}")).contents[0].text)


async def work(db: Path, number: int, seconds: float, *options: str) -> tuple[list[str], dict[str, list[float]]]:
    """Write and search for a while; return what was written, and how long each call took."""
    written: list[str] = []
    spent: dict[str, list[float]] = {"remember": [], "search": []}
    async with client(db, f"agent-{number}", *options) as agent:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = f"{NAMES[len(written) % len(NAMES)]} closed ticket T-{number}-{len(written)} on the payments board."
            query = f"who closed T-{number}-{max(0, len(written) - 1)}?"
            for tool, arguments in (("remember", {"text": text}), ("search", {"query": query})):
                began = time.monotonic()
                answer = await agent.call_tool(tool, arguments)
                spent[tool].append(time.monotonic() - began)
                if answer.is_error:
                    raise SystemExit(f"agent-{number}: {tool} failed: {answer.content[0].text}")
                if tool == "search" and written and written[-1] not in answer.content[0].text:
                    raise SystemExit(f"agent-{number}: {written[-1]!r} was written and not found")
            written.append(text)
    return written, spent


async def together(db: Path, clients: int, seconds: float, *options: str) -> None:
    """Have several agents use one file, and count what is in it afterwards."""
    done = await asyncio.gather(*(work(db, number, seconds, *options) for number in range(clients)))
    texts = [text for written, _ in done for text in written]
    with MemoryStore(db, embedder="none") as store:
        there = [one.text for one in store.list(limit=len(texts) + 1)]
    print(f"{clients} agents for {seconds:g} s: {len(texts):,} memories written, {len(there):,} in the file, no error")
    for tool in ("remember", "search"):
        times = sorted(1000 * one for _, spent in done for one in spent[tool])
        last = times[min(len(times) - 1, len(times) * 99 // 100)]
        print(f"  {tool}: median {statistics.median(times):.0f} ms, 99 % within {last:.0f} ms, {len(times):,} calls")
    if sorted(there) != sorted(texts):
        raise SystemExit("the file does not hold what was written")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", type=Path, help="the memory file (default: a temporary one)")
    parser.add_argument("--embedder", default="auto", help="as memstore mcp takes it")
    parser.add_argument("--clients", type=int, help="how many agents share the file")
    parser.add_argument("--seconds", type=float, default=60, help="for how long (default: 60)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        db = asked.db or Path(folder) / "agent.db"
        options = ("--embedder", asked.embedder)
        try:
            if asked.clients:
                asyncio.run(together(db, asked.clients, asked.seconds, *options))
            else:
                asyncio.run(conversation(db, *options))
        except MCPError as error:
            raise SystemExit(f"the server refused: {error}") from error


if __name__ == "__main__":
    main()

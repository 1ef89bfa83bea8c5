"""The server: the protocol over standard input and output, and each call in a thread beside it."""

import gc
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Any, TypeAlias, TypeVar

from memstore import __version__
from memstore.cleaning import plain
from memstore.errors import MemstoreError, first_line
from memstore.mcp.declaring import shown
from memstore.mcp.guide import INSTRUCTIONS, PROMPT, PROMPT_DESCRIPTION, PROMPT_TITLE, TOPIC, TOPIC_DESCRIPTION
from memstore.mcp.holding import Holder, Options
from memstore.mcp.tools import offered

Found = TypeVar("Found")
_Answering: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
# A client that gets no word for a minute gives up; before the first half second nobody wonders.
_FIRST_PROGRESS, _NEXT_PROGRESS = 0.5, 2.0
# How long calls that nobody waits for any longer may hold up the end: clients kill what has not ended in two seconds.
_CLOSING_SECONDS = 1.0
# How long calls that came before the end of input may take to be answered. A client that waits less for the end of the
# process tells it to end; a pipe that holds a whole conversation waits.
_ANSWERING_SECONDS = 5.0
_NEXT_LOOK = 0.02
# Escapes in a line of JSON: two halves of one character, a half alone, or any other.
_ESCAPE = re.compile(r"\\(?:ud[89ab]..\\ud[c-f]..|(ud[89a-f]..)|.)", re.IGNORECASE)
# Each thread has a connection to the file of its own.
_MOST_AT_ONCE = 8


def serve(options: Options) -> None:
    """Serve the protocol until standard input ends or the process is told to; then close the store.

    Raises `MemstoreError` where the SDK is not installed. Standard output is the protocol's alone: what else is
    written there, by whatever code, goes to standard error.
    """
    reading, writing = _protocol_streams()
    # Most of the start is the import of the SDK, a fifth of that the collection of garbage that there is none of.
    gc.disable()
    try:
        import anyio
        import mcp.server.stdio
    except ImportError as error:
        raise MemstoreError(f"the SDK of the protocol is missing ({error}); pip install 'memstore[mcp]'.") from error
    finally:
        gc.enable()
    gc.freeze()
    holder = Holder(options, _log)

    async def run() -> None:
        unanswered = _Unanswered()
        server = _Server(options, holder, unanswered).built()
        # The SDK asks no more of its input than to be gone through.
        lines: Any = _lines(reading, unanswered)
        streams = mcp.server.stdio.stdio_server(lines, anyio.wrap_file(writing))
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_at_signal, group.cancel_scope)
            async with streams as (incoming, outgoing):
                told: Any = _Outgoing(outgoing, unanswered)
                await server.run(incoming, told, server.create_initialization_options())
            group.cancel_scope.cancel()

    try:
        anyio.run(run)
    except BaseExceptionGroup as group:
        # A client that is gone can't be written to: that is an end like any other.
        others = group.split((BrokenPipeError, ConnectionError))[1]
        if others is not None:
            raise others from None
    finally:
        holder.close(_CLOSING_SECONDS)


def _protocol_streams() -> tuple[TextIOWrapper, TextIOWrapper]:
    """Take standard input and output for the protocol: others read nothing there, and write to standard error."""
    try:
        incoming, outgoing = os.dup(0), os.dup(1)
    except OSError as error:
        raise MemstoreError(
            "standard input or output is closed; the agent that starts the server talks to it over these."
        ) from error
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(nothing, 1)
    os.close(nothing)
    return (
        TextIOWrapper(os.fdopen(incoming, "rb"), encoding="utf-8", errors="replace", newline="\n"),
        TextIOWrapper(os.fdopen(outgoing, "wb"), encoding="utf-8", newline="\n"),
    )


class _Unanswered:
    """What was asked and is not answered yet: the requests at work, and the messages that are not written."""

    def __init__(self) -> None:
        self._number = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one more while it lasts."""
        self._number += 1
        try:
            yield
        finally:
            self._number -= 1

    async def end(self) -> None:
        """Return when all is answered, or when that takes too long."""
        import anyio

        quiet = 0
        with anyio.move_on_after(_ANSWERING_SECONDS):
            # Between two looks a request that has just been read, or an answer that has just been found, is counted.
            while quiet < 2:
                await anyio.sleep(_NEXT_LOOK)
                quiet = 0 if self._number else quiet + 1


class _Outgoing:
    """The SDK's stream of messages to the client; each is unanswered until the writer has it."""

    def __init__(self, stream: Any, unanswered: _Unanswered) -> None:
        self._stream = stream
        self._unanswered = unanswered

    async def send(self, message: Any) -> None:
        with self._unanswered.one():
            await self._stream.send(message)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> "_Outgoing":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _lines(reading: TextIOWrapper, unanswered: _Unanswered) -> AsyncIterator[str]:
    """Yield the lines of a stream; whoever waits for one can be cancelled, which the thread that reads can't.

    The end comes when what was asked before it is answered: the SDK drops calls that are still at work then.
    """
    from anyio.to_thread import run_sync

    while line := await run_sync(reading.readline, abandon_on_cancel=True):
        yield _whole(line)
    await unanswered.end()


def _whole(line: str) -> str:
    """Return a line of JSON without half characters, which a client makes that cuts a text within an emoji.

    The SDK takes such a line for no message, and whoever sent it waits in vain.
    """
    if "\\ud" not in line and "\\uD" not in line:
        return line
    return _ESCAPE.sub(lambda found: r"\ufffd" if found.group(1) else found.group(), line)


async def _cancel_at_signal(scope: Any) -> None:
    """Cancel all work when the process is told to end."""
    import anyio

    # Where a platform has no such signals the client ends the input, or the process.
    with suppress(NotImplementedError), anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


def leave() -> None:
    """End the process with exit code 0, also where threads still work for calls that nobody waits for any longer."""
    sys.stderr.flush()
    os._exit(0)


def _log(sentence: str) -> None:
    print(f"memstore: {plain(sentence)}", file=sys.stderr, flush=True)


class _Server:
    """What is answered to each request, as the protocol writes it."""

    def __init__(self, options: Options, holder: Holder, unanswered: _Unanswered) -> None:
        self._holder = holder
        self._unanswered = unanswered
        there = offered(bound=options.namespace is not None, read_only=options.read_only)
        self._tools = {tool.name: tool for tool in there}

    def built(self) -> Any:
        """Return the SDK's server with these answers."""
        import mcp.types as types
        from anyio import CapacityLimiter
        from mcp.server.lowlevel import Server

        self._limiter = CapacityLimiter(_MOST_AT_ONCE)
        server = Server("memstore", version=__version__, title="memstore", instructions=INSTRUCTIONS)
        for method, params, result, answer in (
            ("tools/list", types.PaginatedRequestParams, types.ListToolsResult, self._list_tools),
            ("tools/call", types.CallToolRequestParams, types.CallToolResult, self._call_tool),
            ("resources/list", types.PaginatedRequestParams, types.ListResourcesResult, self._list_resources),
            (
                "resources/templates/list",
                types.PaginatedRequestParams,
                types.ListResourceTemplatesResult,
                self._list_templates,
            ),
            ("resources/read", types.ReadResourceRequestParams, types.ReadResourceResult, self._read_resource),
            ("prompts/list", types.PaginatedRequestParams, types.ListPromptsResult, self._list_prompts),
            ("prompts/get", types.GetPromptRequestParams, types.GetPromptResult, self._get_prompt),
        ):
            server.add_request_handler(method, params, self._shaped(result, answer))
        # The handshake is over: what it must not wait for begins.
        server.add_notification_handler("notifications/initialized", types.NotificationParams, self._initialized)
        return server

    def _shaped(self, result: Any, answer: _Answering) -> _Answering:
        """Return a handler whose answer has all that the protocol's version wants of such a result."""

        async def handle(context: Any, params: Any) -> Any:
            with self._unanswered.one():
                return result.model_validate(await answer(context, params))

        return handle

    async def _initialized(self, _context: Any, _params: Any) -> None:
        self._holder.begin()

    async def _list_tools(self, _context: Any, _params: Any) -> dict[str, Any]:
        self._holder.begin()
        return {"tools": [tool.listed for tool in self._tools.values()]}

    async def _call_tool(self, context: Any, params: Any) -> dict[str, Any]:
        tool = self._tools.get(params.name)
        if tool is None:
            raise _refusal(f"there is no tool {shown(params.name)}; there are {', '.join(self._tools)}.")
        try:
            given = tool.checked(params.arguments or {})
            answer = await self._in_thread(context, lambda desk, calls: getattr(calls, tool.name)(desk, given))
        except MemstoreError as error:
            return _failed(str(error))
        except Exception as error:
            traceback.print_exc()
            return _failed(f"memstore failed ({first_line(error)}); its standard error has the rest.")
        return {"content": [_as_text(answer.text)], "structuredContent": answer.data, "isError": False}

    async def _list_resources(self, context: Any, _params: Any) -> dict[str, Any]:
        from memstore.mcp import resources

        return {"resources": await self._told(context, lambda desk, _: resources.listed(desk))}

    async def _list_templates(self, _context: Any, _params: Any) -> dict[str, Any]:
        from memstore.mcp.resources import TEMPLATES

        return {"resourceTemplates": [dict(one) for one in TEMPLATES]}

    async def _read_resource(self, context: Any, params: Any) -> dict[str, Any]:
        from memstore.mcp import resources

        text = await self._told(context, lambda desk, _: resources.read(desk, params.uri))
        return {"contents": [{"uri": params.uri, "mimeType": resources.TEXT, "text": text}]}

    async def _list_prompts(self, _context: Any, _params: Any) -> dict[str, Any]:
        arguments = [{"name": TOPIC, "description": TOPIC_DESCRIPTION, "required": False}]
        prompt = {"name": PROMPT, "title": PROMPT_TITLE, "description": PROMPT_DESCRIPTION, "arguments": arguments}
        return {"prompts": [prompt]}

    async def _get_prompt(self, context: Any, params: Any) -> dict[str, Any]:
        if params.name != PROMPT:
            raise _refusal(f"there is no prompt {shown(params.name)}; there is {PROMPT}.")
        said = [INSTRUCTIONS]
        topic = (params.arguments or {}).get(TOPIC, "")
        if topic.strip():
            given = self._tools["recall"].checked({"query": topic})
            answer = await self._told(context, lambda desk, calls: calls.recall(desk, given))
            said.append(answer.text)
        messages = [{"role": "user", "content": _as_text("\n\n".join(said))}]
        return {"description": PROMPT_DESCRIPTION, "messages": messages}

    async def _told(self, context: Any, work: Callable[[Any, Any], Found]) -> Found:
        """Return what work in a thread returns; what it raises becomes an error of the protocol."""
        try:
            return await self._in_thread(context, work)
        except MemstoreError as error:
            raise _refusal(str(error)) from error

    async def _in_thread(self, context: Any, work: Callable[[Any, Any], Found]) -> Found:
        """Have work done in a thread, and tell of its progress; the work is given its desk and the module of the calls.

        A call that is cancelled ends at once, and what its work has begun to write ends whole.
        """
        import anyio
        import anyio.to_thread

        self._holder.begin()
        client = context.session.client_params
        program = None if client is None else (client.client_info.name, client.client_info.version)

        def done() -> Found:
            with self._holder.call() as store:
                from memstore.mcp import calls

                desk = calls.Desk(store=store, holder=self._holder, options=self._holder.options, client=program)
                return work(desk, calls)

        fault: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(_report, context.session.report_progress)
            try:
                found = await anyio.to_thread.run_sync(done, abandon_on_cancel=True, limiter=self._limiter)
            except Exception as error:
                fault = error
            group.cancel_scope.cancel()
        if fault is not None:
            raise fault
        return found


async def _report(tell: Callable[..., Awaitable[None]]) -> None:
    """Tell of the seconds that a call has taken, again and again: a client that hears of progress waits on."""
    import anyio

    began = time.monotonic()
    await anyio.sleep(_FIRST_PROGRESS)
    while True:
        spent = round(time.monotonic() - began, 1)
        await tell(spent, message=f"at work for {spent} s")
        await anyio.sleep(_NEXT_PROGRESS)


def _as_text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _failed(sentence: str) -> dict[str, Any]:
    return {"content": [_as_text(plain(sentence))], "isError": True}


def _refusal(sentence: str) -> Exception:
    from mcp import MCPError
    from mcp.types import INVALID_PARAMS

    return MCPError(INVALID_PARAMS, plain(sentence))

"""What a user pastes where, so that an agent starts the server."""

import json
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memstore.mcp.holding import Options

_NAME = "memstore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The lines to be pasted, and where to."""

    lines: str
    where: str


def configuration(client: str, options: Options) -> Configuration:
    """Return what `client`, one of `CLIENTS`, needs to start a server with these options: absolute paths throughout."""
    return CLIENTS[client](_command(options))


def _command(options: Options) -> list[str]:
    """Return the command of this very installation, so that it is found whatever the agent's search path is."""
    script = Path(sysconfig.get_path("scripts")) / ("memstore.exe" if sys.platform == "win32" else "memstore")
    # The interpreter's own path, not what a link of a virtual environment leads to.
    command = [str(script)] if script.is_file() else [str(Path(sys.executable).absolute()), "-m", "memstore"]
    command += ["mcp", "--db", str(options.db.absolute())]
    if options.namespace is not None:
        command += ["--namespace", options.namespace]
    if options.read_only:
        command.append("--read-only")
    if options.key_file is not None:
        command += ["--key-file", str(options.key_file.absolute())]
    for name, value in (("embedder", "auto"), ("durability", "normal"), ("journal", "auto")):
        if getattr(options, name) != value:
            command += [f"--{name}", _there(getattr(options, name))]
    return command


def _there(value: str) -> str:
    """Return a value of an option as it is wherever the agent starts the server: a model's folder by its whole path."""
    kind, _, folder = value.partition(":")
    return f"{kind}:{Path(folder).absolute()}" if kind == "fastembed" and folder and Path(folder).is_dir() else value


def _json(section: str, command: Sequence[str], **more: str) -> str:
    server = {**more, "command": command[0], "args": list(command[1:])}
    return json.dumps({section: {_NAME: server}}, ensure_ascii=False, indent=2)


def _claude(command: Sequence[str]) -> Configuration:
    joined = subprocess.list2cmdline if sys.platform == "win32" else shlex.join
    return Configuration(
        lines=_json("mcpServers", command),
        where=(
            "Claude Desktop: Settings, Developer, Edit Config, which opens claude_desktop_config.json"
            " (macOS: ~/Library/Application Support/Claude/, Windows: %APPDATA%\\Claude\\, Linux: ~/.config/Claude/);"
            " start it again after.\n"
            f"Claude Code: run claude mcp add --scope user {_NAME} -- {joined(command)}"
        ),
    )


def _cursor(command: Sequence[str]) -> Configuration:
    return Configuration(
        lines=_json("mcpServers", command),
        where="Cursor: ~/.cursor/mcp.json for all projects, or .cursor/mcp.json in the folder of one.",
    )


def _vscode(command: Sequence[str]) -> Configuration:
    return Configuration(
        lines=_json("servers", command, type="stdio"),
        where="VS Code: .vscode/mcp.json of a workspace, or what the command MCP: Open User Configuration opens.",
    )


def _codex(command: Sequence[str]) -> Configuration:
    # A string of JSON is one of TOML, but for the one control character that JSON leaves as it is.
    strings = [json.dumps(one, ensure_ascii=False).replace("\x7f", "\\u007f") for one in command]
    lines = [f"[mcp_servers.{_NAME}]", f"command = {strings[0]}", f"args = [{', '.join(strings[1:])}]"]
    return Configuration(lines="\n".join(lines), where="Codex: ~/.codex/config.toml, at its end.")


CLIENTS: Mapping[str, Callable[[Sequence[str]], Configuration]] = {
    "claude": _claude,
    "cursor": _cursor,
    "vscode": _vscode,
    "codex": _codex,
}

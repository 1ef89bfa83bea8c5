"""What the MCP server tells of itself without being started: its tools, the lines to paste, and what it needs."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import FakeEmbedder

from memstore import MemoryStore, database
from memstore.cli.mcp import DURABILITIES, JOURNALS
from memstore.errors import InvalidInputError
from memstore.mcp import CLIENTS, Options, configuration
from memstore.mcp.declaring import Parameter
from memstore.mcp.tools import TOOLS, offered

SERVER = ["-m", "memstore", "mcp"]


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env={**os.environ, **environment},
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_tool_says_all_that_a_model_needs(tool):
    """Each tool has a title and a short description, each parameter a type and a description, and what it takes and
    gives is an object that any client's schema allows.
    """
    listed = tool.listed
    assert listed["title"]
    assert 40 < len(listed["description"]) < 300
    for schema in (listed["inputSchema"], listed["outputSchema"]):
        assert schema["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(json.dumps(schema).split('"'))
    assert listed["inputSchema"]["additionalProperties"] is False
    for name, shape in listed["inputSchema"]["properties"].items():
        assert len(shape["description"]) > 10
        assert shape["type"] in ("string", "integer", "boolean", "array")
        assert shape.get("default") is None or name not in listed["inputSchema"]["required"]
    assert set(listed["annotations"]) == {
        "title",
        "readOnlyHint",
        "destructiveHint",
        "idempotentHint",
        "openWorldHint",
    }


def test_the_schemas_are_schemas():
    """What the tools take and give is JSON Schema, and the defaults are what it allows."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema comes with the SDK (extra 'mcp')")
    for tool in TOOLS:
        for schema in (tool.listed["inputSchema"], tool.listed["outputSchema"]):
            jsonschema.Draft202012Validator.check_schema(schema)
        for one in tool.parameters:
            if one.default is not None:
                jsonschema.validate(one.default, one.schema)
                assert one.checked(one.default) == one.default


def test_all_tools_together_take_little_of_a_prompt():
    """What every prompt of an agent carries of the tools is less than 9,000 characters of JSON."""
    inputs = [{name: one.listed[name] for name in ("name", "description", "inputSchema")} for one in TOOLS]
    assert len(json.dumps(inputs)) < 9_000


def test_a_bound_or_read_only_server_offers_less():
    """Bound to a namespace no tool takes one; where nothing may be changed no tool changes anything."""
    assert not any(one.name == "namespace" for tool in offered(bound=True, read_only=False) for one in tool.parameters)
    assert any(one.name == "namespace" for tool in offered(bound=False, read_only=False) for one in tool.parameters)
    assert all(tool.reads for tool in offered(bound=False, read_only=True))


def test_arguments_are_taken_as_models_give_them():
    """What a model leaves out as null is left out, and 5.0 is 5; a text is no number, and true is none either."""
    search = next(tool for tool in TOOLS if tool.name == "search")
    given = search.checked({"query": "x", "limit": 7.0, "tags": None, "author": None})
    assert given == {"query": "x", "limit": 7, "sort": "relevance", "include_superseded": False}
    number = Parameter(name="n", kind="number", description="A number.", least=1, most=9)
    for value in ("7", True, 7.5, [7], {"n": 7}, 10, float("inf")):
        with pytest.raises(InvalidInputError, match=r"^n is .*; give a whole number, 1 to 9\.$"):
            number.checked(value)
    numbers = Parameter(name="ns", kind="numbers", description="Numbers.", least=1, most=2)
    assert numbers.checked([1, 2.0]) == [1, 2]
    for value in (7, [], [1, 2, 3], ["1"], [None], "12"):
        with pytest.raises(InvalidInputError, match=r"^ns is .*; give a list of whole numbers, 1 to 2 of them\.$"):
            numbers.checked(value)


def test_models_are_loaded_when_that_is_asked(opened, tmp_path):
    """`spaces.load` has every model ready that searches ask; of one that can't be had it says what is wrong."""
    loaded = []

    class Slow(FakeEmbedder):
        def embed_passages(self, texts):
            loaded.append(len(texts))
            return super().embed_passages(texts)

    first = opened(embedder=FakeEmbedder())
    assert first.spaces.load() == {}
    first.add("a note")
    assert opened(embedder=Slow()).spaces.load() == {}
    assert loaded
    assert opened(embedder="none").spaces.load().keys() == {"fake"}
    missing = str(tmp_path / "nothing")
    with MemoryStore(tmp_path / "new.db", embedder=f"fastembed:{missing}") as store:
        (problem,) = store.spaces.load().values()
        assert missing in problem


@pytest.mark.parametrize("client", list(CLIENTS))
def test_the_lines_to_paste_are_those_of_the_client(tmp_path, client):
    """For each client the lines are what it reads, with absolute paths of this memstore and the file; where they go is
    told on standard error.
    """
    db = "my notes.db"
    done = run(*SERVER, "--db", db, "-n", "Ana's", "--read-only", "--print-config", client, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert client.replace("vscode", "vs code") in done.stderr.lower()
    if client == "codex":
        server = tomllib.loads(done.stdout)["mcp_servers"]["memstore"]
    else:
        found = json.loads(done.stdout)
        server = found["servers" if client == "vscode" else "mcpServers"]["memstore"]
        assert server.get("type") == ("stdio" if client == "vscode" else None)
    assert Path(server["command"]).is_absolute()
    assert Path(server["command"]).is_file()
    assert server["args"][-6:] == ["mcp", "--db", str(tmp_path / db), "--namespace", "Ana's", "--read-only"]
    assert not (tmp_path / db).exists()


def test_the_lines_to_paste_hold_what_any_path_has(tmp_path):
    """A path with quotes, backslashes, accents, emoji and controls comes back from JSON and TOML as it was."""
    db = tmp_path / 'João "x" \\ 🎉 \t\x7f.db'
    options = Options(db=db, embedder="bundled", durability="full", key_file=tmp_path / "key")
    for client in CLIENTS:
        lines = configuration(client, options).lines
        found = tomllib.loads(lines) if client == "codex" else json.loads(lines)
        (section,) = found.values()
        args = section["memstore"]["args"]
        assert args[args.index("mcp") + 1 : -6] == ["--db", str(db)]
        assert args[-6:] == ["--key-file", str(tmp_path / "key"), "--embedder", "bundled", "--durability", "full"]


def test_a_models_folder_is_written_by_its_whole_path(tmp_path, monkeypatch):
    """A folder that is named from where the lines are printed is found from where the agent starts the server; the
    name of a model stays as it is.
    """
    (tmp_path / "models" / "e5").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for given, written in (
        ("fastembed:models/e5", f"fastembed:{tmp_path / 'models' / 'e5'}"),
        ("fastembed:intfloat/multilingual-e5-small", "fastembed:intfloat/multilingual-e5-small"),
    ):
        lines = configuration("cursor", Options(db=Path("x.db"), embedder=given)).lines
        assert json.loads(lines)["mcpServers"]["memstore"]["args"][-2:] == ["--embedder", written]


def test_a_server_opens_a_file_as_the_other_commands_do():
    """The server takes the same values of durability and journal as the store."""
    assert (DURABILITIES, JOURNALS) == (database.DURABILITIES, database.JOURNALS)


def test_without_the_sdk_one_sentence_says_what_to_install(tmp_path):
    """Where the SDK is not installed the server ends with exit code 1 and the name of the extra; the lines to paste
    are had all the same.
    """
    code = "import sys; sys.modules['mcp'] = None; sys.argv = ['memstore', 'mcp', *sys.argv[1:]];"
    code += " from memstore.cli import main; main()"
    done = run("-c", code, "--db", "x.db", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("memstore: the SDK of the protocol is missing (")
    assert done.stderr.endswith("pip install 'memstore[mcp]'.\n")
    assert done.stderr.count("\n") == 1
    assert run("-c", code, "--print-config", "cursor", cwd=tmp_path).returncode == 0


def test_wrong_usage_is_exit_code_2(tmp_path):
    """An empty namespace, an unknown client and an unknown option are wrong usage, said on standard error."""
    for wrong in (["--namespace", " "], ["--print-config", "other"], ["--port", "80"], ["extra"]):
        done = run(*SERVER, *wrong, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stdout == ""
        assert "Error:" in done.stderr


def test_the_command_stands_among_the_others(tmp_path):
    """`memstore --help` lists mcp, and `memstore mcp --help` tells its options without starting anything."""
    assert "\n  mcp " in run("-m", "memstore", "--help", cwd=tmp_path).stdout
    told = run(*SERVER, "--help", cwd=tmp_path, MEMSTORE_DB=str(tmp_path / "x.db")).stdout
    assert "Usage: memstore mcp [OPTIONS]" in told
    assert "--print-config [claude|cursor|vscode|codex]" in told
    assert list(tmp_path.iterdir()) == []

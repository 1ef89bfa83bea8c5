"""The block on the network that the tests run under: what is not this machine is refused before it is asked."""

import ipaddress
import os
import socket
import sys
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_SENDING = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_ASKING = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}


class NetworkBlockedError(OSError):
    """A test went to another machine, or asked for its address."""


def block() -> None:
    """Refuse the network to this process from now on, and to every Python that it starts with its environment."""
    # A hook can't be taken back, and asyncio and every library in Python pass by it.
    sys.addaudithook(_refuse)
    given = os.environ.get("PYTHONPATH", "")
    if _HERE not in given.split(os.pathsep):
        os.environ["PYTHONPATH"] = f"{_HERE}{os.pathsep}{given}" if given else _HERE


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if event in _SENDING:
        opened, address = args
        # A socket that is connected already is given no address.
        if address is None or opened.family == getattr(socket, "AF_UNIX", None):
            return
        host = address[0]
    elif event in _ASKING:
        host = args[0]
    elif event == "socket.getnameinfo":
        host = args[0][0]
    else:
        return
    if host is not None and not _is_here(host):
        raise NetworkBlockedError(f"the network is blocked in tests: {host!r} is not this machine ({event})")


def _is_here(host: Any) -> bool:
    name = host.decode("ascii", "replace") if isinstance(host, bytes | bytearray) else str(host)
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False

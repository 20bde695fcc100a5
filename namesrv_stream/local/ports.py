"""Ports of this machine for servers that are started here."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from namesrv_stream.errors import NamesrvError

HOST = "127.0.0.1"


class PortInUseError(NamesrvError):
    """Another process has the port that a server was to get."""

    def __init__(self, port: int, server: str) -> None:
        super().__init__(
            f"port {port} of {HOST} is in use, so {server} cannot have it: "
            f"stop what listens there (`ss -ltnp 'sport = :{port}'` names it) or choose another port"
        )
        self.port = port


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive free ports."""
    while True:
        with ExitStack() as held:
            first = int(held.enter_context(socket.create_server((HOST, 0))).getsockname()[1])
            try:
                for port in range(first + 1, first + count):
                    held.enter_context(socket.create_server((HOST, port)))
            except (OSError, OverflowError):
                continue
            return first


def check_free(port: int, server: str) -> None:
    """Raise PortInUseError if a process listens at the port; `server` names who was to get it."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        raise PortInUseError(port, server) from None


def listens(port: int) -> bool:
    """Return whether a server accepts connections at the port."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True

"""Ports of this machine for servers that are started here."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from namesrv_stream.errors import NamesrvError

HOST = "127.0.0.1"


class PortInUseError(NamesrvError):
    """The port that a server was to have is another process's."""

    def __init__(self, port: int, server: str) -> None:
        super().__init__(
            f"port {port} of {HOST} is in use, so {server} cannot have it: "
            f"stop what listens there (`ss -ltnp 'sport = :{port}'` names it) or choose another port"
        )
        self.port = port


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
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
    """Raises PortInUseError where somebody listens."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        raise PortInUseError(port, server) from None


def listens(port: int) -> bool:
    """Whether a server accepts connections there."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True

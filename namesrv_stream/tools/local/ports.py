"""Find free ports of this machine for servers that are started here."""

from __future__ import annotations

import random
import socket
from itertools import cycle, islice

from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.texts import port_owner_command

HOST = "127.0.0.1"
_FOR_SERVERS = range(20_000, 30_000)
"""Ports below those that a kernel gives to outgoing connections by default: from 32,768 on Linux, 49,152 on macOS."""
_in_turn = islice(cycle(_FOR_SERVERS), random.randrange(len(_FOR_SERVERS)), None)
"""The ports in turn, so that none repeats soon. Each process begins at a random one."""


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive ports at which no server listens.

    By default the kernel does not give them to outgoing connections either, so they stay free until a server starts.
    """
    while True:
        ports = [next(_in_turn) for _ in range(count)]
        if ports[-1] - ports[0] == count - 1 and all(map(_is_free, ports)):
            return ports[0]


def check_free(port: int, server: str) -> None:
    """Raise NamesrvError if a process listens at the port; `server` names the server that needs it."""
    if not _is_free(port):
        raise NamesrvError(
            f"port {port} of {HOST} is in use, so {server} cannot have it: "
            f"stop what listens there ({port_owner_command(port)} names it) or choose another port"
        )


def _is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


def listens(port: int) -> bool:
    """Return whether a server accepts connections at the port."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True

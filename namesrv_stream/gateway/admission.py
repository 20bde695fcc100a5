"""Limits on the number of connections, and the load balancers whose PROXY headers count."""

from __future__ import annotations

import logging
from collections import Counter
from typing import NamedTuple

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

FILES_RESERVE = 256
"""File descriptors kept free of connections: for Kafka, the tables, the log and the metrics."""


class TooManyConnectionsError(NamesrvError):
    """A new connection would exceed the limit of this process, or of its host."""

    def __init__(self, limit: int, setting: str, whose: str) -> None:
        super().__init__(f"over {limit} connections {whose}: close some, or set {setting} higher")
        self.limit = limit
        self.setting = setting


class Admission:
    """Counts connections, in all and by host."""

    def __init__(self, max_connections: int, max_of_a_host: int) -> None:
        self._max_connections = max_connections
        self._max_of_a_host = max_of_a_host
        self._of_host: Counter[str] = Counter()
        self._count = 0

    @property
    def is_full(self) -> bool:
        """True if there are as many connections of all peers as there may be."""
        return self._count >= self._max_connections

    def has_room_for(self, host: str | None) -> bool:
        """Return whether this host has fewer connections than it may have."""
        return host is None or self._of_host[host] < self._max_of_a_host

    def enter(self, host: str | None) -> None:
        """Count a new connection. Raises TooManyConnectionsError.

        `host` is None for a load balancer's connection until a PROXY header names the peer behind it.
        """
        if self.is_full:
            raise TooManyConnectionsError(self._max_connections, "maxConnections", "of all peers")
        self.move(None, host)
        self._count += 1

    def move(self, before: str | None, host: str | None) -> None:
        """Count a connection of `before` for `host`, which its PROXY header names. Raises TooManyConnectionsError."""
        if host is not None and not self.has_room_for(host):
            raise TooManyConnectionsError(self._max_of_a_host, "maxConnectionsPerAddress", f"of {host}")
        self._leave_host(before)
        if host is not None:
            self._of_host[host] += 1

    def leave(self, host: str | None) -> None:
        """Stop counting a lost connection that was counted for `host`."""
        self._count -= 1
        self._leave_host(host)

    def _leave_host(self, host: str | None) -> None:
        if host is not None:
            self._of_host[host] -= 1
            if not self._of_host[host]:
                del self._of_host[host]


def connection_limit(settings: NamesrvSettings) -> int:
    """Return maxConnections, or fewer if this process may not open as many files.

    Sets the process's soft limit of open files as high as is needed and allowed.
    """
    wanted = settings.max_connections
    if resource is None:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + FILES_RESERVE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    limit = max(1, soft - FILES_RESERVE)
    log.warning("maxConnections is %d here: this process may open %d files. Raise `ulimit -n`.", limit, soft)
    return limit


class PeerAddress(NamedTuple):
    """The other end of a connection: its host, by which limits count, and host with port, which logs name."""

    host: str
    peer: str


def peer_address(peername: object) -> PeerAddress:
    """Return the address in what asyncio calls `peername`; `?` for what is no internet address.

    At the bindAddress `::` an IPv4 address comes as ::ffff:10.0.0.1; the limits of its host are the same.
    """
    match peername:
        case (str(host), int(port), *_):
            host = host.removeprefix("::ffff:") if "." in host else host
            return PeerAddress(host, f"{host}:{port}")
    return PeerAddress("?", "?")

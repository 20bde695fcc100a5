"""How many connections there may be, whom a PROXY header is believed from, and what the log says of a peer."""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter
from dataclasses import dataclass

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

FILES_RESERVE = 256
"""File descriptors that connections leave to Kafka, the tables, the log and the metrics."""

LINES_OF_A_HOST = 10
_WINDOW_S = 10.0


class TooManyConnectionsError(NamesrvError):
    """One connection more than this process, or this peer, may have."""

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

    def enter(self, host: str | None) -> None:
        """Count a connection; `host` None: a load balancer's, which speaks for many. Raises TooManyConnectionsError."""
        if self._count >= self._max_connections:
            raise TooManyConnectionsError(self._max_connections, "maxConnections", "of all peers")
        self.move(None, host)
        self._count += 1

    def move(self, before: str | None, host: str | None) -> None:
        """Count a connection for another host: the one that its PROXY header names. Raises as `enter`."""
        if host is not None and self._of_host[host] >= self._max_of_a_host:
            raise TooManyConnectionsError(self._max_of_a_host, "maxConnectionsPerAddress", f"of {host}")
        self._leave_host(before)
        if host is not None:
            self._of_host[host] += 1

    def leave(self, host: str | None) -> None:
        """A connection that was counted for this host is lost."""
        self._count -= 1
        self._leave_host(host)

    def _leave_host(self, host: str | None) -> None:
        if host is not None:
            self._of_host[host] -= 1
            if not self._of_host[host]:
                del self._of_host[host]


def connection_limit(settings: NamesrvSettings) -> int:
    """maxConnections, or fewer where this process may not open as many files. Raises that limit as far as it may."""
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


class TrustedProxies:
    """The load balancers whose PROXY headers are believed, as networks separated by commas."""

    def __init__(self, networks: str) -> None:
        self._networks = [ipaddress.ip_network(each, strict=False) for each in networks.split(",") if each]

    def __contains__(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)


@dataclass(slots=True)
class _Window:
    began_s: float
    lines: int = 0


class PeerLog:
    """Names peers that are refused or closed: each by ten lines in ten seconds at most, and a count of the rest."""

    def __init__(self, logger: logging.Logger) -> None:
        self._log = logger
        self._windows: dict[str, _Window] = {}

    def line(self, host: str, now_s: float, level: int, message: str) -> None:
        """Log a line about this host, unless it has had its ten."""
        window = self._windows.setdefault(host, _Window(now_s))
        window.lines += 1
        if window.lines <= LINES_OF_A_HOST:
            self._log.log(level, "%s", message)

    def sum_up(self, now_s: float) -> None:
        """Log how many lines each host has had too many, once its ten seconds are over."""
        for host in [host for host, window in self._windows.items() if now_s - window.began_s >= _WINDOW_S]:
            left_out = self._windows.pop(host).lines - LINES_OF_A_HOST
            if left_out > 0:
                self._log.warning("%s: %d more connections were refused or closed in %.0f s", host, left_out, _WINDOW_S)

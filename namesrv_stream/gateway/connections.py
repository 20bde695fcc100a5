"""All open connections of one server: the objects that they share, and the limits for all of them together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from namesrv_stream.access.addresses import TrustedProxies
from namesrv_stream.gateway.admission import Admission
from namesrv_stream.gateway.budget import Budget
from namesrv_stream.gateway.fair_shares import HeavyTurns, LoopTime
from namesrv_stream.gateway.handshake import Terms
from namesrv_stream.gateway.kept_answers import KeptAnswer
from namesrv_stream.gateway.lookup_frames import LookupFrames
from namesrv_stream.gateway.tls import Certificates
from namesrv_stream.reporting.peer_log import PeerLog
from namesrv_stream.wire.remoting_command import RemotingCommand

if TYPE_CHECKING:
    from namesrv_stream.gateway.connection import Connection


class Peer(Protocol):
    """The part of a connection that `Connections` uses."""

    host: str

    def __hash__(self) -> int: ...
    @property
    def is_answered(self) -> bool: ...  # noqa: D102 - see Connection
    def close(self) -> None: ...  # noqa: D102
    def count_held(self) -> None: ...  # noqa: D102
    def close_if_overdue(self, now_s: float, idle_limit_s: float) -> None: ...  # noqa: D102
    def give_up(self, all_bytes: int) -> None: ...  # noqa: D102
    def make_room(self) -> None: ...  # noqa: D102


class Requests(Protocol):
    """The object that answers the requests of all connections."""

    lookups: LookupFrames | None
    """The lookups that are known by their bytes; None while no route lookup may be answered."""

    def answer(self, command: RemotingCommand, connection: Connection) -> bytes | None:
        """Return the answer's frame; None if it follows through `reply_frame`, or never (oneway)."""

    def count_lookups(self, given: Sequence[KeptAnswer], seconds: float) -> None:
        """Count these lookups, which were answered by their bytes and took `seconds` together."""

    def connection_lost(self, connection: Connection) -> None:
        """Note that the connection is lost: no more requests come over it."""


@dataclass(frozen=True)
class PeerLimits:
    """Limits for all peers together and for one host; the settings of the same names describe them."""

    max_connections: int = 2**31 - 1
    max_connections_per_address: int = 2**31 - 1
    peer_buffer_max_bytes: int = 256 * 1024 * 1024
    trusted_proxies: str = ""


class Silent:
    """The connections that have sent nothing, oldest first, by the host for which each counts."""

    def __init__(self) -> None:
        self._of_host: dict[str | None, dict[Peer, None]] = {}

    def add(self, connection: Peer, host: str | None) -> None:
        """Note a new connection."""
        self._of_host.setdefault(host, {})[connection] = None

    def discard(self, connection: Peer, host: str | None) -> None:
        """Forget a connection, because it has sent something or is lost."""
        of_host = self._of_host.get(host, {})
        of_host.pop(connection, None)
        if not of_host:
            self._of_host.pop(host, None)

    def oldest(self, host: str | None) -> Peer | None:
        """Return the oldest one of this host; None if it has none."""
        return next(iter(self._of_host.get(host, {})), None)

    def oldest_of_any(self) -> Peer | None:
        """Return the oldest one of a host that has had one for long; None if no host has any."""
        return next((self.oldest(host) for host in self._of_host), None)


class Connections:
    """All open connections of one server, and what they share."""

    def __init__(self, certificates: Certificates, tls_mode: str, limits: PeerLimits | None = None) -> None:
        limits = limits or PeerLimits()
        self.certificates = certificates
        self.tls_mode = tls_mode
        self.trusted_proxies = TrustedProxies(limits.trusted_proxies)
        self.admission = Admission(limits.max_connections, limits.max_connections_per_address)
        self.log = PeerLog(logging.getLogger(f"{__package__}.connection"))
        self.loop_time = LoopTime()
        self._loop = asyncio.get_running_loop()
        self._heavy_turns = HeavyTurns(self._loop)
        self.open: set[Peer] = set()
        self.silent = Silent()
        self._budget: Budget[Peer] = Budget(limits.peer_buffer_max_bytes)
        self._number = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of unfinished frames, of unanswered requests and of answers not yet taken, of all connections."""
        return self._budget.held_bytes

    def is_heavy(self, host: str) -> bool:
        """Return whether plain connections of this host read and answer in heavy turns alone."""
        return self.loop_time.is_heavy(host, self._loop.time())

    def soon(self, host: str, work: Callable[[], None]) -> None:
        """Call `work` for a connection in the next round of the event loop, or in a heavy turn."""
        if self.is_heavy(host):
            self._heavy_turns.enter(host, work)
        else:
            self._loop.call_soon(work)

    def enter(self, connection: Peer, host: str | None) -> None:
        """Count a new connection for `host`. If there is no room, close one that has sent nothing, if there is one.

        Raises TooManyConnectionsError.
        """
        payer = None
        if not self.admission.has_room_for(host):
            payer = self.silent.oldest(host)
        elif self.admission.is_full:
            payer = self.silent.oldest(host) or self.silent.oldest_of_any()
        if payer is not None:
            payer.make_room()
        self.admission.enter(host)
        self.silent.add(connection, host)

    def next_number(self) -> int:
        """Return the number of a new connection. No number is returned twice."""
        self._number += 1
        return self._number

    def terms(self, host: str) -> Terms:
        """Return the protocols with which a peer at this address may begin."""
        has_tls = self.tls_mode != "disabled" and self.certificates.is_set
        return Terms(has_tls, self.tls_mode != "enforcing", host in self.trusted_proxies)

    def hold(self, connection: Peer, held_bytes: int, now_s: float) -> None:
        """Record how many bytes a connection holds. Beyond peerBufferMaxBytes close the peers that `Budget` picks."""
        self._budget.hold(connection, connection.host, held_bytes, now_s)
        while (payer := self._budget.payer(now_s)) is not None:
            payer.give_up(self._budget.held_bytes)
            self._budget.hold(payer, payer.host, 0, now_s)

    def look_around(self, now_s: float, idle_limit_s: float) -> None:
        """Close overdue connections, record what each connection holds now, and log how many lines were left out.

        Call it about once a second.
        """
        for connection in list(self.open):
            connection.close_if_overdue(now_s, idle_limit_s)
            connection.count_held()
        self.log.sum_up(now_s)

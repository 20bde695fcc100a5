"""Tell that brokers on two hosts announce one address under one name and id, as containers with the default file do.

Their registrations look like those of one broker. So it counts only if two connections from different hosts are open
and speak in turn: a broker that reconnects has another connection once, and with two gateways each has one.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field

from namesrv_stream.gateway.connection import Connection

log = logging.getLogger(__name__)

TURNS, WITHIN_MS = 4, 180_000
"""Changes of the host that speaks, and the time within which so many have to be."""

_WARNED_EVERY_MS = 60_000


@dataclass(slots=True)
class _Speakers:
    """The connection that spoke last, and the times at which another host did."""

    last: Connection
    changed_ms: deque[int] = field(default_factory=lambda: deque(maxlen=TURNS))
    warn_at_ms: int = 0


class SharedAddresses:
    """The addresses with several connections to this gateway. Lives in the event loop."""

    def __init__(self) -> None:
        self._turns: dict[str, _Speakers] = {}

    def note(self, address: str, named: str, connection: Connection, now_ms: int) -> None:
        """Note a heartbeat of an address that has several connections; warn, once a minute at most of each address."""
        turns = self._turns.setdefault(address, _Speakers(connection))
        other, turns.last = turns.last, connection
        if other.host == connection.host:
            return
        if other.is_lost:  # the same broker may have come from another host
            turns.changed_ms.clear()
            return
        turns.changed_ms.append(now_ms)
        is_shared = len(turns.changed_ms) == TURNS and now_ms - turns.changed_ms[0] <= WITHIN_MS
        if is_shared and now_ms >= turns.warn_at_ms:
            turns.warn_at_ms = now_ms + _WARNED_EVERY_MS
            log.warning("%s is announced by two brokers in turn, at %s and %s. Set brokerIP1 of each to an address of "
                        "its own, and give each its own brokerName or brokerId.",
                        named, other.peer, connection.peer, extra={"address": address})  # fmt: skip

    def forget(self, address: str) -> None:
        """Forget an address that has at most one connection."""
        self._turns.pop(address, None)

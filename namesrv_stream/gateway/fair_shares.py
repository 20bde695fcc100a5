"""Divide among hosts what all connections share: connections, memory, room for records and the event loop's time.

The same rule holds for each of them: if it is scarce, the host that has most of it waits, is refused, or loses a
connection first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from namesrv_stream.errors import NamesrvError

HEAVY_HOST_SHARE = 0.2
HEAVY_SHARE = 0.5
"""Shares of the event loop's time: for one heavy host, and for all heavy hosts together.

A host that takes more than HEAVY_HOST_SHARE is heavy, as long as there are other hosts.
"""

MOMENT_S = 0.002
"""Time that a host may take at once without becoming heavy."""

_SHORTEST_REST_S = 0.001
"""The event loop's clock counts milliseconds, so a shorter rest is added to the next one."""

_FORGOTTEN_AFTER_S = 0.02
_MAX_DEBT_S = 0.1
"""Limit of a host's debt of time, so that a former rush of a host that was alone is soon forgotten."""

SHORT_TURN_S = 0.05
REST_TIMES = 4
"""A host whose large body took longer than SHORT_TURN_S rests REST_TIMES times as long, divided by the number of bodies
that it may have decoded at a time."""

Host = str | None
"""A host's address; None for a load balancer's connection before its PROXY header names the peer."""


class Sharer(Protocol):
    """A connection as FairShares uses it. FairShares sets all attributes except `peer`."""

    peer: str
    counted_for: Host
    counted_bytes: int
    holds_since_s: float

    def on_turn(self) -> None:
        """Go on with the received requests."""

    def abort(self, why: str) -> None:
        """Close the connection at once."""

    def log_line(self, level: int, message: str) -> None:
        """Log a line about the peer."""


C = TypeVar("C", bound=Sharer)


class Share:
    """A limited amount that hosts take from and give back."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._of_host: Counter[Host] = Counter()
        self.taken = 0

    def has_room(self, host: Host, amount: int) -> bool:
        """Return whether this host may take `amount` more: it may then have at most as much as is free now.

        So a single host gets half, a second one half of the rest, and there is always room for one more.
        """
        return self._of_host[host] + amount <= self.limit - self.taken

    def take(self, host: Host, amount: int) -> None:
        """Count the amount that a host takes, even if there is no room."""
        self.taken += amount
        self._of_host[host] += amount
        if not self._of_host[host]:
            del self._of_host[host]

    def give_back(self, host: Host, amount: int) -> None:
        """Count the amount that a host gives back."""
        self.take(host, -amount)

    @property
    def is_exceeded(self) -> bool:
        """True if hosts have taken more than the limit."""
        return self.taken > self.limit

    @property
    def heaviest(self) -> Host:
        """The host that has most. Read it only if something is taken."""
        return max(self._of_host, key=self._of_host.__getitem__)


class LoopTime:
    """The time that the event loop has recently worked for each host.

    It is a debt that decreases at the rate of HEAVY_HOST_SHARE.
    """

    def __init__(self) -> None:
        self._debts: dict[Host, tuple[float, float]] = {}
        self._pruned_s = 0.0

    def spend(self, host: Host, now_s: float, seconds: float) -> None:
        """Count the time that requests of this host took."""
        if now_s - self._pruned_s >= _FORGOTTEN_AFTER_S:
            self._pruned_s = now_s  # hosts that have had no turn for a while and have no debt are forgotten
            self._debts = {
                each: debt for each, debt in self._debts.items()
                if now_s - debt[1] < _FORGOTTEN_AFTER_S or self._debt_s(each, now_s) > 0
            }  # fmt: skip
        self._debts[host] = min(self._debt_s(host, now_s) + seconds, _MAX_DEBT_S), now_s

    def is_heavy(self, host: Host, now_s: float) -> bool:
        """Return whether this host has recently had more than its share, and there are other hosts."""
        return len(self._debts) > 1 and self._debt_s(host, now_s) > MOMENT_S

    def _debt_s(self, host: Host, now_s: float) -> float:
        debt_s, at_s = self._debts.get(host, (0.0, now_s))
        return max(0.0, debt_s - HEAVY_HOST_SHARE * (now_s - at_s))


class FairShares(Generic[C]):
    """Counts what each host has of the things that the connections of one server share. Lives in the event loop.

    - Connections: over the limit, of the host with most connections that have sent nothing, one of these is closed.
    - Memory: over the limit, the host that holds most loses its connection with most bytes times seconds.
    - The event loop's time: all other hosts are read from in each round of the loop. Of heavy hosts one connection
      works in a round, the hosts in turn. Then they rest for so long that they keep to their limits.
    """

    def __init__(self, max_connections: int, max_connections_of_a_host: int, max_held_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._max_connections = max_connections
        self._max_of_a_host = max_connections_of_a_host
        self._of_host: defaultdict[Host, dict[C, None]] = defaultdict(dict)
        self._silent: defaultdict[Host, dict[C, None]] = defaultdict(dict)
        self._memory = Share(max_held_bytes)
        self._in_line: dict[Host, dict[C, None]] = {}
        self._is_turn_due = False
        self._spent_s = 0.0  # of all turns
        self._owed_s = 0.0  # time for which heavy hosts have to rest
        self.loop_time = LoopTime()
        self.open: set[C] = set()

    # --- connections

    def enter(self, connection: C) -> None:
        """Count a new connection. If there is no room, close one that has sent nothing. Raises NamesrvError."""
        host = connection.counted_for
        if self._is_full(host):
            payers = self._silent.get(host)
        elif len(self.open) >= self._max_connections:
            payers = max(self._silent.values(), key=len, default=None)
        else:
            payers = None
        if payers:
            payer = next(iter(payers))
            why = "it has sent nothing, and a new connection needs its place"
            payer.log_line(logging.INFO, f"connection of {payer.peer} closed: {why}")
            payer.abort(why)
            self.leave(payer)
        if len(self.open) >= self._max_connections:
            most = self._max_connections
            raise NamesrvError(f"over {most} connections of all peers. Close some, or set a higher maxConnections.")
        self._check_room_of(host)
        self._silent[host][connection] = None
        self._of_host[host][connection] = None
        self.open.add(connection)

    def spoke(self, connection: C) -> None:
        """Note that a connection has sent something, so that it is not closed to make room."""
        _discard(self._silent, connection)

    def leave(self, connection: C) -> None:
        """Count a connection no longer."""
        self.open.discard(connection)
        _discard(self._silent, connection)
        _discard(self._of_host, connection)

    def name(self, connection: C, host: str) -> None:
        """Count a load balancer's connection for the peer that its PROXY header names. Raises NamesrvError."""
        self._check_room_of(host)
        self.hold(connection, 0)
        _discard(self._of_host, connection)
        connection.counted_for = host
        self._of_host[host][connection] = None

    def _is_full(self, host: Host) -> bool:
        return host is not None and len(self._of_host.get(host, ())) >= self._max_of_a_host

    def _check_room_of(self, host: Host) -> None:
        if self._is_full(host):
            most = self._max_of_a_host
            raise NamesrvError(
                f"over {most} connections of {host}. Close some, or set a higher maxConnectionsPerAddress. If it is a "
                "load balancer that sends PROXY headers, set proxyProtocol.trusted."
            )

    # --- memory

    @property
    def held_bytes(self) -> int:
        """Bytes of unfinished frames, of unanswered requests and of answers not yet taken, of all connections."""
        return self._memory.taken

    def hold(self, connection: C, held_bytes: int) -> None:
        """Record how many bytes a connection holds. Its age counts from the last time that it held none."""
        now_s = self._loop.time()
        self._set_held(connection, held_bytes, now_s)

        def weight(each: C) -> float:
            return each.counted_bytes * (1 + now_s - each.holds_since_s)

        while self._memory.is_exceeded:
            payer = max(self._of_host[self._memory.heaviest], key=weight)
            payer.log_line(
                logging.WARNING,
                f"connection of {payer.peer} closed: it has {payer.counted_bytes} bytes of unfinished requests and "
                f"unread answers, and all peers have {self.held_bytes}, over the limit of {self._memory.limit}",
            )
            payer.abort("too many bytes of unfinished requests and unread answers")
            self._set_held(payer, 0, now_s)

    def _set_held(self, connection: C, held_bytes: int, now_s: float) -> None:
        self._memory.take(connection.counted_for, held_bytes - connection.counted_bytes)
        if not connection.counted_bytes:
            connection.holds_since_s = now_s
        connection.counted_bytes = held_bytes

    # --- the event loop's time

    def is_heavy(self, connection: C) -> bool:
        """Return whether this connection works only in its turns, because its host is heavy."""
        return self.loop_time.is_heavy(connection.counted_for, self._loop.time())

    def spend(self, connection: C, seconds: float) -> None:
        """Count the time that a turn of this connection took."""
        self._spent_s += seconds
        self.loop_time.spend(connection.counted_for, self._loop.time(), seconds)

    def rest(self, connection: C) -> None:
        """Begin the connection's next turn in a later round.

        A heavy host's turn comes after those of hosts before it.
        """
        if not self.is_heavy(connection):
            self._loop.call_soon(connection.on_turn)
            return
        self._in_line.setdefault(connection.counted_for, {})[connection] = None
        if not self._is_turn_due:
            self._begin_heavy_turn()

    def _begin_heavy_turn(self) -> None:
        rest_s = self._owed_s if self._owed_s >= _SHORTEST_REST_S else 0.0
        self._owed_s -= rest_s
        self._is_turn_due = True
        self._loop.call_later(rest_s, self._heavy_turn)

    def _heavy_turn(self) -> None:
        host, line = next(iter(self._in_line.items()))
        connection = next(iter(line))
        del self._in_line[host], line[connection]
        if line:
            self._in_line[host] = line  # now the last one
        before_s = self._spent_s
        try:
            connection.on_turn()
        finally:
            hosts = len(self._in_line) + (host not in self._in_line)
            share = min(HEAVY_SHARE, HEAVY_HOST_SHARE * hosts)
            self._owed_s += (self._spent_s - before_s) * (1 / share - 1)
            self._is_turn_due = False
            if self._in_line:
                self._begin_heavy_turn()


def _discard(connections: dict[Host, dict[C, None]], connection: C) -> None:
    """Remove a connection, if it is there, from those of its host."""
    of_host = connections.get(connection.counted_for, {})
    of_host.pop(connection, None)
    if not of_host:
        connections.pop(connection.counted_for, None)


class Turns:
    """Lets hosts work `at_a_time`, in order of arrival, and each host `of_a_host` times at a time.

    Work slows the event loop down while it lasts, so a host with a long turn waits longer for its next one.
    """

    def __init__(self, at_a_time: int, of_a_host: int = 1) -> None:
        self._slots = asyncio.Semaphore(at_a_time)
        self._of_a_host = of_a_host
        self._lines: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._rests_until_s: dict[str, float] = {}

    @asynccontextmanager
    async def turn(self, host: str, limit_s: float) -> AsyncIterator[None]:
        """Run an `async with` block in the host's turn.

        Raises TimeoutError if the turn does not come within `limit_s`.
        """
        line = self._lines.setdefault(host, asyncio.Semaphore(self._of_a_host))
        async with asyncio.timeout(limit_s) as waiting, line:
            now_s = time.monotonic()
            self._rests_until_s = {each: until_s for each, until_s in self._rests_until_s.items() if until_s > now_s}
            await asyncio.sleep(self._rests_until_s.get(host, now_s) - now_s)
            async with self._slots:
                waiting.reschedule(None)
                started_s = time.monotonic()
                try:
                    yield
                finally:
                    spent_s = time.monotonic() - started_s
                    if spent_s > SHORT_TURN_S:
                        self._rests_until_s[host] = time.monotonic() + REST_TIMES * spent_s / self._of_a_host

"""Divides scarce things among hosts, by turns and by shares, so that no host takes what others need."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

HOST_SHARE = 0.2
HEAVY_SHARE = 0.5
"""Limits of the event loop's time: HOST_SHARE for one host beside others, HEAVY_SHARE for all heavy hosts together."""

BURST_S = 0.02
"""Time in which a host may use its share of BURST_S at once."""

MOMENT_S = 0.002
"""A host that has had less than this lately is not heavy, and never waits."""

_MOST_DEBT_S = 0.1
"""Limit of the time that is held against a host, so that a former rush of a lone host is soon forgotten."""

SHORT_TURN_S = 0.05
REST_TIMES = 4
"""A host whose large body took longer than SHORT_TURN_S rests REST_TIMES times as long."""


class Share:
    """A limited amount that hosts take from and give back. A host may have as much as is free before it takes more.

    So one host alone gets half, a second one half of the rest, and there is always room for one more.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of_host: Counter[str] = Counter()
        self.taken = 0

    def has_room(self, host: str, amount: int) -> bool:
        """Return whether this host may take `amount` more."""
        return self._of_host[host] + amount <= self._limit - self.taken

    def take(self, host: str, amount: int) -> None:
        """Count the amount that a host takes, even if there is no room."""
        self.taken += amount
        self._of_host[host] += amount

    def give_back(self, host: str, amount: int) -> None:
        """Count the amount that a host gives back."""
        self.taken -= amount
        self._of_host[host] -= amount
        if not self._of_host[host]:
            del self._of_host[host]


class LoopTime:
    """The time that the event loop has worked for each host of late, and the limits of it.

    The time that a host has had is a debt, which it works off at the rate of its share. A host alone never waits.
    Beside others it waits while its debt, or that of all heavy hosts together, is more than a burst.
    """

    def __init__(self) -> None:
        self._debts: dict[str, tuple[float, float]] = {}
        self._of_heavy: tuple[float, float] = (0.0, 0.0)
        self._pruned_s = 0.0

    def spend(self, host: str, now_s: float, seconds: float) -> float | None:
        """Count the time that requests of this host took. Return the time that it has to wait now, or None."""
        self._prune(now_s)
        before_s = self._debt_s(host, now_s)
        debt_s = min(before_s + seconds, _MOST_DEBT_S)
        self._debts[host] = debt_s, now_s
        if debt_s > MOMENT_S:
            added_s = debt_s - before_s if before_s > MOMENT_S else debt_s
            self._of_heavy = min(self._heavy_debt_s(now_s) + added_s, _MOST_DEBT_S), now_s
        return self.wait_s(host, now_s)

    def wait_s(self, host: str, now_s: float) -> float | None:
        """Return the time that this host has to wait before the event loop works for it again, None if it has not."""
        if not self.is_heavy(host, now_s):
            return None
        own_s = self._debt_s(host, now_s) / HOST_SHARE - BURST_S
        with_others_s = self._heavy_debt_s(now_s) / HEAVY_SHARE - BURST_S
        wait_s = max(own_s, with_others_s)
        return wait_s if wait_s > 0 else None

    def is_heavy(self, host: str, now_s: float) -> bool:
        """Return whether this host, beside others, has had more than a moment lately."""
        return len(self._debts) > 1 and self._debt_s(host, now_s) > MOMENT_S

    def _debt_s(self, host: str, now_s: float) -> float:
        debt_s, at_s = self._debts.get(host, (0.0, now_s))
        return max(0.0, debt_s - HOST_SHARE * (now_s - at_s))

    def _heavy_debt_s(self, now_s: float) -> float:
        debt_s, at_s = self._of_heavy
        return max(0.0, debt_s - HEAVY_SHARE * (now_s - at_s))

    def _prune(self, now_s: float) -> None:
        """Forget hosts that have had nothing for BURST_S and owe nothing."""
        if now_s - self._pruned_s < BURST_S:
            return
        self._pruned_s = now_s
        self._debts = {
            host: debt for host, debt in self._debts.items()
            if now_s - debt[1] < BURST_S or self._debt_s(host, now_s) > 0
        }  # fmt: skip


class HeavyTurns:
    """Lets one connection of heavy hosts work in each round of the event loop, and the hosts in turn.

    In each round all other connections are read from, so they wait for one such turn at most. Lives in the event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines: dict[str, deque[Callable[[], None]]] = {}

    def enter(self, host: str, work: Callable[[], None]) -> None:
        """Call `work` in a later round, alone of all that have entered."""
        if not self._lines:
            self._loop.call_soon(self._work)
        self._lines.setdefault(host, deque()).append(work)

    def _work(self) -> None:
        host = next(iter(self._lines))
        line = self._lines[host]
        try:
            line.popleft()()
        finally:
            del self._lines[host]
            if line:
                self._lines[host] = line  # now the last one
            if self._lines:
                self._loop.call_soon(self._work)


class Turns:
    """Lets `at_a_time` hosts work at a time, in the order in which they came, and each host once at a time.

    Work in a thread slows the event loop down while it lasts, so a host whose turn was long waits longer for its next.
    """

    def __init__(self, at_a_time: int) -> None:
        self._slots = asyncio.Semaphore(at_a_time)
        self._lines: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._rests_until_s: dict[str, float] = {}

    @asynccontextmanager
    async def turn(self, host: str, limit_s: float) -> AsyncIterator[None]:
        """Run an `async with` block in the host's turn. Raises TimeoutError if that does not come within `limit_s`."""
        line = self._lines.setdefault(host, asyncio.Lock())
        self._waiting[host] += 1
        try:
            async with asyncio.timeout(limit_s) as waiting, line:
                await asyncio.sleep(self._rest_s(host))
                async with self._slots:
                    waiting.reschedule(None)
                    with self._timed(host):
                        yield
        finally:
            self._waiting[host] -= 1
            if not self._waiting[host]:
                del self._waiting[host], self._lines[host]

    def _rest_s(self, host: str) -> float:
        now_s = time.monotonic()
        self._rests_until_s = {each: until_s for each, until_s in self._rests_until_s.items() if until_s > now_s}
        return self._rests_until_s.get(host, now_s) - now_s

    @contextmanager
    def _timed(self, host: str) -> Iterator[None]:
        started_s = time.monotonic()
        try:
            yield
        finally:
            ended_s = time.monotonic()
            if ended_s - started_s > SHORT_TURN_S:
                self._rests_until_s[host] = ended_s + REST_TIMES * (ended_s - started_s)

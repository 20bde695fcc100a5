"""Whose turn it is, and how much of what is scarce one peer may have: no host takes what others need."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

WINDOW_S = 0.1
HOST_SHARE = 0.2
HEAVY_SHARE = 0.5
MOMENT_S = 0.002
"""Of the event loop's time: what one host may take beside others, and what all may that take more than a moment."""

SHORT_TURN_S = 0.05
REST_TIMES = 4
"""A host whose large body took longer than a short turn rests so many times as long."""


class Share:
    """A limited amount that hosts take from and give back. A host may have as much as is left free after it.

    So one host alone gets half, a second one half of the rest, and there is always room for one more.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of_host: Counter[str] = Counter()
        self.taken = 0

    def has_room(self, host: str, amount: int) -> bool:
        """Whether this host may take so much more."""
        return self._of_host[host] + amount <= self._limit - self.taken

    def take(self, host: str, amount: int) -> None:
        """Count what a host takes, whether there is room or not."""
        self.taken += amount
        self._of_host[host] += amount

    def give_back(self, host: str, amount: int) -> None:
        """Count what a host needs no more."""
        self.taken -= amount
        self._of_host[host] -= amount
        if not self._of_host[host]:
            del self._of_host[host]


class LoopTime:
    """How long the event loop has worked for each host in the present tenth of a second, and whose time is up.

    A host alone may have all of it. Beside others it may have a fifth, and all hosts together that have had more than
    a moment may have half: what is left is for those who ask little.
    """

    def __init__(self) -> None:
        self._spent_s: dict[str, float] = {}
        self._of_heavy_s = 0.0
        self._until_s = 0.0

    def spend(self, host: str, now_s: float, seconds: float) -> float | None:
        """Count what a read of this host has taken; give how long it has to wait now, None if it need not."""
        if now_s >= self._until_s:
            self._spent_s.clear()
            self._of_heavy_s = 0.0
            self._until_s = now_s + WINDOW_S
        before_s = self._spent_s.get(host, 0.0)
        spent_s = self._spent_s[host] = before_s + seconds
        if spent_s <= MOMENT_S:
            return None
        self._of_heavy_s += seconds if before_s > MOMENT_S else spent_s
        is_over = spent_s > HOST_SHARE * WINDOW_S or self._of_heavy_s > HEAVY_SHARE * WINDOW_S
        return self._until_s - now_s if is_over and len(self._spent_s) > 1 else None


class Turns:
    """So many at a time, one of each host, and hosts in the order in which they came.

    Work in a thread slows the event loop down while it lasts: a host whose turn was long waits longer for its next.
    """

    def __init__(self, at_a_time: int) -> None:
        self._slots = asyncio.Semaphore(at_a_time)
        self._lines: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._rests_until_s: dict[str, float] = {}

    @asynccontextmanager
    async def turn(self, host: str, limit_s: float) -> AsyncIterator[None]:
        """Within the `async with` it is this host's turn. Raises TimeoutError if it has not come after `limit_s`."""
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

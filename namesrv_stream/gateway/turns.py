"""Divides scarce things among hosts, by turns and by shares, so that no host takes what others need."""

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
"""Limits of the event loop's time within a window: HOST_SHARE for one host beside others, HEAVY_SHARE for all hosts
together that have taken more than a moment."""

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
    """The time that the event loop has worked for each host in the present tenth of a second, and the limits of it.

    A host alone may have all of it. Beside others it may have a fifth, and all hosts together that have had more than
    a moment may have half. The rest is for hosts that ask little.
    """

    def __init__(self) -> None:
        self._spent_s: dict[str, float] = {}
        self._of_heavy_s = 0.0
        self._until_s = 0.0

    def spend(self, host: str, now_s: float, seconds: float) -> float | None:
        """Count the time that a read of this host took. Return the time that the host has to wait now, or None."""
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

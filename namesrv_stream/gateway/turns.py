"""Whose turn it is, and how much of what is scarce one peer may have: no host takes what others need."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

WINDOW_S = 0.1
HOST_SHARE = 0.2
"""Of the event loop's time that one host may take while others speak too."""


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

    A host alone may have all of it. Beside others it may have a fifth, and is read from again when the tenth is over.
    """

    def __init__(self) -> None:
        self._spent_s: dict[str, float] = {}
        self._until_s = 0.0

    def spend(self, host: str, now_s: float, seconds: float) -> float | None:
        """Count what a read of this host has taken; give the time until which it has to wait, if its time is up."""
        if now_s >= self._until_s:
            self._spent_s.clear()
            self._until_s = now_s + WINDOW_S
        spent_s = self._spent_s[host] = self._spent_s.get(host, 0.0) + seconds
        is_over = spent_s > HOST_SHARE * WINDOW_S and len(self._spent_s) > 1
        return self._until_s if is_over else None


class Turns:
    """So many at a time, one of each host, and hosts in the order in which they came."""

    def __init__(self, at_a_time: int) -> None:
        self._slots = asyncio.Semaphore(at_a_time)
        self._lines: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, host: str, limit_s: float) -> AsyncIterator[None]:
        """Within the `async with` it is this host's turn. Raises TimeoutError if it has not come after `limit_s`."""
        line = self._lines.setdefault(host, asyncio.Lock())
        self._waiting[host] += 1
        try:
            async with asyncio.timeout(limit_s) as waiting, line, self._slots:
                waiting.reschedule(None)
                yield
        finally:
            self._waiting[host] -= 1
            if not self._waiting[host]:
                del self._waiting[host], self._lines[host]

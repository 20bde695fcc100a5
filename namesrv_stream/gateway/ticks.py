"""The times of a gateway's ticks: often while a lease may end, seldom while none can (E7).

All times are marks of one grid of the wall clock, so that several gateways send at the same moments, and what waits for
a tick comes in the same micro-batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from namesrv_stream.rules.lease import late_from_ms
from namesrv_stream.rules.rows import LiveRow

PHASE_MS = 700
"""Marks are 700 ms after the whole multiples of a period. Spark begins micro-batches at whole multiples of
`triggerMillis`: half of what is sent at such a moment would be in a batch of its own."""

_NEVER_MS = 1 << 52
_EARLY_MS = 20
"""So much before its mark a timer may end; the next mark is one after that."""


def mark_after(at_ms: float, period_ms: int) -> float:
    """Return the first mark of the grid with this period that is later than `at_ms`."""
    return at_ms + period_ms - (at_ms - PHASE_MS) % period_ms


class Ticks:
    """Calls `send` at each time of a tick, once started. Lives in the event loop.

    A tick is due every `often_ms` while a lease is late, as far as snapshots show it, and until Kafka has taken the
    tick before it; otherwise every `calm_ms`. A time at which the tick before is still on its way to Kafka is left out,
    so that an outage of Kafka leaves one tick in the producer.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, often_ms: int, calm_ms: int, wall_s: Callable[[], float] = time.time
    ) -> None:
        self.calm_ms = calm_ms
        self._loop = loop
        self._often_ms = often_ms
        self._wall_s = wall_s
        self._send: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._late_from_ms = 0.0
        self._has_failed = False
        self.is_on_its_way = False
        self.is_in_time = True
        """False if a tick was left out because the tick before it was still on its way."""

    def start(self, send: Callable[[], None]) -> None:
        """Send the first tick now. `send` hands a tick to Kafka, whose outcome is told to `ended`."""
        self._send = send
        self._tick()

    def stop(self) -> None:
        """Send no more ticks."""
        self._send = None
        if self._timer is not None:
            self._timer.cancel()

    def ended(self, error: Exception | None) -> None:
        """Note the outcome of the tick that was on its way: None if Kafka has taken it."""
        self.is_on_its_way, self._has_failed = False, error is not None
        self._plan()

    def follow(self, leases: Iterable[LiveRow]) -> None:
        """Send ticks often from the moment on at which the first of these leases is late."""
        self._late_from_ms = min(map(late_from_ms, leases), default=_NEVER_MS)
        self._plan()

    def until_calm_ms(self, after_ms: float) -> float:
        """Return the time from now to the first calm tick that is at least `after_ms` from now."""
        return mark_after(self._now_ms() + max(after_ms, 0.0), self.calm_ms) - self._now_ms()

    def _tick(self) -> None:
        if self._send is None:
            return
        self.is_in_time = not self.is_on_its_way
        if self.is_in_time:
            self.is_on_its_way = True
            self._send()
        self._plan()

    def _plan(self) -> None:
        if self._send is None:
            return
        now_ms = self._now_ms()
        from_ms = now_ms + _EARLY_MS
        often_from_ms = from_ms if self._has_failed or self.is_on_its_way else max(self._late_from_ms, from_ms)
        next_ms = min(mark_after(from_ms, self.calm_ms), mark_after(often_from_ms, self._often_ms))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later((next_ms - now_ms) / 1_000, self._tick)

    def _now_ms(self) -> float:
        return self._wall_s() * 1_000

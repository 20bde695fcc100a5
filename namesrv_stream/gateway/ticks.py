"""Decide when a gateway sends ticks: often while a lease may end, seldom while none can (E7).

All times are on one grid of the wall clock, so that several gateways send at the same moments. Light heartbeats that
wait for a tick come in one micro-batch with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from zlib import crc32

from namesrv_stream.config.settings import LONGEST_TICK_MS

GATHERED_FROM_MS, GATHERED_FOR_MS, TICK_AT_MS = 600, 250, 900
"""Phases after a whole multiple of a period: the beginning and length of the time in which waiting heartbeats are sent,
and the tick. Spark begins micro-batches at whole multiples of `triggerMillis`, so records that are sent around such a
moment would come in two of them. Thousands of heartbeats are spread, because lookups would wait for them."""

_NEVER_MS = 1 << 52
_MAX_EARLY_MS = 20
"""Tolerance of timers. A timer may end so much too early; the next time is still the one after the intended time."""


def next_after(at_ms: float, period_ms: int, phase_ms: int) -> float:
    """Return the first time later than `at_ms` that is `phase_ms` after a whole multiple of the period."""
    return at_ms + period_ms - (at_ms - phase_ms) % period_ms


class Ticks:
    """Calls `send` at each time of a tick, once started. Lives in the event loop.

    A tick is due every `often_ms` while a lease is late, as far as snapshots show it, and while Kafka has not
    acknowledged the last tick; otherwise every `calm_ms`. While a tick is on its way to Kafka no other is sent, so that
    an outage of Kafka leaves only one in the producer.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        often_ms: int,
        calm_ms: int = LONGEST_TICK_MS,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.often_ms, self.calm_ms = often_ms, calm_ms
        self._loop = loop
        self._wall_s = wall_s
        self._send: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._early_ms = min(_MAX_EARLY_MS, often_ms / 4, calm_ms / 4)
        self._ticked_s = -1.0  # of the loop's clock, which never steps back
        self._late_from_ms = 0.0
        self._has_failed = False
        self.is_on_its_way = False
        self.is_in_time = True
        """False if a tick was left out because the tick before it was still on its way."""

    def start(self, send: Callable[[], None]) -> None:
        """Send the first tick now. `send` hands a tick to Kafka; call `ended` with its outcome."""
        self._send = send
        self._tick()

    def stop(self) -> None:
        """Send no more ticks."""
        self._send = None
        if self._timer is not None:
            self._timer.cancel()

    def ended(self, error: Exception | None) -> None:
        """Note the outcome of the tick that was on its way: None if Kafka has acknowledged it."""
        self.is_on_its_way, self._has_failed = False, error is not None
        self.is_in_time = self.is_in_time or error is None
        self._plan()

    def follow(self, at_ms: int | None) -> None:
        """Send ticks often from this time on, at which the first lease is late; None: no lease can end."""
        late_from_ms = _NEVER_MS if at_ms is None else at_ms
        if late_from_ms != self._late_from_ms:
            self._late_from_ms = late_from_ms
            self._plan()

    def until_gathered_ms(self, after_ms: float, period_ms: int, name: str) -> float:
        """Return the time from now until a heartbeat that waits for a tick is sent: `after_ms` or a little later.

        `name` decides the moment within GATHERED_FOR_MS, always the same. So the next heartbeat is sent a whole number
        of periods later, within the tolerance of timers.
        """
        now_ms = self._now_ms()
        phase_ms = GATHERED_FROM_MS + crc32(name.encode()) % GATHERED_FOR_MS
        return next_after(now_ms + max(after_ms, 0.0) - self._early_ms, period_ms, phase_ms) - now_ms

    def _tick(self) -> None:
        if self._send is None:
            return
        self._ticked_s = self._loop.time()
        self.is_in_time = not self.is_on_its_way
        try:
            if self.is_in_time:
                self.is_on_its_way = True
                self._send()
        except Exception:  # no error may end the ticks, because without them no lease ends
            self.is_on_its_way, self.is_in_time, self._has_failed = False, False, True
            raise
        finally:
            self._plan()

    def _plan(self) -> None:
        if self._send is None:
            return
        now_ms = self._now_ms()
        from_ms = now_ms + max(0.0, self._early_ms - (self._loop.time() - self._ticked_s) * 1_000)
        often_from_ms = from_ms if self._has_failed or self.is_on_its_way else max(self._late_from_ms, from_ms)
        next_ms = min(
            next_after(from_ms, self.calm_ms, TICK_AT_MS), next_after(often_from_ms, self.often_ms, TICK_AT_MS)
        )
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later((next_ms - now_ms) / 1_000, self._tick)

    def _now_ms(self) -> float:
        return self._wall_s() * 1_000

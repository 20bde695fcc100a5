"""Measure for how long the log has had no tick, as far as micro-batches have read it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Clock = Callable[[], float]


class TickSilence:
    """Silence of ticks, in seconds of this process.

    A batch has all records from before it began. Those that come while it runs are the next batch's, so the time that a
    batch takes is no silence until a later one has had no tick either. No batch after the last one means no records.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._ticked_at_s: float | None = None
        """The beginning of the newest batch with a tick, or of the first batch if none had one."""
        self._has_tick = False
        self._known: tuple[float, float | None] = (0.0, None)
        """Silence so far, and since when the query has been idle; replaced whole, because another thread reads it."""

    def seconds(self) -> float:
        """Return the length of the silence; 0 until the first batch has ended. May be called from any thread."""
        silent_s, idle_since_s = self._known
        return silent_s if idle_since_s is None else silent_s + self._clock() - idle_since_s

    def on_tick(self) -> None:
        """Note that the batch that runs has a tick."""
        self._has_tick = True

    @contextmanager
    def during_batch(self) -> Iterator[None]:
        """Take the ticks noted within the `with` for those of one batch. A batch that fails changes nothing."""
        began_s = self._clock()
        self._known = (self.seconds(), None)
        self._has_tick = False
        yield
        if self._has_tick or self._ticked_at_s is None:
            self._ticked_at_s = began_s
        self._known = (began_s - self._ticked_at_s, self._clock())

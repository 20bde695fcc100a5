"""Progress of a run: how far it has read the log, how much the tables show of it, and for how long no tick has come."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

_SILENT_TICKS_S = 60.0


@dataclass(slots=True)
class LogProgress:
    """The place in the log, and its event time.

    `next_offset`: all records before it are applied. `handled_offset`: all records before it are in the tables, signs
    of life aside. `event_time_ms`: the highest event time applied, None before the first record. `published_event_ms`:
    the event time that the newest snapshot shows. `last_append_ms`: append time of the last record applied.
    """

    next_offset: int
    event_time_ms: int | None
    last_append_ms: int | None = None
    handled_offset: int = field(init=False)
    published_event_ms: int | None = field(init=False)
    _published_at_s: float = field(init=False)
    _shown_event_ms: int | None = field(init=False)
    _shown_at_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.handled_offset = self.next_offset
        self.published_event_ms = self.event_time_ms
        self._published_at_s = time.monotonic()
        self.note_shown()

    def advance(self, offset: int, append_time_ms: int, event_time_ms: int) -> None:
        """Note that the record at `offset` is applied."""
        self.next_offset, self.last_append_ms = offset + 1, append_time_ms
        if self.published_event_ms is None:  # the log's first record
            self.published_event_ms = event_time_ms
        self.event_time_ms = max(self.event_time_ms or event_time_ms, event_time_ms)

    def note_published(self) -> None:
        """Note that a snapshot shows all that is applied."""
        self.published_event_ms, self._published_at_s = self.event_time_ms, time.monotonic()
        self.note_shown()

    def note_shown(self) -> None:
        """Note that a snapshot or a sign of progress shows readers all that is applied."""
        self._shown_event_ms, self._shown_at_s = self.event_time_ms, time.monotonic()

    def is_unshown_for(self, millis: int) -> bool:
        """Return whether readers have not been shown the last `millis` of event time, or twice that of real time."""
        waited_ms = (self.event_time_ms or 0) - (self._shown_event_ms or self.published_event_ms or 0)
        return waited_ms >= millis or time.monotonic() - self._shown_at_s >= 2 * millis / 1000

    @property
    def waited_ms(self) -> int:
        """The event time since the newest snapshot."""
        return (self.event_time_ms or 0) - (self.published_event_ms or 0)

    @property
    def silent_s(self) -> float:
        """The time since the newest publication: event time may stand still (E9)."""
        return time.monotonic() - self._published_at_s


class TickSilence:
    """The time for which the log has had no tick, in seconds of this process's clock.

    It counts the log as far as micro-batches have read it. A batch has all records from before it began; those that
    come while it runs are in the next one. So the time of a batch counts as silence only once a later batch has had no
    tick either. Time without a batch is time without records.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ticked_at_s: float | None = None
        """The beginning of the newest batch with a tick, or of the first batch if none had one."""
        self._has_tick = False
        self._known: tuple[float, float | None] = (0.0, None)
        """Silence so far, and the time since which the query is idle. Replaced as one object, because another thread
        reads it."""
        self._has_warned = False

    def seconds(self) -> float:
        """Return the length of the silence; 0 until the first batch has ended. May be called from any thread."""
        silent_s, idle_since_s = self._known
        return silent_s if idle_since_s is None else silent_s + self._clock() - idle_since_s

    def look(self) -> None:
        """Log a warning if no tick has come for a minute, once for each silence."""
        is_silent = self.seconds() > _SILENT_TICKS_S
        if is_silent and not self._has_warned:
            log.warning("no tick for a minute: brokers that fall silent stay in their routes until the next tick. "
                        "Run a gateway or a fleet, or set jobTicker=true")  # fmt: skip
        self._has_warned = is_silent

    def on_tick(self) -> None:
        """Note that the batch that runs has a tick."""
        self._has_tick = True

    @contextmanager
    def during_batch(self) -> Iterator[None]:
        """Count the ticks noted within the `with` as those of one batch. A batch that fails changes nothing."""
        began_s = self._clock()
        self._known = (self.seconds(), None)
        self._has_tick = False
        yield
        if self._has_tick or self._ticked_at_s is None:
            self._ticked_at_s = began_s
        self._known = (began_s - self._ticked_at_s, self._clock())

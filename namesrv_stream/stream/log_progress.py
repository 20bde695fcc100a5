"""The place in the log that a run has reached, and how much of it the tables show."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class LogProgress:
    """The place in the log, and its event time.

    `next_offset`: all before it is applied. `handled_offset`: all before it is in the tables, signs of life aside.
    `event_time_ms`: the highest applied, None before the first record; `published_event_ms`: the one that the newest
    snapshot shows. `last_append_ms`: append time of the last record applied.
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
        """Note that readers can know of all that is applied, by a snapshot or a sign of progress."""
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

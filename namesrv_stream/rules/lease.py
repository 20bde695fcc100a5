"""Leases: how long one lasts, and which connections keep it (rules L1, L6, D5, D9, D11, E5, E6, E9).

A lease is one row of `live`. It lasts for the broker's timeout after the last sign of life, the last millisecond
included, and ends at the first tick after that. Time is measured by the log's clock (D9), which goes on from tick to
tick, by 3 s at most. Nothing here reads a clock of a machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from namesrv_stream.rules.rows import LiveRow, SnapshotRow

LOG_GAP_MS = 10_000
"""Time between two ticks above which the history, the log and the metrics name the gap (E11)."""


def deadline_ms(lease: LiveRow) -> int:
    """Return the last reading of the log's clock at which the silent address is alive (L1)."""
    return (lease.clock_millis or 0) + lease.heartbeat_timeout_millis


def end_ms(lease: LiveRow, held_ms: int) -> int:
    """Return the last reading at which the silent address can have its lease.

    That is its deadline, or `held_ms` later if the guard against mass expiry holds the lease (D11).
    """
    return deadline_ms(lease) + (0 if lease.suspect_since is None else held_ms)


def overdue(leases: Iterable[LiveRow], reading_ms: int, held_ms: int) -> list[LiveRow]:
    """Return the leases that end before this reading of the log's clock, by their end, then by address (D5)."""
    found = [(end, lease) for lease in leases if (end := end_ms(lease, held_ms)) < reading_ms]
    return [lease for _, lease in sorted(found, key=lambda each: (each[0], each[1].broker_addr))]


def late_from_ms(lease: LiveRow) -> int:
    """Return the first reading at which the silent address is late: in the last quarter of its timeout (D11)."""
    return deadline_ms(lease) - lease.heartbeat_timeout_millis // 4 + 1


def is_mass_expiry(leases: Iterable[LiveRow], reading_ms: int, ratio: float) -> bool:
    """Return whether more than `ratio` of the leases are late, those that are overdue or suspect included (D11).

    In a network outage brokers fall silent at one moment, but their leases end over half a minute. The leases that end
    at one tick are only a few of all that will end, so late ones count too.
    """
    leases = list(leases)
    return len(late_addresses(leases, reading_ms)) > ratio * len(leases)


def late_addresses(leases: Iterable[LiveRow], reading_ms: int) -> set[str]:
    """Return whose leases are late at a reading of the log's clock, those that are overdue or suspect included."""
    return {lease.broker_addr for lease in leases if reading_ms >= late_from_ms(lease)}


def is_late(lease: LiveRow, snapshot: SnapshotRow) -> bool:
    """Return whether a lease is late at a snapshot."""
    return (LogClock.of(snapshot).reading_ms or 0) >= late_from_ms(with_reading(lease))


def after_sign_of_life(lease: LiveRow, at_ms: int, reading_ms: int, channel_id: str | None) -> LiveRow:
    """Return the lease after a sign of life over a connection, at an event time and a reading of the log's clock.

    Its timeout begins anew, and it is no longer suspect (D11).
    """
    return lease._replace(
        last_update_timestamp=max(at_ms, lease.last_update_timestamp),
        clock_millis=max(reading_ms, lease.clock_millis or 0),
        suspect_since=None,
        channels=channels_after(lease.channels, lease.heartbeat_timeout_millis, reading_ms, channel_id),
    )


def with_reading(lease: LiveRow) -> LiveRow:
    """Return the lease with a reading of the log's clock: that of its last sign of life, which a past row lacks."""
    return lease if lease.clock_millis is not None else lease._replace(clock_millis=lease.last_update_timestamp)


def heard_at(lease: LiveRow, reading_ms: int) -> LiveRow:
    """Return a lease from before the first tick as if it and its connections were heard at that tick (D9)."""
    return lease._replace(clock_millis=reading_ms, channels=dict.fromkeys(lease.channels, reading_ms))


def channels_after(
    channels: Mapping[str, int], timeout_ms: int, reading_ms: int, channel_id: str | None
) -> Mapping[str, int]:
    """Return the connections that keep a lease after a sign of life over `channel_id`.

    They are a mapping from connection to the log's clock at its last sign of life. A connection without a sign of life
    for the lease's timeout no longer counts (L6): a gateway closes an idle one without a record (D13).
    """
    if len(channels) <= 1 and (channel_id in channels or not channels):
        return channels if channel_id is None else {channel_id: reading_ms}
    kept = {name: heard_ms for name, heard_ms in channels.items() if heard_ms + timeout_ms >= reading_ms}
    return kept if channel_id is None else kept | {channel_id: reading_ms}


def without_channel(lease: LiveRow, reading_ms: int, channel_id: str) -> LiveRow | None:
    """Return the lease after the loss of a connection, None if that was its last one (L6)."""
    if channel_id not in lease.channels:
        return lease
    others = {name: heard_ms for name, heard_ms in lease.channels.items() if name != channel_id}
    left = channels_after(others, lease.heartbeat_timeout_millis, reading_ms, None)
    return lease._replace(channels=left) if left else None


@dataclass(slots=True)
class LogClock:
    """The log's clock, by which leases end (D9), and event time, which history and snapshots show (E9).

    `reading_ms`: the clock at the newest tick, None before the first. `tick_append_ms`: that tick's append time; None
    also if the log is another one than the tick's, so that the time between them is unknown. `newest_tick_ms`: event
    time, which follows append times and never falls behind the newest tick. `stepped_back_ms`: how far the newest
    tick's append time was behind event time, 0 if it was not. `gap_ms`: the time between the last two ticks, 0 if the
    later one's append time is not the greater one.
    """

    newest_tick_ms: int | None = None
    tick_append_ms: int | None = None
    reading_ms: int | None = None
    stepped_back_ms: int = 0
    gap_ms: int = 0

    @classmethod
    def of(cls, snapshot: SnapshotRow) -> Self:
        """Return the clock as a snapshot has it."""
        return cls(snapshot.last_tick, snapshot.last_tick_append, snapshot.clock_millis)

    def event_time_ms(self, append_time_ms: int) -> int:
        """Return the event time of a record."""
        return max(append_time_ms, self.newest_tick_ms or append_time_ms)

    def reading_at_ms(self, append_time_ms: int, gap_limit_ms: int) -> int:
        """Return the clock at a record; 0 before the first tick, at which all earlier records count as heard."""
        if self.reading_ms is None:
            return 0
        gone_on_ms = 0 if self.tick_append_ms is None else max(0, append_time_ms - self.tick_append_ms)
        return self.reading_ms + (min(gone_on_ms, gap_limit_ms) if gap_limit_ms else gone_on_ms)

    def late_at_ms(self, leases: Iterable[LiveRow]) -> int | None:
        """Return the first append time at which a lease is late, if its broker stays silent and no gap comes.

        None if there is no lease; 0 if the newest tick's append time is not known.
        """
        first_ms = min(map(late_from_ms, leases), default=None)
        if first_ms is None or self.reading_ms is None or self.tick_append_ms is None:
            return None if first_ms is None else 0
        return self.tick_append_ms + first_ms - self.reading_ms

    def tick(self, append_time_ms: int, gap_limit_ms: int) -> None:
        """Apply a tick: the clock goes on by `gap_limit_ms` at most (0: no limit)."""
        self.gap_ms = 0 if self.tick_append_ms is None else max(0, append_time_ms - self.tick_append_ms)
        is_first = self.reading_ms is None
        self.reading_ms = append_time_ms if is_first else self.reading_at_ms(append_time_ms, gap_limit_ms)
        now_ms = self.event_time_ms(append_time_ms)
        self.newest_tick_ms, self.stepped_back_ms = now_ms, now_ms - append_time_ms
        self.tick_append_ms = append_time_ms


def silence_ms(lease: LiveRow, snapshot: SnapshotRow) -> int:
    """Return how long an address had been silent at a snapshot by the log's clock, 0 before the first tick (D9).

    Only this time counts towards the end of the lease. A gap between two ticks counts only up to tickGapMillis.
    """
    heard_ms = with_reading(lease).clock_millis or 0
    return max(0, (LogClock.of(snapshot).reading_ms or 0) - heard_ms)

"""Leases: how long one lasts, and which connections keep it (rules L1, L6, D5, D9, D11, E5, E6, E9).

A lease is one row of `live`. It lasts for the broker's timeout of event time after the last sign of life, the last
millisecond included, and ends at the first tick after that. Nothing here reads a clock: event time comes from the log.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from namesrv_stream.rules.rows import LiveRow


def deadline_ms(lease: LiveRow) -> int:
    """Return the last millisecond of event time at which the silent address is alive (L1, D9)."""
    return max(lease.last_update_timestamp + lease.heartbeat_timeout_millis, lease.grace_until or 0)


def end_ms(lease: LiveRow, held_ms: int) -> int:
    """Return the last millisecond at which the silent address can have its lease.

    That is its deadline, or for a suspect lease the end of the `held_ms` for which the guard holds it (D11).
    """
    if lease.suspect_since is None:
        return deadline_ms(lease)
    return max(lease.suspect_since + held_ms, lease.grace_until or 0)


def late_from_ms(lease: LiveRow) -> int:
    """Return the first millisecond at which the silent address is late: in the last quarter of its timeout (D11)."""
    return deadline_ms(lease) - lease.heartbeat_timeout_millis // 4 + 1


def is_mass_expiry(leases: Iterable[LiveRow], now_ms: int, ratio: float) -> bool:
    """Return whether more than `ratio` of the leases are late, those that are overdue or suspect included (D11).

    In an outage of the network brokers fall silent at one moment and their leases end over half a minute, so the leases
    that end at a tick are only a few of those that will.
    """
    late = [now_ms >= late_from_ms(lease) for lease in leases]
    return sum(late) > ratio * len(late)


def after_sign_of_life(lease: LiveRow, at_ms: int, channel_id: str | None) -> LiveRow:
    """Return the lease after a sign of life over a connection.

    Its timeout begins anew, a grace ends (D9), and it is no longer suspect (D11).
    """
    return lease._replace(
        last_update_timestamp=max(at_ms, lease.last_update_timestamp),
        grace_until=None,
        suspect_since=None,
        channels=channels_after(lease.channels, lease.heartbeat_timeout_millis, at_ms, channel_id),
    )


def after_outage(lease: LiveRow, now_ms: int, grace_ms: int) -> LiveRow:
    """Return the lease after an outage of the way to the log: it lasts at least `grace_ms` more (D9)."""
    return lease._replace(grace_until=now_ms + grace_ms)


def channels_after(
    channels: Mapping[str, int], timeout_ms: int, at_ms: int, channel_id: str | None
) -> Mapping[str, int]:
    """Return the connections that keep a lease after a sign of life over `channel_id`.

    They are a mapping from connection to its last sign of life. A connection without a sign of life for the lease's
    timeout no longer counts (L6).
    """
    if len(channels) <= 1 and (channel_id in channels or not channels):
        return channels if channel_id is None else {channel_id: at_ms}
    kept = {name: heard_ms for name, heard_ms in channels.items() if heard_ms + timeout_ms >= at_ms}
    return kept if channel_id is None else kept | {channel_id: at_ms}


def without_channel(lease: LiveRow, at_ms: int, channel_id: str) -> LiveRow | None:
    """Return the lease after the loss of a connection, None if that was its last one (L6)."""
    if channel_id not in lease.channels:
        return lease
    others = {name: heard_ms for name, heard_ms in lease.channels.items() if name != channel_id}
    left = channels_after(others, lease.heartbeat_timeout_millis, at_ms, None)
    return lease._replace(channels=left) if left else None


@dataclass(slots=True)
class LogClock:
    """Event time of the log: it follows append times and never falls behind the newest tick (E9).

    `newest_tick_ms` is None before the first tick. `stepped_back_ms`: how far the newest tick's append time was behind
    the tick before it, 0 if it was not.
    """

    newest_tick_ms: int | None = None
    stepped_back_ms: int = 0

    def event_time_ms(self, append_time_ms: int) -> int:
        """Return the event time of a record."""
        return max(append_time_ms, self.newest_tick_ms or append_time_ms)

    def tick(self, append_time_ms: int, outage_after_ms: int) -> bool:
        """Apply a tick. Return whether it came so long after the tick before it that this was an outage (D9)."""
        before = self.newest_tick_ms
        now_ms = self.event_time_ms(append_time_ms)
        self.newest_tick_ms, self.stepped_back_ms = now_ms, now_ms - append_time_ms
        return before is not None and now_ms - before > outage_after_ms


class LeaseEnds:
    """The ends of all leases (`end_ms`), from which the overdue ones are found without a look at each.

    A heap holds for each address one time that is not after its end. A sign of life does not change the heap: when the
    held time passes, the address is put back with its present end.
    """

    def __init__(self, end_of: Callable[[str], int | None]) -> None:
        """Take `end_of`, which returns the present end of an address's lease, None if it has no lease."""
        self._end_of = end_of
        self._heap: list[tuple[int, str]] = []
        self._queued: dict[str, int] = {}

    def watch(self, address: str, at_ms: int) -> None:
        """Note that the lease of the address ends at `at_ms`; `overdue` looks at it once event time has passed that.

        An earlier time that is already noted stays instead.
        """
        queued = self._queued.get(address)
        if queued is None or at_ms < queued:
            self._queued[address] = at_ms
            heapq.heappush(self._heap, (at_ms, address))

    def overdue(self, now_ms: int) -> Iterable[str]:
        """Remove and return the addresses whose leases end before `now_ms`, by their end, then by address (D5)."""
        found: list[tuple[int, str]] = []
        while self._heap and self._heap[0][0] < now_ms:
            queued, address = heapq.heappop(self._heap)
            if self._queued.get(address) != queued:
                continue  # the heap has an earlier time for this address
            del self._queued[address]
            end = self._end_of(address)
            if end is None:
                continue
            if end < now_ms:
                found.append((end, address))
            else:
                self.watch(address, end)
        return [address for _, address in sorted(found)]

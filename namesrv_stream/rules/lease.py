"""Whether one broker address is alive (rules L1-L6, D1, D5, D8, D9, E5, E6).

A lease lasts for the broker's timeout of event time after its last sign of life, the last millisecond included.
Everything here concerns one address and what was said by it or about it. Whether a registration is accepted, and
what it changes for others, is decided by `rules.registry`, where all addresses meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

EventKind = Literal["REGISTERED", "SEEN", "UNREGISTERED", "CHANNEL_CLOSED", "EXPIRED"]


class Identity(NamedTuple):
    """Whom an address says it is. Another cluster or broker name is a move (D1), another id is not (R5)."""

    cluster_name: str
    broker_name: str
    broker_id: int


@dataclass(frozen=True, slots=True)
class Sign:
    """One record of an address: what the lease needs of it. `identity` and `timeout_ms` come with a registration."""

    kind: Literal["REGISTER_BROKER", "BROKER_HEARTBEAT", "UNREGISTER_BROKER", "CHANNEL_CLOSED"]
    event_time_ms: int
    partition: int
    offset: int
    channel_id: str | None = None
    identity: Identity | None = None
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class Lease:
    """An address that is alive. `channels`: connection -> when the address was last heard over it.

    `grace_until_ms`: until then the lease goes on although its deadline has passed (D9); 0 = no grace.
    """

    identity: Identity
    timeout_ms: int
    began_at_ms: int
    last_heard_ms: int
    grace_until_ms: int = 0
    channels: Mapping[str, int] = field(default_factory=dict)

    @property
    def deadline_ms(self) -> int:
        """The last millisecond of event time at which the silent address is alive (L1)."""
        return max(self.last_heard_ms + self.timeout_ms, self.grace_until_ms)


@dataclass(frozen=True, slots=True)
class AddressState:
    """All that is remembered of an address: its lease, and the time of the newest record that had an effect (D8)."""

    newest_ms: int
    lease: Lease | None


@dataclass(frozen=True, slots=True)
class LeaseEvent:
    """What became of a lease. `sign` is the record that caused it, None for an expiry.

    `event_time_ms` of an expiry is the first millisecond at which the address is gone. `last_heard_ms` is from before
    the event for an end of a lease, from after it otherwise.
    """

    kind: EventKind
    event_time_ms: int
    last_heard_ms: int
    began_at_ms: int
    sign: Sign | None = None


@dataclass(frozen=True, slots=True)
class ClockJump:
    """D9: an expiry noticed more than `limit_ms` late is an outage; the lease gets `grace_ms` more (0 = never)."""

    limit_ms: int = 15_000
    grace_ms: int = 60_000


def after_signs(
    state: AddressState | None, signs: Iterable[Sign], jump: ClockJump
) -> tuple[AddressState | None, list[LeaseEvent]]:
    """What the records of one micro-batch, in any order, make of an address: its new state and what happened.

    The last event is SEEN where a sign of life other than a registration was the newest one.
    """
    events: list[LeaseEvent] = []
    for sign in sorted(signs, key=lambda each: (each.event_time_ms, each.partition, each.offset)):
        if state is not None and sign.event_time_ms < state.newest_ms:
            continue  # D8
        lease = state.lease if state else None
        if lease is not None and sign.event_time_ms > lease.deadline_ms and jump.grace_ms == 0:
            events.append(_expired(lease))  # E6; with the grace on, a gap alone may be an outage and ends nothing
            lease = None
        after, happened = _after_sign(lease, sign)
        events += happened
        if after is not lease:
            state = AddressState(sign.event_time_ms, after)
        elif state is not None:
            state = replace(state, lease=lease)
    return state, _without_outdated_seen(events)


def _after_sign(lease: Lease | None, sign: Sign) -> tuple[Lease | None, Iterable[LeaseEvent]]:
    if sign.kind == "REGISTER_BROKER":
        registered = _registered(lease, sign)
        return registered, [_event("REGISTERED", registered, sign)]
    if lease is None:
        return None, ()  # L2, D4: an unknown address stays unknown
    if sign.kind == "UNREGISTER_BROKER":
        return None, [_event("UNREGISTERED", lease, sign)]
    if sign.kind == "CHANNEL_CLOSED":
        return _without_channel(lease, sign)
    heard = replace(lease, last_heard_ms=sign.event_time_ms, grace_until_ms=0, channels=_channels(lease, sign))
    return heard, [_event("SEEN", heard, sign)]


def _registered(lease: Lease | None, sign: Sign) -> Lease:
    """R10: the lease is replaced as a whole; it begins anew where there was none or after a move (D1)."""
    assert sign.identity is not None, "a registration names its broker"
    goes_on = lease is not None and lease.identity[:2] == sign.identity[:2]
    return Lease(
        identity=sign.identity,
        timeout_ms=sign.timeout_ms,
        began_at_ms=lease.began_at_ms if lease and goes_on else sign.event_time_ms,
        last_heard_ms=sign.event_time_ms,
        channels=_channels(lease if goes_on else None, sign),
    )


def _channels(lease: Lease | None, sign: Sign) -> dict[str, int]:
    """The connections that count after `sign`: one not heard for the lease's timeout no longer does (L6)."""
    known = lease.channels if lease else {}
    timeout_ms = sign.timeout_ms or (lease.timeout_ms if lease else 0)
    channels = {name: at_ms for name, at_ms in known.items() if at_ms + timeout_ms >= sign.event_time_ms}
    if sign.channel_id is not None:
        channels[sign.channel_id] = sign.event_time_ms
    return channels


def _without_channel(lease: Lease, sign: Sign) -> tuple[Lease | None, Iterable[LeaseEvent]]:
    """L6: the lease ends with the last of its connections; one that is not the lease's changes nothing."""
    if sign.channel_id not in lease.channels:
        return lease, ()
    others = {name: at_ms for name, at_ms in lease.channels.items() if name != sign.channel_id}
    left = _channels(replace(lease, channels=others), replace(sign, channel_id=None))
    if left:
        return replace(lease, channels=left), ()
    return None, [_event("CHANNEL_CLOSED", lease, sign)]


def after_time(state: AddressState, now_ms: int, jump: ClockJump) -> tuple[AddressState, list[LeaseEvent]]:
    """What the passing of event time makes of a silent address, asked when its timer fires.

    `now_ms`: event time that the whole log has reached. Being asked later than the jump limit after the deadline gives
    grace instead of ending the lease, once (D9).
    """
    lease = state.lease
    if lease is None or now_ms <= lease.deadline_ms:
        return state, []
    late_ms = now_ms - (lease.deadline_ms + 1)
    if jump.grace_ms and late_ms > jump.limit_ms and not lease.grace_until_ms:
        return replace(state, lease=replace(lease, grace_until_ms=now_ms + jump.grace_ms)), []
    return replace(state, lease=None), [_expired(lease)]


def _expired(lease: Lease) -> LeaseEvent:
    return LeaseEvent("EXPIRED", lease.deadline_ms + 1, lease.last_heard_ms, lease.began_at_ms)


def _event(kind: EventKind, lease: Lease, sign: Sign) -> LeaseEvent:
    return LeaseEvent(kind, sign.event_time_ms, lease.last_heard_ms, lease.began_at_ms, sign)


def _without_outdated_seen(events: list[LeaseEvent]) -> list[LeaseEvent]:
    """One SEEN at most, the newest, and none where the lease ended or was registered after it."""
    return [event for i, event in enumerate(events) if event.kind != "SEEN" or i == len(events) - 1]


def log_order(event_time_ms: int, partition: int, offset: int, address: str) -> tuple[int, bool, str, int, int]:
    """Sort key of events of many addresses (D5): by time; expiries, which have no record (offset -1), come first and
    by address, then records in the order of the log."""
    is_record = offset >= 0
    return event_time_ms, is_record, "" if is_record else address, partition, offset

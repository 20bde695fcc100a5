"""Sessions of brokers, availability, flapping and shared outages, from lines of history and without Spark.

The definitions are those of the views for analysts (history/views.sql): a broker is (cluster, broker name, id) and
stays the same broker when its address changes; an end is unplanned if the lease expired or the last connection was
lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from namesrv_stream.history.events import Membership
from namesrv_stream.rules.history import BEGINS, LEASE_ENDS
from namesrv_stream.rules.rows import BrokerEventRow

UNPLANNED = ("EXPIRED", "CHANNEL_CLOSED")
"""Ends after which the broker counts as away."""

_PLANNED = ("UNREGISTERED", "MOVED", "ID_LOST")
EXPECTED_MS = 7 * 24 * 3_600_000
"""After an unplanned end a broker is expected back for this time. Then it counts as decommissioned."""

FLAP_MS = 600_000
"""An unplanned end is a flap if the broker is back within this time."""

OUTAGE_GAP_MS = 60_000
"""Unplanned ends belong to one outage if each comes within this time of the one before."""

BrokerKey = tuple[str, str, int]


class Session(NamedTuple):
    """A stretch of time in which a broker was in the routes; `to_ms` and `ended_by` are None while it lasts."""

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str
    from_ms: int
    to_ms: int | None = None
    ended_by: str | None = None
    last_heard_ms: int | None = None

    @property
    def broker(self) -> BrokerKey:
        """The broker of the session."""
        return self[:3]


class Availability(NamedTuple):
    """The milliseconds that a broker was in the routes, and those in which it was expected there."""

    up_ms: int
    expected_ms: int


class Flapping(NamedTuple):
    """The unplanned ends of one broker, and how many of them were flaps."""

    broker: BrokerKey
    unplanned_ends: int
    flaps: int
    shortest_ms: int


class Outage(NamedTuple):
    """Brokers with unplanned ends at about the same time, such as those of a zone, a switch or a host."""

    first_gone_ms: int
    last_gone_ms: int
    brokers: list[BrokerKey]


def sessions(members: Membership, lines: Iterable[BrokerEventRow]) -> list[Session]:
    """Return the sessions of a stretch of time, in order of their beginning.

    `members` are the members at its beginning, `lines` all lines after that, in order of the log.
    """
    under_way: dict[BrokerKey, Session] = {}
    ended: list[Session] = []
    for row in members.brokers.values():
        lease = members.live.get(row.broker_addr)
        began_ms = lease.lease_began_at if lease else row.registered_at.event_time
        session = Session(row.cluster_name, row.broker_name, row.broker_id, row.broker_addr, began_ms)
        under_way[session.broker] = session
    for line in lines:
        key = _broker_of(line)
        held = under_way.get(key)
        if line.type in BEGINS:
            began = held or _handed_over(ended, key, line.event_time) or Session(*key, "", line.event_time)
            under_way[key] = began._replace(address=line.broker_addr or "")
        elif held is not None and held.address == line.broker_addr and _ends(line):
            del under_way[key]
            ended.append(held._replace(to_ms=line.event_time, ended_by=line.type, last_heard_ms=line.last_heard_at))
    return sorted([*ended, *under_way.values()], key=lambda each: (each.from_ms, each.broker))


def _ends(line: BrokerEventRow) -> bool:
    """Return whether the session of the line's address ends, if that address still holds its id."""
    return line.type == "ID_LOST" or (line.type in LEASE_ENDS and line.lease_millis is not None)


def _handed_over(ended: list[Session], broker: BrokerKey, at_ms: int) -> Session | None:
    """Remove from `ended` the session that another address handed over in the same step. Return it, else None."""
    for index in range(len(ended) - 1, -1, -1):
        if ended[index].to_ms != at_ms:
            return None
        if ended[index].broker == broker and ended[index].ended_by == "ID_LOST":
            return ended.pop(index)._replace(to_ms=None, ended_by=None, last_heard_ms=None)
    return None


def availability(found: Iterable[Session], since_ms: int, until_ms: int) -> dict[BrokerKey, Availability]:
    """Return the availability of each broker from its first session in a stretch of time to the end of the stretch.

    A broker is not expected after a planned end, until it is back.
    """
    return {
        broker: Availability(
            sum(max(0, (each.to_ms or until_ms) - max(since_ms, each.from_ms)) for each in of_one),
            sum(
                max(0, _expected_until(each, following, until_ms) - max(since_ms, each.from_ms))
                for each, following in zip_longest(of_one, of_one[1:])
            ),
        )
        for broker, of_one in _by_broker(found).items()
    }


def _expected_until(session: Session, following: Session | None, until_ms: int) -> int:
    if session.to_ms is None:
        return until_ms
    if session.ended_by in _PLANNED:
        return session.to_ms
    return min(session.to_ms + EXPECTED_MS, following.from_ms if following else until_ms)


def flapping(found: Sequence[Session]) -> list[Flapping]:
    """Return the brokers with unplanned ends, those with most flaps first."""
    ranked = []
    for broker, of_one in _by_broker(found).items():
        ends = [(each.from_ms, each.to_ms or 0) for each in of_one if each.ended_by in UNPLANNED]
        if ends:
            flaps = sum(any(to <= back.from_ms <= to + FLAP_MS for back in of_one) for _, to in ends)
            ranked.append(Flapping(broker, len(ends), flaps, min(to - began for began, to in ends)))
    return sorted(ranked, key=lambda each: (-each.flaps, -each.unplanned_ends, each.broker))


def _by_broker(found: Iterable[Session]) -> dict[BrokerKey, list[Session]]:
    """Return the sessions of each broker, in order of their beginning."""
    by_broker: dict[BrokerKey, list[Session]] = {}
    for session in sorted(found, key=lambda each: each.from_ms):
        by_broker.setdefault(session.broker, []).append(session)
    return by_broker


def outages(lines: Iterable[BrokerEventRow]) -> list[Outage]:
    """Return the groups of two or more brokers whose leases ended unplanned together.

    A silent broker counts as ended at its last sign of life, because brokers that die together expire at different
    times. A dead master counts even if a slave has taken its id before it expires.
    """
    gone = sorted(
        ((line.last_heard_at if line.type == "EXPIRED" else line.event_time) or 0, _broker_of(line))
        for line in lines
        if line.type in UNPLANNED
    )
    groups: list[Outage] = []
    for at_ms, broker in gone:
        if groups and at_ms - groups[-1].last_gone_ms <= OUTAGE_GAP_MS:
            brokers = sorted({*groups[-1].brokers, broker})
            groups[-1] = Outage(groups[-1].first_gone_ms, at_ms, brokers)
        else:
            groups.append(Outage(at_ms, at_ms, [broker]))
    return [group for group in groups if len(group.brokers) > 1]


def _broker_of(line: BrokerEventRow) -> BrokerKey:
    return (line.cluster_name or "", line.broker_name or "", line.broker_id or 0)

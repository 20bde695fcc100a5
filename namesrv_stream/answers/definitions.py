"""Which brokers and topics are down: the definitions of docs/definitions.md for rows in memory.

analysis/views.sql states the same in SQL, for the whole history. Tests compare both on random histories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple, TypeVar

from namesrv_stream.answers.absences import Absence, Planned, absence_at, absences
from namesrv_stream.answers.events import Span, newest_of, newest_of_each, with_changes
from namesrv_stream.answers.model import fact
from namesrv_stream.reporting.texts import natural_key
from namesrv_stream.rules.history import LEASE_ENDS, UNPLANNED
from namesrv_stream.rules.record_types import MASTER_ID, PERM_READ, PERM_WRITE
from namesrv_stream.rules.rows import BrokerEventRow, BrokerRow, TopicRow
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.root import quoted
from namesrv_stream.tables.schemas import BROKER_EVENT, TOPIC

EXPECTED_MS = 7 * 24 * 3_600_000
"""After an unplanned end a broker is down for this time at most. Then it counts as decommissioned."""

TOGETHER_MS = 60_000
"""Unplanned ends belong to one outage if each comes within this time of the one before."""

BACK_SOON_MS = 600_000
"""A broker that is back within this time has flapped if its end was unplanned, and restarted if it unregistered."""

WIPES_MS = 90 * 24 * 3_600_000
"""Age up to which a command that wiped a write permission is looked for."""

_HOUR_MS = 3_600_000
_ENDS = f"type IN {(*LEASE_ENDS, 'ID_LOST')} AND (type = 'ID_LOST' OR lease_millis IS NOT NULL)"
_RETIRED = "RETIRE_BROKER"
_WIPED, _ADDED = "WIPE_WRITE_PERM_OF_BROKER", "ADD_WRITE_PERM_OF_BROKER"
_IS_RETIRED = f"type = '{_RETIRED}'"
LOSSES = ("SILENCE", "CHANNEL_CLOSED")
"""Causes by which topics leave a broker name unplanned."""

LEFT = ("UNREGISTER_BROKER",)
WENT = (*LOSSES, *LEFT)
"""Causes by which topics leave with the last broker of a name."""

TopicState = Literal["without_route", "not_writable", "degraded", "read_only", "writable"]
LostTopics = Mapping[str, frozenset[str]]
"""Topic -> the broker names that are down, or have it no more, and had it."""


BrokerKey = tuple[str, str, int]
"""A broker: its cluster, its broker name and its id."""

Brokers = Mapping[str, Mapping[int, BrokerRow]]
"""Broker name -> id -> holder."""

T = TypeVar("T")


class DownBroker(NamedTuple):
    """A broker that is not up any more, with its zone and address of that time.

    It is down, unless its end was planned or it was `retired` after that, by a command (A7). `absence`: the planned
    absence that held as its lease ended.
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    zone_name: str | None
    broker_addr: str
    ended_by: str
    last_heard_ms: int
    gone_ms: int
    retired: BrokerEventRow | None = None
    absence: Absence | None = None

    def is_planned_at(self, at_ms: int) -> bool:
        """Return whether it is in planned absence at a time."""
        return self.absence is not None and at_ms < self.absence.until and not self.retired

    def is_down_at(self, at_ms: int) -> bool:
        """Return whether it is down: its end was unplanned, or its planned absence is over."""
        is_unplanned = self.ended_by in UNPLANNED or self.absence is not None
        return is_unplanned and not self.retired and not self.is_planned_at(at_ms)

    @property
    def fell_ms(self) -> int:
        """The time by which brokers share a cause: the last heartbeat of a silent one, else the end of its lease."""
        return self.last_heard_ms if self.ended_by == "EXPIRED" else self.gone_ms


def together(items: Iterable[T], at_ms: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items, in order of time, that belong together: each within a minute of the one before."""
    group: list[T] = []
    for each in items:
        if group and at_ms(each) - at_ms(group[-1]) > TOGETHER_MS:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _recently(registry: RegistryAt, what: str, read: Callable[[Span], T], key: Hashable = None) -> T:
    """Return what is read of the last 7 days and up to an hour more. Without new lines nothing is read anew."""
    span = Span(_expected_since_ms(registry) // _HOUR_MS * _HOUR_MS)
    return registry.once(what, lambda: read(span), BROKER_EVENT, key=(span.since_ms, key))


def _expected_since_ms(registry: RegistryAt) -> int:
    """Return the time from which on who fell is still expected."""
    return registry.now_ms - EXPECTED_MS


@fact
def down_brokers(registry: RegistryAt) -> list[DownBroker]:
    """Return the brokers that are down, the latest first."""
    return [each for each in gone_brokers(registry) if each.is_down_at(registry.now_ms)]


@fact
def planned_brokers(registry: RegistryAt) -> list[DownBroker]:
    """Return the brokers that are in planned absence, the latest first."""
    known = absences(registry)  # without one nothing of the history is asked
    return [each for each in gone_brokers(registry) if each.is_planned_at(registry.now_ms)] if known else []


@fact
def excused_names(registry: RegistryAt) -> frozenset[str]:
    """Return the broker groups that have no master because it is in planned absence: none is expected there."""
    return frozenset(each.broker_name for each in planned_brokers(registry) if each.broker_id == MASTER_ID)


@fact
def left_brokers(registry: RegistryAt) -> list[DownBroker]:
    """Return the brokers that unregistered in order in the last 7 days and are not back, the latest first."""
    left = (each for each in gone_brokers(registry) if each.ended_by == "UNREGISTERED" and not each.retired)
    return [each for each in left if each.absence is None]


@fact
def gone_brokers(registry: RegistryAt) -> list[DownBroker]:
    """Return the brokers that went in the last 7 days and are not back, the latest first."""
    since_ms, up = _expected_since_ms(registry), up_brokers(registry)
    gone = [
        each._replace(absence=absence_of_end(registry, each[:3], each.zone_name, each.ended_by, each.gone_ms))
        for each in last_ends(registry)
        if each.gone_ms > since_ms and each[:3] not in up
    ]
    return sorted(gone, key=lambda each: (-each.gone_ms, each[:3]))


def absence_of_end(
    registry: RegistryAt, broker: BrokerKey, zone: str | None, ended_by: str, gone_ms: int
) -> Absence | None:
    """Return the planned absence that held as a broker's lease ended. One that moved is no more away than before."""
    if ended_by not in (*UNPLANNED, "UNREGISTERED"):
        return None
    cluster, name, broker_id = broker
    return absence_at(registry, Planned(cluster, zone, name, broker_id), gone_ms)


@fact
def up_brokers(registry: RegistryAt) -> set[BrokerKey]:
    """Return the brokers that are up."""
    return {
        (row.cluster_name, name, broker_id)
        for name, holders in registry.brokers.items()
        for broker_id, row in holders.items()
    }


@fact
def last_ends(registry: RegistryAt) -> list[DownBroker]:
    """Return the last end of each broker that had one in about the last 7 days, with its retirement after that (A7)."""
    return _recently(registry, "last ends", lambda span: _last_ends(registry, span))


def _last_ends(registry: RegistryAt, span: Span) -> list[DownBroker]:
    keys = f"cluster_name, broker_name, broker_id, {_IS_RETIRED}"
    condition = f"({_ENDS} AND held_id OR {_IS_RETIRED} AND NOT held_id) AND {span.covers}"
    found: dict[BrokerKey, DownBroker] = {}
    for line in sorted(newest_of_each(registry, keys, condition), key=lambda each: each[:2]):
        key = (line.cluster_name or "", line.broker_name or "", line.broker_id or 0)
        if line.type != _RETIRED:
            heard_ms = line.last_heard_at or line.event_time
            found[key] = DownBroker(*key, line.zone_name, line.broker_addr or "", line.type, heard_ms, line.event_time)
        elif key in found:
            found[key] = found[key]._replace(retired=line)
    return list(found.values())


FLAPS, FLAPS_WITHIN_MS = 5, 3_600_000
"""A broker with so many unplanned ends within this time flaps, as alerts have it."""


@fact
def unplanned_ends(registry: RegistryAt) -> list[tuple[BrokerKey, int]]:
    """Return the brokers of which a lease has ended unplanned in the last hour, and when; without planned absences."""
    since_ms = registry.now_ms - FLAPS_WITHIN_MS
    span = Span(since_ms // _HOUR_MS * _HOUR_MS)
    condition = f"type IN {UNPLANNED} AND lease_millis IS NOT NULL AND {span.covers}"
    read = partial(newest_of, registry, condition, None)
    found = []
    for line in registry.once("ends of an hour", read, BROKER_EVENT, key=span.since_ms):
        broker = (line.cluster_name or "", line.broker_name or "", line.broker_id or 0)
        if line.event_time > since_ms and not absence_of_end(
            registry, broker, line.zone_name, line.type, line.event_time
        ):
            found.append((broker, line.event_time))
    return found


def flapping_brokers(registry: RegistryAt) -> list[BrokerKey]:
    """Return the brokers with FLAPS unplanned ends or more in the last hour."""
    counts = Counter(broker for broker, _ in unplanned_ends(registry))
    return sorted(broker for broker, count in counts.items() if count >= FLAPS)


@fact
def lost_topics(registry: RegistryAt) -> LostTopics:
    """Return the topics of broker names of which a broker is down since before they lost them.

    A slave that is back brings no topics, so they are lost until the master is back.
    """
    down = down_brokers(registry)  # the latest first, so the earliest stays
    fell_ms = {each.broker_name: each.gone_ms for each in down}
    overdue = {each.broker_name for each in down if each.ended_by not in UNPLANNED}  # by plan, which is over
    lost = last_topics(registry, fell_ms.keys() - overdue, LOSSES)
    lost += last_topics(registry, overdue, WENT) if overdue else []
    return _by_topic(row for lost_ms, row in lost if fell_ms[row.broker_name] <= lost_ms)


@fact
def topics_gone(registry: RegistryAt) -> LostTopics:
    """Return the topics that went from broker names in the last 7 days, whatever ended them, back or not."""
    since_ms = _expected_since_ms(registry)
    ends = _recently(registry, "topics gone", lambda span: _topic_ends(registry, span))
    return _by_topic(row for gone_ms, row in ends if gone_ms > since_ms)


def _topic_ends(registry: RegistryAt, span: Span) -> list[tuple[int, TopicRow]]:
    """Return when topics went, and each. Of the ends of a broker name by one of `WENT` the last by each counts."""
    keys = f"broker_name, cause, CASE WHEN cause NOT IN {WENT} THEN concat(epoch, '/', seq) END"
    lines = newest_of_each(registry, keys, f"topics_removed > 0 AND {span.covers}")
    lines = with_changes(registry, lines, f"table_name = '{TOPIC.name}'")
    ends = [(line.event_time, row) for line in lines for _, _, row, after in line.changes if after is None]
    return [(gone_ms, row) for gone_ms, row in ends if isinstance(row, TopicRow)]


def _by_topic(rows: Iterable[TopicRow]) -> LostTopics:
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row.topic, set()).add(row.broker_name)
    return {topic: frozenset(names) for topic, names in found.items()}


def last_topics(registry: RegistryAt, names: Iterable[str], causes: tuple[str, ...]) -> list[tuple[int, TopicRow]]:
    """Return when broker names without a master lost topics in the last 7 days by one of the causes, and each.

    They went since the name's master went. A topic that the name has again is not among them, nor is one that a
    command deleted in all clusters after that.
    """
    gone = sorted(name for name in {*names} if MASTER_ID not in registry.brokers.get(name, ()))
    if not gone:
        return []
    of_names = f"broker_name IN ({', '.join(map(quoted, gone))})"
    read = partial(_last_lost, registry, of_names=of_names, causes=causes)
    lost = _recently(registry, "lost topics", read, key=(of_names, causes))
    deleted = _recently(registry, "deleted topics", lambda span: _deleted(registry, span)) if lost else {}
    since_ms = _expected_since_ms(registry)
    return [
        (line.event_time, row)
        for line, row in lost
        if line.event_time > since_ms
        and deleted.get(row.topic, (0, 0)) <= line[:2]
        and not (
            row.broker_name in registry.brokers
            and any(row.broker_name == each.broker_name for each in registry.queues.get(row.topic, ()))
        )
    ]


def _deleted(registry: RegistryAt, span: Span) -> dict[str, tuple[int, int]]:
    """Return the lines of the commands that last deleted topics in all clusters: epoch and seq."""
    lines = newest_of(registry, f"deleted_topic IS NOT NULL AND {span.covers}", None)
    return {line.deleted_topic: line[:2] for line in lines if line.deleted_topic}


def _last_lost(
    registry: RegistryAt, span: Span, of_names: str, causes: Collection[str]
) -> list[tuple[BrokerEventRow, TopicRow]]:
    """Return the line with which a broker name lost a topic last since its master went, if by one of the causes."""
    masters = sorted((each.gone_ms, each.broker_name) for each in last_ends(registry) if each.broker_id == MASTER_ID)
    gone_ms = {name: at_ms for at_ms, name in masters}
    lines = newest_of(registry, f"{of_names} AND topics_removed > 0 AND {span.covers}", None)
    ends = [line for line in lines if line.event_time >= gone_ms.get(line.broker_name or "", 0)]
    last: dict[tuple[str, str], tuple[BrokerEventRow, TopicRow]] = {}
    for line in with_changes(registry, ends, f"table_name = '{TOPIC.name}'"):
        for _, _, row, after in line.changes:
            if isinstance(row, TopicRow) and after is None:
                last[row.topic, row.broker_name] = line, row
    return [(line, row) for line, row in last.values() if line.cause in causes]


@fact
def wipes(registry: RegistryAt) -> dict[str, BrokerEventRow]:
    """Return the broker groups that take no writes because of an operator: name -> the command, by name.

    Each has a master, none of its topics has the write permission, and of the last 90 days' commands about that
    permission which changed the group's topics the last one wiped it.
    """
    with_master = {name for name, holders in registry.brokers.items() if MASTER_ID in holders}
    queues = registry.queues
    mute = sorted((queues.topic_counts.keys() & with_master) - queues.writable_names, key=natural_key)
    if not mute:
        return {}
    of_names = f"broker_name IN ({', '.join(map(quoted, mute))})"

    def read(span: Span) -> list[BrokerEventRow]:
        since = Span((span.since_ms or 0) - WIPES_MS + EXPECTED_MS)
        condition = f"type IN ('{_WIPED}', '{_ADDED}') AND topics_changed > 0 AND {of_names} AND {since.covers}"
        return newest_of_each(registry, "broker_name", condition)

    last = {line.broker_name: line for line in _recently(registry, "wipes", read, key=of_names)}
    return {name: last[name] for name in mute if name in last and last[name].type == _WIPED}


class TopicVerdict(NamedTuple):
    """The state of a topic: of its `broker_names`, `up` have a master; `missing` are down or have no master.

    Producers reach `writable_on` of them.
    """

    state: TopicState
    up: int
    broker_names: int
    is_readable: bool
    writable_on: int
    missing: tuple[str, ...]

    @property
    def is_writable(self) -> bool:
        """True if producers reach the topic."""
        return self.writable_on > 0


def topic_verdict(
    rows: Sequence[TopicRow],
    brokers: Brokers,
    lost: frozenset[str] = frozenset(),
    excused: frozenset[str] = frozenset(),
) -> TopicVerdict:
    """Return the state of a topic with these rows, of which the broker names in `lost` are down.

    Of broker names in `excused` no master is expected.
    """
    routed = [row for row in rows if row.broker_name in brokers]
    with_master = {row.broker_name for row in routed if MASTER_ID in brokers[row.broker_name]}
    excused -= with_master
    writers = {row.broker_name for row in routed if row.perm & PERM_WRITE} - excused
    names = ({row.broker_name for row in rows} | lost) - excused
    writable_on, is_whole = len(writers & with_master), with_master == names
    state: TopicState = "writable" if is_whole else "degraded"
    if not routed:
        state = "without_route"
    elif not writable_on:  # an acting master's topics have lost the permission (U4)
        state = "not_writable" if writers or not is_whole else "read_only"
    return TopicVerdict(
        state,
        len(with_master),
        len(names),
        any(row.perm & PERM_READ for row in routed),
        writable_on,
        tuple(sorted(names - with_master)),
    )

"""Which brokers and topics are down: the definitions of docs/definitions.md for rows in memory.

history/views.sql states the same in SQL, for the whole history. Tests compare both on random histories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.history.events import Span, newest_of_each, quoted, recorded_counts, recorded_rows
from namesrv_stream.rules.history import LEASE_ENDS
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import MASTER_ID, PERM_READ, PERM_WRITE
from namesrv_stream.rules.rows import BrokerEventRow, SnapshotRow, TopicRow
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.root import Root, query
from namesrv_stream.tables.schemas import BROKER_EVENT, TOPIC
from namesrv_stream.tables.snapshots import Snapshots

PLANNED = ("UNREGISTERED", "MOVED", "ID_LOST")
"""Ends of sessions after which the broker is not expected until it is back."""

UNPLANNED = tuple(kind for kind in LEASE_ENDS if kind not in PLANNED)
"""Ends of sessions after which the broker is down."""

EXPECTED_MS = 7 * 24 * 3_600_000
"""After an unplanned end a broker is down for this time at most. Then it counts as decommissioned."""

TOGETHER_MS = 60_000
"""Unplanned ends belong to one outage if each comes within this time of the one before."""

_HOUR_MS = 3_600_000
_ENDS = f"type IN {(*LEASE_ENDS, 'ID_LOST')} AND (type = 'ID_LOST' OR lease_millis IS NOT NULL)"
_HELD_AN_ID = """strpos(before, '"broker":') > 0"""
_HAD_TOPICS = """strpos(before, '"topic":') > 0"""
_LOSSES = ("SILENCE", "CHANNEL_CLOSED")
"""Causes by which topics leave a broker name unplanned."""

TopicState = Literal["without_route", "not_writable", "degraded", "read_only", "writable"]
LostTopics = Mapping[str, frozenset[str]]
"""Topic -> the broker names that are down and had it."""


class DownBroker(NamedTuple):
    """A broker that is expected and not up, with its zone and address of that time."""

    cluster_name: str
    broker_name: str
    broker_id: int
    zone_name: str | None
    broker_addr: str
    ended_by: str
    last_heard_ms: int
    gone_ms: int

    @property
    def fell_ms(self) -> int:
        """The time at which it fell out: of a silent broker its last sign of life, else the end of its lease."""
        return self.last_heard_ms if self.ended_by == "EXPIRED" else self.gone_ms


class Past(NamedTuple):
    """The history as of one snapshot. `until`: the moment at which its lines end, None for that of the snapshot."""

    root: Root
    snapshot: SnapshotRow
    until: AsOf | None = None

    def lines(self, keys: str, now_ms: int, condition: str) -> Sequence[BrokerEventRow]:
        """Return the newest line of each of `keys` within EXPECTED_MS before `now_ms` that meets a condition.

        A snapshot without new lines of history reads nothing: the last answers are kept.
        """
        since_ms = (now_ms - EXPECTED_MS) // _HOUR_MS * _HOUR_MS
        options, row = tuple((self.root.storage_options or {}).items()), self.snapshot
        source = _Source(self.root.url, options, row.versions[BROKER_EVENT.name], row.run_id, row.epoch)
        found = _newest_lines(source, keys, Span(since_ms, (self.until,) if self.until else ()), condition)
        return [line for line in found if line.event_time > now_ms - EXPECTED_MS]


@dataclass(frozen=True)
class _Source:
    """The history of a snapshot. Another epoch with the same version has the same lines."""

    url: str
    options: tuple[tuple[str, str], ...]
    version: int
    run_id: str
    epoch: int = field(compare=False)


@lru_cache(maxsize=16)
def _newest_lines(source: _Source, keys: str, span: Span, condition: str) -> Sequence[BrokerEventRow]:
    root, until = Root(source.url, dict(source.options) or None), AsOf(source.epoch).up_to_here
    return newest_of_each(root, source.version, keys, f"{span.covers} AND {until} AND {condition}")


def down_brokers(past: Past, tables: RouteTables, now_ms: int) -> list[DownBroker]:
    """Return the brokers that are down at a moment, the latest first. `tables` has the brokers that are up."""
    lines = past.lines("cluster_name, broker_name, broker_id", now_ms, f"{_ENDS} AND {_HELD_AN_ID}")
    up = {
        (row.cluster_name, name, broker_id)
        for name, holders in tables.brokers.items()
        for broker_id, row in holders.items()
    }
    fallen = [_down_broker(line) for line in lines if line.type in UNPLANNED]
    return sorted((each for each in fallen if each[:3] not in up), key=lambda each: (-each.gone_ms, each[:3]))


def _down_broker(line: BrokerEventRow) -> DownBroker:
    [row, *_] = recorded_rows(line.before)["broker"]
    return DownBroker(
        line.cluster_name or "",
        line.broker_name or "",
        line.broker_id or 0,
        row.get("zone_name"),
        line.broker_addr or "",
        line.type,
        line.last_heard_at or line.event_time,
        line.event_time,
    )


def lost_topics(past: Past, tables: RouteTables, now_ms: int, down: Iterable[DownBroker]) -> LostTopics:
    """Return the topics of the broker names that are down: those that a name had when its last broker went.

    Topics of a line that has only their number are those of the snapshot before it, if that can still be read.
    """
    names = sorted({each.broker_name for each in down} - tables.brokers.keys())
    if not names:
        return {}
    of_names = f"broker_name IN ({', '.join(map(quoted, names))}) AND {_HAD_TOPICS}"
    found: dict[str, set[str]] = {}
    for line in past.lines("broker_name", now_ms, of_names):
        if line.type == "TOPICS_CHANGED" and line.after is None and line.cause in _LOSSES:
            for topic in _topics_before(past.root, line):
                found.setdefault(topic, set()).add(line.broker_name or "")
    return {topic: frozenset(of_topic) for topic, of_topic in found.items()}


def _topics_before(root: Root, line: BrokerEventRow) -> list[str]:
    if TOPIC.name not in recorded_counts(line.before):
        return [row["topic"] for row in recorded_rows(line.before).get(TOPIC.name, ())]
    with suppress(SnapshotGoneError):
        return _topics_of(root, Snapshots(root).find(line.epoch - 1), line.broker_name or "")
    return []


def _topics_of(root: Root, snapshot: SnapshotRow, broker_name: str) -> list[str]:
    _, table = root.open_past(TOPIC, snapshot.versions[TOPIC.name])
    topics: list[str] = query(table, f"SELECT topic FROM rows WHERE broker_name = {quoted(broker_name)}")[0].to_pylist()
    return topics


class TopicVerdict(NamedTuple):
    """The state of a topic: of its `broker_names`, `up` have a master; `missing` are down or have no master."""

    state: TopicState
    up: int
    broker_names: int
    is_readable: bool
    is_writable: bool
    missing: tuple[str, ...]


def topic_verdict(rows: Sequence[TopicRow], tables: RouteTables, lost: frozenset[str] = frozenset()) -> TopicVerdict:
    """Return the state of a topic with these rows, of which the broker names in `lost` are down."""
    routed = [row for row in rows if row.broker_name in tables.brokers]
    with_master = {row.broker_name for row in routed if MASTER_ID in tables.brokers[row.broker_name]}
    writers = {row.broker_name for row in routed if row.perm & PERM_WRITE}
    names = {row.broker_name for row in rows} | lost
    is_writable = bool(writers & with_master)
    return TopicVerdict(
        _topic_state(bool(routed), bool(writers), is_writable, with_master == names),
        len(with_master),
        len(names),
        any(row.perm & PERM_READ for row in routed),
        is_writable,
        tuple(sorted(names - with_master)),
    )


def _topic_state(has_route: bool, may_write: bool, is_writable: bool, is_whole: bool) -> TopicState:
    if not has_route:
        return "without_route"
    if may_write and not is_writable:
        return "not_writable"
    if not is_whole:
        return "degraded"
    return "writable" if may_write else "read_only"

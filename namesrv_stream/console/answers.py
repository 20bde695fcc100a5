"""Answers about one snapshot. Each follows from the tables alone, so it is the same whenever it is asked for.

Whether a broker is late is judged by the event time of the snapshot, not by a clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NotRequired, TypedDict

import msgspec

from namesrv_stream.history.churn import UNPLANNED, Session, flapping, outages, sessions
from namesrv_stream.history.events import (
    AsOf,
    EpochEvents,
    Span,
    events_between,
    events_by_epoch,
    members_at,
    newest_events,
)
from namesrv_stream.history.fields import event_fields
from namesrv_stream.history.story import story_of_broker
from namesrv_stream.rules import lookup
from namesrv_stream.rules.history import BEGINS, LEASE_ENDS
from namesrv_stream.rules.rows import BrokerEventRow, LiveRow, RejectedRow, SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.reader import RegistryView
from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import REJECTED
from namesrv_stream.texts import iso_text

HOUR_MS = 3_600_000
MOST_MARKS = 2_000
MOST_LISTED = 1_000
"""Most brokers, events or rejected records in one answer."""

_SHOWN_VALUE_BYTES = 300
_COMMAND_KINDS = ("PUT_KV", "DELETE_KV", "WIPE_", "ADD_WRITE", "DELETE_TOPIC", "REGISTER_TOPIC", "UPDATE_NAMESRV")


class MomentFields(TypedDict):
    """The snapshot from which an answer is made."""

    epoch: int
    eventTime: str | None
    publishedAt: str | None


class BrokerFields(TypedDict):
    """A broker address with a lease. `silentMillis`: event time since its last sign of life."""

    brokerAddr: str
    clusterName: str
    brokerName: str
    brokerId: int
    holdsId: bool
    state: Literal["alive", "late"]
    silentMillis: int
    heartbeatTimeoutMillis: int
    lastUpdateTimestamp: str | None
    leaseBeganAt: str | None
    zoneName: str | None
    haServerAddr: str
    dataVersion: dict[str, int]
    filterServerList: list[str]
    topics: int


class GoneFields(TypedDict):
    """A broker whose lease ended within the last hour, and which has none since."""

    brokerAddr: str | None
    clusterName: str | None
    brokerName: str | None
    brokerId: int | None
    endedBy: str
    goneAt: str | None
    text: str


class BrokersFields(TypedDict):
    """A page of brokers; `next` is the address from which the next page begins, null at the end."""

    snapshot: MomentFields
    total: int
    brokers: list[BrokerFields]
    next: str | None


class ClusterFields(TypedDict):
    """A cluster and its broker names."""

    name: str
    brokers: list[dict[str, Any]]


class MarkFields(TypedDict):
    """An epoch with events, or several that are close together: then `epoch` is the last of them."""

    epoch: int
    eventTime: str | None
    ends: int
    begins: int
    commands: int
    others: int
    epochs: NotRequired[int]


def moment_fields(row: SnapshotRow) -> MomentFields:
    """Return the moment of a snapshot."""
    return {
        "epoch": row.epoch,
        "eventTime": iso_text(row.event_time),
        "publishedAt": iso_text(row.published_at),
    }


def lease_fields(view: RegistryView, lease: LiveRow) -> BrokerFields:
    """Return a lease as an answer shows it."""
    tables, now_ms = view.routes, view.snapshot.event_time or view.snapshot.published_at
    holder = tables.brokers.get(lease.broker_name, {}).get(lease.broker_id)
    holds_id = holder is not None and holder.broker_addr == lease.broker_addr
    silent_ms = max(0, now_ms - lease.last_update_timestamp)
    return {
        "brokerAddr": lease.broker_addr,
        "clusterName": lease.cluster_name,
        "brokerName": lease.broker_name,
        "brokerId": lease.broker_id,
        "holdsId": holds_id,
        "state": "late" if silent_ms > lease.heartbeat_timeout_millis // 2 else "alive",
        "silentMillis": silent_ms,
        "heartbeatTimeoutMillis": lease.heartbeat_timeout_millis,
        "lastUpdateTimestamp": iso_text(lease.last_update_timestamp),
        "leaseBeganAt": iso_text(lease.lease_began_at),
        "zoneName": holder.zone_name if holder and holds_id else None,
        "haServerAddr": lease.ha_server_addr,
        "dataVersion": msgspec.to_builtins(lease.data_version),
        "filterServerList": list(tables.filters.get(lease.broker_addr, ())),
        "topics": tables.queues.topic_counts.get(lease.broker_name, 0),
    }


def brokers_page(view: RegistryView, *, limit: int, after: str = "", name: str | None = None) -> BrokersFields:
    """Return the leases whose addresses come after one, in order; with `name` only those of that broker name."""
    live = view.routes.live
    addresses = sorted(each for each, lease in live.items() if name is None or lease.broker_name == name)
    page = [each for each in addresses if each > after][:limit]
    return {
        "snapshot": moment_fields(view.snapshot),
        "total": len(addresses),
        "brokers": [lease_fields(view, live[each]) for each in page],
        "next": page[-1] if page and page[-1] != addresses[-1] else None,
    }


def clusters(view: RegistryView) -> list[ClusterFields]:
    """Return the clusters, their broker names, and who holds each id."""
    tables = view.routes
    info = lookup.cluster_info(tables)
    found: list[ClusterFields] = []
    for cluster, names in sorted(info.clusters.items()):
        groups = [
            {
                "brokerName": name,
                "zoneName": info.brokers[name].zone_name,
                "topics": tables.queues.topic_counts.get(name, 0),
                "holders": [
                    _holder_fields(view, broker_id, address)
                    for broker_id, address in info.brokers[name].broker_addrs.items()
                    if tables.brokers[name][broker_id].cluster_name == cluster
                ],
            }
            for name in sorted(names)
        ]
        found.append({"name": cluster, "brokers": groups})
    return found


def _holder_fields(view: RegistryView, broker_id: int, address: str) -> dict[str, Any]:
    lease = view.routes.live.get(address)
    if lease is None:
        return {"brokerId": broker_id, "brokerAddr": address, "state": "late", "silentMillis": None}
    fields = lease_fields(view, lease)
    return {"brokerId": broker_id, **{name: fields[name] for name in _OF_HOLDER}}


_OF_HOLDER: tuple[Literal["brokerAddr", "state", "silentMillis", "leaseBeganAt"], ...] = (
    "brokerAddr",
    "state",
    "silentMillis",
    "leaseBeganAt",
)


def overview(root: Root, view: RegistryView) -> dict[str, Any]:
    """Return what the page shows of a moment first: the clusters, who is gone, and the last hour's events."""
    row, tables = view.snapshot, view.routes
    now_ms = row.event_time or row.published_at
    lines = newest_events(root, row, limit=MOST_LISTED)
    recent = [line for line in lines if line.event_time > now_ms - HOUR_MS]
    found = clusters(view)
    states = Counter(holder["state"] for each in found for name in each["brokers"] for holder in name["holders"])
    return {
        "snapshot": moment_fields(row),
        "kind": row.kind,
        "term": row.term,
        "runId": row.run_id,
        "counts": {
            "clusters": len(tables.clusters),
            "brokerNames": len(tables.brokers),
            "alive": states["alive"],
            "late": states["late"],
            "topics": len(tables.queues),
        },
        "clusters": found,
        "gone": gone(view, recent),
        "lastHour": dict(Counter(line.type for line in recent)),
        "events": [told(line) for line in lines[-30:]][::-1],
    }


def gone(view: RegistryView, lines: Iterable[BrokerEventRow]) -> list[GoneFields]:
    """Return the addresses whose last lease ended in one of the lines, newest first."""
    ends = {line.broker_addr: line for line in lines if line.type in LEASE_ENDS and line.lease_millis is not None}
    live = view.routes.live
    return [
        {
            "brokerAddr": line.broker_addr,
            "clusterName": line.cluster_name,
            "brokerName": line.broker_name,
            "brokerId": line.broker_id,
            "endedBy": line.type,
            "goneAt": iso_text(line.event_time),
            "text": sentence(line),
        }
        for address, line in sorted(ends.items(), key=lambda each: -each[1].event_time)
        if address not in live
    ]


def told(line: BrokerEventRow) -> dict[str, Any]:
    """Return a line of history with its sentence."""
    return event_fields(line) | {"text": sentence(line)}


def sentence(line: BrokerEventRow) -> str:
    """Return what happened, as `why` tells it."""
    return " ".join(each.text for each in story_of_broker([line]))


def topic_page(view: RegistryView, *, limit: int, after: str = "", containing: str = "") -> dict[str, Any]:
    """Return topics in order of their names, with their queues over all brokers."""
    queues, lower = view.routes.queues, containing.lower()
    names = [topic for topic in queues if lower in topic.lower()] if lower else list(queues)
    page = [topic for topic in names if topic > after][:limit]
    return {
        "snapshot": moment_fields(view.snapshot),
        "total": len(names),
        "topics": [_topic_fields(topic, queues[topic]) for topic in page],
        "next": page[-1] if page and page[-1] != names[-1] else None,
    }


def _topic_fields(topic: str, rows: Sequence[Any]) -> dict[str, Any]:
    return {
        "topic": topic,
        "readQueueNums": sum(row.read_queue_nums for row in rows),
        "writeQueueNums": sum(row.write_queue_nums for row in rows),
        "brokers": [row.broker_name for row in rows],
    }


def topics_of_broker(view: RegistryView, name: str, limit: int) -> dict[str, Any]:
    """Return the topics of a broker name with their queues and permissions there."""
    queues = view.routes.queues
    topics = queues.topics_on({name})
    rows = [row for topic in topics[:limit] for row in queues[topic] if row.broker_name == name]
    return {
        "total": len(topics),
        "topics": [
            {
                "topic": row.topic,
                "readQueueNums": row.read_queue_nums,
                "writeQueueNums": row.write_queue_nums,
                "perm": row.perm,
            }
            for row in rows
        ],
    }


def timeline(root: Root, row: SnapshotRow, since_ms: int, until_ms: int | None) -> list[MarkFields]:
    """Return the epochs with events after `since_ms`, as marks along a track; at most MOST_MARKS of them.

    Between two marks no route, lease or setting changed. If there are too many epochs, neighbours share a mark.
    """
    span = Span(since_ms, () if until_ms is None else (AsOf(at_ms=until_ms),))
    found = events_by_epoch(root, row, span)
    if not found:
        return []
    first_ms = found[0].event_time
    width_ms = max(1, (found[-1].event_time - first_ms) // MOST_MARKS + 1) if len(found) > MOST_MARKS else 0
    marks: list[MarkFields] = []
    bucket = -1
    for each in found:
        here = (each.event_time - first_ms) // width_ms if width_ms else bucket + 1
        mark = _mark(each)
        if here == bucket and marks:
            mark = _together(marks.pop(), mark)
        marks.append(mark)
        bucket = here
    return marks


def _mark(each: EpochEvents) -> MarkFields:
    ends = sum(each.counts.get(kind, 0) for kind in LEASE_ENDS)
    begins = sum(each.counts.get(kind, 0) for kind in BEGINS)
    commands = sum(count for kind, count in each.counts.items() if kind.startswith(_COMMAND_KINDS))
    others = sum(each.counts.values()) - ends - begins - commands
    return {
        "epoch": each.epoch,
        "eventTime": iso_text(each.event_time),
        "ends": ends,
        "begins": begins,
        "commands": commands,
        "others": others,
    }


def _together(one: MarkFields, other: MarkFields) -> MarkFields:
    return {
        **other,
        "ends": one["ends"] + other["ends"],
        "begins": one["begins"] + other["begins"],
        "commands": one["commands"] + other["commands"],
        "others": one["others"] + other["others"],
        "epochs": one.get("epochs", 1) + other.get("epochs", 1),
    }


def churn(root: Root, row: SnapshotRow, since_ms: int, broker: str | None = None) -> dict[str, Any]:
    """Return the sessions of brokers from `since_ms` to the snapshot, who flapped, and outages of several at once."""
    until_ms = row.event_time or row.published_at
    lines = events_between(root, row, AsOf(at_ms=since_ms), AsOf(epoch=row.epoch))
    found = sessions(members_at(root, row, AsOf(at_ms=since_ms)), lines)
    if broker is not None:
        found = [each for each in found if broker in (each.broker_name, each.address)]
    return {
        "snapshot": moment_fields(row),
        "since": iso_text(since_ms),
        "sessions": [_session_fields(each) for each in found],
        "availability": _availability(found, since_ms, until_ms),
        "flapping": [
            {
                "broker": _broker_text(each.broker),
                "unplannedEnds": each.unplanned_ends,
                "flaps": each.flaps,
                "shortestMillis": each.shortest_ms,
            }
            for each in flapping(found)
        ],
        "outages": [
            {
                "firstGoneAt": iso_text(each.first_gone_ms),
                "lastGoneAt": iso_text(each.last_gone_ms),
                "brokers": [_broker_text(broker) for broker in each.brokers],
            }
            for each in outages(found)
        ],
        "rejected": rejected(root, row),
    }


def _session_fields(session: Session) -> dict[str, Any]:
    return {
        "broker": _broker_text(session.broker),
        "brokerName": session.broker_name,
        "brokerAddr": session.address,
        "from": iso_text(session.from_ms),
        "to": iso_text(session.to_ms),
        "endedBy": session.ended_by,
        "unplanned": session.ended_by in UNPLANNED,
    }


def _availability(found: Iterable[Session], since_ms: int, until_ms: int) -> dict[str, float]:
    """Return the share of the time since a broker's first session began in which it was in the routes."""
    up: dict[str, int] = {}
    first: dict[str, int] = {}
    for each in found:
        name = _broker_text(each.broker)
        from_ms = max(since_ms, each.from_ms)
        first[name] = min(first.get(name, from_ms), from_ms)
        up[name] = up.get(name, 0) + max(0, (each.to_ms or until_ms) - from_ms)
    return {name: min(1.0, up[name] / max(1, until_ms - first[name])) for name in sorted(up)}


def _broker_text(broker: Sequence[object]) -> str:
    return " ".join(map(str, broker))


def rejected(root: Root, row: SnapshotRow, limit: int = 50) -> list[dict[str, Any]]:
    """Return the newest records outside the contract, newest first."""
    table = root.open(REJECTED, row.versions[REJECTED.name])
    rows: list[RejectedRow] = rows_from_arrow(
        REJECTED, select(table, REJECTED, "true", f'ORDER BY event_time DESC, "offset" DESC LIMIT {limit}')
    )
    return [
        {
            "eventTime": iso_text(each.event_time),
            "partition": each.partition,
            "offset": each.offset,
            "key": each.key,
            "length": each.length,
            "reason": each.reason,
            "text": (each.value or b"")[:_SHOWN_VALUE_BYTES].decode(errors="replace"),
        }
        for each in rows
    ]

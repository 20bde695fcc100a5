"""Answers about one snapshot. Each follows from the tables alone, so it is the same whenever it is asked for.

Whether a broker is late is judged by the event time of the snapshot, not by a clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict

import msgspec

from namesrv_stream.history.events import (
    newest_events,
)
from namesrv_stream.history.fields import event_fields
from namesrv_stream.history.story import story_of_broker
from namesrv_stream.rules import lookup
from namesrv_stream.rules.history import LEASE_ENDS
from namesrv_stream.rules.rows import BrokerEventRow, LiveRow, SnapshotRow
from namesrv_stream.tables.reader import RegistryView
from namesrv_stream.tables.root import Root
from namesrv_stream.texts import iso_text

HOUR_MS = 3_600_000
MOST_LISTED = 1_000
"""Most brokers, events or rejected records in one answer."""


class MomentFields(TypedDict):
    """The snapshot from which an answer is made."""

    epoch: int
    eventTime: str | None
    publishedAt: str | None


class BrokerFields(TypedDict):
    """A broker address with a lease. `silentMillis`: event time since its last sign of life.

    `late`: silent for more than half its lease. `suspect`: its lease is over, and the guard against mass expiry holds
    it.
    """

    brokerAddr: str
    clusterName: str
    brokerName: str
    brokerId: int
    holdsId: bool
    state: Literal["alive", "late", "suspect"]
    suspectSince: str | None
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
        "state": _state(lease, silent_ms),
        "suspectSince": iso_text(lease.suspect_since),
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


def _state(lease: LiveRow, silent_ms: int) -> Literal["alive", "late", "suspect"]:
    if lease.suspect_since is not None:
        return "suspect"
    return "late" if silent_ms > lease.heartbeat_timeout_millis // 2 else "alive"


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
            "suspect": states["suspect"],
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
    """Return what happened, in the words of `why`."""
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

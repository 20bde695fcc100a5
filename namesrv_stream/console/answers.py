"""Answers about one snapshot. Each follows from the tables alone, so it is the same whenever it is asked for.

Whether a broker is late is judged by the log's clock as of the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from namesrv_stream.console.models import (
    BrokerFields,
    BrokersFields,
    ClusterFields,
    HolderFields,
    MomentFields,
    State,
    TopicOfBrokerFields,
    TopicsFields,
)
from namesrv_stream.console.problems import BadQuestionError
from namesrv_stream.errors import did_you_mean
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lease import silence_ms
from namesrv_stream.rules.rows import LiveRow, SnapshotRow
from namesrv_stream.rules.system_topics import is_system_topic
from namesrv_stream.tables.reader import RegistryView
from namesrv_stream.texts import iso_text, natural_key

T = TypeVar("T")

MOST_LISTED = 1_000
"""Most items in one answer."""


class Chosen(NamedTuple):
    """Which brokers of a list are wanted; an empty `zone` is that of brokers without one, None every zone."""

    cluster: str | None = None
    zone: str | None = None
    containing: str = ""

    def has(self, cluster: str, zone: str | None, *names: str) -> bool:
        """Return whether a broker is among them; one of its `names` has to contain the text."""
        is_near = self.cluster in (None, cluster) and self.zone in (None, zone or "")
        return is_near and any(self.containing.lower() in name.lower() for name in names)


EVERY_BROKER = Chosen()


def moment_fields(row: SnapshotRow) -> MomentFields:
    """Return the moment of a snapshot."""
    return {
        "epoch": row.epoch,
        "eventTime": iso_text(row.event_time),
        "publishedAt": iso_text(row.published_at) or "",
    }


def now_of(row: SnapshotRow) -> int:
    """Return the moment of a snapshot in epoch milliseconds: of its newest record, of a first claim its publication."""
    return row.event_time or row.published_at


def lease_fields(view: RegistryView, lease: LiveRow) -> BrokerFields:
    """Return a lease as an answer shows it."""
    tables = view.routes
    holder = tables.brokers.get(lease.broker_name, {}).get(lease.broker_id)
    holds_id = holder is not None and holder.broker_addr == lease.broker_addr
    return {
        "brokerAddr": lease.broker_addr,
        "clusterName": lease.cluster_name,
        "brokerName": lease.broker_name,
        "brokerId": lease.broker_id,
        "holdsId": holds_id,
        "state": state_of(view, lease),
        "suspectSince": iso_text(lease.suspect_since),
        "silentMillis": silence_ms(lease, view.snapshot),
        "heartbeatTimeoutMillis": lease.heartbeat_timeout_millis,
        "lastUpdateTimestamp": iso_text(lease.last_update_timestamp),
        "leaseBeganAt": iso_text(lease.lease_began_at),
        "zoneName": holder.zone_name if holder and holds_id else None,
        "haServerAddr": lease.ha_server_addr,
        "dataVersion": msgspec.to_builtins(lease.data_version),
        "filterServerList": list(tables.filters.get(lease.broker_addr, ())),
        "topics": tables.queues.topic_counts.get(lease.broker_name, 0),
    }


def state_of(view: RegistryView, lease: LiveRow | None) -> State:
    """Return the state of a lease. An id whose holder has no lease is late: it is about to leave the routes."""
    if lease is None:
        return "late"
    if lease.suspect_since is not None:
        return "suspect"
    return "late" if silence_ms(lease, view.snapshot) > lease.heartbeat_timeout_millis // 2 else "alive"


_ORDERS: dict[str, Callable[[BrokerFields], Any]] = {
    "address": lambda _: 0,
    "name": lambda each: (natural_key(each["brokerName"]), each["brokerId"]),
    "cluster": lambda each: natural_key(each["clusterName"]),
    "zone": lambda each: natural_key(each["zoneName"] or ""),
    "state": lambda each: ("suspect", "late", "alive").index(each["state"]),
    "silent": lambda each: each["silentMillis"],
    "since": lambda each: each["leaseBeganAt"] or "",
    "topics": lambda each: each["topics"],
}


def brokers_page(  # noqa: PLR0913  # what a reader may choose
    view: RegistryView,
    *,
    limit: int,
    after: str = "",
    order: str = "address",
    chosen: Chosen = EVERY_BROKER,
    state: State | None = None,
) -> BrokersFields:
    """Return a page of the leases that are chosen, in an order; `-` before its name turns it around."""
    found = [lease_fields(view, each) for each in view.routes.live.values()]
    found = [
        each
        for each in found
        if chosen.has(each["clusterName"], each["zoneName"], each["brokerName"], each["brokerAddr"])
        and state in (None, each["state"])
    ]
    found.sort(key=lambda each: natural_key(each["brokerAddr"]))
    found.sort(key=_order(order), reverse=order.startswith("-"))
    page, following = paged(found, lambda each: each["brokerAddr"], limit, after)
    return {"snapshot": moment_fields(view.snapshot), "total": len(found), "brokers": page, "next": following}


def _order(text: str) -> Callable[[BrokerFields], Any]:
    name = text.removeprefix("-")
    if name not in _ORDERS:
        advice = did_you_mean(name, _ORDERS)
        raise BadQuestionError(f"sort={text[:100]}: {advice}accepted are {', '.join(_ORDERS)}, with - the other way.")
    return _ORDERS[name]


def paged(items: Sequence[T], name: Callable[[T], str], limit: int, after: str) -> tuple[list[T], str | None]:
    """Return the items behind the one that is named `after`, and the name of the last one if more follow."""
    first = 0
    if after:
        first = next((index for index, each in enumerate(items, 1) if name(each) == after), 0)
        if not first:
            raise BadQuestionError(f"after={after[:200]}: the list has no such item. Begin anew, without `after`.")
    page = list(items[first : first + limit])
    return page, name(page[-1]) if page and first + limit < len(items) else None


def brokers_of(view: RegistryView, names: Iterable[str]) -> list[BrokerFields]:
    """Return the leases of broker names, by address."""
    wanted = frozenset(names)
    leases = [lease for lease in view.routes.live.values() if lease.broker_name in wanted]
    return [lease_fields(view, lease) for lease in sorted(leases, key=lambda each: natural_key(each.broker_addr))]


def clusters(view: RegistryView) -> list[ClusterFields]:
    """Return the clusters, their broker names, and who holds each id."""
    tables = view.routes
    info = lookup.cluster_info(tables)
    return [
        {
            "name": cluster,
            "brokers": [
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
                for name in sorted(names, key=natural_key)
            ],
        }
        for cluster, names in sorted(info.clusters.items())
    ]


def _holder_fields(view: RegistryView, broker_id: int, address: str) -> HolderFields:
    lease = view.routes.live.get(address)
    return {
        "brokerId": broker_id,
        "brokerAddr": address,
        "state": state_of(view, lease),
        "silentMillis": silence_ms(lease, view.snapshot) if lease else None,
        "leaseBeganAt": iso_text(lease.lease_began_at) if lease else None,
    }


def system_topics(view: RegistryView) -> frozenset[str]:
    """Return the topics that brokers have made by themselves."""
    of_brokers = view.routes.brokers.keys() | view.routes.clusters.keys()
    return frozenset(topic for topic in view.routes.queues if is_system_topic(topic, of_brokers))


def topic_page(
    view: RegistryView, *, limit: int, after: str = "", containing: str = "", with_system: bool = True
) -> TopicsFields:
    """Return topics in order of their names, with their queues over all brokers."""
    queues, lower, system = view.routes.queues, containing.lower(), system_topics(view)
    named = [topic for topic in queues if lower in topic.lower()] if lower else list(queues)
    names = named if with_system else [topic for topic in named if topic not in system]
    page = [topic for topic in names if topic > after][:limit]
    return {
        "snapshot": moment_fields(view.snapshot),
        "total": len(names),
        "hidden": len(named) - len(names),
        "topics": [
            {
                "topic": topic,
                "readQueueNums": sum(row.read_queue_nums for row in queues[topic]),
                "writeQueueNums": sum(row.write_queue_nums for row in queues[topic]),
                "brokerNames": len(queues[topic]),
                "isSystem": topic in system,
            }
            for topic in page
        ],
        "next": page[-1] if page and page[-1] != names[-1] else None,
    }


class TopicsOfBroker(NamedTuple):
    """A page of a broker name's topics."""

    total: int
    topics: list[TopicOfBrokerFields]
    next: str | None


def topics_of_broker(view: RegistryView, name: str, limit: int, after: str = "") -> TopicsOfBroker:
    """Return topics of a broker name behind a topic, with their queues and permissions there."""
    queues = view.routes.queues
    topics = queues.topics_on({name})
    page = [topic for topic in topics if topic > after][:limit]
    rows = [row for topic in page for row in queues[topic] if row.broker_name == name]
    shown: list[TopicOfBrokerFields] = [
        {
            "topic": row.topic,
            "readQueueNums": row.read_queue_nums,
            "writeQueueNums": row.write_queue_nums,
            "perm": row.perm,
        }
        for row in rows
    ]
    return TopicsOfBroker(len(topics), shown, page[-1] if page and page[-1] != topics[-1] else None)

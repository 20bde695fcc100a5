"""Answer lookups from one snapshot of the tables (rules M1-M8, K2, K4).

Answers are plain data, with the names and, in camelCase, the fields of RocketMQ's classes; a field that is None is left
out of the JSON. Lists have no defined order in
RocketMQ; here they keep the order of the tables, so that the same snapshot gives the same answer everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.record_types import MASTER_ID, PERM_WRITE, DataVersion, QueueData
from namesrv_stream.rules.rows import BrokerRow, LiveRow, TopicRow

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"
MEMBER_SYNC_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
UNIT_FLAG = 1
UNIT_SUB_FLAG = 2


class BrokerData(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A broker group: its addresses by id, and cluster, zone and flag of its latest registration (D6, R4).

    `enable_acting_master`: None in the answer of a 4.x name server.
    """

    broker_name: str
    cluster: str
    broker_addrs: dict[int, str]
    enable_acting_master: bool | None = None
    zone_name: str | None = None


class TopicRouteData(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The route of a topic (M1).

    `filter_server_table` holds only addresses of the route that have filter servers. `topic_queue_mapping_by_broker`:
    broker name -> TopicQueueMappingInfo (T7), None if the topic has no mapping.
    """

    queue_datas: list[QueueData]
    broker_datas: list[BrokerData]
    filter_server_table: dict[str, list[str]]
    order_topic_conf: str | None = None
    topic_queue_mapping_by_broker: dict[str, object] | None = None


class ClusterInfo(msgspec.Struct, frozen=True, rename="camel"):
    """All broker groups by name, and the broker names of each cluster (M6)."""

    broker_addr_table: dict[str, BrokerData]
    cluster_addr_table: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class RouteTables:
    """One snapshot, indexed for lookups. It never changes, so its holder sees one consistent state (E8).

    `queues`: topic -> its rows. `brokers`: broker name -> id -> holder. `clusters`: cluster name -> broker names. `kv`:
    namespace -> key -> value, emptied namespaces included. `mappings`: topic -> broker name -> JSON text (T7).
    """

    queues: TopicQueues = field(default_factory=TopicQueues)
    brokers: Mapping[str, Mapping[int, BrokerRow]] = field(default_factory=dict)
    clusters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    live: Mapping[str, LiveRow] = field(default_factory=dict)
    kv: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    mappings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    namesrv_config: Mapping[str, str] = field(default_factory=dict)
    _groups: dict[str, BrokerData] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The broker groups that lookups have used, so that all topics of a broker name share one object."""

    def group(self, broker_name: str) -> BrokerData | None:
        """Return the broker group of a name as clients see it; None if nobody holds an id of the name."""
        group = self._groups.get(broker_name)
        if group is None and broker_name in self.brokers:
            group = self._groups[broker_name] = broker_data(self.brokers[broker_name])
        return group


def topics_with_other_routes(before: RouteTables, after: RouteTables) -> set[str]:
    """Return the topics whose routes differ between two snapshots in more than their rows of `topic`.

    They differ in a broker group, a filter server, a mapping or the order configuration. Settings are not compared.
    """
    addresses = _changed_keys(before.filters, after.filters)
    changed = _changed_keys(before.brokers, after.brokers)
    names = {name for name in changed if before.group(name) != after.group(name)}
    names |= {
        name for name, holders in after.brokers.items() if any(row.broker_addr in addresses for row in holders.values())
    }
    topics = set(after.queues.topics_on(names)) if names else set()
    orders = _changed_keys(before.kv.get(ORDER_TOPIC_NAMESPACE, {}), after.kv.get(ORDER_TOPIC_NAMESPACE, {}))
    return topics | _changed_keys(before.mappings, after.mappings) | orders


def _changed_keys(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    if before is after:
        return set()
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def latest_registered(holders: Iterable[BrokerRow]) -> BrokerRow:
    """Return the holder with the latest registration.

    Clients see its cluster, zone and flag for the whole group (D6).
    """
    return max(holders, key=lambda row: row.registered_at)


def broker_data(holders: Mapping[int, BrokerRow]) -> BrokerData:
    """Return the broker group that these holders form: id -> holder, at least one."""
    shown = latest_registered(holders.values())
    return BrokerData(
        broker_name=shown.broker_name,
        cluster=shown.cluster_name,
        broker_addrs={broker_id: row.broker_addr for broker_id, row in sorted(holders.items())},
        zone_name=shown.zone_name,
        enable_acting_master=bool(shown.enable_acting_master),
    )


def route(
    tables: RouteTables, topic: str, settings: NamesrvSettings, zone_name: str | None = None
) -> TopicRouteData | None:
    """Return the route of a topic, or None, which is answered TOPIC_NOT_EXIST (M1).

    `zone_name`: the zone of a client in zone mode; such a client sees only the groups of its own zone (M4).
    """
    queues: Sequence[TopicRow] = tables.queues.get(topic, ())
    groups = [group for row in queues if (group := tables.group(row.broker_name)) is not None]
    if not groups:
        return None
    if settings.support_acting_master and not topic.startswith(MEMBER_SYNC_TOPIC_PREFIX):
        writable = {row.broker_name for row in queues if row.perm & PERM_WRITE}
        groups = [group if group.broker_name in writable else _with_acting_master(group) for group in groups]
    if zone_name is not None and zone_name.strip():
        hidden = {group.broker_name for group in groups if _is_of_other_zone(group, zone_name)}
        groups = [group for group in groups if group.broker_name not in hidden]
        queues = [row for row in queues if row.broker_name not in hidden]
    addresses = [address for group in groups for address in group.broker_addrs.values()]
    mappings = tables.mappings.get(topic)
    return TopicRouteData(
        order_topic_conf=order_topic_conf(tables, topic) if settings.order_message_enable else None,
        queue_datas=[QueueData(*row[1:]) for row in queues],
        broker_datas=groups,
        filter_server_table={each: list(tables.filters[each]) for each in addresses if each in tables.filters},
        topic_queue_mapping_by_broker=None if mappings is None else {n: _mapping(text) for n, text in mappings.items()},
    )


def _mapping(text: str) -> dict[str, object]:
    """Return a TopicQueueMappingInfo (T7), with integers as keys of `currIdMap` if its broker sent integers."""
    info: dict[str, object] = msgspec.json.decode(text)
    with suppress(msgspec.ValidationError):
        info |= {"currIdMap": msgspec.convert(info.get("currIdMap"), dict[int, object], strict=False)}
    return info


def order_topic_conf(tables: RouteTables, topic: str) -> str | None:
    """Return the topic's value in the KV namespace ORDER_TOPIC_CONFIG (M2)."""
    return tables.kv.get(ORDER_TOPIC_NAMESPACE, {}).get(topic)


def _with_acting_master(group: BrokerData) -> BrokerData:
    """Return the group with its smallest id as 0 if it has the acting flag and no id 0, else as it is (M3)."""
    if not group.enable_acting_master or MASTER_ID in group.broker_addrs:
        return group
    smallest = min(group.broker_addrs)
    addresses = {MASTER_ID if broker_id == smallest else broker_id: a for broker_id, a in group.broker_addrs.items()}
    return replace(group, broker_addrs=addresses)


def _is_of_other_zone(group: BrokerData, zone_name: str) -> bool:
    """Return whether zone mode leaves the group out: it has a master, and another zone or none (M4)."""
    return MASTER_ID in group.broker_addrs and (group.zone_name or "").lower() != zone_name.lower()


def cluster_info(tables: RouteTables) -> ClusterInfo:
    """Return all broker groups and clusters (M6)."""
    return ClusterInfo(
        broker_addr_table={name: broker_data(holders) for name, holders in tables.brokers.items()},
        cluster_addr_table={cluster: list(names) for cluster, names in tables.clusters.items()},
    )


def member_group(tables: RouteTables, broker_name: str) -> dict[int, str]:
    """Return the addresses of a broker name by id, empty if the name is unknown (M6)."""
    return {broker_id: row.broker_addr for broker_id, row in tables.brokers.get(broker_name, {}).items()}


def topic_list(tables: RouteTables) -> list[str]:
    """Return all topics (M7)."""
    return list(tables.queues)


def topics_by_cluster(tables: RouteTables, cluster: str) -> list[str]:
    """Return the topics with a row of one of the cluster's broker names, none for an unknown cluster (M7)."""
    return tables.queues.topics_on(set(tables.clusters.get(cluster, ())))


def system_topics(tables: RouteTables) -> list[str]:
    """Return all cluster names and broker names, because each is the name of a system topic; nothing else (M7)."""
    return [*tables.clusters, *(name for name in tables.brokers if name not in tables.clusters)]


def unit_topics(tables: RouteTables) -> list[str]:
    """Return the topics whose first row has the unit flag (M7). RocketMQ reads one arbitrary row of a topic."""
    return [topic for topic, flag in tables.queues.flags() if flag & UNIT_FLAG]


def unit_sub_topics(tables: RouteTables) -> list[str]:
    """Return the topics with the unit-sub flag (M7)."""
    return [topic for topic, flag in tables.queues.flags() if flag & UNIT_SUB_FLAG]


def unit_sub_ununit_topics(tables: RouteTables) -> list[str]:
    """Return the topics with the unit-sub flag and without the unit flag (M7)."""
    return [topic for topic, flag in tables.queues.flags() if flag & UNIT_SUB_FLAG and not flag & UNIT_FLAG]


def is_version_changed(tables: RouteTables, broker_addr: str, version: DataVersion) -> bool:
    """Return whether QUERY_DATA_VERSION has the answer `changed`: the address has no lease or another version (M8)."""
    lease = tables.live.get(broker_addr)
    return lease is None or lease.data_version != version


def waits_for_service(settings: NamesrvSettings, up_ms: int) -> bool:
    """Return whether routes are refused because the process started only `up_ms` ago (M5)."""
    return settings.need_wait_for_service and up_ms < settings.wait_seconds_for_service * 1000


Index = Mapping[Any, Any]


def _by_first(rows: Iterable[Any]) -> Index:
    return {row[0]: row for row in rows}


def _nested(rows: Iterable[Any], value: Callable[[Any], Any]) -> Index:
    """Return first key column -> second key column -> value."""
    index: dict[Any, dict[Any, Any]] = defaultdict(dict)
    for row in rows:
        index[row[0]][row[1]] = value(row)
    return dict(index)


def _seconds_by_first(rows: Iterable[Any]) -> Index:
    index: dict[Any, list[Any]] = defaultdict(list)
    for first, second in rows:
        index[first].append(second)
    return dict(index)


def _kv(rows: Iterable[Any]) -> Index:
    """Return namespace -> key -> value; the row that records a namespace is no entry (K3, K4)."""
    index: dict[str, dict[str, str]] = {}
    for row in rows:
        entries = index.setdefault(row.namespace, {})
        if row.value is not None:
            entries[row.key] = row.value
    return index


INDEXES: Mapping[str, tuple[str, Callable[[Iterable[Any]], Index]]] = {
    "broker": ("brokers", lambda rows: _nested(rows, lambda row: row)),
    "cluster": ("clusters", _seconds_by_first),
    "filter": ("filters", dict),
    "live": ("live", _by_first),
    "kv_config": ("kv", _kv),
    "namesrv_config": ("namesrv_config", dict),
    "topic_mapping": ("mappings", lambda rows: _nested(rows, lambda row: row.mapping)),
}
"""All route tables but `topic` -> the field of `RouteTables` that has their rows, and how these are indexed there."""


def route_index(table: str, rows: Iterable[Any]) -> Index:
    """Index the rows of one small table, which come in order of their key, as `RouteTables` has it."""
    return INDEXES[table][1](rows)


def route_tables(queues: TopicQueues, indexes: Mapping[str, Index]) -> RouteTables:
    """Join the table `topic` and the indexes of all other route tables, by table name.

    Readers of the published tables and the registry in memory both call this, so both answer a lookup alike.
    """
    return RouteTables(queues, **{INDEXES[name][0]: index for name, index in indexes.items()})

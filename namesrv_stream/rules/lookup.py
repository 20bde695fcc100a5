"""What a lookup answers from one snapshot of the tables (rules M1-M8, K2, K4).

Answers are plain data; how they look on the wire or on a terminal is decided elsewhere. Lists have no defined order
in RocketMQ; here they keep the order of the tables, so that the same snapshot gives the same answer everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.requests import MASTER_ID, PERM_WRITE, DataVersion
from namesrv_stream.rules.rows import BrokerRow, LiveRow, TopicRow

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"
MEMBER_SYNC_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
UNIT_FLAG = 1
UNIT_SUB_FLAG = 2


@dataclass(frozen=True, slots=True)
class RouteTables:
    """One snapshot, indexed for lookups. Read only; whoever has it sees one consistent state (E8).

    `queues`: topic -> its rows. `brokers`: broker name -> id -> holder. `clusters`: cluster name -> broker names.
    `kv`: namespace -> key -> value, emptied namespaces included. `mappings`: topic -> broker name -> JSON text (T7).
    """

    queues: TopicQueues = field(default_factory=TopicQueues)
    brokers: Mapping[str, Mapping[int, BrokerRow]] = field(default_factory=dict)
    clusters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    live: Mapping[str, LiveRow] = field(default_factory=dict)
    kv: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    mappings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    namesrv_config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerGroup:
    """A broker group as clients see it: its addresses by id, and what its latest registration said (D6, R4)."""

    broker_name: str
    cluster: str
    broker_addrs: Mapping[int, str]
    zone_name: str | None
    enable_acting_master: bool


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The answer to GET_ROUTEINFO_BY_TOPIC. `topic_queue_mappings`: broker name -> JSON text, None where there is none.

    `filter_server_table` holds only addresses of the route that have filter servers (M1).
    """

    topic: str
    order_topic_conf: str | None
    queue_datas: Sequence[TopicRow]
    broker_datas: Sequence[BrokerGroup]
    filter_server_table: Mapping[str, tuple[str, ...]]
    topic_queue_mappings: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The answer to GET_BROKER_CLUSTER_INFO (M6): every broker group by name, and the names of each cluster."""

    brokers: Mapping[str, BrokerGroup]
    clusters: Mapping[str, Sequence[str]]


def latest_registered(holders: Iterable[BrokerRow]) -> BrokerRow:
    """The holder whose registration is the latest of its broker name: its cluster, zone and flag are shown (D6)."""
    return max(holders, key=lambda row: row.registered_at)


def broker_data(holders: Mapping[int, BrokerRow]) -> BrokerGroup:
    """A broker group out of its holders by id; there is at least one."""
    shown = latest_registered(holders.values())
    return BrokerGroup(
        broker_name=shown.broker_name,
        cluster=shown.cluster_name,
        broker_addrs={broker_id: row.broker_addr for broker_id, row in sorted(holders.items())},
        zone_name=shown.zone_name,
        enable_acting_master=bool(shown.enable_acting_master),
    )


def route(
    tables: RouteTables, topic: str, settings: NamesrvSettings, zone_name: str | None = None
) -> TopicRoute | None:
    """The route of a topic, or None: TOPIC_NOT_EXIST (M1).

    `zone_name`: the zone of a client in zone mode, which sees only its own zone's groups (M4).
    """
    queues: Sequence[TopicRow] = tables.queues.get(topic, ())
    groups = [broker_data(tables.brokers[row.broker_name]) for row in queues if row.broker_name in tables.brokers]
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
    return TopicRoute(
        topic=topic,
        order_topic_conf=order_topic_conf(tables, topic) if settings.order_message_enable else None,
        queue_datas=tuple(queues),
        broker_datas=groups,
        filter_server_table={each: tables.filters[each] for each in addresses if each in tables.filters},
        topic_queue_mappings=tables.mappings.get(topic),
    )


def order_topic_conf(tables: RouteTables, topic: str) -> str | None:
    """The topic's value in the KV namespace ORDER_TOPIC_CONFIG (M2)."""
    return tables.kv.get(ORDER_TOPIC_NAMESPACE, {}).get(topic)


def _with_acting_master(group: BrokerGroup) -> BrokerGroup:
    """M3: a group with the acting flag and without id 0 is shown with its smallest id as 0."""
    if not group.enable_acting_master or MASTER_ID in group.broker_addrs:
        return group
    smallest = min(group.broker_addrs)
    addresses = {MASTER_ID if broker_id == smallest else broker_id: a for broker_id, a in group.broker_addrs.items()}
    return replace(group, broker_addrs=addresses)


def _is_of_other_zone(group: BrokerGroup, zone_name: str) -> bool:
    """M4: only groups that have a master are left out; no zone counts as another one."""
    return MASTER_ID in group.broker_addrs and (group.zone_name or "").lower() != zone_name.lower()


def cluster_info(tables: RouteTables) -> ClusterInfo:
    """All broker groups and clusters (M6)."""
    return ClusterInfo(
        brokers={name: broker_data(holders) for name, holders in tables.brokers.items()},
        clusters={cluster: tuple(names) for cluster, names in tables.clusters.items()},
    )


def member_group(tables: RouteTables, broker_name: str) -> dict[int, str]:
    """The addresses of a broker name by id, empty if the name is unknown (M6)."""
    return {broker_id: row.broker_addr for broker_id, row in tables.brokers.get(broker_name, {}).items()}


def topic_list(tables: RouteTables) -> list[str]:
    """All topics (M7)."""
    return list(tables.queues)


def topics_by_cluster(tables: RouteTables, cluster: str) -> list[str]:
    """Topics with a row of one of the cluster's broker names; an unknown cluster has none (M7)."""
    return tables.queues.topics_on(set(tables.clusters.get(cluster, ())))


def system_topics(tables: RouteTables) -> list[str]:
    """Cluster names and broker names, which are topics of their own, and nothing else (M7)."""
    return [*tables.clusters, *(name for name in tables.brokers if name not in tables.clusters)]


def unit_topics(tables: RouteTables) -> list[str]:
    """Topics whose first row has the unit flag (M7): RocketMQ looks at one, arbitrary, row of a topic."""
    return [topic for topic, flag in tables.queues.flags() if flag & UNIT_FLAG]


def unit_sub_topics(tables: RouteTables) -> list[str]:
    """Topics with the unit-sub flag (M7)."""
    return [topic for topic, flag in tables.queues.flags() if flag & UNIT_SUB_FLAG]


def unit_sub_ununit_topics(tables: RouteTables) -> list[str]:
    """Topics with the unit-sub flag and without the unit flag (M7)."""
    return [topic for topic, flag in tables.queues.flags() if flag & UNIT_SUB_FLAG and not flag & UNIT_FLAG]


def is_version_changed(tables: RouteTables, broker_addr: str, version: DataVersion) -> bool:
    """M8: whether QUERY_DATA_VERSION answers `changed`: no lease, or another version."""
    lease = tables.live.get(broker_addr)
    return lease is None or lease.data_version != version


def waits_for_service(settings: NamesrvSettings, up_ms: int) -> bool:
    """Whether routes are refused because the process started only `up_ms` ago (M5)."""
    return settings.need_wait_for_service and up_ms < settings.wait_seconds_for_service * 1000

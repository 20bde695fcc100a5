"""The registry's tables in memory, which rules read and change, and the steps that several requests share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from namesrv_stream.rules.journal import Journal, Table
from namesrv_stream.rules.lookup import RouteTables, latest_registered
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.record_types import MASTER_ID, PERM_WRITE
from namesrv_stream.rules.route_index import SMALL_TABLES, route_index, route_tables
from namesrv_stream.rules.rows import (
    BrokerRow,
    ClusterRow,
    FilterRow,
    KvConfigRow,
    LiveRow,
    NamesrvConfigRow,
    TopicMappingRow,
    TopicRow,
)
from namesrv_stream.rules.topic_table import TopicTable


class RegistryTables:
    """All keyed tables and the journal of their changes."""

    def __init__(self) -> None:
        self.journal: Journal = []
        log = self.journal
        self.topic = TopicTable(log)
        self.broker: Table[BrokerRow] = Table("broker", lambda r: r[:2], lambda r: r.broker_name, log)
        self.cluster: Table[ClusterRow] = Table("cluster", lambda r: r[:2], lambda r: r.broker_name, log)
        self.filter: Table[FilterRow] = Table("filter", lambda r: r[:1], lambda r: r.broker_addr, log)
        self.live: Table[LiveRow] = Table("live", lambda r: r[:1], lambda r: r.broker_addr, log)
        self.kv_config: Table[KvConfigRow] = Table("kv_config", lambda r: r[:2], lambda r: r.namespace, log)
        self.namesrv_config: Table[NamesrvConfigRow] = Table("namesrv_config", lambda r: r[:1], lambda r: r.key, log)
        self.topic_mapping: Table[TopicMappingRow] = Table("topic_mapping", lambda r: r[:2], lambda r: r.topic, log)

    def load(self, rows: Mapping[str, Iterable[tuple[object, ...]] | TopicQueues]) -> None:
        """Take published rows, table name -> rows."""
        for name, of_table in rows.items():
            getattr(self, name).load(of_table)

    def holders(self, broker_name: str) -> dict[int, BrokerRow]:
        """Return id -> holder for a broker name."""
        return {row.broker_id: row for row in self.broker.of(broker_name).values()}

    def holder(self, broker_name: str, broker_id: int) -> BrokerRow | None:
        """Return the holder of an id, None if it has none."""
        return self.broker.of(broker_name).get((broker_name, broker_id))

    def view(self) -> RouteTables:
        """Return the tables as lookups see them, as if they were published now."""
        indexes = {name: route_index(name, sorted(getattr(self, name))) for name in SMALL_TABLES}
        return route_tables(TopicQueues.of(self.topic), indexes)


def end_lease(tables: RegistryTables, broker_addr: str) -> LiveRow | None:
    """End the lease of an address and return it, None if the address has none (U1-U4).

    Everything follows the lease's own cluster, name and id, whatever the reason of the end (D4).
    """
    lease = tables.live.first(broker_addr)
    if lease is None:
        return None
    tables.live.drop(lease)
    tables.filter.drop(FilterRow(broker_addr, ()))
    held = tables.holder(lease.broker_name, lease.broker_id)
    if held is None or held.broker_addr != broker_addr:
        return lease  # U2
    tables.broker.drop(held)
    follow_holders(tables, lease.broker_name)
    holders = tables.holders(lease.broker_name)
    if not holders:
        for row in list(tables.topic.of(lease.broker_name).values()):
            tables.topic.drop(row)  # U3; its mapping stays, as in RocketMQ, until the broker is back
    elif MASTER_ID not in holders and latest_registered(holders.values()).enable_acting_master:
        wipe_write_perm(tables, lease.broker_name)  # U4
    return lease


def drop_topic(tables: RegistryTables, row: TopicRow) -> None:
    """Remove a topic's row of a broker name, and its mapping there if it is a static topic (D12)."""
    tables.topic.drop(row)
    tables.topic_mapping.drop(TopicMappingRow(row.topic, row.broker_name, ""))


def follow_holders(tables: RegistryTables, broker_name: str) -> None:
    """Keep the name in exactly those clusters under which a holder of one of its ids registered (D6)."""
    wanted = {row.cluster_name for row in tables.broker.of(broker_name).values()}
    for row in list(tables.cluster.of(broker_name).values()):
        if row.cluster_name not in wanted:
            tables.cluster.drop(row)
    for cluster_name in wanted:
        tables.cluster.put(ClusterRow(cluster_name, broker_name))


def wipe_write_perm(tables: RegistryTables, broker_name: str) -> int:
    """Clear the write bit in all rows of a broker name; return the number of its rows (A1, U4)."""
    rows = list(tables.topic.of(broker_name).values())
    for row in rows:
        tables.topic.put(row._replace(perm=row.perm & ~PERM_WRITE))
    return len(rows)

"""The registry's tables in memory, which rules read and change, and the steps that several requests share.

Each table records its changes in a journal that covers a micro-batch. Rows to publish and lines of history are both
made from it, so no row changes without a line that explains it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from namesrv_stream.rules.lookup import INDEXES, RouteTables, latest_registered, route_index, route_tables
from namesrv_stream.rules.queues import QueueSettings, TopicQueues
from namesrv_stream.rules.record_types import MASTER_ID, PERM_WRITE
from namesrv_stream.rules.rows import (
    BrokerRow,
    ClusterRow,
    FilterRow,
    Key,
    KvConfigRow,
    LiveRow,
    NamesrvConfigRow,
    RowChange,
    TopicMappingRow,
    TopicRow,
)

Row = TypeVar("Row", bound=tuple)  # type: ignore[type-arg]  # a NamedTuple of any fields


class Table(Generic[Row]):
    """Rows by key, in groups: all topics of a broker name, or all its ids.

    `put` of an equal row and `drop` of an absent one leave no entry in the journal.
    """

    def __init__(
        self, name: str, key: Callable[[Row], Key], group: Callable[[Row], str], journal: list[RowChange]
    ) -> None:
        self._name = name
        self._key = key
        self._group = group
        self._journal = journal
        self._groups: dict[str, dict[Key, Row]] = {}

    def load(self, rows: Iterable[Row]) -> None:
        """Take rows that are already published."""
        for row in rows:
            self.refresh(row)

    def of(self, group: str) -> list[Row]:
        """Return the rows of one group in a new list, so that a caller can put and drop rows meanwhile."""
        return list(self._groups.get(group, {}).values())

    def known(self, group: str, key: Key) -> Row | None:
        """Return the row of a group with this key, None if there is none."""
        return self._groups.get(group, {}).get(key)

    def first(self, group: str) -> Row | None:
        """Return the row of a group that has one row at most, such as an address in `live`; None if it has none."""
        return next(iter(self.of(group)), None)

    def groups(self) -> Collection[str]:
        """Return the groups that have rows."""
        return self._groups.keys()

    def __iter__(self) -> Iterator[Row]:
        return (row for group in self.groups() for row in self.of(group))

    def put(self, row: Row) -> None:
        """Insert or replace a row."""
        before = self.known(self._group(row), self._key(row))
        if before != row:
            self.refresh(row)
            self._journal.append(RowChange(self._name, self._key(row), before, row))

    def refresh(self, row: Row) -> None:
        """Replace a row without a journal entry: for rows already published, and for signs of life."""
        self._groups.setdefault(self._group(row), {})[self._key(row)] = row

    def drop(self, row: Row) -> None:
        """Remove the row with the key of this one, if it is there."""
        before = self.known(self._group(row), self._key(row))
        if before is not None:
            self._remove(self._group(row), self._key(row))
            self._journal.append(RowChange(self._name, self._key(row), before, None))

    def _remove(self, group: str, key: Key) -> None:
        """Remove a row that is there, and its group if no row is left in it."""
        del self._groups[group][key]
        if not self._groups[group]:
            del self._groups[group]


class TopicTable(Table[TopicRow]):
    """Rows of `topic`, in groups by broker name, in little memory. Rows are made on request.

    Each broker name has a dictionary from its topics to their queue settings. Broker names share topic names, and equal
    settings are one object, so a row costs only a dictionary entry: about 20 bytes.
    """

    def __init__(self, journal: list[RowChange]) -> None:
        super().__init__("topic", lambda row: row[:2], lambda row: row.broker_name, journal)
        self._topics: dict[str, dict[str, QueueSettings]] = {}
        self._settings: dict[QueueSettings, QueueSettings] = {}

    def load(self, rows: Iterable[TopicRow] | TopicQueues) -> None:
        """Take rows that are already published; an empty table also takes packed queues."""
        if isinstance(rows, TopicQueues) and not self._topics:
            self._topics = rows.by_broker_name()
        else:
            super().load(rows.rows() if isinstance(rows, TopicQueues) else rows)

    def of(self, group: str) -> list[TopicRow]:
        """Return the rows of one broker name."""
        return [TopicRow(topic, group, *settings) for topic, settings in self._topics.get(group, {}).items()]

    def known(self, group: str, key: Key) -> TopicRow | None:
        """Return the row of a topic on a broker name."""
        settings = self._topics.get(group, {}).get(str(key[0]))
        return None if settings is None else TopicRow(str(key[0]), group, *settings)

    def groups(self) -> Collection[str]:
        """Return the broker names that have topics."""
        return self._topics.keys()

    def refresh(self, row: TopicRow) -> None:
        """Replace a row without a journal entry."""
        settings = QueueSettings(*row[2:])
        topics = self._topics.setdefault(row.broker_name, {})
        topics[sys.intern(row.topic)] = self._settings.setdefault(settings, settings)

    def _remove(self, group: str, key: Key) -> None:
        del self._topics[group][str(key[0])]
        if not self._topics[group]:
            del self._topics[group]


class RegistryTables:
    """All keyed tables and the journal of their changes."""

    def __init__(self) -> None:
        self.journal: list[RowChange] = []
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
        return {row.broker_id: row for row in self.broker.of(broker_name)}

    def holder(self, broker_name: str, broker_id: int) -> BrokerRow | None:
        """Return the holder of an id, None if it has none."""
        return self.broker.known(broker_name, (broker_name, broker_id))

    def view(self) -> RouteTables:
        """Return the tables as lookups see them, as if they were published now."""
        indexes = {name: route_index(name, sorted(getattr(self, name))) for name in INDEXES}
        return route_tables(TopicQueues.of(self.topic), indexes)


def end_lease(tables: RegistryTables, broker_addr: str) -> LiveRow | None:
    """End the lease of an address and return it, None if the address has none (U1-U4).

    The rows to remove follow from the lease's own cluster, name and id, whatever ended it (D4).
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
        for row in tables.topic.of(lease.broker_name):
            tables.topic.drop(row)  # U3; its mapping stays, as in RocketMQ, until the broker is back
    elif MASTER_ID not in holders and latest_registered(holders.values()).enable_acting_master:
        wipe_write_perm(tables, lease.broker_name)  # U4
    return lease


def drop_topic(tables: RegistryTables, row: TopicRow) -> None:
    """Remove a topic's row of a broker name, and its mapping there if it is a static topic (D12)."""
    tables.topic.drop(row)
    tables.topic_mapping.drop(TopicMappingRow(row.topic, row.broker_name, ""))


def follow_holders(tables: RegistryTables, broker_name: str) -> None:
    """Update `cluster`: the name is in exactly those clusters under which a holder of its ids registered (D6)."""
    wanted = {row.cluster_name for row in tables.broker.of(broker_name)}
    for row in tables.cluster.of(broker_name):
        if row.cluster_name not in wanted:
            tables.cluster.drop(row)
    for cluster_name in wanted:
        tables.cluster.put(ClusterRow(cluster_name, broker_name))


def wipe_write_perm(tables: RegistryTables, broker_name: str) -> int:
    """Clear the write bit in all rows of a broker name; return the number of its rows (A1, U4)."""
    rows = tables.topic.of(broker_name)
    for row in rows:
        tables.topic.put(row._replace(perm=row.perm & ~PERM_WRITE))
    return len(rows)


def net_of(journal: Iterable[RowChange]) -> list[RowChange]:
    """Return one change for each changed row, from before the journal to after it; none for a row changed back."""
    changes: dict[tuple[str, Key], RowChange] = {}
    for change in journal:
        first = changes.setdefault((change.table, change.key), change)
        if first is not change:
            changes[change.table, change.key] = first._replace(after=change.after)
    return [change for change in changes.values() if change.before != change.after]

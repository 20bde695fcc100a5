"""Try out what ends of leases, or a command, would leave of broker groups, by the rules and without changing anything.

The rules treat all topics of a broker group alike (U3, U4, A1), so one row of `topic` stands for them here. A trial
costs as much as the broker groups have brokers, however many topics they have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from namesrv_stream.rules.lease import deadline_ms
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.queues import QueueSettings
from namesrv_stream.rules.record_types import PERM_READ, PERM_WRITE
from namesrv_stream.rules.registry_tables import RegistryTables, end_lease, wipe_write_perm
from namesrv_stream.rules.rows import BrokerRow, TopicRow


class Trial(NamedTuple):
    """What is left of the broker groups that a trial concerns.

    `holders`: broker name -> id -> holder. `gone`: the groups without a broker, whose topics go too. `wiped`: those
    whose topics lose the write permission.
    """

    holders: Mapping[str, Mapping[int, BrokerRow]]
    gone: frozenset[str]
    wiped: frozenset[str]

    def rows(self, rows: Sequence[TopicRow]) -> list[TopicRow]:
        """Return what is left of the rows of a topic."""
        return [
            row._replace(perm=row.perm & ~PERM_WRITE) if row.broker_name in self.wiped else row
            for row in rows
            if row.broker_name not in self.gone
        ]

    def routes(self, routes: RouteTables) -> RouteTables:
        """Return the routes as they would be."""
        changes: dict[str, dict[str, QueueSettings | None]] = {}
        for rows, topics in routes.queues.alike(self.gone | self.wiped):
            left = {row.broker_name: QueueSettings(*row[2:]) for row in self.rows(rows)}
            changed = {name: left.get(name) for row in rows if (name := row.broker_name) in self.gone | self.wiped}
            changes |= dict.fromkeys(topics, changed)
        return replace(routes, queues=routes.queues.changed(changes), brokers=self.brokers(routes))

    def brokers(self, routes: RouteTables) -> Mapping[str, Mapping[int, BrokerRow]]:
        """Return the holders as they would be."""
        held = {**routes.brokers, **self.holders}
        return {name: of_name for name, of_name in held.items() if name not in self.gone}


def without_leases(routes: RouteTables, addresses: Collection[str]) -> Trial:
    """Return what is left once the leases of addresses have ended, in the order in which silence would end them."""
    leases = [routes.live[address] for address in addresses if address in routes.live]
    tables = _tables_of(routes, {lease.broker_name for lease in leases})
    for lease in leases:
        tables.live.refresh(lease)
    for lease in sorted(leases, key=lambda lease: (deadline_ms(lease), lease.broker_addr)):
        end_lease(tables, lease.broker_addr)
    return _left(tables, {lease.broker_name for lease in leases})


def without_write_permission(routes: RouteTables, broker_names: Collection[str]) -> Trial:
    """Return what is left once the write permission of broker groups is wiped (A1)."""
    tables = _tables_of(routes, broker_names)
    for name in broker_names:
        wipe_write_perm(tables, name)
    return _left(tables, broker_names)


def _tables_of(routes: RouteTables, broker_names: Iterable[str]) -> RegistryTables:
    tables = RegistryTables()
    for name in broker_names:
        tables.broker.load(routes.brokers.get(name, {}).values())
        tables.topic.refresh(TopicRow("", name, 0, 0, PERM_READ | PERM_WRITE, 0))
    return tables


def _left(tables: RegistryTables, broker_names: Iterable[str]) -> Trial:
    holders = {name: tables.holders(name) for name in broker_names}
    perms = {name: [row.perm for row in tables.topic.of(name)] for name in holders}
    return Trial(
        holders,
        frozenset(name for name, of in perms.items() if not of),
        frozenset(name for name, of in perms.items() if of and not of[0] & PERM_WRITE),
    )

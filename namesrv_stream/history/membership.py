"""Members of the clusters at a moment, from the history alone: lines of `broker_event` are replayed from nothing.

Replaying needs no time travel, so it works for moments of which no snapshot is left. Topics are not replayed: if very
many change at once, the history has only their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from namesrv_stream.rules.history import LEASE_ENDS
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import BrokerEventRow, BrokerRow, ClusterRow, FilterRow, LiveRow, LogPosition

Rows = dict[str, list[dict[str, Any]]]
"""Table -> rows as JSON objects, as in `before` and `after` of a line."""


@dataclass(frozen=True)
class Membership:
    """Members at one moment: brokers by (name, id), filter servers and leases by address.

    A lease has the data version and the last sign of life of the newest line that contains it.
    """

    brokers: dict[tuple[str, int], BrokerRow] = field(default_factory=dict)
    filters: dict[str, FilterRow] = field(default_factory=dict)
    live: dict[str, LiveRow] = field(default_factory=dict)

    @classmethod
    def after(cls, lines: Iterable[BrokerEventRow]) -> Membership:
        """Return the members after lines in order of (epoch, seq). Lines of leases that have ended may be left out."""
        members = cls()
        for line in lines:
            members._apply(line)
        return members

    @property
    def clusters(self) -> set[ClusterRow]:
        """Rows of `cluster`: a broker name is in exactly those clusters under which a holder of it registered (D6)."""
        return {ClusterRow(row.cluster_name, row.broker_name) for row in self.brokers.values()}

    def routes(self) -> RouteTables:
        """Return the members as the tables that lookups read, in order of the keys; topics and KV are empty."""
        brokers: dict[str, dict[int, BrokerRow]] = {}
        for (name, broker_id), row in sorted(self.brokers.items()):
            brokers.setdefault(name, {})[broker_id] = row
        clusters: dict[str, list[str]] = {}
        for cluster in sorted(self.clusters):
            clusters.setdefault(cluster.cluster_name, []).append(cluster.broker_name)
        filters = {address: row.filter_server_list for address, row in sorted(self.filters.items())}
        return RouteTables(brokers=brokers, clusters=clusters, filters=filters, live=dict(sorted(self.live.items())))

    def _apply(self, line: BrokerEventRow) -> None:
        """Remove the line's rows of `before`, then add its rows of `after`.

        The line in which an address loses an id precedes the line of the id's next holder.
        """
        before, after = recorded_rows(line.before), recorded_rows(line.after)
        for row in map(_broker_row, before.get("broker", ())):
            self.brokers.pop(row[:2], None)
        for row in map(_broker_row, after.get("broker", ())):
            self.brokers[row[:2]] = row
        for fields in before.get("filter", ()):
            self.filters.pop(fields["broker_addr"], None)
        for fields in after.get("filter", ()):
            self.filters[fields["broker_addr"]] = FilterRow(fields["broker_addr"], tuple(fields["filter_server_list"]))
        if line.type in LEASE_ENDS and line.lease_millis is not None:
            self._end(line)
        for fields in after.get("live", ()):
            self.live[fields["broker_addr"]] = _live_row(fields)

    def _end(self, line: BrokerEventRow) -> None:
        """Remove the lease of the line's address, and its id if the address still holds it.

        The line of a late end has no row of the id if another address took the id in the meantime.
        """
        self.live.pop(line.broker_addr or "", None)
        key = (line.broker_name or "", line.broker_id or 0)
        held = self.brokers.get(key)
        if held is not None and held.broker_addr == line.broker_addr:
            self.brokers.pop(key)


def recorded_rows(side: str | None) -> Rows:
    """Return the rows in `before` or `after` of a line, without tables that have only a count and a command's text."""
    decoded = msgspec.json.decode(side) if side else {}
    return {table: rows for table, rows in decoded.items() if isinstance(rows, list)}


def recorded_counts(side: str | None) -> dict[str, int]:
    """Return table -> number of rows, for each table of which `before` or `after` has only that number."""
    decoded = msgspec.json.decode(side) if side else {}
    return {table: rows["count"] for table, rows in decoded.items() if isinstance(rows, dict) and "count" in rows}


def _broker_row(fields: dict[str, Any]) -> BrokerRow:
    return BrokerRow(**{**fields, "registered_at": LogPosition(**fields["registered_at"])})


def _live_row(fields: dict[str, Any]) -> LiveRow:
    return LiveRow(**{**fields, "data_version": DataVersion(**fields["data_version"])})

"""The tables and the history that must result: the log's records through the rules, one after the other (E1).

It shares the rules with the job and nothing else: no micro-batch, no state, no table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import MalformedRecordError
from namesrv_stream.kafka.record_reader import LOG_PARTITION, StoredRecord
from namesrv_stream.records import decode_readable, decode_record
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import BrokerEventRow, LiveRow, LogPosition

Contents = Mapping[str, Any]


class Oracle:
    """One registry that handles a log one record at a time, without an end."""

    def __init__(self, settings: NamesrvSettings) -> None:
        self.registry = RouteRegistry(settings)
        self.rejected: list[int] = []
        """Offsets of the records outside the contract."""

    def apply(self, record: StoredRecord) -> None:
        """Take the next record of the log."""
        at = LogPosition(record.append_time_ms, LOG_PARTITION, record.offset)
        try:
            self.registry.apply(decode_record(record.value, record.key), at)
        except MalformedRecordError:
            self.rejected.append(record.offset)
            with suppress(MalformedRecordError):
                request, is_lease_only = decode_readable(record.value, record.key)
                self.registry.apply(request, at, lease_only=is_lease_only)

    def take_history(self) -> list[BrokerEventRow]:
        """Return the lines of history since the last call."""
        return [without_place(line) for line in self.registry.take_changes().events]

    def contents(self) -> Contents:
        """All tables as they are now, to compare with `contents` of what was published."""
        return contents(self.registry.view())


def states(log: Iterable[StoredRecord], settings: NamesrvSettings) -> Iterator[tuple[int, Oracle]]:
    """Yield before the first record and after each: the next offset, and the one oracle as it is then."""
    oracle = Oracle(settings)
    yield 0, oracle
    for record in log:
        oracle.apply(record)
        yield record.offset + 1, oracle


def contents(tables: RouteTables) -> Contents:
    """The rows of all tables that lookups read, in a form in which equal tables are equal."""
    return {
        "topic": {topic: sorted(rows) for topic, rows in tables.queues.items()},
        "broker": {name: dict(holders) for name, holders in tables.brokers.items()},
        "cluster": {cluster: sorted(names) for cluster, names in tables.clusters.items()},
        "filter": dict(tables.filters),
        "live": dict(tables.live),
        "kv_config": {namespace: dict(entries) for namespace, entries in tables.kv.items()},
        "topic_mapping": {topic: dict(names) for topic, names in tables.mappings.items()},
        "namesrv_config": dict(tables.namesrv_config),
    }


def without_life(lease: LiveRow) -> LiveRow:
    """Return a lease as `row_change` has it: without signs of life and tokens."""
    return lease._replace(last_update_timestamp=0, clock_millis=None, channels={}, tokens=())


def without_place(line: BrokerEventRow) -> BrokerEventRow:
    """Return a line of history without the epoch in which it was published, which the log does not decide."""
    return line._replace(epoch=0, seq=0, changes=())

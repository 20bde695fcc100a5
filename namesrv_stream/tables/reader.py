"""Reads a snapshot without Spark and without a JVM, and follows new ones.

A view is one whole snapshot and never changes: whoever looks up twice in the same view gets the same answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.rows import SnapshotRow, TopicRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import ROUTE_TABLES, TABLES, TOPIC, TableSpec
from namesrv_stream.tables.snapshots import Snapshots


class TopicQueues(Mapping[str, Sequence[TopicRow]]):
    """topic -> its rows in order of broker name, out of one sorted Arrow table; rows are made when asked for."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table.sort_by([(name, "ascending") for name in TOPIC.key]).combine_chunks()
        runs = pc.run_end_encode(self._table.column("topic").combine_chunks())
        ends = runs.run_ends.to_pylist()
        self._slices = dict(zip(runs.values.to_pylist(), zip([0, *ends], ends, strict=False), strict=True))

    def __getitem__(self, topic: str) -> Sequence[TopicRow]:
        start, end = self._slices[topic]
        return rows_from_arrow(TOPIC, self._table.slice(start, end - start))

    def __iter__(self) -> Iterator[str]:
        return iter(self._slices)

    def __len__(self) -> int:
        return len(self._slices)


@dataclass(frozen=True)
class LoadedTable:
    """One table at one version: its rows in Arrow and, once asked for, what lookups read."""

    spec: TableSpec
    version: int
    arrow: pa.Table

    @cached_property
    def index(self) -> Mapping[Any, Any]:
        """The table as `RouteTables` has it, in order of its key."""
        if self.spec is TOPIC:
            return TopicQueues(self.arrow)
        in_order = self.arrow.sort_by([(name, "ascending") for name in self.spec.key])
        return _INDEXES[self.spec.name](rows_from_arrow(self.spec, in_order))


@dataclass(frozen=True)
class RegistryView:
    """One snapshot: the row that names it, and its tables."""

    snapshot: SnapshotRow
    tables: Mapping[str, LoadedTable]

    @cached_property
    def routes(self) -> RouteTables:
        """What the lookup rules answer from."""
        indexes = {name: table.index for name, table in self.tables.items()}
        return RouteTables(
            queues=indexes["topic"],
            brokers=indexes["broker"],
            clusters=indexes["cluster"],
            filters=indexes["filter"],
            live=indexes["live"],
            kv=indexes["kv_config"],
            mappings=indexes["topic_mapping"],
            namesrv_config=indexes["namesrv_config"],
        )

    def rows(self, name: str) -> list[Any]:
        """The rows of one route table as its row class, in no particular order."""
        return rows_from_arrow(TABLES[name], self.tables[name].arrow)


class RouteReader:
    """Reads the snapshots of one registry. Not for several threads at a time; the views it gives are."""

    def __init__(self, root: str | Root, storage_options: Mapping[str, str] | None = None) -> None:
        self._root = root if isinstance(root, Root) else Root(root, storage_options)
        self._latest: RegistryView | None = None
        self.snapshots = Snapshots(self._root)

    def open(self, epoch: int | None = None, at_ms: int | None = None) -> RegistryView:
        """The newest snapshot, that of `epoch`, or the one in force at the event time `at_ms`."""
        return self._view(self.snapshots.find(epoch, at_ms))

    def follow(self) -> RegistryView:
        """The newest snapshot now. Only tables whose version has changed are read again; a whole view is swapped in.

        The view before is returned itself where nothing new is published.
        """
        changed = self.snapshots.refresh() or self._latest is None
        if self._latest is not None and not changed:
            return self._latest
        newest = self.snapshots.newest()
        if self._latest is None or self._latest.snapshot != newest:
            self._latest = self._view(newest)
        return self._latest

    def table(self, spec: TableSpec, snapshot: SnapshotRow) -> pa.Table:
        """All rows of one table as of a snapshot."""
        try:
            return select(self._root.open(spec, snapshot.versions[spec.name]), spec)
        except (FileNotFoundError, DeltaError) as error:
            oldest = self.snapshots.oldest_readable().epoch
            if snapshot.epoch >= oldest:
                raise
            raise SnapshotGoneError(f"epoch {snapshot.epoch}", oldest) from error

    def _view(self, snapshot: SnapshotRow) -> RegistryView:
        with ThreadPoolExecutor() as pool:
            loaded = pool.map(lambda spec: self._loaded(spec, snapshot), ROUTE_TABLES)
        return RegistryView(snapshot, {table.spec.name: table for table in loaded})

    def _loaded(self, spec: TableSpec, snapshot: SnapshotRow) -> LoadedTable:
        version = snapshot.versions[spec.name]
        if self._latest is not None and self._latest.tables[spec.name].version == version:
            return self._latest.tables[spec.name]
        return LoadedTable(spec, version, self.table(spec, snapshot))


def _by_first(rows: list[Any]) -> Mapping[Any, Any]:
    return {row[0]: row for row in rows}


def _second_by_first(rows: list[Any]) -> Mapping[Any, Any]:
    return dict(rows)


def _nested(rows: list[Any], value: Callable[[Any], Any]) -> Mapping[Any, Any]:
    """First key column -> second key column -> value."""
    index: dict[Any, dict[Any, Any]] = defaultdict(dict)
    for row in rows:
        index[row[0]][row[1]] = value(row)
    return dict(index)


def _seconds_by_first(rows: list[Any]) -> Mapping[Any, Any]:
    index: dict[Any, list[Any]] = defaultdict(list)
    for first, second in rows:
        index[first].append(second)
    return dict(index)


def _kv(rows: list[Any]) -> Mapping[Any, Any]:
    """Namespace -> key -> value; the row that says that a namespace was made is no entry (K3, K4)."""
    index: dict[str, dict[str, str]] = {row.namespace: {} for row in rows}
    for row in rows:
        if row.value is not None:
            index[row.namespace][row.key] = row.value
    return index


_INDEXES: Mapping[str, Callable[[list[Any]], Mapping[Any, Any]]] = {
    "broker": lambda rows: _nested(rows, lambda row: row),
    "cluster": _seconds_by_first,
    "filter": _second_by_first,
    "live": _by_first,
    "kv_config": _kv,
    "namesrv_config": _second_by_first,
    "topic_mapping": lambda rows: _nested(rows, lambda row: row.mapping),
}

"""Read snapshots without Spark and a JVM, and follow new ones.

A view is one whole snapshot and never changes: two lookups in the same view get the same answer.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from namesrv_stream.errors import NamesrvError, StorageError
from namesrv_stream.reporting.logs import Kinds
from namesrv_stream.rules.lookup import RouteTables, route_index, route_tables
from namesrv_stream.rules.queues import QueueSettings, TopicQueues
from namesrv_stream.rules.rows import RejectedRow, SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.as_of import AsOf, Past, as_of, rows_until
from namesrv_stream.tables.damage import all_rows
from namesrv_stream.tables.root import OpenTables, Root, query, quoted, select
from namesrv_stream.tables.schemas import REJECTED, ROUTE_TABLES, ROW_CHANGE, TOPIC, TableSpec
from namesrv_stream.tables.snapshots import Snapshots, reporting_gone_snapshots
from namesrv_stream.tables.topic_queues import changed_queues, last_changes, load_queues

log = logging.getLogger(__name__)

_NO_VERSION = -1

_SMALL_TABLES = tuple(spec for spec in ROUTE_TABLES if spec is not TOPIC)

LOOK_EVERY_S = 0.25
_STOP_LIMIT_S = 10.0


@dataclass(frozen=True)
class LoadedTable:
    """One small table at one version: its rows in Arrow and, built at the first use, the index that lookups read."""

    spec: TableSpec
    version: int
    arrow: pa.Table

    @cached_property
    def index(self) -> Mapping[Any, Any]:
        """The table's rows indexed as a field of `RouteTables`, in order of key."""
        in_order = self.arrow.sort_by([(name, "ascending") for name in self.spec.key])
        return route_index(self.spec.name, rows_from_arrow(self.spec, in_order))

    def rows(self) -> list[Any]:
        """Return the rows as `spec.row`, in no particular order."""
        return rows_from_arrow(self.spec, self.arrow)


@dataclass(frozen=True)
class LoadedTopics:
    """The table `topic` at one version, in the packed form that lookups read.

    `snapshot`: the first snapshot that was read with this version.
    """

    version: int
    index: TopicQueues
    snapshot: SnapshotRow

    def rows(self) -> list[Any]:
        """Return the rows in order of their key."""
        return list(self.index.rows())


@dataclass(frozen=True)
class RegistryView:
    """One snapshot: the row that names it, and its tables.

    `as_of`: the moment, if it is past (tables/as_of.py). `changed_topics`: the topics that changed since the view
    that was this one's base; None if any topic may have changed. `registry` is the identity of the registry.
    """

    snapshot: SnapshotRow
    tables: Mapping[str, LoadedTable | LoadedTopics]
    changed_topics: frozenset[str] | None = None
    registry: str = ""
    as_of: AsOf | None = None

    @cached_property
    def routes(self) -> RouteTables:
        """The tables as the lookup rules read them."""
        indexes: dict[str, Any] = {name: table.index for name, table in self.tables.items()}
        return route_tables(indexes.pop(TOPIC.name), indexes)

    def rows(self, name: str) -> list[Any]:
        """Return the rows of one route table as its row class, in no particular order."""
        return self.tables[name].rows()


def view_as_of(past: Past, view: RegistryView, topic: str | None = None) -> RegistryView:
    """Return the view of a moment from that of the newest snapshot. `topic`: as in RouteReader."""
    if not past.is_made:
        return view
    topics = "true" if topic is None else f"topic = {quoted(topic)}"
    tables = {name: _as_of(past, table, topics) for name, table in view.tables.items()}
    return replace(view, snapshot=past.snapshot, tables=tables, changed_topics=None, as_of=past.moment)


def _as_of(past: Past, table: LoadedTable | LoadedTopics, topics: str) -> LoadedTable | LoadedTopics:
    """Return a table of a moment from that of the newest snapshot. A table that differs has no version."""
    if isinstance(table, LoadedTable):
        rows = past.applied_to(table.spec, table.arrow)
        return table if rows is table.arrow else LoadedTable(table.spec, _NO_VERSION, rows)
    changed = past.changed(TOPIC, topics)
    if not changed and not past.is_before_holes:
        return table
    index = TopicQueues() if past.is_before_holes else table.index
    by_topic: dict[str, dict[str, QueueSettings | None]] = {}
    for (topic, broker_name), row in changed.items():
        by_topic.setdefault(topic, {})[broker_name] = None if row is None else QueueSettings(*row[2:])
    return LoadedTopics(_NO_VERSION, index.changed(by_topic), past.snapshot)


class RouteReader:
    """Reader of the snapshots of one registry. Use a reader from one thread at a time; share its views freely.

    `topic`: its views need have the rows of this topic alone, which saves the time for a million others.
    """

    def __init__(
        self, root: str | Root, storage_options: Mapping[str, str] | None = None, topic: str | None = None
    ) -> None:
        self._root = Root.at(root, storage_options)
        self._topic = topic
        self.snapshots = Snapshots(self._root)
        self._begin()

    def _begin(self) -> None:
        self._tables = OpenTables(self._root)
        self._latest: RegistryView | None = None

    def refresh(self) -> bool:
        """Look for newer snapshots, and return whether there are any.

        A registry that was made anew in the same folder is read from scratch, because its tables are other ones.
        """
        former = self.snapshots.table_id
        has_changed = self.snapshots.refresh()
        if self.snapshots.table_id != former:
            self._begin()
        return has_changed

    def open(self, epoch: int | None = None, at_ms: int | None = None) -> RegistryView:
        """Return the tables as they are, as of `epoch`, or as of the event time `at_ms`.

        A time that has not come is now. Raises NoSuchSnapshotError for a time before the first record, and for an epoch
        that there is not.
        """
        return self.past_view(self.past(AsOf(epoch, at_ms)), self._latest)

    def past(self, moment: AsOf) -> Past:
        """Return the registry as of a moment, without its tables."""
        return as_of(self._root, self.snapshots, moment)

    def past_view(self, past: Past, base: RegistryView | None) -> RegistryView:
        """Return the tables of a moment. Tables at a version that another view, `base`, has are not read again."""
        return view_as_of(past, self.view(past.base, base), self._topic)

    def view(self, snapshot: SnapshotRow, base: RegistryView | None) -> RegistryView:
        """Return the view of a snapshot. Tables that another view, `base`, has at the same version are not read again.

        Raises SnapshotGoneError if the snapshot is not kept any more.
        """
        known = base.tables if base is not None else {}
        if (
            base is not None and base.snapshot.repaired_at != snapshot.repaired_at
        ):  # version numbers may have come again
            known, self._tables = {}, OpenTables(self._root)
        tables = {name: table for name, table in known.items() if table.version == snapshot.versions[name]}
        others = [spec for spec in _SMALL_TABLES if spec.name not in tables]
        with ThreadPoolExecutor() as pool:
            loading = pool.map(lambda spec: self._loaded(spec, snapshot), others)
            topics, changed_topics = self._topics(snapshot, known.get(TOPIC.name))
        tables |= {table.spec.name: table for table in loading}
        return RegistryView(snapshot, tables | {TOPIC.name: topics}, changed_topics, self.snapshots.registry)

    def follow(self) -> RegistryView:
        """Return a view of the newest snapshot, or the former view itself if no new snapshot is published.

        Reads only tables whose version has changed; of the table `topic` only the changed rows if that is possible.
        """
        changed = self.refresh() or self._latest is None
        if self._latest is not None and not changed:
            return self._latest
        newest = self.snapshots.newest()
        if self._latest is None or self._latest.snapshot != newest:
            self._latest = self.view(newest, self._latest)
        return self._latest

    def table(self, spec: TableSpec, snapshot: SnapshotRow) -> pa.Table:
        """Return all rows of one table as of a snapshot. Raises SnapshotGoneError if it is not kept any more."""
        with reporting_gone_snapshots(self._root, spec, snapshot):
            return select(self._tables.at(spec, snapshot.versions[spec.name]), spec, rows_until(spec, snapshot))

    def _loaded(self, spec: TableSpec, snapshot: SnapshotRow) -> LoadedTable:
        version = snapshot.versions[spec.name]
        with reporting_gone_snapshots(self._root, spec, snapshot):
            return LoadedTable(spec, version, all_rows(self._root, spec, self._tables.at(spec, version)))

    def _topics(
        self, snapshot: SnapshotRow, known: LoadedTable | LoadedTopics | None
    ) -> tuple[LoadedTopics, frozenset[str] | None]:
        """Return the table `topic` and the topics that have changed since `known`, None if that is unknown."""
        version = snapshot.versions[TOPIC.name]
        if isinstance(known, LoadedTopics):
            if known.version == version:
                return known, frozenset()
            if (changes := self._changes(known.snapshot, snapshot)) is not None:
                queues, changed_topics = changed_queues(known.index, changes)
                return LoadedTopics(version, queues, snapshot), changed_topics
        with reporting_gone_snapshots(self._root, TOPIC, snapshot):
            table = self._tables.at(TOPIC, version)
            wanted = "true" if self._topic is None else f"topic = {quoted(self._topic)}"
            return LoadedTopics(version, load_queues(table, wanted), snapshot), None

    def _changes(self, known: SnapshotRow, snapshot: SnapshotRow) -> pa.Table | None:
        """Return the topics' rows that changed from one snapshot to a later one of its term, None if that is unknown.

        A repair claims a term, and may find a table without rows that no line has taken away.
        """
        if self._topic is not None or known.term != snapshot.term or known.epoch >= snapshot.epoch:
            return None
        with reporting_gone_snapshots(self._root, ROW_CHANGE, snapshot):
            table = self._tables.at(ROW_CHANGE, snapshot.versions[ROW_CHANGE.name])
            return last_changes(table, known.epoch, snapshot.epoch)


def rejected_count(root: Root, snapshot: SnapshotRow) -> int:
    """Return the number of rejected records that a snapshot has."""
    table = root.open(REJECTED, snapshot.versions[REJECTED.name])
    count: int = query(table, f"SELECT count(*) FROM rows WHERE {rows_until(REJECTED, snapshot)}")[0][0].as_py()
    return count


def newest_rejected(root: Root, snapshot: SnapshotRow, limit: int) -> list[RejectedRow]:
    """Return the newest `limit` rejected records that a snapshot has, newest first."""
    table = root.open(REJECTED, snapshot.versions[REJECTED.name])
    order = f'ORDER BY event_time DESC, "offset" DESC LIMIT {limit}'
    rows: list[RejectedRow] = rows_from_arrow(REJECTED, select(table, REJECTED, rows_until(REJECTED, snapshot), order))
    return rows


class SnapshotThread(ABC):
    """Calls `look` every `pause_s` from `start` to `stop`, in a thread of its own; after a problem every LOOK_EVERY_S.

    `problem`: why no newer snapshot can be read; None if there is no such reason. It is logged at most once a minute.
    `on_problem` gets each error. `has_new_reader`: the look's reader is another one than that of the look before.
    """

    def __init__(
        self,
        root: Root,
        name: str,
        pause_s: float = LOOK_EVERY_S,
        on_problem: Callable[[Exception], None] = lambda _problem: None,
    ) -> None:
        self.problem: str | None = None
        self.has_new_reader = True
        self._on_problem = on_problem
        self._root = root
        self._pause_s = pause_s
        self._reader: RouteReader | None = None
        self._kinds = Kinds()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def look(self, reader: RouteReader) -> None:
        """Look for new snapshots."""

    def start(self) -> None:
        """Start the thread. It can be started once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Return after 10 s even if it still runs: the storage may not answer."""
        self._stop.set()
        self._thread.join(_STOP_LIMIT_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.has_new_reader = self._reader is None
            try:
                self._reader = self._reader or RouteReader(self._root)
                self.look(self._reader)
                self.problem = None
            except Exception as error:
                self._note(error)
            self._stop.wait(self._pause_s if self.problem is None else LOOK_EVERY_S)

    def _note(self, error: Exception) -> None:
        self._reader = None  # the folder may have been made anew, so open it anew
        if isinstance(error, DeltaError | OSError):
            error = StorageError(self._root.url, str(error))
        if self._kinds.is_due(error):
            log.warning("no newer snapshot: %s", error, exc_info=not isinstance(error, NamesrvError))
        self.problem = str(error)
        self._on_problem(error)

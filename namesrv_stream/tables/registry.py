"""Open a registry to look at it, without Spark and a JVM: `Registry(root).newest()`, `.at(epoch=12)`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from deltalake.exceptions import DeltaError

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError, SnapshotGoneError, StorageError
from namesrv_stream.reporting.recent import Recent
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.as_of import AsOf, event_time_ms, row_of
from namesrv_stream.tables.damage import all_rows
from namesrv_stream.tables.loaded import KeptTables, LoadedTable, LoadedTopics
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.root import OpenTables, Root
from namesrv_stream.tables.schemas import ROW_CHANGE, TOPIC, TableSpec
from namesrv_stream.tables.snapshots import SnapshotTable, reporting_gone_snapshots
from namesrv_stream.tables.topic_queues import changed_queues, last_changes, load_queues

T = TypeVar("T")


class Registry:
    """A registry that is open for reading. Threads may share it; one of them reads at a time.

    Raises NamesrvError, from the first question on, if the tables cannot be read or are none of a registry.
    """

    def __init__(
        self,
        root: str | Path | Root,
        storage_options: Mapping[str, str] | None = None,
        settings: NamesrvSettings | None = None,
        kept_rows: int = 0,
    ) -> None:
        """Name a registry. `settings`: those of this process, which UPDATE_NAMESRV_CONFIG may have changed.

        `kept_rows`: most rows of tables that stay in memory besides the newest of each.
        """
        self.root = Root.at(root, storage_options)
        self._settings = settings
        self.kept: dict[str, Recent[Any]] = {}
        """What was made of moments, by its name (`RegistryAt.once`)."""
        self._kept_rows = kept_rows
        self._lock = threading.RLock()
        self._loading = threading.RLock()  # apart, so that who follows the snapshots waits for no question about tables
        self._snapshots: SnapshotTable | None = None
        self._begin("")

    def _begin(self, table_id: str) -> None:
        """Forget all tables: those of a registry that was made anew in the same folder are other ones."""
        self._table_id = table_id
        self._open: dict[int | None, OpenTables] = {}
        self._tables = KeptTables(self._kept_rows)
        self._newest: RegistryAt | None = None
        self._is_newest_known = False

    @property
    def identity(self) -> str:
        """The registry's identity, which an import into the same folder changes. Empty before the first question."""
        return self._table_id[:8]

    @property
    def settings(self) -> NamesrvSettings:
        """The settings of this process."""
        self._settings = self._settings or NamesrvSettings()
        return self._settings

    def newest(self) -> RegistryAt:
        """Return the newest snapshot: the same object as before if no newer one is published."""
        with self._reading() as snapshots:
            if self._newest is None or not self._is_newest_known:
                self._newest = self.published(snapshots.newest())
                self._is_newest_known = True
            return self._newest

    def follow(self) -> RegistryAt:
        """Return the newest snapshot with all its routes loaded; only what has changed is read."""
        at = self.newest()
        _ = at.routes
        return at

    def at(self, epoch: int | None = None, at_ms: int | None = None) -> RegistryAt:
        """Return the registry as it is, as of `epoch`, or as of the event time `at_ms`.

        A time that has not come is now. Raises NoSuchSnapshotError for a time before the first record, and for an epoch
        that there is not, and PastUnknownError for a moment that lost rows of the history leave unknown. Both `epoch`
        and `at_ms` are refused.
        """
        if epoch is not None and at_ms is not None:
            raise NamesrvError("`epoch` and `at` exclude each other. Give one of them.")
        moment = AsOf(epoch, at_ms)
        with self._reading() as snapshots:
            row, newest = row_of(snapshots, moment)
            return self.published(row) if row is newest and at_ms is None else RegistryAt(self, row, newest, moment)

    def published(self, row: SnapshotRow) -> RegistryAt:
        """Return a snapshot by its row, exactly as it was published. Its tables can be read for `snapshot.exact`."""
        with self._lock:
            if self._newest is not None and self._newest.snapshot == row:
                return self._newest
            return RegistryAt(self, row, row, AsOf(row.epoch))

    def read(self, function: Callable[[SnapshotTable], T]) -> T:
        """Return what a function returns of the snapshot rows as they are now."""
        with self._reading() as snapshots:
            return function(snapshots)

    @contextmanager
    def _reading(self) -> Iterator[SnapshotTable]:
        """Yield the snapshot rows as they are now. After an error the next call opens their table again."""
        with self._lock, self.naming_storage():
            snapshots, self._snapshots = self._snapshots, None  # the folder may have got another registry
            if snapshots is None or snapshots.refresh():
                self._is_newest_known = False
            snapshots = snapshots or SnapshotTable(self.root)
            if snapshots.table_id != self._table_id:
                self._begin(snapshots.table_id)
            self._snapshots = snapshots
            yield snapshots

    @contextmanager
    def naming_storage(self) -> Iterator[None]:
        """Raise a StorageError for an error of the storage itself; the next question opens the registry anew."""
        try:
            yield
        except (DeltaError, OSError) as error:
            self._snapshots = None
            raise StorageError(self.root.url, str(error)) from error

    def parts(self, at: RegistryAt, specs: Sequence[TableSpec]) -> dict[str, LoadedTable | LoadedTopics]:
        """Return route tables of a moment by name. A version that is kept is not read again.

        Raises SnapshotGoneError if the snapshot is not kept any more.
        """
        row = at.newest
        with self._lock:
            self.require_same(at)
            tables, opened = self._tables, self._opened(row)
        with self._loading, self.naming_storage():
            stored = self._stored(specs, row, tables, opened)
        if not at.is_historical:
            return stored
        found = {}
        for name, part in stored.items():
            key = (name, row.versions[name], row.repaired_at, at.as_of)
            with self._loading:
                kept = tables.get(key)
            made = at.made_from(part) if kept is None else kept
            if kept is None and made is not part:
                with self._loading:
                    tables.keep(key, made)
            found[name] = made
        return found

    def require_same(self, at: RegistryAt) -> None:
        """Raise SnapshotGoneError for a moment of a registry that is no longer in the folder."""
        if at.identity not in ("", self.identity):
            raise SnapshotGoneError(f"epoch {at.newest.epoch}", self.newest().snapshot.epoch)

    def _stored(
        self, specs: Sequence[TableSpec], row: SnapshotRow, tables: KeptTables, opened: OpenTables
    ) -> dict[str, LoadedTable | LoadedTopics]:
        found, missing = {}, []
        for spec in specs:
            part = tables.get((spec.name, row.versions[spec.name], row.repaired_at))
            if part is None:
                missing.append(spec)
            else:
                found[spec.name] = part

        def load(spec: TableSpec) -> LoadedTable:
            with reporting_gone_snapshots(self.root, spec, row):
                table = opened.at(spec, row.versions[spec.name])
                return LoadedTable(spec, all_rows(self.root, spec, table))

        if missing == [TOPIC]:
            found[TOPIC.name] = self._load_topics(row, tables.topics_before(row), opened)
        elif missing:
            with ThreadPoolExecutor() as pool:
                found |= {part.spec.name: part for part in pool.map(load, missing)}
        for spec in missing:
            tables.keep((spec.name, row.versions[spec.name], row.repaired_at), found[spec.name])
        return found

    def _load_topics(self, row: SnapshotRow, former: LoadedTopics | None, opened: OpenTables) -> LoadedTopics:
        """Return the topics, if possible made from those of a former snapshot and what has changed since."""
        if former is not None:
            with reporting_gone_snapshots(self.root, ROW_CHANGE, row):
                table = opened.at(ROW_CHANGE, row.versions[ROW_CHANGE.name])
                changes = last_changes(table, former.snapshot.epoch, row.epoch)
            if changes is not None:
                queues, topics = changed_queues(former.index, changes)
                return LoadedTopics(queues, row, topics, former.snapshot)
        with reporting_gone_snapshots(self.root, TOPIC, row):
            return LoadedTopics(load_queues(opened.at(TOPIC, row.versions[TOPIC.name])), row)

    def _opened(self, row: SnapshotRow) -> OpenTables:
        """Return the tables that are open. After a repair version numbers may come again, for other rows."""
        if row.repaired_at not in self._open:
            self._open[row.repaired_at] = OpenTables(self.root)
        return self._open[row.repaired_at]


def open_tables(
    root: str | Path | Root,
    epoch: int | None = None,
    at: datetime | int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> RegistryAt:
    """Return the tables as they are, as of `epoch`, or as of the event time `at`, by name, in Arrow.

    `at` is a datetime or epoch milliseconds. `storage_options` are the settings `delta.storage.*` for a root that is
    given by its URL. A time that has not come is now. Raises NoSuchSnapshotError for a time before the first record,
    and for an epoch that there is not. A table's first use raises SnapshotGoneError if maintenance has removed it.
    """
    return Registry(root, storage_options).at(epoch, event_time_ms(at))

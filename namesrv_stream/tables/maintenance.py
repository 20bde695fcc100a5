"""Care for the tables, with the job running beside it or not: small files together, old rows and old files out.

The job does this in a thread of its own (stream/table_care.py), and so does the program maintain_tables. Publication
takes a commit that only rearranges rows as the base of its next write, and whoever is second gives way: here a table
that changes at that moment is left for the next time. So neither breaks the other. Removing files takes no commit.

maintain_tables lets Spark put the months of history in order; delta-rs does the rest, in milliseconds a table. On an
object store delta-rs does all: Spark's commits could overwrite the job's there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from delta.exceptions import DeltaConcurrentModificationException
from deltalake import CommitProperties, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql import SparkSession

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.config.storage import is_object_store
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.rules.thinning import Kept, kept_snapshots
from namesrv_stream.tables.arrow import rows_to_arrow
from namesrv_stream.tables.object_store import writer_of
from namesrv_stream.tables.root import DAY_MS, Root, is_there, kept_for_ms
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    EVENT_FILE_BYTES,
    EVENT_MONTH,
    PAST_SESSION,
    PAST_SNAPSHOT,
    PINNED_TABLES,
    REJECTED,
    SMALL_EVENT_FILE_BYTES,
    SNAPSHOT,
    TABLES,
    TABLES_OF_MAINTENANCE,
    TableSpec,
)
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.tables.thinning import WORTH_IT, Thinning
from namesrv_stream.tables.writer import RETENTION_METADATA, BaseMovedError, CommitTag

DEFAULT_EVERY_MS = 600_000
DEFAULT_REJECTED_RETENTION_MS = 90 * DAY_MS

FILES_BORNE = 4
"""Small files that a table, or a month of history, may have before they are put together."""

_ORDER = ("type", "broker_name")
_PAGE_ROWS = 2000
_CLUSTERING = {
    "spark.databricks.delta.optimize.maxFileSize": str(EVENT_FILE_BYTES),
    # Sorted within its files and in small pages, a month lets a reader pass over all but the pages asked for.
    "spark.databricks.io.skipping.mdc.sortWithinFiles": "true",
    "parquet.page.row.count.limit": str(_PAGE_ROWS),
    # Z-order interleaves the bits of each column's rank among so many. There are some 16 types: with more ranks their
    # bits would be the low ones, and each type be all over the month.
    "spark.databricks.io.skipping.mdc.rangeId.max": "16",
}
_COMMIT_ONCE = CommitProperties(max_commit_retries=0)
_ATTEMPTS = 5
_VERSIONS_BEHIND = 100
"""Number of versions of a table of which only the newest is read that stay for readers and writers that are behind."""

_ORPHAN_MS = 7 * DAY_MS
_JOB_WROTE_IT = "the job was writing it"
_AT_REST = "a snapshot that can be read needs a version that Delta would let go: has the job been stopped for long?"
_FOREIGN_COMMITS = (BaseMovedError, CommitFailedError, DeltaConcurrentModificationException)


class Care(NamedTuple):
    """Result of maintaining one table. `put_off`: why it was left for the next run, empty if it was not."""

    table: str
    files_before: int
    files_after: int
    put_off: str


@dataclass(frozen=True)
class Keeping:
    """Times for which maintenance keeps things: the settings snapshot.every and rejected.retention."""

    every_ms: int = DEFAULT_EVERY_MS
    rejected_ms: int = DEFAULT_REJECTED_RETENTION_MS

    @classmethod
    def of(cls, settings: NamesrvSettings) -> Keeping:
        """Return what the settings say."""
        every, rejected = settings.snapshot_every, settings.rejected_retention
        return cls(round(every.total_seconds() * 1000), round(rejected.total_seconds() * 1000))


def maintain(  # noqa: PLR0913  # two of the arguments are for callers that look on
    spark: SparkSession | None,
    root: Root,
    *,
    vacuum: bool = True,
    keeping: Keeping = Keeping(),
    on_table: Callable[[str], None] = lambda _name: None,
    now_ms: int | None = None,
) -> list[Care]:
    """Compacts every table, drops rows past retention, and removes files that no readable snapshot needs.

    The rows are those of `snapshot`, of which `past_snapshot` keeps the epoch and its run, and of `rejected`. History
    is never shortened. `vacuum` also removes the files that a writer has left behind when it died. Without Spark the
    months of history are compacted and not sorted. A table may be left alone for the next time. `on_table` is called
    with the name of each table before its turn, and may end the maintenance by an error. `now_ms` is for simulations.
    """
    thinning = Thinning(root)
    versions = drop_snapshots(root, keeping, now_ms)
    session = None if spark is None else _clustering_session(spark)
    caretaker = _Caretaker(session, root, keeping.rejected_ms, Snapshots(root))
    care = []
    for spec in (*TABLES.values(), *TABLES_OF_MAINTENANCE):
        if spec not in TABLES_OF_MAINTENANCE or is_there(root, spec):
            on_table(spec.name)
            before = caretaker.file_count(spec)
            put_off = caretaker.care_for(spec)
            remove_files(thinning, spec, versions)
            if vacuum and not put_off:
                remove_orphans(root, spec, versions, keeping)
            care.append(Care(spec.name, before, caretaker.file_count(spec), put_off))
    return care


class KeptVersions(NamedTuple):
    """The versions of one table that readable snapshots name: each from `every_from` on, and `single` older ones."""

    every_from: int
    single: frozenset[int] = frozenset()


def drop_snapshots(root: Root, keeping: Keeping, now_ms: int | None = None) -> dict[str, KeptVersions]:
    """Drop the rows of snapshots that need not be readable, and return the versions that the others name, by table."""
    snapshots = Snapshots(root)
    for _ in range(_ATTEMPTS):
        rows = snapshots.all()
        kept = kept_snapshots(rows, now_ms or _now_ms(), keeping.every_ms, snapshots.retention_ms)
        gone = [row for row in rows if row.epoch < kept.every_from and row.epoch not in kept.single]
        with suppress(*_FOREIGN_COMMITS):
            if gone:
                _move_to_past(root, snapshots.retention_ms, gone, kept)
            break
        snapshots.refresh()
    single = [row for row in rows if row.epoch in kept.single]
    first = next(row for row in rows if row.epoch == kept.every_from)
    return {
        name: KeptVersions(version, frozenset(row.versions[name] for row in single))
        for name, version in first.versions.items()
    }


def _move_to_past(root: Root, retention_ms: int, gone: list[SnapshotRow], kept: Kept) -> None:
    """Move rows of `snapshot` to `past_snapshot`.

    A run that dies in between leaves rows in both tables; the next one adds none a second time.
    """
    writer = writer_of(root)
    writer.ensure_table(PAST_SNAPSHOT, retention_ms)
    head = writer.head(PAST_SNAPSHOT)
    remembered = writer.read(PAST_SNAPSHOT, head)["epoch"]
    rows = rows_to_arrow(SNAPSHOT, gone)
    new = rows.filter(pc.invert(pc.is_in(rows["epoch"], remembered))).select(PAST_SNAPSHOT.schema.names)
    writer.append(PAST_SNAPSHOT, head, new, CommitTag(gone[-1].epoch, gone[-1].term))
    stays = f" AND epoch NOT IN ({', '.join(map(str, sorted(kept.single)))})" if kept.single else ""
    condition = f"epoch < {kept.every_from}{stays}"
    root.open(SNAPSHOT).delete(condition, commit_properties=_COMMIT_ONCE)


def remove_files(thinning: Thinning, spec: TableSpec, versions: Mapping[str, KeptVersions], least: int = 1) -> int:
    """Remove the files of one table that only dropped snapshots need; return how many went.

    Of the tables of the snapshots themselves only the newest version is read; readers may be a little behind.
    """
    if spec is PAST_SESSION:
        return 0
    kept = versions.get(spec.name)
    if kept is None:
        kept = KeptVersions(thinning.root.open(spec).version() - _VERSIONS_BEHIND)
    if kept.every_from <= 0:
        return 0
    return thinning.thin(spec, kept.every_from, kept.single, least)


def remove_orphans(root: Root, spec: TableSpec, versions: Mapping[str, KeptVersions], keeping: Keeping) -> None:
    """Remove files that no commit names: they are of a writer that died, if they are old."""
    table, kept = root.open(spec), versions.get(spec.name)
    keep = sorted({kept.every_from, *kept.single}) if kept is not None else None
    hours = None if spec is PAST_SESSION else (_ORPHAN_MS + keeping.every_ms) // 3_600_000
    table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True, keep_versions=keep)


def thin_tables(
    thinning: Thinning, keeping: Keeping, on_table: Callable[[str], None], now_ms: int | None = None
) -> None:
    """Drop old snapshots and the files that they alone need. `on_table` and `now_ms` are those of `maintain`."""
    versions = drop_snapshots(thinning.root, keeping, now_ms)
    for spec in TABLES.values():
        on_table(spec.name)
        remove_files(thinning, spec, versions, WORTH_IT)


def _clustering_session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()  # its own settings
    for name, value in _CLUSTERING.items():
        session.conf.set(name, value)
    return session


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class _Caretaker:
    """Puts one table after the other in order: small files together, old rejected records out."""

    session: SparkSession | None
    root: Root
    rejected_retention_ms: int
    snapshots: Snapshots

    def care_for(self, spec: TableSpec) -> str:
        """Put one table in order. Return why it was put off, empty if it was not."""
        if spec in PINNED_TABLES and not self._is_kept(spec):
            return _AT_REST
        try:
            self._put_in_order(spec)
        except _FOREIGN_COMMITS:
            return _JOB_WROTE_IT
        return ""

    def _is_kept(self, spec: TableSpec) -> bool:
        """Return whether Delta keeps the version that the oldest readable snapshot names.

        It was committed no longer ago than the log is kept, so the checkpoint that a commit of ours may bring takes
        nothing of it.
        """
        try:
            named = self.root.open(spec, self.snapshots.oldest_readable().versions[spec.name])
            kept_since_ms = _now_ms() - kept_for_ms(self.snapshots.retention_ms)
            return any(commit["timestamp"] >= kept_since_ms for commit in named.history(1))
        except (DeltaError, OSError):  # it is gone
            return False

    def _put_in_order(self, spec: TableSpec) -> None:
        if spec is BROKER_EVENT:
            self._cluster_months()
            return
        if spec is REJECTED:
            self._drop_old_rejected()
        writer = writer_of(self.root)
        head = writer.head(spec)
        if writer.file_count(spec, head) > FILES_BORNE:
            writer.compact(spec, head)

    def _cluster_months(self) -> None:
        """A month that has gathered small files is written anew in order; the others are left alone.

        The lines of a type stand together, within it those of neighbouring broker names, in order of time mostly.
        """
        for month in self._months_out_of_order():
            if self.session is None:
                self.root.open(BROKER_EVENT).optimize.compact(
                    [(EVENT_MONTH, "=", month)], SMALL_EVENT_FILE_BYTES, commit_properties=_COMMIT_ONCE
                )
            elif is_object_store(self.root.url):
                self._cluster_by_delta_rs(month)
            else:
                self.session.sql(
                    f"OPTIMIZE delta.`{self.root.spark_path(BROKER_EVENT)}` WHERE {EVENT_MONTH} = '{month}' "
                    f"ZORDER BY ({', '.join(_ORDER)})"
                )

    def _cluster_by_delta_rs(self, month: str) -> None:
        """Less even than Spark's order: delta-rs interleaves the bytes of the texts rather than of their ranks."""
        self.root.open(BROKER_EVENT).optimize.z_order(
            _ORDER,
            [(EVENT_MONTH, "=", month)],
            target_size=EVENT_FILE_BYTES,
            writer_properties=WriterProperties(data_page_row_count_limit=_PAGE_ROWS),
            commit_properties=_COMMIT_ONCE,
        )

    def _months_out_of_order(self) -> list[str]:
        files = pa.table(self.root.open(BROKER_EVENT).get_add_actions(flatten=True))
        months, sizes = (files[name].to_pylist() for name in (f"partition.{EVENT_MONTH}", "size_bytes"))
        small = Counter(month for month, size in zip(months, sizes, strict=True) if size < SMALL_EVENT_FILE_BYTES)
        return sorted(month for month, count in small.items() if count > FILES_BORNE)

    def _drop_old_rejected(self) -> None:
        table = self.root.open(REJECTED)
        before = datetime.fromtimestamp((_now_ms() - self.rejected_retention_ms) / 1000, UTC)
        old = f"event_time < '{before.isoformat()}'"  # text, for delta-rs compares it with no other kind of timestamp
        table.delete(old, commit_properties=CommitProperties(max_commit_retries=0, custom_metadata=RETENTION_METADATA))

    def file_count(self, spec: TableSpec) -> int:
        """Return how many files the newest version of a table has."""
        return len(self.root.open(spec).file_uris())

"""Maintain the tables, while the job runs or not: merge small files, and remove old rows and old files.

The job does this in a thread of its own (job/table_care.py), and the program jobs/maintain_tables.py does it too.
Neither breaks a publication. Publication continues from a commit that only rearranges rows. If a publication changes a
table first, maintenance leaves that table for the next time.

In jobs/maintain_tables.py Spark sorts the months of history; delta-rs does the rest, in milliseconds a table. On an
object store delta-rs does everything, because Spark's commits could overwrite the job's there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from delta.exceptions import DeltaConcurrentModificationException
from deltalake import CommitProperties, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql import SparkSession

from namesrv_stream.config.storage import is_object_store
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.object_store import writer_of
from namesrv_stream.tables.root import DAY_MS, Root, is_there, kept_for_ms, select
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    EVENT_FILE_BYTES,
    EVENT_MONTH,
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
from namesrv_stream.tables.writer import RETENTION_METADATA, BaseMovedError, CommitTag

DEFAULT_REJECTED_RETENTION_MS = 90 * DAY_MS

FILES_BORNE = 4
"""Small files that a table, or a month of history, may have before they are merged."""

_ORDER = ("type", "broker_name")
_PAGE_ROWS = 2000
_CLUSTERING = {
    "spark.databricks.delta.optimize.maxFileSize": str(EVENT_FILE_BYTES),
    # A month is sorted within its files and has small pages, so a reader can skip all pages that it does not need.
    "spark.databricks.io.skipping.mdc.sortWithinFiles": "true",
    "parquet.page.row.count.limit": str(_PAGE_ROWS),
    # Z-order interleaves the bits of each column's rank, a number below this. There are some 16 types: with more ranks
    # the types would differ only in low bits, and each type would be spread over the whole month.
    "spark.databricks.io.skipping.mdc.rangeId.max": "16",
}
_SNAPSHOTS_KEPT_HOURS = 1
_COMMIT_ONCE = CommitProperties(max_commit_retries=0)
_JOB_WROTE_IT = "the job was writing it"
_AT_REST = "a snapshot that can be read needs a version that Delta would let go: has the job been stopped for long?"
_FOREIGN_COMMITS = (BaseMovedError, CommitFailedError, DeltaConcurrentModificationException)


class Care(NamedTuple):
    """Result of maintaining one table. `put_off`: why it was left for the next run, empty if it was not."""

    table: str
    files_before: int
    files_after: int
    put_off: str


def maintain(  # noqa: PLR0913  # two of the arguments are for callers that look on
    spark: SparkSession | None,
    root: Root,
    *,
    vacuum: bool = True,
    rejected_retention_ms: int = DEFAULT_REJECTED_RETENTION_MS,
    on_table: Callable[[str], None] = lambda _name: None,
    but: Collection[str] = (),
) -> list[Care]:
    """Compact every table, drop rows past retention, and remove files that no retained snapshot needs.

    Two tables lose rows: `snapshot`, whose epochs and runs `past_snapshot` keeps, and `rejected`, whose rows are kept
    for `rejected_retention_ms` after their event time. History is never shortened. A file is removed twice
    `snapshot.retention` after the commit that replaced it (the tables' own property), so every retained snapshot stays
    readable. The newest snapshot is retained for ever. If it is so old that Delta would drop a version that it names,
    that table is left alone.

    Without Spark the months of history are compacted and not sorted. `on_table` is called with the name of each table
    before its turn, and may end the maintenance by an error. The tables named in `but` are left out.
    """
    snapshots = Snapshots(root)
    session = None if spark is None else _clustering_session(spark)
    rejected_before_ms = time.time_ns() // 1_000_000 - rejected_retention_ms
    caretaker = _Caretaker(session, root, snapshots.oldest_readable(), snapshots.retention_ms, rejected_before_ms)
    care = []
    for spec in (*TABLES.values(), *TABLES_OF_MAINTENANCE):
        if spec.name not in but and (spec not in TABLES_OF_MAINTENANCE or is_there(root, spec)):
            on_table(spec.name)
            care.append(caretaker.care_for(spec, vacuum))
    return care


def _clustering_session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()  # its own settings
    for name, value in _CLUSTERING.items():
        session.conf.set(name, value)
    return session


@dataclass(frozen=True)
class _Caretaker:
    """Maintains one table after the other.

    `oldest` is the oldest readable snapshot; younger ones name the same versions or newer ones. Rejected records from
    before `rejected_before_ms` are deleted.
    """

    session: SparkSession | None
    root: Root
    oldest: SnapshotRow
    retention_ms: int
    rejected_before_ms: int

    def care_for(self, spec: TableSpec, vacuum: bool) -> Care:
        before = self._file_count(spec)
        if spec in PINNED_TABLES and not self._is_kept(spec):
            return Care(spec.name, before, before, _AT_REST)
        put_off = ""
        try:
            self._put_in_order(spec)
        except _FOREIGN_COMMITS:
            put_off = _JOB_WROTE_IT
        if vacuum:
            # Readers need only the newest version of these two tables, or one a little older.
            hours = _SNAPSHOTS_KEPT_HOURS if spec in (SNAPSHOT, PAST_SNAPSHOT) else None
            self.root.open(spec).vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
        return Care(spec.name, before, self._file_count(spec), put_off)

    def _is_kept(self, spec: TableSpec) -> bool:
        """Return whether Delta keeps the version that the oldest readable snapshot names.

        Delta keeps it if it is younger than the time for which the log and removed files are kept. Then neither VACUUM
        nor a checkpoint after our commit removes any of its files.
        """
        try:
            named = self.root.open(spec, self.oldest.versions[spec.name])
            kept_since_ms = time.time_ns() // 1_000_000 - kept_for_ms(self.retention_ms)
            return any(commit["timestamp"] >= kept_since_ms for commit in named.history(1))
        except (DeltaError, OSError):  # it is gone
            return False

    def _put_in_order(self, spec: TableSpec) -> None:
        if spec is BROKER_EVENT:
            self._cluster_months()
            return
        if spec is SNAPSHOT:
            self._drop_unreadable_snapshots()
        if spec is REJECTED:
            self._drop_old_rejected()
        writer = writer_of(self.root)
        head = writer.head(spec)
        if writer.file_count(spec, head) > FILES_BORNE:
            writer.compact(spec, head)

    def _cluster_months(self) -> None:
        """Rewrite each month that has gathered small files, in order; leave the other months alone.

        Lines of one type lie together, within a type those of neighbouring broker names, mostly in order of time.
        """
        for month in self._months_out_of_order():
            if self.session is None:
                self._compact_month(month)
            elif is_object_store(self.root.url):
                self._cluster_by_delta_rs(month)
            else:
                self.session.sql(
                    f"OPTIMIZE delta.`{self.root.spark_path(BROKER_EVENT)}` WHERE {EVENT_MONTH} = '{month}' "
                    f"ZORDER BY ({', '.join(_ORDER)})"
                )

    def _compact_month(self, month: str) -> None:
        self.root.open(BROKER_EVENT).optimize.compact(
            [(EVENT_MONTH, "=", month)], SMALL_EVENT_FILE_BYTES, commit_properties=_COMMIT_ONCE
        )

    def _cluster_by_delta_rs(self, month: str) -> None:
        """Sort a month by delta-rs.

        Lines lie less well together than by Spark: it interleaves bytes of texts, not of ranks.
        """
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

    def _drop_unreadable_snapshots(self) -> None:
        """Move the rows of snapshots past retention, which can no longer be opened, to `past_snapshot`.

        A run that dies in between leaves rows in both tables; the next run adds none of them again.
        """
        gone = f"epoch < {self.oldest.epoch}"
        rows = select(self.root.open(SNAPSHOT), SNAPSHOT, gone, "ORDER BY epoch")
        if len(rows):
            self._remember(rows)
            self.root.open(SNAPSHOT).delete(gone, commit_properties=_COMMIT_ONCE)

    def _remember(self, rows: pa.Table) -> None:
        writer = writer_of(self.root)
        writer.ensure_table(PAST_SNAPSHOT, self.retention_ms)
        head = writer.head(PAST_SNAPSHOT)
        remembered = pc.max(writer.read(PAST_SNAPSHOT, head)["epoch"]).as_py() or 0
        new = rows.filter(pc.field("epoch") > remembered).select(PAST_SNAPSHOT.schema.names)
        writer.append(PAST_SNAPSHOT, head, new, CommitTag(self.oldest.epoch, self.oldest.term))

    def _drop_old_rejected(self) -> None:
        table = self.root.open(REJECTED)
        before = datetime.fromtimestamp(self.rejected_before_ms / 1000, UTC)
        old = f"event_time < '{before.isoformat()}'"  # a text, because delta-rs compares only that with a timestamp
        table.delete(old, commit_properties=CommitProperties(max_commit_retries=0, custom_metadata=RETENTION_METADATA))

    def _file_count(self, spec: TableSpec) -> int:
        return len(self.root.open(spec).file_uris())

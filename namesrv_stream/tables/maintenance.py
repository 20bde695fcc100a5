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
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa
from delta.exceptions import DeltaConcurrentModificationException
from deltalake import CommitProperties, WriterProperties
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession

from namesrv_stream.config.storage import is_object_store
from namesrv_stream.tables.object_store import writer_of
from namesrv_stream.tables.root import DAY_MS, DEFAULT_EXACT_MS, KEPT_FOLDER, Root, is_there
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    EVENT_FILE_BYTES,
    EVENT_MONTH,
    REJECTED,
    SMALL_EVENT_FILE_BYTES,
    TABLES,
    TABLES_OF_MAINTENANCE,
    TableSpec,
)
from namesrv_stream.tables.thinning import NamedVersions, named_versions, shorten_log, thin_out
from namesrv_stream.tables.writer import RETENTION_METADATA, BaseMovedError

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
_COMMIT_ONCE = CommitProperties(max_commit_retries=0)
_JOB_WROTE_IT = "the job was writing it"
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
    exact_ms: int = DEFAULT_EXACT_MS,
    rejected_retention_ms: int = DEFAULT_REJECTED_RETENTION_MS,
    on_table: Callable[[str], None] = lambda _name: None,
    but: Collection[str] = (),
) -> list[Care]:
    """Compact every table, drop rows past retention, and remove versions and files that no kept snapshot needs.

    Two tables lose rows: `snapshot`, whose epochs and runs `past_snapshot` keeps, and `rejected`, whose rows are kept
    for `rejected_retention_ms` after their event time. History is never shortened.

    Without Spark the months of history are compacted and not sorted. `on_table` is called with the name of each table
    before its turn, with KEPT_FOLDER before each snapshot that is kept, and may end the maintenance by an error. The
    tables named in `but` are left out. Without `vacuum` no snapshot goes, and no file.
    """
    session = None if spark is None else _clustering_session(spark)
    now_ms = time.time_ns() // 1_000_000
    named = _thinned_out(root, now_ms, exact_ms, lambda: on_table(KEPT_FOLDER)) if vacuum else None
    caretaker = _Caretaker(session, root, named, now_ms - rejected_retention_ms)
    care = []
    for spec in (*TABLES.values(), *TABLES_OF_MAINTENANCE):
        if spec.name not in but and (spec not in TABLES_OF_MAINTENANCE or is_there(root, spec)):
            on_table(spec.name)
            care.append(caretaker.care_for(spec))
    return care


def _thinned_out(
    root: Root, now_ms: int, exact_ms: int, on_kept: Callable[[], None]
) -> Mapping[str, NamedVersions] | None:
    """Remove the snapshots that are not kept, and return the versions that have to stay; None: all of them."""
    try:
        thin_out(root, now_ms, exact_ms, on_kept)
    except _FOREIGN_COMMITS:  # the job was writing `snapshot`
        return None
    return named_versions(root, now_ms - exact_ms)


def _clustering_session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()  # its own settings
    for name, value in _CLUSTERING.items():
        session.conf.set(name, value)
    return session


@dataclass(frozen=True)
class _Caretaker:
    """Maintains one table after the other.

    `named`: the lowest and the highest version of each table that has to stay; None: all. Rejected records from before
    `rejected_before_ms` are deleted.
    """

    session: SparkSession | None
    root: Root
    named: Mapping[str, NamedVersions] | None
    rejected_before_ms: int

    def care_for(self, spec: TableSpec) -> Care:
        before = self._file_count(spec)
        put_off = ""
        try:
            if self.named is not None:  # first, because those versions are named for some minutes more alone
                self._remove_files(spec, self.named.get(spec.name))
            self._put_in_order(spec)
        except _FOREIGN_COMMITS:
            put_off = _JOB_WROTE_IT
        return Care(spec.name, before, self._file_count(spec), put_off)

    def _remove_files(self, spec: TableSpec, named: NamedVersions | None) -> None:
        """Remove the files that were replaced before `snapshot.exact` and that no version in `named` has."""
        kept = None if named is None else sorted(set(named))
        self.root.open(spec).vacuum(dry_run=False, full=True, keep_versions=kept)
        if named is not None:
            shorten_log(self.root, spec, named.lowest)

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

    def _drop_old_rejected(self) -> None:
        table = self.root.open(REJECTED)
        before = datetime.fromtimestamp(self.rejected_before_ms / 1000, UTC)
        old = f"event_time < '{before.isoformat()}'"  # a text, because delta-rs compares only that with a timestamp
        table.delete(old, commit_properties=CommitProperties(max_commit_retries=0, custom_metadata=RETENTION_METADATA))

    def _file_count(self, spec: TableSpec) -> int:
        return len(self.root.open(spec).file_uris())

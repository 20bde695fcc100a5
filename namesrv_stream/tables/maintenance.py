"""Maintain the tables, while the job runs or not: merge small files, and remove old rows and old files.

The job does this in a thread of its own (job/table_maintenance.py), and the program jobs/maintain_tables.py does too.
Neither breaks a publication. Publication continues from a commit that only rearranges rows. If a publication changes a
table first, maintenance leaves that table for the next time.

Versions of tables that no snapshot of the last `snapshot.exact` names are removed.

Only the program sorts the months of history: that holds a whole month in memory.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, WriterProperties
from deltalake.exceptions import CommitFailedError

from namesrv_stream.tables.damage import TableFiles
from namesrv_stream.tables.object_store import writer_of
from namesrv_stream.tables.root import DAY_MS, DEFAULT_EXACT_MS, Root
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    EVENT_FILE_BYTES,
    EVENT_MONTH,
    PINNED_TABLES,
    REJECTED,
    ROW_CHANGE,
    SMALL_EVENT_FILE_BYTES,
    TABLES,
    TableSpec,
)
from namesrv_stream.tables.snapshots import SnapshotTable
from namesrv_stream.tables.writer import RETENTION_METADATA, BaseMovedError

_CHECKPOINT = ".checkpoint.parquet"

REJECTED_RETENTION_MS = 90 * DAY_MS

MAX_FILES = 4
"""Small files that a table, or a month of history, may have before they are merged."""
_PAGE_ROWS = 2000
_COMMIT_ONCE = CommitProperties(max_commit_retries=0)
_JOB_WROTE_IT = "the job was writing it"
_FOREIGN_COMMITS = (BaseMovedError, CommitFailedError)


class NamedVersions(NamedTuple):
    """The lowest and the highest version of a table that snapshots of the last `snapshot.exact` name.

    Files of both may have been replaced before that time: those of the lowest by a compaction that no snapshot named
    since, those of the highest if the job has stopped. A version between was the newest one within that time.
    """

    lowest: int
    highest: int


def _version_of(path: str) -> int:
    """Return the version in the name of a file of the log, or of Hadoop's hidden checksum beside it; else -1."""
    digits = path.rpartition("/")[2].lstrip(".").partition(".")[0]
    return int(digits) if digits.isdecimal() else -1


def named_versions(root: Root, since_ms: int) -> Mapping[str, NamedVersions]:
    """Return the versions that snapshots published at `since_ms` or later name, and the newest one in any case."""
    recent = SnapshotTable(root).published_since(since_ms)
    return {
        spec.name: NamedVersions(
            min(row.versions[spec.name] for row in recent), max(row.versions[spec.name] for row in recent)
        )
        for spec in PINNED_TABLES
    }


def shorten_log(root: Root, spec: TableSpec, first: int) -> None:
    """Remove the commits and checkpoints of a table before version `first`, which gets a checkpoint before that.

    The oldest go first: what remains has no gap, also if this run dies.
    """
    files = TableFiles(root, spec)
    log_files = {path: _version_of(path) for path in files.listed("_delta_log")}
    old = [path for path, version in log_files.items() if 0 <= version < first]
    if not old:
        return
    if f"_delta_log/{first:020}{_CHECKPOINT}" not in log_files:
        root.open(spec, first).create_checkpoint()
    for path in sorted(old):
        with suppress(FileNotFoundError):
            files.storage.delete_file(path)


_ORDER = {BROKER_EVENT.name: ("type", "broker_name"), ROW_CHANGE.name: ("table_name", "topic", "broker_name")}


class MaintenanceResult(NamedTuple):
    """Result of maintaining one table. `skipped_because`: why it was left for the next run, empty if it was not."""

    table: str
    files_before: int
    files_after: int
    skipped_because: str


def maintain(  # noqa: PLR0913  # two of the arguments are for callers that look on
    root: Root,
    *,
    sort: bool = True,
    vacuum: bool = True,
    exact_ms: int = DEFAULT_EXACT_MS,
    on_table: Callable[[str], None] = lambda _name: None,
    but: Collection[str] = (),
) -> list[MaintenanceResult]:
    """Compact every table, and remove versions and files that no snapshot of the last `exact_ms` needs.

    Only `rejected` loses rows, REJECTED_RETENTION_MS after their event time. History is never shortened.

    Without `sort` the months of history are compacted and not sorted. `on_table` is called with the name of each table
    before its turn, and may end the maintenance by an error. The tables named in `but` are left out. Without `vacuum`
    no file goes.
    """
    now_ms = time.time_ns() // 1_000_000
    named = named_versions(root, now_ms - exact_ms) if vacuum else None
    maintenance = _Maintenance(root, named, now_ms - REJECTED_RETENTION_MS, sort)
    care = []
    for spec in TABLES.values():
        if spec.name not in but:
            on_table(spec.name)
            care.append(maintenance.maintain_table(spec))
    return care


@dataclass(frozen=True)
class _Maintenance:
    """Maintains one table after the other.

    `named`: the lowest and the highest version of each table that has to stay; None: all. Rejected records from before
    `rejected_before_ms` are deleted.
    """

    root: Root
    named: Mapping[str, NamedVersions] | None
    rejected_before_ms: int
    sort: bool

    def maintain_table(self, spec: TableSpec) -> MaintenanceResult:
        before = self._file_count(spec)
        skipped_because = ""
        try:
            if self.named is not None:  # first, because those versions are named for some minutes more alone
                self._remove_files(spec, self.named.get(spec.name))
            self._put_in_order(spec)
        except _FOREIGN_COMMITS:
            skipped_because = _JOB_WROTE_IT
        return MaintenanceResult(spec.name, before, self._file_count(spec), skipped_because)

    def _remove_files(self, spec: TableSpec, named: NamedVersions | None) -> None:
        """Remove the files that were replaced before `snapshot.exact` and that no version in `named` has."""
        kept = None if named is None else sorted(set(named))
        self.root.open(spec).vacuum(dry_run=False, full=True, keep_versions=kept)
        if named is not None:
            shorten_log(self.root, spec, named.lowest)

    def _put_in_order(self, spec: TableSpec) -> None:
        if spec.partition_column == EVENT_MONTH:
            self._merge_months(spec)
            return
        if spec is REJECTED:
            self._drop_old_rejected()
        writer = writer_of(self.root)
        head = writer.head(spec)
        if writer.file_count(spec, head) > MAX_FILES:
            writer.compact(spec, head)

    def _merge_months(self, spec: TableSpec) -> None:
        """Rewrite each month that has gathered small files; leave the other months alone.

        In a sorted month lines of one type and of neighbouring broker names lie together, mostly in order of time, so a
        reader can skip most pages.
        """
        for month in self._months_out_of_order(spec):
            if self.sort:
                self._sort_month(spec, month)
            else:
                of_month = [(EVENT_MONTH, "=", month)]
                table = self.root.open(spec)
                table.optimize.compact(of_month, SMALL_EVENT_FILE_BYTES, commit_properties=_COMMIT_ONCE)

    def _sort_month(self, spec: TableSpec, month: str) -> None:
        self.root.open(spec).optimize.z_order(
            _ORDER[spec.name],
            [(EVENT_MONTH, "=", month)],
            target_size=EVENT_FILE_BYTES,
            writer_properties=WriterProperties(data_page_row_count_limit=_PAGE_ROWS),
            commit_properties=_COMMIT_ONCE,
        )

    def _months_out_of_order(self, spec: TableSpec) -> list[str]:
        files = pa.table(self.root.open(spec).get_add_actions(flatten=True))
        months, sizes = (files[name].to_pylist() for name in (f"partition.{EVENT_MONTH}", "size_bytes"))
        small = Counter(month for month, size in zip(months, sizes, strict=True) if size < SMALL_EVENT_FILE_BYTES)
        return sorted(month for month, count in small.items() if count > MAX_FILES)

    def _drop_old_rejected(self) -> None:
        table = self.root.open(REJECTED)
        before = datetime.fromtimestamp(self.rejected_before_ms / 1000, UTC)
        old = f"event_time < '{before.isoformat()}'"  # a text, because delta-rs compares only that with a timestamp
        table.delete(old, commit_properties=CommitProperties(max_commit_retries=0, custom_metadata=RETENTION_METADATA))

    def _file_count(self, spec: TableSpec) -> int:
        return len(self.root.open(spec).file_uris())

"""Publication: one run claims the registry and publishes its micro-batches, so that all tables change together.

The snapshot row is written last and names the version of each table. Readers read only versions that a snapshot names,
so the commits of several tables take effect as one change. A run that dies between two tables leaves table heads that
no snapshot names. The next write to such a table, or the next run, restores the version that the snapshot names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal

import pyarrow as pa

from namesrv_stream.errors import TermLostError
from namesrv_stream.rules.lease import LogClock
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.arrow import row_changes_to_arrow, rows_from_arrow, rows_to_arrow
from namesrv_stream.tables.root import DEFAULT_EXACT_MS
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    PINNED_TABLES,
    REJECTED,
    ROW_CHANGE,
    SNAPSHOT,
    TABLES,
    TOPIC,
    TableSpec,
)
from namesrv_stream.tables.writer import (
    BaseMovedError,
    Changes,
    CommitTag,
    RowChanges,
    Rows,
    RustWriter,
    appended,
    holds_rows_of,
)

log = logging.getLogger(__name__)

MAX_SMALL_FILES = 32
"""Number of files above which a table is compacted."""

_MAX_CONFLICT_RETRIES = 20
"""Commits of others in a row, on one table and in one publication, after which a write fails.

Compaction causes one or two. More mean that a second job writes the table.
"""

OnPoint = Callable[[str], None]

_COMPACTION = ("compacting", "compacted")

POINTS = (
    "claiming",
    "claimed",
    "taken over",
    *(f"{point} {spec.name}" for spec in PINNED_TABLES for point in ("writing", "written")),
    "publishing",
    "published",
    *(f"{point} {spec.name}" for spec in TABLES.values() if not spec.is_rewritten for point in _COMPACTION),
)
"""The points of a run before and after each commit, in order. Tests let a run die at each of them."""

SnapshotKind = Literal["CLAIM", "PUBLICATION", "STOP"]
"""Reason for a snapshot row: a run claimed the registry, published a micro-batch, or stopped in order."""


@dataclass(frozen=True)
class Batch:
    """Outcome of one micro-batch.

    `event_time_ms` is the highest event time applied, `last_append_ms` the append time of the last record applied,
    `clock` the log's clock at that record; None: as in the snapshot before. `offsets` maps a partition to the next
    offset to read. `events` are in the order of the log; publication fills in their epoch and seq.
    """

    query_id: str | None
    batch_id: int | None
    event_time_ms: int | None
    offsets: Mapping[int, int]
    changes: Changes
    events: Rows = ()
    rejected: Rows = ()
    clock: LogClock | None = None
    last_append_ms: int | None = None
    kind: SnapshotKind = "PUBLICATION"

    def work(self, epoch: int) -> dict[str, RowChanges | pa.Table]:
        """Return the rows to write by table name, without tables that have no change."""
        work: dict[str, RowChanges | pa.Table] = dict(self.changes)
        work[BROKER_EVENT.name] = _numbered(appended(BROKER_EVENT, self.events), epoch)
        if not isinstance(self.events, pa.Table):
            work[ROW_CHANGE.name] = row_changes_to_arrow(epoch, self.events)  # type: ignore[arg-type]
        work[REJECTED.name] = appended(REJECTED, self.rejected)
        return {name: change for name, change in work.items() if len(change)}


@dataclass(frozen=True)
class KafkaLog:
    """The log that a registry is made from: Kafka's ids of its cluster and topic, None if unknown.

    `is_new` is True if this log replaces another one. The job then reads it from its start and ignores records that
    are older than the snapshot's event time. The log's clock goes on, but no time passes by it until the first tick of
    the new log (D9).
    """

    cluster_id: str | None = None
    topic_id: str | None = None
    is_new: bool = False


class Publisher:
    """One run's term on a registry. Make it with `claim`; use it from one thread at a time.

    `last` is the newest snapshot row, which this run wrote. `versions` are the table versions that the next row names
    for tables without a change.
    """

    def __init__(self, writer: RustWriter, last: SnapshotRow, snapshot_version: int, on_point: OnPoint) -> None:
        self._writer = writer
        self._snapshot_version = snapshot_version
        self._on_point = on_point
        self._term_lock = Lock()
        self._pool = ThreadPoolExecutor(max_workers=len(TABLES))
        self.last = last
        self.versions = dict(last.versions)
        self.restored: list[str] = []

    @classmethod
    def claim(  # noqa: PLR0913, PLR0917  # three of the arguments are callbacks
        cls,
        writer: RustWriter,
        run_id: str,
        claimed_at_ms: int,
        on_point: OnPoint = lambda _point: None,
        log_of: Callable[[SnapshotRow | None], KafkaLog] = lambda _former: KafkaLog(),
        exact_ms: int = DEFAULT_EXACT_MS,
        mended: Callable[[SnapshotRow], SnapshotRow] = lambda claim: claim,
    ) -> Publisher:
        """Make missing tables, claim the next term, and restore tables that a dead run wrote and did not publish.

        `log_of` receives the newest row, None if there is none. It returns the log to go on with, or raises an error.
        If two runs claim at the same moment, one wins and the other gets TermLostError. A claim that meets an ordinary
        publication is tried again on top of it. `on_point` is called with each of POINTS that is reached, those of a
        table from the thread that writes it. `mended` returns the row of the claim that a repair needs.
        """
        writer.ensure_tables(exact_ms)
        for _ in range(_MAX_CONFLICT_RETRIES):
            former, version = writer.newest_snapshot()
            claim = mended(_claim_row(former, run_id, claimed_at_ms, log_of(former)))
            publisher = cls(writer, claim, version, on_point)
            on_point("claiming")
            try:
                publisher._append_snapshot(claim)
            except TermLostError as lost:
                if lost.newer_term >= claim.term:
                    raise
                continue
            on_point("claimed")
            for spec in PINNED_TABLES:
                publisher.versions[spec.name] = publisher._settled(spec, publisher.versions[spec.name])
            on_point("taken over")
            publisher._compact_claims()
            return publisher
        raise BaseMovedError(SNAPSHOT.name, version)

    @property
    def next_epoch(self) -> int:
        """The epoch of the next publication."""
        return self.last.epoch + 1

    def table(self, name: str) -> pa.Table:
        """Return the published rows of one table."""
        return self._writer.read(TABLES[name], self.versions[name])

    def rows(self, spec: TableSpec) -> Iterable[tuple[Any, ...]] | TopicQueues:
        """Return the published rows of one keyed table, as the registry loads them; rows of `topic` are packed."""
        if spec is TOPIC:
            return self._writer.read_queues(self.versions[TOPIC.name])
        return rows_from_arrow(spec, self.table(spec.name))

    def publish(self, batch: Batch, published_at_ms: int) -> SnapshotRow:
        """Write a batch to the tables, append its snapshot row and return that row.

        The caller decides if a batch is worth an epoch. After any error the same batch can be published again:
        tables that already hold it are restored first. Raises TermLostError if another run has claimed the registry,
        BaseMovedError if another writer keeps committing to a table.
        """
        work = batch.work(self.next_epoch)
        self._require_term()
        tag = CommitTag(self.next_epoch, self.last.term)
        written = self._write_tables(work, tag)
        row = self.last._replace(
            epoch=self.next_epoch,
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            published_at=published_at_ms,
            event_time=max((at for at in (self.last.event_time, batch.event_time_ms) if at is not None), default=None),
            offsets=dict(batch.offsets),
            versions=self.versions | written,
            changes={name: len(change) for name, change in work.items()},
            kind=batch.kind,
            last_append=batch.last_append_ms,
        )
        row = row if batch.clock is None else _with_clock(row, batch.clock)
        self._on_point("publishing")
        self._append_snapshot(row)
        self.last, self.versions = row, dict(row.versions)
        self._on_point("published")
        return row

    def compact(self, max_files: int) -> list[str]:
        """Merge the small files of tables with more than `max_files`, and return the names of these tables.

        The next snapshot names the new versions. A table that another writer commits to at this moment is left for
        the next call.
        """
        return [spec.name for spec in TABLES.values() if not spec.is_rewritten and self._compacted(spec, max_files)]

    def _compact_claims(self) -> None:
        """Compact `snapshot`, the only table to which a claim adds a file, because the run may end before it publishes.

        The claim holds even if this fails.
        """
        try:
            self._compacted(SNAPSHOT, MAX_SMALL_FILES)
        except Exception as error:
            log.warning("the job cannot merge small files of the table snapshot: %s. The next claim includes them.",
                        str(error).rstrip("."))  # fmt: skip

    def _write_tables(self, work: Mapping[str, RowChanges | pa.Table], tag: CommitTag) -> dict[str, int]:
        running = {name: self._pool.submit(self._write, TABLES[name], work[name], tag) for name in work}
        wait(running.values())  # before the failure of one write is handled, all others have ended
        return {name: future.result() for name, future in running.items()}

    def _write(self, spec: TableSpec, change: RowChanges | pa.Table, tag: CommitTag) -> int:
        base = self.versions[spec.name]
        for _ in range(_MAX_CONFLICT_RETRIES):
            self._on_point(f"writing {spec.name}")
            try:
                if isinstance(change, RowChanges):
                    version = self._writer.merge(spec, base, change, tag)
                else:
                    version = self._writer.append(spec, base, change, tag)
            except BaseMovedError:
                base = self._settled(spec, self.versions[spec.name])
            else:
                self._on_point(f"written {spec.name}")
                return version
        raise BaseMovedError(spec.name, base)

    def _settled(self, spec: TableSpec, named: int) -> int:
        """Return a table version to write on: the head if it holds the rows of version `named`, else a restored one.

        Raises TermLostError instead of restoring if another run has claimed the registry.
        """
        while True:
            commits = self._writer.commits(spec, named)
            head = commits[0].version if commits else named
            if holds_rows_of(commits, named):
                return head
            self._require_term()
            try:
                version = self._writer.restore(spec, head, named, CommitTag(self.last.epoch, self.last.term))
            except BaseMovedError:
                continue
            self.restored.append(spec.name)
            return version

    def _append_snapshot(self, row: SnapshotRow) -> None:
        """Append `row` to the version of the snapshot table that showed the row before it (compare-and-swap).

        Raises TermLostError if another run has appended this epoch or a later one.
        """
        for _ in range(_MAX_CONFLICT_RETRIES):
            try:
                self._snapshot_version = self._writer.append(
                    SNAPSHOT, self._snapshot_version, rows_to_arrow(SNAPSHOT, [row]), CommitTag(row.epoch, row.term)
                )
            except BaseMovedError:
                newest, self._snapshot_version = self._writer.newest_snapshot()
                if newest == row:  # the commit succeeded, but its answer was lost
                    return
                if newest is not None and newest.epoch >= row.epoch:
                    raise TermLostError(row.term, newest.term, newest.run_id) from None
            else:
                return
        raise BaseMovedError(SNAPSHOT.name, self._snapshot_version)

    def _require_term(self) -> None:
        with self._term_lock:
            newest, self._snapshot_version = self._writer.newest_snapshot()
        if newest is not None and newest.term != self.last.term:
            raise TermLostError(self.last.term, newest.term, newest.run_id)

    def _compacted(self, spec: TableSpec, max_files: int) -> bool:
        base = self._snapshot_version if spec is SNAPSHOT else self.versions[spec.name]
        try:
            if self._writer.file_count(spec, base) <= max_files:
                return False
            self._on_point(f"compacting {spec.name}")
            version = self._writer.compact(spec, base)
        except BaseMovedError:
            return False
        if spec is SNAPSHOT:
            self._snapshot_version = version
        else:
            self.versions[spec.name] = version
        self._on_point(f"compacted {spec.name}")
        return version != base


def _with_clock(row: SnapshotRow, clock: LogClock) -> SnapshotRow:
    return row._replace(
        last_tick=clock.newest_tick_ms, last_tick_append=clock.tick_append_ms, clock_millis=clock.reading_ms
    )


def _numbered(events: pa.Table, epoch: int) -> pa.Table:
    """Return the events in their order, as lines 0, 1, 2... of one epoch."""
    numbered = events.set_column(0, "epoch", pa.repeat(pa.scalar(epoch, pa.int64()), len(events)))
    return numbered.set_column(1, "seq", pa.array(range(len(events)), pa.int64()))


def _accepted_at_ms(former: SnapshotRow) -> int | None:
    """Return the append time from which records of a new log count.

    A record of the old log that was stamped ahead does not delay it. If nothing of the old log has been read since it
    was accepted, or since `repair --from-log`, the time stays as it is.
    """
    if former.event_time is None or not former.offsets:
        return former.log_accepted_at
    return min(former.event_time, former.published_at)


def _claim_row(former: SnapshotRow | None, run_id: str, claimed_at_ms: int, log: KafkaLog) -> SnapshotRow:
    """Return the row of a claim: the next epoch and term, and all else as in the former row.

    So the newest row alone has everything that a reader needs.
    """
    if former is None:
        versions = {spec.name: 0 for spec in PINNED_TABLES}
        former = SnapshotRow(0, 0, run_id, None, None, claimed_at_ms, None, {}, versions, {})
    row = _with_clock(former, LogClock.of(former))._replace(
        epoch=former.epoch + 1,
        term=former.term + 1,
        run_id=run_id,
        published_at=claimed_at_ms,
        changes={},
        kind="CLAIM",
        kafka_cluster_id=log.cluster_id,
        kafka_topic_id=log.topic_id,
    )
    if not log.is_new:
        return row
    return row._replace(
        offsets={}, last_tick=0, last_tick_append=None, last_append=None, log_accepted_at=_accepted_at_ms(former)
    )

"""Apply the records of one micro-batch by the rules, and publish the rows that they change.

A micro-batch is one Spark job. Its rows are collected once; everything after that happens on the driver.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from namesrv_stream.answers.absences import NAMESPACE, ends_ms
from namesrv_stream.answers.broker_lines import log_brokers
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import MalformedRecordError, NamesrvError, TermLostError
from namesrv_stream.job.job_metrics import JobMetrics, LogProgress, TickSilence
from namesrv_stream.job.source import (
    MAX_REJECTED_KEY_BYTES,
    Eviction,
    in_log_order,
    log_rejected,
    rejected_row,
    with_values,
)
from namesrv_stream.kafka.record_reader import LOG_PARTITION, RecordReader, StoredRecord
from namesrv_stream.records import decode_readable, decode_record
from namesrv_stream.rules.lease import LOG_GAP_MS, LogClock, deadline_ms
from namesrv_stream.rules.record_types import (
    DEFAULT_HEARTBEAT_TIMEOUT_MS,
    Command,
    RegisterBroker,
    RequestRefused,
    Scan,
)
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LiveRow, LogPosition, RejectedRow
from namesrv_stream.tables import publication
from namesrv_stream.tables.job_progress import SIGN_MS, ProgressSign
from namesrv_stream.tables.publication import Batch, Publisher, SnapshotKind
from namesrv_stream.tables.schemas import ROUTE_TABLES
from namesrv_stream.tables.writer import changes_to_write

log = logging.getLogger(__name__)

PUBLISH_AT_BYTES = 64 * 1024 * 1024
"""Bytes of records that are applied and wait for publication. With more, a micro-batch is published in parts, each an
epoch."""

PROGRESS_MS = 300_000
"""Event time after which a snapshot is published although nothing changed, so that a start need not read the log from
long before."""

_STOP_LIMIT_S = 30.0
COLLECT_LIMIT_S = 5.0
"""The time for which a stop waits until Spark has computed the rows of a batch."""

SHOW_PROGRESS_S = 10.0
"""The time after which a snapshot is published during a long catch-up, to show its progress."""

PUBLICATIONS_BETWEEN_CARE = 32
"""Publications after which small files are compacted. With publication.MAX_SMALL_FILES it bounds the files of a
table."""

_UNCHANGED = {
    "CLAIM": "no row changed; this run has become active",
    "PUBLICATION": "no row changed; event time advanced",
    "STOP": "no row changed; this run stops cleanly",
}


_MESSAGE_LINE = re.compile(r"(?!\s+(?:at |\.\.\. )|[+:]- |\s*[+:]- )\s*\S")
"""Matches a line of an error that is neither a stack frame nor a line of a plan."""

_MAX_LINES = 30
_MAX_LINE_CHARS = 500


class AbandonedError(NamesrvError):
    """A batch was broken off, because another run has taken over the registry."""


class BrokenOffError(NamesrvError):
    """A batch was interrupted because the query stops. Spark recognizes an interruption in Python by this text.

    It replaces the error of py4j, because Spark's regular expression overflows the stack on the stack trace or the plan
    in that error's text.
    """

    def __init__(self) -> None:
        as_py4j = "py4j.protocol.Py4JJavaError: An error occurred while calling Spark"
        super().__init__(f"{as_py4j}: java.lang.InterruptedException")


def collected(frame: DataFrame, is_stopping: Callable[[], bool]) -> pa.Table:
    """Return the rows of a query's micro-batch. Raises NamesrvError, and BrokenOffError while the query stops."""
    try:
        return frame.toArrow()
    except (Py4JError, PySparkException) as error:
        if is_stopping():
            raise BrokenOffError from None
        raise unread_batch(str(error)) from None


def unread_batch(reported: str) -> NamesrvError:
    """Return the error for a batch that Spark could not compute: Spark's message without stack traces and plan."""
    lines = [line[:_MAX_LINE_CHARS] for line in reported.splitlines() if _MESSAGE_LINE.match(line)]
    return NamesrvError("\n".join(lines[:_MAX_LINES]) or "Spark returned no rows")


class MicroBatches:
    """The function that foreachBatch calls. Keeps the registry in memory: as published, plus signs of life since.

    Each record is applied once. One below `next_offset` is skipped if Spark reads it again. If Spark's checkpoint is
    ahead of the tables, the missing records are read from Kafka here. Call `close` before the query is stopped, so that
    no batch is cut in two. `show` receives a sign of progress while nothing is published. `live_refresh_ms`: shortest
    event time between two publications that have only signs of life.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # what it reads, writes and reports to
        self,
        settings: NamesrvSettings,
        publisher: Publisher,
        reader: RecordReader,
        next_offset: int,
        metrics: JobMetrics | None = None,
        show: Callable[[ProgressSign], None] = lambda _sign: None,
        live_refresh_ms: int = PROGRESS_MS,
    ) -> None:
        self.failure: BaseException | None = None
        self.tick_silence = TickSilence()
        self.metrics = metrics or JobMetrics()
        self._collecting, self._lock = threading.Lock(), threading.Lock()
        self._is_closed = self._has_stopped = False
        self._is_abandoned = False
        self._settings = settings
        self._publisher = publisher
        self._reader = reader
        self._show = show
        self._live_refresh_ms = live_refresh_ms
        self._registry = _loaded_registry(settings, publisher)
        self._progress = LogProgress(next_offset, publisher.last.event_time, publisher.last.last_append)
        self._rejected: list[RejectedRow] = []
        self._waiting_bytes = 0
        self._batch: tuple[str, int] | None = None
        self._publications = 0
        self._late: set[str] = set()
        self._published_event_ms = 0

    @property
    def next_offset(self) -> int:
        """All records before this offset are in the tables, signs of life aside."""
        return self._progress.handled_offset

    @property
    def has_handled(self) -> bool:
        """True once a micro-batch has been handled, so that Kafka and the storage work."""
        return self._publications > 0

    @property
    def applied_offset(self) -> int:
        """All records before this offset have been applied or rejected, in the batch that runs too."""
        return self._progress.next_offset

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Handle one micro-batch of the query that Spark runs in this thread."""
        context = frame.sparkSession.sparkContext
        query_id = context.getLocalProperty("sql.streaming.queryId") or ""
        with suppress(AbandonedError), self.tick_silence.during_batch():
            with self._collecting:
                rows = None if self._is_closed else collected(frame, lambda: self._is_closed or self._is_abandoned)
            with self._lock:
                if rows is not None and not self._has_stopped:
                    self.handle(rows, query_id, batch_id)
                    return
        # Too late. If this call returned, Spark would take the batch as done. If it raised one of our errors, Spark
        # would take the query as failed. So it waits in the JVM until StreamingQuery.stop interrupts it.
        assert context._jvm is not None
        try:
            context._jvm.java.lang.Thread.sleep(int(2_000 * _STOP_LIMIT_S))
        except Py4JError:
            raise BrokenOffError from None
        raise NamesrvError(
            "the job did not stop in time. No record is lost; the next run continues where it stood. End the process."
        )

    def handle(self, rows: pa.Table, query_id: str, batch_id: int) -> None:
        """Apply the rows of the query and publish what they change."""
        self._batch = (query_id, batch_id)
        try:
            self._handle(rows)
        except Exception as error:
            self.failure = error  # Spark reports only the error's text
            raise

    def abandon(self) -> None:
        """Break off the batch that runs.

        Call it if another run has the registry: that run waits for this query's end.
        """
        self._is_abandoned = True

    def close(self) -> None:
        """Wait for the batch that runs, take no further one, and publish that the job stops in order.

        If Spark still computes the rows of a batch after 5 s, the next run gets it: a first one may take half a minute.
        Nothing is published after a failed batch, of which a part may be applied, or beside a batch that hangs, as on a
        cluster without workers.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if self._collecting.acquire(timeout=COLLECT_LIMIT_S):
            self._collecting.release()
        if not self._lock.acquire(timeout=_STOP_LIMIT_S):
            log.warning("the micro-batch still runs after %.0f s; the job aborts it and stops", _STOP_LIMIT_S)
            return
        try:
            self._has_stopped = True
            if self.failure is None:
                self._publish("STOP")
                log.info("the job stops cleanly; the tables have all records before offset %d",
                         self._progress.next_offset)  # fmt: skip
        except TermLostError as lost:
            log.info("run %s has taken over; it continues from the last snapshot", lost.newer_run_id)
        except Exception as error:
            log.warning("the job stops, but cannot write that to the tables: %s. No record is lost; the next run "
                        "continues from the last snapshot.", str(error).rstrip("."))  # fmt: skip
        finally:
            self._lock.release()

    def _handle(self, rows: pa.Table) -> None:
        """Handle a batch. The numbers in the comments are the steps of docs/job.md."""
        records, evictions = in_log_order(rows)  # 3
        self.metrics.records.inc(len(records))
        if records:
            self._catch_up(records[0].stored.offset)
        new = [each for each in records if each.stored.offset >= self._progress.next_offset]
        for record in with_values(new, self._reader):  # 4 and 5
            self._apply(record)
        self._compare(evictions)  # 6
        if self._is_due():  # 7
            self._publish("PUBLICATION")  # 8 to 10 are in Publisher.publish
        elif self._progress.is_unshown_for(SIGN_MS):
            self._show_progress()
        self._progress.handled_offset = self._progress.next_offset
        self.metrics.applied(self._progress.event_time_ms, self._registry.lease_count, self._registry.suspect_count)

    def _catch_up(self, first_offset: int) -> None:
        """Apply the records that Spark has read before and the tables lack, because its checkpoint is ahead of them.

        Offsets of markers and of aborted transactions have no records.
        """
        next_offset = self._progress.next_offset
        for number, record in enumerate(self._reader.between(next_offset, first_offset)):
            if number == 0:
                log.info("the job reads offsets %d to %d again, because the tables do not have them",
                         next_offset, first_offset - 1)  # fmt: skip
            self._apply(record)
            if self._progress.silent_s > SHOW_PROGRESS_S:
                self._publish("PUBLICATION")

    def _apply(self, record: StoredRecord) -> None:
        """Apply the next record of the log, or reject it.

        A rejected registration still counts for its lease if possible.
        """
        if self._is_abandoned:
            raise AbandonedError
        clock, append_ms = self._registry.clock, record.append_time_ms
        self._progress.advance(record.offset, append_ms, clock.event_time_ms(append_ms))
        at = LogPosition(append_ms, LOG_PARTITION, record.offset)
        if self._registry.ignores(at):
            return
        try:
            request = decode_record(record.value, record.key)
        except MalformedRecordError as error:
            self.metrics.rejected.inc()
            self._keep(record, at, error.reason)
            with suppress(MalformedRecordError):
                request, is_lease_only = decode_readable(record.value, record.key)
                self._registry.apply(request, at, lease_only=is_lease_only)
        else:
            if isinstance(request, Scan):
                self._tick(at)
            elif isinstance(request, RequestRefused):
                self._keep(record, at, request.reason)
            else:
                self._take_bytes(record.value if isinstance(request, RegisterBroker | Command) else None)
                self._registry.apply(request, at)
        if self._waiting_bytes > PUBLISH_AT_BYTES:
            self._publish("PUBLICATION")

    def _tick(self, at: LogPosition) -> None:
        """Apply a tick. Log a gap before it (E11), and log once if Kafka's clock has stepped back (E9)."""
        self.tick_silence.on_tick()
        clock = self._registry.clock
        before_ms = clock.stepped_back_ms
        self._registry.apply(Scan(), at)
        if self._registry.has_log_gap:
            self.metrics.log_gaps_s.inc(clock.gap_ms / 1000)
            log.warning("the log had no clock tick for %.1f s (up to offset %d): Kafka or all gateways were down. Only "
                        "%.1f s of that time count towards leases.", clock.gap_ms / 1000, at.offset,
                        self._settings.tick_gap_millis / 1000, extra={"offset": at.offset})  # fmt: skip
        if clock.stepped_back_ms > LOG_GAP_MS >= before_ms:
            log.error("Kafka's clock stepped back by %d s at offset %d; the times of the history stand still until it "
                      "has caught up. Leases still end on time. Correct the clock of the topic's leader.",
                      clock.stepped_back_ms // 1000, at.offset, extra={"offset": at.offset})  # fmt: skip

    def _compare(self, evictions: Iterable[Eviction]) -> None:
        """Log each evicted address that still has a lease for no known reason: state or registry has lost a record."""
        for eviction in evictions:
            lease = self._registry.lease(eviction.broker_addr)
            if lease is None or self._is_kept_by_a_rule(lease, eviction.last_heard_ms):
                continue
            self.metrics.disagreements.inc()
            log.error("Spark's keyed state has evicted %s (last heartbeat %d), but its lease is valid (last heartbeat "
                      "%d, newest clock tick %s); the job keeps the lease. Check that clock ticks arrive; if they do, "
                      "report this as a bug.",
                      eviction.broker_addr, eviction.last_heard_ms, lease.last_update_timestamp,
                      self._registry.clock.newest_tick_ms, extra={"address": eviction.broker_addr})  # fmt: skip

    def _is_kept_by_a_rule(self, lease: LiveRow, evicted_heard_ms: int) -> bool:
        """Return whether the lease of an evicted state goes on for a reason that the state does not know.

        The reasons: the guard holds the lease (D11); a sign of life came after those that the state has seen; the
        timeout has passed by event time and not by the log's clock (D9); the state did not know that the timeout is
        longer than the default.
        """
        if lease.suspect_since is not None or lease.last_update_timestamp > evicted_heard_ms:
            return True
        clock, timeout_ms = self._registry.clock, lease.heartbeat_timeout_millis
        silent_ms = (clock.newest_tick_ms or 0) - lease.last_update_timestamp
        if silent_ms <= timeout_ms:
            return silent_ms > DEFAULT_HEARTBEAT_TIMEOUT_MS
        return (clock.reading_ms or 0) <= deadline_ms(lease)

    def _keep(self, stored: StoredRecord, at: LogPosition, reason: str) -> None:
        """Keep a record that changes nothing for the table `rejected`."""
        row = rejected_row(stored, self._registry.clock.event_time_ms(at.event_time), reason)
        self._take_bytes(row.value)
        self._take_bytes(stored.key[:MAX_REJECTED_KEY_BYTES])
        self._rejected.append(row)

    def _take_bytes(self, value: bytes | None) -> None:
        self._waiting_bytes += len(value or b"")
        self.metrics.value_bytes.inc(len(value or b""))

    def _is_due(self) -> bool:
        """Return whether to publish now.

        A run's first batch is always published, because it shows that the job runs. So are other late leases than
        before: in a quiet registry nothing else would show before the first one ends that brokers are silent. And so is
        the end of a planned absence, after which brokers are down.
        """
        waited_ms = self._progress.waited_ms
        return (
            not self._publications
            or self._registry.has_changes()
            or bool(self._rejected)
            or self._registry.late_addresses != self._late
            or self._has_absence_ended()
            or (self._registry.has_signs_of_life() and waited_ms >= self._live_refresh_ms)
            or waited_ms >= PROGRESS_MS
            or self._progress.silent_s >= 2 * PROGRESS_MS / 1000
        )

    def _has_absence_ended(self) -> bool:
        planned, until_ms = self._registry.kv_values(NAMESPACE), self._progress.event_time_ms or 0
        return bool(planned) and bool(ends_ms(planned, self._published_event_ms, until_ms))

    def _publish(self, kind: SnapshotKind) -> None:
        """Publish all changes and signs of life so far, so that the snapshot is exact as of its offset."""
        came = self._registry.take_changes()
        changes = changes_to_write(came.changes, self._registry.take_signs_of_life())
        query_id, batch_id = self._batch or (None, None)
        batch = Batch(
            query_id=query_id,
            batch_id=batch_id,
            event_time_ms=self._progress.event_time_ms,
            offsets={LOG_PARTITION: self._progress.next_offset},
            changes=changes,
            events=came.events,
            rejected=self._rejected,
            clock=self._registry.clock,
            last_append_ms=self._progress.last_append_ms,
            kind=kind,
        )
        row = self._publisher.publish(batch, published_at_ms=time.time_ns() // 1_000_000)
        self._waiting_bytes = 0
        self._late = self._registry.late_addresses
        self._published_event_ms = self._progress.event_time_ms or 0
        self._progress.note_published()
        changed = ", ".join(f"{name} {count}" for name, count in row.changes.items())
        log.info("snapshot %d published: %s", row.epoch, f"rows changed in {changed}" if changed else _UNCHANGED[kind],
                 extra={"epoch": row.epoch, "offset": self._progress.next_offset})  # fmt: skip
        log_brokers(came.events, row.epoch)
        log_rejected(self._rejected)
        self._rejected = []
        self.metrics.published(row, came.events)
        self._care_for_tables()

    def _show_progress(self) -> None:
        """Give a sign of progress: the newest snapshot still holds, and the log has been read up to here."""
        last = self._publisher.last
        now_ms, offsets = time.time_ns() // 1_000_000, {LOG_PARTITION: self._progress.next_offset}
        event_ms, late_ms = self._progress.event_time_ms, self._registry.late_at_ms
        self._show(ProgressSign(last.epoch, last.term, now_ms, event_ms, offsets, late_ms))
        self._progress.note_shown()

    def _care_for_tables(self) -> None:
        """Compact tables with many files, regularly and after the first publication, since many runs may be short."""
        self._publications += 1
        if (self._publications - 1) % PUBLICATIONS_BETWEEN_CARE:
            return
        try:
            compacted = self._publisher.compact(publication.MAX_SMALL_FILES)
        except Exception as error:
            log.warning("the job cannot merge small files of the tables: %s. The next compaction includes them.",
                        str(error).rstrip("."))  # fmt: skip
            return
        if compacted:
            log.info("the job merged small files of the tables %s", ", ".join(compacted))


def _loaded_registry(settings: NamesrvSettings, publisher: Publisher) -> RouteRegistry:
    """Return the registry as of the newest snapshot."""
    registry = RouteRegistry(settings)
    rows = {spec.name: publisher.rows(spec) for spec in ROUTE_TABLES}
    registry.load(rows, LogClock.of(publisher.last))
    if not publisher.last.last_tick:  # no tick of an accepted log has counted yet
        registry.ignored_before_ms = publisher.last.log_accepted_at or 0
    return registry

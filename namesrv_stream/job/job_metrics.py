"""The job's metrics for Prometheus: from Spark's progress, from the micro-batches, and from the job's own state.

Progress of a run: how far it has read the log, how much the tables show of it, and for how long no tick has come.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from pyspark.sql.streaming.query import StreamingQuery

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.reporting.metrics_server import add_process_metrics
from namesrv_stream.rules.history import LEASE_ENDS
from namesrv_stream.rules.rows import BrokerEventRow, SnapshotRow
from namesrv_stream.tables.schemas import SNAPSHOT

log = logging.getLogger(__name__)

_SILENT_TICKS_S = 60.0


@dataclass(slots=True)
class LogProgress:
    """The place in the log, and its event time.

    `next_offset`: all records before it are applied. `handled_offset`: all records before it are in the tables, signs
    of life aside. `event_time_ms`: the highest event time applied, None before the first record. `published_event_ms`:
    the event time that the newest snapshot shows. `last_append_ms`: append time of the last record applied.
    """

    next_offset: int
    event_time_ms: int | None
    last_append_ms: int | None = None
    handled_offset: int = field(init=False)
    published_event_ms: int | None = field(init=False)
    _published_at_s: float = field(init=False)
    _shown_event_ms: int | None = field(init=False)
    _shown_at_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.handled_offset = self.next_offset
        self.published_event_ms = self.event_time_ms
        self._published_at_s = time.monotonic()
        self.note_shown()

    def advance(self, offset: int, append_time_ms: int, event_time_ms: int) -> None:
        """Note that the record at `offset` is applied."""
        self.next_offset, self.last_append_ms = offset + 1, append_time_ms
        if self.published_event_ms is None:  # the log's first record
            self.published_event_ms = event_time_ms
        self.event_time_ms = max(self.event_time_ms or event_time_ms, event_time_ms)

    def note_published(self) -> None:
        """Note that a snapshot shows all that is applied."""
        self.published_event_ms, self._published_at_s = self.event_time_ms, time.monotonic()
        self.note_shown()

    def note_shown(self) -> None:
        """Note that a snapshot or a sign of progress shows readers all that is applied."""
        self._shown_event_ms, self._shown_at_s = self.event_time_ms, time.monotonic()

    def is_unshown_for(self, millis: int) -> bool:
        """Return whether readers have not been shown the last `millis` of event time, or twice that of real time."""
        waited_ms = (self.event_time_ms or 0) - (self._shown_event_ms or self.published_event_ms or 0)
        return waited_ms >= millis or time.monotonic() - self._shown_at_s >= 2 * millis / 1000

    @property
    def waited_ms(self) -> int:
        """The event time since the newest snapshot."""
        return (self.event_time_ms or 0) - (self.published_event_ms or 0)

    @property
    def silent_s(self) -> float:
        """The time since the newest publication: event time may stand still (E9)."""
        return time.monotonic() - self._published_at_s


class TickSilence:
    """The time for which the log has had no tick, in seconds of this process's clock.

    It counts the log as far as micro-batches have read it. A batch has all records from before it began; those that
    come while it runs are in the next one. So the time of a batch counts as silence only once a later batch has had no
    tick either. Time without a batch is time without records.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ticked_at_s: float | None = None
        """The beginning of the newest batch with a tick, or of the first batch if none had one."""
        self._has_tick = False
        self._known: tuple[float, float | None] = (0.0, None)
        """Silence so far, and the time since which the query is idle. Replaced as one object, because another thread
        reads it."""
        self._has_warned = False

    def seconds(self) -> float:
        """Return the length of the silence; 0 until the first batch has ended. May be called from any thread."""
        silent_s, idle_since_s = self._known
        return silent_s if idle_since_s is None else silent_s + self._clock() - idle_since_s

    def look(self) -> None:
        """Log a warning if no tick has come for a minute, once for each silence."""
        is_silent = self.seconds() > _SILENT_TICKS_S
        if is_silent and not self._has_warned:
            log.warning("the log has had no clock tick for a minute; silent brokers stay in their routes until the "
                        "next one. Check that a gateway runs, or set jobTicker=true.")  # fmt: skip
        self._has_warned = is_silent

    def on_tick(self) -> None:
        """Note that the batch that runs has a tick."""
        self._has_tick = True

    @contextmanager
    def during_batch(self) -> Iterator[None]:
        """Count the ticks noted within the `with` as those of one batch. A batch that fails changes nothing."""
        began_s = self._clock()
        self._known = (self.seconds(), None)
        self._has_tick = False
        yield
        if self._has_tick or self._ticked_at_s is None:
            self._ticked_at_s = began_s
        self._known = (began_s - self._ticked_at_s, self._clock())


Role = Literal["starting", "standby", "active", "waiting"]
"""The present work of the job: it starts, waits for its turn, runs the query, or waits until an outage is over."""

_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class JobMetrics:
    """The metrics of one job.

    Threads of Spark and of the job update them; the monitoring server's thread reads them.
    """

    def __init__(self) -> None:
        of = self.registry = CollectorRegistry()
        add_process_metrics(of)

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"namesrv_{name}", what, labels, registry=of)

        def gauge(name: str, what: str, *labels: str) -> Gauge:
            return Gauge(f"namesrv_job_{name}", what, labels, registry=of)

        def seconds(name: str, what: str, label: str) -> Histogram:
            return Histogram(f"namesrv_job_{name}_seconds", what, [label], buckets=_BUCKETS_S, registry=of)

        self._phases = seconds("batch", "Duration of a micro-batch, by Spark's phase.", "phase")
        self._tables = seconds("publication", "Duration of writing one table.", "table")
        self.records = counter("job_records", "Records read by micro-batches.")
        self.value_bytes = counter("job_value_bytes", "Bytes of registrations, commands and rejected records.")
        self._lag_records = gauge("lag_records", "Records in Kafka that no micro-batch has read.")
        self._lag_s = gauge("lag_seconds", "Age of the newest applied record.")
        self._state_rows = gauge("state_rows", "Broker addresses in Spark's keyed state.")
        self._state_bytes = gauge("state_bytes", "Memory of the keyed state.")
        self._epoch = gauge("epoch", "Epoch of the newest snapshot of this job.")
        self._publications = counter("job_publications", "Snapshots.", "kind")
        self._published_at = gauge("published_timestamp_seconds", "Time at which this job last published.")
        self.rejected = counter("job_rejected", "Records that violate the contract.")
        self.disagreements = counter("job_disagreements", "Evicted states whose lease continues in the registry.")
        self.log_gaps_s = counter("log_gap_seconds", "Gaps of over 10 s between two clock ticks in the log.")
        self._brokers = gauge("brokers", "Broker addresses with a lease.")
        self._suspects = gauge("suspect_brokers", "Silent broker addresses that the mass-expiry guard keeps.")
        self._ends = counter("job_leases_ended", "Ended leases, by the type of the event.", "type")
        self._term = gauge("term", "Term of this job; 0 before its first claim.")
        self._role = gauge("role", "1 for the present role of the job.", "role")
        self.query_starts = counter("job_query_starts", "Starts of the streaming query.")
        self._outages = counter("job_outages", "Failed attempts after which the job retries, by error.", "error")
        self._maintained_at = gauge(
            "maintained_timestamp_seconds",
            "Time of the job's last maintenance of the tables, or of its start of the query.",
        )
        self._maintained_every_s = gauge("maintenance_interval_seconds", "The setting maintenanceMillis; 0 is never.")
        self.log_retention_s = gauge("log_retention_seconds", "Time for which Kafka keeps a record; +Inf is for ever.")
        self.log_retention_s.set(math.inf)
        self._damaged = gauge("tables_damaged", "1 if a file of the tables is missing or cut.")
        self._free_ratio = gauge(
            "storage_free_ratio",
            "Free part of the fuller disk, of the tables or of the checkpoint; 1 without a disk.",
        )
        self._jvm_silent_s = gauge("jvm_silent_seconds", "Time since the last answer of the JVM.")
        self._query_still_s = gauge("query_still_seconds", "Time since the last step of the running micro-batch.")
        self._progress_at = ""
        self._writing_since_s: dict[str, float] = {}
        self._event_time_ms: int | None = None
        self.role: Role = "starting"
        self.outage: str | None = None
        """The error that the job waits out; None if there is none."""
        for ended in LEASE_ENDS:
            self._ends.labels(ended)
        self._lag_s.set_function(self._lag_now_s)
        self.take_role("starting")

    def watch_storage(self, settings: NamesrvSettings, is_damaged: Callable[[], bool]) -> None:
        """Measure the disks of the tables and the checkpoint, and note how often the tables are maintained.

        `is_damaged`: a file of the tables is missing.
        """
        self._damaged.set_function(is_damaged)
        places = [Path(each) for each in (settings.delta_root, settings.checkpoint_location) if "://" not in each]
        self._free_ratio.set_function(lambda: min(map(_free_ratio, places), default=1.0))
        self._maintained_every_s.set(settings.maintenance_millis / 1000)

    def watch_hangs(self, jvm_silent_s: Callable[[], float], query_still_s: Callable[[], float]) -> None:
        """Measure for how long the JVM has been silent and the query has made no step."""
        self._jvm_silent_s.set_function(jvm_silent_s)
        self._query_still_s.set_function(query_still_s)

    def take_role(self, role: Role, outage: BaseException | None = None) -> None:
        """Record what the job does now. `outage`: the error whose end the job waits for."""
        self.role, self.outage = role, None if outage is None else str(outage)
        if role == "standby":
            self._event_time_ms = None  # the tables are another job's
        if role == "active":
            self._maintained_at.set_to_current_time()
        if outage is not None:
            self._outages.labels(type(outage).__name__).inc()
        for each in get_args(Role):
            self._role.labels(each).set(each == role)

    def readiness(self) -> str | None:
        """Return the reason for which /readyz answers 503; None for a job that is active or stands by."""
        if self.role in ("active", "standby"):
            return None
        return f"the job waits for the end of an outage: {self.outage}" if self.outage else "the job is starting"

    def on_point(self, point: str) -> None:
        """Measure how long each table's write takes. The publisher calls this at each of its points."""
        verb, _, table = point.partition(" ")
        match verb:
            case "writing":
                self._writing_since_s[table] = time.monotonic()
            case "maintained":
                self._maintained_at.set_to_current_time()
            case "publishing":
                self._writing_since_s[SNAPSHOT.name] = time.monotonic()
            case "written" | "published":
                began_s = self._writing_since_s.pop(table or SNAPSHOT.name, None)
                if began_s is not None:
                    self._tables.labels(table or SNAPSHOT.name).observe(time.monotonic() - began_s)

    def claimed(self, row: SnapshotRow) -> None:
        """Note the claim of a term."""
        self._term.set(row.term)
        self._event_time_ms = row.event_time
        self._published(row)

    def applied(self, event_time_ms: int | None, brokers: int, suspects: int) -> None:
        """Note how far a micro-batch has read the log, and the number of leases and of those that the guard holds."""
        self._event_time_ms = event_time_ms
        self._brokers.set(brokers)
        self._suspects.set(suspects)

    def published(self, row: SnapshotRow, events: Iterable[BrokerEventRow]) -> None:
        """Note a snapshot and the lines of history in it."""
        self._published(row)
        for event in events:
            if event.type in LEASE_ENDS and event.lease_millis is not None:
                self._ends.labels(event.type).inc()

    def _published(self, row: SnapshotRow) -> None:
        self._epoch.set(row.epoch)
        self._publications.labels(row.kind or "").inc()
        self._published_at.set(row.published_at / 1000)

    def follow(self, query: StreamingQuery) -> None:
        """Note what Spark has reported of the query's micro-batches since the last call."""
        for progress in query.recentProgress:
            if progress.timestamp > self._progress_at:
                self._progress_at = progress.timestamp
                self.progressed(progress)

    def progressed(self, progress: Any) -> None:
        """Note what Spark reports of one micro-batch: a StreamingQueryProgress."""
        for phase, millis in progress.durationMs.items():
            self._phases.labels(phase).observe(millis / 1000)
        for state in progress.stateOperators:
            self._state_rows.set(state.numRowsTotal)
            self._state_bytes.set(state.memoryUsedBytes)
        known = [source for source in progress.sources if _is_known(source.latestOffset, source.endOffset)]
        behind = [_last(source.latestOffset) - _last(source.endOffset) for source in known]
        self._lag_records.set(max(0, sum(behind)))

    def _lag_now_s(self) -> float:
        return 0.0 if self._event_time_ms is None else max(0.0, time.time() - self._event_time_ms / 1000)


def _free_ratio(place: Path) -> float:
    try:
        there = next(each for each in (place, *place.parents) if each.is_dir())
        usage = shutil.disk_usage(there)
    except OSError:
        return 0.0
    return usage.free / usage.total if usage.total else 1.0  # a file system without a size


def _is_known(*offsets: str | None) -> bool:
    """Return whether Spark named all of these offsets: for Java's null pyspark has the text None."""
    return all(each not in (None, "", "None", "null") for each in offsets)


def _last(offsets: str) -> int:
    """Return the sum of the offsets in Spark's JSON {topic: {partition: offset}}."""
    return sum(offset for partitions in json.loads(offsets).values() for offset in partitions.values())

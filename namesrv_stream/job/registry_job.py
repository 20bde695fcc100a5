"""The main job: waits for its turn, claims the registry, runs the query, and runs it again after an outage."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from functools import partial
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tenacity import RetryCallState, Retrying, retry_if_exception, sleep_using_event, stop_when_event_set

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments, log_notes
from namesrv_stream.errors import (
    KafkaUnreachableError,
    NamesrvError,
    NoSuchSnapshotError,
    NotARegistryError,
    StorageError,
    TermLostError,
)
from namesrv_stream.job.checkpoint import Checkpoint, reach_checkpoint
from namesrv_stream.job.claim import TermWatch, append_time_ms_at, claimant, log_to_go_on_with, require_same_log
from namesrv_stream.job.failures import (
    CheckpointHeldError,
    CheckpointUnusableError,
    FailedAttempts,
    JobFailedError,
    job_failure,
    require_descriptor,
    require_session,
    require_sound_spark,
    storage_errors,
)
from namesrv_stream.job.hang_watch import HangWatch, pid_of_jvm
from namesrv_stream.job.job_metrics import JobMetrics
from namesrv_stream.job.micro_batch import PROGRESS_MS, MicroBatches
from namesrv_stream.job.query import Beginning, WarmUp, check_query, start_query
from namesrv_stream.job.table_maintenance import TableMaintenance
from namesrv_stream.kafka.election import SESSION_TIMEOUT_MS, JobLock, JobReport
from namesrv_stream.kafka.producer import HeartbeatProducer, Ticker
from namesrv_stream.kafka.record_reader import LOG_PARTITION, RecordGoneError, RecordReader
from namesrv_stream.kafka.topic import (
    beginning_offsets,
    describe_topic,
    end_offsets,
    ensure_topic,
    require_one_order,
    wait_for_kafka,
)
from namesrv_stream.reporting.metrics_server import MonitoringServer, add_process_metrics
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.damage_watch import DamageWatch
from namesrv_stream.tables.job_progress import ProgressFile
from namesrv_stream.tables.object_store import writer_of
from namesrv_stream.tables.publication import KafkaLog, OnPoint, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import LIVE
from namesrv_stream.tables.snapshots import SnapshotTable
from namesrv_stream.tables.writer import BaseMovedError

log = logging.getLogger(__name__)
T = TypeVar("T")

_LOOK_EVERY_S = 1.0
_FORMER_STOPS_WITHIN_S = 10.0 + SESSION_TIMEOUT_MS / 1000
"""The time within which a replaced job has stopped in order, or Kafka has taken its lock away."""

_LEAVE_TO_OTHER_S = 3.0
"""The time for which a job leaves the lock to another one. It may be back while the other holds it."""

_IDLE = "Waiting for data to arrive"
"""Spark's status of a query that has nothing to do: an outage is over, although no record proves it."""

_HAND_OVER_AFTER = 3
"""Failed attempts in a row after which a job that waits may take the registry over."""

_WAITED_OUT = (
    KafkaUnreachableError,
    RecordGoneError,  # the next attempt goes on with the oldest record
    StorageError,
    CheckpointHeldError,
    CheckpointUnusableError,
    BaseMovedError,
)


class _SteppedAsideError(NamesrvError):
    """This job no longer has the lock, or has failed again and again and given it to a job that waits."""


class RouteRegistryJob:
    """The job, which runs until `stop` is set.

    It waits for the end of each outage of Kafka or the storage, and claims the registry anew. A job that is started in
    its place ends it (TermLostError), or with `standby` makes it wait again. A job that has lost the registry in any
    other way, after failures or because Kafka did not hear from it, waits for its next turn.

    `on_point` is called at each point of a publication
    (see `Publisher.claim`). `accepts_new_log` allows once that the topic is not the one from which the tables were
    made. `is_replay` allows a topic with CreateTime, and publishes the signs of
    life of each micro-batch.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: NamesrvSettings,
        on_point: OnPoint = lambda _point: None,
        *,
        accepts_new_log: bool = False,
        is_replay: bool = False,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._on_point = on_point
        self._accepts_new_log = accepts_new_log
        self._is_replay = is_replay
        self._kafka = kafka_client_arguments(settings)
        self._root = Root(settings.delta_root, settings.storage_options or None)
        self._stop = threading.Event()
        self.run_id = uuid.uuid4().hex
        self._lock = JobLock(self._kafka, settings.kafka_topic, self._root.hadoop_url, self.run_id, self._report)
        self.metrics = JobMetrics()
        self.started = threading.Event()
        """Set while a query runs: the tables exist, and this run holds the registry."""
        self.query: StreamingQuery | None = None
        self._batches: MicroBatches | None = None
        self._steps = 0
        self._is_standby = settings.standby
        self._has_claimed = False
        self._has_read_tables = settings.standby
        """True once the storage has worked. From then on an error of the storage is an outage, not a wrong setting."""
        self._failed = FailedAttempts()
        self._silence: Callable[[], str | None] = lambda: None
        self._warm_up = WarmUp(spark, settings, self.run_id)
        self._started_at_s = time.monotonic()

    @property
    def next_offset(self) -> int:
        """The `next_offset` of `MicroBatches`; 0 before the first query."""
        return self._batches.next_offset if self._batches is not None else 0

    def run(self, stop: threading.Event) -> None:
        """Lead the registry until `stop` is set, as a standby whenever it is this job's turn. Raises NamesrvError."""
        self._stop = stop
        log_notes(self._settings)
        with (
            HangWatch(self._spark, self._lock.give_up, self._step, self._is_in_batch) as watch,
            DamageWatch(self._root) as damage,
            self._pages(watch, damage),
        ):
            self._silence = watch.readiness
            self.metrics.watch_hangs(watch.jvm_silent_s, watch.query_still_s)
            self._run()

    def _report(self) -> tuple[int, JobReport]:
        """Return how far the tables are, and what this job tells others about itself."""
        problem = self._silence() or self.metrics.outage
        return self.next_offset, JobReport(self.run_id, self.metrics.role, problem)

    def _pages(self, watch: HangWatch, damage: DamageWatch) -> AbstractContextManager[object]:
        """Serve the monitoring pages within a `with`, if a port for them is set. Raises NamesrvError.

        A process that does not hang is healthy: a restart would not help a job that waits for Kafka or for its turn.
        """
        port, metrics = self._settings.job_metrics_port, self.metrics
        if not port:
            return nullcontext()
        metrics.watch_storage(self._settings, lambda: damage.is_damaged)
        add_process_metrics(metrics.registry, "namesrv_jvm", pid_of_jvm(self._spark))
        checks = {
            "/healthz": watch.health,
            "/readyz": lambda: watch.readiness() or metrics.readiness() or damage.damaged,
        }
        address = self._settings.bind_address, port
        return closing(MonitoringServer(metrics.registry, address, "job.metricsPort", checks))

    def _step(self) -> tuple[int, int] | None:
        """Return a value that changes with each step of the query; None if no query runs."""
        batches = self._batches if self.started.is_set() else None
        return None if batches is None else (self._steps, batches.applied_offset)

    def _is_in_batch(self) -> bool:
        query = self.query if self.started.is_set() else None
        return query is not None and bool(query.status["isTriggerActive"])

    def _run(self) -> None:
        reach_checkpoint(self._spark, self._settings)
        self._keep_trying(self._prepare_topic)
        if self._stop.is_set():
            return
        with self._lock:
            if self._settings.standby or self._lock.others():
                self._warm_up.run(self._stop, self._lock.held)
            while not self._is_standby or self._stand_by():
                try:
                    self._keep_trying(self._run_query, self._step_aside)
                    return
                except TermLostError as lost:
                    if not self._is_standby and not self._lock.is_lost:  # the other job was started in its place
                        raise
                    log.warning("run %s has taken over; this job is a standby again", lost.newer_run_id)
                    self._lock.step_back(_LEAVE_TO_OTHER_S)
                except _SteppedAsideError as stepped:
                    log.warning("this job steps down to standby: %s", stepped)
                self._is_standby, self._has_claimed = True, False

    def _step_aside(self) -> None:
        """Let a job that waits have the lock if this one fails again and again: the fault may be this machine's."""
        if self._failed.in_a_row >= _HAND_OVER_AFTER and self._lock.others():
            self._lock.step_back(_LEAVE_TO_OTHER_S)
            self._stop.wait(self._failed.pause_s)
            raise _SteppedAsideError("its attempts fail, and another job can take over")

    def _stand_by(self) -> bool:
        """Wait as a standby until no other job is active; return False when this one is stopped."""
        log.info("this job is a standby: another job of the registry %s is active", self._settings.delta_root)
        return bool(self._keep_trying(self._await_turn))

    def _await_turn(self) -> bool:
        self.metrics.take_role("standby")
        while not self._stop.is_set():
            require_session(self._spark)
            if self._lock.held.wait(_LOOK_EVERY_S):
                other = self._other_claimant()
                if other is None:
                    return True
                if other in self._lock.others():
                    self._lock.step_back(_LEAVE_TO_OTHER_S)
                self._stop.wait(_LOOK_EVERY_S)
                self._warm_up.run(self._stop, self._lock.held)  # goes on if the lock has cut it short before
        return False

    def _other_claimant(self) -> str | None:
        try:
            with storage_errors(self._settings):
                newest = SnapshotTable(self._root).newest()
        except (NotARegistryError, NoSuchSnapshotError):
            return None
        return claimant(newest, self.run_id, self._lock.others, time.time() * 1000)

    def _keep_trying(self, attempt: Callable[[], T], before_next: Callable[[], None] = lambda: None) -> T | None:
        """Call `attempt`, again after each outage, and return its result; None if the job is stopped in an outage."""

        def on_outage(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            self.metrics.take_role("waiting", error)
            log.warning("%s Retrying in %.0f s.", error, self._failed.pause_s)
            before_next()

        retrying = Retrying(
            retry=retry_if_exception(self._can_wait_out),
            wait=lambda _state: self._failed.pause_s,
            stop=stop_when_event_set(self._stop),
            sleep=sleep_using_event(self._stop),
            before_sleep=on_outage,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except _WAITED_OUT:
            if not self._stop.is_set():
                raise
            return None

    def _can_wait_out(self, error: BaseException) -> bool:
        """Count a failed attempt, and return whether to try again.

        A storage that never worked is a wrong setting, not an outage.
        """
        require_descriptor()
        is_unknown = isinstance(error, JobFailedError)
        self._failed.add(time.monotonic() - self._started_at_s, is_unknown=is_unknown)
        if is_unknown:
            return not self._failed.are_a_defect
        return isinstance(error, _WAITED_OUT) and (self._has_read_tables or not isinstance(error, StorageError))

    def _run_query(self) -> None:
        self._started_at_s = time.monotonic()
        log_here = self._prepare_topic()
        if self._is_standby and not self._lock.held.is_set():
            raise _SteppedAsideError("Kafka gave the lock of the registry to another job")
        # A job that cannot run ends before it ends another one by its claim.
        with storage_errors(self._settings):
            self._checkpoint(log_here).make_base()
        require_sound_spark(self._spark.version)
        check_query(self._spark, self._settings)
        with storage_errors(self._settings):
            publisher = self._claim(log_here)
            terms = TermWatch(self._root, publisher.last)
        with ExitStack() as open_things:
            self._await_lock(terms)
            with storage_errors(self._settings):
                reader = open_things.enter_context(RecordReader(self._kafka, self._settings.kafka_topic))
                checkpoint = self._checkpoint(log_here, publisher.last.log_accepted_at)
                next_offset = self._next_offset(publisher, checkpoint)
                beginning = Beginning(next_offset, publisher.table(LIVE.name))
            show = ProgressFile(self._root).write
            loading = open_things.enter_context(ThreadPoolExecutor(1, "load-tables")).submit(
                MicroBatches,
                self._settings,
                publisher,
                reader,
                next_offset,
                self.metrics,
                show,
                0 if self._is_replay else PROGRESS_MS,
            )
            if self._settings.job_ticker:
                producer = open_things.enter_context(HeartbeatProducer(self._kafka, self._settings.kafka_topic))
                open_things.enter_context(Ticker(producer, self._settings.tick_millis))
            with storage_errors(self._settings):
                # Spark starts the query while the tables are loaded, which takes 3 s for 3,000,000 rows.
                query = start_query(self._spark, self._settings, loading, beginning, checkpoint)
                open_things.callback(self._stop_query, query, loading)
                batches = loading.result()
            open_things.callback(self.started.clear)
            self.query, self._batches = query, batches
            open_things.enter_context(TableMaintenance(self._root, self._settings, self._note_point))
            self.metrics.query_starts.inc()
            if self.metrics.outage is None:
                self.metrics.take_role("active")
            self.started.set()
            self._warm_up.is_done = True
            try:
                self._watch(query, batches, terms)
            except TermLostError:
                batches.abandon()
                raise
            except (CheckpointUnusableError, JobFailedError) as error:
                require_same_log(log_here, describe_topic(self._kafka, self._settings.kafka_topic))
                # The checkpoint has planned the batch that failed. A new checkpoint plans another batch, without loss.
                self._stop_query(query, loading)
                if batches.failure is None:  # else it failed on the driver, and the checkpoint is as good as before
                    with storage_errors(self._settings):
                        checkpoint.put_aside(str(error))
                raise

    def _prepare_topic(self) -> KafkaLog:
        """Make the topic if it is missing, refuse one without one order, and log what its settings cost."""
        wait_for_kafka(self._kafka, limit_s=0)
        facts = ensure_topic(self._kafka, self._settings.kafka_topic)
        require_one_order(facts, self._kafka, is_replay=self._is_replay)
        self.metrics.log_retention_s.set(facts.retention_s)
        if not self._has_claimed and not self._is_replay:
            for warning in facts.warnings:
                log.warning("settings of %s", warning)
        return KafkaLog(facts.cluster_id, facts.topic_id)

    def _claim(self, log_here: KafkaLog) -> Publisher:
        settings, kafka, topic = self._settings, self._kafka, self._settings.kafka_topic
        end = end_offsets(kafka, topic).get(LOG_PARTITION, 0)  # before the claim, which has to be quick
        publisher = Publisher.claim(
            writer_of(self._root),
            self.run_id,
            time.time_ns() // 1_000_000,
            self._note_step,
            lambda former: self._log_of(former, log_here, end),
            int(settings.snapshot_exact.total_seconds() * 1000),
        )
        self._has_claimed = True
        self.metrics.claimed(publisher.last)
        self._accepts_new_log = False
        log.info("run %s is active for the registry %s with term %d", self.run_id, settings.delta_root,
                 publisher.last.term)  # fmt: skip
        if publisher.restored:
            log.warning("the job has restored the tables %s, which another run did not finish writing",
                        ", ".join(publisher.restored))  # fmt: skip
        return publisher

    def _note_step(self, point: str) -> None:
        self._steps += 1
        self._note_point(point)

    def _note_point(self, point: str) -> None:
        self.metrics.on_point(point)
        self._on_point(point)

    def _log_of(self, former: SnapshotRow | None, log_here: KafkaLog, end: int) -> KafkaLog:
        """Return the log to go on with. Raises an error if another run holds the registry, or the log is another one.

        A job that starts and a standby that takes over may follow any run. After an outage the job goes on only if no
        other run has claimed the registry meanwhile. `end`: the end of the log a moment ago.
        """
        self._has_read_tables = True
        if former is None:
            return log_here
        if self._has_claimed and former.run_id != self.run_id:
            raise TermLostError(former.term - 1, former.term, former.run_id)
        topic = self._settings.kafka_topic
        if former.offsets.get(LOG_PARTITION, 0) > end:  # the other job publishes on
            end = end_offsets(self._kafka, topic).get(LOG_PARTITION, 0)
        append_time_ms = partial(append_time_ms_at, self._kafka, topic)
        silent_ms = max(0, time.time_ns() // 1_000_000 - ProgressFile(self._root).row_now(former).published_at)
        return log_to_go_on_with(
            former, log_here, topic, end, append_time_ms, accepts_new=self._accepts_new_log, silent_ms=silent_ms
        )

    def _checkpoint(self, log_here: KafkaLog, accepted_at_ms: int | None = None) -> Checkpoint:
        return Checkpoint(self._spark, self._settings.checkpoint_location, log_here.topic_id, accepted_at_ms)

    def _await_lock(self, terms: TermWatch) -> None:
        """Wait until the former job has stopped, because two queries on one checkpoint make each other fail."""
        given_up_s = time.monotonic() + _FORMER_STOPS_WITHIN_S
        if self._lock.held.is_set():
            return
        log.info("the job waits for the lock of the registry, up to %.0f s if a former job still runs",
                 _FORMER_STOPS_WITHIN_S)  # fmt: skip
        while not self._lock.held.wait(_LOOK_EVERY_S) and not self._stop.is_set():
            terms.check()
            if time.monotonic() > given_up_s:
                log.warning("the job takes over, because the former one has kept the lock for %.0f s; that one cannot "
                            "publish any more, because its term has ended", _FORMER_STOPS_WITHIN_S)  # fmt: skip
                return

    def _next_offset(self, publisher: Publisher, checkpoint: Checkpoint) -> int:
        """Return the offset to read from: the last snapshot's, or the oldest record's if the tables are new."""
        known = publisher.last.offsets.get(LOG_PARTITION)
        topic = self._settings.kafka_topic
        first = beginning_offsets(self._kafka, topic).get(LOG_PARTITION, 0)
        checkpoint.make_ready(topic, first, are_tables_empty=known is None)
        if known is None:
            return first
        if known < first:
            log.error("records of topic %s from offset %d to %d are lost: Kafka deleted them before the job read them. "
                      "Each broker's next full registration restores its routes. Check the topic's retention.",
                      topic, known, first - 1)  # fmt: skip
        return max(known, first)

    def _watch(self, query: StreamingQuery, batches: MicroBatches, terms: TermWatch) -> None:
        while not self._stop.wait(_LOOK_EVERY_S):
            terms.check()
            batches.tick_silence.look()
            if self.metrics.outage and (batches.has_handled or query.status["message"] == _IDLE):
                self.metrics.take_role("active")
                self._failed.end_outage()
            if not query.isActive:
                require_session(self._spark)
                failure = str(query.exception() or "it was stopped from outside")
                raise job_failure(self._settings, batches.failure, failure)
            if self._settings.job_metrics_port:
                self.metrics.follow(query)

    @staticmethod
    def _stop_query(query: StreamingQuery, batches: Future[MicroBatches]) -> None:
        """Stop the query in order. A query that does not stop must not hide the error that ended it."""
        try:
            if query.isActive and batches.exception() is None:
                batches.result().close()
            query.stop()
        except (PySparkException, Py4JError) as error:
            log.warning("the streaming query did not stop cleanly: %s", str(error).splitlines()[0])

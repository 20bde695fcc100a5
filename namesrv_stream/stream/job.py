"""The main job: claims the registry, runs the query, and keeps it running through what passes."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_when_event_set,
)

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments, settings_without_effect
from namesrv_stream.errors import (
    KafkaUnreachableError,
    SettingError,
    TermLostError,
)
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.kafka.ticker import Ticker
from namesrv_stream.kafka.topic import beginning_offsets, end_offsets, ensure_topic, wait_for_kafka
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.stream.failures import CheckpointWithoutTablesError, job_failure, storage_errors
from namesrv_stream.stream.micro_batch import MicroBatches
from namesrv_stream.stream.query import has_checkpoint, start_query
from namesrv_stream.tables.publication import Publisher, Steps
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.rust_writer import RustWriter
from namesrv_stream.tables.schemas import LIVE

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_SILENT_TICKS_S = 60.0
_LONGEST_PAUSE_S = 30.0
_RAN_FOR_A_WHILE_S = 120.0
"""More than all attempts to reach a Kafka that is away may take."""


class RouteRegistryJob:
    """Runs until `stop` is set. An outage of Kafka is waited out; a newer run's claim ends it (TermLostError).

    `on_step` is told the steps of each publication, as `Publisher.claim` says.
    """

    def __init__(self, spark: SparkSession, settings: NamesrvSettings, on_step: Steps = lambda _step: None) -> None:
        self._spark = spark
        self._settings = settings
        self._on_step = on_step
        self._kafka = kafka_client_arguments(settings)
        self.run_id = uuid.uuid4().hex
        self.started = threading.Event()
        """Set while a query runs: the tables are there, the term is ours."""
        self.query: StreamingQuery | None = None
        self._batches: MicroBatches | None = None
        self._term: int | None = None
        self._failed_in_a_row = 0
        self._started_at_s = 0.0

    @property
    def offsets(self) -> Mapping[int, int]:
        """As those of `MicroBatches`; none before the first query."""
        return self._batches.offsets if self._batches is not None else {}

    def run(self, stop: threading.Event) -> None:
        """Run the query, again after each outage of Kafka, until `stop` is set. Raises NamesrvError otherwise."""
        for key in settings_without_effect(self._settings):
            log.warning("setting %s is accepted and has no effect here: docs/configuration.md says why", key)
        attempts = Retrying(
            retry=retry_if_exception_type(KafkaUnreachableError),
            wait=self._pause_s,
            stop=stop_when_event_set(stop),
            sleep=sleep_using_event(stop),
            before_sleep=_say_next_attempt,
            reraise=True,
        )
        try:
            attempts(self._run_query, stop)
        except KafkaUnreachableError:
            if not stop.is_set():
                raise

    def _pause_s(self, _state: RetryCallState) -> float:
        """Before the next attempt. Grows, anew after a query that ran for a while."""
        ran_s = time.monotonic() - self._started_at_s
        self._failed_in_a_row = 1 if ran_s > _RAN_FOR_A_WHILE_S else self._failed_in_a_row + 1
        return min(_LONGEST_PAUSE_S, 2.0 ** (self._failed_in_a_row - 1))

    def _run_query(self, stop: threading.Event) -> None:
        self._started_at_s = time.monotonic()
        self._prepare_topic()
        with storage_errors(self._settings):
            publisher = self._claim()
            batches = MicroBatches(self._settings, publisher, offsets := self._known_offsets(publisher))
        with ExitStack() as open_things:
            if self._settings.job_ticker:
                producer = open_things.enter_context(HeartbeatProducer(self._kafka, self._settings.kafka_topic))
                open_things.enter_context(Ticker(producer, self._settings.tick_millis))
            query = start_query(self._spark, self._settings, batches, publisher.table(LIVE.name), offsets)
            open_things.callback(self._stop_query, query, batches)
            open_things.callback(self.started.clear)
            self.query, self._batches = query, batches
            self.started.set()
            self._watch(query, batches, stop)

    def _prepare_topic(self) -> None:
        """Make the topic or name what its settings cost. Several partitions and a limit per batch lose heartbeats."""
        wait_for_kafka(self._kafka, limit_s=0)
        for warning in ensure_topic(self._kafka, self._settings.kafka_topic):
            log.warning("%s", warning)
        partitions = len(end_offsets(self._kafka, self._settings.kafka_topic))
        if partitions == 1 or self._settings.max_offsets_per_trigger is None:
            return
        if "max_offsets_per_trigger" in self._settings.model_fields_set:
            raise SettingError(
                "maxOffsetsPerTrigger",
                f"loses heartbeats of a backlog on a topic with {partitions} partitions",
                "Set it to none, or use a topic with one partition.",
            )
        log.warning("a backlog on %d partitions is read in one micro-batch, however large: a limit loses heartbeats",
                    partitions)  # fmt: skip
        self._settings = self._settings.model_copy(update={"max_offsets_per_trigger": None})

    def _claim(self) -> Publisher:
        settings = self._settings
        root = Root(settings.delta_root, settings.storage_options or None)
        retention_ms = int(settings.snapshot_retention.total_seconds() * 1000)
        check = self._check_former
        publisher = Publisher.claim(RustWriter(root), self.run_id, _now_ms(), retention_ms, self._on_step, check)
        self._term = publisher.last.term
        log.info("run %s holds the registry %s: term %d", self.run_id, settings.delta_root, publisher.last.term)
        if publisher.restored:
            log.warning("restored what another run left half done: %s", ", ".join(publisher.restored))
        return publisher

    def _check_former(self, former: SnapshotRow | None) -> None:
        """A checkpoint says what has been read; where the tables that it went into are gone, routes would be lost.
        After an outage the registry is ours only as long as nobody else has claimed it."""
        settings = self._settings
        if former is None and has_checkpoint(self._spark, settings.checkpoint_location):
            raise CheckpointWithoutTablesError(settings.checkpoint_location, settings.delta_root)
        if former is not None and self._term is not None and former.term != self._term:
            raise TermLostError(self._term, former.term, former.run_id)

    def _known_offsets(self, publisher: Publisher) -> dict[int, int]:
        """Up to where the tables have the log: a new checkpoint begins to read there, if Kafka still has it."""
        offsets = publisher.last.offsets
        topic = self._settings.kafka_topic
        ends = end_offsets(self._kafka, topic)
        if any(offset > ends.get(number, 0) for number, offset in offsets.items()):
            log.warning("topic %s ends at %s, before the last snapshot's %s: it was made anew and is read from its "
                        "start", topic, ends, offsets)  # fmt: skip
            return {}
        begins = beginning_offsets(self._kafka, topic)
        if any(offset < begins.get(number, 0) for number, offset in offsets.items()):
            log.error("topic %s begins at %s, after the last snapshot's %s: what was said in between is lost and "
                      "comes back with each broker's next full registration", topic, begins, offsets)  # fmt: skip
        return {number: max(offset, begins.get(number, 0)) for number, offset in offsets.items()}

    def _watch(self, query: StreamingQuery, batches: MicroBatches, stop: threading.Event) -> None:
        watched = _Watch(query, batches)
        while not stop.wait(_LOOK_EVERY_S):
            watched.look()
            if not query.isActive:
                said = str(query.exception() or "it was stopped from outside")
                raise job_failure(self._settings, batches.failure, said)

    @staticmethod
    def _stop_query(query: StreamingQuery, batches: MicroBatches) -> None:
        try:
            if query.isActive:
                batches.close()
        finally:
            query.stop()


class _Watch:
    """Looks at a running query: records that Spark dropped, and ticks that do not come."""

    def __init__(self, query: StreamingQuery, batches: MicroBatches) -> None:
        self._query = query
        self._batches = batches
        self._seen_batch = -1
        self._said_silent = False

    def look(self) -> None:
        for progress in self._query.recentProgress:
            if progress.batchId > self._seen_batch:
                self._seen_batch = progress.batchId
                dropped = sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
                if dropped:
                    log.error("batch %d: Spark dropped %d records that came later than the watermark allows: does the "
                              "topic have CreateTime or several partitions?", progress.batchId, dropped)  # fmt: skip
        silent = time.monotonic() - self._batches.last_tick_at_s > _SILENT_TICKS_S
        if silent and not self._said_silent:
            log.warning("no tick for a minute: brokers that fall silent stay in their routes until the next record. "
                        "Run a gateway or a fleet, or set jobTicker=true")  # fmt: skip
        self._said_silent = silent


def _say_next_attempt(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    pause_s = state.next_action.sleep if state.next_action else 0
    log.warning("%s Next attempt in %.0f s; no record is lost.", error, pause_s)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

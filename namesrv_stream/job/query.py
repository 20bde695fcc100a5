"""Build and start the streaming query, which gives records and evictions to foreachBatch.

A new checkpoint begins with the last snapshot's offset and leases.

Before it the session is warmed up: its first micro-batch takes ten times as long as the next ones, while the JVM
compiles, Python workers start and import, and Kafka's consumers connect. A job that replaces another one warms up while
the other still publishes. A job that is started right after the other died begins cold: Kafka gives it the lock within
6 s, before its warm-up ends.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import namesrv_stream
from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.job.checkpoint import Checkpoint, remove_folder, set_up_checkpoint
from namesrv_stream.job.liveness import OUTPUT_SCHEMA, BrokerLiveness
from namesrv_stream.job.micro_batch import BrokenOffError, MicroBatches, collected
from namesrv_stream.job.source import kafka_records, log_rows, signs_of_life
from namesrv_stream.kafka.record_reader import LOG_PARTITION
from namesrv_stream.kafka.topic import beginning_offsets, end_offsets
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.schemas import LIVE

log = logging.getLogger(__name__)

QUERY_NAME = "route-registry"

_QUERY_OPTIONS = {
    "spark.sql.streaming.numRecentProgressUpdates": "10",  # all of them are read each second
    # Ticks come anyway, so a batch without records for a moved watermark would only double the work.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Each task of each micro-batch would generate Java code and look it up: more work than its few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.stopTimeout": "60s",  # not for ever: a batch may wait for a Python process that hangs
    "spark.sql.adaptive.enabled": "false",  # a stateful query does not use it, and would log that at each start
}

_RECORDS = 100
_LOOK_EVERY_S = 0.2
WARM_UP_LIMIT_S = 60
"""Limit of a warm-up, which takes 10 s. A job that is about to claim the registry does not wait for one that hangs."""


class Beginning(NamedTuple):
    """The beginning of a new checkpoint: the offset to read Kafka from, and the leases of the last snapshot."""

    next_offset: int
    live: pa.Table


def start_query(
    spark: SparkSession,
    settings: NamesrvSettings,
    batches: Future[MicroBatches],
    beginning: Beginning,
    checkpoint: Checkpoint,
) -> StreamingQuery:
    """Start the registry's query. Its first micro-batch waits until `batches` has a result."""

    def handle(frame: DataFrame, batch_id: int) -> None:
        if batches.exception() is not None:  # the job reports that, and stops the query
            raise BrokenOffError
        batches.result()(frame, batch_id)

    show_workers_this_package(spark)
    check_query(spark, settings)
    is_new = not checkpoint.has_finished_a_batch()
    records = kafka_records(spark, settings, beginning.next_offset if is_new else None)
    leases = known_leases(spark, beginning.live) if is_new and len(beginning.live) else None
    writer = (
        registry_rows(records, leases)
        .writeStream.queryName(QUERY_NAME)
        .foreachBatch(handle)
        .option("checkpointLocation", checkpoint.location)
        .trigger(processingTime=f"{settings.trigger_millis} milliseconds")
    )
    return writer.start()


def check_query(spark: SparkSession, settings: NamesrvSettings) -> None:
    """Set the session up for the query, and raise the error that would keep it from starting.

    Reads and writes nothing.
    """
    set_up_checkpoint(spark, settings.checkpoint_location)
    for key, value in _QUERY_OPTIONS.items():
        spark.conf.set(key, value)
    kafka_records(spark, settings, None)


def show_workers_this_package(spark: SparkSession) -> None:
    """Let all Python workers import this package.

    Spark loads a stateful processor in a worker on the driver first, which does not get --py-files' zip.
    """
    environment: dict[str, str] = spark.sparkContext.environment
    folder_or_zip = str(Path(namesrv_stream.__file__).parents[1])
    others = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path not in {"", folder_or_zip}]
    environment["PYTHONPATH"] = os.pathsep.join([folder_or_zip, *others])


def registry_rows(records: DataFrame, leases: DataFrame | None = None) -> DataFrame:
    """The rows of a micro-batch: one a record, as it is, and one an address whose state was evicted.

    An eviction has no offset, its address as key, and its last sign of life as time. `leases`: the state to begin with.
    """
    evictions = (
        signs_of_life(records)
        .withWatermark("event_time", "0 milliseconds")
        .groupBy("broker_addr")
        .transformWithState(
            BrokerLiveness(),
            outputStructType=OUTPUT_SCHEMA,
            outputMode="append",
            timeMode="eventTime",
            initialState=None if leases is None else leases.groupBy("broker_addr"),
        )
    )
    nothing = F.lit(None)
    return log_rows(records).unionAll(
        evictions.select(
            nothing.cast("long").alias("offset"),
            F.col("last_heard_ms").alias("append_time_ms"),
            F.col("broker_addr").cast("binary").alias("key"),
            nothing.cast("binary").alias("value"),
            nothing.cast("long").alias("length"),
        )
    )


def known_leases(spark: SparkSession, live: pa.Table) -> DataFrame:
    """One row a lease of the table `live`, as the state begins with it."""
    rows = [
        (lease.broker_addr, lease.last_update_timestamp, lease.heartbeat_timeout_millis)
        for lease in rows_from_arrow(LIVE, live)
    ]
    return spark.createDataFrame(rows, "broker_addr STRING, last_heard_ms LONG, timeout_ms LONG")


class WarmUp:
    """A run of the registry's query plan over the newest records, whose rows are dropped.

    It has its own checkpoint beside the registry's and removes it. An error is only a warning: without a warm-up the
    job is slower at first.
    """

    def __init__(self, spark: SparkSession, settings: NamesrvSettings, run_id: str) -> None:
        self.is_done = False
        """True once the warm-up has ended or failed, or the registry's own query has started."""
        self._spark = spark
        self._settings = settings
        self._location = f"{settings.checkpoint_location.rstrip('/')}/warm-up-{run_id}"
        self._is_stopping = False

    def run(self, *ends: threading.Event) -> None:
        """Warm the session up unless that is done, until one of the events is set."""
        if self.is_done or _any_set(ends):
            return
        log.info("the job warms up its Spark session while it waits")
        try:
            self.is_done = self._ran_to_its_end(ends)
        except Exception as error:  # if it matters, the job gets the same error later and reports it
            self.is_done = True
            log.warning("the job cannot warm up its Spark session, so its first micro-batch takes longer: %s", error)
        with suppress(PySparkException, Py4JError):  # it may fail for the same reason as the warm-up
            remove_folder(self._spark, self._location)

    def _ran_to_its_end(self, ends: Sequence[threading.Event]) -> bool:
        """Run the query and return whether it ended. A standby waits anyway, so it has no time limit."""
        self._is_stopping = False
        query, until_s = self._started(), time.monotonic() + WARM_UP_LIMIT_S
        try:
            while (is_active := query.isActive) and not _any_set(ends):
                if time.monotonic() >= until_s and not self._settings.standby:
                    raise TimeoutError(f"it did not end within {WARM_UP_LIMIT_S:.0f} s")
                time.sleep(_LOOK_EVERY_S)
            if (failure := query.exception()) is not None:
                raise failure
            return not is_active
        finally:
            self._is_stopping = True
            query.stop()

    def _started(self) -> StreamingQuery:
        kafka, topic = kafka_client_arguments(self._settings), self._settings.kafka_topic
        first = beginning_offsets(kafka, topic).get(LOG_PARTITION, 0)
        end = end_offsets(kafka, topic).get(LOG_PARTITION, 0)
        show_workers_this_package(self._spark)
        check_query(self._spark, self._settings)
        records = kafka_records(self._spark, self._settings, max(first, end - _RECORDS))
        return (
            registry_rows(records)
            .writeStream.queryName("warm-up")
            .foreachBatch(lambda frame, _batch_id: collected(frame, lambda: self._is_stopping))
            .option("checkpointLocation", self._location)
            .trigger(availableNow=True)
            .start()
        )


def _any_set(events: Sequence[threading.Event]) -> bool:
    return any(event.is_set() for event in events)

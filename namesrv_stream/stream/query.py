"""The streaming query: Kafka source, stateful step, foreachBatch; and what a new checkpoint begins with."""

from __future__ import annotations

import json
import os
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import namesrv_stream
from namesrv_stream.config import NamesrvSettings, spark_kafka_options
from namesrv_stream.kafka.reader import LOG_PARTITION
from namesrv_stream.records import MAX_RECORD_BYTES
from namesrv_stream.stream.address_groups import group_of, in_groups
from namesrv_stream.stream.checkpoint import Checkpoint, set_up_checkpoint
from namesrv_stream.stream.limits import require_sound_spark
from namesrv_stream.stream.liveness import OUTPUT_SCHEMA, BrokerLiveness
from namesrv_stream.stream.micro_batch import BrokenOffError, MicroBatches
from namesrv_stream.stream.source import parsed_records
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.schemas import LIVE

QUERY_NAME = "route-registry"

_QUERY_OPTIONS = {
    "spark.sql.streaming.numRecentProgressUpdates": "10",  # whoever watches the query reads all of them, each second
    # Ticks come anyway: a batch without records, only because the watermark has moved, would double the work.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Each task of each micro-batch would write Java again and look it up: more work than its few rows are.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.stopTimeout": "60s",  # not for ever: a batch may wait for a Python that no longer answers
    "spark.sql.adaptive.enabled": "false",  # a stateful query runs without it, and would log so at each start
}

_FETCH_WAIT_MS = 10
"""A task's first poll waits behind the fetch that the last one left at the end of the log: Kafka's default of 500 ms
would be added to each micro-batch, and a task fetches only what it knows to be there."""

_KAFKA_LIMIT_MS = 15_000
"""A Kafka that is away for longer ends the query, so that the job logs it and tries again; Spark's own retries would
keep still for minutes. A shorter outage is only a late micro-batch."""


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
    """Start the registry's query. Its first micro-batch waits for `batches`."""

    def handle(frame: DataFrame, batch_id: int) -> None:
        if batches.exception() is not None:  # the job reports that, and stops the query
            raise BrokenOffError
        batches.result()(frame, batch_id)

    show_workers_this_package(spark)
    check_query(spark, settings)
    is_new = not checkpoint.has_finished_a_batch()
    records = kafka_records(spark, settings, beginning.next_offset if is_new else None)
    addresses = known_addresses(spark, beginning.live) if is_new and len(beginning.live) else None
    writer = (
        passed_on_records(parsed_records(records), settings, addresses)
        .writeStream.queryName(QUERY_NAME)
        .foreachBatch(handle)
        .option("checkpointLocation", checkpoint.location)
        .trigger(processingTime=f"{settings.trigger_millis} milliseconds")
    )
    return writer.start()


def check_query(spark: SparkSession, settings: NamesrvSettings) -> None:
    """Set the session up for the query, and raise what would keep it from starting. Nothing is read or written."""
    require_sound_spark(spark.version)
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


def kafka_records(spark: SparkSession, settings: NamesrvSettings, next_offset: int | None) -> DataFrame:
    """The heartbeat topic as a stream; a new checkpoint reads from `next_offset`, None: from the oldest record."""
    options = {
        "kafka.max.partition.fetch.bytes": str(MAX_RECORD_BYTES),
        "kafka.fetch.max.bytes": str(2 * MAX_RECORD_BYTES),
        "kafka.fetch.max.wait.ms": str(_FETCH_WAIT_MS),
        "kafka.request.timeout.ms": str(_KAFKA_LIMIT_MS),
        "kafka.default.api.timeout.ms": str(_KAFKA_LIMIT_MS),
        "kafkaConsumer.pollTimeoutMs": str(2 * _KAFKA_LIMIT_MS),
        "fetchOffset.numRetries": "1",
        "kafka.isolation.level": "read_uncommitted",
        **spark_kafka_options(settings),
        # Not `subscribe`, which would read a partition that is added while the job runs.
        "assign": json.dumps({settings.kafka_topic: [LOG_PARTITION]}),
        "startingOffsets": "earliest"
        if next_offset is None
        else json.dumps({settings.kafka_topic: {str(LOG_PARTITION): next_offset}}),
    }
    if settings.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(settings.max_offsets_per_trigger)
    return spark.readStream.format("kafka").options(**options).load()


def passed_on_records(records: DataFrame, settings: NamesrvSettings, addresses: DataFrame | None = None) -> DataFrame:
    """Rows of the stateful step (`OUTPUT_SCHEMA`) for parsed records; `addresses` is the state to begin with."""
    return (
        in_groups(records)
        .withWatermark("event_time", f"{settings.watermark_delay_millis} milliseconds")
        .groupBy("address_group")
        .transformWithState(
            BrokerLiveness(settings.watermark_delay_millis),
            outputStructType=OUTPUT_SCHEMA,
            outputMode="append",
            timeMode="eventTime",
            initialState=None if addresses is None else addresses.groupBy("address_group"),
        )
    )


def known_addresses(spark: SparkSession, live: pa.Table) -> DataFrame:
    """One row for each group of addresses of the table `live`: its addresses as the state begins with them."""
    groups: dict[int, list[tuple[str, int, int]]] = {}
    for lease in rows_from_arrow(LIVE, live):
        known = (lease.broker_addr, lease.heartbeat_timeout_millis, lease.last_update_timestamp)
        groups.setdefault(group_of(lease.broker_addr), []).append(known)
    rows = [(group, json.dumps(known)) for group, known in groups.items()]
    return spark.createDataFrame(rows, "address_group INT, addresses STRING")

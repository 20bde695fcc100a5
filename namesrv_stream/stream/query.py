"""The streaming query: Kafka source, liveness, foreachBatch; where a new checkpoint begins on old tables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import namesrv_stream
from namesrv_stream.config import NamesrvSettings, spark_kafka_options
from namesrv_stream.records import MAX_RECORD_BYTES
from namesrv_stream.rules.lease import ClockJump
from namesrv_stream.stream.liveness import OUTPUT_SCHEMA, STATE_SCHEMA, BrokerLiveness
from namesrv_stream.stream.micro_batch import MicroBatches
from namesrv_stream.stream.source import parsed_records

QUERY_NAME = "route-registry"

_EARLIEST = -2
_PROGRESS_KEPT = 10
"""Whoever watches the query reads all that is kept, each second."""

_FETCH_WAIT_MS = 10
"""A task's first poll waits behind the fetch that the last one left at the end of the log: Kafka's default of 500 ms
would be added to each micro-batch, and a task fetches only what it knows to be there."""

_KAFKA_LIMIT_MS = 15_000
"""A Kafka that is away for longer ends the query, so that the job says so and tries again; Spark's own retries would
keep still for minutes. A shorter outage is only a late micro-batch."""


def start_query(
    spark: SparkSession,
    settings: NamesrvSettings,
    batches: MicroBatches,
    live: pa.Table,
    offsets: Mapping[int, int],
) -> StreamingQuery:
    """Start the registry's query. `live` and `offsets` are the last snapshot's and count for a new checkpoint only:
    leases begin from the one, Kafka is read from the other."""
    _tell_workers_where_this_package_is(spark)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", _PROGRESS_KEPT)
    is_new = not has_checkpoint(spark, settings.checkpoint_location)
    records = kafka_records(spark, settings, offsets if is_new else {})
    leases = initial_leases(spark, live, settings.live_refresh_millis) if is_new and len(live) else None
    writer = (
        lease_events(parsed_records(records), settings, leases)
        .writeStream.queryName(QUERY_NAME)
        .foreachBatch(batches)
        .option("checkpointLocation", settings.checkpoint_location)
        .trigger(processingTime=f"{settings.trigger_millis} milliseconds")
    )
    return writer.start()


def _tell_workers_where_this_package_is(spark: SparkSession) -> None:
    """Spark loads a stateful processor in a Python worker on the driver first, which does not get --py-files' zip."""
    environment: dict[str, str] = spark.sparkContext.environment
    folder_or_zip = str(Path(namesrv_stream.__file__).parents[1])
    others = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path not in {"", folder_or_zip}]
    environment["PYTHONPATH"] = os.pathsep.join([folder_or_zip, *others])


def has_checkpoint(spark: SparkSession, location: str) -> bool:
    """Whether a query has finished a batch with this checkpoint, on whatever file system Hadoop reaches.

    Spark takes initial state in its first batch only, so until that one is done it has to be given again.
    """
    jvm = spark.sparkContext._jvm  # pyspark has no other way to Hadoop's file systems
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(f"{location}/commits")
    files = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    return bool(files.exists(path)) and len(files.listStatus(path)) > 0


def kafka_records(spark: SparkSession, settings: NamesrvSettings, offsets: Mapping[int, int]) -> DataFrame:
    """The heartbeat topic as a stream; `offsets` (partition -> next) count where the checkpoint has none."""
    options = {
        "kafka.max.partition.fetch.bytes": str(MAX_RECORD_BYTES),
        "kafka.fetch.max.bytes": str(2 * MAX_RECORD_BYTES),
        "kafka.fetch.max.wait.ms": str(_FETCH_WAIT_MS),
        "kafka.request.timeout.ms": str(_KAFKA_LIMIT_MS),
        "kafka.default.api.timeout.ms": str(_KAFKA_LIMIT_MS),
        "kafkaConsumer.pollTimeoutMs": str(2 * _KAFKA_LIMIT_MS),
        "fetchOffset.numRetries": "1",
        **spark_kafka_options(settings),
        "subscribe": settings.kafka_topic,
        "startingOffsets": _starting_offsets(settings.kafka_topic, offsets),
    }
    if settings.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(settings.max_offsets_per_trigger)
    return spark.readStream.format("kafka").options(**options).load()


def _starting_offsets(topic: str, offsets: Mapping[int, int]) -> str:
    if not offsets:
        return "earliest"
    of_all = {str(number): offsets.get(number, _EARLIEST) for number in range(max(offsets) + 1)}
    return json.dumps({topic: of_all})


def lease_events(records: DataFrame, settings: NamesrvSettings, leases: DataFrame | None = None) -> DataFrame:
    """Rows of the stateful step (`OUTPUT_SCHEMA`) for parsed records; `leases` are those to begin with."""
    jump = ClockJump(settings.clock_jump_millis, settings.clock_jump_grace_millis)
    delay_ms = settings.watermark_delay_millis
    return (
        records.withWatermark("event_time", f"{delay_ms} milliseconds")
        .groupBy("broker_addr")
        .transformWithState(
            BrokerLiveness(delay_ms, jump),
            outputStructType=OUTPUT_SCHEMA,
            outputMode="append",
            timeMode="eventTime",
            initialState=None if leases is None else leases.groupBy("broker_addr"),
        )
    )


def initial_leases(spark: SparkSession, live: pa.Table, lag_ms: int) -> DataFrame:
    """One row an address of the published `live` table, in the columns of the state.

    Published signs of life may be `lag_ms` behind, so a lease that begins from them lasts that much longer.
    """
    leases = [_lease_columns(row, lag_ms) for row in live.to_pylist()]
    return spark.createDataFrame(leases, f"broker_addr STRING, {STATE_SCHEMA}")


def _lease_columns(row: Mapping[str, Any], lag_ms: int) -> tuple[Any, ...]:
    heard_ms = _epoch_ms(row["last_update_timestamp"])
    return (
        row["broker_addr"],
        heard_ms,
        None,
        row["cluster_name"],
        row["broker_name"],
        row["broker_id"],
        row["heartbeat_timeout_millis"],
        _epoch_ms(row["lease_began_at"]),
        heard_ms + lag_ms,
        0,
        {},
    )


def _epoch_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)

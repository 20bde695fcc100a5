"""Read the heartbeat topic by Spark: all its records, and the signs of life among them that the keyed state needs.

Of each rejected record a row is kept, and the job's log has its line.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from namesrv_stream.answers.broker_lines import MAX_LINES
from namesrv_stream.config import NamesrvSettings, java_properties, spark_kafka_options
from namesrv_stream.job.liveness import LEFT
from namesrv_stream.kafka.record_reader import LOG_PARTITION, RecordReader, StoredRecord
from namesrv_stream.records import MAX_RECORD_BYTES
from namesrv_stream.rules.record_types import DEFAULT_HEARTBEAT_TIMEOUT_MS, MAX_HEARTBEAT_TIMEOUT_MS, MAX_NAME_CHARS
from namesrv_stream.rules.rows import RejectedRow

log = logging.getLogger(__name__)

MAX_REJECTED_BYTES = 64 * 1024
"""Limit of the bytes that are kept of a rejected record's value."""

MAX_REJECTED_KEY_BYTES = 1024
MAX_REASON_CHARS = 200
"""Limit of the reason, which may quote the record."""

MAX_CARRIED_BYTES = 4 * 1024
"""Largest value that Spark carries with its record: 80 MB for the 20,000 records that a batch has at most.

The driver reads a larger value from Kafka when the record's turn comes, so large records need no more memory.
"""

MAX_KEY_BYTES = 4 * MAX_NAME_CHARS + 1
"""Bytes of a key that come with its record. No valid broker address is so long."""

_FETCH_WAIT_MS = 10
"""A task's first poll waits for the fetch that the last task left open at the end of the log. Kafka's default of 500 ms
would delay each micro-batch. A task fetches only records that are known to exist, so it need not wait for more."""

_KAFKA_LIMIT_MS = 15_000
"""An outage of Kafka for longer ends the query, so that the job logs it and tries again; Spark's own retries would log
nothing for minutes. A shorter outage only delays a micro-batch."""


def rejected_row(stored: StoredRecord, event_time_ms: int, reason: str) -> RejectedRow:
    """Return the row that is kept of a record: the beginning of its value, because its length has no bound."""
    value = stored.value
    return RejectedRow(
        event_time_ms,
        LOG_PARTITION,
        stored.offset,
        stored.key[:MAX_REJECTED_KEY_BYTES].decode(errors="replace"),
        value[:MAX_REJECTED_BYTES] if value is not None else None,
        len(value or b""),
        reason[:MAX_REASON_CHARS],
    )


def log_rejected(rows: Sequence[RejectedRow]) -> None:
    """Log the records that one publication rejects: the first of them, and how many more there are.

    The gateway that refused a request has logged that.
    """
    rows = [row for row in rows if not row.reason.startswith("refused: ")]
    for row in rows[:MAX_LINES]:
        log.warning("the job rejected the record at partition %d, offset %d: %s", row.partition, row.offset, row.reason,
                    extra={"offset": row.offset})  # fmt: skip
    if len(rows) > MAX_LINES:
        log.warning("the job rejected %d more records, up to offset %d; `namesrv-stream rejected` lists them",
                    len(rows) - MAX_LINES, rows[-1].offset)  # fmt: skip


def kafka_records(spark: SparkSession, settings: NamesrvSettings, next_offset: int | None) -> DataFrame:
    """The heartbeat topic as a stream; a new checkpoint reads from `next_offset`, None: from the oldest record."""
    _set_java_properties(spark, settings)
    options = {
        "kafka.max.partition.fetch.bytes": str(MAX_RECORD_BYTES),
        "kafka.fetch.max.bytes": str(2 * MAX_RECORD_BYTES),
        "kafka.fetch.max.wait.ms": str(_FETCH_WAIT_MS),
        "kafka.request.timeout.ms": str(_KAFKA_LIMIT_MS),
        "kafka.default.api.timeout.ms": str(_KAFKA_LIMIT_MS),
        "kafkaConsumer.pollTimeoutMs": str(2 * _KAFKA_LIMIT_MS),
        "fetchOffset.numRetries": "1",
        "kafka.isolation.level": "read_committed",
        **spark_kafka_options(settings),
        # Not `subscribe`, which would read a partition that is added while the job runs.
        "assign": json.dumps({settings.kafka_topic: [LOG_PARTITION]}),
        "startingOffsets": "earliest"
        if next_offset is None
        else json.dumps({settings.kafka_topic: {str(LOG_PARTITION): next_offset}}),
        "maxOffsetsPerTrigger": str(settings.max_offsets_per_trigger),
    }
    return spark.readStream.format("kafka").options(**options).load()


def _set_java_properties(spark: SparkSession, settings: NamesrvSettings) -> None:
    """Set the system properties that Kafka's client needs in the driver; executors get theirs from `submit`."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    for name, value in java_properties(settings).items():
        jvm.java.lang.System.setProperty(name, value)


def log_rows(kafka_records: DataFrame) -> DataFrame:
    """One row a Kafka record: its offset, append time and key, and its value up to MAX_CARRIED_BYTES.

    `length` is that of the whole value in bytes, NULL for a record without a value.
    """
    length = F.octet_length("value")
    return kafka_records.select(
        "offset",
        F.unix_millis("timestamp").alias("append_time_ms"),
        F.substring("key", 1, MAX_KEY_BYTES).alias("key"),
        F.when(length <= MAX_CARRIED_BYTES, F.col("value")).alias("value"),
        length.cast("long").alias("length"),
    )


def signs_of_life(kafka_records: DataFrame) -> DataFrame:
    """One row a heartbeat, registration, unregistration or tick: the input of the state by broker address.

    `broker_addr` is empty for a tick. `timeout_ms` is LEFT for an unregistration and NULL for a heartbeat. Only a tick
    has an `event_time`, by which the watermark moves. The other rows have none, so Spark drops none of them as late,
    however far Kafka's clock steps back (E9). Only three fields of a value are parsed here. A record whose fields
    cannot be read, or whose key is not its address, is no sign of life. Only `records.decode_record` decides whether a
    record is accepted.
    """
    schema = "type STRING, brokerAddr STRING, heartbeatTimeoutMillis LONG"
    records = kafka_records.withColumn("fields", F.from_json(F.col("value").cast("string"), schema))
    kind, address, timeout_ms = (F.col("fields")[name] for name in ("type", "brokerAddr", "heartbeatTimeoutMillis"))
    is_of_broker = kind.isin("REGISTER_BROKER", "BROKER_HEARTBEAT", "UNREGISTER_BROKER") & (
        (F.col("key").cast("string") == address) & (F.char_length(address) <= MAX_NAME_CHARS)
    )
    registered_ms = F.when(timeout_ms.between(1, MAX_HEARTBEAT_TIMEOUT_MS), timeout_ms)
    return records.where((kind == "SCAN") | is_of_broker).select(
        F.when(kind == "SCAN", "").otherwise(address).alias("broker_addr"),
        F.when(kind == "SCAN", F.col("timestamp")).alias("event_time"),
        "offset",
        F.unix_millis("timestamp").alias("heard_ms"),
        F.when(kind == "UNREGISTER_BROKER", F.lit(LEFT))
        .when(kind == "REGISTER_BROKER", F.coalesce(registered_ms, F.lit(DEFAULT_HEARTBEAT_TIMEOUT_MS)))
        .alias("timeout_ms"),
    )


class Eviction(NamedTuple):
    """The eviction of an address's state: no sign of life since `last_heard_ms` for longer than the timeout.

    It ends no lease.
    """

    broker_addr: str
    last_heard_ms: int


class LogRecord(NamedTuple):
    """A record of a micro-batch. `is_carried` is False if its value is still in Kafka."""

    stored: StoredRecord
    is_carried: bool


def in_log_order(rows: pa.Table) -> tuple[list[LogRecord], list[Eviction]]:
    """Return the records of one micro-batch by offset, and the states that it evicted (`query.registry_rows`)."""
    records: list[LogRecord] = []
    evictions: list[Eviction] = []
    for offset, time_ms, key, value, length in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        if offset is None:
            evictions.append(Eviction(key.decode(), time_ms))
            continue
        is_carried = value is not None or length is None
        records.append(LogRecord(StoredRecord(offset, time_ms, key or b"", value), is_carried))
    return sorted(records), sorted(evictions)


def with_values(records: Iterable[LogRecord], reader: RecordReader) -> Iterator[StoredRecord]:
    """Yield the records with their values. Values that did not come with the batch are read from Kafka in turn."""
    records = list(records)
    with closing(reader.at([each.stored.offset for each in records if not each.is_carried])) as values:
        for record in records:
            yield record.stored if record.is_carried else next(values)

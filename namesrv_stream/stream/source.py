"""Kafka records as the stateful step reads them: parsed and checked in the JVM, one row a record."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from namesrv_stream.rules.requests import BROKER_ADDRESS, DEFAULT_HEARTBEAT_TIMEOUT_MS, MAX_HEARTBEAT_TIMEOUT_MS

MAX_REASON_CHARS = 200
"""Of a rejected record's reason, which may quote the record."""

REJECTED = "REJECTED"
TICK = "SCAN"
BROKER_TYPES = ("REGISTER_BROKER", "BROKER_HEARTBEAT", "UNREGISTER_BROKER", "CHANNEL_CLOSED")
COMMAND_TYPES = (
    "PUT_KV_CONFIG",
    "DELETE_KV_CONFIG",
    "WIPE_WRITE_PERM_OF_BROKER",
    "ADD_WRITE_PERM_OF_BROKER",
    "DELETE_TOPIC_IN_NAMESRV",
    "REGISTER_TOPIC_IN_NAMESRV",
    "UPDATE_NAMESRV_CONFIG",
    "LIFT_EXPIRY_GUARD",
)

ENVELOPE = (
    "type STRING, clusterName STRING, brokerName STRING, brokerId LONG, brokerAddr STRING,"
    " heartbeatTimeoutMillis LONG, channelId STRING"
)


def parsed_records(kafka_records: DataFrame) -> DataFrame:
    """One row a Kafka record with what the stateful step reads of it; two rows a tick.

    `broker_addr` is the key of the stateful step: empty for ticks, commands and rejected records. `kind` is REJECTED
    for a record outside the contract. Values do not travel: the driver reads them by offset.

    Ticks alone are the clock: only the second row of a tick has an `event_time`, by which the watermark moves. All
    other rows have none, so Spark drops none of them as late, however far Kafka's clock steps back (E9).
    """
    envelope = kafka_records.withColumn("said", F.from_json(F.col("value").cast("string"), ENVELOPE))
    checked = envelope.withColumn("reason", _reason())
    kind = F.when(F.col("reason").isNotNull(), REJECTED).otherwise(F.col("said.type"))
    no_time = F.lit(None).cast("timestamp")
    times = F.when(F.col("kind") == TICK, F.array(no_time, F.col("timestamp"))).otherwise(F.array(no_time))
    return checked.withColumn("kind", kind).select(
        F.when(F.col("kind").isin(*BROKER_TYPES), F.col("said.brokerAddr")).otherwise("").alias("broker_addr"),
        F.explode(times).alias("event_time"),
        F.unix_millis("timestamp").alias("append_time_ms"),
        "offset",
        "kind",
        F.col("said.clusterName").alias("cluster_name"),
        F.col("said.brokerName").alias("broker_name"),
        F.col("said.brokerId").alias("broker_id"),
        F.coalesce("said.heartbeatTimeoutMillis", F.lit(DEFAULT_HEARTBEAT_TIMEOUT_MS)).alias("timeout_ms"),
        F.col("said.channelId").alias("channel_id"),
        F.octet_length("value").cast("long").alias("length"),
        F.substring("reason", 1, MAX_REASON_CHARS).alias("reason"),
    )


def _reason() -> Column:
    """Why a record is not of the contract, NULL if it is. The first thing that is wrong is named."""
    said = F.col("said")
    address, key = said["brokerAddr"], F.coalesce(F.col("key").cast("string"), F.lit(""))
    is_broker, is_register = said["type"].isin(*BROKER_TYPES), said["type"] == "REGISTER_BROKER"
    timeout_ms = said["heartbeatTimeoutMillis"]
    checks = [
        (F.col("value").isNull(), F.lit("no value")),
        (~F.is_valid_utf8(F.col("value").cast("string")), F.lit("value is not UTF-8")),
        (said["type"].isNull(), F.lit("not a JSON object with a text field `type`")),
        (~said["type"].isin(TICK, *BROKER_TYPES, *COMMAND_TYPES), F.concat(F.lit("unknown type "), said["type"])),
        (is_broker & _is_not(address.rlike(BROKER_ADDRESS)), F.lit("brokerAddr is missing or no host:port")),
        (is_broker & (key != address), F.concat(F.lit("the record's key is not brokerAddr "), address)),
        (is_register & _is_not(said["clusterName"] != ""), F.lit("clusterName is missing, empty or no text")),
        (is_register & _is_not(said["brokerName"] != ""), F.lit("brokerName is missing, empty or no text")),
        (is_register & _is_not(said["brokerId"] >= 0), F.lit("brokerId is missing or no whole number")),
        (
            is_register & ~timeout_ms.between(1, MAX_HEARTBEAT_TIMEOUT_MS),
            F.lit(f"heartbeatTimeoutMillis is not within 1..{MAX_HEARTBEAT_TIMEOUT_MS}"),
        ),
        (
            (said["type"] == "CHANNEL_CLOSED") & said["channelId"].isNull(),
            F.lit("channelId is missing or no text"),
        ),
    ]
    return F.coalesce(*(F.when(wrong, text) for wrong, text in checks))


def _is_not(holds: Column) -> Column:
    """Return the negation of a condition, true for NULL too."""
    return ~F.coalesce(holds, F.lit(False))

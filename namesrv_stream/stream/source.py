"""Kafka records as the stateful step reads them: parsed and checked in the JVM, one row a record."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from namesrv_stream.rules.requests import (
    BROKER_ADDRESS,
    DEFAULT_HEARTBEAT_TIMEOUT_MS,
    MAX_HEARTBEAT_TIMEOUT_MS,
    MAX_NAME_CHARS,
)

MAX_REASON_CHARS = 200
"""Limit of a rejected record's reason, which may quote the record."""

TOO_LONG = f"{{}} has over {MAX_NAME_CHARS} characters"
"""Reason of a rejected record with a field that is too long."""

REJECTED = "REJECTED"
TICK = "SCAN"
BROKER_TYPES = ("REGISTER_BROKER", "BROKER_HEARTBEAT", "UNREGISTER_BROKER", "CHANNEL_CLOSED")
CONNECTION_TYPES = ("REGISTER_BROKER", "BROKER_HEARTBEAT", "CHANNEL_CLOSED")
"""Kinds of records that name a connection."""
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

_JSON = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false", "allowUnquotedControlChars": "false"}
"""The JSON that Spark accepts, set here because the driver's parser has to agree (`log_records.as_passed_on`)."""


def parsed_records(kafka_records: DataFrame) -> DataFrame:
    """One row a Kafka record with what the stateful step reads of it; two rows a tick.

    `broker_addr` is the key of the state: empty for ticks, commands and rejected records. `kind` is REJECTED
    for a record outside the contract. Values do not travel: the driver reads them by offset.

    Ticks alone are the clock: only the second row of a tick has an `event_time`, by which the watermark moves. All
    other rows have none, so Spark drops none of them as late, however far Kafka's clock steps back (E9).
    """
    envelopes = kafka_records.withColumn("envelope", F.from_json(F.col("value").cast("string"), ENVELOPE, _JSON))
    checked = envelopes.withColumn("reason", _reason())
    kind = F.when(F.col("reason").isNotNull(), REJECTED).otherwise(F.col("envelope.type"))
    no_time = F.lit(None).cast("timestamp")
    times = F.when(F.col("kind") == TICK, F.array(no_time, F.col("timestamp"))).otherwise(F.array(no_time))
    return checked.withColumn("kind", kind).select(
        F.when(F.col("kind").isin(*BROKER_TYPES), F.col("envelope.brokerAddr")).otherwise("").alias("broker_addr"),
        F.explode(times).alias("event_time"),
        F.unix_millis("timestamp").alias("append_time_ms"),
        "offset",
        "kind",
        F.coalesce("envelope.heartbeatTimeoutMillis", F.lit(DEFAULT_HEARTBEAT_TIMEOUT_MS)).alias("timeout_ms"),
        F.when(F.col("kind").isin(*CONNECTION_TYPES), F.col("envelope.channelId")).alias("channel_id"),
        F.octet_length("value").cast("long").alias("length"),
        F.substring("reason", 1, MAX_REASON_CHARS).alias("reason"),
    )


def _reason() -> Column:
    """Return the first reason why a record is not within the contract, NULL if it is.

    The checks of a kind are asked of that kind alone: most records are heartbeats and ticks.
    """
    kind = F.col("envelope")["type"]
    every = _first(
        (F.col("value").isNull(), F.lit("no value")),
        (~F.is_valid_utf8(F.col("value").cast("string")), F.lit("value is not UTF-8")),
        (kind.isNull(), F.lit("not a JSON object with a text field `type`")),
        (~kind.isin(TICK, *BROKER_TYPES, *COMMAND_TYPES), F.concat(F.lit("unknown type "), kind)),
    )
    return F.coalesce(every, F.when(kind.isin(*BROKER_TYPES), _reason_of_broker(kind)))


def _reason_of_broker(kind: Column) -> Column:
    """Return the first reason why a broker's record does not count."""
    envelope, key = F.col("envelope"), F.coalesce(F.col("key").cast("string"), F.lit(""))
    address, is_register = envelope["brokerAddr"], kind == "REGISTER_BROKER"
    return F.coalesce(
        _first(
            (_negated(address.rlike(BROKER_ADDRESS)), F.lit("brokerAddr is missing or no host:port")),
            (key != address, F.concat(F.lit("the record's key is not brokerAddr "), address)),
            _too_long("brokerAddr"),
        ),
        F.when(kind.isin(*CONNECTION_TYPES), _first(_too_long("channelId"))),
        F.when(is_register, _reason_of_registration()),
        F.when((kind == "CHANNEL_CLOSED") & envelope["channelId"].isNull(), F.lit("channelId is missing or no text")),
    )


def _reason_of_registration() -> Column:
    """Return the first reason why a registration does not count."""
    envelope = F.col("envelope")
    timeout_ms = envelope["heartbeatTimeoutMillis"]
    return _first(
        _too_long("clusterName"),
        _too_long("brokerName"),
        (_negated(envelope["clusterName"] != ""), F.lit("clusterName is missing, empty or no text")),
        (_negated(envelope["brokerName"] != ""), F.lit("brokerName is missing, empty or no text")),
        (_negated(envelope["brokerId"] >= 0), F.lit("brokerId is missing or no whole number")),
        (
            ~timeout_ms.between(1, MAX_HEARTBEAT_TIMEOUT_MS),
            F.lit(f"heartbeatTimeoutMillis is not within 1..{MAX_HEARTBEAT_TIMEOUT_MS}"),
        ),
    )


def _too_long(field: str) -> tuple[Column, Column]:
    return F.char_length(F.col("envelope")[field]) > MAX_NAME_CHARS, F.lit(TOO_LONG.format(field))


def _first(*checks: tuple[Column, Column]) -> Column:
    """Return the text of the first check whose condition holds, NULL if none does."""
    return F.coalesce(*(F.when(is_wrong, text) for is_wrong, text in checks))


def _negated(holds: Column) -> Column:
    """Return the negation of a condition, true for NULL too."""
    return ~F.coalesce(holds, F.lit(False))

"""Kafka records as Spark passes them on, and the signs of life that it finds in them."""

import json
from datetime import UTC, datetime

import pytest
from chispa import assert_df_equality

from namesrv_stream.job.liveness import LEFT
from namesrv_stream.job.source import MAX_CARRIED_BYTES, MAX_KEY_BYTES, log_rows, signs_of_life
from namesrv_stream.records import encode_record, record_key
from namesrv_stream.rules.record_types import (
    MAX_HEARTBEAT_TIMEOUT_MS,
    BrokerHeartbeat,
    ChannelClosed,
    PutKvConfig,
    Scan,
    UnregisterBroker,
)
from tests import build
from tests.build import ADDRESS

pytestmark = pytest.mark.spark
KEY = ADDRESS.encode()
KAFKA_SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"
AT = datetime(2026, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC)
AT_MS = 1_772_366_400_123


def registration(**fields):
    request = build.registration()
    return json.dumps({**json.loads(encode_record(request)), **fields}).encode()


def kafka_records(spark, records):
    """Pairs of key and value as Spark's Kafka source has them, at offsets from 0."""
    rows = [(*record, "heartbeats", 0, offset, AT) for offset, record in enumerate(records)]
    return spark.createDataFrame(rows, KAFKA_SCHEMA)


def test_a_value_comes_with_its_record_unless_it_is_too_long(spark):
    longest, too_long = b"x" * MAX_CARRIED_BYTES, b"x" * (MAX_CARRIED_BYTES + 1)
    rows = log_rows(kafka_records(spark, [(KEY, longest), (KEY, too_long), (None, None), (b"", b"")]))
    expected = spark.createDataFrame(
        [(0, AT_MS, KEY, longest, len(longest)), (1, AT_MS, KEY, None, len(too_long)), (2, AT_MS, None, None, None),
         (3, AT_MS, b"", b"", 0)],
        "offset LONG, append_time_ms LONG, key BINARY, value BINARY, length LONG",
    )  # fmt: skip
    assert_df_equality(rows.orderBy("offset"), expected, ignore_nullable=True)


def test_of_a_key_no_more_comes_than_an_address_can_have(spark):
    [row] = log_rows(kafka_records(spark, [(b"k" * 65_536, b"junk")])).collect()
    assert bytes(row.key) == b"k" * MAX_KEY_BYTES


def test_each_sign_of_life_has_what_the_state_reads_and_a_tick_alone_has_an_event_time(spark):
    said = [
        build.registration(),
        build.registration(heartbeat_timeout_millis=10_000),
        BrokerHeartbeat(broker_addr=ADDRESS, channel_id="gw-1/7"),
        UnregisterBroker(broker_addr=ADDRESS),
        ChannelClosed(broker_addr=ADDRESS, channel_id="gw-1/7"),
        Scan(),
        PutKvConfig(namespace="n", key="k", value="v"),
    ]
    found = signs_of_life(kafka_records(spark, [(record_key(each), encode_record(each)) for each in said]))
    expected = spark.createDataFrame(
        [
            (ADDRESS, None, 0, AT_MS, 120_000),
            (ADDRESS, None, 1, AT_MS, 10_000),
            (ADDRESS, None, 2, AT_MS, None),
            (ADDRESS, None, 3, AT_MS, LEFT),
            ("", AT, 5, AT_MS, None),
        ],
        "broker_addr STRING, event_time TIMESTAMP, offset LONG, heard_ms LONG, timeout_ms INT",
    )
    found = found.withColumn("timeout_ms", found.timeout_ms.cast("int"))
    assert_df_equality(found.orderBy("offset"), expected, ignore_nullable=True)


def test_a_timeout_that_cannot_be_is_the_default_for_the_state(spark):
    timeouts_ms = [0, MAX_HEARTBEAT_TIMEOUT_MS + 1, "soon", None]
    records = [(KEY, registration(heartbeatTimeoutMillis=timeout_ms)) for timeout_ms in timeouts_ms]
    found = signs_of_life(kafka_records(spark, records)).collect()
    assert [row.timeout_ms for row in found] == [120_000] * len(timeouts_ms)


UNREADABLE = {
    "tombstone": (KEY, None),
    "empty": (KEY, b""),
    "junk": (KEY, b"junk"),
    "list": (KEY, b"[1]"),
    "unknown": (KEY, b'{"type":"HELLO"}'),
    "no address": (KEY, b'{"type":"BROKER_HEARTBEAT"}'),
    "other key": (b"10.0.0.2:10911", registration()),
    "no key": (None, registration()),
    "long address": (b"a" * 1_000 + b":1", registration(brokerAddr="a" * 1_000 + ":1")),
    "deep": (KEY, b'{"type": "SCAN", "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
}


def test_what_cannot_be_read_is_no_sign_of_life(spark):
    found = signs_of_life(kafka_records(spark, list(UNREADABLE.values()))).collect()
    assert [list(UNREADABLE)[row.offset] for row in found] == []

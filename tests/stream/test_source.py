"""Kafka records that the JVM takes as within the contract, and the reasons that it gives for the others."""

import json
from datetime import UTC, datetime

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F

from namesrv_stream.errors import MalformedRecordError
from namesrv_stream.records import decode_record, encode_record, record_key
from namesrv_stream.rules.requests import (
    MAX_HEARTBEAT_TIMEOUT_MS,
    BrokerHeartbeat,
    ChannelClosed,
    PutKvConfig,
    RegisterBroker,
    Scan,
    TopicConfig,
    UnregisterBroker,
)
from namesrv_stream.stream.source import parsed_records

ADDRESS = "10.0.0.1:10911"
KEY = ADDRESS.encode()
KAFKA_SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"
AT = datetime(2026, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC)
AT_MS = 1_772_366_400_123
REGISTRATION = {
    "type": "REGISTER_BROKER",
    "clusterName": "c1",
    "brokerName": "broker-a",
    "brokerId": 0,
    "brokerAddr": ADDRESS,
}
TOO_LONG = MAX_HEARTBEAT_TIMEOUT_MS + 1
NO_ADDRESS = "brokerAddr is missing or no host:port"
TIMEOUT_RANGE = f"heartbeatTimeoutMillis is not within 1..{MAX_HEARTBEAT_TIMEOUT_MS}"


def registration(**fields):
    """A registration's value with some fields put in or, where None, left out."""
    said = {**REGISTRATION, **fields}
    return json.dumps({name: value for name, value in said.items() if value is not None}).encode()


REJECTED = {
    "tombstone": (None, "no value"),
    "empty": (b"", "not a JSON object with a text field `type`"),
    "not JSON": (b"heartbeat", "not a JSON object with a text field `type`"),
    "cut short": (registration()[:-1], "not a JSON object with a text field `type`"),
    "not an object": (b"[1]", "not a JSON object with a text field `type`"),
    "nested deeper than a parser goes": (
        b'{"type": "SCAN", "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "not a JSON object with a text field `type`",
    ),
    "no type": (registration(type=None), "not a JSON object with a text field `type`"),
    "unknown type": (registration(type="QUERY"), "unknown type QUERY"),
    "not UTF-8": (registration(zoneName="?").replace(b"?", b"\xff"), "value is not UTF-8"),
    "no address": (registration(brokerAddr=None), NO_ADDRESS),
    "an empty address": (registration(brokerAddr=""), NO_ADDRESS),
    "an address without a port": (registration(brokerAddr="10.0.0.1"), NO_ADDRESS),
    "an address with a line feed": (registration(brokerAddr=ADDRESS + "\n"), NO_ADDRESS),
    "another address": (
        registration(brokerAddr="10.0.0.2:10911"),
        "the record's key is not brokerAddr 10.0.0.2:10911",
    ),
    "no cluster": (registration(clusterName=None), "clusterName is missing, empty or no text"),
    "an empty cluster": (registration(clusterName=""), "clusterName is missing, empty or no text"),
    "no name": (registration(brokerName=None), "brokerName is missing, empty or no text"),
    "an empty name": (registration(brokerName=""), "brokerName is missing, empty or no text"),
    "no id": (registration(brokerId=None), "brokerId is missing or no whole number"),
    "a negative id": (registration(brokerId=-1), "brokerId is missing or no whole number"),
    "an id in words": (registration(brokerId="master"), "brokerId is missing or no whole number"),
    "an id of 64 bits and more": (registration(brokerId=2**63), "brokerId is missing or no whole number"),
    "no time": (registration(heartbeatTimeoutMillis=0), TIMEOUT_RANGE),
    "more than a year": (registration(heartbeatTimeoutMillis=TOO_LONG), TIMEOUT_RANGE),
    "no channel": (
        json.dumps({"type": "CHANNEL_CLOSED", "brokerAddr": ADDRESS}).encode(),
        "channelId is missing or no text",
    ),
}


def kafka_records(spark, records):
    """Pairs of key and value as Spark's Kafka source has them, at offsets from 0."""
    rows = [(*record, "heartbeats", 0, offset, AT) for offset, record in enumerate(records)]
    return spark.createDataFrame(rows, KAFKA_SCHEMA)


@pytest.fixture(scope="module")
def rejected(spark):
    """Label -> row of all records of REJECTED, parsed at once."""
    rows = parsed_records(kafka_records(spark, [(KEY, value) for value, _ in REJECTED.values()])).collect()
    return dict(zip(REJECTED, sorted(rows, key=lambda row: row.offset), strict=True))


@pytest.mark.spark
@pytest.mark.parametrize("label", REJECTED)
def test_a_record_outside_the_contract_is_kept_with_its_reason(rejected, label):
    value, reason = REJECTED[label]
    row = rejected[label]
    assert (row.kind, row.reason, row.broker_addr) == ("REJECTED", reason, "")
    assert row.length == (None if value is None else len(value))


@pytest.mark.parametrize("timeout_ms", [1, MAX_HEARTBEAT_TIMEOUT_MS])
def test_a_timeout_at_the_edge_of_its_range_is_taken(spark, timeout_ms):
    [row] = parsed_records(kafka_records(spark, [(KEY, registration(heartbeatTimeoutMillis=timeout_ms))])).collect()
    assert (row.kind, row.timeout_ms, row.reason) == ("REGISTER_BROKER", timeout_ms, None)


def test_the_jvm_takes_the_addresses_that_a_producer_may_send(spark):
    taken = ["10.0.0.1:10911", "broker-a.example:1", "[::1]:10911", "::1:10911", "[fe80::1%eth0]:10911", "\u00fc:1"]
    refused = ["10.0.0.1", "a:", ":1", "a b:1", "a:1\n", "a:1\r", "a:1\u2028", " a:1", "a:b", "a:-1", "[::1:1", "[]:1"]
    said = [(address.encode(), registration(brokerAddr=address)) for address in taken + refused]
    rows = parsed_records(kafka_records(spark, said)).orderBy("offset").collect()
    assert [row.kind for row in rows] == ["REGISTER_BROKER"] * len(taken) + ["REJECTED"] * len(refused)
    for address in taken:
        assert decode_record(registration(brokerAddr=address)).broker_addr == address
    for address in refused:
        with pytest.raises(MalformedRecordError):
            decode_record(registration(brokerAddr=address))


def test_fields_that_nobody_knows_are_ignored(spark):
    [row] = parsed_records(kafka_records(spark, [(KEY, registration(brokerColour="red", sentBy={"a": [1]}))])).collect()
    assert (row.kind, row.broker_addr) == ("REGISTER_BROKER", ADDRESS)


def test_each_type_has_the_columns_that_a_later_step_reads(spark):
    """A record that belongs to no broker has the empty address; the second row of a tick alone moves the watermark."""
    register = RegisterBroker(
        cluster_name="c1",
        broker_name="broker-a",
        broker_id=1,
        broker_addr=ADDRESS,
        heartbeat_timeout_millis=10_000,
        channel_id="gw-1/7",
        topic_config_table={"TopicA": TopicConfig(8, 8, 6)},
    )
    kv = PutKvConfig(namespace="n", key="k", value="v")
    said = [
        register,
        BrokerHeartbeat(broker_addr=ADDRESS, channel_id="gw-1/7"),
        UnregisterBroker(broker_addr=ADDRESS),
        ChannelClosed(broker_addr=ADDRESS, channel_id="gw-1/7"),
        Scan(),
        kv,
    ]
    parsed = parsed_records(kafka_records(spark, [(record_key(each), encode_record(each)) for each in said]))
    of_channel = (120_000, "gw-1/7")
    expected = spark.createDataFrame(
        [
            (0, "REGISTER_BROKER", None, ADDRESS, 10_000, "gw-1/7", None),
            (1, "BROKER_HEARTBEAT", None, ADDRESS, *of_channel, None),
            (2, "UNREGISTER_BROKER", None, ADDRESS, 120_000, None, None),
            (3, "CHANNEL_CLOSED", None, ADDRESS, *of_channel, None),
            (4, "SCAN", None, "", 120_000, None, None),
            (4, "SCAN", AT, "", 120_000, None, None),
            (5, "PUT_KV_CONFIG", None, "", 120_000, None, None),
        ],
        "offset LONG, kind STRING, event_time TIMESTAMP, broker_addr STRING, timeout_ms LONG,"
        " channel_id STRING, reason STRING",
    )
    times = expected.withColumn("append_time_ms", F.lit(AT_MS))
    assert_df_equality(parsed.orderBy("offset", "event_time").select(times.columns), times, ignore_nullable=True)

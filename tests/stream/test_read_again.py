"""A record that the driver reads from Kafka by itself counts as one that came through Spark (E1)."""

import pyarrow as pa
import pytest

from namesrv_stream.kafka.reader import StoredRecord
from namesrv_stream.stream.log_records import as_passed_on
from namesrv_stream.stream.source import parsed_records

A = b"10.0.0.1:10911"
VALUES = {
    "heartbeat": (A, b'{"type":"BROKER_HEARTBEAT","brokerAddr":"10.0.0.1:10911","channelId":"g/1"}'),
    "channel that is a number": (A, b'{"type":"BROKER_HEARTBEAT","brokerAddr":"10.0.0.1:10911","channelId":5}'),
    "text behind the object": (A, b'{"type":"BROKER_HEARTBEAT","brokerAddr":"10.0.0.1:10911"} and more'),
    "wrong field that nobody uses": (A, b'{"type":"UNREGISTER_BROKER","brokerAddr":"10.0.0.1:10911","brokerId":"x"}'),
    "another broker's key": (b"10.0.0.2:1", b'{"type":"UNREGISTER_BROKER","brokerAddr":"10.0.0.1:10911"}'),
    "no key": (b"", b'{"type":"BROKER_HEARTBEAT","brokerAddr":"10.0.0.1:10911"}'),
    "no address": (b"", b'{"type":"BROKER_HEARTBEAT"}'),
    "address without a port": (b"a", b'{"type":"BROKER_HEARTBEAT","brokerAddr":"a"}'),
    "closed without a connection": (A, b'{"type":"CHANNEL_CLOSED","brokerAddr":"10.0.0.1:10911"}'),
    "tick": (b"", b'{"type":"SCAN"}'),
    "command": (b"", b'{"type":"PUT_KV_CONFIG"}'),
    "unknown type": (b"", b'{"type":"HELLO"}'),
    "type that is no text": (b"", b'{"type":null}'),
    "single quotes": (A, b"{'type':'UNREGISTER_BROKER','brokerAddr':'10.0.0.1:10911'}"),
    "tab within a text": (A, b'{"type":"BROKER_HEARTBEAT","brokerAddr":"10.0.0.1:10911","channelId":"a\tb"}'),
    "NaN": (A, b'{"type":"BROKER_HEARTBEAT","brokerAddr":"10.0.0.1:10911","brokerId":NaN}'),
    "long address": (b"a" * 1000 + b":1", b'{"type":"BROKER_HEARTBEAT","brokerAddr":"' + b"a" * 1000 + b':1"}'),
    "long connection": (
        A,
        b'{"type":"BROKER_HEARTBEAT","brokerAddr":"10.0.0.1:10911","channelId":"' + b"x" * 1001 + b'"}',
    ),
    "longest connection": (
        A,
        b'{"type":"BROKER_HEARTBEAT","brokerAddr":"10.0.0.1:10911","channelId":"' + b"x" * 1000 + b'"}',
    ),
    "list": (b"", b"[1]"),
    "junk": (b"", b"junk"),
    "not UTF-8": (b"", b"\xff\xfe"),
    "empty": (b"", b""),
    "none": (b"", None),
}
COLUMNS = "name STRING, key BINARY, value BINARY, offset LONG, timestamp TIMESTAMP"


@pytest.fixture(scope="module")
def through_spark(spark):
    """Name -> (kind, address, connection) as the source passes the record on."""
    names = list(VALUES)
    rows = [(name, VALUES[name][0], VALUES[name][1], number, None) for number, name in enumerate(names)]
    table = parsed_records(spark.createDataFrame(rows, COLUMNS)).toArrow()
    assert isinstance(table, pa.Table)
    found = table.filter(pa.compute.is_null(table["event_time"])).to_pylist()
    return {names[row["offset"]]: (row["kind"], row["broker_addr"], row["channel_id"]) for row in found}


@pytest.mark.parametrize("name", VALUES)
def test_a_record_read_again_is_what_spark_made_of_it(name, through_spark):
    record = as_passed_on(StoredRecord(0, 0, *VALUES[name]))
    assert (record.kind, record.broker_addr, record.channel_id) == through_spark[name]

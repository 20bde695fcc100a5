"""The cases in tests/records.yaml: what records say, and what is read of them or why they are refused.

Cases stand under their rule. A record is a registration with other `fields`, or a `text`, under a `key`. It `has` these
attributes once it is read, or is read as one with the fields of `same_as`; it is `refused` for a reason with this text,
and as `unreadable` also where a `lease` with these attributes may be all that is read. `field`: that for which the
published schema refuses it too.
"""

import gzip
import re

import jsonschema
import msgspec
import pytest

from namesrv_stream.errors import MalformedRecordError
from namesrv_stream.records import decode_readable, decode_record, encode_record, record_key, record_schema
from namesrv_stream.rules.record_types import (
    BrokerHeartbeat,
    ChannelClosed,
    PutKvConfig,
    RegisterBroker,
    Scan,
    UnregisterBroker,
)
from tests.data import data, params

CASES = data(__file__, "records.yaml")
ADDRESS = "10.0.0.1:10911"
REGISTRATION = {
    "type": "REGISTER_BROKER",
    "clusterName": "c1",
    "brokerName": "broker-a",
    "brokerId": 0,
    "brokerAddr": ADDRESS,
}
OF_BROKERS = ["REGISTER_BROKER", "BROKER_HEARTBEAT", "UNREGISTER_BROKER", "CHANNEL_CLOSED"]
SCHEMA = jsonschema.Draft202012Validator(record_schema())
TOPIC = {"readQueueNums": 1, "writeQueueNums": 2, "perm": 4}


def value(**fields):
    return msgspec.json.encode(REGISTRATION | fields)


def said_by(case):
    """Return value and key of its record, the key if it has one."""
    said = case["text"].encode() if "text" in case else value(**case["fields"])
    said = re.sub(rb"(\d+) CHARACTERS", lambda found: b"b" * int(found[1]), said)
    return (said, case["key"].encode()) if "key" in case else (said,)


def reason(decode, *said):
    """Return why it is refused."""
    with pytest.raises(MalformedRecordError) as refused:
        decode(*said)
    return refused.value.reason


def assert_has(request, attributes):
    assert {name: getattr(request, name) for name in attributes} == attributes


@pytest.mark.parametrize("case", params(CASES["records"]))
def test_each_record_is_read_or_refused_as_the_case_has_it(case):
    said = said_by(case)
    match case:
        case {"has": attributes}:
            assert_has(decode_record(*said), attributes)
        case {"lease": attributes}:
            lease, is_lease_only = decode_readable(*said)
            assert is_lease_only
            assert_has(lease, attributes)
        case {"same_as": fields}:
            assert decode_record(*said) == decode_record(value(**fields))
        case {"refused": text}:
            assert text in reason(decode_record, *said)
        case {"unreadable": text}:
            assert text in reason(decode_record, *said)
            assert text in reason(decode_readable, *said)
        case {"field": field}:
            [mistake] = SCHEMA.iter_errors(msgspec.json.decode(said[0]))
            assert field in f"{mistake.json_path} {mistake.message}"
            assert re.search(f"[.`]{field}`", reason(decode_record, *said))
        case _:
            raise AssertionError("nothing is expected of it")


@pytest.mark.parametrize("address", CASES["no address"])
@pytest.mark.parametrize("type_", OF_BROKERS)
def test_a_key_that_is_no_host_and_port_has_these_reasons(type_, address):
    said = value(type=type_, channelId="g/1", brokerAddr=address)
    assert reason(decode_record, said) == "Expected host:port - at `$.brokerAddr`"


@pytest.mark.parametrize("topic", CASES["r1a no topic"])
def test_r1a_a_topic_that_cannot_be_read_is_left_out_alone(topic):
    said = value(topicConfigTable={"T": TOPIC, "N": topic}, filterServerList=["f:1"], dataVersion={"counter": 7})
    whole = decode_record(value(topicConfigTable={"T": TOPIC}, filterServerList=["f:1"], dataVersion={"counter": 7}))
    assert decode_readable(said) == (whole, False)


@pytest.mark.parametrize(
    ("written", "named"),
    [
        (bytes([0, 0, 0, 0, 7]) + value(), "schema registry"),
        (b"\xef\xbb\xbf" + value(), "byte order mark"),
        (value().decode().encode("utf-16"), "UTF-16"),
        (value().decode().encode("utf-16-le"), "UTF-16"),
        (value().decode().encode("utf-16-be"), "UTF-16"),
        (gzip.compress(value(), mtime=0), "gzip"),
        (b"?", "byte 0"),
        (b"\xff", ""),
        (b'{"type": "SCAN", "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", ""),
    ],
)
def test_what_is_no_json_is_refused_by_what_it_is(written, named):
    assert re.match(f"not JSON: .*{named}", reason(decode_record, written))


@pytest.mark.parametrize(
    ("request_", "key"),
    [
        (RegisterBroker(cluster_name="c", broker_name="b", broker_id=1, broker_addr="höst:1"), "höst:1".encode()),
        (BrokerHeartbeat(broker_addr=ADDRESS, channel_id="g/1"), ADDRESS.encode()),
        (UnregisterBroker(broker_addr=ADDRESS), ADDRESS.encode()),
        (ChannelClosed(broker_addr=ADDRESS, channel_id="g/1"), ADDRESS.encode()),
        (Scan(), b""),
        (PutKvConfig(namespace="", key="k", value=""), b""),
    ],
)
def test_a_record_decodes_to_what_was_encoded_under_the_key_of_its_address(request_, key):
    assert decode_record(encode_record(request_)) == request_
    assert SCHEMA.is_valid(msgspec.json.decode(encode_record(request_)))
    assert record_key(request_) == key

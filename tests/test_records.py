import gzip

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
    TopicConfig,
    UnregisterBroker,
)

ADDRESS = "10.0.0.1:10911"
REGISTRATION = {
    "type": "REGISTER_BROKER",
    "clusterName": "c1",
    "brokerName": "broker-a",
    "brokerId": 0,
    "brokerAddr": ADDRESS,
}


SCHEMA = jsonschema.Draft202012Validator(record_schema())
TOPIC = {"readQueueNums": 1, "writeQueueNums": 2, "perm": 4}


def value(**fields):
    return msgspec.json.encode(REGISTRATION | fields)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1:10911", "broker-a.example:10911", "broker_a:1", "[::1]:10911", "::1:10911", "[fe80::1%eth0]:10911"],
)
def test_address_is_whatever_rocketmq_takes_for_host_and_port(address):
    assert decode_record(value(brokerAddr=address)).broker_addr == address


@pytest.mark.parametrize(
    "address",
    ["", "10.0.0.1", "10.0.0.1:", ":10911", "a b:1", "a:1\n", "a:1\r", " a:1", "a:b", "a:-1", "[::1:1", "a]:1", "[]:1"],
)
@pytest.mark.parametrize("type_", ["REGISTER_BROKER", "BROKER_HEARTBEAT", "UNREGISTER_BROKER", "CHANNEL_CLOSED"])
def test_a_key_that_is_no_host_and_port_has_these_reasons(type_, address):
    with pytest.raises(MalformedRecordError, match=r"^Expected host:port - at `\$\.brokerAddr`$"):
        decode_record(value(type=type_, channelId="g/1", brokerAddr=address))


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
    ],
)
def test_json_that_a_program_has_encoded_otherwise_is_refused_by_what_it_is(written, named):
    with pytest.raises(MalformedRecordError, match=f"^not JSON: .*{named}"):
        decode_record(written)


@pytest.mark.parametrize(("field", "content"), [("clusterName", ""), ("brokerName", ""), ("brokerAddr", "a")])
def test_lease_is_held_to_its_identity_also_when_the_topics_are_unreadable(field, content):
    lease, is_lease_only = decode_readable(value(topicConfigTable="?"))
    assert (lease.topic_config_table, is_lease_only) == ({}, True)
    with pytest.raises(MalformedRecordError, match=field):
        decode_readable(value(topicConfigTable="?", **{field: content}))


def test_lease_alone_keeps_the_filter_servers_as_they_were():
    unreadable = {"topicQueueMappingInfoMap": "?", "topicConfigTable": {"T": TOPIC}}
    lease, is_lease_only = decode_readable(value(**unreadable, filterServerList=["f:1"], zoneName="z1"))
    assert (lease.topic_config_table, is_lease_only) == ({}, True)
    assert (lease.keep_filter_servers, lease.filter_server_list, lease.zone_name) == (True, [], "z1")


@pytest.mark.parametrize("topic", [None, {"perm": 6}, TOPIC | {"readQueueNums": None}, TOPIC | {"perm": 2**31}, "?"])
def test_r1a_a_topic_that_cannot_be_read_is_left_out_alone(topic):
    said = value(topicConfigTable={"T": TOPIC, "N": topic}, filterServerList=["f:1"], dataVersion={"counter": 7})
    whole = decode_record(value(topicConfigTable={"T": TOPIC}, filterServerList=["f:1"], dataVersion={"counter": 7}))
    assert decode_readable(said) == (whole, False)


@pytest.mark.parametrize(
    ("nulls", "same"),
    [
        ({"dataVersion": None, "topicConfigTable": None, "haServerAddr": None, "topicQueueMappingInfoMap": None}, {}),
        ({"dataVersion": {"counter": 7, "timestamp": None}}, {"dataVersion": {"counter": 7}}),
        ({"filterServerList": None}, {"keepFilterServers": True}),
        ({"filterServerList": ["f:1", None]}, {"filterServerList": ["f:1"]}),
        ({"topicConfigTable": {"T": TOPIC | {"topicSysFlag": None}}}, {"topicConfigTable": {"T": TOPIC}}),
        ({"topicConfigTable": {"T": TOPIC | {"perm": None}}}, {"topicConfigTable": {"T": TOPIC | {"perm": 6}}}),
    ],
)
def test_r1a_a_null_is_what_an_absent_field_is(nulls, same):
    assert decode_record(value(**nulls)) == decode_record(value(**same))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b'"SCAN"', "Expected `object`"),
        (b'{"type": "SCAN", "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not JSON"),
        (b'{"brokerAddr": "a:1"}', "`type`"),
        (b'{"clusterName": "c", "brokerName": "b", "brokerId": 0, "brokerAddr": "a:1"}', "`type`"),
        (b'{"type": "HELLO"}', "HELLO"),
        (b'{"type": "SCAN"} {}', "not JSON"),
        (value(brokerId=-1), "brokerId"),
        (value(brokerId=2**63), "brokerId"),
        (value(brokerId="0"), "brokerId"),
        (value(heartbeatTimeoutMillis=0), "heartbeatTimeoutMillis"),
        (value(dataVersion={"counter": 2**63}), "counter"),
        (value(topicConfigTable={"T": TOPIC, "N": {"perm": 6}}), "topics that cannot be read: 'N'"),
        (value(topicConfigTable={"N\n": {"readQueueNums": 2**31, "writeQueueNums": 1, "perm": 6}}), r"'N\n'"),
        (b'{"type": "UPDATE_NAMESRV_CONFIG", "properties": {"a": null}}', "properties"),
        (b'{"type": "PUT_KV_CONFIG", "namespace": "n", "key": "", "value": "v"}', "key"),
        (b'{"type": "DELETE_KV_CONFIG", "namespace": "n", "key": ""}', "key"),
    ],
)
def test_reason_names_what_is_wrong(said, reason):
    with pytest.raises(MalformedRecordError) as error:
        decode_record(said)
    assert reason in error.value.reason


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"type": "HELLO"}, "type"),
        ({"type": None}, "type"),
        ({"brokerId": -1}, "brokerId"),
        ({"brokerId": "0"}, "brokerId"),
        ({"brokerAddr": "10.0.0.1"}, "brokerAddr"),
        ({"clusterName": ""}, "clusterName"),
        ({"brokerName": "b" * 1_001}, "brokerName"),
        ({"heartbeatTimeoutMillis": 0}, "heartbeatTimeoutMillis"),
        ({"dataVersion": {"counter": 2**63}}, "dataVersion.counter"),
        ({"filterServerList": "f:1"}, "filterServerList"),
        ({"type": "CHANNEL_CLOSED"}, "channelId"),
    ],
)
def test_what_the_published_schema_refuses_is_refused_with_the_field_that_it_names(wrong, field):
    [mistake] = SCHEMA.iter_errors(REGISTRATION | wrong)
    assert field in f"{mistake.json_path} {mistake.message}"
    with pytest.raises(MalformedRecordError, match=f"[.`]{field}`"):
        decode_record(value(**wrong))


@pytest.mark.parametrize("key", [b"", b"10.0.0.9:1"])
def test_a_record_of_a_broker_has_its_address_as_key(key):
    reason = f"the record's key is not brokerAddr {ADDRESS}"
    for decode in (decode_record, decode_readable):
        with pytest.raises(MalformedRecordError, match=reason):
            decode(value(), key)
        decode(value(), ADDRESS.encode())


def test_the_key_of_a_record_that_belongs_to_no_broker_is_free():
    assert decode_record(b'{"type": "SCAN"}', b"any") == Scan()


@pytest.mark.parametrize("wrong", [{"brokerId": "x"}, {"clusterName": 5}, {"brokerName": None}])
def test_d4_what_an_unregistration_names_besides_the_address_may_be_anything(wrong):
    said = msgspec.json.encode({"type": "UNREGISTER_BROKER", "brokerAddr": ADDRESS} | wrong)
    assert decode_record(said, ADDRESS.encode()).broker_addr == ADDRESS


def test_unknown_fields_are_ignored_and_absent_ones_have_their_meaning():
    said = decode_record(
        value(colour="red", topicConfigTable={"T": {"readQueueNums": 1, "writeQueueNums": 2, "perm": 6}})
    )
    assert said.topic_config_table == {"T": TopicConfig(1, 2, 6, 0)}
    assert (said.enable_acting_master, said.zone_name, said.keep_filter_servers) == (None, None, False)


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

"""Typed header fields, and the writing requests in the registry's own terms."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_stream.errors import NamesrvError
from namesrv_stream.records import decode_record, encode_record
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    BrokerHeartbeat,
    DeleteKvConfig,
    DeleteTopic,
    PutKvConfig,
    QueueData,
    RegisterTopic,
    RetireBroker,
    TopicConfig,
    UnregisterBroker,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.wire.codes import RequestCode, release_name
from namesrv_stream.wire.headers import (
    GetRouteInfoHeader,
    NotifyMinBrokerIdChangeHeader,
    RegisterBrokerHeader,
    header_fields,
    read_header,
)
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.wire_errors import BadRequestError
from namesrv_stream.wire.write_requests import operator_command
from tests.wire.golden import ANSWERS, REQUESTS, broker_request

REGISTER = {"brokerName": "a", "brokerAddr": "h:1", "clusterName": "C", "haServerAddr": "h:2", "brokerId": "0"}
TOPIC = b'{"readQueueNums":8,"writeQueueNums":8,"perm":6}'
MISMATCHES = {"probe-103-4", "probe-103-5"}


def command_of(code, body=b"", version=493, **fields):
    return RemotingCommand(code=code, ext_fields=fields, body=body, version=version)


@pytest.mark.parametrize(
    ("code", "body", "fields"),
    [
        (103, b"", REGISTER | {"brokerName": "a\x1b[2J"}),
        (103, b"", REGISTER | {"clusterName": "a\nb"}),
        (103, b"", REGISTER | {"brokerAddr": "h\x07:1"}),
        (103, b"", REGISTER | {"haServerAddr": "h\x9b:1"}),
        (103, b"", REGISTER | {"__ZONE_NAME": "z\u202e"}),
        (103, b'{"filterServerList":["a\\u0000:1"]}', REGISTER),
        (104, b"", REGISTER | {"brokerName": "a\r"}),
        (904, b"", REGISTER | {"brokerAddr": "\x7f:1"}),
        (100, b"", {"namespace": "n\n", "key": "k", "value": "v"}),
        (100, b"", {"namespace": "n", "key": "k\t", "value": "v"}),
        (205, b"", {"brokerName": "a\x00"}),
        (216, b"", {"topic": "T\x1b"}),
        (217, b"{}", {"topic": "T\x1b"}),
    ],
)
def test_names_that_cannot_be_printed_are_refused_by_field(code, body, fields):
    command = command_of(code, body, **fields)
    with pytest.raises(BadRequestError, match="cannot be printed") as caught:
        (operator_command if code in (100, 205, 216, 217) else broker_request)(command)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", [" T ", "T\u00a0", "\u3000", "T\u200b", "\ufeffT", "%"])
def test_r1a_commands_take_every_name_that_a_registration_takes(name):
    assert operator_command(command_of(216, topic=name)).topic == name
    assert operator_command(command_of(217, b"{}", topic=name)).topic == name
    body = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"%s":%s}}}' % (name.encode(), TOPIC)
    assert set(broker_request(command_of(103, body, **REGISTER)).topic_config_table) == {name}


def test_a_kv_value_may_have_lines_and_a_name_any_letters():
    value = "a:1\n\tb:2"
    assert operator_command(command_of(100, namespace="n", key="Ключ 主题", value=value)).value == value


@pytest.mark.parametrize("name", [name for name in REQUESTS if "-103" in name and name not in MISMATCHES])
def test_a_golden_registration_becomes_a_record_with_the_same_values(name):
    frame = REQUESTS[name]
    fields = frame.said["header"]["extFields"]
    request = broker_request(frame.command, "gateway-1/7")
    assert request.broker_addr == fields["brokerAddr"]
    assert (request.cluster_name, request.broker_name) == (fields["clusterName"], fields["brokerName"])
    assert (request.broker_id, request.ha_server_addr) == (int(fields["brokerId"]), fields["haServerAddr"])
    assert request.enable_acting_master == {"true": True, "false": False}.get(fields.get("enableActingMaster"))
    assert request.heartbeat_timeout_millis == (int(fields.get("heartbeatTimeoutMillis", 0)) or None)
    assert request.zone_name == fields.get("__ZONE_NAME")
    assert request.keep_filter_servers is (frame.command.version < 37)
    assert request.channel_id == "gateway-1/7"
    assert request.topic_config_table
    assert decode_record(encode_record(request)) == request


@pytest.mark.parametrize("name", sorted(MISMATCHES))
def test_registration_with_another_checksum_is_refused_as_rocketmq_does(name):
    with pytest.raises(BadRequestError) as caught:
        broker_request(REQUESTS[name].command)
    assert caught.value.remark == ANSWERS[name].command.remark


def test_registration_without_body_enters_the_address_alone():
    request = broker_request(command_of(103, **REGISTER))
    assert (request.topic_config_table, request.filter_server_list, request.keep_filter_servers) == ({}, [], False)


def test_registration_carries_topics_mappings_and_filter_servers():
    body = (
        b'{"filterServerList":["f:1"],"topicConfigSerializeWrapper":{"topicConfigTable":'
        b'{"T":{"readQueueNums":1,"writeQueueNums":2,"perm":6,"topicSysFlag":3,"order":true}},'
        b'"topicQueueMappingInfoMap":{"T":{"bname":"a","currIdMap":{0:0,1:2}}}}}'
    )
    request = broker_request(command_of(103, body, **REGISTER))
    assert request.topic_config_table == {"T": TopicConfig(1, 2, 6, 3)}
    assert request.topic_queue_mapping_info_map == {"T": {"bname": "a", "currIdMap": {"0": 0, "1": 2}}}
    assert request.filter_server_list == ["f:1"]


@pytest.mark.parametrize("missing", ["brokerName", "brokerAddr", "clusterName", "brokerId"])
def test_registration_without_a_needed_field_is_refused_by_its_name(missing):
    with pytest.raises(BadRequestError, match=missing):
        broker_request(command_of(103, **{k: v for k, v in REGISTER.items() if k != missing}))


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("brokerAddr", ""),
        ("brokerAddr", "h"),
        ("brokerName", ""),
        ("clusterName", ""),
        ("brokerId", "-1"),
        ("brokerId", "x"),
        ("brokerId", ""),
        ("brokerId", "9223372036854775808"),
        ("heartbeatTimeoutMillis", "0"),
        ("heartbeatTimeoutMillis", "99999999999999"),
        ("enableActingMaster", "maybe"),
        ("bodyCrc32", "0x1"),
    ],
)
def test_field_that_is_no_such_value_is_refused_by_its_name(field, said):
    with pytest.raises(BadRequestError, match=field):
        broker_request(command_of(103, **REGISTER | {field: said}))


@pytest.mark.parametrize("name", ["broker5-104", "broker4-104", "acting2-104", "probe-104"])
def test_golden_unregistration_names_its_address(name):
    fields = REQUESTS[name].said["header"]["extFields"]
    assert broker_request(REQUESTS[name].command, "x/1") == UnregisterBroker(
        broker_addr=fields["brokerAddr"],
        cluster_name=fields["clusterName"],
        broker_name=fields["brokerName"],
        broker_id=int(fields["brokerId"]),
    )


@pytest.mark.parametrize("name", ["broker5-322", "acting-322", "acting2-904", "probe-904", "probe-904-2"])
def test_version_query_and_heartbeat_are_signs_of_life(name):
    address = REQUESTS[name].said["header"]["extFields"]["brokerAddr"]
    assert broker_request(REQUESTS[name].command, "x/1") == BrokerHeartbeat(broker_addr=address, channel_id="x/1")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (command_of(100, namespace="n", key="k", value=""), PutKvConfig(namespace="n", key="k", value="")),
        (command_of(102, namespace="n", key="k"), DeleteKvConfig(namespace="n", key="k")),
        (command_of(205, brokerName="a"), WipeWritePerm(broker_name="a")),
        (command_of(327, brokerName="a"), AddWritePerm(broker_name="a")),
        (command_of(216, topic="null"), DeleteTopic(topic="null")),
        (command_of(216, topic="T", clusterName="C"), DeleteTopic(topic="T", cluster_name="C")),
        (
            command_of(
                217, b'{"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":1,"writeQueueNums":2}]}', topic="T"
            ),
            RegisterTopic(topic="T", queue_datas=[QueueData("a", 1, 2, 6)]),
        ),
        (
            command_of(10_001, clusterName="c", brokerName="a", brokerId="1", reason="sold"),
            RetireBroker(cluster_name="c", broker_name="a", broker_id=1, reason="sold"),
        ),
        (command_of(318, b"enableTopicList=false\n"), UpdateNamesrvConfig(properties={"enableTopicList": "false"})),
    ],
)
def test_operator_request_becomes_a_command_with_its_author(command, said):
    assert operator_command(command, "10.0.0.9") == msgspec.structs.replace(said, requested_by="10.0.0.9")


OPERATOR_NAMES = [n for n in REQUESTS if n.split("-")[1] in ("100", "102", "205", "216", "217", "318", "327")]


def test_a_request_does_not_name_its_author_or_reason_itself():
    said = command_of(205, brokerName="a", requestedBy="somebody", reason="none")
    assert operator_command(said, "10.0.0.9") == WipeWritePerm(broker_name="a", requested_by="10.0.0.9")


@pytest.mark.parametrize("name", [name for name in OPERATOR_NAMES if name != "probe-100-2"])
def test_a_golden_operator_request_becomes_a_record_with_the_same_values(name):
    said = operator_command(REQUESTS[name].command, "10.0.0.9")
    assert decode_record(encode_record(said)) == said


def test_entry_without_key_is_refused_with_rocketmqs_remark():
    with pytest.raises(BadRequestError) as caught:
        operator_command(REQUESTS["probe-100-2"].command)
    assert caught.value.remark == ANSWERS["probe-100-2"].command.remark


@pytest.mark.parametrize("code", [100, 102])
def test_empty_key_is_refused_as_it_marks_a_namespace(code):
    with pytest.raises(BadRequestError, match="key"):
        operator_command(command_of(code, namespace="n", key="", value="v"))


def test_a_retirement_without_a_reason_is_refused():
    with pytest.raises(BadRequestError, match="reason"):
        operator_command(command_of(10_001, clusterName="c", brokerName="a", brokerId="1", reason=""))


@pytest.mark.parametrize("code", [205, 216, 217, 327, 100, 102])
def test_operator_request_without_fields_is_refused(code):
    with pytest.raises(BadRequestError):
        operator_command(RemotingCommand(code=code, body=b"{}"))


@pytest.mark.parametrize("code", [105, 106, 901, 4711, -1])
def test_request_that_changes_nothing_is_no_record(code):
    with pytest.raises(BadRequestError, match=f"request code {code} changes nothing"):
        operator_command(command_of(code))


def test_a_route_request_has_its_topic_and_zone():
    header = read_header(REQUESTS["probe-105-7"].command, GetRouteInfoHeader)
    assert (header.topic, header.own_zone) == (REQUESTS["probe-105-7"].command.ext_fields["topic"], "z1")
    assert read_header(REQUESTS["probe-105-2"].command, GetRouteInfoHeader).accept_standard_json_only is True
    assert read_header(REQUESTS["probe-105-3"].command, GetRouteInfoHeader).topic is None
    assert read_header(command_of(105, topic="null"), GetRouteInfoHeader).topic == "null"


@pytest.mark.parametrize(
    ("mode", "zone"), [("true", "z1"), ("TRUE", "z1"), ("false", None), ("1", None), ("", None), (None, None)]
)
def test_zone_counts_only_in_zone_mode(mode, zone):
    fields = {"topic": "T", "__ZONE_NAME": "z1"} | ({} if mode is None else {"__ZONE_MODE": mode})
    assert read_header(command_of(105, **fields), GetRouteInfoHeader).own_zone == zone


def test_header_survives_its_way_through_ext_fields():
    header = RegisterBrokerHeader(
        broker_name="null",
        broker_addr="h:1",
        cluster_name="true",
        ha_server_addr="",
        broker_id=3,
        heartbeat_timeout_millis=10_000,
        enable_acting_master=False,
        compressed=True,
        body_crc32=7,
        zone_name="z",
    )
    fields = header_fields(header)
    assert fields["__ZONE_NAME"] == "z"
    assert fields["bodyCrc32"] == "7"
    assert read_header(command_of(103, **fields), RegisterBrokerHeader) == header


def test_notice_of_a_new_smallest_id_has_the_fields_that_brokers_read():
    header = NotifyMinBrokerIdChangeHeader(min_broker_id=1, broker_name="a", min_broker_addr="h:1")
    assert header_fields(header) == {"minBrokerId": "1", "brokerName": "a", "minBrokerAddr": "h:1"}


@given(
    st.sampled_from(RequestCode),
    st.dictionaries(
        st.sampled_from([*REGISTER, "topic", "namespace", "key", "value", "compressed"]), st.text(max_size=9)
    ),
    st.binary(max_size=60),
    st.integers(0, 700),
)
def test_any_request_becomes_a_record_or_is_refused(code, fields, body, version):
    assert_is_record_or_refused(command_of(code, body, version, **fields))


def assert_is_record_or_refused(command):
    for translation in (broker_request, operator_command):
        try:
            said = translation(command)
        except NamesrvError as error:
            assert str(error)
        else:
            assert decode_record(encode_record(said)) == said


@pytest.mark.parametrize(
    ("version", "name"),
    [(37, "3.x"), (211, "3.x"), (212, "4.0.0-SNAPSHOT"), (213, "4.0.0"), (407, "4.9.7"), (493, "5.4.0")],
)
def test_a_registration_tells_the_release_of_its_broker(version, name):
    assert release_name(version) == name
    body = b"" if version > 37 else b"{}"
    assert broker_request(command_of(103, body, version, **REGISTER)).broker_version == name

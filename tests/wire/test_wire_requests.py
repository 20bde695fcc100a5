"""Typed header fields, and the writing requests in the registry's own terms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hostile_bytes import requests
from namesrv_stream.errors import BadRequestError, NamesrvError
from namesrv_stream.records import decode_record, encode_record
from namesrv_stream.rules.record_types import (
    BrokerHeartbeat,
    UnregisterBroker,
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
from namesrv_stream.wire.write_requests import operator_command
from tests.wire.golden import ANSWERS, REQUESTS, broker_request

REGISTER = {"brokerName": "a", "brokerAddr": "h:1", "clusterName": "C", "haServerAddr": "h:2", "brokerId": "0"}
TOPIC = b'{"readQueueNums":8,"writeQueueNums":8,"perm":6}'
MISMATCHES = {"probe-103-4", "probe-103-5"}


def command_of(code, body=b"", version=493, **fields):
    return RemotingCommand(code=code, ext_fields=fields, body=body, version=version)


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


OPERATOR_NAMES = [n for n in REQUESTS if n.split("-")[1] in ("100", "102", "205", "216", "217", "318", "327")]


@pytest.mark.parametrize("name", [name for name in OPERATOR_NAMES if name != "probe-100-2"])
def test_a_golden_operator_request_becomes_a_record_with_the_same_values(name):
    said = operator_command(REQUESTS[name].command, "10.0.0.9")
    assert decode_record(encode_record(said)) == said


def test_entry_without_key_is_refused_with_rocketmqs_remark():
    with pytest.raises(BadRequestError) as caught:
        operator_command(REQUESTS["probe-100-2"].command)
    assert caught.value.remark == ANSWERS["probe-100-2"].command.remark


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
def test_a_version_tells_the_release_of_its_broker(version, name):
    assert release_name(version) == name


@pytest.mark.parametrize("command", requests(REGISTER), ids=lambda command: str(command.code))
def test_a_hostile_body_is_refused(command):
    with pytest.raises(BadRequestError):
        (broker_request if command.code == RequestCode.REGISTER_BROKER else operator_command)(command)

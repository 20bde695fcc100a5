"""Bodies of answers and small requests: golden ones both ways, and JSON as fastjson writes it."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import BadRequestError
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lookup import BrokerData, ClusterInfo, TopicRouteData
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.record_types import DataVersion, QueueData
from namesrv_stream.rules.rows import BrokerRow, LogPosition, TopicRow
from namesrv_stream.wire.bodies import (
    GetBrokerMemberGroupResponseBody,
    KVTable,
    TopicList,
    decode_body,
    decode_properties,
    decode_queue_datas,
    encode_body,
    encode_properties,
    with_former_flag,
)
from namesrv_stream.wire.json_text import decode_json, with_quoted_keys
from tests.examples import examples
from tests.wire.golden import ANSWERS, REQUESTS

BODY_OF = {
    "105": TopicRouteData,
    "106": ClusterInfo,
    "901": GetBrokerMemberGroupResponseBody,
    "206": TopicList,
    "224": TopicList,
    "304": TopicList,
    "311": TopicList,
    "312": TopicList,
    "313": TopicList,
    "219": KVTable,
    "103": KVTable,
    "322": DataVersion,
}
JSON_ANSWERS = [
    frame for name, frame in ANSWERS.items() if name.split("-")[1] in BODY_OF and frame.said.get("bodyLength")
]


@pytest.mark.parametrize("frame", JSON_ANSWERS, ids=str)
def test_golden_answer_is_read_and_written_with_its_keys_in_quotes(frame):
    body = decode_body(frame.command.body, BODY_OF[frame.name.split("-")[1]])
    again = encode_body(body)
    assert again == with_quoted_keys(frame.command.body)
    assert decode_body(again, type(body)) == body


@pytest.mark.parametrize("frame", [f for f in JSON_ANSWERS if b"{0:" in f.command.body], ids=str)
def test_golden_answer_with_bare_keys_is_written_byte_for_byte(frame):
    body = decode_body(frame.command.body, BODY_OF[frame.name.split("-")[1]])
    assert encode_body(body, bare_integer_keys=True) == frame.command.body


def test_integer_keys_alone_are_bare():
    """A broker name or address that looks like a number keeps its quotes."""
    mappings = {"1": '{"bname":"1","currIdMap":{"0":1}}', "2": '{"bname":"2","currIdMap":{"x":1}}', "3": "{}"}
    at = LogPosition(0, 0, 0)
    holders = {number: BrokerRow("1", number, addr, "2", None, None, at) for number, addr in ((0, "3"), (10, "4"))}
    queues = TopicQueues.of([TopicRow("5", "1", 1, 1, 6, 0)])
    tables = lookup.RouteTables(queues, {"1": holders}, filters={"3": ("6",)}, mappings={"5": mappings})
    route = lookup.route(tables, "5", NamesrvSettings())
    text = encode_body(route, bare_integer_keys=True)
    assert b'"brokerAddrs":{0:"3",10:"4"}' in text
    assert b'"filterServerTable":{"3":["6"]}' in text
    assert b'{"1":{"bname":"1","currIdMap":{0:1}},"2":{"bname":"2","currIdMap":{"x":1}},"3":{}}' in text
    assert with_quoted_keys(text) == encode_body(route)


def test_every_kind_of_answer_is_among_the_golden_ones():
    assert {frame.name.split("-")[1] for frame in JSON_ANSWERS} == set(BODY_OF)


def test_what_is_null_is_left_out_and_what_is_empty_is_not():
    route = TopicRouteData([], [BrokerData("a", "C", {}, enable_acting_master=True)], {})
    assert encode_body(route) == (
        b'{"brokerDatas":[{"brokerAddrs":{},"brokerName":"a","cluster":"C","enableActingMaster":true}],'
        b'"filterServerTable":{},"queueDatas":[]}'
    )
    assert encode_body(ClusterInfo({}, {})) == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
    assert encode_body(TopicList([])) == b'{"topicList":[]}'
    assert encode_body(TopicList(["T"], "h:1")) == b'{"brokerAddr":"h:1","topicList":["T"]}'


def test_answer_of_a_4_x_name_server_is_read_too():
    text = b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"h:1"},"brokerName":"a","cluster":"C"}},"clusterAddrTable":{}}'
    assert decode_body(text, ClusterInfo).broker_addr_table["a"].enable_acting_master is None


@pytest.mark.parametrize("name", ["broker5-217", "probe-217"])
def test_registered_topic_is_the_queue_data_of_its_route(name):
    frame = REQUESTS[name]
    (said,) = json.loads(frame.said["body"])["queueDatas"]
    counts = said["readQueueNums"], said["writeQueueNums"], said["perm"], said["topicSysFlag"]
    assert decode_queue_datas(frame.command.body) == [QueueData(said["brokerName"], *counts)]


@pytest.mark.parametrize("piece", [b'"a":[1,2],', b'"a\\"{0:":{},', b" " * 70_000 + b'"x":1,', b"1" * 70_000 + b","])
def test_what_takes_many_steps_to_look_through_is_not_changed(piece):
    """A step ends after 64 tokens, or 65,536 bytes of one."""
    text = b"{" + piece * 100 + b'"z":{0:1}}'
    assert with_quoted_keys(text) == text[: -len(b"{0:1}}")] + b'{"0":1}}'


def test_a_string_of_endless_escapes_is_refused():
    with pytest.raises(BadRequestError, match="over 65536 escapes"):
        decode_json(b'{0:"' + b"\\n" * 70_000 + b'"}', msgspec.json.Decoder(), "x")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10) | st.sampled_from(['{0:"', ',1:"', '\\"{2:']),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("{7:"), inner, max_size=3)
    ),
    max_leaves=15,
)


@given(json_values, st.booleans())
def test_standard_json_is_not_changed_by_the_tolerant_reader(value, blanks):
    text = json.dumps(value, separators=None if blanks else (",", ":"), ensure_ascii=blanks).encode()
    assert with_quoted_keys(text) == text


@examples(50)
@given(st.dictionaries(st.integers(), json_values, min_size=1))
def test_bare_keys_are_read_as_the_same_keys_in_quotes(table):
    members = ",".join(f"{key}:{json.dumps(value)}" for key, value in table.items())
    decoder = msgspec.json.Decoder(dict[str, object])
    expected = {str(key): value for key, value in json.loads(json.dumps(table)).items()}
    assert json.loads(with_quoted_keys(f"{{{members}}}".encode())) == expected
    if all(abs(number) < 2**63 for number in integers_in(table)):
        assert decode_json(f"{{{members}}}".encode(), decoder, "x") == expected


def integers_in(value):
    match value:
        case bool():
            return []
        case int():
            return [value]
        case list():
            return [number for item in value for number in integers_in(item)]
        case dict():
            return [number for item in value.values() for number in integers_in(item)]
        case _:
            return []


@given(st.binary(max_size=100) | st.text('{},:"\\01 a[]', max_size=60).map(str.encode))
def test_any_text_is_read_or_refused(text):
    decoder = msgspec.json.Decoder(dict[str, object])
    try:
        encode = msgspec.json.encode(decode_json(text, decoder, "x"))
    except BadRequestError as error:
        assert "Failed to decode x:" in str(error)
    else:
        assert json.loads(encode) is not None


def test_properties_of_the_real_name_server_are_read_and_written():
    settings = decode_properties(ANSWERS["probe-319"].command.body)
    assert settings["configBlackList"] == "configBlackList;configStorePath;kvConfigPath"
    assert settings["listenPort"] == "19800"
    assert encode_properties(settings) == ANSWERS["probe-319"].command.body


def test_update_of_the_configuration_is_read_as_properties():
    assert decode_properties(REQUESTS["probe-318"].command.body) == {"enableTopicList": "false"}
    assert decode_properties(b"") == {}
    assert decode_properties(b"# note\na = b\\\n  c\n") == {"a": "bc"}


@given(st.dictionaries(st.text(), st.text()))
def test_properties_survive_a_round_trip(settings):
    assert decode_properties(encode_properties(settings)) == settings


def test_clients_from_before_490_find_the_flag_of_a_queue_under_both_names():
    route = TopicRouteData([QueueData('"topicSysFlag":1', 8, 8, 6, 3)], [], {})
    [queue] = msgspec.json.decode(with_former_flag(encode_body(route)))["queueDatas"]
    assert (queue["topicSynFlag"], queue["topicSysFlag"], queue["brokerName"]) == (3, 3, '"topicSysFlag":1')

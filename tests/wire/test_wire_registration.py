"""The body of a registration in every form that brokers send, and everything that can be wrong with one."""

import json
import re
import struct
import tracemalloc
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.registration_body import encode_registration
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.record_types import DataVersion, TopicConfig
from namesrv_stream.wire import registration_request
from namesrv_stream.wire.json_text import MAX_VALUES
from namesrv_stream.wire.registration_request import (
    RegisterBrokerBody,
    TopicConfigSerializeWrapper,
    body_crc32,
    check_crc32,
    decode_registration,
    inflate,
)
from namesrv_stream.wire.wire_errors import BadRequestError
from tests.examples import examples
from tests.wire.golden import REQUESTS

V3_0_10, V3_0_11, V4_9_7, V4_LAST, V5_0_0, V5_4_0, UNKNOWN_FUTURE = 35, 37, 407, 412, 413, 493, 30000
REGISTRATIONS = [frame for name, frame in REQUESTS.items() if "-103" in name]


def decoded(frame):
    fields = frame.command.ext_fields
    return decode_registration(frame.command.body, frame.command.version, compressed=fields["compressed"] == "true")


@pytest.mark.parametrize("frame", REGISTRATIONS, ids=str)
def test_golden_registration_is_understood(frame):
    wrapper = decoded(frame).topic_config_serialize_wrapper
    if "body" in frame.said:
        version, topics = said_in_json(frame)
    else:
        version, topics = said_in_sections(bytes.fromhex(frame.said["bodyInflatedHex"]))
    assert wrapper.data_version == version
    assert wrapper.topic_config_table == topics
    assert len(topics) > 0


def said_in_json(frame):
    body = json.loads(frame.said["body"])
    wrapper = body.get("topicConfigSerializeWrapper", body)
    counts = ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag")
    topics = {
        name: TopicConfig(*(topic[count] for count in counts)) for name, topic in wrapper["topicConfigTable"].items()
    }
    return version_said(wrapper["dataVersion"]), topics


def said_in_sections(inflated):
    found = re.findall(rb"(?s)\0\0\0.([\w%-]+) (\d+) (\d+) (\d+) SINGLE_TAG", inflated)
    topics = {name.decode(): TopicConfig(int(read), int(write), int(perm)) for name, read, write, perm in found}
    return version_said(json.loads(re.search(rb"{.*?}", inflated)[0])), topics


def version_said(said):
    return DataVersion(said.get("stateVersion", 0), said["timestamp"], said["counter"])


topic_names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=20)
int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
topic_configs = st.builds(TopicConfig, int32, int32, int32, int32)
versions = st.builds(DataVersion, int64, int64, int64)


@st.composite
def registrations(draw):
    mappings = draw(st.dictionaries(topic_names, st.dictionaries(st.text(max_size=5), int64), max_size=3))
    return RegisterBrokerBody(
        TopicConfigSerializeWrapper(
            draw(versions),
            draw(st.dictionaries(topic_names, topic_configs, max_size=5)),
            {topic: info | {"topic": topic} for topic, info in mappings.items()},
        ),
        draw(st.lists(st.text(max_size=20), max_size=3) | st.none()),
    )


@examples(50)
@given(registrations(), st.sampled_from([V3_0_11, V4_9_7, V5_0_0, V5_4_0, UNKNOWN_FUTURE]))
def test_plain_registration_survives_a_round_trip(body, version):
    assert decode_registration(encode_registration(body, version), version) == body


@examples(50)
@given(registrations())
def test_bare_registration_survives_a_round_trip_but_for_its_filter_servers(body):
    again = decode_registration(encode_registration(body, V3_0_10), V3_0_10)
    assert again.topic_config_serialize_wrapper == body.topic_config_serialize_wrapper
    assert again.filter_server_list is None


@examples(50)
@given(registrations(), st.sampled_from([V4_9_7, V4_LAST, V5_0_0, V5_4_0]), st.booleans())
def test_a_compressed_registration_survives_a_round_trip_but_for_what_it_lacks(body, version, says_compressed):
    raw = encode_registration(body, version, compressed=True)
    again = decode_registration(raw, version, compressed=says_compressed)
    before, after = body.topic_config_serialize_wrapper, again.topic_config_serialize_wrapper
    without_flags = {
        t: TopicConfig(c.read_queue_nums, c.write_queue_nums, c.perm) for t, c in before.topic_config_table.items()
    }
    assert after.topic_config_table == without_flags
    assert after.data_version == before.data_version
    assert after.topic_queue_mapping_info_map == (before.topic_queue_mapping_info_map if version >= V5_0_0 else {})
    assert again.filter_server_list == body.filter_server_list


def sections(*topics, version=b"{}", servers=b"[]", mappings=None):
    def block(content):
        return struct.pack(">i", len(content)) + content

    def blocks(contents):
        return struct.pack(">i", len(contents)) + b"".join(map(block, contents))

    return block(version) + blocks(topics) + block(servers) + (b"" if mappings is None else blocks(mappings))


def test_mapping_section_is_read_from_5_0_0_on_only():
    raw = zlib.compress(sections(b"T 1 2 6 SINGLE_TAG", mappings=[b'{"topic":"T","currIdMap":{0:0,1:2}}']))
    old = decode_registration(raw, V4_LAST, compressed=True).topic_config_serialize_wrapper
    new = decode_registration(raw, V5_0_0, compressed=True).topic_config_serialize_wrapper
    assert old.topic_queue_mapping_info_map == {}
    assert new.topic_queue_mapping_info_map == {"T": {"topic": "T", "currIdMap": {"0": 0, "1": 2}}}


def test_5_0_0_registration_without_its_mapping_section_is_refused():
    with pytest.raises(BadRequestError, match="Failed to decode"):
        decode_registration(zlib.compress(sections()), V5_0_0, compressed=True)


@pytest.mark.parametrize("version", [V3_0_10, V3_0_11])
def test_form_of_a_plain_body_follows_the_version(version):
    bare = b'{"topicConfigTable":{"T":{"readQueueNums":1,"writeQueueNums":1,"perm":6}}}'
    table = decode_registration(bare, version).topic_config_serialize_wrapper.topic_config_table
    assert set(table) == ({"T"} if version == V3_0_10 else set())


@pytest.mark.parametrize(("version", "servers"), [(V3_0_10, None), (V3_0_11, []), (V5_4_0, [])])
@pytest.mark.parametrize("compressed", [True, False])
def test_no_body_is_no_topic_and_version_zero(version, servers, compressed):
    assert decode_registration(b"", version, compressed=compressed) == RegisterBrokerBody(filter_server_list=servers)


@pytest.mark.parametrize(
    ("text", "servers"), [(b"{}", []), (b'{"filterServerList":null}', None), (b'{"filterServerList":["a"]}', ["a"])]
)
def test_filter_servers_absent_are_empty_and_null_keeps_them(text, servers):
    assert decode_registration(text, V5_4_0).filter_server_list == servers


@pytest.mark.parametrize(
    "topic",
    [b"T 1 2 6 SINGLE_TAG", b"T 1 2 6 SINGLE_TAG {}", b'T 1 2 6 MULTI_TAG {"+a":"b"}', b"T 1 2 6 SINGLE_TAG {oops x"],
)
def test_topic_text_has_five_parts_or_attributes_behind_them(topic):
    table = decode_registration(zlib.compress(sections(topic)), V4_9_7, compressed=True).topic_config_serialize_wrapper
    assert table.topic_config_table == {"T": TopicConfig(1, 2, 6, 0)}


GOOD = '{"readQueueNums":1,"writeQueueNums":2,"perm":4}'


@pytest.mark.parametrize(
    ("said", "topics", "left_out"),
    [
        (f'"T":{GOOD},"N":null', {"T"}, ("N",)),
        (f'"T":{GOOD},"N":{{"perm":6}}', {"T"}, ("N",)),
        (f'"T":{GOOD},"N":{{"readQueueNums":null,"writeQueueNums":8,"perm":6}}', {"T"}, ("N",)),
        *((f'"{name}":{GOOD}', {name}, ()) for name in (" a ", "a\u00a0", "\u3000", "a\u200b", "\ufeffa", "%", "主题")),
    ],
)
@pytest.mark.parametrize("version", [V3_0_10, V5_4_0])
def test_r1a_a_topic_that_cannot_be_taken_is_left_out_alone(said, topics, left_out, version):
    wrapper = f'{{"topicConfigTable":{{{said}}}}}'
    body = wrapper if version == V3_0_10 else f'{{"topicConfigSerializeWrapper":{wrapper}}}'
    read = decode_registration(body.encode(), version)
    table = read.topic_config_serialize_wrapper.topic_config_table
    assert (set(table), read.left_out) == (topics, left_out)
    assert set(table.values()) == {TopicConfig(1, 2, 4)}


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ('{"topicConfigSerializeWrapper":null}', {}),
        ('{"topicConfigSerializeWrapper":{"dataVersion":null,"topicConfigTable":null}}', {}),
        ('{"topicConfigSerializeWrapper":{"topicQueueMappingInfoMap":{"T":null}},"filterServerList":["f",null]}', {}),
        ('{"topicConfigSerializeWrapper":{"dataVersion":{"counter":null,"timestamp":7}}}', {"timestamp": 7}),
        ('{"topicConfigSerializeWrapper":{"dataVersion":null},"filterServerList":null,"leftOut":["x"]}', {}),
    ],
)
def test_r1a_a_null_is_what_an_absent_field_is(said, fields):
    read = decode_registration(said.encode(), V5_4_0)
    assert read.topic_config_serialize_wrapper == TopicConfigSerializeWrapper(DataVersion(**fields))
    lists = {'"filterServerList":["f",null]': ["f"], '"filterServerList":null': None}
    assert read.filter_server_list == next((lists[each] for each in lists if each in said), [])
    assert read.left_out == ()


def test_r1a_a_topic_without_a_perm_has_that_of_rocketmq():
    body = (
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"readQueueNums":1,"writeQueueNums":2,"perm":null}}}}'
    )
    table = decode_registration(body, V5_4_0).topic_config_serialize_wrapper.topic_config_table
    assert table == {"T": TopicConfig(1, 2, 6)}


def test_r1a_a_null_in_a_compressed_version_is_what_an_absent_field_is():
    raw = zlib.compress(sections(b"T 1 2 6 SINGLE_TAG", version=b'{"counter":null,"timestamp":7}'))
    wrapper = decode_registration(raw, V4_9_7, compressed=True).topic_config_serialize_wrapper
    assert wrapper.data_version == DataVersion(timestamp=7)


@pytest.mark.parametrize(
    ("topic", "left_out"),
    [
        ("", ""),
        ("N 1 2 6", "N 1 2 6"),
        ("N x 2 6 SINGLE_TAG",) * 2,
        ("N 2147483648 2 6 SINGLE_TAG", "N"),
    ],
)
def test_r1a_a_topic_without_its_numbers_in_a_compressed_body_is_left_out_alone(topic, left_out):
    body = zlib.compress(sections(topic.encode(), b"T 1 2 6 SINGLE_TAG"))
    read = decode_registration(body, V4_9_7, compressed=True)
    assert read.topic_config_serialize_wrapper.topic_config_table == {"T": TopicConfig(1, 2, 6)}
    assert read.left_out == (left_out,)


@pytest.mark.parametrize("name", ["My Topic", " T ", "a 1 2 6 SINGLE_TAG", "a\u3000b"])
@pytest.mark.parametrize("attributes", ["", " {}", ' {"+a":"b 9 9 9 SINGLE_TAG"}'])
def test_a_topic_name_may_have_blanks_the_rest_is_read_from_the_right(name, attributes):
    topic = f"{name} 1 2 6 SINGLE_TAG{attributes}".encode()
    table = decode_registration(zlib.compress(sections(topic)), V4_9_7, compressed=True).topic_config_serialize_wrapper
    assert table.topic_config_table == {name: TopicConfig(1, 2, 6, 0)}


@pytest.mark.parametrize(
    "inflated",
    [
        b"",
        b"\x00\x00\x00",
        b"\x00\x00\x00\x05{}",
        b"\xff\xff\xff\xff",
        sections(version=b"[]"),
        sections(version=b'{"counter":9223372036854775808}'),
        sections(servers=b"{}"),
        sections()[:-1],
        b"\x00\x00\x00\x02{}\xff\xff\xff\xff",
        sections(mappings=[b"{}"]),
        sections(mappings=[b'{"topic":5}']),
        sections(mappings=[b"[]"]),
    ],
)
def test_broken_sections_are_refused(inflated):
    with pytest.raises(BadRequestError, match="Failed to decode"):
        decode_registration(zlib.compress(inflated), V5_4_0, compressed=True)


def topics_in_every_form(count):
    table = {f"t{number}": TopicConfig(1, 1, 6) for number in range(count)}
    wrapper = TopicConfigSerializeWrapper(DataVersion(), table)
    for version, compressed in ((V5_4_0, False), (V5_4_0, True), (V3_0_10, False)):
        yield encode_registration(RegisterBrokerBody(wrapper), version, compressed=compressed), version, compressed


def test_registration_at_the_limit_of_topics_is_taken_and_one_topic_more_is_not(monkeypatch):
    monkeypatch.setattr(registration_request, "MAX_TOPICS", 100)
    for body, version, compressed in topics_in_every_form(100):
        wrapper = decode_registration(body, version, compressed=compressed).topic_config_serialize_wrapper
        assert len(wrapper.topic_config_table) == 100
    for body, version, compressed in topics_in_every_form(101):
        with pytest.raises(BadRequestError, match="enableSplitRegistration"):
            decode_registration(body, version, compressed=compressed)


def test_an_announced_number_of_topics_beyond_the_limit_is_refused_before_one_is_read():
    with pytest.raises(BadRequestError, match="topics in one registration"):
        decode_registration(zlib.compress(b"\x00\x00\x00\x02{}\x7f\xff\xff\xff"), V5_4_0, compressed=True)


@pytest.mark.parametrize("values", [b"[],", b"{},", b"1,"])
def test_json_of_more_values_than_are_read_at_once_is_refused(values):
    text = b'{"x":[' + values * MAX_VALUES + b"0]}"
    with pytest.raises(BadRequestError, match="over the limit of"):
        decode_registration(text, V5_4_0)


@pytest.mark.parametrize(
    "text",
    [
        b"x",
        b"[]",
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"\xff":{}}}}',
        b'{"topicConfigSerializeWrapper":',
        b'{"a":' * 100_000,
    ],
)
def test_broken_json_is_refused(text):
    with pytest.raises(BadRequestError, match="Failed to decode RegisterBrokerBody"):
        decode_registration(text, V5_4_0)


@pytest.mark.parametrize(
    "raw", [b"{}", zlib.compress(sections())[:-1], zlib.compress(b"")[:3], b"x\xda" + b"\x00" * 50]
)
def test_broken_zlib_stream_is_refused(raw):
    with pytest.raises(BadRequestError, match="Failed to decode"):
        decode_registration(raw, V5_4_0, compressed=True)


def test_inflated_body_at_the_limit_is_taken_and_one_byte_more_is_not(monkeypatch):
    monkeypatch.setattr(registration_request, "MAX_INFLATED_BYTES", 1000)
    assert inflate(zlib.compress(bytes(1000))) == bytes(1000)
    with pytest.raises(BadRequestError, match="more than 1000 bytes"):
        inflate(zlib.compress(bytes(1001)))


def test_a_body_that_is_quick_to_decode_is_the_same_within_the_limits_of_quick_ones():
    wrapper = TopicConfigSerializeWrapper(DataVersion(0, 7, 1), {"A": TopicConfig(8, 8, 6)})
    body = encode_registration(RegisterBrokerBody(wrapper, ["f"]), V5_4_0)
    quick, usual = decode_registration(body, V5_4_0, only_quick=True), decode_registration(body, V5_4_0)
    assert msgspec.to_builtins(quick) == msgspec.to_builtins(usual)


@pytest.mark.parametrize("mappings", ['{"A":{}}', '{"A":1}', "{0:1}", '{},"more":{0:1}'])
@pytest.mark.parametrize(
    ("body", "version"), [('{"topicConfigSerializeWrapper":{%s}}', V5_4_0), ("{%s}", V3_0_10)], ids=["5.x", "3.0.10"]
)
def test_static_topics_and_keys_without_quotes_are_not_quick_to_decode(body, version, mappings):
    with pytest.raises(BadRequestError, match="Failed to decode"):
        decode_registration((body % f'"topicQueueMappingInfoMap":{mappings}').encode(), version, only_quick=True)


def test_zlib_bomb_takes_no_more_memory_than_the_limit_asks_for(monkeypatch):
    monkeypatch.setattr(registration_request, "MAX_INFLATED_BYTES", 1024 * 1024)
    deflate = zlib.compressobj(9)
    bomb = b"".join(deflate.compress(bytes(1024 * 1024)) for _ in range(16)) + deflate.flush()
    tracemalloc.start()
    try:
        with pytest.raises(BadRequestError, match="inflates to more"):
            decode_registration(bomb, V5_4_0, compressed=True)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * 1024 * 1024


@pytest.mark.parametrize("frame", REGISTRATIONS, ids=str)
def test_checksum_is_that_of_the_body_as_sent_without_its_top_bit(frame):
    said = int(frame.command.ext_fields["bodyCrc32"])
    if said == 12345:  # what the two probes of a mismatch say
        with pytest.raises(BadRequestError, match="the header has 12345") as caught:
            check_crc32(frame.command.body, said)
        assert caught.value.remark == "crc32 not match"
    else:
        check_crc32(frame.command.body, said)
        assert body_crc32(frame.command.body) == said


@given(st.binary(max_size=200), st.integers(-5, 1000), st.booleans())
def test_any_body_is_understood_or_refused(body, version, compressed):
    for raw in (body, zlib.compress(body)):
        try:
            decode_registration(raw, version, compressed=compressed)
        except NamesrvError as error:
            assert str(error)

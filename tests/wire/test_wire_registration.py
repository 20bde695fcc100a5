"""The body of a registration in every form that brokers send, and everything that can be wrong with one."""

import json
import re
import tracemalloc
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.registration_body import encode_registration
from namesrv_stream.errors import BadRequestError, NamesrvError
from namesrv_stream.rules.record_types import DataVersion, TopicConfig
from namesrv_stream.wire import registration_request
from namesrv_stream.wire.registration_request import (
    RegisterBrokerBody,
    TopicConfigSerializeWrapper,
    body_crc32,
    check_crc32,
    decode_registration,
    inflate,
)
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


GOOD = '{"readQueueNums":1,"writeQueueNums":2,"perm":4}'


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

"""The token of a registration (E10), and how much is remembered of brokers; test_broker_cases.py has what follows."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from namesrv_stream.gateway import known_brokers as module
from namesrv_stream.gateway.known_brokers import KnownBrokers, token_of
from namesrv_stream.records import encode_record
from namesrv_stream.rules.registration import MAX_TOKENS
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.registration_request import body_crc32
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.write_requests import register_broker
from tests.build import ADDRESS
from tests.gateway.registrations import command
from tests.wire.golden import RECORDINGS


@pytest.fixture
def known():
    return KnownBrokers(300_000)


@pytest.mark.parametrize(
    "other",
    [
        command(counter=2),
        command(topics=("A", "C")),
        command(topics=("A",)),
        command(filter_servers=("f:1",)),
        command(ha_server_addr="10.0.0.1:10912"),
        command(enable_acting_master=True),
        command(heartbeat_timeout_millis=10_000),
        command(zone_name="z"),
        replace(command(), version=1),
        replace(command(), body=command().body + b" "),
    ],
)
def test_another_header_version_or_body_is_another_token(other):
    assert token_of(other) != token_of(command())


def test_the_token_is_that_of_all_gateways_and_leaves_out_who_signs(monkeypatch):
    """A gateway of another release or machine has to make the same one: this text may change with its meaning alone."""
    monkeypatch.setattr(module, "REGISTRATION_SCHEMA_HASH", "2")
    fields = {"brokerAddr": ADDRESS, "brokerName": "a"}
    said = RemotingCommand(code=RequestCode.REGISTER_BROKER, version=493, ext_fields=fields, body=b"{}")
    signed = replace(said, ext_fields={"Signature": "s", **fields, "AccessKey": "k", "SecurityToken": "t"})
    assert token_of(said) == token_of(signed) == "7c3af83638f29886a978e38e"
    assert token_of(replace(said, sender="somebody")) == token_of(said)


@pytest.mark.parametrize("name", RECORDINGS)
def test_real_brokers_registrations_have_one_token_if_the_rules_read_the_same(name):
    """A recording of two minutes; uncompressed 5.x bodies differ each time, in `mappingDataVersion`."""
    recorded = RECORDINGS[name]
    assert len(recorded) >= 10
    read = [encode_record(register_broker(each)) for each in recorded]
    told = list(map(token_of, recorded))
    assert [told.index(each) for each in told] == [read.index(each) for each in read]
    assert len(set(told)) <= 2, "a broker makes some of its own topics late"


MAPPINGS = (
    b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},'
    b'"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":%s},"topicConfigTable":{%s}}}'
)
TOPIC = b'"%s":{"readQueueNums":%d,"writeQueueNums":4,"perm":6}'


def with_body(body, checksum=None):
    fields = command().ext_fields | {"bodyCrc32": str(body_crc32(body) if checksum is None else checksum)}
    return replace(command(), body=body, ext_fields=fields)


@pytest.mark.parametrize(
    "other",
    [
        with_body(MAPPINGS % (b"6", TOPIC % (b"A", 8))),
        with_body(MAPPINGS % (b"6", TOPIC % (b"A", 4)), checksum=7),
        with_body(MAPPINGS % (b"6", TOPIC % (b"A", 4)), checksum=0),
        with_body(MAPPINGS % (b"006x", TOPIC % (b"A", 4))),
        with_body((MAPPINGS % (b"6", TOPIC % (b"A", 4))).replace(b"[]", b'["f:1"]')),
        with_body((MAPPINGS % (b"6", TOPIC % (b"A", 4))).replace(b'"counter":1', b'"counter":2')),
    ],
)
def test_only_a_new_version_of_mappings_and_its_right_checksum_are_left_out(other):
    first = with_body(MAPPINGS % (b"5", TOPIC % (b"A", 4)))
    assert token_of(with_body(MAPPINGS % (b"6", TOPIC % (b"A", 4)))) == token_of(first)
    assert token_of(other) != token_of(first)


def test_a_topic_with_the_name_of_that_version_is_no_version():
    bodies = [MAPPINGS % (b"5", TOPIC % (b"mappingDataVersion", queues)) for queues in (4, 8)]
    own = [body.replace(b'"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":5},', b"") for body in bodies]
    assert len({token_of(with_body(body)) for body in (*bodies, *own)}) == 4


def test_what_fails_of_an_unknown_broker_is_not_remembered(known):
    """Peers may name any number of addresses."""
    known.note_failed(ADDRESS, SimpleNamespace(live={}))
    assert known.kept == 0


def test_registrations_that_are_never_repeated_take_no_more_room_than_a_lease_has_tokens(known):
    for channel in ("g/1", "g/2"):
        known.note_sign_of_life(ADDRESS, channel, 1)
    for counter in range(3 * MAX_TOKENS):
        said = command(counter=counter)
        head = replace(register_broker(said), topic_config_table={}, token=token_of(said))
        known.note_sent_in_full(head, 0).place = LogPosition(0, 0, 5)
    known.forget_channel("g/1")
    assert known.kept == MAX_TOKENS + 1, "it has another connection"
    known.forget_channel("g/2")
    assert known.kept == 1, "the last record, which no snapshot has read"

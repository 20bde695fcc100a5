"""Requests of brokers into a log that acknowledges when the test lets it: what is sent, and the answers."""

import logging

import pytest
from msgspec.structs import replace

from namesrv_stream.gateway import registering as registering_module
from namesrv_stream.gateway.kafka_link import GatewayBusyError
from namesrv_stream.gateway.writes import MAX_AT_ONCE_BYTES, refusal
from namesrv_stream.records import decode_record
from namesrv_stream.wire.codes import Flag, RequestCode, ResponseCode
from namesrv_stream.wire.frame import LARGE_BODY_BYTES, FrameDecoder
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command
from namesrv_stream.wire.write_requests import operator_command, register_broker
from tests.build import ADDRESS
from tests.gateway.registrations import command, live
from tests.gateway.site import FULL, LEAVE, PARTS, answer_of, settle
from tests.gateway.transport import Transport, connected
from tests.wire.golden import ANSWERS, REQUESTS


def grown(size_bytes, mappings=b"{}"):
    """A registration with these mappings of static topics, and with a text so long that its body has `size_bytes`."""
    body = command().body.replace(b'InfoMap":{}', b'InfoMap":' + mappings)[:-1] + b',"text":""}'
    return replace(command(), body=body[:-2] + b"a" * (size_bytes - len(body)) + body[-2:])


STATIC, UNQUOTED = b'{"A":{"topic":"A"}}', b'{"A":{"currIdMap":{0:1}}}'


@pytest.mark.parametrize(
    ("said", "is_sent"),
    [
        pytest.param(grown(MAX_AT_ONCE_BYTES), True, id="as large as may be"),
        pytest.param(grown(MAX_AT_ONCE_BYTES + 1), False, id="a larger one"),
        pytest.param(command(broker_id=1), True, id="a slave's"),
        pytest.param(grown(LARGE_BODY_BYTES, STATIC), True, id="a small one of a static topic"),
        pytest.param(grown(LARGE_BODY_BYTES + 1, STATIC), False, id="a larger one of a static topic"),
        pytest.param(grown(LARGE_BODY_BYTES, UNQUOTED), True, id="a small one with a key without quotes"),
        pytest.param(grown(LARGE_BODY_BYTES + 1, b'{},"mine":{0:1}'), False, id="a larger one with such a key"),
        pytest.param(replace(command(), body=b"\x78" + command().body), False, id="a compressed one"),
        pytest.param(replace(command(), body=b"{"), False, id="one that cannot be read"),
    ],
)
async def test_a_registration_is_one_send_unless_it_takes_the_event_loop_time(site, said, is_sent):
    assert (site.ask_at_once(said, site.connect()) is not None) == is_sent
    assert site.log.kinds == [FULL] * is_sent


async def test_a_large_registration_for_which_kafka_has_no_room_is_not_decoded(site, monkeypatch):
    monkeypatch.setattr(registering_module, "read_registration", pytest.fail)
    site.log.is_full = True
    assert site.ask_at_once(grown(LARGE_BODY_BYTES + 1), site.connect()) is None
    assert (await site.ask(grown(LARGE_BODY_BYTES + 1), site.connect())).code == ResponseCode.SYSTEM_BUSY


async def test_a_master_is_answered_as_one_although_its_address_registers_as_a_slave_meanwhile(site):
    sent = site.ask_at_once(command(), site.connect())
    later = site.ask(command(broker_id=1), site.connect())
    await settle()
    site.log.acknowledge()
    await later
    assert "masterAddr" not in answer_of(sent.answer()).ext_fields


async def test_earlier_requests_of_the_connection_are_sent_first(site):
    broker = site.connect()
    await site.acknowledged(command(), broker)
    heartbeat = replace(LEAVE, code=RequestCode.BROKER_HEARTBEAT)
    broker.track_pending(command())
    for said in (command(), heartbeat):
        assert site.ask_at_once(said, broker) is None, "an answer is outstanding"
    broker.reply_frame(command(), None)
    async with broker.order:
        for said in (command(), heartbeat):
            assert site.ask_at_once(said, broker) is None, "something is being handed to Kafka"
    assert site.ask_at_once(command(), broker).is_light
    site.log.acknowledge()
    assert site.ask_at_once(heartbeat, broker).is_logged


@pytest.mark.parametrize("name", ["probe-205", "probe-327", "probe-322", "probe-103", "probe-104", "probe-904"])
async def test_an_answer_has_the_fields_of_rocketmqs(site, name):
    asked = site.ask(REQUESTS[name].command, site.connect())
    await settle()
    site.log.acknowledge()
    answer, golden = await asked, ANSWERS[name].command
    assert (answer.code, set(answer.ext_fields or {})) == (golden.code, set(golden.ext_fields or {}))
    refused = refusal(REQUESTS[name].command, GatewayBusyError("busy"))
    assert (refused.code, refused.ext_fields) == (ResponseCode.SYSTEM_BUSY, None if golden.ext_fields is None else {})


async def test_d14_a_refusal_names_both_brokers_and_is_a_warning_a_minute(site, caplog):
    lease = live()._replace(channels={"other/7": 0})
    site.writes.follow(site.answers(**{ADDRESS: lease}))
    site.log.refuses = True
    for passed_s, warnings in ((0, 1), (59.9, 1), (0.1, 2)):
        await site.clock.passes(passed_s)
        answer = await site.ask(command(broker_name="b"), site.connect())
        assert (answer.code, "brokerIP1" in answer.remark, "other/7" in answer.remark) == (1, True, True)
        assert sum(each.levelname == "WARNING" and "brokerIP1" in each.message for each in caplog.records) == warnings


async def test_the_log_names_a_broker_when_it_comes_when_it_leaves_in_order_and_when_its_connection_is_lost(
    site, caplog
):
    caplog.set_level(logging.INFO)
    broker = site.connect()
    await site.acknowledged(PARTS[0], broker)
    site.writes.follow(site.answers(**{ADDRESS: live(PARTS[0])}))
    await site.acknowledged(LEAVE, broker)
    broker.loss = "reset by peer"
    await site.lose(broker)
    other = site.connect()
    await site.acknowledged(command(broker_addr="10.0.0.2:1"), other)
    assert site.writes.registering.note_kafka(is_away=True) == 1, "the gateway says how many are closed"
    await site.lose(other)
    assert not [line for line in caplog.messages if "closed" in line or "10.0.0.2:1) disconnected" in line]
    lines = [each for each in caplog.records if getattr(each, "address", None) == ADDRESS]
    assert [each.getMessage() for each in lines] == [
        f"a master ({ADDRESS}) registers over the connection of 127.0.0.1:5000",
        f"a master ({ADDRESS}) unregisters",
        f"a master ({ADDRESS}) disconnected after <1s: reset by peer",
    ]


LARGE = command(counter=2, topics=[f"topic-{number}" for number in range(MAX_AT_ONCE_BYTES // 128)])


class Peer:
    """A broker's connection through the dispatcher."""

    def __init__(self, site):
        self._transport, self._log = Transport(), site.log
        self.dispatcher = site.dispatcher()
        self.connection = connected(self.dispatcher, site.connections, self._transport)

    async def sends(self, *commands):
        frames = [encode_command(replace(each, opaque=number)) for number, each in enumerate(commands)]
        self.connection.data_received(b"".join(frames))
        await settle()

    async def is_acknowledged(self):
        self._log.acknowledge()
        await settle()

    @property
    def answers(self):
        """Opaque and code of each answer, in order."""
        return [(answer.opaque, answer.code) for answer in FrameDecoder().feed(bytes(self._transport.written))]


async def test_small_and_large_registrations_get_to_the_log_in_the_order_of_their_connection_and_oneway_ones_too(site):
    peer = Peer(site)
    await peer.sends(command(), LARGE, replace(command(counter=3), flag=Flag.ONEWAY))
    assert peer.answers == [], "Kafka has taken none of them"
    assert [each.data_version.counter for each in site.log.sent if type(each) is FULL] == [1, 2, 3]
    assert decode_record(site.log.records[1]).topic_config_table == register_broker(LARGE).topic_config_table
    await peer.is_acknowledged()
    assert sorted(peer.answers) == [(0, 0), (1, 0)]


async def test_a_command_is_a_record_that_names_who_asked(site):
    peer, retired = Peer(site), {"clusterName": "c", "brokerName": "gone", "brokerId": "0", "reason": "sold"}
    commands = [REQUESTS[f"probe-{code}"].command for code in (100, 102, 205, 216, 217, 318, 327)]
    commands.append(RemotingCommand(code=RequestCode.RETIRE_BROKER, ext_fields=retired))
    await peer.sends(*commands)
    assert site.log.sent == [operator_command(each, "127.0.0.1:5000") for each in commands]
    await peer.is_acknowledged()


@pytest.mark.parametrize(
    ("write", "lookup"),
    [
        (command(), RemotingCommand(code=105, ext_fields={"topic": "A"})),
        (REQUESTS["probe-100"].command, replace(REQUESTS["probe-100"].command, code=RequestCode.GET_KV_CONFIG)),
    ],
    ids=["registration", "command"],
)
async def test_e12_a_lookup_of_what_was_acknowledged_waits_until_a_snapshot_has_read_it(site, write, lookup):
    peer = Peer(site)
    peer.dispatcher.serve(site.answers())
    await peer.sends(write)
    await peer.is_acknowledged()
    await peer.sends(lookup)
    assert len(peer.answers) == 1
    site.writes.follow(site.answers())
    await settle()
    assert [code for _, code in peer.answers[1:]] in ([ResponseCode.TOPIC_NOT_EXIST], [ResponseCode.QUERY_NOT_FOUND])


async def test_an_error_of_ours_in_a_small_registration_is_an_answer_and_its_connection_stays(site, monkeypatch):
    peer = Peer(site)
    with monkeypatch.context() as patch:
        patch.setattr(registering_module, "read_registration", lambda *_: 1 / 0)
        await peer.sends(command())
    assert peer.answers == [(0, ResponseCode.SYSTEM_ERROR)]
    assert not peer.connection.is_closing
    await peer.sends(command())
    assert site.log.kinds == [FULL]

"""Requests of brokers into a log that acknowledges when the test lets it: what is sent, and the answers."""

import asyncio
import logging

import msgspec
import pytest

from namesrv_stream.gateway import known_brokers
from namesrv_stream.gateway import registering as registering_module
from namesrv_stream.gateway.sending import ANSWER_LIMIT_S
from namesrv_stream.gateway.writes import MAX_AT_ONCE_BYTES, refusal
from namesrv_stream.rules.record_types import BrokerHeartbeat, ChannelClosed, RequestRefused
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.frame import LARGE_BODY_BYTES
from namesrv_stream.wire.remoting_command import RemotingCommand
from tests.gateway.site import FULL, LEAVE, LIGHT, PARTS, answer_of, settle
from tests.gateway.test_known_brokers import ADDRESS, command, live
from tests.wire.golden import ANSWERS, REQUESTS


async def test_an_unchanged_registration_is_one_send(site):
    broker = site.connect()
    assert await site.acknowledged(command(), broker) == 0
    sent = site.ask_at_once(command(), broker)
    assert site.log.sent[1] == BrokerHeartbeat(broker_addr=ADDRESS, channel_id="g/1")
    site.log.acknowledge()
    await sent.place
    assert answer_of(sent.answer()).code == 0
    assert site.ask_at_once(command(), site.connect()).is_light, "over any connection"
    assert not site.ask_at_once(command(counter=2), broker).is_light, "it says something new"
    assert site.log.kinds == [FULL, LIGHT, LIGHT, FULL]


def grown(size_bytes, mappings=b"{}"):
    """A registration with these mappings of static topics, and with a text so long that its body has `size_bytes`."""
    body = command().body.replace(b'InfoMap":{}', b'InfoMap":' + mappings)[:-1] + b',"text":""}'
    return msgspec.structs.replace(command(), body=body[:-2] + b"a" * (size_bytes - len(body)) + body[-2:])


LIMIT_BYTES = MAX_AT_ONCE_BYTES


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(grown(LIMIT_BYTES), id="as large as may be"),
        pytest.param(command(broker_id=1), id="a slave's"),
        pytest.param(grown(LARGE_BODY_BYTES, b'{"A":{"topic":"A"}}'), id="a small one of a static topic"),
        pytest.param(grown(LARGE_BODY_BYTES, b'{"A":{"currIdMap":{0:1}}}'), id="a small one with a key without quotes"),
    ],
)
async def test_a_registration_is_one_send_whatever_it_has_that_takes_the_event_loop_no_time(site, other):
    assert site.ask_at_once(other, site.connect()) is not None
    assert site.log.kinds == [FULL]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(grown(LIMIT_BYTES + 1), id="a large one"),
        pytest.param(grown(LARGE_BODY_BYTES + 1, b'{"A":{"topic":"A"}}'), id="a larger one of a static topic"),
        pytest.param(grown(LARGE_BODY_BYTES + 1, b'{},"mine":{0:1}'), id="a larger one with a key without quotes"),
        pytest.param(msgspec.structs.replace(command(), body=b"\x78" + command().body), id="a compressed one"),
        pytest.param(msgspec.structs.replace(command(), body=b"{"), id="one that cannot be read"),
    ],
)
async def test_any_other_registration_waits_for_its_turn_and_nothing_is_sent_before(site, other):
    assert site.ask_at_once(other, site.connect()) is None
    assert site.log.sent == []


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


async def test_a_small_registration_that_fails_is_answered_busy_and_then_sent_in_full(site):
    broker = site.connect()
    sent = site.ask_at_once(command(), broker)
    site.log.fail()
    await settle()
    answer = refusal(command(), sent.place.exception())
    assert (answer.code, answer.ext_fields) == (ResponseCode.SYSTEM_BUSY, {})
    assert await site.acknowledged(command(), broker) == 0
    assert site.log.kinds == [FULL, FULL]


async def test_signs_of_life_over_one_connection_are_for_as_many_addresses_as_may_register_over_it(site, monkeypatch):
    monkeypatch.setattr(known_brokers, "MAX_BROKERS_OF_A_CONNECTION", 2)
    site.writes.follow(site.answers(**{f"10.0.0.{number}:1": live() for number in range(3)}))
    peer, codes = site.connect(), []
    for number in (0, 1, 2, 1):
        fields = LEAVE.ext_fields | {"brokerAddr": f"10.0.0.{number}:1"}
        heartbeat = RemotingCommand(code=RequestCode.BROKER_HEARTBEAT, ext_fields=fields)
        codes.append(await site.acknowledged(heartbeat, peer))
    assert codes == [0, 0, 1, 0]
    assert [each.broker_addr for each in site.log.sent] == ["10.0.0.0:1", "10.0.0.1:1", "10.0.0.1:1"]


async def test_earlier_requests_of_the_connection_are_sent_first(site):
    broker = site.connect()
    await site.acknowledged(command(), broker)
    heartbeat = msgspec.structs.replace(LEAVE, code=RequestCode.BROKER_HEARTBEAT)
    broker.await_answer(command())
    for said in (command(), heartbeat):
        assert site.ask_at_once(said, broker) is None, "an answer is outstanding"
    broker.reply_frame(command(), None)
    async with broker.order:
        for said in (command(), heartbeat):
            assert site.ask_at_once(said, broker) is None, "something is being handed to Kafka"
    assert site.ask_at_once(command(), broker).is_light
    site.log.acknowledge()
    assert site.ask_at_once(heartbeat, broker).is_logged


async def test_nothing_is_answered_by_a_heartbeat_before_the_log_has_it(site):
    broker = site.connect()
    first, again = site.ask(command(), broker), site.ask(command(), broker)
    await settle()
    assert site.log.kinds == [FULL, FULL]
    assert not first.done() and not again.done()
    site.log.acknowledge()
    assert [(await each).code for each in (first, again)] == [0, 0]


async def test_a_heartbeat_that_kafka_does_not_acknowledge_is_answered_before_its_broker_closes_the_connection(site):
    broker = site.connect()
    await site.acknowledged(command(), broker)
    asked = site.ask(msgspec.structs.replace(LEAVE, code=RequestCode.BROKER_HEARTBEAT), broker)
    await settle()
    await site.clock.passes(ANSWER_LIMIT_S)
    assert (await asked).code == ResponseCode.SYSTEM_BUSY


async def test_a_registration_that_waits_when_its_connection_is_lost_is_sent_before_its_end(site):
    broker = site.connect()
    await site.acknowledged(command(), broker)
    async with broker.order:
        asked = site.ask(command(), broker)
        await settle()
        await site.lose(broker)
    await settle()
    assert site.log.kinds == [FULL, LIGHT, ChannelClosed]
    site.log.acknowledge()
    await asked


@pytest.mark.parametrize(
    ("heard_ago_s", "channel", "is_refused"),
    [(0, "other/7", True), (45, "other/7", True), (46, "other/7", False), (0, "g/1", False), (0, "g/99", False)],
    ids=["lives", "lives at the limit", "silent", "its own connection", "a connection that is closed"],
)
async def test_d14_an_address_that_another_living_broker_has_is_refused(site, caplog, heard_ago_s, channel, is_refused):
    first = site.connect()
    own = f"g/{first.number}" if channel == "g/1" else channel
    lease = live()._replace(channels={own: 1_000_000 - heard_ago_s * 1_000})
    site.writes.follow(site.answers(reading_ms=1_000_000, **{ADDRESS: lease}))
    for other in ({"broker_name": "b"}, {"cluster_name": "d"}):
        asked = site.ask(command(**other), first)
        await settle()
        site.log.acknowledge()
        await settle()
        site.writes.follow(site.answers(reading_ms=1_000_000, **{ADDRESS: lease}))
        answer = await asked
        assert answer.code == is_refused
        assert ("brokerIP1" in (answer.remark or ""), "other/7" in (answer.remark or "")) == (
            is_refused,
            is_refused,
        )
    assert site.log.kinds == ([RequestRefused] if is_refused else [FULL, FULL]), "one refusal in a while"
    warnings = [each for each in caplog.records if each.levelname == "WARNING" and "brokerIP1" in each.message]
    assert len(warnings) == is_refused, "a warning a minute"
    same = site.ask(command(2), site.connect())
    await settle()
    site.log.acknowledge()
    assert (await same).code == 0, "the holder registers over another connection"


async def test_d14_a_registration_waits_for_a_snapshot_of_now_before_it_is_refused(site):
    """A calm registry publishes signs of life every five minutes: the newest snapshot has them from long ago."""
    lease = live()._replace(channels={"other/7": 955_000})
    site.writes.follow(site.answers(reading_ms=960_000, **{ADDRESS: lease}))
    asked = site.ask(command(broker_name="b"), site.connect())
    await settle()
    site.log.acknowledge()
    await settle()
    site.writes.follow(site.answers(reading_ms=1_001_000, **{ADDRESS: lease}))
    await settle()
    site.log.acknowledge()
    assert ((await asked).code, site.log.kinds) == (0, [RequestRefused, FULL])


@pytest.mark.parametrize("code", [RequestCode.BROKER_HEARTBEAT, RequestCode.QUERY_DATA_VERSION])
@pytest.mark.parametrize("names", [{"brokerName": "b"}, {"clusterName": "d"}, {}])
async def test_d14_a_request_under_another_name_is_no_sign_of_life(site, code, names):
    site.writes.follow(site.answers(**{ADDRESS: live()}))
    asking = msgspec.structs.replace(LEAVE, code=code, ext_fields={"brokerAddr": ADDRESS, **names}, body=b"")
    asked = site.ask(asking, site.connect())
    await settle()
    site.log.acknowledge()
    assert (await asked).code == ResponseCode.SUCCESS
    assert site.log.kinds == ([] if names else [LIGHT])


@pytest.mark.parametrize(
    ("silent_s", "has_lease", "is_closed"), [(121, False, True), (119, False, False), (121, True, False)]
)
async def test_the_silent_connection_of_a_broker_that_has_expired_is_closed(site, silent_s, has_lease, is_closed):
    broker = site.connect()
    await site.acknowledged(command(), broker)
    site.writes.follow(site.answers(**({ADDRESS: live(command())} if has_lease else {})))
    loop = asyncio.get_running_loop()
    later_s = loop.time() + silent_s
    loop.time = lambda: later_s
    site.writes.registering.close_expired()
    del loop.time
    assert broker.is_closing == is_closed


@pytest.mark.parametrize("is_away", [True, False])
async def test_connections_of_brokers_are_closed_while_kafka_is_away(site, is_away, caplog):
    caplog.set_level(logging.INFO)
    broker, client = site.connect(), site.connect()
    await site.acknowledged(command(), broker)
    assert site.writes.registering.note_kafka(is_away=is_away) == is_away
    assert (broker.is_closing, client.is_closing) == (is_away, False)
    await site.lose(broker)
    assert any("closed" in line or "lost" in line for line in caplog.messages) != is_away, "the gateway says how many"
    assert ChannelClosed not in site.log.kinds if is_away else site.log.kinds[-1] is ChannelClosed


@pytest.mark.parametrize("is_slow", [False, True], ids=["nothing came", "half a frame came"])
async def test_an_idle_connection_that_the_gateway_closes_ends_no_lease_and_loses_no_sign_of_life(site, is_slow):
    """The broker lives as long as its silence is within its lease (D13)."""

    broker = site.connect()
    await site.acknowledged(command(), broker)
    asked = site.ask(command(), broker)
    await settle()
    site.log.acknowledge()
    await asked
    assert (await site.ask(command(), broker)).code == 0, "answered, and sent later"
    if is_slow:
        broker.data_received(b"\0\0\1")
    broker.close_if_overdue(asyncio.get_running_loop().time() + (11 if is_slow else 121), 120)
    assert broker.is_closing
    await site.lose(broker)
    assert site.log.kinds == [FULL, LIGHT, LIGHT]


async def test_a_sign_of_life_that_is_read_when_its_connection_is_lost_comes_to_nothing(site):
    """Else the closed channel would hold the lease for good."""

    query = RemotingCommand(
        code=RequestCode.QUERY_DATA_VERSION, ext_fields=LEAVE.ext_fields, body=b"{}".ljust(LARGE_BODY_BYTES + 1)
    )
    lost, other = site.connect(), site.connect()
    for connection in (lost, other):
        await site.acknowledged(command(), connection)
    site.log.working.clear()
    asked = site.ask(query, lost)
    await settle()
    await site.lose(lost)
    await site.acknowledged(command(), other)
    site.log.working.set()
    await asked
    await settle()
    assert site.log.kinds == [FULL, LIGHT, LIGHT, ChannelClosed]


def query(counter=1, flag=0, **named):
    """Return the question of a broker before it registers, if it registers only what is new."""
    body = b'{"counter":%d,"stateVersion":0,"timestamp":7}' % counter
    fields = LEAVE.ext_fields | named
    return RemotingCommand(code=RequestCode.QUERY_DATA_VERSION, ext_fields=fields, body=body, flag=flag)


async def is_changed(site, said, connection):
    asked = site.ask(said, connection)
    await settle()
    site.log.acknowledge()
    return (await asked).ext_fields["changed"] == "true"


@pytest.mark.parametrize(
    ("named", "changed"),
    [({}, False), ({"brokerId": "1"}, True), ({"brokerName": "b"}, True), ({"clusterName": "d"}, True)],
)
async def test_a_broker_with_another_identity_than_its_lease_has_to_register(site, named, changed):
    broker = site.connect()
    await site.acknowledged(command(), broker)
    site.writes.follow(site.answers(**{ADDRESS: live(command())}))
    assert await is_changed(site, query(**named), broker) is changed


async def test_a_broker_whose_registration_may_be_undone_has_to_register(site):
    """A broker with forceRegister=false asks first: its lease has its version, and no token (E10)."""

    site.writes.follow(site.answers(**{ADDRESS: live()}))
    assert await is_changed(site, query(), site.connect())


@pytest.mark.parametrize("is_full", [False, True], ids=["Kafka lost it", "Kafka had no room"])
async def test_after_a_part_failed_its_broker_is_asked_for_all_until_it_registers(site, is_full):
    """The tables have the version by the other part."""

    broker = site.connect()
    await site.acknowledged(PARTS[0], broker)
    site.log.refuses = is_full
    failing = site.ask(PARTS[1], broker)
    await settle()
    site.log.fail()
    assert (await failing).code == ResponseCode.SYSTEM_BUSY
    site.log.refuses = False
    site.writes.follow(site.answers(**{ADDRESS: live(PARTS[0])}))
    assert await is_changed(site, query(), broker)
    for part in PARTS:
        await site.acknowledged(part, broker)
    site.writes.follow(site.answers(**{ADDRESS: live(*PARTS)}))
    assert not await is_changed(site, query(), broker)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_what_failed_is_forgotten_with_the_connection_and_not_before(site, is_lost):
    """The next connection brings the whole; and peers may name any number of addresses."""

    broker = site.connect()
    failing = site.ask(command(), broker)
    await settle()
    site.log.fail()
    await failing
    site.writes.follow(site.answers(**{ADDRESS: live(command())}))
    if is_lost:
        await site.lose(broker)
        site.log.acknowledge()
        await settle()
        site.writes.follow(site.answers(**{ADDRESS: live(command())}))
    assert await is_changed(site, query(), site.connect()) == (not is_lost)


@pytest.mark.parametrize("name", ["probe-205", "probe-327", "probe-322", "probe-103", "probe-104", "probe-904"])
async def test_an_answer_has_the_fields_of_rocketmqs(site, name):
    asked = site.ask(REQUESTS[name].command, site.connect())
    await settle()
    site.log.acknowledge()
    answer, golden = await asked, ANSWERS[name].command
    assert (answer.code, set(answer.ext_fields or {})) == (golden.code, set(golden.ext_fields or {}))


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
    lines = [each for each in caplog.records if getattr(each, "address", None) == ADDRESS]
    assert [each.getMessage() for each in lines] == [
        f"a 0 ({ADDRESS}) registers over the connection of 127.0.0.1:5000",
        f"a 0 ({ADDRESS}) unregisters",
        f"a 0 ({ADDRESS}): connection lost after 0s: reset by peer",
    ]

"""Thinned signs of life: which of them get to the log, when, and how the others are answered."""

import asyncio
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_stream.access import users
from namesrv_stream.access.rights import NotAllowedError
from namesrv_stream.errors import KafkaUnreachableError
from namesrv_stream.gateway.authorization import Authorization
from namesrv_stream.gateway.dispatcher import Dispatcher
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.gateway.heartbeats import Heartbeats, interval_ms
from namesrv_stream.gateway.kafka_link import GATHERED_FOR_MS, GATHERED_FROM_MS, TICK_AT_MS, Ticks
from namesrv_stream.gateway.sending import KafkaSender
from namesrv_stream.rules.record_types import BrokerHeartbeat, ChannelClosed, RegisterBroker, UnregisterBroker
from namesrv_stream.wire.codes import Flag, RequestCode, ResponseCode
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import RemotingCommand
from tests.examples import examples
from tests.gateway.site import LEAVE, Clock, Here, Log, Site, settle
from tests.gateway.test_known_brokers import ADDRESS, command, live

LEASE_MS = 10_000
HEARTBEAT = RemotingCommand(code=RequestCode.BROKER_HEARTBEAT, ext_fields=LEAVE.ext_fields)


class Sender:
    """Heartbeats of one gateway at a clock that stands still. `log_ms`: the times of the records."""

    def __init__(self, often_ms=600_000, calm_ms=600_000):
        self.clock = Clock()
        self.log = Log(Ticks(self.clock, often_ms, calm_ms, self.clock.time))
        self.heartbeats = Heartbeats(KafkaSender(self.log, Here(), "g", self.clock))
        self.log_ms = []
        send = self.log.send

        def timed(*args, **more):
            self.log_ms.append(round(self.clock.now_s * 1_000))
            return send(*args, **more)

        self.log.send = timed

    def hear(self, lease_ms=LEASE_MS, address=ADDRESS, channel="g/1"):
        answer = self.heartbeats.send(address, channel, lease_ms, "host")
        self.log.acknowledge()
        return answer


def times_of_records(arrivals_ms, lease_ms, *periods_ms):
    """Return the times at which records get to the log if signs of life come at these times."""

    async def scenario():
        sender = Sender(*periods_ms)
        for at_ms in arrivals_ms:
            await sender.clock.passes(at_ms / 1_000 - sender.clock.now_s)
            sender.hear(lease_ms)
        await sender.clock.passes(lease_ms)
        return sender.log_ms

    return asyncio.run(scenario())


@examples(50)
@given(st.lists(st.integers(0, 60_000), min_size=1, max_size=40).map(sorted), st.integers(1, 60_000))
def test_no_sign_of_life_is_lost_and_none_is_invented(arrivals_ms, lease_ms):
    times, most_ms = times_of_records(arrivals_ms, lease_ms), interval_ms(lease_ms)
    for at_ms in arrivals_ms:
        assert any(at_ms <= in_log_ms <= at_ms + most_ms for in_log_ms in times), "the lease would end early"
    for before_ms, after_ms in zip([-most_ms, *times], times, strict=False):
        assert after_ms - before_ms >= most_ms
        assert any(before_ms <= at_ms <= after_ms for at_ms in arrivals_ms), "nobody was heard since the one before"


@examples(50)
@given(st.lists(st.integers(0, 300_000), min_size=1, max_size=40).map(sorted), st.integers(8_000, 200_000))
def test_signs_of_life_come_shortly_before_a_tick(arrivals_ms, lease_ms):
    first_ms, *times = times_of_records(arrivals_ms, lease_ms, 1_000, 5_000)
    assert first_ms == arrivals_ms[0], "the first one over a connection waits for nothing"
    every_ms = 5_000 if lease_ms >= 40_000 else 1_000
    for before_ms, at_ms in zip([first_ms, *times], times, strict=False):
        is_late = at_ms >= before_ms + 2 * interval_ms(lease_ms)
        assert at_ms % every_ms in range(GATHERED_FROM_MS, TICK_AT_MS) or (is_late and at_ms in arrivals_ms)
    most_ms = interval_ms(lease_ms) * 3 // 2 + GATHERED_FOR_MS
    for at_ms in arrivals_ms:
        assert any(at_ms <= in_log_ms <= at_ms + most_ms for in_log_ms in [first_ms, *times])


@pytest.mark.parametrize(
    ("lease_ms", "at_ms"), [(120_000, 60_000), (120_000, 119_999), (7_996, 2_500)], ids=["late", "at its end", "short"]
)
def test_a_sign_of_life_waits_for_no_tick_if_its_lease_might_end_before(lease_ms, at_ms):
    assert times_of_records([0, at_ms], lease_ms, 1_000, 5_000)[:2] == [0, at_ms]


async def test_thousands_of_signs_of_life_are_not_sent_at_once():
    sender = Sender(1_000, 5_000)
    for _ in range(2):
        for number in range(2_000):
            sender.hear(120_000, f"10.0.{number >> 8}.{number & 255}:1")
        await sender.clock.passes(31)
    per_ms = Counter(sender.log_ms[2_000:])
    assert (sum(per_ms.values()), len(per_ms)) == (2_000, GATHERED_FOR_MS)
    assert max(per_ms.values()) < 30


class Refusing(Authorization):
    """Refuses each heartbeat once `refuses` is true."""

    checked = frozenset({RequestCode.BROKER_HEARTBEAT})
    refuses = False

    def __init__(self):
        pass

    def admitted(self, command, connection, live):
        if self.refuses:
            raise NotAllowedError(command.code, users.Sender(None), "the right to write")
        return command


async def test_a_thinned_heartbeat_is_answered_within_the_call_unless_it_is_oneway_or_not_allowed():
    site, authorization = Site(), Refusing()
    broker, dispatcher = site.connect(), Dispatcher(site.answers(), site.writes, Metrics(), authorization)
    registering_now = site.ask(command(), broker)
    await settle()
    site.log.acknowledge()
    await registering_now
    (answer,) = FrameDecoder().feed(dispatcher.answer(HEARTBEAT, broker))
    assert (answer.code, answer.opaque, answer.is_response) == (ResponseCode.SUCCESS, HEARTBEAT.opaque, True)
    oneway = msgspec.structs.replace(HEARTBEAT, flag=int(Flag.ONEWAY))
    assert dispatcher.answer(oneway, broker) is None
    assert broker.is_answered, "no task answers either"
    authorization.refuses = True
    (answer,) = FrameDecoder().feed(dispatcher.answer(HEARTBEAT, broker))
    assert answer.code == ResponseCode.NO_PERMISSION


@pytest.fixture
def sender():
    return Sender()


async def test_each_address_and_each_connection_has_its_own(sender):
    for address in (ADDRESS, "10.0.0.2:1"):
        for channel in ("g/1", "g/2"):
            for _ in range(2):
                sender.hear(address=address, channel=channel)
    assert sender.log.sent == [
        BrokerHeartbeat(broker_addr=address, channel_id=channel)
        for address in (ADDRESS, "10.0.0.2:1")
        for channel in ("g/1", "g/2")
    ]


async def test_a_sign_of_life_that_is_not_sent_is_answered_with_the_record_before_it(sender):
    in_log = sender.heartbeats.send(ADDRESS, "g/1", LEASE_MS, "host")
    first, second = (sender.heartbeats.send(ADDRESS, "g/1", LEASE_MS, "host") for _ in range(2))
    await settle()
    assert not first.done()
    first.cancel()  # one who waits no longer takes the answer of no other
    sender.log.acknowledge()
    assert (await second).offset == (await in_log).offset == 0
    assert sender.hear().done(), "the log has it already"


async def test_after_a_record_that_failed_the_next_sign_of_life_is_sent_at_once(sender):
    sender.heartbeats.send(ADDRESS, "g/1", LEASE_MS, "host")
    thinned = sender.heartbeats.send(ADDRESS, "g/1", LEASE_MS, "host")
    sender.log.fail()
    with pytest.raises(KafkaUnreachableError):
        await thinned
    sender.hear()
    assert sender.log_ms == [0, 0]
    await sender.clock.passes(LEASE_MS / 1_000)
    assert sender.log_ms == [0, 0], "nothing is sent later for one that was answered with an error"


async def test_a_record_that_cannot_be_sent_later_leaves_the_next_sign_of_life_to_be_sent_at_once(sender):
    sender.hear()
    sender.hear()
    send = sender.log.send

    def refuse(*_, **__):
        raise KafkaUnreachableError(sender.log.address, "away")

    sender.log.send = refuse
    await sender.clock.passes(LEASE_MS / 4_000)
    sender.log.send = send
    sender.hear()
    assert sender.log_ms == [0, LEASE_MS // 4]


async def answered(site, said, connection):
    """Return the code of the answer; no time passes."""
    asked = site.ask(said, connection)
    await settle()
    site.log.acknowledge()
    return (await asked).code


@pytest.mark.parametrize("lease_of", ["registration", "snapshot"])
async def test_the_shorter_lease_counts_if_a_registration_on_its_way_has_another(site, lease_of):
    broker = site.connect()
    mine, other = (LEASE_MS, 120_000) if lease_of == "registration" else (120_000, LEASE_MS)
    await answered(site, command(heartbeat_timeout_millis=mine), broker)
    lease = live()._replace(heartbeat_timeout_millis=other)
    site.writes.follow(site.answers(0, **{ADDRESS: lease}))
    await answered(site, HEARTBEAT, broker)
    await site.clock.passes(LEASE_MS / 4_000)
    assert site.log.kinds == [RegisterBroker, BrokerHeartbeat]


async def test_registrations_heartbeats_and_version_queries_are_signs_of_one_life(site):
    query = RemotingCommand(code=RequestCode.QUERY_DATA_VERSION, ext_fields=LEAVE.ext_fields, body=b"{}")
    broker = site.connect()
    for said in (command(heartbeat_timeout_millis=LEASE_MS), HEARTBEAT, query) * 2:
        assert await answered(site, said, broker) == ResponseCode.SUCCESS
        await site.clock.passes(0.1)
    assert site.log.kinds == [RegisterBroker]
    await site.clock.passes(LEASE_MS / 4_000)
    assert site.log.kinds == [RegisterBroker, BrokerHeartbeat]


async def test_l2_a_sign_of_life_of_an_address_without_a_lease_is_answered_and_is_no_record(site):
    query = RemotingCommand(code=RequestCode.QUERY_DATA_VERSION, ext_fields=LEAVE.ext_fields, body=b"{}")
    for said in (HEARTBEAT, query):
        assert await answered(site, said, site.connect()) == ResponseCode.SUCCESS
    assert site.log.sent == []


async def test_no_sign_of_life_follows_the_end_of_its_connection_or_lease(site):
    lost, leaving = site.connect(), site.connect()
    await answered(site, command(), lost)
    await answered(site, HEARTBEAT, lost)
    await site.lose(lost)
    await answered(site, command(), leaving)
    await answered(site, HEARTBEAT, leaving)
    await answered(site, LEAVE, leaving)
    await site.clock.passes(120)
    assert site.log.kinds == [RegisterBroker, ChannelClosed, RegisterBroker, UnregisterBroker]


async def test_a_gateway_that_stops_sends_at_once_the_signs_of_life_that_wait(site):
    broker, silent = site.connect(), site.connect()
    await answered(site, command(), broker)
    await answered(site, HEARTBEAT, broker)
    await answered(site, command(broker_addr="10.0.0.2:1"), silent)
    site.writes.registering.stop()
    assert site.log.sent[2:] == [BrokerHeartbeat(broker_addr=ADDRESS, channel_id="g/1")]
    await site.clock.passes(120)
    assert len(site.log.sent) == 3, "each is sent once"

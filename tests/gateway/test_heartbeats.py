"""Thinned signs of life: which of them get to the log, when, and how the others are answered."""

import asyncio
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_stream.access import users
from namesrv_stream.access.rights import NotAllowedError
from namesrv_stream.gateway.authorization import Authorization
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.gateway.heartbeats import Heartbeats, interval_ms
from namesrv_stream.gateway.kafka_link import GATHERED_FOR_MS, GATHERED_FROM_MS, TICK_AT_MS, Ticks
from namesrv_stream.gateway.sending import KafkaSender
from namesrv_stream.wire.codes import Flag, RequestCode, ResponseCode
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import RemotingCommand
from tests.build import ADDRESS
from tests.examples import examples
from tests.gateway.registrations import command
from tests.gateway.site import LEAVE, Clock, Here, Log, settle

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


async def test_a_thinned_heartbeat_is_answered_within_the_call_unless_it_is_oneway_or_not_allowed(site, monkeypatch):
    def refuse(*_):
        raise NotAllowedError(HEARTBEAT.code, users.Sender(None), "the right to write")

    authorization = Authorization(site.settings, Metrics())
    broker, dispatcher = site.connect(), site.dispatcher(authorization)
    site.ask_at_once(command(), broker)
    site.log.acknowledge()
    (answer,) = FrameDecoder().feed(dispatcher.answer(HEARTBEAT, broker))
    assert (answer.code, answer.opaque, answer.is_response) == (ResponseCode.SUCCESS, HEARTBEAT.opaque, True)
    oneway = msgspec.structs.replace(HEARTBEAT, flag=int(Flag.ONEWAY))
    assert dispatcher.answer(oneway, broker) is None
    assert broker.has_no_pending, "no task answers either"
    monkeypatch.setattr(authorization, "checked", frozenset({RequestCode.BROKER_HEARTBEAT}))
    monkeypatch.setattr(authorization, "authorize", refuse)
    (answer,) = FrameDecoder().feed(dispatcher.answer(HEARTBEAT, broker))
    assert answer.code == ResponseCode.NO_PERMISSION


async def test_who_waits_no_longer_takes_the_answer_of_no_other():
    sender = Sender()
    in_log, first, second = (sender.heartbeats.send(ADDRESS, "g/1", LEASE_MS, "host") for _ in range(3))
    await settle()
    first.cancel()
    sender.log.acknowledge()
    assert (await second).offset == (await in_log).offset == 0
    sender.heartbeats.forget(ADDRESS)
    for _ in range(2):
        sender.heartbeats.send(ADDRESS, "g/1", LEASE_MS, "host")
    sender.log.fail()  # which is no error of the loop, although nobody waits for an answer

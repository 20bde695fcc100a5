"""The times of a gateway's ticks (E7): seldom while no lease can end, often while one may."""

import asyncio

import pytest

from namesrv_stream.gateway.ticks import Ticks
from namesrv_stream.rules.lease import LogClock
from tests.gateway.test_known_brokers import live
from tests.gateway.test_writes import Clock

LEASE = live()
"""Its timeout is 120 s: it is late from 90 s of the log's clock after its last sign of life on."""

LOG = LogClock(newest_tick_ms=0, tick_append_ms=0, reading_ms=5_000_000)
"""The log's clock as a snapshot has it: its reading is no time of day."""


class Gateway:
    """The ticks of one gateway at a clock that stands still; Kafka takes each at once, unless `takes` is False."""

    def __init__(self, clock):
        self.clock, self.takes, self.fails, self.sent_s = clock, True, False, []
        self.ticks = Ticks(clock, 1_000, 5_000, clock.time)

    def start(self):
        self.ticks.start(self._send)

    def lease(self, last_s):
        """Take note of a snapshot with a lease whose broker was heard at a time of the wall clock."""
        heard_ms = LOG.reading_ms + round(last_s * 1_000)
        self.ticks.follow(LOG.late_at_ms([LEASE._replace(clock_millis=heard_ms)]))

    def _send(self):
        if self.fails:
            raise TypeError("nobody expects this")
        self.sent_s.append(round(self.clock.now_s, 3))
        if self.takes:
            self.ticks.ended(None)


@pytest.fixture
def run():
    def running(scenario):
        async def in_loop():
            await scenario(Gateway(Clock()))

        asyncio.run(in_loop())

    return running


def test_e7_while_no_lease_is_late_a_tick_comes_in_each_calm_period(run):
    async def scenario(gateway):
        gateway.lease(last_s=0)
        gateway.start()
        await gateway.clock.passes(21)
        assert gateway.sent_s == [0, 0.9, 5.9, 10.9, 15.9, 20.9]

    run(scenario)


def test_e7_while_a_lease_is_late_a_tick_comes_each_second(run):
    async def scenario(gateway):
        gateway.lease(last_s=0)
        gateway.start()
        await gateway.clock.passes(94)
        assert gateway.sent_s[-6:] == [80.9, 85.9, 90.9, 91.9, 92.9, 93.9]
        gateway.lease(last_s=94)
        await gateway.clock.passes(12)
        assert gateway.sent_s[-4:] == [93.9, 95.9, 100.9, 105.9], "the broker was heard"

    run(scenario)


def test_a_snapshot_with_a_late_lease_does_not_wait_for_the_calm_tick(run):
    async def scenario(gateway):
        gateway.lease(last_s=0)
        gateway.start()
        await gateway.clock.passes(11)
        gateway.lease(last_s=-100)
        await gateway.clock.passes(2)
        assert gateway.sent_s[-3:] == [10.9, 11.9, 12.9]

    run(scenario)


@pytest.mark.parametrize("last_s", [0, -100], ids=["calm", "late"])
@pytest.mark.parametrize("before_ms", [1, 10, 20, 30])
def test_snapshots_just_before_a_tick_do_not_put_it_off(run, last_s, before_ms):
    async def scenario(gateway):
        gateway.lease(last_s)
        gateway.start()
        await gateway.clock.passes(0.9 - before_ms / 1_000)
        for _ in range(20):
            gateway.lease(last_s)
            await gateway.clock.passes(1)
        every_s = 5 if last_s == 0 else 1
        assert gateway.sent_s == [0, *(0.9 + second for second in range(0, 20, every_s))]

    run(scenario)


def test_a_gap_in_the_log_makes_a_lease_late_later(run):
    """The broker was heard 117 s ago, of which 60 s are a gap between two ticks that counts as 3 s."""

    async def scenario(gateway):
        log = LogClock(tick_append_ms=-117_000, reading_ms=5_000_000)
        lease = LEASE._replace(clock_millis=log.reading_ms)
        log.tick(-60_000, gap_limit_ms=0)
        log.tick(0, gap_limit_ms=3_000)
        gateway.ticks.follow(log.late_at_ms([lease]))
        gateway.start()
        await gateway.clock.passes(33)
        assert gateway.sent_s[-4:] == [25.9, 30.9, 31.9, 32.9]

    run(scenario)


def test_a_tick_that_kafka_does_not_take_is_the_only_one_and_the_next_follows_in_a_second(run):
    async def scenario(gateway):
        gateway.lease(last_s=0)
        gateway.takes = False
        gateway.start()
        await gateway.clock.passes(30)
        assert (gateway.sent_s, gateway.ticks.is_in_time) == ([0], False)
        gateway.ticks.ended(ConnectionError())
        await gateway.clock.passes(1)
        assert gateway.sent_s == [0, 30.9]
        gateway.takes = True
        gateway.ticks.ended(ConnectionError())
        await gateway.clock.passes(10)
        assert gateway.sent_s == [0, 30.9, 31.9, 35.9, 40.9]
        assert gateway.ticks.is_in_time

    run(scenario)


def test_an_error_of_ours_does_not_end_the_ticks(run):
    async def scenario(gateway):
        gateway.lease(last_s=0)
        gateway.start()
        gateway.fails = True
        with pytest.raises(TypeError):
            await gateway.clock.passes(1)
        assert not gateway.ticks.is_in_time
        gateway.fails = False
        await gateway.clock.passes(10)
        assert gateway.sent_s == [0, 1.9, 5.9, 10.9]

    run(scenario)


def test_gateways_that_start_at_different_times_tick_together(run):
    async def scenario(gateway):
        other = Gateway(gateway.clock)
        gateway.lease(last_s=0)
        other.lease(last_s=0)
        gateway.start()
        await gateway.clock.passes(2.3)
        other.start()
        await gateway.clock.passes(20)
        assert gateway.sent_s[2:] == other.sent_s[1:] == [5.9, 10.9, 15.9, 20.9]

    run(scenario)


def test_a_stopped_gateway_sends_no_tick_and_plans_none(run):
    async def scenario(gateway):
        gateway.start()
        gateway.ticks.stop()
        gateway.ticks.ended(None)
        gateway.lease(last_s=-100)
        await gateway.clock.passes(10)
        assert gateway.sent_s == [0]

    run(scenario)

"""The times of a gateway's ticks (E7): seldom while no lease can end, often while one may."""

import pytest

from namesrv_stream.gateway.kafka_link import Ticks
from namesrv_stream.rules.lease import LogClock
from tests.gateway.site import Clock
from tests.gateway.test_known_brokers import live

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
def gateway():
    return Gateway(Clock())


@pytest.mark.parametrize("has_lease", [True, False])
async def test_e7_while_no_lease_is_late_a_tick_comes_in_each_calm_period(gateway, has_lease):
    gateway.ticks.follow(LOG.late_at_ms([]))
    if has_lease:
        gateway.lease(last_s=0)
    gateway.start()
    await gateway.clock.passes(21)
    assert gateway.sent_s == [0, 0.9, 5.9, 10.9, 15.9, 20.9]


async def test_e7_while_a_lease_is_late_a_tick_comes_each_second(gateway):
    knows_no_snapshot = Gateway(gateway.clock)
    knows_no_snapshot.start()
    gateway.lease(last_s=0)
    gateway.start()
    await gateway.clock.passes(94)
    assert knows_no_snapshot.sent_s == [0, *(second + 0.9 for second in range(94))]
    assert gateway.sent_s[-6:] == [80.9, 85.9, 90.9, 91.9, 92.9, 93.9]
    gateway.lease(last_s=94)
    await gateway.clock.passes(12)
    assert gateway.sent_s[-4:] == [93.9, 95.9, 100.9, 105.9], "the broker was heard"


async def test_a_snapshot_with_a_late_lease_does_not_wait_for_the_calm_tick(gateway):
    gateway.lease(last_s=0)
    gateway.start()
    await gateway.clock.passes(11)
    gateway.lease(last_s=-100)
    await gateway.clock.passes(2)
    assert gateway.sent_s[-3:] == [10.9, 11.9, 12.9]


@pytest.mark.parametrize("last_s", [0, -100], ids=["calm", "late"])
@pytest.mark.parametrize("before_ms", [1, 10, 20, 30])
async def test_snapshots_just_before_a_tick_do_not_put_it_off(gateway, last_s, before_ms):
    gateway.lease(last_s)
    gateway.start()
    await gateway.clock.passes(0.9 - before_ms / 1_000)
    for _ in range(20):
        gateway.lease(last_s)
        await gateway.clock.passes(1)
    every_s = 5 if last_s == 0 else 1
    assert gateway.sent_s == [0, *(0.9 + second for second in range(0, 20, every_s))]


async def test_a_tick_that_kafka_does_not_take_is_the_only_one_and_the_next_follows_in_a_second(gateway):
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


async def test_an_error_of_ours_does_not_end_the_ticks(gateway):
    gateway.lease(last_s=0)
    gateway.start()
    gateway.fails = True
    with pytest.raises(TypeError):
        await gateway.clock.passes(1)
    assert not gateway.ticks.is_in_time
    gateway.fails = False
    await gateway.clock.passes(10)
    assert gateway.sent_s == [0, 1.9, 5.9, 10.9]


async def test_gateways_that_start_at_different_times_tick_together(gateway):
    other = Gateway(gateway.clock)
    gateway.lease(last_s=0)
    other.lease(last_s=0)
    gateway.start()
    await gateway.clock.passes(2.3)
    other.start()
    await gateway.clock.passes(20)
    assert gateway.sent_s[2:] == other.sent_s[1:] == [5.9, 10.9, 15.9, 20.9]


async def test_a_stopped_gateway_sends_no_tick_and_plans_none(gateway):
    gateway.start()
    gateway.ticks.stop()
    gateway.ticks.ended(None)
    gateway.lease(last_s=-100)
    await gateway.clock.passes(10)
    assert gateway.sent_s == [0]

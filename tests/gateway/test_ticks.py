"""The times of a gateway's ticks (E7): seldom while no lease can end, often while one may."""

import pytest

from namesrv_stream.gateway.kafka_link import Ticks
from namesrv_stream.rules.lease import LogClock
from tests.data import data
from tests.gateway.registrations import live
from tests.gateway.site import Clock
from tests.timed_log import millis_of, step_of

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
        self.sent_s.append(round(self.clock.now_s, 3) or 0)
        if self.takes:
            self.ticks.ended(None)


@pytest.fixture
def gateway():
    return Gateway(Clock())


CASES = data(__file__, "cases/ticks.yaml")


@pytest.mark.parametrize("rule", CASES)
async def test_ticks_come_at_their_times(gateway, rule):
    acts = {
        "broker heard": lambda at: gateway.lease(millis_of(at) / 1_000),
        "no broker": lambda: gateway.ticks.follow(LOG.late_at_ms([])),
        "gateway starts": gateway.start,
        "gateway stops": gateway.ticks.stop,
        "Kafka keeps": lambda: setattr(gateway, "takes", False),
        "Kafka takes": lambda: setattr(gateway, "takes", True),
        "Kafka fails": lambda: gateway.ticks.ended(ConnectionError()),
    }
    for step in map(step_of, CASES[rule]):
        gateway.sent_s.clear()
        for act in step.acts:
            assert act.is_later is not bool(act.words), f"{step}: either time passes or something happens"
            if act.words:
                acts[" ".join(act.words)](**act.fields)
            else:
                await gateway.clock.passes(act.at_ms / 1_000)
        facts = {fact[0]: fact[1:] for fact in step.facts or []}
        assert facts.keys() <= {"ticks", "late"}, step
        wanted, sent_s = [millis_of(at) / 1_000 for at in facts.get("ticks", []) if at != "..."], gateway.sent_s
        if facts.get("ticks", [])[:1] == ["..."]:
            sent_s = sent_s[-len(wanted) :]
        assert (sent_s, gateway.ticks.is_in_time) == (wanted, "late" not in facts), step


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

"""The state by broker address through Spark's own tester: what is known of an address, and when it is evicted."""

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from namesrv_stream.job.liveness import DEFAULT_TIMEOUT_MS, LEFT, BrokerLiveness
from namesrv_stream.rules.record_types import DEFAULT_HEARTBEAT_TIMEOUT_MS

T0 = 1_700_000_000_000
A = "10.0.0.1:10911"


def sign(at_ms, timeout_ms=None, offset=None):
    """A registration if a timeout is given, else a heartbeat."""
    offset = at_ms if offset is None else offset
    return Row(broker_addr=A, event_time=None, offset=offset, heard_ms=T0 + at_ms, timeout_ms=timeout_ms)


def left(at_ms):
    return sign(at_ms, LEFT)


def one_address(**more):
    def never_late(_row):
        """Keep all rows: in the query only ticks have an event time."""
        return 2**62

    return TwsTester(BrokerLiveness(), timeMode="eventTime", eventTimeExtractor=never_late, **more)


@pytest.fixture
def broker():
    return one_address()


def timers_ms(broker):
    broker.handle.setGroupingKey(A)
    return [ms - T0 for ms in broker.handle.listTimers()]


def state(broker):
    """Last sign of life after T0 and timeout, None without any state."""
    known = broker.peekValueState("broker", A)
    return None if known is None else (known[0] - T0, known[1])


def evicted(broker, at_ms):
    """The last signs of life that the watermark's arrival puts out."""
    return [row.last_heard_ms - T0 for row in broker.setWatermark(T0 + at_ms)]


@pytest.mark.parametrize(("silence_ms", "found"), [(120_000, []), (120_001, [0])])
def test_a_silent_address_of_any_sign_of_life_is_evicted_a_millisecond_after_the_default_timeout(
    broker, silence_ms, found
):
    assert DEFAULT_TIMEOUT_MS == DEFAULT_HEARTBEAT_TIMEOUT_MS
    assert broker.test(A, [sign(0)]) == []
    assert evicted(broker, silence_ms) == found
    assert (state(broker) is None) == bool(found)


def test_a_heartbeat_moves_no_timer_and_the_address_is_evicted_a_timeout_after_it(broker):
    broker.test(A, [sign(0, 120_000)])
    broker.test(A, [sign(30_000)])
    assert timers_ms(broker) == [120_001]
    assert evicted(broker, 120_001) == []
    assert timers_ms(broker) == [150_001]
    assert evicted(broker, 150_001) == [30_000]


def test_a_shorter_timeout_moves_the_timer_forward(broker):
    broker.test(A, [sign(0, 120_000)])
    broker.test(A, [sign(20_000, 10_000)])
    assert timers_ms(broker) == [30_001]
    assert evicted(broker, 30_001) == [20_000]


def test_of_the_signs_of_life_of_one_visit_the_latest_time_and_the_last_timeout_count(broker):
    broker.test(A, [sign(40, offset=2), sign(50, 30_000, offset=1), sign(45, 20_000, offset=3)])
    assert state(broker) == (50, 20_000)


def test_nothing_is_kept_of_an_address_that_unregistered_in_the_same_visit_or_later(broker):
    broker.test(A, [sign(0, 120_000)])
    broker.test(A, [left(10)])
    assert (state(broker), timers_ms(broker)) == (None, [])
    broker.test(A, [left(10), sign(0, 120_000)])
    assert (state(broker), timers_ms(broker)) == (None, [])


def test_an_address_that_unregisters_and_registers_again_is_known_by_what_came_last(broker):
    broker.test(A, [sign(0, 120_000)])
    broker.test(A, [left(10), sign(20, 40_000), sign(30)])
    assert state(broker) == (30, 40_000)
    assert timers_ms(broker) == [40_031]


def test_e9_a_sign_of_life_counts_at_the_newest_tick_if_kafkas_clock_has_stepped_back(broker):
    broker.test(A, [sign(60_000, 120_000)])
    broker.setWatermark(T0 + 60_000)
    broker.test(A, [sign(58_000)])
    assert state(broker) == (60_000, 120_000)


def test_the_state_of_a_new_checkpoint_is_that_of_the_published_leases():
    broker = one_address(initialStateRow=[(A, Row(broker_addr=A, last_heard_ms=T0 + 5, timeout_ms=30_000))])
    assert state(broker) == (5, 30_000)
    assert evicted(broker, 30_006) == [5]


def test_ticks_come_with_an_empty_address_and_leave_no_state(broker):
    tick = Row(broker_addr="", event_time=T0, offset=1, heard_ms=T0, timeout_ms=None)
    assert broker.test("", [tick]) == []
    assert broker.peekValueState("broker", "") is None

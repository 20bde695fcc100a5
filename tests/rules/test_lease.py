"""The length of a lease, to the millisecond, and the connections that keep it."""

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.lease import (
    LogClock,
    after_sign_of_life,
    is_late,
    overdue,
    without_channel,
)
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LiveRow, SnapshotRow

TIMEOUT_MS = 120_000


GAP_MS = 3_000


def lease(last_ms=0, timeout_ms=TIMEOUT_MS, clock_millis=0, **fields):
    return LiveRow("a:1", "c", "b", 0, last_ms, timeout_ms, DataVersion(), "", 0, clock_millis=clock_millis, **fields)


def test_l6_a_connection_that_is_not_the_leases_changes_nothing():
    alive = after_sign_of_life(lease(), 1, 1, "ch:1")
    assert without_channel(alive, 2, "ch:2") is alive
    assert without_channel(lease(), 2, "ch:2") is not None


@pytest.mark.parametrize(("silent_ms", "is_left"), [(TIMEOUT_MS, True), (TIMEOUT_MS + 1, False)])
def test_l6_a_connection_over_which_nothing_came_for_the_timeout_keeps_no_lease(silent_ms, is_left):
    alive = after_sign_of_life(after_sign_of_life(lease(), 0, 0, "ch:gone"), silent_ms, silent_ms, "ch:2")
    assert (without_channel(alive, silent_ms, "ch:2") is not None) == is_left


def test_d9_without_a_limit_all_time_between_two_ticks_counts():
    clock = LogClock(newest_tick_ms=0, tick_append_ms=0, reading_ms=0)
    clock.tick(10**9, 0)
    assert clock.reading_ms == 10**9


def test_e7_a_lease_is_late_as_long_after_the_newest_tick_as_its_late_reading_is_after_the_ticks():
    clock = LogClock(newest_tick_ms=50_000, tick_append_ms=40_000, reading_ms=70_000)
    leases = [lease(clock_millis=60_000), lease(clock_millis=70_000)]
    assert clock.late_at_ms(leases) == 40_000 - 10_000 + TIMEOUT_MS * 3 // 4 + 1
    assert clock.late_at_ms([]) is None


@pytest.mark.parametrize(("silent_ms", "is_it"), [(TIMEOUT_MS * 3 // 4, False), (TIMEOUT_MS * 3 // 4 + 1, True)])
def test_e7_a_lease_is_late_at_a_snapshot_after_three_quarters_of_its_timeout(silent_ms, is_it):
    snapshot = SnapshotRow(1, 1, "run", None, None, 0, 0, {}, {}, {}, last_tick=0, clock_millis=50_000 + silent_ms)
    assert is_late(lease(clock_millis=50_000), snapshot) == is_it


@pytest.mark.parametrize("clock", [LogClock(), LogClock(newest_tick_ms=0, reading_ms=70_000)])
def test_e7_a_lease_may_be_late_at_once_while_the_time_since_the_newest_tick_is_not_known(clock):
    assert clock.late_at_ms([lease()]) == 0


def test_d9_no_time_passes_from_the_last_tick_of_a_log_to_the_first_one_of_another():
    clock = LogClock(newest_tick_ms=0, tick_append_ms=None, reading_ms=70_000)
    assert clock.reading_at_ms(10**9, GAP_MS) == 70_000
    clock.tick(10**9, GAP_MS)
    assert clock.reading_ms == 70_000


def test_d9_the_clock_starts_at_the_first_tick_and_all_before_it_is_heard_then():
    clock = LogClock()
    assert clock.reading_at_ms(50_000, GAP_MS) == 0
    clock.tick(60_000, GAP_MS)
    assert (clock.reading_ms, clock.gap_ms) == (60_000, 0)


def test_d9_a_lease_without_a_reading_was_heard_at_its_last_sign_of_life():
    registry = RouteRegistry(NamesrvSettings())
    registry.load({"live": [lease(last_ms=5_000, clock_millis=None)]})
    assert registry.lease("a:1").clock_millis == 5_000


def test_d5_overdue_leases_come_in_order_of_deadline_then_address():
    heard_at = {"b:1": 10, "a:1": 10, "c:1": 5, "d:1": 50}
    leases = [lease(clock_millis=at_ms)._replace(broker_addr=address) for address, at_ms in heard_at.items()]
    found = overdue(leases, TIMEOUT_MS + 50, held_ms=0)
    assert [each.broker_addr for each in found] == ["c:1", "a:1", "b:1"]

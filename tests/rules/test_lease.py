"""The length of a lease, to the millisecond, and the connections that keep it."""

import pytest

from namesrv_stream.rules.lease import (
    LeaseEnds,
    LogClock,
    after_outage,
    after_sign_of_life,
    deadline_ms,
    without_channel,
)
from namesrv_stream.rules.requests import DataVersion
from namesrv_stream.rules.rows import LiveRow

TIMEOUT_MS = 120_000


def lease(last_ms=0, timeout_ms=TIMEOUT_MS, **fields):
    return LiveRow("a:1", "c", "b", 0, last_ms, timeout_ms, DataVersion(), "", 0, **fields)


def test_l1_the_deadline_is_the_timeout_after_the_last_sign_of_life():
    assert deadline_ms(lease(last_ms=5)) == 5 + TIMEOUT_MS


@pytest.mark.parametrize(("at_ms", "last_ms"), [(7, 7), (3, 5)])
def test_e9_the_last_sign_of_life_never_goes_back(at_ms, last_ms):
    assert after_sign_of_life(lease(last_ms=5), at_ms, None).last_update_timestamp == last_ms


def test_d9_an_outage_gives_the_grace_if_that_is_longer_than_the_lease():
    assert deadline_ms(after_outage(lease(timeout_ms=10_000), 20_000, 60_000)) == 80_000
    assert deadline_ms(after_outage(lease(timeout_ms=TIMEOUT_MS), 20_000, 60_000)) == TIMEOUT_MS


def test_d9_a_sign_of_life_ends_the_grace():
    alive = after_sign_of_life(after_outage(lease(timeout_ms=10_000), 20_000, 60_000), 21_000, None)
    assert deadline_ms(alive) == 31_000


def test_l6_the_lease_ends_with_its_last_connection():
    alive = after_sign_of_life(after_sign_of_life(lease(), 1, "ch:1"), 2, "ch:2")
    left = without_channel(alive, 3, "ch:1")
    assert left.channels == {"ch:2": 2}
    assert without_channel(left, 4, "ch:2") is None


def test_l6_a_connection_that_is_not_the_leases_changes_nothing():
    alive = after_sign_of_life(lease(), 1, "ch:1")
    assert without_channel(alive, 2, "ch:2") is alive
    assert without_channel(lease(), 2, "ch:2") is not None


@pytest.mark.parametrize(("silent_ms", "is_left"), [(TIMEOUT_MS, True), (TIMEOUT_MS + 1, False)])
def test_l6_a_connection_over_which_nothing_came_for_the_timeout_keeps_no_lease(silent_ms, is_left):
    alive = after_sign_of_life(after_sign_of_life(lease(), 0, "ch:gone"), silent_ms, "ch:2")
    assert (without_channel(alive, silent_ms, "ch:2") is not None) == is_left


def test_e9_event_time_stands_still_while_the_clock_is_behind_the_newest_tick():
    clock = LogClock()
    assert clock.event_time_ms(50) == 50
    clock.tick(100, 1_000)
    assert (clock.event_time_ms(40), clock.event_time_ms(140)) == (100, 140)
    clock.tick(60, 1_000)
    assert (clock.newest_tick_ms, clock.stepped_back_ms) == (100, 40)


@pytest.mark.parametrize(("gap_ms", "is_outage"), [(15_000, False), (15_001, True)])
def test_d9_two_ticks_further_apart_than_the_limit_are_an_outage(gap_ms, is_outage):
    clock = LogClock()
    assert not clock.tick(1_000_000, 15_000)
    assert clock.tick(1_000_000 + gap_ms, 15_000) == is_outage


def test_d9_a_clock_that_steps_back_and_catches_up_is_no_outage():
    clock = LogClock()
    clock.tick(100_000, 15_000)
    clock.tick(10_000, 15_000)
    assert not clock.tick(101_000, 15_000)


@pytest.mark.parametrize(("tick_ms", "found"), [(TIMEOUT_MS, []), (TIMEOUT_MS + 1, ["a:1"])])
def test_e5_alive_at_a_tick_at_the_deadline_and_gone_a_millisecond_later(tick_ms, found):
    deadlines = LeaseEnds({"a:1": TIMEOUT_MS}.get)
    deadlines.watch("a:1", TIMEOUT_MS)
    assert deadlines.overdue(tick_ms) == found


def test_d5_overdue_addresses_come_in_order_of_deadline_then_address():
    of = {"b:1": 10, "a:1": 10, "c:1": 5, "d:1": 50}
    deadlines = LeaseEnds(of.get)
    for address, deadline in of.items():
        deadlines.watch(address, deadline)
    assert deadlines.overdue(50) == ["c:1", "a:1", "b:1"]
    assert deadlines.overdue(51) == ["d:1"]


def test_a_deadline_that_moved_either_way_counts_as_it_is_now():
    of = {"later:1": 10, "earlier:1": 100, "ended:1": 10}
    deadlines = LeaseEnds(of.get)
    for address, deadline in of.items():
        deadlines.watch(address, deadline)
    of["later:1"] = 40
    of["earlier:1"] = 20
    deadlines.watch("earlier:1", 20)
    del of["ended:1"]
    assert deadlines.overdue(21) == ["earlier:1"]
    assert deadlines.overdue(41) == ["later:1"]
    assert deadlines.overdue(1_000) == []

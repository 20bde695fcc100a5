"""Sessions of brokers agree with the members at every moment; flaps and outages have the edges of the views."""

import pytest

from namesrv_stream.history.events import Membership
from namesrv_stream.history.sessions import (
    EXPECTED_MS,
    FLAP_MS,
    OUTAGE_GAP_MS,
    Session,
    availability,
    flapping,
    outages,
    sessions,
)
from namesrv_stream.rules.rows import BrokerEventRow
from tests.history.fleet import RandomLife

T0 = 1_700_000_000_000


@pytest.mark.parametrize("seed", range(20))
def test_the_sessions_that_last_are_the_brokers_that_hold_their_ids(seed):
    life = RandomLife(seed, T0)
    lines = []
    for _ in range(60):
        life.step()
        lines += life.rules.take_changes().events
        lasting = {(*each.broker, each.address) for each in sessions(Membership(), lines) if each.to_ms is None}
        held = {
            (row.cluster_name, name, broker_id, row.broker_addr)
            for name, holders in life.rules.view().brokers.items()
            for broker_id, row in holders.items()
        }
        assert lasting == held


@pytest.mark.parametrize("seed", range(10))
def test_a_stretch_begins_with_the_members_of_its_beginning(seed):
    life = RandomLife(seed, T0)
    lines = []
    for _ in range(60):
        life.step()
        lines += life.rules.take_changes().events
    whole = sessions(Membership(), lines)
    later = sessions(Membership.after(lines[:20]), lines[20:])
    last_ms = lines[19].event_time
    assert {each[:4] + each[5:7] for each in later} == {
        each[:4] + each[5:7] for each in whole if each.to_ms is None or each.to_ms > last_ms
    }


def ended(name, to_ms, how="CHANNEL_CLOSED", heard_ms=None, from_ms=T0):
    return Session("c1", name, 0, f"{name}:1", from_ms, to_ms, how, heard_ms)


def lasting(name, from_ms):
    return Session("c1", name, 0, f"{name}:1", from_ms)


@pytest.mark.parametrize(("away_ms", "flaps"), [(FLAP_MS, 1), (FLAP_MS + 1, 0)])
def test_an_end_is_a_flap_if_the_broker_is_back_within_ten_minutes(away_ms, flaps):
    found = flapping([ended("a", T0 + 5), lasting("a", T0 + 5 + away_ms)])
    assert [(each.unplanned_ends, each.flaps, each.shortest_ms) for each in found] == [(1, flaps, 5)]


def test_a_planned_end_is_no_flap():
    assert flapping([ended("a", T0, "UNREGISTERED"), lasting("a", T0 + 1)]) == []


@pytest.mark.parametrize(
    ("ended_by", "expected_ms"),
    [("UNREGISTERED", 15), ("MOVED", 15), ("ID_LOST", 15), ("EXPIRED", 25), ("CHANNEL_CLOSED", 25), ("REFUSED", 25)],
)
def test_a_broker_is_expected_back_unless_its_end_was_planned(ended_by, expected_ms):
    found = [ended("a", T0 + 10, ended_by), lasting("a", T0 + 20)]
    assert availability(found, T0, T0 + 25) == {("c1", "a", 0): (15, expected_ms)}


@pytest.mark.parametrize(("passed_ms", "expected_ms"), [(EXPECTED_MS, EXPECTED_MS), (EXPECTED_MS + 1, EXPECTED_MS)])
def test_a_broker_that_stays_away_is_expected_for_seven_days(passed_ms, expected_ms):
    [found] = availability([ended("a", T0 + 10)], T0, T0 + 10 + passed_ms).values()
    assert found == (10, 10 + expected_ms)


def test_only_the_time_within_the_stretch_counts():
    assert availability([lasting("a", T0 - 50)], T0, T0 + 5) == {("c1", "a", 0): (5, 5)}


def gone(name, at_ms, how="CHANNEL_CLOSED", heard_ms=None):
    line = dict.fromkeys(BrokerEventRow._fields) | {"type": how, "event_time": at_ms, "last_heard_at": heard_ms}
    return BrokerEventRow(**line | {"cluster_name": "c1", "broker_name": name, "broker_id": 0})


@pytest.mark.parametrize(("gap_ms", "count"), [(OUTAGE_GAP_MS, 1), (OUTAGE_GAP_MS + 1, 0)])
def test_brokers_that_end_within_a_minute_are_one_outage(gap_ms, count):
    assert len(outages([gone("a", T0), gone("b", T0 + gap_ms)])) == count


def test_a_silent_broker_ended_at_its_last_sign_of_life():
    silent = gone("a", T0 + 125_000, "EXPIRED", heard_ms=T0)
    assert [len(each.brokers) for each in outages([silent, gone("b", T0 + 10)])] == [2]
    assert outages([silent, gone("b", T0 + 125_000)]) == []


def test_one_broker_that_ends_twice_is_no_outage():
    assert outages([gone("a", T0), gone("a", T0 + 1)]) == []


def test_a_planned_end_is_no_outage():
    assert outages([gone("a", T0, "UNREGISTERED"), gone("b", T0)]) == []

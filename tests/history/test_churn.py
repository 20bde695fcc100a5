"""Sessions of brokers agree with the members at every moment; flaps and outages have the edges of the views."""

import pytest

from namesrv_stream.history.churn import FLAP_MS, OUTAGE_GAP_MS, Session, flapping, outages, sessions
from namesrv_stream.history.membership import Membership
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


@pytest.mark.parametrize(("gap_ms", "count"), [(OUTAGE_GAP_MS - 1, 1), (OUTAGE_GAP_MS, 0)])
def test_brokers_that_end_within_a_minute_are_one_outage(gap_ms, count):
    assert len(outages([ended("a", T0), ended("b", T0 + gap_ms)])) == count


def test_a_silent_broker_ended_at_its_last_sign_of_life():
    silent = ended("a", T0 + 125_000, "EXPIRED", heard_ms=T0)
    assert [len(each.brokers) for each in outages([silent, ended("b", T0 + 10)])] == [2]
    assert outages([silent, ended("b", T0 + 125_000)]) == []


def test_one_broker_that_ends_twice_is_no_outage():
    assert outages([ended("a", T0), ended("a", T0 + 1, from_ms=T0)]) == []

"""A long history of a fleet: the same for the same seed, and with every incident it promises."""

import pytest

from namesrv_stream.records import encode_record
from namesrv_stream.rules.record_types import AddWritePerm, DeleteTopic, RegisterBroker, WipeWritePerm
from namesrv_stream.tools.fleet.history import HOUR_MS, RELEASES, Chronicle, chronicle_plan
from tests.answers.by_rules import events_of

T0 = 1_800_000_000_000


def chronicle(seed=1, days=3.0):
    return Chronicle(chronicle_plan(seed), T0, days)


@pytest.fixture(scope="module")
def told():
    """Lines of history of three days."""
    return events_of(chronicle().records())


def test_the_same_seed_gives_the_same_records_and_another_does_not():
    def everything(seed):
        return [(at_ms, encode_record(request)) for at_ms, request in chronicle(seed, 0.2).records()]

    assert everything(1) == everything(1)
    assert everything(1) != everything(2)


def test_an_hour_has_about_as_many_records_as_announced():
    story = chronicle(days=1)
    assert sum(1 for _ in story.records()) == pytest.approx(24 * story.records_an_hour, rel=0.1)


def test_a_rolling_restart_wipes_permissions_and_gives_them_back():
    said = [request for _, request in chronicle().records()]
    wiped = [request.broker_name for request in said if isinstance(request, WipeWritePerm)]
    assert wiped == [request.broker_name for request in said if isinstance(request, AddWritePerm)]
    assert len(set(wiped)) == len(wiped) == 3


def test_a_silent_broker_leaves_when_its_lease_ends(told):
    silent_ms = {line.event_time - line.last_heard_at for line in told if line.type == "EXPIRED"}
    assert silent_ms == {120_001}


def test_a_topic_that_was_deleted_comes_back_within_the_hour(told):
    [deleted] = {(line.event_time, line.topics_removed) for line in told if line.type == "DELETE_TOPIC_IN_NAMESRV"}
    assert deleted[1] > 0
    request = next(r for _, r in chronicle().records() if isinstance(r, DeleteTopic))
    later = [line for line in told if deleted[0] < line.event_time <= deleted[0] + HOUR_MS]
    assert any(each.key[0] == request.topic and each.after for line in later for each in line.changes)


def test_slaves_are_away_for_hours_for_days_and_for_over_a_week_and_releases_change():
    story = Chronicle(chronicle_plan(1, brokers=6, clusters=1, topics=0), T0, 30)
    heard, gaps, releases = {}, {}, set()
    for at_ms, request in story.records():
        if isinstance(request, RegisterBroker):
            releases.add(request.broker_version)
        if address := getattr(request, "broker_addr", None):
            gaps[address] = max(gaps.get(address, 0), at_ms - heard.get(address, at_ms))
            heard[address] = at_ms
    longest = sorted(gaps.values())[-3:]
    assert [round(gap / HOUR_MS) for gap in longest] == [5, 48, 216]
    assert releases == set(RELEASES)

"""Planned absences: while one holds all is well, at its end what is not back is down, in memory as in the views."""

import random

import pytest

from namesrv_stream.analysis.ask import ask
from namesrv_stream.answers.absences import LONGEST_MS, NAMESPACE, absence_value, absences, subject_of
from namesrv_stream.answers.definitions import down_brokers, lost_topics
from namesrv_stream.answers.past_brokers import past_brokers
from namesrv_stream.answers.verdict import topic_verdicts, verdict_of
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.tables.registry import Registry
from tests.answers.fleet import RandomHistory
from tests.registry import PublishedRegistry
from tests.tables.rows import NOW

T0 = NOW - 4 * 3_600_000
MINUTE_MS = 60_000
BROKERS = 20


def plan(subject, since_ms, until_ms, name="the subject"):
    value = absence_value(name, until_ms, "ann", "kernel update")
    return PutKvConfig(namespace=NAMESPACE, key=f"{subject}@{since_ms}", value=value, requested_by="ann")


def address(number):
    return f"10.0.0.{number}:10911"


@pytest.fixture
def fleet(root):
    """Masters in one zone, each with a topic of its own and one that all have."""
    registry = PublishedRegistry(root, T0)
    for number in range(BROKERS):
        come(registry, number)
    return registry


def come(registry, number):
    registry.register(address(number), "c1", f"b-{number}", topics=("All", f"T{number}"), zone_name="z")


def verdict(registry):
    return verdict_of(Registry(registry.root).newest())


def availability(registry):
    rows = ask(registry.root, "SELECT broker_name, availability, planned_millis FROM broker_availability").to_pylist()
    return {row["broker_name"]: (row["availability"], row["planned_millis"]) for row in rows}


SUBJECTS = {
    "zone": [subject_of("zone", "z")],
    "cluster": [subject_of("cluster", "c1")],
    "groups": [subject_of("group", f"b-{number}") for number in range(BROKERS)],
    "brokers": [subject_of("broker", "c1", f"b-{number}", "0") for number in range(BROKERS)],
}


@pytest.mark.parametrize("subjects", SUBJECTS.values(), ids=SUBJECTS)
@pytest.mark.parametrize("ended", ["UNREGISTERED", "EXPIRED"])
def test_a_rolling_restart_in_its_time_is_green_throughout_and_costs_no_availability(fleet, subjects, ended):
    for subject in subjects:
        fleet.command(plan(subject, T0, T0 + 60 * MINUTE_MS), publish=False)
    fleet.publish()
    for number in range(BROKERS):
        fleet.now_ms += 30_000
        fleet.rules.end(address(number), ended, fleet.now_ms)
        fleet.publish()
        told = verdict(fleet)
        assert (told.level, told.brokers.planned, told.brokers.down) == ("ok", 1, 0), told.text
        assert "1 broker in planned absence until " in told.text
        assert "(kernel update, ann)" in told.text
        fleet.now_ms += 30_000
        come(fleet, number)
        assert verdict(fleet).text == "All 20 brokers up; all 21 topics writable."
    fleet.now_ms = T0 + 70 * MINUTE_MS
    fleet.publish()
    assert verdict(fleet).level == "ok"
    assert availability(fleet) == {f"b-{number}": (1.0, 30_000) for number in range(BROKERS)}
    assert past_brokers(Registry(fleet.root).newest(), T0).ends == []


def test_who_is_not_back_at_the_end_is_down_since_its_lease_ended_also_after_an_orderly_stop(fleet):
    fleet.command(plan(subject_of("group", "b-1"), T0, T0 + 10 * MINUTE_MS))
    fleet.now_ms += MINUTE_MS
    fleet.end(address(1), "UNREGISTERED")
    gone_ms = fleet.now_ms
    fleet.now_ms = T0 + 10 * MINUTE_MS - 1
    fleet.publish()
    assert verdict(fleet).level == "ok"
    fleet.now_ms += 1
    fleet.publish()
    told = verdict(fleet)
    [cause] = told.causes
    assert (told.level, told.brokers.down, told.brokers.planned, cause.gone_at) == ("critical", 1, 0, gone_ms)
    assert told.text.startswith("T1 without a route; b-1 master")
    assert ask(fleet.root, "SELECT state FROM topic_state WHERE topic = 'T1'").to_pylist() == [
        {"state": "without_route"}
    ]
    come(fleet, 1)
    assert verdict(fleet).level == "ok"
    [down] = ask(fleet.root, "SELECT down_millis, ended_by FROM outage").to_pylist()
    assert down == {"down_millis": 9 * MINUTE_MS, "ended_by": "UNREGISTERED"}


def test_what_falls_unplanned_meanwhile_is_red_and_one_outage_of_itself(fleet):
    fleet.command(plan(subject_of("group", "b-1"), T0, T0 + 60 * MINUTE_MS), publish=False)
    fleet.now_ms += MINUTE_MS
    fleet.end(address(1), "EXPIRED")
    fleet.expire(address(2))
    told = verdict(fleet)
    assert (told.level, told.headline, told.brokers.down, told.brokers.planned) == (
        "critical",
        "T2 without a route",
        1,
        1,
    )
    assert [each.broker[1] for each in past_brokers(Registry(fleet.root).newest(), T0).ends] == ["b-2"]


def test_a_master_that_is_away_by_plan_leaves_its_topics_read_only_and_no_warning(root):
    registry = PublishedRegistry(root, T0)
    registry.register(address(1), "c1", "b-1", topics=("T",))
    registry.register(address(2), "c1", "b-1", broker_id=1)
    registry.command(plan(subject_of("broker", "c1", "b-1", "0"), T0, T0 + MINUTE_MS), publish=False)
    registry.end(address(1), "UNREGISTERED")
    registry.publish()
    told = verdict(registry)
    assert (told.level, told.topics.read_only, told.brokers.names_without_master) == ("ok", 1, 0)
    assert ask(root, "SELECT state FROM topic_state").to_pylist() == [{"state": "read_only"}]
    registry.now_ms += MINUTE_MS
    registry.publish()
    assert verdict(registry).topics.not_writable == 1
    assert ask(root, "SELECT state FROM topic_state").to_pylist() == [{"state": "not_writable"}]


NOT_ONE = {
    "no time": ("zone/z", "{}"),
    "no JSON": ("zone/z@5", "x"),
    "another scope": ("host/z@5", absence_value("z", 6, None, None)),
    "no begin": ("zone/z@", absence_value("z", 6, None, None)),
    "an end before it": ("zone/z@6", absence_value("z", 6, None, None)),
    "too long": ("zone/z@5", absence_value("z", 6 + LONGEST_MS, None, None)),
}


@pytest.mark.parametrize(("key", "value"), NOT_ONE.values(), ids=NOT_ONE)
def test_a_value_that_is_none_is_left_out(fleet, key, value):
    fleet.command(PutKvConfig(namespace=NAMESPACE, key=key, value=value))
    assert absences(Registry(fleet.root).newest()) == {}
    assert ask(fleet.root, "SELECT subject FROM planned_absence").num_rows == 0


@pytest.mark.parametrize("name", ["eu a/b", "z@1|%~*", "区域"])
def test_a_subject_is_found_whatever_its_name_is(root, name):
    registry = PublishedRegistry(root, T0)
    registry.register(address(1), "c1", "b", topics=("T",), zone_name=name)
    registry.command(plan(subject_of("zone", name), T0, T0 + MINUTE_MS))
    registry.end(address(1), "UNREGISTERED")
    registry.publish()
    assert verdict(registry).brokers.planned == 1
    registry.now_ms += 30_000
    registry.publish()
    assert ask(root, "SELECT is_planned FROM broker_stretch").to_pylist() == [{"is_planned": True}]


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(5, 40))])
def test_memory_and_views_agree_on_random_histories_with_planned_absences(root, seed):
    history, rng = RandomHistory(root, seed, T0, NOW), random.Random(seed)
    for _ in range(6):
        for _ in range(rng.randrange(1, 20)):
            history.step(rng.choice((5_000, MINUTE_MS)))
            if rng.random() < 0.3:
                subject = rng.choice(
                    [
                        subject_of("zone", "z"),
                        subject_of("cluster", "c1"),
                        subject_of("group", "broker-a"),
                        subject_of("broker", "c2", "broker-b", "0"),
                    ]
                )
                begin_ms = history.event_ms + rng.choice((-MINUTE_MS, 0, MINUTE_MS))
                command = plan(subject, begin_ms, begin_ms + rng.randrange(1, 10) * MINUTE_MS)
                history.apply(command)
        history.event_ms += 1_000
        history.publish()
        registry = Registry(root).newest()
        assert {each[:3] for each in down_brokers(registry)} == set(rows(root, f"SELECT {BROKER} FROM broker_down"))
        states = {topic: each.state for topic, each in topic_verdicts(registry, lost_topics(registry)).of.items()}
        assert states == dict(rows(root, "SELECT topic, state FROM topic_state"))
        fallen = [each for each in past_brokers(registry, T0).ends if each.outcome != "replaced"]
        shared = rows(root, "SELECT brokers FROM shared_outage ORDER BY first_gone_at")
        counts = [len({end.broker for end in ends}) for ends in past_brokers(registry, T0).shared()]
        assert [count for (count,) in shared] == [count for count in counts if count > 1]
        outages = rows(root, f"SELECT {BROKER}, unix_millis(gone_at) FROM outage")
        assert sorted((*each.broker, each.gone_ms) for each in fallen) == sorted(outages)


BROKER = "cluster_name, broker_name, broker_id"


def rows(root, statement):
    return [tuple(row.values()) for row in ask(root, statement).to_pylist()]


def test_a_slave_that_was_promoted_in_a_planned_time_makes_no_incident_of_the_old_master(root):
    registry = PublishedRegistry(root, T0)
    registry.register(address(1), "c1", "b-1", topics=("T",))
    registry.register(address(2), "c1", "b-1", broker_id=1)
    registry.command(plan(subject_of("group", "b-1"), T0, T0 + 10 * MINUTE_MS))
    registry.now_ms += MINUTE_MS
    registry.register(address(2), "c1", "b-1", topics=("T",))
    registry.now_ms += MINUTE_MS
    registry.expire(address(1))
    assert past_brokers(Registry(root).newest(), T0).ends == []


@pytest.mark.parametrize("zone", [None, ""])
def test_brokers_without_a_zone_have_a_planned_absence_of_their_own(root, zone):
    registry = PublishedRegistry(root, T0)
    registry.register(address(1), "c1", "b-1", topics=("T",), zone_name=zone)
    registry.command(plan(subject_of("zone", ""), T0, T0 + MINUTE_MS))
    registry.end(address(1), "UNREGISTERED")
    registry.publish()
    assert verdict(registry).brokers.planned == 1
    assert ask(root, "SELECT is_planned FROM broker_stretch").to_pylist() == [{"is_planned": True}]


def test_json_of_others_is_read_alike(fleet):
    subject = subject_of("group", "b-1")
    texts = (f'{{"until": {T0 + MINUTE_MS}}}', f'{{ "a": {{"until": 1}}, "until":{T0 + MINUTE_MS} }}')
    for number, text in enumerate(texts):
        fleet.command(PutKvConfig(namespace=NAMESPACE, key=f"{subject}@{T0 - number}", value=text))
    [held] = [absences(Registry(fleet.root).newest())[subject]]
    assert [(each.since, each.until, each.name) for each in held] == [
        (T0, T0 + MINUTE_MS, subject),
        (T0 - 1, T0 + MINUTE_MS, subject),
    ]
    assert rows(fleet.root, "SELECT from_millis, until_millis FROM planned_absence") == [(T0 - 1, T0 + MINUTE_MS)]

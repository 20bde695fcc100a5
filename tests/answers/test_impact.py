"""Impact: what it tells before is what is so after the brokers have really ended, by the rules."""

import random

import pytest

from namesrv_stream.answers.absences import NAMESPACE, absence_value, subject_of
from namesrv_stream.answers.command_effects import effect_text
from namesrv_stream.answers.definitions import lost_topics
from namesrv_stream.answers.impact import impact
from namesrv_stream.answers.questions import ALL, AskImpact, AskResilience
from namesrv_stream.answers.resilience import resilience
from namesrv_stream.answers.verdict import topic_verdicts
from namesrv_stream.rules.lease import deadline_ms
from namesrv_stream.rules.record_types import (
    MASTER_ID,
    PERM_READ,
    PERM_WRITE,
    AddWritePerm,
    DeleteTopic,
    PutKvConfig,
    RetireBroker,
    WipeWritePerm,
)
from namesrv_stream.tables.registry import Registry
from tests.answers.fleet import RandomHistory
from tests.registry import PublishedRegistry
from tests.tables.rows import NOW

TRIALS = 12


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(10, 50))])
def test_what_impact_tells_is_what_the_rules_make_of_the_end(root, seed):
    history, rng = RandomHistory(root, seed, NOW - 20 * 3_600_000, NOW), random.Random(seed)
    opened = Registry(root)
    for _ in range(TRIALS):
        for _ in range(rng.randrange(1, 25)):
            history.step()
        history.publish()
        live = history.rules.view().live
        ended = rng.sample(sorted(live), rng.randrange(len(live) + 1)) if live else []
        before = opened.newest()
        told = impact(before, AskImpact(brokers=ended).model_copy(update={"limit": ALL})) if ended else None
        history.event_ms += 1_000
        for lease in sorted((live[each] for each in ended), key=lambda each: (deadline_ms(each), each.broker_addr)):
            history.rules.expire(lease.broker_addr, history.event_ms)
        history.publish()
        if told is not None:
            check(told, before, opened.newest())


def check(told, before, after):
    was, became = (topic_verdicts(each, lost_topics(each)) for each in (before, after))
    topics = {each.topic: each for each in told.topics}
    assert set(became.of) == set(was.of)
    for topic in set(became.of) - became.system:
        now, here = became.of[topic], topics.get(topic)
        expected = (here.state_after, here.broker_names_up_after) if here else (was.of[topic].state, was.of[topic].up)
        assert expected == (now.state, now.up), topic
        if here:
            assert (here.write_queues_before, here.read_queues_before) == queues(before, topic)
            assert (here.write_queues_after, here.read_queues_after) == queues(after, topic)
            assert (here.loses == "route") == (now.state == "without_route")
    lost = {
        topic for topic in set(was.of) - was.system if was.of[topic].is_writable and not became.of[topic].is_writable
    }
    assert lost == {each.topic for each in told.topics if each.loses != "group" and was.of[each.topic].is_writable}
    assert told.safe == (told.lose_route + told.lose_writes == 0)
    for group in told.groups:
        holders = after.brokers.get(group.broker_name, {})
        assert (group.becomes == "gone") == (not holders)
        if group.becomes == "no_master":
            assert MASTER_ID not in holders


def queues(registry, topic):
    rows = registry.queues.get(topic, ())
    held = registry.brokers
    writable = (row for row in rows if row.perm & PERM_WRITE and MASTER_ID in held.get(row.broker_name, ()))
    readable = (row for row in rows if row.perm & PERM_READ and row.broker_name in held)
    return sum(row.write_queue_nums for row in writable), sum(row.read_queue_nums for row in readable)


def test_what_is_down_already_adds_up_and_is_named_with_its_time(root):
    registry = of_two_groups(root)
    registry.expire("10.0.0.2:10911")
    down_ms = registry.now_ms
    told = impact(Registry(root).newest(), AskImpact(brokers=["broker-a"]))
    assert (told.text, told.safe) == ("T loses its route.", False)
    [topic] = told.topics
    assert (topic.write_queues_before, topic.write_queues_after, topic.remaining) == (8, 0, [])
    assert [(each.broker_name, each.since) for each in topic.down_already] == [("broker-b", down_ms)]


def test_a_rolling_restart_is_safe_where_all_at_once_is_not(root):
    of_two_groups(root)
    registry = Registry(root).newest()
    both = ["broker-a", "broker-b"]
    assert impact(registry, AskImpact(brokers=both)).text == "T loses its route."
    in_turn = resilience(registry, AskResilience(brokers=both))
    assert (in_turn.safe, [each.text for each in in_turn.subjects]) == (
        True,
        ["Safe: every topic stays writable; T degraded."] * 2,
    )


def of_two_groups(root):
    registry = PublishedRegistry(root, NOW)
    for number, name in enumerate(("broker-a", "broker-b"), 1):
        registry.register(f"10.0.0.{number}:10911", "c1", name, topics=("T",))
    return registry


EFFECTS = [
    (WipeWritePerm(broker_name="broker-a"), "broker-a read-only: Safe: every topic stays writable; T degraded."),
    (DeleteTopic(topic="T"), "T is removed from 2 broker groups (16 write queues) and loses its route."),
    (DeleteTopic(topic="T", cluster_name="c2"), None),
    (DeleteTopic(topic="nope"), None),
    (WipeWritePerm(broker_name="nope"), None),
    (AddWritePerm(broker_name="broker-a"), None),
    (
        RetireBroker(cluster_name="c1", broker_name="broker-c", broker_id=0, reason="sold"),
        "broker-c master is no longer expected, nor 1 topic without a route (U).",
    ),
]


@pytest.mark.parametrize(("command", "told"), EFFECTS)
def test_a_command_tells_before_it_is_sent_what_it_takes(root, command, told):
    registry = of_two_groups(root)
    registry.register("10.0.0.3:10911", "c1", "broker-c", topics=("U",))
    registry.expire("10.0.0.3:10911")
    found = effect_text(Registry(root).newest(), command)
    assert found == (told and told.replace("every topic stays writable", "no topic loses writes or its route"))


def test_brokers_that_may_be_away_by_plan_count_as_gone(root):
    registry = of_two_groups(root)
    until_ms = registry.now_ms + 60_000
    value = absence_value("broker-a", until_ms, "ann", "kernel update")
    key = f"{subject_of('group', 'broker-a')}@{registry.now_ms}"
    registry.command(PutKvConfig(namespace=NAMESPACE, key=key, value=value))
    now = Registry(root).newest()
    assert impact(now, AskImpact(brokers=["broker-b"])).text == "T loses its route."
    assert impact(now, AskImpact(brokers=["broker-a"])).text == "Safe: every topic stays writable; T degraded."
    of_each = resilience(now, AskResilience(each="group")).subjects
    assert {each.subject: each.safe for each in of_each} == {"broker-a": True, "broker-b": False}
    registry.now_ms = until_ms
    registry.publish()
    assert impact(Registry(root).newest(), AskImpact(brokers=["broker-b"])).safe


def plan(registry, subject, name, lasts_ms=60_000):
    value = absence_value(name, registry.now_ms + lasts_ms, "ann", None)
    registry.command(PutKvConfig(namespace=NAMESPACE, key=f"{subject}@{registry.now_ms}", value=value))


def test_in_a_planned_time_each_alone_is_told_as_by_its_own_question(root):
    registry = PublishedRegistry(root, NOW)
    for number, name in enumerate(("a", "b", "c"), 1):
        registry.register(
            f"10.0.0.{number}:1", "c1", name, topics=(f"Of-{name}",), zone_name="z" if name < "c" else "y"
        )
    plan(registry, subject_of("zone", "z"), "zone z")
    now = Registry(root).newest()
    for kind, names in (("group", ("a", "b", "c")), ("zone", ("z", "y"))):
        of_each = resilience(now, AskResilience(each=kind)).subjects
        asked = [AskImpact(**{"zones" if kind == "zone" else "brokers": [name]}) for name in names]
        alone = {" ".join(each.subjects): each.text for each in (impact(now, question) for question in asked)}
        assert {each.subject: each.text for each in of_each} == alone
        assert not any(each.safe for each in of_each)
    in_turn = resilience(now, AskResilience(brokers=["a", "b"]))
    assert [each.text for each in in_turn.subjects] == ["Of-a loses its route.", "Of-b loses its route."]


def test_what_is_away_by_plan_is_found_by_its_zone_cluster_and_role_and_adds_up(root):
    registry = of_two_groups(root)
    plan(registry, subject_of("cluster", "c1"), "c1")
    registry.end("10.0.0.1:10911", "UNREGISTERED")
    registry.publish()
    now = Registry(root).newest()
    for asked in (AskImpact(brokers=["broker-a master"]), AskImpact(brokers=["broker-a"])):
        told = impact(now, asked)
        assert (told.text.startswith("Nothing changes: broker-a"), told.already_down) == (True, 1)
    assert impact(now, AskImpact(clusters=["c1"])).already_down == 1

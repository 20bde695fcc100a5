"""The lines of history: every change of broker, cluster and filter rows has one line, with its cause."""

import json

import pytest

from namesrv_stream.rules.history import rows_before_and_after
from namesrv_stream.rules.record_types import (
    BrokerHeartbeat,
    DataVersion,
    DeleteTopic,
    PutKvConfig,
    RetireBroker,
    TopicConfig,
    WipeWritePerm,
)
from tests.build import Log

ROW = TopicConfig(4, 4, 6)
T0 = 1_700_000_000_000


class Lines(Log):
    """A log and the lines of history that it makes."""

    def register(self, address, topics=("T",), **fields):
        super().register(address, topics=topics, **{"data_version": DataVersion()} | fields)

    def end(self, kind, address):
        at = self.at()
        self.registry.apply(BrokerHeartbeat(broker_addr=address), at._replace(event_time=at.event_time - 1))
        self.registry.end(address, kind, at.event_time, at)

    def take_events(self):
        return self.registry.take_changes().events


@pytest.fixture
def log():
    """A log with the registration of one broker, whose lines have been taken."""
    begun = Lines()
    begun.register("a:1")
    begun.take_events()
    return begun


def types(events):
    return [(event.type, event.broker_addr) for event in events]


def test_a_first_registration_is_one_line_and_its_topics_another():
    log = Lines()
    log.register("a:1", topics=("T", "U"))
    registered, topics = log.take_events()
    assert (registered.type, registered.cause, registered.offset) == ("REGISTERED", "REGISTER_BROKER", 1)
    assert set(rows_before_and_after(registered)[1]) == {"broker", "cluster", "live"}
    assert topics.type == "TOPICS_CHANGED"
    assert [row["topic"] for row in rows_before_and_after(topics)[1]["topic"]] == ["T", "U"]


def test_the_same_registration_again_adds_no_line(log):
    log.register("a:1")
    assert log.take_events() == []


def test_a_new_version_with_changed_topics_has_a_line_of_its_topics_alone(log):
    log.register("a:1", topics=("T", "U"), data_version=DataVersion(0, 1, 1))
    [line] = log.take_events()
    assert (line.type, line.data_version) == ("TOPICS_CHANGED", DataVersion(0, 1, 1))
    before, after = rows_before_and_after(line)
    assert (set(before), set(after)) == ({"live"}, {"live", "topic"})
    assert after["live"][0]["data_version"] == {"state_version": 0, "timestamp": 1, "counter": 1}


@pytest.mark.parametrize(
    ("kind", "cause"),
    [("EXPIRED", "SILENCE"), ("UNREGISTERED", "UNREGISTER_BROKER"), ("CHANNEL_CLOSED", "CHANNEL_CLOSED")],
)
def test_an_end_has_its_cause_the_length_of_the_lease_and_the_removed_rows(log, kind, cause):
    log.end(kind, "a:1")
    ended, topics = log.take_events()
    assert (ended.type, ended.cause, ended.lease_millis, ended.last_heard_at) == (kind, cause, 1_000, 1_999)
    (before, after), (_, topics_after) = map(rows_before_and_after, (ended, topics))
    assert set(before) == {"live", "broker", "cluster"}
    assert (after, topics.type, topics_after, ended.held_id) == ({}, "TOPICS_CHANGED", {}, True)
    assert (topics.topics_added, topics.topics_changed, topics.topics_removed) == (0, 0, 1)


def test_r8_the_loser_of_an_id_has_a_line_of_its_own_and_the_new_ones_line_has_both_values(log):
    log.register("b:1")
    lost, taken = log.take_events()
    assert types([lost, taken]) == [("ID_LOST", "a:1"), ("REGISTERED", "b:1")]
    sides = [side["broker"] for side in rows_before_and_after(taken)]
    assert [[row["broker_addr"] for row in rows] for rows in sides] == [["a:1"], ["b:1"]]
    assert (taken.cluster_name, taken.broker_name, taken.broker_id) == ("c1", "broker-a", 0)


def test_r5_a_promotion_has_lines_of_the_ids_lost_and_then_of_the_one_taken():
    log = Lines()
    log.register("a:1")
    log.register("b:1", broker_id=1)
    log.take_events()
    log.register("b:1", topics=(), data_version=DataVersion(1, 0, 0))
    lines = log.take_events()
    assert [(line.type, line.broker_addr, line.broker_id) for line in lines] == [
        ("ID_LOST", "b:1", 1),
        ("ID_LOST", "a:1", 0),
        ("ID_TAKEN", "b:1", 0),
    ]


def test_r8_who_lost_its_id_takes_it_back_under_its_old_lease():
    log = Lines()
    log.register("a:1")
    log.register("b:1")
    log.take_events()
    log.register("a:1")
    assert types(log.take_events()) == [("ID_LOST", "b:1"), ("ID_TAKEN", "a:1")]


@pytest.mark.parametrize("field", ["zone_name", "ha_server_addr"])
def test_changed_fields_of_a_broker_are_one_line_with_both_values(field):
    log = Lines()
    log.register("a:1", **{field: "old"})
    log.take_events()
    log.register("a:1", **{field: "new"})
    [line] = log.take_events()
    told = [[row.get(field) for rows in side.values() for row in rows] for side in rows_before_and_after(line)]
    assert (line.type, "old" in told[0], "new" in told[1]) == ("CHANGED", True, True)


def test_t3_topics_that_come_back_under_an_old_version_have_a_line_with_their_broker():
    log = Lines()
    log.register("a:1")
    log.apply(DeleteTopic(topic="T"))
    log.take_events()
    log.register("a:1")
    [line] = log.take_events()
    assert (line.type, line.cluster_name, line.broker_id, line.data_version) == (
        "TOPICS_CHANGED",
        "c1",
        0,
        DataVersion(),
    )


def test_d1_a_move_is_a_line_of_the_end_and_one_of_the_registration(log):
    log.register("a:1", broker_name="broker-b")
    assert [line.type for line in log.take_events()] == ["MOVED", "TOPICS_CHANGED", "REGISTERED", "TOPICS_CHANGED"]


def test_d7_a_refusal_has_a_line_also_when_nothing_changes():
    log = Lines()
    log.register("a:1", data_version=DataVersion(2, 0, 0))
    log.take_events()
    log.register("b:1", data_version=DataVersion(1, 0, 0))
    [line] = log.take_events()
    assert (line.type, line.broker_addr, line.changes) == ("REFUSED", "b:1", ())


def test_a_registration_has_a_line_with_its_sender():
    log = Lines()
    log.register("a:1", requested_by="broker-a@10.0.0.1:5000")
    log.register("a:1", broker_name="broker-b", requested_by="ann@10.0.0.9:5000")
    log.register("a:1", broker_name="broker-b", data_version=DataVersion(0, 0, 9), topics=("U",))
    first, second, third = "broker-a@10.0.0.1:5000", "ann@10.0.0.9:5000", None
    assert [(line.type, line.requested_by) for line in log.take_events()] == [
        ("REGISTERED", first),
        ("TOPICS_CHANGED", first),
        ("MOVED", second),
        ("TOPICS_CHANGED", second),
        ("REGISTERED", second),
        ("TOPICS_CHANGED", second),
        ("TOPICS_CHANGED", third),
    ]


def test_a_command_has_a_line_for_each_broker_name_with_its_sender():
    log = Lines()
    log.register("a:1")
    log.register("b:1", broker_name="broker-b")
    log.take_events()
    log.apply(DeleteTopic(topic="T", requested_by="ann@desk"))
    lines = log.take_events()
    assert [(line.type, line.broker_name, line.requested_by) for line in lines] == [
        ("DELETE_TOPIC_IN_NAMESRV", "broker-a", "ann@desk"),
        ("DELETE_TOPIC_IN_NAMESRV", "broker-b", "ann@desk"),
    ]


def test_a_command_without_effect_leaves_a_line_all_the_same():
    log = Lines()
    log.apply(PutKvConfig(namespace="n", key="k", value="v"))
    log.take_events()
    log.apply(WipeWritePerm(broker_name="nobody"))
    log.apply(PutKvConfig(namespace="n", key="k", value="v"))
    wiped, put = log.take_events()
    assert (wiped.type, wiped.broker_name, wiped.changes) == ("WIPE_WRITE_PERM_OF_BROKER", "nobody", ())
    assert (put.type, put.changes) == ("PUT_KV_CONFIG", ())
    assert [json.loads(line.command)["type"] for line in (wiped, put)] == [wiped.type, put.type]


def test_a7_a_retirement_has_a_line_with_the_broker_and_with_the_address_that_holds_its_id():
    log = Lines()
    log.register("10.0.0.1:1")
    log.take_events()
    for cluster, number in (("c1", 0), ("c1", 1), ("c2", 0)):
        log.apply(RetireBroker(cluster_name=cluster, broker_name="broker-a", broker_id=number, reason="sold"))
    assert [(line.cluster_name, *line[9:11], line.held_id, line.reason) for line in log.take_events()] == [
        ("c1", 0, "10.0.0.1:1", True, "sold"),
        ("c1", 1, None, False, "sold"),
        ("c2", 0, None, False, "sold"),
    ]


def test_k1_a_value_that_is_put_has_a_line_with_the_one_before_and_with_a_new_namespace():
    log = Lines()
    for value in "vw":
        log.apply(PutKvConfig(namespace="n", key="k", value=value))
    first, second = log.take_events()
    told = [*rows_before_and_after(first), *rows_before_and_after(second)]
    sides = [side.get("kv_config", []) for side in told]
    assert [[(row["key"], row["value"]) for row in side] for side in sides] == [
        [],
        [("", None), ("k", "v")],
        [("k", "v")],
        [("k", "w")],
    ]


def test_each_of_very_many_topics_is_recorded():
    log = Lines()
    topics = sorted(f"T{i}" for i in range(1_000))
    log.register("a:1", topics=topics)
    assert [row["topic"] for row in rows_before_and_after(log.take_events()[-1])[1]["topic"]] == topics


def test_a_command_on_a_static_topic_has_the_mapping_that_went_with_it():
    log = Lines()
    log.register("a:1", topics=["T"], topic_queue_mapping_info_map={"T": {"bname": "broker-a", "totalQueues": 8}})
    log.take_events()
    log.apply(DeleteTopic(topic="T"))
    [line] = log.take_events()
    assert sorted(rows_before_and_after(line)[0]) == ["topic", "topic_mapping"]

"""Answers over HTTP are those of the rules, of one snapshot, at any moment, and errors say what to do."""

import json

import pytest

from namesrv_stream.answers import periods
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules import lookup
from namesrv_stream.rules.record_types import (
    DeleteTopic,
    PutKvConfig,
    Scan,
    WipeWritePerm,
)
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.wire import bodies
from tests.console.background import BackgroundConsole
from tests.console.conftest import A, B, C, Client


def route_by_rules(root, topic, epoch):
    tables = RouteReader(root).open(epoch).routes
    found = lookup.route(tables, topic, NamesrvSettings())
    return None if found is None else json.loads(bodies.encode_body(found))


def test_the_route_of_each_moment_is_that_of_the_rules(registry, client):
    registry.register(C, "c1", "broker-a", 1, topics=("TopicA",))
    registry.command(WipeWritePerm(broker_name="broker-a"))
    registry.command(DeleteTopic(topic="Shared"))
    for topic in ("TopicA", "Shared"):
        for epoch in range(1, 7):
            answer = client.get(f"/v1/topics/{topic}?epoch={epoch}")
            expected = route_by_rules(registry.root, topic, epoch)
            assert answer.status == (404 if expected is None and epoch < 6 else 200)
            assert answer.status == 404 or (answer.json["route"], answer.json["snapshot"]["epoch"]) == (expected, epoch)
    told = answer.json["text"]  # of the topic that was deleted with the last epoch
    assert "Shared has no route since " in told
    assert "because an operator without a name asked for DELETE_TOPIC_IN_NAMESRV" in told


def test_a_moment_is_an_epoch_or_an_event_time_and_a_broker_that_is_down_has_a_story(registry, client):
    earlier = client.get("/v1/brokers").json["snapshot"]["eventTime"]
    registry.now_ms += 30_000
    registry.expire(A)
    assert [each["brokerAddr"] for each in client.get(f"/v1/brokers?at={earlier}").json["brokers"]] == [A, B]
    assert [each["brokerAddr"] for each in client.get("/v1/brokers?epoch=3").json["brokers"]] == [A, B]
    found = client.get("/v1/brokers?epoch=4").json["brokers"]
    assert [(each["brokerAddr"], each["state"]) for each in found] == [(A, "down"), (B, "alive")]
    assert (found[0]["down"]["endedBy"], found[0]["holdsId"]) == ("EXPIRED", False)
    found = client.get("/v1/brokers/broker-a?epoch=4").json
    assert found["text"].endswith(" UTC (EXPIRED); of its 2 topics 1 has no route, 1 is degraded.")
    states = [(each["topic"], each["state"]) for each in found["topics"]]
    assert states == [("Shared", "degraded"), ("TopicA", "without_route")]
    assert [each["name"] for each in client.get("/v1/clusters?epoch=4").json["clusters"]] == ["c1", "c2"]
    assert "expired" in client.get("/v1/why/broker-a?epoch=4").json["sentences"][-1]["text"]


def test_silence_and_lateness_follow_the_logs_clock(registry, client):
    registry.gap(100_000)  # nobody could write: the clock goes on by 3 s (D9)
    brokers = client.get("/v1/brokers?epoch=4").json["brokers"]
    assert [(each["silentMillis"], each["state"]) for each in brokers] == [(3_000, "alive")] * 2
    assert client.get("/v1/overview?epoch=4").json["counts"]["late"] == 0
    for _ in range(30):
        registry.now_ms += 3_000
        registry.command(Scan(), publish=False)
    registry.publish()
    brokers = client.get("/v1/brokers?epoch=5").json["brokers"]
    assert [(each["silentMillis"], each["state"]) for each in brokers] == [(93_000, "late")] * 2
    for moment, late in (("epoch=5", 2), ("epoch=3", None)):  # nobody knows who was late in the past
        found = client.get(f"/v1/overview?{moment}").json
        of_groups = [each["late"] for each in found["groups"]]
        assert (found["counts"]["late"], found["verdict"]["brokers"]["late"]) == (late, late)
        assert of_groups == ([None] * 2 if late is None else [1] * 2)


def test_each_epoch_with_events_is_a_mark_of_the_timeline(registry, client):
    registry.now_ms += 1000
    registry.expire(A)
    registry.command(WipeWritePerm(broker_name="broker-b", requested_by="ann", reason="disk full"))
    marks = client.get("/v1/timeline?epoch=5").json["marks"]
    counts = [(each["epoch"], each["begins"], each["ends"], each["commands"]) for each in marks]
    assert counts == [(2, 1, 0, 0), (3, 1, 0, 0), (4, 0, 1, 0), (5, 0, 0, 1)]


def test_a_promotion_is_no_arrival(registry, client):
    registry.register(C, "c1", "broker-a", 1)
    registry.register(C, "c1", "broker-a", 0)
    *_, came, promoted = client.get("/v1/timeline?epoch=5").json["marks"]
    assert [(each["begins"], each["ends"]) for each in (came, promoted)] == [(1, 0), (0, 0)]
    assert promoted["others"] > 0


def test_a_broker_that_moves_to_another_address_neither_comes_nor_leaves_on_the_track(registry, client):
    registry.register(C, "c1", "broker-a")
    registry.now_ms += 1000
    registry.expire(A)  # the lease of the address that it had before
    *_, moved, ended = client.get("/v1/timeline?epoch=5").json["marks"]
    up = client.get("/v1/overview?epoch=5").json["verdict"]["brokers"]["up"]
    assert [(each["begins"], each["ends"], each["alive"]) for each in (moved, ended)] == [(0, 0, up), (0, 0, up)]


def test_a_stretch_without_a_change_begins_with_those_who_were_alive_then(registry, client):
    registry.now_ms += 50_000
    registry.expire(A)
    registry.expire(B)
    found = client.get("/v1/timeline?since=30s&until=10s&epoch=5").json
    assert (found["marks"], found["aliveBefore"]) == ([], 2)


def _changes(client, marks):
    """The epochs of all marks, with those of a mark that stands for several, and how many requests that took."""
    found = []
    for mark in marks:
        if mark.get("epochs", 1) == 1:
            found.append(mark["epoch"])
        else:
            part = client.get(f"/v1/timeline?epoch={mark['epoch']}&above={mark['firstEpoch'] - 1}").json["marks"]
            assert sum(each.get("epochs", 1) for each in part) == mark["epochs"]
            found += _changes(client, part)
    return found


@pytest.mark.parametrize("step_ms", [0, pytest.param(1000, marks=pytest.mark.full)])
def test_every_epoch_is_reached_through_marks_that_stand_for_several(registry, client, monkeypatch, step_ms):
    monkeypatch.setattr(periods, "MAX_MARKS", 3)
    for number in range(12):
        registry.now_ms += step_ms
        registry.command(PutKvConfig(namespace="NS", key=f"k{number}", value="v"))
    marks = client.get("/v1/timeline?epoch=15").json["marks"]
    assert 1 < len(marks) <= 3
    assert _changes(client, marks) == list(range(2, 16))


ABOUT_A_MOMENT = [
    "/v1/overview",
    "/v1/topics",
    "/v1/topics/TopicA",
    "/v1/brokers",
    "/v1/brokers/broker-a",
    "/v1/clusters",
    "/v1/events",
    "/v1/why/broker-a",
    "/v1/diff?from=1",
    "/v1/snapshots",
    "/v1/timeline",
    "/v1/churn",
]


def test_every_path_of_the_description_is_about_a_moment_but_those_about_the_present(still):
    found = {path for path, about in still.get("/v1/openapi.json").json["paths"].items() if "get" in about}
    known = {
        path.partition("?")[0].replace("TopicA", "{topic}").replace("broker-a", "{name}") for path in ABOUT_A_MOMENT
    }
    assert found - known == {"/v1/status", "/v1/watch"}


def test_every_answer_is_of_its_moment_and_is_not_sent_again(registry, client):
    of_epoch_2 = {path: f"{path}{'&' if '?' in path else '?'}epoch=2" for path in ABOUT_A_MOMENT}
    before = {path: client.get(asked) for path, asked in of_epoch_2.items()}
    registry.now_ms += 1000
    registry.command(WipeWritePerm(broker_name="broker-a"))
    assert client.get("/v1/watch?epoch=3&wait=30s").json["epoch"] == 4
    for path, first in before.items():
        assert (first.status, first.headers["x-registry-epoch"]) == (200, "2"), path
        again = client.get(of_epoch_2[path], If_None_Match=first.headers["etag"])
        assert (again.status, again.body) == (304, b""), path
        assert client.get(of_epoch_2[path]).json == first.json, path
        newest = client.get(path)
        assert (newest.headers["etag"] == first.headers["etag"], newest.json == first.json) == (False, False), path


def test_a_difference_without_an_end_is_up_to_the_moment(still):
    assert still.get("/v1/diff?from=2&epoch=2").json["differences"] == []
    assert still.get("/v1/diff?from=1&epoch=2").json["epochs"] == [1, 2]
    assert still.get("/v1/diff?from=1&to=10m&epoch=2").status == 404  # there was nothing ten minutes before
    assert "newest epoch is 2" in still.get("/v1/diff?from=1&to=3&epoch=2").json["detail"]


def test_events_are_chosen_by_their_types(registry, client):
    registry.expire(A)
    registry.command(WipeWritePerm(broker_name="broker-b"))

    def types(query):
        return [each["type"] for each in client.get(f"/v1/events?epoch=5&{query}").json["events"]]

    assert types("type=EXPIRED&type=WIPE_WRITE_PERM_OF_BROKER") == ["EXPIRED", "WIPE_WRITE_PERM_OF_BROKER"]
    assert types("type=REGISTERED&broker=broker-a") == ["REGISTERED"]
    assert types("type=EXPIRED&topic=TopicA") == []


def test_sessions_outages_and_flaps_follow_from_the_events(registry, client):
    registry.now_ms += 1000
    registry.expire(A, publish=False)
    registry.expire(B)
    registry.now_ms += 1000
    registry.register(A, "c1", "broker-a", topics=("TopicA",))
    churn = client.get("/v1/churn?epoch=5").json
    assert [(each["broker"], each["endedBy"]) for each in churn["sessions"]] == [
        ("c1 broker-a 0", "EXPIRED"),
        ("c2 broker-b 0", "EXPIRED"),
        ("c1 broker-a 0", None),
    ]
    assert [each["brokers"] for each in churn["outages"]] == [["c1 broker-a 0", "c2 broker-b 0"]]
    assert {each["broker"]: each["flaps"] for each in churn["flapping"]} == {"c1 broker-a 0": 1, "c2 broker-b 0": 0}


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/v1/topics/TopicX", 404, "Did you mean Topic"),
        ("/v1/brokers/broker-x", 404, "Did you mean broker-"),
        ("/v1/why/broker-x", 404, "Did you mean broker-"),
        ("/v1/overview?epoch=99", 404, "the newest epoch is 3"),
        ("/v1/overview?epoch=0", 400, "epoch"),
        ("/v1/overview?epoch=1&at=03:12", 400, "give one of them"),
        ("/v1/overview?at=yesterday-ish", 400, "Accepted are"),
        ("/v1/brokers?limit=0", 400, "limit"),
        ("/v1/brokers?limit=100000", 400, "limit"),
        ("/v1/diff?to=1", 400, "from"),
        ("/v1/diff?from=2&to=3&table=topics", 400, "is none of topic, broker"),
        ("/v1/overview?epcoh=3", 400, "Did you mean epoch?"),
        ("/v1/status?epoch=3", 400, "It has none."),
        ("/v1/events?broker=broker-x", 404, "Did you mean broker-"),
        ("/v1/events?topic=TopicX", 404, "Did you mean Topic"),
        ("/v1/churn?broker=broker-x", 404, "Did you mean broker-"),
        ("/v1/brokers?sort=nmae", 400, "Did you mean name?"),
        ("/v1/brokers?after=10.0.0.9:10911", 400, "Begin anew"),
        ("/v1/brokers?state=dead", 400, "state"),
        ("/v1/overview?at=03:12&tz=Europe/Berln", 400, "Did you mean Europe/Berlin?"),
        ("/v1/overview?at=2026-03-29T02:30&tz=Europe/Berlin", 400, "in Europe/Berlin: the clocks were put forward"),
        ("/v1/watch?wait=soon", 400, "a number with a unit"),
        ("/v1/watch?topic=", 400, "at least 1 character"),
        ("/v1/events?topic=", 400, "at least 1 character"),
        ("/v1/events?type=EXPIRD", 400, "Did you mean EXPIRED?"),
        ("/v1/brokers?cluster=c11", 404, "Did you mean c1"),
        ("/v1/brokers?zone=z11", 404, "Did you mean z1?"),
        ("/v1/topics?cluster=c11", 404, "Did you mean c1"),
        ("/v1/topics?zone=z11", 404, "Did you mean z1?"),
        ("/v1/topics/TopicA?zone=z11", 404, "Did you mean z1?"),
        ("/v1/topics/topic", 404, "Did you mean Topic"),
        ("/v1/brokers/10.0.0.1", 404, "Did you mean 10.0.0.1:10911"),
        ("/v1/nothing", 404, "/docs"),
        ("/metrics?epoch=3", 400, "It has none."),
    ],
)
def test_an_error_is_json_that_says_what_to_do(still, path, status, told):
    answer = still.get(path)
    assert (answer.status, answer.json["status"]) == (status, status)
    assert told in answer.json["detail"]


def test_a_registry_that_is_not_there_yet_is_said_and_then_served(settings, tmp_path):
    with BackgroundConsole(settings(delta__root=str(tmp_path / "none"))) as console:
        answer = Client(console.url).get("/v1/overview")
        assert (answer.status, "holds no registry" in answer.json["detail"]) == (503, True)

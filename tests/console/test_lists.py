"""Lists of many brokers and topics: what is chosen, in which order, page by page; and what is wrong comes first."""

import gzip
import json
import time

import msgspec
import pytest

from namesrv_stream.console.api import ANSWERS
from tests.cli.registry import PublishedRegistry
from tests.clock import now_ms
from tests.console.background import BackgroundConsole
from tests.console.conftest import A, Client, make_settings
from tests.console.crowd import address_of, cluster_of, lose_zone, name_of, publish_crowd, zone_of

BROKERS = 36
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def crowd(tmp_path_factory, nobody):
    """36 addresses of 18 names; epoch 2 brings them, epoch 3 is the outage of zone-1."""
    registry = PublishedRegistry(str(tmp_path_factory.mktemp("crowd") / "registry"), now_ms() - 60_000)
    publish_crowd(registry, BROKERS, topics=40, topics_a_broker=5)
    registry.now_ms += 1_000
    lose_zone(registry, BROKERS, "zone-1")
    with BackgroundConsole(make_settings(registry.root, nobody)) as console:
        yield Client(console.url)


def names(client, query):
    return [each["brokerName"] for each in client.get(f"/v1/brokers?epoch=2&{query}").json["brokers"]]


def test_names_are_in_natural_order_and_the_other_way_round(crowd):
    in_order = [f"broker-{number // 2}" for number in range(BROKERS)]
    assert names(crowd, "sort=name") == in_order
    assert sorted(names(crowd, "sort=-name"), reverse=True) == sorted(in_order, reverse=True)
    assert names(crowd, "sort=-name")[0] == "broker-17"


def test_brokers_are_chosen_by_cluster_zone_state_and_text(crowd):
    assert crowd.get("/v1/brokers?epoch=2&cluster=cluster-1&zone=zone-2").json["total"] == 4
    assert crowd.get("/v1/brokers?epoch=2&state=alive&q=BROKER-17").json["total"] == 2
    assert crowd.get("/v1/brokers?epoch=2&state=late").json["total"] == 0
    assert crowd.get("/v1/brokers?epoch=2&zone=").json["total"] == 0


def test_an_outage_of_a_zone_is_one_thing_in_each_cluster(crowd):
    found = crowd.get("/v1/overview?epoch=3").json
    [cause] = found["verdict"]["causes"]
    assert (cause["zones"], cause["state"], cause["count"], cause["total"]) == (["zone-1"], "down", 12, 12)
    assert "zone zone-1 is down in all three clusters: 12 of 12 brokers (33 %) since " in found["verdict"]["text"]
    assert (found["counts"]["down"], found["counts"]["alive"]) == (12, 24)
    assert sum(each["count"] for each in found["events"] if each["type"] == "EXPIRED") == 12
    assert len(found["events"]) < 20
    down = crowd.get("/v1/brokers?epoch=3&cluster=cluster-2&zone=zone-1&limit=3&state=down").json
    assert (down["total"], len(down["brokers"]), down["brokers"][0]["down"]["endedBy"]) == (4, 3, "EXPIRED")
    rest = crowd.get(f"/v1/brokers?epoch=3&cluster=cluster-2&zone=zone-1&state=down&after={down['next']}").json
    assert (len(rest["brokers"]), rest["next"]) == (1, None)


def test_an_outage_and_its_end_are_one_line_each_in_order_of_time(tmp_path, nobody):
    registry = PublishedRegistry(str(tmp_path / "outage"), now_ms() - 1_000_000)
    publish_crowd(registry, BROKERS, topics=40, topics_a_broker=5)
    lost = [number for number in range(BROKERS) if zone_of(number) == "zone-1"]
    registry.now_ms += 100_000
    for number in [*lost, 0]:  # each in a snapshot of its own, and one of another zone within the same minute
        registry.now_ms += 1_000
        registry.expire(address_of(number))
    registry.now_ms += 300_000
    for number in lost:
        registry.now_ms += 20_000
        registry.register(address_of(number), cluster_of(number), name_of(number), number % 2, zone_name="zone-1")
    with BackgroundConsole(make_settings(registry.root, nobody)) as console:
        told = [
            each for each in Client(console.url).get("/v1/overview").json["events"] if each["type"] != "TOPICS_CHANGED"
        ]
    assert [each["eventTime"] for each in told] == sorted((each["eventTime"] for each in told), reverse=True)
    assert [(each["type"], each["count"], each["text"].partition(":")[0]) for each in told] == [
        ("REGISTERED", 12, "12 brokers of zone zone-1 came back within 3m 40s after 5m 32s to 9m 1s"),
        ("EXPIRED", 1, "10.0.0.0"),
        ("EXPIRED", 12, "12 brokers of zone zone-1 expired within 11s"),
        ("REGISTERED", 36, "36 brokers of 3 clusters registered"),
    ]


def test_topics_are_chosen_by_state_cluster_and_zone_and_sorted(crowd):
    def names(query):
        return [
            each["topic"] for each in crowd.get(f"/v1/topics?epoch=3&system=false&limit=1000{query}").json["topics"]
        ]

    counts = crowd.get("/v1/overview?epoch=3").json["verdict"]["topics"]
    for state, key in (("degraded", "degraded"), ("without_route", "withoutRoute"), ("writable", "writable")):
        assert len(names(f"&state={state}")) == counts[key]
    assert counts["degraded"] + counts["withoutRoute"] > 0
    assert names("&sort=-name") == sorted(names(""), reverse=True)
    assert set(names("&zone=zone-1")) == set(names("")) - set(names("&state=writable"))
    assert set(names("&cluster=cluster-0&zone=zone-1")) < set(names("&zone=zone-1"))
    one = crowd.get(f"/v1/topics/{names('&state=degraded')[0]}?epoch=3").json
    assert {each["why"] for each in one["missing"]} == {"down"}
    assert " is degraded since " in one["text"]


def test_what_has_the_name_that_is_looked_for_comes_first_then_what_begins_with_it(crowd):
    def found(kind, key, text):
        page = crowd.get(f"/v1/{kind}?epoch=2&q={text}&sort=match&limit=3").json
        rest = crowd.get(f"/v1/{kind}?epoch=2&q={text}&sort=match&after={page['next']}").json
        assert len(page[kind]) + len(rest[kind]) == page["total"]
        return [each[key] for each in page[kind]]

    assert found("topics", "topic", "ORDERS-3") == ["orders-3", "orders-30", "orders-31"]
    assert found("brokers", "brokerName", "broker-1") == ["broker-1", "broker-1", "broker-10"]


def test_topics_are_numbers_and_those_of_brokers_can_be_left_out(crowd):
    every, own = (crowd.get(f"/v1/topics?epoch=2&limit=1000{more}").json for more in ("", "&system=false"))
    assert own["hidden"] == every["total"] - own["total"] == 18 + 3 + 2
    assert {each["topic"] for each in every["topics"] if not each["isSystem"]} == {
        each["topic"] for each in own["topics"]
    }
    assert next(each for each in every["topics"] if each["topic"] == "TBW102")["brokerNames"] == 18


def test_a_difference_is_counted_by_table_and_read_page_by_page(crowd):
    first = crowd.get("/v1/diff?from=2&to=3&limit=7").json
    assert first["counts"]["live"] == {"added": 0, "removed": 12, "changed": 0}
    assert (len(first["differences"]), first["next"]) == (7, "7")
    live = crowd.get("/v1/diff?from=2&to=3&table=live&after=10").json
    assert (live["total"], len(live["differences"]), live["next"]) == (12, 2, None)
    assert live["differences"][0]["before"]["leaseBeganAt"].endswith("Z")


def test_events_and_stories_are_read_page_by_page(crowd):
    def pages(path, key):
        found, before = [], ""
        while before is not None:
            answer = crowd.get(path + (f"&before={before}" if before else "")).json
            found = answer[key] + found
            before = answer["next"]
        return found

    whole = crowd.get("/v1/events?limit=1000").json["events"]
    packed = crowd.get("/v1/events?limit=1000", Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body))["events"] == whole
    assert pages("/v1/events?limit=7", "events") == whole
    told = crowd.get("/v1/why/broker-3").json["sentences"]
    assert pages("/v1/why/broker-3?limit=2", "sentences") == told
    assert crowd.get("/v1/snapshots?limit=2").json["next"] == "1"


@pytest.mark.parametrize("path", sorted(set(ANSWERS) - {"/v1/commands", "/v1/watch"}))
def test_each_answer_is_of_the_shape_that_the_description_has(crowd, path):
    query = {"/v1/diff": "?from=2", "/v1/status": ""}.get(path, "?epoch=3")
    asked = path.replace("{topic}", "orders-1").replace("{name}", "broker-1") + query
    answer = crowd.get(asked)
    assert answer.status == 200
    found = msgspec.json.decode(answer.body, type=ANSWERS[path])
    assert {field.encode_name for field in msgspec.structs.fields(found)} == set(answer.json)
    assert not {name for name in _names_of(answer.json) if "_" in name and name not in {"topic_mapping"}}


def _names_of(value):
    """The fields of an answer, without the tables and kinds that are names of things."""
    if isinstance(value, list):
        return {name for each in value for name in _names_of(each)}
    if not isinstance(value, dict):
        return set()
    of_things = {"lastHour", "versions", "changes", "counts"}
    return value.keys() | {name for key, each in value.items() if key not in of_things for name in _names_of(each)}


def test_the_description_has_a_shape_for_each_answer_and_error(crowd):
    paths = crowd.get("/v1/openapi.json").json["paths"]
    for path, about in paths.items():
        for method in about.values():
            bodies = {code: next(iter(each["content"].values())) for code, each in method["responses"].items()}
            shapes = {code: body["schema"] for code, body in bodies.items()}
            assert all(shapes.values()), path
            assert {"400", "503"} <= shapes.keys(), path
            assert "422" not in shapes
    assert {"404", "410"} <= paths["/v1/overview"]["get"]["responses"].keys()


def test_the_documentation_loads_nothing_from_elsewhere(crowd):
    page = crowd.get("/docs")
    assert (page.status, page.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert b"//" not in page.body


def test_a_past_that_was_published_later_has_its_marks_and_one_time_an_epoch(tmp_path, nobody):
    at_ms = now_ms()
    registry = PublishedRegistry(str(tmp_path / "late"), at_ms)
    registry.now_ms = at_ms - 5 * HOUR_MS
    registry.register(A, "c", "broker-a", publish=False)
    registry.now_ms += HOUR_MS
    registry.publish()
    registry.now_ms += HOUR_MS // 2
    registry.expire(A, publish=False)
    registry.now_ms += HOUR_MS // 2
    registry.publish()
    with BackgroundConsole(make_settings(registry.root, nobody)) as console:
        client = Client(console.url)
        marks = client.get("/v1/timeline").json["marks"]
        assert [each["epoch"] for each in marks] == [2, 3]
        for mark in marks:
            assert mark["eventTime"] == client.get(f"/v1/overview?epoch={mark['epoch']}").json["snapshot"]["eventTime"]
        asked_ms = registry.now_ms - HOUR_MS // 4
        asked = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(asked_ms / 1000))
        answer = client.get(f"/v1/clusters?at={asked}&tz=UTC")
        states = [
            holder["state"]
            for each in answer.json["clusters"]
            for name in each["brokers"]
            for holder in name["holders"]
        ]
        assert (answer.json["snapshot"]["epoch"], states) == (3, ["down"])
        assert client.get("/v1/clusters?epoch=2").json["clusters"]
        assert client.get("/v1/clusters?epoch=2").headers["etag"] != answer.headers["etag"]

"""An incident tells what fell together, for how long, and what topics lost, whether it lasts or is over."""

import pytest

from namesrv_stream.answers.incidents import incidents
from namesrv_stream.answers.questions import AskIncidents
from namesrv_stream.rules.record_types import PutKvConfig, RetireBroker
from namesrv_stream.tables.registry import Registry
from tests.registry import PublishedRegistry

A, B, C, D = (f"10.0.0.{number}:10911" for number in range(1, 5))
T0 = 1_795_683_180_000
MINUTE_MS = 60_000


@pytest.fixture
def registry(tmp_path):
    """Zone z1 has the masters of broker-a and broker-b, zone z2 that of broker-c."""
    registry = PublishedRegistry(str(tmp_path / "registry"), T0)
    registry.register(A, "c1", "broker-a", zone_name="z1", topics=("T", "OnlyA"))
    registry.register(B, "c1", "broker-b", zone_name="z1", topics=("T",))
    registry.register(C, "c1", "broker-c", zone_name="z2", topics=("T",))
    registry.now_ms += 10 * MINUTE_MS
    return registry


def told(registry, since="24h"):
    found = incidents(Registry(registry.root).newest(), AskIncidents(since=since)).incidents
    return [
        (each.place, each.brokers, each.lasts, each.topics_without_route, each.topics_not_writable) for each in found
    ]


def back(registry, address, name, zone="z1", topics=("T",)):
    registry.register(address, "c1", name, zone_name=zone, topics=topics)


def test_one_broker_that_is_back_has_its_time_and_its_topics_and_what_operators_did(registry):
    registry.expire(A)
    registry.now_ms += 16_000
    registry.command(PutKvConfig(namespace="N", key="k", value="v", requested_by="ann", reason="look"))
    back(registry, A, "broker-a", topics=("T", "OnlyA"))
    registry.publish()
    [found] = incidents(Registry(registry.root).newest(), AskIncidents()).incidents
    assert found.text == (
        "broker-a master was down from 2026-11-26 09:03:00 UTC to 2026-11-26 09:03:16 UTC: "
        "1 topic without a route for up to 16s."
    )
    assert (found.until - found.since, found.without_route_millis, found.ended_by) == (16_000, 16_000, {"EXPIRED": 1})
    assert [(each.requested_by, each.reason) for each in found.commands] == [("ann", "look")]
    assert found.report.startswith(
        "# broker-a master down\n\n- Since: 2026-11-26 09:03:00 UTC\n- Until: 2026-11-26 09:03:16 UTC"
    )
    assert "ann set KV value N/k to v (reason: look)." in found.report
    assert found.report.endswith(f"of registry {Registry(registry.root).newest().identity}\n")


def test_a_whole_zone_is_named_and_an_incident_lasts_while_one_of_its_brokers_is_down(registry):
    registry.expire(A)
    registry.now_ms += 30_000
    registry.expire(B)
    registry.now_ms += MINUTE_MS
    assert told(registry) == [("zone z1", 2, True, 1, 0)]
    back(registry, A, "broker-a")
    assert told(registry) == [("zone z1", 2, True, 1, 0)]
    back(registry, B, "broker-b")
    assert told(registry) == [("zone z1", 2, False, 1, 0)]


def test_ends_within_a_minute_are_one_incident_and_a_broker_that_fails_twice_has_two(registry):
    registry.expire(A)
    registry.now_ms += MINUTE_MS
    registry.expire(C)
    registry.now_ms += MINUTE_MS
    back(registry, A, "broker-a", topics=("T", "OnlyA"))
    back(registry, C, "broker-c", "z2")
    registry.now_ms += 5 * MINUTE_MS
    registry.expire(A)
    registry.publish()
    assert [(count, lasts) for _, count, lasts, *_ in told(registry)] == [(1, True), (2, False)]


def test_a_broker_that_came_back_under_another_address_or_was_retired_is_down_no_more(registry):
    registry.expire(A)
    registry.now_ms += 10_000
    back(registry, D, "broker-a", topics=("T", "OnlyA"))
    registry.now_ms += 5 * MINUTE_MS
    registry.expire(B)
    registry.now_ms += 10_000
    retirement = RetireBroker(cluster_name="c1", broker_name="broker-b", broker_id=0, requested_by="ann", reason="sold")
    registry.command(retirement)
    assert [lasts for _, _, lasts, *_ in told(registry)] == [False, False]


def test_one_that_began_before_the_time_is_there_with_all_its_brokers_if_it_lasted_into_it(registry):
    registry.expire(A)
    registry.expire(B)
    registry.now_ms += 10 * MINUTE_MS
    back(registry, B, "broker-b")
    registry.now_ms += 50 * MINUTE_MS
    registry.publish()
    assert told(registry, "10m") == [("zone z1", 2, True, 1, 0)]
    back(registry, A, "broker-a")
    registry.now_ms += 20 * MINUTE_MS
    registry.command(PutKvConfig(namespace="N", key="k", value="v"))
    assert told(registry, "10m") == []

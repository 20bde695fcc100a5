"""The gauges of the health line: what alerts are raised by, for each state of brokers and topics, with few labels."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from namesrv_stream.answers.absences import NAMESPACE, absence_value, subject_of
from namesrv_stream.answers.health_metrics import HealthCollector
from namesrv_stream.reporting.metrics_server import MAX_CLUSTERS
from namesrv_stream.rules.record_types import PutKvConfig, RetireBroker
from namesrv_stream.tables.registry import Registry
from tests.registry import PublishedRegistry
from tests.tables.rows import NOW

A, B = "10.0.0.1:10911", "10.0.0.2:10911"


@pytest.fixture
def registry(root):
    """Two masters with a topic that both have, and one each."""
    registry = PublishedRegistry(root, NOW - 4 * 3_600_000)
    registry.register(A, "c1", "broker-a", topics=("T", "OfA"))
    registry.register(B, "c1", "broker-b", topics=("T", "OfB"))
    return registry


def gauges(registry):
    """The gauges that are above 0, as `name{labels}` -> value."""
    of = CollectorRegistry()
    of.register(HealthCollector(Registry(registry.root).newest))
    samples = [sample for family in of.collect() for sample in family.samples if sample.value]
    return {
        " ".join((each.name.removeprefix("namesrv_registry_"), *each.labels.values())): int(each.value)
        for each in samples
    }


WELL = {"brokers c1 up": 2, "topics writable": 3}


def test_all_is_well(registry):
    assert gauges(registry) == WELL


def test_a_broker_that_is_down_is_counted_with_its_group_and_its_topics_until_it_is_back(registry):
    registry.expire(A)
    down = {"level": 2, "brokers c1 up": 1, "brokers c1 down": 1, "groups_without_master c1": 1}
    down |= {"topics writable": 1, "topics degraded": 1, "topics without_route": 1}
    assert gauges(registry) == down | {"ended_leases": 1}
    registry.now_ms += 120_000
    registry.publish()
    assert gauges(registry) == down
    registry.register(A, "c1", "broker-a", topics=("T", "OfA"))
    assert gauges(registry) == WELL


def test_who_unregistered_or_was_retired_or_is_away_by_plan_raises_nothing(registry):
    now_ms = registry.now_ms
    value = absence_value("broker-a", now_ms + 60_000, "ann", None)
    registry.command(PutKvConfig(namespace=NAMESPACE, key=f"{subject_of('group', 'broker-a')}@{now_ms}", value=value))
    registry.expire(A)
    planned = {"brokers c1 up": 1, "brokers c1 planned": 1, "planned_absences": 1, "topics writable": 2}
    assert gauges(registry) == planned
    registry.now_ms = now_ms + 60_000
    registry.publish()
    assert gauges(registry)["brokers c1 down"] == 1


def test_a_broker_flaps_with_its_fifth_end_within_an_hour(registry):
    for ends in range(1, 6):
        registry.now_ms += 60_000
        registry.expire(A)
        registry.register(A, "c1", "broker-a", topics=("T", "OfA"))
        well = WELL | {"ended_leases": min(ends, 2)}
        assert gauges(registry) == (well if ends < 5 else well | {"flapping_brokers c1": 1})
    registry.now_ms += 3_600_000
    registry.publish()
    assert gauges(registry) == WELL


def test_clusters_beyond_the_largest_share_one_line(root):
    registry = PublishedRegistry(root, NOW)
    for number in range(MAX_CLUSTERS + 3):
        registry.register(f"10.0.0.1:{number + 1}", f"c-{number}", f"b-{number}", publish=False)
    registry.publish()
    up = {name: value for name, value in gauges(registry).items() if name.startswith("brokers ")}
    assert (len(up), up["brokers (others) up"]) == (MAX_CLUSTERS + 1, 3)


def test_before_the_first_snapshot_there_are_none_and_a_history_that_cannot_be_read_ends_no_scrape(registry):
    assert list(HealthCollector(lambda: None).collect()) == []
    registry.expire(A)
    newest = Registry(registry.root).newest()
    for file in Path(registry.root, "broker_event").rglob("*.parquet"):
        file.unlink()
    collector = HealthCollector(lambda: newest)
    assert list(collector.collect()) == []


@pytest.mark.parametrize("ended", ["UNREGISTERED", "EXPIRED"])
def test_a_master_that_unregistered_or_was_retired_leaves_no_group_without_one(registry, ended):
    registry.register("10.0.0.3:10911", "c1", "broker-a", broker_id=1)
    registry.end(A, ended)
    registry.publish()
    assert gauges(registry).get("groups_without_master c1") == (1 if ended == "EXPIRED" else None)
    registry.command(RetireBroker(cluster_name="c1", broker_name="broker-a", broker_id=0, reason="sold"))
    assert "groups_without_master c1" not in gauges(registry)

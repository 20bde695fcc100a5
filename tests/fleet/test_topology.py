"""Names, addresses and topics of a simulated fleet."""

from collections import Counter

import pytest

from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.tools.fleet.broker import build_groups, system_topics
from namesrv_stream.tools.fleet.plan import FleetPlan

T0 = 1_800_000_000_000


@pytest.mark.parametrize(
    ("brokers", "slaves", "sizes"),
    [(4, 1, [2, 2]), (5, 1, [2, 2, 1]), (3, 0, [1, 1, 1]), (1, 3, [1]), (7, 2, [3, 3, 1])],
)
def test_brokers_are_counted_with_their_slaves(brokers, slaves, sizes):
    groups = build_groups(FleetPlan(brokers=brokers, slaves_per_master=slaves, clusters=1), T0)
    assert [len(group.brokers) for group in groups] == sizes
    assert all([b.broker_id for b in group.brokers] == list(range(len(group.brokers))) for group in groups)


def test_names_and_addresses_are_each_brokers_own():
    groups = build_groups(FleetPlan(brokers=2_000, clusters=30, slaves_per_master=1, topics=0), T0)
    addresses = [broker.address for group in groups for broker in group.brokers]
    assert len(set(addresses)) == 2_000
    assert (addresses[0], addresses[-1]) == ("10.0.0.1:10911", "10.0.7.208:10911")
    assert len({group.broker_name for group in groups}) == 1_000
    assert {group.cluster_name for group in groups[:30]} >= {"cluster-a", "cluster-z", "cluster-aa", "cluster-ad"}


def test_topics_stay_within_one_cluster_and_some_are_on_several_brokers():
    groups = build_groups(FleetPlan(brokers=20, clusters=2, topics=300), T0)
    users = {
        group.broker_name: group.topics.keys() - system_topics(group.cluster_name, group.broker_name).keys()
        for group in groups
    }
    clusters = {}
    for group in groups:
        for topic in users[group.broker_name]:
            clusters.setdefault(topic, set()).add(group.cluster_name)
    assert len(clusters) == 300
    assert all(len(names) == 1 for names in clusters.values())
    assert {1, 2, 4} == set(Counter(topic for topics in users.values() for topic in topics).values())


def test_every_broker_has_the_topics_that_brokers_make_for_themselves():
    [group] = build_groups(FleetPlan(brokers=1, clusters=1, topics=0), T0)
    perms = {topic: config.perm for topic, config in group.topics.items()}
    assert len(perms) == 14  # as many as a 5.4.0 broker registers
    assert (perms["SELF_TEST_TOPIC"], perms["TBW102"], perms["cluster-a"], perms["broker-a-0"]) == (6, 7, 7, 7)
    assert perms["rmq_sys_SYNC_BROKER_MEMBER_broker-a-0"] == 1
    assert group.version == DataVersion(timestamp=T0)


@pytest.mark.parametrize(("zones", "names"), [(0, {None}), (2, {"zone-1", "zone-2"})])
def test_zones_are_spread_over_each_clusters_broker_names(zones, names):
    groups = build_groups(FleetPlan(brokers=12, clusters=2, zones=zones), T0)
    for cluster in ("cluster-a", "cluster-b"):
        assert {group.zone_name for group in groups if group.cluster_name == cluster} == names

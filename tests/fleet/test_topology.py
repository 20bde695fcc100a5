"""Names, addresses and topics of a simulated fleet."""

import pytest

from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.tools.fleet.broker import build_groups
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


def test_every_broker_has_the_topics_that_brokers_make_for_themselves():
    [group] = build_groups(FleetPlan(brokers=1, clusters=1, topics=0), T0)
    perms = {topic: config.perm for topic, config in group.topics.items()}
    assert len(perms) == 14  # as many as a 5.4.0 broker registers
    assert (perms["SELF_TEST_TOPIC"], perms["TBW102"], perms["cluster-a"], perms["broker-a-0"]) == (6, 7, 7, 7)
    assert perms["rmq_sys_SYNC_BROKER_MEMBER_broker-a-0"] == 1
    assert group.version == DataVersion(timestamp=T0)

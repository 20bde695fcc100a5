"""Clusters, broker names, addresses and topics of a simulated fleet, like those of real installations."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address
from itertools import product
from string import ascii_lowercase

from namesrv_stream.rules.record_types import MASTER_ID, DataVersion, TopicConfig
from namesrv_stream.tools.fleet.broker import Broker, BrokerGroup, system_topics, topic_config
from namesrv_stream.tools.fleet.plan import FleetPlan

_SUBJECTS = ("order", "payment", "invoice", "stock", "delivery", "customer", "cart", "price", "coupon", "refund")
_EVENTS = ("created", "changed", "confirmed", "cancelled", "failed", "expired")
_QUEUES = (4, 4, 8, 16)
_PERMISSIONS = (6,) * 19 + (4,)  # one topic of twenty is read-only, as while it is being emptied
_BROKER_NAMES_OF_A_TOPIC = (1, 1, 2, 2, 4)
_FIRST_ADDRESS = IPv4Address("10.0.0.1")


def build_groups(plan: FleetPlan, at_ms: int) -> list[BrokerGroup]:
    """Return the broker groups of a fleet with data versions as of `at_ms`; all brokers are still down."""
    groups = list(_groups(plan))
    for group, topics in _placed_topics(plan, groups):
        group.topics = system_topics(group.cluster_name, group.broker_name) | topics
        group.version = DataVersion(timestamp=at_ms, counter=len(topics))
    return groups


def topic_names() -> Iterator[str]:
    """Yield an endless series of topic names such as users choose, the same each time."""
    number = 1
    while True:
        suffix = "" if number == 1 else f"_{number}"
        yield from (f"{subject}_{event}{suffix}" for event, subject in product(_EVENTS, _SUBJECTS))
        number += 1


def random_topic(rng: random.Random) -> TopicConfig:
    """Return a topic with random queues and permissions, as a user would create it."""
    return topic_config(rng.choice(_QUEUES), rng.choice(_PERMISSIONS))


def cluster_name(number: int) -> str:
    """Return cluster-a, cluster-b, ..., cluster-z, cluster-aa, ..."""
    return f"cluster-{_letters(number)}"


def _groups(plan: FleetPlan) -> Iterator[BrokerGroup]:
    for number in range(plan.broker_names):
        row, cluster = divmod(number, plan.clusters)
        group = BrokerGroup(
            cluster_name=cluster_name(cluster),
            broker_name=f"broker-{_letters(cluster)}-{row}",
            zone_name=f"zone-{row % plan.zones + 1}" if plan.zones else None,
            topics={},
            version=DataVersion(),
        )
        first = number * (1 + plan.slaves_per_master)
        size = min(1 + plan.slaves_per_master, plan.brokers - first)
        group.brokers = [Broker(group, MASTER_ID + i, str(_FIRST_ADDRESS + first + i)) for i in range(size)]
        yield group


def _placed_topics(
    plan: FleetPlan, groups: Sequence[BrokerGroup]
) -> Iterator[tuple[BrokerGroup, dict[str, TopicConfig]]]:
    rng = random.Random(f"{plan.seed}/topics")
    by_cluster: dict[str, list[BrokerGroup]] = defaultdict(list)
    for group in groups:
        by_cluster[group.cluster_name].append(group)
    clusters = list(by_cluster.values())
    topics: dict[str, dict[str, TopicConfig]] = {group.broker_name: {} for group in groups}
    for _, topic in zip(range(plan.topics), topic_names(), strict=False):
        candidates = rng.choice(clusters)
        config = random_topic(rng)
        for group in rng.sample(candidates, min(rng.choice(_BROKER_NAMES_OF_A_TOPIC), len(candidates))):
            topics[group.broker_name][topic] = config
    return ((group, topics[group.broker_name]) for group in groups)


def _letters(number: int) -> str:
    """Return a for 0, z for 25, aa for 26."""
    prefix = _letters(number // 26 - 1) if number >= 26 else ""
    return prefix + ascii_lowercase[number % 26]

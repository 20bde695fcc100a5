"""A registry of many brokers in clusters and zones, and the outage of a zone, by the rules and the publisher."""

from __future__ import annotations

from namesrv_stream.rules.record_types import BrokerHeartbeat
from namesrv_stream.rules.rows import SnapshotRow
from tests.registry import PublishedRegistry

CLUSTERS = 3
ZONES = 3


def publish_crowd(registry: PublishedRegistry, brokers: int, topics: int, topics_a_broker: int) -> None:
    """Register masters and slaves, two addresses a broker name, as one snapshot."""
    for number in range(brokers):
        name = number // 2
        own = [f"orders-{(name * topics_a_broker + each) % topics}" for each in range(topics_a_broker)]
        shared = (*own, name_of(number), cluster_of(number), "TBW102", "SELF_TEST_TOPIC")
        register(registry, number, publish=False, topics=shared)
    registry.publish()


def register(registry: PublishedRegistry, number: int, **fields: object) -> SnapshotRow | None:
    place = {"zone_name": zone_of(number)}
    return registry.register(address_of(number), cluster_of(number), name_of(number), number % 2, **place, **fields)


def lose_zone(registry: PublishedRegistry, brokers: int, zone: str, silent_ms: int = 0) -> None:
    """End the leases of all brokers of a zone, as one snapshot, while all others send heartbeats.

    `silent_ms`: the time from their last heartbeats to the ends.
    """
    lost = [address_of(number) for number in range(brokers) if zone_of(number) == zone]
    others = [address_of(number) for number in range(brokers) if zone_of(number) != zone]
    for address in lost:
        registry.command(BrokerHeartbeat(broker_addr=address), publish=False)
    registry.now_ms += silent_ms
    for address in others:
        registry.command(BrokerHeartbeat(broker_addr=address), publish=False)
    for address in lost:
        registry.rules.expire(address, registry.now_ms)
    registry.publish()


def address_of(number: int) -> str:
    return f"10.{number // 62500}.{number // 250 % 250}.{number % 250}:10911"


def cluster_of(number: int) -> str:
    return f"cluster-{number // 2 % CLUSTERS}"


def zone_of(number: int) -> str:
    return f"zone-{number // 2 // CLUSTERS % ZONES}"


def name_of(number: int) -> str:
    return f"broker-{number // 2}"

"""Simulated brokers, like those of real installations: their names, addresses and topics, and their records.

A plan has the fleet's size and behaviour: everything that decides its records, the seed included.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address
from itertools import islice, product
from string import ascii_lowercase

from namesrv_stream.errors import SettingError
from namesrv_stream.rules.record_types import (
    DEFAULT_HEARTBEAT_TIMEOUT_MS,
    MASTER_ID,
    BrokerHeartbeat,
    DataVersion,
    RegisterBroker,
    TopicConfig,
    UnregisterBroker,
)

PORT = 10_911
HA_PORT = PORT + 1

_SUBJECTS = ("order", "payment", "invoice", "stock", "delivery", "customer", "cart", "price", "coupon", "refund")
_EVENTS = ("created", "changed", "confirmed", "cancelled", "failed", "expired")
_QUEUES = (4, 4, 8, 16)
_PERMISSIONS = (6,) * 19 + (4,)  # one topic of twenty is read-only, as while it is being emptied
_BROKER_NAMES_OF_A_TOPIC = (1, 1, 2, 2, 4)
_FIRST_ADDRESS = IPv4Address("10.0.0.1")


class ChurnKind(StrEnum):
    """The kinds of random events. model.py describes each beside its function."""

    CRASH = "crash"
    RESTART = "restart"
    FLAP = "flap"
    PROMOTE = "promote"
    MOVE = "move"
    CREATE_TOPIC = "create-topic"


@dataclass(frozen=True, kw_only=True)
class FleetPlan:
    """A fleet, fully determined: two models with the same plan and start time send the same records.

    `brokers` counts processes, slaves included. `topics` counts those of users; the brokers' own are added.
    `period_ms`: time between two registrations of a broker, each of which is in full. `startup_ms`: the brokers start
    evenly over this time. `heartbeat_interval_ms`: time between two BROKER_HEARTBEAT, as with enableSlaveActingMaster
    (B6); None sends none. `heartbeat_timeout_ms` None leaves the field out, which means 120 s (L1). `churn`: actions a
    minute over the whole fleet, by kind.
    """

    brokers: int = 8
    clusters: int = 1
    slaves_per_master: int = 1
    topics: int = 30
    zones: int = 0
    period_ms: int = 30_000
    startup_ms: int = 0
    heartbeat_interval_ms: int | None = None
    heartbeat_timeout_ms: int | None = None
    acting_master: bool = False
    churn: Mapping[ChurnKind, float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.clusters <= self.broker_names:
            problem = f"{self.clusters} clusters for {self.broker_names} broker names"
            raise SettingError("clusters", problem, "Each cluster needs a broker name: take fewer, or more brokers.")

    @property
    def broker_names(self) -> int:
        """The number of masters. The last of them may have fewer slaves than the others."""
        return -(-self.brokers // (1 + self.slaves_per_master))

    @property
    def lease_ms(self) -> int:
        """The time after its last sign of life for which a silent broker of this fleet stays in the routes."""
        return self.heartbeat_timeout_ms or DEFAULT_HEARTBEAT_TIMEOUT_MS


@dataclass(slots=True, eq=False)
class BrokerGroup:
    """The brokers of one name. They share topics and data version, because slaves copy those of their master.

    `topics` is replaced and never changed in place, so that registrations that were sent keep their topics.
    """

    cluster_name: str
    broker_name: str
    zone_name: str | None
    topics: dict[str, TopicConfig] = field(default_factory=dict)
    version: DataVersion = field(default_factory=DataVersion)
    brokers: list[SimulatedBroker] = field(default_factory=list)

    def put_topic(self, topic: str, config: TopicConfig, at_ms: int) -> None:
        """Create or change a topic, under a new data version."""
        self.topics = self.topics | {topic: config}
        self.next_version(at_ms)

    def move_to(self, cluster_name: str, broker_name: str, at_ms: int) -> None:
        """Put the brokers under another cluster and broker name.

        Their topics stay; the system topics of the new names are added, under a new data version.
        """
        self.cluster_name, self.broker_name = cluster_name, broker_name
        self.topics = self.topics | system_topics(cluster_name, broker_name)
        self.next_version(at_ms)

    def next_version(self, at_ms: int, state_version: int | None = None) -> None:
        """Set the next data version, as RocketMQ's DataVersion.nextVersion does: a new timestamp and counter.

        `state_version` is the new state version after a change of master; None keeps the present one.
        """
        kept = self.version.state_version if state_version is None else state_version
        self.version = DataVersion(state_version=kept, timestamp=at_ms, counter=self.version.counter + 1)


@dataclass(slots=True, eq=False)
class SimulatedBroker:
    """One broker process. `starts` counts its starts, so that an action planned for an earlier start can be dropped."""

    group: BrokerGroup
    broker_id: int
    ip: str
    up: bool = False
    starts: int = 0
    release: str | None = None

    @property
    def address(self) -> str:
        """The broker address: the key of its records."""
        return f"{self.ip}:{PORT}"

    @property
    def is_master(self) -> bool:
        """True if the broker has id 0 of its name."""
        return self.broker_id == MASTER_ID

    def registration(self, plan: FleetPlan, topics: dict[str, TopicConfig] | None = None) -> RegisterBroker:
        """Return a registration with all topics of the broker, or with the given ones alone."""
        return RegisterBroker(
            cluster_name=self.group.cluster_name,
            broker_name=self.group.broker_name,
            broker_id=self.broker_id,
            broker_addr=self.address,
            ha_server_addr=f"{self.ip}:{HA_PORT}",
            heartbeat_timeout_millis=plan.heartbeat_timeout_ms,
            enable_acting_master=plan.acting_master,  # B6: 5.x brokers always send the flag
            zone_name=self.group.zone_name,
            broker_version=self.release,
            data_version=self.group.version,
            topic_config_table=self.group.topics if topics is None else topics,
        )

    def heartbeat(self) -> BrokerHeartbeat:
        """Return a light sign of life."""
        return BrokerHeartbeat(broker_addr=self.address)

    def unregistration(self) -> UnregisterBroker:
        """Return the record that the broker sends at an orderly shutdown (B5)."""
        return UnregisterBroker(
            broker_addr=self.address,
            cluster_name=self.group.cluster_name,
            broker_name=self.group.broker_name,
            broker_id=self.broker_id,
        )


def system_topics(cluster_name: str, broker_name: str) -> dict[str, TopicConfig]:
    """Return the topics that a broker of release 5.4 registers before any user has created one."""
    return {
        "SELF_TEST_TOPIC": topic_config(1, 6),
        "TBW102": topic_config(4, 7),
        "BenchmarkTest": topic_config(1024, 6),
        "OFFSET_MOVED_EVENT": topic_config(1, 6),
        "SCHEDULE_TOPIC_XXXX": topic_config(18, 6),
        "RMQ_SYS_TRANS_HALF_TOPIC": topic_config(1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": topic_config(1, 6),
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC": topic_config(1, 6),
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC": topic_config(1, 6),
        f"rmq_sys_REVIVE_LOG_{cluster_name}": topic_config(8, 6),
        f"rmq_sys_SYNC_BROKER_MEMBER_{broker_name}": topic_config(1, 1),
        f"{cluster_name}_REPLY_TOPIC": topic_config(1, 6),
        cluster_name: topic_config(16, 7),
        broker_name: topic_config(1, 7),
    }


def topic_config(queues: int, perm: int) -> TopicConfig:
    """Return a topic with as many read queues as write queues."""
    return TopicConfig(read_queue_nums=queues, write_queue_nums=queues, perm=perm)


def build_groups(plan: FleetPlan, at_ms: int) -> list[BrokerGroup]:
    """Return the broker groups of a fleet with data versions as of `at_ms`; all brokers are still down."""
    groups = [_group(plan, number) for number in range(plan.broker_names)]
    _place_topics(plan, groups)
    for group in groups:
        group.version = DataVersion(timestamp=at_ms, counter=len(group.topics))
        group.topics = system_topics(group.cluster_name, group.broker_name) | group.topics
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


def _group(plan: FleetPlan, number: int) -> BrokerGroup:
    row, cluster = divmod(number, plan.clusters)
    group = BrokerGroup(
        cluster_name=cluster_name(cluster),
        broker_name=f"broker-{_letters(cluster)}-{row}",
        zone_name=f"zone-{row % plan.zones + 1}" if plan.zones else None,
    )
    first = number * (1 + plan.slaves_per_master)
    size = min(1 + plan.slaves_per_master, plan.brokers - first)
    group.brokers = [SimulatedBroker(group, MASTER_ID + i, str(_FIRST_ADDRESS + first + i)) for i in range(size)]
    return group


def _place_topics(plan: FleetPlan, groups: Sequence[BrokerGroup]) -> None:
    """Put each topic of the users on some groups of one cluster."""
    rng = random.Random(f"{plan.seed}/topics")
    by_cluster: dict[str, list[BrokerGroup]] = defaultdict(list)
    for group in groups:
        by_cluster[group.cluster_name].append(group)
    clusters = list(by_cluster.values())
    for topic in islice(topic_names(), plan.topics):
        candidates = rng.choice(clusters)
        config = random_topic(rng)
        for group in rng.sample(candidates, min(rng.choice(_BROKER_NAMES_OF_A_TOPIC), len(candidates))):
            group.topics[topic] = config


def _letters(number: int) -> str:
    """Return a for 0, z for 25, aa for 26."""
    prefix = _letters(number // 26 - 1) if number >= 26 else ""
    return prefix + ascii_lowercase[number % 26]

"""One simulated broker process and the broker name that it belongs to: what it would say now, and how."""

from __future__ import annotations

from dataclasses import dataclass, field

from namesrv_stream.fleet.plan import FleetPlan
from namesrv_stream.rules.requests import (
    MASTER_ID,
    BrokerHeartbeat,
    DataVersion,
    RegisterBroker,
    TopicConfig,
    UnregisterBroker,
)

PORT = 10_911
HA_PORT = PORT + 1


@dataclass(slots=True, eq=False)
class BrokerGroup:
    """The brokers of one name. They share topics and data version: slaves copy their master's.

    `topics` is replaced and never changed in place: registrations that were sent keep theirs.
    """

    cluster_name: str
    broker_name: str
    zone_name: str | None
    topics: dict[str, TopicConfig]
    version: DataVersion
    brokers: list[Broker] = field(default_factory=list)

    def put_topic(self, topic: str, config: TopicConfig, at_ms: int) -> None:
        """Makes or changes a topic, under a new data version."""
        self.topics = self.topics | {topic: config}
        self.next_version(at_ms)

    def move_to(self, cluster_name: str, broker_name: str, at_ms: int) -> None:
        """Another configuration for its brokers: their topics stay, those of the new names come on top."""
        self.cluster_name, self.broker_name = cluster_name, broker_name
        self.topics = self.topics | system_topics(cluster_name, broker_name)
        self.next_version(at_ms)

    def next_version(self, at_ms: int, state_version: int | None = None) -> None:
        """As DataVersion.nextVersion: a new time and counter, and a new state version after a change of master."""
        kept = self.version.state_version if state_version is None else state_version
        self.version = DataVersion(state_version=kept, timestamp=at_ms, counter=self.version.counter + 1)


@dataclass(slots=True, eq=False)
class Broker:
    """One broker process. `starts` counts its lives: what an earlier life had planned no longer happens."""

    group: BrokerGroup
    broker_id: int
    ip: str
    up: bool = False
    starts: int = 0
    said: RegisterBroker | None = None
    said_at_ms: int = 0

    @property
    def address(self) -> str:
        """The broker address: the key of its records."""
        return f"{self.ip}:{PORT}"

    @property
    def is_master(self) -> bool:
        """Whether it holds id 0 of its name."""
        return self.broker_id == MASTER_ID

    def registration(self, plan: FleetPlan, topics: dict[str, TopicConfig] | None = None) -> RegisterBroker:
        """What it registers with: all its topics, or the given ones alone."""
        return RegisterBroker(
            cluster_name=self.group.cluster_name,
            broker_name=self.group.broker_name,
            broker_id=self.broker_id,
            broker_addr=self.address,
            ha_server_addr=f"{self.ip}:{HA_PORT}",
            heartbeat_timeout_millis=plan.heartbeat_timeout_ms,
            enable_acting_master=plan.acting_master,  # B6: 5.x brokers always say it
            zone_name=self.group.zone_name,
            data_version=self.group.version,
            topic_config_table=self.group.topics if topics is None else topics,
        )

    def register(self, plan: FleetPlan, at_ms: int) -> RegisterBroker | BrokerHeartbeat:
        """Its periodic registration: in full where that says something new, light otherwise."""
        registration = self.registration(plan)
        if not says_something_new(registration, at_ms, self.said, self.said_at_ms, plan.reconcile_interval_ms):
            return self.heartbeat()
        self.said, self.said_at_ms = registration, at_ms
        return registration

    def heartbeat(self) -> BrokerHeartbeat:
        """A light sign of life."""
        return BrokerHeartbeat(broker_addr=self.address)

    def unregistration(self) -> UnregisterBroker:
        """What it says at an orderly shutdown (B5)."""
        return UnregisterBroker(
            broker_addr=self.address,
            cluster_name=self.group.cluster_name,
            broker_name=self.group.broker_name,
            broker_id=self.broker_id,
        )


def says_something_new(
    registration: RegisterBroker,
    at_ms: int,
    said: RegisterBroker | None,
    said_at_ms: int,
    reconcile_interval_ms: int,
) -> bool:
    """Whether a registration has to go on Kafka in full; a light heartbeat does otherwise.

    `said` is the last one of this broker that went in full with all its topics; None before the first and after
    a send that failed. `reconcile_interval_ms` 0 sends every registration in full.
    """
    return said is None or at_ms - said_at_ms >= reconcile_interval_ms or registration != said


def system_topics(cluster_name: str, broker_name: str) -> dict[str, TopicConfig]:
    """What a broker of release 5.4 registers before any user has made a topic."""
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
    """A topic with as many queues to read as to write."""
    return TopicConfig(read_queue_nums=queues, write_queue_nums=queues, perm=perm)

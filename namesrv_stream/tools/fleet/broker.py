"""A simulated broker process and its broker name: the records that it would send now, and whether in full or light."""

from __future__ import annotations

from dataclasses import dataclass, field

from namesrv_stream.rules.record_types import (
    MASTER_ID,
    BrokerHeartbeat,
    DataVersion,
    RegisterBroker,
    TopicConfig,
    UnregisterBroker,
)
from namesrv_stream.tools.fleet.plan import FleetPlan

PORT = 10_911
HA_PORT = PORT + 1


@dataclass(slots=True, eq=False)
class BrokerGroup:
    """The brokers of one name. They share topics and data version, because slaves copy those of their master.

    `topics` is replaced and never changed in place, so that registrations that were sent keep their topics.
    """

    cluster_name: str
    broker_name: str
    zone_name: str | None
    topics: dict[str, TopicConfig]
    version: DataVersion
    brokers: list[Broker] = field(default_factory=list)

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
class Broker:
    """One broker process. `starts` counts its starts, so that an action planned for an earlier start can be dropped.

    `full_sent` is the last registration that was sent in full with all topics, and `full_sent_at_ms` its time. It is
    None before the first one and after a failed send.
    """

    group: BrokerGroup
    broker_id: int
    ip: str
    up: bool = False
    starts: int = 0
    full_sent: RegisterBroker | None = None
    full_sent_at_ms: int = 0

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
            data_version=self.group.version,
            topic_config_table=self.group.topics if topics is None else topics,
        )

    def register(self, plan: FleetPlan, at_ms: int) -> RegisterBroker | BrokerHeartbeat:
        """Return the periodic registration: a light heartbeat if it has nothing new, otherwise in full."""
        registration = self.registration(plan)
        if not is_sent_in_full(registration, at_ms, self.full_sent, self.full_sent_at_ms, plan.reconcile_interval_ms):
            return self.heartbeat()
        self.full_sent, self.full_sent_at_ms = registration, at_ms
        return registration

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


def is_sent_in_full(
    registration: RegisterBroker,
    at_ms: int,
    full_sent: RegisterBroker | None,
    full_sent_at_ms: int,
    reconcile_interval_ms: int,
) -> bool:
    """Return whether a registration has to be sent to Kafka in full rather than as a light heartbeat.

    `full_sent` is the last registration of this broker that was sent in full with all its topics; None before the
    first and after a failed send. With `reconcile_interval_ms` 0 every registration is sent in full.
    """
    return full_sent is None or at_ms - full_sent_at_ms >= reconcile_interval_ms or registration != full_sent


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

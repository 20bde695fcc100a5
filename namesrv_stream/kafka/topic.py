"""Administration of the heartbeat topic: make it, check its settings, read its offsets.

The argument `kafka` holds the keyword arguments of kafka-python's clients, `bootstrap_servers` among them.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import (
    GroupIdNotFoundError,
    KafkaError,
    RetriableError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_delay,
    stop_when_event_set,
    wait_exponential,
)

from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError
from namesrv_stream.kafka.protocol import other_protocol
from namesrv_stream.records import DEFAULT_TOPIC, MAX_RECORD_BYTES

log = logging.getLogger(__name__)

KafkaOptions = Mapping[str, Any]

COMPRESSION = "zstd"
"""The records' codec. A registration of 10,000 topics takes 1 ms; gzip would take 7 ms of a thread, lz4 five times the
space (docs/decisions/0008)."""

TOPIC_CONFIG = {
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(MAX_RECORD_BYTES),
    "cleanup.policy": "delete",
    "retention.bytes": "-1",
    "compression.type": "producer",
}
"""Settings of a topic that is made here; retention.ms and replication are the Kafka cluster's own defaults."""

SHORTEST_RETENTION_MS = 24 * 3_600_000
CONNECT_LIMIT_MS = 5_000

_NO_SUCH_GROUP = f"[Error {GroupIdNotFoundError.errno}]"
"""Beginning of the text that kafka-python gives in place of the error."""


def wait_for_kafka(kafka: KafkaOptions, limit_s: float = math.inf, given_up: threading.Event | None = None) -> None:
    """Wait until Kafka answers. Tries with growing pauses and logs each failed attempt with the address.

    Raises KafkaUnreachableError after `limit_s` or when `given_up` is set. Raises KafkaRefusedError at once if trying
    again cannot help.
    """
    given_up = given_up or threading.Event()
    attempts = Retrying(
        retry=retry_if_exception_type(KafkaUnreachableError),
        wait=wait_exponential(multiplier=0.5, max=30),
        stop=stop_after_delay(limit_s) | stop_when_event_set(given_up),
        sleep=sleep_using_event(given_up),
        before_sleep=_log_next_attempt,
        reraise=True,
    )
    attempts(_ping, kafka)


@dataclass(frozen=True)
class TopicFacts:
    """Description of the heartbeat topic by Kafka.

    `config` holds Kafka's topic settings by name; it is empty if Kafka does not let this client read them.
    """

    topic: str
    cluster_id: str
    topic_id: str
    node_count: int
    partition_count: int
    replica_count: int
    config: Mapping[str, str]

    @property
    def retention_s(self) -> float:
        """The time for which Kafka keeps a record; infinite for ever, or if it is not known."""
        retention_ms = int(self.config.get("retention.ms", "-1"))
        return math.inf if retention_ms < 0 else retention_ms / 1000

    @property
    def warnings(self) -> list[str]:
        """Warnings about the topic's settings, one text a setting; empty if all settings are right."""
        return topic_warnings(self)


class UnfitTopicError(NamesrvError):
    """Refusal of a topic from which two readers would not make the same tables."""

    def __init__(self, topic: str, problem: str, consequence: str, command: str) -> None:
        super().__init__(f"topic {topic} {problem}, so {consequence}. Mend it by: {command}")
        self.topic = topic
        self.problem = problem
        self.command = command


def ensure_topic(
    kafka: KafkaOptions, topic: str = DEFAULT_TOPIC, config: Mapping[str, str] = TOPIC_CONFIG
) -> TopicFacts:
    """Make the topic with one partition if it is missing, and return Kafka's description of it."""
    with _admin(kafka) as admin:
        found = _described(admin, topic)
        if found is None:
            _make_topic(admin, topic, config)
            found = _described(admin, topic) or {}
        return _facts(admin, topic, found)


def describe_topic(kafka: KafkaOptions, topic: str = DEFAULT_TOPIC) -> TopicFacts | None:
    """Return Kafka's description of the topic, None if there is none or this client may not see it."""
    with _admin(kafka) as admin:
        found = _described(admin, topic)
        return _facts(admin, topic, found) if found and found.get("partitions") else None


def _facts(admin: KafkaAdminClient, topic: str, found: Mapping[str, Any]) -> TopicFacts:
    cluster = admin.describe_cluster()
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource], config_filter="all")["topic"][topic]
    partitions = found["partitions"]
    return TopicFacts(
        topic=topic,
        cluster_id=str(cluster["cluster_id"]),
        topic_id=str(found.get("topic_id", "")),
        node_count=len(cluster["brokers"]),
        partition_count=len(partitions),
        replica_count=min(len(partition["replica_nodes"]) for partition in partitions),
        config={name: str(entry["value"]) for name, entry in (entries or {}).items()},
    )


def require_one_order(facts: TopicFacts, kafka: KafkaOptions, *, is_replay: bool = False) -> None:
    """Raise UnfitTopicError unless the topic has one partition, LogAppendTime and no compaction.

    A replay may use CreateTime: it sets the time of each record itself, on a topic of its own.
    """
    servers, topic = address_of(kafka), facts.topic
    if facts.partition_count != 1:
        raise UnfitTopicError(
            topic,
            f"has {facts.partition_count} partitions",
            "its records have no single order",
            f"kafka-topics.sh --bootstrap-server {servers} --create --topic {topic}-1 --partitions 1 "
            f"--config message.timestamp.type=LogAppendTime, and kafka.topic={topic}-1 for job, gateways and fleet",
        )
    if facts.config.get("message.timestamp.type", "LogAppendTime") != "LogAppendTime" and not is_replay:
        raise UnfitTopicError(
            topic,
            "has message.timestamp.type=CreateTime",
            "the clock of each producer decides when a lease ends",
            _alter(servers, topic, "message.timestamp.type=LogAppendTime"),
        )
    if "compact" in facts.config.get("cleanup.policy", "delete"):
        raise UnfitTopicError(
            topic,
            f"has cleanup.policy={facts.config['cleanup.policy']}",
            "Kafka erases commands and ticks that nobody has read, as all of them have the same key",
            _alter(servers, topic, "cleanup.policy=delete"),
        )


def _alter(servers: str, topic: str, setting: str) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {setting}"
    )


def topic_warnings(facts: TopicFacts) -> list[str]:
    """Return a warning for each setting by which a heartbeat topic loses, refuses, disorders or recompresses records.

    Settings that the job refuses are included, for the other parts that use the topic.
    """
    topic, config = facts.topic, facts.config
    if not config:  # kafka-python returns no settings if Kafka refuses to show them
        return [f"topic {topic}: its settings cannot be seen, so they are not checked: grant DescribeConfigs on it"]
    retention_ms = int(config["retention.ms"])
    message_limit = int(config["max.message.bytes"])
    in_sync = int(config.get("min.insync.replicas", "1"))
    found = {
        "message.timestamp.type is CreateTime: the job refuses such a topic; set it to LogAppendTime": (
            config["message.timestamp.type"] != "LogAppendTime"
        ),
        f"{facts.partition_count} partitions: brokers have no total order between them, and the job refuses such a "
        "topic; use one with one partition": facts.partition_count > 1,
        f"one replica on a Kafka with {facts.node_count} nodes: records are lost with their node; give it three": (
            facts.replica_count == 1 and facts.node_count > 1
        ),
        f"max.message.bytes is {message_limit}: registrations of brokers with many topics are refused; "
        f"set it to {MAX_RECORD_BYTES}": message_limit < MAX_RECORD_BYTES,
        "cleanup.policy has compaction: the job refuses such a topic; set it to delete": (
            "compact" in config["cleanup.policy"]
        ),
        f"retention.bytes is {config['retention.bytes']}: Kafka may delete records before the job has read them; "
        "set it to -1": config["retention.bytes"] != "-1",
        "unclean.leader.election.enable is true: a change of leader may lose records that Kafka has acknowledged; "
        "set it to false": config.get("unclean.leader.election.enable") == "true",
        f"min.insync.replicas is {in_sync}, but it has {facts.replica_count} replicas: Kafka takes no record; give it "
        "more replicas or set min.insync.replicas lower": in_sync > facts.replica_count,
        "min.insync.replicas is 1: a record may be lost with the node that leads it; set it to 2": (
            in_sync == 1 < facts.replica_count
        ),
        f"compression.type is {config['compression.type']}: Kafka compresses each record anew; set it to producer": (
            config["compression.type"] not in ("producer", COMPRESSION)
        ),
        f"retention.ms is {retention_ms}: a job that is away for longer loses the records sent meanwhile; "
        f"set it to {SHORTEST_RETENTION_MS} or more": 0 <= retention_ms < SHORTEST_RETENTION_MS,
    }
    return [f"topic {topic}: {warning}" for warning, applies in found.items() if applies]


def end_offsets(kafka: KafkaOptions, topic: str = DEFAULT_TOPIC) -> dict[int, int]:
    """Return the offset of the next record by partition; empty if there is no such topic."""
    return _offsets(kafka, topic, OffsetSpec.LATEST)


def beginning_offsets(kafka: KafkaOptions, topic: str = DEFAULT_TOPIC) -> dict[int, int]:
    """Return the offset of the oldest record that Kafka still has by partition; empty if there is no such topic."""
    return _offsets(kafka, topic, OffsetSpec.EARLIEST)


def newest_timestamp_ms(kafka: KafkaOptions, topic: str = DEFAULT_TOPIC) -> int | None:
    """Return the highest append time of all records, in epoch milliseconds; None if there is no record."""
    with _admin(kafka) as admin:
        partitions = [TopicPartition(topic, number) for number in range(_partition_count(admin, topic))]
        found = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.MAX_TIMESTAMP)) if partitions else {}
    return max((info.timestamp for info in found.values() if info.timestamp >= 0), default=None)


class GroupMember(NamedTuple):
    """One member of a consumer group."""

    client_id: str
    has_partition: bool


def group_members(kafka: KafkaOptions, group_id: str) -> list[GroupMember]:
    """Return the present members of a consumer group; empty for a group that nobody has joined."""
    with _admin(kafka) as admin:
        group = admin.describe_groups([group_id])[group_id]
    error = group.get("error") or ""
    if error and not error.startswith(_NO_SUCH_GROUP):  # Kafka forgets a group whose members have all left
        raise KafkaRefusedError(address_of(kafka), f"the consumer group {group_id}: {error}")
    members = group.get("members") or []
    return [GroupMember(member["client_id"], _has_partition(member["member_assignment"])) for member in members]


def _has_partition(assignment: Any) -> bool:
    partitions = assignment.get("assigned_partitions") if isinstance(assignment, dict) else None
    return any(each.get("partitions") for each in partitions or [])


class AdminClient(KafkaAdminClient):  # type: ignore[misc]  # kafka-python ships no types
    """Admin client that closes itself if Kafka does not answer: kafka-python 3.0 leaks a thread and sockets."""

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except BaseException:
            if hasattr(self, "_client"):  # else an option was refused before there was one
                self._client.close()
            raise


@contextmanager
def _admin(kafka: KafkaOptions) -> Iterator[KafkaAdminClient]:
    with named_errors(kafka):
        known = {name: value for name, value in kafka.items() if name in KafkaAdminClient.DEFAULT_CONFIG}
        admin = AdminClient(**{"bootstrap_timeout_ms": CONNECT_LIMIT_MS, **known})
        try:
            yield admin
        finally:
            admin.close()


def _make_topic(admin: KafkaAdminClient, topic: str, config: Mapping[str, str]) -> None:
    try:
        admin.create_topics({topic: {"num_partitions": 1, "configs": dict(config)}}, wait_for_metadata=True)
    except TopicAlreadyExistsError:  # another process was faster
        admin.wait_for_topics([topic])


def _described(admin: KafkaAdminClient, topic: str) -> dict[str, Any] | None:
    """Return Kafka's own description of the topic, None if there is no such topic."""
    [found] = admin.describe_topics([topic])
    return None if found["error_code"] == UnknownTopicOrPartitionError.errno else found


def _partition_count(admin: KafkaAdminClient, topic: str) -> int:
    """Return the number of partitions, 0 if there is no such topic."""
    found = _described(admin, topic)
    return 0 if found is None else len(found["partitions"])


def _offsets(kafka: KafkaOptions, topic: str, at: OffsetSpec) -> dict[int, int]:
    with _admin(kafka) as admin:
        partitions = [TopicPartition(topic, number) for number in range(_partition_count(admin, topic))]
        found = admin.list_partition_offsets(dict.fromkeys(partitions, at)) if partitions else {}
        return {partition.partition: info.offset for partition, info in found.items()}


def _ping(kafka: KafkaOptions) -> None:
    with _admin(kafka) as admin:
        admin.describe_cluster()


def _log_next_attempt(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.warning("%s Next attempt in %.1f s.", error, state.next_action.sleep if state.next_action else 0)


def address_of(kafka: KafkaOptions) -> str:
    """Return the bootstrap servers as one text, for messages."""
    servers = kafka["bootstrap_servers"]
    return servers if isinstance(servers, str) else ",".join(servers)


@contextmanager
def named_errors(kafka: KafkaOptions) -> Iterator[None]:
    """Turn errors that kafka-python raises within the `with` into the NamesrvError of `named_error`.

    kafka-python reports a host whose name does not resolve, and a listener of another protocol, as it reports one that
    does not answer, so these are looked up then.
    """
    address = address_of(kafka)
    try:
        yield
    except KafkaError as error:
        named = named_error(error, address)
        unknown = _unresolved(address) if isinstance(named, KafkaUnreachableError) else ()
        if unknown:
            problem = f"these names do not resolve on this machine: {', '.join(unknown)}"
            raise KafkaUnreachableError(address, problem) from error
        if isinstance(named, KafkaUnreachableError):
            other = other_protocol(address, kafka.get("security_protocol", "PLAINTEXT"))
            if other is not None:
                next_step = "Correct kafka.security.protocol, or the port in kafka.bootstrap.servers."
                raise KafkaUnreachableError(address, other, next_step) from error
        raise named from error


def _unresolved(address: str) -> list[str]:
    """Return the host names in host:port,host:port that have no address."""
    names = [each.rpartition(":")[0].strip("[] ") for each in address.split(",")]
    return [name for name in names if not _has_address(name)]


def _has_address(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False


def named_error(error: BaseException, address: str) -> NamesrvError:
    """Return a KafkaUnreachableError if trying again may help, a KafkaRefusedError otherwise."""
    kind = KafkaUnreachableError if isinstance(error, RetriableError) else KafkaRefusedError
    return kind(address, str(error) or type(error).__name__)

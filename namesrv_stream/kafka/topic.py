"""Administer the heartbeat topic: make it, check its settings, read its offsets.

This module decides whether a topic gives all readers one order of records, and which of its settings are risky. The
argument `kafka` holds the options of a client of librdkafka.
"""

from __future__ import annotations

import atexit
import base64
import json
import logging
import math
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    DescribeClusterResult,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    sleep_using_event,
    stop_after_delay,
    stop_before_delay,
    stop_when_event_set,
    wait_exponential,
    wait_fixed,
)

from namesrv_stream.errors import KafkaMisaddressedError, KafkaUnreachableError, NamesrvError
from namesrv_stream.kafka.librdkafka import COMPRESSION, KafkaOptions, answered, is_passing, named_kafka_error, opened
from namesrv_stream.records import DEFAULT_TOPIC, MAX_RECORD_BYTES
from namesrv_stream.rules.rows import known_id

log = logging.getLogger(__name__)

TOPIC_CONFIG = {
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(MAX_RECORD_BYTES),
    "cleanup.policy": "delete",
    "retention.bytes": "-1",
    "compression.type": "producer",
}
"""Settings of a topic that is made here. retention.ms and the replication are the Kafka cluster's defaults."""

SHORTEST_RETENTION_MS = 24 * 3_600_000

_ANSWER_LIMIT_MS = 5_000
"""Limit of the wait for Kafka's answer, unless the client's options set another one."""

_END_LIMIT_S = 10.0
_STATES_EVERY_MS = 500
_OF_NODE = re.compile(r"(?:\w+://)?(?P<node>\S+:\d+)/\d+: (?P<problem>.*?)(?: \(after .*)?$")
"""Problem of a connection to a node that Kafka has announced, in place of that to a bootstrap server."""

_CONNECTING = ("TRY_CONNECT", "CONNECT")
_NOT_OF_THE_ADDRESS = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_MADE_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.05
_NO_SUCH_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED)


def wait_for_kafka(kafka: KafkaOptions, limit_s: float = math.inf, given_up: threading.Event | None = None) -> None:
    """Wait until Kafka answers. Tries with growing pauses and logs each failed attempt with the address.

    Raises KafkaUnreachableError if the next attempt would begin after `limit_s`, or when `given_up` is set. Raises
    KafkaRefusedError at once if trying again cannot help.
    """
    given_up = given_up or threading.Event()
    attempts = Retrying(
        retry=retry_if_exception_type(KafkaUnreachableError),
        wait=wait_exponential(multiplier=0.5, max=30),
        stop=stop_before_delay(limit_s) | stop_when_event_set(given_up),
        sleep=sleep_using_event(given_up),
        before_sleep=_log_next_attempt,
        reraise=True,
    )
    attempts(lambda: _ask_for_cluster(kafka))


@dataclass(frozen=True)
class TopicFacts:
    """The heartbeat topic as Kafka describes it.

    `config` holds Kafka's topic settings by name; it is empty if Kafka does not let this client read them. `topic_id`
    is None if Kafka has no topic ids (yet), as with an inter-broker protocol before 2.8.
    """

    topic: str
    cluster_id: str | None
    topic_id: str | None
    node_count: int
    partition_count: int
    replica_count: int
    config: Mapping[str, str]

    @property
    def retention_s(self) -> float:
        """The time for which Kafka keeps a record; infinite if it keeps records for ever or the time is not known."""
        retention_ms = int(self.config.get("retention.ms", "-1"))
        return math.inf if retention_ms < 0 else retention_ms / 1000

    @property
    def warnings(self) -> list[str]:
        """A warning for each setting by which a heartbeat topic loses, refuses, disorders or recompresses records.

        Settings that the job refuses are included, because other parts only warn of them.
        """
        topic, config = self.topic, self.config
        if not config:
            return [f"topic {topic}: this client may not read its settings; grant DescribeConfigs to have them checked"]
        retention_ms = int(config["retention.ms"])
        message_limit = int(config["max.message.bytes"])
        in_sync = int(config.get("min.insync.replicas", "1"))
        codec = config["compression.type"]
        found = {
            "message.timestamp.type is CreateTime, which the job rejects; set it to LogAppendTime": (
                config["message.timestamp.type"] != "LogAppendTime"
            ),
            f"it has {self.partition_count} partitions, so its records have no total order and the job rejects it; use "
            "a topic with one partition": self.partition_count > 1,
            f"it has one replica on {self.node_count} nodes, so its records are lost with their node; give it three": (
                self.replica_count == 1 and self.node_count > 1
            ),
            f"max.message.bytes is {message_limit}, so Kafka rejects registrations of brokers with many topics; set it "
            f"to {MAX_RECORD_BYTES}": message_limit < MAX_RECORD_BYTES,
            "cleanup.policy has compaction, which the job rejects; set it to delete": (
                "compact" in config["cleanup.policy"]
            ),
            f"retention.bytes is {config['retention.bytes']}, so Kafka may delete records that the job has not read "
            "yet; set it to -1": config["retention.bytes"] != "-1",
            "unclean.leader.election.enable is true, so a change of leader may lose acknowledged records; set it to "
            "false": config.get("unclean.leader.election.enable") == "true",
            f"min.insync.replicas is {in_sync} with {self.replica_count} replicas, so Kafka rejects all records; give "
            "it more replicas or a lower min.insync.replicas": in_sync > self.replica_count,
            "min.insync.replicas is 1, so a record may be lost with the node that leads it; set it to 2": (
                in_sync == 1 < self.replica_count
            ),
            f"compression.type is {codec}, so Kafka compresses each record again; set it to producer": (
                codec not in ("producer", COMPRESSION)
            ),
            f"retention.ms is {retention_ms}, so a job that is stopped for longer loses the records sent meanwhile; "
            f"set it to {SHORTEST_RETENTION_MS} or more": 0 <= retention_ms < SHORTEST_RETENTION_MS,
        }
        return [f"topic {topic}: {warning}" for warning, applies in found.items() if applies]


def ensure_topic(
    kafka: KafkaOptions, topic: str = DEFAULT_TOPIC, config: Mapping[str, str] = TOPIC_CONFIG
) -> TopicFacts:
    """Make the topic with one partition if it is missing, and return Kafka's description of it."""
    with _Admin(kafka) as admin:
        return admin.facts(admin.topic(topic) or admin.made_topic(topic, config))


def describe_topic(kafka: KafkaOptions, topic: str = DEFAULT_TOPIC) -> TopicFacts | None:
    """Return Kafka's description of the topic, None if there is none or this client may not see it."""
    with _Admin(kafka) as admin:
        found = admin.topic(topic)
        return None if found is None else admin.facts(found)


def require_one_order(facts: TopicFacts, kafka: KafkaOptions, *, is_replay: bool = False) -> None:
    """Raise NamesrvError if two readers of the topic might make different tables.

    The topic needs one partition, LogAppendTime and no compaction. A replay may use CreateTime, because it sets the
    time of each record itself, on a topic of its own.
    """
    servers, topic = kafka["bootstrap.servers"], facts.topic
    alter = f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics --entity-name {topic}"
    if facts.partition_count != 1:
        raise _unfit(
            topic,
            f"has {facts.partition_count} partitions, so its records have no single order",
            f"kafka-topics.sh --bootstrap-server {servers} --create --topic {topic}-1 --partitions 1 "
            f"--config message.timestamp.type=LogAppendTime, and kafka.topic={topic}-1 for job, gateways and fleet",
        )
    if facts.config.get("message.timestamp.type", "LogAppendTime") != "LogAppendTime" and not is_replay:
        raise _unfit(
            topic,
            "has message.timestamp.type=CreateTime, so the clock of each producer decides when a lease ends",
            f"{alter} --add-config message.timestamp.type=LogAppendTime",
        )
    if "compact" in facts.config.get("cleanup.policy", "delete"):
        raise _unfit(
            topic,
            f"has cleanup.policy={facts.config['cleanup.policy']}, so Kafka erases commands and clock ticks before "
            "the job reads them, as they share one key",
            f"{alter} --add-config cleanup.policy=delete",
        )


def _unfit(topic: str, problem: str, command: str) -> NamesrvError:
    return NamesrvError(f"topic {topic} {problem}. Repair it with: {command}")


def end_offsets(kafka: KafkaOptions, topic: str = DEFAULT_TOPIC) -> dict[int, int]:
    """Return the offset of the next record by partition; empty if there is no such topic."""
    return {each: info.offset for each, info in _offsets(kafka, topic, OffsetSpec.latest()).items()}


def beginning_offsets(kafka: KafkaOptions, topic: str = DEFAULT_TOPIC) -> dict[int, int]:
    """Return the offset of the oldest record that Kafka has, by partition; empty if there is no such topic."""
    return {each: info.offset for each, info in _offsets(kafka, topic, OffsetSpec.earliest()).items()}


def newest_timestamp_ms(kafka: KafkaOptions, topic: str = DEFAULT_TOPIC) -> int | None:
    """Return the highest append time of all records, in epoch milliseconds; None if there is no record."""
    found = _offsets(kafka, topic, OffsetSpec.max_timestamp())
    return max((info.timestamp for info in found.values() if info.timestamp >= 0), default=None)


def _offsets(kafka: KafkaOptions, topic: str, at: OffsetSpec) -> dict[int, ListOffsetsResultInfo]:
    with _Admin(kafka) as admin:
        return admin.offsets(topic, at)


def group_members(kafka: KafkaOptions, group_id: str) -> dict[str, bool]:
    """Return the client ids in a consumer group, each with whether it has a partition; empty if nobody has joined.

    Kafka forgets a group whose members have all left.
    """
    with _Admin(kafka) as admin:
        found = admin.answer(
            lambda: answered(
                admin.client.describe_consumer_groups([group_id], request_timeout=admin.limit_s)[group_id]
            ),
            but=(KafkaError.GROUP_ID_NOT_FOUND,),
        )
    members = found.members if found is not None else ()
    return {each.client_id: bool(each.assignment.topic_partitions) for each in members}


def committed_text(kafka: KafkaOptions, group_id: str, topic: str) -> str | None:
    """Return the text beside the offset that a consumer group has committed for the topic's partition 0, if any."""
    wanted = ConsumerGroupTopicPartitions(group_id, [TopicPartition(topic, 0)])
    with _Admin(kafka) as admin:
        found = admin.answer(
            lambda: answered(
                admin.client.list_consumer_group_offsets([wanted], request_timeout=admin.limit_s)[group_id]
            ),
            but=(KafkaError.GROUP_ID_NOT_FOUND,),
        )
    return next((each.metadata for each in found.topic_partitions), None) if found is not None else None


def answers(kafka: KafkaOptions) -> bool:
    """Return whether Kafka answers."""
    try:
        _ask_for_cluster(kafka)
    except KafkaUnreachableError:
        return False
    return True


def _ask_for_cluster(kafka: KafkaOptions) -> None:
    with _Admin(kafka) as admin:
        admin.cluster()


class _Admin:
    """A client for a few administrative calls. They raise KafkaUnreachableError and KafkaRefusedError.

    The end of its `with` closes it. Python would close a client whose error is still kept by whatever thread frees that
    error, and in a thread of librdkafka's own that aborts the process. A process that ends waits for the clients of its
    other threads, because it crashes if it ends within one's call.
    """

    _open = 0
    _is_end = False
    _changed = threading.Condition()

    def __init__(self, kafka: KafkaOptions) -> None:
        self._address = kafka["bootstrap.servers"]
        self.limit_s = kafka.get("socket.timeout.ms", _ANSWER_LIMIT_MS) / 1000
        self._problems: list[KafkaError] = []
        self._states: deque[str] = deque(maxlen=1)
        watching = {"statistics.interval.ms": _STATES_EVERY_MS, "stats_cb": self._states.append}
        self._options = {**kafka, **watching, "error_cb": self._problems.append}

    client: AdminClient

    def __enter__(self) -> Self:
        with self._changed:
            if _Admin._is_end:
                raise KafkaUnreachableError(self._address, "this process is ending")
            self.client = opened(AdminClient, self._options, self._address)
            _Admin._open += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.client.__exit__(None, None, None)
        with self._changed:
            _Admin._open -= 1
            self._changed.notify_all()

    @classmethod
    def await_all(cls) -> None:
        """Open no client any more, and wait until all are closed."""
        with cls._changed:
            cls._is_end = True
            cls._changed.wait_for(lambda: cls._open == 0, _END_LIMIT_S)

    def cluster(self) -> DescribeClusterResult:
        """Return the id and the nodes of the Kafka cluster."""
        found: DescribeClusterResult = self.answer(
            lambda: answered(self.client.describe_cluster(request_timeout=self.limit_s))
        )
        return found

    def topic(self, topic: str) -> TopicDescription | None:
        """Return Kafka's own description of the topic, None if there is no such topic or this client may not see it."""
        wanted = TopicCollection([topic])
        found: TopicDescription | None = self.answer(
            lambda: answered(self.client.describe_topics(wanted, request_timeout=self.limit_s)[topic]),
            but=_NO_SUCH_TOPIC,
        )
        return found

    def made_topic(self, topic: str, config: Mapping[str, str]) -> TopicDescription:
        """Make the topic, and return its description once it can be written."""
        wanted = [NewTopic(topic, 1, config=dict(config))]
        self.answer(
            lambda: answered(self.client.create_topics(wanted, request_timeout=self.limit_s)[topic]),
            but=(KafkaError.TOPIC_ALREADY_EXISTS,),  # another process was faster
        )
        until = Retrying(
            retry=retry_if_result(lambda found: found is None or not all(each.leader for each in found.partitions)),
            stop=stop_after_delay(_MADE_WITHIN_S),
            wait=wait_fixed(_LOOK_EVERY_S),
            retry_error_callback=lambda _state: None,
        )
        found = until(self.topic, topic)
        if found is None:
            raise KafkaUnreachableError(self._address, f"topic {topic} was created and has no leader yet")
        return found

    def facts(self, found: TopicDescription) -> TopicFacts:
        """Return the facts about a topic that Kafka has described."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, found.name)
        entries = self.answer(
            lambda: answered(self.client.describe_configs([resource], request_timeout=self.limit_s)[resource]),
            but=_NO_SUCH_TOPIC,
        )
        cluster = self.cluster()
        return TopicFacts(
            topic=found.name,
            cluster_id=known_id(cluster.cluster_id),
            topic_id=known_id(str(uuid.UUID(bytes=base64.urlsafe_b64decode(f"{found.topic_id}==")))),
            node_count=len(cluster.nodes),
            partition_count=len(found.partitions),
            replica_count=min(len(partition.replicas) for partition in found.partitions),
            config={name: str(entry.value) for name, entry in (entries or {}).items()},
        )

    def offsets(self, topic: str, at: OffsetSpec) -> dict[int, ListOffsetsResultInfo]:
        """Return an offset of each partition; empty if there is no such topic."""
        found = self.topic(topic)
        partitions = range(len(found.partitions)) if found is not None else ()
        wanted = {TopicPartition(topic, number): at for number in partitions}

        def asked() -> dict[int, ListOffsetsResultInfo]:
            answers = self.client.list_offsets(wanted, request_timeout=self.limit_s)
            return {partition.partition: answered(each) for partition, each in answers.items()}

        found_offsets: dict[int, ListOffsetsResultInfo] = self.answer(asked) if wanted else {}
        return found_offsets

    def answer(self, ask: Callable[[], Any], but: Collection[int] = ()) -> Any:
        """Return Kafka's answer, None if it is an error with one of the codes `but`.

        An error that passes is waited out for as long as an answer. If no answer came, raise the error that kept the
        connection from opening. If it is open, Kafka has named this client no controller, as in an election, and
        librdkafka asks for it again only after minutes: a new client asks once more, for as long again.
        """
        is_renewed = False
        given_up_s = time.monotonic() + self.limit_s
        while True:  # tenacity would keep the client alive in its last error: see `answered`
            try:
                return ask()
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                if error.code() in but:
                    return None
                if is_passing(error) and time.monotonic() < given_up_s:
                    time.sleep(_LOOK_EVERY_S)
                    continue
                if error.code() == KafkaError._TIMED_OUT:
                    if away := self._announced_away():
                        raise KafkaMisaddressedError(self._address, away) from raised
                    if any(each["state"] == "UP" for each in self._nodes()) and not is_renewed:
                        is_renewed = True
                        given_up_s = time.monotonic() + self.limit_s
                        self.client.__exit__(None, None, None)
                        self.client = opened(AdminClient, self._options, self._address)
                        continue
                    error = self._why_away() or error
                raise named_kafka_error(error, self._address) from raised

    def _announced_away(self) -> dict[str, str]:
        """Return the addresses that Kafka announces for its nodes and that cannot be reached, with the reason.

        librdkafka raises no error for an address that drops what is sent there, but knows that it waits.
        """
        self.client.poll(0)  # fetches the problems from librdkafka
        said = (_OF_NODE.match(each.str()) for each in self._problems if each.code() not in _NOT_OF_THE_ADDRESS)
        away = {found["node"]: found["problem"] for found in said if found}
        for each in self._nodes():
            if each["nodeid"] >= 0 and each["state"] in _CONNECTING:
                away.setdefault(each["nodename"], f"no connection within {self.limit_s:g} s")
        own = {each.strip() for each in self._address.split(",")}
        return {address: problem for address, problem in away.items() if address not in own}

    def _nodes(self) -> Collection[dict[str, Any]]:
        return json.loads(self._states[0])["brokers"].values() if self._states else ()

    def _why_away(self) -> KafkaError | None:
        """Return the error that has kept the connection from opening, None if there is none."""
        named = [each for each in self._problems if each.code() != KafkaError._ALL_BROKERS_DOWN]
        if named:
            said = dict.fromkeys(each.str().partition(" (after ")[0] for each in named)
            return KafkaError(named[-1].code(), "; ".join(said))
        if self._problems:
            return KafkaError(KafkaError._TRANSPORT, "the connection was closed before an answer")
        return None


atexit.register(_Admin.await_all)


def _log_next_attempt(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.warning("%s Retrying in %.1f s.", error, state.next_action.sleep if state.next_action else 0)

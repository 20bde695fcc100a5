"""The heartbeat topic in Kafka as Python sees it: making and checking it, sending records and ticks to it.

`kafka` is everywhere the keyword arguments of kafka-python's clients, `bootstrap_servers` among them.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Self

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
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
from namesrv_stream.records import DEFAULT_TOPIC, MAX_RECORD_BYTES, encode_record, record_key
from namesrv_stream.rules.requests import BrokerRequest, Request, Scan
from namesrv_stream.rules.rows import LogPosition

log = logging.getLogger(__name__)

KafkaOptions = Mapping[str, Any]

TOPIC_CONFIG = {
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(MAX_RECORD_BYTES),
    "cleanup.policy": "delete",
    # The one codec that kafka-python and every consumer have without a further library: 9 ms for 10,000 topics.
    "compression.type": "gzip",
}
"""What the topic is made with; retention and replication are the Kafka cluster's own defaults."""

SHORTEST_RETENTION_MS = 24 * 3_600_000
COMMAND_PARTITION = 0
_CONNECT_LIMIT_MS = 5_000
_LINGER_MS = 5


def wait_for_kafka(kafka: KafkaOptions, limit_s: float = math.inf, given_up: threading.Event | None = None) -> None:
    """Returns once Kafka answers. Tries with growing pauses and says so in the log, naming the address.

    Raises KafkaUnreachableError after `limit_s` or when `given_up` is set, KafkaRefusedError at once.
    """
    given_up = given_up or threading.Event()
    attempts = Retrying(
        retry=retry_if_exception_type(KafkaUnreachableError),
        wait=wait_exponential(multiplier=0.5, max=30),
        stop=stop_after_delay(limit_s) | stop_when_event_set(given_up),
        sleep=sleep_using_event(given_up),
        before_sleep=_say_next_attempt,
        reraise=True,
    )
    attempts(_ping, kafka)


def ensure_topic(
    kafka: KafkaOptions, topic: str = DEFAULT_TOPIC, config: Mapping[str, str] = TOPIC_CONFIG
) -> list[str]:
    """Makes the topic with one partition where it is missing, and says what is wrong with it as it is.

    Each warning names a setting and what it costs; a topic that is as it should be gives none.
    """
    with _admin(kafka) as admin:
        if _partition_count(admin, topic) == 0:
            _make_topic(admin, topic, config)
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        entries = admin.describe_configs([resource], config_filter="all")["topic"][topic]
        values = {name: str(entry["value"]) for name, entry in entries.items()}
        return topic_warnings(topic, _partition_count(admin, topic), values)


def topic_warnings(topic: str, partition_count: int, config: Mapping[str, str]) -> list[str]:
    """What the settings of a heartbeat topic cost; `config` holds Kafka's topic settings by name."""
    retention_ms = int(config["retention.ms"])
    message_limit = int(config["max.message.bytes"])
    found = {
        "message.timestamp.type is CreateTime: a backlog looks like silence, and one producer whose clock is ahead "
        "ends the leases of all others; set it to LogAppendTime": config["message.timestamp.type"] != "LogAppendTime",
        f"{partition_count} partitions: brokers have no total order between them, and records of a partition that "
        "lags behind are dropped; use one partition": partition_count > 1,
        f"max.message.bytes is {message_limit}: registrations of brokers with many topics are refused; "
        f"set it to {MAX_RECORD_BYTES}": message_limit < MAX_RECORD_BYTES,
        "cleanup.policy has compaction: older records of a broker vanish before the job has read them; "
        "set it to delete": "compact" in config["cleanup.policy"],
        f"retention.ms is {retention_ms}: a job that is away for longer loses what brokers said meanwhile; "
        f"set it to {SHORTEST_RETENTION_MS} or more": 0 <= retention_ms < SHORTEST_RETENTION_MS,
    }
    return [f"topic {topic}: {warning}" for warning, applies in found.items() if applies]


def end_offsets(kafka: KafkaOptions, topic: str = DEFAULT_TOPIC) -> dict[int, int]:
    """The offset of the next record, by partition; empty where there is no such topic."""
    return _offsets(kafka, topic, OffsetSpec.LATEST)


def beginning_offsets(kafka: KafkaOptions, topic: str = DEFAULT_TOPIC) -> dict[int, int]:
    """The offset of the oldest record that Kafka still has, by partition; empty where there is no such topic."""
    return _offsets(kafka, topic, OffsetSpec.EARLIEST)


class HeartbeatProducer:
    """Sends requests to the heartbeat topic: acknowledged by all replicas, once, each broker's in order.

    Thread-safe. A record that Kafka has not acknowledged after `delivery_timeout_ms` has failed; until then
    it is tried again, through an outage of Kafka too. A record that failed may be in the log all the same, when
    only the answer was lost. Raises KafkaUnreachableError when Kafka is not there, and KafkaRefusedError when
    the topic is not.
    """

    def __init__(self, kafka: KafkaOptions, topic: str = DEFAULT_TOPIC, *, delivery_timeout_ms: int = 120_000) -> None:
        self._topic = topic
        self._address = _address(kafka)
        with _named_errors(self._address):
            self._producer = KafkaProducer(**_producer_options(kafka, delivery_timeout_ms))
            self._check_topic()

    def send(self, request: Request, *, event_time_ms: int | None = None) -> Future[LogPosition]:
        """Hands the record to the sender; the future has its place in the log, or the NamesrvError that kept it out.

        A broker's records go to the partition of its address, commands to partition 0. Ticks: see `tick`.
        `event_time_ms` counts only for a topic with CreateTime.
        """
        partition = None if isinstance(request, BrokerRequest) else COMMAND_PARTITION
        return self._append(request, partition, event_time_ms)

    def tick(self, *, event_time_ms: int | None = None) -> list[Future[LogPosition]]:
        """Sends a SCAN to every partition, since each has an event time of its own."""
        partitions = sorted(self._producer.partitions_for(self._topic))
        return [self._append(Scan(), partition, event_time_ms) for partition in partitions]

    def flush(self, limit_s: float | None = None) -> None:
        """Returns once each record sent so far is in the log or has failed; KafkaUnreachableError after `limit_s`."""
        with _named_errors(self._address):
            self._producer.flush(limit_s)

    def close(self, limit_s: float = 10.0) -> None:
        """Sends what is waiting for as long as `limit_s`, then gives it up: its futures fail."""
        try:
            self._producer.close(timeout=limit_s)
        except KafkaError as error:
            log.warning("not all records reached Kafka at %s before it was closed: %s", self._address, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_topic(self) -> None:
        """Also fetches what `send` would wait for."""
        try:
            self._producer.partitions_for(self._topic)
        except KafkaTimeoutError as error:
            self._producer.close(timeout=0)
            raise KafkaRefusedError(self._address, f"there is no topic {self._topic}") from error

    def _append(self, request: Request, partition: int | None, event_time_ms: int | None) -> Future[LogPosition]:
        future: Future[LogPosition] = Future()
        future.set_running_or_notify_cancel()  # on its way: nobody can take it back
        try:
            sent = self._producer.send(
                self._topic,
                encode_record(request),
                record_key(request),
                partition=partition,
                timestamp_ms=event_time_ms,
            )
        except KafkaError as error:
            future.set_exception(_named_error(error, self._address))
            return future
        sent.add_callback(lambda place: future.set_result(LogPosition(place.timestamp, place.partition, place.offset)))
        sent.add_errback(lambda error: future.set_exception(_named_error(error, self._address)))
        return future


class Ticker:
    """A thread that sends a tick each `tick_ms`, so that event time goes on while no broker speaks (E7).

    The next tick waits until Kafka has the one before: an outage leaves one tick in the producer, not a pile.
    `sent` and `held_back` count the ticks sent and those left out for that reason.
    """

    def __init__(self, producer: HeartbeatProducer, tick_ms: int = 1_000) -> None:
        self.sent = 0
        self.held_back = 0
        self._producer = producer
        self._tick_s = tick_ms / 1_000
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    def start(self) -> None:
        """Starts the thread. A ticker runs once."""
        self._thread.start()

    def stop(self) -> None:
        """Sends no further tick; returns when the thread has ended."""
        self._stopped.set()
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        on_their_way: list[Future[LogPosition]] = []
        while not self._stopped.wait(self._tick_s):
            if all(tick.done() for tick in on_their_way):
                on_their_way = self._tick()
                self.sent += 1
            else:
                self.held_back += 1

    def _tick(self) -> list[Future[LogPosition]]:
        try:
            return self._producer.tick()
        except KafkaError as error:
            log.warning("no tick: %s", error)
            return []


def _producer_options(kafka: KafkaOptions, delivery_timeout_ms: int) -> dict[str, Any]:
    return {
        "compression_type": "gzip",
        "linger_ms": _LINGER_MS,
        "batch_size": 256 * 1024,  # several registrations to a batch: twice the records a second of 16 KiB
        "bootstrap_timeout_ms": _CONNECT_LIMIT_MS,
        "max_block_ms": _CONNECT_LIMIT_MS,
        "reconnect_backoff_max_ms": 1_000,
        "request_timeout_ms": min(30_000, delivery_timeout_ms - _LINGER_MS),
        **kafka,
        "acks": "all",
        "enable_idempotence": True,
        "allow_auto_create_topics": False,  # Kafka would make it with the cluster's defaults, CreateTime among them
        "max_request_size": MAX_RECORD_BYTES,
        "delivery_timeout_ms": delivery_timeout_ms,
    }


class AdminClient(KafkaAdminClient):  # type: ignore[misc]  # kafka-python ships no types
    """Ends its thread also where nobody answers: kafka-python 3.0 leaves one behind for each attempt."""

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except BaseException:
            self._net.stop()
            raise


@contextmanager
def _admin(kafka: KafkaOptions) -> Iterator[KafkaAdminClient]:
    with _named_errors(_address(kafka)):
        known = {name: value for name, value in kafka.items() if name in KafkaAdminClient.DEFAULT_CONFIG}
        admin = AdminClient(**{"bootstrap_timeout_ms": _CONNECT_LIMIT_MS, **known})
        try:
            yield admin
        finally:
            admin.close()


def _make_topic(admin: KafkaAdminClient, topic: str, config: Mapping[str, str]) -> None:
    try:
        admin.create_topics({topic: {"num_partitions": 1, "configs": dict(config)}}, wait_for_metadata=True)
    except TopicAlreadyExistsError:  # another process was faster
        admin.wait_for_topics([topic])


def _partition_count(admin: KafkaAdminClient, topic: str) -> int:
    """0 where there is no such topic."""
    [found] = admin.describe_topics([topic])
    return 0 if found["error_code"] == UnknownTopicOrPartitionError.errno else len(found["partitions"])


def _offsets(kafka: KafkaOptions, topic: str, at: OffsetSpec) -> dict[int, int]:
    with _admin(kafka) as admin:
        partitions = [TopicPartition(topic, number) for number in range(_partition_count(admin, topic))]
        found = admin.list_partition_offsets(dict.fromkeys(partitions, at)) if partitions else {}
        return {partition.partition: info.offset for partition, info in found.items()}


def _ping(kafka: KafkaOptions) -> None:
    with _admin(kafka) as admin:
        admin.describe_cluster()


def _say_next_attempt(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.warning("%s Next attempt in %.1f s.", error, state.next_action.sleep if state.next_action else 0)


def _address(kafka: KafkaOptions) -> str:
    servers = kafka["bootstrap_servers"]
    return servers if isinstance(servers, str) else ",".join(servers)


@contextmanager
def _named_errors(address: str) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise _named_error(error, address) from error


def _named_error(error: BaseException, address: str) -> NamesrvError:
    kind = KafkaUnreachableError if isinstance(error, RetriableError) else KafkaRefusedError
    return kind(address, str(error) or type(error).__name__)

"""Producer of the heartbeat topic's records, on kafka-python."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import Any, Self

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from namesrv_stream.errors import KafkaRefusedError
from namesrv_stream.kafka.reader import LOG_PARTITION
from namesrv_stream.kafka.topic import CONNECT_LIMIT_MS, KafkaOptions, address_of, named_error, named_errors
from namesrv_stream.records import DEFAULT_TOPIC, MAX_RECORD_BYTES, encode_record, record_key
from namesrv_stream.rules.requests import Request, Scan
from namesrv_stream.rules.rows import LogPosition

log = logging.getLogger(__name__)

_LINGER_MS = 5


class HeartbeatProducer:
    """Producer that sends requests to the heartbeat topic: acknowledged by all replicas, once, each broker's in order.

    Thread-safe. A record is tried again, also through an outage of Kafka, until Kafka acknowledges it; after
    `delivery_timeout_ms` without that it has failed. A failed record may be in the log all the same, if only the
    answer was lost. Construction raises KafkaUnreachableError if Kafka does not answer, KafkaRefusedError if there is
    no such topic.
    """

    def __init__(self, kafka: KafkaOptions, topic: str = DEFAULT_TOPIC, *, delivery_timeout_ms: int = 120_000) -> None:
        self._topic = topic
        self._address = address_of(kafka)
        with named_errors(self._address):
            self._producer = KafkaProducer(**_producer_options(kafka, delivery_timeout_ms))
            self._check_topic()

    def send(self, request: Request, *, event_time_ms: int | None = None) -> Future[LogPosition]:
        """Send the record; the future returns its place in the log, or raises the NamesrvError that kept it out.

        `event_time_ms` has an effect only on a topic with CreateTime.
        """
        future: Future[LogPosition] = Future()
        future.set_running_or_notify_cancel()  # a record that is sent cannot be cancelled
        try:
            sent = self._producer.send(
                self._topic,
                encode_record(request),
                record_key(request),
                partition=LOG_PARTITION,
                timestamp_ms=event_time_ms,
            )
        except KafkaError as error:
            future.set_exception(named_error(error, self._address))
            return future
        sent.add_callback(lambda place: future.set_result(LogPosition(place.timestamp, place.partition, place.offset)))
        sent.add_errback(lambda error: future.set_exception(named_error(error, self._address)))
        return future

    def tick(self, *, event_time_ms: int | None = None) -> Future[LogPosition]:
        """Send a SCAN, by which event time moves on (E7)."""
        return self.send(Scan(), event_time_ms=event_time_ms)

    def flush(self, limit_s: float | None = None) -> None:
        """Wait until each record sent so far is in the log or has failed.

        Raises KafkaUnreachableError after `limit_s` seconds.
        """
        with named_errors(self._address):
            self._producer.flush(limit_s)

    def close(self, limit_s: float = 10.0) -> None:
        """Send the waiting records for at most `limit_s` seconds; then the futures of the others fail."""
        try:
            self._producer.close(timeout=limit_s)
        except KafkaError as error:
            log.warning("not all records reached Kafka at %s before it was closed: %s", self._address, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_topic(self) -> None:
        """Raise KafkaRefusedError if there is no topic. Fetches the metadata for which the first `send` would wait."""
        try:
            self._producer.partitions_for(self._topic)
        except KafkaTimeoutError as error:
            self._producer.close(timeout=0)
            raise KafkaRefusedError(self._address, f"there is no topic {self._topic}") from error


def _producer_options(kafka: KafkaOptions, delivery_timeout_ms: int) -> dict[str, Any]:
    return {
        "compression_type": "gzip",
        "linger_ms": _LINGER_MS,
        "batch_size": 256 * 1024,  # several registrations to a batch: twice the records a second of 16 KiB
        "bootstrap_timeout_ms": CONNECT_LIMIT_MS,
        "max_block_ms": CONNECT_LIMIT_MS,
        "reconnect_backoff_max_ms": 1_000,
        "request_timeout_ms": min(30_000, delivery_timeout_ms - _LINGER_MS),
        **kafka,
        "acks": "all",
        "enable_idempotence": True,
        "allow_auto_create_topics": False,  # Kafka would make the topic with its defaults, CreateTime among them
        "max_request_size": MAX_RECORD_BYTES,
        "delivery_timeout_ms": delivery_timeout_ms,
    }

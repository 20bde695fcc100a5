"""Sends records to Kafka by librdkafka: no call here waits, and no Python thread is needed.

kafka-python takes 50 µs of Python for each record and a thread; this takes 5 µs. Besides, kafka-python 3.0 sends
nothing more after an outage in which an idempotent record has expired.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError
from namesrv_stream.kafka.librdkafka import librdkafka_options, named_kafka_error
from namesrv_stream.kafka.record_reader import LOG_PARTITION
from namesrv_stream.kafka.topic import COMPRESSION, address_of
from namesrv_stream.records import MAX_RECORD_BYTES
from namesrv_stream.rules.rows import LogPosition

log = logging.getLogger(__name__)
librdkafka_log = logging.getLogger("librdkafka")

OnEnd = Callable[[LogPosition | None, NamesrvError | None], None]

_LINGER_MS = 1
_RECONNECT_WITHIN_MS = 1_000


class RecordProducer:
    """Sends each record once, acknowledged by all replicas, those of one key in order. For one thread at a time.

    `kafka`: keyword arguments of kafka-python. A record that Kafka has not acknowledged after `delivery_timeout_ms` has
    failed, but may be in the log all the same.
    """

    def __init__(self, kafka: Mapping[str, Any], topic: str, delivery_timeout_ms: int) -> None:
        self._topic = topic
        self._address = address_of(kafka)
        self._options: dict[str, Any] = {
            "compression.type": COMPRESSION,
            "linger.ms": _LINGER_MS,
            "reconnect.backoff.max.ms": max(_RECONNECT_WITHIN_MS, int(kafka.get("reconnect_backoff_ms", 0))),
            **librdkafka_options(kafka),
            "acks": "all",
            "enable.idempotence": True,
            "allow.auto.create.topics": False,
            "message.max.bytes": MAX_RECORD_BYTES,
            "message.timeout.ms": delivery_timeout_ms,
        }
        self._producer = self._opened()
        self._retired: Producer | None = None
        self._has_broken = False
        self._outcomes: deque[Callable[[], None]] = deque()

    def send(self, key: bytes, value: bytes, on_end: OnEnd, timestamp_ms: int | None = None) -> None:
        """Hand a record over. `on_end` is called with its place or with the error, by a later `poll` or at once.

        `timestamp_ms` has an effect only on a topic with CreateTime.
        """

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._outcomes.append(partial(on_end, None, self._named(error)))
                return
            place = LogPosition(message.timestamp()[1], message.partition() or 0, message.offset() or 0)
            self._outcomes.append(partial(on_end, place, None))  # without the message, which has the record's value

        try:
            self._producer.produce(
                self._topic, value, key, LOG_PARTITION, on_delivery=delivered, timestamp=timestamp_ms or 0
            )
        except BufferError as error:
            on_end(None, KafkaUnreachableError(self._address, str(error)))
        except KafkaException as error:
            is_too_large = error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
            problem = f"a record of {len(value)} bytes, over the limit of {MAX_RECORD_BYTES}"
            on_end(None, KafkaRefusedError(self._address, problem) if is_too_large else self._named(error.args[0]))

    def poll(self, limit_s: float = math.inf) -> bool:
        """Call `on_end` for each record whose outcome is known by now, for `limit_s` or little longer.

        Return whether there are more. Raises KafkaRefusedError if librdkafka has failed for good and no new producer
        can be opened yet; a later call tries again.
        """
        if self._retired is not None:
            self._take_outcomes(self._retired)
        self._take_outcomes(self._producer)
        until_s = time.monotonic() + limit_s
        while self._outcomes and time.monotonic() < until_s:
            self._outcomes.popleft()()
        if self._has_broken:
            self.renew()
            log.error("librdkafka has given its way to Kafka at %s up and has a new one", self._address)
        return bool(self._outcomes)

    def renew(self) -> None:
        """Open a new producer. Records on their way through the former one have failed."""
        self.give_up()
        self._retired, self._producer = self._producer, self._opened()
        self._has_broken = False

    def give_up(self) -> None:
        """Send nothing more. Records on their way have failed."""
        self._producer.purge()
        self._take_outcomes(self._producer)
        while self._outcomes:
            self._outcomes.popleft()()

    def _take_outcomes(self, producer: Producer) -> None:
        try:
            producer.poll(0)
        except KafkaException:  # raised once, when librdkafka has failed for good
            self._has_broken = self._has_broken or producer is self._producer

    def _opened(self) -> Producer:
        try:
            return Producer(self._options, logger=librdkafka_log)
        except KafkaException as error:
            raise KafkaRefusedError(self._address, error.args[0].str()) from error

    def _named(self, error: KafkaError) -> NamesrvError:
        self._has_broken = self._has_broken or error.fatal() or error.code() == KafkaError._FATAL
        return named_kafka_error(error, self._address)

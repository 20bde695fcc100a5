"""Records to Kafka by librdkafka, for the event loop: no call here waits, and no thread of Python takes turns with it.

kafka-python, which everything else here uses, takes 50 µs of Python a record and a thread; this takes 5.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError
from namesrv_stream.kafka.librdkafka import librdkafka_options, named_kafka_error
from namesrv_stream.kafka.reader import LOG_PARTITION
from namesrv_stream.records import MAX_RECORD_BYTES
from namesrv_stream.rules.rows import LogPosition

log = logging.getLogger(__name__)
librdkafka_log = logging.getLogger("librdkafka")

OnEnd = Callable[[LogPosition | None, NamesrvError | None], None]

_LINGER_MS = 1


class RecordProducer:
    """Each record acknowledged by all replicas, once, those of a key in their order. Not for several threads at a time.

    `kafka` are kafka-python's keyword arguments. A record that Kafka has not acknowledged after `delivery_timeout_ms`
    has failed, but may be in the log all the same.
    """

    def __init__(self, kafka: Mapping[str, Any], topic: str, delivery_timeout_ms: int) -> None:
        self._topic = topic
        self._address = ",".join(kafka["bootstrap_servers"])
        self._options: dict[str, Any] = {
            "compression.type": "gzip",
            "linger.ms": _LINGER_MS,
            "reconnect.backoff.max.ms": 1_000,
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

    def send(self, key: bytes, value: bytes, on_end: OnEnd) -> None:
        """Hands a record over; `on_end` is told its place or why it has none, by a later `poll` or at once."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                on_end(LogPosition(message.timestamp()[1], message.partition() or 0, message.offset() or 0), None)
            else:
                on_end(None, self._named(error))

        try:
            self._producer.produce(self._topic, value, key, LOG_PARTITION, on_delivery=delivered)
        except BufferError as error:
            on_end(None, KafkaUnreachableError(self._address, str(error)))
        except KafkaException as error:
            on_end(None, self._named(error.args[0]))

    def poll(self) -> None:
        """Tells the end of each record that has ended by now.

        Raises KafkaRefusedError where librdkafka has broken for good and no new one can be opened yet; a later call
        tries again.
        """
        if self._retired is not None:
            self._tell_ends(self._retired)
        self._tell_ends(self._producer)
        if self._has_broken:
            log.error("librdkafka gives its way to Kafka at %s up and gets a new one", self._address)
            self.renew()

    def renew(self) -> None:
        """Goes on with a new connection; what was on its way over the one before has failed."""
        self.give_up()
        self._retired, self._producer = self._producer, self._opened()
        self._has_broken = False

    def give_up(self) -> None:
        """Sends nothing more: what is on its way has failed."""
        self._producer.purge()
        self._tell_ends(self._producer)

    def _tell_ends(self, producer: Producer) -> None:
        try:
            producer.poll(0)
        except KafkaException:  # in this way, once, it says that it has broken for good
            self._has_broken = self._has_broken or producer is self._producer

    def _opened(self) -> Producer:
        try:
            return Producer(self._options, logger=librdkafka_log)
        except KafkaException as error:
            raise KafkaRefusedError(self._address, error.args[0].str()) from error

    def _named(self, error: KafkaError) -> NamesrvError:
        self._has_broken = self._has_broken or error.fatal() or error.code() == KafkaError._FATAL
        return named_kafka_error(error, self._address)

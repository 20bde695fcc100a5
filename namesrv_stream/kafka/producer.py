"""Send records and ticks to the heartbeat topic by librdkafka.

`RecordProducer` is for the gateway's event loop: no call waits, and no Python thread is needed. `HeartbeatProducer` is
for all others: fleet, job, commands, replay. `Ticker` sends ticks by a `HeartbeatProducer`.

librdkafka takes 5 µs of Python for each record; kafka-python takes 50 µs and a thread. Besides, kafka-python 3.0 sends
nothing more after an outage in which an idempotent record has expired.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError
from namesrv_stream.kafka.librdkafka import COMPRESSION, KafkaOptions, named_kafka_error, opened
from namesrv_stream.kafka.record_reader import LOG_PARTITION
from namesrv_stream.kafka.topic import end_offsets
from namesrv_stream.records import DEFAULT_TOPIC, MAX_RECORD_BYTES, encode_record, record_key
from namesrv_stream.rules.record_types import Request, Scan
from namesrv_stream.rules.rows import LogPosition

log = logging.getLogger(__name__)

OnEnd = Callable[[LogPosition | None, NamesrvError | None], None]

_LINGER_MS = 1
_RECONNECT_WITHIN_MS = 1_000
_POLL_S = 0.005
_OPEN_AGAIN_S = 1.0
_MAX_WAITING_BYTES = 32 * 1024 * 1024
_ROOM_LIMIT_S = 5.0
"""Longest wait of a caller while _MAX_WAITING_BYTES of records wait for Kafka. After it the record is refused."""


class RecordProducer:
    """Sends each record once, acknowledged by all replicas, those of one key in order.

    Use it from one thread at a time. A record that Kafka has not acknowledged after `delivery_timeout_ms` has failed,
    but may still be in the log.
    """

    def __init__(self, kafka: KafkaOptions, topic: str, delivery_timeout_ms: int) -> None:
        self._topic = topic
        self._address = kafka["bootstrap.servers"]
        self._options: dict[str, Any] = {
            "compression.type": COMPRESSION,
            "linger.ms": _LINGER_MS,
            "reconnect.backoff.max.ms": max(_RECONNECT_WITHIN_MS, int(kafka.get("reconnect.backoff.ms", 0))),
            **kafka,
            "acks": "all",
            "enable.idempotence": True,
            "allow.auto.create.topics": False,
            "message.max.bytes": MAX_RECORD_BYTES,
            "message.timeout.ms": delivery_timeout_ms,
        }
        self._producer = opened(Producer, self._options, self._address)
        self._retired: Producer | None = None
        self._has_broken = False
        self._outcomes: deque[Callable[[], None]] = deque()

    def send(self, key: bytes, value: bytes, on_end: OnEnd, timestamp_ms: int | None = None) -> None:
        """Hand a record over. `on_end` is called with its place in the log or the error, by a later `poll` or at once.

        `timestamp_ms` has an effect only on a topic with CreateTime.
        """

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._outcomes.append(partial(on_end, None, self._named(error)))
                return
            place = LogPosition(message.timestamp()[1], message.partition() or 0, message.offset() or 0)
            self._outcomes.append(partial(on_end, place, None))  # the message itself would hold the record's value

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
        """Call `on_end` for each record whose outcome is known, for `limit_s` or little longer.

        Return whether more wait. Raises KafkaRefusedError if librdkafka has failed for good and no new producer can be
        opened yet; a later call tries again.
        """
        if self._retired is not None:
            self._take_outcomes(self._retired)
        self._take_outcomes(self._producer)
        until_s = time.monotonic() + limit_s
        while self._outcomes and time.monotonic() < until_s:
            self._outcomes.popleft()()
        if self._has_broken:
            self.renew()
            log.error("the Kafka client librdkafka has failed; a new client now sends to Kafka at %s", self._address)
        return bool(self._outcomes)

    def renew(self) -> None:
        """Open a new producer. The former one's records without an outcome have failed."""
        self.give_up()
        self._retired, self._producer = self._producer, opened(Producer, self._options, self._address)
        self._has_broken = False

    def give_up(self) -> None:
        """Send nothing more. Records without an outcome have failed."""
        self._producer.purge()
        self._take_outcomes(self._producer)
        while self._outcomes:
            self._outcomes.popleft()()

    def _take_outcomes(self, producer: Producer) -> None:
        try:
            producer.poll(0)
        except KafkaException:  # raised once, when librdkafka has failed for good
            self._has_broken = self._has_broken or producer is self._producer

    def _named(self, error: KafkaError) -> NamesrvError:
        self._has_broken = self._has_broken or error.fatal() or error.code() == KafkaError._FATAL
        return named_kafka_error(error, self._address)


class HeartbeatProducer:
    """Producer that sends requests to the heartbeat topic: acknowledged by all replicas, once, each broker's in order.

    Thread-safe. A record is tried again, also through an outage of Kafka, until Kafka acknowledges it. After
    `delivery_timeout_ms` it has failed, but may still be in the log if only the answer was lost. While 32 MiB of
    records wait for Kafka, `send` waits for at most 5 s; then the record has failed. Construction raises
    KafkaUnreachableError if Kafka does not answer, KafkaRefusedError if there is no such topic.
    """

    def __init__(self, kafka: KafkaOptions, topic: str = DEFAULT_TOPIC, *, delivery_timeout_ms: int = 120_000) -> None:
        self._address = kafka["bootstrap.servers"]
        if not end_offsets(kafka, topic):
            raise KafkaRefusedError(self._address, f"no topic {topic}")
        self._records = RecordProducer(kafka, topic, delivery_timeout_ms)
        self._changed = threading.Condition()  # its lock also guards the producer
        self._waiting_bytes = 0
        self._first_error: NamesrvError | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._poll_until_closed, name="heartbeat-producer", daemon=True)
        self._thread.start()

    def send(self, request: Request, *, event_time_ms: int | None = None) -> Future[LogPosition]:
        """Send the record. The future returns its place in the log, or raises a NamesrvError if it has failed.

        `event_time_ms` has an effect only on a topic with CreateTime.
        """
        future: Future[LogPosition] = Future()
        future.set_running_or_notify_cancel()  # a record that is sent cannot be cancelled
        key, value = record_key(request), encode_record(request)

        def on_end(place: LogPosition | None, error: NamesrvError | None) -> None:
            self._waiting_bytes -= len(value)
            self._changed.notify_all()
            if place is not None:
                future.set_result(place)
            else:
                self._first_error = self._first_error or error
                future.set_exception(error)

        with self._changed:
            has_room = self._changed.wait_for(lambda: self._waiting_bytes < _MAX_WAITING_BYTES, _ROOM_LIMIT_S)
            self._waiting_bytes += len(value)
            if self._closed.is_set() or not has_room:
                problem = "this producer is closed" if self._closed.is_set() else "32 MiB of records wait to be sent"
                on_end(None, KafkaUnreachableError(self._address, problem))
                return future
            try:
                self._records.send(key, value, on_end, event_time_ms)
            except BaseException:  # Ctrl-C too: a record that was not handed over has no outcome to wait for
                self._waiting_bytes -= len(value)
                raise
        return future

    def tick(self, *, event_time_ms: int | None = None) -> Future[LogPosition]:
        """Send a SCAN, by which event time moves on (E7)."""
        return self.send(Scan(), event_time_ms=event_time_ms)

    def flush(self, limit_s: float | None = None) -> None:
        """Wait until each record sent so far is in the log or has failed.

        Raises KafkaUnreachableError after `limit_s` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting_bytes == 0, limit_s):
                raise KafkaUnreachableError(self._address, f"no acknowledgement for {limit_s:g} s")

    def require_all(self) -> None:
        """Wait until each record sent so far is in the log. Raises the error of the first record that failed.

        Later calls do not raise that error again.
        """
        self.flush()
        error, self._first_error = self._first_error, None
        if error is not None:
            raise error

    def close(self, limit_s: float = 10.0) -> None:
        """Send the waiting records for at most `limit_s` seconds. After that the futures of the remaining ones fail."""
        try:
            self.flush(limit_s)
        except KafkaUnreachableError as error:
            log.warning("cannot send all waiting records before the end; the rest is dropped: %s", error)
            with self._changed:
                self._records.give_up()
                self._changed.wait_for(lambda: self._waiting_bytes == 0, _ROOM_LIMIT_S)
        self._closed.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _poll_until_closed(self) -> None:
        pause_s = _POLL_S
        while not self._closed.wait(pause_s):
            try:
                with self._changed:
                    self._records.poll()
                pause_s = _POLL_S
            except NamesrvError as error:  # no new producer can be opened yet
                if pause_s == _POLL_S:
                    log.warning("cannot open a new client of Kafka; records wait until it succeeds: %s", error)
                pause_s = _OPEN_AGAIN_S


class Ticker:
    """Thread that sends a tick every `tick_ms`, so that event time advances while no broker sends a record (E7).

    It runs within a `with`. A tick is left out while Kafka has not acknowledged the one before, so an outage leaves
    only one tick in the producer. `sent` counts the ticks sent, `held_back` those left out.
    """

    def __init__(self, producer: HeartbeatProducer, tick_ms: int = 1_000) -> None:
        self.sent = 0
        self.held_back = 0
        self._producer = producer
        self._tick_s = tick_ms / 1_000
        self._has_failed = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        on_its_way: Future[LogPosition] | None = None
        while not self._stopped.wait(self._tick_s):
            if on_its_way is not None and not on_its_way.done():
                self.held_back += 1
                continue
            self._note(on_its_way)
            on_its_way = self._producer.tick()
            self.sent += 1

    def _note(self, ended: Future[LogPosition] | None) -> None:
        """Log once that Kafka does not acknowledge ticks, until it acknowledges one."""
        error = ended.exception() if ended is not None else None
        if error is not None and not self._has_failed:
            log.warning("cannot send clock ticks to Kafka, so no silent lease ends meanwhile: %s", error)
        self._has_failed = error is not None

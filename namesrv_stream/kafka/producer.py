"""Sends requests to the heartbeat topic, for all who are no gateway: fleet, ticks, commands, replay."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from typing import Self

from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError
from namesrv_stream.kafka.record_producer import RecordProducer
from namesrv_stream.kafka.topic import KafkaOptions, address_of, end_offsets
from namesrv_stream.records import DEFAULT_TOPIC, encode_record, record_key
from namesrv_stream.rules.record_types import Request, Scan
from namesrv_stream.rules.rows import LogPosition

log = logging.getLogger(__name__)

_POLL_S = 0.005
_OPEN_AGAIN_S = 1.0
_MOST_WAITING_BYTES = 32 * 1024 * 1024
_ROOM_LIMIT_S = 5.0
"""A caller waits so long while _MOST_WAITING_BYTES of records have not got to Kafka; then the record is refused."""


class HeartbeatProducer:
    """Producer that sends requests to the heartbeat topic: acknowledged by all replicas, once, each broker's in order.

    Thread-safe. A record is tried again, also through an outage of Kafka, until Kafka acknowledges it; after
    `delivery_timeout_ms` without that it has failed. A failed record may be in the log all the same, if only the
    answer was lost. While 32 MiB of records wait for Kafka `send` waits too, for at most 5 s; then the record has
    failed. Construction raises KafkaUnreachableError if Kafka does not answer, KafkaRefusedError if there is
    no such topic.
    """

    def __init__(self, kafka: KafkaOptions, topic: str = DEFAULT_TOPIC, *, delivery_timeout_ms: int = 120_000) -> None:
        self._address = address_of(kafka)
        if not end_offsets(kafka, topic):
            raise KafkaRefusedError(self._address, f"there is no topic {topic}")
        self._records = RecordProducer(kafka, topic, delivery_timeout_ms)
        self._changed = threading.Condition()  # its lock is also the one with which the producer is used
        self._waiting_bytes = 0
        self._first_error: NamesrvError | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._poll_until_closed, name="heartbeat-producer", daemon=True)
        self._thread.start()

    def send(self, request: Request, *, event_time_ms: int | None = None) -> Future[LogPosition]:
        """Send the record; the future returns its place in the log, or raises the NamesrvError that kept it out.

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
            has_room = self._changed.wait_for(lambda: self._waiting_bytes < _MOST_WAITING_BYTES, _ROOM_LIMIT_S)
            self._waiting_bytes += len(value)
            if self._closed.is_set() or not has_room:
                problem = "this producer is closed" if self._closed.is_set() else "32 MiB of records wait"
                on_end(None, KafkaUnreachableError(self._address, problem))
                return future
            try:
                self._records.send(key, value, on_end, event_time_ms)
            except BaseException:  # Ctrl-C too: nobody waits for a record that was not handed over
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
                raise KafkaUnreachableError(self._address, f"records wait for {limit_s:g} s")

    def require_all(self) -> None:
        """Wait until each record sent so far is in the log. Raises the error of the first one that is not.

        Later calls do not raise it again.
        """
        self.flush()
        error, self._first_error = self._first_error, None
        if error is not None:
            raise error

    def close(self, limit_s: float = 10.0) -> None:
        """Send the waiting records for at most `limit_s` seconds; then the futures of the others fail."""
        try:
            self.flush(limit_s)
        except KafkaUnreachableError as error:
            log.warning("not all records reached Kafka at %s before it was closed: %s", self._address, error)
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
                    log.warning("records wait until a new way to Kafka can be opened: %s", error)
                pause_s = _OPEN_AGAIN_S

"""Send the brokers' records to Kafka, count them, and report failed sends to the model."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.rules.record_types import BrokerRequest
from namesrv_stream.rules.rows import LogPosition

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Counts:
    """Numbers of records so far.

    `held_back` counts those that were not sent because the broker's last record was neither acknowledged nor failed.
    """

    sent: int
    acknowledged: int
    failed: int
    held_back: int

    @property
    def on_their_way(self) -> int:
        """The number of records that are neither acknowledged nor failed."""
        return self.sent - self.acknowledged - self.failed


class Outbox:
    """The link between the one thread that plays a model and a producer.

    `on_failure` is called with the broker address of each failed record, on another thread.
    """

    def __init__(self, producer: HeartbeatProducer, on_failure: Callable[[str], None]) -> None:
        self._producer = producer
        self._on_failure = on_failure
        self._latest: dict[str, Future[LogPosition]] = {}
        self._lock = threading.Lock()
        self._is_failing = False
        self._sent = self._acknowledged = self._failed = self._held_back = 0

    def send(self, request: BrokerRequest) -> Future[LogPosition]:
        """Send the record."""
        self._sent += 1
        future = self._latest[request.broker_addr] = self._producer.send(request)
        future.add_done_callback(partial(self._done, request.broker_addr))
        return future

    def send_if_idle(self, request: BrokerRequest) -> None:
        """Send the record, or drop it while this broker's last one is neither acknowledged nor failed.

        So heartbeats, which are all alike, do not pile up while Kafka is unreachable.
        """
        latest = self._latest.get(request.broker_addr)
        if latest is None or latest.done():
            self.send(request)
        else:
            self._held_back += 1

    def counts(self) -> Counts:
        """Return the numbers of records so far."""
        with self._lock:
            return Counts(self._sent, self._acknowledged, self._failed, self._held_back)

    def _done(self, broker_addr: str, future: Future[LogPosition]) -> None:
        error = future.exception()
        with self._lock:
            self._acknowledged += error is None
            self._failed += error is not None
            is_first = bool(error) and not self._is_failing
            self._is_failing = bool(error)
        if is_first:
            log.warning("records are not accepted, the first of %s: %s", broker_addr, error)
        if error:
            self._on_failure(broker_addr)

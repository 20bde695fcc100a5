"""Play a fleet into Kafka: in real time, with control of single brokers, or faster."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Self

from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.rules.record_types import BrokerRequest
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tools.fleet.broker import ChurnKind, FleetPlan, SimulatedBroker
from namesrv_stream.tools.fleet.model import FleetModel

log = logging.getLogger(__name__)

_LONGEST_SLEEP_S = 1.0


@dataclass(slots=True)
class FleetCounts:
    """Numbers of records so far."""

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0

    @property
    def on_their_way(self) -> int:
        """The number of records that are neither acknowledged nor failed."""
        return self.sent - self.acknowledged - self.failed


class Fleet:
    """A fleet on a thread of its own, in real time. Its methods may be called from any thread.

    A broker is named by broker name and id; an unknown one raises NamesrvError. Each call is carried out at once, on
    the fleet's thread. As a context manager it unregisters all brokers at the end.
    """

    def __init__(self, plan: FleetPlan, producer: HeartbeatProducer) -> None:
        self.counts = FleetCounts()
        self._started_at_ms = time.time_ns() // 1_000_000
        self._started_at_s = time.monotonic()
        self._model = FleetModel(plan, self._started_at_ms)
        self._changed = threading.Condition(threading.RLock())
        self._producer = producer
        self._is_failing = False
        self._stopped = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)

    def start(self) -> None:
        """Start the brokers. A fleet runs once."""
        self._thread.start()

    def stop(self, *, unregister: bool = True, limit_s: float | None = 10.0) -> None:
        """End the fleet in order (B5) or, without `unregister`, as a power cut does.

        Returns when each record is in the log or has failed. Raises KafkaUnreachableError after `limit_s`.
        """
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()
        if unregister:
            self._send(request for broker in self._model.brokers() for request in self._model.unregister(broker, 0))
        self._producer.flush(limit_s)

    def play_faster(self, duration_ms: float = math.inf, records_per_s: float | None = None) -> None:
        """Send the records of the fleet's first `duration_ms` in this thread, in place of `start`.

        They are sent as fast as Kafka takes them, or at most `records_per_s`.
        """
        started_s = time.monotonic()
        due = self._model.due(self._started_at_ms + duration_ms)
        for number, (_, request) in enumerate(due, start=1):
            self._send([request])
            if records_per_s:
                time.sleep(max(0.0, started_s + number / records_per_s - time.monotonic()))

    def wait(self, limit_s: float | None = None) -> None:
        """Wait until the limit has passed. Raises the error that ends the fleet's thread as soon as it ends."""
        self._thread.join(limit_s)
        self.check()

    def check(self) -> None:
        """Raise the error that ended the fleet's thread, if any."""
        if self._failure is not None:
            raise self._failure

    def crash(self, broker_name: str, broker_id: int = 0) -> None:
        """Crash the broker: it sends nothing more."""
        self._steer(broker_name, broker_id, self._model.crash)

    def unregister(self, broker_name: str, broker_id: int = 0) -> None:
        """Shut the broker down in order."""
        self._steer(broker_name, broker_id, self._model.unregister)

    def come_back(self, broker_name: str, broker_id: int = 0) -> None:
        """Start the broker again; a broker that is up is left alone."""
        self._steer(broker_name, broker_id, self._model.start)

    def brokers(self) -> list[SimulatedBroker]:
        """Return all brokers, down or up. Only the fleet's thread may change them."""
        with self._changed:
            return list(self._model.brokers())

    def happened(self) -> Counter[ChurnKind]:
        """Return how often each kind of churn has happened."""
        with self._changed:
            return self._model.happened.copy()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._play()
        except BaseException as error:  # `check` raises it in the caller's thread
            self._failure = error

    def _play(self) -> None:
        while not self._stopped:
            with self._changed:
                self._changed.wait_for(self._has_work, self._until_next_s())
                due = [request for _, request in self._model.due(self._now_ms())]
            self._send(due)  # without the lock, because the producer's thread may wait for it

    def _has_work(self) -> bool:
        return self._stopped or self._until_next_s() == 0

    def _until_next_s(self) -> float:
        next_at_ms = self._model.next_at_ms
        if next_at_ms is None:
            return _LONGEST_SLEEP_S
        return min(max(0.0, (next_at_ms - self._now_ms()) / 1_000), _LONGEST_SLEEP_S)

    def _send(self, requests: Iterable[BrokerRequest]) -> None:
        for request in requests:
            self.counts.sent += 1
            self._producer.send(request).add_done_callback(partial(self._note_end, request.broker_addr))

    def _note_end(self, broker_addr: str, record: Future[LogPosition]) -> None:
        error = record.exception()
        with self._changed:
            self.counts.acknowledged += error is None
            self.counts.failed += error is not None
            if error and not self._is_failing:
                log.warning(
                    "Kafka does not accept records of the fleet, the first of broker %s: %s", broker_addr, error
                )
            self._is_failing = bool(error)

    def _steer(
        self, broker_name: str, broker_id: int, what: Callable[[SimulatedBroker, int], list[BrokerRequest]]
    ) -> None:
        with self._changed:
            self._model.schedule(self._now_ms(), partial(what, self._model.broker(broker_name, broker_id)))
            self._changed.notify()

    def _now_ms(self) -> int:
        """Return the present time: the wall clock at the start plus the time since.

        Corrections of the clock do not count.
        """
        return self._started_at_ms + round((time.monotonic() - self._started_at_s) * 1_000)

"""Play a fleet into Kafka: in real time, where single brokers can be steered, or as fast as Kafka takes the records."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self

from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.rules.record_types import BrokerHeartbeat, BrokerRequest
from namesrv_stream.tools.fleet.broker import Broker
from namesrv_stream.tools.fleet.model import Action, FleetModel
from namesrv_stream.tools.fleet.outbox import Counts, Outbox
from namesrv_stream.tools.fleet.plan import Churn, FleetPlan

MOST_ON_THEIR_WAY = 20_000
"""Most unacknowledged records of a load."""
_LONGEST_SLEEP_S = 1.0


@dataclass(frozen=True)
class BrokerState:
    """The present state of one broker of a fleet."""

    cluster_name: str
    broker_name: str
    broker_id: int
    broker_addr: str
    up: bool


class Fleet:
    """A fleet on a thread of its own, in real time. Its methods may be called from any thread.

    A broker is named by broker name and id; an unknown one raises UnknownBrokerError. Each request is carried out at
    once, on the fleet's thread. As a context manager it unregisters all brokers at the end.
    """

    def __init__(self, plan: FleetPlan, producer: HeartbeatProducer) -> None:
        self._started_at_ms = time.time_ns() // 1_000_000
        self._started_at_s = time.monotonic()
        self._model = FleetModel(plan, self._started_at_ms)
        self._changed = threading.Condition(threading.RLock())
        self._outbox = Outbox(producer, self._send_failed)
        self._producer = producer
        self._stopped = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)

    def start(self) -> None:
        """Start the brokers. A fleet runs once."""
        self._thread.start()

    def stop(self, *, unregister: bool = True, limit_s: float = 10.0) -> None:
        """End the fleet, in order (B5) or, without `unregister`, as a power cut would.

        Returns when each record is in the log or has failed. Raises KafkaUnreachableError after `limit_s`.
        """
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()
        if unregister:
            self._send(_unregistrations(self._model, self._now_ms()))
        self._producer.flush(limit_s)

    def wait(self, limit_s: float | None = None) -> None:
        """Return when the limit has passed. Raises the error that ended the fleet's thread, as soon as it has ended."""
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

    def brokers(self) -> list[BrokerState]:
        """Return all brokers, down or up."""
        with self._changed:
            return [_state(broker) for broker in self._model.brokers()]

    def happened(self) -> Counter[Churn]:
        """Return how often each kind of churn has happened."""
        with self._changed:
            return self._model.happened.copy()

    def counts(self) -> Counts:
        """Return the numbers of records so far."""
        return self._outbox.counts()

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
            self._send(due)  # not under the lock, for which the producer's thread may be waiting

    def _has_work(self) -> bool:
        return self._stopped or self._until_next_s() == 0

    def _until_next_s(self) -> float:
        next_at_ms = self._model.next_at_ms
        if next_at_ms is None:
            return _LONGEST_SLEEP_S
        return min(max(0.0, (next_at_ms - self._now_ms()) / 1_000), _LONGEST_SLEEP_S)

    def _send(self, requests: list[BrokerRequest]) -> None:
        for request in requests:
            if isinstance(request, BrokerHeartbeat):
                self._outbox.send_if_idle(request)
            else:
                self._outbox.send(request)

    def _steer(self, broker_name: str, broker_id: int, what: Callable[[Broker, int], list[BrokerRequest]]) -> None:
        with self._changed:
            action: Action = partial(what, self._model.broker(broker_name, broker_id))
            self._model.schedule(self._now_ms(), action)
            self._changed.notify()

    def _send_failed(self, broker_addr: str) -> None:
        with self._changed:
            self._model.send_failed(broker_addr)

    def _now_ms(self) -> int:
        """Return the wall clock's time at the start plus the time since, without later corrections of the clock."""
        return self._started_at_ms + round((time.monotonic() - self._started_at_s) * 1_000)


class Load:
    """The records of a fleet by its own time, sent as fast as Kafka takes them or at most `records_per_s`."""

    def __init__(self, plan: FleetPlan, producer: HeartbeatProducer, *, records_per_s: float | None = None) -> None:
        self._records_per_s = records_per_s
        self._producer = producer
        self._now_ms = self._start_ms = time.time_ns() // 1_000_000
        self._model = FleetModel(plan, self._start_ms)
        self._outbox = Outbox(producer, self._model.send_failed)
        self._room = threading.BoundedSemaphore(MOST_ON_THEIR_WAY)

    def run(self, duration_ms: float = math.inf) -> None:
        """Send all records of the fleet's first `duration_ms`."""
        started_s = time.monotonic()
        due = self._model.due(self._start_ms + duration_ms)
        for number, (at_ms, request) in enumerate(due, start=1):
            self._now_ms = at_ms
            self._send(request)
            if self._records_per_s:
                time.sleep(max(0.0, started_s + number / self._records_per_s - time.monotonic()))

    def stop(self, *, unregister: bool = True, limit_s: float | None = None) -> None:
        """End the load, in order (B5) unless `unregister` is false, and flush the producer.

        Returns when each record is in the log or has failed. Raises KafkaUnreachableError after `limit_s`, if it is not
        None.
        """
        for request in _unregistrations(self._model, self._now_ms) if unregister else ():
            self._send(request)
        self._producer.flush(limit_s)

    def counts(self) -> Counts:
        """Return the numbers of records so far."""
        return self._outbox.counts()

    def happened(self) -> Counter[Churn]:
        """Return how often each kind of churn has happened."""
        return self._model.happened.copy()

    def brokers(self) -> list[BrokerState]:
        """Return all brokers, down or up."""
        return [_state(broker) for broker in self._model.brokers()]

    def _send(self, request: BrokerRequest) -> None:
        self._room.acquire()
        self._outbox.send(request).add_done_callback(lambda _: self._room.release())


def _unregistrations(model: FleetModel, at_ms: int) -> list[BrokerRequest]:
    return [request for broker in model.brokers() for request in model.unregister(broker, at_ms)]


def _state(broker: Broker) -> BrokerState:
    group = broker.group
    return BrokerState(group.cluster_name, group.broker_name, broker.broker_id, broker.address, broker.up)

"""Sender of the ticks that advance event time (E7)."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from typing import Self

from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.rules.rows import LogPosition

log = logging.getLogger(__name__)


class Ticker:
    """Thread that sends a tick every `tick_ms`, so that event time advances while no broker sends a record (E7).

    A tick is left out while Kafka has not acknowledged the one before, so an outage leaves one tick in the producer
    and not many. `sent` counts the ticks sent, `held_back` those left out.
    """

    def __init__(self, producer: HeartbeatProducer, tick_ms: int = 1_000) -> None:
        self.sent = 0
        self.held_back = 0
        self._producer = producer
        self._tick_s = tick_ms / 1_000
        self._has_failed = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    def start(self) -> None:
        """Start the thread. A ticker can be started once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sending ticks, and wait until the thread has ended."""
        self._stopped.set()
        self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        on_its_way: Future[LogPosition] | None = None
        while not self._stopped.wait(self._tick_s):
            if on_its_way is None or on_its_way.done():
                self._note(on_its_way)
                on_its_way = self._tick()
                self.sent += 1
            else:
                self.held_back += 1

    def _note(self, ended: Future[LogPosition] | None) -> None:
        """Log that ticks do not get to Kafka, once until one does."""
        error = ended.exception() if ended is not None else None
        if error is not None and not self._has_failed:
            log.warning("no tick: %s", error)
        self._has_failed = error is not None

    def _tick(self) -> Future[LogPosition] | None:
        try:
            return self._producer.tick()
        except Exception:  # without ticks no lease ends, so the next tick is tried after any error
            log.exception("no tick: an error of ours")
        return None

"""The way to Kafka: kept up in the background, and bridged to the event loop without a thread a request."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Self, TypeVar

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError
from namesrv_stream.heartbeat_log import HeartbeatProducer, Ticker, ensure_topic, wait_for_kafka
from namesrv_stream.rules.requests import Request
from namesrv_stream.rules.rows import LogPosition

log = logging.getLogger(__name__)
R = TypeVar("R", bound=Request)
T = TypeVar("T")

DELIVERY_TIMEOUT_MS = 20_000
"""A broker waits 24 s for the answer to its registration (B2)."""

MAX_ON_THE_WAY_BYTES = 128 * 1024 * 1024
MAX_ON_THE_WAY = 20_000
_RETRY_S = 1.0
_MAX_RETRY_S = 15.0
_MAX_BLOCK_MS = 1_000
_CLOSE_LIMIT_S = 5.0


class GatewayBusyError(NamesrvError):
    """More waits for Kafka than this process may hold; answered SYSTEM_BUSY."""

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} records wait for Kafka: try again later. Is Kafka away, or too slow?")
        self.waiting = waiting


class KafkaLink:
    """Runs within a `with`: connects for as long as it takes, ticks, and counts what is on its way.

    `on_outcome` is told of each record's end in the event loop, None or the error.
    """

    def __init__(
        self,
        settings: NamesrvSettings,
        loop: asyncio.AbstractEventLoop,
        on_outcome: Callable[[NamesrvError | None], None],
    ) -> None:
        self._settings = settings
        self._kafka = kafka_client_arguments(settings) | {"max_block_ms": _MAX_BLOCK_MS}
        self._loop = loop
        self._on_outcome = on_outcome
        self._stop = threading.Event()
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._connect, name="kafka-link", daemon=True)
        self._producer: HeartbeatProducer | None = None
        self._ticker: Ticker | None = None
        self._on_the_way = 0
        self._on_the_way_bytes = 0
        self._done: deque[tuple[asyncio.Future[LogPosition], int, Future[LogPosition]]] = deque()
        self.has_connected = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Sends what waits for a few seconds; blocks meanwhile. An attempt to connect ends by itself, unused."""
        with self._closing:
            self._stop.set()
        if self._ticker:
            self._ticker.stop()
        if self._producer:
            self._producer.close(_CLOSE_LIMIT_S)

    @property
    def address(self) -> str:
        """Kafka's."""
        return self._settings.kafka_bootstrap_servers

    @property
    def on_the_way(self) -> int:
        """Records that Kafka has not acknowledged yet."""
        return self._on_the_way

    def send(self, request: Request, weight_bytes: int = 500) -> asyncio.Future[LogPosition]:
        """Hands a small record to Kafka. Raises NamesrvError at once where Kafka was never there or too much waits."""
        producer = self._ready(weight_bytes)
        return self._awaited(producer.send(request), weight_bytes)

    async def send_large(
        self, make: Callable[[], tuple[R, T]], weight_bytes: int
    ) -> tuple[R, T, asyncio.Future[LogPosition]]:
        """Makes and encodes a record off the event loop; gives what `make` gave and the future of its place.

        Raises what `make` raises, and NamesrvError as `send`.
        """
        producer = self._ready(weight_bytes)

        def made_and_sent() -> tuple[R, T, Future[LogPosition]]:
            request, more = make()
            return request, more, producer.send(request)

        request, more, sent = await asyncio.to_thread(made_and_sent)
        return request, more, self._awaited(sent, weight_bytes)

    def _ready(self, weight_bytes: int) -> HeartbeatProducer:
        if self._producer is None:
            raise KafkaUnreachableError(self._settings.kafka_bootstrap_servers, "no connection yet")
        if self._on_the_way >= MAX_ON_THE_WAY or self._on_the_way_bytes + weight_bytes > MAX_ON_THE_WAY_BYTES:
            raise GatewayBusyError(self._on_the_way)
        return self._producer

    def _awaited(self, sent: Future[LogPosition], weight_bytes: int) -> asyncio.Future[LogPosition]:
        place: asyncio.Future[LogPosition] = self._loop.create_future()
        self._on_the_way += 1
        self._on_the_way_bytes += weight_bytes
        sent.add_done_callback(lambda done: self._is_done(place, weight_bytes, done))
        return place

    def _is_done(self, place: asyncio.Future[LogPosition], weight_bytes: int, done: Future[LogPosition]) -> None:
        """Called by Kafka's thread. One wake-up of the loop serves all that is done by then."""
        self._done.append((place, weight_bytes, done))
        if len(self._done) == 1:
            try:
                self._loop.call_soon_threadsafe(self._tell_done)
            except RuntimeError:  # the loop has ended: nobody waits any more
                self._done.clear()

    def _tell_done(self) -> None:
        while self._done:
            place, weight_bytes, done = self._done[0]
            error = done.exception()
            self._on_the_way -= 1
            self._on_the_way_bytes -= weight_bytes
            self._on_outcome(error if isinstance(error, NamesrvError) else None)
            if not place.done():
                if error is not None:
                    place.set_exception(error)
                    place.exception()  # seen: not everybody waits for it
                else:
                    place.set_result(done.result())
            self._done.popleft()

    def _connect(self) -> None:
        pause_s = _RETRY_S
        while not self._stop.is_set():
            try:
                self._open()
                return
            except (KafkaUnreachableError, KafkaRefusedError) as error:
                log.warning("%s Writing requests are answered SYSTEM_BUSY. Next attempt in %.0f s.", error, pause_s)
            self._stop.wait(pause_s)
            pause_s = min(2 * pause_s, _MAX_RETRY_S)

    def _open(self) -> None:
        settings = self._settings
        wait_for_kafka(self._kafka, limit_s=0)
        for warning in ensure_topic(self._kafka, settings.kafka_topic):
            log.warning("%s", warning)
        producer = HeartbeatProducer(self._kafka, settings.kafka_topic, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)
        with self._closing:
            if self._stop.is_set():
                producer.close(0)
                return
            self._ticker = Ticker(producer, settings.tick_millis)
            self._ticker.start()
            self._producer = producer
            self._loop.call_soon_threadsafe(self.has_connected.set)
        log.info("Kafka at %s answers; heartbeats go to %s", settings.kafka_bootstrap_servers, settings.kafka_topic)

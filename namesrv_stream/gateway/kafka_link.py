"""The gateway's link to Kafka: a thread opens it, and the event loop receives the outcome of each record.

Ticks go over it too: often while a lease may end, seldom while none can (E7). Their times are on one grid of the wall
clock, so that several gateways send at the same moments. Light heartbeats that wait for a tick come in one micro-batch
with it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Self
from zlib import crc32

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.config.settings import LONGEST_TICK_MS
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError
from namesrv_stream.gateway.fair_shares import Share, Turns
from namesrv_stream.kafka.producer import RecordProducer
from namesrv_stream.kafka.topic import ensure_topic, wait_for_kafka
from namesrv_stream.records import encode_record, record_key
from namesrv_stream.rules.record_types import Request, Scan
from namesrv_stream.rules.rows import LogPosition

log = logging.getLogger(__name__)

GATHERED_FROM_MS, GATHERED_FOR_MS, TICK_AT_MS = 600, 250, 900
"""Phases after a whole multiple of a period: the beginning and length of the time in which waiting heartbeats are sent,
and the tick. Spark begins micro-batches at whole multiples of `triggerMillis`, so records that are sent around such a
moment would come in two of them. Thousands of heartbeats are spread, because lookups would wait for them."""

_NEVER_MS = 1 << 52
_MAX_EARLY_MS = 20
"""Tolerance of timers. A timer may end so much too early; the next time is still the one after the intended time."""

DELIVERY_TIMEOUT_MS = 20_000
"""Time after which an unacknowledged record has failed. A broker waits 24 s for the answer to its registration (B2)."""

MAX_ON_THE_WAY_BYTES = 128 * 1024 * 1024
MAX_ON_THE_WAY = 20_000
OWN = "gateway"
"""The host to which the gateway's own records are charged."""

RETRY_S = 1.0
"""The first pause between attempts to connect; it doubles with each."""

_MAX_RETRY_S = 15.0
_CLOSE_LIMIT_S = 5.0
TURN_LIMIT_S = 10.0
"""Limit of a large body's wait to be decoded. A broker waits 24 s for its answer, and Kafka needs a part of that
time."""

_POLL_S = 0.001
_POLL_TURN_S = 0.001
"""Time of one poll for outcomes of records. Then peers are read from, because a thousand outcomes take 14 ms."""

_IDLE_POLL_S = 1.0
"""The pause between polls while no record is on its way, because librdkafka's log lines need polls too."""


def next_after(at_ms: float, period_ms: int, phase_ms: int) -> float:
    """Return the first time later than `at_ms` that is `phase_ms` after a whole multiple of the period."""
    return at_ms + period_ms - (at_ms - phase_ms) % period_ms


class Ticks:
    """Calls `send` at each time of a tick, once started. Lives in the event loop.

    A tick is due every `often_ms` while a lease is late, as far as snapshots show it, and while Kafka has not
    acknowledged the last tick; otherwise every `calm_ms`. While a tick is on its way to Kafka no other is sent, so that
    an outage of Kafka leaves only one in the producer.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        often_ms: int,
        calm_ms: int = LONGEST_TICK_MS,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.often_ms, self.calm_ms = often_ms, calm_ms
        self._loop = loop
        self._wall_s = wall_s
        self._send: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._early_ms = min(_MAX_EARLY_MS, often_ms / 4, calm_ms / 4)
        self._ticked_s = -1.0  # of the loop's clock, which never steps back
        self._late_from_ms = 0.0
        self._has_failed = False
        self.is_on_its_way = False
        self.is_in_time = True
        """False if a tick was left out because the tick before it was still on its way."""

    def start(self, send: Callable[[], None]) -> None:
        """Send the first tick now. `send` hands a tick to Kafka; call `ended` with its outcome."""
        self._send = send
        self._tick()

    def stop(self) -> None:
        """Send no more ticks."""
        self._send = None
        if self._timer is not None:
            self._timer.cancel()

    def ended(self, error: Exception | None) -> None:
        """Note the outcome of the tick that was on its way: None if Kafka has acknowledged it."""
        self.is_on_its_way, self._has_failed = False, error is not None
        self.is_in_time = self.is_in_time or error is None
        self._plan()

    def follow(self, at_ms: int | None) -> None:
        """Send ticks often from this time on, at which the first lease is late; None: no lease can end."""
        late_from_ms = _NEVER_MS if at_ms is None else at_ms
        if late_from_ms != self._late_from_ms:
            self._late_from_ms = late_from_ms
            self._plan()

    def until_gathered_ms(self, after_ms: float, period_ms: int, name: str) -> float:
        """Return the time from now until a heartbeat that waits for a tick is sent: `after_ms` or a little later.

        `name` decides the moment within GATHERED_FOR_MS, always the same. So the next heartbeat is sent a whole number
        of periods later, within the tolerance of timers.
        """
        now_ms = self._now_ms()
        phase_ms = GATHERED_FROM_MS + crc32(name.encode()) % GATHERED_FOR_MS
        return next_after(now_ms + max(after_ms, 0.0) - self._early_ms, period_ms, phase_ms) - now_ms

    def _tick(self) -> None:
        if self._send is None:
            return
        self._ticked_s = self._loop.time()
        self.is_in_time = not self.is_on_its_way
        try:
            if self.is_in_time:
                self.is_on_its_way = True
                self._send()
        except Exception:  # no error may end the ticks, because without them no lease ends
            self.is_on_its_way, self.is_in_time, self._has_failed = False, False, True
            raise
        finally:
            self._plan()

    def _plan(self) -> None:
        if self._send is None:
            return
        now_ms = self._now_ms()
        from_ms = now_ms + max(0.0, self._early_ms - (self._loop.time() - self._ticked_s) * 1_000)
        often_from_ms = from_ms if self._has_failed or self.is_on_its_way else max(self._late_from_ms, from_ms)
        next_ms = min(
            next_after(from_ms, self.calm_ms, TICK_AT_MS), next_after(often_from_ms, self.often_ms, TICK_AT_MS)
        )
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later((next_ms - now_ms) / 1_000, self._tick)

    def _now_ms(self) -> float:
        return self._wall_s() * 1_000


_POLL_SHARE, _LONGEST_POLL_TURN_S = 0.5, 0.05
"""A poll may take longer than that: half of the time since the poll before it, up to a limit. Otherwise a gateway whose
peers take tens of milliseconds a turn would fall behind with the outcomes, and refuse records although Kafka is
fast."""


class GatewayBusyError(NamesrvError):
    """A request cannot be handled now: too much waits for Kafka or to be decoded. It is answered SYSTEM_BUSY."""


class KafkaLink:
    """The link to Kafka, open within an `async with`. Lives in the event loop.

    It tries to connect until it succeeds, sends ticks, and counts the records that are on their way. `on_outcome` is
    called for each record with None, or with the error if the record failed.
    """

    def __init__(self, settings: NamesrvSettings, on_outcome: Callable[[NamesrvError | None], None]) -> None:
        self._settings = settings
        self._kafka = kafka_client_arguments(settings)
        self._loop = asyncio.get_running_loop()
        self._on_outcome = on_outcome
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._connect, name="kafka-link", daemon=True)
        self._producer: RecordProducer | None = None
        self._poll_timer: asyncio.TimerHandle | None = None
        self._polled_s = self._loop.time()
        self._turns = Turns(self.bodies_at_a_time, settings.max_large_bodies_per_address)
        self._records = Share(MAX_ON_THE_WAY)
        self._bytes = Share(MAX_ON_THE_WAY_BYTES)
        self._is_failing = False
        self._acknowledged_s = self._loop.time()
        self.ticks = Ticks(self._loop, settings.tick_millis)
        self.has_connected = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait a few seconds for the records on their way. A running attempt to connect ends by itself, unused."""
        self._stop.set()
        self.ticks.stop()
        until_s = self._loop.time() + _CLOSE_LIMIT_S
        while self.on_the_way and self._loop.time() < until_s:
            await asyncio.sleep(_POLL_S)
        if self._poll_timer is not None and self._producer is not None:
            self._poll_timer.cancel()
            self._producer.give_up()

    @property
    def address(self) -> str:
        """The bootstrap servers of Kafka."""
        return self._settings.kafka_bootstrap_servers

    @property
    def bodies_at_a_time(self) -> int:
        """Most large bodies that are decoded at a time: one host leaves one to others. Each may hold all its topics."""
        return self._settings.max_large_bodies_per_address + 1

    @property
    def on_the_way(self) -> int:
        """The number of records that Kafka has not acknowledged yet."""
        return self._records.taken

    @property
    def is_connected(self) -> bool:
        """True if the link is open, Kafka acknowledges ticks, and it acknowledged the last record with an outcome."""
        return self._producer is not None and self.ticks.is_in_time and not self._is_failing

    @property
    def silent_s(self) -> float:
        """Seconds since Kafka has acknowledged a record or a tick, or else since this link was made."""
        return self._loop.time() - self._acknowledged_s

    def send(self, request: Request, record: bytes | None = None, host: str = OWN) -> asyncio.Future[LogPosition]:
        """Hand a record to Kafka for a peer at `host`. Return its future place in the log.

        `record`: the encoded request, if it is encoded already. Raises KafkaUnreachableError at once if Kafka was never
        connected, GatewayBusyError if too many bytes of all hosts or of this one wait for Kafka.
        """
        value = encode_record(request) if record is None else record
        producer = self.check_room(len(value), host)
        place: asyncio.Future[LogPosition] = self._loop.create_future()
        was_idle = self.on_the_way == 0
        self._records.take(host, 1)
        self._bytes.take(host, len(value))
        producer.send(record_key(request), value, partial(self._ended, place, host, len(value)))
        if was_idle and self.on_the_way:
            self._poll_in(_POLL_S)
        return place

    @asynccontextmanager
    async def turn_to_decode(self, held_bytes: int, host: str) -> AsyncIterator[None]:
        """Run an `async with` block, which decodes a large body, in the turn of its host.

        Meanwhile `held_bytes` count as on their way to Kafka. Raises GatewayBusyError if the turn does not come within
        TURN_LIMIT_S, and the errors of `send`.
        """
        self.check_room(held_bytes, host)
        self._bytes.take(host, held_bytes)
        try:
            async with self._turns.turn(host, TURN_LIMIT_S):
                yield
        except TimeoutError as error:
            raise GatewayBusyError(
                f"large requests of {host}, or of others, took over {TURN_LIMIT_S:g} s. Try again later. If many "
                "brokers share this address, set proxyProtocol.trusted, a higher maxLargeBodiesPerAddress, or "
                "enableSplitRegistration=true at the brokers."
            ) from error
        finally:
            self._bytes.give_back(host, held_bytes)

    def check_room(self, more_bytes: int, host: str) -> RecordProducer:
        """Return the producer if a record of that size from a peer at `host` may be sent now.

        Raises the errors of `send`.
        """
        if self._producer is None:
            raise KafkaUnreachableError(self._settings.kafka_bootstrap_servers, "no connection yet")
        if not (self._records.has_room(host, 1) and self._bytes.has_room(host, more_bytes)):
            raise GatewayBusyError(
                f"{self.on_the_way} records wait for Kafka. Try again later; check that Kafka is running and not slow."
            )
        return self._producer

    def _ended(
        self,
        place: asyncio.Future[LogPosition],
        host: str,
        record_bytes: int,
        position: LogPosition | None,
        error: NamesrvError | None,
    ) -> None:
        self._records.give_back(host, 1)
        self._bytes.give_back(host, record_bytes)
        self._on_outcome(error)
        self._note_outcome(error)
        if place.done():
            return
        if error is not None:
            place.set_exception(error)
            place.exception()  # marks the error as retrieved, because not every sender waits for it
        elif position is not None:
            place.set_result(position)

    def _note_outcome(self, error: NamesrvError | None) -> None:
        """Note when Kafka took a record. Log once when records begin to fail, and once when Kafka takes them again."""
        if self._stop.is_set():
            return  # a record that is given up at the end shows nothing about Kafka
        if error is not None and not self._is_failing:
            log.warning("%s The gateway rejects writes with SYSTEM_BUSY until Kafka recovers; lookups continue.", error)
        if error is None and self._is_failing:
            log.info("Kafka at %s accepts records again; the gateway accepts writes", self.address)
        self._is_failing = error is not None
        if error is None:
            self._acknowledged_s = self._loop.time()

    def _poll_in(self, pause_s: float) -> None:
        if self._poll_timer is not None:
            self._poll_timer.cancel()
        self._poll_timer = self._loop.call_later(pause_s, self._poll)

    def _poll(self) -> None:
        pause_s = _IDLE_POLL_S
        turn_s = min(max(_POLL_TURN_S, _POLL_SHARE * (self._loop.time() - self._polled_s)), _LONGEST_POLL_TURN_S)
        try:
            if self._producer is not None and self._producer.poll(turn_s):
                pause_s = 0
            elif self.on_the_way or self.ticks.is_on_its_way:
                pause_s = _POLL_S
        except KafkaRefusedError as error:
            log.error("%s The gateway rejects writes with SYSTEM_BUSY; lookups continue.", error)
        finally:
            self._polled_s = self._loop.time()
            self._poll_in(pause_s)

    def on_opened(self, producer: RecordProducer) -> None:
        """Send by this producer from now on, unless the link is closed.

        Called in the event loop once a thread has opened it.
        """
        if self._stop.is_set():
            return
        self._producer = producer
        self.has_connected.set()
        self._poll_in(_IDLE_POLL_S)
        self.ticks.start(partial(self._send_tick, producer))

    def _send_tick(self, producer: RecordProducer) -> None:
        """Hand a tick to Kafka. It takes no room from peers' records."""
        tick = Scan()
        producer.send(record_key(tick), encode_record(tick), self._on_tick_ended)
        self._poll_in(_POLL_S)

    def _on_tick_ended(self, _: LogPosition | None, error: NamesrvError | None) -> None:
        self._note_outcome(error)
        self.ticks.ended(error)

    # --- in a thread

    def _connect(self) -> None:
        pause_s = RETRY_S
        while not self._stop.is_set():
            try:
                self._open()
                return
            except Exception as error:  # no error may end this thread, and with it the link, for good
                if self._stop.is_set():
                    return
                if isinstance(error, KafkaUnreachableError | KafkaRefusedError):
                    log.warning("%s The gateway rejects writes with SYSTEM_BUSY; lookups continue. Retrying in %.0f s.",
                                error, pause_s)  # fmt: skip
                else:
                    log.exception("the gateway cannot connect to Kafka at %s: internal error. Retrying in %.0f s.",
                                  self.address, pause_s)  # fmt: skip
            self._stop.wait(pause_s)
            pause_s = min(2 * pause_s, _MAX_RETRY_S)

    def _open(self) -> None:
        settings = self._settings
        wait_for_kafka(self._kafka, limit_s=0)
        for warning in ensure_topic(self._kafka, settings.kafka_topic).warnings:
            log.warning("settings of %s", warning)
        producer = RecordProducer(self._kafka, settings.kafka_topic, DELIVERY_TIMEOUT_MS)
        log.info("the gateway is connected to Kafka at %s and writes heartbeats to topic %s",
                 settings.kafka_bootstrap_servers, settings.kafka_topic)  # fmt: skip
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self.on_opened, producer)

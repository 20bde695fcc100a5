"""Parts that all writing requests use on their way to Kafka: a clock, connection ids, processes for large bodies.

In the gateway's own process decoding a large body would hold the interpreter's lock and stop lookups.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import NamedTuple, TypeVar

from namesrv_stream.errors import BadRequestError, KafkaUnreachableError
from namesrv_stream.gateway.answers import KeptAnswer
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.kafka_link import GatewayBusyError, KafkaLink
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.remoting_command import RemotingCommand

T = TypeVar("T")

DECODE_LIMIT_S = 30
"""Limit of decoding one body. A broker waits 24 s for the answer to its registration (B2), and nobody waits longer."""

_NICENESS = 5
"""Niceness of these processes, so that lookups come first if cores are scarce."""

_GC_THRESHOLD = 100_000
"""Objects after which the garbage collector runs, so that it does once for some bodies of 10,000 topics: with Python's
700 it takes a quarter of their decoding."""

ANSWER_LIMIT_S = 2.5
"""Limit of the wait for Kafka. A real broker closes a connection whose answer takes 3 s."""


class BodyProcesses:
    """A pool of processes, which is made for the first large body, and again after one of its processes was lost.

    `limit_s`: a process that works on one body for longer ends itself. All processes end with this one at the latest.
    """

    def __init__(self, limit_s: int = DECODE_LIMIT_S, *, at_a_time: int = 2) -> None:
        self._limit_s, self._at_a_time = limit_s, at_a_time
        self._pool: ProcessPoolExecutor | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work`, which is pickled with its outcome, in one of the processes.

        Raises what `work` raises, and GatewayBusyError if its process is lost.
        """
        try:
            return await asyncio.wrap_future(self._submit(partial(_within_limit, work, self._limit_s)))
        except (BrokenProcessPool, OSError):
            raise GatewayBusyError(
                f"the process for a large request did not start, took over {self._limit_s} s or was killed, perhaps "
                "for lack of memory. Try again later. If this repeats, set enableSplitRegistration on the broker, and "
                "give the gateway more memory."
            ) from None

    def close(self) -> None:
        """End the processes once they have decoded their present bodies."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        try:
            if self._pool is not None:
                return self._pool.submit(work)
        except BrokenProcessPool:
            pass
        # Spawned: a forked process would inherit locks that threads of this one hold, and nobody would release them.
        self._pool = ProcessPoolExecutor(self._at_a_time, get_context("spawn"), _prepare)
        return self._pool.submit(work)


def _prepare() -> None:
    """Give way to lookups, ignore Ctrl-C, and end with the gateway: without this a pool outlives a killed gateway."""
    os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(_GC_THRESHOLD)
    Thread(target=_end_with_gateway, daemon=True).start()


def _end_with_gateway() -> None:
    if (gateway := parent_process()) is not None:
        gateway.join()
        os._exit(1)


def _within_limit(work: Callable[[], T], limit_s: int) -> T:
    """Run `work`. An alarm ends this process after `limit_s`, whatever it does."""
    signal.alarm(limit_s)
    try:
        return work()
    finally:
        signal.alarm(0)


Answer = RemotingCommand | KeptAnswer
InLog = asyncio.Future[LogPosition]
"""The future place of a record in the log."""


class SentRequest(NamedTuple):
    """A request that was sent. `answer()` makes its answer once Kafka has the record.

    `place`: the record's future place in the log; None if the request needs no record. `is_light`: the record is a
    heartbeat, which costs this gateway and the job little.
    """

    place: InLog | None
    answer: Callable[[], Answer]
    is_light: bool = False

    @property
    def is_logged(self) -> bool:
        """True if Kafka has the record or none is needed, so that the request may be answered."""
        place = self.place
        return place is None or (place.done() and not place.cancelled() and place.exception() is None)


class KafkaSender:
    """Hands the requests of one gateway to Kafka. `gateway_id` is part of the channel ids in the records.

    `loop`: the clock and the timers, by default the running loop's. `on_registration` is called for each registration
    that was sent, with the reason why in full, or None.
    """

    def __init__(
        self,
        link: KafkaLink,
        processes: BodyProcesses,
        gateway_id: str,
        loop: asyncio.AbstractEventLoop | None = None,
        on_registration: Callable[[str | None], None] = lambda _why: None,
    ) -> None:
        self.link = link
        self.loop = loop or asyncio.get_running_loop()
        self.on_registration = on_registration
        self._processes = processes
        self._gateway_id = gateway_id

    @property
    def now_ms(self) -> int:
        """The time in milliseconds of the event loop's clock, which never steps back."""
        return round(self.loop.time() * 1_000)

    def channel_id(self, connection: Connection) -> str:
        """Return the id that a connection has in the records."""
        return f"{self._gateway_id}/{connection.number}"

    def is_own(self, channel_id: str) -> bool:
        """Return whether a connection in the records is, or was, one of this gateway."""
        return channel_id.startswith(f"{self._gateway_id}/")

    async def decoded_aside(self, decode: Callable[[], T], body_bytes: int, connection: Connection) -> T:
        """Return what `decode` returns in another process, in the turn of the connection's host.

        Raises what `decode` raises, BadRequestError if the connection is lost, and GatewayBusyError.
        """
        async with self.link.turn_to_decode(body_bytes, connection.host):
            if connection.is_lost:
                raise BadRequestError("the peer closed the connection")
            return await self._processes.run(decode)

    def limit(self, place: InLog) -> None:
        """End the wait for a place in the log after ANSWER_LIMIT_S. The record may still get into the log later."""
        timer = self.loop.call_later(ANSWER_LIMIT_S, self._give_up, place)
        place.add_done_callback(lambda _: timer.cancel())

    def _give_up(self, place: InLog) -> None:
        if not place.done():
            problem = f"no answer within {ANSWER_LIMIT_S:g} s"
            place.set_exception(KafkaUnreachableError(self.link.address, problem))

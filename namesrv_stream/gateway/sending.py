"""Steps that all writing requests share on their way to Kafka: turns, large bodies, and the wait for Kafka's answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from namesrv_stream.errors import KafkaUnreachableError
from namesrv_stream.gateway.body_processes import BodyProcesses
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.kafka_link import KafkaLink
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.frame import LARGE_BODY_BYTES
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.wire_errors import BadRequestError

T = TypeVar("T")

ANSWER_LIMIT_S = 2.5
"""Limit of the wait for Kafka: a real broker closes a connection whose answer takes 3 s."""


class ConnectionLostError(BadRequestError):
    """The connection of a request was lost before the request's turn came: nobody receives this answer."""

    def __init__(self) -> None:
        super().__init__("the connection was lost")


class Sending:
    """Hands the requests of one gateway to Kafka. `gateway_id` is part of the channel ids in the records.

    `loop`: the clock and the timers, by default the running loop's.
    """

    def __init__(
        self,
        link: KafkaLink,
        processes: BodyProcesses,
        gateway_id: str,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.link = link
        self.loop = loop or asyncio.get_running_loop()
        self._gateway_id = gateway_id
        self._processes = processes
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def now_ms(self) -> int:
        """The time in milliseconds of the event loop's clock, which never steps back."""
        return round(self.loop.time() * 1_000)

    def channel_id(self, connection: Connection) -> str:
        """Return the id of a connection in the records."""
        return f"{self._gateway_id}/{connection.number}"

    def is_own(self, channel_id: str) -> bool:
        """Return whether a connection in the records is, or was, one of this gateway."""
        return channel_id.startswith(f"{self._gateway_id}/")

    @asynccontextmanager
    async def turn(self, connection: Connection) -> AsyncIterator[str]:
        """Hold the order of a connection, and yield its channel id, for a record that may be sent late.

        Raises ConnectionLostError if the connection is lost: no record may follow the channel's CHANNEL_CLOSED.
        """
        async with connection.order:
            if connection.is_lost:
                raise ConnectionLostError
            yield self.channel_id(connection)

    async def made(self, command: RemotingCommand, connection: Connection, make: Callable[[], T]) -> T:
        """Return what `make` reads from a request, in another process if the body is large or may be once inflated."""
        if is_read_at_once(command):
            return make()

        async with self.link.turn_to_decode(len(command.body), connection.host):
            if connection.is_lost:
                raise ConnectionLostError
            return await self._processes.run(make)

    async def in_log(self, place: asyncio.Future[LogPosition], limit_s: float = ANSWER_LIMIT_S) -> None:
        """Return once Kafka has the record. Raises KafkaUnreachableError after `limit_s`.

        The record may still get to the log after that.
        """
        timer = self.loop.call_later(limit_s, self._give_up, place, limit_s)
        try:
            await place
        finally:
            timer.cancel()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work that no request waits for."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _give_up(self, place: asyncio.Future[LogPosition], limit_s: float) -> None:
        if not place.done():
            place.set_exception(KafkaUnreachableError(self.link.address, f"no answer within {limit_s:g} s"))


def is_read_at_once(command: RemotingCommand, limit_bytes: int = LARGE_BODY_BYTES) -> bool:
    """Return whether a body is within the limit and not compressed, so that it may be read in the event loop."""
    may_inflate = (
        command.code == RequestCode.REGISTER_BROKER and len(command.body) > 0 and not command.body.startswith(b"{")
    )
    return not may_inflate and len(command.body) <= limit_bytes

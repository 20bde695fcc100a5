"""What all writing requests share on their way to Kafka: turns, large bodies, and the wait for Kafka's answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from namesrv_stream.errors import KafkaUnreachableError
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.kafka_link import KafkaLink
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.command import RemotingCommand
from namesrv_stream.wire.errors import BadRequestError

T = TypeVar("T")

ANSWER_LIMIT_S = 2.5
"""A real broker gives a connection up whose answer takes 3 s."""

LARGE_BODY_BYTES = 16 * 1024


class ConnectionLostError(BadRequestError):
    """A request whose turn came when its connection was lost: nobody hears this answer."""

    def __init__(self) -> None:
        super().__init__("the connection was lost")


class Sending:
    """The way of one gateway's requests to Kafka. `gateway_id` is part of the channel ids in the records."""

    def __init__(self, link: KafkaLink, gateway_id: str) -> None:
        self.link = link
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._gateway_id = gateway_id
        self._tasks: set[asyncio.Task[None]] = set()

    def channel_id(self, connection: Connection) -> str:
        """What names a connection in the records."""
        return f"{self._gateway_id}/{connection.number}"

    @asynccontextmanager
    async def turn(self, connection: Connection) -> AsyncIterator[str]:
        """For what may come late to a channel, whose id this gives: never after the end of the channel was told."""
        async with connection.order:
            if connection.is_lost:
                raise ConnectionLostError
            yield self.channel_id(connection)

    async def made(self, command: RemotingCommand, connection: Connection, make: Callable[[], T]) -> T:
        """What `make` reads out of a request: off the event loop where the body, or what it inflates to, is large."""
        may_inflate = command.code == RequestCode.REGISTER_BROKER and command.body[:1] not in (b"", b"{")
        if not may_inflate and len(command.body) <= LARGE_BODY_BYTES:
            return make()

        def make_if_wanted() -> T:
            if connection.is_lost:
                raise ConnectionLostError
            return make()

        return await self.link.aside(make_if_wanted, len(command.body), connection.host)

    async def in_log(self, place: asyncio.Future[LogPosition], limit_s: float = ANSWER_LIMIT_S) -> None:
        """Returns once Kafka has the record. It may still get there after KafkaUnreachableError is raised here."""
        timer = self.loop.call_later(limit_s, self._give_up, place, limit_s)
        try:
            await place
        finally:
            timer.cancel()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Does what no request waits for."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _give_up(self, place: asyncio.Future[LogPosition], limit_s: float) -> None:
        if not place.done():
            place.set_exception(KafkaUnreachableError(self.link.address, f"no answer within {limit_s:g} s"))

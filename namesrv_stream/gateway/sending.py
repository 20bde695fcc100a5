"""Parts that all writing requests use on their way to Kafka: a clock, connection ids, processes for large bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from namesrv_stream.errors import KafkaUnreachableError
from namesrv_stream.gateway.answers import KeptAnswer
from namesrv_stream.gateway.body_processes import BodyProcesses
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.kafka_link import KafkaLink
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.wire_errors import BadRequestError

T = TypeVar("T")

Answer = RemotingCommand | KeptAnswer
InLog = asyncio.Future[LogPosition]
"""The future place of a record in the log."""

ANSWER_LIMIT_S = 2.5
"""Limit of the wait for Kafka. A real broker closes a connection whose answer takes 3 s."""


class Sent(NamedTuple):
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
                raise BadRequestError("the connection was lost")
            return await self._processes.run(decode)

    def limit(self, place: InLog) -> None:
        """End the wait for a place in the log after ANSWER_LIMIT_S. The record may still get into the log later."""
        timer = self.loop.call_later(ANSWER_LIMIT_S, self._give_up, place)
        place.add_done_callback(lambda _: timer.cancel())

    def _give_up(self, place: InLog) -> None:
        if not place.done():
            problem = f"no answer within {ANSWER_LIMIT_S:g} s"
            place.set_exception(KafkaUnreachableError(self.link.address, problem))

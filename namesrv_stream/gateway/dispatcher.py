"""Answers each request: a reading one from memory at once, a writing one once Kafka has its record."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any

from namesrv_stream.access.rights import NotAllowedError
from namesrv_stream.gateway.answers import Answers, KeptAnswer
from namesrv_stream.gateway.authorization import Authorization
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.gateway.own_writes import until_read
from namesrv_stream.gateway.production_routes import Production
from namesrv_stream.gateway.readers import READERS, no_route
from namesrv_stream.gateway.registering import KAFKA_IS_AWAY
from namesrv_stream.gateway.writes import HANDLERS, Writes
from namesrv_stream.rules.lookup import waits_for_service
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.bodies import MAX_PROPERTIES_BYTES
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

log = logging.getLogger(__name__)

Answering = Coroutine[Any, Any, RemotingCommand | KeptAnswer]


SIGNS_OF_LIFE = frozenset({RequestCode.REGISTER_BROKER, RequestCode.BROKER_HEARTBEAT, RequestCode.QUERY_DATA_VERSION})
"""The requests by which a broker shows that it lives."""

_LATER_S = 0.0007
"""The event loop's work for a request that is answered by a task of its own, such as a large registration.

A small one that is sent in full counts as much: it costs the job more than the gateway.
"""
_OF_SETTINGS_S_A_BYTE = 0.3e-6
"""The event loop's work for a byte of settings: 5 ms for the largest text that is read."""


class Dispatcher:
    """Answers the requests of all connections. Lives in the event loop."""

    def __init__(self, answers: Answers, writes: Writes, metrics: Metrics, authorization: Authorization) -> None:
        self._production = Production(answers.settings.product_env_name) if answers.settings.cluster_test else None
        self._answers = answers
        self._is_loading = True
        self._writes = writes
        self._metrics = metrics
        self._authorization = authorization
        self._started_s = time.perf_counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._scanning = asyncio.Lock()

    def serve(self, answers: Answers) -> None:
        """Use these answers from now on. Before the first call every lookup is answered "name server not ready"."""
        self._answers = answers
        self._is_loading = False

    def answer(self, command: RemotingCommand, connection: Connection) -> bytes | None:
        """Return the answer's frame; None if it follows through `reply_frame`, or never (oneway)."""
        if command.code in self._authorization.checked:
            try:
                command = self._authorization.admitted(command, connection, self._answers.live)
            except NotAllowedError as error:
                self._metrics.answered(command.code, ResponseCode.NO_PERMISSION, 0.0)
                refusal = command.answer(ResponseCode.NO_PERMISSION, str(error))
                return None if command.is_oneway else encode_command(refusal)
        if command.code in SIGNS_OF_LIFE and self._writes.registering.is_kafka_away:
            return self._sent_away(command, connection)
        if command.code == RequestCode.REGISTER_BROKER and self._is_registered_at_once(command, connection):
            return None
        if command.code == RequestCode.BROKER_HEARTBEAT and self._writes.registering.is_thinned(command, connection):
            self._metrics.answered(command.code, ResponseCode.SUCCESS, 0.0)
            return None if command.is_oneway else encode_command(command.answer())
        if command.code in HANDLERS:
            self._start(self._writes.answered(command, connection), command, connection)
            return None
        if (read := self._writes.own.awaited(command, connection.number)) is not None:
            self._start(self._answered_later(read, command), command, connection)
            return None
        return self._looked_up(command, connection)

    async def _answered_later(self, read: asyncio.Future[None], command: RemotingCommand) -> KeptAnswer:
        """Answer a lookup once a snapshot has read this gateway's own write, or has not within the limit (E12)."""
        await until_read(read)
        if self._is_open_to(command.code) and self._answers.is_scan(command):
            return await self._scanned(self._answers, command)
        kept = self._read(command)
        if self._production is not None and kept.result == ResponseCode.TOPIC_NOT_EXIST:
            return KeptAnswer(command.code, await self._route_of(self._production, command))
        return kept

    def _looked_up(self, command: RemotingCommand, connection: Connection) -> bytes | None:
        if self._is_open_to(command.code) and self._answers.is_scan(command):
            self._start(self._scanned(self._answers, command), command, connection, alone=True)
            return None
        started_s = time.perf_counter()
        kept = self._read(command)
        if self._production is not None and kept.result == ResponseCode.TOPIC_NOT_EXIST:
            self._start(self._route_of(self._production, command), command, connection)
            return None
        self._metrics.answered(command.code, kept.result, time.perf_counter() - started_s)
        return None if command.is_oneway else kept.prepared.frame(command.opaque)

    def connection_lost(self, connection: Connection) -> None:
        """Note that the connection is lost: no more requests come over it."""
        self._writes.connection_lost(connection)

    def _is_registered_at_once(self, command: RemotingCommand, connection: Connection) -> bool:
        """Return whether a registration needs one send alone, which this has done; its answer follows."""
        started_s, registering = time.perf_counter(), self._writes.registering
        place, later_s = registering.send_light(command, connection), 0.0
        if place is None:
            place, later_s = registering.send_at_once(command, connection), _LATER_S
        if place is None:
            return False
        connection.await_answer(command, later_s=later_s)
        place.add_done_callback(partial(self._on_registration_logged, command, connection, started_s))
        return True

    def _sent_away(self, command: RemotingCommand, connection: Connection) -> bytes | None:
        """Refuse a broker's sign of life, and close its connection after that, so that it goes to another gateway."""
        asyncio.get_running_loop().call_soon(connection.close_by_itself, KAFKA_IS_AWAY)
        self._metrics.answered(command.code, ResponseCode.SYSTEM_BUSY, 0.0)
        refusal = command.answer(ResponseCode.SYSTEM_BUSY, KAFKA_IS_AWAY)
        return None if command.is_oneway else encode_command(refusal)

    def _on_registration_logged(
        self, command: RemotingCommand, connection: Connection, started_s: float, place: asyncio.Future[LogPosition]
    ) -> None:
        answered = self._writes.registering.answer_to_registration(command, place.exception())
        self._metrics.answered(command.code, answered.result, time.perf_counter() - started_s)
        connection.reply_frame(command, answered.prepared.frame(command.opaque))

    def _read(self, command: RemotingCommand) -> KeptAnswer:
        if not self._is_open_to(command.code):
            return KeptAnswer(command.code, command.answer(ResponseCode.SYSTEM_ERROR, "name server not ready"))  # M5
        kept = self._answers.answer(command)
        if kept is None:
            remark = f" request type {command.code} not supported"
            return KeptAnswer(command.code, command.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark))
        return kept

    async def _scanned(self, answers: Answers, command: RemotingCommand) -> KeptAnswer:
        """Return an answer that reads all topics: made in a thread, one at a time, and once for each snapshot."""
        async with self._scanning:
            if answers.is_scan(command):
                answers.keep(command, await asyncio.to_thread(answers.anew, command))
        return answers.answer(command) or answers.anew(command)

    async def _route_of(self, production: Production, command: RemotingCommand) -> RemotingCommand:
        """Return production's route of the topic (M9), or TOPIC_NOT_EXIST if production has none."""
        topic = (command.ext_fields or {}).get("topic")
        body = None if topic is None else await production.route(topic)
        return no_route(command, topic) if body is None else command.answer(body=body)

    def _is_open_to(self, code: int) -> bool:
        """Return whether requests of this code may be answered.

        A lookup may not until the tables have been read. A route lookup may not until the time of needWaitForService
        is over either.
        """
        if self._is_loading:
            return code not in READERS
        return code != RequestCode.GET_ROUTEINFO_BY_TOPIC or not self._waits_for_service()

    def _waits_for_service(self) -> bool:
        up_ms = int((time.perf_counter() - self._started_s) * 1000)
        return waits_for_service(self._answers.settings, up_ms)

    def _start(
        self, answering: Answering, command: RemotingCommand, connection: Connection, *, alone: bool = False
    ) -> None:
        is_of_settings = command.code == RequestCode.UPDATE_NAMESRV_CONFIG and len(command.body) <= MAX_PROPERTIES_BYTES
        later_s = _LATER_S + (_OF_SETTINGS_S_A_BYTE * len(command.body) if is_of_settings else 0)
        connection.await_answer(command, later_s=later_s, alone=alone)
        task = asyncio.ensure_future(self._reply(answering, command, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, answering: Answering, command: RemotingCommand, connection: Connection) -> None:
        started_s = time.perf_counter()
        frame: bytes | None = None
        try:
            answer = await answering
            kept = answer if isinstance(answer, KeptAnswer) else KeptAnswer(command.code, answer)
            frame = kept.prepared.frame(command.opaque)
            self._metrics.answered(command.code, kept.result, time.perf_counter() - started_s)
        except Exception as error:
            log.exception("request code %d of %s: an error of ours", command.code, connection.peer)
            failed = command.answer(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
            frame = encode_command(failed)
            self._metrics.answered(command.code, failed.code, time.perf_counter() - started_s)
        finally:
            connection.reply_frame(command, frame)

"""Answer each request: a reading one from memory at once, a writing one as soon as Kafka has its record."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from namesrv_stream.access.rights import NotAllowedError
from namesrv_stream.gateway.answers import AnswerCache, KeptAnswer, Production
from namesrv_stream.gateway.authorization import Authorization
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.gateway.own_writes import until_read
from namesrv_stream.gateway.readers import READERS, no_route
from namesrv_stream.gateway.registering import KAFKA_IS_AWAY
from namesrv_stream.gateway.sending import Answer
from namesrv_stream.gateway.writes import HANDLERS, WriteHandler, refusal
from namesrv_stream.rules.lookup import waits_for_service
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.bodies import MAX_PROPERTIES_BYTES
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command, split_opaque

log = logging.getLogger(__name__)

Answering = Coroutine[Any, Any, Answer]


SIGNS_OF_LIFE = frozenset({RequestCode.REGISTER_BROKER, RequestCode.BROKER_HEARTBEAT, RequestCode.QUERY_DATA_VERSION})
"""The requests by which a broker shows that it lives."""

_LATER_S = 0.0007
"""Time of the event loop for a request that a task of its own answers, such as a large registration.

A small registration that is sent in full is charged as much, because it costs the job more than the gateway.
"""
_OF_SETTINGS_S_A_BYTE = 0.3e-6
"""Time of the event loop for a byte of settings: 5 ms for the largest text that is read."""


class Dispatcher:
    """Answers the requests of all connections. Lives in the event loop."""

    def __init__(
        self, answers: AnswerCache, writes: WriteHandler, metrics: Metrics, authorization: Authorization
    ) -> None:
        self._production = Production(answers.settings.product_env_name) if answers.settings.cluster_test else None
        self._answers = answers
        self._is_loading = True
        self.problem: Callable[[], str | None] = lambda: None
        """Returns why no snapshot can be read, which lookups are told before the first one; None: not known."""
        self._writes = writes
        self._metrics = metrics
        self._authorization = authorization
        self._started_s = time.perf_counter()
        self._tasks: set[asyncio.Task[Answer]] = set()
        self._scanning = asyncio.Lock()

    def serve(self, answers: AnswerCache) -> None:
        """Use these answers from now on. Before the first call every lookup is answered "name server not ready"."""
        self._answers = answers
        self._is_loading = False

    def known(self, content: bytes) -> bytes | None:
        """Return the answer to a frame whose like, but for the opaque, was answered from this snapshot before.

        Return None if there is none, or while any lookup has to wait (E12).
        """
        if not self._writes.own.is_empty or (split := split_opaque(content)) is None:
            return None
        kept = self._answers.known.get(split[0])
        if kept is None:
            return None
        self._metrics.answered(kept.code, kept.result, 0.0)
        return kept.prepared.frame(split[1])

    def answer(self, command: RemotingCommand, connection: Connection) -> bytes | None:
        """Return the answer's frame; None if it follows through `reply_frame`, or never (oneway)."""
        frame = self._handle(command, connection)
        return None if command.is_oneway else frame

    def _handle(self, command: RemotingCommand, connection: Connection) -> bytes | None:
        if command.code in self._authorization.checked:
            try:
                command = self._authorization.authorize(command, connection, self._answers.live)
            except NotAllowedError as error:
                return self._counted(command, command.answer(ResponseCode.NO_PERMISSION, str(error)))
        if command.code in SIGNS_OF_LIFE and self._writes.registering.is_kafka_away:
            # The broker then goes to another gateway.
            close = partial(connection.close_by_itself, KAFKA_IS_AWAY, is_logged=False)
            asyncio.get_running_loop().call_soon(close)
            return self._counted(command, command.answer(ResponseCode.SYSTEM_BUSY, KAFKA_IS_AWAY))
        if command.code in HANDLERS:
            return self._send_write(command, connection)
        if (read := self._writes.own.awaited(command, connection.number)) is not None:
            self._start(self._look_up_later(read, command), command, connection)
            return None
        return self._look_up(command, connection)

    def _look_up(self, command: RemotingCommand, connection: Connection) -> bytes | None:
        started_s, found = time.perf_counter(), self._find(command)
        if isinstance(found, KeptAnswer):
            if self._is_open_to(command.code):
                self._answers.learn(connection.content, command, found)
            return self._counted(command, found, started_s)
        self._start(found, command, connection, alone=command.code != RequestCode.GET_ROUTEINFO_BY_TOPIC)
        return None

    async def _look_up_later(self, read: asyncio.Future[None], command: RemotingCommand) -> Answer:
        """Answer a lookup once a snapshot has read this gateway's own write, or the limit is over (E12)."""
        await until_read(read)
        found = self._find(command)
        return found if isinstance(found, KeptAnswer) else await found

    def _find(self, command: RemotingCommand) -> KeptAnswer | Answering:
        """Return the answer to a lookup, or a coroutine for it: a list of all topics, or production's route (M9)."""
        if self._is_open_to(command.code) and self._answers.is_scan(command):
            return self._scanned(self._answers, command)
        kept = self._read(command)
        if self._production is not None and kept.result == ResponseCode.TOPIC_NOT_EXIST:
            return self._route_of(self._production, command)
        return kept

    def connection_lost(self, connection: Connection) -> None:
        """Note that the connection is lost: no more requests come over it."""
        self._writes.registering.connection_lost(connection)

    def _send_write(self, command: RemotingCommand, connection: Connection) -> bytes | None:
        """Send a writing request. Return its answer if Kafka already has its record or none is needed."""
        started_s = time.perf_counter()
        sent = self._writes.send_at_once(command, connection)
        if sent is None:
            self._start(self._writes.answered(command, connection), command, connection)
            return None
        if sent.is_logged:
            return self._counted(command, sent.answer(), started_s)
        assert sent.place is not None, "it would need no record"
        connection.track_pending(command, later_s=0.0 if sent.is_light else _LATER_S)
        sent.place.add_done_callback(partial(self._on_logged, command, connection, sent.answer, started_s))
        return None

    def _on_logged(
        self,
        command: RemotingCommand,
        connection: Connection,
        answer: Callable[[], Answer],
        started_s: float,
        place: asyncio.Future[LogPosition],
    ) -> None:
        error = place.exception()
        self._finish(command, connection, answer if error is None else partial(refusal, command, error), started_s)

    def _read(self, command: RemotingCommand) -> KeptAnswer:
        if not self._is_open_to(command.code):
            problem = self.problem()
            remark = f"name server not ready{f': {problem}' if problem else ''}"  # M5
            return KeptAnswer(command.code, command.answer(ResponseCode.SYSTEM_ERROR, remark))
        kept = self._answers.answer(command)
        if kept is None:
            remark = f" request type {command.code} not supported"
            return KeptAnswer(command.code, command.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark))
        return kept

    async def _scanned(self, answers: AnswerCache, command: RemotingCommand) -> KeptAnswer:
        """Return an answer that reads all topics. A thread makes it, one at a time and once for each snapshot."""
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

        No lookup may be answered before the tables have been read, and no route lookup before the time of
        needWaitForService is over.
        """
        if self._is_loading:
            return code not in READERS
        up_ms = int((time.perf_counter() - self._started_s) * 1000)
        return code != RequestCode.GET_ROUTEINFO_BY_TOPIC or not waits_for_service(self._answers.settings, up_ms)

    def _start(
        self, answering: Answering, command: RemotingCommand, connection: Connection, *, alone: bool = False
    ) -> None:
        is_of_settings = command.code == RequestCode.UPDATE_NAMESRV_CONFIG and len(command.body) <= MAX_PROPERTIES_BYTES
        later_s = _LATER_S + (_OF_SETTINGS_S_A_BYTE * len(command.body) if is_of_settings else 0)
        connection.track_pending(command, later_s=later_s, alone=alone)
        task = asyncio.ensure_future(answering)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        started_s = time.perf_counter()
        task.add_done_callback(lambda task: self._finish(command, connection, task.result, started_s))

    def _finish(
        self, command: RemotingCommand, connection: Connection, answer: Callable[[], Answer], started_s: float
    ) -> None:
        """Send the answer to a request that waited for it. An error of ours is answered too."""
        frame: bytes | None = None
        try:
            frame = self._counted(command, answer(), started_s)
        except asyncio.CancelledError:
            pass  # the event loop ends
        except Exception as error:
            log.exception("request code %d of %s: internal error", command.code, connection.peer)
            failed = command.answer(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
            frame = self._counted(command, failed, started_s)
        finally:
            connection.reply_frame(command, frame)

    def _counted(self, command: RemotingCommand, answer: Answer, started_s: float | None = None) -> bytes:
        """Count an answer, and return its frame."""
        seconds = 0.0 if started_s is None else time.perf_counter() - started_s
        if isinstance(answer, KeptAnswer):
            self._metrics.answered(command.code, answer.result, seconds)
            return answer.prepared.frame(command.opaque)
        self._metrics.answered(command.code, answer.code, seconds)
        return encode_command(answer)

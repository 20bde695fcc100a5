"""The writing requests: each becomes a record and is answered once Kafka has it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar

from namesrv_stream.config import ConfigBlackListError
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError
from namesrv_stream.gateway.answers import Answers, KeptAnswer
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.kafka_link import GatewayBusyError, KafkaLink
from namesrv_stream.gateway.ledger import Fingerprint, FullRegistration, Registered, Registrations, fingerprint
from namesrv_stream.records import encode_record
from namesrv_stream.rules.lookup import is_version_changed
from namesrv_stream.rules.requests import (
    MASTER_ID,
    AddWritePerm,
    BrokerHeartbeat,
    ChannelClosed,
    DataVersion,
    RegisterBroker,
    Request,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.bodies import decode_body, encode_body
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.command import RemotingCommand
from namesrv_stream.wire.errors import BadRequestError, MalformedBodyError
from namesrv_stream.wire.headers import (
    AddWritePermResponseHeader,
    BrokerHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerResponseHeader,
    WipeWritePermResponseHeader,
    header_fields,
    read_header,
)
from namesrv_stream.wire.requests import operator_command, register_broker, unregister_broker

log = logging.getLogger(__name__)

ANSWER_LIMIT_S = 2.5
"""A real broker gives a connection up whose answer takes 3 s."""

REGISTRATION_LIMIT_S = 22.0
"""Registrations alone are waited for longer: 24 s (B2)."""

SEND_AGAIN_AFTER_S = 10.0
"""For how long the snapshots must lack a connected broker. A broker that leaves tells its name servers one after the
other, and waits 3 s for each that is dead: it may be gone from the tables before it tells this one."""

LARGE_BODY_BYTES = 16 * 1024
MAX_BROKERS_OF_A_CONNECTION = 1_000

T = TypeVar("T")
Handler = Callable[["Writes", RemotingCommand, Connection], Awaitable[RemotingCommand]]


class TooManyBrokersError(BadRequestError):
    """More broker addresses over one connection than any broker container has."""

    def __init__(self) -> None:
        super().__init__(f"over {MAX_BROKERS_OF_A_CONNECTION} broker addresses registered over this connection")


class ConnectionLostError(BadRequestError):
    """A request whose turn came when its connection was lost: nobody hears this answer."""

    def __init__(self) -> None:
        super().__init__("the connection was lost")


class Writes:
    """Turns writing requests into records. Lives in the event loop.

    `gateway_id` is part of the channel ids in the records; `answers` is replaced with each snapshot.
    """

    def __init__(self, link: KafkaLink, gateway_id: str, reconcile_interval_ms: int, answers: Answers) -> None:
        self._link = link
        self._gateway_id = gateway_id
        self._answers = answers
        self._registrations = Registrations(reconcile_interval_ms)
        self._lost: set[str] = set()
        self._speaking: dict[str, Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self.is_stopping = False

    # --- requests

    async def answered(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """The answer, once there is one. Every error is an answer too."""
        try:
            return await HANDLERS[command.code](self, command, connection)
        except BadRequestError as error:
            return command.answer(ResponseCode.SYSTEM_ERROR, error.remark, _no_fields(command))
        except (KafkaUnreachableError, KafkaRefusedError, GatewayBusyError) as error:
            return _busy(command, error)

    def said_again(self, command: RemotingCommand, connection: Connection) -> asyncio.Future[LogPosition] | None:
        """The place of a registration that says nothing new, as most do; None for all that takes more than a send."""
        if not connection.is_answered or connection.order.locked():
            return None  # what the connection said before comes first
        address = (command.ext_fields or {}).get("brokerAddr", "")
        channel_id, now_ms = self._channel_id(connection), _now_ms()
        why = self._registrations.why_in_full(address, channel_id, fingerprint(command), self._answers, now_ms)
        if why is not None:
            return None
        try:
            place = self._link.send(BrokerHeartbeat(broker_addr=address, channel_id=channel_id))
        except NamesrvError:
            return None
        self._registrations.heard(address, channel_id, now_ms)
        return place

    def answer_to_registration(self, command: RemotingCommand, error: BaseException | None) -> KeptAnswer:
        """The answer to one that was said again, once its place or `error` is known."""
        address = (command.ext_fields or {}).get("brokerAddr", "")
        if error is not None:
            self._registrations.forget(address)
            return KeptAnswer(command.code, _busy(command, error))
        known = self._registrations.get(address)
        if known is None or known.head.broker_id == MASTER_ID:
            return self._answers.to_master
        return KeptAnswer(command.code, self._registration_answer(command, known.head))

    async def _register(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        address = (command.ext_fields or {}).get("brokerAddr", "")
        async with connection.order:
            head, place = await self._send_registration(address, command, connection)
        try:
            await self._in_log(place, REGISTRATION_LIMIT_S)
        except NamesrvError:
            self._registrations.forget(address)
            raise
        return self._registration_answer(command, head)

    async def _send_registration(
        self, address: str, command: RemotingCommand, connection: Connection
    ) -> tuple[RegisterBroker, asyncio.Future[LogPosition]]:
        said, channel_id, now_ms = fingerprint(command), self._channel_id(connection), _now_ms()
        why = self._registrations.why_in_full(address, channel_id, said, self._answers, now_ms)
        known = self._registrations.get(address)
        if why is None and known is not None:
            place = self._link.send(BrokerHeartbeat(broker_addr=address, channel_id=channel_id))
            self._registrations.heard(address, channel_id, now_ms)
            return known.head, place
        if not self._registrations.has_room(address, channel_id, MAX_BROKERS_OF_A_CONNECTION):
            raise TooManyBrokersError
        log.debug("%s registers in full: %s", address, why)
        request, part, record = await self._made(command, lambda: _read(command, channel_id))
        self._speaking[channel_id] = connection
        place = self._send_in_full(said, part, request, record)
        self._registrations.heard(address, channel_id, now_ms)
        return part.head, place

    def _send_in_full(
        self, said: Fingerprint, part: FullRegistration, request: RegisterBroker, record: bytes
    ) -> asyncio.Future[LogPosition]:
        """The ledger has the order of the log: it is told before anything else can be sent."""
        place = self._link.send(request, record)
        is_all = _topics_go(self._answers)
        self._registrations.sent_in_full(said, part, str(request.channel_id), _now_ms(), is_all=is_all)
        place.add_done_callback(partial(self._on_full_acknowledged, part))
        return place

    def _on_full_acknowledged(self, part: FullRegistration, done: asyncio.Future[LogPosition]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._registrations.forget(part.head.broker_addr)
        else:
            part.place = done.result()

    def _registration_answer(self, command: RemotingCommand, said: RegisterBroker) -> RemotingCommand:
        """R12, R13: of the newest snapshot. A registration that R6 refuses is told no master."""
        header = RegisterBrokerResponseHeader()
        if said.broker_id != MASTER_ID:
            holders = self._answers.tables.brokers.get(said.broker_name, {})
            master, former = holders.get(MASTER_ID), holders.get(said.broker_id)
            of_former = self._answers.live.get(former.broker_addr) if former else None
            is_refused = (
                of_former is not None
                and of_former.broker_addr != said.broker_addr
                and of_former.data_version.state_version > said.data_version.state_version
            )
            if master is not None and not is_refused:
                of_master = self._answers.live.get(master.broker_addr)
                header = RegisterBrokerResponseHeader(
                    master_addr=master.broker_addr, ha_server_addr=of_master.ha_server_addr if of_master else None
                )
        return command.answer(ext_fields=header_fields(header), body=self._answers.order_table)

    async def _unregister(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        request = unregister_broker(command)
        async with connection.order:
            self._registrations.forget(request.broker_addr)
            place = self._link.send(request)
        await self._in_log(place)
        return command.answer()

    async def _query_data_version(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        address = read_header(command, BrokerHeader).broker_addr
        version = await self._made(command, lambda: decode_body(command.body or b"{}", DataVersion))
        await self._sign_of_life(address, connection)
        header = QueryDataVersionResponseHeader(changed=is_version_changed(self._answers.tables, address, version))
        live = self._answers.live.get(address)
        body = encode_body(live.data_version) if live else b""
        return command.answer(ext_fields=header_fields(header), body=body)

    async def _heartbeat(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        await self._sign_of_life(read_header(command, BrokerHeader).broker_addr, connection)
        return command.answer()

    async def _sign_of_life(self, address: str, connection: Connection) -> None:
        """L2: of a broker that anybody knows; nothing goes on Kafka for others."""
        if self._registrations.get(address) is None and address not in self._answers.live:
            return
        async with self._turn(connection) as channel_id:
            self._registrations.heard(address, channel_id, _now_ms())
            place = self._link.send(BrokerHeartbeat(broker_addr=address, channel_id=channel_id))
        await self._in_log(place)

    async def _operate(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        async with connection.order:
            request = await self._made(command, lambda: operator_command(command, requested_by=connection.peer))
            place = self._link.send(request)
        await self._in_log(place)
        match request:
            case WipeWritePerm(broker_name=name):
                header = WipeWritePermResponseHeader(wipe_topic_count=self._answers.topic_count(name))
                return command.answer(ext_fields=header_fields(header))
            case AddWritePerm(broker_name=name):
                added = AddWritePermResponseHeader(add_topic_count=self._answers.topic_count(name))
                return command.answer(ext_fields=header_fields(added))
        return command.answer()

    async def _update_config(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """A5, by the list of what can change at run time."""
        try:
            request = await self._made(command, lambda: operator_command(command, requested_by=connection.peer))
            assert isinstance(request, UpdateNamesrvConfig), "the code says so"
            changes = self._answers.settings.live_changes(request.properties)
        except MalformedBodyError:
            return command.answer(ResponseCode.SYSTEM_ERROR, "string2Properties error")
        except ConfigBlackListError:
            return command.answer(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        if changes:
            await self._in_log(self._link.send(request))
        return command.answer()

    # --- what happens besides requests

    def follow(self, answers: Answers) -> None:
        """A newer snapshot. Connected brokers that it lacks, and goes on lacking, are registered again."""
        if _topics_go(answers) != _topics_go(self._answers):
            self._registrations.forget_all()  # the same registration comes to something else from now on
        self._answers = answers
        for address in self._registrations.lost(answers, _now_ms()):
            if address not in self._lost:
                self._lost.add(address)
                self._loop.call_later(SEND_AGAIN_AFTER_S, self._on_still_lacking, address)

    def _on_still_lacking(self, address: str) -> None:
        self._lost.discard(address)
        if not self.is_stopping:
            self._start(self._send_again(address))

    async def _send_again(self, address: str) -> None:
        """All parts at once, unless the address has said something meanwhile or is gone."""
        known = self._registrations.lost_by(address, self._answers, _now_ms())
        if known is None:
            return
        channel_id = max(known.channels)
        connection = self._speaking[channel_id]
        try:
            async with self._turn(connection):
                again = await self._link.aside(lambda: _read_again(known, channel_id), known.held_bytes)
                if self._registrations.lost_by(address, self._answers, _now_ms()) is known:
                    log.warning("%s is connected and not in the tables: its registration is sent again", address)
                    for said, part, request, record in again:
                        self._send_in_full(said, part, request, record)
        except NamesrvError as error:
            self._registrations.forget(address)
            log.warning("%s is not sent again: %s", address, error)

    def connection_lost(self, connection: Connection) -> None:
        """L6. A gateway that stops says nothing: its brokers are at others, or back within their timeout."""
        if not self.is_stopping:
            self._start(self._tell_lost(connection))

    async def _tell_lost(self, connection: Connection) -> None:
        async with connection.order:
            channel_id = self._channel_id(connection)
            self._speaking.pop(channel_id, None)
            for address in self._registrations.closed(channel_id):
                try:
                    self._link.send(ChannelClosed(broker_addr=address, channel_id=channel_id))
                except NamesrvError as error:
                    log.warning("connection of %s lost, its lease runs to its end: %s", address, error)

    async def put(self, request: Request) -> None:
        """One record of the gateway's own; returns when Kafka has it."""
        await self._link.send(request)

    @asynccontextmanager
    async def _turn(self, connection: Connection) -> AsyncIterator[str]:
        """For what may come late to a channel, whose id this gives: never after the end of the channel was told."""
        async with connection.order:
            if connection.is_lost:
                raise ConnectionLostError
            yield self._channel_id(connection)

    async def _made(self, command: RemotingCommand, make: Callable[[], T]) -> T:
        """What `make` reads out of a request: off the event loop where the body, or what it inflates to, is large."""
        may_inflate = command.code == RequestCode.REGISTER_BROKER and command.body[:1] not in (b"", b"{")
        if may_inflate or len(command.body) > LARGE_BODY_BYTES:
            return await self._link.aside(make, len(command.body))
        return make()

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _channel_id(self, connection: Connection) -> str:
        return f"{self._gateway_id}/{connection.number}"

    async def _in_log(self, place: asyncio.Future[LogPosition], limit_s: float = ANSWER_LIMIT_S) -> None:
        """Returns once Kafka has the record. It may still get there after KafkaUnreachableError is raised here."""
        timer = self._loop.call_later(limit_s, self._give_up, place, limit_s)
        try:
            await place
        finally:
            timer.cancel()

    def _give_up(self, place: asyncio.Future[LogPosition], limit_s: float) -> None:
        if not place.done():
            place.set_exception(KafkaUnreachableError(self._link.address, f"no answer within {limit_s:g} s"))


def _read(command: RemotingCommand, channel_id: str) -> tuple[RegisterBroker, FullRegistration, bytes]:
    read = register_broker(command, channel_id)
    return read, FullRegistration.of(command, read), encode_record(read)


def _topics_go(answers: Answers) -> bool:
    """T5: a registration takes the topics away that it does not name."""
    return answers.settings.delete_topic_with_broker_registration


def _read_again(
    known: Registered, channel_id: str
) -> list[tuple[Fingerprint, FullRegistration, RegisterBroker, bytes]]:
    requests = [(said, part, register_broker(part.registration(), channel_id)) for said, part in known.parts.items()]
    return [(said, part, request, encode_record(request)) for said, part, request in requests]


def _no_fields(command: RemotingCommand) -> dict[str, str] | None:
    """As in RocketMQ, an error has the empty fields of its answer's header class."""
    return {} if command.code in _CODES_WITH_FIELDS else None


def _busy(command: RemotingCommand, error: BaseException) -> RemotingCommand:
    return command.answer(ResponseCode.SYSTEM_BUSY, f"[REJECTREQUEST]{error}", _no_fields(command))


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


HANDLERS: Final[Mapping[int, Handler]] = {
    RequestCode.REGISTER_BROKER: Writes._register,
    RequestCode.UNREGISTER_BROKER: Writes._unregister,
    RequestCode.QUERY_DATA_VERSION: Writes._query_data_version,
    RequestCode.BROKER_HEARTBEAT: Writes._heartbeat,
    RequestCode.UPDATE_NAMESRV_CONFIG: Writes._update_config,
    RequestCode.PUT_KV_CONFIG: Writes._operate,
    RequestCode.DELETE_KV_CONFIG: Writes._operate,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: Writes._operate,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: Writes._operate,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: Writes._operate,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: Writes._operate,
}
_CODES_WITH_FIELDS = frozenset(
    {
        RequestCode.REGISTER_BROKER,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
    }
)

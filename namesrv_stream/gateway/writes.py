"""The way of a writing request, from its command to its answer.

1. A registration that the tables show is sent as a light heartbeat and not decoded (`registering.py`). 2. Any other
request is decoded: in the event loop, or in another process if that takes long. 3. Its handler in `HANDLERS` hands a
record to Kafka, and says what the answer will be (`SentRequest`). 4. It is answered once Kafka has the record.

`send_at_once` takes the first three steps in the turn in which the request comes, as for most requests. `answered`
takes them in a task: after earlier requests of the connection, for large bodies, and for what meets an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from namesrv_stream.config import ConfigBlackListError
from namesrv_stream.errors import BadRequestError, KafkaRefusedError, KafkaUnreachableError
from namesrv_stream.gateway.answers import AnswerCache
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.kafka_link import GatewayBusyError
from namesrv_stream.gateway.known_brokers import AddressTakenError
from namesrv_stream.gateway.own_writes import OwnWrites
from namesrv_stream.gateway.registering import RegistrationHandler
from namesrv_stream.gateway.sending import Answer, InLog, KafkaSender, SentRequest
from namesrv_stream.reporting.texts import broker_text
from namesrv_stream.rules.commands import holder_of
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    Command,
    DataVersion,
    RetireBroker,
    UnregisterBroker,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.wire.bodies import decode_body, encode_body
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.frame import LARGE_BODY_BYTES
from namesrv_stream.wire.headers import BrokerHeader, read_names
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.write_requests import operator_command, unregister_broker

MAX_AT_ONCE_BYTES = 256 * 1024
"""Limit of a registration's body that is decoded in the turn in which it comes.

1,500 topics take 0.6 ms. Over LARGE_BODY_BYTES only bodies that decode quickly are (`only_quick`); the slowest one
found takes 3.3 ms.
"""

Handler = Callable[["WriteHandler", RemotingCommand, Any, Connection], SentRequest]


class WriteHandler:
    """Sends the writing requests of all connections. Lives in the event loop.

    `answers` is replaced with each snapshot.
    """

    def __init__(self, sending: KafkaSender, reconcile_interval_ms: int, answers: AnswerCache) -> None:
        self._sending = sending
        self._link = sending.link
        self._answers = answers
        self.own = OwnWrites(answers)
        self.registering = RegistrationHandler(sending, reconcile_interval_ms, answers, self.own)

    def send_at_once(self, command: RemotingCommand, connection: Connection) -> SentRequest | None:
        """Send a request in the turn in which it came.

        Return None and send nothing if `answered` has to handle the request: earlier requests of the connection wait,
        its body takes long to decode, or there is an error.
        """
        if not connection.has_no_pending or connection.order.locked():
            return None
        limit_bytes = MAX_AT_ONCE_BYTES if command.code == RequestCode.REGISTER_BROKER else LARGE_BODY_BYTES
        try:
            return self._send(command, connection, limit_bytes)
        except Exception:  # also an internal error: `answered` meets it again, and its caller logs and answers it
            return None

    async def answered(self, command: RemotingCommand, connection: Connection) -> Answer:
        """Send a request, and return its answer. A bad request and a record that fails are answered too."""
        try:
            async with connection.order:
                sent = await self._send_in_order(command, connection)
            if sent.place is not None:
                await sent.place
            return sent.answer()
        except BadRequestError as error:
            connection.complain(str(error))
            if isinstance(error, AddressTakenError):
                self.registering.taken.warn(error)
            return refusal(command, error)
        except (GatewayBusyError, KafkaUnreachableError, KafkaRefusedError) as error:
            if isinstance(error, GatewayBusyError):
                connection.complain(str(error))
            if command.code == RequestCode.REGISTER_BROKER:
                self.registering.note_not_sent(command)
            return refusal(command, error)

    def _send(self, command: RemotingCommand, connection: Connection, limit_bytes: int) -> SentRequest | None:
        """Send a request now; return None if its body has to be decoded in another process."""
        if command.code == RequestCode.REGISTER_BROKER:
            if (light := self.registering.send_light(command, connection)) is not None:
                return light
            if command.body and not command.body.startswith(b"{"):
                return None  # it may be compressed, and inflate to anything
        if len(command.body) > limit_bytes:
            return None
        is_large = len(command.body) > LARGE_BODY_BYTES
        if is_large:
            self._link.check_room(len(command.body), connection.host)
        decode = self._decoding(command, connection, only_quick=is_large)
        return self._handle(command, decode(), connection)

    async def _send_in_order(self, command: RemotingCommand, connection: Connection) -> SentRequest:
        """Send a request while the order of its connection is held. A taken address is looked at twice (D14)."""
        try:
            return self._send(command, connection, LARGE_BODY_BYTES) or await self._send_aside(command, connection)
        except AddressTakenError as error:
            if not await self.registering.taken.recheck_after_snapshot(error):
                raise
        return self._send(command, connection, LARGE_BODY_BYTES) or await self._send_aside(command, connection)

    async def _send_aside(self, command: RemotingCommand, connection: Connection) -> SentRequest:
        decode = self._decoding(command, connection)
        return self._handle(
            command, await self._sending.decoded_aside(decode, len(command.body), connection), connection
        )

    def _decoding(
        self, command: RemotingCommand, connection: Connection, *, only_quick: bool = False
    ) -> Callable[[], Any]:
        """Return a function that decodes a request, in this or another process. Raises BadRequestError."""
        if command.code == RequestCode.REGISTER_BROKER:
            return self.registering.decoding(command, connection, only_quick=only_quick)
        return partial(_DECODERS.get(command.code, operator_command), command)

    def _handle(self, command: RemotingCommand, content: Any, connection: Connection) -> SentRequest:
        sent = HANDLERS[command.code](self, command, content, connection)
        if sent.place is not None and not sent.is_logged and command.code != RequestCode.REGISTER_BROKER:
            self._sending.limit(sent.place)  # a registration has none: its broker waits longer than Kafka's client
        return sent

    # --- handlers

    def _register(self, command: RemotingCommand, content: Any, connection: Connection) -> SentRequest:
        return self.registering.send_in_full(command, content, connection)

    def _unregister(self, command: RemotingCommand, request: UnregisterBroker, connection: Connection) -> SentRequest:
        return SentRequest(self.registering.unregister(request, connection), command.answer)

    def _heartbeat(self, command: RemotingCommand, header: BrokerHeader, connection: Connection) -> SentRequest:
        return SentRequest(self.registering.heartbeat(header, connection), command.answer, is_light=True)

    def _query_data_version(
        self, command: RemotingCommand, asked: tuple[BrokerHeader, DataVersion], connection: Connection
    ) -> SentRequest:
        place = self.registering.heartbeat(asked[0], connection)
        return SentRequest(place, partial(self._answer_to_query, command, *asked), is_light=True)

    def _answer_to_query(self, command: RemotingCommand, asking: BrokerHeader, version: DataVersion) -> RemotingCommand:
        address = asking.broker_addr
        is_other = self.registering.is_other_than_the_holder(asking)
        changed = is_other or self.registering.is_in_doubt(address) or self._answers.is_changed(asking, version)
        live = self._answers.live.get(address)
        body = encode_body(live.data_version) if live else b""
        return command.answer(ext_fields={"changed": "true" if changed else "false"}, body=body)

    def _operate(self, command: RemotingCommand, request: Command, connection: Connection) -> SentRequest:
        request = replace(request, requested_by=request.requested_by or connection.peer)
        place = self._link.send(request, host=connection.host)
        place.add_done_callback(partial(self._on_commanded, request, connection.number))
        return SentRequest(place, partial(self._answer_to_operator, command, request))

    def _on_commanded(self, request: Command, connection: int, done: InLog) -> None:
        if not done.cancelled() and done.exception() is None:
            self.own.commanded(request, connection, done.result())

    def _answer_to_operator(self, command: RemotingCommand, request: Command) -> RemotingCommand:
        if isinstance(request, WipeWritePerm | AddWritePerm):
            count = "wipeTopicCount" if isinstance(request, WipeWritePerm) else "addTopicCount"
            return command.answer(ext_fields={count: str(self._answers.topic_count(request.broker_name))})
        return command.answer()

    def _update_config(
        self, command: RemotingCommand, request: UpdateNamesrvConfig, connection: Connection
    ) -> SentRequest:
        """Change settings (A5). If one of them may not change at run time, refuse all of them."""
        try:
            changes = self._answers.settings.live_changes(request.properties)
        except ConfigBlackListError as error:
            return SentRequest(None, partial(command.answer, ResponseCode.NO_PERMISSION, error.remark))
        return self._operate(command, request, connection) if changes else SentRequest(None, command.answer)

    def _retire(self, command: RemotingCommand, request: RetireBroker, connection: Connection) -> SentRequest:
        """Retire a broker, unless the newest snapshot has a holder of its id (A7)."""
        holders = self._answers.tables.brokers.get(request.broker_name, {})
        if holder := holder_of(request, holders.get(request.broker_id)):
            broker = broker_text(request.broker_name, request.broker_id)
            remark = f"{broker} is up at {holder}. Only a broker that is down can be retired."
            return SentRequest(None, partial(command.answer, ResponseCode.SYSTEM_ERROR, remark))
        return self._operate(command, request, connection)

    # --- what happens besides requests

    def follow(self, answers: AnswerCache) -> None:
        """Answer from a newer snapshot."""
        self._answers = answers
        self.own.follow(answers)
        self.registering.follow(answers)


def refusal(command: RemotingCommand, error: BaseException) -> RemotingCommand:
    """Return the answer to a request that is not in the log. A broker that gets SYSTEM_BUSY tries again.

    The fields are empty if the answer has a header class, as in RocketMQ, else None.
    """
    fields: dict[str, str] | None = {} if command.code in _CODES_WITH_FIELDS else None
    if isinstance(error, BadRequestError):
        return command.answer(ResponseCode.SYSTEM_ERROR, error.remark, fields)
    return command.answer(ResponseCode.SYSTEM_BUSY, f"[REJECTREQUEST]{error}", fields)


def _decode_header(command: RemotingCommand) -> BrokerHeader:
    return read_names(command, BrokerHeader)


def _decode_query(command: RemotingCommand) -> tuple[BrokerHeader, DataVersion]:
    return _decode_header(command), decode_body(command.body or b"{}", DataVersion)


_DECODERS: Final[Mapping[int, Callable[[RemotingCommand], Any]]] = {
    RequestCode.UNREGISTER_BROKER: unregister_broker,
    RequestCode.QUERY_DATA_VERSION: _decode_query,
    RequestCode.BROKER_HEARTBEAT: _decode_header,
}
"""Functions that decode a request; for all other codes this is `operator_command`."""

HANDLERS: Final[Mapping[int, Handler]] = {
    RequestCode.REGISTER_BROKER: WriteHandler._register,
    RequestCode.UNREGISTER_BROKER: WriteHandler._unregister,
    RequestCode.QUERY_DATA_VERSION: WriteHandler._query_data_version,
    RequestCode.BROKER_HEARTBEAT: WriteHandler._heartbeat,
    RequestCode.UPDATE_NAMESRV_CONFIG: WriteHandler._update_config,
    RequestCode.RETIRE_BROKER: WriteHandler._retire,
    RequestCode.PUT_KV_CONFIG: WriteHandler._operate,
    RequestCode.DELETE_KV_CONFIG: WriteHandler._operate,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: WriteHandler._operate,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: WriteHandler._operate,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: WriteHandler._operate,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: WriteHandler._operate,
}
_CODES_WITH_FIELDS = frozenset(
    {
        RequestCode.REGISTER_BROKER,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.ADD_WRITE_PERM_OF_BROKER,
    }
)

"""The writing requests: each becomes a record, and is answered once Kafka has the record.

A sign of life whose record is sent later (`heartbeats.py`) is answered by the record before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from namesrv_stream.config import ConfigBlackListError
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError
from namesrv_stream.gateway.answers import Answers
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.kafka_link import GatewayBusyError
from namesrv_stream.gateway.own_writes import OwnWrites
from namesrv_stream.gateway.registering import Registering, busy
from namesrv_stream.gateway.registrations import Registrations
from namesrv_stream.gateway.sending import Sending
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    DataVersion,
    Request,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.wire.bodies import decode_body, encode_body
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.headers import (
    AddWritePermResponseHeader,
    BrokerHeader,
    QueryDataVersionResponseHeader,
    WipeWritePermResponseHeader,
    header_fields,
    read_names,
)
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.wire_errors import BadRequestError, MalformedBodyError
from namesrv_stream.wire.write_requests import operator_command

Handler = Callable[["Writes", RemotingCommand, Connection], Awaitable[RemotingCommand]]


class Writes:
    """Turns writing requests into records. Lives in the event loop.

    `answers` is replaced with each snapshot.
    """

    def __init__(self, sending: Sending, reconcile_interval_ms: int, answers: Answers) -> None:
        self._sending = sending
        self._link = sending.link
        self._answers = answers
        self._registrations = Registrations(reconcile_interval_ms)
        self.own = OwnWrites(answers)
        self.registering = Registering(self._sending, self._registrations, answers, self.own)

    # --- requests

    async def answered(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Handle a request and return its answer. A bad request and a record that fails are answered too."""
        try:
            return await HANDLERS[command.code](self, command, connection)
        except BadRequestError as error:
            connection.complain(str(error))
            return command.answer(ResponseCode.SYSTEM_ERROR, error.remark, _no_fields(command))
        except GatewayBusyError as error:
            connection.complain(str(error))
            return busy(command, error, _no_fields(command))
        except (KafkaUnreachableError, KafkaRefusedError) as error:
            return busy(command, error, _no_fields(command))

    async def _register(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return await self.registering.register(command, connection)

    async def _unregister(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        async with connection.order:
            place = self.registering.unregister(command, connection)
        await self._sending.in_log(place)
        return command.answer()

    async def _query_data_version(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        asking = read_names(command, BrokerHeader)
        read = partial(decode_body, command.body or b"{}", DataVersion)
        version = await self._sending.made(command, connection, read)
        await self._sign_of_life(asking.broker_addr, connection)
        is_in_doubt = self._registrations.is_in_doubt(asking.broker_addr, self._answers)
        changed = is_in_doubt or self._answers.is_changed(asking, version)
        live = self._answers.live.get(asking.broker_addr)
        body = encode_body(live.data_version) if live else b""
        return command.answer(ext_fields=header_fields(QueryDataVersionResponseHeader(changed=changed)), body=body)

    async def _heartbeat(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        await self._sign_of_life(read_names(command, BrokerHeader).broker_addr, connection)
        return command.answer()

    async def _sign_of_life(self, address: str, connection: Connection) -> None:
        """Send a heartbeat for a broker that is known (L2); send nothing for others."""
        if not self.registering.is_known(address):
            return
        async with self._sending.turn(connection):
            place = self.registering.sign_of_life(address, connection)
        await self._sending.in_log(place)

    async def _operate(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        async with connection.order:
            read = partial(operator_command, command, requested_by=connection.peer)
            request = await self._sending.made(command, connection, read)
            place = self._link.send(request, host=connection.host)
        await self._sending.in_log(place)
        self.own.commanded(request, connection.number, place.result())
        match request:
            case WipeWritePerm(broker_name=name):
                header = WipeWritePermResponseHeader(wipe_topic_count=self._answers.topic_count(name))
                return command.answer(ext_fields=header_fields(header))
            case AddWritePerm(broker_name=name):
                added = AddWritePermResponseHeader(add_topic_count=self._answers.topic_count(name))
                return command.answer(ext_fields=header_fields(added))
        return command.answer()

    async def _update_config(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Change settings (A5). If one of them may not change at run time, refuse all of them."""
        try:
            read = partial(operator_command, command, requested_by=connection.peer)
            request = await self._sending.made(command, connection, read)
            assert isinstance(request, UpdateNamesrvConfig), "the code says so"
            changes = self._answers.settings.live_changes(request.properties)
        except MalformedBodyError:
            return command.answer(ResponseCode.SYSTEM_ERROR, "string2Properties error")
        except ConfigBlackListError as error:
            return command.answer(ResponseCode.NO_PERMISSION, error.remark)
        if changes:
            await self._sending.in_log(self._link.send(request, host=connection.host))
        return command.answer()

    # --- what happens besides requests

    def follow(self, answers: Answers) -> None:
        """Answer from a newer snapshot."""
        self._answers = answers
        self.own.follow(answers)
        self.registering.follow(answers)

    def stop(self) -> None:
        """Send no more records for lost connections or lost brokers.

        So no lease ends with this gateway: its brokers are at other gateways, or back within their timeout.
        """
        self.registering.stop()

    def connection_lost(self, connection: Connection) -> None:
        """Start to send CHANNEL_CLOSED for the brokers of the connection (L6), unless the gateway stops."""
        if not self.registering.is_stopping:
            self._sending.start(self.registering.connection_lost(connection))

    async def put(self, request: Request) -> None:
        """Send a record of the gateway's own; return when Kafka has it."""
        await self._link.send(request)


def _no_fields(command: RemotingCommand) -> dict[str, str] | None:
    """Return the fields of an error: empty if the answer has a header class, as in RocketMQ, else None."""
    return {} if command.code in _CODES_WITH_FIELDS else None


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

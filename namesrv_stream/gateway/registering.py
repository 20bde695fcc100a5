"""Sends registrations to Kafka, in full or as a light heartbeat (E10), and answers them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from namesrv_stream.errors import KafkaUnreachableError, NamesrvError
from namesrv_stream.gateway.answers import Answers, KeptAnswer
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.connection_log import BrokerLog
from namesrv_stream.gateway.heartbeats import Heartbeats, InLog
from namesrv_stream.gateway.kafka_link import GatewayBusyError
from namesrv_stream.gateway.own_writes import OwnWrites
from namesrv_stream.gateway.registrations import (
    MAX_BROKERS_OF_A_CONNECTION,
    MAX_BROKERS_OF_A_HOST,
    Registrations,
    Unread,
    token_of,
)
from namesrv_stream.gateway.sending import Sending, is_read_at_once
from namesrv_stream.gateway.taken_addresses import TakenAddresses
from namesrv_stream.records import encode_record
from namesrv_stream.rules.record_types import (
    MASTER_ID,
    MAX_HEARTBEAT_TIMEOUT_MS,
    ChannelClosed,
    RegisterBroker,
)
from namesrv_stream.rules.registration import RegisterReply, reply
from namesrv_stream.wire.codes import ResponseCode
from namesrv_stream.wire.frame import LARGE_BODY_BYTES
from namesrv_stream.wire.headers import BrokerHeader, RegisterBrokerResponseHeader, header_fields, read_names
from namesrv_stream.wire.registration_request import DEFAULT_LIMITS, BodyLimits
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.wire_errors import BadRequestError
from namesrv_stream.wire.write_requests import read_registration, unregister_broker

log = logging.getLogger(__name__)

REGISTRATION_LIMIT_S = 22.0
"""Limit of the wait for Kafka. It is longer than for other requests: a broker waits 24 s for its registration (B2)."""

MAX_AT_ONCE_BYTES = 256 * 1024
"""Limit of a registration's body that is decoded in the turn in which it comes. 1,500 topics take 0.6 ms."""

_AT_ONCE_LIMITS = BodyLimits(only_quick=True)
"""Limits of a body that is large, and is decoded at once all the same. The slowest that was found takes 3.3 ms."""

_MOST_TOPICS_WAITED_FOR = 12_000
"""Topics of a registration for which lookups may wait (E12): to find those that are new keeps the event loop busy."""

_MOST_NAMED = 3
"""Topics that one line of the log names."""

_AT_A_TIME = 20
"""Pace of what is done for thousands of brokers at once: the event loop answers others in between."""


KAFKA_IS_AWAY = "Kafka is away, so its brokers have to use another gateway"

_NOT_SENT = (KafkaUnreachableError, GatewayBusyError)


class TooManyBrokersError(BadRequestError):
    """Too many broker addresses over one connection, more than any broker container has, or from one host."""

    def __init__(self) -> None:
        super().__init__(
            f"over {MAX_BROKERS_OF_A_CONNECTION} broker addresses registered over this connection, or over "
            f"{MAX_BROKERS_OF_A_HOST} from this host"
        )


class _Read(NamedTuple):
    """A decoded registration: `head` without its topics, its record, its topics, and those left out (R1a)."""

    head: RegisterBroker
    record: bytes
    topics: tuple[str, ...]
    left_out: tuple[str, ...]


class Registering:
    """Sends and answers the registrations and other signs of life of brokers. Lives in the event loop."""

    def __init__(self, sending: Sending, registrations: Registrations, answers: Answers, own: OwnWrites) -> None:
        self._sending = sending
        self._own = own
        self._registrations = registrations
        self._answers = answers
        self._heartbeats = Heartbeats(sending)
        self._speaking: dict[str, Connection] = {}
        self._taken = TakenAddresses(sending, self._speaking)
        self._broker_log = BrokerLog(sending.loop)
        self.is_kafka_away = False
        self.is_stopping = False

    # --- requests

    def send_light(self, command: RemotingCommand, connection: Connection) -> InLog | None:
        """Send a registration that the tables show, as most do, as a heartbeat. Return its future place in the log.

        Return None if it is to be sent in full, or earlier requests of the connection go first.
        """
        if _has_earlier_requests(connection):
            return None
        try:
            return self._light(command, connection)
        except NamesrvError:
            return None  # `register` meets it again, and its caller answers it

    def send_at_once(self, command: RemotingCommand, connection: Connection) -> InLog | None:
        """Send a master's registration in full, in the turn in which it came. Return its future place in the log.

        Return None, and send nothing, if `register` has to handle it: the body is compressed or would take the event
        loop too long, earlier requests wait, the sender is a slave, whose answer names its master, or the registration
        cannot be sent.
        """
        if not _is_of_master(command) or _has_earlier_requests(connection):
            return None
        if not is_read_at_once(command, MAX_AT_ONCE_BYTES):
            return None
        if not self._sending.link.has_room(connection.host, len(command.body)):
            return None
        limits = DEFAULT_LIMITS if len(command.body) <= LARGE_BODY_BYTES else _AT_ONCE_LIMITS
        try:
            return self._full(self._reading(command, connection, limits)(), connection)
        except Exception:  # also an error of ours: `register` meets it again, and its caller logs and answers it
            return None

    async def register(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Send a registration, and return its answer once Kafka has it or, if it is thinned, the record before it.

        Raises NamesrvError.
        """
        async with connection.order:
            place = self._light(command, connection)
            head = self._shown_head(broker_address(command))
            if place is None:
                head, place = await self._read_and_sent(command, connection)
        await self._sending.in_log(place, REGISTRATION_LIMIT_S)
        return self._answer(command, head)

    async def _read_and_sent(self, command: RemotingCommand, connection: Connection) -> tuple[RegisterBroker, InLog]:
        reading = self._reading(command, connection, DEFAULT_LIMITS)
        try:
            read = await self._sending.made(command, connection, reading)
            return read.head, self._full(read, connection)
        except _NOT_SENT:
            self._registrations.failed(broker_address(command), self._answers)
            raise

    def answer_to_registration(self, command: RemotingCommand, error: BaseException | None) -> KeptAnswer:
        """Return the answer to a registration that `send_light` or `send_at_once` has sent.

        `error`: None if Kafka has taken it.
        """
        if error is not None:
            return KeptAnswer(command.code, busy(command, error, {}))
        if _is_of_master(command):
            return self._answers.to_master
        return KeptAnswer(command.code, self._answer(command, self._shown_head(broker_address(command))))

    def _light(self, command: RemotingCommand, connection: Connection) -> InLog | None:
        """Send a light heartbeat in place of a registration if that is enough (E10)."""
        address, now_ms = broker_address(command), self._sending.now_ms
        why = self._registrations.why_in_full(address, token_of(command), self._answers, now_ms)
        if why is not None:
            log.debug("%s registers in full: %s", address, why)
            return None
        is_first = self._is_first(address, connection)
        place = self.sign_of_life(address, connection)
        if is_first and (head := self._shown_head(address)) is not None:
            self._broker_log.came(head, connection)
        return place

    def _reading(self, command: RemotingCommand, connection: Connection, limits: BodyLimits) -> Callable[[], _Read]:
        """Return what decodes a registration, which may be run in another process. Raises BadRequestError."""
        address, channel_id = broker_address(command), self._sending.channel_id(connection)
        if not self._registrations.has_room(address, channel_id, connection.host):
            raise TooManyBrokersError
        self._taken.refuse(command, connection, self._answers)
        return partial(_decode, command, channel_id, limits)

    def _full(self, read: _Read, connection: Connection) -> InLog:
        """Send a registration in full."""
        address, channel_id = read.head.broker_addr, self._sending.channel_id(connection)
        if read.left_out:
            connection.note_left_out(address, ", ".join(ascii(name[:100]) for name in read.left_out))
        place = self._sending.link.send(read.head, read.record, connection.host)
        unread = self._registrations.sent_in_full(read.head, self._sending.now_ms)
        topics = self._own.not_awaited(read.topics)
        shown = self._answers.tables.queues.settings_on(read.head.broker_name, topics)
        new_topics = [topic for topic, known in zip(topics, shown, strict=True) if known is None]
        place.add_done_callback(partial(self._on_full_acknowledged, unread, address, new_topics))
        if self._is_first(address, connection):
            self._broker_log.came(read.head, connection)
        self._note_sign_of_life(address, connection)
        self._heartbeats.sent(address, channel_id, place)
        return place

    def _on_full_acknowledged(self, unread: Unread, address: str, new_topics: list[str], done: InLog) -> None:
        if done.cancelled() or done.exception() is not None:
            self._registrations.failed(address, self._answers)
        else:
            unread.place = done.result()
            self._own.registered(new_topics, unread.place)

    def is_thinned(self, command: RemotingCommand, connection: Connection) -> bool:
        """Take a BROKER_HEARTBEAT that needs no record now, which most do not. It may be answered at once.

        Return False for any other: `Writes` handles it.
        """
        if _has_earlier_requests(connection):
            return False
        try:
            address = read_names(command, BrokerHeader).broker_addr
        except BadRequestError:
            return False
        channel_id, host = self._sending.channel_id(connection), connection.host
        if not self.is_known(address) or not self._registrations.has_room(address, channel_id, host):
            return False
        if not self._heartbeats.thin(address, channel_id, self._timeout_ms(address), host):
            return False
        self._note_sign_of_life(address, connection)
        return True

    def is_known(self, address: str) -> bool:
        """See `Registrations.is_known`."""
        return self._registrations.is_known(address, self._answers)

    def sign_of_life(self, address: str, connection: Connection) -> InLog:
        """Send a light heartbeat, now or later. Return the future by which the broker may be answered.

        The address `is_known`. Raises NamesrvError.
        """
        channel_id = self._sending.channel_id(connection)
        if not self._registrations.has_room(address, channel_id, connection.host):
            raise TooManyBrokersError
        place = self._heartbeats.send(address, channel_id, self._timeout_ms(address), connection.host)
        self._note_sign_of_life(address, connection)
        return place

    def _note_sign_of_life(self, address: str, connection: Connection) -> None:
        channel_id = self._sending.channel_id(connection)
        self._speaking[channel_id] = connection
        self._registrations.note_sign_of_life(address, channel_id, self._timeout_ms(address), connection.host)

    def _is_first(self, address: str, connection: Connection) -> bool:
        """Return whether no sign of life of the address has come over this connection."""
        return address not in self._registrations.timeouts_of(self._sending.channel_id(connection))

    def _shown_head(self, address: str) -> RegisterBroker | None:
        """Return a broker's last registration without its topics, as far as it is in the log or in the tables."""
        if (head := self._registrations.unread_head(address)) is not None:
            return head
        lease = self._answers.live.get(address)
        if lease is None:
            return None
        return RegisterBroker(
            cluster_name=lease.cluster_name,
            broker_name=lease.broker_name,
            broker_id=lease.broker_id,
            broker_addr=address,
            heartbeat_timeout_millis=lease.heartbeat_timeout_millis,
            data_version=lease.data_version,
        )

    def _timeout_ms(self, address: str) -> int:
        """Return the timeout of a lease: the shorter one, if a registration on its way has another."""
        head, lease = self._registrations.unread_head(address), self._answers.live.get(address)
        own_ms = head.timeout_ms if head is not None else MAX_HEARTBEAT_TIMEOUT_MS
        return min(own_ms, lease.heartbeat_timeout_millis) if lease is not None else own_ms

    def unregister(self, command: RemotingCommand, connection: Connection) -> InLog:
        """Send an unregistration, and forget the signs of life that wait. Raises NamesrvError."""
        request = unregister_broker(command)
        address = request.broker_addr
        self._heartbeats.forget(address)
        self._broker_log.unregisters(address, self._answers.live.get(address))
        place = self._sending.link.send(request, host=connection.host)
        place.add_done_callback(partial(_note_place, self._registrations.sent_unregistration(address)))
        return place

    def _answer(self, command: RemotingCommand, head: RegisterBroker | None) -> RemotingCommand:
        """Answer a registration from the newest snapshot (R6, R12, R13). `head`: None if its lease has just ended."""
        answer = RegisterReply() if head is None else reply(self._answers.tables, self._answers.settings, head)
        header = RegisterBrokerResponseHeader(master_addr=answer.master_addr, ha_server_addr=answer.ha_server_addr)
        return command.answer(ext_fields=header_fields(header), body=self._answers.order_table)

    # --- what happens besides requests

    def follow(self, answers: Answers) -> None:
        """Answer from a newer snapshot."""
        self._answers = answers
        self._registrations.follow(answers)

    def note_kafka(self, *, is_away: bool) -> None:
        """Note whether Kafka is away. While it is, close the connections of all brokers, so that they go elsewhere."""
        self.is_kafka_away = is_away
        if is_away:
            for connection in list(self._speaking.values()):
                connection.close_by_itself(KAFKA_IS_AWAY)

    def close_expired(self) -> None:
        """Close silent connections whose brokers all have expired, as a NameServer's scan does.

        The newest snapshot has no lease of them, and the silence is longer than their timeouts.
        """
        for channel_id, connection in list(self._speaking.items()):
            timeouts = self._registrations.timeouts_of(channel_id)
            if timeouts and self._answers.live.keys().isdisjoint(timeouts):
                timeout_ms = max(timeouts.values())
                if connection.silent_s * 1_000 > timeout_ms:
                    connection.close_by_itself(f"its brokers have expired: silent for over {timeout_ms / 1_000:g} s")

    def stop(self) -> None:
        """Send no more records for lost connections or lost brokers, and at once the signs of life that wait.

        So no lease ends with this gateway.
        """
        self.is_stopping = True
        self._heartbeats.send_all()

    async def connection_lost(self, connection: Connection) -> None:
        """Send a CHANNEL_CLOSED record for each broker of the connection (L6), after all records of its requests.

        A connection that this gateway closed by itself ends no lease: send only the sign of life that waits (D13).
        """
        async with connection.order:
            channel_id = self._sending.channel_id(connection)
            self._speaking.pop(channel_id, None)
            for number, address in enumerate(self._registrations.closed(channel_id), 1):
                if number % _AT_A_TIME == 0:
                    await asyncio.sleep(0)
                self._broker_log.lost(address, self._answers.live.get(address), connection)
                if not connection.ends_leases:
                    self._heartbeats.send_waiting(address, channel_id)
                self._heartbeats.closed(address, channel_id)
                if connection.ends_leases:
                    self._send_closed(address, channel_id, connection)

    def _send_closed(self, address: str, channel_id: str, connection: Connection) -> None:
        try:
            closed = ChannelClosed(broker_addr=address, channel_id=channel_id)
            place = self._sending.link.send(closed, host=connection.host)
            place.add_done_callback(partial(_note_place, self._registrations.sent_closed(address)))
        except NamesrvError as error:
            log.warning("connection of %s lost, its lease runs to its end: %s", address, error)


def broker_address(command: RemotingCommand) -> str:
    """Return the address that a registration names; empty if it names none, which decoding it refuses."""
    return (command.ext_fields or {}).get("brokerAddr", "")


def _decode(command: RemotingCommand, channel_id: str, limits: BodyLimits) -> _Read:
    """Decode a registration and encode its record. Raises BadRequestError; BodyTooLargeError beyond the limits."""
    request, left_out = read_registration(command, channel_id, limits)
    request = replace(request, token=token_of(command))
    topics = tuple(request.topic_config_table)
    return _Read(
        head=replace(request, topic_config_table={}, topic_queue_mapping_info_map={}, requested_by=None),
        record=encode_record(request),
        topics=topics if len(topics) <= _MOST_TOPICS_WAITED_FOR else (),
        left_out=left_out[:_MOST_NAMED],
    )


def _note_place(unread: Unread, done: InLog) -> None:
    if not done.cancelled() and done.exception() is None:
        unread.place = done.result()


def _is_of_master(command: RemotingCommand) -> bool:
    return (command.ext_fields or {}).get("brokerId") == str(MASTER_ID)


def _has_earlier_requests(connection: Connection) -> bool:
    """Return whether earlier requests of the connection are still to be sent or answered: they go first."""
    return not connection.is_answered or connection.order.locked()


def busy(command: RemotingCommand, error: BaseException, fields: dict[str, str] | None = None) -> RemotingCommand:
    """Return SYSTEM_BUSY, the answer on which a broker tries again."""
    return command.answer(ResponseCode.SYSTEM_BUSY, f"[REJECTREQUEST]{error}", fields)

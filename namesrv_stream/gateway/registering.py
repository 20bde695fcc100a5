"""Sends registrations to Kafka, in full or as a light heartbeat, and answers them."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError
from namesrv_stream.gateway.answers import Answers
from namesrv_stream.gateway.body_processes import ReadingProcessLostError
from namesrv_stream.gateway.broker_log import BrokerLog
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.full_or_light import (
    MAX_AT_ONCE_BYTES,
    Decision,
    FullOrLight,
    TooManyBrokersError,
    broker_address,
)
from namesrv_stream.gateway.heartbeats import Heartbeats
from namesrv_stream.gateway.kafka_link import GatewayBusyError, NoTurnError
from namesrv_stream.gateway.kept_answers import KeptAnswer
from namesrv_stream.gateway.ledger import Fingerprint, FullRegistration, Registrations, fingerprint
from namesrv_stream.gateway.own_writes import OwnWrites
from namesrv_stream.gateway.resending import Resending
from namesrv_stream.gateway.sending import Sending, is_read_at_once
from namesrv_stream.rules.registration import reply
from namesrv_stream.rules.requests import MASTER_ID, MAX_HEARTBEAT_TIMEOUT_MS, ChannelClosed, RegisterBroker
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.codes import ResponseCode
from namesrv_stream.wire.command import RemotingCommand
from namesrv_stream.wire.errors import BadRequestError
from namesrv_stream.wire.headers import BrokerHeader, RegisterBrokerResponseHeader, header_fields, read_names

log = logging.getLogger(__name__)

REGISTRATION_LIMIT_S = 22.0
"""Limit of the wait for Kafka. It is longer than for other requests: a broker waits 24 s for its registration (B2)."""

_AT_A_TIME = 20
"""Pace of what is done for thousands of brokers at once: the event loop answers others in between."""


KAFKA_IS_AWAY = "Kafka is away, so its brokers have to use another gateway"

_NOT_IN_LOG = (KafkaUnreachableError, KafkaRefusedError, GatewayBusyError, NoTurnError, ReadingProcessLostError)


class Registering:
    """Sends each registration as `FullOrLight` decides, and answers it. Lives in the event loop."""

    def __init__(self, sending: Sending, registrations: Registrations, answers: Answers, own: OwnWrites) -> None:
        self._sending = sending
        self._own = own
        self._registrations = registrations
        self._answers = answers
        self._heartbeats = Heartbeats(sending)
        self._speaking: dict[str, Connection] = {}
        self._full_or_light = FullOrLight(sending, registrations, answers, self._speaking)
        self._resending = Resending(sending, registrations, self._speaking, self._send_in_full, answers)
        self._broker_log = BrokerLog(sending.loop)
        self.is_kafka_away = False

    @property
    def is_stopping(self) -> bool:
        """True once the gateway stops."""
        return self._resending.is_stopping

    # --- requests

    def send_unchanged(self, command: RemotingCommand, connection: Connection) -> asyncio.Future[LogPosition] | None:
        """Send an unchanged registration, which most are, as a heartbeat. Return its future place in the log.

        Return None if one send is not enough: `register` handles such a registration.
        """
        if _has_earlier_requests(connection):
            return None
        address = broker_address(command)
        if self._full_or_light.why_in_full(address, fingerprint(command), connection) is not None:
            return None
        try:
            return self.sign_of_life(address, connection)
        except NamesrvError:
            return None

    def send_at_once(self, command: RemotingCommand, connection: Connection) -> asyncio.Future[LogPosition] | None:
        """Send a master's registration that says something new, in the turn in which it came.

        Return its future place in the log. Return None, and send nothing, if `register` has to handle it: the body is
        compressed or would take the event loop too long, earlier requests wait, the sender is a slave, whose answer
        names its master, or the registration cannot be sent.
        """
        if not _is_of_master(command) or _has_earlier_requests(connection):
            return None
        if not is_read_at_once(command, MAX_AT_ONCE_BYTES):
            return None
        if not self._sending.link.has_room(connection.host, len(command.body)):
            return None
        try:
            decision = self._full_or_light.decide_at_once(command, connection)
        except Exception:  # also an error of ours: `register` meets it again, and its caller logs and answers it
            return None
        try:
            return None if decision is None else self._send_decided(decision, connection)
        except NamesrvError:
            return None

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
        """Return whether the ledger or the newest snapshot has the address: others have no signs of life (L2)."""
        return self._registrations.get(address) is not None or address in self._answers.live

    def answer_to_registration(self, command: RemotingCommand, error: BaseException | None) -> KeptAnswer:
        """Return the answer to a registration that `send_unchanged` or `send_at_once` has sent.

        `error`: None if Kafka has taken it.
        """
        address = broker_address(command)
        if error is not None:
            self._registrations.forget(address)
            return KeptAnswer(command.code, busy(command, error, {}))
        known = self._registrations.get(address)
        if known is None or _is_of_master(command):
            return self._answers.to_master
        return KeptAnswer(command.code, self._answer(command, known.head))

    async def register(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Send a registration, and return its answer once Kafka has it or, if it is thinned, the record before it.

        Raises NamesrvError.
        """
        address = broker_address(command)
        place: asyncio.Future[LogPosition] | None = None
        try:
            async with connection.order:
                decision = await self._full_or_light.decide(command, connection)
                place = self._send_decided(decision, connection)
            await self._sending.in_log(place, REGISTRATION_LIMIT_S)
        except _NOT_IN_LOG:
            self._registrations.failed(address, self._answers, was_sent=place is not None)
            raise
        return self._answer(command, decision.head)

    def _send_decided(self, decision: Decision, connection: Connection) -> asyncio.Future[LogPosition]:
        head, identity, part, record, why = decision
        address = head.broker_addr
        if part is None:
            return self.sign_of_life(address, connection)
        channel_id = self._sending.channel_id(connection)
        if part.left_out:
            names = ", ".join(ascii(name[:100]) for name in part.left_out)
            connection.note_left_out(address, names)
        topics, part.topics = part.topics, ()
        if record is None:
            log.debug("%s registers what epoch %d shows", address, self._answers.epoch)
            part.was_published = True
            place = self.sign_of_life(address, connection)
            self._note(identity, part, channel_id, place)
            return place
        place = self._send_in_full(identity, part, channel_id, record)
        known = self._answers.tables.queues
        place.add_done_callback(partial(self._on_acknowledged, [topic for topic in topics if topic not in known]))
        log.debug("%s registers in full: %s", address, why)
        if not self._registrations.has_sign_of_life(address, channel_id):
            self._broker_log.came(address, f"{head.broker_name} {head.broker_id}", connection)
        self._note_sign_of_life(address, connection)
        self._heartbeats.sent(address, channel_id, place)
        return place

    def sign_of_life(self, address: str, connection: Connection) -> asyncio.Future[LogPosition]:
        """Send a light heartbeat, now or later. Return the future by which the broker may be answered.

        The ledger or the newest snapshot has the address. Raises NamesrvError.
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
        self._registrations.note_sign_of_life(address, channel_id, self._sending.now_ms, connection.host)

    def _timeout_ms(self, address: str) -> int:
        """Return the timeout of a lease: the shorter one, if ledger and snapshot have different ones."""
        known, lease = self._registrations.get(address), self._answers.live.get(address)
        own_ms = known.head.timeout_ms if known is not None else MAX_HEARTBEAT_TIMEOUT_MS
        return min(own_ms, lease.heartbeat_timeout_millis) if lease is not None else own_ms

    def left(self, address: str) -> None:
        """Forget all of an address, because it unregisters, and log that it leaves."""
        self._registrations.forget(address)
        self._heartbeats.forget(address)
        self._broker_log.unregisters(address, self._answers.live.get(address))

    def _send_in_full(
        self, identity: Fingerprint, part: FullRegistration, channel_id: str, record: bytes
    ) -> asyncio.Future[LogPosition]:
        """Send a full registration, and record it in the ledger before anything else can be sent.

        So the ledger has the order of the log.
        """
        place = self._sending.link.send(part.head, record, part.host)
        self._note(identity, part, channel_id, place)
        return place

    def _note(
        self, identity: Fingerprint, part: FullRegistration, channel_id: str, place: asyncio.Future[LogPosition]
    ) -> None:
        """Record in the ledger what was sent for a full registration, and later its place in the log."""
        is_all = self._answers.topics_go
        self._registrations.sent_in_full(identity, part, channel_id, self._sending.now_ms, is_all=is_all)
        place.add_done_callback(partial(self._on_full_acknowledged, part))

    def _on_full_acknowledged(self, part: FullRegistration, done: asyncio.Future[LogPosition]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._registrations.failed(part.head.broker_addr, self._answers)
        else:
            part.place = done.result()

    def _on_acknowledged(self, new_topics: list[str], done: asyncio.Future[LogPosition]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._own.registered(new_topics, done.result())

    def _answer(self, command: RemotingCommand, request: RegisterBroker) -> RemotingCommand:
        """Answer a registration from the newest snapshot (R6, R12, R13)."""
        answer = reply(self._answers.tables, self._answers.settings, request)
        header = RegisterBrokerResponseHeader(master_addr=answer.master_addr, ha_server_addr=answer.ha_server_addr)
        return command.answer(ext_fields=header_fields(header), body=self._answers.order_table)

    # --- what happens besides requests

    def follow(self, answers: Answers) -> None:
        """Answer from a newer snapshot. Connected brokers that it lacks are sent again later."""
        if answers.topics_go != self._answers.topics_go:
            self._registrations.forget_all()  # the same registration has another effect now
        self._answers = self._full_or_light.answers = answers
        self._resending.follow(answers)

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
            addresses = self._registrations.addresses_of(channel_id)
            if addresses and self._answers.live.keys().isdisjoint(addresses):
                timeout_ms = max(map(self._timeout_ms, addresses))
                if connection.silent_s * 1_000 > timeout_ms:
                    connection.close_by_itself(f"its brokers have expired: silent for over {timeout_ms / 1_000:g} s")

    def stop(self) -> None:
        """Send no more records for lost connections or lost brokers, and at once the signs of life that wait.

        So no lease ends with this gateway.
        """
        self._resending.is_stopping = True
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
            self._sending.link.send(ChannelClosed(broker_addr=address, channel_id=channel_id), host=connection.host)
        except NamesrvError as error:
            log.warning("connection of %s lost, its lease runs to its end: %s", address, error)


def _is_of_master(command: RemotingCommand) -> bool:
    return (command.ext_fields or {}).get("brokerId") == str(MASTER_ID)


def _has_earlier_requests(connection: Connection) -> bool:
    """Return whether earlier requests of the connection are still to be sent or answered: they go first."""
    return not connection.is_answered or connection.order.locked()


def busy(command: RemotingCommand, error: BaseException, fields: dict[str, str] | None = None) -> RemotingCommand:
    """Return SYSTEM_BUSY, the answer on which a broker tries again."""
    return command.answer(ResponseCode.SYSTEM_BUSY, f"[REJECTREQUEST]{error}", fields)

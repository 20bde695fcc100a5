"""Send the registrations and other signs of life of brokers, and the ends of their connections, to Kafka.

A light heartbeat replaces a registration if the newest snapshot, or this gateway's last record of the broker, has its
token (E10). Any other registration is sent in full. Of all signs of life of a broker the log gets one in a quarter of
the lease (`heartbeats.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from namesrv_stream.errors import BadRequestError, NamesrvError
from namesrv_stream.gateway.answers import AnswerCache
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.heartbeats import Heartbeats
from namesrv_stream.gateway.known_brokers import (
    MAX_BROKERS_OF_A_CONNECTION,
    MAX_BROKERS_OF_A_HOST,
    KnownBrokers,
    TakenAddresses,
    Unread,
    token_of,
)
from namesrv_stream.gateway.own_writes import OwnWrites
from namesrv_stream.gateway.sending import Answer, InLog, KafkaSender, SentRequest
from namesrv_stream.gateway.shared_addresses import SharedAddresses
from namesrv_stream.records import encode_record
from namesrv_stream.reporting.texts import broker_text, duration_text
from namesrv_stream.rules.addresses import is_announced_in_vain
from namesrv_stream.rules.record_types import (
    MASTER_ID,
    MAX_HEARTBEAT_TIMEOUT_MS,
    ChannelClosed,
    RegisterBroker,
    UnregisterBroker,
)
from namesrv_stream.rules.registration import RegisterReply, reply
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.wire.headers import BrokerHeader
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.write_requests import read_registration

log = logging.getLogger(__name__)

_MAX_TOPICS_WAITED_FOR = 12_000
"""Most topics of a registration for which lookups may wait (E12): finding the new ones takes the event loop's time."""

_MAX_NAMED = 3
"""Topics that one line of the log names."""

_AT_A_TIME = 20
"""Number of brokers, of thousands, that one step handles. The event loop answers others between two steps."""

KAFKA_IS_AWAY = "this gateway cannot reach Kafka; brokers have to use another gateway"


class DecodedRegistration(NamedTuple):
    """A decoded registration: `head` without its topics, its record, its topics, and those left out (R1a)."""

    head: RegisterBroker
    record: bytes
    topics: tuple[str, ...]
    left_out: tuple[str, ...]


class RegistrationHandler:
    """Sends the records about the brokers of one gateway. Lives in the event loop."""

    def __init__(self, sending: KafkaSender, reconcile_interval_ms: int, answers: AnswerCache, own: OwnWrites) -> None:
        self._sending = sending
        self._own = own
        self._known = KnownBrokers(reconcile_interval_ms)
        self._answers = answers
        self._heartbeats = Heartbeats(sending)
        self._speaking: dict[str, Connection] = {}
        self.taken = TakenAddresses(sending, own, self._speaking)
        self._shared = SharedAddresses()
        self._ends: set[asyncio.Task[None]] = set()
        self._newest: tuple[RemotingCommand | None, str] = None, ""  # a registration and its token
        self.is_kafka_away = False
        self.is_stopping = False

    # --- registrations

    def send_light(self, command: RemotingCommand, connection: Connection) -> SentRequest | None:
        """Send a light heartbeat in place of a registration. Raises NamesrvError.

        Return None if the registration has to be sent in full (E10).
        """
        address, why = _broker_address(command), self._why_in_full(command)
        if why is not None:
            log.debug("%s registers in full: %s", address, why)
            return None
        is_first = self._is_first(address, connection)
        place = self.sign_of_life(address, connection)
        if is_first and (head := self._shown_head(address)) is not None:
            _log_came(head, connection)
        self._sending.on_registration(None)
        return SentRequest(place, partial(self._answer, command), is_light=True)

    def decoding(
        self, command: RemotingCommand, connection: Connection, *, only_quick: bool
    ) -> Callable[[], DecodedRegistration]:
        """Return a function that decodes a registration, in this or another process. Raises BadRequestError."""
        channel_id = self._sending.channel_id(connection)
        self._check_room(_broker_address(command), channel_id, connection.host)
        self.taken.check(self._answers, command, connection)
        is_vain = is_announced_in_vain(_broker_address(command), connection.host)
        return partial(
            _decode, command, self._token(command), channel_id, connection.peer if is_vain else None, only_quick
        )

    def send_in_full(
        self, command: RemotingCommand, decoded: DecodedRegistration, connection: Connection
    ) -> SentRequest:
        """Send a registration in full. Raises NamesrvError."""
        head, address = decoded.head, decoded.head.broker_addr
        if decoded.left_out:
            connection.note_left_out(address, ", ".join(ascii(name[:100]) for name in decoded.left_out))
        why = self._known.why_in_full(address, head.token or "", self._answers, self._sending.now_ms)
        place = self._sending.link.send(head, decoded.record, connection.host)
        self._sending.on_registration(why or "shown meanwhile")
        unread = self._known.note_sent_in_full(head, self._sending.now_ms)
        topics = self._own.not_awaited(decoded.topics)
        shown = self._answers.tables.queues.settings_on(head.broker_name, topics)
        new_topics = [topic for topic, known in zip(topics, shown, strict=True) if known is None]
        place.add_done_callback(partial(self._on_full_acknowledged, unread, address, new_topics))
        if self._is_first(address, connection):
            _log_came(head, connection)
            if is_announced_in_vain(address, connection.host):
                log.warning("%s connects from %s: other machines cannot reach the address that it announces. Set "
                            "brokerIP1.", _named(head), connection.peer, extra={"address": address})  # fmt: skip
        channel_id = self._sending.channel_id(connection)
        self._note_sign_of_life(address, channel_id, self._timeout_ms(address), connection)
        self._heartbeats.sent(address, channel_id, place)
        return SentRequest(place, partial(self._answer, command, head))

    def _on_full_acknowledged(self, unread: Unread, address: str, new_topics: list[str], done: InLog) -> None:
        if done.cancelled() or done.exception() is not None:
            self._known.note_failed(address, self._answers)
        else:
            unread.place = done.result()
            self._own.registered(new_topics, unread.place)

    def note_not_sent(self, command: RemotingCommand) -> None:
        """Note that a registration could not be sent.

        If it had to be sent in full, the broker's next one has to be too.
        """
        if self._why_in_full(command) is not None:
            self._known.note_failed(_broker_address(command), self._answers)

    def _why_in_full(self, command: RemotingCommand) -> str | None:
        address, token = _broker_address(command), self._token(command)
        return self._known.why_in_full(address, token, self._answers, self._sending.now_ms)

    def _token(self, command: RemotingCommand) -> str:
        """Return the token of a registration, which is made once for its whole way."""
        if self._newest[0] is not command:
            self._newest = command, token_of(command)
        return self._newest[1]

    def _answer(self, command: RemotingCommand, head: RegisterBroker | None = None) -> Answer:
        """Answer a registration from the newest snapshot (R6, R12, R13). `head`: None if it was not decoded."""
        if (command.ext_fields or {}).get("brokerId") == str(MASTER_ID):
            return self._answers.to_master
        head = head or self._shown_head(_broker_address(command))
        answer = RegisterReply() if head is None else reply(self._answers.tables, self._answers.settings, head)
        fields = {"masterAddr": answer.master_addr, "haServerAddr": answer.ha_server_addr}
        set_fields = {name: value for name, value in fields.items() if value is not None}
        return command.answer(ext_fields=set_fields, body=self._answers.order_table)

    def _shown_head(self, address: str) -> RegisterBroker | None:
        """Return a broker's last registration without its topics, as far as it is in the log or in the tables.

        Return None if its lease has just ended.
        """
        if (head := self._known.unread_head(address)) is not None:
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

    def _check_room(self, address: str, channel_id: str, host: str) -> None:
        """Raise BadRequestError if the connection or host would have more addresses than its limit."""
        if not self._known.has_room(address, channel_id, host):
            raise BadRequestError(
                f"over {MAX_BROKERS_OF_A_CONNECTION} broker addresses over this connection, or over "
                f"{MAX_BROKERS_OF_A_HOST} from this host. Use further connections or hosts."
            )

    # --- other signs of life, and ends

    def heartbeat(self, header: BrokerHeader, connection: Connection) -> InLog | None:
        """Send a light heartbeat for a broker's request, as `sign_of_life`, but none if it names another broker (D14).

        So a broker under a new name does not keep the lease alive that stands in its way.
        """
        return None if self.is_other_than_the_holder(header) else self.sign_of_life(header.broker_addr, connection)

    def is_other_than_the_holder(self, header: BrokerHeader) -> bool:
        """Return whether a request names another cluster or broker name than its address has registered under."""
        address = header.broker_addr
        holder = self._known.unread_head(address) or self._answers.live.get(address)
        return holder is not None and (
            (header.cluster_name or holder.cluster_name) != holder.cluster_name
            or (header.broker_name or holder.broker_name) != holder.broker_name
        )

    def sign_of_life(self, address: str, connection: Connection) -> InLog | None:
        """Send a light heartbeat, now or later. Return the future by which the broker may be answered.

        Return None for an address that has no lease: nothing is sent for it (L2). Raises NamesrvError.
        """
        if not self._known.is_known(address, self._answers):
            return None
        channel_id, timeout_ms = self._sending.channel_id(connection), self._timeout_ms(address)
        self._check_room(address, channel_id, connection.host)
        place = self._heartbeats.send(address, channel_id, timeout_ms, connection.host)
        self._note_sign_of_life(address, channel_id, timeout_ms, connection)
        return place

    def _note_sign_of_life(self, address: str, channel_id: str, timeout_ms: int, connection: Connection) -> None:
        self._speaking[channel_id] = connection
        self._known.note_sign_of_life(address, channel_id, timeout_ms, connection.host)
        if self._known.connections_of(address) > 1:
            self._shared.note(address, self._holder(address), connection, self._sending.now_ms)
        else:
            self._shared.forget(address)

    def _is_first(self, address: str, connection: Connection) -> bool:
        """Return whether no sign of life of the address has come over this connection."""
        return address not in self._known.timeouts_of(self._sending.channel_id(connection))

    def _timeout_ms(self, address: str) -> int:
        """Return the timeout of a lease: the shorter one if a registration on its way has another timeout."""
        head, lease = self._known.unread_head(address), self._answers.live.get(address)
        own_ms = head.timeout_ms if head is not None else MAX_HEARTBEAT_TIMEOUT_MS
        return min(own_ms, lease.heartbeat_timeout_millis) if lease is not None else own_ms

    def is_in_doubt(self, address: str) -> bool:
        """See `KnownBrokers.is_in_doubt`."""
        return self._known.is_in_doubt(address, self._answers)

    def unregister(self, request: UnregisterBroker, connection: Connection) -> InLog:
        """Send an unregistration, and forget the signs of life that wait. Raises NamesrvError."""
        address = request.broker_addr
        self._heartbeats.forget(address)
        connection.log_line(logging.INFO, f"{self._holder(address)} unregisters", address)
        place = self._sending.link.send(request, host=connection.host)
        place.add_done_callback(partial(_note_place, self._known.note_sent_unregistration(address)))
        return place

    def connection_lost(self, connection: Connection) -> None:
        """Begin to send CHANNEL_CLOSED for its brokers (L6), unless the gateway stops."""
        if not self.is_stopping:
            task = asyncio.ensure_future(self._end(connection))
            self._ends.add(task)
            task.add_done_callback(self._ends.discard)

    async def _end(self, connection: Connection) -> None:
        """Send a CHANNEL_CLOSED record for each broker of the connection, after all records of its requests.

        If this gateway closed the connection by itself, no lease ends: send only the signs of life that wait (D13).
        """
        async with connection.order:
            channel_id = self._sending.channel_id(connection)
            self._speaking.pop(channel_id, None)
            for number, address in enumerate(self._known.forget_channel(channel_id), 1):
                self._shared.forget(address)
                if number % _AT_A_TIME == 0:
                    await asyncio.sleep(0)
                if connection.loss != KAFKA_IS_AWAY:  # one line for all of them
                    age = duration_text(int(connection.age_s * 1000))
                    lost = f"{self._holder(address)} disconnected after {age}: {connection.loss}"
                    connection.log_line(logging.INFO, lost, address)
                if not connection.ends_leases:
                    self._heartbeats.send_waiting(address, channel_id)
                self._heartbeats.closed(address, channel_id)
                if connection.ends_leases:
                    self._send_closed(address, channel_id, connection)

    def _holder(self, address: str) -> str:
        lease = self._answers.live.get(address)
        return address if lease is None else _named(lease)

    def _send_closed(self, address: str, channel_id: str, connection: Connection) -> None:
        try:
            closed = ChannelClosed(broker_addr=address, channel_id=channel_id)
            place = self._sending.link.send(closed, host=connection.host)
            place.add_done_callback(partial(_note_place, self._known.note_sent_closed(address)))
        except NamesrvError as error:
            log.warning("cannot report to the job that %s disconnected: %s Its lease ends after its timeout.",
                        address, error)  # fmt: skip

    # --- what happens besides requests

    def follow(self, answers: AnswerCache) -> None:
        """Answer from a newer snapshot."""
        self._answers = answers
        self._known.follow(answers)

    def note_kafka(self, *, is_away: bool) -> int:
        """Note whether Kafka is away.

        While it is, close the connections of all brokers, so that they use other gateways, and return their number.
        """
        self.is_kafka_away = is_away
        speaking = list(self._speaking.values()) if is_away else []
        for connection in speaking:
            connection.close_by_itself(KAFKA_IS_AWAY, is_logged=False)
        return len(speaking)

    def close_expired(self) -> None:
        """Close silent connections whose brokers all have expired, as a NameServer's scan does.

        The newest snapshot has no lease of them, and the silence is longer than their timeouts.
        """
        for channel_id, connection in list(self._speaking.items()):
            timeouts = self._known.timeouts_of(channel_id)
            if timeouts and self._answers.live.keys().isdisjoint(timeouts):
                timeout_ms = max(timeouts.values())
                if connection.silent_s * 1_000 > timeout_ms:
                    connection.close_by_itself(f"its brokers expired after over {timeout_ms / 1_000:g} s of silence")

    def stop(self) -> None:
        """Send the signs of life that wait at once, and no more records for lost connections.

        So no lease ends with this gateway: its brokers go to other gateways, or are back within their timeout.
        """
        self.is_stopping = True
        self._heartbeats.send_all()


def _broker_address(command: RemotingCommand) -> str:
    """Return the address that a registration names; empty if it names none, so that decoding will refuse it."""
    return (command.ext_fields or {}).get("brokerAddr", "")


def _decode(
    command: RemotingCommand, token: str, channel_id: str, peer: str | None, only_quick: bool
) -> DecodedRegistration:
    """Decode a registration and encode its record. Raises BadRequestError.

    `peer`: from where a broker connects that announces an address in vain; the history has it as the sender.
    """
    request, left_out = read_registration(command, channel_id, only_quick=only_quick)
    request = replace(request, token=token, requested_by=request.requested_by or (peer and f"@{peer}"))
    topics = tuple(request.topic_config_table)
    return DecodedRegistration(
        head=replace(request, topic_config_table={}, topic_queue_mapping_info_map={}, requested_by=None),
        record=encode_record(request),
        topics=topics if len(topics) <= _MAX_TOPICS_WAITED_FOR else (),
        left_out=left_out[:_MAX_NAMED],
    )


def _named(broker: RegisterBroker | LiveRow) -> str:
    return f"{broker_text(broker.broker_name, broker.broker_id)} ({broker.broker_addr})"


def _log_came(head: RegisterBroker, connection: Connection) -> None:
    """Log that a broker sends its first registration over a connection."""
    connection.log_line(
        logging.INFO, f"{_named(head)} registers over the connection of {connection.peer}", head.broker_addr
    )


def _note_place(unread: Unread, done: InLog) -> None:
    if not done.cancelled() and done.exception() is None:
        unread.place = done.result()

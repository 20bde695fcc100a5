"""Decides for each registration whether its whole record goes to Kafka or a light heartbeat."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec

from namesrv_stream.gateway.answers import Answers
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.ledger import (
    MAX_BROKERS_OF_A_CONNECTION,
    MAX_BROKERS_OF_A_HOST,
    Fingerprint,
    FullRegistration,
    Registrations,
    fingerprint,
)
from namesrv_stream.gateway.sending import Sending
from namesrv_stream.records import encode_record
from namesrv_stream.rules.registration import changes_nothing
from namesrv_stream.rules.requests import RegisterBroker
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.wire.command import RemotingCommand
from namesrv_stream.wire.errors import BadRequestError, BodyTooLargeError, TooManyValuesError
from namesrv_stream.wire.frame import LARGE_BODY_BYTES
from namesrv_stream.wire.registration import DEFAULT_LIMITS, BodyLimits
from namesrv_stream.wire.requests import read_registration

log = logging.getLogger(__name__)

SPEAKS_WITHIN_MS = 45_000
"""A broker that was heard so long before the newest snapshot lives: the log has a sign of life every 30 to 35 s."""

_WARNED_EVERY_MS = 60_000
"""Pause between two warnings of addresses that two brokers announce."""

MAX_COMPARED_BYTES = 2 * 1024 * 1024
"""Limit of a body, inflated, that is decoded in this process. 10,000 topics take 1.7 MB, and lookups wait for 5 ms."""

_MOST_TOPICS_WAITED_FOR = 12_000
"""Topics of a registration for which lookups may wait (E12): to find those that are new keeps the event loop busy."""

_MOST_NAMED = 3
"""Topics that one line of the log names."""

_BYTES_A_VALUE = 10
"""A body of over 64 KiB with fewer bytes for each JSON value is not compared.

2 MiB of `[],` would take 70 ms. Topics have 14 or more, static topics with very many queues fewer.
"""

MAX_AT_ONCE_BYTES = 256 * 1024
"""Limit of a registration's body that is decoded in the turn in which it comes. 1,500 topics take 0.6 ms."""

_AT_ONCE_LIMITS = BodyLimits(only_quick=True)
"""Limits of a body that is large, and is decoded at once all the same. The slowest that was found takes 3.3 ms."""


class TooManyBrokersError(BadRequestError):
    """Too many broker addresses over one connection, more than any broker container has, or from one host."""

    def __init__(self) -> None:
        super().__init__(
            f"over {MAX_BROKERS_OF_A_CONNECTION} broker addresses registered over this connection, or over "
            f"{MAX_BROKERS_OF_A_HOST} from this host"
        )


class AddressTakenError(BadRequestError):
    """Another broker process, which lives, has registered the same address under another name or cluster (D14)."""

    def __init__(self, lease: LiveRow, other: str, peer: str) -> None:
        super().__init__(
            f"{lease.broker_addr} is the address of {lease.broker_name} in {lease.cluster_name}, alive ({other}), "
            f"and the broker at {peer} announces it too: set brokerIP1 of both to addresses of their own"
        )


class Decision(NamedTuple):
    """The way in which one registration is sent: in full if it has a `record`, else as a light heartbeat.

    `part`: what the ledger has to note; None if it has this registration already. `why`: the reason why the ledger
    alone did not allow a light heartbeat.
    """

    head: RegisterBroker
    identity: Fingerprint
    part: FullRegistration | None = None
    record: bytes | None = None
    why: str | None = None


class _Undecided(NamedTuple):
    """A registration that has to be decoded, because the ledger alone does not allow a light heartbeat."""

    identity: Fingerprint
    why: str | None

    def decision(self, part: FullRegistration, record: bytes | None) -> Decision:
        return Decision(part.head, self.identity, part, record, self.why)


class FullOrLight:
    """Decides by the ledger first, and then by the newest snapshot, which `answers` has. Lives in the event loop."""

    def __init__(
        self,
        sending: Sending,
        registrations: Registrations,
        answers: Answers,
        speaking: Mapping[str, Connection],
    ) -> None:
        self._sending = sending
        self._registrations = registrations
        self._speaking = speaking
        self._silent_until_ms = 0
        self.answers = answers

    def why_in_full(self, address: str, identity: Fingerprint, connection: Connection) -> str | None:
        """Return why the ledger alone does not allow a light heartbeat; None if it does."""
        channel_id, now_ms = self._sending.channel_id(connection), self._sending.now_ms
        return self._registrations.why_in_full(address, channel_id, identity, self.answers, now_ms)

    def decide_at_once(self, command: RemotingCommand, connection: Connection) -> Decision | None:
        """Decide as `decide` does on a registration whose body `is_read_at_once` within MAX_AT_ONCE_BYTES.

        Return None if it has to be compared with the snapshot, which would take the event loop too long. Raises
        BadRequestError also for a body that `decide` can read, and that would take too long to decode.
        """
        found = self._by_ledger(command, connection)
        if isinstance(found, Decision):
            return found
        channel_id = self._sending.channel_id(connection)
        may_be_shown = self._may_be_compared(command)
        if len(command.body) <= LARGE_BODY_BYTES:
            compared = self.answers if may_be_shown else None
            return found.decision(*_read(command, channel_id, connection.host, DEFAULT_LIMITS, compared))
        decision = found.decision(*_read(command, channel_id, connection.host, _AT_ONCE_LIMITS))
        lease = self.answers.live.get(decision.head.broker_addr)
        is_of_version = lease is not None and lease.data_version == decision.head.data_version
        return None if may_be_shown and is_of_version else decision

    async def decide(self, command: RemotingCommand, connection: Connection) -> Decision:
        """Decide on one registration; it is decoded unless the ledger has it. Raises NamesrvError if it is refused."""
        found = self._by_ledger(command, connection)
        if isinstance(found, Decision):
            return found
        return found.decision(*await self._read(command, connection))

    def _by_ledger(self, command: RemotingCommand, connection: Connection) -> Decision | _Undecided:
        address, identity = broker_address(command), fingerprint(command)
        why, known = self.why_in_full(address, identity, connection), self._registrations.get(address)
        if why is None and known is not None:
            return Decision(known.head, identity)
        if not self._registrations.has_room(address, self._sending.channel_id(connection), connection.host):
            raise TooManyBrokersError
        self._refuse_taken_address(command, connection)
        return _Undecided(identity, why)

    def _refuse_taken_address(self, command: RemotingCommand, connection: Connection) -> None:
        """Refuse a registration whose address is that of another living broker (D14). Raises AddressTakenError."""
        lease, fields = self.answers.live.get(broker_address(command)), command.ext_fields or {}
        if lease is None or lease[1:3] == (fields.get("clusterName"), fields.get("brokerName")):
            return
        own, heard_from_ms = self._sending.channel_id(connection), self.answers.event_time_ms - SPEAKS_WITHIN_MS
        others = [each for each, heard_ms in lease.channels.items() if each != own and heard_ms >= heard_from_ms]
        if other := next(filter(self._may_speak, others), None):
            error = AddressTakenError(lease, self._peer_of(other), connection.peer)
            if self._sending.now_ms >= self._silent_until_ms:
                self._silent_until_ms = self._sending.now_ms + _WARNED_EVERY_MS
                log.warning("a registration is refused: %s", error, extra={"address": lease.broker_addr})
            raise error

    def _may_speak(self, channel_id: str) -> bool:
        """Return whether a connection may be open: of its own ones this gateway knows that."""
        return not self._sending.is_own(channel_id) or channel_id in self._speaking

    def _peer_of(self, channel_id: str) -> str:
        connection = self._speaking.get(channel_id)
        return f"the connection of {connection.peer}" if connection is not None else f"channel {channel_id}"

    def _may_be_compared(self, command: RemotingCommand) -> bool:
        """Return whether the newest snapshot may show all that a registration says, so that both are compared.

        The comparison needs the tables, which are in this process alone.
        """
        address = broker_address(command)
        is_of_holder = _is_head_of(self.answers.live.get(address), command)
        is_small = len(command.body) <= MAX_COMPARED_BYTES
        return is_of_holder and is_small and self._registrations.may_be_published(address, self.answers)

    async def _read(self, command: RemotingCommand, connection: Connection) -> tuple[FullRegistration, bytes | None]:
        """Return what to keep of a registration and its record; no record if the newest snapshot shows all it says."""
        read = partial(_read, command, self._sending.channel_id(connection), connection.host)
        if self._may_be_compared(command):
            compare = partial(read, BodyLimits(MAX_COMPARED_BYTES, _BYTES_A_VALUE), self.answers)
            with suppress(BodyTooLargeError, TooManyValuesError):
                compared = await self._sending.made(command, connection, compare, in_process=False)
                # Other requests were served meanwhile: what was shown then may be shown no more.
                is_still = self._registrations.may_be_published(broker_address(command), self.answers)
                if compared[1] is not None or is_still:
                    return compared
        return await self._sending.made(command, connection, partial(read, DEFAULT_LIMITS))


def broker_address(command: RemotingCommand) -> str:
    """Return the address that a registration names; empty if it names none, which decoding it refuses."""
    return (command.ext_fields or {}).get("brokerAddr", "")


def _is_head_of(lease: LiveRow | None, command: RemotingCommand) -> bool:
    """Return whether a registration comes from the broker that holds this lease."""
    fields = command.ext_fields or {}
    head = fields.get("clusterName"), fields.get("brokerName"), fields.get("brokerId")
    return lease is not None and head == (lease.cluster_name, lease.broker_name, str(lease.broker_id))


def _read(
    command: RemotingCommand, channel_id: str, host: str, limits: BodyLimits, compared: Answers | None = None
) -> tuple[FullRegistration, bytes | None]:
    """Decode a registration, and encode its record unless the snapshot to compare it with shows all that it says.

    Raises BadRequestError: BodyTooLargeError or TooManyValuesError if the body exceeds the limits.
    """
    command = msgspec.structs.replace(command, body=command.body[:])  # bytes in one place: see LargeBody
    read, left_out = read_registration(command, channel_id, limits)
    is_shown = compared is not None and changes_nothing(compared.tables, compared.settings, read)
    part = FullRegistration.of(command, read, host)
    part.left_out = left_out[:_MOST_NAMED]
    if len(read.topic_config_table) <= _MOST_TOPICS_WAITED_FOR:
        part.topics = tuple(read.topic_config_table)
    return part, None if is_shown else encode_record(read)

"""The brokers of one gateway: their connections, and their records that no snapshot has read yet.

This module decides whether a registration goes to Kafka in full or as a light heartbeat (E10). A token identifies a
registration; the lease in the newest snapshot has the token if the tables show all of the registration. Times
are passed in, as milliseconds of one clock of the caller.

A registration of an address that another living broker has is refused (D14). The newest snapshot tells who speaks, but
a calm registry publishes signs of life every five minutes. So a refusal goes to the log, the job publishes with it, and
the registration is looked at once more with that snapshot.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec
from isal.isal_zlib import crc32

from namesrv_stream.errors import BadRequestError, NamesrvError
from namesrv_stream.gateway.answers import AnswerCache
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.own_writes import OwnWrites, until_read
from namesrv_stream.gateway.sending import KafkaSender
from namesrv_stream.rules.record_types import RegisterBroker, RequestRefused
from namesrv_stream.rules.registration import MAX_TOKENS, REGISTRATION_SCHEMA_HASH
from namesrv_stream.rules.rows import LiveRow, LogPosition, is_other_id, known_id
from namesrv_stream.wire.registration_request import body_crc32, without_mapping_version
from namesrv_stream.wire.remoting_command import RemotingCommand

log = logging.getLogger(__name__)

MAX_BROKERS_OF_A_CONNECTION = 1_000
MAX_BROKERS_OF_A_HOST = 10_000
MAX_UNREAD = 100_000
"""Limit of addresses with unread records. Beyond it the oldest record is forgotten, and one registration of its broker
may be sent as a light heartbeat that should be sent in full."""

_CHANGE_BY_THEMSELVES = ("AccessKey", "Signature", "SecurityToken")
"""Fields of a request that identify its sender and change from request to request. A token leaves them out."""

_encoder = msgspec.json.Encoder(order="sorted")

ALIVE_WITHIN_MS = 45_000
"""A broker counts as living if its last sign of life is at most so old, by the log's clock at the newest snapshot.
Living brokers send one every 30 to 35 s."""

_WARNED_EVERY_MS = 60_000
_RECORD_EVERY_MS = 15_000
"""Pause between two records of refusals of one gateway."""


def token_of(command: RemotingCommand) -> str:
    """Return the token of a REGISTER_BROKER: a digest of its header fields, and length and CRC32 of its body.

    The body is not decoded; `mappingDataVersion` is left out with its own checksum, if that is right. All gateways make
    the same token of the same request.
    """
    fields = dict(command.ext_fields or {})
    for name in _CHANGE_BY_THEMSELVES:
        fields.pop(name, None)
    before, after = without_mapping_version(command.body)
    if after and fields.get("bodyCrc32") == str(body_crc32(command.body)):
        del fields["bodyCrc32"]
    checksum = crc32(after, crc32(before))
    identity = _encoder.encode((REGISTRATION_SCHEMA_HASH, command.version, len(before) + len(after), checksum, fields))
    return blake2b(identity, digest_size=12).hexdigest()


@dataclass(slots=True, eq=False)
class Unread:
    """The last record of a broker address that this gateway sent, other than a heartbeat; no snapshot has read it.

    `head`: the broker's last registration without its topics; None if it has unregistered. `is_it`: the record is that
    registration and has not failed. `place`: the record's place in the log, None until Kafka has acknowledged it.
    """

    head: RegisterBroker | None = None
    is_it: bool = False
    place: LogPosition | None = None

    def is_read_by(self, published: AnswerCache) -> bool:
        """Return whether the snapshot has read the record."""
        return self.place is not None and self.place.offset < published.offsets.get(self.place.partition, 0)


@dataclass(slots=True)
class _Channel:
    """A connection: its peer's host, and the broker addresses whose signs of life came over it, with their timeouts."""

    host: str
    addresses: dict[str, int] = field(default_factory=dict)


class KnownBrokers:
    """The brokers that use one gateway's connections, and the records that it has sent of them.

    `reconcile_interval_ms`: time after which a registration is sent in full whatever the tables show; 0: always.
    """

    def __init__(self, reconcile_interval_ms: int) -> None:
        self._reconcile_interval_ms = reconcile_interval_ms
        self._unread: dict[str, Unread] = {}
        self._log_id: str | None = None
        self._sent_in_full_ms: dict[str, dict[str, int]] = {}
        self._channels: dict[str, _Channel] = {}
        self._channels_of: Counter[str] = Counter()
        self._addresses_of_host: Counter[str] = Counter()

    @property
    def kept(self) -> int:
        """The number of records and times that are kept of all brokers."""
        return len(self._unread) + sum(map(len, self._sent_in_full_ms.values()))

    def why_in_full(self, address: str, token: str, published: AnswerCache, now_ms: int) -> str | None:
        """Return the reason why a registration has to be sent in full; None if a light heartbeat is enough (E10)."""
        unread, lease = self._unread.get(address), published.live.get(address)
        if unread is not None and not unread.is_read_by(published):
            if not unread.is_it or unread.head is None or unread.head.token != token:
                return "another record unread"
            if unread.place is None:
                return "not acknowledged"
        elif lease is None:
            return "no lease"
        elif token not in lease.tokens:
            return "not shown"
        is_overdue = now_ms - self._note_time(address, token, now_ms) >= self._reconcile_interval_ms
        return "reconcileIntervalMillis" if is_overdue else None

    def _note_time(self, address: str, token: str, now_ms: int) -> int:
        """Return when a registration was sent in full, or else first seen. An unknown one is first seen now."""
        of_address = self._sent_in_full_ms.setdefault(address, {})
        if token not in of_address and len(of_address) >= MAX_TOKENS:
            del of_address[next(iter(of_address))]
        return of_address.setdefault(token, now_ms)

    def note_sent_in_full(self, head: RegisterBroker, now_ms: int) -> Unread:
        """Note a registration that was handed to Kafka. Return the object that gets its place. `head` has no topics."""
        token = head.token or ""
        self._note_time(head.broker_addr, token, now_ms)
        self._sent_in_full_ms[head.broker_addr][token] = now_ms
        return self._note_unread(head.broker_addr, Unread(head, is_it=True))

    def note_sent_closed(self, address: str) -> Unread:
        """Note that a connection's end was handed to Kafka. Return the object that gets its place.

        Another connection may keep the lease.
        """
        return self._note_unread(address, Unread(self.unread_head(address)))

    def note_sent_unregistration(self, address: str) -> Unread:
        """Note that an unregistration was handed to Kafka. Return the object that gets its place."""
        return self._note_unread(address, Unread())

    def _note_unread(self, address: str, unread: Unread) -> Unread:
        self._unread.pop(address, None)
        self._unread[address] = unread
        if len(self._unread) > MAX_UNREAD:
            del self._unread[next(iter(self._unread))]
        return unread

    def note_failed(self, address: str, published: AnswerCache) -> None:
        """Note that a registration of a known broker was not sent, or was sent and failed.

        The log may still have it, so the broker's next one is sent in full.
        """
        if self.is_known(address, published):  # others have to register anyway
            self._note_unread(address, Unread(self.unread_head(address)))

    def follow(self, published: AnswerCache) -> None:
        """Forget the records that the newest snapshot has read.

        If its log is another one, no record is known to be there.
        """
        if is_other_id(self._log_id, published.log_id):
            for unread in self._unread.values():
                unread.is_it, unread.place = False, None
        self._log_id = known_id(published.log_id) or self._log_id
        for address in [address for address, each in self._unread.items() if each.is_read_by(published)]:
            del self._unread[address]

    def unread_head(self, address: str) -> RegisterBroker | None:
        """Return the broker's last registration, None once the snapshot has read this gateway's last record of it."""
        unread = self._unread.get(address)
        return None if unread is None else unread.head

    def is_known(self, address: str, published: AnswerCache) -> bool:
        """Return whether the address has a lease, or a registration that is not read yet.

        Signs of life of any other address have no effect (L2).
        """
        return address in published.live or self.unread_head(address) is not None

    def is_in_doubt(self, address: str, published: AnswerCache) -> bool:
        """Return whether the broker of an address has to register whatever its version is.

        There are two cases. The snapshot has not read this gateway's last record of it, which ends a connection or the
        lease. Or a registration has failed, although the tables may show its version: a broker sends several parts
        under one version (B7).
        """
        unread = self._unread.get(address)
        return unread is not None and not unread.is_it and not unread.is_read_by(published)

    def note_sign_of_life(self, address: str, channel_id: str, timeout_ms: int, host: str = "") -> None:
        """Note a sign of life that came over this connection, for a lease of `timeout_ms`."""
        channel = self._channels.setdefault(channel_id, _Channel(host))
        if address not in channel.addresses:
            self._addresses_of_host[channel.host] += 1
            self._channels_of[address] += 1
        channel.addresses[address] = timeout_ms

    def connections_of(self, address: str) -> int:
        """Return over how many open connections heartbeats of an address have come."""
        return self._channels_of[address]

    def timeouts_of(self, channel_id: str) -> Mapping[str, int]:
        """Return the addresses whose signs of life came over this connection, with the timeouts of their leases."""
        channel = self._channels.get(channel_id)
        return channel.addresses if channel is not None else {}

    def has_room(self, address: str, channel_id: str, host: str = "") -> bool:
        """Return whether a connection may carry signs of life of this address.

        Addresses a connection and a host are limited.
        """
        known = self.timeouts_of(channel_id)
        is_within = len(known) < MAX_BROKERS_OF_A_CONNECTION and self._addresses_of_host[host] < MAX_BROKERS_OF_A_HOST
        return address in known or is_within

    def forget_channel(self, channel_id: str) -> list[str]:
        """Forget a lost connection. Return the addresses that have used it: each needs a CHANNEL_CLOSED record (L6)."""
        channel = self._channels.pop(channel_id, None)
        if channel is None:
            return []
        self._addresses_of_host -= Counter({channel.host: len(channel.addresses)})  # drops hosts that have none left
        self._channels_of -= Counter(channel.addresses.keys())
        for address in channel.addresses:
            if address not in self._channels_of:
                self._forget(address)
        return sorted(channel.addresses)

    def _forget(self, address: str) -> None:
        """Forget an address without connections, except for its records that Kafka has and no snapshot has read."""
        self._sent_in_full_ms.pop(address, None)
        if (unread := self._unread.get(address)) is not None and unread.place is None:
            del self._unread[address]


class AddressTakenError(BadRequestError):
    """A registration of an address that `lease` has. `name`, `host`: of the broker that announces it too."""

    def __init__(self, lease: LiveRow, other: str, name: str | None, connection: Connection) -> None:
        super().__init__(
            f"{lease.broker_addr} is the address of {lease.broker_name} in {lease.cluster_name}, which is up "
            f"({other}), and the broker at {connection.peer} announces it too. Set brokerIP1 of each to an address of "
            "its own."
        )
        self.lease = lease
        self.name = name
        self.host = connection.host


class TakenAddresses:
    """Checks that no other living broker has the address that a registration announces. Lives in the event loop.

    `speaking`: the open connections of this gateway's brokers, by channel id.
    """

    def __init__(self, sending: KafkaSender, own: OwnWrites, speaking: Mapping[str, Connection]) -> None:
        self._sending = sending
        self._own = own
        self._speaking = speaking
        self._warn_at_ms = self._record_at_ms = 0

    def check(self, answers: AnswerCache, command: RemotingCommand, connection: Connection) -> None:
        """Raise AddressTakenError if another living broker has the registration's address."""
        fields = command.ext_fields or {}
        lease = answers.live.get(fields.get("brokerAddr", ""))
        announced = (fields.get("clusterName"), fields.get("brokerName"))
        if lease is None or (lease.cluster_name, lease.broker_name) == announced:
            return
        heard_from_ms = answers.reading_ms - ALIVE_WITHIN_MS
        other = self._speaker_of(lease, self._sending.channel_id(connection), heard_from_ms)
        if other is not None:
            raise AddressTakenError(lease, other, announced[1], connection)

    async def recheck_after_snapshot(self, error: AddressTakenError) -> bool:
        """Send a record of a refusal, and return whether there is a snapshot after it. A few a minute are sent."""
        if self._sending.now_ms < self._record_at_ms:
            return False
        self._record_at_ms = self._sending.now_ms + _RECORD_EVERY_MS
        lease = error.lease
        missing = f"an address of its own: {lease.broker_addr} is that of {lease.broker_name} in {lease.cluster_name}"
        sender = f"{error.name}@{error.host}"
        try:
            refused = RequestRefused(request="REGISTER_BROKER", requested_by=sender, missing=missing)
            read = self._own.sent(await self._sending.link.send(refused))
        except NamesrvError:  # Kafka is away or busy
            return False
        await until_read(read)
        return read.done()

    def warn(self, error: AddressTakenError) -> None:
        """Log a refusal, one a minute at most."""
        if self._sending.now_ms >= self._warn_at_ms:
            self._warn_at_ms = self._sending.now_ms + _WARNED_EVERY_MS
            log.warning("registration rejected: %s", error, extra={"address": error.lease.broker_addr})

    def _speaker_of(self, lease: LiveRow, own_channel: str, heard_from_ms: int) -> str | None:
        """Return the name of another connection over which the broker of a lease speaks; None if there is none."""
        for channel_id, heard_ms in lease.channels.items():
            if channel_id == own_channel or heard_ms < heard_from_ms:
                continue
            if not self._sending.is_own(channel_id):
                return f"channel {channel_id}"
            if (connection := self._speaking.get(channel_id)) is not None:
                return f"the connection of {connection.peer}"
        return None

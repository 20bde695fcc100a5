"""Knows the brokers of one gateway: their connections, and the records of them that no snapshot has read yet.

It decides whether a registration goes to Kafka in full or as a light heartbeat: rule E10. A registration is known by
its token, which the newest snapshot's lease has if the tables show all it says. No clock, socket or Kafka is used here.
Times are passed in, as milliseconds of one clock of the caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from isal.isal_zlib import crc32

from namesrv_stream.rules.requests import RegisterBroker
from namesrv_stream.rules.rows import LiveRow, LogPosition
from namesrv_stream.rules.tokens import MAX_TOKENS
from namesrv_stream.wire.command import RemotingCommand
from namesrv_stream.wire.frame import pieces_of

MAX_BROKERS_OF_A_CONNECTION = 1_000
MAX_BROKERS_OF_A_HOST = 10_000
MOST_UNREAD = 100_000
"""Limit of addresses with unread records. Beyond it the oldest is forgotten: it may be thinned once too often."""

_MEANING = "1"
"""To be changed when a release makes another record of the same request, so that it is sent in full again."""

_CHANGE_BY_THEMSELVES = frozenset({"AccessKey", "Signature", "SecurityToken"})
"""Fields of a request that tell who sends it."""


def token_of(command: RemotingCommand) -> str:
    """Return the token of a REGISTER_BROKER: a digest of its header fields, and length and CRC32 of its body.

    The body is not decoded. All gateways make the same token of the same request.
    """
    fields = (command.ext_fields or {}).items()
    said = sorted(each for each in fields if each[0] not in _CHANGE_BY_THEMSELVES)
    checksum = 0
    for piece in pieces_of(command.body):
        checksum = crc32(piece, checksum)
    identity = repr((_MEANING, command.version, len(command.body), checksum, said))
    return blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


class Published(Protocol):
    """The newest snapshot: its leases by broker address, and how far it has read the log, by partition."""

    @property
    def live(self) -> Mapping[str, LiveRow]: ...  # noqa: D102 - see the class
    @property
    def offsets(self) -> Mapping[int, int]: ...  # noqa: D102


@dataclass(slots=True, eq=False)
class Unread:
    """The last record of a broker address that this gateway sent, other than a heartbeat; no snapshot has read it.

    `head`: the registration without its topics, with its token; None for an end of the lease, and for a record that
    failed, which the log may have all the same. `place`: its place in the log, None until Kafka has acknowledged it.
    """

    head: RegisterBroker | None = None
    place: LogPosition | None = None


@dataclass(slots=True)
class _Channel:
    """A connection: its peer's host, and the broker addresses whose signs of life came over it, with their timeouts."""

    host: str
    addresses: dict[str, int] = field(default_factory=dict)


class Registrations:
    """The brokers that speak over one gateway's connections, and what it has sent of them.

    `reconcile_interval_ms`: time after which a registration is sent in full whatever the tables show; 0: always.
    """

    def __init__(self, reconcile_interval_ms: int) -> None:
        self._reconcile_interval_ms = reconcile_interval_ms
        self._unread: dict[str, Unread] = {}
        self._sent_in_full_ms: dict[str, dict[str, int]] = {}
        self._channels: dict[str, _Channel] = {}
        self._addresses_of_host: Counter[str] = Counter()
        self._incomplete: set[str] = set()

    def why_in_full(self, address: str, token: str, published: Published, now_ms: int) -> str | None:
        """Return the reason why a registration has to be sent in full; None if a light heartbeat is enough (E10)."""
        unread, lease = self._unread.get(address), published.live.get(address)
        if unread is not None:
            if unread.head is None or unread.head.token != token:
                return "the snapshot has not read another record of its broker"
            if unread.place is None:
                return "not acknowledged by Kafka"
        elif lease is None:
            return "its broker has no lease"
        elif token not in lease.tokens:
            return "the tables do not show what it says"
        return "reconcileIntervalMillis" if self._is_overdue(address, token, now_ms) else None

    def _is_overdue(self, address: str, token: str, now_ms: int) -> bool:
        """Return whether the registration was sent in full, or first seen, so long ago that it is sent once more."""
        of_address = self._sent_in_full_ms.setdefault(address, {})
        if len(of_address) > MAX_TOKENS:
            of_address.clear()
        return now_ms - of_address.setdefault(token, now_ms) >= self._reconcile_interval_ms

    def sent_in_full(self, head: RegisterBroker, now_ms: int) -> Unread:
        """Note a registration that was handed to Kafka; return what to give its place to. `head` has no topics."""
        self._sent_in_full_ms.setdefault(head.broker_addr, {})[head.token or ""] = now_ms
        return self._sent(head.broker_addr, head)

    def sent_end(self, address: str) -> Unread:
        """Note a record that ends a lease, or its connection; return what to give its place to."""
        return self._sent(address, None)

    def _sent(self, address: str, head: RegisterBroker | None) -> Unread:
        self._unread.pop(address, None)
        unread = self._unread[address] = Unread(head)
        if len(self._unread) > MOST_UNREAD:
            del self._unread[next(iter(self._unread))]
        return unread

    def failed(self, address: str, published: Published) -> None:
        """Note that a registration failed. The log may have it all the same: its broker's next one is sent in full."""
        self.left_out(address, published)
        self._sent(address, None)

    def left_out(self, address: str, published: Published) -> None:
        """Note that a registration was not sent."""
        if self.is_known(address, published):  # others have to register anyway
            self._incomplete.add(address)

    def follow(self, published: Published) -> None:
        """Forget the records that the newest snapshot has read."""
        read = [
            address
            for address, each in self._unread.items()
            if each.place is not None and each.place.offset < published.offsets.get(each.place.partition, 0)
        ]
        for address in read:
            del self._unread[address]

    def unread_head(self, address: str) -> RegisterBroker | None:
        """Return the last registration that was sent if the snapshot has not read it, and nothing followed it."""
        unread = self._unread.get(address)
        return None if unread is None else unread.head

    def is_known(self, address: str, published: Published) -> bool:
        """Return whether the address has a lease, or a registration that is not read yet: others have no life (L2)."""
        return address in published.live or self.unread_head(address) is not None

    def has_failed(self, address: str) -> bool:
        """Return whether a registration of the address has failed since its broker was last asked to register.

        The tables may show its version all the same: a broker sends several parts under one version (B7).
        """
        return address in self._incomplete

    def asked_for_all(self, address: str) -> None:
        """Note that the broker was asked to register."""
        self._incomplete.discard(address)

    def note_sign_of_life(self, address: str, channel_id: str, timeout_ms: int, host: str = "") -> None:
        """Note a sign of life that came over this connection, for a lease of `timeout_ms`."""
        channel = self._channels.setdefault(channel_id, _Channel(host))
        if address not in channel.addresses:
            self._addresses_of_host[channel.host] += 1
        channel.addresses[address] = timeout_ms

    def timeouts_of(self, channel_id: str) -> Mapping[str, int]:
        """Return the addresses whose signs of life came over this connection, with the timeouts of their leases."""
        channel = self._channels.get(channel_id)
        return channel.addresses if channel is not None else {}

    def has_room(self, address: str, channel_id: str, host: str = "") -> bool:
        """Return whether a connection may speak for this address: the addresses of it and of its host are limited."""
        known = self.timeouts_of(channel_id)
        is_within = len(known) < MAX_BROKERS_OF_A_CONNECTION and self._addresses_of_host[host] < MAX_BROKERS_OF_A_HOST
        return address in known or is_within

    def closed(self, channel_id: str) -> list[str]:
        """Forget a lost connection. Return the addresses that have used it: each needs a CHANNEL_CLOSED record (L6)."""
        channel = self._channels.pop(channel_id, None)
        if channel is None:
            return []
        self._addresses_of_host -= Counter({channel.host: len(channel.addresses)})  # drops hosts that have none left
        for address in channel.addresses:
            self._sent_in_full_ms.pop(address, None)
            self._incomplete.discard(address)
        return sorted(channel.addresses)

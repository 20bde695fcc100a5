"""The ledger: the registrations that are in the log, and the connections over which brokers sent signs of life.

It decides whether a registration is sent to Kafka in full or, if Kafka has it already, as a light heartbeat. It uses no
clock, no socket and no Kafka. Times are passed in, as milliseconds of one clock of the caller's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from isal.isal_zlib import compress, crc32, decompress
from msgspec.structs import replace

from namesrv_stream.gateway.budget import Budget
from namesrv_stream.rules.requests import RegisterBroker
from namesrv_stream.rules.rows import LiveRow, LogPosition
from namesrv_stream.wire.command import RemotingCommand
from namesrv_stream.wire.frame import LARGE_BODY_BYTES, pieces_of

MAX_PARTS = 64
MAX_BROKERS_OF_A_CONNECTION = 1_000
MAX_BROKERS_OF_A_HOST = 10_000
MAX_LEDGER_BYTES = 128 * 1024 * 1024
MAX_FORGOTTEN = 100_000
_LEVEL = 1
"""ISA-L's level that takes a fortieth of zlib's time for the same size."""
_LEVEL_OF_SMALL = 0
"""The level for a body of up to LARGE_BODY_BYTES. It takes 2 µs for 3.5 KB; level 1 takes 9 for a third fewer bytes."""

_BYTES_OF_ANY_PART = 2_048
"""Memory of the objects around a part's body."""


class Fingerprint(NamedTuple):
    """The identity of a registration, found without decoding its body."""

    fields: frozenset[tuple[str, str]]
    version: int
    body_bytes: int
    body_crc32: int


def fingerprint(command: RemotingCommand) -> Fingerprint:
    """Return the fingerprint of a REGISTER_BROKER: header fields, release, and length and CRC32 of the body."""
    fields = frozenset((command.ext_fields or {}).items())
    checksum = 0
    for piece in pieces_of(command.body):
        checksum = crc32(piece, checksum)
    return Fingerprint(fields, command.version, len(command.body), checksum)


class Published(Protocol):
    """The newest snapshot: its leases by broker address, and how far it has read the log, by partition."""

    @property
    def live(self) -> Mapping[str, LiveRow]: ...  # noqa: D102 - see the class
    @property
    def offsets(self) -> Mapping[int, int]: ...  # noqa: D102


@dataclass(slots=True)
class FullRegistration:
    """A full registration that is in the log, kept to be sent again if the tables lose its broker.

    `command`: the request, with its body compressed. `head`: the registration without its topics. `host`: the peer for
    which it counts. `place`: its place in the log, None until Kafka has acknowledged it. `was_published`: a snapshot
    showed all it says when it came, so that `place` is that of a light heartbeat. `left_out`: its topics that cannot be
    taken (R1a). `topics`: the others, until the registration is sent.
    """

    command: RemotingCommand
    head: RegisterBroker
    topic_count: int
    host: str = ""
    sent_at_ms: int = 0
    place: LogPosition | None = None
    was_published: bool = False
    left_out: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()

    @classmethod
    def of(cls, command: RemotingCommand, read: RegisterBroker, host: str = "") -> FullRegistration:
        """Return what to keep of `command`, which came from `host` and was decoded as `read`."""
        kept = RemotingCommand(
            code=command.code,
            version=command.version,
            ext_fields=command.ext_fields,
            body=compress(command.body, _LEVEL if len(command.body) > LARGE_BODY_BYTES else _LEVEL_OF_SMALL),
            sender=command.sender,
        )
        head = replace(read, topic_config_table={}, topic_queue_mapping_info_map={}, channel_id=None, requested_by=None)
        return cls(kept, head, len(read.topic_config_table), host)

    def registration(self) -> RemotingCommand:
        """Return the request with its body as it was received."""
        return RemotingCommand(
            code=self.command.code,
            version=self.command.version,
            ext_fields=self.command.ext_fields,
            body=decompress(self.command.body),
            sender=self.command.sender,
        )

    @property
    def held_bytes(self) -> int:
        """Memory of this part as it is kept."""
        texts = sum(len(name) + len(value) for name, value in (self.command.ext_fields or {}).items())
        return len(self.command.body) + texts + _BYTES_OF_ANY_PART

    def has_been_read(self, published: Published) -> bool:
        """Return whether the snapshot has read this registration in the log, and so must show it."""
        return self.place is not None and published.offsets.get(self.place.partition, 0) > self.place.offset

    def is_lacking_in(self, published: Published) -> bool:
        """Return whether the snapshot has read this registration, but shows another lease or none."""
        if not self.has_been_read(published):
            return False
        head, live = self.head, published.live.get(self.head.broker_addr)
        return live is None or (live[1:4], live.data_version) != (
            (head.cluster_name, head.broker_name, head.broker_id),
            head.data_version,
        )


@dataclass(slots=True)
class Registered:
    """The registrations of one broker address that are in the log, as far as this gateway knows.

    `parts`: the full registrations that together have all its topics, in the order of the log. `head`: the head of the
    last one. `channels`: the connections over which it has registered. `host`: the peer for which `parts` count.
    """

    head: RegisterBroker
    host: str
    last_sign_of_life_ms: int
    parts: dict[Fingerprint, FullRegistration] = field(default_factory=dict)
    channels: set[str] = field(default_factory=set)

    @property
    def held_bytes(self) -> int:
        """Memory of the parts, compressed."""
        return sum(part.held_bytes for part in self.parts.values())


@dataclass(slots=True)
class _Channel:
    """A connection: its peer's host, and the broker addresses whose signs of life came over it."""

    host: str
    addresses: set[str] = field(default_factory=set)


class Registrations:
    """The ledger of all brokers that register at one gateway.

    `reconcile_interval_ms`: 0 sends every registration in full. Beyond `max_bytes` registrations are forgotten, first
    those of the host that has most, and are sent in full the next time. `is_stale`: the newest snapshot is so old that
    a lease may have ended unseen.
    """

    def __init__(self, reconcile_interval_ms: int, max_bytes: int = MAX_LEDGER_BYTES) -> None:
        self._reconcile_interval_ms = reconcile_interval_ms
        self._registered: dict[str, Registered] = {}
        self._channels: dict[str, _Channel] = {}
        self._addresses_of_host: Counter[str] = Counter()
        self._incomplete: set[str] = set()
        self._forgotten: dict[str, None] = {}
        self._budget: Budget[str] = Budget(max_bytes)
        self.is_stale = False

    @property
    def held_bytes(self) -> int:
        """Memory of all registrations that are kept."""
        return self._budget.held_bytes

    def why_in_full(
        self,
        address: str,
        channel_id: str,
        registration: Fingerprint,
        published: Published,
        now_ms: int,
    ) -> str | None:
        """Return the reason why this registration has to be sent in full; None if a light heartbeat is enough."""
        known = self._registered.get(address)
        if known is None:
            return "first of its broker, or since a send failed or a connection closed"
        part = known.parts.get(registration)
        if part is None or part.head != known.head:
            return "says something new"
        if channel_id not in known.channels:
            return "first on its connection"
        if part.place is None:
            return "not acknowledged by Kafka"
        if self.is_stale:
            return "the newest snapshot is stale, so that its lease may have ended unseen"
        if now_ms - part.sent_at_ms >= self._reconcile_interval_ms:
            return "reconcileIntervalMillis"
        return "not in the snapshot" if part.is_lacking_in(published) else None

    def may_be_published(self, address: str, published: Published) -> bool:
        """Return whether a light heartbeat is enough for a registration that says what the newest snapshot shows.

        It is not if the log may have a record of this gateway that changes the lease and that the snapshot has not
        read: of an address that was forgotten such a record is not known.
        """
        if self.is_stale or self._reconcile_interval_ms == 0 or address in self._forgotten:
            return False
        known = self._registered.get(address)
        parts = known.parts.values() if known is not None else ()
        return all(part.was_published or part.has_been_read(published) for part in parts)

    def sent_in_full(
        self,
        registration: Fingerprint,
        part: FullRegistration,
        channel_id: str,
        now_ms: int,
        *,
        is_all: bool = False,
    ) -> None:
        """Record a full registration that was handed to Kafka, or for which the newest snapshot shows all it says.

        It replaces the former registrations of its address, except those that `_beneath` keeps. `is_all`: T5 is on, so
        it replaces all of them. `note_sign_of_life` records the broker's sign of life, not this method: the gateway may
        have sent the registration again by itself.
        """
        address = part.head.broker_addr
        former = self._registered.get(address)
        part.sent_at_ms, part.place = now_ms, None
        last_sign_of_life_ms = former.last_sign_of_life_ms if former else now_ms
        now = Registered(part.head, part.host, last_sign_of_life_ms, {registration: part}, {channel_id})
        if former is not None:
            is_known = channel_id in former.channels
            before = _beneath(former, part) if is_known and not is_all else {}
            now.parts = {identity: each for identity, each in before.items() if identity != registration} | now.parts
            now.channels |= former.channels
        self._keep(address, now, now_ms / 1000)

    def note_sign_of_life(self, address: str, channel_id: str, now_ms: int, host: str = "") -> None:
        """Record a sign of life of the address that came over this connection."""
        channel = self._channels.setdefault(channel_id, _Channel(host))
        if address not in channel.addresses:
            channel.addresses.add(address)
            self._addresses_of_host[channel.host] += 1
        if known := self._registered.get(address):
            known.last_sign_of_life_ms = now_ms

    def has_sign_of_life(self, address: str, channel_id: str) -> bool:
        """Return whether a sign of life of the address came over this connection."""
        channel = self._channels.get(channel_id)
        return channel is not None and address in channel.addresses

    def addresses_of(self, channel_id: str) -> Set[str]:
        """Return the addresses whose signs of life came over this connection."""
        channel = self._channels.get(channel_id)
        return channel.addresses if channel is not None else frozenset()

    def has_room(self, address: str, channel_id: str, host: str = "") -> bool:
        """Return whether a connection may speak for this address: the addresses of it and of its host are limited."""
        channel = self._channels.get(channel_id)
        known = channel.addresses if channel else ()
        is_within = len(known) < MAX_BROKERS_OF_A_CONNECTION and self._addresses_of_host[host] < MAX_BROKERS_OF_A_HOST
        return address in known or is_within

    def get(self, address: str) -> Registered | None:
        """Return what the address has registered; None if nothing is known of it."""
        return self._registered.get(address)

    def forget(self, address: str) -> None:
        """Forget what the log has of an address, for instance because it unregistered or a send failed.

        Its next registrations are sent in full, and the gateway sends none of the former ones again. Records that are
        still on their way do not change that when Kafka acknowledges them.
        """
        self._release(address)
        self._forgotten.pop(address, None)
        self._forgotten[address] = None
        if len(self._forgotten) > MAX_FORGOTTEN:
            self._forgotten.pop(next(iter(self._forgotten)))

    def has_failed(self, address: str) -> bool:
        """Return whether a registration of the address has failed since its broker was last asked to register.

        The tables may show its version all the same: a broker sends several parts under one version (B7).
        """
        return address in self._incomplete

    def failed(self, address: str, published: Published, *, was_sent: bool = True) -> None:
        """Record that a registration did not get to the log, and forget what is known of its address.

        `was_sent`: it was handed to Kafka, so the log may have it all the same.
        """
        if address in self._registered or address in published.live:  # others have to register anyway
            self._incomplete.add(address)
        if was_sent or address in self._registered:
            self.forget(address)

    def asked_for_all(self, address: str) -> None:
        """Record that the broker was asked to register."""
        self._incomplete.discard(address)

    def forget_all(self) -> None:
        """Forget all registrations: a changed setting (T5) alters what each of them does."""
        for address in list(self._registered):
            self.forget(address)

    def _keep(self, address: str, now: Registered, now_s: float) -> None:
        """Keep a registration, and forget others until all fit the limit. It may be forgotten itself."""
        self._release(address)
        self._forgotten.pop(address, None)
        self._registered[address] = now
        self._budget.hold(address, now.host, now.held_bytes, now_s)
        while (payer := self._budget.payer(now_s)) is not None:
            self.forget(payer)

    def _release(self, address: str) -> None:
        """Remove the registrations of an address, which others take the place of."""
        known = self._registered.pop(address, None)
        if known is not None:
            self._budget.hold(address, known.host, 0, 0)

    def closed(self, channel_id: str) -> list[str]:
        """Forget a lost connection. Return the addresses that have used it: each needs a CHANNEL_CLOSED record (L6)."""
        channel = self._channels.pop(channel_id, None)
        if channel is None:
            return []
        self._addresses_of_host -= Counter({channel.host: len(channel.addresses)})  # drops hosts that have none left
        for address in channel.addresses:
            self.forget(address)
            self._incomplete.discard(address)  # the next one is sent in full, as the first on its connection
        return sorted(channel.addresses)

    def lacking(self, published: Published, now_ms: int) -> list[str]:
        """Return the addresses for which `lacking_by` finds a broker."""
        return [address for address in self._registered if self.lacking_by(address, published, now_ms)]

    def lacking_by(self, address: str, published: Published, now_ms: int) -> Registered | None:
        """Return what a connected broker has registered if the snapshot has read all of it and lacks the broker.

        Return None otherwise, also for a broker without a sign of life within its timeout: the gateway keeps no silent
        broker alive.
        """
        known = self._registered.get(address)
        if known is None or address in published.live or now_ms - known.last_sign_of_life_ms >= known.head.timeout_ms:
            return None
        return known if all(part.has_been_read(published) for part in known.parts.values()) else None


def _beneath(former: Registered, part: FullRegistration) -> dict[Fingerprint, FullRegistration]:
    """Return the former parts that stay when the new one is added; none if the new one replaces them.

    A registration that differs in its topics alone is another part of the whole (B7). A registration of one topic that
    differs besides only in its version is an addition. Any other is the whole.
    """
    if len(former.parts) >= MAX_PARTS:
        return {}
    is_addition = part.topic_count == 1 and part.head == replace(former.head, data_version=part.head.data_version)
    is_part = all(each.head == part.head for each in former.parts.values())
    return former.parts if is_addition or is_part else {}

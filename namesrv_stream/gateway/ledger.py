"""Which registration says something new, and which broker was heard over which connection.

A registration goes on Kafka in full or, where Kafka has it already, as a light heartbeat. Everything here is decided
from what is passed in: no clock, no socket, no Kafka. Times are milliseconds of one clock of the caller's.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from isal.isal_zlib import crc32
from msgspec.structs import replace

from namesrv_stream.gateway.budget import Budget
from namesrv_stream.rules.requests import RegisterBroker
from namesrv_stream.rules.rows import LiveRow, LogPosition
from namesrv_stream.wire.command import RemotingCommand

MAX_PARTS = 64
MAX_BROKERS_OF_A_CONNECTION = 1_000
MAX_BROKERS_OF_A_HOST = 10_000
MAX_KEPT_BYTES = 128 * 1024 * 1024
_BYTES_OF_ANY_PART = 2_048
"""What the objects around a part's body take."""


class Fingerprint(NamedTuple):
    """What tells one registration from another without reading its body."""

    fields: frozenset[tuple[str, str]]
    version: int
    body_bytes: int
    body_crc32: int


def fingerprint(command: RemotingCommand) -> Fingerprint:
    """Of a REGISTER_BROKER: header fields, release, and length and CRC32 of the body."""
    fields = frozenset((command.ext_fields or {}).items())
    return Fingerprint(fields, command.version, len(command.body), crc32(command.body))


class Published(Protocol):
    """The newest snapshot: its leases by broker address, and how far it has read the log, by partition."""

    @property
    def live(self) -> Mapping[str, LiveRow]: ...  # noqa: D102 - said above
    @property
    def offsets(self) -> Mapping[int, int]: ...  # noqa: D102


@dataclass(slots=True)
class FullRegistration:
    """A full registration as it was handed to Kafka, to be sent again when the tables lose its broker.

    `command`: the request, its body compressed. `head`: what it says besides topics. `host`: who pays for it. `place`:
    None until Kafka has acknowledged it.
    """

    command: RemotingCommand
    head: RegisterBroker
    topic_count: int
    host: str = ""
    sent_at_ms: int = 0
    place: LogPosition | None = None

    @classmethod
    def of(cls, command: RemotingCommand, read: RegisterBroker, host: str = "") -> FullRegistration:
        """`read` is what `command` says, which came from `host`."""
        kept = RemotingCommand(
            code=command.code,
            version=command.version,
            ext_fields=command.ext_fields,
            body=zlib.compress(command.body, zlib.Z_BEST_SPEED),
            said_by=command.said_by,
        )
        head = replace(read, topic_config_table={}, topic_queue_mapping_info_map={}, channel_id=None, requested_by=None)
        return cls(kept, head, len(read.topic_config_table), host)

    def registration(self) -> RemotingCommand:
        """The request as it came."""
        return RemotingCommand(
            code=self.command.code,
            version=self.command.version,
            ext_fields=self.command.ext_fields,
            body=zlib.decompress(self.command.body),
            said_by=self.command.said_by,
        )

    @property
    def held_bytes(self) -> int:
        """Of this part as it is kept."""
        texts = sum(len(name) + len(said) for name, said in (self.command.ext_fields or {}).items())
        return len(self.command.body) + texts + _BYTES_OF_ANY_PART

    def has_been_read(self, published: Published) -> bool:
        """Whether the snapshot must show this registration: it has read the log that far."""
        return self.place is not None and published.offsets.get(self.place.partition, 0) > self.place.offset

    def is_lacking_in(self, published: Published) -> bool:
        """Whether the snapshot has read this registration and shows another lease, or none."""
        if not self.has_been_read(published):
            return False
        said, live = self.head, published.live.get(self.head.broker_addr)
        return live is None or (live[1:4], live.data_version) != (
            (said.cluster_name, said.broker_name, said.broker_id),
            said.data_version,
        )


@dataclass(slots=True)
class Registered:
    """What the log says of one broker address, as far as this gateway knows.

    `parts`: the full registrations which together say all its topics, in their order in the log. `head`: of the last
    one. `channels`: the connections over which it has registered. `host`: who pays for what is kept here.
    """

    head: RegisterBroker
    host: str
    heard_at_ms: int
    parts: dict[Fingerprint, FullRegistration] = field(default_factory=dict)
    channels: set[str] = field(default_factory=set)

    @property
    def held_bytes(self) -> int:
        """Of the parts, compressed."""
        return sum(part.held_bytes for part in self.parts.values())


@dataclass(slots=True)
class _Channel:
    """A connection's peer, and the broker addresses that were heard over it."""

    host: str
    addresses: set[str] = field(default_factory=set)


class Registrations:
    """All brokers heard through one gateway. `reconcile_interval_ms` 0 sends every registration in full.

    Beyond `max_bytes` registrations are let go, those of the host first whose brokers take most: they go in full the
    next time. `is_stale`: the newest snapshot is so old that a lease may have ended unseen.
    """

    def __init__(self, reconcile_interval_ms: int, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._reconcile_interval_ms = reconcile_interval_ms
        self._registered: dict[str, Registered] = {}
        self._heard_over: dict[str, _Channel] = {}
        self._heard_of_host: Counter[str] = Counter()
        self._incomplete: set[str] = set()
        self._budget: Budget[str] = Budget(max_bytes)
        self.is_stale = False

    @property
    def held_bytes(self) -> int:
        """Of all registrations that are kept."""
        return self._budget.held_bytes

    def why_in_full(
        self,
        address: str,
        channel_id: str,
        registration: Fingerprint,
        published: Published,
        now_ms: int,
    ) -> str | None:
        """The reason why this registration has to go on Kafka in full; None: a light heartbeat says as much."""
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

    def sent_in_full(
        self,
        registration: Fingerprint,
        part: FullRegistration,
        channel_id: str,
        now_ms: int,
        *,
        is_all: bool = False,
    ) -> None:
        """A full registration was handed to Kafka. Replaces what the address said before, but for parts of a whole.

        With `is_all` a registration has no other parts: T5 is on. Whether the broker has said it, which `heard` tells,
        or it was sent again without its doing, is another matter.
        """
        address = part.head.broker_addr
        former = self._registered.get(address)
        part.sent_at_ms, part.place = now_ms, None
        heard_at_ms = former.heard_at_ms if former else now_ms
        now = Registered(part.head, part.host, heard_at_ms, {registration: part}, {channel_id})
        if former is not None:
            is_known = channel_id in former.channels
            before = _beneath(former, part) if is_known and not is_all else {}
            now.parts = {said: each for said, each in before.items() if said != registration} | now.parts
            now.channels |= former.channels
        self._keep(address, now, now_ms / 1000)

    def heard(self, address: str, channel_id: str, now_ms: int, host: str = "") -> None:
        """A sign of life came over this connection."""
        channel = self._heard_over.setdefault(channel_id, _Channel(host))
        if address not in channel.addresses:
            channel.addresses.add(address)
            self._heard_of_host[channel.host] += 1
        if known := self._registered.get(address):
            known.heard_at_ms = now_ms

    def has_room(self, address: str, channel_id: str, host: str = "") -> bool:
        """Whether a connection may speak for this address too: it and its host speak for so many at most."""
        channel = self._heard_over.get(channel_id)
        heard = channel.addresses if channel else ()
        is_within = len(heard) < MAX_BROKERS_OF_A_CONNECTION and self._heard_of_host[host] < MAX_BROKERS_OF_A_HOST
        return address in heard or is_within

    def get(self, address: str) -> Registered | None:
        """What the address has registered."""
        return self._registered.get(address)

    def forget(self, address: str) -> None:
        """What the log says of it is not known any more: it has left in order, or a send failed.

        Everything it says goes in full from now on, and nothing is sent again. What is still on its way changes nothing
        of that when it arrives.
        """
        known = self._registered.pop(address, None)
        if known is not None:
            self._budget.hold(address, known.host, 0, 0)

    def has_failed(self, address: str) -> bool:
        """Whether a registration of the address did not get to the log since the broker was last asked for all of it.

        The tables may show its version all the same: a broker sends several parts under one version (B7).
        """
        return address in self._incomplete

    def failed(self, address: str, published: Published) -> None:
        """Note that a registration did not get to the log, and forget what is known of its address."""
        if address in self._registered or address in published.live:  # others are told that they have to register
            self._incomplete.add(address)
        self.forget(address)

    def asked_for_all(self, address: str) -> None:
        """Note that the broker has been told that it has to register."""
        self._incomplete.discard(address)

    def forget_all(self) -> None:
        """What any registration comes to has changed."""
        for address in list(self._registered):
            self.forget(address)

    def _keep(self, address: str, now: Registered, now_s: float) -> None:
        """Lets go what is too much; that may be this registration itself."""
        self.forget(address)
        self._registered[address] = now
        self._budget.hold(address, now.host, now.held_bytes, now_s)
        while (payer := self._budget.payer(now_s)) is not None:
            self.forget(payer)

    def closed(self, channel_id: str) -> list[str]:
        """A connection was lost: the addresses that were heard over it, each to be told by a CHANNEL_CLOSED (L6)."""
        channel = self._heard_over.pop(channel_id, None)
        if channel is None:
            return []
        self._heard_of_host -= Counter({channel.host: len(channel.addresses)})  # drops hosts that have none left
        for address in channel.addresses:
            self.forget(address)
            self._incomplete.discard(address)  # what comes next is the first on its connection, and whole
        return sorted(channel.addresses)

    def lost(self, published: Published, now_ms: int) -> list[str]:
        """The brokers of `lost_by`."""
        return [address for address in self._registered if self.lost_by(address, published, now_ms)]

    def lost_by(self, address: str, published: Published, now_ms: int) -> Registered | None:
        """What a connected broker has registered that was heard within its timeout and is lacking in the snapshot.

        A broker that has fallen silent is not lost: the gateway does not keep anyone alive.
        """
        known = self._registered.get(address)
        if known is None or address in published.live or now_ms - known.heard_at_ms >= known.head.timeout_ms:
            return None
        return known if all(part.has_been_read(published) for part in known.parts.values()) else None


def _beneath(former: Registered, part: FullRegistration) -> dict[Fingerprint, FullRegistration]:
    """The parts that the new one comes on top of: one that differs in its topics alone is another part of a whole (B7),
    and one topic alone under another version an addition; anything else is the whole."""
    if len(former.parts) >= MAX_PARTS:
        return {}
    is_addition = part.topic_count == 1 and part.head == replace(former.head, data_version=part.head.data_version)
    is_part = all(each.head == part.head for each in former.parts.values())
    return former.parts if is_addition or is_part else {}

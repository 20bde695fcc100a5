"""Which registration says something new, and which broker was heard over which connection.

A registration goes on Kafka in full or, where Kafka has it already, as a light heartbeat. Everything here is decided
from what is passed in: no clock, no socket, no Kafka. Times are milliseconds of one clock of the caller's.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from isal.isal_zlib import crc32

from namesrv_stream.rules.requests import DataVersion, RegisterBroker
from namesrv_stream.rules.rows import LiveRow, LogPosition
from namesrv_stream.wire.command import RemotingCommand

SEND_AGAIN_AFTER_MS = 10_000
"""A record that the snapshots go on lacking, such as a refused one (D7), is not sent again more often than this."""

MAX_PARTS = 64


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


class Part(NamedTuple):
    """A full registration that is on Kafka, to be sent again when the tables lose its broker; its body compressed."""

    command: RemotingCommand
    data_version: DataVersion
    topic_count: int

    @classmethod
    def of(cls, command: RemotingCommand, read: RegisterBroker) -> Part:
        """`read` is what `command` says."""
        kept = RemotingCommand(
            code=command.code,
            version=command.version,
            ext_fields=command.ext_fields,
            body=zlib.compress(command.body, zlib.Z_BEST_SPEED),
        )
        return cls(kept, read.data_version, len(read.topic_config_table))

    def registration(self) -> RemotingCommand:
        """The request as it came."""
        return RemotingCommand(
            code=self.command.code,
            version=self.command.version,
            ext_fields=self.command.ext_fields,
            body=zlib.decompress(self.command.body),
        )


@dataclass(slots=True)
class Registered:
    """What one broker address has registered through this gateway.

    `parts`: the full registrations which together say all its topics. `place`: of the latest in the log, None while
    Kafka has not acknowledged it. `channels`: the connections over which it has registered. `is_doubtful`: what is on
    Kafka may not be what was sent last, so that the next one goes in full.
    """

    identity: tuple[str, str, int]
    data_version: DataVersion
    timeout_ms: int
    sent_at_ms: int
    heard_at_ms: int
    parts: dict[Fingerprint, Part] = field(default_factory=dict)
    channels: set[str] = field(default_factory=set)
    place: LogPosition | None = None
    is_doubtful: bool = False

    def has_been_read(self, published: Published) -> bool:
        """Whether the snapshot must show this registration: it has read the log that far."""
        return self.place is not None and published.offsets.get(self.place.partition, 0) > self.place.offset

    def is_lacking_in(self, address: str, published: Published) -> bool:
        """Whether the snapshot has read this registration and shows another lease, or none."""
        live = published.live.get(address)
        is_shown = live is not None and (live[1:4], live.data_version) == (self.identity, self.data_version)
        return not is_shown and self.has_been_read(published)


class Registrations:
    """All brokers heard through one gateway. `reconcile_interval_ms` 0 sends every registration in full."""

    def __init__(self, reconcile_interval_ms: int) -> None:
        self._reconcile_interval_ms = reconcile_interval_ms
        self._registered: dict[str, Registered] = {}
        self._heard_over: dict[str, set[str]] = {}

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
            return "first of its broker"
        reasons = {
            "a send failed or a connection closed": known.is_doubtful,
            "first on its connection": channel_id not in known.channels,
            "says something new": registration not in known.parts,
            "reconcileIntervalMillis": now_ms - known.sent_at_ms >= self._reconcile_interval_ms,
            "not in the snapshot": known.is_lacking_in(address, published),
        }
        return next((reason for reason, applies in reasons.items() if applies), None)

    def sent_in_full(
        self, registration: Fingerprint, part: Part, read: RegisterBroker, channel_id: str, now_ms: int
    ) -> Registered:
        """A full registration was handed to Kafka. Replaces what the address said before, but for parts of a whole.

        Whether the broker has said it, which `heard` tells, or it was sent again without its doing, is another matter.
        """
        former = self._registered.get(read.broker_addr)
        now = Registered(
            identity=(read.cluster_name, read.broker_name, read.broker_id),
            data_version=read.data_version,
            timeout_ms=read.timeout_ms,
            sent_at_ms=now_ms,
            heard_at_ms=former.heard_at_ms if former else now_ms,
            parts=_joined(former, part) | {registration: part},
            channels={*(former.channels if former else ()), channel_id},
        )
        self._registered[read.broker_addr] = now
        return now

    def heard(self, address: str, channel_id: str, now_ms: int) -> None:
        """A sign of life came over this connection."""
        self._heard_over.setdefault(channel_id, set()).add(address)
        if known := self._registered.get(address):
            known.heard_at_ms = now_ms

    def has_room(self, address: str, channel_id: str, limit: int) -> bool:
        """Whether a connection may speak for this address too: one connection speaks for `limit` at most."""
        heard = self._heard_over.get(channel_id, ())
        return address in heard or len(heard) < limit

    def get(self, address: str) -> Registered | None:
        """What the address has registered."""
        return self._registered.get(address)

    def unregistered(self, address: str) -> None:
        """The broker has left in order: nothing of it is sent again."""
        self._registered.pop(address, None)

    def closed(self, channel_id: str) -> list[str]:
        """A connection was lost: the addresses that were heard over it, each to be told by a CHANNEL_CLOSED (L6)."""
        addresses = sorted(self._heard_over.pop(channel_id, ()))
        for address in addresses:
            if known := self._registered.get(address):
                known.channels.discard(channel_id)
                known.is_doubtful = True
                if not known.channels:
                    del self._registered[address]
        return addresses

    def to_send_again(self, published: Published, now_ms: int) -> Iterator[tuple[str, Registered]]:
        """Connected brokers that were heard within their timeout and that the newest snapshot lacks all the same.

        A broker that has fallen silent is not among them: the gateway does not keep anyone alive.
        """
        for address, known in self._registered.items():
            is_due = now_ms - known.sent_at_ms >= SEND_AGAIN_AFTER_MS and now_ms - known.heard_at_ms < known.timeout_ms
            if is_due and address not in published.live and known.has_been_read(published):
                yield address, known


def _joined(former: Registered | None, part: Part) -> dict[Fingerprint, Part]:
    """The parts that the new one comes on top of: of the same version it is another part of the whole (B7), and one
    topic alone is an addition; anything else is the whole."""
    if former is None or len(former.parts) >= MAX_PARTS:
        return {}
    if part.data_version == former.data_version or part.topic_count == 1:
        return former.parts
    return {}

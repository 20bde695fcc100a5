"""Refuse the registration of an address that another living broker has (D14).

The newest snapshot tells who speaks, but a calm registry publishes signs of life every five minutes. So a refusal goes
to the log, the job publishes with it, and the registration is looked at once more with that snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.answers import Answers
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.own_writes import OwnWrites, until_read
from namesrv_stream.gateway.sending import KafkaSender
from namesrv_stream.rules.record_types import RequestRefused
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.wire_errors import BadRequestError

log = logging.getLogger(__name__)

ALIVE_WITHIN_MS = 45_000
"""A broker counts as living if its last sign of life is at most so old, by the log's clock at the newest snapshot.
Living brokers send one every 30 to 35 s."""

_WARNED_EVERY_MS = 60_000
_RECORD_EVERY_MS = 15_000
"""Pause between two records of refusals of one gateway."""


class AddressTakenError(BadRequestError):
    """A registration of an address that `lease` has. `name`, `host`: of the broker that announces it too."""

    def __init__(self, lease: LiveRow, other: str, name: str | None, connection: Connection) -> None:
        super().__init__(
            f"{lease.broker_addr} is the address of {lease.broker_name} in {lease.cluster_name}, alive ({other}), "
            f"and the broker at {connection.peer} announces it too: set brokerIP1 of both to addresses of their own"
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

    def check(self, answers: Answers, command: RemotingCommand, connection: Connection) -> None:
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

    async def is_read_anew(self, error: AddressTakenError) -> bool:
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
            log.warning("a registration is refused: %s", error, extra={"address": error.lease.broker_addr})

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

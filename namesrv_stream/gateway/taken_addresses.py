"""Refuses a registration whose address another living broker has (D14)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from namesrv_stream.gateway.answers import Answers
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.sending import Sending
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.wire_errors import BadRequestError

log = logging.getLogger(__name__)

SPEAKS_WITHIN_MS = 45_000
"""A broker lives that was heard, by the log's clock, so long before the newest snapshot: every 30 to 35 s it is."""

_WARNED_EVERY_MS = 60_000
"""Pause between two warnings."""


class AddressTakenError(BadRequestError):
    """Another broker process, which lives, has registered the same address under another name or cluster (D14)."""

    def __init__(self, lease: LiveRow, other: str, peer: str) -> None:
        super().__init__(
            f"{lease.broker_addr} is the address of {lease.broker_name} in {lease.cluster_name}, alive ({other}), "
            f"and the broker at {peer} announces it too: set brokerIP1 of both to addresses of their own"
        )


class TakenAddresses:
    """Knows by the newest snapshot which address is taken. Lives in the event loop.

    `speaking`: channel id -> open connection of this gateway over which a broker has given a sign of life.
    """

    def __init__(self, sending: Sending, speaking: Mapping[str, Connection]) -> None:
        self._sending = sending
        self._speaking = speaking
        self._silent_until_ms = 0

    def refuse(self, command: RemotingCommand, connection: Connection, answers: Answers) -> None:
        """Raise AddressTakenError if the registration's address is that of another living broker."""
        fields = command.ext_fields or {}
        lease = answers.live.get(fields.get("brokerAddr", ""))
        if lease is None or lease[1:3] == (fields.get("clusterName"), fields.get("brokerName")):
            return
        own, heard_from_ms = self._sending.channel_id(connection), answers.reading_ms - SPEAKS_WITHIN_MS
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

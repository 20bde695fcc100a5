"""Sends the registration of a connected broker again if the tables lack it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.answers import Answers
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.ledger import Fingerprint, FullRegistration, Registrations
from namesrv_stream.gateway.sending import Sending
from namesrv_stream.records import encode_record
from namesrv_stream.wire.requests import register_broker

log = logging.getLogger(__name__)

SEND_AGAIN_AFTER_S = 10.0
"""The time for which snapshots must lack a connected broker before its registration is sent again. A broker that leaves
unregisters at one name server after the other, and waits 3 s for each that is dead. So it may have left the tables
before it unregisters here."""

_BETWEEN_BROKERS_S = 0.002
"""Pace of what is done for thousands of brokers at once: the event loop answers others in between."""

SendInFull = Callable[[Fingerprint, FullRegistration, str, bytes], object]


class Resending:
    """Watches which brokers the newest snapshot lacks. Lives in the event loop.

    `speaking`: channel id -> connection over which a broker registered. `send_in_full` sends one part to Kafka and
    records it in the ledger.
    """

    def __init__(
        self,
        sending: Sending,
        registrations: Registrations,
        speaking: Mapping[str, Connection],
        send_in_full: SendInFull,
        answers: Answers,
    ) -> None:
        self._sending = sending
        self._registrations = registrations
        self._speaking = speaking
        self._send_in_full = send_in_full
        self._answers = answers
        self._waiting: set[str] = set()
        self.is_stopping = False

    def follow(self, answers: Answers) -> None:
        """Take note of a newer snapshot. Connected brokers that it lacks are sent again after SEND_AGAIN_AFTER_S.

        They are not if a snapshot has them by then.
        """
        self._answers = answers
        lacking = self._registrations.lacking(answers, self._sending.now_ms)
        new = [address for address in lacking if address not in self._waiting]
        self._waiting.update(new)
        for number, address in enumerate(new):
            after_s = SEND_AGAIN_AFTER_S + number * _BETWEEN_BROKERS_S
            self._sending.loop.call_later(after_s, self._on_still_lacking, address)

    def _on_still_lacking(self, address: str) -> None:
        self._waiting.discard(address)
        if not self.is_stopping:
            self._sending.start(self._send_again(address))

    async def _send_again(self, address: str) -> None:
        """Send all parts of a broker again, unless it has registered or has left meanwhile."""
        known = self._registrations.lacking_by(address, self._answers, self._sending.now_ms)
        if known is None:
            return
        channel_id = max(known.channels)
        connection = self._speaking[channel_id]
        try:
            async with self._sending.turn(connection):
                parts = list(known.parts.items())
                link, read = self._sending.link, partial(_records_of, [part for _, part in parts], channel_id)
                records = await link.aside(partial(link.run_in_process, read), known.held_bytes, known.host)
                if self._registrations.lacking_by(address, self._answers, self._sending.now_ms) is known:
                    log.warning("%s is connected and not in the tables: its registration is sent again", address,
                                extra={"address": address})  # fmt: skip
                    for (identity, part), record in zip(parts, records, strict=True):
                        self._send_in_full(identity, part, channel_id, record)
        except NamesrvError as error:
            self._registrations.forget(address)
            log.warning("%s is not sent again: %s", address, error)


def _records_of(parts: list[FullRegistration], channel_id: str) -> list[bytes]:
    return [encode_record(register_broker(part.registration(), channel_id)) for part in parts]

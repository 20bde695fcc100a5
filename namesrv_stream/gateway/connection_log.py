"""Log the brokers that come and go over this gateway's connections."""

from __future__ import annotations

import asyncio
import logging

from namesrv_stream.gateway.connection import Connection
from namesrv_stream.reporting.texts import duration_text
from namesrv_stream.rules.record_types import RegisterBroker
from namesrv_stream.rules.rows import LiveRow

log = logging.getLogger(__name__)

MAX_LINES = 20
WINDOW_S = 10.0


class BrokerLog:
    """Logs at most MAX_LINES in WINDOW_S, then how many were left out. Lives in the event loop.

    So a network that breaks between the gateway and 10,000 brokers does not fill the log.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines: int | None = None
        """Lines of the present window, None outside of one."""

    def came(self, head: RegisterBroker, connection: Connection) -> None:
        """Log that a broker sends its first registration over a connection."""
        if self._has_room():
            log.info("%s %d (%s) registers over the connection of %s", head.broker_name, head.broker_id,
                     head.broker_addr, connection.peer, extra={"address": head.broker_addr})  # fmt: skip

    def unregisters(self, address: str, lease: LiveRow | None) -> None:
        """Log that a broker leaves in order."""
        if self._has_room():
            log.info("%s unregisters", _who(address, lease), extra={"address": address})

    def lost(self, address: str, lease: LiveRow | None, connection: Connection) -> None:
        """Log that a connection with signs of life of the broker is lost, and why.

        `lease`: from the newest snapshot.
        """
        if self._has_room():
            age = duration_text(int(connection.age_s * 1000))
            log.info("%s: connection lost after %s: %s", _who(address, lease), age, connection.loss,
                     extra={"address": address})  # fmt: skip

    def _has_room(self) -> bool:
        if self._lines is None:
            self._lines = 0
            self._loop.call_later(WINDOW_S, self._end_window)
        self._lines += 1
        return self._lines <= MAX_LINES

    def _end_window(self) -> None:
        left_out = (self._lines or 0) - MAX_LINES
        self._lines = None
        if left_out > 0:
            log.info("%d more brokers came or went in %.0f s; `namesrv-stream history` lists them", left_out, WINDOW_S)


def _who(address: str, lease: LiveRow | None) -> str:
    return address if lease is None else f"{lease.broker_name} {lease.broker_id} ({address})"

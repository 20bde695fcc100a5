"""Decide whether the sender of a request may send it, from the request and its connection.

The decision comes before the request is handled. It decodes no body but those of 217 and 318.
Refused requests go to Kafka, so that the table `rejected` has a line an hour of those that are alike.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from namesrv_stream.access.rights import NotAllowedError, Rights
from namesrv_stream.access.users import Users
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import KafkaUnreachableError
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.gateway.kafka_link import GatewayBusyError
from namesrv_stream.rules.record_types import RequestRefused
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.wire.remoting_command import RemotingCommand

LINE_EVERY_S = 3_600.0
MAX_KINDS = 100
"""Kinds of refused requests that have a line each, because peers can invent users and names. The others share one."""

_OTHERS = RequestRefused(request="requests", requested_by="others", missing="a right")


class Authorization:
    """Admits or refuses each request whose code is in `checked`. Lives in the event loop.

    `on_refused` gets each refusal and the sender's host. `checked` is empty if everybody may send everything. It never
    contains the code of a lookup, so lookups cost nothing here in any mode.
    """

    def __init__(
        self,
        settings: NamesrvSettings,
        metrics: Metrics,
        on_refused: Callable[[NotAllowedError, str], None] = lambda _error, _host: None,
    ) -> None:
        """Read the users file.

        Raises SettingError if other machines can connect and auth.mode is not set, or if the file cannot be used.
        """
        self._metrics = metrics
        self._rights = Rights(settings, "bindAddress", settings.bind_address)
        self._on_refused = on_refused
        self.checked = self._rights.codes
        self.reload = self._rights.reload

    def authorize(
        self, command: RemotingCommand, connection: Connection, live: Mapping[str, LiveRow]
    ) -> RemotingCommand:
        """Return the request, with its `sender` if that is a known user. Raises NotAllowedError.

        `live`: leases by broker address.
        """
        sender = (self._rights.users or Users()).sender(command, connection.certificate_names)
        try:
            observed = self._rights.check(command, sender, live)
        except NotAllowedError as error:
            self._note(error, connection, "refused")
            self._on_refused(error, connection.host)
            raise
        if observed is not None:
            self._note(observed, connection, "observed")
        if sender.user is None:
            return command
        return msgspec.structs.replace(command, sender=f"{sender.user.name}@{connection.peer}")

    def _note(self, error: NotAllowedError, connection: Connection, effect: str) -> None:
        """Count and log a request whose sender lacks a right."""
        self._metrics.not_allowed(error.request, error.user, effect)
        verb = "is" if effect == "refused" else "would be"
        connection.log_line(logging.WARNING, f"request of {connection.peer} {verb} denied: {error}")


class Refusals:
    """Counts refused requests by user, host, request and missing right. Lives in the event loop."""

    def __init__(self, send: Callable[[RequestRefused], object]) -> None:
        self._send = send
        self._counts: dict[RequestRefused, int] = {}
        self._due_s: dict[RequestRefused, float] = {}

    def note(self, error: NotAllowedError, host: str) -> None:
        """Count a request from `host` that was refused."""
        sender = f"{error.user or 'unknown'}@{host}"
        kind = RequestRefused(request=error.request, requested_by=sender, missing=error.missing)
        if kind not in self._due_s and len(self._due_s) >= MAX_KINDS:
            kind = _OTHERS
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._due_s.setdefault(kind, 0.0)

    def send_due(self, now_s: float) -> None:
        """Send the counts of the kinds whose last record is an hour old, or that had none. Call it about once a second.

        If Kafka takes no record, the counts wait.
        """
        for kind in [each for each, due_s in self._due_s.items() if now_s >= due_s]:
            count = self._counts.get(kind)
            if count is None:
                del self._due_s[kind]
                continue
            try:
                self._send(replace(kind, count=count))
            except (KafkaUnreachableError, GatewayBusyError):
                return
            del self._counts[kind]
            self._due_s[kind] = now_s + LINE_EVERY_S

"""Send refused requests to Kafka, so that the table `rejected` has a line an hour of those that are alike."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from namesrv_stream.access.rights import NotAllowedError
from namesrv_stream.errors import KafkaUnreachableError
from namesrv_stream.gateway.kafka_link import GatewayBusyError
from namesrv_stream.rules.record_types import RequestRefused

LINE_EVERY_S = 3_600.0
MAX_KINDS = 100
"""Kinds of refused requests that have a line each, because peers can invent users and names. The others share one."""

_OTHERS = RequestRefused(request="requests", requested_by="others", missing="a right")


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

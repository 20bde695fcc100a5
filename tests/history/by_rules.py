"""A history through the rules, one record after the other, and into Delta by delta-rs: no Kafka, no Spark."""

from __future__ import annotations

from collections.abc import Iterable

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.replay.rules_engine import OneByOne
from namesrv_stream.rules.requests import Request, Scan
from namesrv_stream.rules.rows import BrokerEventRow, LogPosition, RejectedRow
from namesrv_stream.tables.root import Root
from tests.published import Published


def events_of(records: Iterable[tuple[int, Request]]) -> list[BrokerEventRow]:
    """The lines that records of the past leave, in order of the log."""
    registry = OneByOne(NamesrvSettings())
    for offset, (at_ms, request) in enumerate(records):
        _apply(registry, at_ms, request, offset)
    return registry.routes.take_batch().events


def publish_by_rules(
    records: Iterable[tuple[int, Request]], root: Root, now_ms: int, batch_ms: int, rejected: list[RejectedRow]
) -> None:
    """One epoch each `batch_ms` of event time; `rejected` come with the last."""
    registry = OneByOne(NamesrvSettings())
    published = Published(root, now_ms)
    at_ms, offset = 0, 0
    due_ms: int | None = None
    for offset, (at_ms, request) in enumerate(records):
        due_ms = due_ms or at_ms + batch_ms
        _apply(registry, at_ms, request, offset)
        if at_ms >= due_ms:
            published.publish(registry.routes, at_ms, offset + 1, now_ms)
            due_ms = at_ms + batch_ms
    published.publish(registry.routes, at_ms, offset + 1, now_ms, rejected)


def _apply(registry: OneByOne, at_ms: int, request: Request, offset: int) -> None:
    registry.pass_time(at_ms)
    if not isinstance(request, Scan):
        registry.handle(request, LogPosition(at_ms, 0, offset))

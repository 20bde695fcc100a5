"""A history through the rules, one record after the other, and into Delta by delta-rs: no Kafka, no Spark."""

from __future__ import annotations

from collections.abc import Iterable

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import Request, Scan
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import BrokerEventRow, RejectedRow
from namesrv_stream.tables.root import Root
from replay.rules_engine import OneByOne
from tests.published import Published


def events_of(records: Iterable[tuple[int, Request]]) -> list[BrokerEventRow]:
    """The lines that records of the past leave, in order of the log."""
    registry = _registry()
    for at_ms, request in records:
        _append(registry, at_ms, request)
    return registry.routes.take_changes().events


def publish_by_rules(
    records: Iterable[tuple[int, Request]], root: Root, now_ms: int, batch_ms: int, rejected: list[RejectedRow]
) -> None:
    """One epoch each `batch_ms` of event time; `rejected` come with the last."""
    registry = _registry()
    published = Published.claim(root, now_ms)
    at_ms = 0
    due_ms: int | None = None
    for at_ms, request in records:
        due_ms = due_ms or at_ms + batch_ms
        _append(registry, at_ms, request)
        if at_ms >= due_ms:
            published.publish(registry.routes, at_ms, registry.next_offset, now_ms)
            due_ms = at_ms + batch_ms
    published.publish(registry.routes, at_ms, registry.next_offset, now_ms, rejected)


def _registry() -> OneByOne:
    return OneByOne(RouteRegistry(NamesrvSettings(tickGapMillis=0)))


def _append(registry: OneByOne, at_ms: int, request: Request) -> None:
    """A tick of its time stands ahead of each record."""
    registry.append(Scan(), at_ms)
    if not isinstance(request, Scan):
        registry.append(request, at_ms)

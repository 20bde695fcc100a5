"""A history through the rules, one record after the other, and into Delta by delta-rs: no Kafka, no Spark."""

from __future__ import annotations

from collections.abc import Iterable

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import Request, Scan
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import BrokerEventRow, RejectedRow
from namesrv_stream.tables.root import Root
from replay.rules_engine import OneByOne
from tests.registry import PublishedRegistry

SETTINGS = NamesrvSettings(tickGapMillis=0)


def events_of(records: Iterable[tuple[int, Request]]) -> list[BrokerEventRow]:
    """The lines that records of the past leave, in order of the log."""
    registry = OneByOne(RouteRegistry(SETTINGS))
    for at_ms, request in records:
        for each in _with_its_tick(request):
            registry.append(each, at_ms)
    return registry.routes.take_changes().events


def publish_by_rules(
    records: Iterable[tuple[int, Request]], root: Root, now_ms: int, batch_ms: int, rejected: list[RejectedRow]
) -> None:
    """One epoch each `batch_ms` of event time; `rejected` come with the last."""
    registry = PublishedRegistry(root, now_ms, SETTINGS)
    due_ms: int | None = None
    for at_ms, request in records:
        registry.now_ms = at_ms
        due_ms = due_ms or at_ms + batch_ms
        for each in _with_its_tick(request):
            registry.command(each, publish=False)
        if at_ms >= due_ms:
            registry.publish(at_ms=now_ms)
            due_ms = at_ms + batch_ms
    registry.publish(rejected, now_ms)


def _with_its_tick(request: Request) -> list[Request]:
    """A tick of its time stands ahead of each record."""
    return [Scan()] if isinstance(request, Scan) else [Scan(), request]

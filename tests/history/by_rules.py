"""A history through the rules, one record after the other, and into Delta by delta-rs: no Kafka, no Spark."""

from __future__ import annotations

from collections.abc import Iterable

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.replay.rules_engine import OneByOne
from namesrv_stream.rules.requests import Request, Scan
from namesrv_stream.rules.rows import BrokerEventRow, LogPosition, RejectedRow
from namesrv_stream.tables.publication import Batch, Publisher, Writers
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.rust_writer import RustWriter
from namesrv_stream.tables.writer import RowChanges


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
    publisher = Publisher.claim(Writers.only(RustWriter(root)), "run", now_ms)
    batch_id, at_ms, offset = 0, 0, 0
    due_ms: int | None = None
    for offset, (at_ms, request) in enumerate(records):
        due_ms = due_ms or at_ms + batch_ms
        _apply(registry, at_ms, request, offset)
        if at_ms >= due_ms:
            publisher.publish(_batch(registry, batch_id, at_ms, offset), now_ms)
            batch_id, due_ms = batch_id + 1, at_ms + batch_ms
    publisher.publish(_batch(registry, batch_id, at_ms, offset, rejected), now_ms)


def _apply(registry: OneByOne, at_ms: int, request: Request, offset: int) -> None:
    registry.pass_time(at_ms)
    if not isinstance(request, Scan):
        registry.handle(request, LogPosition(at_ms, 0, offset))


def _batch(registry: OneByOne, batch_id: int, at_ms: int, offset: int, rejected: Iterable[RejectedRow] = ()) -> Batch:
    came = registry.routes.take_batch()
    changes = {name: RowChanges(of.upserts, of.deletes) for name, of in came.changes.items()}
    return Batch("query", batch_id, at_ms, {0: offset + 1}, changes, came.events, list(rejected))

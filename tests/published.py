"""Real tables with the results of the rules, by delta-rs: no Kafka, no Spark."""

from __future__ import annotations

from collections.abc import Iterable

from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import RejectedRow, SnapshotRow
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.root import DEFAULT_RETENTION_MS, Root
from namesrv_stream.tables.rust_writer import RustWriter
from namesrv_stream.tables.writer import changes_to_write


class Published:
    """The tables at `root`, claimed at `claimed_at_ms`. Each `publish` is one micro-batch of one partition."""

    def __init__(self, root: Root, claimed_at_ms: int, retention_ms: int = DEFAULT_RETENTION_MS) -> None:
        self._publisher = Publisher.claim(RustWriter(root), "run", claimed_at_ms, retention_ms)
        self._batch_id = -1

    def publish(
        self,
        rules: RouteRegistry,
        event_ms: int,
        next_offset: int,
        published_at_ms: int,
        rejected: Iterable[RejectedRow] = (),
    ) -> SnapshotRow:
        """Publish all changes since the last call."""
        self._batch_id += 1
        came, offsets = rules.take_changes(), {0: next_offset}
        changes = changes_to_write(came.changes)
        batch = Batch("query", self._batch_id, event_ms, offsets, changes, came.events, list(rejected))
        return self._publisher.publish(batch, published_at_ms)

"""Real tables with the results of the rules, by delta-rs: no Kafka, no Spark."""

from __future__ import annotations

from collections.abc import Iterable

from namesrv_stream.rules.lease import LogClock
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import RejectedRow, SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import ROUTE_TABLES, TABLES
from namesrv_stream.tables.writer import RustWriter, changes_to_write


class Published:
    """Tables of a run that has claimed them. Each `publish` is one micro-batch of one partition."""

    def __init__(self, publisher: Publisher, batch_id: int) -> None:
        self._publisher = publisher
        self._batch_id = batch_id

    @classmethod
    def claim(cls, root: Root, claimed_at_ms: int) -> Published:
        """Make the tables at `root`, or take over those that are there."""
        return cls(Publisher.claim(RustWriter(root), "run", claimed_at_ms), -1)

    def copied_to(self, root: Root) -> Published:
        """Return the same run, as it would go on at `root`, where a copy of the tables is."""
        writer = RustWriter(root)
        newest, version = writer.newest_snapshot()
        assert newest == self._publisher.last
        publisher = Publisher(writer, newest, version, lambda _point: None)
        return Published(publisher, self._batch_id)

    def load(self, rules: RouteRegistry) -> None:
        """Load the tables, as a job that begins."""
        rows = {spec.name: self._publisher.rows(spec) for spec in ROUTE_TABLES}
        rules.load(rows, LogClock.of(self._publisher.last))

    def publish(
        self,
        rules: RouteRegistry,
        event_ms: int,
        next_offset: int,
        published_at_ms: int,
        rejected: Iterable[RejectedRow] = (),
    ) -> SnapshotRow:
        """Publish all changes since the last call, with the signs of life and the log's clock, as the job does."""
        self._batch_id += 1
        came, offsets = rules.take_changes(), {0: next_offset}
        changes = changes_to_write(came.changes, rules.take_signs_of_life())
        rows_of = (changes, came.events, list(rejected))
        batch = Batch("query", self._batch_id, event_ms, offsets, *rows_of, clock=rules.clock)
        return self._publisher.publish(batch, published_at_ms)


def rows_of(root: Root | str, name: str) -> list:
    """Return all rows of one table as of the newest snapshot."""
    reader = Registry(root)
    return rows_from_arrow(TABLES[name], reader.newest()[name])

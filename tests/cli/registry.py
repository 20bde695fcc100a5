"""Real tables for the command line's tests: records through the rules and the publisher, without Spark or Kafka."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from copy import deepcopy

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import BrokerHeartbeat, Command, DataVersion, RegisterBroker, Scan, TopicConfig
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition, RejectedRow, SnapshotRow
from namesrv_stream.tables.job_progress import ProgressFile, ProgressSign
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.tools.backup_file import content_of
from tests.published import Published


class PublishedRegistry:
    """A registry that publishes each step as a micro-batch of its own; `now_ms` is the step's event time too."""

    def __init__(
        self,
        root: str,
        now_ms: int,
        published: Published | None = None,
        rules: RouteRegistry | None = None,
        next_offset: int = 0,
    ) -> None:
        self.root = root
        self.now_ms = now_ms
        self.next_offset = next_offset
        self.rules = rules or RouteRegistry(NamesrvSettings())
        self._published = published or Published.claim(Root(root), now_ms)

    def copied_to(self, root: str) -> PublishedRegistry:
        """Return a copy with its tables at `root`, which takes a tenth of the time of publishing the same again."""
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.root, root)
        published = self._published.copied_to(Root(root))
        return PublishedRegistry(root, self.now_ms, published, deepcopy(self.rules), self.next_offset)

    def register(
        self, address: str, cluster: str, name: str, broker_id: int = 0, publish: bool = True, **fields: object
    ) -> SnapshotRow | None:
        topics = {topic: TopicConfig(8, 8, 6) for topic in fields.pop("topics", ("TopicA",))}
        request = RegisterBroker(
            cluster_name=cluster,
            broker_name=name,
            broker_id=broker_id,
            broker_addr=address,
            ha_server_addr=f"{address}1",
            data_version=DataVersion(0, self.now_ms, 1),
            topic_config_table=topics,
            **fields,
        )
        self.rules.apply(request, self._next_place())
        return self.publish() if publish else None

    def command(self, command: Command, publish: bool = True) -> SnapshotRow | None:
        self.rules.apply(command, self._next_place())
        return self.publish() if publish else None

    def unregister(self, address: str) -> SnapshotRow:
        self.rules.end(address, "UNREGISTERED", self.now_ms, self._next_place())
        return self.publish()

    def gap(self, gap_ms: int) -> SnapshotRow:
        """Publish two ticks with `gap_ms` between them."""
        self.rules.apply(Scan(), self._next_place())
        self.now_ms += gap_ms
        self.rules.apply(Scan(), self._next_place())
        return self.publish()

    def expire(self, address: str, publish: bool = True) -> SnapshotRow | None:
        """End the lease of `address` at the time of its last sign of life."""
        self.rules.apply(BrokerHeartbeat(broker_addr=address), self._next_place())
        self.rules.expire(address, self.now_ms)
        return self.publish() if publish else None

    def publish(self, rejected: Iterable[RejectedRow] = ()) -> SnapshotRow:
        return self._published.publish(self.rules, self.now_ms, self.next_offset, self.now_ms, rejected)

    def give_sign(self, at_ms: int) -> None:
        """Say as the job that it has read the log up to now, and nothing has changed."""
        row = RouteReader(self.root).open().snapshot
        ProgressFile(Root(self.root)).write(ProgressSign(row.epoch, row.term, at_ms, at_ms, row.offsets))

    def _next_place(self) -> LogPosition:
        self.next_offset += 1
        return LogPosition(self.now_ms, 0, self.next_offset - 1)


def tables(root: Root | str) -> dict[str, list[object]]:
    """Return the rows of the route tables, leases without signs of life and tokens."""
    rows = content_of(RouteReader(root), None).rows
    bare = {name: sorted(map(repr, of_table)) for name, of_table in rows.items() if name != "live"}
    return bare | {"live": sorted((*lease[:4], *map(repr, lease[5:9])) for lease in rows["live"])}

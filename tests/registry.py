"""Real tables of a registry: records through the rules and the publisher, without Spark or Kafka."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from copy import copy, deepcopy
from typing import Self

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import BrokerHeartbeat, DataVersion, Request, Scan
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition, RejectedRow, SnapshotRow
from namesrv_stream.tables.job_progress import ProgressFile, ProgressSign
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tools.backup_file import content_of
from tests.build import registration
from tests.published import Published


class PublishedRegistry:
    """A registry that publishes each step as a micro-batch of its own; `now_ms` is the step's event time too."""

    def __init__(self, root: Root | str, now_ms: int, settings: NamesrvSettings | None = None) -> None:
        self.root = url_of(root)
        self.now_ms = now_ms
        self.next_offset = 0
        self.rules = RouteRegistry(settings or NamesrvSettings())
        self.published = Published.claim(Root(self.root), now_ms)

    def copied_to(self, root: Root | str) -> Self:
        """Return a copy with its tables at `root`, which takes a tenth of the time of publishing the same again."""
        other = copy(self)
        other.root, other.rules = url_of(root), deepcopy(self.rules)
        shutil.rmtree(other.root, ignore_errors=True)
        shutil.copytree(self.root, other.root)
        other.published = self.published.copied_to(Root(other.root))
        return other

    def next_job(self) -> Self:
        """Return the registry as the next job goes on with its tables, which reads the log from its beginning."""
        other = type(self)(self.root, self.now_ms)
        other.published.load(other.rules)
        return other

    def register(
        self,
        address: str,
        cluster: str,
        name: str,
        broker_id: int = 0,
        publish: bool = True,
        topics: Iterable[str] = ("TopicA",),
        **fields: object,
    ) -> SnapshotRow | None:
        own = {"ha_server_addr": f"{address}1", "data_version": DataVersion(0, self.now_ms, 1)}
        place = {"cluster_name": cluster, "broker_name": name, "broker_id": broker_id}
        return self.command(registration(address, topics=topics, **place, **own | fields), publish)

    def command(self, request: Request, publish: bool = True) -> SnapshotRow | None:
        self.rules.apply(request, self._next_place())
        return self.publish() if publish else None

    def unregister(self, address: str) -> SnapshotRow:
        self.end(address, "UNREGISTERED")
        return self.publish()

    def end(self, address: str, cause: str) -> None:
        self.rules.end(address, cause, self.now_ms, self._next_place())

    def gap(self, gap_ms: int) -> SnapshotRow:
        """Publish two ticks with `gap_ms` between them."""
        self.command(Scan(), publish=False)
        self.now_ms += gap_ms
        return self.command(Scan())

    def expire(self, address: str, publish: bool = True, silent_ms: int = 0) -> SnapshotRow | None:
        """End the lease of `address`, by default at the time of its last heartbeat."""
        self.command(BrokerHeartbeat(broker_addr=address), publish=False)
        self.now_ms += silent_ms
        self.rules.expire(address, self.now_ms)
        return self.publish() if publish else None

    def publish(self, rejected: Iterable[RejectedRow] = (), at_ms: int | None = None) -> SnapshotRow:
        """`at_ms`: when it is published, by default at the event time."""
        return self.published.publish(self.rules, self.now_ms, self.next_offset, at_ms or self.now_ms, rejected)

    def give_sign(self, at_ms: int) -> None:
        """Say as the job that it has read the log up to now, and nothing has changed."""
        row = Registry(self.root).newest().snapshot
        ProgressFile(Root(self.root)).write(ProgressSign(row.epoch, row.term, at_ms, at_ms, row.offsets))

    def _next_place(self) -> LogPosition:
        self.next_offset += 1
        return LogPosition(self.now_ms, 0, self.next_offset - 1)


def url_of(root: Root | str) -> str:
    return root if isinstance(root, str) else root.url


def tables(root: Root | str) -> dict[str, list[object]]:
    """Return the rows of the route tables, leases without signs of life and tokens."""
    rows = content_of(Registry(root).newest()).rows
    bare = {name: sorted(map(repr, of_table)) for name, of_table in rows.items() if name != "live"}
    return bare | {"live": sorted((*lease[:4], *map(repr, lease[5:9])) for lease in rows["live"])}

"""A registry with a random history: records through the rules and the publisher, without Spark or Kafka."""

from __future__ import annotations

import random

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.requests import DataVersion, RegisterBroker, TopicConfig
from namesrv_stream.rules.routes import LeaseEnd, RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.publication import Batch, Publisher, Writers
from namesrv_stream.tables.root import DEFAULT_RETENTION_MS, Root
from namesrv_stream.tables.rust_writer import RustWriter
from namesrv_stream.tables.writer import RowChanges


class RandomHistory:
    """Brokers that come, go, move and take ids from one another; each `publish` is one epoch."""

    def __init__(
        self, root: Root, seed: int, start_ms: int, now_ms: int, retention_ms: int = DEFAULT_RETENTION_MS
    ) -> None:
        self.rules = RouteRegistry(NamesrvSettings())
        self.event_ms = start_ms
        self._rng = random.Random(seed)
        self._now_ms = now_ms
        self._publisher = Publisher.claim(Writers.only(RustWriter(root)), "run", now_ms, retention_ms)
        self._offset = 0

    def step(self, gap_ms: int = 60_000) -> None:
        """One random record or end of a lease, `gap_ms` after the one before."""
        rng = self._rng
        self.event_ms += gap_ms
        self._offset += 1
        at = LogPosition(self.event_ms, 0, self._offset)
        address = f"10.0.0.{rng.randrange(6)}:10911"
        if rng.random() < 0.3:
            kind = rng.choice(["EXPIRED", "UNREGISTERED", "CHANNEL_CLOSED"])
            self.rules.end(LeaseEnd(kind, address, at, self.event_ms))
            return
        request = RegisterBroker(
            cluster_name=rng.choice(["c1", "c2"]),
            broker_name=rng.choice(["broker-a", "broker-b", "broker-c"]),
            broker_id=rng.randrange(3),
            broker_addr=address,
            zone_name=rng.choice([None, "z"]),
            enable_acting_master=rng.choice([None, True]),
            filter_server_list=rng.choice([[], ["f:1"], ["f:1", "f:2"]]),
            ha_server_addr=rng.choice(["", "10.0.0.9:10912"]),
            data_version=DataVersion(rng.randrange(2), 0, rng.randrange(3)),
            topic_config_table={topic: TopicConfig(4, 4, 6) for topic in rng.sample(["T", "U", "V"], 2)},
        )
        self.rules.register(request, at)

    def publish(self) -> int:
        """What has happened, as one micro-batch; the epoch."""
        came = self.rules.take_batch()
        changes = {name: RowChanges(of.upserts, of.deletes) for name, of in came.changes.items()}
        batch_id = self._publisher.last.epoch
        offsets = {0: self._offset + 1}
        batch = Batch("query", batch_id, self.event_ms, offsets, changes, came.events)
        return self._publisher.publish(batch, self._now_ms).epoch

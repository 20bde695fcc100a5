"""Registries that are made and published without Spark and Kafka: by the rules, or as rows of thousands of topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.harness import now_ms
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import DataVersion, RegisterBroker, Request, TopicConfig
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import BrokerEventRow, BrokerRow, ClusterRow, LiveRow, LogPosition, RowChange, TopicRow
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TOPIC
from namesrv_stream.tables.writer import RowChanges, RustWriter, changes_to_write

TOPICS_PER_BROKER = 10_000


class Plan(NamedTuple):
    """A registry. With `has_own_topics` no two brokers share a topic, else all have the same topics."""

    brokers: int
    topics: int
    has_own_topics: bool

    @property
    def rows(self) -> int:
        """The number of rows of the table `topic`."""
        return self.brokers * self.topics

    def broker_name(self, broker: int) -> str:
        """Return a broker's name, such as broker-00007."""
        return f"broker-{broker:05}"

    def topic(self, broker: int, number: int) -> str:
        """Return the name of one of a broker's topics."""
        return f"orders-topic-{number:05}" + (f"-{broker:05}" if self.has_own_topics else "")

    def all_rows(self) -> pa.Table:
        """Return the whole table `topic`."""
        names = [self.topic(broker, number) for broker in range(self.brokers) for number in range(self.topics)]
        holders = np.repeat([self.broker_name(broker) for broker in range(self.brokers)], self.topics)
        numbers = [pa.array(np.full(self.rows, value, np.int32)) for value in (8, 8, 6, 0)]
        return pa.table([pa.array(names), pa.array(holders), *numbers], schema=TOPIC.schema)


class Registry:
    """The published tables, changed one batch at a time. `tokens`: of each broker's registration, if it has one."""

    def __init__(self, root: Path, plan: Plan, tokens: Sequence[str] = ()) -> None:
        self._plan = plan
        self._tokens = tokens
        self._publisher = Publisher.claim(RustWriter(Root(str(root))), "benchmark", now_ms())
        self._batch_id = 0

    def publish_all(self) -> None:
        """Publish all brokers with all their topics, as one batch."""
        brokers = range(self._plan.brokers)
        self._publish(
            topic=RowChanges(self._plan.all_rows()),
            broker=RowChanges([self._broker(broker) for broker in brokers]),
            cluster=RowChanges([ClusterRow("c", self._plan.broker_name(broker)) for broker in brokers]),
            live=RowChanges([self._lease(broker, 0) for broker in brokers]),
        )

    def publish_again(self) -> None:
        """Publish a snapshot without a change, as the job does so that its snapshots do not get stale."""
        self._publish()

    def change_one(self, broker: int, number: int, queues: int) -> str:
        """Give one topic of one broker another count of queues; return its name."""
        topic = self._plan.topic(broker, number)
        self._change([TopicRow(topic, self._plan.broker_name(broker), queues, queues, 6, 0)], broker)
        return topic

    def change_bulk(self, first: int, count: int, queues: int) -> str:
        """Publish that many new or changed topics of one broker name in one batch; return the last one's name."""
        names = [f"bulk-topic-{number:06}" for number in range(first, first + count)]
        self._change([TopicRow(name, self._plan.broker_name(0), queues, queues, 6, 0) for name in names], 0)
        return names[-1]

    def drop_bulk(self, first: int, count: int) -> str:
        """Delete those topics again."""
        keys = [(f"bulk-topic-{number:06}", self._plan.broker_name(0)) for number in range(first, first + count)]
        lines = [RowChange(TOPIC.name, key, TopicRow(*key, 8, 8, 6, 0), None) for key in keys]
        self._publish(lines, topic=RowChanges(deletes=keys), live=RowChanges([self._lease(0, 1)]))
        return keys[-1][0]

    def _change(self, rows: Sequence[TopicRow], broker: int) -> None:
        lines = [RowChange(TOPIC.name, row[:2], None, row) for row in rows]
        lease = self._lease(broker, rows[0].read_queue_nums)
        self._publish(lines, topic=RowChanges(rows), live=RowChanges([lease]))

    def _publish(self, lines: Sequence[RowChange] = (), **changes: RowChanges) -> None:
        """Publish changes, with the lines of history by which a gateway follows the table `topic`."""
        self._batch_id += 1
        at_ms, concerned = now_ms(), (None,) * 6
        event = BrokerEventRow(
            0, 0, at_ms, 0, 0, "TOPICS_CHANGED", *concerned, "REGISTER_BROKER", None, changes=tuple(lines)
        )
        batch = Batch("query", self._batch_id, at_ms, {0: self._batch_id}, changes, [event] if lines else [])
        self._publisher.publish(batch, at_ms)

    def _broker(self, broker: int) -> BrokerRow:
        address, name = address_of(broker), self._plan.broker_name(broker)
        return BrokerRow(name, 0, address, "c", None, None, LogPosition(now_ms(), 0, broker))

    def _lease(self, broker: int, counter: int) -> LiveRow:
        version, at_ms = DataVersion(0, 1, counter), now_ms()
        name = self._plan.broker_name(broker)
        tokens = tuple(self._tokens[broker : broker + 1])
        return LiveRow(address_of(broker), "c", name, 0, at_ms, 120_000, version, "", at_ms, tokens=tokens)


def address_of(broker: int) -> str:
    """Return a broker's address."""
    return f"10.0.{broker // 250}.{broker % 250}:10911"


def master(number: int, table: Mapping[str, TopicConfig], **fields: Any) -> RegisterBroker:
    """Return the registration of a master with a name and an address of its own."""
    own = {"cluster_name": "c", "broker_name": f"broker-{number}", "broker_addr": address_of(number), "broker_id": 0}
    return RegisterBroker(topic_config_table=dict(table), **{"data_version": DataVersion(0, 1, 1), **own, **fields})


class RuledRegistry:
    """Tables of records that the rules apply, published as the job would; `at_ms` is the time of what comes next."""

    def __init__(self, root: Path, at_ms: int = 0, settings: NamesrvSettings | None = None) -> None:
        self.at_ms = at_ms or now_ms()
        settings = settings or NamesrvSettings()
        exact_ms = round(settings.snapshot_exact.total_seconds() * 1_000)
        self.rules = RouteRegistry(settings)
        self.publisher = Publisher.claim(RustWriter(Root(str(root))), "bench", self.at_ms, exact_ms=exact_ms)
        self._offset = self.publications = 0

    def apply(self, *requests: Request) -> None:
        """Apply records."""
        for request in requests:
            self.rules.apply(request, LogPosition(self.at_ms, 0, self._offset))
            self._offset += 1

    def publish(self) -> int:
        """Publish what has happened and the signs of life; return the epoch."""
        came = self.rules.take_changes()
        changes = changes_to_write(came.changes, self.rules.take_signs_of_life())
        offsets, clock = {0: self._offset}, self.rules.clock
        batch = Batch("bench", self.publications, self.at_ms, offsets, changes, came.events, clock=clock)
        self.publications += 1
        return self.publisher.publish(batch, max(self.at_ms, now_ms())).epoch

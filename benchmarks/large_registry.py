"""A registry of many brokers with thousands of topics each, made and changed without Spark and Kafka."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import BrokerRow, ClusterRow, LiveRow, LogPosition, TopicRow
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TOPIC
from namesrv_stream.tables.writer import RowChanges, RustWriter

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
        self._publisher = Publisher.claim(RustWriter(Root(str(root))), "benchmark", _now_ms())
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
        row = TopicRow(topic, self._plan.broker_name(broker), queues, queues, 6, 0)
        self._publish(topic=RowChanges([row]), live=RowChanges([self._lease(broker, queues)]))
        return topic

    def change_bulk(self, first: int, count: int, queues: int) -> str:
        """Publish that many new or changed topics of one broker name in one batch; return the last one's name."""
        names = [f"bulk-topic-{number:06}" for number in range(first, first + count)]
        rows = [TopicRow(name, self._plan.broker_name(0), queues, queues, 6, 0) for name in names]
        self._publish(topic=RowChanges(rows), live=RowChanges([self._lease(0, queues)]))
        return names[-1]

    def drop_bulk(self, first: int, count: int) -> str:
        """Delete those topics again."""
        keys = [(f"bulk-topic-{number:06}", self._plan.broker_name(0)) for number in range(first, first + count)]
        self._publish(topic=RowChanges(deletes=keys), live=RowChanges([self._lease(0, 1)]))
        return keys[-1][0]

    def _publish(self, **changes: RowChanges) -> None:
        self._batch_id += 1
        now_ms = _now_ms()
        self._publisher.publish(Batch("query", self._batch_id, now_ms, {0: self._batch_id}, changes), now_ms)

    def _broker(self, broker: int) -> BrokerRow:
        address, name = address_of(broker), self._plan.broker_name(broker)
        return BrokerRow(name, 0, address, "c", None, None, LogPosition(_now_ms(), 0, broker))

    def _lease(self, broker: int, counter: int) -> LiveRow:
        version, now_ms = DataVersion(0, 1, counter), _now_ms()
        name = self._plan.broker_name(broker)
        tokens = tuple(self._tokens[broker : broker + 1])
        return LiveRow(address_of(broker), "c", name, 0, now_ms, 120_000, version, "", now_ms, tokens=tokens)


def address_of(broker: int) -> str:
    """Return a broker's address."""
    return f"10.0.{broker // 250}.{broker % 250}:10911"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

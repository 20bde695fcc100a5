"""Schemas of the Delta tables: row class, Arrow schema, key and partition column of each.

Timestamps are microseconds in UTC, the one kind that both engines (Spark and delta-rs) store as TIMESTAMP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from namesrv_stream.rules import rows

FORMAT = 2
"""Number of the tables' format. It rises with each change that older code would misread. 2: `topic` lies in buckets."""

TIMESTAMP = pa.timestamp("us", "UTC")
DATA_VERSION = pa.struct({"state_version": pa.int64(), "timestamp": pa.int64(), "counter": pa.int64()})
LOG_POSITION = pa.struct({"event_time": TIMESTAMP, "partition": pa.int32(), "offset": pa.int64()})
TEXT, INT, LONG = pa.string(), pa.int32(), pa.int64()
CHANNELS = pa.list_(pa.struct({"channel_id": TEXT, "last_heard_millis": LONG}))
"""Connections of a lease, in order of channel_id. It is no map, because Spark neither compares nor sorts maps."""

EVENT_MONTH = "event_month"
"""Partition column of `broker_event`, 'YYYY-MM' of event_time in UTC.

Files of one month are compacted and sorted among themselves, so a new day does not rewrite years of history.
"""
EVENT_FILE_BYTES = 32 * 1024 * 1024
"""Target size of a sorted file of `broker_event`. A busy month has several, and a query leaves most of them unread."""
SMALL_EVENT_FILE_BYTES = EVENT_FILE_BYTES // 2
"""Size below which the job's compaction merges files of `broker_event`.

Larger files are sorted by maintenance, and merging them would undo that order.
"""


TOPIC_BUCKET = "bucket"
"""Partition column of `topic`, '00' to '31': a hash of the broker name.

A merge rewrites only the files of the buckets that it changes. With more buckets a file is smaller, but a change of
many broker names writes more files. 32 buckets cost a registry of 2,000 rows nothing (benchmarks/scale.py).
"""
TOPIC_BUCKETS = 32


@dataclass(frozen=True)
class TableSpec:
    """One Delta table. A table with an empty key is append only.

    `partition_column` is computed from the row and is no field of it. `change_feed` is True if Delta's change data
    feed is on; an append-only table needs none, since its rows are the feed. `later_columns` is True if a former
    release made the table without some of its columns; these read as NULL in snapshots of that release.
    """

    name: str
    row: type[tuple[Any, ...]]
    schema: pa.Schema
    key: tuple[str, ...] = ()
    partition_column: str | None = None
    change_feed: bool = False
    later_columns: bool = False

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns in Delta: the row's, then the partition column."""
        if self.partition_column is None:
            return self.schema
        return self.schema.append(pa.field(self.partition_column, TEXT))


def _keyed(name: str, row: type[tuple[Any, ...]], keys: str, /, **columns: pa.DataType) -> TableSpec:
    return TableSpec(name, row, pa.schema(list(columns.items())), tuple(keys.split()), change_feed=True)


TOPIC = replace(
    _keyed(
        "topic",
        rows.TopicRow,
        "topic broker_name",
        topic=TEXT,
        broker_name=TEXT,
        read_queue_nums=INT,
        write_queue_nums=INT,
        perm=INT,
        topic_sys_flag=INT,
    ),
    partition_column=TOPIC_BUCKET,
)
BROKER = _keyed(
    "broker",
    rows.BrokerRow,
    "broker_name broker_id",
    broker_name=TEXT,
    broker_id=LONG,
    broker_addr=TEXT,
    cluster_name=TEXT,
    zone_name=TEXT,
    enable_acting_master=pa.bool_(),
    registered_at=LOG_POSITION,
)
CLUSTER = _keyed("cluster", rows.ClusterRow, "cluster_name broker_name", cluster_name=TEXT, broker_name=TEXT)
FILTER = _keyed("filter", rows.FilterRow, "broker_addr", broker_addr=TEXT, filter_server_list=pa.list_(TEXT))
LIVE = TableSpec(
    "live",
    rows.LiveRow,
    pa.schema(
        {
            "broker_addr": TEXT,
            "cluster_name": TEXT,
            "broker_name": TEXT,
            "broker_id": LONG,
            "last_update_timestamp": TIMESTAMP,
            "heartbeat_timeout_millis": LONG,
            "data_version": DATA_VERSION,
            "ha_server_addr": TEXT,
            "lease_began_at": TIMESTAMP,
            "grace_until": TIMESTAMP,
            "channels": CHANNELS,
            "suspect_since": TIMESTAMP,
        }
    ),
    key=("broker_addr",),
    later_columns=True,
    # The feed would hold each refreshed row twice: more than half of a registry's bytes, and nothing that
    # `broker_event` does not have.
    change_feed=False,
)
KV_CONFIG = _keyed("kv_config", rows.KvConfigRow, "namespace key", namespace=TEXT, key=TEXT, value=TEXT)
NAMESRV_CONFIG = _keyed("namesrv_config", rows.NamesrvConfigRow, "key", key=TEXT, value=TEXT)
TOPIC_MAPPING = _keyed(
    "topic_mapping", rows.TopicMappingRow, "topic broker_name", topic=TEXT, broker_name=TEXT, mapping=TEXT
)
BROKER_EVENT = TableSpec(
    "broker_event",
    rows.BrokerEventRow,
    pa.schema(
        {
            "epoch": LONG,
            "seq": LONG,
            "event_time": TIMESTAMP,
            "partition": INT,
            "offset": LONG,
            "type": TEXT,
            "cluster_name": TEXT,
            "broker_name": TEXT,
            "broker_id": LONG,
            "broker_addr": TEXT,
            "data_version": DATA_VERSION,
            "cause": TEXT,
            "requested_by": TEXT,
            "before": TEXT,
            "after": TEXT,
            "last_heard_at": TIMESTAMP,
            "lease_millis": LONG,
            "reason": TEXT,
        }
    ),
    partition_column=EVENT_MONTH,
    later_columns=True,
)
REJECTED = TableSpec(
    "rejected",
    rows.RejectedRow,
    pa.schema(
        {
            "event_time": TIMESTAMP,
            "partition": INT,
            "offset": LONG,
            "key": TEXT,
            "value": pa.binary(),
            "length": LONG,
            "reason": TEXT,
        }
    ),
)
SNAPSHOT = TableSpec(
    "snapshot",
    rows.SnapshotRow,
    pa.schema(
        {
            "epoch": LONG,
            "term": LONG,
            "run_id": TEXT,
            "query_id": TEXT,
            "batch_id": LONG,
            "published_at": TIMESTAMP,
            "event_time": TIMESTAMP,
            "offsets": pa.map_(INT, LONG),
            "versions": pa.map_(TEXT, LONG),
            "changes": pa.map_(TEXT, LONG),
            "kind": TEXT,
            "last_tick": TIMESTAMP,
            "kafka_cluster_id": TEXT,
            "kafka_topic_id": TEXT,
            "log_accepted_at": TIMESTAMP,
        }
    ),
    later_columns=True,
)

ROUTE_TABLES = (TOPIC, BROKER, CLUSTER, FILTER, LIVE, KV_CONFIG, NAMESRV_CONFIG, TOPIC_MAPPING)
"""Tables that lookups read: keyed, and written by merges."""

PINNED_TABLES = (*ROUTE_TABLES, BROKER_EVENT, REJECTED)
"""Tables whose version a snapshot names."""

TABLES = {spec.name: spec for spec in (*PINNED_TABLES, SNAPSHOT)}

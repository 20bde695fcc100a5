"""Schemas of the Delta tables: columns with their comments, key, constraints and partition column of each.

This is the one source of what the tables say about themselves: Delta stores the comments and constraints, and
`python -m namesrv_stream.tables.tables_docs` writes them into docs/tables.md.

Timestamps are microseconds in UTC, the one kind that both engines (Spark and delta-rs) store as TIMESTAMP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from namesrv_stream.rules import rows

FORMAT = 2
"""Number of the tables' format. It rises with each change that older code would misread. 2: `topic` lies in buckets."""

TIMESTAMP = pa.timestamp("us", "UTC")
DATA_VERSION = pa.struct({"state_version": pa.int64(), "timestamp": pa.int64(), "counter": pa.int64()})
LOG_POSITION = pa.struct({"event_time": TIMESTAMP, "partition": pa.int32(), "offset": pa.int64()})
TEXT, INT, LONG = pa.string(), pa.int32(), pa.int64()
TEXTS = pa.list_(TEXT)
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


class Column(NamedTuple):
    """One column of a Delta table, with the comment that Delta and docs/tables.md show.

    `is_required`: a table made by this release has it as NOT NULL. `is_later`: a former release made the table without
    this column, so it reads as NULL in snapshots of that release and cannot be required.
    """

    name: str
    kind: pa.DataType
    comment: str
    is_required: bool = True
    is_later: bool = False


def _optional(name: str, kind: pa.DataType, comment: str) -> Column:
    return Column(name, kind, comment, is_required=False)


def _later(name: str, kind: pa.DataType, comment: str) -> Column:
    return Column(name, kind, comment, is_required=False, is_later=True)


@dataclass(frozen=True, eq=False)
class TableSpec:
    """One Delta table. A table with an empty key is append only, except `past_session`.

    `grain` completes the sentence "one row is ...". `partition` is computed from the row and is no field of it.
    `change_feed` is True if Delta's change data feed is on; an append-only table needs none, since its rows are the
    feed. `checks` are CHECK constraints, name -> SQL. They state only what the rules guarantee, because a row that
    violates one would stop the publication.
    """

    name: str
    row: type[tuple[Any, ...]]
    grain: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    partition: Column | None = None
    change_feed: bool = False
    checks: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def schema(self) -> pa.Schema:
        """The row's columns in memory: every one may be null, because a merge names deleted rows by their key alone."""
        return pa.schema([(column.name, column.kind) for column in self.columns])

    @property
    def description(self) -> str:
        """The description that Delta stores."""
        return f"One row is {self.grain}."

    @property
    def partition_column(self) -> str | None:
        """Name of the partition column, None if the table has none."""
        return None if self.partition is None else self.partition.name

    @property
    def stored_columns(self) -> tuple[Column, ...]:
        """The columns in Delta: the row's, then the partition column."""
        return self.columns if self.partition is None else (*self.columns, self.partition)

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns in Delta, with NOT NULL and comments."""
        return pa.schema([stored_field(column) for column in self.stored_columns])

    @property
    def has_later_columns(self) -> bool:
        """True if a former release made the table without some of its columns."""
        return any(column.is_later for column in self.columns)


def stored_field(column: Column) -> pa.Field:
    """Return a column as Delta stores it, in Arrow's terms."""
    return pa.field(column.name, column.kind, not column.is_required, {"comment": column.comment})


TOPIC = TableSpec(
    "topic",
    rows.TopicRow,
    "a topic on a broker name",
    (
        Column("topic", TEXT, "name of the topic"),
        Column("broker_name", TEXT, "broker name that has the topic"),
        Column("read_queue_nums", INT, "number of queues that consumers read"),
        Column("write_queue_nums", INT, "number of queues that producers write"),
        Column("perm", INT, "permission bits: 8 priority, 4 read, 2 write, 1 inherit"),
        Column("topic_sys_flag", INT, "bits: 1 unit, 2 has unit subscription"),
    ),
    key=("topic", "broker_name"),
    partition=Column(
        TOPIC_BUCKET,
        TEXT,
        "partition, 00 to 31: CRC32 of broker_name modulo 32. A condition on it leaves the files of other buckets "
        "unread. Tables of release 0.1.0 lack it",
    ),
    change_feed=True,
)
BROKER = TableSpec(
    "broker",
    rows.BrokerRow,
    "the holder of a broker id",
    (
        Column("broker_name", TEXT, "name of the group of a master and its slaves"),
        Column("broker_id", LONG, "0 is the master"),
        Column("broker_addr", TEXT, "host:port of the address that holds the id"),
        Column("cluster_name", TEXT, "cluster as this address registered"),
        _optional("zone_name", TEXT, "zone as this address registered"),
        _optional("enable_acting_master", pa.bool_(), "NULL: the broker did not send the flag (R9)"),
        Column(
            "registered_at",
            LOG_POSITION,
            "position in the log of the latest registration of this holder that could change a lookup (D6)",
        ),
    ),
    key=("broker_name", "broker_id"),
    change_feed=True,
    checks={"broker_id_is_not_negative": "broker_id >= 0"},
)
CLUSTER = TableSpec(
    "cluster",
    rows.ClusterRow,
    "a broker name in a cluster",
    (
        Column("cluster_name", TEXT, "cluster under which a holder of an id of the broker name registered (D6)"),
        Column("broker_name", TEXT, "may be in several clusters: join broker by both columns"),
    ),
    key=("cluster_name", "broker_name"),
    change_feed=True,
)
FILTER = TableSpec(
    "filter",
    rows.FilterRow,
    "an address with filter servers",
    (
        Column("broker_addr", TEXT, "host:port"),
        Column("filter_server_list", TEXTS, "filter servers in the order in which they were registered"),
    ),
    key=("broker_addr",),
    change_feed=True,
)
LIVE = TableSpec(
    "live",
    rows.LiveRow,
    "a lease: a broker address that is alive",
    (
        Column("broker_addr", TEXT, "host:port"),
        Column("cluster_name", TEXT, "cluster of the latest accepted registration"),
        Column("broker_name", TEXT, "broker name of the latest accepted registration"),
        Column("broker_id", LONG, "id of the latest accepted registration; another address may hold it now (R8)"),
        Column(
            "last_update_timestamp",
            TIMESTAMP,
            "last sign of life up to the offset of the snapshot; at most liveRefreshMillis behind the log",
        ),
        Column("heartbeat_timeout_millis", LONG, "how long the lease lasts after the last sign of life"),
        Column("data_version", DATA_VERSION, "data version of the topic table of the broker"),
        Column("ha_server_addr", TEXT, "address for replication; may be empty"),
        Column("lease_began_at", TIMESTAMP, "the address has been alive since then without a gap"),
        _later(
            "grace_until",
            TIMESTAMP,
            "NULL in all rows since 0.2.0; before, the end of a grace after an outage",
        ),
        _later(
            "channels",
            CHANNELS,
            "connections that keep the lease, each with the log's clock at its last sign of life; NULL before 0.2.0",
        ),
        _later(
            "suspect_since",
            TIMESTAMP,
            "tick since which the guard against mass expiry holds the silent lease (D11); NULL for all others",
        ),
        _later("clock_millis", LONG, "the log's clock (D9) at the last sign of life; 0 before the first tick"),
        _later("tokens", TEXTS, "registrations whose effect the tables show (E10); NULL before 0.2.0"),
        _later("broker_version", TEXT, "release of RocketMQ that the broker runs, such as 5.4.0; NULL if unknown"),
    ),
    key=("broker_addr",),
    # The feed would hold each refreshed row twice: more than half of a registry's bytes, and nothing that
    # `broker_event` does not have.
    change_feed=False,
    checks={
        "broker_id_is_not_negative": "broker_id >= 0",
        "timeout_is_positive": "heartbeat_timeout_millis > 0",
        "lease_began_before_the_last_sign_of_life": "lease_began_at <= last_update_timestamp",
    },
)
KV_CONFIG = TableSpec(
    "kv_config",
    rows.KvConfigRow,
    "a value of the KV table",
    (
        Column("namespace", TEXT, "namespace of the key"),
        Column("key", TEXT, "empty: the row stands for the namespace itself (K3, K4)"),
        _optional("value", TEXT, "NULL in the row of a namespace"),
    ),
    key=("namespace", "key"),
    change_feed=True,
)
NAMESRV_CONFIG = TableSpec(
    "namesrv_config",
    rows.NamesrvConfigRow,
    "a setting changed at run time",
    (
        Column("key", TEXT, "name of the setting"),
        Column("value", TEXT, "takes precedence over the settings file of every process"),
    ),
    key=("key",),
    change_feed=True,
)
TOPIC_MAPPING = TableSpec(
    "topic_mapping",
    rows.TopicMappingRow,
    "the mapping of a static topic on a broker name",
    (
        Column("topic", TEXT, "name of the static topic"),
        Column("broker_name", TEXT, "broker name that the mapping names"),
        Column("mapping", TEXT, "TopicQueueMappingInfo as JSON"),
    ),
    key=("topic", "broker_name"),
    change_feed=True,
)
BROKER_EVENT = TableSpec(
    "broker_event",
    rows.BrokerEventRow,
    "one thing that happened",
    (
        Column("epoch", LONG, "snapshot that published the line"),
        Column("seq", LONG, "number of the line in its epoch, from 0"),
        Column(
            "event_time",
            TIMESTAMP,
            "event time of the record (E9); for EXPIRED that of the tick that ended the lease",
        ),
        _optional("partition", INT, "Kafka partition of the record that caused it; NULL for an expiry"),
        _optional("offset", LONG, "Kafka offset of the record that caused it; NULL for an expiry"),
        Column("type", TEXT, "what happened, such as REGISTERED or EXPIRED; docs/tables.md lists all"),
        _optional("cluster_name", TEXT, "cluster of the broker concerned; NULL if it is no single one"),
        _optional("broker_name", TEXT, "broker name concerned; NULL if it is no single one"),
        _optional("broker_id", LONG, "id of the broker concerned; NULL if it is no single one"),
        _optional("broker_addr", TEXT, "address concerned; NULL if it is no single one"),
        _optional("data_version", DATA_VERSION, "data version of the topic table of the broker at this event"),
        Column("cause", TEXT, "type of the record, or SILENCE"),
        _optional(
            "requested_by",
            TEXT,
            "who asked for a command or sent the registration: user@peer if the gateway knows the user, only the peer "
            "for other commands",
        ),
        _optional("before", TEXT, "rows before, a JSON object: table name -> rows, or {count} for over 200 topics"),
        _optional("after", TEXT, "rows after, in the same form as before"),
        _optional("last_heard_at", TIMESTAMP, "last sign of life of a lease that ended"),
        _optional("lease_millis", LONG, "duration of a lease that ended"),
        _later("reason", TEXT, "why an operator sent the command, if the command says so; NULL before 0.2.0"),
    ),
    partition=Column(EVENT_MONTH, TEXT, "partition: YYYY-MM of event_time in UTC"),
    checks={
        "seq_is_not_negative": "seq >= 0",
        "lease_is_not_negative": "lease_millis IS NULL OR lease_millis >= 0",
    },
)
REJECTED = TableSpec(
    "rejected",
    rows.RejectedRow,
    "a record outside the contract",
    (
        Column("event_time", TIMESTAMP, "event time of the record"),
        Column("partition", INT, "Kafka partition of the record"),
        Column("offset", LONG, "Kafka offset of the record"),
        _optional("key", TEXT, "first 1,024 bytes of the key"),
        _optional("value", pa.binary(), "first 64 KiB of the value"),
        Column("length", LONG, "length of the whole value in bytes"),
        Column("reason", TEXT, "first error that was found in the record"),
    ),
)
SNAPSHOT = TableSpec(
    "snapshot",
    rows.SnapshotRow,
    "all tables at one epoch",
    (
        Column("epoch", LONG, "number of the snapshot, one higher than that of the row before"),
        Column("term", LONG, "number of the claim under which it was published; each start of the job claims one"),
        Column("run_id", TEXT, "process of the job that published it"),
        _optional("query_id", TEXT, "streaming query of the micro-batch"),
        _optional("batch_id", LONG, "number of the micro-batch in its query"),
        Column("published_at", TIMESTAMP, "wall clock of the job when the publication began"),
        _optional("event_time", TIMESTAMP, "highest event time that was applied; NULL before the first record"),
        Column("offsets", pa.map_(INT, LONG), "Kafka partition -> the next offset to read"),
        Column("versions", pa.map_(TEXT, LONG), "table -> Delta version"),
        Column("changes", pa.map_(TEXT, LONG), "table -> number of rows changed"),
        _later("kind", TEXT, "PUBLICATION; CLAIM: a run took the registry; STOP: it ended in order. NULL before 0.2.0"),
        _later("last_tick", TIMESTAMP, "event time of the newest tick that was applied"),
        _later("kafka_cluster_id", TEXT, "Kafka that the tables were made from"),
        _later("kafka_topic_id", TEXT, "topic that the tables were made from"),
        _later(
            "log_accepted_at",
            TIMESTAMP,
            "set for a log that replaced another one: its records from before this time have no effect",
        ),
        _later("last_tick_append", TIMESTAMP, "append time of the newest tick that was applied"),
        _later("clock_millis", LONG, "the log's clock (D9) at the newest tick"),
        _later("last_append", TIMESTAMP, "append time of the last record that was applied"),
    ),
    checks={"epoch_is_positive": "epoch >= 1", "term_is_positive": "term >= 1"},
)
PAST_SNAPSHOT = TableSpec(
    "past_snapshot",
    rows.PastSnapshotRow,
    "a snapshot that can no longer be read",
    tuple(
        column._replace(is_later=False) for column in SNAPSHOT.columns if column.name in rows.PastSnapshotRow._fields
    ),
)
"""Written by maintenance alone, when it drops rows of `snapshot`; a registry that has dropped none lacks the table."""

BACK_MONTH = "back_month"
"""Partition column of `past_session`: 'YYYY-MM' of back_at in UTC, or NOT_BACK."""
NOT_BACK = "none"

PAST_SESSION = TableSpec(
    "past_session",
    rows.PastSessionRow,
    "a session of a broker, as far as maintenance has read the history",
    (
        Column("cluster_name", TEXT, "cluster of the broker"),
        Column("broker_name", TEXT, "broker name"),
        Column("broker_id", LONG, "broker id"),
        Column("first_addr", TEXT, "address with which the session began"),
        _optional("last_addr", TEXT, "address with which it ended, or that had the id at `as_of_epoch`"),
        Column("from_time", TIMESTAMP, "event time at which it began"),
        _optional("to_time", TIMESTAMP, "event time at which it ended; NULL: it lasted at `as_of_epoch`"),
        _optional("ended_by", TEXT, "type of the line that ended it"),
        _optional("last_heard_at", TIMESTAMP, "last sign of life before its end"),
        _optional("back_at", TIMESTAMP, "begin of the broker's next session; NULL in its latest one"),
        Column("was_handed_over", pa.bool_(), "true if the broker's id has ever passed between living addresses"),
        Column("as_of_epoch", LONG, "epoch up to which maintenance had read the history"),
    ),
    partition=Column(BACK_MONTH, TEXT, "partition, YYYY-MM of back_at in UTC; none while the broker is not back"),
)
"""Written by maintenance alone, once a history is long; the views of the history give the same without it."""

ROUTE_TABLES = (TOPIC, BROKER, CLUSTER, FILTER, LIVE, KV_CONFIG, NAMESRV_CONFIG, TOPIC_MAPPING)
"""Tables that lookups read: keyed, and written by merges."""

PINNED_TABLES = (*ROUTE_TABLES, BROKER_EVENT, REJECTED)
"""Tables whose version a snapshot names."""

TABLES = {spec.name: spec for spec in (*PINNED_TABLES, SNAPSHOT)}

TABLES_OF_MAINTENANCE = (PAST_SNAPSHOT, PAST_SESSION)
"""Tables that a registry lacks until maintenance makes them."""

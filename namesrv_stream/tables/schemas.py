"""Schemas of the Delta tables: key, constraints and partition column of each. Its columns are the fields of its row.

This module and rules/rows.py are the only source of the tables' descriptions. Delta stores the comments and
constraints, and `python -m tests.reference_docs` writes them into docs/tables.md.

Timestamps are microseconds in UTC, the one kind that both engines (Spark and delta-rs) store as TIMESTAMP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from namesrv_stream.rules import rows
from namesrv_stream.rules.record_types import DataVersion

FORMAT = 4
"""Number of the tables' format. It rises with each change that older code would misread. 3: `row_change`.
4: `broker_event` without JSON."""

TIMESTAMP = pa.timestamp("us", "UTC")
DATA_VERSION = pa.struct({"state_version": pa.int64(), "timestamp": pa.int64(), "counter": pa.int64()})
LOG_POSITION = pa.struct({"event_time": TIMESTAMP, "partition": pa.int32(), "offset": pa.int64()})
TEXT, INT, LONG = pa.string(), pa.int32(), pa.int64()
TEXTS = pa.list_(TEXT)
CHANNELS = pa.list_(pa.struct({"channel_id": TEXT, "last_heard_millis": LONG}))
"""Connections of a lease, in order of channel_id. The type is not a map, because Spark neither compares nor sorts
maps."""

HOLES = pa.list_(
    pa.struct(
        {
            "table_name": TEXT,
            "from_epoch": LONG,
            "to_epoch": LONG,
            "from_millis": LONG,
            "until_millis": LONG,
            "repaired_millis": LONG,
        }
    )
)

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

    `is_required`: a table made by this release has it as NOT NULL.
    """

    name: str
    kind: pa.DataType
    comment: str
    is_required: bool = True


_KINDS: Mapping[object, pa.DataType] = {
    rows.TIME: TIMESTAMP,
    rows.INT: INT,
    str: TEXT,
    int: LONG,
    bool: pa.bool_(),
    bytes: pa.binary(),
    tuple[str, ...]: TEXTS,
    tuple[rows.Hole, ...]: HOLES,
    Mapping[str, int]: CHANNELS,
    dict[int, int]: pa.map_(INT, LONG),
    dict[str, int]: pa.map_(TEXT, LONG),
    DataVersion: DATA_VERSION,
    rows.LogPosition: LOG_POSITION,
}
"""Type or mark of a field in rules/rows.py -> type of its column."""


def _columns(row: type[tuple[Any, ...]]) -> tuple[Column, ...]:
    """Return the fields that have a comment as columns."""
    defaults: Mapping[str, object] = getattr(row, "_field_defaults", {})
    fields = get_type_hints(row, include_extras=True).items()
    return tuple(_column(name, hint, name in defaults) for name, hint in fields if get_origin(hint) is Annotated)


def _column(name: str, hint: object, has_default: bool) -> Column:
    kind, *marks, comment = get_args(hint)
    is_optional = get_origin(kind) in (Union, UnionType)
    marks.append(get_args(kind)[0] if is_optional else kind)
    return Column(
        name, next(_KINDS[mark] for mark in marks if mark in _KINDS), comment, not (is_optional or has_default)
    )


@dataclass(frozen=True, eq=False)
class TableSpec:
    """One Delta table. A table with an empty key is append only.

    `grain` completes the sentence "one row is ...". `partition` is computed from the row and is no field of it.
    `more_columns` follow those of the row. `checks` are CHECK constraints, name -> SQL. They state only
    what the rules guarantee, because a row that violates one would stop the publication.
    """

    name: str
    row: type[tuple[Any, ...]]
    grain: str
    key: tuple[str, ...] = ()
    partition: Column | None = None
    more_columns: tuple[Column, ...] = ()
    checks: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the row, and more."""
        return (*_columns(self.row), *self.more_columns)

    @cached_property
    def schema(self) -> pa.Schema:
        """The row's columns in memory.

        Every column may be null, because a merge names deleted rows by their key alone.
        """
        return pa.schema([(column.name, column.kind) for column in self.columns])

    @cached_property
    def recorded(self) -> pa.StructType:
        """The columns of the row that `row_change` has, in one struct."""
        return pa.struct([(each.name, each.kind) for each in self.columns if each.name not in rows.UNRECORDED_COLUMNS])

    @property
    def is_rewritten(self) -> bool:
        """True if each change writes the whole table as one file, which takes less time than a merge."""
        return bool(self.key) and self.partition is None

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


def stored_field(column: Column) -> pa.Field:
    """Return a column as Delta stores it, in Arrow's terms."""
    return pa.field(column.name, column.kind, not column.is_required, {"comment": column.comment})


_NAMES = {TEXT: "string", INT: "int", LONG: "long", pa.bool_(): "boolean", pa.binary(): "binary"}


def type_name(kind: pa.DataType) -> str:
    """Return a type as the docs and Spark's SQL call it."""
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)}, {type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {type_name(field.type)}' for field in kind)}>"
    return _NAMES[kind]


TOPIC = TableSpec(
    "topic",
    rows.TopicRow,
    "a topic on a broker name",
    key=("topic", "broker_name"),
    partition=Column(
        TOPIC_BUCKET,
        TEXT,
        "Partition, 00 to 31: CRC32 of broker_name modulo 32. A condition on it skips the files of other buckets.",
    ),
)
BROKER = TableSpec(
    "broker",
    rows.BrokerRow,
    "a broker: the address that is registered as a broker ID of a broker name",
    key=("broker_name", "broker_id"),
    checks={"broker_id_is_not_negative": "broker_id >= 0"},
)
CLUSTER = TableSpec(
    "cluster",
    rows.ClusterRow,
    "a broker name in a cluster",
    key=("cluster_name", "broker_name"),
)
FILTER = TableSpec(
    "filter",
    rows.FilterRow,
    "an address with filter servers",
    key=("broker_addr",),
)
LIVE = TableSpec(
    "live",
    rows.LiveRow,
    "a lease: a broker address that is up",
    key=("broker_addr",),
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
    key=("namespace", "key"),
)
NAMESRV_CONFIG = TableSpec(
    "namesrv_config",
    rows.NamesrvConfigRow,
    "a setting changed at run time",
    key=("key",),
)
TOPIC_MAPPING = TableSpec(
    "topic_mapping",
    rows.TopicMappingRow,
    "the mapping of a static topic on a broker name",
    key=("topic", "broker_name"),
)
BROKER_EVENT = TableSpec(
    "broker_event",
    rows.BrokerEventRow,
    "one event",
    partition=Column(EVENT_MONTH, TEXT, "Partition: YYYY-MM of event_time in UTC."),
    checks={
        "seq_is_not_negative": "seq >= 0",
        "lease_is_not_negative": "lease_millis IS NULL OR lease_millis >= 0",
    },
)
REJECTED = TableSpec(
    "rejected",
    rows.RejectedRow,
    "a record outside the contract",
)
SNAPSHOT = TableSpec(
    "snapshot",
    rows.SnapshotRow,
    "all tables at one epoch",
    checks={"epoch_is_positive": "epoch >= 1", "term_is_positive": "term >= 1"},
)
ROUTE_TABLES = (TOPIC, BROKER, CLUSTER, FILTER, LIVE, KV_CONFIG, NAMESRV_CONFIG, TOPIC_MAPPING)
"""Tables that lookups read: keyed, and written by merges."""

SIDES = ("before", "after")

ROW_CHANGE = TableSpec(
    "row_change",
    rows.RowChangeRow,
    "a row of a keyed table that an event of `broker_event` changed, before and after",
    partition=Column(EVENT_MONTH, TEXT, "Partition: YYYY-MM of event_time in UTC."),
    more_columns=tuple(
        Column(f"{spec.name}_{side}", spec.recorded, f"Row of `{spec.name}` {side} the event; NULL if none.", False)
        for spec in ROUTE_TABLES
        for side in SIDES
    ),
)

PINNED_TABLES = (*ROUTE_TABLES, BROKER_EVENT, ROW_CHANGE, REJECTED)
"""Tables whose version a snapshot names."""

TABLES = {spec.name: spec for spec in (*PINNED_TABLES, SNAPSHOT)}

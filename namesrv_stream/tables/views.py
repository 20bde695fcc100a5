"""One snapshot as Spark views: what analysts query with Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.object_store import give_spark_access
from namesrv_stream.tables.pinned import event_time_ms
from namesrv_stream.tables.root import Root, missing_columns
from namesrv_stream.tables.schemas import CHANNELS, PINNED_TABLES, TEXT, TIMESTAMP, TableSpec
from namesrv_stream.tables.snapshots import Snapshots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # the statements alone are for those without Spark in the process

VIEWS = PINNED_TABLES


def open_snapshot(
    spark: SparkSession,
    root: str | Path | Root,
    epoch: int | None = None,
    at: datetime | int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SnapshotRow:
    """Registers each table of VIEWS as a temporary view pinned to one snapshot, and returns the snapshot.

    The newest one, that of `epoch`, or the one in force at the event time `at` (a datetime or epoch milliseconds).
    Opening another snapshot in the same session moves the views to it.

    `storage_options` are the settings `delta.storage.*` for a root that is given by its URL; Spark gets them too.
    """
    place = Root.at(root, storage_options)
    give_spark_access(spark, place)
    snapshot = Snapshots(place).find(epoch, event_time_ms(at))
    for statement in snapshot_sql(place, snapshot):
        spark.sql(statement)
    return snapshot


def snapshot_sql(root: str | Path | Root, snapshot: SnapshotRow) -> list[str]:
    """The Spark SQL statements that pin `snapshot`, for a plain spark-sql or a notebook without this package."""
    place = Root.at(root)
    return [
        f"CREATE OR REPLACE TEMPORARY VIEW {spec.name} AS "
        f"SELECT {all_columns(place, spec, snapshot.versions[spec.name])} "
        f"FROM delta.`{place.spark_path(spec)}` VERSION AS OF {snapshot.versions[spec.name]}"
        for spec in VIEWS
    ]


def all_columns(root: Root, spec: TableSpec, version: int | None = None) -> str:
    """The select list that gives a table all its columns: one that a former release did not have reads as NULL."""
    if not spec.has_later_columns:
        return "*"
    missing = [spec.schema.field(name) for name in missing_columns(root.open(spec, version), spec)]
    return ", ".join(["*", *(f"CAST(NULL AS {_SPARK_TYPES[column.type]}) AS {column.name}" for column in missing)])


_SPARK_TYPES = {
    TEXT: "STRING",
    TIMESTAMP: "TIMESTAMP",
    CHANNELS: "ARRAY<STRUCT<channel_id: STRING, last_heard_millis: BIGINT>>",
}

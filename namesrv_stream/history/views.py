"""The history as Spark views: what analysts query with Spark SQL. views.sql tells each one's grain."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from importlib.resources import files
from typing import TYPE_CHECKING

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import SNAPSHOT
from namesrv_stream.tables.views import all_columns, open_snapshot, snapshot_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # the statements alone are for those without Spark in the process


def register_views(
    spark: SparkSession,
    root: str | Root,
    epoch: int | None = None,
    at: datetime | int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SnapshotRow:
    """Registers the tables of one snapshot, as `open_snapshot` does, and the views of views.sql over them.

    Calling it again moves all views to another snapshot.
    """
    place = root if isinstance(root, Root) else Root(root, storage_options)
    snapshot = open_snapshot(spark, place, epoch, at)
    for statement in [_snapshots_up_to(place, snapshot), *_view_statements()]:
        spark.sql(statement)
    return snapshot


def history_sql(root: str | Root, snapshot: SnapshotRow) -> list[str]:
    """The same as statements, for a plain spark-sql or a notebook without this package."""
    place = root if isinstance(root, Root) else Root(root)
    return [*snapshot_sql(place, snapshot), _snapshots_up_to(place, snapshot), *_view_statements()]


def _snapshots_up_to(root: Root, snapshot: SnapshotRow) -> str:
    """Snapshot rows have no version to pin: they are appended only."""
    return (
        f"CREATE OR REPLACE TEMPORARY VIEW {SNAPSHOT.name} AS "
        f"SELECT {all_columns(root, SNAPSHOT)} FROM delta.`{root.spark_path(SNAPSHOT)}` WHERE epoch <= {snapshot.epoch}"
    )


def _view_statements() -> list[str]:
    """Of views.sql. No text in it holds a semicolon."""
    text = files("namesrv_stream.history").joinpath("views.sql").read_text("utf-8")
    return [statement.strip() for statement in text.split(";") if statement.strip()]

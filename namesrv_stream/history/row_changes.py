"""Row changes between two epochs, from Delta's change data feed, without subtracting versions by hand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.object_store import give_spark_access
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TABLES, TableSpec
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.tables.writer import Commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEED_TABLES = tuple(spec for spec in TABLES.values() if spec.change_feed)
"""Tables with a change data feed."""


def changes_between(
    spark: SparkSession,
    root: str | Path | Root,
    from_epoch: int,
    to_epoch: int,
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, DataFrame]:
    """Return the row changes after `from_epoch` up to `to_epoch`: table -> frame, for the tables with a change feed.

    A frame has the table's columns, `_change_type` (insert, update_preimage, update_postimage, delete), and `epoch`,
    the snapshot that published the change. Commits that no snapshot shows, because their run died and another one
    restored the table, are left out. Raises NoSuchSnapshotError or SnapshotGoneError if an epoch cannot be read.
    """
    if to_epoch < from_epoch:
        raise NamesrvError(f"epoch {to_epoch} is before epoch {from_epoch}: give the earlier one first.")
    place = Root.at(root, storage_options)
    give_spark_access(spark, place)
    snapshots = Snapshots(place)
    first, last = snapshots.find(from_epoch), snapshots.find(to_epoch)
    rows = [row for row in reversed(snapshots.readable()) if from_epoch < row.epoch <= to_epoch]
    return {spec.name: _changes(spark, place, spec, [first, *rows, last]) for spec in FEED_TABLES}


def _changes(spark: SparkSession, root: Root, spec: TableSpec, rows: Sequence[SnapshotRow]) -> DataFrame:
    """Return the changes after the first of the snapshots up to the last one."""
    from pyspark.sql import functions as F  # noqa: PLC0415 -- the module is imported without Spark too

    first, last = (row.versions[spec.name] for row in (rows[0], rows[-1]))
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    feed = feed.option("startingVersion", min(first + 1, last)).option("endingVersion", last)
    kept = _epochs_of_commits(root, spec, first, last, rows[1:])
    epoch = F.create_map(*(F.lit(number) for pair in kept.items() for number in pair)) if kept else None
    frame = feed.load(root.spark_path(spec)).where(F.col("_commit_version").isin(list(kept)))
    frame = frame.withColumn("epoch", F.lit(None).cast("long") if epoch is None else epoch[F.col("_commit_version")])
    return frame.drop("_commit_version", "_commit_timestamp")


def _epochs_of_commits(
    root: Root, spec: TableSpec, first: int, last: int, rows: Sequence[SnapshotRow]
) -> dict[int, int]:
    """Return commit -> the epoch that published it, without commits that a restore has undone and without restores."""
    history = root.open(spec, last).history(last - first) if last > first else []
    commits = list(map(Commit.of, history))
    undone = {
        version
        for commit in commits
        if commit.restored_version is not None
        for version in range(commit.restored_version + 1, commit.version + 1)
    }
    return {
        version: rows[bisect_left(rows, version, key=lambda row: row.versions[spec.name])].epoch
        for version in (commit.version for commit in commits)
        if version not in undone
    }

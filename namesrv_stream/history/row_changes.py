"""Row changes between two epochs, from Delta's change data feed, without subtracting versions by hand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tables.object_store import give_spark_access
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TABLES, TableSpec
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.tables.writer import Commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEED_TABLES = tuple(spec for spec in TABLES.values() if spec.change_feed)
"""Tables with a change data feed."""


class EpochsReversedError(NamesrvError):
    """Request of the changes from an epoch to an earlier one."""

    def __init__(self, from_epoch: int, to_epoch: int) -> None:
        super().__init__(f"epoch {to_epoch} is before epoch {from_epoch}: give the earlier one first.")
        self.from_epoch = from_epoch
        self.to_epoch = to_epoch


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
        raise EpochsReversedError(from_epoch, to_epoch)
    place = Root.at(root, storage_options)
    give_spark_access(spark, place)
    snapshots = Snapshots(place)
    first, last = snapshots.find(from_epoch), snapshots.find(to_epoch)
    rows = [row for row in snapshots.readable() if from_epoch < row.epoch <= to_epoch]
    return {
        spec.name: _changes(
            spark,
            place,
            spec,
            (first.versions[spec.name], last.versions[spec.name]),
            {row.epoch: row.versions[spec.name] for row in rows},
        )
        for spec in FEED_TABLES
    }


def _changes(
    spark: SparkSession, root: Root, spec: TableSpec, versions: tuple[int, int], version_of: Mapping[int, int]
) -> DataFrame:
    """Return the changes after the first of two versions up to the second. `version_of`: epoch -> version."""
    from pyspark.sql import functions as F  # noqa: PLC0415 -- the module is imported without Spark too

    first, last = versions
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    feed = feed.option("startingVersion", min(first + 1, last)).option("endingVersion", last)
    kept = epochs_of_commits(root, spec, first, last, version_of)
    epoch = F.create_map(*(F.lit(number) for pair in kept.items() for number in pair)) if kept else None
    frame = feed.load(root.spark_path(spec)).where(F.col("_commit_version").isin(list(kept)))
    frame = frame.withColumn("epoch", F.lit(None).cast("long") if epoch is None else epoch[F.col("_commit_version")])
    return frame.drop("_commit_version", "_commit_timestamp")


def epochs_of_commits(
    root: Root, spec: TableSpec, first: int, last: int, version_of: Mapping[int, int]
) -> dict[int, int]:
    """Return commit -> the epoch that published it, without commits that a restore has undone and without restores."""
    if last <= first:
        return {}
    commits = [Commit.of(entry) for entry in root.open(spec, last).history(last - first)]
    gone = _undone(commits)
    epochs = sorted(version_of)  # a later epoch never names an earlier version
    versions = [version_of[epoch] for epoch in epochs]
    return {
        commit.version: epochs[bisect_left(versions, commit.version)]
        for commit in commits
        if commit.version not in gone
    }


def _undone(commits: Iterable[Commit]) -> set[int]:
    """Return the versions of restores and of all that they undid."""
    gone: set[int] = set()
    for commit in commits:
        if commit.restored_version is not None:
            gone.update(range(commit.restored_version + 1, commit.version + 1))
    return gone

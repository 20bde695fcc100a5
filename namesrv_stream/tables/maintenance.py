"""Care for the tables, with the job running beside it or not: small files together, old rows and old files out.

The job takes a commit that only rearranges rows as the base of its next write, and whoever is second gives way: here
a table that the job changes at that moment is left for the next time. So neither breaks the other.
"""

from __future__ import annotations

from typing import NamedTuple

from delta.exceptions import DeltaConcurrentModificationException
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from namesrv_stream.tables.root import Root, check_format
from namesrv_stream.tables.schemas import BROKER_EVENT, EVENT_MONTH, SNAPSHOT, TABLES, TableSpec
from namesrv_stream.tables.snapshots import Snapshots

EVENT_FILE_BYTES = 32 * 1024 * 1024
"""Of one file of `broker_event`: a busy month has several, so that a broker's story leaves most of them unread."""
FILES_BORNE = 4
"""Small files that a table, or a month of history, may have before they are put together."""

_MAX_FILE_SIZE = "spark.databricks.delta.optimize.maxFileSize"
_SORT_WITHIN_FILES = "spark.databricks.io.skipping.mdc.sortWithinFiles"
"""So that the statistics of a file's pages let a reader pass over most of a month for one broker."""


class Care(NamedTuple):
    """What was done for one table. `is_put_off`: the job wrote it at that moment, so it waits for the next time."""

    table: str
    files_before: int
    files_after: int
    is_put_off: bool


def maintain(spark: SparkSession, root: Root, *, vacuum: bool = True) -> list[Care]:
    """Compacts every table, drops snapshot rows past retention, and removes files that no retained snapshot needs.

    History is never shortened. Files go twice `snapshot.retention` after the commit that replaced them (the tables'
    own property), so what a retained snapshot names stays readable.
    """
    session = spark.newSession()  # its own settings
    session.conf.set(_MAX_FILE_SIZE, str(EVENT_FILE_BYTES))
    session.conf.set(_SORT_WITHIN_FILES, "true")
    return [_care_for(session, root, spec, vacuum) for spec in TABLES.values()]


def _care_for(session: SparkSession, root: Root, spec: TableSpec, vacuum: bool) -> Care:
    path = root.spark_path(spec)
    check_format(root, spec, DeltaTable.forPath(session, path).detail().collect()[0]["properties"])
    before = _file_count(session, path)
    is_put_off = False
    try:
        if spec is SNAPSHOT:
            _drop_unreadable_snapshots(session, root)
        if spec is BROKER_EVENT:
            _cluster_months(session, path)
        elif before > FILES_BORNE:
            session.sql(f"OPTIMIZE delta.`{path}`")
    except DeltaConcurrentModificationException:
        is_put_off = True
    if vacuum:
        session.sql(f"VACUUM delta.`{path}`")
    return Care(spec.name, before, _file_count(session, path), is_put_off)


def _cluster_months(session: SparkSession, path: str) -> None:
    """A month that has gathered small files is written anew in order of broker and time; the others are left alone."""
    events = session.read.format("delta").load(path)
    small = (
        events.select(EVENT_MONTH, "_metadata.file_path", "_metadata.file_size")
        .where(F.col("file_size") < EVENT_FILE_BYTES // 2)
        .groupBy(EVENT_MONTH)
        .agg(F.count_distinct("file_path").alias("files"))
        .where(F.col("files") > FILES_BORNE)
    )
    for month in small.toArrow()[EVENT_MONTH].to_pylist():
        session.sql(f"OPTIMIZE delta.`{path}` WHERE {EVENT_MONTH} = '{month}' ZORDER BY (broker_name, event_time)")


def _drop_unreadable_snapshots(session: SparkSession, root: Root) -> None:
    """Rows of snapshots that retention no longer lets be read: nobody can open what they name."""
    oldest = Snapshots(root).oldest_readable()
    table = DeltaTable.forPath(session, root.spark_path(SNAPSHOT))
    table.delete(F.col("epoch") < oldest.epoch)


def _file_count(session: SparkSession, path: str) -> int:
    count: int = DeltaTable.forPath(session, path).detail().collect()[0]["numFiles"]
    return count

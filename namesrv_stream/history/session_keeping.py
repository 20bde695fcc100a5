"""Keep the sessions of a long history in a table, so that a question about them need not read every line again.

A session whose broker is back does not change any more, so `past_session` keeps it for good. It also keeps the latest
session of each broker, from which the views continue.
"""

from __future__ import annotations

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from namesrv_stream.history.views import LATEST_OF_BROKERS, files_since, past_sessions, register_views
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.object_store import writer_of
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import BACK_MONTH, NOT_BACK, PAST_SESSION
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.tables.writer import BaseMovedError, CommitTag, RustWriter

LEAST_LINES = 100_000
"""Fewest new lines since the last time for which sessions are kept. Reading fewer lines takes less than a second."""

_SESSIONS = f"""
SELECT session.*, CAST({{epoch}} AS BIGINT) AS as_of_epoch,
       coalesce(date_format(date_from_unix_date(CAST(unix_millis(back_at) DIV 86400000 AS INT)), 'yyyy-MM'),
                '{NOT_BACK}') AS {BACK_MONTH}
FROM recent_session session
"""


def keep_past_sessions(spark: SparkSession, root: Root) -> int:
    """Bring the table up to the newest snapshot if the history is long. Return the number of sessions written.

    Returns 0 also if another run of maintenance writes the table at this moment. A run that dies in between leaves
    sessions as of an epoch that the table has not reached yet. No view reads them, and the next run removes them.
    """
    snapshots = Snapshots(root)
    newest = snapshots.newest()
    former = past_sessions(root, newest)
    if _lines_since(root, newest, former.epoch if former else 0) < LEAST_LINES:
        return 0
    writer = writer_of(root)
    writer.ensure_table(PAST_SESSION, snapshots.retention_ms)
    base = writer.head(PAST_SESSION)  # before the views read the table: if another run writes it, this one gives way
    tag = CommitTag(newest.epoch, newest.term)
    try:
        if former is None:  # the table may have sessions without zones
            base = writer.delete(PAST_SESSION, base, "true", tag)
        former = past_sessions(root, newest)
        session = spark.newSession()
        register_views(session, root, newest.epoch, only=["recent_session"])
        rows = session.sql(_SESSIONS.format(epoch=newest.epoch)).persist()
        try:
            return _write(writer, base, rows, former.epoch if former else 0, tag)
        finally:
            rows.unpersist()
    except BaseMovedError:
        return 0


def _lines_since(root: Root, snapshot: SnapshotRow, epoch: int) -> int:
    """Return the number of lines in files with a line after `epoch`. A file without statistics counts as long."""
    lines = files_since(root, snapshot, epoch)["num_records"]
    return pc.sum(pc.fill_null(lines, LEAST_LINES)).as_py() or 0


def _write(writer: RustWriter, base: int, rows: DataFrame, former_epoch: int, tag: CommitTag) -> int:
    """Write the sessions, a month at a time. Those that raise the table's epoch are last."""
    base = writer.delete(PAST_SESSION, base, f"as_of_epoch > {former_epoch}", tag)
    months = [row[0] for row in rows.select(BACK_MONTH).distinct().collect()]
    written = 0
    for month in sorted(months, key=lambda each: (each == NOT_BACK, each)):
        sessions = rows.where(rows[BACK_MONTH] == month).toArrow().select(PAST_SESSION.schema.names)
        sessions = sessions.cast(PAST_SESSION.schema)
        if month == NOT_BACK:
            base = writer.replace(PAST_SESSION, base, LATEST_OF_BROKERS, sessions, tag)
        else:
            base = writer.append(PAST_SESSION, base, sessions, tag)
        written += len(sessions)
    return written

"""The moments of a registry: how one is named, which lines of the log it has, and which snapshot row it gets.

A moment is an epoch, with all lines up to it, or an event time, with all lines up to that time, applied in their order.
tables/moment.py makes its tables.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from namesrv_stream.errors import NoSuchSnapshotError
from namesrv_stream.reporting.texts import iso_text, moment_text
from namesrv_stream.rules.rows import BrokerEventRow, SnapshotRow
from namesrv_stream.tables.damage import reporting_damage
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.root import Root, query
from namesrv_stream.tables.schemas import BROKER_EVENT, REJECTED, ROW_CHANGE, TableSpec
from namesrv_stream.tables.snapshots import SnapshotTable


class AsOf(NamedTuple):
    """A moment: an epoch, or an event time in epoch milliseconds. Events at exactly that moment are included."""

    epoch: int | None = None
    at_ms: int | None = None

    def __str__(self) -> str:
        if self.at_ms is None:
            return f"epoch {self.epoch}"
        return moment_text(self.at_ms)

    @property
    def as_json(self) -> str | None:
        """The moment as JSON has it."""
        return str(self) if self.at_ms is None else iso_text(self.at_ms)

    @property
    def up_to_here(self) -> str:
        """SQL condition that selects the lines up to this moment."""
        if self.at_ms is None:
            return f"epoch <= {self.epoch}"
        return f"event_time <= {timestamp_sql(self.at_ms)} AND event_month <= '{month_of(self.at_ms)}'"

    def includes(self, line: BrokerEventRow) -> bool:
        """Return whether `up_to_here` selects the line."""
        return line.epoch <= (self.epoch or 0) if self.at_ms is None else line.event_time <= self.at_ms


def timestamp_sql(at_ms: int) -> str:
    """Return the SQL of an event time."""
    return f"to_timestamp_millis({at_ms})"


def month_of(at_ms: int) -> str:
    """Return the month of an event time, as the partitions of the history have it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m")


def rows_until(spec: TableSpec, snapshot: SnapshotRow) -> str:
    """Return the SQL condition of the rows up to a moment, for the append-only tables.

    A moment's row names newer versions of these tables. Other tables have no later rows.
    """
    at_ms = snapshot.event_time
    if spec is REJECTED:
        return "false" if at_ms is None else f"event_time <= {timestamp_sql(at_ms)}"
    if spec not in (BROKER_EVENT, ROW_CHANGE):
        return "true"
    return AsOf(snapshot.epoch).up_to_here + ("" if at_ms is None else f" AND {AsOf(at_ms=at_ms).up_to_here}")


def row_of(snapshots: SnapshotTable, moment: AsOf) -> tuple[SnapshotRow, SnapshotRow]:
    """Return the snapshot row of a moment, and the newest row, whose tables have what the moment is made from.

    They are one object if nothing came after the moment; a time that has not come is now. For an epoch the row is that
    with which the epoch was published. For a time its epoch is the last one with a line up to it, its event time is
    that time, and its offsets are those of the last snapshot before. Its versions are those of the newest row. Raises
    NoSuchSnapshotError for a moment before the first record, and for an epoch that there is not yet, and
    PastUnknownError for one before which the history has only lost rows.
    """
    newest = snapshots.newest()
    if moment.epoch is not None and not 1 <= moment.epoch <= newest.epoch:
        raise NoSuchSnapshotError(str(moment), newest.epoch)
    is_now = moment == AsOf() or moment.epoch == newest.epoch
    if is_now or (moment.at_ms is not None and moment.at_ms >= (newest.event_time or 0)):
        return newest, newest
    earlier, later = snapshots.around(*moment)
    row = earlier
    if moment.epoch is not None:
        row = (earlier or newest)._replace(epoch=moment.epoch)
    else:
        since = f"epoch > {earlier.epoch if earlier else 0}"
        epoch = _of_lines(snapshots.root, newest, "max(epoch)", f"{since} AND {moment.up_to_here}")
        if epoch is None and (earlier is None or earlier.event_time is None):
            if (unknown := UnknownPast.of(newest)) is not None and (moment.at_ms or 0) <= unknown.until_millis:
                raise unknown.error
            first = _of_lines(snapshots.root, newest, "min(event_time)", "true")
            begin = "" if first is None else moment_text(round(first.timestamp() * 1000))
            raise NoSuchSnapshotError(str(moment), newest.epoch, begin)
        row = earlier or (later or newest)._replace(offsets={})  # a job goes on there, and leaves out no record
        if epoch is not None:
            published = next(iter(snapshots.readable(1, epoch)), row)
            row = published._replace(epoch=epoch, offsets=row.offsets)
        row = row._replace(event_time=moment.at_ms)
    assert row is not None
    return row._replace(versions=newest.versions, holes=newest.holes, repaired_at=newest.repaired_at), newest


def _of_lines(root: Root, newest: SnapshotRow, what: str, condition: str) -> Any:
    """Return an aggregate of the lines that meet a condition, None if there is none."""
    version = newest.versions[BROKER_EVENT.name]
    with reporting_damage(root, BROKER_EVENT, version):
        return query(root.open(BROKER_EVENT, version), f"SELECT {what} FROM rows WHERE {condition}")[0][0].as_py()


def event_time_ms(at: datetime | int | None) -> int | None:
    """Return a moment in epoch milliseconds. A datetime without a zone is in UTC."""
    if isinstance(at, datetime):
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    return at

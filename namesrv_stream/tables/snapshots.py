"""Lookup of snapshot rows without Spark: the newest, by epoch, or those around a moment.

Each epoch has a row for ever. The versions in it can be read for `snapshot.exact`; the tables of any epoch can be made
from the newest ones (tables/as_of.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from namesrv_stream.errors import NoSuchSnapshotError, NotARegistryError, SnapshotGoneError, TableDamagedError
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.damage import TableFiles, reporting_damage
from namesrv_stream.tables.root import DAY_MS, Root, query, select
from namesrv_stream.tables.schemas import SNAPSHOT, TableSpec

_LOOK_THROUGH_EVERY_S = 10.0
"""Time after which the table is opened anew. A process may have slept for longer than the log is kept: only then it
finds newer snapshots. A reader of an object store only then finds that another registry is in the folder."""


class SnapshotTable:
    """Snapshot rows of one registry, as of the last `refresh`."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self._log = root.local_log(SNAPSHOT)
        self._open()

    def _open(self) -> None:
        with reporting_damage(self.root, SNAPSHOT):
            self._table = self.root.open(SNAPSHOT)
        self.table_id = str(self._table.metadata().id)
        """Delta's id of the table: a registry that was made anew in the same folder has another one."""
        self._looked_at_s = time.monotonic()
        self._read_file = self._file()

    def refresh(self) -> bool:
        """Load newer rows. Return whether there are any or the table is another one (`table_id`).

        The table is opened anew if the file that was read last is missing or replaced, and after _LOOK_THROUGH_EVERY_S.
        """
        before = self.table_id, self._table.version()
        is_due = time.monotonic() - self._looked_at_s > _LOOK_THROUGH_EVERY_S
        if is_due or self._file() != self._read_file:
            self._open()
        elif self._log is None or (self._log / _file_name(self._table.version() + 1)).exists():
            self._follow()
        return (self.table_id, self._table.version()) != before

    def _follow(self) -> None:
        """Load the commits that follow. After an error the next call opens the table anew."""
        opened_at_s, self._looked_at_s = self._looked_at_s, -math.inf
        self._table.update_incremental()
        self._looked_at_s = opened_at_s if self._log is None else time.monotonic()
        self._read_file = self._file()

    def _file(self) -> tuple[int, int] | None:
        """Return the identity of the newest commit's file, to detect another file; None if it is missing or not local.

        Delta removes it when it shortens the log, an hour after the commit.
        """
        if self._log is None:
            return None
        try:
            found = (self._log / _file_name(self._table.version())).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def newest(self) -> SnapshotRow:
        """Return the row with the highest epoch. Raises NoSuchSnapshotError if there is no row."""
        with reporting_damage(self.root, SNAPSHOT, self._table.version()):
            row = newest_row(self.root, self._table)
        if row is None:
            raise NoSuchSnapshotError("any epoch", None)
        return row

    def oldest_readable(self) -> SnapshotRow:
        """Return the first row of the last 30 days, which a track shows. Raises an error if there is none."""
        since = f"published_at >= {_timestamp(self.newest().published_at - 30 * DAY_MS)}"
        return next(iter(self._rows(since, "ORDER BY epoch LIMIT 1")), None) or self.newest()

    def readable(self, limit: int | None = None, up_to: int | None = None) -> list[SnapshotRow]:
        """Return the rows of readable snapshots, newest first: at most `limit`, none of an epoch above `up_to`."""
        limited = "" if limit is None else f" LIMIT {limit}"
        return self._rows("true" if up_to is None else f"epoch <= {up_to}", f"ORDER BY epoch DESC{limited}")

    def published_since(self, since_ms: int) -> list[SnapshotRow]:
        """Return the rows of snapshots that were published at a time or later, and the newest one in any case."""
        return [*self._rows(f"published_at >= {_timestamp(since_ms)}"), self.newest()]

    def after(self, epoch: int) -> list[SnapshotRow]:
        """Return the rows of higher epochs, lowest first."""
        return self._rows(f"epoch > {epoch}", "ORDER BY epoch")

    def around(self, epoch: int | None, at_ms: int | None) -> tuple[SnapshotRow | None, SnapshotRow | None]:
        """Return the last readable row up to an epoch or an event time, and the first one after it."""
        later = f"epoch > {epoch}" if at_ms is None else f"event_time > {_timestamp(at_ms)}"
        earlier = f"epoch <= {epoch}" if at_ms is None else f"(event_time IS NULL OR event_time <= {_timestamp(at_ms)})"
        sides = ((earlier, "DESC"), (later, "ASC"))
        first, second = (self._rows(side, f"ORDER BY epoch {way} LIMIT 1") for side, way in sides)
        return next(iter(first), None), next(iter(second), None)

    def event_times(self, first: int, last: int) -> dict[int, int]:
        """Return the event time of each epoch from `first` to `last` that has one."""
        asked = f"SELECT epoch, event_time FROM rows WHERE epoch BETWEEN {first} AND {last} AND event_time IS NOT NULL"
        rows = query(self._table, asked)
        at_ms = rows.column("event_time").cast("timestamp[ms]").cast("int64")
        return dict(zip(rows.column("epoch").to_pylist(), at_ms.to_pylist(), strict=True))

    def find(self, epoch: int | None = None) -> SnapshotRow:
        """Return the newest row, or that of `epoch`.

        Raises NoSuchSnapshotError if there never was such a snapshot.
        """
        found = [self.newest()] if epoch is None else self._rows(f"epoch = {epoch}")
        if not found:
            raise NoSuchSnapshotError(f"epoch {epoch}", self.newest().epoch)
        return found[0]

    def _rows(self, condition: str, then: str = "") -> list[SnapshotRow]:
        with reporting_damage(self.root, SNAPSHOT, self._table.version()):
            return rows_from_arrow(SNAPSHOT, select(self._table, SNAPSHOT, condition, then))


@contextmanager
def reporting_gone_snapshots(root: Root, spec: TableSpec, snapshot: SnapshotRow) -> Iterator[None]:
    """Raise SnapshotGoneError if a table cannot be read because a newer snapshot has replaced its version.

    A damaged table of the newest snapshot raises TableDamagedError.
    """
    version = snapshot.versions.get(spec.name)
    try:
        with reporting_damage(root, spec, version):
            yield
    except (FileNotFoundError, DeltaError, TableDamagedError, NotARegistryError) as error:
        newest = SnapshotTable(root).newest()
        if version is None or newest.versions.get(spec.name) == version:
            raise
        raise SnapshotGoneError(f"epoch {snapshot.epoch}", newest.epoch) from error


def newest_row(root: Root, table: DeltaTable) -> SnapshotRow | None:
    """Return the snapshot row with the highest epoch, None if there is no row.

    Reads one file, without a query: the one whose statistics name that epoch.
    """
    files = table.get_add_actions(flatten=True)
    highest = list(zip(files["max.epoch"].to_pylist(), files["path"].to_pylist(), strict=True))
    if not highest:
        return None
    rows: list[SnapshotRow] = rows_from_arrow(SNAPSHOT, TableFiles(root, SNAPSHOT).rows(max(highest)[1]))
    return max(rows, key=lambda row: row.epoch)


def _file_name(version: int) -> str:
    return f"{version:020}.json"


def _timestamp(at_ms: int) -> str:
    return f"arrow_cast({at_ms}, 'Timestamp(Millisecond, Some(\"UTC\"))')"

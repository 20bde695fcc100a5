"""Tables of one snapshot in Arrow, without Spark: for DuckDB, pandas, polars and whatever else reads Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import PINNED_TABLES, SNAPSHOT, TABLES, TableSpec
from namesrv_stream.tables.snapshots import Snapshots

_NAMES = tuple(spec.name for spec in (*PINNED_TABLES, SNAPSHOT))


class PinnedTables(Mapping[str, pa.Table]):
    """The tables of one snapshot: name -> Arrow table. Each is read from storage when it is first asked for.

    The table `snapshot` has the rows up to this one. A column that a former release did not have is NULL.
    """

    def __init__(self, root: Root, snapshot: SnapshotRow) -> None:
        self.snapshot = snapshot
        self._root = root
        self._read: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._read:
            self._read[name] = self.where(name)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)

    def where(self, name: str, condition: str = "true") -> pa.Table:
        """Return the rows of a table that meet a SQL condition, such as "event_month = '2026-11'".

        Files whose statistics exclude the condition are not read, so a question about a day of a long history is cheap.
        The SQL is that of DataFusion, with which delta-rs reads.
        """
        return select(self.delta(name), TABLES[name], f"({condition}){self._up_to(TABLES[name])}")

    def delta(self, name: str) -> DeltaTable:
        """Return a table at the snapshot's version, for readers of Delta such as polars' `scan_delta`.

        Rows of `snapshot` after this one are among its rows, because that table is no part of a snapshot.
        """
        return self._root.open(TABLES[name], self.snapshot.versions.get(name))

    def _up_to(self, spec: TableSpec) -> str:
        return f" AND epoch <= {self.snapshot.epoch}" if spec is SNAPSHOT else ""


def open_tables(
    root: str | Path | Root,
    epoch: int | None = None,
    at: datetime | int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> PinnedTables:
    """Return the tables of the newest snapshot, of `epoch`, or of the one in force at the event time `at`.

    `at` is a datetime or epoch milliseconds. `storage_options` are the settings `delta.storage.*` for a root that is
    given by its URL. Raises NoSuchSnapshotError if there is none, SnapshotGoneError if it is past retention.
    """
    place = Root.at(root, storage_options)
    return PinnedTables(place, Snapshots(place).find(epoch, event_time_ms(at)))


def event_time_ms(at: datetime | int | None) -> int | None:
    """Return a moment in epoch milliseconds. A datetime without a zone is in the zone of this machine."""
    return round(at.timestamp() * 1000) if isinstance(at, datetime) else at

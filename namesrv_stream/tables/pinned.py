"""Tables of one moment in Arrow, without Spark: for DuckDB, pandas, polars and whatever else reads Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.tables.arrow import rows_to_arrow
from namesrv_stream.tables.as_of import AsOf, Past, as_of, rows_until
from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import LIVE, PINNED_TABLES, SNAPSHOT, TableSpec
from namesrv_stream.tables.snapshots import Snapshots, reporting_gone_snapshots

_SPECS = {spec.name: spec for spec in (*PINNED_TABLES, SNAPSHOT)}


class PinnedTables(Mapping[str, pa.Table]):
    """The tables of one moment: name -> Arrow table. Each is read from storage at its first use.

    `snapshot` is the row of the moment. The table `snapshot` has the rows up to it.
    """

    def __init__(self, root: Root, past: Past) -> None:
        self.past = past
        self.snapshot = past.snapshot
        self._root = root
        self._read: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._read:
            self._read[name] = self.where(name)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_SPECS)

    def __len__(self) -> int:
        return len(_SPECS)

    def where(self, name: str, condition: str = "true") -> pa.Table:
        """Return the rows of a table that meet a SQL condition, such as "event_month = '2026-11'".

        Files whose statistics exclude the condition are not read, so a question about a day of a long history is cheap.
        The SQL is that of DataFusion, with which delta-rs reads.
        """
        spec = _SPECS[name]
        made = self.made(spec)
        if made is not None:
            return made if condition == "true" else _selected(made, spec, condition)
        return self._stored(spec, f"({condition}) AND {self._up_to(spec)}")

    def made(self, spec: TableSpec) -> pa.Table | None:
        """Return the rows of a table if its version does not have them, because the moment is past."""
        if not self.past.is_made:
            return None
        if spec is SNAPSHOT:
            rows = self._stored(spec, f"epoch < {self.snapshot.epoch}")
            return pa.concat_tables([rows, rows_to_arrow(spec, [self.snapshot])])
        if spec.key and (spec is LIVE or self.past.changed(spec)):
            return self.past.applied_to(spec, self._stored(spec, "true"))
        return None

    def delta(self, name: str) -> DeltaTable:
        """Return a table at the snapshot's version, for readers of Delta such as polars' `scan_delta`.

        The table `snapshot` also has the rows of later snapshots, because it is no part of a snapshot. Raises
        SnapshotGoneError for a past moment, which no version has.
        """
        spec = _SPECS[name]
        if self.past.is_made and spec in PINNED_TABLES:
            raise SnapshotGoneError(f"epoch {self.snapshot.epoch}", self.past.base.epoch)
        with reporting_gone_snapshots(self._root, spec, self.snapshot):
            return self._open(spec)

    def _stored(self, spec: TableSpec, condition: str) -> pa.Table:
        with reporting_gone_snapshots(self._root, spec, self.snapshot):
            return select(self._open(spec), spec, condition)

    def _open(self, spec: TableSpec) -> DeltaTable:
        version = self.snapshot.versions.get(spec.name)
        return self._root.open(spec, version)

    def _up_to(self, spec: TableSpec) -> str:
        if spec is SNAPSHOT:
            return f"epoch <= {self.snapshot.epoch}"
        return rows_until(spec, self.snapshot)


def _selected(rows: pa.Table, spec: TableSpec, condition: str) -> pa.Table:
    """Return the rows that meet a SQL condition, which delta-rs answers about a table on disk."""
    with TemporaryDirectory() as folder:
        write_deltalake(folder, rows)
        return select(DeltaTable(folder), spec, condition)


def open_tables(
    root: str | Path | Root,
    epoch: int | None = None,
    at: datetime | int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> PinnedTables:
    """Return the tables as they are, as of `epoch`, or as of the event time `at`.

    `at` is a datetime or epoch milliseconds. `storage_options` are the settings `delta.storage.*` for a root that is
    given by its URL. A time that has not come is now. Raises NoSuchSnapshotError for a time before the first record,
    and for an epoch that there is not. A table's first use raises SnapshotGoneError if maintenance has removed it.
    """
    place = Root.at(root, storage_options)
    return PinnedTables(place, as_of(place, Snapshots(place), AsOf(epoch, event_time_ms(at))))


def event_time_ms(at: datetime | int | None) -> int | None:
    """Return a moment in epoch milliseconds. A datetime without a zone is in UTC."""
    if isinstance(at, datetime):
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    return at

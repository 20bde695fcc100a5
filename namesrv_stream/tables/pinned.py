"""Tables of one snapshot in Arrow, without Spark: for DuckDB, pandas, polars and whatever else reads Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.damage import naming_damage
from namesrv_stream.tables.root import Root, is_there, rows_up_to, select
from namesrv_stream.tables.schemas import PAST_SNAPSHOT, PINNED_TABLES, SNAPSHOT, TableSpec
from namesrv_stream.tables.snapshots import Snapshots

PUBLICATION = "publication"
"""Name of the two tables `snapshot` and `past_snapshot` as one: one row an epoch."""

_SPECS = {spec.name: spec for spec in (*PINNED_TABLES, SNAPSHOT, PAST_SNAPSHOT)}


class PinnedTables(Mapping[str, pa.Table]):
    """The tables of one snapshot: name -> Arrow table. Each is read from storage at its first use.

    The table `snapshot` has the rows up to this snapshot. `past_snapshot` is empty until maintenance makes it.
    `publication` is no stored table: it has the columns of `past_snapshot` for each epoch up to this one, and
    `is_kept`, which is False for the rows of `past_snapshot`. A column that a former release did not have is NULL.
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
        return iter((*_SPECS, PUBLICATION))

    def __len__(self) -> int:
        return len(_SPECS) + 1

    def where(self, name: str, condition: str = "true") -> pa.Table:
        """Return the rows of a table that meet a SQL condition, such as "event_month = '2026-11'".

        Files whose statistics exclude the condition are not read, so a question about a day of a long history is cheap.
        The SQL is that of DataFusion, with which delta-rs reads. It cannot name `is_kept` of `publication`.
        """
        if name == PUBLICATION:
            return self._publications(condition)
        spec = _SPECS[name]
        if spec is PAST_SNAPSHOT and not is_there(self._root, spec):
            return spec.schema.empty_table()
        with naming_damage(self._root, spec, self.snapshot.versions.get(name)):
            return select(self.delta(name), spec, f"({condition}) AND {self._up_to(spec)}")

    def delta(self, name: str) -> DeltaTable:
        """Return a table at the snapshot's version, for readers of Delta such as polars' `scan_delta`.

        The table `snapshot` also has the rows of later snapshots, because it is no part of a snapshot. So have
        `broker_event` and `rejected` of a snapshot that is older than `snapshot.exact`.
        """
        version = self.snapshot.versions.get(name)
        return self._root.open(_SPECS[name]) if version is None else self._root.open_past(_SPECS[name], version)[1]

    def _publications(self, condition: str) -> pa.Table:
        """Return one row for each epoch, in order.

        `snapshot` is read first, because maintenance adds rows to `past_snapshot` before it deletes them there.
        """
        kept, past = (self.where(spec.name, condition) for spec in (SNAPSHOT, PAST_SNAPSHOT))
        gone = past.filter(pc.invert(pc.is_in(past["epoch"], kept["epoch"])))
        parts = ((kept, True), (gone, False))
        return pa.concat_tables(
            rows.select(PAST_SNAPSHOT.schema.names).append_column("is_kept", pa.repeat(is_kept, len(rows)))
            for rows, is_kept in parts
        ).sort_by("epoch")

    def _up_to(self, spec: TableSpec) -> str:
        return rows_up_to(spec, self.snapshot) if spec in PINNED_TABLES else f"epoch <= {self.snapshot.epoch}"


def open_tables(
    root: str | Path | Root,
    epoch: int | None = None,
    at: datetime | int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> PinnedTables:
    """Return the tables of the newest snapshot, of `epoch`, or of the one in force at the event time `at`.

    `at` is a datetime or epoch milliseconds. `storage_options` are the settings `delta.storage.*` for a root that is
    given by its URL. Raises NoSuchSnapshotError if there is no such snapshot, SnapshotGoneError if it is past
    retention.
    """
    place = Root.at(root, storage_options)
    return PinnedTables(place, Snapshots(place).find(epoch, event_time_ms(at)))


def event_time_ms(at: datetime | int | None) -> int | None:
    """Return a moment in epoch milliseconds. A datetime without a zone is in the zone of this machine."""
    return round(at.timestamp() * 1000) if isinstance(at, datetime) else at

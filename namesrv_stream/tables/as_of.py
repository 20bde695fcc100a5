"""Return the tables of any moment: those of the newest snapshot, without what changed after the moment.

A moment is an epoch, with all lines up to it, or an event time, with all lines up to that time, applied in their order.
The table `row_change` has each row before and after each line: a row that changed later was then as it was `before` the
first later change. Times may fall from line to line. So of the changes from the first excluded line on, the last
included one's `after` counts if there is one.

If rows of `row_change` were lost, the tables of a moment before the first of them are what the changes up to it made.
Of a moment between the first and the last one they are not known (tables/holes.py).

All rows are exact but for signs of life: `row_change` has `live` without UNRECORDED_COLUMNS, and a mere sign of life is
no change. In a row that did not change since, these columns are those of the newest snapshot.

`open_tables` gives them in Arrow, without Spark: for DuckDB, pandas, polars and whatever else reads Arrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from namesrv_stream.errors import NoSuchSnapshotError, SnapshotGoneError
from namesrv_stream.reporting.texts import iso_text, moment_text
from namesrv_stream.rules.rows import BrokerEventRow, LiveRow, RowChange, SnapshotRow, is_same_but_for_life
from namesrv_stream.tables.arrow import rows_from_arrow, rows_of_side, rows_to_arrow
from namesrv_stream.tables.damage import reporting_damage
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.root import Root, query, select
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    LIVE,
    PINNED_TABLES,
    REJECTED,
    ROUTE_TABLES,
    ROW_CHANGE,
    SNAPSHOT,
    TOPIC,
    TableSpec,
)
from namesrv_stream.tables.snapshots import Snapshots, reporting_gone_snapshots

Key = tuple[Any, ...]
RowsByKey = Mapping[Key, tuple[Any, ...] | None]
"""Key -> the row, None if there is none."""


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


@dataclass(frozen=True)
class Past:
    """A moment of the registry, made from `base`, the newest snapshot; if `is_before_holes`, from nothing.

    `snapshot` is the row of the moment. For an epoch it is the row with which the epoch was published. For a time its
    epoch is the last one with a line up to it, its event time is that time, and its offsets are those of the last
    snapshot before. Its versions are those of `base`, unless it is `base` itself.
    """

    root: Root
    moment: AsOf
    snapshot: SnapshotRow
    base: SnapshotRow
    is_before_holes: bool = False
    _changed: dict[tuple[str, str], RowsByKey] = field(default_factory=dict)

    @property
    def is_made(self) -> bool:
        """True if the moment is not the newest snapshot."""
        return self.snapshot is not self.base

    def changed(self, spec: TableSpec, topics: str = "true") -> RowsByKey:
        """Return the rows at the moment of the keys that changed after it; of all keys if `is_before_holes`.

        `topics`: an SQL condition of the wanted rows of `topic`.
        """
        if not self.is_made:
            return {}
        together = (TOPIC,) if spec is TOPIC else tuple(each for each in ROUTE_TABLES if each is not TOPIC)
        if (spec.name, topics) not in self._changed:
            self._changed.update(((name, topics), rows) for name, rows in self._read(together, topics).items())
        return self._changed[spec.name, topics]

    def _read(self, specs: Sequence[TableSpec], topics: str) -> Mapping[str, RowsByKey]:
        of_topics = topics if TOPIC in specs else "true"
        if self.is_before_holes:
            return self._of_changes(specs, f"{self.moment.up_to_here} AND {of_topics}", "true")
        return self._of_changes(specs, f"{self._later} AND {of_topics}", self._includes)

    def recorded(self, spec: TableSpec, after_epoch: int = 0) -> RowsByKey:
        """Return the newest row after a change of each key of a table in `base`, from `row_change` alone.

        Only changes of higher epochs than `after_epoch` count.
        """
        return self._of_changes((spec,), f"epoch > {after_epoch}", "true")[spec.name]

    def _of_changes(self, specs: Sequence[TableSpec], condition: str, is_included: str) -> Mapping[str, RowsByKey]:
        names = ", ".join(f"'{spec.name}'" for spec in specs)
        keys = list(dict.fromkeys(name for spec in specs for name in spec.key))
        sql = _FIRST_LATER.format(
            keys=", ".join(["table_name", *keys]),
            sides=", ".join(f"{_side(spec, is_included)} AS was_{spec.name}" for spec in specs),
            rows=", ".join(f"was_{spec.name}" for spec in specs),
            is_included=is_included,
            chosen=f"table_name IN ({names}) AND epoch <= {self.base.epoch} AND {condition}",
        )
        with self._reporting_damage():
            found = query(self._table, sql)
            return {spec.name: _by_key(spec, found) for spec in specs}

    def _reporting_damage(self) -> AbstractContextManager[None]:
        return reporting_damage(self.root, ROW_CHANGE, self.base.versions[ROW_CHANGE.name])

    @cached_property
    def _table(self) -> DeltaTable:
        with self._reporting_damage():
            return self.root.open(ROW_CHANGE, self.base.versions[ROW_CHANGE.name])

    @property
    def _includes(self) -> str:
        at_ms = self.moment.at_ms
        return "false" if at_ms is None else f"event_time <= {timestamp_sql(at_ms)}"

    @cached_property
    def _later(self) -> str:
        """SQL condition that selects the changes from the first line on that is later than the moment, or more."""
        return "false" if self._first_later is None else f"epoch >= {self._first_later}"

    @cached_property
    def _first_later(self) -> int | None:
        """The first epoch that has a change after the moment, or may have one; None if there is none."""
        at_ms = self.moment.at_ms
        if at_ms is None:
            return (self.moment.epoch or 0) + 1
        later = f"event_time > {timestamp_sql(at_ms)} AND event_month >= '{month_of(at_ms)}'"
        with self._reporting_damage():
            sql = f"SELECT min(epoch) AS epoch FROM rows WHERE {later}"
            first: int | None = query(self._table, sql)["epoch"][0].as_py()
        return first

    def beside_holes(self) -> Past:
        """Return this moment as it can be made. Raises PastUnknownError if lost rows of the history leave it unknown.

        A time is before the holes if no lost row can be up to it, and no row from the holes on is.
        """
        at_ms, epoch = self.moment.at_ms, self.snapshot.epoch
        unknown = UnknownPast.of_tables(self.base) if at_ms is None else UnknownPast.of(self.base)
        if unknown is None or not self.is_made:
            return self
        is_before = epoch < unknown.from_epoch
        if at_ms is not None:
            is_before = is_before and unknown.from_millis is not None and at_ms < unknown.from_millis
        if is_before:
            return replace(self, is_before_holes=True)
        is_after = epoch >= unknown.to_epoch
        if at_ms is not None:
            is_after = at_ms >= unknown.until_millis and (self._first_later or math.inf) > unknown.to_epoch
        if not is_after:
            raise unknown.error
        return self

    def applied_to(self, spec: TableSpec, rows: pa.Table) -> pa.Table:
        """Return the rows of a table at the moment, from its rows in `base`, in no particular order."""
        rows = spec.schema.empty_table() if self.is_before_holes else rows
        if changed := self.changed(spec):
            added = rows_to_arrow(spec, [row for row in changed.values() if row is not None])
            rows = pa.concat_tables([_without(rows, spec, changed), added])
        return self._not_heard_later(rows) if self.is_made and spec is LIVE else rows

    def _not_heard_later(self, live: pa.Table) -> pa.Table:
        """Return leases of which none was heard after the moment. The newest snapshot has later signs of life."""
        column = "last_update_timestamp"
        now = pa.array([self.snapshot.event_time], pa.timestamp("ms", "UTC")).cast(live.schema.field(column).type)
        heard = pc.if_else(pc.greater(live[column], now[0]), now[0], live[column])
        return live.set_column(live.schema.get_field_index(column), live.schema.field(column), heard)


_FIRST_LATER = """
SELECT {keys}, {rows} FROM (
  SELECT {keys}, {sides},
         row_number() OVER (PARTITION BY {keys} ORDER BY
           CASE WHEN {is_included} THEN 0 ELSE 1 END,
           CASE WHEN {is_included} THEN -epoch ELSE epoch END,
           CASE WHEN {is_included} THEN -seq ELSE seq END) AS place
  FROM rows WHERE {chosen}
) AS numbered WHERE place = 1
"""
"""Query of the change of each key that has its row at the moment: the last included one, else the first one after."""


def unrecorded(root: Root, snapshot: SnapshotRow, spec: TableSpec) -> list[RowChange]:
    """Return what would make the rows of a table out of those that `row_change` has last: nothing if all is well."""
    unknown = UnknownPast.of_tables(snapshot)
    recorded = Past(root, AsOf(), snapshot, snapshot).recorded(spec, 0 if unknown is None else unknown.to_epoch)
    with reporting_damage(root, spec, snapshot.versions[spec.name]):
        rows = rows_from_arrow(spec, select(root.open(spec, snapshot.versions[spec.name]), spec))
    stored = {tuple(getattr(row, name) for name in spec.key): row for row in rows}
    keys = {*stored, *recorded} if unknown is None else recorded  # of other keys the last change may be lost
    sides = ((key, recorded.get(key), stored.get(key)) for key in sorted(keys))
    return [RowChange(spec.name, *change) for change in sides if not _is_same(*change[1:])]


def _is_same(recorded: tuple[Any, ...] | None, stored: tuple[Any, ...] | None) -> bool:
    if isinstance(recorded, LiveRow) and isinstance(stored, LiveRow):
        return is_same_but_for_life(recorded._replace(tokens=stored.tokens), stored)
    return recorded == stored


def _side(spec: TableSpec, is_included: str) -> str:
    return f"CASE WHEN {is_included} THEN {spec.name}_after ELSE {spec.name}_before END"


def _by_key(spec: TableSpec, found: pa.Table) -> RowsByKey:
    tables, rows = found["table_name"].to_pylist(), rows_of_side(spec, found[f"was_{spec.name}"])
    keys = zip(*(found[name].to_pylist() for name in spec.key), strict=True)
    return {key: row for table, key, row in zip(tables, keys, rows, strict=True) if table == spec.name}


def _without(rows: pa.Table, spec: TableSpec, keys: Iterable[Key]) -> pa.Table:
    """Return the rows without those of some keys. Only rows that share a part of a key become Python objects."""
    keys = set(keys)
    may_go: Any = pa.repeat(pa.array([True])[0], len(rows))
    for part, name in enumerate(spec.key):
        values = pa.array({key[part] for key in keys}, rows.schema.field(name).type)
        may_go = pc.and_(may_go, pc.is_in(rows[name], values))
    places = pc.indices_nonzero(may_go)
    found = zip(places.to_pylist(), *(rows[name].take(places).to_pylist() for name in spec.key), strict=True)
    gone = pa.array([place for place, *key in found if tuple(key) in keys], pa.uint64())
    if not len(gone):
        return rows
    return rows.filter(pc.invert(pc.is_in(pa.array(range(len(rows)), pa.uint64()), gone)))


def as_of(root: Root, snapshots: Snapshots, moment: AsOf) -> Past:
    """Return the registry as of a moment. A time that has not come is the newest snapshot.

    Raises NoSuchSnapshotError for a moment before the first record, and for an epoch that there is not yet, and
    PastUnknownError for one that lost rows of the history leave unknown.
    """
    newest = snapshots.newest()
    if moment.epoch is not None and not 1 <= moment.epoch <= newest.epoch:
        raise NoSuchSnapshotError(str(moment), newest.epoch)
    is_now = moment == AsOf() or moment.epoch == newest.epoch
    if is_now or (moment.at_ms is not None and moment.at_ms >= (newest.event_time or 0)):
        return Past(root, moment, newest, newest)
    earlier, later = snapshots.around(*moment)
    row = earlier
    if moment.epoch is not None:
        row = (earlier or newest)._replace(epoch=moment.epoch)
    else:
        since = f"epoch > {earlier.epoch if earlier else 0}"
        epoch = _of_lines(root, newest, "max(epoch)", f"{since} AND {moment.up_to_here}")
        if epoch is None and (earlier is None or earlier.event_time is None):
            if (unknown := UnknownPast.of(newest)) is not None and (moment.at_ms or 0) <= unknown.until_millis:
                raise unknown.error
            first = _of_lines(root, newest, "min(event_time)", "true")
            begin = "" if first is None else moment_text(round(first.timestamp() * 1000))
            raise NoSuchSnapshotError(f"event time {moment}", newest.epoch, begin)
        row = earlier or (later or newest)._replace(offsets={})  # a job goes on there, and leaves out no record
        if epoch is not None:
            published = next(iter(snapshots.readable(1, epoch)), row)
            row = published._replace(epoch=epoch, offsets=row.offsets)
        row = row._replace(event_time=moment.at_ms)
    assert row is not None
    row = row._replace(versions=newest.versions, holes=newest.holes, repaired_at=newest.repaired_at)
    return Past(root, moment, row, newest).beside_holes()


def _of_lines(root: Root, newest: SnapshotRow, what: str, condition: str) -> Any:
    """Return an aggregate of the lines that meet a condition, None if there is none."""
    version = newest.versions[BROKER_EVENT.name]
    with reporting_damage(root, BROKER_EVENT, version):
        return query(root.open(BROKER_EVENT, version), f"SELECT {what} FROM rows WHERE {condition}")[0][0].as_py()


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
        if spec.key and (spec is LIVE or self.past.is_before_holes or self.past.changed(spec)):
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

"""Return the tables of any moment: those of a kept snapshot beside it, with the lines of history in between applied.

A moment is an epoch, with all lines up to it, or an event time, with all lines up to that time, applied in their order.
`after` of a line leads forward from an earlier snapshot, `before` leads backward from a later one.

All rows are exact but for signs of life: a line has the row of `live` without UNRECORDED_COLUMNS, and a mere sign of
life has no line. In a row that no line between has, these columns are those of the snapshot.

A line of a former release has only the number of its rows if they were over 200 topics. The snapshot on the side
without such lines is taken; if there are some on both sides, `Past.unlisted` counts the rows that are not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_stream.errors import NoSuchSnapshotError
from namesrv_stream.reporting.texts import iso_text, moment_text
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import BrokerEventRow, LiveRow, LogPosition, PastSnapshotRow, SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow, rows_to_arrow
from namesrv_stream.tables.damage import naming_damage
from namesrv_stream.tables.root import Root, is_there, query, quoted, select
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    DATA_VERSION,
    LIVE,
    LOG_POSITION,
    PAST_SNAPSHOT,
    REJECTED,
    SNAPSHOT,
    TABLES,
    TEXTS,
    TableSpec,
)
from namesrv_stream.tables.snapshots import Snapshots

Key = tuple[Any, ...]
RowsByKey = dict[Key, tuple[Any, ...] | None]
"""Key -> the row, None if there is none."""

Rows = list[dict[str, Any]]
"""Rows of one table as `before` and `after` of a line have them."""


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
    """Return the SQL condition of the rows up to a moment, for `broker_event` and `rejected`.

    A row of a moment that is made from the history may name later versions of these tables. Other tables have no
    later rows.
    """
    at_ms = snapshot.event_time
    if spec is REJECTED:
        return "false" if at_ms is None else f"event_time <= {timestamp_sql(at_ms)}"
    if spec is not BROKER_EVENT:
        return "true"
    return AsOf(snapshot.epoch).up_to_here + ("" if at_ms is None else f" AND {AsOf(at_ms=at_ms).up_to_here}")


class Changes:
    """Rows that lines of the history change, by table.

    A TOPICS_CHANGED before 0.2.0 may have the new data version of a lease whose row it does not list. `data_versions`:
    address -> that version; None if such a line is undone, because it does not have the version before.
    """

    def __init__(self) -> None:
        self._fields: dict[str, dict[Key, Mapping[str, Any] | None]] = {}
        self.data_versions: dict[str, DataVersion | None] = {}

    def follow(self, line: BrokerEventRow) -> None:
        """Change the rows as the line says."""
        self._replace(line, line.before, line.after, line.data_version)

    def undo(self, line: BrokerEventRow) -> None:
        """Change the rows back to those before the line. Undo later lines first."""
        self._replace(line, line.after, line.before, None)

    def _replace(self, line: BrokerEventRow, gone: str | None, came: str | None, version: DataVersion | None) -> None:
        if line.type == "TOPICS_CHANGED" and line.broker_addr and line.data_version:
            self.data_versions[line.broker_addr] = version
        for spec, rows in _listed(gone):
            self._fields.setdefault(spec.name, {}).update((_key(spec, row), None) for row in rows)
        for spec, rows in _listed(came):
            self._fields.setdefault(spec.name, {}).update((_key(spec, row), row) for row in rows)
            if spec is LIVE:
                for row in rows:
                    self.data_versions.pop(row["broker_addr"], None)

    def touch(self, spec: TableSpec) -> bool:
        """Return whether rows of a table change."""
        return bool(self._fields.get(spec.name)) or (spec is LIVE and bool(self.data_versions))

    def rows(self, spec: TableSpec) -> RowsByKey:
        """Return the rows of a table that change, as far as lines list them."""
        return {key: None if row is None else row_of(spec, row) for key, row in self._fields.get(spec.name, {}).items()}

    def applied_to(self, spec: TableSpec, rows: pa.Table) -> pa.Table:
        """Return all rows of a table after the changes, in no particular order."""
        if not self.touch(spec):
            return rows
        changed = self.rows(spec)
        if spec is LIVE:
            addresses = pa.array(list(self.data_versions), rows.schema.field("broker_addr").type)
            of_base = rows_from_arrow(LIVE, rows.filter(pc.is_in(rows["broker_addr"], addresses)))
            leases: dict[Key, LiveRow | None] = {(lease.broker_addr,): lease for lease in of_base} | changed
            for key, lease in leases.items():
                version = self.data_versions.get(key[0])
                changed[key] = lease._replace(data_version=version) if lease and version else lease
        added = rows_to_arrow(spec, [row for row in changed.values() if row is not None])
        return pa.concat_tables([_without(rows, spec, changed), added])


@dataclass(frozen=True)
class Past:
    """A moment of the registry: the kept snapshot `base`, and the changes that lead from it to the moment.

    `snapshot` is the row of the moment: its epoch is the last one with a line up to it, its event time that of the
    newest line or rejected record, its offsets those of the last snapshot kept before, and its versions those of
    `base`. It is `base` itself if neither lies between. `unlisted`: broker name -> number of changed topics that lines
    of a former release count without naming them, and that the answer therefore lacks.
    """

    snapshot: SnapshotRow
    base: SnapshotRow
    changes: Changes = field(default_factory=Changes)
    unlisted: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_made(self) -> bool:
        """True if the moment is no kept snapshot."""
        return self.snapshot != self.base

    def applied_to(self, spec: TableSpec, rows: pa.Table) -> pa.Table:
        """Return the rows of a table at the moment, from its rows in `base`, in no particular order."""
        rows = self.changes.applied_to(spec, rows)
        return self._not_heard_later(rows) if self.is_made and spec is LIVE else rows

    def _not_heard_later(self, live: pa.Table) -> pa.Table:
        """Return leases of which none was heard after the moment. A later snapshot has later signs of life."""
        column = "last_update_timestamp"
        now = pa.array([self.snapshot.event_time], pa.timestamp("ms", "UTC")).cast(live.schema.field(column).type)
        heard = pc.if_else(pc.greater(live[column], now[0]), now[0], live[column])
        return live.set_column(live.schema.get_field_index(column), live.schema.field(column), heard)


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
    """Return the registry as of a moment.

    Raises NoSuchSnapshotError for a moment before the first record, and for an epoch that there is not yet.
    """
    newest = snapshots.newest()
    if moment == AsOf() or moment.epoch == newest.epoch:
        return Past(newest, newest)
    if moment.epoch is not None and not 1 <= moment.epoch <= newest.epoch:
        raise NoSuchSnapshotError(str(moment), newest.epoch)
    earlier, later = snapshots.around(*moment)
    history = _History(root, newest, moment)
    row = history.row(earlier, later)
    if row is None:
        first = history.first_event_ms()
        raise NoSuchSnapshotError(f"event time {moment}", newest.epoch, "" if first is None else moment_text(first))
    if row == earlier:
        return Past(row, row)
    found: Past | None = None
    for base in history.by_effort(earlier, later):
        past = history.past(row, base)
        if found is None or sum(past.unlisted.values()) < sum(found.unlisted.values()):
            found = past
        if not found.unlisted:
            break
    assert found is not None
    return found


class _History:
    """The lines of the history on both sides of a moment, up to the newest snapshot."""

    def __init__(self, root: Root, newest: SnapshotRow, moment: AsOf) -> None:
        self._root = root
        self._moment = moment
        self._versions = {spec.name: newest.versions[spec.name] for spec in (BROKER_EVENT, REJECTED)}
        self._version = self._versions[BROKER_EVENT.name]
        with naming_damage(root, BROKER_EVENT, self._version):
            self._table = root.open(BROKER_EVENT, self._version)

    def _read(self, sql: str) -> pa.Table:
        with naming_damage(self._root, BROKER_EVENT, self._version):
            return query(self._table, sql)

    def by_effort(self, earlier: SnapshotRow | None, later: SnapshotRow | None) -> Iterator[SnapshotRow]:
        """Yield the snapshots around the moment, first the one from which fewer changed rows lead there."""
        if earlier is None or later is None:
            yield from filter(None, (earlier, later))
            return
        size = "coalesce(length(before), 0) + coalesce(length(after), 0)"
        sums = ", ".join(f"sum(CASE WHEN {self._moment.up_to_here} = {side} THEN {size} END)" for side in (True, False))
        between = f"epoch > {earlier.epoch} AND epoch <= {later.epoch}"
        since, until = (column[0].as_py() for column in self._read(f"SELECT {sums} FROM rows WHERE {between}").columns)
        yield from (earlier, later) if (since or 0) <= (until or 0) else (later, earlier)

    def row(self, earlier: SnapshotRow | None, later: SnapshotRow | None) -> SnapshotRow | None:
        """Return the row of the moment. It is `earlier` if no line lies between; None before the first record."""
        if earlier is not None and earlier.epoch == self._moment.epoch:
            return earlier
        since = f"epoch > {earlier.epoch if earlier else 0}"
        newest = "SELECT max(epoch) AS epoch, max(event_time) AS event_time FROM rows"
        found = self._read(f"{newest} WHERE {since} AND {self._moment.up_to_here}")
        epoch, line_ms = found["epoch"][0].as_py(), _millis(found["event_time"])[0]
        rejected_ms = self._rejected_ms(earlier)
        if self._moment.epoch is None and epoch is None:
            if earlier is None or (rejected_ms or 0) <= (earlier.event_time or 0):
                return None if earlier is None or earlier.event_time is None else earlier
            epoch = earlier.epoch
        epoch = self._moment.epoch or epoch
        model = earlier or (later and later._replace(offsets={}))  # a job goes on there, and leaves out no record
        assert model is not None
        times = [line_ms, rejected_ms, earlier.event_time if earlier else None]
        return self._published(model._replace(epoch=epoch, event_time=max(filter(None, times), default=None)))

    def _rejected_ms(self, earlier: SnapshotRow | None) -> int | None:
        """Return the time of the newest rejected record up to the moment, None if `earlier` has it or there is none.

        The lines of an epoch do not say which records it has, so None for an epoch too.
        """
        version = self._versions[REJECTED.name]
        if self._moment.at_ms is None or (earlier and earlier.versions[REJECTED.name] == version):
            return None
        with naming_damage(self._root, REJECTED, version):
            until = f"event_time <= {timestamp_sql(self._moment.at_ms)}"
            found = query(self._root.open(REJECTED, version), f"SELECT max(event_time) AS at FROM rows WHERE {until}")
        newest: int | None = _millis(found["at"])[0]
        return newest

    def _published(self, row: SnapshotRow) -> SnapshotRow:
        """Return a row with the run and the time of its epoch; a moment by event time keeps its own.

        A kept row of the epoch has records that came after the moment: its offsets are not the moment's.
        """
        known = set(PastSnapshotRow._fields) - ({"event_time"} if self._moment.epoch is None else set())
        for spec in (SNAPSHOT, PAST_SNAPSHOT):
            if spec is SNAPSHOT or is_there(self._root, spec):
                for each in rows_from_arrow(spec, select(self._root.open(spec), spec, f"epoch = {row.epoch}")):
                    return row._replace(**{name: getattr(each, name) for name in known})
        return row

    def first_event_ms(self) -> int | None:
        """Return the time of the first line, None if there is no line."""
        first: int | None = _millis(self._read("SELECT min(event_time) AS at FROM rows")["at"])[0]
        return first

    def past(self, row: SnapshotRow, base: SnapshotRow) -> Past:
        """Return the moment from a kept snapshot: lines that it has too many are undone, lines that it lacks follow."""
        undone = self._from_first_excluded(base)
        done = self._lines(f"epoch > {base.epoch} AND {self._moment.up_to_here}")
        changes = Changes()
        for line in reversed(undone):
            changes.undo(line)
        for line in [*filter(self._moment.includes, undone), *done]:
            changes.follow(line)
        if unknown := [address for address, version in changes.data_versions.items() if version is None]:
            changes.data_versions |= self._data_versions(unknown)
        unlisted: Counter[str] = Counter()
        for line in (*undone, *done):
            unlisted[line.broker_name or ""] += _unlisted(line)
        return Past(row._replace(versions=base.versions | self._versions), base, changes, +unlisted)

    def _data_versions(self, addresses: Iterable[str]) -> dict[str, DataVersion]:
        """Return the data version of each address at the moment, from its last line that has one.

        A REFUSED has that of the refused registration.
        """
        of_addresses = f"broker_addr IN ({', '.join(map(quoted, addresses))})"
        of_leases = f"{of_addresses} AND data_version IS NOT NULL AND type <> 'REFUSED'"
        asked = f"SELECT broker_addr, data_version FROM rows WHERE {of_leases} AND {self._moment.up_to_here}"
        found = self._read(f"{asked} ORDER BY epoch, seq").to_pylist()
        return {line["broker_addr"]: DataVersion(**line["data_version"]) for line in found}

    def _from_first_excluded(self, base: SnapshotRow) -> list[BrokerEventRow]:
        """Return the lines of a snapshot from the first one on that is later than the moment."""
        within = f"epoch <= {base.epoch}"
        if self._moment.at_ms is None:
            return self._lines(f"epoch > {self._moment.epoch} AND {within}")
        if base.event_time is None or base.event_time <= self._moment.at_ms:
            return []
        later = f"event_time > {timestamp_sql(self._moment.at_ms)} AND event_month >= '{month_of(self._moment.at_ms)}'"
        first = self._read(f"SELECT epoch, seq FROM rows WHERE {within} AND {later} ORDER BY epoch, seq LIMIT 1")
        if not len(first):
            return []
        epoch, seq = first["epoch"][0].as_py(), first["seq"][0].as_py()
        return self._lines(f"{within} AND (epoch > {epoch} OR (epoch = {epoch} AND seq >= {seq})) AND epoch >= {epoch}")

    def _lines(self, condition: str) -> list[BrokerEventRow]:
        with naming_damage(self._root, BROKER_EVENT, self._version):
            found = select(self._table, BROKER_EVENT, condition, "ORDER BY epoch, seq")
        return rows_from_arrow(BROKER_EVENT, found)


def _listed(side: str | None) -> Iterator[tuple[TableSpec, Rows]]:
    """Yield the keyed tables whose rows `before` or `after` of a line lists."""
    for name, rows in (msgspec.json.decode(side) if side else {}).items():
        if isinstance(rows, list):
            yield TABLES[name], rows


def _unlisted(line: BrokerEventRow) -> int:
    """Return the number of rows that the line counts without listing them."""
    sides = (msgspec.json.decode(side) if side and '"count":' in side else {} for side in (line.before, line.after))
    counted = ([rows.get("count", 0) for rows in side.values() if isinstance(rows, dict)] for side in sides)
    return max(map(sum, counted))


def _key(spec: TableSpec, fields: Mapping[str, Any]) -> Key:
    return tuple(fields[name] for name in spec.key)


def row_of(spec: TableSpec, fields: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a row of `before` or `after` as `spec.row`. A column that the line lacks has its default."""
    known = {name: _value(spec, name, value) for name, value in fields.items() if name in spec.schema.names}
    return spec.row(**known)


def _value(spec: TableSpec, name: str, value: Any) -> Any:
    make = _MAKE.get(spec.schema.field(name).type)
    return value if make is None or value is None else make(value)


_MAKE: Mapping[pa.DataType, Callable[[Any], Any]] = {
    DATA_VERSION: lambda fields: DataVersion(**fields),
    LOG_POSITION: lambda fields: LogPosition(**fields),
    TEXTS: tuple,
}


def _millis(column: pa.ChunkedArray) -> list[int | None]:
    times: list[int | None] = column.cast("timestamp[ms]").cast("int64").to_pylist()
    return times

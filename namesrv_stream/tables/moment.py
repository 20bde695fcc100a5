"""A registry as it is, or as it was at any moment; tables/registry.py opens it.

A moment of the past is made from the newest tables, without what changed after it. The table `row_change` has each row
before and after each line: a row is as it was before its first change after the moment. If a later line has an earlier
time, a change up to the moment may follow one after it. Then the last such change counts.

If rows of `row_change` were lost, the tables of a moment before the first of them are what the changes up to it made.
Of a moment between the first and the last one they are not known (tables/holes.py).

All rows are exact but for signs of life: `row_change` has `live` without UNRECORDED_COLUMNS, and a mere sign of life is
no change. In a row that did not change since, these columns are those of the newest snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.reporting.recent import Recent
from namesrv_stream.rules.lookup import INDEXES, RouteTables
from namesrv_stream.rules.queues import QueueSettings, TopicQueues
from namesrv_stream.rules.rows import (
    BrokerEventRow,
    BrokerRow,
    LiveRow,
    RejectedRow,
    RowChange,
    SnapshotRow,
)
from namesrv_stream.tables.arrow import query_rows, row_changes_from_arrow, rows_from_arrow, rows_to_arrow
from namesrv_stream.tables.as_of import AsOf, month_of, rows_until, timestamp_sql
from namesrv_stream.tables.changes import RowsByKey, folded, is_same, rows_by_key, without
from namesrv_stream.tables.damage import reporting_damage
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.loaded import LoadedTable, LoadedTopics
from namesrv_stream.tables.root import Root, query, quoted, select
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    LIVE,
    PINNED_TABLES,
    REJECTED,
    ROUTE_TABLES,
    ROW_CHANGE,
    SNAPSHOT,
    TABLES,
    TOPIC,
    TableSpec,
)
from namesrv_stream.tables.snapshots import reporting_gone_snapshots
from namesrv_stream.tables.topic_queues import load_queues

T = TypeVar("T")
Place = tuple[int, int]
"""Epoch and number of a line."""

_SMALL_TABLES = tuple(spec for spec in ROUTE_TABLES if spec is not TOPIC)
_TABLE_AND_KEY = attrgetter("table", "key")


class Opened(Protocol):
    """The registry of a moment: what all its moments share."""

    root: Root
    kept: dict[str, Recent[Any]]

    @property
    def settings(self) -> NamesrvSettings:
        """The settings of this process."""

    @property
    def identity(self) -> str:
        """The identity of the registry."""

    def naming_storage(self) -> AbstractContextManager[None]:
        """Raise a StorageError for an error of the storage itself."""

    def require_same(self, at: RegistryAt) -> None:
        """Raise SnapshotGoneError for a moment of a registry that is no longer in the folder."""

    def parts(self, at: RegistryAt, specs: Sequence[TableSpec]) -> Mapping[str, LoadedTable | LoadedTopics]:
        """Return route tables of a moment by name."""


class RegistryAt(Mapping[str, pa.Table]):
    """A registry at one moment. It never changes; each table is read when it is first used. Threads may share it.

    It is a mapping from the name of a table to its rows in Arrow, for DuckDB, pandas, polars and whatever else reads
    Arrow. `routes`, and each part of it by its name, is what lookups read. `snapshot`: the row of the moment. `newest`:
    the row whose table versions it is made from, which is the same object unless the moment is past. `as_of` names the
    moment, to open it again. `identity`: that of the registry.
    """

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        """Return whether it is this object: a mapping's comparison would read all tables."""
        return self is other

    def __init__(  # noqa: PLR0913  # what makes a moment
        self,
        registry: Opened,
        snapshot: SnapshotRow,
        newest: SnapshotRow,
        as_of: AsOf,
        *,
        topic: str | None = None,
        parts: Mapping[str, LoadedTable | LoadedTopics] | None = None,
    ) -> None:
        """Raises PastUnknownError if lost rows of the history leave the moment unknown.

        `topic`: of all topics `queues` need have this one alone. `parts`: route tables that are not read, by name.
        """
        self.root = registry.root
        self.identity = registry.identity
        self.snapshot = snapshot
        self.newest = newest
        self.as_of = as_of
        self._registry = registry
        self._topic = topic
        self._parts = dict(parts or {})
        self._read: dict[str, pa.Table] = {}
        self._changed: dict[str, RowsByKey] = {}
        self._is_before_holes = self._is_made_forwards()

    @property
    def is_historical(self) -> bool:
        """True unless the moment is the newest one. The signs of life of a past moment are not known."""
        return self.snapshot is not self.newest

    @property
    def now_ms(self) -> int:
        """The moment in epoch milliseconds: of its newest record, else of its publication."""
        return self.snapshot.event_time or self.snapshot.published_at

    @property
    def unknown(self) -> UnknownPast | None:
        """The stretch of the history up to this moment that has lost rows, None if there is none."""
        return UnknownPast.reaching(self.snapshot)

    @cached_property
    def routes(self) -> RouteTables:
        """The tables as the lookup rules read them."""
        indexes = {field: self.part(TABLES[name]).index for name, (field, _) in INDEXES.items()}
        return RouteTables(self.queues, **indexes)  # type: ignore[arg-type]  # each by its own field

    @property
    def queues(self) -> TopicQueues:
        """The field of `routes`, as the following ones."""
        return self.topics.index

    @property
    def brokers(self) -> Mapping[str, Mapping[int, BrokerRow]]:
        """Broker name -> id -> holder."""
        return self._index("broker")

    @property
    def clusters(self) -> Mapping[str, Any]:
        """Cluster name -> broker names."""
        return self._index("cluster")

    @property
    def filters(self) -> Mapping[str, tuple[str, ...]]:
        """Broker address -> filter servers."""
        return self._index("filter")

    @property
    def live(self) -> Mapping[str, LiveRow]:
        """Broker address -> its lease."""
        return self._index("live")

    @property
    def kv(self) -> Mapping[str, Mapping[str, str]]:
        """Namespace -> key -> value."""
        return self._index("kv_config")

    @property
    def namesrv_config(self) -> Mapping[str, str]:
        """Settings that UPDATE_NAMESRV_CONFIG has changed for all processes."""
        return self._index("namesrv_config")

    def _index(self, name: str) -> Mapping[Any, Any]:
        return self.part(TABLES[name]).index

    @cached_property
    def settings(self) -> NamesrvSettings:
        """The settings in force: those of this process, with those that are changed for all processes."""
        return self._registry.settings.restored(self.namesrv_config)

    def of_topic(self, topic: str) -> RegistryAt:
        """Return the same moment for questions about one topic, which saves the time to load a million more.

        Its `queues` may have no other topic, so that counts over topics are wrong.
        """
        if self._topic == topic or (self._topic is None and TOPIC.name in self._parts):
            return self
        parts = {name: part for name, part in self._parts.items() if name != TOPIC.name}
        return self.once("topic", lambda: self._with(parts, topic), key=topic)

    def rows(self, name: str) -> list[Any]:
        """Return the rows of one route table as its row class, in no particular order."""
        return self.part(TABLES[name]).rows()

    def changed_tables(self, former: RegistryAt | None) -> frozenset[str]:
        """Return the names of the route tables that may differ from those of a former moment; all if there is none."""
        return frozenset(spec.name for spec in ROUTE_TABLES if not former or self.part(spec) is not former.part(spec))

    def changed_topics(self, former: RegistryAt) -> frozenset[str] | None:
        """Return the topics that differ from those of a former moment, None if any may."""
        if self.topics is former.topics:
            return frozenset()
        return self.topics.changed if self.topics.former is former.topics.snapshot else None

    def with_routes_of(self, former: RegistryAt) -> RegistryAt:
        """Return this moment with the routes of a former one, and the leases as they are."""
        return self._with({spec.name: (self if spec is LIVE else former).part(spec) for spec in ROUTE_TABLES})

    def _with(self, parts: Mapping[str, LoadedTable | LoadedTopics], topic: str | None = None) -> RegistryAt:
        other = RegistryAt(self._registry, self.snapshot, self.newest, self.as_of, topic=topic, parts=parts)
        other.identity = self.identity  # the folder may have got another registry since
        return other

    def once(self, name: str, make: Callable[[], T], *tables: TableSpec, key: Hashable = None, most: int = 4) -> T:
        """Return `make()`, computed once for each of the last `most` moments.

        For the present it is computed again only when the version of one of `tables` changes; without `tables`, for
        each snapshot.
        """
        row = self.newest
        versions = tuple(row.versions[spec.name] for spec in tables) or (row.epoch, row.published_at)
        past = self.as_of if self.is_historical else None
        kept: Recent[T] = self._registry.kept.setdefault(name, Recent(most))
        return kept.get((self.identity, row.repaired_at, versions, past, self._topic, key), make)

    # The parts

    @property
    def topics(self) -> LoadedTopics:
        """The table `topic` in the form that lookups read."""
        part = self.part(TOPIC)
        assert isinstance(part, LoadedTopics)
        return part

    def part(self, spec: TableSpec) -> LoadedTable | LoadedTopics:
        """Return a route table in the form that lookups read."""
        if spec.name not in self._parts:
            if spec is TOPIC and self._topic is not None:
                with self._registry.naming_storage(), reporting_gone_snapshots(self.root, spec, self.newest):
                    self._registry.require_same(self)
                    table = self.root.open(spec, self.newest.versions[spec.name])
                    topics = LoadedTopics(load_queues(table, self._of_topic), self.newest)
                self._parts[spec.name] = self.made_from(topics) if self.is_historical else topics
            else:
                together = (TOPIC,) if spec is TOPIC else _SMALL_TABLES
                parts = self._registry.parts(self, together)
                self._parts |= {name: part for name, part in parts.items() if name not in self._parts}
        return self._parts[spec.name]

    def made_from(self, part: LoadedTable | LoadedTopics) -> LoadedTable | LoadedTopics:
        """Return a table of this past moment from that of the newest snapshot, which may be the same object."""
        if isinstance(part, LoadedTable):
            rows = self._applied(part.spec, part.arrow)
            return part if rows is part.arrow else LoadedTable(part.spec, rows)
        changed = self.changed(TOPIC)
        if not changed and not self._is_before_holes:
            return part
        index = TopicQueues() if self._is_before_holes else part.index
        by_topic: dict[str, dict[str, QueueSettings | None]] = {}
        for (topic, broker_name), row in changed.items():
            by_topic.setdefault(topic, {})[broker_name] = None if row is None else QueueSettings(*row[2:])
        return LoadedTopics(index.changed(by_topic), self.snapshot)

    @property
    def _of_topic(self) -> str:
        return "true" if self._topic is None else f"topic = {quoted(self._topic)}"

    # Arrow

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._read:
            self._read[name] = self.where(name)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)

    def __contains__(self, name: object) -> bool:
        return name in TABLES

    def where(self, name: str, condition: str = "true") -> pa.Table:
        """Return the rows of a table that meet a SQL condition, such as "event_month = '2026-11'".

        Files whose statistics exclude the condition are not read, so a question about a day of a long history is cheap.
        The SQL is that of DataFusion, with which delta-rs reads; DuckDB answers about a past moment's keyed tables.
        """
        spec = TABLES[name]
        made = self.made(spec)
        if made is None:
            return self._stored(spec, f"({condition}) AND {self._up_to(spec)}")
        if condition == "true":
            return made
        return query_rows(made, f"SELECT * FROM rows WHERE {condition}").cast(made.schema)

    def made(self, spec: TableSpec) -> pa.Table | None:
        """Return the rows of a table if its version does not have them, because the moment is past."""
        if not self.is_historical:
            return None
        if spec is SNAPSHOT:
            rows = self._stored(spec, f"epoch < {self.snapshot.epoch}")
            return pa.concat_tables([rows, rows_to_arrow(spec, [self.snapshot])])
        if spec.key and (spec is LIVE or self._is_before_holes or self.changed(spec)):
            return self._applied(spec, self._stored(spec, "true"))
        return None

    def delta(self, name: str) -> DeltaTable:
        """Return a table at the snapshot's version, for readers of Delta such as polars' `scan_delta`.

        The table `snapshot` also has the rows of later snapshots, because it is no part of a snapshot. Raises
        SnapshotGoneError for a past moment, which no version has.
        """
        spec = TABLES[name]
        if self.is_historical and spec in PINNED_TABLES:
            raise SnapshotGoneError(f"epoch {self.snapshot.epoch}", self.newest.epoch)
        with reporting_gone_snapshots(self.root, spec, self.snapshot):
            return self._open(spec)

    def _stored(self, spec: TableSpec, condition: str, then: str = "") -> pa.Table:
        with self._registry.naming_storage(), reporting_gone_snapshots(self.root, spec, self.snapshot):
            return select(self._open(spec), spec, condition, then)

    def _open(self, spec: TableSpec) -> DeltaTable:
        self._registry.require_same(self)
        return self.root.open(spec, self.snapshot.versions.get(spec.name))

    def _up_to(self, spec: TableSpec) -> str:
        return f"epoch <= {self.snapshot.epoch}" if spec is SNAPSHOT else rows_until(spec, self.snapshot)

    # The history

    def events(self, condition: str) -> list[BrokerEventRow]:
        """Return the lines up to this moment that meet a SQL condition, which may end with ORDER BY and LIMIT."""
        with self._reporting_damage(BROKER_EVENT):
            found = select(self._events, BROKER_EVENT, f"{self._up_to(BROKER_EVENT)} AND {condition}")
            return rows_from_arrow(BROKER_EVENT, found)

    def ask_events(self, sql: str) -> pa.Table:
        """Return the answer of a SQL statement about the lines up to this moment, which are called `rows` in it."""
        until = f"FROM (SELECT * FROM rows WHERE {self._up_to(BROKER_EVENT)}) AS rows"
        with self._reporting_damage(BROKER_EVENT):
            return query(self._events, sql.replace("FROM rows", until))

    def changes(self, condition: str) -> dict[Place, list[RowChange]]:
        """Return the changes up to this moment that meet a SQL condition: place -> rows, in order of table and key."""
        with self._reporting_damage(ROW_CHANGE):
            sql = f"SELECT * FROM rows WHERE {self._up_to(ROW_CHANGE)} AND {condition}"
            found = query(self._changes, sql)
        changes: dict[Place, list[RowChange]] = {}
        for place, change in row_changes_from_arrow(found):
            changes.setdefault(place, []).append(change)
        return {place: sorted(rows, key=_TABLE_AND_KEY) for place, rows in changes.items()}

    def ask_changes(self, sql: str) -> pa.Table:
        """Return the answer of a SQL statement about the changes up to this moment, called `rows` as in ask_events."""
        until = f"FROM (SELECT * FROM rows WHERE {self._up_to(ROW_CHANGE)}) AS rows"
        with self._reporting_damage(ROW_CHANGE):
            return query(self._changes, sql.replace("FROM rows", until))

    def rejected(self, limit: int) -> list[RejectedRow]:
        """Return the newest `limit` rejected records, newest first."""
        order = f'ORDER BY event_time DESC, "offset" DESC LIMIT {limit}'
        return rows_from_arrow(REJECTED, self._stored(REJECTED, self._up_to(REJECTED), order))

    def rejected_count(self) -> int:
        """Return the number of rejected records."""
        with self._reporting_damage(REJECTED):
            if not self.is_historical:
                return int(self._open(REJECTED).count())  # from the statistics of its files
            count = query(self._open(REJECTED), f"SELECT count(*) FROM rows WHERE {self._up_to(REJECTED)}")
            return int(count[0][0].as_py())

    @cached_property
    def _events(self) -> DeltaTable:
        return self._open(BROKER_EVENT)

    @cached_property
    def _changes(self) -> DeltaTable:
        return self._open(ROW_CHANGE)

    @contextmanager
    def _reporting_damage(self, spec: TableSpec) -> Iterator[None]:
        with self._registry.naming_storage(), reporting_damage(self.root, spec, self.snapshot.versions[spec.name]):
            yield

    # What changed after it

    def changed(self, spec: TableSpec) -> RowsByKey:
        """Return the rows at this moment of the keys that changed after it; of all keys if it is before lost rows."""
        if not self.is_historical:
            return {}
        if spec.name not in self._changed:
            together = (TOPIC,) if spec is TOPIC else _SMALL_TABLES
            chosen = self._of_topic if spec is TOPIC else "true"
            if self._is_before_holes:
                found = self._folded(together, f"{self.as_of.up_to_here} AND {chosen}", "true")
            else:
                at_ms = self.as_of.at_ms
                included = "false" if at_ms is None else f"event_time <= {timestamp_sql(at_ms)}"
                later = "false" if self._first_later is None else f"epoch >= {self._first_later}"
                found = self._folded(together, f"{later} AND {chosen}", included)
            self._changed.update(found)
        return self._changed[spec.name]

    def recorded(self, spec: TableSpec, after_epoch: int = 0) -> RowsByKey:
        """Return the newest row after a change of each key of a table, from `row_change` alone.

        Only changes of higher epochs than `after_epoch` count.
        """
        return self._folded((spec,), f"epoch > {after_epoch}", "true")[spec.name]

    def drift(self, spec: TableSpec) -> list[RowChange]:
        """Return what makes the rows of a table out of those that `row_change` has last: nothing if all is well."""
        unknown = UnknownPast.of_tables(self.snapshot)
        recorded = self.recorded(spec, 0 if unknown is None else unknown.to_epoch)
        with self._reporting_damage(spec):
            rows = rows_from_arrow(spec, select(self._open(spec), spec))
        stored = {tuple(getattr(row, name) for name in spec.key): row for row in rows}
        keys = {*stored, *recorded} if unknown is None else recorded  # of other keys the last change may be lost
        sides = ((key, recorded.get(key), stored.get(key)) for key in sorted(keys))
        return [RowChange(spec.name, *change) for change in sides if not is_same(*change[1:])]

    def _folded(self, specs: Iterable[TableSpec], chosen: str, included: str) -> dict[str, RowsByKey]:
        with self._reporting_damage(ROW_CHANGE):
            found = query(self._changes, folded([*specs], f"epoch <= {self.newest.epoch} AND {chosen}", included))
            return {spec.name: rows_by_key(spec, found) for spec in specs}

    @cached_property
    def _first_later(self) -> int | None:
        """The first epoch that has a change after the moment, or may have one; None if there is none."""
        at_ms = self.as_of.at_ms
        if at_ms is None:
            return (self.as_of.epoch or 0) + 1
        later = f"event_time > {timestamp_sql(at_ms)} AND event_month >= '{month_of(at_ms)}'"
        with self._reporting_damage(ROW_CHANGE):
            sql = f"SELECT min(epoch) AS epoch FROM rows WHERE {later}"
            first: int | None = query(self._changes, sql)["epoch"][0].as_py()
        return first

    def _is_made_forwards(self) -> bool:
        """Return whether the moment is before lost rows, so that it is made from nothing, by the changes up to it.

        A time is before them if no lost row can be up to it, and no row from there on is. Raises PastUnknownError.
        """
        at_ms, epoch = self.as_of.at_ms, self.snapshot.epoch
        unknown = UnknownPast.of_tables(self.newest) if at_ms is None else UnknownPast.of(self.newest)
        if unknown is None or not self.is_historical:
            return False
        is_before = epoch < unknown.from_epoch
        if at_ms is not None:
            is_before = is_before and unknown.from_millis is not None and at_ms < unknown.from_millis
        is_after = epoch >= unknown.to_epoch
        if at_ms is not None and not is_before:
            is_after = at_ms >= unknown.until_millis and (self._first_later or math.inf) > unknown.to_epoch
        if not is_before and not is_after:
            raise unknown.error
        return is_before

    def _applied(self, spec: TableSpec, rows: pa.Table) -> pa.Table:
        """Return the rows of a table at the moment, from those of the newest snapshot, in no particular order.

        Of no lease a sign of life is later than the moment: the newest snapshot has later ones.
        """
        rows = spec.schema.empty_table() if self._is_before_holes else rows
        if changed := self.changed(spec):
            added = rows_to_arrow(spec, [row for row in changed.values() if row is not None])
            rows = pa.concat_tables([without(rows, spec, changed), added])
        if spec is not LIVE:
            return rows
        column = "last_update_timestamp"
        now = pa.array([self.snapshot.event_time], pa.timestamp("ms", "UTC")).cast(rows.schema.field(column).type)
        heard = pc.if_else(pc.greater(rows[column], now[0]), now[0], rows[column])
        return rows.set_column(rows.schema.get_field_index(column), rows.schema.field(column), heard)

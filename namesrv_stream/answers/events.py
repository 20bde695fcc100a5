"""Query the history table `broker_event` without Spark, and replay its lines to the members of the clusters."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple, get_args

import msgspec
import pyarrow as pa
from deltalake import DeltaTable

from namesrv_stream.rules.history import LEASE_ENDS
from namesrv_stream.rules.record_types import MASTER_ID, Command
from namesrv_stream.rules.rows import (
    BrokerEventRow,
    LogPosition,
    RowChange,
    SnapshotRow,
)
from namesrv_stream.tables.arrow import row_changes_from_arrow, rows_from_arrow
from namesrv_stream.tables.as_of import AsOf, month_of, rows_until, timestamp_sql
from namesrv_stream.tables.damage import reporting_damage
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.root import Root, query, quoted, select
from namesrv_stream.tables.schemas import BROKER_EVENT, ROW_CHANGE

Place = tuple[int, int]
"""Epoch and number of a line."""

_TABLE_AND_KEY = attrgetter("table", "key")
_PLACE = f"(epoch * {2**32} + seq)"

COMMANDS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Command))
"""Types of lines that a command on Kafka causes."""

_COMMAND = f"command IS NOT NULL AND type IN ({', '.join(map(quoted, sorted(COMMANDS)))})"
_REPEATED_WITHIN_MS = 1_000
"""mqadmin sends a command to each gateway in namesrvAddr, and each of them sends it to Kafka."""


class Span(NamedTuple):
    """A stretch of history: from an event time in epoch milliseconds to the earliest of the moments in `until`."""

    since_ms: int | None = None
    until: tuple[AsOf, ...] = ()

    @property
    def covers(self) -> str:
        """SQL condition that selects the lines within this stretch."""
        since_ms = self.since_ms or 0
        since = f"event_time >= {timestamp_sql(since_ms)} AND event_month >= '{month_of(since_ms)}'"
        return " AND ".join([since, *(end.up_to_here for end in self.until)])

    def holds(self, line: BrokerEventRow) -> bool:
        """Return whether `covers` selects the line."""
        return line.event_time >= (self.since_ms or 0) and all(end.includes(line) for end in self.until)

    def meets(self, unknown: UnknownPast) -> bool:
        """Return whether a part of a stretch of the history may be within this one."""
        begin_ms = unknown.from_millis or 0
        return (self.since_ms or 0) <= unknown.until_millis and all(
            (end.epoch or 0) >= unknown.from_epoch if end.at_ms is None else end.at_ms >= begin_ms for end in self.until
        )


EVERYTHING = Span()


def newest_events(  # noqa: PLR0913  # what a reader may choose
    root: Root,
    snapshot: SnapshotRow,
    broker: str | None = None,
    span: Span = EVERYTHING,
    limit: int | None = 50,
    *,
    with_versions: bool = True,
    below: tuple[int, int] | None = None,
    with_gaps: bool = False,
) -> list[BrokerEventRow]:
    """Return the newest `limit` events of a span that a snapshot has, in order of the log; all events for None.

    `broker` is a broker name or an address. `below`: only events before this place, an epoch and a number in it.
    Without `with_versions` the events that changed nothing but a data version are left out. `with_gaps` adds the times
    without a tick (E11) to the events of a broker. In a year of history delta-rs reads only the newest files: once it
    has `limit` events, it skips files whose statistics show that all their epochs are older.
    """
    chosen = event_condition(broker, span, with_versions=with_versions, below=below, with_gaps=with_gaps)
    return newest_of(root, snapshot, chosen, limit)


def event_condition(
    broker: str | None = None,
    span: Span = EVERYTHING,
    *,
    with_versions: bool = True,
    below: tuple[int, int] | None = None,
    with_gaps: bool = False,
) -> str:
    """Return the SQL condition of events; the arguments are those of `newest_events`."""
    concerned = "true" if broker is None else f"{quoted(broker)} IN (broker_name, broker_addr)"
    concerned += " OR type = 'LOG_GAP'" if with_gaps else ""
    shown = "true" if with_versions else "is_version_only IS NOT TRUE"
    earlier = "true" if below is None else "(epoch < {0} OR (epoch = {0} AND seq < {1}))".format(*below)
    return f"({concerned}) AND {shown} AND {earlier} AND {span.covers}"


def newest_of(root: Root, snapshot: SnapshotRow, condition: str, limit: int | None) -> list[BrokerEventRow]:
    """Return the newest `limit` events that meet a SQL condition, in order of the log; all for None.

    They are without `changes`, of which one line may have thousands: see `with_changes`. Repetitions of commands are
    left out.
    """
    found: list[BrokerEventRow] = []
    earlier = "true"
    while True:
        missing = None if limit is None else limit - len(found)
        newest = "" if missing is None else f" LIMIT {missing}"
        lines = _lines(root, snapshot, f"{condition} AND {earlier} ORDER BY epoch DESC, seq DESC{newest}")
        found += _without_repetitions(root, snapshot, lines)
        if missing is None or len(lines) < missing or len(found) == limit:
            return found[::-1]
        earlier = f"{_PLACE} < {lines[-1].epoch * 2**32 + lines[-1].seq}"


def events_of_record(root: Root, snapshot: SnapshotRow, at: LogPosition, after_epoch: int) -> list[BrokerEventRow]:
    """Return the events of later epochs that a record caused, in order of the log, also those of a repeated command."""
    of_record = f"epoch > {after_epoch} AND partition = {at.partition} AND offset = {at.offset}"
    return _lines(root, snapshot, f"{of_record} ORDER BY epoch, seq")


def count_of(root: Root, snapshot: SnapshotRow, condition: str) -> int:
    """Return the number of events that meet a SQL condition, without repetitions of commands."""
    every = _first(root, snapshot, f"SELECT count(*) FROM rows WHERE {condition}") or 0
    commands = _lines(root, snapshot, f"{_COMMAND} AND {condition}")
    return every - len(commands) + len(_without_repetitions(root, snapshot, commands))


def _without_repetitions(root: Root, snapshot: SnapshotRow, lines: list[BrokerEventRow]) -> list[BrokerEventRow]:
    """Return the lines without those of a command that the same user sent from the same host a second before."""
    at_ms = [line.event_time for line in lines if line.type in COMMANDS]
    if not at_ms:
        return lines
    around = Span(min(at_ms) - _REPEATED_WITHIN_MS, (AsOf(at_ms=max(at_ms)),))
    repeated = _repetitions(
        root, snapshot, _lines(root, snapshot, f"{_COMMAND} AND {around.covers} ORDER BY epoch, seq")
    )
    return [line for line in lines if (line.epoch, line.seq) not in repeated]


def _repetitions(root: Root, snapshot: SnapshotRow, commands: Iterable[BrokerEventRow]) -> dict[Place, BrokerEventRow]:
    """Return the repetitions among commands in order of the log. One that changed a row anew is none."""
    last_ms: dict[tuple[str, str, str], int] = {}
    found = {}
    for line in commands:
        if line.requested_by is None or line.command is None:
            continue
        host = re.sub(r":[0-9]+$", "", line.requested_by)
        asked = line.type, host, line.command.replace(line.requested_by, "")
        if line.event_time - last_ms.get(asked, -math.inf) <= _REPEATED_WITHIN_MS:
            found[line.epoch, line.seq] = line
        else:
            last_ms[asked] = line.event_time
    changed = _changes(root, snapshot, _is_at(found)) if found else {}
    return {place: line for place, line in found.items() if place not in changed}


def topic_events(root: Root, snapshot: SnapshotRow, topic: str, span: Span = EVERYTHING) -> list[BrokerEventRow]:
    """Return the events that changed a topic, and the commands about it that changed nothing, in order of the log.

    Of their `changes` they have those of the topic alone.
    """
    changed = _changes(root, snapshot, f"topic = {quoted(topic)} AND {span.covers}")
    subject = f'"topic":{msgspec.json.encode(topic).decode()}'
    named = f"strpos(command, {quoted(subject)}) > 0"
    lines = _lines(root, snapshot, f"({_is_at(changed)} OR {named}) AND {span.covers} ORDER BY epoch, seq")
    lines = _without_repetitions(root, snapshot, lines)
    return [line._replace(changes=tuple(changed.get((line.epoch, line.seq), ()))) for line in lines]


def master_events(root: Root, snapshot: SnapshotRow, names: Iterable[str], span: Span) -> list[BrokerEventRow]:
    """Return the events by which one of the broker names lost, got or changed its master, in order of the log."""
    if not (of_names := ", ".join(map(quoted, sorted(names)))):
        return []
    of_masters = f"table_name = 'broker' AND broker_id = {MASTER_ID} AND broker_name IN ({of_names})"
    came_or_went = "(broker_before['broker_addr'] IS DISTINCT FROM broker_after['broker_addr'])"
    changed = _changes(root, snapshot, f"{of_masters} AND {came_or_went} AND {span.covers}")
    return _lines(root, snapshot, f"{_is_at(changed)} AND {span.covers} ORDER BY epoch, seq")


def recorded_names(root: Root, snapshot: SnapshotRow) -> set[str]:
    """Return all broker names and addresses in the history, up to a snapshot."""
    columns = "SELECT broker_name FROM rows UNION SELECT broker_addr FROM rows"
    return {name for name in _answer(root, snapshot, columns).column(0).to_pylist() if name is not None}


def addresses_that_left(root: Root, snapshot: SnapshotRow, after_epoch: int) -> set[str] | None:
    """Return the addresses that lost a lease or an id in later epochs than `after_epoch`, up to a snapshot.

    Return None if a person then made, restored or repaired the registry: whoever left did so by that command.
    """
    ends = f"(type IN {LEASE_ENDS} AND lease_millis IS NOT NULL) OR type = 'ID_LOST'"
    by_person = "type IN ('IMPORT', 'RESTORE', 'REPAIR') AND requested_by IS NOT NULL"
    asked = f"SELECT type, broker_addr FROM rows WHERE epoch > {after_epoch} AND ({ends} OR ({by_person}))"
    found = _answer(root, snapshot, asked)
    if not {"IMPORT", "RESTORE", "REPAIR"}.isdisjoint(found.column("type").to_pylist()):
        return None
    return set(found.column("broker_addr").to_pylist())


def changes_between(root: Root, snapshot: SnapshotRow, after: AsOf, until: AsOf) -> list[RowChange]:
    """Return the changes after one moment, up to another one and up to a snapshot, in order of the log."""
    found = _changes(root, snapshot, f"NOT ({after.up_to_here}) AND {until.up_to_here}")
    return [each for _, changes in sorted(found.items()) for each in changes]


def with_changes(
    root: Root, snapshot: SnapshotRow, lines: Sequence[BrokerEventRow], tables: str = "true"
) -> list[BrokerEventRow]:
    """Return lines of the history with the rows that they changed, in tables that meet an SQL condition."""
    if not lines:
        return []
    at_ms = [line.event_time for line in lines]
    span = Span(min(at_ms), (AsOf(at_ms=max(at_ms)),))
    changes = _changes(
        root, snapshot, f"{_is_at((line.epoch, line.seq) for line in lines)} AND {tables} AND {span.covers}"
    )
    return [line._replace(changes=tuple(changes.get((line.epoch, line.seq), ()))) for line in lines]


def _is_at(places: Iterable[Place]) -> str:
    """Return the SQL condition of rows at some places."""
    found = sorted(places)
    if not found:
        return "false"
    within = f"epoch BETWEEN {found[0][0]} AND {found[-1][0]}"
    return f"({within} AND {_PLACE} IN ({', '.join(str(epoch * 2**32 + seq) for epoch, seq in found)}))"


def _changes(root: Root, snapshot: SnapshotRow, condition: str) -> dict[Place, list[RowChange]]:
    """Return place -> changed rows, in order of table and key."""
    version = snapshot.versions[ROW_CHANGE.name]
    until = rows_until(ROW_CHANGE, snapshot)
    with reporting_damage(root, ROW_CHANGE, version):
        found = query(root.open(ROW_CHANGE, version), f"SELECT * FROM rows WHERE {until} AND {condition}")
    changes: dict[Place, list[RowChange]] = {}
    for place, change in row_changes_from_arrow(found):
        changes.setdefault(place, []).append(change)
    return {place: sorted(rows, key=_TABLE_AND_KEY) for place, rows in changes.items()}


def newest_of_each(root: Root, snapshot: SnapshotRow, keys: str, condition: str) -> list[BrokerEventRow]:
    """Return the newest of the lines that meet a SQL condition for each value of `keys`, names of columns."""
    until = rows_until(BROKER_EVENT, snapshot)
    newest = f"SELECT max({_PLACE}) FROM rows WHERE {until} AND {condition} GROUP BY {keys}"
    return _lines(root, snapshot, f"{condition} AND {_PLACE} IN ({newest})")


class EpochEvents(NamedTuple):
    """The numbers of one epoch's events by type; `event_time` is that of the last one. `alive`: brokers after it."""

    epoch: int
    event_time: int
    counts: Counter[str]
    alive: int


def events_by_epoch(root: Root, snapshot: SnapshotRow, since_ms: int, alive: int) -> list[EpochEvents]:
    """Return every epoch with events from a time on, the highest first, down from a snapshot with `alive` brokers.

    If events were lost, epochs before that are left out.

    The end of a lease that held no id counts as of the type "", and a REGISTERED that replaced another address as
    REPLACED: neither is a broker that left or came.
    """
    kind = f"""CASE WHEN type IN {LEASE_ENDS} AND held_id IS NOT TRUE THEN NULL
        WHEN type = 'REGISTERED' AND replaced > 0 THEN 'REPLACED' ELSE type END"""
    known = f"epoch > {max((each.to_epoch for each in snapshot.holes), default=0)}"
    broker = "epoch, partition, offset, cluster_name, broker_name, broker_id"
    replaced = f"count(*) FILTER (WHERE type = 'ID_LOST') OVER (PARTITION BY {broker}) AS replaced"
    within = f"SELECT epoch, type, event_time, held_id, {replaced} FROM rows WHERE {known} AND {Span(since_ms).covers}"
    counted = f"SELECT epoch, {kind} AS kind, max(event_time) AS at, count(*) AS n FROM ({within}) AS counted"
    rows = _answer(root, snapshot, f"{counted} GROUP BY epoch, kind ORDER BY epoch DESC")
    at_ms = rows.column("at").cast("timestamp[ms]").cast("int64").to_pylist()
    kinds = zip(*(rows.column(name).to_pylist() for name in ("epoch", "kind", "n")), at_ms, strict=True)
    has_commands = not COMMANDS.isdisjoint(rows.column("kind").to_pylist())
    of_commands = f"{_COMMAND} AND {Span(since_ms).covers} ORDER BY epoch, seq"
    commands = _lines(root, snapshot, of_commands) if has_commands else ()
    repeated = Counter((line.epoch, line.type) for line in _repetitions(root, snapshot, commands).values())
    found = []
    for epoch, of_epoch in groupby(kinds, itemgetter(0)):
        lines = list(of_epoch)
        counts = +Counter({kind or "": count - repeated[epoch, kind] for _, kind, count, _ in lines})
        if not counts:
            continue
        found.append(EpochEvents(epoch, max(at for *_, at in lines), counts, alive))
        alive -= came(counts)
    return found


def came(counts: Counter[str]) -> int:
    """Return by how many brokers more than before are up after events of these types."""
    begins = counts["REGISTERED"] + counts["REPLACED"] + counts["ID_TAKEN"]
    return begins - counts["ID_LOST"] - sum(counts[kind] for kind in LEASE_ENDS)


def _lines(root: Root, snapshot: SnapshotRow, condition: str) -> list[BrokerEventRow]:
    until = rows_until(BROKER_EVENT, snapshot)
    with _open(root, snapshot) as table:
        return rows_from_arrow(BROKER_EVENT, select(table, BROKER_EVENT, f"{until} AND {condition}"))


def _first(root: Root, snapshot: SnapshotRow, sql: str) -> int | None:
    """Return the one value of a query, None if it is NULL."""
    value: int | None = _answer(root, snapshot, sql).column(0)[0].as_py()
    return value


def _answer(root: Root, snapshot: SnapshotRow, sql: str) -> pa.Table:
    until = f"FROM (SELECT * FROM rows WHERE {rows_until(BROKER_EVENT, snapshot)}) AS rows"
    with _open(root, snapshot) as table:
        return query(table, sql.replace("FROM rows", until))


@contextmanager
def _open(root: Root, snapshot: SnapshotRow) -> Iterator[DeltaTable]:
    version = snapshot.versions[BROKER_EVENT.name]
    with reporting_damage(root, BROKER_EVENT, version):
        yield root.open(BROKER_EVENT, version)

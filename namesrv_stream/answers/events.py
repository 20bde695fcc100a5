"""Query the history of a registry at a moment: lines of `broker_event`, and the rows that they changed."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, get_args

import msgspec

from namesrv_stream.rules.history import LEASE_ENDS
from namesrv_stream.rules.record_types import MASTER_ID, Command
from namesrv_stream.rules.rows import BrokerEventRow, LogPosition, RowChange
from namesrv_stream.tables.as_of import AsOf, month_of, rows_until, timestamp_sql
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.moment import Place, RegistryAt
from namesrv_stream.tables.root import quoted
from namesrv_stream.tables.schemas import BROKER_EVENT

_PLACE = f"(epoch * {2**32} + seq)"
_MAX_PLACES = 5_000
"""Most places that one condition lists. Lists of some 40,000 numbers overflow the stack of DataFusion's parser."""

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


def event_condition(
    broker: str | None = None,
    span: Span = EVERYTHING,
    *,
    with_versions: bool = True,
    below: tuple[int, int] | None = None,
    with_gaps: bool = False,
) -> str:
    """Return the SQL condition of events of a span.

    `broker` is a broker name or an address. `below`: only events before this place, an epoch and a number in it.
    Without `with_versions` the events that changed nothing but a data version are left out. `with_gaps` adds the times
    without a tick (E11) to the events of a broker.
    """
    concerned = "true" if broker is None else f"{quoted(broker)} IN (broker_name, broker_addr)"
    concerned += " OR type = 'LOG_GAP'" if with_gaps else ""
    shown = "true" if with_versions else "is_version_only IS NOT TRUE"
    earlier = "true" if below is None else "(epoch < {0} OR (epoch = {0} AND seq < {1}))".format(*below)
    return f"({concerned}) AND {shown} AND {earlier} AND {span.covers}"


def newest_of(registry: RegistryAt, condition: str, limit: int | None) -> list[BrokerEventRow]:
    """Return the newest `limit` events that meet a SQL condition, in order of the log; all for None.

    They are without `changes`, of which one line may have thousands: see `with_changes`. Repetitions of commands are
    left out. In a year of history delta-rs reads only the newest files: once it has `limit` events, it skips files
    whose statistics show that all their epochs are older.
    """
    found: list[BrokerEventRow] = []
    earlier = "true"
    while True:
        missing = None if limit is None else limit - len(found)
        newest = "" if missing is None else f" LIMIT {missing}"
        lines = registry.events(f"{condition} AND {earlier} ORDER BY epoch DESC, seq DESC{newest}")
        found += _without_repetitions(registry, lines)
        if missing is None or len(lines) < missing or len(found) == limit:
            return found[::-1]
        earlier = f"{_PLACE} < {lines[-1].epoch * 2**32 + lines[-1].seq}"


def events_of_record(registry: RegistryAt, at: LogPosition, after_epoch: int) -> list[BrokerEventRow]:
    """Return the events of later epochs that a record caused, in order of the log, also those of a repeated command."""
    of_record = f"epoch > {after_epoch} AND partition = {at.partition} AND offset = {at.offset}"
    return registry.events(f"{of_record} ORDER BY epoch, seq")


def count_of(registry: RegistryAt, condition: str) -> int:
    """Return the number of events that meet a SQL condition, without repetitions of commands."""
    every: int = registry.ask_events(f"SELECT count(*) FROM rows WHERE {condition}").column(0)[0].as_py()
    commands = registry.events(f"{_COMMAND} AND {condition}")
    return every - len(commands) + len(_without_repetitions(registry, commands))


def _without_repetitions(registry: RegistryAt, lines: list[BrokerEventRow]) -> list[BrokerEventRow]:
    """Return the lines without those of a command that the same user sent from the same host a second before."""
    at_ms = [line.event_time for line in lines if line.type in COMMANDS]
    if not at_ms:
        return lines
    around = Span(min(at_ms) - _REPEATED_WITHIN_MS, (AsOf(at_ms=max(at_ms)),))
    repeated = _repetitions(registry, registry.events(f"{_COMMAND} AND {around.covers} ORDER BY epoch, seq"))
    return [line for line in lines if (line.epoch, line.seq) not in repeated]


def _repetitions(registry: RegistryAt, commands: Iterable[BrokerEventRow]) -> dict[Place, BrokerEventRow]:
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
    changed = {place for condition in _at(found) for place in registry.changes(condition)}
    return {place: line for place, line in found.items() if place not in changed}


def topic_events(registry: RegistryAt, topic: str, span: Span = EVERYTHING) -> list[BrokerEventRow]:
    """Return the events that changed a topic, and the commands about it that changed nothing, in order of the log.

    Of their `changes` they have those of the topic alone.
    """
    changed = registry.changes(f"topic = {quoted(topic)} AND {span.covers}")
    subject = f'"topic":{msgspec.json.encode(topic).decode()}'
    named = f"strpos(command, {quoted(subject)}) > 0"
    found = [*_events_at(registry, changed, span), *registry.events(f"{named} AND {span.covers}")]
    once = {(line.epoch, line.seq): line for line in found}
    lines = _without_repetitions(registry, [line for _, line in sorted(once.items())])
    return [line._replace(changes=tuple(changed.get((line.epoch, line.seq), ()))) for line in lines]


def has_topic(registry: RegistryAt, topic: str) -> bool:
    """Return whether the tables or the history have a topic."""
    return topic in registry.of_topic(topic).queues or bool(topic_events(registry, topic))


def master_events(registry: RegistryAt, names: Iterable[str], span: Span) -> list[BrokerEventRow]:
    """Return the events by which one of the broker names lost, got or changed its master, in order of the log."""
    if not (of_names := ", ".join(map(quoted, sorted(names)))):
        return []
    of_masters = f"table_name = 'broker' AND broker_id = {MASTER_ID} AND broker_name IN ({of_names})"
    came_or_went = "(broker_before['broker_addr'] IS DISTINCT FROM broker_after['broker_addr'])"
    changed = registry.changes(f"{of_masters} AND {came_or_went} AND {span.covers}")
    return _events_at(registry, changed, span)


def is_recorded(registry: RegistryAt, name: str) -> bool:
    """Return whether the history has a broker name or an address, up to the moment."""
    wanted = quoted(name)
    return bool(registry.events(f"({wanted} IN (broker_name, broker_addr)) LIMIT 1"))


def recorded_names(registry: RegistryAt) -> set[str]:
    """Return all broker names and addresses in the history, up to a snapshot."""
    columns = "SELECT broker_name FROM rows UNION SELECT broker_addr FROM rows"
    return {name for name in registry.ask_events(columns).column(0).to_pylist() if name is not None}


def addresses_that_left(registry: RegistryAt, after_epoch: int) -> set[str] | None:
    """Return the addresses that lost a lease or an id in later epochs than `after_epoch`, up to a snapshot.

    Return None if a person then made, restored or repaired the registry: whoever left did so by that command.
    """
    ends = f"(type IN {LEASE_ENDS} AND lease_millis IS NOT NULL) OR type = 'ID_LOST'"
    by_person = "type IN ('IMPORT', 'RESTORE', 'REPAIR') AND requested_by IS NOT NULL"
    asked = f"SELECT type, broker_addr FROM rows WHERE epoch > {after_epoch} AND ({ends} OR ({by_person}))"
    found = registry.ask_events(asked)
    if not {"IMPORT", "RESTORE", "REPAIR"}.isdisjoint(found.column("type").to_pylist()):
        return None
    return set(found.column("broker_addr").to_pylist())


def changes_between(before: RegistryAt, after: RegistryAt) -> list[RowChange]:
    """Return the changes after one moment and up to another one, in order of the log."""
    found = after.changes(f"NOT ({before.as_of.up_to_here})")
    return [each for _, changes in sorted(found.items()) for each in changes]


def with_changes(registry: RegistryAt, lines: Sequence[BrokerEventRow], tables: str = "true") -> list[BrokerEventRow]:
    """Return lines of the history with the rows that they changed, in tables that meet an SQL condition."""
    if not lines:
        return []
    at_ms = [line.event_time for line in lines]
    span = Span(min(at_ms), (AsOf(at_ms=max(at_ms)),))
    changes: dict[Place, list[RowChange]] = {}
    for condition in _at((line.epoch, line.seq) for line in lines):
        changes |= registry.changes(f"{condition} AND {tables} AND {span.covers}")
    return [line._replace(changes=tuple(changes.get((line.epoch, line.seq), ()))) for line in lines]


def _at(places: Iterable[Place]) -> Iterator[str]:
    """Yield SQL conditions of rows at some places, each of so many places as SQL can take."""
    found = sorted(places)
    for first in range(0, len(found), _MAX_PLACES):
        part = found[first : first + _MAX_PLACES]
        within = f"epoch BETWEEN {part[0][0]} AND {part[-1][0]}"
        yield f"({within} AND {_PLACE} IN ({', '.join(str(epoch * 2**32 + seq) for epoch, seq in part)}))"


def _events_at(registry: RegistryAt, places: Iterable[Place], span: Span = EVERYTHING) -> list[BrokerEventRow]:
    """Return the events at some places that are in a span, in order of the log."""
    return [
        each
        for condition in _at(places)
        for each in registry.events(f"{condition} AND {span.covers} ORDER BY epoch, seq")
    ]


def newest_of_each(registry: RegistryAt, keys: str, condition: str) -> list[BrokerEventRow]:
    """Return the newest of the lines that meet a SQL condition for each value of `keys`, names of columns."""
    until = rows_until(BROKER_EVENT, registry.snapshot)
    newest = f"SELECT max({_PLACE}) FROM rows WHERE {until} AND {condition} GROUP BY {keys}"
    return registry.events(f"{condition} AND {_PLACE} IN ({newest})")


class EpochEvents(NamedTuple):
    """The numbers of one epoch's events by type; `event_time` is that of the last one. `alive`: brokers after it."""

    epoch: int
    event_time: int
    counts: Counter[str]
    alive: int


def events_by_epoch(registry: RegistryAt, since_ms: int, alive: int) -> list[EpochEvents]:
    """Return every epoch with events from a time on, the highest first, down from a snapshot with `alive` brokers.

    If events were lost, epochs before that are left out.

    The end of a lease that held no id counts as of the type "", and a REGISTERED that replaced another address as
    REPLACED: neither is a broker that left or came.
    """
    kind = f"""CASE WHEN type IN {LEASE_ENDS} AND held_id IS NOT TRUE THEN NULL
        WHEN type = 'REGISTERED' AND replaced > 0 THEN 'REPLACED' ELSE type END"""
    known = f"epoch > {max((each.to_epoch for each in registry.snapshot.holes), default=0)}"
    broker = "epoch, partition, offset, cluster_name, broker_name, broker_id"
    replaced = f"count(*) FILTER (WHERE type = 'ID_LOST') OVER (PARTITION BY {broker}) AS replaced"
    within = f"SELECT epoch, type, event_time, held_id, {replaced} FROM rows WHERE {known} AND {Span(since_ms).covers}"
    counted = f"SELECT epoch, {kind} AS kind, max(event_time) AS at, count(*) AS n FROM ({within}) AS counted"
    rows = registry.ask_events(f"{counted} GROUP BY epoch, kind ORDER BY epoch DESC")
    at_ms = rows.column("at").cast("timestamp[ms]").cast("int64").to_pylist()
    kinds = zip(*(rows.column(name).to_pylist() for name in ("epoch", "kind", "n")), at_ms, strict=True)
    has_commands = not COMMANDS.isdisjoint(rows.column("kind").to_pylist())
    of_commands = f"{_COMMAND} AND {Span(since_ms).covers} ORDER BY epoch, seq"
    commands = registry.events(of_commands) if has_commands else ()
    repeated = Counter((line.epoch, line.type) for line in _repetitions(registry, commands).values())
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

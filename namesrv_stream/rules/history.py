"""Make the lines of history for one applied event from the rows that it changed, so that each change is explained.

An applied event is one record or one end of a lease. Each address whose lease or filter servers changed gets a line. So
does each id that an address lost to another, and each broker name whose topics changed. An operator's command makes at
least one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from namesrv_stream.rules.record_types import DataVersion, DeleteTopic, RegisterBroker, RetireBroker
from namesrv_stream.rules.registry_tables import net_of
from namesrv_stream.rules.rows import (
    QUIET_COLUMNS,
    UNRECORDED_COLUMNS,
    BrokerEventRow,
    BrokerRow,
    Key,
    LiveRow,
    LogPosition,
    RowChange,
)

LEASE_ENDS = ("UNREGISTERED", "CHANNEL_CLOSED", "EXPIRED", "MOVED", "REFUSED")
"""Types of lines that record the end of a lease. A REFUSED without `lease_millis` ended no lease."""

PLANNED = ("UNREGISTERED", "MOVED", "ID_LOST")
"""Ends of sessions after which the broker is not expected until it is back."""

UNPLANNED = tuple(kind for kind in LEASE_ENDS if kind not in PLANNED)
"""Ends of sessions after which the broker is down."""

_LOSSES = ("ID_LOST", *LEASE_ENDS)

_TOPIC_TABLES = ("topic", "topic_mapping")

_LEFT_OUT_IF_NONE = frozenset({"suspect_since", "broker_version"})
"""Columns of `live` that not all rows have."""

Rows = dict[str, list[dict[str, Any]]]
"""Table -> rows as JSON objects."""


@dataclass(frozen=True, slots=True)
class AppliedEvent:
    """The record or the end of a lease that was applied, at an event time.

    `record`: its place in the log; None for an expiry, which no record causes. `end_type`: one of LEASE_ENDS.
    `command`: an operator's command; it gets one line for each broker name that it touched, and at least one.
    `request`: the registration, if the record is one; a refused one gets a line although it changes nothing (D7).
    """

    cause: str
    event_time: int
    record: LogPosition | None = None
    end_type: str | None = None
    broker_addr: str | None = None
    requested_by: str | None = None
    command: object | None = None
    request: RegisterBroker | None = None


def history_of(applied: AppliedEvent, changes: Sequence[RowChange]) -> list[BrokerEventRow]:
    """Return the lines of one applied event in a readable order; epoch and seq are 0 until publication.

    Each changed row is among the `changes` of exactly one of them.
    """
    changes = _in_order(change for change in net_of(changes) if not _is_of_tokens_alone(change))
    lines = _lines_of(applied, changes)
    owners: dict[tuple[str, Key], int] = {}
    for number, line in enumerate(lines):
        for change in line.changes:
            if change.after is not None:  # an id that passes on belongs to the line of its next holder
                owners[change.table, change.key] = number
            else:
                owners.setdefault((change.table, change.key), number)
    of_line: list[list[RowChange]] = [[] for _ in lines]
    for change in changes:
        of_line[owners.get((change.table, change.key), -1)].append(change)
    return [line._replace(changes=tuple(mine)) for line, mine in zip(lines, of_line, strict=True)]


def _lines_of(applied: AppliedEvent, changes: list[RowChange]) -> list[BrokerEventRow]:
    """Return the lines with all rows that each of them shows."""
    if applied.command is not None:
        return _command_lines(applied, changes)
    topics = _by_broker_name([change for change in changes if change.table in _TOPIC_TABLES])
    others = [change for change in changes if change.table not in _TOPIC_TABLES]
    lines: list[BrokerEventRow] = []
    for address in _addresses(others):
        mine = _of_address(others, address)
        name = _name_of_new_version(mine)
        if name in topics:
            topics[name] = [*mine, *topics[name]]
        else:
            lines += _address_lines(applied, address, mine, others)
    lines.sort(key=lambda line: line.type not in _LOSSES)  # an id is lost before the next holder has it
    lines += [_topics_line(applied, name, of_name, changes) for name, of_name in topics.items()]
    if not lines and applied.end_type == "REFUSED" and applied.request is not None:
        return [_line(applied, "REFUSED", about=applied.request)]
    return lines


def log_gap_line(at: LogPosition, gap_ms: int) -> BrokerEventRow:
    """Return the line of a tick that came long after the tick before it (E11)."""
    return _line(AppliedEvent("SCAN", at.event_time, at), "LOG_GAP")._replace(gap_millis=gap_ms)


def _in_order(changes: Iterable[RowChange]) -> list[RowChange]:
    """Return the changes with topics last and in order of key.

    Rules read topics in memory order, which a restart changes.
    """
    return sorted(changes, key=lambda each: (each.table, each.key) if each.table in _TOPIC_TABLES else ("", ()))


def _is_of_tokens_alone(change: RowChange) -> bool:
    before, after = change.before, change.after
    return isinstance(before, LiveRow) and isinstance(after, LiveRow) and before == after._replace(tokens=before.tokens)


def _addresses(changes: Iterable[RowChange]) -> list[str]:
    """Return every address whose lease, id or filter servers changed, in order of appearance.

    An address that lost its id is among them.
    """
    found: dict[str, None] = {}
    for change in changes:
        for row in (change.before, change.after):
            address = getattr(row, "broker_addr", None)
            if address is not None:
                found[address] = None
    return list(found)


def _of_address(changes: Iterable[RowChange], address: str) -> list[RowChange]:
    """Return the changes as far as they concern an address."""
    sides = (_side_of(change, address) for change in changes)
    return [side for side in sides if side.before is not None or side.after is not None]


def _name_of_new_version(mine: Sequence[RowChange]) -> str | None:
    """Return the broker name of an address of which only the data version changed; None if more did, or nothing."""
    lease = mine[0].after if len(mine) == 1 and _is_quiet(mine[0]) else None
    return lease.broker_name if isinstance(lease, LiveRow) else None


def _address_lines(
    applied: AppliedEvent, address: str, mine: list[RowChange], changes: Sequence[RowChange]
) -> Iterator[BrokerEventRow]:
    """Yield a line for each id that a continuing lease has lost, then one line for all other changes of the address."""
    lease = next((change for change in reversed(mine) if change.table == "live"), None)
    if _goes_on(lease):
        lost = [change for change in mine if change.table == "broker" and change.after is None]
        mine = [change for change in mine if change not in lost]
        yield from (_address_line(applied, "ID_LOST", address, [each], None) for each in lost)  # R5, R8
    if mine:
        has_gained = any(change.table == "broker" and change.before is None for change in mine)
        shown = _shown(mine, changes, with_clusters=address == applied.broker_addr or len(_addresses(changes)) == 1)
        yield _address_line(applied, _type_of(applied, lease, has_gained), address, shown, lease)


def _shown(mine: Sequence[RowChange], changes: Sequence[RowChange], *, with_clusters: bool) -> list[RowChange]:
    """Return the changes that an address's line shows.

    They are the changes of the address's own rows, of an id that it took from another address, and of its clusters.
    """
    gained = [change.key for change in mine if change.table == "broker" and change.before is None]
    taken = [change for change in changes if change.table == "broker" and change.key in gained]
    own = [change for change in mine if change.key not in gained or change.table != "broker"]
    names = {getattr(row, "broker_name", None) for change in mine for row in (change.before, change.after)}
    clusters = [change for change in changes if change.table == "cluster" and change.key[1] in names]
    return [*taken, *own, *(clusters if with_clusters else ())]


def _address_line(
    applied: AppliedEvent, type_: str, address: str, changes: Sequence[RowChange], lease: RowChange | None
) -> BrokerEventRow:
    about: Any = (lease.after or lease.before) if lease else _newest_row(changes, BrokerRow)
    holders = [(each.before, each.after) for each in changes if each.table == "broker"]
    held = [row for row, _ in holders if getattr(row, "broker_addr", None) == address]
    holds = [row for _, row in holders if getattr(row, "broker_addr", None) == address]
    line = _line(applied, type_, changes, about)._replace(broker_addr=address)
    if row := next(iter(held if type_ in _LOSSES else holds), None):
        line = line._replace(zone_name=getattr(row, "zone_name", None))
    if type_ in _LOSSES:
        line = line._replace(held_id=bool(held))
    if type_ == "CHANGED":
        line = line._replace(is_version_only=all(map(_is_quiet, changes)))
    if lease is None or lease.after is not None:
        return line
    lasted_ms = max(0, applied.event_time - about.lease_began_at)
    return line._replace(last_heard_at=about.last_update_timestamp, lease_millis=lasted_ms)


def _side_of(change: RowChange, address: str) -> RowChange:
    """Return the part of a change that concerns an address.

    An id that passes from one address to another is a loss for the one and a gain for the other.
    """
    before, after = (
        row if getattr(row, "broker_addr", None) == address else None for row in (change.before, change.after)
    )
    return RowChange(change.table, change.key, before, after)


def _goes_on(lease: RowChange | None) -> bool:
    """Return whether the lease neither begins nor ends with the event. None: the event does not change it."""
    return lease is None or (lease.before is not None and lease.after is not None)


def _is_quiet(change: RowChange) -> bool:
    """Return whether a row is another one after the change, but not for a lookup."""
    quiet = QUIET_COLUMNS.get(change.table)
    if quiet is None or change.before is None or change.after is None:
        return False
    fields: Sequence[str] = change.after._fields  # type: ignore[attr-defined]  # a row of rules/rows.py
    return all(was == is_ or name in quiet for name, was, is_ in zip(fields, change.before, change.after, strict=True))


def _type_of(applied: AppliedEvent, lease: RowChange | None, has_gained_id: bool) -> str:
    if _goes_on(lease):
        return "ID_TAKEN" if has_gained_id else "CHANGED"
    return "REGISTERED" if lease is not None and lease.before is None else applied.end_type or "UNREGISTERED"


def _newest_row(changes: Iterable[RowChange], row_class: type) -> object | None:
    rows = [change.after or change.before for change in changes]
    return next((row for row in reversed(rows) if isinstance(row, row_class)), None)


def _topics_line(
    applied: AppliedEvent, broker_name: str, changes: Sequence[RowChange], all_changes: Sequence[RowChange]
) -> BrokerEventRow:
    lease: Any = _newest_row([each for each in all_changes if each.table == "live"], LiveRow)
    about = next((each for each in (lease, applied.request) if each and each.broker_name == broker_name), None)
    line = _line(applied, "TOPICS_CHANGED", changes, about)
    return line._replace(broker_name=broker_name, broker_addr=applied.broker_addr)


def _command_lines(applied: AppliedEvent, changes: Sequence[RowChange]) -> list[BrokerEventRow]:
    """Return one line for each broker name whose topics the command changed, else one line for the command.

    The first one has the command, by which readers recognise a repetition.
    """
    of_names = _by_broker_name([change for change in changes if change.table in _TOPIC_TABLES])
    rest = [change for change in changes if change.table not in _TOPIC_TABLES]
    subject = msgspec.json.encode(applied.command).decode()
    lines = [_line(applied, applied.cause, of_name)._replace(broker_name=name) for name, of_name in of_names.items()]
    if lines:
        return [lines[0]._replace(command=subject), *lines[1:]]
    line = _line(applied, applied.cause, rest)
    name = getattr(applied.command, "broker_name", None)
    line = line._replace(broker_name=name, command=subject)
    if isinstance(applied.command, RetireBroker):
        cluster, number, holder = applied.command.cluster_name, applied.command.broker_id, applied.broker_addr
        line = line._replace(cluster_name=cluster, broker_id=number, broker_addr=holder, held_id=holder is not None)
    return [line]


def _by_broker_name(changes: Iterable[RowChange]) -> dict[str, list[RowChange]]:
    groups: dict[str, list[RowChange]] = {}
    for change in changes:
        groups.setdefault(str(change.key[1]), []).append(change)
    return groups


def rows_before_and_after(line: BrokerEventRow) -> tuple[Rows, Rows]:
    """Return the rows that a line changed, table -> rows, as they were and as they became."""
    sides: tuple[Rows, Rows] = ({}, {})
    for each in line.changes:
        for side, row in zip(sides, (each.before, each.after), strict=True):
            if row is not None:
                side.setdefault(each.table, []).append(as_json_row(row))
    return sides


def as_json_row(row: Any) -> dict[str, object]:
    """Return a row as JSON has it, with the columns that `row_change` has."""
    fields = {column: _plain(value) for column, value in row._asdict().items() if column not in UNRECORDED_COLUMNS}
    return {column: value for column, value in fields.items() if value is not None or column not in _LEFT_OUT_IF_NONE}


def _plain(value: object) -> object:
    if isinstance(value, DataVersion):
        return msgspec.structs.asdict(value)
    if isinstance(value, LogPosition):
        return value._asdict()
    return list(value) if isinstance(value, tuple) else value


def _line(applied: AppliedEvent, kind: str, changes: Sequence[RowChange] = (), about: object = None) -> BrokerEventRow:
    """Return a line of history; `about` is the row or the registration of the broker that it concerns."""
    at, request, command = applied.record, applied.request, applied.command
    topics = [each for each in changes if each.table == "topic"]
    added = sum(each.before is None for each in topics)
    removed = sum(each.after is None for each in topics)
    return BrokerEventRow(
        epoch=0,
        seq=0,
        event_time=applied.event_time,
        partition=at.partition if at else None,
        offset=at.offset if at else None,
        type=kind,
        cluster_name=getattr(about, "cluster_name", None),
        zone_name=request.zone_name if request and request.broker_addr == getattr(about, "broker_addr", "") else None,
        broker_name=getattr(about, "broker_name", None),
        broker_id=getattr(about, "broker_id", None),
        broker_addr=getattr(about, "broker_addr", None),
        data_version=getattr(about, "data_version", None),
        cause=applied.cause,
        requested_by=applied.requested_by,
        topics_added=added,
        topics_changed=len(topics) - added - removed,
        topics_removed=removed,
        reason=getattr(command, "reason", None),
        deleted_topic=command.topic if isinstance(command, DeleteTopic) and not command.cluster_name else None,
        changes=tuple(changes),
    )

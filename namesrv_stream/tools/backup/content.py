"""The rows of a registry at one epoch, and the changes that make another epoch's rows of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from namesrv_stream.rules.registry_tables import RowChange
from namesrv_stream.rules.rows import LiveRow, SnapshotRow, is_same_but_for_life
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.schemas import ROUTE_TABLES
from namesrv_stream.tables.snapshot_reader import RouteReader

Rows = Sequence[tuple[Any, ...]]


class Content(NamedTuple):
    """The rows of the tables that lookups read, by table name, as of one snapshot."""

    snapshot: SnapshotRow
    rows: Mapping[str, Rows]


def content_of(reader: RouteReader, epoch: int | None = None, at_ms: int | None = None) -> Content:
    """Read the newest snapshot, that of an epoch, or the one in force at an event time.

    Raises NoSuchSnapshotError or SnapshotGoneError.
    """
    snapshot = reader.snapshots.find(epoch, at_ms)
    return Content(snapshot, {spec.name: rows_from_arrow(spec, reader.table(spec, snapshot)) for spec in ROUTE_TABLES})


def changes_between(now: Mapping[str, Rows], then: Mapping[str, Rows], reading_ms: int) -> list[RowChange]:
    """Return the changes that make the rows of `then` out of those of `now`.

    A lease that is the same but for its signs of life stays as it is. One that comes back is heard at `reading_ms` of
    the log's clock (D9). It has no connection: the gateways name those with the next sign of life.
    """
    return [change for spec in ROUTE_TABLES for change in _changes(spec.name, spec.key, now, then, reading_ms)]


def _changes(
    table: str, key: Sequence[str], now: Mapping[str, Rows], then: Mapping[str, Rows], reading_ms: int
) -> Iterator[RowChange]:
    before, after = (_by_key(key, side.get(table, ())) for side in (now, then))
    for gone in before.keys() - after.keys():
        yield RowChange(table, gone, before[gone], None)
    for found, row in after.items():
        former = before.get(found)
        wanted = _lease_put_back(former, row, reading_ms) if isinstance(row, LiveRow) else row
        if former != wanted:
            yield RowChange(table, found, former, wanted)


def _lease_put_back(former: tuple[Any, ...] | None, lease: LiveRow, reading_ms: int) -> LiveRow:
    if isinstance(former, LiveRow) and is_same_but_for_life(former._replace(tokens=lease.tokens), lease):
        return former._replace(tokens=lease.tokens)
    return lease._replace(channels={}, clock_millis=reading_ms, grace_until=None, suspect_since=None)


def _by_key(key: Sequence[str], rows: Rows) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {tuple(getattr(row, name) for name in key): row for row in rows}

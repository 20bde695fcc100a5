"""Differences between two moments, from the rows that changed between them.

Signs of life, data versions and the position of the latest registration are left out, because no lookup returns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from namesrv_stream.rules.history import as_json_row
from namesrv_stream.rules.rows import QUIET_COLUMNS, Key, RowChange
from namesrv_stream.tables.schemas import ROUTE_TABLES

Row = Mapping[str, Any]


class Difference(NamedTuple):
    """A row that one of the moments lacks or has with other values. `before` and `after` lack the columns left out."""

    table: str
    key: Key
    before: Row | None
    after: Row | None


def differences(done: Iterable[RowChange], undone: Iterable[RowChange] = ()) -> list[Difference]:
    """Return the differences that changes make, in order of table and key.

    `done` are up to the second moment and not up to the first, in order of the log; `undone` are up to the first and
    not up to the second. Both may exist if an epoch is compared with a time, because an expiry may be published in a
    later epoch than its event time suggests.
    """
    first: dict[tuple[str, Key], Any] = {}
    last: dict[tuple[str, Key], Any] = {}
    back = (each._replace(before=each.after, after=each.before) for each in reversed(list(undone)))
    for each in (*back, *done):
        first.setdefault((each.table, each.key), each.before)
        last[each.table, each.key] = each.after
    sides = ((at, shown_of(at[0], row), shown_of(at[0], last[at])) for at, row in first.items())
    found = [Difference(*at, was, became) for at, was, became in sides if was != became]
    order = [spec.name for spec in ROUTE_TABLES]
    return sorted(found, key=lambda each: (order.index(each.table), each.key))


def shown_of(table: str, row: Any) -> Row | None:
    """Return a row as JSON has it, without the columns that are left out."""
    quiet = QUIET_COLUMNS.get(table, ())
    return row and {column: value for column, value in as_json_row(row).items() if column not in quiet}

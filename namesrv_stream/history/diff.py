"""Differences between two moments, from the events between them.

Signs of life, data versions and the position of the latest registration are left out, because no lookup returns them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from namesrv_stream.history.events import recorded_counts, recorded_rows
from namesrv_stream.rules.rows import QUIET_COLUMNS, BrokerEventRow
from namesrv_stream.tables.schemas import ROUTE_TABLES, TABLES

Row = Mapping[str, Any]


class Difference(NamedTuple):
    """A row that one of the moments lacks or has with other values. `before` and `after` lack the columns left out."""

    table: str
    key: tuple[Any, ...]
    before: Row | None
    after: Row | None


class Diff(NamedTuple):
    """All differences in order of table and key.

    `unnamed` maps a broker name to the number of changes of topics that events of release 0.1.0 do not name.
    """

    differences: list[Difference]
    unnamed: Mapping[str, int]


def diff_of_events(lines: Iterable[BrokerEventRow], undone: Iterable[BrokerEventRow] = ()) -> Diff:
    """Return the differences that lines of history make.

    `lines` are up to the second moment and not up to the first, in order of the log; `undone` are up to the first and
    not up to the second. Both may exist if an epoch is compared with a time, because an expiry may be published in a
    later epoch than its event time suggests.
    """
    first: dict[str, dict[tuple[Any, ...], Row | None]] = {spec.name: {} for spec in ROUTE_TABLES}
    last: dict[str, dict[tuple[Any, ...], Row | None]] = {spec.name: {} for spec in ROUTE_TABLES}
    unnamed: Counter[str] = Counter()
    back = [line._replace(before=line.after, after=line.before) for line in undone]
    for line in [*reversed(back), *lines]:
        before, after = _by_key(line.before), _by_key(line.after)
        for table, key in {**before, **after}:
            first[table].setdefault(key, before.get((table, key)))
            last[table][key] = after.get((table, key))
        unnamed[line.broker_name or ""] += max(
            sum(recorded_counts(side).values()) for side in (line.before, line.after)
        )
    differences = [each for table, rows in first.items() for each in _differences(table, rows, last[table])]
    return Diff(differences, {name: count for name, count in sorted(unnamed.items()) if count})


def _differences(
    table: str, before: Mapping[tuple[Any, ...], Any], after: Mapping[tuple[Any, ...], Any]
) -> list[Difference]:
    found = []
    for key in sorted(before.keys() | after.keys()):
        was, became = before.get(key), after.get(key)
        if was != became:
            found.append(Difference(table, key, shown_of(table, was), shown_of(table, became)))
    return [each for each in found if each.before != each.after]


def shown_of(table: str, row: Row | None) -> Row | None:
    """Return a row without the columns that are left out."""
    quiet = QUIET_COLUMNS.get(table, ())
    return row and {column: value for column, value in row.items() if column not in quiet}


def _by_key(side: str | None) -> dict[tuple[str, tuple[Any, ...]], Row]:
    return {
        (table, tuple(row[column] for column in TABLES[table].key)): row
        for table, rows in recorded_rows(side).items()
        for row in rows
    }

"""Tables in memory that record each of their changes in a journal.

Rows to publish and lines of history are both made from the journal, so that no row changes without a line that explains
it. One journal covers a micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

Row = TypeVar("Row", bound=tuple)  # type: ignore[type-arg]  # a NamedTuple of any fields
Key = tuple[Hashable, ...]


class RowChange(NamedTuple):
    """One row of one table before and after a step; None if there was or is no row."""

    table: str
    key: Key
    before: tuple[object, ...] | None
    after: tuple[object, ...] | None


Journal = list[RowChange]


class Table(Generic[Row]):
    """Rows by key, in groups for the rules that need groups: all topics of a broker name, or all its ids.

    `put` of an equal row and `drop` of an absent one leave no entry in the journal.
    """

    def __init__(
        self, name: str, key: Callable[[Row], Key], group: Callable[[Row], Hashable], journal: Journal
    ) -> None:
        self._name = name
        self._key = key
        self._group = group
        self._journal = journal
        self._groups: dict[Hashable, dict[Key, Row]] = {}

    def load(self, rows: Iterable[Row]) -> None:
        """Take rows that are already published."""
        for row in rows:
            self.refresh(row)

    def of(self, group: Hashable) -> Mapping[Key, Row]:
        """Return the rows of one group by key. The mapping is live: copy it before a `put` or `drop`."""
        return self._groups.get(group, {})

    def first(self, group: Hashable) -> Row | None:
        """Return the row of a group that has at most one row, such as an address in `live`."""
        return next(iter(self.of(group).values()), None)

    def groups(self) -> Collection[Hashable]:
        """Return the groups that have rows."""
        return self._groups.keys()

    def __iter__(self) -> Iterator[Row]:
        return (row for group in self.groups() for row in self.of(group).values())

    def put(self, row: Row) -> None:
        """Insert or replace a row."""
        before = self._known(row)
        if before != row:
            self.refresh(row)
            self._journal.append(RowChange(self._name, self._key(row), before, row))

    def refresh(self, row: Row) -> None:
        """Replace a row without a journal entry: for rows already published, and for signs of life."""
        self._groups.setdefault(self._group(row), {})[self._key(row)] = row

    def drop(self, row: Row) -> None:
        """Remove the row with the key of this one, if it is there."""
        before = self._remove(row)
        if before is not None:
            self._journal.append(RowChange(self._name, self._key(row), before, None))

    def _known(self, row: Row) -> Row | None:
        """Return the row with the key of this one."""
        return self.of(self._group(row)).get(self._key(row))

    def _remove(self, row: Row) -> Row | None:
        """Remove and return the row with the key of this one, and its group if no row is left in it."""
        group = self._group(row)
        rows = self._groups.get(group, {})
        before = rows.pop(self._key(row), None)
        if not rows:
            self._groups.pop(group, None)
        return before


def net_of(journal: Iterable[RowChange]) -> list[RowChange]:
    """Return one change for each row, from before the journal to after it, without rows that were changed back."""
    changes: dict[tuple[str, Key], RowChange] = {}
    for change in journal:
        first = changes.setdefault((change.table, change.key), change)
        if first is not change:
            changes[change.table, change.key] = first._replace(after=change.after)
    return [change for change in changes.values() if change.before != change.after]

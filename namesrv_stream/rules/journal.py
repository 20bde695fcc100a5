"""Keyed rows that write down each change of theirs: one journal a micro-batch, from which rows to publish and history
events are both made, so that no row changes without an event that explains it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

Row = TypeVar("Row", bound=tuple)  # type: ignore[type-arg]  # a NamedTuple of any fields
Key = tuple[Hashable, ...]


class RowChange(NamedTuple):
    """One row of one table before and after a step; None where there was or is no row."""

    table: str
    key: Key
    before: tuple[object, ...] | None
    after: tuple[object, ...] | None


class NetChanges(NamedTuple):
    """What a whole journal comes to for one table. A row changed there and back is not in it."""

    upserts: list[tuple[object, ...]]
    deletes: list[Key]


Journal = list[RowChange]


class Table(Generic[Row]):
    """Rows by key, in groups (all topics of a broker name, all ids of it) where a rule asks for groups.

    `put` and `drop` of what is already so leave no trace in the journal.
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
        """Take rows that are published already."""
        for row in rows:
            self.refresh(row)

    def of(self, group: Hashable) -> Mapping[Key, Row]:
        """The rows of one group by key; live, so copy it before putting or dropping."""
        return self._groups.get(group, {})

    def first(self, group: Hashable) -> Row | None:
        """The row of a group that has one row at most, as an address in `live`."""
        return next(iter(self.of(group).values()), None)

    def groups(self) -> Iterable[Hashable]:
        """What there are rows of."""
        return self._groups.keys()

    def __iter__(self) -> Iterator[Row]:
        return (row for group in self.groups() for row in self.of(group).values())

    def put(self, row: Row) -> None:
        """Insert or replace."""
        before = self._known(row)
        if before != row:
            self.refresh(row)
            self._journal.append(RowChange(self._name, self._key(row), before, row))

    def refresh(self, row: Row) -> None:
        """Replace without a journal entry: for what is published already or on its own account (signs of life)."""
        self._groups.setdefault(self._group(row), {})[self._key(row)] = row

    def drop(self, row: Row) -> None:
        """Remove the row with this one's key, if it is there."""
        before = self._remove(row)
        if before is not None:
            self._journal.append(RowChange(self._name, self._key(row), before, None))

    def _known(self, row: Row) -> Row | None:
        """The row with the key of this one."""
        return self.of(self._group(row)).get(self._key(row))

    def _remove(self, row: Row) -> Row | None:
        """The row that was there. A group without rows is none."""
        group = self._group(row)
        rows = self._groups.get(group, {})
        before = rows.pop(self._key(row), None)
        if not rows:
            self._groups.pop(group, None)
        return before


def net_of(journal: Iterable[RowChange]) -> list[RowChange]:
    """One change a row, from what was before the journal to what is after it; rows changed there and back are out."""
    changes: dict[tuple[str, Key], RowChange] = {}
    for change in journal:
        first = changes.setdefault((change.table, change.key), change)
        if first is not change:
            changes[change.table, change.key] = first._replace(after=change.after)
    return [change for change in changes.values() if change.before != change.after]


def net_changes(journal: Iterable[RowChange]) -> dict[str, NetChanges]:
    """Rows to upsert and keys to delete per table, for readers who see only the end of the journal."""
    changes: dict[str, NetChanges] = {}
    for change in net_of(journal):
        of_table = changes.setdefault(change.table, NetChanges([], []))
        if change.after is None:
            of_table.deletes.append(change.key)
        else:
            of_table.upserts.append(change.after)
    return changes

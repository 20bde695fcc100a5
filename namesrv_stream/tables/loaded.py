"""Tables in the form that lookups read, each version once: they are shared by all moments that have the version."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from namesrv_stream.rules.lookup import route_index
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.schemas import LIVE, TableSpec

_ROWS_OF_A_LEASE = 250
"""Rows of `topic` that need as much memory as one lease, which has other signs of life in each snapshot."""

_LENGTH_OF_PUBLISHED = 3
"""Length of the key of a table as it was published."""


def _age(key: tuple[Any, ...]) -> tuple[int, int]:
    return key[2] or 0, key[1]


@dataclass(frozen=True)
class LoadedTable:
    """A small table at one moment: its rows in Arrow and, made at the first use, the index that lookups read."""

    spec: TableSpec
    arrow: pa.Table

    @cached_property
    def index(self) -> Mapping[Any, Any]:
        """The table's rows indexed as a field of `RouteTables`, in order of key."""
        in_order = self.arrow.sort_by([(name, "ascending") for name in self.spec.key])
        return route_index(self.spec.name, rows_from_arrow(self.spec, in_order))

    def rows(self) -> list[Any]:
        """Return the rows as `spec.row`, in no particular order."""
        return rows_from_arrow(self.spec, self.arrow)

    def __len__(self) -> int:
        return len(self.arrow) * (_ROWS_OF_A_LEASE if self.spec is LIVE else 1)


@dataclass(frozen=True)
class LoadedTopics:
    """The table `topic` at one moment, in the packed form that lookups read.

    `snapshot`: the first snapshot that was read with this version. `changed`: the topics that differ from those of
    `former`, from which it was made; both are None if the table was read whole.
    """

    index: TopicQueues
    snapshot: SnapshotRow
    changed: frozenset[str] | None = None
    former: SnapshotRow | None = None

    def rows(self) -> list[Any]:
        """Return the rows in order of their key."""
        return list(self.index.rows())

    def __len__(self) -> int:
        return len(self.index)


class KeptTables:
    """The tables that were used last, up to a number of rows, and the last one of each name in any case.

    A key is the name of the table, its version and the time of the last repair, after which versions may come again;
    that of a past moment also has the moment. An empty table counts as one row. Lock it while others may use it.
    """

    def __init__(self, most_rows: int) -> None:
        self._most_rows = most_rows
        self._tables: OrderedDict[tuple[Hashable, ...], LoadedTable | LoadedTopics] = OrderedDict()

    def get(self, key: tuple[Hashable, ...]) -> LoadedTable | LoadedTopics | None:
        """Return a kept table, None if it is not kept."""
        if key in self._tables:
            self._tables.move_to_end(key)
        return self._tables.get(key)

    def keep(self, key: tuple[Hashable, ...], table: LoadedTable | LoadedTopics) -> None:
        """Keep a table, and beyond the limit forget those that were used longest ago."""
        self._tables[key] = table
        self._tables.move_to_end(key)
        published = [each for each in self._tables if len(each) == _LENGTH_OF_PUBLISHED]
        newest = {name: (name, version, repaired) for name, version, repaired in sorted(published, key=_age)}.values()
        rows = sum(max(1, len(table)) for table in self._tables.values())
        for each in [each for each in self._tables if each not in newest]:
            if rows <= self._most_rows:
                break
            rows -= max(1, len(self._tables.pop(each)))

    def topics_before(self, snapshot: SnapshotRow) -> LoadedTopics | None:
        """Return the kept topics of the highest epoch up to that of a snapshot in its term, None if there are none.

        Of another term they are of no use: the repair that began it may have emptied the table without events.
        """
        published = (each for key, each in self._tables.items() if len(key) == _LENGTH_OF_PUBLISHED)
        topics = [each for each in published if isinstance(each, LoadedTopics) and _is_before(each.snapshot, snapshot)]
        return max(topics, key=lambda each: each.snapshot.epoch, default=None)


def _is_before(former: SnapshotRow, snapshot: SnapshotRow) -> bool:
    """Return whether the changes between two snapshots lead from one to the other."""
    is_of_term = (former.term, former.repaired_at) == (snapshot.term, snapshot.repaired_at)
    return is_of_term and former.epoch < snapshot.epoch

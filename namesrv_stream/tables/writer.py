"""What publication needs of a Delta engine, and what it is given to write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules import journal
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.arrow import columns_to_arrow, rows_to_arrow
from namesrv_stream.tables.schemas import TableSpec

DELETED = "_deleted"
"""Column of a merge's source: true for keys that go."""

_OPERATIONS_THAT_KEEP_ROWS = frozenset(
    {
        "ADD COLUMN",
        "ADD COLUMNS",
        "OPTIMIZE",
        "REORG",
        "CLUSTER BY",
        "VACUUM START",
        "VACUUM END",
        "SET TBLPROPERTIES",
        "COMPUTE STATS",
    }
)

Rows: TypeAlias = pa.Table | Sequence[tuple[Any, ...]]


class BaseMovedError(NamesrvError):
    """Somebody else has committed on a table first, so nothing was written, or not on the version asked for."""

    def __init__(self, table: str, base: int) -> None:
        super().__init__(
            f"table {table} is no longer at version {base}: does another job write it? The next run restores it."
        )
        self.table = table
        self.base = base


@dataclass(frozen=True)
class RowChanges:
    """What changes in one keyed table: whole rows that replace or come anew, and keys that go. No key is in both."""

    upserts: Rows = ()
    deletes: Rows = ()

    def __len__(self) -> int:
        return len(self.upserts) + len(self.deletes)

    def merge_source(self, spec: TableSpec) -> pa.Table:
        """Upserts and deletes as one table: the row's columns (null beside the key of a delete) and DELETED."""
        upserts = _arrow(spec.schema, self.upserts)
        deletes = _arrow(pa.schema([spec.schema.field(name) for name in spec.key]), self.deletes)
        parts = [upserts.append_column(DELETED, _flags(len(upserts), False))]
        if len(deletes):
            parts.append(deletes.append_column(DELETED, _flags(len(deletes), True)))
        return pa.concat_tables(parts, promote_options="default")


Changes = Mapping[str, RowChanges]
"""By table name."""


def changes_to_write(changes: Mapping[str, journal.NetChanges]) -> dict[str, RowChanges]:
    """What the rules have changed."""
    return {name: RowChanges(of_table.upserts, of_table.deletes) for name, of_table in changes.items()}


def appended(spec: TableSpec, rows: Rows) -> pa.Table:
    """Rows of an append-only table as Arrow."""
    return rows if isinstance(rows, pa.Table) else rows_to_arrow(spec, rows)


def _arrow(schema: pa.Schema, rows: Rows) -> pa.Table:
    return rows.select(schema.names).cast(schema) if isinstance(rows, pa.Table) else columns_to_arrow(schema, rows)


def _flags(length: int, value: bool) -> pa.Array:
    return pa.repeat(pa.scalar(value), length)


class CommitTag(NamedTuple):
    """What each of our commits says in `userMetadata`: which snapshot it belongs to and whose."""

    epoch: int
    term: int

    def to_json(self) -> str:
        """As a commit carries it."""
        return json.dumps(self._asdict())


class Commit(NamedTuple):
    """One entry of a table's log."""

    version: int
    operation: str
    restored_version: int | None
    user_metadata: str | None
    committed_at_ms: int

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Commit:
        """From an engine's history, `timestamp` in epoch milliseconds."""
        restored = (entry["operationParameters"] or {}).get("version") if entry["operation"] == "RESTORE" else None
        return cls(
            entry["version"],
            entry["operation"],
            None if restored is None else int(restored),
            entry.get("userMetadata"),
            entry["timestamp"],
        )


def holds_rows_of(commits: Sequence[Commit], base: int) -> bool:
    """Whether a table with `commits` (newest first) above version `base` still holds exactly the rows of `base`."""
    for commit in commits:
        if commit.restored_version == base:
            return True
        if commit.operation not in _OPERATIONS_THAT_KEEP_ROWS:
            return False
    return True


class TableWriter(Protocol):
    """The tables of one root. Every write lands directly on `base` or raises BaseMovedError.

    Writes return the version of their own commit, and `base` where there was nothing to do.
    """

    def ensure_tables(self, retention_ms: int) -> None:
        """Makes the tables that are missing and brings the retention of the others in line."""

    def head(self, spec: TableSpec) -> int:
        """The newest version. Refuses a newer registry format."""

    def commits(self, spec: TableSpec, after: int) -> list[Commit]:
        """Newest first, those above version `after`."""

    def read(self, spec: TableSpec, version: int) -> pa.Table:
        """All rows at `version`, with the row's columns."""

    def read_queues(self, version: int) -> TopicQueues:
        """All rows of the table `topic` at `version`, packed."""

    def newest_snapshot(self) -> tuple[SnapshotRow | None, int]:
        """The snapshot row with the highest epoch, and the version of the snapshot table in which it was seen."""

    def merge(self, spec: TableSpec, base: int, changes: RowChanges, tag: CommitTag) -> int:
        """Upserts and deletes by the table's key."""

    def append(self, spec: TableSpec, base: int, rows: pa.Table, tag: CommitTag) -> int:
        """New rows, with the row's columns."""

    def touch(self, spec: TableSpec, base: int, tag: CommitTag) -> int:
        """A commit that changes nothing, so that Delta takes the rows for young."""

    def restore(self, spec: TableSpec, head: int, version: int, tag: CommitTag) -> int:
        """Brings the rows of an older version back, on top of `head`."""

    def file_count(self, spec: TableSpec, version: int) -> int:
        """Data files at `version` that compaction may put together: of months those of the newest, of buckets all but
        one each.
        """

    def compact(self, spec: TableSpec, base: int) -> int:
        """Merges small files; of months in the newest alone, maintenance has been at the others.

        Untagged: the rows stay as they are.
        """

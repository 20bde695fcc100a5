"""The interface of a Delta engine as publication uses it, and the changes that publication writes with it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules import journal
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.arrow import columns_to_arrow, rows_to_arrow
from namesrv_stream.tables.schemas import TableSpec

DELETED = "_deleted"
"""Column of a merge's source: true for keys to delete."""

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
        "UPDATE FIELD METADATA",
        "UPDATE TABLE METADATA",
        "COMPUTE STATS",
    }
)

_RETENTION_TAG = "retention"
RETENTION_METADATA = {"userMetadata": _RETENTION_TAG}
"""Metadata of a commit that only deletes rows past their retention. Publication goes on from it."""

Rows: TypeAlias = pa.Table | Sequence[tuple[Any, ...]]


class BaseMovedError(NamesrvError):
    """Failure of a write to commit directly on the version asked for, because another writer committed first."""

    def __init__(self, table: str, base: int) -> None:
        super().__init__(
            f"table {table} is no longer at version {base}: does another job write it? The next run restores it."
        )
        self.table = table
        self.base = base


@dataclass(frozen=True)
class RowChanges:
    """Changes of one keyed table: whole rows to update or insert, and keys to delete. No key is in both."""

    upserts: Rows = ()
    deletes: Rows = ()

    def __len__(self) -> int:
        return len(self.upserts) + len(self.deletes)

    def merge_source(self, spec: TableSpec) -> pa.Table:
        """Return upserts and deletes as one table: the row's columns, null beside the key of a delete, and DELETED."""
        upserts = _arrow(spec.schema, self.upserts)
        deletes = _arrow(pa.schema([spec.schema.field(name) for name in spec.key]), self.deletes)
        parts = [upserts.append_column(DELETED, _flags(len(upserts), False))]
        if len(deletes):
            parts.append(deletes.append_column(DELETED, _flags(len(deletes), True)))
        return pa.concat_tables(parts, promote_options="default")

    def applied_to(self, spec: TableSpec, rows: pa.Table) -> pa.Table:
        """Return the rows of a table whose key is one column, after these changes and in no particular order."""
        (key,) = spec.key
        upserts = _arrow(spec.schema, self.upserts)
        gone = _arrow(pa.schema([spec.schema.field(key)]), self.deletes)
        changed = pa.chunked_array([*upserts.column(key).chunks, *gone.column(key).chunks], spec.schema.field(key).type)
        kept = rows.filter(pc.invert(pc.is_in(rows.column(key), value_set=changed)))
        return pa.concat_tables([kept, upserts]).combine_chunks()


Changes = Mapping[str, RowChanges]
"""Table name -> changes."""


def changes_to_write(changes: Mapping[str, journal.NetChanges]) -> dict[str, RowChanges]:
    """Return the net changes that the rules made, by table name, as changes to write."""
    return {name: RowChanges(of_table.upserts, of_table.deletes) for name, of_table in changes.items()}


def appended(spec: TableSpec, rows: Rows) -> pa.Table:
    """Return rows of an append-only table as Arrow."""
    return rows if isinstance(rows, pa.Table) else rows_to_arrow(spec, rows)


def _arrow(schema: pa.Schema, rows: Rows) -> pa.Table:
    return rows.select(schema.names).cast(schema) if isinstance(rows, pa.Table) else columns_to_arrow(schema, rows)


def _flags(length: int, value: bool) -> pa.Array:
    return pa.repeat(pa.scalar(value), length)


class CommitTag(NamedTuple):
    """Content of `userMetadata` in each commit of a publication: the epoch and the term that the commit belongs to."""

    epoch: int
    term: int

    def to_json(self) -> str:
        """Return the text that a commit carries."""
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
        """Make a commit from an entry of an engine's history, whose `timestamp` is in epoch milliseconds."""
        restored = (entry["operationParameters"] or {}).get("version") if entry["operation"] == "RESTORE" else None
        return cls(
            entry["version"],
            entry["operation"],
            None if restored is None else int(restored),
            entry.get("userMetadata"),
            entry["timestamp"],
        )


def holds_rows_of(commits: Sequence[Commit], base: int) -> bool:
    """Return whether a table with `commits` (newest first) above version `base` holds the rows of `base`.

    It may lack rows past their retention.
    """
    for commit in commits:
        if commit.restored_version == base:
            return True
        is_retention = commit.operation == "DELETE" and commit.user_metadata == _RETENTION_TAG
        if not is_retention and commit.operation not in _OPERATIONS_THAT_KEEP_ROWS:
            return False
    return True


class TableWriter(Protocol):
    """Tables of one root. Every write commits directly on version `base` or raises BaseMovedError.

    A write returns the version of its own commit, or `base` if there was nothing to do.
    """

    def ensure_tables(self, retention_ms: int) -> None:
        """Make the tables that are missing, and set the retention of the others."""

    def head(self, spec: TableSpec) -> int:
        """Return the newest version. Raises an error if the table has a newer registry format."""

    def commits(self, spec: TableSpec, after: int) -> list[Commit]:
        """Return the commits above version `after`, newest first."""

    def read(self, spec: TableSpec, version: int) -> pa.Table:
        """Return all rows at `version`, with the row's columns."""

    def read_queues(self, version: int) -> TopicQueues:
        """Return all rows of the table `topic` at `version`, packed."""

    def newest_snapshot(self) -> tuple[SnapshotRow | None, int]:
        """Return the snapshot row with the highest epoch, and the version of the snapshot table that was read."""

    def merge(self, spec: TableSpec, base: int, changes: RowChanges, tag: CommitTag) -> int:
        """Write upserts and deletes by the table's key."""

    def append(self, spec: TableSpec, base: int, rows: pa.Table, tag: CommitTag) -> int:
        """Append rows that have the row's columns."""

    def touch(self, spec: TableSpec, base: int, tag: CommitTag) -> int:
        """Commit without a change, so that the newest version is young: Delta counts its age from its commit."""

    def restore(self, spec: TableSpec, head: int, version: int, tag: CommitTag) -> int:
        """Restore the rows of an older version in a commit on top of `head`."""

    def file_count(self, spec: TableSpec, version: int) -> int:
        """Return how many data files at `version` compaction may merge.

        For a table in months these are the files of the newest month; for a table in buckets, all but one a bucket.
        """

    def compact(self, spec: TableSpec, base: int) -> int:
        """Merge small files; for a table in months only those of the newest, since maintenance sorts the others.

        The commit has no tag, because the rows stay as they are.
        """

"""Write the Delta tables by delta-rs in this process: no JVM, 10 to 100 ms a commit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypedDict

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError

from namesrv_stream import __version__
from namesrv_stream.errors import NamesrvError, NotARegistryError, TableDamagedError
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.rows import RowChange, SnapshotRow
from namesrv_stream.tables.arrow import columns_to_arrow, rows_to_arrow, with_partition_column
from namesrv_stream.tables.damage import reporting_damage
from namesrv_stream.tables.root import (
    CHECKPOINT_INTERVAL,
    DEFAULT_EXACT_MS,
    FORMAT_PROPERTY,
    RELEASE_PROPERTY,
    OpenTables,
    Root,
    constraint_properties,
    fields_to_add,
    select,
    table_properties,
)
from namesrv_stream.tables.schemas import (
    EVENT_MONTH,
    PINNED_TABLES,
    SMALL_EVENT_FILE_BYTES,
    SNAPSHOT,
    TOPIC,
    TOPIC_BUCKET,
    TableSpec,
)
from namesrv_stream.tables.snapshots import newest_row
from namesrv_stream.tables.topic_queues import load_queues

_CREATIONS_TRIED = 3

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
"""Metadata of a commit that only deletes rows past their retention. Publication continues from such a commit."""

Rows: TypeAlias = pa.Table | Sequence[tuple[Any, ...]]


class BaseMovedError(NamesrvError):
    """A write could not commit directly on its base version, because another writer committed first."""

    def __init__(self, table: str, base: int) -> None:
        super().__init__(
            f"table {table} is no longer at version {base}, because another writer changed it. The next run restores "
            "it. Check that no other job writes these tables."
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
        """Return upserts and deletes as one table: the row's columns and DELETED.

        A delete has null in all columns but its key.
        """
        upserts = _arrow(spec.schema, self.upserts)
        deletes = _arrow(pa.schema([spec.schema.field(name) for name in spec.key]), self.deletes)
        parts = [upserts.append_column(DELETED, _flags(len(upserts), False))]
        if len(deletes):
            parts.append(deletes.append_column(DELETED, _flags(len(deletes), True)))
        return pa.concat_tables(parts, promote_options="default")

    def applied_to(self, spec: TableSpec, rows: pa.Table) -> pa.Table:
        """Return the rows of a table after these changes, in no particular order."""
        upserts = _arrow(spec.schema, self.upserts)
        gone = _arrow(pa.schema([spec.schema.field(name) for name in spec.key]), self.deletes)
        changed = pa.concat_tables([upserts.select(spec.key), gone])
        kept = rows.filter(pc.invert(pc.is_in(_keys(rows, spec), value_set=_keys(changed, spec))))
        return pa.concat_tables([kept, upserts]).combine_chunks()


Changes = Mapping[str, RowChanges]
"""Table name -> changes."""


def changes_to_write(
    changes: Iterable[RowChange], signs_of_life: Sequence[tuple[Any, ...]] = ()
) -> dict[str, RowChanges]:
    """Return the changes that the rules made, one for each row, as changes to write by table name.

    With rows of `live` that have a new sign of life: each row once, as it is now.
    """
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    for change in changes:
        upserts, deletes = found.setdefault(change.table, ([], []))
        if change.after is None:
            deletes.append(change.key)
        else:
            upserts.append(change.after)
    if signs_of_life:
        upserts, deletes = found.get("live", ([], []))
        found["live"] = list({row[0]: row for row in (*upserts, *signs_of_life)}.values()), deletes
    return {name: RowChanges(*of_table) for name, of_table in found.items()}


def appended(spec: TableSpec, rows: Rows) -> pa.Table:
    """Return rows of an append-only table as Arrow."""
    return rows if isinstance(rows, pa.Table) else rows_to_arrow(spec, rows)


def _arrow(schema: pa.Schema, rows: Rows) -> pa.Table:
    return rows.select(schema.names).cast(schema) if isinstance(rows, pa.Table) else columns_to_arrow(schema, rows)


def _keys(rows: pa.Table, spec: TableSpec) -> pa.ChunkedArray:
    """Return the key of each row, which has one or two columns, as one text. It tells where the first column ends."""
    first, *rest = (rows.column(name).cast(pa.string()) for name in spec.key)
    return pc.binary_join_element_wise(pc.binary_length(first).cast(pa.string()), first, *rest, "/")


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

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Commit:
        """Return the commit of an entry of an engine's history."""
        restored = (entry["operationParameters"] or {}).get("version") if entry["operation"] == "RESTORE" else None
        return cls(
            entry["version"],
            entry["operation"],
            None if restored is None else int(restored),
            entry.get("userMetadata"),
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


class RustWriter:
    """The tables of one root, written by delta-rs. Every write commits directly on `base` or raises BaseMovedError.

    A write returns the version of its own commit, or `base` if there was nothing to do. Tables stay open.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._tables = OpenTables(root)
        self._newest: tuple[SnapshotRow | None, int] = (None, -1)
        self._written: dict[str, tuple[int, pa.Table]] = {}

    def ensure_tables(self, exact_ms: int = DEFAULT_EXACT_MS) -> None:
        """Make the tables that no snapshot names, and bring the others up to date."""
        self.ensure_table(SNAPSHOT, exact_ms)
        newest, _ = self.newest_snapshot()
        for spec in PINNED_TABLES:
            self.ensure_table(spec, exact_ms, newest.versions if newest else {})

    def ensure_table(
        self, spec: TableSpec, exact_ms: int = DEFAULT_EXACT_MS, named: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Make one table if it is missing, and bring it up to date otherwise.

        Raises TableDamagedError if it is missing and the newest snapshot, which has the versions `named`, names it.
        """
        properties = table_properties(spec, exact_ms)
        try:
            with reporting_damage(self._root, spec):
                self._bring_up_to_date(spec, properties)
        except NotARegistryError as error:
            if spec.name in named:
                raise TableDamagedError(
                    self._root.url, spec.name, named[spec.name], "_delta_log", "is missing"
                ) from error
            self.create(spec, properties)

    def head(self, spec: TableSpec) -> int:
        """Return the newest version. Raises an error if the table has a newer registry format."""
        with reporting_damage(self._root, spec):
            return self._tables.at_head(spec).version()

    def commits(self, spec: TableSpec, after: int) -> list[Commit]:
        """Return the commits above version `after`, newest first."""
        head = self.head(spec)
        entries = self._tables.at(spec, head).history(head - after) if head > after else []
        return [commit for entry in entries if (commit := Commit.of(entry)).version > after]

    def read(self, spec: TableSpec, version: int) -> pa.Table:
        """Return all rows of a table at `version`, with the row's columns."""
        with reporting_damage(self._root, spec, version):
            return select(self._tables.at(spec, version), spec)

    def read_queues(self, version: int) -> TopicQueues:
        """Return all rows of the table `topic` at `version`, packed."""
        with reporting_damage(self._root, TOPIC, version):
            return load_queues(self._tables.at(TOPIC, version))

    def newest_snapshot(self) -> tuple[SnapshotRow | None, int]:
        """Return the snapshot row with the highest epoch, and the version of the snapshot table that was read."""
        version = self.head(SNAPSHOT)
        if version != self._newest[1]:
            with reporting_damage(self._root, SNAPSHOT, version):
                self._newest = (newest_row(self._root, self._tables.at(SNAPSHOT, version)), version)
        return self._newest

    def merge(self, spec: TableSpec, base: int, changes: RowChanges, tag: CommitTag) -> int:
        """Write upserts and deletes by the table's key."""
        if spec.is_rewritten:
            return self._rewrite(spec, base, changes, tag)
        with self._on(spec, base) as table:
            source, is_same = _merge_source(spec, changes.merge_source(spec))
            columns = {name: f"source.{name}" for name in source.schema.names if name != DELETED}
            merger = table.merge(source, is_same, "source", "target", **_commit_once(base, tag))
            merger = merger.when_matched_delete(f"source.{DELETED}")
            merger = merger.when_matched_update(columns, f"NOT source.{DELETED}")
            merger.when_not_matched_insert(columns, f"NOT source.{DELETED}").execute()
            return table.version()

    def _rewrite(self, spec: TableSpec, base: int, changes: RowChanges, tag: CommitTag) -> int:
        """Write the table as one new file. A merge would read and join the rows first, and take three times as long."""
        with self._on(spec, base) as table:
            version, rows = self._written.pop(spec.name, (-1, None))
            rows = changes.applied_to(spec, rows if version == base else select(table, spec))
            write_deltalake(table, rows, mode="overwrite", **_commit_once(base, tag))
            self._written[spec.name] = table.version(), rows
            return table.version()

    def append(self, spec: TableSpec, base: int, rows: pa.Table, tag: CommitTag) -> int:
        """Append rows that have the row's columns."""
        if not len(rows):
            return base
        with self._on(spec, base) as table:
            stored = with_partition_column(spec, rows)
            write_deltalake(table, stored, mode="append", **_commit_once(base, tag))
            return table.version()

    def restore(self, spec: TableSpec, head: int, version: int, tag: CommitTag) -> int:
        """Restore the rows of an older version in a commit on top of `head`."""
        with self._on(spec, head) as table:
            table.restore(version, **_commit_once(head, tag))
            return table.version()

    def file_count(self, spec: TableSpec, version: int) -> int:
        """Return how many data files at `version` compaction may merge.

        For a table in months these are the files of the newest month; for a table in buckets, all but one a bucket.
        """
        table = self._tables.at(spec, version)
        if spec.partition_column == TOPIC_BUCKET:
            return len(table.file_uris()) - len(table.partitions())
        return len(table.file_uris(file_pruning_predicate=_newest_partition(spec, table)))

    def compact(self, spec: TableSpec, base: int) -> int:
        """Merge small files; for a table in months only those of the newest, since maintenance sorts the others.

        The commit has no tag, because the rows stay as they are.
        """
        with self._on(spec, base) as table:
            table.optimize.compact(
                _newest_partition(spec, table),
                SMALL_EVENT_FILE_BYTES if spec.key == () else None,
                commit_properties=CommitProperties(max_commit_retries=0),
            )
            return table.version()

    @contextmanager
    def _on(self, spec: TableSpec, base: int) -> Iterator[DeltaTable]:
        """Yield the table at `base` for one write. Raises BaseMovedError if another commit has come first.

        Drops the open table object if the write fails, since its state is then unknown.
        """
        try:
            with reporting_damage(self._root, spec, base):
                yield self._tables.at(spec, base)
        except CommitFailedError as error:
            self._tables.close(spec)
            raise BaseMovedError(spec.name, base) from error
        except BaseException:
            self._tables.close(spec)
            raise

    def create(self, spec: TableSpec, properties: Mapping[str, str]) -> None:
        """Make a table that has no log. Try again if a store refuses the commit or loses its answer."""
        uri, options = self._root.uri(spec), dict(self._root.storage_options or {})
        configuration = {**properties, **constraint_properties(spec)}
        for attempt in range(1, _CREATIONS_TRIED + 1):
            try:
                DeltaTable.create(
                    uri,
                    spec.stored_schema,
                    mode="ignore",  # another run may have just made it, or this one
                    partition_by=spec.partition_column,
                    name=spec.name,
                    description=spec.description,
                    configuration=configuration,
                    storage_options=options,
                    raise_if_key_not_exists=False,
                )
                break
            except DeltaError:
                if attempt == _CREATIONS_TRIED:
                    raise
        self._root.open(spec)

    def _bring_up_to_date(self, spec: TableSpec, properties: Mapping[str, str]) -> None:
        """Add columns and fields of structs that a former release did not have, and set properties that differ."""
        table = self._root.open(spec)
        if added := fields_to_add(self._root, spec, table):
            table.alter.add_columns(list(DeltaSchema.from_arrow(pa.schema(added)).fields))
            table.alter.set_table_properties({RELEASE_PROPERTY: __version__}, raise_if_not_exists=False)
        found = table.metadata().configuration
        kept = (FORMAT_PROPERTY, RELEASE_PROPERTY)  # the table keeps what it was made with
        changed = {name: value for name, value in properties.items() if name not in kept and found.get(name) != value}
        if changed:
            table.alter.set_table_properties(changed, raise_if_not_exists=False)


def _merge_source(spec: TableSpec, source: pa.Table) -> tuple[pa.Table, str]:
    """Return the rows to merge and the SQL condition by which such a row replaces a row of the table.

    The condition names the buckets of the source, so that files of other buckets are neither read nor written.
    """
    same_key = " AND ".join(f"target.{name} = source.{name}" for name in spec.key)
    if spec.partition_column != TOPIC_BUCKET:
        return source, same_key
    source = with_partition_column(spec, source)
    buckets = ", ".join(f"'{bucket}'" for bucket in sorted(source.column(TOPIC_BUCKET).unique().to_pylist()))
    return source, f"target.{TOPIC_BUCKET} IN ({buckets}) AND {same_key}"


def _newest_partition(spec: TableSpec, table: DeltaTable) -> list[tuple[str, str, Any]] | None:
    """Return delta-rs's filter for the newest month; None, which selects all, for a table without months."""
    if spec.partition_column != EVENT_MONTH:
        return None
    return [(spec.partition_column, "=", max((each[spec.partition_column] for each in table.partitions()), default=""))]


class _CommitOptions(TypedDict):
    commit_properties: CommitProperties
    post_commithook_properties: PostCommitHookProperties


def _commit_once(base: int, tag: CommitTag) -> _CommitOptions:
    """Return options for a compare-and-swap on `base`, without retries, because these would rebase on other commits.

    Expired entries of the log of `snapshot` are removed only together with a checkpoint, because each removal lists the
    log. Those of other tables are removed by maintenance.
    """
    return {
        "commit_properties": CommitProperties(max_commit_retries=0, custom_metadata={"userMetadata": tag.to_json()}),
        "post_commithook_properties": PostCommitHookProperties(
            cleanup_expired_logs=None if (base + 1) % CHECKPOINT_INTERVAL == 0 else False
        ),
    }

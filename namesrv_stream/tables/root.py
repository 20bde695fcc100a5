"""The root folder of a registry's tables, and how a table there is opened, checked and queried with delta-rs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from namesrv_stream import __version__
from namesrv_stream.errors import (
    NotARegistryError,
    StorageError,
    TableDamagedError,
    TablesTooNewError,
    TablesTooOldError,
)
from namesrv_stream.tables.schemas import BROKER_EVENT, FORMAT, LIVE, ROW_CHANGE, SNAPSHOT, TableSpec

DAY_MS = 24 * 3_600_000
HOUR_MS = DAY_MS // 24
DEFAULT_EXACT_MS = HOUR_MS
_MARGIN_MS = 600_000
"""Time by which the clocks of the job and of maintenance may differ."""

CHECKPOINT_INTERVAL = 100
"""Commits between two checkpoints of a table's log."""

_SHORT_LOG_MS = 3_600_000
"""Time for which Delta keeps the log of a table of which only the newest version is read.

On a local disk each look for a newer version lists the table's whole log: 0.1 s of CPU for a log of two months.
"""

PLAIN_READER_VERSION = 1
"""Delta's reader version at which a table's rows are exactly its files' rows: no deletion vectors, no mapped
columns."""

_WRITER_THAT_CHECKS = 3
"""Delta's writer version from which a writer must honour CHECK constraints."""

FORMAT_PROPERTY = "registry.format"
RELEASE_PROPERTY = "registry.release"
"""The release that made the table, or the last one that added a column to it."""

LOG_RETENTION_PROPERTY = "delta.logRetentionDuration"


@dataclass(frozen=True)
class Root:
    """A local folder or an object store's URL; `storage_options` are delta-rs's."""

    url: str
    storage_options: Mapping[str, str] | None = None

    @classmethod
    def at(cls, place: str | Path | Root, storage_options: Mapping[str, str] | None = None) -> Root:
        """Return the root at a folder or URL, with these options; a Root is returned as it is."""
        return place if isinstance(place, Root) else cls(str(place), storage_options)

    def uri(self, spec: TableSpec) -> str:
        """Return the URI of a table's folder."""
        return f"{self.url.rstrip('/')}/{spec.name}"

    def spark_path(self, spec: TableSpec) -> str:
        """Return the URI of a table's folder in Hadoop's spelling, valid in any working directory."""
        return f"{self.hadoop_url}/{spec.name}"

    @property
    def hadoop_url(self) -> str:
        """The root in Hadoop's spelling, which has s3a for S3."""
        url = self.url.rstrip("/")
        if "://" not in url:
            return str(Path(url).resolve())
        return f"s3a{url[2:]}" if url.startswith("s3://") else url

    def local_log(self, spec: TableSpec) -> Path | None:
        """Return the folder of a table's log if it is on this machine, else None."""
        return None if "://" in self.url else Path(self.uri(spec), "_delta_log")

    def has_data(self, spec: TableSpec) -> bool:
        """Return whether there are data files in the table's folder; for `snapshot` also of history and leases."""
        return any(map(self._has_data, (SNAPSHOT, BROKER_EVENT, ROW_CHANGE, LIVE) if spec is SNAPSHOT else (spec,)))

    def _has_data(self, spec: TableSpec) -> bool:
        try:
            store = DeltaStorageHandler(self.uri(spec), dict(self.storage_options or {}))
        except TableNotFoundError:
            return False
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - only a search for damage needs it

        found = store.get_file_info_selector(FileSelector("", allow_not_found=True, recursive=True))
        return any(each.path.endswith(".parquet") and not each.path.startswith("_") for each in found)

    def open(self, spec: TableSpec, version: int | None = None) -> DeltaTable:
        """Return the table at `version`, or at its head. Raises an error for a foreign table or a newer format.

        A missing version raises delta-rs's own error, an unreadable head a StorageError. A TableDamagedError is raised
        for data without a log, and for a missing table that a snapshot named: with `version`, or `snapshot` itself
        beside a history.
        """
        options = dict(self.storage_options) if self.storage_options else None
        try:
            table = DeltaTable(self.uri(spec), version=version, storage_options=options)
        except TableNotFoundError as error:
            if version is not None or self.has_data(spec):
                raise TableDamagedError(self.url, spec.name, -1, "_delta_log", "is missing") from error
            raise NotARegistryError(self.url, spec.name) from error
        except (DeltaError, OSError) as error:
            if version is not None:
                raise
            raise StorageError(self.url, str(error)) from error
        check_format(self, spec, table.metadata().configuration)
        return table


class OpenTables:
    """Tables that stay open, so that another version costs only a look at the log's end. Use each from one thread."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._open: dict[str, DeltaTable] = {}

    def at(self, spec: TableSpec, version: int) -> DeltaTable:
        """Return a table at a version. Raises NamesrvError if the version has a newer format."""
        table = self._open.get(spec.name)
        if table is not None and table.version() < version:
            with suppress(DeltaError):  # a commit in between is gone, or another table is in the folder
                table.update_incremental()
            check_format(self._root, spec, table.metadata().configuration)
        if table is None or table.version() != version:
            table = self._open[spec.name] = self._root.open(spec, version)
        return table

    def at_head(self, spec: TableSpec) -> DeltaTable:
        """Return a table at its newest version."""
        table = self._open.get(spec.name)
        if table is None:
            table = self._open[spec.name] = self._root.open(spec)
        else:
            table.update_incremental()
        return table

    def close(self, spec: TableSpec) -> None:
        """Forget a table, so that it is opened anew. Call this after an error, when its state is unknown."""
        self._open.pop(spec.name, None)


def select(table: DeltaTable, spec: TableSpec, condition: str = "true", then: str = "") -> pa.Table:
    """Return the rows that meet a SQL condition, with the row's columns. Files that cannot hold any are not read.

    `then` is the rest of the SQL: ORDER BY, LIMIT. The query runs by delta-rs's own SQL. pyarrow's datasets would do
    too, but importing them imports pandas, which costs a command a second.
    """
    added = "".join(f', NULL AS "{name}"' for name in missing_columns(table, spec))
    source = f"(SELECT *{added} FROM rows) AS rows" if added else "rows"
    return with_later_columns(
        spec, query(table, f"SELECT {_columns(spec.schema)} FROM {source} WHERE {condition} {then}")
    )


def with_later_columns(spec: TableSpec, rows: pa.Table) -> pa.Table:
    """Return rows with the columns of `spec`; one that a former release did not have is NULL."""
    columns = (
        rows.column(field.name) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in spec.schema
    )
    return pa.table([column.cast(field.type) for column, field in zip(columns, spec.schema, strict=True)], spec.schema)


def missing_columns(table: DeltaTable, spec: TableSpec) -> list[str]:
    """Return the columns that this version of the table lacks. They were added later and read as NULL."""
    stored = {field.name for field in table.schema().fields}
    return [name for name in spec.schema.names if name not in stored]


def batches(table: DeltaTable, schema: pa.Schema, condition: str = "true") -> pa.RecordBatchReader:
    """Return the columns of `schema` piece by piece, so that the table need not be in memory at once."""
    reader = _answer(table, f"SELECT {_columns(schema)} FROM rows WHERE {condition}")
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in reader))


def quoted(text: str) -> str:
    """Return the text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def query(table: DeltaTable, sql: str) -> pa.Table:
    """Run a SQL statement by delta-rs; the table is called `rows` in it."""
    return _answer(table, sql).read_all()


def _answer(table: DeltaTable, sql: str) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_stream(QueryBuilder().register("rows", table).execute(sql))


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f'"{name}"' for name in schema.names)


def check_format(root: Root, spec: TableSpec, properties: Mapping[str, str | None]) -> None:
    """Raise an error for a table without `registry.format`, or with another format than this code knows."""
    found = properties.get(FORMAT_PROPERTY)
    if found is None:
        raise NotARegistryError(root.url, spec.name)
    if int(found) < FORMAT:
        raise TablesTooOldError(root.url, spec.name, found)
    if int(found) > FORMAT:
        problem = f"has registry format {found}, and this release supports up to {FORMAT}"
        raise TablesTooNewError(root.url, spec.name, problem, properties.get(RELEASE_PROPERTY))


def fields_to_add(root: Root, spec: TableSpec, table: DeltaTable) -> list[pa.Field]:
    """Return the columns that the table lacks, and each struct that has a field more than in the table.

    Raises TablesTooNewError for a table with columns, or fields of structs, that this release would leave empty.
    """
    known, stored = (set(_paths(schema)) for schema in (spec.stored_schema, pa.schema(table.schema())))
    if unknown := sorted(stored - known):
        problem = f"has columns that this release does not support ({', '.join(unknown)})"
        raise TablesTooNewError(root.url, spec.name, problem, table.metadata().configuration.get(RELEASE_PROPERTY))
    return [field for field in spec.stored_schema if not stored.issuperset(_paths([field]))]


def _paths(fields: Iterable[pa.Field], above: str = "") -> Iterator[str]:
    """Yield the names of columns and, with dots, those of fields of structs."""
    for field in fields:
        yield above + field.name
        if pa.types.is_struct(field.type):
            yield from _paths(field.type, f"{above}{field.name}.")


def table_properties(spec: TableSpec, exact_ms: int = DEFAULT_EXACT_MS) -> dict[str, str]:
    """Return the properties with which a table is created.

    VACUUM removes a file `exact_ms` and some minutes after the commit that replaced it. Until then a snapshot of the
    last `exact_ms` may name it. Maintenance alone shortens the log of a table that snapshots name: Delta counts a
    version's age from its commit, and a new snapshot may name an old version. Nobody names a version of `snapshot`, so
    its log is short.
    """
    is_pinned = spec is not SNAPSHOT
    kept_ms = (exact_ms if is_pinned else _SHORT_LOG_MS) + _MARGIN_MS
    return {
        FORMAT_PROPERTY: str(FORMAT),
        RELEASE_PROPERTY: __version__,
        "delta.enableDeletionVectors": "false",  # delta-rs counts them wrongly and refuses such tables
        "delta.deletedFileRetentionDuration": f"interval {kept_ms // 1000} seconds",
        LOG_RETENTION_PROPERTY: f"interval {kept_ms // 1000} seconds",
        "delta.enableExpiredLogCleanup": str(not is_pinned).lower(),
        "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
    }


def constraint_properties(spec: TableSpec) -> dict[str, str]:
    """Return the properties with which a table is created so that Delta checks its constraints at every write."""
    if not spec.checks:
        return {}
    checks = {f"delta.constraints.{name}": condition for name, condition in spec.checks.items()}
    return {"delta.minWriterVersion": str(_WRITER_THAT_CHECKS), **checks}

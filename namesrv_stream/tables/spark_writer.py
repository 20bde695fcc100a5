"""Delta-spark: distributed merges, and every storage that Hadoop reaches. About a second a commit, however small.

Delta rebases a commit on what others committed first where it can; here it may not, for a snapshot names exact
versions: its retries are switched off and the log is looked at afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow, with_partition_column
from namesrv_stream.tables.root import FORMAT_PROPERTY, RETENTION_PROPERTY, Root, check_format, table_properties
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    FORMAT,
    SMALL_EVENT_FILE_BYTES,
    SNAPSHOT,
    TABLES,
    TableSpec,
)
from namesrv_stream.tables.writer import DELETED, BaseMovedError, Commit, CommitTag, RowChanges

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_COMMIT_ONCE = {"spark.databricks.delta.maxCommitAttempts": "0", "spark.sql.session.timeZone": "UTC"}
_COMPACT_SMALL = dict.fromkeys(
    ("spark.databricks.delta.optimize.minFileSize", "spark.databricks.delta.optimize.maxFileSize"),
    str(SMALL_EVENT_FILE_BYTES),
)


class SparkWriter:
    """A TableWriter by delta-spark. Each table has a session of its own: merges of several tables run side by side,
    and the commit's tag is a session's setting.
    """

    def __init__(self, spark: SparkSession, root: Root) -> None:
        self._spark = spark
        self._root = root
        self._sessions: dict[str, SparkSession] = {}

    def ensure_tables(self, retention_ms: int) -> None:
        for spec in TABLES.values():
            if not DeltaTable.isDeltaTable(self._session(spec), self._root.spark_path(spec)):
                self._create(spec, retention_ms)
            self._set_retention(spec, retention_ms)

    def head(self, spec: TableSpec) -> int:
        version: int = self._table(spec).history(1).collect()[0]["version"]
        return version

    def commits(self, spec: TableSpec, after: int) -> list[Commit]:
        newer = self.head(spec) - after
        if newer <= 0:
            return []
        columns = ("version", "operation", "operationParameters", "userMetadata")
        history = self._table(spec).history(newer).select(*columns, F.unix_millis("timestamp").alias("timestamp"))
        return [Commit.of(row.asDict()) for row in history.collect()]

    def read(self, spec: TableSpec, version: int) -> pa.Table:
        return self._at(spec, version).select(*spec.schema.names).toArrow().cast(spec.schema)

    def newest_snapshot(self) -> tuple[SnapshotRow | None, int]:
        version = self.head(SNAPSHOT)
        newest = self._at(SNAPSHOT, version).orderBy(F.desc("epoch")).limit(1)
        rows = rows_from_arrow(SNAPSHOT, newest.toArrow().cast(SNAPSHOT.schema))
        return (rows[0] if rows else None), version

    def merge(self, spec: TableSpec, base: int, changes: RowChanges, tag: CommitTag) -> int:
        same_key = " AND ".join(f"target.{name} = source.{name}" for name in spec.key)
        columns: dict[str, str | Column] = {name: f"source.{name}" for name in spec.schema.names}
        with self._on(spec, base, tag) as session:
            source = session.createDataFrame(changes.merge_source(spec)).alias("source")
            merger = self._table(spec).alias("target").merge(source, same_key)
            merger = merger.whenMatchedDelete(f"source.{DELETED}").whenMatchedUpdate(set=columns)
            merger.whenNotMatchedInsert(f"NOT source.{DELETED}", values=columns).execute()
        return self._landed(spec, base, tag)

    def append(self, spec: TableSpec, base: int, rows: pa.Table, tag: CommitTag) -> int:
        if not len(rows):
            return base
        with self._on(spec, base, tag) as session:
            frame = session.createDataFrame(with_partition_column(spec, rows))
            frame.write.format("delta").mode("append").save(self._root.spark_path(spec))
        return self._landed(spec, base, tag)

    def touch(self, spec: TableSpec, base: int, tag: CommitTag) -> int:
        with self._on(spec, base, tag):  # appending nothing makes no commit; saying a property again does
            self._set_properties(spec, {FORMAT_PROPERTY: str(FORMAT)})
        return self._landed(spec, base, tag)

    def restore(self, spec: TableSpec, head: int, version: int, tag: CommitTag) -> int:
        with self._on(spec, head, tag):
            self._table(spec).restoreToVersion(version)
        return self._landed(spec, head, tag)

    def file_count(self, spec: TableSpec, version: int) -> int:
        return len(self._at(spec, version).where(self._newest_partition(spec, version)).inputFiles())

    def compact(self, spec: TableSpec, base: int) -> int:
        with self._on(spec, base, None):
            self._table(spec).optimize().where(self._newest_partition(spec, base)).executeCompaction()
        return self._landed(spec, base, None)

    def _newest_partition(self, spec: TableSpec, version: int) -> str:
        """As SQL; the whole of a table without partitions."""
        if spec.partition_column is None:
            return "true"
        newest = self._at(spec, version).agg(F.max(spec.partition_column)).collect()[0][0]
        return f"{spec.partition_column} = '{newest}'"

    def _session(self, spec: TableSpec) -> SparkSession:
        if spec.name not in self._sessions:
            session = self._spark.newSession()
            for name, value in (_COMMIT_ONCE | (_COMPACT_SMALL if spec is BROKER_EVENT else {})).items():
                session.conf.set(name, value)
            self._sessions[spec.name] = session
        return self._sessions[spec.name]

    def _table(self, spec: TableSpec) -> DeltaTable:
        return DeltaTable.forPath(self._session(spec), self._root.spark_path(spec))

    def _at(self, spec: TableSpec, version: int) -> DataFrame:
        reader = self._session(spec).read.format("delta").option("versionAsOf", version)
        return reader.load(self._root.spark_path(spec))

    @contextmanager
    def _on(self, spec: TableSpec, base: int, tag: CommitTag | None) -> Iterator[SparkSession]:
        """The table's session, for one write whose commit carries `tag`. A write that fails because the table is
        not at `base` any more raises BaseMovedError.
        """
        session = self._session(spec)
        if self.head(spec) != base:
            raise BaseMovedError(spec.name, base)
        if tag is not None:
            session.conf.set(_USER_METADATA, tag.to_json())
        try:
            yield session
        except PySparkException as error:
            if self.head(spec) != base:
                raise BaseMovedError(spec.name, base) from error
            raise
        finally:
            session.conf.unset(_USER_METADATA)

    def _landed(self, spec: TableSpec, base: int, tag: CommitTag | None) -> int:
        """The version of our commit on `base`; `base` itself where the write had no effect."""
        said = tag.to_json() if tag is not None else None
        match self.commits(spec, base):
            case []:
                return base
            case [*_, first] if first.version == base + 1 and first.user_metadata == said:
                return first.version
            case _:
                raise BaseMovedError(spec.name, base)

    def _create(self, spec: TableSpec, retention_ms: int) -> None:
        session = self._session(spec)
        builder = DeltaTable.createIfNotExists(session).location(self._root.spark_path(spec))
        builder = builder.addColumns(from_arrow_schema(spec.stored_schema))
        if spec.partition_column is not None:
            builder = builder.partitionedBy(spec.partition_column)
        for name, value in table_properties(spec, retention_ms).items():
            builder = builder.property(name, value)
        builder.execute()

    def _set_retention(self, spec: TableSpec, retention_ms: int) -> None:
        properties = self._table(spec).detail().collect()[0]["properties"]
        check_format(self._root, spec, properties)
        if properties.get(RETENTION_PROPERTY) != str(retention_ms):
            self._set_properties(spec, table_properties(spec, retention_ms))

    def _set_properties(self, spec: TableSpec, properties: dict[str, str]) -> None:
        wanted = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self._session(spec).sql(f"ALTER TABLE delta.`{self._root.spark_path(spec)}` SET TBLPROPERTIES ({wanted})")

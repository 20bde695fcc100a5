"""Register the tables of one snapshot as Spark views, which analysts query with Spark SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.arrow import with_partition_column
from namesrv_stream.tables.as_of import rows_until
from namesrv_stream.tables.object_store import give_spark_access
from namesrv_stream.tables.pinned import PinnedTables, open_tables
from namesrv_stream.tables.root import PLAIN_READER_VERSION, Root, missing_columns
from namesrv_stream.tables.schemas import PINNED_TABLES, SNAPSHOT, TableSpec, type_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession  # callers that need only the SQL text have no Spark

VIEWS = PINNED_TABLES

_GLOB_CHARACTERS = re.compile(r"[\\*?{}\[\]]")


def open_snapshot(
    spark: SparkSession,
    root: str | Path | Root,
    epoch: int | None = None,
    at: datetime | int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SnapshotRow:
    """Register each table of VIEWS as a temporary view as of one moment, and return the moment's row.

    The moment is the newest snapshot, `epoch`, or the event time `at` (a datetime or epoch milliseconds). Of a past
    moment, tables that differ from the newest ones are in the session's memory. A later call in the
    same session moves these views to another moment. Views over them, which `register_views` makes, stay at theirs.

    `storage_options` are the settings `delta.storage.*` for a root that is given by its URL; Spark gets them too.
    """
    place = Root.at(root, storage_options)
    give_spark_access(spark, place)
    tables = open_tables(place, epoch, at)
    for spec in VIEWS:
        rows_of(spark, place, tables, spec).createOrReplaceTempView(spec.name)
    return tables.snapshot


def rows_of(spark: SparkSession, root: Root, tables: PinnedTables, spec: TableSpec) -> DataFrame:
    """Return a table of VIEWS or the table `snapshot` at the moment of `tables`."""
    made = tables.made(spec)
    if made is not None:
        return spark.createDataFrame(with_partition_column(spec, made))
    condition = spark_sql_of(rows_until(spec, tables.snapshot))
    if spec is SNAPSHOT:
        return table_as_of(spark, root, spec).where(f"epoch <= {tables.snapshot.epoch}")
    return table_as_of(spark, root, spec, tables.snapshot.versions[spec.name]).where(condition)


def spark_sql_of(condition: str) -> str:
    """Return a condition of delta-rs's SQL in Spark's."""
    return condition.replace("to_timestamp_millis(", "timestamp_millis(")


def table_as_of(spark: SparkSession, root: Root, spec: TableSpec, version: int | None = None) -> DataFrame:
    """Return a table at `version`, or as it is now.

    Spark reads the files of this version as Parquet. Delta's own reader would run several Spark jobs for each table and
    condition to find them: half the time of a new session's first question.
    """
    table = root.open(spec, version)
    files = pa.table(table.get_add_actions()).to_pylist()
    if table.protocol().min_reader_version > PLAIN_READER_VERSION or not all(
        _names_its_partition(file) for file in files
    ):
        return spark.sql(_sql(root, table, version, spec))
    paths = [file["path"] for file in files]
    return _rows_of(spark, root.spark_path(spec), paths, table.schema().to_json()).selectExpr(*_columns(table, spec))


def _names_its_partition(file: Mapping[str, Any]) -> bool:
    """Return whether a file's folder names its partition, where Spark reads it. Delta does not require such folders."""
    folders = "".join(f"{column}={value}/" for column, value in file.get("partition", {}).items())
    return bool(re.fullmatch(f"{re.escape(folders)}[^/]+", file["path"]))


def _rows_of(spark: SparkSession, folder: str, files: list[str], schema_json: str) -> DataFrame:
    """Return the rows of a table's files. `schema_json` is Delta's text for a schema, which is Spark's too."""
    from pyspark.sql.types import StructType  # noqa: PLC0415 -- callers that need only the SQL text have no Spark

    schema = StructType.fromJson(json.loads(schema_json))
    if not files:
        return spark.createDataFrame([], schema).where("false")  # the condition shows Spark that there is no row
    paths = [_GLOB_CHARACTERS.sub(r"\\\g<0>", f"{folder}/{file}") for file in files]
    rows = spark.read.schema(schema).option("basePath", folder).parquet(*paths)
    return rows.select(*schema.names)  # Spark puts a partition column last


def table_sql(root: Root, spec: TableSpec, version: int | None = None) -> str:
    """Return the Spark SQL that selects a table at `version`, or as it is now.

    A column that a former release did not have reads as NULL.
    """
    return _sql(root, root.open(spec, version), version, spec)


def _sql(root: Root, table: DeltaTable, version: int | None, spec: TableSpec) -> str:
    columns = ", ".join(_columns(table, spec))
    pinned = "" if version is None else f" VERSION AS OF {version}"
    return f"SELECT {columns} FROM delta.`{root.spark_path(spec)}`{pinned}"


def _columns(table: DeltaTable, spec: TableSpec) -> list[str]:
    missing = [spec.schema.field(name) for name in missing_columns(table, spec)]
    return ["*", *(f"CAST(NULL AS {type_name(column.type)}) AS {column.name}" for column in missing)]

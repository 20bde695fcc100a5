"""Register the tables of one snapshot and the views of the history, which analysts query with Spark SQL.

views.sql states each view's grain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

import pyarrow as pa
from deltalake import DeltaTable

from namesrv_stream.errors import NamesrvError, did_you_mean
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.arrow import with_partition_column
from namesrv_stream.tables.as_of import rows_until
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.object_store import give_spark_access
from namesrv_stream.tables.registry import open_tables
from namesrv_stream.tables.root import PLAIN_READER_VERSION, Root, missing_columns
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    PINNED_TABLES,
    REJECTED,
    ROW_CHANGE,
    SNAPSHOT,
    TableSpec,
    type_name,
)
from namesrv_stream.tables.snapshots import SnapshotTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession  # callers that need only the SQL text have no Spark

VIEWS = PINNED_TABLES

_GLOB_CHARACTERS = re.compile(r"[\\*?{}\[\]]")

_SOURCE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
_CREATE_VIEW = re.compile(r"CREATE OR REPLACE TEMPORARY VIEW (\w+) AS\s")


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


def rows_of(spark: SparkSession, root: Root, tables: RegistryAt, spec: TableSpec) -> DataFrame:
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


def register_views(  # noqa: PLR0913 -- open_snapshot's arguments and one more
    spark: SparkSession,
    root: str | Path | Root,
    epoch: int | None = None,
    at: datetime | int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    only: Collection[str] | None = None,
    zone: str = "UTC",
) -> SnapshotRow:
    """Register the tables of one moment, as `open_snapshot` does, and the views of views.sql over them.

    Returns the snapshot's row. A further call moves all views to another snapshot. `open_snapshot` moves only the
    tables; the views of views.sql stay at their snapshot.

    With `only`, register or move only the views and tables that it names, and their sources. This is faster if a
    session asks one question. Other views stay at their snapshot. Raises NamesrvError if `only` has an unknown name.
    `zone` is that of the views of local days and hours.
    """
    place = Root.at(root, storage_options)
    give_spark_access(spark, place)
    tables = open_tables(place, epoch, at)
    unknown = UnknownPast.reaching(tables.snapshot)
    queries = history_queries(zone, unknown)
    if unknown is not None:
        unknown.warn_of_views()
    wanted = wanted_views(queries, {spec.name for spec in sources(tables.snapshot)}, only)
    for spec in (*VIEWS, SNAPSHOT):
        if spec.name in wanted:
            rows_of(spark, place, tables, spec).createOrReplaceTempView(spec.name)
    for name, text in queries.items():
        if name in wanted:
            # Registered as an analysed plan, so that a question does not analyse this view again.
            spark.sql(text).createOrReplaceTempView(name)
    return tables.snapshot


def wanted_views(queries: Mapping[str, str], tables: set[str], only: Collection[str] | None) -> set[str]:
    """Return the names in `only` and of all views and tables that they read. If `only` is None, return all names."""
    known = tables | queries.keys()
    if only is None:
        return known
    wanted = {only} if isinstance(only, str) else set(only)
    if unknown := wanted - known:
        raise NamesrvError(
            f"no view or table is named {' or '.join(sorted(unknown))}. {did_you_mean(min(unknown), known)}"
            f"Use one of {', '.join(sorted(known))}."
        )
    for name in reversed(list(queries)):  # a view reads only those before it
        if name in wanted:
            wanted.update(_SOURCE.findall(queries[name]))
    return wanted


def sources(snapshot: SnapshotRow) -> dict[TableSpec, tuple[int | None, str]]:
    """Return each table's version in the snapshot and the SQL condition of its rows up to the snapshot.

    No version of the table `snapshot` is pinned, since its rows are only appended.
    """
    tables: dict[TableSpec, tuple[int | None, str]] = {spec: (snapshot.versions[spec.name], "true") for spec in VIEWS}
    until = "false" if snapshot.event_time is None else f"event_time <= '{iso_text(snapshot.event_time)}'"
    tables[REJECTED] = (snapshot.versions[REJECTED.name], until)
    for spec in (BROKER_EVENT, ROW_CHANGE):
        tables[spec] = (snapshot.versions[spec.name], f"epoch <= {snapshot.epoch}")
    tables[SNAPSHOT] = (None, f"epoch <= {snapshot.epoch}")
    return tables


def history_sql(
    root: str | Path | Root, snapshot: SnapshotRow, *, only: Collection[str] | None = None, zone: str = "UTC"
) -> list[str]:
    """Return the SQL statements of `register_views`, for a plain spark-sql or a notebook without this package.

    `only`, `zone` and errors are those of `register_views`.
    """
    place = Root.at(root)
    pinned = {
        spec.name: table_sql(place, spec, version) + (f" WHERE {condition}" if condition != "true" else "")
        for spec, (version, condition) in sources(snapshot).items()
    }
    views = history_queries(zone, UnknownPast.reaching(snapshot._replace(holes=SnapshotTable(place).newest().holes)))
    wanted = wanted_views(views, set(pinned), only)
    return [_view(name, text) for name, text in {**pinned, **views}.items() if name in wanted]


def _view(name: str, query: str) -> str:
    return f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {query}"


def permanent_sql(
    root: str | Path | Root,
    snapshot: SnapshotRow,
    schema: str,
    *,
    only: Collection[str] | None = None,
    zone: str = "UTC",
) -> list[str]:
    """Return the SQL statements that make the same views permanent in a schema of a metastore, for a Thrift server.

    A permanent view is pinned as a temporary one is. Run the statements again to move the views to a newer snapshot.
    """
    statements = history_sql(root, snapshot, only=only, zone=zone)
    views = [statement.replace(" TEMPORARY VIEW ", " VIEW ", 1) for statement in statements]
    return [f"CREATE SCHEMA IF NOT EXISTS `{schema}`", f"USE `{schema}`", *views]


def create_views(  # noqa: PLR0913 -- those of register_views
    spark: SparkSession,
    root: str | Path | Root,
    schema: str,
    epoch: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    zone: str = "UTC",
) -> SnapshotRow:
    """Make the views of `register_views` permanent in a schema of the session's metastore, or move them.

    Returns the snapshot's row. `zone` is that of the views of local days and hours. A query of several views that runs
    meanwhile may see two snapshots.
    """
    place = Root.at(root, storage_options)
    give_spark_access(spark, place)
    snapshot = SnapshotTable(place).find(epoch)
    session = spark.newSession()  # permanent views must not refer to temporary ones of the same name
    for statement in permanent_sql(place, snapshot, schema, zone=zone):
        session.sql(statement)
    return snapshot


def history_queries(zone: str = "UTC", unknown: UnknownPast | None = None) -> dict[str, str]:
    """Return name -> query of each view of views.sql, local days in `zone`. A view comes after those that it reads.

    `unknown`: a stretch of the history that has lost rows. The views begin after it.

    Raises NamesrvError if there is no such zone. No comment or literal in that file holds a semicolon.
    """
    if zone not in available_timezones():
        raise NamesrvError(f"no time zone '{zone}'. Use a name such as Europe/Berlin.")
    text = files("namesrv_stream.analysis").joinpath("views.sql").read_text("utf-8").replace("'UTC'", f"'{zone}'")
    if unknown is not None:
        text = text.replace("0 /*lost_epoch*/", str(unknown.to_epoch))
        text = text.replace("NULL /*lost_ms*/", str(unknown.until_millis))
    statements = (statement.strip() for statement in text.split(";") if statement.strip())
    return dict(_CREATE_VIEW.split(statement, maxsplit=1)[1:] for statement in statements)

"""The views of the history without Spark and Java: in DuckDB, and from there in Arrow, polars and pandas.

They are those of analysis/views.sql, in which this module adds the few functions that DuckDB does not have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from deltalake.exceptions import DeltaError

from namesrv_stream.analysis.views import VIEWS, history_queries, sources, spark_sql_of, wanted_views
from namesrv_stream.errors import NamesrvError, did_you_mean
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.arrow import with_partition_column
from namesrv_stream.tables.as_of import rows_until
from namesrv_stream.tables.damage import require_whole
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.registry import open_tables
from namesrv_stream.tables.root import Root, query, quoted
from namesrv_stream.tables.schemas import ROUTE_TABLES, SNAPSHOT, TableSpec

_WHOLE = frozenset({"known_from", "known_until", *(spec.name for spec in (*ROUTE_TABLES, SNAPSHOT))})
"""Views and tables that lack nothing after a hole in the history."""

_THREADS = 1
"""Threads of one question: a console answers several at once, and each thread has memory of its own."""

_NO_LOCAL_PATH = re.compile(r"://|[*?\[]")
"""Matches a URL, and a path that DuckDB would take for a pattern."""

_MACROS = """
date_from_unix_date(days) AS DATE '1970-01-01' + days
explode(list) AS unnest(list)
get_json_object(text, path) AS CASE WHEN json_valid(text) THEN json_extract_string(text, path) END
from_utc_timestamp(time, zone) AS timezone(zone, time)
sequence(first, last) AS generate_series(first, last)
timestamp_millis(ms) AS make_timestamptz(CAST(ms * 1000 AS BIGINT))
try_validate_utf8(text) AS try(decode(CAST(text AS BLOB)))
unix_millis(time) AS epoch_ms(time)
url_encode(text) AS replace(replace(replace(system.main.url_encode(text), '%20', '+'), '%2A', '*'), '~', '%7E')
xxhash64(a, b, c) AS hash(a, b, c)
"""
"""Functions of Spark in views.sql that DuckDB lacks, or has with another meaning, one a line."""


def register_views(  # noqa: PLR0913 -- as Spark's
    db: duckdb.DuckDBPyConnection,
    root: str | Path | Root,
    epoch: int | None = None,
    at: datetime | int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    only: Collection[str] | None = None,
    kept: Collection[str] = (),
    zone: str = "UTC",
) -> SnapshotRow:
    """Make temporary views of one snapshot, and those of views.sql, in DuckDB, and set the connection's zone to UTC.

    Returns the snapshot's row. The arguments are those of `namesrv_stream.analysis.views.register_views`, and a further
    call moves the views in the same way. A file is read when a query needs its rows. The views in `kept` are computed
    now and become tables, for several questions. The time zone is that of the whole connection: with another one, casts
    of times to days would not be those of the views.
    """
    return _registered(db, open_tables(root, epoch, at, storage_options), only, kept, zone)


def _registered(
    db: duckdb.DuckDBPyConnection,
    tables: RegistryAt,
    only: Collection[str] | None,
    kept: Collection[str],
    zone: str,
) -> SnapshotRow:
    unknown = tables.unknown
    queries, stored = history_queries(zone, unknown), sources(tables.snapshot)
    names = wanted_views(queries, {spec.name for spec in stored}, only)
    db.execute("SET TimeZone = 'UTC'")
    for function in _MACROS.strip().splitlines():
        db.execute(f"CREATE OR REPLACE TEMP MACRO {function}")
    for spec, (version, condition) in stored.items():
        if spec.name in names:
            made = tables.made(spec)
            if made is None:
                until = spark_sql_of(rows_until(spec, tables.snapshot))
                _register_table(db, tables.root, spec, version, f"{condition} AND {until}")
            else:
                _register_rows(db, spec, with_partition_column(spec, made))
    for name, text in queries.items():
        if name in names:
            kind = "TABLE" if name in kept else "VIEW"
            db.execute(f"CREATE OR REPLACE TEMP {kind} {name} AS {text}")
    return tables.snapshot


def ask(  # noqa: PLR0913  # as register_views
    root: str | Path | Root,
    statement: str,
    epoch: int | None = None,
    at: datetime | int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    zone: str = "UTC",
) -> pa.Table:
    """Return the answer of a statement in DuckDB's SQL about the tables and views of one snapshot.

    The statement can be as short as "FROM broker_availability". For polars use `pl.from_arrow(answer)`, for pandas
    `answer.to_pandas()`. `zone` is that of local_hour, local_day and broker_local_availability. Raises NamesrvError if
    it is not one statement, or names a view that there is not.
    """
    _require_one(statement)
    with opened(open_tables(root, epoch, at, storage_options), only=names_in(statement), zone=zone) as views:
        if (unknown := UnknownPast.reaching(views.snapshot)) is not None and names_in(statement) - _WHOLE:
            unknown.warn_of_views()
        try:
            return views.table(statement)
        except duckdb.CatalogException as error:
            raise _unknown_name(error) from error


def _require_one(statement: str) -> None:
    """Raise NamesrvError for no statement, or for several, of which DuckDB would answer the last."""
    try:
        count = len(duckdb.extract_statements(statement))
    except duckdb.ParserException:
        return  # which names the place, as it is asked
    if count != 1:
        raise NamesrvError(f"expected one SQL statement, not {count or 'none'}. Ask them one by one.")


def _unknown_name(error: duckdb.CatalogException) -> Exception:
    """Return an error with the views that are most like an unknown one, or the error itself if it is another one."""
    found = re.search(r"Table with name (.+?) does not exist", str(error))
    if found is None:
        return error
    known = [*history_queries(), *(spec.name for spec in (*VIEWS, SNAPSHOT))]
    advice = did_you_mean(found[1], known, most=3) or f"There are {', '.join(known)}. "
    return NamesrvError(f"no view or table '{found[1]}'. {advice}docs/tables.md and views.sql describe them.")


def names_in(*statements: str) -> set[str]:
    """Return the views and tables that statements name."""
    known = {*history_queries(), *(spec.name for spec in (*VIEWS, SNAPSHOT))}
    return known & {word.lower() for statement in statements for word in re.findall(r"\w+", statement)}


@contextmanager
def opened(
    tables: RegistryAt, *, only: Collection[str] | None = None, kept: Collection[str] = (), zone: str = "UTC"
) -> Iterator[Views]:
    """Yield the views of one moment, for several statements; further arguments are those of `register_views`.

    Raises TableDamagedError if a file that they read is damaged.
    """
    with duckdb.connect(config={"threads": _THREADS}) as db:
        try:
            yield Views(db, _registered(db, tables, only, kept, zone))
        except (duckdb.Error, DeltaError):
            require_whole(tables.root, VIEWS)
            raise


class Views(NamedTuple):
    """The tables and views of one snapshot in DuckDB."""

    db: duckdb.DuckDBPyConnection
    snapshot: SnapshotRow

    def table(self, statement: str) -> pa.Table:
        """Return the answer of a statement."""
        return self.db.sql(statement).to_arrow_table()

    def rows(self, statement: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, in which `$name` stands for one of `values`."""
        used = {name: value for name, value in values.items() if f"${name}" in statement}
        return self.db.execute(statement, used).fetchall()


def _register_table(
    db: duckdb.DuckDBPyConnection, root: Root, spec: TableSpec, version: int | None, condition: str
) -> None:
    """Make a view of a table's rows. A column that a former release did not have is NULL.

    DuckDB reads the files of a local folder itself, and only the parts of them that a query needs.
    """
    table = root.open(spec, version)
    columns, rows = f"columns_of_{spec.name}", f"rows_of_{spec.name}"
    db.register(columns, spec.stored_schema.empty_table())
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    paths = [f"{root.spark_path(spec)}/{each['path']}" for each in files]
    if any(_NO_LOCAL_PATH.search(path) for path in paths):
        read = query(table, "SELECT * FROM rows")
        db.register(rows, read.cast(pa.schema([spec.stored_schema.field(name) for name in read.column_names])))
    else:
        rows = _files_read(spec, paths, [each.get(f"partition.{spec.partition_column}") for each in files])
    both = f"FROM {columns} UNION ALL BY NAME FROM {rows}" if paths else f"FROM {columns}"
    db.execute(f"CREATE OR REPLACE TEMP VIEW {spec.name} AS SELECT * FROM ({both}) WHERE {condition}")


def _register_rows(db: duckdb.DuckDBPyConnection, spec: TableSpec, rows: pa.Table) -> None:
    """Make a view of rows in memory."""
    db.register(f"rows_of_{spec.name}", rows)
    db.execute(f"CREATE OR REPLACE TEMP VIEW {spec.name} AS FROM rows_of_{spec.name}")


def _files_read(spec: TableSpec, paths: Sequence[str], partitions: Sequence[str | None]) -> str:
    """Return SQL that reads the files. The partition's value comes from Delta, not from the names of folders."""
    column, of_value = spec.partition_column, dict[str | None, list[str]]()
    for path, value in zip(paths, partitions, strict=True):
        of_value.setdefault(value, []).append(quoted(path))
    reads = []
    for value, names in of_value.items():
        own = f", {'NULL' if value is None else quoted(value)} AS {column}" if column else ""
        # Spark writes the partition column into the files, too, and delta-rs does not.
        stored = f"COLUMNS(lambda name: name <> '{column}')" if column else "*"
        files = f"read_parquet([{', '.join(names)}], hive_partitioning = false, union_by_name = true)"
        reads.append(f"SELECT {stored}{own} FROM {files}")
    return f"({' UNION ALL BY NAME '.join(reads)})"

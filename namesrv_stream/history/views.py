"""Register the Spark views of the history, which analysts query with Spark SQL. views.sql states each view's grain."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_stream.errors import NamesrvError, NotARegistryError
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.object_store import give_spark_access
from namesrv_stream.tables.pinned import PUBLICATION, open_tables
from namesrv_stream.tables.root import Root, is_there, query
from namesrv_stream.tables.schemas import (
    BACK_MONTH,
    BROKER_EVENT,
    EVENT_MONTH,
    NOT_BACK,
    PAST_SESSION,
    PAST_SNAPSHOT,
    REJECTED,
    SNAPSHOT,
    TableSpec,
)
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.tables.spark_views import VIEWS, rows_of, table_as_of, table_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # `history_sql` needs no Spark in the process

LATEST_OF_BROKERS = f"{BACK_MONTH} = '{NOT_BACK}'"
"""SQL condition of the latest session of each broker."""

_AFTER_ALL_MONTHS = "9999-99"

_SOURCE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
_CREATE_VIEW = re.compile(r"CREATE OR REPLACE TEMPORARY VIEW (\w+) AS\s")
_OF_PAST_SESSIONS = re.compile(r"-- <past_session>\n.*?-- </past_session>\n", re.DOTALL)


def register_views(  # noqa: PLR0913 -- open_snapshot's arguments and one more
    spark: SparkSession,
    root: str | Path | Root,
    epoch: int | None = None,
    at: datetime | int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    only: Collection[str] | None = None,
) -> SnapshotRow:
    """Register the tables of one moment, as `open_snapshot` does, and the views of views.sql over them.

    Returns the snapshot's row. A further call moves all views to another snapshot. `open_snapshot` moves only the
    tables; the views of views.sql stay at their snapshot.

    With `only`, register or move only the views and tables that it names, and their sources. This is faster if a
    session asks one question. Other views stay at their snapshot. Raises NamesrvError if `only` has an unknown name.
    """
    place = Root.at(root, storage_options)
    give_spark_access(spark, place)
    tables = open_tables(place, epoch, at)
    past = past_sessions(place, tables.whole)
    queries = _queries([_publications(place), *_view_statements(past)])
    wanted = wanted_views(queries, {spec.name for spec in sources(tables.snapshot, past)}, only)
    for spec in (*VIEWS, SNAPSHOT):
        if spec.name in wanted:
            rows_of(spark, place, tables, spec).createOrReplaceTempView(spec.name)
    if past is not None and PAST_SESSION.name in wanted:
        kept = table_as_of(spark, place, PAST_SESSION, past.version)
        kept.where(past.condition).createOrReplaceTempView(PAST_SESSION.name)
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
            f"no view or table is called {' or '.join(sorted(unknown))}. `only` may name {', '.join(sorted(known))}."
        )
    for name in reversed(list(queries)):  # a view reads only those before it
        if name in wanted:
            wanted.update(_SOURCE.findall(queries[name]))
    return wanted


def sources(snapshot: SnapshotRow, past: PastSessions | None) -> dict[TableSpec, tuple[int | None, str]]:
    """Return each table's version in the snapshot and the SQL condition of its rows up to the snapshot.

    No version of the table `snapshot` is pinned, since its rows are only appended.
    """
    tables: dict[TableSpec, tuple[int | None, str]] = {spec: (snapshot.versions[spec.name], "true") for spec in VIEWS}
    until = "false" if snapshot.event_time is None else f"event_time <= '{iso_text(snapshot.event_time)}'"
    tables[REJECTED] = (snapshot.versions[REJECTED.name], until)
    tables[BROKER_EVENT] = (snapshot.versions[BROKER_EVENT.name], f"epoch <= {snapshot.epoch}")
    tables[SNAPSHOT] = (None, f"epoch <= {snapshot.epoch}")
    return tables if past is None else {**tables, PAST_SESSION: (past.version, past.condition)}


def history_sql(root: str | Path | Root, snapshot: SnapshotRow, *, only: Collection[str] | None = None) -> list[str]:
    """Return the SQL statements of `register_views`, for a plain spark-sql or a notebook without this package.

    `only` and errors are those of `register_views`.
    """
    place = Root.at(root)
    past = past_sessions(place, snapshot)
    pinned = {
        spec.name: table_sql(place, spec, version) + (f" WHERE {condition}" if condition != "true" else "")
        for spec, (version, condition) in sources(snapshot, past).items()
    }
    views = _queries([_publications(place), *_view_statements(past)])
    wanted = wanted_views(views, set(pinned), only)
    return [_view(name, text) for name, text in {**pinned, **views}.items() if name in wanted]


def _view(name: str, query: str) -> str:
    return f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {query}"


def permanent_sql(
    root: str | Path | Root, snapshot: SnapshotRow, schema: str, *, only: Collection[str] | None = None
) -> list[str]:
    """Return the SQL statements that make the same views permanent in a schema of a metastore, for a Thrift server.

    A permanent view is pinned as a temporary one is. Run the statements again to move the views to a newer snapshot.
    """
    views = [statement.replace(" TEMPORARY VIEW ", " VIEW ", 1) for statement in history_sql(root, snapshot, only=only)]
    return [f"CREATE SCHEMA IF NOT EXISTS `{schema}`", f"USE `{schema}`", *views]


def create_views(
    spark: SparkSession,
    root: str | Path | Root,
    schema: str,
    epoch: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SnapshotRow:
    """Make the views of `register_views` permanent in a schema of the session's metastore, or move them.

    Returns the snapshot's row. A query of several views that runs meanwhile may see two snapshots.
    """
    place = Root.at(root, storage_options)
    give_spark_access(spark, place)
    snapshot = Snapshots(place).find(epoch)
    session = spark.newSession()  # permanent views must not refer to temporary ones of the same name
    for statement in permanent_sql(place, snapshot, schema):
        session.sql(statement)
    return snapshot


def history_queries(past: PastSessions | None) -> dict[str, str]:
    """Return name -> query of each view of views.sql. A view comes after those that it reads."""
    return _queries(_view_statements(past))


def _queries(statements: Iterable[str]) -> dict[str, str]:
    return dict(_CREATE_VIEW.split(statement, maxsplit=1)[1:] for statement in statements)


def _publications(root: Root) -> str:
    """Return the statement of the view `publication`: one row for each epoch, readable or not.

    Rows of `past_snapshot` that are still in `snapshot` are left out. Maintenance adds a row to the one before it drops
    the row from the other, and may have died in between.
    """
    columns = ", ".join(PAST_SNAPSHOT.schema.names)
    kept = f"SELECT {columns}, true AS is_kept FROM {SNAPSHOT.name}"
    past = (
        f" UNION ALL SELECT {columns}, false FROM delta.`{root.spark_path(PAST_SNAPSHOT)}` "
        f"WHERE epoch NOT IN (SELECT epoch FROM {SNAPSHOT.name})"
    )
    return _view(PUBLICATION, kept + (past if is_there(root, PAST_SNAPSHOT) else ""))


def _view_statements(past: PastSessions | None) -> list[str]:
    """Return the statements of views.sql. No comment or literal in that file holds a semicolon.

    The view `recent_event` has the lines of the history that are newer than `past_session`.
    """
    text = files("namesrv_stream.history").joinpath("views.sql").read_text("utf-8")
    if past is None:
        text = _OF_PAST_SESSIONS.sub("", text).replace("recent_event", BROKER_EVENT.name)
    found = [statement.strip() for statement in text.split(";") if statement.strip()]
    recent = [] if past is None else [f"SELECT * FROM {BROKER_EVENT.name} WHERE {past.lines_since}"]
    return [*(_view("recent_event", lines) for lines in recent), *found]


class PastSessions(NamedTuple):
    """The state of the table `past_session`: its version, and the epoch up to which it has the sessions.

    `first_month`: all lines after that epoch are of this month or later.
    """

    version: int
    epoch: int
    first_month: str

    @property
    def condition(self) -> str:
        """The SQL condition of the sessions that count. A run of maintenance that died may have left later ones."""
        return f"as_of_epoch <= {self.epoch}"

    @property
    def lines_since(self) -> str:
        """The SQL condition of the newer lines of the history. Files of older months are not read."""
        return f"epoch > {self.epoch} AND {EVENT_MONTH} >= '{self.first_month}'"


def past_sessions(root: Root, snapshot: SnapshotRow) -> PastSessions | None:
    """Return the kept sessions as of a snapshot; None if none are kept, or only as of a later snapshot.

    Sessions that release 0.2.0 kept have no zone. They are not used, and maintenance replaces them.
    """
    try:
        table = root.open(PAST_SESSION)
    except NotARegistryError:
        return None
    if "zone_name" not in pa.schema(table.schema().to_arrow()).names:
        return None
    [newest] = query(table, f"SELECT max(as_of_epoch) AS epoch FROM rows WHERE {LATEST_OF_BROKERS}").to_pylist()
    epoch = newest["epoch"]
    if epoch is None or epoch > snapshot.epoch:
        return None
    months = files_since(root, snapshot, epoch)[f"partition.{EVENT_MONTH}"].to_pylist()
    return PastSessions(table.version(), epoch, min(months, default=_AFTER_ALL_MONTHS))


def files_since(root: Root, snapshot: SnapshotRow, epoch: int) -> pa.Table:
    """Return the files of the history that may have a line after `epoch`, one a row, from their statistics alone."""
    _, events = root.open_past(BROKER_EVENT, snapshot.versions[BROKER_EVENT.name])
    files = pa.table(events.get_add_actions(flatten=True))
    if "max.epoch" not in files.column_names:  # no file, or none with statistics
        return files
    return files.filter(pc.fill_null(pc.greater(files["max.epoch"], epoch), fill_value=True))

"""Spark views of the history, which analysts query with Spark SQL. views.sql states the grain of each view."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from namesrv_stream.errors import NamesrvError
from namesrv_stream.history.past_sessions import PastSessions, past_sessions
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.object_store import give_spark_access
from namesrv_stream.tables.pinned import event_time_ms
from namesrv_stream.tables.root import Root, is_there
from namesrv_stream.tables.schemas import BROKER_EVENT, PAST_SESSION, PAST_SNAPSHOT, SNAPSHOT
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.tables.spark_views import VIEWS, all_columns, register_tables, snapshot_sql, table_as_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # `history_sql` needs no Spark in the process

_SOURCE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
_CREATE_VIEW = re.compile(r"CREATE OR REPLACE TEMPORARY VIEW (\w+) AS\s")
_OF_PAST_SESSIONS = re.compile(r"-- <past_session>\n.*?-- </past_session>\n", re.DOTALL)


class NoSuchViewError(NamesrvError):
    """Request for a view or table that `register_views` does not make of this snapshot."""

    def __init__(self, names: Iterable[str], known: Iterable[str]) -> None:
        self.names = tuple(sorted(names))
        self.known = tuple(sorted(known))
        known_names = ", ".join(self.known)
        super().__init__(f"no view or table is called {' or '.join(self.names)}. `only` may name {known_names}.")


def register_views(  # noqa: PLR0913 -- open_snapshot's arguments and one more
    spark: SparkSession,
    root: str | Path | Root,
    epoch: int | None = None,
    at: datetime | int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    only: Collection[str] | None = None,
) -> SnapshotRow:
    """Register the tables of one snapshot, as `open_snapshot` does, and the views of views.sql over them.

    Returns the snapshot's row. A further call moves all views to another snapshot. `open_snapshot` moves the tables
    alone, and the views of views.sql stay where they are.

    With `only`, register or move only the views and tables that it names, and their sources. This is faster if a
    session asks one question. Other views stay at their snapshot. Raises NoSuchViewError if `only` has an unknown name.
    """
    place = Root.at(root, storage_options)
    give_spark_access(spark, place)
    snapshot = Snapshots(place).find(epoch, event_time_ms(at))
    past = past_sessions(place, snapshot)
    queries = _queries(_history_statements(place, past))
    tables = [*VIEWS, SNAPSHOT, *([] if past is None else [PAST_SESSION])]
    wanted = wanted_views(queries, {spec.name for spec in tables}, only)
    register_tables(spark, place, snapshot, [spec for spec in VIEWS if spec.name in wanted])
    if SNAPSHOT.name in wanted:
        table_as_of(spark, place, SNAPSHOT).where(_up_to(snapshot)).createOrReplaceTempView(SNAPSHOT.name)
    if past is not None and PAST_SESSION.name in wanted:
        kept = table_as_of(spark, place, PAST_SESSION, past.version)
        kept.where(past.condition).createOrReplaceTempView(PAST_SESSION.name)
    for name, query in queries.items():
        if name in wanted:
            # Registered as an analysed plan, so that a question does not analyse this view again.
            spark.sql(query).createOrReplaceTempView(name)
    return snapshot


def wanted_views(queries: Mapping[str, str], tables: set[str], only: Collection[str] | None) -> set[str]:
    """Return `only` and the names of all views and tables that they are made of. None stands for all."""
    known = tables | queries.keys()
    if only is None:
        return known
    wanted = {only} if isinstance(only, str) else set(only)
    if unknown := wanted - known:
        raise NoSuchViewError(unknown, known)
    for name in reversed(list(queries)):  # a view is made of those before it
        if name in wanted:
            wanted.update(_SOURCE.findall(queries[name]))
    return wanted


def history_sql(root: str | Path | Root, snapshot: SnapshotRow) -> list[str]:
    """Return the SQL statements of `register_views`, for a plain spark-sql or a notebook without this package."""
    place = Root.at(root)
    past = past_sessions(place, snapshot)
    return [
        *snapshot_sql(place, snapshot),
        _snapshots_up_to(place, snapshot),
        *([] if past is None else [_past_sessions(place, past)]),
        *_history_statements(place, past),
    ]


def permanent_sql(root: str | Path | Root, snapshot: SnapshotRow, schema: str) -> list[str]:
    """Return the SQL statements that make the same views permanent in a schema of a metastore, for a Thrift server.

    A permanent view is pinned as a temporary one is. Run the statements again to move the views to a newer snapshot.
    """
    views = [statement.replace(" TEMPORARY VIEW ", " VIEW ", 1) for statement in history_sql(root, snapshot)]
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
    """Return name -> query of each view of views.sql, in an order in which a view follows those that it reads."""
    return _queries(_view_statements(past))


def _queries(statements: Iterable[str]) -> dict[str, str]:
    return dict(_CREATE_VIEW.split(statement, maxsplit=1)[1:] for statement in statements)


def _history_statements(root: Root, past: PastSessions | None) -> list[str]:
    return [_publications(root), *_view_statements(past)]


def _recent_events(past: PastSessions) -> str:
    """Return the statement of the view `recent_event`: lines of the history that `past_session` does not know yet."""
    lines = f"SELECT * FROM {BROKER_EVENT.name} WHERE {past.lines_since}"
    return f"CREATE OR REPLACE TEMPORARY VIEW recent_event AS {lines}"


def _past_sessions(root: Root, past: PastSessions) -> str:
    return (
        f"CREATE OR REPLACE TEMPORARY VIEW {PAST_SESSION.name} AS SELECT * "
        f"FROM delta.`{root.spark_path(PAST_SESSION)}` VERSION AS OF {past.version} WHERE {past.condition}"
    )


def _publications(root: Root) -> str:
    """Return the statement of the view `publication`: one row for each epoch, readable or not.

    Rows of `past_snapshot` whose snapshot row is still there are left out: maintenance adds the one before it drops the
    other, and may have died in between.
    """
    columns = ", ".join(PAST_SNAPSHOT.schema.names)
    kept = f"SELECT {columns}, true AS is_kept FROM {SNAPSHOT.name}"
    past = (
        f" UNION ALL SELECT {columns}, false FROM delta.`{root.spark_path(PAST_SNAPSHOT)}` "
        f"WHERE epoch < (SELECT min(epoch) FROM {SNAPSHOT.name})"
    )
    return f"CREATE OR REPLACE TEMPORARY VIEW publication AS {kept}{past if is_there(root, PAST_SNAPSHOT) else ''}"


def _snapshots_up_to(root: Root, snapshot: SnapshotRow) -> str:
    """Return the statement of the view `snapshot`: rows up to the given epoch.

    No version of the table is pinned, since its rows are only appended.
    """
    return (
        f"CREATE OR REPLACE TEMPORARY VIEW {SNAPSHOT.name} AS "
        f"SELECT {all_columns(root, SNAPSHOT)} FROM delta.`{root.spark_path(SNAPSHOT)}` WHERE {_up_to(snapshot)}"
    )


def _up_to(snapshot: SnapshotRow) -> str:
    return f"epoch <= {snapshot.epoch}"


def _view_statements(past: PastSessions | None) -> list[str]:
    """Return the statements of views.sql. No comment or literal in that file holds a semicolon."""
    text = files("namesrv_stream.history").joinpath("views.sql").read_text("utf-8")
    if past is None:
        text = _OF_PAST_SESSIONS.sub("", text).replace("recent_event", BROKER_EVENT.name)
    found = [statement.strip() for statement in text.split(";") if statement.strip()]
    return found if past is None else [_recent_events(past), *found]

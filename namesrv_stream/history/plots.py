"""Plots of the history's views, for the churn report and your own notebooks. They need matplotlib (extra `analysis`).

Each plot takes a Spark session in which `register_views` was called, and returns a figure of the period from `since`
to `until`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import SparkSession

from namesrv_stream.history import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BROKER = "concat_ws(' ', cluster_name, broker_name, broker_id)"
_AVAILABILITY = f"""
    SELECT {_BROKER} AS broker, day, availability FROM broker_availability WHERE day BETWEEN :first_day AND :last_day"""
_SESSIONS = f"""
    WITH shown AS (
      SELECT {_BROKER} AS broker, greatest(from_time, :since) AS since,
             least(coalesce(to_time, :until), :until) AS until,
             IF(to_time <= :until, to_time, NULL) AS to_time, IF(to_time <= :until, ended_by, NULL) AS ended_by,
             least(coalesce(back_at, :until), :until) AS back_at
      FROM broker_session
      WHERE from_time < :until AND coalesce(to_time, :until) > :since
    ), most AS (
      SELECT broker, count(ended_by) AS ends, count(*) OVER () AS brokers
      FROM shown GROUP BY broker ORDER BY ends DESC, broker LIMIT {drawing.MOST_BROKERS}
    )
    SELECT * FROM shown JOIN most USING (broker)"""
_FALLEN = f"""
    SELECT {_BROKER} AS broker, count(*) AS ends, count_if(back_at <= to_time + INTERVAL 10 MINUTES) AS flaps
    FROM broker_session
    WHERE ended_by IN ('EXPIRED', 'CHANNEL_CLOSED') AND to_time BETWEEN :since AND :until
    GROUP BY broker ORDER BY ends DESC, broker LIMIT 10"""
_EXPIRED = """
    SELECT expiry_millis / 1000 AS seconds FROM time_to_expiry
    WHERE event_time BETWEEN :since AND :until AND event_month BETWEEN :first_month AND :last_month"""
_CHANGES = """
    SELECT hour, type, events FROM route_changes
    WHERE hour > :since - INTERVAL 1 HOUR AND hour <= :until AND event_month BETWEEN :first_month AND :last_month"""


def bounded(statement: str, since: datetime, until: datetime) -> str:
    """Return the statement with literals for `:since` and `:until`, and for their first and last day and month (UTC).

    Literals are used because Spark 4.2 does not bind parameters of a statement over views.
    """
    begin, end = since.astimezone(UTC), until.astimezone(UTC)
    last = end - timedelta(microseconds=1)  # a period that ends at midnight has nothing of the day that begins
    literals = {
        ":since": f"TIMESTAMP '{begin.isoformat(sep=' ')}'",
        ":until": f"TIMESTAMP '{end.isoformat(sep=' ')}'",
        ":first_day": f"DATE '{begin:%Y-%m-%d}'",
        ":last_day": f"DATE '{last:%Y-%m-%d}'",
        ":first_month": f"'{begin:%Y-%m}'",
        ":last_month": f"'{last:%Y-%m}'",
    }
    for name, literal in literals.items():
        statement = statement.replace(name, literal)
    return statement


def known_period(spark: SparkSession, since: datetime, until: datetime) -> tuple[datetime, datetime]:
    """Return the part of a period that the history knows, so that plots do not show what nobody can know as empty.

    A period outside of the history is returned as it is.
    """
    statement = "SELECT (SELECT min(event_time) FROM broker_event) AS begins, at AS ends FROM known_until"
    [known] = spark.sql(statement).toArrow().to_pylist()
    begins, ends = known["begins"] or since, known["ends"] or until
    if begins >= until or ends <= since:
        return since, until
    return max(since, begins), min(until, ends)


class Plot(NamedTuple):
    """A plot: called with a session and a period, it returns the figure.

    `statement` is what it asks, for `bounded`; `draw` makes the figure of the rows.
    """

    statement: str
    draw: Callable[[Any, datetime, datetime], Figure]

    def __call__(self, spark: SparkSession, since: datetime, until: datetime) -> Figure:
        """Ask the session's views about the period, and draw the answer."""
        return self.draw(_rows(spark, self.statement, since, until), since, until)


availability_heat_map = Plot(_AVAILABILITY, drawing.heat_map)
"""Plot of each broker's share of each day (UTC) in the routes."""

up_down_timeline = Plot(_SESSIONS, drawing.timeline)
"""Plot of each broker's sessions and of how they ended."""

flapping_rank = Plot(_FALLEN, drawing.flapping)
"""Plot of the ten brokers with most unplanned ends of leases, and how many of these ends were flaps.

An unplanned end is a flap if the broker was back within ten minutes.
"""

time_to_expiry = Plot(_EXPIRED, drawing.expiry)
"""Plot of the time from the last sign of life of a silent broker to the end of its lease."""

changes_by_hour = Plot(_CHANGES, drawing.changes)
"""Plot of the number of events in each hour by kind, so that an incident stands out.

A period of more than 31 days is shown by day.
"""


def _rows(spark: SparkSession, statement: str, since: datetime, until: datetime) -> Any:
    """Return a pandas frame with times in UTC, whatever the session's zone is."""
    rows = spark.sql(bounded(statement, since, until)).toArrow().to_pandas()
    times = rows.select_dtypes("datetimetz")
    return rows.assign(**{name: times[name].dt.tz_convert("UTC") for name in times})

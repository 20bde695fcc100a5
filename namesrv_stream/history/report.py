"""The churn report: one HTML page of plots and tables, with all that it needs inside."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

from matplotlib.figure import Figure
from pyspark.sql import SparkSession

from namesrv_stream.errors import NamesrvError
from namesrv_stream.history import plots

Plot = Callable[[SparkSession, datetime, datetime], Figure]

_PLOTS: tuple[tuple[Plot, str], ...] = (
    (plots.availability_heat_map, "Each broker's share of each day in the routes."),
    (plots.up_down_timeline, "When each broker was in the routes; dots say how a session ended."),
    (plots.flapping_rank, "Who fell out unplanned, and was back at once."),
    (plots.time_to_expiry, "How long clients were still sent to a broker that was silent."),
    (plots.changes_by_hour, "Everything that happened, by hour and kind."),
)
_TABLES = {
    "Clusters": """
        SELECT cluster_name, max(brokers) AS brokers, round(100 * avg(availability), 3) AS availability_percent,
               round(100 * min(worst_availability), 3) AS worst_broker_day_percent,
               min_by(worst_broker, worst_availability) AS worst_broker
        FROM cluster_availability WHERE day BETWEEN to_date(:since) AND to_date(:until)
        GROUP BY cluster_name ORDER BY cluster_name""",
    "Several brokers gone within a minute": """
        SELECT date_trunc('MINUTE', to_time) AS minute, count(*) AS brokers,
               concat_ws(', ', array_sort(collect_list(concat(broker_name, ' ', broker_id)))) AS which
        FROM broker_session
        WHERE ended_by IN ('EXPIRED', 'CHANNEL_CLOSED') AND to_time BETWEEN :since AND :until
        GROUP BY minute HAVING brokers >= 3 ORDER BY minute""",
    "Operator commands": """
        SELECT event_time, requested_by, command, broker_name FROM operator_command
        WHERE event_time BETWEEN :since AND :until ORDER BY event_time DESC LIMIT 100""",
    "Topics on one broker name only, at the end": """
        SELECT broker_name, count(*) AS topics FROM topic_with_one_broker GROUP BY broker_name ORDER BY topics DESC""",
    "Rejected records": """
        SELECT reason, count(*) AS records, max(event_time) AS last_time FROM rejected_record
        WHERE event_time BETWEEN :since AND :until GROUP BY reason ORDER BY records DESC""",
}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #212121; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 0.5rem 0 } img { max-width: 100% }
th, td { text-align: left; padding: 0.2rem 0.8rem 0.2rem 0; border-bottom: 1px solid #e0e0e0; vertical-align: top }
h2 { margin-top: 2.5rem } p { color: #616161 }
"""


class EmptyPeriodError(NamesrvError):
    """A period in which no broker was there."""

    def __init__(self, since: datetime, until: datetime, known: str) -> None:
        super().__init__(f"no broker was there from {since} to {until}. The history has {known}.")
        self.since = since
        self.until = until


def churn_report(spark: SparkSession, since: datetime, until: datetime) -> str:
    """HTML of the period, from the views of `register_views`. Raises EmptyPeriodError."""
    _require_brokers(spark, since, until)
    title = f"Churn from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC"
    parts = [*_plot_parts(spark, since, until), *_table_parts(spark, since, until)]
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1>{''.join(parts)}</html>\n"
    )


def _require_brokers(spark: SparkSession, since: datetime, until: datetime) -> None:
    [times] = spark.sql("SELECT min(from_time) AS first, max(coalesce(to_time, s.at)) AS last FROM broker_session, "
                        "(SELECT max(event_time) AS at FROM snapshot) AS s").collect()  # fmt: skip
    if times.first is None:
        raise EmptyPeriodError(since, until, "no sessions at all: has a broker ever registered?")
    first, last = times.first.astimezone(UTC), times.last.astimezone(UTC)
    if since >= until or last < since or first > until:
        raise EmptyPeriodError(since, until, f"sessions from {first} to {last}")


def _plot_parts(spark: SparkSession, since: datetime, until: datetime) -> Iterator[str]:
    for plot, words in _PLOTS:
        image = BytesIO()
        plot(spark, since, until).savefig(image, format="png")
        data = base64.b64encode(image.getvalue()).decode()
        yield f"<h2>{plot.__name__.replace('_', ' ').capitalize()}</h2><p>{words}</p>"
        yield f'<img alt="{words}" src="data:image/png;base64,{data}">'


def _table_parts(spark: SparkSession, since: datetime, until: datetime) -> Iterator[str]:
    for title, statement in _TABLES.items():
        frame = spark.sql(plots.bounded(statement, since, until))
        rows = [_cells("td", row) for row in frame.collect()]
        table = f"<table>{_cells('th', frame.columns)}{''.join(rows)}</table>" if rows else "<p>None.</p>"
        yield f"<h2>{title}</h2>{table}"


def _cells(tag: str, values: Any) -> str:
    shown = ("" if value is None else html.escape(str(value)) for value in values)
    return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in shown)}</tr>"

"""Plots of the history's views, for the churn report and notebooks of your own. Needs matplotlib (extra `analysis`).

Each takes a Spark session with `register_views` done, and gives a figure; `since` and `until` bound what is shown.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.dates import ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pyspark.sql import SparkSession

_ENDS = {
    "EXPIRED": "#c62828",
    "CHANNEL_CLOSED": "#ef6c00",
    "UNREGISTERED": "#212121",
    "MOVED": "#6a1b9a",
    "ID_LOST": "#1565c0",
}
_KINDS = {
    **_ENDS,
    "REFUSED": "#ad1457",
    "REGISTERED": "#2e7d32",
    "ID_TAKEN": "#81d4fa",
    "CHANGED": "#fdd835",
    "TOPICS_CHANGED": "#bdbdbd",
}
_COMMAND = "operator command"
_COMMAND_COLOUR = "#00838f"
_UP = "#a5d6a7"
_AVAILABILITY = LinearSegmentedColormap.from_list("availability", ["#c62828", "#f9a825", "#c8e6c9", "#2e7d32"])
_ROW_INCHES = 0.28


def _rows(spark: SparkSession, statement: str, since: datetime, until: datetime) -> Any:
    """A pandas frame."""
    return spark.sql(bounded(statement, since, until)).toPandas()


def bounded(statement: str, since: datetime, until: datetime) -> str:
    """`:since` and `:until` as literals; Spark 4.2 does not bind parameters of a statement over views."""
    for name, moment in ((":since", since), (":until", until)):
        statement = statement.replace(name, f"TIMESTAMP '{moment.isoformat(sep=' ')}'")
    return statement


def availability_heat_map(spark: SparkSession, since: datetime, until: datetime) -> Figure:
    """A row a broker, a column a day, the share of the day in which the broker was in the routes."""
    rows = _rows(
        spark,
        "SELECT concat_ws(' ', cluster_name, broker_name, broker_id) AS broker, day, availability "
        "FROM broker_availability WHERE day BETWEEN to_date(:since) AND to_date(:until)",
        since,
        until,
    )
    grid = rows.pivot_table(index="broker", columns="day", values="availability")
    figure = _figure(len(grid))
    axes = figure.subplots()
    image = axes.imshow(
        grid.to_numpy(float), aspect="auto", cmap=_AVAILABILITY, vmin=min(0.9, grid.min().min()), vmax=1
    )
    axes.set_yticks(range(len(grid)), list(grid.index))
    axes.set_xticks(range(len(grid.columns)), [f"{day:%m-%d}" for day in grid.columns], rotation=90)
    axes.set_title("Availability by broker and day (UTC)")
    figure.colorbar(image, label="share of the day in the routes")
    return figure


def up_down_timeline(spark: SparkSession, since: datetime, until: datetime) -> Figure:
    """A line a broker: bars while it was in the routes, a mark in the colour of how each session ended."""
    rows = _rows(
        spark,
        "SELECT concat_ws(' ', cluster_name, broker_name, broker_id) AS broker, greatest(from_time, :since) AS since, "
        "least(coalesce(to_time, :until), :until) AS until, to_time, "
        "IF(to_time <= :until, ended_by, NULL) AS ended_by FROM broker_session "
        "WHERE from_time < :until AND coalesce(to_time, :until) > :since",
        since,
        until,
    )
    brokers = sorted(rows["broker"].unique(), reverse=True)
    figure = _figure(len(brokers))
    axes = figure.subplots()
    places = [brokers.index(broker) for broker in rows["broker"]]
    axes.hlines(places, rows["since"], rows["until"], linewidth=8, color=_UP)
    for how, colour in _ENDS.items():
        ended = rows[rows["ended_by"] == how]
        places = [brokers.index(broker) for broker in ended["broker"]]
        axes.scatter(ended["to_time"], places, s=18, color=colour, label=how, zorder=3)
    axes.set_yticks(range(len(brokers)), brokers)
    axes.set_title("Sessions of brokers and how they ended")
    _date_axis(axes)
    figure.legend(loc="outside lower center", ncols=len(_ENDS), frameon=False)
    return figure


def flapping_rank(spark: SparkSession, since: datetime, until: datetime) -> Figure:
    """The ten brokers that fell out unplanned most often, and how often they were back within ten minutes."""
    rows = _rows(
        spark,
        "SELECT concat_ws(' ', cluster_name, broker_name, broker_id) AS broker, sum(flaps) AS flaps, "
        "sum(unplanned_ends - flaps) AS others FROM broker_flapping "
        "WHERE month BETWEEN date_format(:since, 'yyyy-MM') AND date_format(:until, 'yyyy-MM') "
        "GROUP BY broker ORDER BY flaps + others DESC LIMIT 10",
        since,
        until,
    )[::-1]
    figure = _figure(len(rows))
    axes = figure.subplots()
    axes.barh(rows["broker"], rows["flaps"], color="#c62828", label="back within 10 minutes")
    axes.barh(rows["broker"], rows["others"], left=rows["flaps"], color="#bdbdbd", label="later or not")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title("Unplanned ends of leases, whole months")
    axes.legend(frameon=False)
    return figure


def time_to_expiry(spark: SparkSession, since: datetime, until: datetime) -> Figure:
    """How long after the last sign of life silent brokers left the routes."""
    rows = _rows(
        spark,
        "SELECT expiry_millis / 1000 AS seconds FROM time_to_expiry WHERE event_time BETWEEN :since AND :until "
        "AND event_month BETWEEN date_format(:since, 'yyyy-MM') AND date_format(:until, 'yyyy-MM')",
        since,
        until,
    )
    figure = _figure(8)
    axes = figure.subplots()
    seconds = rows["seconds"].astype(float)
    axes.hist(seconds, bins=60, range=(0, 1.1 * max([120.0, *seconds])), color="#1565c0")
    axes.set_xlabel("seconds from the last sign of life to the end of the lease")
    axes.set_ylabel("expired leases")
    axes.set_title("Time to expiry")
    return figure


def changes_by_hour(spark: SparkSession, since: datetime, until: datetime) -> Figure:
    """Events an hour, by kind: an incident stands out."""
    rows = _rows(
        spark,
        "SELECT hour, type, events FROM route_changes WHERE hour BETWEEN :since AND :until "
        "AND event_month BETWEEN date_format(:since, 'yyyy-MM') AND date_format(:until, 'yyyy-MM')",
        since,
        until,
    )
    rows["kind"] = [kind if kind in _KINDS else _COMMAND for kind in rows["type"]]
    grid = rows.pivot_table(index="hour", columns="kind", values="events", aggfunc="sum", fill_value=0)
    figure = _figure(10)
    axes = figure.subplots()
    bottom = np.zeros(len(grid))
    for kind, colour in {**_KINDS, _COMMAND: _COMMAND_COLOUR}.items():
        if kind in grid:
            axes.bar(grid.index, grid[kind], bottom=bottom, width=1 / 24, label=kind, color=colour)
            bottom += grid[kind]
    axes.set_ylabel("events")
    axes.set_title("Changes by hour")
    _date_axis(axes)
    figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize="small")
    return figure


def _date_axis(axes: Axes) -> None:
    """Says as much of each date as is needed."""
    locator = axes.xaxis.get_major_locator()
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]  # matplotlib's


def _figure(rows: int) -> Figure:
    return Figure(figsize=(10, max(2.5, 1.5 + rows * _ROW_INCHES)), dpi=80, layout="constrained")

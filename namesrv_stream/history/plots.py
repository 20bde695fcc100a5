"""Plots of the history's views, for the churn report and your own notebooks. They need matplotlib (extra `analysis`).

Each plot takes a Spark session in which `register_views` was called, and returns a figure of the period from `since`
to `until`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from namesrv_stream.errors import NamesrvError


class MatplotlibMissingError(NamesrvError):
    """Failure to import matplotlib, which is an extra of this package and is not installed."""

    def __init__(self) -> None:
        super().__init__("plots need matplotlib: pip install 'namesrv-stream[analysis]'.")


try:
    from matplotlib.axes import Axes
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.dates import ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise MatplotlibMissingError from error

Plot = Callable[[SparkSession, datetime, datetime], Figure]

MOST_BROKERS = 60
"""Most rows of a plot that has a row for each broker: one page."""

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
    "REGISTERED": "#81c784",
    "ID_TAKEN": "#81d4fa",
    "CHANGED": "#fdd835",
    "TOPICS_CHANGED": "#bdbdbd",
}
_COMMAND = "operator command"
_COMMAND_COLOUR = "#00838f"
_UP = "#a5d6a7"
_SHARES = {0.0: "#b71c1c", 0.9: "#ef6c00", 0.99: "#ffb300", 0.999: "#fff176", 0.9999: "#c8e6c9"}
"""Lower bound of a class of availability -> its colour. A class for each nine; the lower, the darker."""
_BROKER = "concat_ws(' ', cluster_name, broker_name, broker_id)"
_BROKER_LABEL = "cluster, broker name, id"
_ROW_INCHES = 0.28
_DAY = timedelta(days=1)
_LONG = 31 * _DAY


def _rows(spark: SparkSession, statement: str, since: datetime, until: datetime) -> Any:
    """Return a pandas frame with times in UTC, whatever the session's zone is."""
    rows = spark.sql(bounded(statement, since, until)).toArrow().to_pandas()
    times = rows.select_dtypes("datetimetz")
    return rows.assign(**{name: times[name].dt.tz_convert("UTC") for name in times})


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


def period(since: datetime, until: datetime) -> str:
    """Return the period as titles show it."""
    begin, end = (moment.astimezone(UTC) for moment in (since, until))
    return f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"


def availability_heat_map(spark: SparkSession, since: datetime, until: datetime) -> Figure:
    """Plot a row for each broker and a column for each day (UTC): the broker's share of the day in the routes."""
    rows = _rows(
        spark,
        f"SELECT {_BROKER} AS broker, day, availability FROM broker_availability "
        "WHERE day BETWEEN :first_day AND :last_day",
        since,
        until,
    )
    rows["day"] = rows["day"].astype("datetime64[ns]")
    grid = rows.pivot(index="broker", columns="day", values="availability")
    shown = grid.loc[grid.mean(axis=1).nsmallest(MOST_BROKERS).index.sort_values()].T.asfreq("D").T
    figure, axes = _figure(len(shown), _of_all("Availability by broker and day", "lowest", shown, grid), since, until)
    if shown.empty:
        return _without_data(figure, axes)
    colours, norm = ListedColormap([*_SHARES.values()]), BoundaryNorm([*_SHARES, 1.0], len(_SHARES))
    edges = [shown.columns[0] + day * _DAY for day in range(len(shown.columns) + 1)]
    axes.pcolormesh(
        edges,
        range(len(shown) + 1),
        shown.to_numpy(float),
        cmap=colours,
        norm=norm,
        edgecolors="white" if len(shown.columns) <= _LONG.days else "none",
    )
    axes.set_yticks(np.arange(len(shown)) + 0.5, list(shown.index))
    axes.set_ylabel(_BROKER_LABEL)
    axes.invert_yaxis()
    _date_axis(axes)
    named = [
        Patch(color=colour, label=f"from {100 * share:g} %" if share else "less") for share, colour in _SHARES.items()
    ]
    figure.legend(handles=named, loc="outside lower center", ncols=len(named), frameon=False)
    return figure


def up_down_timeline(spark: SparkSession, since: datetime, until: datetime) -> Figure:
    """Plot a line for each broker: a bar for each session, and a mark whose colour shows how the session ended."""
    rows = _rows(
        spark,
        f"""
        WITH shown AS (
          SELECT {_BROKER} AS broker, greatest(from_time, :since) AS since,
                 least(coalesce(to_time, :until), :until) AS until,
                 IF(to_time <= :until, to_time, NULL) AS to_time, IF(to_time <= :until, ended_by, NULL) AS ended_by
          FROM broker_session
          WHERE from_time < :until AND coalesce(to_time, :until) > :since
        ), most AS (
          SELECT broker, count(ended_by) AS ends, count(*) OVER () AS brokers
          FROM shown GROUP BY broker ORDER BY ends DESC, broker LIMIT {MOST_BROKERS}
        )
        SELECT * FROM shown JOIN most USING (broker)""",
        since,
        until,
    )
    brokers = sorted(rows["broker"].unique(), reverse=True)
    what = _of_all("Sessions and how they ended", "most ended", brokers, range(rows["brokers"].max() if brokers else 0))
    figure, axes = _figure(len(brokers), what, since, until)
    if rows.empty:
        return _without_data(figure, axes)
    rows["place"] = [brokers.index(broker) for broker in rows["broker"]]
    axes.hlines(rows["place"], rows["since"], rows["until"], linewidth=8, color=_UP, label="in the routes")
    for how, ended in rows.groupby("ended_by"):
        axes.scatter(ended["to_time"], ended["place"], s=18, color=_ENDS[str(how)], label=how, zorder=3)
    axes.set_yticks(range(len(brokers)), brokers)
    axes.set_ylim(-0.7, len(brokers) - 0.3)
    axes.set_ylabel(_BROKER_LABEL)
    _date_axis(axes, since, until)
    figure.legend(loc="outside lower center", ncols=len(_ENDS) + 1, frameon=False)
    return figure


def flapping_rank(spark: SparkSession, since: datetime, until: datetime) -> Figure:
    """Plot the ten brokers with most unplanned ends of leases, and how many of these ends were flaps.

    An unplanned end is a flap if the broker was back within ten minutes.
    """
    rows = _rows(
        spark,
        f"""
        SELECT {_BROKER} AS broker, count(*) AS ends, count_if(back_at <= to_time + INTERVAL 10 MINUTES) AS flaps
        FROM broker_session
        WHERE ended_by IN ('EXPIRED', 'CHANNEL_CLOSED') AND to_time BETWEEN :since AND :until
        GROUP BY broker ORDER BY ends DESC, broker LIMIT 10""",
        since,
        until,
    )[::-1]
    figure, axes = _figure(len(rows), "Flapping", since, until)
    if rows.empty:
        return _without_data(figure, axes)
    axes.barh(rows["broker"], rows["flaps"], color="#c62828", label="back within 10 minutes")
    axes.barh(rows["broker"], rows["ends"] - rows["flaps"], left=rows["flaps"], color="#bdbdbd", label="later or not")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("unplanned ends of leases (EXPIRED, CHANNEL_CLOSED)")
    axes.set_ylabel(_BROKER_LABEL)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def time_to_expiry(spark: SparkSession, since: datetime, until: datetime) -> Figure:
    """Plot the time from the last sign of life of a silent broker to the end of its lease."""
    rows = _rows(
        spark,
        "SELECT expiry_millis / 1000 AS seconds FROM time_to_expiry WHERE event_time BETWEEN :since AND :until "
        "AND event_month BETWEEN :first_month AND :last_month",
        since,
        until,
    )
    figure, axes = _figure(6, "Time to expiry", since, until)
    seconds = rows["seconds"].astype(float)
    if rows.empty:
        return _without_data(figure, axes)
    axes.hist(seconds, bins=60, range=(0, 1.1 * max(120.0, seconds.max())), color="#1565c0")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(
        "seconds from the last sign of life to the end of the lease "
        f"(median {seconds.median():,.1f}, longest {seconds.max():,.1f})"
    )
    axes.set_ylabel("expired leases")
    return figure


def changes_by_hour(spark: SparkSession, since: datetime, until: datetime) -> Figure:
    """Plot the number of events in each hour by kind, so that an incident stands out.

    A period of more than 31 days is shown by day.
    """
    rows = _rows(
        spark,
        "SELECT hour, type, events FROM route_changes WHERE hour > :since - INTERVAL 1 HOUR AND hour <= :until "
        "AND event_month BETWEEN :first_month AND :last_month",
        since,
        until,
    )
    unit, step = ("day", _DAY) if until - since > _LONG else ("hour", timedelta(hours=1))
    figure, axes = _figure(8, f"Changes by {unit}", since, until)
    if rows.empty:
        return _without_data(figure, axes)
    kinds = rows["type"].where(rows["type"].isin(_KINDS), _COMMAND)
    grid = rows.groupby([rows["hour"].dt.floor(step), kinds])["events"].sum().unstack(fill_value=0)
    bottom = np.zeros(len(grid))
    for kind, colour in {**_KINDS, _COMMAND: _COMMAND_COLOUR}.items():
        if kind in grid:
            axes.bar(grid.index, grid[kind], bottom=bottom, width=step / _DAY, align="edge", label=kind, color=colour)
            bottom += grid[kind].to_numpy()
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(f"events in the {unit}")
    _date_axis(axes, min(since, grid.index[0]), until)
    figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize="small")
    return figure


def _figure(rows: int, what: str, since: datetime, until: datetime) -> tuple[Figure, Axes]:
    height = max(2.5, 1.5 + rows * _ROW_INCHES)
    figure = Figure(figsize=(10, height), dpi=96, layout="constrained")
    axes = figure.subplots()
    axes.set_title(f"{what}, {period(since, until)}", fontsize="medium")
    return figure, axes


def _of_all(what: str, which: str, shown: Any, everything: Any) -> str:
    """Return the title `what`, with the number of brokers shown if the plot has no room for all of them."""
    return what if len(shown) == len(everything) else f"{what} (the {len(shown)} {which} of {len(everything):,})"


def _without_data(figure: Figure, axes: Axes) -> Figure:
    axes.set_axis_off()
    axes.text(0.5, 0.5, "nothing in this period", ha="center", va="center", transform=axes.transAxes)
    return figure


def _date_axis(axes: Axes, since: datetime | None = None, until: datetime | None = None) -> None:
    """Label the date axis with only the parts of each date that are needed, and bound it by `since` and `until`."""
    if since and until:
        axes.set_xlim(since, until)  # type: ignore[arg-type]  # an axis of dates takes dates
    locator = axes.xaxis.get_major_locator()
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]  # matplotlib's

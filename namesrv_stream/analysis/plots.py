"""Plots of the history's views, for notebooks. They need matplotlib (extra `analysis`).

Each plot takes the views of `namesrv_stream.analysis.ask.opened`, or a Spark session in which `register_views` was
called, and returns a figure of the period from `since` to `until`. Times are in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from namesrv_stream.analysis import palette
from namesrv_stream.analysis.ask import Views
from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.texts import counted
from namesrv_stream.rules.history import UNPLANNED

try:
    from matplotlib.axes import Axes
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.dates import ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise NamesrvError("plots need matplotlib: pip install 'namesrv-stream[analysis]'.") from error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Source = Views | SparkSession

MAX_BROKERS = 60
"""Most rows of a plot that has a row for each broker: one page."""

_BROKER_LABEL = "cluster, broker name, broker ID"
_ROW_INCHES = 0.28
_ROWS_WITHOUT_BROKERS = 7
_WIDTH_INCHES, _DOTS_AN_INCH = 10, 96
_MIN_PIXELS = 3
"""Least width of a drawn outage."""
_TOGETHER_PIXELS = 16
"""Ends of sessions of one broker that are closer than this share one number."""
_DAY = timedelta(days=1)
_LONG = 31 * _DAY

_SHARE_FORMS = ((32, 7, 2), (19, 6, 1))
"""Forms of a share in a cell: least width of the cell in pixels, font size in points, digits after the point."""
_OF_DOUBLES = 1e-6
"""Added before a share is rounded down, because 0.57 times 100 is a little less than 57 in doubles."""

_ROOMY_COLUMNS = 10
"""Most columns of a heat map that also writes the 100 of whole days. In more columns it would hide the other shares."""

_BROKER = "concat_ws(' ', cluster_name, broker_name, broker_id)"
KNOWN = "SELECT (SELECT min(event_time) FROM broker_event) AS begins, known_at AS ends FROM known_until"
"""Query of the time that the history covers."""

OF_PERIOD = """
    SELECT broker_key, cluster_name, broker_name, broker_id,
           greatest(from_millis, :since_ms) AS from_millis, least(up_until_millis, :until_ms) AS up_until_millis,
           least(expected_until_millis, :until_ms) AS expected_until_millis
    FROM broker_stretch WHERE from_millis < :until_ms AND expected_until_millis > :since_ms"""
"""Query of the parts of stretches within a period."""

_AVAILABILITY = f"""
    WITH part AS (
      SELECT *, explode(sequence(CAST(floor(from_millis / 86400000) AS BIGINT),
                                 CAST(floor((expected_until_millis - 1) / 86400000) AS BIGINT))) AS day_number
      FROM ({OF_PERIOD})
    )
    SELECT {_BROKER} AS broker, date_from_unix_date(CAST(day_number AS INT)) AS day,
           sum(greatest(0, least(up_until_millis, (day_number + 1) * 86400000)
                           - greatest(from_millis, day_number * 86400000)))
           / sum(least(expected_until_millis, (day_number + 1) * 86400000)
                 - greatest(from_millis, day_number * 86400000)) AS availability
    FROM part GROUP BY broker, day"""
_SESSIONS = f"""
    WITH shown AS (
      SELECT {_BROKER} AS broker, greatest(from_time, :since) AS since,
             greatest(least(coalesce(to_time, :until), :until), :since) AS until,
             IF(to_time <= :until, to_time, NULL) AS to_time, IF(to_time <= :until, ended_by, NULL) AS ended_by,
             least(timestamp_millis(greatest(expected_until_millis, up_until_millis)), :until) AS back_at
      FROM broker_stretch
      WHERE from_time < :until AND expected_until_millis > :since_ms
    ), most AS (
      SELECT broker, count(ended_by) AS ends, count(*) OVER () AS brokers
      FROM shown GROUP BY broker ORDER BY ends DESC, broker LIMIT {MAX_BROKERS}
    )
    SELECT * FROM shown JOIN most USING (broker)"""
_FALLEN = f"""
    SELECT {_BROKER} AS broker, count(*) AS ends, count(*) FILTER (WHERE away_millis <= 600000) AS flaps,
           count(*) OVER () AS brokers
    FROM outage
    WHERE gone_at BETWEEN :since AND :until
    GROUP BY broker ORDER BY flaps DESC, ends DESC, broker LIMIT 10"""
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
    last = end - timedelta(microseconds=1)  # a period that ends at midnight has no part of the next day
    literals = {
        ":since_ms": str(round(begin.timestamp() * 1000)),
        ":until_ms": str(round(end.timestamp() * 1000)),
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


def answer(source: Source, statement: str, since: datetime, until: datetime) -> pa.Table:
    """Return the answer of a statement in Spark's SQL about a period."""
    asked = bounded(statement, since, until)
    return source.table(asked) if isinstance(source, Views) else source.sql(asked).toArrow()


def known_period(source: Source, since: datetime, until: datetime) -> tuple[datetime, datetime]:
    """Return the part of a period that the history covers, so that plots do not show unknown time as empty.

    A period outside of the history is returned as it is.
    """
    [known] = answer(source, KNOWN, since, until).to_pylist()
    begins, ends = known["begins"] or since, known["ends"] or until
    if begins >= until or ends <= since:
        return since, until
    return max(since, begins), min(until, ends)


class Plot(NamedTuple):
    """A plot: called with a session and a period, it returns the figure.

    `statement` is its query, for `bounded`. `draw` draws the rows of the result, or returns a sentence in place of a
    plot.
    """

    title: str
    statement: str
    draw: Callable[[Axes, Any, datetime, datetime], str | None]

    def __call__(self, source: Source, since: datetime, until: datetime) -> Figure:
        """Query the views for the period, and draw the result.

        Times are in UTC, not in a session's zone.
        """
        rows = answer(source, self.statement, since, until).to_pandas()
        times = rows.select_dtypes("datetimetz")
        return self.figure(rows.assign(**{name: times[name].dt.tz_convert("UTC") for name in times}), since, until)

    def figure(self, rows: Any, since: datetime, until: datetime) -> Figure:
        """Return the figure of a pandas frame with the columns of `statement`."""
        lines = min(rows["broker"].nunique(), MAX_BROKERS) if "broker" in rows else _ROWS_WITHOUT_BROKERS
        height = max(2.5, 1.5 + lines * _ROW_INCHES)
        figure = Figure(figsize=(_WIDTH_INCHES, height), dpi=_DOTS_AN_INCH, layout="constrained")
        axes = figure.subplots()
        axes.set_title(f"{self.title}, {period(since, until)}", fontsize="medium")
        sentence = "no events in this period" if rows.empty else self.draw(axes, rows, since, until)
        if sentence:
            axes.set_axis_off()
            axes.text(0.5, 0.5, sentence, ha="center", va="center", transform=axes.transAxes)
        return figure


def period(since: datetime, until: datetime) -> str:
    """Return the period as titles show it."""
    begin, end = (moment.astimezone(UTC) for moment in (since, until))
    return f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"


def _heat_map(axes: Axes, rows: Any, since: datetime, until: datetime) -> None:
    """Draw a row for each broker and a column for each day, with the share in percent where there is room."""
    rows = rows.assign(day=rows["day"].astype("datetime64[ns]"))
    grid = rows.pivot(index="broker", columns="day", values="availability")
    shown = grid.loc[grid.mean(axis=1).nsmallest(MAX_BROKERS).index.sort_values()].T.asfreq("D").T
    _note_number(axes, "lowest", len(shown), len(grid))
    edges = [shown.columns[0] + day * _DAY for day in range(len(shown.columns) + 1)]
    shares = shown.to_numpy(float)
    axes.pcolormesh(
        edges,
        range(len(shown) + 1),
        shares,
        cmap=ListedColormap([*palette.SHARES.values()]),
        norm=BoundaryNorm([*palette.SHARES, 1.0], len(palette.SHARES)),
        edgecolors="white" if len(shown.columns) <= _LONG.days else "none",
    )
    is_cut = _mark_parts_of_days(axes, edges, since, until)
    axes.set_yticks(np.arange(len(shown)) + 0.5, list(shown.index))
    axes.set_ylabel(_BROKER_LABEL)
    axes.invert_yaxis()
    _date_axis(axes, since, until)
    bounds = [*palette.SHARES]
    labels = [f"below {100 * bounds[1]:g} %", *(f"from {100 * bound:g} %" for bound in bounds[1:])]
    named = [Patch(color=colour, label=label) for label, colour in zip(labels, palette.SHARES.values(), strict=True)]
    named += [Patch(fill=False, hatch="...", edgecolor="grey", linewidth=0, label="part of a day")] if is_cut else []
    _legend(axes, handles=named, ncols=len(named))
    _write_shares(axes, shares, edges, since, until)


def _write_shares(axes: Axes, shares: Any, edges: Sequence[Any], since: datetime, until: datetime) -> None:
    """Write each share into the visible part of its cell, rounded down: 100 means the whole day."""
    pixels_a_day = _axis_pixels(axes) / ((until - since) / _DAY)
    for column, (begin, end) in enumerate(_within(edges, since, until)):
        room = (end - begin) / np.timedelta64(1, "D") * pixels_a_day
        points, digits = next((form[1:] for form in _SHARE_FORMS if room >= form[0]), (0, 0))
        for row in np.flatnonzero(~np.isnan(shares[:, column])) if points else ():
            share = shares[row, column]
            if share < 1 or len(edges) - 1 <= _ROOMY_COLUMNS:
                percent = np.floor(100 * 10**digits * share + _OF_DOUBLES) / 10**digits
                place = (begin + (end - begin) / 2, row + 0.5)
                colour = "white" if share < palette.LIGHT_SHARE else "black"
                axes.text(*place, f"{percent:g}", ha="center", va="center", fontsize=points, color=colour)


def _mark_parts_of_days(axes: Axes, edges: Sequence[Any], since: datetime, until: datetime) -> bool:
    """Dot the columns of days that are only partly in the period, and return whether there are any."""
    visible = zip(pairwise(edges), _within(edges, since, until), strict=True)
    parts = [part for day, part in visible if part != day]
    for begin, end in parts:
        axes.axvspan(begin, end, fill=False, hatch="...", edgecolor="grey", linewidth=0, alpha=0.6)
    return bool(parts)


def _within(edges: Sequence[Any], since: datetime, until: datetime) -> Iterator[tuple[Any, Any]]:
    """Yield the part of each day of a heat map that is in the period. The map's days are in UTC, without a zone."""
    first, last = (np.datetime64(moment.astimezone(UTC).replace(tzinfo=None)) for moment in (since, until))
    yield from ((max(begin, first), min(end, last)) for begin, end in pairwise(edges))


def _timeline(axes: Axes, rows: Any, since: datetime, until: datetime) -> None:
    """Draw a line for each broker: a bar for each session, and a mark whose colour shows how the session ended.

    After an unplanned end the mark is as wide as the gap, but at least _MIN_PIXELS. Ends that lie close together
    share a mark of their number.
    """
    brokers = sorted(rows["broker"].unique(), reverse=True)
    _note_number(axes, "most ended", len(brokers), rows["brokers"].max())
    rows = rows.assign(place=[brokers.index(broker) for broker in rows["broker"]])
    axes.hlines(
        rows["place"], rows["since"], rows["until"], linewidth=8, color=palette.IN_ROUTES, label="in the routes"
    )
    axes.set_yticks(range(len(brokers)), brokers)
    axes.set_ylim(-0.7, len(brokers) - 0.3)
    axes.set_ylabel(_BROKER_LABEL)
    _date_axis(axes, since, until)
    pixel = (until - since) / _axis_pixels(axes)
    for how, ended in rows[rows["to_time"].notna()].groupby("ended_by"):
        away = (ended["back_at"] - ended["to_time"]).clip(lower=_MIN_PIXELS * pixel)
        if how not in UNPLANNED:  # the broker is not expected in the gap, which stays white
            away = away.clip(upper=_MIN_PIXELS * pixel)
        colour, hatch = palette.ENDS[str(how)]
        axes.barh(ended["place"], away, 0.6, ended["to_time"], color=colour, hatch=hatch, label=how, zorder=3)
    for end, place, count in _together(rows, _TOGETHER_PIXELS * pixel):
        axes.annotate(str(count), (end, place), (4, 5), textcoords="offset points", fontsize="x-small")
    _legend(axes, ncols=len(palette.ENDS) + 1)


def _together(rows: Any, within: timedelta) -> Iterator[tuple[Any, int, int]]:
    """Yield the last end, the line and the number of each group of two or more ends that follow each other closely."""
    for place, ended in rows[rows["to_time"].notna()].sort_values("to_time").groupby("place"):
        groups = (ended["to_time"].diff() > within).cumsum()
        for _, group in ended["to_time"].groupby(groups):
            if len(group) > 1:
                yield group.iloc[-1], place, len(group)


def _flapping(axes: Axes, rows: Any, _since: datetime, _until: datetime) -> str | None:
    """Draw a bar for each broker, most flaps first."""
    if len(rows) == 1:
        [only] = rows.itertuples()
        return (
            f"Only {only.broker} went down unplanned: {counted(only.ends, 'time')}, {only.flaps} of them for up to 10 "
            "minutes."
        )
    _note_number(axes, "with most flaps", len(rows), rows["brokers"].max())
    rows = rows[::-1]
    axes.barh(rows["broker"], rows["flaps"], color=palette.VERMILION, label="back within 10 minutes")
    others = rows["ends"] - rows["flaps"]
    axes.barh(rows["broker"], others, left=rows["flaps"], color=palette.GREY, label="back later, or not back")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("unplanned ends of leases (EXPIRED, CHANNEL_CLOSED)")
    axes.set_ylabel(_BROKER_LABEL)
    _legend(axes, ncols=2)
    return None


def _expiry(axes: Axes, rows: Any, _since: datetime, _until: datetime) -> str | None:
    """Draw how often each time to expiry occurred."""
    seconds = rows["seconds"].astype(float)
    if seconds.nunique() == 1:
        leases = "1 lease" if len(seconds) == 1 else f"Each of {len(seconds):,} leases"
        return f"{leases} expired {seconds.iloc[0]:,.1f} s after the last heartbeat."
    axes.hist(seconds, bins=60, range=(0, 1.1 * max(120.0, seconds.max())), color=palette.ENDS["EXPIRED"].colour)
    axes.set_xlim(left=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(
        "seconds from the last heartbeat to the end of the lease "
        f"(median {seconds.median():,.1f}, longest {seconds.max():,.1f})"
    )
    axes.set_ylabel("expired leases")
    return None


def _changes(axes: Axes, rows: Any, since: datetime, until: datetime) -> str | None:
    """Draw a column for each hour, by day if the period is long."""
    unit, step = ("day", _DAY) if until - since > _LONG else ("hour", timedelta(hours=1))
    axes.set_title(axes.get_title().replace("Changes", f"Changes by {unit}"), fontsize="medium")
    kinds = rows["type"].where(rows["type"].isin(palette.KINDS), palette.COMMAND)
    grid = rows.groupby([rows["hour"].dt.floor(step), kinds])["events"].sum().unstack(fill_value=0)
    if len(grid) == 1:
        said = ", ".join(f"{count:,} {kind}" for kind, count in grid.iloc[0].items())
        return f"All in one {unit}, from {grid.index[0]:%Y-%m-%d %H:%M}: {said}."
    bottom = np.zeros(len(grid))
    for kind, (colour, hatch) in palette.KINDS.items():
        if kind in grid:
            counts = grid[kind].to_numpy()
            some = counts > 0
            columns = (grid.index[some], counts[some], step / _DAY, bottom[some])
            axes.bar(*columns, align="edge", label=kind, color=colour, hatch=hatch)
            bottom += counts
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(f"events in the {unit}")
    _date_axis(axes, since, until)
    _legend(axes, ncols=6, fontsize="small")
    return None


def _legend(axes: Axes, **form: Any) -> None:
    axes.get_figure(root=True).legend(loc="outside lower center", frameon=False, **form)  # type: ignore[union-attr]  # axes of ours have a figure


def _axis_pixels(axes: Axes) -> float:
    """Return the width of the time axis beside the labels. Call it after the labels are set."""
    figure: Any = axes.get_figure(root=True)
    figure.get_layout_engine().execute(figure)  # places the parts, as drawing would do first
    return float(axes.get_window_extent().width)


def _note_number(axes: Axes, which: str, shown: int, of_all: int) -> None:
    """Put the number of brokers shown into the title if the plot has no room for all of them."""
    if shown != of_all:
        what, _, when = axes.get_title().partition(",")
        axes.set_title(f"{what} (the {shown} {which} of {of_all:,}),{when}", fontsize="medium")


def _date_axis(axes: Axes, since: datetime, until: datetime) -> None:
    """Bound the date axis by the period, and label it with only the parts of each date that are needed."""
    axes.set_xlim(since, until)  # type: ignore[arg-type]  # an axis of dates takes dates
    locator = axes.xaxis.get_major_locator()
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]  # matplotlib's


availability_heat_map = Plot("Availability by broker and day", _AVAILABILITY, _heat_map)
"""Plot of each broker's share of each day (UTC) in the routes."""

up_down_timeline = Plot("Sessions and how they ended", _SESSIONS, _timeline)
"""Plot of each broker's sessions and of how they ended."""

flapping_rank = Plot("Flapping", _FALLEN, _flapping)
"""Plot of the unplanned ends of leases of the ten brokers that flapped most, and how many of these ends were flaps.

An unplanned end is a flap if the broker was back within ten minutes.
"""

time_to_expiry = Plot("Time to expiry", _EXPIRED, _expiry)
"""Plot of the time from the last sign of life of a silent broker to the end of its lease."""

changes_by_hour = Plot("Changes", _CHANGES, _changes)
"""Plot of the number of events in each hour by kind, so that an incident stands out.

A period of more than 31 days is shown by day.
"""

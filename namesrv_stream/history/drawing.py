"""Drawing of the plots: rows of a view in, figure out, no Spark. Needs matplotlib (extra `analysis`).

Rows are pandas frames, and their times are in UTC. Each figure shows the period from `since` to `until`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from namesrv_stream.errors import NamesrvError
from namesrv_stream.history import palette


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

MOST_BROKERS = 60
"""Most rows of a plot that has a row for each broker: one page."""

_BROKER_LABEL = "cluster, broker name, id"
_ROW_INCHES = 0.28
_WIDTH_INCHES, _DOTS_AN_INCH = 10, 96
_LEAST_PIXELS = 3
"""Width with which an outage is drawn that would be narrower."""
_TOGETHER_PIXELS = 16
"""Ends of sessions of one broker that are closer than this share one number."""
_DAY = timedelta(days=1)
_LONG = 31 * _DAY


class _ShareText(NamedTuple):
    """Form of a share in a cell of at least `pixels`: font size in points, and digits after the point."""

    pixels: int
    points: int
    digits: int


_WIDE, _NARROW = _ShareText(32, 7, 2), _ShareText(19, 6, 1)
_OF_DOUBLES = 1e-6
"""Added before a share is rounded down, because 0.57 times 100 is a little less than 57 in doubles."""

_ROOMY_COLUMNS = 10
"""Most columns of a heat map in which whole days have their 100 too. In more of them it would hide the other shares."""


def period(since: datetime, until: datetime) -> str:
    """Return the period as titles show it."""
    begin, end = (moment.astimezone(UTC) for moment in (since, until))
    return f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"


def sentence_of(figure: Figure) -> str | None:
    """Return the sentence that a figure has in place of a plot, None if it is a plot."""
    return str(figure.get_label()) or None


def heat_map(rows: Any, since: datetime, until: datetime) -> Figure:
    """Draw a row for each broker and a column for each day: columns `broker`, `day` and `availability` of `rows`.

    A cell has its share in percent if there is room; of more than ten columns only cells below 100 % have it.
    """
    rows = rows.assign(day=rows["day"].astype("datetime64[ns]"))
    grid = rows.pivot(index="broker", columns="day", values="availability")
    shown = grid.loc[grid.mean(axis=1).nsmallest(MOST_BROKERS).index.sort_values()].T.asfreq("D").T
    figure, axes = _figure(len(shown), _of_all("Availability by broker and day", "lowest", shown, grid), since, until)
    if shown.empty:
        return _without_data(figure, axes)
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
    named = [Patch(color=colour, label=label) for label, colour in _share_labels()]
    named += [Patch(fill=False, hatch="...", edgecolor="grey", linewidth=0, label="part of a day")] if is_cut else []
    figure.legend(handles=named, loc="outside lower center", ncols=len(named), frameon=False)
    _write_shares(axes, shares, edges, since, until)
    return figure


def _share_labels() -> Iterator[tuple[str, str]]:
    bounds = [*palette.SHARES]
    for bound, colour in palette.SHARES.items():
        yield (f"from {100 * bound:g} %" if bound else f"below {100 * bounds[1]:g} %"), colour


def _write_shares(axes: Axes, shares: Any, edges: Sequence[Any], since: datetime, until: datetime) -> None:
    """Write each share into the visible part of its cell, rounded down: 100 means the whole day."""
    pixels_a_day = _axis_pixels(axes) / ((until - since) / _DAY)
    for column, (day, next_day) in enumerate(pairwise(edges)):
        begin, end = max(day, _at(since)), min(next_day, _at(until))
        room = (end - begin) / np.timedelta64(1, "D") * pixels_a_day
        form = next((each for each in (_WIDE, _NARROW) if room >= each.pixels), None)
        if form is None:
            continue
        for row in np.flatnonzero(~np.isnan(shares[:, column])):
            share = shares[row, column]
            if share < 1 or len(edges) - 1 <= _ROOMY_COLUMNS:
                percent = np.floor(100 * 10**form.digits * share + _OF_DOUBLES) / 10**form.digits
                place = (begin + (end - begin) / 2, row + 0.5)
                colour = _text_colour(share)
                axes.text(*place, f"{percent:g}", ha="center", va="center", fontsize=form.points, color=colour)


def _text_colour(share: float) -> str:
    """Return the colour in which a share can be read on its cell."""
    return "white" if share < palette.LIGHT_SHARE else "black"


def _mark_parts_of_days(axes: Axes, edges: Sequence[Any], since: datetime, until: datetime) -> bool:
    """Dot the columns of days of which the period has only a part, and return whether there are any."""
    parts = [
        (max(begin, _at(since)), min(end, _at(until)))
        for begin, end in pairwise(edges)
        if begin < _at(since) or end > _at(until)
    ]
    for begin, end in parts:
        axes.axvspan(begin, end, fill=False, hatch="...", edgecolor="grey", linewidth=0, alpha=0.6)
    return bool(parts)


def _at(moment: datetime) -> Any:
    """Return a moment as the days of the heat map's columns are: in UTC, without a zone."""
    return np.datetime64(moment.astimezone(UTC).replace(tzinfo=None))


def timeline(rows: Any, since: datetime, until: datetime) -> Figure:
    """Draw a line for each broker: a bar for each session, and a mark whose colour shows how the session ended.

    After an unplanned end the mark is as wide as the gap. One that would be narrower than a few pixels is drawn wider.
    Ends that lie together have their number.

    Columns of `rows`: `broker`; `since` and `until`, the session's part of the period; `to_time` and `ended_by`, null
    if it did not end in the period; `back_at`; and `brokers`, the number of brokers of which these are the most ended.
    """
    brokers = sorted(rows["broker"].unique(), reverse=True)
    what = _of_all("Sessions and how they ended", "most ended", brokers, range(rows["brokers"].max() if brokers else 0))
    figure, axes = _figure(len(brokers), what, since, until)
    if rows.empty:
        return _without_data(figure, axes)
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
        away = (ended["back_at"] - ended["to_time"]).clip(lower=_LEAST_PIXELS * pixel)
        if how not in palette.UNPLANNED:  # nobody expects the broker in the gap, which stays white
            away = away.clip(upper=_LEAST_PIXELS * pixel)
        colour = palette.ENDS[str(how)].colour
        axes.barh(ended["place"], away, left=ended["to_time"], height=0.6, color=colour, label=how, zorder=3)
    for end, place, count in _together(rows, _TOGETHER_PIXELS * pixel):
        axes.annotate(str(count), (end, place), (4, 5), textcoords="offset points", fontsize="x-small")
    figure.legend(loc="outside lower center", ncols=len(palette.ENDS) + 1, frameon=False)
    return figure


def _together(rows: Any, within: timedelta) -> Iterator[tuple[Any, int, int]]:
    """Yield the last end, the line and the number of each group of two or more ends that follow each other closely."""
    for place, ended in rows[rows["to_time"].notna()].sort_values("to_time").groupby("place"):
        groups = (ended["to_time"].diff() > within).cumsum()
        for _, group in ended["to_time"].groupby(groups):
            if len(group) > 1:
                yield group.iloc[-1], place, len(group)


def flapping(rows: Any, since: datetime, until: datetime) -> Figure:
    """Draw a bar for each broker: columns `broker`, `ends` and `flaps` of `rows`, most ends first."""
    figure, axes = _figure(len(rows), "Flapping", since, until)
    if rows.empty:
        return _without_data(figure, axes)
    if len(rows) == 1:
        [only] = rows.itertuples()
        return _with_sentence(
            figure,
            axes,
            f"One broker fell out unplanned: {only.broker}, {only.ends} times, {only.flaps} times for less "
            "than ten minutes.",
        )
    rows = rows[::-1]
    axes.barh(rows["broker"], rows["flaps"], color=palette.VERMILION, label="back within 10 minutes")
    axes.barh(
        rows["broker"], rows["ends"] - rows["flaps"], left=rows["flaps"], color=palette.GREY, label="later or not"
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("unplanned ends of leases (EXPIRED, CHANNEL_CLOSED)")
    axes.set_ylabel(_BROKER_LABEL)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def expiry(rows: Any, since: datetime, until: datetime) -> Figure:
    """Draw how often each time to expiry occurred: column `seconds` of `rows`."""
    figure, axes = _figure(6, "Time to expiry", since, until)
    seconds = rows["seconds"].astype(float)
    if rows.empty:
        return _without_data(figure, axes)
    if seconds.nunique() == 1:
        leases = "1 lease" if len(seconds) == 1 else f"Each of {len(seconds):,} leases"
        return _with_sentence(figure, axes, f"{leases} expired {seconds.iloc[0]:,.1f} s after the last sign of life.")
    axes.hist(seconds, bins=60, range=(0, 1.1 * max(120.0, seconds.max())), color=palette.ENDS["EXPIRED"].colour)
    axes.set_xlim(left=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(
        "seconds from the last sign of life to the end of the lease "
        f"(median {seconds.median():,.1f}, longest {seconds.max():,.1f})"
    )
    axes.set_ylabel("expired leases")
    return figure


def changes(rows: Any, since: datetime, until: datetime) -> Figure:
    """Draw a column for each hour, by day if the period is long: columns `hour`, `type` and `events` of `rows`."""
    unit, step = ("day", _DAY) if until - since > _LONG else ("hour", timedelta(hours=1))
    figure, axes = _figure(8, f"Changes by {unit}", since, until)
    if rows.empty:
        return _without_data(figure, axes)
    kinds = rows["type"].where(rows["type"].isin(palette.KINDS), palette.COMMAND)
    grid = rows.groupby([rows["hour"].dt.floor(step), kinds])["events"].sum().unstack(fill_value=0)
    if len(grid) == 1:
        said = ", ".join(f"{count:,} {kind}" for kind, count in grid.iloc[0].items())
        return _with_sentence(figure, axes, f"All in one {unit}, from {grid.index[0]:%Y-%m-%d %H:%M}: {said}.")
    bottom = np.zeros(len(grid))
    for kind, (colour, hatch) in palette.KINDS.items():
        if kind in grid:
            width = step / _DAY
            axes.bar(grid.index, grid[kind], width, bottom, align="edge", label=kind, color=colour, hatch=hatch)
            bottom += grid[kind].to_numpy()
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(f"events in the {unit}")
    _date_axis(axes, since, until)
    figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize="small")
    return figure


def _figure(rows: int, what: str, since: datetime, until: datetime) -> tuple[Figure, Axes]:
    height = max(2.5, 1.5 + rows * _ROW_INCHES)
    figure = Figure(figsize=(_WIDTH_INCHES, height), dpi=_DOTS_AN_INCH, layout="constrained")
    axes = figure.subplots()
    axes.set_title(f"{what}, {period(since, until)}", fontsize="medium")
    return figure, axes


def _axis_pixels(axes: Axes) -> float:
    """Return the width that the labels leave to the time axis. Call it when the labels are set."""
    axes.get_figure(root=True).draw_without_rendering()  # type: ignore[union-attr]  # axes of ours have a figure
    return float(axes.get_window_extent().width)


def _of_all(what: str, which: str, shown: Any, everything: Any) -> str:
    """Return the title `what`, with the number of brokers shown if the plot has no room for all of them."""
    return what if len(shown) == len(everything) else f"{what} (the {len(shown)} {which} of {len(everything):,})"


def _without_data(figure: Figure, axes: Axes) -> Figure:
    return _with_sentence(figure, axes, "nothing in this period")


def _with_sentence(figure: Figure, axes: Axes, sentence: str) -> Figure:
    """Return the figure with a sentence in place of a plot. It is the figure's label too, for `sentence_of`."""
    figure.set_label(sentence)
    axes.set_axis_off()
    axes.text(0.5, 0.5, sentence, ha="center", va="center", transform=axes.transAxes)
    return figure


def _date_axis(axes: Axes, since: datetime, until: datetime) -> None:
    """Bound the date axis by the period, and label it with only the parts of each date that are needed."""
    axes.set_xlim(since, until)  # type: ignore[arg-type]  # an axis of dates takes dates
    locator = axes.xaxis.get_major_locator()
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]  # matplotlib's

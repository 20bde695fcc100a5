"""Figures of the plots: their bars, texts and colours are read from matplotlib's objects, without Spark."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from matplotlib.dates import num2date

from namesrv_stream.analysis import plots

START = datetime(2026, 11, 1, tzinfo=UTC)
DAY = timedelta(days=1)
WEEK = (START, START + 7 * DAY)


def hours(count):
    return START + timedelta(hours=count)


def shares(period, *of_day, broker="c1 broker-a 0"):
    """Rows of one broker: its share of each day from the first of the period on."""
    first = period[0].date()
    days = [(broker, first + number * DAY, share) for number, share in enumerate(of_day)]
    return pd.DataFrame(days, columns=["broker", "day", "availability"])


def session(from_hour, to_hour=None, ended_by="EXPIRED", back_hour=None, *, broker="c1 broker-a 0", until=WEEK[1]):
    """A row of the timeline. A session that lasts is drawn up to the end of the period."""
    ended = pd.NaT if to_hour is None else hours(to_hour)
    back = until if back_hour is None else hours(back_hour)
    return {
        "broker": broker,
        "since": hours(from_hour),
        "until": until if to_hour is None else hours(to_hour),
        "to_time": ended,
        "ended_by": None if to_hour is None else ended_by,
        "back_at": back,
        "brokers": 1,
    }


def timeline(*sessions):
    rows = pd.DataFrame(sessions)
    for name in ("since", "until", "to_time", "back_at"):
        rows[name] = pd.to_datetime(rows[name], utc=True)
    return plots.up_down_timeline.figure(rows, *WEEK)


def events(*rows):
    frame = pd.DataFrame(rows, columns=["hour", "type", "events"])
    return plots.changes_by_hour.figure(frame.assign(hour=pd.to_datetime(frame["hour"], utc=True)), *WEEK)


def numbers(figure):
    [axes] = figure.axes
    return [text.get_text() for text in axes.texts]


def legend(figure):
    [found] = figure.legends
    return [text.get_text() for text in found.get_texts()]


def marks(figure):
    """Return each mark of an end: its kind, its beginning and its width in pixels."""
    figure.draw_without_rendering()
    [axes] = figure.axes
    return [
        (bars.get_label(), num2date(bar.get_x()), bar.get_window_extent().width)
        for bars in axes.containers
        for bar in bars
    ]


@pytest.mark.parametrize(("away_minutes", "pixels"), [(1, 3.0), (12 * 60, None)])
def test_an_outage_is_drawn_as_long_as_it_was_and_three_pixels_wide_at_least(away_minutes, pixels):
    figure = timeline(session(0, 24, back_hour=24 + away_minutes / 60), session(24 + away_minutes / 60))
    [(kind, begin, width)] = marks(figure)
    share = timedelta(minutes=away_minutes) / (WEEK[1] - WEEK[0])
    exact = share * figure.axes[0].get_window_extent().width
    assert (kind, begin) == ("EXPIRED", hours(24))
    assert width == pytest.approx(pixels or exact, abs=0.5)
    [(kind, _, width)] = marks(timeline(session(0, 24, "UNREGISTERED", back_hour=72), session(72)))
    assert (kind, width) == ("UNREGISTERED", pytest.approx(3.0, abs=0.5)), "the gap after a planned end stays white"


def test_a_heat_map_of_a_week_has_the_share_of_each_cell_rounded_down():
    figure = plots.availability_heat_map.figure(shares(WEEK, 1.0, 0.99996, 0.98765, 0.57, 0.0, 1.0, 1.0), *WEEK)
    assert numbers(figure) == ["100", "99.99", "98.76", "57", "0", "100", "100"]


@pytest.mark.parametrize(
    ("since", "until", "parts"),
    [
        (START, START + 2 * DAY, []),
        (hours(6), START + 2 * DAY, [(hours(6), hours(24))]),
        (hours(6), hours(36), [(hours(6), hours(24)), (hours(24), hours(36))]),
    ],
)
def test_a_day_of_which_the_period_has_only_a_part_is_dotted_in_that_part(since, until, parts):
    figure = plots.availability_heat_map.figure(shares((since, until), 1.0, 1.0), since, until)
    dotted = [patch for patch in figure.axes[0].patches if patch.get_hatch()]
    found = [(num2date(each.get_x()), num2date(each.get_x() + each.get_width())) for each in dotted]
    assert [(begin, end) for begin, end in found] == parts
    assert ("part of a day" in legend(figure)) == bool(parts)


def test_a_heat_map_has_room_for_the_brokers_that_matter_most_and_names_their_total(monkeypatch):
    monkeypatch.setattr(plots, "MAX_BROKERS", 1)
    rows = pd.concat([shares(WEEK, 1.0), shares(WEEK, 0.5, broker="c1 broker-b 0")])
    [axes] = plots.availability_heat_map.figure(rows, *WEEK).axes
    assert "(the 1 lowest of 2)" in axes.get_title()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["c1 broker-b 0"]


def test_one_bar_is_a_sentence():
    fallen = pd.DataFrame({"broker": ["c1 broker-a 0"], "ends": [3], "flaps": [2], "brokers": [1]})
    assert plots.sentence_of(plots.flapping_rank.figure(fallen, *WEEK)) == (
        "One broker fell out unplanned: c1 broker-a 0, 3 times, 2 times for less than ten minutes."
    )
    assert plots.sentence_of(plots.time_to_expiry.figure(pd.DataFrame({"seconds": [120.5]}), *WEEK)) == (
        "1 lease expired 120.5 s after the last sign of life."
    )
    assert plots.sentence_of(plots.time_to_expiry.figure(pd.DataFrame({"seconds": [121.0, 121.0]}), *WEEK)) == (
        "Each of 2 leases expired 121.0 s after the last sign of life."
    )
    assert plots.sentence_of(events((hours(9), "EXPIRED", 2), (hours(9), "PUT_KV_CONFIG", 1))) == (
        "All in one hour, from 2026-11-01 09:00: 2 EXPIRED, 1 operator command."
    )

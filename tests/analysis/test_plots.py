"""Plots of the history: the period that they show, and the same figures in DuckDB and in Spark."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from matplotlib.collections import LineCollection
from matplotlib.dates import num2date

from namesrv_stream.analysis import plots
from namesrv_stream.analysis.ask import opened
from namesrv_stream.analysis.views import register_views
from namesrv_stream.rules.record_types import WipeWritePerm
from namesrv_stream.tables.registry import open_tables
from namesrv_stream.tables.root import Root
from tests.answers.fleet import RandomHistory
from tests.answers.seeded import SeededRegistry
from tests.tables.rows import NOW

START = datetime(2026, 11, 14, tzinfo=UTC)
A = "10.0.0.1:10911"


def hours(count):
    return START + timedelta(hours=count)


def ms(count):
    return round(hours(count).timestamp() * 1000)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A broker is there from the 1st to the 2nd hour, and with more topics from the 5th on; another one goes before."""
    place = Root(str(tmp_path_factory.mktemp("history") / "registry"))
    registry = SeededRegistry(place, NOW)
    registry.register(ms(1), A, "broker-a", topics=("T",))
    registry.register(ms(1), "10.0.0.2:10911", "broker-b")
    registry.command(ms(1.2), WipeWritePerm(broker_name="broker-a", requested_by="ann@operations"))
    registry.unregister(ms(1.4), "10.0.0.2:10911")
    registry.publish(at_ms=ms(1.5))
    registry.expire(ms(2), A)
    registry.register(ms(5), A, "broker-a", topics=("T", "U", "V"))
    registry.publish(at_ms=ms(6))
    return place


@pytest.mark.parametrize(
    ("until", "bounds"),
    [
        (datetime(2026, 12, 1, tzinfo=UTC), "DATE '2026-11-14' to DATE '2026-11-30', '2026-11' to '2026-11'"),
        (datetime(2026, 12, 1, 0, 0, 1, tzinfo=UTC), "DATE '2026-11-14' to DATE '2026-12-01', '2026-11' to '2026-12'"),
    ],
)
def test_the_days_and_months_of_a_period_are_those_of_utc_and_none_that_it_only_touches(until, bounds):
    begin, end = (moment.astimezone(timezone(timedelta(hours=9))) for moment in (START, until))
    said = plots.bounded(":first_day to :last_day, :first_month to :last_month", begin, end)
    assert said == bounds


@pytest.fixture(scope="module")
def on_views(root):
    """The views of `root`."""
    with opened(open_tables(root)) as views:
        yield views


def test_a_timeline_shows_of_a_session_its_part_of_the_period_and_of_its_end_nothing_that_came_later(on_views):
    [axes] = plots.up_down_timeline(on_views, hours(1.1), hours(1.5)).axes
    [bars] = [each for each in axes.collections if isinstance(each, LineCollection)]
    drawn = {tuple(num2date(place) for place in (begin[0], end[0])) for begin, end in bars.get_segments()}
    assert drawn == {(hours(1.1), hours(1.5)), (hours(1.1), hours(1.4))}
    assert [ended.get_label() for ended in axes.containers] == ["UNREGISTERED"]


@pytest.mark.parametrize(
    ("asked", "known"),
    [((0, 9), (1, 6)), ((2, 3), (2, 3)), ((0, 3), (1, 3)), ((5, 9), (5, 6)), ((-9, 0), (-9, 0)), ((7, 9), (7, 9))],
)
def test_a_period_is_cut_to_what_the_history_knows_unless_it_lies_outside(on_views, asked, known):
    since, until = plots.known_period(on_views, *(hours(count) for count in asked))
    assert (since, until) == tuple(hours(count) for count in known)


def test_the_figures_of_a_period_begin_with_what_was_down(on_views):
    for since, until, of_brokers in ((4, 5.25, [0.2]), (1.1, 1.3, [1.0])):
        rows = plots.answer(on_views, plots.availability_heat_map.statement, hours(since), hours(until)).to_pylist()
        assert [row["availability"] for row in rows if row["broker"] == "c1 broker-a 0"] == of_brokers


@pytest.mark.full
def test_the_statements_of_plots_have_the_same_rows_in_spark(spark, tmp_path):
    place = Root(str(tmp_path / "registry"))
    history = RandomHistory(place, 3, ms(0), NOW)
    for _ in range(80):
        history.step(37 * 60_000)
    history.publish()
    session = spark.newSession()
    register_views(session, place)
    each_plot = [plots.availability_heat_map, plots.up_down_timeline, plots.flapping_rank]
    with opened(open_tables(place)) as views:
        for statement in (plot.statement for plot in each_plot):
            found = [plots.answer(source, statement, hours(5), hours(30)).to_pylist() for source in (views, session)]
            assert found[0]
            assert sorted(map(rounded, found[0])) == sorted(map(rounded, found[1]))


def rounded(row):
    return str([round(value, 9) if isinstance(value, float) else str(value) for value in row.values()])

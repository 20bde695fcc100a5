"""The churn report: one page, nothing to fetch, and its text for a period without events."""

import time
from datetime import UTC, datetime, timedelta, timezone
from html.parser import HTMLParser

import pytest

from namesrv_stream.history import plots
from namesrv_stream.history.report import EmptyPeriodError, churn_report, topics_at
from namesrv_stream.history.views import register_views
from namesrv_stream.rules.requests import WipeWritePerm
from namesrv_stream.tables.root import Root
from tests.history.seeded import SeededRegistry
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


@pytest.fixture
def in_tokyo(monkeypatch):
    """The machine's time zone, not Spark's."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


class References(HTMLParser):
    """Collects the addresses that a browser would fetch for a page."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]


def test_a_page_has_its_plots_inside_its_times_in_utc_wherever_it_is_made_and_the_topics_of_its_end(
    spark, root, in_tokyo
):
    text = churn_report(spark, root, hours(1), hours(1.75))
    references = References()
    references.feed(text)
    assert len(references.found) == 2
    assert all(reference.startswith("data:image/png;base64,") for reference in references.found)
    assert "url(" not in text
    assert "@import" not in text
    assert text.count("Churn from 2026-11-14 01:00 to 2026-11-14 01:45 UTC") == 2
    assert '<td class="time">2026-11-14 01:12:00</td><td class="text">ann@operations</td>' in text
    assert '<td class="text">broker-a</td><td class="number">1</td>' in text
    assert "<h2>Several brokers gone at once</h2><p>None.</p>" in text


def test_topics_of_a_moment_without_a_snapshot_are_shown_as_unknown(spark, root):
    assert "Not known: there is no snapshot of event time 2026-11-14 01:15:00 UTC" in topics_at(
        spark, root, hours(1.25)
    )


def test_a_period_in_a_gap_is_refused_with_the_gaps_ends(spark, root):
    with pytest.raises(EmptyPeriodError) as refused:
        churn_report(spark, root, hours(3), hours(4))
    assert str(refused.value) == (
        "no broker was in the routes from 2026-11-14 03:00 to 2026-11-14 04:00 UTC. "
        "There were brokers until 2026-11-14 02:00:00 and from 2026-11-14 05:00:00 on."
    )


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("2026-11-14 02:00:00", None, "There were brokers until 2026-11-14 02:00:00."),
        (None, "2026-11-14 05:00:00", "There were brokers from 2026-11-14 05:00:00 on."),
        (None, None, "No broker has ever registered."),
    ],
)
def test_a_period_without_brokers_names_what_there_is(before, after, told):
    assert str(EmptyPeriodError(hours(3), hours(4), before, after)).endswith(f" UTC. {told}")


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


def test_a_plot_has_room_for_the_brokers_that_matter_most_and_names_their_total(spark, root, monkeypatch):
    monkeypatch.setattr(plots, "MOST_BROKERS", 1)
    session = spark.newSession()
    register_views(session, root)
    for plot, of_all, shown in (
        (plots.up_down_timeline, "(the 1 most ended of 2)", "c1 broker-b 0"),
        (plots.availability_heat_map, "(the 1 lowest of 2)", "c1 broker-a 0"),
    ):
        [axes] = plot(session, hours(0), hours(1.75)).axes
        assert of_all in axes.get_title()
        assert [label.get_text() for label in axes.get_yticklabels()] == [shown]


@pytest.fixture(scope="module")
def without_brokers(spark, tmp_path_factory):
    """A session on a registry that has received no record."""
    place = Root(str(tmp_path_factory.mktemp("history") / "registry"))
    SeededRegistry(place, NOW)
    session = spark.newSession()
    register_views(session, place)
    return session


@pytest.mark.parametrize("plot", [plots.availability_heat_map, plots.up_down_timeline, plots.flapping_rank,
                                  plots.time_to_expiry, plots.changes_by_hour])  # fmt: skip
def test_a_plot_of_a_period_without_data_has_a_text_for_it(without_brokers, plot):
    [axes] = plot(without_brokers, hours(1), hours(2)).axes
    assert [text.get_text() for text in axes.texts] == ["nothing in this period"]

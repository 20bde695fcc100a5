"""The churn report: one page, nothing to fetch, and its text for a period without events."""

import re
import time
from datetime import UTC, datetime, timedelta, timezone
from html.parser import HTMLParser

import pytest
from matplotlib.collections import LineCollection
from matplotlib.dates import num2date

from namesrv_stream.analysis import plots
from namesrv_stream.analysis.ask import opened
from namesrv_stream.analysis.report import churn_report, topics_at
from namesrv_stream.analysis.views import register_views
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.record_types import WipeWritePerm
from namesrv_stream.tables.root import Root
from tests.history.fleet import RandomHistory
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


def test_a_page_has_its_plots_inside_its_times_in_utc_wherever_it_is_made_and_the_topics_of_its_end(root, in_tokyo):
    text = churn_report(root, hours(1), hours(1.75))
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


def test_topics_of_a_moment_before_the_registry_are_shown_as_unknown(root):
    assert "Not known: there is no snapshot of event time 2026-11-14 00:00:00 UTC" in topics_at(root, hours(0))


@pytest.mark.parametrize(
    ("period", "told"),
    [((3, 4), "There were brokers until 2026-11-14 02:00:00 and from 2026-11-14 05:00:00 on."),
     ((7, 8), "There were brokers until 2026-11-14 06:00:00."),
     ((-2, -1), "There were brokers from 2026-11-14 01:00:00 on.")],
)  # fmt: skip
def test_a_period_without_brokers_is_refused_with_what_there_is(root, period, told):
    with pytest.raises(NamesrvError) as refused:
        churn_report(root, *map(hours, period))
    shown = " to ".join(f"{hours(count):%Y-%m-%d %H:%M}" for count in period)
    assert str(refused.value) == f"no broker was in the routes from {shown} UTC. {told}"


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
    with opened(root) as views:
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


@pytest.fixture(scope="module")
def page_of_an_outage(tmp_path_factory):
    """The report's page about two of three brokers that fall and come back, one of them in another zone later."""
    place = Root(str(tmp_path_factory.mktemp("history") / "registry"))
    registry = SeededRegistry(place, NOW)
    registry.register(ms(1), A, "broker-a", zone="z1")
    registry.register(ms(1), "10.0.0.2:10911", "broker-b", zone="z1")
    registry.register(ms(1), "10.0.0.3:10911", "broker-c")
    registry.close_channel(ms(2), A)
    registry.close_channel(ms(2) + 20_000, "10.0.0.2:10911")
    registry.register(ms(2.1), A, "broker-a", zone="z1")
    registry.register(ms(3), "10.0.0.2:10911", "broker-b", zone="z1")
    registry.tick(ms(3.5))
    registry.tick(ms(3.5) + 11_000)
    registry.close_channel(ms(4), A)
    registry.register(ms(4.5), A, "broker-a", zone="z9")
    registry.publish(at_ms=ms(6))
    with opened(place) as views:
        yield churn_report(place, hours(0), hours(9)), views


def parts_of(page):
    """Return the page's parts by heading: the summary on top has none."""
    parts = [part.partition("</h2>") for part in page.partition("<ul>")[2].split("<h2>")]
    return {"": parts[0][0]} | {heading: body for heading, _, body in parts[1:]}


def test_a_page_begins_with_the_three_things_worth_knowing(page_of_an_outage):
    page, _ = page_of_an_outage
    assert "<h1>Churn from 2026-11-14 01:00 to 2026-11-14 06:00 UTC</h1>" in page, "what the history knows"
    assert [line.partition("<")[0] for line in parts_of(page)[""].split("<li>")[1:]] == [
        "Brokers were in the routes 89.37 % of the time they were expected. The lowest was c1 broker-b 0, with "
        "80.11 %.",
        "The greatest outage took 2 brokers together, from 2026-11-14 02:00:00 UTC on: c1 broker-a 0, c1 broker-b 0.",
        "c1 broker-a 0 flapped most: it fell out unplanned 2 times, 1 of them for less than ten minutes.",
    ]


def test_a_table_that_is_cut_says_how_many_rows_there_are(tmp_path, monkeypatch):
    monkeypatch.setattr("namesrv_stream.analysis.report._MAX_LINES", 2)
    place = Root(str(tmp_path / "registry"))
    registry = SeededRegistry(place, NOW)
    registry.register(ms(1), A, "broker-a")
    for hour in (2, 3, 4):
        registry.command(ms(hour), WipeWritePerm(broker_name="broker-a", requested_by=f"ann-{hour}"))
    registry.publish(at_ms=ms(6))
    part = parts_of(churn_report(place, hours(0), hours(9)))["Operator commands"]
    assert "<p>2 of 3 are shown.</p>" in part
    assert re.findall("ann-.", part) == ["ann-4", "ann-3"]


def test_the_figures_of_a_page_are_those_of_its_period_and_begin_with_what_was_down(tmp_path):
    place = Root(str(tmp_path / "registry"))
    registry = SeededRegistry(place, NOW)
    registry.register(ms(1), A, "broker-a")
    registry.register(ms(1), "10.0.0.2:10911", "broker-b")
    registry.close_channel(ms(9.5), A)
    registry.register(ms(10.25), A, "broker-a")
    registry.publish(at_ms=ms(20))
    page = churn_report(place, hours(10), hours(11))
    assert (
        "Brokers were in the routes 87.5 % of the time they were expected. The lowest was c1 broker-a 0, with 75.0 %."
        in page
    )
    with opened(place) as views:
        rows = plots.answer(views, plots.availability_heat_map.statement, hours(10), hours(11)).to_pylist()
    assert {row["broker"]: row["availability"] for row in rows} == {"c1 broker-a 0": 0.75, "c1 broker-b 0": 1.0}


@pytest.mark.full
def test_the_statements_of_a_page_have_the_same_rows_in_spark(spark, tmp_path):
    place = Root(str(tmp_path / "registry"))
    history = RandomHistory(place, 3, ms(0), NOW)
    for _ in range(80):
        history.step(37 * 60_000)
    history.publish()
    session = spark.newSession()
    register_views(session, place)
    each_plot = [plots.availability_heat_map, plots.up_down_timeline, plots.flapping_rank]
    with opened(place) as views:
        for statement in (plot.statement for plot in each_plot):
            found = [plots.answer(source, statement, hours(5), hours(30)).to_pylist() for source in (views, session)]
            assert found[0]
            assert sorted(map(rounded, found[0])) == sorted(map(rounded, found[1]))


def rounded(row):
    return str([round(value, 9) if isinstance(value, float) else str(value) for value in row.values()])

"""The churn report of some days of a fleet: one page, nothing to fetch."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from namesrv_stream.fleet.chronicle import HOUR_MS, Chronicle, chronicle_plan
from namesrv_stream.history.report import EmptyPeriodError, churn_report
from namesrv_stream.history.views import register_views
from namesrv_stream.tables.root import Root
from tests.history.by_rules import publish_by_rules
from tests.tables.rows import NOW

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 14, tzinfo=UTC)
DAYS = 2


@pytest.fixture(scope="module")
def page(spark, tmp_path_factory):
    """A function of the period."""
    place = Root(str(tmp_path_factory.mktemp("history") / "registry"))
    story = Chronicle(chronicle_plan(seed=1), round(START.timestamp() * 1000), DAYS)
    publish_by_rules(story.records(), place, NOW, 6 * HOUR_MS, [])
    register_views(spark, place)
    return lambda since, until: churn_report(spark, since, until)


def test_the_page_has_its_plots_inside_and_asks_for_nothing(page):
    text = page(START, START + timedelta(days=DAYS))
    assert len(re.findall('<img alt="[^"]+" src="data:image/png;base64,[A-Za-z0-9+/=]{2000,}">', text)) == 5
    assert not re.findall(r"https?://|<script|<link", text)
    assert "<td>ann@operations</td>" in text


def test_a_part_of_the_time_shows_that_part_alone(page):
    text = page(START, START + timedelta(hours=6))
    assert "ann@operations" not in text
    assert "<h2>Operator commands</h2><p>None.</p>" in text


@pytest.mark.parametrize("days", [(-10, -5), (5, 10), (1, 1)])
def test_a_period_without_brokers_names_the_one_that_there_is(page, days):
    with pytest.raises(EmptyPeriodError, match=r"sessions from 2026-11-14 00:00:00"):
        page(*(START + timedelta(days=day) for day in days))

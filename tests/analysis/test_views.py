"""Results of the views for analysts, on histories whose answers are known.

DuckDB answers, without Spark: tests/analysis/test_analysis.py shows that Spark gives the same.
"""

from datetime import UTC, date, datetime, time, timedelta
from math import ceil
from zoneinfo import ZoneInfo

import pytest

from namesrv_stream.analysis.ask import ask, opened
from namesrv_stream.analysis.views import create_views, history_queries, open_snapshot, register_views
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.rows import RejectedRow
from namesrv_stream.tables.registry import open_tables
from tests.answers.by_the_hour import ADDRESSES, check_history, hours
from tests.answers.seeded import DAY_MS, HOUR_MS, MINUTE_MS, SeededRegistry
from tests.data import data

A, B = ADDRESSES["A"], ADDRESSES["B"]
HISTORIES = data(__file__, "views.yaml")


@pytest.fixture
def rows(root):
    """Rows of a statement over the views of what the registry has published."""
    return lambda statement: [tuple(row.values()) for row in ask(root, statement).to_pylist()]


def rows_of(session, statement):
    return [tuple(row) for row in session.sql(statement).collect()]


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_the_views_say_of_a_history_what_its_row_says(root, registry, row):
    check_history(root, registry, row)


def test_every_view_that_shows_brokers_has_their_keys(root, registry):
    registry.publish()
    with opened(open_tables(root)) as views:
        shown = {name: {*views.table(f"FROM {name} LIMIT 0").column_names} for name in history_queries()}
    of_brokers = {name for name, columns in shown.items() if columns & {"broker_id", "worst_broker", "which"}}
    assert len(of_brokers) >= 7
    assert {name for name in of_brokers if not shown[name] & {"broker_key", "worst_broker_key", "broker_keys"}} == set()


def test_rejected_records_are_shown_as_text_as_far_as_they_are_text(registry, rows):
    kept = [RejectedRow(hours(1), 0, i, "k", value, 9, "why") for i, value in enumerate((b"{no", b"\xff\xfe", None))]
    registry.publish(at_ms=hours(1), rejected=tuple(kept))
    assert rows('SELECT text FROM rejected_record ORDER BY "offset"') == [("{no",), (None,), (None,)]


def test_days_hours_and_months_are_those_of_utc_in_any_session_time_zone(spark, root, registry):
    """The hours before and after the end of a month in UTC, where the session's zone is 2.5 hours behind."""
    turn_ms = round(datetime(2026, 10, 1, tzinfo=UTC).timestamp() * 1000)
    registry.register(turn_ms - HOUR_MS, A, "broker-a")
    registry.expire(turn_ms - HOUR_MS // 4, A)
    registry.register(turn_ms + HOUR_MS // 4, A, "broker-a")
    registry.publish(at_ms=turn_ms + HOUR_MS)
    statements = (
        "SELECT string(day), up_millis, expected_millis FROM broker_availability ORDER BY day",
        "SELECT month, flaps, unplanned_ends FROM broker_flapping",
        "SELECT unix_millis(hour), type FROM route_changes ORDER BY ALL",
        "SELECT string(known_day), known_month FROM known_until",
    )
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    register_views(session, root, only=["broker_availability", "broker_flapping", "route_changes"])
    days, flapping, changes, [known] = (rows_of(session, each) for each in statements)
    quarter = HOUR_MS // 4
    assert days == [("2026-09-30", 3 * quarter, HOUR_MS), ("2026-10-01", 3 * quarter, HOUR_MS)]
    assert flapping == [("2026-09", 0, 1)]
    assert changes == [(turn_ms - HOUR_MS, "EXPIRED"), (turn_ms - HOUR_MS, "REGISTERED"), (turn_ms, "REGISTERED")]
    assert known == ("2026-10-01", "2026-10")


def test_views_that_are_asked_for_are_moved_with_their_sources_and_no_others(spark, root, registry):
    registry.register(hours(1), A, "broker-a", topics=("T",))
    first = registry.publish()
    registry.register(hours(2), B, "broker-a", topics=("T", "U"))
    newest = registry.publish()
    session = spark.newSession()
    assert register_views(session, root, epoch=first, only=["topic_with_one_broker"]).epoch == first
    assert {row.viewName for row in session.sql("SHOW VIEWS").collect()} == {"topic", "topic_with_one_broker"}
    assert register_views(session, root, only=["broker_change", "cluster"]).epoch == newest
    assert "broker" not in {row.viewName for row in session.sql("SHOW VIEWS").collect()}
    assert [row.topic for row in session.table("topic").collect()] == ["T"]
    assert [row.broker_name for row in session.table("cluster").collect()] == ["broker-a"]
    assert session.table("broker_change").count() == 2
    open_snapshot(session, root)  # moves the tables alone
    assert session.table("topic").count() == 2
    assert session.table("topic_with_one_broker").count() == 1


@pytest.mark.full
def test_permanent_views_stay_at_their_snapshot_in_every_session_until_they_are_made_again(spark, root, registry):
    """In Spark's own catalogue; tests/analysis/test_thrift_server.py has a metastore's."""
    names = "SELECT broker_name FROM permanent_routes.broker_dim ORDER BY ALL"
    registry.register(hours(1), A, "broker-a")
    first = registry.publish()
    assert create_views(spark, root.url, "permanent_routes").epoch == first
    registry.register(hours(2), B, "broker-b")
    second = registry.publish()
    assert rows_of(spark.newSession(), names) == [("broker-a",)]
    create_views(spark, root.url, "permanent_routes", epoch=second, zone="Asia/Tokyo")
    assert rows_of(spark.newSession(), names) == [("broker-a",), ("broker-b",)]
    offsets = "SELECT DISTINCT utc_offset_minutes FROM permanent_routes.local_hour"
    assert rows_of(spark.newSession(), offsets) == [(540,)]
    spark.sql("DROP SCHEMA permanent_routes CASCADE")


@pytest.mark.parametrize(
    ("zone", "day", "lasts"),
    [
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Asia/Kolkata", date(2026, 3, 29), 24),
        ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
    ],
)
def test_a_local_day_has_its_hours_and_availability_by_local_days_is_that_of_the_time(root, zone, day, lasts):
    begins = round(datetime.combine(day, time(), ZoneInfo(zone)).timestamp() * 1000)
    registry = SeededRegistry(root, begins)
    registry.register(begins - DAY_MS, A, "broker-a")
    registry.expire(begins + 2 * HOUR_MS + 30 * MINUTE_MS, A)
    registry.register(begins + 3 * HOUR_MS + 30 * MINUTE_MS, A, "broker-a")
    registry.publish(at_ms=begins + 3 * DAY_MS)
    with opened(open_tables(root), zone=zone) as views:
        asked = {"day": day}
        [found] = views.rows("SELECT up_millis, expected_millis FROM broker_local_availability WHERE day = $day", asked)
        assert found == ((lasts - 1) * HOUR_MS, lasts * HOUR_MS)
        own_day = views.rows("SELECT month, from_millis, until_millis FROM local_day WHERE day = $day", asked)
        assert own_day == [(f"{day:%Y-%m}", begins, begins + lasts * HOUR_MS)]
        hour = "SELECT hour FROM local_hour WHERE day = $day ORDER BY from_millis"
        numbers = [number for [number] in views.rows(hour, asked)]
        assert numbers == [
            datetime.fromtimestamp((begins + each * HOUR_MS) / 1000, ZoneInfo(zone)).hour for each in range(ceil(lasts))
        ]
        totals = "SELECT CAST(sum(up_millis) AS BIGINT), CAST(sum(expected_millis) AS BIGINT) FROM "
        assert views.rows(totals + "broker_local_availability", {}) == views.rows(totals + "broker_availability", {})
        days = views.rows("SELECT day, from_millis, until_millis FROM local_day ORDER BY day", {})
        until = datetime.fromtimestamp((begins + 3 * DAY_MS) / 1000, ZoneInfo(zone)).date()
        assert [each[0] for each in days] == [day + timedelta(days=n) for n in range(-1, (until - day).days + 1)]
        ends = {datetime.fromtimestamp(end / 1000, ZoneInfo(zone)).time() for each in days for end in each[1:]}
        assert ends == {time()}, "the first and the last day are whole"


def test_a_zone_that_there_is_not_is_refused(root):
    with pytest.raises(NamesrvError, match="Europe/Berlin"):
        history_queries("Europe/Nowhere'; DROP")

"""Results of the views for analysts, on histories whose answers are known.

DuckDB answers, without Spark: tests/history/test_analysis.py shows that Spark gives the same.
"""

from datetime import UTC, datetime, time, timedelta
from math import ceil
from zoneinfo import ZoneInfo

import pytest

from namesrv_stream.analysis.ask import ask, opened
from namesrv_stream.analysis.views import create_views, history_queries, open_snapshot, register_views
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.record_types import WipeWritePerm
from namesrv_stream.rules.rows import RejectedRow
from namesrv_stream.tables.root import Root
from tests.history.seeded import DAY_MS, HOUR_MS, MINUTE_MS, SeededRegistry
from tests.tables.rows import NOW

MIDNIGHT_MS = (NOW // DAY_MS - 5) * DAY_MS
A, B, C, D = (f"10.0.0.{number}:10911" for number in range(1, 5))


@pytest.fixture
def root(tmp_path):
    return Root(str(tmp_path / "registry"))


@pytest.fixture
def registry(root):
    return SeededRegistry(root, NOW)


def hours(count):
    return MIDNIGHT_MS + round(count * HOUR_MS)


def day(number):
    return at(MIDNIGHT_MS + number * DAY_MS).date()


def at(epoch_ms):
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)


@pytest.fixture
def rows(root):
    """Rows of a statement over the views of what the registry has published."""
    return lambda statement: [tuple(row.values()) for row in ask(root, statement).to_pylist()]


def rows_of(session, statement):
    return [tuple(row) for row in session.sql(statement).collect()]


SESSIONS = "SELECT broker_id, from_time, to_time, ended_by, first_addr, last_addr FROM broker_session ORDER BY ALL"


def test_a_session_goes_from_registration_to_its_end_and_the_last_is_open(registry, rows):
    registry.register(hours(1), A, "broker-a")
    registry.expire(hours(2), A)
    registry.register(hours(3), A, "broker-a")
    registry.unregister(hours(4), A)
    registry.register(hours(5), A, "broker-a")
    registry.publish(at_ms=hours(6))
    assert rows(SESSIONS) == [
        (0, at(hours(1)), at(hours(2)), "EXPIRED", A, A),
        (0, at(hours(3)), at(hours(4)), "UNREGISTERED", A, A),
        (0, at(hours(5)), None, None, A, A),
    ]
    assert rows("SELECT session_millis, back_at FROM broker_session ORDER BY from_time") == [
        (HOUR_MS, at(hours(3))),
        (HOUR_MS, at(hours(5))),
        (HOUR_MS, None),
    ]


def test_r5_r8_a_new_address_stays_in_the_session_and_a_promotion_ends_the_slaves(registry, rows):
    registry.register(hours(1), A, "broker-a")
    registry.register(hours(1), B, "broker-a", 1)
    registry.register(hours(2), B, "broker-a", 0, state_version=1)
    registry.expire(hours(3), A)
    registry.publish(at_ms=hours(4))
    assert rows(SESSIONS) == [
        (0, at(hours(1)), None, None, A, B),
        (1, at(hours(1)), at(hours(2)), "ID_LOST", B, B),
    ]


def test_availability_counts_from_the_first_registration_to_the_last_expected_moment(registry, rows):
    registry.register(hours(12), A, "broker-a")
    registry.expire(hours(30), A)
    registry.register(hours(36), A, "broker-a")
    registry.register(hours(12), B, "broker-b")
    registry.unregister(hours(18), B)
    registry.publish(at_ms=hours(60))
    found = rows("SELECT broker_name, day, up_millis / 3600000, availability FROM broker_availability ORDER BY 1, 2")
    assert found == [
        ("broker-a", day(0), 12, 1),
        ("broker-a", day(1), 18, 0.75),
        ("broker-a", day(2), 12, 1),
        ("broker-b", day(0), 6, 1),
    ]
    columns = "day, brokers, up_millis / 3600000, expected_millis / 3600000, availability, worst_availability"
    clusters = rows(f"SELECT {columns}, worst_broker FROM cluster_availability ORDER BY day")
    assert clusters[0][:-1] == (day(0), 2, 18, 18, 1, 1)
    assert clusters[1] == (day(1), 1, 18, 24, 0.75, 0.75, "broker-a 0")


def test_brokers_that_go_no_more_than_a_minute_apart_share_an_outage(registry, rows):
    """A dies together with B, whose connection shows it; C expires first, but sent a sign of life two minutes later.

    A's slave has taken its id when its lease expires. Before that A has fallen twice within a minute, alone.
    """
    for fall_ms in (0, 30_000):
        registry.register(hours(0) + fall_ms, A, "broker-a")
        registry.close_channel(hours(0) + fall_ms + 1, A)
    for address, name, cluster in ((A, "broker-a", "c1"), (B, "broker-b", "c2"), (C, "broker-c", "c1")):
        registry.register(hours(1), address, name, cluster=cluster)
    died_ms = hours(2)
    registry.register(hours(1), D, "broker-a", 1)
    registry.close_channel(died_ms, B)
    registry.register(died_ms + MINUTE_MS, D, "broker-a", state_version=1)
    registry.expire(died_ms + 2 * MINUTE_MS + 1, C, silent_ms=1)
    registry.expire(died_ms + 9 * MINUTE_MS, A, silent_ms=9 * MINUTE_MS + 30_000)
    registry.publish()
    columns = "first_gone_at, last_gone_at, brokers, cluster_names, which"
    assert rows(f"SELECT {columns} FROM shared_outage") == [
        (at(died_ms - 30_000), at(died_ms), 2, ["c1", "c2"], ["c1 broker-a 0", "c2 broker-b 0"])
    ]


def test_flapping_ranks_by_falls_that_were_short(registry, rows):
    for turn in range(3):
        registry.register(hours(1) + turn * 8 * MINUTE_MS, A, "broker-a")
        registry.expire(hours(1) + (turn * 8 + 4) * MINUTE_MS, A)
    registry.register(hours(1), B, "broker-b")
    registry.expire(hours(2), B, silent_ms=120_001)
    registry.register(hours(3), B, "broker-b")
    registry.unregister(hours(4), B)
    registry.publish(at_ms=hours(5))
    assert rows("SELECT flap_rank, broker_name, unplanned_ends, flaps FROM broker_flapping ORDER BY flap_rank") == [
        (1, "broker-a", 3, 2),
        (2, "broker-b", 1, 0),
    ]
    of_b = f"SELECT expiry_millis, lease_millis FROM time_to_expiry WHERE broker_addr = '{B}'"
    assert rows(of_b) == [(120_001, HOUR_MS)]


def test_topics_by_broker_and_zone(registry, rows):
    registry.register(hours(1), A, "broker-a", topics=("T", "U"), zone="z1")
    registry.register(hours(1), B, "broker-b", topics=("T",), zone="z2")
    registry.register(hours(1), C, "broker-c")
    registry.command(hours(2), WipeWritePerm(broker_name="broker-b", requested_by="ann"))
    registry.publish()
    assert rows("SELECT topic, broker_name FROM topic_with_one_broker") == [("U", "broker-a")]
    assert rows("SELECT zone_name, broker_name, topics, write_queues, topics_not_writable FROM topic_spread "
                "ORDER BY broker_name") == [
        ("z1", "broker-a", 2, 16, 0),
        ("z2", "broker-b", 1, 8, 1),
        (None, "broker-c", 0, None, 0),
    ]  # fmt: skip
    assert rows("SELECT command, requested_by, broker_name FROM operator_command") == [
        ("WIPE_WRITE_PERM_OF_BROKER", "ann", "broker-b")
    ]


def test_changes_are_counted_by_hour_and_kind_and_a_time_without_a_tick_is_one(registry, rows):
    registry.register(hours(1), A, "broker-a")
    registry.register(hours(1.5), B, "broker-b")
    registry.unregister(hours(2), B)
    registry.tick(hours(2))
    registry.tick(hours(2.5))
    registry.publish()
    assert rows("SELECT hour, type, events, broker_names FROM route_changes ORDER BY hour, type") == [
        (at(hours(1)), "REGISTERED", 2, 2),
        (at(hours(2)), "LOG_GAP", 1, 0),
        (at(hours(2)), "UNREGISTERED", 1, 1),
    ]
    assert rows("SELECT broker_name FROM broker_session WHERE to_time IS NULL") == [("broker-a",)]
    assert rows("SELECT * FROM operator_command") == []


def test_rejected_records_are_shown_as_text_as_far_as_they_are_text(registry, rows):
    kept = [RejectedRow(hours(1), 0, i, "k", value, 9, "why") for i, value in enumerate((b"{no", b"\xff\xfe", None))]
    registry.publish(at_ms=hours(1), rejected=tuple(kept))
    assert rows('SELECT text FROM rejected_record ORDER BY "offset"') == [("{no",), (None,), (None,)]


@pytest.fixture(scope="module")
def changes(tmp_path_factory):
    """Views of a broker that changes its zone, topics and address, and of a broker name in two clusters."""
    place = Root(str(tmp_path_factory.mktemp("changes") / "registry"))
    registry = SeededRegistry(place, NOW)
    registry.register(hours(0), A, "broker/a", topics=("T",), zone="z1")
    registry.command(hours(1), WipeWritePerm(broker_name="broker/a", requested_by="ann@desk", reason="disk"))
    registry.register(hours(2), A, "broker/a", zone="z2", topics=("T",))
    registry.register(hours(3), B, "broker/a", zone="z2", topics=("T",))
    registry.register(hours(4), C, "broker/a", 1, cluster="c2")
    registry.register(hours(5), B, "broker/a", topics=tuple(f"topic-{number}" for number in range(201)), zone="z2")
    registry.unregister(hours(6), C)
    registry.publish(at_ms=hours(7))
    with opened(place) as views:
        yield views


def test_topic_change_has_the_settings_before_and_after_and_who_asked(changes):
    found = changes.rows(
        "SELECT type, requested_by, reason, topic, before.perm, after.perm, before IS NULL "
        "FROM topic_change WHERE topic = 'T' ORDER BY epoch, seq",
        {},
    )
    assert found[:2] == [
        ("TOPICS_CHANGED", None, None, "T", None, 6, True),
        ("WIPE_WRITE_PERM_OF_BROKER", "ann@desk", "disk", "T", 6, 4, False),
    ]
    assert changes.rows("SELECT count(*) FROM topic_change WHERE topic LIKE 'topic-%'", {}) == [(201,)]


def test_broker_change_has_the_holder_before_and_after(changes):
    columns = "broker_id, before.broker_addr, after.broker_addr, before.zone_name, after.zone_name"
    found = changes.rows(f"SELECT {columns}, before IS NULL, after IS NULL FROM broker_change ORDER BY epoch, seq", {})
    first, *_, last = found
    assert first == (0, None, A, None, "z1", True, False)
    assert {(0, A, A, "z1", "z2", False, False), (0, A, B, "z2", "z2", False, False)} <= {*found}
    assert last == (1, C, None, None, None, False, True)


def test_each_broker_has_one_key_that_no_other_broker_can_have_in_every_view_that_shows_brokers(changes):
    found = changes.rows("SELECT broker_key, broker_addr, zone_name, is_in_routes, sessions FROM broker_dim", {})
    assert sorted(found) == [("c1/broker%2Fa/0", B, "z2", True, 1), ("c2/broker%2Fa/1", C, None, False, 1)]
    shown = {name: {*changes.table(f"FROM {name} LIMIT 0").column_names} for name in history_queries()}
    of_brokers = {name for name, columns in shown.items() if columns & {"broker_id", "worst_broker", "which"}}
    assert len(of_brokers) >= 7
    keys = {"broker_key", "worst_broker_key", "broker_keys"}
    assert {name for name in of_brokers if not shown[name] & keys} == set()


def test_topic_placement_does_not_fan_out_where_a_broker_name_is_in_two_clusters(registry, rows):
    registry.register(hours(1), A, "broker-a", topics=("T",), zone="z1")
    registry.register(hours(2), B, "broker-a", 1, cluster="c2", zone="z2")
    registry.publish()
    assert rows("SELECT count(*) FROM topic JOIN cluster USING (broker_name)") == [(2,)]
    placed = "SELECT topic, broker_name, cluster_name, zone_name, is_writable FROM topic_placement"
    assert rows(placed) == [("T", "broker-a", "c2", "z2", True)]


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
    """In Spark's own catalogue; tests/history/test_thrift_server.py has a metastore's."""
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


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("zone", "midnight", "lasts"),
    [
        ("Europe/Berlin", datetime(2026, 10, 25, tzinfo=BERLIN), 25),
        ("Europe/Berlin", datetime(2026, 3, 29, tzinfo=BERLIN), 23),
        ("Asia/Kolkata", datetime(2026, 3, 29, tzinfo=ZoneInfo("Asia/Kolkata")), 24),
        ("Australia/Lord_Howe", datetime(2026, 4, 5, tzinfo=ZoneInfo("Australia/Lord_Howe")), 24.5),
    ],
)
def test_a_local_day_has_its_hours_and_availability_by_local_days_is_that_of_the_time(root, zone, midnight, lasts):
    begins = round(midnight.timestamp() * 1000)
    registry = SeededRegistry(root, begins)
    registry.register(begins - DAY_MS, A, "broker-a")
    registry.expire(begins + 2 * HOUR_MS + 30 * MINUTE_MS, A)
    registry.register(begins + 3 * HOUR_MS + 30 * MINUTE_MS, A, "broker-a")
    registry.publish(at_ms=begins + 3 * DAY_MS)
    with opened(root, zone=zone) as views:
        day, month = midnight.date(), f"{midnight:%Y-%m}"
        asked = {"day": day, "month": month}
        [found] = views.rows("SELECT up_millis, expected_millis FROM broker_local_availability WHERE day = $day", asked)
        assert found == ((lasts - 1) * HOUR_MS, lasts * HOUR_MS)
        [[first, last]] = views.rows("SELECT from_millis, until_millis FROM local_day WHERE day = $day", asked)
        assert (first, last) == (begins, begins + lasts * HOUR_MS)
        hour = "SELECT hour FROM local_hour WHERE day = $day ORDER BY from_millis"
        numbers = [number for [number] in views.rows(hour, asked)]
        assert numbers == [
            datetime.fromtimestamp((begins + each * HOUR_MS) / 1000, ZoneInfo(zone)).hour for each in range(ceil(lasts))
        ]
        totals = "SELECT CAST(sum(up_millis) AS BIGINT), CAST(sum(expected_millis) AS BIGINT) FROM "
        assert views.rows(totals + "broker_local_availability", {}) == views.rows(totals + "broker_availability", {})
        assert views.rows("SELECT DISTINCT month FROM local_day WHERE day = $day", asked) == [(month,)]
        days = views.rows("SELECT day, from_millis, until_millis FROM local_day ORDER BY day", {})
        until = datetime.fromtimestamp((begins + 3 * DAY_MS) / 1000, ZoneInfo(zone)).date()
        assert [each[0] for each in days] == [day + timedelta(days=n) for n in range(-1, (until - day).days + 1)]
        ends = {datetime.fromtimestamp(end / 1000, ZoneInfo(zone)).time() for each in days for end in each[1:]}
        assert ends == {time()}, "the first and the last day are whole"


def test_a_zone_that_there_is_not_is_refused(root):
    with pytest.raises(NamesrvError, match="Europe/Berlin"):
        history_queries("Europe/Nowhere'; DROP")


def test_an_upgrade_ends_the_stretch_of_a_release_and_begins_another(registry, rows):
    registry.register(hours(1), A, "broker-a", release="5.3.1")
    registry.register(hours(2), B, "broker-b")
    registry.register(hours(3), A, "broker-a", release="5.4.0")
    registry.unregister(hours(4), A)
    registry.register(hours(5), A, "broker-a", release="5.4.0")
    registry.publish(at_ms=hours(6))
    assert rows("SELECT broker_name, broker_version, from_time, to_time FROM broker_release ORDER BY from_time") == [
        ("broker-a", "5.3.1", at(hours(1)), at(hours(3))),
        ("broker-a", "5.4.0", at(hours(3)), at(hours(4))),
        ("broker-a", "5.4.0", at(hours(5)), None),
    ]

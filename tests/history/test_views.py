"""Results of the views for analysts, on histories whose answers are known."""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.history.views import create_views, register_views
from namesrv_stream.rules.record_types import WipeWritePerm
from namesrv_stream.rules.rows import RejectedRow
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.spark_views import open_snapshot
from tests.history.fleet import RandomHistory
from tests.history.seeded import DAY_MS, HOUR_MS, MINUTE_MS, SeededRegistry
from tests.tables.rows import NOW

pytestmark = pytest.mark.spark

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
    return datetime.fromtimestamp((MIDNIGHT_MS + number * DAY_MS) / 1000, UTC).date()


def at(epoch_ms):
    """Return a time as it is collected from Spark, whose session is in UTC: local and without its zone."""
    return datetime.fromtimestamp(epoch_ms / 1000)


@pytest.fixture
def rows(spark, root, registry):
    """Rows of a statement over the views of what the registry has published."""

    def rows(statement):
        register_views(spark, root, only=re.findall(r"(?:FROM|JOIN) (\w+)", statement))
        return rows_of(spark, statement)

    return rows


def rows_of(session, statement):
    return [tuple(row) for row in session.sql(statement).collect()]


SESSIONS = (
    "SELECT broker_id, from_time, to_time, ended_by, first_addr FROM broker_session ORDER BY from_time, broker_id"
)


def test_a_session_goes_from_registration_to_its_end_and_the_last_is_open(registry, rows):
    registry.register(hours(1), A, "broker-a")
    registry.expire(hours(2), A)
    registry.register(hours(3), A, "broker-a")
    registry.unregister(hours(4), A)
    registry.register(hours(5), A, "broker-a")
    registry.publish(at_ms=hours(6))
    assert rows(SESSIONS) == [
        (0, at(hours(1)), at(hours(2)), "EXPIRED", A),
        (0, at(hours(3)), at(hours(4)), "UNREGISTERED", A),
        (0, at(hours(5)), None, None, A),
    ]
    assert rows("SELECT session_millis, last_addr, back_at FROM broker_session ORDER BY from_time") == [
        (HOUR_MS, A, at(hours(3))),
        (HOUR_MS, A, at(hours(5))),
        (HOUR_MS, A, None),
    ]


def test_r8_a_broker_that_changes_its_address_stays_in_one_session(registry, rows):
    registry.register(hours(1), A, "broker-a")
    registry.register(hours(2), B, "broker-a")
    registry.expire(hours(3), A)
    registry.unregister(hours(4), B)
    registry.publish()
    assert rows(SESSIONS) == [(0, at(hours(1)), at(hours(4)), "UNREGISTERED", A)]
    assert rows("SELECT last_addr FROM broker_session") == [(B,)]


def test_r5_a_promotion_ends_the_slave_s_session_and_the_master_s_goes_on(registry, rows):
    registry.register(hours(1), A, "broker-a")
    registry.register(hours(1), B, "broker-a", 1)
    registry.register(hours(2), B, "broker-a", 0, state_version=1)
    registry.expire(hours(3), A)
    registry.publish(at_ms=hours(4))
    assert rows(SESSIONS) == [(0, at(hours(1)), None, None, A), (1, at(hours(1)), at(hours(2)), "ID_LOST", B)]
    assert rows("SELECT last_addr FROM broker_session WHERE to_time IS NULL") == [(B,)]


def test_an_id_taken_under_another_cluster_ends_the_session_once(registry, rows):
    registry.register(hours(1), A, "broker-a")
    registry.register(hours(2), B, "broker-a", cluster="c2")
    registry.expire(hours(3), A)
    registry.publish(at_ms=hours(4))
    assert rows("SELECT cluster_name, to_time, ended_by FROM broker_session ORDER BY from_time") == [
        ("c1", at(hours(2)), "ID_LOST"),
        ("c2", None, None),
    ]


def stretches(held):
    """(key, from, to) of each stretch of moments at which a key was held; to is None for what lasts."""
    began, found, before = {}, [], set()
    for at_ms, keys in held:
        began |= dict.fromkeys(keys - before, at_ms)
        found += [(*key, at(began.pop(key)), at(at_ms)) for key in before - keys]
        before = keys
    return sorted([*found, *((*key, at(from_ms), None) for key, from_ms in began.items())], key=str)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full), pytest.param(2, marks=pytest.mark.full)])
def test_sessions_and_availability_are_those_of_the_broker_table_at_every_moment(spark, root, seed):
    """A random history of brokers that come, go, move, and take ids from one another, three days long."""
    history = RandomHistory(root, seed, MIDNIGHT_MS, NOW)
    held = []
    for _ in range(120):
        history.step(gap_ms=37 * MINUTE_MS)
        rows = [row for ids in history.rules.view().brokers.values() for row in ids.values()]
        held.append((history.event_ms, {(row.cluster_name, row.broker_name, row.broker_id) for row in rows}))
    history.publish()
    register_views(spark, root, only=["broker_availability"])
    columns = "cluster_name, broker_name, broker_id"
    found = [tuple(row) for row in spark.sql(f"SELECT {columns}, from_time, to_time FROM broker_session").collect()]
    wanted = stretches(held)
    assert sorted(found, key=str) == wanted
    up_ms = Counter()
    for *key, since, until in wanted:
        up_ms[tuple(key)] += ((until or at(history.event_ms)) - since) / timedelta(milliseconds=1)
    totals = f"SELECT {columns}, sum(up_millis), max(availability) FROM broker_availability GROUP BY ALL"
    by_broker = rows_of(spark, totals)
    assert {row[:3]: row[3] for row in by_broker} == {key: ms for key, ms in up_ms.items() if ms}
    assert all(row[4] <= 1 for row in by_broker)


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


AVAILABILITY = (
    "SELECT cluster_name, day, up_millis / 3600000, expected_millis / 3600000 FROM broker_availability ORDER BY 1, 2"
)


def test_a_day_without_the_broker_counts_as_away(registry, rows):
    registry.register(hours(12), A, "broker-a")
    registry.expire(hours(18), A)
    registry.publish(at_ms=hours(60))
    assert rows(AVAILABILITY) == [("c1", day(0), 6, 12), ("c1", day(1), 0, 24), ("c1", day(2), 0, 12)]


def test_a_planned_absence_counts_for_nothing_also_after_the_broker_is_back(registry, rows):
    """A restart on one day, then an absence of days."""
    registry.register(hours(12), A, "broker-a")
    registry.unregister(hours(18), A)
    registry.register(hours(20), A, "broker-a")
    registry.unregister(hours(23), A)
    registry.publish(at_ms=hours(60))
    before = rows(AVAILABILITY)
    assert before == [("c1", day(0), 9, 9)]
    registry.register(hours(3 * 24 + 10), A, "broker-a")
    registry.publish(at_ms=hours(4 * 24))
    assert rows(AVAILABILITY) == [*before, ("c1", day(3), 14, 14)]


def test_d1_a_broker_that_moves_and_comes_back_is_expected_where_it_was(registry, rows):
    registry.register(hours(12), A, "broker-a")
    registry.register(hours(30), A, "broker-a", cluster="c2")
    registry.register(hours(60), A, "broker-a")
    registry.publish(at_ms=hours(72))
    assert rows(AVAILABILITY) == [
        ("c1", day(0), 12, 12),
        ("c1", day(1), 6, 6),
        ("c1", day(2), 12, 12),
        ("c2", day(1), 18, 18),
        ("c2", day(2), 12, 12),
    ]


def test_a_broker_that_is_killed_for_good_counts_as_away_for_seven_days(root, rows):
    registry = SeededRegistry(root, NOW)
    registry.register(hours(-10 * 24), A, "broker-a")
    registry.expire(hours(-9 * 24 + 6), A)
    registry.publish(at_ms=hours(48))
    away = [("c1", day(number), 0, 24) for number in range(-8, -2)]
    gone = [("c1", day(-10), 24, 24), ("c1", day(-9), 6, 24), *away, ("c1", day(-2), 0, 6)]
    assert rows(AVAILABILITY) == gone
    registry.register(hours(50), A, "broker-a")
    registry.publish(at_ms=hours(51))
    assert rows(AVAILABILITY) == [*gone, ("c1", day(2), 1, 1)]


def test_brokers_that_go_no_more_than_a_minute_apart_share_an_outage(registry, rows):
    """A dies together with B, whose connection shows it; C expires first, but sent a sign of life two minutes later.

    A's slave has taken its id when its lease expires.
    """
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


def test_one_broker_that_falls_twice_shares_no_outage(registry, rows):
    for fall_ms in (0, 30_000):
        registry.register(hours(1) + fall_ms, A, "broker-a")
        registry.close_channel(hours(1) + fall_ms + 1, A)
    registry.register(hours(1), B, "broker-b")
    registry.unregister(hours(1) + 1, B)
    registry.publish()
    assert rows("SELECT * FROM shared_outage") == []


def test_days_hours_and_months_are_those_of_utc_in_any_session_time_zone(spark, root):
    """The hours before and after the end of a month in UTC, where the session's zone is 2.5 hours behind."""
    registry = SeededRegistry(root, NOW)
    turn_ms = round(datetime(2026, 10, 1, tzinfo=UTC).timestamp() * 1000)
    registry.register(turn_ms - HOUR_MS, A, "broker-a")
    registry.expire(turn_ms - HOUR_MS // 4, A)
    registry.register(turn_ms + HOUR_MS // 4, A, "broker-a")
    registry.publish(at_ms=turn_ms + HOUR_MS)
    statements = (
        "SELECT string(day), up_millis, expected_millis FROM broker_availability ORDER BY day",
        "SELECT month, flaps, unplanned_ends FROM broker_flapping",
        "SELECT unix_millis(hour), type FROM route_changes ORDER BY ALL",
        "SELECT string(day), event_month FROM known_until",
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


def test_flapping_ranks_by_falls_that_were_short(registry, rows):
    for turn in range(3):
        registry.register(hours(1) + turn * 8 * MINUTE_MS, A, "broker-a")
        registry.expire(hours(1) + (turn * 8 + 4) * MINUTE_MS, A)
    registry.register(hours(1), B, "broker-b")
    registry.expire(hours(2), B)
    registry.register(hours(3), B, "broker-b")
    registry.unregister(hours(4), B)
    registry.publish(at_ms=hours(5))
    assert rows("SELECT flap_rank, broker_name, unplanned_ends, flaps FROM broker_flapping ORDER BY flap_rank") == [
        (1, "broker-a", 3, 2),
        (2, "broker-b", 1, 0),
    ]


def test_time_to_expiry_is_from_the_last_sign_of_life(registry, rows):
    registry.register(hours(1), A, "broker-a")
    registry.expire(hours(2), A, silent_ms=120_001)
    registry.publish()
    assert rows("SELECT broker_addr, expiry_millis, lease_millis FROM time_to_expiry") == [(A, 120_001, HOUR_MS)]


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


def test_changes_are_counted_by_hour_and_kind(registry, rows):
    registry.register(hours(1), A, "broker-a")
    registry.register(hours(1.5), B, "broker-b")
    registry.expire(hours(2.5), A)
    registry.publish()
    assert rows("SELECT hour, type, events, broker_names FROM route_changes ORDER BY hour, type") == [
        (at(hours(1)), "REGISTERED", 2, 2),
        (at(hours(2)), "EXPIRED", 1, 1),
    ]


def test_a_time_without_a_tick_is_a_change_and_neither_a_command_nor_the_end_of_a_session(registry, rows):
    registry.register(hours(1), A, "broker-a")
    registry.tick(hours(1))
    registry.tick(hours(1.5))
    registry.publish()
    assert rows("SELECT type, events, broker_names FROM route_changes ORDER BY type") == [
        ("LOG_GAP", 1, 0),
        ("REGISTERED", 1, 1),
    ]
    assert rows(SESSIONS) == [(0, at(hours(1)), None, None, A)]
    assert rows("SELECT up_millis, expected_millis FROM broker_availability") == [(30 * MINUTE_MS,) * 2]
    assert rows("SELECT * FROM operator_command") == []


def test_rejected_records_are_shown_as_text_as_far_as_they_are_text(registry, rows):
    kept = [RejectedRow(hours(1), 0, i, "k", value, 9, "why") for i, value in enumerate((b"{no", b"\xff\xfe", None))]
    registry.publish(at_ms=hours(1), rejected=tuple(kept))
    assert rows("SELECT text FROM rejected_record ORDER BY offset") == [("{no",), (None,), (None,)]


def test_an_empty_registry_has_empty_views(spark, root, registry):
    register_views(spark, root)
    names = """broker_session broker_availability cluster_availability shared_outage broker_flapping time_to_expiry
        topic_with_one_broker topic_spread route_changes operator_command rejected_record"""
    counts = ", ".join(f"(SELECT count(*) FROM {name})" for name in names.split())
    assert rows_of(spark, f"SELECT {counts}") == [(0,) * 11]
    assert rows_of(spark, "SELECT * FROM known_until") == [(None, None, None)]


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
    assert session.table("broker_change").count() == 3
    assert register_views(session, root, only="topic").epoch == newest
    assert session.table("topic").count() == 2


def test_a_view_that_there_is_not_is_named_beside_those_that_there_are(spark, root, registry):
    with pytest.raises(NamesrvError, match=r"called broker_sesion or x\. .* broker_session,"):
        register_views(spark, root, only=["x", "broker_sesion", "topic"])
    with pytest.raises(NamesrvError, match="called past_session"):
        register_views(spark, root, only=["past_session"])  # which maintenance makes of a long history


def test_views_of_an_epoch_do_not_see_later_ones(spark, root, registry):
    registry.register(hours(1), A, "broker-a")
    epoch = registry.publish()
    registry.expire(hours(2), A)
    registry.publish()
    register_views(spark, root, epoch=epoch, only=["broker_session"])
    [session] = spark.table("broker_session").collect()
    assert (session.to_time, session.session_millis) == (None, 0)
    open_snapshot(spark, root)  # moves the tables alone
    assert spark.table("broker").count() == 0
    assert spark.table("broker_session").collect() == [session]


def test_permanent_views_stay_at_their_snapshot_in_every_session_until_they_are_made_again(spark, root, registry):
    """In Spark's own catalogue; tests/history/test_thrift_server.py has a metastore's."""
    names = "SELECT broker_name FROM permanent_routes.broker_dim ORDER BY ALL"
    registry.register(hours(1), A, "broker-a")
    first = registry.publish()
    assert create_views(spark, root.url, "permanent_routes").epoch == first
    registry.register(hours(2), B, "broker-b")
    second = registry.publish()
    assert rows_of(spark.newSession(), names) == [("broker-a",)]
    registry.register(hours(3), C, "broker-c")
    registry.publish()
    create_views(spark, root.url, "permanent_routes", epoch=second)
    assert rows_of(spark.newSession(), names) == [("broker-a",), ("broker-b",)]
    spark.sql("DROP SCHEMA permanent_routes CASCADE")

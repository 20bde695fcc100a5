"""The views that show the changes of the history typed."""

from datetime import UTC, datetime

import pytest

from namesrv_stream.history.views import register_views
from namesrv_stream.rules.history import MAX_LISTED_TOPICS
from namesrv_stream.rules.record_types import WipeWritePerm
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TABLES
from tests.history.seeded import HOUR_MS, SeededRegistry
from tests.tables.rows import NOW

pytestmark = pytest.mark.spark

START_MS = int(datetime(2026, 11, 14, tzinfo=UTC).timestamp() * 1000)
A, B, C = (f"10.0.0.{number}:10911" for number in range(1, 4))


@pytest.fixture(scope="module")
def session(spark, tmp_path_factory):
    """Views of a broker that changes its zone, topics and address, and of a broker name in two clusters."""
    place = Root(str(tmp_path_factory.mktemp("changes") / "registry"))
    registry = SeededRegistry(place, NOW)
    registry.register(START_MS, A, "broker/a", topics=("T",), zone="z1")
    registry.command(START_MS + HOUR_MS, WipeWritePerm(broker_name="broker/a", requested_by="ann@desk", reason="disk"))
    registry.register(START_MS + 2 * HOUR_MS, A, "broker/a", zone="z2", topics=("T",))
    registry.register(START_MS + 3 * HOUR_MS, B, "broker/a", zone="z2", topics=("T",))
    registry.register(START_MS + 4 * HOUR_MS, C, "broker/a", 1, cluster="c2")
    many = tuple(f"topic-{number}" for number in range(MAX_LISTED_TOPICS + 1))
    registry.register(START_MS + 5 * HOUR_MS, B, "broker/a", topics=many, zone="z2")
    registry.unregister(START_MS + 6 * HOUR_MS, C)
    registry.publish(at_ms=START_MS + 7 * HOUR_MS)
    session = spark.newSession()
    register_views(session, place)
    return session


def answers(session, statement):
    return [tuple(row) for row in session.sql(statement).collect()]


def test_topic_change_has_the_settings_before_and_after_and_who_asked(session):
    found = answers(
        session,
        "SELECT type, requested_by, reason, topic, before.perm, after.perm, before IS NULL, unnamed_topics "
        "FROM topic_change WHERE topic = 'T' OR topic IS NULL ORDER BY epoch, seq",
    )
    assert found[:2] == [
        ("TOPICS_CHANGED", None, None, "T", None, 6, True, None),
        ("WIPE_WRITE_PERM_OF_BROKER", "ann@desk", "disk", "T", 6, 4, False, None),
    ]
    assert found[-1] == ("TOPICS_CHANGED", None, None, None, None, None, True, MAX_LISTED_TOPICS + 1)
    assert answers(session, "SELECT DISTINCT broker_name FROM topic_change") == [("broker/a",)]


def test_broker_change_has_the_holder_before_and_after(session):
    found = answers(
        session,
        "SELECT broker_id, before.broker_addr, after.broker_addr, before.zone_name, after.zone_name, before IS NULL, "
        "after IS NULL FROM broker_change ORDER BY epoch, seq",
    )
    first, *_, last = found
    assert first == (0, None, A, None, "z1", True, False)
    assert (0, A, A, "z1", "z2", False, False) in found
    assert (0, A, B, "z2", "z2", False, False) in found
    assert last == (1, C, None, None, None, False, True)


def test_broker_dim_has_one_key_for_each_broker_that_no_other_broker_can_have(session):
    found = answers(
        session,
        "SELECT broker_key, broker_addr, zone_name, is_in_routes, sessions FROM broker_dim ORDER BY broker_key",
    )
    assert found == [("c1/broker%2Fa/0", B, "z2", True, 1), ("c2/broker%2Fa/1", C, None, False, 1)]
    keys = {row[0] for row in found}
    for view in ("broker_session", "broker_availability", "broker_change"):
        assert {key for (key,) in answers(session, f"SELECT broker_key FROM {view}")} == keys


def test_every_view_that_shows_brokers_has_their_key(session):
    views = [row.viewName for row in session.sql("SHOW VIEWS").collect() if row.viewName not in TABLES]
    of_brokers = {
        view: {*columns} for view in views
        if {"broker_id", "worst_broker", "which"} & {*(columns := session.table(view).columns)}
    }  # fmt: skip
    assert len(of_brokers) >= 7
    keys = {"broker_key", "worst_broker_key", "broker_keys"}
    steps = [view for view, columns in of_brokers.items() if not columns & keys]
    assert steps == ["recent_session"]


def test_topic_placement_does_not_fan_out_where_a_broker_name_is_in_two_clusters(spark, root):
    registry = SeededRegistry(root, NOW)
    registry.register(START_MS, A, "broker-a", topics=("T",), zone="z1")
    registry.register(START_MS + HOUR_MS, B, "broker-a", 1, cluster="c2", zone="z2")
    registry.publish(at_ms=START_MS + HOUR_MS)
    session = spark.newSession()
    register_views(session, root, only=["cluster", "topic", "topic_placement"])
    assert answers(session, "SELECT count(*) FROM topic JOIN cluster USING (broker_name)") == [(2,)]
    placed = "SELECT topic, broker_name, cluster_name, zone_name, is_writable FROM topic_placement"
    assert answers(session, placed) == [("T", "broker-a", "c2", "z2", True)]


@pytest.fixture
def root(tmp_path):
    return Root(str(tmp_path / "registry"))

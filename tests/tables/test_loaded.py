"""Which tables stay in memory, and that what is not asked for is not read."""

import shutil

import pyarrow as pa
import pytest

from namesrv_stream.answers.accounts import events, why
from namesrv_stream.answers.questions import AskEvents, AskWhy
from namesrv_stream.errors import SnapshotGoneError, TableDamagedError
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import TopicRow
from namesrv_stream.tables.loaded import KeptTables, LoadedTable, LoadedTopics
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import FILTER, TOPIC
from tests.build import ADDRESS
from tests.clock import now_ms
from tests.registry import PublishedRegistry


@pytest.fixture
def registry(tmp_path):
    """A registry of one broker with one topic."""
    published = PublishedRegistry(str(tmp_path / "registry"), now_ms())
    published.register(ADDRESS, "c1", "broker-a", topics=("T",))
    return published


def filters(count):
    return LoadedTable(FILTER, pa.table({"broker_addr": [f"b:{number}" for number in range(count)]}))


def topics(count):
    rows = [TopicRow(f"T{number}", "b", 1, 1, 6, 0) for number in range(count)]
    return LoadedTopics(TopicQueues.of(rows), snapshot=None)


@pytest.mark.parametrize(
    ("most_rows", "kept"),
    [
        (0, [("topic", 2), ("filter", 1)]),
        (9, [("topic", 1), ("topic", 2), ("filter", 1)]),
        (8, [("topic", 2), ("filter", 1)]),
    ],
)
def test_tables_are_kept_up_to_a_number_of_rows_and_the_newest_of_each_in_any_case(most_rows, kept):
    tables = KeptTables(most_rows)
    for name, version, table in (("topic", 1, topics(3)), ("topic", 2, topics(4)), ("filter", 1, filters(2))):
        tables.keep((name, version, None), table)
    every = [("topic", 1), ("topic", 2), ("filter", 1)]
    assert [key for key in every if tables.get((*key, None)) is not None] == kept


def test_what_was_asked_for_last_stays_longest():
    tables = KeptTables(6)
    for version in (1, 2):
        tables.keep(("topic", version, None), topics(2))
    assert tables.get(("topic", 1, None)) is not None
    tables.keep(("topic", 3, None), topics(3))
    assert [tables.get(("topic", version, None)) is not None for version in (1, 2, 3)] == [True, False, True]


def test_events_and_the_story_of_a_broker_read_no_topic(registry, tmp_path):
    now = Registry(registry.root).newest()
    for path in tmp_path.rglob("topic/**/*.parquet"):
        path.unlink()
    assert [each.type for each in events(now, AskEvents()).events] == ["REGISTERED", "TOPICS_CHANGED"]
    assert [each.type for each in why(now, "broker-a", AskWhy()).sentences] == ["REGISTERED", "TOPICS_CHANGED"]
    assert len(Root(registry.root).open(TOPIC).file_uris()) == 1, "the log still names its file"


def test_a_moment_equals_itself_alone(registry):
    opened = Registry(registry.root)
    assert opened.newest() is opened.newest()
    assert len({opened.newest(), opened.at(epoch=1), opened.at(epoch=1)}) == 3


def test_a_moment_of_a_registry_that_was_made_anew_in_the_folder_is_gone(registry):
    opened = Registry(registry.root)
    held = opened.newest()
    shutil.rmtree(registry.root)
    anew = PublishedRegistry(registry.root, now_ms())
    anew.register(ADDRESS, "c1", "broker-b", topics=("U",))
    assert list(opened.newest().brokers) == ["broker-b"]
    for use in (
        lambda: held.brokers,
        lambda: held.of_topic("T").queues,
        lambda: held.events("true"),
        lambda: held["broker"],
        lambda: held.with_routes_of(held).live,
    ):
        with pytest.raises(SnapshotGoneError):
            use()


@pytest.mark.parametrize(
    "ask", [lambda opened: opened.at(epoch=1), lambda opened: opened.read(lambda rows: rows.newest())]
)
def test_the_newest_snapshot_is_found_also_after_somebody_else_has_looked(registry, ask):
    opened = Registry(registry.root)
    first = opened.newest().snapshot.epoch
    registry.register("10.0.0.2:10911", "c1", "broker-b")
    ask(opened)
    assert opened.newest().snapshot.epoch == first + 1


def test_a_moment_of_one_topic_is_none_of_another_one(registry):
    registry.register(ADDRESS, "c1", "broker-a", topics=("T", "U"), data_version=DataVersion(0, now_ms(), 2))
    of_t = Registry(registry.root).newest().of_topic("T")
    assert [topic for topic in "TU" if topic in of_t.queues] == ["T"]
    assert [topic for topic in "TU" if topic in of_t.of_topic("U").queues] == ["U"]


def test_tables_without_rows_are_forgotten_too():
    tables = KeptTables(10)
    for second in range(20):
        tables.keep(("filter", 1, None, second), filters(0))
    assert sum(tables.get(("filter", 1, None, second)) is not None for second in range(20)) == 10


def test_the_topic_of_a_damaged_table_is_told_as_damage(registry, tmp_path):
    now = Registry(registry.root).newest()
    for path in tmp_path.rglob("topic/**/*.parquet"):
        path.unlink()
    with pytest.raises(TableDamagedError):
        _ = now.of_topic("T").queues

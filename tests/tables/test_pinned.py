"""One snapshot in Arrow, without Spark."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from namesrv_stream.errors import NoSuchSnapshotError, SnapshotGoneError
from namesrv_stream.tables.registry import open_tables
from namesrv_stream.tables.schemas import TABLES, TOPIC
from tests.tables.batches import batch, claim
from tests.tables.rows import NOW, T0


@pytest.fixture
def publisher(root):
    """A registry of two batches; the claim is epoch 1."""
    publisher = claim(root)
    for number in range(2):
        publisher.publish(batch(number), NOW)
    return publisher


def topics(tables):
    return sorted(tables["topic"]["topic"].to_pylist())


def test_all_tables_are_those_of_one_snapshot_while_newer_ones_are_published(root, publisher):
    tables = open_tables(root)
    publisher.publish(batch(2), NOW)
    assert set(tables) == set(TABLES)
    assert len(tables) == len(list(tables))
    assert topics(tables) == ["batch-0", "batch-1", "shared"]
    assert len(tables["broker_event"]) == 2
    assert sorted(tables["snapshot"]["epoch"].to_pylist()) == [1, 2, 3]
    assert {name: len(tables[name]) for name in tables} == {name: len(tables.where(name)) for name in tables}


def test_a_snapshot_is_asked_for_by_epoch_and_by_time_and_an_unknown_one_is_refused(root, publisher):
    for asked in ({"epoch": 2}, {"at": T0}, {"at": datetime.fromtimestamp(T0 / 1000, UTC)}):
        tables = open_tables(root.url, **asked)
        assert (tables.snapshot.epoch, topics(tables)) == (2, ["batch-0", "shared"])
    with pytest.raises(NoSuchSnapshotError):
        open_tables(root, epoch=4)


@pytest.mark.parametrize("is_gone_whole", [True, False])
def test_a_snapshot_that_maintenance_removes_before_its_tables_are_read_is_gone(root, publisher, is_gone_whole):
    tables = open_tables(root)
    publisher.publish(batch(2), NOW)
    if is_gone_whole:
        log = Path(root.url, "topic", "_delta_log")
        root.open(TOPIC).create_checkpoint()
        for version in range(tables.snapshot.versions["topic"] + 1):
            (log / f"{version:020}.json").unlink()
    else:
        for file in root.open(TOPIC, tables.snapshot.versions["topic"]).file_uris():
            Path(file.removeprefix("file://")).unlink()
    with pytest.raises(SnapshotGoneError, match="epoch 3"):
        tables["topic"]


def test_the_tables_of_a_past_moment_answer_conditions_as_those_of_the_present_do(root, publisher):
    past, now = open_tables(root, epoch=2), open_tables(root)
    assert past.where("topic", "topic = 'shared' OR topic = 'batch-1'")["topic"].to_pylist() == ["shared"]
    assert past.where("topic", "true").schema == now.where("topic", "topic = 'shared'").schema
    assert past.where("topic", "topic = 'shared'").schema == now.where("topic", "topic = 'shared'").schema
    until = f"published_at <= to_timestamp_millis({NOW})"
    assert [sorted(each.where("snapshot", until)["epoch"].to_pylist()) for each in (past, now)] == [[1, 2], [1, 2, 3]]
    assert past.where("live", "last_update_timestamp > to_timestamp_millis(0)").num_rows == past["live"].num_rows

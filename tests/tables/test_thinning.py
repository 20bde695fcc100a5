"""Removal of files by what readable snapshots name: these read as before, and the others are known to be gone."""

from dataclasses import replace
from pathlib import Path

import pytest

from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.rules.thinning import OLD_STEP_MS, YOUNG_STEP_MS
from namesrv_stream.tables.maintenance import Keeping, maintain, thin_tables
from namesrv_stream.tables.publication import Batch
from namesrv_stream.tables.reader import RouteReader
from namesrv_stream.tables.schemas import LIVE, PINNED_TABLES, TOPIC
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.tables.thinning import WORTH_IT, Thinning
from namesrv_stream.tables.views import open_snapshot
from namesrv_stream.tables.writer import RowChanges
from tests.tables.rows import NOW, T0, event, live
from tests.tables.test_publication import assert_shows_exactly, batches_shown, claim
from tests.tables.test_publication import batch as batch_at_once

STEP_MS = YOUNG_STEP_MS // 4
BEGIN = NOW - NOW % (4 * OLD_STEP_MS) - 12 * OLD_STEP_MS + STEP_MS


COUNT = 32
LEFT = [COUNT + 1, *range(COUNT, 1, -4)]


def batch(number):
    return replace(batch_at_once(number), events=[event(f"batch-{number}", T0 + number)])


@pytest.fixture
def churned(root):
    """A publisher after 32 publications, four in each of 8 steps; all older than `snapshot.every`."""
    publisher = claim(root, at_ms=BEGIN)
    for number in range(COUNT):
        publisher.publish(batch(number), BEGIN + number * STEP_MS)
    return publisher


def thin(root):
    thin_tables(Thinning(root), Keeping(), lambda _name: None)


def shown(root, rows):
    reader = RouteReader(root)
    return {row.epoch: batches_shown(reader.open(epoch=row.epoch), root) for row in rows}


def files(root, spec):
    return [path for path in Path(root.uri(spec)).rglob("*") if path.is_file()]


def test_the_last_snapshot_of_each_step_reads_as_before_and_its_files_alone_stay(root, churned):
    rows = {row.epoch: row for row in Snapshots(root).all()}
    before = {spec.name: len(files(root, spec)) for spec in PINNED_TABLES}
    stay = shown(root, [rows[epoch] for epoch in LEFT])
    thin(root)
    left = Snapshots(root).readable()
    assert [row.epoch for row in left] == LEFT
    assert all(row == rows[row.epoch] for row in left)
    assert shown(root, left) == stay
    assert len(files(root, LIVE)) == 3 * len(left) + 1  # rows, commit and checkpoint of each, and where the last one is
    assert len(files(root, TOPIC)) < before["topic"] / 2
    churned.publish(batch(COUNT), NOW)
    assert churned.restored == []
    assert_shows_exactly(root, *range(COUNT + 1))


def test_thinning_again_and_again_goes_on_to_the_steps_of_older_snapshots(root, churned):
    thinning, keeping = Thinning(root), Keeping()
    churned.publish(batch(COUNT), NOW)
    for hours in (0, 1, 5, 10, 20):
        thin_tables(thinning, keeping, lambda _name: None, NOW + hours * 3_600_000)
        left = Snapshots(root).all()
        assert all(
            rows["live"] == {f"batch-{n}" for n in range(epoch - 1)} for epoch, rows in shown(root, left).items()
        )
    assert len(left) == 2  # an hour had the others
    assert len(files(root, LIVE)) <= 3 * (len(left) + WORTH_IT) + 1


def test_a_snapshot_that_was_dropped_is_refused_with_those_around_it(root, churned):
    reader = RouteReader(root)
    old = reader.snapshots.find(epoch=30)
    thin(root)
    reader.snapshots.refresh()
    with pytest.raises(SnapshotGoneError, match=r"older than snapshot.every and was dropped; .*: 28 .*, 32 "):
        reader.open(epoch=30)
    with pytest.raises(SnapshotGoneError):
        reader.view(old, None)
    with pytest.raises(SnapshotGoneError, match="event time"):
        reader.open(at_ms=T0 + 28)
    assert reader.open(at_ms=T0 + 26).snapshot.epoch == 28
    assert reader.open(epoch=28).snapshot.epoch == 28
    with pytest.raises(SnapshotGoneError):
        RouteReader(root).open(epoch=31)


def test_a_moment_whose_snapshot_had_no_change_is_answered_by_the_one_before(root):
    publisher = claim(root, at_ms=BEGIN)
    publisher.publish(batch(0), BEGIN + 1)
    for number in range(1, 24):
        heard = {"live": RowChanges([live("batch-0", T0 + number)])}
        publisher.publish(Batch("query", number, T0 + number, {0: number}, heard), BEGIN + number * STEP_MS)
    publisher.publish(batch(24), NOW)
    thin(root)
    assert Snapshots(root).find(at_ms=T0 + 5).epoch == 4
    assert [row.epoch for row in Snapshots(root).all()] == [4, 8, 12, 16, 20, 24, 25, 26]


def test_a_reader_that_was_behind_goes_on_with_the_newest_snapshot(root, churned):
    reader = RouteReader(root)
    behind = reader.follow()
    for number in range(COUNT, COUNT + 30):
        churned.publish(batch(number), NOW - 11 * 60_000)
    churned.publish(batch(COUNT + 30), NOW)
    thin(root)
    assert behind.snapshot.epoch == COUNT + 1
    assert batches_shown(reader.follow(), root) == batches_shown(RouteReader(root).open(), root)


class DiedError(Exception):
    pass


@pytest.mark.parametrize("at", [0, 1, 40])
def test_a_maintenance_that_dies_is_gone_on_with(root, churned, monkeypatch, at):
    """Killed at its `at`th file: the registry goes on, and the next maintenance leaves what it would have left."""
    removed = []

    def remove(self, spec, name):
        removed.append(name)
        if len(removed) > at:
            raise DiedError
        return is_removed(self, spec, name)

    is_removed = Thinning._is_removed  # noqa: SLF001
    with monkeypatch.context() as patch:
        patch.setattr(Thinning, "_is_removed", remove)
        with pytest.raises(DiedError):
            thin(root)
    heir = claim(root, "second", at_ms=NOW)
    heir.publish(batch(COUNT), NOW)
    assert_shows_exactly(root, *range(COUNT + 1))
    maintain(None, root)
    left = Snapshots(root).readable()
    assert [row.epoch for row in left] == [COUNT + 3, COUNT + 2, *LEFT]
    assert set(shown(root, left)) == {row.epoch for row in left}
    assert len(files(root, LIVE)) <= 3 * len(left) + 5  # VACUUM has commits
    heir.publish(batch(COUNT + 1), NOW)
    assert_shows_exactly(root, *range(COUNT + 2))


@pytest.mark.spark
def test_spark_reads_a_snapshot_whose_neighbours_are_gone(spark, root, churned):
    thin(root)
    session = spark.newSession()
    open_snapshot(session, root, epoch=32)
    topics = {row.topic for row in session.sql("SELECT topic FROM topic").collect()}
    assert topics == {"shared", *(f"batch-{number}" for number in range(31))}
    churned.publish(batch(COUNT), NOW)
    open_snapshot(session, root)
    assert session.sql("SELECT count(*) FROM topic").collect()[0][0] == COUNT + 2

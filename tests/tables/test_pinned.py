"""One snapshot in Arrow, without Spark."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.compute as pc
import pytest

from namesrv_stream.errors import NoSuchSnapshotError, SnapshotGoneError
from namesrv_stream.tables.pinned import PinnedTables, open_tables
from namesrv_stream.tables.root import DEFAULT_RETENTION_MS
from namesrv_stream.tables.schemas import PAST_SNAPSHOT, SNAPSHOT, TABLES, TOPIC
from namesrv_stream.tables.writer import CommitTag, RustWriter
from tests.tables.rows import NOW, T0
from tests.tables.test_publication import batch, claim


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
    assert set(tables) == {*TABLES, "past_snapshot", "publication"}
    assert len(tables) == len(list(tables))
    assert topics(tables) == ["batch-0", "batch-1", "shared"]
    assert len(tables["broker_event"]) == 2
    assert sorted(tables["snapshot"]["epoch"].to_pylist()) == [1, 2, 3]
    assert (tables["past_snapshot"].schema, len(tables["past_snapshot"])) == (PAST_SNAPSHOT.schema, 0)
    assert tables["publication"]["is_kept"].to_pylist() == [True] * 3
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
    root.open(SNAPSHOT).delete("epoch = 3")
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


@pytest.fixture
def half_forgotten(root, publisher):
    """The snapshots of epoch 1 and 2 are past their retention, and a run that died has left epoch 2 in both tables."""
    forget(root, 3, deletes_before=2)
    return root


def forget(root, before, deletes_before):
    """Do what maintenance does with the snapshots below epoch `before`, and drop only those below `deletes_before`."""
    writer = RustWriter(root)
    writer.ensure_table(PAST_SNAPSHOT, DEFAULT_RETENTION_MS)
    rows = writer.read(SNAPSHOT, writer.head(SNAPSHOT)).filter(pc.field("epoch") < before)
    writer.append(PAST_SNAPSHOT, 0, rows.select(PAST_SNAPSHOT.schema.names), CommitTag(before, 1))
    root.open(SNAPSHOT).delete(f"epoch < {deletes_before}")


def test_each_epoch_is_one_publication_whether_its_snapshot_can_be_read_or_not(half_forgotten):
    tables = open_tables(half_forgotten)
    assert sorted(tables["past_snapshot"]["epoch"].to_pylist()) == [1, 2]
    assert tables["publication"].select(["epoch", "kind", "is_kept"]).to_pylist() == [
        {"epoch": 1, "kind": "CLAIM", "is_kept": False},
        {"epoch": 2, "kind": "PUBLICATION", "is_kept": True},
        {"epoch": 3, "kind": "PUBLICATION", "is_kept": True},
    ]
    assert tables.where("publication", "kind = 'PUBLICATION'")["epoch"].to_pylist() == [2, 3]
    assert open_tables(half_forgotten, epoch=2)["publication"]["epoch"].to_pylist() == [1, 2]


def test_a_snapshot_that_maintenance_moves_while_publications_are_read_is_among_them(root, publisher, monkeypatch):
    tables = open_tables(root)
    where = PinnedTables.where

    def moves_after_the_first_read(self, name, condition="true"):
        rows = where(self, name, condition)
        if name == "snapshot":
            forget(root, 3, deletes_before=3)
        return rows

    monkeypatch.setattr(PinnedTables, "where", moves_after_the_first_read)
    assert tables["publication"]["epoch"].to_pylist() == [1, 2, 3]

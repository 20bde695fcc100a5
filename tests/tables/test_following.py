"""A reader that follows from before the first snapshot, and one that was away for long."""

from pathlib import Path

import pytest

from namesrv_stream.errors import NoSuchSnapshotError
from namesrv_stream.tables import rust_writer
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.reader import RouteReader
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.rust_writer import RustWriter
from namesrv_stream.tables.schemas import SNAPSHOT
from tests.tables.rows import NOW


def test_a_reader_that_was_opened_on_empty_tables_follows_the_first_snapshot(tmp_path):
    writer = RustWriter(Root(str(tmp_path)))
    writer.ensure_tables(retention_ms=86_400_000)
    reader = RouteReader(str(tmp_path))
    with pytest.raises(NoSuchSnapshotError):
        reader.follow()
    Publisher.claim(writer, "run", 1)
    assert reader.follow().snapshot.epoch == 1


def test_a_reader_that_was_away_goes_on_although_the_log_of_the_snapshots_in_between_is_gone(tmp_path, monkeypatch):
    root = Root(str(tmp_path))
    monkeypatch.setattr(rust_writer, "CHECKPOINT_INTERVAL", 2)
    publisher = Publisher.claim(RustWriter(root), "run", NOW)
    reader = RouteReader(str(tmp_path))
    reader.follow()
    read = root.open(SNAPSHOT).version()
    at_once = {"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 0 seconds"}
    root.open(SNAPSHOT).alter.set_table_properties(at_once)
    for number in range(7):
        publisher.publish(Batch(None, None, NOW, {0: number}, {}), NOW)
    log = Path(root.uri(SNAPSHOT), "_delta_log")
    assert not (log / f"{read + 1:020}.json").exists()
    assert reader.follow().snapshot == publisher.last

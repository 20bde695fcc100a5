"""A reader that follows from before the first snapshot, and one that was away for long."""

import shutil
from pathlib import Path

import pytest

from namesrv_stream.errors import NoSuchSnapshotError
from namesrv_stream.tables import snapshots
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import SNAPSHOT
from namesrv_stream.tables.writer import RowChanges, RustWriter
from tests.tables.rows import NOW, topic


def test_a_reader_of_tables_that_no_job_has_claimed_says_so_and_follows_the_first_snapshot(tmp_path):
    writer = RustWriter(Root(str(tmp_path)))
    writer.ensure_tables()
    reader = Registry(str(tmp_path))
    for read in (reader.at, reader.follow):
        with pytest.raises(NoSuchSnapshotError, match="Check that the job is running"):
            read()
    Publisher.claim(writer, "run", 1)
    assert reader.follow().snapshot.epoch == 1


def test_a_reader_that_was_away_goes_on_although_the_log_of_the_snapshots_in_between_is_gone(tmp_path, monkeypatch):
    root = Root(str(tmp_path))
    monkeypatch.setattr("namesrv_stream.tables.writer.CHECKPOINT_INTERVAL", 2)
    publisher = Publisher.claim(RustWriter(root), "run", NOW)
    monkeypatch.setattr(snapshots, "_LOOK_THROUGH_EVERY_S", 0.0)
    reader = Registry(str(tmp_path))
    reader.follow()
    read = root.open(SNAPSHOT).version()
    at_once = {"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 0 seconds"}
    root.open(SNAPSHOT).alter.set_table_properties(at_once)
    for number in range(7):
        publisher.publish(Batch(None, None, NOW, {0: number}, {}), NOW)
    log = Path(root.uri(SNAPSHOT), "_delta_log")
    assert not (log / f"{read + 1:020}.json").exists()
    assert reader.follow().snapshot == publisher.last


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("publications", [0, 5], ids=["with fewer versions", "grown past the known version"])
def test_a_registry_that_was_made_anew_in_the_same_folder_is_read_from_scratch(
    tmp_path, monkeypatch, is_local, publications
):
    """No row of the former registry is shown, whatever the numbers of the versions are."""
    monkeypatch.setattr(snapshots, "_LOOK_THROUGH_EVERY_S", 60.0 if is_local else 0.0)
    if not is_local:
        monkeypatch.setattr(Root, "local_log", lambda *_: None)
    folder = tmp_path / "registry"
    publish(Publisher.claim(RustWriter(Root(str(folder))), "run", NOW), "old-topic", 3)
    reader = Registry(str(folder))
    former = reader.follow()
    assert list(former.routes.queues) == ["old-topic"]
    shutil.rmtree(folder)
    publisher = Publisher.claim(RustWriter(Root(str(folder))), "run", NOW)
    publish(publisher, "new-topic", publications)
    followed = reader.follow()
    assert (followed.snapshot, followed.changed_topics(former)) == (publisher.last, None)
    assert list(followed.routes.queues) == ["new-topic"] * bool(publications)


def publish(publisher, name, times):
    for number in range(times):
        rows = {"topic": RowChanges([topic(name, perm=number)])}
        publisher.publish(Batch(None, None, NOW, {0: number}, rows), NOW)

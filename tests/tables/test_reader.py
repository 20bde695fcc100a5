"""A reader without Spark: whole snapshots, by epoch and time, and the errors if one cannot be read."""

import subprocess
import sys
from pathlib import Path

import pytest

from namesrv_stream.errors import NamesrvError, StorageError
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.schemas import FORMAT, LIVE, SNAPSHOT, TOPIC
from namesrv_stream.tables.snapshots import SnapshotTable
from tests.tables.batches import claim, publish
from tests.tables.rows import T0, broker, live, topic

PROJECT = Path(__file__).parents[2]


def test_a_reader_that_follows_refuses_what_a_newer_release_has_written(root):
    publisher = claim(root)
    reader = Registry(root)
    for number in range(2):
        publish(publisher, number, topic=[topic(f"t{number}")])
        reader.follow()
    root.open(LIVE).alter.set_table_properties({"registry.format": str(FORMAT + 1)}, raise_if_not_exists=False)
    row = publisher.last
    newer = row._replace(epoch=row.epoch + 1, versions=row.versions | {"live": row.versions["live"] + 1})
    with pytest.raises(NamesrvError, match="registry format"):
        _ = reader.published(newer).routes


@pytest.mark.parametrize("is_compacted", [False, True])
def test_rows_after_an_epoch_are_the_same_in_one_file_and_in_several(root, is_compacted):
    publisher = claim(root)
    rows = [publish(publisher, number, topic=[topic(f"t{number}")]) for number in range(3)]
    if is_compacted:
        root.open(SNAPSHOT).optimize.compact()
    snapshots = SnapshotTable(root)
    assert [snapshots.after(epoch) for epoch in (1, 2, 3, 4)] == [rows, rows[1:], rows[2:], []]
    assert snapshots.newest() == rows[-1]


def test_follow_reads_again_only_the_tables_that_changed(root):
    publisher = claim(root)
    publish(publisher, 0, topic=[topic("t")], live=[live("a")])
    reader = Registry(root)
    before = reader.follow()
    assert reader.follow() is before
    newest = publish(publisher, 1, live=[live("b")])
    after = reader.follow()
    assert after.snapshot == newest
    assert after.topics is before.topics
    assert set(after.routes.live) == {"a", "b"}
    assert set(before.routes.live) == {"a"}


def test_a_job_stops_when_a_newer_release_has_taken_its_tables_over(root):
    publisher = claim(root)
    root.open(TOPIC).alter.set_table_properties({"registry.format": str(FORMAT + 1)}, raise_if_not_exists=False)
    with pytest.raises(NamesrvError, match="registry format"):
        publish(publisher, 0, topic=[topic("t")])
    assert publisher.last == SnapshotTable(root).newest()


def test_reading_starts_no_thread_of_arrow(root):
    """Such a thread frees memory of Python's after the read, and so can abort a process that is about to exit."""
    publish(claim(root), 0, topic=[topic("t")], broker=[broker(0)])
    code = f"""
import os, pyarrow.parquet
from pathlib import Path
from namesrv_stream.tables.registry import Registry
from tests.waiting import until

def nameless():
    found = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text() == Path("/proc/self/comm").read_text():
                found.add(task.name)
        except (FileNotFoundError, ProcessLookupError):
            pass  # threads of delta-rs end whenever they have no work
    return found

before = {{task.name for task in Path("/proc/self/task").iterdir()}}
assert Registry({root.url!r}).newest().routes.queues["t"]
until(lambda: nameless() <= before)  # a thread of delta-rs gives itself a name once it runs, one of Arrow never
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PROJECT)


def test_tables_that_cannot_be_read_are_named_with_the_error_of_the_storage(tmp_path):
    log = tmp_path / "snapshot" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("junk")
    with pytest.raises(StorageError, match=f"cannot read table snapshot under {tmp_path}"):
        Registry(str(tmp_path)).newest()


@pytest.mark.parametrize("moment", [{}, {"epoch": 2}, {"at_ms": T0 + 1}])
def test_a_reader_of_one_topic_has_its_rows_and_all_other_tables(root, moment):
    publisher = claim(root)
    for number in range(3):
        rows = [topic("a", f"name{number}"), topic("it's", f"name{number}")]
        publish(publisher, number, topic=rows, live=[live(f"broker{number}")])
    at = Registry(root).at(**moment)
    one, whole = at.of_topic("it's").routes, at.routes
    assert one.queues["it's"] == whole.queues["it's"] != []
    assert one.live == whole.live
    assert [*Registry(root).newest().of_topic("it's").queues] == ["it's"]

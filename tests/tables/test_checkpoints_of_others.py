"""Readers and writers go on whatever checkpoints other writers leave beside those of delta-rs."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from namesrv_stream.tables.registry import Registry, open_tables
from namesrv_stream.tables.schemas import BROKER_EVENT, SNAPSHOT, TOPIC
from tests.tables.batches import assert_shows_exactly, batch, claim
from tests.tables.rows import NOW

SPECS = (TOPIC, BROKER_EVENT, SNAPSHOT)


def log_of(root, spec):
    return Path(root.uri(spec), "_delta_log")


def leave_an_empty_pointer(root):
    """A writer died between making the file `_last_checkpoint` and filling it."""
    for spec in SPECS:
        root.open(spec).create_checkpoint()
        (log_of(root, spec) / "_last_checkpoint").write_bytes(b"")


def leave_parts_beside_a_checkpoint(root):
    """The checkpoint of a version in parts, as Spark names them, beside the one that delta-rs has written of it."""
    for spec in SPECS:
        table = root.open(spec)
        table.create_checkpoint()
        log, version = log_of(root, spec), table.version()
        whole = pq.read_table(log / f"{version:020}.checkpoint.parquet")
        half = len(whole) // 2
        for number, part in enumerate((whole.slice(0, half), whole.slice(half)), start=1):
            pq.write_table(part, log / f"{version:020}.checkpoint.{number:010}.{2:010}.parquet")
        pointer = {"version": version, "size": len(whole), "parts": 2}
        (log / "_last_checkpoint").write_text(json.dumps(pointer))


def leave_parts_alone(root):
    """The checkpoint of a version in parts alone."""
    leave_parts_beside_a_checkpoint(root)
    for spec in SPECS:
        [whole] = [file for file in log_of(root, spec).iterdir() if file.name.endswith(".checkpoint.parquet")]
        whole.unlink()


def remove_what_checkpoints_cover(root):
    """Clean the log up, as its retention does: who ignores the checkpoint can read nothing."""
    for spec in SPECS:
        log = log_of(root, spec)
        newest = max(int(file.name[:20]) for file in log.glob("*.checkpoint*.parquet"))
        for commit in log.glob("*.json"):
            if int(commit.stem) < newest:
                commit.unlink()


@pytest.fixture
def published(root):
    publisher = claim(root)
    for number in range(4):
        publisher.publish(batch(number), NOW)
    return publisher


@pytest.mark.parametrize("is_cleaned", [False, True])
@pytest.mark.parametrize("leave", [leave_an_empty_pointer, leave_parts_beside_a_checkpoint, leave_parts_alone])
def test_readers_and_the_writer_go_on(root, published, leave, is_cleaned):
    leave(root)
    if is_cleaned:
        remove_what_checkpoints_cover(root)
    assert_shows_exactly(root, *range(4))
    assert Registry(root).newest().snapshot == published.last
    tables = open_tables(root)
    assert {name: len(tables[name]) for name in (TOPIC.name, BROKER_EVENT.name)} == {"topic": 5, "broker_event": 4}
    claim(root, "another run").publish(batch(4), NOW)
    assert_shows_exactly(root, *range(5))

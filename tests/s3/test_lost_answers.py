"""Commits whose answers are lost, or that are refused without need, on a store."""

from collections import Counter

import pytest

from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.schemas import BROKER_EVENT
from namesrv_stream.tables.snapshot_reader import RouteReader
from tests.s3.conftest import S3Server
from tests.tables.rows import NOW
from tests.tables.test_publication import assert_shows_exactly, batch, claim

EPOCHS = 60
"""One takes 13 s, most of it pauses of delta-rs before it tries again: 200 do not end within an hour."""


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_no_epoch_comes_twice_no_run_ends_and_each_change_is_there_once(tmp_path):
    with S3Server(tmp_path, "--unreliable") as store:
        root = store.root()
        publisher = claim(root)
        rows = [publisher.publish(batch(number), NOW) for number in range(EPOCHS)]
        assert [row.epoch for row in rows] == list(range(2, EPOCHS + 2))
        assert min(store.fates["lost"], store.fates["refused"]) > EPOCHS
        reader = RouteReader(root.url, root.storage_options)
        assert [row.epoch for row in reader.snapshots.readable()] == list(range(EPOCHS + 1, 0, -1))
        events = rows_from_arrow(BROKER_EVENT, reader.table(BROKER_EVENT, reader.open().snapshot))
        assert_shows_exactly(root, *range(EPOCHS))
    assert Counter(event.broker_addr for event in events) == {f"batch-{number}": 1 for number in range(EPOCHS)}

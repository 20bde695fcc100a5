"""A moment between two snapshots is not answered from the one before it as if nothing had happened since."""

import time

import pytest

from namesrv_stream.questions.accounts import comparison
from namesrv_stream.questions.subject import between
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RouteReader
from tests.cli.registry import PublishedRegistry

A, B = "10.0.0.1:10911", "10.0.0.2:10911"
HOUR_MS = 3_600_000
BEGIN_MS = time.time_ns() // 1_000_000 - 3 * HOUR_MS


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Epoch 2 is of the beginning; epoch 3 has what came 10 and 60 minutes later."""
    registry = PublishedRegistry(str(tmp_path_factory.mktemp("between") / "registry"), BEGIN_MS)
    registry.register(A, "c", "broker-a")
    registry.now_ms += HOUR_MS // 6
    registry.register(B, "c", "broker-b", publish=False)
    registry.now_ms += HOUR_MS * 5 // 6
    registry.expire(A)
    return Root(registry.root)


@pytest.mark.parametrize(("minutes", "events"), [(0, 0), (9, 0), (10, 2), (59, 2)])
def test_the_events_that_a_snapshot_lacks_are_counted(root, minutes, events):
    at_ms = BEGIN_MS + minutes * 60_000
    snapshots = RouteReader(root).snapshots
    found = between(root, snapshots, snapshots.find(at_ms=at_ms), at_ms)
    assert (found.events if found else 0) == events
    assert found is None or found.next_epoch == 3


def test_two_moments_of_which_one_lies_between_snapshots_are_compared_by_the_events(root):
    reader = RouteReader(root)
    moments = AsOf(epoch=2), AsOf(at_ms=BEGIN_MS + HOUR_MS // 2)
    found = comparison(reader, root, *moments)
    assert (found.epochs, found.inexact) == (None, (moments[1],))
    assert {each.key for each in found.diff.differences if each.table == "live"} == {(B,)}
    at_epoch = comparison(reader, root, AsOf(epoch=2), AsOf(at_ms=BEGIN_MS + HOUR_MS))
    assert at_epoch.epochs == (2, 3)

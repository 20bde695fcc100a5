"""Replaying the history gives the members of any moment."""

import pytest

from namesrv_stream.history.events import Membership, events_between, members_at, newest_events
from namesrv_stream.rules.rows import FilterRow
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RouteReader
from tests.history.fleet import RandomHistory, assert_members_are
from tests.tables.rows import NOW

T0 = NOW - 90 * 24 * 3_600_000


@pytest.fixture
def root(tmp_path):
    return Root(str(tmp_path / "registry"))


def lived(root, seed, epochs):
    """A history with events of the same millisecond and expiries that come epochs after their time: epoch -> time."""
    history = RandomHistory(root, seed, T0, NOW)
    published = {}
    for _ in range(epochs):
        for _ in range(8):
            history.step(gap_ms=history.rng.choice([0, 60_000]), late_ms=900_000)
        published[history.publish()] = history.event_ms
        history.event_ms += 1
    return published


def without(view, gone):
    brokers = {(name, i): row for name, ids in view.brokers.items() for i, row in ids.items()}
    return Membership(
        {key: row for key, row in brokers.items() if row.broker_addr not in gone},
        {address: FilterRow(address, servers) for address, servers in view.filters.items() if address not in gone},
        {address: row for address, row in view.live.items() if address not in gone},
    )


@pytest.fixture(scope="module", params=range(3))
def registry(request, tmp_path_factory):
    """A root, and the times of its epochs."""
    root = Root(str(tmp_path_factory.mktemp("history") / "registry"))
    return root, lived(root, request.param, 12)


def test_members_of_an_epoch_are_those_of_its_snapshot_and_of_a_time_those_not_expired_by_then(registry):
    root, epochs = registry
    reader = RouteReader(root)
    newest = reader.snapshots.newest()
    expired = [line for line in newest_events(root, newest, limit=None) if line.type == "EXPIRED"]
    late = set()
    for epoch, at_ms in epochs.items():
        view = reader.open(epoch=epoch).routes
        assert_members_are(members_at(root, newest, AsOf(epoch=epoch)), view)
        gone = {line.broker_addr for line in expired if line.epoch > epoch and line.event_time <= at_ms}
        assert_members_are(members_at(root, newest, AsOf(at_ms=at_ms)), without(view, gone).routes())
        late |= gone
    assert late


def test_all_lines_and_those_of_living_leases_alone_come_to_the_same(registry):
    root, epochs = registry
    newest = RouteReader(root).snapshots.newest()
    for moment in [*(AsOf(epoch=epoch) for epoch in epochs), *(AsOf(at_ms=at_ms) for at_ms in epochs.values())]:
        lines = events_between(root, newest, AsOf(epoch=0), moment)
        assert members_at(root, newest, moment) == Membership.after(lines)


def test_before_the_first_line_there_is_nobody(root):
    history = RandomHistory(root, 1, T0, NOW)
    history.step()
    history.publish()
    newest = RouteReader(root).snapshots.newest()
    assert members_at(root, newest, AsOf(at_ms=T0)) == Membership()

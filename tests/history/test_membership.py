"""Replaying the history gives the members of any moment."""

import pytest

from namesrv_stream.history.events import AsOf, events_between, members_at
from namesrv_stream.history.membership import Membership
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.tables.reader import RouteReader
from namesrv_stream.tables.root import Root
from tests.history.fleet import RandomHistory
from tests.tables.rows import NOW

T0 = NOW - 90 * 24 * 3_600_000


@pytest.fixture
def root(tmp_path):
    return Root(str(tmp_path / "registry"))


def without_what_is_heard(live):
    """History tells a new data version by its topics, and no signs of life."""
    return {address: _identity(row) for address, row in live.items()}


def _identity(row: LiveRow):
    return row.cluster_name, row.broker_name, row.broker_id, row.ha_server_addr, row.lease_began_at


def assert_members_are(members, view):
    routes = members.routes()
    assert routes.brokers == view.brokers
    assert routes.clusters == view.clusters
    assert routes.filters == view.filters
    assert without_what_is_heard(routes.live) == without_what_is_heard(view.live)


@pytest.mark.parametrize("seed", range(5))
def test_members_of_every_epoch_and_time_are_those_of_its_snapshot(root, seed):
    history = RandomHistory(root, seed, T0, NOW)
    epochs = {}
    for _ in range(12):
        for _ in range(5):
            history.step()
        epochs[history.publish()] = history.event_ms
    reader = RouteReader(root)
    newest = reader.snapshots.newest()
    for epoch, at_ms in epochs.items():
        view = reader.open(epoch=epoch).routes
        assert_members_are(members_at(root, newest, AsOf(epoch=epoch)), view)
        assert_members_are(members_at(root, newest, AsOf(at_ms=at_ms)), view)


def test_all_lines_and_those_of_living_leases_alone_come_to_the_same(root):
    history = RandomHistory(root, 7, T0, NOW)
    for _ in range(80):
        history.step()
    last = AsOf(epoch=history.publish())
    newest = RouteReader(root).snapshots.newest()
    lines = events_between(root, newest, AsOf(epoch=0), last)
    assert_members_are(Membership.after(lines), history.rules.view())
    assert members_at(root, newest, last) == Membership.after(lines)


def test_before_the_first_line_there_is_nobody(root):
    history = RandomHistory(root, 1, T0, NOW)
    history.step()
    history.publish()
    newest = RouteReader(root).snapshots.newest()
    assert members_at(root, newest, AsOf(at_ms=T0)) == Membership()

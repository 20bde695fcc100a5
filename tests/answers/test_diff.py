"""Changes between two moments, from snapshots and from events."""

import pytest

from namesrv_stream.answers.accounts import Difference, differences, shown_of
from namesrv_stream.answers.events import changes_between
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.schemas import ROUTE_TABLES
from tests.answers.fleet import RandomHistory
from tests.tables.rows import NOW

T0 = NOW - 90 * 24 * 3_600_000


def diff_of_views(before, after):
    """The differences between the tables of two moments."""
    found = []
    for spec in ROUTE_TABLES:
        was, became = (
            {row[: len(spec.key)]: shown_of(spec.name, row) for row in view.rows(spec.name)} for view in (before, after)
        )
        pairs = {key: (was.get(key), became.get(key)) for key in sorted(was.keys() | became.keys())}
        found += [Difference(spec.name, key, *pair) for key, pair in pairs.items() if pair[0] != pair[1]]
    return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
def test_events_give_the_same_differences_as_snapshots(root, seed):
    history = RandomHistory(root, seed, T0, NOW)
    epochs = []
    for _ in range(5):
        for _ in range(8):
            history.step(gap_ms=history.rng.choice([0, 60_000]), late_ms=300_000)
        epochs.append(history.publish())
    reader = Registry(root)
    views = {epoch: reader.at(epoch=epoch) for epoch in epochs}
    for start in epochs:
        for end in [epoch for epoch in epochs if epoch >= start]:
            by_views = diff_of_views(views[start], views[end])
            changes = changes_between(views[start], views[end])
            assert differences(changes) == by_views

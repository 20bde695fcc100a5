"""Which past snapshots stay readable (rules/thinning.py)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.rules.thinning import DAY_MS, OLD_STEP_MS, YOUNG_STEP_MS, kept_snapshots

NOW = 20_000 * DAY_MS
EVERY_MS = 600_000


def kept(ages_ms, now_ms=NOW, retention_ms=30 * DAY_MS):
    """The ages of the snapshots that stay, of those with these ages, oldest first."""
    ages = sorted(ages_ms, reverse=True)
    rows = [SnapshotRow(n, 1, "run", None, None, now_ms - age, None, {}, {}, {}) for n, age in enumerate(ages, 1)]
    stay = kept_snapshots(rows, now_ms, EVERY_MS, retention_ms)
    return [age for n, age in enumerate(ages, 1) if n >= stay.every_from or n in stay.single]


@pytest.mark.parametrize(
    ("ages", "stay"),
    [
        ([0, 1, 2], [2, 1, 0]),
        ([EVERY_MS + 1, EVERY_MS, 5], [EVERY_MS + 1, EVERY_MS, 5]),
        ([EVERY_MS + 2, EVERY_MS + 1, 0], [EVERY_MS + 1, 0]),
        ([DAY_MS + 1, DAY_MS, DAY_MS - 1, 0], [DAY_MS + 1, DAY_MS - 1, 0]),
        ([2 * DAY_MS - 1, 2 * DAY_MS - OLD_STEP_MS + 1, 0], [2 * DAY_MS - OLD_STEP_MS + 1, 0]),
        ([31 * DAY_MS, 0], [0]),
        ([31 * DAY_MS], [31 * DAY_MS]),  # the newest stays for ever
    ],
)
def test_each_young_snapshot_stays_and_the_last_of_each_step_of_the_older(ages, stay):
    assert kept(ages) == stay


def test_a_month_of_changes_every_five_seconds_keeps_a_thousand_snapshots():
    ages = range(0, 30 * DAY_MS, 60_000)
    assert len(kept(ages)) <= 1 + EVERY_MS // 60_000 + DAY_MS // YOUNG_STEP_MS + 1 + 30 * DAY_MS // OLD_STEP_MS + 1


@given(st.lists(st.integers(0, 40 * DAY_MS), min_size=1, unique=True), st.integers(0, 3 * DAY_MS))
def test_what_goes_once_is_not_needed_later(ages, later_ms):
    """Maintenance never misses a snapshot that it has dropped before, however often it runs."""
    at_once = kept([age + later_ms for age in ages], NOW + later_ms)
    step_by_step = kept([age + later_ms for age in kept(ages)], NOW + later_ms)
    assert step_by_step == at_once

"""The state of a job as the newest snapshot shows it."""

import pytest

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.job_progress import is_stale, job_progress

NOW = 1_000_000
STALE_MS = 90_000


def snapshot(kind, published_ms_ago, event_ms_ago):
    event_time = None if event_ms_ago is None else NOW - event_ms_ago
    return SnapshotRow(1, 1, "run", None, None, NOW - published_ms_ago, event_time, {}, {}, {}, kind)


@pytest.mark.parametrize(
    ("kind", "published_ms_ago", "event_ms_ago", "state"),
    [
        ("PUBLICATION", 1_000, 1_000, "running"),
        ("PUBLICATION", 89_000, 104_000, "running"),
        ("PUBLICATION", 1_000, 16_001, "catching up"),
        ("PUBLICATION", STALE_MS, STALE_MS, "running"),
        ("PUBLICATION", STALE_MS + 1, STALE_MS + 1, "silent"),
        ("CLAIM", 1_000, 600_000, "starting"),
        ("CLAIM", STALE_MS + 1, None, "silent"),
        ("STOP", 900_000, 900_000, "stopped in order"),
        (None, 1_000, 1_000, "running"),
    ],
)
def test_the_state_of_a_job_follows_from_its_last_row(kind, published_ms_ago, event_ms_ago, state):
    assert job_progress(snapshot(kind, published_ms_ago, event_ms_ago), NOW, STALE_MS).state == state


def test_a_claim_makes_stale_tables_no_fresher():
    assert is_stale(snapshot("CLAIM", 0, STALE_MS + 1), NOW, STALE_MS)
    assert not is_stale(snapshot("CLAIM", 0, STALE_MS), NOW, STALE_MS)


def test_the_lag_is_of_event_time_and_unknown_before_the_first_record():
    assert job_progress(snapshot("CLAIM", 0, 270_000), NOW, STALE_MS).lag_ms == 270_000
    assert job_progress(snapshot("CLAIM", 0, None), NOW, STALE_MS).lag_ms is None


def test_a_record_stamped_ahead_makes_the_tables_of_a_dead_job_no_fresher():
    ahead = snapshot("PUBLICATION", STALE_MS + 1, -3_600_000)
    assert is_stale(ahead, NOW, STALE_MS)
    assert job_progress(ahead, NOW, STALE_MS).lag_ms == STALE_MS + 1
    assert not is_stale(snapshot("PUBLICATION", STALE_MS, -3_600_000), NOW, STALE_MS)

"""The job's sign of progress: readers take the newest snapshot for as young as the sign about it says."""

from pathlib import Path

import pytest

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.job_progress import NAME, STALE_AFTER_MS, ProgressFile, ProgressSign, is_stale, job_progress

T0 = 1_700_000_000_000
ROW = SnapshotRow(7, 2, "run", None, None, T0, T0, {0: 5}, {}, {}, "PUBLICATION")
SIGN = ProgressSign(7, 2, T0 + 280_000, T0 + 279_000, {0: 90}, T0 + 300_000)


@pytest.fixture
def file(root):
    Path(root.url).mkdir()
    return ProgressFile(root)


def test_a_registry_that_is_quiet_for_minutes_is_neither_stale_nor_dead(file):
    file.write(SIGN)
    now_ms = T0 + 290_000
    row = file.row_now(ROW)
    assert (job_progress(ROW, now_ms).state, is_stale(ROW, now_ms)) == ("silent", True)
    assert (job_progress(row, now_ms).state, is_stale(row, now_ms)) == ("running", False)
    assert (row.offsets, job_progress(row, now_ms).lag_ms) == ({0: 90}, 11_000)
    late_ms = SIGN.written_at + STALE_AFTER_MS + 1
    assert (job_progress(row, late_ms).state, is_stale(row, late_ms)) == ("silent", True)


@pytest.mark.parametrize("claims", [1, 2])
def test_a_takeover_of_a_calm_registry_is_no_lag(file, claims):
    file.write(SIGN)
    at_ms = SIGN.written_at + 20_000
    claim = ROW._replace(epoch=7 + claims, term=2 + claims, run_id="run-2", kind="CLAIM", published_at=at_ms)
    row = file.row_now(claim)
    assert (job_progress(row, at_ms).state, is_stale(row, at_ms), job_progress(row, at_ms).lag_ms) == (
        "starting", False, 21_000,
    )  # fmt: skip
    assert row.published_at == at_ms
    for other in (claim._replace(kind="PUBLICATION"), claim._replace(epoch=12), claim._replace(offsets={})):
        assert file.row_now(other) is other, "of a publication since, or of another log"


@pytest.mark.parametrize(
    "newest", [ROW._replace(epoch=8), ROW._replace(term=3), ROW._replace(published_at=SIGN.written_at + 1)]
)
def test_a_sign_about_another_snapshot_says_nothing(file, newest):
    file.write(SIGN)
    assert file.row_now(newest) is newest


@pytest.mark.parametrize("content", [None, b"", b"{", b"[1]"])
def test_without_a_sign_that_can_be_read_the_snapshot_says_all(file, root, tmp_path, content):
    if content is not None:
        file.write(SIGN)
        (tmp_path / "registry" / NAME).write_bytes(content)
    assert file.row_now(ROW) is ROW


def test_a_sign_replaces_the_one_before(file, tmp_path):
    for number in range(3):
        file.write(ProgressSign(7, 2, T0 + number, T0, {0: number}))
    assert file.row_now(ROW).offsets == {0: 2}
    assert [path.name for path in (tmp_path / "registry").iterdir()] == [NAME]

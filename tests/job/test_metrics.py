"""The job's metrics: its role and readiness, its lag, and how long each table takes."""

import math
import shutil
import time
from types import SimpleNamespace

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import StorageError
from namesrv_stream.job.job_metrics import JobMetrics
from namesrv_stream.kafka.topic import TopicFacts
from namesrv_stream.rules.rows import SnapshotRow


@pytest.fixture
def metrics():
    return JobMetrics()


def value(metrics, name, **labels):
    return metrics.registry.get_sample_value(f"namesrv_job_{name}", labels)


def snapshot(event_time_ms):
    return SnapshotRow(7, 3, "run", None, None, 1_000_000, event_time_ms, {}, {}, {}, "CLAIM")


@pytest.mark.parametrize(
    ("role", "problem"),
    [("starting", "the job is starting"), ("standby", None), ("active", None)],
)
def test_a_job_is_ready_when_it_is_active_or_stands_by(metrics, role, problem):
    metrics.take_role(role)
    assert metrics.readiness() == problem
    roles = ("starting", "standby", "active", "waiting")
    assert [each for each in roles if value(metrics, "role", role=each)] == [role]


def test_a_job_that_waits_for_the_storage_is_not_ready_and_says_why_until_it_is_active_again(metrics):
    metrics.take_role("waiting", StorageError("s3://bucket", "no route"))
    assert "s3://bucket" in metrics.readiness()
    assert value(metrics, "outages_total", error="StorageError") == 1
    metrics.take_role("active")
    assert metrics.readiness() is None
    assert value(metrics, "outages_total", error="StorageError") == 1


def test_lag_grows_with_the_clock_while_no_batch_comes(metrics):
    metrics.claimed(snapshot(int(time.time() * 1000) - 60_000))
    first = value(metrics, "lag_seconds")
    assert first >= 60
    metrics.take_role("waiting", StorageError("s3://bucket", "no route"))
    assert value(metrics, "lag_seconds") >= first
    assert (value(metrics, "term"), value(metrics, "epoch")) == (3, 7)
    metrics.take_role("standby")
    assert value(metrics, "lag_seconds") == 0, "the tables are another job's"
    metrics.take_role("active")
    metrics.claimed(snapshot(None))
    assert value(metrics, "lag_seconds") == 0, "the log is empty"


def test_maintenance_counts_from_the_start_of_the_query_and_the_disk_is_measured(metrics, tmp_path):
    given = {"delta.root": str(tmp_path / "not" / "yet"), "checkpoint.location": "/proc", "maintenanceMillis": "60000"}
    metrics.watch_storage(NamesrvSettings.model_validate(given), lambda: False)
    assert value(metrics, "maintenance_interval_seconds") == 60
    usage = shutil.disk_usage(tmp_path)
    assert value(metrics, "storage_free_ratio") == pytest.approx(usage.free / usage.total, abs=0.05)
    assert value(metrics, "maintained_timestamp_seconds") == 0
    metrics.take_role("active")
    began_s = value(metrics, "maintained_timestamp_seconds")
    metrics.on_point("maintaining live")
    assert value(metrics, "maintained_timestamp_seconds") == began_s > 0
    metrics.on_point("maintained")
    assert value(metrics, "maintained_timestamp_seconds") > began_s


@pytest.mark.parametrize(
    ("config", "seconds"), [({"retention.ms": "86400000"}, 86_400), ({"retention.ms": "-1"}, math.inf), ({}, math.inf)]
)
def test_a_log_that_is_kept_for_ever_and_one_whose_settings_are_hidden_raise_no_alert(config, seconds):
    assert TopicFacts("t", "cluster", "topic", 1, 1, 1, config).retention_s == seconds


def test_each_table_is_timed_and_a_write_that_began_anew_once(metrics):
    for point in (
        "claiming",
        "writing live",
        "writing live",
        "written live",
        "publishing",
        "published",
        "compacting live",
    ):
        metrics.on_point(point)
    assert value(metrics, "publication_seconds_count", table="live") == 1
    assert value(metrics, "publication_seconds_count", table="snapshot") == 1
    assert value(metrics, "publication_seconds_count", table="topic") is None


@pytest.mark.parametrize("unknown", ["None", "null", "", None])
def test_progress_without_offsets_leaves_the_lag_at_none(metrics, unknown):
    source = SimpleNamespace(latestOffset=unknown, endOffset='{"log": {"0": 12}}')
    metrics.progressed(SimpleNamespace(numInputRows=3, durationMs={}, stateOperators=[], sources=[source]))
    assert value(metrics, "lag_records") == 0

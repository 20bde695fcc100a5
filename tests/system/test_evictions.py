"""The keyed state in a real query: what is known of a silent broker goes, and the lease had ended before."""

import logging

import pytest

from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.kafka.producer import HeartbeatProducer, Ticker
from namesrv_stream.rules.record_types import BrokerHeartbeat
from tests.system.heartbeats import LIMIT_S, address, eventually, registration

FIRST, SECOND = 1, 2


@pytest.fixture
def quick_watermark(heartbeats):
    heartbeats.options["triggerMillis"] = "400"
    with HeartbeatProducer(heartbeats.kafka, heartbeats.topic) as others, Ticker(others, tick_ms=100):
        yield heartbeats


@eventually
def await_state_rows(job, rows, batches=1):
    """Wait until the state has so many rows, one an address, after one of the last micro-batches."""
    job.check()
    last = job.query.recentProgress[-batches:]
    assert rows in [progress.stateOperators[0].numRowsTotal for progress in last]


def test_addresses_are_evicted_each_in_its_time_and_after_their_leases_also_of_a_new_checkpoint(
    quick_watermark, spark, caplog, tmp_path
):
    caplog.set_level(logging.ERROR)
    with BackgroundJob(spark.newSession(), quick_watermark.settings) as job:
        quick_watermark.say(registration(FIRST, heartbeat_timeout_millis=5_000))
        quick_watermark.say(registration(SECOND, heartbeat_timeout_millis=15_000))
        assert job.await_published(LIMIT_S)
    quick_watermark.options["checkpoint.location"] = str(tmp_path / "another checkpoint")
    with BackgroundJob(spark.newSession(), quick_watermark.settings) as job:
        await_state_rows(job, 2, batches=10)  # it begins with the published leases
        quick_watermark.say(BrokerHeartbeat(broker_addr=address(SECOND)))
        await_state_rows(job, 1, batches=10)
        await_state_rows(job, 0)
        assert quick_watermark.live() == []
    lines = sorted(quick_watermark.rows("broker_event"), key=lambda line: (line.epoch, line.seq))
    assert [line.broker_addr for line in lines if line.type == "EXPIRED"] == [address(FIRST), address(SECOND)]
    assert "keyed state has evicted" not in caplog.text

"""A job in a thread, as whoever runs it sees it: how far it is, and what has ended it."""

import pytest

from namesrv_stream.errors import TermLostError
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.kafka.ticker import Ticker
from namesrv_stream.rules.requests import BrokerHeartbeat
from namesrv_stream.stream.background import BackgroundJob
from namesrv_stream.tables.publication import Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.rust_writer import RustWriter
from tests.system.heartbeats import LIMIT_S, Heartbeats, address, registration

HOUR_MS = "3600000"


@pytest.fixture
def heartbeats(kafka, topic, tmp_path):
    log = Heartbeats(kafka, topic, tmp_path)
    yield log
    log.close()


def test_what_kafka_had_is_awaited_and_not_what_others_go_on_writing(heartbeats, spark):
    with (
        BackgroundJob(spark.newSession(), heartbeats.settings) as job,
        HeartbeatProducer(heartbeats.kafka, heartbeats.topic) as others,
        Ticker(others, tick_ms=10),
    ):
        for number in range(1, 4):
            heartbeats.say(registration(number))
            assert job.await_published(LIMIT_S)
            assert address(number) in heartbeats.live()


def test_what_is_not_in_the_tables_within_the_limit_is_told(kafka, topic, spark, tmp_path):
    heartbeats = Heartbeats(kafka, topic, tmp_path, triggerMillis=HOUR_MS)
    heartbeats.say(registration(1))
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        assert job.await_published(LIMIT_S)
        heartbeats.say(registration(2))
        assert not job.await_published(0.2)
    assert not job.await_published(LIMIT_S), "a job that has ended is not waited for"
    heartbeats.close()


def job_with_a_last_publication_that_fails(heartbeats, spark):
    """Within it a sign of life waits for the end of the job, which by then has lost the registry to another."""
    job = BackgroundJob(spark.newSession(), heartbeats.settings)
    job.__enter__()
    for said in (registration(1), BrokerHeartbeat(broker_addr=address(1))):
        heartbeats.say(said)
        assert job.await_published(LIMIT_S)
    Publisher.claim(RustWriter(Root(heartbeats.root)), "another run", 1)
    job.check()
    return job


def test_a_failure_while_the_job_ends_is_raised(heartbeats, spark):
    job = job_with_a_last_publication_that_fails(heartbeats, spark)
    with pytest.raises(TermLostError, match="another run"):
        job.__exit__(None, None, None)


def test_a_failure_while_the_job_ends_hides_no_error_that_ends_it(heartbeats, spark):
    job = job_with_a_last_publication_that_fails(heartbeats, spark)
    error = KeyError("the first")
    job.__exit__(KeyError, error, None)
    with pytest.raises(TermLostError):
        job.check()

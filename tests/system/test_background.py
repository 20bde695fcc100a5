"""A job in a thread, as whoever runs it sees it: how far it is, how it maintains its tables, and what has ended it."""

import contextlib
import shutil
from pathlib import Path

from namesrv_stream.errors import TermLostError
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.rules.record_types import BrokerHeartbeat
from namesrv_stream.tables.maintenance import MAX_FILES
from namesrv_stream.tables.publication import Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import BROKER_EVENT
from namesrv_stream.tables.writer import RustWriter
from tests.system.heartbeats import LIMIT_S, address, registration, until

HOUR_MS = "3600000"


def test_a_change_that_is_not_in_the_tables_within_the_limit_is_an_error(heartbeats, spark):
    heartbeats.options["triggerMillis"] = HOUR_MS
    heartbeats.say(registration(1))
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        assert job.await_published(LIMIT_S)
        heartbeats.say(registration(2))
        assert not job.await_published(0.2)
    assert not job.await_published(LIMIT_S), "a job that has ended is not waited for"


def test_a_job_that_was_replaced_as_it_ends_publishes_nothing_more(heartbeats, spark):
    """A sign of life waits for the end of the job, which by then has lost the registry to another run."""
    job = BackgroundJob(spark.newSession(), heartbeats.settings)
    job.__enter__()
    for said in (registration(1), BrokerHeartbeat(broker_addr=address(1))):
        heartbeats.say(said)
        assert job.await_published(LIMIT_S)
    heir = Publisher.claim(RustWriter(Root(heartbeats.root)), "another run", 1)
    job.stop()
    assert heartbeats.view().snapshot == heir.last
    with contextlib.suppress(TermLostError):  # the job may have seen the claim before it was stopped
        job.check()


def test_tables_that_are_gone_as_the_job_ends_are_logged(heartbeats, spark, caplog):
    job = BackgroundJob(spark.newSession(), heartbeats.settings)
    job.__enter__()
    heartbeats.say(registration(1))
    assert job.await_published(LIMIT_S)
    shutil.rmtree(heartbeats.root)
    Path(heartbeats.root).touch()
    job.stop()
    assert "the job stops, but cannot write that to the tables" in caplog.text


def test_the_job_maintains_its_tables_while_it_publishes(heartbeats, spark):
    heartbeats.options["maintenanceMillis"] = "100"
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        for number in range(1, MAX_FILES + 3):
            heartbeats.say(registration(number))
            assert job.await_published(LIMIT_S)
        tables = Root(heartbeats.root)
        until(lambda: "OPTIMIZE" in {commit["operation"] for commit in tables.open(BROKER_EVENT).history()})

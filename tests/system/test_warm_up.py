"""A job that waits for another one's end warms its session up, and throws away what comes of it."""

import logging
import threading
from pathlib import Path

import pytest
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.streaming import StreamingQueryListener

from namesrv_stream.job import query as query_module
from namesrv_stream.job.query import WarmUp
from tests.system.heartbeats import eventually, registration


class Batches(StreamingQueryListener):
    """Counts the rows of micro-batches that came to their end, and notes the errors that ended queries."""

    rows = 0

    def __init__(self):
        self.errors = []

    def onQueryProgress(self, event):  # noqa: N802 -- Spark's name
        self.rows += event.progress.numInputRows

    def onQueryTerminated(self, event):  # noqa: N802
        self.errors.append(event.exception)

    def onQueryStarted(self, event):  # noqa: N802
        pass


@pytest.fixture
def session(spark):
    own = spark.newSession()  # a warm-up sets options of the session for its query
    own.listened = Batches()
    own.streams.addListener(own.listened)
    yield own
    own.streams.removeListener(own.listened)


@eventually
def await_end(session):
    assert session.listened.errors == [None]


@eventually
def await_stop(query):
    assert not query.isActive


def said(caplog, level=logging.INFO):
    own = [each for each in caplog.records if each.name == "namesrv_stream.job.query"]
    return [each.getMessage() for each in own if each.levelno >= level]


def warnings(caplog):
    return said(caplog, logging.WARNING)


def leftovers(heartbeats):
    return list(Path(heartbeats.settings.checkpoint_location).glob("warm-up-*"))


def collect_while_stopped(session, monkeypatch, before):
    """Let each batch of the session's queries wait until its query has been stopped, and collect its rows then."""
    collect = DataFrame.toArrow

    def collect_late(frame):
        running = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        for query in session.streams.active:
            if query.id == running:  # and not that of another job in this process
                before()
                await_stop(query)
        return collect(frame)

    monkeypatch.setattr(DataFrame, "toArrow", collect_late)


def test_a_warm_up_reads_the_newest_records_in_one_batch_and_leaves_no_file(session, heartbeats, caplog):
    heartbeats.say(registration(1), registration(2))
    warm_up = WarmUp(session, heartbeats.settings, "a-run")
    warm_up.run(threading.Event())
    warm_up.run(threading.Event())
    await_end(session)
    assert (warm_up.is_done, session.listened.rows) == (True, 2 * 2), "each branch of the query"
    assert (warnings(caplog), leftovers(heartbeats)) == ([], [])


@pytest.mark.parametrize("is_held", [True, False], ids=["the lock is its job's", "it takes too long"])
def test_a_warm_up_ends_in_the_middle_of_its_batch_if(session, heartbeats, caplog, monkeypatch, is_held):
    heartbeats.say(registration(1))
    held = threading.Event()
    warm_up = WarmUp(session, heartbeats.settings, "a-run")
    monkeypatch.setattr(query_module, "WARM_UP_LIMIT_S", 60 if is_held else 1)
    collect_while_stopped(session, monkeypatch, before=held.set if is_held else lambda: None)
    warm_up.run(threading.Event(), held)
    await_end(session)
    assert (warm_up.is_done, leftovers(heartbeats)) == (not is_held, [])
    assert ["it did not end within 1 s" in each for each in warnings(caplog)] == [True] * (not is_held)


def test_a_job_that_has_its_lock_warms_nothing_up(session, heartbeats, caplog):
    held = threading.Event()
    held.set()
    warm_up = WarmUp(session, heartbeats.settings, "a-run")
    with caplog.at_level(logging.INFO, "namesrv_stream.job.query"):
        warm_up.run(threading.Event(), held)
    assert (warm_up.is_done, session.listened.errors, said(caplog)) == (False, [], [])

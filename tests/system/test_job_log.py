"""The job's log over an outage of Kafka and an orderly end: a line for each thing that matters, and nothing of Java."""

import os
import re
import signal
import sys

import pytest

from namesrv_stream.tools.local.jars import CHECKOUT
from namesrv_stream.tools.local.kafka_server import LocalKafka
from tests.system.clusters import environment, exit_code_within_grace, running, spark_submit
from tests.system.heartbeats import eventually, registration

pytestmark = [pytest.mark.full, pytest.mark.system]

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d{3})? [A-Z]+ .+")
NOT_LOGGED = re.compile(
    r"NOTE: Picked up JDK_JAVA_OPTIONS.*|WARNING: Using incubator modules.*"
    r"|(Starting )?Streaming TransformWithStateInPandas Python worker.*|"
    r"|.* StateStore: Error running maintenance thread: SparkEnv not active.*"
)
"""Lines of Java's launcher, of pyspark, empty ones of pyspark, and of a timer of Spark that an end falls into."""
ATTEMPTS = 3
MAX_LINES_OF_AN_OUTAGE = 12


@pytest.fixture
def kafka(tmp_path):
    """A Kafka of one test, which can stop."""
    with LocalKafka(tmp_path / "kafka") as node:
        yield node


@eventually
def await_attempts(log, count):
    assert log.read_text().count("Retrying in") >= count


def logged(log):
    return [line for line in log.read_text().splitlines() if not NOT_LOGGED.fullmatch(line)]


def test_an_outage_of_kafka_is_a_few_lines_and_the_last_one_says_that_it_stopped(
    heartbeats, kafka, tmp_path, monkeypatch
):
    monkeypatch.chdir(CHECKOUT)
    log = tmp_path / "job.log"
    command = spark_submit("--master", "local[*]", "--conf", "spark.ui.enabled=false", settings=heartbeats.options)
    with running(command, log, environment(sys.executable)) as job:
        heartbeats.say(registration(1))
        heartbeats.await_offset(1)
        before = len(logged(log))
        kafka.kill()
        await_attempts(log, ATTEMPTS)
        kafka.start()
        heartbeats.say(registration(2))
        heartbeats.await_offset(2)
        os.kill(job.pid, signal.SIGTERM)
        assert exit_code_within_grace(job) == 0
    lines = logged(log)
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert lines[-1].endswith("the job has stopped cleanly")
    assert len(lines) - before <= MAX_LINES_OF_AN_OUTAGE + ATTEMPTS, "\n".join(lines)

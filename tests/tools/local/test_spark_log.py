"""Lines that Spark logs have the form of the setting log.format."""

import json
import signal
from datetime import datetime

import pytest

from namesrv_stream.tools.local.spark import set_up_spark_log

AT_MS = 1_790_000_000_123


@pytest.fixture
def log4j(spark):
    yield spark.sparkContext._jvm.org.apache.logging.log4j
    set_up_spark_log(spark, "text")


def layout(log4j):
    """The layout of the lines that the root logger writes."""
    configuration = log4j.LogManager.getContext(False).getConfiguration()
    [used] = configuration.getRootLogger().getAppenders().values()
    return used.getLayout()


def event(spark, log4j, message, problem=None):
    built = log4j.core.impl.Log4jLogEvent.newBuilder()
    built.setLevel(log4j.Level.WARN).setLoggerName("org.apache.spark.Some").setTimeMillis(AT_MS)
    built.setMessage(log4j.message.SimpleMessage(message))
    if problem is not None:
        built.setThrown(spark.sparkContext._jvm.java.io.IOException(problem))
    return built.build()


@pytest.mark.parametrize(
    ("message", "problem", "shown"),
    [
        ("lost a task", None, "lost a task"),
        ('a "quoted" C:\\path\nand {a line}', None, 'a "quoted" C:\\path\nand {a line}'),
        ("not written", 'no "room"\nleft', 'not written: no "room"'),
    ],
)
def test_a_line_of_spark_in_json_has_the_fields_of_the_jobs_own_lines(spark, log4j, message, problem, shown):
    set_up_spark_log(spark, "json")
    line = layout(log4j).toSerializable(event(spark, log4j, message, problem))
    assert (line[-1], line.count("\n")) == ("\n", 1)
    fields = json.loads(line)
    assert fields.keys() == {"time", "level", "logger", "message"}
    assert datetime.fromisoformat(fields["time"]).timestamp() == AT_MS / 1000
    assert (fields["level"], fields["logger"]) == ("WARN", "org.apache.spark.Some")
    assert fields["message"].startswith(shown)


@pytest.mark.parametrize("form", ["text", "json"])
def test_users_and_passwords_of_addresses_are_hidden_in_lines_of_spark(spark, log4j, form):
    set_up_spark_log(spark, form)
    shown = layout(log4j).toSerializable(event(spark, log4j, "at s3a://me:hidden@bucket/x", "http://me:hidden@host/y"))
    assert "hidden" not in shown
    assert "at s3a://******@bucket/x: http://******@host/y" in shown
    assert shown.count("\n") == 1, "a stack trace"
    assert form == "json" or " WARN Some: at s3a:" in shown


def test_ctrl_c_is_not_pysparks_to_hear(spark):
    """Its handler would cancel the jobs of a streaming query in the middle of a batch."""
    assert not getattr(signal.getsignal(signal.SIGINT), "__module__", "").startswith("pyspark")

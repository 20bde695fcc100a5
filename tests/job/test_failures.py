"""The error for the end of a query, by Spark's message. The texts are the ends of Spark 4.2's own messages."""

import re

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, SettingError, StorageError, TermLostError
from namesrv_stream.job.failures import (
    CheckpointUnusableError,
    JobFailedError,
    job_failure,
)
from namesrv_stream.job.micro_batch import BrokenOffError, unread_batch

SETTINGS = NamesrvSettings()
KAFKA = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: org.apache.kafka.common.errors."


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (KAFKA + "TimeoutException: Timeout expired while fetching topic metadata", KafkaUnreachableError),
        (KAFKA + "DisconnectException", KafkaUnreachableError),
        (KAFKA + "TopicAuthorizationException: Not authorized to access topics: [t]", KafkaRefusedError),
        (KAFKA + "GroupAuthorizationException: Not authorized to access group: g", KafkaRefusedError),
        (KAFKA + "SaslAuthenticationException: Authentication failed", KafkaRefusedError),
        (KAFKA + "SslAuthenticationException: SSL handshake failed", KafkaRefusedError),
        ("Cannot fetch record for offset 5 in 15000 milliseconds", KafkaUnreachableError),
        ("some data may have been lost ... set the source option failOnDataLoss to false", CheckpointUnusableError),
        ("[STREAM_FAILED] java.io.IOException: No space left on device", StorageError),
        ("[STREAM_FAILED] java.io.FileNotFoundException: /x/state/0 (Read-only file system)", StorageError),
        ("[STREAM_FAILED] org.apache.hadoop.fs.ParentNotDirectoryException: /x", StorageError),
        ("[STREAM_FAILED] Mkdirs failed to create /x: Permission denied", StorageError),
        ("[STREAM_FAILED] java.lang.OutOfMemoryError", JobFailedError),
        ("Caused by: java.lang.UnsatisfiedLinkError: /t/l.so: failed to map segment from shared object", SettingError),
        ("java.lang.NoClassDefFoundError: Could not initialize class org.rocksdb.RocksDB", SettingError),
    ],
)
def test_an_outage_is_waited_out_and_a_refusal_is_raised(said, kind):
    assert type(job_failure(SETTINGS, None, said)) is kind


FROM_A_BATCH = """An error occurred while calling o12.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.ThreadUtils$.awaitResult(ThreadUtils.scala:53)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 0.0 in stage 4.0
\t... 12 more
Caused by: org.apache.kafka.common.errors.TimeoutException: Timeout of 15000ms expired before the position
== Plan ==
+- ~TransformWithStateInPySpark transformWithStateUDF(broker_addr#472)
   +- Project [broker_addr#472]
"""


def test_of_a_kafka_that_is_away_its_own_error_is_the_cause():
    unread = unread_batch(FROM_A_BATCH)
    failure = job_failure(SETTINGS, None, f"[FOREACH_BATCH_USER_FUNCTION_ERROR] {unread}")
    assert isinstance(failure, KafkaUnreachableError)
    assert "(TimeoutException: Timeout of 15000ms expired before the position)" in str(failure)


def test_a_batch_that_spark_could_not_compute_says_so_without_stack_and_plan():
    said = str(unread_batch(FROM_A_BATCH + "x" * 100_000))
    assert "Job aborted due to stage failure" in said
    assert not [line for line in said.splitlines() if "\tat " in line or "more" in line or "+- " in line]
    assert max(map(len, said.splitlines())) <= 500
    assert unread_batch("").args == ("no rows came from Spark",)


def test_a_cancelled_batch_has_the_text_by_which_spark_knows_an_interruption():
    spark_looks_for = r"py4j.protocol.Py4JJavaError: An error occurred while calling(.*)java.lang.InterruptedException"
    assert re.search(spark_looks_for, str(BrokenOffError()))


def test_an_error_of_the_batch_itself_wins_over_sparks():
    lost = TermLostError(1, 2, "run-2")
    assert job_failure(SETTINGS, lost, KAFKA + "TimeoutException") is lost
    assert type(job_failure(SETTINGS, OSError("No space left"), KAFKA)) is StorageError
    assert job_failure(SETTINGS, ValueError("x"), KAFKA).cause == "ValueError: x"


def test_of_a_python_traceback_the_raised_line_is_the_cause():
    said = "failed: Traceback (most recent call last):\n  File x\n    y = 1/0\nZeroDivisionError: division by zero\n"
    assert job_failure(SETTINGS, None, said).cause == "ZeroDivisionError: division by zero"


def test_a_line_of_the_plan_is_no_cause():
    said = (
        "failed: Traceback (most recent call last):\n  File x\nNamesrvError: offset was changed from 120 to 3; "
        "failOnDataLoss\n\n=== Streaming Query ===\nIdentifier: [id = 1]\nProject [broker_addr#472]\n"
    )
    failure = job_failure(SETTINGS, None, said)
    assert isinstance(failure, CheckpointUnusableError)
    assert ": NamesrvError: offset was changed from 120 to 3; failOnDataLoss. It" in str(failure)

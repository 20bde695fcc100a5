"""The error for the end of a query, by Spark's message, in tests/job/failures.yaml; and limits that end a job.

A case has what was `said`, by Spark or `in_batch`, and the error that it is: its kind, and a text that it `names`.
"""

import re
import subprocess
import sys

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import KafkaUnreachableError, NamesrvError, StorageError, TermLostError
from namesrv_stream.job.failures import LimitReachedError, job_failure, require_sound_spark, storage_errors
from namesrv_stream.job.micro_batch import BrokenOffError, unread_batch
from tests.data import data, params, require_known

CASES = params(data(__file__, "failures.yaml"))
SETTINGS = NamesrvSettings()
KAFKA = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: org.apache.kafka.common.errors"


@pytest.mark.parametrize("case", CASES)
def test_an_outage_is_waited_out_and_a_refusal_is_raised(case):
    said = case["said"].replace("KAFKA", KAFKA)
    failure = job_failure(SETTINGS, unread_batch(said), "") if "in_batch" in case else job_failure(SETTINGS, None, said)
    assert type(failure).__name__ == case["is"]
    assert case.get("names", "") in str(failure)
    require_known(case, "said is in_batch names")


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
    assert ": TimeoutException: Timeout of 15000ms expired before the position" in str(failure)


def test_a_batch_that_spark_could_not_compute_says_so_without_stack_and_plan():
    said = str(unread_batch(FROM_A_BATCH + "x" * 100_000))
    assert "Job aborted due to stage failure" in said
    assert not [line for line in said.splitlines() if "\tat " in line or "more" in line or "+- " in line]
    assert max(map(len, said.splitlines())) <= 500
    assert unread_batch("").args == ("Spark returned no rows",)


def test_a_cancelled_batch_has_the_text_by_which_spark_knows_an_interruption():
    spark_looks_for = r"py4j.protocol.Py4JJavaError: An error occurred while calling(.*)java.lang.InterruptedException"
    assert re.search(spark_looks_for, str(BrokenOffError()))


def test_an_error_of_the_batch_itself_wins_over_sparks():
    lost = TermLostError(1, 2, "run-2")
    assert job_failure(SETTINGS, lost, KAFKA + ".TimeoutException") is lost
    assert type(job_failure(SETTINGS, OSError("No space left"), KAFKA)) is StorageError
    assert type(job_failure(SETTINGS, OSError(24, "Too many open files"), KAFKA)) is LimitReachedError
    assert job_failure(SETTINGS, ValueError("x"), KAFKA).cause == "ValueError: x"


@pytest.mark.parametrize(
    ("error", "kind"),
    [(OSError(24, "Too many open files"), LimitReachedError), (OSError(28, "No space left"), StorageError)],
)
def test_tables_that_cannot_be_opened_for_lack_of_descriptors_are_no_outage_of_the_storage(error, kind):
    with pytest.raises(kind), storage_errors(SETTINGS):
        raise error


@pytest.mark.parametrize("version", ["4.1.3", "4.2.0", "3.5.9"])
def test_a_spark_that_leaks_sockets_is_refused_by_the_number_of_its_defect(version):
    with pytest.raises(NamesrvError, match=f"{version} .*SPARK-58932.* 4.2.1"):
        require_sound_spark(version)


@pytest.mark.parametrize("version", ["4.2.1", "4.2.1-SNAPSHOT", "4.3.0"])
def test_a_spark_that_closes_its_sockets_is_accepted(version):
    require_sound_spark(version)


def test_a_process_that_can_open_nothing_is_at_its_limit():
    """In a process of its own, whose limit is the descriptors that it has."""
    code = (
        "import resource\n"
        "from namesrv_stream.job.failures import LimitReachedError, require_descriptor\n"
        "require_descriptor()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "try:\n    require_descriptor()\n"
        "except LimitReachedError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Too many open files" in done.stdout
    assert "ulimit -n" in done.stdout

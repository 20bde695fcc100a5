"""The error for the end of a query, by Spark's message. The texts are the ends of Spark 4.2's own messages."""

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, StorageError, TermLostError
from namesrv_stream.stream.failures import CheckpointUnusableError, JobFailedError, job_failure

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
        ("[STREAM_FAILED] java.lang.OutOfMemoryError", JobFailedError),
    ],
)
def test_an_outage_is_waited_out_and_a_refusal_is_raised(said, kind):
    assert type(job_failure(SETTINGS, None, said)) is kind


def test_an_error_of_the_batch_itself_wins_over_sparks():
    lost = TermLostError(1, 2, "run-2")
    assert job_failure(SETTINGS, lost, KAFKA + "TimeoutException") is lost
    assert isinstance(job_failure(SETTINGS, OSError("No space left"), KAFKA), StorageError)
    assert job_failure(SETTINGS, ValueError("x"), KAFKA).cause == "ValueError: x"


def test_of_a_python_traceback_the_raised_line_is_the_cause():
    said = "failed: Traceback (most recent call last):\n  File x\n    y = 1/0\nZeroDivisionError: division by zero\n"
    assert job_failure(SETTINGS, None, said).cause == "ZeroDivisionError: division by zero"

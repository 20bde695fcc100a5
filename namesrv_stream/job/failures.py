"""Finds the error that ended a job, with the next step, in what the batch, Spark and Kafka reported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError, StorageError
from namesrv_stream.job.limits import limit_reached

_KAFKA_ERROR = "org.apache.kafka.common.errors"
_KAFKA_AWAY = (_KAFKA_ERROR, "Cannot fetch record for offset")
_KAFKA_REFUSED = re.compile(
    rf"{_KAFKA_ERROR}\.\w*(Authorization|Authentication|InvalidTopic|UnsupportedVersion)Exception"
)
_FROM_KAFKA = re.compile(rf"{_KAFKA_ERROR}\.(\w+: [^\n]+)")
_STORAGE_ERRORS = (DeltaError, OSError, pa.ArrowException, PySparkException, Py4JError)
_CHECKPOINT_HELD = "CONCURRENT_STREAM_LOG_UPDATE"
_STORAGE_FAILED = re.compile(
    r"No space left|java\.nio\.file\.\w+Exception|java\.io\.IOException|\w(NotFound|NotDirectory)Exception|AccessDenied"
    r"|Read-only file system|Permission denied|Operation not permitted"
)
"""Marks of the JVM's errors about a checkpoint that cannot be written or read."""
_CHECKPOINT_UNUSABLE = (
    "failOnDataLoss", "OffsetOutOfRange",  # it goes on before the oldest record, or after the newest
    "CANNOT_LOAD_STATE_STORE", "Incomplete log file", "MALFORMED_LOG_FILE",  # a file is damaged
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",  # it was removed while a query wrote it
    "spark.driver.maxResultSize",  # the batch that it has planned is too large: without it another one is planned
)  # fmt: skip
"""Marks of Spark's errors if the checkpoint keeps the query from going on. It never decides the outcome."""
_SEE_LOG = (
    "See the log above, and mend what it names: the next run goes on where this one stopped, and nothing that was "
    "accepted is lost."
)


_PLAN = re.compile(r"\s*={2,} .* ={2,}\s*$")
"""Heading of what Spark adds to an error: its plan, its offsets."""


class JobFailedError(NamesrvError):
    """The query ended by an error that trying again will not mend; `cause` is its first line."""

    def __init__(self, cause: str, next_step: str) -> None:
        super().__init__(f"the streaming query ended: {cause}. {next_step}")
        self.cause = cause


class SessionLostError(NamesrvError):
    """The Spark session has ended: its JVM died, or the cluster stopped the application."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the Spark session of this job has ended ({problem}): start the job again. Nothing is lost.")
        self.problem = problem


class JobHungError(SessionLostError):
    """The JVM of this job does not answer, or its query stands still: the job gives the registry up and ends."""

    def __init__(self, problem: str, question: str) -> None:
        super().__init__(f"{problem}, so the job gave the registry up and ended the JVM; {question}")


class CheckpointUnusableError(NamesrvError):
    """Spark cannot go on with its checkpoint; `cause` is the first line of what it raised."""

    def __init__(self, location: str, cause: str) -> None:
        super().__init__(
            f"Spark cannot go on with the checkpoint {location}: {cause}. It is put aside, and the state is made "
            "from the tables."
        )
        self.location = location
        self.cause = cause


class CheckpointStorageError(StorageError):
    """The storage of the checkpoint refused a read or a write. Without a checkpoint no query runs."""

    _place = "the checkpoint"
    _setting = "checkpoint.location"


class CheckpointHeldError(NamesrvError):
    """Another query writes the checkpoint: the job that was replaced has not ended yet."""

    def __init__(self, location: str, problem: str) -> None:
        super().__init__(f"another query still writes the checkpoint {location}: {problem}")
        self.location = location
        self.problem = problem


def job_failure(settings: NamesrvSettings, of_batch: BaseException | None, reported: str) -> NamesrvError:
    """Return the error to raise for a query that ended. `of_batch`: raised by its micro-batch; `reported`: by Spark."""
    if limit := limit_reached(str(of_batch), reported):
        return limit
    if of_batch is not None:
        return _batch_failure(settings, of_batch)
    cause = _first_cause(reported)
    from_kafka = _FROM_KAFKA.search(reported)
    if _CHECKPOINT_HELD in reported:
        return CheckpointHeldError(settings.checkpoint_location, cause)
    if _KAFKA_REFUSED.search(reported):
        return KafkaRefusedError(settings.kafka_bootstrap_servers, from_kafka[1] if from_kafka else cause)
    if any(mark in reported for mark in _CHECKPOINT_UNUSABLE):
        return CheckpointUnusableError(settings.checkpoint_location, cause)
    if any(mark in reported for mark in _KAFKA_AWAY):
        return KafkaUnreachableError(settings.kafka_bootstrap_servers, from_kafka[1] if from_kafka else cause)
    if _STORAGE_FAILED.search(reported):
        return CheckpointStorageError(settings.checkpoint_location, cause)
    return JobFailedError(cause, _SEE_LOG)


def _batch_failure(settings: NamesrvSettings, error: BaseException) -> NamesrvError:
    if isinstance(error, NamesrvError):
        return error
    if isinstance(error, Py4JNetworkError):
        return SessionLostError(str(error))
    if isinstance(error, _STORAGE_ERRORS):
        return StorageError(settings.delta_root, str(error))
    return JobFailedError(f"{type(error).__name__}: {error}".splitlines()[0], _SEE_LOG)


@contextmanager
def storage_errors(settings: NamesrvSettings) -> Iterator[None]:
    """Raise an error of delta-rs, Spark, Arrow or the file system as one StorageError.

    The tables are read and written by delta-rs and Arrow, the checkpoint by Spark.
    """
    try:
        yield
    except _STORAGE_ERRORS as error:
        raise _storage_error(settings, error) from error


def _storage_error(settings: NamesrvSettings, error: Exception) -> NamesrvError:
    if limit := limit_reached(str(error)):
        return limit
    match error:
        case Py4JNetworkError():
            return SessionLostError(str(error))
        case Py4JJavaError():
            problem = str(error.java_exception.toString()).splitlines()[0]
            return CheckpointStorageError(settings.checkpoint_location, problem)
        case PySparkException():
            return CheckpointStorageError(settings.checkpoint_location, str(error).splitlines()[0])
    return StorageError(settings.delta_root, str(error))


def require_session(spark: SparkSession) -> None:
    """Raise SessionLostError if the session's JVM has died or its application has ended."""
    try:
        is_stopped = spark.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError) as error:  # AttributeError: stopped from this process
        raise SessionLostError(str(error)) from error
    if is_stopped:
        raise SessionLostError("it was stopped from outside")


def _first_cause(reported: str) -> str:
    said = takewhile(lambda line: not _PLAN.match(line), reported.splitlines())
    first, *others = [line for line in said if line.strip()] or ["unknown cause"]
    if not first.endswith("Traceback (most recent call last):"):
        return first
    return next((line for line in reversed(others) if not line.startswith(" ")), first)  # what was raised, in Python

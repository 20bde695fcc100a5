"""Finds the error that ended a job, with the next step, in what the batch, Spark and Kafka reported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError, StorageError

_KAFKA_ERROR = "org.apache.kafka.common.errors"
_KAFKA_AWAY = (_KAFKA_ERROR, "Cannot fetch record for offset")
_KAFKA_REFUSED = re.compile(
    rf"{_KAFKA_ERROR}\.\w*(Authorization|Authentication|InvalidTopic|UnsupportedVersion)Exception"
)
_STORAGE_ERRORS = (DeltaError, OSError, pa.ArrowException, PySparkException, Py4JError)
_CHECKPOINT_HELD = "CONCURRENT_STREAM_LOG_UPDATE"
_STORAGE_FAILED = re.compile(
    r"No space left|java\.nio\.file\.\w+Exception|java\.io\.IOException|FileNotFoundException|AccessDenied"
)
"""Marks of the JVM's errors about a checkpoint that cannot be written or read."""
_DATA_LOST = ("failOnDataLoss", "OffsetOutOfRange")
_SEE_LOG = (
    "See the log above, mend it and start the job again: it goes on where this run stopped, and nothing that was "
    "accepted is lost."
)


class JobFailedError(NamesrvError):
    """The query ended by an error that trying again will not mend; `cause` is its first line."""

    def __init__(self, cause: str, next_step: str) -> None:
        super().__init__(f"the streaming query ended: {cause}. {next_step}")
        self.cause = cause


class CheckpointHeldError(NamesrvError):
    """Another query writes the checkpoint: the job that was replaced has not ended yet."""

    def __init__(self, location: str, problem: str) -> None:
        super().__init__(f"another query still writes the checkpoint {location}: {problem}")
        self.location = location
        self.problem = problem


class CheckpointWithoutTablesError(NamesrvError):
    """The tables are gone and the checkpoint is not. Resuming would skip every record before the checkpoint."""

    def __init__(self, checkpoint: str, root: str) -> None:
        super().__init__(
            f"there are no tables under {root}, but a checkpoint that goes on in the middle of the log. Is "
            f"delta.root right? To build the tables anew from all that Kafka has, remove the checkpoint {checkpoint}."
        )
        self.checkpoint = checkpoint
        self.root = root


def job_failure(settings: NamesrvSettings, of_batch: BaseException | None, reported: str) -> NamesrvError:
    """Return the error to raise for a query that ended. `of_batch`: raised by its micro-batch; `reported`: by Spark."""
    if isinstance(of_batch, NamesrvError):
        return of_batch
    if isinstance(of_batch, _STORAGE_ERRORS):
        return StorageError(settings.delta_root, str(of_batch))
    if of_batch is not None:
        return JobFailedError(f"{type(of_batch).__name__}: {of_batch}".splitlines()[0], _SEE_LOG)
    cause = _first_cause(reported)
    if any(mark in reported for mark in _DATA_LOST):
        return JobFailedError(
            cause,
            f"Kafka no longer has what was to be read next: remove {settings.checkpoint_location} to go on with what "
            "it has. The records in between are lost; each broker's next full registration brings its routes back.",
        )
    if _CHECKPOINT_HELD in reported:
        return CheckpointHeldError(settings.checkpoint_location, cause)
    if _KAFKA_REFUSED.search(reported):
        return KafkaRefusedError(settings.kafka_bootstrap_servers, cause)
    if any(mark in reported for mark in _KAFKA_AWAY):
        return KafkaUnreachableError(settings.kafka_bootstrap_servers, cause)
    if _STORAGE_FAILED.search(reported):
        return StorageError(settings.checkpoint_location, cause)
    return JobFailedError(cause, _SEE_LOG)


@contextmanager
def storage_errors(settings: NamesrvSettings) -> Iterator[None]:
    """Raise the errors of delta-rs, Spark, Arrow and the file system about the tables as one StorageError."""
    try:
        yield
    except _STORAGE_ERRORS as error:
        raise StorageError(settings.delta_root, str(error)) from error


def _first_cause(reported: str) -> str:
    first, *others = [line for line in reported.splitlines() if line.strip()] or ["unknown cause"]
    if not first.endswith("Traceback (most recent call last):"):
        return first
    return next((line for line in reversed(others) if not line.startswith(" ")), first)  # what was raised, in Python

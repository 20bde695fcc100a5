"""Failures of a job: which error ended its query, and whether another attempt may help.

The error follows from what the micro-batch, Spark and Kafka reported. Failures in a row are counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile

import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError, SettingError, StorageError

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
"""Marks of Spark's errors if the checkpoint keeps the query from going on. A new checkpoint mends them without loss."""
_NONE_LEFT = re.compile(r"[^\n]*(?:Too many open files|BindException|Cannot assign requested address)[^\n]*")
_NO_LIBRARY = re.compile(
    r"(?:UnsatisfiedLinkError: |Unsupported OS/arch, |initialize class (?:org\.rocksdb|com\.github\.luben))[^\n]*"
)
"""Java could not load a native library, and does not try again in this process."""
_MAX_CHARS = 300
_PLAN = re.compile(r"\s*={2,} .* ={2,}\s*$")
"""Heading of what Spark adds to an error: its plan, its offsets."""

_RAN_FOR_A_WHILE_S = 120.0
"""An attempt that ran for longer resets the counts. The attempts to reach a Kafka that is away take less."""

_LONGEST_PAUSE_S = 30.0
_MAX_UNKNOWN_IN_A_ROW = 2

SOUND_SPARK = (4, 2, 1)
"""The first release of Spark 4.2 without SPARK-58932. This package's connectors are those of 4.2."""


class JobFailedError(NamesrvError):
    """The query ended by an error of an unknown kind; `cause` is its first line."""

    def __init__(self, cause: str) -> None:
        super().__init__(
            f"the streaming query ended: {cause.rstrip('.')}. No record is lost; the next run continues where this one "
            "stopped. Repair what the log above names."
        )
        self.cause = cause


class SessionLostError(NamesrvError):
    """The Spark session has ended: its JVM died, or the cluster stopped the application."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the Spark session of this job has ended: {problem.rstrip('.')}. No record is lost. Start the job again."
        )
        self.problem = problem


class JobHungError(SessionLostError):
    """The JVM of this job does not answer, or its query stands still: the job gives the registry up and ends."""

    def __init__(self, problem: str, next_step: str) -> None:
        NamesrvError.__init__(
            self, f"{problem}; the job has stepped down and ended the JVM. No record is lost. {next_step}"
        )
        self.problem = problem


class CheckpointUnusableError(NamesrvError):
    """Spark cannot go on with its checkpoint."""


class CheckpointHeldError(NamesrvError):
    """Another query still writes the checkpoint: the job that was replaced has not ended yet."""


class LimitReachedError(NamesrvError):
    """The job or its JVM has no descriptor or no port left. Another attempt in the same process would fail too."""


@dataclass(slots=True)
class FailedAttempts:
    """Counts of failed attempts in a row: all, and those of an unknown kind.

    An attempt that ran for a while resets them.
    """

    in_a_row: int = 0
    unknown_in_a_row: int = 0

    def add(self, ran_s: float, *, is_unknown: bool) -> None:
        """Count an attempt that failed after `ran_s` seconds."""
        if ran_s > _RAN_FOR_A_WHILE_S:
            self.in_a_row = self.unknown_in_a_row = 0
        self.in_a_row += 1
        self.unknown_in_a_row += is_unknown

    def end_outage(self) -> None:
        """Begin to count anew, because the job works again. Failures of an unknown kind stay counted."""
        self.in_a_row = 0

    @property
    def are_a_defect(self) -> bool:
        """True if several unknown failures came in a row.

        A single one may pass, as that of a lost Python worker does.
        """
        return self.unknown_in_a_row > _MAX_UNKNOWN_IN_A_ROW

    @property
    def pause_s(self) -> float:
        """The time to wait before the next attempt."""
        return min(_LONGEST_PAUSE_S, 2.0 ** (self.in_a_row - 1))


def job_failure(settings: NamesrvSettings, of_batch: BaseException | None, reported: str) -> NamesrvError:
    """Return the error to raise for a query that ended. `of_batch`: raised by its micro-batch; `reported`: by Spark."""
    if limit := _limit_reached(str(of_batch), reported):
        return limit
    if no_library := _NO_LIBRARY.search(f"{of_batch}\n{reported}"):
        return SettingError(
            "job.tempFolder",
            f"Java cannot load a native library: {no_library[0][:_MAX_CHARS].rstrip('. ')}",
            f"Check that {settings.job_temp_folder} is not mounted noexec (without `namesrv-stream submit`, it is the "
            "java.io.tmpdir), or set a folder where programs may run. `namesrv-stream doctor` tries one.",
        )
    if of_batch is not None:
        return _named(settings, of_batch)
    cause, location = _first_cause(reported), settings.checkpoint_location
    from_kafka = _FROM_KAFKA.search(reported)
    of_kafka = settings.kafka_bootstrap_servers, from_kafka[1] if from_kafka else cause
    if _CHECKPOINT_HELD in reported:
        return CheckpointHeldError(f"another query still writes the checkpoint {location}: {cause}")
    if _KAFKA_REFUSED.search(reported):
        return KafkaRefusedError(*of_kafka)
    if any(mark in reported for mark in _CHECKPOINT_UNUSABLE):
        return CheckpointUnusableError(
            f"Spark cannot use the checkpoint {location}: {cause}. The job moves it aside and rebuilds its state from "
            "the tables."
        )
    if any(mark in reported for mark in _KAFKA_AWAY):
        return KafkaUnreachableError(*of_kafka)
    if _STORAGE_FAILED.search(reported):
        return _checkpoint_refused(settings, cause)
    return JobFailedError(cause)


@contextmanager
def storage_errors(settings: NamesrvSettings) -> Iterator[None]:
    """Raise an error of delta-rs, Spark, Arrow or the file system as one StorageError.

    The tables are read and written by delta-rs and Arrow, the checkpoint by Spark.
    """
    try:
        yield
    except _STORAGE_ERRORS as error:
        raise _limit_reached(str(error)) or _named(settings, error) from error


def _named(settings: NamesrvSettings, error: BaseException) -> NamesrvError:
    match error:
        case NamesrvError():
            return error
        case Py4JNetworkError():
            return SessionLostError(str(error))
        case Py4JJavaError():
            return _checkpoint_refused(settings, str(error.java_exception.toString()))
        case PySparkException():
            return _checkpoint_refused(settings, str(error))
        case _ if isinstance(error, _STORAGE_ERRORS):
            return StorageError(settings.delta_root, str(error))
    return JobFailedError(f"{type(error).__name__}: {error}".splitlines()[0])


def _checkpoint_refused(settings: NamesrvSettings, reported: str) -> StorageError:
    return StorageError(settings.checkpoint_location, reported.splitlines()[0], "the checkpoint", "checkpoint.location")


def _limit_reached(*reported: str) -> LimitReachedError | None:
    """Return the error if one of these texts reports that no descriptor or port is left."""
    found = next(filter(None, map(_NONE_LEFT.search, reported)), None)
    if found is None:
        return None
    problem = found[0].strip()[-_MAX_CHARS:].rstrip(".")
    return LimitReachedError(
        f"this job has no file descriptor or port left: {problem}. No record is lost. Raise the limit of open files "
        "(`ulimit -n`, systemd's LimitNOFILE), find with `lsof` what has so many open, and start the job again."
    )


def require_descriptor() -> None:
    """Raise LimitReachedError if this process can open no file or socket any more.

    Without this check its query would seem to run for ever: py4j's server, by which Spark calls Python, has ended.
    """
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        raise _limit_reached(str(error)) or error from error


def require_sound_spark(version: str) -> None:
    """Raise NamesrvError for a release of Spark that leaks sockets, and for any that is older than 4.2."""
    if tuple(map(int, re.findall(r"\d+", version)[:3])) < SOUND_SPARK:
        needed = ".".join(map(str, SOUND_SPARK))
        raise NamesrvError(
            f"Spark {version} never closes the sockets of the stateful step (SPARK-58932), so a job dies within hours. "
            f"Use pyspark {needed}, and on a cluster Spark {needed}."
        )


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

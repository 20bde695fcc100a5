"""The main job in a thread of its own, for a process that does more than run it."""

from __future__ import annotations

import threading
from typing import Self

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.stream.job import RouteRegistryJob

_STOP_LIMIT_S = 120.0


class JobNotStartedError(NamesrvError):
    """The job has claimed no registry within the limit, and no error says why."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"the job did not start within {limit_s:.0f} s. The log above says what it waits for.")
        self.limit_s = limit_s


class JobNotStoppedError(NamesrvError):
    """The job still runs long after it was told to stop."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            f"the job did not stop within {limit_s:.0f} s. `py-spy dump` and jstack show what it waits for."
        )
        self.limit_s = limit_s


class BackgroundJob:
    """Runs within a `with`; leaving it stops the job in order. What ended the job is raised by whoever asks next."""

    def __init__(self, spark: SparkSession, settings: NamesrvSettings, start_limit_s: float = 120.0) -> None:
        self._job = RouteRegistryJob(spark, settings)
        self._start_limit_s = start_limit_s
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="route-registry", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._job.started.wait(self._start_limit_s):
            self._stop.set()
            raise JobNotStartedError(self._start_limit_s)
        self.check()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_STOP_LIMIT_S)
        if self._thread.is_alive():
            raise JobNotStoppedError(_STOP_LIMIT_S)

    @property
    def has_ended(self) -> bool:
        """Whether the job has stopped by itself; `check` tells why."""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raises what has ended the job, if anything has."""
        if self._failure is not None:
            raise self._failure

    @property
    def query(self) -> StreamingQuery:
        """The query that runs."""
        assert self._job.query is not None, "the job has started"
        return self._job.query

    def process_all(self) -> None:
        """Returns once all records that Kafka has now are applied and published, leases that ended by them too."""
        try:
            self.query.processAllAvailable()
        except Exception:
            self._thread.join(self._start_limit_s)  # the job itself says it better
            self.check()
            raise

    def _run(self) -> None:
        try:
            self._job.run(self._stop)
        except BaseException as error:  # a thread has nobody else to tell
            self._failure = error
        finally:
            self._job.started.set()

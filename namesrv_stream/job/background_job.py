"""The main job in a thread of its own, and the signals that end it, in this process or the JVM that started it."""

from __future__ import annotations

import logging
import signal
import threading
import time
from typing import Any, Self

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import NamesrvError
from namesrv_stream.job.registry_job import RouteRegistryJob
from namesrv_stream.kafka.record_reader import LOG_PARTITION
from namesrv_stream.kafka.topic import end_offsets

log = logging.getLogger(__name__)

_SIGNALS = ("TERM", "INT")

_START_LIMIT_S = _STOP_LIMIT_S = 120.0
_LOOK_EVERY_S = 0.1


def stop_on_signals(stop: threading.Event) -> None:
    """Set `stop` when this process gets SIGTERM or SIGINT."""
    for name in _SIGNALS:
        signal.signal(getattr(signal, f"SIG{name}"), lambda *_: stop.set())


def stop_on_signals_to_jvm(spark: SparkSession, stop: threading.Event) -> None:
    """Set `stop` when Spark's JVM gets SIGTERM or SIGINT, so that the JVM does not end at once.

    Under spark-submit the JVM is the parent of this process. A signal to the pid that was started means both processes,
    and the JVM exits with this process's status.
    """
    gateway = spark.sparkContext._gateway  # pyspark has no other way to the JVM's signals
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm: Any = gateway.jvm
    for name in _SIGNALS:
        jvm.sun.misc.Signal.handle(jvm.sun.misc.Signal(name), _Handler(stop))


class _Handler:
    """A sun.misc.SignalHandler."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def handle(self, _signal: object) -> None:
        self._stop.set()

    class Java:
        implements = ["sun.misc.SignalHandler"]  # noqa: RUF012 -- py4j reads a list


class BackgroundJob:
    """Runs the job within a `with`; leaving it stops the job in order.

    `check`, `process_all` and leaving the `with` raise the error that ended the job. Leaving does not if another error
    is already on its way.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: NamesrvSettings,
        *,
        accepts_new_log: bool = False,
        is_replay: bool = False,
    ) -> None:
        self._job = RouteRegistryJob(spark, settings, accepts_new_log=accepts_new_log, is_replay=is_replay)
        self._settings = settings
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="route-registry", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            if not self._job.started.wait(_START_LIMIT_S):
                raise NamesrvError(
                    f"the job did not start within {_START_LIMIT_S:.0f} s. Its log above shows what it waits for."
                )
            self.check()
        except BaseException:
            self._stop.set()
            raise
        return self

    def __exit__(self, _kind: object = None, error: BaseException | None = None, _at: object = None) -> None:
        try:
            self.stop()
        except NamesrvError as still_runs:
            if error is None:
                raise
            log.error("this process ends by an error, while its job still runs: %s", still_runs)
        if error is None:  # else that error is raised, and it is most likely why the job ends
            self.check()

    def stop(self) -> None:
        """Stop the job in order; returns when it has ended. Raises NamesrvError if it does not end."""
        self._stop.set()
        self._thread.join(_STOP_LIMIT_S)
        if self._thread.is_alive():
            raise NamesrvError(
                f"the job did not stop within {_STOP_LIMIT_S:.0f} s. `py-spy dump` and jstack show what it waits for."
            )

    @property
    def has_ended(self) -> bool:
        """True if the job has ended; `check` raises the reason."""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raise the error that has ended the job, if there is one."""
        if self._failure is not None:
            raise self._failure

    @property
    def query(self) -> StreamingQuery:
        """The query that runs."""
        assert self._job.query is not None, "the job has started"
        return self._job.query

    @property
    def next_offset(self) -> int:
        """All records before this offset are in the tables, signs of life aside."""
        return self._job.next_offset

    def process_all(self) -> None:
        """Return once Spark has nothing left to read: all records and the leases that ended by them are published.

        It may never return while others write to the topic; then use `await_published`.
        """
        try:
            self.query.processAllAvailable()
        except Exception:
            self._thread.join(_START_LIMIT_S)  # the job's own error is more exact
            self.check()
            raise

    def await_published(self, limit_s: float) -> bool:
        """Wait until all records that Kafka has now are in the tables, signs of life aside. Return whether they are.

        The wait is `limit_s` at most, and none if the query does not run. Others may go on writing.
        """
        if not self._is_running:
            return False
        ends = end_offsets(kafka_client_arguments(self._settings), self._settings.kafka_topic)
        end, given_up_s = ends.get(LOG_PARTITION, 0), time.monotonic() + limit_s
        while self._job.next_offset < end and self._is_running and time.monotonic() < given_up_s:
            self._thread.join(_LOOK_EVERY_S)
        return self._job.next_offset >= end

    @property
    def _is_running(self) -> bool:
        return self._job.started.is_set() and not self.has_ended

    def _run(self) -> None:
        try:
            self._job.run(self._stop)
        except BaseException as error:  # a thread has no caller that would see it
            self._failure = error
        finally:
            self._job.started.set()

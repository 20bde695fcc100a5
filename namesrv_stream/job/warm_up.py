"""Warm a Spark session up: its first micro-batch takes ten times as long as the next ones.

In it the JVM compiles, Python workers start and import, and Kafka's consumers connect. A job that replaces another one
warms up while the other still publishes. A job that is started right after the other died begins cold: Kafka gives it
the lock within 6 s, before its warm-up ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.job.checkpoint import remove_folder
from namesrv_stream.job.micro_batch import collected
from namesrv_stream.job.query import check_query, registry_rows, show_workers_this_package
from namesrv_stream.job.source import kafka_records
from namesrv_stream.kafka.record_reader import LOG_PARTITION
from namesrv_stream.kafka.topic import beginning_offsets, end_offsets

log = logging.getLogger(__name__)

_RECORDS = 100
_LOOK_EVERY_S = 0.2
AT_MOST_S = 60
"""Limit of a warm-up, which takes 10 s. A job that is about to claim the registry does not wait for one that hangs."""


class WarmUp:
    """A run of the registry's query plan over the newest records, whose rows are dropped.

    It has its own checkpoint beside the registry's and removes it. An error is only a warning: without a warm-up the
    job is slower at first.
    """

    def __init__(self, spark: SparkSession, settings: NamesrvSettings, run_id: str) -> None:
        self.is_done = False
        """True once the warm-up has ended or failed, or the registry's own query has started."""
        self._spark = spark
        self._settings = settings
        self._location = f"{settings.checkpoint_location.rstrip('/')}/warm-up-{run_id}"
        self._is_stopping = False

    def run(self, *ends: threading.Event) -> None:
        """Warm the session up unless that is done, until one of the events is set."""
        if self.is_done or _any_set(ends):
            return
        log.info("warms the session up until it is this job's turn")
        try:
            self.is_done = self._ran_to_its_end(ends)
        except Exception as error:  # if it matters, the job gets the same error later and reports it
            self.is_done = True
            log.warning("the session was not warmed up, so the first micro-batch takes longer: %s", error)
        with suppress(PySparkException, Py4JError):  # it may fail for the same reason as the warm-up
            remove_folder(self._spark, self._location)

    def _ran_to_its_end(self, ends: Sequence[threading.Event]) -> bool:
        """Run the query and return whether it ended. A standby waits anyway, so it has no time limit."""
        self._is_stopping = False
        query, until_s = self._started(), time.monotonic() + AT_MOST_S
        try:
            while (is_active := query.isActive) and not _any_set(ends):
                if time.monotonic() >= until_s and not self._settings.standby:
                    raise TimeoutError(f"it has not come to its end within {AT_MOST_S:.0f} s")
                time.sleep(_LOOK_EVERY_S)
            if (failure := query.exception()) is not None:
                raise failure
            return not is_active
        finally:
            self._is_stopping = True
            query.stop()

    def _started(self) -> StreamingQuery:
        kafka, topic = kafka_client_arguments(self._settings), self._settings.kafka_topic
        first = beginning_offsets(kafka, topic).get(LOG_PARTITION, 0)
        end = end_offsets(kafka, topic).get(LOG_PARTITION, 0)
        show_workers_this_package(self._spark)
        check_query(self._spark, self._settings)
        records = kafka_records(self._spark, self._settings, max(first, end - _RECORDS))
        return (
            registry_rows(records)
            .writeStream.queryName("warm-up")
            .foreachBatch(lambda frame, _batch_id: collected(frame, lambda: self._is_stopping))
            .option("checkpointLocation", self._location)
            .trigger(availableNow=True)
            .start()
        )


def _any_set(events: Sequence[threading.Event]) -> bool:
    return any(event.is_set() for event in events)

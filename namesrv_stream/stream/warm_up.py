"""Warm a Spark session up: its first micro-batch takes ten times as long as the next ones.

The JVM compiles, Python workers start and import, Kafka's consumers connect. A job that is to replace another one lets
all that happen while the other one still publishes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.kafka.reader import LOG_PARTITION
from namesrv_stream.kafka.topic import beginning_offsets, end_offsets
from namesrv_stream.stream.checkpoint import remove_folder
from namesrv_stream.stream.query import check_query, kafka_records, passed_on_records, show_workers_this_package
from namesrv_stream.stream.source import parsed_records

log = logging.getLogger(__name__)

_RECORDS = 100
_LOOK_EVERY_S = 0.2


def warm_up(spark: SparkSession, settings: NamesrvSettings, run_id: str, is_over: Callable[[], bool]) -> None:
    """Run the registry's plan over the newest records, and throw away what comes of it. Ends early once `is_over()`.

    It has a checkpoint of its own beside the registry's, which is removed. An error is a warning: the job is only
    slower without this.
    """
    log.info("warms the session up while another job is active")
    location = f"{settings.checkpoint_location.rstrip('/')}/warm-up-{run_id}"
    try:
        _run(spark, settings, location, is_over)
    except Exception as error:  # whatever it is, the job meets it again where it counts
        log.warning("the session was not warmed up, so the first micro-batch takes longer: %s", error)
    with suppress(PySparkException, Py4JError):  # it may be as away as what has failed above
        remove_folder(spark, location)


def _run(spark: SparkSession, settings: NamesrvSettings, location: str, is_over: Callable[[], bool]) -> None:
    kafka, topic = kafka_client_arguments(settings), settings.kafka_topic
    first = beginning_offsets(kafka, topic).get(LOG_PARTITION, 0)
    end = end_offsets(kafka, topic).get(LOG_PARTITION, 0)
    show_workers_this_package(spark)
    check_query(spark, settings)
    records = kafka_records(spark, settings, max(first, end - _RECORDS))
    query = (
        passed_on_records(parsed_records(records), settings)
        .writeStream.queryName("warm-up")
        .foreachBatch(_collect)
        .option("checkpointLocation", location)
        .trigger(availableNow=True)
        .start()
    )
    try:
        while query.isActive and not is_over():
            time.sleep(_LOOK_EVERY_S)
        if (failure := query.exception()) is not None:
            raise failure
    finally:
        query.stop()


def _collect(frame: DataFrame, _batch_id: int) -> None:
    frame.toArrow()

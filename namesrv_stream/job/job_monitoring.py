"""The job's monitoring pages, and Spark's reports on the query's progress, if a port for them is set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

from pyspark.sql import SparkSession

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.job.hang_watch import HangWatch, pid_of_jvm
from namesrv_stream.reporting.metrics_server import MonitoringServer, add_process_metrics
from namesrv_stream.stream.job_metrics import JobMetrics, ProgressListener
from namesrv_stream.stream.query import QUERY_NAME


def monitoring(
    spark: SparkSession, settings: NamesrvSettings, metrics: JobMetrics, watch: HangWatch
) -> AbstractContextManager[object]:
    """Serve the pages within a `with`; without job.metricsPort do nothing. Raises NamesrvError.

    A process that does not hang is healthy: to restart a job that waits for Kafka or for its turn mends nothing.
    """
    if not settings.job_metrics_port:
        return nullcontext()
    metrics.watch_storage(settings)
    add_process_metrics(metrics.registry, "namesrv_jvm", pid_of_jvm(spark))
    address = settings.bind_address, settings.job_metrics_port
    checks = {"/healthz": watch.health, "/readyz": lambda: watch.readiness() or metrics.readiness()}
    return closing(MonitoringServer(metrics.registry, address, "job.metricsPort", checks))


@contextmanager
def progress_to(metrics: JobMetrics, spark: SparkSession, settings: NamesrvSettings) -> Iterator[None]:
    """Have Spark report each micro-batch to `metrics` within the `with`; without job.metricsPort do nothing."""
    if not settings.job_metrics_port:
        yield
        return
    listener = ProgressListener(QUERY_NAME, metrics.progressed)
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        spark.streams.removeListener(listener)

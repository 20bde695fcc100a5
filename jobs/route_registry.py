"""Route registry under spark-submit: reads heartbeats from Kafka and keeps the route tables in Delta.

    SPARK_CONF_DIR=conf spark-submit jobs/route_registry.py -c conf/namesrv.properties

It runs until SIGTERM or Ctrl-C, which end it in order. If the executors of a cluster do not have the package, add
`--py-files` with a zip of the folder namesrv_stream.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from dataclasses import replace

import click
from pyspark.sql import SparkSession

from namesrv_stream.cli.submitted import takes_settings
from namesrv_stream.config import Invocation, kafka_client_arguments
from namesrv_stream.errors import NamesrvError
from namesrv_stream.job.background_job import stop_on_signals, stop_on_signals_to_jvm
from namesrv_stream.job.failures import JobHungError, LimitReachedError
from namesrv_stream.job.registry_job import RouteRegistryJob
from namesrv_stream.kafka.election import find_coordinator
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.reporting.metrics_server import require_port
from namesrv_stream.tables.root import Root
from namesrv_stream.tools.local.spark import forget_session, halt_session, set_up_spark_log

log = logging.getLogger("namesrv_stream.route_registry")


@click.command()
@takes_settings
@click.option("--standby", is_flag=True, help="Wait while another job is active, and take over when it ends.")
@click.option("--accept-new-log", is_flag=True, help="Keep the tables, and continue with another topic or Kafka.")
@click.option("--debug", is_flag=True, help="Log more, and show tracebacks.")
def main(invocation: Invocation, standby: bool, accept_new_log: bool, debug: bool) -> None:
    """Run the route registry until SIGTERM or Ctrl-C."""
    set_up_logging(logging.DEBUG if debug else logging.INFO)
    stop = threading.Event()
    try:
        settings = replace(invocation, options=invocation.options | ({"standby": "true"} if standby else {})).settings
        set_up_logging(log_format=settings.log_format)
        root = Root(settings.delta_root, settings.storage_options or None)
        require_port((settings.bind_address, settings.job_metrics_port), "job.metricsPort")
        find_coordinator(kafka_client_arguments(settings), settings.kafka_topic, root.hadoop_url)
        spark = SparkSession.builder.appName("route-registry").getOrCreate()
        set_up_spark_log(spark, settings.log_format)
        stop_on_signals(stop)  # only now: Spark sets a handler of its own when it starts
        stop_on_signals_to_jvm(spark, stop)
        try:
            RouteRegistryJob(spark, settings, accepts_new_log=accept_new_log).run(stop)
        except LimitReachedError as error:
            halt_session(spark, f"route_registry: {error}", error.exit_status)
            raise
        finally:
            forget_session(spark)  # whose JVM may have died
        log.info("the job has stopped cleanly")
    except NamesrvError as error:
        if debug:
            raise
        click.echo(f"route_registry: {error}", err=True)
        if isinstance(error, JobHungError):
            os._exit(error.exit_status)  # a thread of a batch that hangs would keep the process
        sys.exit(error.exit_status)


if __name__ == "__main__":
    main()

"""The route registry under spark-submit: heartbeats on Kafka become route tables in Delta.

    SPARK_CONF_DIR=conf spark-submit jobs/route_registry.py -c conf/namesrv.properties

Runs until SIGTERM or Ctrl-C, which end it in order. On a cluster whose executors do not have the package, add
`--py-files` with a zip of the folder namesrv_stream.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path

import click
from pyspark.sql import SparkSession

from namesrv_stream.config import load_settings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.logs import set_up_logging
from namesrv_stream.stream.job import RouteRegistryJob
from namesrv_stream.stream.termination import stop_on_signals, stop_on_signals_to_jvm


@click.command()
@click.option("-c", "--config", type=click.Path(path_type=Path), help="Properties file with the settings.")
@click.option("-s", "--set", "options", multiple=True, metavar="KEY=VALUE", help="A setting; wins over the file.")
@click.option("--debug", is_flag=True, help="Log more, and show tracebacks.")
def main(config: Path | None, options: tuple[str, ...], debug: bool) -> None:
    """Run the route registry until SIGTERM or Ctrl-C."""
    set_up_logging(logging.DEBUG if debug else logging.INFO)
    stop = threading.Event()
    try:
        settings = load_settings(config, os.environ, dict(_pair(option) for option in options))
        spark = SparkSession.builder.appName("route-registry").getOrCreate()
        stop_on_signals(stop)  # not before: Spark sets a handler of its own when it starts
        stop_on_signals_to_jvm(spark, stop)
        try:
            RouteRegistryJob(spark, settings).run(stop)
        finally:
            spark.stop()
    except NamesrvError as error:
        if debug:
            raise
        click.echo(f"route_registry: {error}", err=True)
        sys.exit(error.exit_status)


def _pair(option: str) -> tuple[str, str]:
    key, _, value = option.partition("=")
    return key, value


if __name__ == "__main__":
    main()

"""Options, errors and Spark session of the spark-submit programs that work on a registry's tables."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

from namesrv_stream.cli.view import root_of
from namesrv_stream.config import Invocation
from namesrv_stream.errors import NamesrvError
from namesrv_stream.logs import set_up_logging
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import SNAPSHOT


def table_job(program: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds -c and --root to a click command and passes their registry as its first argument.

    The registry is opened before Spark starts. A NamesrvError is printed as its message and ends the program with the
    error's exit status.
    """

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        @click.option("-c", "--config", type=click.Path(path_type=Path), help="Properties file with the settings.")
        @click.option("--root", metavar="FOLDER", help="Folder or URL of the tables (setting delta.root).")
        @functools.wraps(function)
        def command(config: Path | None, root: str | None, **options: Any) -> None:
            set_up_logging()
            try:
                function(_registry(config, root), **options)
            except NamesrvError as error:
                click.echo(f"{program}: {error}", err=True)
                sys.exit(error.exit_status)

        return command

    return decorated


def _registry(config: Path | None, root: str | None) -> Root:
    place = root_of(Invocation(config, {} if root is None else {"delta.root": root}).settings)
    place.open(SNAPSHOT)
    return place


@contextmanager
def submitted_session(app_name: str) -> Iterator[SparkSession]:
    """Yield the Spark session that spark-submit's options describe, and stop it at the end of the `with`."""
    spark = SparkSession.builder.appName(app_name).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()

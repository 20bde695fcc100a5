"""The main job in a process that kills itself at a point: `python -m chaos.job SETTINGS [--die-at POINT] [--standby]`.

The points are those of a publication and `COMMITTED`. SIGKILL goes to the whole process group, the JVM included.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path

import click
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from namesrv_stream.config import load_settings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.job import hang_watch, micro_batch
from namesrv_stream.job.background_job import stop_on_signals
from namesrv_stream.job.registry_job import RouteRegistryJob
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.tables import publication
from namesrv_stream.tables.publication import POINTS
from namesrv_stream.tools.local.spark import forget_session, local_session

COMMITTED = "committed"
"""Spark has committed a micro-batch to its checkpoint."""

FAILPOINTS = (*POINTS, COMMITTED)


class Failpoint:
    """Ends this process at the `count`th time that the point is reached."""

    def __init__(self, point: str | None, count: int) -> None:
        self._point = point
        self._left = count
        self._one_at_a_time = threading.Lock()

    def __call__(self, point: str) -> None:
        """Take note of a point, from any thread."""
        with self._one_at_a_time:
            self._left -= point == self._point
            if self._point is not None and self._left == 0:
                os.killpg(0, signal.SIGKILL)


class _Commits(StreamingQueryListener):
    """Reports Spark's own commits to the failpoint."""

    def __init__(self, failpoint: Failpoint) -> None:
        self._failpoint = failpoint

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's contract, as those below
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: ARG002, N802
        self._failpoint(COMMITTED)


@click.command()
@click.argument("settings", type=click.Path(path_type=Path))
@click.option("--die-at", type=click.Choice(FAILPOINTS))
@click.option("--count", default=1, help="At which time of this point.")
@click.option("--standby", is_flag=True)
@click.option("--batch-looks", default=hang_watch.BATCH_LOOKS, help="After so many a micro-batch without a step hangs.")
def main(settings: Path, die_at: str | None, count: int, standby: bool, batch_looks: int) -> None:
    """Run the job, with the settings of a properties file, until SIGTERM or the point."""
    hang_watch.BATCH_LOOKS = batch_looks
    micro_batch.PUBLICATIONS_BETWEEN_CARE, publication.MAX_SMALL_FILES = 5, 3  # so that a short run compacts too
    failpoint = Failpoint(die_at, count)
    set_up_logging(logging.INFO)
    given = load_settings(settings, {}, {"standby": "true"} if standby else {})
    stop = threading.Event()
    spark = local_session("job", cores="2")
    if die_at == COMMITTED:
        spark.streams.addListener(_Commits(failpoint))
    stop_on_signals(stop)
    try:
        RouteRegistryJob(spark, given, failpoint).run(stop)
    except NamesrvError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_status)
    finally:
        forget_session(spark)


if __name__ == "__main__":
    main()

"""Options, error handling and Spark session of the programs under spark-submit."""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from namesrv_stream.cli.entry import settings_options
from namesrv_stream.cli.sigterm import ends_on_sigterm
from namesrv_stream.cli.view import root_of
from namesrv_stream.config import Invocation
from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.tables.schemas import SNAPSHOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def takes_settings(function: Callable[..., None]) -> Callable[..., None]:
    """Add -c, --set and --root to a click command, and pass their `Invocation` as its first argument."""
    command = click.pass_obj(function)
    command.__dict__.setdefault("__click_params__", []).extend(settings_options("-s", "--set"))
    return command


def table_job(
    program: str, when_terminated: str = "Run it again."
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a program that works on a registry's tables.

    It adds -c, --set and --root to a click command, and passes their registry and settings as its first arguments. The
    registry is opened before Spark starts. A NamesrvError is printed as its message and ends the program with the
    error's exit status. SIGTERM ends the program at once with the line `when_terminated`; within a session of
    `submitted_session` also SIGTERM to spark-submit.
    """

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        @takes_settings
        @functools.wraps(function)
        def command(invocation: Invocation, **options: Any) -> None:
            set_up_logging()
            try:
                with ends_on_sigterm(program, when_terminated):
                    root = root_of(invocation.settings)
                    root.open(SNAPSHOT)
                    function(root, invocation.settings, **options)
            except NamesrvError as error:
                click.echo(f"{program}: {error}", err=True)
                sys.exit(error.exit_status)

        return command

    return decorated


class _TerminatesMainThread(threading.Event):
    """An event whose `set` sends SIGTERM to the main thread, for a signal that another thread has received."""

    def set(self) -> None:
        """Set the event and send the signal."""
        super().set()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


@contextmanager
def submitted_session(app_name: str) -> Iterator[SparkSession]:
    """Yield the Spark session that spark-submit's options describe, and stop it at the end of the `with`.

    Another thread stops it over its own connection to the JVM, because a call that SIGTERM ended still uses this
    thread's.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- the churn report needs no Spark

    from namesrv_stream.job.termination import stop_on_signals_to_jvm  # noqa: PLC0415 -- as above

    spark = SparkSession.builder.appName(app_name).getOrCreate()
    stop_on_signals_to_jvm(spark, _TerminatesMainThread())
    try:
        yield spark
    finally:
        stopping = threading.Thread(target=spark.stop, name="stop-spark", daemon=True)
        stopping.start()
        stopping.join()

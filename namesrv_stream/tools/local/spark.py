"""Create a Spark session for work in this process; under spark-submit the session comes from there."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from namesrv_stream.tools.local.jars import HOME
from namesrv_stream.tools.local.process import HOST
from namesrv_stream.tools.local.submission import driver_start, named_login, names_in_utf8, spark_home


def local_session(
    app_name: str,
    options: Mapping[str, str] | None = None,
    cores: str = "*",
    log: Path | None = None,
    temp: Path | None = None,
) -> SparkSession:
    """Return a session on `local[cores]`, started as `driver_start` says with `options` over all but the master.

    `log` receives the output of the JVM, which otherwise goes to standard error. Python workers run this interpreter,
    because another one on the PATH may lack the dependencies. The handler of Ctrl-C stays as it was, and runs once the
    session exists.
    """
    # No jars: conf/ names them relative to the checkout, and the class path has them.
    own = {"spark.ui.enabled": "false", "spark.sql.warehouse.dir": str(HOME / "data" / "warehouse"), "spark.jars": ""}
    start = driver_start({**own, **(options or {}), "spark.master": f"local[{cores}]"}, temp=temp)
    builder = SparkSession.builder.appName(app_name)
    for key, value in start.options.items():
        builder = builder.config(key, value)
    os.environ.setdefault("SPARK_LOCAL_IP", HOST)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with _submitted_with(start.settings_file), _standard_error_to(log), _interrupted_at_the_end():
        session = builder.getOrCreate()
    server: Any = session.sparkContext._accumulatorServer  # noqa: SLF001
    server.handle_error = lambda *_: None  # it would print a traceback when the JVM dies
    return session


def forget_session(spark: SparkSession) -> None:
    """Stop the session, whose JVM may have died, and let the next one start a JVM of its own."""
    with suppress(Exception):  # any error of pyspark's calls to a dead JVM
        spark.stop()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001  # pyspark does not forget a JVM that has died


@contextmanager
def _submitted_with(settings_file: Path) -> Iterator[None]:
    """Let pyspark start its JVM with these settings within the `with`, without their folder on the class path."""
    named = names_in_utf8() | named_login()
    names = ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_HOME", *named)
    before = {name: os.environ[name] for name in names if name in os.environ}
    own = before.get("PYSPARK_SUBMIT_ARGS") or "pyspark-shell"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {shlex.quote(str(settings_file))} {own}"
    os.environ["SPARK_HOME"] = str(spark_home(is_local=True))
    os.environ |= named
    os.environ.pop("SPARK_CONF_DIR", None)
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)


def set_up_spark_log(spark: SparkSession, log_format: str) -> None:
    """Apply the setting log.format to the lines that Spark's driver logs from now on.

    NAMESRV_LOG_FORMAT in the environment applies from the first line on.
    """
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    jvm.java.lang.System.setProperty("namesrv.log.format", log_format)
    jvm.org.apache.logging.log4j.core.config.Configurator.reconfigure()


def halt_session(spark: SparkSession, last_line: str, exit_status: int) -> None:
    """Have the JVM print `last_line` on its standard error and end at once.

    An ordinary shutdown opens files and closes native stores. A JVM without descriptors crashed in it before it had
    passed on the output of this process. Returns if the JVM does not answer.
    """
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    with suppress(Py4JError, OSError):
        jvm.java.lang.System.err.println(last_line)
        jvm.java.lang.Runtime.getRuntime().halt(exit_status)


@contextmanager
def _interrupted_at_the_end() -> Iterator[None]:
    """Let Ctrl-C act at the end of the `with`, by the handler that is in force at its beginning.

    pyspark installs its own handler, which cancels all jobs and would end a streaming query in the middle of a batch.
    Besides, a JVM would stay if its parent ended before the JVM had started.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield
        return
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def _standard_error_to(log: Path | None) -> Iterator[None]:
    """Send standard error to `log` within the `with`. A JVM that starts meanwhile and its Python workers inherit it."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    own = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)

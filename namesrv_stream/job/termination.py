"""Receive the signal that ends the job, in this process or in the JVM that started it."""

from __future__ import annotations

import signal
import threading
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

_SIGNALS = ("TERM", "INT")


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

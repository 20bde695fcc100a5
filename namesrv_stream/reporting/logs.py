"""Send this package's log to standard error: one line an event, few lines from libraries, and few for each peer."""

from __future__ import annotations

import io
import json
import logging
import math
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO

import click

from namesrv_stream.errors import masked

PROGRESS_EVERY_S = 10.0

Activity = str | Callable[[], str]
"""The present work of a program: a text, or a function that returns it when a line is printed."""

QUIET = {
    "kafka": logging.CRITICAL,  # logs each lost connection several times; this package logs the consequence
    "librdkafka": logging.CRITICAL,
    "py4j": logging.CRITICAL,  # repeats an error of a micro-batch that the job reports, or reports a normal stop
    "uvicorn": logging.WARNING,  # names each step of its start and its end
}
"""Logger of a library -> the least level of its messages that are logged, but for --debug."""

_QUIET_IN_DEBUG = {
    "py4j": logging.INFO,  # logs each call into the JVM twice: thousands of lines before the first micro-batch
}

LINES_OF_A_HOST = 10
LINES_OF_ALL = 200
_HOSTS_SUMMED_UP = 10
_WINDOW_S = 10.0
_KIND_EVERY_S = 60.0

_FACTS = ("epoch", "offset", "address")
"""Attributes that a caller may add to a record by `extra`. A line in JSON has them as fields."""

_LEFT_OUT = (
    "%s: %d more lines about its connections, requests and brokers in %.0f s are left out; `namesrv-stream history` "
    "lists brokers that came online or went offline"
)


@dataclass
class Progress:
    """Progress of a program. Its user sets `activity`."""

    activity: Activity


@contextmanager
def progress(program: str, activity: Activity = "starting Spark") -> Iterator[Progress]:
    """Print the activity that the yielded object has on standard error, every ten seconds within the `with`."""
    shown, ended, began_s = Progress(activity), threading.Event(), time.monotonic()

    def print_until_ended() -> None:
        while not ended.wait(PROGRESS_EVERY_S):
            present = shown.activity if isinstance(shown.activity, str) else shown.activity()
            click.echo(f"{program}: {present} ({time.monotonic() - began_s:,.0f} s since the start)", err=True)

    thread = threading.Thread(target=print_until_ended, name="progress", daemon=True)
    thread.start()
    try:
        yield shown
    finally:
        ended.set()
        thread.join()


def set_up_logging(level: int = logging.INFO, log_format: str | None = None) -> None:
    """Log messages of `level` and above; at DEBUG those of the libraries too.

    Standard output replaces the letters that a terminal in another encoding than UTF-8 lacks: no answer ends by one.

    `log_format` is the setting log.format: text or json; None leaves it as it is, text at first. A level that was set
    before is never raised, so --debug stays in force when a command asks for its own level.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a notebook has another one
        sys.stdout.reconfigure(errors="replace")
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_StderrHandler())
        log_format = log_format or "text"
    if log_format is not None:
        formatter = JsonLine() if log_format == "json" else OneLine("%(asctime)s %(levelname)s %(message)s")
        for handler in root.handlers:
            if isinstance(handler, _StderrHandler):
                handler.setFormatter(formatter)
    root.setLevel(min(level, root.level))
    root.addFilter(_is_no_call_to_a_dead_jvm)
    for name, quiet_level in QUIET.items():
        debug_level = _QUIET_IN_DEBUG.get(name, logging.NOTSET)
        logging.getLogger(name).setLevel(debug_level if root.level <= logging.DEBUG else quiet_level)


def _is_no_call_to_a_dead_jvm(record: logging.LogRecord) -> bool:
    """Leave out the tracebacks that py4j logs by the root logger; the error is raised to the caller too."""
    return "py4j" not in record.pathname or logging.getLogger().level <= logging.DEBUG


@contextmanager
def only_errors(name: str) -> Iterator[None]:
    """Suppress warnings of the logger `name` within the `with`."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class OncePerMinute:
    """Kinds of problems, each logged once a minute. The texts are not compared, because they contain changing times."""

    def __init__(self) -> None:
        self._logged_at_s: dict[type, float] = {}

    def is_due(self, error: BaseException) -> bool:
        """Return whether to log the error: none of its kind was logged in the last minute."""
        now_s = time.monotonic()
        if now_s - self._logged_at_s.get(type(error), -math.inf) < _KIND_EVERY_S:
            return False
        self._logged_at_s[type(error)] = now_s
        return True


@dataclass(slots=True)
class _Window:
    began_s: float
    lines: int = 0
    left_out: int = 0


class PeerLog:
    """The log of peers that come, go, or are refused, with a count of the lines that are left out.

    In ten seconds it logs at most ten lines for each host and 200 for all, of each level: brokers that come and go take
    no warning's place. If Kafka is too slow or a network breaks, thousands are refused or lost at the same time.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._log = logger
        self._windows: dict[tuple[int, str], _Window] = {}
        self._all: dict[int, _Window] = {}

    def line(self, host: str, now_s: float, level: int, message: str, address: str | None = None) -> None:
        """Log a line about `host`, unless the host or all hosts have reached their limit in these ten seconds.

        `address`: the broker that the line is about, a field of the line in JSON.
        """
        if not self._log.isEnabledFor(level):
            return
        of_all = self._all.setdefault(level, _Window(now_s))
        if now_s - of_all.began_s >= _WINDOW_S:
            of_all = self._all[level] = _Window(now_s)
        window = self._windows.setdefault((level, host), _Window(now_s))
        if window.lines < LINES_OF_A_HOST and of_all.lines < LINES_OF_ALL:
            window.lines += 1
            of_all.lines += 1
            self._log.log(level, "%s", message, extra={"address": address} if address else None)
        else:
            window.left_out += 1

    def sum_up(self, now_s: float) -> None:
        """Log for the hosts whose ten seconds are over how many lines were left out: a line each for ten of them."""
        over = [key for key, window in self._windows.items() if now_s - window.began_s >= _WINDOW_S]
        left_out: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for level, host in over:
            if count := self._windows.pop((level, host)).left_out:
                left_out[level][host] = count
        for level, counts in left_out.items():
            self._sum_up(level, sorted(counts.items(), key=lambda each: -each[1]))

    def _sum_up(self, level: int, most: Sequence[tuple[str, int]]) -> None:
        for host, count in most[:_HOSTS_SUMMED_UP]:
            self._log.log(level, _LEFT_OUT, host, count, _WINDOW_S)
        if others := most[_HOSTS_SUMMED_UP:]:
            count = sum(count for _, count in others)
            self._log.log(level, "%d other addresses: %d more such lines in %.0f s are left out", len(others), count,
                          _WINDOW_S)  # fmt: skip


def printable(text: str) -> str:
    """Escape the characters of `text` that cannot be printed.

    So text from a peer can neither begin a new line in the log nor control a terminal.
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class OneLine(logging.Formatter):
    """Print each message on one line, whatever characters it has. A traceback follows on lines of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: D102, N802 - logging's name
        record.message = printable(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:  # noqa: D102 - logging's contract
        return masked(super().format(record))


class JsonLine(logging.Formatter):
    """Print each record as one line with a JSON object, its traceback as a field."""

    def format(self, record: logging.LogRecord) -> str:  # noqa: D102 - logging's contract
        at = datetime.fromtimestamp(record.created, UTC)
        fields = {
            "time": at.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        facts = {name: getattr(record, name, None) for name in _FACTS}
        fields |= {name: fact for name, fact in facts.items() if fact is not None}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return masked(json.dumps(fields))


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Write to the present `sys.stderr`, because a progress display replaces it to print lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

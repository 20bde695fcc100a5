"""Send this package's log to standard error: one line an event, and little of what the libraries log."""

from __future__ import annotations

import json
import logging
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

from namesrv_stream.errors import masked

_QUIET = {
    "kafka": logging.CRITICAL,  # logs each lost connection several times; this package logs the consequence
    "librdkafka": logging.CRITICAL,
    "py4j": logging.CRITICAL,  # repeats an error of a micro-batch that the job reports, or reports a normal stop
    "uvicorn": logging.WARNING,  # names each step of its start and its end
}

_QUIET_IN_DEBUG = {
    "py4j": logging.INFO,  # logs each call into the JVM twice: thousands of lines before the first micro-batch
}

_KIND_EVERY_S = 60.0

_FACTS = ("epoch", "offset", "address")
"""Attributes that a record may have by `extra`. They are fields of a line in JSON."""


def set_up_logging(level: int = logging.INFO, log_format: str | None = None) -> None:
    """Log messages of `level` and above; at DEBUG those of the libraries too.

    `log_format` is the setting log.format: text or json; None leaves it as it is, text at first. A long-running command
    asks for a lower level than the command line itself. A level that was set before is never raised, so --debug stays
    in force.
    """
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_StandardError())
        log_format = log_format or "text"
    if log_format is not None:
        formatter = JsonLine() if log_format == "json" else OneLine("%(asctime)s %(levelname)s %(message)s")
        for handler in root.handlers:
            if isinstance(handler, _StandardError):
                handler.setFormatter(formatter)
    root.setLevel(min(level, root.level))
    for name, quiet_level in _QUIET.items():
        debug_level = _QUIET_IN_DEBUG.get(name, logging.NOTSET)
        logging.getLogger(name).setLevel(debug_level if root.level <= logging.DEBUG else quiet_level)


@contextmanager
def errors_alone(name: str) -> Iterator[None]:
    """Suppress warnings of the logger `name` within the `with`."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class Kinds:
    """Kinds of problems that are logged once a minute each, whatever their texts are: those have changing times in."""

    def __init__(self) -> None:
        self._logged_at_s: dict[type, float] = {}

    def is_due(self, error: BaseException) -> bool:
        """Return whether no error of this kind was due in the last minute."""
        now_s = time.monotonic()
        if now_s - self._logged_at_s.get(type(error), -math.inf) < _KIND_EVERY_S:
            return False
        self._logged_at_s[type(error)] = now_s
        return True


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


class _StandardError(logging.StreamHandler[TextIO]):
    """Write to the `sys.stderr` of the moment, because a progress display replaces it to print lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

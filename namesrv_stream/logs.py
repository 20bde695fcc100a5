"""Where this package's own log goes: to stderr, one line an event, quiet about what the libraries do."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_QUIET = {
    "kafka": logging.CRITICAL,  # says each lost connection several times; what follows from it is logged by us
    "librdkafka": logging.CRITICAL,
    "py4j": logging.CRITICAL,  # tells what a micro-batch raised, which the job tells, and that a stop broke one off
}


def set_up_logging(level: int = logging.INFO) -> None:
    """Log `level` and above; at DEBUG the libraries too.

    A command that runs for long asks for more than the command line itself does. What was asked for before is never
    made less: --debug stays.
    """
    handler = _StandardError()
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    root = logging.getLogger()
    root.setLevel(min(level, root.level))
    for name, quiet_level in _QUIET.items():
        logging.getLogger(name).setLevel(logging.NOTSET if root.level <= logging.DEBUG else quiet_level)


@contextmanager
def errors_alone(name: str) -> Iterator[None]:
    """Within the `with` the logger `name` says no warnings."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def printable(text: str) -> str:
    """The text with what cannot be printed escaped: what peers send can neither begin a line nor steer a terminal."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class _OneLine(logging.Formatter):
    """A message is one line, whatever is in it; a traceback below it has its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = printable(record.message)
        return super().formatMessage(record)


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what stands for standard error at that moment: a progress display puts lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

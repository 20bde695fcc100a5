"""Limits of the machine that end a job: no descriptor or port is left, or Spark is a release that uses them up."""

from __future__ import annotations

import os
import re

from namesrv_stream.errors import NamesrvError

_NONE_LEFT = re.compile(r"[^\n]*(?:Too many open files|BindException|Cannot assign requested address)[^\n]*")
_MAX_CHARS = 300

SOUND_SPARK = (4, 2, 1)
"""The first release of Spark 4.2 without SPARK-58932. This package's connectors are those of 4.2."""


class LimitReachedError(NamesrvError):
    """The job or its JVM has no descriptor or no port left. To try again in the same process would not mend that."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"no descriptor or port is left for this job: {problem}. Raise the limit of open files (`ulimit -n`, "
            "systemd's LimitNOFILE), see by `lsof` what holds so many, and start the job again. Nothing is lost."
        )
        self.problem = problem


class LeakingSparkError(NamesrvError):
    """This release of Spark leaks a socket of the JVM for each task of the stateful step."""

    def __init__(self, version: str) -> None:
        needed = ".".join(map(str, SOUND_SPARK))
        super().__init__(
            f"Spark {version} never closes the sockets of the stateful step (SPARK-58932), so that a job dies within "
            f"hours: use pyspark {needed}, and on a cluster Spark {needed}."
        )
        self.version = version


def limit_reached(*reported: str) -> LimitReachedError | None:
    """Return the error if one of these texts reports that no descriptor or port is left."""
    found = next(filter(None, map(_NONE_LEFT.search, reported)), None)
    return None if found is None else LimitReachedError(found[0].strip()[-_MAX_CHARS:].rstrip("."))


def require_descriptor() -> None:
    """Raise LimitReachedError if this process can open no file or socket any more.

    Its query would seem to run for ever: py4j's server, by which Spark calls it, has ended by then.
    """
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        raise LimitReachedError(str(error)) from error


def require_sound_spark(version: str) -> None:
    """Raise LeakingSparkError for a release of Spark that leaks sockets, and for any that is older than 4.2."""
    if tuple(map(int, re.findall(r"\d+", version)[:3])) < SOUND_SPARK:
        raise LeakingSparkError(version)

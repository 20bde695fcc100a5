"""spark-submit for the programs of jobs/, with the settings of `conf/`, from any folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from namesrv_stream.tools.local.driver import driver_start
from namesrv_stream.tools.local.jars import CONF
from namesrv_stream.tools.local.ports import HOST
from namesrv_stream.tools.local.spark_home import spark_home

PROGRAMS = ("route_registry", "maintain_tables", "churn_report")
"""The programs of jobs/."""


class Submission(NamedTuple):
    """A command line of spark-submit and its environment."""

    command: list[str]
    environment: dict[str, str]


def submission(
    program: str,
    arguments: Sequence[str],
    *,
    spark_options: Mapping[str, str] | None = None,
    records_archive: Path | None = None,
    uses_archive: bool = True,
) -> Submission:
    """Return how spark-submit runs one of `PROGRAMS`; the options are those of `driver_start`."""
    start = driver_start(spark_options, records_archive=records_archive, uses_archive=uses_archive)
    home = spark_home(is_local=start.is_local)
    return Submission(
        [
            str(home / "bin" / "spark-submit"),
            *("--properties-file", str(start.settings_file)),
            *(word for key, value in start.options.items() for word in ("--conf", f"{key}={value}")),
            str(CONF.parent / "jobs" / f"{program}.py"),
            *arguments,
        ],
        _environment(home, is_local=start.is_local),
    )


def _environment(home: Path, *, is_local: bool) -> dict[str, str]:
    """Return the environment. Executors of a cluster have a Python of their own, local workers have this one."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
    environment["SPARK_HOME"] = str(home)
    environment.setdefault("SPARK_LOCAL_IP", HOST)  # as conf/spark-env.sh
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local:
        environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"]
    return environment

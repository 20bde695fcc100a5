"""spark-submit with the settings of `conf/`, from any folder, and with the archive of classes if there is one.

An archive of Java (class data sharing) has the classes that the job loads, in the form in which Java keeps them in
memory: Spark's are some 15,000, and loading them is a third of a start. Java uses none with a folder of files on the
class path, which `SPARK_CONF_DIR` puts there; so the settings are passed by `--properties-file`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from namesrv_stream.local.jars import CONF, JARS, jars_of_sessions

PROGRAMS = ("route_registry", "maintain_tables", "churn_report")
"""The programs of jobs/."""

ARCHIVE = JARS / "job.jsa"
"""The archive of classes. Java takes no notice of it after an update of Java, pyspark or the jars."""


class Submission(NamedTuple):
    """A command line of spark-submit and its environment."""

    command: list[str]
    environment: dict[str, str]


def submission(
    program: str,
    arguments: Sequence[str],
    *,
    master: str | None = None,
    spark_options: Mapping[str, str] | None = None,
    records_archive: Path | None = None,
) -> Submission:
    """Return how spark-submit runs one of `PROGRAMS`.

    `spark_options` win over conf/spark-defaults.conf. With `records_archive` Java uses no archive and writes one to
    this file when the program ends. What the environment sets for Spark counts, but for SPARK_CONF_DIR.
    """
    options = {"spark.jars": ",".join(map(str, jars_of_sessions())), **(spark_options or {})}
    java = [options.pop("spark.driver.defaultJavaOptions", ""), *_java_options(records_archive)]
    options["spark.driver.defaultJavaOptions"] = " ".join(java).strip()
    return Submission(
        [
            str(_spark_home() / "bin" / "spark-submit"),
            *(() if master is None else ("--master", master)),
            *("--properties-file", str(CONF / "spark-defaults.conf")),
            *(word for key, value in options.items() for word in ("--conf", f"{key}={value}")),
            str(CONF.parent / "jobs" / f"{program}.py"),
            *arguments,
        ],
        _environment(master),
    )


def _java_options(records_archive: Path | None) -> list[str]:
    options = [f'"-Dlog4j2.configurationFile={CONF / "log4j2.properties"}"']
    if records_archive is not None:
        options.append(f'"-XX:ArchiveClassesAtExit={records_archive}"')
    elif ARCHIVE.exists():
        options.append(f'"-XX:SharedArchiveFile={ARCHIVE}"')
    return options


def _environment(master: str | None) -> dict[str, str]:
    """Return the environment. Executors of a cluster have a Python of their own, local workers have this one."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # as conf/spark-env.sh
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master is None or master.startswith("local"):
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
    return environment


def _spark_home() -> Path:
    """Return SPARK_HOME, or the folder of pyspark, which takes a second to import."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    assert spec is not None, "pyspark is a dependency"
    assert spec.origin is not None, "pyspark is a package in a folder"
    return Path(spec.origin).parent

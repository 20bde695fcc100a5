"""Checks of what the job needs on its machine: Java, jars, Python workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version

import msgspec

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.job.failures import require_sound_spark
from namesrv_stream.tools.doctor.finding import Finding, State
from namesrv_stream.tools.local.jars import JARS, is_retrieved
from namesrv_stream.tools.local.java import OLDEST_JAVA, find_java, java_version

_WORKER_LIMIT_S = 60.0
_PACKAGES = ("pyspark", "pyarrow", "protobuf", "pandas")
_REPORT = (
    "import json, sys\n"
    "from importlib.metadata import version\n"
    f"print(json.dumps([list(sys.version_info[:2]), *map(version, {_PACKAGES!r})]))\n"
)


def check_java(_settings: NamesrvSettings) -> Iterator[Finding]:
    """Look for a Java that Spark can use."""
    java = find_java()
    yield Finding("Java", "ok", f"{java} is Java {java_version(java)}, and {OLDEST_JAVA} or newer is needed")


def check_jars(settings: NamesrvSettings) -> Iterator[Finding]:
    """Look whether the jars of conf/ivy.xml were fetched."""
    needed = {"spark": "make install"}
    if "://" in settings.delta_root:
        needed["s3"] = "make install-s3, if Spark is to read these tables"
    for name, command in needed.items():
        if is_retrieved(name):
            yield Finding("jars", "ok", f"{JARS / name} has what conf/ivy.xml names")
        else:
            state: State = "failed" if name == "spark" else "warning"
            yield Finding("jars", state, f"{JARS / name} lacks the jars that conf/ivy.xml names", f"Run {command}.")


def check_spark(_settings: NamesrvSettings) -> Iterator[Finding]:
    """Look whether the installed pyspark is a release that leaks sockets."""
    installed = version("pyspark")
    require_sound_spark(installed)
    yield Finding("pyspark", "ok", f"pyspark {installed} closes the sockets of its stateful step (SPARK-58932)")


def check_workers(_settings: NamesrvSettings) -> Iterator[Finding]:
    """Start the Python of Spark's workers and compare its packages with those of this process."""
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    wanted = [list(sys.version_info[:2]), *map(version, _PACKAGES)]
    next_step = "Point PYSPARK_PYTHON at a Python with the packages of requirements.lock, on each executor too."
    try:
        done = subprocess.run(
            [python, "-c", _REPORT], capture_output=True, text=True, timeout=_WORKER_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("Python workers", "failed", f"{python} does not start: {error}", next_step)
        return
    if done.returncode:
        problem = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        yield Finding("Python workers", "failed", f"{python}: {problem[0]}", next_step)
    elif msgspec.json.decode(done.stdout) != wanted:
        found = f"{python} has {done.stdout.strip()}, the driver {msgspec.json.encode(wanted).decode()}"
        yield Finding("Python workers", "failed", found, next_step)
    else:
        yield Finding("Python workers", "ok", f"{python} has the packages of the driver")

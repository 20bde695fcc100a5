"""A small Spark cluster, and programs submitted to it."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import yaml

from namesrv_stream.tools.local.jars import CHECKOUT
from namesrv_stream.tools.local.process import HOST, OwnedProcess
from tests.waiting import until

SPARK_HOME = Path(pyspark.__file__).parent
JOB = CHECKOUT / "jobs" / "route_registry.py"
CHART_VALUES = CHECKOUT / "deploy" / "helm" / "namesrv-stream" / "values.yaml"
GRACE_S = yaml.safe_load(CHART_VALUES.read_text())["job"]["terminationGracePeriodSeconds"]
"""Time from SIGTERM to SIGKILL that the chart gives the job."""


def environment(python):
    """Return the environment of a user who has Spark and its configuration, and nothing else of ours."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "PYSPARK"))}
    return kept | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_CONF_DIR": str(CHECKOUT / "conf"),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": str(python),
    }


def spark_submit(*options, settings):
    of_job = [part for key, text in settings.items() for part in ("-s", f"{key}={text}")]
    return [SPARK_HOME / "bin" / "spark-submit", *options, JOB, *of_job]


def submitted(job, *options, limit_s=200):
    """Run a job of jobs/ that ends by itself on local[2]; return its output."""
    return subprocess.run(
        [SPARK_HOME / "bin" / "spark-submit", "--master", "local[2]", "--driver-memory", "1g", job, *options],
        cwd=CHECKOUT,
        env=environment(sys.executable),
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


@contextlib.contextmanager
def running(command, log, env):
    """A process that is stopped at the end of the `with` if it still runs then."""
    process = OwnedProcess(command, log, env)
    try:
        yield process
    finally:
        process.stop()


@contextlib.contextmanager
def running_shell(commands, log, env=None):
    """A shell with commands of a page; all that it has started is stopped with it at the end of the `with`."""
    with running(["bash", "-euo", "pipefail", "-c", commands], log, env) as shell:
        try:
            yield shell
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)


@contextlib.contextmanager
def running_job(command, log, env):
    """The job within the `with`, which SIGTERM to what was started must end in order."""
    with running(command, log, env) as job:
        yield
        os.kill(job.pid, signal.SIGTERM)
        assert exit_code_within_grace(job) == 0, log.read_text()[-5000:]
        assert "Traceback" not in log.read_text()


def exit_code_within_grace(process):
    until(lambda: process.exit_code is not None, GRACE_S)
    return process.exit_code
